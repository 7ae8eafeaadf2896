# SPDX-License-Identifier: Apache-2.0
"""Saved plans: applied exactly as saved, or refused, saying what moved; nothing sensitive in the file."""

import json
import shutil

import pytest

import stacks

pytestmark = pytest.mark.sampled("moto")

FUNCTION = "alphaagent-env-x"
SECRET = "s3cr3t-Value-4711"


@pytest.fixture
def stack(cloud, berth, prebuilt, tmp_path):
    """x and y applied; `stack.declare(**spec)` sets fields of x; `stack.file` is where plans are saved."""

    def declare(*more, **spec):
        berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x", **spec), stacks.environment("y"), stacks.agent("a", "x"), *more))

    berth.declare = declare
    berth.file = tmp_path / "saved.plan"
    declare()
    berth.apply()
    return berth


def save(stack, *args, code=0):
    return stack("plan", "-o", stack.file, *args).expect(code)


def refused(cloud, stack, *args, text="plan-stale", code=3):
    mark = cloud.mark()
    result = stack("apply", "--yes", *args, stack.file).expect(code)
    assert text in result.out + result.err, result
    assert cloud.changing_calls(mark) == []
    return result.out + result.err


def memory(cloud):
    return cloud.functions()[FUNCTION]["MemorySize"]


def test_applied_as_it_was_saved_whatever_the_manifests_say_by_then(cloud, stack):
    stack.declare(memoryMB=3000)
    planned = stack.plan("-o", stack.file)["changes"]
    stack.declare(memoryMB=4000)
    stack.write("broken.yaml", "kind: [")
    mark = cloud.mark()
    stack("apply", "--yes", stack.file).expect(0)
    assert [c["operation"] for c in cloud.changing_calls(mark)] == ["UpdateFunctionConfiguration"] and len(planned) == 1
    assert memory(cloud) == 3000
    assert "serial" in refused(cloud, stack), "it is not applied twice"


def test_files_are_for_their_owner(stack):
    stack.declare(memoryMB=3000)
    save(stack)
    assert stack.file.stat().st_mode & 0o777 == 0o600


def test_stale_by_serial(cloud, stack):
    stack.declare(memoryMB=3000)
    save(stack)
    stack.declare(stacks.agent("b", "y"))
    stack.apply()
    assert "serial" in refused(cloud, stack)
    stack.declare(memoryMB=3000)
    save(stack)
    stack("apply", "--yes", stack.file).expect(0)


def test_stale_by_revision(cloud, stack):
    stack.declare(memoryMB=3000)
    save(stack)
    cloud.aws("lambda").update_function_configuration(FunctionName=FUNCTION, TracingConfig={"Mode": "Active"})
    found = refused(cloud, stack)
    assert "Environment/x" in found and "revision" in found
    refused(cloud, stack, "--allow", "plan-stale", text="no such refusal", code=1)
    refused(cloud, stack, "--skip-refused")
    save(stack)
    stack("apply", "--yes", stack.file).expect(0)


def test_what_moved_elsewhere_is_no_obstacle(cloud, stack):
    """y is not in the plan, and its tracing is nobody's: what was shown is what is done."""
    stack.declare(memoryMB=3000)
    save(stack)
    cloud.aws("lambda").update_function_configuration(FunctionName="alphaagent-env-y", TracingConfig={"Mode": "Active"})
    stack("apply", "--yes", stack.file).expect(0)


def test_stale_by_another_change_that_is_needed_now(cloud, stack):
    stack.declare(memoryMB=3000)
    save(stack)
    cloud.aws("lambda").delete_function(FunctionName="alphaagent-env-y")
    refused(cloud, stack)


def test_stale_by_record(cloud, stack):
    stack.declare()
    (stack.stack / "m.yaml").write_text((stack.stack / "m.yaml").read_text().replace("type: general", "type: specialist"))
    save(stack)
    cloud.aws("s3").put_object(Bucket=f"alphaagent-workspaces-{cloud.account}-us-east-1", Key="registry/team/agents/a.json", Body=b"{}")
    assert "Agent/a" in refused(cloud, stack)


def test_stale_by_account(cloud, stack):
    stack.declare(memoryMB=3000)
    save(stack)
    identity = (
        '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>'
        "<Arn>arn:aws:iam::999999999999:user/x</Arn><UserId>U</UserId><Account>999999999999</Account>"
        "</GetCallerIdentityResult></GetCallerIdentityResponse>"
    )
    cloud.faults(({"operation": "GetCallerIdentity"}, {"kind": "answer", "headers": {"Content-Type": "text/xml"}, "body": identity}))
    mark = cloud.mark()
    assert "999999999999" in refused(cloud, stack, text="wrong-account")
    # What is asked beside it is read by nobody then.
    calls = cloud.calls(mark)
    assert "GetCallerIdentity" in [c["operation"] for c in calls] and not any(c["mutating"] for c in calls)


