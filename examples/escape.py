# SPDX-License-Identifier: Apache-2.0
"""What a program might try to get out of its sandbox, and what it is told. Harmless where it succeeds."""
import ctypes
import os
import socket

libc = ctypes.CDLL(None, use_errno=True)


def connect(host, port):
    socket.create_connection((host, port), timeout=2).close()


def system_call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


attempts = [
    ("ask the cloud's metadata service", lambda: connect("169.254.169.254", 80)),
    ("resolve a name", lambda: socket.getaddrinfo("example.com", 443)),
    ("read the host's password hashes", lambda: open("/etc/shadow").close()),
    ("open a kernel setting to write", lambda: open("/proc/sys/kernel/core_pattern", "w").close()),
    ("write to /usr", lambda: open("/usr/here", "w").close()),
    ("mount a file system", lambda: system_call(libc.mount(b"none", b"/mnt", b"tmpfs", 0, None))),
    ("make a user namespace", lambda: system_call(libc.unshare(0x10000000))),
    ("trace process 1", lambda: system_call(libc.ptrace(16, 1, 0, 0))),
]

for what, attempt in attempts:
    try:
        attempt()
        answer = "IT WORKED"
    except OSError as error:
        answer = error.strerror
    print(f"{what:34} {answer}")
print("processes to be seen:", sum(name.isdigit() for name in os.listdir("/proc")))
