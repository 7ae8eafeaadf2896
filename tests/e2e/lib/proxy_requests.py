# SPDX-License-Identifier: Apache-2.0
"""Requests that the proxy judges."""

import urllib.request

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from proxy.settings import TEST_ACCESS_KEY, TEST_SECRET


def send(cloud, method, path, service, body=b"", headers=None, secret=TEST_SECRET, key=TEST_ACCESS_KEY, token=None, region="us-east-1", after=None):
    """One signed request by hand: (status, text). `after(request)` spoils it once it is signed."""
    request = AWSRequest(method=method, url=cloud.url + path, data=body, headers=headers or {})
    signer = S3SigV4Auth if service == "s3" else SigV4Auth
    signer(Credentials(key, secret, token), service, region).add_auth(request)
    if after:
        after(request)
    plain = urllib.request.Request(request.url, data=body or None, method=method, headers=dict(request.headers.items()))
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(plain, timeout=30) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def expect_violation(cloud, words):
    found = cloud.violations()
    assert len(found) == 1, found
    assert words in found[0]["text"]
    cloud.expect_violations()
