# SPDX-License-Identifier: Apache-2.0
"""Interrupts, deadlines, limits of memory, and processes that executions leave behind."""

import shlex

import pytest

from runtime_client import Runtime, end, is_alive, wait_until


def interrupt(runtime, running):
    """Once the code has printed something."""
    runtime.finish(running, until=lambda result: result.stdout)
    runtime.send({"type": "interrupt", "n": running.n})
    return runtime.finish(running)


# --- interrupts ---


@pytest.mark.parametrize(
    "code",
    [
        "import time\nprint('go')\ntime.sleep(1000)",
        "print('go')\nwhile True: pass",
        "import subprocess\nprint('go')\nsubprocess.run(['sleep', '1000'])",
        "import os\nprint('go')\nos.system('sleep 1000')",
        "import asyncio\nprint('go')\nawait asyncio.sleep(1000)",
        "import asyncio\nprint('go')\nasyncio.run(asyncio.sleep(1000))",
        "import threading\nprint('go')\nthreading.Event().wait()",
        "import threading, time\nt = threading.Thread(target=time.sleep, args=(1000,), daemon=True)\nt.start()\nprint('go')\nt.join()",
        "import sys\nprint('go')\nwhile True: display(1)",
        "print('go')\nwhile True: print('x' * 1000)",
        "class L:\n    def __repr__(self):\n        print('go')\n        while True: pass\nL()",
        "import os\nprint('go')\nos.read(os.pipe()[0], 1)",
    ],
)
def test_an_interrupt_ends_the_code_and_keeps_the_kernel(runtime, code):
    runtime.ok("kept = 1")
    done = interrupt(runtime, runtime.start(code))
    assert done.status == "interrupted" and done.exitCode is None and done.ended is None, done
    again = runtime.ok("kept")
    assert again.text == "1" and again.state["was"] == "kept"


def test_the_code_may_clean_up(runtime):
    done = interrupt(runtime, runtime.start("import time\ntry:\n    print('go')\n    time.sleep(1000)\nfinally:\n    time.sleep(0.2)\n    print('cleaned')"))
    assert done.stdout == b"go\ncleaned\n" and done.error["name"] == "KeyboardInterrupt"
    assert "kernel" not in "".join(done.error["traceback"])


def test_an_interrupt_before_the_kernel_is_there_is_not_lost(runtime):
    running = runtime.start("import time; time.sleep(1000)")
    runtime.send({"type": "interrupt", "n": running.n})
    done = runtime.finish(running)
    assert done.status == "interrupted"


@pytest.mark.parametrize(
    "code",
    [
        "import time\nwhile True:\n    try:\n        print('go')\n        time.sleep(1000)\n    except BaseException: pass",
        "import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 1; echo go'])\nsum(range(10**13))",
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('go')\nwhile True: pass",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\nprint('go')\nwhile True: pass",
        "import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('go')\nos.kill(os.getpid(), signal.SIGSTOP)",
        "import subprocess, time\nprocess = subprocess.Popen(['setsid', 'sleep', '1000'])\nopen('pid', 'w').write(str(process.pid))\nwhile True:\n    try:\n        print('go')\n        time.sleep(1000)\n    except BaseException: pass",
    ],
)
def test_what_does_not_stop_is_killed_whole(runtime, code):
    done = interrupt(runtime, runtime.start(code))
    assert done.status == "interrupted" and done.exitCode is None and done.left == 0
    assert done.ended == "it was killed: it did not stop when it was interrupted"
    pid = runtime.folder / "pid"
    assert not pid.exists() or not is_alive(int(pid.read_text()))
    again = runtime.ok("1")
    assert again.state == {"generation": 2, "was": "lost", "reason": done.ended}


def test_processes_that_run_away_are_killed_with_it(runtime):
    running = runtime.start(
        "import os, time\nfor i in range(5):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n"
        "            open(f'new{i}', 'w').write(str(os.getpid()))\n            os.rename(f'new{i}', f'pid{i}')\n            while True:\n                try: time.sleep(1000)\n                except BaseException: pass\n        os._exit(0)\n"
        "for i in range(5): os.wait()\nwhile len(os.listdir()) < 5: time.sleep(0.01)\nwhile True:\n    try:\n        print('go')\n        time.sleep(1000)\n    except BaseException: pass"
    )
    done = interrupt(runtime, running)
    assert done.status == "interrupted" and done.ended
    pids = [int(path.read_text()) for path in runtime.folder.glob("pid*")]
    assert len(pids) == 5 and not any(map(is_alive, pids))


# --- left behind ---


def test_a_kernel_that_was_prepared_meanwhile_is_not_killed_with_it(runtime):
    running = runtime.start("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('go')\nwhile True: pass")
    runtime.finish(running, until=lambda result: result.stdout)
    runtime.send({"type": "prepare", "context": "other"})
    runtime.finish(running, until=lambda result: result.order[-1] != "output")
    runtime.send({"type": "interrupt", "n": running.n})
    assert runtime.finish(running).ended
    assert runtime.ok("1", context="other").state["was"] == "new"


