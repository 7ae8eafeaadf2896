# SPDX-License-Identifier: Apache-2.0
"""
A bucket for sessions on Lambda: a server over TLS, with an authority of the tests, that takes what S3 would take of a presigned GET and
of a POST policy, and counts; and a session as Berth would ask for its executions, files and checkpoints.
"""

import contextlib
import hashlib
import http.server
import ssl
import threading
import urllib.parse

from certificates import Authority, pem_of_key
from runtime_api import Environment, RuntimeApi, Session

SIGNATURE = "X-Amz-Signature=not-to-be-seen-by-code"
WORKSPACE, TRANSFER = "workspaces/sessions/s-abc/workspace/", "workspaces/sessions/s-abc/transfer/"


class Bucket:
    def __init__(self, folder, tls=True):
        self.objects, self.calls, self.faults, self.hangs, self.lock = {}, [], [], [], threading.Lock()
        self.over, self.at_once, self.most_at_once = threading.Event(), 0, 0
        self.when = {}  # (method, key) -> what is done as that request comes, before it is answered; once
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

            def handle_one_request(self):
                super().handle_one_request()
                with bucket.lock:
                    bucket.at_once -= self.counted
                self.counted = 0

            counted = 0

            def fault(self, kind, key):
                with bucket.lock:
                    bucket.calls.append((kind, key))
                    bucket.at_once, self.counted = bucket.at_once + 1, 1
                    bucket.most_at_once = max(bucket.most_at_once, bucket.at_once)
                    hook = bucket.when.pop((kind, key), None)
                if hook:
                    hook()
                with bucket.lock:
                    for fault in bucket.faults:
                        if fault[0] == kind and key.startswith(fault[1]) and fault[3] > 0:
                            fault[3] -= 1
                            return fault[2]
                return None

            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                key = urllib.parse.unquote(url.path[1:])
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
                if key in bucket.hangs:
                    bucket.over.wait()
                assert [name for name, _ in fields][-1] == "file" and len(said) == len(fields)
                fault = self.fault("POST", key)
                if fault:
                    return self.say(fault, b"<Error><Code>Fault</Code></Error>")
                if said.get("policy") != b"of " + key[: len(said["policy"]) - 3].encode() or said.get("x-amz-signature") != b"signed":
                    return self.say(403, b"<Error><Code>AccessDenied</Code></Error>")
                bucket.objects[key] = data
                return self.say(204)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 128

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
        self.over.set()
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


@contextlib.contextmanager
def with_bucket(program, folder, kind=FilesSession):
    """A session in an environment of its own, and its bucket."""
    with contextlib.ExitStack() as stack:
        bucket = Bucket(folder)
        stack.callback(bucket.close)
        api = RuntimeApi()
        stack.callback(api.close)
        environment = Environment(program, api, authorities=bucket.authority.file)
        stack.callback(environment.close)
        environment.wait_ready()
        made = kind(api, bucket)
        made.environment = environment
        yield made
