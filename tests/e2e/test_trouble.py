# SPDX-License-Identifier: Apache-2.0
"""Bad weather: throttling, 5xx, lost answers, slow roles, failing functions, killed runs. Nothing twice, nothing lost."""

import shutil
import signal
import time

import pytest

import stacks

pytestmark = pytest.mark.sampled("moto")

NAMES = [f"e-{n}" for n in range(4)]


@pytest.fixture
def four(berth, prebuilt):
    berth.write("m.yaml", stacks.text(stacks.stack(), *[stacks.environment(n) for n in NAMES], stacks.agent("a", "e-0")))
    return berth


def made(cloud):
    return {name.removeprefix("alphaagent-env-") for name in cloud.functions()}


@pytest.mark.parametrize(
    "action",
    [
        {"kind": "error", "status": 429, "code": "TooManyRequestsException", "retry_after": 1},
        {"kind": "error", "status": 429, "code": "TooManyRequestsException"},
        {"kind": "error", "status": 503, "code": "ServiceException"},
        {"kind": "reset"},
        {"kind": "lost"},
        {"kind": "truncate"},
        {"kind": "reset_mid_body"},
        {"kind": "delay", "seconds": 2},
    ],
    ids=lambda a: a["kind"] + str(a.get("status", "")) + ("-after" if "retry_after" in a else ""),
)
def test_creation_survives(cloud, four, action):
    cloud.faults(
        ({"operation": "CreateFunction", "nth": [1, 3]}, action),
        ({"operation": "PutObject", "resource": "registry", "nth": 1}, action),
        ({"operation": "CreateRole", "nth": 1}, action),
        ({"operation": "CreateBucket", "nth": 1}, action),
    )
    four.apply()
    assert all(cloud.fault_hits()), "each fault struck"
    cloud.faults()
    assert made(cloud) == set(NAMES)
    four.assert_settled()


@pytest.mark.parametrize("kind", ["reset", "lost", "truncate"])
def test_updates_survive(cloud, four, kind):
    four.apply()
    four.write("m.yaml", (four.stack / "m.yaml").read_text().replace("prebuilt: python", "prebuilt: python\n  memoryMB: 3000"))
    cloud.faults(({"operation": "UpdateFunctionConfiguration", "nth": [1, 3]}, {"kind": kind}))
    four.apply()
    assert {f["MemorySize"] for f in cloud.functions().values()} == {3000}
    cloud.faults()
    four.assert_settled()


def test_reading_survives(cloud, four):
    four.apply()
    cloud.faults(
        ({"operation": "ListFunctions", "nth": 1}, {"kind": "error", "status": 500, "code": "ServiceException"}),
        ({"operation": "GetResources", "nth": 1}, {"kind": "truncate"}),
        ({"operation": "ListObjectsV2", "nth": 1}, {"kind": "reset"}),
    )
    four.assert_settled()
    assert cloud.fault_hits()[0] == 1


def test_a_young_role_is_waited_for(cloud, four):
    cloud.settings(role_propagation_s=4)
    four.apply()
    assert made(cloud) == set(NAMES)
    refused = [c for c in cloud.calls(operation="CreateFunction") if c["error"] == "InvalidParameterValueException"]
    assert refused, "the proxy did refuse the young role"


def test_a_failing_function_fails_alone_and_is_made_anew(cloud, four):
    cloud.settings(fail_functions={"alphaagent-env-e-1": "The image cannot be read"})
    result = four("apply", "--yes").expect(1)
    assert "The image cannot be read" in result.out + result.err and "e-1" in result.out + result.err
    assert made(cloud) >= {"e-0", "e-2", "e-3"}
    cloud.settings(fail_functions={})
    four.apply()
    assert cloud.aws("lambda").get_function(FunctionName="alphaagent-env-e-1")["Configuration"]["State"] == "Active"
    four.assert_settled()


def test_access_denied_names_the_resource(cloud, four):
    cloud.faults(({"operation": "CreateFunction", "resource": "e-2"}, {"kind": "error", "status": 403, "code": "AccessDeniedException", "message": "no right to"}))
    result = four("apply", "--yes").expect(1)
    text = result.out + result.err
    assert "e-2" in text and "AccessDeniedException" in text
    assert made(cloud) == {"e-0", "e-1", "e-3"}
    cloud.faults()
    four.apply()
    assert made(cloud) == set(NAMES)


