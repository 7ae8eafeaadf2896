# SPDX-License-Identifier: Apache-2.0
"""
berth-runtime behind Lambda's Runtime API, in a sandbox like Lambda's: what it keeps from invocation to invocation, what it refuses, and
what it says of an environment that was frozen, lost, started again, or another session's.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from runtime_api import RESPONSE_MAX, Environment, RuntimeApi, Session, pids_of, read_messages
from runtime_client import wait_until


@contextlib.contextmanager
def served(program, **options):
    api = RuntimeApi()
    try:
        environment = Environment(program, api, **options)
        try:
            yield api, environment
        finally:
            environment.close()
    finally:
        api.close()


@pytest.fixture(scope="module")
def shared(binary):
    """One environment for tests that leave it as it was: each takes a function's tenant, so a session of the same name goes on."""
    found = binary.parent / "berth-runtime-checked"
    with served(found if found.is_file() else binary.parent / "berth-runtime") as (api, environment):
        environment.wait_ready()
        session = Session(api)
        session.environment = environment
        yield session


@pytest.fixture
def alone(program):
    with served(program) as (api, environment):
        environment.wait_ready()
        session = Session(api)
        session.environment = environment
        yield session


# --- what it does ---


def test_variables_stay_from_invocation_to_invocation(alone):
    first = alone.ok("x = 41")
    assert first.state == {"generation": 1, "was": "new", "reason": None}
    assert (first.end["was"], first.end["starts"], first.end["served"], first.end["refused"]) == ("new", 1, 1, "taken")
    second = alone.ok("print('said'); x + 1")
    assert (second.text, second.stdout, second.state["was"]) == ("42", b"said\n", "kept")
    assert second.end["was"] == "kept" and second.end["boot"] == first.end["boot"] and second.end["served"] == 2
    assert second.order[0] == "hello" and second.order[-1] == "end"
    assert alone.sh("pwd; cat; echo no >&2; exit 3", stdin="aW4=").stdout == b"/tmp/workspace\nin"
    assert alone.ok("input()", stdin="bGluZQo=").text == "'line'"


def test_it_answers_as_it_goes(shared):
    """Output is there before the code has ended, and the id of the attempt is echoed."""
    invocation = shared.start("import os, time\nprint('now')\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('then')")
    seen = b""
    while b"now" not in seen:
        seen += invocation.pieces.get(timeout=60)
    assert not invocation.over.is_set()
    (shared.environment.temporary / "workspace" / "go").touch()
    assert shared.finish(invocation).stdout == b"now\nthen\n"
    assert invocation.mode == "streaming" and invocation.headers["Content-Type"] == "application/octet-stream"
    assert invocation.echoed == invocation.invocation_id
    assert shared.finish(shared.start("1", invocation_id=False)).invocation.echoed is None


