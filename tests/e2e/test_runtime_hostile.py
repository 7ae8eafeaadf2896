# SPDX-License-Identifier: Apache-2.0
"""What code can do to its own kernel, by accident or on purpose: each ends with an honest result, and the next execution works."""

import os
import struct

import pytest

from runtime_client import Runtime, end, is_alive, pack, wait_until


def lost(runtime):
    """That the kernel is another one, and why."""
    state = runtime.ok("'next'").state
    assert state["was"] == "lost", state
    return state["reason"]


# --- kernels that end ---


@pytest.mark.parametrize(
    "code, status, exit_code, reason",
    [
        ("import os; os._exit(0)", "error", None, "it ended with code 0"),
        ("import os; os._exit(5)", "error", 5, "it ended with code 5"),
        ("import os; os.kill(os.getpid(), 9)", "killed", None, "it was ended by signal 9"),
        ("import os; os.abort()", "killed", None, "it was ended by signal 6"),
        ("import ctypes; ctypes.string_at(0)", "killed", None, "it was ended by signal 11"),
        ("import os; os.execv('/bin/true', ['true'])", "error", None, "it ended with code 0"),
        ("import os, threading; threading.Thread(target=os._exit, args=(6,)).start()\nwhile True: pass", "error", 6, "it ended with code 6"),
    ],
)
def test_ends(runtime, code, status, exit_code, reason):
    runtime.ok("x = 1")
    done = runtime.run(code)
    assert (done.status, done.exitCode, done.ended) == (status, exit_code, reason), done
    assert done.error["name"] == "KernelEnded"
    assert lost(runtime) == reason


@pytest.mark.parametrize(
    "code, status, exit_code, said",
    [
        ("exit()", "ok", 0, b""),
        ("quit()", "ok", 0, b""),
        ("import sys; sys.exit(3)", "error", 3, b""),
        ("raise SystemExit('told')", "error", 1, b"told\n"),
        ("def f(): raise SystemExit(256 + 7)\nf()", "error", 7, b""),
        ("import asyncio\nasync def f(): exit(4)\nawait f()", "error", 4, b""),
        ("import asyncio\nasync def f(): exit(5)\nasyncio.create_task(f())\nawait asyncio.sleep(0.1)", "error", 5, b""),
        ("import asyncio\nasync def f(): exit(6)\nasyncio.run(f())", "error", 6, b""),
        ("class R:\n    def __repr__(self): exit(8)\nR()", "error", 8, b""),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\nexit(9)", "error", 9, b""),
    ],
)
def test_exit_ends_the_execution_and_keeps_the_kernel(runtime, code, status, exit_code, said):
    runtime.ok("x = 1")
    done = runtime.run(code)
    assert (done.status, done.exitCode, done.ended, done.error, done.stderr) == (status, exit_code, None, None, said), done
    assert runtime.ok("x").text == "1"


def test_a_kernel_that_dies_between_executions(runtime):
    pid = int(runtime.ok("import os, threading\ngate = os.pipe()\ndef wait():\n    os.read(gate[0], 1)\n    os.kill(os.getpid(), 11)\nthreading.Thread(target=wait).start()\nos.getpid()").text)
    end(pid)
    # Its first thread may be dead before the others are: the runtime knows once nothing is left of it.
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the kernel's end")
    assert lost(runtime) == "it was ended by signal 9"


# --- forks ---


def test_a_child_that_comes_out_of_the_code_is_no_kernel(runtime):
    done = runtime.ok("import os\npid = os.fork()\nif pid == 0: print('child')\nelse: os.waitpid(pid, 0)\n'both'")
    assert done.text == "'both'" and done.stdout == b"child\n"
    failed = runtime.ok("pid = os.fork()\nif pid == 0: 1/0\nos.waitpid(pid, 0)[1] >> 8")
    assert failed.text == "1" and b"ZeroDivisionError" in failed.stderr
    left = runtime.ok("pid = os.fork()\nif pid == 0: exit(9)\nos.waitpid(pid, 0)[1] >> 8")
    assert left.text == "9"
    assert runtime.ok("import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as pool: found = pool.map(abs, [-1, -2])\nfound").text == "[1, 2]"
    assert runtime.ok("'still'").state["was"] == "kept"


