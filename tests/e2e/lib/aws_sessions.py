# SPDX-License-Identifier: Apache-2.0
"""Sessions of a stack on AWS, and what their servers keep there."""

import json
import subprocess

import pytest

import stacks
from binary import tool
from controllers import wait_until
from lib.lab import CLIENTS
from serving import OverSocket, Serve

TABLE = "lab-sessions"


class World:
    """A stack that is applied, and a server of it."""

    def __init__(self, berth, cloud):
        self.berth, self.cloud, self.servers = berth, cloud, []

    def declare(self, sessions=True, more=(), **spec):
        documents = [stacks.stack("lab", **({"sessions": {"table": TABLE}} if sessions else {})), stacks.environment("x", **spec)]
        self.berth.write("m.yaml", stacks.text(*documents, *more))
        self.berth("apply", "--yes").expect(0)

    def serve(self, **spec):
        server = Serve(self.berth, clients=CLIENTS, **spec)
        server.start()
        self.servers.append(server)
        wait_until(lambda: server.ask_socket("/readyz").status == 200)
        return server


@pytest.fixture
def world(berth, cloud):
    cloud.settings(pending_s=0)
    cloud.pushes.amd64("alphaagent/prebuilt/python")
    made = World(berth, cloud)
    berth.write("m.yaml", stacks.text(stacks.stack("lab")))
    berth("image", "runtime", "alphaagent/prebuilt/python:latest", "--push").expect(0)
    yield made
    for server in made.servers:
        server.stop()


def post(server, path, body=None, headers=()):
    return server.ask_socket(path, method="POST", body=json.dumps(body or {}).encode(), headers=[("Content-Type", "application/json"), *headers])


class Session:
    def __init__(self, server, **wish):
        self.server = server
        made = post(server, "/v1/sessions", wish if "agent" in wish else {"environment": "x", **wish})
        assert made.status == 201, made.body
        self.id = made.json()["id"]
        self.path = f"/v1/sessions/{self.id}"

    def run(self, code, **more):
        answer = post(self.server, f"{self.path}/executions", {"code": code, "timeoutSeconds": 20, **more})
        assert answer.status == 200, answer.body
        return answer.json()

    def show(self):
        return self.server.ask_socket(self.path).json()


def text_of(result):
    assert result["status"] == "ok", result
    return result["value"]["text"]


def own(cloud, mark, service):
    """Berth's own calls, not those of the function by presigned requests."""
    return [call["operation"] for call in cloud.calls(mark, service=service) if not call.get("presigned") and not of_servers(call)]


def of_servers(call):
    """By the clock, and not for anybody's request: that a server lives, who else does, word from others, and what a server that starts lists."""
    said = json.dumps(call["params"])
    return call["service"] == "dynamodb" and (call["operation"] == "Query" or "~server" in said or "~word" in said)


def lose(cloud, session):
    assert cloud._post("environments", {"do": "lose", "tenant": session.id}) is None


def begin(session, code, **more):
    """Its number; it runs on."""
    answer = post(session.server, f"{session.path}/executions", {"code": code, "timeoutSeconds": 20, **more}, headers=[("Prefer", "respond-async")])
    assert answer.status == 202, answer.body
    return answer.json()["n"]


def wait_for_output(session, n):
    """Until its code has printed something."""
    wait_until(lambda: session.server.ask_socket(f"{session.path}/executions/{n}").status == 200)
    connection = OverSocket(session.server.state / "serve.sock")
    connection.request("GET", f"{session.path}/executions/{n}/events")
    answer = connection.getresponse()
    while (line := answer.readline()) != b"event: stdout\n":
        assert line, "the stream ended"
    connection.close()


def result(session, n, server=None):
    found = None

    def is_over():
        nonlocal found
        found = (server or session.server).ask_socket(f"{session.path}/executions/{n}").json()
        return found["status"] not in ("queued", "running")

    wait_until(is_over, timeout=120)
    return found


def transfers(cloud, session):
    bucket = next(b["Name"] for b in cloud.aws("s3").list_buckets()["Buckets"] if "workspaces" in b["Name"])
    listed = cloud.aws("s3").list_objects_v2(Bucket=bucket, Prefix=f"workspaces/sessions/{session.id}/transfer/")
    return sorted(found["Key"].rpartition("transfer/")[2] for found in listed.get("Contents", []))


def bucket_of(cloud):
    return next(b["Name"] for b in cloud.aws("s3").list_buckets()["Buckets"] if "workspaces" in b["Name"])


def index(cloud, folder, **line):
    """The workspace's index, as the tool of its own tests tells it."""
    env = cloud.environment(folder)
    command = [tool("workspace_index_cli"), "{}", bucket_of(cloud), cloud.account, "lab"]
    ran = subprocess.run(command, input=json.dumps(line) + "\n", env=env, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(ran.stdout)
