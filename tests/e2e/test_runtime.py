# SPDX-License-Identifier: Apache-2.0
"""
berth-runtime as whoever starts it sees it: code run by a kernel that keeps its variables, and an honest end whatever the code does
to its kernel. Not in a sandbox, so nothing here harms the machine where it succeeds.
"""

import os
import re
import struct
import subprocess
import time
from pathlib import Path

import pytest

from runtime_client import Ended, Result, Runtime, pack, wait_until

# --- the protocol ---


def test_it_says_what_it_is(runtime, program):
    assert runtime.hello == {"type": "hello", "protocol": 1, "version": runtime.hello["version"]}
    said = subprocess.run([program, "version"], capture_output=True, text=True, check=True).stdout
    assert said == f"berth-runtime {runtime.hello['version']}, protocol 1\n"


@pytest.mark.parametrize("arguments", [[], ["serv"], ["serve", "--memory"], ["serve", "--memory", "-1"], ["serve", "--memory", "x"], ["version", "x"]])
def test_wrong_arguments(program, arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 2 and done.stderr.startswith("usage:")


def test_it_is_small_and_static(program, tmp_path):
    """Under 1 MiB as it is shipped, without symbols: each function on AWS carries it. With sanitizers it cannot be static."""
    if b"libasan" in program.read_bytes() or b"libtsan" in program.read_bytes():
        pytest.skip("a build with sanitizers")
    shown = subprocess.run(["readelf", "--wide", "--program-headers", program], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in shown
    subprocess.run(["strip", "-o", tmp_path / "stripped", program], check=True, timeout=60)
    assert (tmp_path / "stripped").stat().st_size < 1 << 20


def test_requests_that_are_none_are_refused_and_nothing_else_happens(runtime):
    for head in (
        {"type": "nothing"}, {"type": 7}, {}, {"type": "execute"}, {"type": "execute", "n": 0}, {"type": "execute", "n": "1"},
        {"type": "execute", "n": 1, "language": "perl"}, {"type": "execute", "n": 1, "unknown": 1},
        {"type": "execute", "n": 1, "context": "../x"}, {"type": "execute", "n": 1, "context": "x" * 65},
        {"type": "execute", "n": 1, "timeoutMs": -1}, {"type": "execute", "n": 1, "stdinBytes": 1},
        {"type": "execute", "n": 1, "variables": {"A=B": "x"}}, {"type": "execute", "n": 1, "variables": {"A": 1}},
        {"type": "execute", "n": 1, "variables": {"A": "x" * 70000}}, {"type": "execute", "n": 1, "variables": []},
        {"type": "interrupt", "n": 1}, {"type": "restart"}, {"type": "prepare", "modules": [1]}, {"type": "status", "x": 1},
    ):  # fmt: skip
        runtime.send(head)
        said, _ = runtime.read()
        assert said["type"] == "refused" and said["reason"], head
    runtime.send({"type": "execute", "n": 5}, b"a\0b")
    assert runtime.read()[0] == {"type": "refused", "n": 5, "reason": "code with a NUL in it"}
    assert runtime.ok("1").text == "1"


@pytest.mark.parametrize("data", [b"\xff" * 64, struct.pack(">II", (1 << 20) + 1, 0), struct.pack(">II", 2, (16 << 20) + 1), pack([])[:-2] + b"xx", struct.pack(">II", 0, 0), pack({"type": "status"})[:-1]])
def test_who_does_not_keep_to_the_protocol_is_left(program, data):
    with Runtime(program) as runtime:
        runtime.socket.sendall(data)
        runtime.socket.shutdown(1)
        with pytest.raises(Ended):
            runtime.read()
        assert runtime.close() == 1 and runtime.said.startswith("berth-runtime: ")


def test_one_execution_at_a_time(runtime):
    first = runtime.start("import time; time.sleep(1000)")
    runtime.finish(first, until=lambda result: result.state)
    runtime.send({"type": "execute", "n": 77}, b"1")
    assert runtime.read()[0] == {"type": "refused", "n": 77, "reason": "another execution runs"}
    runtime.send({"type": "interrupt", "n": 77})
    assert runtime.read()[0]["type"] == "refused"
    runtime.send({"type": "interrupt", "n": first.n})
    assert runtime.finish(first).status == "interrupted"


def test_messages_in_pieces(runtime):
    for byte in pack({"type": "execute", "n": 1}, b"'in pieces'"):
        runtime.socket.sendall(bytes([byte]))
    runtime.n = 1
    assert runtime.finish(Result(1)).text == "'in pieces'"


# --- state and values ---


def test_variables_stay(runtime):
    first = runtime.ok("import math\nx = [1]\ndef f(): return x\nclass C: pass")
    assert first.state == {"generation": 1, "was": "new", "reason": None} and first.value is None and first.context == "main"
    second = runtime.ok("x.append(math.floor(2.5)); f()")
    assert second.text == "[1, 2]" and second.value["type"] == "list"
    assert second.state == {"generation": 1, "was": "kept", "reason": None}
    assert runtime.ok("import pickle; pickle.loads(pickle.dumps(C())).__class__ is C").text == "True"


@pytest.mark.parametrize(
    "code, text",
    [("1+1", "2"), ("x = 1", None), ("None", None), ("5;", None), ("5 ; ", None), ("'é;'", "'é;'"), ("'a'\n# end;", "'a'"), ("", None), ("# nothing", None),
     ("if True: 3", None), ("for i in range(2): i\ni", "1"), ("'\\ud800'", "'\\ud800'"), ("'\\0'", "'\\x00'"), ("__name__", "'__main__'"),
     ("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 8\nawait f()", "8"), ("import asyncio\nasyncio.run(asyncio.sleep(0, 9))", "9"),
     ("[x async for x in __import__('asyncio') and (y async for y in agen())] if 0 else 1", "1")],
)  # fmt: skip
def test_the_last_expression(runtime, code, text):
    assert runtime.ok(code).text == text


def test_the_future_stays(runtime):
    runtime.ok("from __future__ import annotations")
    assert runtime.ok("def f(a: not_defined): pass\nf.__annotations__").text == "{'a': 'not_defined'}"


def test_a_long_value_is_cut_and_says_so(runtime):
    long = runtime.ok("'é' * 100000").value
    assert long["truncated"] and 65530 <= len(long["text"].encode()) <= 65536 and not long["text"].strip("é'")


def test_an_error_is_told_as_python_tells_it(runtime):
    failed = runtime.run("def f():\n    return 1 / 0\nprint('before')\nf()")
    assert (failed.status, failed.exitCode, failed.stdout) == ("error", 1, b"before\n")
    assert failed.error["name"] == "ZeroDivisionError" and failed.error["value"] == "division by zero"
    text = "\n".join(failed.error["traceback"])
    assert "    return 1 / 0" in text and 'File "<execution 1>", line 2, in f' in text and "kernel" not in text
    nested = runtime.run("try:\n    f()\nexcept Exception as e:\n    raise KeyError('é') from e")
    assert "direct cause" in "\n".join(nested.error["traceback"]) and nested.error["value"] == "'é'"
    syntax = runtime.run("x = = 1")
    assert syntax.error["name"] == "SyntaxError" and syntax.error["traceback"][-1].startswith("SyntaxError: ")
    assert runtime.ok("2").state["was"] == "kept"


def test_one_expression_is_compiled_as_any_code(runtime):
    """It takes a shorter way: with the same value, the same errors, and no warning twice."""
    for source, text in (("1 + 1", "2"), ("(1,\n2)", "(1, 2)"), ("1 # one", "1"), ("'a;b'", "'a;b'"), ("await __import__('asyncio').sleep(0, 5)", "5")):
        assert runtime.ok(source).text == text
    assert runtime.ok("1;").value is None and runtime.ok("y = 3").value is None and runtime.ok("del y").value is None
    for source in ("1 +", "1 1", "del missing", "print(1", "return 1"):
        shown = runtime.run(source)
        assert shown.status == "error" and "During handling" not in "\n".join(shown.error["traceback"]), source
        assert shown.error["name"] == ("NameError" if "missing" in source else "SyntaxError")
    for source in ("1 is 1", "'\\d'", "x = 1 is 1"):
        assert runtime.run("import warnings; warnings.simplefilter('always')").status == "ok"
        assert runtime.run(source).stderr.count(b"Warning:") == 1, source


TAG = "sys.implementation.cache_tag = 'another'\n"
COUNTED = """
import builtins, sys
real, sys.compiled = compile, []
def compile(source, filename, *rest, **named):
    sys.compiled.append(filename)
    return real(source, filename, *rest, **named)
builtins.compile = compile
"""


@pytest.mark.parametrize("python", ["that has compiled it", "another"])
def test_a_kernel_compiles_itself_where_another_python_has_compiled_it(program, tmp_path, python):
    """And it is the same."""
    (tmp_path / "sitecustomize.py").write_text(COUNTED + (TAG if python == "another" else ""))
    with Runtime(program, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path)}) as runtime:
        assert runtime.ok("import sys\n'<berth kernel>' in sys.compiled").text == str(python == "another")
        assert "    1 / 0" in runtime.run("def f():\n    1 / 0\nf()").error["traceback"]
        assert runtime.ok("display(1); 'é'").text == "'é'"