def test_someone_changed_it_meanwhile(cloud, four):
    """RevisionId has moved between the plan's look and the call: 412, and the run says so or plans anew; nothing is overwritten blindly."""
    four.apply()
    text = (four.stack / "m.yaml").read_text()
    four.write("m.yaml", text.replace("prebuilt: python", "prebuilt: python\n  memoryMB: 3000"))
    cloud.faults(({"operation": "UpdateFunctionConfiguration", "nth": 1}, {"kind": "error", "status": 412, "code": "PreconditionFailedException", "message": "moved"}))
    result = four("apply", "--yes")
    cloud.faults()
    if result.code:
        assert "moved" in result.out + result.err or "RevisionId" in result.out + result.err
    four.apply()
    assert {f["MemorySize"] for f in cloud.functions().values()} == {3000}


@pytest.mark.parametrize("operation", ["CreateBucket", "CreateRole", "CreateFunction", "PutObject"])
def test_killed_in_the_middle_and_run_again(cloud, four, operation):
    cloud.faults(({"operation": operation, "nth": 1}, {"kind": "delay", "seconds": 1.5}))
    process = four.popen("apply", "--yes")
    cloud.await_call(process, operation)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    cloud.await_quiet()  # what was in flight has arrived
    cloud.faults()
    four.apply()
    assert made(cloud) == set(NAMES)
    assert len(cloud.aws("iam").list_roles()["Roles"]) == 1
    assert len(cloud.aws("s3").list_buckets()["Buckets"]) == 1
    four.assert_settled()


def inheriting(hangup, start):
    """The process that `start` starts, with SIGHUP as given: whoever runs the tests may ignore it, as nohup does."""
    before = signal.signal(signal.SIGHUP, hangup)
    try:
        return start()
    finally:
        signal.signal(signal.SIGHUP, before)


def interrupted(cloud, four, signums, hangup=signal.SIG_DFL):
    """What an apply said to whom the signals came while its functions were being made."""
    cloud.settings(pending_s=2)
    process = inheriting(hangup, lambda: four.popen("apply", "--yes"))
    cloud.await_call(process, "CreateFunction")
    for signum in signums:
        process.send_signal(signum)
        time.sleep(0.2)
    out, err = process.communicate(timeout=60)
    cloud.settings(pending_s=0.1)
    return four.result(["apply"], process.returncode, out, err)


def test_a_state_that_goes_away(cloud, four):
    """What would be recorded nowhere is no success; the next state takes what was made by its tags when it is told to."""
    cloud.settings(held=True)
    process = four.popen("apply", "--yes")
    cloud.await_call(process, "CreateFunction")
    shutil.rmtree(four.stack / ".berth")
    cloud.settings(held=False)
    out, err = process.communicate(timeout=60)
    result = four.result(["apply"], process.returncode, out, err).expect(1)
    assert "data.mdb was removed or replaced while it was in use" in result.out + result.err
    assert "not-owned" in four("apply", "--yes").expect(3).out
    four("state", "adopt", "--yes").expect(0)
    four.apply()
    assert made(cloud) == set(NAMES)
    created = [c["params"]["FunctionName"] for c in cloud.calls(operation="CreateFunction") if c["status"] == 201]
    assert sorted(created) == sorted(set(created)), "nothing was created twice"
    four.assert_settled()


# A terminal that goes away says so twice, by the kernel and by the shell.
@pytest.mark.parametrize(
    "signums",
    [[signal.SIGINT], [signal.SIGTERM], [signal.SIGHUP], [signal.SIGHUP, signal.SIGHUP]],
    ids=lambda numbers: "-".join(n.name for n in numbers),
)
def test_interrupt_finishes_what_is_in_flight(cloud, four, signums):
    result = interrupted(cloud, four, signums).expect(1)
    assert "Interrupted:" in result.out and "left half-way" not in result.out
    four.apply()
    assert made(cloud) == set(NAMES)
    created = [c["params"]["FunctionName"] for c in cloud.calls(operation="CreateFunction") if c["status"] == 201]
    assert sorted(created) == sorted(set(created)), "nothing was created twice"
    four.assert_settled()


