# SPDX-License-Identifier: Apache-2.0
"""Every denied system call, tried from inside."""

import errno
import json

import probes
import pytest

DENIED = {
    "ptrace": [101, [0, 0, 0, 0]],
    "personality": [135, [0x0040000]],
    "modify_ldt": [154, [0, 0, 0]],
    "pivot_root": [155, [".", "."]],
    "chroot": [161, ["/"]],
    "acct": [163, [0]],
    "settimeofday": [164, [0, 0]],
    "mount": [165, ["none", "/tmp", "tmpfs", 0, 0]],
    "umount2": [166, ["/tmp", 2]],
    "swapon": [167, ["/nothing", 0]],
    "swapoff": [168, ["/nothing"]],
    "reboot": [169, [0, 0, 0, 0]],
    "sethostname": [170, ["x", 1]],
    "setdomainname": [171, ["x", 1]],
    "iopl": [172, [3]],
    "ioperm": [173, [0, 1, 1]],
    "init_module": [175, [0, 0, ""]],
    "delete_module": [176, ["nothing", 0]],
    "quotactl": [179, [0, 0, 0, 0]],
    "clock_settime": [227, [0, 0]],
    "mbind": [237, [0, 0, 0, 0, 0, 0]],
    "set_mempolicy": [238, [0, 0, 0]],
    "mq_open": [240, ["/x", 0o100, 0o600, 0]],
    "kexec_load": [246, [0, 0, 0, 0]],
    "add_key": [248, ["user", "berth", "x", 1, -3]],
    "request_key": [249, ["user", "berth", 0, -3]],
    "keyctl": [250, [0, -3, 0]],
    "migrate_pages": [256, [0, 0, 0, 0]],
    "unshare, users": [272, [0x10000000]],
    "unshare, mounts": [272, [0x00020000]],
    "unshare, network": [272, [0x40000000]],
    "vmsplice into nothing is allowed, move_pages is not": [279, [0, 0, 0, 0, 0, 0]],
    "perf_event_open": [298, [0, 0, -1, -1, 0]],
    "fanotify_init": [300, [0, 0]],
    "name_to_handle_at": [303, [-100, "/", 0, 0, 0]],
    "open_by_handle_at": [304, [-100, 0, 0]],
    "clock_adjtime": [305, [0, 0]],
    "setns": [308, [0, 0]],
    "process_vm_readv": [310, [1, 0, 0, 0, 0, 0]],
    "process_vm_writev": [311, [1, 0, 0, 0, 0, 0]],
    "kcmp": [312, [1, 1, 0, 0, 0]],
    "finit_module": [313, [0, "", 0]],
    "kexec_file_load": [320, [0, 0, 0, 0, 0]],
    "bpf": [321, [0, 0, 0]],
    "userfaultfd": [323, [0]],
    "io_setup": [206, [1, 0]],
    "io_uring_setup": [425, [1, 0]],
    "io_uring_enter": [426, [0, 0, 0, 0, 0, 0]],
    "io_uring_register": [427, [0, 0, 0, 0]],
    "open_tree": [428, [-100, "/", 1]],
    "move_mount": [429, [-100, "", -100, "", 0]],
    "fsopen": [430, ["tmpfs", 0]],
    "fsconfig": [431, [0, 0, 0, 0, 0]],
    "fsmount": [432, [0, 0, 0]],
    "fspick": [433, [-100, "/", 0]],
    "pidfd_getfd": [438, [0, 0, 0]],
    "clone3": [435, [0, 0]],
    "process_madvise": [440, [0, 0, 0, 0, 0]],
    "mount_setattr": [442, [-100, "/", 0, 0, 0]],
    "memfd_secret": [447, [0]],
    "sched_setscheduler": [144, [0, 1, 0]],
    "syslog": [103, [3, 0, 0]],
    "capset": [126, [0, 0]],
    "a call that no kernel has": [0xFFF, []],
    "clone, users": [56, [0x10000000 | 17, 0, 0, 0, 0]],
    "clone, mounts": [56, [0x00020000 | 17, 0, 0, 0, 0]],
    "clone, processes": [56, [0x20000000 | 17, 0, 0, 0, 0]],
    "clone, network": [56, [0x40000000 | 17, 0, 0, 0, 0]],
    "clone, descriptors shared with a process": [56, [0x400 | 17, 0, 0, 0, 0]],
    "ioctl TIOCSTI": [16, [0, 0x5412, "x"]],
    "ioctl TIOCSTI behind high bits": [16, [0, 0x100005412, "x"]],
    "ioctl TIOCLINUX": [16, [0, 0x541C, "x"]],
    "prctl PR_SET_MM": [157, [35, 0, 0, 0, 0]],
    "prctl PR_CAP_AMBIENT": [157, [47, 2, 0, 0, 0]],
    "syncfs": [306, [0]],
    "seccomp": [317, [1, 0, 0]],
    "fcntl F_SETLEASE": [72, [0, 1024, 2]],
    "fcntl F_NOTIFY": [72, [0, 1026, 1]],
    "fcntl F_NOTIFY behind high bits": [72, [0, 0x100000402, 1]],
    "setsockopt SO_ATTACH_FILTER": [54, [0, 1, 26, 0, 0]],
    "setsockopt SO_ATTACH_BPF": [54, [0, 1, 50, 0, 0]],
    "setsockopt SO_ATTACH_REUSEPORT_CBPF": [54, [0, 1, 51, 0, 0]],
    "setsockopt SO_ATTACH_REUSEPORT_EBPF": [54, [0, 1, 52, 0, 0]],
    "setsockopt SO_LOCK_FILTER": [54, [0, 1, 44, 0, 0]],
    "setsockopt SO_SNDBUFFORCE": [54, [0, 1, 32, 0, 0]],
    "setsockopt SO_RCVBUFFORCE": [54, [0, 1, 33, 0, 0]],
    "setsockopt SO_TIMESTAMPING": [54, [0, 1, 37, 0, 0]],
    "setsockopt SO_RCVLOWAT": [54, [0, 1, 18, 0, 0]],
    "setsockopt IP_ADD_MEMBERSHIP": [54, [0, 0, 35, 0, 0]],
    "setsockopt IPV6_ADD_MEMBERSHIP": [54, [0, 41, 20, 0, 0]],
    "setsockopt UDP_CORK": [54, [0, 17, 1, 0, 0]],
    "setsockopt TCP_ULP": [54, [0, 6, 31, "tls", 3]],
    "setsockopt TCP_REPAIR": [54, [0, 6, 19, 0, 0]],
    "shmget SHM_HUGETLB": [29, [0, 2 << 20, 0o4000 | 0o1600]],
}
# Denied by the answer of a kernel that lacks it, which programs know to live with.
LACKING = {
    "prctl PR_SET_SECCOMP": ([157, [22, 1, 0, 0, 0]], errno.EINVAL),
    "fcntl F_OFD_GETLK": ([72, [0, 36, 0]], errno.EINVAL),
    "fcntl F_OFD_SETLK": ([72, [0, 37, 0]], errno.EINVAL),
    "fcntl F_OFD_SETLKW": ([72, [0, 38, 0]], errno.EINVAL),
    "memfd_create MFD_HUGETLB": ([319, ["x", 4]], errno.EINVAL),
    "mmap MAP_HUGETLB": ([9, [0, 2 << 20, 3, 0x40000 | 0x4000 | 0x22, -1, 0]], errno.ENOMEM),
    "sendto MSG_MORE": ([44, [0, "x", 1, 0x8000, 0, 0]], errno.EOPNOTSUPP),
    "sendmsg MSG_MORE": ([46, [0, 0, 0x8000]], errno.EOPNOTSUPP),
    "sendmmsg MSG_MORE": ([307, [0, 0, 0, 0x8000]], errno.EOPNOTSUPP),
    "socket, MPTCP": ([41, [2, 1, 262]], errno.EPROTONOSUPPORT),
    "socket, MPTCP of IPv6": ([41, [10, 1, 262]], errno.EPROTONOSUPPORT),
}
# The same way of asking says yes to what is allowed: otherwise the table above proves nothing.
ALLOWED = {
    "getpid": [39, []],
    "memfd_create": [319, ["x", 0]],
    "mmap": [9, [0, 4096, 3, 0x22, -1, 0]],
    "shmget": [29, [0, 4096, 0o1600]],
    "socket, local": [41, [1, 1, 0]],
    "socket, local, closed on exec": [41, [1, 5 | 0x80800, 0]],
    "socket, TCP by number": [41, [2, 1 | 0x80000, 6]],
    "socket, UDP of IPv6": [41, [10, 2, 17]],
    "fcntl F_GETFL": [72, [0, 3, 0]],
}
_answers = {}


