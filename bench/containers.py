# SPDX-License-Identifier: Apache-2.0
"""
1,000 containers made and ended, one after another, beside `berth exec` of the same command; and what they leave behind, in the server and on
the machine, once they and their agent's workspace are removed.
"""

import contextlib
import os
import pathlib
import statistics
import sys
import time

import sandboxes
from common import run
from sessions import FOLDER, PATIENCE_S, STILL_S, Client, await_workers, memory_kib, say, serving, verdict, workers

COMMAND = ["sh", "-c", ":"]
FLOOR_EVERY, BUDGET = 10, 2
WORKSPACE = "/v1/workspaces/agent:bench"


def one(client):
    """Seconds until it has ended, and until it is removed as well."""
    start = time.perf_counter()
    made = client.must("POST", "/v1/containers", {"agent": "bench", "type": "temporary", "command": COMMAND, "waitSeconds": PATIENCE_S})
    ended = time.perf_counter()
    if made["status"] != "exited" or made["exitCode"] != 0:
        raise RuntimeError(f"a container ended otherwise: {made}")
    client.must("DELETE", f"/v1/containers/{made['id']}")
    return ended - start, time.perf_counter() - start


def remove_workspace(client):
    """Once the kernel has let go of what the last container had."""
    until = time.monotonic() + STILL_S
    while (status := client.ask("DELETE", WORKSPACE)[0]) not in (204, 404):
        if time.monotonic() > until:
            sys.exit(f"the workspace of the agent cannot be removed: {status}")
        time.sleep(0.05)


def loop_devices():
    count = 0
    for file in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            count += str(FOLDER) in file.read_text()
    return count


def what_is_there(server):
    """Sandboxes' users, groups and mounts are the whole machine's: those of other programs show."""
    of_server = pathlib.Path(f"/proc/{server}")
    sockets = [line.split()[-1] for line in pathlib.Path("/proc/net/unix").read_text().splitlines()]
    return {
        "workers": len(workers()),
        "processes of sandboxes": sandboxes.processes_of_ours(),
        "cgroups": sandboxes.groups_of_ours(),
        "mounts": len(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()),
        "loop devices": loop_devices(),
        "files of the state": sandboxes.files_below(FOLDER),
        "sockets in the state": sum(path.startswith(str(FOLDER)) for path in sockets),
        "mounts of the server": len((of_server / "mountinfo").read_text().splitlines()),
        "descriptors of the server": len(os.listdir(of_server / "fd")),
    }


def bench_containers(build, quick):
    sandboxes.apply_stack(build)
    floor = sandboxes.exec_command(build, "--lang", "sh", "-c", ":")
    count = 20 if quick else 1000
    with serving(build) as (process, port), contextlib.closing(Client(port)) as client:
        # What there is of an agent and its owner from the first one on, and of the server's own.
        one(client)
        run(floor)
        remove_workspace(client)
        await_workers()
        before, memory = what_is_there(process.pid), memory_kib(process.pid)
        ended, removed, beside = [], [], []
        for n in range(count):
            for seconds, all_ in zip(one(client), (ended, removed)):
                all_.append(seconds)
            if n % FLOOR_EVERY == 0:
                beside.append(run(floor).seconds)
        remove_workspace(client)
        await_workers()
        ours, theirs = statistics.median(ended), statistics.median(beside)
        judged = verdict(ours <= BUDGET * theirs, f"{BUDGET}x")
        say(f"{count} containers, until ended", f"{ours * 1000:.1f} ms", f"{theirs * 1000:.1f} ms by berth exec", f"{ours / theirs:.2f}x; {judged}")
        say("of a hundred the last", f"{sorted(ended)[len(ended) * 99 // 100] * 1000:.1f} ms", "", "")
        say("and until removed, median", f"{statistics.median(removed) * 1000:.1f} ms", "", "")
        tenth = max(count // 10, 1)
        first, last = (statistics.median(some) * 1000 for some in (ended[:tenth], ended[-tenth:]))
        say("the last tenth of them", f"{last:.1f} ms", f"{first:.1f} ms the first tenth", "")
        say("the server's memory", f"{memory_kib(process.pid) - memory:+} KiB", f"{memory} KiB before", "")
        sandboxes.print_leak(before, lambda: what_is_there(process.pid))
