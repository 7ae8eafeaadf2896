# SPDX-License-Identifier: Apache-2.0
"""What holds from one execution to the next, what goes on between them, and how output is put together."""

import time

import pytest
from runtime_client import PATIENCE

# --- context variables ---


@pytest.mark.parametrize(
    "cells, text",
    [
        (["import asyncio, decimal\nawait asyncio.sleep(0); decimal.getcontext().prec = 5\nNone", "decimal.Decimal(1) / 3"], "Decimal('0.33333')"),
        (["import asyncio, decimal\nawait asyncio.sleep(0); decimal.getcontext().prec = 5\ndecimal.Decimal(1) / 3"], "Decimal('0.33333')"),
        (["import decimal\ndecimal.getcontext().prec = 5", "import asyncio", "await asyncio.sleep(0, decimal.Decimal(1) / 3)"], "Decimal('0.33333')"),
        (["import contextvars\nv = contextvars.ContextVar('v')\nasync def f(): v.set(7)", "await f()", "v.get()"], "7"),
        (["import contextvars\nv = contextvars.ContextVar('v', default=1)\nasync def f(): return v.set(7)", "t = await f()", "v.reset(t)", "v.get()"], "1"),
        (["import contextvars\nv = contextvars.ContextVar('v', default=1)\nt = v.set(7)", "async def f(): v.reset(t)\nawait f()", "v.get()"], "1"),
        (["import asyncio, contextvars\nv = contextvars.ContextVar('v', default=1)", "async def f(): await asyncio.sleep(0.01); v.set(7); await asyncio.sleep(0.01)",
          "await f()", "v.get()"], "7"),
        (["import asyncio, contextvars\nv = contextvars.ContextVar('v', default=1)", "async def f(): v.set(7)", "await asyncio.create_task(f())", "v.get()"], "1"),
        (["import contextvars\nv = contextvars.ContextVar('v', default=1)\nclass R:\n    def __repr__(self): return str(v.get())", "v.set(3)", "R()"], "3"),
    ],
)  # fmt: skip
def test_context_variables_hold(runtime, cells, text):
    for cell in cells:
        done = runtime.ok(cell)
    assert done.text == text


def test_code_that_code_runs(runtime):
    """It is in the same context; in a thread and in a coroutine, too."""
    runtime.ok("import contextvars, threading\nv = contextvars.ContextVar('v', default=1)\nshell = get_ipython()")
    runtime.ok("shell.run_cell('v.set(5)')\nassert v.get() == 5\nasync def f(): shell.run_cell('v.set(6)')\nawait f()")
    assert runtime.ok("t = threading.Thread(target=shell.run_cell, args=('w = 7',)); t.start(); t.join(); v.get(), w").text == "(6, 7)"


# --- tasks ---


def test_tasks_go_on_between_executions(runtime):
    """Made without `await`, by each way that finds the kernel's loop; while nothing runs, and while another execution waits."""
    runtime.ok("import asyncio, os\nasync def tick(name):\n    for i in range(3):\n        await asyncio.sleep(0.02)\n    open(name, 'w').close()")
    runtime.ok("t = asyncio.create_task(tick('a'), name='mine')\nassert t.get_name() == 'mine'\nNone")
    runtime.ok("asyncio.get_event_loop().create_task(tick('b')); asyncio.ensure_future(tick('c')); asyncio.gather(tick('d'));")
    runtime.ok("async def f():\n    asyncio.create_task(tick('e'))\nawait f()")
    until = time.monotonic() + PATIENCE
    while not all((runtime.folder / name).exists() for name in "abcde"):
        assert time.monotonic() < until
        time.sleep(0.01)
    assert runtime.ok("t.done()").text == "True"
    assert runtime.ok("t = asyncio.create_task(asyncio.sleep(0, 5))\nawait t").text == "5"
    # What makes a loop of its own may do so, before and after.
    assert runtime.ok("async def g(): return 6\nasyncio.run(g())").text == "6"
    assert runtime.ok("asyncio.run(g()); t = asyncio.create_task(g())\nNone") and runtime.ok("await t").text == "6"
    with pytest.raises(AssertionError, match="no running event loop"):
        runtime.ok("import threading\nfound = []\ndef h():\n    c = g()\n    try: asyncio.create_task(c)\n    except RuntimeError as e: found.append(str(e)); c.close()\n"
                   "x = threading.Thread(target=h); x.start(); x.join()\nraise ValueError(found[0])")  # fmt: skip


