# SPDX-License-Identifier: Apache-2.0
"""Executions that bring files along and take some back, in JSON and by multipart; sessions that are made for one execution."""

import asyncio
import base64
import http.client
import json
import os
import socket
import threading

import aiohttp
import pytest

from controllers import PATIENCE, wait_until
from lib.lab import TOKENS
from lib.multipart import mixed
from lib.session_files import serve, shared, workspace  # noqa: F401


def form(*parts, boundary="XX", end="--\r\n"):
    """multipart/form-data, part by part: (name, bytes)."""
    body = b""
    for name, data in parts:
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + data + b"\r\n"
    return body + f"--{boundary}{end}".encode()


def send(serve, session, body, boundary="XX", headers=(), **kwargs):
    headers = [("Berth-Owner", kwargs.get("owner", "alice")), ("Content-Type", f"multipart/form-data; boundary={boundary}"), *headers]
    return serve.ask(f"/v1/sessions/{session}/executions", serve.token, "POST", headers, body)


def staged(serve, session):
    """What lies there on this machine's disk; on AWS that is the bucket's, and no test looks there."""
    folder = serve.state / f"local/lab/workspaces/sessions/{session}/staged"
    return os.listdir(folder) if folder.exists() else []


def nothing_is_staged(serve, session):
    """What was refused is removed when its answer has been sent."""
    wait_until(lambda: staged(serve, session) == [])
    return True


def test_files_in_json(serve, workspace):
    files = [{"path": "in/a.txt", "content": "ä"}, {"path": "b.bin", "contentBase64": base64.b64encode(bytes(range(256)) * 300).decode()}]
    code = "open('in/a.txt', encoding='utf-8').read(), open('b.bin', 'rb').read() == bytes(range(256)) * 300"
    result = serve.run(workspace, code, files=files, returnFiles=["**/*.txt", "none", "out/*"])
    assert result["value"]["text"] == "('ä', True)" and result["files"]["changed"] == []
    assert result["returned"] == [{"path": "in/a.txt", "contentBase64": base64.b64encode("ä".encode()).decode()}]
    made = serve.run(workspace, "import os; os.mkdir('out'); open('out/x.csv', 'w').write('1,2'); open('out/y.csv', 'w').close()", returnFiles=["out/*.csv", "**"])
    assert [(f["path"], base64.b64decode(f["contentBase64"])) for f in made["returned"]][:2] == [("out/x.csv", b"1,2"), ("out/y.csv", b"")]
    assert [f["path"] for f in made["returned"]][2:] == ["b.bin", "in/a.txt"]
    # History keeps results; files lie in the workspace.
    assert serve.call("GET", f"/v1/sessions/{workspace}/executions/2").json()["returned"] == []
    done = serve.follow(f"/v1/sessions/{workspace}/executions", {"code": "1", "returnFiles": ["out/x*"]})[-1]
    assert [f["path"] for f in done[2]["returned"]] == ["out/x.csv"]
    assert nothing_is_staged(serve, workspace)


def test_files_of_what_waits_are_not_there_before(serve, workspace):
    """Each execution in line finds its own version, whatever those before it have done to it."""
    path, later = f"/v1/sessions/{workspace}/executions", [("Prefer", "respond-async")]
    first = "import time, os\nwhile not os.path.exists('/workspace/never') and n < 100: n += 1; time.sleep(.01)\nopen('f', 'a').write('!')"
    assert serve.call("POST", path, {"code": f"n = 0\n{first}", "files": [{"path": "f", "content": "one"}]}, headers=later).status == 202
    assert serve.call("POST", path, {"code": "open('f').read()", "files": [{"path": "f", "content": "two"}]}, headers=later).status == 202
    assert serve.call("POST", path, {"code": "open('f').read()"}, headers=later).status == 202
    results = [serve.follow(f"{path}/{n}/events")[-1][2] for n in (1, 2, 3)]
    assert [r["files"]["conflict"] for r in results] == [[], [], []]
    assert [r["value"]["text"] for r in results[1:]] == ["'two'", "'two'"], results
    assert nothing_is_staged(serve, workspace)