@pytest.fixture
def answers(sandbox):
    if sandbox not in _answers:
        _answers[sandbox] = sandbox.tell(
            probes.CALLS, "--", json.dumps({**DENIED, **ALLOWED, **{name: call for name, (call, _) in LACKING.items()}})
        )
    return _answers[sandbox]


@pytest.mark.parametrize("name", DENIED)
def test_is_denied(answers, name):
    assert answers[name] in (errno.EPERM, errno.ENOSYS), f"{name}: {answers[name]}"


@pytest.mark.parametrize("name", LACKING)
def test_is_lacking(answers, name):
    assert answers[name] == LACKING[name][1]


@pytest.mark.parametrize("name", ALLOWED)
def test_is_allowed(answers, name):
    assert answers[name] == 0


CODE = {
    "getpid of 32 bits": "b814000000cd80c3",  # mov eax, 20; int 0x80; ret
    "getpid of x32": "b8270000400f05c3",  # mov eax, 0x40000027; syscall; ret
}


def answer_of_code(sandbox, code):
    """What a function returned of 32 bits, or a signal's name."""
    return sandbox.tell(probes.MACHINE_CODE, "--", code)


@pytest.mark.parametrize("name", CODE)
def test_other_architectures_have_no_calls(sandbox, name):
    """Killed, each would be a line in the machine's log."""
    assert answer_of_code(sandbox, CODE[name]) == -errno.ENOSYS


