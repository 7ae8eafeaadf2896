# SPDX-License-Identifier: Apache-2.0
"""Requests to S3 signed for others (presign_cli): every signature recomputed by botocore, and used at MiniStack, which enforces them."""

import base64
import json
import os
import subprocess
import urllib.error
import urllib.request
import uuid
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.auth import S3SigV4PostAuth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from binary import tool
from servers import open_url

TAGS = "<Tagging><TagSet><Tag><Key>berth:of</Key><Value>a&amp;b</Value></Tag></TagSet></Tagging>"


def presign(folder, *lines, url="http://127.0.0.1:1", key="AKIDEXAMPLE", secret="se/c+ret", token=None, region="eu-west-1", **env):
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "AWS_REGION": region, "AWS_EC2_METADATA_DISABLED": "true",
           "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, **env}  # fmt: skip
    if url:
        env["AWS_ENDPOINT_URL"] = url
    if token:
        env["AWS_SESSION_TOKEN"] = token
    text = "".join(json.dumps(line) + "\n" for line in lines)
    ran = subprocess.run([tool("presign_cli"), "{}"], input=text, env=env, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


KEYS = ["a", "workspaces/sessions/s-1/workspace/x y+z&=%/ä.txt", "a//b/./../c", "'()*!~$,:@", "日本/語"]


@pytest.mark.parametrize("token", [None, "IQoJb3+/=token"])
@pytest.mark.parametrize("url", ["http://127.0.0.1:4566", None])
def test_urls_are_those_that_botocore_signs(tmp_path, url, token):
    auth = S3SigV4QueryAuth(Credentials("AKIDEXAMPLE", "se/c+ret", token), "s3", "eu-west-1", expires=900)
    for name, told in zip(KEYS, presign(tmp_path, *({"bucket": "data-1", "key": name, "seconds": 900} for name in KEYS), url=url, token=token)):
        unsigned, _, signature = told["url"].rpartition("&X-Amz-Signature=")
        query = parse_qs(urlsplit(unsigned).query)
        assert query["X-Amz-Expires"] == ["900"] and query.get("X-Amz-Security-Token", [None]) == [token]
        request = AWSRequest("GET", unsigned)
        request.context["timestamp"] = query["X-Amz-Date"][0]
        text = auth.string_to_sign(request, auth.canonical_request(request))
        assert signature == auth.signature(text, request), name
        assert urlsplit(unsigned).scheme == "https" if url is None else unsigned.startswith(url)


@pytest.mark.parametrize("token", [None, "IQoJb3+/=token"])
def test_policies_are_those_that_botocore_signs(tmp_path, token):
    asked = {"bucket": "data-1", "key": "a/b/", "isPrefix": True, "bytesMax": 1000, "tagging": TAGS, "more": {"x-amz-server-side-encryption": "AES256"}, "seconds": 600}
    (told, exact) = presign(tmp_path, asked, {"bucket": "data-1", "key": "a/b", "bytesMax": 0, "seconds": 600}, token=token)
    fields = told["fields"]
    policy = json.loads(base64.b64decode(fields["policy"]))
    request = AWSRequest("POST", told["url"])
    request.context["timestamp"] = fields["x-amz-date"]
    auth = S3SigV4PostAuth(Credentials("AKIDEXAMPLE", "se/c+ret", token), "s3", "eu-west-1")
    assert fields["x-amz-signature"] == auth.signature(fields["policy"], request)
    assert told["url"] == "http://127.0.0.1:1/data-1" and fields["x-amz-credential"] == auth.scope(request)
    assert policy["conditions"][:3] == [{"bucket": "data-1"}, ["starts-with", "$key", "a/b/"], ["content-length-range", 0, 1000]]
    named = {name: text for condition in policy["conditions"] if isinstance(condition, dict) for name, text in condition.items()}
    assert {**named, "policy": fields["policy"], "x-amz-signature": fields["x-amz-signature"]} == {"bucket": "data-1", **fields}, "each field has its condition"
    assert fields.get("x-amz-security-token") == token and fields["tagging"] == TAGS and "key" not in fields
    assert exact["fields"]["key"] == "a/b"


def test_what_is_not_signed(tmp_path):
    form = {"bucket": "data-1", "key": "a/", "isPrefix": True, "bytesMax": 1, "seconds": 60}
    bad = [{**form, "key": "a/b"}, {**form, "key": ""}, {**form, "seconds": 0}, {**form, "seconds": 604801}, {**form, "more": {f"x{n}": "y" for n in range(9)}},
           {"bucket": "data-1", "key": "a", "seconds": 604801}]  # fmt: skip
    for told in presign(tmp_path, *bad):
        assert told["error"] and not told.get("url"), told
    keys = {"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "s", "SessionToken": "t"}
    soon = subprocess.run(["date", "-u", "-d", "+30 minutes", "+%Y-%m-%dT%H:%M:%SZ"], capture_output=True, text=True, check=True).stdout.strip()
    (tmp_path / "keys.sh").write_text("#!/bin/sh\necho '" + json.dumps({**keys, "Expiration": soon}) + "'\n")
    (tmp_path / "keys.sh").chmod(0o755)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/config").write_text(f"[profile short]\ncredential_process = {tmp_path}/keys.sh\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AWS_REGION": "eu-west-1", "AWS_EC2_METADATA_DISABLED": "true", "AWS_PROFILE": "short"}
    text = "".join(json.dumps({"bucket": "data-1", "key": "a", "seconds": seconds}) + "\n" for seconds in (60, 3600))
    ran = subprocess.run([tool("presign_cli"), "{}"], input=text, env=env, capture_output=True, text=True, timeout=60)
    fine, long = [json.loads(line) for line in ran.stdout.splitlines()]
    assert fine["url"] and "cannot be signed" in long["error"]


def upload(url, fields, data):
    mark = uuid.uuid4().hex
    parts = "".join(f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n' for name, text in fields.items())
    body = parts.encode() + f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'.encode() + data + f"\r\n--{mark}--\r\n".encode()
    request = urllib.request.Request(url, body, {"Content-Type": f"multipart/form-data; boundary={mark}"}, method="POST")
    try:
        with open_url(request) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.only("ministack", "moto enforces neither signatures nor policies")
def test_used_where_they_are_enforced(cloud, tmp_path):
    here = {"url": cloud.standin.url, "key": "test", "secret": "test", "region": "us-east-1"}
    s3 = cloud.direct("s3")
    s3.create_bucket(Bucket="data-1")
    s3.put_object(Bucket="data-1", Key="a/x y+ä.txt", Body=b"hello")
    read, form = presign(
        tmp_path, {"bucket": "data-1", "key": "a/x y+ä.txt", "seconds": 60},
        {"bucket": "data-1", "key": "a/b/", "isPrefix": True, "bytesMax": 10, "seconds": 60}, **here,
    )  # fmt: skip
    with open_url(urllib.request.Request(read["url"])) as answer:
        assert answer.read() == b"hello"
    for wrong in (read["url"].replace("a/x", "a/y"), read["url"][:-1] + ("0" if read["url"][-1] != "0" else "1")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            open_url(urllib.request.Request(wrong))
        assert refused.value.code == 403
    assert upload(form["url"], {**form["fields"], "key": "a/b/c.txt"}, b"0123456789") in (200, 204)
    assert s3.get_object(Bucket="data-1", Key="a/b/c.txt")["Body"].read() == b"0123456789"
    assert upload(form["url"], {**form["fields"], "key": "a/bb/c.txt"}, b"x") == 403, "another folder"
    assert upload(form["url"], {**form["fields"], "key": "a/b/d.txt"}, b"01234567890") >= 400, "one byte too many"
    assert [o["Key"] for o in s3.list_objects_v2(Bucket="data-1")["Contents"]] == ["a/b/c.txt", "a/x y+ä.txt"]
