# SPDX-License-Identifier: Apache-2.0
"""What others added to functions and to the role, or took away from it: what apply puts back, and what stays and is told."""

import json

import pytest

import stacks

FUNCTION = "alphaagent-env-x"
ADDRESS = "Environment/x"
ROLE = "alphaagent-execution-us-east-1"
OWN = "alphaagent-env-x-us-east-1"
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


class Role:
    """A role that Berth made: the Stack's, or an environment's own."""

    def __init__(self, cloud, stack, own):
        self.cloud, self.stack, self.iam = cloud, stack, cloud.aws("iam")
        self.name, self.address, self.member = (OWN, ADDRESS, "ownRole") if own else (ROLE, "Stack/team", "role")
        self.spec = {"executionRole": "own"} if own else {}
        self.own = own

    def declare(self, accept=None, **spec):
        self.stack.declare(**{"accept" if self.own else "role_accept": accept}, **self.spec, **spec)

    def policy(self):
        return self.iam.get_role_policy(RoleName=self.name, PolicyName=POLICY)["PolicyDocument"]

    def put_policy(self, document, name=POLICY):
        self.iam.put_role_policy(RoleName=self.name, PolicyName=name, PolicyDocument=json.dumps(document))

    def trust(self):
        return self.iam.get_role(RoleName=self.name)["Role"]["AssumeRolePolicyDocument"]

    def put_trust(self, document):
        self.iam.update_assume_role_policy(RoleName=self.name, PolicyDocument=json.dumps(document))

    def path(self, member):
        return f"{self.member}.{member}"

    def stays(self, member, *options):
        return stays(self.stack, self.cloud, self.address, self.path(member), *options)


@pytest.fixture(params=[False, True], ids=["shared", "own"])
def role(request, cloud, stack):
    found = Role(cloud, stack, request.param)
    if request.param:
        found.declare()
        stack.apply()
    return found


def statement(document, sid):
    (found,) = [s for s in document["Statement"] if s.get("Sid") == sid]
    return found


# --- functions ------------------------------------------------------------------------------------------


def test_a_url_that_anybody_may_call(cloud, stack):
    client = cloud.aws("lambda")
    client.create_function_url_config(FunctionName=FUNCTION, AuthType="NONE")
    assert drift(stack, code=0) == {}, "a sweep does not look"
    field = stays(stack, cloud, ADDRESS, "url", "--refresh", "full")
    assert field["after"]["authType"] == "NONE" and "anyone on the internet" in field["left"]
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
    assert [c["address"] for c in plan["changes"]] == [ADDRESS] and plan["drift"] == []
    assert [warning for warning in plan["warnings"] if "berth.runtime" not in warning] == []
    berth.apply()
    berth.assert_settled()


def test_without_the_right_to_look(cloud, stack):
    cloud.faults(({"operation": "GetPolicy"}, {"kind": "error", "status": 403, "code": "AccessDeniedException", "message": "no"}))
    (warning,) = stack.plan("--refresh", "full")["warnings"]
    assert "allow lambda:GetFunctionUrlConfig and lambda:GetPolicy" in warning


def test_without_the_right_to_list_policies(cloud, stack, role):
    cloud.faults(({"operation": "ListAttachedRolePolicies"}, {"kind": "error", "status": 403, "code": "AccessDenied", "message": "no"}))
    warnings = stack.plan("--refresh", "full")["warnings"]
    assert len(warnings) == 1 + role.own and all("allow iam:ListRolePolicies and iam:ListAttachedRolePolicies" in w for w in warnings)


def test_a_listing_of_policies_that_goes_in_a_circle_ends(cloud, stack):
    def page(leads_to, nth):
        body = (
            "<ListAttachedRolePoliciesResponse><ListAttachedRolePoliciesResult><AttachedPolicies/><IsTruncated>true</IsTruncated>"
            f"<Marker>{leads_to}</Marker></ListAttachedRolePoliciesResult></ListAttachedRolePoliciesResponse>"
        )
        return {"operation": "ListAttachedRolePolicies", "nth": nth}, {"kind": "answer", "status": 200, "headers": {"Content-Type": "text/xml"}, "body": body}

    cloud.faults(page("a", list(range(1, 20, 2))), page("b", list(range(2, 21, 2))))
    assert "the listing has no end" in stack("drift", "--refresh", "full").expect(1).err


# --- the role -------------------------------------------------------------------------------------------


