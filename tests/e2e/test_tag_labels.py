# SPDX-License-Identifier: Apache-2.0
"""tagLabels: labels of manifests that become tags of what Berth makes for them."""

import pytest

import stacks
from lib.steps import end_of

SHARED = "alphaagent-execution-us-east-1"
OWN = "alphaagent-env-x-us-east-1"
FUNCTION = "alphaagent-env-x"
GROUP = f"/aws/lambda/{FUNCTION}"


class Tags:
    """Everybody's tags of everything, by what it is."""

    def __init__(self, cloud):
        self.cloud, self.bucket = cloud, f"alphaagent-workspaces-{cloud.account}-us-east-1"
        self.group = f"arn:aws:logs:us-east-1:{cloud.account}:log-group:{GROUP}"
        self.function = f"arn:aws:lambda:us-east-1:{cloud.account}:function:{FUNCTION}"

    def of(self, what):
        aws = self.cloud.aws
        if what == "function":
            return aws("lambda").list_tags(Resource=self.function)["Tags"]
        if what == "logs":
            return aws("logs").list_tags_for_resource(resourceArn=self.group)["tags"]
        if what in ("role", "own role"):
            found = aws("iam").list_role_tags(RoleName=SHARED if what == "role" else OWN)["Tags"]
        elif what == "bucket":
            found = aws("s3").get_bucket_tagging(Bucket=self.bucket)["TagSet"]
        else:
            found = aws("ecr").list_tags_for_resource(resourceArn=f"arn:aws:ecr:us-east-1:{self.cloud.account}:repository/team/made")["tags"]
        return {tag["Key"]: tag.get("Value", "") for tag in found}

    def ours(self, what):
        return {key: value for key, value in self.of(what).items() if not key.startswith(("berth:", "aws:"))}


@pytest.fixture
def tags(cloud):
    return Tags(cloud)


def write(berth, names, stack={}, labels={}, image={}, **spec):
    head = stacks.stack(**spec, **({"tagLabels": names} if names is not None else {}))
    head["metadata"]["labels"] = stack
    made = stacks.image("made", repository="team/made", tag="v1", createRepository=True)
    made["metadata"]["labels"] = image
    berth.write("m.yaml", stacks.text(head, made, stacks.environment("x", labels, executionRole="own", logRetentionDays=7)))


def change(plan, address):
    return next((c for c in plan["changes"] if c["address"] == address), None)


def operations(cloud, mark):
    return sorted(c["operation"] for c in cloud.changing_calls(mark))


@pytest.fixture
def applied(berth, prebuilt):
    write(berth, ["team", "cost-center"], {"team": "platform"}, {"team": "red", "cost-center": "17", "tier": "gold"}, {"cost-center": "9"}, tags={"cost-center": "0"})
    berth.apply()
    return berth


def test_labels_become_tags_of_everything(applied, tags):
    own = {"team": "red", "cost-center": "17"}
    assert tags.ours("function") == tags.ours("logs") == tags.ours("own role") == own
    assert tags.ours("repository") == {"cost-center": "9"}, "an image has its own labels only, and the Stack's tags where it has none"
    assert tags.ours("bucket") == tags.ours("role") == {"team": "platform", "cost-center": "0"}
    applied.assert_settled()


def test_a_label_that_changes_and_goes_is_followed(cloud, applied, berth, tags):
    write(berth, ["team", "cost-center"], {}, {"team": "blue"}, {})
    plan = berth.plan()
    assert {f["path"] for f in change(plan, "Environment/x")["fields"]} == {"tags.team", "tags.cost-center", "ownRole.tags.team", "ownRole.tags.cost-center"}
    assert {f["path"] for f in change(plan, "Stack/team")["fields"]} == {"bucket.tags.team", "bucket.tags.cost-center", "role.tags.team", "role.tags.cost-center"}
    berth.apply()
    assert tags.ours("function") == tags.ours("logs") == tags.ours("own role") == {"team": "blue"}
    assert tags.ours("bucket") == tags.ours("role") == tags.ours("repository") == {}
    berth.assert_settled()
    write(berth, None, {"team": "platform"}, {"team": "blue"})
    berth.apply()
    assert tags.ours("function") == tags.ours("logs") == tags.ours("own role") == {}
    berth.assert_settled()


