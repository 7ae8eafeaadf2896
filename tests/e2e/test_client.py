# SPDX-License-Identifier: Apache-2.0
"""The AWS client by itself (call_cli, one call a line), each protocol against each stand-in, through the judging proxy."""

import datetime
import http.server
import ipaddress
import json
import os
import socket
import ssl
import subprocess
import threading
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from binary import tool
from proxy.settings import TEST_ACCESS_KEY, TEST_SECRET

ROLE = "arn:aws:iam::{account}:role/deployer"


class Caller:
    """Runs call_cli with an environment of its own; each call is one run unless many are given."""

    def __init__(self, folder, endpoint):
        self.folder = folder
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ACCESS_KEY_ID": TEST_ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": TEST_SECRET,
        }

    def without(self, *names):
        for name in names:
            del self.env[name]
        return self

    def write(self, name, text):
        path = self.folder / ".aws" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def run(self, lines, stack=None):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        return subprocess.run([tool("call_cli"), json.dumps(stack or {})], input=text, env=self.env, capture_output=True, text=True, timeout=120)

    def many(self, lines, stack=None):
        ran = self.run(lines, stack)
        assert ran.returncode == 0, ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def __call__(self, service, operation, method="GET", path=None, stack=None, **more):
        return self.many([{"service": service, "operation": operation, "method": method, "path": path, **more}], stack)[0]


@pytest.fixture
def caller(cloud, tmp_path):
    return Caller(tmp_path, cloud.url)


LIST_FUNCTIONS = {"service": "lambda", "operation": "ListFunctions", "method": "GET", "path": "/2015-03-31/functions"}


def test_every_protocol(cloud, caller):
    cloud.aws("s3").create_bucket(Bucket="bucket-1")
    answers = caller.many([
        {"account": True},
        {**LIST_FUNCTIONS, "query": [["MaxItems", "50"]]},
        {"service": "ecr", "operation": "DescribeRepositories", "body": "{}"},
        {"service": "logs", "operation": "DescribeLogGroups", "body": '{"logGroupNamePrefix": "/aws/lambda/"}'},
        {"service": "tagging", "operation": "GetResources", "body": '{"ResourceTypeFilters": ["lambda:function"]}'},
        {"service": "iam", "operation": "ListRoles", "body": "&MaxItems=10"},
        {"service": "s3", "operation": "ListObjectsV2", "method": "GET", "bucket": "bucket-1", "path": "/",
         "query": [["list-type", "2"], ["prefix", "registry/a b:ü/"]]},
    ])  # fmt: skip
    assert answers[0]["account"] == cloud.account
    assert [a.get("error") for a in answers] == [None] * 7
    assert [a["status"] for a in answers[1:]] == [200] * 6
    assert len(cloud.calls()) == 7
    cloud.assert_no_violations()


def test_objects_with_hard_names(cloud, caller):
    cloud.aws("s3").create_bucket(Bucket="bucket-1")
    keys = ["plain", "a b", "ü/日本", "with:colon", "per%cent", "plus+plus", "a//b", "x=1&y", "q?r", "~", "a'b(c)*!"]
    if cloud.flavor == "ministack":
        keys.remove("a//b")  # MiniStack merges the slashes
    answers = caller.many([
        {"service": "s3", "operation": "PutObject", "method": "PUT", "bucket": "bucket-1", "path": "/" + key, "body": "text of " + key}
        for key in keys
    ])  # fmt: skip
    assert [(key, a.get("error")) for key, a in zip(keys, answers)] == [(key, None) for key in keys]
    assert all(a["etag"].startswith('"') for a in answers)
    listed = [o["Key"] for o in cloud.aws("s3").list_objects_v2(Bucket="bucket-1")["Contents"]]
    assert sorted(listed) == sorted(keys)
    answers = caller.many([{"service": "s3", "operation": "GetObject", "method": "GET", "bucket": "bucket-1", "path": "/" + k} for k in keys])
    assert [a["body"] for a in answers] == ["text of " + key for key in keys]
    cloud.assert_no_violations()


def test_configuration_document_and_conditional_write(cloud, caller):
    cloud.aws("s3").create_bucket(Bucket="bucket-1")
    rules = ("<LifecycleConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Rule><ID>a</ID><Filter><Prefix>x/</Prefix></Filter>"
             "<Status>Enabled</Status><Expiration><Days>9</Days></Expiration></Rule></LifecycleConfiguration>")  # fmt: skip
    answer = caller("s3", "PutBucketLifecycleConfiguration", "PUT", "/", bucket="bucket-1", query=[["lifecycle", None]], body=rules, checksum=True)
    assert answer.get("error") is None
    assert cloud.aws("s3").get_bucket_lifecycle_configuration(Bucket="bucket-1")["Rules"][0]["Expiration"] == {"Days": 9}
    first, second = caller.many([
        {"service": "s3", "operation": "PutObject", "method": "PUT", "bucket": "bucket-1", "path": "/lock", "body": "x",
         "headers": {"if-none-match": "*"}}
    ] * 2)  # fmt: skip
    assert (first["status"], second["status"], second["code"]) == (200, 412, "PreconditionFailed")
    cloud.assert_no_violations()


