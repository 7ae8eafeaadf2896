# SPDX-License-Identifier: Apache-2.0
"""A model's loop over MCP's tools."""

import jsonschema
import pytest

from binary import is_watched
from lib.lab import client
from serving import Serve

TOOLS = ["run_code", "list_sessions", "end_session", "list_files", "read_file", "write_file", "copy_files"]


@pytest.fixture(scope="module")
def shared(place, binary, tmp_path_factory):
    if is_watched(binary):
        pytest.skip("the runtime of such a build needs more memory than a sandbox has")
    berth = place.berth(binary, tmp_path_factory.mktemp("mcp"))
    place.apply(berth)
    clients = [client("self"), client("users", actsFor="users", realm="company", may=["execute", "observe", "administer"])]
    served = Serve(berth, clients=[*clients, client("narrow", environments=["web"]), client("watcher", may=["observe"])])
    served.start("--accept-degraded")
    yield served
    assert served.stop() == 0


def model(history, first):
    """A model of two turns: it computes, looks at what came back, and computes on with it."""
    if not history:
        return "run_code", {**first, "code": "primes = [n for n in range(2, 100) if all(n % d for d in range(2, n))]\nlen(primes)"}
    if len(history) == 1:
        return "run_code", {"code": f"sum(primes) + {history[0]['value']['text']}", "session_id": history[0]["session"]}
    return None


async def agent_loop(found, **first):
    history = []
    tools = {tool.name: tool for tool in (await found.list_tools()).tools}
    while turn := model(history, first):
        name, arguments = turn
        jsonschema.validate(arguments, tools[name].input_schema)
        answer = await found.call_tool(name, arguments)
        jsonschema.validate(answer.structured_content, tools[name].output_schema)
        history.append(answer.structured_content)
    await found.call_tool("end_session", {"session_id": history[0]["session"]})
    return history
