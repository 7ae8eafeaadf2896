# SPDX-License-Identifier: Apache-2.0
"""Denial of service: every flood ends at its limit, and nothing outlives the run."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest

from lib.processes import gone, uid_of, wait_for

MB = 1024 * 1024
RUN = f"{os.getpid()}-{time.time_ns()}"  # beside other runs of these tests on the machine


def test_fork_bomb(fresh):
    """Bounded in itself as well: 2,000 attempts, each child waits to be killed."""
    answers = fresh.tell(
        "import json, os, time\n"
        "made = 0\n"
        "for _ in range(2000):\n"
        "    try:\n"
        "        if os.fork() == 0: time.sleep(60); os._exit(0)\n"
        "        made += 1\n"
        "    except OSError as error:\n"
        "        print(json.dumps([made, error.errno])); break\n"
        "else: print(json.dumps([made, 0]))"
    )
    assert 100 < answers[0] <= 512
    assert answers[1] == 11


def test_terminals_are_bounded(box):
    """One sandbox does not take those of all others: the machine has some 3,000."""
    code = """
import errno, os, sys
taken = []
try:
    for _ in range(100): taken.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError as error: assert error.errno == errno.ENOSPC, error
print(len(taken), flush=True)
sys.stdin.read()
"""
    other = "import os; ours, theirs = os.openpty(); os.write(theirs, b'x'); print(os.ttyname(theirs), os.read(ours, 1).decode())"
    degraded = ["--accept-degraded"] if box.user == "ordinary" else []
    holding = box.popen("exec", "--env", "box", *degraded, "-c", code, stdin=subprocess.PIPE)
    try:
        assert 1 <= int(holding.stdout.readline()) <= 64
        assert box.exec(other)["text"] == "/dev/pts/0 x\n"
    finally:
        holding.communicate()
    assert holding.returncode == 0


def test_threads_count(fresh):
    answers = fresh.tell(
        "import json, threading\n"
        "made = 0\n"
        "stop = threading.Event()\n"
        "try:\n"
        "    for _ in range(2000): threading.Thread(target=stop.wait, daemon=True).start(); made += 1\n"
        "except RuntimeError: pass\n"
        "print(json.dumps(made)); stop.set()"
    )
    assert 100 < answers <= 512


def test_output_flood(box):
    """A gigabyte: the result is honest, Berth's memory flat. In an emulated machine a tenth, which takes long enough."""
    size = 100_000_000 if "BERTH_TEST_WAY" in os.environ else 1_000_000_000
    process = box.popen(*box.words("import subprocess; subprocess.run(['sh', '-c', 'yes | head -c %d'])" % size))
    peak = [0]

    def watch():
        while process.poll() is None:
            try:
                for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                    if line.startswith("VmHWM"):
                        peak[0] = max(peak[0], int(line.split()[1]))
            except OSError:
                pass
            time.sleep(0.05)

    thread = threading.Thread(target=watch)
    thread.start()
    out, _ = process.communicate(timeout=300)
    thread.join()
    stream = json.loads(out)["stdout"]
    digest = hashlib.sha256()
    for _ in range(size // 1_000_000):
        digest.update(b"y\n" * 500_000)
    assert stream["bytesTotal"] == size
    assert stream["bytesReturned"] == len(stream["content"]) == MB
    assert stream["truncated"] is True
    assert stream["sha256"] == digest.hexdigest()
    assert 0 < peak[0] < 200 * 1024, "kilobytes; sanitizers take most of it"


def test_inode_flood(box):
    answers = box.tell(
        "import json, os\n"
        "made = 0\n"
        "try:\n"
        "    for made in range(250000): os.close(os.open(f'f{made}', os.O_CREAT | os.O_WRONLY))\n"
        "    code = 0\n"
        "except OSError as error: code = error.errno\n"
        "print(json.dumps([made, code]))",
        timeout=300,
    )
    assert answers[1] == 28
    assert 199_000 <= answers[0] <= 200_000


def test_inodes_of_tmp(box):
    answers = box.tell(
        "import json, os\n"
        "made = 0\n"
        "try:\n"
        "    for made in range(100000): os.mkdir(f'/tmp/{made}' if made % 2 else f'/dev/shm/{made}')\n"
        "    code = 0\n"
        "except OSError as error: code = error.errno\n"
        "print(json.dumps([made, code]))"
    )
    assert answers[1] == 28 and answers[0] < 60_000


@pytest.mark.parametrize("folder, most", [("/workspace", 512), ("/tmp", 512), ("/dev/shm", 512)])
def test_byte_flood(fresh, folder, most):
    if folder == "/workspace":
        fresh.needs("quota")
    answers = fresh.tell(
        "import json, sys\n"
        "total = 0\n"
        "piece = bytes(1 << 20)\n"
        "try:\n"
        "    for n in range(12):\n"
        f"        with open(f'{folder}/{{n}}', 'wb', buffering=0) as file:\n"
        "            for _ in range(100): total += file.write(piece)\n"
        "    code = 0\n"
        "except OSError as error: code = error.errno\n"
        "print(json.dumps([total >> 20, code]))"
    )
    assert answers[1] == 28 and answers[0] <= most


def test_one_large_file(fresh):
    answers = fresh.tell(
        "import json, os\n"
        "try: os.truncate(os.open('hole', os.O_CREAT | os.O_RDWR), 1 << 40); code = 0\n"
        "except OSError as error: code = error.errno\n"
        "print(json.dumps(code))"
    )
    assert answers == 27


def test_memory(fresh):
    fresh.needs("memory limit")
    result = fresh.exec("x = [bytearray(b'x') * (64 << 20) for _ in range(64)]")
    assert (result["exitCode"], result["reason"]) == (137, "memory")


def test_memory_of_many_processes(box):
    box.needs("memory limit")
    result = box.exec(
        "import os, time\n"
        "for _ in range(8):\n"
        "    if os.fork() == 0: x = bytearray(b'x') * (400 << 20); time.sleep(30); os._exit(0)\n"
        "x = bytearray(b'x') * (400 << 20)\n"
        "status = [os.wait()[1] for _ in range(8)]\n"
        "os.kill(os.getpid(), 9)"
    )
    assert (result["exitCode"], result["reason"]) == (137, "memory")
    assert result["usage"]["peakMemoryBytes"] <= 2048 * MB


@pytest.mark.parametrize("how", ["os.memfd_create('x')", "os.open('/dev/shm/x', os.O_CREAT | os.O_RDWR)"])
def test_memory_hidden_in_files(fresh, how):
    """Not outside of the quota: what is in an anonymous or shared file counts as memory, or has a limit."""
    fresh.needs("memory limit")
    result = fresh.exec(f"import os\nfile = {how}\npiece = bytes(1 << 20)\nfor _ in range(3000): os.write(file, piece)")
    assert result["exitCode"] in (137, 1)
    assert result["usage"]["peakMemoryBytes"] <= 2048 * MB


def test_no_core_file(box):
    result = box.exec("import os; os.abort()", "--out", box.folder / "core")
    assert result["exitCode"] == 134
    assert result["files"] == []


def test_no_core_is_given_to_a_program_outside(fresh):
    """Where core_pattern begins with "|" the kernel starts that program as root, unless the limit is 1 (core(5)): it stays."""
    if fresh.uid != 0 and resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("who runs the tests may have no core files, and 0 cannot be raised to 1")
    answers = fresh.tell(
        "import json, os, resource as r, subprocess\n"
        "seen = [r.getrlimit(r.RLIMIT_CORE)]\n"
        "for wanted in ((0, 1), (0, 0)):\n"
        "    r.setrlimit(r.RLIMIT_CORE, wanted); seen.append(r.getrlimit(r.RLIMIT_CORE))\n"
        "r.prlimit(0, r.RLIMIT_CORE, (0, 0)); seen.append(r.getrlimit(r.RLIMIT_CORE))\n"
        "import ctypes\n"
        "zero = (ctypes.c_ulong * 2)()\n"
        "for number, arguments in ((302, (0, (1 << 32) + 4, zero, None)), (160, ((1 << 32) + 4, zero))):\n"
        "    ctypes.CDLL(None).syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in (number, *arguments)])\n"
        "    seen.append(r.getrlimit(r.RLIMIT_CORE))\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (100, 100)); nofile = r.getrlimit(r.RLIMIT_NOFILE)\n"
        "shell = subprocess.run(['sh', '-ec', 'ulimit -c 0; ulimit -n 50; ulimit -n'], capture_output=True, text=True)\n"
        "print(json.dumps([seen, nofile, shell.stdout]))"
    )
    assert answers == [[[1, 1]] * 6, [100, 100], "50\n"]


def test_double_fork_does_not_outlive(box):
    marker = f"berth-marker-fork-{box.user}-{RUN}"
    result = box.exec(
        "import os, subprocess, sys\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        for n in range(3): os.close(n)\n"
        "        os.execvp('python3', ['python3', '-c', 'import time; time.sleep(600)', sys.argv[1]])\n"
        "    os._exit(0)\n"
        "os.wait(); print('parent ends')",
        "--",
        marker,
    )
    assert result["text"] == "parent ends\n"
    assert gone(marker)


def test_deadline(box):
    marker = f"berth-marker-deadline-{box.user}-{RUN}"
    done = box.berth(
        *box.words("import os, signal, time\nfor s in (2, 15): signal.signal(s, signal.SIG_IGN)\nprint('on', flush=True)\nos.fork()\ntime.sleep(600)",
                   "--timeout", "2", "--", marker)
    )  # fmt: skip
    assert done.returncode == 124
    assert b"deadline" in done.stderr
    result = json.loads(done.stdout)
    assert (result["reason"], result["stdout"]["content"]) == ("deadline", "on\n")
    assert gone(marker)


def test_no_process_to_be_had_is_no_deadline(box):
    """Whose limit of processes is used up gets no sandbox, and is told why: no time has passed."""
    if box.user != "root":
        pytest.skip("the limit counts the user's other processes too: Berth itself may not start; a launcher's client starts none")
    done = box.berth(*box.words("print(1)"), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)))
    assert done.returncode == 125 and b"deadline" not in done.stderr, done.stderr
    assert b"Resource temporarily unavailable" in done.stderr, done.stderr