# --- what the kernel needs, broken ---


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout = None",
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import sys; del sys.stdout, sys.stderr, sys.__stdout__, sys.stdin",
        "import os; os.close(0); os.close(1); os.close(2)",
        "import os; os.closerange(0, 3); a = os.open('/dev/null', 0)",
        "import sys\nclass Bad:\n    closed = False\n    def write(self, text): raise OSError\n    def flush(self): raise OSError\nkeep = sys.stdout\nsys.stdout = Bad()\ntry: print(1)\nexcept OSError: pass\nsys.stdout = keep",
        "import builtins; builtins.__dict__.clear()",
        "import builtins; del builtins.print, builtins.len, builtins.__build_class__",
        "import sys; sys.modules.clear()",
        "import sys; sys.path.clear(); sys.meta_path.clear()",
        "import json, traceback, ast, struct\njson.dumps = json.JSONEncoder.encode = traceback.format_exception = ast.parse = None",
        "import sys; sys.setrecursionlimit(60)",
        "import sys; sys.settrace(lambda *a: None)",
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
        "import linecache; linecache.cache = None",
        "globals().clear()",
        "__builtins__ = {}",
        "import sys; sys.modules['__main__'] = None",
        "import os; os.environ.clear()",
        "import os, shutil; os.mkdir('d'); os.chdir('d'); os.rmdir('../d')",
        "import asyncio\nloop = asyncio.new_event_loop()\nasyncio.set_event_loop(loop)\nloop.close()",
    ],
)
def test_broken_by_accident_and_works_again(runtime, code):
    runtime.ok("kept = 1")
    runtime.run(code)
    again = runtime.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n5")
    if again.state["was"] == "kept":
        assert (again.status, again.text, again.stdout, again.stderr) == ("ok", "5", b"out\n", b"err\n"), again
    else:
        assert again.state["was"] == "lost" and again.status == "ok", again
    assert runtime.run("1/0").error["name"] == "ZeroDivisionError"
    late = runtime.run("while True: pass", timeoutMs=300)
    assert late.status == "timeout" and late.error["name"] == "KeyboardInterrupt", late
    assert runtime.ok("6").state["was"] == "kept"


def test_exceptions_that_raise_when_they_are_looked_at(runtime):
    done = runtime.run("class E(Exception):\n    def __str__(self): raise ValueError\n    __repr__ = __str__\nraise E")
    assert done.status == "error" and done.error["name"] == "E"
    done = runtime.run("class M(type):\n    def __repr__(self): raise ValueError\n    __name__ = property(lambda self: 1/0)\nclass F(Exception, metaclass=M): pass\nraise F('x')")
    assert done.status == "error" and done.error["name"] == "F"
    done = runtime.run("raise BaseException('b')")
    assert done.error["name"] == "BaseException"
    long = runtime.run("raise ValueError('x' * 10**7 + '\\n' * 10**5)")
    assert len(long.error["value"]) <= 65536 and sum(map(len, long.error["traceback"])) <= 65536 and len(long.error["traceback"]) <= 400
    deep = runtime.run("def f(): f()\nf()")
    assert deep.error["name"] == "RecursionError" and len(deep.error["traceback"]) < 400
    parsed = runtime.run("(" * 5000)
    assert parsed.status in ("error", "memory")
    assert runtime.ok("'ok'").state["was"] == "kept"


