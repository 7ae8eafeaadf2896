# SPDX-License-Identifier: Apache-2.0
"""The judge: what boto3 sends passes, and each thing that AWS would refuse is refused and remembered."""

import datetime
import json

import pytest
from botocore.exceptions import ClientError

from lib.proxy_requests import expect_violation, send
from places import open_place

LAMBDA_ROLE = "arn:aws:iam::123456789012:role/r"


def rpc(cloud, service, target, params, **kwargs):
    headers = {"X-Amz-Target": target, "Content-Type": kwargs.pop("content_type", "application/x-amz-json-1.1")}
    body = params if isinstance(params, bytes) else json.dumps(params).encode()
    return send(cloud, "POST", "/", service, body, headers, **kwargs)


def test_boto3_passes_for_every_service(cloud):
    client = cloud.client
    client("sts").get_caller_identity()
    client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=trust(), Tags=[{"Key": "a b", "Value": "c/d"}])
    client("iam").list_roles()
    client("logs").create_log_group(logGroupName="/aws/lambda/x", tags={"k": "v"})
    client("logs").put_retention_policy(logGroupName="/aws/lambda/x", retentionInDays=30)
    client("ecr").create_repository(repositoryName="team/x", imageScanningConfiguration={"scanOnPush": True})
    client("resourcegroupstaggingapi").get_resources(ResourceTypeFilters=["lambda:function"])
    client("lambda").list_functions(MaxItems=3)
    s3 = client("s3")
    s3.create_bucket(Bucket="bucket-1")
    s3.put_object(Bucket="bucket-1", Key="a:b/c d/é+%41//x", Body=b"body", Tagging="berth%3Aenvironment=x&y=z", Metadata={"m": "1"})
    s3.get_object(Bucket="bucket-1", Key="a:b/c d/é+%41//x")
    s3.list_objects_v2(Bucket="bucket-1", Prefix="a:b/", Delimiter="/")
    s3.put_bucket_encryption(
        Bucket="bucket-1",
        ServerSideEncryptionConfiguration={"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]},
    )
    s3.delete_objects(Bucket="bucket-1", Delete={"Objects": [{"Key": "a:b/c d/é+%41//x"}]})
    assert cloud.violations() == []
    assert [c["operation"] for c in cloud.calls(service="s3")] == [
        "CreateBucket", "PutObject", "GetObject", "ListObjectsV2", "PutBucketEncryption", "DeleteObjects",
    ]  # fmt: skip


def trust():
    statement = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_observers_are_not_recorded(cloud):
    cloud.aws("sts").get_caller_identity()
    assert cloud.calls() == []
    cloud.client("sts").get_caller_identity()
    assert [(c["service"], c["operation"], c["mutating"], c["status"]) for c in cloud.calls()] == [("sts", "GetCallerIdentity", False, 200)]


# --- signatures -------------------------------------------------------------------------------------


def test_wrong_secret(cloud):
    status, text = send(cloud, "GET", "/2015-03-31/functions/", "lambda", secret="wrong")
    assert status == 403 and "signature is wrong" in text
    expect_violation(cloud, "SignatureDoesNotMatch")


def test_unknown_key(cloud):
    assert send(cloud, "GET", "/2015-03-31/functions/", "lambda", key="AKIAUNKNOWN")[0] == 403
    expect_violation(cloud, "UnrecognizedClientException")


def test_unsigned(cloud):
    assert send(cloud, "GET", "/", "s3", after=lambda r: r.headers.__delitem__("Authorization"))[0] == 400
    expect_violation(cloud, "not signed")


def test_changed_query(cloud):
    def change(request):
        request.url += "&MaxItems=2"

    assert send(cloud, "GET", "/2015-03-31/functions/?Marker=x", "lambda", after=change)[0] == 403
    expect_violation(cloud, "SignatureDoesNotMatch")


def test_changed_body_of_s3(cloud):
    def change(request):
        request.headers["x-amz-content-sha256"] = "0" * 64

    assert send(cloud, "PUT", "/bucket/key", "s3", b"body", after=change)[0] == 403
    expect_violation(cloud, "XAmzContentSHA256Mismatch")


def test_unsigned_amz_header(cloud):
    def add(request):
        request.headers["x-amz-acl"] = "private"

    assert send(cloud, "PUT", "/bucket/key", "s3", b"x", after=add)[0] == 403
    expect_violation(cloud, "not signed: x-amz-acl")


def test_old_date(cloud, monkeypatch):
    import botocore.auth

    old = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) - datetime.timedelta(minutes=6)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *a, **k: old)
    assert send(cloud, "GET", "/2015-03-31/functions/", "lambda")[0] == 403
    expect_violation(cloud, "Signature expired")


