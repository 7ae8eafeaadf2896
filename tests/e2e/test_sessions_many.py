# SPDX-License-Identifier: Apache-2.0
"""
Two servers of one stack on AWS, with one state in S3 and one table, behind a balancer that gives each connection to the next: no client
knows which of them it speaks with, and none may have to.
"""

import json
import os
import signal
import threading

import pytest

import stacks
from clocks import Clocks
from controllers import wait_until
from lib.lab import TOKENS
from lib.many_servers import Team

pytestmark = [pytest.mark.timeout(600), pytest.mark.sampled("moto")]


@pytest.fixture
def team(berth, cloud, tmp_path):
    cloud.settings(pending_s=0)
    cloud.pushes.amd64("alphaagent/prebuilt/python")
    berth.write("m.yaml", stacks.text(stacks.stack("lab")))
    berth("image", "runtime", "alphaagent/prebuilt/python:latest", "--push").expect(0)
    made = Team(berth, cloud, Clocks(tmp_path))
    yield made
    made.stop()


def events(answer):
    assert answer.status == 200, answer.body
    told = [dict(line.split(": ", 1) for line in block.split("\n") if ": " in line) for block in answer.body.decode().split("\n\n")]
    return [(one["event"], json.loads(one["data"])) for one in told if "event" in one]


def test_no_client_knows_which_server_it_has(team):
    session = team.make()
    assert [team.text(session, f"x = {n}\nx") for n in range(4)] == ["0", "1", "2", "3"]
    assert team.text(session, "x", at=0) == team.text(session, "x", at=1) == "3"
    assert len(team.invokes()) == 6
    # One conversation, one key: one session and one execution.
    talks = {team.make(conversation="talk") for _ in range(4)}
    assert len(talks) == 1
    key = [("Idempotency-Key", "one")]
    told = [team.run(session, "x += 1\nx", headers=key).json() for _ in range(3)]
    assert [one["n"] for one in told] == [7, 7, 7] and {one["value"]["text"] for one in told} == {"4"}
    assert len(team.invokes()) == 7
    for at in (0, 1):
        assert sorted(one["id"] for one in team.ask("/v1/sessions", at=at).items()) == sorted([session, *talks])
        assert [one["n"] for one in team.ask(f"/v1/sessions/{session}/executions", at=at).items()] == list(range(1, 8))
    # Files, parking and the end.
    files = f"/v1/workspaces/{session}/files"
    team.text(session, "open('f', 'w').write('made')", at=0)
    assert team.ask(f"{files}/f", at=1).body == b"made"
    assert team.ask(f"/v1/sessions/{session}/park", "POST", {}, at=1).status in (200, 202, 204)
    wait_until(lambda: team.ask(f"/v1/sessions/{session}", at=0).json()["status"] == "parked")
    assert team.text(session, "x", at=0) == "4"
    assert team.ask(f"/v1/sessions/{session}", "DELETE", at=1).status == 204
    for at in (0, 1):
        assert team.ask(f"/v1/sessions/{session}", at=at).status == 404
        assert team.run(session, "x", at=at).status == 404


def test_what_runs_at_one_is_followed_and_interrupted_at_the_other(team):
    session = team.make(at=0)
    n = team.begin(session, "import time\nprint('runs', flush=True)\ntime.sleep(600)", at=0)
    waiting = team.run(session, "print('second'); 2", at=1, headers=[("Prefer", "respond-async")]).json()
    assert (waiting["n"], waiting["status"]) == (n + 1, "queued")
    assert team.ask(f"/v1/sessions/{session}", at=1).json()["status"] == "running"
    told = []
    follower = threading.Thread(target=lambda: told.extend(events(team.servers[1].ask(f"/v1/sessions/{session}/executions/{n}/events", TOKENS["self"]))))
    follower.start()
    wait_until(lambda: team.items("~live/"))
    assert follower.is_alive()
    assert team.ask(f"/v1/sessions/{session}/executions/{n}/interrupt", "POST", {}, at=1).status in (200, 202, 204)
    follower.join(60)
    names = [name for name, _ in told]
    assert (names[0], names[-1]) == ("started", "done") and told[-1][1]["status"] == "interrupted", told
    assert "".join(data["text"] for name, data in told if name == "stdout") == "runs\n"
    second = team.result(session, n + 1, at=1)
    assert second["status"] == "ok" and second["stdout"]["content"] == "second\n"
    assert len(team.invokes()) == 2


