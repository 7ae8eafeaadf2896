# SPDX-License-Identifier: Apache-2.0
"""Nothing of who starts a run is inside: not a byte of the caller's environment, arguments, memory or descriptors."""

import json
import os
import secrets
import shutil

import probes
import pytest
from lib.launchers import Launcher


def canaries(count):
    return ["canary" + secrets.token_hex(16) for _ in range(count)]


def backwards(texts):
    return json.dumps([text[::-1] for text in texts])


def assert_none(told):
    assert told["found"] == []
    assert told["processes"] >= 2 and told["looked"] > 1 << 20, "it must have looked somewhere"


def test_the_search_finds(box):
    """What the sandbox is given is found, by the same search: in the environment, the arguments and the memory."""
    inside = canaries(1)
    told = box.tell(probes.CANARIES, "--", backwards(inside), inside[0])
    assert {number for number, _ in told["found"]} == {0}
    assert any("cmdline" in where for _, where in told["found"])
    assert any("memory" in where for _, where in told["found"])


def test_nothing_of_the_caller_is_inside(box):
    variable, argument, value, content, descriptor = canaries(5)
    folder = box.folder / argument
    shutil.copytree(box.stack, folder, symlinks=True)
    other = {"apiVersion": "berth/v1", "kind": "Environment", "metadata": {"name": "other"}}
    other["spec"] = {"image": {"prebuilt": "python"}, "variables": {"CANARY": content}}
    (folder / "other.yaml").write_text(json.dumps(other))
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, box.uid, box.uid, follow_symlinks=False)
    held = os.open(folder / descriptor, os.O_RDWR | os.O_CREAT)
    environment = dict(box.env)
    box.env = {**environment, "CANARY": variable, "AWS_SECRET_ACCESS_KEY": value, variable: "1"}
    try:
        words = box.words(probes.CANARIES, "-f", folder, "--state", folder / ".berth", "--", backwards([variable, argument, value, content, descriptor]))
        done = box.berth(*words, pass_fds=(held,))
    finally:
        box.env = environment
        os.close(held)
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    assert_none(json.loads(json.loads(done.stdout)["stdout"]["content"]))


def test_nothing_of_launcher_or_client_is_inside(binary, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("the launcher has root's rights")
    texts = canaries(2)
    monkeypatch.setenv("CANARY", texts[1])
    launcher = Launcher(binary, "--accept-degraded", "--images", f"/nonexistent/{texts[0]}")
    try:
        code = probes.CANARIES
        told = launcher.client(f"print(json.dumps(run(connect(path), {code!r}, {backwards(texts)!r}, deadline_ms=60000)))")
    finally:
        launcher.end()
    assert told["ending"]["exitCode"] == 0, told["errors"]
    assert_none(json.loads(told["output"]))
