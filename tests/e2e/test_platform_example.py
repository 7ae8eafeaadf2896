# SPDX-License-Identifier: Apache-2.0
"""examples/platform, as its README tells users to try it: three stacks of one tree, with what they need put there, planned and applied."""

import json
import shlex
import shutil

import boto3
import pytest
from botocore.config import Config
from images import Image

import stacks
from binary import ROOT
from lib.secrets_search import files_below, search
from proxy.settings import TEST_ACCESS_KEY, TEST_SECRET
from servers import http

EXAMPLE = ROOT / "examples" / "platform"
PROD, STAGING, BUILDERS = "111122223333", "444455556666", "777788889999"
PLACES = {"prod/eu-central-1": PROD, "prod/us-east-1": PROD, "staging/eu-west-1": STAGING}
PASSWORD, URL = "hunter8/Fourth+Goat=Hinge&Screw", "postgres://warehouse.example.com/all"


class Place:
    """The example's tree in the test's folder, and the accounts that it names. moto has one account for all access keys."""

    def __init__(self, cloud, berth):
        self.cloud, self.berth, self.tree = cloud, berth, berth.stack / "agents"
        self.changes = {}
        self.one_account = cloud.flavor == "moto"
        shutil.copytree(EXAMPLE, self.tree)
        (self.tree / ".git").mkdir()
        profiles = []
        for name, account in (("agents-prod", PROD), ("agents-staging", STAGING)):
            if self.one_account:
                self.changes[account] = cloud.account
            else:
                cloud.issue_credentials(account, TEST_SECRET)
            profiles.append(f"[profile {name}]\naws_access_key_id = {self.key_of(account)}\naws_secret_access_key = {TEST_SECRET}\n")
        (berth.home / "config").write_text("\n".join(profiles))
        for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
            del berth.env[variable]

    def key_of(self, account):
        return TEST_ACCESS_KEY if self.one_account else account

    def account(self, account):
        return self.cloud.account if self.one_account else account

    def client(self, service, account, region):
        """boto3 straight to the stand-in."""
        return boto3.session.Session().client(
            service, endpoint_url=self.cloud.standin.url, region_name=region, aws_access_key_id=self.key_of(account),
            aws_secret_access_key=TEST_SECRET, config=Config(s3={"addressing_style": "path"}, proxies={}),
        )  # fmt: skip

    def write(self):
        """What the example invents, by what is there."""
        for path in self.tree.rglob("*.yaml"):
            text = path.read_text()
            for invented, real in self.changes.items():
                text = text.replace(invented, real)
            path.write_text(text)

    def __call__(self, verb, *arguments):
        return self.berth(verb, "-f", str(self.tree / "stacks"), "--stacks", *arguments, timeout=400)


def documents(name):
    return stacks.read((EXAMPLE / name).read_text())


def spec_of(name, kind):
    (found,) = [document["spec"] for document in documents(name) if document["kind"] == kind]
    return found


WAREHOUSE = spec_of("stacks/prod/eu-central-1/warehouse.yaml", "Environment")


def make_images(place):
    image = Image()
    for digest, data in image.blobs.items():
        http("PUT", f"{place.cloud.url}/_proxy/blobs/{digest}", data)
    for path, account in PLACES.items():
        ecr = place.client("ecr", account, path.split("/")[1])
        ecr.create_repository(repositoryName="alphaagent/prebuilt/python")
        ecr.put_image(
            repositoryName="alphaagent/prebuilt/python", imageTag="latest", imageManifest=image.manifest.decode(),
            imageManifestMediaType=image.media_type, imageDigest=image.digest,
        )  # fmt: skip
    return image


def publish_warehouse(place, image, policy):
    """In the registry of the account that builds images for all others."""
    held = {"tag": WAREHOUSE["image"]["tag"], "digest": image.digest, "manifest": image.manifest.decode(), "type": image.media_type}
    value = {"account": BUILDERS, "region": "eu-central-1", "repository": WAREHOUSE["image"]["repository"], "policy": policy, "images": [held]}
    http("POST", f"{place.cloud.url}/_proxy/registry", json.dumps(value).encode())


def make_network(place):
    ec2 = place.client("ec2", PROD, "eu-central-1")
    vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    for number, subnet in enumerate(WAREHOUSE["network"]["subnets"]):
        place.changes[subnet] = ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.1.{number}.0/24")["Subnet"]["SubnetId"]
    (group,) = WAREHOUSE["network"]["securityGroups"]
    place.changes[group] = ec2.create_security_group(GroupName="warehouse", Description="warehouse", VpcId=vpc)["GroupId"]


