# SPDX-License-Identifier: Apache-2.0
"""
Checkpoints of a session on Lambda: taken after executions, brought to the bucket, restored where an environment was lost; and executions
that are interrupted by an object in the bucket.
"""

import hashlib
import os
import signal
import threading

import pytest

from lambda_bucket import TRANSFER, WORKSPACE, FilesSession, fates, with_bucket
from runtime_api import pids_of, read_messages
from runtime_client import PATIENCE, is_alive, wait_until


class CheckpointSession(FilesSession):
    """Berth's part: remembers the last checkpoint, names it where kernels may be gone, and can ask for an interrupt."""

    def __init__(self, api, bucket):
        super().__init__(api, bucket)
        self.checkpoint, self.take = None, {"maxMs": 20000}  # half a second is not enough of a busy machine

    def key(self, n, name):
        return f"{TRANSFER}{n}/{name}"

    def event(self, code="", n=None, **members):
        n = n or self.n + 1
        if "checkpoint" not in members:
            members["checkpoint"] = {"take": self.take}
            if self.checkpoint:
                members["checkpoint"]["restore"] = self.checkpoint
        members.setdefault("interrupt", {"get": self.bucket.get(self.key(n, "interrupt"), b"")["get"]})
        return super().event(code, n, **members)

    def finish(self, invocation):
        answer = super().finish(invocation)
        said = answer.end["checkpoint"]
        if said["sha256"]:
            self.checkpoint = {**self.bucket.get(self.key(answer.end["n"], "checkpoint")), "bytes": said["bytes"], "sha256": said["sha256"]}
        return answer

    def lose(self):
        self.environment.lose()
        self.environment.wait_ready()


@pytest.fixture
def session(program, tmp_path):
    with with_bucket(program, tmp_path, CheckpointSession) as made:
        yield made


def gets(bucket, name):
    return [key for kind, key in bucket.calls if kind == "GET" and key.endswith(name)]


def test_variables_outlive_the_environment(session):
    answer = session.ok("import math\nx = [1, 2]; y = x\ndef f(): return len(x)\nhandle = open('/dev/null')")
    said = answer.end["checkpoint"]
    data = session.bucket.objects[session.key(1, "checkpoint")]
    assert (said["bytes"], said["sha256"]) == (len(data), hashlib.sha256(data).hexdigest()) and said["reason"] is None
    assert said["contexts"][0]["context"] == "main" and said["contexts"][0]["lost"] == 1
    assert answer.end["restore"] == {"did": "none", "ms": 0, "reason": None}
    # Where the kernel is, nothing is fetched.
    answer = session.ok("x.append(3); f()")
    assert answer.text == "3" and answer.state["was"] == "kept" and answer.end["restore"]["did"] == "unneeded"
    assert gets(session.bucket, "checkpoint") == []
    session.lose()
    answer = session.ok("y is x, f(), math.floor(2.5)")
    assert answer.text == "(True, 3, 2)" and answer.end["restore"]["did"] == "loaded" and answer.end["was"] == "new"
    assert answer.state["was"] == "restored" and answer.state["generation"] == 2
    assert set(answer.state["restored"]) == {"math", "x", "y", "f"} and [lost["name"] for lost in answer.state["lost"]] == ["handle"]
    # Started again by Lambda, too; and the kernel of another name with it.
    session.run("z = 1", request={"type": "execute", "n": session.n + 1, "context": "other"})
    session.environment.reset()
    session.environment.wait_ready()
    answer = session.ok("len(x)")
    assert (answer.text, answer.state["was"], answer.state["generation"], answer.end["was"]) == ("3", "restored", 3, "reset")
    answer = session.run("z", request={"type": "execute", "n": session.n + 1, "context": "other"})
    assert (answer.text, answer.state["was"]) == ("1", "restored")


def test_files_are_there_before_variables(session):
    session.ok(
        "open('helper.py', 'w').write('class K: v = 2')\nopen('data', 'w').write('text')\nimport helper\nfrom helper import K\nk = K()\n"
        "class Reads:\n    def __getstate__(self): return 1\n    def __setstate__(self, state): self.text = open('data').read()\nreads = Reads()"
    )
    session.lose()
    answer = session.ok("k.v, type(k) is helper.K is K, reads.text")
    assert answer.text == "(2, True, 'text')" and answer.state["lost"] == []


