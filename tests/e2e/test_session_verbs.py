# SPDX-License-Identifier: Apache-2.0
"""`berth session`: the binary against a real server, in pipes and on a terminal."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import socket
import stat
import struct
import subprocess
import termios
import threading
import time
import zipfile

import pytest

from binary import ROOT, Berth, is_watched
from controllers import PATIENCE, wait_until
from lib.lab import TOKENS, client
from serving import Serve

NEVER = "s-" + "a" * 26
PNG = "class P:\n  def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n'\nP()"


class Sessions(Berth):
    """`sessions("show", ID)` is berth session show ID, in the stack's folder."""

    server = None

    def __call__(self, *args, **kwargs):
        return super().__call__("session", *args, **kwargs)

    def create(self, *args):
        return self("create", "--env", "data", *args).expect(0).out.strip()

    def run(self, session, code, *args, **kwargs):
        return self("run", session, "-c", code, *args, **kwargs)

    def background(self, session, code, *args):
        """One that has printed "go"."""
        process = self.popen("session", "run", session, "-c", f"print('go', flush=True)\n{code}", *args)
        assert process.stdout.readline() == b"go\n"
        return process

    def ended(self, process):
        out, err = process.communicate(timeout=60 * PATIENCE)
        return self.result(process.args[1:], process.returncode, out, err)


@pytest.fixture(scope="module")
def shared(place, binary, tmp_path_factory):
    if is_watched(binary):
        pytest.skip("the runtime of such a build needs more memory than a sandbox has")
    made = place.berth(binary, tmp_path_factory.mktemp("session"), Sessions)
    place.apply(made)
    made.server = Serve(made, clients=[client("users", actsFor="users", realm="company")])
    made.server.start("--accept-degraded")
    yield made
    if made.server.process is None:
        made.server.start("--accept-degraded")
    for session in made("list", "--json").expect(0).json():
        made("end", session["id"]).expect(0)
    assert made.server.stop() == 0


@pytest.fixture
def sessions(shared):
    if shared.server.process is None or shared.server.process.poll() is not None:
        shared.server.start("--accept-degraded")
    return shared


@pytest.fixture
def session(sessions):
    made = sessions.create()
    yield made
    sessions("end", made).expect(0)


# --- what they do ---


def test_from_the_first_to_the_last(sessions):
    session = sessions.create("--label", "team=blue", "--idle", "600", "--variable", "GREETING=hello")
    assert re.fullmatch("s-[a-z2-7]{26}", session)
    first = sessions.run(session, "import os, sys\nx = 41\nprint(os.environ['GREETING'])\nprint('to err', file=sys.stderr)\nx + 1").expect(0)
    assert (first.out, first.err) == ("hello\n42\n", "to err\n")
    assert sessions.run(session, "print('no end', end='')\nx").expect(0).out == "no end\n41\n"
    shown = sessions("show", session, "--json").expect(0).json()
    assert (shown["id"], shown["labels"], shown["idleSeconds"], shown["environment"]) == (session, {"team": "blue"}, 600, "data")
    assert session in sessions("show", session).expect(0).out
    assert [s["id"] for s in sessions("list", "--json", "--label", "team=blue", "--env", "data").expect(0).json()] == [session]
    assert sessions("list", "--json", "--label", "team=red").expect(0).json() == []
    rows = sessions("list").expect(0).out.splitlines()
    assert rows[0].startswith("SESSION") and any(row.startswith(session) for row in rows[1:]) and max(map(len, rows)) <= 80
    history = sessions("history", session).expect(0).out.splitlines()
    assert len(history) == 3 and history[1].split()[:3] == ["1", "ok", "0"] and history[2].endswith(" print('no end', end='')")
    again = sessions("history", session, "1").expect(0)
    assert (again.out, again.err) == ("hello\n42\n", "to err\n")
    assert sessions("history", session, "2", "--json").expect(0).json()["value"]["text"] == "41"
    sessions("restart", session).expect(0)
    lost = sessions.run(session, "x").expect(1)
    assert "the session's variables are lost" in lost.err and "NameError" in lost.err
    sessions("end", session).expect(0)
    assert sessions("show", session).expect(1).err == sessions("show", NEVER).expect(1).err


