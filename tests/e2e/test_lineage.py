# SPDX-License-Identifier: Apache-2.0
"""Two states that meet in one account: a name is nobody's own, a lineage is."""

import json

import pytest

import stacks
from lib.two_states import bucket, first, note, second, sharing, strip, world  # noqa: F401

pytestmark = pytest.mark.sampled("moto")

FUNCTION = "alphaagent-env-x"


# --- marks ---------------------------------------------------------------------------------------------


def test_everything_carries_the_lineage(cloud, bucket, first):
    lineage = first.lineage()
    found = world(cloud, bucket)
    assert dict(found["bucket"])["berth:lineage"] == lineage and dict(found["role"])["berth:lineage"] == lineage
    assert found[FUNCTION]["berth:lineage"] == lineage
    assert [rule["ID"] for rule in found["rules"]] == [f"berth:research:p@{lineage}"]
    for key in ("registry/research/agents/a.json", "registry/research/swarms/s.json"):
        assert json.loads(cloud.aws("s3").get_object(Bucket=bucket, Key=key)["Body"].read())["lineage"] == lineage
    first.berth.assert_settled()
    first.berth.plan("--refresh", "full", "--detailed-exitcode")
    assert first.berth.plan("--refresh", "none", "--detailed-exitcode")["changes"] == []


def test_repositories_and_log_groups_carry_it(cloud, bucket, first):
    first.write(stacks.environment("x", logRetentionDays=7), stacks.image("i", repository="research/i", tag="v1", createRepository=True))
    first.berth.apply()
    arn = f"arn:aws:ecr:us-east-1:{cloud.account}:repository/research/i"
    assert {"Key": "berth:lineage", "Value": first.lineage()} in cloud.aws("ecr").list_tags_for_resource(resourceArn=arn)["tags"]
    group = f"arn:aws:logs:us-east-1:{cloud.account}:log-group:/aws/lambda/{FUNCTION}"
    assert cloud.aws("logs").list_tags_for_resource(resourceArn=group)["tags"]["berth:lineage"] == first.lineage()


def test_each_apply_renews_the_note(cloud, bucket, first):
    lineage = first.lineage()
    before = note(cloud, bucket, lineage)
    assert (before["formatVersion"], before["lineage"], before["stack"]) == ("1", lineage, "research")
    assert before["who"] and before["machine"] and before["folder"] == str((first.berth.stack / ".berth").resolve())
    first.berth.plan()
    assert note(cloud, bucket, lineage) == before, "a plan renews nothing"
    mark = cloud.mark()
    first.berth.apply()
    after = note(cloud, bucket, lineage)
    assert after["at"] >= before["at"] and {**after, "at": before["at"]} == before
    assert len(cloud.changing_calls(mark, notes=True)) == 1 and cloud.changing_calls(mark) == []


def test_destroy_takes_the_note_along(cloud, bucket, first):
    first.berth.destroy()
    assert bucket not in [b["Name"] for b in cloud.aws("s3").list_buckets()["Buckets"]]


def test_a_stack_that_shares_the_bucket_takes_its_note_along(cloud, bucket, first, second):
    second.write(stacks.environment("y"), stack=stacks.stack("second", aws={"createBucket": False, "executionRole": cloud.lambda_role("second")}))
    second.berth.apply()
    assert note(cloud, bucket, second.lineage())["stack"] == "second"
    second.berth.destroy()
    keys = [o["Key"] for o in cloud.aws("s3").list_objects_v2(Bucket=bucket, Prefix="berth/lineages/")["Contents"]]
    assert keys == [f"berth/lineages/{first.lineage()}"]


# --- another lineage ------------------------------------------------------------------------------------


def test_two_teams_of_one_name(cloud, bucket, first, second):
    before = world(cloud, bucket)
    plan = second.berth.plan(code=3)
    refused = {c["address"]: [r["id"] for r in c["refusals"]] for c in plan["changes"]}
    assert refused == {a: ["not-owned"] for a in ("Stack/research", "Environment/x", "Agent/a", "Swarm/s", "WorkspacePolicy/p")}
    (stack,) = [c for c in plan["changes"] if c["kind"] == "Stack"]
    assert first.lineage() in stack["refusals"][0]["message"] and str(first.berth.stack) in stack["refusals"][0]["message"]
    assert "berth state adopt" in stack["refusals"][0]["remedy"] and "--allow not-owned:Stack/research" in stack["refusals"][0]["remedy"]
    mark = cloud.mark()
    second.berth.apply(code=3)
    second.berth.apply("--skip-refused", code=3)
    second.berth.destroy()
    assert cloud.changing_calls(mark, notes=True) == []
    assert world(cloud, bucket) == before
    first.berth.assert_settled()


