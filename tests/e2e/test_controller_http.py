# SPDX-License-Identifier: Apache-2.0
"""What the controller shows over HTTP, to friends and to others: `server_cli` (tests/unit/gitops) is its HTTP alone."""

import base64
import hashlib
import hmac
import http.client
import os
import socket
import subprocess
import threading
import time

import pytest

from binary import tool
from lib.controller_http import SECRET, Server
from lib.metrics import promtool


@pytest.fixture
def server():
    made = Server()
    yield made
    made.stop()


def curl(*arguments):
    return subprocess.run(["curl", "-sS", "--noproxy", "*", "--max-time", "20", *arguments], capture_output=True, text=True, check=True).stdout


# --- those who look ---


def test_health_and_readiness_are_what_the_loop_says(server):
    for path, name in ("/healthz", "healthy"), ("/readyz", "ready"):
        assert server.ask("GET", path)[:2] == (200, b"ok\n")
        server.tell(f"{name} research was not heard of for 20 minutes")
        assert server.ask("GET", path)[:2] == (503, b"not ok: research was not heard of for 20 minutes\n")
        server.tell(f"{name} -")
        assert server.ask("GET", path)[0] == 200
    assert curl("-o", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:{server.port}/healthz") == "200"


def test_metrics_are_what_prometheus_takes(server):
    server.hook()
    status, body, headers = server.ask("GET", "/metrics")
    assert status == 200
    assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    checked = subprocess.run([promtool(), "check", "metrics"], input=body, capture_output=True)
    assert checked.returncode == 0 and not checked.stderr and not checked.stdout, checked.stderr + checked.stdout
    families = {line.split()[2] for line in body.decode().splitlines() if line.startswith("# TYPE")}
    assert {
        "berth_reconciles_total", "berth_reconcile_duration_seconds", "berth_git_polls_total", "berth_git_poll_duration_seconds",
        "berth_drift_found_total", "berth_refusals_total", "berth_provider_calls_total", "berth_provider_throttles_total",
        "berth_provider_quota_wait_seconds_total", "berth_last_success_timestamp_seconds", "berth_resources",
        "berth_source_condition", "berth_source_suspended", "berth_notifications_total", "berth_webhooks_total",
        "berth_build_info", "process_resident_memory_bytes", "process_start_time_seconds", "process_open_fds",
    } <= families  # fmt: skip
    # Gauges are brought up to date before they are shown.
    assert b'berth_resources{source="research",kind="Environment"} 12\n' in body


def test_heads_are_answered_like_gets(server):
    for path in "/healthz", "/readyz", "/metrics", "/nothing":
        get, head = server.ask("GET", path), server.ask("HEAD", path)
        assert head[0] == get[0] and head[1] == b""
        if path != "/metrics":
            assert head[2]["content-length"] == get[2]["content-length"]


def test_nothing_is_given_away(server):
    for path in "/", "/metrics", "/nothing", "/hooks/research":
        _, body, headers = server.ask("GET", path)
        assert "server" not in headers
        assert b"berth" not in body.lower() or path == "/metrics"
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "method,path,status,allow",
    [
        ("POST", "/healthz", 405, "GET, HEAD"),
        ("PUT", "/readyz", 405, "GET, HEAD"),
        ("DELETE", "/metrics", 405, "GET, HEAD"),
        ("OPTIONS", "/metrics", 405, "GET, HEAD"),
        ("GET", "/hooks/research", 405, "POST"),
        ("HEAD", "/hooks/research", 405, "POST"),
        ("PUT", "/hooks/nobody", 405, "POST"),
        ("GET", "/", 404, None),
        ("POST", "/", 404, None),
        ("GET", "/metrics/", 404, None),
        ("GET", "/hooks", 404, None),
        ("GET", "//metrics", 404, None),
        ("GET", "/../metrics", 404, None),
        ("get", "/metrics", 405, "GET, HEAD"),
    ],
)
def test_methods_and_paths(server, method, path, status, allow):
    answer = server.ask(method, path, b"x" if method in ("POST", "PUT") else None)
    assert answer[0] == status
    assert answer[2].get("allow") == allow


