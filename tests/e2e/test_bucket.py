# SPDX-License-Identifier: Apache-2.0
"""The workspace bucket, the execution role and what is written into the bucket: whose they are, and who else is at work."""

import json
import threading
import time

import pytest
from botocore.exceptions import ClientError

import stacks

ROLE = "alphaagent-execution-us-east-1"
LOCK = "berth/locks/lifecycle"


def write(berth, *documents, **spec):
    berth.write("m.yaml", stacks.text(stacks.stack(**spec), *documents))


POLICIES = (
    stacks.policy("all", {"all": True}, expireAfterDays=90, abortIncompleteUploadDays=7),
    stacks.policy("some", {"environments": ["x", "y"]}, transitions=[{"afterDays": 30, "storageClass": "STANDARD_IA"}], expireAfterDays=60),
)
ENVIRONMENTS = (stacks.environment("x"), stacks.environment("y"))


@pytest.fixture
def bucket(cloud):
    return f"alphaagent-workspaces-{cloud.account}-us-east-1"


@pytest.fixture
def s3(cloud):
    return cloud.aws("s3")


@pytest.fixture
def stack(cloud, berth, prebuilt):
    write(berth, *ENVIRONMENTS, stacks.agent("a", "x"), stacks.agent("b", "y"), stacks.swarm("s", ["a", "b"], "x"), *POLICIES)
    berth.apply()
    return berth


def rules_of(s3, bucket):
    return {rule["ID"].split("@")[0]: rule for rule in s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]}


def tags_of(s3, bucket):
    # moto answers an empty value by none.
    return {tag["Key"]: tag.get("Value", "") for tag in s3.get_bucket_tagging(Bucket=bucket)["TagSet"]}


def exists(s3, bucket, key):
    try:
        s3.head_object(Bucket=bucket, Key=key)
        return True
    except ClientError:
        return False


def refusals(plan, address="Stack/team"):
    return {r["id"]: r for c in plan["changes"] if c["address"] == address for r in c["refusals"]}


# --- whose they are -----------------------------------------------------------------------------------


def test_another_stack_of_the_same_prefix_is_refused(cloud, stack, berth):
    write(berth, name="second")
    mark = cloud.mark()
    refusal = refusals(berth.plan("--state", "second", code=3), "Stack/second")["not-owned"]
    assert "bucket alphaagent-workspaces" in refusal["message"] and ROLE in refusal["message"] and "stack team" in refusal["message"]
    assert "aws.namePrefix" in refusal["remedy"] and "aws.createBucket: false" in refusal["remedy"] and "aws.executionRole" in refusal["remedy"]
    assert "another name," not in refusal["remedy"] and "--allow not-owned:Stack/second" in refusal["remedy"]
    berth("apply", "--yes", "--state", "second").expect(3)
    assert cloud.changing_calls(mark) == []


def test_a_bucket_that_was_there_is_taken_only_when_allowed(cloud, berth, s3, bucket):
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": "theirs", "Value": "1"}]})
    write(berth)
    assert "not-owned" in refusals(berth.plan(code=3))
    assert tags_of(s3, bucket) == {"theirs": "1"}
    berth.apply("--allow", "not-owned:Stack/team")
    lineage = berth("state", "show", "--json").json()["lineage"]
    assert tags_of(s3, bucket) == {"theirs": "1", "berth:stack": "team", "berth:kind": "Stack", "berth:name": "team", "berth:lineage": lineage}
    berth.assert_settled()


def test_a_role_of_another_stack_is_refused(cloud, berth):
    trust = {"Version": "2012-10-17", "Statement": []}
    cloud.aws("iam").create_role(RoleName=ROLE, AssumeRolePolicyDocument=json.dumps(trust), Tags=[{"Key": "berth:stack", "Value": "other"}])
    write(berth)
    refusal = refusals(berth.plan(code=3))["not-owned"]
    assert refusal["message"] == f"the role {ROLE} exists and belongs to stack other"
    assert "aws.namePrefix" in refusal["remedy"] and "aws.executionRole" in refusal["remedy"]


# --- given up -----------------------------------------------------------------------------------------


def roles(cloud):
    return {role["RoleName"] for role in cloud.aws("iam").list_roles()["Roles"]}


def fields(plan, address="Stack/team"):
    return {f["path"] for c in plan["changes"] if c["address"] == address for f in c["fields"]}


def test_a_role_of_another_account_is_told_by_the_plan(cloud, berth, prebuilt):
    """Lambda would refuse it, function by function; where the Stack names no account, only the plan can know."""
    write(berth, stacks.environment("x"), aws={"executionRole": "arn:aws:iam::210987654321:role/theirs"})
    mark = cloud.mark()
    result = berth("apply", "--yes").expect(1)
    assert "210987654321" in result.err and cloud.account in result.err and "own account" in result.err
    assert cloud.changing_calls(mark) == []


