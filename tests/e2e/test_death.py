# SPDX-License-Identifier: Apache-2.0
"""
Death at every step: one apply that creates, updates, deletes and re-points is killed, interrupted or denied its disk at
each call and at each write of its state. Whatever happens, the next run converges, and leaves what an undisturbed one leaves.

By default a sample of the steps, the same in each run; another one with BERTH_SEED=TEXT, all of them with BERTH_EXHAUSTIVE=1.
"""

import collections
import datetime
import os
import random
import signal
import subprocess

import pytest

from crossing import READING, Crossing
from disk import Disk

EXHAUSTIVE = bool(os.environ.get("BERTH_EXHAUSTIVE"))
SEED = os.environ.get("BERTH_SEED", "2026-11-21")

pytestmark = pytest.mark.timeout(14400 if EXHAUSTIVE else 600)


def sample(steps, most, whose=""):
    """All of them, or `most` that are spread over the whole: others for another stand-in, so that both together try more."""
    if EXHAUSTIVE or len(steps) <= most:
        return steps
    chance = random.Random(SEED + whose)
    width = len(steps) / most
    return [steps[min(int(width * (i + chance.random())), len(steps) - 1)] for i in range(most)]


def note(text):
    """Progress of a full sweep, which takes an hour."""
    print(text, flush=True)
    if os.environ.get("BERTH_SWEEP_LOG"):
        with open(os.environ["BERTH_SWEEP_LOG"], "a") as log:
            log.write(f"{datetime.datetime.now():%H:%M:%S} {text}\n")


def commits_of(writes):
    """Each commit as the numbers of its first write, of its sync, and of the write that makes it count (LMDB's meta page)."""
    commits, first = [], 1
    for number, (call, _, _) in enumerate(writes, 1):
        if call == "fdatasync":
            commits.append((first, number, number + 1))
            first = number + 2
    return commits


