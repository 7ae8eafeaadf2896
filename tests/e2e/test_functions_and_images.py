# SPDX-License-Identifier: Apache-2.0
"""Corners of Lambda and ECR: updates that fail or meet others, variables of others, log groups, repositories let go of."""

import io
import json
import zipfile

import pytest
from botocore.exceptions import ClientError

import stacks
from lib.aws_stack import World

FUNCTION = "alphaagent-env-x"


@pytest.fixture
def world(cloud, berth, prebuilt):
    return World(cloud, berth)


def refusals(plan):
    return {c["address"]: [r["id"] for r in c["refusals"]] for c in plan["changes"] if c["refusals"]}


# --- functions --------------------------------------------------------------------------------------


def test_a_failed_update_is_told_and_made_again_in_place(world, cloud):
    """The function goes on running what it ran: it is updated again, never taken away."""
    world(stacks.environment("x"))
    cloud.settings(fail_updates={FUNCTION: "The image was taken away"})
    world.write(stacks.environment("x", memoryMB=3000))
    result = world.berth("apply", "--yes").expect(1)
    assert "The image was taken away" in result.out + result.err
    cloud.settings(fail_updates={})
    (change,) = world.berth.plan()["changes"]
    assert change["action"] == "update"
    world.berth.apply()
    assert cloud.calls(operation="DeleteFunction") == []
    assert world.function("x")["Configuration"]["LastUpdateStatus"] == "Successful"
    assert world.function("x")["Configuration"]["MemorySize"] == 3000
    world.berth.assert_settled()


def apply_while(world, cloud, change):
    """Someone calls `change` between Berth's look at the function and its update."""
    world.write(stacks.environment("x", memoryMB=3000))
    cloud.faults(({"operation": "UpdateFunctionConfiguration", "nth": 1}, {"kind": "delay", "seconds": 1.5}))
    mark = cloud.mark()
    process = world.berth.popen("apply", "--yes")
    cloud.await_call(process, "UpdateFunctionConfiguration", since=mark)
    change(cloud.aws("lambda"))
    out, err = process.communicate(timeout=60)
    cloud.faults()
    updates = cloud.calls(mark, operation="UpdateFunctionConfiguration")
    assert updates[0]["error"] in ("PreconditionFailedException", "ResourceConflictException"), updates
    return world.berth.result(["apply"], process.returncode, out, err)


def test_someone_elses_change_of_another_field_is_no_obstacle(world, cloud):
    world(stacks.environment("x"))
    apply_while(world, cloud, lambda aws: aws.update_function_configuration(FunctionName=FUNCTION, KMSKeyArn="")).expect(0)
    assert world.function("x")["Configuration"]["MemorySize"] == 3000
    world.berth.assert_settled()


def test_someone_elses_change_of_the_same_field_is_not_overwritten(world, cloud):
    world(stacks.environment("x"))
    result = apply_while(world, cloud, lambda aws: aws.update_function_configuration(FunctionName=FUNCTION, MemorySize=4000)).expect(1)
    assert FUNCTION in result.out + result.err and "since the plan" in result.out + result.err
    assert world.function("x")["Configuration"]["MemorySize"] == 4000
    world.berth.apply()
    assert world.function("x")["Configuration"]["MemorySize"] == 3000


def test_variables_of_others_stay_and_are_not_kept(world, cloud):
    token = {"value": "first-Secret-11", "sensitive": True}
    world(stacks.environment("x", variables={"TOKEN": token, "OPEN": "1"}))
    aws = cloud.aws("lambda")
    theirs = {"TOKEN": "first-Secret-11", "OPEN": "1", "THEIRS": "their-Secret-22"}
    aws.update_function_configuration(FunctionName=FUNCTION, Environment={"Variables": theirs})
    world.berth.assert_settled()
    changed = world(stacks.environment("x", variables={"TOKEN": {**token, "value": "next-Secret-33"}, "OPEN": "1"}))
    assert changed == ["UpdateFunctionConfiguration"]
    assert world.function("x")["Configuration"]["Environment"]["Variables"] == {**theirs, "TOKEN": "next-Secret-33"}
    changed = world(stacks.environment("x"))
    assert changed == ["UpdateFunctionConfiguration"]
    assert world.function("x")["Configuration"]["Environment"]["Variables"] == {"THEIRS": "their-Secret-22"}
    kept = b"".join(path.read_bytes() for path in (world.berth.stack / ".berth").rglob("*") if path.is_file())
    for secret in (b"first-Secret-11", b"their-Secret-22", b"next-Secret-33"):
        assert secret not in kept


