# SPDX-License-Identifier: Apache-2.0
"""The controller: a commit says what shall be. Here on the provider local, with repositories on this machine's disk."""

import getpass
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

import stacks
from controllers import PATIENCE, Controller, source, wait_until
from disk import Disk
from git_servers import Daemon, Repository
from passers import Passer

STACK = stacks.document("Stack", "lab", {"provider": "local"})


def manifests(*documents, stack=STACK):
    return {"stack.yaml": stacks.text(stack), "m.yaml": stacks.text(*documents)}


TWO = (stacks.environment("etl"), stacks.environment("geo"), stacks.agent("loader", "etl"), stacks.agent("mapper", "geo"))


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repositories")


@pytest.fixture
def make(offline, repository):
    """Controllers that end with the test; the first one follows `repository`."""
    made = []

    def controller(*others, **spec):
        made.append(Controller(offline, *(source(name, f"file://{repository.bare}", **one) for name, one in (("lab", spec), *others))))
        return made[-1]

    yield controller
    for one in made:
        one.stop()


def record(controller, path, name="lab"):
    return controller.source_state(name) / "local" / "lab" / path


def edit(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_a_commit_is_applied(make, repository):
    controller = make().start()
    first = repository.commit(manifests(*TWO), "Two of each")
    controller.wait_for("Applied", first)
    assert controller.status()["resources"] == {"Agent": 2, "Environment": 2, "Stack": 1}
    began = time.monotonic()
    second = repository.commit({"more.yaml": stacks.text(stacks.environment("third"))}, "A third")
    controller.wait_for("Applied", second)
    assert time.monotonic() - began < 10 * PATIENCE
    status = controller.status()
    assert status["commit"] == {
        "id": second, "ref": "refs/heads/main", "subject": "A third", "author": "Ada Author <ada@example.com>",
        "signer": None, "committedAt": status["commit"]["committedAt"],
    }  # fmt: skip
    assert status["appliedCommit"]["id"] == second
    assert status["resources"]["Environment"] == 3
    newest = controller.history("lab")[0]
    assert (newest["commit"], newest["command"], newest["outcome"]) == (second, "controller", "done")
    assert "@" in newest["who"]
    assert controller.berth("get", "--json", "--state", controller.source_state("lab")).expect(0).json()


def test_a_poll_that_finds_nothing_writes_nothing(make, repository):
    repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied")
    runs = len(controller.history("lab"))
    data = controller.source_state("lab") / "data.mdb"
    before = data.stat().st_mtime_ns
    controller.wait_for_rounds(3)
    assert data.stat().st_mtime_ns == before
    assert len(controller.history("lab")) == runs


def test_removed_in_use_is_refused_until_it_is_repointed(make, repository):
    good = repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied", good)
    bad = repository.commit(manifests(TWO[1], *TWO[2:]), "Without etl")
    refused = controller.wait_for("Refused", bad)
    assert "has-dependents" in refused["message"] and "Agent/loader" in refused["message"]
    status = controller.status()
    assert [(r["address"], r["id"], r["dependents"]) for r in status["refusals"]] == [
        ("Environment/etl", "has-dependents", ["Agent/loader"])
    ]
    assert status["appliedCommit"]["id"] == good
    assert controller.condition("Stalled")["status"] is True
    assert record(controller, "environments/etl.json").exists()
    shown = controller("status").expect(0).out
    assert "berth controller approve lab --allow has-dependents:Environment/etl" in shown
    # The agents are pointed elsewhere: it goes through.
    third = repository.commit(manifests(TWO[1], stacks.agent("loader", "geo"), TWO[3]), "Loader works in geo")
    controller.wait_for("Applied", third)
    assert not record(controller, "environments/etl.json").exists()
    assert controller.status()["refusals"] == []


def test_what_a_person_lets_through_goes_through_once(make, repository):
    repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied")
    controller("approve", "lab", "--allow", "has-dependents").expect(1)
    without = repository.commit(manifests(TWO[1], *TWO[2:]), "Without etl")
    controller.wait_for("Refused", without)
    for args, words in (
        ((), "--allow ID[:ADDR]"),
        (("--allow", "has-dependents:Environment/geo"), "nothing is refused for that"),
        (("--allow", "protected"), "nothing is refused for that"),
        (("--allow", "has-dependants"), "did you mean has-dependents?"),
        (("0123456789ab",), "applies by itself"),
    ):
        assert words in controller("approve", "lab", *args).expect(1).err
    assert "there is no source" in controller("approve", "lba", "--allow", "has-dependents").expect(1).err
    controller("approve", "lab", "--allow", "has-dependents:Environment/etl", "--wait").expect(0)
    controller.wait_for("Applied", without)
    assert f"let through once: has-dependents:Environment/etl, by {getpass.getuser()}" in controller.lines()
    assert controller.history("lab")[0]["detail"]["approvedBy"] == getpass.getuser()
    assert not record(controller, "environments/etl.json").exists()
    # Once: the same thing again is refused again.
    back = repository.commit(manifests(*TWO), "Back")
    controller.wait_for("Applied", back)
    again = repository.commit(manifests(TWO[1], *TWO[2:]), "Without etl again")
    controller.wait_for("Refused", again)


def test_always_allowed(make, repository):
    repository.commit(manifests(*TWO))
    controller = make(allow=["has-dependents"]).start()
    controller.wait_for("Applied")
    without = repository.commit(manifests(TWO[1], *TWO[2:]))
    controller.wait_for("Applied", without)


@pytest.mark.parametrize(
    "text, words",
    [
        ("apiVersion: berth/v1\nkind: Environment\nmetadata: {name: x}\nspec: {image: {prebuilt: p}, memoryMB: 12}\n", "m.yaml:4:40"),
        ("no yaml: [", "m.yaml:"),
        (stacks.text(stacks.agent("loader", "nowhere")), "nowhere"),
    ],
)
def test_a_broken_commit_leaves_all_as_it_was(make, repository, text, words):
    good = repository.commit(manifests(*TWO))
    controller = make(driftSeconds=2).start()
    controller.wait_for("Applied", good)
    bad = repository.commit({"m.yaml": text}, "Broken")
    ready = controller.wait_for("InvalidManifests", bad)
    assert words in ready["message"] and f"@{bad[:12]}" in ready["message"]
    assert controller.condition("Stalled")["status"] is True
    assert controller.condition("Stalled")["commit"] == bad
    assert controller.status()["appliedCommit"]["id"] == good
    assert f"error: lab: {ready['message'].split(' ')[0]}" in controller.lines() or words in controller.lines()
    # The last good one is kept true meanwhile, by itself.
    place = record(controller, "environments/etl.json")
    edit(place, lambda document: document["spec"].update(memoryMB=4096))
    wait_until(lambda: json.loads(place.read_text())["spec"]["memoryMB"] == 2048)
    assert controller.condition()["reason"] == "InvalidManifests"
    assert controller("sync", "--wait").expect(1).out
    mended = repository.commit(manifests(*TWO, stacks.environment("new")), "Mended")
    controller.wait_for("Applied", mended)
    assert controller.condition("Stalled")["status"] is False


def test_drift_comes_back(make, repository):
    repository.commit(manifests(*TWO))
    controller = make(driftSeconds=1).start()
    controller.wait_for("Applied")
    place = record(controller, "environments/etl.json")
    edit(place, lambda document: document["spec"].update(memoryMB=4096))
    wait_until(lambda: json.loads(place.read_text())["spec"]["memoryMB"] == 2048)
    record(controller, "environments/geo.json").unlink()
    wait_until(lambda: record(controller, "environments/geo.json").exists())
    assert "Drift: changed outside of Berth: Environment/etl (memoryMB)" in controller.lines()
    wait_until(lambda: controller.status()["drift"] == [])


def test_drift_is_reported_where_it_is_not_corrected(make, repository):
    repository.commit(manifests(*TWO))
    controller = make(driftSeconds=1, correctDrift=False).start()
    controller.wait_for("Applied")
    place = record(controller, "environments/etl.json")
    edit(place, lambda document: document["spec"].update(memoryMB=4096))
    wait_until(lambda: [d["address"] for d in controller.status()["drift"]] == ["Environment/etl"])
    controller.wait_for_rounds(2)
    assert json.loads(place.read_text())["spec"]["memoryMB"] == 4096
    ready = controller.condition()
    assert ready["status"] is True and "left as found" in ready["message"]
    assert controller.lines().count("Drift:") == 1
    # A commit's own change is made all the same.
    changed = repository.commit(manifests(stacks.environment("etl", memoryMB=3000), *TWO[1:]))
    controller.wait_for("Applied", changed)
    assert json.loads(place.read_text())["spec"]["memoryMB"] == 3000


def test_exactly_the_approved_plan(make, repository):
    first = repository.commit(manifests(*TWO))
    controller = make(mode="approve").start()
    waiting = controller.wait_for("WaitingForApproval", first)
    plan = controller.status()["plan"]
    assert plan["id"] in waiting["message"] and plan["summary"]["create"] == 5 and plan["commit"] == first
    assert [c["action"] for c in plan["changes"]] == ["create"] * 5
    assert not record(controller, "stack.json").exists()
    assert "plan-stale" in controller("approve", "lab", "0123456789ab").expect(3).err
    # Looked at again, it is the same plan.
    controller.sync(code=3)
    assert controller.status()["plan"]["id"] == plan["id"]
    controller("approve", "lab", plan["id"], "--wait").expect(0)
    controller.wait_for("Applied", first)
    assert controller.status()["plan"] is None
    assert f"approved: plan {plan['id']}, by {getpass.getuser()}" in controller.lines()
    assert controller.history("lab")[0]["detail"]["approvedBy"] == getpass.getuser()
    assert "no plan of lab waits" in controller("approve", "lab").expect(1).err
    # What came in between makes another plan of it, which waits again.
    second = repository.commit(manifests(stacks.environment("etl", memoryMB=3000), *TWO[1:]))
    controller.wait_for("WaitingForApproval", second)
    old = controller.status()["plan"]["id"]
    edit(record(controller, "environments/etl.json"), lambda document: document["spec"].update(memoryMB=2500))
    controller("approve", "lab", old, "--wait").expect(3)
    wait_until(lambda: (controller.status()["plan"] or {}).get("id") not in (None, old))
    assert json.loads(record(controller, "environments/etl.json").read_text())["spec"]["memoryMB"] == 2500
    assert "plan-stale" in controller.lines()
    controller("approve", "lab", "--wait").expect(0)
    assert json.loads(record(controller, "environments/etl.json").read_text())["spec"]["memoryMB"] == 3000


@pytest.mark.parametrize("what", ["plan", "refusal", "rewritten"])
def test_a_decision_that_cannot_be_kept_is_none(offline, repository, tmp_path, what):
    """The disk fails just then: the person is told, and nothing happens behind his back at the next poll."""
    reason = {"plan": "WaitingForApproval", "refusal": "Refused", "rewritten": "HistoryRewritten"}[what]
    args = {"plan": (), "refusal": ("--allow", "has-dependents"), "rewritten": ("--allow", "history-rewritten")}[what]
    # A poll of its own, between the counting and the decision, would be what fails.
    spec = source("lab", f"file://{repository.bare}", mode="approve" if what == "plan" else "apply", intervalSeconds=3600)
    disk = Disk(tmp_path, offline.folder / ".berth" / "sources" / "lab")
    controller, kept = Controller(offline, spec), tmp_path / "kept"

    def held(at):
        """Started on the state that was kept, its n-th write fails; how many there were until it waits for a person."""
        shutil.rmtree(controller.state, ignore_errors=True)
        if kept.exists():
            shutil.copytree(kept, controller.state)
        controller.start(env=disk.env("fail-once" if at else "", at))
        controller.wait_for(reason)
        wait_until(lambda: not controller.status()["busy"])
        return len(disk.writes())

    repository.commit(manifests(*TWO))
    if what != "plan":
        controller.once()
        shutil.copytree(controller.state, kept)
    if what == "rewritten":
        repository.git("commit", "-q", "--amend", "-m", "Another first")
        repository.push()
    elif what == "refusal":
        repository.commit(manifests(TWO[1], *TWO[2:]), "Without etl")
    try:
        writes = held(0)
        controller.kill()
        held(writes + 1)
        controller("approve", "lab", *args).expect(1)
        controller.sync(code=3)
        assert controller.condition()["reason"] == reason
        controller("approve", "lab", *args, "--wait").expect(0)
    finally:
        controller.stop()


class Relay(Passer):
    """Before a server: while `open` is clear, who connects waits."""

    def __init__(self, port):
        self.target, self.open, self.waiting = port, threading.Event(), 0
        self.open.set()
        super().__init__()

    def taken(self, near):
        self.waiting += not self.open.is_set()
        self.open.wait()
        return near

    def reach(self):
        return socket.create_connection(("127.0.0.1", self.target))

    def close(self):
        self.open.set()
        super().close()


def test_an_approval_that_is_still_being_written_is_none_yet(offline, repository, tmp_path):
    """It comes while the source is asked, its write hangs, and at last the disk fails: nothing was done on the word of it."""
    server = Daemon(repository.bare.parent).begin()
    relay = Relay(server.port)
    spec = source("lab", f"git://127.0.0.1:{relay.port}/{repository.bare.name}", mode="approve", intervalSeconds=3600)
    disk = Disk(tmp_path, offline.folder / ".berth" / "sources" / "lab")
    controller = Controller(offline, spec)
    repository.commit(manifests(*TWO))
    try:
        controller.start(env=disk.env("held", match=f'"approver":"{getpass.getuser()}"'))
        controller.wait_for("WaitingForApproval")
        relay.open.clear()
        controller("sync", "lab").expect(0)
        wait_until(lambda: relay.waiting)
        approve = offline.popen("controller", "approve", "lab", "-f", controller.file)
        wait_until(disk.hold.exists)
        relay.open.set()
        # What the source's thread does of the approval, it does in this time: the plan takes a tenth of it.
        time.sleep(5)
        disk.hold.unlink()
        assert approve.wait(30) == 1
        controller.sync(code=3)
        assert controller.condition()["reason"] == "WaitingForApproval"
        assert not record(controller, "stack.json").exists()
        controller("approve", "lab", "--wait").expect(0)
        assert record(controller, "stack.json").exists()
    finally:
        controller.stop()
        relay.close()
        server.stop()


def test_approval_of_a_refused_plan(make, repository):
    first = repository.commit(manifests(*TWO))
    controller = make(mode="approve").start()
    controller.wait_for("WaitingForApproval", first)
    controller("approve", "lab", "--wait").expect(0)
    without = repository.commit(manifests(TWO[1], *TWO[2:]))
    controller.wait_for("WaitingForApproval", without)
    assert "has to be let through" in controller("approve", "lab").expect(1).err
    controller("approve", "lab", "--allow", "has-dependents", "--wait").expect(0)
    assert not record(controller, "environments/etl.json").exists()


def test_a_secret_is_approved_as_it_is(make, repository):
    def commit(secret):
        variables = {"TOKEN": {"value": secret, "sensitive": True}}
        return repository.commit(manifests(stacks.environment("etl", variables=variables)), "A token")

    commit("first-token")
    controller = make(mode="approve").start()
    controller.wait_for("WaitingForApproval")
    controller("approve", "lab", "--wait").expect(0)
    for path in controller.state.rglob("*"):
        if path.is_file() and "git" not in path.parts and "local" not in path.parts:
            assert b"first-token" not in path.read_bytes(), path
    assert "first-token" not in controller("status", "--json").out + controller.lines()


def test_only_reported(make, repository):
    first = repository.commit(manifests(*TWO))
    controller = make(mode="plan").start()
    ready = controller.wait_for("Planned", first)
    assert ready["status"] is True and "5 to create" in ready["message"]
    assert controller.status()["result"] == "reported"
    assert not record(controller, "stack.json").exists()
    assert "only reports" in controller("approve", "lab").expect(1).err


# A source that looks as often as the one under test: by its rounds a test knows that the other one has let its turns pass.
PACE = ("pace", {"mode": "plan"})


def test_suspension_survives_a_restart(make, repository):
    first = repository.commit(manifests(*TWO))
    controller = make(PACE).start()
    controller.wait_for("Applied", first)
    controller("suspend", "lab").expect(0)
    wait_until(lambda: not controller.status()["busy"])  # a poll under way would still see what comes
    second = repository.commit(manifests(*TWO, stacks.environment("new")))
    controller.wait_for_rounds(2, "pace")
    assert controller.status()["commit"]["id"] == first
    assert controller.stop() == 0
    controller.start()
    controller.wait_for_rounds(2, "pace")
    status = controller.status()
    assert status["suspended"] is True and status["commit"]["id"] == first
    assert "is suspended" in controller("sync", "lab").expect(1).err
    controller("suspend", "pace").expect(0)
    assert "every source is suspended" in controller("sync", "--wait").expect(1).err
    controller("resume").expect(0)
    controller.wait_for("Applied", second)
    controller.kill()
    assert controller.start().status()["suspended"] is False


def test_suspended_from_the_start_until_resumed(make, repository):
    commit = repository.commit(manifests(*TWO))
    controller = make(PACE, suspended=True).start()
    controller.wait_for_rounds(2, "pace")
    assert controller.status()["commit"] is None
    controller("suspend", "pace").expect(0)
    controller.once(code=4)
    controller("resume", "lab").expect(0)
    controller.wait_for("Applied", commit)


def test_once(make, repository):
    controller = make()
    assert "lab" in controller.once(code=1).err  # an empty repository has no main
    repository.commit(manifests(*TWO))
    controller.once()
    assert record(controller, "environments/etl.json").exists()
    controller.once()
    repository.commit(manifests(TWO[1], *TWO[2:]))
    controller.once(code=3)
    repository.commit({"m.yaml": "kind: Nothing\n"})
    controller.once(code=1)
    left = controller("status").expect(1)
    assert "InvalidManifests" in left.out and "no controller runs" in left.err
    assert controller("status", "--json").json()["controller"] == {"running": False}


def test_once_waits_for_nobody(make, repository, offline):
    repository.commit(manifests(*TWO))
    controller = make(mode="approve")
    controller.once(code=3)
    controller = make()
    controller.once()
    repository.commit(manifests(*TWO, stacks.environment("slow")))
    holder = holding_the_lock(offline, controller.source_state("lab"))
    try:
        controller.once(code=4)
    finally:
        holder.kill()
        holder.wait()
    controller.once()


def holding_the_lock(berth, state):
    """A destroy that waits for an answer on a terminal holds the lease of a state."""
    folder = berth.stack / "locker"
    folder.mkdir(exist_ok=True)
    (folder / "m.yaml").write_text(stacks.text(STACK, *TWO, stacks.environment("lock")))
    process = subprocess.Popen(
        ["script", "-qec", f"{berth.binary} destroy -f {folder} --state {state}", "/dev/null"],
        env=berth.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    wait_until(lambda: berth("lock", "show", "--json", "--state", state).json().get("held"))
    return process


def test_somebody_else_holds_the_lock(make, repository, offline):
    repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied")
    holder = holding_the_lock(offline, controller.source_state("lab"))
    try:
        second = repository.commit(manifests(*TWO, stacks.environment("new")))
        waits = wait_until(lambda: (c := controller.condition("Reconciling"))["reason"] == "Locked" and c)
        assert "destroy" in waits["message"]
    finally:
        holder.kill()
        holder.wait()
    controller.wait_for("Applied", second)


def test_two_controllers(make, repository):
    repository.commit(manifests(*TWO))
    controller = make().start()
    refused = controller().expect(4)
    assert f"process {controller.process.pid}" in refused.err
    controller.once(code=4)
    controller.wait_for("Applied")
    # What a killed one leaves is no obstacle.
    controller.kill()
    assert (controller.state / "controller.sock").exists()
    controller.start().wait_for("Applied")


def test_the_socket_is_the_owners_alone(make, repository):
    repository.commit(manifests(*TWO))
    controller = make().start()
    assert stat.S_IMODE((controller.state / "controller.sock").stat().st_mode) == 0o600
    for request in (b"\n", b"[]\n", b"{", b"x" * 100000, b'{"command": 1}\n', b'{"command": "status", "source": {}}\n', b'{"command": "approve"}\n',
        b'{"command": "approve", "source": "lab", "plan": 7}\n', b'{"command": "approve", "source": "lab", "allow": "protected"}\n',
        b'{"command": "approve", "source": "lab", "allow": [1]}\n', b'{"command": "approve", "source": "lab", "allow": {}}\n',
        b'{"command": "sync", "source": "../lab"}\n', b'{"command": "STATUS"}\n',
    ):
        with socket.socket(socket.AF_UNIX) as asking:
            folder = os.open(controller.state, os.O_PATH)
            asking.connect(f"/proc/self/fd/{folder}/controller.sock")
            os.close(folder)
            asking.settimeout(20)
            try:
                asking.sendall(request)
                asking.shutdown(socket.SHUT_WR)
                answer = asking.recv(65536)
            except (BrokenPipeError, ConnectionResetError):
                answer = b""
            assert not answer or json.loads(answer)["ok"] is False
    assert controller("status").code == 0


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_ended_while_it_works(make, repository, signum):
    """Whatever it was in the middle of, the next start makes it whole."""
    many = [stacks.environment(f"e{i}") for i in range(60)] + [stacks.agent(f"a{i}", f"e{i}") for i in range(60)]
    commit = repository.commit(manifests(*many))
    controller = make().start()
    wait_until(lambda: list(controller.source_state("lab").glob("local/lab/environments/*.json")), step=0.002)
    code = controller.stop(signum)
    assert code == (-signal.SIGKILL if signum == signal.SIGKILL else 0)
    controller.start().wait_for("Applied", commit)
    assert controller.status()["resources"] == {"Agent": 60, "Environment": 60, "Stack": 1}
    verified = controller.berth("state", "verify", "--json", "--state", controller.source_state("lab")).expect(0)
    assert verified.json()["valid"] is True


def test_a_terminal_that_goes_away(make, repository):
    """It says so twice: what is in flight is finished all the same. Under nohup it goes on."""
    repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied")
    controller.process.send_signal(signal.SIGHUP)
    assert controller.stop(signal.SIGHUP) == 0
    assert "what is in flight is finished" in controller.lines()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        controller.start()
    finally:
        signal.signal(signal.SIGHUP, before)
    ignored = re.search(r"^SigIgn:\s*(\w+)", Path(f"/proc/{controller.process.pid}/status").read_text(), re.MULTILINE)
    assert int(ignored[1], 16) & 1 << (signal.SIGHUP - 1)
    controller.process.send_signal(signal.SIGHUP)
    assert controller.answers()


def test_commands_to_copy_lead_to_the_same_controller(make, repository):
    repository.commit(manifests(*TWO))
    controller = make(mode="approve").start()
    controller.wait_for("WaitingForApproval")
    plan = controller.status()["plan"]["id"]
    command = f"berth controller approve lab {plan}"
    place = controller.file
    berth, state = controller.berth, controller.state
    assert f"{command} -f {place}\n" in controller("status").expect(0).out
    assert f"{command} -f {place}\n" in controller("status", "lab").expect(0).out
    assert f"{command} --state {state}\n" in berth("controller", "status", "--state", state).expect(0).out
    odd = state.parent / "it's a link"
    odd.symlink_to(state)
    shown = berth("controller", "status", "--state", odd).expect(0).out
    assert " --state '" + str(odd).replace("'", "'\\''") + "'\n" in shown
    # While it rests nothing can be approved: what helps is told.
    controller("suspend", "lab").expect(0)
    shown = controller("status").expect(0).out
    assert "approve" not in shown and f"berth controller resume lab -f {place}\n" in shown


def test_details_name_who_depends_and_when_it_is_tried_again(make, repository):
    repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied")
    repository.commit(manifests(TWO[1], *TWO[2:]), "Without etl")
    controller.wait_for("Refused")
    shown = controller("status", "lab").expect(0).out
    assert re.search(r"refused .*Environment/etl: has-dependents.*\n +used by Agent/loader\n", shown)
    assert "tried again" not in shown
    assert shown.count("1 dependent still uses it (Agent/loader)") == 1, "the same message is said once"
    shutil.rmtree(repository.bare)
    wait_until(lambda: controller.condition()["reason"] in ("NotFound", "Unreachable"))
    retrying = controller.condition("Reconciling")
    assert (retrying["status"], retrying["reason"]) == (True, "Retrying")
    assert re.search(r"\n  tried again +(now|\S+Z \(in \d+ s\))\n", controller("status", "lab").expect(0).out)


def test_a_folder_that_others_may_write(make, repository):
    repository.commit(manifests(*TWO))
    controller = make()
    assert "other users" not in controller.once().err
    controller.state.chmod(0o770)
    assert f"{controller.state} can be written by other users" in controller.once().err


def test_refusals_are_those_of_the_newest_commit(make, repository):
    repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied")
    repository.commit(manifests(TWO[1], *TWO[2:]), "Without etl")
    controller.wait_for("Refused")
    repository.commit({"m.yaml": "kind: [\n"}, "Broken")
    controller.wait_for("InvalidManifests")
    assert controller.status()["refusals"] == []
    assert "nothing is refused" in controller("approve", "lab", "--allow", "has-dependents").expect(1).err


def test_it_ends_at_once_when_idle(make, repository):
    repository.commit(manifests(*TWO))
    controller = make(intervalSeconds=3600).start()
    controller.wait_for("Applied")
    began = time.monotonic()
    assert controller.stop() == 0
    assert time.monotonic() - began < 5 * PATIENCE
    assert not (controller.state / "controller.sock").exists()


def test_the_repository_is_gone_for_a_while(make, repository):
    repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied")
    away = repository.bare.with_suffix(".away")
    repository.bare.rename(away)
    ready = wait_until(lambda: (c := controller.condition())["status"] is False and c)
    assert ready["reason"] in ("NotFound", "Unreachable")
    assert controller.condition("Stalled")["status"] is False
    away.rename(repository.bare)
    controller.wait_for("Applied", timeout=60)


def test_a_rewritten_history_is_refused(make, repository):
    first = repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied", first)
    repository.git("commit", "-q", "--amend", "-m", "Another first")
    repository.push()
    rewritten = controller.wait_for("HistoryRewritten")
    assert rewritten["commit"] == repository.head()
    assert "put that one back, let this commit in by berth controller approve, or set fastForwardOnly: false" in rewritten["message"]
    assert controller.status()["commit"]["id"] == first
    assert controller.condition("Stalled")["status"] is True
    controller.sync(code=3)
    # Put back, all is well; and where it is allowed, it is followed.
    repository.publish(first)
    controller.wait_for("Applied", first)
    controller.stop()
    controller = make(fastForwardOnly=False).start()
    repository.push()
    controller.wait_for("Applied", repository.head())


def test_a_rewritten_history_is_let_in_by_a_person(make, repository):
    """That very commit, and nothing that came since."""
    first = repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied", first)
    command = ("approve", "lab", "--allow", "history-rewritten")
    assert "the history of lab was not rewritten" in controller(*command).expect(1).err
    repository.git("commit", "-q", "--amend", "-m", "Another first")
    repository.push()
    another = repository.head()
    controller.wait_for("HistoryRewritten", another)
    repository.git("commit", "-q", "--amend", "-m", "Yet another")
    repository.push()
    third = repository.head()
    controller.wait_for("HistoryRewritten", third)
    for args, code, words in (
        ((f"history-rewritten:{another[:12]}",), 3, f"the commit of lab that is held is {third[:12]}, not {another[:12]}"),
        (("history-rewritten:main",), 1, '"main" is no commit'),
        (("history-rewriten",), 1, "did you mean history-rewritten?"),
        (("history-rewritten", "--allow", "protected"), 1, "goes alone"),
        (("has-dependents",), 1, "the history of lab was rewritten"),
    ):
        assert words in controller("approve", "lab", "--allow", *args).expect(code).err
    assert f"let it in by --allow history-rewritten:{third[:12]}" in controller("approve", "lab").expect(1).err
    assert "goes with berth controller approve" in controller.berth("plan", "--allow", "history-rewritten").expect(1).err
    shown = controller("status").expect(0).out
    told = re.search(r"\n  berth controller (approve lab --allow history-rewritten:[0-9a-f]{12}) -f ", shown)
    assert told and told[1].endswith(third[:12]), shown
    assert told[0] in controller("status", "lab").expect(0).out
    controller(*told[1].split(), "--wait").expect(0)
    controller.wait_for("Applied", third)
    assert f"let through once: history-rewritten:{third}, by {getpass.getuser()}" in controller.lines()
    # Once: going back is a rewriting again, as what follows on the commit that was let in is none.
    fourth = repository.commit(manifests(*TWO, stacks.environment("new")))
    controller.wait_for("Applied", fourth)
    repository.publish(third)
    controller.wait_for("HistoryRewritten", third)
    controller.kill()
    controller.start()
    controller.wait_for("HistoryRewritten", third)
    controller(*command, "--wait").expect(0)
    assert controller.history("lab")[0]["detail"]["approvedBy"] == getpass.getuser()
    assert controller.status()["resources"]["Environment"] == 2


def test_a_rewritten_history_that_was_let_in_and_is_another_by_then(make, repository):
    first = repository.commit(manifests(*TWO))
    controller = make(intervalSeconds=3600).start()
    controller.wait_for("Applied", first)
    repository.git("commit", "-q", "--amend", "-m", "Another first")
    repository.push()
    controller.sync(code=3)
    another = controller.wait_for("HistoryRewritten")["commit"]
    repository.git("commit", "-q", "--amend", "-m", "Yet another")
    repository.push()
    controller("approve", "lab", "--allow", f"history-rewritten:{another}", "--wait").expect(3)
    assert controller.condition()["commit"] == repository.head() != another
    # What was said of the other one is over, also where that comes back.
    repository.publish(another)
    controller.sync(code=3)
    assert controller.condition()["commit"] == another


def test_once_holds_a_rewritten_history(make, repository):
    first = repository.commit(manifests(*TWO))
    controller = make()
    controller.once()
    repository.git("commit", "-q", "--amend", "-m", "Another first")
    repository.push()
    controller.once(code=3)
    assert controller.status()["appliedCommit"]["id"] == first


@pytest.mark.parametrize("how", ["removed", "replaced", "one source"])
def test_the_state_goes_away_under_it(offline, repository, how):
    """Nobody would ever see what it writes from then on: it says so, and ends, to be started again on what is there."""
    commit = repository.commit(manifests(*TWO))
    controller = Controller(offline, source("lab", f"file://{repository.bare}", intervalSeconds=3600), listen="127.0.0.1:0")
    try:
        controller.start().wait_for("Applied", commit)
        port = int(re.findall(r"listening on port (\d+)", controller.lines())[-1])
        place = controller.source_state("lab") if how == "one source" else controller.state
        away = place.with_name("away")
        place.rename(away)
        if how == "replaced":
            shutil.copytree(away, place, ignore=shutil.ignore_patterns("*.sock"))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            assert (answer.status, "was removed or replaced" in answer.read().decode()) == (503, True)
        except ConnectionError:
            pass  # it was faster
        assert controller.process.wait(20) == 1
        assert f"{place} was removed or replaced while the controller ran" in controller.lines()
        if how != "replaced":
            away.rename(place)
        controller.process = None
        controller.start().wait_for("Applied", commit)
    finally:
        controller.stop()


def test_a_stack_under_another_name(make, repository):
    first = repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied", first)
    second = repository.commit(manifests(stack=stacks.document("Stack", "lab2", {"provider": "local"}), *TWO), "Renamed")
    said = controller.wait_for("InvalidManifests", second)["message"]
    assert f"@{second[:12]}:stack.yaml:1:1: the stack is called \"lab2\"" in said and 'belongs to "lab"' in said
    assert "give it its old name, or have another source" in said
    assert controller.condition("Stalled")["status"] is True and controller.condition("Reconciling")["status"] is False
    assert controller.status()["nextRetry"] is None
    controller.sync(code=1)
    assert controller.status()["commit"]["id"] == second
    third = repository.commit(manifests(*TWO), "As it was")
    controller.wait_for("Applied", third)


def test_the_bare_repository_was_removed(make, repository):
    """It is a copy: it comes again."""
    commit = repository.commit(manifests(*TWO))
    controller = make(driftSeconds=2).start()
    controller.wait_for("Applied", commit)
    place = record(controller, "environments/etl.json")
    shutil.rmtree(controller.source_state("lab") / "git")
    edit(place, lambda document: document["spec"].update(memoryMB=4096))
    wait_until(lambda: json.loads(place.read_text())["spec"]["memoryMB"] == 2048)
    controller.wait_for("Applied", commit)


def test_killed_between_approval_and_apply(make, repository):
    """Approved is approved: the next start applies it, or waits again where it is another plan by then."""
    commit = repository.commit(manifests(*TWO, *[stacks.environment(f"e{i}") for i in range(40)]))
    controller = make(mode="approve").start()
    controller.wait_for("WaitingForApproval", commit)
    controller("approve", "lab").expect(0)
    controller.kill()
    controller.start()
    ready = wait_until(lambda: (c := controller.condition())["reason"] in ("Applied", "WaitingForApproval") and not controller.status()["busy"] and c)
    if ready["reason"] == "WaitingForApproval":
        approved = controller("approve", "lab", "--wait")  # or that was from before the start, and is being applied
        assert approved.code == 0 or "no plan of lab waits" in approved.err, approved
    controller.wait_for("Applied", commit)
    assert controller.status()["resources"]["Environment"] == 42


def test_pointed_at_another_branch(make, repository):
    """By a person: that is no rewritten history."""
    first = repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied", first)
    controller.stop()
    repository.git("checkout", "-q", "--orphan", "other")
    other = repository.commit(manifests(*TWO, stacks.environment("new")))
    controller = make(branch="other").start()
    controller.wait_for("Applied", other)


def test_the_highest_tag(make, repository):
    first = repository.commit(manifests(*TWO))
    repository.tag("v1.0.0")
    controller = make(tag="1.x").start()
    controller.wait_for("Applied", first)
    second = repository.commit(manifests(*TWO, stacks.environment("new")))
    repository.tag("v2.0.0")
    controller.wait_for_rounds(2)
    assert controller.status()["commit"]["id"] == first
    repository.tag("v1.1.0")
    controller.wait_for("Applied", second)
    assert controller.status()["commit"]["ref"] == "refs/tags/v1.1.0"
    # Taken away: what was accepted is not undone because of that.
    repository.git("push", "-q", "origin", ":refs/tags/v1.1.0")
    held = controller.wait_for("HistoryRewritten", first)
    assert "the highest tag is refs/tags/v1.0.0 now, and was refs/tags/v1.1.0" in held["message"]
    assert controller.status()["resources"]["Environment"] == 3
    controller("approve", "lab", "--allow", f"history-rewritten:{first[:12]}", "--wait").expect(0)
    assert controller.condition()["commit"] == first and controller.status()["resources"]["Environment"] == 2


def test_a_folder_of_the_repository(make, repository):
    commit = repository.commit({"teams/a/m.yaml": stacks.text(STACK, *TWO), "other.yaml": "kind: Wrong\n"})
    controller = make(path="teams/a").start()
    controller.wait_for("Applied", commit)


def test_json_log_lines(make, repository):
    commit = repository.commit(manifests(*TWO))
    controller = make().start("--json")
    controller.wait_for("Applied")
    controller.stop()
    lines = [json.loads(line) for line in controller.lines().splitlines()]
    done = [line for line in lines if line.get("change") == "Environment/etl"]
    assert done and done[0]["source"] == "lab" and done[0]["commit"] == commit and done[0]["level"] == "info"


def test_what_systemd_is_told(make, repository, tmp_path):
    repository.commit(manifests(*TWO))
    controller = make()
    name = f"\0berth-test-{os.getpid()}-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name)
        manager.settimeout(20)
        controller.start(env={"NOTIFY_SOCKET": "@" + name[1:], "WATCHDOG_USEC": "400000"})
        seen = [manager.recv(4096).decode() for _ in range(4)]
        assert "READY=1" in seen and "WATCHDOG=1" in seen
        controller.stop()
        manager.settimeout(0.5)
        rest = []
        while "STOPPING=1" not in rest:
            rest.append(manager.recv(4096).decode())


@pytest.mark.parametrize(
    "args, words",
    [
        (("stauts",), "did you mean status?"),
        (("approve",), "needs the name of a source"),
        (("status", "a", "b"), "one too many"),
        (("status", "--wait"), "takes no --wait: it goes with controller sync, controller approve"),
        (("suspend", "--allow", "protected"), "takes no --allow: it goes with controller approve"),
        (("sync", "--once"), "takes no --once: it goes with controller"),
        (("--allow", "protected"), "takes no --allow: it goes with controller approve"),
        (("sync",), "no controller runs"),
        (("status",), "none ever did"),
    ],
)
def test_slips_of_the_hand(make, args, words):
    assert words in make()(*args).expect(1).err


def test_a_controllers_file(make, offline):
    controller = make()
    assert "is a folder" in offline("controller").expect(1).err
    offline("validate", "-f", controller.file).expect(0)
    assert "a Controller is no part of a stack" in offline("plan", "-f", controller.file).expect(1).err
    controller.file.write_text(controller.file.read_text().replace("branch: main", "branch: main\n    credentials: {passwordFile: none}"))
    assert "passwordFile means nothing to a source by file" in controller().expect(1).err
    controller.configure(source("a", "https://example.invalid/x", credentials={"passwordFile": "none"}))
    refused = controller().expect(1)
    assert "passwordFile" in refused.err and "No such file" in refused.err and "controller.yaml:" in refused.err


def test_secrets_that_everybody_may_read(make, offline, tmp_path):
    """Refused by validate and at the start, with the command that mends it; a group may."""
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    hosts = tmp_path / "hosts"
    hosts.write_text("h ssh-ed25519 AAAA\n")
    controller = make()
    over_https = source("a", "https://example.invalid/x", credentials={"passwordFile": str(secret)})
    by_ssh = source("a", "ssh://git@example.invalid/x", credentials={"sshKeyFile": str(secret), "knownHostsFile": str(hosts)})
    for field, sources, spec in (
        ("passwordFile", over_https, {}),
        ("sshKeyFile", by_ssh, {}),
        ("webhookSecretFile", source("a", "/srv/x"), {"webhookSecretFile": str(secret)}),
        ("secretFile", source("a", "/srv/x"), {"notify": [{"url": "https://x", "secretFile": str(secret)}]}),
    ):
        controller.configure(sources, **spec)
        for mode, command in ((0o644, f"chmod o= {secret}"), (0o602, f"chmod o= {secret}"), (0o640, None)):
            secret.chmod(mode)
            result = offline("validate", "-f", controller.file)
            assert (result.code, command is None or (command in result.err + result.out and field in result.err + result.out)) == (
                0 if command is None else 1, True), (field, oct(mode), result)  # fmt: skip
            if command:
                assert command in controller().expect(1).err


def test_a_source_that_is_named_no_more(make, repository):
    repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied")
    controller.stop()
    controller.configure(source("new", f"file://{repository.bare}"))
    controller.start().wait_for("Applied", name="new")
    assert "sources/lab is the state of a source that the Controller names no more" in controller.lines()
    assert record(controller, "environments/etl.json").exists()


def test_a_source_under_another_name(offline, repository):
    """As docs/controller.md has it: its folder is renamed with it, and goes on where it was."""
    commit = repository.commit(manifests(*TWO))
    controller = Controller(offline, source("lab", f"file://{repository.bare}"))
    controller.once()
    controller.source_state("lab").rename(controller.source_state("new"))
    assert [s["name"] for s in controller("status", "--json").expect(1).json()["sources"]] == ["new"]
    assert "new" in controller("status", "new").expect(1).out
    controller.configure(source("new", f"file://{repository.bare}"))
    runs = len(controller.history("new"))
    controller.once()
    assert controller.status("new")["appliedCommit"]["id"] == commit and len(controller.history("new")) == runs


def test_several_sources(offline, tmp_path):
    """One's trouble is no other's."""
    repositories = [Repository(tmp_path / "repositories", f"r{i}") for i in range(4)]
    for i, repository in enumerate(repositories):
        stack = stacks.document("Stack", f"s{i}", {"provider": "local"})
        repository.commit({"m.yaml": "nonsense" if i == 1 else stacks.text(stack, *TWO)})
    controller = Controller(offline, *[source(f"s{i}", f"file://{r.bare}") for i, r in enumerate(repositories)])
    try:
        controller.start()
        for i in (0, 2, 3):
            controller.wait_for("Applied", name=f"s{i}")
        controller.wait_for("InvalidManifests", name="s1")
        shown = controller("status").expect(0).out
        assert all(f"s{i}" in shown for i in range(4))
        assert "s1" in controller("status", "s1").expect(0).out
        controller("suspend", "s0").expect(0)
        assert controller.status("s0")["suspended"] and not controller.status("s2")["suspended"]
        assert "did you mean" in controller("sync", "s11").expect(1).err
    finally:
        controller.stop()


def test_on_aws(cloud, berth, prebuilt, repository):
    """A function that somebody changed by hand comes back; what is removed in use is refused; a poll calls nothing."""
    team = stacks.stack()
    documents = (stacks.environment("x", memoryMB=2048), stacks.agent("a", "x"))
    first = repository.commit(manifests(*documents, stack=team))
    controller = Controller(berth, source("team", f"file://{repository.bare}", driftSeconds=5))
    try:
        controller.start().wait_for("Applied", first, timeout=60)
        assert list(cloud.functions()) == ["alphaagent-env-x"]
        cloud.aws("lambda").update_function_configuration(FunctionName="alphaagent-env-x", MemorySize=5000)
        wait_until(lambda: cloud.functions()["alphaagent-env-x"]["MemorySize"] == 2048, timeout=60)
        removed = repository.commit(manifests(documents[1], stacks.environment("y"), stack=team))
        controller.wait_for("Refused", removed, timeout=60)
        assert len(cloud.functions()) == 1
        moved = repository.commit(manifests(stacks.environment("y"), stacks.agent("a", "y"), stack=team))
        controller.wait_for("Applied", moved, timeout=60)
        assert list(cloud.functions()) == ["alphaagent-env-y"]
    finally:
        controller.stop()
    # Nothing new and no look at drift due: Git is asked, and nobody else.
    controller.configure(source("team", f"file://{repository.bare}"))
    try:
        controller.start()
        wait_until(lambda: controller.status()["rounds"] >= 1, timeout=60)
        mark = cloud.mark()
        rounds = controller.status()["rounds"]
        wait_until(lambda: controller.status()["rounds"] >= rounds + 3)
        assert cloud.calls(mark) == []
    finally:
        controller.stop()


# --- those who are told -------------------------------------------------------------------------------


@pytest.fixture
def listener():
    """A server on loopback that keeps the documents it is sent."""
    told = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.told, server.url = told, f"http://127.0.0.1:{server.server_address[1]}/told"
    yield server
    server.shutdown()
    server.server_close()


def test_who_is_told_what(offline, repository, listener):
    controller = Controller(offline, source("lab", f"file://{repository.bare}", driftSeconds=1), notify=[{"url": listener.url}])

    def told(event):
        return next((t for t in listener.told if t["event"] == event), None)

    first = repository.commit(manifests(*TWO))
    try:
        controller.start().wait_for("Applied", first)
        applied = wait_until(lambda: told("applied"))
        assert (applied["controller"], applied["source"], applied["commit"]) == ("test", "lab", first)
        assert applied["result"]["summary"]["done"] == 5 and applied["message"] == "5 created"
        edit(record(controller, "environments/etl.json"), lambda document: document["spec"].update(memoryMB=4096))
        drift = wait_until(lambda: told("drift"))
        assert [d["address"] for d in drift["drift"]] == ["Environment/etl"]
        bad = repository.commit({"m.yaml": "nonsense"})
        failed = wait_until(lambda: told("failed"))
        assert (failed["reason"], failed["commit"]) == ("InvalidManifests", bad)
        refused_commit = repository.commit(manifests(TWO[1], *TWO[2:]))
        refused = wait_until(lambda: told("refused"))
        assert refused["commit"] == refused_commit and refused["refusals"][0]["id"] == "has-dependents"
        repository.commit(manifests(*TWO))
        wait_until(lambda: told("recovered"))
        controller.wait_for_rounds(2)
        # Each once: what stays as it is is not told again.
        assert sorted(t["event"] for t in listener.told if t["event"] not in ("applied",)) == ["drift", "failed", "recovered", "refused"]
    finally:
        controller.stop()


def test_told_before_once_ends(offline, repository, listener):
    repository.commit(manifests(*TWO))
    controller = Controller(
        offline, source("lab", f"file://{repository.bare}", mode="approve"), notify=[{"url": listener.url, "events": ["approval"]}]
    )
    controller.once(code=3)
    (told,) = listener.told
    assert told["event"] == "approval" and told["plan"]["id"] in told["message"]


def test_hooks_wake_and_metrics_count(offline, repository):
    first = repository.commit(manifests(*TWO))
    secret = offline.folder / "secret"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    controller = Controller(
        offline, source("lab", f"file://{repository.bare}", intervalSeconds=3600),
        listen="127.0.0.1:0", hosts=["hooks.example.com"], webhookSecretFile=str(secret),
    )  # fmt: skip

    def ask(method, path, headers=None):
        port = int(re.findall(r"listening on port (\d+)", controller.lines())[-1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request(method, path, body=b"{}" if method == "POST" else None, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    try:
        controller.start().wait_for("Applied", first)
        assert ask("GET", "/healthz")[0] == 200
        assert ask("GET", "/readyz")[0] == 200
        assert ask("GET", "/readyz", {"Host": "hooks.example.com"})[0] == 200
        assert ask("GET", "/readyz", {"Host": "evil.example"})[0] == 421
        assert ask("GET", "/metrics", {"Origin": "http://evil.example"})[0] == 403
        assert ask("GET", "/hooks/lab%00")[0] == 400
        second = repository.commit(manifests(*TWO, stacks.environment("new")))
        assert ask("POST", "/hooks/lab", {"X-Gitlab-Token": "wrong"})[0] == 401
        began = time.monotonic()
        assert ask("POST", "/hooks/lab", {"X-Gitlab-Token": "s3cret"})[0] in (200, 202, 204)
        controller.wait_for("Applied", second)
        assert time.monotonic() - began < 10 * PATIENCE
        metrics = ask("GET", "/metrics")[1]
        for line in (
            'berth_reconciles_total{source="lab",result="applied"} 2',
            'berth_git_polls_total{source="lab",result="fetched"} 2',
            'berth_resources{source="lab",kind="Environment"} 3',
            'berth_source_condition{source="lab",type="Ready"} 1',
            'berth_source_suspended{source="lab"} 0',
        ):
            assert line in metrics, metrics
        assert 'berth_last_success_timestamp_seconds{source="lab"}' in metrics
    finally:
        controller.stop()
