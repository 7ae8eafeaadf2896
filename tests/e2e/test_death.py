# SPDX-License-Identifier: Apache-2.0
"""
Death at every step: one apply that creates, updates, deletes and re-points is killed, interrupted or denied its disk at
each call and at each write of its state. Whatever happens, the next run converges, and leaves what an undisturbed one leaves.

By default a sample of the steps, the same in each run; another one with BERTH_SEED=TEXT, all of them with BERTH_EXHAUSTIVE=1.
"""

import random
import signal

import pytest

from crossing import READING
from lib.steps import EXHAUSTIVE, SEED
from lib.trial import Trial


pytestmark = pytest.mark.timeout(14400 if EXHAUSTIVE else 600)


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
