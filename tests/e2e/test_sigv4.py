# SPDX-License-Identifier: Apache-2.0
"""Berth's signer against botocore's, on thousands of random requests.

`sign_cli` (tests/unit/providers/aws/client/sign_cli.c says its input and output) signs with the code that Berth signs with.
"""

import hashlib
import json
import random
import subprocess
from urllib.parse import quote

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

import binary

COUNT = 4000
PIECES = ["a", "Z9", "-_.~", " ", ":", "%", "+", "/", "//", "ü", "日本", "=", "&", "*", "'", "(", ")", "!", "@", ",", ";", "..", ".", "#", "?", "\\", '"', "|", "%2F", "%41"]
SERVICES = ["s3", "lambda", "ecr", "iam", "sts", "logs", "tagging"]


@pytest.fixture(scope="module")
def signer():
    return binary.tool("sign_cli")


def text(rng, least, most, without=""):
    return "".join(rng.choice([p for p in PIECES if p not in without]) for _ in range(rng.randint(least, most)))


def make(rng, number):
    service = rng.choice(SERVICES)
    path = "/" + text(rng, 0, 8)
    url = "https://example.amazonaws.com" + quote(path, safe="/~")
    pairs = [(text(rng, 1, 3), None if rng.random() < 0.2 else text(rng, 0, 3)) for _ in range(rng.choice([0, 0, 1, 2, 5]))]
    if pairs and rng.random() < 0.4:
        pairs.append((pairs[0][0], text(rng, 0, 2)))
    if pairs:
        rng.shuffle(pairs)
        url += "?" + "&".join(quote(k, safe="-_.~") + ("" if v is None else "=" + quote(v, safe="-_.~")) for k, v in pairs)
    headers = {}
    if rng.random() < 0.5:
        headers["Content-Type"] = rng.choice(["application/json", "application/x-amz-json-1.1", "application/x-www-form-urlencoded; charset=utf-8"])
    if rng.random() < 0.3:
        headers["X-Amz-Target"] = "Service_20150921.Operation"
    if rng.random() < 0.2:
        headers["x-amz-meta-note"] = "  two   spaces " + "x" * rng.randint(0, 3)
    return {
        "method": rng.choice(["GET", "PUT", "POST", "DELETE", "HEAD"]),
        "url": url,
        "headers": headers,
        "body": text(rng, 0, 6) if rng.random() < 0.6 else "",
        "service": service,
        "region": rng.choice(["us-east-1", "eu-central-1", "cn-north-1", "us-gov-west-1"]),
        "access_key": "AKIDEXAMPLE",
        "secret_key": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        "token": "IQoJb3JpZ2luX2VjE+/==" if rng.random() < 0.3 else None,
        "date": f"2026{rng.randint(1, 12):02}{rng.randint(1, 28):02}T{rng.randint(0, 23):02}{number % 60:02}00Z",
    }


def expected(case, signed_names):
    """botocore's Authorization for the request as Berth signs it: the same headers, the same date."""
    service = case["service"]
    request = AWSRequest(method=case["method"], url=case["url"], data=case["body"].encode(), headers=dict(case["headers"]))
    signer = (S3SigV4Auth if service == "s3" else SigV4Auth)(
        Credentials(case["access_key"], case["secret_key"], case["token"]), service, case["region"]
    )
    request.context["timestamp"] = case["date"]
    request.headers["X-Amz-Date"] = case["date"]
    if case["token"]:
        request.headers["X-Amz-Security-Token"] = case["token"]
    if service == "s3" or "x-amz-content-sha256" in signed_names:
        request.headers["X-Amz-Content-SHA256"] = hashlib.sha256(case["body"].encode()).hexdigest()
    canonical = signer.canonical_request(request)
    signature = signer.signature(signer.string_to_sign(request, canonical), request)
    names = signer.signed_headers(signer.headers_to_sign(request))
    scope = signer.scope(request)
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={names}, Signature={signature}", canonical


def test_signer_against_botocore(signer):
    rng = random.Random(20150830)
    cases = [make(rng, number) for number in range(COUNT)]
    lines = "\n".join(json.dumps({k: v for k, v in case.items() if v is not None}) for case in cases) + "\n"
    done = subprocess.run([str(signer)], input=lines.encode(), capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    answers = done.stdout.decode().splitlines()
    assert len(answers) == COUNT, done.stderr.decode()[-2000:]
    wrong = []
    for case, answer in zip(cases, answers):
        ours = json.loads(answer)
        names = ours["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
        header, canonical = expected(case, names)
        if ours["authorization"] != header:
            wrong.append((case, ours["authorization"], header, ours["canonical_request"], canonical))
    if wrong:
        parts = "\n".join([json.dumps(wrong[0][0], ensure_ascii=False), *wrong[0][1:]])
        pytest.fail(f"{len(wrong)} of {COUNT} differ; the first (case, ours, botocore's, ours, botocore's):\n{parts}")
