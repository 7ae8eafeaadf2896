# SPDX-License-Identifier: Apache-2.0
"""
Death and sleep at every request of an apply whose state lies in S3. Each run is on a machine of its own, with folders, a home and a
host identity that nobody else has; one that is killed never comes back, one that was stopped wakes when its lock has long passed to
another. Whatever happens, the next run anywhere goes on from the journal: nothing twice, nothing lost, nothing left.

By default a sample of the requests, another one on each stand-in and with each BERTH_SEED=TEXT; all of them with BERTH_EXHAUSTIVE=1.
"""

import collections
import json
import os
import shutil
import signal

import pytest

from clocks import Clocks
from crossing import OTHER, READING, Crossing, manifest
from lib.shared_state import BUCKET, Running, Team, signals
from lib.steps import EXHAUSTIVE, SEED, note, sample

pytestmark = pytest.mark.timeout(14400 if EXHAUSTIVE else 300)

# The lease, and the lock of the bucket's rules, have passed.
LOCKS_ARE_OLD = {"research/lease": 40 / (24 * 3600), "berth/locks/": 90 / (24 * 3600)}


def is_of_state(call):
    return call["service"] == "s3" and call["params"].get("Bucket") == BUCKET


class Journey:
    """A crossing of which each run is on another machine."""

    def __init__(self, team):
        self.team, self.cloud, self.count = team, team.cloud, 0
        self.figures = collections.Counter()
        self.log_end = 0
        self.crossing = Crossing(team.cloud, self.arrive(), aside=[BUCKET])
        self.crossing.settle()

    def arrive(self):
        self.count += 1
        return self.team.machine(f"machine-{self.count}")

    def leave(self, machine):
        shutil.rmtree(machine.folder)

    def to_other_side(self):
        return manifest(OTHER[self.crossing.here])

    def refused(self):
        """An environment that agents use is gone from it."""
        return manifest(OTHER[self.crossing.here], in_use_is_gone=True)

    def record(self, text, code):
        """The requests of an undisturbed run as (service, operation, whether of the state, which of these)."""
        machine, seen, mark = self.arrive(), collections.Counter(), self.cloud.mark()
        machine.write("m.yaml", text)
        machine("apply", "--yes").expect(code)
        calls = []
        for call in self.cloud.calls(mark):
            key = (call["service"], call["operation"], is_of_state(call))
            seen[key] += 1
            calls.append((*key, seen[key]))
        self.leave(machine)
        return calls

    def rule(self, machine, call, when, number):
        service, operation, of_state, nth = call
        match = {"service": service, "operation": operation, "nth": nth}
        if service == "s3":
            match["bucket" if of_state else "bucket_not"] = BUCKET
        return match, signals(machine, when, number)

    def take_over(self, what):
        """Another machine, for which the lease of the one that is gone has passed; it crosses, and all is as it shall be."""
        machine = self.crossing.berth = self.arrive()
        if self.team.lease()["id"]:
            self.team.elsewhere()
            self.cloud.settings(object_age_days=LOCKS_ARE_OLD)
            self.figures["lock taken over"] += 1
        self.crossing.turn()
        self.crossing.recover(what)
        self.cloud.settings(object_age_days={})
        if not EXHAUSTIVE or self.count % 10 == 0:
            machine("state", "verify").expect(0)
        runs, journal = self.crossing.runs()
        assert not journal and list(runs.values())[:1] == ["done"], f"{what}: {runs} {journal}"
        self.leave(machine)

    def check_made(self, mark, what):
        """Nothing was made twice, and the log has each number once."""
        made = collections.Counter()
        for call in self.cloud.calls(mark):
            if call["operation"] in ("CreateFunction", "CreateRepository") and call["status"] in (200, 201):
                made[json.dumps([call["operation"], call["params"].get("FunctionName", call["params"].get("repositoryName"))])] += 1
        assert set(made.values()) <= {1}, f"{what}: {made}"
        numbers = self.team.numbers(after=self.log_end)
        assert numbers == list(range(self.log_end + 1, self.log_end + 1 + len(numbers))), f"{what}: {numbers}"
        self.log_end += len(numbers)

    def kill(self, text, code, when, call):
        """That run dies there; the next one crosses."""
        what, mark, dying = (when, call), self.cloud.mark(), self.arrive()
        dying.write("m.yaml", text)
        self.cloud.faults(self.rule(dying, call, when, "KILL"))
        ended, said = Running(dying, "apply", "--yes").end()
        assert ended in {0, code, -signal.SIGKILL}, f"{what}: ended with {ended}\n{said}"
        self.figures["killed" if ended < 0 else "done"] += 1
        self.crossing.wait_idle()
        self.cloud.faults()
        self.leave(dying)
        self.take_over(what)
        self.check_made(mark, what)

    def stop(self, clocks, when, call):
        """That run falls asleep there, and wakes when another one has crossed in its place."""
        what, mark, sleeper = (when, call), self.cloud.mark(), self.arrive()
        sleeper.write("m.yaml", self.to_other_side())
        clocks.give(sleeper)
        self.cloud.faults(self.rule(sleeper, call, when, "STOP"))
        running = Running(sleeper, "apply", "--yes")
        try:
            os.waitid(os.P_PID, running.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if running.process.poll() is None:
                self.figures["asleep"] += 1
            self.crossing.wait_idle()  # what it had sent as it fell asleep has arrived
            self.take_over(what)
            before = self.cloud.mark()
        finally:
            clocks.give(sleeper, monotonic_s=120, wall_s=120)
            if running.process.poll() is None:
                running.go_on()
        code, said = running.end()
        self.figures[f"woke, ended with {code}"] += 1
        assert code in {0, 4}, f"{what}: ended with {code}\n{said}"
        late = [call for call in self.cloud.changing_calls(before) if not is_of_state(call) and call["status"]]
        assert not late, f"{what}: woke, and changed {late[0]['operation']} {late[0]['params']}\n{said}"
        if code == 4:
            written = [call for call in self.cloud.changing_calls(before) if call["params"].get("Key", "").startswith("research/log/") and call["status"] == 200]
            assert not written, f"{what}: woke, and wrote\n{said}"
        self.leave(sleeper)
        self.check_made(mark, what)
        if not EXHAUSTIVE:
            self.take_over(f"after {what}")
        self.log_end += len(self.team.numbers(after=self.log_end))

    def each(self, name, steps, most, disturb):
        """All steps; what went wrong is told at the end, with the stack made anew after each."""
        failures, chosen = [], sample(steps, most, self.cloud.flavor + name)
        for number, step in enumerate(chosen, 1):
            try:
                disturb(*step)
            except AssertionError as error:
                failures.append(f"--- {name} {step}\n{error}")
                note(f"{self.cloud.flavor} {failures[-1][:3000]}")
                self.anew()
            if number % 20 == 0 or number == len(chosen):
                note(f"{self.cloud.flavor} {name}: {number} of {len(chosen)} ({len(steps)} steps in all), {len(failures)} failed, {dict(self.figures)}")
        assert not failures, f"{len(failures)} of {len(chosen)}; again with BERTH_SEED={SEED}\n" + "\n".join(failures[:10])

    def anew(self):
        self.cloud.reset()
        self.team = Team(self.cloud, self.team.binary, self.team.folder)
        self.log_end = 0
        self.crossing = Crossing(self.cloud, self.arrive(), aside=[BUCKET])
        self.crossing.settle()


@pytest.fixture
def journey(cloud, binary, tmp_path):
    return Journey(Team(cloud, binary, tmp_path))


def is_reading(call):
    return call[1].startswith(READING)


def moments(calls):
    """Of a request that only reads, AWS knows nothing afterwards; and what the machine knew of its answer, nobody ever learns."""
    return [(when, call) for call in calls for when in ("before", "after") if when == "after" or not is_reading(call)]


def test_killed_or_asleep_at_a_request(journey, tmp_path):
    """An apply that creates, updates, deletes and re-points; and one that a guard refuses. One test: settling takes longest."""
    refused = journey.record(journey.refused(), 3)
    calls = journey.record(journey.to_other_side(), 0)
    journey.crossing.here = OTHER[journey.crossing.here]
    journey.log_end = len(journey.team.numbers())
    journey.each("killed at", moments(calls), 2, lambda when, call: journey.kill(journey.to_other_side(), 0, when, call))
    journey.each("refused, killed at", moments(refused), 1, lambda when, call: journey.kill(journey.refused(), 3, when, call))
    clocks = Clocks(tmp_path)
    asleep = [("answered" if call[2] else "before", call) for call in calls]
    journey.each("asleep at", asleep, 1, lambda when, call: journey.stop(clocks, when, call))
