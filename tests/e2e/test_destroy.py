# SPDX-License-Identifier: Apache-2.0
"""`destroy` leaves nothing of the stack, and everything that is not the stack's."""

import pytest
from botocore.exceptions import ClientError

import stacks
from lib.aws_stack import nothing_is_left


@pytest.fixture
def stack(cloud, berth, prebuilt):
    berth.write(
        "m.yaml",
        stacks.text(
            stacks.stack(),
            *[stacks.environment(f"e-{n}", logRetentionDays=7, reservedConcurrency=2) for n in range(3)],
            stacks.agent("a", "e-0"), stacks.agent("b", "e-1"), stacks.swarm("s", ["a", "b"], "e-2"),
            stacks.policy("p", {"all": True}, expireAfterDays=30, abortIncompleteUploadDays=3),
        ),
    )  # fmt: skip
    berth.apply()
    return berth


def test_destroy(cloud, stack):
    stack.destroy()
    nothing_is_left(cloud)
    assert stack("state", "list").expect(0).out.strip() == ""
    mark = cloud.mark()
    stack.destroy()
    assert cloud.changing_calls(mark) == []


def test_destroy_and_apply_again(cloud, stack):
    stack.destroy()
    stack.apply()
    assert len(cloud.functions()) == 3
    stack.assert_settled()


def test_destroy_after_parts_have_gone(cloud, stack):
    cloud.aws("lambda").delete_function(FunctionName="alphaagent-env-e-0")
    cloud.aws("logs").delete_log_group(logGroupName="/aws/lambda/alphaagent-env-e-1")
    stack.destroy()
    nothing_is_left(cloud)


def test_destroy_without_the_manifests_of_what_was_applied(cloud, stack):
    """What the state holds goes, even if its manifest has gone already."""
    stack.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("e-0", logRetentionDays=7)))
    stack.destroy()
    nothing_is_left(cloud)


def test_destroy_leaves_what_is_not_ours(cloud, stack, prebuilt):
    role = cloud.lambda_role("theirs")
    cloud.aws("lambda").create_function(
        FunctionName="alphaagent-env-theirs", PackageType="Image", Role=role,
        Code={"ImageUri": cloud.image_uri("alphaagent/prebuilt/python", digest=prebuilt)},
    )  # fmt: skip
    stack.destroy()
    assert set(cloud.functions()) == {"alphaagent-env-theirs"}
    assert cloud.aws("ecr").describe_images(repositoryName="alphaagent/prebuilt/python")["imageDetails"]


def test_a_bucket_with_workspaces_is_kept(cloud, stack):
    bucket = f"alphaagent-workspaces-{cloud.account}-us-east-1"
    cloud.aws("s3").put_object(Bucket=bucket, Key="workspaces/sessions/s1/workspace/paper.txt", Body=b"work")
    result = stack("destroy", "--yes")
    assert result.code in (1, 3), result
    assert bucket in result.out + result.err
    assert cloud.aws("s3").get_object(Bucket=bucket, Key="workspaces/sessions/s1/workspace/paper.txt")["Body"].read() == b"work"
    cloud.aws("s3").delete_object(Bucket=bucket, Key="workspaces/sessions/s1/workspace/paper.txt")
    stack.destroy()
    nothing_is_left(cloud)


def test_destroy_needs_a_yes(cloud, stack):
    mark = cloud.mark()
    assert "--yes" in stack("destroy").expect(1).err
    assert cloud.changing_calls(mark) == []


def test_failures_in_destroy_are_taken_up_again(cloud, stack):
    cloud.faults(({"operation": "DeleteFunction", "resource": "e-1"}, {"kind": "error", "status": 403, "code": "AccessDeniedException"}))
    result = stack("destroy", "--yes").expect(1)
    assert "e-1" in result.out + result.err
    assert set(cloud.functions()) == {"alphaagent-env-e-1"}
    with pytest.raises(ClientError):
        cloud.aws("lambda").get_function(FunctionName="alphaagent-env-e-0")
    cloud.faults()
    stack.destroy()
    nothing_is_left(cloud)


# --- who else uses the bucket and the role ------------------------------------------------------------


