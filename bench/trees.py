# SPDX-License-Identifier: Apache-2.0
"""
300 environments in 4 accounts and 3 regions, twelve stacks in one tree: applied side by side within the quotas, which the tests' proxy
counts by account and region as AWS does, and planned side by side, beside a plan of the largest stack alone.
"""

import statistics
import time

from applies import THROTTLED, standing_in, timed

SIZES = [80, *[20] * 11]
CONTROL_A_SECOND, DELAY_S, BUDGET = 15, 0.1, 3


def bench_stacks(build, quick):
    with standing_in(build, "stacks") as (cloud, berth):
        # Of tests/e2e, as the stand-in is.
        import accounts

        sizes = [size // 5 for size in SIZES] if quick else SIZES
        root = berth.stack / "tree"
        accounts.prepare(cloud, berth)
        largest = accounts.write_tree(root, sizes)[0]
        cloud.throttle(control=CONTROL_A_SECOND, get_function=100)
        print(f"{sum(sizes)} environments in {len(sizes)} stacks, the largest of {max(sizes)}", flush=True)
        bench_apply_of(cloud, berth, root)
        cloud.throttle(control=CONTROL_A_SECOND, get_function=100, sliding=True)
        cloud.faults(({}, {"kind": "delay", "seconds": DELAY_S}))
        bench_plan_of(cloud, berth, root, largest, 3 if quick else 5)


def throttled_since(cloud, mark):
    return sum(call["error"] in THROTTLED for call in cloud.calls(mark))


def bench_apply_of(cloud, berth, root):
    mark = cloud.mark()
    seconds, _ = timed(berth, "apply", "-f", str(root), "--stacks", "--yes", "--quiet", "--no-color")
    print(f"{'apply, all of them':<21} {seconds:9.2f} s    {throttled_since(cloud, mark)} calls throttled, none is the budget", flush=True)


def bench_plan_of(cloud, berth, root, largest, times):
    alone, together, mark = [], [], cloud.mark()
    for _ in range(times):
        for folder, more, seconds in ((largest, [], alone), (root, ["--stacks"], together)):
            time.sleep(1.1)  # each begins with an unused second
            seconds.append(timed(berth, "plan", "-f", str(folder), *more, "--detailed-exitcode")[0])
    one, all_of_them = statistics.median(alone), statistics.median(together)
    print(
        f"{f'plan, {DELAY_S * 1000:.0f} ms a call':<21} {all_of_them:9.2f} s    largest alone {one:5.2f} s   {all_of_them / one:5.2f}x, "
        f"{'within' if all_of_them / one <= BUDGET else 'OVER'} the budget of {BUDGET}x; {throttled_since(cloud, mark)} calls throttled",
        flush=True,
    )
