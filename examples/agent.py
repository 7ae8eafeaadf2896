# SPDX-License-Identifier: Apache-2.0
"""
An agent's loop over MCP: a model asks for code to be run, is told what came of it, and asks again until it has its answer.

    pip install mcp
    python3 agent.py berth mcp -f agents                       # starts what it needs, and speaks by standard input and output
    BERTH_TOKEN=... python3 agent.py http://127.0.0.1:9471/mcp  # at a server

The model here is a stub, so that the example runs without an account: put the call to yours in place of `model`. What it is given is what
every provider's API for tools takes: a list of messages, and of tools with the schemas of their arguments.
"""

import asyncio
import contextlib
import os
import re
import sys

import httpx2
import mcp
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

ENVIRONMENT = os.environ.get("BERTH_ENVIRONMENT")  # where there are several, one must be named


def model(messages, tools):
    """Two turns of computing, the second with what the first has found; then the answer. Gives {tool, arguments}, or {text}."""
    assert any(tool["name"] == "run_code" for tool in tools)
    told = [message["content"] for message in messages if message["role"] == "tool"]
    if not told:
        code = "def is_prime(n):\n    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))\nprimes = [n for n in range(1000) if is_prime(n)]\nlen(primes)"
        where = {"environment": ENVIRONMENT} if ENVIRONMENT else {}
        return {"tool": "run_code", "arguments": {"code": code, **where}}
    if len(told) == 1:
        # The variables are still there: the session is the one of the first answer.
        session = re.search(r"session_id (s-\w+)", told[0]).group(1)
        return {"tool": "run_code", "arguments": {"code": "sum(primes) / len(primes)", "session_id": session}}
    count, mean = (text.splitlines()[0] for text in told)
    return {"text": f"There are {count} primes below 1000, and their mean is {float(mean):.2f}."}


def transport(where):
    """The client's way to the server: an address, or a command."""
    if where[0].startswith(("http://", "https://")):
        headers = {"Authorization": f"Bearer {os.environ['BERTH_TOKEN']}"}
        http = httpx2.AsyncClient(headers=headers, timeout=900)
        return streamable_http_client(where[0], http_client=http)
    # A client of MCP passes on few of its variables unless it is told to.
    return stdio_client(StdioServerParameters(command=where[0], args=where[1:], env=dict(os.environ)))


async def run(where, question):
    async with mcp.Client(transport(where)) as client:
        tools = [{"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in (await client.list_tools()).tools]
        messages, session = [{"role": "user", "content": question}], None
        try:
            while "text" not in (turn := model(messages, tools)):
                result = await client.call_tool(turn["tool"], turn["arguments"])
                content = result.content[0].text  # what a model reads; structured_content has the whole
                messages += [{"role": "assistant", "content": turn}, {"role": "tool", "content": content}]
                if result.is_error:
                    raise SystemExit(f"the tool {turn['tool']} could not do it: {content}")
                session = result.structured_content.get("session", session)
            return turn["text"]
        finally:
            if session:
                with contextlib.suppress(mcp.MCPError):
                    await client.call_tool("end_session", {"session_id": session})


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__.strip())
    print(asyncio.run(run(sys.argv[1:], "How many primes are there below 1000, and what is their mean?")))
