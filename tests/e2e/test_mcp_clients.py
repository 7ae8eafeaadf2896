# SPDX-License-Identifier: Apache-2.0
"""What examples/agent.py and docs/mcp.md tell people to run and to copy, over each transport."""

import asyncio
import json
import re
import subprocess
import sys
import textwrap

import pytest

from binary import ROOT
from controllers import PATIENCE
from lib.agent_loop import shared  # noqa: F401
from lib.lab import TOKENS

DOCS = (ROOT / "docs/mcp.md").read_text()


def agent(serve, *where, **env):
    return subprocess.run(
        [sys.executable, ROOT / "examples/agent.py", *where], cwd=serve.berth.stack, capture_output=True, text=True, timeout=120 * PATIENCE,
        env={**serve.berth.env, "BERTH_ENVIRONMENT": "data", **env},
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["http", "stdio"])
def test_an_agents_loop(shared, kind):  # noqa: F811
    address = f"http://127.0.0.1:{shared.port}/mcp"
    where = [address] if kind == "http" else [str(shared.berth.binary), "mcp", "-f", "."]
    found = agent(shared, *where, BERTH_TOKEN=TOKENS["self"])
    assert (found.returncode, found.stdout) == (0, "There are 168 primes below 1000, and their mean is 453.14.\n"), found.stderr
    # It ends what it has made.
    assert shared.ask("/v1/sessions", TOKENS["self"]).json()["items"] == []
    assert [s for s in shared.ask_socket("/v1/sessions").json()["items"] if s["environment"] == "data"] == []


def test_an_agent_is_told_why_not(shared):  # noqa: F811
    found = agent(shared, f"http://127.0.0.1:{shared.port}/mcp", BERTH_TOKEN=TOKENS["self"], BERTH_ENVIRONMENT="never")
    assert found.returncode != 0 and "there is no environment never" in found.stderr, found.stderr


def test_the_lines_to_copy():
    """JSON that a client can read, of the form that each has."""
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", DOCS, re.S)]
    started, at_server = (block["mcpServers"]["berth"] for block in blocks)
    assert started == {"command": "berth", "args": ["mcp", "-f", "/path/to/agents"]}
    assert at_server["headers"]["Authorization"].startswith("Bearer ") and at_server["url"].endswith("/mcp")
    editor = json.loads(re.search(r"`(\{\"servers\".*?\})`", DOCS).group(1))
    assert editor["servers"]["berth"] == {"type": "stdio", **started}


def test_the_program_in_the_docs(shared, capsys):  # noqa: F811
    """With the environment named, since the tests' stack has two."""
    code = re.search(r"```python\n(.*?)```", DOCS, re.S).group(1)
    code = code.replace("http://127.0.0.1:9471", f"http://127.0.0.1:{shared.port}").replace("TOKEN", TOKENS["self"])
    changed = code.replace('{"code": "x = 41"}', '{"code": "x = 41", "environment": "data"}')
    assert changed != code
    place = {}
    exec(compile("async def main():\n" + textwrap.indent(changed, "    "), "docs/mcp.md", "exec"), place)  # noqa: S102 - our own docs
    asyncio.run(place["main"]())
    assert "'text': '42'" in capsys.readouterr().out