def test_what_the_kernel_imports_is_not_the_users(runtime):
    """Neither at its start nor when the first error needs it. What the user imports is his own."""
    for name in ("_json", "ast", "codecs", "collections", "enum", "fcntl", "json", "linecache", "re", "select", "token", "tokenize", "traceback", "unicodedata", "zlib"):
        (runtime.folder / f"{name}.py").write_text("raise RuntimeError('the user has a module of this name')\n")
    failed = runtime.run("def f():\n    1 / 0\nf()")
    assert failed.error["name"] == "ZeroDivisionError" and "    1 / 0" in failed.error["traceback"]
    assert runtime.run("import json").error["value"] == "the user has a module of this name"


def test_an_error_is_told_without_pythons_own_words_too(runtime):
    failed = runtime.run("import sys\nsys.modules['traceback'] = None\ndef f(): 1 / 0\nf()")
    assert failed.error["traceback"] == ["Traceback (most recent call last):", '  File "<execution 1>", line 4, in <module>', '  File "<execution 1>", line 3, in f', "ZeroDivisionError: division by zero"]


def test_the_source_of_what_runs_is_known_in_the_first_execution(runtime):
    assert runtime.ok("import inspect\ndef f(): return 7\ninspect.getsource(f)").text == repr("def f(): return 7\n")
    assert runtime.ok("def g(): return 8\ninspect.getsource(g), len(inspect.getsource(f))").text == repr(("def g(): return 8\n", 18))


