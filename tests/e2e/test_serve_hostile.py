# SPDX-License-Identifier: Apache-2.0
"""`berth serve` before a hostile client that knows HTTP: requests hidden in others, heads that two programs read as two things, and
what is another's. Whatever comes, no request is taken for two, nothing is done for who may not, and nothing is a 500."""

import contextlib
import http.client
import json
import socket
import threading

import pytest

from binary import Berth
from controllers import PATIENCE
from lib.jwt_issuer import KEYS, of_issuer, public, token
from lib.lab import TOKENS, client, stack
from lib.sessions import JSON, Sessions
from serving import Serve

CLIENTS = [
    client("self"),
    client("users", actsFor="users", realm="company"),
    client("watcher", may=["observe"]),
    client("file", may=["administer"]),
    of_issuer("owners", "berth", realm="company", jwksFile="keys.json", ownerClaim="sub"),
]
BODY = b'{"environment": "data", "labels": {"smuggled": "yes"}}'


@pytest.fixture(scope="module")
def serve(binary, tmp_path_factory):
    berth = Berth(binary, tmp_path_factory.mktemp("hostile"), "http://127.0.0.1:1")
    berth.write("stack.yaml", stack())
    berth("apply", "--yes").expect(0)
    (berth.folder / "keys.json").write_bytes(public(*KEYS.values()))
    made = Sessions(berth, clients=CLIENTS)
    made.start("--accept-degraded")
    yield made
    for session in made.call("GET", "/v1/sessions?limit=1000", token=TOKENS["watcher"]).items():
        made.call("DELETE", f"/v1/sessions/{session['id']}", token=TOKENS["file"])
    assert made.stop() == 0


def head(line, *lines, bearer=TOKENS["self"], host="localhost"):
    named = [f"Host: {host}"] if host else []
    known = [f"Authorization: Bearer {bearer}"] if bearer else []
    return "\r\n".join([line, *named, *known, *lines, "", ""]).encode("latin-1")


SMUGGLED = head("POST /v1/sessions HTTP/1.1", "Content-Type: application/json", f"Content-Length: {len(BODY)}") + BODY


def talk(serve, data, half_close=True):
    """Sends it, and says that no more will come: all that comes back."""
    with socket.create_connection(("127.0.0.1", serve.port), timeout=60 * PATIENCE) as there:
        found = b""
        with contextlib.suppress(ConnectionError):
            there.sendall(data)
            if half_close:
                there.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while piece := there.recv(65536):
                found += piece
        return found


def answers(data):
    """The statuses of the answers that these bytes are, each to its last byte; 100 among them."""
    found = []
    while data:
        top, mark, rest = data.partition(b"\r\n\r\n")
        assert mark and top.startswith(b"HTTP/1.1 "), data[:200]
        lines = top.decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1])
        named = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        assert len(named) == len(lines) - 1, lines  # none stands twice
        length = 0 if status in (100, 204, 304) else int(named["content-length"])
        assert len(rest) >= length, (status, rest[:200])
        found.append(status)
        data = rest[length:]
    return found


def smuggled(serve):
    return [s["id"] for s in serve.call("GET", "/v1/sessions?label=smuggled=yes&limit=1000", token=TOKENS["watcher"]).items()]


