# SPDX-License-Identifier: Apache-2.0
"""examples/launcher's socket and service under a real systemd, asked by a user who has no rights."""

import json
import os
from pathlib import Path

import pytest
import units
from lib.launcher_unit import PATH, SERVICE, SOCKET, client  # noqa: F401
from units import systemctl

import layouts
from controllers import wait_until

GROUPS = Path("/sys/fs/cgroup")
IMAGED = """apiVersion: berth/v1
kind: Environment
metadata: {name: imaged}
spec: {image: {repository: small/system, tag: "1"}}
"""
WAITS = "print('on', flush=True); input(); print('alive')"


def hungry(megabytes):
    return f"x = bytearray(b'x') * ({megabytes} << 20); print('ate')"


def groups_of_runs():
    return list(GROUPS.glob("**/run-[0-9]*"))


def launcher_processes():
    """Of the service, and whoever is in a run's group."""
    files = [GROUPS / "system.slice" / SERVICE / "cgroup.procs", *(group / "cgroup.procs" for group in groups_of_runs())]
    return [pid for file in files if file.exists() for pid in file.read_text().split()]


@pytest.fixture
def launcher(client):
    """The socket's unit as it is; nothing runs yet."""
    systemctl("stop", SERVICE, SOCKET)
    units.set_beside(SERVICE)
    systemctl("reset-failed", SERVICE, check=False)
    systemctl("start", SOCKET)
    yield client
    systemctl("stop", SERVICE, SOCKET)


def test_the_first_question_starts_it(launcher):
    """systemd listens, for the group; who is in the list is answered, others are not let in."""
    status = os.stat(PATH)
    assert status.st_mode & 0o777 == 0o660 and status.st_uid == 0
    assert units.setting(SERVICE, "ActiveState") == "inactive"
    done = launcher.exec("import os; print(6 * 7, os.getuid())")
    assert (done.returncode, done.stdout) == (0, "42 1000\n"), done.stderr + units.log(SERVICE)
    assert units.setting(SERVICE, "ActiveState") == "active"
    stranger = launcher.exec("print(1)", user="tester")
    assert stranger.returncode == 125 and stranger.stdout == "", stranger.stderr
    assert launcher.exec("print(2)").stdout == "2\n"


def test_runs_have_root_s_fences(launcher):
    """A host user that is nobody's, limits by cgroups, nothing degraded."""
    process = launcher.begin(WAITS)
    try:
        (group,) = groups_of_runs()
        assert (group / "memory.max").read_text() == f"{256 << 20}\n"
        users = {os.stat(f"/proc/{pid}").st_uid for pid in (group / "cgroup.procs").read_text().split()}
        assert users and all(user >= 1900000000 for user in users)
        assert process.communicate("\n")[0] == "alive\n"
    finally:
        process.kill()
        process.communicate()
    done = launcher.exec(hungry(1024), "--json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["reason"], result["sandbox"]["degraded"]) == (137, "memory", [])


def test_an_image_of_the_store_that_the_unit_names(launcher, tmp_path):
    place = tmp_path / "system"
    layouts.Made(layouts.system()).write(place)
    for folder in (place, *list(place.parents)[:-1]):
        if folder != Path("/tmp"):
            folder.chmod(0o755)
    imported = launcher.berth("image", "import", "small/system:1", str(place))
    assert imported.returncode == 0, imported.stderr
    (launcher.folder / "imaged.yaml").write_text(IMAGED)
    applied = launcher.berth("apply", "--yes", "-q")
    assert applied.returncode == 0, applied.stderr
    done = launcher.berth("exec", "--launcher", PATH, "--env", "imaged", "-c", "print(open('/etc/os-release').read(), end='')")
    assert (done.returncode, done.stdout) == (0, "ID=imagined\n"), done.stderr + units.log(SERVICE)


def test_what_all_runs_may_use_together_is_the_unit_s(launcher):
    """docs/launcher.md: each run's limit is larger, and the unit's holds."""
    units.set_beside(SERVICE, "MemoryMax=150M", "TasksMax=40")
    assert launcher.exec(hungry(60)).stdout == "ate\n"
    assert launcher.exec(hungry(200)).returncode == 137
    first = launcher.begin("x = bytearray(b'x') * (100 << 20); " + WAITS)
    try:
        second = launcher.exec(hungry(100), agent="other")
        first.communicate("\n")
        assert 137 in (first.returncode, second.returncode)
    finally:
        first.kill()
        first.communicate()
    forks = "import os, time\nmade = 0\ntry:\n while made < 200:\n  if os.fork() == 0: time.sleep(60); os._exit(0)\n  made += 1\nexcept OSError: pass\nprint(made)"
    assert 0 < int(launcher.exec(forks).stdout) < 40
    assert launcher.exec("print(1)").stdout == "1\n", units.log(SERVICE)


def test_stop_ends_all_of_it(launcher):
    """Runs with it; then nothing of it is left, and the next question starts it anew."""
    process = launcher.begin(WAITS)
    systemctl("stop", SERVICE)
    process.communicate(timeout=120)
    assert process.returncode == 125
    assert units.setting(SERVICE, "Result") == "success", units.log(SERVICE)
    wait_until(lambda: not launcher_processes() and not groups_of_runs(), timeout=60)
    assert launcher.exec("print(1)").stdout == "1\n"
    systemctl("stop", SOCKET, SERVICE)
    assert not os.path.exists(PATH)
    wait_until(lambda: not launcher_processes() and not groups_of_runs(), timeout=60)


def test_killed_it_comes_back(launcher):
    process = launcher.begin(WAITS)
    pid = units.setting(SERVICE, "MainPID")
    systemctl("kill", "--kill-whom=main", "--signal=KILL", SERVICE)
    process.communicate(timeout=120)
    assert process.returncode == 125
    wait_until(lambda: units.setting(SERVICE, "MainPID") not in ("0", pid), timeout=60)
    assert launcher.exec("print(1)").stdout == "1\n", units.log(SERVICE)
    assert units.setting(SERVICE, "NRestarts") == "1"
    wait_until(lambda: not groups_of_runs(), timeout=60)


BEGIN = """
launcher = connect(path)
worker, number = start(launcher, name="one", deadlineMs=600000)
program(worker, "import time; time.sleep(600)", deadline_ms=600000)
print(json.dumps(number))
"""
TAKE = """
peer = connect("/run/berth-launcher/workers/" + str(os.getuid()) + ".one")
assert peer.receive()[0] == READY
peer.send(CANCEL)
kind, ending, _ = peer.receive()
assert kind == ENDED
peer.send(TAKEN)
assert peer.receive() is None
print(json.dumps(json.loads(ending)["cancelled"]))
"""


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_workers_that_last_outlive_a_restart(launcher, how):
    """It, its group and its limits stay, and others' runs go on beside it; its owner takes it."""
    launcher.ask(BEGIN)
    (group,) = groups_of_runs()
    pid = units.setting(SERVICE, "MainPID")
    if how == "restart":
        systemctl("restart", SERVICE)
    else:
        systemctl("kill", "--kill-whom=main", "--signal=KILL", SERVICE)
    wait_until(lambda: units.setting(SERVICE, "MainPID") not in ("0", pid), timeout=60)
    done = launcher.exec("print(1)")
    assert done.stdout == "1\n", done.stderr + units.log(SERVICE)
    assert (group / "cgroup.procs").read_text() and (group / "memory.max").read_text() == f"{256 << 20}\n"
    assert launcher.ask(TAKE) is True
    assert launcher.exec("print(1)").stdout == "1\n"
    wait_until(lambda: not groups_of_runs(), timeout=60)
