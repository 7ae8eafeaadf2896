# SPDX-License-Identifier: Apache-2.0
"""What a test holds of a cloud: its clients, the calls that were made, and the proxy's controls."""

import json
import os
import threading
import time

import boto3
from botocore.config import Config

from images import Pushes
from controllers import wait_until
from proxy.settings import TEST_ACCESS_KEY, TEST_SECRET
from servers import http

REGION = "us-east-1"
_session = boto3.session.Session()  # one, for it reads the services' files once; it makes one client at a time
_making = threading.Lock()
_clients = {}


def _observe(request, **_):
    request.headers["x-berth-observer"] = "1"


def _client(service, url, observer, retries=0):
    key = (service, url, observer, retries)
    if key not in _clients:
        config = Config(
            retries={"mode": "standard", "total_max_attempts": retries + 1},
            s3={"addressing_style": "path"},
            proxies={},
            read_timeout=60,
            max_pool_connections=32,
        )
        with _making:
            client = _session.client(
                service, endpoint_url=url, region_name=REGION, aws_access_key_id=TEST_ACCESS_KEY,
                aws_secret_access_key=TEST_SECRET, config=config,
            )  # fmt: skip
        if observer:
            client.meta.events.register("before-send", _observe)
        _clients[key] = client
    return _clients[key]


def is_note(call):
    return call["operation"] == "PutObject" and call["params"].get("Key", "").startswith("berth/lineages/")


class Cloud:
    """
    aws(service)      boto3 as AWS shows things (states, revisions, pages): through the proxy, unseen by it
    direct(service)   boto3 straight to the stand-in, past the proxy
    client(service)   boto3 through the proxy, judged, recorded and spoilt like any client
    """

    region = REGION

    def __init__(self, standin, proxy):
        self.standin, self.flavor, self.account = standin, standin.flavor, standin.account
        self.url = proxy.url
        self.pushes = Pushes(self)
        self._violations_expected = False

    def aws(self, service):
        return _client(service, self.url, True, retries=2)

    def direct(self, service):
        return _client(service, self.standin.url, False, retries=2)

    def client(self, service, retries=0):
        return _client(service, self.url, False, retries)

    def environment(self, home):
        """Of a program of the tests that asks it as Berth does, and of nothing else that this process has."""
        return {
            "PATH": os.environ["PATH"], "HOME": str(home), "AWS_ENDPOINT_URL": self.url, "AWS_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": TEST_ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": TEST_SECRET,
            **{name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")},
        }  # fmt: skip

    # --- the proxy's record ---

    def _get(self, name):
        return json.loads(http("GET", f"{self.url}/_proxy/{name}")[1])

    def _post(self, name, value=None):
        status, body = http("POST", f"{self.url}/_proxy/{name}", json.dumps(value).encode())
        if status != 200:
            raise ValueError(json.loads(body)["error"])

    def mark(self):
        """A point in the record; pass it to calls() and changing_calls()."""
        return len(self._get("calls"))

    def calls(self, since=0, service=None, operation=None):
        return [
            call for call in self._get(f"calls?since={since}")
            if service in (None, call["service"]) and operation in (None, call["operation"])
        ]  # fmt: skip

    def changing_calls(self, since=0, notes=False):
        """What changes anything; but for the note that each apply renews (berth/lineages/UUID), unless `notes`."""
        return [call for call in self.calls(since) if call["mutating"] and (notes or not is_note(call))]

    def await_call(self, process, operation, count=1, since=0):
        """Until a program, which must not end before, has made this number of these calls."""

        def is_made():
            made = len(self.calls(since, operation=operation)) >= count
            assert made or process.poll() is None, process.communicate()
            return made

        wait_until(is_made, step=0.02)

    def violations(self):
        return self._get("violations")

    def expect_violations(self):
        """The test provokes them itself: do not fail it at its end."""
        self._violations_expected = True

    def assert_no_violations(self):
        found = self.violations()
        if found and not self._violations_expected:
            text = "\n".join(f"  {v['service']}.{v['operation']} {v['url']}\n      {v['text']}" for v in found[:20])
            raise AssertionError(f"{len(found)} requests that AWS would refuse:\n{text}")

    # --- the proxy's controls ---

    def settings(self, **changes):
        self._post("settings", changes)

    def throttle(self, **changes):
        self._post("settings", {"throttle": {"enabled": True, **changes}})

    def faults(self, *rules):
        """Each rule: ({"operation": ...}, {"kind": ...}); see proxy/faults.py."""
        self._post("faults", [{"match": match, "action": action} for match, action in rules])

    def fault_hits(self):
        return [rule["hits"] for rule in self._get("faults")]

    def issue_credentials(self, access_key, secret, token=None):
        self._post("credentials", {"access_key": access_key, "secret": secret, "token": token})

    def await_quiet(self):
        """What a program that was killed had sent may still be on its way: it must not arrive in the next test's cloud."""
        for _ in range(400):
            if self._get("health")["busy"] == 0:
                break
            time.sleep(0.1)

    def reset(self):
        self.await_quiet()
        self.standin.reset()
        self._post("reset")

    # --- shorthands ---

    def image_uri(self, repository, tag=None, digest=None):
        suffix = f"@{digest}" if digest else f":{tag or 'latest'}"
        return f"{self.account}.dkr.ecr.{REGION}.amazonaws.com/{repository}{suffix}"

    def lambda_role(self, name="test-role"):
        """A role that Lambda can assume; its ARN."""
        trust = {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}],
        }
        return self.aws("iam").create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]

    def functions(self, prefix=""):
        """Every function's configuration by name, as ListFunctions shows it."""
        pages = self.aws("lambda").get_paginator("list_functions").paginate()
        return {f["FunctionName"]: f for page in pages for f in page["Functions"] if f["FunctionName"].startswith(prefix)}
