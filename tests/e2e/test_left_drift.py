# SPDX-License-Identifier: Apache-2.0
"""What others added to functions and to the role, or took away from it: what apply puts back, and what stays and is told."""

import json

import pytest

import stacks

FUNCTION = "alphaagent-env-x"
ADDRESS = "Environment/x"
ROLE = "alphaagent-execution-us-east-1"
POLICY = "berth-execution"


@pytest.fixture
def stack(cloud, berth, prebuilt):
    def declare(accept=None, role_accept=None, **spec):
        aws = {"aws": {"accept": role_accept}} if role_accept else {}
        spec = {**spec, **({"accept": accept} if accept else {})}
        berth.write("m.yaml", stacks.text(stacks.stack(**aws), stacks.environment("x", **spec), stacks.agent("a", "x")))

    berth.declare = declare
    declare()
    berth.apply()
    return berth


def drift(stack, *options, code=2):
    """{address: {path: field}}"""
    found = stack("drift", "--json", *options).expect(code).json()["drift"]
    return {d["address"]: {f["path"]: f for f in d["fields"]} for d in found}


def stays(stack, cloud, address, path, *options):
    """The drift is told as such, by the plan too, and no change follows from it; what is there after an apply."""
    field = drift(stack, *options)[address][path]
    assert field["left"], field
    plan = stack.plan(*options)
    assert plan["changes"] == []
    (warning,) = [w for w in plan["warnings"] if path in w]
    assert address in warning and field["left"] in warning
    text = stack("drift", *options).expect(2).out
    assert f"{path} stays so" in text and "puts back nothing" in text
    mark = cloud.mark()
    stack.apply(*options)
    assert [c["operation"] for c in cloud.changing_calls(mark) if c["service"] != "s3"] == []
    return field


def role_policy(cloud):
    return cloud.aws("iam").get_role_policy(RoleName=ROLE, PolicyName=POLICY)["PolicyDocument"]


def put_role_policy(cloud, document, name=POLICY):
    cloud.aws("iam").put_role_policy(RoleName=ROLE, PolicyName=name, PolicyDocument=json.dumps(document))


def statement(document, sid):
    (found,) = [s for s in document["Statement"] if s.get("Sid") == sid]
    return found


# --- functions ------------------------------------------------------------------------------------------


def test_a_url_that_anybody_may_call(cloud, stack):
    client = cloud.aws("lambda")
    client.create_function_url_config(FunctionName=FUNCTION, AuthType="NONE")
    assert drift(stack, code=0) == {}, "a sweep does not look"
    field = stays(stack, cloud, ADDRESS, "url", "--refresh", "full")
    assert field["after"]["authType"] == "NONE" and "anybody on the internet" in field["left"]
    assert client.get_function_url_config(FunctionName=FUNCTION)["AuthType"] == "NONE"
    stack.declare(accept=["permissions"])
    assert "url" in drift(stack, "--refresh", "full")[ADDRESS]
    stack.declare(accept=["url"])
    assert drift(stack, "--refresh", "full", code=0) == {}
    assert stack.plan("--refresh", "full")["warnings"] == []
    stack.declare()
    client.delete_function_url_config(FunctionName=FUNCTION)
    assert drift(stack, "--refresh", "full", code=0) == {}


def test_permissions_that_others_added(cloud, stack):
    client = cloud.aws("lambda")
    client.add_permission(FunctionName=FUNCTION, StatementId="anybody", Action="lambda:InvokeFunction", Principal="*")
    field = stays(stack, cloud, ADDRESS, "permissions", "--refresh", "full")
    assert [s["Sid"] for s in field["after"]] == ["anybody"]
    stack.declare(accept=["permissions"])
    assert drift(stack, "--refresh", "full", code=0) == {}


def test_an_entry_point_is_put_back(cloud, stack):
    client = cloud.aws("lambda")
    client.update_function_configuration(FunctionName=FUNCTION, ImageConfig={"EntryPoint": ["/bin/sh"], "Command": ["-c", "evil"], "WorkingDirectory": "/tmp"})
    found = drift(stack)[ADDRESS]
    assert {path: field["after"] for path, field in found.items()} == {
        "imageConfig.command": ["-c", "evil"], "imageConfig.entryPoint": ["/bin/sh"], "imageConfig.workingDirectory": "/tmp",
    }  # fmt: skip
    (change,) = stack.plan()["changes"]
    assert (change["address"], change["action"]) == (ADDRESS, "update")
    mark = cloud.mark()
    stack.apply()
    assert [c["operation"] for c in cloud.changing_calls(mark) if c["service"] == "lambda"] == ["UpdateFunctionConfiguration"]
    assert "ImageConfigResponse" not in client.get_function(FunctionName=FUNCTION)["Configuration"]
    stack.assert_settled()