@pytest.mark.parametrize("language, start", [("python", "import subprocess\nsubprocess.Popen({}).pid"), ("sh", "{} & echo $!")])
def test_what_is_left_behind_lives_on(runtime, language, start):
    noise = ["sh", "-c", "while :; do echo noise || exit 1; sleep 0.05; done"]
    code = start.format(noise if language == "python" else shlex.join(noise))
    done = runtime.ok(code, language=language)
    pid = int(done.text if language == "python" else done.stdout.replace(b"noise", b"").split()[0])
    assert done.left >= 1
    for _ in range(3):
        assert b"noise" not in runtime.sh("sleep 0.1; echo mine").stdout
        assert b"noise" not in runtime.ok("print('mine')").stdout
    # Neither an interrupt, nor a deadline, nor the kernel's end touches it.
    assert interrupt(runtime, runtime.start("import time\nwhile True:\n    try:\n        print('go')\n        time.sleep(1000)\n    except BaseException: pass")).ended
    assert runtime.run("while True: pass", timeoutMs=300).status == "timeout"
    assert runtime.sh("sleep 1000", timeoutMs=300).status == "timeout"
    runtime.run("import os; os._exit(0)")
    runtime.send({"type": "restart", "context": "main"})
    runtime.read()
    assert is_alive(pid)
    runtime.send({"type": "status"})
    assert runtime.read()[0]["left"] >= 1
    runtime.sh(f"kill -9 {pid}")
    wait_until(lambda: not is_alive(pid), "the end of what was left behind")


def test_a_server_that_was_left_behind_serves(runtime):
    runtime.ok("import subprocess, sys\nserver = subprocess.Popen([sys.executable, '-u', '-c', 'import http.server as h; s = h.HTTPServer((\"127.0.0.1\", 0), h.SimpleHTTPRequestHandler); open(\"port\", \"w\").write(str(s.server_port)); s.serve_forever()'])")
    wait_until(lambda: (runtime.folder / "port").exists() and (runtime.folder / "port").read_text(), "the server")
    for _ in range(2):  # each request is a line in its log
        assert runtime.ok("import urllib.request\nurllib.request.urlopen('http://127.0.0.1:' + open('port').read()).status").text == "200"
    runtime.ok("server.kill(); server.wait()")


def test_the_end_of_a_shell_is_not_the_end_of_what_it_started(runtime):
    done = runtime.sh("sleep 1000 & echo $!; exit 0")
    pid = int(done.stdout)
    assert done.status == "ok" and is_alive(pid) and done.left == 1
    end(pid)
    wait_until(lambda: not is_alive(pid), "its end")
    assert runtime.sh("true").left == 0


def test_what_is_left_is_counted_also_where_nothing_begins(program):
    """In a PID namespace of its own, as in a sandbox: the runtime sees there that no process has begun since it looked, and looks less."""
    alone = Runtime(program, command="bwrap --unshare-all --die-with-parent --bind / / --dev /dev --proc /proc --".split())
    try:
        alone.ok("import subprocess\nsleeping = []")
        assert [alone.ok("1+1").left for _ in range(4)] == [0] * 4
        assert alone.ok("sleeping += [subprocess.Popen(['sleep', '1000']) for _ in range(2)]").left == 2
        assert [alone.ok("1+1").left for _ in range(4)] == [2] * 4
        assert alone.ok("sleeping[0].kill(); sleeping[0].wait()").left == 1
        assert [alone.ok("1+1").left for _ in range(4)] == [1] * 4
        assert alone.sh("sleep 1000 > /dev/null 2>&1 &").left == 2
        assert [alone.ok("1+1").left for _ in range(4)] == [2] * 4
        assert alone.ok("import os, signal\nos.kill(sleeping[1].pid, signal.SIGKILL)\nsleeping[1].wait()").left == 1
        late = alone.run("import time\ntry: time.sleep(1000)\nexcept KeyboardInterrupt: time.sleep(1000)", timeoutMs=300)
        assert late.status == "timeout" and alone.sh("true").left == 1, "what was left behind before is not killed with it"
    finally:
        alone.close()


def test_many_left_behind_do_not_use_up_descriptors(runtime):
    pids = []
    for _ in range(140):
        pids.append(int(runtime.sh("sleep 1000 & echo $!").stdout))
    assert runtime.sh("echo still").stdout == b"still\n" and runtime.ok("1").text == "1"
    assert all(map(is_alive, pids))


# --- memory ---


def test_more_memory_than_there_is(program):
    if b"libasan" in program.read_bytes() or b"libtsan" in program.read_bytes():
        pytest.skip("a sanitizer cannot live with a limit on its own data")
    with Runtime(program, "--memory", 512 << 20) as runtime:
        runtime.ok("kept = 1")
        done = runtime.run("x = bytearray(1 << 30)")
        assert done.status == "memory" and done.exitCode is None and done.error["name"] == "MemoryError"
        assert runtime.ok("kept").state["was"] == "kept"
        grown = runtime.run("x = []\nwhile True: x.append(bytearray(1 << 20))")
        assert grown.status in ("memory", "killed", "error")
        assert runtime.ok("'again'").text == "'again'"
        assert runtime.ok("import resource; resource.getrlimit(resource.RLIMIT_DATA)[0]").text == str(512 << 20)
        assert runtime.sh("ulimit -d").stdout == b"524288\n"
