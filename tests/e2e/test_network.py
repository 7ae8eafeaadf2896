# SPDX-License-Identifier: Apache-2.0
"""aws.network: where functions can connect to."""

import json

import pytest

import stacks
from lib.aws_stack import ROLE, changed, fields, role_statements as statements
from lib.steps import end_of

FUNCTION = "alphaagent-env-x"


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
    assert {"JoinNetworks", "NotFromFunctions"} <= statements(cloud).keys(), "and never the rights without the Deny"
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
    (drift,) = berth("drift", "--json").expect(2).json()["drift"]
    assert [(f["path"], f["before"]) for f in drift["fields"]] == [("vpc", None)], "it is told, and stays"
    assert berth.plan()["changes"] == []
    declare(berth, "open")
    assert fields(berth.plan())["Environment/x", "network"] == (in_order(theirs), "open"), "the plan says what it takes away"
    berth.apply()
    cloud.aws("lambda").update_function_configuration(FunctionName=FUNCTION, VpcConfig=moved)
    (drift,) = berth("drift", "--json").expect(2).json()["drift"]
    assert [(f["path"], f["before"], f["after"]) for f in drift["fields"]] == [("network", "open", in_order(theirs))]
    berth.apply()
    assert config(cloud) == OPEN
    berth.assert_settled()


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
def test_berths_own_deny_is_put_back(cloud, berth, prebuilt, theirs, own):
    iam = cloud.aws("iam")
    role, member = ("alphaagent-env-x-us-east-1", "ownRole") if own else (ROLE, "role")
    declare(berth, theirs, **({"executionRole": "own"} if own else {}))
    berth.apply()
    before = iam.get_role_policy(RoleName=role, PolicyName="berth-execution")["PolicyDocument"]["Statement"]
    document = json.dumps({"Version": "2012-10-17", "Statement": [s for s in before if s["Sid"] != "NotFromFunctions"]})
    iam.put_role_policy(RoleName=role, PolicyName="berth-execution", PolicyDocument=document)
    (drift,) = berth("drift", "--json").expect(2).json()["drift"]
    assert [f["path"] for f in drift["fields"]] == [f"{member}.policy.Statement"]
    berth.apply()
    after = iam.get_role_policy(RoleName=role, PolicyName="berth-execution")["PolicyDocument"]["Statement"]
    assert [s for s in after if s["Effect"] == "Deny"] == [s for s in before if s["Effect"] == "Deny"]
    berth.assert_settled()


def test_an_environment_has_a_network_of_its_own(cloud, berth, prebuilt, theirs):
    declare(berth, "open", stacks.environment("y", network=theirs))
    berth.apply()
    assert config(cloud) == OPEN and config(cloud, "alphaagent-env-y") == in_order(theirs)
    berth.assert_settled()


def test_an_environments_network_needs_the_stacks(offline):
    offline.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x", network="open")))
    assert "needs the Stack's aws.network" in offline("validate").expect(1).err


# --- isolated: a VPC that Berth makes -------------------------------------------------------------------


def own_vpcs(ec2):
    return [v["VpcId"] for v in ec2.describe_vpcs(Filters=[{"Name": "tag:berth:kind", "Values": ["Stack"]}])["Vpcs"]]


def look(ec2, cloud):
    """The one VPC of Berth's and what is in it, as EC2 shows it."""
    (vpc,) = own_vpcs(ec2)
    inside = [{"Name": "vpc-id", "Values": [vpc]}]
    subnets = ec2.describe_subnets(Filters=inside)["Subnets"]
    (endpoint,) = [e for e in ec2.describe_vpc_endpoints(Filters=inside)["VpcEndpoints"] if e["State"].lower() != "deleted"]
    (group,) = [g for g in ec2.describe_security_groups(Filters=inside)["SecurityGroups"] if g["GroupName"] == "alphaagent-isolated"]
    tables = ec2.describe_route_tables(Filters=inside)["RouteTables"]
    rules = ec2.describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group["GroupId"]]}])["SecurityGroupRules"]
    routes = [r for t in tables for r in t["Routes"] if r.get("GatewayId") != "local" and not r.get("GatewayId", "").startswith("vpce-")]
    return {"vpc": vpc, "subnets": subnets, "endpoint": endpoint, "group": group["GroupId"], "tables": tables, "rules": rules, "routes": routes}


