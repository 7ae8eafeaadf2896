# SPDX-License-Identifier: Apache-2.0
"""An agent's limits in its sessions: how many live at once, with what `exec` runs for it, and how much memory each has."""

import subprocess
import threading

import pytest

import stacks
from controllers import wait_until
from test_serve import TOKENS
from test_serve_sessions import CLIENTS, Sessions

PREFER = [("Prefer", "respond-async")]
HOLD = "import os, time\nopen('/workspace/on', 'w').close()\nwhile not os.path.exists('/tmp/go'): time.sleep(0.05)"


def manifests(containers=1, on_limit="queue", **limits):
    limits = {"containers": containers, "onLimit": on_limit, **limits}
    return stacks.text(
        stacks.document("Stack", "lab", {"provider": "local"}),
        stacks.document("Environment", "data", {"image": {"prebuilt": "python"}}),
        stacks.document("Agent", "coder", {"environment": "data", "limits": limits}),
        stacks.document("Agent", "other", {"environment": "data", "limits": limits}),
    )  # fmt: skip


def apply(offline, *args, **limits):
    offline.write("stack.yaml", manifests(*args, **limits))
    offline("apply", "--yes").expect(0)


@pytest.fixture
def serve(offline):
    apply(offline)
    made = Sessions(offline, clients=CLIENTS, sessions={"warm": {"data": 1}}).start("--accept-degraded")
    wait_until(lambda: "a warm sandbox is ready" in made.lines(), 60)
    yield made
    for session in made.call("GET", "/v1/sessions?limit=1000", token=TOKENS["watcher"]).items():
        assert made.call("DELETE", f"/v1/sessions/{session['id']}", token=TOKENS["file"]).status == 204
    assert made.stop() == 0


def create(serve, owner="alice", status=201, agent="coder"):
    answer = serve.call("POST", "/v1/sessions", {"agent": agent}, owner)
    assert answer.status == status, answer.body
    return answer.json()["id"] if status == 201 else answer.problem(status, "agent-limit")


def begin(serve, session, code=HOLD, owner="alice"):
    """Runs until it is interrupted."""
    answer = serve.call("POST", f"/v1/sessions/{session}/executions", {"code": code}, owner, headers=PREFER)
    assert answer.status == 202, answer.body
    return answer.json()["n"]


def status(serve, session, owner="alice"):
    return serve.call("GET", f"/v1/sessions/{session}", owner=owner).json()["status"]


def test_who_comes_later_waits_and_a_change_holds_at_once(serve, offline):
    first = create(serve)
    n = begin(serve, first)
    serve.wait_for_start(first, n)
    second = create(serve, "bob")
    assert status(serve, second, "bob") == "queued"
    waits = begin(serve, second, "print('second')", "bob")
    path = f"/v1/sessions/{second}/executions/{waits}"
    assert serve.call("GET", path, owner="bob").json()["status"] == "queued"
    assert [s["id"] for s in serve.call("GET", "/v1/sessions?status=queued", owner="bob").items()] == [second]
    # Another agent has limits of its own, and so has what runs for none.
    assert serve.run(create(serve, agent="other"), "print(1)")["status"] == "ok"
    assert serve.run(serve.create(), "print(1)")["status"] == "ok"
    # One more may run from the next apply on, without a restart.
    apply(offline, 2)
    assert serve.follow(f"{path}/events", owner="bob")[-1][2]["stdout"]["content"] == "second\n"
    assert serve.call("GET", f"/v1/sessions/{first}/executions/{n}").json()["status"] == "running"


def test_the_longest_idle_makes_room(serve, offline):
    """Whoever owns it: it is parked, and has its variables when it comes back, in the place of the next."""
    apply(offline, 1, "reject")
    first = create(serve)
    serve.run(first, "x = 'kept'")
    second = create(serve, "bob")
    assert serve.run(second, "1 + 1", "bob")["value"]["text"] == "2"
    assert status(serve, first) == "parked"
    again = serve.run(first, "x")
    assert (again["value"]["text"], again["state"]["was"]) == ("'kept'", "restored")
    wait_until(lambda: status(serve, second, "bob") == "parked")


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


def test_two_race_for_the_last_place(serve, offline):
    apply(offline, 2, "reject")
    answers = []

    def ask(owner):
        answers.append(serve.call("POST", "/v1/sessions", {"agent": "coder"}, owner))
        if answers[-1].status == 201:
            begin(serve, answers[-1].json()["id"], HOLD, owner)

    threads = [threading.Thread(target=ask, args=(f"owner-{i}",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {a.status for a in answers} <= {201, 429}
    running = [s for s in serve.call("GET", "/v1/sessions", token=TOKENS["watcher"]).items() if s["status"] == "running"]
    assert len(running) <= 2, running


def test_memory_is_that_of_each(serve, offline):
    apply(offline, 2, memoryMB=128)
    code = "try:\n  x = bytearray({0} << 20)\nexcept MemoryError:\n  x = b''\nlen(x) >> 20"
    first, second = create(serve), create(serve, "bob")
    for session, owner in ((first, "alice"), (second, "bob")):
        assert serve.run(session, code.format(60), owner)["value"]["text"] == "60"
        assert serve.run(session, code.format(120), owner)["value"]["text"] == "0"
    # An environment's own sessions have its memory.
    assert serve.run(serve.create(), code.format(300))["value"]["text"] == "300"
