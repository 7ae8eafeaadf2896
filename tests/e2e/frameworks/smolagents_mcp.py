# SPDX-License-Identifier: Apache-2.0
"""smolagents: Berth's tools by its MCP client, its model by OpenAI's Chat Completions."""

import os
import sys

from mcp import StdioServerParameters
from smolagents import MCPClient, OpenAIServerModel, ToolCallingAgent


def parameters(kind):
    if kind == "http":
        headers = {"Authorization": "Bearer " + os.environ["BERTH_TOKEN"]}
        return {"url": os.environ["BERTH_URL"] + "/mcp", "transport": "streamable-http", "headers": headers}
    return StdioServerParameters(command=os.environ["BERTH"], args=["mcp", "-f", os.environ["BERTH_STACK"]])


def main(kind, prompt):
    with MCPClient(parameters(kind), structured_output=False) as tools:
        model = OpenAIServerModel("gpt-5", api_base=os.environ["MODEL_URL"] + "/v1", api_key="stub")
        print(ToolCallingAgent(tools=tools, model=model, verbosity_level=0, max_steps=12).run(prompt))


main(*sys.argv[1:])
