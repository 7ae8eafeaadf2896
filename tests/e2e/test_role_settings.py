# SPDX-License-Identifier: Apache-2.0
"""aws.permissionsBoundary and aws.rolePath: of every role that Berth makes, the Stack's and those of single environments."""

import json

import pytest

import stacks

SHARED = "alphaagent-execution-us-east-1"
OWN = "alphaagent-env-x-us-east-1"
BOTH = [SHARED, OWN]


@pytest.fixture
def iam(cloud):
    return cloud.aws("iam")


@pytest.fixture
def policies(iam):
    document = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]})
    return [iam.create_policy(PolicyName=name, PolicyDocument=document)["Policy"]["Arn"] for name in ("bounds", "tighter")]


def write(berth, **aws):
    more = {"aws": aws} if aws else {}
    berth.write("m.yaml", stacks.text(stacks.stack(**more), stacks.environment("x", executionRole="own"), stacks.environment("y")))


def boundaries(iam):
    return {name: iam.get_role(RoleName=name)["Role"].get("PermissionsBoundary", {}).get("PermissionsBoundaryArn") for name in BOTH}


def paths(iam):
    return {iam.get_role(RoleName=name)["Role"]["Path"] for name in BOTH}


def fields(plan):
    return {(c["address"], f["path"]) for c in plan["changes"] for f in c["fields"]}


def operations(cloud, mark):
    return sorted(c["operation"] for c in cloud.changing_calls(mark))


def refusals(plan, address):
    return {r["id"]: r for c in plan["changes"] if c["address"] == address for r in c["refusals"]}


def test_a_boundary_comes_with_the_role_itself(cloud, berth, iam, prebuilt, policies):
    write(berth, permissionsBoundary=policies[0])
    berth.apply()
    assert boundaries(iam) == dict.fromkeys(BOTH, policies[0])
    assert not [c for c in cloud.calls(operation="PutRolePermissionsBoundary")], "a role is never without it"
    berth.assert_settled()


def test_a_boundary_follows_its_manifest(cloud, berth, iam, prebuilt, policies):
    write(berth)
    berth.apply()
    for wanted in (policies[0], policies[1], None):
        write(berth, **({"permissionsBoundary": wanted} if wanted else {}))
        assert fields(berth.plan()) == {("Stack/team", "role.permissionsBoundary"), ("Environment/x", "ownRole.permissionsBoundary")}
        mark = cloud.mark()
        berth.apply()
        assert operations(cloud, mark) == ["PutRolePermissionsBoundary" if wanted else "DeleteRolePermissionsBoundary"] * 2
        assert boundaries(iam) == dict.fromkeys(BOTH, wanted)
        berth.assert_settled()


@pytest.mark.parametrize("harm", ["removed", "another"])
def test_a_boundary_that_was_loosened_is_drift_and_comes_back(cloud, berth, iam, prebuilt, policies, harm):
    write(berth, permissionsBoundary=policies[0])
    berth.apply()
    for name in BOTH:
        if harm == "removed":
            iam.delete_role_permissions_boundary(RoleName=name)
        else:
            iam.put_role_permissions_boundary(RoleName=name, PermissionsBoundary=policies[1])
    # Nor does a manifest that accepts what others take from the roles accept this.
    berth.write("m.yaml", stacks.text(stacks.stack(aws={"permissionsBoundary": policies[0], "accept": ["roleRights"]}), stacks.environment("x", executionRole="own", accept=["roleRights"]), stacks.environment("y")))
    plan = berth.plan()
    assert {d["address"] for d in plan["drift"]} == {"Stack/team", "Environment/x"} and plan["warnings"] == []
    told = berth("drift", "--json").expect(2).json()["drift"]
    assert sorted((f["path"], f["before"], f.get("left")) for d in told for f in d["fields"]) == [(f"{member}.permissionsBoundary", policies[0], None) for member in ("ownRole", "role")]
    berth.apply()
    assert boundaries(iam) == dict.fromkeys(BOTH, policies[0])
    berth.assert_settled()


@pytest.mark.parametrize("said", [False, True], ids=["the manifest never said one", "the manifest said another one"])
def test_a_boundary_that_somebody_else_put_stays(cloud, berth, iam, prebuilt, policies, said):
    write(berth, **({"permissionsBoundary": policies[0]} if said else {}))
    berth.apply()
    for name in BOTH:
        iam.put_role_permissions_boundary(RoleName=name, PermissionsBoundary=policies[1])
    write(berth)
    mark = cloud.mark()
    berth.apply()
    assert operations(cloud, mark) == [] and boundaries(iam) == dict.fromkeys(BOTH, policies[1])
    assert berth.plan()["changes"] == []
    told = {(d["address"], f["path"]): f for d in berth("drift", "--json").expect(2).json()["drift"] for f in d["fields"]}
    for place in (("Stack/team", "role.permissionsBoundary"), ("Environment/x", "ownRole.permissionsBoundary")):
        assert told[place]["after"] == policies[1] and "accept it: " in told[place]["left"]
    write(berth, permissionsBoundary=policies[1])
    assert berth.plan()["warnings"] == [], "declared, it is nobody else's any more"
    berth.apply()
    berth.assert_settled()


