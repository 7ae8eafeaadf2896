# SPDX-License-Identifier: Apache-2.0
"""Ports of containers: on this machine's loopback, among containers of one owner and agent, and nowhere else."""

import concurrent.futures
import os
import signal
import socket
import struct
from pathlib import Path

import pytest

from controllers import PATIENCE, wait_until
from git_servers import free_port
from lib.container_ports import ASK, answers, ask, connect, counter, host_port
from lib.containers import kill_server, kill_workers, serve, workers_of  # noqa: F401

ECHO = r"""
import asyncio, sys
async def answer(reader, writer):
    while piece := await reader.read(1 << 16):
        writer.write(piece)
        await writer.drain()
    writer.close()
tasks = set()
def take(reader, writer):
    task = asyncio.ensure_future(answer(reader, writer))
    tasks.add(task)
    task.add_done_callback(tasks.discard)
async def main():
    async with await asyncio.start_server(take, "127.0.0.1", int(sys.argv[1]), backlog=128) as server:
        await server.serve_forever()
asyncio.run(main())
"""
LATE = r"""
import os, socket, sys, threading, time
def answer(made):
    made.sendall(b"".join(iter(lambda: made.recv(100), b"")))
    made.close()
with socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=128) as server:
    open("/tmp/listens", "w").close()
    while not os.path.exists("/tmp/accept"):
        time.sleep(0.1)
    while True:
        threading.Thread(target=answer, args=(server.accept()[0],)).start()
"""
# Echoes at an address of either family; of the second, for that alone or for both.
FAMILY = r"""
import socket, sys, threading
with socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET) as made:
    if made.family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, sys.argv[3] == "alone")
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((sys.argv[1], int(sys.argv[2])))
    made.listen(128)
    def answer(one):
        with one:
            one.sendall(b"".join(iter(lambda: one.recv(65536), b"")))
    while True:
        threading.Thread(target=answer, args=(made.accept()[0],)).start()
"""


def listen(port):
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return None


def test_a_port_is_reached_on_loopback_and_outlives_the_server(serve):
    made = counter(serve, name="db")
    ports = serve.show(made)["ports"]
    assert [(p["name"], p["port"]) for p in ports] == [("count", 7000)]
    port = ports[0]["hostPort"]
    assert answers(port)
    # On no other address of this machine.
    others = [a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET) if not a[4][0].startswith("127.")]
    for address in [*others, "127.0.0.2"]:
        with pytest.raises(OSError):
            socket.create_connection((address, port), 5).close()
    # One that is open stays open over the server's death.
    with connect(port) as through:
        through.sendall(b"before ")
        kill_server(serve)
        assert answers(port)
        through.sendall(b"and after")
        through.shutdown(socket.SHUT_WR)
        assert through.recv(100).startswith(b"16 ")
    serve.start("--accept-degraded")
    serve.wait_for(made, "running")
    assert serve.show(made)["ports"] == ports and answers(port)
    # A worker that is killed takes its port with it; the service that comes back has the same.
    kill_workers(made)
    wait_until(lambda: serve.show(made)["starts"] == 2 and answers(port), timeout=60 * PATIENCE)
    assert serve.show(made)["ports"] == ports
    serve.order(made, "stop", status=200)
    serve.wait_for(made, "stopped")
    wait_until(lambda: not answers(port), timeout=60 * PATIENCE)


def test_containers_of_a_pair_reach_each_other_and_nobody_else_does(serve):
    made = counter(serve, name="db", expose=None)
    assert serve.show(made)["ports"] == [{"name": "count", "port": 7000, "hostPort": None}]
    # It runs before it listens.
    wait_until(lambda: serve.exec(made, "python3", "-c", ASK, "127.0.0.1", "7000", "x")["stdout"]["content"].startswith("1 "), timeout=60 * PATIENCE)
    for host in ("127.0.0.1", "localhost", "db.berth"):
        done = serve.finish("python3", "-c", f"import time\n{ASK}", host, "7000", "hello")
        assert done["stdout"].startswith("5 "), done
    # From an exec in another service of the pair, that began before there was such a name.
    late = counter(serve, port=7001, expose=None, name="late")
    wait_until(lambda: serve.exec(made, "python3", "-c", ASK, "late.berth", "7001", "hey")["stdout"]["content"].startswith("3 "), timeout=60 * PATIENCE)
    # Its own machine's loopback is in nobody's reach, and it in none of others.
    with socket.create_server(("127.0.0.1", 0)) as outside:
        done = serve.finish("python3", "-c", ASK, "127.0.0.1", str(outside.getsockname()[1]), "hello")
        assert done["exitCode"] == 1 and "ConnectionRefusedError" in done["stderr"]
    for wish in ({"owner": "bob"}, {"agent": "small"}):
        for host in ("127.0.0.1", "db.berth"):
            done = serve.finish("python3", "-c", ASK, host, "7000", "hello", **wish)
            assert done["exitCode"] == 1 and "5 " not in done["stdout"], done
    # The name goes with the service.
    assert serve.call("DELETE", f"/v1/containers/{made}").status == 204
    wait_until(lambda: "db.berth" not in serve.exec(late, "cat", "/etc/hosts")["stdout"]["content"], timeout=60 * PATIENCE)