@pytest.mark.parametrize("refusal", [[405, "MethodNotAllowed"], [403, "AccessDenied"], [400, "InvalidRequest"]], ids=lambda r: r[1])
def test_a_bucket_with_access_control_by_tags(cloud, applied, berth, tags, refusal):
    """It takes no PutBucketTagging; which code says so is not documented."""
    s3 = cloud.aws("s3")
    s3.put_bucket_tagging(Bucket=tags.bucket, Tagging={"TagSet": [{"Key": k, "Value": v} for k, v in {**tags.of("bucket"), "theirs": "a b"}.items()]})
    cloud.settings(abac_refusal=refusal)
    s3.put_bucket_abac(Bucket=tags.bucket, AbacStatus={"Status": "Enabled"})
    applied.assert_settled()
    write(berth, ["team", "cost-center"], {"team": "blue"}, {"team": "red", "cost-center": "17"}, {"cost-center": "9"})
    mark = cloud.mark()
    berth.apply()
    assert tags.ours("bucket") == {"team": "blue", "theirs": "a b"}
    assert [c["operation"] for c in cloud.changing_calls(mark) if c["service"] in ("s3", "s3control")] == ["PutBucketTagging", "TagResource", "UntagResource"]
    berth.assert_settled()
    berth.destroy()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("operation", ["TagResource", "UntagResource"])
def test_a_death_while_such_a_bucket_is_tagged(cloud, applied, berth, tags, tmp_path, operation, when):
    cloud.aws("s3").put_bucket_abac(Bucket=tags.bucket, AbacStatus={"Status": "Enabled"})
    write(berth, ["team", "cost-center"], {"team": "blue"}, {"team": "red", "cost-center": "17"}, {"cost-center": "9"})
    pidfile = tmp_path / "pid"
    cloud.faults(({"service": "s3control", "operation": operation, "nth": 1}, {"kind": "signal", "when": when, "pidfile": str(pidfile)}))
    assert end_of(berth, "apply", pidfile) < 0
    cloud.faults()
    berth.apply()
    assert tags.ours("bucket") == {"team": "blue"}
    berth.assert_settled()


def test_who_may_not_tag_such_a_bucket_is_told_both_refusals(cloud, applied, berth, tags):
    cloud.aws("s3").put_bucket_abac(Bucket=tags.bucket, AbacStatus={"Status": "Enabled"})
    write(berth, ["team"], {"team": "blue"}, {"team": "red"})
    cloud.faults(({"service": "s3control"}, {"kind": "error", "status": 403, "code": "AccessDenied", "message": "no"}))
    result = berth("apply", "--yes").expect(1)
    assert "s3:TagResource" in result.out and "PutBucketTagging" in result.out and "(ABAC)" in result.out
    cloud.faults()
    berth.apply()
    berth.assert_settled()