def test_a_buffered_answer_is_json_and_fits(shared):
    answer = shared.ok("print('é'); 6 * 7", answer="buffered")
    assert answer.invocation.mode == "buffered" and (answer.text, answer.stdout) == ("42", "é\n".encode())
    big = shared.run("print('x' * 9_000_000); 1", answer="buffered")
    assert big.done["status"] == "ok" and big.done["stdoutBytes"] == 9_000_001
    assert 0 < len(big.stdout) < 9_000_001 and big.end["cutBytes"] == 9_000_001 - len(big.stdout)
    assert len(big.invocation.body) <= RESPONSE_MAX
    small = shared.run("for i in range(100): print('y' * 1000, flush=True)", answerBytes=20000)
    assert len(small.stdout) < 20000 and small.end["cutBytes"] == 100_100 - len(small.stdout)
    assert small.stdout == (b"y" * 1000 + b"\n") * (len(small.stdout) // 1001) or small.stdout.startswith(b"y" * 1000 + b"\n")


@pytest.mark.parametrize("answer", ["stream", "buffered"])
def test_of_long_output_the_start_and_the_end_are_sent(shared, answer):
    """A client gets no more of it, Lambda streams 6 MiB at full pace, and the rest would be paid for."""
    code = "import sys\nfor i in range(40): print(str(i % 10) * 999_999)\nprint('the end')\nprint('e' * 5_000_000, file=sys.stderr)\nprint('small')"
    found = shared.ok(code, answer=answer)
    assert (found.done["stdoutBytes"], found.done["stderrBytes"]) == (40_000_000 + 8 + 6, 5_000_001)
    for stream, end in ((found.stdout, b"9\nthe end\nsmall\n"), (found.stderr, b"e\n")):
        assert 3 << 19 <= len(stream) <= (3 << 19) + (64 << 10) and stream.endswith(end)
    assert found.stdout.startswith(b"0" * 999_999 + b"\n1") and found.stdout[-(1 << 19) :] == (b"9" * 999_999 + b"\nthe end\nsmall\n")[-(1 << 19) :]
    assert found.end["cutBytes"] == 45_000_015 - len(found.stdout) - len(found.stderr)
    again = shared.ok("print('short'); 1", answer=answer)
    assert again.stdout == b"short\n" and again.end["cutBytes"] == 0


def test_errors_and_displays(shared):
    answer = shared.run("1 / 0")
    assert (answer.done["status"], answer.done["error"]["name"]) == ("error", "ZeroDivisionError")
    answer = shared.ok("class A:\n  def _repr_html_(self): return '<b>'\nA()")
    assert any(body == b"<b>" or b"<b>" in body for _, body in answer.displays)
    answer = shared.run(request={"type": "prepare", "modules": ["json", "nowhere_to_be_found"]}, n=shared.n)
    assert answer.done["missing"][0]["module"] == "nowhere_to_be_found"
    answer = shared.run(request={"type": "status"}, n=shared.n)
    assert answer.done["contexts"][0]["context"] == "main"
    assert shared.run(request={"type": "restart", "context": "main"}, n=shared.n).done == {"type": "restarted", "context": "main"}
    answer = shared.ok("'A' in globals()")
    assert answer.text == "False" and answer.state["was"] == "lost"


def test_the_deadline_is_the_code_s(shared):
    n = shared.n + 1
    answer = shared.run("import time\ntime.sleep(1000)", request={"type": "execute", "n": n, "timeoutMs": 300})
    assert answer.done["status"] == "timeout"
    assert shared.ok("1").state["was"] == "kept"
    # Lambda's own deadline is nearer than the event's: the code ends before it, and there is an answer.
    answer = shared.finish(shared.start("import time\ntime.sleep(1000)", seconds=3))
    assert answer.done["status"] == "timeout"


# --- what it refuses ---


def test_late_and_early_events_are_not_run(shared):
    now = int(time.time() * 1000)
    for started in (now - 121_000, now + 400_000):
        answer = shared.run("open('ran', 'w')", startedAtMs=started)
        assert answer.end["refused"] == "late" and answer.refused == answer.end["reason"] and answer.done is None
    assert not (shared.environment.temporary / "workspace" / "ran").exists()
    assert shared.ok("1", startedAtMs=now - 100_000).text == "1"


def test_an_execution_begins_once(shared):
    first = shared.ok("with open('count', 'a') as f: f.write('x')\nprint('out'); 'value'")
    event = json.loads(first.invocation.event)
    for _ in range(2):
        again = shared.finish(shared.api.invoke(event, shared.tenant))
        assert again.end["refused"] == "repeated" and (again.text, again.stdout) == ("'value'", b"out\n")
    assert (shared.environment.temporary / "workspace" / "count").read_text() == "x"
    shared.ok("1")
    again = shared.finish(shared.api.invoke(event, shared.tenant))
    assert again.end["refused"] == "repeated" and again.done is None and "not known" in again.refused


def test_what_is_no_event_is_an_error(shared):
    for event in (b"", b"{", b"[]", b'{"key": "value"}', json.dumps(shared.event("1", berth=2)).encode(), json.dumps(shared.event("1", more=1)).encode()):
        invocation = shared.api.invoke(event, shared.tenant).wait()
        assert invocation.error[0] == "Function.MalformedEvent" and "event" in invocation.error[1]["errorMessage"]
    assert shared.ok("1").text == "1"


def test_other_tenants_are_foreign(shared):
    other = Session(shared.api, "s-other")
    other.tenant = "s-abc"
    assert other.run("1").end["refused"] == "foreign"
    other.tenant = "s-other"
    assert other.run("1").end["refused"] == "foreign"
    nobody = Session(shared.api, "s-abc", tenant=False)
    assert nobody.run("1").end["refused"] == "foreign"
    assert Session(shared.api, "s-abc", tenant=False, shared=True).run("1").end["refused"] == "foreign"


def test_an_image_without_python_says_so_at_the_start(program):
    with served(program, path="/usr/sbin") as (api, environment):
        wait_until(lambda: api.init_error or environment.process.poll() is not None, "it gives up")
        assert environment.process.wait(60) == 1
        kind, body = api.init_error
        assert kind == "Runtime.NoPython" == body["errorType"] and "there is no python3 here" in body["errorMessage"]
        assert "there is no python3 here" in environment.said()


def test_it_says_what_it_needs(program):
    done = subprocess.run([program, "lambda"], capture_output=True, text=True, timeout=60, env={"PATH": os.environ["PATH"]})
    assert done.returncode == 1 and "AWS_LAMBDA_RUNTIME_API is not set" in done.stderr
    for address in ("nowhere", "example.org:80", "127.0.0.1:0", "127.0.0.1:x", "127.0.0.1:70000", ":80"):
        done = subprocess.run([program, "lambda"], capture_output=True, text=True, timeout=60, env={"AWS_LAMBDA_RUNTIME_API": address})
        assert done.returncode == 1 and "address" in done.stderr, done


# --- what becomes of environments ---


def test_frozen_and_thawed(alone):
    alone.ok("x = 1")
    alone.environment.freeze()
    time.sleep(4)
    invocation = alone.start("x")
    alone.environment.thaw()
    answer = alone.finish(invocation)
    assert answer.text == "1" and answer.state["was"] == "kept" and answer.end["was"] == "kept"
    assert 1000 < answer.end["frozenMs"] <= answer.end["idleMs"]
    assert alone.ok("x").end["frozenMs"] == 0


def test_a_lost_environment_is_said(alone):
    first = alone.ok("x = 1")
    alone.environment.lose()
    alone.environment.wait_ready()
    answer = alone.run("x")
    assert answer.done["error"]["name"] == "NameError"
    assert answer.state["was"] == "lost" and "new environment" in answer.state["reason"] and answer.state["generation"] == 2
    assert answer.end["was"] == "new" and answer.end["boot"] != first.end["boot"]


def test_a_timeout_of_the_function_ends_processes_and_keeps_files(alone):
    first = alone.ok("x = 1; open('kept', 'w').write('file')")
    event = alone.event("open('begun', 'w').close()\nimport time; time.sleep(1000)")
    invocation = alone.api.invoke(event, alone.tenant)
    wait_until(lambda: (alone.environment.temporary / "workspace" / "begun").exists(), "the code runs")
    alone.environment.reset()
    assert invocation.wait().error[0] == "Sandbox.Timedout"
    again = alone.finish(alone.api.invoke(event, alone.tenant))
    assert again.end["refused"] == "repeated" and again.done is None, "it ran in this environment before"
    answer = alone.run("open('kept').read(), 'x' in globals()", n=3, previous={"n": 2})
    assert answer.text == "('file', False)"
    assert answer.state["was"] == "lost" and "taken too long" in answer.state["reason"]
    assert (answer.end["was"], answer.end["starts"], answer.end["boot"]) == ("reset", 2, first.end["boot"])


def test_an_environment_that_was_passed_over_is_stale(alone):
    """The session's last execution ran in another environment: what this one remembers is older than the session."""
    alone.ok("x = 'old'")
    alone.previous, alone.n = {"n": 2, "boot": "0" * 32}, 2
    answer = alone.run("x")
    assert answer.done["error"]["name"] == "NameError" and answer.state["was"] == "lost"
    assert "another environment" in answer.state["reason"] and answer.end["was"] == "stale"
    alone.ok("y = 1")
    answer = alone.run("y", previous={"n": alone.n, "boot": "f" * 32})
    assert answer.end["was"] == "stale" and answer.done["status"] == "error"
    alone.ok("z = 1")
    assert alone.ok("z", previous={"n": alone.n}).end["was"] == "kept"


def test_sessions_that_share_an_environment_find_nothing_of_one_another(program):
    leave = """
import ctypes, os, subprocess, sys
open('/tmp/left', 'w').write('secret')
os.makedirs('a/b/c'); open('a/b/c/file', 'w').close(); os.chmod('a/b', 0)
deep = os.getcwd()
for i in range(300):
    os.mkdir('d'); os.chdir('d')
os.chdir(deep)
subprocess.Popen(['setsid', 'sleep', '1000'])
libc = ctypes.CDLL(None)
shared = libc.shmget(4711, 4096, 0o1600)
shared >= 0
"""
    look = """
import ctypes, os
seen = [name for name in os.listdir('/tmp') if name not in ('workspace', '.berth')], os.listdir('/tmp/workspace')
commands = [open(f'/proc/{pid}/cmdline').read() for pid in os.listdir('/proc') if pid.isdigit()]
seen + ([c for c in commands if 'sleep' in c], ctypes.CDLL(None).shmget(4711, 4096, 0), 'secret' in globals())
"""
    with served(program) as (api, environment):
        environment.wait_ready()
        first, second = Session(api, "s-1", tenant=False, shared=True), Session(api, "s-2", tenant=False, shared=True)
        assert Session(api, "s-1", tenant=False).run("1").end["refused"] == "foreign"
        assert first.ok("secret = 1" + leave).text == "True"
        answer = second.ok(look)
        assert answer.text == "([], [], [], -1, False)"
        assert answer.end["was"] == "cleaned" and answer.state["was"] == "new"
        # Back again: nothing is left of the first, which is said, and what began once does not begin again.
        event = first.event("1", n=1)
        assert first.finish(api.invoke(event)).end["refused"] == "repeated"
        answer = first.ok("'secret' in globals()")
        assert answer.text == "False" and answer.state["was"] == "lost" and answer.end["was"] == "cleaned"
        # What began once does not begin again either where the runtime was started anew meanwhile, with others served between.
        environment.reset()
        environment.wait_ready()
        second.ok("1")
        environment.reset()
        environment.wait_ready()
        for session, n in ((first, 1), (first, 2), (second, 1)):
            answer = session.finish(api.invoke(session.event("open('/tmp/again', 'w')", n=n)))
            assert answer.end["refused"] == "repeated" and "not known" in answer.refused
        assert not (environment.temporary / "again").exists()
        # Started again, nobody knows whose it was: it is emptied first of all.
        first.ok("open('mine', 'w').close()")
        environment.reset()
        environment.wait_ready()
        assert second.ok(look).text == "([], [], [], -1, False)"


def test_what_cannot_be_looked_at_is_not_taken_for_clean(program):
    with served(program) as (api, environment):
        environment.wait_ready()
        first, second = Session(api, "s-1", tenant=False, shared=True), Session(api, "s-2", tenant=False, shared=True)
        look = "import os\n[name for name in os.listdir('/tmp') if name not in ('workspace', '.berth')], os.listdir('/tmp/workspace')"
        first.ok("import os\nopen('json.py', 'w').close(); open('/tmp/left', 'w').close(); os.chmod('/tmp', 0o300)")
        answer = second.ok(look)
        assert answer.text == "([], [])" and answer.end["was"] == "cleaned"
        # One that cannot be emptied: whoever comes after the one who was refused finds nothing, either.
        held = environment.temporary / "held"
        if os.geteuid() == 0:
            (held / "below").mkdir(parents=True)
            os.chown(held, 12345, 12345)
            held.chmod(0o700)
            assert first.run("1").end["refused"] == "unclean"
            shutil.rmtree(held)
            environment.temporary.joinpath("left").touch()
            answer = first.ok(look)
            assert answer.text == "([], [])" and answer.end["was"] == "cleaned"


# --- what code can do and see ---


def test_code_finds_nothing_of_lambda(alone):
    """Variables, arguments, memory and files of what runs beside it; of its own environment what the manifest says."""
    code = """
import os, pathlib
found, unreadable = [], 0
for pid in filter(str.isdigit, os.listdir('/proc')):
    for name in ('environ', 'cmdline', 'maps', 'mem', 'fd', 'cwd'):
        path = f'/proc/{pid}/{name}'
        try:
            data = ' '.join(os.listdir(path)).encode() if name == 'fd' else os.readlink(path).encode() if name == 'cwd' else b'' if name == 'mem' and open(path, 'rb') and int(pid) != os.getpid() else open(path, 'rb').read() if name != 'mem' else b''
        except OSError:
            unreadable += 1
            continue
        found += [(pid, name, word) for word in (b'ASIAEXAMPLE', b'of-the-role', b'AWS_', b'LAMBDA', b'_HANDLER', b'AMZN') if word in data]
print(found)
print(sorted(k for k in os.environ if k.startswith(('AWS', '_', 'LAMBDA', 'BERTH'))), os.environ['OF_THE_MANIFEST'], os.environ['HOME'], os.getuid(), os.getgid())
lines = [open(f'/proc/{p}/cmdline').read().replace(chr(0), ' ').strip() for p in os.listdir('/proc') if p.isdigit()]
unreadable > 0 and sorted(l for l in lines if 'berth-runtime' in l and 'bwrap' not in l and 'prlimit' not in l)
"""
    answer = alone.ok(code)
    lines = answer.stdout.decode().splitlines()
    # The sandbox of these tests has a process of its own as number 1, whose words are ours and not Lambda's.
    assert [one for one in eval(lines[0]) if one[0] != "1"] == []
    assert lines[1] == "[] yes /tmp/workspace 993 990"
    assert answer.text == "['/opt/berth/berth-runtime lambda', 'berth-runtime serve']"
    assert alone.sh("tr '\\0' '\\n' < /proc/self/environ; ls -d /dev/shm; touch /x").stdout.count(b"AWS") == 0


def test_code_that_speaks_with_the_api_itself_gains_nothing(alone):
    """It knows the address, and nothing else: no answer of its own is taken, and no event comes before ours was answered."""
    code = f"""
import http.client
def ask(method, path, body=None):
    connection = http.client.HTTPConnection('{alone.api.address}', timeout=20)
    connection.request(method, '/2018-06-01/runtime/' + path, body)
    return connection.getresponse().status
guess = '00000000-0000-0000-0000-000000000000'
[ask('GET', 'invocation/next'), ask('POST', f'invocation/{{guess}}/response', b'{{}}'), ask('POST', f'invocation/{{guess}}/error', b'{{}}'), ask('POST', 'init/error', b'{{}}')]
"""
    assert alone.ok(code).text == "[403, 400, 400, 403]"
    assert alone.ok("1").text == "1"


def test_code_that_takes_the_next_event_ends_the_environment(alone):
    """What it gets is its own session's. The runtime is refused then, and ends; Lambda starts anew, and the state says what is lost."""
    thief = f"""
import http.client, os, time
if os.fork() == 0:
    os.setsid()
    while True:
        connection = http.client.HTTPConnection('{alone.api.address}')
        connection.request('GET', '/2018-06-01/runtime/invocation/next')
        answer = connection.getresponse()
        data = answer.read()
        if answer.status == 200:
            open('/tmp/stolen', 'wb').write(data)
            os._exit(0)
        time.sleep(0.0001)
"""
    for _ in range(20):
        alone.run(thief + "\n")
        if alone.environment.process.poll() is not None:
            break
        time.sleep(0.3)
        if alone.environment.process.poll() is not None:
            break
    if alone.environment.process.poll() is None:
        alone.ok("1")  # it has not won the race once
        return
    assert "no next event: 403" in alone.environment.said()
    alone.environment.process.wait()
    alone.environment.lose()
    alone.environment.wait_ready()
    assert alone.run("1").end["was"] == "new"


def test_code_that_kills_its_runtime_is_killed_with_it(alone):
    kill = """
import os, signal, subprocess
subprocess.Popen(['setsid', 'sleep', '1000'])
for pid in filter(str.isdigit, os.listdir('/proc')):
    words = open(f'/proc/{pid}/cmdline').read().split(chr(0))
    if words[:2] == ['berth-runtime', 'serve']:
        print('before', flush=True)
        os.kill(int(pid), signal.SIGKILL)
"""
    alone.ok("x = 1")
    answer = alone.run(kill)
    assert answer.done["status"] == "killed" and answer.done["error"]["name"] == "KernelEnded"
    answer = alone.run("x")
    assert answer.state["was"] == "lost" and "was killed" in answer.state["reason"] and answer.end["was"] == "kept"
    assert b"sleep" not in alone.sh("cat /proc/[0-9]*/cmdline").stdout.replace(b"cat", b"")


def test_code_that_kills_the_door_ends_the_environment_and_nothing_is_taken_for_done(alone):
    pid = pids_of(alone.environment)["lambda"]
    invocation = alone.start("import os, time\nprint('out', flush=True)\ntime.sleep(1000)")
    wait_until(lambda: b"out" in invocation.body, "it runs")
    os.kill(pid, signal.SIGKILL)
    alone.environment.process.wait()
    alone.environment.lose()
    assert invocation.wait().error[0] == "Runtime.TruncatedResponse"
    kinds = [head["type"] for head, _ in read_messages(invocation.body)]
    # A line may come in two: print() writes its end by itself.
    assert kinds[:2] == ["hello", "started"] and set(kinds[2:]) == {"output"}, "neither done nor an end"
    answer = alone.run("1", previous={"n": 1})
    assert answer.end["was"] == "new"


@pytest.mark.parametrize(
    "code",
    [
        "os.unlink(mark); os.mkfifo(mark)",
        "os.unlink(mark); os.symlink('/etc/passwd', mark)",
        "os.unlink(mark); os.makedirs(mark + '/below')",
        "os.unlink(mark); os.rmdir('/tmp/.berth'); open('/tmp/.berth', 'w').close()",
    ],
)
def test_a_runtime_starts_again_whatever_code_has_made_of_its_file(alone, code):
    alone.ok("import os\nmark = '/tmp/.berth/environment'\n" + code)
    alone.environment.reset()
    alone.environment.wait_ready()
    answer = alone.ok("2")
    assert answer.text == "2" and answer.end["was"] == "new"


def test_code_that_removes_what_the_runtime_wrote_can_go_on(alone):
    alone.ok("x = 1")
    answer = alone.run("import os\nos.unlink('/tmp/.berth/environment'); os.rmdir('/tmp/.berth'); open('/tmp/.berth', 'w').close(); x")
    assert answer.text == "1" and alone.ok("x").text == "1"
