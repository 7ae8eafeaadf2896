# SPDX-License-Identifier: Apache-2.0
"""Berth's signatures against botocore's signers: the same requests, thousands of them, step by step.

The requests are random but the same in each run (BERTH_SIGV4_SEED changes them): paths with `:`, `%`, spaces, unicode,
dot segments and doubled slashes, queries with empty, valueless and repeated keys, headers with runs of space and
repeated names, session tokens, S3 and not S3.
"""

import datetime
import json
import os
import random
import subprocess
from pathlib import Path
from urllib.parse import quote

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ROOT = Path(__file__).resolve().parents[2]
COUNT = 6000
SERVICES = ["lambda", "ecr", "iam", "sts", "logs", "tagging", "s3", "s3", "s3"]
REGIONS = ["us-east-1", "eu-west-1", "cn-north-1", "us-gov-west-1"]
SEGMENTS = ["functions", "2015-03-31", "arn:aws:lambda:eu-west-1:123456789012:function:a", "a b", "ä-ö", "日本", "100%", "a+b",
            "x=y", "(1)", "~tilde", "semi;colon", "at@", "q'uote", "star*", "a,b", "!", "$x", "&and", "", ".", "..", "...", "a.b"]
VALUES = ["", "1", "a b", "ü", "x/y", "=", "&", "%", "%2F", "+", "~", "*", "berth:stack", "日", "A", "a", "-_.", "00"]
KEYS = ["Marker", "MaxItems", "tagKeys", "prefix", "lifecycle", "list-type", "a", "A", "a-b", "a.b", "ä", "b c", "%", "x~", "z"]


def sign_cli():
    if os.environ.get("BERTH_BIN"):
        beside = Path(os.environ["BERTH_BIN"]).resolve().parent / "tests" / "unit" / "sign_cli"
        if beside.is_file():
            return beside
    found = [p for p in ROOT.glob("build/*/tests/unit/sign_cli") if os.access(p, os.X_OK)]
    if not found:
        pytest.fail("sign_cli is not built: cmake --build builds it with the unit tests")
    return max(found, key=lambda p: p.stat().st_mtime)


def random_path(rng, s3):
    if rng.random() < 0.05:
        # S3 without a path: botocore signs "" where "/" goes over the wire, so no client sends it.
        return rng.choice(["/", "//", "/./", "/../", "/" if s3 else ""])
    segments = [rng.choice(SEGMENTS) for _ in range(rng.randint(1, 6))]
    safe = rng.choice(["", ":", "~", "!$&'()*+,;=:@", "%:"])  # as differently as clients encode
    encoded = []
    for segment in segments:
        text = quote(segment, safe=safe.replace("%", ""))
        encoded.append(text.replace("%3A", "%3a") if rng.random() < 0.05 else text)
    return "/" + "/".join(encoded) + rng.choice(["", "", "/"])


def random_query(rng):
    pairs = []
    for _ in range(rng.choice([0, 0, 1, 2, 3, 6])):
        key = quote(rng.choice(KEYS), safe="-_.~")
        form = rng.random()
        if form < 0.25:
            pairs.append(key)
        elif form < 0.4:
            pairs.append(key + "=")
        else:
            pairs.append(key + "=" + quote(rng.choice(VALUES), safe="-_.~"))
    if pairs and rng.random() < 0.3:
        pairs.append(rng.choice(pairs))
    if pairs and rng.random() < 0.05:
        pairs.append("")  # "a=1&"
    return "&".join(pairs)


def random_headers(rng):
    headers = {}
    if rng.random() < 0.6:
        headers["Content-Type"] = rng.choice(["application/json", "application/x-amz-json-1.1", " text/plain;  charset=utf-8 "])
    if rng.random() < 0.3:
        headers["X-Amz-Target"] = "Logs_20140328.DescribeLogGroups"
    if rng.random() < 0.3:
        headers["x-amz-meta-note"] = rng.choice(["a  b   c", "  padded\t", "", "tab\there", "a,b", "ünïcode"])
    if rng.random() < 0.2:
        headers["X-Amz-Many"] = rng.sample(["one", "two", " three  3 ", "two", ""], rng.randint(2, 4))
    if rng.random() < 0.2:
        headers["User-Agent"] = "not signed"
    if rng.random() < 0.1:
        headers["X-Amzn-Trace-Id"] = "Root=1"
    if rng.random() < 0.2:
        headers["If-None-Match"] = "*"
    return headers


def random_request(rng):
    service = rng.choice(SERVICES)
    host = rng.choice(["example.amazonaws.com", "bucket-x.s3.eu-west-1.amazonaws.com", "localhost:4566", "127.0.0.1:80",
                       "example.amazonaws.com:443"])
    query = random_query(rng)
    return {
        "method": rng.choice(["GET", "PUT", "POST", "DELETE", "HEAD"]),
        "url": rng.choice(["https", "http"]) + "://" + host + random_path(rng, service == "s3") + ("?" + query if query else ""),
        "headers": random_headers(rng),
        "body": rng.choice(["", "", "{}", '{"FunctionName": "ä"}', "Action=GetCallerIdentity&Version=2011-06-15", "x" * 5000]),
        "service": service,
        "region": rng.choice(REGIONS),
        "access_key": "AKID" + str(rng.randrange(10**8)),
        "secret_key": rng.choice(["wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "s", "+/=" * 20]),
        "token": rng.choice([None, None, "FwoGZXIvYXdzE//+==", "t" * 2000]),
        "date": rng.choice(["20260131T120000Z", "20151230T235959Z", "20240229T000000Z"]),
    }


def botocore_signs(monkeypatch, request):
    when = datetime.datetime.strptime(request["date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda remove_tzinfo=True: when.replace(tzinfo=None))
    signer_class = botocore.auth.S3SigV4Auth if request["service"] == "s3" else botocore.auth.SigV4Auth
    keys = Credentials(request["access_key"], request["secret_key"], request["token"])
    steps = {}

    class Recorder(signer_class):
        def canonical_request(self, aws_request):
            steps["canonical_request"] = super().canonical_request(aws_request)
            return steps["canonical_request"]

        def string_to_sign(self, aws_request, canonical_request):
            steps["string_to_sign"] = super().string_to_sign(aws_request, canonical_request)
            return steps["string_to_sign"]

    aws_request = AWSRequest(method=request["method"], url=request["url"], data=request["body"].encode())
    for name, values in request["headers"].items():
        for value in values if isinstance(values, list) else [values]:
            aws_request.headers.add_header(name, value)
    Recorder(keys, request["service"], request["region"]).add_auth(aws_request)
    steps["authorization"] = aws_request.headers["Authorization"]
    return steps


def test_signatures_are_botocores(monkeypatch):
    rng = random.Random(int(os.environ.get("BERTH_SIGV4_SEED", "20260131")))
    requests = [random_request(rng) for _ in range(COUNT)]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    ran = subprocess.run([sign_cli()], input=lines, capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert ran.returncode == 0, ran.stderr
    answers = ran.stdout.splitlines()
    assert len(answers) == COUNT
    for request, answer in zip(requests, answers):
        assert json.loads(answer) == botocore_signs(monkeypatch, request), request