@pytest.mark.parametrize("most", [16, 24, 100])
def test_too_few_open_files_are_told(box, most):
    if box.user == "launched":
        pytest.skip("the worker has as many as the launcher, and the client needs few")
    done = box.berth(*box.words("print(1)"), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)))
    assert done.returncode == 125, done.stdout
    assert b"Too many open files" in done.stderr or b"ulimit -n" in done.stderr, done.stderr


def test_root_of_a_namespace_without_other_users_is_told(boxes):
    """`unshare -Ur`: nothing runs as root, and there is nobody else."""
    box = boxes("root")
    done = subprocess.run(["unshare", "-Ur", *box.command(*box.words("print(1)", "--accept-degraded"))],
                          cwd=box.stack, env=box.env, capture_output=True, timeout=120)  # fmt: skip
    assert done.returncode == 125 and b"65534" in done.stderr and b"AppArmor" not in done.stderr, done.stderr


def test_deadline_holds_where_nobody_reads(box):
    process = box.popen(*[w for w in box.words("while True: print('x' * 1000)", "--timeout", "2") if w != "--json"])
    try:
        assert process.wait(timeout=60) == 124  # its output is a pipe that is full
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_ends_with_berth(box, number):
    marker = f"berth-marker-{int(number)}-{box.user}-{RUN}"
    process = box.popen(
        *box.words("import os, signal, time\nsignal.signal(2, signal.SIG_IGN)\nos.fork()\ntime.sleep(600)", "--", marker),
    )
    try:
        wait_for(lambda: uid_of(marker))
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    if number == signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert process.returncode == 128 + number, err
        assert json.loads(out)["reason"] == "interrupted"
    assert gone(marker)


