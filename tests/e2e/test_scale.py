# SPDX-License-Identifier: Apache-2.0
"""A thousand environments and two thousand agents: calls counted, quotas held, waits shared. Against moto the quarter, still pages of all."""

import math
import signal
import time

import pytest

import stacks

ENVIRONMENTS, AGENTS = {"ministack": 1000, "moto": 250}, {"ministack": 2000, "moto": 1100}
CONTROL_A_SECOND = 15


def write(berth, environments, agents):
    for start in range(0, environments, 100):
        documents = [stacks.environment(f"e-{n:04}") for n in range(start, min(start + 100, environments))]
        berth.write(f"environments-{start:04}.yaml", stacks.text(*documents))
    for start in range(0, agents, 200):
        documents = [stacks.agent(f"a-{n:04}", f"e-{n % environments:04}") for n in range(start, min(start + 200, agents))]
        berth.write(f"agents-{start:04}.yaml", stacks.text(*documents))
    berth.write("stack.yaml", stacks.text(stacks.stack()))


@pytest.mark.timeout(900)
def test_a_thousand(cloud, berth, prebuilt):
    """The proxy enforces the quotas, and every function is Pending for 10 s: each is begun by one call, and none is throttled."""
    environments, agents = ENVIRONMENTS[cloud.flavor], AGENTS[cloud.flavor]
    write(berth, environments, agents)
    cloud.settings(pending_s=10)
    cloud.throttle(control=CONTROL_A_SECOND, get_function=100)
    plan = berth.plan("--detailed-exitcode", code=2)
    assert plan["summary"]["create"] == environments + agents + 1
    assert cloud.changing_calls() == []
    mark = cloud.mark()
    berth.apply(timeout=800)
    check_pace(cloud.calls(mark), environments)
    assert len(cloud.functions("alphaagent-env-")) == environments
    bucket = f"alphaagent-workspaces-{cloud.account}-us-east-1"
    pages = cloud.aws("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="registry/team/")
    assert sum(page["KeyCount"] for page in pages) == agents
    mark = cloud.mark()
    berth.assert_settled()
    allowed = math.ceil(environments / 50) + math.ceil(environments / 100) + math.ceil(agents / 1000) + 20
    calls = cloud.calls(mark)
    counted = {}
    for call in calls:
        counted[call["operation"]] = counted.get(call["operation"], 0) + 1
    assert len(calls) <= allowed, counted


def check_pace(calls, environments):
    """How long it takes beside the quota's floor is `./dev bench apply`'s to say: a test's machine is busy with other tests."""
    throttled = [c["time"] for c in calls if c["error"] in ("TooManyRequestsException", "ThrottledException")]
    assert throttled == [], [round(c["time"] - throttled[0], 3) for c in calls if c["service"] == "lambda" and -3 < c["time"] - throttled[0] < 1]
    control = [c for c in calls if c["service"] == "lambda" and c["operation"] != "GetFunction"]
    assert len(control) <= environments * 1.05, "one call creates a function"


def test_who_was_held_up_does_not_hurry(cloud, berth, prebuilt):
    """A process that stands still has more than a second's turns behind it: they are not all taken at once."""
    write(berth, 120, 0)
    cloud.throttle(control=CONTROL_A_SECOND, get_function=100)
    mark, process = cloud.mark(), berth.popen("apply", "--yes")
    for stop in range(3):
        while len(cloud.calls(mark, operation="CreateFunction")) < 10 + 30 * stop and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=300)
    berth.result(["apply"], process.returncode, out, err).expect(0)
    assert [c["time"] for c in cloud.calls(mark) if c["status"] == 429] == []


@pytest.mark.only("ministack", "paging belongs to the proxy")
def test_short_and_empty_pages(cloud, berth, prebuilt):
    write(berth, 60, 0)
    berth.apply(timeout=300)
    cloud.settings(short_pages=True)
    berth.assert_settled()


@pytest.mark.only("ministack", "the lag belongs to the proxy")
def test_a_lagging_tag_index_proves_nothing(cloud, berth, prebuilt):
    """GetResources does not list the new functions yet: they are ours all the same."""
    cloud.settings(tag_lag_s=600)
    write(berth, 5, 5)
    berth.apply()
    berth.assert_settled()


def test_the_predicted_calls_are_those_that_are_made(cloud, berth, prebuilt):
    write(berth, 10, 20)
    plan = berth.plan()
    mark = cloud.mark()
    berth.apply()
    made = {}
    for call in cloud.changing_calls(mark):
        made[call["service"]] = made.get(call["service"], 0) + 1
    for service in ("lambda", "s3", "iam"):
        predicted = plan["calls"].get(service, 0)
        assert predicted >= made[service], (service, predicted, made)


