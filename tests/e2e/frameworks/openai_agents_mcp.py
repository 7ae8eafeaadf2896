# SPDX-License-Identifier: Apache-2.0
"""OpenAI Agents SDK for Python: Berth's tools by its MCP servers, its model by Responses, in strict mode."""

import asyncio
import os
import sys

from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from openai import AsyncOpenAI

set_tracing_disabled(True)


def server(kind):
    # The SDK waits five seconds for a tool unless it is told otherwise; Berth's code may run for 900.
    common = {"name": "berth", "client_session_timeout_seconds": 900, "cache_tools_list": True}
    if kind == "http":
        headers = {"Authorization": "Bearer " + os.environ["BERTH_TOKEN"]}
        return MCPServerStreamableHttp(params={"url": os.environ["BERTH_URL"] + "/mcp", "headers": headers, "timeout": 900, "sse_read_timeout": 900}, **common)
    return MCPServerStdio(params={"command": os.environ["BERTH"], "args": ["mcp", "-f", os.environ["BERTH_STACK"]]}, **common)


async def main(kind, prompt):
    client = AsyncOpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="stub", max_retries=0)
    async with server(kind) as berth:
        agent = Agent(
            name="analyst", model=OpenAIResponsesModel("gpt-5", client), instructions="Compute with run_code.", mcp_servers=[berth],
            mcp_config={"convert_schemas_to_strict": True},
        )  # fmt: skip
        print((await Runner.run(agent, prompt)).final_output)


asyncio.run(main(*sys.argv[1:]))
