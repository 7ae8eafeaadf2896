# SPDX-License-Identifier: Apache-2.0
"""
Death at every step of a park, and of what comes back from one: of the server, at each of its writes and of what it tells workers; of
worker, runtime and kernel, and of the process that takes the kernel's memory, at each of their system calls, and of the next sandbox at
each of those that begin it. Memory is kept, restored or said to be lost. Else all is as in test_sessions_death.py, and so are the samples.
"""

import ast
import contextlib
import os
import threading
from pathlib import Path

import pytest

from controllers import wait_until
from lib.session_deaths import VICTIMS, Disturbed, Life, dies_at_each_call, needs_root, serve, steps_program, worker_of  # noqa: F401
from lib.steps import EXHAUSTIVE

pytestmark = pytest.mark.timeout(14400 if EXHAUSTIVE else 600)

# As its memory is restored, it waits at a gate: whoever restores it can be followed from there on.
GATE = """
import os
class Gate:
    def __reduce__(self): return (wait, ())
def wait():
    os.mkfifo('/tmp/gate')
    os.read(os.open('/tmp/gate', os.O_RDONLY), 1)
    return Gate()
gate = Gate()
"""


class Sleeper(Life):
    """A session that is parked between its two cells."""

    may_lose = False  # where nobody of its sandbox is killed, its memory lives
    parked = False

    def __init__(self, serve, count=lambda: 0):  # noqa: F811
        super().__init__(serve)
        self.count, self.before = count, 0

    def live(self):
        self.create()
        self.run(1)
        self.before = self.count()
        self.park()
        self.run(2)

    def park(self):
        answer = self.ask("POST", f"/v1/sessions/{self.session}/park") if self.session else None
        if answer and answer.status == 200 and answer.json()["status"] == "parked":
            self.parked = True
        return answer

    def check_memory(self, note, now):
        """What one begins with is what the one before it ended with, or that of the checkpoint between them; or it is lost, and says so."""
        results = [self.told[n] for n in sorted(self.told)] + [now]
        for before, after in zip(results, results[1:]):
            text = f"{note}: {before}\n{after}"
            state = after["state"]
            if before["status"] != "ok" or not state:
                continue
            assert state["was"] in ("kept", "restored", "lost") and (state["was"] == "kept") == (not state["reason"]), text
            assert state["was"] != "lost" or self.may_lose, text
            if state["was"] != "lost" and after["status"] == "ok":
                ended_with = set(marks(before)) if state["was"] == "kept" else set(marks(results[0]))
                assert set(marks(after)) >= ended_with, text


def marks(result):
    return ast.literal_eval(result["value"]["text"]) or []


def test_death_of_the_server_that_parks(serve, tmp_path):  # noqa: F811
    disturbed = Disturbed(serve, tmp_path)
    undisturbed = Sleeper(serve, count=lambda: len(disturbed.disk.writes()))
    count = len(disturbed.steps(undisturbed))
    assert undisturbed.parked and count > undisturbed.before
    disturbed.dies_at_each(count, 6, Sleeper, first=undisturbed.before + 1)


# The process that takes a kernel's memory is its child.
FOLLOWED = {"worker": [], "runtime": [], "kernel": ["all"]}


@needs_root
@pytest.mark.parametrize("victim", VICTIMS)
def test_death_in_the_sandbox_that_is_parked(serve, steps_program, victim):  # noqa: F811
    def parking(life, follow):
        life.create()
        life.run(1)
        with follow(VICTIMS[victim](worker_of(serve, life.session)), *FOLLOWED[victim]):
            answer = life.park()
        assert answer and answer.status in (200, 409, 503), answer and answer.body
        life.may_lose = not life.parked or victim == "kernel"  # whose memory goes with it, or is not taken
        life.run(2)

    dies_at_each_call(serve, steps_program, Sleeper, 3, parking)


class Woken(Sleeper):
    """One that is restored stands at a gate, and may be restored again."""

    may_lose = True

    def check(self, note):
        with gates_open(self.serve, self.session):
            super().check(note)


@needs_root
@pytest.mark.parametrize("victim", VICTIMS)
def test_death_in_the_sandbox_that_comes_back(serve, steps_program, victim):  # noqa: F811
    """From the middle of what is restored, to the end of the cell that it is restored for."""

    def restoring(life, follow):
        life.create()
        assert serve.run(life.session, GATE)["status"] == "ok"
        life.run(1)
        life.park()
        assert life.parked
        thread = threading.Thread(target=life.run, args=[2])
        thread.start()
        worker, _ = wait_until(lambda: waiting_at_the_gate(serve, life.session))
        with follow(VICTIMS[victim](worker)), gates_open(serve, life.session):
            thread.join()

    dies_at_each_call(serve, steps_program, Woken, 3, restoring)


@needs_root
def test_death_of_what_is_begun(serve, steps_program):  # noqa: F811
    """Of the new sandbox, whoever of it comes to the next step: its worker, what it starts, the runtime, the kernel that is restored."""

    def beginning(life, follow):
        life.create()
        life.run(1)
        life.park()
        assert life.parked
        with follow(serve.process.pid, "below"):
            life.run(2)

    dies_at_each_call(serve, steps_program, Beginner, 4, beginning)


class Beginner(Sleeper):
    may_lose = True


@contextlib.contextmanager
def gates_open(serve, session):  # noqa: F811
    """Nobody waits meanwhile: it may be restored again."""
    over, opened = threading.Event(), []

    def work():
        while not over.wait(0.02):
            _, gate = waiting_at_the_gate(serve, session) or (None, None)
            if gate and gate not in [other for other, _ in opened]:
                with contextlib.suppress(OSError):
                    opened.append((gate, os.open(gate, os.O_RDWR)))
                    os.write(opened[-1][1], b"x")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for _, descriptor in opened:
            os.close(descriptor)


def waiting_at_the_gate(serve, session):  # noqa: F811
    with contextlib.suppress(ValueError, OSError, IndexError, AssertionError):  # it is on its way there
        worker = worker_of(serve, session)
        gate = Path(f"/proc/{VICTIMS['kernel'](worker)}/root/tmp/gate")
        return gate.exists() and (worker, gate)
    return None
