# SPDX-License-Identifier: Apache-2.0
"""
Invoking a function (invoke_cli): through the judging proxy at MiniStack, and at a server of this file's that says what Lambda says, and
what goes wrong on the way. Each invocation that may have run is counted: none runs twice, and none is said to have ended that may not have.
"""

import http.server
import json
import os
import socket
import subprocess
import threading
from types import SimpleNamespace

import pytest
from botocore.eventstream import EventStreamBuffer

from binary import tool
from proxy.environments import ENTRY
from proxy.event_stream import chunk as chunk_of
from proxy.event_stream import complete, event, message
from proxy.settings import TEST_ACCESS_KEY, TEST_SECRET


def chunk(text):
    return chunk_of(text.encode())


GOOD = chunk('{"a":') + chunk(" 1}") + complete()


def refusal(status, code, text="no"):
    return SimpleNamespace(status=status, headers={"x-amzn-ErrorType": code}, body=json.dumps({"Message": text}).encode(), cut=False)


def stream(body, cut=False):
    return SimpleNamespace(status=200, headers={"Content-Type": "application/vnd.amazon.eventstream"}, body=body, cut=cut)


def whole(body, error=None):
    return SimpleNamespace(status=200, headers={"X-Amz-Function-Error": error} if error else {}, body=json.dumps(body).encode(), cut=False)


class Lambda:
    """Answers one call after the other with what it was told; the last one again and again. `None` ends the connection."""

    def __init__(self):
        self.answers, self.calls = [], []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.calls.append(SimpleNamespace(path=self.path, headers=dict(self.headers), body=body))
                answer = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                if answer is None:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for at in range(0, len(answer.body), 7):
                    piece = answer.body[at : at + 7]
                    self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                if not answer.cut:
                    self.wfile.write(b"0\r\n\r\n")
                self.close_connection = True

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def scripted():
    made = Lambda()
    yield made
    made.server.shutdown()
    made.server.server_close()


