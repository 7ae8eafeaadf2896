# SPDX-License-Identifier: Apache-2.0
"""`berth serve`: who may ask, what is told of what was applied, and what is refused."""

import hashlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import time

import pytest

import stacks
from controllers import wait_until
from lib.lab import CLIENTS, TOKENS, stack
from lib.metrics import promtool
from serving import OverSocket, Serve


@pytest.fixture
def serve(offline):
    """The server of a stack that was applied, with some clients."""
    offline.write("stack.yaml", stack())
    offline("apply", "--yes").expect(0)
    made = Serve(offline, clients=CLIENTS)
    yield made.start()
    assert made.stop() in (0, None)


# --- without a file ---


def test_without_a_file(offline):
    """A laptop: the stack in the folder, on the Unix socket and the usual port, with a token of its own."""
    offline.write("stack.yaml", stack())
    offline("apply", "--yes").expect(0)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", 9471))
        except OSError:
            pytest.skip("somebody has port 9471")
    serve = Serve(offline).start(path=offline.stack)
    token = (serve.state / "serve.token").read_text().strip()
    try:
        assert serve.port == 9471
        assert len(token) == 64 and token not in serve.lines()
        assert stat.S_IMODE((serve.state / "serve.token").stat().st_mode) == 0o600
        assert stat.S_IMODE((serve.state / "serve.sock").stat().st_mode) == 0o600
        assert serve.ask("/v1/environments", token).names() == ["data", "web"]
        assert serve.ask_socket("/v1/environments").names() == ["data", "web"]
        serve.ask("/v1/environments").problem(401, "unauthenticated")
        assert serve.stop() == 0
        assert not (serve.state / "serve.sock").exists()
        serve.start(path=offline.stack)
        assert serve.ask("/v1/agents", token).names() == ["coder", "reader"]
    finally:
        assert serve.stop() == 0
    (serve.state / "serve.token").chmod(0o644)
    assert "every user of this machine may read" in offline("serve", "-f", ".").expect(1).err


def test_before_anything_was_applied(offline):
    serve = Serve(offline, clients=CLIENTS).start()
    try:
        assert serve.ask("/v1/environments", TOKENS["self"]).json() == {"items": [], "cursor": None}
        assert serve.ask("/v1/map", TOKENS["self"]).json() == {"environments": []}
        offline.write("stack.yaml", stack())
        offline("apply", "--yes").expect(0)
        assert serve.ask("/v1/environments", TOKENS["self"]).names() == ["data", "web"]
    finally:
        assert serve.stop() == 0


# --- what was applied ---


def test_environments(serve):
    answer = serve.ask("/v1/environments", TOKENS["self"])
    data, web = answer.items()
    assert {k: v for k, v in data.items() if k != "appliedAt"} == {
        "name": "data", "description": "for data", "image": {"prebuilt": "python"}, "memoryMB": 2048, "workspaceStorageMB": 512,
        "timeoutSeconds": 900, "incomplete": False,
    }  # fmt: skip
    assert data["appliedAt"].endswith("Z") and web["description"] is None
    assert serve.ask("/v1/environments/data", TOKENS["self"]).json() == data
    assert b"-text" not in answer.body and b"HIDDEN" not in answer.body
    assert answer.headers["cache-control"] == "no-store" and answer.headers["x-content-type-options"] == "nosniff"
    head = serve.ask("/v1/environments", TOKENS["self"], method="HEAD")
    assert (head.status, head.body) == (200, b"")


def test_agents_and_the_map(serve, offline):
    coder, reader = serve.ask("/v1/agents", TOKENS["self"]).items()
    coder.pop("appliedAt")
    assert coder == {
        "name": "coder", "type": "specialist", "environment": "data", "inService": True, "labels": None,
        "limits": {"containers": 2, "onLimit": "queue"},
    }  # fmt: skip
    assert (reader["type"], reader["environment"]) == ("general", "web")
    found = serve.ask("/v1/map", TOKENS["self"]).json()
    assert found == offline("map", "--json").expect(0).json()
    # What is applied holds from the next request on.
    offline("disassociate", "data", "--all", "--yes").expect(0)
    coder = serve.ask("/v1/agents", TOKENS["self"]).items()[0]
    assert (coder["environment"], coder["inService"]) == ("data", False)
    offline.write("stack.yaml", stack(stacks.document("Environment", "zoo", {"image": {"prebuilt": "python"}})))
    offline("apply", "--yes").expect(0)
    assert serve.ask("/v1/environments", TOKENS["self"]).names() == ["data", "web", "zoo"]


