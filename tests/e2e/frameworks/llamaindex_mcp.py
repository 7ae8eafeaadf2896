# SPDX-License-Identifier: Apache-2.0
"""LlamaIndex: Berth's tools by its MCP tool spec, its model by OpenAI's Chat Completions."""

import asyncio
import os
import sys

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


def client(kind):
    # LlamaIndex waits 30 seconds for a tool unless it is told otherwise.
    if kind == "http":
        return BasicMCPClient(os.environ["BERTH_URL"] + "/mcp", headers={"Authorization": "Bearer " + os.environ["BERTH_TOKEN"]}, timeout=900)
    return BasicMCPClient(os.environ["BERTH"], args=["mcp", "-f", os.environ["BERTH_STACK"]], timeout=900)


async def main(kind, prompt):
    tools = await McpToolSpec(client=client(kind)).to_tool_list_async()
    model = OpenAILike(model="gpt-5", api_base=os.environ["MODEL_URL"] + "/v1", api_key="stub", is_chat_model=True, is_function_calling_model=True)
    print(await FunctionAgent(tools=tools, llm=model, system_prompt="Compute with run_code.").run(prompt, max_iterations=20))


asyncio.run(main(*sys.argv[1:]))
