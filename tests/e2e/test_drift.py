# SPDX-License-Identifier: Apache-2.0
"""Drift, adoption, forgetting and moving: what somebody else changed, and what Berth takes for its own."""

import pytest
from botocore.exceptions import ClientError

import stacks
from controllers import wait_until

FUNCTION = "alphaagent-env-x"
ADDRESS = "Environment/x"


@pytest.fixture
def stack(cloud, berth, prebuilt):
    """Two environments, an agent, a swarm, a policy; `stack.declare(**spec)` sets fields of Environment/x."""

    def declare(**spec):
        berth.write(
            "m.yaml",
            stacks.text(
                stacks.stack(), stacks.environment("x", **spec), stacks.environment("y"), stacks.agent("a", "x"),
                stacks.agent("b", "y"), stacks.swarm("s", ["a"], "x"), stacks.policy("p", {"all": True}, expireAfterDays=30),
            ),
        )  # fmt: skip

    berth.declare = declare
    declare(memoryMB=2048)
    berth.apply()
    return berth


def foreign(cloud, digest, name=FUNCTION, **settings):
    cloud.aws("lambda").create_function(
        FunctionName=name, PackageType="Image", Role=cloud.lambda_role("theirs"),
        Code={"ImageUri": cloud.image_uri("alphaagent/prebuilt/python", digest=digest)}, **settings,
    )  # fmt: skip
    cloud.aws("lambda").get_waiter("function_active_v2").wait(FunctionName=name, WaiterConfig={"Delay": 0.1})


def changed(cloud, mark):
    return [c["operation"] for c in cloud.changing_calls(mark)]


def fields(change):
    return [(f["path"], f["before"], f["after"]) for f in change["fields"]]


# --- drift --------------------------------------------------------------------------------------------


def test_a_memory_that_somebody_changed(cloud, stack):
    assert stack("drift", "--json").expect(0).json()["drift"] == []
    cloud.aws("lambda").update_function_configuration(FunctionName=FUNCTION, MemorySize=5000)
    mark = cloud.mark()
    (drift,) = stack("drift", "--json").expect(2).json()["drift"]
    assert (drift["address"], fields(drift)) == (ADDRESS, [("memoryMB", 2048, 5000)])
    text = stack("drift").expect(2).out
    assert ADDRESS in text and "memoryMB" in text and "2048" in text and "5000" in text
    (change,) = stack.plan("--detailed-exitcode", code=2)["changes"]
    assert (change["address"], change["action"], fields(change)) == (ADDRESS, "update", [("memoryMB", 5000, 2048)])
    assert changed(cloud, mark) == []
    stack.apply()
    assert changed(cloud, mark) == ["UpdateFunctionConfiguration"]
    assert cloud.functions()[FUNCTION]["MemorySize"] == 2048
    stack("drift").expect(0)
    stack.assert_settled()


def test_drift_of_the_other_kinds(cloud, stack):
    s3, bucket = cloud.aws("s3"), f"alphaagent-workspaces-{cloud.account}-us-east-1"
    s3.delete_bucket_lifecycle(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="registry/team/agents/a.json", Body=b"{}")
    s3.delete_object(Bucket=bucket, Key="registry/team/swarms/s.json")
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration={"BlockPublicAcls": True})
    cloud.aws("iam").delete_role_policy(RoleName="alphaagent-execution-us-east-1", PolicyName="berth-execution")
    found = {d["address"] for d in stack("drift", "--json").expect(2).json()["drift"]}
    assert found == {"Stack/team", "WorkspacePolicy/p", "Agent/a", "Swarm/s"}
    stack.apply()
    stack("drift").expect(0)
    stack.assert_settled()


