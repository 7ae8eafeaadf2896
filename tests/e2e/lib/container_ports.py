# SPDX-License-Identifier: Apache-2.0
"""Programs in containers that listen, and what they answer."""

import socket

from controllers import PATIENCE, wait_until

# A server of one's own, whose answers say what it has heard: reads to the end, and answers with how much and its sum.
COUNT = r"""
import hashlib, socketserver, sys
class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        seen, count = hashlib.sha256(), 0
        while piece := self.request.recv(1 << 20):
            seen.update(piece)
            count += len(piece)
        self.request.sendall(f"{count} {seen.hexdigest()}".encode())
class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 128
    allow_reuse_address = True
    daemon_threads = True
Server(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""

ASK = r"""
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 20) as made:
    made.sendall(sys.argv[3].encode())
    made.shutdown(socket.SHUT_WR)
    print(made.makefile().read())
"""


def connect(port):
    return socket.create_connection(("127.0.0.1", port), 30 * PATIENCE)


def answers(port):
    try:
        return ask(port, b"x").startswith(b"1 ")
    except OSError:
        return False


def ask(port, data):
    with connect(port) as made:
        made.sendall(data)
        made.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: made.recv(65536), b""))


def counter(serve, port=7000, expose=0, **wish):
    made = serve.service("python3", "-c", COUNT, str(port), ports=[{"name": "count", "port": port, "expose": expose}], **wish)
    if expose is not None:
        wait_until(lambda: answers(host_port(serve, made, **wish)), timeout=60 * PATIENCE)
    return made


def host_port(serve, container, owner=None, **ignored):
    return serve.show(container, owner)["ports"][0]["hostPort"]
