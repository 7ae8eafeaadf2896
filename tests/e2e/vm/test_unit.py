# SPDX-License-Identifier: Apache-2.0
"""examples/controller/berth-controller.service under a real systemd: what stands in it must let the controller work."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import units
from lib.controller_unit import NAME, environment
from units import UNITS, systemctl

import stacks
from binary import ROOT
from controllers import wait_until
from git_servers import Daemon, Repository
from layouts import Made, file, folder, link

STACK = stacks.text(stacks.document("Stack", "lab", {"provider": "local"}))


def setting(name):
    return units.setting(NAME, name)


class Unit:
    def __init__(self, url):
        secret = Path("/etc/berth/secrets/webhook")
        secret.parent.mkdir(parents=True, exist_ok=True)
        secret.write_text("a-webhook-secret-of-forty-characters-0123\n")
        secret.chmod(0o600)
        source = {"name": "lab", "url": url, "branch": "main", "intervalSeconds": 1, "driftSeconds": 3600}
        spec = {"listen": "127.0.0.1:9470", "webhookSecretFile": f"/run/credentials/{NAME}/webhook", "sources": [source]}
        Path("/etc/berth/controller.yaml").write_text(stacks.text(stacks.document("Controller", "platform", spec)))
        shutil.copy(ROOT / "examples/controller" / NAME, UNITS / NAME)

    def set(self, *lines):
        units.set_beside(NAME, "LoadCredential=webhook:/etc/berth/secrets/webhook", *lines)

    def log(self):
        return units.log(NAME)

    def status(self):
        done = subprocess.run(["berth", "controller", "status", "--state", "/var/lib/berth-controller", "--json"], capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr + self.log()
        return json.loads(done.stdout)["sources"][0]

    def wait_for(self, reason, commit):
        def is_so():
            ready = next((c for c in self.status()["conditions"] if c["type"] == "Ready"), {})
            return (ready.get("reason"), ready.get("commit")) == (reason, commit)

        try:
            wait_until(is_so, timeout=120)
        except AssertionError:
            raise AssertionError(f"no {reason} of {commit}:\n{self.status()}\n{self.log()}") from None

    def start(self):
        done = subprocess.run(["systemctl", "restart", NAME], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + self.log()


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("git")
    made = Repository(folder)
    made.commit({"stack.yaml": STACK, "one.yaml": environment("one")})
    made.server = Daemon(folder).begin()
    yield made
    made.server.stop()


@pytest.fixture(scope="module")
def made(way_or_skip, binary, repository):
    units.install_program(binary)
    unit = Unit(repository.server.url("agents.git"))
    yield unit
    units.remove(NAME)


@pytest.fixture(scope="module")
def way_or_skip():
    if os.environ.get("BERTH_TEST_WAY") != "root":
        pytest.skip("root, who installs units")


@pytest.fixture
def unit(made):
    """Started, with what it says and nothing else."""
    made.set()
    made.start()
    return made


def test_start_applies_what_git_says(unit, repository):
    """It is "active" from READY=1 on, not from its start."""
    assert (setting("ActiveState"), setting("SubState"), setting("Type")) == ("active", "running", "notify")
    assert setting("StatusText")
    unit.wait_for("Applied", repository.head())
    unit.wait_for("Applied", repository.commit({"two.yaml": environment("two")}))


def test_it_is_nobody(unit):
    pid = setting("MainPID")
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    assert status["Uid"].split()[0] not in ("0", "65534") and int(status["CapEff"], 16) == 0
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert Path("/var/lib/berth-controller/").resolve() == Path("/var/lib/private/berth-controller")


def test_its_settings_leave_images_and_includes(way_or_skip, binary):
    """DynamicUser= sets RestrictSUIDSGID=, which denies openat2(2)."""
    units.install_program(binary)
    tree = Path("/srv/berth-test-tree")
    for name, text in {
        "eu/stack.yaml": stacks.text(stacks.document("Stack", "eu", {"provider": "local", "include": ["../common"]})),
        "common/one.yaml": environment("one"),
        ".git/HEAD": "ref: refs/heads/main\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    Made([folder("opt"), file("opt/note", "hello"), link("note", "opt/note")]).write(tree / "image")
    script = f"""
