# SPDX-License-Identifier: Apache-2.0
"""Sessions through `berth serve`, by clients that share no code with it: what runs, whose it is, and what is refused."""

import glob
import http.client
import json
import os
import signal
import threading
from pathlib import Path

import pytest

import stacks
from controllers import PATIENCE, process_began, wait_until
from lib.lab import TOKENS
from lib.sessions import CLIENTS, Sessions


@pytest.fixture
def serve(place, binary, tmp_path):
    berth = place.berth(binary, tmp_path)
    place.apply(berth)
    made = Sessions(berth, clients=CLIENTS)
    made.place = place.name
    yield made.start("--accept-degraded")
    if made.process is None:
        made.start("--accept-degraded")
    sessions = [s["id"] for s in made.call("GET", "/v1/sessions?limit=1000", token=TOKENS["watcher"]).items()]
    for session in sessions:
        assert made.call("DELETE", f"/v1/sessions/{session}", token=TOKENS["file"]).status == 204
    assert made.stop() == 0
    # Not one worker waits for somebody to hear of its end, though the server stopped right after it was told to end.
    assert [path for session in sessions for path in sockets_of(session)] == []


def test_the_life_of_a_session(serve):
    session = serve.create(labels={"team": "blue"})
    shown = serve.call("GET", f"/v1/sessions/{session}").json()
    assert shown["owner"] == "company/alice" and shown["environment"] == "data" and shown["labels"] == {"team": "blue"}
    first = serve.run(session, "x = 41\nprint('hello')\nx + 1")
    assert (first["n"], first["status"], first["exitCode"], first["stdout"]["content"]) == (1, "ok", 0, "hello\n")
    assert first["value"]["text"] == "42" and first["state"]["was"] == "new"
    second = serve.run(session, "x + 2")
    assert (second["n"], second["value"]["text"], second["state"]["was"]) == (2, "43", "kept")
    assert serve.run(session, "1/0")["error"]["name"] == "ZeroDivisionError"
    failed = serve.run(session, "cat; exit 3", language="sh", stdin="to the program")
    assert (failed["status"], failed["exitCode"], failed["stdout"]["content"]) == ("error", 3, "to the program")
    assert serve.run(session, "import os; os.environ['V']", variables={"V": "v"})["value"]["text"] == "'v'"
    wrote = serve.run(session, "open('kept.txt', 'w').write('kept')")
    assert [f["path"] for f in wrote["files"]["changed"]] == ["kept.txt"]
    history = serve.call("GET", f"/v1/sessions/{session}/executions").items()
    assert [e["n"] for e in history] == [1, 2, 3, 4, 5, 6]
    assert serve.call("GET", f"/v1/sessions/{session}/executions/2").json()["value"] == second["value"]
    patched = serve.call("PATCH", f"/v1/sessions/{session}", {"idleSeconds": 60, "labels": {"team": "red"}}).json()
    assert (patched["idleSeconds"], patched["labels"]) == (60, {"team": "red"})
    assert [s["id"] for s in serve.call("GET", "/v1/sessions?label=team=red&environment=data&environment=web").items()] == [session]
    assert serve.call("GET", "/v1/sessions?label=team=blue").items() == []
    ended = serve.call("DELETE", f"/v1/sessions/{session}")
    assert (ended.status, ended.body) == (204, b"")
    assert serve.call("GET", f"/v1/workspaces/{session}/files/kept.txt").body == b"kept"
    assert serve.place == "aws" or (serve.state / f"local/lab/workspaces/sessions/{session}/workspace/kept.txt").read_text() == "kept"
    gone, never = (serve.call("GET", f"/v1/sessions/{s}") for s in (session, "s-" + "a" * 26))
    assert gone.problem(404, "not-found") and gone.body == never.body


def test_streams_and_those_who_come_back(serve):
    session = serve.create()
    code = "import sys\nprint('out', flush=True)\nprint('err', file=sys.stderr, flush=True)\n7"
    events = serve.follow(f"/v1/sessions/{session}/executions", {"code": code})
    assert [name for _, name, _ in events][0] == "started" and events[-1][1] == "done"
    assert [i for i, _, _ in events] == sorted({i for i, _, _ in events})
    assert "".join(d["text"] for _, name, d in events if name == "stdout") == "out\n"
    assert "".join(d["text"] for _, name, d in events if name == "stderr") == "err\n"
    assert events[-1][2]["value"]["text"] == "7"
    assert serve.follow(f"/v1/sessions/{session}/executions/1/events")[-1] == events[-1]
    late = serve.follow(f"/v1/sessions/{session}/executions/1/events?from={events[-1][0]}")
    assert [name for _, name, _ in late] == ["done"]
    # Who does not wait asks later.
    answer = serve.call("POST", f"/v1/sessions/{session}/executions", {"code": "8"}, headers=[("Prefer", "respond-async")])
    assert answer.status == 202 and answer.json()["n"] == 2
    assert serve.follow(f"/v1/sessions/{session}/executions/2/events")[-1][2]["value"]["text"] == "8"
    assert serve.call("GET", f"/v1/sessions/{session}/executions/2").json()["status"] == "ok"