def test_files_of_what_never_begins_go(serve, workspace):
    path, later = f"/v1/sessions/{workspace}/executions", [("Prefer", "respond-async")]
    assert serve.call("POST", path, {"code": "import time\nwhile True: time.sleep(1)"}, headers=later).status == 202
    serve.wait_for_start(workspace, 1)
    assert serve.call("POST", path, {"code": "1", "files": [{"path": "f", "content": "x"}]}, headers=later).status == 202
    assert len(staged(serve, workspace)) == (serve.place == "local")
    assert serve.call("POST", f"{path}/2/interrupt").status == 204
    assert nothing_is_staged(serve, workspace) and serve.paths(workspace) == []
    # More than may wait: what came with it goes at once.
    while serve.call("POST", path, {"code": "1"}, headers=later).status == 202:
        pass
    serve.call("POST", path, {"code": "1", "files": [{"path": "f", "content": "x"}]}, headers=later).problem(429, "queue-full")
    assert nothing_is_staged(serve, workspace)


def test_multipart_by_a_client_of_its_own(serve, workspace):
    """aiohttp streams 100 MB in; names of all kinds are paths."""
    large = os.urandom(1 << 20) * 60

    async def post():
        data = aiohttp.FormData()
        data.add_field("request", json.dumps({"code": "import os; sorted((p, os.path.getsize(p)) for p in ('in/large', 'ünï', 'a b'))"}), content_type="application/json")
        data.add_field("in/large", large, content_type="application/octet-stream")
        data.add_field("ünï", b"u", content_type="text/plain")
        data.add_field("a b", b"", content_type="text/plain")
        headers = {"Authorization": f"Bearer {serve.token}", "Berth-Owner": "alice"}
        async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=None)) as session:
            async with session.post(f"http://127.0.0.1:{serve.port}/v1/sessions/{workspace}/executions", data=data) as answer:
                return answer.status, await answer.json()

    status, result = asyncio.run(post())
    assert status == 200 and result["value"], result
    assert (status, result["value"]["text"]) == (200, f"[('a b', 0), ('in/large', {60 << 20}), ('ünï', 1)]")
    assert serve.memory_mb() < 64 and serve.get(workspace, "in/large", [("Range", "bytes=0-99")]).body == large[:100]


def test_what_json_does_not_carry(serve, workspace):
    serve.run(workspace, f"for i in range(3): open(f'f{{i}}', 'wb').write(bytes([i]) * {6 << 20})")
    inline = serve.run(workspace, "1", returnFiles=["f*"])["returned"]
    assert [("contentBase64" in f, f.get("reason", "")[:22]) for f in inline] == [(True, ""), (True, ""), (False, "more than JSON carries")]
    answer = serve.call("POST", f"/v1/sessions/{workspace}/executions", {"code": "1", "returnFiles": ["f*"]}, headers=[("Accept", "application/json, multipart/mixed")])
    result, files = mixed(answer)
    assert result["value"]["text"] == "1"
    assert result["returned"] == [{"path": f"f{i}", "bytes": 6 << 20, "part": i + 1} for i in range(3)]
    assert files == {f"f{i}": bytes([i]) * (6 << 20) for i in range(3)}
    # Little is JSON where that is taken too, and parts where it is not.
    few = {"code": "1", "returnFiles": ["f1"]}
    assert serve.call("POST", f"/v1/sessions/{workspace}/executions", few, headers=[("Accept", "*/*, multipart/mixed")]).json()["returned"][0]["path"] == "f1"
    assert mixed(serve.call("POST", f"/v1/sessions/{workspace}/executions", few, headers=[("Accept", "multipart/mixed")]))[1].keys() == {"f1"}
    assert mixed(serve.call("POST", f"/v1/sessions/{workspace}/executions", {"code": "1", "returnFiles": ["no"]}, headers=[("Accept", "multipart/mixed")]))[0]["returned"] == []


