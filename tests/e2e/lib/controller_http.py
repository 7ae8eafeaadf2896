# SPDX-License-Identifier: Apache-2.0
"""A controller that answers over HTTP."""

import hashlib
import hmac
import http.client
import queue
import socket
import subprocess
import threading

import pytest

from binary import tool

SECRET = "It's a Secret to Everybody"


class Server:
    def __init__(self, listen="127.0.0.1:0", secret=SECRET, request_ms=0, hosts=(), files=None):
        limit = ["prlimit", f"--nofile={files}"] if files else []
        self.process = subprocess.Popen(
            [*limit, tool("server_cli"), listen, secret, str(request_ms), *hosts],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.lines, self.wakes = queue.Queue(), []
        threading.Thread(target=self._read, daemon=True).start()
        self.port = int(self.line().split()[1])

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def line(self, timeout=20):
        line = self.lines.get(timeout=timeout)
        return line if line is not None else pytest.fail(f"exit code {self.process.wait(20)}: {self.process.stderr.read()}")

    def tell(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        while (line := self.line()) != "set":
            self.wakes.append(line)

    def woken(self):
        """All hooks that came through since it was last asked."""
        self.tell("ready -")
        found, self.wakes = self.wakes, []
        return found

    def stop(self):
        self.process.stdin.close()
        while self.line() != "stopped":
            pass
        assert self.process.wait(20) == 0, self.process.stderr.read()

    def socket(self, family=socket.AF_INET, host="127.0.0.1"):
        made = socket.socket(family, socket.SOCK_STREAM)
        made.settimeout(20)
        made.connect((host, self.port))
        return made

    def ask(self, method, path, body=None, headers=None, host="127.0.0.1"):
        connection = http.client.HTTPConnection(host, self.port, timeout=20)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()

    def hook(self, body=b"{}", source="research", secret=SECRET, **headers):
        signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        return self.ask("POST", f"/hooks/{source}", body, {"X-Hub-Signature-256": signature, **headers})[0]