def test_events_keep_their_ids(serve):
    """From memory and as history has kept them, by the query and by the header of a client that goes on."""
    session = serve.create()
    path = f"/v1/sessions/{session}/executions/1/events"
    code = "import os, time\nfor i in range(6):\n    os.write(1 + i % 2, b'line %d\\n' % i)\n    display(i)\nos.write(1, b'x' * 200000)\nprint('end')"
    events = serve.follow(f"/v1/sessions/{session}/executions", {"code": code})
    for at, (seen, name, data) in enumerate(events):
        asked = (serve.follow(f"{path}?from={seen}"), serve.follow(path, seen=seen - 1), serve.follow(f"{path}?from=1", seen=seen - 1))
        assert asked[0] == asked[1] == asked[2]
        live, kept = ({i: (name, data) for i, name, data in told} for told in (events[at:], asked[0]))
        assert kept[events[-1][0]][0] == "done" and set(kept) <= set(live)
        told, lost = 0, 0
        for i, (name, data) in kept.items():
            assert name == "gap" or name == live[i][0] and ("gap" in data or name == "done" or data == live[i][1])
            told += len(data.get("text", "")) if name == "stdout" else 0
            lost += data["bytes"] if name == "gap" and data["stream"] == "stdout" else data.get("gap", {}).get("bytes", 0) if name == "stdout" else 0
        assert told + lost == sum(len(data["text"]) for name, data in live.values() if name == "stdout")
        texts = "".join(data["text"] for name, data in kept.values() if name == "stdout")
        assert at > 1 or (lost and texts.startswith("line 0\n") and texts.endswith("xend\n"))
    serve.stop()
    serve.start("--accept-degraded")
    assert serve.follow(path, seen=events[-1][0] - 1) == asked[0]
    assert serve.call("GET", path, headers=[("Last-Event-ID", "x")]).problem(400, "invalid")
    # Ids of all that happens are each connection's own: a client that comes again is told that it may have missed something.
    connection = http.client.HTTPConnection("127.0.0.1", serve.port, timeout=60 * PATIENCE)
    headers = {"Authorization": f"Bearer {serve.token}", "Berth-Owner": serve.owner, "Last-Event-ID": "3"}
    connection.request("GET", "/v1/events", headers=headers)
    answer = connection.getresponse()
    assert [answer.readline() for _ in range(4)][2:] == [b"id: 1\n", b"event: missed\n"]
    connection.close()


def test_interrupt_restart_and_deadline(serve):
    session = serve.create()
    path = f"/v1/sessions/{session}/executions"
    serve.call("POST", path, {"code": "kept = 1"})
    assert serve.call("POST", path, {"code": "while True: pass"}, headers=[("Prefer", "respond-async")]).status == 202
    serve.wait_for_start(session, 2)
    assert serve.call("POST", f"{path}/2/interrupt").status == 204
    assert serve.follow(f"{path}/2/events")[-1][2]["status"] == "interrupted"
    assert serve.run(session, "kept")["value"]["text"] == "1"
    serve.call("POST", f"{path}/2/interrupt").problem(409, "not-running")
    assert serve.run(session, "while True: pass", timeoutSeconds=1)["status"] == "timeout"
    assert serve.call("POST", f"/v1/sessions/{session}/restart").status == 204
    assert serve.run(session, "kept")["error"]["name"] == "NameError"
    # The same request again does nothing again: not to the new kernel, nor to what runs by now.
    key = [("Idempotency-Key", "fresh-1")]
    assert serve.call("POST", f"/v1/sessions/{session}/restart", headers=key).status == 204
    assert serve.run(session, "kept = 2")["state"]["was"] == "lost"
    assert serve.call("POST", f"/v1/sessions/{session}/restart", headers=key).status == 204
    assert serve.run(session, "kept")["value"]["text"] == "2"
    serve.call("POST", f"/v1/sessions/{session}/restart", {"context": "other"}, headers=key).problem(422, "idempotency-key-reused")
    parked = [serve.call("POST", f"/v1/sessions/{session}/park", headers=key) for _ in range(2)]
    assert [p.status for p in parked] == [200, 200] and parked[0].body == parked[1].body and parked[0].json()["status"] == "parked"
    assert serve.run(session, "1 + 1")["value"]["text"] == "2"
    assert serve.call("POST", f"/v1/sessions/{session}/park", headers=key).body == parked[0].body
    assert serve.call("GET", f"/v1/sessions/{session}").json()["status"] == "idle"


