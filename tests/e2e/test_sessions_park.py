# SPDX-License-Identifier: Apache-2.0
"""
Sessions that are parked: what comes back, what is lost and said to be, and who may die in the middle of it. The servers here park what
was idle for a second, so that any execution may find its memory kept or restored: what matters is that it is the same.
"""

import hashlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from binary import Berth
from controllers import wait_until
from lib.lab import stack
from lib.parked import CLIENTS, SOON, served
from lib.warm import lives


@pytest.fixture(scope="module")
def parking(binary, tmp_path_factory):
    yield from served(Berth(binary, tmp_path_factory.mktemp("parking"), "http://127.0.0.1:1"))


MUCH = """
import math, itertools
class Point:
    def __init__(self, x): self.x = x
    def double(self): return Point(self.x * 2)
def add(point, n): return Point(point.x + n + offset)
offset = 10
points = [Point(1), Point(2)]; same = points
endless = itertools.count(); made = (i for i in range(3)); opened = open("/etc/passwd")
"""


def test_what_comes_back(parking):
    wish = {"conversation": "chat"}
    session = parking.session_with(MUCH, **wish)
    assert parking.value_and_state(session, "other = 'of another context'; 1", context="second")[1]["was"] in ("new",)
    parking.wait_until_parked(session)
    kept = parking.checkpoint(session)
    assert kept.stat().st_mode & 0o777 == 0o600 and kept.name in (f"checkpoint-{hashlib.sha256(kept.read_bytes()).hexdigest()[:32]}",)
    assert not list(parking.sockets.glob(f"{session}*")) and not list(parking.beside(session).glob("workspace/*"))
    # It is the conversation's, parked or not, and no server that comes starts anything for it.
    parking.again()
    assert parking.call("POST", "/v1/sessions", {"environment": "data", **wish}).json()["id"] == session
    assert parking.call("PATCH", f"/v1/sessions/{session}", {"labels": {"a": "b"}}).json()["status"] == "parked"
    assert parking.show(session)["status"] == "parked" and not list(parking.sockets.glob(f"{session}*"))
    text, state = parking.value_and_state(session, "offset = 20\n(add(points[1].double(), 0).x, same is points, type(points[0]) is Point, math.pi > 3)")
    assert text == "(24, True, True, True)", state
    assert (state["generation"], state["was"], state["reason"]) == (2, "restored", "it was parked")
    assert {"Point", "add", "offset", "points", "same", "math"} <= set(state["restored"])
    lost = {row["name"]: row for row in state["lost"]}
    assert {"made", "opened"} <= set(lost) and lost["made"]["type"] == "generator" and lost["opened"]["why"], lost
    text, state = parking.value_and_state(session, "other", context="second")
    assert text == "'of another context'" and state["was"] in ("restored", "kept") and state["restored"] in (["other"], [])
    assert parking.run(session, "made")["error"]["name"] == "NameError"
    # Its end takes the checkpoint with it.
    parking.wait_until_parked(session)
    assert parking.call("DELETE", f"/v1/sessions/{session}").status == 204
    wait_until(lambda: not [f for f in parking.beside(session).iterdir() if f.name.startswith(("checkpoint-", "park"))])


