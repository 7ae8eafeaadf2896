# SPDX-License-Identifier: Apache-2.0
"""Agent frameworks, unchanged: each one's client of MCP and its client of a model service, whose rules for tools a stub enforces."""

import pytest

import doors
from binary import ROOT, is_watched
from model_stub import ModelStub
from test_serve import TOKENS

# The form of its model service, and whether it asks for streams.
PROGRAMS = {
    "openai_agents_mcp.py": ("openai-responses", False),
    "langchain_mcp.py": ("anthropic", False),
    "pydantic_ai_mcp.py": ("openai-chat", True),
    "adk_mcp.py": ("gemini", True),
    "ai_sdk_mcp.mjs": ("anthropic", True),
    "openai_agents_mcp.mjs": ("openai-responses", True),
}


@pytest.fixture(scope="module")
def shared(binary, tmp_path_factory):
    if is_watched(binary):
        pytest.skip("the runtime of such a build needs more memory than a sandbox has")
    served = doors.serve(binary, tmp_path_factory.mktemp("frameworks"))
    yield served
    assert served.stop() == 0


@pytest.fixture(scope="module")
def model():
    with ModelStub() as stub:
        yield stub


@pytest.mark.timeout(400)
@pytest.mark.parametrize("way", ["http", "stdio"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_agent_computes_in_two_calls(shared, model, program, way, tmp_path):
    interpreter = ROOT / "build/tools/node" if program.endswith(".mjs") else ROOT / "build/frameworks" / program.removesuffix(".py") / "bin/python"
    found = doors.attempt(shared, model, program, interpreter, way, tmp_path)
    assert found.failure() is None, (found.failure(), found.out, found.err[-3000:])
    # Two calls of run_code, one of end_session, and the last words.
    assert found.answered == [PROGRAMS[program]] * 4
    assert shared.ask("/v1/sessions", TOKENS["self"]).items() == [] and shared.ask_socket("/v1/sessions").items() == []
