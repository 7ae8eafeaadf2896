# SPDX-License-Identifier: Apache-2.0
"""A state goes from a folder to S3 and back: it lives in one place at the most, and is never lost, wherever the move is killed."""

import json
import signal

import pytest

import stacks
from disk import Disk
from lib.shared_state import BUCKET, PLACE, Running, signals, team, write  # noqa: F401

pytestmark = [pytest.mark.timeout(300), pytest.mark.sampled("moto")]


def said(result):
    return " ".join(result.err.split())


def lives(machine, *places):
    """Those of the places that somebody may use."""
    found = [place for place in places if machine("state", "list", "--state", place).code == 0]
    for place in set(places) - set(found):
        refused = said(machine("state", "list", "--state", place).expect(1))
        assert "has moved to" in refused or "has not arrived yet" in refused or "there is no state" in refused, refused
    assert len(found) <= 1
    return found


def moved(machine, source, target, *options):
    return machine("state", "migrate", "--state", source, target, "--yes", "--json", *options).expect(0).json()["outcome"]


class Places:
    """A stack whose state is in a folder, and a place in S3 for it."""

    def __init__(self, team):  # noqa: F811
        self.team, self.machine = team, team.machine("first")
        del self.machine.env["BERTH_STATE"]
        self.folder = str(self.machine.stack / ".berth")
        write(self.machine, "a")
        self.machine("apply", "--yes").expect(0)

    def at(self, place):
        return self.machine("state", "show", "--json", "--state", place).expect(0).json()

    def note(self):
        bucket = next(b["Name"] for b in self.team.s3.list_buckets()["Buckets"] if b["Name"] != BUCKET)
        keys = [item["Key"] for item in self.team.s3.list_objects_v2(Bucket=bucket, Prefix="berth/lineages/")["Contents"]]
        assert len(keys) == 1
        return json.loads(self.team.s3.get_object(Bucket=bucket, Key=keys[0])["Body"].read())

    def is_whole_at(self, place):
        assert lives(self.machine, self.folder, PLACE) == [place]
        self.machine("plan", "--detailed-exitcode", "--state", place).expect(0)
        for each in (self.folder, PLACE):
            self.machine("state", "verify", "--state", each).expect(0)


@pytest.fixture
def places(team):  # noqa: F811
    return Places(team)


def test_to_s3_and_back(places):
    machine, folder = places.machine, places.folder
    before = places.at(folder)
    assert places.note()["folder"] == folder
    done = machine("state", "migrate", PLACE, "--yes", "--json").expect(0).json()
    assert done == {"from": folder, "to": PLACE, "outcome": "moved", "lineage": before["lineage"], "serial": before["serial"]}
    assert places.note()["folder"] == PLACE
    places.is_whole_at(PLACE)
    after = places.at(PLACE)
    assert [entry["command"] for entry in after["history"]] == ["state migrate", "apply"]
    assert after["serial"] == before["serial"] and after["lineage"] == before["lineage"]
    # Where it was nobody works any more; it can be checked and copied.
    write(machine, "a", "b")
    for verb in (["plan"], ["apply", "--yes"], ["destroy", "--yes"], ["state", "list"], ["state", "history"], ["state", "rm", "Agent/of-a", "--yes"], ["drift"], ["get"], ["import", "Environment/a", "x"]):
        assert f"has moved to {PLACE} (" in said(machine(*verb).expect(1)), verb
    machine("state", "verify").expect(0)
    machine("state", "backup", machine.folder / "copy").expect(0)
    assert "has moved to" in said(machine("plan", "--state", machine.folder / "copy").expect(1))
    assert machine("lock", "show", "--json").expect(0).json() == {"held": False}
    # The Stack says it, and another machine goes on.
    machine.declared = {"state": {"s3": PLACE}}
    write(machine, "a", "b")
    machine("apply", "--yes").expect(0)
    other = places.team.machine("other", declared=True)
    write(other, "a")
    other("apply", "--yes").expect(0)
    assert moved(machine, PLACE, folder) == "moved"
    assert places.note()["folder"] == folder
    machine.declared = {}
    write(machine, "a")
    places.is_whole_at(folder)
    assert [entry["command"] for entry in places.at(folder)["history"]] == ["state migrate", "apply", "apply", "state migrate", "apply"]
    for verb in (["plan"], ["apply", "--yes"], ["state", "restore", "1", "--yes"]):
        assert f"has moved to {folder} on " in said(other(*verb).expect(1)), verb
    # And once more: the objects are there.
    assert moved(machine, folder, PLACE) == "moved"
    places.is_whole_at(PLACE)
    assert moved(machine, folder, PLACE) == "there-already"
    machine("destroy", "--yes", "--state", PLACE).expect(0)