def test_machine_code_runs_at_all(sandbox):
    assert answer_of_code(sandbox, "b827000000" + "0f05c3") > 0  # getpid of 64 bits


SOCKETS = {
    "netlink, routes": [16, 3, 0],
    "netlink, audit": [16, 3, 9],
    "netlink, netfilter": [16, 3, 12],
    "netlink, events of devices": [16, 3, 15],
    "packets": [17, 3, 3],
    "bluetooth": [31, 3, 0],
    "kernel's cryptography": [38, 5, 0],
    "virtual machine": [40, 1, 0],
    "raw": [2, 3, 1],
    "raw of IPv6": [10, 3, 58],
    "echoes": [2, 2, 1],
    "SCTP": [2, 1, 132],
    "SCTP in packets": [2, 5, 132],
    "UDP-Lite": [2, 2, 136],
    "MPTCP": [2, 1, 262],
    "express data path": [44, 3, 0],
    "shared memory of machines": [43, 1, 0],
}


def test_sockets(sandbox):
    answers = sandbox.tell(probes.SOCKETS, "--", json.dumps({**SOCKETS, "tcp": [2, 1, 0], "udp": [10, 2, 0], "local": [1, 1, 0]}))
    assert {name: answers[name] for name in SOCKETS if answers[name] == 0} == {}
    assert [answers[name] for name in ("tcp", "udp", "local")] == [0, 0, 0]


def test_sizes_of_buffers_stay(sandbox):
    """What asks for larger ones is not told no, and does not get them: nobody would count what waits in them."""
    answers = sandbox.tell(
        "import json, socket\n"
        "answers = []\n"
        "for family, kind in ((1, 1), (2, 1), (2, 2), (10, 1)):\n"
        "    with socket.socket(family, kind) as probe:\n"
        "        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):\n"
        "            before = probe.getsockopt(1, option)\n"
        "            probe.setsockopt(1, option, 1 << 22)\n"
        "            answers.append(probe.getsockopt(1, option) - before)\n"
        "print(json.dumps(answers))"
    )
    assert answers == [0] * 8


def test_usual_network_programs_work(sandbox):
    """A server and its client on the sandbox's own loopback, with the options that programs set; names of the hosts file."""
    answers = sandbox.tell(
        "import asyncio, http.client, http.server, json, socket, sqlite3, threading\n"
        "server = http.server.ThreadingHTTPServer(('localhost', 0), http.server.SimpleHTTPRequestHandler)\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "got = http.client.HTTPConnection('localhost', server.server_port)\n"
        "got.request('GET', '/')\n"
        "async def echo():\n"
        "    made = await asyncio.start_server(lambda r, w: w.close(), 'localhost', 0, reuse_port=True)\n"
        "    reader, writer = await asyncio.open_connection(*made.sockets[0].getsockname()[:2])\n"
        "    return (await reader.read()).decode()\n"
        "base = sqlite3.connect('base'); base.execute('create table t (a)'); base.commit()\n"
        "print(json.dumps([got.getresponse().status, asyncio.run(echo()), base.execute('select count(*) from t').fetchone()[0]]))"
    )
    assert answers == [200, "", 0]
