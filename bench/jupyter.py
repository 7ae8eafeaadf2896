# SPDX-License-Identifier: Apache-2.0
"""Jupyter's kernel gateway as a peer: one execution through its WebSocket, by a client with as little of its own as Berth's has."""

import base64
import contextlib
import json
import os
import shutil
import socket
import statistics
import struct
import subprocess
import time
import uuid

from common import ROOT, WORK

PLACE = WORK / "jupyter"
PATIENCE_S = 120


def install():
    """A virtual environment of its own; the reason of a failure, or None."""
    if (PLACE / "bin" / "jupyter-kernelgateway").exists():
        return None
    shutil.rmtree(PLACE, ignore_errors=True)
    made = subprocess.run(["/usr/bin/python3", "-m", "venv", PLACE], capture_output=True, text=True, check=False)
    if made.returncode == 0:
        made = subprocess.run(
            [PLACE / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "-r", ROOT / "bench" / "jupyter.txt"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if made.returncode == 0:
        return None
    shutil.rmtree(PLACE, ignore_errors=True)
    return f"it cannot be installed: {made.stderr.strip()[-200:]}"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextlib.contextmanager
def gateway():
    port = free_port()
    folder = WORK / "jupyter-home"
    folder.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [PLACE / "bin" / "jupyter-kernelgateway", "--KernelGatewayApp.ip=127.0.0.1", f"--KernelGatewayApp.port={port}", "--KernelGatewayApp.port_retries=0"],
        env={"PATH": f"{PLACE / 'bin'}:{os.environ['PATH']}", "HOME": str(folder), "LANG": "C.UTF-8"}, cwd=folder,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process, port
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        shutil.rmtree(folder, ignore_errors=True)


def connect(process, port):
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.05)


def until_head(connection):
    found = b""
    while b"\r\n\r\n" not in found:
        piece = connection.recv(4096)
        if not piece:
            raise OSError("it has closed the connection")
        found += piece
    return found.split(b"\r\n\r\n", 1)


class Kernel:
    """One kernel of the gateway's, and the WebSocket to its channels (RFC 6455: what one client needs of it)."""

    def __init__(self, process, port):
        with contextlib.closing(connect(process, port)) as first:
            first.sendall(b"POST /api/kernels HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            head, body = until_head(first)
            while piece := first.recv(4096):
                body += piece
        if b" 201 " not in head.split(b"\r\n")[0]:
            raise OSError(f"no kernel: {head[:200]!r}")
        identity = json.loads(body)["id"]
        self.socket = connect(process, port)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET /api/kernels/{identity}/channels HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head, self.pending = until_head(self.socket)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise OSError(f"no WebSocket: {head[:200]!r}")
        self.session = uuid.uuid4().hex

    def _need(self, size):
        while len(self.pending) < size:
            piece = self.socket.recv(1 << 16)
            if not piece:
                raise OSError("it has closed the WebSocket")
            # Tornado's small frames would else wait for acknowledgements that Linux delays by 40 ms.
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            self.pending += piece

    def read(self):
        """The next message of text; pings and the like are passed over."""
        while True:
            self._need(2)
            kind, size, start = self.pending[0] & 15, self.pending[1] & 127, 2
            if size >= 126:
                start = 4 if size == 126 else 10
                self._need(start)
                size = int.from_bytes(self.pending[2:start], "big")
            self._need(start + size)
            data, self.pending = self.pending[start : start + size], self.pending[start + size :]
            if kind == 1:
                return json.loads(data)

    def send(self, message):
        data = json.dumps(message).encode()
        head = struct.pack(">BBH", 0x81, 0x80 | 126, len(data)) if len(data) > 125 else struct.pack(">BB", 0x81, 0x80 | len(data))
        self.socket.sendall(head + b"\0\0\0\0" + data)  # masked by zeros: that is the text itself

    def execute(self, code):
        """Until both the value and the reply are there."""
        identity = uuid.uuid4().hex
        self.send({
            "header": {"msg_id": identity, "username": "bench", "session": self.session, "msg_type": "execute_request", "version": "5.3"},
            "parent_header": {}, "metadata": {}, "channel": "shell",
            "content": {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True},
        })  # fmt: skip
        value = replied = None
        while value is None or replied is None:
            message = self.read()
            if message.get("parent_header", {}).get("msg_id") != identity:
                continue
            if message["msg_type"] == "execute_result":
                value = message["content"]["data"]["text/plain"]
            if message["msg_type"] == "execute_reply":
                replied = message["content"]["status"]
        if (value, replied) != ("2", "ok"):
            raise OSError(f"the kernel says {value}, {replied}")


def median_ms(times):
    """Of `1+1`, with the kernel warm; or None and why it was not measured."""
    problem = install()
    if problem:
        return None, problem
    try:
        with gateway() as (process, port):
            kernel = Kernel(process, port)
            taken = []
            for _ in range(times + 5):
                start = time.perf_counter()
                kernel.execute("1+1")
                taken.append(time.perf_counter() - start)
            return statistics.median(taken[5:]) * 1000, None
    except OSError as error:
        return None, str(error)