def run_with(box, redirections, code="print(1)"):
    """By a shell, which can take standard descriptors away."""
    degraded = ["--accept-degraded"] if box.user == "ordinary" else []
    command = box.command("exec", "--env", "box", *degraded, "-c", code)
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirections}', "sh", *command], cwd=box.stack, env=box.env, capture_output=True, text=True, timeout=60
    )


def test_output_that_cannot_be_written_is_an_error(box):
    for redirections, reason in ((">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")):
        done = run_with(box, redirections)
        assert done.returncode == 125, redirections
        assert f"what the program printed cannot be written: {reason}" in done.stderr
    assert run_with(box, "| true", "import sys; sys.stdout.write('x' * 10**6)").returncode == 0


def test_a_terminal_that_goes_away(box):
    """It takes no more output, and says so by a hang-up: that is what is told."""
    degraded = ["--accept-degraded"] if box.user == "ordinary" else []
    ours, theirs = os.openpty()

    def own_terminal():
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    code = "import time\nwhile True: print('on', flush=True); time.sleep(0.01)"
    command = box.command("exec", "--env", "box", *degraded, "-c", code)
    process = subprocess.Popen(
        command, cwd=box.stack, env=box.env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=own_terminal
    )
    os.close(theirs)
    try:
        assert b"on" in os.read(ours, 4096)
        os.close(ours)
        assert process.wait(timeout=30) == 128 + signal.SIGHUP
    finally:
        process.kill()
        process.wait()


