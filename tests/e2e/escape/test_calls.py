# SPDX-License-Identifier: Apache-2.0
"""Every denied system call, tried from inside."""

import errno
import json
import signal

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
    "ioctl TIOCSTI": [16, [0, 0x5412, "x"]],
    "ioctl TIOCSTI behind high bits": [16, [0, 0x100005412, "x"]],
    "ioctl TIOCLINUX": [16, [0, 0x541C, "x"]],
    "prctl PR_SET_MM": [157, [35, 0, 0, 0, 0]],
    "prctl PR_CAP_AMBIENT": [157, [47, 2, 0, 0, 0]],
}
# The same way of asking says yes to what is allowed: otherwise the table above proves nothing.
ALLOWED = {"getpid": [39, []], "memfd_create": [319, ["x", 0]], "socket, local": [41, [1, 1, 0]]}
_answers = {}


@pytest.fixture
def answers(box):
    if box.user not in _answers:
        _answers[box.user] = box.tell(probes.CALLS, "--", json.dumps({**DENIED, **ALLOWED}))
    return _answers[box.user]


@pytest.mark.parametrize("name", DENIED)
def test_is_denied(answers, name):
    assert answers[name] in (errno.EPERM, errno.ENOSYS), f"{name}: {answers[name]}"


@pytest.mark.parametrize("name", ALLOWED)
def test_is_allowed(answers, name):
    assert answers[name] == 0


CODE = {
    "getpid of 32 bits": "b814000000cd80c3",  # mov eax, 20; int 0x80; ret
    "getpid of x32": "b8270000400f05c3",  # mov eax, 0x40000027; syscall; ret
}


@pytest.mark.parametrize("name", CODE)
def test_other_architectures_kill(box, name):
    assert box.tell(probes.MACHINE_CODE, "--", CODE[name]) == -signal.SIGSYS


def test_machine_code_runs_at_all(box):
    assert box.tell(probes.MACHINE_CODE, "--", "b827000000" + "0f05c3") == 0  # getpid of 64 bits


SOCKETS = {
    "netlink, audit": [16, 3, 9],
    "netlink, netfilter": [16, 3, 12],
    "netlink, events of devices": [16, 3, 15],
    "packets": [17, 3, 3],
    "bluetooth": [31, 3, 0],
    "kernel's cryptography": [38, 5, 0],
    "virtual machine": [40, 1, 0],
    "raw": [2, 3, 1],
    "express data path": [44, 3, 0],
}


def test_sockets(box):
    answers = box.tell(probes.SOCKETS, "--", json.dumps({**SOCKETS, "tcp": [2, 1, 0], "local": [1, 1, 0], "route": [16, 3, 0]}))
    assert {name: answers[name] for name in SOCKETS if answers[name] == 0} == {}
    assert [answers[name] for name in ("tcp", "local", "route")] == [0, 0, 0]