def test_a_variable_that_is_no_secret_any_more(world):
    world(stacks.environment("x", variables={"TOKEN": {"value": "v", "sensitive": True}}))
    world(stacks.environment("x", variables={"TOKEN": "v"}))
    world(stacks.environment("x", variables={"TOKEN": {"value": "v", "sensitive": True}}))


def log_groups(cloud):
    return {g["logGroupName"]: g.get("retentionInDays") for g in cloud.aws("logs").describe_log_groups()["logGroups"]}


def test_log_groups_come_and_go_with_their_environments(world, cloud):
    group = f"/aws/lambda/{FUNCTION}"
    many = [stacks.environment(f"m-{n:02}", logRetentionDays=3) for n in range(12)]
    world(*many, stacks.environment("x", logRetentionDays=7))
    assert log_groups(cloud)[group] == 7 and len(log_groups(cloud)) == 13
    tags = cloud.aws("logs").list_tags_log_group(logGroupName=group)["tags"]
    assert tags["berth:stack"] == "team" and tags["berth:name"] == "x"
    cloud.aws("logs").put_retention_policy(logGroupName=group, retentionInDays=1)
    assert world(*many, stacks.environment("x", logRetentionDays=7)) == ["PutRetentionPolicy"]
    cloud.aws("logs").delete_log_group(logGroupName=group)
    assert sorted(world(*many, stacks.environment("x", logRetentionDays=7))) == ["CreateLogGroup", "PutRetentionPolicy"]
    assert world(*many, stacks.environment("x")) == ["DeleteRetentionPolicy"]
    assert log_groups(cloud)[group] is None
    world(*many)
    assert group not in log_groups(cloud), "Berth made it, so it goes with its environment"


def test_a_log_group_that_berth_did_not_make_stays(world, cloud):
    group = f"/aws/lambda/{FUNCTION}"
    cloud.aws("logs").create_log_group(logGroupName=group)
    world(stacks.environment("x"))
    world()
    assert group in log_groups(cloud)


def test_what_only_the_state_knows_needs_no_call(world, cloud):
    world(stacks.environment("x", protect=True))
    assert world(stacks.environment("x", protect=False)) == []


def test_many_tags_taken_away(world, cloud):
    world.stack["spec"]["tags"] = {f"k{n}": "v" for n in range(20)}
    world(stacks.environment("x"))
    del world.stack["spec"]["tags"]
    changed = world(stacks.environment("x"))
    assert changed.count("UntagResource") >= 3
    assert set(world.function("x")["Tags"]) == {"berth:stack", "berth:kind", "berth:name", "berth:lineage"}


def test_replaced_where_it_is_allowed(world, cloud):
    """Only MiniStack keeps TenancyConfig, but to ask for it is the same everywhere."""
    world(stacks.environment("x", reservedConcurrency=3, tenantIsolation=False))
    world.write(stacks.environment("x", reservedConcurrency=3, tenantIsolation=True))
    plan = world.berth.plan(code=3)
    assert refusals(plan) == {"Environment/x": ["needs-replacement"]}
    mark = cloud.mark()
    world.berth.apply("--allow", "needs-replacement:Environment/x")
    operations = [c["operation"] for c in cloud.changing_calls(mark)]
    assert operations == ["DeleteFunction", "CreateFunction", "PutFunctionConcurrency"]
    (made,) = [c for c in cloud.changing_calls(mark) if c["operation"] == "CreateFunction"]
    assert made["params"]["TenancyConfig"] == {"TenantIsolationMode": "PER_TENANT"}


# --- images of environments -------------------------------------------------------------------------


def test_an_index_is_refused_with_the_flags_that_mend_it(world, cloud):
    cloud.pushes.index("team/tool", "v1")
    world.write(stacks.environment("x", image={"repository": "team/tool", "tag": "v1"}))
    (change,) = [c for c in world.berth.plan(code=3)["changes"] if c["address"] == "Environment/x"]
    (refusal,) = change["refusals"]
    assert refusal["id"] == "image-unusable" and "index" in refusal["message"] and "linux/arm64" in refusal["message"]
    assert "--platform linux/amd64 --provenance=false --sbom=false" in refusal["remedy"]
    assert f"{cloud.account}.dkr.ecr.us-east-1.amazonaws.com/team/tool:v1" in refusal["remedy"]