def test_a_function_that_was_put_into_a_vpc(cloud, stack):
    client, ec2 = cloud.aws("lambda"), cloud.direct("ec2")
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    group = ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
    client.update_function_configuration(FunctionName=FUNCTION, VpcConfig={"SubnetIds": [subnet], "SecurityGroupIds": [group]})
    field = stays(stack, cloud, ADDRESS, "vpc")
    assert field["after"]["subnets"] == [subnet] and field["after"]["securityGroups"] == [group]
    assert client.get_function(FunctionName=FUNCTION)["Configuration"]["VpcConfig"]["SubnetIds"] == [subnet]
    stays(stack, cloud, ADDRESS, "vpc"), "and again, of a function that has not moved"
    stack.declare(accept=["network"])
    assert drift(stack, code=0) == {}


def test_an_image_deleted_under_a_running_function(cloud, stack, prebuilt):
    ecr = cloud.aws("ecr")
    ecr.batch_delete_image(repositoryName="alphaagent/prebuilt/python", imageIds=[{"imageDigest": prebuilt}])
    field = stays(stack, cloud, ADDRESS, "image.digest")
    assert (field["before"], field["after"]) == (prebuilt, None)
    assert f"{prebuilt}, was deleted from alphaagent/prebuilt/python" in field["left"] and "push that image again" in field["left"]
    # Nothing is known where nobody may look, and nothing is claimed then.
    cloud.faults(({"operation": "BatchGetImage"}, {"kind": "error", "status": 400, "code": "AccessDeniedException", "message": "no"}))
    assert drift(stack, code=0) == {}
    cloud.faults()
    ecr.delete_repository(repositoryName="alphaagent/prebuilt/python", force=True)
    stays(stack, cloud, ADDRESS, "image.digest")


def test_a_deleted_image_that_the_plan_replaces(cloud, berth):
    ecr = cloud.aws("ecr")
    digest = cloud.pushes.amd64("team/tool", "v1")
    berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x", image={"repository": "team/tool", "tag": "v1", "follow": "tag"})))
    berth.apply()
    other = cloud.pushes.amd64("team/tool", "v1", "another")
    assert other != digest
    ecr.batch_delete_image(repositoryName="team/tool", imageIds=[{"imageDigest": digest}])
    plan = berth.plan()
    assert [c["address"] for c in plan["changes"]] == [ADDRESS] and plan["warnings"] == [] and plan["drift"] == []
    berth.apply()
    berth.assert_settled()


def test_without_the_right_to_look(cloud, stack):
    cloud.faults(({"operation": "GetPolicy"}, {"kind": "error", "status": 403, "code": "AccessDeniedException", "message": "no"}))
    (warning,) = stack.plan("--refresh", "full")["warnings"]
    assert "allow lambda:GetFunctionUrlConfig and lambda:GetPolicy" in warning


def test_without_the_right_to_list_policies(cloud, stack):
    cloud.faults(({"operation": "ListAttachedRolePolicies"}, {"kind": "error", "status": 403, "code": "AccessDenied", "message": "no"}))
    (warning,) = stack.plan("--refresh", "full")["warnings"]
    assert "allow iam:ListRolePolicies and iam:ListAttachedRolePolicies" in warning


# --- the role -------------------------------------------------------------------------------------------


def test_policies_of_others(cloud, stack):
    iam = cloud.aws("iam")
    arn = cloud.direct("iam").create_policy(PolicyName="more", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}))["Policy"]["Arn"]
    iam.attach_role_policy(RoleName=ROLE, PolicyArn=arn)
    put_role_policy(cloud, {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "iam:*", "Resource": "*"}]}, "theirs")
    assert drift(stack, code=0) == {}, "a sweep does not look"
    assert stays(stack, cloud, "Stack/team", "role.attachedPolicies", "--refresh", "full")["after"] == [arn]
    assert stays(stack, cloud, "Stack/team", "role.inlinePolicies", "--refresh", "full")["after"] == ["theirs"]
    stack.declare(role_accept=["rolePolicies"])
    assert drift(stack, "--refresh", "full", code=0) == {}
    stack.assert_settled()


