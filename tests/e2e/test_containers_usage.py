# SPDX-License-Identifier: Apache-2.0
"""What containers use and who is told of it: figures, metrics, events, the list of all sandboxes, the terminal's table."""

import json
import re

from controllers import PATIENCE, wait_until
from lib.container_events import Events
from lib.containers import serve  # noqa: F401
from lib.lab import TOKENS
from lib.metrics import metrics

SPIN = "while True: pass"
HOLD = "import time\nheld = bytearray(64 << 20)\nfor n in range(0, len(held), 4096): held[n] = 1\ntime.sleep(600)"


def test_cpu_and_memory_are_the_kernels(serve):  # noqa: F811
    spins, holds, rests = serve.service(code=SPIN), serve.service(code=HOLD), serve.service("sleep", "600")

    def usage(container):
        return serve.show(container)["usage"]

    wait_until(lambda: usage(spins)["cpuPercent"] and usage(spins)["cpuPercent"] > 20, timeout=60 * PATIENCE)
    wait_until(lambda: usage(holds)["memoryBytes"] > 64 << 20, timeout=60 * PATIENCE)
    wait_until(lambda: usage(rests)["cpuPercent"] is not None, timeout=60 * PATIENCE)
    assert usage(rests)["cpuPercent"] < 20 and usage(rests)["memoryBytes"] < 64 << 20
    assert usage(holds)["peakMemoryBytes"] >= 64 << 20 and usage(spins)["cpuMs"] > 0
    found = metrics(serve)
    assert found['berth_serve_containers{status="running"}'] == "3" and float(found["berth_serve_containers_memory_bytes{}"]) > 64 << 20
    assert float(found["berth_serve_containers_cpu_seconds_total{}"]) > 0
    # It goes on where the server is another one, and ends with the sandbox.
    before = usage(spins)["cpuMs"]
    assert serve.stop() == 0
    serve.start("--accept-degraded")
    wait_until(lambda: (usage(spins) or {}).get("cpuMs", 0) > before, timeout=60 * PATIENCE)
    stopped = serve.order(spins, "stop", 200)
    assert stopped["usage"] is None and usage(spins) is None
    assert metrics(serve)['berth_serve_containers_ended_total{reason="stopped"}'] == "1"


def test_stats_are_told_each_second_until_the_end(serve):  # noqa: F811
    made = serve.make("sh", "-c", "sleep 4; exit 3")["id"]
    told = serve.follow(f"/v1/containers/{made}/stats")
    assert [n for n, _, _ in told] == list(range(1, len(told) + 1)) and {name for _, name, _ in told} == {"stats"}
    assert any(data["status"] == "running" and data["usage"]["memoryBytes"] > 0 for _, _, data in told)
    assert (told[-1][2]["status"], told[-1][2]["usage"]) == ("exited", None)
    bobs = serve.call("GET", f"/v1/containers/{made}/stats", owner="bob")
    assert (bobs.status, bobs.body) == (404, serve.call("GET", "/v1/containers/c-" + "a" * 26 + "/stats").body)
    assert serve.call("GET", f"/v1/containers/{made}/stats", token=TOKENS["narrow"]).problem(403, "not-permitted")


def test_events_tell_of_containers_to_who_may_see_them(serve):  # noqa: F811
    watcher, alice = Events(serve, TOKENS["watcher"]), Events(serve, TOKENS["users"], "alice")
    bob, narrow = Events(serve, TOKENS["users"], "bob"), Events(serve, TOKENS["narrow"])
    session = serve.call("POST", "/v1/sessions", {"environment": "data"}, token=TOKENS["narrow"]).json()["id"]
    mine, bobs = serve.service("sleep", "600"), serve.service("sleep", "600", owner="bob")
    for container, owner in ((mine, "alice"), (bobs, "bob")):
        assert serve.call("DELETE", f"/v1/containers/{container}", owner=owner).status == 204
    serve.call("DELETE", f"/v1/sessions/{session}", token=TOKENS["narrow"])

    def containers(found, container):
        return [data["status"] for name, data in found if name == "container" and data["id"] == container]

    def removed(*ids):
        left = set(ids)

        def seen(name, data):
            left.difference_update({data.get("id")} if data.get("status") in ("removed", "ended") else ())
            return not left

        return seen

    every = watcher.until(removed(mine, bobs, session))
    assert containers(every, mine) == containers(every, bobs) == ["starting", "running", "removed"]
    (first, *_) = [data for name, data in every if name == "container"]
    assert first == {"id": mine, "owner": "company/alice", "environment": "data", "agent": "analyst", "status": "starting"}
    assert containers(alice.until(removed(mine)), bobs) == []
    assert containers(bob.until(removed(bobs)), mine) == []
    assert {name for name, _ in narrow.until(removed(session))} <= {"session", "execution"}