def test_values_that_raise_when_they_are_looked_at(runtime):
    done = runtime.run("class R:\n    def __repr__(self): raise ValueError('in repr')\nR()")
    assert done.status == "error" and done.error["value"] == "in repr" and done.value is None
    done = runtime.run("class N:\n    def __repr__(self): return 5\nN()")
    assert done.error["name"] == "TypeError"
    done = runtime.run("class D:\n    def __del__(self): raise ValueError('in del')\nD(); import gc; gc.collect(); None")
    assert done.status == "ok" and b"in del" in done.stderr
    done = runtime.run("class S(str):\n    def encode(self, *a): raise ValueError\nclass T:\n    def __repr__(self): return S('text')\nT()")
    assert done.text == "text"
    done = runtime.run("class L:\n    def __repr__(self):\n        while True: pass\nL()", timeoutMs=300)
    assert done.status == "timeout"
    assert runtime.ok("from unittest.mock import MagicMock\nMagicMock(name='m')").value["type"] == "MagicMock"
    assert runtime.ok("'ok'").state["was"] == "kept"


def test_classes_that_cannot_be_hashed_are_shown(runtime):
    code = "class Kind(type):\n    def __eq__(self, other): return self is other\nclass Thing(metaclass=Kind):\n    def __repr__(self): return 'a thing'\nThing()"
    assert runtime.ok(code).text == "a thing"
    assert runtime.ok("Thing._repr_html_ = lambda self: '<b>'\ndisplay(Thing())").displays


# --- kernels that lie ---


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 8,
        b"x" * 4096,
        pack({"type": "nothing"}),
        pack({"type": "ready", "python": "9.9.9"}),
        pack({"type": "prepared", "missing": []}),
        pack({"type": "begun", "n": 1}),
        pack({"type": "begun", "n": 99}),
        pack({"type": "begun", "n": 10**30}),
        pack({"type": "display", "n": 99, "main": False, "parts": [{"type": "a/b", "bytes": 1}]}, b"x"),
        pack({"type": "display", "n": 1, "main": False, "parts": []}),
        pack({"type": "display", "n": 1, "main": False, "parts": [{"type": "a/b", "bytes": 5}]}, b"x"),
        pack({"type": "display", "n": 1, "main": False, "parts": [{"type": "../x", "bytes": 1}]}, b"x"),
        pack({"type": "done", "n": 2, "outcome": "ok", "code": 0, "value": None, "error": None}),
        pack({"type": "done", "n": 1, "outcome": "ok", "code": 0, "value": None, "error": {"name": "E", "value": "", "traceback": []}}),
        pack({"type": "done", "n": 1, "outcome": "ok", "code": 0, "value": {"type": "x", "text": "y" * 70000, "truncated": False}, "error": None}),
        pack({"type": "done", "n": 1, "outcome": "fine", "code": 0, "value": None, "error": None}),
        # Just short enough to be read, and too long to be told again.
        pack({"type": "done", "n": 1, "outcome": "error", "code": 0, "value": {"type": "x", "text": "\1" * 65536, "truncated": False},
              "error": {"name": "E", "value": "\1" * 65536, "traceback": ["\1" * 43650]}}),
        b"[" * 2000000,
        struct.pack(">II", 100000, 0) + b"[" * 100000,
    ],
)  # fmt: skip
def test_lies_are_killed(runtime, data):
    (runtime.folder / "lie").write_bytes(data)
    done = runtime.run("import os, time\ndata = open('lie', 'rb').read()\nwhile data: data = data[os.write(3, data):]\ntime.sleep(1000)", timeoutMs=60000)
    assert done.status == "killed" or (done.status == "error" and done.error["name"] == "BrokenPipeError"), done
    assert "did not keep to its protocol" in lost(runtime)


def test_half_a_lie_is_waited_for_no_longer_than_the_deadline(runtime):
    runtime.run("import os, time")  # the deadline is that of the lie, not of Python's start
    done = runtime.run("os.write(3, b'\\0\\0\\0\\x50\\0\\0')\ntime.sleep(1000)", timeoutMs=2000)
    assert done.status in ("timeout", "killed")
    lost(runtime)