CHUNKED = "Transfer-Encoding: chunked"
POST = "POST /v1/sessions HTTP/1.1"
TYPED = "Content-Type: application/json"
HIDDEN = {
    "two lengths": [POST, TYPED, "Content-Length: 0", f"Content-Length: {len(SMUGGLED)}"],
    "the same length twice": [POST, TYPED, "Content-Length: 2", "Content-Length: 2"],
    "lengths in a list": [POST, TYPED, "Content-Length: 2, 2"],
    "a length with a sign": [POST, TYPED, "Content-Length: +2"],
    "a negative length": [POST, TYPED, "Content-Length: -1"],
    "a length in hex": [POST, TYPED, "Content-Length: 0x2"],
    "a length that overflows": [POST, TYPED, "Content-Length: 18446744073709551618"],
    "a length with a blank before the colon": [POST, TYPED, "Content-Length : 2"],
    "a length with an underscore": [POST, TYPED, "Content_Length: 2", CHUNKED.replace("-", "_", 1), "Content-Length: 2, 0"],
    "a length after a tab": [POST, TYPED, "Content-Length:\x0b2"],
    "no length": [POST, TYPED, "Content-Length:"],
    "length and chunks": [POST, TYPED, "Content-Length: 4", CHUNKED],
    "chunks and length": [POST, TYPED, CHUNKED, "Content-Length: 4"],
    "chunks twice": [POST, TYPED, CHUNKED, CHUNKED],
    "chunks in a list": [POST, TYPED, "Transfer-Encoding: chunked, identity"],
    "identity, chunks": [POST, TYPED, "Transfer-Encoding: identity, chunked"],
    "compressed chunks": [POST, TYPED, "Transfer-Encoding: gzip, chunked"],
    "xchunked": [POST, TYPED, "Transfer-Encoding: xchunked"],
    "quoted chunks": [POST, TYPED, 'Transfer-Encoding: "chunked"'],
    "chunks after a form feed": [POST, TYPED, "Transfer-Encoding:\x0cchunked"],
    "chunks with a blank before the colon": [POST, TYPED, "Transfer-Encoding : chunked"],
    "chunks on a folded line": [POST, TYPED, "Transfer-Encoding:", " chunked"],
    "a folded line": [POST, TYPED, "X: a", " Content-Length: 2"],
    "a line without a name": [POST, TYPED, ": value", "Content-Length: 2"],
    "a line without a colon": [POST, TYPED, "nothing", "Content-Length: 2"],
    "a carriage return in a value": [POST, TYPED, "X: a\rContent-Length: 2"],
    "a line feed alone": [POST, TYPED, "X: a\nContent-Length: 2"],
    "a NUL in a value": [POST, TYPED, "X: a\0b", "Content-Length: 2"],
    "a NUL in a name": [POST, TYPED, "Content-Length\0: 2"],
    "chunks in HTTP/1.0": ["POST /v1/sessions HTTP/1.0", TYPED, CHUNKED],
    "two hosts": [POST, "Host: localhost", TYPED, "Content-Length: 2"],
    "a blank before the version": ["POST /v1/sessions  HTTP/1.1", TYPED, "Content-Length: 2"],
    "a tab in the line": ["POST\t/v1/sessions HTTP/1.1", TYPED, "Content-Length: 2"],
    "a blank at the beginning": [" POST /v1/sessions HTTP/1.1", TYPED, "Content-Length: 2"],
    "a fragment": ["POST /v1/sessions#a HTTP/1.1", TYPED, "Content-Length: 2"],
}  # fmt: skip


@pytest.mark.parametrize("name", HIDDEN)
def test_requests_hidden_by_heads(serve, name):
    """What a proxy in front may have read in another way ends the connection: what follows is nobody's request."""
    line, *lines = HIDDEN[name]
    for body in (b"{}", b"0\r\n\r\n", b"4\r\n{   \r\n1\r\n}\r\n0\r\n\r\n", b""):
        found = talk(serve, head(line, *lines) + body + SMUGGLED)
        assert len(answers(found)) == 1 and answers(found)[0] in (400, 411, 413, 501), (body, found[:300])
        assert b"Connection: close" in found
    assert smuggled(serve) == []


CHUNKS = {
    "a sign": b"+2\r\n{}\r\n0\r\n\r\n",
    "in C": b"0x2\r\n{}\r\n0\r\n\r\n",
    "a blank": b" 2\r\n{}\r\n0\r\n\r\n",
    "a blank behind": b"2 \r\n{}\r\n0\r\n\r\n",
    "negative": b"-2\r\n{}\r\n0\r\n\r\n",
    "overflow": b"10000000000000002\r\n{}\r\n0\r\n\r\n",
    "nearly an overflow": b"ffffffffffffffff\r\n{}\r\n0\r\n\r\n",
    "very many zeros": b"0" * 100000 + b"2\r\n{}\r\n0\r\n\r\n",
    "no number": b"\r\n{}\r\n0\r\n\r\n",
    "line feeds": b"2\n{}\n0\n\n",
    "a line feed after the size": b"2\n{}\r\n0\r\n\r\n",
    "a longer chunk than it says": b"1\r\n{}\r\n0\r\n\r\n",
    "a shorter chunk than it says": b"3\r\n{}\r\n0\r\n\r\n",
    "an extension with a line feed": b"2;a=\nb\r\n{}\r\n0\r\n\r\n",
    "an extension with a carriage return": b"2;a\r{}\r\n0\r\n\r\n",
    "an endless extension": b"2;" + b"a" * 1000000 + b"\r\n{}\r\n0\r\n\r\n",
    "a NUL": b"2\0\r\n{}\r\n0\r\n\r\n",
    "no end": b"2\r\n{}\r\n0\r\n",
}


