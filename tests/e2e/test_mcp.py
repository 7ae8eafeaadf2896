# SPDX-License-Identifier: Apache-2.0
"""MCP over HTTP: the tools and resources as models get them, both eras, and whose they are."""

import asyncio
import base64
import contextlib
import json
import re
import urllib.parse

import httpx2
import jsonschema
import mcp
import pytest
from mcp.client.streamable_http import streamable_http_client

from controllers import PATIENCE, wait_until
from lib.agent_loop import TOOLS, agent_loop, shared  # noqa: F401
from lib.lab import TOKENS
from mcp_client import META, NEWEST, Client, messages, meta, refusal
from model_services import refusals

NEVER = "s-" + "a" * 26
PNG = b"\x89PNG\r\n\x1a\n" + b"p" * 40
ERAS = pytest.mark.parametrize("newest", [True, False], ids=["newest", "before"])


@pytest.fixture(scope="module", params=[True, False], ids=["newest", "before"])
def alice(shared, request):
    return Client(shared, TOKENS["users"], "alice", newest=request.param)


@pytest.fixture(scope="module")
def session(alice):
    return alice.run("x = 41", environment="data")["session"]


# --- by the official SDK ---


@contextlib.asynccontextmanager
async def by_http(shared, mode):
    headers = {"Authorization": f"Bearer {TOKENS['narrow']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60 * PATIENCE) as http:
        where = streamable_http_client(f"http://127.0.0.1:{shared.port}/mcp", http_client=http)
        async with mcp.Client(where, mode=mode) as found:
            yield found


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_computes_in_two_turns(shared, mode):
    async def loop():
        async with by_http(shared, mode) as found:
            return found.protocol_version, await agent_loop(found)

    version, history = asyncio.run(loop())
    assert version == (NEWEST if mode == "auto" else "2025-11-25")
    assert [h["value"]["text"] for h in history] == ["25", "1085"]
    assert [h["state"]["was"] for h in history] == ["new", "kept"] and history[0]["environment"]["name"] == "web"


# --- what there is ---


def test_what_a_server_says_of_itself(shared, alice):
    if alice.newest:
        found = alice.ask("server/discover")
        assert found["supportedVersions"] == [NEWEST] and found["_meta"][f"{META}serverInfo"]["name"] == "berth"
        assert found["resultType"] == "complete" and found["cacheScope"] == "private" and found["ttlMs"] >= 0
        for gone in ("initialize", "ping", "logging/setLevel"):
            answer = alice.post(alice.request(gone, {}))
            assert (answer.status, answer.json()["error"]["code"]) == (404, -32601)
    else:
        for wanted, got in (("2025-06-18", "2025-06-18"), ("2025-03-26", "2025-03-26"), ("2031-01-01", "2025-11-25"), (NEWEST, "2025-11-25")):
            found = alice.ask("initialize", protocolVersion=wanted, capabilities={})
            assert found["protocolVersion"] == got and found["serverInfo"]["name"] == "berth"
        assert alice.post(alice.request("ping", {})).json()["result"] == {}
        assert alice.ask("server/discover")["error"]["code"] == -32601
    assert found["capabilities"] == {"tools": {}, "resources": {}} and "run_code" in found["instructions"]
    for absent in ("prompts/list", "completion/complete", "subscriptions/listen", "tools", "", "resources/read/"):
        assert alice.ask(absent)["error"]["code"] == -32601
    for method in ("GET", "DELETE", "PUT"):
        answer = shared.ask("/mcp", TOKENS["self"], method)
        assert (answer.status, answer.headers["allow"]) == (405, "POST")


def test_tools_and_their_schemas(alice):
    found = alice.ask("tools/list")
    assert [tool["name"] for tool in found["tools"]] == TOOLS
    assert found.get("cacheScope") == ("private" if alice.newest else None)
    for tool in found["tools"]:
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        jsonschema.Draft202012Validator.check_schema(tool["outputSchema"])
        assert tool["outputSchema"]["type"] == "object"
        assert len(tool["description"]) < 900 and all(p["description"] for p in tool["inputSchema"]["properties"].values())
    assert refusals(found["tools"]) == []
    assert "There are: data, web." in found["tools"][0]["inputSchema"]["properties"]["environment"]["description"]
    assert alice.ask("tools/list", cursor="2")["error"]["code"] == -32602


def valid(alice, name, **arguments):
    """The answer of a tool, which fits its schema."""
    schema = next(t["outputSchema"] for t in alice.ask("tools/list")["tools"] if t["name"] == name)
    answer = alice.call(name, **arguments)
    assert answer["isError"] is False, answer
    jsonschema.validate(answer["structuredContent"], schema)
    assert answer["content"][0]["type"] == "text"
    return answer


def refused(alice, name, **arguments):
    answer = alice.call(name, **arguments)
    assert answer["isError"] is True and "structuredContent" not in answer, answer
    return answer["content"][0]["text"]


def test_code_and_what_came_of_it(alice, session):
    kept = valid(alice, "run_code", code="x + 1", session_id=session)["structuredContent"]
    assert (kept["value"]["text"], kept["state"]["was"], kept["session"]) == ("42", "kept", session)
    failed = valid(alice, "run_code", code="1 / 0", session_id=session)["structuredContent"]
    assert (failed["status"], failed["error"]["name"]) == ("error", "ZeroDivisionError")
    shell = valid(alice, "run_code", code="echo out; exit 3", session_id=session, language="sh")["structuredContent"]
    assert (shell["stdout"]["content"], shell["exitCode"]) == ("out\n", 3)
    shell = valid(alice, "run_code", code="echo {a,b}; [[ x == x ]]", session_id=session, language="bash")["structuredContent"]
    assert (shell["stdout"]["content"], shell["exitCode"]) == ("a b\n", 0)
    assert valid(alice, "run_code", code="while True: pass", session_id=session, timeoutSeconds=1)["structuredContent"]["status"] == "timeout"
    agents = valid(alice, "run_code", code="1", agent="reader")["structuredContent"]
    assert agents["environment"]["name"] == "web"
    valid(alice, "end_session", session_id=agents["session"])
    # Two environments are there: the model is told which.
    assert "data, web" in refused(alice, "run_code", code="1")
    assert "not-found" in refused(alice, "run_code", code="1", session_id=NEVER)
    assert "unknown-environment" in refused(alice, "run_code", code="1", environment="none")
    assert "new session" in refused(alice, "run_code", code="1", environment="data", session_id=session)


def read(alice, name="run_code", **arguments):
    """What a model reads of an answer: its texts."""
    return [item["text"] for item in valid(alice, name, **arguments)["content"] if item["type"] == "text"]


def test_what_a_model_reads(alice, session):
    """Where a line is the answer, it reads little more; the whole is in structuredContent."""
    (first,) = read(alice, code="print(6 * 7)", environment="data")
    made = first.removeprefix("42\n[session_id ").removesuffix("]")
    assert len(first) < 60 and alice.run("1", session_id=made)["session"] == made
    here = {"session_id": session}
    for code, text in (
        ("print('a'); 'b' * 3", "a\n'bbb'"), ("pass", "[no output]"), ("import sys; print('e', file=sys.stderr)", "stderr:\ne"),
        ("for n in range(12): open(f'of-text-{n:02}', 'w').close()", None), ("class P:\n  def __repr__(self): return 'plain'\n  def _repr_html_(self): return '<b>'\ndisplay(P())", "plain"),
    ):  # fmt: skip
        (said,) = read(alice, code=code, **here)
        assert said == text or (text is None and said.endswith(", and 2 more]")), said
        assert len(said) < 240
    (failed,) = read(alice, code="def f():\n    return {}['key']\nf()", **here)
    assert failed.endswith("KeyError: 'key'") and "return {}['key']" in failed and len(failed) < 400
    (deep,) = read(alice, code="def f(n):\n    return f(n + 1)\nf(0)", **here)
    assert len(deep.splitlines()) < 20 and "RecursionError: maximum recursion depth exceeded" in deep.splitlines()[-1]
    assert read(alice, code="echo out; exit 3", language="sh", **here) == ["out\n[exit code 3]"]
    (late,) = read(alice, code="while True: pass", timeoutSeconds=1, **here)
    assert "[timeout" in late
    (cut,) = read(alice, code="print('x' * 100000)", **here)
    missing = int(re.search(r"x\n\[(\d+) bytes of stdout are left out here\]\nx", cut).group(1))
    assert cut.count("x") + missing == 100000 and len(cut) < 66000
    # Bytes that are no text, and a NUL within one, end nothing.
    assert read(alice, code="import os; os.write(1, b'\\xff\\xfe'); None", **here) == ["[2 bytes that are no text, in structuredContent as base64]"]
    assert read(alice, code="print('a\\0b')", **here) == ["a\0b"]
    # The other tools.
    assert read(alice, "write_file", path="said.txt", content="of the file\n", **here) == ["said.txt is written: 12 bytes."]
    assert read(alice, "read_file", path="said.txt", **here) == ["of the file\n"]
    assert read(alice, "read_file", path="said.txt", length=5, **here) == ["of th\n[these are bytes 0 to 5 of 12: go on with offset 5]"]
    assert read(alice, "list_files", prefix="said", **here) == ["said.txt (12 bytes)"]
    assert read(alice, "list_files", prefix="none", **here) == ["[no files]"]
    assert read(alice, "copy_files", **{"session_id": made, "from": {"workspace": session, "paths": ["said.txt"]}}) == ["[copied: said.txt]"]
    assert f"{made} idle, environment data" in read(alice, "list_sessions")[0].splitlines()
    assert read(alice, "end_session", session_id=made) == [f"{made} has ended; its files stay."]


def test_arguments_as_models_write_them(alice, session):
    found = alice.run("x", session_id=session, agent="", environment="", conversation="", language="Python", timeoutSeconds="60")
    assert found["session"] == session and found["value"]["text"] == "41"
    assert read(alice, code="x", session=session, timeoutSeconds=3600) == ["41", "timeoutSeconds is 900, the most there is, in place of 3600."]
    assert valid(alice, "list_files", session_id=session, limit="1", cursor="", prefix="")["structuredContent"]["items"]
    assert "a whole number" in refused(alice, "run_code", code="1", session_id=session, timeoutSeconds="long")
    # HTTP is asked by programs, and stays strict.
    body = json.dumps({"code": "1", "timeoutSeconds": "60"}).encode()
    headers = [("Content-Type", "application/json"), ("Berth-Owner", "alice")]
    assert alice.serve.ask(f"/v1/sessions/{session}/executions", TOKENS["users"], "POST", headers, body).status == 400


def test_a_conversation_is_a_name_for_a_session(alice):
    name = f"thesis ä {alice.newest}"
    assert "data, web" in refused(alice, "run_code", code="1", conversation=name)  # nothing says where
    assert "give session_id or conversation" in refused(alice, "list_files")
    assert "no session of the conversation" in refused(alice, "read_file", conversation=name, path="a")
    answer = valid(alice, "run_code", code="y = 1; y", conversation=name, environment="data")
    made = answer["structuredContent"]["session"]
    assert answer["content"][0]["text"] == "1"  # no id, which nobody needs
    assert alice.run("y + 1", conversation=name)["session"] == made
    valid(alice, "write_file", conversation=name, path="a", content="of the conversation")
    assert read(alice, "read_file", conversation=name, path="a") == ["of the conversation"]
    assert "both name a session" in refused(alice, "run_code", code="1", conversation=name, session_id=made)
    assert "both name a session" in refused(alice, "read_file", path="a", conversation=name, session_id=made)
    # By the header: an id, and an argument, win over it.
    other = Client(alice.serve, TOKENS["users"], "alice", newest=alice.newest)
    ask = other.headers
    other.headers = lambda message, **more: ask(message, **{"Berth-Conversation": "by-header", **more})
    first = other.run("z = 1", environment="web")
    assert other.run("z")["session"] == first["session"] != made
    assert other.run("y", session_id=made)["session"] == other.run("y", conversation=name)["session"] == made
    valid(other, "write_file", path="b", content="")
    assert read(other, "list_files") == ["b (0 bytes)"]
    # The name of one owner is no name of another's.
    bob = Client(alice.serve, TOKENS["users"], "bob", newest=alice.newest)
    assert "no session of the conversation" in refused(bob, "list_files", conversation=name)
    # One name in two environments.
    both = alice.run("1", conversation=name, environment="web")["session"]
    assert both != made and "several environments" in refused(alice, "list_files", conversation=name)
    assert "control characters" in refused(alice, "run_code", code="1", conversation="a\nb", environment="web")
    for session in (made, both):
        valid(alice, "end_session", session_id=session)
    valid(other, "end_session")
    assert "no session of the conversation" in refused(other, "end_session")


def test_output_is_data_and_has_an_end(alice, session):
    code = "import os, sys\nprint('\\x1b[31mred\\u202e\\0', 'é' * 40000, 'end')\nos.write(2, b'\\xff' * 70000 + b'end')"
    found = valid(alice, "run_code", code=code, session_id=session)["structuredContent"]
    out, err = found["stdout"], found["stderr"]
    assert out["content"].startswith("\x1b[31mred\u202e\0 éé") and len(out["content"].encode()) == out["bytesReturned"] <= 65536
    assert out["truncated"] and out["bytesTotal"] == 80018 and out["content"].endswith("éé end\n")
    assert err["encoding"] == "base64" and base64.b64decode(err["content"]) == b"\xff" * (err["bytesReturned"] - 3) + b"end"
    for stream in (out, err):
        assert 32760 <= stream["gap"]["at"] <= 32768 and stream["gap"]["bytes"] == stream["bytesTotal"] - stream["bytesReturned"]
    assert err["bytesReturned"] <= 65536 and err["truncated"]


def test_images(alice, session):
    png = f"class P:\n  def _repr_png_(self): return {PNG!r}\n  def _repr_html_(self): return '<b>' + 'y' * 70000\nP()"
    answer = valid(alice, "run_code", code=png, session_id=session)
    images = [item for item in answer["content"] if item["type"] == "image"]
    assert [(base64.b64decode(i["data"]), i["mimeType"]) for i in images] == [(PNG, "image/png")]
    display = answer["structuredContent"]["displays"][0]
    assert "image/png" not in display["mime"] and "text/html" not in display["mime"] and display["truncated"]
    again = valid(alice, "read_file", session_id=session, path=display["file"])
    assert base64.b64decode(again["content"][1]["data"]) == PNG and again["content"][1]["mimeType"] == "image/png"
    part = valid(alice, "read_file", session_id=session, path=display["file"], length=4)
    assert base64.b64decode(part["structuredContent"]["contentBase64"]) == PNG[:4] and len(part["content"]) == 1


def test_files(alice, session):
    wrote = valid(alice, "write_file", session_id=session, path="in/ä b.txt", content="aä€𝄞")["structuredContent"]
    assert (wrote["path"], wrote["bytes"], len(wrote["sha256"])) == ("in/ä b.txt", 10, 64)
    valid(alice, "write_file", session_id=session, path="in/raw", contentBase64=base64.b64encode(bytes(range(256))).decode())
    assert alice.run("open('in/ä b.txt', encoding='utf-8').read(), len(open('in/raw', 'rb').read())", session_id=session)["value"]["text"] == "('aä€𝄞', 256)"
    listed = valid(alice, "list_files", session_id=session, prefix="in/", limit=1)["structuredContent"]
    assert [f["path"] for f in listed["items"]] == ["in/raw"] or listed["cursor"] == "in/raw"
    rest = valid(alice, "list_files", session_id=session, prefix="in/", cursor=listed["cursor"])["structuredContent"]
    assert {f["path"] for f in listed["items"] + rest["items"]} == {"in/raw", "in/ä b.txt"} and rest["cursor"] is None
    # Pieces of a text end between characters, and together they are all of it.
    text, at = "", 0
    while at < 10:
        piece = valid(alice, "read_file", session_id=session, path="in/ä b.txt", offset=at, length=4)["structuredContent"]
        text, at = text + piece["content"], at + piece["length"]
    assert text == "aä€𝄞"
    assert valid(alice, "read_file", session_id=session, path="in/raw")["structuredContent"]["contentBase64"]
    assert "range" in refused(alice, "read_file", session_id=session, path="in/raw", offset=257)
    for path in ("../x", "in/../../x", "/workspace/../x", "/workspacex/in/raw", "/etc/passwd", "/", "/workspace", ".", "in", "none", "x" * 2000):
        refused(alice, "read_file", session_id=session, path=path)
        if path not in ("in", "none"):
            refused(alice, "write_file", session_id=session, path=path, content="")
    # Models write null for what they leave out.
    for given in ({"content": "ab", "contentBase64": None}, {"content": None, "contentBase64": "YWI="}):
        assert valid(alice, "write_file", session_id=session, path="null", **given)["structuredContent"]["bytes"] == 2
    assert "one of" in refused(alice, "write_file", session_id=session, path="a", content=None, contentBase64=None)
    assert "one of" in refused(alice, "write_file", session_id=session, path="a", content="a", contentBase64="YQ==")
    assert "one of" in refused(alice, "write_file", session_id=session, path="a")
    assert "base64" in refused(alice, "write_file", session_id=session, path="a", contentBase64="Y*==")
    other = alice.run("open('own', 'w').write('1')", environment="data")["session"]
    copied = valid(alice, "copy_files", session_id=other, **{"from": {"workspace": session, "paths": ["in"]}, "to": "from"})["structuredContent"]
    assert {f["path"] for f in copied["changed"]} == {"from/in/raw", "from/in/ä b.txt"} and copied["conflict"] == []
    again = valid(alice, "copy_files", session_id=other, **{"from": {"workspace": session, "paths": ["in/raw"]}, "to": "from/in"})["structuredContent"]
    assert again["conflict"] == ["from/in/raw"]
    # What a session leaves stays under its id.
    assert valid(alice, "end_session", session_id=other)["structuredContent"] == {"session": other, "ended": True}
    assert valid(alice, "read_file", session_id=other, path="own")["structuredContent"]["content"] == "1"
    assert "not-found" in refused(alice, "end_session", session_id=other)
    living = valid(alice, "list_sessions", environment="data")["structuredContent"]["items"]
    assert session in [s["id"] for s in living] and other not in [s["id"] for s in living]


PLACED = {"here": b"1", "dir/there": b"22"}
SAME = {
    "here": ["here", "./here", "/workspace/here", "/workspace/./here", "/workspace//here", ".//./here", "here/", "here/."],
    "dir/there": ["dir/there", "dir//there", "./dir/./there", "/workspace/dir/there", "dir/there/"],
}


def test_paths_as_models_and_programs_write_them(alice):
    """One file by each of its names, over both interfaces."""
    made = alice.run("1", environment="web")["session"]
    http = f"/v1/workspaces/{made}/files"
    headers = [("Berth-Owner", "alice")]

    def ask(path, method="GET", body=None):
        return alice.serve.ask(path, TOKENS["users"], method, headers, body)

    for path, names in SAME.items():
        for name in names:
            content = PLACED[path].decode() + name
            assert valid(alice, "write_file", session_id=made, path=name, content=content)["structuredContent"]["path"] == path
            for other in names:
                assert read(alice, "read_file", session_id=made, path=other) == [content], (name, other)
            encoded = f"{http}/{urllib.parse.quote(name, safe='')}"
            assert ask(encoded).body == content.encode(), name
            assert ask(encoded, "PUT", name.encode()).json()["path"] == path
    for prefix, found in (
        (".", ["dir/there", "here"]), ("./", ["dir/there", "here"]), ("/workspace", ["dir/there", "here"]), ("/workspace/", ["dir/there", "here"]), ("", ["dir/there", "here"]),
        ("dir/", ["dir/there"]), ("./dir/", ["dir/there"]), ("/workspace/dir", ["dir/there"]), ("dir/th", ["dir/there"]), ("./he", ["here"]), ("dir/.", ["dir/there"]), ("her/", []),
    ):  # fmt: skip
        listed = valid(alice, "list_files", session_id=made, prefix=prefix)["structuredContent"]["items"]
        assert [f["path"] for f in listed] == found, prefix
        assert [f["path"] for f in ask(f"{http}?prefix={urllib.parse.quote(prefix, safe='')}").items()] == found, prefix
    for prefix in ("..", "../x", "dir/..", "/", "/etc", "/workspace/..", "/workspacex"):
        assert "invalid" in refused(alice, "list_files", session_id=made, prefix=prefix)
        assert ask(f"{http}?prefix={urllib.parse.quote(prefix, safe='')}").status == 400, prefix
    for path in ("/etc/passwd", "/workspacex/here"):
        assert ask(f"{http}/{urllib.parse.quote(path, safe='')}").status == 400
    copied = valid(alice, "copy_files", session_id=made, **{"from": {"workspace": made, "paths": ["./dir/", "/workspace/here"]}, "to": "/workspace/to/"})
    assert {f["path"] for f in copied["structuredContent"]["changed"]} == {"to/dir/there", "to/here"}
    assert refused(alice, "copy_files", session_id=made, **{"from": {"workspace": made, "paths": ["../x"]}}).startswith("invalid")
    valid(alice, "end_session", session_id=made)


def test_resources(alice, session):
    name = "res/%2e a?#é\n.txt"
    valid(alice, "write_file", session_id=session, path=name, content="of the resource")
    found, cursor = {}, {}
    for _ in range(20):
        page = alice.ask("resources/list", **cursor)
        found |= {r["uri"]: r for r in page["resources"]}
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    uri = next(u for u, r in found.items() if r["title"] == name and session in u)
    assert uri == f"berth://workspaces/{session}/res/%252e%20a%3F%23%C3%A9%0A.txt" and found[uri]["size"] == 15
    read = alice.ask("resources/read", uri=uri)
    assert read["contents"] == [{"uri": uri, "mimeType": "text/plain", "text": "of the resource"}]
    assert read.get("cacheScope") == ("private" if alice.newest else None)
    alice.run("open('img', 'wb').write(%r)\nopen('big', 'wb').truncate(5 << 20)" % PNG, session_id=session)
    blob = alice.ask("resources/read", uri=f"berth://workspaces/{session}/img")["contents"][0]
    assert (base64.b64decode(blob["blob"]), blob["mimeType"]) == (PNG, "image/png")
    absent = -32602 if alice.newest else -32002
    for path, code in (("none", absent), ("big", -32602), ("../x", -32602), ("%00", absent), ("a%2", absent), ("", absent)):
        assert alice.ask("resources/read", uri=f"berth://workspaces/{session}/{path}")["error"]["code"] == code, path
    assert alice.ask("resources/read", uri="file:///etc/passwd")["error"]["code"] == absent
    assert alice.ask("resources/read")["error"]["code"] == -32602
    assert alice.ask("resources/list", cursor="berth://workspaces/%/a")["error"]["code"] == -32602
    assert alice.ask("resources/list", cursor=1)["error"]["code"] == -32602
    templates = alice.ask("resources/templates/list")["resourceTemplates"]
    assert templates[0]["uriTemplate"] == "berth://workspaces/{session}/{+path}"


# --- whose it is ---


@ERAS
def test_another_owners_is_not_there(shared, alice, session, newest):
    """Byte for byte as what never was; also for a client that sees and ends everybody's over HTTP."""
    bob = Client(shared, TOKENS["users"], "bob", newest=newest)
    calls = [
        ("run_code", {"code": "1"}), ("end_session", {}), ("list_files", {}), ("read_file", {"path": "a"}),
        ("write_file", {"path": "a", "content": ""}), ("copy_files", {"from": {"workspace": session, "paths": ["a"]}}),
    ]  # fmt: skip
    for name, arguments in calls:
        theirs, none = bob.call(name, session_id=session, **arguments), bob.call(name, session_id=NEVER, **arguments)
        assert theirs == none and theirs["isError"] is True, name
    mine = bob.run("1", environment="data")["session"]
    assert "not-found" in refused(bob, "copy_files", session_id=mine, **{"from": {"workspace": session, "paths": ["a"]}})
    assert [s["id"] for s in bob.call("list_sessions")["structuredContent"]["items"]] == [mine]
    assert all(mine in r["uri"] for r in bob.ask("resources/list")["resources"])
    theirs, none = (json.dumps(bob.ask("resources/read", uri=f"berth://workspaces/{s}/a")).replace(s, "") for s in (session, NEVER))
    assert theirs == none and "error" in theirs
    bob.call("end_session", session_id=mine)
    # A client that may name some environments finds nothing of the others.
    narrow = Client(shared, TOKENS["narrow"], newest=newest)
    assert "There are: web." in narrow.ask("tools/list")["tools"][0]["inputSchema"]["properties"]["environment"]["description"]
    assert "unknown-environment" in refused(narrow, "run_code", code="1", environment="data")
    # Who calls is asked as on every route.
    body = json.dumps(bob.request("tools/list", {})).encode()
    headers = bob.headers({"method": "tools/list"})
    refusal(shared.ask("/mcp", None, "POST", headers, body), 401, "unauthenticated")
    refusal(shared.ask("/mcp", "no token of ours", "POST", headers, body), 401, "unauthenticated")
    refusal(shared.ask("/mcp", TOKENS["watcher"], "POST", bob.headers({}, **{"Berth-Owner": None}), body), 403, "not-permitted")
    refusal(shared.ask("/mcp", TOKENS["users"], "POST", bob.headers({}, **{"Berth-Owner": None}), body), 400, "owner-required")
    refusal(shared.ask("/mcp", TOKENS["self"], "POST", headers, body), 403, "owner-not-allowed")
    refusal(shared.ask("/mcp", TOKENS["users"], "POST", [*headers, ("Origin", "http://evil.example.com")], body), 403, "foreign-origin")
    refusal(shared.ask("/mcp", TOKENS["users"], "POST", [*headers, ("Berth-Conversation", "a"), ("Berth-Conversation", "b")], body), 400, "invalid")
    refusal(shared.ask("/mcp", TOKENS["users"], "POST", [*headers, ("Expect", "the impossible")], body), 417, "unknown-expectation")
    refusal(shared.ask("/mcp", TOKENS["users"], "GET", headers), 405, "method-not-allowed")


def test_an_sdk_says_why_it_was_refused(shared):
    """Not `Server returned an error response`, which is all that a user of the official SDK would see."""

    async def why(token, mode, **headers):
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}", **headers}, timeout=60 * PATIENCE) as http:
            with pytest.raises(BaseException) as caught:  # noqa: PT011 - a group of them, in one mode
                async with mcp.Client(streamable_http_client(f"http://127.0.0.1:{shared.port}/mcp", http_client=http), mode=mode) as found:
                    await found.list_tools()
        return "\n".join(all_of(caught.value))

    def all_of(error):
        return [str(error), *(text for inner in getattr(error, "exceptions", ()) for text in all_of(inner))]

    for mode in ("auto", "legacy"):
        assert "unauthenticated: the request has no token, or one that is no client's" in asyncio.run(why("wrong", mode))
        assert "not-permitted: " in asyncio.run(why(TOKENS["watcher"], mode))
        assert "owner-required: " in asyncio.run(why(TOKENS["users"], mode))
        assert "owner-not-allowed: " in asyncio.run(why(TOKENS["self"], mode, **{"Berth-Owner": "alice"}))


