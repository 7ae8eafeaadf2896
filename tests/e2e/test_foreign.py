# SPDX-License-Identifier: Apache-2.0
"""What is not Berth's survives every update of Berth's, and nothing is planned for it."""

import json

import pytest
from botocore.exceptions import ClientError

import stacks

FUNCTION = "alphaagent-env-x"


@pytest.fixture
def stack(cloud, berth, prebuilt):
    def write(**spec):
        days = spec.pop("days", 30)
        berth.write(
            "m.yaml",
            stacks.text(stacks.stack(tags={"ours": "1"}), stacks.environment("x", **spec), stacks.agent("a", "x"), stacks.policy("p", {"all": True}, expireAfterDays=days)),
        )

    write()
    berth.rewrite = write
    berth.bucket = f"alphaagent-workspaces-{cloud.account}-us-east-1"
    berth.apply()
    return berth


def test_foreign_tags(cloud, stack):
    aws = cloud.aws("lambda")
    arn = aws.get_function(FunctionName=FUNCTION)["Configuration"]["FunctionArn"]
    aws.tag_resource(Resource=arn, Tags={"theirs": "2"})
    cloud.aws("iam").tag_role(RoleName="alphaagent-execution-us-east-1", Tags=[{"Key": "theirs", "Value": "2"}])
    s3 = cloud.aws("s3")
    tags = s3.get_bucket_tagging(Bucket=stack.bucket)["TagSet"]
    s3.put_bucket_tagging(Bucket=stack.bucket, Tagging={"TagSet": [*tags, {"Key": "theirs", "Value": "2"}]})
    stack.assert_settled()
    stack.rewrite(memoryMB=3000)
    stack.write("m.yaml", (stack.stack / "m.yaml").read_text().replace("ours:", "mine:"))
    stack.apply()
    tags = aws.list_tags(Resource=arn)["Tags"]
    assert tags["theirs"] == "2" and tags["mine"] == "1" and "ours" not in tags
    found = {t["Key"]: t["Value"] for t in s3.get_bucket_tagging(Bucket=stack.bucket)["TagSet"]}
    assert found["theirs"] == "2" and found["mine"] == "1" and "ours" not in found
    found = {t["Key"]: t["Value"] for t in cloud.aws("iam").list_role_tags(RoleName="alphaagent-execution-us-east-1")["Tags"]}
    assert found["theirs"] == "2" and found["mine"] == "1"
    stack.assert_settled()


def test_foreign_lifecycle_rules(cloud, stack):
    s3 = cloud.aws("s3")
    theirs = [
        {"ID": "theirs", "Status": "Enabled", "Filter": {"Prefix": "backups/"}, "Expiration": {"Days": 400}},
        {
            "ID": "sized", "Status": "Disabled", "Filter": {"And": {"Prefix": "x/", "ObjectSizeGreaterThan": 1000, "Tags": [{"Key": "k", "Value": "v <&> ü"}]}},
            "Transitions": [{"Days": 31, "StorageClass": "STANDARD_IA"}, {"Days": 90, "StorageClass": "GLACIER"}],
            "NoncurrentVersionExpiration": {"NoncurrentDays": 3, "NewerNoncurrentVersions": 2},
        },
        {"ID": "berth:other:p", "Status": "Enabled", "Filter": {"Prefix": "workspaces/sessions/"}, "Expiration": {"Days": 500}},
        {"ID": "dated", "Status": "Enabled", "Filter": {"Prefix": ""}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 9}},
    ]  # fmt: skip

    def rules():
        return {r["ID"].split("@")[0]: r for r in s3.get_bucket_lifecycle_configuration(Bucket=stack.bucket)["Rules"]}

    ours = rules()["berth:team:p"]
    s3.put_bucket_lifecycle_configuration(Bucket=stack.bucket, LifecycleConfiguration={"Rules": [*theirs, ours]})
    stack.assert_settled()
    stack.rewrite(days=40)
    stack.apply()
    found = rules()
    assert found.pop("berth:team:p")["Expiration"] == {"Days": 40}
    assert found == {rule["ID"]: rule for rule in theirs}
    text = (stack.stack / "m.yaml").read_text()
    stack.write("m.yaml", text[: text.rindex("---")])
    stack.apply()
    assert rules() == {rule["ID"]: rule for rule in theirs}
    stack.assert_settled()