@pytest.mark.parametrize("name", CHUNKS)
def test_requests_hidden_by_chunks(serve, name):
    found = talk(serve, head(POST, TYPED, CHUNKED) + CHUNKS[name] + SMUGGLED)
    assert [status for status in answers(found) if status not in (400, 413)] == [] and len(answers(found)) <= 1, found[:300]
    assert smuggled(serve) == []


def test_chunks_as_they_may_be(serve):
    """Extensions and trailers are passed over: none of them gives a request another head."""
    text = b'{"environment": "none"}'
    sizes = [b"%x;a=b;c=\"d\"\r\n%s\r\n" % (1, text[i : i + 1]) for i in range(len(text))]
    trailers = b"0\r\nAuthorization: Bearer " + TOKENS["watcher"].encode() + b"\r\nContent-Length: 5\r\nBerth-Owner: mallory\r\n\r\n"
    found = talk(serve, head(POST, TYPED, CHUNKED) + b"".join(sizes) + trailers + head("GET /healthz HTTP/1.1"))
    assert answers(found) in ([404, 200], [400]) and (b"unknown-environment" in found or answers(found) == [400])
    # The same with a good head of nobody: a trailer is no token.
    found = talk(serve, head(POST, TYPED, CHUNKED, bearer=None) + b"".join(sizes) + trailers)
    assert answers(found)[0] == 401 and len(answers(found)) == 1


def test_a_hundred_requests_on_one_line(serve):
    """Each has its answer, in its order; one that is wrong in between ends it."""
    bodies = [head(POST, TYPED, "Content-Length: 23") + b'{"environment": "none"}', head("GET /v1/environments HTTP/1.1"), head("HEAD /healthz HTTP/1.1")]
    found = talk(serve, bodies[0] * 30 + bodies[1] * 30 + head("DELETE /v1/sessions/s-none HTTP/1.1") * 10)
    assert answers(found) == [404] * 30 + [200] * 30 + [404] * 10
    found = talk(serve, bodies[1] * 5 + b"GET / HTTP/1.1\r\n\r\n" + bodies[1] * 5)
    assert answers(found) == [200] * 5 + [400]
    # A body that a refused request announced is not the next request.
    found = talk(serve, head(POST, TYPED, f"Content-Length: {len(SMUGGLED)}", bearer="x" * 32) + SMUGGLED + SMUGGLED)
    assert answers(found)[0] == 401 and smuggled(serve) == []
    found = talk(serve, head("GET /v1/environments HTTP/1.1", f"Content-Length: {len(SMUGGLED)}") + SMUGGLED)
    assert answers(found) == [413] and smuggled(serve) == []


