# SPDX-License-Identifier: Apache-2.0
"""aws.kmsKey: variables, bucket and log groups under a key of one's own; and that no key is taken away by saying nothing."""


import pytest

import stacks
from lib.aws_stack import changed, fields, role_statements

FUNCTION = "alphaagent-env-x"
GROUP = f"/aws/lambda/{FUNCTION}"


@pytest.fixture
def kms(cloud):
    return cloud.aws("kms")


def new_key(kms, **settings):
    return kms.create_key(**settings)["KeyMetadata"]["Arn"]


@pytest.fixture
def key(kms):
    return new_key(kms)


@pytest.fixture
def bucket(cloud):
    return f"alphaagent-workspaces-{cloud.account}-us-east-1"


def declare(berth, key=None, *more, **spec):
    aws = {"aws": {"kmsKey": key}} if key else {}
    berth.write("m.yaml", stacks.text(stacks.stack(**aws), stacks.environment("x", **{"variables": {"AA": "1"}, **spec}), *more))


def encryption(cloud, bucket):
    (rule,) = cloud.aws("s3").get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    chosen = rule["ApplyServerSideEncryptionByDefault"]
    return chosen["SSEAlgorithm"], chosen.get("KMSMasterKeyID"), rule.get("BucketKeyEnabled", False)


def function_key(cloud):
    return cloud.aws("lambda").get_function(FunctionName=FUNCTION)["Configuration"].get("KMSKeyArn") or None


def group(cloud):
    found = cloud.aws("logs").describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"]
    return found[0] if found else None


def test_everything_is_made_under_the_key(cloud, berth, prebuilt, key, bucket):
    declare(berth, key, logRetentionDays=30)
    plan = berth.plan()
    assert fields(plan)["Environment/x", "kmsKey"] == (None, key) and fields(plan)["Stack/team", "bucket.kmsKey"] == (None, key)
    mark = cloud.mark()
    berth.apply()
    assert function_key(cloud) == key
    assert encryption(cloud, bucket) == ("aws:kms", key, True)
    assert (group(cloud)["kmsKeyId"], group(cloud)["retentionInDays"]) == (key, 30)
    assert list(role_statements(cloud)) == ["WriteLogs"], "of the key it has no right: Lambda has a grant, and who signs requests to S3 has his own"
    assert "AssociateKmsKey" not in changed(cloud, mark), "the group was made with its key"
    berth.assert_settled()
    berth("drift", "--refresh", "full").expect(0)
    berth.destroy()
    assert group(cloud) is None, "Berth made it"


def test_without_a_retention_the_group_is_made_all_the_same(cloud, berth, prebuilt, key):
    declare(berth, key)
    berth.apply()
    assert group(cloud)["kmsKeyId"] == key and "retentionInDays" not in group(cloud)
    berth.assert_settled()


def test_a_stack_that_is_there_takes_a_key_and_another(cloud, berth, prebuilt, kms, key, bucket):
    declare(berth)
    berth.apply()
    cloud.aws("logs").create_log_group(logGroupName=GROUP)  # as Lambda does, at the first run
    assert function_key(cloud) is None and encryption(cloud, bucket)[0] == "AES256"
    for wanted in (key, new_key(kms)):
        declare(berth, wanted)
        mark = cloud.mark()
        found = fields(berth.plan())
        assert {("Environment/x", "kmsKey"), ("Environment/x", "logKmsKey"), ("Stack/team", "bucket.kmsKey")} <= set(found)
        berth.apply()
        assert {"UpdateFunctionConfiguration", "AssociateKmsKey", "PutBucketEncryption"} <= set(changed(cloud, mark))
        assert (function_key(cloud), group(cloud)["kmsKeyId"], encryption(cloud, bucket)) == (wanted, wanted, ("aws:kms", wanted, True))
        assert cloud.functions()[FUNCTION]["Environment"]["Variables"] == {"AA": "1"}
        berth.assert_settled()


def test_what_others_change_of_it_is_drift_and_put_back(cloud, berth, prebuilt, kms, key, bucket):
    declare(berth, key)
    berth.apply()
    other = new_key(kms)
    cloud.aws("lambda").update_function_configuration(FunctionName=FUNCTION, KMSKeyArn=other)
    cloud.aws("logs").associate_kms_key(logGroupName=GROUP, kmsKeyId=other)
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    cloud.aws("s3").put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
    found = {(d["address"], f["path"]): (f["before"], f["after"]) for d in berth("drift", "--json").expect(2).json()["drift"] for f in d["fields"]}
    assert found["Environment/x", "kmsKey"] == (key, other) and found["Environment/x", "logKmsKey"] == (key, other)
    assert found["Stack/team", "bucket.kmsKey"] == (key, None)
    berth.apply()
    assert (function_key(cloud), group(cloud)["kmsKeyId"], encryption(cloud, bucket)) == (key, key, ("aws:kms", key, True))
    berth.assert_settled()