def test_foreign_lifecycle_rules_of_the_first_version(cloud, stack):
    """S3 takes no document that has rules of both versions: theirs are written back as the same rules of the second."""
    s3 = cloud.aws("s3")
    logs = {"ID": "logs", "Status": "Enabled", "Prefix": "logs/", "Expiration": {"Days": 400}}
    moved = {
        "ID": "moved", "Status": "Disabled", "Prefix": "", "Transitions": [{"Days": 31, "StorageClass": "STANDARD_IA"}],
        "NoncurrentVersionTransitions": [{"NoncurrentDays": 30, "StorageClass": "GLACIER"}],
    }  # fmt: skip
    s3.put_bucket_lifecycle_configuration(Bucket=stack.bucket, LifecycleConfiguration={"Rules": [logs, moved]})
    stack.apply()
    found = {r["ID"].split("@")[0]: r for r in s3.get_bucket_lifecycle_configuration(Bucket=stack.bucket)["Rules"]}
    assert found.pop("berth:team:p")["Filter"]
    second = [{**{k: v for k, v in rule.items() if k != "Prefix"}, "Filter": {"Prefix": rule["Prefix"]}} for rule in (logs, moved)]
    assert found == {rule["ID"]: rule for rule in second}
    stack.assert_settled()


def test_foreign_settings_of_a_function(cloud, stack):
    """Fields that no manifest sets are left as they are found, variables that others added too."""
    aws = cloud.aws("lambda")
    aws.update_function_configuration(FunctionName=FUNCTION, TracingConfig={"Mode": "Active"}, Environment={"Variables": {"THEIRS": "2"}})
    stack.assert_settled()
    stack.rewrite(memoryMB=3000)
    stack.apply()
    found = aws.get_function(FunctionName=FUNCTION)["Configuration"]
    assert (found["MemorySize"], found["TracingConfig"]["Mode"]) == (3000, "Active")
    assert found["Environment"]["Variables"] == {"THEIRS": "2"}
    stack.rewrite(memoryMB=3000, variables={"OURS": "1"})
    stack.apply()
    assert aws.get_function(FunctionName=FUNCTION)["Configuration"]["Environment"]["Variables"] == {"THEIRS": "2", "OURS": "1"}
    stack.rewrite(memoryMB=3000)
    stack.apply()
    assert aws.get_function(FunctionName=FUNCTION)["Configuration"]["Environment"]["Variables"] == {"THEIRS": "2"}
    stack.assert_settled()


def test_foreign_statement_in_the_buckets_policy(cloud, stack):
    s3 = cloud.aws("s3")
    policy = json.loads(s3.get_bucket_policy(Bucket=stack.bucket)["Policy"])
    theirs = {
        "Sid": "Theirs", "Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{cloud.account}:root"},
        "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{stack.bucket}/shared/*",
    }  # fmt: skip
    policy["Statement"].append(theirs)
    s3.put_bucket_policy(Bucket=stack.bucket, Policy=json.dumps(policy))
    stack.assert_settled()
    stack.write("m.yaml", (stack.stack / "m.yaml").read_text().replace("ours:", "mine:"))
    stack.apply()
    assert theirs in json.loads(s3.get_bucket_policy(Bucket=stack.bucket)["Policy"])["Statement"]


def test_other_functions_and_buckets_are_not_looked_at(cloud, stack, prebuilt):
    cloud.aws("lambda").create_function(
        FunctionName="alphaagent-env-theirs", PackageType="Image", Role=cloud.lambda_role("theirs"), Tags={"berth:stack": "other"},
        Code={"ImageUri": cloud.image_uri("alphaagent/prebuilt/python", digest=prebuilt)},
    )  # fmt: skip
    cloud.aws("s3").create_bucket(Bucket="alphaagent-theirs")
    cloud.aws("s3").put_object(Bucket=stack.bucket, Key="registry/other/agents/b.json", Body=b"{}")
    stack.assert_settled()
    stack.rewrite(memoryMB=3000)
    stack.apply()
    assert "alphaagent-env-theirs" in cloud.functions()
    cloud.aws("s3").head_object(Bucket=stack.bucket, Key="registry/other/agents/b.json")


def test_a_function_of_that_name_that_is_not_ours(cloud, berth, prebuilt):
    cloud.aws("lambda").create_function(
        FunctionName=FUNCTION, PackageType="Image", Role=cloud.lambda_role("theirs"), MemorySize=4321,
        Code={"ImageUri": cloud.image_uri("alphaagent/prebuilt/python", digest=prebuilt)},
    )  # fmt: skip
    berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x")))
    result = berth("apply", "--yes")
    assert result.code in (1, 3), result
    assert "alphaagent-env-x" in result.out + result.err
    assert cloud.functions()[FUNCTION]["MemorySize"] == 4321
    assert not cloud.aws("lambda").list_tags(Resource=cloud.functions()[FUNCTION]["FunctionArn"])["Tags"]


