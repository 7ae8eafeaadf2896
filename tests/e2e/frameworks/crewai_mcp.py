# SPDX-License-Identifier: Apache-2.0
"""CrewAI: Berth's tools by its adapter, its model by OpenAI's Chat Completions."""

import os
import sys

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"

from crewai import LLM, Agent, Crew, Task  # noqa: E402
from crewai_tools import MCPServerAdapter  # noqa: E402
from mcp import StdioServerParameters  # noqa: E402


def parameters(kind):
    if kind == "http":
        headers = {"Authorization": "Bearer " + os.environ["BERTH_TOKEN"]}
        return {"url": os.environ["BERTH_URL"] + "/mcp", "transport": "streamable-http", "headers": headers}
    return StdioServerParameters(command=os.environ["BERTH"], args=["mcp", "-f", os.environ["BERTH_STACK"]])


def main(kind, prompt):
    with MCPServerAdapter(parameters(kind), connect_timeout=30) as tools:
        model = LLM(model="openai/gpt-4o", base_url=os.environ["MODEL_URL"] + "/v1", api_key="stub")
        analyst = Agent(role="analyst", goal="compute", backstory="You compute with run_code.", tools=tools, llm=model, max_iter=20)
        task = Task(description=prompt, expected_output="a number", agent=analyst)
        print(Crew(agents=[analyst], tasks=[task]).kickoff())


main(*sys.argv[1:])