@pytest.mark.parametrize("refresh", ["sweep", "full"])
def test_what_another_lineage_took_over_is_its_own(cloud, bucket, first, second, refresh):
    """By --allow: the first team then changes and deletes nothing of it any more."""
    second.berth.apply("--allow", "not-owned")
    second.berth.assert_settled()
    taken = world(cloud, bucket)
    assert dict(taken["bucket"])["berth:lineage"] == taken[FUNCTION]["berth:lineage"] == second.lineage()
    assert [rule["ID"] for rule in taken["rules"]] == [f"berth:research:p@{second.lineage()}"]
    plan = first.berth.plan("--refresh", refresh, code=3)
    refused = {c["address"] for c in plan["changes"] if [r["id"] for r in c["refusals"]] == ["not-owned"]}
    assert refused == {"Stack/research", "Environment/x", "Agent/a", "Swarm/s", "WorkspacePolicy/p"}
    first.berth.apply(code=3)
    result = first.berth("destroy", "--yes").expect(3)
    assert "not-owned" in result.out
    assert world(cloud, bucket) == taken
    second.berth.assert_settled()


def ids(cloud, bucket):
    return sorted(rule["ID"] for rule in cloud.aws("s3").get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"])


def test_policies_of_two_stacks_of_one_name_in_one_bucket(cloud, bucket, first, sharing):
    ours = f"berth:research:p@{first.lineage()}"
    sharing.write(stacks.policy("q", {"all": True}, expireAfterDays=40), stack=sharing.stack)
    sharing.berth.apply()
    theirs = f"berth:research:q@{sharing.lineage()}"
    assert ids(cloud, bucket) == [ours, theirs]
    first.berth.assert_settled()
    sharing.berth.assert_settled()
    # One of the other's name is refused, the rule stays; and so it is by whoever applied it once.
    sharing.write(stacks.policy("p", {"all": True}, expireAfterDays=1), stacks.policy("q", {"all": True}, expireAfterDays=40), stack=sharing.stack)
    ((refusal,),) = [c["refusals"] for c in sharing.berth.plan(code=3)["changes"]]
    assert refusal["id"] == "not-owned" and first.lineage() in refusal["message"] and "--allow not-owned:WorkspacePolicy/p" in refusal["remedy"]
    sharing.berth.apply(code=3)
    assert ids(cloud, bucket) == [ours, theirs]
    sharing.berth.apply("--allow", "not-owned:WorkspacePolicy/p", "--allow", "expires-existing")
    assert ids(cloud, bucket) == [f"berth:research:p@{sharing.lineage()}", theirs]
    sharing.berth.assert_settled()
    plan = first.berth.plan(code=3)
    assert [(c["address"], [r["id"] for r in c["refusals"]]) for c in plan["changes"]] == [("WorkspacePolicy/p", ["not-owned"])]
    # Whoever gives up the bucket learns who else has rules there, and deletes nothing of theirs.
    result = first.berth("destroy", "--yes", "--json").expect(3)
    (dependents,) = [r["dependents"] for c in result.json()["changes"] if c["address"] == "Stack/research" for r in c["refusals"] if r["id"] == "has-dependents"]
    assert {"lifecycle rule berth:research:p", "lifecycle rule berth:research:q"} <= set(dependents)
    sharing.berth.destroy()
    assert rules_left(cloud, bucket) == []


def rules_left(cloud, bucket):
    s3 = cloud.aws("s3")
    try:
        return s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    except s3.exceptions.ClientError as error:
        assert error.response["Error"]["Code"] == "NoSuchLifecycleConfiguration"
        return []


def test_rules_that_another_state_writes_meanwhile_stay(cloud, bucket, first, sharing):
    """Both plan a policy of one name where there was none: whoever comes second gives up under the lock."""
    first.write(stacks.policy("q", {"all": True}, expireAfterDays=40), stack=stacks.stack("research"))
    sharing.write(stacks.policy("q", {"all": True}, expireAfterDays=1), stack=sharing.stack)
    other = "11111111-1111-4111-8111-111111111111"
    text = f'<LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Rule><ID>berth:research:q@{other}</ID><Filter><Prefix>workspaces/sessions/</Prefix></Filter><Status>Enabled</Status><Expiration><Days>9</Days></Expiration></Rule></LifecycleConfiguration>'
    mark = cloud.mark()
    # The plan's is the first; the second is read under the lock.
    cloud.faults(({"operation": "GetBucketLifecycleConfiguration", "nth": 2}, {"kind": "answer", "status": 200, "headers": {"Content-Type": "application/xml"}, "body": text}))
    result = sharing.berth("apply", "--yes", "--allow", "expires-existing").expect(1)
    assert "were written meanwhile by stack research of another state" in result.out + result.err and other in result.out + result.err
    assert not [c for c in cloud.changing_calls(mark) if c["operation"] == "PutBucketLifecycleConfiguration"]
    cloud.faults()
    sharing.berth.apply()
    sharing.berth.assert_settled()


def lifecycle_rule(name, days=9):
    return {"ID": name, "Filter": {"Prefix": "workspaces/sessions/"}, "Status": "Enabled", "Expiration": {"Days": days}}


@pytest.mark.parametrize("end", ["", "x y", "../z"])
def test_a_rule_behind_whose_name_stands_no_lineage_is_somebodys_own(cloud, bucket, first, end):
    s3 = cloud.aws("s3")
    theirs = f"berth:research:q@{end}"
    rules = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [*rules, lifecycle_rule(theirs)]})
    plan = first.berth.plan("--refresh", "full")
    assert plan["orphans"] == plan["orphansOfOthers"] == [] and plan["changes"] == []
    kept_documents = (stacks.environment("x", variables={"MODE": "1"}), stacks.agent("a", "x"), stacks.swarm("s", ["a"], "x"), stacks.policy("p", {"all": True}, expireAfterDays=30))
    first.write(*kept_documents, stacks.policy("q", {"all": True}, expireAfterDays=40))
    first.berth.apply()
    assert ids(cloud, bucket) == sorted([f"berth:research:p@{first.lineage()}", f"berth:research:q@{first.lineage()}", theirs])
    first.berth.assert_settled()
    first.write(*kept_documents)
    first.berth.apply()
    assert ids(cloud, bucket) == sorted([f"berth:research:p@{first.lineage()}", theirs])


