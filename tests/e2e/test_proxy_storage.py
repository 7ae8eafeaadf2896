# SPDX-License-Identifier: Apache-2.0
"""S3 before the judge, and what the proxy supplies for it; ECR's layers."""

import json

import pytest
from botocore.exceptions import ClientError

from images import Image
from lib.proxy_requests import expect_violation, send
from servers import http

PREFIX = {"Prefix": "workspaces/sessions/"}
TAGGED = {"And": {**PREFIX, "Tags": [{"Key": "berth:environment", "Value": "x"}]}}
EXPIRES = {"Expiration": {"Days": 90}}


def rule(name="r", where=None, **actions):
    return {"ID": name, "Status": "Enabled", "Filter": where or PREFIX, **(actions or EXPIRES)}


@pytest.fixture
def bucket(cloud):
    cloud.aws("s3").create_bucket(Bucket="bucket-1")
    return "bucket-1"


def put_rules(cloud, bucket, *rules):
    cloud.client("s3").put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": list(rules)})


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([rule("a"), rule("a")], "same ID for more than one rule"),
        ([rule(where=TAGGED, AbortIncompleteMultipartUpload={"DaysAfterInitiation": 3})], "cannot be specified with Tags"),
        ([rule(Transitions=[{"Days": 29, "StorageClass": "STANDARD_IA"}])], "greater than or equal to 30"),
        ([rule(Transitions=[{"Days": 60, "StorageClass": "GLACIER"}], Expiration={"Days": 60})], "greater than 'Days' in the Transition"),
        ([rule(Expiration={"Days": 0})], "positive integer"),
        ([{"ID": "x", "Status": "Enabled", "Filter": PREFIX}], "at least one action"),
        ([rule(str(i)) for i in range(1001)], "at most 1000"),
        ([rule(where={"And": {"Prefix": "x"}})], "at least two conditions"),
        ([rule(Transitions=[{"Days": 40, "StorageClass": "COLD"}])], "is none of"),
        ([rule("a"), {"ID": "b", "Status": "Enabled", "Prefix": "x", "Expiration": {"Days": 3}}], "only be used in Lifecycle V2"),
    ],
)
def test_lifecycle_refusals(cloud, bucket, rules, words):
    with pytest.raises(ClientError):
        put_rules(cloud, bucket, *rules)
    expect_violation(cloud, words)
    with pytest.raises(ClientError):
        cloud.aws("s3").get_bucket_lifecycle_configuration(Bucket=bucket)


def test_lifecycle_round_trip_keeps_what_moto_drops_and_no_order(cloud, bucket):
    sized = rule("sized", {"And": {**PREFIX, "ObjectSizeGreaterThan": 1000}})
    noncurrent = rule("old", NoncurrentVersionExpiration={"NoncurrentDays": 5, "NewerNoncurrentVersions": 3})
    tagged = rule("tagged", TAGGED, Transitions=[{"Days": 30, "StorageClass": "STANDARD_IA"}], Expiration={"Days": 31})
    put_rules(cloud, bucket, sized, noncurrent, tagged)
    found = cloud.aws("s3").get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert [r["ID"] for r in found] == ["tagged", "old", "sized"]
    assert {r["ID"]: r for r in found} == {"sized": sized, "old": noncurrent, "tagged": tagged}


@pytest.mark.parametrize(
    ("path", "body", "headers", "words"),
    [
        ("?policy", b'{"Version": "2012-10-17", "Statement": []}', {}, "needs Content-MD5"),
        ("?policy", b'{"Version": "2012-10-17", "Statement": []}', {"Content-MD5": "AAAA"}, "Content-MD5 is"),
        ("?policy", b'{"Version": "2012-10-17", "Statement": []}', {"x-amz-checksum-sha256": "AAAA"}, "does not fit"),
        ("?lifecycle", b"<LifecycleConfiguration/>", {}, "Rules is required"),
        ("?lifecycle", b"<Lifecycle/>", {}, "not a <LifecycleConfiguration>"),
        ("?versioning", b"<VersioningConfiguration><State>Enabled</State></VersioningConfiguration>", {}, "unknown element"),
        ("?versioning", b"<VersioningConfiguration><Status>On</Status></VersioningConfiguration>", {}, "is none of"),
        ("?versioning", b"<VersioningConfiguration>", {}, "no XML"),
        ("/key?acl=1&colour=2", b"", {}, "unknown query parameter"),
        ("/key", b"x", {"x-amz-colour": "red"}, "unknown header"),
        ("", b"<CreateBucketConfiguration><LocationConstraint>us-east-1</LocationConstraint></CreateBucketConfiguration>", {}, "LocationConstraint"),
    ],
)
@pytest.mark.only("ministack", "the judge is the same before both")
def test_s3_requests(cloud, path, body, headers, words):
    status, text = send(cloud, "PUT", "/bucket-1" + path, "s3", body, headers)
    assert status in (400, 403), text
    expect_violation(cloud, words)


