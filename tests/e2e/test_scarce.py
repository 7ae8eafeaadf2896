# SPDX-License-Identifier: Apache-2.0
"""
No descriptor, thread or memory is left at one call of the server: it answers truly, loses nothing, and has a further session. It lives,
too, but where memory is lacking: there it may end by abort(), as base/README.md says, and the next one goes on from what was answered.

By default a sample of the calls, the same in each run; another one with BERTH_SEED=TEXT, all of them with BERTH_EXHAUSTIVE=1.
"""

import contextlib
import getpass
import http.client
import os
import resource
import signal
import subprocess

import pytest

from binary import is_watched
from controllers import PATIENCE, wait_until
from lib.lab import TOKENS, client, stack
from lib.launched_sessions import CLIENTS as LAUNCHED, box, launcher, serve as launched  # noqa: F401
from lib.session_deaths import each, following, left_of, needs_root, start_anew, steps_program, worker_of  # noqa: F401
from lib.sessions import Sessions
from lib.steps import EXHAUSTIVE, SEED, note, sample
from scarce import KINDS, Scarce

pytestmark = pytest.mark.timeout(14400 if EXHAUSTIVE else 600)

CLIENTS = [client("users", actsFor="users", realm="company", may=["execute", "containers", "shell"]), client("self", may=["approve"])]
TRUE = (429, 500, 503, 507)  # a problem that says so
BYTES = b"what was put\n"


@pytest.fixture
def serve(offline):
    if is_watched(offline.binary):
        pytest.skip("what is preloaded is not what a sanitizer expects")
    offline.write("stack.yaml", stack())
    offline("apply", "--yes").expect(0)
    shell = {"enabled": True, "user": "nobody" if os.geteuid() == 0 else getpass.getuser()}
    made = Sessions(offline, clients=CLIENTS, sessions={"checkpointSeconds": 300}, shell=shell)
    made.patience, made.decides = 60 * PATIENCE, True
    yield made
    if made.process and made.process.poll() is None:
        made.stop()


