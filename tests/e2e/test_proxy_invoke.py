# SPDX-License-Identifier: Apache-2.0
"""Invoke as the proxy answers it: berth-runtime in environments like Lambda's, and all that AWS may do to them. Asked by boto3."""

import base64
import concurrent.futures
import json
import urllib.error
import urllib.request
import uuid

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lib.proxy_functions import make, refused, wait  # noqa: F401
from proxy.environments import ENTRY
from proxy.settings import TEST_ACCESS_KEY, TEST_SECRET
from runtime_api import Answer, Session, read_messages
from runtime_client import wait_until
from servers import open_url

pytestmark = pytest.mark.sampled("moto")

PER_TENANT = {"TenantIsolationMode": "PER_TENANT"}
ITS_RUNTIME = {"EntryPoint": [ENTRY, "lambda"]}


class Done:
    """What came of an Invoke, for runtime_api.Answer."""

    def __init__(self, event, body, error=None):
        self.event, self.body, self.error = json.dumps(event).encode(), body, error

    def messages(self):
        assert self.error is None, (self.error, self.body[:1000])
        if self.body.startswith(b"{"):
            return read_messages(base64.b64decode(json.loads(self.body)["messages"], validate=True))
        return read_messages(self.body)


class Caller(Session):
    """A session at a function, as Berth asks for it, by boto3."""

    def __init__(self, cloud, function="f", name="s-abc", tenant=True, **members):
        super().__init__(None, name, tenant, **members)
        self.client, self.function = cloud.client("lambda"), function

    def invoke(self, event, streams=True):
        words = {"FunctionName": self.function, "Payload": json.dumps(event).encode(), **({"TenantId": self.tenant} if self.tenant else {})}
        if not streams:
            answer = self.client.invoke(**words)
            return Done(event, answer["Payload"].read(), answer.get("FunctionError"))
        body, error, over = b"", None, False
        for said in self.client.invoke_with_response_stream(**words)["EventStream"]:
            assert not over
            body += said.get("PayloadChunk", {}).get("Payload", b"")
            if "InvokeComplete" in said:
                over, error = True, said["InvokeComplete"].get("ErrorCode")
        assert over
        return Done(event, body, error)

    def run(self, code="", streams=True, **members):
        return self.finish(self.invoke(self.event(code, **members), streams))


@pytest.fixture
def function(cloud, make):  # noqa: F811
    cloud.settings(pending_s=0)

    def create(name="f", tenants=True, **fields):
        fields = {"ImageConfig": ITS_RUNTIME, "Timeout": 60, "TenancyConfig": PER_TENANT if tenants else None, **fields}
        make(name, **{key: value for key, value in fields.items() if value is not None})
        wait(cloud, name)
        return name

    return create


def environments(cloud):
    return cloud._get("environments")


def idle(cloud, count=1):
    wait_until(lambda: len(environments(cloud)) == count and not any(one["busy"] for one in environments(cloud)), "environments are idle")
    return environments(cloud)


def test_variables_stay_streamed_and_not(cloud, function):
    function(Environment={"Variables": {"GREETING": "hello"}})
    session = Caller(cloud)
    assert session.ok("import os\nx = os.environ['GREETING']\nprint(x)").stdout == b"hello\n"
    (first,) = idle(cloud)
    assert first["frozen"] and first["tenant"] == "s-abc" and first["served"] == 1
    assert session.ok("x", streams=False, answer="buffered").text == "'hello'"
    (second,) = idle(cloud)
    assert second["folder"] == first["folder"] and second["served"] == 2
    assert session.ok("x * 2").state["was"] == "kept"
    assert [call["operation"] for call in cloud.calls(service="lambda") if call["operation"].startswith("Invoke")] == ["InvokeWithResponseStream", "Invoke", "InvokeWithResponseStream"]


def test_tenants_have_environments_of_their_own(cloud, function):
    function()
    one, two = Caller(cloud, name="s-one"), Caller(cloud, name="s-two")
    one.ok("x = 1")
    assert two.run("x").status == "error"
    assert {held["tenant"] for held in idle(cloud, 2)} == {"s-one", "s-two"}


def test_two_at_once_for_one_tenant(cloud, function):
    function()
    session = Caller(cloud)
    code = "import time\ntime.sleep(1)\nprint('over')"
    events = [session.event(code, n=n) for n in (1, 2)]
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        answers = [Answer(done, n) for n, done in enumerate(threads.map(session.invoke, events), 1)]
    assert [answer.stdout for answer in answers] == [b"over\n"] * 2
    assert len({answer.end["boot"] for answer in answers}) == 2 and len(idle(cloud, 2)) == 2


def test_what_is_lost_restarted_or_never_used_twice(cloud, function):
    function()
    session = Caller(cloud)
    session.ok("x = 1")
    idle(cloud)
    cloud._post("environments", {"do": "restart"})
    reset = session.run("x")
    assert (reset.end["was"], reset.state["was"]) == ("reset", "lost")
    idle(cloud)
    cloud._post("environments", {"do": "lose", "tenant": "s-abc"})
    assert environments(cloud) == []
    lost = session.run("1")
    assert (lost.end["was"], lost.state["was"]) == ("new", "lost") and lost.end["boot"] != reset.end["boot"]
    cloud.settings(fresh_environments=True)
    boots = {session.run("1").end["boot"] for _ in range(2)}
    wait_until(lambda: environments(cloud) == [], "nothing is kept")
    assert len(boots | {reset.end["boot"]}) == 3