def test_connections_are_kept_where_wanted(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    ports = set()
    for path in "/healthz", "/metrics", "/nothing", "/readyz":
        connection.request("GET", path)
        ports.add(connection.sock.getsockname()[1])
        connection.getresponse().read()
    assert len(ports) == 1
    connection.request("GET", "/healthz", headers={"Connection": "close"})
    answer = connection.getresponse()
    assert answer.getheader("Connection") == "close" and answer.read() == b"ok\n"


@pytest.mark.parametrize("listen,hosts", [("[::1]:0", ["::1"]), (":0", ["127.0.0.1", "::1"]), ("localhost:0", ["127.0.0.1"])])
def test_addresses(listen, hosts):
    if "::1" in hosts and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    server = Server(listen)
    for host in hosts:
        assert server.ask("GET", "/healthz", host=host)[0] == 200
    server.stop()


def test_a_port_that_is_taken(server):
    second = subprocess.run([tool("server_cli"), f"127.0.0.1:{server.port}", SECRET, "0"], capture_output=True, text=True)
    assert second.returncode == 1 and "Address already in use" in second.stderr


# --- webhooks ---


def test_githubs_signature(server):
    assert server.hook(b'{"ref": "refs/heads/main"}', **{"X-GitHub-Event": "push"}) == 202
    assert server.woken() == ["wake research"]


def test_githubs_own_example(server):
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert server.ask("POST", "/hooks/research", b"Hello, World!", {"X-Hub-Signature-256": signature})[0] == 202


def test_a_ping_is_answered(server):
    assert server.hook(b'{"zen": "..."}', **{"X-GitHub-Event": "ping"}) == 200
    assert server.hook(b'{"zen": "..."}', secret="wrong", **{"X-GitHub-Event": "ping"}) == 401


def test_gitlabs_token(server):
    assert server.ask("POST", "/hooks/research", b"{}", {"X-Gitlab-Token": SECRET, "X-Gitlab-Event": "Push Hook"})[0] == 202
    assert server.ask("POST", "/hooks/research", b"{}", {"X-Gitlab-Token": SECRET[:-1]})[0] == 401
    assert server.woken() == ["wake research"]


def test_bitbuckets_signature_and_azures_password(server):
    signed = "sha256=" + hmac.new(SECRET.encode(), b"{}", "sha256").hexdigest()
    assert server.ask("POST", "/hooks/research", b"{}", {"X-Hub-Signature": signed, "X-Event-Key": "repo:push"})[0] == 202
    assert server.ask("POST", "/hooks/research", b"{ }", {"X-Hub-Signature": signed, "X-Event-Key": "repo:push"})[0] == 401
    for password, status in ((SECRET, 202), (SECRET[:-1], 401)):
        basic = base64.b64encode(b"devops:" + password.encode()).decode()
        assert server.ask("POST", "/hooks/research", b"{}", {"Authorization": f"Basic {basic}"})[0] == status


def test_giteas_signature(server):
    # Gitea and Forgejo send their own header beside GitHub's.
    body = b'{"ref": "refs/heads/main"}'
    mac = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-Gitea-Signature": mac, "X-Gogs-Signature": mac, "X-Hub-Signature-256": f"sha256={mac}", "X-Gitea-Event": "push"}
    assert server.ask("POST", "/hooks/research", body, headers)[0] == 202


def test_curl_as_a_hook(server):
    body = '{"by": "hand"}'
    mac = hmac.new(SECRET.encode(), body.encode(), hashlib.sha256).hexdigest()
    out = curl("-X", "POST", "-H", f"X-Hub-Signature-256: sha256={mac}", "-d", body, "-w", "%{http_code}", f"http://127.0.0.1:{server.port}/hooks/research")
    assert out == "the source will look\n202"


def test_whoever_does_not_know_the_secret_learns_nothing_and_wakes_nothing(server):
    good = "sha256=" + hmac.new(SECRET.encode(), b"{}", hashlib.sha256).hexdigest()
    wrong = [
        {},
        {"X-Hub-Signature-256": ""},
        {"X-Hub-Signature-256": "sha256=" + "0" * 64},
        {"X-Hub-Signature-256": good[:-1]},
        {"X-Hub-Signature-256": good + "0"},
        {"X-Hub-Signature-256": good.removeprefix("sha256=")},
        {"X-Hub-Signature": "sha1=" + hmac.new(SECRET.encode(), b"{}", hashlib.sha1).hexdigest()},
        {"X-Gitlab-Token": ""},
        {"X-Gitlab-Token": SECRET + " x"},
        {"X-Hub-Signature-256": "sha256=" + "0" * 64, "X-Gitlab-Token": SECRET},
        {"Authorization": "Bearer " + SECRET},
    ]
    for headers in wrong:
        answers = {}
        for source in "research", "nobody", "..", "a%20b":
            status, body, said = server.ask("POST", f"/hooks/{source}", b"{}", headers)
            assert status == 401 and "www-authenticate" in said, headers
            answers[body] = True
        assert len(answers) == 1
    assert server.ask("POST", "/hooks/research", b"{} ", {"X-Hub-Signature-256": good})[0] == 401
    assert server.woken() == []
    body = server.ask("GET", "/metrics")[1].decode()
    assert f'berth_webhooks_total{{source="",code="401"}} {len(wrong) * 4 + 1}\n' in body
    assert "nobody" not in body


def test_whoever_knows_it_is_told_of_sources_that_are_none(server):
    for source in "nobody", "", "research/", "a/b", "%2e%2e":
        assert server.hook(source=source) == 404
    assert server.woken() == []
    assert server.hook(source="research?x=y") == 202
    assert server.hook(source="rese%61rch") == 202


def test_without_a_secret_there_are_no_hooks():
    server = Server(secret="-")
    assert server.hook() == 404
    assert server.ask("GET", "/hooks/research")[0] == 404
    assert server.ask("GET", "/metrics")[0] == 200
    server.stop()
    empty = subprocess.run([tool("server_cli"), "127.0.0.1:0", "", "0"], capture_output=True, text=True)
    assert empty.returncode == 1 and "secret is empty" in empty.stderr


# --- those who mean no good, and accidents ---


def resident(server):
    with open(f"/proc/{server.process.pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_large_bodies_are_hashed_and_not_kept(server):
    assert server.hook() == 202
    before = resident(server)
    body = os.urandom(1 << 20) * 25
    assert server.hook(body) == 202
    assert resident(server) - before < 4 << 20
    with pytest.raises((ConnectionError, AssertionError)):
        # Whoever says how long it is gets an answer, unless he is deep in writing it by then.
        assert server.hook(body + b"x") == 202
    connection = server.socket()
    connection.sendall(b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: 26214401\r\n\r\n")
    assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
    connection.close()
    assert server.ask("GET", "/healthz")[0] == 200


def chunked(server, path, pieces, headers=b""):
    """The status line, or b'' where the connection ended without one."""
    connection = server.socket()
    try:
        connection.sendall(b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" + headers + b"\r\n")
        for piece in pieces:
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\n\r\n")
        return connection.recv(100).split(b"\r\n")[0]
    except ConnectionError:
        return b""
    finally:
        connection.close()


def test_bodies_in_pieces(server):
    mac = hmac.new(SECRET.encode(), b"onetwo", hashlib.sha256).hexdigest().encode()
    assert chunked(server, b"/hooks/research", [b"one", b"two"], b"X-Hub-Signature-256: sha256=" + mac + b"\r\n").startswith(b"HTTP/1.1 202")
    piece = bytes(1 << 20)
    assert not chunked(server, b"/hooks/research", [piece] * 26, b"X-Gitlab-Token: " + SECRET.encode() + b"\r\n").startswith(b"HTTP/1.1 2")
    assert not chunked(server, b"/metrics", [piece]).startswith(b"HTTP/1.1 2")
    assert server.woken() == ["wake research"]
    assert server.ask("GET", "/healthz")[0] == 200


@pytest.mark.parametrize(
    "text",
    [
        b"\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics\r\n\r\n",
        b"GET /metrics  HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(4000)) + b"\r\n",
        b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100000 + b"\r\n\r\n",
        b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: abc\r\n\r\n",
        b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
        b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_request_does_no_harm(text):
    server = Server(request_ms=1000)
    connection = server.socket()
    try:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        assert not answer.startswith(b"HTTP/1.1 2"), answer[:200]
    except ConnectionError:
        pass
    finally:
        connection.close()
    assert server.ask("GET", "/healthz")[0] == 200
    assert server.woken() == []
    server.stop()


def test_slow_clients_are_shown_out():
    """A byte now and then keeps a connection from being silent, not from having to come to an end."""
    server = Server(request_ms=1500)
    began = time.monotonic()
    slow = [server.socket() for _ in range(60)]
    ended = set()
    while len(ended) < len(slow) and time.monotonic() - began < 60:
        for index, connection in enumerate(slow):
            if index in ended:
                continue
            try:
                connection.sendall(b"GET /metrics HTTP/1.1\r\nX: " if time.monotonic() - began < 0.5 else b"a")
            except ConnectionError:
                ended.add(index)
        # Others are served meanwhile, from the same address.
        if time.monotonic() - began < 1.2:
            assert server.ask("GET", "/healthz")[0] == 200
        time.sleep(0.2)
    assert len(ended) == len(slow)
    assert time.monotonic() - began > 1.4
    for connection in slow:
        connection.close()
    # A slow body is no better than a slow head.
    body = server.socket()
    body.sendall(b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
    began = time.monotonic()
    with pytest.raises(ConnectionError):
        while time.monotonic() - began < 60:
            body.sendall(b"x")
            time.sleep(0.1)
    body.close()
    assert server.ask("GET", "/healthz")[0] == 200
    server.stop()


HALF = b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc"


def first_line(connection, text):
    connection.sendall(text)
    return connection.recv(65536).split(b"\r\n")[0]


def from_address(server, address):
    made = socket.socket()
    made.settimeout(20)
    made.bind((address, 0))
    made.connect(("127.0.0.1", server.port))
    return made


def until(done):
    began = time.monotonic()
    while not done():
        assert time.monotonic() - began < 30
        time.sleep(0.02)


def test_one_address_does_not_get_all_seats(server):
    held = []

    def is_full():
        """Of many that come at once some may find the waiting room full, and are cut off: others take their seats."""
        status, _, headers = server.ask("GET", "/metrics")
        assert status == 200 or (status == 503 and headers["retry-after"] == "1" and headers["connection"] == "close")
        if status == 200:
            held.append(server.socket())
            held[-1].sendall(HALF)
        return status == 503

    until(is_full)
    # A probe takes none of them, and other addresses have their own.
    assert server.ask("GET", "/healthz")[0] == 200
    other = from_address(server, "127.0.0.2")
    assert first_line(other, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 200")
    assert len(held) >= 64
    for connection in [*held, other]:
        connection.close()
    until(lambda: server.ask("GET", "/metrics")[0] == 200)


def test_probes_are_answered_whoever_holds_the_rest(server):
    """All working seats are taken, and far more than all places in the waiting room are asked for."""
    held = []
    for address in "127.0.0.2", "127.0.0.3":
        for _ in range(64):
            held.append(from_address(server, address))
            held[-1].sendall(HALF)

    def all_taken():
        """Of many that come at once some may find the waiting room full, and are cut off: others take their seats."""
        if server.ask("GET", "/metrics")[0] == 503:
            return True
        held.append(from_address(server, "127.0.0.4"))
        held[-1].sendall(HALF)
        return False

    until(all_taken)
    for number in range(300):
        held.append(from_address(server, f"127.0.1.{number % 5}" if number % 2 else "127.0.0.1"))
        held[-1].sendall(b"GET /healthz HTTP/1.1\r\nX: a")
        if number % 20 == 0:
            assert server.ask("GET", "/healthz")[:2] == (200, b"ok\n")
            assert server.ask("GET", "/readyz")[:2] == (200, b"ok\n")
    assert server.ask("GET", "/metrics")[0] == 503
    for connection in held:
        connection.close()
    until(lambda: server.ask("GET", "/metrics")[0] == 200)


# --- what two programs in a row may read in two ways, and pages of others ---


@pytest.mark.parametrize(
    "head,status",
    [
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3, 3\r\n\r\nabc", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: +3\r\n\r\nabc", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length:\r\n\r\nabc", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x3\r\n\r\nabc", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity\r\n\r\nabc", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length : 3\r\n\r\nabc", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n Transfer-Encoding: chunked\r\n\r\nabc", 400),
        (b"GET /healthz\tHTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz\r\nHost: localhost\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nX: a\x0bb\r\nContent-Length: 3\r\n\r\nabc", 400),
        (b"GET /hooks/%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz\x00/more HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz?a\x00b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz?a=%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /hooks%2fresearch HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /hooks/a%2Fb HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz% HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz%4 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /health\xffz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost:x\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost@evil.example\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost:\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", 421),
        (b"POST /hooks/research HTTP/1.1\r\nHost: 10.1.2.3:9470\r\nContent-Length: 3\r\n\r\nabc", 421),
        (b"GET /metrics HTTP/1.0\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n", 403),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost:1\r\nOrigin: http://localhost:2\r\n\r\n", 403),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\nContent-Length: 3\r\n\r\nabc", 403),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n\r\n", 403),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n:\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n:\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\n: x\r\nContent-Length: 57\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\x00.evil\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\x00\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX\x00Y: z\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\x006\r\n\r\nabcde", 400),
        (b"GET /healthz HTTP/1.1\nHost: localhost\n\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\rContent-Length: 50\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\r\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\r\n\tContent-Length: 50\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\n X: y\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX : y\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET  /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b" GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1 \r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.10\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz http/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.2\r\nHost: localhost\r\n\r\n", 505),
        (b"\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\n0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\n\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3;\nxx\r\n0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcXX0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n:\r\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n", 400),
        (b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nExpect: tea\r\n\r\nabc", 417),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", 413),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 130 + b"\r\n", 431),
    ],
)  # fmt: skip
def test_what_is_refused_before_it_is_routed(server, head, status):
    """Refused by that status, the connection with it: nothing that follows is taken for a request of its own."""
    connection = server.socket()
    connection.sendall(head + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    try:
        while piece := connection.recv(65536):
            answer += piece
    except ConnectionError:
        pass
    connection.close()
    assert answer.startswith(b"HTTP/1.1 %d " % status) or answer.startswith(b"HTTP/1.0 %d " % status), answer[:300]
    assert b" 200 OK" not in answer and b"pong" not in answer, answer
    assert server.woken() == []
    assert server.ask("GET", "/healthz")[0] == 200


def test_requests_that_follow_each_other(server):
    """As many answers as requests, each its own, however the bytes come; and no other connection is needed."""
    mac = b"X-Hub-Signature-256: sha256=" + hmac.new(SECRET.encode(), b"onetwo", hashlib.sha256).hexdigest().encode() + b"\r\n"
    requests = [
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\n" + mac + b"Content-Length: 6\r\n\r\nonetwo",
        b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\n" + mac + b"Transfer-Encoding: chunked\r\n\r\n3;a=b\r\none\r\n003\r\ntwo\r\n0\r\nX: y\r\n\r\n",
        b"\r\nHEAD /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ]  # fmt: skip
    whole = b"".join(requests)
    for step in 1, 7, len(whole):
        connection = server.socket()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(whole), step):
            connection.sendall(whole[at : at + step])
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        connection.close()
        statuses = [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]
        assert statuses == [200, 202, 404, 202, 200, 200], answer
    assert server.woken() == ["wake research"] * 6


def test_who_waits_to_be_told_is_told(server):
    head = b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nX-Gitlab-Token: %s\r\nContent-Length: %d\r\n\r\n"
    connection = server.socket()
    assert first_line(connection, head % (SECRET.encode(), 3)) == b"HTTP/1.1 100 Continue"
    assert first_line(connection, b"abc") == b"HTTP/1.1 202 Accepted"
    # Whoever is refused is not told to go on, nor who has sent it already.
    assert first_line(connection, head % (SECRET.encode(), 3) + b"abc") == b"HTTP/1.1 202 Accepted"
    assert first_line(connection, head % (SECRET.encode(), 1 << 30)).startswith(b"HTTP/1.1 413 ")
    connection.close()


def test_a_refusal_is_heard_by_who_is_still_sending(server):
    """A socket that is closed with bytes unread would throw away the answer."""
    for length in b"Content-Length: %d" % (64 << 20), b"Transfer-Encoding: chunked":
        connection = server.socket()
        sending = threading.Thread(target=lambda: send_all_of_it(connection, length), daemon=True)
        sending.start()
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        assert answer.startswith(b"HTTP/1.1 413 ") and answer.endswith(b"the body is too large\n")
        sending.join(20)
        connection.close()


def send_all_of_it(connection, length):
    try:
        connection.sendall(b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nX-Gitlab-Token: a\r\n" + length + b"\r\n\r\n")
        for _ in range(64):
            connection.sendall(b"100000\r\n" + bytes(1 << 20) + b"\r\n")
    except OSError:
        pass


@pytest.mark.parametrize("files", [40, 64, 256])
def test_few_descriptors(files):
    """Half of them are for who connects. Whoever comes too many is told so, or shown out, and probes are answered."""
    server = Server(files=files)
    held = []
    for number in range(300):
        held.append(from_address(server, f"127.0.2.{number % 50 + 1}"))
        held[-1].sendall(HALF if number % 3 else b"GET /healthz HTTP/1.1\r\nX: a")
        if number % 10 == 0:
            assert server.ask("GET", "/healthz")[:2] == (200, b"ok\n")
            assert len(os.listdir(f"/proc/{server.process.pid}/fd")) < files - 8
    for connection in held:
        connection.close()
    until(lambda: server.ask("GET", "/metrics")[0] == 200)
    assert server.hook() == 202
    server.stop()


@pytest.mark.parametrize(
    "listen,hosts,host,status",
    [
        ("127.0.0.1:0", (), "localhost", 200),
        ("127.0.0.1:0", (), "LOCALHOST:9470", 200),
        ("127.0.0.1:0", (), "berth.localhost", 200),
        ("127.0.0.1:0", (), "127.0.0.1", 200),
        ("127.0.0.1:0", (), "[::1]:80", 200),
        ("127.0.0.1:0", (), "hooks.example.com", 421),
        ("127.0.0.1:0", ("hooks.example.com",), "hooks.example.com", 200),
        ("127.0.0.1:0", ("hooks.example.com",), "Hooks.Example.Com:443", 200),
        ("127.0.0.1:0", ("hooks.example.com", "10.1.2.3"), "10.1.2.3:9470", 200),
        ("127.0.0.1:0", ("hooks.example.com",), "example.com", 421),
        (":0", (), "hooks.example.com", 200),
        ("0.0.0.0:0", (), "10.1.2.3", 200),
        (":0", ("hooks.example.com",), "hooks.example.com", 200),
        (":0", ("hooks.example.com",), "evil.example", 421),
        (":0", ("hooks.example.com",), "localhost", 200),
    ],
)
def test_names_by_which_it_is_called(listen, hosts, host, status):
    server = Server(listen, hosts=hosts)
    assert server.ask("GET", "/healthz", headers={"Host": host})[0] == status
    assert server.ask("GET", "/metrics", headers={"Host": host, "Origin": f"http://{host}"})[0] == status
    connection = server.socket()
    assert first_line(connection, b"GET /healthz HTTP/1.0\r\n\r\n").endswith(b" 200 OK")
    connection.close()
    server.stop()


def test_many_at_once(server):
    failures = []

    def work(number):
        try:
            for _ in range(20):
                assert server.hook(b"x" * number) == 202
                assert server.ask("GET", "/metrics")[0] == 200
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(server.woken()) == 160


def test_it_stops_while_somebody_is_in_the_middle(server):
    for text in b"", b"GET /met", b"POST /hooks/research HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc":
        connection = server.socket()
        connection.sendall(text)
    # server.stop() of the fixture says whether it ends, and whether the leak checker had something to say.
