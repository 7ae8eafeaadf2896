# SPDX-License-Identifier: Apache-2.0
"""Tools about containers, by the official SDK's client of MCP and by messages as they stand."""

import asyncio
import contextlib

import httpx2
import jsonschema
import mcp
import pytest
from mcp.client.streamable_http import streamable_http_client

from controllers import PATIENCE, wait_until
from lib.agent_loop import TOOLS
from lib.containers import serve, workers_of  # noqa: F401
from lib.lab import TOKENS
from mcp_client import Client
from model_services import refusals

CONTAINER_TOOLS = ["run_service", "list_containers", "container_logs", "stop_container"]
NEVER = "c-" + "a" * 26


@contextlib.asynccontextmanager
async def by_sdk(serve, mode):  # noqa: F811
    headers = {"Authorization": f"Bearer {TOKENS['self']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60 * PATIENCE) as http:
        where = streamable_http_client(f"http://127.0.0.1:{serve.port}/mcp", http_client=http)
        async with mcp.Client(where, mode=mode) as found:
            yield found


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_service_by_the_sdk(serve, mode):  # noqa: F811
    async def go():
        async with by_sdk(serve, mode) as found:
            tools = {tool.name: tool for tool in (await found.list_tools()).tools}
            assert list(tools) == TOOLS + CONTAINER_TOOLS
            assert refusals([{"name": t.name, "description": t.description, "inputSchema": t.input_schema, "outputSchema": t.output_schema} for t in tools.values()]) == []

            async def call(tool, /, **arguments):
                answer = await found.call_tool(tool, arguments)
                assert not answer.is_error, answer
                jsonschema.validate(answer.structured_content, tools[tool].output_schema)
                return answer.structured_content

            code = "import time\nfor n in range(300): print('line', n, flush=True)\ntime.sleep(600)"
            made = await call("run_service", agent="analyst", name="web", code=code)
            assert (made["type"], made["name"], made["owner"]) == ("service", "web", "client:self")
            for _ in range(200):
                log = await call("container_logs", container=made["id"], tail=2)
                if log["text"] == "line 298\nline 299\n":
                    break
                await asyncio.sleep(0.1)
            assert (log["text"], log["truncated"]) == ("line 298\nline 299\n", True)
            assert len((await call("container_logs", container=made["id"]))["text"].splitlines()) == 100
            (listed,) = (await call("list_containers", status="running"))["items"]
            assert listed["id"] == made["id"] and listed["usage"]["memoryBytes"] > 0
            stopped = await call("stop_container", container=made["id"])
            assert (stopped["status"], stopped["reason"]) == ("stopped", "stopped")
            assert (await call("list_containers", status="running"))["items"] == []
            return made["id"]

    made = asyncio.run(go())
    wait_until(lambda: not workers_of(made), timeout=60 * PATIENCE)


def test_what_is_refused_is_said(serve):  # noqa: F811
    alice, bob = Client(serve, TOKENS["users"], "alice"), Client(serve, TOKENS["users"], "bob")
    mine = serve.service("sleep", "600")

    def refused(who, name, **arguments):
        answer = who.ask("tools/call", name=name, arguments=arguments)
        assert answer["isError"] and "structuredContent" not in answer, answer
        return answer["content"][0]["text"]

    for tool in ("container_logs", "stop_container"):
        assert refused(bob, tool, container=mine) == refused(alice, tool, container=NEVER)
        assert "invalid" in refused(alice, tool, container="../x") and "invalid" in refused(alice, tool)
    assert bob.ask("tools/call", name="list_containers", arguments={})["structuredContent"]["items"] == []
    assert "one of them" in refused(alice, "run_service", agent="analyst") or "command" in refused(alice, "run_service", agent="analyst")
    assert "unknown-agent" in refused(alice, "run_service", agent="nobody", command=["true"])
    assert "invalid" in refused(alice, "run_service", agent="analyst", command=["true"], type="temporary")
    assert "invalid" in refused(alice, "container_logs", container=mine, since="yesterday")
    assert serve.show(mine)["status"] == "running"


def test_a_client_has_the_tools_that_it_may_use(serve):  # noqa: F811
    """One that may run containers alone reads no workspace by the way; one that may not has no such tool."""
    users, narrow = Client(serve, TOKENS["users"], "alice"), Client(serve, TOKENS["narrow"])
    assert [tool["name"] for tool in users.ask("tools/list")["tools"]] == CONTAINER_TOOLS
    assert [tool["name"] for tool in narrow.ask("tools/list")["tools"]] == TOOLS
    for who, name in ((users, "run_code"), (users, "read_file"), (narrow, "run_service"), (narrow, "stop_container")):
        assert who.ask("tools/call", name=name, arguments={})["error"]["code"] == -32602
    for method, params in (("resources/list", {}), ("resources/templates/list", {}), ("resources/read", {"uri": "berth://workspaces/s-" + "a" * 26 + "/x"})):
        assert users.ask(method, **params)["error"]["code"] == -32601
    assert serve.call("POST", "/mcp", {}, token=TOKENS["watcher"]).status == 403
