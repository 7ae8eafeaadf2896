# SPDX-License-Identifier: Apache-2.0
"""The example stack, as the README tells users to try it: validated, planned, applied, checked, destroyed."""

import re
import shutil
import subprocess
import sys

import pytest

import stacks
from binary import ROOT
from lib.aws_stack import nothing_is_left

MANIFESTS = ROOT / "examples" / "manifests"
DOCUMENTS = [d for path in sorted(MANIFESTS.rglob("*.yaml")) for d in stacks.read(path.read_text())]


def of_kind(kind):
    return {d["metadata"]["name"]: d for d in DOCUMENTS if d["kind"] == kind}


@pytest.fixture
def example(cloud, berth):
    """The example's images pushed as its own script makes them; MiniStack only, moto has no registry."""
    command = [sys.executable, str(ROOT / "examples" / "push-images"), "--create", cloud.standin.url.removeprefix("http://")]
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(berth.home), "AWS_ENDPOINT_URL": cloud.standin.url, "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
    }  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.copytree(MANIFESTS, berth.stack, dirs_exist_ok=True)
    return berth


def test_it_is_what_it_says(offline):
    assert len(of_kind("Environment")) >= 8 and len(of_kind("Agent")) >= 20
    assert len(of_kind("Swarm")) >= 3 and len(of_kind("ResourceRange")) >= 3 and len(of_kind("WorkspacePolicy")) >= 3
    result = offline("validate", "-f", str(MANIFESTS)).expect(0)
    assert result.err == ""


@pytest.mark.only("ministack", "its images are pushed to a real registry")
def test_the_whole_life(cloud, example):
    berth = example
    result = berth("plan", "--detailed-exitcode", "--json").expect(2)
    assert cloud.changing_calls() == []
    declared = sum(len(of_kind(kind)) for kind in ("Stack", "Environment", "Agent", "Swarm", "Image", "WorkspacePolicy"))
    assert result.json()["summary"]["create"] + result.json()["summary"]["adopt"] >= declared - len(of_kind("Image"))
    berth.apply()
    check_functions(cloud)
    check_records_and_rules(cloud)
    berth.assert_settled()
    result = berth("plan", "--detailed-exitcode").expect(0)
    assert max(len(re.sub("\x1b\\[[0-9;]*m", "", line)) for line in result.out.splitlines()) <= 80
    berth.destroy()
    nothing_is_left(cloud)


def default_memory(document):
    ranges = of_kind("ResourceRange").values()
    labels = document["metadata"].get("labels", {})
    for found in ranges:
        if found["spec"]["selector"]["matchLabels"].items() <= labels.items():
            memory = found["spec"].get("memoryMB", {})
            return memory.get("default", 2048 if memory.get("min", 0) <= 2048 <= memory.get("max", 10240) else memory["min"])
    return 2048


def check_functions(cloud):
    functions = cloud.functions("alphaagent-env-")
    environments = of_kind("Environment")
    assert set(functions) == {f"alphaagent-env-{name}" for name in environments}
    for name, document in environments.items():
        spec = document["spec"]
        found = cloud.aws("lambda").get_function(FunctionName=f"alphaagent-env-{name}")
        made = found["Configuration"]
        assert made["MemorySize"] == spec.get("memoryMB", default_memory(document)), name
        if "workspaceStorageMB" in spec:
            assert made["EphemeralStorage"]["Size"] == spec["workspaceStorageMB"], name
        assert (made["Timeout"], made["Architectures"], made["State"]) == (900, ["x86_64"], "Active")
        assert re.search(r"@sha256:[0-9a-f]{64}$", found["Code"]["ImageUri"])
        assert found.get("Concurrency", {}).get("ReservedConcurrentExecutions") == spec.get("reservedConcurrency")
        assert found["Tags"]["berth:name"] == name and found["Tags"]["berth:kind"] == "Environment"
        groups = cloud.aws("logs").describe_log_groups(logGroupNamePrefix=f"/aws/lambda/alphaagent-env-{name}")["logGroups"]
        days = {g["logGroupName"]: g.get("retentionInDays") for g in groups}.get(f"/aws/lambda/alphaagent-env-{name}")
        assert days == spec.get("logRetentionDays"), name
        wanted = {k: v["value"] if isinstance(v, dict) else str(v) for k, v in spec.get("variables", {}).items()}
        assert made.get("Environment", {}).get("Variables", {}) == wanted, name


def check_records_and_rules(cloud):
    (stack,) = of_kind("Stack")
    bucket = f"alphaagent-workspaces-{cloud.account}-us-east-1"
    listed = cloud.aws("s3").list_objects_v2(Bucket=bucket, Prefix="registry/")["Contents"]
    wanted = {f"registry/{stack}/agents/{name}.json" for name in of_kind("Agent")} | {f"registry/{stack}/swarms/{name}.json" for name in of_kind("Swarm")}
    assert {o["Key"] for o in listed} == wanted
    rules = cloud.aws("s3").get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    policies = {rule["ID"].split(":")[2].partition("@")[0] for rule in rules}
    assert policies == set(of_kind("WorkspacePolicy")) and all(rule["ID"].startswith(f"berth:{stack}:") for rule in rules)
