# SPDX-License-Identifier: Apache-2.0
"""A server that is asked as if it were AWS, and answers what no service of AWS's would."""

import http.server
import json
import threading

import pytest

import stacks
from binary import Berth

IDENTITY = (
    "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account><Arn>arn:aws:iam::123456789012:user/x</Arn><UserId>x</UserId>"
    "</GetCallerIdentityResult></GetCallerIdentityResponse>"
)


@pytest.fixture
def hostile(binary, tmp_path):
    """Registers answers by operation, and returns a berth that is sent there."""
    answers = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
            body = (json.dumps(answers.get(operation, {})) if operation else IDENTITY).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-amz-json-1.1" if operation else "text/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        berth = Berth(binary, tmp_path, f"http://127.0.0.1:{server.server_port}")
        berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x")))
        berth.answers = answers
        yield berth
        server.shutdown()
        thread.join()


def test_names_of_images_do_not_drive_the_terminal(hostile):
    hostile.answers["DescribeRepositories"] = {"repositories": [{}, {"repositoryName": "to\x1b]0;ol"}]}
    hostile.answers["DescribeImages"] = {"imageDetails": [{"imageDigest": "sha256:\x1b[2J", "imageTags": ["\x9b31m", "v1"]}, {"imageTags": ["x"]}]}
    said = hostile("images").expect(0)
    assert "to\\x1B]0;ol" in said.out and "v1" in said.out, said
    assert not set("\x1b\x9b") & set(said.out + said.err), said
    assert [row["repository"] for row in hostile("images", "--json").expect(0).json()] == ["to\x1b]0;ol"]


def test_a_listing_that_goes_in_a_circle_ends(hostile):
    """Each page says what the other one is called."""
    hostile.answers["DescribeRepositories"] = {"repositories": [], "nextToken": "again"}
    said = hostile("images").expect(1)
    assert "the listing has no end: it leads back to the page again" in said.err, said