def test_what_needs_not_one_another_is_asked_together(cloud, berth, prebuilt):
    """Nothing waits for another answer, not even for whose account it is, and nothing is asked twice or in vain."""
    environments = [stacks.environment(f"e-{n}", logRetentionDays=30) for n in range(10)]
    policy = stacks.policy("all", {"all": True}, expireAfterDays=30)
    berth.write("stack.yaml", stacks.text(stacks.stack(), *environments, stacks.agent("a", "e-0"), policy))
    berth.apply()
    berth.assert_settled()
    mark, delay = cloud.mark(), 4.0
    cloud.faults(({}, {"kind": "delay", "seconds": delay}))
    berth.assert_settled()
    calls = cloud.calls(mark)
    begun = [call["time"] for call in calls]
    assert max(begun) - min(begun) < delay, [(call["operation"], call["time"]) for call in calls]
    assert sorted(call["operation"] for call in calls) == sorted([
        "GetCallerIdentity", "ListFunctions", "GetResources", "DescribeLogGroups", "BatchGetImage", "ListObjectsV2", "GetBucketLifecycleConfiguration",
        "GetBucketTagging", "GetBucketEncryption", "GetPublicAccessBlock", "GetBucketPolicy", "GetRole", "GetRolePolicy",
    ])  # fmt: skip


def test_the_first_plan_asks_for_the_account_first(cloud, berth, prebuilt):
    """Where no state says that the stack is there, nothing is read before it is known whose account it is."""
    write(berth, 3, 3)
    mark = cloud.mark()
    cloud.faults(({"operation": "GetCallerIdentity"}, {"kind": "delay", "seconds": 2}))
    berth("plan").expect(0)
    first, *others = sorted(cloud.calls(mark), key=lambda call: call["time"])
    assert first["operation"] == "GetCallerIdentity" and others
    assert min(call["time"] for call in others) - first["time"] >= 2


def test_what_was_read_in_another_account_is_not_believed(cloud, berth, prebuilt):
    """Lists are on their way beside the question whose account it is. In a wrong one they are empty: nothing is gone for that."""
    write(berth, 3, 3)
    berth.apply()
    other = {
        "kind": "answer", "status": 200, "headers": {"content-type": "text/xml"},
        "body": '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>'
        "<Arn>arn:aws:iam::999999999999:user/me</Arn><UserId>u</UserId><Account>999999999999</Account>"
        "</GetCallerIdentityResult></GetCallerIdentityResponse>",
    }  # fmt: skip
    empty = {"kind": "answer", "status": 200, "headers": {"content-type": "application/json"}, "body": '{"Functions": []}'}
    for seconds in (0, 2):  # before and after the lists have come
        slow = ({"operation": "GetCallerIdentity"}, {"kind": "delay", "seconds": seconds})
        cloud.faults(slow, ({"operation": "GetCallerIdentity"}, other), ({"operation": "ListFunctions"}, empty))
        for command in (["plan"], ["drift"], ["apply", "--yes"]):
            result = berth(*command).expect(3)
            assert "wrong-account" in result.out + result.err and "999999999999" in result.out + result.err, result
    cloud.faults()
    berth.assert_settled()


def test_a_full_refresh_asks_for_urls_and_policies_together(cloud, berth, prebuilt):
    """Two calls a function, each kind with a quota of its own, and none of them throttled."""
    write(berth, 20, 1)
    berth.apply()
    cloud.throttle(sliding=True)
    mark, delay = cloud.mark(), 4.0
    cloud.faults(*(({"operation": name}, {"kind": "delay", "seconds": delay}) for name in ("GetPolicy", "GetFunctionUrlConfig")))
    berth("plan", "--refresh", "full", "--detailed-exitcode").expect(0)
    calls = cloud.calls(mark)
    assert [call for call in calls if call["error"] == "TooManyRequestsException"] == []
    begun = {name: [call["time"] for call in calls if call["operation"] == name] for name in ("GetPolicy", "GetFunctionUrlConfig")}
    assert {name: len(times) for name, times in begun.items()} == {"GetPolicy": 20, "GetFunctionUrlConfig": 20}
    assert abs(min(begun["GetPolicy"]) - min(begun["GetFunctionUrlConfig"])) < delay


def test_of_several_lists_that_fail_the_first_is_told(cloud, berth, prebuilt):
    """Whichever answer comes first: what is told goes by the order of kinds."""
    write(berth, 3, 3)
    berth.apply()
    denied = {"kind": "error", "status": 403, "code": "AccessDeniedException", "message": "no"}
    for slow in ("ListFunctions", "GetResources"):
        cloud.faults(
            ({"operation": slow}, {"kind": "delay", "seconds": 2}), ({"operation": "ListFunctions"}, denied), ({"operation": "GetResources"}, denied),
        )  # fmt: skip
        result = berth("plan").expect(1)
        assert "lambda ListFunctions" in result.err and "GetResources" not in result.err, result


@pytest.mark.timeout(600)
@pytest.mark.only("ministack", "the quotas are the proxy's")
def test_three_hundred_retentions_within_the_quotas(cloud, berth, prebuilt):
    """CloudWatch Logs takes ten groups and five retentions a second; the plan says what that comes to."""
    environments = [stacks.environment(f"e-{n:03}", logRetentionDays=30) for n in range(300)]
    berth.write("stack.yaml", stacks.text(stacks.stack(), *environments))
    cloud.throttle()
    assert "at least 1 min" in berth("plan").expect(0).out
    mark = cloud.mark()
    berth.apply(timeout=400)
    calls = cloud.calls(mark)
    assert [call for call in calls if call["error"] in ("TooManyRequestsException", "ThrottledException", "ThrottlingException")] == []
    assert sum(call["operation"] == "PutRetentionPolicy" for call in calls) == 300
    berth.assert_settled()