def test_errors_of_each_protocol(cloud, caller):
    cloud.aws("s3").create_bucket(Bucket="bucket-1")
    answers = caller.many([
        {"service": "lambda", "operation": "GetFunction", "method": "GET", "path": "/2015-03-31/functions/none"},
        {"service": "ecr", "operation": "DescribeImages", "body": '{"repositoryName": "none"}'},
        {"service": "iam", "operation": "GetRole", "body": "&RoleName=none"},
        {"service": "s3", "operation": "GetObject", "method": "GET", "bucket": "bucket-1", "path": "/none"},
        {"service": "s3", "operation": "HeadObject", "method": "HEAD", "bucket": "bucket-1", "path": "/none"},
    ])  # fmt: skip
    assert [(a["status"], a["code"]) for a in answers] == [
        (404, "ResourceNotFoundException"), (400, "RepositoryNotFoundException"), (404, "NoSuchEntity"), (404, "NoSuchKey"), (404, "NotFound"),
    ]  # fmt: skip
    assert answers[0]["error"].startswith("lambda GetFunction: 404 ResourceNotFoundException (its words are not quoted")
    assert all("\n" not in a["error"] for a in answers)


@pytest.mark.parametrize("fault", [{"kind": "reset"}, {"kind": "lost"}, {"kind": "reset_mid_body"}, {"kind": "truncate"},
                                   {"kind": "error", "status": 503, "code": "ServiceUnavailable"},
                                   {"kind": "error", "status": 500, "code": "ServiceException"},
                                   {"kind": "error", "status": 429, "code": "TooManyRequestsException"}])  # fmt: skip
def test_a_passing_fault_is_tried_again(cloud, caller, fault):
    cloud.faults(({"operation": "ListFunctions", "times": 1}, fault))
    answer = caller.many([LIST_FUNCTIONS])[0]
    assert (answer.get("error"), answer["status"]) == (None, 200)
    assert len(cloud.calls()) == 2


def test_a_lasting_fault_ends_after_three_tries(cloud, caller):
    cloud.faults(({"operation": "ListFunctions"}, {"kind": "error", "status": 503, "code": "ServiceUnavailable", "message": "down"}))
    answer = caller.many([LIST_FUNCTIONS])[0]
    assert answer["error"].startswith("after 3 tries: lambda ListFunctions: 503 ServiceUnavailable (its words are not quoted")
    assert len(cloud.calls()) == 3
    caller.env["AWS_MAX_ATTEMPTS"] = "1"
    caller.many([LIST_FUNCTIONS])
    assert len(cloud.calls()) == 4


def test_throttling_gets_more_patience_and_retry_after_is_honoured(cloud, caller):
    slow = {"kind": "error", "status": 429, "code": "TooManyRequestsException", "message": "Rate exceeded", "retry_after": 2}
    cloud.faults(({"operation": "ListFunctions", "times": 4}, slow))
    begin = time.monotonic()
    assert caller.many([LIST_FUNCTIONS])[0]["status"] == 200
    assert time.monotonic() - begin >= 8
    assert len(cloud.calls()) == 5


def test_an_error_that_is_none_of_these_is_final(cloud, caller):
    cloud.faults(({"operation": "ListFunctions"}, {"kind": "error", "status": 403, "code": "AccessDeniedException", "message": "no"}))
    answer = caller.many([LIST_FUNCTIONS])[0]
    assert "allow lambda:ListFunctions" in answer["error"]
    assert len(cloud.calls()) == 1


def test_a_redirect_is_not_followed(cloud, caller):
    with socket.socket() as trap:
        trap.bind(("127.0.0.1", 0))
        trap.listen()
        trap.settimeout(0.5)
        location = f"http://127.0.0.1:{trap.getsockname()[1]}/steal"
        cloud.faults(({"operation": "ListFunctions"}, {"kind": "redirect", "location": location}))
        answer = caller.many([LIST_FUNCTIONS])[0]
        assert answer["status"] == 307 and "endpoint is AWS's own" in answer["error"] and location not in answer["error"]
        with pytest.raises(TimeoutError):
            trap.accept()


def test_a_clock_that_is_wrong_is_corrected_once(cloud, caller):
    cloud.settings(clock_skew_s=3600)
    answers = caller.many([LIST_FUNCTIONS, LIST_FUNCTIONS])
    assert [a.get("error") for a in answers] == [None, None]
    assert [c["status"] for c in cloud.calls()][1:] == [200, 200]