TARGETS = {
    "absolute": ("GET http://localhost/v1/map HTTP/1.1", (200, 400)),
    "absolute, of another": ("GET http://evil.example/v1/map HTTP/1.1", (400, 421)),
    "absolute, another's host": ("GET http://evil.example/v1/map HTTP/1.1\r\nX: a", (400, 421)),
    "absolute, with a user": ("GET http://a:b@localhost/v1/map HTTP/1.1", (400, 421)),
    "absolute, another scheme": ("GET gopher://localhost/v1/map HTTP/1.1", (400, 421)),
    "a file": ("GET file:///etc/passwd HTTP/1.1", (400, 421)),
    "authority": ("CONNECT localhost:22 HTTP/1.1", (400, 404, 405, 501)),
    "authority, get": ("GET localhost:22 HTTP/1.1", (400,)),
    "asterisk": ("OPTIONS * HTTP/1.1", (400, 404, 405, 501)),
    "two slashes": ("GET //evil.example/v1/map HTTP/1.1", (400, 404)),
    "backslashes": ("GET \\v1\\map HTTP/1.1", (400,)),
    "no slash": ("GET v1/map HTTP/1.1", (400,)),
    "up and down": ("GET /v1/../v1/map HTTP/1.1", (400, 404)),
    "up and down, encoded": ("GET /v1/%2e%2e/v1/map HTTP/1.1", (400, 404)),
    "parameters of a segment": ("GET /v1;a=b/map HTTP/1.1", (400, 404)),
    "bytes beyond ASCII": ("GET /v1/map\xff HTTP/1.1", (400, 404)),
    "an overlong dot": ("GET /v1/environments/%c0%ae%c0%ae HTTP/1.1", (400, 404)),
    "escaped twice": ("GET /v1/environments/%252e%252e HTTP/1.1", (404,)),
    "case of the path": ("GET /V1/MAP HTTP/1.1", (404,)),
    "a slash behind": ("GET /v1/map/ HTTP/1.1", (404,)),
    "trace": ("TRACE /v1/map HTTP/1.1", (400, 405, 501)),
    "lower case": ("get /v1/map HTTP/1.1", (400, 405, 501)),
    "an unknown method": ("BREW /v1/map HTTP/1.1", (400, 405, 501)),
    "a method of a million": ("A" * 1000000 + " /v1/map HTTP/1.1", (400, 405, 414, 431, 501)),
    "HTTP/0.9": ("GET /v1/map", (400, 505)),
    "HTTP/1.2": ("GET /v1/map HTTP/1.2", (200, 400, 505)),
    "HTTP/2.0": ("GET /v1/map HTTP/2.0", (400, 505)),
    "http/1.1": ("GET /v1/map http/1.1", (400, 505)),
    "HTTP/01.1": ("GET /v1/map HTTP/01.1", (400, 505)),
    "ten thousand parameters": ("GET /v1/sessions?" + "status=idle&" * 600 + " HTTP/1.1", (400, 414)),
    "a parameter that is no text": ("GET /v1/sessions?label=%ff%fe HTTP/1.1", (400,)),
    "a NUL in a parameter": ("GET /v1/sessions?label=a%00b HTTP/1.1", (400,)),
    "half an escape": ("GET /v1/sessions?label=%z HTTP/1.1", (400,)),
}  # fmt: skip


@pytest.mark.parametrize("name", TARGETS)
def test_targets_of_all_kinds(serve, name):
    line, wanted = TARGETS[name]
    found = answers(talk(serve, head(line)))
    assert len(found) == 1 and found[0] in wanted, (name, found)


def test_versions_before(serve):
    """HTTP/1.0: a connection is for one request, and a host is not needed where it names none; what needs a token does so still."""
    found = talk(serve, head("GET /v1/map HTTP/1.0") + head("GET /v1/map HTTP/1.0"))
    assert answers(found) == [200] and b"Connection: close" in found
    assert answers(talk(serve, head("GET /v1/map HTTP/1.0", bearer=None)))[0] == 401
    assert answers(talk(serve, head("GET /v1/map HTTP/1.0", host=None)))[0] in (200, 400, 421)
    assert answers(talk(serve, head("GET /v1/map HTTP/1.0", host="evil.example")))[0] == 421
    assert b"Transfer-Encoding" not in talk(serve, head("GET /v1/map HTTP/1.0"))


def test_who_waits_to_be_told(serve):
    """100 Continue is for who may send it, and comes once."""
    expecting = ("Expect: 100-continue", TYPED, f"Content-Length: {len(BODY)}")
    for bearer, wanted in ((None, 401), ("x" * 32, 401), (TOKENS["watcher"], 403)):
        assert answers(talk(serve, head(POST, *expecting, bearer=bearer)))[0] == wanted
    assert answers(talk(serve, head(POST, "Expect: 100-continue", TYPED, "Content-Length: 99999999999")))[0] == 413
    assert answers(talk(serve, head(POST, "Expect: 200-ok", TYPED, "Content-Length: 2") + b"{}"))[0] == 417
    text = b'{"environment": "none"}'
    found = answers(talk(serve, head(POST, "Expect: 100-continue", TYPED, f"Content-Length: {len(text)}") + text))
    assert found in ([100, 404], [404])  # the body was there already: none need be told