def test_saying_nothing_takes_no_key_away(cloud, berth, prebuilt, kms, key, bucket):
    declare(berth, key, logRetentionDays=30)
    berth.apply()
    declare(berth, None, logRetentionDays=30)
    mark = cloud.mark()
    assert berth.plan()["changes"] == []
    berth.apply()
    # Whatever a security team sets from then on is theirs, and nobody's drift.
    other = new_key(kms)
    cloud.aws("lambda").update_function_configuration(FunctionName=FUNCTION, KMSKeyArn=other)
    cloud.aws("logs").associate_kms_key(logGroupName=GROUP, kmsKeyId=other)
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms:dsse", "KMSMasterKeyID": other}}
    cloud.aws("s3").put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
    berth("drift", "--refresh", "full").expect(0)
    berth.assert_settled()
    declare(berth, None, logRetentionDays=30, memoryMB=3000)
    berth.apply()
    assert set(changed(cloud, mark)) == {"UpdateFunctionConfiguration"}
    assert (function_key(cloud), group(cloud)["kmsKeyId"], encryption(cloud, bucket)[:2]) == (other, other, ("aws:kms:dsse", other))
    berth.assert_settled()


def test_a_key_set_by_hand_is_seen_before_the_manifest_names_another(cloud, berth, prebuilt, kms, key):
    declare(berth)
    berth.apply()
    theirs = new_key(kms)
    cloud.aws("lambda").update_function_configuration(FunctionName=FUNCTION, KMSKeyArn=theirs)
    berth.assert_settled()
    declare(berth, key)
    assert fields(berth.plan())["Environment/x", "kmsKey"] == (theirs, key)
    declare(berth, theirs)
    assert ("Environment/x", "kmsKey") not in fields(berth.plan())


def test_double_encryption_and_the_bare_id_count_as_the_key(cloud, berth, prebuilt, key, bucket):
    declare(berth, key)
    berth.apply()
    for chosen, bucket_key in (({"SSEAlgorithm": "aws:kms:dsse", "KMSMasterKeyID": key}, False), ({"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key.rpartition("/")[2]}, True)):
        rule = {"ApplyServerSideEncryptionByDefault": chosen, "BucketKeyEnabled": bucket_key}
        cloud.aws("s3").put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
        berth.assert_settled()
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}, "BucketKeyEnabled": False}
    cloud.aws("s3").put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
    assert set(fields(berth.plan())) == {("Stack/team", "bucket.bucketKey")}
    berth.apply()
    assert encryption(cloud, bucket) == ("aws:kms", key, True)
    berth.assert_settled()


@pytest.mark.parametrize("what", ["disabled", "signs", "missing", "region", "denied"])
def test_a_key_of_no_use_is_an_error_of_the_plan(cloud, berth, prebuilt, kms, key, what):
    says = {"disabled": "its state is Disabled", "signs": "name a symmetric one", "missing": "there is no such key", "region": "in the region eu-west-1", "denied": "allow kms:DescribeKey"}[what]
    if what == "disabled":
        kms.disable_key(KeyId=key.rpartition("/")[2])
    elif what == "signs":
        key = new_key(kms, KeyUsage="SIGN_VERIFY", KeySpec="RSA_2048")
    elif what == "missing":
        key = key.rpartition("/")[0] + "/00000000-0000-0000-0000-000000000000"
    elif what == "region":
        key = key.replace("us-east-1", "eu-west-1")
    else:
        cloud.faults(({"operation": "DescribeKey"}, {"kind": "error", "status": 400, "code": "AccessDeniedException", "message": "no"}))
    declare(berth, key)
    mark = cloud.mark()
    result = berth("apply", "--yes").expect(1)
    assert says in result.err and "aws.kmsKey" in result.err, result
    assert cloud.changing_calls(mark) == []


def test_a_stack_whose_key_is_disabled_can_be_destroyed(cloud, berth, prebuilt, kms, key):
    declare(berth, key)
    berth.apply()
    kms.disable_key(KeyId=key.rpartition("/")[2])
    assert "its state is Disabled" in berth("plan").expect(1).err
    berth.destroy()
    assert cloud.functions() == {} and group(cloud) is None


def test_a_key_that_logs_may_not_use_says_what_its_policy_lacks(cloud, berth, prebuilt, key):
    cloud.faults(({"operation": "CreateLogGroup"}, {"kind": "error", "status": 400, "code": "InvalidParameterException", "message": "not allowed to be used"}))
    declare(berth, key)
    text = berth("apply", "--yes").expect(1)
    assert "must let logs.us-east-1 use the key" in text.out + text.err
    cloud.faults()
    berth.apply()
    berth.assert_settled()


def test_state_adopt_keeps_the_keys(cloud, berth, prebuilt, key):
    declare(berth, key, logRetentionDays=30)
    berth.apply()
    (berth.stack / ".berth").rename(berth.folder / "lost")
    berth("state", "adopt", "--yes").expect(0)
    assert not {path for _, path in fields(berth.plan()) if "ey" in path.rpartition(".")[2]}
    mark = cloud.mark()
    berth.apply()
    assert not {"UpdateFunctionConfiguration", "AssociateKmsKey", "PutBucketEncryption"} & set(changed(cloud, mark))
    berth.assert_settled()
    berth.destroy()
    assert group(cloud) is None, "its tags say that Berth made it"