def test_the_quota_is_used_nearly_whole_and_never_exceeded(cloud, caller):
    cloud.throttle()
    count = 60
    begin = time.monotonic()
    answers = caller.many([LIST_FUNCTIONS] * count)
    took = time.monotonic() - begin
    assert {a["status"] for a in answers} == {200}
    assert len(cloud.calls()) == count, "throttled calls were tried again"
    # A burst counts from its answers, which are late on a busy machine.
    assert took <= 1.5 * count / 15 + 3, took


def test_profiles_and_roles(cloud, caller):
    role = ROLE.format(account=cloud.account)
    trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}]}
    cloud.aws("iam").create_role(RoleName="deployer", AssumeRolePolicyDocument=json.dumps(trust))
    caller.write("credentials", f"[base]\naws_access_key_id = {TEST_ACCESS_KEY}\naws_secret_access_key = {TEST_SECRET}\n")
    caller.write("config", f"[profile work]\nrole_arn = {role}\nsource_profile = base\nrole_session_name = tests\nregion = us-east-1\n")
    caller.without("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    caller.env["AWS_PROFILE"] = "work"
    assumed = caller.many([{"account": True}, LIST_FUNCTIONS])
    assert assumed[0]["arn"].endswith(":assumed-role/deployer/tests"), assumed
    assert assumed[1]["status"] == 200
    assert [c["operation"] for c in cloud.calls()] == ["AssumeRole", "GetCallerIdentity", "ListFunctions"]
    by_stack = caller.many([{"account": True}], {"profile": "base", "assumeRole": role})
    assert ":assumed-role/deployer/berth-" in by_stack[0]["arn"], by_stack
    cloud.assert_no_violations()


def test_messages_say_what_to_do(tmp_path):
    caller = Caller(tmp_path, "http://127.0.0.1:1")
    caller.env["AWS_MAX_ATTEMPTS"] = "1"
    unreachable = caller.many([LIST_FUNCTIONS])[0]["error"]
    assert "127.0.0.1:1" in unreachable and "AWS_ENDPOINT_URL" in unreachable
    caller.env["AWS_ENDPOINT_URL_LAMBDA"] = "ftp://x"
    assert "AWS_ENDPOINT_URL_LAMBDA" in caller.run([]).stderr
    caller.without("AWS_ENDPOINT_URL_LAMBDA", "AWS_REGION")
    assert "no AWS region" in caller.run([]).stderr
    caller.env["AWS_REGION"] = "us-east-1"
    caller.without("AWS_SECRET_ACCESS_KEY")
    assert "AWS_SECRET_ACCESS_KEY is not" in caller.many([LIST_FUNCTIONS])[0]["error"]
    caller.without("AWS_ACCESS_KEY_ID")
    nothing = caller.many([LIST_FUNCTIONS])[0]["error"]
    assert "no AWS credentials found" in nothing and str(tmp_path / ".aws/credentials") in nothing
    caller.env["AWS_PROFILE"] = "nobody"
    assert "the profile nobody, named by AWS_PROFILE" in caller.many([LIST_FUNCTIONS])[0]["error"]


def test_an_answer_that_never_ends_is_cut_off(tmp_path):
    """A server that announces more than the limit, and one that says nothing at all after accepting."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n")
                try:
                    while True:
                        connection.sendall(b" " * 65536)
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        caller = Caller(tmp_path, f"http://127.0.0.1:{server.getsockname()[1]}")
        answer = caller.many([LIST_FUNCTIONS])[0]
        assert "exceeds 16777216 bytes" in answer["error"]
        thread.join(10)


def certificate(folder, address):
    """A self-signed certificate for the address: (PEM of the certificate, PEM of both)."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "berth tests")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    public = made.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / f"{address}.pem").write_bytes(public)
    (folder / f"{address}.both").write_bytes(public + private)
    return folder / f"{address}.pem", folder / f"{address}.both"


class _Empty(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@pytest.mark.parametrize(("named", "trusted", "works"), [("127.0.0.1", True, True), ("127.0.0.1", False, False), ("127.0.0.2", True, False)])
def test_certificates_are_verified(tmp_path, named, trusted, works):
    public, both = certificate(tmp_path, named)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Empty)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        caller = Caller(tmp_path, f"https://127.0.0.1:{server.server_address[1]}")
        if trusted:
            caller.env["AWS_CA_BUNDLE"] = str(public)
        answer = caller.many([LIST_FUNCTIONS])[0]
        if works:
            assert (answer.get("error"), answer["status"]) == (None, 200)
        else:
            assert "no trusted TLS connection to 127.0.0.1" in answer["error"] and "AWS_CA_BUNDLE" in answer["error"]
    finally:
        server.shutdown()
        server.server_close()
