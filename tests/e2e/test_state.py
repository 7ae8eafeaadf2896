# SPDX-License-Identifier: Apache-2.0
"""The state as a user meets it: locks, takeover, list, show, verify, backup, damage, another account."""

import json
import os
import shutil
import signal
import time

import pytest

import stacks

pytestmark = pytest.mark.sampled("moto")


@pytest.fixture
def stack(berth, prebuilt):
    berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x"), stacks.agent("a", "x")))
    return berth


def start_apply(cloud, berth):
    """An apply that holds the lock and hangs in a call."""
    cloud.faults(({"operation": "CreateFunction", "nth": 1}, {"kind": "delay", "seconds": 20}))
    process = berth.popen("apply", "--yes")
    cloud.await_call(process, "CreateFunction")
    return process


def test_two_applies_at_once(cloud, stack):
    first = start_apply(cloud, stack)
    try:
        result = stack("apply", "--yes").expect(4)
        assert str(first.pid) in result.out + result.err
        assert stack("destroy", "--yes").code == 4
        stack.plan()  # a plan takes no lock
        assert str(first.pid) in stack("lock", "show").expect(0).out
    finally:
        first.kill()
        first.communicate()


def test_a_lock_is_waited_for(cloud, stack):
    first = start_apply(cloud, stack)
    try:
        short = stack("apply", "--yes", "--lock-timeout", "1").expect(4)
        assert "Waiting for it, 1 s at the most" in short.err and str(first.pid) in short.err
        second = stack.popen("apply", "--yes", "--lock-timeout", "60")
        assert f"is locked by process {first.pid}" in second.stderr.readline().decode()
    finally:
        first.kill()
        first.communicate()
    cloud.faults()
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, out + err
    stack.assert_settled()


def test_a_killed_holder_loses_its_lock(cloud, stack):
    first = start_apply(cloud, stack)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    cloud.faults()
    time.sleep(1)
    stack.apply()
    assert set(cloud.functions()) == {"alphaagent-env-x"}
    stack.assert_settled()


def test_list_show_verify_backup(stack, tmp_path):
    stack.apply()
    assert stack("state", "list").expect(0).out.split() == ["Agent/a", "Environment/x", "Stack/team"]
    assert "2048" in stack("state", "show", "Environment/x", "--json").expect(0).out
    stack("state", "verify").expect(0)
    whole = stack("state", "show", "--json").expect(0).json()
    assert whole["journal"] == [] and whole["lineage"] and whole["serial"] > 0
    copy = tmp_path / "copy"
    stack("state", "backup", str(copy)).expect(0)
    again = stack("state", "show", "--json", "--state", str(copy)).expect(0).json()
    assert (again["lineage"], again["serial"]) == (whole["lineage"], whole["serial"])
    assert "Environment/y" in stack("state", "show", "Environment/y").expect(1).err


def test_serial_grows_only_with_changes(stack):
    stack.apply()
    serial = stack.plan()["stateSerial"]
    stack.apply()
    assert stack.plan()["stateSerial"] == serial
    stack.write("m.yaml", (stack.stack / "m.yaml").read_text().replace("prebuilt: python", "prebuilt: python\n  memoryMB: 3000"))
    stack.apply()
    assert stack.plan()["stateSerial"] > serial


