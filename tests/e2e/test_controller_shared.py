# SPDX-License-Identifier: Apache-2.0
"""A controller whose stack's state lies in S3: it may die on one machine and start on another that has nothing but its file."""

import collections
import shutil
import signal

import pytest

import stacks
from controllers import Controller, source, wait_until
from git_servers import Repository, free_port
from lib.metrics import metric
from lib.shared_state import BUCKET, PLACE, Team, signals

pytestmark = [pytest.mark.timeout(300), pytest.mark.only("moto", "what a controller adds to a state in S3 is the same on either")]


@pytest.fixture
def team(cloud, binary, tmp_path, prebuilt):
    return Team(cloud, binary, tmp_path)


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "repositories").mkdir()
    return Repository(tmp_path / "repositories")


@pytest.fixture
def make(team, repository):
    """A controller on a machine of its own."""
    made = []

    def controller(name, **spec):
        machine, port = team.machine(name), free_port()
        del machine.env["BERTH_STATE"]
        spec = {"state": PLACE, **spec}
        one = Controller(machine, source("lab", f"file://{repository.bare}", **spec), listen=f"127.0.0.1:{port}")
        one.port, one.pidfile = port, machine.folder / "pid"
        made.append(one)
        return one

    yield controller
    for one in made:
        one.stop()


def write(repository, *names, **stack):
    documents = [document for name in names for document in (stacks.environment(name), stacks.agent(f"of-{name}", name))]
    return repository.commit({"m.yaml": stacks.text(stacks.stack(**stack), *documents)})


def made(team):
    return collections.Counter(
        call["params"]["FunctionName"] for call in team.cloud.calls(operation="CreateFunction") if call["status"] == 201
    )  # fmt: skip


def test_killed_here_and_gone_on_there(team, make, repository):
    first = write(repository, "a")
    here = make("here").start()
    here.wait_for("Applied", first)
    assert not list(here.source_state("lab").glob("s3:*"))
    # It dies in the middle of an apply, and the machine with it.
    here.pidfile.write_text(str(here.process.pid))
    team.cloud.faults(({"operation": "CreateFunction", "nth": 1}, signals(here.berth, "after")))
    second = write(repository, "a", "b")
    assert here.process.wait(60) == -signal.SIGKILL
    here.process = None
    team.cloud.faults()
    shutil.rmtree(here.berth.folder)
    there = make("there")
    team.elsewhere()
    there.start()
    waits = wait_until(lambda: (c := there.condition("Reconciling")) and c["reason"] == "Locked" and c)
    assert "is locked by process" in waits["message"] and "controller, since 20" in waits["message"]
    assert metric(there, "berth_source_condition", type="Ready") == 0
    team.cloud.settings(object_age_days={"research/lease": 40 / (24 * 3600)})
    there.wait_for("Applied", second)
    team.cloud.settings(object_age_days={})
    assert metric(there, "berth_source_condition", type="Ready") == 1
    assert set(made(team).values()) == {1}, made(team)
    assert {"alphaagent-env-a", "alphaagent-env-b"} == set(team.cloud.functions())
    # A person looks, and uses the same state.
    person = team.machine("person")
    history = person("state", "history", "--json").expect(0).json()["entries"]
    assert [(entry["command"], entry["commit"]) for entry in history[:1]] == [("controller", second)]
    there.stop()
    team.check("a", "b")


def test_two_of_one_stack(team, make, repository):
    """Whatever both do, each commit is applied once."""
    controllers = [make("one"), make("other")]
    last = write(repository, "a")
    for controller in controllers:
        controller.start()
    for controller in controllers:
        controller.wait_for("Applied", last)
    last = write(repository, "b", "c")
    for controller in controllers:
        controller.wait_for("Applied", last)
        controller.stop()
    assert set(made(team).values()) == {1}, made(team)
    team.check("b", "c")