def test_what_tasks_wait_for_between_executions(runtime):
    """Descriptors and threads wake the loop, too; what ends a task does not end the kernel."""
    runtime.ok("import asyncio, os, threading\nends = os.pipe()\nloop = asyncio.get_event_loop()\ngate = threading.Event()")
    runtime.ok("loop.add_reader(ends[0], lambda: (os.read(ends[0], 1), open('read', 'w').close()))\nw = os.write(ends[1], b'x')")
    runtime.ok("async def f():\n    await asyncio.to_thread(gate.wait) if hasattr(asyncio, 'to_thread') else None\n    open('woken', 'w').close()\nt = asyncio.create_task(f())")
    runtime.ok("threading.Timer(0.05, gate.set).start()")
    runtime.ok("async def leave(): exit(3)\nt2 = asyncio.create_task(leave())\nasync def fail(): raise ValueError('never retrieved')\nasyncio.create_task(fail());")
    until = time.monotonic() + PATIENCE
    while not all((runtime.folder / name).exists() for name in ("read", "woken")):
        assert time.monotonic() < until
        time.sleep(0.01)
    said = runtime.ok("import gc; n = gc.collect()").stderr
    assert b"SystemExit" in said and b"Task exception was never retrieved" in said and b"ValueError: never retrieved" in said


@pytest.fixture(params=["while True: pass", "time.sleep(1000)"])
def blocked(program, request, tmp_path):
    """A task keeps its kernel from everything else, and a file is open."""
    from runtime_client import Runtime

    with Runtime(program, folder=tmp_path) as runtime:
        runtime.ok("import asyncio, time\nf = open('left', 'w'); f.write('hello')\nasync def blocks():\n    open('blocks', 'w').close()\n    %s" % request.param)
        runtime.ok("x = 'precious'\ntask = asyncio.create_task(blocks())\nNone")
        until = time.monotonic() + PATIENCE
        while not (runtime.folder / "blocks").exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        yield runtime


def test_a_task_that_blocks_and_an_execution(blocked):
    """It is stopped at the deadline of the execution that waits, or with that one, and costs no variable."""
    waits = blocked.run("x", timeoutMs=300)
    assert (waits.status, waits.done["ended"]) == ("timeout", None)
    done = blocked.ok("x")
    assert (done.text, done.state["was"]) == ("'precious'", "kept")


def test_a_task_that_blocks_and_a_checkpoint(blocked, program):
    from runtime_client import Runtime

    said, file = blocked.checkpoint(max_ms=4000)
    assert said["contexts"][0]["reason"] is None, said
    with Runtime(program) as other:
        other.restore(file)
        assert other.ok("x").text == "'precious'"


def test_a_task_that_blocks_and_the_end(blocked):
    assert blocked.close() == 0
    assert (blocked.folder / "left").read_bytes() == b"hello"


# --- output that comes late ---


def test_late_output_is_told_with_the_next_execution(runtime):
    runtime.ok("import threading, asyncio, sys, os\ngate = threading.Event()\ndef f():\n    gate.wait(); print('from a thread'); print('error', file=sys.stderr, end='', flush=True); open('done', 'w').close()\n"
               "threading.Thread(target=f).start()")  # fmt: skip
    runtime.ok("async def g(): print('from a task'); gate.set()\nasyncio.create_task(g());")
    until = time.monotonic() + PATIENCE
    while not (runtime.folder / "done").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert runtime.sh("echo mine").stderr == b""
    done = runtime.ok("print('mine')")
    assert done.stdout == b"mine\n"
    assert done.stderr.splitlines() == [
        b"berth: standard output after the end of execution 2:", b"from a task", b"from a thread",
        b"berth: standard error after the end of execution 2:", b"error",
    ]  # fmt: skip
    assert runtime.ok("print('mine')").stderr == b""


def test_late_output_has_a_bound(runtime):
    runtime.ok("import threading, os\ngate = threading.Event()\ndef f():\n    gate.wait()\n    for i in range(100): os.write(1, b'x' * 10000)\n    open('done', 'w').close()\n"
               "threading.Thread(target=f).start()\nimport asyncio\nasyncio.get_event_loop().call_later(0.05, gate.set)")  # fmt: skip
    until = time.monotonic() + PATIENCE
    while not (runtime.folder / "done").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    said = runtime.ok("1").stderr
    assert 32768 < len(said) < 33000 and said.endswith(b"berth: and 967232 bytes more\n"), said[-100:]


