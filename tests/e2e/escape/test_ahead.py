# SPDX-License-Identifier: Apache-2.0
"""Root's runs get their worker before Berth has read what is to be run: one that is not needed, or not any more, ends."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from lib.processes import wait_for


@pytest.fixture
def box(boxes):
    """Ordinary users' workers start when the cgroup is there."""
    return boxes("root")


def workers(box):
    """Of this box alone: it has a program file of its own."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes().split(b"\0")[1:2] == [b"sandbox-worker"] and Path(
                os.readlink(folder / "exe")
            ) == box.binary:
                found.append(int(folder.name))
        except OSError:
            pass
    return found


def none_left(box):
    return wait_for(lambda: True if not workers(box) else None)


def children_that_rest(process):
    """They wait for something, or have ended."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [pid for pid in found if Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] in "SZ"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: [", b"stack.yaml:"),
        ("apiVersion: berth/v1\nkind: Stack\nmetadata: {name: other}\nspec: {provider: aws, aws: {region: eu-central-1}}\n", b"the provider aws cannot run code from here"),
        ("apiVersion: berth/v1\nkind: Stack\nmetadata: {name: other}\nspec: {provider: local}\n", b"Environment/box"),
    ],
    ids=["mistakes", "another-provider", "no-such-environment"],
)
def test_in_vain(box, tmp_path, text, said):
    (tmp_path / "stack.yaml").write_text(text)
    done = box.berth("exec", "-f", tmp_path, "--env", "box", "-c", "print(1)")
    assert done.returncode == 125
    assert said in done.stderr and b"worker" not in done.stderr, done.stderr
    assert done.stdout == b""
    assert not workers(box)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_ends_with_berth_that_reads_manifests(box, number):
    process = box.popen("exec", "-f", "-", "--env", "box", "-c", "print(1)", stdin=subprocess.PIPE)
    try:
        wait_for(lambda: workers(box) or None)
    finally:
        process.send_signal(number)
        process.communicate()
    assert none_left(box)


def test_who_waits_for_a_slot_keeps_none(box):
    first = box.popen("exec", "--agent", "queuing", "-c", "import sys; print(1, flush=True); sys.stdin.read()", stdin=subprocess.PIPE)
    second = None
    try:
        assert first.stdout.readline() == b"1\n"
        firsts = workers(box)  # and process 1, which is its child
        assert firsts
        second = box.popen("exec", "--agent", "queuing", "-c", "print(2)")
        line = box.stack / ".berth" / "local" / "escape" / "running" / "Agent" / "queuing"
        wait_for(lambda: list(line.glob("wait-*")) or None)
        assert workers(box) == firsts
        first.stdin.close()
        assert second.stdout.read() == b"2\n"
        assert second.wait(timeout=60) == 0
    finally:
        for process in (first, second):
            if process:
                process.kill()
                process.wait()
    assert none_left(box)


def test_what_fails_early_is_said(box):
    """It happens while no client listens to the worker yet, and is not lost."""
    drop = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
    process = subprocess.Popen(
        [*drop, *box.command("exec", "-f", "-", "--env", "box", "-c", "print(1)")],
        cwd=box.stack, env=box.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait_for(lambda: children_that_rest(process) or None)
        _, errors = process.communicate((box.stack / "stack.yaml").read_bytes(), timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 125
    assert b"this root may not make mount and PID namespaces" in errors, errors
    assert none_left(box)


@pytest.mark.parametrize("user", ["root", "ordinary"])
def test_nothing_is_inherited_from_who_asks(boxes, user):
    """Neither the mask of new files nor the working directory, by process 1 or by the program."""
    box = boxes(user)
    code = "import os, sys; print(oct(os.umask(0)), os.getcwd(), flush=True); sys.stdin.read()"
    words = [word for word in box.words(code) if word != "--json"]
    process = box.popen(*words, stdin=subprocess.PIPE, preexec_fn=lambda: os.umask(0o077))
    try:
        assert process.stdout.readline() == b"0o22 /workspace\n"
        if os.geteuid() == 0:
            assert {os.readlink(f"/proc/{pid}/cwd") for pid in workers(box)} == {"/"}
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
