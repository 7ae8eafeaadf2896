# SPDX-License-Identifier: Apache-2.0
"""
An agent's limit over two servers with one table. What ran when is seen at the proxy, which has each invocation, and told by the code itself,
which writes when it began and ended into a folder of this machine: neither is a server's word.
"""

import concurrent.futures
import contextlib
import http.client
import json
import time

import pytest

import stacks
from clocks import Clocks
from controllers import wait_until
from lib.aws_sessions import TABLE
from lib.many_servers import STATE, Team

pytestmark = [pytest.mark.timeout(600), pytest.mark.sampled("moto")]

ASYNC = [("Prefer", "respond-async")]


class Limited(Team):
    """A team whose agent has a limit."""

    def documents(self, containers, on_limit="queue"):
        limits = {"containers": containers, "onLimit": on_limit} if containers else {}
        return [
            stacks.stack("lab", sessions={"table": TABLE}, state={"s3": f"s3://{STATE}/lab"}),
            stacks.environment("x"),
            stacks.document("Agent", "coder", {"environment": "x", **({"limits": limits} if limits else {})}),
        ]  # fmt: skip

    def let(self, containers, on_limit="queue"):
        text = stacks.text(*self.documents(containers, on_limit))
        for berth in self.berths:
            berth.write("m.yaml", text)
        self.berths[0]("apply", "--yes").expect(0)
        for at in range(2):
            wait_until(lambda at=at: self.limit(at) == containers)

    def limit(self, at):
        """As that server knows it by now; False: it knows no such agent."""
        found = [agent for agent in self.ask("/v1/agents", at=at).items() if agent["name"] == "coder"]
        return (found[0].get("limits") or {}).get("containers") if found else False

    def open(self, at, status=201):
        made = self.ask("/v1/sessions", "POST", {"agent": "coder"}, at=at)
        assert made.status == status, (made.body, [server.lines()[-2000:] for server in self.servers])
        return made.json()["id"] if status == 201 else made.problem(status, "agent-limit")

    def put(self, session, code, at, timeout=60):
        """In its line; the number."""
        answer = self.ask(f"/v1/sessions/{session}/executions", "POST", {"code": code, "timeoutSeconds": timeout}, ASYNC, at)
        assert answer.status == 202, answer.body
        return answer.json()["n"]

    def status(self, session, at):
        return self.ask(f"/v1/sessions/{session}", at=at).json()["status"]

    def seats(self):
        """What the table has of them, by its own word; none where there is no record."""
        return [json.loads(item["value"]["S"]) for item in self.items("~seats/")]

    def kill(self, at):
        self.servers[at].process.kill()
        self.servers[at].process.wait()


@pytest.fixture
def team(berth, cloud, tmp_path):
    cloud.settings(pending_s=0)
    cloud.pushes.amd64("alphaagent/prebuilt/python")
    berth.write("m.yaml", stacks.text(stacks.stack("lab")))
    berth("image", "runtime", "alphaagent/prebuilt/python:latest", "--push").expect(0)
    made = Limited(berth, cloud, Clocks(tmp_path))
    yield made
    made.stop()


def spans(team):
    """When each invocation ran at Lambda, by the proxy's clock, whoever listened: [tenant, begun, ended]."""
    return team.cloud._get("invocations")


def at_once(team):
    """The most of them at any moment."""
    now = time.time()
    marks = sorted([(begun, 1) for _, begun, _ in spans(team)] + [(ended or now, -1) for _, _, ended in spans(team)])
    count = most = 0
    for _, change in marks:
        count += change
        most = max(most, count)
    return most


def test_two_servers_share_one_limit(team):
    """Who waits at the one gets the place of what is idle at the other, whose variables stay."""
    team.let(1)
    first, second = team.open(0), team.open(1)
    n = team.put(first, "x = 1\nimport time\ntime.sleep(3)\nprint('first')", 0)
    wait_until(lambda: len(spans(team)) == 1)
    waits = team.put(second, "print('second')", 1)
    assert team.ask(f"/v1/sessions/{second}/executions/{waits}", at=0).json()["status"] == "queued"
    assert {team.status(second, at) for at in (0, 1)} == {"queued"}
    assert team.result(first, n, at=1)["status"] == team.result(second, waits, at=0)["status"] == "ok"
    assert team.text(first, "x", at=0) == "1"
    assert [tenant for tenant, _, _ in spans(team)] == [first, second, first] and at_once(team) == 1


@pytest.mark.parametrize("limit", [1, 2])
def test_many_ask_both(team, limit):
    """Sessions that go from one server to the other with each execution."""
    team.let(limit)
    sessions = [team.open(i % 2) for i in range(5)]
    failed = []

    def work(i):
        for turn in range(3):
            code = f"import time\ntime.sleep(0.2)\n{turn}"
            answer = team.run(sessions[i], code, at=(i + turn) % 2)
            if answer.status != 200 or answer.json()["status"] != "ok":
                failed.append(answer.body)

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        list(pool.map(work, range(5)))  # what one of them raises is raised here
    assert failed == [] and len(spans(team)) == 15
    assert at_once(team) <= limit
    for session in sessions:
        wait_until(lambda: team.ask(f"/v1/sessions/{session}", "DELETE", at=0).status in (204, 404))
    wait_until(lambda: team.seats() == [])


