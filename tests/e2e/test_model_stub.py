# SPDX-License-Identifier: Apache-2.0
"""The stub of model services: it refuses what the services refuse, in each one's form."""

import json
import urllib.error
import urllib.request

import pytest

from model_stub import ModelStub

SOUND = {"type": "object", "properties": {"code": {"type": "string"}}}
BROKEN = {"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [{"required": ["a"]}]}
UNTYPED = {"type": "OBJECT", "properties": {"a": {"enum": ["x"]}}}
TEXT = "Keep 6 there. Multiply by 7."
# Where a tool stands in a request, and where the error's words and kind stand in the answer.
WIRE = {
    "/v1/messages": (
        {"x-api-key": "k", "anthropic-version": "2023-06-01"},
        lambda schema: {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": TEXT}], "tools": [{"name": "run_code", "input_schema": schema}]},
        lambda error: (error["type"], error["error"]["type"], error["error"]["message"]),
        (BROKEN, ("error", "invalid_request_error", "tools[0] run_code: allOf at the top level")),
    ),
    "/v1/chat/completions": (
        {"authorization": "Bearer k"},
        lambda schema: {"model": "m", "messages": [{"role": "user", "content": TEXT}], "tools": [{"type": "function", "function": {"name": "run_code", "parameters": schema}}]},
        lambda error: (error["error"]["type"], error["error"]["code"], error["error"]["message"]),
        (BROKEN, ("invalid_request_error", "invalid_function_parameters", "tools[0] run_code: allOf at the top level")),
    ),
    "/v1/responses": (
        {"authorization": "Bearer k"},
        lambda schema: {"model": "m", "input": TEXT, "tools": [{"type": "function", "name": "run_code", "parameters": schema}]},
        lambda error: (error["error"]["type"], error["error"]["code"], error["error"]["message"]),
        (BROKEN, ("invalid_request_error", "invalid_function_parameters", "tools[0] run_code: allOf at the top level")),
    ),
    "/v1beta/models/m:generateContent": (
        {"x-goog-api-key": "k"},
        lambda schema: {"contents": [{"role": "user", "parts": [{"text": TEXT}]}], "tools": [{"functionDeclarations": [{"name": "run_code", "parameters": schema}]}]},
        lambda error: (error["error"]["code"], error["error"]["status"], error["error"]["message"]),
        (UNTYPED, (400, "INVALID_ARGUMENT", "tools[0] run_code: input.a: the type is not one text")),
    ),
}  # fmt: skip


def post(url, body, headers):
    """Status and answer."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture(scope="module")
def model():
    with ModelStub() as stub:
        yield stub


@pytest.mark.parametrize("path", WIRE)
def test_a_broken_tool(model, path):
    headers, request, read, (broken, expected) = WIRE[path]
    assert post(model.url + path, request(SOUND), headers)[0] == 200
    status, error = post(model.url + path, request(broken), headers)
    assert (status, read(error)) == (400, expected)
    assert post(model.url + path, request(broken), {})[0] == 401


@pytest.mark.parametrize("path", WIRE)
def test_a_malformed_request(model, path):
    headers, request, read, _ = WIRE[path]
    whole = request(SOUND)
    for member in set(whole) - {"model", "tools", "max_tokens"}:
        status, error = post(model.url + path, {name: value for name, value in whole.items() if name != member}, headers)
        assert status == 400 and member in read(error)[2]