def test_from_one_place_in_s3_to_another(places):
    machine, second = places.machine, f"s3://{BUCKET}/other/place"
    assert moved(machine, places.folder, PLACE) == "moved"
    assert moved(machine, PLACE, second) == "moved"
    assert lives(machine, places.folder, PLACE, second) == [second]
    machine("plan", "--detailed-exitcode", "--state", second).expect(0)
    machine("apply", "--yes", "--state", second).expect(0)
    assert f"has moved to {second}" in said(machine("plan", "--state", PLACE).expect(1))
    # Not by the way that it came.
    assert moved(machine, second, places.folder) == "moved"
    places.is_whole_at(places.folder)
    assert lives(machine, places.folder, PLACE, second) == [places.folder]


def test_another_state_is_not_replaced(places):
    machine, other = places.machine, places.team.machine("other")
    other.write("stack.yaml", stacks.text(stacks.stack("another", aws={"namePrefix": "other"})))
    other("apply", "--yes").expect(0)
    assert "there is another state in" in said(machine("state", "migrate", PLACE, "--yes").expect(1))
    assert "name another place" in said(machine("state", "migrate", places.folder, "--yes").expect(1))
    assert "there is no state in" in said(machine("state", "migrate", PLACE, "--yes", "--state", machine.folder / "none").expect(1))
    assert "no state in gs:" in said(machine("state", "migrate", "gs://x/y", "--yes").expect(1))
    assert "--yes is needed" in said(machine("state", "migrate", f"{PLACE}/below").expect(1))
    assert "needs the place" in said(machine("state", "migrate", "--yes").expect(1))
    other("plan", "--detailed-exitcode").expect(0)
    assert lives(machine, places.folder, f"{PLACE}/below") == [places.folder]


def test_what_is_this_machines_alone_stays(offline):
    offline.write("stack.yaml", stacks.text(stacks.document("Stack", "team", {"provider": "local"}), stacks.environment("a")))
    offline("apply", "--yes").expect(0)
    assert "is for provider aws" in said(offline("state", "migrate", PLACE, "--yes").expect(1))
    assert "move that folder as a whole" in said(offline("state", "migrate", offline.folder / "there", "--yes").expect(1))
    offline("plan", "--detailed-exitcode").expect(0)


def die(machine, env, *args):
    process = machine.popen("state", "migrate", *args, "--yes", env=env)
    process.communicate(timeout=machine.timeout)
    assert process.returncode in (0, -signal.SIGKILL)


def broken_off(places, source, target, back, *, what):
    """Is finished by the same command, or undone; both need no more than to be said."""
    living = lives(places.machine, source, target)
    begun = "there is no state" not in said(places.machine("state", "list", "--state", target))
    ways = (target, source) if back and begun else (source, target)
    assert moved(places.machine, *ways) in ("finished", "given-up", "moved", "there-already"), (what, living)
    assert lives(places.machine, source, target) == [ways[1]], (what, living)
    places.machine("plan", "--detailed-exitcode", "--state", ways[1]).expect(0)
    if ways[1] == target:
        moved(places.machine, target, source)


# All requests, in every order: tests/unit/controller/transfer_test.c.
@pytest.mark.parametrize(("nth", "when"), [(1, "after"), (3, "after"), (5, "before"), (7, "after"), (9, "before")])
def test_killed_at_a_request(places, nth, when):
    for source, target in ((places.folder, PLACE), (PLACE, places.folder)):
        places.team.cloud.faults(({"operation": "PutObject", "resource": "research/", "nth": nth}, signals(places.machine, when)))
        code, _ = Running(places.machine, "state", "migrate", "--state", source, target, "--yes").end()
        places.team.cloud.faults()
        assert code in (0, -signal.SIGKILL)
        broken_off(places, source, target, nth % 4 == 1, what=(nth, when))
        moved(places.machine, source, target)
    places.is_whole_at(places.folder)