def test_a_checkpoint_that_is_not_what_was_written(parking):
    """Damaged, gone, or another session's: none of it is loaded, and the state says why."""
    damaged, gone, swapped, whole = (parking.session_with(f"secret = 'of number {i}'") for i in range(4))
    parking.wait_until_parked(damaged, gone, swapped, whole)
    parking.stop()
    data = bytearray(parking.checkpoint(damaged).read_bytes())
    data[len(data) // 2] ^= 1
    parking.checkpoint(damaged).write_bytes(data)
    parking.checkpoint(gone).unlink()
    parking.checkpoint(swapped).write_bytes(parking.checkpoint(whole).read_bytes())
    parking.start("--accept-degraded")
    for session, why in ((damaged, "damaged"), (gone, "no longer exists"), (swapped, "damaged")):
        text, state = parking.value_and_state(session, "'secret' in globals()")
        assert (text, state["was"], state["restored"]) == ("False", "lost", []) and why in state["reason"], state
        assert parking.value_and_state(session, "x = 1; x")[0] == "1"
    assert parking.value_and_state(whole, "secret")[0] == "'of number 3'"


DATED = """
import os
def facts(path):
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size, status.st_blocks * 512 < 200_000, bool(status.st_mode & 0o100)
def write(path, text, *times):
    with open(path, 'w') as file: print(text, end='', file=file)
    os.utime(path, ns=times)
os.mkdir('in')
write('in/old', 'old', 10**18, 10**18 + 5)
write('script', 'text', 1, 1_500_000_000 * 10**9)
os.chmod('script', 0o755)
with open('sparse', 'wb') as file:
    file.seek(5_000_000); file.write(b'end')
    file.seek(2_000_000); file.write(b'middle'); file.truncate(9_000_000)
os.utime('sparse', ns=(2 * 10**18, 10**18))
with open('plain', 'wb') as file: file.write(b'x' * 300_000 + bytes(300_000) + b'y')
del file
def content(): return open('sparse', 'rb').read().strip(bytes([0]))[:6], open('sparse', 'rb').read()[5_000_000:5_000_003], len(open('plain', 'rb').read().replace(bytes([0]), b''))
before = [facts(path) for path in ('in/old', 'script', 'sparse')], content()
"""


def test_dates_and_holes_of_files(parking):
    session = parking.session_with(DATED)
    parking.wait_until_parked(session)
    text, state = parking.value_and_state(session, "before == ([facts(path) for path in ('in/old', 'script', 'sparse')], content()), before")
    assert text.startswith("(True, ") and ", True, False)" in text and "(1000000000000000005, 3," in text, text
    # Touched alone: no content has changed. Dates that are none become others, and do no harm.
    assert parking.run(session, "os.utime('in/old', ns=(7, 3 * 10**17)); os.utime('script', (2**40, 2**40)); os.utime('plain', (-5, -5))")["status"] == "ok"
    kept = parking.beside(session) / "workspace"
    assert (kept / "in/old").stat().st_mtime_ns == 3 * 10**17 and (kept / "sparse").stat().st_blocks * 512 < 200_000
    parking.wait_until_parked(session)
    assert parking.value_and_state(session, "facts('in/old')[0], content()[2], os.stat('plain').st_mtime > 0")[0] == "(300000000000000000, 300001, True)"


def test_what_is_beside_variables_and_files(parking):
    session = parking.session_with("import os, random\nos.makedirs('sub'); open('sub/f', 'w').write('x'); os.chdir('sub'); os.environ['K'] = 'v'; random.seed(1); open('/tmp/mine', 'w').write('x')")
    parking.wait_until_parked(session)
    text, state = parking.value_and_state(session, "open('f').read(), os.environ['K'], random.random()")
    assert text == "('x', 'v', 0.13436424411240122)" and [(row["name"], row["why"]) for row in state["lost"]] == [("/tmp/mine", "it is outside of the workspace")], state


# Modules of the workspace, and values that read a file of it as they are restored.
MODULES = """
import os, sys
os.makedirs('package/inner')
for path, text in (('helper.py', 'class K: v = 2'), ('package/__init__.py', ''), ('package/inner/__init__.py', 'def f(): return 3'), ('data.txt', 'text')):
    with open(path, "w") as file: print(text, end="", file=file)
del file, path, text
import helper, package.inner as inner
from helper import K
from package.inner import f
class Reads:
    def __setstate__(self, state): self.text = open('data.txt').read()
    def __getstate__(self): return 1
k, reads = K(), Reads()
"""


def test_files_are_there_before_variables(parking):
    session = parking.session_with(MODULES)
    parking.wait_until_parked(session)
    text, state = parking.value_and_state(session, "k.v, type(k) is helper.K is K, f(), inner.f is f, reads.text")
    assert text == "(2, True, 3, True, 'text')" and (state["was"], state["lost"]) == ("restored", []), state
    # What is restored of one that is gone is lost, and named. A file that code writes as it is restored is kept.
    assert parking.run(session, "os.unlink('data.txt'); Reads.__setstate__ = lambda self, state: print('w', end='', file=open('written', 'w')); os.unlink('helper.py')")["status"] == "ok"
    parking.wait_until_parked(session)
    text, state = parking.value_and_state(session, "open('written').read(), 'k' in globals()")
    assert text == "('w', False)" and {"helper", "K", "k"} == {row["name"] for row in state["lost"]}, state
    assert parking.call("GET", f"/v1/workspaces/{session}/files/written").body == b"w"


SLOW = "class Slow:\n    def __reduce__(self):\n        import time; time.sleep({seconds}); return (str, ('slow',))\nx = 'still here'; slow = Slow()"


def processes_below(pid):
    """All, the nearest first."""
    found = [pid]
    for parent in found:
        for entry in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = entry.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent and int(entry.parent.name) not in found:
                found.append(int(entry.parent.name))
    return found[1:]


@pytest.mark.parametrize("victim", ["server", "worker", "runtime", "nobody"])
def test_who_dies_while_it_is_parked(parking, victim):
    """Its memory is kept, or restored, or said to be lost: never anything else."""
    session = parking.session_with(SLOW.format(seconds=0.7))
    wait_until(lambda: (parking.beside(session) / "parking").exists())
    if victim == "server":
        parking.again()
    elif victim != "nobody":
        try:
            worker = parking.worker(session)
            runtimes = [p for p in processes_below(worker) if Path(f"/proc/{p}/cmdline").read_bytes().startswith(b"/run/berth/berth-runtime")]
            os.kill(worker if victim == "worker" else runtimes[0], signal.SIGKILL)
        except (OSError, IndexError):
            pass  # it was faster: parked already
    text, state = parking.value_and_state(session, "str(globals().get('x'))")
    assert (text, state["was"]) in (("'still here'", "kept"), ("'still here'", "restored"), ("'None'", "lost")), state
    assert state["was"] == "kept" or state["reason"]
    assert state["was"] != "lost" or victim in ("worker", "runtime"), state


def test_an_older_checkpoint(parking):
    """A worker that is killed after more has run, once with a server and once without."""
    session = parking.session_with("x = 'old'")
    path = f"/v1/sessions/{session}/executions"
    for n, killed in ((2, "worker"), (4, "server and worker")):
        parking.wait_until_parked(session)
        assert parking.call("POST", path, {"code": "x = 'new'; import time; time.sleep(600)"}, headers=[("Prefer", "respond-async")]).json()["n"] == n
        parking.wait_for_start(session, n)
        worker = parking.worker(session)
        if killed != "worker":
            parking.stop(signal.SIGKILL)
        os.kill(worker, signal.SIGKILL)
        if killed != "worker":
            wait_until(lambda: not lives(worker))
            parking.start("--accept-degraded")
        assert parking.follow(f"{path}/{n}/events")[-1][2]["status"] in ("killed", "failed")
        text, state = parking.value_and_state(session, "x")
        assert (text, state["was"]) == ("'old'", "restored"), state
        assert "what came after it is lost" in state["reason"]


def test_a_worker_that_is_told_to_end(parking):
    session = parking.session_with("x = 'kept'; import time")
    path = f"/v1/sessions/{session}/executions"
    assert parking.call("POST", path, {"code": "time.sleep(600)"}, headers=[("Prefer", "respond-async")]).json()["n"] == 2
    parking.wait_for_start(session, 2)
    worker = parking.worker(session)
    os.kill(worker, signal.SIGTERM)
    assert parking.call("POST", f"{path}/2/interrupt").status == 204
    wait_until(lambda: not lives(worker))
    parking.wait_until_parked(session)
    assert parking.value_and_state(session, "x += '!'; x")[0] == "'kept!'"
    # With nobody there it does that by itself, when what runs has ended; and who comes soon hears of that.
    assert parking.call("POST", path, {"code": "import time; time.sleep(1); x += '?'; open('file', 'w').write(x); x"}, headers=[("Prefer", "respond-async")]).json()["n"] == 4
    parking.wait_for_start(session, 4)
    worker = parking.worker(session)
    parking.stop(signal.SIGKILL)
    os.kill(worker, signal.SIGTERM)
    wait_until(lambda: (parking.beside(session) / "parked").stat().st_size > 0)
    parking.start("--accept-degraded")
    assert parking.follow(f"{path}/4/events")[-1][2]["value"]["text"] == "'kept!?'"
    parking.wait_until_parked(session)
    assert not lives(worker) and (parking.beside(session) / "workspace/file").read_text() == "kept!?"
    text, state = parking.value_and_state(session, "x")
    assert (text, state["was"], state["reason"]) == ("'kept!?'", "restored", "it was parked"), state


def test_a_worker_that_is_told_to_end_long_before_anybody_comes(parking):
    """Nothing is left to be heard: it is gone at once, and what it left is found."""
    session = parking.session_with("x = 'kept'")
    parking.wait_until_parked(session)
    parking.stop()
    parking.configure(clients=CLIENTS)
    parking.start("--accept-degraded")
    assert parking.value_and_state(session, "x += '!'; x")[0] == "'kept!'"
    worker = parking.worker(session)
    parking.stop()
    parking.configure(clients=CLIENTS, sessions=SOON)
    os.kill(worker, signal.SIGTERM)
    wait_until(lambda: not lives(worker))
    parking.start("--accept-degraded")
    parking.wait_until_parked(session)
    text, state = parking.value_and_state(session, "x")
    assert (text, state["was"], state["reason"]) == ("'kept!'", "restored", "it was parked"), state


def test_memory_that_kills_whoever_restores_it(parking):
    """It was the session's own code: that costs the session its memory, and nobody a cell."""
    bomb = "class Bomb:\n    def __reduce__(self): return (eval, (\"__import__('os').kill(__import__('os').getppid(), 9)\",))\nbomb, x = Bomb(), 'harmless'"
    session = parking.session_with(bomb)
    parking.wait_until_parked(session)
    text, state = parking.value_and_state(session, "open('ran', 'a').write('once'); str(globals().get('x'))")
    assert (text, state["was"]) in (("'None'", "lost"), ("'harmless'", "restored")) and state["reason"], state
    assert (parking.beside(session) / "workspace/ran").read_text() == "once"
    assert parking.value_and_state(session, "1 + 1")[0] == "2"


@pytest.fixture
def full(binary, tmp_path):
    """A server whose workspaces are on a file system of 4 MB."""
    berth = Berth(binary, tmp_path, "http://127.0.0.1:1")
    berth.write("stack.yaml", stack())
    berth("apply", "--yes").expect(0)
    folder = berth.stack / ".berth/local/lab/workspaces"
    folder.mkdir(exist_ok=True)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield from served(berth, workspaces={"minFreeMB": 1})
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk(full):
    """It is not parked, and goes on; no half of a file counts. When there is room, it is."""
    session = full.session_with("x = 'still here'; import os; much = os.urandom(1 << 20)")
    filler = full.state / "local/lab/workspaces/filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(bytes(65536)):
                pass
        except OSError:
            pass
    wait_until(lambda: f"session {session}: it is not parked" in full.lines(), 60)
    assert full.show(session)["status"] in ("idle", "running")
    full.call("POST", f"/v1/sessions/{session}/executions", {"code": "x"}).problem(507, "workspace-full")
    filler.unlink()
    full.wait_until_parked(session)
    assert full.value_and_state(session, "x, len(much)")[0] == "('still here', 1048576)"


@pytest.mark.parametrize("end", ["parked", "ended", "restarted"])
def test_files_that_were_left_open(parking, end):
    """As from `berth exec`: they are flushed, `atexit` runs, and both are in the workspace."""
    session = parking.create()
    code = "import atexit\nf = open('left.txt', 'w'); f.write('hello')\natexit.register(lambda: open('atexit.txt', 'w').write('ran'))\nNone"
    assert parking.run(session, code)["status"] == "ok"
    if end == "parked":
        assert parking.call("POST", f"/v1/sessions/{session}/park", {}).status == 200
    elif end == "ended":
        assert parking.call("DELETE", f"/v1/sessions/{session}").status == 204
    else:
        assert parking.call("POST", f"/v1/sessions/{session}/restart", {}).status == 204
        assert parking.run(session, "open('left.txt').read()")["value"]["text"] == "'hello'"
    for name, content in (("left.txt", b"hello"), ("atexit.txt", b"ran")):
        wait_until(lambda: parking.call("GET", f"/v1/workspaces/{session}/files/{name}").body == content)
    if end == "parked":
        assert parking.run(session, "open('left.txt').read()")["value"]["text"] == "'hello'"


def test_the_end_of_a_session_outlives_its_server(parking):
    """The server dies while kernels end: their open files are flushed, and what ran and what waited has an end."""
    session = parking.create()
    # Held up until the kernel's time for `atexit` is over; after that open files are flushed.
    slow = "lambda: (f.write('ran'), time.sleep(10))"
    assert parking.run(session, f"import atexit, time\nf = open('left.txt', 'w')\natexit.register({slow})\nNone")["status"] == "ok"
    path = f"/v1/sessions/{session}/executions"
    for n in (2, 3):
        answer = parking.call("POST", path, {"code": "time.sleep(600)"}, headers=[("Prefer", "respond-async")])
        assert answer.json()["n"] == n
    parking.wait_for_start(session, 2)
    assert parking.call("DELETE", f"/v1/sessions/{session}").status == 204
    parking.again()
    parking.call("GET", f"/v1/sessions/{session}").problem(404, "not-found")
    wait_until(lambda: parking.call("GET", f"/v1/workspaces/{session}/files/left.txt").body == b"ran")
    for n in (2, 3):
        wait_until(lambda: parking.call("GET", f"{path}/{n}").json()["status"] == "killed")
        assert parking.call("GET", f"{path}/{n}").json()["detail"] == "the session was ended"
    wait_until(lambda: not list(parking.sockets.glob(f"{session}*")))


def test_files_that_code_without_a_session_left_open(parking):
    answer = parking.call("POST", "/v1/execute", {"environment": "data", "code": "f = open('left.txt', 'w'); f.write('hello')"})
    assert answer.status == 200 and answer.json()["status"] == "ok"
    workspace = answer.json()["session"]
    wait_until(lambda: parking.call("GET", f"/v1/workspaces/{workspace}/files/left.txt").body == b"hello")
