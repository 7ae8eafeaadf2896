# SPDX-License-Identifier: Apache-2.0
"""`berth mcp`: MCP on standard input and output, joined to a server or with one of its own."""

import asyncio
import contextlib
import http.server
import json
import os
import select
import signal
import socketserver
import subprocess
import threading

import mcp
import pytest
from mcp.client.stdio import stdio_client

from binary import Berth, is_watched
from controllers import PATIENCE, wait_until
from lib.agent_loop import agent_loop
from lib.lab import stack
from mcp_client import meta
from serving import Serve

FOREVER = "import time\nprint('working', flush=True)\nwhile True: time.sleep(60)"


@pytest.fixture(scope="module")
def berth(binary, tmp_path_factory):
    if is_watched(binary):
        pytest.skip("the runtime of such a build needs more memory than a sandbox has")
    made = Berth(binary, tmp_path_factory.mktemp("stdio"), "http://127.0.0.1:1")
    made.write("stack.yaml", stack())
    made("apply", "--yes").expect(0)
    return made


ARGS = ["mcp", "-f", ".", "--accept-degraded"]


class Spoken:
    """A program's messages to `berth mcp` and back, line by line."""

    def __init__(self, berth):
        self.log = (berth.folder / "mcp.log").open("ab")
        self.process = subprocess.Popen(
            [str(berth.binary), *ARGS], cwd=berth.stack, env=berth.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.log):
            pipe.close()

    def send(self, message):
        data = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self):
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), "it ended"
        return json.loads(line)

    def ask(self, request_id, method, newest=True, **params):
        params = {**params, "_meta": {**(meta() if newest else {}), **params.pop("_meta", {})}}
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})

    def run(self, request_id, code, newest=True, token=None, **arguments):
        more = {"_meta": {"progressToken": token}} if token else {}
        self.ask(request_id, "tools/call", newest, name="run_code", arguments={"code": code, **arguments}, **more)

    def result(self, *args, **kwargs):
        self.run(*args, **kwargs)
        answer = self.read()
        assert answer["id"] == args[0] and not answer["result"]["isError"], answer
        return answer["result"]["structuredContent"]

    def server(self):
        """The process of the server that it has started."""
        found = (open(f"/proc/{self.process.pid}/task/{t}/children").read().split() for t in os.listdir(f"/proc/{self.process.pid}/task"))
        return [int(pid) for pids in found for pid in pids]

    def ends(self):
        """Its input ends, and so does it."""
        self.process.stdin.close()
        rest = self.process.stdout.read()
        assert self.process.wait(timeout=60 * PATIENCE) == 0
        return [json.loads(line) for line in rest.splitlines()]


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_with_a_server_of_its_own(berth, mode):
    """The official SDK starts it; the server goes when it goes, and what a session holds does not."""

    async def loop(work):
        where = stdio_client(mcp.StdioServerParameters(command=str(berth.binary), args=ARGS, cwd=str(berth.stack), env=berth.env))
        async with mcp.Client(where, mode=mode) as found:
            return await work(found)

    async def both(found):
        history = await agent_loop(found, environment="web")
        kept = await found.call_tool("run_code", {"code": "x = 41", "environment": "web"})
        return history, kept.structured_content["session"]

    async def again(found):
        answer = await found.call_tool("run_code", {"code": "x + 1", "session_id": session})
        await found.call_tool("end_session", {"session_id": session})
        return answer.structured_content

    history, session = asyncio.run(loop(both))
    assert [h["value"]["text"] for h in history] == ["25", "1085"]
    wait_until(lambda: not (berth.stack / ".berth/serve.sock").exists())
    found = asyncio.run(loop(again))
    assert (found["value"]["text"], found["state"]["was"]) == ("42", "kept")
    wait_until(lambda: not (berth.stack / ".berth/serve.sock").exists())


def test_joined_to_a_server(berth):
    serve = Serve(berth).start("--accept-degraded")
    try:
        with Spoken(berth) as one, Spoken(berth) as other:
            session = one.result(1, "x = 1", environment="data")["session"]
            # The owner is the user, in whichever program: as in the terminal.
            assert other.result(1, "x + 1", session_id=session)["value"]["text"] == "2"
            assert one.server() == other.server() == []
            assert [s["id"] for s in serve.ask_socket("/v1/sessions").items()] == [session]
            assert one.ends() == [] and other.ends() == []
        serve.ask_socket(f"/v1/sessions/{session}", method="DELETE")
    finally:
        assert serve.stop() == 0


