# SPDX-License-Identifier: Apache-2.0
"""The server's unit."""

import subprocess
from pathlib import Path

import units
from controllers import wait_until
from lib.launcher_unit import STATE
from lib.sessions import Sessions

SERVER = "berth-serve.service"
WORKERS = Path("/run/berth-launcher/workers")
KEPT = "x = 'still here'; open('file', 'w').write('of the session'); x"


class Unit(Sessions):
    """Asked as any server."""

    port, state = 9471, STATE

    def __init__(self, stack):
        self.stack = stack

    def start(self):
        done = subprocess.run(["systemctl", "restart", SERVER], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + units.log(SERVER)

    def worker(self, session):
        (record,) = WORKERS.glob(f"*.{session}.worker")
        return int(record.read_text().split("-")[0])

    def session_with(self, code):
        session = self.create()
        result = self.run(session, code)
        assert result["status"] == "ok", result
        return session

    def wait_until_killed_of_all(self):
        wait_until(lambda: not list(WORKERS.glob("*.worker")), 120)
