# SPDX-License-Identifier: Apache-2.0
"""MCP by what others wrote in TypeScript: the official SDK as a client over both transports, and the official conformance suite."""

import json
import os
import socket
import subprocess

import pytest

from binary import Berth, is_watched
from controllers import PATIENCE
from lib.agent_loop import TOOLS
from lib.lab import TOKENS, client, stack
from lib.node import HERE, MODULES, NODE
from passers import Passer, break_off
from serving import Serve


@pytest.fixture(scope="module")
def shared(binary, tmp_path_factory):
    if is_watched(binary):
        pytest.skip("the runtime of such a build needs more memory than a sandbox has")
    berth = Berth(binary, tmp_path_factory.mktemp("node"), "http://127.0.0.1:1")
    berth.write("stack.yaml", stack())
    berth("apply", "--yes").expect(0)
    served = Serve(berth, clients=[client("self")]).start("--accept-degraded")
    yield served
    assert served.stop() == 0


@pytest.mark.parametrize("kind", ["http", "stdio"])
def test_the_sdk_in_typescript(shared, kind, tmp_path):
    """The answers are held against their schemas by the client itself."""
    (tmp_path / "node_modules").symlink_to(MODULES)
    (tmp_path / "agent.mjs").write_bytes((HERE / "agent.mjs").read_bytes())
    if kind == "http":
        args = ["http", f"http://127.0.0.1:{shared.port}/mcp", TOKENS["self"], "data"]
    else:
        args = ["stdio", "data", str(shared.berth.binary), "mcp", "-f", str(shared.berth.stack)]
    found = subprocess.run([NODE, "agent.mjs", *args], cwd=tmp_path, env=shared.berth.env, capture_output=True, timeout=120 * PATIENCE)
    assert found.returncode == 0, found.stderr.decode()
    said = json.loads(found.stdout)
    assert ("unauthenticated: the request has no token" in said["stranger"]) if kind == "http" else "stranger" not in said
    # Its own server has no clients of fewer rights.
    of_containers = ["run_service", "list_containers", "container_logs", "stop_container"] if kind == "stdio" else []
    assert said["tools"] == TOOLS + of_containers and said["server"] == "berth"
    assert [h["value"]["text"] for h in said["history"]] == ["25", "1085"]
    assert said["progress"] and said["text"] == "from the client" and said["templates"] == 1
    assert (said["refused"], said["wasCancelled"], said["after"]) == (True, True, "25")


# --- the conformance suite ---

FIXTURE = "calls a tool, a prompt or a resource of the suite's own server, which this one has not"
PROMPTS = "there are no prompts"
OTHER = "the scenario is of a feature that is not declared: "
# Scenarios of which a check fails, each with the reason; checks of others all pass. A name behind a slash is that one check of it.
NOT_APPLICABLE = {
    **dict.fromkeys(
        ("tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content",
         "tools-call-error", "tools-call-with-progress", "tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults",
         "elicitation-sep1330-enums", "resources-read-text", "resources-read-binary", "resources-templates-read", "json-schema-2020-12"),
        FIXTURE,
    ),
    **dict.fromkeys(("prompts-list", "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource", "prompts-get-with-image"), PROMPTS),
    "caching/sep-2549-prompts-list-caching-hints": PROMPTS,
    "completion-complete": OTHER + "completions",
    "logging-set-level": OTHER + "logging",
    "tools-call-with-logging": OTHER + "logging",
    "resources-subscribe": OTHER + "resources.subscribe",
    "resources-unsubscribe": OTHER + "resources.subscribe",
    "http-custom-header-server-validation": "no tool has arguments that are mirrored into headers",
    "server-stateless/sep-2575-server-rejects-undeclared-capability": FIXTURE,
    "server-stateless/sep-2575-missing-capability-http-400": FIXTURE,
    "server-stateless/sep-2575-http-server-no-independent-requests-on-stream": FIXTURE,
    "server-stateless/sep-2575-server-no-log-without-loglevel": FIXTURE,
}  # fmt: skip
FAMILIES = {
    "input-required-result-": "no tool asks for input in the midst of a call: what needs a person's word comes with the shell behind approvals",
    "tasks-": OTHER + "the extension of tasks",
}
# What has to be among those that pass, lest a suite that runs nothing pass.
PASS = {
    "2026-07-28": {"server-stateless", "tools-list", "server-sse-multiple-streams", "resources-list", "sep-2164-resource-not-found", "dns-rebinding-protection", "caching", "http-header-validation"},
    "2025-11-25": {"server-initialize", "ping", "tools-list", "server-sse-multiple-streams", "resources-list", "dns-rebinding-protection", "server-session-lifecycle"},
}  # fmt: skip


class Forwarder(Passer):
    """The suite sends no token: it speaks with the Unix socket, where none is asked for."""

    def __init__(self, path):
        self.path = str(path)
        super().__init__()

    def reach(self):
        inner = socket.socket(socket.AF_UNIX)
        folder = os.open(os.path.dirname(self.path), os.O_PATH)
        inner.connect(f"/proc/self/fd/{folder}/serve.sock")
        os.close(folder)
        return inner

    def ended(self, source, target):
        break_off(source, target)


@pytest.mark.parametrize("revision", sorted(PASS))
def test_conformance(shared, revision, tmp_path):
    run = shared.ask_socket("/v1/execute", method="POST", headers=[("Content-Type", "application/json")], body=b'{"environment": "web", "code": "open(\'a\', \'w\').write(\'b\')"}')
    assert run.json()["status"] == "ok"  # a file: so there is a resource
    forwarder = Forwarder(shared.state / "serve.sock")
    try:
        found = subprocess.run(
            [NODE, MODULES / "@modelcontextprotocol/conformance/dist/index.js", "server", "--url", f"http://127.0.0.1:{forwarder.port}/mcp",
             "--requirements", revision, "--output-dir", tmp_path, "--timeout", str(int(60000 * PATIENCE))],
            cwd=tmp_path, env=shared.berth.env, capture_output=True, timeout=300 * PATIENCE,
        )  # fmt: skip
    finally:
        forwarder.close()
    passed, unknown = set(), []
    for file in tmp_path.glob("server-*/checks.json"):
        scenario = file.parent.name.removeprefix("server-").rsplit(f"-{2026}-", 1)[0]
        for check in json.loads(file.read_text()):
            if check["status"] == "SUCCESS":
                passed.add(scenario)
            known = {scenario, f"{scenario}/{check['id']}"} & set(NOT_APPLICABLE) or any(scenario.startswith(f) for f in FAMILIES)
            if check["status"] in ("FAILURE", "WARNING") and (not known or check["id"].startswith("wire-schema")):
                unknown.append((scenario, check["id"], check.get("errorMessage")))
    assert unknown == [], found.stdout.decode()[-2000:]
    assert PASS[revision] <= passed, (PASS[revision] - passed, found.stdout.decode()[-2000:], found.stderr.decode()[-2000:])
