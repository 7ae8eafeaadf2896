# SPDX-License-Identifier: Apache-2.0
"""Memory that the kernel keeps for a program: counted against its limit, bounded, or not to be had.

Each attack hoards until it is refused, and stops by itself at 600 MB, in a sandbox of 256 MB: it says how much it got the
kernel to keep, or is killed.
"""

import fcntl
import json
import struct
from pathlib import Path

import probes
import pytest

MB = 1024 * 1024
STOP = 600 * MB
# Answers bytes that wait and will not be read; `take` sends until the socket takes no more.
PRELUDE = f"""
import json, os, socket, sys, time
STOP, held, kept = {STOP}, 0, []
os.chdir("/tmp")
def take(end, piece=bytes(65536)):
    global held
    end.setblocking(False)
    try:
        while held < STOP: held += end.send(piece)
    except OSError: pass
def told(): print(json.dumps(held), flush=True)
# A process may have 1,024 descriptors: a child keeps what there is, and this one goes on.
def another():
    if os.fork() == 0: time.sleep(600); os._exit(0)
    for end in kept: os.close(end) if isinstance(end, int) else end.close()
    kept.clear()
"""


def hoard(fresh, code):
    """Bytes that it said it got; None where it was killed at its limit."""
    result = fresh.exec(PRELUDE + code + "\ntold()\n", "--agent", "small")
    if result["reason"] == "memory":
        return None
    assert result["exitCode"] == 0, result
    return json.loads(result["text"])


CONNECTED = """
listener = socket.create_server(("127.0.0.1", 0))
for _ in range(200):
    here = socket.create_connection(listener.getsockname())
    there, _ = listener.accept()
    kept += [here, there]
    take(here); take(there)
"""
PACKETS = """
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(200):
    there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    there.bind(("127.0.0.1", 0))
    there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    for _ in range(1 + there.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 65536):
        held += sender.sendto(bytes(65000), there.getsockname())
    kept.append(there)
"""
CORKED = """
for _ in range(1000):
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.connect(("127.0.0.1", 9))
    try: held += end.send(bytes(65000), socket.MSG_MORE)
    except OSError: break
    kept.append(end)
"""
NETLINK = """
import struct
for _ in range(1000):
    try: end = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    except OSError: break
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    take(end, struct.pack("IHHII", 100016, 999, 5, 1, 0) + bytes(100000))
    kept.append(end)
"""
FILTERS = """
import ctypes, struct
program = ctypes.create_string_buffer(struct.pack("HBBI", 0, 0, 0, 7) * 4000 + struct.pack("HBBI", 6, 0, 0, 0xFFFFFFFF))
for _ in range(1000):
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try: end.setsockopt(1, 26, struct.pack("HxxxxxxQ", 4001, ctypes.addressof(program)))
    except OSError: break
    kept.append(end)
    held += len(program) * 2
"""
HUGE = """
import mmap
try:
    for _ in range(STOP >> 21): kept.append(mmap.mmap(-1, 2 << 20, flags=0x22 | 0x40000 | 0x4000)); held += 2 << 20
except OSError: pass
"""


@pytest.mark.parametrize("code, most", [(PACKETS, 64 * MB), (CORKED, 0), (NETLINK, 0), (FILTERS, 0), (HUGE, 0)],
                         ids=["packets", "corked", "netlink", "filters", "huge pages"])  # fmt: skip
def test_is_not_kept(fresh, code, most):
    got = hoard(fresh, code)
    assert got is not None and got <= most, got


UNACCEPTED = """
import time
# Whoever connects sends, and closes: what was sent waits for somebody who never accepts. No descriptor is held for it.
def fill_listener():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    kept.append(listener)
    for _ in range(4096):
        end, before = socket.socket(), held
        end.setblocking(False)
        try: end.connect(listener.getsockname())
        except OSError: pass
        take(end)
        end.close()
        if held == before: break
"""
MANY = """
import time
for _ in range(8):
    if os.fork() == 0:
        kept = [socket.socket() for _ in range(1000)]
        time.sleep(600)
for _ in range(8): os.wait()
"""


def test_connections_are_bounded(fresh):
    """Twice 256 KB each at the most. cgroups of version 1 hold all together besides, those of version 2 count them as memory."""
    got = hoard(fresh, CONNECTED)
    assert got is None or got <= 160 * MB


def test_connections_have_a_limit_together(fresh):
    if not Path("/sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes").exists():
        pytest.skip("cgroups of version 1 have that limit")
    fresh.needs("memory limit")
    assert hoard(fresh, CONNECTED) <= 64 * MB


def test_connections_that_nobody_accepts_are_few_and_small(fresh):
    """They are in no memory limit on any version of cgroups: 161 of them kept 600 MB. Here 128 may wait, each with 320 KB at most.
    Where the machine is so slow that their number is looked at meanwhile, it may be killed for that."""
    somaxconn = fresh.exec("try: print(open('/proc/sys/net/core/somaxconn').read())\nexcept OSError: print(0)")["text"]
    if int(somaxconn) != 128:
        pytest.skip("this kernel gives the network namespaces of ordinary users no somaxconn: their number alone has a limit")
    got = hoard(fresh, UNACCEPTED + "fill_listener()")
    assert got is None or got <= 48 * MB, got


def test_connections_that_nobody_accepts_are_bounded(fresh):
    """Many listeners have many of them: their number has a limit. It holds what it has until it is killed: how much it had until
    the next look says only how fast the machine is."""
    code = """
try:
    while True: fill_listener()
except OSError: time.sleep(600)
"""
    assert fresh.exec(PRELUDE + UNACCEPTED + code, "--agent", "small", "--timeout", "60")["reason"] == "memory"


