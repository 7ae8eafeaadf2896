# SPDX-License-Identifier: Apache-2.0
"""
An apply of 1,000 environments and 2,000 agents on a stand-in for AWS, behind the tests' proxy, which allows 15 Lambda control
calls a second as AWS does and keeps each function Pending for 10 s. Then the plan that finds nothing to do.
"""

import collections
import contextlib
import math
import shutil
import subprocess
import sys
import time

import plans
from common import ROOT, WORK, peak_memory, under_time

sys.path.insert(1, str(ROOT / "tests" / "e2e"))  # before what PyPI has of the same name

ENVIRONMENTS, AGENTS = 1_000, 2_000
CONTROL_A_SECOND, RETENTIONS_A_SECOND, PENDING_S = 15, 5, 10
BUDGET, BUDGET_MB = 1.15, 64
THROTTLED = ("TooManyRequestsException", "ThrottledException")


def timed(berth, *arguments):
    """Seconds, and the peak of resident memory in MB."""
    command = under_time([berth.binary, *arguments], WORK / "peak")
    start = time.perf_counter()
    done = subprocess.run(
        command, cwd=berth.stack, env=berth.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"berth {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr.decode()[-2000:]}")
    return time.perf_counter() - start, peak_memory(WORK / "peak")


@contextlib.contextmanager
def standing_in(build, name):
    """A cloud behind the tests' proxy, and a berth for it in a new folder."""
    # Not from the standard library, as the servers that they start are not.
    from binary import Berth
    from cloud import Cloud
    from servers import ProxyServer, Standin

    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    standin = Standin("ministack")
    proxy = ProxyServer(standin)
    try:
        cloud = Cloud(standin, proxy)
        yield cloud, Berth(build / "berth", folder, cloud.url)
    finally:
        proxy.stop()
        standin.stop()


def bench_apply(build, quick):
    environments, agents = (100, 200) if quick else (ENVIRONMENTS, AGENTS)
    with standing_in(build, "apply") as (cloud, berth):
        plans.write_manifests(berth.stack, environments, agents)
        cloud.pushes.amd64("alphaagent/prebuilt/python")
        cloud.settings(pending_s=PENDING_S)
        cloud.throttle(control=CONTROL_A_SECOND, get_function=100)
        bench_first(cloud, berth, environments, agents)
        bench_nothing_to_do(cloud, berth, environments, agents)


def bench_first(cloud, berth, environments, agents):
    mark = cloud.mark()
    seconds, memory = timed(berth, "apply", "--yes", "--quiet", "--no-color", "--parallel", "16")
    calls = cloud.calls(mark)
    control = sum(call["service"] == "lambda" and call["operation"] != "GetFunction" for call in calls)
    throttled = sum(call["error"] in THROTTLED for call in calls)
    # Each environment declares a log retention, of which AWS takes few a second.
    retentions = sum(call["operation"] == "PutRetentionPolicy" for call in calls)
    floor = max(control / CONTROL_A_SECOND, retentions / RETENTIONS_A_SECOND) + PENDING_S
    verdict = "within" if seconds / floor <= BUDGET else "OVER"
    print(f"apply: {environments} environments and {agents} agents, {len(calls)} calls, {throttled} of them throttled")
    print(
        f"{'apply':<21} {seconds:9.1f} s    quota and a wait {floor:5.1f} s   "
        f"{seconds / floor:5.2f}x, {verdict} the budget of {BUDGET}x"
    )
    verdict = "within" if memory <= BUDGET_MB else "OVER"
    print(f"{'apply, memory':<21} {memory:9.1f} MB   {verdict} the budget of {BUDGET_MB} MB")


def bench_nothing_to_do(cloud, berth, environments, agents):
    mark = cloud.mark()
    seconds, memory = timed(berth, "plan", "--detailed-exitcode")
    calls = cloud.calls(mark)
    # Lists of functions, of tags, of log groups (plans.py declares a retention for each) and of records; and a handful.
    lists = sum(math.ceil(count / page) for count, page in ((environments, 50), (environments, 100), (environments, 50), (agents, 1000)))
    verdict = "within" if len(calls) <= lists + 20 else "OVER"
    print(
        f"{'plan, no change':<21} {len(calls):9} calls   lists alone {lists}   {verdict} the budget of a handful more; "
        f"{seconds:.1f} s, {memory:.1f} MB"
    )
    several = collections.Counter(call["operation"] for call in calls).most_common(4)
    print(f"{'':<21} {', '.join(f'{name} {count}' for name, count in several)}", flush=True)
