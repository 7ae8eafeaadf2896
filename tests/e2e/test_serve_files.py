# SPDX-License-Identifier: Apache-2.0
"""
Workspaces and their files through `berth serve`: by http.client, by bytes on a socket, and against code in sandboxes that makes what
it likes there.
"""

import asyncio
import hashlib
import io
import json
import os
import socket
import threading
import time
import zipfile
from urllib.parse import quote

import aiohttp
import pytest

from binary import Berth, is_watched
from controllers import PATIENCE, wait_until
from lib.lab import TOKENS, stack
from lib.session_files import Files, serve, shared, workspace  # noqa: F401
from lib.sessions import CLIENTS


def test_a_file_in_and_out(serve, workspace):
    made = serve.put(workspace, "data/a.txt", b"hello")
    assert made.status == 201 and made.json()["sha256"] == hashlib.sha256(b"hello").hexdigest()
    assert (made.json()["path"], made.json()["bytes"], made.json()["etag"]) == ("data/a.txt", 5, made.headers["etag"])
    got = serve.get(workspace, "data/a.txt")
    assert (got.status, got.body, got.headers["etag"]) == (200, b"hello", made.headers["etag"])
    # What a sandbox wrote is shown by no browser.
    assert got.headers["content-type"] == "application/octet-stream" and got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["content-disposition"] == "attachment; filename=\"a.txt\"; filename*=UTF-8''a.txt"
    assert got.headers["content-security-policy"].startswith("sandbox")
    head = serve.get(workspace, "data/a.txt", method="HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "5")
    assert serve.put(workspace, "data/a.txt", b"again").status == 200
    assert serve.paths(workspace) == ["data/a.txt"]
    gone = serve.call("DELETE", f"/v1/workspaces/{workspace}/files/data/a.txt")
    assert (gone.status, gone.body) == (204, b"")
    for method in ("GET", "HEAD", "DELETE"):
        assert serve.get(workspace, "data/a.txt", method=method).status == 404
    assert serve.paths(workspace) == []
    assert serve.put(workspace, "empty", b"").status == 201 and serve.get(workspace, "empty").body == b""


def test_a_ticket_is_one_download(serve, workspace):
    serve.put(workspace, "data/a.txt", b"hello")
    for wish, form in (({"path": "data/a.txt"}, "application/octet-stream"), ({}, "application/zip")):
        made = serve.call("POST", f"/v1/workspaces/{workspace}/tickets", wish)
        assert made.status == 201, made.body
        got = serve.ask(made.json()["address"])
        assert (got.status, got.headers["content-type"]) == (200, form)
        assert got.body == b"hello" or zipfile.ZipFile(io.BytesIO(got.body)).read("data/a.txt") == b"hello"
        assert serve.ask(made.json()["address"]).status == 404


def test_ranges_and_conditions(serve, workspace):
    etag = serve.put(workspace, "f", b"0123456789").headers["etag"]
    for value, body, where in (("bytes=0-3", b"0123", "bytes 0-3/10"), ("bytes=8-", b"89", "bytes 8-9/10"), ("bytes=-2", b"89", "bytes 8-9/10"), ("bytes=5-99999999999999999999", b"56789", "bytes 5-9/10")):
        got = serve.get(workspace, "f", [("Range", value)])
        assert (got.status, got.body, got.headers["content-range"]) == (206, body, where), value
    for value in ("bytes=10-", "bytes=-0", "bytes=99-100"):
        got = serve.get(workspace, "f", [("Range", value)])
        assert got.problem(416, "range-not-satisfiable") and got.headers["content-range"] == "bytes */10"
    # Several, other units, no ranges, and thousands of them: the whole file, once.
    for value in ("bytes=0-1,3-4", "lines=0-1", "bytes=3-1", "bytes=x", "bytes=" + ",".join(["0-"] * 2000)):
        assert serve.get(workspace, "f", [("Range", value)]).body == b"0123456789", value
    assert serve.get(workspace, "f", [("Range", "bytes=0-1"), ("Range", "bytes=0-1")]).status == 200
    assert serve.get(workspace, "f", [("Range", "bytes=0-1"), ("If-Range", etag)]).status == 206
    for other in ('"other"', f"W/{etag}", "Mon, 23 Nov 2026 00:00:00 GMT"):
        assert serve.get(workspace, "f", [("Range", "bytes=0-1"), ("If-Range", other)]).status == 200
    assert serve.get(workspace, "f", [("If-None-Match", etag)]).status == 304
    assert serve.get(workspace, "f", [("If-None-Match", '"x"')]).status == 200
    serve.get(workspace, "f", [("If-Match", '"x"')]).problem(412, "precondition-failed")
    serve.put(workspace, "f", b"new", [("If-None-Match", "*")]).problem(412, "precondition-failed")
    serve.put(workspace, "f", b"new", [("If-Match", '"x"')]).problem(412, "precondition-failed")
    serve.put(workspace, "none", b"new", [("If-Match", "*")]).problem(412, "precondition-failed")
    serve.put(workspace, "f", b"new", [("If-Match", "what")]).problem(400, "invalid")
    serve.put(workspace, "f", b"new", [("Content-Range", "bytes 0-2/3")]).problem(400, "invalid")
    assert serve.put(workspace, "f", b"new", [("If-Match", etag)]).status == 200
    stale = serve.call("DELETE", f"/v1/workspaces/{workspace}/files/f", headers=[("If-Match", etag)])
    stale.problem(412, "precondition-failed")
    assert serve.get(workspace, "f").body == b"new"


def test_what_is_put_is_there_before_the_next_execution(serve, workspace):
    serve.put(workspace, "in/numbers.txt", b"1 2 3")
    first = serve.run(workspace, "sum(map(int, open('in/numbers.txt').read().split()))")
    assert first["value"]["text"] == "6" and first["files"]["changed"] == []
    serve.run(workspace, "open('out.txt', 'w').write('made')")
    assert serve.get(workspace, "out.txt").body == b"made"
    serve.put(workspace, "in/numbers.txt", b"5 5")
    serve.call("DELETE", f"/v1/workspaces/{workspace}/files/out.txt")
    again = serve.run(workspace, "import os; (open('in/numbers.txt').read(), os.path.exists('out.txt'))")
    assert again["value"]["text"] == "('5 5', False)"


def test_who_writes_while_code_writes_the_same(serve, workspace):
    """The execution's version stays, and is said to be in conflict."""
    serve.put(workspace, "both.txt", b"before")
    path = f"/v1/sessions/{workspace}/executions"
    code = "import time\nwith open('both.txt', 'w') as f: f.write('inside')\nprint('written', flush=True)\nwhile True: time.sleep(1)"
    assert serve.call("POST", path, {"code": code}, headers=[("Prefer", "respond-async")]).status == 202
    serve.wait_for_start(workspace, 1, "stdout")  # interrupted before, the file would be empty
    assert serve.put(workspace, "both.txt", b"outside").status == 200
    assert serve.call("POST", f"{path}/1/interrupt").status == 204
    events = serve.follow(f"{path}/1/events")
    result = events[-1][2]
    assert [f["path"] for f in result["files"]["changed"]] == result["files"]["conflict"] == ["both.txt"]
    assert serve.get(workspace, "both.txt").body == b"inside"


def test_names_of_all_kinds(serve, workspace):
    names = ["ünïcode/ß.txt", "a b", "new\nline", "100%", "q?x=1", "#h", "semi;colon", 'quote"s', "-dash", ".hidden", "a+b", "%2e%2e", "x" * 255]
    for name in names:
        assert serve.put(workspace, name, name.encode()).status == 201, name
    for name in names:
        got = serve.get(workspace, name)
        assert got.body == name.encode(), name
        assert "\n" not in got.headers["content-disposition"]
    assert serve.paths(workspace) == sorted(names, key=str.encode)
    seen, cursor = [], ""
    while True:
        page = serve.call("GET", f"/v1/workspaces/{workspace}/files?limit=2{cursor}").json()
        seen += [f["path"] for f in page["items"]]
        if page["cursor"] is None:
            break
        cursor = "&cursor=" + quote(page["cursor"], safe="")
    assert seen == sorted(names, key=str.encode)
    assert serve.paths(workspace, "?prefix=" + quote("ünï", safe="")) == ["ünïcode/ß.txt"]
    for query in ("?limit=0", "?limit=1001", "?prefix=../", "?prefix=a&prefix=b", "?prefix=/", "?what=1", "?prefix=" + "x" * 1000):
        serve.call("GET", f"/v1/workspaces/{workspace}/files{query}").problem(400, "invalid")
    with serve.zip(workspace) as found:
        assert found.testzip() is None and found.read("new\nline") == b"new\nline"
        assert set(names) <= set(found.namelist())


@pytest.mark.parametrize("target", ["../x", "a/../../x", "%2e%2e/x", "a/%2e%2e/x", "./../x", "a//../x", "%2e", "./", "x" * 256, "/".join("d" * 66), "y/" * 480 + "z"])
def test_paths_that_lead_out_or_nowhere(serve, workspace, target):
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        answer = serve.call(method, f"/v1/workspaces/{workspace}/files/{target}", b"x" if method == "PUT" else None)
        assert answer.status == 400, (method, answer.status)


@pytest.mark.parametrize("target", ["a%00b", "a%", "a%zz"])
def test_escapes_that_hide_something(serve, workspace, target):
    for method in ("GET", "PUT"):
        serve.call(method, f"/v1/workspaces/{workspace}/files/{target}", b"x" if method == "PUT" else None).problem(400, "bad-request")
    assert serve.call("PUT", f"/v1/workspaces/{workspace}/files/%ff", b"x").status == 400  # no UTF-8


def test_escaped_slashes(serve, workspace):
    """Generated clients escape all of a parameter. In a file's path it is a slash; elsewhere there is no such name."""
    at = f"/v1/workspaces/{workspace}/files/"
    assert serve.call("PUT", at + "deep%2Fer/%2e.x%2Ffile", b"x").status == 201
    assert serve.paths(workspace) == ["deep/er/..x/file"]
    for target in ("deep/er/..x/file", "deep%2fer%2F..x%2ffile"):
        assert serve.call("GET", at + target).body == b"x"
    for target in ("%2e%2e%2fx", "a%2F..%2f..%2Fx", "%2fetc%2Fpasswd", "%2Fworkspace%2F..%2Fx", "..%2f", "%2F"):
        for method in ("GET", "PUT", "DELETE"):
            serve.call(method, at + target, b"x" if method == "PUT" else None).problem(400, "invalid")
    for path in (f"/v1/workspaces/{workspace}%2ffiles/a", f"/v1/workspaces%2F{workspace}", f"/v1/workspaces/{workspace}/files%2Fdeep/er", "%2Fv1/workspaces", "/v1/environments/a%2Fb", "/v1/none%2F"):
        serve.call("GET", path).problem(400, "bad-request")
    assert serve.call("DELETE", at + "deep%2Fer%2F..x%2Ffile").status == 204


HOSTILE = """
import os, socket
os.symlink('/etc/passwd', 'link'); os.symlink('/etc', 'folder'); os.symlink('..', 'up'); os.symlink('loop', 'loop')
os.mkfifo('pipe'); s = socket.socket(socket.AF_UNIX); s.bind('sock')
os.makedirs('deep/' + '/'.join('d' * 80)); open(b'bad\\xff', 'w').close()
with open('sparse', 'w') as f:
    try: f.truncate(1 << 40)
    except OSError: os.unlink('sparse')
open('back\\\\slash', 'w').close(); open('c:drive', 'w').close(); open('fine', 'w').write('fine')
"""


def test_what_a_sandbox_makes_is_no_way_out(serve, workspace):
    result = serve.run(workspace, HOSTILE)
    assert result["status"] == "ok", result["error"]
    skipped = {row["path"]: row["reason"] for row in result["files"]["skipped"]}
    assert {"link", "folder", "up", "loop", "pipe", "sock", "bad\\xFF"} <= set(skipped)
    assert serve.paths(workspace) == ["back\\slash", "c:drive", "fine"]
    for path in ("link", "folder/passwd", "up/x", "loop", "pipe", "sock", "sparse", "deep"):
        assert serve.get(workspace, path).status == 404, path


@pytest.mark.here("a folder on this machine's disk")
def test_links_on_a_damaged_disk_are_no_way_out(serve, workspace):
    """The workspace's own, put there by hand."""
    assert serve.run(workspace, "for name in ('back\\\\slash', 'c:drive', 'fine'): open(name, 'w').close()")["status"] == "ok"
    folder = serve.state / f"local/lab/workspaces/sessions/{workspace}/workspace"
    os.symlink("/etc/passwd", folder / "planted")
    os.symlink("/etc", folder / "planted-folder")
    os.mkfifo(folder / "planted-pipe")
    for path in ("planted", "planted-folder/passwd", "planted-pipe"):
        assert serve.get(workspace, path).status == 404, path
    assert serve.put(workspace, "planted-folder/x", b"x").status in (404, 409)
    assert not os.path.exists("/etc/x")
    assert serve.put(workspace, "planted", b"mine").status == 201 and serve.get(workspace, "planted").body == b"mine"
    assert os.stat("/etc/passwd").st_size != 4
    with serve.zip(workspace) as found:
        assert found.namelist() == ["fine", "planted", "LEFT-OUT.txt"]
        assert b"back" in found.read("LEFT-OUT.txt") and b"drive" in found.read("LEFT-OUT.txt")


def test_what_is_not_yours_is_not_there(serve):
    """For everything under an id: the same answer as for an id that never was, byte for byte."""
    session, never = serve.create(owner="alice"), "s-" + "b" * 26
    serve.put(session, "secret", b"alice only", owner="alice")
    mine = serve.create(owner="bob")
    serve.put(mine, "mine", b"bob's", owner="bob")
    for method, path, body in (
        ("GET", "", None), ("DELETE", "", None), ("GET", "/files", None), ("GET", "/files?limit=x", None), ("GET", "/files/secret", None), ("HEAD", "/files/secret", None),
        ("GET", "/files/../x", None), ("PUT", "/files/secret", b"bob was here"), ("PUT", "/files/a/../b", b""), ("DELETE", "/files/secret", None), ("GET", "/archive", None), ("GET", "/archive?prefix=../", None),
        ("POST", "/copy", {"from": {"workspace": mine, "paths": ["mine"]}}), ("POST", "/copy", {"nonsense": 1}),
    ):  # fmt: skip
        for caller in ({"owner": "bob"}, {"owner": "Alice"}, {"token": TOKENS["self"]}, {"token": TOKENS["narrow"]}):
            theirs = serve.call(method, f"/v1/workspaces/{session}{path}", body, **caller)
            nobodys = serve.call(method, f"/v1/workspaces/{never}{path}", body, **caller)
            # What is wrong whosever it is may be said.
            assert theirs.status == (400 if "limit=x" in path or "=../" in path else 404) and theirs.body == nobodys.body, (method, path, caller, theirs.status, theirs.body, nobodys.body)
            if method != "HEAD" and theirs.status == 404:
                theirs.problem(404, "not-found")
    for source in (session, never):
        serve.call("POST", f"/v1/workspaces/{mine}/copy", {"from": {"workspace": source, "paths": ["secret"]}}, owner="bob").problem(404, "not-found")
    assert [w["id"] for w in serve.call("GET", "/v1/workspaces?limit=1000", owner="bob").items()] == [mine]
    assert serve.get(session, "secret", owner="alice").body == b"alice only"


def test_who_looks_at_all_and_who_removes(serve):
    session = serve.create()
    serve.put(session, "f", b"content")
    watcher, admin = TOKENS["watcher"], TOKENS["file"]
    assert session in [w["id"] for w in serve.call("GET", "/v1/workspaces?limit=1000", token=watcher).items()]
    shown = serve.call("GET", f"/v1/workspaces/{session}", token=watcher).json()
    assert (shown["owner"], shown["environment"], shown["files"], shown["bytes"]) == ("company/alice", "data", 1, 7)
    for method, path, body in (("GET", "/files", None), ("GET", "/files/f", None), ("PUT", "/files/f", b""), ("GET", "/archive", None), ("DELETE", "", None)):
        serve.call(method, f"/v1/workspaces/{session}{path}", body, token=watcher).problem(403, "not-permitted")
    for caller in ({}, {"token": admin}):
        serve.call("DELETE", f"/v1/workspaces/{session}", **caller).problem(409, "has-sessions")
    serve.run(session, "1")
    assert serve.call("DELETE", f"/v1/sessions/{session}").status == 204
    # Files and history outlive the session, and go together.
    assert serve.get(session, "f").body == b"content"
    assert len(serve.call("GET", f"/v1/sessions/{session}/executions").items()) == 1
    assert serve.call("DELETE", f"/v1/workspaces/{session}", token=admin).status == 204
    for path in (f"/v1/workspaces/{session}", f"/v1/sessions/{session}/executions", f"/v1/sessions/{session}/executions/1"):
        serve.call("GET", path).problem(404, "not-found")
    assert serve.call("DELETE", f"/v1/workspaces/{session}").status == 404


def test_copies(serve):
    source, target = serve.create(), serve.create()
    for path in ("a.txt", "folder/b.txt", "folder/deep/c.txt"):
        serve.put(source, path, path.encode())
    done = serve.call("POST", f"/v1/workspaces/{target}/copy", {"from": {"workspace": source, "paths": ["a.txt", "folder"]}, "to": "in"})
    assert [c["path"] for c in done.json()["changed"]] == ["in/a.txt", "in/folder/b.txt", "in/folder/deep/c.txt"]
    again = serve.call("POST", f"/v1/workspaces/{target}/copy", {"from": {"workspace": source, "paths": ["a.txt"]}, "to": "in"}).json()
    assert (again["changed"], again["conflict"]) == ([], ["in/a.txt"])
    wish, key = {"from": {"workspace": source, "paths": ["a.txt"]}, "to": "once"}, [("Idempotency-Key", "copy-1")]
    twice = [serve.call("POST", f"/v1/workspaces/{target}/copy", wish, headers=key) for _ in range(2)]
    assert twice[0].body == twice[1].body and [c["path"] for c in twice[0].json()["changed"]] == ["once/a.txt"]
    serve.call("POST", f"/v1/workspaces/{target}/copy", {**wish, "to": "twice"}, headers=key).problem(422, "idempotency-key-reused")
    assert serve.run(target, "open('in/folder/deep/c.txt').read()")["value"]["text"] == "'folder/deep/c.txt'"
    for body in ({}, {"from": {"workspace": source}}, {"from": {"workspace": source, "paths": []}}, {"from": {"workspace": source, "paths": ["../x"]}}, {"from": {"workspace": source, "paths": [1]}}, {"from": {"workspace": source, "paths": ["a.txt"]}, "to": "../x"}, {"from": {"workspace": source, "paths": ["a.txt"], "owner": "bob"}}):
        serve.call("POST", f"/v1/workspaces/{target}/copy", body).problem(400, "invalid")
    serve.call("POST", f"/v1/workspaces/{target}/copy", {"from": {"workspace": source, "paths": ["none"]}}).problem(404, "not-found")


def test_archives(serve):
    session = serve.create(environment="web")
    serve.put(session, "small", b"s" * 1000)
    serve.put(session, "large", b"l" * (1 << 20) + b"1")
    serve.put(session, "in/x", b"x")
    with serve.zip(session) as found:
        assert found.namelist() == ["in/x", "small", "LEFT-OUT.txt"] and found.testzip() is None
        assert b"large: 1048577 bytes, and 1048576 may be downloaded" in found.read("LEFT-OUT.txt")
    with serve.zip(session, "?prefix=in/") as found:
        assert found.namelist() == ["in/x"]
    assert len(serve.get(session, "large").body) == (1 << 20) + 1  # each by itself can be had
    for query in ("?prefix=../", "?limit=1", "?prefix=a&prefix=b"):
        serve.call("GET", f"/v1/workspaces/{session}/archive{query}").problem(400, "invalid")
    assert serve.call("HEAD", f"/v1/workspaces/{session}/archive").status == 200


def test_bodies_that_come_in_other_ways(serve, workspace):
    head = f"PUT /v1/workspaces/{workspace}/files/%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {serve.token}\r\nBerth-Owner: alice\r\nConnection: close\r\n"
    # Chunked.
    assert b"201 Created" in serve.raw((head % "chunked" + "Transfer-Encoding: chunked\r\n\r\n").encode() + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    assert serve.get(workspace, "chunked").body == b"abcde"
    # Who expects to be told to go ahead is told what is wrong before he sends anything, or to go ahead.
    with socket.create_connection(("127.0.0.1", serve.port), timeout=60 * PATIENCE) as client:
        client.sendall((head % "told" + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n").encode())
        assert client.recv(100).startswith(b"HTTP/1.1 100 Continue")
        client.sendall(b"abc")
        assert client.recv(100).startswith(b"HTTP/1.1 201")
    refused = serve.raw((head % "told" + "If-None-Match: *\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n").encode())
    assert refused.startswith(b"HTTP/1.1 412")
    assert serve.raw((head % "x" + f"Content-Length: {(100 << 20) + 1}\r\n\r\n").encode()).startswith(b"HTTP/1.1 413")
    # Who leaves in the middle leaves nothing.
    folder = serve.state / f"local/lab/workspaces/sessions/{workspace}/incoming"
    with socket.create_connection(("127.0.0.1", serve.port)) as client:
        client.sendall((head % "half" + "Content-Length: 1000\r\n\r\n").encode() + b"x" * 500)
        if serve.place == "local":
            wait_until(lambda: os.listdir(folder))
    if serve.place == "local":
        wait_until(lambda: not os.listdir(folder))
    assert serve.get(workspace, "half").status == 404


def test_a_hundred_megabytes_each_way(serve, workspace):
    """By another client: nothing of it is ever in the server's memory as a whole."""
    data = os.urandom(1 << 20) * 100

    async def both_ways():
        headers = {"Authorization": f"Bearer {serve.token}", "Berth-Owner": "alice"}
        url = f"http://127.0.0.1:{serve.port}/v1/workspaces/{workspace}/files/large"
        async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=None)) as session:
            async with session.put(url, data=data) as answer:
                assert answer.status == 201 and (await answer.json())["bytes"] == len(data)
            async with session.get(url) as answer:
                return hashlib.sha256(await answer.read()).hexdigest()

    assert asyncio.run(both_ways()) == hashlib.sha256(data).hexdigest()
    assert is_watched(serve.berth.binary) or serve.memory_mb() < 64


def test_a_client_that_leaves_ends_an_archive(serve, workspace):
    for i in range(4):
        serve.put(workspace, f"f{i}", os.urandom(1 << 20) * 20)
    with socket.create_connection(("127.0.0.1", serve.port)) as client:
        client.sendall(f"GET /v1/workspaces/{workspace}/archive HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {serve.token}\r\nBerth-Owner: alice\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        threads = len(os.listdir(f"/proc/{serve.process.pid}/task"))
    # Its thread and the connection's are gone.
    wait_until(lambda: len(os.listdir(f"/proc/{serve.process.pid}/task")) <= threads - 2)
    assert serve.paths(workspace) == [f"f{i}" for i in range(4)]


@pytest.mark.here("put there by hand, on this machine's disk")
def test_very_many_files(serve, workspace):
    """Lists take memory for a page, and counting is done once. Put there by hand: code in a sandbox takes its time."""
    folder = serve.state / f"local/lab/workspaces/sessions/{workspace}/workspace"
    folders = 100 if os.environ.get("BERTH_EXHAUSTIVE") else 20
    for i in range(folders):
        (folder / f"d{i}").mkdir()
        for j in range(1000):
            os.close(os.open(f"{folder}/d{i}/f{j}", os.O_CREAT | os.O_WRONLY, 0o600))
    page = serve.call("GET", f"/v1/workspaces/{workspace}/files?limit=1000&cursor=d5/f99").json()
    assert len(page["items"]) == 1000 and page["items"][0]["path"] == "d5/f990"
    assert serve.call("GET", f"/v1/workspaces/{workspace}").json()["files"] == folders * 1001
    assert serve.call("DELETE", f"/v1/sessions/{workspace}").status == 204
    assert serve.call("DELETE", f"/v1/workspaces/{workspace}").status == 204
    assert not folder.exists()


def test_one_owners_streams_leave_room_for_others(serve, workspace):
    """More streams than one owner may have are refused by a code of their own; others are answered all the while."""
    path = f"/v1/sessions/{workspace}/executions"
    assert serve.call("POST", path, {"code": "import time\nwhile True: time.sleep(1)"}, headers=[("Prefer", "respond-async")]).status == 202
    ask = f"GET {path}/1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {serve.token}\r\nBerth-Owner: alice\r\n\r\n".encode()
    clients, heads = [], []
    try:
        for _ in range(80):
            clients.append(socket.create_connection(("127.0.0.1", serve.port), timeout=60 * PATIENCE))
            clients[-1].sendall(ask)
            heads.append(clients[-1].recv(4096))
        assert sum(h.startswith(b"HTTP/1.1 200") for h in heads) == 64
        assert sum(h.startswith(b"HTTP/1.1 429") for h in heads) == 16
        assert serve.call("GET", "/v1/sessions", owner="bob").status == 200
        serve.call("GET", "/v1/sessions", owner="alice").problem(429, "too-many-under-way")
    finally:
        for client in clients:
            client.close()
    wait_until(lambda: serve.call("GET", "/v1/sessions").status == 200)


def test_what_owners_may_hold(binary, tmp_path):
    """Limits of the Server: of all workspaces of one owner, and of the disk."""
    berth = Berth(binary, tmp_path, "http://127.0.0.1:1")
    berth.write("stack.yaml", stack())
    berth("apply", "--yes").expect(0)
    server = Files(berth, clients=CLIENTS, workspaces={"perOwnerMB": 2})
    server.start("--accept-degraded")
    one, two, mb = server.create(), server.create(), b"x" * (1 << 20)
    try:
        assert server.put(one, "a", mb).status == 201
        server.put(two, "b", mb + mb).problem(507, "workspace-full")
        assert server.put(two, "b", mb).status == 201
        full = server.put(two, "c", b"xx").problem(507, "workspace-full")
        assert "2097152 bytes together" in full["detail"]
        server.call("POST", "/v1/sessions", {"environment": "data"}).problem(507, "workspace-full")
        server.call("POST", f"/v1/workspaces/{two}/copy", {"from": {"workspace": one, "paths": ["a"]}}).problem(507, "workspace-full")
        assert server.put(two, "b", b"less").status == 200
        assert server.create(owner="bob")
        skipped = server.run(two, "open('big', 'w').write('x' * (1 << 20)); 1")["files"]["skipped"]
        assert skipped == [{"path": "big", "reason": "the owner's workspaces have no room for it together"}]
        assert server.stop() == 0
        server.configure(clients=CLIENTS, workspaces={"minFreeMB": 999999999})
        server.start("--accept-degraded")
        assert "stay free" in server.put(one, "c", b"x").problem(507, "workspace-full")["detail"]
        assert "stay free" in server.call("POST", f"/v1/sessions/{two}/executions", {"code": "1"}).problem(507, "workspace-full")["detail"]
        server.call("POST", "/v1/sessions", {"environment": "data"}, owner="bob").problem(507, "workspace-full")
        # What a death left is cleared away at the start.
        left = server.state / f"local/lab/workspaces/sessions/{one}/incoming/left"
        left.write_bytes(b"x")
        assert server.stop() == 0
        server.start("--accept-degraded")
        assert not left.exists()
    finally:
        for session in server.call("GET", "/v1/sessions", token=TOKENS["watcher"]).items():
            server.call("DELETE", f"/v1/sessions/{session['id']}", token=TOKENS["file"])
        assert server.stop() == 0


def test_pages_of_other_places(serve):
    """A page on this machine, of another scheme or port, is another place."""
    host = f"localhost:{serve.port}"
    for origin in (f"https://{host}", "https://localhost", "http://localhost", "http://localhost:1", "null", f"http://{host}/", f"ftp://{host}"):
        answer = serve.ask("/v1/sessions", serve.token, headers=[("Host", host), ("Origin", origin), ("Berth-Owner", "alice")])
        answer.problem(403, "foreign-origin")
    own = serve.ask("/v1/sessions", serve.token, headers=[("Host", host), ("Origin", f"http://{host}"), ("Berth-Owner", "alice")])
    assert own.status == 200 and json.loads(own.body)["items"] == []


def test_puts_that_race(serve, workspace):
    """Of many that make the same file, one does."""
    answers = []
    threads = [threading.Thread(target=lambda i=i: answers.append(serve.put(workspace, "once", b"%d" % i, [("If-None-Match", "*")]).status)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [201] + [412] * 7


MAPPED = """
import mmap, os
open('mapped', 'wb').write(b'0' * 8192)
memory = mmap.mmap(os.open('mapped', os.O_RDWR), 0)
memory[:1] = b'1'
"""


def test_what_is_written_through_memory_comes_out(serve, workspace):
    """As numpy.memmap does: such a write changes no time of the file."""
    assert [f["path"] for f in serve.run(workspace, MAPPED)["files"]["changed"]] == ["mapped"]
    for i in range(2, 6):
        written = serve.run(workspace, f"memory[:1] = b'{i}'; os.stat('mapped').st_mtime_ns")
        assert [f["path"] for f in written["files"]["changed"]] == ["mapped"]
        assert serve.get(workspace, "mapped").body[:2] == b"%d0" % i
    # What was not written is not said to be.
    for _ in range(3):
        assert serve.run(workspace, "os.stat('mapped').st_mtime_ns")["files"]["changed"] == []
    assert serve.run(workspace, "os.stat('mapped').st_mtime_ns")["value"] == written["value"]


LEFT = """
import os, subprocess, threading, time
subprocess.Popen(["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > now; mv now by-process; rm -f early; sleep 0.05; done"])
def count():
    for i in range(1 << 30):
        open("next", "w").write(str(i)); os.replace("next", "by-thread")
        time.sleep(0.05)
threading.Thread(target=count, daemon=True).start()
"""


@pytest.mark.here("between invocations an environment stands still")
def test_what_was_left_behind_is_in_lists(serve, workspace):
    """Processes and threads that outlive their execution go on writing: who reads the workspace sees it, without another execution."""
    serve.run(workspace, "open('early', 'w').write('x'); open('kept', 'w').write('kept')")
    assert serve.run(workspace, LEFT)["status"] == "ok"
    assert serve.put(workspace, "outside", b"from outside").status == 201
    other = serve.create()

    def number(path, of=workspace):
        answer = serve.get(of, path)
        return int(answer.body or 0) if answer.status == 200 else 0

    def copied():
        body = {"from": {"workspace": workspace, "paths": ["by-process"]}, "replace": True}
        assert serve.call("POST", f"/v1/workspaces/{other}/copy", body).status == 200
        return number("by-process", other)

    # By each way of reading, something that was written after the last of them was read.
    wait_until(lambda: {"by-process", "by-thread"} <= set(serve.paths(workspace)) and "early" not in serve.paths(workspace))
    first = number("by-process")
    wait_until(lambda: number("by-process") > first and number("by-thread") > 0)
    second = number("by-process")
    wait_until(lambda: int(serve.zip(workspace).read("by-process") or 0) > second)
    third = number("by-process")
    wait_until(lambda: copied() > third)
    # What came from outside meanwhile is not lost, and the next execution finds all of it.
    assert serve.get(workspace, "outside").body == b"from outside" and serve.get(workspace, "kept").body == b"kept"
    seen = serve.run(workspace, "open('outside').read(), open('kept').read()")
    assert seen["status"] == "ok" and seen["value"]["text"] == "('from outside', 'kept')", seen
    assert "outside" not in [f["path"] for f in seen["files"]["changed"]]
    # Many at once, with executions between them: each is answered.
    answers = []

    def ask(path):
        answers.append(serve.call("GET", path).status if path else serve.run(workspace, "1 + 1")["status"])

    files = f"/v1/workspaces/{workspace}/files"
    threads = [threading.Thread(target=ask, args=(path,)) for path in [files, f"{files}/by-process", None, f"/v1/workspaces/{workspace}/archive"] * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers) == {200, "ok"} and len(answers) == 8
    # Parked with processes that write, it is read as ever.
    assert serve.call("POST", f"/v1/sessions/{workspace}/park", {}).status == 200
    assert number("by-process") > third and number("by-process") == number("by-process")


LEFT_MAPPED = """
import subprocess, sys
code = '''
import mmap, os, time
memory = mmap.mmap(os.open("mapped", os.O_RDWR), 0)
open("ready", "w").close()
for i in range(1 << 30):
    memory[:8] = b"%08d" % i
    time.sleep(0.1)
'''
open("mapped", "wb").write(b"0" * 8192)
subprocess.Popen([sys.executable, "-c", code])
import os, time
while not os.path.exists("ready"): time.sleep(0.01)
"""


@pytest.mark.here("between invocations an environment stands still")
def test_what_was_left_behind_writes_through_memory(serve, workspace):
    """No time of such a file changes, and yet lists and what is parked have it."""
    assert serve.run(workspace, LEFT_MAPPED)["status"] == "ok"

    def number():
        return int(serve.get(workspace, "mapped").body[:8])

    first = number()
    wait_until(lambda: number() > first)
    second = number()
    wait_until(lambda: number() > second)
    assert serve.call("POST", f"/v1/sessions/{workspace}/park", {}).status == 200
    assert number() > second


LEFT_STILL = LEFT_MAPPED.replace("""for i in range(1 << 30):
    memory[:8] = b"%08d" % i
    time.sleep(0.1)
""", "time.sleep(1000)\n")


@pytest.mark.here("between invocations an environment stands still")
def test_what_is_put_where_nothing_was_written_through_memory(serve, workspace):
    """A mapping of somebody left behind is no change: what came from outside stays, and arrives."""
    assert "sleep(1000)" in LEFT_STILL and serve.run(workspace, LEFT_STILL)["status"] == "ok"
    assert serve.put(workspace, "mapped", b"new").status == 200
    until = time.monotonic() + 3  # the mapping is looked at each second
    while time.monotonic() < until:
        assert serve.get(workspace, "mapped").body == b"new"
        time.sleep(0.1)
    done = serve.run(workspace, "print(open('mapped').read())")
    assert done["stdout"]["content"] == "new\n" and done["files"]["changed"] == [], done
    assert serve.get(workspace, "mapped").body == b"new"


def test_what_is_put_while_code_runs(serve, workspace):
    """It is there for the next execution, also where the one that ran has changed nothing."""
    serve.run(workspace, "open('kept', 'w').write('kept')")
    for i in range(3):
        code = "import time; time.sleep(0.3)"
        n = serve.call("POST", f"/v1/sessions/{workspace}/executions", {"code": code}, headers=[("Prefer", "respond-async")]).json()["n"]
        assert serve.put(workspace, f"put-{i}", b"x").status == 201
        serve.follow(f"/v1/sessions/{workspace}/executions/{n}/events")
        assert serve.run(workspace, f"open('put-{i}').read()")["status"] == "ok"
