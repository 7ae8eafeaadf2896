# SPDX-License-Identifier: Apache-2.0
"""LangChain: Berth's tools by langchain-mcp-adapters, its model by Anthropic's Messages."""

import asyncio
import os
import sys
from datetime import timedelta

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_mcp_adapters.client import MultiServerMCPClient


def connection(kind):
    if kind == "http":
        headers = {"Authorization": "Bearer " + os.environ["BERTH_TOKEN"]}
        wait = timedelta(seconds=900)
        return {"transport": "streamable_http", "url": os.environ["BERTH_URL"] + "/mcp", "headers": headers, "timeout": wait, "sse_read_timeout": wait}
    return {"transport": "stdio", "command": os.environ["BERTH"], "args": ["mcp", "-f", os.environ["BERTH_STACK"]]}


async def main(kind, prompt):
    # Each call opens a connection of its own, and starts a `berth mcp` of its own: the session outlives both.
    tools = await MultiServerMCPClient({"berth": connection(kind)}).get_tools()
    model = ChatAnthropic(model="claude-sonnet-4-5", base_url=os.environ["MODEL_URL"], api_key="stub", max_retries=0)
    agent = create_agent(model, tools, system_prompt="Compute with run_code.")
    state = await agent.ainvoke({"messages": [("user", prompt)]})
    print(state["messages"][-1].text)


asyncio.run(main(*sys.argv[1:]))