@pytest.mark.parametrize(
    ("code", "args", "exit_code", "said"),
    [
        ("pass", (), 0, ""),
        ("1 / 0", (), 1, "ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(5)", (), 5, ""),
        ("exit 7", ("--lang", "sh"), 7, ""),
        ("words=(5 8); exit ${words[1]}", ("--lang", "bash"), 8, ""),
        ("import time; time.sleep(600)", ("--timeout", "1"), 124, "ended at its deadline"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", (), (1, 137), "kernel"),
    ],
)
def test_exit_codes(sessions, session, code, args, exit_code, said):
    result = sessions.run(session, code, *args)
    assert result.code in (exit_code if isinstance(exit_code, tuple) else (exit_code,)), str(result)
    assert said in result.err, str(result)
    # With --json the same, and nothing beside the result.
    told = sessions.run(session, code, "--json", *args)
    assert told.code == result.code and told.err == "", str(told)
    assert (told.json()["status"] == "ok") == (exit_code == 0)


def test_code_from_a_file_and_from_standard_input(sessions, session):
    sessions.write("job.sh", "echo from sh; exit 3\n")
    sessions.write("job.py", "'from Python'\n")
    assert sessions("run", session, "job.sh").expect(3).out == "from sh\n"
    assert sessions("run", session, "job.py").expect(0).out == "'from Python'\n"
    assert sessions("run", session, "-", stdin="'from input'").expect(0).out == "'from input'\n"
    assert "no such file" in sessions("run", session, "gone.py").expect(125).err.lower()


def test_standard_input_arrives(sessions, session):
    assert sessions("run", session, "-c", "input(), input()", stdin="one\ntwo\n").expect(0).out == "('one', 'two')\n"
    sessions.write("job.py", "import sys; sys.stdin.read()")
    assert sessions("run", session, "job.py", stdin="three").expect(0).out == "'three'\n"
    assert sessions("run", session, "--lang", "sh", "-c", "cat", stdin="four").expect(0).out == "four"
    assert "EOFError" in sessions("run", session, "-c", "input()").expect(1).err


@pytest.mark.parametrize(
    "source",
    [
        "# -*- coding: latin-1 -*-\nlen('\u00e9'), '\u00e9'",
        "#!/usr/bin/python3\n# vim: set fileencoding=iso-8859-15 :\nlen('\u00e9'), '\u00e9'",
        "\n# coding=cp1252\nlen('\u00e9'), '\u00e9'",
    ],
)
def test_source_in_another_encoding(sessions, session, source):
    sessions.write("job.py", source.encode("latin-1"))
    assert sessions("run", session, "job.py").expect(0).out == "(1, '\u00e9')\n"


def test_source_whose_encoding_is_unknown(sessions, session):
    for source in ("# coding: nothing-like-it\n1", "x = 1\n\n# coding: latin-1\n'\u00e9'"):
        sessions.write("job.py", source.encode("latin-1"))
        assert sessions("run", session, "job.py").code == 125


def test_a_session_that_is_not_named_is_made_and_said(sessions):
    made = sessions("run", "--env", "data", "-c", "x = 1").expect(0)
    (session,) = set(re.findall("s-[a-z2-7]{26}", made.err))
    assert sessions.run(session, "x").expect(0).out == "1\n"
    sessions("end", session).expect(0)
    named = [sessions("run", "--agent", "coder", "--conversation", "plan", "-c", code) for code in ("y = 2", "y")]
    assert named[1].expect(0).out == "2\n" and named[1].err == ""
    (session,) = set(re.findall("s-[a-z2-7]{26}", named[0].expect(0).err))
    assert sessions("create", "--agent", "coder", "--conversation", "plan").expect(0).out.strip() == session
    sessions("end", session).expect(0)
    assert "which environment? --env ENV" in sessions("run", "-c", "1").expect(125).err


def test_figures_have_paths(sessions, session):
    drawn = sessions.run(session, PNG).expect(0)
    assert re.search(r"figure: \.berth/displays/\S+\.png \(image/png\)", drawn.err), str(drawn)


def test_who_has_what_is_not_told(sessions):
    headers = [("Berth-Owner", "alice"), ("Content-Type", "application/json")]
    answer = sessions.server.ask("/v1/sessions", TOKENS["users"], "POST", headers, b'{"environment": "data"}')
    theirs = answer.json()["id"]
    for args in (["history"], ["end"], ["restart"], ["interrupt"]):
        assert sessions(*args, theirs).expect(1).err == sessions(*args, NEVER).expect(1).err
    assert sessions.run(theirs, "1").expect(125).err == sessions.run(NEVER, "1").expect(125).err
    # Over the socket everybody's are listed, and said to be theirs.
    (row,) = [row for row in sessions("list").expect(0).out.splitlines() if row.startswith(theirs)]
    assert row.endswith("data, of company/alice")
    assert sessions.server.ask(f"/v1/sessions/{theirs}", TOKENS["users"], "DELETE", headers[:1]).status == 204


def test_where_the_server_is_found(sessions, session, tmp_path):
    """From -f as other verbs find a state, and by the file of the Server."""
    for path in (sessions.stack, sessions.stack / "stack.yaml", sessions.server.file):
        assert sessions("show", session, "-f", path, "--json").expect(0).json()["id"] == session
    assert sessions("show", session, "--state", sessions.server.state, "--json").expect(0).json()["id"] == session
    for code, args in ((1, ("list",)), (125, ("run", session, "-c", "1"))):
        nobody = sessions(*args, "-f", tmp_path).expect(code)
        assert f"no server runs for the state in {tmp_path}/.berth: start it with berth serve -f {tmp_path}" in nobody.err
    # One that died has left its socket.
    (tmp_path / ".berth").mkdir()
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(tmp_path / ".berth/serve.sock"))
    assert "no server runs for the state in" in sessions("list", "-f", tmp_path).expect(1).err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("show", "nonsense"), "is no session's id"),
        (("shwo", NEVER), "did you mean show?"),
        (("show",), "needs an argument"),
        (("show", NEVER, NEVER), "is one too many"),
        (("show", NEVER, "--idle", "5"), "berth session show takes no --idle"),
        (("list", "-c", "1"), "berth session list takes no --code"),
        (("create", "--label", "team"), "--label takes NAME=VALUE"),
        (("create", "--ttl", "0"), "--ttl takes whole seconds"),
        (("history", NEVER, "0"), "is no execution's number"),
        (("create", "--env", "daat"), "there is no environment daat; did you mean data?\n"),
        (("create", "--env", "workshop"), "there is no environment workshop; GET /v1/environments lists"),
    ],
)
def test_mistakes_are_told(sessions, args, said):
    assert said in sessions(*args).expect(1).err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "needs code"),
        ((NEVER, "a.py", "b.py"), "one too many"),
        (("nonsense", "-c", "1"), "is no session's id"),
        ((NEVER, "-c", "1", "--env", "data"), "a session that is there has its environment"),
        ((NEVER, "-i", "-c", "1"), "-i reads code"),
        ((NEVER, "-c", "1", "--status", "idle"), "takes no --status"),
        ((NEVER, "-c", "1", "--bogus"), "there is no option --bogus"),
    ],
)
def test_mistakes_of_run_are_no_exit_code_of_the_code(sessions, args, said):
    assert said in sessions("run", *args).expect(125).err


