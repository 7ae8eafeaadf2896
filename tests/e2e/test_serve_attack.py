# SPDX-License-Identifier: Apache-2.0
"""`berth serve` under attack: crowds that do nothing or all slowly, and bodies and heads of every wrong form. Others are served, and its
memory stays bounded."""

import contextlib
import json
import os
import resource
import select
import socket
import threading

import pytest

from binary import Berth
from controllers import PATIENCE
from lib.lab import TOKENS, client, stack
from lib.sessions import JSON, Sessions

CLIENTS = [client("self"), client("users", actsFor="users", realm="company"), client("watcher", may=["observe"]), client("file", may=["administer"])]
SANITIZED = "asan" in os.environ.get("BERTH_BIN", "") or "tsan" in os.environ.get("BERTH_BIN", "")


@pytest.fixture(scope="module")
def serve(binary, tmp_path_factory):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))
    berth = Berth(binary, tmp_path_factory.mktemp("attack"), "http://127.0.0.1:1")
    berth.write("stack.yaml", stack())
    berth("apply", "--yes").expect(0)
    made = Sessions(berth, clients=CLIENTS)
    made.start("--accept-degraded")
    yield made
    for session in made.call("GET", "/v1/sessions?limit=1000", token=TOKENS["watcher"]).items():
        made.call("DELETE", f"/v1/sessions/{session['id']}", token=TOKENS["file"])
    assert made.stop() == 0


def memory_mb(serve, which="VmRSS"):
    with open(f"/proc/{serve.process.pid}/status") as status:
        return int(next(line for line in status if line.startswith(which)).split()[1]) // 1024


def head(method, path, owner, *lines):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {TOKENS['users']}", f"Berth-Owner: {owner}", *lines, "", ""]).encode()


def test_crowds_keep_nobody_out(serve):
    """500 that say nothing, slow heads, slow bodies, and streams that nobody reads; an honest client works meanwhile."""
    session = serve.create(owner="honest")
    serve.run(session, "x = 41", owner="honest")
    before = memory_mb(serve)
    with contextlib.ExitStack() as crowd:

        def come(data=b""):
            there = crowd.enter_context(socket.create_connection(("127.0.0.1", serve.port), timeout=60 * PATIENCE))
            there.sendall(data)
            return there

        for _ in range(500):
            come()
        for _ in range(60):
            come(b"GET /v1/sessions HTTP/1.1\r\nHost: loc")
        for i in range(60):
            come(head("POST", "/v1/sessions", "slow", "Content-Type: application/json", "Content-Length: 1000000") + b'{"environment": "')
        readers = [come(head("GET", "/v1/events", "reader")) for _ in range(64)]
        for reader in readers:
            assert reader.recv(15) == b"HTTP/1.1 200 OK"
        # One owner's streams are bounded, whoever else may still come.
        assert b" 429 " in come(head("GET", "/v1/events", "reader")).recv(15)
        for i in range(20):
            assert serve.run(session, "x += 1; x", owner="honest")["value"]["text"] == str(42 + i)
            assert serve.call("GET", "/v1/sessions", owner="honest").status == 200
        assert serve.ask("/healthz").status == 200 and serve.ask_socket("/v1/environments").status == 200
        assert SANITIZED or memory_mb(serve) - before < 100, (before, memory_mb(serve))
    # They have left: their places are free again, and what they began is nobody's.
    assert serve.run(session, "x", owner="honest")["value"]["text"] == "61"
    assert [s["id"] for s in serve.call("GET", "/v1/sessions", token=TOKENS["watcher"]).items()] == [session]


def test_files_that_nobody_takes(serve):
    """Each of a hundred answers would hold a hundred files open: the server keeps descriptors for others, and lives."""
    session = serve.create(owner="taker")
    serve.run(session, "open('a', 'wb').write(bytes(20 << 20))\nfor i in range(99): open(f'b{i}', 'w').close()", owner="taker")
    body = json.dumps({"code": "1", "returnFiles": ["*"]}).encode()
    few = (resource.RLIMIT_NOFILE, (4096, resource.prlimit(serve.process.pid, resource.RLIMIT_NOFILE)[1]))
    before = resource.prlimit(serve.process.pid, *few)
    try:
        with contextlib.ExitStack() as takers:
            for _ in range(50):
                taker = takers.enter_context(socket.create_connection(("127.0.0.1", serve.port), timeout=60 * PATIENCE))
                taker.sendall(head("POST", f"/v1/sessions/{session}/executions", "taker", "Content-Type: application/json",
                                   "Accept: multipart/mixed", f"Content-Length: {len(body)}") + body)  # fmt: skip
                assert taker.recv(15) == b"HTTP/1.1 200 OK"
            assert len(os.listdir(f"/proc/{serve.process.pid}/fd")) < 1000
            assert serve.run(session, "1", owner="taker")["status"] == "ok"
    finally:
        resource.prlimit(serve.process.pid, resource.RLIMIT_NOFILE, before)


def test_a_vast_name_of_a_variable(serve):
    """It is refused by its length, not held against a pattern, which would take twelve times its memory."""
    body = json.dumps({"environment": "data", "variables": {"a" * (25 << 20): "x"}}).encode()
    with open(f"/proc/{serve.process.pid}/clear_refs", "w") as peak:
        peak.write("5")
    before = memory_mb(serve, "VmHWM")
    serve.ask("/v1/sessions", TOKENS["self"], "POST", [JSON], body).problem(400, "invalid")
    assert SANITIZED or memory_mb(serve, "VmHWM") - before < 200, (before, memory_mb(serve, "VmHWM"))


