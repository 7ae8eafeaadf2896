# SPDX-License-Identifier: Apache-2.0
"""Sessions of a server by a client that shares no code with it."""

import http.client
import json

from controllers import PATIENCE, wait_until
from lib.lab import TOKENS, client
from serving import Serve

CLIENTS = [
    client("self"),
    client("users", actsFor="users", realm="company"),
    client("watcher", may=["observe"]),
    client("narrow", environments=["web"]),
    client("file", may=["administer"]),
]
JSON = ("Content-Type", "application/json")


class Sessions(Serve):
    """One client's view: `as_("alice")` is the same server for another owner."""

    token, owner = TOKENS["users"], "alice"

    def call(self, method, path, body=None, owner=None, token=None, headers=()):
        token = token or self.token
        named = [("Berth-Owner", owner or self.owner)] if token == TOKENS["users"] else []
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask(path, token, method, [*named, JSON, *headers], data)

    def create(self, owner=None, **wish):
        answer = self.call("POST", "/v1/sessions", {"environment": "data", **wish}, owner)
        assert answer.status == 201, answer.body
        return answer.json()["id"]

    def run(self, session, code, owner=None, headers=(), **more):
        answer = self.call("POST", f"/v1/sessions/{session}/executions", {"code": code, **more}, owner, headers=headers)
        assert answer.status == 200, answer.body
        return answer.json()

    def wait_for_start(self, session, n, event="started"):
        """Until its code runs: before that, a server that dies has run nothing of it. Or until it tells another event."""
        wait_until(lambda: self.call("GET", f"/v1/sessions/{session}/executions/{n}").status == 200)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60 * PATIENCE)
        headers = {"Authorization": f"Bearer {self.token}", "Berth-Owner": self.owner}
        connection.request("GET", f"/v1/sessions/{session}/executions/{n}/events", headers=headers)
        answer = connection.getresponse()
        while (line := answer.readline()) != f"event: {event}\n".encode():
            assert line, "the stream ended"
        connection.close()

    def follow(self, path, body=None, owner=None, seen=None):
        """The events of a stream, read to its end: [(id, name, data)]. `seen`: the id of the last one that was read before."""
        method = "GET" if body is None else "POST"
        again = [] if seen is None else [("Last-Event-ID", str(seen))]
        answer = self.call(method, path, body, owner, headers=[("Accept", "text/event-stream"), *again])
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream"), answer.body
        found = []
        for block in answer.body.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
            if fields:
                found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
        return found
