# SPDX-License-Identifier: Apache-2.0
"""`berth serve` of a stack on AWS whose state lies in S3: from the shared state alone, on a machine that has none of its own."""

import shutil

import pytest

import stacks
from binary import Berth
from controllers import wait_until
from lib.aws_sessions import TABLE, Session, own, post, text_of
from lib.lab import CLIENTS
from serving import Serve

BUCKET = "team-state"
PLACE = f"s3://{BUCKET}/research"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.only("ministack", "moto has no InvokeWithResponseStream, and enforces no POST policy"),
]  # fmt: skip


class Machines:
    """One that applies, and one that serves; nothing in common but the bucket."""

    def __init__(self, berth, binary, folder, cloud):
        cloud.settings(pending_s=0)
        cloud.pushes.amd64("alphaagent/prebuilt/python")
        cloud.direct("s3").create_bucket(Bucket=BUCKET)
        self.applies, self.servers = berth, []
        folder.mkdir()
        self.serves = Berth(binary, folder, cloud.url)

    def declare(self, *names, declared=True):
        spec = {"sessions": {"table": TABLE}, **({"state": {"s3": PLACE}} if declared else {})}
        self.text = stacks.text(stacks.stack("lab", **spec), *(stacks.environment(name) for name in names))
        self.applies.write("m.yaml", self.text)
        if not self.servers:
            self.applies("image", "runtime", "alphaagent/prebuilt/python:latest", "--push").expect(0)
        self.applies("apply", "--yes", *([] if declared else ["--state", PLACE])).expect(0)

    def serve(self, *args):
        self.serves.write("m.yaml", self.text)
        server = Serve(self.serves, clients=CLIENTS)
        self.servers.append(server)
        return server.start(*args)


@pytest.fixture
def machines(berth, binary, cloud, tmp_path):
    made = Machines(berth, binary, tmp_path / "serving", cloud)
    yield made
    for server in made.servers:
        server.stop()


def is_ready(server):
    return server.ask_socket("/readyz").status == 200


@pytest.mark.parametrize("declared", [True, False], ids=["the Stack says where", "--state"])
def test_the_shared_state_is_all_that_a_server_needs(machines, cloud, declared):
    machines.declare("x", declared=declared)
    server = machines.serve(*([] if declared else ["--state", PLACE]))
    wait_until(lambda: is_ready(server))
    session = Session(server)
    assert text_of(session.run("1 + 1")) == "2"
    # What it has in its folder is its own, and no state.
    assert not list((machines.serves.stack / ".berth").glob("*.mdb")) and not (machines.serves.stack / ".berth" / "state").exists()
    # No request waits for the state, and none reads it: one Invoke, and two calls of S3 that are the session's.
    mark = cloud.mark()
    assert text_of(session.run("2")) == "2"
    calls = [call["operation"] for call in cloud.calls(mark, service="s3") if not call.get("presigned") and call["params"].get("Bucket") != BUCKET]
    assert own(cloud, mark, "lambda") == ["InvokeWithResponseStream"] and len(calls) <= 2, calls
    # Another machine applies, and the server knows.
    assert post(server, "/v1/sessions", {"environment": "y"}).status == 404
    machines.declare("x", "y", declared=declared)
    wait_until(lambda: post(server, "/v1/sessions", {"environment": "y"}).status == 201)


def test_a_state_that_cannot_be_read_for_a_while(machines, cloud):
    """What was applied holds as it was read last; who asks whether all is well is told."""
    machines.declare("x")
    server = machines.serve()
    wait_until(lambda: is_ready(server))
    session = Session(server)
    cloud.faults(({"bucket": BUCKET}, {"kind": "error", "status": 403, "code": "AccessDenied", "message": "no"}))
    wait_until(lambda: not is_ready(server))
    assert b"state" in server.ask_socket("/readyz").body and "what was applied cannot be read again" in server.lines()
    assert text_of(session.run("1")) == "1" and post(server, "/v1/sessions", {"environment": "x"}).status == 201
    cloud.faults()
    wait_until(lambda: is_ready(server))


def test_a_server_that_starts_without_its_state_waits_for_it(machines, cloud):
    machines.declare("x")
    cloud.faults(({"bucket": BUCKET}, {"kind": "error", "status": 403, "code": "AccessDenied", "message": "no"}))
    server = machines.serve()
    assert not is_ready(server) and post(server, "/v1/sessions", {"environment": "x"}).status >= 400
    cloud.faults()
    wait_until(lambda: is_ready(server))
    assert text_of(Session(server).run("1")) == "1"
    # Its cache is made anew from S3, too.
    shutil.rmtree(machines.serves.folder / "home" / ".cache", ignore_errors=True)
    assert text_of(Session(server).run("2")) == "2"