def test_a_network_is_found_again_after_a_death(serve):
    made = counter(serve, expose=None)
    kill_server(serve)
    serve.start("--accept-degraded")
    # At once, while its neighbour is still looked for.
    done = serve.finish("python3", "-c", ASK, "127.0.0.1", "7000", "hello")
    assert done["stdout"].startswith("5 "), done
    assert serve.show(made)["starts"] == 1


def test_ports_that_are_taken_are_told(serve):
    taken = free_port()
    first = counter(serve, name="first", expose=taken)

    def refused(status, code, text, **wish):
        answer = serve.call("POST", "/v1/containers", {"agent": "analyst", "type": "service", "command": ["sleep", "60"], **wish}, wish.pop("owner", None))
        assert (answer.status, answer.json()["code"]) == (status, code) and text in answer.json()["detail"], answer.body

    on_machine = f"port {taken} of 127.0.0.1 is taken on this machine"
    refused(409, "conflict", on_machine, ports=[{"port": 1234, "expose": taken}])
    refused(409, "conflict", "the container first has port 7000 already", ports=[{"port": 7000}])
    # Another owner hears of the machine's port, not of whose it is.
    answer = serve.call("POST", "/v1/containers", {"agent": "analyst", "type": "service", "command": ["sleep", "60"], "ports": [{"port": 7000, "expose": taken}]}, "bob")
    assert answer.status == 409 and answer.json()["detail"] == on_machine
    with socket.create_server(("127.0.0.1", 0)) as other:
        refused(409, "conflict", "is taken on this machine", ports=[{"port": 1234, "expose": other.getsockname()[1]}])
    for ports in ([{"port": 0}], [{"port": 65536}], [{}], [{"port": 1, "expose": -1}], [{"port": 1, "expose": 22}], [{"port": 1, "expose": 1023}], [{"port": 1}, {"port": 1}], [{"port": 1, "name": "A"}],
                  [{"port": 1, "name": "../x"}], [{"port": 1, "extra": 1}], [{"port": n + 1} for n in range(17)], {"port": 1}, [1]):
        answer = serve.call("POST", "/v1/containers", {"agent": "analyst", "command": ["true"], "ports": ports})
        assert answer.status == 400, (ports, answer.body)
    # A stopped service keeps its port of this machine, and takes it again.
    serve.order(first, "stop", status=200)
    serve.wait_for(first, "stopped")
    refused(409, "conflict", on_machine, ports=[{"port": 1234, "expose": taken}])
    # Where somebody else has it by then, it cannot start, and says so; and does once it is free.
    with wait_until(lambda: listen(taken), timeout=60 * PATIENCE):
        serve.order(first, "start")
        wait_until(lambda: serve.show(first)["detail"] == on_machine, timeout=60 * PATIENCE)
        assert serve.show(first)["reason"] == "could-not-start"
    wait_until(lambda: answers(taken), timeout=90 * PATIENCE)


def test_connections_end_as_they_do_without_it(serve):
    port = host_port(serve, counter(serve))
    # Half-closed: what is answered comes after the end of what was sent.
    assert ask(port, b"y" * 100_000).startswith(b"100000 ")
    # Broken on this side: broken on the other, and the next is served.
    for _ in range(50):
        with connect(port) as broken:
            broken.sendall(b"z" * 1000)
            broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert answers(port)
    # Nobody listens inside: broken, and not held open.
    empty = serve.service("sleep", "600", ports=[{"port": 7009, "expose": 0}])
    with pytest.raises(ConnectionResetError), connect(host_port(serve, empty)) as made:
        assert made.recv(1) == b"never"
        made.sendall(b"x")
        made.recv(1)
    # Whoever does not read holds up himself alone.
    silent = serve.service("python3", "-c", ECHO, "7010", ports=[{"port": 7010, "expose": 0}])
    echo = host_port(serve, silent)
    wait_until(lambda: echoes(echo), timeout=60 * PATIENCE)
    with connect(echo) as greedy:
        greedy.settimeout(1)
        with pytest.raises(TimeoutError):
            while True:
                greedy.sendall(b"w" * (1 << 20))
        assert echoes(echo)


def echoes(port):
    try:
        return ask(port, b"ping") == b"ping"
    except OSError:
        return False


def test_what_listens_at_any_address_is_found(serve):
    """That is the sandbox's own loopback's, or all of its."""
    ways = [("0.0.0.0", ""), ("::", ""), ("::", "alone"), ("::1", "alone")]
    made = [serve.service("python3", "-c", FAMILY, host, str(7100 + n), how, ports=[{"port": 7100 + n, "expose": 0}]) for n, (host, how) in enumerate(ways)]
    for one in made:
        port = host_port(serve, one)
        wait_until(lambda port=port: echoes(port), timeout=60 * PATIENCE)


