# SPDX-License-Identifier: Apache-2.0
"""Faults strike the calls they are meant for, as a client on the wire sees them; quotas refuse with 429."""

import http.client
import time
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, IncompleteReadError, ReadTimeoutError
from botocore.exceptions import ResponseStreamingError
from botocore.parsers import ResponseParserError
from urllib3.exceptions import IncompleteRead, ProtocolError

BROKEN = (ConnectionClosedError, EndpointConnectionError, IncompleteReadError, ReadTimeoutError, ResponseStreamingError, IncompleteRead,
          ProtocolError, ConnectionError, http.client.IncompleteRead)  # fmt: skip


@pytest.fixture
def bucket(cloud):
    cloud.aws("s3").create_bucket(Bucket="bucket-1")
    cloud.aws("s3").put_object(Bucket="bucket-1", Key="k", Body=b"0123456789" * 100)
    return "bucket-1"


def keys(cloud, bucket):
    return [o["Key"] for o in cloud.aws("s3").list_objects_v2(Bucket=bucket).get("Contents", [])]


def test_error_with_retry_after_on_the_nth_call_only(cloud):
    rule = {"kind": "error", "status": 429, "code": "TooManyRequestsException", "message": "slow", "retry_after": 7}
    cloud.faults(({"service": "lambda", "operation": "ListFunctions", "nth": 2}, rule))
    client = cloud.client("lambda")
    client.list_functions()
    with pytest.raises(ClientError) as caught:
        client.list_functions()
    assert caught.value.response["Error"]["Code"] == "TooManyRequestsException"
    assert caught.value.response["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "7"
    client.list_functions()
    assert [(c["status"], c["faults"]) for c in cloud.calls()] == [(200, []), (429, ["error"]), (200, [])]
    assert cloud.fault_hits() == [1]


def test_error_by_resource_and_times(cloud, bucket):
    cloud.faults(({"operation": "PutObject", "resource": "struck", "times": 1}, {"kind": "error", "status": 503, "code": "SlowDown"}))
    s3 = cloud.client("s3")
    s3.put_object(Bucket=bucket, Key="other", Body=b"")
    with pytest.raises(ClientError, match="SlowDown"):
        s3.put_object(Bucket=bucket, Key="struck", Body=b"")
    s3.put_object(Bucket=bucket, Key="struck", Body=b"")


def test_reset_before_the_server_saw_it(cloud, bucket):
    cloud.faults(({"operation": "PutObject"}, {"kind": "reset"}))
    with pytest.raises(BROKEN):
        cloud.client("s3").put_object(Bucket=bucket, Key="new", Body=b"x")
    assert keys(cloud, bucket) == ["k"]


def test_lost_answer_after_success(cloud, bucket):
    cloud.faults(({"operation": "PutObject"}, {"kind": "lost"}))
    with pytest.raises(BROKEN):
        cloud.client("s3").put_object(Bucket=bucket, Key="new", Body=b"x")
    assert keys(cloud, bucket) == ["k", "new"]
    assert cloud.calls()[-1]["status"] == 200


@pytest.mark.parametrize("kind", ["reset_mid_body", "truncate", "wrong_length"])
def test_damaged_bodies(cloud, bucket, kind):
    cloud.faults(({"operation": "GetObject"}, {"kind": kind}))
    with pytest.raises(BROKEN):
        cloud.client("s3").get_object(Bucket=bucket, Key="k")["Body"].read()


def test_truncated_body_on_the_wire(cloud, bucket):
    cloud.faults(({"operation": "ListBuckets"}, {"kind": "truncate"}))
    with pytest.raises(BROKEN):
        cloud.client("s3").list_buckets()


def test_delay(cloud):
    cloud.faults(({"operation": "GetCallerIdentity"}, {"kind": "delay", "seconds": 0.5}))
    started = time.monotonic()
    cloud.client("sts").get_caller_identity()
    assert time.monotonic() - started >= 0.5


def test_redirect_and_free_answer(cloud):
    host = urlsplit(cloud.url).netloc
    cloud.faults(
        ({"operation": "ListFunctions"}, {"kind": "redirect", "location": f"http://{host}/elsewhere"}),
        ({"operation": "GetCallerIdentity"}, {"kind": "answer", "status": 200, "body": "<not xml"}),
    )
    with pytest.raises(ClientError) as caught:
        cloud.client("lambda").list_functions()
    assert caught.value.response["ResponseMetadata"]["HTTPHeaders"]["location"].endswith("/elsewhere")
    with pytest.raises(ResponseParserError):
        cloud.client("sts").get_caller_identity()


def test_a_misspelt_rule_or_setting_is_refused(cloud):
    with pytest.raises(ValueError, match="no such rule"):
        cloud.faults(({"operation": "X"}, {"kind": "explode"}))
    with pytest.raises(ValueError, match="no setting 'pending'"):
        cloud.settings(pending=1)


def test_quotas(cloud):
    cloud.throttle(control=0.25, get_function=20, burst_s=20, retry_after=1)  # five at once, then one in four seconds
    client = cloud.client("lambda")
    for _ in range(5):
        client.list_functions()
    with pytest.raises(ClientError) as caught:
        for _ in range(3):
            client.list_functions()
    assert caught.value.response["Error"]["Code"] == "TooManyRequestsException"
    assert caught.value.response["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "1"
    assert cloud.calls()[-1]["status"] == 429
    for _ in range(10):  # GetFunction has its own bucket
        with pytest.raises(ClientError, match="ResourceNotFound"):
            client.get_function(FunctionName="absent")
    time.sleep(4)
    client.list_functions()


def test_connections_are_told_apart(cloud):
    """One kept-alive connection keeps its number: tests of connection reuse rely on it."""
    for _ in range(3):
        cloud.client("sts").get_caller_identity()
    assert len({c["connection"] for c in cloud.calls()}) == 1
