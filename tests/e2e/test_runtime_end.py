# SPDX-License-Identifier: Apache-2.0
"""The end of kernels: what Python does at its end happens, and it has a bound."""

import gzip
import io
import zipfile

import pytest

# What is in the file afterwards, by what was left open there.
LEFT_OPEN = {
    "text": ("f = open('text', 'w'); f.write('hello')", b"hello"),
    "bytes": ("f = open('bytes', 'wb'); f.write(b'hello')", b"hello"),
    "both": ("f = open('both', 'w+b'); f.write(b'hello')", b"hello"),
    "csv": ("import csv\nw = csv.writer(open('csv', 'w', newline=''))\nw.writerow(['a', 'b'])", b"a,b\r\n"),
    "gzip": ("import gzip\nf = gzip.open('gzip', 'wt'); f.write('hello')", b"hello"),
    "zip": ("import zipfile\nz = zipfile.ZipFile('zip', 'w'); z.writestr('name', 'hello')", b"hello"),
    "held": ("class C:\n    def __init__(self): self.f = open('held', 'w'); self.f.write('hello'); self.me = self\nheld = [C()]\nNone", b"hello"),
    "deleted": ("class D:\n    def __del__(self): open('deleted', 'w').write('hello')\nd = D()", b"hello"),
    "atexit": ("import atexit\natexit.register(lambda: open('atexit', 'w').write('hello'))\nNone", b"hello"),
    "logging": ("import logging, logging.handlers\nl = logging.getLogger('l'); l.addHandler(logging.handlers.MemoryHandler(99, target=logging.FileHandler('logging')))\n"
                "l.warning('hello')", b"hello\n"),
    "thread": ("import threading, time\ndef f():\n    time.sleep(0.2); open('thread', 'w').write('hello')\nthreading.Thread(target=f).start()", b"hello"),
    "executor": ("import concurrent.futures\npool = concurrent.futures.ThreadPoolExecutor(2)\npool.submit(open('executor', 'w').write, 'hello')\nNone", b"hello"),
    "task": ("import asyncio\nasync def g():\n    try: await asyncio.sleep(1000)\n    finally: open('task', 'w').write('hello')\nt = asyncio.create_task(g())\nawait asyncio.sleep(0)", b"hello"),
}  # fmt: skip


def content(path, name):
    data = path.read_bytes()
    if name == "gzip":
        return gzip.decompress(data)
    return zipfile.ZipFile(io.BytesIO(data)).read("name") if name == "zip" else data


def by_closing(runtime):
    assert runtime.close() == 0


def by_request(runtime):
    runtime.send({"type": "end"})
    assert runtime.process.wait() == 0


def by_restart(runtime):
    runtime.send({"type": "restart", "context": "main"})
    assert runtime.read()[0]["type"] == "restarted"


@pytest.mark.parametrize("name", ["text", "bytes", "both", "csv", "held"])
def test_files_have_what_an_execution_wrote_when_it_has_ended(runtime, name):
    code, expected = LEFT_OPEN[name]
    runtime.ok(code)
    assert (runtime.folder / name).read_bytes() == expected
    code = code.replace(f"'{name}'", "'again'") + "\nraise ValueError"
    assert runtime.run(code).status == "error" and (runtime.folder / "again").read_bytes() == expected


def test_what_is_no_open_file_of_the_sessions_is_not_touched_by_it(runtime):
    """Closed ones, detached ones, files of classes of its own, and pipes that nothing reads."""
    runtime.ok("f = open('closed', 'w'); f.close()\ng = open('detached', 'w'); g.detach()\nkept = open('open', 'w')")
    runtime.ok("import io\nclass Own(io.TextIOWrapper):\n    def flush(self): open('called', 'w')\no = Own(io.BufferedWriter(io.FileIO('own', 'w')))\no.write('hello');")
    runtime.ok("import os\nr, w = os.pipe(); os.set_blocking(w, False)\ntry:\n    while True: os.write(w, b'x' * 4096)\nexcept BlockingIOError: os.set_blocking(w, True)\n"
               "p = os.fdopen(w, 'w'); p.write('more');")
    assert runtime.ok("kept.write('hello')").text == "5" and (runtime.folder / "open").read_bytes() == b"hello"
    assert not (runtime.folder / "called").exists()
    runtime.ok("os.set_blocking(w, False); os.read(r, 1 << 20);")