def test_a_permissions_boundary(cloud, stack):
    arn = cloud.direct("iam").create_policy(PolicyName="bound", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}))["Policy"]["Arn"]
    cloud.direct("iam").put_role_permissions_boundary(RoleName=ROLE, PermissionsBoundary=arn)
    assert stays(stack, cloud, "Stack/team", "role.permissionsBoundary")["after"] == arn
    stack.declare(role_accept=["roleRights"])
    assert drift(stack, code=0) == {}


def test_rights_that_were_taken_from_the_role_are_not_given_back(cloud, stack):
    document = role_policy(cloud)
    statement(document, "UseWorkspaces")["Action"].remove("s3:DeleteObject")
    document["Statement"].append({"Sid": "Freeze", "Effect": "Deny", "Action": "s3:PutObject", "Resource": "*"})
    put_role_policy(cloud, document)
    field = stays(stack, cloud, "Stack/team", "role.policy")
    assert "s3:DeleteObject on arn:aws:s3:::" in field["left"] and "1 Deny was added" in field["left"]
    assert role_policy(cloud) == document
    assert stack.plan()["changes"] == []
    # Nor by another change of the stack, nor by one that finds it wider as well.
    stack.declare(memoryMB=3000)
    stack.apply()
    assert role_policy(cloud) == document
    wider = json.loads(json.dumps(document))
    wider["Statement"].append({"Effect": "Allow", "Action": "iam:*", "Resource": "*"})
    put_role_policy(cloud, wider)
    assert "left" not in drift(stack)["Stack/team"]["role.policy.Statement"]
    stack.apply()
    after = role_policy(cloud)
    assert statement(after, "Freeze") and sorted(statement(after, "UseWorkspaces")["Action"]) == sorted(statement(document, "UseWorkspaces")["Action"])
    assert "iam:*" not in json.dumps(after)
    assert stack.plan()["changes"] == []
    # Berth's own again: who deletes the policy, gets the whole of it.
    cloud.aws("iam").delete_role_policy(RoleName=ROLE, PolicyName=POLICY)
    stack.apply()
    assert "s3:DeleteObject" in statement(role_policy(cloud), "UseWorkspaces")["Action"]
    assert drift(stack, code=0) == {}


def test_a_trust_policy_that_was_widened_is_put_back(cloud, stack):
    iam = cloud.aws("iam")
    ours = iam.get_role(RoleName=ROLE)["Role"]["AssumeRolePolicyDocument"]
    wider = json.loads(json.dumps(ours))
    wider["Statement"].append({"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{cloud.account}:root"}, "Action": "sts:AssumeRole"})
    iam.update_assume_role_policy(RoleName=ROLE, PolicyDocument=json.dumps(wider))
    assert "left" not in drift(stack)["Stack/team"]["role.trust.Statement"]
    stack.apply()
    assert iam.get_role(RoleName=ROLE)["Role"]["AssumeRolePolicyDocument"] == ours
    stack.assert_settled()


def test_a_trust_policy_under_a_condition_stays(cloud, stack):
    iam = cloud.aws("iam")
    document = iam.get_role(RoleName=ROLE)["Role"]["AssumeRolePolicyDocument"]
    document["Statement"][0]["Condition"] = {"StringEquals": {"aws:SourceAccount": cloud.account}}
    iam.update_assume_role_policy(RoleName=ROLE, PolicyDocument=json.dumps(document))
    stays(stack, cloud, "Stack/team", "role.trust")
    wider = json.loads(json.dumps(document))
    wider["Statement"][0]["Principal"] = {"Service": ["lambda.amazonaws.com", "ec2.amazonaws.com"]}
    iam.update_assume_role_policy(RoleName=ROLE, PolicyDocument=json.dumps(wider))
    stack.apply()
    after = iam.get_role(RoleName=ROLE)["Role"]["AssumeRolePolicyDocument"]
    assert [(s["Principal"], s["Condition"]) for s in after["Statement"]] == [({"Service": "lambda.amazonaws.com"}, {"StringEquals": {"aws:SourceAccount": cloud.account}})]
    assert stack.plan()["changes"] == []


def test_documents_that_mean_the_same_are_no_drift(cloud, stack):
    document = role_policy(cloud)
    document["Statement"].reverse()
    for each in document["Statement"]:
        each["Resource"] = [each["Resource"]]
        each.pop("Sid")
        if isinstance(each["Action"], list):
            each["Action"].reverse()
    first = next(each for each in document["Statement"] if isinstance(each["Action"], list))
    document["Statement"].append({**first, "Action": first["Action"].pop()})
    put_role_policy(cloud, document)
    assert drift(stack, code=0) == {}
    stack.assert_settled()