def data_file(stack):
    return max((p for p in (stack.stack / ".berth").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)


@pytest.mark.parametrize("damage", ["truncated", "zeroed", "short", "foreign", "empty"])
def test_a_damaged_file_is_an_error_and_never_a_fresh_start(cloud, stack, damage):
    stack.apply()
    path = data_file(stack)
    good = path.read_bytes()
    path.write_bytes(
        {"truncated": good[: len(good) // 2], "zeroed": bytes(len(good)), "short": good[:100], "foreign": b"PNG" * 5000, "empty": b""}[damage]
    )
    mark = cloud.mark()
    for command in (("plan",), ("apply", "--yes"), ("state", "verify"), ("state", "list")):
        result = stack(*command).expect(1)
        assert ".berth" in result.err, result
    assert cloud.changing_calls(mark) == []
    path.write_bytes(good)
    stack.assert_settled()


def test_a_state_in_another_place(stack, tmp_path):
    stack("apply", "--yes", env={"BERTH_STATE": str(tmp_path / "elsewhere")}).expect(0)
    assert not (stack.stack / ".berth").exists()
    stack("plan", "--detailed-exitcode", "--state", str(tmp_path / "elsewhere")).expect(0)


@pytest.mark.parametrize("place", ["gs://states/research", "file:///var/lib/berth", "s3:states/research", "s3://States/x", "s3://states"])
def test_what_looks_like_a_scheme_does_not_become_a_folder(stack, place):
    before = sorted(path.name for path in stack.stack.iterdir())
    for said, result in (
        ("--state", stack("plan", "--state", place)),
        ("--state", stack("state", "list", "--state", place)),
        ("BERTH_STATE", stack("apply", "--yes", env={"BERTH_STATE": place})),
    ):
        assert place in result.expect(1).err and said in result.err, result
    assert sorted(path.name for path in stack.stack.iterdir()) == before
    stack("version", env={"BERTH_STATE": place}).expect(0)
    stack("plan", "--help", env={"BERTH_STATE": place}).expect(0)


def test_a_folder_whose_name_looks_like_a_scheme(stack):
    stack("apply", "--yes", "--state", "./gs:/states").expect(0)
    assert (stack.stack / "gs:/states/data.mdb").exists()


def test_a_state_folder_that_cannot_be_made(stack):
    (stack.stack / "file").write_text("x")
    assert "file" in stack("plan", "--state", "file/state").expect(1).err


def test_another_account(cloud, stack):
    """The state belongs to one account; credentials of another one must not make everything anew there."""
    stack.apply()
    mark = cloud.mark()
    cloud.faults(
        (
            {"operation": "GetCallerIdentity"},
            {
                "kind": "answer", "headers": {"Content-Type": "text/xml"},
                "body": '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>'
                "<Arn>arn:aws:iam::999999999999:user/x</Arn><UserId>U</UserId><Account>999999999999</Account>"
                "</GetCallerIdentityResult></GetCallerIdentityResponse>",
            },
        )
    )  # fmt: skip
    result = stack("apply", "--yes")
    assert result.code in (1, 3) and "999999999999" in result.out + result.err, result
    assert cloud.changing_calls(mark) == []


def test_history_tells_which_commit(stack):
    """As the caller says, or else as his pipeline does; what is no whole commit id is none."""
    whole, other, long = "3f2a" * 10, "77ab" * 10, "0123456789abcdef" * 4
    cases = [
        ({}, None),
        ({"BERTH_COMMIT": whole}, whole),
        ({"BERTH_COMMIT": long}, long),
        ({"GITHUB_SHA": whole}, whole),
        ({"CI_COMMIT_SHA": whole}, whole),
        ({"BERTH_COMMIT": whole, "GITHUB_SHA": other, "CI_COMMIT_SHA": other}, whole),
        ({"BERTH_COMMIT": "", "CI_COMMIT_SHA": other}, other),
        ({"GITHUB_SHA": "3f2a"}, None),
        ({"CI_COMMIT_SHA": whole.upper()}, None),
    ]
    for number, (environment, commit) in enumerate(cases):
        stack.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x", description=f"case {number}")))
        stack.apply(env=environment)
        assert stack("state", "show", "--json").json()["history"][0]["commit"] == commit, environment
    for wrong in "3f2a", "main", whole + "0", whole.upper(), whole[:-1] + "\n":
        stack.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x", description="wrong " + str(len(wrong)))))
        refused = stack("apply", "--yes", env={"BERTH_COMMIT": wrong}).expect(1)
        assert "BERTH_COMMIT" in refused.err
    assert len(stack("state", "show", "--json").json()["history"]) >= len(cases)


def test_history_lists_the_serials(stack):
    stack.apply()
    stack("state", "rm", "--yes", "Agent/a").expect(0)
    serial = stack("state", "show", "--json").expect(0).json()["serial"]
    entries = stack("state", "history", "--json").expect(0).json()["entries"]
    assert [entry["command"] for entry in entries] == ["state rm", "apply"]
    assert [set(entry) for entry in entries] == [{"serial", "at", "who", "command", "commit"}] * 2
    assert entries[0]["serial"] == serial > entries[1]["serial"] > 0 and entries[0]["who"] and entries[0]["commit"] is None
    lines = stack("state", "history").expect(0).out.splitlines()
    assert [line.split()[0] for line in lines] == [str(entry["serial"]) for entry in entries]


def test_a_folder_has_no_past(stack):
    stack.apply()
    serial = stack("state", "show", "--json").json()["serial"]
    said = " ".join(stack("state", "restore", "--yes", str(serial)).expect(1).err.split())
    assert "keeps its last state alone: an older one comes from a backup" in said
    for wrong in ([], ["x"], ["99999999999999999999"]):
        assert "needs a serial" in stack("state", "restore", *wrong).expect(1).err
    assert stack("lock", "show", "--json").json() == {"held": False}


def test_history_tells_who_and_when(stack):
    stack.apply()
    history = stack("state", "show", "--json").expect(0).json()["history"]
    assert history[0]["command"] == "apply" and history[0]["outcome"] == "done" and history[0]["who"]


def test_no_secret_in_files_readable_by_others(stack):
    stack.apply()
    for path in (stack.stack / ".berth").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, f"{path} {oct(path.stat().st_mode)}"


def test_a_copied_folder_is_its_own_state(cloud, stack, tmp_path):
    """Two copies of one state: the one that is behind must not undo what the other did without saying so."""
    stack.apply()
    shutil.copytree(stack.stack / ".berth", tmp_path / "copy")
    stack.write("m.yaml", (stack.stack / "m.yaml").read_text().replace("prebuilt: python", "prebuilt: python\n  memoryMB: 3000"))
    stack.apply()
    plan = json.loads(stack("plan", "--json", "--state", str(tmp_path / "copy")).expect(0).out)
    assert plan["changes"] == [] or [f["path"] for c in plan["changes"] for f in c["fields"]] == []
    assert os.path.isdir(tmp_path / "copy")
