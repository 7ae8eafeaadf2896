# SPDX-License-Identifier: Apache-2.0
"""/openapi.json against those who know what OpenAPI is, and the server against /openapi.json."""

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from openapi_spec_validator import validate

from binary import Berth
from lib.lab import TOKENS, client, stack
from lib.openapi import Judge, example
from lib.sessions import Sessions

CLIENTS = [client("self"), client("users", actsFor="users", realm="company"), client("watcher", may=["observe"]), client("file", may=["administer"])]
EXHAUSTIVE = bool(os.environ.get("BERTH_EXHAUSTIVE"))


@pytest.fixture(scope="module")
def shared(binary, tmp_path_factory):
    berth = Berth(binary, tmp_path_factory.mktemp("openapi"), "http://127.0.0.1:1")
    berth.write("stack.yaml", stack())
    berth("apply", "--yes").expect(0)
    made = Sessions(berth, clients=CLIENTS, sessions={"perOwner": 20})
    made.start("--accept-degraded")
    yield made
    assert made.stop() == 0


@pytest.fixture
def serve(shared):
    yield shared
    for session in shared.call("GET", "/v1/sessions?limit=1000", token=TOKENS["watcher"]).items():
        assert shared.call("DELETE", f"/v1/sessions/{session['id']}", token=TOKENS["file"]).status in (204, 404)


@pytest.fixture(scope="module")
def document(shared):
    return shared.ask("/openapi.json", TOKENS["self"]).json()


