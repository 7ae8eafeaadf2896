# SPDX-License-Identifier: Apache-2.0
"""
examples/serve and examples/launcher together under a real systemd: a server that has no right serves sessions, they outlive both units,
and what ends with the machine says so afterwards.
"""

import os
import shutil
import signal
from pathlib import Path

import pytest
import units
from lib.launcher_unit import PATH, SERVICE, SOCKET, STATE, client  # noqa: F401
from lib.parked import CLIENTS
from lib.serve_unit import KEPT, SERVER, WORKERS, Unit
from units import systemctl

import stacks
from binary import ROOT
from controllers import wait_until


@pytest.fixture(scope="module")
def made(client):  # noqa: F811
    """Both units as they are; the stack was applied by the user of the server, into the unit's state."""
    (client.folder / "data.yaml").write_text(stacks.text(stacks.document("Environment", "data", {"image": {"prebuilt": "python"}})))
    assert client.berth("apply", "--yes", "-q").returncode == 0
    spec = {"stack": str(client.folder), "listen": "127.0.0.1:9471", "clients": CLIENTS}
    Path("/etc/berth").mkdir(exist_ok=True)
    Path("/etc/berth/server.yaml").write_text(stacks.text(stacks.document("Server", "main", spec)))
    shutil.copy(ROOT / "examples/serve" / SERVER, units.UNITS / SERVER)
    systemctl("daemon-reload")
    systemctl("start", SOCKET)
    unit = Unit(client)
    unit.start()
    yield unit
    units.remove(SERVER)


@pytest.fixture
def serve(made):
    systemctl("start", SOCKET)
    if units.setting(SERVER, "ActiveState") != "active":
        made.start()
    yield made
    systemctl("start", SOCKET)
    for session in made.call("GET", "/v1/sessions?limit=1000").items():
        assert made.call("DELETE", f"/v1/sessions/{session['id']}").status == 204
    made.wait_until_killed_of_all()


def test_a_server_without_rights(serve):
    """It is its user with nothing more, the sandboxes are the launcher's, and none of their processes is in the server's unit."""
    assert (units.setting(SERVER, "Type"), units.setting(SERVER, "SubState")) == ("notify", "running")
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{units.setting(SERVER, 'MainPID')}/status").read_text().splitlines() if ":\t" in line)
    assert status["Uid"].split()[0] not in ("0", "65534") and (int(status["CapEff"], 16), status["NoNewPrivs"]) == (0, "1")
    first, second = serve.create(), serve.create("bob")
    result = serve.run(first, "import os; open('plot.png', 'wb').write(b'x' * 1000); print(os.getuid(), os.path.exists('/var/lib/berth'))")
    assert (result["status"], result["stdout"]["content"]) == ("ok", "1000 False\n"), result
    assert [row["path"] for row in result["files"]["changed"]] == ["plot.png"]
    assert serve.call("GET", f"/v1/workspaces/{first}/files/plot.png").body == b"x" * 1000
    serve.run(second, "'runs'", "bob")
    users = {os.stat(f"/proc/{serve.worker(session)}").st_uid for session in (first, second)}
    assert len(users) == 2 and min(users) >= 1900000000
    group = Path("/sys/fs/cgroup" + units.setting(SERVER, "ControlGroup"))
    assert [pid for file in group.rglob("cgroup.procs") for pid in file.read_text().split()] == [units.setting(SERVER, "MainPID")]
    assert serve.call("GET", "/readyz").status == 200


def test_what_is_applied_meanwhile(serve):
    serve.stack.folder.joinpath("new.yaml").write_text(stacks.text(stacks.document("Environment", "new", {"image": {"prebuilt": "python"}})))
    assert serve.stack.berth("apply", "--yes", "-q").returncode == 0
    assert "new" in serve.call("GET", "/v1/environments").names()
    assert serve.run(serve.create(environment="new"), "6 * 7")["value"]["text"] == "42"


@pytest.mark.parametrize("how", ["upgrade", "kill"])
def test_the_server_s_unit_starts_anew(serve, binary, how):
    """Upgraded and restarted, or killed: sessions keep their memory, and what runs in one goes on."""
    session, busy = serve.session_with(KEPT), serve.create()
    path = f"/v1/sessions/{busy}/executions"
    code = "import os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.1)\n'went on'"
    assert serve.call("POST", path, {"code": code}, headers=[("Prefer", "respond-async")]).status == 202
    serve.wait_for_start(busy, 1)
    workers, pid = [serve.worker(s) for s in (session, busy)], units.setting(SERVER, "MainPID")
    if how == "upgrade":
        units.install_program(binary)
        serve.start()
        assert units.setting(SERVER, "Result") == "success"
    else:
        systemctl("kill", "--kill-whom=main", "--signal=KILL", SERVER)
    wait_until(lambda: units.setting(SERVER, "MainPID") not in ("0", pid) and units.setting(SERVER, "ActiveState") == "active", 120)
    result = serve.run(session, "x")
    assert (result["value"]["text"], result["state"]["was"]) == ("'still here'", "kept"), result
    assert [serve.worker(s) for s in (session, busy)] == workers
    let_go(workers[1])
    assert serve.follow(f"{path}/1/events")[-1][2]["value"]["text"] == "'went on'"


