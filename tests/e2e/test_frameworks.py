# SPDX-License-Identifier: Apache-2.0
"""Agent frameworks, unchanged: each one's client of MCP and its client of a model service, whose rules for tools a stub enforces."""

import os

import pytest

import doors
from binary import ROOT, is_watched
from lib.lab import TOKENS
from model_stub import ModelStub

# The form of its model service, whether it asks for streams, and whether its tools are strict ones.
PROGRAMS = {
    "openai_agents_mcp.py": ("openai-responses", False, True),
    "langchain_mcp.py": ("anthropic", False, False),
    "pydantic_ai_mcp.py": ("openai-chat", True, False),
    "adk_mcp.py": ("gemini", True, False),
    "ai_sdk_mcp.mjs": ("anthropic", True, False),
    "openai_agents_mcp.mjs": ("openai-responses", True, False),
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


def sessions(shared):
    """Of the client with the token, and of this user."""
    return shared.ask("/v1/sessions", TOKENS["self"]).items() + shared.ask_socket("/v1/sessions").items()


WAYS = [(program, way) for program in PROGRAMS for way in ("http", "stdio")]


# Each program by one way, so that each way is gone in Python and in JavaScript; by both with BERTH_EXHAUSTIVE=1, as in ./dev doors.
@pytest.mark.parametrize("program, way", WAYS if os.environ.get("BERTH_EXHAUSTIVE") else [pair for n, pair in enumerate(WAYS) if n % 4 in (0, 3)])
def test_an_agent_computes_in_two_calls(shared, model, program, way, tmp_path):
    interpreter = ROOT / "build/tools/node" if program.endswith(".mjs") else ROOT / "build/frameworks" / program.removesuffix(".py") / "bin/python"
    before = sessions(shared)
    found = doors.attempt(shared, model, program, interpreter, way, tmp_path)
    assert found.failure() is None, (found.failure(), found.out, found.err[-3000:])
    # Two calls of run_code, one of end_session, and the last words.
    assert found.answered == [PROGRAMS[program]] * 4
    assert sessions(shared) == before
