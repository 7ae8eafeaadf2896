# SPDX-License-Identifier: Apache-2.0
"""Files of sessions, by the routes of a server."""

import io
import zipfile
from urllib.parse import quote

import pytest

import stacks
from lib.sessions import CLIENTS, Sessions

POLICY = stacks.document("WorkspacePolicy", "keep", {"selector": {"environments": ["web"]}, "expireAfterDays": 30, "maxDownloadFileMB": 1})


class Files(Sessions):
    def put(self, workspace, path, data, headers=(), owner=None, **kwargs):
        return self.call("PUT", f"/v1/workspaces/{workspace}/files/{quote(path)}", data, owner, headers=headers, **kwargs)

    def get(self, workspace, path, headers=(), owner=None, method="GET"):
        return self.call(method, f"/v1/workspaces/{workspace}/files/{quote(path)}", None, owner, headers=headers)

    def paths(self, workspace, query=""):
        return [f["path"] for f in self.call("GET", f"/v1/workspaces/{workspace}/files{query}").items()]

    def zip(self, workspace, query=""):
        answer = self.call("GET", f"/v1/workspaces/{workspace}/archive{query}")
        assert (answer.status, answer.headers["content-type"]) == (200, "application/zip"), answer.body
        return zipfile.ZipFile(io.BytesIO(answer.body))

    def memory_mb(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            found = next(line for line in status if line.startswith("VmHWM"))
        return int(found.split()[1]) // 1024


@pytest.fixture(scope="module")
def shared(place, binary, tmp_path_factory):
    """One server for all of these tests; each has sessions of its own."""
    berth = place.berth(binary, tmp_path_factory.mktemp("files"))
    place.apply(berth, POLICY)
    made = Files(berth, clients=CLIENTS)
    made.place = place.name
    made.start("--accept-degraded")
    yield made
    assert made.stop() == 0


@pytest.fixture
def serve(shared):
    yield shared
    for owner in ("alice", "bob"):
        for session in shared.call("GET", "/v1/sessions", owner=owner).items():
            assert shared.call("DELETE", f"/v1/sessions/{session['id']}", owner=owner).status == 204


@pytest.fixture
def workspace(serve):
    return serve.create()
