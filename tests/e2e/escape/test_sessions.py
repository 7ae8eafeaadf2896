# SPDX-License-Identifier: Apache-2.0
"""One session against another, its own worker and the server: from inside, by whatever leaves a sandbox, and by signals."""

import concurrent.futures
import fcntl
import glob
import json
import os
import shlex
import signal
import socket
import time
from pathlib import Path

import probes
import pytest
from conftest import USERS
from in_sessions import TOKEN


@pytest.fixture(params=USERS)
def served(request, boxes):
    return boxes(request.param, served=True).in_sessions().for_module(request.module)


@pytest.fixture
def session(served):
    """One of this test's own."""
    made = served.create()
    yield made
    served.call("DELETE", f"/v1/sessions/{made}")


def brief(result):
    return result["status"], (result["value"] or {}).get("text"), (result["error"] or {}).get("name")


def paths(rows):
    return [row["path"] for row in rows]


def on_disk(served, session):
    """Its durable workspace."""
    return served.stack / f".berth/local/escape/workspaces/sessions/{session}/workspace"


# --- what is in reach ---

LOOK = """
import json, os, socket
answers = {{"names": {{}}, "sockets": {{}}, "fds": {{}}}}
for path in {folders!r}:
    try: answers["names"][path] = sorted(os.listdir(path))
    except OSError as error: answers["names"][path] = error.errno
for path in {sockets!r}:
    with socket.socket(socket.AF_UNIX) as probe:
        answers["sockets"][path] = probe.connect_ex(path)
for name in os.listdir("/proc/self/fd"):
    try: answers["fds"][name] = os.readlink("/proc/self/fd/" + name).split(":")[0]
    except OSError: pass
answers["programs"] = sorted({{open(f"/proc/{{pid}}/cmdline").read().split("\\0")[0] for pid in os.listdir("/proc") if pid.isdigit()}})
print(json.dumps(answers))
"""


def test_what_a_session_sees_of_others(served, session):
    """Neither the sockets of workers and server, nor another's files or processes; no descriptor but its own."""
    folder, own = served.sockets(), str(on_disk(served, session))
    code = LOOK.format(
        folders=[folder, os.path.dirname(folder), str(served.stack), own, "/tmp", "/run", "/run/berth"],
        sockets=[f"{folder}/{session}", f"{folder}/{served.session}", str(served.stack / ".berth/serve.sock")],
    )
    answers = served.tell(code)
    assert all(code == 2 for code in answers["sockets"].values()), answers  # ENOENT
    names = answers["names"]
    assert (names["/run"], names["/run/berth"]) == (["berth"], ["berth-runtime"])
    assert not [path for path in (folder, str(served.stack), own) if names[path] != 2], names
    assert set(answers["programs"]) <= {"/usr/bin/bwrap", "/run/berth/berth-runtime", "python3", "bwrap"}
    assert all(to in ("/dev/null", "pipe", "socket") or to.startswith("/proc/") for to in answers["fds"].values()), answers["fds"]


def test_nothing_of_the_server_is_inside(served, session):
    """Its token, its variables, its clients' names, its folder: in no memory, environment or file that a session can read."""
    texts = [TOKEN, str(served.folder), "company/alice", "leaked-aws", "leaked-berth", session]
    code = shlex.join(["exec", "python3", "-c", probes.CANARIES, json.dumps([text[::-1] for text in texts])])
    served.run("'a kernel, too'", session)
    told = json.loads(served.run(code, session, language="sh")["stdout"]["content"])
    assert told["found"] == [] and told["processes"] >= 3 and told["looked"] > 1 << 20, told


def test_each_session_has_a_user_of_its_own(served, session):
    for each in (served.session, session):
        served.run("'until it runs, it may still be set up'", each)
    first, second = ({Path(f"/proc/{child}").stat().st_uid for child in children(served.worker(s))} for s in (served.session, session))
    assert 0 not in first | second and len(first) == len(second) == 1
    if served.user != "ordinary":
        assert first != second
    # Who is that user, by whatever hole, still reaches no socket: the folder is its owner's alone.
    folder = os.stat(served.sockets())
    launched = served.user == "launched"
    assert (folder.st_mode & 0o777, folder.st_uid) == ((0o711, 0) if launched else (0o700, served.uid))
    assert all(os.stat(path).st_mode & 0o077 == 0 for path in glob.glob(f"{served.sockets()}/*"))


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


