# SPDX-License-Identifier: Apache-2.0
"""Haystack: Berth's tools by its MCP toolset, its model by OpenAI's Chat Completions."""

import os
import sys

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret
from haystack_integrations.tools.mcp import MCPToolset, StdioServerInfo, StreamableHttpServerInfo


def toolset(kind):
    # Haystack waits 30 seconds for a tool unless it is told otherwise.
    if kind == "http":
        server = StreamableHttpServerInfo(url=os.environ["BERTH_URL"] + "/mcp", token=Secret.from_env_var("BERTH_TOKEN"), timeout=900)
    else:
        server = StdioServerInfo(command=os.environ["BERTH"], args=["mcp", "-f", os.environ["BERTH_STACK"]])
    return MCPToolset(server, invocation_timeout=900)


def main(kind, prompt):
    model = OpenAIChatGenerator(model="gpt-5", api_base_url=os.environ["MODEL_URL"] + "/v1", api_key=Secret.from_token("stub"))
    agent = Agent(chat_generator=model, tools=toolset(kind), max_agent_steps=20)
    print(agent.run(messages=[ChatMessage.from_user(prompt)])["messages"][-1].text)


main(*sys.argv[1:])
