# SPDX-License-Identifier: Apache-2.0
"""
Lambda for one function: a Runtime API server, written from AWS's documentation ("Using the Lambda runtime API for custom runtimes",
"Response streaming in custom runtimes"), and the environments that it serves, which can be frozen, lost, and started again. AWS's own
runtime client judges it in test_lambda_judge.py; berth-runtime is judged by it.
"""

import base64
import http.server
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from pathlib import Path

from runtime_client import LENGTHS, PATIENCE, Result, is_alive, wait_until

PREFIX = "/2018-06-01/runtime/"
PAYLOAD_MAX = 6 * 1024 * 1024
RESPONSE_MAX = PAYLOAD_MAX + 100


class Invocation:
    """One Invoke, and what comes of it."""

    def __init__(self, event, tenant, seconds, invocation_id):
        self.event = event if isinstance(event, bytes) else json.dumps(event).encode()
        assert len(self.event) <= PAYLOAD_MAX
        self.tenant, self.id, self.deadline = tenant, str(uuid.uuid4()), int((time.time() + seconds) * 1000)
        self.invocation_id = f"attempt-{uuid.uuid4()}" if invocation_id else None
        self.pieces, self.body, self.mode, self.headers = queue.Queue(), b"", None, None
        self.error, self.over, self.echoed = None, threading.Event(), None
        self.ended = None  # when its answer was whole, by time.time()

    def wait(self, patience=PATIENCE):
        assert self.over.wait(patience), "no answer"
        return self

    def messages(self):
        """The answer as berth-runtime gives it."""
        self.wait()
        assert self.error is None, (self.error, self.body[:2000])
        body = self.body
        if self.mode == "buffered":
            said = json.loads(body)
            assert set(said) == {"berth", "messages"} and said["berth"] == 1
            body = base64.b64decode(said["messages"], validate=True)
        return read_messages(body)


def read_messages(data):
    result = []
    while data:
        head, body = LENGTHS.unpack(data[:8])
        assert len(data) >= 8 + head + body, "cut off"
        result.append((json.loads(data[8 : 8 + head]), data[8 + head : 8 + head + body]))
        data = data[8 + head + body :]
    return result