def test_code_that_is_no_text(runtime):
    assert runtime.run(b"x = '\xff'").status == "error"
    assert runtime.ok("3").text == "3"


# --- output ---


def test_output_of_children_and_descriptors(runtime):
    done = runtime.ok("import os, subprocess, sys\nprint('one')\nos.system('echo two; echo oops >&2')\nsubprocess.run(['echo', 'three'])\nos.write(1, b'\\xff\\n')\nsys.stderr.write('err')\nNone")
    assert done.stdout == b"one\ntwo\nthree\n\xff\n" and done.stderr == b"oops\nerr"


def test_output_comes_as_it_is_printed(runtime):
    running = runtime.start("import os\nprint('first')\nopen('go').read()\nprint('last')")
    os.mkfifo(runtime.folder / "go")
    runtime.finish(running, until=lambda result: result.stdout or result.done)
    if running.done:  # the pipe was made too late
        pytest.skip("the code was faster than the test")
    assert running.stdout == b"first\n" and running.done is None
    (runtime.folder / "go").write_text("go")
    assert runtime.finish(running).stdout == b"first\nlast\n"


def most_memory(runtime):
    """In KiB, at any time until now."""
    return int(re.search(r"^VmHWM:\s*(\d+) kB$", Path(f"/proc/{runtime.process.pid}/status").read_text(), re.M)[1])


def read_all_of(runtime, total, came=0):
    """To the end of an execution that prints so much; nowhere is more than a little of it kept."""
    head = {}
    while head.get("type") != "done":
        head, body = runtime.read()
        came += len(body)
    assert (head["status"], head["stdoutBytes"], came) == ("ok", total, total), head
    if b"libasan" not in Path(runtime.process.args[0]).read_bytes():
        assert most_memory(runtime) < 40000


def test_much_output_is_passed_on_and_kept_nowhere(program):
    with Runtime(program) as runtime:
        runtime.start("import os\nblock = b'x' * (1 << 20)\nfor _ in range(128): os.write(1, block)\nNone")
        read_all_of(runtime, 128 << 20)


