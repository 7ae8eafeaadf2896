# SPDX-License-Identifier: Apache-2.0
"""Execution roles of single environments: made by Berth for one of them (own), or somebody's."""

import json
import shutil

import pytest

import stacks

SHARED = "alphaagent-execution-us-east-1"
OWN = "alphaagent-env-x-us-east-1"
LONG = "a-name-of-quite-some-length-for-an-environment"


@pytest.fixture
def iam(cloud):
    return cloud.aws("iam")


def write(berth, *documents, **spec):
    berth.write("m.yaml", stacks.text(stacks.stack(**spec), *documents))


def roles(iam):
    return {role["RoleName"] for role in iam.list_roles()["Roles"]}


def role_of(cloud, environment="x"):
    return cloud.functions()[f"alphaagent-env-{environment}"]["Role"]


def arn(cloud, name=OWN):
    return f"arn:aws:iam::{cloud.account}:role/{name}"


def change(plan, address="Environment/x"):
    (found,) = [c for c in plan["changes"] if c["address"] == address]
    return found


def refusals(plan, address="Environment/x"):
    return {r["id"]: r for r in change(plan, address)["refusals"]}


def operations(cloud, mark):
    return [c["operation"] for c in cloud.changing_calls(mark)]


def remove_role(iam, name=OWN):
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        iam.delete_role_policy(RoleName=name, PolicyName=policy)
    iam.delete_role(RoleName=name)


# --- one of its own -----------------------------------------------------------------------------------


def test_an_own_role_has_its_own_logs_only(cloud, berth, iam, prebuilt):
    write(berth, stacks.environment("x", executionRole="own"), stacks.environment("y"))
    plan = berth.plan()
    assert plan["calls"]["iam"] == 4, plan["calls"]
    berth.apply()
    assert role_of(cloud) == arn(cloud) and role_of(cloud, "y") == arn(cloud, SHARED)
    tags = {tag["Key"]: tag["Value"] for tag in iam.list_role_tags(RoleName=OWN)["Tags"]}
    assert (tags["berth:stack"], tags["berth:kind"], tags["berth:name"]) == ("team", "Environment", "x") and tags["berth:lineage"]
    statements = iam.get_role_policy(RoleName=OWN, PolicyName="berth-execution")["PolicyDocument"]["Statement"]
    logs = f"arn:aws:logs:us-east-1:{cloud.account}:log-group:/aws/lambda/alphaagent-env-x"
    assert [(statement["Sid"], statement["Resource"]) for statement in statements] == [("WriteLogs", [logs, f"{logs}:*"])]
    shared = iam.get_role_policy(RoleName=SHARED, PolicyName="berth-execution")["PolicyDocument"]["Statement"]

    def actions(of):
        return {action for s in of for action in ([s["Action"]] if isinstance(s["Action"], str) else s["Action"])}

    assert actions(statements) == actions(shared)
    berth.assert_settled()
    mark = cloud.mark()
    assert berth.plan()["changes"] == []
    assert len(cloud.calls(mark, service="iam")) == 4


def test_from_shared_to_own_and_back_in_place(cloud, berth, iam, prebuilt):
    write(berth, stacks.environment("x"))
    berth.apply()
    write(berth, stacks.environment("x", executionRole="own"))
    assert change(berth.plan())["action"] == "update"
    mark = cloud.mark()
    berth.apply()
    assert operations(cloud, mark) == ["CreateRole", "PutRolePolicy", "UpdateFunctionConfiguration"]
    assert role_of(cloud) == arn(cloud)
    berth.assert_settled()
    write(berth, stacks.environment("x"))
    assert change(berth.plan())["action"] == "update"
    mark = cloud.mark()
    berth.apply()
    assert operations(cloud, mark) == ["UpdateFunctionConfiguration", "DeleteRolePolicy", "DeleteRole"]
    assert role_of(cloud) == arn(cloud, SHARED) and OWN not in roles(iam)
    berth.assert_settled()