def test_a_checkpoint_of_another_place_is_older_than_the_session(session):
    """An execution ran elsewhere meanwhile: kernels here are ended, and the named checkpoint counts."""
    session.ok("x = 'here'")
    first = session.checkpoint
    session.ok("x = 'later'")
    session.previous, session.n, session.checkpoint = {"n": 3, "boot": "0" * 32}, 3, first
    answer = session.ok("x")
    assert answer.text == "'here'" and answer.end["was"] == "stale" and answer.state["was"] == "restored"


def test_what_is_not_the_checkpoint_is_refused(session):
    session.ok("x = 1")
    key = session.key(1, "checkpoint")
    good = session.bucket.objects[key]
    cases = ((good[:-1] + b"x", "digest"), (good[:-1], "digest"), (good + b"x", "digest"), (None, "not in the bucket"))
    for number, (data, reason) in enumerate(cases):
        session.lose()
        session.bucket.objects[key] = data
        if data is None:
            del session.bucket.objects[key]
        answer = session.run("x", checkpoint={"restore": session.checkpoint})
        assert answer.done["error"]["name"] == "NameError", number
        assert answer.state["was"] == "lost" and "new environment" in answer.state["reason"] and reason in answer.state["reason"]
        assert answer.end["restore"]["did"] == "unusable" and reason in answer.end["restore"]["reason"] and answer.end["refused"] == "taken"


def test_bytes_that_are_no_checkpoint_cost_the_kernels_only(session):
    """With the digest that the event names: as if somebody had written it into the record."""
    session.ok("x = 1")
    for data in (b"\x00" * 100_000, b"berth checkpoint 1\n", session.bucket.objects[session.key(1, "checkpoint")][:-100]):
        session.lose()
        session.bucket.objects[session.key(1, "checkpoint")] = data
        answer = session.run("x", checkpoint={"restore": session.bucket.get(session.key(1, "checkpoint"))})
        assert answer.end["restore"]["did"] == "unusable" and answer.end["restore"]["reason"] and answer.state["was"] == "lost"
        assert session.ok("2").text == "2"


def test_nothing_runs_over_a_checkpoint_that_may_be_there(session):
    session.ok("x = 1")
    session.lose()
    session.bucket.faults.append(["GET", session.key(1, "checkpoint"), 503, 100])
    answer = session.run("open('ran', 'w')")
    assert answer.end["refused"] == "failed" and "checkpoint could not be fetched" in answer.refused and answer.done is None
    session.bucket.faults.clear()
    assert session.ok("import os\nx, os.path.exists('ran')").text == "(1, False)"


def test_limits_of_a_checkpoint(session):
    answer = session.ok("small = 1; big = bytes(9 << 20)")
    assert answer.end["checkpoint"]["bytes"] < 1 << 20 and answer.end["checkpoint"]["contexts"][0]["lost"] == 1
    session.take = {"maxBytes": 20 << 20, "maxMs": 20000}
    answer = session.ok("1")
    assert answer.end["checkpoint"]["bytes"] > 9 << 20 and answer.end["checkpoint"]["contexts"][0]["lost"] == 0
    session.lose()
    assert session.ok("len(big)").text == str(9 << 20)
    # What hangs over it costs itself, and no more time than was given.
    session.take = {"maxBytes": 1 << 20, "maxMs": 400}
    answer = session.ok("class Slow:\n  def __reduce__(self):\n    while True: pass\nslow = Slow(); del big; small = 2")
    assert answer.end["checkpoint"]["sha256"] and answer.end["checkpoint"]["contexts"][0]["lost"] >= 1
    session.lose()
    answer = session.ok("small")
    assert answer.text == "2" and "slow" in [lost["name"] for lost in answer.state["lost"]]


def test_none_is_taken_where_there_is_nothing_to_take(session):
    assert session.sh("true").end["checkpoint"] == {"bytes": 0, "ms": 0, "sha256": None, "contexts": None, "reason": None}
    session.ok("x = 1")
    kept = session.checkpoint
    # A kernel that ended: the checkpoint before it is the session's still.
    answer = session.run("import os; os._exit(3)")
    assert answer.end["checkpoint"]["sha256"] is None and answer.end["checkpoint"]["reason"] and session.checkpoint == kept
    answer = session.run("y = 1", transfer=None)
    assert answer.end["checkpoint"]["sha256"] is None and "does not say where" in answer.end["checkpoint"]["reason"]


