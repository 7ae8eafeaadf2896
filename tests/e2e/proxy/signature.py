# SPDX-License-Identifier: Apache-2.0
"""Recompute each request's Signature Version 4 with botocore's signer and say what differs.

botocore is the reference, so nothing of the algorithm is written again here. Only the request is put
back into the shape that botocore's signer takes: the headers that the client named as signed, its
own timestamp, its own target.
"""

import calendar
import hashlib
import hmac
import re
import time

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

MAX_SKEW_SECONDS = 300
_AUTHORIZATION = re.compile(
    r"^AWS4-HMAC-SHA256 Credential=([^,\s]+), ?SignedHeaders=([a-z0-9;_.-]+), ?Signature=([0-9a-f]{64})$"
)


class SignatureProblem(Exception):
    """A signature that AWS would refuse: its error code, and what is wrong in words."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class KnownCredentials:
    """Access key id -> (secret, session token or None): the only keys that this cloud has issued."""

    def __init__(self):
        self._known = {}

    def add(self, access_key, secret, token=None):
        self._known[access_key] = (secret, token or None)

    def get(self, access_key):
        return self._known.get(access_key)

    def clear(self):
        self._known.clear()


def _check_time(timestamp, now):
    if not re.fullmatch(r"\d{8}T\d{6}Z", timestamp or ""):
        raise SignatureProblem("IncompleteSignatureException", f"x-amz-date '{timestamp}' is not YYYYMMDDTHHMMSSZ")
    sent = calendar.timegm(time.strptime(timestamp, "%Y%m%dT%H%M%SZ"))
    if abs(sent - now) > MAX_SKEW_SECONDS:
        raise SignatureProblem("RequestTimeTooSkewed", f"Signature expired: {timestamp} is {sent - now:+.0f} s from the server's time")


def _check_payload(service, headers, body):
    stated = headers.get("x-amz-content-sha256")
    if stated is None:
        if service in ("s3", "s3control"):
            raise SignatureProblem("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
        return
    if stated == "UNSIGNED-PAYLOAD" or stated.startswith("STREAMING-"):
        if service != "s3":
            raise SignatureProblem("InvalidSignatureException", f"x-amz-content-sha256 {stated} is for S3 only")
        return
    actual = hashlib.sha256(body).hexdigest()
    if stated != actual:
        raise SignatureProblem("XAmzContentSHA256Mismatch", f"x-amz-content-sha256 says {stated}, the body has {actual}")


def _check_signed_headers(names, headers):
    if names != sorted(names) or len(set(names)) != len(names):
        raise SignatureProblem("IncompleteSignatureException", f"SignedHeaders are not sorted: {';'.join(names)}")
    if "host" not in names:
        raise SignatureProblem("SignatureDoesNotMatch", "'Host' must be a signed header")
    for name in names:
        if name not in headers:
            raise SignatureProblem("SignatureDoesNotMatch", f"the signed header '{name}' is not in the request")
    for name in headers:
        if name.startswith("x-amz-") and name not in names:
            raise SignatureProblem("AccessDenied", f"There were headers present in the request which were not signed: {name}")


def _check_token(headers, token):
    sent = headers.get("x-amz-security-token")
    if token and sent is None:
        raise SignatureProblem("InvalidClientTokenId", "these are temporary credentials, and no x-amz-security-token is sent")
    if sent is not None and sent != token:
        raise SignatureProblem("InvalidClientTokenId", "x-amz-security-token does not belong to this access key")


def check(method, raw_target, headers, body, service, known, now=None):
    """Raise SignatureProblem unless the signature is what botocore computes for this request."""
    now = time.time() if now is None else now
    found = _AUTHORIZATION.match(headers.get("authorization", ""))
    if not found:
        raise SignatureProblem("IncompleteSignatureException", "the Authorization header is not well formed")
    scope, names, signature = found.group(1), found.group(2).split(";"), found.group(3)
    access_key, date, region, signing_name, _ = scope.split("/", 4)
    credentials = known.get(access_key)
    if credentials is None:
        raise SignatureProblem("UnrecognizedClientException", f"the access key id '{access_key}' was never issued")
    secret, token = credentials
    timestamp = headers.get("x-amz-date")
    _check_time(timestamp, now)
    if timestamp[:8] != date:
        raise SignatureProblem("SignatureDoesNotMatch", f"the credential's date {date} is not that of x-amz-date {timestamp}")
    if service == "iam" and region != "us-east-1":
        raise SignatureProblem("SignatureDoesNotMatch", f"Credential should be scoped to a valid region: IAM is signed us-east-1, not '{region}'")
    _check_signed_headers(names, headers)
    _check_token(headers, token)
    _check_payload(service, headers, body)
    expected = _botocore_signature(method, raw_target, headers, names, body, (secret, region, signing_name, access_key), timestamp)
    if not hmac.compare_digest(expected[0], signature):
        raise SignatureProblem("SignatureDoesNotMatch", "the signature is wrong; botocore's canonical request is:\n" + expected[1])


def _botocore_signature(method, raw_target, headers, names, body, key, timestamp):
    secret, region, signing_name, access_key = key
    signer_class = S3SigV4Auth if signing_name == "s3" else SigV4Auth
    signer = signer_class(Credentials(access_key, secret), signing_name, region)
    request = AWSRequest(method=method, url=f"http://{headers['host']}{raw_target}", data=body)
    for name in names:
        request.headers[name] = headers[name]
    if "x-amz-content-sha256" in headers:
        request.headers["X-Amz-Content-SHA256"] = headers["x-amz-content-sha256"]
    request.context["timestamp"] = timestamp
    # headers_to_sign() leaves some headers out (expect, user-agent ...): the client chose, follow it.
    signer.headers_to_sign = lambda _request: _signed_map(names, headers)
    canonical = signer.canonical_request(request)
    return signer.signature(signer.string_to_sign(request, canonical), request), canonical


def _signed_map(names, headers):
    from botocore.compat import HTTPHeaders

    out = HTTPHeaders()
    for name in names:
        out[name] = headers[name]
    return out