def invoke(url, folder, function="f", payload='{"x": 1}', **more):
    env = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ACCESS_KEY_ID": TEST_ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": TEST_SECRET,
    }  # fmt: skip
    line = json.dumps({"function": function, "payload": payload, **more}) + "\n"
    ran = subprocess.run([tool("invoke_cli"), "{}"], input=line, env=env, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return SimpleNamespace(**json.loads(ran.stdout))


def test_the_messages_of_this_file_are_botocores():
    buffer = EventStreamBuffer()
    buffer.add_data(GOOD)
    assert [(m.headers[":event-type"], m.payload) for m in buffer] == [("PayloadChunk", b'{"a":'), ("PayloadChunk", b" 1}"), ("InvokeComplete", b"{}")]


def test_a_tenant_and_an_answer_bit_by_bit(scripted, tmp_path):
    scripted.answers = [stream(GOOD)]
    result = invoke(scripted.url, tmp_path, "arn:aws:lambda:us-east-1:123456789012:function:f", tenant="s-abc/1 @=")
    assert (result.end, result.answer) == ("done", '{"a": 1}')
    (call,) = scripted.calls
    assert call.path == "/2021-11-15/functions/arn%3Aaws%3Alambda%3Aus-east-1%3A123456789012%3Afunction%3Af/response-streaming-invocations"
    assert call.headers["X-Amz-Tenant-Id"] == "s-abc/1 @=" and call.body == b'{"x": 1}'
    assert "x-amz-tenant-id" in {name.lower(): text for name, text in call.headers.items()}["authorization"]


ENDS = {
    "the code failed": ([stream(chunk("{") + complete(ErrorCode="Runtime.ExitError", ErrorDetails="exit status 1"))], "failed", "Runtime.ExitError", 1),
    "it took too long": ([stream(complete(ErrorCode="Sandbox.Timedout", ErrorDetails="Task timed out after 3.00 seconds"))], "failed", "Sandbox.Timedout", 1),
    "no end": ([stream(chunk("{}"))], "unknown", "", 1),
    "cut in a message": ([stream(GOOD[:-5])], "unknown", "", 1),
    "the line is cut": ([stream(chunk("{}"), cut=True)], "unknown", "", 1),
    "the line is cut behind the end": ([stream(GOOD, cut=True)], "done", "", 1),
    "no answer at all": ([None], "unknown", "", 1),
    "an exception in between": ([stream(chunk("{") + message({":message-type": "exception", ":exception-type": "ServiceException"}))], "unknown", "", 1),
    "a wrong checksum": ([stream(chunk("{}") + complete()[:-1] + b"!")], "unknown", "", 1),
    "more behind the end": ([stream(GOOD + chunk("x"))], "unknown", "", 1),
    "an end that is none": ([stream(event("InvokeComplete", b"[" * 5000))], "unknown", "", 1),
    "a page of somebody's": ([SimpleNamespace(status=200, headers={}, body=b"<html>welcome</html>", cut=False)], "unknown", "", 1),
    "Lambda failed": ([refusal(500, "ServiceException")], "unknown", "ServiceException", 1),
    "somebody on the way failed": ([SimpleNamespace(status=502, headers={}, body=b"bad gateway", cut=False)], "unknown", "BadGateway", 1),
    "a key that is disabled": ([refusal(502, "KMSDisabledException")], "refused", "KMSDisabledException", 1),
    "an update under way": ([refusal(409, "ResourceConflictException")], "refused", "ResourceConflictException", 1),
    "not allowed": ([refusal(403, "AccessDeniedException")], "refused", "AccessDeniedException", 1),
    "no such function": ([refusal(404, "ResourceNotFoundException")], "refused", "ResourceNotFoundException", 1),
    "throttled": ([refusal(429, "TooManyRequestsException", "Rate exceeded")], "throttled", "TooManyRequestsException", 1),
}


@pytest.mark.parametrize("case", ENDS)
def test_what_an_invocation_came_to(scripted, tmp_path, case):
    scripted.answers, end, code, calls = ENDS[case]
    result = invoke(scripted.url, tmp_path, tenant="t")
    assert (result.end, result.code, len(scripted.calls)) == (end, code, calls), result
    assert result.details or end == "done"


def test_throttling_is_waited_for(scripted, tmp_path):
    throttled = refusal(429, "TooManyRequestsException", "Rate exceeded")
    scripted.answers = [throttled, throttled, stream(GOOD)]
    assert invoke(scripted.url, tmp_path, tenant="t", throttledMs=60000).end == "done" and len(scripted.calls) == 3
    scripted.answers, scripted.calls[:] = [throttled, refusal(500, "ServiceException")], []
    assert invoke(scripted.url, tmp_path, tenant="t", throttledMs=60000).end == "unknown" and len(scripted.calls) == 2


def test_where_there_are_no_streams(scripted, tmp_path):
    """The same as one answer, by Invoke; the caller may keep that in mind."""
    scripted.answers = [SimpleNamespace(status=404, headers={}, body=b"", cut=False), whole({"a": 1})]
    result = invoke(scripted.url, tmp_path, tenant="t")
    assert (result.end, json.loads(result.answer), result.streamsMissing) == ("done", {"a": 1}, True)
    assert [c.path for c in scripted.calls] == ["/2021-11-15/functions/f/response-streaming-invocations", "/2015-03-31/functions/f/invocations"]
    scripted.answers = [whole({"errorType": "Runtime.NoPython", "errorMessage": "no python3"}, "Unhandled")]
    result = invoke(scripted.url, tmp_path, tenant="t", buffered=True)
    assert (result.end, result.code, result.details, result.answer) == ("failed", "Runtime.NoPython", "no python3", "")
    scripted.answers = [None]
    assert invoke(scripted.url, tmp_path, tenant="t", buffered=True).end == "unknown"


def test_tenants_that_do_not_fit(scripted, tmp_path):
    scripted.answers = [refusal(400, "InvalidParameterValueException", "The invoked function requires a tenant ID")]
    result = invoke(scripted.url, tmp_path)
    assert result.end == "refused" and result.tenantUnexpected
    for tenant in ("", "a" * 257, "a\nb", "ä", "a,b"):
        assert invoke(scripted.url, tmp_path, tenant=tenant).end == "refused"
    assert len(scripted.calls) == 1


def test_nobody_takes_it_any_more(scripted, tmp_path):
    scripted.answers = [stream(GOOD)]
    assert invoke(scripted.url, tmp_path, tenant="t", takes=1).end == "unknown" and len(scripted.calls) == 1


def test_no_server_has_run_nothing(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert invoke(f"http://127.0.0.1:{port}", tmp_path, tenant="t", throttledMs=100).end == "refused"


def test_a_runtime(cloud, tmp_path):
    """Signed and formed as AWS wants it, the proxy judges; the runtime that runs behind it refuses what is none of its events."""
    cloud.pushes.amd64("team/tool", "v1")
    cloud.aws("lambda").create_function(
        FunctionName="f", Role=cloud.lambda_role(), PackageType="Image", Code={"ImageUri": cloud.image_uri("team/tool", "v1")},
        TenancyConfig={"TenantIsolationMode": "PER_TENANT"}, ImageConfig={"EntryPoint": [ENTRY, "lambda"]},
    )  # fmt: skip
    cloud.aws("lambda").get_waiter("function_active_v2").wait(FunctionName="f")
    result = invoke(cloud.url, tmp_path, tenant="s-1")
    assert result.end == "failed" and result.code == "Function.MalformedEvent", result
    (call,) = cloud.calls(operation="InvokeWithResponseStream")
    assert call["status"] == 200