def let_go(worker):
    """In the sandbox of that worker, for code that waits there."""
    pids = [worker]
    for pid in pids:
        pids += [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    Path(f"/proc/{pids[-1]}/root/tmp/go").touch()


def test_the_launcher_s_unit_stops(serve):
    """Sessions that run go on without it, and end without it; none begins until it is asked again."""
    session, ending = serve.session_with(KEPT), serve.session_with("1")
    systemctl("stop", SOCKET, SERVICE)
    result = serve.run(session, "x + '!', open('file', 'a').write('!')")
    assert (result["value"]["text"], result["state"]["was"]) == ("('still here!', 1)", "kept"), result
    assert [row["path"] for row in result["files"]["changed"]] == ["file"]
    worker = serve.worker(ending)
    assert serve.call("DELETE", f"/v1/sessions/{ending}").status == 204
    wait_until(lambda: not Path(f"/proc/{worker}").exists(), 120)
    serve.call("POST", "/v1/sessions", {"environment": "data"}).problem(503, "place-failed")
    systemctl("start", SOCKET)
    serve.session_with("'by the launcher that the socket has started'")
    assert units.setting(SERVICE, "ActiveState") == "active"
    assert serve.run(session, "x")["state"]["was"] == "kept"


def shut_down(serve, ends):
    """What happens to units and processes as a machine is switched off, and to /run; `ends`: workers are let come to their end."""
    workers = [int(record.read_text().split("-")[0]) for record in WORKERS.glob("*.worker")]
    systemctl("stop", SERVER, SOCKET, SERVICE)
    for pid in workers:
        os.kill(pid, signal.SIGTERM if ends else signal.SIGKILL)
    if ends:
        wait_until(lambda: sum(Path(f"/proc/{pid}").exists() for pid in workers) <= 1, 120)
    for pid in workers:
        if Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not [pid for pid in workers if Path(f"/proc/{pid}").exists()], 120)
    for folder in ("berth", "berth-launcher", "berth-serve"):
        shutil.rmtree(Path("/run") / folder, ignore_errors=True)
    systemctl("start", SOCKET, SERVER)


@pytest.mark.parametrize("ends", [True, False], ids=["shutdown", "power"])
def test_the_machine_goes_down(serve, ends):
    """Told to end, a session is parked and comes back; what ran, and memory that the power took, is said to be lost. Files stay."""
    idle, busy = serve.session_with(KEPT), serve.session_with(KEPT)
    path = f"/v1/sessions/{busy}/executions"
    assert serve.call("POST", path, {"code": "import time; time.sleep(3000)"}, headers=[("Prefer", "respond-async")]).json()["n"] == 2
    serve.wait_for_start(busy, 2)
    shut_down(serve, ends)
    cut = serve.call("GET", f"{path}/2").json()
    assert (cut["status"], cut["exitCode"]) == ("failed", None) and cut["detail"].startswith("cut off"), cut
    for session in (idle, busy):
        result = serve.run(session, "open('file').read(), globals().get('x')")
        lost = session == busy or not ends
        assert result["value"]["text"] == f"('of the session', {None if lost else 'still here'!r})", result
        assert (result["state"]["was"], bool(result["state"]["reason"])) == ("lost" if lost else "restored", True), result


def test_the_watchdog_sees_one_that_hangs(serve):
    """A stopped server is killed and started again; its sessions do not notice."""
    session, pid = serve.session_with(KEPT), units.setting(SERVER, "MainPID")
    units.set_beside(SERVER, "WatchdogSec=5s", "TimeoutAbortSec=5s")
    serve.start()
    pid = units.setting(SERVER, "MainPID")
    systemctl("kill", "--kill-whom=main", "--signal=STOP", SERVER)
    wait_until(lambda: units.setting(SERVER, "MainPID") not in ("0", pid) and units.setting(SERVER, "ActiveState") == "active", 180)
    assert serve.run(session, "x")["state"]["was"] == "kept"
    units.set_beside(SERVER)
    serve.start()