HEADS = {
    "ten thousand fields": ["GET /v1/map HTTP/1.1"] + [f"X-{i}: y" for i in range(10000)],
    "a thousand empty fields": ["GET /v1/map HTTP/1.1"] + ["X:"] * 1000,
    "two tokens": ["GET /v1/map HTTP/1.1", f"Authorization: Bearer {TOKENS['watcher']}"],
    "a token in two fields": ["GET /v1/map HTTP/1.1", "Authorization: Bearer"],
    "a long name": ["GET /v1/map HTTP/1.1", "X" * 100000 + ": y"],
}


@pytest.mark.parametrize("name", HEADS)
def test_heads_of_too_much(serve, name):
    line, *lines = HEADS[name]
    found = answers(talk(serve, head(line, *lines)))
    assert len(found) <= 1 and found[:1] in ([400], [401], [431], []), found


def test_headers_of_proxies_change_nothing(serve):
    """Neither who asks, nor for what, nor by what method."""
    plain = serve.ask("/v1/environments", TOKENS["self"])
    for name, value in {
        "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "evil.example", "X-Forwarded-User": "root", "X-Real-IP": "::1",
        "Forwarded": "for=127.0.0.1;host=evil.example", "X-HTTP-Method-Override": "DELETE", "X-Original-URL": "/metrics",
        "X-Rewrite-URL": "/v1/map", "X-Remote-User": "uid:0", "Remote-User": "uid:0", "Cookie": f"token={TOKENS['watcher']}",
        "Proxy-Authorization": f"Bearer {TOKENS['watcher']}", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQCAAAAAAIAAAAA",
        "Content-Encoding": "gzip", "Accept-Encoding": "gzip, br", "If-None-Match": "*",
    }.items():  # fmt: skip
        answer = serve.ask("/v1/environments", TOKENS["self"], headers=[(name, value)])
        assert (answer.status, answer.body) == (plain.status, plain.body), name
        assert serve.ask("/v1/environments", headers=[(name, value)]).status == 401, name
    assert serve.ask("/v1/environments", headers=[("Authorization", f"Basic {TOKENS['self']}")]).status == 401
    for bearer in (f" {TOKENS['self']}", f"{TOKENS['self']} x", f"{TOKENS['self']},{TOKENS['self']}", TOKENS["self"].upper(), TOKENS["self"][:-1], ""):
        status = serve.ask("/v1/environments", bearer).status
        assert status == 401 or (bearer.strip() == TOKENS["self"] and status == 200), (bearer[:3], status)


def test_who_says_that_no_more_comes(serve):
    """Half a connection is closed: what was asked whole is answered, what was not is let go."""
    assert answers(talk(serve, head("GET /v1/environments HTTP/1.1"))) == [200]
    assert answers(talk(serve, head(POST, TYPED, "Content-Length: 100") + b"{"))[:1] in ([], [400])
    assert talk(serve, b"GET /v1/envi") in (b"",) or answers(talk(serve, b"GET /v1/envi")) == [400]
    assert serve.ask("/healthz").status == 200