@pytest.mark.parametrize("how", ["manifest", "destroy"])
def test_an_own_role_goes_after_its_function(cloud, berth, iam, prebuilt, how):
    write(berth, stacks.environment("x", executionRole="own", logRetentionDays=7), stacks.environment("y"))
    berth.apply()
    mark = cloud.mark()
    if how == "manifest":
        write(berth, stacks.environment("y"))
        berth.apply()
    else:
        berth.destroy()
    assert OWN not in roles(iam)
    done = operations(cloud, mark)
    assert done.index("DeleteFunction") < done.index("DeleteRolePolicy") < done.index("DeleteRole")
    assert not cloud.direct("logs").describe_log_groups(logGroupNamePrefix="/aws/lambda/alphaagent-env-x")["logGroups"]


def test_a_name_too_long_for_iam_ends_in_a_digest(cloud, berth, iam, prebuilt):
    write(berth, stacks.environment(f"{LONG}-a", executionRole="own"), stacks.environment(f"{LONG}-b", executionRole="own"))
    berth.apply()
    own = sorted(roles(iam) - {SHARED})
    assert len(own) == 2 and all(len(name) <= 64 for name in own), own
    assert role_of(cloud, f"{LONG}-a") != role_of(cloud, f"{LONG}-b")
    berth.assert_settled()


@pytest.mark.parametrize(
    "harm, mended",
    [
        (lambda iam: iam.put_role_policy(RoleName=OWN, PolicyName="berth-execution", PolicyDocument='{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}'), "PutRolePolicy"),
        (lambda iam: iam.delete_role_policy(RoleName=OWN, PolicyName="berth-execution"), "PutRolePolicy"),
        (lambda iam: iam.update_assume_role_policy(RoleName=OWN, PolicyDocument='{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"AWS":"*"}}]}'), "UpdateAssumeRolePolicy"),
        (lambda iam: iam.tag_role(RoleName=OWN, Tags=[{"Key": "owner", "Value": "two"}]), "TagRole"),
    ],
    ids=["widened", "no policy", "trusts everybody", "tag"],
)
def test_what_was_changed_by_hand_is_drift_and_mended(cloud, berth, iam, prebuilt, harm, mended):
    write(berth, stacks.environment("x", executionRole="own"), tags={"owner": "one"})
    berth.apply()
    harm(iam)
    plan = berth.plan()
    assert all(f["path"].startswith("ownRole.") for f in change(plan)["fields"]) and [d["address"] for d in plan["drift"]] == ["Environment/x"]
    mark = cloud.mark()
    berth.apply()
    assert operations(cloud, mark) == [mended]
    berth.assert_settled()


@pytest.mark.parametrize("variables", [True, False])
def test_an_own_role_that_went_comes_back_whole(cloud, berth, iam, prebuilt, variables):
    write(berth, stacks.environment("x", executionRole="own", **({"variables": {"MODE": "1"}} if variables else {})))
    berth.apply()
    berth.assert_settled()
    remove_role(iam)
    plan = berth.plan()
    assert ("role" in {f["path"] for f in change(plan)["fields"]}) == variables, "the grants on its variables are void"
    mark = cloud.mark()
    berth.apply()
    assert operations(cloud, mark) == ["CreateRole", "PutRolePolicy"] + ["UpdateFunctionConfiguration"] * variables
    berth.assert_settled()
    mark = cloud.mark()
    berth.apply()
    assert operations(cloud, mark) == []