@pytest.mark.here("a parked session's environment may live on, and its variables with it")
def test_parked_and_back(sessions, session):
    sessions.run(session, "x = 5\nimport threading\nlock = threading.Lock()").expect(0)
    sessions("park", session).expect(0)
    assert sessions("show", session, "--json").expect(0).json()["status"] == "parked"
    sessions("park", session).expect(0)
    back = sessions.run(session, "x").expect(0)
    assert back.out == "5\n" and re.fullmatch(r"warning: the session's variables are restored \(it was parked\): .*\bx\b.*; lost: lock \(.*\)\n", back.err), back
    process = sessions.background(session, "import time\ntime.sleep(600)")
    assert "running something" in sessions("park", session).expect(1).err
    sessions("interrupt", session).expect(0)
    sessions.ended(process).expect(130)
    assert sessions("park", NEVER).expect(1).err == sessions("show", NEVER).expect(1).err


# --- interrupts, readers and servers that go ---


def test_ctrl_c_interrupts_the_execution_and_keeps_the_variables(sessions, session):
    process = sessions.background(session, "x = 7\nimport time\ntime.sleep(600)")
    process.send_signal(signal.SIGINT)
    ended = sessions.ended(process).expect(130)
    assert "KeyboardInterrupt" in ended.err and "interrupted" in ended.err
    assert sessions.run(session, "x").expect(0).out == "7\n"


