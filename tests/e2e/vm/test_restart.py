# SPDX-License-Identifier: Apache-2.0
"""
A real restart of the machine, in two halves: `./dev vm restart` cuts the power after the first one, and has the second one run in the
machine that comes up again with the same disk. A server without rights and a launcher, as the examples' units, enabled.
"""

import contextlib
import http.client
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import units
from lib.containers import Containers
from lib.lab import client
from lib.launcher_unit import SERVICE, SOCKET, STACK, STATE, Client
from lib.serve_unit import KEPT, SERVER
from units import systemctl

import stacks
from binary import ROOT
from controllers import wait_until

BOOT = int(os.environ.get("BERTH_TEST_BOOT") or 0)
pytestmark = pytest.mark.skipif(BOOT == 0, reason="only in the machines of ./dev vm restart")
FOLDER = Path("/srv/berth-agents")
KNOWN = Path("/srv/known.json")  # by the second half
SERVES = """import http.server, os
with open('starts', 'a') as starts:
    starts.write('x')
    starts.flush()
    os.fsync(starts.fileno())  # before it says so: else the power takes the byte, and leaves the file's size
print('start', len(open('starts').read()), flush=True)
http.server.HTTPServer(('127.0.0.1', 8000), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


class Machine(Containers):
    """Its server, asked as any."""

    port, agent = 9471, "small"

    def __init__(self):
        self.known = {}

    def session_with(self, code):
        session = self.create()
        assert (result := self.run(session, code))["status"] == "ok", result
        return session

    def later(self, session, code):
        answer = self.call("POST", f"/v1/sessions/{session}/executions", {"code": code}, headers=[("Prefer", "respond-async")])
        assert answer.status == 202, answer.body
        return answer.json()["n"]

    def file(self, workspace, path):
        return self.call("GET", f"/v1/workspaces/{workspace}/files/{path}").body

    def asked(self, port):
        """None: it does not listen yet."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with contextlib.closing(connection), contextlib.suppress(ConnectionError):
            connection.request("GET", "/starts")
            return connection.getresponse().read()


@pytest.fixture(scope="module")
def machine(binary):
    made = Machine()
    if BOOT == 2:
        made.known = json.loads(KNOWN.read_text())
        wait_until(lambda: units.setting(SERVER, "ActiveState") == "active", 120)
        return made
    units.install_program(binary)
    subprocess.run(["useradd", "--system", "--home-dir", STATE, "berth"], check=True)
    FOLDER.mkdir()
    (FOLDER / "stack.yaml").write_text(STACK)
    (FOLDER / "data.yaml").write_text(stacks.text(stacks.document("Environment", "data", {"image": {"prebuilt": "python"}})))
    STATE.mkdir()
    shutil.chown(STATE, "berth", "berth")
    applied = Client(FOLDER).berth("apply", "--yes", "-q")
    assert applied.returncode == 0, applied.stderr
    spec = {"stack": str(FOLDER), "listen": "127.0.0.1:9471", "clients": [client("users", actsFor="users", realm="company", may=["execute", "containers"])]}
    Path("/etc/berth").mkdir()
    Path("/etc/berth/server.yaml").write_text(stacks.text(stacks.document("Server", "main", spec)))
    for folder, unit in (("launcher", SERVICE), ("launcher", SOCKET), ("serve", SERVER)):
        shutil.copy(ROOT / "examples" / folder / unit, units.UNITS / unit)
    systemctl("daemon-reload")
    systemctl("enable", SOCKET, SERVER)
    os.sync()  # what was installed has been there for long
    systemctl("start", SOCKET, SERVER)
    return made


@pytest.mark.skipif(BOOT != 1, reason="the first half")
def test_before(machine):
    parked, living, busy = (machine.session_with(KEPT) for _ in range(3))
    assert machine.call("POST", f"/v1/sessions/{parked}/park").status in (200, 204)
    assert machine.later(busy, "import time; time.sleep(3000)") == 2
    machine.wait_for_start(busy, 2)
    assert machine.later(busy, "open('ran', 'a').write('once')") == 3
    assert machine.call("PUT", f"/v1/workspaces/{living}/files/from-outside", b"put").status in (201, 204)
    serves = machine.service(code=SERVES, name="web", ports=[{"name": "http", "port": 8000, "expose": 0}])
    [port] = machine.show(serves)["ports"]
    wait_until(lambda: "start 1" in machine.logs(serves), 60)
    wait_until(lambda: machine.asked(port["hostPort"]) == b"x", 60)
    stopped = machine.service("sleep", "3000", name="stopped")
    machine.order(stopped, "stop", 200)
    machine.wait_for(stopped, "stopped")
    running = machine.make("sleep", "3000")["id"]
    machine.wait_for(running, "running")
    KNOWN.write_text(json.dumps({"parked": parked, "living": living, "busy": busy, "serves": serves, "port": port["hostPort"], "stopped": stopped, "running": running}))
    with KNOWN.open("rb") as file:
        os.fsync(file.fileno())


@pytest.mark.skipif(BOOT != 2, reason="the second half")
class TestAfter:
    def test_what_was_parked_is_restored(self, machine):
        result = machine.run(machine.known["parked"], "x, open('file').read()")
        assert (result["value"]["text"], result["state"]["was"]) == ("('still here', 'of the session')", "restored"), result

    def test_memory_that_the_power_took_is_said_to_be_lost(self, machine):
        result = machine.run(machine.known["living"], "globals().get('x'), open('file').read(), open('from-outside').read()")
        assert result["value"]["text"] == "(None, 'of the session', 'put')", result
        assert result["state"]["was"] == "lost" and result["state"]["reason"], result

    def test_what_ran_was_cut_off_and_what_waited_runs_once(self, machine):
        path = f"/v1/sessions/{machine.known['busy']}/executions"
        cut = machine.call("GET", f"{path}/2").json()
        assert (cut["status"], cut["exitCode"]) == ("failed", None) and cut["detail"].startswith("cut off"), cut
        wait_until(lambda: machine.call("GET", f"{path}/3").json()["status"] not in ("queued", "running"), 120)
        waited = machine.call("GET", f"{path}/3").json()
        assert (waited["status"], waited["value"]["text"]) == ("ok", "4"), waited
        assert machine.file(machine.known["busy"], "ran") == b"once"

    def test_services_are_started_again(self, machine):
        """With their files, at the same port. What they logged last is not synced."""
        web = machine.wait_for(machine.known["serves"], "running")
        assert [port["hostPort"] for port in web["ports"]] == [machine.known["port"]]
        wait_until(lambda: "start 2" in machine.logs(web["id"]), 120)
        wait_until(lambda: machine.asked(machine.known["port"]) == b"xx", 60)
        assert machine.file("agent:small", "starts") == b"xx"

    def test_containers_that_are_not_started_again(self, machine):
        stopped, running = (machine.show(machine.known[name]) for name in ("stopped", "running"))
        assert stopped["status"] == "stopped", stopped
        assert (running["status"], running["exitCode"]) == ("exited", None) and running["reason"], running

    def test_nothing_of_before_is_left(self, machine):
        """Of the workers that lived then. What runs now is what was asked for since."""
        named = {path.name.split(".")[-2] for path in Path("/run/berth-launcher/workers").glob("*.worker")}
        assert named <= {machine.known[name] for name in ("parked", "living", "busy", "serves")}, named