def test_a_session_of_mcp_is_of_one_client_and_owner(shared):
    alice, bob = (Client(shared, TOKENS["users"], name, newest=False) for name in ("alice", "bob"))
    assert "tools" in alice.ask("tools/list")
    own = alice.session
    for wrong in (bob.session, own[:-1] + ("0" if own[-1] != "0" else "1"), "m-", "", "x" * 1000):
        alice.session = wrong
        answer = alice.post(alice.request("tools/list", {}), **{"Mcp-Session-Id": wrong})
        assert answer.status == 404 and answer.json()["error"]["code"] == -32600, wrong
    alice.session = None
    assert "tools" in alice.ask("tools/list")


# --- while it runs ---


def test_a_token_of_progress_that_is_too_long(alice, session):
    """It would be repeated with each message: 16 MB every five seconds."""
    for length, told in ((256, True), (257, False)):
        _, connection, found = alice.open("run_code", token="t" * length, code="1", session_id=session)
        assert any("method" in message for message in found) == told
        connection.close()


def test_progress_and_cancelling(shared, alice, session):
    forever = "import time\nprint('working', flush=True)\nwhile True: time.sleep(60)"

    def begin():
        request_id, connection, told = alice.open("run_code", token="t-1", code=forever, session_id=session)
        first = next(told)
        assert first["method"] == "notifications/progress" and first["params"]["progressToken"] == "t-1" and first["params"]["total"] == 300
        path = f"/v1/sessions/{session}/executions"
        n = shared.ask(f"{path}?limit=1000", TOKENS["users"], headers=[("Berth-Owner", "alice")]).json()["items"][-1]["n"]
        return request_id, connection, told, lambda: shared.ask(f"{path}/{n}", TOKENS["users"], headers=[("Berth-Owner", "alice")]).json()["status"]

    request_id, connection, told, status = begin()
    if not alice.newest:
        # Nobody else's word counts: another owner's, another program's of the same owner, and none that is of another id.
        others = [Client(shared, TOKENS["users"], "bob", newest=False), Client(shared, TOKENS["users"], "alice", newest=False)]
        assert [other.cancel(request_id).status for other in others] == [202, 202]
        assert [alice.cancel(wrong).status for wrong in (str(request_id), None, 10**9, [1], {"a": 1})] == [202] * 5
        assert status() == "running"
        assert alice.cancel(request_id).status == 202
        assert [m for m in told if "id" in m] == []  # nothing more is said of it
    connection.close()
    if alice.newest:
        told.close()
    wait_until(lambda: status() == "interrupted")
    assert alice.run("x", session_id=session)["value"]["text"] == "41"
    if not alice.newest:  # before, a connection that breaks ends nothing
        request_id, connection, told, status = begin()
        connection.close()
        told.close()
        assert alice.call("list_files", session_id=session)["isError"] is False and status() == "running"
        path = f"/v1/sessions/{session}/executions"
        n = shared.ask(f"{path}?limit=1000", TOKENS["users"], headers=[("Berth-Owner", "alice")]).json()["items"][-1]["n"]
        assert shared.ask(f"{path}/{n}/interrupt", TOKENS["users"], "POST", [("Berth-Owner", "alice")]).status == 204
        wait_until(lambda: status() == "interrupted")


