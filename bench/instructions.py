# SPDX-License-Identifier: Apache-2.0
"""
Instructions of Berth's own processes, counted by callgrind: no clock, so that another program's work changes nothing. The counts
stand in instructions.txt, a line for each release of Debian; a count that grew by more than MARGIN is a failure until its line says so.
"""

import contextlib
import pathlib
import re
import shutil
import subprocess
import sys

import plans
import sandboxes
import sessions
from common import OFFLINE, ROOT, WORK, run

COUNTED = ROOT / "tests" / "e2e" / "valgrind"
EXPECTED = ROOT / "bench" / "instructions.txt"
LOGS = WORK / "instructions"
MARGIN = 0.03
AGAIN = 2
FEW, MANY, SESSIONS = 10, 60, 20


@contextlib.contextmanager
def counting(build):
    """The environment in which COUNTED counts `build`'s berth, and a list that has the sum of all its processes afterwards."""
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    LOGS.chmod(0o1777)  # a worker's first process has given up its rights
    environment = OFFLINE | {
        "BERTH_VALGRIND_TOOL": "callgrind",
        "BERTH_VALGRIND_LOGS": str(LOGS),
        "BERTH_MEMCHECKED": str(build / "berth"),
    }
    total = []
    yield environment, total
    counts = [re.search(r"Collected : (\d+)", log.read_text(errors="replace")) for log in LOGS.glob("*.log")]
    total.append(sum(int(count.group(1)) for count in counts if count))


def count_of(build, *arguments):
    with counting(build) as (environment, total):
        subprocess.run([COUNTED, *arguments], env=environment, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return total[0]


def count_plan(build):
    """Offline, of 1,000 environments and 2,000 agents on this machine, all as they were applied."""
    manifests, state = WORK / "manifests", WORK / "state"
    shutil.rmtree(state, ignore_errors=True)
    plans.write_manifests(manifests, 1000, 2000, retention=False)
    stack = manifests / "stack.yaml"
    stack.write_text(stack.read_text().replace("provider: aws", "provider: local"))
    common = ["-f", manifests, "--state", state]
    run([build / "berth", "apply", "--yes", "--quiet", *common])
    return count_of(build, "plan", "--refresh", "none", *common)


def count_exec(build):
    """From its start to its end, with its worker."""
    sandboxes.apply_stack(build)
    command = sandboxes.exec_command(build, "-c", "print(42)")
    return count_of(build, *command[1:])


def count_served(build, work):
    """What one more of `work(client, session)` costs: the difference of many and few, by the difference of their number."""

    def whole(times):
        with counting(build) as (environment, total):
            with sessions.serving(build, program=COUNTED, environment=environment) as (_, port):
                with contextlib.closing(sessions.Client(port)) as client:
                    living = [client.create() for _ in range(1 if work is run_one else SESSIONS)]
                    client.run(living[0], "1+1")
                    for _ in range(times):
                        work(client, living[0])
                    for session in living:
                        client.end(session)
                sessions.await_workers()
        return total[0]

    return (whole(MANY) - whole(FEW)) // (MANY - FEW)


def run_one(client, session):
    client.run(session, "1+1")


def list_page(client, session):
    del session
    client.must("GET", "/v1/sessions")


COUNTS = {
    "plan": count_plan,
    "exec": count_exec,
    "execution": lambda build: count_served(build, run_one),
    "page": lambda build: count_served(build, list_page),
}


def release():
    found = re.search(r'^VERSION_ID="?(\d+)', pathlib.Path("/etc/os-release").read_text(), re.MULTILINE)
    return f"debian{found.group(1)}" if found else "other"


def expected():
    rows = [line.split() for line in EXPECTED.read_text().splitlines() if line and not line.startswith("#")]
    return {(row[0], row[1]): int(row[2]) for row in rows}


def bench_instructions(build, quick):
    del quick  # a count is a count
    known, where, grown = expected(), release(), []
    for name, count in COUNTS.items():
        found, before = count(build), known.get((where, name))
        for _ in range(AGAIN):  # a wake-up more, on a busy machine: the least is the count
            if before and found > before * (1 + MARGIN):
                found = min(found, count(build))
        change = f"{(found / before - 1) * 100:+.1f} %" if before else "no line"
        print(f"{where} {name:<10} {found:>12}   {change}", flush=True)
        if before and found > before * (1 + MARGIN):
            grown.append(name)
    if grown:
        sys.exit(
            f"more instructions than bench/instructions.txt says, by more than {MARGIN:.0%}: {', '.join(grown)}. "
            "Mend it, or write the new count there and say in the commit what it is for"
        )