def test_skewed_server_is_no_violation_and_tells_its_time(cloud):
    cloud.settings(clock_skew_s=3600)
    with pytest.raises(ClientError) as caught:
        cloud.client("s3").list_buckets()
    assert caught.value.response["Error"]["Code"] == "RequestTimeTooSkewed"
    date = caught.value.response["ResponseMetadata"]["HTTPHeaders"]["date"]
    told = datetime.datetime.strptime(date, "%a, %d %b %Y %H:%M:%S GMT")
    assert 3500 < (told - datetime.datetime.utcnow()).total_seconds() < 3700
    assert cloud.violations() == []


def test_session_token(cloud):
    cloud.issue_credentials("ASIATEMPORARY", "secret", "token+/=")
    assert send(cloud, "GET", "/2015-03-31/functions/", "lambda", key="ASIATEMPORARY", secret="secret", token="token+/=")[0] == 200
    assert send(cloud, "GET", "/2015-03-31/functions/", "lambda", key="ASIATEMPORARY", secret="secret")[0] == 403
    expect_violation(cloud, "no x-amz-security-token")


def test_credentials_of_assume_role_are_known(cloud):
    arn = cloud.lambda_role("assumed")
    got = cloud.client("sts").assume_role(RoleArn=arn, RoleSessionName="session")["Credentials"]
    status, _ = send(cloud, "GET", "/2015-03-31/functions/", "lambda", key=got["AccessKeyId"], secret=got["SecretAccessKey"], token=got["SessionToken"])
    assert status == 200


def test_iam_is_signed_for_us_east_1(cloud):
    body = b"Action=ListRoles&Version=2010-05-08"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert send(cloud, "POST", "/", "iam", body, form, region="eu-west-1")[0] == 403
    expect_violation(cloud, "IAM is signed us-east-1")


# --- models and demands -----------------------------------------------------------------------------


FUNCTION = {"FunctionName": "f", "Role": LAMBDA_ROLE, "PackageType": "Image", "Code": {"ImageUri": "x"}}
CREATE = ("POST", "/2015-03-31/functions")
CONFIGURE = ("PUT", "/2015-03-31/functions/f/configuration")
TARGET = {"ecr": "AmazonEC2ContainerRegistry_V20150921.", "logs": "Logs_20140328.", "tagging": "ResourceGroupsTaggingAPI_20170126."}
TAGS_51 = {f"k{i}": "v" for i in range(51)}


@pytest.mark.parametrize(
    ("request_line", "body", "words"),
    [
        (CREATE, {**FUNCTION, "Memory": 128}, "unknown member 'Memory'"),
        (CREATE, {k: v for k, v in FUNCTION.items() if k != "Role"}, "Role is required"),
        (CREATE, {**FUNCTION, "MemorySize": "2048"}, "MemorySize must be of type integer"),
        (CREATE, {**FUNCTION, "MemorySize": 10241}, "10240"),
        (CREATE, {**FUNCTION, "Timeout": 901}, "Timeout"),
        (CREATE, {**FUNCTION, "EphemeralStorage": {"Size": 511}}, "EphemeralStorage.Size"),
        (CREATE, {**FUNCTION, "EphemeralStorage": {}}, "EphemeralStorage.Size is required"),
        (CREATE, {**FUNCTION, "Architectures": ["amd64"]}, "is none of"),
        (CREATE, {**FUNCTION, "Role": "role/r"}, "does not match"),
        (CREATE, {**FUNCTION, "FunctionName": "f" * 65}, "at most 64"),
        (CREATE, {**FUNCTION, "Handler": "x.y"}, "Handler cannot stand"),
        (CREATE, {**FUNCTION, "Tags": TAGS_51}, "at most 50"),
        (CREATE, {**FUNCTION, "Tags": {"aws:x": "v"}}, "reserved"),
        (CREATE, {**FUNCTION, "Environment": {"Variables": {"A": "x"}}}, "does not match"),
        (CREATE, {**FUNCTION, "Environment": {"Variables": {"AWS_REGION": "x"}}}, "reserved by Lambda"),
        (CREATE, {**FUNCTION, "Environment": {"Variables": {"BIG": "x" * 4096}}}, "4 KB"),
        (CONFIGURE, {"Architectures": ["arm64"]}, "unknown member 'Architectures'"),
        (("PUT", "/2017-10-31/functions/f/concurrency"), {"ReservedConcurrentExecutions": -1}, "less than 0"),
        (("DELETE", "/2015-03-31/functions/f"), {"x": 1}, "takes no body"),
        (("GET", "/2015-03-31/functions/?Page=2"), {}, "unknown query parameter"),
        (("PATCH", "/2015-03-31/functions/f"), {}, "no operation of lambda"),
    ],
)
@pytest.mark.only("ministack", "the judge is the same before both")
def test_lambda_requests(cloud, request_line, body, words):
    method, path = request_line
    data = json.dumps(body).encode() if body else b""
    status, text = send(cloud, method, path, "lambda", data, {"Content-Type": "application/json"})
    assert status == 400, text
    expect_violation(cloud, words)