def test_closed_descriptors(box):
    """Input that is closed is at its end; nothing else becomes one of the three."""
    done = run_with(box, "<&-", "import sys; print([sys.stdin.read()])")
    assert (done.returncode, done.stdout) == (0, "['']\n"), done.stderr
    done = run_with(box, "<&- >&- 2>&-", "pass")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_inotify_is_shared_out(box):
    """One sandbox leaves its user most of what the kernel counts by user."""
    host = {name: int(Path(f"/proc/sys/fs/inotify/max_user_{name}").read_text()) for name in ("instances", "watches")}
    instances, error = box.tell(
        "import ctypes, json\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"made = sum(libc.inotify_init() >= 0 for _ in range({host['instances']}))\n"
        "print(json.dumps([made, ctypes.get_errno()]))"
    )
    if box.user == "ordinary":
        assert (instances, error) == (max(host["instances"] // 8, 1), errno.EMFILE)
    else:
        assert instances > 0  # of a user whom nobody else is
    watches = box.tell(
        "import ctypes, json, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "fd, made = libc.inotify_init(), 0\n"
        f"while made < {min(host['watches'] // 8, 30000)} + 1:\n"
        "    os.mkdir(str(made))\n"
        "    if libc.inotify_add_watch(fd, str(made).encode(), 2) < 0: break\n"
        "    made += 1\n"
        "print(json.dumps(made))"
    )
    if box.user == "ordinary" and host["watches"] // 8 <= 30000:
        assert watches == host["watches"] // 8


def groups_of_the_dead(uid):
    """Others run sandboxes meanwhile: a group is named after the process that made it, and after the namespace of its number."""
    left, namespace = [], f"{os.stat('/proc/self/ns/pid').st_ino:x}"
    for path in Path("/sys/fs/cgroup").glob("**/run-[0-9]*"):
        with contextlib.suppress(OSError):
            process, owner = [*path.name.split("-"), *[""] * 4][1:5:3]
            if owner == namespace and path.stat().st_uid == uid and not (Path("/proc") / process).exists():
                left.append(path.name)
    return left


def test_nothing_is_left(box):
    """Also what a killed Berth left is gone after the next run; another test may kill one in between."""
    for _ in range(5):
        mounts = Path("/proc/self/mounts").read_text()
        box.exec("open('f', 'w').write('x')")
        left = groups_of_the_dead(box.uid)
        moved = Path("/proc/self/mounts").read_text() != mounts
        if not left and not moved:
            break
    assert not left
    assert not moved


CARELESS = """
import ctypes, subprocess, sys
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER: orphans come here, and stay
done = [subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode for _ in range(3)]
print(done, open("/proc/self/task/" + str(__import__("os").getpid()) + "/children").read().split())
"""


def test_no_orphans_for_who_does_not_reap(box):
    """Process 1 of a container is often a program that knows nothing of children that it did not start."""
    words = box.command(*box.words("import os; os.fork()"))
    done = subprocess.run(
        [sys.executable, "-c", CARELESS, *words], cwd=box.stack, env=box.env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[0] == "[0, 0, 0] []", done.stderr


def test_cpu_share(box):
    box.needs("CPU share")
    result = box.exec("import os, time\nfor _ in range(3): os.fork()\nend = time.time() + 2\nwhile time.time() < end: pass")
    assert result["usage"]["cpuMs"] <= result["usage"]["wallMs"] * result["sandbox"]["limits"]["cpuMillis"] / 1000 * 1.25 + 300


def test_agents_limits_hold_across_processes(box):
    degraded = ["--accept-degraded"] if box.user == "ordinary" else []
    first = box.popen("exec", *degraded, "--agent", "rejecting", "-c", "import time; print('on', flush=True); time.sleep(600)")
    try:
        assert first.stdout.readline() == b"on\n"
        second = box.berth("exec", *degraded, "--agent", "rejecting", "-c", "print(2)")
        assert second.returncode == 125 and b"Agent/rejecting has reached its limit of containers" in second.stderr
    finally:
        first.kill()  # a holder that dies frees its slot
        first.communicate()
    assert box.berth("exec", *degraded, "--agent", "rejecting", "-c", "print(2)").stdout == b"2\n"


def test_agents_queue(box):
    degraded = ["--accept-degraded"] if box.user == "ordinary" else []
    code = "import time; print(time.time(), flush=True); time.sleep(0.3); print(time.time())"
    running = [box.popen("exec", *degraded, "--agent", "queuing", "-c", code) for _ in range(3)]
    spans = sorted([float(t) for t in process.communicate(timeout=60)[0].split()] for process in running)
    assert len(spans) == 3
    for earlier, later in zip(spans, spans[1:]):
        assert earlier[1] <= later[0]


def test_agents_memory_is_the_sandbox_s(box):
    done = box.berth(*[w for w in box.words("print(1)", "--agent", "small")])
    limits = json.loads(done.stdout)["sandbox"]["limits"]
    assert (limits["memoryMB"], limits["cpuMillis"]) == (256, 1000)


def test_inactive_agent_is_refused(box):
    done = box.berth(*box.words("print(1)", "--agent", "resting"))
    assert done.returncode == 125 and b"not active" in done.stderr


def test_degraded_is_refused_unless_accepted(box):
    if not box.degraded:
        pytest.skip("this host enforces everything for this user")
    done = box.berth("exec", "--env", "box", "-c", "print(1)")
    assert done.returncode == 125 and b"--accept-degraded" in done.stderr and done.stdout == b""