def assert_leads_nowhere(ec2, cloud):
    found = look(ec2, cloud)
    assert len(found["subnets"]) == 2 and len({s["AvailabilityZone"] for s in found["subnets"]}) == 2
    assert not any(s["MapPublicIpOnLaunch"] for s in found["subnets"]) and found["routes"] == []
    (rule,) = found["rules"]
    assert rule["IsEgress"] and (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 443, 443) and rule["PrefixListId"].startswith("pl-")
    assert found["endpoint"]["VpcEndpointType"] == "Gateway" and found["endpoint"]["ServiceName"] == "com.amazonaws.us-east-1.s3"
    (statement,) = json.loads(found["endpoint"]["PolicyDocument"])["Statement"]
    bucket = f"arn:aws:s3:::alphaagent-workspaces-{cloud.account}-us-east-1"
    assert statement["Resource"] == [bucket, f"{bucket}/*"] and statement["Effect"] == "Allow"
    return found


def isolated(found):
    return {"subnets": sorted(s["SubnetId"] for s in found["subnets"]), "securityGroups": [found["group"]]}


def test_an_isolated_network_is_made_used_and_taken_down(cloud, berth, prebuilt, ec2):
    declare(berth, "isolated")
    plan = berth.plan()
    assert fields(plan)["Stack/team", "network.routes"] == (None, "to S3 alone") and fields(plan)["Environment/x", "network"] == (None, "isolated")
    berth.apply()
    found = assert_leads_nowhere(ec2, cloud)
    assert config(cloud) == isolated(found)
    lineage = berth("state", "show", "--json").json()["lineage"]
    for kind in ("vpc", "subnet", "vpc-endpoint", "security-group"):
        tagged = ec2.describe_tags(Filters=[{"Name": "resource-type", "Values": [kind]}, {"Name": "key", "Values": ["berth:lineage"]}])["Tags"]
        assert {t["Value"] for t in tagged} == {lineage}, kind
    berth.assert_settled()
    berth("drift", "--refresh", "full").expect(0)
    berth.destroy()
    assert own_vpcs(ec2) == [] and cloud.functions() == {}


def test_a_way_out_is_drift_and_closed(cloud, berth, prebuilt, ec2):
    declare(berth, "isolated")
    berth.apply()
    found = look(ec2, cloud)
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=found["vpc"])
    ec2.create_route(RouteTableId=found["tables"][0]["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    ec2.authorize_security_group_egress(GroupId=found["group"], IpPermissions=[{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}])
    ec2.authorize_security_group_ingress(GroupId=found["group"], IpPermissions=[{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "1.2.3.4/32"}]}])
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"}]}
    ec2.modify_vpc_endpoint(VpcEndpointId=found["endpoint"]["VpcEndpointId"], PolicyDocument=json.dumps(everything))
    (drift,) = berth("drift", "--json").expect(2).json()["drift"]
    vpc, found = found["vpc"], {f["path"]: f["after"] for f in drift["fields"]}
    assert found["network.routes"] == f"to S3 alone, and 0.0.0.0/0 by {gateway}, in {vpc}"
    assert "everything to 0.0.0.0/0" in found["network.rules"] and "tcp from 1.2.3.4/32" in found["network.rules"]
    assert any(path.startswith("network.endpoint") for path in found)
    berth.apply()
    assert_leads_nowhere(ec2, cloud)
    berth.assert_settled()


