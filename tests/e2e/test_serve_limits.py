# SPDX-License-Identifier: Apache-2.0
"""What one client, and one owner of its, may ask of `berth serve`: by the manifest's limits, and by those of who has none there."""

import contextlib
import hashlib
import socket

import pytest

from binary import Berth
from controllers import PATIENCE, wait_until
from lib.jwt_issuer import KEYS, of_issuer, public, token
from lib.lab import TOKENS, client, stack
from lib.sessions import Sessions
from mcp_client import refusal

SLOW = "slow" + hashlib.sha256(b"slow").hexdigest()


@pytest.fixture(scope="module")
def serve(binary, tmp_path_factory):
    berth = Berth(binary, tmp_path_factory.mktemp("limits"), "http://127.0.0.1:1")
    berth.write("stack.yaml", stack())
    berth("apply", "--yes").expect(0)
    (berth.folder / "keys.json").write_bytes(public(*KEYS.values()))
    slow = {**client("self"), "name": "slow", "tokenSha256": hashlib.sha256(SLOW.encode()).hexdigest()}
    made = Sessions(berth, clients=[
        client("self", limits={"underWay": 3, "ownerUnderWay": 2}),
        {**slow, "limits": {"requestsPerSecond": 1}},
        client("users", actsFor="users", realm="company", limits={"ownerRequestsPerSecond": 1}),
        client("watcher", actsFor="users", realm="company", limits={"underWay": 4, "ownerUnderWay": 3}),
        of_issuer("owners", "berth", realm="staff", jwksFile="keys.json", ownerClaim="sub", limits={"ownerRequestsPerSecond": 1}),
    ])  # fmt: skip
    yield made.start("--accept-degraded")
    assert made.stop() == 0


def statuses(serve, bearer, *lines, path="/v1/environments", count=20):
    """Of so many requests, sent at once on one connection."""
    request = "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {bearer}", *lines, "", ""])
    found = []
    with socket.create_connection(("127.0.0.1", serve.port), timeout=60 * PATIENCE) as there:
        there.sendall(request.encode() * count)
        with there.makefile("rb") as answers:
            for _ in range(count):
                status, length, again = int(answers.readline().split()[1]), 0, None
                while (line := answers.readline()) != b"\r\n":
                    name, _, value = line.decode().partition(":")
                    length = int(value) if name.lower() == "content-length" else length
                    again = value.strip() if name.lower() == "retry-after" else again
                answers.read(length)
                assert again == ("1" if status == 429 else None)
                found.append(status)
    return found


def ask_too_often(serve, bearer, *lines):
    """Until it is refused; what came before was answered, and nothing else is said."""
    found = []

    def refused():
        found.extend(statuses(serve, bearer, *lines))
        return 429 in found

    wait_until(refused)
    assert set(found) == {200, 429} and found[0] == 200


def test_a_client_that_asks_too_often(serve):
    ask_too_often(serve, SLOW)
    problem = next(answer for answer in iter(lambda: serve.ask("/v1/environments", SLOW), None) if answer.status == 429)
    assert "the client may make" in problem.problem(429, "too-many-requests")["detail"]
    # By MCP the same, in a form that clients of it show.
    by_mcp = next(answer for answer in iter(lambda: serve.ask("/mcp", SLOW, "POST", body=b"{}"), None) if answer.status == 429)
    refusal(by_mcp, 429, "too-many-requests")
    assert by_mcp.headers["retry-after"] == "1"
    # Nobody else is held up, and it is let in again.
    assert statuses(serve, TOKENS["self"], count=100) == [200] * 100
    wait_until(lambda: serve.ask("/v1/environments", SLOW).status == 200)


def test_one_owner_that_asks_too_often(serve):
    """By the header, and by the claim of a token: others of the same client keep their turns."""
    for bearer_of in (lambda name: (TOKENS["users"], f"Berth-Owner: {name}"), lambda name: (token(sub=name),)):
        ask_too_often(serve, *bearer_of("ann"))
        for number in range(40):
            assert statuses(serve, *bearer_of(f"other-{number}"), count=2) == [200, 200], number
        wait_until(lambda bearer_of=bearer_of: statuses(serve, *bearer_of("ann"), count=1) == [200])
    # Names that are none are the client's own doing, and no owner's.
    assert statuses(serve, TOKENS["users"], "Berth-Owner: a\u200bb".encode().decode("latin-1"), count=3) == [400] * 3


def stream(serve, crowd, bearer, *lines):
    there = crowd.enter_context(socket.create_connection(("127.0.0.1", serve.port), timeout=60 * PATIENCE))
    there.sendall("\r\n".join(["GET /v1/events HTTP/1.1", "Host: localhost", f"Authorization: Bearer {bearer}", *lines, "", ""]).encode())
    return int(there.recv(15).split()[1])


def test_what_is_under_way(serve):
    with contextlib.ExitStack() as crowd:
        owners = [f"Berth-Owner: {name}" for name in ("dan", "dan", "dan", "dan", "eve", "fay")]
        assert [stream(serve, crowd, TOKENS["watcher"], owner) for owner in owners] == [200, 200, 200, 429, 200, 429]
        # One that acts for itself is one owner.
        assert [stream(serve, crowd, TOKENS["self"]) for _ in range(3)] == [200, 200, 429]
        answer = serve.ask("/v1/events", TOKENS["self"])
        answer.problem(429, "too-many-under-way")
        assert answer.headers["retry-after"] == "1"
    # They left: so their places are free.
    wait_until(lambda: serve.ask("/v1/environments", TOKENS["self"]).status == 200)