def test_a_field_set_one_never_set_and_one_no_longer_set(cloud, stack):
    aws = cloud.aws("lambda")
    stack.declare(memoryMB=2048, description="ours")
    stack.apply()
    # Set by Berth: is put back. Never set: is left, and is no drift.
    aws.update_function_configuration(FunctionName=FUNCTION, Description="theirs", TracingConfig={"Mode": "Active"}, Environment={"Variables": {"THEIRS": "1"}})
    (drift,) = stack("drift", "--json").expect(2).json()["drift"]
    assert fields(drift) == [("description", "ours", "theirs")]
    mark = cloud.mark()
    stack.apply()
    assert changed(cloud, mark) == ["UpdateFunctionConfiguration"]
    found = aws.get_function(FunctionName=FUNCTION)["Configuration"]
    assert (found["Description"], found["TracingConfig"]["Mode"], found["Environment"]["Variables"]) == ("ours", "Active", {"THEIRS": "1"})
    # No longer set by Berth: taken back once; what others set afterwards is theirs.
    stack.declare(memoryMB=2048)
    stack.apply()
    assert aws.get_function(FunctionName=FUNCTION)["Configuration"].get("Description", "") == ""
    stack.assert_settled()
    aws.update_function_configuration(FunctionName=FUNCTION, Description="theirs again")
    mark = cloud.mark()
    assert stack("drift", "--json").expect(0).json()["drift"] == []
    stack.assert_settled()
    stack.apply()
    assert changed(cloud, mark) == []


def test_what_berth_no_longer_sets_while_somebody_changed_it(cloud, stack):
    stack.declare(memoryMB=2048, description="ours")
    stack.apply()
    cloud.aws("lambda").update_function_configuration(FunctionName=FUNCTION, Description="theirs")
    stack.declare(memoryMB=2048)
    (change,) = stack.plan()["changes"]
    assert fields(change) == [("description", "theirs", None)], "it was Berth's: the plan says what it takes away"
    stack.apply()
    stack.assert_settled()


def test_a_function_deleted_behind_our_back(cloud, stack):
    cloud.aws("lambda").delete_function(FunctionName=FUNCTION)
    (drift,) = stack("drift", "--json").expect(2).json()["drift"]
    assert drift["address"] == ADDRESS
    (change,) = stack.plan("--detailed-exitcode", code=2)["changes"]
    assert (change["address"], change["action"]) == (ADDRESS, "create") and "gone" in change["reason"]
    stack.apply()
    assert cloud.functions()[FUNCTION]["MemorySize"] == 2048
    stack.assert_settled()


def test_a_function_stuck_in_failed(cloud, stack):
    """Made anew by somebody else's hand with our tags, and failed: explained, and mended by replacing it."""
    old = cloud.functions()[FUNCTION]
    code = cloud.aws("lambda").get_function(FunctionName=FUNCTION)
    cloud.aws("lambda").delete_function(FunctionName=FUNCTION)
    cloud.settings(fail_functions={FUNCTION: "The image cannot be read"})
    cloud.aws("lambda").create_function(
        FunctionName=FUNCTION, PackageType="Image", Role=old["Role"], Tags=code["Tags"], Code={"ImageUri": code["Code"]["ImageUri"]}, MemorySize=2048, Timeout=900,
    )  # fmt: skip
    wait_until(lambda: cloud.aws("lambda").get_function(FunctionName=FUNCTION)["Configuration"]["State"] != "Pending")
    result = stack("plan", "--detailed-exitcode", "--refresh", "full").expect(2)
    assert "The image cannot be read" in result.out and "replace" in result.out
    (change,) = stack.plan("--refresh", "full")["changes"]
    assert change["action"] == "replace" and change["refusals"] == [], "what has failed is of no use: no guard"
    cloud.settings(fail_functions={})
    mark = cloud.mark()
    stack.apply("--refresh", "full")
    assert changed(cloud, mark)[:2] == ["DeleteFunction", "CreateFunction"]
    assert cloud.aws("lambda").get_function(FunctionName=FUNCTION)["Configuration"]["State"] == "Active"
    stack.assert_settled()


