# SPDX-License-Identifier: Apache-2.0
"""
The Runtime API of these tests as AWS's own client for it (awslambdaric) sees it: it starts, answers, fails, and echoes as it does on
Lambda. So what berth-runtime is tested against is what others speak, too. And what the API refuses, by the letter.
"""

import contextlib
import http.client
import json
import os
import subprocess
import sys

import pytest

from runtime_api import PREFIX, RESPONSE_MAX, RuntimeApi
from runtime_client import wait_until

HANDLERS = """
def echo(event, context):
    return {"event": event, "id": context.aws_request_id, "tenant": context.tenant_id, "left": context.get_remaining_time_in_millis()}

def broken(event, context):
    raise ValueError("on purpose")

def large(event, context):
    return "x" * (6 * 1024 * 1024 + 200)
"""


@contextlib.contextmanager
def ric(tmp_path, handler):
    (tmp_path / "handlers.py").write_text(HANDLERS)
    api = RuntimeApi()
    variables = {"PATH": os.environ["PATH"], "AWS_LAMBDA_RUNTIME_API": api.address, "LAMBDA_TASK_ROOT": str(tmp_path), "AWS_LAMBDA_FUNCTION_NAME": "f"}
    process = subprocess.Popen([sys.executable, "-m", "awslambdaric", handler], cwd=tmp_path, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield api, process
    finally:
        process.kill()
        process.wait()
        api.close()


def test_it_answers_and_echoes(tmp_path):
    with ric(tmp_path, "handlers.echo") as (api, _):
        for number in range(3):
            invocation = api.invoke({"n": number}, tenant="s-1", invocation_id=number > 0).wait()
            said = json.loads(invocation.body)
            assert invocation.error is None and invocation.mode == "buffered"
            assert (said["event"], said["id"], said["tenant"]) == ({"n": number}, invocation.id, "s-1")
            assert 0 < said["left"] <= 120_000
            assert invocation.echoed == invocation.invocation_id
        assert api.log == []


def test_its_errors_are_errors(tmp_path):
    with ric(tmp_path, "handlers.broken") as (api, _):
        for _ in range(2):
            kind, body = api.invoke({}).wait().error
            assert body["errorType"] == "ValueError" and body["errorMessage"] == "on purpose" and kind == "ValueError"
        assert api.log == []


def test_what_is_too_large_is_413(tmp_path):
    with ric(tmp_path, "handlers.large") as (api, _):
        invocation = api.invoke({}).wait()
        assert invocation.error[0] == "Function.ResponseSizeTooLarge"
        assert [status for _, _, status in api.log] == [413] and len(invocation.body) > RESPONSE_MAX


def test_its_start_fails_where_there_is_no_handler(tmp_path):
    with ric(tmp_path, "nowhere.handler") as (api, process):
        wait_until(lambda: api.init_error or process.poll() is not None, "it gives up")
        kind, body = api.init_error
        assert kind == body["errorType"] and "ImportModuleError" in kind and "nowhere" in body["errorMessage"]


@pytest.fixture
def raw():
    api = RuntimeApi()

    def ask(method, path, body=None, headers=()):
        connection = http.client.HTTPConnection(api.address, timeout=60)
        connection.request(method, PREFIX + path, body, dict(headers))
        answer = connection.getresponse()
        answer.data = answer.read()
        return answer

    yield api, ask
    api.close()


def test_states(raw):
    api, ask = raw
    assert ask("POST", "invocation/none/response", b"{}").status == 400
    first = api.invoke({"a": 1}, tenant="s-1")
    answer = ask("GET", "invocation/next")
    assert answer.status == 200 and json.loads(answer.data) == {"a": 1}
    assert answer.headers["Lambda-Runtime-Aws-Request-Id"] == first.id and answer.headers["Lambda-Runtime-Aws-Tenant-Id"] == "s-1"
    assert int(answer.headers["Lambda-Runtime-Deadline-Ms"]) == first.deadline
    assert ask("GET", "invocation/next").status == 403
    assert ask("POST", "init/error", b"{}").status == 403
    assert ask("POST", "invocation/other/response", b"{}").status == 400
    assert ask("POST", f"invocation/{first.id}/response", b"{}", {"Lambda-Runtime-Invocation-Id": "another"}).status == 400
    assert ask("POST", f"invocation/{first.id}/response", b"{}").status == 202
    assert first.wait().error is None
    assert ask("POST", f"invocation/{first.id}/response", b"{}").status == 403
    assert ask("POST", f"invocation/{first.id}/error", b"{}").status == 403
    assert [json.loads(ask("POST", f"invocation/{first.id}/error", b"{}").data)["errorType"]] == ["InvalidStateTransition"]


def test_trailers_are_errors(raw):
    api, ask = raw
    invocation = api.invoke({})
    ask("GET", "invocation/next")
    connection = http.client.HTTPConnection(api.address, timeout=60)
    connection.putrequest("POST", f"{PREFIX}invocation/{invocation.id}/response")
    for name, value in (("Lambda-Runtime-Function-Response-Mode", "streaming"), ("Transfer-Encoding", "chunked"), ("Trailer", "Lambda-Runtime-Function-Error-Type, Lambda-Runtime-Function-Error-Body")):
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(b"3\r\nabc\r\n0\r\nLambda-Runtime-Function-Error-Type: Runtime.X\r\nLambda-Runtime-Function-Error-Body: eyJhIjoxfQ==\r\n\r\n")
    assert connection.getresponse().status == 202
    assert invocation.wait().body == b"abc" and invocation.error == ("Runtime.X", {"a": 1})