def test_a_role_given_up_goes_when_no_function_uses_it(cloud, berth, prebuilt):
    write(berth, stacks.environment("x"))
    berth.apply()
    mine = cloud.lambda_role("mine")
    write(berth, stacks.environment("x"), aws={"executionRole": mine})
    plan = berth.plan()
    assert {"role.arn", "role.name", "formerRole"} <= fields(plan) and fields(plan, "Environment/x") == {"role"}
    assert plan["drift"] == []
    mark = cloud.mark()
    berth.apply()
    assert not {"DeleteRole", "DeleteRolePolicy"} & {c["operation"] for c in cloud.changing_calls(mark)}, "the function still ran with it"
    assert cloud.functions()["alphaagent-env-x"]["Role"] == mine
    plan = berth.plan()
    assert fields(plan) == {"formerRole"} and [c["address"] for c in plan["changes"]] == ["Stack/team"] and plan["drift"] == []
    mark = cloud.mark()
    berth.apply()
    assert [c["operation"] for c in cloud.changing_calls(mark)] == ["DeleteRolePolicy", "DeleteRole"]
    assert ROLE not in roles(cloud) and "mine" in roles(cloud)
    berth.assert_settled()
    mark = cloud.mark()
    berth.assert_settled()
    assert [c for c in cloud.calls(mark) if c["service"] == "iam"] == []


def test_a_role_given_up_stays_for_whoever_else_runs_with_it(cloud, berth, prebuilt):
    write(berth, stacks.environment("x"))
    berth.apply()
    ours = cloud.aws("iam").get_role(RoleName=ROLE)["Role"]["Arn"]
    write(berth, stacks.environment("x"), aws={"executionRole": ours})
    berth.apply()
    berth.assert_settled()
    write(berth, stacks.environment("x"), aws={"executionRole": cloud.lambda_role("mine")})
    plan = berth.plan()
    assert "role.arn" in fields(plan) and plan["drift"] == []
    berth.apply()
    assert ROLE in roles(cloud)
    write(berth, stacks.environment("x"))
    plan = berth.plan()
    assert "role.arn" in fields(plan) and plan["drift"] == []
    berth.apply()
    assert ROLE in roles(cloud)
    berth.assert_settled()


def test_without_functions_a_role_given_up_goes_at_once(cloud, berth):
    write(berth)
    berth.apply()
    write(berth, aws={"executionRole": cloud.lambda_role("mine")})
    assert berth.plan()["drift"] == []
    berth.apply()
    assert roles(cloud) & {ROLE, "mine"} == {"mine"}
    berth.assert_settled()


@pytest.mark.parametrize("applied", [True, False])
def test_what_was_given_up_goes_with_the_stack(cloud, berth, s3, prebuilt, applied):
    write(berth, stacks.environment("x"))
    berth.apply()
    write(berth, stacks.environment("x"), aws={"executionRole": cloud.lambda_role("mine"), "createBucket": False})
    if applied:
        berth.apply()
    berth.destroy()
    assert roles(cloud) & {ROLE, "mine"} == {"mine"}
    assert [b["Name"] for b in s3.list_buckets()["Buckets"]] == []


def test_a_bucket_given_up_is_only_let_go(cloud, berth, s3, bucket):
    write(berth, tags={"t": "1"})
    berth.apply()
    write(berth, tags={"t": "1"}, aws={"createBucket": False})
    plan = berth.plan()
    assert {"bucket.encryption", "bucket.tlsOnly", "formerBucket"} <= fields(plan) and plan["drift"] == []
    mark = cloud.mark()
    berth.apply()
    assert cloud.changing_calls(mark) == []
    berth.assert_settled()
    s3.delete_bucket_policy(Bucket=bucket)
    berth.assert_settled()
    write(berth, tags={"t": "1"})
    plan = berth.plan()
    assert {"bucket.tlsOnly", "formerBucket"} <= fields(plan) and plan["drift"] == []
    berth.apply()
    assert s3.get_bucket_policy(Bucket=bucket)["Policy"]
    berth.assert_settled()
    berth.destroy()
    assert [b["Name"] for b in s3.list_buckets()["Buckets"]] == []


def test_a_bucket_given_up_and_disowned_is_kept(cloud, berth, s3, bucket):
    write(berth)
    berth.apply()
    write(berth, aws={"createBucket": False})
    berth.apply()
    s3.delete_bucket_tagging(Bucket=bucket)
    berth.destroy()
    assert [b["Name"] for b in s3.list_buckets()["Buckets"]] == [bucket]
    assert ROLE not in roles(cloud)


def test_a_shared_bucket_must_exist(cloud, berth, bucket):
    write(berth, aws={"createBucket": False})
    result = berth("plan").expect(1)
    assert bucket in result.err and "createBucket" in result.err


def test_the_prefix_cannot_change(cloud, stack):
    write(stack, *ENVIRONMENTS, aws={"namePrefix": "other"})
    result = stack("plan").expect(1)
    assert "namePrefix" in result.err and "alphaagent-workspaces" in result.err


