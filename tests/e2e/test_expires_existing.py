# SPDX-License-Identifier: Apache-2.0
"""The guard expires-existing: a new or shorter expiry over objects that are older than it already."""

import datetime

import pytest

import stacks

ADDRESS = "WorkspacePolicy/p"
PREFIX = "workspaces/sessions/"


@pytest.fixture
def bucket(cloud):
    return f"alphaagent-workspaces-{cloud.account}-us-east-1"


@pytest.fixture
def put(cloud, bucket):
    """put(session, name, data, environment): a file in a session's workspace."""

    def put(session, name="f", data=b"12345", environment=None):
        tagging = {"Tagging": f"berth:environment={environment}"} if environment else {}
        cloud.aws("s3").put_object(Bucket=bucket, Key=f"{PREFIX}{session}/workspace/{name}", Body=data, **tagging)

    return put


@pytest.fixture
def stack(cloud, berth, prebuilt):
    """`stack.declare(**spec)`: two environments, and the policy p where a spec is given."""

    def declare(selector=None, **spec):
        policy = [stacks.policy("p", selector or {"all": True}, **spec)] if spec else []
        berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x"), stacks.environment("y"), *policy))

    berth.declare = declare
    declare()
    berth.apply()
    return berth


def day(days):
    return (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days)).strftime("%Y-%m-%d")


def age(cloud, **sessions):
    cloud.settings(object_age_days={f"{PREFIX}{session}/": days for session, days in sessions.items()})


def refusal(berth):
    (change,) = [c for c in berth.plan(code=3)["changes"] if c["address"] == ADDRESS]
    (found,) = change["refusals"]
    assert found["id"] == "expires-existing"
    return found


def reading(cloud, mark):
    return [c["operation"] for c in cloud.calls(mark) if c["operation"] in ("ListObjectVersions", "GetObjectTagging") or PREFIX in str(c["params"].get("Prefix"))]


def test_a_new_rule_over_aged_objects(cloud, stack, put):
    put("old", "a", b"x" * 2000)
    put("old", "b ü&<+%.txt", b"x" * 48)
    put("older", "c")
    put("young", "d", b"x" * 9999)
    age(cloud, old=10, older=20, young=0)
    stack.declare(expireAfterDays=1)
    found = refusal(stack)
    assert f"3 objects, 2053 bytes, oldest {day(20)}" in found["message"]
    assert "2.0 KiB" in found["message"] and "at least" not in found["message"]
    assert f"--allow expires-existing:{ADDRESS}" in found["remedy"]
    mark = cloud.mark()
    result = stack("apply", "--yes").expect(3)
    assert "expires-existing" in result.out and cloud.changing_calls(mark) == []
    stack("apply", "--yes", "--allow", "expires-existing:WorkspacePolicy/other").expect(3)
    stack("apply", "--yes", "--allow", "not-owned").expect(3)
    assert cloud.changing_calls(mark) == []
    stack.apply("--allow", f"expires-existing:{ADDRESS}")
    stack.assert_settled()


def test_a_longer_expiry_is_the_remedy(cloud, stack, put):
    put("old")
    age(cloud, old=20)
    stack.declare(expireAfterDays=20)
    assert "1 object, 5 bytes" in refusal(stack)["message"]
    stack.declare(expireAfterDays=21)
    stack.apply()
    stack.assert_settled()


def test_only_shorter_expiries_ask(cloud, stack, put):
    put("old")
    age(cloud, old=20)
    stack.declare(expireAfterDays=30)
    stack.apply()
    for spec in ({"expireAfterDays": 30}, {"expireAfterDays": 30, "maxDownloadFileMB": 9}, {"expireAfterDays": 40}, {"abortIncompleteUploadDays": 1}):
        age(cloud, old=100)
        mark = cloud.mark()
        stack.declare(**spec)
        stack.plan()
        assert reading(cloud, mark) == [], spec
    stack.declare(expireAfterDays=29)
    refusal(stack)
    age(cloud, old=20)
    mark = cloud.mark()
    stack.apply()
    assert reading(cloud, mark) == ["ListObjectsV2"]


def test_a_quiet_plan_looks_at_no_object(cloud, stack, put):
    stack.declare(expireAfterDays=30)
    stack.apply()
    put("old")
    age(cloud, old=100)
    mark = cloud.mark()
    stack.assert_settled()
    assert reading(cloud, mark) == []


