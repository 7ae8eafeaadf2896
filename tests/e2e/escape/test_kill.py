# SPDX-License-Identifier: Apache-2.0
"""A run ends when it shall, whatever the program does to bubblewrap, and whatever becomes of Berth: killed or stopped."""

import contextlib
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from lib.processes import gone, python_of, uid_of, wait_for

RUN = f"kill-{os.getpid()}-{time.time_ns()}"

# Process 1 of the inner namespace is bubblewrap's, of the program's own user and dumpable: what it is about to execute is
# overwritten. The sandbox's /proc is read-only, which keeps a program from that; a hole in the kernel might not, so the test makes it
# writable for this one sandbox, by root's rights and from outside, and what is behind it is tried. It forgets who should kill it (prctl), sleeps a minute and ends: where the attack works, nothing stays for long.
REWRITE = r"""
import os, signal, sys, time
for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)
print("begun", flush=True)
sys.stdin.readline()
code = bytes.fromhex(
    "bf01000000" "31f6" "b89d000000" "0f05"         # prctl(PR_SET_PDEATHSIG, 0)
    "6a00" "6a3c" "4889e7" "31f6" "b823000000" "0f05"  # nanosleep of 60 s
    "31ff" "b8e7000000" "0f05"                      # exit_group(0)
)
at = int(open("/proc/1/syscall").read().split()[-1], 16)
try:
    os.pwrite(os.open("/proc/1/mem", os.O_RDWR), code, at)
except OSError as error:   # a program that will not go is all that is left of the attack
    print(error, flush=True)
    time.sleep(60)
if os.fork() == 0:   # an orphan, whose end wakes process 1
    if os.fork() == 0: time.sleep(0.2); os._exit(0)
    os._exit(0)
os.wait()
while open("/proc/1/syscall").read().split()[0] != "35": time.sleep(0.05)
print("rewritten", flush=True)
time.sleep(60)
"""


