# SPDX-License-Identifier: Apache-2.0
"""`berth launcher`: an unprivileged client gets sandboxes with root's fences, and nothing else of root's."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import launcher_client
import pytest
from lib.launched import RUN, holding, needs_root, ordinary_client
from lib.launchers import CLIENT, ORDINARY, Launcher, as_the_unit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import layouts  # noqa: E402
from lib.processes import gone, uid_of, wait_for

UNITS = Path(__file__).resolve().parents[3] / "examples/launcher"


@pytest.fixture(scope="module")
def launcher(binary):
    needs_root()
    made = Launcher(binary, "--accept-degraded")
    yield made
    assert made.process.poll() is None, made.process.stderr.read()
    made.end()


def test_code_of_an_unprivileged_client(launcher):
    """As a fenced user, in the fence that root's runs have; what was used is told."""
    told = launcher.client("""
code = "import json, os; s = open('/proc/self/status').read(); print(json.dumps([os.getuid(), s, os.listdir('.'), dict(os.environ)]))"
print(json.dumps(run(connect(path), code, variables=("PATH", "/usr/bin:/bin", "COLOUR", "red", "AWS_KEY", "x"))))
""")
    assert told["ending"]["started"] and told["ending"]["exitCode"] == 0, told["errors"]
    uid, status, listed, variables = json.loads(told["output"])
    assert uid == 1000 and listed == []
    assert "CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
    assert variables["COLOUR"] == "red" and "AWS_KEY" not in variables
    assert told["usage"]["cpuUs"] > 0 or not told["usage"]["usageKnown"]


def test_host_users_are_each_run_s_own(launcher):
    told = launcher.client(f"""
launcher = connect(path)
workers = [start(launcher) for _ in range(3)]
pipes = [program(worker, "input()", "{RUN}-users-" + str(n)) for n, (worker, _) in enumerate(workers)]
import glob, time
def user(marker):
    for name in glob.glob("/proc/[0-9]*"):
        try:
            words = open(name + "/cmdline", "rb").read().split(b"\\0")
            if words[0] == b"python3" and marker.encode() in words: return os.stat(name).st_uid
        except OSError: pass
users = []
for n in range(3):
    while user("{RUN}-users-" + str(n)) is None: time.sleep(0.05)
    users.append(user("{RUN}-users-" + str(n)))
print(json.dumps(users))
""")
    assert len(set(told)) == 3
    assert all(1900000000 <= uid < 1900065536 for uid in told)
    assert gone(f"{RUN}-users-0") and gone(f"{RUN}-users-2"), "a run ends with its client"


def test_what_cannot_be_asked_for(launcher):
    """Each on a connection of its own: refused, or the connection ends; the launcher goes on."""
    told = launcher.client("""
answers = {}
huge = {"memoryBytes": 1 << 50, "deadlineMs": 1 << 45, "processes": 100000, "cpuMillis": 10**8}
launcher = connect(path)
for name, value in huge.items():
    answers[name] = start(launcher, **{name: value})
answers["no such image"] = start(launcher, image="sha256:" + "0" * 64)
asked = {
    "a path": {"image": "/"}, "a path in a digest": {"image": "sha256:" + "../" * 21 + "a"}, "a user": {"uid": 0},
    "a path as a name": {"name": "../x"}, "an empty name": {"name": ""}, "a long name": {"name": "a" * 41}, "a number as a name": {"name": 1},
    "a host folder": {"workspace": "/root"}, "a negative limit": {"memoryBytes": -1}, "no limit": {"memoryBytes": None},
    "text for a number": {"cpuMillis": "1000"}, "an image that is a number": {"image": 1},
    "a path as a family": {"family": "../0"}, "another's family": {"family": "0-ab"}, "a family without a name": {"family": ""}, "a family's name that is long": {"family": "a" * 41},
    "a way to everywhere": {"network": {"allow": ["*"], "bytes": 1}}, "a way to an address": {"network": {"allow": ["127.0.0.1"], "bytes": 1}},
    "a way to nowhere": {"network": {"allow": [], "bytes": 1}}, "a way for no bytes": {"network": {"allow": ["example.org"], "bytes": 0}},
    "too many ways": {"network": {"allow": ["example.org"] * 1000, "bytes": 1}}, "a way that is a text": {"network": "example.org"},
}
for name, more in asked.items():
    peer = connect(path)
    peer.send(START, {**LIMITS, "image": None, **more})
    answers[name] = peer.receive()
for kind in (PLACE, RUN, STARTED, RUN_ENDED, 0, 65535):
    peer = connect(path)
    peer.send(kind, {"uid": 0})
    answers[f"type {kind}"] = peer.receive()
peer = connect(path)
peer.send(START, {**LIMITS, "image": None}, [0])
answers["a descriptor"] = peer.receive()
peer = connect(path)
peer.socket.sendall(b"\\xff" * 64)
answers["garbage"] = peer.receive()
peer = connect(path)
peer.send(START, b"{" * 5000)
answers["a long one"] = peer.receive()
peer = connect(path)
peer.send(KILL, {"run": 1, "pid": 1})
answers["a process id"] = peer.receive()
print(json.dumps(answers))
""")
    for name in ("memoryBytes", "deadlineMs", "processes", "cpuMillis"):
        assert "larger than this launcher gives" in told.pop(name)
    assert "image" in told.pop("no such image")
    assert not [name for name, answer in told.items() if answer is not None], told
    assert launcher.client("print(json.dumps(run(connect(path), 'print(1)')))")["output"] == "1\n"