ATTACKS_ON_ITS_KEEPERS = """
import ctypes, os
libc, found, runtime = ctypes.CDLL(None, use_errno=True), [], os.getppid()
for pid in (runtime, 1):
    for name in ("mem", "environ", "fd", "maps", "root", "cwd", "exe"):
        for look in (os.listdir, os.readlink, lambda path: open(path, "rb").read(1)):
            try:
                look(f"/proc/{pid}/{name}")
                found.append(f"{pid} {name}")
            except OSError: pass
    if libc.ptrace(16, pid, 0, 0) == 0: found.append(f"ptrace {pid}")
    for number in (310, 311):
        if libc.syscall(number, pid, 0, 0, 0, 0, 0) == 0: found.append(f"memory of {pid}")
    if libc.syscall(438, os.pidfd_open(pid), 0, 0) >= 0: found.append(f"descriptor of {pid}")
for number in (0, 9, 11, 15, 18, 19): os.kill(1, number)   # process 1 of a namespace hears none of its own
for number in (1, 2, 9, 10, 13, 15, 19): os.kill(runtime, number)   # which is process 1
try: os.kill(-1, 9)
except ProcessLookupError: pass
found
"""


def test_its_keepers_are_out_of_reach(served, session):
    assert brief(served.run("x = 'still here'", session)) == ("ok", None, None)
    assert brief(served.run(ATTACKS_ON_ITS_KEEPERS, session)) == ("ok", "[]", None)
    assert brief(served.run("x", session)) == ("ok", "'still here'", None)


@pytest.mark.parametrize("code", ["os.kill(os.getpid(), 9)", "os.abort()"])
def test_code_that_kills_all_it_can(served, session, code):
    """The execution is over, the session is not, nobody else has noticed."""
    other = served.run("import os; os.getpid()")
    gone = served.run(f"import os, time\nopen('before', 'w').write('b')\n{code}\ntime.sleep(60)", session)
    assert (gone["status"], gone["exitCode"]) == ("killed", None)
    after = served.run("open('before').read()", session)
    assert brief(after) == ("ok", "'b'", None) and (after["state"]["was"], bool(after["state"]["reason"])) == ("lost", True)
    assert served.run("os.getpid()")["value"] == other["value"]


CROWD = """
import os, time
try:
    while True:
        if os.fork() == 0: time.sleep(600)
except OSError: pass
"""


def test_a_user_is_free_once_its_processes_are_gone(served):
    """The next sandbox of that user begins among none of the last one's, which take their time to die: it could not even be set up."""
    for _ in range(5 if os.environ.get("BERTH_EXHAUSTIVE") else 2):
        crowded = served.create()
        served.run(CROWD, crowded)
        served.finish(crowded)
        after = served.create()
        assert brief(served.run("'alone'", after)) == ("ok", "'alone'", None)
        served.finish(after)


def test_locks_and_names_are_nobody_elses(served, session):
    """By the lock of a file of the machine, or an abstract socket's name, two sessions could tell each other things."""
    code = (
        "import fcntl, os, socket\nfile = os.open('/usr/bin/env', os.O_RDONLY)\nfcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "name = socket.socket(socket.AF_UNIX); name.bind('\\0berth-names'); name.listen()\n'taken'"
    )
    assert brief(served.run(code, session)) == brief(served.run(code)) == ("ok", "'taken'", None)
    with open("/usr/bin/env", "rb") as file, socket.socket(socket.AF_UNIX) as name:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        name.bind("\0berth-names")


# --- what it leaves behind in its workspace ---

ODD_FILES = r"""
import os, socket, stat
open('a\nb', 'w').write('x'); open('c\x1b[31m', 'w').write('y'); open(b'\xff\xfe', 'w').write('z'); open('-rf', 'w').write('')
os.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('socket')
for name, to in (('link', '/etc/passwd'), ('up', '../../../../../etc'), ('magic', '/proc/self/root/etc'), ('loop', 'loop')): os.symlink(to, name)
try: os.mknod('device', stat.S_IFCHR | 0o666, os.makedev(1, 3))
except OSError as error: print(error.errno)
for _ in range(200): os.mkdir('d'); os.chdir('d')
os.chdir('/workspace')
try: os.truncate(os.open('hole', os.O_CREAT | os.O_RDWR), 1 << 40)
except OSError as error: print(error.errno)
os.remove('hole')
open('s', 'w').write('s'); os.chmod('s', 0o6755)
"""


def test_odd_files(served, session):
    result = served.run(ODD_FILES, session)
    assert (result["status"], result["stdout"]["content"]) == ("ok", "1\n27\n")
    assert sorted(paths(result["files"]["changed"])) == ["-rf", "a\nb", "c\x1b[31m", "s"]
    left = {row["path"]: row["reason"] for row in result["files"]["skipped"]}
    assert set(left) == {"fifo", "socket", "link", "up", "magic", "loop", "\\xFF\\xFE", "/".join("d" * 65)}
    outside = on_disk(served, session)
    assert not [p for p in outside.rglob("*") if p.is_symlink() or not (p.is_file() or p.is_dir())]
    assert (outside / "s").stat().st_mode & 0o7777 in (0o700, 0o755) and (outside / "s").stat().st_uid == served.uid
    again = served.run("import os; sorted(os.listdir())[:3]", session)
    assert again["files"]["changed"] == again["files"]["deleted"] == []


