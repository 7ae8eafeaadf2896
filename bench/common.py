# SPDX-License-Identifier: Apache-2.0
"""What every benchmark needs: programs run without a trace of the caller's account, and ratios printed."""

import os
import pathlib
import statistics
import subprocess
import sys
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "bench"

# Offline means offline: no credential of the caller's is read, and no host would answer.
OFFLINE = {
    "PATH": os.environ["PATH"],
    "HOME": str(WORK),
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
}


class Run(typing.NamedTuple):
    seconds: float  # by the wall
    cpu: float  # seconds of all its threads: what a busy machine does not lengthen


def run(arguments, accept=(0,)):
    """One run of a program."""
    start = time.perf_counter()
    process = subprocess.Popen(
        arguments, env=OFFLINE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in accept:
        sys.exit(f"{' '.join(map(str, arguments[:6]))} ... ended with {process.returncode}:\n{errors.decode()[-2000:]}")
    return Run(seconds, usage.ru_utime + usage.ru_stime)


def measure(arguments, floor, times):
    """Both programs in turn, so that whatever else the machine does troubles both: two Runs of medians."""
    ours, theirs = [], []
    for _ in range(times):
        ours.append(run(arguments))
        theirs.append(run(floor))
    return median(ours), median(theirs)


def under_time(arguments, file):
    """
    A command whose peak of resident memory GNU time writes to that file, in KiB: peak_memory(file). What wait4 says of a child
    is never less than the memory of the Python that started it.
    """
    return ["/usr/bin/time", "--quiet", "--format=%M", f"--output={file}", *arguments]


def peak_memory(file):
    """In MB."""
    return int(pathlib.Path(file).read_text()) / 1024


def median(runs):
    return Run(
        statistics.median(one.seconds for one in runs),
        statistics.median(one.cpu for one in runs),
    )


def report(name, ours, floor, budget, floor_name):
    ratio = ours / floor
    verdict = "" if budget is None else f", {'within' if ratio <= budget else 'OVER'} the budget of {budget}x"
    print(
        f"{name:<21} {ours * 1000:9.1f} ms   {floor_name} {floor * 1000:8.1f} ms   "
        f"{ratio:5.2f}x{verdict}",
        flush=True,
    )
