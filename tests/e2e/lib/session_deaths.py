# SPDX-License-Identifier: Apache-2.0
"""The life of a session that is disturbed at each step of it, and what must hold after."""

import contextlib
import glob
import http.client
import os
import re
import subprocess
from pathlib import Path

import pytest

from binary import is_watched
from controllers import PATIENCE, wait_until
from disk import Disk
from lib.lab import TOKENS, stack
from lib.sessions import CLIENTS, Sessions
from lib.steps import SEED, note, sample

# Each leaves a mark of its own in the workspace, and a variable in the kernel.
CODE = "open('log', 'a').write('{n} ')\nmarks = globals().get('marks', []) + [{n}]\nmarks"
MARKS = "try: log = open('log').read().split()\nexcept FileNotFoundError: log = []\nprint(*log)\nglobals().get('marks')"

# What a folder of sockets begins with: root's, and an ordinary user's.
FOLDERS = ("/run/berth/", "/tmp/berth-", f"{os.environ.get('XDG_RUNTIME_DIR', '/run')}/berth/")


class Life:
    """What one client did, and was told."""

    def __init__(self, serve):
        self.serve, self.session, self.ended, self.told = serve, None, False, {}

    def ask(self, *args, **kwargs):
        """None where nobody answered."""
        try:
            return self.serve.call(*args, **kwargs)
        except (OSError, http.client.HTTPException):
            return None

    def create(self):
        answer = self.ask("POST", "/v1/sessions", {"environment": "data"})
        if answer and answer.status == 201:
            self.session = answer.json()["id"]

    def run(self, n):
        answer = self.ask("POST", f"/v1/sessions/{self.session}/executions", {"code": CODE.format(n=n)}) if self.session else None
        if answer and answer.status == 200:
            self.told[answer.json()["n"]] = answer.json()

    def live(self):
        self.create()
        self.run(1)
        self.run(2)

    def check(self, note):
        """By a server that nobody disturbs: what was told is so, and the session goes on."""
        serve = self.serve
        shown = serve.call("GET", f"/v1/sessions/{self.session}")
        assert shown.status == 200, f"{note}: the session is gone: {shown.body}"
        for n, told in self.told.items():
            kept = serve.call("GET", f"/v1/sessions/{self.session}/executions/{n}").json()
            assert (kept["status"], kept["exitCode"], kept["value"]) == (told["status"], told["exitCode"], told["value"]), (note, told, kept)
        now = serve.run(self.session, MARKS)
        if now["status"] == "killed" or "none of the code ran" in (now["detail"] or ""):  # by what was to come after the last step
            now = serve.run(self.session, MARKS)
        assert now["status"] == "ok", (note, now)
        log = now["stdout"]["content"].split()
        history = serve.call("GET", f"/v1/sessions/{self.session}/executions").items()
        for row in history:
            made = re.match(r"open\('log', 'a'\)\.write\('(\d) '\)", row["code"])
            if not made:
                continue
            text, mark = f"{note}: {row} with {log}", made.group(1)
            assert row["status"] in ("ok", "killed", "failed", "error"), text
            assert log.count(mark) <= 1, f"ran twice: {text}"
            assert row["status"] != "ok" or log.count(mark) == 1, f"a false ok: {text}"
            assert "nothing of it ran" not in (row["detail"] or "") or mark not in log, f"it did run: {text}"
        assert (now["state"]["was"] in ("lost", "restored")) == bool(now["state"]["reason"]), (note, now["state"])
        self.check_memory(note, now)

    def check_memory(self, note, now):
        if now["state"]["was"] == "kept":
            last = self.told[max(self.told)] if self.told else {"status": ""}
            assert last["status"] != "ok" or set(now["value"]["text"]) >= set(last["value"]["text"]), (note, last, now)

    def finish(self, note):
        assert self.serve.call("DELETE", f"/v1/sessions/{self.session}").status == 204
        self.session = None
        wait_until(lambda: not left_of(self.serve), timeout=60)


def workers():
    """The records of workers: the folder of sockets is this state's, and nobody else's of this test."""
    return {path for top in FOLDERS for path in glob.glob(f"{top}s-*/s-*.worker")}


def groups():
    """The cgroups of all sandboxes; each has its worker's identity in its name."""
    return glob.glob("/sys/fs/cgroup/**/run-*", recursive=True)


def lives(identity):
    """PID-START-...: numbers of processes come again."""
    pid, began = identity.split("-")[:2]
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19] == began
    except OSError:
        return False


def left_of(serve):
    """Sockets, processes and cgroups of sessions that have ended: by the identities that were seen while they lived."""
    seen, found = getattr(serve, "seen", set()), groups()
    return [path for path, identity in seen if os.path.exists(path) or lives(identity) or any(f"/run-{identity}-" in group for group in found)]


def worker_of(serve, session):
    """The process id of its worker; it is remembered for left_of()."""
    (path,) = [path for path in workers() if f"/{session}." in path]
    identity = Path(path).read_text().strip()
    pid = int(identity.split("-")[0])
    serve.seen = {*getattr(serve, "seen", set()), (path, identity)}
    return pid


@pytest.fixture
def serve(offline):
    if is_watched(offline.binary):
        pytest.skip("what is preloaded, and what is followed, is not what a sanitizer expects")
    offline.write("stack.yaml", stack())
    offline("apply", "--yes").expect(0)
    # A machine that is busy with something else takes its time for a checkpoint as well.
    made = Sessions(offline, clients=CLIENTS, sessions={"checkpointSeconds": 300})
    made.patience = 120 * PATIENCE  # and so does whoever is followed
    yield made
    if made.process is None or made.process.poll() is not None:
        made.process = None
        made.start("--accept-degraded")
    for session in made.call("GET", "/v1/sessions?limit=1000", token=TOKENS["watcher"]).items():
        made.call("DELETE", f"/v1/sessions/{session['id']}", token=TOKENS["file"])
    assert made.stop() == 0