def test_a_client_finds_only_what_it_may_name(serve):
    narrow = TOKENS["narrow"]
    assert serve.ask("/v1/environments", narrow).names() == ["data"]
    assert serve.ask("/v1/agents", narrow).names() == ["coder"]
    assert serve.ask("/v1/environments/data", narrow).status == 200
    hidden, absent = serve.ask("/v1/environments/web", narrow), serve.ask("/v1/environments/gone", narrow)
    assert hidden.problem(404, "unknown-environment") and hidden.body == absent.body
    assert serve.ask("/v1/map", narrow).json()["environments"] == [
        {"name": "data", "memoryMB": 2048, "dependents": [{"address": "Agent/coder", "active": True}]}
    ]


def test_lists_come_in_pages(serve, offline):
    names = sorted([f"e{i:02}" for i in range(7)] + ["data", "web"])
    offline.write("more.yaml", stacks.text(*(stacks.document("Environment", n, {"image": {"prebuilt": "python"}}) for n in names if n[0] == "e")))
    offline("apply", "--yes").expect(0)
    found, path = [], "/v1/environments?limit=4"
    for _ in range(3):
        page = serve.ask(path, TOKENS["self"]).json()
        found += [item["name"] for item in page["items"]]
        path = f"/v1/environments?limit=4&cursor={page['cursor']}"
    assert found == names and page["cursor"] is None
    assert serve.ask("/v1/environments?limit=9", TOKENS["self"]).json()["cursor"] is None
    for query in ("limit=0", "limit=1001", "limit=-1", "limit=four", "limit=", "limit=1&limit=2", "limits=1", "cursor=a&cursor=b"):
        serve.ask(f"/v1/environments?{query}", TOKENS["self"]).problem(400, "invalid")


# --- who asks ---


def test_who_is_not_known_is_told_nothing(serve):
    token = TOKENS["self"]
    tries = [
        [], [("Authorization", "")], [("Authorization", token)], [("Authorization", "Bearer")], [("Authorization", "Bearer ")],
        [("Authorization", f"Basic {token}")], [("Authorization", f"Bearer {token[:-1]}")], [("Authorization", f"Bearer {token}x")],
        [("Authorization", f"Bearer  {token}")], [("Authorization", f"Bearer {hashlib.sha256(token.encode()).hexdigest()}")],
        [("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")],
        [("Authorization", f"Bearer {token}, Bearer {token}")], [("X-Authorization", f"Bearer {token}")],
        [("Cookie", f"token={token}")],
    ]  # fmt: skip
    bodies = set()
    for headers in tries:
        answer = serve.ask("/v1/environments", headers=headers)
        answer.problem(401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"
        bodies.add(answer.body)
    assert len(bodies) == 1
    serve.ask(f"/v1/environments?token={token}").problem(401, "unauthenticated")
    for path in ("/v1/environments/data", "/v1/environments/none", "/v1/agents", "/v1/map", "/metrics"):
        serve.ask(path).problem(401, "unauthenticated")
    # A scheme's name has no case.
    assert serve.ask("/v1/environments", headers=[("Authorization", f"bearer {token}")]).status == 200
    assert token not in serve.lines()


def test_owners(serve):
    def of(token, *names):
        return serve.ask("/v1/environments", TOKENS[token], headers=[("Berth-Owner", name) for name in names])

    of("users").problem(400, "owner-required")
    for name in ("alice", "Ünïcode Näme", "a/b", "uid:0", "client:self", "x" * 256, "ä" * 256):
        assert of("users", name.encode().decode("latin-1")).status == 200, name
    for name in ("", "x" * 257, "ä" * 257, "a\tb", "a\u202eb", "a\u200bb", "a\u0085b"):
        of("users", name.encode().decode("latin-1")).problem(400, "owner-invalid")
    of("users", b"\xff".decode("latin-1")).problem(400, "owner-invalid")
    of("users", "alice", "alice").problem(400, "owner-invalid")
    # Who looks at all need not say for whom; who acts for itself cannot be anybody else.
    assert of("watcher").status == of("watcher", "alice").status == 200
    for names in (("alice",), ("client:self",), ("",), ("a", "b")):
        of("self", *names).problem(403, "owner-not-allowed")
    serve.ask_socket("/v1/environments", headers=[("Berth-Owner", "alice")]).problem(403, "owner-not-allowed")


def test_on_the_socket_the_kernel_says_who_asks(serve):
    """A token that is nobody's does not matter there, and one that is somebody's makes nobody of its caller."""
    assert serve.ask_socket("/v1/environments", token="nonsense").names() == ["data", "web"]
    assert serve.ask_socket("/v1/environments", token=TOKENS["narrow"]).names() == ["data", "web"]


# --- what is refused before it is routed ---


def test_no_web_page_can_ask(serve):
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1"):
        for path in ("/healthz", "/v1/environments"):
            serve.ask(path, TOKENS["self"], headers=[("Host", host)]).problem(421, "foreign-host")
    for method in ("GET", "HEAD", "POST", "OPTIONS", "DELETE"):
        for origin in ("http://evil.example", "null", f"http://localhost:{serve.port + 1}"):
            answer = serve.ask("/v1/environments", TOKENS["self"], method=method, headers=[("Origin", origin)])
            assert answer.status == 403, (method, origin)
            if method != "HEAD":
                answer.problem(403, "foreign-origin")
            assert "access-control-allow-origin" not in answer.headers
    own = f"http://127.0.0.1:{serve.port}"
    assert serve.ask("/v1/environments", TOKENS["self"], headers=[("Origin", own)]).status == 200


def test_names_that_it_answers_to(offline):
    serve = Serve(offline, clients=CLIENTS, hosts=["berth.example.com"], listen="0.0.0.0:0", behindProxy=True).start()
    try:
        for host in ("berth.example.com", "BERTH.example.com:443", "localhost", "0.0.0.0"):
            assert serve.ask("/v1/environments", TOKENS["self"], headers=[("Host", host)]).status == 200, host
        serve.ask("/v1/environments", TOKENS["self"], headers=[("Host", "example.com")]).problem(421, "foreign-host")
    finally:
        assert serve.stop() == 0


def test_routes_and_methods(serve):
    for path in ("/panel", "/v1", "/v1/", "/v1/environments/", "/v1/environments/data/more", "/v2/map", "/v1/workspaces/a/b", "/openapi", "/mcp/more"):
        serve.ask(path, TOKENS["self"]).problem(404, "no-such-route")
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "NONSENSE"):
        answer = serve.ask("/v1/environments", TOKENS["self"], method=method)
        answer.problem(405, "method-not-allowed")
        assert answer.headers["allow"] == "GET, HEAD"
    serve.ask("/v1/environments", TOKENS["self"], body=b"{}").problem(413, "too-large")
    serve.ask("/v1/environments/..", TOKENS["self"]).problem(404, "unknown-environment")