def test_an_own_role_made_anew_by_hand_is_set_again(cloud, berth, iam, prebuilt):
    write(berth, stacks.environment("x", executionRole="own", variables={"MODE": "1"}))
    berth.apply()
    trust = iam.get_role(RoleName=OWN)["Role"]["AssumeRolePolicyDocument"]
    tags = iam.list_role_tags(RoleName=OWN)["Tags"]
    policy = iam.get_role_policy(RoleName=OWN, PolicyName="berth-execution")["PolicyDocument"]
    remove_role(iam)
    iam.create_role(RoleName=OWN, AssumeRolePolicyDocument=json.dumps(trust), Tags=tags)
    iam.put_role_policy(RoleName=OWN, PolicyName="berth-execution", PolicyDocument=json.dumps(policy))
    assert [f["path"] for f in change(berth.plan())["fields"]] == ["role"]
    mark = cloud.mark()
    berth.apply()
    assert operations(cloud, mark) == ["UpdateFunctionConfiguration"]
    berth.assert_settled()


def test_the_propagation_of_a_new_own_role_is_waited_for(cloud, berth, prebuilt):
    cloud.settings(role_propagation_s=3)
    write(berth, stacks.environment("x", executionRole="own"))
    berth.apply()
    berth.assert_settled()


@pytest.mark.parametrize("operation", ["CreateRole", "PutRolePolicy", "DeleteRolePolicy", "DeleteRole", "TagRole"])
@pytest.mark.parametrize("kind", ["lost", "reset"])
def test_each_answer_for_an_own_role_may_be_lost(cloud, berth, iam, prebuilt, operation, kind):
    cloud.faults(({"operation": operation, "resource": OWN, "nth": 1}, {"kind": kind}))
    write(berth, stacks.environment("x", executionRole="own"))
    berth.apply()
    berth.assert_settled()
    write(berth, stacks.environment("x", executionRole="own"), tags={"t": "1"})
    berth.apply()
    write(berth, stacks.environment("x"), tags={"t": "1"})
    berth.apply()
    berth.assert_settled()
    assert OWN not in roles(iam)


@pytest.mark.parametrize("stage", ["CreateFunction", "PutRolePolicy"])
def test_a_run_that_failed_half_way_is_carried_on(cloud, berth, iam, prebuilt, stage):
    cloud.faults(({"operation": stage, "resource": "env-x"}, {"kind": "error", "status": 403, "code": "AccessDenied"}))
    write(berth, stacks.environment("x", executionRole="own"))
    berth.apply(code=1)
    cloud.faults()
    assert OWN in roles(iam)
    berth.apply()
    assert role_of(cloud) == arn(cloud)
    berth.assert_settled()


def test_a_half_made_role_goes_with_its_manifest(cloud, berth, iam, prebuilt):
    cloud.faults(({"operation": "CreateFunction"}, {"kind": "error", "status": 403, "code": "AccessDeniedException"}))
    write(berth, stacks.environment("x", executionRole="own"))
    berth.apply(code=1)
    cloud.faults()
    write(berth)
    berth.apply()
    assert OWN not in roles(iam)


def test_a_lost_state_is_made_again_with_own_roles(cloud, berth, prebuilt):
    write(berth, stacks.environment("x", executionRole="own"))
    berth.apply()
    shutil.rmtree(berth.stack / ".berth")
    berth("state", "adopt", "--yes").expect(0)
    assert {c["action"] for c in berth.plan()["changes"]} == {"update"}, "nothing but the marks"
    berth.apply()
    berth.assert_settled()
    berth.destroy()


# --- whose it is --------------------------------------------------------------------------------------


def foreign(iam, cloud, trust="lambda.amazonaws.com", name=OWN, tags=()):
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": trust}, "Action": "sts:AssumeRole"}]}
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(document), Tags=[{"Key": k, "Value": v} for k, v in tags])
    iam.put_role_policy(RoleName=name, PolicyName="admin", PolicyDocument='{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}')
    return arn(cloud, name)