# In the mount namespace of the process that is named: only its /proc becomes another.
WRITABLE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 2, 4, 8, 32, 4096
place = os.open(f"/proc/{sys.argv[1]}/ns/mnt", os.O_RDONLY)
if libc.setns(place, 0x00020000) < 0 or libc.mount(None, b"/proc", None, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_NOEXEC, None) < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
"""


def make_proc_writable(marker):
    subprocess.run([sys.executable, "-c", WRITABLE, str(python_of(marker))], check=True)


def expected_of_attack():
    """A user other than root cannot let it through. Yama (Ubuntu) has processes trace their children alone."""
    yama = Path("/proc/sys/kernel/yama/ptrace_scope")
    if os.geteuid() != 0:
        return b"Read-only file system"
    return b"denied" if yama.exists() and yama.read_text() != "0\n" else b"rewritten"


def children_of(pid):
    """In the order in which they were made."""
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def worker_of(process, besides=()):
    """The child that a run has, of Berth or of the launcher, but for those that others have; None until it is there."""
    return next((child for child in children_of(process.keeper) if child not in besides), None)


@pytest.fixture
def attack(box, request):
    """Starts the attack and returns the process and the marker, once process 1 was rewritten."""
    started = []

    def start(*options):
        others = children_of(box.launcher.process.pid) if box.launcher else []
        marker = f"berth-{RUN}-{box.user}-{len(started)}-{request.node.name}"
        words = [word for word in box.words(REWRITE, *options, "--", marker) if word != "--json"]
        process = box.popen(*words, stdin=subprocess.PIPE)
        started.append(process)
        process.worker = None
        assert process.stdout.readline() == b"begun\n", process.communicate()
        process.worker = worker_of(process, others)
        if os.geteuid() == 0:
            make_proc_writable(marker)
        process.stdin.write(b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert expected_of_attack() in line, (line, process.communicate())
        return process, marker

    yield start
    for process in started:
        if process.poll() is None:
            for victim in (process.worker, process.pid):
                with contextlib.suppress(OSError, TypeError):
                    os.kill(victim, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_rewritten_process_1_does_not_outlive_berth(attack, number):
    process, marker = attack()
    process.send_signal(number)
    process.wait(timeout=60)
    assert gone(marker)


def test_rewritten_process_1_does_not_outlive_the_worker(attack):
    process, marker = attack()
    os.kill(process.worker, signal.SIGKILL)
    assert process.wait(timeout=60) == 125
    assert b"killed from outside" in process.stderr.read()
    assert gone(marker)


def test_rewritten_process_1_holds_its_slot_until_it_is_dead(attack, box):
    """A slot is never free while the run that took it lives."""
    process, marker = attack("--agent", "rejecting")
    degraded = ["--accept-degraded"] if box.user == "ordinary" else []
    process.kill()
    for _ in range(100):
        second = box.berth("exec", *degraded, "--agent", "rejecting", "-c", "print(2)")
        if second.returncode == 0:
            break
        assert b"has reached its limit" in second.stderr
    assert second.returncode == 0
    assert uid_of(marker) is None


def test_the_deadline_holds_whoever_is_stopped(attack):
    """A stopped process cannot look at a clock: the worker has its own, and process 1 of the outer namespace has another."""
    runs = []
    try:
        for who in ("nobody", "berth", "worker", "both"):
            process, marker = attack("--timeout", "10")
            stopped = {"nobody": [], "berth": [process.pid], "worker": [process.worker], "both": [process.pid, process.worker]}[who]
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            runs.append((process, marker, stopped))
        for _, marker, _ in runs:
            wait_for(lambda marker=marker: True if uid_of(marker) is None else None)
    finally:
        for pid in (pid for _, _, stopped in runs for pid in stopped):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)
    assert [process.wait(timeout=60) for process, _, _ in runs] == [124] * 4


@pytest.mark.parametrize("who", ["berth", "worker"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_killed_or_stopped_at_any_step(box, who, number):
    """From the start to the program's first line, wherever that hits: nothing stays."""
    runs = []
    try:
        for step in range(8):
            marker = f"berth-{RUN}-{box.user}-step-{who}-{int(number)}-{step}"
            others = children_of(box.launcher.process.pid) if box.launcher else []
            process = box.popen(*box.words("import time; time.sleep(60)", "--timeout", "2", "--", marker))
            runs.append([process, marker, None])
            if who == "worker":
                deadline = time.monotonic() + 60
                while worker_of(process, others) is None and process.poll() is None and time.monotonic() < deadline:
                    pass
            end = time.monotonic() + 0.01 * step
            while time.monotonic() < end:
                pass
            victim = process.pid if who == "berth" else worker_of(process, others)
            if victim:
                os.kill(victim, number)
            runs[-1][2] = victim
        if number == signal.SIGSTOP:
            # A run that had begun ends by its deadline nevertheless; a run that had not waits to go on.
            time.sleep(0.3)
            for _, marker, victim in runs:
                if victim and uid_of(marker):
                    wait_for(lambda marker=marker: True if uid_of(marker) is None else None)
                if victim:
                    with contextlib.suppress(OSError):
                        os.kill(victim, signal.SIGCONT)
        for process, _, _ in runs:
            process.communicate(timeout=60)
    finally:
        for process, _, victim in runs:
            if victim and number == signal.SIGSTOP:
                with contextlib.suppress(OSError):
                    os.kill(victim, signal.SIGCONT)
            process.kill()
            process.communicate()
    assert all(gone(marker) for _, marker, _ in runs)


# --- other Berths, and who kills from outside ---


def test_a_berth_of_another_pid_namespace_leaves_ours_alone(box):
    """It shares the tree of cgroups and cannot see who lives: what it does not know it does not sweep."""
    if box.uid != 0:
        pytest.skip("an ordinary user's groups are below the user's own")
    marker = f"berth-{RUN}-{box.user}-namespaces"
    process = box.popen(*box.words("input(); print('alive')", "--", marker), stdin=subprocess.PIPE)
    try:
        wait_for(lambda: uid_of(marker))
        command = ["unshare", "--pid", "--fork", "--mount-proc", *box.command(*box.words("print(1)"))]
        done = subprocess.run(command, cwd=box.stack, env=box.env, capture_output=True, timeout=60)
        if b"Operation not permitted" in done.stderr:
            pytest.skip("no PID namespaces here")
        assert done.returncode == 0, done.stderr
        out, err = process.communicate(b"\n", timeout=60)
        assert process.returncode == 0, err
        assert json.loads(out)["stdout"]["content"] == "alive\n"
    finally:
        process.kill()
        process.communicate()


