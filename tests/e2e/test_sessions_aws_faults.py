# SPDX-License-Identifier: Apache-2.0
"""What Lambda may do to an execution on AWS, one by one: each end is said as what it is, and the session goes on."""

import json

import pytest

from clocks import Clocks
from controllers import wait_until
from lib.aws_sessions import Session, begin, index, lose, own, post, result, text_of, wait_for_output, world  # noqa: F401

pytestmark = [pytest.mark.timeout(600), pytest.mark.sampled("moto")]

STREAM = {"operation": "InvokeWithResponseStream"}
KILL_RUNTIME = """
import os, signal
for entry in os.listdir('/proc'):
    if entry.isdigit() and int(entry) != os.getpid():
        try: words = open(f'/proc/{entry}/cmdline').read().split(chr(0))
        except OSError: continue
        if words[-2:-1] == ['lambda']: os.kill(int(entry), signal.SIGNAL)
import time; time.sleep(600)
"""


@pytest.fixture
def clocks(world, tmp_path):  # noqa: F811
    made = Clocks(tmp_path)
    made.give(world.berth)
    return made


def invokes(cloud):
    return len(cloud.calls(operation="InvokeWithResponseStream"))


def function_of(cloud):
    (name,) = cloud.functions()
    return name


def late(clocks, world, session, n, **moved):  # noqa: F811
    """The end of what waits, once the server's clocks have gone on."""
    clocks.give(world.berth, **moved)
    found = result(session, n)
    clocks.give(world.berth)
    return found


def nothing_ran(found, *words):
    assert found["status"] == "failed" and found["exitCode"] is None, found
    assert all(word in found["detail"] for word in ("nothing of it ran", *words)), found["detail"]


# --- throttling and quotas ---


@pytest.mark.parametrize("limit, reason", [(0, "ConcurrentInvocationLimitExceeded"), (1, "CallerRateLimitExceeded")])
def test_throttled_is_said_with_its_reason(world, cloud, clocks, limit, reason):  # noqa: F811
    world.declare()
    server = world.serve()
    session, others = Session(server), [Session(server), Session(server)]
    for one in others if limit else []:  # as many tenants as 2.5 times that may have environments
        one.run("1")
    cloud.settings(invocations_at_once=limit)
    n = begin(session, "open('f', 'w').write('x')")
    wait_until(lambda: any(call["status"] == 429 for call in cloud.calls(operation="InvokeWithResponseStream")))
    # It is waited for, within limits; which a client can shorten.
    found = late(clocks, world, session, n, monotonic_s=90)
    nothing_ran(found, "throttled", reason)
    assert found["files"]["changed"] == []
    cloud.settings(invocations_at_once=1000)
    after = session.run("import os\nos.path.exists('f')")
    assert text_of(after) == "False" and after["state"]["was"] == "new"


def test_throttling_that_ends_is_nothing_to_speak_of(world, cloud):  # noqa: F811
    world.declare()
    session = Session(world.serve())
    throttled = {"kind": "error", "status": 429, "code": "TooManyRequestsException", "message": "Rate Exceeded."}
    cloud.faults(({**STREAM, "times": 2}, throttled))
    assert text_of(session.run("1 + 1")) == "2" and invokes(cloud) == 3


def test_what_is_throttled_can_be_interrupted(world, cloud):  # noqa: F811
    world.declare()
    session = Session(world.serve())
    cloud.settings(invocations_at_once=0)
    n = begin(session, "1")
    wait_until(lambda: invokes(cloud) > 1)
    assert post(session.server, f"{session.path}/executions/{n}/interrupt").status in (200, 202, 204)
    found = result(session, n)
    assert found["status"] == "interrupted" and "nothing of it ran" in found["detail"], found
    tried = invokes(cloud)
    cloud.settings(invocations_at_once=1000)
    assert text_of(session.run("2")) == "2" and invokes(cloud) == tried + 1


def test_a_workspace_over_its_quota_runs_nothing_more(world, cloud, tmp_path):  # noqa: F811
    """What was pushed is counted afterwards; what is over it has to be deleted first."""
    world.declare()
    session = Session(world.serve())
    session.run("for name in ('a', 'b'): open(name, 'w').close()")
    before = invokes(cloud)
    listed = index(cloud, tmp_path, read=session.id)["files"]
    index(cloud, tmp_path, change=session.id, put=[[path, 400 << 20, sha256, etag] for path, _, sha256, etag in listed], removed=[])
    nothing_ran(session.run("1"), "800 MB", "delete files first")
    assert invokes(cloud) == before
    assert session.server.ask_socket(f"/v1/workspaces/{session.id}/files/a", method="DELETE").status == 204
    assert session.run("import os\nos.listdir('.')")["status"] in ("ok", "failed")