def test_what_was_taken_is_not_kept_for_a_caller_that_is_always_behind(program):
    """It takes a piece only when half a megabyte more has been printed: never all that there is."""
    pieces = 1024
    with Runtime(program) as runtime:
        runtime.start(f"""
import mmap, os
with open("printed", "wb+") as file:
    file.write(bytes(8))
    file.flush()
    printed = mmap.mmap(file.fileno(), 8)
    os.rename("printed", "counted")
for n in range({pieces}):
    os.write(1, b"x" * 65536)
    printed[:] = (n + 1).to_bytes(8, "little")
""")
        wait_until((runtime.folder / "counted").exists, "the code begins")

        def printed():
            return int.from_bytes((runtime.folder / "counted").read_bytes(), "little")

        came = 0
        while (now := printed()) < pieces:
            if now * 65536 - came > 1 << 19:
                came += len(runtime.read()[1])
            else:
                time.sleep(0.001)
        read_all_of(runtime, pieces * 65536, came)


def test_who_does_not_listen_makes_the_code_wait_and_the_deadline_holds(runtime):
    runtime.ok('1')  # on a busy machine Python may need the whole second to begin
    running = runtime.start("import os\ntry:\n    while True: os.write(1, b'x' * 65536)\nfinally: open('stopped', 'w').close()", timeoutMs=1000)
    wait_until((runtime.folder / "stopped").exists, "the deadline")
    assert runtime.finish(running).status == "timeout"
    assert runtime.ok("1").state["was"] == "kept"


def test_what_threads_print_after_the_end_is_not_lost_on_others(runtime):
    done = runtime.ok("import threading, sys\ngate = threading.Event()\ndef late():\n    gate.wait()\n    print('late')\nthread = threading.Thread(target=late)\nthread.start()\nprint('now')")
    assert done.stdout == b"now\n"
    assert runtime.ok("gate.set()\nthread.join()\n'joined'").text == "'joined'"
    thrown = runtime.ok("def bad(): raise ValueError('in a thread')\nt = threading.Thread(target=bad)\nt.start()\nt.join()")
    assert b"ValueError: in a thread" in thrown.stderr


# --- input, variables ---


def test_input(runtime):
    asked = runtime.run("input('name? ')")
    assert asked.status == "error" and asked.error["name"] == "EOFError" and "standard input" in asked.error["value"] and asked.stdout == b"name? "
    assert runtime.ok("input(), input()", stdin="one\nzwö".encode()).text == "('one', 'zwö')"
    assert runtime.ok("import sys; sys.stdin.read()", stdin=b"").text == "''"
    assert runtime.ok("import subprocess; subprocess.run(['cat'], capture_output=True).stdout", stdin=b"child").text == "b'child'"
    assert runtime.sh("cat", stdin=b"shell").stdout == b"shell"
    assert runtime.sh("cat; echo end").stdout == b"end\n"


def test_variables_are_for_one_execution(runtime):
    look = "import os; os.environ.get('COLOUR'), os.popen('echo $COLOUR').read()"
    assert runtime.ok(look, variables={"COLOUR": "red"}).text == "('red', 'red\\n')"
    assert runtime.ok(look).text == "(None, '\\n')"
    assert runtime.sh("echo $COLOUR $HOME", variables={"COLOUR": "blue"}).stdout.decode() == f"blue {runtime.folder}\n"
    runtime.ok("os.environ['HOME'] = '/elsewhere'")
    assert runtime.ok("os.environ['HOME']", variables={"HOME": "/here"}).text == "'/here'"
    assert runtime.ok("os.environ['HOME']").text == "'/elsewhere'"


def test_what_is_not_the_codes_is_not_in_its_environment(program):
    with Runtime(program, env={"AWS_SECRET_ACCESS_KEY": "leak", "BERTH_X": "leak", "MINE": "mine"}) as runtime:
        found = runtime.ok("import os; sorted(n for n in os.environ if n.startswith(('AWS', 'BERTH', 'MINE', 'MPL')))").text
        assert found == "['MINE', 'MPLBACKEND']"
        assert b"leak" not in runtime.sh("env").stdout


# --- sh ---


def test_sh(runtime):
    done = runtime.sh("echo out; echo err >&2; exit 3")
    assert (done.status, done.exitCode, done.stdout, done.stderr, done.state, done.value) == ("error", 3, b"out\n", b"err\n", None, None)
    assert runtime.sh("true").status == "ok"
    killed = runtime.sh("kill -9 $$")
    assert killed.status == "killed" and killed.exitCode is None and "signal 9" in killed.detail
    assert runtime.sh("if").status == "error"
    long = runtime.sh("x=" + "y" * 200000 + "\necho ${#x}")
    assert long.stdout == b"200000\n"
    assert runtime.sh("sleep 1000", timeoutMs=300).status == "timeout"
    assert runtime.sh("trap '' INT; while :; do sleep 1000; done", timeoutMs=300).status == "timeout"
    assert runtime.sh("echo back").stdout == b"back\n"


