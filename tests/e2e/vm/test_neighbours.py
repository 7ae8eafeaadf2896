# SPDX-License-Identifier: Apache-2.0
"""Berths that share one tree of cgroups and do not see each other's processes; Berth in a container that Podman made."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lib.ways import STACK

GROUPS = Path("/sys/fs/cgroup")
WAITS = "print('on', flush=True); input(); print('alive')"
HUNGRY = 'x = bytearray(b"x") * (1 << 30)'


@pytest.fixture(autouse=True)
def root(way):
    if way != "root":
        pytest.skip("as root, below system.slice")


@pytest.fixture
def command(binary, tmp_path):
    """In a PID namespace of its own: there it is process 1, as every other one in its own."""

    def words(number, code):
        folder = tmp_path / str(number)
        if not folder.exists():
            folder.mkdir()
            (folder / "stack.yaml").write_text(STACK)
            subprocess.run([binary, "apply", "--yes", "-q", "-f", folder, "--state", folder / "state"], check=True)
        berth = [binary, "exec", "-f", folder, "--state", folder / "state", "--agent", "small", "-c", code]
        return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *map(str, berth)]

    return words


def groups_of_process_1():
    return {path.name for path in GROUPS.glob("**/run-1-*")}


def test_berths_of_two_pid_namespaces(command):
    """The same process id, the same tree: each has a group of its own, and what others start, end or break leaves it alone."""
    before = groups_of_process_1()
    running = []
    try:
        for number in range(2):
            running.append(subprocess.Popen(command(number, WAITS), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            assert running[-1].stdout.readline() == "on\n"
        made = groups_of_process_1() - before
        assert len(made) == 2
        assert subprocess.run(command(2, HUNGRY)).returncode == 137
        running[0].kill()
        running[0].wait()
        assert subprocess.run(command(3, "print(1)"), capture_output=True).stdout == b"1\n"
        assert len(groups_of_process_1() & made) >= 1
        assert running[1].communicate("\n")[0] == "alive\n"
        assert running[1].returncode == 0
    finally:
        for process in running:
            process.kill()
            process.communicate()


def test_in_podman(binary, tmp_path):
    """docs/sandbox.md: `--privileged`, and the container's own tree of cgroups."""
    (tmp_path / "stack.yaml").write_text(STACK)
    shutil.copy(binary, tmp_path / "berth")
    script = f"""
        cd {tmp_path} && ./berth apply --yes -q >&2 && ./berth doctor | grep ' cgroups '
        ./berth exec --agent small -c 'print(6 * 7)'
        ./berth exec --agent small -c '{HUNGRY}'
        echo $?
    """
    podman = ["podman", "run", "--rm", "--privileged", "--network=none", "--cgroupns=private", f"--volume={tmp_path}:{tmp_path}"]
    done = subprocess.run([*podman, "--rootfs", "/:O", "sh", "-c", script], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stdout + done.stderr
    assert lines[0].split()[:2] == ["ok", "cgroups"] and "cgroup v2" in lines[0], lines[0]
    assert lines[1:] == ["42", "137"], done.stdout + done.stderr