def test_rules_by_tag_look_at_the_tags_of_aged_objects(cloud, stack, put):
    put("a", environment="x")
    put("b", environment="y")
    put("c")
    put("d", environment="x")
    age(cloud, a=10, b=20, c=30, d=1)
    stack.declare({"environments": ["x"]}, expireAfterDays=7)
    mark = cloud.mark()
    assert f"1 object, 5 bytes, oldest {day(10)}" in refusal(stack)["message"]
    assert reading(cloud, mark).count("GetObjectTagging") == 3, "of the aged ones only"
    stack.apply("--allow", f"expires-existing:{ADDRESS}")
    stack.declare({"environments": ["x", "y"]}, expireAfterDays=7)
    assert f"1 object, 5 bytes, oldest {day(20)}" in refusal(stack)["message"], "x was covered before"
    stack.declare({"environments": ["x", "y"]}, expireAfterDays=6)
    assert f"2 objects, 10 bytes, oldest {day(20)}" in refusal(stack)["message"]


def test_a_policy_that_selected_nothing_reaches_its_first_environment(cloud, stack, put):
    put("a", environment="x")
    age(cloud, a=10)
    stack.declare({"matchLabels": {"team": "none"}}, expireAfterDays=7)
    stack.apply()
    stack.declare({"environments": ["x"]}, expireAfterDays=7)
    assert "1 object, 5 bytes" in refusal(stack)["message"]


def test_a_rule_that_somebody_removed_comes_back_only_when_allowed(cloud, stack, put, bucket):
    stack.declare(expireAfterDays=7)
    stack.apply()
    put("a")
    age(cloud, a=10)
    cloud.aws("s3").delete_bucket_lifecycle(Bucket=bucket)
    assert "1 object, 5 bytes" in refusal(stack)["message"]
    stack.apply("--allow", "expires-existing")
    stack.assert_settled()


@pytest.mark.parametrize("selector, tag", [({"all": True}, None), ({"environments": ["x"]}, "x")])
def test_noncurrent_versions(cloud, stack, put, bucket, selector, tag):
    cloud.aws("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    put("a", data=b"1", environment=tag)
    put("a", data=b"22", environment=tag)
    put("a", data=b"333", environment=tag)
    put("b", data=b"4444", environment=tag)
    put("b", data=b"55555", environment=tag)
    age(cloud, a=10, b=20)
    stack.declare(selector, noncurrentExpireAfterDays=7)
    found = refusal(stack)["message"]
    assert f"3 noncurrent versions, 7 bytes, oldest {day(20)}" in found and "expireAfterDays" not in found.replace("noncurrentExpireAfterDays", "")
    stack.declare(selector, noncurrentExpireAfterDays=30, expireAfterDays=7)
    assert f"2 objects, 8 bytes, oldest {day(20)}" in refusal(stack)["message"]
    cloud.aws("s3").delete_object(Bucket=bucket, Key=f"{PREFIX}b/workspace/f")
    assert f"1 object, 3 bytes, oldest {day(10)}" in refusal(stack)["message"], "a delete marker holds nothing"
    stack.declare({"all": True}, noncurrentExpireAfterDays=7)
    assert "4 noncurrent versions, 12 bytes" in refusal(stack)["message"], "the one below the marker has become noncurrent"


def test_past_the_bounds_it_says_at_least(cloud, stack, put):
    """1,000 tags at the most are read, 1,000 objects a page."""
    for number in range(1003):
        put("s", f"f{number:04}", b"1", "x" if number < 1002 else "y")
    age(cloud, s=10)
    stack.declare({"environments": ["x"]}, expireAfterDays=7)
    mark = cloud.mark()
    assert "at least 1000 objects, 1000 bytes" in refusal(stack)["message"]
    assert len(cloud.calls(mark, "s3", "GetObjectTagging")) == 1000
    stack.declare({"environments": ["y"]}, expireAfterDays=7)
    assert "none was found" in refusal(stack)["message"]
    mark = cloud.mark()
    stack.declare(expireAfterDays=7)
    assert "1003 objects" in refusal(stack)["message"]
    assert reading(cloud, mark) == ["ListObjectsV2"] * 2, "two pages, no tag"


def test_no_bucket_no_question(cloud, berth, prebuilt):
    berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x"), stacks.policy("p", {"all": True}, expireAfterDays=1)))
    berth.apply()
    berth.assert_settled()


def test_skipped_or_denied(cloud, stack, put):
    put("a")
    age(cloud, a=10)
    stack.declare(expireAfterDays=7)
    (stack.stack / "m.yaml").write_text((stack.stack / "m.yaml").read_text().replace("prebuilt: python", "prebuilt: python\n  memoryMB: 3000", 1))
    result = stack("apply", "--yes", "--skip-refused").expect(3)
    assert "expires-existing" in result.out
    assert {f["MemorySize"] for f in cloud.functions().values()} == {2048, 3000}
    cloud.faults(({"operation": "ListObjectsV2", "resource": "sessions"}, {"kind": "error", "status": 403, "code": "AccessDenied", "message": "no"}))
    result = stack("plan").expect(1)
    assert "s3:ListBucket" in result.err and ADDRESS in result.err