def test_taken_over_by_another_account_meanwhile(cloud, berth):
    write(berth)
    cloud.faults(({"operation": "CreateBucket"}, {"kind": "error", "status": 409, "code": "BucketAlreadyExists", "message": "taken"}))
    result = berth("apply", "--yes").expect(1)
    assert "another account" in result.out + result.err


@pytest.mark.parametrize("operation", ["CreateBucket", "PutBucketTagging", "PutBucketPolicy", "CreateRole", "PutRolePolicy"])
@pytest.mark.parametrize("kind", ["lost", "reset"])
def test_each_call_for_the_stack_may_be_lost(cloud, berth, s3, bucket, operation, kind):
    write(berth, tags={"t": "1"})
    cloud.faults(({"operation": operation, "nth": 1}, {"kind": kind}))
    berth.apply()
    assert cloud.fault_hits() == [1]
    assert tags_of(s3, bucket)["berth:stack"] == "team"
    berth.assert_settled()


def test_states_that_pass_are_waited_for(cloud, berth):
    write(berth)
    cloud.faults(
        ({"operation": "CreateBucket", "times": 2}, {"kind": "error", "status": 409, "code": "OperationAborted", "message": "being deleted"}),
        ({"operation": "PutBucketEncryption", "times": 1}, {"kind": "error", "status": 404, "code": "NoSuchBucket", "message": "not yet"}),
        ({"operation": "PutRolePolicy", "times": 1}, {"kind": "error", "status": 404, "code": "NoSuchEntity", "message": "not yet"}),
    )
    berth.apply()
    assert cloud.fault_hits() == [2, 1, 1]
    berth.assert_settled()


# --- settings -----------------------------------------------------------------------------------------


def test_what_aws_writes_otherwise_is_no_change(cloud, stack, s3, bucket):
    iam = cloud.aws("iam")
    policy = iam.get_role_policy(RoleName=ROLE, PolicyName="berth-execution")["PolicyDocument"]
    for statement in policy["Statement"]:
        statement["Resource"] = [statement["Resource"]]
        if isinstance(statement["Action"], list):
            statement["Action"].reverse()
    policy["Statement"].reverse()
    iam.put_role_policy(RoleName=ROLE, PolicyName="berth-execution", PolicyDocument=json.dumps(policy, indent=3))
    document = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
    document["Statement"][0]["Resource"].reverse()
    document["Statement"][0]["Action"] = [document["Statement"][0]["Action"]]
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(document, indent=2))
    stack.assert_settled()


@pytest.mark.parametrize(
    "path, harm, mended",
    [
        ("role.policy", lambda c, b: c.aws("iam").delete_role_policy(RoleName=ROLE, PolicyName="berth-execution"), ["PutRolePolicy"]),
        (
            "role.trust",
            lambda c, b: c.aws("iam").update_assume_role_policy(RoleName=ROLE, PolicyDocument='{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}'),
            ["UpdateAssumeRolePolicy"],
        ),
        ("role.tags", lambda c, b: c.aws("iam").untag_role(RoleName=ROLE, TagKeys=["berth:kind"]), ["TagRole"]),
        ("bucket.tlsOnly", lambda c, b: c.aws("s3").delete_bucket_policy(Bucket=b), ["PutBucketPolicy"]),
        ("bucket.tags", lambda c, b: c.aws("s3").delete_bucket_tagging(Bucket=b), ["PutBucketTagging"]),
        ("bucket.publicAccessBlock", lambda c, b: c.aws("s3").delete_public_access_block(Bucket=b), ["PutPublicAccessBlock"]),
    ],
)  # fmt: skip
def test_a_setting_is_mended_by_one_call(cloud, stack, bucket, path, harm, mended):
    harm(cloud, bucket)
    changes = stack.plan()["changes"]
    assert [c["address"] for c in changes] == ["Stack/team"]
    assert {f["path"] for f in changes[0]["fields"] if f["path"].startswith(path)} == {f["path"] for f in changes[0]["fields"]}
    mark = cloud.mark()
    stack.apply()
    assert [c["operation"] for c in cloud.changing_calls(mark)] == mended
    stack.assert_settled()


KMS_RULE = {
    "ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "arn:aws:kms:us-east-1:123456789012:key/5f0c1d2e-0000-4000-8000-000000000001"},
    "BucketKeyEnabled": True,
}  # fmt: skip


def encrypt_by_their_key(s3, bucket):
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [KMS_RULE]})


def encryption_of(s3, bucket):
    (rule,) = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    return {name: rule[name] for name in KMS_RULE}


