# SPDX-License-Identifier: Apache-2.0
"""A stack on AWS that a test rewrites, what exists of it, and what a plan or an apply did."""

import json
from urllib.parse import unquote

from botocore.exceptions import ClientError

import stacks

ROLE = "alphaagent-execution-us-east-1"


class World:
    """A stack that tests rewrite: `world(doc, ...)` replaces everything beside the Stack and applies."""

    def __init__(self, cloud, berth):
        self.cloud, self.berth = cloud, berth
        self.stack = stacks.stack()
        self.bucket = f"alphaagent-workspaces-{cloud.account}-us-east-1"

    def write(self, *documents):
        self.berth.write("m.yaml", stacks.text(self.stack, *documents))

    def plan(self, *documents):
        self.write(*documents)
        return {c["address"]: c for c in self.berth.plan()["changes"]}

    def __call__(self, *documents, args=()):
        """Apply, and give the operations that changed anything."""
        self.write(*documents)
        mark = self.cloud.mark()
        self.berth.apply(*args)
        changed = [c["operation"] for c in self.cloud.changing_calls(mark)]
        self.berth.assert_settled()
        return changed

    def function(self, name):
        return self.cloud.aws("lambda").get_function(FunctionName=f"alphaagent-env-{name}")

    def record(self, key):
        try:
            return json.loads(self.cloud.aws("s3").get_object(Bucket=self.bucket, Key=f"registry/team/{key}.json")["Body"].read())
        except ClientError as error:
            assert error.response["Error"]["Code"] == "NoSuchKey"
            return None

    def rules(self):
        try:
            found = self.cloud.aws("s3").get_bucket_lifecycle_configuration(Bucket=self.bucket)["Rules"]
        except ClientError as error:
            assert error.response["Error"]["Code"] == "NoSuchLifecycleConfiguration"
            return {}
        return {rule["ID"].split("@")[0]: rule for rule in found}


def role_statements(cloud):
    document = cloud.aws("iam").get_role_policy(RoleName=ROLE, PolicyName="berth-execution")["PolicyDocument"]
    document = document if isinstance(document, dict) else json.loads(unquote(document))
    return {statement["Sid"]: statement for statement in document["Statement"]}


def fields(plan):
    return {(c["address"], f["path"]): (f["before"], f["after"]) for c in plan["changes"] for f in c["fields"]}


def changed(cloud, mark):
    return [c["operation"] for c in cloud.changing_calls(mark)]


def nothing_is_left(cloud):
    """After a destroy."""
    assert cloud.functions("alphaagent-") == {}
    assert [r["RoleName"] for r in cloud.aws("iam").list_roles()["Roles"] if r["RoleName"].startswith("alphaagent")] == []
    assert cloud.aws("logs").describe_log_groups(logGroupNamePrefix="/aws/lambda/alphaagent")["logGroups"] == []
    assert [b["Name"] for b in cloud.aws("s3").list_buckets()["Buckets"] if b["Name"].startswith("alphaagent")] == []
