# SPDX-License-Identifier: Apache-2.0
"""aws.network: where functions can connect to."""

import json
from urllib.parse import unquote

import pytest

import stacks

FUNCTION = "alphaagent-env-x"
ROLE = "alphaagent-execution-us-east-1"


@pytest.fixture
def ec2(cloud):
    return cloud.aws("ec2")


@pytest.fixture
def theirs(ec2):
    """Somebody's own network: {subnets, securityGroups}."""
    vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    subnets = [ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.1.{n}.0/24")["Subnet"]["SubnetId"] for n in range(2)]
    group = ec2.create_security_group(GroupName="theirs", Description="theirs", VpcId=vpc)["GroupId"]
    return {"subnets": subnets, "securityGroups": [group]}


def declare(berth, network=None, *more, **spec):
    aws = {"aws": {"network": network}} if network else {}
    berth.write("m.yaml", stacks.text(stacks.stack(**aws), stacks.environment("x", **spec), *more))


def config(cloud, function=FUNCTION):
    found = cloud.aws("lambda").get_function(FunctionName=function)["Configuration"].get("VpcConfig") or {}
    return {"subnets": sorted(found.get("SubnetIds") or []), "securityGroups": sorted(found.get("SecurityGroupIds") or [])}


def in_order(network):
    return {name: sorted(ids) for name, ids in network.items()}


def statements(cloud):
    document = cloud.aws("iam").get_role_policy(RoleName=ROLE, PolicyName="berth-execution")["PolicyDocument"]
    document = document if isinstance(document, dict) else json.loads(unquote(document))
    return {statement["Sid"]: statement for statement in document["Statement"]}


def fields(plan):
    return {(c["address"], f["path"]): (f["before"], f["after"]) for c in plan["changes"] for f in c["fields"]}


def changed(cloud, mark):
    return [c["operation"] for c in cloud.changing_calls(mark)]


OPEN = {"subnets": [], "securityGroups": []}


def test_a_network_of_ones_own(cloud, berth, prebuilt, theirs):
    declare(berth, theirs)
    berth.apply()
    assert config(cloud) == in_order(theirs)
    denied = statements(cloud)["NotFromFunctions"]
    assert denied["Effect"] == "Deny" and denied["Condition"]["ArnLike"]["lambda:SourceFunctionArn"].endswith(":function:alphaagent-env-*")
    assert "ec2:CreateNetworkInterface" in statements(cloud)["JoinNetworks"]["Action"]
    berth.assert_settled()
    berth("drift", "--refresh", "full").expect(0)
    declare(berth, {"subnets": theirs["subnets"][::-1], "securityGroups": theirs["securityGroups"]})
    assert berth.plan()["changes"] == [], "their order is of no matter"
    berth.destroy()


def test_a_function_moves_in_and_out_and_saying_nothing_leaves_it(cloud, berth, prebuilt, theirs):
    declare(berth)
    berth.apply()
    assert config(cloud) == OPEN and "JoinNetworks" not in statements(cloud)
    declare(berth, theirs)
    mark = cloud.mark()
    assert fields(berth.plan())["Environment/x", "network"] == ("open", in_order(theirs))
    berth.apply()
    assert config(cloud) == in_order(theirs)
    assert changed(cloud, mark) == ["PutRolePolicy", "UpdateFunctionConfiguration"], "first the rights, then who needs them"
    berth.assert_settled()
    declare(berth)
    assert berth.plan()["changes"] == [], "saying nothing takes nothing away"
    declare(berth, None, memoryMB=3000)
    berth.apply()
    assert config(cloud) == in_order(theirs) and "JoinNetworks" in statements(cloud)
    berth.assert_settled()
    declare(berth, "open")
    berth.apply()
    assert config(cloud) == OPEN
    berth.assert_settled()


def test_what_others_change_of_it(cloud, berth, prebuilt, theirs):
    declare(berth)
    berth.apply()
    moved = {"SubnetIds": theirs["subnets"], "SecurityGroupIds": theirs["securityGroups"]}
    cloud.aws("lambda").update_function_configuration(FunctionName=FUNCTION, VpcConfig=moved)
    berth("drift", "--refresh", "full").expect(0)
    berth.assert_settled()
    declare(berth, "open")
    assert fields(berth.plan())["Environment/x", "network"] == (in_order(theirs), "open"), "the plan says what it takes away"
    berth.apply()
    cloud.aws("lambda").update_function_configuration(FunctionName=FUNCTION, VpcConfig=moved)
    (drift,) = berth("drift", "--json").expect(2).json()["drift"]
    assert [(f["path"], f["before"], f["after"]) for f in drift["fields"]] == [("network", "open", in_order(theirs))]
    berth.apply()
    assert config(cloud) == OPEN
    berth.assert_settled()


def test_an_environment_has_a_network_of_its_own(cloud, berth, prebuilt, theirs):
    declare(berth, "open", stacks.environment("y", network=theirs))
    berth.apply()
    assert config(cloud) == OPEN and config(cloud, "alphaagent-env-y") == in_order(theirs)
    berth.assert_settled()


def test_an_environments_network_needs_the_stacks(offline):
    offline.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x", network="open")))
    assert "needs the Stack's aws.network" in offline("validate").expect(1).err