@pytest.mark.parametrize("harm", ["open", "another VPC", "a wider group"])
def test_a_function_taken_out_of_it_is_drift_and_comes_back(cloud, berth, prebuilt, ec2, theirs, harm):
    declare(berth, "isolated")
    berth.apply()
    inside = isolated(look(ec2, cloud))
    moved = {"open": OPEN, "another VPC": theirs, "a wider group": {**inside, "securityGroups": theirs["securityGroups"]}}[harm]
    update = {"FunctionName": FUNCTION, "VpcConfig": {"SubnetIds": moved["subnets"], "SecurityGroupIds": moved["securityGroups"]}}
    cloud.aws("lambda").update_function_configuration(**update)
    # Whatever a manifest accepts of networks that nobody declared: this one is declared.
    declare(berth, "isolated", accept=["network"])
    (drift,) = berth("drift", "--json").expect(2).json()["drift"]
    after = "open" if harm == "open" else in_order(moved)
    assert [(f["path"], f["before"], f["after"], f.get("left")) for f in drift["fields"]] == [("network", "isolated", after, None)]
    plan = berth.plan()
    assert fields(plan) == {("Environment/x", "network"): (after, "isolated")} and plan["warnings"] == []
    berth.apply()
    assert config(cloud) == inside
    berth.assert_settled()
    # A manifest that says nothing any more moves nobody, and tells who moved it.
    declare(berth)
    berth("drift").expect(0)
    berth.apply()
    cloud.aws("lambda").update_function_configuration(**update)
    (drift,) = berth("drift", "--json").expect(2).json()["drift"]
    ((path, before, left),) = [(f["path"], f["before"], f["left"]) for f in drift["fields"]]
    assert (path, before) == ("vpc", "isolated") and "say it again" in left
    (warning,) = berth.plan()["warnings"]
    assert "vpc" in warning and berth.plan()["changes"] == []
    berth.apply()
    assert config(cloud) == in_order(moved)
    declare(berth, accept=["network"])
    berth("drift").expect(0)


def test_what_somebody_deleted_of_it_is_made_again(cloud, berth, prebuilt, ec2):
    declare(berth, "isolated")
    berth.apply()
    found = look(ec2, cloud)
    ec2.delete_vpc_endpoints(VpcEndpointIds=[found["endpoint"]["VpcEndpointId"]])
    ec2.revoke_security_group_egress(GroupId=found["group"], SecurityGroupRuleIds=[found["rules"][0]["SecurityGroupRuleId"]])
    berth("drift").expect(2)
    berth.apply()
    assert assert_leads_nowhere(ec2, cloud)["vpc"] == found["vpc"]
    berth.assert_settled()


def test_one_environment_alone_is_isolated_and_then_none(cloud, berth, prebuilt, ec2):
    declare(berth, "open", stacks.environment("y", network="isolated"))
    berth.apply()
    found = assert_leads_nowhere(ec2, cloud)
    assert config(cloud) == OPEN and config(cloud, "alphaagent-env-y") == isolated(found)
    berth.assert_settled()
    declare(berth, "open", stacks.environment("y"))
    # Lambda keeps a network interface for a while.
    interface = ec2.create_network_interface(SubnetId=found["subnets"][0]["SubnetId"], Groups=[found["group"]])["NetworkInterface"]["NetworkInterfaceId"]
    berth.apply()
    assert config(cloud, "alphaagent-env-y") == OPEN and own_vpcs(ec2) == [found["vpc"]]
    berth.assert_settled()
    ec2.delete_network_interface(NetworkInterfaceId=interface)
    assert set(fields(berth.plan())) == {("Stack/team", "formerNetwork")}
    berth.apply()
    assert own_vpcs(ec2) == []
    berth.assert_settled()


def test_saying_nothing_leaves_functions_isolated(cloud, berth, prebuilt, ec2):
    declare(berth, "isolated")
    berth.apply()
    declare(berth)
    assert berth.plan()["changes"] == []
    declare(berth, None, memoryMB=3000)
    berth.apply()
    assert config(cloud) == isolated(assert_leads_nowhere(ec2, cloud))
    berth.assert_settled()
    berth.destroy()
    assert own_vpcs(ec2) == []


