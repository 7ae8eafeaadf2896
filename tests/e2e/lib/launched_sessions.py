# SPDX-License-Identifier: Apache-2.0
"""A server of an ordinary user whose sandboxes a launcher makes."""

import glob
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from controllers import wait_until
from lib.lab import TOKENS, client, stack
from lib.launchers import ORDINARY, Launcher
from lib.sessions import Sessions

CLIENTS = [client("users", actsFor="users", realm="company"), client("watcher", may=["observe"]), client("file", may=["administer"])]
DROP = f"exec setpriv --reuid {ORDINARY} --regid {ORDINARY} --clear-groups"


class Box:
    """A stack of the ordinary user's, applied. `binary` runs berth as that user, whoever starts it."""

    def __init__(self, binary, manifests=None):
        self.folder = Path(tempfile.mkdtemp(prefix="berth-served-"))
        self.stack = self.folder / "stack"
        self.stack.mkdir()
        for name in ("berth", "berth-runtime"):
            shutil.copy(Path(binary).with_name(name), self.folder / name)
        self.binary = self.folder / "as-ordinary"
        self.binary.write_text(f'#!/bin/sh\n{DROP} {self.folder}/berth "$@"\n')
        self.binary.chmod(0o755)
        (self.stack / "stack.yaml").write_text(manifests or stack())
        self.env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.folder)}
        self.folder.chmod(0o755)
        subprocess.run(["chown", "-R", f"{ORDINARY}:{ORDINARY}", self.folder], check=True)
        subprocess.run([self.binary, "apply", "--yes", "-q", "-f", self.stack], env=self.env, cwd=self.folder, check=True)


@pytest.fixture(scope="module")
def box(binary):
    made = Box(binary)
    yield made
    shutil.rmtree(made.folder)


@pytest.fixture
def launcher(binary):
    made = Launcher(binary, "--accept-degraded", workers=True)
    yield made
    made.end()


@pytest.fixture
def serve(box, launcher):
    made = Sessions(box, clients=CLIENTS)
    made.options = ["--accept-degraded", "--launcher", launcher.socket]
    made.launcher = launcher
    yield made.start(*made.options)
    if launcher.process.poll() is not None:
        launcher.start()
    if made.process is None:
        made.start(*made.options)
    sessions = [s["id"] for s in made.call("GET", "/v1/sessions?limit=1000", token=TOKENS["watcher"]).items()]
    workers = workers_of(launcher)
    for session in sessions:
        assert made.call("DELETE", f"/v1/sessions/{session}", token=TOKENS["file"]).status == 204
    assert made.stop() == 0
    wait_until(lambda: nothing_left(launcher, workers))


def workers_of(launcher):
    """The processes that the launcher's records name."""
    return [int(record.read_text().split("-")[0]) for record in launcher.workers.glob("*.worker")] if launcher.workers.is_dir() else []


def nothing_left(launcher, workers):
    groups = [g for base in ("/sys/fs/cgroup/*/berth", "/sys/fs/cgroup/berth") for pid in workers for g in glob.glob(f"{base}/**/run-{pid}-*", recursive=True)]
    return not groups and not list(launcher.workers.iterdir()) and not [pid for pid in workers if alive(pid)]


def alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def user_of_worker(launcher, session):
    """Whose the session's worker is on the host, and so its processes."""
    pid = (launcher.workers / f"{ORDINARY}.{session}.worker").read_text().split("-")[0]
    return int(open(f"/proc/{pid}/status").read().split("Uid:")[1].split()[0])
