# SPDX-License-Identifier: Apache-2.0
"""Containers through a server, by a client that shares no code with it."""

import contextlib
import glob
import json
import os
import signal
from pathlib import Path

import pytest

import stacks
from controllers import PATIENCE, wait_until
from lib.lab import TOKENS, client, stack
from lib.sessions import Sessions

CLIENTS = [
    client("self", may=["execute", "containers", "administer"]),
    client("users", actsFor="users", realm="company", may=["containers"]),
    client("watcher", may=["observe"]),
    client("narrow", may=["execute"]),
    client("file", may=["administer"]),
]
AGENTS = [
    stacks.document("Agent", "analyst", {"environment": "data"}),
    stacks.document("Agent", "small", {"environment": "data", "limits": {"memoryMB": 128}}),
    stacks.document("Agent", "one", {"environment": "data", "limits": {"containers": 1}}),
    stacks.document("Agent", "strict", {"environment": "data", "limits": {"containers": 1, "onLimit": "reject"}}),
]


class Containers(Sessions):
    agent = "analyst"

    def make(self, *command, status=202, owner=None, **wish):
        wish = {"agent": self.agent, **({"command": list(command)} if command else {}), **wish}
        answer = self.call("POST", "/v1/containers", wish, owner)
        assert answer.status == status, answer.body
        return answer.json()

    def finish(self, *command, owner=None, **wish):
        """One that has ended when this returns, with what it printed."""
        return self.make(*command, status=200, owner=owner, waitSeconds=300, **wish)

    def service(self, *command, owner=None, **wish):
        made = self.make(*command, status=201, owner=owner, type="service", **wish)
        self.wait_for(made["id"], "running", owner)
        return made["id"]

    def show(self, container, owner=None):
        answer = self.call("GET", f"/v1/containers/{container}", owner=owner)
        assert answer.status == 200, answer.body
        return answer.json()

    def wait_for(self, container, status, owner=None):
        wait_until(lambda: self.show(container, owner)["status"] == status, timeout=60 * PATIENCE)
        return self.show(container, owner)

    def exec(self, container, *command, owner=None, **wish):
        wish = {**({"command": list(command)} if command else {}), **wish}
        answer = self.call("POST", f"/v1/containers/{container}/exec", wish, owner)
        assert answer.status == 200, answer.body
        return answer.json()

    def order(self, container, verb, status=202, owner=None):
        answer = self.call("POST", f"/v1/containers/{container}/{verb}", {}, owner)
        assert answer.status == status, answer.body
        return answer.json()

    def logs(self, container, query="", owner=None):
        answer = self.call("GET", f"/v1/containers/{container}/logs{query}", owner=owner)
        assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8"), answer.body
        return answer.body.decode()

    def printed(self, container, query="", owner=None):
        answer = self.call("GET", f"/v1/containers/{container}/logs{query}", owner=owner, headers=[("Accept", "application/jsonl")])
        assert (answer.status, answer.headers["content-type"]) == (200, "application/jsonl"), answer.body
        return [json.loads(line) for line in answer.body.decode().splitlines()]


def workers_of(container):
    own = os.environ.get("XDG_RUNTIME_DIR", "/run")
    return {p for d in ("/run/berth/s-*", "/tmp/berth-s-*", f"{own}/berth/s-*") for p in glob.glob(f"{d}/{container}*")}


@pytest.fixture
def serve(offline):
    yield from served(offline, CLIENTS)


def served(offline, clients):
    offline.write("stack.yaml", stack(*AGENTS))
    offline("apply", "--yes").expect(0)
    made = Containers(offline, clients=clients)
    yield made.start("--accept-degraded")
    if made.process is None:
        made.start("--accept-degraded")
    left = [c["id"] for c in made.call("GET", "/v1/containers?limit=1000", token=TOKENS["watcher"]).items()]
    for one in left:
        assert made.call("DELETE", f"/v1/containers/{one}", token=TOKENS["file"]).status == 204
    wait_until(lambda: not any(workers_of(one) for one in left), timeout=60 * PATIENCE)
    wait_until(lambda: not list((made.state / "containers").iterdir()), timeout=60 * PATIENCE)
    assert made.stop() == 0


COUNT = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.02; done"


def kill_server(serve):
    serve.process.kill()
    serve.process.wait()
    serve.process = None


def kill_workers(*containers):
    """As a machine that goes down: what its power took, nobody heard of."""
    for container in containers:
        (record,) = [p for p in workers_of(container) if p.endswith(".worker")]
        os.kill(int(Path(record).read_text().split("-")[0]), signal.SIGKILL)


def loops():
    found = []
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            found.append((file.parts[3], file.read_text()))
    return found