def test_a_network_that_is_said_again_is_put_back(cloud, berth, prebuilt):
    """The function was taken out of it while manifests said nothing, and was last read then."""
    declare(berth, "isolated")
    berth.apply()
    before = config(cloud)
    declare(berth)
    berth.apply()
    cloud.aws("lambda").update_function_configuration(FunctionName=FUNCTION, VpcConfig={"SubnetIds": [], "SecurityGroupIds": []})
    berth("drift").expect(2)
    declare(berth, None, accept=["network"])
    berth.apply()
    declare(berth, "isolated")
    berth.apply()
    assert config(cloud) == before != OPEN
    berth.assert_settled()


def test_destroy_waits_until_lambda_lets_go(cloud, berth, prebuilt, ec2):
    declare(berth, "isolated")
    berth.apply()
    busy = {"kind": "error", "status": 400, "code": "DependencyViolation", "message": "resource sg has a dependent object"}
    cloud.faults(({"operation": "DeleteSecurityGroup", "times": 3}, busy), ({"operation": "DeleteVpc", "times": 1}, busy))
    berth.destroy()
    assert cloud.fault_hits() == [3, 1] and own_vpcs(ec2) == []


def test_a_quota_that_is_used_up(cloud, berth, prebuilt):
    declare(berth, "isolated")
    cloud.faults(({"operation": "CreateVpc"}, {"kind": "error", "status": 400, "code": "VpcLimitExceeded", "message": "The maximum number of VPCs has been reached."}))
    result = berth("apply", "--yes").expect(1)
    assert "VPCs per Region" in result.out + result.err and cloud.functions() == {}
    cloud.faults()
    berth.apply()
    berth.assert_settled()


CREATIONS = ["CreateVpc", "CreateSubnet", "CreateVpcEndpoint", "CreateSecurityGroup", "AuthorizeSecurityGroupEgress"]


@pytest.mark.parametrize("operation", CREATIONS)
def test_an_answer_that_is_lost_makes_nothing_twice(cloud, berth, prebuilt, ec2, operation):
    declare(berth, "isolated")
    cloud.faults(({"operation": operation, "nth": 1}, {"kind": "lost"}))
    berth.apply()
    assert_leads_nowhere(ec2, cloud)
    berth.assert_settled()


def test_a_vpc_whose_answer_was_lost_is_looked_for_more_than_once(cloud, berth, prebuilt, ec2):
    """EC2's lists lag: the first two after the call, which are the third and fourth of the run, do not show it yet."""
    declare(berth, "isolated")
    none = {"kind": "answer", "status": 200, "headers": {"Content-Type": "text/xml"}, "body": "<DescribeVpcsResponse><vpcSet/></DescribeVpcsResponse>"}
    cloud.faults(({"operation": "CreateVpc", "nth": 1}, {"kind": "lost"}), ({"operation": "DescribeVpcs", "nth": [3, 4]}, none))
    berth.apply()
    assert cloud.fault_hits() == [1, 2] and len(own_vpcs(ec2)) == 1
    assert_leads_nowhere(ec2, cloud)
    berth.assert_settled()


