# SPDX-License-Identifier: Apache-2.0
"""A client of `berth launcher`, as a server would be one: a program of its own, that tests start as an ordinary user."""

import json
import os
import select
import socket
import struct
import sys

PLACE, ARGUMENTS, VARIABLES, RUN, READY, GO, CANCEL, ENDED, FAILED, PUT, DONE, LIST, ENTRIES, READ, CONTENT, ABSENT, TAKEN, SAY, TOLD, HEARD, LIFE, HOLD, REPLACE, FOLDER, REMOVE = range(1, 26)
START, STARTED, REFUSED, KILL, RUN_ENDED, MEASURE, MEASURED, CLEAR, RENAME, RENAMED = range(32, 42)
LIMITS = {"memoryBytes": 256 << 20, "cpuMillis": 1000, "processes": 64, "workspaceBytes": 16 << 20, "workspaceFiles": 1000, "deadlineMs": 60000, "name": None, "family": None, "familyCpuMillis": 0, "disk": False, "network": None}


class Peer:
    def __init__(self, connected):
        self.socket = connected
        self.socket.settimeout(60)

    def send(self, kind, payload=b"", descriptors=()):
        if isinstance(payload, dict):
            payload = json.dumps(payload).encode()
        header = struct.pack("=IHH", len(payload), kind, len(descriptors))
        sent = socket.send_fds(self.socket, [header, payload], list(descriptors))
        if sent < len(header) + len(payload):
            self.socket.sendall((header + payload)[sent:])

    def receive(self):
        """(type, payload, descriptors); None where the other side has closed."""
        try:
            header, descriptors, _, _ = socket.recv_fds(self.socket, 8, 24)
        except ConnectionResetError:  # closed with something of ours unread
            return None
        if not header:
            return None
        length, kind, _ = struct.unpack("=IHH", header)
        payload = b""
        while len(payload) < length:
            payload += self.socket.recv(length - len(payload))
        return kind, payload, descriptors


def connect(path):
    connected = socket.socket(socket.AF_UNIX)
    connected.connect(path)
    return Peer(connected)


def words(*texts):
    return b"".join(text.encode() + b"\0" for text in texts)


def memory_file(data):
    content = os.memfd_create("content")
    os.write(content, data)
    os.lseek(content, 0, os.SEEK_SET)
    return content


def start(launcher, image=None, **limits):
    """The worker's peer and the run's number, or the text of a refusal."""
    launcher.send(START, {**LIMITS, **limits, "image": image})
    kind, payload, descriptors = launcher.receive()
    if kind == REFUSED:
        return payload.decode()
    assert kind == STARTED, (kind, payload)
    return Peer(socket.socket(fileno=descriptors[0])), json.loads(payload)["run"]


def program(worker, code, *arguments, deadline_ms=30000, variables=("PATH", "/usr/bin:/bin"), waits=False):
    worker.send(ARGUMENTS, words("python3", "/run/berth/main.py", *arguments))
    worker.send(VARIABLES, words(*variables))
    worker.send(RUN, {"deadlineMs": deadline_ms, "waits": waits, "session": False, "files": ["main.py"]}, [memory_file(code.encode())])
    kind, payload, descriptors = worker.receive()
    assert kind == READY, payload
    return descriptors  # input, output, errors


def read_all(*descriptors):
    """The bytes from each until all have ended."""
    texts = {descriptor: b"" for descriptor in descriptors}
    left = set(descriptors)
    while left:
        for ready in select.select(list(left), [], [], 60)[0]:
            data = os.read(ready, 65536)
            texts[ready] += data
            if not data:
                left.discard(ready)
    return [texts[descriptor].decode() for descriptor in descriptors]


def run(launcher, code, *arguments, image=None, **options):
    """A whole run: what it printed, how it ended, and what the launcher said of it."""
    worker, number = start(launcher, image)
    pipes = program(worker, code, *arguments, **options)
    os.close(pipes[0])
    output, errors = read_all(pipes[1], pipes[2])
    kind, payload, _ = worker.receive()
    assert kind == ENDED, payload
    worker.socket.close()
    kind, usage, _ = launcher.receive()
    assert kind == RUN_ENDED and json.loads(usage)["run"] == number
    return {"output": output, "errors": errors, "ending": json.loads(payload), "usage": json.loads(usage)}


if __name__ == "__main__":
    exec(sys.stdin.read())  # a test's own lines, with all of the above