class Trial:
    """A crossing that is disturbed over and over: here to there, there to here."""

    def __init__(self, cloud, berth, tmp_path):
        self.cloud, self.berth = cloud, berth
        self.crossing = Crossing(cloud, berth)
        self.crossing.settle()
        self.pidfile = tmp_path / "pid"
        self.disk = Disk(tmp_path, berth.stack / ".berth")
        self.figures = collections.Counter()

    def start(self, env, *args):
        """The apply, whose pid is in the pidfile before it begins."""
        self.pidfile.unlink(missing_ok=True)
        shell = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.pidfile), str(self.berth.binary), "apply", "--yes", *args]
        return subprocess.Popen(shell, cwd=self.berth.stack, env={**self.berth.env, **env}, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip

    def record(self, *args):
        """What an undisturbed crossing does: its calls as (service, operation, which of these), and its commits."""
        mark, seen, calls = self.cloud.mark(), collections.Counter(), []
        self.crossing.turn()
        process = self.start(self.disk.env(), *args)
        out, err = process.communicate(timeout=self.berth.timeout)
        assert process.returncode == 0, (out, err)
        for call in self.cloud.calls(mark):
            key = (call["service"], call["operation"])
            seen[key] += 1
            calls.append((*key, seen[key]))
        commits = commits_of(self.disk.writes())
        self.crossing.recover("undisturbed")
        return calls, commits

    def disturb(self, note, code, rules=(), env=None, args=()):
        """One crossing that ends with that code, or comes through; then everything is as it shall be. The code, and what it said."""
        before, _ = self.crossing.runs()
        self.cloud.faults(*rules)
        mark = self.cloud.mark()
        self.crossing.turn()
        process = self.start(env or {}, *args)
        try:
            out, err = process.communicate(timeout=self.berth.timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"{note}: it hangs\n{process.communicate()}") from None
        text = (out + err).decode("utf-8", "replace")
        assert process.returncode in {0, code, min(code, 1)}, f"{note}: ended with {process.returncode}\n{text}"
        self.crossing.wait_idle()
        self.tell(note, process.returncode, before, [c for c in self.cloud.changing_calls(mark) if c["status"]], text)
        self.crossing.recover(note)
        self.berth("state", "verify").expect(0)
        self.figures["done" if process.returncode == 0 else "disturbed"] += 1
        return process.returncode, text

    def tell(self, note, code, before, changing, text):
        """The history has it: who died stays "begun"; a run that changed something is there in any case."""
        runs, journal = self.crossing.runs()
        new = {run: outcome for run, outcome in runs.items() if run not in before}
        expected = {0: {"done"}, 3: set(), 1: {"failed", "interrupted", "done", "begun"}, -signal.SIGKILL: {"begun", "done"}}[code]
        assert set(new.values()) <= expected and len(new) <= 1, f"{note}: {new}\n{text}"
        assert new or not changing, f"{note}: changed {len(changing)} things, and the history knows nothing\n{text}"
        assert code != 0 or not journal, f"{note}: done, and the journal is not empty: {journal}"
        self.figures["in history as " + (list(new.values()) or ["nothing"])[0]] += 1

    def each(self, name, steps, most, disturb):
        """All steps; what went wrong is told at the end, with the stack made anew after each."""
        failures, chosen = [], sample(steps, most, self.cloud.flavor)
        for number, step in enumerate(chosen, 1):
            try:
                disturb(*step)
            except AssertionError as error:
                failures.append(f"--- {name} {step}\n{error}")
                note(f"{self.cloud.flavor} {failures[-1][:3000]}")
                self.anew()
            if number % 50 == 0 or number == len(chosen):
                note(f"{self.cloud.flavor} {name}: {number} of {len(chosen)} ({len(steps)} steps in all), {len(failures)} failed, {dict(self.figures)}")
        self.crossing.turn()
        self.crossing.recover("at last, undisturbed", locks_may_stay=False)
        assert not failures, f"{len(failures)} of {len(chosen)}; again with BERTH_SEED={SEED}\n" + "\n".join(failures[:10])

    def anew(self):
        """As at the beginning, after a failure."""
        subprocess.run(["rm", "-rf", self.berth.stack / ".berth"], check=True)
        self.cloud.reset()
        self.crossing = Crossing(self.cloud, self.berth)
        self.crossing.settle()


@pytest.fixture
def trial(cloud, berth, tmp_path):
    return Trial(cloud, berth, tmp_path)


def signal_at(trial, call, **how):
    service, operation, nth = call
    return [({"service": service, "operation": operation, "nth": nth}, {"kind": "signal", "pidfile": str(trial.pidfile), **how})]


AT_A_CALL = {
    "killed before it is sent": (-signal.SIGKILL, {"when": "before"}),
    "killed before the answer is read": (-signal.SIGKILL, {"when": "after"}),
    "killed when the answer is on its way": (-signal.SIGKILL, {"when": "answered"}),
    "interrupted": (1, {"when": "before", "signal": "INT"}),
    "interrupted twice": (1, {"when": "before", "signal": "INT", "times": 2}),
}


def test_death_at_a_call(trial):
    calls, _ = trial.record()

    def disturb(what, call):
        code, how = AT_A_CALL[what]
        trial.disturb((what, call), code, signal_at(trial, call, **how))

    trial.each("at a call", [(what, call) for call in calls for what in AT_A_CALL if may_matter(what, call)], 6, disturb)


def may_matter(what, call):
    """Of a call that only reads, AWS knows nothing afterwards: before or after is the same to it."""
    return not call[1].startswith(READING) or what in ("killed before the answer is read", "interrupted")


# What happens, and at which of a commit's three writes.
AT_A_COMMIT = [("lost", 1), ("amid", 2), ("after", 2), ("interrupt", 1), ("interrupt-twice", 1)]


def test_death_at_a_commit(trial):
    """
    One worker, so that each commit is one step of the journal. `lost`: it dies before the sync, and of what was not synced
    some or all is not there afterwards.
    """
    _, commits = trial.record("--parallel", "1")
    chance = random.Random(SEED)

    def disturb(mishap, n):
        seed = chance.choice([0, chance.randrange(1, 1 << 30)])
        code = 1 if mishap.startswith("interrupt") else -signal.SIGKILL
        trial.disturb((mishap, n, seed), code, env=trial.disk.env(mishap, n, seed), args=["--parallel", "1"])

    trial.each("at a commit", [(mishap, commit[at]) for commit in commits for mishap, at in AT_A_COMMIT], 6, disturb)


DISK_FAILS = [("full", 0), ("fail", 1), ("fail-once", 1), ("fail-once", 2)]


def test_a_disk_that_fails(trial):
    """Its first page does not fit, its sync fails, or the write that makes it count does: for good, or this once."""
    _, commits = trial.record()

    def disturb(mishap, n):
        trial.disturb((mishap, n), 1, env=trial.disk.env(mishap, n))

    trial.each("a disk that fails", [(mishap, commit[at]) for commit in commits for mishap, at in DISK_FAILS], 4, disturb)