@pytest.mark.parametrize("operation", CREATIONS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_death_at_a_call_makes_nothing_twice(cloud, berth, prebuilt, ec2, tmp_path, operation, when):
    declare(berth, "isolated")
    pidfile = tmp_path / "pid"
    cloud.faults(({"operation": operation, "nth": 1}, {"kind": "signal", "when": when, "pidfile": str(pidfile)}))
    assert end_of(berth, "apply", pidfile) < 0
    cloud.faults()
    berth.apply()
    assert_leads_nowhere(ec2, cloud)
    berth.assert_settled()
    berth.destroy()
    assert own_vpcs(ec2) == []


@pytest.mark.parametrize("then", ["silent", "open", "destroyed"])
@pytest.mark.parametrize("end", ["denied", "killed"])
def test_what_an_apply_began_and_did_not_record_goes(cloud, berth, prebuilt, ec2, tmp_path, end, then):
    """The stack was there before, so that its record says nothing of a network."""
    declare(berth)
    berth.apply()
    declare(berth, "isolated")
    pidfile = tmp_path / "pid"
    ways = {
        "denied": {"kind": "error", "status": 403, "code": "UnauthorizedOperation", "message": "no"},
        "killed": {"kind": "signal", "when": "after", "pidfile": str(pidfile)},
    }
    cloud.faults(({"operation": "CreateSubnet"}, ways[end]))
    assert end_of(berth, "apply", pidfile)
    cloud.faults()
    assert len(own_vpcs(ec2)) == 1
    if then == "destroyed":
        berth.destroy()
        assert own_vpcs(ec2) == [] and berth("state", "list").expect(0).out == ""
        return
    declare(berth, None if then == "silent" else "open")
    assert ("Stack/team", "formerNetwork") in fields(berth.plan())
    berth.apply()
    assert own_vpcs(ec2) == []
    assert ({"JoinNetworks", "NotFromFunctions"} & statements(cloud).keys() == set()) == (then == "silent")
    mark = cloud.mark()
    assert berth.plan()["changes"] == []
    assert cloud.changing_calls(mark) == []
    assert not [call for call in cloud.calls(mark) if call["service"] == "ec2"]


def test_who_has_no_rights_in_ec2_ends_what_a_run_began_all_the_same(cloud, berth, prebuilt):
    declare(berth)
    cloud.faults(({"operation": "CreateRole"}, {"kind": "error", "status": 403, "code": "AccessDenied", "message": "no"}))
    berth("apply", "--yes").expect(1)
    cloud.faults(({"operation": "DescribeVpcs"}, {"kind": "error", "status": 403, "code": "UnauthorizedOperation", "message": "no"}))
    berth.apply()
    assert cloud.fault_hits() == [1]
    berth.assert_settled()


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
def test_rights_that_no_record_tells_of_go_and_the_deny_with_them(cloud, berth, prebuilt, theirs, tmp_path, own):
    """The run died after it had widened the role, and the network was taken back: what it left is Berth's, Deny and all."""
    iam = cloud.aws("iam")
    role, spec = ("alphaagent-env-x-us-east-1", {"executionRole": "own"}) if own else (ROLE, {})

    def document():
        return {s["Sid"]: s for s in iam.get_role_policy(RoleName=role, PolicyName="berth-execution")["PolicyDocument"]["Statement"]}

    declare(berth, **spec)
    berth.apply()
    before = document()
    declare(berth, theirs, **spec)
    pidfile = tmp_path / "pid"
    cloud.faults(({"operation": "PutRolePolicy", "resource": role}, {"kind": "signal", "when": "after", "pidfile": str(pidfile)}))
    assert end_of(berth, "apply", pidfile) < 0
    cloud.faults()
    assert {"JoinNetworks", "NotFromFunctions"} <= document().keys()
    declare(berth, **spec)
    assert not any("Deny" in warning for warning in berth.plan()["warnings"])
    berth.apply()
    assert document() == before and config(cloud) == OPEN
    berth.assert_settled()
    berth("drift", "--refresh", "full").expect(0)
    # Left alone, without the grant that it came with, it is no less Berth's.
    iam.put_role_policy(RoleName=role, PolicyName="berth-execution", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [*before.values(), {**LEFT_DENY, "Condition": {"ArnLike": {"lambda:SourceFunctionArn": f"arn:aws:lambda:us-east-1:{cloud.account}:function:alphaagent-env-*"}}}]}))
    assert [f.get("left") for d in berth("drift", "--json").expect(2).json()["drift"] for f in d["fields"]] == [None]
    berth.apply()
    assert document() == before
    berth.assert_settled()