class Life:
    """A session's, from its making to its end; what was refused is so, and what was answered is right."""

    true_ends = ("ok", "failed", "killed")

    def __init__(self, serve):
        self.serve, self.session, self.put, self.ended, self.ends = serve, None, False, False, False

    def ask(self, method, path, body=None, right=(200, 201, 202, 204), token=None):
        """None where it was refused in true words, or the connection was not taken."""
        try:
            answer = self.serve.call(method, path, body, token=token)
        except (OSError, http.client.HTTPException):
            return None
        if answer.status in right:
            return answer
        assert answer.status in TRUE, (method, path, answer.status, answer.body)
        found = answer.json()
        assert found["detail"] and "no other user" not in found["detail"] and "too old" not in found["detail"], found
        return None

    def run(self, code, value):
        answer = self.ask("POST", f"/v1/sessions/{self.session}/executions", {"code": code})
        if not answer:
            return
        done = answer.json()
        assert done["status"] in self.true_ends, done
        assert done["status"] == "ok" or done["detail"] or done["error"]["value"], done
        if done["status"] == "ok":
            assert done["value"]["text"] in (repr(value), str(value)), done

    def live(self):
        answer = self.ask("POST", "/v1/sessions", {"environment": "data"})
        if not answer:
            return
        self.session = answer.json()["id"]
        self.run("1 + 1", 2)
        at = f"/v1/workspaces/{self.session}/files/put"
        self.put = self.ask("PUT", at, BYTES) is not None
        got = self.ask("GET", at, right=(200, 404))
        assert not (got and self.put) or (got.status, got.body) == (200, BYTES), got.body
        self.ask("POST", f"/v1/sessions/{self.session}/park", {}, right=(200, 202, 204, 409))
        self.run("2 + 1", 3)
        self.contain()
        if self.serve.decides:
            self.approve()
        listed = self.ask("GET", f"/v1/sessions/{self.session}/executions")
        assert not listed or all(row["status"] in ("ok", "failed", "killed", "running") for row in listed.items()), listed.body

    def contain(self):
        answer = self.ask("POST", "/v1/containers", {"agent": "coder", "command": ["echo", "out"], "waitSeconds": 60})
        if not answer:
            return
        container = answer.json()
        if container["status"] == "exited" and container["exitCode"] == 0:
            assert container["stdout"] == "out\n", container
        else:
            assert container["reason"] in ("could-not-start", "killed", "lost") and container["detail"] or container["exitCode"], container
        self.ask("DELETE", f"/v1/containers/{container['id']}")

    def approve(self):
        """A command on the host, which another client approves."""
        asked = self.ask("POST", "/v1/shell", {"agent": "coder", "command": ["echo", "out"], "cwd": "/", "reason": "to see"})
        if not asked:
            return
        path = f"/v1/approvals/{asked.json()['id']}"
        self.ask("POST", f"{path}/approve", {}, token=TOKENS["self"], right=(200, 409))
        shown = []

        def is_over():
            answer = self.ask("GET", path, token=TOKENS["self"])
            shown[:] = [answer.json()] if answer else []
            return not answer or answer.json()["status"] != "approved"

        wait_until(is_over, timeout=60 * PATIENCE)
        result = shown[0]["result"] if shown else None
        if result and result["status"] == "ok":
            assert (result["exitCode"], result["stdout"]["content"]) == (0, "out\n"), shown
        else:
            assert not result or result["detail"] or result["exitCode"], shown

    def end(self):
        self.ends = True
        self.ended = bool(self.session and self.ask("DELETE", f"/v1/sessions/{self.session}"))

    def check(self, note):
        """By a server that lacks nothing: what it took is there."""
        if self.session and self.ended:
            assert self.serve.call("GET", f"/v1/sessions/{self.session}").status == 404, note
        elif self.session and self.ends and self.serve.call("GET", f"/v1/sessions/{self.session}").status == 404:
            pass  # it has ended, though its client was not told
        elif self.session:
            answer = self.serve.call("GET", f"/v1/sessions/{self.session}")
            assert answer.status == 200, (note, answer.body)
            if self.put:
                got = self.serve.call("GET", f"/v1/workspaces/{self.session}/files/put")
                assert (got.status, got.body) == (200, BYTES), (note, got.status, got.body)
            wait_until(lambda: self.serve.call("DELETE", f"/v1/sessions/{self.session}").status in (204, 404))
        further = self.serve.create()
        done = self.serve.run(further, "6 * 7")
        assert (done["status"], done["value"]) == ("ok", {**done["value"], "text": "42"}), (note, done)
        assert self.serve.call("DELETE", f"/v1/sessions/{further}").status == 204


def has_ended(serve):
    """One that dies refuses connections before it can be waited for."""
    try:
        return not serve.call("GET", "/v1/sessions")
    except OSError:
        serve.process.wait(60 * PATIENCE)
        return True


@pytest.mark.parametrize("kind", KINDS)
def test_each_call(serve, tmp_path, kind):
    scarce = Scarce(tmp_path)

    def trial(at):
        serve.start("--accept-degraded", env=scarce.env(kind, at))
        life, note = Life(serve), f"{kind} {at}"
        scarce.begin()
        try:
            life.live()
            life.end()
        finally:
            scarce.end()
        note = f"{note}: {scarce.failed()}"
        if kind == "memory" and has_ended(serve):
            assert serve.process.returncode == -signal.SIGABRT, f"{note}: {serve.process.returncode}: {serve.lines()[-2000:]}"
            start_anew(serve)
        assert serve.process.poll() is None, f"{note}: it ended with {serve.process.returncode}: {serve.lines()[-2000:]}"
        life.check(note)
        assert serve.stop() == 0, note

    trial(0)
    failures, chosen = [], sample(scarce.places(), 6, kind)
    note(f"{kind}: {len(scarce.calls())} calls at {len(scarce.places())} places, of which {len(chosen)}")
    assert chosen
    for at in chosen:
        try:
            trial(at)
        except Exception as error:
            failures.append(f"--- {kind} {at}: {scarce.failed()}\n{type(error).__name__}: {error}"[:3000])
            note(failures[-1])
            start_anew(serve)
            for session in serve.call("GET", "/v1/sessions").items():
                serve.call("DELETE", f"/v1/sessions/{session['id']}")
            serve.stop()
    assert not failures, f"{len(failures)} of {len(chosen)}; again with BERTH_SEED={SEED}\n" + "\n".join(failures[:10])


