# SPDX-License-Identifier: Apache-2.0
"""
The servers of the world (world.py starts this in its network namespace): names by DNS, HTTP on port 80, HTTPS on 443 and 8443, on
all addresses. `world_servers.py FOLDER NAMESERVER`: zone.json says what names lead to, site.pem and site.key are the certificate of all of
them; each request is a line of JSON in requests.log; `ready` is written when all listen.

    /simple/tiny/    an index of one package for pip        /tiny, /tiny/-/...    a registry of one package for npm
    /repo.git/...    a repository, by git's own program     /to?URL               a redirect
    /bytes?N         so many bytes                          /digest               the SHA-256 of what was sent
    anything else    what was asked for, and of whom
"""

import base64
import hashlib
import http.server
import io
import itertools
import json
import os
import socket
import ssl
import subprocess
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

FOLDER = Path(sys.argv[1])
ZONE = json.loads((FOLDER / "zone.json").read_text())
LOG = (FOLDER / "requests.log").open("a", buffering=1)
WRITING = threading.Lock()


def note(**what):
    with WRITING:
        LOG.write(json.dumps(what) + "\n")


# --- names ---

ASKED = {name: itertools.count() for name in ZONE}


def answers(name, kind):
    """A name has a list of addresses, or a list of such lists: one for each time that it is asked for."""
    found = ZONE.get(name)
    if found is None:
        return None
    if found and isinstance(found[0], list):
        turn = next(ASKED[name]) // 2  # a question for A, and one for AAAA
        found = found[min(turn, len(found) - 1)]
    family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
    return [socket.inet_pton(family, a) for a in found if (":" in a) == (kind == 28)] if family else []


def reply(question):
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode().lower())
        at += question[at] + 1
    kind = int.from_bytes(question[at + 1 : at + 3], "big")
    found = answers(".".join(labels), kind)
    flags = b"\x81\x80" if found is not None else b"\x81\x83"
    found = found or []
    records = b"".join(b"\xc0\x0c" + kind.to_bytes(2, "big") + b"\0\1\0\0\0\0" + len(a).to_bytes(2, "big") + a for a in found)
    return question[:2] + flags + b"\0\1" + len(found).to_bytes(2, "big") + b"\0\0\0\0" + question[12 : at + 5] + records


def serve_names():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((sys.argv[2], 53))  # of all addresses, the kernel would answer from another one
        while True:
            question, client = server.recvfrom(4096)
            server.sendto(reply(question), client)


# --- packages ---


def wheel():
    data = io.BytesIO()
    files = {
        "tiny.py": "answer = 42\n",
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files["tiny-1.0.dist-info/RECORD"] = "".join(f"{name},,\n" for name in [*files, "tiny-1.0.dist-info/RECORD"])
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


def tarball():
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in {"package.json": '{"name": "tiny", "version": "1.0.0", "main": "index.js"}', "index.js": "module.exports = 42\n"}.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return data.getvalue()


WHEEL, TARBALL = wheel(), tarball()
NPM = {
    "name": "tiny",
    "dist-tags": {"latest": "1.0.0"},
    "versions": {
        "1.0.0": {
            "name": "tiny",
            "version": "1.0.0",
            "dist": {
                "tarball": "https://npm.example.org/tiny/-/tiny-1.0.0.tgz",
                "integrity": "sha512-" + base64.b64encode(hashlib.sha512(TARBALL).digest()).decode(),
            },
        }
    },
}
SIMPLE = f'<a href="https://cdn.files.example.org/tiny-1.0-py3-none-any.whl#sha256={hashlib.sha256(WHEEL).hexdigest()}">tiny-1.0-py3-none-any.whl</a>'


# --- HTTP ---


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sni = None

    def log_message(self, *args):
        pass

    def answer(self, body, status=200, kind="text/plain", **headers):
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def git(self, path, query, body):
        environment = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(FOLDER), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
            "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*", "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }  # fmt: skip
        done = subprocess.run(["git", "http-backend"], env=environment, input=body, capture_output=True, timeout=60)
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(headers.pop("Status", "200").split()[0])
        self.answer(rest, status, headers.pop("Content-Type"), **headers)

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        note(method=self.command, path=self.path, host=self.headers.get_all("Host"), sni=self.sni, port=self.server.server_port,
             headers=[f"{n}: {v}" for n, v in self.headers.items()], body=len(body))  # fmt: skip
        if path == "/simple/tiny/":
            self.answer(SIMPLE, kind="text/html")
        elif path.endswith(".whl"):
            self.answer(WHEEL, kind="application/octet-stream")
        elif path == "/tiny":
            self.answer(json.dumps(NPM), kind="application/json")
        elif path.endswith(".tgz"):
            self.answer(TARBALL, kind="application/octet-stream")
        elif path.startswith("/repo.git/"):
            self.git(path, query, body)
        elif path == "/to":
            self.answer("", 302, Location=query)
        elif path == "/bytes":
            self.answer(b"\0" * int(query))
        elif path == "/digest":
            self.answer(hashlib.sha256(body).hexdigest())
        else:
            self.answer(f"{self.command} {self.path} of {self.headers.get('Host')}")

    do_GET = do_POST = do_HEAD = do_PUT = serve


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6  # and IPv4
    request_queue_size = 512
    daemon_threads = True


class TlsServer(Server):
    def finish_request(self, request, client):
        handler = type("TlsHandler", (Handler,), {})

        def named(connection, name, context):
            handler.sni = name
            note(sni=name, port=self.server_port, hello=True)

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(FOLDER / "site.pem", FOLDER / "site.key")
        context.sni_callback = named
        if self.server_port == 8443:  # asks for another ClientHello, of clients that guess the usual curve
            context.set_ecdh_curve("secp521r1")
        try:
            with context.wrap_socket(request, server_side=True) as secured:
                handler(secured, client, self)
        except (OSError, ValueError):
            pass


for kind, port in ((Server, 80), (TlsServer, 443), (TlsServer, 8443), (Server, 22)):
    threading.Thread(target=kind(("::", port), Handler).serve_forever, daemon=True).start()
threading.Thread(target=serve_names, daemon=True).start()
(FOLDER / "ready").touch()
threading.Event().wait()
