# SPDX-License-Identifier: Apache-2.0
"""Many servers of one stack."""

import itertools
import json
import signal
import socket

import stacks
from binary import Berth
from controllers import wait_until
from lib.aws_sessions import TABLE
from lib.lab import CLIENTS, TOKENS
from passers import Passer
from serving import Serve

STATE = "shared-states"


class Balancer(Passer):
    """By turns, by TCP. What has one server's connection keeps it to its end."""

    def __init__(self, ports):
        self.ports, self.turn = ports, itertools.count()
        super().__init__()

    def reach(self):
        for _ in range(len(self.ports)):
            try:
                return socket.create_connection(("127.0.0.1", self.ports[next(self.turn) % len(self.ports)]))
            except OSError:
                continue
        return None


class Team:
    """`clocks`: those of the servers can go on (clocks.py)."""

    def __init__(self, berth, cloud, clocks=None):
        self.cloud, self.berths, self.clocks = cloud, [berth], clocks
        cloud.aws("s3").create_bucket(Bucket=STATE)
        documents = [stacks.stack("lab", sessions={"table": TABLE}, state={"s3": f"s3://{STATE}/lab"}), stacks.environment("x")]
        berth.write("m.yaml", stacks.text(*documents))
        berth("apply", "--yes").expect(0)
        folder = berth.folder / "second"
        folder.mkdir()
        self.berths.append(Berth(berth.binary, folder, cloud.url))
        self.berths[1].write("m.yaml", stacks.text(*documents))
        self.servers = [self.start(each) for each in self.berths]
        self.balancer = Balancer([server.port for server in self.servers])

    def start(self, berth):
        if self.clocks:
            self.clocks.give(berth)
        server = Serve(berth, clients=CLIENTS).start()
        wait_until(lambda: server.ask("/readyz").status == 200)
        return server

    def ask(self, path, method="GET", body=None, headers=(), at=None):
        """By the balancer, or of one of them."""
        over = None if at is None else self.servers[at]
        if body is not None:
            body, headers = json.dumps(body).encode(), [("Content-Type", "application/json"), *headers]
        asked = over or self.servers[0]
        port, asked.port = asked.port, asked.port if over else self.balancer.port
        try:
            return asked.ask(path, TOKENS["self"], method=method, body=body, headers=headers)
        finally:
            asked.port = port

    def stop(self):
        self.balancer.close()
        for server in self.servers:
            if server.process and server.process.poll() is None:
                server.process.send_signal(signal.SIGCONT)
                server.stop()

    # --- sessions ---

    def make(self, at=None, **wish):
        made = self.ask("/v1/sessions", "POST", {"environment": "x", **wish}, at=at)
        assert made.status in (200, 201), (made.body, [server.lines()[-2000:] for server in self.servers])
        return made.json()["id"]

    def run(self, session, code, at=None, headers=(), **more):
        return self.ask(f"/v1/sessions/{session}/executions", "POST", {"code": code, "timeoutSeconds": 60, **more}, headers, at)

    def text(self, session, code, at=None):
        answer = self.run(session, code, at)
        assert answer.status == 200 and answer.json()["status"] == "ok", answer.body
        return answer.json()["value"]["text"]

    def begin(self, session, code, at):
        """Its number, once Lambda has it."""
        before = len(self.invokes())
        answer = self.run(session, code, at, headers=[("Prefer", "respond-async")])
        assert answer.status == 202, answer.body
        wait_until(lambda: len(self.invokes()) > before)
        return answer.json()["n"]

    def invokes(self):
        return self.cloud.calls(operation="InvokeWithResponseStream")

    def items(self, prefix):
        """What the table has of these keys."""
        found = self.cloud.aws("dynamodb").scan(TableName=TABLE, ConsistentRead=True, FilterExpression="begins_with(id, :p)", ExpressionAttributeValues={":p": {"S": prefix}})
        return found["Items"]

    def living(self):
        """How many servers say that they live."""
        return len(self.items("~server/"))

    def result(self, session, n, at=None):
        found = None

        def is_over():
            nonlocal found
            found = self.ask(f"/v1/sessions/{session}/executions/{n}", at=at).json()
            return found["status"] not in ("queued", "running")

        wait_until(is_over, timeout=120)
        return found