class Refuser(socketserver.ThreadingUnixStreamServer):
    """At the stack's socket, in place of a server: it refuses each message of MCP before it is read."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):  # noqa: N802
            self.send(200, {"items": [], "cursor": None})

        def do_POST(self):  # noqa: N802
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send(429, {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "too-many-requests: wait", "data": {"status": 429}}})

        def send(self, status, answer):
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

        def address_string(self):
            return "a Unix socket"


def test_what_the_server_refuses_before_it_reads_it(berth):
    """It knows no id; the bridge does, so that the client has its answer. A notification has none."""
    path = berth.stack / ".berth/serve.sock"
    folder = os.open(path.parent, os.O_PATH)  # the path is too long for an address
    server = Refuser(f"/proc/self/fd/{folder}/{path.name}", Refuser.Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with Spoken(berth) as spoken:
            spoken.send({"jsonrpc": "2.0", "method": "notifications/never"})
            spoken.ask("seven", "tools/list")
            answer = spoken.read()
            assert (answer["id"], answer["error"]["code"], answer["error"]["message"]) == ("seven", -32600, "too-many-requests: wait")
            assert spoken.ends() == []
    finally:
        server.shutdown()
        server.server_close()
        os.close(folder)
        path.unlink()


HELLO = b'{"jsonrpc": "2.0", "id": %s, "method": "ping"}'


def test_lines_of_any_kind(berth):
    """Whatever stands in one line, it is answered by one line, and the next one is read as ever."""
    with Spoken(berth) as spoken:
        spoken.ask("first", "server/discover")
        assert spoken.read()["id"] == "first"
        for bad in (b"{", b"[]", b"\xff", b"nonsense", b'{"id": 1, "id": 2}', b"[" * 100000, b'{"jsonrpc": "2.0", "id": null, "method": "x"}', b"1"):
            spoken.send(bad + b"\n")
            answer = spoken.read()
            assert answer["error"]["code"] in (-32700, -32600) and "id" not in answer, (bad[:50], answer)
        spoken.send(b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * (33 << 20) + b'"}\n')
        assert spoken.read()["error"]["code"] == -32700
        spoken.send(b"\n\r\n")
        for given in (b"0", b"-5", b'""', b'"\\u00e4 \\n"', b"9007199254740993"):
            spoken.send(HELLO % given + b"\r\n")
            assert spoken.read() == {"jsonrpc": "2.0", "id": json.loads(given), "result": {}}
        for given in (b"1.5", b"true", b"{}", b"[1]"):
            spoken.send(HELLO % given + b"\n")
            assert spoken.read()["error"]["code"] == -32600
        long = "m" * 100000
        spoken.ask("long", long)
        assert "error" in spoken.read()
        spoken.ask("named", "tools/call", name="ä\n" + long)
        assert "error" in spoken.read()
        # What it says of its revision is one header, whatever it is.
        for version in ("2026-07-28\r\nX-Other: 1", "2026-07-28\r\n\r\nGET /", "ä", "=?base64?eA==?=", long):
            spoken.ask("version", "tools/list", _meta=meta(version))
            assert spoken.read()["error"]["code"] == (-32020 if version is long else -32022), version
        # Nobody answers notifications, whatever they are; many requests at a time are answered each.
        spoken.send({"jsonrpc": "2.0", "method": "notifications/never", "params": {"a": 1}})
        spoken.send({"jsonrpc": "2.0", "method": "notifications/cancelled"})
        spoken.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "never"}})
        spoken.send({"jsonrpc": "2.0", "id": 3, "result": {}})
        for i in range(20):
            spoken.ask(i, "tools/list")
        assert sorted(spoken.read()["id"] for _ in range(20)) == list(range(20))
        spoken.process.stdin.write(HELLO % b'"no end of a line"')
        assert [a["id"] for a in spoken.ends()] == ["no end of a line"]


@pytest.mark.parametrize("newest", [True, False], ids=["newest", "before"])
def test_cancelling(berth, newest):
    with Spoken(berth) as spoken:
        if not newest:
            spoken.send({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {"protocolVersion": "2025-06-18"}})
            assert spoken.read()["result"]["protocolVersion"] == "2025-06-18"
            spoken.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        session = spoken.result(0, "x = 41", newest, environment="data")["session"]
        spoken.run(7, FOREVER, newest, token="t", session_id=session)
        assert spoken.read()["params"]["progressToken"] == "t"
        spoken.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
        # What follows waits for its end, and nothing was said of that: but progress that was on its way.
        spoken.run(8, "x + 1", newest, session_id=session)
        while "id" not in (answer := spoken.read()):
            assert answer["method"] == "notifications/progress"
        assert answer["id"] == 8 and answer["result"]["structuredContent"]["value"]["text"] == "42", answer
        # The end of the input cancels what is under way.
        spoken.run(9, FOREVER, newest, token="u", session_id=session)
        while spoken.read().get("params", {}).get("progressToken") != "u":
            pass
        assert [a for a in spoken.ends() if "id" in a] == []
    with Spoken(berth) as spoken:
        assert spoken.result(1, "x", session_id=session)["value"]["text"] == "41"
        spoken.ask(2, "tools/call", name="end_session", arguments={"session_id": session})
        assert spoken.read()["id"] == 2
        spoken.ends()


def test_deaths(berth):
    with Spoken(berth) as spoken:
        session = spoken.result(1, "x = 41", environment="data")["session"]
        first = spoken.server()
        assert len(first) == 1
        # Its server dies in the midst of something: that is said, another is started, and the session goes on.
        spoken.run(2, FOREVER, token="t", session_id=session)
        assert spoken.read()["params"]["progressToken"] == "t"
        os.kill(first[0], signal.SIGKILL)
        while "id" not in (answer := spoken.read()):
            pass
        assert (answer["id"], answer["error"]["code"]) == (2, -32603)
        wait_until(lambda: is_gone(first[0]))
        spoken.ask(3, "tools/call", name="end_session", arguments={"session_id": session})
        assert spoken.read()["result"]["isError"] is False
        second = spoken.server()
        assert len(second) == 1 and second != first
        # It dies itself, without a word: its server does not stay behind.
        spoken.process.kill()
        wait_until(lambda: is_gone(second[0]))
    with Spoken(berth) as spoken:
        spoken.ask(1, "tools/list")
        assert spoken.read()["id"] == 1
        spoken.process.send_signal(signal.SIGTERM)
        assert spoken.process.wait(timeout=60 * PATIENCE) == 0


@pytest.mark.parametrize("verb", ["mcp", "serve"])
def test_nothing_that_outlives_it_keeps_its_standard_error(berth, verb):
    """`agent 2>&1 | tee log` ends as the agent does, though its session's sandbox stays."""
    ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_code", "arguments": {"code": "1", "environment": "data"}}}
    args = ARGS if verb == "mcp" else ["serve", "-f", ".", "--accept-degraded"]
    process = subprocess.Popen([str(berth.binary), *args], cwd=berth.stack, env=berth.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        if verb == "mcp":
            process.stdin.write(json.dumps(ask).encode() + b"\n")
            process.stdin.flush()
            session = json.loads(process.stdout.readline())["result"]["structuredContent"]["session"]
        else:
            wait_until((berth.stack / ".berth/serve.sock").exists)
            with Spoken(berth) as spoken:
                session = spoken.result(1, "1", environment="data")["session"]
            process.terminate()
        said = process.communicate(timeout=60 * PATIENCE)[1]  # to the end of each
        assert process.returncode == 0 and b"listening" in said, said
    finally:
        process.kill()
    with Spoken(berth) as spoken:
        spoken.ask(1, "tools/call", name="end_session", arguments={"session_id": session})
        assert spoken.read()["result"]["isError"] is False
        assert spoken.ends() == []


def test_a_client_that_does_not_read(berth):
    """It waits for him, and for no longer than he is there: also where every thread has something to say."""
    with Spoken(berth) as spoken:
        os.set_blocking(spoken.process.stdin.fileno(), False)
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode() + b"\n"
        while select.select([], [spoken.process.stdin], [], 2)[1]:  # until nothing is taken any more
            with contextlib.suppress(BlockingIOError):
                os.write(spoken.process.stdin.fileno(), line)
        spoken.process.stdin.close()
        assert spoken.process.wait(timeout=60 * PATIENCE) == 0


def test_what_it_cannot_begin_with(berth):
    found = subprocess.run([str(berth.binary), "mcp", "-f", "nowhere.yaml", "--state", "/proc/none"], cwd=berth.stack, env=berth.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60 * PATIENCE)
    assert found.returncode == 1 and found.stdout == b"" and b"could not be started" in found.stderr
