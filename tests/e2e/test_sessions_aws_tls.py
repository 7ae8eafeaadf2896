# SPDX-License-Identifier: Apache-2.0
"""
Presigned requests over TLS, through a whole server: its bucket is reached by https alone, with an authority of the tests, which lies beside the
runtime too. And what is neither https nor to this machine is refused by the runtime before anything of it runs.
"""

import base64
import re
import socket
import ssl

import pytest

from certificates import Authority, pem_of_key
from lib.aws_sessions import Session, text_of, world  # noqa: F401
from passers import Passer

pytestmark = [pytest.mark.timeout(300), pytest.mark.sampled("moto")]

FILE = {"path": "in.txt", "contentBase64": base64.b64encode(b"brought").decode()}


class Way(Passer):
    """A port that leads to the proxy; with a `context`, by TLS. `heads` are first lines of requests, as they came out of it."""

    def __init__(self, url, host="127.0.0.1", context=None):
        self.near, self.context, self.heads, self.refused = url.removeprefix("http://").split(":"), context, [], 0
        super().__init__(host)

    def taken(self, near):
        try:
            return self.context.wrap_socket(near, server_side=True) if self.context else near
        except (ssl.SSLError, OSError):
            self.refused += 1
            raise

    def reach(self):
        return socket.create_connection((self.near[0], int(self.near[1])))

    def passes(self, data, back):
        if not back:
            self.heads += re.findall(rb"^(?:GET|POST|PUT|DELETE) [^\r\n]* HTTP/1.1", data, re.MULTILINE)
        return True


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def way(cloud, authority, tmp_path):
    _, pem, key = authority.issue("localhost")
    chain = tmp_path / "bucket.pem"
    chain.write_bytes(pem + pem_of_key(key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    made = Way(cloud.url, context=context)
    yield made
    made.close()


def serve(world, endpoint, authority=None):  # noqa: F811
    world.declare()
    world.berth.env.update(AWS_ENDPOINT_URL_S3=endpoint, **({"AWS_CA_BUNDLE": str(authority.file)} if authority else {}))
    return world.serve()


def presigned(cloud, mark):
    return [call for call in cloud.calls(mark, service="s3") if call.get("presigned")]


def test_files_come_and_go_by_tls(world, cloud, way, authority):  # noqa: F811
    cloud.settings(authorities=str(authority.file))
    session = Session(serve(world, f"https://localhost:{way.port}", authority))
    mark = cloud.mark()
    first = session.run("x = open('in.txt').read()\nopen('out.txt', 'w').write(x.upper())\nx", files=[FILE])
    assert text_of(first) == "'brought'" and [file["path"] for file in first["files"]["changed"]] == ["out.txt"], first
    assert session.server.ask_socket(f"/v1/workspaces/{session.id}/files/out.txt").body == b"BROUGHT"
    moved = presigned(cloud, mark)
    assert {call["method"] for call in moved} == {"GET", "POST"} and all(call["status"] < 300 for call in moved), moved
    # Each of them came out of TLS; what the server itself asked of the bucket did, too.
    came = [head.split()[0] for head in way.heads]
    assert len(came) >= len(cloud.calls(mark, service="s3")) and b"POST" in came and way.refused == 0
    # What an environment has lost comes back the same way: files, and the memory.
    cloud._post("environments", {"do": "lose", "tenant": session.id})
    again = session.run("x + open('out.txt').read()")
    assert text_of(again) == "'broughtBROUGHT'" and again["state"]["was"] == "restored", again


def test_a_bucket_that_nobody_vouches_for(world, cloud, way, authority):  # noqa: F811
    """The server knows the authority, and the runtime does not: no file is brought, so nothing runs; and none is said to be kept."""
    session = Session(serve(world, f"https://localhost:{way.port}", authority))
    mark = cloud.mark()
    found = session.run("open('never', 'w').write('x')", files=[FILE])
    assert found["status"] == "failed" and found["exitCode"] is None and "nothing of it ran" in found["detail"], found
    assert found["files"]["changed"] == [] and way.refused > 0 and presigned(cloud, mark) == []


def test_no_tls_to_another_machine(world, cloud):  # noqa: F811
    """An address that the runtime has no reason to take for its own machine's."""
    way = Way(cloud.url, host="127.0.0.2")
    session = Session(serve(world, f"http://127.0.0.2:{way.port}"))
    mark = cloud.mark()
    found = session.run("open('never', 'w').write('x')", files=[FILE])
    way.close()
    assert found["status"] == "failed" and found["exitCode"] is None and "nothing of it ran" in found["detail"], found
    assert found["files"]["changed"] == [] and presigned(cloud, mark) == []