def test_place_cannot_be_said_twice(launcher):
    """The worker's socket is the client's once it was placed: it cannot say where and as whom it runs."""
    told = launcher.client("""
launcher = connect(path)
worker, _ = start(launcher)
worker.send(PLACE, {**LIMITS, "uid": 0, "gid": 0, "entries": 0, "held": 0, "image": False, "born": False, "scope": False,
                    "limitAddressSpace": False, "diesWithParent": False})
kind, payload, _ = worker.receive()
print(json.dumps([kind == FAILED, payload.decode()]))
""")
    assert told[0] and "type 1 where" in told[1]


def test_a_program_that_is_not_whole_is_refused(launcher):
    """Descriptors that no message describes, a variable without a text, two files of one name: told, and nothing is started."""
    told = launcher.client("""
def refused(arguments=(), variables=("PATH", "/bin"), variable_descriptors=(), files=("main.py",)):
    worker, _ = start(connect(path))
    try:
        worker.send(ARGUMENTS, words("true"), arguments)
        worker.send(VARIABLES, words(*variables), variable_descriptors)
        worker.send(RUN, {"deadlineMs": 30000, "waits": False, "session": False, "files": list(files)}, [memory_file(b"") for _ in files])
    except (BrokenPipeError, ConnectionResetError):
        pass  # it has said why already, and ended
    kind, payload, _ = worker.receive()
    return payload.decode() if kind == FAILED else [kind]
print(json.dumps([refused(arguments=[0, 1]), refused(variable_descriptors=[0]), refused(variables=("PATH", "/bin", "HOME")),
                  refused(files=("a", "a")), refused()]))
""")
    assert "type 2 has 2 descriptors" in told[0] and "type 3 has 1 descriptors" in told[1], told
    assert "without a text" in told[2] and "two files named a" in told[3] and told[4] == [launcher_client.READY], told


def test_worker_has_no_rights_when_it_reads_the_program(launcher):
    told = launcher.client("""
launcher = connect(path)
worker, number = start(launcher)
import time
pid = None
for _ in range(400):   # until it was placed
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                status = dict(l.split(":\\t", 1) for l in open(f"/proc/{name}/status").read().splitlines() if ":\\t" in l)
                if open(f"/proc/{name}/cmdline", "rb").read().split(b"\\0")[1:2] == [b"sandbox-worker"] and int(status["Uid"].split()[0]) >= 1900000000:
                    pid = [status["Uid"].split(), status["CapEff"], status["CapPrm"], status["NoNewPrivs"], status["Groups"].strip()]
            except (OSError, IndexError, KeyError): pass
    if pid: break
    time.sleep(0.02)
print(json.dumps(pid))
""")
    uids, effective, permitted, privileges, groups = told
    assert len(set(uids)) == 1 and int(uids[0]) >= 1900000000
    assert (int(effective, 16), int(permitted, 16), privileges, groups) == (0, 0, "1", "")


def test_other_users_are_not_let_in(launcher):
    """Not by the socket's mode, nor with a descriptor of it."""
    told = launcher.client("""
try: connect(path); print(json.dumps("in"))
except OSError as error: print(json.dumps(error.errno))
""", user=ORDINARY + 1)  # fmt: skip
    assert told == 13
    os.chmod(launcher.socket, 0o666)
    try:
        told = launcher.client("""
peer = connect(path)
try: peer.send(START, {**LIMITS, "image": None}); print(json.dumps(peer.receive()))
except OSError: print("null")
""", user=ORDINARY + 1)  # fmt: skip
    finally:
        os.chmod(launcher.socket, 0o600)
    assert told is None


def test_floods_end_their_own_connection_only(launcher):
    """Frames whose answers are not taken, half frames, more connections than there are places."""
    with contextlib.ExitStack() as stack:
        flood = stack.enter_context(socket.socket(socket.AF_UNIX))
        flood.connect(launcher.socket)
        flood.settimeout(60)
        question = json.dumps({**launcher_client.LIMITS, "image": None, "memoryBytes": 1 << 50}).encode()
        frame = launcher_client.struct.pack("=IHH", len(question), launcher_client.START, 0) + question
        with contextlib.suppress(OSError):
            for _ in range(20000):  # refused each time, and no answer is read
                flood.sendall(frame)
        halves = []
        for _ in range(260):
            half = stack.enter_context(socket.socket(socket.AF_UNIX))
            half.connect(launcher.socket)
            with contextlib.suppress(OSError):
                half.sendall(frame[:11])
            halves.append(half)
        # The places are all taken now: who comes is told so, and turned away at once, and the launcher lives.
        late = launcher_client.connect(launcher.socket)
        kind, text, _ = late.receive()
        assert kind == launcher_client.REFUSED and b"as many connections" in text
        assert late.receive() is None
    for _ in range(100):
        with contextlib.suppress(AssertionError):
            assert launcher.client("print(json.dumps(run(connect(path), 'print(1)')))")["output"] == "1\n"
            break
    else:
        pytest.fail("the launcher did not come back")


def test_a_run_can_be_killed_by_who_started_it(launcher):
    """Also where its worker does not hear; and nobody else's."""
    told = launcher.client(f"""
launcher, other = connect(path), connect(path)
worker, number = start(launcher)
program(worker, "import time; time.sleep(60)", "{RUN}-kill")
other.send(KILL, {{"run": number}})
assert run(other, "print(1)")["output"] == "1\\n"
worker.send(CANCEL)
kind, payload, _ = worker.receive()
assert kind == ENDED and json.loads(payload)["cancelled"], payload
worker.socket.close()
assert launcher.receive()[0] == RUN_ENDED
worker, number = start(launcher)
program(worker, "import time; time.sleep(60)", "{RUN}-kill")
launcher.send(KILL, {{"run": number}})
assert worker.receive() is None
kind, payload, _ = launcher.receive()
print(json.dumps([kind, json.loads(payload)["run"] == number]))
""")
    assert told == [launcher_client.RUN_ENDED, True]
    assert gone(f"{RUN}-kill")


