# SPDX-License-Identifier: Apache-2.0
"""A `berth launcher` for a test, and programs of its clients' users."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from binary import ROOT

ORDINARY = 61234  # a user whom nobody is
CLIENT = ROOT / "tests/e2e/escape/launcher_client.py"


def as_the_unit(unit):
    """What it is run by, with the capabilities of that text of a unit and no others."""
    kept = next(line for line in unit.splitlines() if line.startswith("CapabilityBoundingSet=")).removeprefix("CapabilityBoundingSet=")
    bounds = ",".join(["-all", *("+" + name.removeprefix("CAP_").lower() for name in kept.split())])
    return ["setpriv", "--no-new-privs", "--inh-caps", "-all", "--bounding-set", bounds]


class Launcher:
    def __init__(self, binary, *options, users=(ORDINARY,), before=(), workers=False):
        """`workers`: they may last, in the folder of that name beside the socket."""
        self.binary = binary
        self.folder = Path(tempfile.mkdtemp(prefix="berth-launcher-"))
        self.folder.chmod(0o755)
        self.socket = str(self.folder / "socket")
        self.workers = self.folder / "workers"
        shutil.copy(CLIENT, self.folder / "client.py")
        lasting = [f"--workers={self.workers}"] if workers else []
        self.command = [*before, binary, "launcher", "--socket", self.socket, *(f"--for={user}" for user in users), *lasting, *options]
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
            env={name: text for name, text in os.environ.items() if name in ("PATH", "CANARY")},
        )  # fmt: skip
        said = b""
        while b"listening" not in said:
            said = self.process.stderr.readline()
            assert said, "it ended"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def client(self, lines, user=ORDINARY, **kwargs):
        """What the lines print as JSON, run by a process of that user."""
        drop = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
        lines = f"path = {self.socket!r}\n{lines}"
        done = subprocess.run(
            [*drop, sys.executable, self.folder / "client.py"], input=lines.encode(), capture_output=True, timeout=120, **kwargs
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            ended = self.process.wait(timeout=60)
            os.set_blocking(self.process.stderr.fileno(), False)  # workers that last have it, too
            assert ended == 0, (ended, (self.process.stderr.read() or b"").decode(errors="replace"))
        self.process.stderr.close()
        shutil.rmtree(self.folder, ignore_errors=True)
