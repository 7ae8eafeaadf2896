# SPDX-License-Identifier: Apache-2.0
"""Tokens, JSON Web Tokens, tickets and E2B's tokens stand nowhere: no core file, no argument, no environment, no memory of another
process, no line of the log at any level, no metric, no record; whether they were taken or refused, and wherever they were put."""

import contextlib
import http.client
import json
import os
import pathlib
import resource
import signal
import subprocess

import pytest

from binary import Berth, is_watched
from controllers import PATIENCE
from lib.jwt_issuer import KEYS, of_issuer, public, token
from lib.lab import TOKENS, client, stack
from lib.sessions import JSON, Sessions

CLIENTS = [
    client("self"),
    client("users", actsFor="users", realm="company"),
    client("watcher", may=["observe"]),
    client("file", may=["administer"]),
    of_issuer("owners", "berth", realm="staff", jwksFile="keys.json", ownerClaim="sub"),
]


def make(binary, folder):
    berth = Berth(binary, folder, "http://127.0.0.1:1")
    berth.write("stack.yaml", stack())
    berth("apply", "--yes").expect(0)
    (berth.folder / "keys.json").write_bytes(public(*KEYS.values()))
    return Sessions(berth, clients=CLIENTS, compat={"e2b": True, "e2bTemplate": "data"})


def parts_of(secret):
    """A JSON Web Token is as good in parts: nothing of its claims and its signature is to be found either."""
    return secret.split(".")[1:] if secret.count(".") == 2 else [secret]


def ask_by_all(serve, secrets):
    """By each kind of secret, right and wrong, and in places where none belongs; `secrets` gets all of them."""
    forged = token(sub="forged")
    forged = forged[:-8] + ("AAAAAAAA" if forged[-8:] != "AAAAAAAA" else "BBBBBBBB")
    bearers = [TOKENS["self"], token(sub="alice"), token(exp=1), token(iss="elsewhere"), forged, "nobodys-token-" + "0123456789abcdef" * 2]
    secrets.extend(bearers)
    for bearer in bearers:
        serve.ask("/v1/sessions", bearer)
        serve.ask(f"/v1/sessions?token={bearer}&access_token={bearer}", TOKENS["self"])
        serve.ask(f"/v1/sessions/{bearer}", TOKENS["self"])
        serve.ask(f"/v1/{bearer}", bearer)
        serve.ask("/v1/sessions", f"{bearer}\t", headers=[("Berth-Owner", bearer)])
        serve.ask("/v1/sessions", headers=[("X-API-Key", bearer)])
        serve.ask("/v1/sessions", TOKENS["self"], "POST", [JSON], json.dumps({"environment": bearer, bearer: 1}).encode())
        serve.ask("/v1/sessions", TOKENS["self"], "POST", [JSON], b'{"environment": "' + bearer.encode())
        serve.ask("/mcp", TOKENS["self"], "POST", [JSON, ("Mcp-Session-Id", bearer)], json.dumps({"jsonrpc": "2.0", "id": 1, "method": bearer}).encode())
        serve.ask("/v2/sandboxes", headers=[("X-API-Key", bearer)])
        serve.ask("/health", headers=[("X-Access-Token", bearer), ("E2b-Sandbox-Id", bearer)])
        serve.raw(f"GET / HTTP/1.1\r\nHost: {bearer}\r\nAuthorization: Bearer {bearer}\r\n bad\r\n\r\n".encode())
        serve.raw(f"{bearer}\r\n\r\n".encode())


def use_tickets(serve, session, secrets):
    for _ in range(2):
        address = serve.call("POST", f"/v1/workspaces/{session}/tickets", {"path": "f"}, owner="alice").json()["address"]
        secrets.append(address.rpartition("/")[2])
    assert serve.ask(address).body == b"kept"
    serve.ask(address).problem(404, "not-found")  # used; the other one is out still


def use_e2b(serve, secrets):
    made = serve.ask("/v2/sandboxes", None, "POST", [JSON, ("X-API-Key", TOKENS["self"])], b'{"templateID": "data", "timeout": 600}')
    assert made.status == 201, made.body
    box = made.json()
    secrets.extend([box["envdAccessToken"], box["trafficAccessToken"]])
    named = [("E2b-Sandbox-Id", box["sandboxID"]), ("X-Access-Token", box["envdAccessToken"])]
    assert serve.ask("/health", headers=named).status in (200, 204)
    serve.ask(f"/files?path=x&signature={box['envdAccessToken']}&username=user", headers=named[:1])
    return box["sandboxID"]