def test_what_a_security_team_tightened_stays(cloud, stack, berth, s3, bucket):
    encrypt_by_their_key(s3, bucket)
    document = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
    theirs = [
        {"Sid": "TheirVpcOnly", "Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": f"arn:aws:s3:::{bucket}/*", "Condition": {"StringNotEquals": {"aws:SourceVpce": "vpce-1"}}},
        {"Sid": "TheirTls", "Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": f"arn:aws:s3:::{bucket}/*", "Condition": {"NumericLessThan": {"s3:TlsVersion": "1.2"}}},
    ]  # fmt: skip
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({**document, "Statement": document["Statement"] + theirs}))
    stack.assert_settled()

    # Whatever else is mended beside them: tags, Berth's own statement, which they took for theirs, the access block.
    ours = dict(document["Statement"][0], Action=["s3:PutObject"])
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({**document, "Statement": [ours, *theirs]}))
    s3.delete_public_access_block(Bucket=bucket)
    write(berth, *ENVIRONMENTS, stacks.agent("a", "x"), stacks.agent("b", "y"), stacks.swarm("s", ["a", "b"], "x"), *POLICIES, tags={"k": "v"})
    mark = cloud.mark()
    berth.apply()
    assert [c for c in cloud.changing_calls(mark) if c["operation"] == "PutBucketEncryption"] == []
    assert encryption_of(s3, bucket) == KMS_RULE
    after = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"]
    assert all(statement in after for statement in theirs + document["Statement"])
    assert {name: value for name, value in ours.items() if name != "Sid"} in after, "what somebody denied stays denied"
    assert all(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values())
    stack.assert_settled()


def test_a_bucket_with_a_key_of_theirs_is_taken_over_with_it(cloud, berth, s3, bucket):
    s3.create_bucket(Bucket=bucket)
    encrypt_by_their_key(s3, bucket)
    write(berth)
    berth.apply("--allow", "not-owned:Stack/team")
    assert encryption_of(s3, bucket) == KMS_RULE
    berth.assert_settled()


def test_a_key_that_a_new_bucket_is_given_meanwhile_stays(cloud, berth, s3, bucket):
    """As a rule of the organisation does, between CreateBucket and what comes after it."""
    write(berth)
    cloud.faults(({"operation": "PutPublicAccessBlock"}, {"kind": "error", "status": 404, "code": "NoSuchBucket", "message": "not yet"}))

    def tighten():
        s3.get_waiter("bucket_exists").wait(Bucket=bucket, WaiterConfig={"Delay": 0.1, "MaxAttempts": 300})
        encrypt_by_their_key(s3, bucket)
        cloud.faults()

    thread = threading.Thread(target=tighten)
    thread.start()
    berth.apply()
    thread.join()
    assert encryption_of(s3, bucket) == KMS_RULE
    berth.assert_settled()


def test_an_empty_tag_is_a_tag(cloud, berth, s3, bucket, prebuilt):
    iam, ecr = cloud.aws("iam"), cloud.aws("ecr")
    documents = (stacks.environment("x"), stacks.image("i", repository="own/i", tag="v", createRepository=True))
    write(berth, *documents)
    berth.apply()

    def seen():
        role = {tag["Key"]: tag["Value"] for tag in iam.list_role_tags(RoleName=ROLE)["Tags"]}
        arn = cloud.functions()["alphaagent-env-x"]["FunctionArn"]
        repository = ecr.describe_repositories(repositoryNames=["own/i"])["repositories"][0]["repositoryArn"]
        pushed = {tag["Key"]: tag["Value"] for tag in ecr.list_tags_for_resource(resourceArn=repository)["tags"]}
        return [tags.get("empty") for tags in (tags_of(s3, bucket), role, pushed, cloud.aws("lambda").list_tags(Resource=arn)["Tags"])]

    write(berth, *documents, tags={"empty": ""})
    plan = berth.plan()
    assert fields(plan) == {"bucket.tags.empty", "role.tags.empty"} and fields(plan, "Environment/x") == fields(plan, "Image/i") == {"tags.empty"}
    mark = cloud.mark()
    berth.apply()
    assert sorted(c["operation"] for c in cloud.changing_calls(mark)) == ["PutBucketTagging", "TagResource", "TagResource", "TagRole"]
    assert seen() == [""] * 4
    berth.assert_settled()
    iam.untag_role(RoleName=ROLE, TagKeys=["empty"])
    assert fields(berth.plan()) == {"role.tags.empty"}
    write(berth, *documents)
    berth.apply()
    assert seen() == [None] * 4
    berth.assert_settled()


def test_a_role_that_went_comes_back_whole(cloud, stack):
    iam = cloud.aws("iam")
    iam.delete_role_policy(RoleName=ROLE, PolicyName="berth-execution")
    iam.delete_role(RoleName=ROLE)
    stack.apply()
    assert iam.get_role_policy(RoleName=ROLE, PolicyName="berth-execution")["PolicyDocument"]["Statement"]
    stack.assert_settled()


def test_a_bucket_that_went_comes_back_whole(cloud, stack, s3, bucket):
    for item in s3.list_objects_v2(Bucket=bucket)["Contents"]:
        s3.delete_object(Bucket=bucket, Key=item["Key"])
    s3.delete_bucket(Bucket=bucket)
    stack.apply()
    assert set(rules_of(s3, bucket)) == {"berth:team:all", "berth:team:all:abort", "berth:team:some:x", "berth:team:some:y"}
    assert exists(s3, bucket, "registry/team/agents/a.json")
    stack.assert_settled()