@pytest.mark.parametrize("exists", [True, False], ids=["for a function that is there", "for a new one"])
@pytest.mark.parametrize("tags", [(), (("berth:stack", "another"), ("berth:lineage", "x"))], ids=["nobody's", "another stack's"])
def test_a_role_of_that_name_is_never_taken_over(cloud, berth, iam, prebuilt, exists, tags):
    """An administrator's role that bears the name of an own one: no leave whatever makes it an environment's."""
    if exists:
        write(berth, stacks.environment("x"))
        berth.apply()
    foreign(iam, cloud, tags=tags)
    before = iam.get_role(RoleName=OWN)["Role"]
    write(berth, stacks.environment("x", executionRole="own"))
    refusal = refusals(berth.plan(code=3))["not-owned"]
    assert arn(cloud) in refusal["message"] and "executionRole" in refusal["remedy"]
    mark = cloud.mark()
    berth("apply", "--yes", "--allow", "not-owned").expect(1)
    assert not [c for c in cloud.changing_calls(mark) if c["service"] == "iam" and c["params"].get("RoleName") == OWN and c["operation"] != "CreateRole"]
    assert iam.get_role(RoleName=OWN)["Role"] == before and iam.list_role_policies(RoleName=OWN)["PolicyNames"] == ["admin"]
    assert arn(cloud) not in {f["Role"] for f in cloud.functions().values()}


def test_a_role_that_is_made_meanwhile_is_left_alone(cloud, berth, iam, prebuilt):
    write(berth, stacks.environment("x", executionRole="own"))
    berth("plan", "-o", "saved").expect(0)
    foreign(iam, cloud)
    result = berth("apply", "saved", "--yes")
    assert result.code != 0
    assert iam.list_role_policies(RoleName=OWN)["PolicyNames"] == ["admin"] and cloud.functions() == {}


def test_a_role_that_lost_its_marks_is_left_alone(cloud, berth, iam, prebuilt):
    write(berth, stacks.environment("x", executionRole="own"))
    berth.apply()
    iam.untag_role(RoleName=OWN, TagKeys=["berth:stack"])
    write(berth, stacks.environment("x"))
    berth.apply()
    assert OWN in roles(iam) and role_of(cloud) == arn(cloud, SHARED)
    berth.assert_settled()


def test_a_role_that_lost_its_marks_outlives_the_environment(cloud, berth, iam, prebuilt):
    write(berth, stacks.environment("x", executionRole="own"))
    berth.apply()
    iam.untag_role(RoleName=OWN, TagKeys=["berth:stack"])
    berth.destroy()
    assert OWN in roles(iam)


def test_a_role_that_others_run_with_is_not_deleted(cloud, berth, iam, prebuilt):
    write(berth, stacks.environment("x", executionRole="own"))
    berth.apply()
    write(berth, stacks.environment("x", executionRole="own"), stacks.environment("y", executionRole=arn(cloud)))
    berth.apply()
    berth.assert_settled()
    write(berth, stacks.environment("x"), stacks.environment("y", executionRole=arn(cloud)))
    refusal = refusals(berth.plan(code=3))["has-dependents"]
    assert refusal["dependents"] == ["function alphaagent-env-y"] and arn(cloud) in refusal["message"]
    mark = cloud.mark()
    berth("apply", "--yes").expect(3)
    assert operations(cloud, mark) == []


def test_an_own_role_named_by_its_arn_is_kept(cloud, berth, iam, prebuilt):
    write(berth, stacks.environment("x", executionRole="own"))
    berth.apply()
    write(berth, stacks.environment("x", executionRole=arn(cloud)))
    berth.apply()
    assert role_of(cloud) == arn(cloud) and OWN in roles(iam)
    berth.assert_settled()


# --- somebody's ---------------------------------------------------------------------------------------