def test_few_open_files_are_enough(binary):
    """Services begin with a limit of 1,024, fewer than there are places for runs; the limit is no number of runs."""
    needs_root()
    few = Launcher(binary, "--accept-degraded", before=("prlimit", "--nofile=256:20000"))
    try:
        assert few.client("print(json.dumps(run(connect(path), 'print(1)')))")["output"] == "1\n"
    finally:
        few.end()


def test_runs_are_bounded_and_end_with_the_launcher(binary):
    needs_root()
    launcher = Launcher(binary, "--accept-degraded", "--runs", "2", "--users", "1900070000+2")
    marker = f"{RUN}-end"
    process = subprocess.Popen(
        [sys.executable, CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        process.stdin.write(f"""
launcher = connect({launcher.socket!r})
workers = [start(launcher) for _ in range(2)]
for worker, _ in workers: program(worker, "import time; time.sleep(60)", {marker!r})
print(start(launcher), flush=True)
sys.stdout.close()
for worker, _ in workers: worker.receive()
""".encode())
        process.stdin.close()
        assert b"launcher limit reached" in process.stdout.readline()
        assert wait_for(lambda: uid_of(marker)) in (1900070000, 1900070001)
        launcher.process.send_signal(signal.SIGKILL)
        assert gone(marker)
        launcher.process.wait()
    finally:
        process.kill()
        process.wait()
        launcher.end()


# --- files of a client that has no rights ---


def test_files_go_in_as_the_run_s_and_come_out_as_bytes(launcher):
    """The worker writes them, so that they are the run's user's. No descriptor of the workspace leaves: it would keep all its memory."""
    told = launcher.client("""
import subprocess, tempfile
launcher = connect(path)
worker, number = start(launcher)
code = '''
import os, stat
for name in ("data/in.txt", "tool"):
    s = os.stat(name); print(name, s.st_uid, oct(s.st_mode & 0o777), open(name).read())
os.makedirs("out/deep"); open("out/deep/file", "w").write("x" * 1000000); os.symlink("/etc/passwd", "out/link"); os.mkfifo("out/fifo")
open("out/private", "w").close(); os.chmod("out/private", 0)
'''
pipes = program(worker, code, waits=True)
for flag, name, text in (("-", "data/in.txt", b"hello"), ("x", "tool", b"#!")):
    with tempfile.TemporaryFile() as file:
        file.write(text); file.flush(); file.seek(0)
        worker.send(PUT, words(flag, name), [file.fileno()])
    assert worker.receive()[0] == DONE
worker.send(GO)
output, errors = read_all(*pipes[1:])
kind, payload, _ = worker.receive()
assert kind == ENDED and json.loads(payload)["exitCode"] == 0, (payload, errors)
launcher.send(MEASURE, {"run": number})
kind, measured, _ = launcher.receive()
assert kind == MEASURED and json.loads(measured)["run"] == number
def ask(type, text):
    worker.send(type, text.encode())
    got = b""
    while True:
        kind, payload, descriptors = worker.receive()
        assert not descriptors
        if kind == ABSENT: return None
        if not payload: return got.decode()
        got += payload
print(json.dumps({"pipes": len(pipes), "output": output, "list": sorted(ask(LIST, "out").split("\\0")), "top": ask(LIST, ""),
    "file": len(ask(READ, "out/deep/file")),
    "absent": [ask(READ, name) for name in ("out/link", "out/fifo", "out", "..", "../x", "/etc/passwd", "", "out/deep/../../x", "out/private")]
              + [ask(LIST, name) for name in ("..", "/", "out/link", "/proc/self", "out/deep/file")]}))
""")
    assert told["pipes"] == 3
    assert told["output"] == "data/in.txt 1000 0o644 hello\ntool 1000 0o755 #!\n"
    listed = [word.split(" ") for word in told["list"] if word]  # mode, bytes, inode, times, name
    assert [(word[0], word[1], word[5]) for word in listed[:3]] == [("10000", "0", "fifo"), ("100000", "0", "private"), ("120100", "11", "link")]
    assert len(listed) == 4 and listed[3][5] == "deep"
    assert told["file"] == 1000000 and told["absent"] == [None] * 14


def test_what_cannot_be_put_in(launcher):
    """Names that lead out, what is no file, what is too much, what comes too late: the run fails or ends, and nothing else."""
    told = launcher.client("""
import tempfile
file = tempfile.TemporaryFile(); file.write(b"x"); file.flush()
read_end, write_end = os.pipe()
folder = os.open("/", os.O_RDONLY)
null = os.open("/dev/null", os.O_RDWR)
huge = tempfile.TemporaryFile(); huge.truncate(1 << 40)
left, right = socket.socketpair()
attempts = {
    "up": (words("-", "../x"), [file]), "absolute": (words("-", "/tmp/x"), [file]), "dots": (words("-", "a/../../x"), [file]),
    "empty": (words("-", ""), [file]), "long": (words("-", "a" * 300), [file]), "a flag": (words("y", "a"), [file]),
    "no flag": (words("a"), [file]), "no end": (b"-\\0a", [file]), "three words": (words("-", "a", "b"), [file]), "no words": (b"", [file]),
    "no descriptor": (words("-", "a"), []), "two": (words("-", "a"), [file, file]), "pipe": (words("-", "a"), [read_end]),
    "folder": (words("-", "a"), [folder]), "device": (words("-", "a"), [null]), "socket": (words("-", "a"), [left]), "huge": (words("-", "a"), [huge]),
}
answers = {}
for name, (payload, descriptors) in attempts.items():
    worker, number = start(connect(path))
    program(worker, "print(1)", waits=True)
    worker.send(PUT, payload, [getattr(d, "fileno", lambda: d)() for d in descriptors])
    kind, text, _ = worker.receive()
    answers[name] = [kind == FAILED, text.decode()]
worker, number = start(connect(path))
program(worker, "import time; time.sleep(60)")
worker.send(PUT, words("-", "late"), [file.fileno()])
kind, text, _ = worker.receive()
answers["late"] = [kind == ENDED and json.loads(text)["cancelled"], ""]
worker, number = start(connect(path))
worker.send(PUT, words("-", "early"), [file.fileno()])
answers["early"] = [worker.receive()[0] == FAILED, ""]
print(json.dumps(answers))
""")
    assert not [name for name, (failed, _) in told.items() if not failed], told
    assert "no name within the workspace" in told["up"][1] and "no regular file" in told["pipe"][1]
    assert "workspaceStorageMB" in told["huge"][1] or "File too large" in told["huge"][1]
    assert launcher.client("print(json.dumps(run(connect(path), 'print(1)')))")["output"] == "1\n"


def test_a_client_that_says_nothing_holds_nothing_for_long(binary):
    """Neither a sandbox without a program nor one that is not told to begin, nor a worker that was stopped."""
    needs_root()
    ours = Launcher(binary, "--accept-degraded", "--patience", "1")
    try:
        told = ours.client("""
launcher = connect(path)
silent, _ = start(launcher)
dripping, _ = start(launcher)
dripping.socket.sendall(b"\\1\\0\\0")
unbegun, _ = start(launcher)
program(unbegun, "print(1)", waits=True, deadline_ms=1000)
ended = [worker.receive() for worker in (silent, dripping, unbegun)]
rows = [[kind == FAILED, text.decode()] for kind, text, _ in ended]
for worker in (silent, dripping, unbegun): worker.socket.close()
assert [launcher.receive()[0] for _ in range(3)] == [RUN_ENDED] * 3
print(json.dumps(rows))
""")
        assert told == [[True, "the sandbox was not used in time: its client said nothing"]] * 3
        begun = f"""
launcher = connect({ours.socket!r})
worker, _ = start(launcher, deadlineMs=1000)
program(worker, "import time; time.sleep(60)")
print("begun", flush=True)
print(launcher.receive()[0], flush=True)
"""
        with holding([sys.executable, CLIENT], begun) as said:
            assert said.readline() == b"begun\n"
            worker = int(open(f"/proc/{ours.process.pid}/task/{ours.process.pid}/children").read().split()[0])
            os.kill(worker, signal.SIGSTOP)
            assert said.readline() == b"%d\n" % launcher_client.RUN_ENDED
    finally:
        ours.end()


# --- berth exec --launcher ---


@pytest.fixture
def box(boxes):
    return boxes("launched")


def test_exec_by_a_launcher(box):
    """A whole run of an ordinary user, with root's fences: the battery of this folder runs all of it this way too."""
    put, out = box.folder / "put", box.folder / "out-launched"
    put.write_text("from outside")
    marker = f"{RUN}-exec"
    result = box.exec(
        "import os, sys; print(open('a/b').read(), sys.stdin.read(), os.environ['SECRET']); os.mkdir('made'); open('made/x', 'w').write('y')",
        "--file", f"a/b={put}", "--out", out, marker, input=b"typed",
    )  # fmt: skip
    assert result["text"] == "from outside typed s3cr3t-of-the-test\n"
    assert (out / "made/x").read_text() == "y" and (out / "a/b").read_text() == "from outside"
    assert os.stat(out / "made/x").st_uid == box.uid
    assert result["sandbox"]["degraded"] == []
    assert box.berth("exec", "--env", "box", "-c", "raise SystemExit(7)").returncode == 7
    process = box.popen("exec", "--env", "box", "-c", "import time; time.sleep(60)", marker)
    try:
        assert wait_for(lambda: uid_of(marker)) >= 1900000000
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        process.communicate()
    assert gone(marker)


def test_no_run_is_taken_for_a_good_one(box, binary, tmp_path):
    """No program there, another program there, a client that may not ask, a launcher that ends meanwhile: 125, and why."""
    def refused(socket_path):
        done = subprocess.run(
            [*box.command("version")[:-1], "exec", "--launcher", str(socket_path), "--env", "box", "-c", "print(1)"],
            cwd=box.stack, env=box.env, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 125 and done.stdout == "", done
        return done.stderr

    assert "cannot reach a launcher" in refused(box.folder / "nowhere")
    assert "at most" in refused("/" + "x" * 200)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(box.folder / "stranger"))
        os.chmod(box.folder / "stranger", 0o666)
        os.seteuid(ORDINARY + 3)
        stranger.listen(4)
        os.seteuid(0)
        assert "neither root nor this user" in refused(box.folder / "stranger")
    other = Launcher(binary, users=(ORDINARY + 3,))
    try:
        os.chmod(other.socket, 0o666)
        assert "may not ask it" in refused(other.socket)
    finally:
        other.end()
    ours = Launcher(binary, "--runs", "1")
    marker = f"{RUN}-dies"
    command = [*box.command("version")[:-1], "exec", "--launcher", ours.socket, "--env", "box"]
    process = subprocess.Popen(
        [*command, "-c", "print(1, flush=True); import time; time.sleep(60)", marker],
        cwd=box.stack, env=box.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == b"1\n"
        assert "launcher limit reached" in refused(ours.socket)
        ours.process.kill()
        _, err = process.communicate(timeout=60)
        assert process.returncode == 125 and b"killed from outside" in err
        assert gone(marker)
        ours.process.wait()
    finally:
        process.kill()
        process.communicate()
        ours.end()


def test_runs_that_follow_each_other_find_a_place(box, binary):
    """A run is over for its client when it is over for the launcher."""
    ours = Launcher(binary, "--runs", "1")
    try:
        for number in range(5):
            done = subprocess.run(
                [*box.command("version")[:-1], "exec", "--launcher", ours.socket, "--env", "box", "-c", f"print({number})"],
                cwd=box.stack, env=box.env, capture_output=True, text=True, timeout=60,
            )  # fmt: skip
            assert (done.returncode, done.stdout) == (0, f"{number}\n"), done.stderr
    finally:
        ours.end()


# --- workers that last ---


@pytest.fixture
def lasting(binary):
    """A launcher whose workers may last. What it leaves is ended here, whatever the test came to."""
    needs_root()
    workers = Path(tempfile.mkdtemp(prefix="berth-workers-"))
    workers.chmod(0o711)
    ours = Launcher(binary, "--accept-degraded", "--workers", str(workers))
    yield ours, workers
    for path in workers.iterdir():  # ended by CANCEL, as whom they belong to
        if path.suffix == ".worker":
            continue
        uid = int(path.name.split(".")[0])
        with contextlib.suppress(AssertionError):
            ours.client(f"peer = connect({str(path)!r}); peer.receive(); peer.send(CANCEL); peer.send(TAKEN); peer.receive(); print(0)", user=uid)
    ours.end()
    shutil.rmtree(workers)


BEGIN = """
launcher = connect(path)
worker, number = start(launcher, name="one", deadlineMs={deadline})
pipes = program(worker, {code!r}, {marker!r}, deadline_ms={deadline})
print(json.dumps(number), flush=True)
"""
COUNTS = """
import os, time
open("kept", "w").write("by the worker")
print("begun", flush=True)
while not os.path.exists("/tmp/go"):
    print("on", flush=True)
    time.sleep(0.2)
"""


def begun(ours, code, marker, deadline=60000):
    """A client that has begun a run that lasts, was noticed, and is killed."""
    lines = f"path = {ours.socket!r}\n" + BEGIN.format(code=code, marker=marker, deadline=deadline)
    with holding(ordinary_client(ours), lines + "import time; time.sleep(600)\n") as said:
        number = int(said.readline())
        wait_for(lambda: uid_of(marker))
    return number


def test_a_worker_that_lasts_is_found_again(lasting):
    """After the end of its client and of its launcher, both by SIGKILL; by its owner alone; until its outcome is taken."""
    ours, workers = lasting
    marker = f"{RUN}-lasts"
    begun(ours, COUNTS, marker)
    ours.process.kill()
    ours.process.wait()
    assert uid_of(marker)
    path = workers / f"{ORDINARY}.one"
    assert path.stat().st_mode & 0o777 == 0o600 and path.stat().st_uid == ORDINARY
    os.chmod(path, 0o666)
    for stranger in (ORDINARY + 1, 0):
        assert ours.client(f"peer = connect({str(path)!r}); print(json.dumps(peer.receive()))", user=stranger) is None
    assert uid_of(marker)
    # Another run of Berth's sweeps what dead launchers left: this is none of that.
    other = Launcher(ours.binary, "--accept-degraded")
    try:
        assert other.client("print(json.dumps(run(connect(path), 'print(1)')))")["output"] == "1\n"
    finally:
        other.end()
    assert uid_of(marker)
    told = ours.client(f"""
hangs = connect({str(path)!r}); hangs.receive()
peer = connect({str(path)!r})
kind, _, pipes = peer.receive()
assert kind == READY and len(pipes) == 2
assert hangs.receive() is None
output = os.read(pipes[0], 65536).decode()
peer.send(CANCEL)
kind, ending, _ = peer.receive()
assert kind == ENDED
peer.socket.close()
# Not taken: it is there for the next one, with its files.
peer = connect({str(path)!r})
assert peer.receive()[0] == READY
kind, again, _ = peer.receive()
assert (kind, again) == (ENDED, ending)
peer.send(READ, b"kept")
file = peer.receive()[1].decode(); peer.receive()
peer.send(TAKEN)
assert peer.receive() is None
print(json.dumps([output.splitlines()[-1], json.loads(ending)["cancelled"], file]))
""")
    assert told == ["on", True, "by the worker"]
    assert gone(marker)
    with pytest.raises(ConnectionRefusedError):
        launcher_client.connect(str(path))


def test_a_worker_that_lasts_ends_when_its_time_is_over(lasting):
    """Nobody is there to tell it."""
    ours, workers = lasting
    marker = f"{RUN}-over"
    begun(ours, "import time; time.sleep(600)", marker, deadline=3000)
    path = workers / f"{ORDINARY}.one"
    wait_for(lambda: True if uid_of(marker) is None else None)
    wait_for(lambda: True if not path.exists() else None)  # the launcher has seen its end


def test_a_new_launcher_knows_the_workers_of_the_one_before(lasting):
    """They count, can be asked about and cleared away by their user; what died meanwhile is removed at the start, whatever else lies there stays."""
    ours, workers = lasting
    marker, other = f"{RUN}-before", f"{RUN}-died"
    begun(ours, "import time; time.sleep(600)", marker)
    lines = f"path = {ours.socket!r}\n" + BEGIN.format(code="import time; time.sleep(600)", marker=other, deadline=60000).replace('"one"', '"two"')
    with holding(ordinary_client(ours), lines + "import time; time.sleep(600)\n") as said:
        assert int(said.readline())
        wait_for(lambda: uid_of(other))
    ours.kill()
    died = int((workers / f"{ORDINARY}.two.worker").read_text().split("-")[0])
    os.kill(died, signal.SIGKILL)
    assert gone(other)
    (workers / "notes.txt").write_text("somebody's")
    (workers / "7.broken.worker").write_text("1-2-3-4\n{")
    # As an earlier launcher leaves it that dies in between: a socket of nobody's.
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(workers / "7.stale"))
    stale.close()
    ours.start()
    assert sorted(path.name for path in workers.iterdir()) == [f"{ORDINARY}.one", f"{ORDINARY}.one.worker", "notes.txt"]
    (workers / "notes.txt").unlink()
    told = ours.client("""
launcher = connect(path)
second = start(launcher, name="one")
launcher.send(CLEAR, {"name": "two"})
none = launcher.receive()
launcher.send(CLEAR, {"name": "one"})
kind, usage, _ = launcher.receive()
launcher.send(CLEAR, {"name": "one"})
print(json.dumps([second, none[0], none[1].decode(), kind, launcher.receive()[0]]))
""")
    assert "a worker of the name one lives" in told[0]
    assert told[1:] == [launcher_client.REFUSED, "no worker of the name two lives", launcher_client.RUN_ENDED, launcher_client.REFUSED]
    assert gone(marker) and list(workers.iterdir()) == []


def test_nobody_clears_away_another_s(binary):
    """Names are each user's own; CLEAR is as narrow as START."""
    needs_root()
    ours = Launcher(binary, "--accept-degraded", "--group", str(ORDINARY), users=(ORDINARY, ORDINARY + 1), workers=True)
    marker = f"{RUN}-whose"
    try:
        os.chown(ours.socket, 0, -1)
        os.chmod(ours.socket, 0o666)
        begun(ours, "import time; time.sleep(600)", marker)
        told = ours.client("""
launcher = connect(path)
launcher.send(CLEAR, {"name": "one"})
answers = [launcher.receive()[0]]
for payload in ({"name": "%d.one"}, {"name": "../one"}, {"name": "one", "uid": 61234}, {"name": None}, {}, {"run": 1}, b"", b"one", b"[1]"):
    peer = connect(path)
    peer.send(CLEAR, payload)
    answers.append(peer.receive())
peer = connect(path)
peer.send(CLEAR, {"name": "one"}, [0])
answers.append(peer.receive())
launcher.send(RENAME, {"name": "one", "to": "mine"})
answers.append(launcher.receive()[0])
for payload in ({"name": "one"}, {"name": "one", "to": "../x"}, {"name": "one", "to": "a", "uid": 0}, {"name": "one", "to": 1}):
    peer = connect(path)
    peer.send(RENAME, payload)
    answers.append(peer.receive())
print(json.dumps(answers))
""" % ORDINARY, user=ORDINARY + 1)  # fmt: skip
        assert told == [launcher_client.REFUSED, *[None] * 10, launcher_client.REFUSED, *[None] * 4], told
        assert uid_of(marker)
        # Its own user gives it another name, once, which no other of his has; a launcher that follows knows it by that.
        told = ours.client("""
launcher = connect(path)
kept = start(launcher, name="other")
answers = []
for name, to in (("one", "other"), ("none", "x"), ("one", "new"), ("new", "newer")):
    launcher.send(RENAME, {"name": name, "to": to})
    answers.append(launcher.receive()[0])
launcher.send(CLEAR, {"name": "other"})
print(json.dumps(answers + [launcher.receive()[0]]))
""")
        assert told == [launcher_client.REFUSED, launcher_client.REFUSED, launcher_client.RENAMED, launcher_client.REFUSED, launcher_client.RUN_ENDED]
        ours.kill()
        ours.start()
        os.chmod(ours.socket, 0o666)
        assert sorted(path.name for path in ours.workers.iterdir()) == [f"{ORDINARY}.new", f"{ORDINARY}.new.worker"]
        assert uid_of(marker)
        assert ours.client("launcher = connect(path); launcher.send(CLEAR, {'name': 'new'}); print(launcher.receive()[0])") == launcher_client.RUN_ENDED
        assert gone(marker)
    finally:
        ours.end()


def test_a_launcher_that_ends_leaves_its_lasting_workers_in_peace(binary):
    """What it knew of them goes with it: under a sanitizer, nothing is left of that."""
    needs_root()
    ours = Launcher(binary, "--accept-degraded", workers=True)
    marker = f"{RUN}-parting"
    try:
        begun(ours, "import time; time.sleep(600)", marker)
        ours.process.terminate()
        ended = ours.process.wait(timeout=60)
        os.set_blocking(ours.process.stderr.fileno(), False)
        assert ended == 0, (ours.process.stderr.read() or b"").decode()
        ours.process.stderr.close()
        assert uid_of(marker)
        ours.start()
        assert ours.client("launcher = connect(path); launcher.send(CLEAR, {'name': 'one'}); print(launcher.receive()[0])") == launcher_client.RUN_ENDED
        assert gone(marker)
    finally:
        ours.end()


def test_a_name_is_one_worker_s(lasting, launcher):
    ours, workers = lasting
    marker = f"{RUN}-name"
    number = begun(ours, "import time; time.sleep(600)", marker)
    told = ours.client(f"""
launcher = connect(path)
second = start(launcher, name="one")
launcher.send(MEASURE, {{"run": {number}}})
measured = json.loads(launcher.receive()[1])
launcher.send(KILL, {{"run": {number}}})
import time
while os.path.exists({str(workers / f"{ORDINARY}.one")!r}): time.sleep(0.05)
third = start(launcher, name="one")
print(json.dumps([second, measured["run"], isinstance(third, tuple)]))
""")
    assert "a worker of the name one lives" in told[0] and told[1] == number and told[2]
    assert gone(marker)
    assert "no workers that last" in launcher.client("print(json.dumps(start(connect(path), name='one')))")
    # What lies in the folder and is no dead socket stays, and none is made over it.
    (workers / f"{ORDINARY}.two").write_text("somebody's")
    assert "is no socket" in ours.client("print(json.dumps(start(connect(path), name='two')))")
    assert (workers / f"{ORDINARY}.two").read_text() == "somebody's"
    (workers / f"{ORDINARY}.two").unlink()


# --- images ---


@pytest.fixture(scope="module")
def image(boxes):
    """A small system in the client's own store: its digest and its root."""
    box = boxes("launched")
    place = box.folder / "system"
    layouts.Made(layouts.system()).write(place)
    subprocess.run(["chown", "-R", f"{box.uid}:{box.uid}", place], check=True)
    box.berth("image", "import", "small/system:1", place, check=True)
    store = box.stack / ".berth/local/escape/images"
    digest = json.loads((store / "index.json").read_text())["images"]["small/system:1"]
    return box, digest, store / "roots/sha256" / digest.removeprefix("sha256:")


def test_an_image_by_its_digest(image):
    box, digest, _ = image
    code = "import os; print(open('/etc/os-release').read(), os.getuid(), os.path.exists('/usr/share/doc'), 'images' in open('/proc/self/mountinfo').read())"
    told = box.launcher.client(f"print(json.dumps(run(connect(path), {code!r}, image={digest!r})))")
    assert told["output"] == "ID=imagined\n 1000 False False\n", told
    environment = {"apiVersion": "berth/v1", "kind": "Environment", "metadata": {"name": "small"}}
    environment["spec"] = {"image": {"repository": "small/system", "tag": "1"}}
    (box.stack / "small.yaml").write_text(json.dumps(environment))
    box.berth("apply", "--yes", "-q", check=True)
    done = box.berth("exec", "--env", "small", "-c", code, check=True)
    assert done.stdout.decode() == "ID=imagined\n 1000 False False\n"


def test_a_link_in_the_store_leads_nowhere(image):
    """The store is the client's own: what it puts there must not become root's errand."""
    box, digest, root = image
    aside = root.with_name("aside")
    root.rename(aside)
    try:
        root.symlink_to("/")
        assert "Too many levels of symbolic links" in box.launcher.client(f"print(json.dumps(start(connect(path), image={digest!r})))")
        root.unlink()
        root.write_text("no folder")
        assert "Not a directory" in box.launcher.client(f"print(json.dumps(start(connect(path), image={digest!r})))")
    finally:
        root.unlink()
        aside.rename(root)


# --- its unit ---

@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_the_units_are_read_by_systemd(binary, tmp_path):
    units = [UNITS / "berth-launcher.service", UNITS / "berth-launcher.socket", UNITS.parent / "serve/berth-serve.service"]
    for unit in units:
        text = unit.read_text().replace("/usr/bin/berth", str(binary)).replace("SocketGroup=berth", "SocketGroup=root")
        (tmp_path / unit.name).write_text(text)
    for unit in units:
        checked = subprocess.run(["systemd-analyze", "verify", "--man=no", str(tmp_path / unit.name)], capture_output=True, text=True)
        assert checked.returncode == 0 and "berth-" not in checked.stderr, checked.stderr


def test_the_capabilities_of_the_unit_are_enough(binary):
    """And each of them is needed, or stands there for a kernel of another kind: the list is what the launcher is run with here."""
    needs_root()
    unit = (UNITS / "berth-launcher.service").read_text()
    words = shlex.split(next(line for line in unit.splitlines() if line.startswith("ExecStart=")).removeprefix("ExecStart="))
    helped = subprocess.run([binary, "launcher", "--help"], capture_output=True, text=True, check=True).stdout
    assert words[1] == "launcher" and not [word for word in words if word.startswith("--") and f" {word} " not in helped]
    ours = Launcher(binary, before=as_the_unit(unit), workers=True)
    try:
        begun(ours, "import time; time.sleep(600)", f"{RUN}-bound")
        ours.kill()
        ours.start()
        assert ours.client("launcher = connect(path); launcher.send(CLEAR, {'name': 'one'}); print(launcher.receive()[0])") == launcher_client.RUN_ENDED
        assert gone(f"{RUN}-bound") and list(ours.workers.iterdir()) == []
        told = ours.client("print(json.dumps(run(connect(path), 'print(open(\"/proc/self/status\").read()); import os; print(os.stat(\"/dev/null\").st_dev)')))")
        assert told["output"].split()[-1] != str(os.stat("/dev/null").st_dev)  # a node of its own
        assert "CapBnd:\t0000000000000000" in told["output"] and told["ending"]["exitCode"] == 0, told
    finally:
        ours.end()


# --- its socket ---


def refused(binary, path, *options):
    done = subprocess.run(
        [binary, "launcher", "--socket", path, "--for", str(os.geteuid()), *options], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_what_is_no_dead_socket_is_left_where_it_is(binary, tmp_path):
    """A file, a folder, a link, a socket at which somebody listens: none of them is removed."""
    file, link, folder, living = (tmp_path / name for name in ("file", "link", "folder", "living"))
    file.write_text("somebody's")
    link.symlink_to(file)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(living))
        server.listen(1)
        for path in (file, link, folder):
            assert "is no socket" in refused(binary, path)
        assert "another program listens" in refused(binary, living)
        server.accept()[0].close()  # it was asked, and is there
        launcher_client.connect(str(living))
    assert file.read_text() == "somebody's" and link.is_symlink() and folder.is_dir()
    # Now it is a dead one's.
    process = subprocess.Popen(
        [binary, "launcher", "--socket", living, "--for", str(os.geteuid())], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    try:
        assert b"listening" in process.stderr.readline()
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0 and not living.exists()


def test_a_second_launcher_leaves_the_first_alone(binary, launcher):
    assert "another launcher listens" in refused(binary, launcher.socket)
    assert launcher.client("print(json.dumps(run(connect(path), 'print(1)')))")["output"] == "1\n"


def test_at_its_end_only_its_own_socket_is_removed(binary):
    """Who moved it away and put another one there keeps that."""
    needs_root()
    ours = Launcher(binary, "--accept-degraded")
    try:
        os.unlink(ours.socket)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(ours.socket)
            ours.process.terminate()
            assert ours.process.wait(timeout=60) == 0
            assert os.path.exists(ours.socket)
    finally:
        ours.end()


def test_socket_of_systemd(binary, tmp_path):
    """As ListenStream= passes it: nothing is made, and nothing removed. Anything else than a listening Unix socket is refused."""
    path = tmp_path / "socket"
    start = (
        "import os, socket, sys; os.dup2(int(sys.argv[1]), 3, inheritable=True); os.environ['LISTEN_PID'] = str(os.getpid());"
        "os.environ['LISTEN_FDS'] = '1'; os.execv(sys.argv[2], [sys.argv[2], 'launcher', '--for', str(os.geteuid())])"
    )
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        command = [sys.executable, "-c", start, str(server.fileno()), binary]
        done = subprocess.run(command, pass_fds=[server.fileno()], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "no Unix socket that listens" in done.stderr
        server.listen(4)
        process = subprocess.Popen(command, pass_fds=[server.fileno()], stderr=subprocess.PIPE)
        try:
            assert b"listening" in process.stderr.readline()
            peer = launcher_client.connect(str(path))
            assert "larger than this launcher gives" in launcher_client.start(peer, memoryBytes=1 << 50)
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert process.returncode == 0 and path.exists()


# --- who may, and how much ---


def test_a_larger_share_than_the_machine_has_is_all_of_it(launcher):
    """As without a launcher: the default of memory comes with more than one CPU, and machines may have one."""
    assert launcher.client("print(json.dumps(isinstance(start(connect(path), cpuMillis=1000000), tuple)))")


def test_a_share_of_a_cpu_that_no_kernel_gives(launcher):
    told = launcher.client("""
peer = connect(path)
kept = start(peer, cpuMillis=10)  # or its end would come between the answers
print(json.dumps([start(peer, cpuMillis=9), isinstance(kept, tuple), start(peer, family="ab", familyCpuMillis=9), start(peer, family="ab", familyCpuMillis=1 << 30)]))
""")
    assert "cpuMillis is 10 at the least" in told[0]
    assert told[1]
    assert "familyCpuMillis is 10 at the least" in told[2] and "larger than this launcher gives" in told[3]


def test_several_clients_have_a_share_each(binary):
    """The list says who may; what one of them takes is not taken from another."""
    needs_root()
    assert "needs --group" in refused(binary, "/nonexistent/socket", "--for", "1")
    other, third = ORDINARY + 1, ORDINARY + 2
    ours = Launcher(binary, "--accept-degraded", "--runs", "2", "--group", str(ORDINARY + 7), users=(ORDINARY, other))
    try:
        assert os.stat(ours.socket).st_mode & 0o777 == 0o660 and os.stat(ours.socket).st_gid == ORDINARY + 7
        os.chmod(ours.socket, 0o666)
        hold = "peer = connect(path); first = start(peer); second = start(connect(path));"
        greedy = "peers = [connect(path) for _ in range(200)]; last = peers[-1].receive();"
        told = ours.client(f"""
{hold} {greedy}
print(json.dumps([isinstance(first, tuple), second, last[0] == REFUSED]))
""")
        assert told[0] and "launcher limit reached" in told[1] and told[2]
        lines = f"path = {ours.socket!r}\n{hold} {greedy}\nprint('held', flush=True)\nsys.stdout.close()\nfirst[0].receive()"
        with holding(ordinary_client(ours), lines) as said:
            assert said.readline() == b"held\n"
            assert ours.client("print(json.dumps(run(connect(path), 'print(2)')))", user=other)["output"] == "2\n"
            stranger = "peer = connect(path)\ntry: peer.send(START, {**LIMITS, 'image': None}); print(json.dumps(peer.receive()))\nexcept OSError: print('null')"
            assert ours.client(stranger, user=third) is None
    finally:
        ours.end()