def test_a_bucket_that_takes_no_checkpoint(session):
    session.bucket.faults.append(["POST", session.key(1, "checkpoint"), 500, 100])
    answer = session.ok("x = 1; open('file', 'w').write('f')")
    assert answer.end["checkpoint"]["sha256"] is None and "500" in answer.end["checkpoint"]["reason"]
    assert answer.end["files"]["complete"] and answer.end["leftResult"] and session.bucket.objects[WORKSPACE + "file"] == b"f"
    assert session.ok("x").end["checkpoint"]["sha256"]


def test_the_answer_does_not_wait_for_a_bucket_that_hangs(session):
    """The bucket takes the checkpoint, and never says so: the answer is there before Lambda ends the function."""
    session.bucket.hangs.append(session.key(1, "checkpoint"))
    invocation = session.start("x = 1", seconds=12)
    answer = session.finish(invocation)
    assert answer.done["status"] == "ok" and answer.end["checkpoint"]["sha256"] is None and "no more time" in answer.end["checkpoint"]["reason"]


def test_one_that_ends_what_restores_it_is_not_tried_for_ever(session):
    """Code that is run as a checkpoint is loaded kills the runtime: that is said, and the session goes on with nothing."""
    session.ok("""
import os, signal
class Kills:
    def __setstate__(self, state):
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                if open(f'/proc/{pid}/cmdline').read().split(chr(0))[:2] == ['berth-runtime', 'serve']: os.kill(int(pid), 9)
            except OSError: pass
kills = Kills(); kills.x = 1
""")
    session.lose()
    answer = session.ok("'kills' in globals()")
    assert answer.text == "False" and answer.state["was"] == "lost" and answer.end["restore"]["did"] == "unusable"
    assert "killed" in answer.end["restore"]["reason"]


# --- interrupts ---


def interrupt_when(session, n, seen):
    """Puts the object when the code says that it runs."""

    def put():
        wait_until(seen, "the code runs")
        session.bucket.objects[session.key(n, "interrupt")] = b""

    thread = threading.Thread(target=put)
    thread.start()
    return thread


def test_an_object_interrupts(session):
    for n, (code, status) in enumerate((("import time\nprint('runs', flush=True)\ntime.sleep(1000)", "interrupted"), ("try:\n  print('runs', flush=True)\n  while True: pass\nexcept KeyboardInterrupt: print('caught')", "interrupted")), 1):
        invocation = session.start(code)
        thread = interrupt_when(session, n, lambda invocation=invocation: b"runs" in invocation.body)
        answer = session.finish(invocation)
        thread.join(PATIENCE)
        assert answer.done["status"] == status
    assert session.ok("1").state["was"] == "kept"
    # Of one that is over before, nobody asks; and what is answered but yes is no.
    session.bucket.calls.clear()
    session.ok("1")
    assert gets(session.bucket, "interrupt") == []
    session.bucket.faults.append(["GET", session.key(session.n + 1, "interrupt"), 403, 1])
    invocation = session.start("print('runs', flush=True)\nwhile True: pass")
    wait_until(lambda: len(gets(session.bucket, "interrupt")) >= 2, "it is asked for again")
    assert not invocation.over.is_set()
    session.bucket.objects[session.key(session.n + 1, "interrupt")] = b""
    assert session.finish(invocation).done["status"] == "interrupted"


def test_shell_is_interrupted_too(session):
    invocation = session.start("echo runs; sleep 1000", request={"type": "execute", "n": 1, "language": "sh"})
    interrupt_when(session, 1, lambda: b"runs" in invocation.body).join(PATIENCE)
    assert session.finish(invocation).done["status"] == "interrupted"


def test_code_that_kills_what_looks_for_interrupts_gains_nothing(session):
    """Its deadline holds, and its files and its checkpoint go out by another."""
    n = session.n + 1
    invocation = session.start("x = 1; open('file', 'w').write('f'); print('runs', flush=True)\nwhile True: pass", request={"type": "execute", "n": n, "timeoutMs": 6000})
    wait_until(lambda: b"runs" in invocation.body, "it runs")
    os.kill(pids_of(session.environment)["transfer"], signal.SIGKILL)
    answer = session.finish(invocation)
    assert answer.done["status"] == "timeout" and session.bucket.objects[WORKSPACE + "file"] == b"f"
    assert answer.end["checkpoint"]["sha256"] and answer.end["leftResult"]


def test_who_looks_for_interrupts_is_replaced(session):
    """Code can end it: the next one looks as well, and then hears of it."""
    invocation = session.start("print('runs', flush=True)\nwhile True: pass")
    wait_until(lambda: b"runs" in invocation.body, "it runs")
    for _ in range(2):
        killed = pids_of(session.environment)["transfer"]
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda killed=killed: pids_of(session.environment).get("transfer", killed) != killed, "another one looks")
    session.bucket.objects[session.key(1, "interrupt")] = b""
    assert session.finish(invocation).done["status"] == "interrupted"