TOO_MUCH = """
import os
def hole(name):
    file = os.open(name, os.O_CREAT | os.O_RDWR); os.truncate(file, 300 << 20); os.close(file)
for n in range(1000): hole(f"hole{n}")
for n in range(1000): os.link("hole0", f"link{n}")
"""


def test_holes_and_links_do_not_fill_the_disk(served, session):
    """Each says 300 MB of a workspace that has 512: one has a place, and of the others not a byte is written on the way."""
    result = served.run(TOO_MUCH, session)
    # Of what is left out, not all is listed by every way.
    assert paths(result["files"]["changed"]) == ["hole0"] and len(result["files"]["skipped"]) >= 999
    assert brief(served.run("import os\nfor name in os.listdir(): os.remove(name)", session)) == ("ok", None, None)
    assert list(on_disk(served, session).iterdir()) == []


def test_a_link_where_a_folder_was(served, session):
    """A folder becomes a link to somewhere else after it was brought out: nothing is written through it, nor removed."""
    victim = served.folder / "victim"
    victim.mkdir(exist_ok=True)
    (victim / "kept").write_text("kept")
    served.run("import os; os.makedirs('a/b'); open('a/b/kept', 'w').write('x')", session)
    result = served.run(f"import shutil; shutil.rmtree('a'); os.symlink({str(victim)!r}, 'a')", session)
    assert result["files"]["deleted"] == ["a/b/kept"]
    served.run("os.remove('a'); os.mkdir('a'); open('a/kept', 'w').write('changed')", session)
    assert (victim / "kept").read_text() == "kept" and (on_disk(served, session) / "a/kept").read_text() == "changed"


# --- what it says ---

SAYS_ODD_THINGS = r"""
class Odd:
    def __repr__(self): return '\ud800 lone \x00 nul \x1b[31m ' + 'x' * 200000
    def _repr_mimebundle_(self, **options):
        return {'text/html': '<script>\ud800\x00</script>', 'x' * 5000: 'a', 'text/plain\r\nX: y': 'b', '': 'c', 'image/png': b'\x00\xff'}
import os
os.write(1, b'\xed\xa0\x80\x00\xff'); os.write(2, b'\x1b]0;title\x07')
Odd()
"""
DEEP = """
class Deep:
    def _repr_mimebundle_(self, **options):
        value = []
        for _ in range(5000): value = [value]
        return {'application/json': value}
Deep()
"""


def test_odd_things_said(served, session):
    result = served.run(SAYS_ODD_THINGS, session)
    assert result["status"] == "ok" and len(result["value"]["text"]) <= 64 << 10
    assert (result["stdout"]["encoding"], result["stdout"]["bytesTotal"]) == ("base64", 5)
    assert all(not set("\r\n") & set(kind) and kind for shown in result["displays"] for kind in shown["mime"])
    assert served.run(DEEP, session)["status"] in ("ok", "error")
    assert brief(served.run("raise type('E' * 100000, (Exception,), {})('\\ud800' * 1000)", session))[0] == "error"
    history = served.call("GET", f"/v1/sessions/{session}/executions")[1]["items"]
    assert [row["status"] for row in history][0] == "ok" and len(history) == 3


LIES = {
    "an end that never was": "for fd in range(3, 64): put(fd, message({'type': 'done', 'n': n, 'status': 'ok'}))",
    "an end of another": "for fd in range(3, 64): put(fd, message({'type': 'done', 'n': 9999}))",
    "a flood": "for fd in range(3, 64): [put(fd, os.urandom(65536)) for _ in range(100)]",
    "half a message": "for fd in range(3, 64): put(fd, message({'type': 'done'})[:6])\ntime.sleep(600)",
    "a length beyond all": "for fd in range(3, 64): put(fd, b'\\xff' * 8)",
    "deep JSON": "for fd in range(3, 64): put(fd, raw(b'[' * 5000 + b']' * 5000))",
    "a kernel that goes on twice": "if os.fork() == 0: pass",
}
LIAR = """
import json, os, struct, time
def raw(data): return struct.pack(">II", len(data), 0) + data
def message(head): return raw(json.dumps(head).encode())
def put(fd, data):
    try:
        os.set_blocking(fd, False); os.write(fd, data)
    except OSError: pass
n = {n}
{lie}
"""