def test_more_files_than_an_event_tells_of(world, cloud, tmp_path):  # noqa: F811
    """As whoever pushes what no answer tells of can make: it is said before anything is sent, and what to do."""
    world.declare()
    session = Session(world.serve())
    session.run("1")
    before = invokes(cloud)
    put = [[f"f{i:05}", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", '"d41d8cd98f00b204e9800998ecf8427e"'] for i in range(20001)]
    index(cloud, tmp_path, change=session.id, put=put, removed=[])
    nothing_ran(session.run("1"), "20001 files, and 20000 may be there", "delete files first")
    assert invokes(cloud) == before


# --- ends that Lambda tells ---


def test_an_environment_that_ends_itself(world, cloud):  # noqa: F811
    world.declare()
    session = Session(world.serve())
    session.run("x = 1")
    found = session.run("x = 2\nprint('said', flush=True)" + KILL_RUNTIME.replace("SIGNAL", "SIGKILL"))
    assert found["status"] == "killed" and found["exitCode"] is None and "environment ended" in found["detail"], found
    after = session.run("x")
    assert text_of(after) == "1" and after["state"]["was"] == "restored" and after["state"]["reason"], after


def test_a_function_that_takes_longer_than_it_may(world, cloud):  # noqa: F811
    world.declare()
    session = Session(world.serve())
    session.run("x = 1")
    cloud.aws("lambda").update_function_configuration(FunctionName=function_of(cloud), Timeout=3)
    found = session.run("import time\nprint('said', flush=True)\nx = 2\ntime.sleep(0.5)" + KILL_RUNTIME.replace("SIGNAL", "SIGSTOP"))
    assert found["status"] == "timeout" and "Task timed out" in found["detail"] and found["stdout"]["content"] == "said\n", found
    cloud.aws("lambda").update_function_configuration(FunctionName=function_of(cloud), Timeout=900)
    after = session.run("x")
    assert text_of(after) == "1" and after["state"]["was"] == "restored", after


def test_ends_in_a_place_without_streams(world, cloud, clocks):  # noqa: F811
    """What Lambda answers in the runtime's stead is Lambda's word, and no answer of the runtime's."""
    invoke = {"operation": "Invoke"}
    world.declare()
    cloud.settings(has_streams=False)
    session = Session(world.serve())
    session.run("x = 1")  # from then on it is known that there are no streams
    cloud.faults(({**invoke, "times": 2}, {"kind": "error", "status": 429, "code": "TooManyRequestsException", "message": "Rate Exceeded."}))
    assert text_of(session.run("x")) == "1" and cloud.fault_hits() == [2]
    cloud.faults((invoke, {"kind": "error", "status": 403, "code": "AccessDeniedException", "message": "no"}))
    nothing_ran(session.run("x = 2"), "AccessDeniedException")
    cloud.faults()
    cloud.settings(invocations_at_once=0)
    n = begin(session, "x = 2")
    wait_until(lambda: any(call["status"] == 429 for call in cloud.calls(operation="Invoke")[-1:]))
    nothing_ran(late(clocks, world, session, n, monotonic_s=90), "throttled", "ConcurrentInvocationLimitExceeded")
    cloud.settings(invocations_at_once=1000)
    found = session.run("x = 2\nprint('said', flush=True)" + KILL_RUNTIME.replace("SIGNAL", "SIGKILL"))
    assert found["status"] == "killed" and "environment ended" in found["detail"] and "Runtime.ExitError" in found["detail"], found
    after = session.run("x")
    assert text_of(after) == "1" and after["state"]["was"] == "restored", after


@pytest.mark.parametrize("has_streams", [True, False])
def test_an_image_without_python(world, cloud, has_streams):  # noqa: F811
    world.declare(variables={"PATH": {"value": "/usr/sbin"}})
    cloud.settings(has_streams=has_streams)
    session = Session(world.serve())
    for _ in range(2):  # the first of them finds out whether there are streams
        nothing_ran(session.run("1"), "Runtime.NoPython", "there is no python3 here")


def test_an_environment_that_is_lost_while_code_runs(world, cloud):  # noqa: F811
    world.declare()
    session = Session(world.serve())
    session.run("x = 1\nopen('kept', 'w').write('kept')")
    n = begin(session, "x = 2\nopen('lost', 'w').write('lost')\nprint('on', flush=True)\nimport time; time.sleep(600)", timeoutSeconds=60)
    wait_for_output(session, n)
    lose(cloud, session)
    found = result(session, n)
    assert found["status"] == "killed" and found["files"]["changed"] == [] and found["stdout"]["content"] == "on\n", found
    after = session.run("import os\nx, open('kept').read(), os.path.exists('lost')")
    assert text_of(after) == "(1, 'kept', False)" and after["state"]["was"] == "restored" and after["state"]["reason"], after


def test_an_environment_that_stands_still_goes_on(world, cloud):  # noqa: F811
    world.declare()
    session = Session(world.serve())
    n = begin(session, "print('on', flush=True)\nimport time; time.sleep(1)\n'went on'", timeoutSeconds=60)
    wait_for_output(session, n)
    for do in ("freeze", "thaw"):
        cloud._post("environments", {"do": do, "tenant": session.id})
    assert text_of(result(session, n)) == "'went on'"


BEFORE = [(502, "ENILimitReachedException"), (502, "KMSDisabledException"), (409, "ResourceConflictException"), (400, "InvalidParameterValueException"),
          (403, "AccessDeniedException")]  # fmt: skip


def test_refused_before_any_code(world, cloud):  # noqa: F811
    world.declare()
    session = Session(world.serve())
    session.run("x = 1")
    for status, code in BEFORE:
        cloud.faults(({**STREAM, "times": 1}, {"kind": "error", "status": status, "code": code, "message": "not now"}))
        nothing_ran(session.run("x = 2"), code)
    after = session.run("x")
    assert text_of(after) == "1" and after["state"]["was"] == "kept" and invokes(cloud) == 2 + len(BEFORE)


@pytest.mark.parametrize("kind", ["reset", "error"])
def test_what_nobody_knows_is_said_to_be_that(world, cloud, clocks, kind):  # noqa: F811
    """Nothing of it ran here, but that cannot be seen: it is sent once, and its result waited for until it cannot come any more."""
    world.declare()
    session = Session(world.serve())
    session.run("x = 1")
    faults = {"reset": {"kind": "reset"}, "error": {"kind": "error", "status": 500, "code": "ServiceException", "message": "An error occurred"}}
    cloud.faults(({**STREAM, "times": 1}, faults[kind]))
    n = begin(session, "x = 2")
    wait_until(lambda: invokes(cloud) == 2)
    wait_until(lambda: [call for call in cloud.calls(operation="GetObject") if call["params"]["Key"].endswith(f"transfer/{n}/result")])
    assert session.server.ask_socket(f"{session.path}/executions/{n}").json()["status"] == "running"
    found = late(clocks, world, session, n, wall_s=120)
    assert found["status"] == "failed" and found["exitCode"] is None and "how far it came is not known" in found["detail"], found
    assert "nothing of it ran" not in found["detail"] and invokes(cloud) == 2
    after = session.run("x")
    assert text_of(after) == "1", after


def test_an_answer_that_is_late(world, cloud):  # noqa: F811
    world.declare()
    session = Session(world.serve())
    cloud.settings(answers_late_s=2)
    assert text_of(session.run("7")) == "7" and invokes(cloud) == 1


# --- environments and tenants ---


def test_a_function_whose_isolation_somebody_took_away(world, cloud):  # noqa: F811
    world.declare()
    session = Session(world.serve())
    session.run("x = 1")
    functions, name = cloud.aws("lambda"), function_of(cloud)
    was = functions.get_function(FunctionName=name)
    functions.delete_function(FunctionName=name)
    kept = {key: was["Configuration"][key] for key in ("FunctionName", "Role", "PackageType", "Timeout", "MemorySize", "Architectures")}
    image = {key: value for key, value in was["Configuration"]["ImageConfigResponse"]["ImageConfig"].items() if value}
    functions.create_function(**kept, Code={"ImageUri": was["Code"]["ImageUri"]}, ImageConfig=image)
    nothing_ran(session.run("x"), "tenant isolation is not what was applied", "berth drift")
    assert world.berth("drift").code != 0


def test_two_environments_of_one_tenant(world, cloud):  # noqa: F811
    """Lambda promises no single one. What a stale one has kept of variables and files is never taken for the newest."""
    world.declare()
    cloud.settings(environments_of_tenant=2)
    session = Session(world.serve())
    seen = []
    for number in range(1, 6):
        found = session.run(f"n = globals().get('n', 0) + 1\nopen('f', 'a').write('{number}')\nn, open('f').read()")
        assert text_of(found) == str((number, "".join(map(str, range(1, number + 1))))), (number, found)
        seen.append(found["state"]["was"])
        assert bool(found["state"]["reason"]) == (seen[-1] in ("restored", "lost")), found["state"]
    assert seen == ["new"] + ["restored"] * 4


def test_no_environment_serves_twice(world, cloud):  # noqa: F811
    world.declare()
    cloud.settings(fresh_environments=True)
    session = Session(world.serve())
    assert text_of(session.run("x = 1; x")) == "1"
    second = session.run("x += 1; x")
    assert text_of(second) == "2" and (second["state"]["was"], second["state"]["generation"]) == ("restored", 2)


def test_an_environment_that_was_another_tenants(world, cloud):  # noqa: F811
    """Lambda promises that there is none. If ever there is, nothing runs in it."""
    world.declare()
    server = world.serve()
    one, other = Session(server), Session(server)
    one.run("secret = 'mine'\nopen('/tmp/left', 'w').write('mine')")
    cloud.settings(mixes_tenants=True)
    nothing_ran(other.run("import os\nos.path.exists('/tmp/left')"), "another tenant's")
    cloud.settings(mixes_tenants=False)
    assert text_of(other.run("import os\n'secret' in globals(), os.path.exists('/tmp/left')")) == "(False, False)"
    assert text_of(one.run("secret")) == "'mine'"


# --- what it costs ---


def test_the_calls_of_an_execution(world, cloud):  # noqa: F811
    """Without files: one Invoke, at most two calls to the bucket, two transactions and two reads, of the session and of the key; also right after a start."""
    world.declare()
    mark = cloud.mark()
    session = Session(world.serve())
    for number in range(3):
        begins = cloud.mark()
        answer = post(session.server, f"{session.path}/executions", {"code": "1"}, headers=[("Idempotency-Key", f"key-{number}")])
        assert text_of(answer.json()) == "1"
        wait_until(lambda begins=begins: "DeleteObjects" in own(cloud, begins, "s3"))
        assert own(cloud, begins, "lambda") == ["InvokeWithResponseStream"]
        assert own(cloud, begins, "s3") == ["GetObject", "DeleteObjects"]
        assert own(cloud, begins, "dynamodb") == ["GetItem", "GetItem", "TransactWriteItems", "TransactWriteItems"]
        signed = [call for call in cloud.calls(begins, service="s3") if call.get("presigned")]
        assert [(call["operation"], call["params"]["Key"].rpartition("/")[2]) for call in signed] == [("PostObject", "checkpoint"), ("PostObject", "result")]
    # Keys of a day ago are the table's to forget: nobody asks for all of them.
    assert not [call for call in cloud.calls(mark, operation="Query") if "/keys/" in json.dumps(call["params"])]
    assert not cloud.calls(mark, operation="Scan")


# --- what the table refuses ---


def refused(code):
    return {"kind": "error", "status": 400, "code": code, "message": "The parameter cannot be converted."}


@pytest.mark.parametrize("code", ["ValidationException", "AccessDeniedException"])
def test_a_result_that_the_table_refuses(world, cloud, clocks, code):  # noqa: F811
    """It is tried for a while, and is `failed` then, for everybody and for good; what it did stays done."""
    world.declare()
    session = Session(world.serve())
    session.run("x = 1")
    cloud.faults(({"operation": "TransactWriteItems", "resource": "seen-and-refused"}, refused(code)))
    n = begin(session, "x = 2\nopen('f', 'w').write('kept')\nprint('seen' + '-and-refused')")
    wait_until(lambda: cloud.fault_hits()[0] > 1)
    assert session.server.ask_socket(f"{session.path}/executions/{n}").json()["status"] == "running"
    found = late(clocks, world, session, n, monotonic_s=30)
    assert found["status"] == "failed" and found["exitCode"] is None and found["value"] is None, found
    assert "it ended as ok, and its result cannot be kept" in found["detail"] and code in found["detail"], found
    assert text_of(session.run("x")) == "2"
    cloud.faults()
    assert session.server.ask_socket(f"/v1/workspaces/{session.id}/files/f").body == b"kept"
    kept = session.server.ask_socket(f"{session.path}/executions/{n}").json()
    assert (kept["status"], kept["detail"]) == ("failed", found["detail"]) and kept["stdout"]["content"] == ""


def test_a_table_that_refuses_everything(world, cloud, clocks):  # noqa: F811
    """Who waits is told, and asked anew is told the same; once the table takes it again, it has it so."""
    world.declare()
    session = Session(world.serve())
    n = begin(session, "import time\nprint('on', flush=True)\ntime.sleep(2)")
    wait_for_output(session, n)
    cloud.faults(({"operation": "TransactWriteItems", "resource": session.id}, refused("AccessDeniedException")))
    wait_until(lambda: cloud.fault_hits()[0] > 1)
    found = late(clocks, world, session, n, monotonic_s=30)
    assert found["status"] == "failed" and "AccessDeniedException" in found["detail"], found
    assert result(session, n) == found
    assert post(session.server, f"{session.path}/executions", {"code": "1"}).status == 500
    cloud.faults()
    wait_until(lambda: session.show()["status"] == "idle")
    assert text_of(session.run("2")) == "2" and invokes(cloud) == 2
    kept = session.server.ask_socket(f"{session.path}/executions/{n}").json()
    assert (kept["status"], kept["detail"]) == ("failed", found["detail"]), kept