def test_interrupted_from_another_terminal(sessions, session):
    process = sessions.background(session, "import time\ntime.sleep(600)")
    sessions("interrupt", session).expect(0)
    sessions.ended(process).expect(130)
    assert "nothing runs" in sessions("interrupt", session).expect(1).err
    assert "ended" in sessions("interrupt", session, "1").expect(1).err


def test_a_reader_who_leaves_ends_the_code(sessions, session):
    """As SIGPIPE ends `yes | head`."""
    process = sessions.background(session, "while True: print('y')")
    process.stdout.close()
    assert process.wait(60 * PATIENCE) == 130, process.stderr.read()
    assert b"Broken pipe" not in process.stderr.read()


def test_output_that_cannot_be_written_is_no_success(sessions, session):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [str(sessions.binary), "session", "run", session, "-c", "print('x')"], cwd=sessions.stack, env=sessions.env, stdout=full, stderr=subprocess.PIPE,
            timeout=60 * PATIENCE,
        )  # fmt: skip
    assert done.returncode == 125 and b"cannot write what the code said: No space left" in done.stderr


def test_a_server_that_dies_in_the_middle(sessions, session):
    process = sessions.background(session, "import time\ntime.sleep(600)")
    sessions.server.process.kill()
    sessions.server.process.wait()
    ended = sessions.ended(process).expect(125)
    assert "the server ended before it did" in ended.err and f"berth session history {session} 1" in ended.err
    assert "no server runs" in sessions("list").expect(1).err
    sessions.server.start("--accept-degraded")
    sessions("interrupt", session).expect(0)
    told = sessions("history", session, "1")
    assert told.code in (130, 125) and told.out == "go\n", str(told)


def test_bytes_pass_through_a_pipe(sessions, session):
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 2); sys.stdout.flush()"
    process = sessions.popen("session", "run", session, "-c", code)
    out, _ = process.communicate(timeout=60 * PATIENCE)
    assert out == bytes(range(256)) * 2


# --- on a terminal ---


class Terminal:
    """The binary on a terminal of 80 columns, typed into."""

    def __init__(self, berth, *args, env=None):
        self.process, self.seen = None, ""
        self.descriptor, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [str(berth.binary), "session", *args], cwd=berth.stack, env={**berth.env, "TERM": "xterm", **(env or {})},
            stdin=inner, stdout=inner, stderr=inner, preexec_fn=own_terminal,
        )  # fmt: skip
        os.close(inner)

    def read(self, until, timeout=60):
        """What came up to and with the text; it is not read again."""
        end = time.monotonic() + timeout * PATIENCE
        while until not in self.seen:
            ready, _, _ = select.select([self.descriptor], [], [], max(0, end - time.monotonic()))
            assert ready, f"no {until!r} in {self.seen!r}"
            try:
                piece = os.read(self.descriptor, 65536)
            except OSError:
                piece = b""
            assert piece, f"it ended before {until!r}: {self.seen!r}"
            self.seen += piece.decode("utf-8", "replace")
        found, self.seen = self.seen.split(until, 1)
        return found + until

    def type(self, text):
        os.write(self.descriptor, text.encode())

    def end(self):
        """The exit code, and what was left to read."""
        left = self.seen
        with contextlib.suppress(OSError):
            while piece := os.read(self.descriptor, 65536):
                left += piece.decode("utf-8", "replace")
        os.close(self.descriptor)
        return self.process.wait(60 * PATIENCE), left


