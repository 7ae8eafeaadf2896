# SPDX-License-Identifier: Apache-2.0
"""What every benchmark needs: programs run without a trace of the caller's account, and ratios printed."""

import os
import pathlib
import statistics
import subprocess
import sys
import time

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


def run(arguments, accept=(0,)):
    """One run of a program: seconds, and its peak resident memory in MB."""
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
    return seconds, usage.ru_maxrss / 1024


def measure(arguments, floor, times):
    """Both programs in turn, so that whatever else the machine does troubles both: medians and the peak memory."""
    ours, theirs = [], []
    for _ in range(times):
        ours.append(run(arguments))
        theirs.append(run(floor))
    return (
        statistics.median(seconds for seconds, _ in ours),
        statistics.median(seconds for seconds, _ in theirs),
        max(memory for _, memory in ours),
    )


def report(name, ours, floor, budget, floor_name):
    ratio = ours / floor
    verdict = "within" if ratio <= budget else "OVER"
    print(
        f"{name:<16} {ours * 1000:9.1f} ms   {floor_name} {floor * 1000:8.1f} ms   "
        f"{ratio:5.2f}x, {verdict} the budget of {budget}x",
        flush=True,
    )
