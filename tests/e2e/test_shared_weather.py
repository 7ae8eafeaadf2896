# SPDX-License-Identifier: Apache-2.0
"""
A state in S3 and a network that parts in the middle of an apply, between the machine and the state, AWS, or both; clocks that are
wrong; a store that is slow; a list that lags. (Answers of every other kind: test_shared_state.py.)
"""

import signal
import time

import pytest

from clocks import Clocks
from lib.shared_state import BUCKET, Running, Team, signals, write

pytestmark = pytest.mark.timeout(300)

AWAY = {"kind": "reset"}
# Which of them cannot be reached, and what the lock is afterwards: given back, or left until it has passed.
PARTED = {
    "the state": ({"bucket": BUCKET}, False),
    "aws": ({"bucket_not": BUCKET}, True),
    "both": ({}, False),
}


@pytest.fixture
def team(cloud, binary, tmp_path, prebuilt):
    return Team(cloud, binary, tmp_path)


@pytest.mark.only("ministack", "the network is the proxy's")
@pytest.mark.parametrize("what", PARTED)
def test_parted_in_the_middle(team, what):
    """From the first function on. The run ends by itself, with an error, and begins nothing that it could not write down."""
    away, released = PARTED[what]
    first, second = team.machine("first"), team.machine("second")
    for machine in (first, second):
        write(machine, "a", "b", "c")
    team.cloud.faults(({"operation": "CreateFunction", "nth": 1}, {"kind": "latch"}), ({**away, "latched": True}, AWAY))
    mark, began = team.cloud.mark(), time.monotonic()
    refused = first("apply", "--yes", "--parallel", "1").expect(1)
    assert time.monotonic() - began < 100, refused
    changed = [call for call in team.cloud.changing_calls(mark, notes=True) if call["status"] in (200, 201, 204) and call["operation"] != "PutObject"]
    created = [call for call in changed if call["operation"] == "CreateFunction"]
    # What was on its way as the state went, and nothing more.
    assert len(created) == (1 if what == "the state" else 0) and changed[-1:] == created[-1:] or not created, changed
    team.cloud.faults()
    lease = team.lease()
    assert (lease["id"] == "") == released, lease
    if not released:
        team.elsewhere()
        assert "loses the lock 30 s later by itself" in " ".join(second("apply", "--yes").expect(4).err.split())
        team.cloud.settings(object_age_days={"research/lease": 40 / (24 * 3600)})
    second("apply", "--yes").expect(0)
    team.check("a", "b", "c")


@pytest.mark.only("moto", "clocks are berth's and the proxy's")
def test_two_machines_whose_clocks_are_wrong(team, tmp_path):
    """One is ten minutes ahead, one ten minutes behind: who holds the lock keeps it, and who died loses it, by the clock of S3 alone."""
    clocks, ahead, behind = Clocks(tmp_path), team.machine("ahead"), team.machine("behind")
    team.cloud.settings(clients_skewed=True)
    for machine, wall_s in ((ahead, 600), (behind, -600)):
        write(machine, "a")
        clocks.give(machine, wall_s=wall_s)
    for holder, other in ((ahead, behind), (behind, ahead)):
        team.cloud.faults(({"operation": "PutObject", "resource": "research/log/", "nth": 3}, signals(holder, "answered", "STOP")))
        running = Running(holder, "apply", "--yes")
        try:
            running.wait_stopped()
            team.cloud.faults()
            assert f"process {running.process.pid} on" in " ".join(other("apply", "--yes").expect(4).err.split())
        finally:
            running.go_on()
        code, said = running.end()
        assert code == 0, said
        # As a holder that dies.
        write(holder, "a", "b")
        write(other, "a", "b")
        team.cloud.faults(({"operation": "PutObject", "resource": "research/log/", "nth": 4}, signals(holder, "after")))
        code, said = Running(holder, "apply", "--yes").end()
        assert code == -signal.SIGKILL, said
        team.cloud.faults()
        team.elsewhere()
        other("apply", "--yes").expect(4)
        team.cloud.settings(object_age_days={"research/lease": 40 / (24 * 3600)})
        other("apply", "--yes").expect(0)
        team.cloud.settings(object_age_days={})
        write(holder, "a")
        write(other, "a")
        other("apply", "--yes").expect(0)
    # Order is the log's, whatever the clocks have written into it.
    entries = behind("state", "history", "--json").expect(0).json()["entries"]
    serials = [entry["serial"] for entry in entries]
    assert serials == sorted(serials, reverse=True), serials
    assert {machine("plan", "--detailed-exitcode").code for machine in (ahead, behind)} == {0}
    team.check("a")


@pytest.mark.only("ministack", "the proxy is slow")
def test_a_store_that_is_slow(team):
    machine = team.machine("first")
    write(machine, "a")
    team.cloud.faults(({"bucket": BUCKET, "operation": "PutObject", "nth": [2, 4, 6, 9]}, {"kind": "delay", "seconds": 1.5}),
                      ({"bucket": BUCKET, "operation": "GetObject", "nth": [1, 3]}, {"kind": "delay", "seconds": 1.5}))  # fmt: skip
    machine("apply", "--yes").expect(0)
    assert min(team.cloud.fault_hits()) >= 1
    team.cloud.faults()
    team.check("a")


def listing(*keys):
    items = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
    return {"kind": "answer", "status": 200, "headers": {"Content-Type": "application/xml"},
            "body": f'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{BUCKET}</Name>'
            f"<IsTruncated>false</IsTruncated><KeyCount>{len(keys)}</KeyCount>{items}</ListBucketResult>"}  # fmt: skip


@pytest.mark.only("moto", "the list is the proxy's")
def test_a_list_that_lags(team):
    """Lists say where to begin and no more: an old one, or an empty one, hides no commit."""
    machine = team.machine("first")
    for names in (["a"], ["a", "b"], ["a", "b", "c"]):
        write(machine, *names)
        machine("apply", "--yes").expect(0)
    snapshots = team.keys("snapshot/")
    assert snapshots
    for lagging in (listing(), listing(f"research/{snapshots[0]}", "research/snapshot/000000999999")):
        # Where there is an index nobody lists. A state of before has none.
        team.cloud.aws("s3").delete_object(Bucket=BUCKET, Key="research/index")
        team.cloud.faults(({"bucket": BUCKET, "operation": "ListObjectsV2"}, lagging))
        late = team.machine(f"late-{len(list(team.folder.iterdir()))}")
        write(late, "a", "b", "c")
        assert {f"Environment/{name}" for name in "abc"} <= set(late("state", "list").expect(0).out.split())
        late("plan", "--detailed-exitcode").expect(0)
        late("apply", "--yes").expect(0)
        assert team.cloud.fault_hits()[0] >= 1
    team.cloud.faults()
    team.check("a", "b", "c")