def test_without_a_stream(alice, session):
    answer = alice.post(alice.request("tools/call", {"name": "run_code", "arguments": {"code": "x", "session_id": session}}), Accept="application/json")
    assert answer.json()["result"]["structuredContent"]["value"]["text"] == "41"


# --- hostile ---

HOSTILE = [
    (b"", -32700), (b"{", -32700), (b"[]", -32600), (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600), (b"1", -32700),
    (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}', -32700), (b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}', -32700),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "a\\u0000b"}', -32700), (b"[" * 100000, -32700), (b'{"a":' * 70 + b"1" + b"}" * 70, -32700),
    (b"[" + b"1," * 200000 + b"1]", -32700), (b"{}", -32600), (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
    (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600), (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
    (b'{"jsonrpc": "2.0", "id": [], "method": "ping"}', -32600), (b'{"jsonrpc": "2.0", "id": "' + b"i" * 300 + b'", "method": "ping"}', -32600),
    (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', -32600), (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', -32600),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": []}}', -32602),
    (b'{"jsonrpc": "2.0", "id": 99999999999999999999, "method": "ping"}', -32700),
]  # fmt: skip


def test_messages_that_are_none(shared, alice):
    for body, code in HOSTILE:
        answer = alice.post(body, **{"Mcp-Method": "ping"})
        assert answer.status == 400 and answer.json()["error"]["code"] == code, (body[:100], answer.body)
        # Null where it could not be read: official SDKs take a body without an id for no answer.
        assert answer.json()["id"] is None or f'"id": {answer.json()["id"]}'.encode() in body, (body[:100], answer.body)
    for quiet in ({"jsonrpc": "2.0", "method": "notifications/never"}, {"jsonrpc": "2.0", "id": 7, "result": {}}, {"jsonrpc": "2.0", "method": "tools/call"}):
        answer = alice.post(quiet)
        assert (answer.status, answer.body) == (202, b"") and "content-type" not in answer.headers, quiet
    assert alice.post(b"{}", **{"Content-Type": "text/plain"}).status == 400
    for name, arguments in ((5, {}), (None, {}), ("nope", {}), ("run_code", []), ("run_code", "x")):
        message = alice.request("tools/call", {"name": name, "arguments": arguments})
        found = messages(alice.post(message, **({"Mcp-Name": name if isinstance(name, str) else None} if alice.newest else {})))[0]
        assert found["error"]["code"] == -32602, (name, found)
    assert "is not known" in refused(alice, "run_code", code="1", context="c")
    assert "code" in refused(alice, "run_code")
    for arguments in ({"code": 1}, {"code": "1", "timeoutSeconds": 0}, {"code": "1", "language": "perl"}, {"code": None}):
        assert "invalid" in refused(alice, "run_code", **arguments)


def test_headers_and_bodies_agree(alice):
    if not alice.newest:
        answer = alice.post(alice.request("tools/list", {}), **{"MCP-Protocol-Version": "1999-01-01"})
        assert answer.status == 400
        return
    message = alice.request("tools/call", {"name": "list_sessions", "arguments": {}})
    encoded = f"=?base64?{base64.b64encode(b'list_sessions').decode()}?="
    for headers, code in (
        ({"Mcp-Method": None}, -32020), ({"Mcp-Method": "tools/list"}, -32020), ({"Mcp-Method": "TOOLS/CALL"}, -32020),
        ({"Mcp-Name": None}, -32020), ({"Mcp-Name": "run_code"}, -32020), ({"Mcp-Name": "=?base64?!!!!?="}, -32020),
        ({"MCP-Protocol-Version": None}, -32020), ({"MCP-Protocol-Version": "2025-11-25"}, -32020),
    ):  # fmt: skip
        answer = alice.post(message, **headers)
        assert (answer.status, answer.json()["error"]["code"], answer.json()["id"]) == (400, code, message["id"]), headers
    assert alice.post(message, **{"Mcp-Name": encoded}).json()["result"]["isError"] is False
    other = alice.request("tools/list", {"_meta": meta("2031-01-01")})
    answer = alice.post(other, **{"MCP-Protocol-Version": "2031-01-01"})
    assert answer.status == 400 and answer.json()["error"] == {
        "code": -32022, "message": "Unsupported protocol version", "data": {"supported": [NEWEST], "requested": "2031-01-01"},
    }  # fmt: skip
    for wrong in ({}, {f"{META}protocolVersion": NEWEST}, {f"{META}protocolVersion": 1, f"{META}clientCapabilities": {}}):
        answer = alice.post(alice.request("tools/list", {"_meta": wrong}))
        assert (answer.status, answer.json()["error"]["code"]) == (400, -32602), wrong
