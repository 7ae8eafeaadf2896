# SPDX-License-Identifier: Apache-2.0
"""
A plan that finds nothing to do, over the wire: 1,000 environments on a stand-in for AWS, behind the tests' proxy, which takes
15 Lambda control calls in any one second as AWS does, each call delayed by 100 ms, and once more without. Beside it a script
that lists the same with boto3, one list after another, and each of the two long lists alone: the longer one is the floor. The
stand-in computes on one thread: without a delay lists that are asked for at once wait there for one another, so all of them
are asked for at once, too, by processes of their own that do nothing else.
"""

import collections
import multiprocessing
import statistics
import time

import plans
from applies import THROTTLED, standing_in, timed

ENVIRONMENTS, AGENTS = 1_000, 2_000
RETENTION_DAYS = 30
BUDGET = 1.1


def bench_wire(build, quick):
    environments, agents = (200, 400) if quick else (ENVIRONMENTS, AGENTS)
    with standing_in(build, "wire") as (cloud, berth):
        prepare(cloud, berth, environments, agents)
        print(f"plan on the wire: {environments} environments and {agents} agents, nothing to do", flush=True)
        for delay_s in (0.1, 0):
            compare(cloud, berth, delay_s, 3 if quick else 5)


def prepare(cloud, berth, environments, agents):
    """Applied without a retention, which AWS allows five times a second only; it is there when it is declared."""
    plans.write_manifests(berth.stack, environments, agents)
    files = [(file, file.read_text()) for file in sorted(berth.stack.glob("environments-*.yaml"))]
    for file, text in files:
        file.write_text(text.replace(f"  logRetentionDays: {RETENTION_DAYS}\n", ""))
    cloud.pushes.amd64("alphaagent/prebuilt/python")
    timed(berth, "apply", "--yes", "--quiet", "--no-color", "--parallel", "16")
    logs = cloud.direct("logs")
    for number in range(environments):
        name = f"/aws/lambda/alphaagent-env-bench-{number}"
        logs.create_log_group(logGroupName=name)
        logs.put_retention_policy(logGroupName=name, retentionInDays=RETENTION_DAYS)
    for file, text in files:
        file.write_text(text)
    timed(berth, "plan", "--detailed-exitcode")
    cloud.throttle(control=15, get_function=100, sliding=True)


class Paced:
    """A list as fast as AWS allows it: `a_second` calls in any one second."""

    def __init__(self, a_second):
        self.sent, self.a_second = collections.deque(maxlen=a_second), a_second

    def wait(self, **_):
        if len(self.sent) == self.a_second:
            time.sleep(max(0.0, self.sent[0] + 1.001 - time.monotonic()))
        self.sent.append(time.monotonic())


def new_client(cloud, service):
    """With connections of its own, and boto3's own retries."""
    import boto3
    from botocore.config import Config
    from proxy.settings import TEST_ACCESS_KEY, TEST_SECRET

    return boto3.session.Session().client(
        service, endpoint_url=cloud.url, region_name=cloud.region, aws_access_key_id=TEST_ACCESS_KEY, aws_secret_access_key=TEST_SECRET,
        config=Config(s3={"addressing_style": "path"}, proxies={}),
    )  # fmt: skip


def chain(cloud, service, name, a_second, **arguments):
    """Seconds of one list, page by page, and of nothing else."""
    client, pace = new_client(cloud, service), Paced(a_second)
    client.meta.events.register("before-send", pace.wait)
    start = time.perf_counter()
    for _ in client.get_paginator(name).paginate(**arguments):
        pass
    return time.perf_counter() - start


def bucket_of(cloud):
    return f"alphaagent-workspaces-{cloud.account}-{cloud.region}"


def lists(cloud):
    """What a plan lists: (service, name, calls a second that AWS takes, arguments)."""
    return (
        ("lambda", "list_functions", 15, {}),
        ("resourcegroupstaggingapi", "get_resources", 15, {"ResourceTypeFilters": ["lambda:function"], "ResourcesPerPage": 100}),
        ("logs", "describe_log_groups", 10, {"logGroupNamePrefix": "/aws/lambda/alphaagent-env-"}),
        ("s3", "list_objects_v2", 100, {"Bucket": bucket_of(cloud), "Prefix": "registry/"}),
        ("ecr", "describe_repositories", 100, {}),
    )