def test_a_ticket_is_for_one(serve):
    """Of a crowd that comes with the same ticket one is served; asked for by another method it is not used up."""
    session = serve.create(owner="alice")
    serve.run(session, "open('f', 'w').write('once')", owner="alice")

    def ticket():
        return serve.call("POST", f"/v1/workspaces/{session}/tickets", {"path": "f"}, owner="alice").json()["address"]

    address, found, gate = ticket(), [], threading.Barrier(16)

    def come():
        gate.wait()
        found.append(serve.ask(address))

    crowd = [threading.Thread(target=come) for _ in range(16)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    assert sorted(answer.status for answer in found) == [200] + [404] * 15
    assert [answer.body for answer in found if answer.status == 200] == [b"once"]
    address = ticket()
    for method in ("POST", "PUT", "DELETE"):
        assert serve.ask(address, method=method).status == 405
    for other in (address.upper().replace("/V1/TICKETS", "/v1/tickets"), address[:-1], address + "0", address + "%00", address + "/", address.replace("tickets/", "tickets/%20")):
        assert serve.ask(other).status in (400, 404), other
    assert serve.ask(address, TOKENS["watcher"], headers=[("Berth-Owner", "mallory")]).body == b"once"  # it says who asks, and nothing else does
    # Files that are gone since, or are another's way out.
    address = ticket()
    serve.run(session, "import os; os.remove('f'); os.symlink('/etc/passwd', 'f')", owner="alice")
    answer = serve.ask(address)
    assert answer.status in (400, 404, 409) and b"root:" not in answer.body, answer.status


# By letters that look alike (Cyrillic, wide, the Kelvin sign, ligatures), by case, and by what a path or a pattern would make of them.
ALIKE = ["\u00c5ngstr\u00f6m", "A\u030angstro\u0308m", "ann", "\u0430nn", "Ann", "ann/x", "ann%2fx", "../ann", "..", ".", "ann;b", "*",
         "\uff41\uff4e\uff4e", "\ufb01", "fi", "\u00df", "ss", "K", "\u212a", "i", "\u0131", "\u0661"]  # fmt: skip


def test_names_that_look_alike(serve):
    """Each is an owner of his own, by the header and by the claim, which is one owner where both say the same bytes."""
    made = {}
    for name in ALIKE:
        answer = serve.ask("/v1/sessions", TOKENS["users"], "POST", [("Berth-Owner", name.encode()), JSON], b'{"environment": "data"}')
        assert answer.status == 201, (name, answer.body)
        made[name] = answer.json()
        assert answer.json()["owner"] == f"company/{name}"
    assert len(made) == len(ALIKE)
    for name, session in made.items():
        seen = serve.ask("/v1/sessions", token(sub=name)).items()
        assert [s["id"] for s in seen] == [session["id"]], name
        others = [s["id"] for other, s in made.items() if other != name]
        for other in others[:3]:
            for method in ("GET", "DELETE"):
                serve.ask(f"/v1/sessions/{other}", token(sub=name), method).problem(404, "not-found")
    # None of them is another kind of owner.
    for name in ("client:self", "uid:0", "company/ann", "self"):
        assert serve.ask("/v1/sessions", token(sub=name)).items() == []
        assert serve.ask("/v1/sessions", TOKENS["users"], headers=[("Berth-Owner", name)]).items() == []
    for session in made.values():
        assert serve.ask(f"/v1/sessions/{session['id']}", TOKENS["file"], "DELETE").status == 204


def test_cursors_of_others(serve):
    """A cursor is no key: whatever one says, a list has what is one's own."""
    for owner in ("alice", "bob"):
        for _ in range(3):
            serve.create(owner=owner)
    cursor = serve.call("GET", "/v1/sessions?limit=1", owner="alice").json()["cursor"]
    assert cursor
    bobs = {s["id"] for s in serve.call("GET", "/v1/sessions", owner="bob").items()}
    for wrong in (cursor, cursor[::-1], cursor[:-1], cursor + "A", "A" * 5000, "..%2f..", "%00", "0", "-1", "null", "%7b%7d", "'%20or%20''='"):
        answer = serve.call("GET", f"/v1/sessions?cursor={wrong}", owner="bob")
        assert answer.status in (200, 400), (wrong, answer.status)
        if answer.status == 200:
            assert {s["id"] for s in answer.items()} <= bobs, wrong


def test_keys_of_idempotency_of_others(serve):
    """The same key of another owner, or client, is another key."""
    key = [("Idempotency-Key", "one-and-the-same")]
    body = {"environment": "data"}
    alice = serve.call("POST", "/v1/sessions", body, owner="alice", headers=key).json()
    assert serve.call("POST", "/v1/sessions", body, owner="alice", headers=key).json()["id"] == alice["id"]
    bob = serve.call("POST", "/v1/sessions", body, owner="bob", headers=key)
    assert bob.status == 201 and bob.json()["id"] != alice["id"] and bob.json()["owner"] == "company/bob"
    claimed = serve.ask("/v1/sessions", token(sub="alice"), "POST", [JSON, *key], json.dumps(body).encode())
    assert claimed.status in (200, 201) and claimed.json()["owner"] == "company/alice"
    assert serve.call("POST", "/v1/sessions", {**body, "labels": {"a": "b"}}, owner="alice", headers=key).status == 422
    for wrong in ("", "x" * 10000, "a\x01b"):
        assert serve.call("POST", "/v1/sessions", body, owner="alice", headers=[("Idempotency-Key", wrong)]).status in (200, 201, 400, 431)


def test_ranges_without_end(serve):
    session = serve.create(owner="alice")
    serve.run(session, "open('f', 'w').write('0123456789')", owner="alice")
    path = f"/v1/workspaces/{session}/files/f"
    for value in ("bytes=" + ",".join(["0-0"] * 2000), "bytes=0-" + "9" * 400, "bytes=-0", "bytes=18446744073709551616-", "bytes=9-0", "bytes=--5", "bytes=a-b",
                  "lines=0-1", "bytes=0-1,-1", "bytes", "bytes=", "bytes=0-4;x", "bytes = 0-4"):  # fmt: skip
        answer = serve.call("GET", path, owner="alice", headers=[("Range", value)])
        assert answer.status in (200, 206, 400, 416) and len(answer.body) < 2000, (value[:30], answer.status)
        assert answer.status != 200 or answer.body == b"0123456789", value
    for name in ("If-Match", "If-None-Match"):
        for value in ("*, *", '"' * 5000, "W/", 'W/"a"', '"a' * 1000, '"\x80"', "a"):
            assert serve.call("GET", path, owner="alice", headers=[(name, value.encode("latin-1"))]).status in (200, 304, 400, 412), (name, value[:9])


def test_a_set_of_keys_of_ten_megabytes(serve, binary, tmp_path):
    """By file: it is refused at the start, and where it takes the place of a good one the good one stays."""
    keys = serve.berth.folder / "keys.json"
    good = keys.read_bytes()
    assert serve.ask("/v1/environments", token(sub="alice")).status == 200
    vast = json.loads(good)
    vast["padding"] = "x" * (10 << 20)
    try:
        keys.with_suffix(".new").write_text(json.dumps(vast))
        keys.with_suffix(".new").rename(keys)
        made_up = token(sub="alice", header={"kid": "made-up"})
        serve.ask("/v1/environments", made_up).problem(401, "unauthenticated")  # the file was looked at for it
        assert "keys of its issuer" in serve.lines()
        assert serve.ask("/v1/environments", token(sub="alice")).status == 200
    finally:
        keys.with_suffix(".new").write_bytes(good)
        keys.with_suffix(".new").rename(keys)
    berth = Berth(binary, tmp_path, "http://127.0.0.1:1")
    (berth.folder / "keys.json").write_text(json.dumps(vast))
    result = berth("validate", "-f", str(Serve(berth, clients=[of_issuer("owners", "berth", jwksFile="keys.json")]).file))
    assert result.code != 0 and "keys.json" in str(result)


def test_a_crowd_of_all_of_it_at_once(serve):
    """The same attacks from many connections, while an honest client works."""
    session = serve.create(owner="honest")
    hostile = [head(*HIDDEN[name]) + b"{}" + SMUGGLED for name in HIDDEN] + [head(POST, TYPED, CHUNKED) + CHUNKS[name] + SMUGGLED for name in CHUNKS]
    over, statuses = threading.Event(), []

    def attack(first):
        number = first
        while not over.is_set():
            statuses.extend(answers(talk(serve, hostile[number % len(hostile)])))
            number += 1

    crowd = [threading.Thread(target=attack, args=(i * 7,)) for i in range(8)]
    for one in crowd:
        one.start()
    try:
        for i in range(10):
            assert serve.run(session, f"{i} + 1", owner="honest")["value"]["text"] == str(i + 1)
    finally:
        over.set()
        for one in crowd:
            one.join()
    assert statuses and max(statuses) < 502 and 500 not in statuses and smuggled(serve) == []


def test_a_stream_that_is_half_closed_is_let_go(serve):
    """Its seat is free again: one owner's 64 come and go more often than there are seats."""
    for _ in range(3):
        with contextlib.ExitStack() as crowd:
            taken = 0
            for _ in range(64):
                connection = http.client.HTTPConnection("127.0.0.1", serve.port, timeout=60 * PATIENCE)
                crowd.callback(connection.close)
                connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {TOKENS['users']}", "Berth-Owner": "half"})
                taken += connection.getresponse().status == 200
                connection.sock and connection.sock.shutdown(socket.SHUT_WR)
            assert taken >= 1
    assert serve.ask("/v1/environments", TOKENS["users"], headers=[("Berth-Owner", "half")]).status in (200, 429)