@pytest.mark.parametrize(
    ("service", "operation", "params", "words"),
    [
        ("ecr", "BatchGetImage", {"repositoryName": "x"}, "imageIds is required"),
        ("ecr", "BatchGetImage", {"repositoryName": "X", "imageIds": []}, "does not match"),
        ("ecr", "BatchGetImage", {"repositoryName": "xy", "imageIds": [{"imageTag": "t"}] * 101}, "more than 100"),
        ("ecr", "PutLifecyclePolicy", {"repositoryName": "xy", "lifecyclePolicyText": "{\"rules\": [{\"rulePriority\": 1}]}" + " " * 100}, "tagStatus"),
        ("ecr", "NoSuch", {}, "no operation of ecr"),
        ("logs", "PutRetentionPolicy", {"logGroupName": "x", "retentionInDays": 31}, "none that CloudWatch Logs takes"),
        ("logs", "TagResource", {"resourceArn": "arn:aws:logs:us-east-1:123456789012:log-group:x:*", "tags": {"a": "b"}}, "does not match"),
        ("tagging", "GetResources", b'{"ResourcesPerPage": 1, "ResourcesPerPage": 2}', "stands twice"),
    ],
)
@pytest.mark.only("ministack", "the judge is the same before both")
def test_json_requests(cloud, service, operation, params, words):
    status, text = rpc(cloud, service, TARGET[service] + operation, params)
    assert status == 400, text
    expect_violation(cloud, words)


@pytest.mark.only("ministack", "the judge is the same before both")
def test_json_content_type(cloud):
    assert rpc(cloud, "logs", TARGET["logs"] + "DescribeLogGroups", {}, content_type="application/json")[0] == 400
    expect_violation(cloud, "Content-Type")


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("Action=GetRole&Version=2010-05-08", "RoleName is required"),
        ("Action=GetRole&Version=2011-06-15&RoleName=r", "Version must be"),
        ("Action=GetRole&Version=2010-05-08&RoleName=r&Role=r", "unknown parameter 'Role'"),
        ("Action=GetRole&Version=2010-05-08&RoleName=a%2Fb", "does not match"),
        ("Action=TagRole&Version=2010-05-08&RoleName=r&Tags.1.Key=k&Tags.1.Value=v", "unknown parameter"),
        ("Action=TagRole&Version=2010-05-08&RoleName=r&Tags.member.1.Key=k", "Tags[0].Value is required"),
        ("Action=PutRolePolicy&Version=2010-05-08&RoleName=r&PolicyName=p&PolicyDocument=x", "no JSON"),
    ],
)
@pytest.mark.only("ministack", "the judge is the same before both")
def test_query_requests(cloud, form, words):
    status, text = send(cloud, "POST", "/", "iam", form.encode(), {"Content-Type": "application/x-www-form-urlencoded"})
    assert status == 400, text
    expect_violation(cloud, words)


def test_a_place_judges_what_each_of_its_stacks_asked(standins, binary, tmp_path, request):
    """Each of them begins with an empty cloud, and an empty record of what was refused."""
    made = open_place("aws", standins, request.config.getoption("--cloud") or "ministack")
    folders = [tmp_path / name for name in ("first", "second", "third")]
    for folder in folders:
        folder.mkdir()
    made.berth(binary, folders[0])
    made.berth(binary, folders[1])
    assert send(made.cloud, "GET", "/2015-03-31/functions?Wrong=1", "lambda", secret="another")[0] == 403
    with pytest.raises(AssertionError, match="requests that AWS would refuse"):
        made.berth(binary, folders[2])
    made.cloud.reset()
    made.close()