def test_rules_of_a_rival_count_where_they_stay(cloud, bucket, first):
    """S3 takes 1,000. The other state's p has 500 of them, ours would have one, which is refused: its 500 stay."""
    s3 = cloud.aws("s3")
    other = "11111111-1111-4111-8111-111111111111"
    rules = [lifecycle_rule(f"berth:research:p:e{n}@{other}") for n in range(500)] + [lifecycle_rule(f"theirs-{n}") for n in range(499)]
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    first.write(stacks.environment("x"), stacks.policy("p", {"all": True}, expireAfterDays=30), stacks.policy("q", {"all": True}, expireAfterDays=40, abortIncompleteUploadDays=3))
    plan = first.berth.plan(code=3)
    refused = {c["address"]: {r["id"]: r["message"] for r in c["refusals"]} for c in plan["changes"]}
    assert "not-owned" in refused["WorkspacePolicy/p"]
    assert "999 lifecycle rules that are not this stack's, and its own would be 2" in " ".join(refused["WorkspacePolicy/q"].values())


def test_import_asks_whose_it_is(cloud, first, second):
    result = second.berth("import", "Environment/x", FUNCTION).expect(3)
    assert "not-owned" in result.err and first.lineage() in result.err


def test_a_bucket_that_another_lineage_makes_meanwhile(cloud, bucket, first, second):
    """Both plan on empty ground; whoever comes second gives up, and touches nothing."""
    first.berth.destroy()
    second.berth("plan", "-o", "late.plan").expect(0)
    first.berth.apply()
    before = world(cloud, bucket)
    result = second.berth("apply", "--yes", "late.plan")
    assert result.code == 3 and "plan-stale" in result.out + result.err
    assert world(cloud, bucket) == before


# --- marks of before ------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["kept", "lost"])
def test_marks_without_a_lineage_are_adopted_once(cloud, bucket, first, state):
    strip(cloud, bucket)
    if state == "lost":
        first.lose_state()
    plan = first.berth.plan()
    said = [w for w in plan["warnings"] if "without a lineage" in w]
    assert len(said) == 5 and any("Environment/x" in w for w in said), plan["warnings"]
    assert {c["action"] for c in plan["changes"]} <= {"update", "adopt"} and plan["refusals"] == []
    assert "without a lineage" in first.berth("plan").expect(0).out
    first.berth.apply()
    found = world(cloud, bucket)
    assert [rule["ID"] for rule in found["rules"]] == [f"berth:research:p@{first.lineage()}"]
    assert found[FUNCTION]["berth:lineage"] == dict(found["bucket"])["berth:lineage"] == dict(found["role"])["berth:lineage"] == first.lineage()
    assert [w for w in first.berth.assert_settled()["warnings"] if "lineage" in w] == []
