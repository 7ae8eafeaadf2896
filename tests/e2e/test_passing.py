# SPDX-License-Identifier: Apache-2.0
"""Errors of AWS that pass by themselves: what one call made the next does not know yet, or another operation is under way."""

import pytest

import stacks
from hurry import Hurry

OWN = "alphaagent-env-x-us-east-1"
NO_INTERFACES = "The provided execution role does not have permissions to call CreateNetworkInterface on EC2"
DENIED_BY_EC2 = (
    "Your access has been denied by EC2, please make sure your function execution role have permission to CreateNetworkInterface. "
    "EC2 Error Code: UnauthorizedOperation. EC2 Error Message: You are not authorized to perform this operation."
)
DENIED_CALLER = (
    "Your access has been denied by EC2, please make sure your request credentials have permission to DescribeSecurityGroups for "
    "sg-0123456789abcdef0. EC2 Error Code: UnauthorizedOperation."
)
THROTTLED_BY_EC2 = "Your request has been throttled by EC2, please make sure you have enough API rate limit."

# service, operation, status, code, message
MAKING = [
    ("lambda", "CreateFunction", 400, "InvalidParameterValueException", NO_INTERFACES),
    ("lambda", "CreateFunction", 403, "AccessDeniedException", DENIED_BY_EC2),
    ("lambda", "CreateFunction", 400, "InvalidParameterValueException", THROTTLED_BY_EC2),
    ("lambda", "PutFunctionConcurrency", 404, "ResourceNotFoundException", ""),
    ("lambda", "GetFunction", 404, "ResourceNotFoundException", ""),
    ("logs", "CreateLogGroup", 400, "OperationAbortedException", ""),
    ("logs", "PutRetentionPolicy", 400, "OperationAbortedException", ""),
    ("ecr", "PutLifecyclePolicy", 400, "RepositoryNotFoundException", ""),
    ("iam", "CreateRole", 409, "ConcurrentModification", ""),
    ("iam", "PutRolePolicy", 404, "NoSuchEntity", ""),
    ("s3", "PutPublicAccessBlock", 404, "NoSuchBucket", ""),
    ("s3", "PutBucketLifecycleConfiguration", 404, "NoSuchBucket", ""),
    ("s3", "PutObject", 404, "NoSuchBucket", ""),
    ("ec2", "CreateSubnet", 400, "InvalidVpcID.NotFound", ""),
    ("ec2", "CreateVpcEndpoint", 400, "InvalidRouteTableId.NotFound", ""),
    ("ec2", "AuthorizeSecurityGroupEgress", 400, "InvalidPrefixListId.NotFound", ""),
    ("dynamodb", "UpdateTimeToLive", 400, "ResourceNotFoundException", ""),
]
CHANGING = [
    ("lambda", "UpdateFunctionConfiguration", 400, "InvalidParameterValueException", NO_INTERFACES),
    ("lambda", "UpdateFunctionConfiguration", 403, "AccessDeniedException", DENIED_BY_EC2),
    ("lambda", "TagResource", 409, "ResourceConflictException", ""),
    ("lambda", "UntagResource", 409, "ResourceConflictException", ""),
    ("logs", "PutRetentionPolicy", 400, "OperationAbortedException", ""),
    ("iam", "TagRole", 409, "ConcurrentModification", ""),
    ("iam", "UntagRole", 409, "ConcurrentModification", ""),
    ("ecr", "TagResource", 400, "RepositoryNotFoundException", ""),
    ("dynamodb", "TagResource", 400, "ResourceInUseException", ""),
    ("s3", "PutBucketLifecycleConfiguration", 409, "OperationAborted", ""),
]
REMOVING = [
    ("logs", "DeleteLogGroup", 400, "OperationAbortedException", ""),
    ("iam", "DeleteRole", 409, "DeleteConflict", "Cannot delete entity, must detach all policies first."),
    ("lambda", "DeleteFunction", 409, "ResourceConflictException", ""),
]


def faults_of(rows, times=2):
    return [
        ({"service": service, "operation": operation, "times": times}, {"kind": "error", "status": status, "code": code, "message": message})
        for service, operation, status, code, message in rows
    ]


def declare(berth, days, tag, **spec):
    berth.write(
        "m.yaml",
        stacks.text(
            stacks.stack(aws={"network": "isolated"}, sessions={"table": "passing-sessions"}, tags={tag: "x"}),
            stacks.image("tool", repository="team/tool", createRepository=True, tag="v1", retain={"untaggedDays": 7}),
            stacks.environment("x", executionRole="own", logRetentionDays=days, reservedConcurrency=5, **spec),
            stacks.policy("kept", {"environments": ["x"]}, expireAfterDays=days),
        ),
    )


@pytest.fixture
def hurried(berth, tmp_path):
    berth.env.update(Hurry(tmp_path, 10).env())
    return berth


def test_what_passes_is_waited_for(cloud, hurried, prebuilt):
    cloud.faults(*faults_of(MAKING))
    declare(hurried, 30, "one")
    hurried.apply()
    assert cloud.fault_hits() == [2] * len(MAKING)
    hurried.assert_settled()

    cloud.faults(*faults_of(CHANGING))
    declare(hurried, 60, "two", memoryMB=3008)
    hurried.apply()
    assert cloud.fault_hits() == [2] * len(CHANGING)
    hurried.assert_settled()

    cloud.faults(*faults_of(REMOVING))
    hurried.destroy()
    assert cloud.fault_hits() == [2] * len(REMOVING)
    assert cloud.functions() == {}


@pytest.mark.parametrize(
    "status, code, message",
    [(400, "InvalidParameterValueException", NO_INTERFACES), (403, "AccessDeniedException", DENIED_BY_EC2)],
    ids=["400", "403"],
)
def test_a_role_without_the_right_is_named_after_a_minute(cloud, hurried, prebuilt, status, code, message):
    """And not the caller, whom EC2 has not denied anything."""
    hurried.env["HURRY"] = "60"
    cloud.faults(({"operation": "CreateFunction"}, {"kind": "error", "status": status, "code": code, "message": message}))
    declare(hurried, 30, "one")
    said = hurried("apply", "--yes").expect(1)
    said = said.out + said.err
    assert "execution role must be allowed ec2:CreateNetworkInterface" in said and "for a minute" in said
    assert "allow lambda:CreateFunction" not in said
    assert cloud.fault_hits()[0] > 5


def test_a_caller_whom_ec2_denies_is_told_at_once(cloud, berth, prebuilt):
    cloud.faults(({"operation": "CreateFunction"}, {"kind": "error", "status": 403, "code": "AccessDeniedException", "message": DENIED_CALLER}))
    declare(berth, 30, "one")
    berth("apply", "--yes").expect(1)
    assert cloud.fault_hits() == [1]
