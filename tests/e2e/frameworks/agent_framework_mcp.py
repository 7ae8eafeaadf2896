# SPDX-License-Identifier: Apache-2.0
"""Microsoft Agent Framework: Berth's tools by its MCP tools, its model by Responses."""

import asyncio
import os
import sys

from agent_framework import Agent, MCPStdioTool, MCPStreamableHTTPTool
from agent_framework.openai import OpenAIChatClient


def tool(kind):
    # Otherwise the model would see an answer's structured part alone, without its images.
    common = {"name": "berth", "tool_result_content": "content_first"}
    if kind == "http":
        headers = {"Authorization": "Bearer " + os.environ["BERTH_TOKEN"]}
        return MCPStreamableHTTPTool(url=os.environ["BERTH_URL"] + "/mcp", header_provider=lambda _: headers, **common)
    return MCPStdioTool(command=os.environ["BERTH"], args=["mcp", "-f", os.environ["BERTH_STACK"]], **common)


async def main(kind, prompt):
    client = OpenAIChatClient(model="gpt-5", api_key="stub", base_url=os.environ["MODEL_URL"] + "/v1")
    async with tool(kind) as berth:
        agent = Agent(client=client, name="analyst", instructions="Compute with run_code.", tools=[berth])
        print((await agent.run(prompt)).text)


asyncio.run(main(*sys.argv[1:]))
