# SPDX-License-Identifier: Apache-2.0
"""How many sessions of an agent live at once, wherever they run: who comes later waits, or is turned away, or has the longest idle make room."""

import threading

import pytest

import stacks
from controllers import wait_until
from lib.lab import TOKENS
from lib.session_limits import HOLD, PREFER, begin, create, status
from lib.sessions import CLIENTS, Sessions

pytestmark = pytest.mark.timeout(300)


def documents(containers=1, on_limit="queue"):
    limits = {"containers": containers, "onLimit": on_limit}
    return [
        stacks.document("Environment", "data", {"image": {"prebuilt": "python"}}),
        stacks.document("Agent", "coder", {"environment": "data", "limits": limits}),
        stacks.document("Agent", "other", {"environment": "data", "limits": limits}),
    ]  # fmt: skip


@pytest.fixture
def serve(place, binary, tmp_path):
    berth = place.berth(binary, tmp_path)
    place.declare(berth, *documents())
    made = Sessions(berth, clients=CLIENTS)
    made.place, made.declare = place.name, lambda *limits: place.declare(berth, *documents(*limits))
    made.start("--accept-degraded")
    yield made
    for session in made.call("GET", "/v1/sessions?limit=1000", token=TOKENS["watcher"]).items():
        if place.name == "aws":  # what holds would keep the next test waiting for two seconds and its grace
            place.cloud._post("environments", {"do": "lose", "tenant": session["id"]})
        assert made.call("DELETE", f"/v1/sessions/{session['id']}", token=TOKENS["file"]).status == 204
    assert made.stop() == 0


def test_who_comes_later_waits_and_a_change_holds_at_once(serve):
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
    serve.declare(2)
    assert serve.follow(f"{path}/events", owner="bob")[-1][2]["stdout"]["content"] == "second\n"
    assert serve.call("GET", f"/v1/sessions/{first}/executions/{n}").json()["status"] == "running"


def test_the_longest_idle_makes_room(serve):
    """Whoever owns it: it is parked, and has its variables when it comes back, in the place of the next."""
    serve.declare(1, "reject")
    first = create(serve)
    serve.run(first, "x = 'kept'")
    second = create(serve, "bob")
    assert serve.run(second, "1 + 1", "bob")["value"]["text"] == "2"
    assert status(serve, first) == "parked"
    again = serve.run(first, "x")
    assert (again["value"]["text"], again["state"]["was"]) == ("'kept'", "restored" if serve.place == "local" else "kept")
    wait_until(lambda: status(serve, second, "bob") == "parked")


def test_two_race_for_the_last_place(serve):
    serve.declare(2, "reject")
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


@pytest.mark.here("on AWS who waits without an execution is in no line once his server has died: docs/aws.md; the rest is in test_sessions_aws_limits.py")
def test_what_waits_outlives_the_server(serve):
    """Killed while a session stands in line and executions wait, long ones, with files: all are run, in their order, each once."""
    first = create(serve)
    n = begin(serve, first, "open('log', 'a').write('1 ')\n" + HOLD)
    serve.wait_for_start(first, n)
    second, third = create(serve, "bob"), create(serve)
    tail = "\n# " + "x" * 200_000
    asked = [
        (first, "alice", {"code": "open('log', 'a').write('2 ' + open('in').read())" + tail, "files": [{"path": "in", "content": "file "}]}),
        (first, "alice", {"code": "import os; open('log', 'a').write('3 ' + os.environ['V'] + input())", "variables": {"V": "text "}, "stdin": "typed"}),
        (first, "alice", {"code": "cat log", "language": "sh"}),
        (second, "bob", {"code": "print('second')" + tail}),
    ]
    paths = []
    for session, owner, body in asked:
        answer = serve.call("POST", f"/v1/sessions/{session}/executions", body, owner, headers=PREFER)
        assert answer.status == 202, answer.body
        paths.append((f"/v1/sessions/{session}/executions/{answer.json()['n']}", owner))
    for turn in range(2):
        # The second server is killed as well, before anything that waits had its turn.
        shown = [serve.call("GET", path, owner=owner).json() for path, owner in paths]
        assert [(s["status"], s["queuePosition"]) for s in shown] == [("queued", 1), ("queued", 2), ("queued", 3), ("queued", 1)]
        line = [serve.call("GET", f"/v1/sessions/{s}", owner=o).json() for s, o in ((first, "alice"), (second, "bob"), (third, "alice"))]
        assert [(s["status"], s["queuePosition"]) for s in line] == [("running", None), ("queued", 1), ("queued", 2)]
        serve.process.kill()
        serve.process.wait()
        serve.start("--accept-degraded")
    assert serve.call("POST", f"/v1/sessions/{first}/executions/{n}/interrupt").status == 204
    for path, owner in paths:
        done = serve.follow(f"{path}/events", owner=owner)[-1][2]
        assert done["status"] == "ok", done
    log = serve.call("GET", f"{paths[2][0]}").json()["stdout"]["content"]
    assert log == "1 2 file 3 text typed"
    assert serve.call("GET", f"/v1/sessions/{first}/executions/{n}").json()["status"] == "interrupted"
    assert [e["n"] for e in serve.call("GET", f"/v1/sessions/{first}/executions").items()] == [1, 2, 3, 4]
    for session in (first, second):
        staged = serve.state / f"local/lab/workspaces/sessions/{session}/staged"
        assert not staged.exists() or list(staged.iterdir()) == []