def test_of_many_who_ask_at_once_each_owner_has_one(serve):
    """The same name, and the same port of their network."""
    wish = {"agent": "analyst", "type": "service", "command": ["sleep", "600"], "name": "same", "ports": [{"port": 7000, "expose": 0}]}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers_ = list(pool.map(lambda n: serve.call("POST", "/v1/containers", wish, ("alice", "bob")[n % 2]), range(16)))
    assert sorted(answer.status for answer in answers_) == [201, 201] + 14 * [409], answers_
    found = [answer.json() for answer in answers_ if answer.status == 201]
    assert len({one["owner"] for one in found}) == 2 and len({one["ports"][0]["hostPort"] for one in found}) == 2, found


def test_thousands_of_connections(serve):
    made = serve.service("python3", "-c", ECHO, "7000", ports=[{"port": 7000, "expose": 0}])
    port = host_port(serve, made)
    wait_until(lambda: echoes(port), timeout=60 * PATIENCE)
    # A thousand at once, each with its own answer ...
    held = [connect(port) for _ in range(1000)]
    for number, one in enumerate(held):
        one.sendall(b"%06d" % number)
    assert all(one.recv(6, socket.MSG_WAITALL) == b"%06d" % number for number, one in enumerate(held))
    for one in held:
        one.close()
    # ... and some thousand after one another, by many.
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answered = list(pool.map(lambda n: ask(port, b"%d" % n), range(3000)))
    wrong = [(n, found) for n, found in enumerate(answered) if found != b"%d" % n]
    assert not wrong, (wrong, serve.show(made), serve.logs(made))
    # More than may be open at once wait, and are served once there is room.
    held = [connect(port) for _ in range(2000)]
    late = held[-1]
    for one in held[:-1]:
        one.close()
    late.sendall(b"late")
    assert late.recv(4, socket.MSG_WAITALL) == b"late"
    late.close()
    assert serve.show(made)["starts"] == 1


def test_who_comes_while_nobody_accepts_waits(serve):
    """More than the kernel keeps for a program: none is broken, and no byte of any is lost, however long that takes to accept the first."""
    made = serve.service("python3", "-c", LATE, "7000", ports=[{"port": 7000, "expose": 0}])
    port = host_port(serve, made)
    wait_until(lambda: serve.exec(made, "sh", "-c", "test -e /tmp/listens")["exitCode"] == 0, timeout=60 * PATIENCE)
    held = [connect(port) for _ in range(600)]
    for number, one in enumerate(held):
        one.sendall(b"%d" % number)
        one.shutdown(socket.SHUT_WR)
    assert serve.exec(made, "touch", "/tmp/accept")["exitCode"] == 0
    answered = [b"".join(iter(lambda: one.recv(100), b"")) for one in held]
    assert answered == [b"%d" % number for number in range(600)]
    for one in held:
        one.close()


def test_a_gigabyte_goes_through(serve):
    import hashlib

    port = host_port(serve, counter(serve))
    piece, seen = os.urandom(1 << 20), hashlib.sha256()
    with connect(port) as made:
        for _ in range(1024):
            made.sendall(piece)
            seen.update(piece)
        made.shutdown(socket.SHUT_WR)
        assert made.makefile("rb").read() == f"{1 << 30} {seen.hexdigest()}".encode()


def test_the_passer_on_is_the_containers_own(serve):
    made = counter(serve)
    port = host_port(serve, made)
    # Inside nothing of it is seen, and nothing of it can be killed.
    inside = serve.exec(made, "sh", "-c", "cat /proc/[0-9]*/comm; ss -ltn 2>/dev/null || cat /proc/net/tcp")["stdout"]["content"]
    assert "berth-ports" not in inside and format(port, "04X") not in inside.upper()
    beside = counter(serve, port=7001)
    # Where it is killed all the same, the container ends and is started again, with its port; and no other container's does.
    with connect(host_port(serve, beside)) as through:
        through.sendall(b"before ")
        for pid in passers_of(made):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: serve.show(made)["starts"] == 2 and answers(port), timeout=60 * PATIENCE)
        through.sendall(b"and after")
        through.shutdown(socket.SHUT_WR)
        assert through.recv(100).startswith(b"16 ")
    assert serve.show(beside)["starts"] == 1


def passers_of(container):
    """Of all on this machine, where other tests have theirs, those that the container's worker started."""
    (record,) = [path for path in workers_of(container) if path.endswith(".worker")]
    families = [int(Path(record).read_text().split("-")[0])]
    for parent in families:
        families += [pid for pid, of in parents().items() if of == parent]
    found = [pid for pid in families if status(pid).get("Name") == "berth-ports"]
    assert found
    return found


def parents():
    return {int(pid): int(status(pid).get("PPid", 0)) for pid in os.listdir("/proc") if pid.isdigit()}


def status(pid):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
