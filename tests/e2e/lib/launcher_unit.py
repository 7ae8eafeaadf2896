# SPDX-License-Identifier: Apache-2.0
"""The launcher's unit and a client of it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import units
from binary import ROOT
from lib.ways import STACK as WAYS
from units import systemctl

SERVICE, SOCKET = "berth-launcher.service", "berth-launcher.socket"
PATH = "/run/berth-launcher/socket"
STATE = Path("/var/lib/berth")
CLIENT = ROOT / "tests/e2e/escape/launcher_client.py"
STACK = WAYS.replace("name: ways", "name: lab")  # so the unit's path of the image store has it
OTHER = """apiVersion: berth/v1
kind: Agent
metadata: {name: other}
spec: {type: general, environment: box, limits: {memoryMB: 256, cpus: 1}}
"""


class Client:
    """The user berth, its stack and its state."""

    def __init__(self, folder):
        self.folder = folder

    def command(self, *words, user="berth"):
        return ["runuser", "--user", user, "--", "berth", *words, "-f", str(self.folder), "--state", str(STATE)]

    def berth(self, *words, user="berth"):
        return subprocess.run(self.command(*words, user=user), capture_output=True, text=True, timeout=600)

    def exec(self, code, *words, user="berth", agent="small"):
        return self.berth("exec", "--launcher", PATH, "--agent", agent, *words, "-c", code, user=user)

    def begin(self, code):
        words = self.command("exec", "--launcher", PATH, "--agent", "small", "-c", code)
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        assert line == "on\n", line + process.communicate()[1] + units.log(SERVICE)
        return process

    def ask(self, lines):
        """What a client of the launcher's messages prints as JSON."""
        done = subprocess.run(
            ["runuser", "--user", "berth", "--", sys.executable, CLIENT], input=f"path = {PATH!r}\n{lines}", capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr + units.log(SERVICE)
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def client(binary, tmp_path_factory):
    if os.environ.get("BERTH_TEST_WAY") != "root":
        pytest.skip("root, who installs units")
    units.install_program(binary)
    subprocess.run(["useradd", "--system", "--home-dir", STATE, "berth"], check=True)
    folder = Path("/srv/berth-agents")
    folder.mkdir()
    (folder / "stack.yaml").write_text(STACK)
    (folder / "other.yaml").write_text(OTHER)
    STATE.mkdir()
    shutil.chown(STATE, "berth", "berth")
    STATE.chmod(0o755)
    for unit in (SERVICE, SOCKET):
        shutil.copy(ROOT / "examples/launcher" / unit, units.UNITS / unit)
    systemctl("daemon-reload")
    made = Client(folder)
    applied = made.berth("apply", "--yes", "-q")
    assert applied.returncode == 0, applied.stderr
    yield made
    units.remove(SOCKET, SERVICE)
    shutil.rmtree(folder)
    shutil.rmtree(STATE)
    subprocess.run(["userdel", "berth"], check=True)