def test_sandboxes_are_sessions_and_containers_in_one_list(serve):  # noqa: F811
    token, made = TOKENS["self"], []
    for n in range(3):
        made.append((serve.call("POST", "/v1/sessions", {"environment": "data"}, token=token).json()["id"], "session"))
        kind = ("temporary", "service")[n % 2]
        answer = serve.call("POST", "/v1/containers", {"agent": "analyst", "type": kind, "command": ["sleep", "600"]}, token=token)
        made.append((answer.json()["id"], kind))

    def ask(query, who=token):
        return serve.call("GET", f"/v1/sandboxes?{query}", token=who).json()

    assert sorted((one["id"], one["type"]) for one in ask("")["items"]) == sorted(made)
    for limit in (1, 2, 4):
        seen, cursor = [], ""
        while cursor is not None:
            page = ask(f"limit={limit}{cursor and '&cursor=' + cursor}")
            assert len(page["items"]) <= limit
            seen += page["items"]
            cursor = page["cursor"]
        assert sorted((one["id"], one["type"]) for one in seen) == sorted(made)
        for first, kinds in ((0, made[1::2]), (3, made[::2])):
            assert [one["id"] for one in seen[first : first + 3]] == [one for one, _ in kinds]
    assert {one["type"] for one in ask("type=session")["items"]} == {"session"} and len(ask("type=service&type=temporary")["items"]) == 3
    wait_until(lambda: len(ask("status=running")["items"]) == 3, timeout=60 * PATIENCE)
    assert len(ask("agent=analyst")["items"]) == 3 and ask("agent=small")["items"] == [] and len(ask("environment=data")["items"]) == 6
    assert serve.call("GET", "/v1/sandboxes").items() == []
    assert len(ask("", TOKENS["watcher"])["items"]) == 6
    assert ask("", TOKENS["narrow"])["items"] == []
    assert serve.call("GET", "/v1/sandboxes?cursor=1.x-" + "a" * 26).problem(400, "invalid")
    for one, kind in made:
        assert serve.call("DELETE", f"/v1/{'sessions' if kind == 'session' else 'containers'}/{one}", token=token).status == 204


def test_the_terminals_table(serve, offline):  # noqa: F811
    assert "No container runs" in offline("containers", "stats").expect(0).err
    name = ["containers", "run", "--agent", "analyst", "--service", "--name", "db", "--", "sleep", "600"]
    service = offline(*name).expect(0).out.strip()
    wait_until(lambda: "MiB" in offline("containers", "stats").expect(0).out, timeout=60 * PATIENCE)
    table = offline("containers", "stats", "db").expect(0).out.splitlines()
    assert "MEMORY" in table[0] and service in table[1] and table[1].endswith("db, agent analyst")
    (shown,) = json.loads(offline("containers", "stats", "--json", service).expect(0).out)
    assert shown["id"] == service and shown["usage"]["memoryBytes"] > 0
    assert "there is no container web" in offline("containers", "stats", "web").expect(1).err
    live = offline.popen("containers", "stats", "--follow")
    heads = [line for line in (live.stdout.readline() for _ in range(6)) if re.match(rb"CONTAINER ", line)]
    live.terminate()
    live.communicate()
    assert len(heads) == 3
    offline("containers", "rm", "db").expect(0)
