# SPDX-License-Identifier: Apache-2.0
"""
berth-runtime in a real sandbox: it runs there, and its user code, with the sandbox's own user and filter of system calls, reaches
neither the runtime nor its caller.
"""

import json

import pytest

# Runs in the sandbox, as its program: a caller of the runtime, which says what came of each request.
CALLER = r"""
import json, os, socket, struct, subprocess, sys

data = open("berth-runtime", "rb").read()
program = os.memfd_create("berth-runtime")
os.write(program, data)
ours, theirs = socket.socketpair()
process = subprocess.Popen([f"/proc/self/fd/{program}", "serve"], stdin=theirs, stdout=theirs, pass_fds=[program])
theirs.close()
file = ours.makefile("rwb")

def read():
    lengths = struct.unpack(">II", file.read(8))
    return json.loads(file.read(lengths[0])), file.read(lengths[1])

def run(n, code, **options):
    head = json.dumps({"type": "execute", "n": n, **options}).encode()
    file.write(struct.pack(">II", len(head), len(code.encode())) + head + code.encode())
    file.flush()
    out = b""
    while True:
        head, body = read()
        if head["type"] == "output":
            out += body
        if head["type"] == "done":
            return {"status": head["status"], "value": head["value"] and head["value"]["text"], "ended": head["ended"],
                    "error": head["error"] and head["error"]["name"], "left": head["left"], "out": out.decode()}

read()
results = [run(n + 1, code, **options) for n, (code, options) in enumerate(json.load(open("requests.json")))]
ours.close()
json.dump(results, sys.stdout)
"""


@pytest.fixture
def inside(box, binary):
    program = binary.parent / "berth-runtime"

    def run(*requests):
        (box.folder / "requests.json").write_text(json.dumps([(r, {}) if isinstance(r, str) else r for r in requests]))
        copy = box.folder / "berth-runtime"
        copy.write_bytes(program.read_bytes())
        return box.tell(CALLER, "--file", f"berth-runtime={copy}", "--file", f"requests.json={box.folder / 'requests.json'}", "--timeout", "120")

    return run


def test_it_works_in_a_sandbox(inside):
    first, second, third, late, killed, after = inside(
        "x = 41", "x + 1", ("echo shell; sleep 1000 & exit 3", {"language": "sh"}), ("while True: pass", {"timeoutMs": 500}),
        ("import time\nwhile True:\n    try: time.sleep(1000)\n    except BaseException: pass", {"timeoutMs": 500}), "1",
    )  # fmt: skip
    assert first["status"] == "ok" and second["value"] == "42"
    assert third["out"] == "shell\n" and third["status"] == "error" and third["left"] == 1
    assert late["status"] == "timeout" and late["ended"] is None
    assert killed["status"] == "timeout" and killed["ended"]
    assert after["status"] == "ok"


def test_code_reaches_nothing_of_the_runtime(inside):
    (found,) = inside(
        "import os, signal\nparent, found = os.getppid(), []\n"
        "for name in ('environ', 'fd', 'fdinfo', 'mem', 'maps', 'cwd', 'root', 'exe', 'map_files', 'task'):\n"
        "    for look in (os.listdir, os.readlink, lambda path: open(path, 'rb').read(1)):\n"
        "        try:\n            if name != 'task': look(f'/proc/{parent}/{name}'); found.append(name)\n        except OSError: pass\n"
        "for number in (1, 2, 15, 10, 13, 20): os.kill(parent, number)\n"
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.ptrace(16, parent, 0, 0) == 0: found.append('ptrace')\n"
        "if libc.process_vm_readv(parent, 0, 0, 0, 0, 0) == 0: found.append('read')\n"
        "pidfd = os.pidfd_open(parent)\n"
        "if libc.syscall(438, pidfd, 16, 0) >= 0: found.append('descriptor')\nfound"
    )
    assert found["value"] == "[]", found


def test_a_flood_of_processes_is_killed_with_its_execution(inside):
    flood, after = inside(
        ("import os, time\ndef fork():\n    try: return os.fork()\n    except OSError: time.sleep(0.1); return 1\n"
         "while True:\n    try:\n        fork()\n    except BaseException: pass", {"timeoutMs": 1000}), ("echo free", {"language": "sh"}),
    )  # fmt: skip
    assert flood["status"] == "timeout"
    assert after["status"] == "ok" and after["out"] == "free\n" and after["left"] == 0