def start_anew(serve):
    """Killed, and another one, undisturbed."""
    if serve.process:
        serve.process.kill()
        serve.process.wait()
    serve.process = None
    serve.start(*getattr(serve, "options", ("--accept-degraded",)))


def each(serve, steps, most, trial, keeps_none=True):
    """All of them, or a sample; what went wrong is told at the end, and undone."""
    failures, chosen = [], sample(steps, most)
    for number, step in enumerate(chosen, 1):
        try:
            trial(*step)
        except Exception as error:  # an answer that does not come, or that has no value, is a failure as any
            failures.append(f"--- {step}\n{type(error).__name__}: {error}")
            note(failures[-1][:3000])
            start_anew(serve)
            for session in serve.call("GET", "/v1/sessions").items():
                serve.call("DELETE", f"/v1/sessions/{session['id']}")
            if keeps_none:
                serve.stop()
        if number % 50 == 0:
            note(f"{number} of {len(chosen)} steps, {len(failures)} failed")
    assert not failures, f"{len(failures)} of {len(chosen)}; again with BERTH_SEED={SEED}\n" + "\n".join(failures[:10])


class Disturbed:
    """A server at whose n-th write, or word to a worker, something happens."""

    def __init__(self, serve, tmp_path):
        self.serve, self.disk = serve, Disk(tmp_path, serve.state)

    def start(self, mishap="", at=0):
        """False where it died of it at once."""
        try:
            self.serve.start("--accept-degraded", env={**self.disk.env(mishap, at), "DISK_MORE": "1"})
            return True
        except AssertionError:
            if self.serve.process.poll() is None:
                raise
            return False

    def steps(self, life):
        """What one that is not disturbed writes and says."""
        assert self.start()
        life.live()
        assert [told["status"] for told in life.told.values()] == ["ok", "ok"]
        writes = self.disk.writes()
        life.check("undisturbed")
        life.finish("undisturbed")
        assert self.serve.stop() == 0
        return writes

    def dies_at_each(self, count, most, kind, first=1):
        """At each of them from `first` on: before it, amid it, after it."""
        steps = [(mishap, at) for at in range(first, count + 1) for mishap in ("before", "amid", "after")]
        each(self.serve, steps, most, lambda mishap, at: self.trial(kind(self.serve), mishap, at))

    def trial(self, life, mishap, at):
        """Death at the n-th of them, and what the next server finds."""
        serve, note = self.serve, f"{mishap} {at}"
        if self.start(mishap, at):
            life.live()
        start_anew(serve)
        found = serve.call("GET", "/v1/sessions").items()
        assert len(found) <= 1 and life.session in (None, *(s["id"] for s in found)), (note, found)
        life.session = found[0]["id"] if found else None
        if life.session:
            life.check(note)
            life.finish(note)
        assert serve.stop() == 0
        assert not [path for top in FOLDERS for path in glob.glob(f"{top}{serve_folder(serve)}*")], note


def serve_folder(serve):
    """The name of its folder of sockets has the beginning of the state's lineage."""
    lineage = serve.berth("state", "show", "--json").json()["lineage"]
    return f"s-{lineage[:12]}/"


@pytest.fixture(scope="session")
def steps_program(tmp_path_factory):
    program = tmp_path_factory.mktemp("steps") / "steps"
    subprocess.run(["cc", "-O1", "-o", program, Path(__file__).parents[1] / "steps.c"], check=True)
    return program


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def runtime_of(worker):
    """Below process 1 of its sandbox, which is bubblewrap's."""
    waiting = [worker]
    while waiting:
        pid = waiting.pop()
        if b"berth-runtime" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]:
            return pid
        waiting += children(pid)
    raise AssertionError(f"worker {worker} has no runtime")


VICTIMS = {
    "worker": lambda worker: worker,
    "runtime": runtime_of,
    "kernel": lambda worker: children(runtime_of(worker))[0],
}


@contextlib.contextmanager
def following(program, pid, at, *words):
    """Each system call of the process is counted meanwhile, and it is killed at the one of that number; ["count"] afterwards."""
    seen = {}
    with subprocess.Popen([program, str(pid), str(at), *words], stdout=subprocess.PIPE, text=True) as steps:
        try:
            assert steps.stdout.readline() == "ready\n"
            yield seen
        finally:
            steps.terminate()
        *seen["failed"], count = steps.stdout.read().splitlines()
        seen["count"] = int(count)


def dies_at_each_call(serve, program, kind, most, live):
    """`live(life, follow)`: a life of that kind, a part of which is `with follow(pid):`; then what its client was told is so."""
    serve.start("--accept-degraded")

    def trial(at):
        life, seen, note = kind(serve), {}, f"{live.__name__} {at}"

        @contextlib.contextmanager
        def follow(pid, *words):
            with following(program, pid, at, *words) as counted:
                yield
            seen.update(counted)

        live(life, follow)
        assert len(life.told) == 2, f"{note}: not answered"
        life.check(note)
        life.finish(note)
        return seen["count"]

    count = trial(0)
    note(f"{live.__name__}: {count} calls")
    assert count > 5
    each(serve, [(at,) for at in range(1, count + 1)], most, trial, keeps_none=False)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="who follows the runtime needs root's rights")
