# SPDX-License-Identifier: Apache-2.0
"""What an agent framework's own sandbox needs of Berth's HTTP: a session, its commands, its files. Only httpx is used."""

import os
from urllib.parse import quote

import httpx


class Session:
    def __init__(self):
        self.http = httpx.Client(base_url=os.environ["BERTH_URL"], headers={"Authorization": "Bearer " + os.environ["BERTH_TOKEN"]}, timeout=930)
        self.id = self._ask("POST", "/v1/sessions", json={"environment": "notebooks"}).json()["id"]

    def _ask(self, method, path, **how):
        return self.http.request(method, path, **how).raise_for_status()

    def run(self, code, language="sh", **wish):
        return self._ask("POST", f"/v1/sessions/{self.id}/executions", json={"code": code, "language": language, **wish}).json()

    def put(self, path, data):
        self._ask("PUT", self._file(path), content=data)

    def get(self, path):
        return self._ask("GET", self._file(path)).content

    def _file(self, path):
        return f"/v1/workspaces/{self.id}/files/{quote(path.removeprefix('/workspace').lstrip('/'))}"

    def end(self):
        self._ask("DELETE", f"/v1/sessions/{self.id}")
