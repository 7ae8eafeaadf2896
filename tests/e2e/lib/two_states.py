# SPDX-License-Identifier: Apache-2.0
"""Two teams with states of their own in one account."""

import json
import shutil

import pytest

import stacks
from binary import Berth

ROLE = "alphaagent-execution-us-east-1"


class Team:
    """A team's manifests, state and machine: `berth` in a folder of its own."""

    def __init__(self, cloud, binary, folder):
        folder.mkdir()
        self.cloud, self.berth = cloud, Berth(binary, folder, cloud.url)

    def write(self, *documents, stack=None):
        stack = stack or stacks.stack("research")
        documents = documents or (
            stacks.environment("x", variables={"MODE": "1"}), stacks.agent("a", "x"), stacks.swarm("s", ["a"], "x"),
            stacks.policy("p", {"all": True}, expireAfterDays=30),
        )  # fmt: skip
        self.berth.write("m.yaml", stacks.text(stack, *documents))
        return self

    def lineage(self):
        return self.berth("state", "show", "--json").expect(0).json()["lineage"]

    def lose_state(self):
        shutil.rmtree(self.berth.stack / ".berth")


@pytest.fixture
def bucket(cloud):
    return f"alphaagent-workspaces-{cloud.account}-us-east-1"


@pytest.fixture
def first(cloud, binary, tmp_path, prebuilt):
    team = Team(cloud, binary, tmp_path / "first").write()
    team.berth.apply()
    return team


@pytest.fixture
def second(cloud, binary, tmp_path, first):
    return Team(cloud, binary, tmp_path / "second").write()


def world(cloud, bucket):
    """All that a stack has in AWS, by what tells it from another one; without the notes of lineages, and locks."""
    s3, iam, functions = cloud.aws("s3"), cloud.aws("iam"), cloud.aws("lambda")
    objects = s3.list_objects_v2(Bucket=bucket).get("Contents", [])
    found = {o["Key"]: o["ETag"] for o in objects if not o["Key"].startswith("berth/")}
    found["rules"] = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    found["bucket"] = sorted((t["Key"], t["Value"]) for t in s3.get_bucket_tagging(Bucket=bucket)["TagSet"])
    found["role"] = sorted((t["Key"], t["Value"]) for t in iam.list_role_tags(RoleName=ROLE)["Tags"])
    for name, function in cloud.functions("alphaagent-").items():
        found[name] = functions.list_tags(Resource=function["FunctionArn"])["Tags"]
    return found


def note(cloud, bucket, lineage):
    return json.loads(cloud.aws("s3").get_object(Bucket=bucket, Key=f"berth/lineages/{lineage}")["Body"].read())


@pytest.fixture
def sharing(cloud, second):
    """A team that calls its stack as the first one does, in the first one's bucket."""
    second.stack = stacks.stack("research", aws={"createBucket": False, "executionRole": cloud.lambda_role("second")})
    return second


def rename_rules(s3, bucket, rename):
    rules = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    rules = [{**rule, "ID": rename(*rule["ID"].split("@"))} for rule in rules]
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})


def strip(cloud, bucket, stack="research"):
    """What an older Berth left: the stack's marks without a lineage, records without one, no note."""
    s3, functions = cloud.aws("s3"), cloud.aws("lambda")
    tags = [t for t in s3.get_bucket_tagging(Bucket=bucket)["TagSet"] if t["Key"] != "berth:lineage"]
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    cloud.aws("iam").untag_role(RoleName=ROLE, TagKeys=["berth:lineage"])
    for function in cloud.functions("alphaagent-").values():
        functions.untag_resource(Resource=function["FunctionArn"], TagKeys=["berth:lineage"])
    rename_rules(s3, bucket, lambda name, lineage: name)
    for item in s3.list_objects_v2(Bucket=bucket)["Contents"]:
        if item["Key"].startswith("berth/"):
            s3.delete_object(Bucket=bucket, Key=item["Key"])
        else:
            record = json.loads(s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read())
            del record["lineage"]
            s3.put_object(Bucket=bucket, Key=item["Key"], Body=json.dumps(record, separators=(",", ":"), sort_keys=True).encode())