def test_one_is_killed_in_the_middle(team):
    """The other waits for what runs, takes its result as it is, and goes on with what waited."""
    session = team.make(at=0)
    team.text(session, "x = 1\nx", at=0)
    n = team.begin(session, "import time\ntime.sleep(8)\nprint('seen')\nx += 1\nx", at=0)
    waits = team.run(session, "x += 1\nx", at=0, headers=[("Prefer", "respond-async")]).json()["n"]
    team.servers[0].process.kill()
    team.servers[0].process.wait()
    found = team.result(session, n, at=1)
    assert found["status"] == "ok" and found["value"]["text"] == "2" and found["stdout"]["content"] == "seen\n", found
    assert team.result(session, waits, at=1)["value"]["text"] == "3"
    assert team.text(session, "x") == "3"  # the balancer finds the one that lives
    assert len(team.invokes()) == 4
    # It comes back, and nothing is done again.
    team.servers[0] = team.start(team.berths[0])
    assert team.text(session, "x", at=0) == "3"
    assert len(team.invokes()) == 5


@pytest.mark.skipif(not os.environ.get("BERTH_EXHAUSTIVE"), reason="waits until a server has been silent for long enough")
def test_one_stands_still_and_goes_on(team):
    """It is taken for dead, and what it hears afterwards is no result any more."""
    session = team.make(at=0)
    n = team.begin(session, "import time\ntime.sleep(4)\n'once'", at=0)
    waits = team.run(session, "'second'", at=0, headers=[("Prefer", "respond-async")]).json()["n"]
    team.servers[0].process.send_signal(signal.SIGSTOP)
    assert team.result(session, n, at=1)["value"]["text"] == "'once'"
    assert team.result(session, waits, at=1)["value"]["text"] == "'second'"
    team.servers[0].process.send_signal(signal.SIGCONT)
    wait_until(lambda: team.ask(f"/v1/sessions/{session}", at=0).json()["status"] == "idle")
    assert team.text(session, "3", at=0) == "3"
    assert team.result(session, waits, at=0)["value"]["text"] == "'second'"
    assert len(team.invokes()) == 3


def test_one_stands_still_as_an_execution_begins(team):
    """The table has that it begins, and another server has ended it before the first one hears so: of that one's nothing is sent any more."""
    session = team.make(at=0)
    assert team.text(session, "x = 1\nx", at=0) == "1"
    team.cloud.faults(({"service": "dynamodb", "operation": "TransactWriteItems", "resource": session, "nth": 1}, {"kind": "hold"}))
    answers = []
    asking = threading.Thread(target=lambda: answers.append(team.run(session, "x += 1\nx", at=0, timeoutSeconds=5)))
    asking.start()
    path = f"/v1/sessions/{session}/executions"
    wait_until(lambda: (found := team.ask(f"{path}/2", at=1)).status == 200 and found.json()["status"] == "running")
    waits = team.run(session, "x += 10\nx", at=1, headers=[("Prefer", "respond-async")]).json()["n"]
    team.servers[0].process.send_signal(signal.SIGSTOP)
    team.clocks.give(team.berths[1], monotonic_s=25)
    wait_until(lambda: "is taken over" in team.servers[1].lines())
    # The second waits for what the first may have begun, as long as that may take.
    wait_until(lambda: [call for call in team.cloud.calls(operation="GetObject") if call["params"]["Key"].endswith(f"{session}/transfer/2/result")])
    team.clocks.give(team.berths[1], monotonic_s=25, wall_s=80)
    assert team.result(session, 2, at=1)["status"] == "failed"
    assert team.result(session, waits, at=1)["value"]["text"] == "11"
    # The first goes on, and says that it lives; only then it hears.
    team.clocks.give(team.berths[0], monotonic_s=25)
    assert team.living() == 1
    team.servers[0].process.send_signal(signal.SIGCONT)
    wait_until(lambda: team.living() == 2)
    team.cloud.faults()
    asking.join(120)
    (answer,) = answers
    assert answer.status == 200 and answer.json()["status"] == "failed", answer.body
    assert team.text(session, "x", at=0) == "11"
    assert len(team.invokes()) == 3