def test_one_session_a_conversation_and_one_answer_a_key(serve):
    wish = {"environment": "data", "conversation": "chat-1"}
    first = serve.call("POST", "/v1/sessions", wish)
    again = serve.call("POST", "/v1/sessions", wish)
    assert (first.status, again.status) == (201, 200) and first.json()["id"] == again.json()["id"]
    assert serve.call("POST", "/v1/sessions", wish, owner="bob").json()["id"] != first.json()["id"]
    key, session = [("Idempotency-Key", "k1")], first.json()["id"]
    path = f"/v1/sessions/{session}/executions"
    one = serve.call("POST", path, {"code": "n = globals().get('n', 0) + 1; n"}, headers=key).json()
    two = serve.call("POST", path, {"code": "n = globals().get('n', 0) + 1; n"}, headers=key).json()
    assert one["n"] == two["n"] == 1 and serve.run(session, "n")["value"]["text"] == "1"
    serve.call("POST", path, {"code": "other"}, headers=key).problem(422, "idempotency-key-reused")
    # A key has the first answer's status. One that found the conversation's session made nothing.
    made = [serve.call("POST", "/v1/sessions", {"environment": "data"}, headers=key) for _ in range(2)]
    assert [m.status for m in made] == [201, 201] and made[0].json()["id"] == made[1].json()["id"]
    assert [serve.call("POST", "/v1/sessions", wish, headers=[("Idempotency-Key", "k2")]).status for _ in range(2)] == [200, 200]
    later = [("Idempotency-Key", "k3"), ("Prefer", "respond-async")]
    assert [serve.call("POST", path, {"code": "1"}, headers=later).status for _ in range(2)] == [202, 202]
    serve.call("POST", path, {"code": "1"}, headers=[("Idempotency-Key", "x" * 257)]).problem(400, "invalid")
    serve.call("POST", path, {"code": "1"}, headers=key * 2).problem(400, "invalid")


def test_what_is_not_yours_is_not_there(serve):
    """For everything under an id: the same answer as for an id that never was, byte for byte."""
    session, never = serve.create(owner="alice"), "s-" + "b" * 26
    serve.run(session, "secret = 'alice only'; secret", owner="alice")
    for method, path, body in (
        ("GET", "", None), ("PATCH", "", {"idleSeconds": 5}), ("DELETE", "", None), ("POST", "/restart", {}), ("POST", "/executions", {"code": "1"}),
        ("GET", "/executions", None), ("GET", "/executions/1", None), ("GET", "/executions/1/events", None), ("POST", "/executions/1/interrupt", {}),
    ):  # fmt: skip
        for caller in ({"owner": "bob"}, {"owner": "Alice"}, {"owner": "alice "[:5] + "/x"}, {"token": TOKENS["self"]}, {"token": TOKENS["narrow"]}):
            theirs = serve.call(method, f"/v1/sessions/{session}{path}", body, **caller)
            nobodys = serve.call(method, f"/v1/sessions/{never}{path}", body, **caller)
            assert theirs.problem(404, "not-found") and theirs.body == nobodys.body, (method, path, caller)
    assert serve.call("GET", "/v1/sessions", owner="bob").items() == []
    assert serve.run(session, "secret", owner="alice")["value"]["text"] == "'alice only'"


def test_who_looks_at_all_and_who_may_end_them(serve):
    session = serve.create(owner="alice")
    serve.run(session, "'contents'")
    watcher, admin = TOKENS["watcher"], TOKENS["file"]
    assert [s["owner"] for s in serve.call("GET", "/v1/sessions", token=watcher).items()] == ["company/alice"]
    assert serve.call("GET", f"/v1/sessions/{session}", token=watcher).json()["id"] == session
    for method, path, body in (("POST", "/v1/sessions", {"environment": "data"}), ("POST", f"/v1/sessions/{session}/executions", {"code": "1"}), ("GET", f"/v1/sessions/{session}/executions/1", None), ("DELETE", f"/v1/sessions/{session}", None)):
        serve.call(method, path, body, token=watcher).problem(403, "not-permitted")
    serve.call("POST", f"/v1/sessions/{session}/executions", {"code": "1"}, token=admin).problem(403, "not-permitted")
    assert serve.call("DELETE", f"/v1/sessions/{session}", token=admin).status == 204
    serve.call("GET", f"/v1/sessions/{session}", owner="alice").problem(404, "not-found")