# --- standard input ---


@pytest.mark.parametrize(
    "spoil",
    [
        "1",
        "sys.stdin.close()",
        "sys.stdin.detach()",
        "sys.stdin = 7",
        "del sys.stdin",
        "sys.__stdin__ = None",
        "os.close(0)",
        "os.dup2(os.open('/dev/zero', os.O_RDONLY), 0)",
        "os.dup2(os.open('/dev/null', os.O_WRONLY), 0)",
        "os.dup2(os.pipe()[0], 0)",
    ],
)
def test_each_execution_finds_the_end_of_its_input(runtime, spoil):
    """Where nobody has touched what the one before had, it is not made anew: whoever did touch it harms himself alone."""
    ends = "import os, sys, subprocess\nsys.stdin.read(), os.read(0, 9), subprocess.run(['cat'], capture_output=True).stdout"
    for _ in range(2):
        assert runtime.ok(ends).text == "('', b'', b'')"
    runtime.run(spoil)
    assert runtime.ok(ends).text == "('', b'', b'')"
    assert runtime.ok("sys.stdin.read()", stdin=b"given").text == "'given'"
    assert runtime.ok(ends).text == "('', b'', b'')"


# --- contexts ---


def test_a_restart_before_the_code_has_begun(runtime):
    """Python is blamed for nothing."""
    early = runtime.start("1")
    runtime.send({"type": "restart", "context": "main"})
    runtime.finish(early)
    assert (early.status, early.detail) == ("killed", "none of the code ran: its kernel was restarted by request")
    assert runtime.read()[0] == {"type": "restarted", "context": "main"}
    assert runtime.ok("2").text == "2"


def test_contexts_are_kernels_by_name(runtime):
    runtime.ok("x = 'main'")
    other = runtime.ok("x = 'other'", context="other")
    assert other.context == "other" and other.state["was"] == "new"
    assert runtime.ok("x").text == "'main'" and runtime.ok("x", context="other").text == "'other'"
    runtime.send({"type": "restart", "context": "other"})
    assert runtime.read()[0] == {"type": "restarted", "context": "other"}
    again = runtime.run("x", context="other")
    assert again.error["name"] == "NameError" and again.state == {"generation": 2, "was": "lost", "reason": "it was restarted by request"}
    assert runtime.ok("x").text == "'main'"
    runtime.send({"type": "status"})
    said, _ = runtime.read()
    assert said == {"type": "status", "contexts": [{"context": "main", "generation": 1}, {"context": "other", "generation": 2}], "left": 0}
    for i in range(6):
        runtime.ok("1", context=f"c{i}")
    assert runtime.run("1", context="ninth").done["type"] == "refused"
    assert runtime.ok("x").text == "'main'"


def test_a_context_is_prepared_before_anybody_needs_it(runtime):
    runtime.send({"type": "prepare", "modules": ["decimal", "no_such_module"]})
    said, _ = runtime.read()
    assert said["type"] == "prepared" and said["generation"] == 1 and said["python"].startswith("3.") and said["reason"] is None
    assert [item["module"] for item in said["missing"]] == ["no_such_module"] and "ModuleNotFoundError" in said["missing"][0]["reason"]
    done = runtime.ok("import sys; 'decimal' in sys.modules")
    assert done.text == "True" and done.state == {"generation": 1, "was": "new", "reason": None}


def test_bash_is_bash_and_sh_is_sh(runtime):
    code = "words=(a b); echo ${words[1]} {c,d}; [[ x == x ]] && cat; exit 3"
    done = runtime.run(code, language="bash", stdin=b"input", variables={"V": "v"})
    assert (done.stdout, done.stderr, done.exitCode, done.state) == (b"b c d\ninput", b"", 3, None)
    assert runtime.sh("echo {c,d}").stdout == b"{c,d}\n"
    long = "echo {c,d}\n" + "#" * 200000
    assert runtime.run(long, language="bash").stdout == b"c d\n"
    assert runtime.run("sleep 1000", language="bash", timeoutMs=300).status == "timeout"


def test_an_image_without_bash_says_so(program, tmp_path):
    with Runtime(program, env={"PATH": str(tmp_path)}) as runtime:
        done = runtime.run("echo x", language="bash")
        assert done.status == "failed" and "no bash here" in done.detail and "use sh" in done.detail
        assert runtime.sh("echo x").stdout == b"x\n"