def test_one_call_resolves_all_tags_of_a_repository(world, cloud):
    for tag in ("a", "b"):
        cloud.pushes.amd64("team/tool", tag, tag)
    images = [{"repository": "team/tool", "tag": "ab"[n % 2], "follow": "tag"} for n in range(6)]
    images.append({"repository": "team/tool", "tag": "gone"})
    world.write(*[stacks.environment(f"x-{n}", image=image) for n, image in enumerate(images)])
    mark = cloud.mark()
    plan = world.berth.plan(code=3)
    assert len(cloud.calls(mark, "ecr", "BatchGetImage")) == 1
    assert refusals(plan) == {"Environment/x-6": ["image-unusable"]}, "one missing tag is one environment's trouble"


# --- repositories -----------------------------------------------------------------------------------


def repositories(cloud):
    return {r["repositoryName"] for r in cloud.aws("ecr").describe_repositories()["repositories"]}


def tags_of(cloud, repository):
    arn = f"arn:aws:ecr:us-east-1:{cloud.account}:repository/{repository}"
    return {t["Key"] for t in cloud.aws("ecr").list_tags_for_resource(resourceArn=arn)["tags"]}


def test_an_empty_repository_goes_with_its_image(world, cloud):
    world(stacks.image("i", repository="team/made", tag="t", createRepository=True))
    assert "team/made" in repositories(cloud)
    world()
    assert "team/made" not in repositories(cloud)


def test_a_repository_with_images_is_kept_and_let_go(world, cloud):
    world(stacks.image("i", repository="team/made", tag="t", createRepository=True, retain={"lastTagged": 5}))
    cloud.pushes.amd64("team/made", "t")
    world.write()
    (change,) = world.berth.plan()["changes"]
    assert change["action"] == "delete" and "holds images" in change["reason"]
    world()
    assert cloud.aws("ecr").describe_images(repositoryName="team/made")["imageDetails"]
    assert not any(key.startswith("berth:") for key in tags_of(cloud, "team/made"))
    with pytest.raises(ClientError, match="LifecyclePolicyNotFound"):
        cloud.aws("ecr").get_lifecycle_policy(repositoryName="team/made")


