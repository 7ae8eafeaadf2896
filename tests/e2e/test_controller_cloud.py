# SPDX-License-Identifier: Apache-2.0
"""The controller at work on AWS: real Git servers before it, the stand-ins for AWS behind it, boto3 to look at what it did."""

import collections
import hashlib
import hmac
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

import stacks
from binary import is_watched
from controllers import Controller, source, wait_until
from git_servers import PASSWORD, USER, Authority, Daemon, Https, Repository, free_port
from lib.metrics import ask, metric

SECRET = "a webhook's secret"
TWO = (stacks.environment("etl"), stacks.environment("geo"), stacks.agent("loader", "etl"), stacks.agent("mapper", "geo"))
pytestmark = [pytest.mark.usefixtures("prebuilt"), pytest.mark.sampled("moto")]


def manifests(*documents, name="lab", **spec):
    return {"stack.yaml": stacks.text(stacks.stack(name, **spec)), "m.yaml": stacks.text(*documents)}


@pytest.fixture
def place():
    """Not tmp_path: a web server that has dropped its rights must be able to read it."""
    folder = Path(tempfile.mkdtemp(prefix="berth-git-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def repository(place):
    return Repository(place / "repositories")


@pytest.fixture
def daemon(repository):
    server = Daemon(repository.bare.parent).begin()
    yield server
    server.stop()


@pytest.fixture
def make(berth, repository, daemon, tmp_path):
    made = []
    secret = tmp_path / "secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)

    def controller(**spec):
        port = free_port()
        one = Controller(
            berth, source("lab", daemon.url(repository.bare.name), **spec), listen=f"127.0.0.1:{port}", webhookSecretFile=str(secret)
        )
        one.port = port
        made.append(one)
        return one

    yield controller
    for one in made:
        one.stop()


def hook(controller, name="lab", secret=SECRET):
    body = b'{"ref": "refs/heads/main"}'
    mac = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return ask(controller, f"/hooks/{name}", body, {"X-Hub-Signature-256": f"sha256={mac}", "X-GitHub-Event": "push"})[0]


def names(cloud):
    return {name.removeprefix("alphaagent-env-") for name in cloud.functions()}


def test_from_commit_to_function(cloud, make, repository):
    """Added within an interval; within two seconds where a webhook says so; a wrong signature wakes nothing."""
    first = repository.commit(manifests(*TWO))
    controller = make(intervalSeconds=2).start()
    controller.wait_for("Applied", first, timeout=60)
    assert names(cloud) == {"etl", "geo"}
    second = repository.commit({"third.yaml": stacks.text(stacks.environment("third"))})
    controller.wait_for("Applied", second, timeout=20)
    assert names(cloud) == {"etl", "geo", "third"}


def test_woken_by_a_webhook(cloud, make, repository):
    repository.commit(manifests(*TWO))
    controller = make(intervalSeconds=3600).start()
    controller.wait_for("Applied", timeout=60)
    assert ask(controller, "/readyz")[0] == ask(controller, "/healthz")[0] == 200
    polls = metric(controller, "berth_git_polls_total")
    added = repository.commit({"third.yaml": stacks.text(stacks.environment("third"))})
    assert hook(controller, secret="another") == 401
    assert hook(controller, name="another") == 404
    time.sleep(1.5)
    assert names(cloud) == {"etl", "geo"}
    assert metric(controller, "berth_git_polls_total") == polls
    began = time.monotonic()
    assert hook(controller) in (200, 202)
    wait_until(lambda: "third" in names(cloud))
    took = time.monotonic() - began
    controller.wait_for("Applied", added)
    # Two seconds on a machine of its own; the tests share theirs. Nobody polls before the hour is over.
    print(f"webhook to function: {took:.2f} s")
    assert metric(controller, "berth_provider_calls_total", service="lambda") > 0
    assert metric(controller, "berth_reconciles_total", result="applied") == 2


def test_removed_in_use_then_repointed(cloud, make, repository):
    good = repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied", good, timeout=60)
    bad = repository.commit(manifests(TWO[1], *TWO[2:]))
    mark = cloud.mark()
    refused = controller.wait_for("Refused", bad)
    assert "has-dependents" in refused["message"]
    assert cloud.changing_calls(mark) == []
    assert names(cloud) == {"etl", "geo"}
    assert metric(controller, "berth_refusals_total", id="has-dependents") >= 1
    moved = repository.commit(manifests(TWO[1], stacks.agent("loader", "geo"), TWO[3]))
    controller.wait_for("Applied", moved)
    assert names(cloud) == {"geo"}


def test_a_broken_commit_changes_nothing_and_stops_no_drift_correction(cloud, make, repository):
    good = repository.commit(manifests(*TWO))
    controller = make(driftSeconds=2).start()
    controller.wait_for("Applied", good, timeout=60)
    broken = repository.commit({"m.yaml": "apiVersion: berth/v1\nkind: Environment\nmetadata: {name: etl}\nspec: {memory: 1}\n"})
    said = controller.wait_for("InvalidManifests", broken)
    assert f"agents.git@{broken[:12]}:m.yaml:4:" in said["message"]
    assert names(cloud) == {"etl", "geo"}
    cloud.client("lambda", retries=3).update_function_configuration(FunctionName="alphaagent-env-geo", MemorySize=4096)
    wait_until(lambda: cloud.functions()["alphaagent-env-geo"]["MemorySize"] == 2048, timeout=40)
    assert metric(controller, "berth_drift_found_total") >= 1
    assert controller.condition()["reason"] == "InvalidManifests"


def test_changed_by_hand_comes_back(cloud, make, repository):
    commit = repository.commit(manifests(*TWO))
    controller = make(driftSeconds=2, intervalSeconds=3600).start()
    controller.wait_for("Applied", commit, timeout=60)
    client = cloud.client("lambda", retries=3)
    client.update_function_configuration(FunctionName="alphaagent-env-etl", MemorySize=4096)
    wait_until(lambda: cloud.functions()["alphaagent-env-etl"]["MemorySize"] == 2048, timeout=40)
    client.delete_function(FunctionName="alphaagent-env-geo")
    wait_until(lambda: "geo" in names(cloud), timeout=40)
    controller.wait_for("Applied", commit)


def test_drift_that_stays_is_told_once(cloud, make, repository):
    """A URL that somebody gave a function: no apply takes it away, and no look at drift finds it anew."""
    commit = repository.commit(manifests(*TWO))
    controller = make(driftSeconds=1, intervalSeconds=3600).start()
    controller.wait_for("Applied", commit, timeout=60)
    client = cloud.client("lambda", retries=3)
    client.create_function_url_config(FunctionName="alphaagent-env-etl", AuthType="NONE")
    wait_until(lambda: [d["address"] for d in controller.status()["drift"]] == ["Environment/etl"], timeout=60)
    (field,) = controller.status()["drift"][0]["fields"]
    assert field["path"] == "url" and field["left"]
    # What is put back beside it leaves it in the status, and three looks later it was counted once.
    client.update_function_configuration(FunctionName="alphaagent-env-etl", MemorySize=4096)
    wait_until(lambda: cloud.functions()["alphaagent-env-etl"]["MemorySize"] == 2048, timeout=60)
    rounds = controller.status()["rounds"]
    wait_until(lambda: controller.status()["rounds"] >= rounds + 3, timeout=60)
    assert [d["address"] for d in controller.status()["drift"]] == ["Environment/etl"]
    assert "1 drifted, left as found" in controller.condition()["message"]
    assert metric(controller, "berth_drift_found_total") == 1
    client.delete_function_url_config(FunctionName="alphaagent-env-etl")
    wait_until(lambda: controller.status()["drift"] == [], timeout=60)


def test_a_force_push_is_refused(cloud, make, repository):
    first = repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied", first, timeout=60)
    (repository.work / "m.yaml").write_text(stacks.text(TWO[0], TWO[2]))
    repository.git("commit", "-q", "--amend", "-am", "Another first")
    repository.push()
    refused = controller.wait_for("HistoryRewritten")
    assert first[:12] in refused["message"]
    assert names(cloud) == {"etl", "geo"}


def test_the_server_is_away_for_a_while(cloud, make, repository, daemon):
    repository.commit(manifests(*TWO))
    controller = make().start()
    controller.wait_for("Applied", timeout=60)
    daemon.stop()
    controller.wait_for("Unreachable")
    assert ask(controller, "/healthz")[0] == 200
    added = repository.commit({"third.yaml": stacks.text(stacks.environment("third"))})
    daemon.begin()
    controller.wait_for("Applied", added, timeout=60)
    assert "third" in names(cloud)


def test_aws_is_away_for_a_while(cloud, make, repository):
    commit = repository.commit(manifests(*TWO))
    cloud.faults(({"service": "sts"}, {"kind": "error", "status": 503, "code": "ServiceUnavailable", "message": "away"}))
    controller = make().start()
    wait_until(lambda: (c := controller.condition()) and c["status"] is False and c["commit"] == commit, timeout=60)
    assert controller.condition("Stalled")["status"] is False
    cloud.faults()
    controller.sync("lab")
    controller.wait_for("Applied", commit, timeout=60)
    assert names(cloud) == {"etl", "geo"}


def test_over_https_with_a_password(cloud, berth, repository, place, tmp_path):
    (place / "apache").mkdir()
    authority = Authority(place / "apache")
    server = Https(repository.bare.parent, place / "apache", authority).begin()
    (tmp_path / "user").write_text(USER + "\n")
    (tmp_path / "password").write_text(PASSWORD + "\n")
    (tmp_path / "password").chmod(0o600)
    commit = repository.commit(manifests(*TWO))
    credentials = {"usernameFile": str(tmp_path / "user"), "passwordFile": str(tmp_path / "password"), "caFile": str(authority.file)}
    controller = Controller(berth, source("lab", server.url(repository.bare.name, private=True), credentials=credentials))
    try:
        controller.start()
        controller.wait_for("Applied", commit, timeout=60)
        assert names(cloud) == {"etl", "geo"}
        assert PASSWORD not in controller.lines() + json.dumps(controller.status())
    finally:
        controller.stop()
        server.stop()


def test_twenty_sources_in_one_quota(cloud, berth, tmp_path):
    """Twenty stacks, sixty functions, and one set of buckets: AWS's 15 control calls a second hold for all of them together."""
    sources, role = [], cloud.lambda_role()
    for number in range(20):
        repository = Repository(tmp_path / "repositories", f"r{number}")
        documents = [stacks.environment(f"e{number}-{i}") for i in range(3)] + [stacks.agent(f"a{number}", f"e{number}-0")]
        repository.commit(manifests(*documents, name=f"s{number}", aws={"createBucket": False, "executionRole": role}))
        sources.append(source(f"s{number}", f"file://{repository.bare}", may={"executionRoles": [role]}))
    cloud.aws("s3").create_bucket(Bucket=f"alphaagent-workspaces-{cloud.account}-{cloud.region}")
    cloud.throttle(control=15, get_function=100)
    controller = Controller(berth, *sources)
    try:
        controller.start()
        for number in range(20):
            controller.wait_for("Applied", name=f"s{number}", timeout=120)
        assert len(names(cloud)) == 60
        answers = collections.Counter(call["status"] for call in cloud.calls(service="lambda"))
        assert answers[429] == 0, answers
        assert controller.threads() < 60
    finally:
        controller.stop()


def test_a_tree_of_stacks_in_one_quota(cloud, berth, tmp_path):
    """The same from the folders of one repository, which one source follows."""
    repository, role = Repository(tmp_path / "repositories"), cloud.lambda_role()
    files = {}
    for number in range(10):
        documents = [stacks.environment(f"e{number}-{i}") for i in range(3)]
        described = manifests(*documents, name=f"s{number}", aws={"createBucket": False, "executionRole": role})
        files |= {f"stacks/s{number}/{name}": text for name, text in described.items()}
    repository.commit(files)
    cloud.aws("s3").create_bucket(Bucket=f"alphaagent-workspaces-{cloud.account}-{cloud.region}")
    cloud.throttle(control=15, get_function=100)
    controller = Controller(berth, source("all", f"file://{repository.bare}", path="stacks/*", may={"executionRoles": [role]}))
    try:
        controller.start()
        for number in range(10):
            controller.wait_for("Applied", name=f"all/stacks/s{number}", timeout=120)
        assert len(names(cloud)) == 30
        answers = collections.Counter(call["status"] for call in cloud.calls(service="lambda"))
        assert answers[429] == 0, answers
    finally:
        controller.stop()


# --- death ---

PHASES = [
    ("before it is seen", {"operation": "CreateFunction", "nth": 2}, "before"),
    ("done, and not known", {"operation": "CreateFunction", "nth": 2}, "after"),
    ("answered", {"operation": "CreateFunction", "nth": 3}, "answered"),
    ("identifying itself", {"operation": "GetCallerIdentity"}, "before"),
    ("looking", {"operation": "ListFunctions"}, "answered"),
    ("writing a binding", {"service": "s3", "operation": "PutObject", "resource": "registry/"}, "after"),
]


@pytest.mark.parametrize("match,when", [phase[1:] for phase in PHASES], ids=[phase[0] for phase in PHASES])
def test_killed_at_a_call(cloud, make, repository, tmp_path, match, when):
    commit = repository.commit(manifests(*TWO, stacks.environment("third"), stacks.environment("fourth")))
    pidfile = tmp_path / "pid"
    controller = make()
    pidfile.write_text("0")
    cloud.faults(({**match, "times": 1}, {"kind": "delay", "seconds": 1}), ({**match, "times": 1}, {"kind": "signal", "when": when, "signal": "KILL", "times": 1, "pidfile": str(pidfile)}))
    controller.start()
    pidfile.write_text(str(controller.process.pid))
    controller.process.wait(60)
    assert controller.process.returncode == -signal.SIGKILL
    controller.process = None
    controller.start().wait_for("Applied", commit, timeout=60)
    assert names(cloud) == {"etl", "geo", "third", "fourth"}
    counts = collections.Counter(call["operation"] for call in cloud.calls() if call["operation"] == "CreateFunction" and call["status"] == 201)
    assert counts["CreateFunction"] <= 5
    controller.stop()
    assert controller.berth("state", "verify", "--state", controller.source_state("lab")).code == 0
    outcomes = [run["outcome"] for run in controller.history("lab")]
    assert outcomes[0] == "done"


def test_killed_again_and_again(cloud, make, repository):
    """At moments that nobody chose: fetching, reading, planning, applying, idle."""
    files = manifests(*TWO, *[stacks.environment(f"e{i}") for i in range(12)])
    commit = repository.commit(files)
    controller = make()
    for delay in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2):
        process = subprocess.Popen(
            [str(controller.berth.binary), "controller", "-f", str(controller.file)],
            cwd=controller.berth.stack, env=controller.berth.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
    controller.start().wait_for("Applied", commit, timeout=90)
    assert len(names(cloud)) == 14
    assert controller.berth("state", "verify", "--state", controller.source_state("lab")).code == 0


# --- small and steady ---


def test_idle_it_is_small(offline, tmp_path):
    """1,000 environments and 2,000 agents on the provider local: 32 MB when idle, and no more after many polls."""
    repository = Repository(tmp_path / "repositories")
    documents = [stacks.environment(f"e{i}") for i in range(1000)] + [stacks.agent(f"a{i}", f"e{i % 1000}") for i in range(2000)]
    commit = repository.commit({"stack.yaml": stacks.text(stacks.document("Stack", "lab", {"provider": "local"})), "m.yaml": stacks.text(*documents)})
    controller = Controller(offline, source("lab", f"file://{repository.bare}", intervalSeconds=3600))
    try:
        controller.start()
        controller.wait_for("Applied", commit, timeout=120)
        controller.sync("lab")
        first = controller.memory_mb()
        descriptors = len(os.listdir(f"/proc/{controller.process.pid}/fd"))
        threads = [threading.Thread(target=lambda: [controller.sync("lab") for _ in range(25)]) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        last = controller.memory_mb()
        print(f"idle: {first:.1f} MB, after 50 more: {last:.1f} MB")
        assert is_watched(offline.binary) or (last <= 32 and last - first < 3)
        assert len(os.listdir(f"/proc/{controller.process.pid}/fd")) <= descriptors + 2
    finally:
        controller.stop()