def test_who_is_turned_away(team):
    team.let(1, "reject")
    first = team.open(0)
    team.put(first, "import time\ntime.sleep(4)", 0)
    wait_until(lambda: len(spans(team)) == 1)
    assert "Agent/coder" in team.open(1, status=429)["detail"]
    assert len(team.ask("/v1/sessions", at=1).items()) == 1
    wait_until(lambda: spans(team)[0][2])
    wait_until(lambda: team.status(first, 1) == "idle")
    second = team.open(1)  # what is idle elsewhere makes room
    assert team.text(second, "2", at=1) == "2" and at_once(team) == 1


@pytest.mark.parametrize("comes", ["the same", "another"])
def test_a_killed_server_keeps_its_place_until_its_code_has_ended(team, comes):
    """Another server, or the next one, begins nothing beside what still runs, though much waits; and then at once."""
    team.let(1)
    first, second = team.open(0), team.open(0)
    n = team.put(first, "import time\ntime.sleep(12)\nprint('first')", 0)
    wait_until(lambda: len(spans(team)) == 1)
    waits = team.put(second, "print('second')", 0)
    assert team.status(second, 0) == "queued"
    team.kill(0)
    if comes == "the same":
        team.servers[0] = team.start(team.berths[0])
    at = 0 if comes == "the same" else 1
    third = team.open(at)
    behind = team.put(third, "print('third')", at)
    assert team.result(third, behind, at)["stdout"]["content"] == "third\n"
    assert team.result(second, waits, at)["stdout"]["content"] == "second\n"
    assert team.result(first, n, at)["stdout"]["content"] == "first\n"
    ran = spans(team)
    assert ran[0][0] == first and sorted(tenant for tenant, _, _ in ran[1:]) == sorted([second, third])
    assert at_once(team) == 1 and ran[1][1] >= ran[0][2]
    assert ran[1][1] - ran[0][2] < 25, ran


def test_a_killed_server_whose_code_nobody_heard_of(team):
    """Lambda lost it: until its time and a minute more are over nobody can know that, and the place stays taken as long."""
    team.let(1)
    first, second = team.open(0), team.open(1)
    n = team.put(first, "import time\ntime.sleep(600)", 0, timeout=5)
    wait_until(lambda: len(spans(team)) == 1)
    waits = team.put(second, "print('second')", 1)
    team.cloud._post("environments", {"do": "freeze", "tenant": first})
    team.kill(0)
    wait_until(lambda: "is taken over" in team.servers[1].lines())
    team.cloud._post("environments", {"do": "lose", "tenant": first})
    time.sleep(8)  # its time is over, and the minute is not
    assert team.ask(f"/v1/sessions/{second}/executions/{waits}", at=1).json()["status"] == "queued"
    assert len(spans(team)) == 1
    team.clocks.give(team.berths[1], wall_s=70)
    assert team.result(second, waits, at=1)["status"] == "ok"
    team.clocks.give(team.berths[1])
    found = team.result(first, n, at=1)
    assert found["status"] == "failed" and found["exitCode"] is None, found
    assert at_once(team) == 1


WRITE = {"service": "dynamodb", "operation": "TransactWriteItems"}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", ["taking", "asked", "ended"])
def test_killed_between_taking_a_place_and_the_end(team, tmp_path, call, when):
    """At each write of a session's life, before the table has it and after: nothing runs beside another, and no place is lost by it."""
    team.let(1)
    pidfile = tmp_path / "pid"
    pidfile.write_text(str(team.servers[0].process.pid))

    def kill_at(nth=1, **match):
        team.cloud.faults(({**WRITE, **match, "nth": nth}, {"kind": "signal", "when": when, "signal": "KILL", "pidfile": str(pidfile)}))

    if call == "taking":
        kill_at(resource="~seats/")
    first = None
    with contextlib.suppress(OSError, http.client.HTTPException):
        first = team.open(0)
        # Until then an execution is put in line by one write, and said to begin by the next: on a busy machine that takes a moment.
        wait_until(lambda: team.status(first, 0) == "idle")
        kill_at(1 if call == "asked" else 2, resource=first)
        team.put(first, "import time\ntime.sleep(2)", 0, timeout=10)
    wait_until(lambda: team.servers[0].process.poll() is not None, timeout=30)
    team.cloud.faults()
    second = team.open(1)
    if call == "asked" and when == "after":
        # It may have been sent, as far as anybody knows: its time and a minute more have to be over.
        n = team.put(second, "2", 1)
        wait_until(lambda: "is taken over" in team.servers[1].lines())
        time.sleep(5)
        assert team.status(second, 1) == "queued" and spans(team) == []
        team.clocks.give(team.berths[1], wall_s=80)
        assert team.result(second, n, 1)["value"]["text"] == "2"
    else:
        assert team.text(second, "2", at=1) == "2"
    team.servers[0] = team.start(team.berths[0])
    third = team.open(0)
    assert team.text(third, "3", at=0) == "3"
    assert at_once(team) == 1
    assert len(spans(team)) == (3 if call == "ended" else 2)


def test_an_agent_without_a_limit_pays_nothing(team):
    team.let(None)
    session = team.open(0)
    mark = team.cloud.mark()
    assert team.text(session, "1", at=0) == "1"
    said = [json.dumps(call["params"]) for call in team.cloud.calls(mark, service="dynamodb")]
    assert not [text for text in said if "~seats" in text]
    team.let(5)
    assert team.text(session, "1", at=0) == "1"  # it takes a place, which it did not need before
    (record,) = team.seats()
    assert record["agent"] == "coder" and sum(len(ids) for ids in record["seats"].values()) == 1
    mark = team.cloud.mark()
    assert team.text(session, "1", at=0) == "1"  # and has it
    said = [json.dumps(call["params"]) for call in team.cloud.calls(mark, service="dynamodb")]
    assert not [text for text in said if "~seats" in text]