def resolved(document, part):
    return document["components"]["responses"][part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part


@pytest.fixture(scope="module")
def judge(document):
    return Judge(document)


def test_the_document(serve, document, binary, tmp_path):
    """It is one of OpenAPI's; the program prints the same with no stack about; who is not known does not get it."""
    validate(document)
    printed = subprocess.run([str(binary), "serve", "--print-openapi"], cwd=tmp_path, capture_output=True, check=True, env={}, timeout=60)
    assert json.loads(printed.stdout) == document and printed.stderr == b"" and list(tmp_path.iterdir()) == []
    serve.ask("/openapi.json").problem(401, "unauthenticated")
    assert document["openapi"] == "3.1.0" and len(document["paths"]) > 20
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert operation["summary"] and operation["responses"], (path, method)
            named = set(re.findall(r"\{(\w+)\}", path))
            assert named == {p["name"] for p in operation["parameters"] if p["in"] == "path"}, path


def test_generators_have_one_model_for_each_thing(document):
    """What generators make of it: all that is sent or answered has a schema, and each object a name, the same wherever it stands."""

    def inline(part, at):
        """Objects without a name below it."""
        if isinstance(part, list):
            return [found for n, item in enumerate(part) for found in inline(item, f"{at}/{n}")]
        if not isinstance(part, dict):
            return []
        found = [at] if isinstance(part.get("properties"), dict) and "object" in part.get("type", "") else []
        return found + [each for name, item in part.items() for each in inline(item, f"{at}/{name}")]

    document = copy.deepcopy(document)
    schemas = document["components"]["schemas"]
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for status, response in operation["responses"].items():
                content = resolved(document, response).get("content", {})
                if int(status) >= 400 and "text/plain" not in content:
                    assert content == problem and resolved(document, response)["x-berth-codes"], (path, method, status)
                assert all(media["schema"] for media in content.values()), (path, method, status)
            asked = operation.get("requestBody", {}).get("content", {})
            assert all(media["schema"] for media in asked.values()), (path, method)
            # A form's parts are named beside the first one: the only object that has no name.
            asked.pop("multipart/form-data", None)
    assert inline(document["paths"], "") == []
    for name, schema in schemas.items():
        below = {key: value for key, value in schema.items() if key != "properties"} | {"of": list(schema.get("properties", {}).values())}
        assert inline(below, name) == [], name
    unions = {name: schema for name, schema in schemas.items() if "discriminator" in schema}
    assert set(unions) == {"ExecutionEvent", "Event", "ContainerStatsEvent"}
    for union in unions.values():
        mapping = union["discriminator"]["mapping"]
        assert sorted(one["$ref"] for one in union["oneOf"]) == sorted(mapping.values()) and union["discriminator"]["propertyName"] == "event"
        for event, pointer in mapping.items():
            schema = schemas[pointer.rsplit("/", 1)[1]]
            assert schema["properties"]["event"]["const"] == event and "event" in schema["required"]
    assert {"type": "string", "format": "binary"} == document["paths"]["/v1/workspaces/{id}/files/{path}"]["put"]["requestBody"]["content"]["application/octet-stream"]["schema"]
    used = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert used == set(schemas), "each is used, and each that is used is there"


def test_its_examples_and_every_operation(serve, document, judge):
    """Each operation is used as the document shows it, and each answer is one that it tells of, member for member."""

    def ask(name, method, path, body=None, **more):
        return judge.of(name, serve.call(method, path, body, **more))

    session = ask("createSession", "POST", "/v1/sessions", example(document, "createSession")).json()["id"]
    assert ask("createSession", "POST", "/v1/sessions", example(document, "createSession")).status == 200
    at = f"/v1/sessions/{session}"
    result = ask("execute", "POST", f"{at}/executions", example(document, "execute")).json()
    assert result["value"]["text"] == "42"
    code = "import sys\nprint('out'); print('err', file=sys.stderr)\nopen('f', 'w').write('x')\nclass H:\n  def _repr_html_(s): return '<b>h</b>'\nH()"
    ask("execute", "POST", f"{at}/executions", {"code": code, "returnFiles": ["*"], "files": [{"path": "in/numbers.csv", "content": "1"}]})
    ask("execute", "POST", f"{at}/executions", {"code": "1/0"})
    assert ask("execute", "POST", f"{at}/executions", {"code": "1"}, headers=[("Prefer", "respond-async")]).status == 202
    ask("execute", "POST", f"{at}/executions", {"code": "1"}, headers=[("Accept", "text/event-stream")])
    ask("execute", "POST", f"{at}/executions", {"code": "1", "returnFiles": ["f"]}, headers=[("Accept", "multipart/mixed")])
    alone = ask("executeAlone", "POST", "/v1/execute", example(document, "executeAlone")).json()
    assert alone["stdout"]["content"] == "42\n"
    for path in (f"{at}/executions", f"{at}/executions?limit=1"):
        ask("listExecutions", "GET", path)
    for n in (1, 2, 3):
        ask("getExecution", "GET", f"{at}/executions/{n}")
    ask("followExecution", "GET", f"{at}/executions/1/events?from=0")
    ask("interruptExecution", "POST", f"{at}/executions/1/interrupt").problem(409, "not-running")
    waits = ask("execute", "POST", f"{at}/executions", {"code": "while True: pass"}, headers=[("Prefer", "respond-async")]).json()
    ask("getExecution", "GET", f"{at}/executions/{waits['n']}")
    ask("parkSession", "POST", f"{at}/park").problem(409, "busy")
    assert ask("interruptExecution", "POST", f"{at}/executions/{waits['n']}/interrupt").status == 204
    ask("followExecution", "GET", f"{at}/executions/{waits['n']}/events")
    ask("changeSession", "PATCH", at, example(document, "changeSession"))
    ask("getSession", "GET", at)
    ask("listSessions", "GET", "/v1/sessions?limit=1&status=idle&status=running&label=team")
    assert ask("restartSession", "POST", f"{at}/restart", example(document, "restartSession")).status == 204
    ask("parkSession", "POST", f"{at}/park")

    space, other = f"/v1/workspaces/{session}", alone["session"]
    ask("listWorkspaces", "GET", "/v1/workspaces?limit=1")
    ask("getWorkspace", "GET", space)
    ask("listFiles", "GET", f"{space}/files?prefix=in/&limit=1")
    assert ask("putFile", "PUT", f"{space}/files/a/b", b"bytes").status == 201
    assert ask("putFile", "PUT", f"{space}/files/a/b", b"other", headers=[("If-Match", "*")]).status == 200
    etag = ask("getFile", "GET", f"{space}/files/a/b").headers["etag"]
    assert ask("getFile", "GET", f"{space}/files/a/b", headers=[("Range", "bytes=1-2")]).status == 206
    assert ask("getFile", "GET", f"{space}/files/a/b", headers=[("If-None-Match", etag)]).status == 304
    ask("getFile", "GET", f"{space}/files/a/b", headers=[("Range", "bytes=99-")]).problem(416, "range-not-satisfiable")
    ask("getFile", "GET", f"{space}/files/a/b", headers=[("If-Match", '"x"')]).problem(412, "precondition-failed")
    head = serve.call("HEAD", f"{space}/files/a/b")
    assert (head.status, head.headers["etag"], head.body) == (200, etag, b"")
    ask("getArchive", "GET", f"{space}/archive?prefix=a/")
    for body in (example(document, "createTicket"), {}):
        ticket = ask("createTicket", "POST", f"{space}/tickets", body).json()
        assert judge.of("useTicket", serve.ask(ticket["address"])).status == 200
        judge.of("useTicket", serve.ask(ticket["address"])).problem(404, "not-found")
    copied = example(document, "copyFiles")
    copied["from"]["workspace"] = session
    assert [f["path"] for f in ask("copyFiles", "POST", f"/v1/workspaces/{other}/copy", copied).json()["changed"]] == ["copied/numbers.csv"]
    assert ask("deleteFile", "DELETE", f"{space}/files/a/b").status == 204
    ask("removeWorkspace", "DELETE", space).problem(409, "has-sessions")
    assert ask("removeWorkspace", "DELETE", f"/v1/workspaces/{other}").status == 204
    assert ask("endSession", "DELETE", at).status == 204

    for name, path in (("listEnvironments", "/v1/environments"), ("getEnvironment", "/v1/environments/data"), ("listAgents", "/v1/agents?limit=1"), ("getMap", "/v1/map"), ("getMetrics", "/metrics"), ("getOpenapi", "/openapi.json")):  # fmt: skip
        assert ask(name, "GET", path).status == 200
    for name, path in (("getHealth", "/healthz"), ("getReadiness", "/readyz")):
        assert judge.of(name, serve.ask(path)).status == 200
    # Problems, and all that were used: nothing was forgotten but the stream that never ends.
    ask("getEnvironment", "GET", "/v1/environments/none").problem(404, "unknown-environment")
    ask("listSessions", "GET", "/v1/sessions?what=1").problem(400, "invalid")
    ask("createSession", "POST", "/v1/sessions", {"environment": "data"}, token=TOKENS["watcher"]).problem(403, "not-permitted")
    # Those of containers and approvals are used in test_containers.py and test_approvals.py.
    every = {o["operationId"] for p in document["paths"].values() for o in p.values() if o["tags"][0] not in ("Containers", "Commands on the host")}
    assert every - {name for name, _ in judge.seen} == {"followAll", "getFileHead"}


# What the document calls right and the server refuses, by operation: createTicket has a path, of which one name may be longer than 255
# bytes, and a pattern counts characters; to those of files Schemathesis sends entity tags that are none, as it cannot make their
# pattern; a part of execute's form is named by its path, in a header field, which has no control characters. A key that came before, and a version that is another, are refused by statuses of their own.
SETTINGS = """
[checks]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 409, 412, 413, 414, 422, 429, 431]
positive_data_acceptance.expected-statuses = ["2xx", "3xx", 401, 403, 404, 409, 412, 416, 422, 429, 507]

[[operations]]
include-operation-id = ["createTicket", "getFile", "getFileHead", "putFile", "deleteFile"]
checks.positive_data_acceptance.enabled = false
"""


@pytest.mark.timeout(3600 if EXHAUSTIVE else 300)
def test_schemathesis_finds_nothing(serve, document, tmp_path):
    """No 500, no status, type or member that is not told of, nothing taken that it calls wrong, nothing refused that it calls right."""
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    (tmp_path / "settings.toml").write_text(SETTINGS.replace('["createTicket"', '["execute", "createTicket"') if EXHAUSTIVE else SETTINGS)  # coverage's names of parts have none
    serve.run(serve.create(), "1")
    phases = "examples,coverage,fuzzing,stateful" if EXHAUSTIVE else "coverage"
    fewer = [] if EXHAUSTIVE else ["--exclude-operation-id", "executeAlone"]  # a sandbox for each request
    found = subprocess.run(
        [str(Path(sys.executable).parent / "schemathesis"), "--config-file", "settings.toml", "run", "openapi.json", "-u", f"http://127.0.0.1:{serve.port}",
         "-H", f"Authorization: Bearer {serve.token}", "-H", f"Berth-Owner: {serve.owner}", "--exclude-path", "/v1/events",  # which has no end
         "--phases", phases, "--max-examples", "100" if EXHAUSTIVE else "5", "--seed", "7", "--generation-database", "none", "--continue-on-failure",
         "--request-timeout", "120", "--warnings", "off", "--no-color", *fewer],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-8000:] + found.stderr[-2000:]
    assert int(re.search(r"(\d+) generated", found.stdout)[1]) > 500, found.stdout[-2000:]