def test_sockets_are_bounded(fresh):
    assert hoard(fresh, MANY) is None


def test_a_thousand_sockets_are_nothing(fresh):
    code = "import socket; kept = [socket.socket() for _ in range(1000)]; import time; time.sleep(0.5); print(len(kept))"
    assert fresh.exec(code)["text"] == "1000\n"


# Each holds until it is killed: what a program had for a moment is not asked.
RANGES = """
import fcntl, struct, time
for number in range(20):
    file = open(f"locked{number}", "w")
    kept.append(file)
    for at in range(1000): fcntl.fcntl(file, fcntl.F_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 2000 - 2 * at, 1, 0))
time.sleep(600)
"""
WHOLE = """
import fcntl, time
for _ in range(8):
    if os.fork() == 0:
        for number in range(1000):
            kept.append(open(f"locked{os.getpid()}-{number}", "w"))
            fcntl.flock(kept[-1], fcntl.LOCK_EX)
        time.sleep(600)
for _ in range(8): os.wait()
"""


@pytest.mark.parametrize("code", [RANGES, WHOLE], ids=["ranges", "whole files"])
def test_locks_are_bounded(fresh, code):
    assert fresh.exec(PRELUDE + code, "--agent", "small", "--timeout", "60")["reason"] == "memory"


def test_a_thousand_locks_are_nothing(fresh):
    """And locking works: what one process locked another does not get, and sees by whom it is held."""
    code = """
import fcntl, os, struct, time
file = open("locked", "w")
for at in range(1000): fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * at)
if os.fork() == 0:
    held = fcntl.fcntl(file, fcntl.F_GETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 1998, 1, 0))
    try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1998)
    except OSError: print(struct.unpack("hhqqi", held)[4] == os.getppid(), flush=True)
    os._exit(0)
os.wait()
time.sleep(0.5)
print("done")
"""
    assert fresh.exec(code)["text"] == "True\ndone\n"


def test_locks_of_the_machine_are_not_shown(fresh):
    """Those of open file descriptions have no owner, and the kernel shows them to every PID namespace."""
    with open(fresh.folder / "locked", "w") as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
        assert "OFDLCK" in Path("/proc/locks").read_text()
        assert fresh.tell(probes.READ, "--", '["/proc/locks"]')["/proc/locks"] <= 0


LOCAL = """
for number in range(1000):
    if number % 400 == 399: another()
    ends = socket.socketpair()
    kept += ends
    take(ends[0]); take(ends[1])
"""
IN_FLIGHT = """
# Each pair's buffers are full, and then it is sent away in a socket that nobody reads.
import array, errno
away, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
away.setblocking(False)
while held < STOP:
    ends, before = socket.socketpair(), held
    take(ends[0]); take(ends[1])
    try: away.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [e.fileno() for e in ends]))])
    except OSError as error:
        held = before
        if error.errno == errno.ETOOMANYREFS: break
        kept += [away, there]
        try: away, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        except OSError: break
        away.setblocking(False)
    for end in ends: end.close()
"""
SENT_AWAY = """
import array, resource
try: resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
except (OSError, ValueError): pass
away, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
sent, kept = 0, [away]
try:
    while sent < 4000:
        ends = socket.socketpair()
        away.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [e.fileno() for e in ends]))])
        sent += 2
        kept.append(away)
        away = ends[1]
        ends[0].close()
        if len(kept) > 2: kept.pop(1).close()
except OSError: pass
print(json.dumps(sent))
"""


def test_few_sockets_are_in_flight(fresh):
    """Whenever a local socket is closed the kernel looks at all that were sent and not received, in a process of its own, whose time counts
    against nobody: with 3,400 of them it took four times the time that the program took itself, with 900 less than that."""
    assert 900 < fresh.tell(PRELUDE + SENT_AWAY) <= 1026


PIPES = """
import fcntl
for number in range(1500):
    if number % 400 == 399: another()
    there, here = os.pipe()
    kept += [there, here]
    os.set_blocking(here, False)
    try: fcntl.fcntl(here, 1031, 1 << 20)
    except OSError: pass
    try:
        while held < STOP: held += os.write(here, bytes(65536))
    except OSError: pass
"""
SEMAPHORES = """
import ctypes
libc = ctypes.CDLL(None)
while held < STOP:
    if libc.semget(0, 32000, 0o1600) < 0: break
    held += 32000 * 64
"""
SHARED = """
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
while held < STOP:
    number = libc.shmget(0, 8 << 20, 0o1600)
    at = libc.shmat(number, None, 0)
    if number < 0 or at == ctypes.c_void_p(-1).value: break
    ctypes.memset(at, 1, 8 << 20); libc.shmdt(ctypes.c_void_p(at))
    held += 8 << 20
"""
WATCHES = """
import select
while held < STOP:
    try: kept.append(select.epoll())
    except OSError: break
    for n in range(1000):
        try: kept[-1].register(os.dup(0), 0); held += 200
        except OSError: break
    else: continue
    break
"""


@pytest.mark.parametrize("code", [LOCAL, IN_FLIGHT, PIPES, SEMAPHORES, SHARED, WATCHES],
                         ids=["local sockets", "in flight", "pipes", "semaphores", "shared memory", "watches"])  # fmt: skip
def test_counts_as_memory(fresh, code):
    """What is kept is the sandbox's memory: it dies of it, or gets less than its limit."""
    fresh.needs("memory limit")
    got = hoard(fresh, code)
    assert got is None or got <= 256 * MB
