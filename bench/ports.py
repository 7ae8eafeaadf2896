# SPDX-License-Identifier: Apache-2.0
"""
1 GB through the exposed port of a service, into it and out of it, beside the same through a socket between the same two programs
without a sandbox.
"""

import contextlib
import socket
import statistics
import subprocess
import sys
import time

from sessions import PATIENCE_S, Client, await_workers, say, serving, verdict

BYTES, PIECE = 1 << 30, 1 << 20

# Reads a number of 16 digits, sends that many bytes, and says how many it has read until the end.
PEER = f"""import socket
with socket.create_server(("127.0.0.1", PORT)) as made:
    print(made.getsockname()[1], flush=True)
    while True:
        one = made.accept()[0]
        with one:
            left, piece, count = int(one.recv(16, socket.MSG_WAITALL)), bytes({PIECE}), 0
            while left > 0:
                left -= one.send(piece[:left])
            while got := len(one.recv({PIECE})):
                count += got
            one.sendall(b"%016d" % count)
"""


def transfer(port, into):
    """Seconds for all of it, there or back, with the answer that says that it came."""
    piece, left, start = bytes(PIECE), BYTES, time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as made:
        made.sendall(b"%016d" % (0 if into else BYTES))
        while left > 0:
            left -= made.send(piece[:left]) if into else len(made.recv(PIECE))
        made.shutdown(socket.SHUT_WR)
        if int(made.recv(16, socket.MSG_WAITALL)) != (BYTES if into else 0):
            sys.exit("not all of it went through")
    return time.perf_counter() - start


def await_peer(port):
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), PATIENCE_S) as made:
            made.sendall(b"%016d" % 0)
            made.shutdown(socket.SHUT_WR)
            if len(made.recv(16, socket.MSG_WAITALL)) == 16:
                return
        time.sleep(0.05)
    sys.exit("the service does not listen")


def ask(port, *wish):
    """By a connection of its own: the server ends one that is idle for as long as all transfers take on a busy machine."""
    with contextlib.closing(Client(port)) as client:
        return client.must(*wish)


def bench_ports(build, quick):
    with serving(build) as (_, port):
        wish = {
            "agent": "bench", "type": "service", "command": ["python3", "-c", PEER.replace("PORT", "7000")],
            "ports": [{"port": 7000, "expose": 0}],
        }  # fmt: skip
        made = ask(port, "POST", "/v1/containers", wish)
        plain = subprocess.Popen([sys.executable, "-c", PEER.replace("PORT", "0")], stdout=subprocess.PIPE, text=True)
        try:
            exposed, floor = made["ports"][0]["hostPort"], int(plain.stdout.readline())
            await_peer(exposed)
            for into, name in ((True, "into a container"), (False, "out of a container")):
                ours, theirs = [], []
                for _ in range(1 if quick else 7):
                    ours.append(transfer(exposed, into))
                    theirs.append(transfer(floor, into))
                took, beside = statistics.median(ours), statistics.median(theirs)
                judged = verdict(took <= 3 * beside, "3x")
                say(f"1 GB {name}", f"{took:.2f} s, {BYTES / took / 1e9:.2f} GB/s", f"{beside:.2f} s by a plain socket", f"{took / beside:.2f}x; {judged}")
        finally:
            plain.kill()
            plain.wait()
            ask(port, "DELETE", f"/v1/containers/{made['id']}")
            # Removed containers end a little later: a server that ends in between would leave that to the next one, and there
            # is none.
            await_workers()