set -e
cp -r {tree} tree && cd tree/eu
python3 -c 'import ctypes; c = ctypes.CDLL(None, use_errno=True); c.syscall(437, -100, b".", 0, 0); print("openat2:", ctypes.get_errno())'
berth image import data/etl:stable ../image
berth apply --yes
"""
    done = subprocess.run(
        ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--property=DynamicUser=yes", "--property=StateDirectory=berth-test",
         "--property=WorkingDirectory=/var/lib/berth-test", "sh", "-c", script], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "openat2: 38" in done.stdout, "it is not denied here: " + done.stdout
    assert (Path("/var/lib/private/berth-test/tree/eu/.berth/local/eu/images")).is_dir()
    shutil.rmtree(tree)


def test_stop_ends_all_of_it(unit):
    group = Path("/sys/fs/cgroup" + setting("ControlGroup"))
    systemctl("stop", NAME)
    assert (setting("ActiveState"), setting("Result")) == ("inactive", "success"), unit.log()
    assert not group.exists() or not (group / "cgroup.procs").read_text()


def test_killed_it_comes_back_and_goes_on(unit, repository):
    before = int(setting("NRestarts"))
    systemctl("kill", "--kill-whom=main", "--signal=KILL", NAME)
    wait_until(lambda: int(setting("NRestarts")) > before and setting("ActiveState") == "active", timeout=120)
    unit.wait_for("Applied", repository.commit({"three.yaml": environment("three")}))


def test_the_watchdog_sees_one_that_hangs(unit, repository):
    """Stopped, it takes no signal but SIGKILL: systemd must not wait for it as long as it does for a change to end."""
    unit.set("WatchdogSec=20s", "TimeoutAbortSec=5s")
    unit.start()
    before = int(setting("NRestarts"))
    systemctl("kill", "--kill-whom=main", "--signal=STOP", NAME)
    wait_until(lambda: int(setting("NRestarts")) > before and setting("ActiveState") == "active", timeout=180)
    unit.wait_for("Applied", repository.commit({"four.yaml": environment("four")}))


def test_a_watched_one_that_works_is_left_alone(unit, repository):
    """For longer than the watchdog waits, by systemd's own clock: it has then had its WATCHDOG=1."""
    unit.set("WatchdogSec=20s")
    unit.start()
    pid, since = setting("MainPID"), setting("WatchdogTimestampMonotonic")
    for _ in range(2):
        wait_until(lambda: setting("WatchdogTimestampMonotonic") != since, timeout=120)
        since = setting("WatchdogTimestampMonotonic")
    unit.wait_for("Applied", repository.commit({"five.yaml": environment("five")}))
    assert (setting("MainPID"), setting("NRestarts")) == (pid, "0")


def test_a_hang_is_not_waited_for_as_long_as_a_change(unit):
    assert (setting("TimeoutStopUSec"), setting("TimeoutAbortUSec")) == ("15min", "1min")


GREEDY = """
import sys
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
kept = [bytearray(b"x") * (1 << 20) for _ in range(2000)]
"""


def test_memory_that_a_worker_takes_costs_the_worker_alone(unit, repository):
    """What fetches from Git is a process of its own: if it meets the unit's limit, it dies, and the controller goes on."""
    group, pid = "/sys/fs/cgroup" + setting("ControlGroup"), setting("MainPID")
    greedy = subprocess.run(["python3", "-c", GREEDY, group])
    assert greedy.returncode == -9
    assert (setting("ActiveState"), setting("MainPID"), setting("NRestarts")) == ("active", pid, "0"), unit.log()
    unit.wait_for("Applied", repository.commit({"six.yaml": environment("six")}))