def script(cloud):
    """The calls of a script that only lists what exists; its imports and clients are not counted."""
    clients = {name: new_client(cloud, name) for name in ("sts", "lambda", "logs", "resourcegroupstaggingapi", "s3", "iam", "ecr")}
    start = time.perf_counter()
    clients["sts"].get_caller_identity()
    for service, name, _, arguments in lists(cloud):
        for _ in clients[service].get_paginator(name).paginate(**arguments):
            pass
    clients["s3"].get_bucket_tagging(Bucket=bucket_of(cloud))
    clients["iam"].get_role(RoleName=f"alphaagent-execution-{cloud.region}")
    return time.perf_counter() - start


def one_of_all(cloud, ready, service, name, a_second, arguments):
    client, pace = new_client(cloud, service), Paced(a_second)
    client.meta.events.register("before-send", pace.wait)
    ready.wait()
    for _ in client.get_paginator(name).paginate(**arguments):
        pass


def all_at_once(cloud):
    """Seconds of all lists, each in a process that has its client before the time is taken."""
    lists_of_it, context = lists(cloud), multiprocessing.get_context("fork")
    ready = context.Barrier(len(lists_of_it) + 1)
    processes = [context.Process(target=one_of_all, args=(cloud, ready, *one)) for one in lists_of_it]
    for process in processes:
        process.start()
    ready.wait()
    start = time.perf_counter()
    for process in processes:
        process.join()
    seconds = time.perf_counter() - start
    if any(process.exitcode for process in processes):
        raise RuntimeError("a list that was asked for beside the others failed")
    return seconds


def compare(cloud, berth, delay_s, times):
    cloud.faults(*([({}, {"kind": "delay", "seconds": delay_s})] if delay_s else []))
    ours, functions, groups, together, scripts, memory = [], [], [], [], [], 0
    throttled = 0
    for _ in range(times):
        time.sleep(1.1)  # each begins with an unused second
        mark = cloud.mark()
        seconds, peak = timed(berth, "plan", "--detailed-exitcode")
        throttled += sum(call["error"] in THROTTLED for call in cloud.calls(mark))
        ours.append(seconds)
        memory = max(memory, peak)
        time.sleep(1.1)
        functions.append(chain(cloud, "lambda", "list_functions", 15))
        time.sleep(1.1)
        groups.append(chain(cloud, "logs", "describe_log_groups", 10, logGroupNamePrefix="/aws/lambda/alphaagent-env-"))
        time.sleep(1.1)
        together.append(all_at_once(cloud))
        time.sleep(1.1)
        scripts.append(script(cloud))
    cloud.faults()
    ours, functions, groups, together, other = (statistics.median(one) for one in (ours, functions, groups, together, scripts))
    longest, which = max((functions, "functions"), (groups, "log groups"))
    name = f"{delay_s * 1000:.0f} ms a call"
    print(
        f"{name:<21} {ours:9.2f} s    longest list {longest:5.2f} s   {ours / longest:5.2f}x, "
        f"{'within' if ours / longest <= BUDGET else 'OVER'} the budget of {BUDGET}x; {memory:.0f} MB, {throttled} calls throttled"
    )
    print(
        f"{'':<21} {'':9}    ({which}; functions {functions:.2f} s, log groups {groups:.2f} s)\n"
        f"{'':<21} {'':9}  all lists at once {together:5.2f} s   {ours / together:5.2f}x, "
        f"{'within' if ours / together <= BUDGET else 'OVER'} the budget of {BUDGET}x\n"
        f"{'':<21} {'':9}      boto3 script {other:5.2f} s   {ours / other:5.2f}x, "
        f"{'within' if ours <= other else 'OVER'} the budget of 1x",
        flush=True,
    )