def test_the_most_memory_of_an_execution(session):
    most = session.ok("x = bytearray(300 << 20); x = None").end["peakMemoryBytes"]
    assert 300 << 20 < most < 600 << 20
    assert 1 << 20 < session.ok("1").end["peakMemoryBytes"] < most - (200 << 20)


def test_nobody_asks_for_an_interrupt_of_what_is_over(session):
    """What asks lives on, for the next invocation, and knows of no request of the last."""
    invocation = session.start("print('runs', flush=True)\nwhile True: pass", workspace=None, transfer=None)
    wait_until(lambda: b"runs" in invocation.body, "it runs")
    session.bucket.objects[session.key(1, "interrupt")] = b""
    assert session.finish(invocation).done["status"] == "interrupted"
    session.bucket.calls.clear()
    pid = pids_of(session.environment)["transfer"]
    # As long as two of its rounds.
    session.ok("import time; time.sleep(4.5)", interrupt=None)
    assert gets(session.bucket, "interrupt") == [] and pids_of(session.environment)["transfer"] == pid


def test_what_moves_files_is_started_again_where_code_has_killed_it(session):
    pid = pids_of(session.environment)["transfer"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), "it is dead")
    session.bucket.objects[WORKSPACE + "in"] = b"x"
    assert session.ok("open('in').read()").text == "'x'"
    os.kill(pids_of(session.environment)["transfer"], signal.SIGSTOP)
    assert session.ok("open('in').read()").text == "'x'"


# --- deaths ---


def kill(session, who):
    return lambda: os.kill(pids_of(session.environment)[who], signal.SIGKILL)


def prepared(session):
    """A session whose next execution has a file and a checkpoint to fetch: its environment was lost."""
    session.ok("x = 1; open('kept', 'w').write('k')")
    session.lose()
    return "open('out', 'w').write(str(x)); x"


STEPS = (("GET", f"{WORKSPACE}kept"), ("GET", f"{TRANSFER}1/checkpoint"), ("POST", f"{WORKSPACE}out"), ("POST", f"{TRANSFER}2/checkpoint"), ("POST", f"{TRANSFER}2/result"))


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step[0] + "-" + step[1].rpartition("/")[2])
def test_what_moves_files_dies_at_each_step(session, step):
    """Nothing is said to be kept that is not; what has not begun has not run; and the next execution has all of it."""
    code = prepared(session)
    session.bucket.when[step] = kill(session, "transfer")
    answer = session.run(code)
    assert not session.bucket.when, "it came to that"
    end = answer.end
    if step[0] == "GET":
        assert end["refused"] == "failed" and answer.done is None and f"{WORKSPACE}out" not in session.bucket.objects
    else:
        assert answer.done["status"] == "ok" and answer.text == "1"
        assert end["files"]["complete"] == (step[1] != f"{WORKSPACE}out") and bool(end["checkpoint"]["sha256"]) == ("checkpoint" not in step[1])
        assert end["leftResult"] == ("result" not in step[1])
        if end["files"]["complete"]:
            assert session.bucket.objects[f"{WORKSPACE}out"] == b"1"
        else:
            assert "killed" in end["files"]["reason"] and ("changed", "out") not in fates(answer)
        if end["checkpoint"]["sha256"]:
            assert hashlib.sha256(session.bucket.objects[session.key(2, "checkpoint")]).hexdigest() == end["checkpoint"]["sha256"]
    answer = session.ok("open('out', 'a').write('.'); x, open('kept').read()")
    assert answer.text == "(1, 'k')" and answer.end["files"]["complete"] and answer.end["checkpoint"]["sha256"]
    assert session.bucket.objects[f"{WORKSPACE}out"].startswith(b"1" if step[0] == "POST" else b".")


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step[0] + "-" + step[1].rpartition("/")[2])
def test_the_door_dies_at_each_step(session, step):
    """No answer has an end; what lies in the bucket as a result is one that is whole, and true."""
    code = prepared(session)
    session.bucket.when[step] = kill(session, "lambda")
    invocation = session.start(code)
    wait_until(lambda: not session.bucket.when, "it came to that")
    session.environment.process.wait()
    session.lose()
    assert invocation.wait().error
    heads = [head for head, _ in read_messages(invocation.body)]
    assert "end" not in [head["type"] for head in heads]
    assert ("done" in [head["type"] for head in heads]) <= (step[0] == "POST"), "done, and nothing of it had run"
    left = session.bucket.objects.get(session.key(2, "result"))
    if left:
        assert step[1].endswith("result")
        head = read_messages(left)[-1][0]
        assert head["type"] == "end" and head["files"]["complete"] and session.bucket.objects[f"{WORKSPACE}out"] == b"1"
    # Berth knows that it may have begun, and nothing else.
    session.n, session.previous = 2, {"n": 2}
    answer = session.ok("x")
    assert answer.text == "1" and answer.state["was"] == "restored"