def test_who_reads_slowly(serve, workspace):
    """What waits to be read is in memory, and all of it together is bounded: who comes then is told to ask again."""
    serve.run(workspace, f"open('x', 'wb').write(bytes({15 << 20}))")
    body = json.dumps({"code": "1", "returnFiles": ["x"]}).encode()
    head = f"POST /v1/sessions/{workspace}/executions HTTP/1.1\r\nHost: localhost\r\nBerth-Owner: alice\r\nAuthorization: Bearer {serve.token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    slow, seen = [], []
    while b"503" not in seen and len(slow) < 20:
        for connection in slow:
            connection.recv(1 << 18)  # who takes nothing for a minute is shown out, and a machine may need that for a few of them
        slow.append(socket.create_connection(("127.0.0.1", serve.port), timeout=20 * PATIENCE))
        slow[-1].sendall(head.encode() + body)
        seen.append(slow[-1].recv(12)[9:])
    assert seen == [b"200"] * (len(seen) - 1) + [b"503"] and len(seen) > 4  # an owner's share is 96 MiB
    for connection in slow:
        connection.close()
    wait_until(lambda: "contentBase64" in serve.run(workspace, "1", returnFiles=["x"])["returned"][0])


REQUEST = ("request", b'{"code": "1"}')


@pytest.mark.parametrize(
    "body",
    [
        b"", b"--XX--", form(), form(("other", b"{}")), form(("f", b"x"), REQUEST), form(("request", b"{")), form(("request", b"[]")), form(("request", b'{"code": 1}')),
        form(REQUEST, ("../f", b"x")), form(REQUEST, ("/etc/x", b"x")), form(REQUEST, ("f", b"1"), ("f", b"2")),
        form(REQUEST, ("f", b"x"), end=""), form(REQUEST, ("f", b"x"), end="--more"), form(REQUEST, ("f", b"x"), boundary="XY"), b"junk" + form(REQUEST),
        form(REQUEST).replace(b"form-data", b"attachment"), form(REQUEST).replace(b"\r\n", b"\n"), form(REQUEST, ("x" * 2000, b"x")), form(REQUEST, ("", b"x")),
        form(REQUEST, ("f\r\nX: y", b"x")), form(REQUEST) * 2, form(("request", b'{"code": "1", "files": [{"path": "f", "content": "x"}]}'), ("f", b"x")),
    ],
    ids=lambda value: str(len(value)),
)  # fmt: skip
def test_wrong_multipart(serve, workspace, body):
    send(serve, workspace, body).problem(400, "invalid")
    assert nothing_is_staged(serve, workspace) and serve.paths(workspace) == []


def test_wrong_files(serve, workspace):
    path = f"/v1/sessions/{workspace}/executions"
    for files in ("x", {}, [1], [{}], [{"path": "f"}], [{"path": "f", "content": "x", "contentBase64": "eA=="}], [{"path": "f", "content": 1}], [{"path": "f", "contentBase64": "x"}], [{"path": "f", "contentBase64": "e=A="}],
                  [{"path": "f", "content": "x", "mode": 1}], [{"path": "../f", "content": "x"}], [{"path": "/f", "content": "x"}], [{"path": "", "content": "x"}], [{"path": "a\0b", "content": "x"}], [{"path": "f", "content": "1"}, {"path": "f", "content": "2"}]):  # fmt: skip
        serve.call("POST", path, {"code": "1", "files": files}).problem(400, "invalid")
    for globs in ("*", [1], [""], ["x" * 513], ["a\0b"], ["*"] * 33):
        serve.call("POST", path, {"code": "1", "returnFiles": globs}).problem(400, "invalid")
    for globs in (["../*"], ["/etc/*"], ["//"], ["[", "[!"], ["**/" * 100 + "x"], ["*a" * 250]):
        assert serve.run(workspace, "1", returnFiles=globs)["returned"] == []
    for boundary in ("", "x" * 71, 'a"b', "a; boundary=b"):
        send(serve, workspace, form(REQUEST), boundary=boundary).problem(400, "invalid")
    assert nothing_is_staged(serve, workspace) and serve.paths(workspace) == []
    many = [{"path": f"f{i}", "content": ""} for i in range(2001)]
    serve.call("POST", path, {"code": "1", "files": many}).problem(413, "too-large")
    # Forty times the text, if anybody made it.
    serve.call("POST", path, b'{"code": "1", "files": [' + b"[]," * 200000 + b"[]]}").problem(400, "invalid")
    # Others hear of nothing, whatever they send.
    for owner in ("bob", "Alice"):
        for session in (workspace, "s-" + "b" * 26):
            send(serve, session, form(("other", b"")), owner=owner).problem(404, "not-found")