def test_a_quiet_plan_reads_little_beside_functions(cloud, stack):
    mark = cloud.mark()
    stack.assert_settled()
    calls = [c["operation"] for c in cloud.calls(mark) if c["service"] in ("s3", "iam", "sts")]
    assert sorted(calls) == [
        "GetBucketEncryption", "GetBucketLifecycleConfiguration", "GetBucketPolicy", "GetBucketTagging", "GetCallerIdentity",
        "GetPublicAccessBlock", "GetRole", "GetRolePolicy", "ListObjectsV2",
    ]  # fmt: skip


# --- lifecycle rules ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule, harm, address, path",
    [
        ("berth:team:all", lambda r: r["Expiration"].update(Days=1), "WorkspacePolicy/all", "expireAfterDays"),
        ("berth:team:all", lambda r: r.update(Status="Disabled"), "WorkspacePolicy/all", "expireAfterDays"),
        ("berth:team:all", lambda r: r.update(NoncurrentVersionExpiration={"NoncurrentDays": 3}), "WorkspacePolicy/all", "noncurrentExpireAfterDays"),
        ("berth:team:all", lambda r: r.update(Filter={"Prefix": ""}), "WorkspacePolicy/all", "expireAfterDays"),
        ("berth:team:all:abort", lambda r: r["AbortIncompleteMultipartUpload"].update(DaysAfterInitiation=1), "WorkspacePolicy/all", "abortIncompleteUploadDays"),
        ("berth:team:some:x", lambda r: r["Expiration"].update(Days=31), "WorkspacePolicy/some", "environments"),
        ("berth:team:some:x", lambda r: r.clear(), "WorkspacePolicy/some", "environments"),
        ("berth:team:some:y", lambda r: r["Transitions"][0].update(StorageClass="GLACIER"), "WorkspacePolicy/some", "environments"),
    ],
)  # fmt: skip
def test_an_altered_rule_is_named_and_mended(cloud, stack, s3, bucket, rule, harm, address, path):
    before = rules_of(s3, bucket)
    rules = rules_of(s3, bucket)
    harm(rules[rule])
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [r for r in rules.values() if r]})
    changes = stack.plan()["changes"]
    assert [(c["address"], [f["path"] for f in c["fields"]]) for c in changes] == [(address, [path])]
    mark = cloud.mark()
    stack.apply()
    assert [c["operation"] for c in cloud.changing_calls(mark)] == ["PutObject", "PutBucketLifecycleConfiguration", "DeleteObject"]
    assert rules_of(s3, bucket) == before
    stack.assert_settled()


def test_the_lock_is_given_back(cloud, stack, s3, bucket):
    assert not exists(s3, bucket, LOCK)


def change_days(berth, days):
    text = (berth.stack / "m.yaml").read_text()
    berth.write("m.yaml", text.replace("expireAfterDays: 90", f"expireAfterDays: {days}"))


def put_lock(s3, bucket, ahead_s=0):
    """As somebody else holds it, whose clock is ahead by so much. What such a text says of times must not be believed."""
    now = int((time.time() + ahead_s) * 1000)
    body = {"formatVersion": "1", "stack": "other", "process": "elsewhere/1", "holder": "process 1 on elsewhere", "takenAtMs": now, "expiresAtMs": now + 60000}
    s3.put_object(Bucket=bucket, Key=LOCK, Body=json.dumps(body).encode())


# The server's clock, ahead of Berth's: Berth's own is fast, right, or slow.
@pytest.mark.parametrize("skew_s", [-600, -90, 0, 600])
def test_a_lock_that_is_held_is_waited_for(cloud, stack, s3, bucket, skew_s):
    cloud.settings(clock_skew_s=skew_s)
    put_lock(s3, bucket, skew_s)
    change_days(stack, 91)
    mark = cloud.mark()
    seen = []

    def let_go():
        end = time.monotonic() + 60
        while len(cloud.calls(mark, operation="GetObject")) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        seen.extend(cloud.calls(mark, operation="PutBucketLifecycleConfiguration"))
        s3.delete_object(Bucket=bucket, Key=LOCK)

    other = threading.Thread(target=let_go)
    other.start()
    stack.apply()
    other.join()
    assert seen == [], "nothing is written while somebody else holds the lock"
    assert rules_of(s3, bucket)["berth:team:all"]["Expiration"] == {"Days": 91}
    assert not exists(s3, bucket, LOCK)


@pytest.mark.parametrize("skew_s", [-600, 0, 600])
def test_a_lock_whose_time_is_over_is_taken(cloud, stack, s3, bucket, skew_s):
    cloud.settings(clock_skew_s=skew_s, object_age_days={LOCK: 2 / (24 * 60)})
    put_lock(s3, bucket, skew_s)
    change_days(stack, 91)
    stack.apply()
    assert rules_of(s3, bucket)["berth:team:all"]["Expiration"] == {"Days": 91}
    assert not exists(s3, bucket, LOCK)