def test_interrupt_before_anything_is_begun(cloud, four):
    """While it looks, there is nothing to finish: the first interrupt ends it, also where nobody answers."""
    seconds = 20  # the interrupt comes long before
    cloud.faults(({"operation": "GetCallerIdentity"}, {"kind": "delay", "seconds": seconds}))
    for arguments, signum in (["plan"], signal.SIGINT), (["refresh"], signal.SIGTERM), (["apply", "--yes"], signal.SIGINT):
        since = cloud.mark()
        process = four.popen(*arguments)
        cloud.await_call(process, "GetCallerIdentity", since=since)
        process.send_signal(signum)
        out, err = process.communicate(timeout=seconds - 1)
        result = four.result(arguments, process.returncode, out, err).expect(1)
        assert result.out == "" and "interrupted" in result.err
    assert cloud.changing_calls() == []
    assert "The lock is free." in four("lock", "show").expect(0).out


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGHUP])
def test_second_interrupt_leaves_it_to_the_next_run(cloud, four, first):
    result = interrupted(cloud, four, [first, signal.SIGTERM]).expect(1)
    assert "left half-way" in result.out
    four.apply()
    assert made(cloud) == set(NAMES)
    four.assert_settled()


def test_interrupt_that_leaves_nothing_undone(cloud, berth, prebuilt):
    """It came while the last change was being made, which was finished: that is no failure."""
    berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("e-0")))
    result = interrupted(cloud, berth, [signal.SIGINT]).expect(0)
    assert "Applied:" in result.out
    berth.assert_settled()


def test_nohup_goes_on(cloud, four):
    interrupted(cloud, four, [signal.SIGHUP], hangup=signal.SIG_IGN).expect(0)
    assert made(cloud) == set(NAMES)
    four.assert_settled()


def test_clock_skew_is_corrected(cloud, four):
    cloud.settings(clock_skew_s=3600)
    four.apply()
    assert made(cloud) == set(NAMES)


def test_wrong_credentials(cloud, four):
    result = four("plan", env={"AWS_ACCESS_KEY_ID": "AKIAWRONG"}).expect(1)
    assert result.err and cloud.changing_calls() == []
    result = four("plan", env={"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}).expect(1)
    assert "credentials" in result.err
    cloud.expect_violations()


def test_a_source_of_credentials_that_fails_is_asked_once(cloud, four):
    """It may ask a person for a code: a plan of an applied stack, which asks much at a time, must not run it twice."""
    four.apply()
    count, source = four.home / "count", four.home / "source"
    source.write_text(f"#!/bin/sh\necho run >> {count}\necho wrong code >&2\nexit 1\n")
    source.chmod(0o755)
    (four.home / "config").write_text(f"[profile p]\nregion = us-east-1\ncredential_process = {source}\n")
    del four.env["AWS_ACCESS_KEY_ID"], four.env["AWS_SECRET_ACCESS_KEY"]
    four.env["AWS_PROFILE"] = "p"
    mark = cloud.mark()
    result = four("plan").expect(1)
    assert "sts GetCallerIdentity: credential_process" in result.err and "wrong code" in result.err
    assert count.read_text() == "run\n" and cloud.calls(mark) == []


def test_no_connection(offline):
    offline.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x")))
    result = offline("plan", timeout=60).expect(1)
    assert "127.0.0.1:1" in result.err


def test_profiles_and_assumed_roles(cloud, four):
    arn = cloud.lambda_role("deployer")
    key, secret = four.env["AWS_ACCESS_KEY_ID"], four.env["AWS_SECRET_ACCESS_KEY"]
    (four.home / "credentials").write_text(f"[base]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")
    (four.home / "config").write_text(f"[profile deploy]\nrole_arn = {arn}\nsource_profile = base\nregion = us-east-1\n")
    without = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_REGION": "", "AWS_PROFILE": "deploy"}
    result = four("plan", "--json", env=without).expect(0)
    assert result.json()["summary"]["create"] > 0
    assert [c["params"]["RoleArn"] for c in cloud.calls(operation="AssumeRole")] == [arn]
    assert cloud.calls(service="lambda")


def test_connections_are_kept(cloud, four):
    four.apply()
    calls = cloud.calls()
    assert len({c["connection"] for c in calls}) <= 17 and len(calls) > 20