@pytest.mark.parametrize(
    "lines, status",
    [
        (["GET /v1/map HTTP/1.1", "Content-Length: 1", "Content-Length: 1"], 400),
        (["GET /v1/map HTTP/1.1", "Content-Length: 0", "Transfer-Encoding: chunked"], 400),
        (["GET /v1/map HTTP/1.1", "Content-Length : 0"], 400),
        (["GET /v1/map%00 HTTP/1.1"], 400),
        (["GET /v1/environments/a%2fb HTTP/1.1"], 400),
        (["GET /v1/map HTTP/1.1", "Host: localhost"], 400),
        (["GET /v1/map HTTP/3.0"], 505),
        (["GET /v1/map HTTP/1.1", "A: " + "x" * 20000], 431),
        (["GET /" + "x" * 10000 + " HTTP/1.1"], 414),
        (["GET"], 400),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_is_no_request_ends_the_connection(serve, lines, status):
    """Also what follows it on the connection is not taken for a request."""
    head = [lines[0], "Host: 127.0.0.1", f"Authorization: Bearer {TOKENS['self']}", *lines[1:], "", ""]
    found = serve.raw("\r\n".join(head).encode() + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 %d " % status) and found.count(b"HTTP/1.1 ") == 1, found
    assert b"Content-Type: application/problem+json" in found and b'"code":"' in found and b"Connection: close" in found


# --- who looks after it ---


def test_probes_and_metrics(serve):
    assert (serve.ask("/healthz").body, serve.ask("/readyz").body) == (b"ok\n", b"ok\n")
    serve.ask("/v2/a-stranger's-word", TOKENS["self"])
    serve.ask("/v1/environments/another-word", TOKENS["self"])
    metrics = serve.ask("/metrics", TOKENS["self"])
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert subprocess.run([promtool(), "check", "metrics"], input=metrics.body, capture_output=True).returncode == 0
    assert b'berth_serve_requests_total{method="GET",route="/v1/environments/{name}",code="404"} 1' in metrics.body
    assert b'berth_serve_requests_total{method="",route="",code="404"} 1' in metrics.body
    assert b"word" not in metrics.body


def test_a_state_that_cannot_be_read(serve):
    """It says so, to clients without a path, and is well again when the state is."""
    data = serve.state / "data.mdb"
    kept = data.read_bytes()
    data.write_bytes(b"\0" * len(kept))
    wait_until(lambda: serve.ask("/readyz").status == 503)
    answer = serve.ask("/v1/environments", TOKENS["self"])
    answer.problem(500, "store-failed")
    assert str(serve.state).encode() not in answer.body and str(serve.state) in serve.lines()
    assert serve.ask("/healthz").status == 200
    data.write_bytes(kept)
    wait_until(lambda: serve.ask("/readyz").status == 200)
    assert serve.ask("/v1/environments", TOKENS["self"]).names() == ["data", "web"]


def test_one_server_a_folder(serve, offline):
    refused = offline("serve", "-f", serve.file).expect(4)
    assert f"process {serve.process.pid}" in refused.err
    assert serve.ask_socket("/v1/environments").status == 200
    assert serve.stop(signal.SIGKILL) == -signal.SIGKILL
    assert (serve.state / "serve.sock").exists()
    serve.start()
    assert serve.ask_socket("/v1/environments").status == 200


def test_a_port_that_is_taken(offline):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        serve = Serve(offline, listen=f"127.0.0.1:{other.getsockname()[1]}")
        assert "cannot listen on" in offline("serve", "-f", serve.file).expect(1).err
        assert not (serve.state / "serve.sock").exists()


def test_a_folder_that_goes_away_ends_it(serve):
    shutil.rmtree(serve.state)
    assert serve.process.wait(60) == 1
    assert "was removed or replaced" in serve.lines()
    serve.process = None


def test_it_tells_its_service_manager(offline):
    name = f"\0berth-test-{os.getpid()}-{time.monotonic_ns()}"
    serve = Serve(offline)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name)
        manager.settimeout(60)
        serve.start(env={"NOTIFY_SOCKET": "@" + name[1:], "WATCHDOG_USEC": "400000"})
        seen = [manager.recv(4096).decode() for _ in range(2)]
        assert seen == ["READY=1", "WATCHDOG=1"]
        assert serve.stop() == 0
        while manager.recv(4096) != b"STOPPING=1":
            pass


def test_requests_under_way_do_not_hold_up_its_end(serve):
    """One has sent half a head, one half a body, one waits for nothing."""
    connections = [socket.create_connection(("127.0.0.1", serve.port)) for _ in range(3)]
    connections[0].sendall(b"GET /v1/map HTTP/1.1\r\nHost: loc")
    connections[1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert connections[1].recv(15).startswith(b"HTTP/1.1 200")
    assert serve.stop() == 0
    for connection in connections:
        connection.close()


# --- its file ---


def test_what_is_not_built_is_said(offline):
    serve = Serve(
        offline, clients=CLIENTS, sessions={"total": 3, "allowShared": True}, workspaces={"minFreeMB": 1}, containers={"total": 1},
    ).start()  # fmt: skip
    try:
        assert "sessions.allowShared: not" in serve.lines()
        serve.ask("/v1/environments", "").problem(401, "unauthenticated")
    finally:
        assert serve.stop() == 0


def test_a_file_that_is_wrong(offline):
    serve = Serve(offline, listen="0.0.0.0:0", clients=CLIENTS)
    assert "reached from beyond this machine" in offline("serve", "-f", serve.file).expect(1).err
    serve.configure(stack="elsewhere")
    assert "stack: " in offline("serve", "-f", serve.file).expect(1).err
    serve.file.write_text(stack())
    assert "the file of a Server holds nothing else, found Stack" in offline("serve", "-f", serve.file).expect(1).err
    assert not serve.state.exists()


def test_tokens_in_files(offline):
    token = offline.folder / "token"
    token.write_text(TOKENS["file"] + "\n")
    token.chmod(0o600)
    serve = Serve(offline, listen="off", clients=[{"name": "file", "tokenFile": "token", "may": ["execute"]}])
    serve.start()
    assert serve.port is None and serve.ask_socket("/v1/environments").status == 200
    assert serve.stop() == 0
    serve.configure(clients=[{"name": "file", "tokenFile": "token", "may": ["execute"]}])
    serve.start()
    try:
        assert serve.ask("/v1/environments", TOKENS["file"]).status == 200
        assert serve.ask("/v1/environments", TOKENS["self"]).status == 401
    finally:
        assert serve.stop() == 0
    token.write_text("short\n")
    assert "fewer than 16 characters" in offline("serve", "-f", serve.file).expect(1).err


def test_a_folder_with_a_long_name(binary, tmp_path):
    """A socket's name takes 107 bytes, and states lie deeper than that."""
    from binary import Berth

    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    serve = Serve(Berth(binary, deep)).start()
    try:
        os.symlink(serve.state, tmp_path / "short")
        connection = OverSocket(tmp_path / "short" / "serve.sock")
        assert serve.ask("/v1/environments", over=connection).names() == []
        connection.close()
    finally:
        assert serve.stop() == 0