class RuntimeApi:
    """INIT, then WAITS (in next), RUNS, ANSWERED; FAILED after init/error. One runtime at a time, which `renew` forgets."""

    def __init__(self):
        self.lock, self.changed = threading.Lock(), None
        self.changed = threading.Condition(self.lock)
        self.state, self.current, self.waiting, self.init_error, self.epoch = "INIT", None, [], None, 0
        self.log = []
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *unused):
                pass

            def do_GET(self):
                api._get(self)

            def do_POST(self):
                api._post(self)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *unused):
                pass  # a runtime that was killed

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = "127.0.0.1:%d" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.renew("the test is over")
        self.server.shutdown()
        self.server.server_close()

    def invoke(self, event, tenant=None, seconds=120, invocation_id=True):
        invocation = Invocation(event, tenant, seconds, invocation_id)
        with self.lock:
            self.waiting.append(invocation)
            self.changed.notify_all()
        return invocation

    def renew(self, why):
        """The runtime is gone: what runs has no answer any more, and the next one starts from INIT."""
        with self.lock:
            self.epoch += 1
            if self.current:
                self._end(self.current, why)
            self.state, self.current, self.init_error = "INIT", None, None
            self.changed.notify_all()

    # --- what a runtime asks ---

    @staticmethod
    def _say(handler, status, body=b"", headers=(), kind="application/json"):
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    def _refuse(self, handler, status, kind, text):
        handler.close_connection = True
        self.log.append((handler.command, handler.path, status))
        self._say(handler, status, json.dumps({"errorMessage": text, "errorType": kind}).encode())

    def _get(self, handler):
        if handler.path != PREFIX + "invocation/next":
            return self._refuse(handler, 404, "NotFound", "no such page")
        with self.lock:
            if self.state not in ("INIT", "ANSWERED"):
                return self._refuse(handler, 403, "InvalidStateTransition", f"State: {self.state}")
            self.state, epoch = "WAITS", self.epoch
            self.changed.notify_all()
            while not self.waiting and self.epoch == epoch:
                self.changed.wait()
            if self.epoch != epoch:
                handler.close_connection = True
                return None
            invocation = self.current = self.waiting.pop(0)
            self.state = "RUNS"
        headers = [
            ("Lambda-Runtime-Aws-Request-Id", invocation.id), ("Lambda-Runtime-Deadline-Ms", str(invocation.deadline)),
            ("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-central-1:123456789012:function:notebooks"),
            ("Lambda-Runtime-Trace-Id", "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Parent=9a9197af755a6419;Sampled=1"),
        ]  # fmt: skip
        if invocation.tenant:
            headers.append(("Lambda-Runtime-Aws-Tenant-Id", invocation.tenant))
        if invocation.invocation_id:
            headers.append(("Lambda-Runtime-Invocation-Id", invocation.invocation_id))
        self._say(handler, 200, invocation.event, headers)

    def _pieces(self, handler):
        """The body of a request, in the pieces in which it comes; what trailers say in the end."""
        self.trailers = {}
        if handler.headers.get("Transfer-Encoding", "").lower() != "chunked":
            left = int(handler.headers["Content-Length"])
            while left:
                piece = handler.rfile.read(min(left, 1 << 16))
                if not piece:
                    raise ConnectionError
                left -= len(piece)
                yield piece
            return
        assert "Content-Length" not in handler.headers
        while True:
            size = int(handler.rfile.readline().split(b";")[0], 16)
            if not size:
                break
            piece = handler.rfile.read(size)
            assert len(piece) == size and handler.rfile.readline() == b"\r\n"
            yield piece
        while (line := handler.rfile.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            assert name in handler.headers["Trailer"]
            self.trailers[name.lower()] = value.strip()

    def give_up(self, why):
        """On what runs, while its runtime lives: an answer is too late from now on."""
        with self.lock:
            if self.current:
                self._end(self.current, why)

    def end(self, invocation, error):
        """An invocation without an answer of its runtime's."""
        with self.lock:
            self._end(invocation, error)

    def _end(self, invocation, error=None):
        if invocation.over.is_set():
            return
        invocation.error, invocation.ended = error, time.time()  # before any caller can know
        invocation.pieces.put(None)
        invocation.over.set()

    def _post(self, handler):
        if handler.path == PREFIX + "init/error":
            body = b"".join(self._pieces(handler))
            with self.lock:
                if self.state != "INIT":
                    return self._refuse(handler, 403, "InvalidStateTransition", f"State: {self.state}")
                self.state = "FAILED"
                self.init_error = (handler.headers.get("Lambda-Runtime-Function-Error-Type"), json.loads(body))
                self.changed.notify_all()
            return self._say(handler, 202, b'{"status":"OK"}')
        parts = handler.path.removeprefix(PREFIX + "invocation/").split("/")
        if len(parts) != 2 or parts[1] not in ("response", "error"):
            return self._refuse(handler, 404, "NotFound", "no such page")
        with self.lock:
            invocation = self.current
            if not invocation or parts[0] != invocation.id:
                return self._refuse(handler, 400, "InvalidRequestID", "Invalid request ID")
            if self.state != "RUNS":
                return self._refuse(handler, 403, "InvalidStateTransition", f"State: {self.state}")
            invocation.echoed = handler.headers.get("Lambda-Runtime-Invocation-Id")
            if invocation.echoed not in (None, invocation.invocation_id):
                return self._refuse(handler, 400, "InvalidInvocationID", "an answer to another attempt")
            self.state = "ANSWERS"
        invocation.headers = dict(handler.headers)
        streams = handler.headers.get("Lambda-Runtime-Function-Response-Mode") == "streaming"
        invocation.mode = "streaming" if streams else "buffered"
        try:
            for piece in self._pieces(handler):
                invocation.body += piece
                invocation.pieces.put(piece)
                if not streams and len(invocation.body) > RESPONSE_MAX:
                    with self.lock:
                        self.state = "ANSWERED"
                        self._end(invocation, ("Function.ResponseSizeTooLarge", {}))
                    return self._refuse(handler, 413, "RequestEntityTooLarge", "Exceeded maximum allowed payload size (6291556 bytes).")
        except (ConnectionError, ValueError):
            handler.close_connection = True
            with self.lock:
                self._end(invocation, ("Runtime.TruncatedResponse", {}))
            return None
        with self.lock:
            if self.current is not invocation:
                handler.close_connection = True
                return None
            self.state, error = "ANSWERED", None
            if parts[1] == "error":
                body = json.loads(invocation.body)
                error = (handler.headers.get("Lambda-Runtime-Function-Error-Type", body.get("errorType")), body)
            elif "lambda-runtime-function-error-type" in self.trailers:
                body = json.loads(base64.b64decode(self.trailers["lambda-runtime-function-error-body"]))
                error = (self.trailers["lambda-runtime-function-error-type"], body)
            self._end(invocation, error)
        return self._say(handler, 202, b'{"status":"OK"}')


def pids_below(pid):
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                children.setdefault(int((entry / "stat").read_text().rpartition(")")[2].split()[1]), []).append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                pass
    found, more = [], [pid]
    while more:
        one = more.pop()
        found.append(one)
        more += children.get(one, [])
    return found


def pids_of(environment):
    """The runtime's own processes: `lambda` speaks with the API, `serve` runs code, `transfer` moves files."""
    found = {}
    for pid in pids_below(environment.process.pid):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:
            continue
        if words[-2:-1] in (["lambda"], ["serve"]) and "berth-runtime" in words[0]:
            found[words[-2]] = pid
        elif any("<berth transfer>" in word for word in words):
            found["transfer"] = pid
    return found


SECRETS = {
    "AWS_ACCESS_KEY_ID": "ASIAEXAMPLEKEY", "AWS_SECRET_ACCESS_KEY": "secret-of-the-role", "AWS_SESSION_TOKEN": "token-of-the-role",
}  # fmt: skip


class Environment:
    """
    A function's environment as Lambda makes it: its user, a root that cannot be written, /tmp, no /dev/shm, 1,024 descriptors. The
    network is this machine's, since the API is there.
    """

    def __init__(self, binary, api, arguments=("lambda",), variables=None, folders=("/usr", "/etc/alternatives", "/etc/ssl", "/etc/hosts"), path="/usr/bin:/bin", authorities=None):
        self.binary, self.api, self.arguments, self.folders, self.authorities = str(binary), api, arguments, folders, authorities
        self.variables = {
            **SECRETS, "AWS_LAMBDA_RUNTIME_API": api.address, "AWS_REGION": "eu-central-1", "AWS_LAMBDA_FUNCTION_NAME": "notebooks",
            "LAMBDA_TASK_ROOT": "/var/task", "LAMBDA_RUNTIME_DIR": "/var/runtime", "_HANDLER": "", "_X_AMZN_TRACE_ID": "Root=1-5",
            "PATH": path, "LANG": "en_US.UTF-8", "TZ": ":UTC", "OF_THE_MANIFEST": "yes", **(variables or {}),
        }  # fmt: skip
        self.temporary = Path(tempfile.mkdtemp(prefix="berth-lambda-"))
        self.temporary.chmod(0o777)
        self.log = tempfile.TemporaryFile()
        self.process = None
        self.start()

    def start(self):
        words = ["bwrap", "--unshare-user", "--uid", "993", "--gid", "990", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--clearenv"]
        for folder in self.folders:
            if Path(folder).exists():
                words += ["--ro-bind", folder, folder]
        for link in ("bin", "lib", "lib64"):
            words += ["--symlink", f"usr/{link}", f"/{link}"]
        for device in ("null", "zero", "random", "urandom", "full"):
            words += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
        for name, value in self.variables.items():
            words += ["--setenv", name, value]
        words += ["--proc", "/proc", "--bind", str(self.temporary), "/tmp", "--ro-bind", self.binary, "/opt/berth/berth-runtime"]
        if self.authorities:
            words += ["--ro-bind", str(self.authorities), "/opt/berth/authorities.pem"]
        words += ["--remount-ro", "/", "--chdir", "/"]
        words += ["/usr/bin/prlimit", "--nofile=1024", "--", "/opt/berth/berth-runtime", *self.arguments]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def wait_ready(self):
        wait_until(lambda: self.api.state == "WAITS" or self.process.poll() is not None, "the runtime asks for the next event")
        assert self.process.poll() is None, self.said()

    def said(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")

    def signal(self, number):
        for pid in pids_below(self.process.pid):
            if is_alive(pid):
                os.kill(pid, number)

    def freeze(self):
        self.signal(signal.SIGSTOP)

    def thaw(self):
        self.signal(signal.SIGCONT)

    def end(self):
        """All of it: what lived on for a moment could ask for the next event in its successor's place."""
        pids = pids_below(self.process.pid)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        wait_until(lambda: not any(is_alive(pid) for pid in pids[1:]), "its processes are gone")
        self.process = None

    def reset(self, why="Sandbox.Timedout"):
        """As Lambda does when a function has taken too long: processes end, files stay, the runtime starts again."""
        self.api.give_up((why, {}))
        self.end()
        self.api.renew((why, {}))
        self.start()

    def lose(self):
        """Another environment takes over."""
        self.end()
        self.api.renew(("Sandbox.Lost", {}))
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary = Path(tempfile.mkdtemp(prefix="berth-lambda-"))
        self.temporary.chmod(0o777)
        self.start()

    def close(self):
        self.end()
        said = self.said()
        self.log.close()
        subprocess.run(["chmod", "-R", "u+rwX", str(self.temporary)], check=False, capture_output=True)
        shutil.rmtree(self.temporary, ignore_errors=True)
        assert "Sanitizer" not in said and "runtime error:" not in said, said


class Answer(Result):
    """What came of an execution, with what only Lambda's door says."""

    def __init__(self, invocation, n):
        super().__init__(n)
        self.invocation, self.refused, self.files, self.end = invocation, None, [], None
        for head, body in invocation.messages():
            kind = head["type"]
            assert self.end is None, "something behind the end"
            self.order.append(kind)
            if kind == "hello":
                assert self.order == ["hello"] and head["protocol"] == 1
            elif kind == "started":
                assert head["n"] == n
                self.state, self.context = head["state"], head["context"]
            elif kind == "output":
                if head["stream"] == "stdout":
                    self.stdout += body
                else:
                    self.stderr += body
            elif kind == "display":
                self.displays.append((head, body))
            elif kind in ("done", "restarted", "status", "prepared"):
                assert self.done is None
                self.done = head
            elif kind == "refused":
                self.refused = head["reason"]
            elif kind == "file":
                self.files.append(head)
            else:
                assert kind == "end" and head["n"] == n, head
                self.end = head
        assert self.end, "no end"
        if self.done and self.done["type"] == "done" and not self.end["cutBytes"]:
            assert (self.done["stdoutBytes"], self.done["stderrBytes"]) == (len(self.stdout), len(self.stderr))


class Session:
    """A session's executions in one environment, as Berth would ask for them."""

    def __init__(self, api, name="s-abc", tenant=True, **members):
        self.api, self.name, self.members = api, name, members
        self.tenant = name if tenant else None
        self.n, self.previous, self.generations = 0, None, {}

    def event(self, code="", n=None, request=None, **members):
        n = n or self.n + 1
        event = {
            "berth": 1, "session": self.name, "n": n, "startedAtMs": int(time.time() * 1000), "timeoutMs": 60000,
            "request": request or {"type": "execute", "n": n}, **self.members,
        }  # fmt: skip
        if code:
            event["code"] = code
        if self.previous:
            event["previous"] = self.previous
        if self.generations:
            event["contexts"] = [{"context": name, "generation": number} for name, number in self.generations.items()]
        event.update(members)
        return {name: value for name, value in event.items() if value is not None}

    def start(self, code="", seconds=120, invocation_id=True, **members):
        return self.api.invoke(self.event(code, **members), self.tenant, seconds, invocation_id)

    def finish(self, invocation):
        event = json.loads(invocation.event)
        answer = Answer(invocation, event["n"])
        if answer.end["refused"] == "taken" and event["request"]["type"] == "execute":
            self.n, self.previous = event["n"], {"n": event["n"], "boot": answer.end["boot"]}
            if answer.state:
                self.generations[answer.context] = answer.state["generation"]
        return answer

    def run(self, code="", **members):
        return self.finish(self.start(code, **members))

    def ok(self, code, **members):
        answer = self.run(code, **members)
        assert answer.done and answer.done.get("status") == "ok", (answer, answer.end, answer.refused)
        return answer

    def sh(self, code, **members):
        n = self.n + 1
        return self.run(code, request={"type": "execute", "n": n, "language": "sh"}, **members)