def test_nothing_that_code_says_drives_a_terminal(sessions, session):
    code = "print('\\x1b]0;owned\\x07\\x1b[2J\\u202eabc\\r\\nnext'); import sys; print('\\x1b[1A', file=sys.stderr); class_ = 1\nraise ValueError('\\x1b[31m')"
    terminal = Terminal(sessions, "run", session, "-c", code, "--no-color")
    exit_code, said = terminal.end()
    assert exit_code == 1
    assert "\x1b" not in said and "\x07" not in said and "\u202e" not in said
    assert r"\x1B]0;owned\x07\x1B[2J\u202Eabc" in said and r"\x1B[1A" in said and r"ValueError: \x1B[31m" in said


def test_an_exception_is_red_where_colour_is_taken(sessions, session):
    exit_code, said = Terminal(sessions, "run", session, "-c", "1 / 0").end()
    assert exit_code == 1 and "\x1b[31mZeroDivisionError: division by zero" in said


def test_at_a_prompt(sessions, session, tmp_path):
    history = tmp_path / "state" / "berth" / "session_history"
    terminal = Terminal(sessions, "run", session, env={"XDG_STATE_HOME": str(tmp_path / "state")})
    terminal.read(">>> ")
    terminal.type("x = 20 + 1\n")
    terminal.read(">>> ")
    terminal.type("for i in range(2):\n")
    terminal.read("... ")
    terminal.type("    print('number', i * x)\n")
    terminal.read("... ")
    terminal.type("\n")
    assert "number 0\r\nnumber 21\r\n" in terminal.read("number 21\r\n")
    terminal.read(">>> ")
    terminal.type("!echo from sh $((6 * 7))\n")
    terminal.read("from sh 42")
    terminal.read(">>> ")
    # What is typed is dropped, what runs is interrupted, and neither leaves.
    terminal.type("nonsense(")
    terminal.read("nonsense(")
    terminal.type("\x03")
    terminal.read(">>> ")
    terminal.type("print('go', flush=True); import time; time.sleep(600)\n")
    terminal.read("go\r\n")
    terminal.type("\x03")
    terminal.read("KeyboardInterrupt")
    terminal.read(">>> ")
    # The last line but one, by its key.
    terminal.type("\x1b[A\x1b[A\n")
    terminal.read("from sh 42")
    terminal.read(">>> ")
    terminal.type("x\n")
    assert "21\r\n" in terminal.read("21\r\n")
    terminal.read(">>> ")
    terminal.type("\x04")
    exit_code, left = terminal.end()
    assert exit_code == 0 and f"berth session run {session}" in re.sub(r"\s+", " ", left)
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    kept = history.read_text()
    assert "range(2)" in kept and "nonsense" not in kept
    assert sessions.run(session, "x").expect(0).out == "21\n"


def test_at_a_prompt_without_libedit(sessions, session, tmp_path):
    """It says so once, and takes lines as the terminal gives them."""
    (tmp_path / "libedit.so.2").touch()
    terminal = Terminal(sessions, "run", "-i", session, env={"LD_LIBRARY_PATH": str(tmp_path)})
    said = terminal.read(">>> ")
    assert said.count("no history, and no editing of lines: cannot load libedit.so.") == 1
    terminal.type("40 + 2\n")
    terminal.read("42\r\n")
    terminal.read(">>> ")
    terminal.type("!echo from sh $((6 * 7))\n")
    terminal.read("from sh 42")
    terminal.read(">>> ")
    terminal.type("exit()\n")
    exit_code, _ = terminal.end()
    assert exit_code == 0 and sessions.run(session, "2").expect(0).err == ""


def test_a_prompt_without_a_terminal_takes_cells(sessions, session):
    typed = "x = 1\n\nfor i in range(2):\n    print(i)\n\nx\n!echo sh\n%sh\necho two\necho three\n\nif x:\n    print('last')"
    result = sessions("run", session, "-i", stdin=typed).expect(0)
    assert (result.out, result.err) == ("0\n1\n1\nsh\ntwo\nthree\nlast\n", "")
    assert sessions("run", session, "-i", stdin="1 / 0\n").expect(1).out == ""


