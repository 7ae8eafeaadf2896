# SPDX-License-Identifier: Apache-2.0
"""`has-dependents` counts the records in the bucket, whoever wrote them."""

import json

import pytest

import stacks


@pytest.fixture
def bucket(cloud):
    return f"alphaagent-workspaces-{cloud.account}-us-east-1"


@pytest.fixture
def stack(cloud, berth, prebuilt):
    berth.write("stack.yaml", stacks.text(stacks.stack(), stacks.environment("keep"), stacks.agent("own", "keep")))
    berth.write("x.yaml", stacks.text(stacks.environment("x")))
    berth.apply()
    return berth


def put(cloud, bucket, key, function="alphaagent-env-x", **more):
    body = {"formatVersion": "1", "kind": "Agent", "name": "ghost", "functionName": function, "active": True, **more}
    cloud.aws("s3").put_object(Bucket=bucket, Key=key, Body=json.dumps(body).encode())


def refused(result):
    (change,) = [c for c in result.json()["changes"] if c["address"] == "Environment/x"]
    return {r["id"]: r["dependents"] for r in change["refusals"]}


@pytest.mark.parametrize("key, shown", [
    ("registry/team/agents/ghost.json", "Agent/ghost"), ("registry/team/swarms/ghost.json", "Swarm/ghost"),
    ("registry/other/agents/ghost.json", "Agent/ghost of stack other"),
])  # fmt: skip
def test_a_record_that_nobody_declares_keeps_its_environment(cloud, bucket, stack, key, shown):
    put(cloud, bucket, key)
    stack.remove("x.yaml")
    mark = cloud.mark()
    assert refused(stack("apply", "--yes", "--json").expect(3)) == {"has-dependents": [shown]}
    assert refused(stack("destroy", "--yes", "--json").expect(3)) == {"has-dependents": [shown]}
    assert cloud.changing_calls(mark) == [] and "alphaagent-env-x" in cloud.functions()
    cloud.aws("s3").delete_object(Bucket=bucket, Key=key)
    stack.apply()
    assert set(cloud.functions()) == {"alphaagent-env-keep"}


def test_records_of_other_environments_are_in_nobodys_way(cloud, bucket, stack):
    put(cloud, bucket, "registry/other/agents/a.json", "alphaagent-env-keep")
    put(cloud, bucket, "registry/other/agents/b.json", "other-env-x")
    cloud.aws("s3").put_object(Bucket=bucket, Key="registry/other/agents/c.json", Body=b"no record")
    cloud.aws("s3").put_object(Bucket=bucket, Key="registry/notes.txt", Body=b"alphaagent-env-x")
    stack.remove("x.yaml")
    stack.apply()
    assert set(cloud.functions()) == {"alphaagent-env-keep"}


def test_what_the_same_plan_takes_away_counts_no_more(cloud, bucket, stack):
    stack.write("y.yaml", stacks.text(stacks.agent("a", "x"), stacks.agent("b", "x")))
    stack.apply()
    stack.remove("x.yaml")
    stack.write("y.yaml", stacks.text(stacks.agent("b", "keep")))
    stack.apply()
    assert set(cloud.functions()) == {"alphaagent-env-keep"}


def test_both_kinds_of_dependents_stand_in_one_refusal(cloud, bucket, stack):
    stack.write("y.yaml", stacks.text(stacks.agent("a", "x")))
    stack.apply()
    put(cloud, bucket, "registry/other/agents/ghost.json")
    stack.remove("x.yaml")
    assert refused(stack("plan", "--json").expect(3)) == {"has-dependents": ["Agent/a", "Agent/ghost of stack other"]}
    stack.remove("y.yaml")
    assert refused(stack("plan", "--json").expect(3)) == {"has-dependents": ["Agent/ghost of stack other"]}
    stack.apply("--allow", "has-dependents:Environment/x")
    assert set(cloud.functions()) == {"alphaagent-env-keep"}


def test_a_record_that_somebody_pointed_there_counts_where_the_plan_leaves_it(cloud, bucket, stack):
    """The stack's own agent, re-pointed by hand: the plan puts that back, unless it is told to leave it."""
    put(cloud, bucket, "registry/team/agents/own.json", type="general", name="own", environment="x")
    stack.remove("x.yaml")
    assert refused(stack("plan", "--json", "--exclude", "Agent/own").expect(3)) == {"has-dependents": ["Agent/own"]}
    stack.apply()
    assert set(cloud.functions()) == {"alphaagent-env-keep"}