def test_a_directory_where_a_file_should_be(serve, workspace):
    serve.run(workspace, "import os; os.mkdir('d'); open('d/f', 'w').close()")
    result = serve.run(workspace, "2", files=[{"path": "d", "content": "x"}, {"path": "ok", "content": "x"}])
    assert result["value"]["text"] == "2" and [(s["path"], s["reason"]) for s in result["files"]["skipped"]] == [("d", "a folder has this path")]
    assert result["files"]["skippedTotal"] == 1 and "ok" in serve.paths(workspace)


@pytest.mark.here("500 MB of a disk that is not written")
def test_more_than_the_workspace_holds(serve, workspace):
    """Said before anything runs: 512 MB is what it may have."""
    serve.run(workspace, "open('big', 'wb').truncate(500 << 20)")
    answer = send(serve, workspace, form(REQUEST, ("f", b"x" * (20 << 20))))
    if answer.status == 200:  # staged it fits by itself; with what is there it does not
        assert [s["path"] for s in answer.json()["files"]["skipped"]] == ["f"]
    else:
        answer.problem(507, "workspace-full")
    assert nothing_is_staged(serve, workspace)


def test_one_key_with_files(serve, workspace):
    """The same files by another boundary are the same request; others are not."""
    key = [("Idempotency-Key", "files-1")]
    one = send(serve, workspace, form(REQUEST, ("f", b"x")), headers=key).json()
    two = send(serve, workspace, form(REQUEST, ("f", b"x"), boundary="YY"), boundary="YY", headers=key).json()
    assert one["n"] == two["n"] == 1
    send(serve, workspace, form(REQUEST, ("f", b"y")), headers=key).problem(422, "idempotency-key-reused")
    send(serve, workspace, form(REQUEST, ("g", b"x")), headers=key).problem(422, "idempotency-key-reused")
    assert nothing_is_staged(serve, workspace) and serve.get(workspace, "f").body == b"x"


def test_an_execution_alone(serve):
    wish = {"environment": "data", "code": "print(open('f').read()); open('g', 'w').write('made'); 6 * 7", "files": [{"path": "f", "content": "in"}], "returnFiles": ["g"]}
    answer = serve.call("POST", "/v1/execute", wish)
    result = answer.json()
    assert (answer.status, result["value"]["text"], result["stdout"]["content"]) == (200, "42", "in\n")
    assert result["returned"] == [{"path": "g", "contentBase64": "bWFkZQ=="}]
    # Its session is gone; its files and its result stay.
    serve.call("GET", f"/v1/sessions/{result['session']}").problem(404, "not-found")
    assert serve.get(result["session"], "g").body == b"made"
    assert serve.call("GET", f"/v1/sessions/{result['session']}/executions/1").json()["value"] == result["value"]
    assert serve.call("DELETE", f"/v1/workspaces/{result['session']}").status == 204
    events = serve.follow("/v1/execute", {"agent": "coder", "code": "1/0"})
    assert [n for _, n, _ in events][0] == "started" and events[-1][2]["error"]["name"] == "ZeroDivisionError"
    wait_until(lambda: serve.call("GET", f"/v1/sessions/{events[-1][2]['session']}").status == 404)
    for body, code in (({"code": "1"}, "invalid"), ({"environment": "data"}, "invalid"), ({"environment": "data", "code": "1", "context": "x"}, "invalid"), ({"environment": "data", "code": "1", "files": [{"path": ".."}]}, "invalid")):
        serve.call("POST", "/v1/execute", body).problem(400, code)
    serve.call("POST", "/v1/execute", {"environment": "none", "code": "1"}).problem(404, "unknown-environment")
    assert serve.call("GET", "/v1/sessions").items() == []