LEFT_DENY = {
    "Sid": "NotFromFunctions",
    "Effect": "Deny",
    "Action": ["ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses"],
    "Resource": "*",
}
REMOVALS = ["DeleteVpcEndpoints", "DeleteSecurityGroup", "DeleteSubnet", "DeleteVpc"]


@pytest.mark.parametrize("operation", REMOVALS)
def test_a_death_while_it_is_taken_down_leaves_nothing(cloud, berth, prebuilt, ec2, tmp_path, operation):
    declare(berth, "isolated")
    berth.apply()
    pidfile = tmp_path / "pid"
    cloud.faults(({"operation": operation, "nth": 1}, {"kind": "signal", "when": "after", "pidfile": str(pidfile)}))
    assert end_of(berth, "destroy", pidfile) < 0
    cloud.faults()
    berth.destroy()
    assert own_vpcs(ec2) == [] and berth("state", "list").expect(0).out == ""


def test_what_others_put_into_it_keeps_it(cloud, berth, prebuilt, ec2):
    declare(berth, "isolated")
    berth.apply()
    found = look(ec2, cloud)
    theirs, ours = (
        ec2.create_network_interface(SubnetId=found["subnets"][0]["SubnetId"], Groups=[found["group"]], Description=text)["NetworkInterface"]["NetworkInterfaceId"]
        for text in ("a database", "AWS Lambda VPC ENI-alphaagent-env-x-2fb1")
    )
    mark = cloud.mark()
    result = berth("destroy", "--yes", "--json").expect(3)
    (refusal,) = [r for c in result.json()["changes"] if c["address"] == "Stack/team" for r in c["refusals"]]
    assert refusal["id"] == "has-dependents" and refusal["dependents"] == [f"network interface {theirs} (a database)"]
    assert cloud.changing_calls(mark) == []
    for interface in (theirs, ours):
        ec2.delete_network_interface(NetworkInterfaceId=interface)
    berth.destroy()
    assert own_vpcs(ec2) == []


def test_a_vpc_of_another_lineage_is_not_touched(cloud, berth, prebuilt, ec2):
    """It carries the stack's name, but another state made it."""
    tags = [{"Key": k, "Value": v} for k, v in {"berth:stack": "team", "berth:kind": "Stack", "berth:name": "team", "berth:lineage": "11111111-1111-4111-8111-111111111111"}.items()]
    theirs = ec2.create_vpc(CidrBlock="10.9.0.0/16", TagSpecifications=[{"ResourceType": "vpc", "Tags": tags}])["Vpc"]["VpcId"]
    declare(berth, "isolated")
    berth.apply()
    assert len(own_vpcs(ec2)) == 2
    berth.assert_settled()
    berth.destroy()
    assert own_vpcs(ec2) == [theirs]


def copy_of(ec2, vpc, cidr="10.0.0.0/20"):
    """Another VPC with its tags, whose id comes before."""
    while (copy := ec2.create_vpc(CidrBlock=cidr)["Vpc"]["VpcId"]) > vpc:
        ec2.delete_vpc(VpcId=copy)
    ec2.create_tags(Resources=[copy], Tags=ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["Tags"])
    return copy


@pytest.mark.parametrize("cidr", ["10.0.0.0/16", "10.0.0.0/20"])
def test_tags_copied_to_another_vpc_do_not_make_it_ours(cloud, berth, prebuilt, ec2, cidr):
    """Theirs has a way out, which it keeps; its range holds ours, or is the same."""
    declare(berth, "isolated")
    berth.apply()
    (ours,) = own_vpcs(ec2)
    theirs = copy_of(ec2, ours, cidr)
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=theirs)
    (table,) = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [theirs]}])["RouteTables"]
    ec2.create_route(RouteTableId=table["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    mark = cloud.mark()
    assert berth.plan()["changes"] == []
    berth.apply()
    assert cloud.changing_calls(mark) == []
    berth.destroy()
    assert own_vpcs(ec2) == [theirs] and ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [theirs]}])["Subnets"] == []
    (table,) = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [theirs]}])["RouteTables"]
    assert "0.0.0.0/0" in [r["DestinationCidrBlock"] for r in table["Routes"]]