def test_policies_of_others(cloud, stack, role):
    arn = cloud.direct("iam").create_policy(PolicyName="more", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}))["Policy"]["Arn"]
    role.iam.attach_role_policy(RoleName=role.name, PolicyArn=arn)
    role.put_policy({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "iam:*", "Resource": "*"}]}, "theirs")
    assert drift(stack, code=0) == {}, "a sweep does not look"
    assert role.stays("attachedPolicies", "--refresh", "full")["after"] == [arn]
    assert role.stays("inlinePolicies", "--refresh", "full")["after"] == ["theirs"]
    role.declare(accept=["rolePolicies"])
    assert drift(stack, "--refresh", "full", code=0) == {}
    stack.assert_settled()


def test_a_permissions_boundary(cloud, stack, role):
    arn = cloud.direct("iam").create_policy(PolicyName="bound", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}))["Policy"]["Arn"]
    cloud.direct("iam").put_role_permissions_boundary(RoleName=role.name, PermissionsBoundary=arn)
    assert role.stays("permissionsBoundary")["after"] == arn
    role.declare(accept=["roleRights"])
    assert drift(stack, code=0) == {}


def test_rights_that_were_taken_from_the_role_are_not_given_back(stack, role):
    document = role.policy()
    statement(document, "WriteLogs")["Action"].remove("logs:CreateLogGroup")
    document["Statement"].append({"Sid": "Freeze", "Effect": "Deny", "Action": "s3:PutObject", "Resource": "*"})
    role.put_policy(document)
    field = role.stays("policy")
    assert "logs:CreateLogGroup on arn:aws:logs:" in field["left"] and "1 Deny was added" in field["left"]
    assert role.policy() == document
    role.declare(accept=["roleRights"])
    assert drift(stack, code=0) == {}
    role.declare()
    # Nor by another change of the stack, nor by one that finds it wider as well.
    role.declare(memoryMB=3000)
    stack.apply()
    assert role.policy() == document
    wider = json.loads(json.dumps(document))
    wider["Statement"].append({"Effect": "Allow", "Action": "iam:*", "Resource": "*"})
    role.put_policy(wider)
    assert "left" not in drift(stack)[role.address][role.path("policy.Statement")]
    stack.apply()
    after = role.policy()
    assert statement(after, "Freeze") and sorted(statement(after, "WriteLogs")["Action"]) == sorted(statement(document, "WriteLogs")["Action"])
    assert "iam:*" not in json.dumps(after)
    assert stack.plan()["changes"] == []
    # Berth's own again: who deletes the policy, gets the whole of it.
    role.iam.delete_role_policy(RoleName=role.name, PolicyName=POLICY)
    stack.apply()
    assert "logs:CreateLogGroup" in statement(role.policy(), "WriteLogs")["Action"]
    assert drift(stack, code=0) == {}


def test_a_condition_stays_and_shields_nothing_that_reaches_further(stack, role):
    ours = role.policy()
    document = json.loads(json.dumps(ours))
    statement(document, "WriteLogs")["Condition"] = {"StringLike": {"aws:PrincipalArn": "*/lab-*"}}
    role.put_policy(document)
    assert "logs:CreateLogGroup on arn:aws:logs:" in role.stays("policy")["left"]
    role.declare(accept=["roleRights"])
    assert drift(stack, code=0) == {}
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"StringLike": {"aws:PrincipalTag/x": "*"}}}
    for sent in (document["Statement"] + [everything], [everything]):
        role.put_policy({"Version": "2012-10-17", "Statement": sent})
        assert "left" not in drift(stack)[role.address][role.path("policy.Statement")]
        stack.apply()
        assert "PrincipalTag" not in json.dumps(role.policy())
    assert role.policy() == ours, "of Berth's nothing was left"


