# SPDX-License-Identifier: Apache-2.0
"""Containers of a server without rights, placed by a launcher: owners are apart, and services outlive server and launcher."""

import os
import signal

import pytest

from controllers import PATIENCE, wait_until
from test_container_ports import ASK, answers, counter
from test_containers import CLIENTS, COUNT, Containers, kill_server
from test_serve import TOKENS
from test_sessions_launcher import box, launcher, nothing_left, user_of_worker, workers_of  # noqa: F401

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