def test_a_killed_writers_lock_is_taken_at_once(cloud, stack, s3, bucket):
    change_days(stack, 91)
    mark = cloud.mark()
    cloud.faults(({"operation": "GetBucketLifecycleConfiguration", "nth": 2}, {"kind": "delay", "seconds": 2}))
    process = stack.popen("apply", "--yes")
    cloud.await_call(process, "GetBucketLifecycleConfiguration", 2, since=mark)
    process.kill()
    process.communicate()
    assert exists(s3, bucket, LOCK)
    cloud.await_quiet()
    cloud.faults()
    begun = time.monotonic()
    stack.apply()
    assert time.monotonic() - begun < 30, "half of the lease"
    assert not exists(s3, bucket, LOCK)
    stack.assert_settled()


@pytest.mark.parametrize("operation, resource", [("PutObject", LOCK), ("PutBucketLifecycleConfiguration", "lifecycle"), ("DeleteObject", LOCK)])
def test_each_answer_for_a_policy_may_be_lost(cloud, stack, s3, bucket, operation, resource):
    change_days(stack, 91)
    cloud.faults(({"operation": operation, "resource": resource, "nth": 1}, {"kind": "lost"}))
    stack.apply()
    assert cloud.fault_hits() == [1]
    assert rules_of(s3, bucket)["berth:team:all"]["Expiration"] == {"Days": 91}
    assert not exists(s3, bucket, LOCK)
    stack.assert_settled()


def test_a_failure_gives_the_lock_back(cloud, stack, s3, bucket):
    change_days(stack, 91)
    cloud.faults(({"operation": "PutBucketLifecycleConfiguration"}, {"kind": "error", "status": 403, "code": "AccessDenied", "message": "not you"}))
    result = stack("apply", "--yes").expect(1)
    assert "AccessDenied" in result.out + result.err
    assert not exists(s3, bucket, LOCK)
    cloud.faults()
    stack.apply()
    stack.assert_settled()


def test_policies_of_two_stacks_at_once(cloud, stack, s3, bucket, tmp_path):
    """Both write the same document at the same time, again and again: nobody's rules are lost."""
    role = cloud.lambda_role("second")
    (stack.stack / "second").mkdir()

    def second(days):
        text = stacks.text(stacks.stack("second", aws={"createBucket": False, "executionRole": role}), stacks.policy("p", {"all": True}, expireAfterDays=days))
        (stack.stack / "second" / "m.yaml").write_text(text)

    for turn in range(3):
        change_days(stack, 90)
        text = (stack.stack / "m.yaml").read_text()
        stack.write("m.yaml", text.replace("expireAfterDays: 60", f"expireAfterDays: {61 + turn}").replace(f"expireAfterDays: {60 + turn}", f"expireAfterDays: {61 + turn}"))
        second(200 + turn)
        processes = [stack.popen("apply", "--yes", "-f", "m.yaml", "--state", ".berth"), stack.popen("apply", "--yes", "-f", "second")]
        for process in processes:
            out, err = process.communicate(timeout=90)
            stack.result(["apply"], process.returncode, out, err).expect(0)
        found = rules_of(s3, bucket)
        assert found["berth:second:p"]["Expiration"] == {"Days": 200 + turn}
        assert found["berth:team:some:x"]["Expiration"] == found["berth:team:some:y"]["Expiration"] == {"Days": 61 + turn}
        assert found["berth:team:all"]["Expiration"] == {"Days": 90}
    assert not exists(s3, bucket, LOCK)


def test_a_policy_for_nobody_makes_no_rule_and_no_noise(cloud, berth, s3, bucket, prebuilt):
    nobody = stacks.policy("p", {"matchLabels": {"team": "none"}}, expireAfterDays=5)
    write(berth, nobody)
    berth.apply()
    with pytest.raises(ClientError):
        s3.get_bucket_lifecycle_configuration(Bucket=bucket)
    berth.assert_settled()
    write(berth, nobody, stacks.environment("x", labels={"team": "none"}))
    berth.apply()
    assert set(rules_of(s3, bucket)) == {"berth:team:p:x"}
    berth.assert_settled()
    write(berth, nobody)
    berth.apply()
    with pytest.raises(ClientError):
        s3.get_bucket_lifecycle_configuration(Bucket=bucket)
    berth.assert_settled()
    write(berth)
    berth.apply()
    berth.assert_settled()


NOBODY, EVERYBODY = {"matchLabels": {"zz": "x"}}, {"all": True}


