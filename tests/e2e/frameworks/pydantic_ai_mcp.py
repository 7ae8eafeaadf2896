# SPDX-License-Identifier: Apache-2.0
"""Pydantic AI: Berth's tools by its MCP toolset, its model by OpenAI's Chat Completions, as streams."""

import asyncio
import os
import sys

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


def toolset(kind):
    # With include_instructions the model gets Berth's own words about sessions.
    common = {"include_instructions": True, "read_timeout": 900}
    if kind == "http":
        return MCPToolset(os.environ["BERTH_URL"] + "/mcp", headers={"Authorization": "Bearer " + os.environ["BERTH_TOKEN"]}, **common)
    return MCPToolset(StdioTransport(os.environ["BERTH"], ["mcp", "-f", os.environ["BERTH_STACK"]]), **common)


async def main(kind, prompt):
    model = OpenAIChatModel("gpt-5", provider=OpenAIProvider(base_url=os.environ["MODEL_URL"] + "/v1", api_key="stub"))
    agent = Agent(model, toolsets=[toolset(kind)])
    async with agent, agent.run_stream(prompt) as result:
        print(await result.get_output())


asyncio.run(main(*sys.argv[1:]))