class LifeBelow(Life):
    """Where code runs short itself, it may say so: its own exception is a true answer."""

    true_ends = ("ok", "failed", "killed", "error")

    def live(self):
        super().live()
        if self.session:
            with contextlib.suppress(ValueError):  # it was never placed
                worker_of(self.serve, self.session)


def sweep_below(serve, name, follow):
    """`follow(at)`: from there on the calls of the processes are counted, and the n-th fails. Each answer is true, and no process stays."""

    def trial(at):
        life = LifeBelow(serve)
        with follow(at) as seen:
            life.live()
            life.end()
        note = f"{name} {at}: {seen['failed']}"
        assert serve.process.poll() is None, f"{note}: it ended with {serve.process.returncode}: {serve.lines()[-2000:]}"
        life.check(note)
        wait_until(lambda: not left_of(serve))
        return seen["count"]

    count = trial(0)
    note(f"{name}: {count} calls")
    assert count > 5
    each(serve, [(at,) for at in range(1, count + 1)], 5, trial, keeps_none=False)


@needs_root
@pytest.mark.parametrize("kind", ("descriptor", "thread", "memory"))
def test_each_call_of_what_the_server_starts(serve, steps_program, kind):
    """Of worker, sandbox, runtime and kernel: they get no environment, and have no library to preload."""
    serve.start("--accept-degraded")
    sweep_below(serve, f"below, {kind}", lambda at: following(steps_program, serve.process.pid, at, "below", kind))


@needs_root
@pytest.mark.parametrize("kind", ("descriptor", "thread", "memory"))
def test_each_call_of_the_launcher(launched, steps_program, kind):
    """And of what it starts."""

    launched.decides = False
    launched.stop()
    launched.configure(clients=[CLIENTS[0], *LAUNCHED[1:]])
    launched.start(*launched.options)

    def follow(at):
        if launched.launcher.process.poll() is not None:
            launched.launcher.start()
        return following(steps_program, launched.launcher.process.pid, at, "all", kind)

    sweep_below(launched, f"launcher, {kind}", follow)


def test_a_limit_too_low_to_start(serve):
    """It is refused with the number that is needed."""
    command = ["sh", "-c", 'ulimit -n 100; exec "$0" serve -f "$1"', str(serve.berth.binary), str(serve.file)]
    done = subprocess.run(command, cwd=serve.berth.folder, env=serve.berth.env, capture_output=True, text=True, timeout=60 * PATIENCE)
    assert done.returncode == 1, done
    assert "at most 100 open files, and 256 are needed" in done.stderr, done.stderr


def test_what_a_session_takes(serve):
    """No more than docs/serve.md says, by which people choose the limit of a unit."""
    serve.start("--accept-degraded")
    taken = []
    for _ in range(4):
        assert serve.run(serve.create(), "1 + 1")["status"] == "ok"
        taken.append(len(os.listdir(f"/proc/{serve.process.pid}/fd")))
    assert taken[0] <= 25 + 9 + 3 and taken[-1] - taken[0] <= 3 * 9 + 3, taken
    for made in serve.call("GET", "/v1/sessions").items():
        assert serve.call("DELETE", f"/v1/sessions/{made['id']}").status == 204


def test_a_limit_that_is_reached(serve):
    """Each answer says so and passes; with descriptors again, sessions are made and run as before."""
    serve.start("--accept-degraded")
    session = serve.create()
    assert serve.run(session, "x = 41")["status"] == "ok"
    pid = serve.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = 1 + max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    for more in range(1, 24):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + more, before[1]))
        life = Life(serve)
        life.session = session
        life.run("x", 41)
        life.ask("POST", "/v1/sessions", {"environment": "data"})
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert serve.process.poll() is None, serve.lines()[-2000:]
    assert serve.run(session, "x + 1")["value"]["text"] == "42"
    for made in serve.call("GET", "/v1/sessions").items():
        assert serve.call("DELETE", f"/v1/sessions/{made['id']}").status == 204
    assert serve.run(serve.create(), "6 * 7")["value"]["text"] == "42"