def test_environments_and_agents(serve):
    assert serve.call("POST", "/v1/sessions", {"agent": "coder"}).json()["environment"] == "data"
    for wish, code in (({"environment": "none"}, "unknown-environment"), ({"agent": "none"}, "unknown-agent")):
        serve.call("POST", "/v1/sessions", wish).problem(404, code)
    hidden, absent = (serve.call("POST", "/v1/sessions", {"environment": e}, token=TOKENS["narrow"]) for e in ("data", "none"))
    assert hidden.problem(404, "unknown-environment") and hidden.json()["detail"].replace("data", "none") == absent.json()["detail"]
    serve.berth("disassociate", "data", "--all", "--yes").expect(0)
    serve.call("POST", "/v1/sessions", {"agent": "coder"}).problem(409, "agent-out-of-service")


def test_a_server_that_is_killed_finds_its_sessions(serve):
    session = serve.create()
    serve.run(session, "x = 'still here'")
    running = serve.call("POST", f"/v1/sessions/{session}/executions", {"code": "import time; time.sleep(1); 'ended'"}, headers=[("Prefer", "respond-async")])
    assert running.status == 202
    serve.wait_for_start(session, 2)
    assert serve.stop(signal.SIGKILL) == -signal.SIGKILL
    serve.start("--accept-degraded")
    assert serve.follow(f"/v1/sessions/{session}/executions/2/events")[-1][2]["value"]["text"] == "'ended'"
    assert serve.run(session, "x")["value"]["text"] == "'still here'"


def test_a_sandbox_that_nobody_comes_to_ends_when_its_session_has_expired(serve):
    """By idleness, too: its age may be days. Also a sandbox whose last result the server had no time to acknowledge."""
    if serve.place != "local":
        pytest.skip("Lambda ends its environments itself")
    session, kept, unheard = serve.create(idleSeconds=10), serve.create(), serve.create(idleSeconds=1)
    running = serve.create(idleSeconds=10)
    serve.run(session, "1", timeoutSeconds=5)
    serve.run(kept, "x = 'here'")
    asked = {"code": "import time; time.sleep(600)", "timeoutSeconds": 60}
    assert serve.call("POST", f"/v1/sessions/{running}/executions", asked, headers=[("Prefer", "respond-async")]).status == 202
    serve.wait_for_start(running, 1)
    assert sockets_of(session) and living(session)
    serve.run(unheard, "1", timeoutSeconds=5)
    assert serve.stop(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: not living(session) and not living(unheard))
    assert living(running), "what runs is activity"
    serve.start("--accept-degraded")
    wait_until(lambda: not sockets_of(session) and not sockets_of(unheard))
    for gone in (session, unheard):
        serve.call("GET", f"/v1/sessions/{gone}").problem(404, "not-found")
    assert serve.run(kept, "x")["value"]["text"] == "'here'"
    assert serve.call("DELETE", f"/v1/sessions/{running}").status == 204


def test_what_a_killed_server_was_about_to_write_goes(serve):
    """The record of a worker, under the name that it has until it is whole."""
    if serve.place != "local":
        pytest.skip("no worker is on this machine")
    session = serve.create()
    serve.run(session, "x = 1")
    (record,) = [path for path in sockets_of(session) if path.endswith(".worker")]
    left = Path(f"{record}.3.4711.new")
    left.write_text("4711-1")
    assert serve.stop(signal.SIGKILL) == -signal.SIGKILL
    serve.start("--accept-degraded")
    assert serve.run(session, "x")["value"]["text"] == "1" and not left.exists()


def living(session):
    """The worker, by what it wrote of itself: PID-START-..."""
    (record,) = [path for path in sockets_of(session) if path.endswith(".worker")]
    pid, began = Path(record).read_text().split("-")[:2]
    return process_began(pid) == began


def sockets_of(session):
    """And all else that its worker has there."""
    own = os.environ.get("XDG_RUNTIME_DIR", "/run")
    return {path for folder in ("/run/berth/s-*", "/tmp/berth-s-*", f"{own}/berth/s-*") for path in glob.glob(f"{folder}/{session}*")}


