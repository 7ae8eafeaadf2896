# SPDX-License-Identifier: Apache-2.0
"""Messages of MCP as they stand, by a client that shares no code with the server; and the official SDK's."""

import http.client
import itertools
import json

from controllers import PATIENCE

NEWEST = "2026-07-28"
META = "io.modelcontextprotocol/"
BOTH = "application/json, text/event-stream"


def meta(version=NEWEST, **more):
    return {f"{META}protocolVersion": version, f"{META}clientCapabilities": {}, **more}


def named(params):
    return params.get("name") or params.get("uri")


class Client:
    """One program: `ask` gives the result or the error of a request; each is of 2026-07-28, or of the session of `initialize`."""

    def __init__(self, serve, token, owner=None, newest=True):
        self.serve, self.token, self.owner, self.newest = serve, token, owner, newest
        self.ids, self.session = itertools.count(1), None
        if not newest:
            answer = self.post(self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}))
            self.session = answer.headers["mcp-session-id"]

    def request(self, method, params, **more):
        params = {**params, "_meta": meta()} if self.newest and "_meta" not in params else params
        return {"jsonrpc": "2.0", "id": next(self.ids), "method": method, "params": params, **more}

    def headers(self, message, **more):
        found = {"Content-Type": "application/json", "Accept": BOTH}
        if self.owner:
            found["Berth-Owner"] = self.owner
        if self.newest:
            found |= {"MCP-Protocol-Version": NEWEST, "Mcp-Method": message.get("method", "")}
            if named(message.get("params", {})):
                found["Mcp-Name"] = named(message["params"])
        elif self.session:
            found |= {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": self.session}
        return [(n, v) for n, v in {**found, **more}.items() if v is not None]

    def post(self, message, **headers):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        sent = self.headers(message if isinstance(message, dict) else {}, **headers)
        return self.serve.ask("/mcp", self.token, "POST", sent, body)

    def ask(self, method, **params):
        message = self.request(method, params)
        answers = [m for m in messages(self.post(message)) if "id" in m]
        assert len(answers) == 1 and answers[0]["id"] == message["id"], answers
        return answers[0].get("result") or {"error": answers[0]["error"]}

    def call(self, name, **arguments):
        return self.ask("tools/call", name=name, arguments=arguments)

    def run(self, code, **arguments):
        """The result of code that could be run."""
        result = self.call("run_code", code=code, **arguments)
        assert result["isError"] is False, result
        return result["structuredContent"]

    def open(self, name, token=None, **arguments):
        """A call whose messages are read as they come: (its id, the connection, an iterator of them)."""
        params = {"name": name, "arguments": arguments}
        if token is not None:
            params["_meta"] = {**(meta() if self.newest else {}), "progressToken": token}
        message = self.request("tools/call", params)
        connection = http.client.HTTPConnection("127.0.0.1", self.serve.port, timeout=60 * PATIENCE)
        body = json.dumps(message).encode()
        connection.request("POST", "/mcp", body, dict(self.headers(message)) | {"Authorization": f"Bearer {self.token}"})
        return message["id"], connection, stream(connection.getresponse())

    def cancel(self, request_id):
        return self.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}})


def refusal(answer, status, code):
    """That the request was refused before its message was read: HTTP's status, and a JSON-RPC error in the body."""
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json"), (answer.status, answer.body)
    found = json.loads(answer.body)
    assert found["jsonrpc"] == "2.0" and found["id"] is None and found["error"]["message"].startswith(f"{code}: "), found
    assert found["error"]["data"] == {"code": code, "status": status} and found["error"]["code"] == (-32603 if status >= 500 else -32600)


def stream(response):
    assert response.headers["content-type"] == "text/event-stream", (response.status, response.read())
    while line := response.readline():
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def messages(answer):
    if answer.headers["content-type"] == "text/event-stream":
        return [json.loads(line[6:]) for line in answer.body.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(answer.body)]
