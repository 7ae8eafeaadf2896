# SPDX-License-Identifier: Apache-2.0
"""
One state in S3 and many machines that apply the same stack at once, again and again, of which one in five is killed at some moment.
Whatever happens: nothing is made twice, nothing is left over, no commit is lost, and each exit code is one of those documented.

Some machines and rounds by default, other moments with BERTH_SEED=TEXT; ten machines a hundred times with BERTH_EXHAUSTIVE=1.
"""

import collections
import random
import signal
import threading
import time

import pytest

from lib.shared_state import Team, write

from lib.steps import EXHAUSTIVE, SEED, note


pytestmark = pytest.mark.timeout(7200 if EXHAUSTIVE else 300)

MACHINES, ROUNDS = (10, 100) if EXHAUSTIVE else (5, 4)
KILLED = 0.2
# Done, another run holds the lock, killed.
CODES = {0, 4, -signal.SIGKILL}


@pytest.fixture
def team(cloud, binary, tmp_path, prebuilt):
    return Team(cloud, binary, tmp_path)


def apply_at_once(machines, chance):
    """Their exit codes and what they said; of those that are killed the moment is by chance."""
    begun = []
    for machine in machines:
        process = machine.popen("apply", "--yes", "--quiet")
        killer = threading.Timer(chance.uniform(0, 0.6), process.kill) if chance.random() < KILLED else None
        if killer:
            killer.start()
        begun.append((process, killer))
        time.sleep(chance.uniform(0, 0.1))
    ended = []
    for process, killer in begun:
        out, err = process.communicate(timeout=120)
        if killer:
            killer.cancel()
        ended.append((process.returncode, (out + err).decode("utf-8", "replace")))
    return ended


def test_many_machines_apply_one_stack(team):
    chance = random.Random(SEED)
    machines = [team.machine(f"machine-{n}") for n in range(MACHINES)]
    seen = collections.Counter()
    mark = team.cloud.mark()
    for turn in range(ROUNDS):
        names = [f"e{turn}", f"e{turn + 1}"]
        for machine in machines:
            write(machine, *names)
        for code, said in apply_at_once(machines, chance):
            assert code in CODES, f"{code} in round {turn}\n{said}"
            seen[code] += 1
        # Whoever comes next ends what was left, and takes the lock of the dead.
        chance.choice(machines)("apply", "--yes", "--quiet").expect(0)
        last = chance.choice(machines)
        last("plan", "--detailed-exitcode").expect(0)
        assert sorted(team.cloud.functions()) == sorted(f"alphaagent-env-{name}" for name in names)
        recorded = set(last("state", "list").expect(0).out.split())
        assert {a for a in recorded if a.startswith("Environment/")} == {f"Environment/{name}" for name in names}
    assert sum(seen.values()) == MACHINES * ROUNDS and seen[0] and seen[4], seen
    assert not EXHAUSTIVE or seen[-signal.SIGKILL] > ROUNDS / 2, seen
    made = collections.Counter(
        call["params"]["FunctionName"] for call in team.cloud.calls(mark) if call["operation"] == "CreateFunction" and call["status"] == 201
    )
    assert set(made.values()) == {1} and len(made) == ROUNDS + 1, made
    assert team.lease()["id"] == ""
    note(f"{team.cloud.flavor}: {MACHINES} machines {ROUNDS} times, by exit code: {dict(seen)}")
    team.check(*names)