def test_rights_to_data_that_an_older_berth_gave_are_taken_away(stack, role):
    """Once functions read and wrote workspaces by their role; by now presigned requests do, and the role reaches no data."""
    ours = role.policy()
    objects = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], "Resource": "arn:aws:s3:::b/workspaces/sessions/*"}
    listing = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::b", "Condition": {"StringLike": {"s3:prefix": "other/*"}}}
    role.put_policy({**ours, "Statement": [*ours["Statement"], {**objects, "Sid": "UseWorkspaces"}, {**listing, "Sid": "ListWorkspaces"}]})
    (change,) = stack.plan()["changes"]
    assert (change["address"], change["action"], change["refusals"]) == (role.address, "update", [])
    stack.apply()
    assert role.policy() == ours and "s3:" not in json.dumps(role.policy())
    stack.assert_settled()


def test_a_trust_policy_that_was_widened_is_put_back(cloud, stack, role):
    ours = role.trust()
    wider = json.loads(json.dumps(ours))
    wider["Statement"].append({"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{cloud.account}:root"}, "Action": "sts:AssumeRole"})
    role.put_trust(wider)
    assert "left" not in drift(stack)[role.address][role.path("trust.Statement")]
    stack.apply()
    assert role.trust() == ours
    stack.assert_settled()


def test_a_trust_policy_under_a_condition_stays(cloud, stack, role):
    document = role.trust()
    document["Statement"][0]["Condition"] = {"StringEquals": {"aws:SourceAccount": cloud.account}}
    role.put_trust(document)
    role.stays("trust")
    wider = json.loads(json.dumps(document))
    wider["Statement"][0]["Principal"] = {"Service": ["lambda.amazonaws.com", "ec2.amazonaws.com"]}
    role.put_trust(wider)
    stack.apply()
    after = role.trust()
    assert [(s["Principal"], s["Condition"]) for s in after["Statement"]] == [({"Service": "lambda.amazonaws.com"}, {"StringEquals": {"aws:SourceAccount": cloud.account}})]
    assert stack.plan()["changes"] == []


def test_documents_that_mean_the_same_are_no_drift(stack, role):
    document = role.policy()
    document["Statement"].reverse()
    for each in document["Statement"]:
        each["Resource"] = [each["Resource"]] if isinstance(each["Resource"], str) else each["Resource"][::-1]
        each.pop("Sid")
        if isinstance(each["Action"], list):
            each["Action"].reverse()
    first = next(each for each in document["Statement"] if isinstance(each["Action"], list))
    document["Statement"].append({**first, "Action": first["Action"].pop()})
    role.put_policy(document)
    assert drift(stack, code=0) == {}
    stack.assert_settled()


def test_rights_taken_between_plan_and_apply_are_not_given_back(stack, role):
    """The plan is about a right too many; before it is applied, somebody takes one that Berth gave."""
    document = role.policy()
    role.put_policy({**document, "Statement": [*document["Statement"], {"Effect": "Allow", "Action": "iam:*", "Resource": "*"}]})
    stack("plan", "-o", "saved").expect(0)
    statement(document, "WriteLogs")["Action"].remove("logs:CreateLogGroup")
    role.put_policy({**document, "Statement": [*document["Statement"], {"Effect": "Allow", "Action": "iam:*", "Resource": "*"}]})
    stack("apply", "saved", "--yes")
    assert "logs:CreateLogGroup" not in json.dumps(role.policy())
    stack.apply()
    assert "logs:CreateLogGroup" not in json.dumps(role.policy()) and "iam:*" not in json.dumps(role.policy())


def test_all_actions_but_some_are_more_and_are_taken_away(role, stack):
    document = role.policy()
    role.put_policy({**document, "Statement": [{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}]})
    stack("drift", "--refresh", "full").expect(2)
    stack.apply()
    assert "NotAction" not in json.dumps(role.policy())


def test_of_an_own_role_that_is_given_up_nothing_is_told(cloud, stack):
    role = Role(cloud, stack, True)
    role.declare()
    stack.apply()
    document = role.policy()
    document["Statement"].append({"Sid": "Freeze", "Effect": "Deny", "Action": "s3:PutObject", "Resource": "*"})
    role.put_policy(document)
    stack.declare()
    plan = stack.plan()
    assert [c["address"] for c in plan["changes"]] == [ADDRESS] and plan["warnings"] == []
    stack.apply()
    stack.assert_settled()
    assert OWN not in {found["RoleName"] for found in role.iam.list_roles()["Roles"]}


@pytest.mark.parametrize("reserved, word", [(7, "no more than these"), (0, "throttled (reserved concurrency 0)")])
def test_concurrency_that_was_reserved_by_hand_stays_and_is_told(cloud, stack, reserved, word):
    """The console's Throttle button reserves 0: nothing runs then."""
    if reserved == 0 and cloud.flavor == "moto":
        pytest.skip("moto's GetFunction does not tell a reservation of 0")
    cloud.aws("lambda").put_function_concurrency(FunctionName=FUNCTION, ReservedConcurrentExecutions=reserved)
    field = stays(stack, cloud, ADDRESS, "reservedConcurrency", "--refresh", "full")
    assert field["after"] == reserved and word in field["left"], field
    stack.declare(accept=["concurrency"])
    stack.apply()
    stack("drift", "--refresh", "full").expect(0)
    stack.declare(reservedConcurrency=5)
    stack.apply("--refresh", "full")
    assert cloud.aws("lambda").get_function_concurrency(FunctionName=FUNCTION)["ReservedConcurrentExecutions"] == 5
    stack.assert_settled()
