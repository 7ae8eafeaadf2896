# SPDX-License-Identifier: Apache-2.0
"""A caller of berth-runtime that shares no code with it: written from runtime/README.md."""

import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

LENGTHS = struct.Struct(">II")
PATIENCE = 120 * float(os.environ.get("BERTH_TEST_TIMEOUT", "60")) / 60


class Ended(Exception):
    """The runtime has closed."""


def pack(head, body=b""):
    data = json.dumps(head).encode()
    return LENGTHS.pack(len(data), len(body)) + data + body


class Result:
    """What came of one execution: `done`, and what was said on the way."""

    def __init__(self, n):
        self.n, self.state, self.context, self.done = n, None, None, None
        self.stdout, self.stderr, self.displays, self.order = b"", b"", [], []

    def __getattr__(self, name):
        if name.startswith("_") or self.__dict__.get("done") is None:
            raise AttributeError(name)
        return self.done[name]

    def __repr__(self):
        return f"<{self.done} state {self.state} stdout {self.stdout[:500]!r} stderr {self.stderr[:2000]!r}>"

    @property
    def text(self):
        return self.value and self.value["text"]


class Runtime:
    def __init__(self, binary, *arguments, folder=None, env=None, command=()):
        self.folder = Path(folder or tempfile.mkdtemp(prefix="berth-runtime-"))
        self._own = folder is None
        self.socket, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            [*command, str(binary), "serve", *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE,
            cwd=self.folder, env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8", **(env or {})},
        )  # fmt: skip
        theirs.close()
        self.n, self.pending = 0, b""
        self.hello = self.read()[0]

    # --- messages ---

    def send(self, head, body=b""):
        self.socket.sendall(pack(head, body))

    def _fill(self, size, until):
        while len(self.pending) < size:
            if not select.select([self.socket], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError("the runtime says nothing")
            data = self.socket.recv(1 << 16)
            if not data:
                raise Ended
            self.pending += data

    def read(self, patience=PATIENCE):
        """The next message: its head and its body."""
        until = time.monotonic() + patience
        self._fill(8, until)
        head, body = LENGTHS.unpack(self.pending[:8])
        assert head <= 1 << 20 and body <= 16 << 20
        self._fill(8 + head + body, until)
        data, self.pending = self.pending[8 : 8 + head + body], self.pending[8 + head + body :]
        return json.loads(data[:head]), data[head:]

    # --- executions ---

    def start(self, code, **options):
        self.n += 1
        stdin = options.pop("stdin", None)
        code = code.encode() if isinstance(code, str) else code
        head = {"type": "execute", "n": self.n, **options}
        if stdin is not None:
            head["stdinBytes"] = len(stdin)
        self.send(head, code + (stdin or b""))
        return Result(self.n)

    def finish(self, result, until=None):
        """Reads to the end of it, or until `until(result)` says that it is enough."""
        while result.done is None and not (until and until(result)):
            head, body = self.read()
            if head["type"] in ("prepared", "status", "restarted"):
                result.order.append(head)
                continue
            assert head["n"] == result.n, head
            result.order.append(head["type"])
            if head["type"] == "started":
                result.state, result.context = head["state"], head["context"]
            elif head["type"] == "output":
                if head["stream"] == "stdout":
                    result.stdout += body
                else:
                    result.stderr += body
            elif head["type"] == "display":
                at, mime = 0, {}
                for part in head["parts"]:
                    mime[part["type"]] = body[at : at + part["bytes"]]
                    at += part["bytes"]
                result.displays.append({"mime": mime, "main": head["main"], "file": head["file"]})
            else:
                assert head["type"] in ("done", "refused"), head
                result.done = head
        if result.done and result.done["type"] == "done":
            assert (result.exitCode == 0) == (result.status == "ok"), result
            assert (result.stdoutBytes, result.stderrBytes) == (len(result.stdout), len(result.stderr))
        return result

    def run(self, code, **options):
        return self.finish(self.start(code, **options))

    def sh(self, code, **options):
        return self.run(code, language="sh", **options)

    def ok(self, code, **options):
        result = self.run(code, **options)
        assert result.done.get("status") == "ok", result
        return result

    # --- checkpoints ---

    def checkpoint(self, max_bytes=64 << 20, max_ms=60000):
        """What was said of it, and its file."""
        self.send({"type": "checkpoint", "maxBytes": max_bytes, "maxMs": max_ms})
        file = bytearray()
        while True:
            head, body = self.read()
            if head["type"] != "piece":
                assert head["type"] == "checkpointed" and head["bytes"] == len(file) <= max_bytes + (4 << 20), head
                return head, bytes(file)
            file += body

    def restore(self, file, max_ms=60000, piece=1 << 20, **members):
        self.send({"type": "restore", "bytes": len(file), "maxMs": max_ms, **members})
        for at in range(0, len(file), piece):
            self.send({"type": "piece"}, file[at : at + piece])
        head, _ = self.read()
        assert head["type"] == "restored", head
        return head

    # --- the end ---

    def close(self):
        """Its exit code, once it has ended. What it said of itself is checked: nothing."""
        self.socket.close()
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self.said = self.process.stderr.read().decode("utf-8", "replace")
        self.process.stderr.close()
        if self._own:
            shutil.rmtree(self.folder, ignore_errors=True)
        assert "Sanitizer" not in self.said and "runtime error:" not in self.said, self.said
        return code

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None or not self.process.stderr.closed:
            self.close()


def is_alive(pid):
    """Whether it runs: neither gone nor dead and not yet reaped."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (ProcessLookupError, FileNotFoundError):
        return False


def wait_until(condition, what):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, f"not in {PATIENCE} s: {what}"
        time.sleep(0.02)


def end(pid):
    if is_alive(pid):
        os.kill(pid, signal.SIGKILL)
