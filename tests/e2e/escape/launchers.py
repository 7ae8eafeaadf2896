# SPDX-License-Identifier: Apache-2.0
"""A `berth launcher` for a test, and programs of its clients' users."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ORDINARY = 61234  # a user whom nobody is
CLIENT = Path(__file__).with_name("launcher_client.py")


class Launcher:
    def __init__(self, binary, *options, users=(ORDINARY,), before=()):
        self.binary = binary
        self.folder = Path(tempfile.mkdtemp(prefix="berth-launcher-"))
        self.folder.chmod(0o755)
        self.socket = str(self.folder / "socket")
        shutil.copy(CLIENT, self.folder / "client.py")
        self.process = subprocess.Popen(
            [*before, binary, "launcher", "--socket", self.socket, *(f"--for={user}" for user in users), *options],
            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
            env={name: text for name, text in os.environ.items() if name in ("PATH", "CANARY")},
        )  # fmt: skip
        assert b"listening" in self.process.stderr.readline()

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
            assert self.process.wait(timeout=60) == 0
        self.process.stderr.close()
        shutil.rmtree(self.folder, ignore_errors=True)