@pytest.mark.parametrize("operation", ["ListTagsForResource", "TagResource", "UntagResource"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_death_while_a_log_group_gets_its_tags_leaves_no_old_ones(cloud, applied, berth, tags, tmp_path, operation, when):
    cloud.aws("logs").tag_resource(resourceArn=tags.group, tags={"theirs": "stays"})
    write(berth, ["team", "cost-center"], {"team": "platform"}, {"team": "blue"}, {"cost-center": "9"})
    pidfile = tmp_path / "pid"
    cloud.faults(({"service": "logs", "operation": operation, "nth": 1}, {"kind": "signal", "when": when, "pidfile": str(pidfile)}))
    assert end_of(berth, "apply", pidfile) < 0
    cloud.faults()
    berth.apply()
    assert tags.ours("function") == {"team": "blue"} and tags.ours("logs") == {"team": "blue", "theirs": "stays"}
    berth.assert_settled()


def test_a_log_group_that_a_dead_run_made_gets_the_labels_of_now(cloud, berth, prebuilt, tags, tmp_path):
    """Its function was never made, so that no tags of one bring the change back."""
    pidfile = tmp_path / "pid"
    write(berth, ["team"], labels={"team": "red"})
    cloud.faults(({"operation": "CreateFunction", "nth": 1}, {"kind": "signal", "when": "before", "pidfile": str(pidfile)}))
    assert end_of(berth, "apply", pidfile) < 0 and tags.ours("logs") == {"team": "red"}
    cloud.faults()
    write(berth, ["team"], labels={"team": "blue"})
    berth.apply()
    assert tags.ours("function") == tags.ours("logs") == {"team": "blue"}
    berth.assert_settled()


def test_a_log_group_that_outlived_its_function_gets_the_labels_of_now(cloud, applied, berth, tags):
    cloud.aws("logs").tag_resource(resourceArn=tags.group, tags={"theirs": "stays"})
    cloud.aws("lambda").delete_function(FunctionName=FUNCTION)
    write(berth, ["team", "cost-center"], {"team": "platform"}, {"team": "blue"}, {"cost-center": "9"})
    berth.apply()
    assert tags.ours("function") == {"team": "blue"} and tags.ours("logs") == {"team": "blue", "theirs": "stays"}
    berth.assert_settled()


def test_a_log_group_that_berth_did_not_make_keeps_its_tags(cloud, berth, prebuilt, tags):
    cloud.aws("logs").create_log_group(logGroupName=GROUP, tags={"team": "theirs"})
    write(berth, ["team"], labels={"team": "red"})
    berth.apply("--allow", "expires-logs")
    write(berth, ["team"], labels={"team": "blue"})
    berth.apply()
    assert tags.ours("function") == {"team": "blue"} and tags.of("logs") == {"team": "theirs"}


@pytest.mark.parametrize("harm", ["another", "none"])
def test_what_others_did_to_the_tags_of_a_log_group_is_seen_where_all_is_read(cloud, applied, berth, tags, harm):
    logs = cloud.aws("logs")
    if harm == "another":
        logs.tag_resource(resourceArn=tags.group, tags={"team": "mine", "theirs": "stays"})
    else:
        logs.untag_resource(resourceArn=tags.group, tagKeys=["team"])
    mark = cloud.mark()
    assert berth.plan()["changes"] == [] and not [c for c in cloud.calls(mark) if c["operation"] == "ListTagsForResource" and c["service"] == "logs"]
    (drift,) = berth("drift", "--refresh", "full", "--json").expect(2).json()["drift"]
    assert [(f["path"], f["before"], f["after"]) for f in drift["fields"]] == [("tags.team", "red", f"{'mine' if harm == 'another' else 'none'} (log group)")]
    berth.apply("--refresh", "full")
    assert {**tags.ours("logs"), "theirs": "stays"} == {"team": "red", "cost-center": "17", "theirs": "stays"}
    berth("drift", "--refresh", "full").expect(0)
    berth.assert_settled()


def test_a_log_group_that_went_is_no_hindrance(cloud, applied, berth, tags):
    cloud.aws("logs").delete_log_group(logGroupName=GROUP)
    write(berth, ["team"], labels={"team": "blue"})
    berth.apply()
    assert tags.ours("function") == {"team": "blue"} and tags.ours("logs") == {"team": "blue"}, "made anew, with the tags of now"
    berth.assert_settled()


@pytest.mark.parametrize("what", ["function", "bucket", "role", "own role"])
def test_a_tag_changed_by_hand_is_put_back_and_others_stay(cloud, applied, tags, what):
    key, value = "team", tags.ours(what)["team"]
    both = {key: "mine", "theirs": "stays"}
    aws = cloud.aws
    if what == "function":
        aws("lambda").tag_resource(Resource=tags.function, Tags=both)
    elif what == "bucket":
        aws("s3").put_bucket_tagging(Bucket=tags.bucket, Tagging={"TagSet": [{"Key": k, "Value": v} for k, v in {**tags.of("bucket"), **both}.items()]})
    else:
        aws("iam").tag_role(RoleName=SHARED if what == "role" else OWN, Tags=[{"Key": k, "Value": v} for k, v in both.items()])
    assert len(applied.plan("--refresh", "full")["drift"]) == 1
    applied.apply("--refresh", "full")
    assert (tags.of(what)["team"], tags.of(what)["theirs"]) == (value, "stays")
    applied.assert_settled()


def test_a_tag_that_somebody_else_set_does_not_go_with_a_label(cloud, berth, prebuilt, tags):
    write(berth, ["team"])
    berth.apply()
    cloud.aws("lambda").tag_resource(Resource=tags.function, Tags={"team": "theirs"})
    write(berth, ["tier"], labels={"tier": "gold"})
    berth.apply()
    write(berth, [])
    berth.apply()
    assert tags.ours("function") == {"team": "theirs"}
    berth.assert_settled()


@pytest.mark.parametrize("what", ["function", "bucket", "role", "own role", "repository"])
def test_more_than_fifty_tags_are_told_by_the_plan(cloud, berth, prebuilt, tags, what):
    """Others' count: AWS would refuse the tag, and the apply with it."""
    write(berth, [])
    berth.apply()
    many = {f"t{i:02}": "x" for i in range(45)}
    listed = [{"Key": k, "Value": v} for k, v in many.items()]
    aws = cloud.aws
    if what == "function":
        aws("lambda").tag_resource(Resource=tags.function, Tags=many)
    elif what == "bucket":
        aws("s3").put_bucket_tagging(Bucket=tags.bucket, Tagging={"TagSet": [{"Key": k, "Value": v} for k, v in {**tags.of("bucket"), **many}.items()]})
    elif what == "repository":
        aws("ecr").tag_resource(resourceArn=f"arn:aws:ecr:us-east-1:{cloud.account}:repository/team/made", tags=listed)
    else:
        aws("iam").tag_role(RoleName=SHARED if what == "role" else OWN, Tags=listed)
    one, two = {"a": "1"}, {"a": "1", "b": "2"}
    write(berth, ["a", "b"], one, one, one)
    berth.plan("--refresh", "full")
    write(berth, ["a", "b"], two, two, two)
    plan = berth.plan("--refresh", "full", code=3)
    (refusal,) = [r for c in plan["changes"] for r in c["refusals"]]
    assert refusal["id"] == "over-quota" and "it would carry 51" in refusal["message"] and "45 there" in refusal["message"]
    mark = cloud.mark()
    berth("apply", "--yes", "--refresh", "full").expect(3)
    assert cloud.changing_calls(mark) == []


def test_validate_knows_what_aws_takes(offline):
    def said(names, labels={}, **spec):
        offline.write("m.yaml", stacks.text(stacks.stack(tagLabels=names, **spec), stacks.environment("x", labels)))
        return offline("validate")

    said(["team", "cost-center"], {"team": "röt", "free": "a;b"}, tags={"team": "x"}).expect(0)
    assert "differ by case only" in said(["team", "Team"]).expect(1).err
    assert "the tags Team and team differ by case only" in said(["team"], tags={"Team": "x"}).expect(1).err
    assert "tags that begin with aws:" in said(["AWS:x"]).expect(1).err and "tags that begin with berth:" in said(["berth:stack"]).expect(1).err
    assert "named twice" in said(["a", "a"]).expect(1).err and "tagLabels[0] must be letters" in said(["a;b"]).expect(1).err
    assert "the label team becomes a tag" in said(["team"], {"team": "a;b"}).expect(1).err
    assert "48 tags together, 46 are possible" in said([f"l{i}" for i in range(8)], tags={f"t{i}": "x" for i in range(40)}).expect(1).err