def test_a_timeout_and_a_runtime_that_ends(cloud, function):
    name = function()
    session = Caller(cloud)
    kill = "import os, signal\nfor name in os.listdir('/proc'):\n  if name.isdigit() and b'lambda' in open(f'/proc/{name}/cmdline', 'rb').read(): os.kill(int(name), signal.SIGKILL)\nimport time\ntime.sleep(60)"
    done = session.invoke(session.event(kill))
    assert done.error in ("Runtime.ExitError", "Runtime.TruncatedResponse"), "which of both is seen first is not said"
    idle(cloud)
    # The runtime ends what it runs before Lambda's deadline, so the time is up only where it stands still.
    cloud.client("lambda").update_function_configuration(FunctionName=name, Timeout=10)
    wait(cloud, name)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(session.invoke, session.event("import time\ntime.sleep(60)", n=2, timeoutMs=900000))
        wait_until(lambda: len(cloud._get("invocations")) == 2, "it runs")
        cloud._post("environments", {"do": "freeze"})
        assert waiting.result().error == "Sandbox.Timedout"
    cloud.client("lambda").update_function_configuration(FunctionName=name, Timeout=60)
    wait(cloud, name)
    assert session.run("1", n=3).status == "ok"


def test_limits_and_refusals(cloud, function):
    function()
    function("plain", tenants=False, ImageConfig=ITS_RUNTIME)
    session = Caller(cloud)
    client = cloud.client("lambda")
    event = json.dumps(session.event("1")).encode()
    refused("InvalidParameterValueException", client.invoke, FunctionName="f", Payload=event)
    refused("InvalidParameterValueException", client.invoke, FunctionName="plain", Payload=event, TenantId="s-abc")
    refused("ResourceNotFoundException", client.invoke, FunctionName="none", Payload=event, TenantId="s-abc")
    cloud.settings(invocations_at_once=0)
    throttled = refused("TooManyRequestsException", client.invoke, FunctionName="f", Payload=event, TenantId="s-abc")
    assert throttled["Reason"] == "ConcurrentInvocationLimitExceeded" and throttled["ResponseMetadata"]["HTTPStatusCode"] == 429
    cloud.settings(invocations_at_once=10, has_streams=False)
    with pytest.raises(ClientError):
        session.run("1")
    assert session.run("1", streams=False, answer="buffered").text == "1"
    assert environments(cloud) and cloud.violations() == []


@pytest.mark.parametrize("kind", ["lost", "truncate", "reset_mid_body"])
def test_the_line_is_cut_after_the_code_ran(cloud, function, kind):
    function()
    session = Caller(cloud)
    cloud.faults(({"operation": "Invoke", "times": 1}, {"kind": kind}))
    with pytest.raises(Exception, match="closed|reset|IncompleteRead|Connection|Read"):
        session.run("x = 1", streams=False, answer="buffered")
    session.previous, session.n = None, 1
    idle(cloud)
    again = session.run("x", n=1, streams=False, answer="buffered")
    assert again.end["refused"] == "repeated"


def test_presigned_requests_are_judged(cloud):
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="data-1")
    s3.put_object(Bucket="data-1", Key="a/ö x.txt", Body=b"hello")
    signer = boto3.client("s3", endpoint_url=cloud.url, region_name=cloud.region, aws_access_key_id=TEST_ACCESS_KEY, aws_secret_access_key=TEST_SECRET,
                          config=Config(signature_version="s3v4", s3={"addressing_style": "path"}))  # fmt: skip
    url = signer.generate_presigned_url("get_object", Params={"Bucket": "data-1", "Key": "a/ö x.txt"}, ExpiresIn=60)
    assert "X-Amz-Algorithm" in url, url
    with open_url(urllib.request.Request(url)) as answer:
        assert answer.read() == b"hello"
    conditions = [["starts-with", "$key", "a/b/"], ["content-length-range", 0, 5], {"tagging": "<Tagging><TagSet><Tag><Key>k</Key><Value>a+b c</Value></Tag></TagSet></Tagging>"}]
    form = signer.generate_presigned_post("data-1", "a/b/${filename}", Fields={"tagging": conditions[2]["tagging"]}, Conditions=conditions, ExpiresIn=60)

    def post(data=b"12345", **fields):
        mark = uuid.uuid4().hex
        said = {**form["fields"], "key": "a/b/c", **fields}
        text = "".join(f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in said.items() if value is not None)
        body = text.encode() + f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'.encode() + data + f"\r\n--{mark}--\r\n".encode()
        request = urllib.request.Request(form["url"], body, {"Content-Type": f"multipart/form-data; boundary={mark}"}, method="POST")
        try:
            with open_url(request) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    assert post() == 204
    assert s3.get_object(Bucket="data-1", Key="a/b/c")["Body"].read() == b"12345"
    assert s3.get_object_tagging(Bucket="data-1", Key="a/b/c")["TagSet"] == [{"Key": "k", "Value": "a+b c"}]
    assert [post(key="a/c"), post(b"123456"), post(tagging=None), post(acl="public-read"), post(policy=form["fields"]["policy"][:-8] + "AAAAAAA=")] == [403, 400, 403, 403, 403]
    for wrong in (url.replace("/a/", "/b/"), url[:-1] + ("0" if url[-1] != "0" else "1")):
        with pytest.raises(urllib.error.HTTPError) as caught:
            open_url(urllib.request.Request(wrong))
        assert caught.value.code == 403
    cloud.settings(clock_skew_s=61)
    with pytest.raises(urllib.error.HTTPError) as caught:
        open_url(urllib.request.Request(url))
    assert caught.value.code == 403 and post() == 403
    assert all("Signature=-" in call["url"] or "Signature" not in call["url"] for call in cloud.calls())
    assert {call["presigned"] for call in cloud.calls(operation="GetObject")} == {True, False} and cloud.violations() == []