@pytest.mark.parametrize("end", [by_closing, by_request, by_restart])
def test_what_was_left_open(program, tmp_path, end):
    from runtime_client import Runtime

    with Runtime(program, folder=tmp_path) as runtime:
        for code, _ in LEFT_OPEN.values():
            runtime.ok(code)
        end(runtime)
        assert {name: content(tmp_path / name, name) for name in LEFT_OPEN} == {name: found for name, (_, found) in LEFT_OPEN.items()}


@pytest.mark.parametrize(
    "code",
    [
        "import threading\nthreading.Thread(target=threading.Event().wait).start()",
        "import threading\nts = [threading.Thread(target=threading.Event().wait) for _ in range(9)]; [t.start() for t in ts];",
        "import atexit, time\natexit.register(time.sleep, 1000)\nNone",
        "class D:\n    def __del__(self):\n        while True: pass\nd = D()",
        "import asyncio\nasync def g():\n    while True:\n        try: await asyncio.sleep(1000)\n        except BaseException: pass\nt = asyncio.create_task(g())\nawait asyncio.sleep(0)",
    ],
)
def test_what_hinders_the_end(program, tmp_path, code):
    """Files that are left open are flushed all the same."""
    from runtime_client import Runtime

    with Runtime(program, folder=tmp_path) as runtime:
        runtime.ok("f = open('text', 'w'); f.write('hello')")
        runtime.ok(code)
        by_closing(runtime)
        assert (tmp_path / "text").read_bytes() == b"hello"


# The first task gets the interrupt of the end, and the second one blocks behind it.
BLOCKING_BEHIND = """
import asyncio, select, signal, time
async def first():
    poll = select.poll()
    poll.register(3, select.POLLRDHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    poll.poll()
    while signal.SIGINT not in signal.sigpending(): pass
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
async def second():
    open('ran', 'w')
    time.sleep(1000)
f = open('text', 'w'); f.write('hello')
tasks = asyncio.create_task(first()), asyncio.create_task(second())
"""


def test_a_task_that_blocks_at_the_end(program, tmp_path):
    """A task that has not begun when the interrupt comes does not begin."""
    from runtime_client import Runtime

    with Runtime(program, folder=tmp_path) as runtime:
        runtime.ok(BLOCKING_BEHIND)
        by_closing(runtime)
        assert (tmp_path / "text").read_bytes() == b"hello" and not (tmp_path / "ran").exists()


def test_code_that_runs_is_interrupted_first(program, tmp_path):
    from runtime_client import Runtime

    with Runtime(program, folder=tmp_path) as runtime:
        result = runtime.start("f = open('text', 'w'); f.write('hello')\nprint('go')\nwhile True: pass")
        runtime.finish(result, until=lambda r: b"go" in r.stdout)
        by_restart_of_a_running(runtime, result)
        assert (tmp_path / "text").read_bytes() == b"hello"
        # One that does not mind is killed.
        result = runtime.start("print('go')\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass")
        runtime.finish(result, until=lambda r: b"go" in r.stdout)
        by_restart_of_a_running(runtime, result)
        assert runtime.ok("1").state["reason"] == "it was restarted by request"


def by_restart_of_a_running(runtime, result):
    runtime.send({"type": "restart", "context": "main"})
    runtime.finish(result)
    assert result.status == "killed" and {"type": "restarted", "context": "main"} in result.order + [runtime.read()[0]]
