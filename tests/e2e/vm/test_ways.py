# SPDX-License-Identifier: Apache-2.0
"""In each way of tools/vm/ways.sh the limits are kept by what docs/sandbox.md says, or are named as missing."""

import os
import shlex
import subprocess

import pytest

from lib.ways import STACK

METHODS = {"root": "cgroup v2", "container": "cgroup v2", "session": "systemd scope", "scope": "cgroup v2", "bare": None}
LAUNCHER = shlex.split(os.environ.get("BERTH_TEST_LAUNCHER", ""))


@pytest.fixture
def berth(binary, tmp_path):
    (tmp_path / "stack.yaml").write_text(STACK)

    def run(*words, launcher=LAUNCHER, **kwargs):
        return subprocess.run([*launcher, binary, *words], cwd=tmp_path, capture_output=True, text=True, **kwargs)

    assert run("apply", "--yes", "-q").returncode == 0
    return run


def test_the_machine_has_version_2_alone():
    mounts = [line.split() for line in open("/proc/self/mounts")]
    assert [words[1] for words in mounts if words[2] == "cgroup2"] == ["/sys/fs/cgroup"]
    assert not [words for words in mounts if words[2] == "cgroup"]


def test_doctor_names_the_way(berth, way):
    line = next(line for line in berth("doctor").stdout.splitlines() if " cgroups " in line)
    if METHODS[way]:
        assert line.split(maxsplit=2)[:2] == ["ok", "cgroups"] and METHODS[way] in line
    else:
        assert "no cgroup was delegated to this user" in line


def test_limits_are_enforced_or_missed_by_name(berth, way):
    code = "x = bytearray(b'x') * (1 << 30)"
    done = berth("exec", "--agent", "small", "-c", code)
    if METHODS[way]:
        assert done.returncode == 137, done.stderr
    else:
        assert done.returncode == 125 and "--accept-degraded" in done.stderr
        assert berth("exec", "--agent", "small", "--accept-degraded", "-c", code).returncode == 1


def test_the_only_process_of_a_delegated_service(berth, way, tmp_path):
    """What docs/sandbox.md offers beside a scope."""
    if way != "session":
        pytest.skip("a user manager is asked")
    launcher = ["systemd-run", "--user", "--quiet", "--pipe", "--wait", "--collect", "--property=Delegate=yes"]
    launcher.append(f"--working-directory={tmp_path}")
    assert "cgroup v2" in berth("doctor", launcher=launcher).stdout
    assert berth("exec", "--agent", "small", "-c", "print(6 * 7)", launcher=launcher).stdout == "42\n"


def test_systemd_takes_no_limit_away(berth, binary, way, tmp_path):
    """A reload makes systemd write its units' cgroups anew; what Berth made must not be among them."""
    if way not in ("root", "session"):
        pytest.skip("as the one who may reload")
    reload = ["systemctl", "daemon-reload"] if way == "root" else ["systemctl", "--user", "daemon-reload"]
    code = "import sys; print('on', flush=True); sys.stdin.read(); x = bytearray(b'x') * (1 << 30)"
    running = subprocess.Popen(
        [*LAUNCHER, binary, "exec", "--agent", "small", "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert running.stdout.readline() == b"on\n"
    subprocess.run(reload, check=True)
    running.communicate()
    assert running.returncode == 137
