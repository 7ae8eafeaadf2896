# SPDX-License-Identifier: Apache-2.0
"""
The Debian package under a real systemd: what docs/install.md says of it, from its installation to its purge, in this order. `./dev vm`
takes the package along that `./dev package build` has made for the machine's release.
"""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import units
from lib.controller_unit import NAME as CONTROLLER, environment
from lib.launcher_unit import SERVICE, SOCKET, STACK, STATE, Client
from lib.parked import CLIENTS
from lib.serve_unit import KEPT, SERVER, Unit as Server
from units import setting, systemctl

import stacks
from binary import ROOT
from controllers import wait_until
from git_servers import Daemon, Repository

UNITS = (SOCKET, SERVICE, SERVER, CONTROLLER)
DAEMONS = (SERVICE, SERVER, CONTROLLER)


def run(*words, check=True):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=900)
    assert not check or done.returncode == 0, done.stdout + done.stderr + "".join(map(units.log, DAEMONS))
    return done.stdout.strip()


def processes():
    """Of the package's program, wherever they run."""
    found = []
    for link in Path("/proc").glob("[0-9]*/exe"):
        with contextlib.suppress(OSError):
            found += [link.parent.name] if os.readlink(link).startswith("/usr/bin/berth") else []
    return found


def state_of_all():
    return {unit: setting(unit, "ActiveState") for unit in UNITS}


@pytest.fixture(scope="module")
def package():
    if os.environ.get("BERTH_TEST_WAY") != "root":
        pytest.skip("root, who installs packages")
    found = list((ROOT / "build/packages").glob("*.deb"))
    if not found:
        pytest.skip("no package was made for this release: ./dev package build")
    for unit in UNITS:
        assert not (units.UNITS / unit).exists()  # an example's, which another test has left
    run("dpkg", "-i", found[0])
    yield found[0]
    for unit in UNITS:
        systemctl("stop", unit, check=False)
    shutil.rmtree("/etc/berth", ignore_errors=True)
    for folder in (STATE, Path("/srv/berth-agents"), Path("/var/lib/private/berth-controller")):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def served(package):
    """As docs/install.md says: the files of the units, the stack applied by the user of the server. Asked as any server."""
    folder = Path("/srv/berth-agents")
    folder.mkdir()
    (folder / "stack.yaml").write_text(STACK)
    (folder / "data.yaml").write_text(environment("data"))
    client = Client(folder)
    applied = client.berth("apply", "--yes", "-q")
    assert applied.returncode == 0, applied.stderr
    Path("/etc/berth").mkdir()
    spec = {"stack": str(folder), "listen": "127.0.0.1:9471", "clients": CLIENTS}
    Path("/etc/berth/server.yaml").write_text(stacks.text(stacks.document("Server", "main", spec)))
    return Server(client)


@pytest.fixture(scope="module")
def repository(served, tmp_path_factory):
    """And what the controller follows."""
    folder = tmp_path_factory.mktemp("git")
    made = Repository(folder)
    made.commit({"stack.yaml": stacks.text(stacks.document("Stack", "followed", {"provider": "local"})), "one.yaml": environment("one")})
    made.server = Daemon(folder).begin()
    source = {"name": "followed", "url": made.server.url("agents.git"), "branch": "main", "intervalSeconds": 1, "driftSeconds": 3600}
    Path("/etc/berth/controller.yaml").write_text(stacks.text(stacks.document("Controller", "platform", {"sources": [source]})))
    yield made
    made.server.stop()


def wait_for_commit(commit):
    def is_so():
        told = run("berth", "controller", "status", "--state", "/var/lib/berth-controller", "--json", check=False)
        return commit in told and '"Applied"' in told

    wait_until(is_so, 180)


def test_installed_it_starts_nothing(package):
    assert (run("stat", "-c", "%U %G %a", STATE), set(state_of_all().values())) == ("berth berth 700", {"inactive"})
    assert {run("systemctl", "is-enabled", unit, check=False) for unit in UNITS if unit != SERVICE} == {"disabled"}
    assert {os.path.realpath(setting(unit, "FragmentPath")) for unit in UNITS} == {f"/usr/lib/systemd/system/{unit}" for unit in UNITS}


def test_its_units_start(served, repository):
    """All of them beside each other; a session runs in a sandbox of the launcher's, and Git is followed."""
    run("systemctl", "enable", "--now", SOCKET, SERVER)
    run("systemctl", "enable", "--now", CONTROLLER)
    assert (setting(SERVER, "SubState"), setting(CONTROLLER, "SubState")) == ("running", "running")
    served.session_with(KEPT)
    assert set(state_of_all().values()) == {"active"}
    wait_for_commit(repository.head())


def test_an_upgrade_restarts_what_runs(served, repository, package):
    """The unit's processes are others; the session's is not."""
    session = served.session_with(KEPT)
    worker, before = served.worker(session), {unit: setting(unit, "MainPID") for unit in DAEMONS}
    run("dpkg", "-i", package)
    wait_until(lambda: set(state_of_all().values()) == {"active"}, 120)
    assert not [unit for unit in DAEMONS if setting(unit, "MainPID") == before[unit]]
    result = served.run(session, "x")
    assert (result["value"]["text"], result["state"]["was"], served.worker(session)) == ("'still here'", "kept", worker), result
    served.session_with(KEPT)  # by the launcher's new process
    wait_for_commit(repository.commit({"two.yaml": environment("two")}))


def test_an_upgrade_leaves_alone_what_does_not_run(package):
    systemctl("stop", CONTROLLER)
    run("dpkg", "-i", package)
    assert setting(CONTROLLER, "ActiveState") == "inactive"
    assert run("systemctl", "is-enabled", CONTROLLER) == "enabled"


def test_removed_it_parks_sessions(served, package):
    """No process of it is left; installed again, the session has its variables."""
    session = served.session_with(KEPT)
    assert processes()
    run("dpkg", "-r", "berth")
    assert processes() == []
    assert not Path("/usr/bin/berth").exists() and STATE.is_dir()
    run("dpkg", "-i", package)
    run("systemctl", "start", SOCKET, SERVER)
    result = served.run(session, "open('file').read(), x")
    assert (result["value"]["text"], result["state"]["was"]) == ("('of the session', 'still here')", "restored"), result


def test_purged_it_leaves_what_users_made(served):
    run("dpkg", "-P", "berth")
    left = run("find", "/", "-xdev", "-iname", "*berth*", "!", "-path", "/berth/*", "!", "-path", "/srv/*", "!", "-path", "/tmp/*", "!", "-path", "/root/*").split()
    machine = ("/berth", "/usr/local/sbin/berth-vm", "/etc/systemd/system/berth-vm.service", "/etc/systemd/system/multi-user.target.wants/berth-vm.service")
    left = {path for path in left if path not in machine and not path.startswith(("/var/lib/private/berth-controller/", "/var/lib/berth/", "/var/log/"))}
    assert left <= {"/etc/berth", "/var/lib/berth", "/var/lib/private/berth-controller", "/var/lib/berth-controller"}, left
    assert {"/etc/berth", "/var/lib/berth"} <= left and not list(Path("/run").glob("berth*"))
    assert run("getent", "passwd", "berth")
