# SPDX-License-Identifier: Apache-2.0
"""A core_pattern that starts a program: the kernel runs it as root, outside of every sandbox, with what it knows of the crash."""

import subprocess
import time
from pathlib import Path

import pytest

PATTERN = Path("/proc/sys/kernel/core_pattern")
STACK = """apiVersion: berth/v1
kind: Stack
metadata: {name: cores}
spec: {provider: local}
---
apiVersion: berth/v1
kind: Environment
metadata: {name: box}
spec: {image: {prebuilt: python}}
"""
CRASHES = [
    "import os; os.abort()",
    "import os, resource as r; r.setrlimit(r.RLIMIT_CORE, (0, 0)); os.abort()",
    "import os, subprocess; subprocess.run(['sh', '-c', 'ulimit -c 0; kill -SEGV $$']); os.abort()",
]


@pytest.fixture
def seen(way, tmp_path):
    """Names of the programs that crashed, as the handler was told."""
    if way != "root":
        pytest.skip("root sets core_pattern")
    list_, handler, before = tmp_path / "seen", tmp_path / "handler", PATTERN.read_text()
    list_.touch()
    handler.write_text(f"#!/bin/sh\necho \"$1\" >> {list_}\ncat > /dev/null\n")
    handler.chmod(0o755)
    PATTERN.write_text(f"|{handler} %e")
    yield list_
    PATTERN.write_text(before)


def crash_outside(seen):
    """One that is told of: until it is, for the kernel does not wait for the handler."""
    told = seen.read_text().count("sh\n")
    subprocess.run(["sh", "-c", "kill -ABRT $$"])
    for _ in range(400):
        if seen.read_text().count("sh\n") > told:
            return
        time.sleep(0.05)
    raise AssertionError("the handler was not started")


def test_crashes_in_a_sandbox_start_no_program(binary, seen, tmp_path):
    (tmp_path / "stack.yaml").write_text(STACK)
    applied = subprocess.run([binary, "apply", "--yes", "-q"], cwd=tmp_path, capture_output=True, text=True)
    assert applied.returncode == 0, applied.stderr
    crash_outside(seen)
    for code in CRASHES:
        done = subprocess.run([binary, "exec", "--env", "box", "-c", code], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 134, done.stderr
    crash_outside(seen)
    assert seen.read_text().split() == ["sh", "sh"]
    doctor = subprocess.run([binary, "doctor"], cwd=tmp_path, capture_output=True, text=True).stdout
    assert "core_pattern starts a program, but not for sandboxes" in doctor