def test_refresh_reads_each_one(cloud, stack):
    cloud.aws("lambda").put_function_concurrency(FunctionName=FUNCTION, ReservedConcurrentExecutions=5)
    mark = cloud.mark()
    found = stack("refresh", "--json").expect(0).json()
    assert found["existing"] == found["read"] == 7
    assert {c["params"]["FunctionName"].rpartition(":")[2] for c in cloud.calls(mark, "lambda", "GetFunction")} >= {FUNCTION, "alphaagent-env-y"}
    assert changed(cloud, mark) == []
    cloud.aws("lambda").update_function_configuration(FunctionName=FUNCTION, MemorySize=5000)
    assert "1 drifted" in stack("refresh").expect(0).out


# --- adoption -----------------------------------------------------------------------------------------


def test_a_foreign_function_is_imported_and_brought_in_line(cloud, berth, prebuilt):
    foreign(cloud, prebuilt, MemorySize=4321, Timeout=900)
    berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x"), stacks.agent("a", "x")))
    (change,) = [c for c in berth.plan(code=3)["changes"] if c["address"] == ADDRESS]
    assert change["action"] == "adopt" and [r["id"] for r in change["refusals"]] == ["not-owned"]
    assert ("memoryMB", 4321, 2048) in fields(change)
    mark = cloud.mark()
    berth("apply", "--yes").expect(3)
    assert changed(cloud, mark) == []
    assert "alphaagent-env-other" in berth("import", ADDRESS, "alphaagent-env-other").expect(1).err
    assert "declares" in berth("import", "Environment/z", "alphaagent-env-z").expect(1).err
    berth("import", ADDRESS, FUNCTION).expect(0)
    assert changed(cloud, mark) == [], "import touches nothing"
    assert "already" in berth("import", ADDRESS, FUNCTION).expect(1).err
    (change,) = [c for c in berth.plan()["changes"] if c["address"] == ADDRESS]
    assert change["action"] == "update" and change["refusals"] == []
    assert ("memoryMB", 4321, 2048) in fields(change)
    berth.apply()
    found = cloud.aws("lambda").get_function(FunctionName=FUNCTION)
    assert found["Configuration"]["MemorySize"] == 2048 and found["Tags"]["berth:stack"] == "team"
    assert "CreateFunction" not in changed(cloud, mark) and "DeleteFunction" not in changed(cloud, mark)
    berth.assert_settled()


def test_import_by_arn(cloud, berth, prebuilt):
    foreign(cloud, prebuilt)
    berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x")))
    berth("import", ADDRESS, cloud.functions()[FUNCTION]["FunctionArn"]).expect(0)
    berth.apply()
    berth.assert_settled()


def test_import_of_another_stacks_function(cloud, berth, prebuilt):
    foreign(cloud, prebuilt, Tags={"berth:stack": "other", "berth:kind": "Environment", "berth:name": "x"})
    berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x")))
    assert "other" in berth("import", ADDRESS, FUNCTION).expect(3).err
    berth("import", ADDRESS, FUNCTION, "--allow", f"not-owned:{ADDRESS}").expect(0)


# --- state rm -----------------------------------------------------------------------------------------


def test_what_was_forgotten_is_left_alone_and_taken_in_again(cloud, stack):
    mark = cloud.mark()
    serial = stack("state", "show", "--json").json()["serial"]
    assert "--yes" in stack("state", "rm", "Agent/b").expect(1).err
    assert "has-dependents" in stack("state", "rm", "Environment/y", "--yes").expect(3).err
    stack("state", "rm", "Agent/b", "--yes").expect(0)
    assert FUNCTION.replace("-x", "-y") in stack("state", "rm", "Environment/y", "--yes").expect(0).out
    assert cloud.calls(mark) == [], "nobody is asked"
    assert stack("state", "list").out.split() == ["Agent/a", "Environment/x", "Stack/team", "Swarm/s", "WorkspacePolicy/p"]
    stack("state", "verify").expect(0)
    shown = stack("state", "show", "--json").json()
    assert shown["serial"] > serial
    assert (shown["history"][0]["command"], shown["history"][0]["detail"]["changes"][0]["address"]) == ("state rm", "Environment/y")
    actions = {c["address"]: c["action"] for c in stack.plan()["changes"]}
    assert actions == {"Environment/y": "adopt", "Agent/b": "adopt"}
    stack.apply()
    assert "CreateFunction" not in changed(cloud, mark)
    stack.assert_settled()


