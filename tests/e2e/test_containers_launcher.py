# SPDX-License-Identifier: Apache-2.0
"""Containers of a server without rights, placed by a launcher: owners are apart, and services outlive server and launcher."""

import contextlib
import http.client
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from binary import ROOT
from controllers import PATIENCE, wait_until
from lib.container_ports import ASK, answers, counter
from lib.containers import CLIENTS, COUNT, Containers, kill_server, loops
from lib.lab import TOKENS
from lib.launched_sessions import alive, box, launcher, nothing_left, user_of_worker, workers_of  # noqa: F401
from lib.launchers import Launcher, as_the_unit

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a launcher has root's rights")


@pytest.fixture
def serve(box, launcher):  # noqa: F811
    made = Containers(box, clients=CLIENTS)
    made.agent = "reader"
    made.options = ["--accept-degraded", "--launcher", launcher.socket]
    yield made.start(*made.options)
    if made.process is None:
        made.start(*made.options)
    workers = workers_of(launcher)
    for one in made.call("GET", "/v1/containers?limit=1000", token=TOKENS["watcher"]).items():
        assert made.call("DELETE", f"/v1/containers/{one['id']}", token=TOKENS["file"]).status == 204
    wait_until(lambda: nothing_left(launcher, workers), timeout=60 * PATIENCE)
    assert made.stop() == 0


def test_owners_have_users_of_their_own(serve, launcher):  # noqa: F811
    mine, bobs = serve.service("sleep", "600"), serve.service("sleep", "600", owner="bob")
    users = {user_of_worker(launcher, mine), user_of_worker(launcher, bobs)}
    assert len(users) == 2 and not users & {0, os.getuid()}
    assert serve.exec(mine, "echo", "in")["stdout"]["content"] == "in\n"
    done = serve.finish("python3", "-c", "print(6 * 7); raise SystemExit(3)")
    assert (done["exitCode"], done["stdout"]) == (3, "42\n")
    assert serve.finish("sleep", "600", timeoutSeconds=1)["reason"] == "deadline"


def test_a_service_outlives_server_and_launcher(serve, launcher):  # noqa: F811
    service = serve.service("sh", "-c", COUNT)
    wait_until(lambda: "line 20\n" in serve.logs(service))
    kill_server(serve)
    launcher.process.send_signal(signal.SIGKILL)
    launcher.process.wait()
    launcher.start()
    serve.start(*serve.options)
    now = len(serve.logs(service).splitlines())
    wait_until(lambda: len(serve.logs(service).splitlines()) > now + 20, timeout=60 * PATIENCE)
    found = serve.logs(service).splitlines()
    assert found == [f"line {n + 1}" for n in range(len(found))]
    assert (serve.show(service)["status"], serve.show(service)["starts"]) == ("running", 1)
    assert serve.order(service, "stop", 200)["status"] == "stopped"


# Writes down each start, on the disk before it is there, and answers with all of them.
STARTS = """
import http.server, os
with open("starts", "a") as starts:
    starts.write("x")
    starts.flush()
    os.fsync(starts.fileno())
http.server.HTTPServer(("127.0.0.1", 8000), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


def starts_told(port):
    """None: it does not listen."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60 * PATIENCE)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/starts")
        return connection.getresponse().read()


def test_a_service_comes_back_when_all_has_been_killed(box, binary):  # noqa: F811
    """Server, launcher and workers, as when the machine goes down; the launcher has the rights of its unit, and no others."""
    unit = as_the_unit((ROOT / "examples/launcher/berth-launcher.service").read_text())
    disk = Path(tempfile.mkdtemp(prefix="berth-disk-"))
    placing = Launcher(binary, "--accept-degraded", "--disk", str(disk), before=unit, workers=True)
    server = Containers(box, clients=CLIENTS)
    server.agent = "reader"
    options = ["--accept-degraded", "--launcher", placing.socket]
    try:
        server.start(*options)
        made = server.service(code=STARTS, name="web", ports=[{"name": "http", "port": 8000, "expose": 0}])
        ports = server.show(made)["ports"]
        wait_until(lambda: starts_told(ports[0]["hostPort"]) == b"x", timeout=60 * PATIENCE)
        workers = workers_of(placing)
        kill_server(server)
        placing.kill()
        assert workers and starts_told(ports[0]["hostPort"]) == b"x"
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(alive(pid) for pid in workers) and starts_told(ports[0]["hostPort"]) is None, timeout=60 * PATIENCE)
        placing.start()
        server.start(*options)
        wait_until(lambda: starts_told(ports[0]["hostPort"]) == b"xx", timeout=60 * PATIENCE)
        found = server.wait_for(made, "running")
        assert (found["ports"], found["starts"]) == (ports, 2), found
        assert server.call("DELETE", f"/v1/containers/{made}").status == 204
        assert server.stop() == 0
    finally:
        if server.process:
            server.stop()
        placing.end()
        wait_until(lambda: not any(str(disk) in image for _, image in loops()), timeout=60 * PATIENCE)
        shutil.rmtree(disk)


def test_ports_and_a_network_of_a_pair(serve, launcher):  # noqa: F811
    made = counter(serve, name="db")
    port = serve.show(made)["ports"][0]["hostPort"]

    def asked(**wish):
        return serve.finish("python3", "-c", ASK, "db.berth", "7000", "hello", **wish)

    assert asked()["stdout"].startswith("5 ")
    assert asked(owner="bob")["exitCode"] == 1
    kill_server(serve)
    assert answers(port)
    serve.start(*serve.options)
    assert asked()["stdout"].startswith("5 ") and answers(port) and serve.show(made)["starts"] == 1
