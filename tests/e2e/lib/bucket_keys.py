# SPDX-License-Identifier: Apache-2.0
"""Keys that encrypt a bucket, and who may use them."""

import json
from urllib.parse import unquote

ROLE = "alphaagent-execution-us-east-1"


def role_statements(cloud):
    document = cloud.aws("iam").get_role_policy(RoleName=ROLE, PolicyName="berth-execution")["PolicyDocument"]
    document = document if isinstance(document, dict) else json.loads(unquote(document))
    return {statement["Sid"]: statement for statement in document["Statement"]}


def fields(plan):
    return {(c["address"], f["path"]): (f["before"], f["after"]) for c in plan["changes"] for f in c["fields"]}


def changed(cloud, mark):
    return [c["operation"] for c in cloud.changing_calls(mark)]
