# SPDX-License-Identifier: Apache-2.0
"""Google ADK: Berth's tools by its MCP toolset, its model by Gemini's generateContent, as streams."""

import asyncio
import os
import sys

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.google_llm import Gemini
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams, StreamableHTTPConnectionParams
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
from google.genai import types
from mcp import StdioServerParameters


def toolset(kind):
    # ADK waits five seconds for a tool unless it is told otherwise.
    if kind == "http":
        headers = {"Authorization": "Bearer " + os.environ["BERTH_TOKEN"]}
        return McpToolset(connection_params=StreamableHTTPConnectionParams(url=os.environ["BERTH_URL"] + "/mcp", headers=headers, timeout=900, sse_read_timeout=900))
    parameters = StdioServerParameters(command=os.environ["BERTH"], args=["mcp", "-f", os.environ["BERTH_STACK"]])
    return McpToolset(connection_params=StdioConnectionParams(server_params=parameters, timeout=900))


async def main(kind, prompt):
    os.environ["GOOGLE_API_KEY"] = "stub"
    berth = toolset(kind)
    model = Gemini(model="gemini-2.5-flash", base_url=os.environ["MODEL_URL"])
    runner = InMemoryRunner(agent=LlmAgent(name="analyst", model=model, instruction="Compute with run_code.", tools=[berth]), app_name="berth")
    session = await runner.session_service.create_session(app_name="berth", user_id="u")
    message = types.Content(role="user", parts=[types.Part(text=prompt)])
    config = RunConfig(streaming_mode=StreamingMode.SSE)
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message, run_config=config):
        if event.is_final_response() and event.content:
            print("".join(part.text or "" for part in event.content.parts))
    await berth.close()


asyncio.run(main(*sys.argv[1:]))