def test_what_was_forgotten_is_not_deleted_with_its_manifest(cloud, stack):
    stack("state", "rm", "Agent/b", "--yes").expect(0)
    stack("state", "rm", "Environment/y", "--yes").expect(0)
    stack.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x", memoryMB=2048), stacks.agent("a", "x"), stacks.swarm("s", ["a"], "x"), stacks.policy("p", {"all": True}, expireAfterDays=30)))
    stack.assert_settled()
    assert set(cloud.functions()) == {FUNCTION, "alphaagent-env-y"}


def test_rm_of_what_is_not_there(stack, tmp_path):
    assert "did you mean Agent/a?" in stack("state", "rm", "Agent/aa", "--yes").expect(1).err
    assert "Agent" in stack("state", "rm", "agent/a", "--yes").expect(1).err
    assert "address" in stack("state", "rm", "--yes").expect(1).err
    assert "nowhere" in stack("state", "rm", "Agent/a", "--yes", "--state", str(tmp_path / "nowhere")).expect(1).err
    assert not (tmp_path / "nowhere").exists(), "a mistyped --state makes nothing"


# --- state mv -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("address, to", [("Environment/y", "Environment/z"), ("Agent/b", "Agent/c"), ("Stack/team", "Stack/other"), ("WorkspacePolicy/p", "WorkspacePolicy/q")])
def test_what_is_called_by_its_name_cannot_move(cloud, stack, address, to):
    mark = cloud.mark()
    result = stack("state", "mv", address, to, "--yes").expect(1)
    assert to in result.err and "name" in result.err
    assert address in stack("state", "list").out.split()
    assert cloud.calls(mark) == []


def test_an_image_moves(cloud, berth):
    berth.write("m.yaml", stacks.text(stacks.stack(), stacks.image("one", repository="team/tool", tag="v1", createRepository=True, scanOnPush=True), stacks.image("two", repository="team/other", tag="v1", createRepository=True)))
    berth.apply()
    assert "already" in berth("state", "mv", "Image/one", "Image/two", "--yes").expect(1).err
    assert "Image/one" in berth("state", "mv", "Image/on", "Image/x", "--yes").expect(1).err
    assert "kind" in berth("state", "mv", "Image/one", "Agent/one", "--yes").expect(1).err
    assert "two addresses" in berth("state", "mv", "Image/one", "--yes").expect(1).err
    berth("state", "mv", "Image/one", "Image/renamed", "--yes").expect(0)
    (berth.stack / "m.yaml").write_text((berth.stack / "m.yaml").read_text().replace("name: one", "name: renamed"))
    mark = cloud.mark()
    assert [(c["address"], c["action"]) for c in berth.plan()["changes"]] == [("Image/renamed", "update")], "its tag berth:name"
    berth.apply()
    assert {"CreateRepository", "DeleteRepository"}.isdisjoint(changed(cloud, mark))
    arn = cloud.aws("ecr").describe_repositories(repositoryNames=["team/tool"])["repositories"][0]["repositoryArn"]
    tags = {t["Key"]: t["Value"] for t in cloud.aws("ecr").list_tags_for_resource(resourceArn=arn)["tags"]}
    assert tags["berth:name"] == "renamed"
    berth.assert_settled()
    assert berth("state", "show", "--json").json()["history"][1]["command"] == "state mv"
    with pytest.raises(ClientError):
        cloud.aws("ecr").describe_repositories(repositoryNames=["team/none"])