def test_the_runtime_dies_as_its_checkpoint_is_taken(session):
    session.ok("x = 1")
    answer = session.ok("""
import os
class Kills:
    def __reduce__(self):
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                if open(f'/proc/{pid}/cmdline').read().split(chr(0))[:2] == ['berth-runtime', 'serve']: os.kill(int(pid), 9)
            except OSError: pass
        return (int, ())
kills = Kills()
open('file', 'w').write('f'); 'ran'
""")
    assert answer.text == "'ran'" and answer.end["checkpoint"]["sha256"] is None and "killed" in answer.end["checkpoint"]["reason"]
    assert answer.end["files"]["complete"] and session.bucket.objects[WORKSPACE + "file"] == b"f"
    answer = session.ok("x, 'kills' in globals()")
    assert answer.text == "(1, False)" and answer.state["was"] == "restored", "from the checkpoint before"


# --- what code sees of what holds the requests, which lives beside it ---


def test_code_reads_nothing_of_what_holds_the_requests(session):
    """It is looked for in /proc, by ptrace, by its descriptors and its memory; and none of them came to code by itself."""
    session.bucket.objects[WORKSPACE + "in"] = b"x"
    answer = session.ok("""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
words = {int(pid): open(f'/proc/{pid}/cmdline').read() for pid in os.listdir('/proc') if pid.isdigit()}
mover = next(pid for pid, text in words.items() if '<berth transfer>' in text)
door = next(pid for pid, text in words.items() if text.startswith('/opt/berth/berth-runtime'))
found = []
for pid in (mover, door):
    for name in ('mem', 'environ', 'maps', 'auxv', 'stack', 'syscall', 'io'):
        try: found.append((name, open(f'/proc/{pid}/{name}', 'rb').read(1)))
        except OSError: pass
    for name in ('fdinfo', 'map_files'):
        try: found.append((name, os.listdir(f'/proc/{pid}/{name}')))
        except OSError: pass
    for number in range(16):
        try: found.append((number, os.open(f'/proc/{pid}/fd/{number}', os.O_RDONLY | os.O_NONBLOCK)))
        except OSError: pass
    for name in ('exe', 'cwd', 'root', 'ns/net', *(f'fd/{number}' for number in range(16))):
        try: found.append((name, os.readlink(f'/proc/{pid}/{name}')))
        except OSError: pass
    class Piece(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
    room = ctypes.create_string_buffer(16)
    here = Piece(ctypes.cast(room, ctypes.c_void_p), 16)
    if libc.ptrace(16, pid, 0, 0) == 0: found.append('attach')
    if libc.ptrace(0x4206, pid, 0, 0) == 0: found.append('seize')
    if libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(Piece(4096, 16)), 1, 0) >= 0 or ctypes.get_errno() != 1: found.append(('readv', ctypes.get_errno()))
    pidfd = libc.syscall(434, pid, 0)
    if pidfd >= 0 and any(libc.syscall(438, pidfd, number, 0) >= 0 for number in range(8)): found.append('getfd')
own = [os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd') if os.path.lexists(f'/proc/self/fd/{fd}')]
print([one for one in own if 'memfd' in one])
print(sorted(os.environ))
# The sandbox of these tests has a process of its own as number 1, whose words are ours and not Lambda's.
text = ' '.join(text for pid, text in words.items() if pid > 1) + ' '.join(os.environ.values()) + open('/tmp/.berth/environment').read()
print([word for word in ('X-Amz', 'https://', 'localhost', 'policy', 'signed', 'ASIA', 'of-the-role') if word in text])
found
""")
    lines = answer.stdout.decode().splitlines()
    assert answer.text == "[]" and lines[0] == "[]" and lines[2] == "[]"
    assert not any(name.startswith(("AWS", "LAMBDA", "_", "BERTH")) for name in eval(lines[1]))