@pytest.mark.parametrize("refresh", ["sweep", "full"])
def test_a_policy_that_came_to_select_nobody_leaves_no_rule(cloud, berth, s3, bucket, refresh):
    write(berth, stacks.policy("p", EVERYBODY, expireAfterDays=30))
    berth.apply()
    assert set(rules_of(s3, bucket)) == {"berth:team:p"}
    write(berth, stacks.policy("p", NOBODY, expireAfterDays=30))
    plan = berth.plan("--refresh", refresh)
    assert [(c["address"], c["action"]) for c in plan["changes"]] == [("WorkspacePolicy/p", "update")] and plan["drift"] == []
    assert "appliesTo" in [f["path"] for f in plan["changes"][0]["fields"]]
    berth.apply()
    with pytest.raises(ClientError):
        s3.get_bucket_lifecycle_configuration(Bucket=bucket)
    berth.assert_settled()
    write(berth, stacks.policy("p", EVERYBODY, expireAfterDays=30))
    berth.apply()
    assert set(rules_of(s3, bucket)) == {"berth:team:p"}
    berth.assert_settled()
    write(berth, stacks.policy("p", NOBODY, expireAfterDays=30))
    berth.apply()
    write(berth)
    berth.apply()
    with pytest.raises(ClientError):
        s3.get_bucket_lifecycle_configuration(Bucket=bucket)
    berth.assert_settled()


def test_a_rule_where_a_policy_has_none_is_seen_and_removed(cloud, berth, s3, bucket):
    rule = {"ID": "berth:team:p", "Status": "Enabled", "Filter": {"Prefix": "workspaces/sessions/"}, "Expiration": {"Days": 30}}
    for end in ("update", "delete"):
        write(berth, stacks.policy("p", NOBODY, expireAfterDays=30))
        berth.apply()
        s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})
        if end == "delete":
            write(berth)
        assert [(c["address"], c["action"]) for c in berth.plan()["changes"]] == [("WorkspacePolicy/p", end)]
        berth.apply()
        with pytest.raises(ClientError):
            s3.get_bucket_lifecycle_configuration(Bucket=bucket)
        berth.assert_settled()


def test_a_rule_beside_those_of_the_policy_is_seen_and_removed(cloud, stack, s3, bucket):
    """Whatever it does: it bears the policy's name."""
    before = rules_of(s3, bucket)
    rule = {"ID": "berth:team:some", "Status": "Enabled", "Filter": {"Prefix": "workspaces/sessions/"}, "Expiration": {"Days": 1}}
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [*before.values(), rule]})
    assert [(c["address"], [f["path"] for f in c["fields"]]) for c in stack.plan()["changes"]] == [("WorkspacePolicy/some", ["environments", "lineage"])]
    stack.apply()
    assert rules_of(s3, bucket) == before
    stack.assert_settled()


def test_the_document_is_never_written_with_too_many_rules(cloud, stack, s3, bucket):
    theirs = [{"ID": f"r{n}", "Status": "Enabled", "Filter": {"Prefix": f"p{n}/"}, "Expiration": {"Days": 9}} for n in range(996)]
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [*theirs, *rules_of(s3, bucket).values()]})
    stack.assert_settled()
    text = (stack.stack / "m.yaml").read_text()
    stack.write("m.yaml", text + "---\n" + stacks.text(stacks.policy("more", {"environments": ["x"]}, expireAfterDays=9)))
    assert "over-quota" in stack("apply", "--yes").expect(3).out
    result = stack("apply", "--yes", "--allow", "over-quota:WorkspacePolicy/more").expect(1)
    assert "1000 other lifecycle rules" in result.out + result.err
    assert len(rules_of(s3, bucket)) == 1000 and not exists(s3, bucket, LOCK)


# --- binding records ----------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["PutObject", "DeleteObject"])
def test_the_answer_for_a_record_may_be_lost(cloud, stack, s3, bucket, operation):
    write(stack, *ENVIRONMENTS, stacks.agent("b", "x"), stacks.agent("c", "y"), *POLICIES)
    cloud.faults(({"operation": operation, "resource": "registry/", "nth": 1}, {"kind": "lost"}))
    stack.apply()
    assert cloud.fault_hits() == [1]
    keys = {item["Key"] for item in s3.list_objects_v2(Bucket=bucket, Prefix="registry/")["Contents"]}
    assert keys == {"registry/team/agents/b.json", "registry/team/agents/c.json"}
    stack.assert_settled()


def test_racing_writes_are_tried_again(cloud, stack):
    write(stack, *ENVIRONMENTS, stacks.agent("a", "y"), stacks.agent("b", "y"), *POLICIES)
    cloud.faults(({"operation": "PutObject", "resource": "registry/", "times": 1}, {"kind": "error", "status": 409, "code": "ConditionalRequestConflict", "message": "again"}))
    stack.apply()
    stack.assert_settled()


def test_a_record_written_meanwhile_stands(cloud, stack, s3, bucket):
    key = "registry/team/agents/a.json"
    write(stack, *ENVIRONMENTS, stacks.agent("a", "y"), stacks.agent("b", "y"), *POLICIES)
    cloud.faults(({"operation": "PutObject", "resource": key, "nth": 1}, {"kind": "error", "status": 412, "code": "PreconditionFailed", "message": "moved"}))
    before = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    result = stack("apply", "--yes").expect(1)
    assert "changed outside of Berth" in result.out + result.err
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == before
    cloud.faults()
    stack.apply()
    stack.assert_settled()