def untag(ec2, vpc):
    ec2.delete_tags(Resources=[vpc], Tags=[{"Key": "berth:lineage"}])


def wipe(cloud, ec2, found):
    cloud.aws("lambda").update_function_configuration(FunctionName=FUNCTION, VpcConfig={"SubnetIds": [], "SecurityGroupIds": []})
    ec2.delete_vpc_endpoints(VpcEndpointIds=[found["endpoint"]["VpcEndpointId"]])
    ec2.delete_security_group(GroupId=found["group"])
    for subnet in found["subnets"]:
        ec2.delete_subnet(SubnetId=subnet["SubnetId"])
    ec2.delete_vpc(VpcId=found["vpc"])


@pytest.mark.parametrize("seen", ["with it", "before it"])
def test_a_copy_of_its_marks_is_not_taken_for_a_vpc_that_went(cloud, berth, prebuilt, ec2, seen):
    declare(berth, "isolated")
    berth.apply()
    found = look(ec2, cloud)
    if seen == "before it":
        tags = ec2.describe_vpcs(VpcIds=[found["vpc"]])["Vpcs"][0]["Tags"]
        wipe(cloud, ec2, found)
        # The state still knows which one it was, after any number of plans without it.
        berth("plan").expect(0)
        berth("drift").expect(2)
        copy = ec2.create_vpc(CidrBlock="10.0.0.0/20", TagSpecifications=[{"ResourceType": "vpc", "Tags": tags}])["Vpc"]["VpcId"]
    else:
        copy = copy_of(ec2, found["vpc"])
        wipe(cloud, ec2, found)
    mark = cloud.mark()
    said = berth("apply", "--yes").expect(1).err
    assert f"the VPC {found['vpc']} that Berth made is gone, and {copy} carries its marks" in said
    assert cloud.changing_calls(mark) == []
    untag(ec2, copy)
    berth.apply()
    assert set(own_vpcs(ec2)) > {copy}
    ec2.delete_vpc(VpcId=copy)
    assert_leads_nowhere(ec2, cloud)
    berth.assert_settled()


@pytest.mark.parametrize("then", ["still wanted", "not wanted"])
def test_a_copy_that_comes_between_plan_and_apply_is_not_taken(cloud, berth, prebuilt, ec2, then):
    """The plan finds none where the known one was; the apply looks again, and finds the copy."""
    declare(berth, "isolated")
    berth.apply()
    found = look(ec2, cloud)
    copy = copy_of(ec2, found["vpc"])
    wipe(cloud, ec2, found)
    if then == "not wanted":
        declare(berth, "open")
    mark = cloud.mark()
    none = {"kind": "answer", "status": 200, "headers": {"Content-Type": "text/xml"}, "body": "<DescribeVpcsResponse><vpcSet/></DescribeVpcsResponse>"}
    cloud.faults(({"operation": "DescribeVpcs", "nth": 1}, none))
    result = berth("apply", "--yes")
    assert [c for c in cloud.changing_calls(mark) if c["service"] == "ec2"] == [] and own_vpcs(ec2) == [copy]
    if then == "not wanted":
        assert result.code == 0, result
        return
    assert result.code == 1 and f"the VPC {found['vpc']} that Berth made is gone, and {copy} carries its marks" in result.out + result.err
    cloud.faults()
    untag(ec2, copy)
    # A lost answer leaves one that is not the known one either, and is ours.
    cloud.faults(({"operation": "CreateVpc", "nth": 1}, {"kind": "lost"}))
    berth.apply()
    ec2.delete_vpc(VpcId=copy)
    assert_leads_nowhere(ec2, cloud)
    berth.assert_settled()