@pytest.mark.parametrize("back", [False, True], ids=["finished", "given up"])
def test_killed_at_a_write_to_the_folder(places, tmp_path, back):
    machine, disk = places.machine, Disk(tmp_path, places.folder)
    machine("state", "migrate", PLACE, "--yes", env=disk.env()).expect(0)
    count = len(disk.writes())
    assert count > 8
    moved(machine, PLACE, places.folder)
    for nth in range(2 + back, count, 10):
        die(machine, disk.env("after", nth), PLACE)
        broken_off(places, places.folder, PLACE, back, what=nth)
    moved(machine, places.folder, PLACE)
    places.is_whole_at(PLACE)


def test_killed_as_a_folder_is_made(places, tmp_path):
    machine = places.machine
    moved(machine, places.folder, PLACE)
    for nth in (2, 7):
        made = str(tmp_path / f"made-{nth}")
        die(machine, Disk(tmp_path, made).env("after", nth), "--state", PLACE, made)
        lives(machine, PLACE, made)
        moved(machine, PLACE, made)
        assert lives(machine, PLACE, made) == [made]
        moved(machine, made, PLACE)
    machine("plan", "--detailed-exitcode", "--state", PLACE).expect(0)


@pytest.mark.parametrize(("key", "nth", "sealed"), [("state", 1, False), ("log/", 2, True)], ids=["before the source is marked", "behind that"])
def test_of_two_at_once_one_wins(places, key, nth, sealed):
    """The first is stopped in the middle, and its lock taken from it; what it does later must not count."""
    machine, second, third = places.machine, f"s3://{BUCKET}/second", f"s3://{BUCKET}/third"
    moved(machine, places.folder, PLACE)
    places.team.cloud.faults(({"operation": "PutObject", "resource": f"third/{key}", "nth": nth}, signals(machine, "before", "STOP")))
    running = Running(machine, "state", "migrate", "--state", PLACE, third, "--yes")
    try:
        running.wait_stopped()
        refused = machine("state", "migrate", "--state", PLACE, second, "--yes").expect(4)
        assert "state migrate, since 20" in said(refused)
        machine("lock", "release", "--force", "--state", PLACE).expect(0)
        another = machine("state", "migrate", "--state", PLACE, second, "--yes").expect(1 if sealed else 0)
    finally:
        running.go_on()
    code, text = running.end()
    places.team.cloud.faults()
    if sealed:
        assert f"has moved to {third}" in said(another)
        assert code == 0, text
    else:
        assert code == 4 and "records nothing more" in " ".join(text.split()), text
    wanted = third if sealed else second
    assert lives(machine, PLACE, second, third) == [wanted]
    machine("plan", "--detailed-exitcode", "--state", wanted).expect(0)


def test_a_state_that_is_lost_behind_a_move_is_no_new_beginning(places):
    machine = places.machine
    moved(machine, places.folder, PLACE)
    for key in places.team.keys():
        places.team.s3.delete_object(Bucket=BUCKET, Key=f"research/{key}")
    assert "no longer exists" in said(machine("state", "migrate", PLACE, "--yes").expect(1))
    assert f"has moved to {PLACE}" in said(machine("plan").expect(1))
    assert places.team.keys() == []


def test_a_mistyped_place_is_no_new_beginning(places):
    """Behind a move the Stack names another place than the state went to: nothing is there, and nothing begins there."""
    machine = places.machine
    moved(machine, places.folder, PLACE)
    machine.declared = {"state": {"s3": f"s3://{BUCKET}/other"}}
    write(machine, "a")
    for verb in (["plan"], ["apply", "--yes"], ["state", "adopt", "--yes"], ["state", "list"]):
        assert f"has moved to {PLACE} (" in said(machine(*verb).expect(1)), verb
    assert "Contents" not in places.team.s3.list_objects_v2(Bucket=BUCKET, Prefix="other/")
    machine.declared = {"state": {"s3": PLACE}}
    write(machine, "a")
    machine("plan", "--detailed-exitcode").expect(0)