def hostile_bodies():
    yield b"[" * 1000000
    yield b'{"labels": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}"
    yield b'{"environment": "data", "environment": "data"}'
    yield b'{"environment": "data", "labels": {"a": "1", "a": "2"}}'
    yield b'{"environment": "\xff\xfe"}'
    yield b'\xef\xbb\xbf{"environment": "data"}'
    yield '{"environment": "data"}'.encode("utf-16")
    yield b'{"environment": "\\ud800"}'
    yield b'{"environment": "data", "conversation": "a\\u0000b"}'
    yield b'{"environment": "data", "idleSeconds": 1e999}'
    yield b'{"environment": "data", "idleSeconds": 99999999999999999999999}'
    yield b'{"environment": "data", "idleSeconds": -0}'
    yield b'{"environment": "data", "idleSeconds": 1.5}'
    yield b'{"environment": "data", "' + b"k" * 1000000 + b'": 1}'
    yield b'{"environment": "data", "labels": {' + b",".join(b'"%d": "v"' % i for i in range(30000)) + b"}}"
    yield b'{"environment": "data", "variables": {"A": "' + b"v" * 70000 + b'"}}'
    yield b'{"environment": "' + b"e" * 20000000 + b'"}'
    yield b'{"environment": "data"'
    yield b"null"
    yield b'"data"'
    yield b"NaN"
    yield b"\0" * 100
    yield b" " * 5000000


def test_bodies_of_every_wrong_form(serve):
    session = serve.create(owner="honest")
    paths = ("/v1/sessions", f"/v1/sessions/{session}/executions", "/v1/execute", f"/v1/sessions/{session}/restart", f"/v1/workspaces/{session}/copy", f"/v1/workspaces/{session}/tickets")
    for number, body in enumerate(hostile_bodies()):
        for path in paths if len(body) < 1000 else paths[:2]:
            answer = serve.call("POST", path, body, owner="honest")
            assert answer.status in (400, 413), (number, path, answer.status, answer.body[:300])
            assert answer.headers["content-type"] == "application/problem+json" and len(answer.body) < 2000
    assert serve.ask("/v1/sessions", serve.token, "POST", [("Berth-Owner", "honest"), JSON, ("Content-Length", str(33 << 20))]).status == 413
    serve.call("DELETE", f"/v1/sessions/{session}", owner="honest")


def test_large_bodies_at_once(serve):
    """Each is within its bounds; all together are bounded as well."""
    body = json.dumps({"environment": "data", "labels": {"a": "x" * (20 << 20)}}).encode()
    statuses = []

    def send(owner):
        try:
            statuses.append(serve.call("POST", "/v1/sessions", body, owner=owner).status)
        except OSError:  # refused while it was still sending
            statuses.append(503)

    threads = [threading.Thread(target=send, args=(f"large-{i}",)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(statuses) == 12 and set(statuses) <= {400, 503}, statuses
    assert SANITIZED or memory_mb(serve, "VmHWM") < 700, memory_mb(serve, "VmHWM")


def test_large_bodies_that_never_end(serve):
    """One owner's connections stop before the end of large bodies: it alone is told to wait; another's large body of the same client is read."""
    size = 31 << 20
    body = b'{"agent": "%s"}' % (b"x" * (size - 13))
    greedy = head("POST", "/v1/sessions", "greedy", "Content-Type: application/json", f"Content-Length: {size}")
    with contextlib.ExitStack() as crowd:
        stalled = []
        while not (ended := select.select(stalled, [], [], 0)[0]):
            assert len(stalled) < 12, "nothing bounds them"
            there = crowd.enter_context(socket.create_connection(("127.0.0.1", serve.port), timeout=60 * PATIENCE))
            stalled.append(there)
            with contextlib.suppress(ConnectionError):  # it may be refused in the middle
                there.sendall(greedy + body[:-1])
            select.select([there], [], [], 0.2)
        assert ended[0].recv(12) == b"HTTP/1.1 503"
        serve.call("POST", "/v1/sessions", {"agent": "y" * (20 << 20)}, "honest").problem(400, "invalid")
        assert serve.call("GET", "/v1/sessions", owner="greedy").status == 200
        serve.call("POST", "/v1/sessions", {"agent": "y" * (20 << 10)}, "greedy").problem(400, "invalid")


@pytest.mark.parametrize(
    "data, status",
    [
        (b"GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nA: " + b"x" * 1000000, 431),
        (b"GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 100000, 431),
        (b"GET /" + b"a" * 1000000 + b" HTTP/1.1\r\n", 414),
        (b"G" * 1000000, 431),
        (b"GET /v1/sessions?" + b"status=idle&" * 1000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", None),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)), 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", None),
    ],
    ids=lambda value: str(value)[:24] if not isinstance(value, int) else str(value),
)
def test_heads_of_any_size(serve, data, status):
    with socket.create_connection(("127.0.0.1", serve.port), timeout=60 * PATIENCE) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        found = b""
        with contextlib.suppress(ConnectionError):
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                found += piece
    assert found == b"" or found.startswith(b"HTTP/1.1 4") or found.startswith(b"HTTP/1.1 505"), found[:200]
    assert status is None or not found or found.split()[1] in (str(status).encode(), b"400", b"414", b"431"), found[:200]
    assert serve.ask("/healthz").status == 200