@pytest.mark.parametrize("allowed", [True, False])
def test_a_vpc_that_nobody_knows_any_more_is_told(cloud, berth, prebuilt, ec2, allowed):
    """A lost state's, which no manifest asks for any more."""
    declare(berth, "isolated")
    berth.apply()
    vpc = look(ec2, cloud)["vpc"]
    (berth.stack / ".berth").rename(berth.folder / "lost")
    declare(berth, "open")
    if not allowed:
        cloud.faults(({"operation": "DescribeVpcs"}, {"kind": "error", "status": 403, "code": "UnauthorizedOperation", "message": "no"}))
    plan = berth.plan("--refresh", "full", code=3)
    assert plan["remnants"] == ([f"VPC {vpc} of Stack/team"] if allowed else [])
    assert any("delete it by hand" in warning and vpc in warning for warning in plan["warnings"]) == allowed
    assert berth("drift", "--refresh", "full", "--json").json()["remnants"] == plan["remnants"]


@pytest.mark.parametrize("end", ["denied", "killed"])
def test_a_vpc_in_place_of_one_that_went_may_be_made_in_two_runs(cloud, berth, prebuilt, ec2, tmp_path, end):
    """The one that the state knows is gone, and the next one is made by a run that gets no further."""
    declare(berth, "isolated")
    berth.apply()
    wipe(cloud, ec2, look(ec2, cloud))
    berth("plan").expect(0)
    pidfile = tmp_path / "pid"
    if end == "denied":
        cloud.faults(({"operation": "CreateSubnet", "nth": 1}, {"kind": "error", "status": 403, "code": "UnauthorizedOperation"}))
        assert end_of(berth, "apply", pidfile) == 1
    else:
        cloud.faults(({"operation": "CreateVpc", "nth": 1}, {"kind": "signal", "when": "after", "pidfile": str(pidfile)}))
        assert end_of(berth, "apply", pidfile) < 0
    cloud.faults()
    (vpc,) = own_vpcs(ec2)
    berth("plan").expect(0)
    berth.apply()
    assert assert_leads_nowhere(ec2, cloud)["vpc"] == vpc
    berth.assert_settled()


def test_of_two_with_the_same_marks_a_lost_state_takes_neither(cloud, berth, prebuilt, ec2):
    declare(berth, "isolated")
    berth.apply()
    (ours,) = own_vpcs(ec2)
    copy = copy_of(ec2, ours)
    (berth.stack / ".berth").rename(berth.folder / "lost")
    mark = cloud.mark()
    berth("state", "adopt", "--yes").expect(0)
    for verb in (["plan"], ["drift"], ["apply", "--yes"]):
        said = berth(*verb).expect(1).err
        assert ours in said and copy in said and "no state tells which of them" in said
    assert [c for c in cloud.changing_calls(mark) if c["service"] == "ec2"] == []
    untag(ec2, copy)
    ec2.delete_vpc(VpcId=copy)
    berth.apply()
    assert assert_leads_nowhere(ec2, cloud)["vpc"] == ours
    berth.assert_settled()


def test_a_lost_state_finds_its_network_again(cloud, berth, prebuilt, ec2):
    declare(berth, "isolated")
    berth.apply()
    before = look(ec2, cloud)["vpc"]
    (berth.stack / ".berth").rename(berth.folder / "lost")
    berth("state", "adopt", "--yes").expect(0)
    mark = cloud.mark()
    berth.apply()
    assert not set(CREATIONS) & set(changed(cloud, mark))
    assert assert_leads_nowhere(ec2, cloud)["vpc"] == before
    berth.assert_settled()
    berth.destroy()
    assert own_vpcs(ec2) == []


def test_init_isolates_what_runs_in_aws(cloud, berth, prebuilt, ec2):
    berth("init", ".").expect(0)
    berth("validate").expect(0)
    found = fields(berth.plan("--provider", "aws"))
    assert found["Environment/python", "network"] == (None, "isolated")