def test_an_execution_alone_and_its_key(serve):
    wish, key, answers = {"environment": "data", "code": "import time; time.sleep(.2); time.time()"}, [("Idempotency-Key", "alone-1")], []
    threads = [threading.Thread(target=lambda: answers.append(serve.call("POST", "/v1/execute", wish, headers=key))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120 * PATIENCE)
    answers.append(serve.call("POST", "/v1/execute", wish, headers=key))
    assert len({(a.status, a.json()["session"], a.json()["value"]["text"]) for a in answers}) == 1, [a.body for a in answers]
    serve.call("POST", "/v1/execute", {**wish, "code": "other"}, headers=key).problem(422, "idempotency-key-reused")
    wait_until(lambda: serve.call("GET", "/v1/sessions").items() == [])
    assert serve.call("POST", "/v1/execute", wish, headers=[*key, ("Prefer", "respond-async")]).status == 202


def test_a_session_is_parked(serve, workspace):
    serve.run(workspace, "x = 41")
    path = f"/v1/sessions/{workspace}"
    later = [("Prefer", "respond-async")]
    parked = serve.call("POST", f"{path}/park")
    assert (parked.status, parked.json()["status"]) == (200, "parked"), parked.body
    assert serve.call("POST", f"{path}/park").json()["status"] == "parked"
    # An environment of Lambda's may live still, with all that it knows.
    assert serve.run(workspace, "x + 1")["state"]["was"] == ("restored" if serve.place == "local" else "kept")
    assert serve.call("POST", f"{path}/park", headers=later).status == 202
    wait_until(lambda: serve.call("GET", path).json()["status"] == "parked")
    assert serve.call("POST", f"{path}/executions", {"code": "import time\nwhile True: time.sleep(1)"}, headers=later).status == 202
    serve.call("POST", f"{path}/park").problem(409, "busy")
    theirs, nobodys = (serve.call("POST", f"/v1/sessions/{s}/park", owner="bob") for s in (workspace, "s-" + "b" * 26))
    assert theirs.problem(404, "not-found") and theirs.body == nobodys.body


def test_what_happens(serve):
    """Each hears of his own sessions, and who observes of all; nobody of contents."""
    streams = {}
    for name, token, owner in (("alice", serve.token, "alice"), ("bob", serve.token, "bob"), ("watcher", TOKENS["watcher"], None)):
        connection = http.client.HTTPConnection("127.0.0.1", serve.port, timeout=60 * PATIENCE)
        connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {token}", **({"Berth-Owner": owner} if owner else {})})
        streams[name] = (connection, connection.getresponse())
        assert streams[name][1].status == 200
    told = {name: [] for name in streams}

    def hear(name):
        line = streams[name][1].readline()
        assert line, "the stream ended"
        assert b"secret" not in line
        if line.startswith(b"data: "):
            event = json.loads(line[6:])
            told[name].append((event.get("id") or event["session"], event.get("n"), event["status"]))

    def listen(name, made, *events):
        """Until these have been told of the session, one after the other."""
        at = 0
        for event in events:
            while (made, *event) not in told[name][at:]:
                hear(name)
            at = told[name].index((made, *event), at) + 1

    session = serve.create(owner="alice")
    other = serve.create(owner="bob")
    assert [stream.readline() for _, stream in streams.values()] == [b":\n"] * 3  # at once: Firefox tells of no answer before
    serve.run(session, "'secret'", owner="alice")
    # A stream that is behind tells the end alone of a session that has ended: none is behind here.
    hears = {"alice": [session], "bob": [other], "watcher": [session, other]}
    steps = {session: [(1, "running"), (1, "ok"), (None, "idle")], other: [(None, "idle")]}
    for name, sessions in hears.items():
        for made in sessions:
            listen(name, made, *steps[made])
    for owner, made in (("alice", session), ("bob", other)):
        assert serve.call("DELETE", f"/v1/sessions/{made}", owner=owner).status == 204
    for name, sessions in hears.items():
        for made in sessions:
            listen(name, made, (None, "ended"))
        streams[name][0].close()
    alice, bob, both = told["alice"], told["bob"], told["watcher"]
    assert {i for i, _, _ in alice} == {session} and alice[-1] == (session, None, "ended")
    assert [(n, s) for _, n, s in alice if n] == [(1, "running"), (1, "ok")]
    assert {i for i, _, _ in bob} == {other} and bob[-1][2] == "ended"
    assert [e for e in both if e[0] == session] == alice and [e for e in both if e[0] == other] == bob