def test_roles_are_made_at_their_path_and_functions_run_with_their_whole_arn(cloud, berth, iam, prebuilt):
    write(berth, rolePath="/agents/research/")
    berth.apply()
    assert paths(iam) == {"/agents/research/"}
    prefix = f"arn:aws:iam::{cloud.account}:role/agents/research/"
    assert {name: f["Role"] for name, f in cloud.functions().items()} == {"alphaagent-env-x": prefix + OWN, "alphaagent-env-y": prefix + SHARED}
    berth.assert_settled()
    write(berth)
    berth.apply()
    assert paths(iam) == {"/agents/research/"}, "none can move: what was said stays"
    berth.assert_settled()
    berth.destroy()
    assert not {r["RoleName"] for r in iam.list_roles()["Roles"]} & set(BOTH)


def test_a_role_that_went_comes_back_at_its_path(cloud, berth, iam, prebuilt):
    write(berth, rolePath="/agents/")
    berth.apply()
    for name in BOTH:
        iam.delete_role_policy(RoleName=name, PolicyName="berth-execution")
        iam.delete_role(RoleName=name)
    berth.apply()
    assert paths(iam) == {"/agents/"}
    berth.assert_settled()


def test_a_role_found_at_a_path_nobody_said_keeps_its_true_arn(cloud, berth, iam, prebuilt):
    write(berth)
    berth.apply()
    for name in BOTH:
        role = iam.get_role(RoleName=name)["Role"]
        tags, policy = iam.list_role_tags(RoleName=name)["Tags"], iam.get_role_policy(RoleName=name, PolicyName="berth-execution")["PolicyDocument"]
        iam.delete_role_policy(RoleName=name, PolicyName="berth-execution")
        iam.delete_role(RoleName=name)
        iam.create_role(RoleName=name, Path="/by/hand/", AssumeRolePolicyDocument=json.dumps(role["AssumeRolePolicyDocument"]), Tags=tags)
        iam.put_role_policy(RoleName=name, PolicyName="berth-execution", PolicyDocument=json.dumps(policy))
    assert fields(berth.plan()) == {("Environment/x", "role"), ("Environment/y", "role")}
    berth.apply()
    assert {f["Role"] for f in cloud.functions().values()} == {f"arn:aws:iam::{cloud.account}:role/by/hand/{name}" for name in BOTH}
    berth.assert_settled()


def test_another_path_is_refused_with_the_way_to_do_it(cloud, berth, iam, prebuilt):
    write(berth, rolePath="/a/")
    berth.apply()
    write(berth, rolePath="/b/")
    plan = berth.plan(code=3)
    shared, own = (refusals(plan, address)["needs-replacement"] for address in ("Stack/team", "Environment/x"))
    assert "/a/" in shared["message"] and "/b/" in own["message"] and "IAM moves no role" in own["message"]
    assert "aws.executionRole" in shared["remedy"] and "--allow needs-replacement:Environment/x" in own["remedy"]
    mark = cloud.mark()
    berth("apply", "--yes").expect(3)
    assert cloud.changing_calls(mark) == []
    bucket = cloud.aws("s3").list_buckets()["Buckets"][0]
    berth.apply("--allow", "needs-replacement")
    assert paths(iam) == {"/b/"} and cloud.aws("s3").list_buckets()["Buckets"] == [bucket]
    assert {f["Role"] for f in cloud.functions().values()} == {f"arn:aws:iam::{cloud.account}:role/b/{name}" for name in BOTH}
    assert "DeleteFunction" not in operations(cloud, mark) and "DeleteBucket" not in operations(cloud, mark)
    berth.assert_settled()


def test_an_own_role_moves_by_way_of_the_shared_one(cloud, berth, iam, prebuilt):
    """As the refusal's remedy says, without any leave."""
    stack = stacks.stack(aws={"executionRole": cloud.lambda_role("mine"), "rolePath": "/a/"})
    berth.write("m.yaml", stacks.text(stack, stacks.environment("x", executionRole="own")))
    berth.apply()
    stack["spec"]["aws"]["rolePath"] = "/b/"
    for role in ({}, {"executionRole": "own"}):
        berth.write("m.yaml", stacks.text(stack, stacks.environment("x", **role)))
        berth.apply()
    assert iam.get_role(RoleName=OWN)["Role"]["Path"] == "/b/"
    berth.assert_settled()


def test_validate_knows_what_iam_takes(offline):
    def said(**aws):
        offline.write("m.yaml", stacks.text(stacks.stack(aws=aws)))
        return offline("validate")

    assert "an IAM path, which begins and ends with a slash" in said(rolePath="agents").expect(1).err
    assert "an IAM path" in said(rolePath="/agents").expect(1).err and "an IAM path" in said(rolePath="//").expect(1).err
    assert "the ARN of an IAM policy" in said(permissionsBoundary="bounds").expect(1).err
    assert "account 210987654321" in said(account="123456789012", permissionsBoundary="arn:aws:iam::210987654321:policy/b").expect(1).err
    said(account="123456789012", permissionsBoundary="arn:aws:iam::aws:policy/PowerUserAccess", rolePath="/").expect(0)