def test_records_are_compared_not_read(cloud, stack):
    """Even what the state has forgotten costs no reading of records: their ETags tell."""
    for address in stack("state", "list").expect(0).out.split():
        if address.startswith(("Agent/", "Swarm/")):
            stack("state", "rm", address, "--yes").expect(0)
    mark = cloud.mark()
    plan = stack.plan()
    assert {c["action"] for c in plan["changes"]} <= {"adopt"}
    assert cloud.calls(mark, operation="GetObject") == []
    stack.apply()
    stack.assert_settled()


# --- the end ------------------------------------------------------------------------------------------


def test_what_is_in_the_bucket_is_named_and_goes_only_when_allowed(cloud, stack, s3, bucket):
    for n in range(3):
        s3.put_object(Bucket=bucket, Key=f"workspaces/sessions/s{n}/workspace/a b+ü.txt", Body=b"12345")
    plan = stack("destroy", "--yes").expect(3)
    assert "3 objects, 15 bytes" in plan.out + plan.err
    assert "bucket-not-empty" in plan.out + plan.err
    assert exists(s3, bucket, "registry/team/agents/a.json"), "one refusal stops all"
    stack.destroy("--allow", "bucket-not-empty")
    assert [b["Name"] for b in s3.list_buckets()["Buckets"]] == []


def test_records_of_another_stack_keep_the_bucket(cloud, stack, s3, bucket):
    s3.put_object(Bucket=bucket, Key="registry/other/agents/z.json", Body=b"{}")
    result = stack("destroy", "--yes").expect(3)
    assert "registry/other/agents/z.json" in result.out + result.err


def test_old_versions_go_with_the_bucket(cloud, stack, s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    write(stack, *ENVIRONMENTS, stacks.agent("a", "y"), stacks.agent("b", "y"), *POLICIES)
    stack.apply()
    stack.assert_settled()
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    stack.destroy()
    assert [b["Name"] for b in s3.list_buckets()["Buckets"]] == []


def test_what_appears_after_the_question_stays(cloud, stack, s3, bucket):
    cloud.faults(({"operation": "DeleteBucket"}, {"kind": "error", "status": 409, "code": "BucketNotEmpty", "message": "not empty"}))
    result = stack("destroy", "--yes").expect(1)
    assert "not empty" in result.out + result.err
    cloud.faults()
    stack.destroy()
    assert [b["Name"] for b in s3.list_buckets()["Buckets"]] == []


def test_rules_of_others_count_against_the_bucket_s_thousand(cloud, berth, prebuilt):
    """S3 would refuse the whole document: the plan says so, and nothing of it is begun."""
    environments = [stacks.environment(f"e-{n}") for n in range(6)]
    policy = stacks.policy("p", {"environments": [f"e-{n}" for n in range(6)]}, expireAfterDays=30)
    write(berth, *environments)
    berth.apply()
    bucket = f"alphaagent-workspaces-{cloud.account}-us-east-1"
    rules = [{"ID": f"theirs-{n}", "Filter": {"Prefix": f"theirs/{n}/"}, "Status": "Enabled", "Expiration": {"Days": 1}} for n in range(995)]
    cloud.direct("s3").put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    write(berth, *environments, policy)
    (change,) = berth.plan(code=3)["changes"]
    (refusal,) = change["refusals"]
    assert refusal["id"] == "over-quota" and "995 lifecycle rules" in refusal["message"] and "its own would be 6" in refusal["message"]
    write(berth, *environments[:5], stacks.policy("p", {"environments": [f"e-{n}" for n in range(5)]}, expireAfterDays=30))
    assert "WorkspacePolicy/p" in {c["address"] for c in berth.plan()["changes"] if not c["refusals"]}


# --- tags from the first moment -------------------------------------------------------------------------


def test_a_bucket_is_made_with_its_tags(cloud, berth):
    write(berth, tags={"team": "research"})
    berth.apply()
    (made,) = cloud.calls(0, "s3", "CreateBucket")
    tags = {tag["Key"]: tag["Value"] for tag in made["params"]["CreateBucketConfiguration"]["Tags"]}
    assert tags["berth:stack"] == "team" and tags["team"] == "research" and "berth:lineage" in tags


@pytest.mark.parametrize("code, status", [("AccessDenied", 403), ("MalformedXML", 400)])
def test_who_may_not_tag_new_buckets_makes_one_without(cloud, berth, code, status):
    cloud.faults(({"operation": "CreateBucket", "times": 1}, {"kind": "error", "status": status, "code": code, "message": "no"}))
    write(berth)
    berth.apply()
    first, second = cloud.calls(0, "s3", "CreateBucket")
    assert "CreateBucketConfiguration" in first["params"] and "CreateBucketConfiguration" not in second["params"]
    tags = cloud.aws("s3").get_bucket_tagging(Bucket=f"alphaagent-workspaces-{cloud.account}-us-east-1")["TagSet"]
    assert {"Key": "berth:stack", "Value": "team"} in tags
    berth.assert_settled()
