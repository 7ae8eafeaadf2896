# SPDX-License-Identifier: Apache-2.0
"""Inspect: Berth as the sandbox of an evaluation, its model by OpenAI's Chat Completions."""

import asyncio
import os
import shlex
import sys

import httpx
from berth_http import Session
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import ExecResult, SandboxEnvironment, sandboxenv


@sandboxenv(name="berth")
class BerthSandbox(SandboxEnvironment):
    def __init__(self, session):
        super().__init__()
        self.session = session

    @classmethod
    async def sample_init(cls, task_name, config, metadata):
        return {"default": cls(await asyncio.to_thread(Session))}

    @classmethod
    async def sample_cleanup(cls, task_name, config, environments, interrupted):
        for box in environments.values():
            await asyncio.to_thread(box.session.end)

    async def exec(self, cmd, input=None, cwd=None, env=None, user=None, timeout=None, timeout_retry=True, concurrency=True):
        wish = {"timeoutSeconds": min(timeout or 900, 900), "variables": env or {}}
        if input is not None:
            wish["stdin"] = input if isinstance(input, str) else input.decode()
        result = await asyncio.to_thread(self.session.run, (f"cd {shlex.quote(cwd)} && " if cwd else "") + shlex.join(cmd), **wish)
        if result["status"] == "timeout":
            raise TimeoutError(f"{cmd[0]} ran for more than {timeout} s")
        return ExecResult(result["exitCode"] == 0, result["exitCode"], result["stdout"]["content"], result["stderr"]["content"])

    async def write_file(self, file, contents):
        await asyncio.to_thread(self.session.put, file, contents)

    async def read_file(self, file, text=True):
        try:
            data = await asyncio.to_thread(self.session.get, file)
        except httpx.HTTPStatusError as error:
            raise FileNotFoundError(file) from error
        return data.decode() if text else data


def main(way, prompt):
    model = get_model("openai/gpt-4o", base_url=os.environ["MODEL_URL"] + "/v1", api_key="stub", responses_api=False)
    task = Task(dataset=[Sample(input=prompt, target="", files={"notes.txt": "hello"})], solver=[use_tools(bash(60)), generate()], sandbox="berth")
    (log,) = eval(task, model=model, display="none", log_dir="logs")
    if log.status != "success":
        sys.exit(str(log.error.message))
    print(log.samples[0].output.completion)


main(*sys.argv[1:])
