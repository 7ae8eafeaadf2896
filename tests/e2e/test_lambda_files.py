# SPDX-License-Identifier: Apache-2.0
"""
Files of a session on Lambda: brought in and out by presigned requests over TLS, with an authority of the tests beside the runtime. The
bucket is a server of this file's, that takes what S3 would take of a presigned GET and of a POST policy, and counts.
"""

import contextlib
import hashlib
import http.server
import json
import os
import ssl
import threading
import urllib.parse

import pytest

from certificates import Authority, pem_of_key
from runtime_api import Environment, RuntimeApi, Session, read_messages

SIGNATURE = "X-Amz-Signature=not-to-be-seen-by-code"
WORKSPACE, TRANSFER = "workspaces/sessions/s-abc/workspace/", "workspaces/sessions/s-abc/transfer/"


class Bucket:
    def __init__(self, folder, tls=True):
        self.objects, self.calls, self.faults, self.lock = {}, [], [], threading.Lock()
        bucket = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *unused):
                pass

            def say(self, status, body=b""):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def fault(self, kind, key):
                with bucket.lock:
                    for fault in bucket.faults:
                        if fault[0] == kind and key.startswith(fault[1]) and fault[3] > 0:
                            fault[3] -= 1
                            return fault[2]
                return None

            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                key = urllib.parse.unquote(url.path[1:])
                bucket.calls.append(("GET", key))
                fault = self.fault("GET", key)
                if fault:
                    return self.say(fault, b"<Error><Code>Fault</Code></Error>")
                if url.query != SIGNATURE:
                    return self.say(403, b"<Error><Code>AccessDenied</Code></Error>")
                return self.say(200, bucket.objects[key]) if key in bucket.objects else self.say(404)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                boundary = self.headers["Content-Type"].split("boundary=")[1].encode()
                fields = []
                assert body.endswith(b"\r\n--" + boundary + b"--\r\n")
                for part in body[: -len(boundary) - 8].split(b"--" + boundary + b"\r\n")[1:]:
                    head, _, value = part.partition(b"\r\n\r\n")
                    name = head.split(b'name="')[1].split(b'"')[0].decode()
                    fields.append((name, value if name == "file" else value[:-2]))
                said = dict(fields)
                key, data = said["key"].decode(), said["file"]
                bucket.calls.append(("POST", key))
                assert [name for name, _ in fields][-1] == "file" and len(said) == len(fields)
                fault = self.fault("POST", key)
                if fault:
                    return self.say(fault, b"<Error><Code>Fault</Code></Error>")
                if said.get("policy") != b"of " + key[: len(said["policy"]) - 3].encode() or said.get("x-amz-signature") != b"signed":
                    return self.say(403, b"<Error><Code>AccessDenied</Code></Error>")
                bucket.objects[key] = data
                return self.say(204)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *unused):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.authority = Authority(folder)
        if tls:
            _, certificate, key = self.authority.issue("localhost")
            (folder / "server.pem").write_bytes(certificate + pem_of_key(key))
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / "server.pem")
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if tls else 'http'}://localhost:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def get(self, key, data=None):
        data = self.objects[key] if data is None else data
        return {"get": self.url + urllib.parse.quote(key) + "?" + SIGNATURE, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    def policy(self, prefix):
        return {"url": self.url, "prefix": prefix, "fields": {"policy": "of " + prefix, "x-amz-signature": "signed"}}

    def listing(self):
        return [{"path": key.removeprefix(WORKSPACE), **self.get(key)} for key in sorted(self.objects) if key.startswith(WORKSPACE)]


class FilesSession(Session):
    """Berth's part: says what there is, and deletes what was deleted."""

    def __init__(self, api, bucket):
        super().__init__(api)
        self.bucket, self.limits = bucket, {"maxBytes": 10 << 20, "maxFiles": 1000}

    def event(self, code="", n=None, **members):
        members.setdefault("workspace", {"files": self.bucket.listing(), "put": self.bucket.policy(WORKSPACE), **self.limits})
        members.setdefault("transfer", self.bucket.policy(f"{TRANSFER}{n or self.n + 1}/"))
        return super().event(code, n, **members)

    def finish(self, invocation):
        answer = super().finish(invocation)
        for file in answer.files:
            if file["fate"] == "deleted":
                del self.bucket.objects[WORKSPACE + file["path"]]
        return answer


def fates(answer):
    return sorted((file["fate"], file["path"]) for file in answer.files)


@pytest.fixture
def session(program, tmp_path):
    with contextlib.ExitStack() as stack:
        bucket = Bucket(tmp_path)
        stack.callback(bucket.close)
        api = RuntimeApi()
        stack.callback(api.close)
        environment = Environment(program, api, authorities=bucket.authority.file)
        stack.callback(environment.close)
        environment.wait_ready()
        made = FilesSession(api, bucket)
        made.environment = environment
        yield made


def test_what_changed_goes_out_and_what_is_lacking_comes_in(session):
    bucket = session.bucket
    bucket.objects[WORKSPACE + "data/in.csv"] = b"a,b\n"
    answer = session.ok("import os\nopen('out.txt', 'w').write(open('data/in.csv').read() * 2)\nos.makedirs('d/é')\nopen('d/é/x y', 'wb').write(bytes(range(256)))")
    assert fates(answer) == [("changed", "d/é/x y"), ("changed", "out.txt")] and answer.end["files"]["complete"]
    assert bucket.objects[WORKSPACE + "out.txt"] == b"a,b\na,b\n" and bucket.objects[WORKSPACE + "d/é/x y"] == bytes(range(256))
    assert {file["path"]: file["sha256"] for file in answer.files}["out.txt"] == hashlib.sha256(b"a,b\na,b\n").hexdigest()
    bucket.calls.clear()
    # Nothing moves that is alike on both sides, and one object says what came of it.
    answer = session.ok("1")
    assert answer.files == [] and bucket.calls == [("POST", f"{TRANSFER}2/result")]
    # The environment is lost: all is there in the next one.
    session.environment.lose()
    session.environment.wait_ready()
    assert session.ok("open('out.txt').read(), len(open('d/é/x y', 'rb').read())").text == "('a,b\\na,b\\n', 256)"


def test_the_result_is_left_and_is_the_answer(session):
    answer = session.ok("print('said'); 42")
    left = read_messages(session.bucket.objects[f"{TRANSFER}1/result"])
    assert left == answer.invocation.messages() and answer.end["leftResult"] is True and left[-1][0]["type"] == "end"
    # Who asks again, and who comes too late, does not write over it.
    event = json.loads(answer.invocation.event)
    for change in ({}, {"startedAtMs": 1}):
        again = session.finish(session.api.invoke({**event, **change}, session.tenant))
        assert again.end["refused"] == "repeated" and again.end["leftResult"] is False
    session.ok("1")
    assert session.finish(session.api.invoke(event, session.tenant)).end["refused"] == "repeated"
    assert read_messages(session.bucket.objects[f"{TRANSFER}1/result"]) == left


def test_deletions_both_ways(session):
    bucket = session.bucket
    session.ok("for name in 'abc': open(name, 'w').write(name)")
    answer = session.ok("import os; os.unlink('a')")
    assert fates(answer) == [("deleted", "a")]
    del bucket.objects[WORKSPACE + "b"]
    assert session.ok("sorted(os.listdir())").text == "['c']"
    bucket.objects[WORKSPACE + "c"] = b"from outside"
    assert session.ok("open('c').read()").text == "'from outside'"
    # Gone after it was listed, as by a lifecycle rule.
    event = session.event("sorted(os.listdir())")
    event["workspace"]["files"].append({"path": "rule", **bucket.get(WORKSPACE + "rule", b"x")})
    answer = session.finish(session.api.invoke(event, session.tenant))
    assert ("gone", "rule") in fates(answer) and answer.text == "['c']"


def test_what_was_not_looked_at_is_not_taken_for_deleted(session):
    keys = [f"{WORKSPACE}all/{number}/file" for number in range(300)]
    session.bucket.objects.update(dict.fromkeys(keys, b"x"))
    answer = session.ok("import os\nopen('all/299/more', 'w').close()\nopen('all/0/more', 'w').close()")
    assert fates(answer) == [("changed", "all/0/more"), ("changed", "all/299/more")]
    answer = session.ok("os.chmod('all/7', 0)")
    assert fates(answer) == [("skipped", "all/7")] and set(keys) <= set(session.bucket.objects)
    answer = session.ok("os.chmod('all/7', 0o700)")
    assert fates(answer) == [] and set(keys) <= set(session.bucket.objects)
    deep = "here = os.getcwd()\nfor i in range(70): os.mkdir('d' * 250); os.chdir('d' * 250)\nopen('f', 'w').close(); os.chdir(here); open('g', 'w').close()"
    answer = session.ok(deep)
    assert answer.end["files"]["complete"] and [fate for fate, _ in fates(answer)] == ["changed", "skipped"]


def test_what_cannot_go_out_is_said(session):
    session.limits = {"maxBytes": 1000, "maxFiles": 3}
    answer = session.ok("import os\nos.symlink('/etc/passwd', 'link'); os.mkfifo('pipe'); open(b'\\xff', 'w').close(); open('large', 'wb').write(bytes(2000)); open('small', 'w').write('x')")
    said = {file["path"]: file["reason"] for file in answer.files if file["fate"] == "skipped"}
    assert said == {"link": "it is no regular file", "pipe": "it is no regular file", "\\udcff": "its name is not UTF-8", "large": "there is no room for it in the workspace"}
    assert [key for key in session.bucket.objects if key.startswith(WORKSPACE)] == [WORKSPACE + "small"]


def test_links_lead_nowhere(session):
    """What the bucket has under a name that code has made a link: nothing outside of the workspace is written, or read."""
    session.environment.temporary.joinpath("outside").mkdir(mode=0o777)
    session.ok("import os; os.symlink('/tmp/outside', 'd')")
    session.bucket.objects[WORKSPACE + "d/file"] = b"in"
    answer = session.run("1")
    assert list(session.environment.temporary.joinpath("outside").iterdir()) == []
    assert ("skipped", "d/file") in fates(answer)


def test_a_bucket_that_fails(session):
    bucket = session.bucket
    bucket.objects[WORKSPACE + "in"] = b"x"
    bucket.faults.append(["GET", WORKSPACE, 503, 2])
    assert session.ok("open('in').read()").text == "'x'"
    bucket.faults[:] = [["POST", WORKSPACE, 500, 100]]
    answer = session.ok("open('out', 'w').write('y')")
    assert not answer.end["files"]["complete"] and "answered 500" in answer.end["files"]["reason"] and fates(answer) == [("skipped", "out")]
    bucket.faults.clear()
    assert fates(session.ok("1")) == [("changed", "out")]
    # What cannot be brought in is not run over.
    bucket.objects[WORKSPACE + "more"] = b"z"
    bucket.faults[:] = [["GET", WORKSPACE, 403, 1]]
    answer = session.run("open('ran', 'w')")
    assert answer.end["refused"] == "failed" and "403 Fault" in answer.refused and answer.done is None
    bucket.faults.clear()
    listing = session.event("1")
    listing["workspace"]["files"][0]["sha256"] = "0" * 64
    answer = session.finish(session.api.invoke(listing, session.tenant))
    assert answer.end["refused"] == "failed" and "not what it should be" in answer.refused
    assert session.ok("import os; sorted(os.listdir())").text == "['in', 'more', 'out']"


def test_only_who_is_vouched_for_gets_the_requests(session, tmp_path):
    (tmp_path / "other").mkdir()
    other = Bucket(tmp_path / "other")
    try:
        other.objects[WORKSPACE + "x"] = b"x"
        session.bucket = other
        answer = session.run("1")
        assert answer.end["refused"] == "failed" and "CERTIFICATE_VERIFY_FAILED" in answer.refused
        assert other.calls == []
    finally:
        other.close()


def test_more_files_than_fit_are_a_list_that_is_fetched(session):
    bucket = session.bucket
    for number in range(300):
        bucket.objects[f"{WORKSPACE}many/{number}"] = b"%d" % number
    data = json.dumps(bucket.listing()).encode()
    bucket.objects[TRANSFER + "1/list"] = data
    workspace = {"files": [], "more": bucket.get(TRANSFER + "1/list"), "put": bucket.policy(WORKSPACE), **session.limits}
    answer = session.ok("import os\nfor i in range(300): open(f'made-{i}', 'w').write(str(i))\nlen(os.listdir('many')), open('many/299').read()", workspace=workspace)
    assert answer.text == "(300, '299')" and len(answer.files) == 300
    bucket.objects[TRANSFER + "1/list"] = data + b" "
    assert session.run("1", workspace=workspace).end["refused"] == "failed"


def test_code_sees_no_request(session):
    """What stays behind looks at all that it can of what moves files, all the time."""
    session.ok("""
import os, subprocess, sys
spy = '''
import os, time
found = set()
while not os.path.exists('/tmp/stop'):
    for pid in filter(str.isdigit, os.listdir('/proc')):
        for name in ('cmdline', 'environ', 'mem', 'fd'):
            try:
                path = f'/proc/{pid}/{name}'
                data = b''.join(open(f'{path}/{fd}', 'rb').read(1 << 20) for fd in os.listdir(path) if not os.readlink(f'{path}/{fd}').startswith(('pipe', '/dev', 'socket', 'anon'))) if name == 'fd' and int(pid) != os.getpid() else open(path, 'rb').read(1 << 20)
            except OSError:
                continue
            if (b'not-to-be' + b'-seen') in data: found.add((pid, name))
open('/tmp/found', 'w').write(repr(sorted(found)))
'''
_ = subprocess.Popen([sys.executable, '-c', spy.replace("b'not-to-be' + b'-seen'", "bytes([110, 111, 116]) + b'-to-be-seen'")], start_new_session=True)
""")
    for number in range(4):
        session.bucket.objects[f"{WORKSPACE}in-{number}"] = os.urandom(1000)
        session.ok(f"open('out-{number}', 'w').write('x')")
    session.ok("open('/tmp/stop', 'w').close()\nimport time\nwhile not os.path.exists('/tmp/found') or not open('/tmp/found').read(): time.sleep(0.05)")
    assert session.environment.temporary.joinpath("found").read_text() == "[]"


def test_code_cannot_become_what_moves_files(session):
    """What stays behind writes another program into that of what moves files, before it has begun."""
    session.ok("""
import subprocess, sys
spy = '''
import gzip, os, time
lie = gzip.compress(b"import os, socket; s = socket.socket(fileno=3); s.sendall(b'{" + bytes([34]) + b"ready" + bytes([34]) + b": true}" + bytes([92]) + b"n'); d = s.recv(1 << 20); open('/tmp/stolen', 'wb').write(d); s.sendall(b'{" + bytes([34]) + b"ok" + bytes([34]) + b": true}" + bytes([92]) + b"n')")
while not os.path.exists('/tmp/stop'):
    for pid in [pid for pid in os.listdir('/proc') if pid.isdigit() and int(pid) != os.getpid()]:
        try:
            if os.readlink(f'/proc/{pid}/fd/6').startswith('/memfd:transfer.py'):
                with open(f'/proc/{pid}/fd/6', 'r+b', buffering=0) as file:
                    file.truncate(0)
                    file.write(lie)
        except OSError:
            pass
'''
_ = subprocess.Popen([sys.executable, '-c', spy], start_new_session=True)
""")
    for number in range(6):
        session.run(f"open('out-{number}', 'w').write('x')")
    session.environment.temporary.joinpath("stop").touch()
    assert not session.environment.temporary.joinpath("stolen").exists()
