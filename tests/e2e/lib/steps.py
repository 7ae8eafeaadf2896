# SPDX-License-Identifier: Apache-2.0
"""Which steps of a sweep are run: a sample that BERTH_SEED chooses, or all; its progress; and how a verb that it kills has ended."""

import datetime
import os
import random
import subprocess

EXHAUSTIVE = bool(os.environ.get("BERTH_EXHAUSTIVE"))
SEED = os.environ.get("BERTH_SEED", "2026-11-21")


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


def end_of(berth, verb, pidfile):
    """The exit code of a verb that is killed on its way; negative for a signal, for which `pidfile` tells whom to kill."""
    shell = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(pidfile), str(berth.binary), verb, "--yes"]
    return subprocess.run(shell, cwd=berth.stack, env=berth.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=berth.timeout).returncode
