# SPDX-License-Identifier: Apache-2.0
"""Strands Agents: Berth's tools by its MCP client, its model by OpenAI's Chat Completions."""

import os
import sys

import httpx2
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from strands import Agent
from strands.models.openai import OpenAIModel
from strands.tools.mcp import MCPClient


def transport(kind):
    if kind == "http":
        http = httpx2.AsyncClient(headers={"Authorization": "Bearer " + os.environ["BERTH_TOKEN"]}, timeout=900)
        return streamable_http_client(os.environ["BERTH_URL"] + "/mcp", http_client=http)
    return stdio_client(StdioServerParameters(command=os.environ["BERTH"], args=["mcp", "-f", os.environ["BERTH_STACK"]]))


def main(kind, prompt):
    with MCPClient(lambda: transport(kind)) as berth:
        model = OpenAIModel(client_args={"base_url": os.environ["MODEL_URL"] + "/v1", "api_key": "stub"}, model_id="gpt-5")
        print(Agent(model=model, tools=berth.list_tools_sync(), callback_handler=None)(prompt))


main(*sys.argv[1:])
