# SPDX-License-Identifier: Apache-2.0
"""What must not exist after a destroy."""


def nothing_is_left(cloud):
    assert cloud.functions("alphaagent-") == {}
    assert [r["RoleName"] for r in cloud.aws("iam").list_roles()["Roles"] if r["RoleName"].startswith("alphaagent")] == []
    assert cloud.aws("logs").describe_log_groups(logGroupNamePrefix="/aws/lambda/alphaagent")["logGroups"] == []
    assert [b["Name"] for b in cloud.aws("s3").list_buckets()["Buckets"] if b["Name"].startswith("alphaagent")] == []
