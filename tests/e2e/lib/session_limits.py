# SPDX-License-Identifier: Apache-2.0
"""Agents' limits on sessions."""

import contextlib
import glob
from pathlib import Path

import stacks

PREFER = [("Prefer", "respond-async")]
HOLD = "import os, time\nopen('on', 'w').close()\nwhile not os.path.exists('/tmp/go'): time.sleep(0.05)"


def manifests(containers=1, on_limit="queue", **limits):
    limits = {"containers": containers, "onLimit": on_limit, **limits}
    return stacks.text(
        stacks.document("Stack", "lab", {"provider": "local"}),
        stacks.document("Environment", "data", {"image": {"prebuilt": "python"}}),
        stacks.document("Agent", "coder", {"environment": "data", "limits": limits}),
        stacks.document("Agent", "other", {"environment": "data", "limits": limits}),
    )  # fmt: skip


def apply(offline, *args, **limits):
    offline.write("stack.yaml", manifests(*args, **limits))
    offline("apply", "--yes").expect(0)


def create(serve, owner="alice", status=201, agent="coder"):
    answer = serve.call("POST", "/v1/sessions", {"agent": agent}, owner)
    assert answer.status == status, answer.body
    return answer.json()["id"] if status == 201 else answer.problem(status, "agent-limit")


def begin(serve, session, code=HOLD, owner="alice"):
    """Runs until it is interrupted."""
    answer = serve.call("POST", f"/v1/sessions/{session}/executions", {"code": code}, owner, headers=PREFER)
    assert answer.status == 202, answer.body
    return answer.json()["n"]


def status(serve, session, owner="alice"):
    return serve.call("GET", f"/v1/sessions/{session}", owner=owner).json()["status"]


def families(pid=None):
    """The folders that share a quota, of all hierarchies; with `pid`, those in which the group of that process is."""
    found = {path for base in ("/sys/fs/cgroup", "/sys/fs/cgroup/*") for path in glob.glob(f"{base}/berth/all-*")}
    return {path for path in found if not pid or glob.glob(f"{path}/run-{pid}-*")}


def quota(folder):
    """Thousandths of a CPU; None: as many as there are."""
    with contextlib.suppress(OSError):
        given = int((Path(folder) / "cpu.cfs_quota_us").read_text())
        return None if given < 0 else given // 100
    with contextlib.suppress(OSError):
        given = (Path(folder) / "cpu.max").read_text().split()[0]
        return None if given == "max" else int(given) // 100
    return "no controller"


def family_of(pid):
    """The one that has the quota, where hierarchies are many."""
    (found,) = [path for path in families(pid) if quota(path) != "no controller"]
    return found
