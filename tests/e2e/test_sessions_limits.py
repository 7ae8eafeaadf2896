# SPDX-License-Identifier: Apache-2.0
"""An agent's limits in its sessions: how many live at once, with what `exec` runs for it, and how much memory each has."""

import glob
import os
import subprocess
import time
from pathlib import Path

import pytest

from controllers import wait_until
from lib.lab import TOKENS
from lib.session_deaths import worker_of
from lib.session_limits import apply, begin, create, families, family_of, manifests, quota
from lib.sessions import CLIENTS, Sessions


@pytest.fixture
def serve(offline):
    apply(offline)
    made = Sessions(offline, clients=CLIENTS, sessions={"warm": {"data": 1}}).start("--accept-degraded")
    wait_until(lambda: "a warm sandbox is ready" in made.lines(), 60)
    yield made
    for session in made.call("GET", "/v1/sessions?limit=1000", token=TOKENS["watcher"]).items():
        assert made.call("DELETE", f"/v1/sessions/{session['id']}", token=TOKENS["file"]).status == 204
    assert made.stop() == 0


def test_who_is_turned_away(serve, offline):
    apply(offline, 1, "reject")
    first = create(serve)
    n = begin(serve, first)
    serve.wait_for_start(first, n)
    create(serve, "bob", 429)
    assert serve.call("GET", "/v1/sessions", owner="bob").items() == []
    assert len(list((serve.state / "local/lab/workspaces/sessions").iterdir())) == 1
    # `berth exec` for the agent is turned away by its sessions, and turns them away.
    run = ("exec", "--agent", "coder", "--accept-degraded")
    assert "Agent/coder has reached its limit of containers" in offline(*run, "-c", "1").expect(125).err
    assert serve.call("DELETE", f"/v1/sessions/{first}").status == 204
    wait_until(lambda: offline(*run, "-c", "1").code == 0)
    with subprocess.Popen([str(offline.binary), *run, "-c", "print('on', flush=True); input()"], cwd=offline.stack, env=offline.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"on\n"
        assert "Agent/coder has reached its limit of containers" in create(serve, "bob", 429)["detail"]
        other.stdin.close()
        assert other.wait() == 1
    assert serve.run(create(serve), "print(1)")["status"] == "ok"


def test_memory_is_that_of_each(serve, offline):
    apply(offline, 2, memoryMB=128)
    code = "try:\n  x = bytearray({0} << 20)\nexcept MemoryError:\n  x = b''\nlen(x) >> 20"
    first, second = create(serve), create(serve, "bob")
    for session, owner in ((first, "alice"), (second, "bob")):
        assert serve.run(session, code.format(60), owner)["value"]["text"] == "60"
        assert serve.run(session, code.format(120), owner)["value"]["text"] == "0"
    # An environment's own sessions have its memory.
    assert serve.run(serve.create(), code.format(300))["value"]["text"] == "300"


# --- what an idle one costs ---


def wakings(pid):
    """How often all threads of a process have waited for something, and it came."""
    found = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    return sum(int(line.split()[1]) for text in found for line in text.splitlines() if line.startswith("voluntary_ctxt_switches"))


def test_an_idle_session_costs_next_to_nothing(serve):
    """Its worker wakes twice a second: it counts what the kernel does not, and the kernel has it wait for that. Nobody inside wakes at all."""
    session = create(serve)
    assert serve.run(session, "x = 1")["status"] == "ok"
    worker = worker_of(serve, session)
    time.sleep(6)  # it is quiet after 5 s
    before = wakings(worker)
    time.sleep(5)
    assert wakings(worker) - before <= 20
    assert serve.run(session, "x")["value"]["text"] == "1"


# --- CPUs ---


@pytest.mark.skipif(os.geteuid() != 0, reason="groups are looked for where root makes them")
def test_the_cpus_of_an_agent_are_one_quota(serve, offline):
    """Over sessions of all owners and `berth exec`, and a change holds for those that live; nobody waits for CPUs."""
    apply(offline, 4, "reject", cpus=2)
    pids = {}
    for owner in ("alice", "bob"):
        session = create(serve, owner)
        assert serve.run(session, "1", owner)["status"] == "ok"
        pids[session] = worker_of(serve, session)
    first, second = pids
    folder = family_of(pids[first])
    if quota(folder) is None:
        pytest.skip("this machine has no controller of CPUs")
    assert family_of(pids[second]) == folder and quota(folder) == 2000
    words = [str(offline.binary), "exec", "--agent", "coder", "--accept-degraded", "-c", "print('on', flush=True); input()"]
    runs = [subprocess.Popen(words, cwd=offline.stack, env=offline.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    # Each may take all of it, and none waits: together they could take more than there is.
    assert [run.stdout.readline() for run in runs] == [b"on\n"] * 2
    assert [family_of(run.pid) for run in runs] == [folder] * 2
    other = create(serve, agent="other")
    assert serve.run(other, "1")["status"] == "ok" and family_of(worker_of(serve, other)) != folder
    alone = serve.create()
    assert serve.run(alone, "1")["status"] == "ok" and not families(worker_of(serve, alone))
    for cpus, millis in ((1, 1000), (3, 3000), (None, None)):
        apply(offline, 4, "reject", **({"cpus": cpus} if cpus else {}))
        assert serve.run(first, "1")["status"] == "ok"
        assert quota(folder) == millis
        assert all(millis is None or quota(group) <= millis for group in glob.glob(f"{folder}/run-*"))
    for run in runs:
        run.communicate(b"\n")
    # The next server finds them where they are, and says anew what holds.
    apply(offline, 4, "reject", cpus=1)
    serve.process.kill()
    serve.process.wait()
    serve.start("--accept-degraded")
    wait_until(lambda: quota(folder) == 1000)
    for session in (first, second, other, alone):
        assert serve.call("DELETE", f"/v1/sessions/{session}", token=TOKENS["file"]).status == 204
    wait_until(lambda: not os.path.exists(folder))


@pytest.mark.skipif(os.geteuid() != 0, reason="groups are looked for where root makes them")
def test_sessions_that_live_are_raised_with_their_agent(serve, offline):
    """Each may use what its environment gives, as far as the agent's share goes: also one that began when that was less, and where another session tells."""

    def share(**limits):
        text = manifests(4, "reject", **limits).replace("prebuilt: python", "prebuilt: python\n  memoryMB: 7076")
        offline.write("stack.yaml", text)
        offline("apply", "--yes", "--allow", "has-sessions").expect(0)

    share(cpus=1)
    first, second = create(serve, "alice"), create(serve, "bob")
    assert serve.run(first, "1")["status"] == serve.run(second, "1", "bob")["status"] == "ok"
    folder = family_of(worker_of(serve, first))
    if quota(folder) is None:
        pytest.skip("this machine has no controller of CPUs")
    version_1 = (Path(folder) / "cpu.cfs_quota_us").exists()
    groups = sorted(glob.glob(f"{folder}/run-*"))
    assert len(groups) == 2
    for cpus in (1, 3, 2, 9, None, 1, 4):
        share(**({"cpus": cpus} if cpus else {}))
        assert serve.run(first, "1")["status"] == "ok"
        own = min(cpus or 4, 4) * 1000 if version_1 else 4000
        assert quota(folder) == (cpus * 1000 if cpus else None)
        assert [quota(group) for group in groups] == [own, own]
        if cpus == 2:  # The next server finds the same groups, whatever their agent had when they were made.
            serve.process.kill()
            serve.process.wait()
            serve.start("--accept-degraded")
            assert serve.run(second, "1", "bob")["status"] == "ok"
            assert sorted(glob.glob(f"{folder}/run-*")) == groups