def test_success_that_is_a_lie_harms_only_itself(runtime):
    word = pack({"type": "done", "n": 1, "outcome": "ok", "code": 0, "value": None, "error": None})
    (runtime.folder / "lie").write_bytes(word)
    done = runtime.run("import os, time\nos.write(3, open('lie', 'rb').read())\nopen('more', 'w').close()\ntime.sleep(1000)")
    assert done.status == "ok"  # it said so itself, in its own name
    second = runtime.run("2", timeoutMs=500)
    assert second.status == "timeout" and second.value is None
    lost(runtime)


def test_a_socket_that_is_closed(runtime):
    done = runtime.run("import os, time\nos.close(3)\ntime.sleep(1000)")
    assert (done.status, done.ended) == ("killed", "it closed its socket to the runtime")
    lost(runtime)


def test_children_do_not_have_the_socket(runtime):
    assert runtime.ok("import os; os.popen('ls /proc/self/fd').read().split()").text == "['0', '1', '2', '3']"  # 3 is ls's own
    assert "socket" not in runtime.ok("os.popen('ls -l /proc/self/fd').read()").text
    assert "socket" not in runtime.sh("ls -l /proc/self/fd").stdout.decode()


def test_a_flood_of_displays_is_bounded_and_counted(runtime):
    done = runtime.ok("for i in range(1000): display(i)")
    assert len(done.displays) == 64 and done.displaysDropped == 936
    done = runtime.ok("class Big:\n    def _repr_png_(self): return b'x' * (7 << 20)\nfor i in range(10): display(Big())")
    assert len(done.displays) == 2 and done.displaysDropped == 8
    done = runtime.ok("class Huge:\n    def _repr_png_(self): return b'x' * (17 << 20)\nHuge()")
    assert [list(shown["mime"]) for shown in done.displays] == [["text/plain"]] and b"left out" in done.stderr


# --- the runtime itself ---


def test_signals_to_the_runtime_do_nothing(runtime):
    done = runtime.ok("import os\nfor number in (1, 2, 3, 10, 12, 13, 14, 15, 17, 18, 20, 21, 22, 34, 64): os.kill(os.getppid(), number)\n'sent'")
    assert done.text == "'sent'"
    assert runtime.ok("1").state["was"] == "kept"


def test_the_runtime_is_not_to_be_looked_into(program, tmp_path):
    if os.geteuid() != 0:
        command = []
    else:
        tmp_path.chmod(0o777)
        for parent in tmp_path.parents:
            if not parent.stat().st_mode & 0o001:  # pytest's own folders: all above them are everybody's
                parent.chmod(0o755)
        copy = tmp_path / "berth-runtime"
        copy.write_bytes(program.read_bytes())
        copy.chmod(0o755)
        program, command = copy, ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    with Runtime(program, command=command, folder=tmp_path, env={"SECRET": "x"}) as runtime:
        found = runtime.ok(
            "import os\nfound = {}\nfor name in ('environ', 'fd', 'mem', 'maps', 'cwd', 'root', 'exe', 'map_files'):\n    path = f'/proc/{os.getppid()}/{name}'\n"
            "    for look in (os.listdir, os.readlink, lambda p: open(p, 'rb').read(10)):\n        try: found[name] = look(path)\n        except OSError: pass\nfound"
        )
        assert found.text == "{}"


def test_the_end_of_the_caller_is_the_end_of_everything(program):
    with Runtime(program) as runtime:
        pids = [int(runtime.ok("import subprocess, os; subprocess.Popen(['setsid', 'sleep', '1000']).pid").text), int(runtime.ok("import os; os.getpid()", context="two").text)]
        runtime.start("import time; time.sleep(1000)")
        assert runtime.close() == 0
        wait_until(lambda: not any(map(is_alive, pids)), "the end of all")