def test_a_foreign_lifecycle_policy_of_a_repository(cloud, berth, prebuilt):
    ecr = cloud.aws("ecr")
    rule = {"rulePriority": 5, "selection": {"tagStatus": "untagged", "countType": "imageCountMoreThan", "countNumber": 3}, "action": {"type": "expire"}}
    ecr.put_lifecycle_policy(repositoryName="alphaagent/prebuilt/python", lifecyclePolicyText=json.dumps({"rules": [rule]}))
    berth.write("m.yaml", stacks.text(stacks.stack(), stacks.image("i", repository="alphaagent/prebuilt/python", tag="latest", retain={"untaggedDays": 3})))
    result = berth("apply", "--yes")
    assert result.code in (1, 3), result
    found = json.loads(ecr.get_lifecycle_policy(repositoryName="alphaagent/prebuilt/python")["lifecyclePolicyText"])
    assert found["rules"] == [rule]


def test_two_stacks_share_a_bucket(cloud, stack, berth):
    """The second one says so: createBucket false and a role; both keep their own rules and records."""
    role = cloud.lambda_role("second")
    folder = berth.stack / "second"
    folder.mkdir()
    (folder / "m.yaml").write_text(
        stacks.text(
            stacks.stack("second", aws={"createBucket": False, "executionRole": role}),
            stacks.environment("y"), stacks.agent("b", "y"), stacks.policy("p", {"environments": ["y"]}, expireAfterDays=7),
        )
    )  # fmt: skip
    berth("apply", "--yes", "-f", "second").expect(0)
    s3 = cloud.aws("s3")
    rules = {r["ID"].split("@")[0] for r in s3.get_bucket_lifecycle_configuration(Bucket=stack.bucket)["Rules"]}
    assert rules == {"berth:team:p", "berth:second:p:y"}
    berth("plan", "-f", "m.yaml", "--state", ".berth", "--detailed-exitcode").expect(0)
    berth("destroy", "--yes", "-f", "second").expect(0)
    assert {r["ID"].split("@")[0] for r in s3.get_bucket_lifecycle_configuration(Bucket=stack.bucket)["Rules"]} == {"berth:team:p"}
    assert set(cloud.functions()) == {FUNCTION}
    s3.head_object(Bucket=stack.bucket, Key="registry/team/agents/a.json")
    with pytest.raises(ClientError):
        s3.head_object(Bucket=stack.bucket, Key="registry/second/agents/b.json")


# --- what a server adds of its own accord is no change ------------------------------------------------


@pytest.mark.parametrize("adds", [True, False])
def test_conditions_that_mean_nothing(cloud, stack, berth, adds):
    """MiniStack writes ObjectSizeGreaterThan 0 into each And: the rule selects what it selected before."""
    cloud.settings(lifecycle_adds_size=adds)
    selective = stacks.policy("some", {"environments": ["x", "y"]}, expireAfterDays=9, noncurrentExpireAfterDays=3)
    berth.write("more.yaml", stacks.text(stacks.environment("y"), selective))
    berth.apply()
    berth.assert_settled()
    assert berth("drift", "--json").expect(0).json()["drift"] == []
    berth.write("more.yaml", (berth.stack / "more.yaml").read_text().replace("9", "10"))
    mark = cloud.mark()
    berth.apply()
    assert [c["operation"] for c in cloud.changing_calls(mark)] == ["PutObject", "PutBucketLifecycleConfiguration", "DeleteObject"]
    berth.assert_settled()


@pytest.mark.parametrize("how", ["other-tag", "silent"])
def test_answers_that_do_not_repeat_what_was_asked_for(cloud, berth, prebuilt, how):
    """Two tags of one image, and one of another: each is asked for alone before it is given up."""
    digest = cloud.pushes.amd64("team/tool", "v1")
    assert cloud.pushes.amd64("team/tool", "stable") == digest
    other = cloud.pushes.amd64("team/tool", "v2", "other")
    cloud.settings(image_answers=how)
    berth.write(
        "m.yaml",
        stacks.text(stacks.stack(), *(stacks.environment(tag, image={"repository": "team/tool", "tag": tag}) for tag in ("v1", "stable", "v2"))),
    )
    berth.apply()
    functions = cloud.aws("lambda")
    for name, expected in {"v1": digest, "stable": digest, "v2": other}.items():
        assert functions.get_function(FunctionName=f"alphaagent-env-{name}")["Code"]["ImageUri"].endswith("@" + expected)
    berth.assert_settled()
    row = berth("image", "check", "team/tool:stable", "--json").expect(0).json()
    assert row["digest"] == digest
    berth("image", "check", "team/tool:gone").expect(3)
