# SPDX-License-Identifier: Apache-2.0
"""The guard expires-logs: a retention that gets shorter over old events, or over a log group that Berth did not make."""

import datetime
import time

import pytest

import stacks

GROUP = "/aws/lambda/alphaagent-env-x"
ADDRESS = "Environment/x"


@pytest.fixture
def stack(berth, prebuilt):
    """`stack.declare(**spec)`: the environment x, and y beside it; without a spec only y."""

    def declare(**spec):
        environment = [stacks.environment("x", **spec.get("x", {}))] if "x" in spec else []
        berth.write("m.yaml", stacks.text(stacks.stack(), *environment, stacks.environment("y")))

    berth.declare = declare
    return berth


@pytest.fixture
def logs(cloud):
    return cloud.aws("logs")


def write_events(logs, group=GROUP):
    logs.create_log_stream(logGroupName=group, logStreamName="s")
    logs.put_log_events(logGroupName=group, logStreamName="s", logEvents=[{"timestamp": int(time.time() * 1000), "message": "m" * 3000}])


def retention(logs):
    return {g["logGroupName"]: g.get("retentionInDays") for g in logs.describe_log_groups()["logGroups"]}


def age(cloud, days):
    cloud.settings(log_group_age_days={GROUP: days})
    return (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days)).strftime("%Y-%m-%d")


def change_of(berth, code=0):
    (change,) = [c for c in berth.plan(code=code)["changes"] if c["address"] == ADDRESS]
    return change


def refusal(berth):
    (found,) = change_of(berth, code=3)["refusals"]
    assert found["id"] == "expires-logs"
    return found


def test_a_shorter_retention_over_old_events_needs_leave(cloud, stack, logs):
    stack.declare(x={"logRetentionDays": 30})
    stack.apply()
    write_events(logs)
    since = age(cloud, 20)
    stack.declare(x={"logRetentionDays": 7})
    found = refusal(stack)
    assert GROUP in found["message"] and "for 30 days" in found["message"] and "logRetentionDays: 7" in found["message"]
    assert f"since {since}" in found["message"] and "KiB) since" in found["message"] and "did not make" not in found["message"]
    assert f"--allow expires-logs:{ADDRESS}" in found["remedy"]
    mark = cloud.mark()
    assert "expires-logs" in stack("apply", "--yes").expect(3).out
    assert cloud.changing_calls(mark) == [] and retention(logs)[GROUP] == 30
    stack.apply("--allow", f"expires-logs:{ADDRESS}")
    assert retention(logs)[GROUP] == 7
    stack.assert_settled()


def test_a_group_younger_than_its_new_retention_loses_nothing(cloud, stack, logs):
    stack.declare(x={"logRetentionDays": 30})
    stack.apply()
    age(cloud, 6)
    for days in (7, 90):
        stack.declare(x={"logRetentionDays": days})
        stack.apply()
        assert retention(logs)[GROUP] == days
    stack.declare(x={})
    stack.apply()
    assert retention(logs)[GROUP] is None, "for ever"
    age(cloud, 20)
    stack.declare(x={"logRetentionDays": 7})
    assert "for ever" in refusal(stack)["message"]


def test_a_longer_retention_set_by_hand_is_not_shortened_unasked(cloud, stack, logs):
    stack.declare(x={"logRetentionDays": 7})
    stack.apply()
    logs.put_retention_policy(logGroupName=GROUP, retentionInDays=365)
    age(cloud, 100)
    assert "for 365 days" in refusal(stack)["message"]


@pytest.mark.parametrize("function_first", [False, True])
def test_a_log_group_that_berth_did_not_make(cloud, stack, logs, function_first):
    """As Lambda makes it at the first invocation; or it is left of a function that somebody deleted."""
    if function_first:
        stack.declare(x={})
        stack.apply()
    logs.create_log_group(logGroupName=GROUP)
    write_events(logs)
    stack.declare(x={"logRetentionDays": 30})
    found = refusal(stack)
    assert "which Berth did not make" in found["message"] and "for ever" in found["message"] and " bytes" in found["message"]
    mark = cloud.mark()
    stack("apply", "--yes").expect(3)
    assert cloud.changing_calls(mark) == [] and retention(logs)[GROUP] is None
    stack.apply("--allow", "expires-logs")
    assert retention(logs)[GROUP] == 30
    stack.assert_settled()

    # It is still not Berth's to delete.
    stack.declare()
    reason = change_of(stack)["reason"]
    assert f"its log group {GROUP} stays" in reason and " bytes" in reason
    stack.apply()
    assert GROUP in retention(logs) and "alphaagent-env-x" not in cloud.functions()


def test_a_foreign_group_that_is_kept_as_long_needs_no_leave(stack, logs):
    logs.create_log_group(logGroupName=GROUP)
    logs.put_retention_policy(logGroupName=GROUP, retentionInDays=30)
    stack.declare(x={"logRetentionDays": 30})
    stack.apply()
    stack.declare(x={"logRetentionDays": 90})
    stack.apply()
    assert retention(logs)[GROUP] == 90


def test_a_deletion_says_what_becomes_of_the_logs(cloud, stack, logs):
    stack.declare(x={"logRetentionDays": 30})
    stack.apply()
    write_events(logs)
    since = age(cloud, 12)
    logs.create_log_group(logGroupName="/aws/lambda/alphaagent-env-y")
    stack.declare()
    reason = change_of(stack)["reason"]
    assert f"its log group {GROUP} is deleted with it" in reason and f"since {since}" in reason and reason.startswith("not in the manifests any more; ")
    text = stack("destroy").out
    assert "is deleted with it" in text and "/aws/lambda/alphaagent-env-y stays, since Berth did not make it" in text
    stack.apply()
    assert GROUP not in retention(logs)


def test_the_tags_of_a_group_tell_where_the_state_does_not(cloud, stack, logs):
    """Made by a run that died before it could note that: the tags tell whose the group is."""
    stack.declare(x={"logRetentionDays": 30})
    cloud.faults(({"operation": "CreateFunction"}, {"kind": "error", "status": 400, "code": "InvalidParameterValueException", "message": "no"}))
    stack("apply", "--yes").expect(1)
    assert GROUP in retention(logs)
    cloud.faults()
    age(cloud, 20)
    stack.declare(x={"logRetentionDays": 30})
    stack.apply()
    stack.declare()
    assert "is deleted with it" in change_of(stack)["reason"]
    stack.apply()
    assert GROUP not in retention(logs)