def test_a_policy_that_someone_changed_is_not_deleted(world, cloud):
    cloud.pushes.amd64("team/tool", "v1")
    world(stacks.image("i", repository="team/tool", tag="v1", retain={"untaggedDays": 5}))
    rule = {"rulePriority": 1, "selection": {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": 500}, "action": {"type": "expire"}}
    cloud.aws("ecr").put_lifecycle_policy(repositoryName="team/tool", lifecyclePolicyText=json.dumps({"rules": [rule]}))
    world()
    kept = json.loads(cloud.aws("ecr").get_lifecycle_policy(repositoryName="team/tool")["lifecyclePolicyText"])
    assert kept["rules"][0]["selection"]["countNumber"] == 500


def test_the_same_policy_in_another_order_is_no_change(world, cloud):
    cloud.pushes.amd64("team/tool", "v1")
    image = stacks.image("i", repository="team/tool", tag="v1", retain={"untaggedDays": 5, "lastTagged": 9})
    world(image)
    ecr = cloud.aws("ecr")
    policy = json.loads(ecr.get_lifecycle_policy(repositoryName="team/tool")["lifecyclePolicyText"])
    rules = list(reversed(policy["rules"]))
    for priority, rule in enumerate(rules, 10):
        rule.update(rulePriority=priority, description="someone's words")
    ecr.put_lifecycle_policy(repositoryName="team/tool", lifecyclePolicyText=json.dumps({"rules": rules}))
    world.berth.assert_settled()


def test_another_repository(world, cloud):
    world(stacks.image("i", repository="team/one", tag="t", createRepository=True))
    world(stacks.image("i", repository="team/two", tag="t", createRepository=True, scanOnPush=True))
    assert {"team/one", "team/two"} & repositories(cloud) == {"team/two"}


def test_a_repository_that_is_not_ours(world, cloud):
    cloud.pushes.amd64("team/theirs", "v1")
    world.write(stacks.image("i", repository="team/theirs", tag="v1", createRepository=True))
    assert refusals(world.berth.plan(code=3)) == {"Image/i": ["not-owned"]}
    world.write(stacks.image("i", repository="team/nowhere", tag="v1"))
    plan = world.berth.plan(code=3)
    assert refusals(plan) == {"Image/i": ["image-unusable"]}
    (refusal,) = plan["changes"][-1]["refusals"]
    assert "createRepository: true" in refusal["remedy"]


def test_a_repository_becomes_nobodys_when_it_is_not_to_be_made(world, cloud):
    world(stacks.image("i", repository="team/made", tag="t", createRepository=True, scanOnPush=True))
    assert world(stacks.image("i", repository="team/made", tag="t", scanOnPush=True)) == ["UntagResource"]
    assert not any(key.startswith("berth:") for key in tags_of(cloud, "team/made"))
    world()
    assert "team/made" in repositories(cloud)


# --- the role, and the grants that were made for it ---------------------------------------------------

ROLE = "alphaagent-execution-us-east-1"
KMS = (
    "Lambda was unable to configure access to your environment variables because the KMS key is invalid for CreateGrant. Please check "
    "your KMS key settings. KMS Exception: InvalidArnException KMS Message: ARN does not refer to a valid principal: {}"
)


def delete_role(cloud):
    iam = cloud.aws("iam")
    for name in iam.list_role_policies(RoleName=ROLE)["PolicyNames"]:
        iam.delete_role_policy(RoleName=ROLE, PolicyName=name)
    iam.delete_role(RoleName=ROLE)


def with_variables(berth):
    berth.write(
        "m.yaml",
        stacks.text(stacks.stack(), stacks.environment("x", variables={"MODE": "1"}), stacks.environment("y", variables={"MODE": "1"}), stacks.environment("plain")),
    )


def roles_set(cloud, mark):
    return sorted(c["params"]["FunctionName"] for c in cloud.changing_calls(mark) if c["operation"] == "UpdateFunctionConfiguration" and c["params"].get("Role", "").endswith(ROLE))


@pytest.mark.parametrize("planned", [True, False], ids=["after a plan", "after the apply alone"])
@pytest.mark.parametrize("remade", ["by berth", "by hand"])
def test_a_role_made_anew_is_set_again_where_there_are_variables(cloud, berth, prebuilt, remade, planned):
    with_variables(berth)
    berth.apply()
    if planned:
        berth.assert_settled()
    policy = cloud.aws("iam").get_role_policy(RoleName=ROLE, PolicyName="berth-execution")["PolicyDocument"]
    role = cloud.aws("iam").get_role(RoleName=ROLE)["Role"]
    tags = cloud.aws("iam").list_role_tags(RoleName=ROLE)["Tags"]
    delete_role(cloud)
    if remade == "by hand":
        cloud.aws("iam").create_role(RoleName=ROLE, AssumeRolePolicyDocument=json.dumps(role["AssumeRolePolicyDocument"]), Tags=tags)
        cloud.aws("iam").put_role_policy(RoleName=ROLE, PolicyName="berth-execution", PolicyDocument=json.dumps(policy))
    plan = berth.plan()
    changed = {c["address"]: [f["path"] for f in c["fields"]] for c in plan["changes"] if c["kind"] == "Environment"}
    assert changed == {"Environment/x": ["role"], "Environment/y": ["role"]}
    mark = cloud.mark()
    berth.apply()
    assert roles_set(cloud, mark) == ["alphaagent-env-x", "alphaagent-env-y"]
    berth.assert_settled()
    mark = cloud.mark()
    berth.apply()
    assert roles_set(cloud, mark) == []


def test_functions_that_stayed_behind_get_the_new_role_later(cloud, berth, prebuilt):
    with_variables(berth)
    berth.apply()
    delete_role(cloud)
    cloud.faults(({"operation": "UpdateFunctionConfiguration", "resource": "env-y"}, {"kind": "error", "status": 403, "code": "AccessDeniedException"}))
    berth.apply(code=1)
    cloud.faults()
    mark = cloud.mark()
    berth.apply()
    assert roles_set(cloud, mark) == ["alphaagent-env-y"]
    berth.assert_settled()


def test_a_failed_update_says_nothing_about_the_role(cloud, berth, prebuilt):
    with_variables(berth)
    berth.apply()
    berth.write("m.yaml", (berth.stack / "m.yaml").read_text().replace("name: x\nspec:\n", "name: x\nspec:\n  memoryMB: 3008\n"))
    cloud.faults(({"operation": "UpdateFunctionConfiguration"}, {"kind": "error", "status": 400, "code": "InvalidParameterValueException", "message": "no"}))
    berth.apply(code=1)
    cloud.faults()
    for _ in range(2):
        assert {c["address"]: [f["path"] for f in c["fields"]] for c in berth.plan()["changes"]} == {"Environment/x": ["memoryMB"]}
    mark = cloud.mark()
    berth.apply()
    assert roles_set(cloud, mark) == []
    berth.assert_settled()


@pytest.mark.parametrize("operation", ["CreateFunction", "UpdateFunctionConfiguration"])
def test_a_role_that_kms_does_not_know_yet_is_waited_for(cloud, berth, prebuilt, operation):
    with_variables(berth)
    if operation != "CreateFunction":
        berth.apply()
        delete_role(cloud)
    text = KMS.format(f"arn:aws:iam::{cloud.account}:role/{ROLE}")
    cloud.faults(({"operation": operation, "times": 2}, {"kind": "error", "status": 400, "code": "InvalidParameterValueException", "message": text}))
    berth.apply()
    assert cloud.fault_hits() == [2]
    berth.assert_settled()


# --- what is in the way, and what hangs on a function ---------------------------------------------------


def reason_of(world, code=0):
    (change,) = [c for c in world.berth.plan(code=code)["changes"] if c["address"] == "Environment/x"]
    return change


def declare(world, *documents):
    world.berth.write("m.yaml", stacks.text(stacks.stack(), *documents))


def test_a_zip_function_under_a_wanted_name_needs_replacement(world, cloud):
    client = cloud.aws("lambda")
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("f.py", "def f(event, context): return 1")
    client.create_function(FunctionName=FUNCTION, Runtime="python3.11", Handler="f.f", Role=cloud.lambda_role("theirs"), Code={"ZipFile": package.getvalue()})
    client.get_waiter("function_active_v2").wait(FunctionName=FUNCTION, WaiterConfig={"Delay": 0.1})
    declare(world, stacks.environment("x"))
    change = reason_of(world, code=3)
    assert change["action"] == "replace" and "Zip" in change["reason"]
    assert {r["id"] for r in change["refusals"]} == {"not-owned", "needs-replacement"}
    mark = cloud.mark()
    world.berth("apply", "--yes", "--allow", "not-owned").expect(3)
    assert cloud.changing_calls(mark) == []
    world.berth.apply("--allow", "not-owned:Environment/x", "--allow", "needs-replacement:Environment/x")
    assert client.get_function(FunctionName=FUNCTION)["Configuration"]["PackageType"] == "Image"
    world.berth.assert_settled()


def test_a_deletion_says_what_hangs_on_the_function(world, cloud):
    client = cloud.aws("lambda")
    world(stacks.environment("x"), stacks.environment("y"))
    queue = f"arn:aws:sqs:us-east-1:{cloud.account}:jobs"
    cloud.direct("sqs").create_queue(QueueName="jobs")
    version = client.publish_version(FunctionName=FUNCTION)["Version"]
    for name in ("live", "test"):
        client.create_alias(FunctionName=FUNCTION, Name=name, FunctionVersion=version)
    client.create_function_url_config(FunctionName=FUNCTION, AuthType="AWS_IAM")
    client.add_permission(FunctionName=FUNCTION, StatementId="by-their-api", Action="lambda:InvokeFunction", Principal="apigateway.amazonaws.com")
    client.create_event_source_mapping(FunctionName=FUNCTION, EventSourceArn=queue)
    declare(world, stacks.environment("y"))
    reason = reason_of(world)["reason"]
    assert reason.startswith("not in the manifests any more; what hangs on the function"), reason
    for said in ("its URL http", "2 aliases (live, test)", "1 permission (by-their-api)", f"1 event source ({queue})"):
        assert said in reason, reason

    declare(world, stacks.environment("x", tenantIsolation=False), stacks.environment("y"))
    assert "2 aliases (live, test)" in reason_of(world, code=3)["reason"]
    cloud.faults(({"operation": "ListAliases"}, {"kind": "error", "status": 403, "code": "AccessDeniedException", "message": "no"}))
    reason = reason_of(world, code=3)["reason"]
    assert "aliases not known (allow lambda:ListAliases)" in reason and "by-their-api" in reason


def test_of_a_function_on_which_nothing_hangs_nothing_is_said(world):
    world(stacks.environment("x"), stacks.environment("y"))
    declare(world, stacks.environment("y"))
    assert reason_of(world)["reason"] == "not in the manifests any more"