def test_bucket_policy_is_kept_and_locks_nobody_out(cloud, bucket):
    statement = {
        "Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }  # fmt: skip
    s3 = cloud.client("s3")
    with pytest.raises(ClientError) as caught:
        s3.get_bucket_policy(Bucket=bucket)
    assert caught.value.response["Error"]["Code"] == "NoSuchBucketPolicy"
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"] == [statement]
    s3.delete_object(Bucket=bucket, Key="k")
    s3.delete_bucket(Bucket=bucket)
    s3.create_bucket(Bucket=bucket)
    with pytest.raises(ClientError):
        s3.get_bucket_policy(Bucket=bucket)


def test_conditional_writes(cloud, bucket):
    s3 = cloud.client("s3")
    etag = s3.put_object(Bucket=bucket, Key="lock", Body=b"1", IfNoneMatch="*")["ETag"]
    for condition in ({"IfNoneMatch": "*"}, {"IfMatch": '"0123456789abcdef0123456789abcdef"'}):
        with pytest.raises(ClientError) as caught:
            s3.put_object(Bucket=bucket, Key="lock", Body=b"2", **condition)
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 412
    s3.put_object(Bucket=bucket, Key="lock", Body=b"2", IfMatch=etag)


def test_list_objects_pages_by_1000(cloud, bucket):
    for n in range(1003):
        cloud.direct("s3").put_object(Bucket=bucket, Key=f"k/{n:04}", Body=b"")
    page = cloud.client("s3").list_objects_v2(Bucket=bucket, MaxKeys=2000)
    assert page["KeyCount"] == 1000 and page["IsTruncated"]
    rest = cloud.client("s3").list_objects_v2(Bucket=bucket, ContinuationToken=page["NextContinuationToken"])
    assert [o["Key"] for o in rest["Contents"]] == ["k/1000", "k/1001", "k/1002"]


def test_layer_urls_lead_to_the_image_config(cloud):
    image = Image("config", arch="arm64")
    cloud.pushes.push("team/x", "t", image)
    ecr = cloud.client("ecr")
    found = ecr.batch_get_image(repositoryName="team/x", imageIds=[{"imageTag": "t"}])["images"][0]
    assert found["imageId"]["imageDigest"] == image.digest
    config = json.loads(found["imageManifest"])["config"]["digest"]
    url = ecr.get_download_url_for_layer(repositoryName="team/x", layerDigest=config)["downloadUrl"]
    status, body = http("GET", url)
    assert status == 200 and json.loads(body)["architecture"] == "arm64"
    with pytest.raises(ClientError):
        ecr.get_download_url_for_layer(repositoryName="team/x", layerDigest="sha256:" + "0" * 64)


def test_layer_url_takes_no_second_signature(cloud):
    digest = cloud.pushes.amd64("team/x")
    url = cloud.client("ecr").get_download_url_for_layer(
        repositoryName="team/x", layerDigest=json.loads(Image("hello").manifest)["config"]["digest"]
    )["downloadUrl"]
    path = url.removeprefix(cloud.url)
    assert digest and send(cloud, "GET", path, "s3")[0] == 400
    expect_violation(cloud, "Authorization sent to a presigned URL")


def test_objects_look_as_old_as_they_are_set(cloud, bucket):
    s3 = cloud.client("s3")
    for key in ("a/one", "a/b/two ü&+%", "c"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    new = {o["Key"]: o["LastModified"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]}
    cloud.settings(object_age_days={"a/": 10, "a/b/": 20})
    for listed in (s3.list_objects_v2(Bucket=bucket)["Contents"], s3.list_objects(Bucket=bucket)["Contents"], s3.list_object_versions(Bucket=bucket)["Versions"]):
        assert {o["Key"]: (new[o["Key"]] - o["LastModified"]).days for o in listed} == {"a/one": 10, "a/b/two ü&+%": 20, "c": 0}
