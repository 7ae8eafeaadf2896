# SPDX-License-Identifier: Apache-2.0
"""AutoGen: Berth's tools by an MCP workbench, its model by OpenAI's Chat Completions."""

import asyncio
import os
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams, StreamableHttpServerParams


def parameters(kind):
    if kind == "http":
        headers = {"Authorization": "Bearer " + os.environ["BERTH_TOKEN"]}
        return StreamableHttpServerParams(url=os.environ["BERTH_URL"] + "/mcp", headers=headers, timeout=900, sse_read_timeout=900)
    return StdioServerParams(command=os.environ["BERTH"], args=["mcp", "-f", os.environ["BERTH_STACK"]], read_timeout_seconds=900)


async def main(kind, prompt):
    model = OpenAIChatCompletionClient(model="gpt-4o", base_url=os.environ["MODEL_URL"] + "/v1", api_key="stub")
    async with McpWorkbench(parameters(kind)) as berth:
        agent = AssistantAgent("analyst", model_client=model, workbench=berth, max_tool_iterations=12)
        print((await agent.run(task=prompt)).messages[-1].content)


asyncio.run(main(*sys.argv[1:]))
