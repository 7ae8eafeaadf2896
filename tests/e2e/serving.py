# SPDX-License-Identifier: Apache-2.0
"""`berth serve` under test: its file, its process, and clients that share no code with it."""

import functools
import http.client
import json
import os
import re
import socket
import subprocess
import weakref

import stacks
from controllers import PATIENCE, Daemon, wait_until


class OverSocket(http.client.HTTPConnection):
    """By a Unix socket, through its folder's descriptor where its path is too long for an address."""

    def __init__(self, path):
        super().__init__("localhost", timeout=20 * PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


@functools.lru_cache
def declared(binary):
    """What /openapi.json tells of: [(a pattern of paths, {method: {status: codes, or None}})], the most exact path first."""
    document = json.loads(subprocess.run([str(binary), "serve", "--print-openapi"], capture_output=True, check=True, timeout=60 * PATIENCE).stdout)
    found = []
    for path in sorted(document["paths"], key=lambda path: (path.count("{"), path)):
        methods = {}
        for method, operation in document["paths"][path].items():
            statuses = methods[method.upper()] = {}
            for status, response in operation["responses"].items():
                shared = document["components"]["responses"][response["$ref"].rsplit("/", 1)[1]] if "$ref" in response else response
                statuses[int(status)] = shared.get("x-berth-codes")
        rest = ".+" if path.endswith("{path}") else "[^/]+"
        found.append((re.compile(re.sub(r"\\\{\w+\\\}$", rest, re.sub(r"\\\{\w+\\\}/", "[^/]+/", re.escape(path)))), methods))
    return found


def check_declared(binary, method, path, answer):
    """That /openapi.json tells of such an answer; nothing of what it has no operation for."""
    path = path.partition("?")[0]
    for pattern, methods in declared(binary):
        if method not in methods or not pattern.fullmatch(path):
            continue
        if answer.status == 404 and json.loads(answer.body or b"{}").get("code") == "no-such-route":
            return
        assert answer.status in methods[method], f"{method} {path}: /openapi.json has no {answer.status}: {answer.body}"
        codes = methods[method][answer.status]
        # A number is E2B's form, which its clients' headers get at any path.
        if codes and answer.body and not isinstance(json.loads(answer.body)["code"], int):
            assert json.loads(answer.body)["code"] in codes, f"{method} {path}: /openapi.json does not tell of this code: {answer.body}"
        return


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers}

    def json(self):
        assert self.headers["content-type"] in ("application/json", "application/problem+json"), self.headers
        return json.loads(self.body)

    def problem(self, status, code):
        """That it is this problem, in the form that all have."""
        assert self.status == status, (self.status, self.body)
        assert self.headers["content-type"] == "application/problem+json", self.headers
        found = json.loads(self.body)
        assert (found["status"], found["code"]) == (status, code), found
        # When to ask again: each "too many" says it.
        assert status != 429 or int(self.headers["retry-after"]) > 0, self.headers
        assert found["title"] and found["detail"] and set(found) <= {"status", "code", "title", "detail", "remedy"}
        return found

    def items(self):
        assert self.status == 200, (self.status, self.body)
        return self.json()["items"]

    def names(self):
        return [item["name"] for item in self.items()]


class Serve(Daemon):
    """`berth` is the binary's wrapper (binary.Berth). With a spec it has a file, and any free port of loopback."""

    patience = 20 * PATIENCE  # of a client, in seconds
    running = weakref.WeakSet()  # all that were started

    def __init__(self, berth, **spec):
        self.berth, self.process = berth, None
        self.state = berth.stack / ".berth"
        self.log = berth.folder / "serve.log"
        self.file = berth.folder / "server.yaml"
        self.port = None
        self.configure(**spec)

    def configure(self, **spec):
        spec = {"stack": "stack", "listen": "127.0.0.1:0", **spec}
        # A checkpoint that takes longer than 5 s, on a busy machine, would leave its session as it is.
        # An ordinary user has no others for owners: without a launcher a server has several only where it is told that they trust each other.
        shared = {} if os.geteuid() == 0 else {"sharedUser": True}
        spec["sessions"] = {"checkpointSeconds": 300, **shared, **spec.get("sessions", {})}
        self.file.write_text(stacks.text(stacks.document("Server", "test", spec)))

    def start(self, *args, path=None, env=None):
        """Returns once it listens; `path`: what -f names, instead of its file."""
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(self.berth.binary), "serve", "-f", str(path or self.file), *args],
                cwd=self.berth.folder, env={**self.berth.env, **(env or {})}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        wait_until(self.listens)
        Serve.running.add(self)
        found = re.search(r"listening on port (\d+)", self.lines())
        self.port = int(found.group(1)) if found else None
        return self

    def listens(self):
        assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.lines()}"
        return "it serves what was applied" in self.lines()

    # --- clients ---

    def ask(self, path, token=None, method="GET", headers=(), body=None, over=None):
        """`headers` are pairs, each of which is sent as it stands; `over`: a connection that is kept."""
        connection = over or http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.patience)
        try:
            connection.putrequest(method, path, skip_host=any(n.lower() == "host" for n, _ in headers), skip_accept_encoding=True)
            if token is not None:
                connection.putheader("Authorization", f"Bearer {token}")
            for name, value in headers:
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            found = Answer(answer.status, answer.getheaders(), answer.read())
            check_declared(self.berth.binary, method, path, found)
            return found
        finally:
            if not over:
                connection.close()

    def ask_socket(self, path, **kwargs):
        connection = OverSocket(self.state / "serve.sock")
        try:
            return self.ask(path, over=connection, **kwargs)
        finally:
            connection.close()

    def raw(self, data):
        """Bytes as they are; all that comes back, until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20 * PATIENCE) as connection:
            connection.sendall(data)
            found = b""
            while piece := connection.recv(65536):
                found += piece
            return found
