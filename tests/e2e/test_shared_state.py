# SPDX-License-Identifier: Apache-2.0
"""One state for several machines, in S3: each machine has folders and a home of its own, and nothing else in common."""

import hashlib
import json
import shutil
import signal

import pytest

import stacks
from lib.shared_state import BUCKET, PLACE, Running, signals, team, write  # noqa: F401

pytestmark = pytest.mark.timeout(300)


def test_two_machines_have_one_state(team):
    first, second = team.machine("first"), team.machine("second", declared=True)
    write(first, "a")
    write(second, "a")
    assert first("plan", "--json").expect(0).json()["summary"]["create"] > 0
    assert team.keys() == []  # a plan makes nothing
    first("apply", "--yes").expect(0)
    assert not (first.stack / ".berth").exists() and not (first.stack / "s3:").exists()
    for machine in (first, second):
        machine("plan", "--detailed-exitcode").expect(0)
        listed = machine("state", "list", "--json").expect(0).out
        place = machine("state", "show", "--json").expect(0).out
        assert "Environment/a" in listed and PLACE in place
        machine("drift").expect(0)
        assert "Environment/a" in machine("get").expect(0).out
        assert "of-a" in machine("map").expect(0).out
    write(second, "a", "b")
    second("apply", "--yes").expect(0)
    write(first, "a", "b")
    first("plan", "--detailed-exitcode").expect(0)
    first("state", "verify").expect(0)
    # Whatever is on the machine may go at any time.
    shutil.rmtree(first.home / ".cache")
    first("plan", "--detailed-exitcode").expect(0)
    first("destroy", "--yes").expect(0)
    second("state", "list").expect(0)
    numbers = [head["number"] for head in team.log()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert team.lease()["id"] == ""


def test_a_plan_that_is_saved_makes_the_state(team):
    """Another machine applies it: lineage and key are the same there. Who may not write sees the plan alone."""
    first, second = team.machine("first"), team.machine("second")
    write(first, "a")
    write(second, "a")
    team.cloud.faults(({"operation": "PutObject", "resource": "research/", "nth": list(range(1, 9))}, {"kind": "error", "status": 403, "code": "AccessDenied"}))
    denied = first("plan", "-o", "a.plan").expect(0)
    assert "cannot be applied" in denied.err and "to create" in denied.out
    team.cloud.faults()
    assert team.keys() == []
    assert "plan-stale" in second("apply", "--yes", first.stack / "a.plan").expect(3).err
    assert "cannot be applied" not in first("plan", "-o", "a.plan").expect(0).err
    assert "state" in team.keys() and team.lease()["id"] == ""
    second("apply", "--yes", first.stack / "a.plan").expect(0)
    team.check("a")


def test_below_berth_is_no_place_for_a_state(offline):
    offline.write("stack.yaml", stacks.text(stacks.stack()))
    for verb in (["plan"], ["apply", "--yes"], ["state", "list"], ["get"]):
        assert "below berth/ lies" in offline(*verb, "--state", "s3://bucket/berth/x").expect(1).err
    offline.write("stack.yaml", stacks.text(stacks.stack(state={"s3": "s3://bucket/a/../b"})))
    assert "has no part that is . or .." in offline("validate").expect(1).err


def test_who_was_stopped_and_lost_the_lock_stops(team):
    first, second = team.machine("first"), team.machine("second")
    write(first, "a", "b")
    write(second, "a", "b")
    team.cloud.faults(({"operation": "CreateFunction", "nth": 1}, signals(first, "before", "STOP")))
    running = Running(first, "apply", "--yes", "--parallel", "1")
    try:
        running.wait_stopped()
        refused = second("apply", "--yes").expect(4)
        assert f"process {running.process.pid} on " in refused.err and "apply, since 20" in refused.err
        held = second("lock", "show", "--json").expect(0).json()
        assert (held["held"], held["pid"], held["command"], held["alive"]) == (True, running.process.pid, "apply", True)
        assert held["who"] and held["host"] and held["since"]
        assert [(entry["address"], entry["action"]) for entry in held["unfinished"]] == [("Environment/a", "create")]
        who = f"process {running.process.pid} on {held['host']} ({held['who']}: apply) since {held['since']}, in the middle of Environment/a (create)"
        assert second("lock", "show").expect(0).out == f"Held by {who}.\n"
        second("lock", "release").expect(4)
        assert f"The lock is free. It was held by {who}: the next run" in second("lock", "release", "--force").expect(0).out
        assert second("lock", "show", "--json").expect(0).json() == {"held": False}
        second("apply", "--yes").expect(0)
        mark = team.cloud.mark()
    finally:
        running.go_on()
    code, said = running.end()
    assert code == 4, said
    assert "was taken from this run" in said or "was not renewed in time" in said  # where this machine took so long
    # It tried to write down what it had done, and did nothing else.
    assert [c for c in team.cloud.changing_calls(mark) if not c["params"].get("Key", "").startswith("research/")] == []
    team.cloud.faults()
    team.check("a", "b")


def test_a_lock_ends_by_the_clock_of_s3(team):
    first, second = team.machine("first"), team.machine("second")
    write(first, "a")
    write(second, "a")
    team.cloud.faults(({"operation": "CreateFunction", "nth": 1}, signals(first, "after")))
    code, said = Running(first, "apply", "--yes").end()
    assert code == -signal.SIGKILL, said
    team.cloud.faults()
    team.elsewhere()
    assert "loses the lock 30 s later by itself" in second("apply", "--yes").expect(4).err
    # Nor does this machine's clock count, which is ten minutes behind now.
    team.cloud.settings(clock_skew_s=600)
    second("apply", "--yes").expect(4)
    team.cloud.settings(object_age_days={"research/lease": 40 / (24 * 3600)})
    second("apply", "--yes").expect(0)
    team.cloud.settings(clock_skew_s=0, object_age_days={})
    team.check("a")


def commits_of_an_apply(team):
    machine = team.machine("undisturbed")
    write(machine, "a")
    mark = team.cloud.mark()
    machine("apply", "--yes").expect(0)
    puts = [call for call in team.cloud.calls(mark, operation="PutObject") if "research/" in call["params"]["Key"]]
    machine("destroy", "--yes").expect(0)
    return len(puts)


@pytest.mark.timeout(900)
def test_killed_at_a_write_and_gone_on_elsewhere(team):
    """At some of the writes to the state, before and after S3 has them; the machine never comes back."""
    count = commits_of_an_apply(team)
    assert count > 6
    for number, (nth, when) in enumerate([(2, "before"), (count // 2, "after"), (count // 2 + 1, "before"), (count - 1, "after"), (count, "before")]):
        dying, next_one = team.machine(f"dying-{number}"), team.machine(f"next-{number}")
        write(dying, "a")
        write(next_one, "a")
        team.cloud.faults(({"operation": "PutObject", "resource": "research/", "nth": nth}, signals(dying, when)))
        code, said = Running(dying, "apply", "--yes").end()
        assert code in (0, -signal.SIGKILL), (nth, when, said)
        team.cloud.faults()
        shutil.rmtree(dying.folder)
        next_one("apply", "--yes").expect(0)
        team.check("a")
        next_one("destroy", "--yes").expect(0)


FAULTS = {
    "no answer to what was done": ({"operation": "PutObject", "resource": "research/log/"}, {"kind": "lost"}),
    "no answer to what was not": ({"operation": "PutObject", "resource": "research/log/"}, {"kind": "reset"}),
    "409": ({"operation": "PutObject", "resource": "research/log/"}, {"kind": "error", "status": 409, "code": "ConditionalRequestConflict"}),
    "412": ({"operation": "PutObject", "resource": "research/log/"}, {"kind": "error", "status": 412, "code": "PreconditionFailed"}),
    "503": ({"operation": "PutObject", "resource": "research/log/"}, {"kind": "error", "status": 503, "code": "ServiceUnavailable"}),
    "slow down": ({"operation": "PutObject", "resource": "research/log/"}, {"kind": "error", "status": 503, "code": "SlowDown"}),
    "an entry that is cut off": ({"operation": "GetObject", "resource": "research/log/"}, {"kind": "truncate"}),
    "a lock without an answer": ({"operation": "PutObject", "resource": "research/lease"}, {"kind": "lost"}),
    "a root without an answer": ({"operation": "PutObject", "resource": "research/state"}, {"kind": "lost"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_answers_that_go_wrong(team, fault):
    machine = team.machine("first")
    write(machine, "a")
    match, action = FAULTS[fault]
    team.cloud.faults(({**match, "nth": [1, 3]}, action))
    machine("apply", "--yes").expect(0)
    machine("plan", "--detailed-exitcode").expect(0)
    assert team.cloud.fault_hits()[0] >= 1
    team.cloud.faults()
    team.check("a")


def test_s3_that_stays_away_ends_the_apply(team):
    machine = team.machine("first")
    write(machine, "a")
    team.cloud.faults(({"operation": "PutObject", "resource": "research/log/", "nth": list(range(3, 400))}, {"kind": "reset"}))
    result = machine("apply", "--yes").expect(1)
    assert "research/log/000000000003 was written is not known" in result.err
    assert team.cloud.functions() == {}
    team.cloud.faults()
    machine("apply", "--yes").expect(0)
    team.check("a")


@pytest.mark.only("ministack", "moto gives the answer to GetBucketVersioning another root than S3 does")
def test_a_bucket_without_versions_is_warned_of(team):
    machine = team.machine("first")
    write(machine, "a")
    assert "keeps no older versions" not in machine("apply", "--yes").expect(0).err
    team.version(False)
    assert "keeps no older versions" in machine("apply", "--yes").expect(0).err


def test_a_copy_of_another_log_is_not_believed(team):
    """The objects are put back to what they were: what a machine has of later commits is void."""
    first = team.machine("first")
    write(first, "a")
    first("apply", "--yes").expect(0)
    kept = team.keys("log/")
    write(first, "a", "b")
    first("apply", "--yes").expect(0)
    for key in set(team.keys("log/")) - set(kept):
        team.s3.delete_object(Bucket=BUCKET, Key=f"research/{key}")
    assert "Environment/b" not in first("state", "list").expect(0).out


@pytest.mark.parametrize("damaged", ["state", "snapshot/", "log/"])
def test_damage_is_said(team, damaged):
    machine = team.machine("first")
    write(machine, "a")
    machine("apply", "--yes").expect(0)
    if damaged == "log/":  # what a snapshot saves reading is not read
        for key in team.keys("snapshot/"):
            team.s3.delete_object(Bucket=BUCKET, Key=f"research/{key}")
    key = f"research/{team.keys(damaged)[-1]}"
    body = team.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    team.s3.put_object(Bucket=BUCKET, Key=key, Body=body[:-40])
    assert f"s3://{BUCKET}/{key} is damaged or was cut off" in machine("plan").expect(1).err


def test_the_log_does_not_grow_for_ever(team):
    """What is older than thirty days goes; a machine that remembers less, and one that knows nothing, plan as ever."""
    first, late = team.machine("first"), team.machine("late")
    write(first, "a")
    write(late, "a")
    first("apply", "--yes").expect(0)
    late("plan", "--detailed-exitcode").expect(0)
    began = first("state", "history", "--json").expect(0).json()["entries"][-1]["serial"]

    def until_a_snapshot():
        before = team.keys("snapshot/")
        for number in range(40):
            write(first, "a", *["b"] * (number % 2))
            first("apply", "--yes").expect(0)
            if team.keys("snapshot/") != before:
                return
        raise AssertionError("no snapshot in forty applies")

    until_a_snapshot()
    index = json.loads(team.s3.get_object(Bucket=BUCKET, Key="research/index")["Body"].read())
    assert index["floor"] == 0 and len(team.keys("log/")) == first_number(team.keys("log/")[-1])
    for snapshot in index["snapshots"]:
        snapshot["at"] -= 31 * 24 * 60 * 60 * 1000
    team.s3.put_object(Bucket=BUCKET, Key="research/index", Body=json.dumps(index).encode())
    until_a_snapshot()
    index = json.loads(team.s3.get_object(Bucket=BUCKET, Key="research/index")["Body"].read())
    assert index["floor"] > 0 and index["cleared"] == index["floor"]
    assert first_number(team.keys("log/")[0]) == index["floor"]
    write(first, "a")
    first("apply", "--yes").expect(0)
    assert "older than what is kept" in first("state", "restore", str(began), "--yes").expect(1).err
    shown = first("state", "list").expect(0).out
    for machine in (late, team.machine("fresh")):
        write(machine, "a")
        machine("plan", "--detailed-exitcode").expect(0)
        assert machine("state", "list").expect(0).out == shown
    # Who may not delete loses nothing, and leaves all there.
    team.cloud.faults(({"operation": "DeleteObjects", "resource": "team-state"}, {"kind": "error", "status": 403, "code": "AccessDenied"}))
    late("apply", "--yes").expect(0)


def first_number(key):
    return int(key.rsplit("/", 1)[1])


def test_verify_reads_the_objects(team):
    """What the copy on this machine knows is nothing that another machine would find."""
    machine = team.machine("first")
    write(machine, "a")
    machine("apply", "--yes").expect(0)
    machine("state", "verify").expect(0)
    key = f"research/{team.keys('log/')[1]}"
    body = team.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    team.s3.put_object(Bucket=BUCKET, Key=key, Body=body[:-40])
    machine("plan", "--detailed-exitcode").expect(0)
    assert f"s3://{BUCKET}/{key} is damaged or was cut off" in machine("state", "verify").expect(1).out
    team.s3.put_object(Bucket=BUCKET, Key=key, Body=body)
    machine("state", "verify").expect(0)
    team.s3.put_object(Bucket=BUCKET, Key="research/lease", Body=b"somebody's")
    assert "berth lock release --force" in " ".join(machine("apply", "--yes").expect(1).err.split())
    machine("lock", "release").expect(1)
    machine("lock", "release", "--force").expect(0)
    machine("apply", "--yes").expect(0)


def test_what_is_no_snapshot_is_left_alone(team):
    machine = team.machine("first")
    write(machine, "a")
    machine("apply", "--yes").expect(0)
    for key in ("snapshot/", "snapshot/zzz.bak", "snapshot/000000000009.old"):
        team.s3.put_object(Bucket=BUCKET, Key=f"research/{key}", Body=b"somebody's")
    shutil.rmtree(machine.home / ".cache", ignore_errors=True)
    machine("plan", "--detailed-exitcode").expect(0)


def test_a_snapshot_of_a_log_that_is_no_more(team):
    """The log was put back to an older version, the snapshot was not: nobody goes on from it."""
    machine = team.machine("first")
    write(machine, "a")
    machine("apply", "--yes").expect(0)
    log = team.keys("log/")
    number = int(log[-1].removeprefix("log/"))
    body = team.s3.get_object(Bucket=BUCKET, Key="research/state")["Body"].read()
    _, head, rest = body.split(b"\n", 2)
    head = json.loads(head)
    last = team.s3.get_object(Bucket=BUCKET, Key=f"research/{log[-1]}")["Body"].read()[-32:]
    head.update(number=number, previous=last.hex())
    made = b"berth-snapshot 1\n" + json.dumps(head).encode() + b"\n" + rest[:-32]
    team.s3.put_object(Bucket=BUCKET, Key=f"research/snapshot/{number:012}", Body=made + hashlib.sha256(made).digest())
    shutil.rmtree(machine.home / ".cache", ignore_errors=True)
    machine("state", "list").expect(0)  # the log has its entry
    team.s3.delete_object(Bucket=BUCKET, Key=f"research/{log[-1]}")
    shutil.rmtree(machine.home / ".cache", ignore_errors=True)
    assert f"snapshot/{number:012}" in machine("state", "list").expect(1).err


def test_a_stack_with_mistakes_may_say_where_the_state_is(team):
    machine = team.machine("first", declared=True)
    write(machine, "a")
    machine("apply", "--yes").expect(0)
    machine.write("wrong.yaml", "apiVersion: berth/v1\nkind: Agnet\nmetadata: {name: x}\n")
    for verb in (["get"], ["map"], ["state", "list"]):
        assert "the manifests in" in " ".join(machine(*verb).expect(1).err.split())
    assert "Environment/a" in machine("state", "list", "--state", PLACE).expect(0).out


def test_a_root_that_is_gone_is_no_new_beginning(team):
    machine, other = team.machine("first"), team.machine("other")
    write(machine, "a")
    write(other, "a")
    machine("apply", "--yes").expect(0)
    team.s3.delete_object(Bucket=BUCKET, Key="research/state")
    for verb in (["plan"], ["apply", "--yes"], ["state", "list"]):
        for each in machine, other:
            assert "is gone, though commits of a state are there" in " ".join(each(*verb).expect(1).err.split())


@pytest.mark.parametrize("condition", ["If-None-Match", "If-Match"])
def test_a_store_that_heeds_no_conditions_keeps_no_state(team, condition):
    """Of S3's many imitations some carry out every write: the lock would be everybody's."""
    machine = team.machine("first")
    write(machine, "a")
    done = {"kind": "answer", "status": 200, "headers": {"ETag": '"0123456789abcdef0123456789abcdef"'}}
    of_both, second = {"operation": "PutObject", "resource": "research/probe"}, condition == "If-Match"
    if second:
        team.s3.put_object(Bucket=BUCKET, Key="research/probe", Body=b"made before")
    team.cloud.faults(({**of_both, "nth": [2] if second else [1, 2]}, done))
    said = machine("apply", "--yes").expect(1).err
    assert "carries out writes whose condition" in " ".join(said.split())
    assert not team.cloud.functions() and team.keys("log/") == [] and team.keys("lease") == []
    team.cloud.faults()
    machine("apply", "--yes").expect(0)


def test_what_is_this_machines_alone_has_its_state_here(offline):
    offline.write("stack.yaml", stacks.text(stacks.document("Stack", "team", {"provider": "local"})))
    for verb in (["plan"], ["apply", "--yes"]):
        assert "is for provider aws" in offline(*verb, "--state", PLACE).expect(1).err
    assert "names: s3://" in offline("controller", "-f", "x.yaml", "--state", PLACE).expect(1).err


def test_a_state_in_both_places_is_refused(team):
    machine = team.machine("first")
    write(machine, "a")
    machine("apply", "--yes", "--state", str(machine.stack / ".berth")).expect(0)
    machine.declared = {"state": {"s3": PLACE}}
    del machine.env["BERTH_STATE"]
    write(machine, "a")
    assert "but there is one in" in machine("plan").expect(1).err
    assert team.keys() == []


def test_secrets_are_not_in_the_bucket(team):
    machine = team.machine("first")
    secret = "correct-horse-battery"
    machine.write("stack.yaml", stacks.text(
        stacks.stack(), stacks.environment("a", variables={"TOKEN": {"value": secret, "sensitive": True}}), stacks.agent("of-a", environment="a")))  # fmt: skip
    machine("apply", "--yes").expect(0)
    for key in team.keys():
        assert secret.encode() not in team.s3.get_object(Bucket=BUCKET, Key=f"research/{key}")["Body"].read()


def listed(machine):
    return set(machine("state", "list").expect(0).out.split())


def test_an_earlier_state_comes_back(team):
    first, second, third = (team.machine(name) for name in ("first", "second", "third"))
    write(first, "a", "b")
    write(second, "a", "b")
    first("apply", "--yes").expect(0)
    whole, serial = listed(first), first("state", "show", "--json").json()["serial"]
    assert first("state", "history", "--json").json()["entries"][0]["serial"] == serial
    second("state", "rm", "--yes", "Agent/of-b").expect(0)
    second("state", "rm", "--yes", "Environment/b").expect(0)
    assert whole - listed(third) == {"Agent/of-b", "Environment/b"}
    spoiled = third("state", "show", "--json").json()["serial"]
    # Not without a yes; and what there is not is said.
    third("state", "restore", str(serial)).expect(1)
    assert third("state", "show", "--json").json()["serial"] == spoiled
    assert "needs a serial" in third("state", "restore", "--yes", "12x").expect(1).err
    assert "has no serial 99 yet" in third("state", "restore", "--yes", "99").expect(1).err
    restored = third("state", "restore", "--yes", "--json", str(serial)).expect(0).json()
    assert restored == {"restored": serial, "serial": spoiled + 1, "back": 2, "forgotten": 0, "changed": 0}
    assert listed(second) == whole
    entry = second("state", "history", "--json").json()["entries"][0]
    assert (entry["command"], entry["serial"]) == ("state restore", spoiled + 1)
    assert "nothing to do" in second("state", "restore", "--yes", str(serial)).expect(0).out
    team.check("a", "b")
    # What was made since is forgotten, not deleted: a plan that declares it takes it in again.
    write(first, "a", "b", "c")
    first("apply", "--yes").expect(0)
    asked = first("state", "restore", str(serial)).expect(1).err
    assert "2 are forgotten" in " ".join(asked.split()) and "this would change 2 resources" in asked
    assert "berth plan shows" in first("state", "restore", "--yes", str(serial)).expect(0).out
    shutil.rmtree(second.home / ".cache")
    assert listed(second) == whole
    assert len(team.cloud.functions()) == 3
    write(second, "a", "b", "c")
    second("apply", "--yes").expect(0)
    team.check("a", "b", "c")


def test_no_state_from_the_middle_of_a_run_comes_back(team):
    first = team.machine("first")
    write(first, "a")
    first("apply", "--yes").expect(0)
    serial = first("state", "show", "--json").json()["serial"]
    write(first, "a", "b")
    team.cloud.faults(({"operation": "CreateFunction", "nth": 1}, signals(first, "after")))
    code, said = Running(first, "apply", "--yes").end()
    assert code == -signal.SIGKILL, said
    team.cloud.faults()
    between = first("state", "show", "--json").json()["serial"]
    refused = first("state", "restore", "--yes", str(serial)).expect(3)
    assert "an earlier run did not finish: run berth apply first" in refused.err
    first("apply", "--yes").expect(0)
    if between > serial:
        assert "from the middle of a run" in first("state", "restore", "--yes", str(between)).expect(3).err
    first("state", "restore", "--yes", str(serial)).expect(0)
    assert not {"Environment/b", "Agent/of-b"} & listed(first)
    first("apply", "--yes").expect(0)
    team.check("a", "b")


def test_of_two_first_applies_one_waits_for_the_other(team):
    """Both found no state. The second takes the one that the first has made, as soon as its lock is free."""
    first, second = team.machine("first"), team.machine("second")
    for machine in (first, second):
        write(machine, "a")
    team.cloud.faults(({"operation": "PutObject", "resource": "research/lease", "nth": 1}, signals(first, "after", "STOP")))
    running = Running(first, "apply", "--yes")
    try:
        running.wait_stopped()
        waiting = second.popen("apply", "--yes", "--lock-timeout", "120")
        assert "Waiting for it, 120 s" in waiting.stderr.readline().decode()
    finally:
        running.go_on()
    running.end()
    team.cloud.faults()
    _, err = waiting.communicate(timeout=100)
    assert waiting.returncode == 0, err
    team.check("a")