def test_one_waits_while_the_other_applies(team, make, repository):
    """And says so; a person's apply that waits is refused with the same words."""
    first = write(repository, "a")
    one = make("one").start()
    one.wait_for("Applied", first)
    team.cloud.settings(held=True)
    last = write(repository, "a", "b")
    wait_until(lambda: team.lease()["id"])
    wait_until(lambda: len(team.cloud.functions()) == 2)
    other = make("other").start()
    waits = wait_until(lambda: (c := other.condition("Reconciling")) and c["reason"] == "Locked" and c)
    assert f"process {one.process.pid} on" in waits["message"] and "controller, since" in waits["message"], waits
    assert metric(other, "berth_reconciles_total", result="failed") >= 1
    person = team.machine("person")
    shown = person("lock", "show").expect(0).out
    assert f"process {one.process.pid}" in " ".join(shown.split()) and "controller" in shown, shown
    team.cloud.settings(held=False)
    for controller in (one, other):
        controller.wait_for("Applied", last)
    assert set(made(team).values()) == {1}, made(team)


def test_the_state_is_away_for_a_while(team, make, repository):
    first = write(repository, "a")
    controller = make("here").start()
    controller.wait_for("Applied", first)
    team.cloud.faults(({"bucket": BUCKET}, {"kind": "reset"}))
    second = write(repository, "a", "b")
    ready = controller.wait_for("StateFailed", second, timeout=60)
    assert PLACE in ready["message"], ready
    assert len(team.cloud.functions()) == 1
    assert metric(controller, "berth_source_condition", type="Ready") == 0
    team.cloud.faults()
    controller.wait_for("Applied", second, timeout=60)
    assert metric(controller, "berth_source_condition", type="Ready") == 1
    controller.stop()
    team.check("a", "b")


def test_an_approval_is_of_this_machine(team, make, repository):
    """The next machine asks anew: what it plans may be another plan, and a decision lies nowhere but on the machine it was made on."""
    commit = write(repository, "a")
    here = make("here", mode="approve").start()
    here.wait_for("WaitingForApproval", commit)
    plan = here.status()["plan"]["id"]
    here.kill()
    shutil.rmtree(here.state)
    there = make("there", mode="approve").start()
    there.wait_for("WaitingForApproval", commit)
    assert there.status()["plan"]["id"] == plan  # the same plan has the same id, wherever it is made
    there("approve", "lab", plan, "--wait").expect(0)
    there.wait_for("Applied", commit)
    there.kill()
    # Another commit waits again, also elsewhere.
    last = write(repository, "a", "b")
    again = make("again", mode="approve").start()
    again.wait_for("WaitingForApproval", last)
    assert len(team.cloud.functions()) == 1


def test_a_commit_does_not_choose_the_state(team, make, repository):
    """With the controller's credentials it would be read and written: another stack's, or anybody's objects."""
    commit = write(repository, "a", state={"s3": f"s3://{BUCKET}/another"})
    refused = make("here").start().wait_for("NotPermitted", commit)
    assert "the Stack's state is not the one" in refused["message"]
    none = make("none", state=None)
    none.configure({k: v for k, v in source("lab", f"file://{repository.bare}").items()})
    assert "the Stack's state may not be named" in none.start().wait_for("NotPermitted", commit)["message"]
    assert team.keys() == [] and team.s3.list_objects_v2(Bucket=BUCKET).get("KeyCount") == 0
    assert team.cloud.functions() == {}
    may = make("may")
    may.configure({**source("lab", f"file://{repository.bare}"), "may": {"states": [f"s3://{BUCKET}/*"]}})
    may.start().wait_for("Applied", commit)
    assert team.s3.list_objects_v2(Bucket=BUCKET, Prefix="another/log/")["KeyCount"] > 0


def test_history_is_not_rewritten_by_moving(team, make, repository):
    """A machine that never followed knows by the state what was in force."""
    first = write(repository, "a")
    here = make("here").start()
    here.wait_for("Applied", first)
    here.kill()
    second = write(repository, "a", "b")
    there = make("there").start()
    there.wait_for("Applied", second)  # it descends from what was in force
    there.kill()
    repository.git("checkout", "-q", "--orphan", "forged")
    forged = write(repository, "c")
    repository.publish(forged)
    beyond = make("beyond").start()
    held = beyond.wait_for("HistoryRewritten", forged)
    assert second in held["message"], held
    assert len(team.cloud.functions()) == 2
    beyond.wait_for_rounds(2)
    assert beyond.condition()["reason"] == "HistoryRewritten"
    beyond.kill()
    make("once").once(code=3)
    assert len(team.cloud.functions()) == 2
    beyond.start()
    beyond("approve", "lab", "--allow", f"history-rewritten:{forged}", "--wait").expect(0)
    beyond.wait_for("Applied", forged)
    assert set(team.cloud.functions()) == {"alphaagent-env-c"}
