# SPDX-License-Identifier: Apache-2.0
"""
The cost of a runaway agent for other owners: it forks, computes, fills its memory and its disk, prints without end and asks
for more containers than it may have, all at once, up to its limits; meanwhile another owner runs code and makes sessions.
Quiet and loud times alternate, so that whatever else the machine does troubles both. Where cgroups are of version 1 and
root measures, the server and this program have a group of their own, as a service of systemd's has: else they share theirs
with whatever else runs in the same login.
"""

import contextlib
import os
import pathlib
import statistics
import sys
import threading
import time

from sessions import STILL_S, Client, first_output, say, serving, workers

ROUNDS, SECONDS, ASKED_AT_ONCE = 3, 6, 100

GROUPS = pathlib.Path("/sys/fs/cgroup/cpu")

FORKS = """import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
MEMORY = """import os
while True:
    if os.fork() == 0:
        kept = []
        while True:
            kept.append(bytearray(b"x" * (1 << 20)))
    os.wait()
"""
FILL = "while :; do head -c 2000000000 /dev/zero > /workspace/$$; sync /workspace/$$; rm -f /workspace/$$; done"
MANY = """import os
n = 0
while True:
    for n in range(n, n + 500):
        with open(f"/workspace/few-{n}", "w") as file:
            file.write("x" * 5000)
            os.fsync(file.fileno())
    for n in range(n - 499, n + 1):
        os.unlink(f"/workspace/few-{n}")
"""
PRINT = "yes 'a line that is as long as lines are, and that nobody has asked for' & yes >&2"
# What each part does; all of them are containers of the one agent.
PARTS = {
    "forks": ["python3", "-c", FORKS],
    "computes": ["python3", "-c", "while True: pass"],
    "fills its memory": ["python3", "-c", MEMORY],
    "fills its disk": ["sh", "-c", FILL],
    "syncs small files": ["python3", "-c", MANY],
    "prints": ["sh", "-c", PRINT],
}


@contextlib.contextmanager
def group_of_our_own():
    """For this process and those that it starts, which have ended when the block has."""
    group = GROUPS / f"bench-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cgroup.procs").write_text("0")
    except OSError as error:
        say("a group of CPUs of its own", "none", str(error), "")
        yield
        return
    try:
        yield
    finally:
        (GROUPS / "cgroup.procs").write_text("0")
        with contextlib.suppress(OSError):
            group.rmdir()


def ask_for_more(port, over):
    """A hundred at a time, which end as soon as they have begun, again and again."""
    with contextlib.closing(Client(port, "runaway")) as client:
        wish = {"agent": "runaway", "type": "temporary", "command": ["sh", "-c", "seq 100000"]}
        while not over.is_set():
            for _ in range(ASKED_AT_ONCE):
                client.ask("POST", "/v1/containers", wish)
            over.wait(1)


@contextlib.contextmanager
def running_away(port, parts, more):
    """As long as the block lasts; then all of it is removed."""
    over = threading.Event()
    asking = threading.Thread(target=ask_for_more, args=(port, over))
    with contextlib.closing(Client(port, "runaway")) as client:
        for name in parts:
            client.must("POST", "/v1/containers", {"agent": "runaway", "type": "service", "restart": "always", "command": PARTS[name]})
    if more:
        asking.start()
    try:
        yield
    finally:
        over.set()
        if more:
            asking.join()
        # By a connection of its own: the first would be idle for as long as the block lasts, and be closed by the server on a busy machine.
        with contextlib.closing(Client(port, "runaway")) as client:
            until = time.monotonic() + STILL_S
            # Removed containers end a little later; those that a server leaves the next one would clear away, and there is
            # none.
            while (left := client.must("GET", "/v1/containers?limit=1000")["items"]) or workers():
                if time.monotonic() > until:
                    sys.exit(f"what has run away does not end: {len(left)} containers, {workers()}")
                for one in left:
                    client.ask("DELETE", f"/v1/containers/{one['id']}")
                time.sleep(0.1)


def others_turn(port, seconds, executed, wrote, created):
    """Another owner's executions in a session that lives, of which some write a file, and sessions made, run in and ended, one after another."""
    with contextlib.closing(Client(port, "small")) as client:
        session = client.create()
        client.run(session, "1+1")
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            for _ in range(20):
                start = time.perf_counter()
                client.run(session, "1+1")
                executed.append((time.perf_counter() - start) * 1000)
            start = time.perf_counter()
            client.run(session, "open('kept', 'w').write('kept')")
            wrote.append((time.perf_counter() - start) * 1000)
            created.append(first_output(client, "cold") * 1000)
        client.end(session)


def tell(name, quiet, loud):
    quiet, loud = sorted(quiet), sorted(loud)
    for what, of in (("median", statistics.median), ("of a hundred the last", lambda all_: all_[len(all_) * 99 // 100]), ("slowest", max)):
        say(f"{name}, {what}", f"{of(loud):.1f} ms", f"while it is quiet {of(quiet):.1f} ms", f"{of(loud) / of(quiet):.2f}x")
        name = " " * len(name)


KINDS = {"executed": "another's 1+1", "wrote": "another's file written, synced", "created": "another's session, first output"}


def bench_runaway(build, quick, parts=tuple(PARTS), more=True):
    with group_of_our_own(), serving(build) as (_, port):
        quiet, loud = ({kind: [] for kind in KINDS} for _ in range(2))
        for _ in range(1 if quick else ROUNDS):
            others_turn(port, SECONDS, **quiet)
            with running_away(port, parts, more):
                others_turn(port, SECONDS, **loud)
        for kind, name in KINDS.items():
            tell(name, quiet[kind], loud[kind])