def test_a_server_that_stops_does_not_end_what_runs(serve):
    session, answers = serve.create(), []
    path = f"/v1/sessions/{session}/executions"
    serve.run(session, "import time")
    waiting = threading.Thread(target=lambda: answers.append(serve.call("POST", path, {"code": "time.sleep(600)"})))
    waiting.start()
    serve.wait_for_start(session, 2)
    assert serve.stop() == 0
    waiting.join(60 * PATIENCE)
    answers[0].problem(503, "stopping")
    serve.start("--accept-degraded")
    assert (found := serve.call("GET", f"{path}/2").json())["status"] == "running", found
    assert serve.call("POST", f"{path}/2/interrupt").status == 204
    assert serve.follow(f"{path}/2/events")[-1][2]["status"] == "interrupted"
    assert serve.run(session, "time.time() > 0")["state"]["was"] == "kept"


@pytest.mark.parametrize("on, status", [("interrupt", "interrupted"), ("continue", "ok")])
def test_a_client_that_leaves(serve, on, status):
    session = serve.create()
    serve.run(session, "import time")
    connection = http.client.HTTPConnection("127.0.0.1", serve.port)
    code = "time.sleep(600)" if on == "interrupt" else "time.sleep(1)"
    connection.request("POST", f"/v1/sessions/{session}/executions", json.dumps({"code": code, "onDisconnect": on}), {"Authorization": f"Bearer {serve.token}", "Berth-Owner": "alice", "Content-Type": "application/json"})
    serve.wait_for_start(session, 2)
    connection.close()
    wait_until(lambda: serve.call("GET", f"/v1/sessions/{session}/executions/2").json()["status"] == status)


def test_what_is_no_request(serve):
    session = serve.create()
    path = f"/v1/sessions/{session}/executions"
    for body in (
        b"{", b"[]", b"1", b'"code"', b'{"code": "1", "code": "2"}', b'{"code": 1}', b"{}", b'{"code": null}', b'{"code": "1", "file": []}',
        b'{"code": "1", "variables": {"A": {"B": 1}}}', b'{"code": "1", "variables": {"A": "1", "A": "2"}}', b'{"code": "1", "language": "perl"}',
        b'{"code": "1", "timeoutSeconds": 0}', b'{"code": "1", "timeoutSeconds": 901}', b'{"code": "1", "timeoutSeconds": 1.5}',
        b'{"code": "1", "onDisconnect": "explode"}', b'{"code": "\xff"}', b'{"code": "1", "context": "../x"}', b'{"code": "1"} {}',
        b'{"variables": ' + b'{"a":' * 3000 + b"1" + b"}" * 3000 + b"}", b"[" * 100000,
    ):  # fmt: skip
        serve.call("POST", path, body).problem(400, "invalid")
    for body in ({}, {"environment": "data", "agent": "coder"}, {"environment": "data", "idleSeconds": 1209601}, {"environment": "data", "ttlSeconds": 0}, {"environment": "data", "owner": "bob"}):
        serve.call("POST", "/v1/sessions", body).problem(400, "invalid")
    form = serve.ask(path, serve.token, "POST", [("Berth-Owner", "alice"), ("Content-Type", "text/plain")], b'{"code": "1"}')
    form.problem(415, "unsupported-media-type")
    serve.call("POST", path, headers=[("Content-Length", str(33 << 20))]).problem(413, "too-large")
    for n in ("0", "-1", "01", "x", "99999999999999999999", "2"):
        assert serve.call("GET", f"{path}/{n}").status == 404, n
    for query in ("?from=-1", "?from=x", "?from=1&from=2", "?to=1"):
        serve.call("GET", f"{path}/1/events{query}").problem(400, "invalid")
    for query in ("?limit=0", "?state=idle", "?limit=1&limit=2"):
        serve.call("GET", f"/v1/sessions{query}").problem(400, "invalid")
    assert serve.run(session, "1")["n"] == 1


def test_a_stack_of_aws_without_a_table_has_no_sessions(berth, cloud, prebuilt):
    berth.write("stack.yaml", stacks.text(stacks.document("Stack", "alphaagent", {"provider": "aws", "aws": {"region": "us-east-1"}}), stacks.document("Environment", "data", {"image": {"prebuilt": "python"}})))
    berth("apply", "--yes").expect(0)
    serve = Sessions(berth, clients=CLIENTS).start()
    try:
        assert "no table for sessions" in serve.lines()
        serve.call("POST", "/v1/sessions", {"environment": "data"}).problem(503, "no-sessions")
        assert serve.call("GET", "/v1/environments").names() == ["data"]
    finally:
        assert serve.stop() == 0