@pytest.mark.parametrize("lie", LIES)
def test_a_kernel_that_lies(served, session, lie):
    """It is its session's trouble alone: one number has one end, what was printed is what comes, and the next one is answered."""
    served.run("before = 1", session)
    lied = served.run(LIAR.format(n=2, lie=LIES[lie]), session, timeoutSeconds=3)
    assert lied["n"] == 2 and lied["status"] in ("ok", "error", "killed", "timeout"), lied
    after = served.run("6 * 7", session)
    assert (after["n"], *brief(after)) == (3, "ok", "42", None), after
    assert served.call("GET", f"/v1/sessions/{session}/executions/2")[1]["status"] == lied["status"]
    assert brief(served.run("'others'")) == ("ok", "'others'", None)


def peak_kb(process):
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    return 0


def test_floods_are_bounded(served, session):
    """Of output, displays and names: counted to the end, kept as far as may be, and the server's memory has a bound."""
    flood = served.run("import sys\nfor _ in range(100): sys.stdout.write('x' * 1000000)", session)
    assert (flood["stdout"]["bytesTotal"], flood["stdout"]["bytesReturned"], flood["stdout"]["truncated"]) == (100_000_000, 1 << 20, True)
    code = "import sys\nclass Shown:\n    def _repr_html_(self): return 'h' * 300000\nfor _ in range(100): sys.displayhook(Shown())\nShown()"
    shown = served.run(code, session)
    assert sum(len(text) for row in shown["displays"] for text in row["mime"].values()) <= 32 << 20
    names = "import os\nfor n in range(1000): open('\\x01' * 200 + str(n), 'w').close()"
    assert len(served.run(names, session)["files"]["changed"]) == 1000
    assert peak_kb(served.process) < 400 * 1024, "kilobytes; sanitizers take most of it"


def test_many_at_once(served, session):
    """One runs, eight wait, none runs twice or beside another, the rest is told that there is no room."""
    code = "import os, time\nassert not os.path.exists('busy')\nopen('busy', 'w').close(); time.sleep(0.02); os.remove('busy')\nopen('log', 'a').write('x')"
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda _: served.call("POST", f"/v1/sessions/{session}/executions", {"code": code}), range(24)))
    ran = [answer for status, answer in answers if status == 200]
    assert {status for status, _ in answers} <= {200, 429} and len(ran) >= 9
    assert {answer["status"] for answer in ran} == {"ok"} and len({answer["n"] for answer in ran}) == len(ran)
    assert served.run("len(open('log').read())", session)["value"]["text"] == str(len(ran))


# --- what stands still ---


@pytest.fixture
def all_served(boxes):
    """Of every way that can be had here, for what is waited for in all of them at once."""
    users = USERS if os.geteuid() == 0 else ["ordinary"]
    return [boxes(user, served=True).in_sessions() for user in users]


def test_a_runtime_and_a_worker_that_stand_still(all_served):
    """Whoever enforces the deadline inside is stopped: the sandbox is killed from outside. Others do not wait for that."""
    waiting = []
    for served in all_served:
        session, other, third = served.create(), served.create(), served.create()
        served.run("import os, signal, time\nopen('kept', 'w').write('k')", session)
        late = served.begin("os.kill(1, signal.SIGSTOP); os.kill(os.getppid(), signal.SIGSTOP); time.sleep(600)", session, timeoutSeconds=1)
        path = served.begin("import time\ntime.sleep(600)", other, timeoutSeconds=1)
        worker = served.worker(other)
        waiting.append((served, session, late, third, [worker, *children(worker)], path))
        os.kill(worker, signal.SIGSTOP)
        assert served.call("DELETE", f"/v1/sessions/{other}")[0] == 204
        assert brief(served.run("'others'", third)) == ("ok", "'others'", None)
    for served, session, late, third, stopped, path in waiting:
        served.wait_for(lambda served=served, path=path: served.call("GET", path)[1]["status"] == "killed")
        result = served.result(late)
        assert (result["status"], result["exitCode"]) == ("timeout", None)
        assert brief(served.run("open('kept').read()", session)) == ("ok", "'k'", None)
        served.wait_for(lambda stopped=stopped: not any(Path(f"/proc/{pid}").exists() for pid in stopped))
        served.finish(session)
        served.finish(third)


def test_a_server_that_stands_still(served, session):
    """The code goes on meanwhile, as far as its worker keeps what it says; nothing is lost."""
    path = served.begin("import sys\nfor _ in range(30): sys.stdout.write('x' * 1000000)\nopen('end', 'w').write('e')", session)
    os.kill(served.process.pid, signal.SIGSTOP)
    time.sleep(0.5)
    os.kill(served.process.pid, signal.SIGCONT)
    result = served.result(path)
    assert (result["status"], result["stdout"]["bytesTotal"], paths(result["files"]["changed"])) == ("ok", 30_000_000, ["end"])