def test_somebodys_role_is_used_and_never_changed(cloud, berth, iam, prebuilt):
    mine = cloud.lambda_role("mine")
    write(berth, stacks.environment("x", executionRole=mine), stacks.environment("y"))
    mark = cloud.mark()
    berth.apply()
    assert role_of(cloud) == mine and role_of(cloud, "y") == arn(cloud, SHARED)
    assert {c["params"].get("RoleName") for c in cloud.changing_calls(mark) if c["service"] == "iam"} == {SHARED}
    berth.assert_settled()
    mark = cloud.mark()
    berth.plan()
    assert [c["operation"] for c in cloud.calls(mark, service="iam") if c["params"]["RoleName"] == "mine"] == []
    cloud.aws("lambda").update_function_configuration(FunctionName="alphaagent-env-x", Role=cloud.lambda_role("other"))
    assert [f["path"] for f in change(berth.plan())["fields"]] == ["role"]
    berth.apply()
    assert role_of(cloud) == mine
    write(berth, stacks.environment("x", executionRole="own"), stacks.environment("y"))
    berth.apply()
    berth.destroy()
    assert "mine" in roles(iam)


@pytest.mark.parametrize(
    "role, said",
    [
        (lambda cloud, iam: "arn:aws:iam::210987654321:role/theirs", "210987654321"),
        (lambda cloud, iam: arn(cloud, "nobodys"), "there is no role"),
        (lambda cloud, iam: foreign(iam, cloud, trust="ec2.amazonaws.com", name="for-machines"), "lambda.amazonaws.com"),
        (lambda cloud, iam: foreign(iam, cloud, name="here").replace("role/", "role/elsewhere/"), "the one of that name is"),
    ],
    ids=["another account's", "absent", "not Lambda's", "another path's"],
)
def test_a_role_that_lambda_could_not_assume_is_told_by_the_plan(cloud, berth, iam, prebuilt, role, said):
    write(berth, stacks.environment("x", executionRole=role(cloud, iam)))
    refusal = refusals(berth.plan(code=3))["role-unusable"]
    assert said in refusal["message"] and "executionRole: own" in refusal["remedy"]
    mark = cloud.mark()
    berth("apply", "--yes").expect(3)
    assert cloud.changing_calls(mark) == []


def test_where_roles_may_not_be_read_lambda_has_the_word(cloud, berth, iam, prebuilt):
    mine = cloud.lambda_role("mine")
    write(berth, stacks.environment("x", executionRole=mine))
    cloud.faults(({"operation": "GetRole", "resource": "mine"}, {"kind": "error", "status": 403, "code": "AccessDenied"}))
    berth.apply()
    assert role_of(cloud) == mine


def test_many_environments_of_one_role_cost_one_look(cloud, berth, prebuilt):
    mine = cloud.lambda_role("mine")
    write(berth, *(stacks.environment(f"e{i}", executionRole=mine) for i in range(5)))
    mark = cloud.mark()
    berth.plan()
    assert len([c for c in cloud.calls(mark, operation="GetRole") if c["params"]["RoleName"] == "mine"]) == 1


def test_validate_knows_the_account(offline):
    documents = stacks.environment("x", executionRole="arn:aws:iam::210987654321:role/r"), stacks.environment("y", executionRole="mine")
    offline.write("m.yaml", stacks.text(stacks.stack(aws={"account": "123456789012"}), *documents))
    result = offline("validate").expect(1)
    assert "the role is in account 210987654321" in result.err and "executionRole must be own, or the ARN" in result.err


def test_on_one_machine_it_means_nothing(offline):
    offline.write("m.yaml", stacks.text(stacks.document("Stack", "s", {"provider": "local"}), stacks.environment("x", executionRole="own")))
    offline("validate").expect(0)


def test_an_own_role_has_no_right_to_the_stack_s_key(cloud, berth, iam, prebuilt):
    """Lambda decrypts variables by a grant, and who signs requests to S3 uses the key for what they fetch."""
    key = cloud.aws("kms").create_key()["KeyMetadata"]["Arn"]
    write(berth, stacks.environment("x", executionRole="own", variables={"MODE": "1"}), aws={"kmsKey": key})
    berth.apply()
    berth.assert_settled()
    statements = iam.get_role_policy(RoleName=OWN, PolicyName="berth-execution")["PolicyDocument"]["Statement"]
    assert key not in json.dumps(statements)
    write(berth, stacks.environment("x", executionRole="own", variables={"MODE": "1"}))
    berth.assert_settled()