def test_a_plan_of_another_state(cloud, stack, tmp_path):
    stack.declare(memoryMB=3000)
    save(stack)
    mark = cloud.mark()
    result = stack("apply", "--yes", "--state", str(tmp_path / "other"), stack.file).expect(3)
    assert "plan-stale" in result.err and "lineage" in result.err
    assert cloud.calls(mark) == []


@pytest.mark.parametrize("what", ["memory", "allowance", "serial", "mac", "space"])
def test_edited_by_hand(cloud, stack, what):
    stack.declare(memoryMB=3000)
    save(stack)
    document = json.loads(stack.file.read_text())
    if what == "memory":
        text = stack.file.read_text().replace("3000", "4000")
    elif what == "allowance":
        document["allowances"].append({"id": "protected", "address": None})
        text = json.dumps(document)
    elif what == "serial":
        document["serial"] += 1
        text = json.dumps(document)
    elif what == "mac":
        document["mac"] = "0" * 64
        text = json.dumps(document)
    else:
        stack.file.write_text(json.dumps(document, indent=4))
        stack("apply", "--yes", stack.file).expect(0)  # the same document, written otherwise
        return
    stack.file.write_text(text)
    mark = cloud.mark()
    assert "changed since" in refused(cloud, stack, text=str(stack.file))
    assert cloud.calls(mark) == []


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"apiVersion: berth/v1", b'{"berthPlan": 99}', b'{"berthPlan": 1, "berthPlan": 1}', b"\x00\xff" * 100])
def test_what_is_no_plan(cloud, stack, content):
    stack.file.write_bytes(content)
    assert str(stack.file) in refused(cloud, stack, text="plan", code=1)


def test_no_such_file(stack):
    result = stack("apply", "--yes", "nothing.plan").expect(1)
    assert "nothing.plan" in result.err


def test_nothing_sensitive_in_the_file(cloud, stack):
    stack.declare(variables={"TOKEN": {"value": SECRET, "sensitive": True}})
    save(stack)
    assert SECRET not in stack.file.read_text()
    stack("apply", "--yes", stack.file).expect(0)
    found = cloud.aws("lambda").get_function(FunctionName=FUNCTION)["Configuration"]
    assert found["Environment"]["Variables"] == {"TOKEN": SECRET}, "read from the manifests"
    stack.assert_settled()


def test_a_secret_that_is_another_by_now(cloud, stack):
    stack.declare(variables={"TOKEN": {"value": SECRET, "sensitive": True}})
    save(stack)
    stack.declare(variables={"TOKEN": {"value": "another", "sensitive": True}})
    found = refused(cloud, stack, text="TOKEN", code=1)
    assert "Environment/x" in found and "another" not in found and SECRET not in found
    stack.declare()
    refused(cloud, stack, text="TOKEN", code=1)
    (stack.stack / "m.yaml").unlink()
    refused(cloud, stack, text="manifests", code=1)


def test_allowances_are_saved(cloud, stack):
    stack.declare(tenantIsolation=False)
    save(stack, code=3)
    refused(cloud, stack, text="needs-replacement")
    save(stack, "--allow", "needs-replacement:Environment/x")
    stack("apply", "--yes", stack.file).expect(0)
    assert stack("state", "show", "--json").json()["history"][0]["detail"]["allowed"] == ["needs-replacement:Environment/x"]


def test_an_allowance_may_come_when_it_is_applied(cloud, stack):
    stack.declare(tenantIsolation=False)
    save(stack, code=3)
    stack("apply", "--yes", "--allow", "needs-replacement:Environment/x", stack.file).expect(0)


def test_guards_hold_when_it_is_applied(cloud, stack):
    """A dependent that only the manifests know of guards in a saved plan too."""
    berth = stack
    berth.declare(stacks.environment("z"))
    berth.apply()
    berth.declare(stacks.agent("late", "z"))
    save(berth, code=3)
    found = refused(cloud, berth, text="has-dependents")
    assert "Agent/late" in found


def test_targets_are_saved(cloud, stack):
    stack.declare(stacks.environment("z"), memoryMB=3000)
    save(stack, "--target", "Environment/z")
    refused(cloud, stack, "--target", "Environment/x", text="applied whole", code=1)
    stack("apply", "--yes", stack.file).expect(0)
    assert memory(cloud) == 2048 and "alphaagent-env-z" in cloud.functions()


def test_it_waits_for_the_lease_and_leaves_nothing(cloud, stack, tmp_path):
    stack.declare(memoryMB=3000)
    save(stack)
    shutil.copy(stack.file, tmp_path / "copy")
    result = stack("apply", stack.file).expect(1)
    assert "--yes" in result.err and memory(cloud) == 2048
    stack("apply", "--yes", tmp_path / "copy").expect(0)


def test_where_it_cannot_be_written(stack):
    stack.declare(memoryMB=3000)
    result = stack("plan", "-o", "no/such/folder/plan").expect(1)
    assert "no/such/folder" in result.err