# --- lines ---


def pieces(runtime, code):
    """Each piece of output as it comes."""
    result, found = runtime.start(code), []
    while result.done is None:
        before = len(result.stdout)
        runtime.finish(result, until=lambda r: len(r.stdout) > before)
        if len(result.stdout) > before:
            found.append(result.stdout[before:])
    assert result.status == "ok", result
    return found


@pytest.mark.parametrize("env", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_lines_come_whole(program, env):
    from runtime_client import Runtime

    with Runtime(program, env=env) as runtime:
        told = pieces(runtime, "import time\nfor i in range(4): print('row', i, 'of', 4); time.sleep(0.02)")
        assert b"".join(told) == b"".join(b"row %d of 4\n" % i for i in range(4)) and all(piece.endswith(b"\n") for piece in told)
        told = pieces(runtime, "import json, pprint, sys, time\nfor i in range(3): json.dump(list(range(50)), sys.stdout); print(); time.sleep(0.02)")
        assert len(told) <= 3 and all(piece.endswith(b"]\n") for piece in told)
        lines = runtime.ok("import threading\ndef f(n):\n    for i in range(300): print('thread', n, 'line', i)\n"
                           "ts = [threading.Thread(target=f, args=(n,)) for n in range(4)]\n[t.start() for t in ts]; [t.join() for t in ts];").stdout.splitlines()  # fmt: skip
        assert sorted(lines) == sorted(b"thread %d line %d" % (n, i) for n in range(4) for i in range(300))
        # In the order of the code, whatever writes; and to the end, whatever ends it.
        ordered = "import os, subprocess, sys\nprint('a', end='')\nos.write(1, b'b')\nprint('c', end='')\nsubprocess.run(['printf', 'd'])\nprint('e', end='')\nos.system('printf f')\n"
        assert runtime.ok(ordered + "print('g', end='')\nif os.fork() == 0: os._exit(0)\nos.wait()\ndisplay(1)\nprint('h', end='')").stdout == b"abcdefgh"
        assert runtime.run("print('half', end='')\n1/0").stdout == b"half"
        assert runtime.run("print('half', end='')\nexit(1)").stdout == b"half"
        assert runtime.run("print('half', end='')\nwhile True: pass", timeoutMs=300).stdout == b"half"
        assert runtime.ok("sys.stdout.name, sys.stdout.mode, sys.stderr.name").text == "('<stdout>', 'w', '<stderr>')"


# --- code ---


def test_each_execution_warns_for_itself(runtime):
    for _ in range(2):
        assert runtime.ok("import warnings; warnings.warn('careful')").stderr.count(b"UserWarning: careful") == 1
    assert runtime.ok("for i in range(3): warnings.warn('once')").stderr.count(b"UserWarning: once") == 1
    assert runtime.ok("'__warningregistry__' in globals()").text == "False"


def test_code_with_a_byte_order_mark(runtime):
    assert runtime.ok("\ufeff1 + 1").text == "2"
    assert runtime.ok("\ufeffx = 3\nx").text == "3"


def test_very_many_frames(runtime):
    """What describes them cannot be interrupted, so it must not take long; both ends are told, and how many frames are not."""
    runtime.ok("import sys, threading\nsys.setrecursionlimit(300000)\ndef f(n):\n    if n == 0: 1/0\n    f(n - 1)")
    done = runtime.run("def g(): f(100000)\ng()") if runtime.ok("sys.version_info >= (3, 11)").text == "True" else runtime.run("def g(): f(3000)\ng()")
    assert done.error["name"] == "ZeroDivisionError", done
    text = "\n".join(done.error["traceback"])
    assert "in g" in text and "frames left out ..." in text and text.endswith("ZeroDivisionError: division by zero") and len(done.error["traceback"]) <= 400
    caused = runtime.run("try: f(2000)\nexcept ZeroDivisionError as e: raise KeyError('k') from e")
    assert caused.error["traceback"][-1] == "KeyError: 'k'" and "direct cause" in "\n".join(caused.error["traceback"])