@pytest.mark.here("doctor tries sandboxes of this machine")
def test_doctor_tries_a_session(sessions):
    findings = {f["name"]: f for f in Berth.__call__(sessions, "doctor", "--json", "--self-test").json()["findings"]}
    assert findings["session"]["works"] and "of the environment data kept its variable" in findings["session"]["detail"], findings
    assert findings["runtime"]["works"] and findings["server"]["works"] and "owners" in findings


# --- files ---


@pytest.fixture
def files(sessions, session):
    return lambda verb, *args, **kwargs: sessions("files", verb, session, *args, **kwargs)


def test_files_go_and_come(sessions, session, files, tmp_path):
    odd = "in/ä %2e#?&.txt"
    sessions.write("numbers.csv", bytes(range(256)) * 1000)
    files("put", "numbers.csv").expect(0)
    files("put", "numbers.csv", odd).expect(0)
    files("put", "-", "from-input", stdin="typed").expect(0)
    assert sessions.run(session, f"len(open({odd!r}, 'rb').read()), open('from-input').read()").expect(0).out == "(256000, 'typed')\n"
    sessions.run(session, "import os; os.makedirs('out'); open('out/result', 'w').write('made')").expect(0)
    assert [f["path"] for f in files("list", "--json").expect(0).json()] == ["from-input", odd, "numbers.csv", "out/result"]
    assert [f["path"] for f in files("list", "out", "--json").expect(0).json()] == ["out/result"]
    rows = files("list").expect(0).out.splitlines()
    assert rows[0].split() == ["BYTES", "WRITTEN", "PATH"] and rows[-1].split()[0] == "4" and rows[-1].endswith("  out/result")
    files("get", "out/result").expect(0)
    assert (sessions.stack / "result").read_text() == "made"
    assert files("get", "out/result", "-").expect(0).out == "made"
    files("get", odd, tmp_path / "back").expect(0)
    assert (tmp_path / "back").read_bytes() == bytes(range(256)) * 1000
    # What is there stays, but by --force; a folder takes the file's name.
    assert "--force replaces it" in files("get", "out/result").expect(1).err
    files("get", "out/result", "--force").expect(0)
    files("get", "out/result", tmp_path).expect(0)
    assert (tmp_path / "result").read_text() == "made"
    files("rm", "out/result", odd).expect(0)
    assert [f["path"] for f in files("list", "--json").expect(0).json()] == ["from-input", "numbers.csv"]
    assert "out/result" in files("rm", "out/result").expect(1).err
    assert not list(tmp_path.glob(".*")), "a half file was left"


def test_a_zip_of_a_workspace(sessions, session, files, tmp_path):
    sessions.run(session, "import os; os.mkdir('a'); open('a/one', 'w').write('1'); open('two', 'w').write('2')").expect(0)
    files("zip", tmp_path / "all.zip").expect(0)
    with zipfile.ZipFile(tmp_path / "all.zip") as made:
        assert {"a/one", "two"} <= set(made.namelist()) and made.read("a/one") == b"1"
    files("zip", tmp_path, "a").expect(0)
    with zipfile.ZipFile(tmp_path / f"{session}.zip") as made:
        assert "two" not in made.namelist() and any(n.endswith("one") for n in made.namelist())


def test_files_from_one_session_to_another(sessions, session, files):
    sessions.run(session, "open('x', 'w').write('first'); open('y', 'w').write('second')").expect(0)
    other = sessions.create()
    assert files("copy", other, "x", "y").expect(0).out == "x\ny\n"
    assert sessions.run(other, "open('x').read()").expect(0).out == "'first'\n"
    again = files("copy", other, "x").expect(1)
    assert "x already exists" in again.err and "not all was copied" in again.err
    files("copy", other, "x", "--force").expect(0)
    sessions("end", other).expect(0)
    # Files outlive their session.
    assert sessions("files", "get", other, "x", "-").expect(0).out == "first"


