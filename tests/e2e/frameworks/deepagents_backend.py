# SPDX-License-Identifier: Apache-2.0
"""Deep Agents: Berth as its sandbox by its backend protocol, its model by Anthropic's Messages."""

import os
import sys

import httpx
from berth_http import Session
from deepagents import create_deep_agent
from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox
from langchain_anthropic import ChatAnthropic


class BerthSandbox(BaseSandbox):
    """Commands are executions of a session, files those of its workspace."""

    def __init__(self, session):
        self.session = session

    @property
    def id(self):
        return self.session.id

    def execute(self, command, *, timeout=None):
        result = self.session.run(command, timeoutSeconds=min(timeout or 900, 900))
        said = result["stdout"]["content"] + result["stderr"]["content"]
        exit_code = 124 if result["status"] == "timeout" else result["exitCode"]
        return ExecuteResponse(output=said, exit_code=exit_code, truncated=result["stdout"]["truncated"] or result["stderr"]["truncated"])

    def upload_files(self, files):
        return [FileUploadResponse(path=path, error=self._try(lambda: self.session.put(path, data))[1]) for path, data in files]

    def download_files(self, paths):
        answers = ((path, *self._try(lambda: self.session.get(path))) for path in paths)
        return [FileDownloadResponse(path=path, content=content, error=error) for path, content, error in answers]

    @staticmethod
    def _try(action):
        try:
            return action(), None
        except httpx.HTTPStatusError as error:
            return None, "file_not_found" if error.response.status_code == 404 else "invalid_path"


def main(way, prompt):
    session = Session()
    try:
        model = ChatAnthropic(model="claude-sonnet-4-5", base_url=os.environ["MODEL_URL"], api_key="stub", max_retries=0)
        agent = create_deep_agent(model=model, backend=BerthSandbox(session), system_prompt="Your files are in /workspace.")
        print(agent.invoke({"messages": [("user", prompt)]})["messages"][-1].text)
    finally:
        session.end()


main(*sys.argv[1:])
