# SPDX-License-Identifier: Apache-2.0
"""Four accounts in three regions each, as MiniStack has them (an access key of twelve digits is an account), and a tree of stacks for them."""

import boto3
from botocore.config import Config

import stacks
from images import Image
from servers import http

ACCOUNTS = ("111111111111", "222222222222", "333333333333", "444444444444")
REGIONS = ("eu-central-1", "us-east-1", "ap-southeast-2")
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
RETENTION_DAYS = 30


def places():
    """(account, region, name), of all twelve."""
    return [(account, region, f"{region}-{account[0]}") for account in ACCOUNTS for region in REGIONS]


def direct(cloud, service, account, region):
    """boto3 straight to the stand-in, in that account and region."""
    return boto3.session.Session().client(
        service, endpoint_url=cloud.standin.url, region_name=region, aws_access_key_id=account, aws_secret_access_key=SECRET,
        config=Config(s3={"addressing_style": "path"}, proxies={}),
    )  # fmt: skip


def prepare(cloud, berth):
    """Credentials as profiles, and in each account and region the image that all environments have."""
    image, profiles = Image(), []
    for digest, data in image.blobs.items():
        http("PUT", f"{cloud.url}/_proxy/blobs/{digest}", data)
    for account in ACCOUNTS:
        cloud.issue_credentials(account, SECRET)
        profiles.append(f"[profile a{account[0]}]\naws_access_key_id = {account}\naws_secret_access_key = {SECRET}\n")
    (berth.home / "config").write_text("\n".join(profiles))
    for account, region, _ in places():
        ecr = direct(cloud, "ecr", account, region)
        ecr.create_repository(repositoryName="alphaagent/prebuilt/python")
        ecr.put_image(
            repositoryName="alphaagent/prebuilt/python", imageTag="latest", imageManifest=image.manifest.decode(),
            imageManifestMediaType=image.media_type, imageDigest=image.digest,
        )  # fmt: skip


def write_tree(root, sizes):
    """common/ and a folder for each place, with as many environments of its own as `sizes` says. Their folders, in that order."""
    root.mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "common").mkdir()
    (root / "common/policies.yaml").write_text(stacks.text(stacks.policy("all", {"all": True}, expireAfterDays=30)))
    folders = []
    for (account, region, name), size in zip(places(), sizes, strict=True):
        folder = root / "stacks" / f"a{account[0]}" / region
        folder.mkdir(parents=True)
        aws = {"profile": f"a{account[0]}", "account": account, "region": region}
        environments = (stacks.environment(f"{name}-{n:03}", logRetentionDays=RETENTION_DAYS) for n in range(size))
        (folder / "stack.yaml").write_text(stacks.text(stacks.stack(name, aws=aws, include=["../../../common"])))
        (folder / "environments.yaml").write_text(stacks.text(*environments, stacks.agent(f"agent-{name}", f"{name}-000")))
        folders.append(folder)
    return folders