def test_names_that_code_made_do_not_drive_a_terminal(sessions, session, files):
    sessions.run(session, "open('\\x1b]0;owned\\x07', 'w').write('\\x1b[2J')").expect(0)
    exit_code, said = Terminal(sessions, "files", "list", session, "--no-color").end()
    assert exit_code == 0 and "\x1b" not in said and r"\x1B]0;owned\x07" in said
    exit_code, said = Terminal(sessions, "files", "get", session, "\x1b]0;owned\x07", "-").end()
    assert (exit_code, said) == (0, r"\x1B[2J")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("lsit", NEVER), "did you mean list?"),
        (("get", NEVER), "usage: berth session files get SESSION PATH"),
        (("get", "nonsense", "a"), "is no session's id"),
        (("list", NEVER, "--force"), "takes no --force"),
        (("get", NEVER, "a"), "there is no such"),
        (("get", NEVER, "folder/"), "names no file"),
        (("put", NEVER, "-"), "what is the file to be called?"),
        (("put", NEVER, "gone"), "cannot read gone"),
        (("put", NEVER, "."), "is no regular file"),
        (("copy", NEVER, "nonsense", "a"), "is no session's id"),
    ],
)
def test_mistakes_about_files_are_told(sessions, args, said):
    assert said in sessions("files", *args).expect(1).err


# --- the documentation ---

PAGE = (ROOT / "docs" / "sessions.md").read_text()
COMMANDS = [line.split("  #")[0].strip() for line in re.findall(r"^    (berth session .*)$", PAGE, re.M)]


def test_every_command_of_the_page_does_what_it_says(sessions, session, tmp_path):
    """In their order, in one session. At a prompt, and with nothing to interrupt, they are tried elsewhere."""
    other = sessions.create()
    sessions.write("analysis.py", "print('analysed')\n")
    sessions.write("numbers.csv", "1,2\n")
    (tmp_path / "berth").symlink_to(sessions.binary)
    environment = {**sessions.env, "PATH": f"{tmp_path}:{sessions.env['PATH']}"}
    ran = []
    for command in COMMANDS:
        if command.endswith(("run SESSION", "run -i --env notebooks", "interrupt SESSION", "end SESSION")):
            continue
        line = command.replace("SESSION", session).replace("OTHER", other).replace("notebooks", "data")
        done = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], cwd=sessions.stack, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        ran.append((command, done.stdout))
    told = dict(ran)
    assert told["berth session run SESSION -c 'print(\"so far:\", x); x + 1'"] == "so far: 41\n42\n"
    assert told["berth session run --env notebooks --conversation thesis -c 'draft'"] == "1\n"
    assert told["berth session files get SESSION out.txt -"] == "result"
    assert (sessions.stack / f"{session}.zip").is_file() and len(ran) > 20
    sessions("end", other).expect(0)


# --- a server that lies ---


class Liar(threading.Thread):
    """
    Answers each request on the socket of a state by what `answers` has for its path: bytes, sent as they are; then it hangs up. What
    ends with HELD has no end: the connection stays as it is.
    """

    HELD = b"(held)"

    def __init__(self, folder, answers):
        super().__init__(daemon=True)
        folder.mkdir()
        self.answers, self.asked, self.listener = answers, [], socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / "serve.sock"))
        self.listener.listen()
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.answer, args=self.listener.accept()[:1], daemon=True).start()

    def answer(self, connection):
        with connection, contextlib.suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(65536)
            path = request.split(b" ")[1].decode()
            self.asked.append(path)
            said = next((a for p, a in self.answers.items() if re.search(p, path)), b"")
            connection.sendall(said.removesuffix(self.HELD))
            if not said.endswith(self.HELD):
                connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def answer(body, status="200 OK", kind="application/json"):
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def stream(*events, whole=True):
    """What follows an execution that was taken as the first."""
    text = "".join(f"id: {i}\nevent: {name}\ndata: {data}\n\n" for i, (name, data) in enumerate(events, 1))
    return {
        "/events$": answer(text, kind="text/event-stream") if whole else answer(text)[:-20],
        "/executions$": answer('{"session": "x", "n": 1, "status": "queued"}', "202 Accepted"),
    }


OK = ("done", '{"status": "ok", "exitCode": 0}')