def share(cloud, berth, role, *documents):
    """A second stack that uses the first one's bucket and role; no agents, so that it has no records."""
    (berth.stack / "second").mkdir()
    (berth.stack / "second" / "m.yaml").write_text(stacks.text(stacks.stack("second", aws={"createBucket": False, "executionRole": role}), *documents))
    berth("apply", "--yes", "-f", "second").expect(0)


def forget_notes(cloud, bucket):
    """What an older Berth leaves of itself: nothing that says that the second stack lives."""
    for item in cloud.aws("s3").list_objects_v2(Bucket=bucket, Prefix="berth/lineages/").get("Contents", []):
        cloud.aws("s3").delete_object(Bucket=bucket, Key=item["Key"])


def first_alone(berth):
    """The first stack's own manifests, away from the second one's folder."""
    return ("-f", "m.yaml", "--state", ".berth")


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("what", ["function", "policy"])
def test_a_stack_that_shares_bucket_and_role_keeps_them(cloud, stack, what, noted):
    bucket, role = f"alphaagent-workspaces-{cloud.account}-us-east-1", "alphaagent-execution-us-east-1"
    arn = cloud.aws("iam").get_role(RoleName=role)["Role"]["Arn"]
    document = stacks.environment("shared") if what == "function" else stacks.policy("theirs", {"all": True}, expireAfterDays=400)
    share(cloud, stack, arn, document)
    if not noted:
        forget_notes(cloud, bucket)
    mark = cloud.mark()
    result = stack("destroy", "--yes", "--json", *first_alone(stack)).expect(3).json()
    (refused,) = [c for c in result["changes"] if c["address"] == "Stack/team"]
    (refusal,) = [r for r in refused["refusals"] if r["id"] == "has-dependents"]
    named = "\n".join(refusal["dependents"])
    assert ("function alphaagent-env-shared" in named) == (what == "function")
    assert ("lifecycle rule berth:second:theirs" in named) == (what == "policy")
    assert ("stack second, last applied by" in named) == noted
    assert cloud.changing_calls(mark) == []
    stack("destroy", "--yes", "--skip-refused", *first_alone(stack)).expect(3)
    assert cloud.aws("iam").get_role(RoleName=role) and cloud.aws("s3").head_bucket(Bucket=bucket)
    stack("destroy", "--yes", "-f", "second").expect(0)
    stack("destroy", "--yes", *first_alone(stack)).expect(0)
    nothing_is_left(cloud)


def test_bucket_and_role_go_where_that_is_allowed(cloud, stack):
    arn = cloud.aws("iam").get_role(RoleName="alphaagent-execution-us-east-1")["Role"]["Arn"]
    share(cloud, stack, arn, stacks.environment("shared"))
    stack("destroy", "--yes", "--allow", "has-dependents:Stack/team", "--allow", "bucket-not-empty", *first_alone(stack)).expect(0)
    assert set(cloud.functions()) == {"alphaagent-env-shared"}


def test_rules_made_by_hand_keep_no_stack(cloud, stack):
    bucket = f"alphaagent-workspaces-{cloud.account}-us-east-1"
    s3 = cloud.aws("s3")
    rules = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    rules.append({"ID": "by-hand", "Status": "Enabled", "Filter": {"Prefix": "x/"}, "Expiration": {"Days": 400}})
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    stack.destroy()
    nothing_is_left(cloud)


def test_destroy_of_one_takes_what_needs_it(cloud, stack):
    plan = stack("destroy", "--target", "Environment/e-0", "--json", "--yes").expect(0).json()
    assert cloud.functions().keys() == {"alphaagent-env-e-1", "alphaagent-env-e-2"}
    left = stack("state", "list").expect(0).out.split()
    assert "Agent/a" not in left and "Environment/e-0" not in left
    assert {"Stack/team", "Agent/b", "Swarm/s", "Environment/e-1", "Environment/e-2", "WorkspacePolicy/p"} == set(left)
    assert plan
    refused = stack("destroy", "--target", "Environment/e-9", "--yes").expect(1)
    assert "--target Environment/e-9: no such resource" in refused.err
    stack.apply()  # the manifests still have it
    assert len(cloud.functions()) == 3
    stack("destroy", "--target", "Stack/team", "--yes").expect(0)
    nothing_is_left(cloud)