@pytest.fixture
def place(cloud, berth):
    """All that the README says must be there before the first apply."""
    made = Place(cloud, berth)
    everything = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]})
    for account in {made.account(PROD): PROD, made.account(STAGING): STAGING}.values():
        made.client("iam", account, "us-east-1").create_policy(PolicyName="agents", Path="/boundaries/", PolicyDocument=everything)
    for path in ("prod/eu-central-1", "prod/us-east-1"):
        aws = spec_of(f"stacks/{path}/stack.yaml", "Stack")["aws"]
        made.changes[aws["kmsKey"]] = made.client("kms", PROD, aws["region"]).create_key()["KeyMetadata"]["Arn"]
    secret = WAREHOUSE["variables"]["WAREHOUSE_PASSWORD"]["secret"].removesuffix(":password::")
    secrets = made.client("secretsmanager", PROD, "eu-central-1")
    made.changes[secret] = secrets.create_secret(Name="data/warehouse", SecretString=json.dumps({"password": PASSWORD}))["ARN"]
    made.client("ssm", PROD, "eu-central-1").put_parameter(Name="/data/warehouse/url", Value=URL, Type="SecureString")
    make_network(made)
    # An account is part of other names: these are replaced first.
    made.changes = dict(sorted(made.changes.items(), key=lambda change: -len(change[0])))
    made.write()
    image = make_images(made)
    publish_warehouse(made, image, None)
    found = berth("image", "instructions", "-f", str(made.tree / "stacks/prod/eu-central-1"), "--json").expect(0).json()
    (command,) = [c for recipe in found["recipes"] for c in recipe["commands"] if "set-repository-policy" in c]
    words = shlex.split(command)
    publish_warehouse(made, image, json.loads(words[words.index("--policy-text") + 1]))
    return made


@pytest.mark.timeout(900)
def test_the_tree_is_planned_and_applied(cloud, place):
    assert "3 stacks" in place("validate").expect(0).out
    mark = cloud.mark()
    planned = place("plan", "--detailed-exitcode", "--json").expect(2).json()
    assert cloud.changing_calls(mark) == []
    assert [one["result"]["account"] for one in planned["stacks"]] == [place.account(account) for account in PLACES.values()]
    place("apply", "--yes").expect(0)
    again = place("plan", "--detailed-exitcode", "--refresh", "full", "--json").expect(0).json()
    assert [one["result"]["changes"] for one in again["stacks"]] == [[]] * 3, again
    place("drift").expect(0)
    check_warehouse(place)
    check_stacks(place)
    assert search(files_below(place.berth.folder), {"the password": PASSWORD}) == []


def check_warehouse(place):
    functions = place.client("lambda", PROD, "eu-central-1")
    found = functions.get_function(FunctionName="alphaagent-env-warehouse")
    made = found["Configuration"]
    account = place.account(PROD)
    assert made["Environment"]["Variables"] == {"WAREHOUSE_PASSWORD": PASSWORD, "WAREHOUSE_URL": URL, "STATEMENT_TIMEOUT": "60"}
    assert made["Role"] == f"arn:aws:iam::{account}:role/agents/alphaagent-env-warehouse-eu-central-1"
    assert sorted(made["VpcConfig"]["SubnetIds"]) == sorted(place.changes[one] for one in WAREHOUSE["network"]["subnets"])
    assert made["KMSKeyArn"] == place.changes[spec_of("stacks/prod/eu-central-1/stack.yaml", "Stack")["aws"]["kmsKey"]]
    tags = functions.list_tags(Resource=made["FunctionArn"])["Tags"]
    assert {name: tags[name] for name in ("team", "cost-center", "stage")} == {"team": "data", "cost-center": "4200", "stage": "prod"}


def check_stacks(place):
    for path, account in PLACES.items():
        region, real = path.split("/")[1], place.account(account)
        role = place.client("iam", account, region).get_role(RoleName=f"alphaagent-execution-{region}")["Role"]
        assert role["PermissionsBoundary"]["PermissionsBoundaryArn"] == f"arn:aws:iam::{real}:policy/boundaries/agents", path
        assert role["Path"] == "/agents/"
        made = place.client("lambda", account, region).get_function(FunctionName="alphaagent-env-scratch")["Configuration"]
        assert len(made["VpcConfig"]["SubnetIds"]) == 2, "isolated"
        rules = place.client("s3", account, region).get_bucket_lifecycle_configuration(Bucket=f"alphaagent-workspaces-{real}-{region}")["Rules"]
        assert {rule["ID"].split(":")[2].partition("@")[0] for rule in rules} == {"everything"}


def test_the_controller_pins_what_the_stacks_say(offline):
    """What it pins a commit may not change; so a commit as it stands here must say the same."""
    shutil.copytree(EXAMPLE, offline.stack, dirs_exist_ok=True)
    assert "a Controller of 3 sources" in offline("validate", "-f", "controller.yaml").expect(0).out
    (controller,) = documents("controller.yaml")
    sources = {source["path"]: source for source in controller["spec"]["sources"]}
    for path in PLACES:
        source = sources.get(f"stacks/{path}") or sources[f"stacks/{path.split('/')[0]}/*"]
        aws = spec_of(f"stacks/{path}/stack.yaml", "Stack")["aws"]
        assert {name: aws.get(name) for name in source["pins"]["aws"]} == source["pins"]["aws"]
        assert {"profile", "account", "permissionsBoundary", "rolePath", "network"} | ({"kmsKey"} & set(aws)) <= set(source["pins"]["aws"])
    may = sources["stacks/prod/eu-central-1"]["may"]
    assert may["subnets"] == WAREHOUSE["network"]["subnets"] and may["securityGroups"] == WAREHOUSE["network"]["securityGroups"]
    assert may["registries"] == [WAREHOUSE["image"]["registry"]]