def descendants(pid):
    found, parents = [], {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    queue = [pid]
    while queue:
        queue.extend(parents.get(queue[0], []))
        found.append(queue.pop(0))
    return found


def written(pid):
    """What of its memory can be written to, and was touched: [(from, to)]."""
    found, at = [], None
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            at = tuple(int(number, 16) for number in first.split("-")) if rest[0].startswith("rw") else None
        elif first == "Rss:" and at and int(rest[0]) > 0:
            found.append(at)
    return found


def memory_of(pid):
    """In pieces that overlap, so that nothing is cut in two."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for first, last in written(pid):
            for at in range(first, last, 1 << 20):
                with contextlib.suppress(OSError):
                    memory.seek(at)
                    yield memory.read(min(last - at, (1 << 20) + 4096))


def holds(data, secrets):
    return [secret[:12] for secret in secrets for part in parts_of(secret) if part.encode() in data]


def is_root():
    return os.geteuid() == 0


@pytest.fixture(scope="module")
def asked(binary, tmp_path_factory):
    """A server that tells as much as it ever does, after all of that; while a session lives and code runs."""
    if is_watched(binary):
        pytest.skip("the runtime of such a build needs more memory than a sandbox has")
    serve = make(binary, tmp_path_factory.mktemp("secrets"))
    secrets, ended = list(TOKENS.values()), []
    try:
        serve.start("--accept-degraded", "--verbose")
        session = serve.create(owner="alice")
        ended.append(session)
        serve.run(session, "open('f', 'w').write('kept')", owner="alice")
        ask_by_all(serve, secrets)
        use_tickets(serve, session, secrets)
        ended.append(use_e2b(serve, secrets))
        yield serve, sorted(set(secrets)), session
    finally:
        for session in ended:
            serve.call("DELETE", f"/v1/sessions/{session}", token=TOKENS["file"])
        assert serve.stop() == 0
    assert holds(serve.log.read_bytes(), secrets) == []


def test_no_line_no_metric_no_record(asked):
    serve, secrets, _ = asked
    assert "it serves what was applied" in serve.lines()  # there is a log
    assert holds(serve.log.read_bytes(), secrets) == []
    metrics = serve.ask("/metrics", TOKENS["watcher"]).body
    assert b"berth_serve_ready" in metrics and holds(metrics, secrets) == []
    files = [path for path in serve.state.rglob("*") if path.is_file()]
    assert any(path.suffix == ".mdb" for path in files)
    for path in files:
        assert holds(path.read_bytes(), secrets) == [], path
    for path in ("/v1/sessions", "/v1/map", "/openapi.json"):
        assert holds(serve.ask(path, TOKENS["self"]).body, secrets) == [], path


def test_no_argument_no_environment(asked):
    serve, secrets, session = asked
    pids = set(descendants(serve.process.pid))
    assert len(pids) >= 3  # the server, a worker, what runs in it
    # Theirs alone: other tests of the machine may have the same tokens in their environment.
    shown = subprocess.run(["ps", "eww", "-p", ",".join(map(str, pids))], capture_output=True, check=True).stdout
    assert str(serve.process.pid).encode() in shown and holds(shown, secrets) == []
    for pid in pids:
        for name in ("cmdline", "environ", "comm"):
            with contextlib.suppress(OSError):
                assert holds(pathlib.Path(f"/proc/{pid}/{name}").read_bytes(), secrets) == [], (pid, name)
    # What code sees of itself.
    code = "import os, subprocess; print(open('/proc/self/environ').read(), dict(os.environ), open('/proc/1/cmdline').read())"
    seen = serve.run(session, code, owner="alice")["stdout"]
    assert seen["content"] and holds(json.dumps(seen).encode(), secrets) == []


@pytest.mark.skipif(not is_root(), reason="root alone may read another process's memory")
def test_no_memory_of_another_process(asked):
    """Workers and what runs in them are programs of their own: nothing that the server had in its memory came along."""
    serve, secrets, session = asked
    words = "a-word-that-is-in-the-kernels-memory"
    serve.run(session, f"word = '{words}' * 2", owner="alice")
    read = found = 0
    for pid in set(descendants(serve.process.pid)) - {serve.process.pid}:
        for piece in memory_of(pid):
            read += len(piece)
            found += words.encode() * 2 in piece
            assert holds(piece, secrets) == [], (pid, pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())
    assert read > 1 << 20 and found >= 1  # it looks where something would be


def test_no_core_file(binary, tmp_path):
    """Killed as by a crash, with requests with tokens under way, by whoever lets core files be of any size."""
    if is_watched(binary):
        pytest.skip("sanitizers have a say of their own in what is dumped")
    serve = make(binary, tmp_path)
    before = resource.getrlimit(resource.RLIMIT_CORE)
    _, most = before
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))
    try:
        serve.start("--accept-degraded")
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    limits = pathlib.Path(f"/proc/{serve.process.pid}/limits").read_text()
    assert next(line for line in limits.splitlines() if line.startswith("Max core file size")).split()[4:6] == ["1", "1"]
    with contextlib.ExitStack() as streams:
        for bearer in (TOKENS["self"], token(sub="alice")):
            connection = http.client.HTTPConnection("127.0.0.1", serve.port, timeout=60 * PATIENCE)
            streams.callback(connection.close)
            connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {bearer}"})
            assert connection.getresponse().status == 200
        # It is not to be looked into by another of its user either: then its files are root's.
        if not is_root():
            assert pathlib.Path(f"/proc/{serve.process.pid}/mem").stat().st_uid == 0
        os.kill(serve.process.pid, signal.SIGABRT)
        _, status = os.waitpid(serve.process.pid, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGABRT and not os.WCOREDUMP(status)
    serve.process.returncode = -signal.SIGABRT
    serve.process = None
    assert [path for path in tmp_path.rglob("core*") if path.is_file() and path.stat().st_size > 0] == []