@pytest.mark.parametrize(
    ("answers", "exit_code", "said"),
    [
        (stream(OK), 0, ""),
        # No end that was not seen is a success.
        (stream(("stdout", '{"text": "a"}')), 125, "may still run"),
        (stream(OK, whole=False), 125, "may still run"),
        (stream(("done", '{"status": "wonderful"}')), 125, "not known whether it ran"),
        (stream(("done", "[]")), 125, "may still run"),
        (stream(("done", '{"status": "error", "exitCode": 0}')), 1, ""),
        (stream(("done", '{"status": "error", "exitCode": 256}')), 1, ""),
        (stream(("done", '{"status": 1, "stdout": [], "state": "x", "files": 7, "error": {"traceback": {"a": 1}}}')), 125, "not known whether"),
        (stream(("started", '{"state": {"was": "lost", "reason": "\\u001b[2J"}}'), OK), 0, r"variables are lost: \x1B[2J"),
        (stream(("display", '{"file": "\\u001b[2J", "mime": []}'), ("display", '{"mime": {"\\u001b[2J": 1}}'), OK), 0, r"figure: \x1B[2J"),
        (stream(("stdout", '{"contentBase64": "!"}'), ("stdout", '{"text": 1}'), ("stdout", "nonsense"), ("nonsense", "{}"), OK), 0, ""),
        ({"": b"no HTTP"}, 125, "cannot ask the server"),
        ({"": answer("nonsense")}, 125, "is no JSON"),
        ({"": answer("<html>\x1b[2J", "500 Oops")}, 125, "HTTP status 500 and no reason"),
        ({"": answer('{"detail": "\\u001b[2J", "remedy": "\\u202e"}', "409 No")}, 125, r"\x1B[2J; \u202E"),
        ({"": answer('{"n": -1}', "202 Accepted")}, 125, "has no execution"),
        ({"": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"}, 125, "HTTP status 302"),
    ],
)
def test_a_server_is_believed_little(offline, answers, exit_code, said):
    liar = Liar(offline.folder / "lies", answers)
    try:
        result = offline("session", "run", NEVER, "-c", "1", "--state", offline.folder / "lies")
    finally:
        liar.close()
    assert result.code == exit_code and said in result.err, str(result)
    assert "\x1b" not in result.err and "\x1b" not in result.out


@pytest.mark.parametrize("interrupted", [b"HTTP/1.1 204 No Content\r\n\r\n", Liar.HELD])
def test_a_second_ctrl_c_leaves_it_to_itself(offline, interrupted):
    """Of a server that hears the first one, and does nothing; or that does not even answer."""
    events = b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nevent: stdout\ndata: {"text": "go\\n"}\n\n'
    liar = Liar(offline.folder / "lies", {**stream(), "/events$": events + Liar.HELD, "/interrupt$": interrupted})
    try:
        process = offline.popen("session", "run", NEVER, "-c", "1", "--state", offline.folder / "lies")
        assert process.stdout.readline() == b"go\n"
        process.send_signal(signal.SIGINT)
        wait_until(lambda: [path for path in liar.asked if path.endswith("/interrupt")])
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60 * PATIENCE)
    finally:
        liar.close()
    assert process.returncode == 125 and f"may still run. What becomes of it, once a server runs: berth session history {NEVER} 1".encode() in err


def test_lists_of_a_server_that_lies(offline):
    items = '{"items": [{"id": "\\u001b[2J", "status": 1}, 5, null, {"id": "s-x", "labels": [], "expiresAt": "soon"}], "cursor": "again"}'
    liar = Liar(offline.folder / "lies", {"cursor=": answer('{"items": 3}'), "": answer(items)})
    try:
        for args in (["list"], ["history", NEVER], ["files", "list", NEVER], ["list", "--json"]):
            listed = offline("session", *args, "--state", offline.folder / "lies").expect(0)
            assert "\x1b" not in listed.out + listed.err
        shown = offline("session", "create", "--env", "x", "--state", offline.folder / "lies").expect(1)
        assert "has no session" in shown.err
    finally:
        liar.close()