def test_killed_from_outside_is_said(box):
    """Not that it could not be set up, when the program had begun."""
    marker = f"berth-{RUN}-{box.user}-outside"
    process = box.popen(*box.words("import time; print('on', flush=True); time.sleep(60)", "--", marker))
    try:
        wait_for(lambda: uid_of(marker))
        worker = worker_of(process)
        init = int(Path(f"/proc/{worker}/task/{worker}/children").read_text().split()[0])
        os.kill(init, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 125
    assert b"killed from outside" in err and b"set up" not in err
    assert gone(marker)


# --- readers that do not read ---


def started_in_terminal(box, code, *options, read=False, **kwargs):
    """Berth with a terminal of its own for all three descriptors; answers the process and our end."""
    ours, theirs = pty.openpty()

    def own_terminal():
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    words = [word for word in box.words(code, *options) if word != "--json"]
    process = subprocess.Popen(
        box.command(*words), cwd=box.stack, env=box.env, stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True, preexec_fn=own_terminal, **kwargs,
    )  # fmt: skip
    os.close(theirs)
    return process, ours


FLOOD = "import sys\nwhile True: print('x' * 200); print('y' * 200, file=sys.stderr)"


def test_an_unread_terminal_does_not_hold_up_the_deadline(box):
    marker = f"berth-{RUN}-{box.user}-terminal"
    process, ours = started_in_terminal(box, FLOOD, "--timeout", "2", "--", marker)
    try:
        wait_for(lambda: uid_of(marker))
        wait_for(lambda: True if uid_of(marker) is None else None, seconds=30)
    finally:
        process.kill()
        os.close(ours)
        process.wait()


def waiting_bytes(pipe):
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.parametrize("ended", [False, True], ids=["while it runs", "once it has ended"])
@pytest.mark.parametrize("json", [False, True], ids=["text", "json"])
def test_a_signal_is_obeyed_though_nobody_reads(box, json, ended):
    """What Berth itself has to say last goes into the same pipes, which are full."""
    marker = f"berth-{RUN}-{box.user}-unread-{json}-{ended}"
    pages = "import os\nwhile True: os.write(1, bytes(4096)); os.write(2, bytes(4096))"  # no room for a short text behind them
    words = box.words(pages, "--timeout", "2" if ended else "60", "--", marker)
    process = subprocess.Popen(
        box.command(*(words if json else [word for word in words if word != "--json"])), cwd=box.stack, env=box.env,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait_for(lambda: uid_of(marker))
        if ended:
            wait_for(lambda: True if uid_of(marker) is None else None, seconds=30)
            wait_for(lambda: "write" in Path(f"/proc/{process.pid}/wchan").read_text() or None, seconds=30)
        elif not json:
            wait_for(lambda: waiting_bytes(process.stderr) >= 65536 or None)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("owner", ["ours", "own"])
def test_one_full_pipe_for_both_streams(box, owner):
    """2>&1 into a pipe that is not read, of the user's own (which can be opened again) and of another user's."""
    marker = f"berth-{RUN}-{box.user}-pipe-{owner}"
    words = [word for word in box.words(FLOOD, "--timeout", "2", "--", marker) if word != "--json"]
    command = box.command(*words)
    if owner == "own":
        at = command.index(str(box.binary))
        command = [*command[:at], "sh", "-c", '"$@" 2>&1 | sleep 60', "sh", *command[at:]]
    process = subprocess.Popen(
        command, cwd=box.stack, env=box.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        wait_for(lambda: uid_of(marker))
        wait_for(lambda: True if uid_of(marker) is None else None, seconds=30)
        process.stdout.close()  # or it waits for room to say why it ended
        if owner == "ours":
            assert process.wait(timeout=60) == 124
    finally:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_suspended_from_the_terminal(box):
    """Ctrl-Z stops Berth and not the clock; after `fg` what was printed until then is there."""
    marker = f"berth-{RUN}-{box.user}-suspended"
    code = "import time\nfor n in range(1000): print(n, flush=True); time.sleep(0.01)\ntime.sleep(60)"
    process = box.popen(*box.words(code, "--timeout", "3", "--", marker), start_new_session=True)
    try:
        wait_for(lambda: uid_of(marker))
        os.killpg(process.pid, signal.SIGTSTP)
        wait_for(lambda: True if uid_of(marker) is None else None, seconds=30)
        os.killpg(process.pid, signal.SIGCONT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    result = json.loads(out)
    assert (process.returncode, result["reason"]) == (124, "deadline")
    lines = result["stdout"]["content"].split()
    assert lines == [str(n) for n in range(len(lines))] and lines


def test_output_is_kept_for_a_slow_reader(box):
    """The run is over and its slot free; what it printed waits in the pipe until it is taken."""
    degraded = ["--accept-degraded"] if box.user == "ordinary" else []
    process = box.popen("exec", *degraded, "--agent", "rejecting", "-c", "print('on', flush=True); print('x' * 100000, flush=True)")
    try:
        assert process.stdout.readline() == b"on\n"
        for _ in range(200):
            second = box.berth("exec", *degraded, "--agent", "rejecting", "-c", "print(2)")
            if second.returncode == 0:
                break
            time.sleep(0.05)
        assert second.returncode == 0
        assert len(process.stdout.read()) == 100001  # not by communicate(), which passes by what readline() read ahead
    finally:
        process.kill()
        process.communicate()
