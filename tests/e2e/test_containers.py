# SPDX-License-Identifier: Apache-2.0
"""Containers through `berth serve`, by a client that shares no code with it: what runs, how it ended, and whose it is."""

import concurrent.futures
import contextlib
import glob
import http.client
import json
import os
import signal
import time
from pathlib import Path

import pytest

import stacks
from controllers import PATIENCE, wait_until
from lib.containers import AGENTS, COUNT, kill_server, kill_workers, serve, workers_of  # noqa: F401
from lib.lab import TOKENS, stack
from lib.openapi import Judge, example


def test_a_temporary_container_runs_and_says_how_it_ended(serve):
    done = serve.finish("python3", "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (done["status"], done["exitCode"], done["reason"], done["detail"]) == ("exited", 3, "exited", None)
    assert (done["stdout"], done["stderr"], done["truncated"]) == ("out\n", "err\n", False)
    assert (done["type"], done["agent"], done["environment"], done["owner"], done["starts"]) == ("temporary", "analyst", "data", "company/alice", 1)
    assert serve.show(done["id"])["exitCode"] == 3 and sorted(serve.logs(done["id"]).splitlines()) == ["err", "out"]
    ok = serve.finish(code="import os\nprint(os.environ['V'], os.getcwd())", variables={"V": "v"})
    assert (ok["exitCode"], ok["stdout"]) == (0, "v /workspace\n")
    shell = serve.finish(code="echo $0; exit 4", language="sh")
    assert (shell["exitCode"], shell["stdout"]) == (4, "/bin/sh\n")
    shell = serve.finish(code="echo $0 {a,b}; exit 4", language="bash")
    assert (shell["exitCode"], shell["stdout"]) == (4, "bash a b\n")
    gone = serve.call("DELETE", f"/v1/containers/{ok['id']}")
    never = serve.call("GET", "/v1/containers/c-" + "a" * 26)
    assert gone.status == 204 and serve.call("GET", f"/v1/containers/{ok['id']}").body == never.body
    assert never.problem(404, "not-found")
    assert serve.call("GET", f"/v1/containers/{ok['id']}/logs").problem(404, "not-found")


def test_each_end_has_its_reason(serve):
    killed = serve.finish("sh", "-c", "kill -9 $$")
    assert (killed["status"], killed["exitCode"], killed["reason"]) == ("exited", None, "killed") and "signal 9" in killed["detail"]
    late = serve.finish("sleep", "600", timeoutSeconds=1)
    assert (late["exitCode"], late["reason"]) == (None, "deadline")
    memory = serve.finish("python3", "-c", "x = bytearray(1 << 30); print('never')", agent="small")
    assert (memory["exitCode"], memory["reason"], memory["stdout"]) == (None, "memory", "")
    absent = serve.finish("no-such-program")
    assert (absent["exitCode"], absent["reason"], absent["starts"]) == (None, "could-not-start", 1) and "no-such-program" in absent["detail"]
    stubborn = serve.make("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")["id"]
    wait_until(lambda: serve.logs(stubborn) == "ready\n")
    stopped = serve.order(stubborn, "stop", 200)
    assert (stopped["status"], stopped["exitCode"], stopped["reason"]) == ("stopped", None, "stopped")
    polite = serve.make("sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done")["id"]
    wait_until(lambda: serve.logs(polite) == "ready\n")
    stopped = serve.order(polite, "stop", 200)
    assert (stopped["status"], stopped["exitCode"], stopped["reason"]) == ("stopped", 7, "stopped")
    assert serve.call("POST", f"/v1/containers/{polite}/start", {}).problem(409, "conflict")


def test_what_is_wrong_is_said(serve):
    def refused(status, problem, **wish):
        return serve.call("POST", "/v1/containers", {"agent": "analyst", "command": ["true"], **wish}).problem(status, problem)["detail"]

    assert "command" in refused(400, "invalid", code="1")
    assert "command" in refused(400, "invalid", command=None)
    assert refused(400, "invalid", command=[])
    assert refused(400, "invalid", command=[""])
    assert refused(400, "invalid", command=["a\0b"])
    assert refused(400, "invalid", command=["x" * 131072])
    assert refused(400, "invalid", command=["x" * 131000] * 3)
    assert refused(400, "invalid", name="Upper") and refused(400, "invalid", name="../x") and refused(400, "invalid", name="-x")
    assert refused(400, "invalid", restart="always") and refused(400, "invalid", type="service", timeoutSeconds=5)
    assert refused(400, "invalid", type="service", waitSeconds=5)
    assert refused(400, "invalid", unknown=1)
    assert refused(404, "unknown-agent", agent="nobody")
    assert refused(400, "invalid", variables={"1x": "y"})
    assert serve.call("POST", "/v1/containers", {"agent": "analyst", "command": ["true"]}, token=TOKENS["narrow"]).problem(403, "not-permitted")
    assert serve.call("GET", "/v1/containers").items() == []


def test_names_are_one_owners_and_agents(serve):
    first = serve.service("sleep", "600", name="db")
    assert first in serve.call("POST", "/v1/containers", {"agent": "analyst", "name": "db", "command": ["true"]}).problem(409, "conflict")["detail"]
    other = serve.service("sleep", "600", name="db", agent="small")
    bobs = serve.service("sleep", "600", name="db", owner="bob")
    assert len({first, other, bobs}) == 3
    assert [c["id"] for c in serve.call("GET", "/v1/containers?name=db&agent=analyst").items()] == [first]
    assert serve.call("DELETE", f"/v1/containers/{first}").status == 204
    again = serve.service("sleep", "600", name="db")
    assert again != first


def test_not_yours_is_not_there(serve):
    mine = serve.service("sleep", "600")
    never = "c-" + "a" * 26
    for method, path, body in [
        ("GET", "", None), ("DELETE", "", None), ("GET", "/logs", None), ("GET", "/logs?follow=true", None), ("POST", "/stop", {}), ("POST", "/start", {}),
        ("POST", "/restart", {}), ("POST", "/exec", {"command": ["id"]}),
    ]:  # fmt: skip
        bobs = serve.call(method, f"/v1/containers/{mine}{path}", body, owner="bob")
        nobodys = serve.call(method, f"/v1/containers/{never}{path}", body)
        assert (bobs.status, bobs.body) == (nobodys.status, nobodys.body) and bobs.problem(404, "not-found")
    assert serve.call("GET", "/v1/containers", owner="bob").items() == []
    watcher = serve.call("GET", "/v1/containers", token=TOKENS["watcher"]).items()
    assert [c["id"] for c in watcher] == [mine]
    assert serve.call("GET", f"/v1/containers/{mine}/logs", token=TOKENS["watcher"]).problem(403, "not-permitted")
    assert serve.call("GET", f"/v1/sessions/{mine}", token=TOKENS["self"]).problem(404, "not-found")
    assert serve.show(mine)["status"] == "running"
    # Who may end any, and has some of his own besides.
    answer = serve.call("POST", f"/v1/containers/{mine}/stop", {}, token=TOKENS["self"])
    assert (answer.status, answer.json()["id"]) == (202, mine)
    assert serve.wait_for(mine, "stopped")["reason"] == "stopped"


def test_a_service_stays_in_its_environment(serve, offline):
    """Where its agent is bound elsewhere meanwhile, who may use the one environment alone gets nothing of the other."""

    def bind(environment):
        offline.write("stack.yaml", stack(*AGENTS, stacks.document("Agent", "mover", {"environment": environment})))
        offline("apply", "--yes").expect(0)

    bind("web")
    service = serve.service("sh", "-c", "echo ${PLAIN-none} ${HIDDEN-none}; exec sleep 600", agent="mover")
    wait_until(lambda: serve.logs(service) == "none none\n")
    bind("data")
    serve.order(service, "restart")
    wait_until(lambda: len(serve.logs(service).splitlines()) == 2, timeout=60 * PATIENCE)
    assert serve.logs(service) == "none none\n" * 2 and serve.show(service)["environment"] == "web"
    assert serve.finish("sh", "-c", "echo $PLAIN", agent="mover")["stdout"] == "plain-text\n"


def test_lists_have_pages_and_filters(serve):
    made = [serve.finish("true")["id"] for _ in range(5)]
    runs = serve.service("sleep", "600")
    seen, cursor = [], ""
    while cursor is not None:
        page = serve.call("GET", f"/v1/containers?limit=2{cursor and '&cursor=' + cursor}").json()
        assert len(page["items"]) <= 2
        seen += [c["id"] for c in page["items"]]
        cursor = page["cursor"]
    assert seen == [*made, runs]
    assert [c["id"] for c in serve.call("GET", "/v1/containers?status=running&status=queued").items()] == [runs]
    assert [c["id"] for c in serve.call("GET", "/v1/containers?type=temporary").items()] == made
    assert serve.call("GET", "/v1/containers?status=no").problem(400, "invalid")
    assert serve.call("GET", "/v1/containers?cursor=1.s-" + "a" * 26).problem(400, "invalid")


# --- services ---


def test_a_service_is_stopped_started_and_restarted(serve):
    service = serve.service("sh", "-c", "echo begun; sleep 600", name="web")
    wait_until(lambda: serve.logs(service) == "begun\n")
    shown = serve.show(service)
    assert (shown["type"], shown["restart"], shown["exitCode"], shown["reason"], shown["starts"], shown["endedAt"]) == ("service", "always", None, None, 1, None)
    stopped = serve.order(service, "stop", 200)
    assert (stopped["status"], stopped["reason"], stopped["starts"]) == ("stopped", "stopped", 1)
    assert serve.order(service, "stop", 200)["status"] == "stopped"
    assert serve.call("POST", f"/v1/containers/{service}/exec", {"command": ["true"]}).problem(409, "not-running")
    serve.order(service, "start")
    wait_until(lambda: serve.logs(service) == "begun\nbegun\n")
    serve.order(service, "start")
    assert serve.wait_for(service, "running")["starts"] == 2
    serve.order(service, "restart")
    wait_until(lambda: serve.logs(service) == "begun\n" * 3)
    assert serve.wait_for(service, "running")["starts"] == 3


def test_exec_in_a_service(serve):
    service = serve.service("sh", "-c", "echo secret > here; exec sleep 600", variables={"A": "1", "B": "2"})
    wait_until(lambda: serve.exec(service, "cat", "here")["stdout"]["content"] == "secret\n")
    done = serve.exec(service, "sh", "-c", 'printf "%s|" "$0" "$@" $A $B; exit 5', "it's", "a b", "$A", variables={"B": "3"})
    assert (done["status"], done["exitCode"], done["stdout"]["content"], done["session"]) == ("error", 5, "it's|a b|$A|1|3|", service)
    python = serve.exec(service, code="x = 41\nx + 1")
    assert (python["status"], python["value"]["text"]) == ("ok", "42")
    assert serve.exec(service, code="x + 2")["value"]["text"] == "43"
    assert serve.exec(service, "cat", stdin="in")["stdout"]["content"] == "in"
    late = serve.exec(service, "sleep", "600", timeoutSeconds=1)
    assert (late["status"], late["exitCode"]) == ("timeout", None)
    assert "sleep" in serve.exec(service, "sh", "-c", "cat /proc/*/comm")["stdout"]["content"].split()
    assert serve.call("POST", f"/v1/containers/{service}/exec", {"command": ["true"], "code": "1"}).problem(400, "invalid")
    assert serve.show(service)["status"] == "running" and serve.show(service)["starts"] == 1


def test_restart_policies(serve):
    failing = serve.make("sh", "-c", "echo failing; exit 3", status=201, type="service", restart="on-failure")["id"]
    wait_until(lambda: serve.show(failing)["starts"] >= 3, timeout=60 * PATIENCE)
    shown = serve.show(failing)
    assert shown["reason"] in ("exited", None) and shown["exitCode"] in (3, None)
    fine = serve.make("true", status=201, type="service", restart="on-failure")["id"]
    assert (serve.wait_for(fine, "exited")["exitCode"], serve.show(fine)["starts"]) == (0, 1)
    never = serve.make("false", status=201, type="service", restart="never")["id"]
    assert (serve.wait_for(never, "exited")["exitCode"], serve.show(never)["starts"]) == (1, 1)
    always = serve.make("true", status=201, type="service")["id"]
    wait_until(lambda: serve.show(always)["starts"] >= 2, timeout=60 * PATIENCE)
    # One that waits for its next start is stopped at once, and stays so.
    stopped = serve.order(always, "stop", 200)
    assert stopped["status"] == "stopped"
    starts = stopped["starts"]
    assert serve.finish("sleep", "2")["exitCode"] == 0
    assert serve.show(always)["starts"] == starts


def test_a_service_outlives_its_server(serve):
    service = serve.service("sh", "-c", COUNT)
    running = serve.make("sh", "-c", "sleep 3; echo done; exit 9")["id"]
    wait_until(lambda: "line 20\n" in serve.logs(service))
    wait_until(lambda: serve.show(running)["status"] == "running")
    for _ in range(3):
        kill_server(serve)
        serve.start("--accept-degraded")
        now = len(serve.logs(service).splitlines())
        wait_until(lambda: len(serve.logs(service).splitlines()) > now + 20)
    found = serve.logs(service).splitlines()
    assert found == [f"line {n + 1}" for n in range(len(found))]
    assert (serve.show(service)["status"], serve.show(service)["starts"]) == ("running", 1)
    ended = serve.wait_for(running, "exited")
    assert (ended["exitCode"], ended["starts"], serve.logs(running)) == (9, 1, "done\n")
    assert serve.exec(service, "echo", "still here")["stdout"]["content"] == "still here\n"


def test_a_machine_that_went_down(serve):
    service = serve.service("sh", "-c", "echo begun; sleep 600", restart="never")
    temporary = serve.make("sh", "-c", "echo begun; sleep 600")["id"]
    stopped = serve.service("sh", "-c", "sleep 600")
    serve.order(stopped, "stop", 200)
    wait_until(lambda: serve.logs(temporary) == "begun\n" and serve.logs(service) == "begun\n")
    kill_server(serve)
    kill_workers(service, temporary)
    serve.start("--accept-degraded")
    wait_until(lambda: serve.logs(service) == "begun\nbegun\n", timeout=60 * PATIENCE)
    assert (serve.wait_for(service, "running")["starts"]) == 2
    lost = serve.wait_for(temporary, "exited")
    assert (lost["exitCode"], lost["reason"], lost["starts"], serve.logs(temporary)) == (None, "lost", 1, "begun\n")
    assert serve.show(stopped)["status"] == "stopped"


def test_an_order_outlives_its_server(serve):
    # What does not hear SIGTERM is there when the server dies, and ten seconds behind that.
    deaf = ("sh", "-c", "trap '' TERM; echo begun; while :; do sleep 1; done")
    stopped, restarted = serve.service(*deaf), serve.service(*deaf, restart="never")
    wait_until(lambda: serve.logs(stopped) == "begun\n" and serve.logs(restarted) == "begun\n")
    answer = serve.call("POST", f"/v1/containers/{stopped}/stop", {}, headers=[("Prefer", "respond-async")])
    assert (answer.status, answer.json()["status"]) == (202, "running")
    serve.order(restarted, "restart")
    kill_server(serve)
    serve.start("--accept-degraded")
    shown = serve.wait_for(stopped, "stopped")
    assert (shown["reason"], shown["starts"]) == ("stopped", 1)
    wait_until(lambda: serve.logs(restarted) == "begun\nbegun\n", timeout=60 * PATIENCE)
    assert serve.wait_for(restarted, "running")["starts"] == 2
    assert serve.show(stopped)["status"] == "stopped"
    # At once behind a start, when it may not be found again yet.
    kill_server(serve)
    serve.start("--accept-degraded")
    assert serve.order(restarted, "stop", 200)["status"] == "stopped"


def test_a_restart_that_a_death_meets_anywhere(serve):
    service = serve.service("sh", "-c", "echo begun; exec sleep 600", restart="never")
    for n, pause in enumerate((0, 0.01, 0.03, 0.06, 0.1, 0.2)):
        wait_until(lambda: serve.logs(service) == "begun\n" * (n + 1), timeout=60 * PATIENCE)
        serve.order(service, "restart")
        time.sleep(pause)
        kill_server(serve)
        serve.start("--accept-degraded")
        # One that was begun right behind a death's sandbox failed to start, and counted as started.
        wait_until(lambda: serve.logs(service) == "begun\n" * (n + 2), timeout=60 * PATIENCE)
        shown = serve.wait_for(service, "running")
        assert (shown["starts"], shown["reason"]) == (n + 2, None)


def test_a_worker_that_is_killed(serve):
    service = serve.service("sh", "-c", "echo begun; sleep 600", restart="on-failure")
    temporary = serve.make("sh", "-c", "echo begun; sleep 600")["id"]
    wait_until(lambda: serve.logs(temporary) == "begun\n" and serve.logs(service) == "begun\n")
    kill_workers(service, temporary)
    killed = serve.wait_for(temporary, "exited")
    assert (killed["exitCode"], killed["reason"]) == (None, "killed")
    wait_until(lambda: serve.logs(service) == "begun\nbegun\n", timeout=60 * PATIENCE)


def test_an_exec_whose_server_dies_holds_up_nobody(serve):
    service = serve.service("sh", "-c", "until [ -e here ]; do sleep 0.1; done; echo there; exec sleep 600")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(serve.exec, service, "sh", "-c", "touch here; exec sleep 600", timeoutSeconds=900)
        wait_until(lambda: serve.logs(service) == "there\n")
        kill_server(serve)
    serve.start("--accept-degraded")

    def answers():
        answer = serve.call("POST", f"/v1/containers/{service}/exec", {"command": ["echo", "on"]})
        return answer.status == 200 and answer.json()["status"] == "ok"

    wait_until(answers)
    assert serve.show(service)["starts"] == 1


def test_every_operation_answers_as_the_document_says(serve):
    document = serve.call("GET", "/openapi.json").json()
    judge = Judge(document)

    def ask(name, method, path, body=None, **more):
        return judge.of(name, serve.call(method, path, body, **more))

    done = ask("createContainer", "POST", "/v1/containers", example(document, "createContainer")).json()
    assert (done["exitCode"], done["stdout"]) == (0, "42\n")
    assert ask("createContainer", "POST", "/v1/containers", {"agent": "analyst", "command": ["true"]}).status == 202
    service = ask("createContainer", "POST", "/v1/containers", {"agent": "analyst", "type": "service", "code": "print(1); import time; time.sleep(600)"}).json()["id"]
    at = f"/v1/containers/{service}"
    serve.wait_for(service, "running")
    ask("createContainer", "POST", "/v1/containers", {"agent": "analyst"}).problem(400, "invalid")
    ask("listContainers", "GET", "/v1/containers?limit=1")
    ask("getContainer", "GET", at)
    wait_until(lambda: ask("containerLogs", "GET", f"{at}/logs").body == b"1\n")
    ask("containerLogs", "GET", f"{at}/logs", headers=[("Accept", "application/jsonl")])
    ask("execInContainer", "POST", f"{at}/exec", {"command": ["sh", "-c", "exit 3"]})
    wait_until(lambda: ask("getContainer", "GET", at).json()["usage"]["cpuPercent"] is not None)
    ask("listSandboxes", "GET", "/v1/sandboxes?limit=1")
    ask("containerStats", "GET", f"/v1/containers/{done['id']}/stats")
    assert ask("stopContainer", "POST", f"{at}/stop", {}).status == 200
    ask("execInContainer", "POST", f"{at}/exec", {"code": "1"}).problem(409, "not-running")
    assert ask("startContainer", "POST", f"{at}/start", {}).status == 202
    assert ask("restartContainer", "POST", f"{at}/restart", {}).status == 202
    assert ask("stopContainer", "POST", f"{at}/stop", {}, headers=[("Prefer", "respond-async")]).status in (200, 202)
    assert ask("removeContainer", "DELETE", at).status == 204
    ask("getContainer", "GET", at).problem(404, "not-found")
    every = {o["operationId"] for p in document["paths"].values() for o in p.values() if "Containers" in o["tags"]}
    assert every == {name for name, _ in judge.seen}


# --- logs ---


def test_logs_by_their_end_and_from_a_time(serve):
    done = serve.finish("sh", "-c", "for i in $(seq 1000); do echo line $i; done; echo wrong >&2; printf unfinished")
    every = serve.printed(done["id"])
    assert [line["text"] for line in every if line["stream"] == "stdout"] == [*(f"line {n}" for n in range(1, 1001)), "unfinished"]
    assert [line["text"] for line in every if line["stream"] == "stderr"] == ["wrong"]
    assert [line["text"] for line in every if "partial" in line] == ["unfinished"]
    assert serve.printed(done["id"], "?tail=3") == every[-3:] and serve.printed(done["id"], "?tail=0") == []
    assert serve.printed(done["id"], "?tail=100000") == every
    assert serve.printed(done["id"], f"?since={every[0]['at']}") == every and serve.printed(done["id"], "?since=2100-01-01T00:00:00Z") == []
    assert serve.logs(done["id"], "?tail=1&follow=true") == "unfinished"
    assert serve.call("GET", f"/v1/containers/{done['id']}/logs?since=yesterday").problem(400, "invalid")


def test_any_bytes_are_shown_as_text(serve):
    done = serve.finish("sh", "-c", r"printf 'a\000b\377c\033[31md\n'")
    assert serve.printed(done["id"])[0]["text"] == "a\\x00b\\xFFc\x1b[31md" and done["stdout"] == "a\\x00b\\xFFc\x1b[31md\n"
    answer = serve.call("GET", f"/v1/containers/{done['id']}/logs")
    assert answer.body == b"a\0b\xffc\x1b[31md\n" and answer.headers["x-content-type-options"] == "nosniff"


# --- a hostile owner ---


def test_logs_that_nobody_reads_are_closed(serve):
    made = [serve.finish("echo", str(n))["id"] for n in range(4)]
    assert [serve.logs(one) for one in made] == [f"{n}\n" for n in range(4)]

    def held():
        found = []
        for descriptor in glob.glob(f"/proc/{serve.process.pid}/fd/*"):
            try:
                found.append(os.readlink(descriptor))
            except FileNotFoundError:  # closed meanwhile
                continue
        return [path for path in found if path.startswith(f"{serve.state / 'containers'}/")]

    wait_until(lambda: held() == [])
    assert [serve.logs(one) for one in made] == [f"{n}\n" for n in range(4)]
    wait_until(lambda: held() == [])


def test_floods_of_output_stay_in_their_ring(serve):
    """Both streams, for a while, without an end of line; another's container answers meanwhile, and what is kept is bounded and whole."""
    flood = serve.make("sh", "-c", "yes $(printf %0999d 0) & yes >&2 & tr '\\0' x </dev/zero", status=201, type="service")["id"]
    folder = serve.state / "containers"
    size = lambda: sum(f.stat().st_size for f in folder.glob(f"{flood}.*"))  # noqa: E731
    wait_until(lambda: any(int(f.name.rsplit(".", 1)[1]) > 3 for f in folder.glob(f"{flood}.*")), timeout=120 * PATIENCE)
    assert serve.finish("echo", "mine", owner="bob")["stdout"] == "mine\n"
    assert size() < 12 << 20
    assert serve.exec(flood, "echo", "still")["stdout"]["content"] == "still\n"
    stopped = serve.order(flood, "stop", 200)
    assert stopped["status"] == "stopped"
    assert 4 << 20 < len(serve.call("GET", f"/v1/containers/{flood}/logs").body) < 11 << 20


def test_a_log_is_followed_over_its_rotation(serve):
    """Each line is told once, whoever reads from its beginning on while the ring goes round, and a server that comes later goes on."""
    count = "i=0; while [ $i -lt 60000 ]; do i=$((i + 1)); echo $i $PAD; done"
    made = serve.make("sh", "-c", count, variables={"PAD": "x" * 500}, agent="analyst")["id"]
    answer = serve.call("GET", f"/v1/containers/{made}/logs?follow=true", headers=[("Accept", "application/jsonl")])
    lines = [json.loads(line) for line in answer.body.decode().splitlines()]
    numbers = [int(line["text"].split()[0]) for line in lines if line["stream"] == "stdout"]
    assert numbers == sorted(set(numbers)) and numbers[-1] == 60000
    # What was overwritten before it was read is not there, and that is said.
    gaps = sum(b != a + 1 for a, b in zip(numbers, numbers[1:], strict=False))
    said = [line["text"] for line in lines if line["stream"] == "berth"]
    assert numbers[0] == 1 and gaps <= len(said), (gaps, said)
    assert sum(f.stat().st_size for f in (serve.state / "containers").glob(f"{made}.*")) < 12 << 20


@pytest.mark.parametrize("form", ["application/jsonl", "text/plain"])
def test_who_follows_too_slowly_is_told(serve, form):
    """What the ring has overwritten before it was read is missing, and a line of its own says so where it is."""
    made = serve.make(code="for n in range(1, 60001):\n    print(f'n{n}', 'x' * 500)")["id"]
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", serve.port, timeout=60 * PATIENCE)) as slow:
        headers = {"Authorization": f"Bearer {TOKENS['users']}", "Berth-Owner": "alice", "Accept": form}
        slow.request("GET", f"/v1/containers/{made}/logs?follow=true", headers=headers)
        answer = slow.getresponse()
        first = answer.readline()
        serve.wait_for(made, "exited")
        lines = (first + answer.read()).decode().splitlines()
    if form == "application/jsonl":
        lines = [json.loads(line)["text"] for line in lines]
    said = [at for at, line in enumerate(lines) if line.startswith("some of the output is not here")]
    numbers = [int(line[1:-501]) for line in lines if line.startswith("n") and line.endswith(" " + "x" * 500)]
    assert numbers[0] == 1 and numbers[-1] == 60000 and numbers == sorted(set(numbers))
    gaps = [at for at, (a, b) in enumerate(zip(numbers, numbers[1:], strict=False)) if b != a + 1]
    assert said and len(gaps) <= len(said), (gaps, said)


def test_a_changed_limit_holds_with_the_next_apply(serve, offline):
    """Who waits begins, and who comes is turned away, without a restart of the server."""
    first = serve.service("sleep", "600", agent="one")
    waiting = [serve.make("sleep", "600", agent="one")["id"] for _ in range(2)]
    wait_until(lambda: [serve.show(c)["queuePosition"] for c in waiting] == [1, 2])

    def limit(**limits):
        agent = stacks.document("Agent", "one", {"environment": "data", "limits": limits})
        offline.write("stack.yaml", stack(*(a for a in AGENTS if a["metadata"]["name"] != "one"), agent))
        offline("apply", "--yes").expect(0)

    limit(containers=2)
    serve.wait_for(waiting[0], "running")
    assert serve.show(waiting[1])["queuePosition"] == 1 and serve.show(first)["starts"] == 1
    limit(containers=2, onLimit="reject")
    assert serve.call("POST", "/v1/containers", {"agent": "one", "command": ["true"]}).problem(429, "agent-limit")
    limit(containers=4)
    serve.wait_for(waiting[1], "running")
    assert serve.finish("true", agent="one")["exitCode"] == 0


def test_workers_that_are_stopped(serve):
    """SIGSTOP holds up neither the end of its container nor anybody else's."""
    made = [serve.service("sh", "-c", "while :; do sleep 1; done", owner=owner) for owner in ("alice", "bob")]
    pids = [int(Path(p).read_text().split("-")[0]) for p in workers_of(made[0]) if p.endswith(".worker")]
    assert len(pids) == 1
    os.kill(pids[0], signal.SIGSTOP)
    assert serve.exec(made[1], "echo", "in", owner="bob")["stdout"]["content"] == "in\n"
    assert serve.finish("echo", "mine")["stdout"] == "mine\n"
    assert serve.call("DELETE", f"/v1/containers/{made[0]}").status == 204
    wait_until(lambda: not workers_of(made[0]) and not os.path.exists(f"/proc/{pids[0]}"), timeout=90 * PATIENCE)
    assert serve.exec(made[1], "echo", "in", owner="bob")["stdout"]["content"] == "in\n"


def test_orders_at_once_leave_one_outcome(serve):
    """Stopped, started, restarted, run in and removed by many at once: nothing hangs, and nothing of it stays."""
    made = [serve.service("sh", "-c", "echo up; while :; do sleep 0.1; done", name=f"n{n}") for n in range(2)]

    def order(n):
        verb = ("stop", "start", "restart", "exec", "start", "restart")[n % 6]
        wish = {"command": ["true"], "timeoutSeconds": 5} if verb == "exec" else {}
        return serve.call("POST", f"/v1/containers/{made[n % 2]}/{verb}", wish).status

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answered = list(pool.map(order, range(48)))
    assert set(answered) <= {200, 202, 409, 429}, answered
    serve.order(made[0], "start", serve.call("POST", f"/v1/containers/{made[0]}/start", {}).status)
    assert serve.wait_for(made[0], "running")["name"] == "n0"
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        gone = list(pool.map(lambda n: serve.call("DELETE", f"/v1/containers/{made[n % 2]}").status, range(6)))
    assert sorted(set(gone)) in ([204], [204, 404]), gone
    wait_until(lambda: not any(workers_of(c) for c in made), timeout=60 * PATIENCE)


def test_commands_take_so_much_memory_of_an_owner(serve):
    wish = {"agent": "one", "command": ["sleep", "600", "x" * 130000, "y" * 130000]}
    answers = [serve.call("POST", "/v1/containers", wish) for _ in range(140)]
    made = [answer for answer in answers if answer.status == 202]
    assert 100 < len(made) < 135 and all(answer.problem(429, "owner-limit") for answer in answers[len(made):])
    assert serve.make("true", owner="bob")["id"]
    assert serve.call("DELETE", f"/v1/containers/{made[-1].json()['id']}").status == 204
    wait_until(lambda: serve.call("POST", "/v1/containers", wish).status == 202)


def test_a_fork_bomb_is_one_containers_trouble(serve):
    bomb = serve.make("python3", "-c", "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(0.1)", status=201, type="service")["id"]
    serve.wait_for(bomb, "running")
    assert serve.finish("echo", "mine", owner="bob")["stdout"] == "mine\n"
    assert serve.order(bomb, "stop", 200)["status"] == "stopped"
    wait_until(lambda: not workers_of(bomb), timeout=60 * PATIENCE)


def test_code_that_would_kill_its_runtime_ends_itself(serve):
    done = serve.finish("sh", "-c", "kill -9 -1 1; kill -9 $$")
    assert (done["status"], done["exitCode"]) == ("exited", None) and done["detail"] == "it was ended by signal 9", done
    service = serve.service("sleep", "600", restart="never")
    answer = serve.exec(service, "sh", "-c", "kill -9 1; for p in /proc/[0-9]*; do kill -9 ${p#/proc/}; done; sleep 60", timeoutSeconds=5)
    assert answer["status"] in ("killed", "error", "timeout", "failed") and answer["exitCode"] != 0


def test_the_agents_limits_make_a_line(serve):
    first = serve.service("sleep", "600", agent="one")
    waiting = [serve.make("echo", str(n), agent="one")["id"] for n in range(3)]
    bobs = serve.make("echo", "bob", agent="one", owner="bob")["id"]
    wait_until(lambda: [serve.show(c)["queuePosition"] for c in waiting] == [1, 2, 3] and serve.show(bobs, "bob")["queuePosition"] == 4)
    assert serve.show(bobs, "bob")["status"] == "queued"
    assert serve.finish("echo", "free")["stdout"] == "free\n"
    # The line is the same after a death, and one who gives up leaves it.
    assert serve.order(waiting[1], "stop", 200)["status"] == "stopped"
    kill_server(serve)
    serve.start("--accept-degraded")
    wait_until(lambda: (serve.show(waiting[0])["queuePosition"], serve.show(waiting[2])["queuePosition"]) == (1, 2), timeout=60 * PATIENCE)
    assert serve.show(first)["status"] == "running"
    serve.order(first, "stop", 200)
    ends = [serve.wait_for(c, "exited") for c in (waiting[0], waiting[2])] + [serve.wait_for(bobs, "exited", "bob")]
    assert [e["exitCode"] for e in ends] == [0, 0, 0]
    assert [e["startedAt"] for e in ends] == sorted(e["startedAt"] for e in ends)
    assert serve.show(waiting[1])["starts"] == 0


def test_memory_is_each_ones_and_no_reason_to_wait(serve, offline):
    """`memoryMB` bounds one sandbox: containers and runs of `berth exec` go on beside each other, whatever they have together."""
    service = serve.service("sleep", "600", agent="small")
    run = ["exec", "--agent", "small", "--accept-degraded", "--lang", "sh", "-c"]
    first = offline.popen(*run, "echo begun; sleep 600")
    try:
        assert first.stdout.readline() == b"begun\n"
        assert offline(*run, "echo second").expect(0).out == "second\n"
        assert serve.finish("echo", "third", agent="small")["stdout"] == "third\n"
        assert first.poll() is None and serve.show(service)["status"] == "running"
    finally:
        first.terminate()
        first.communicate()


def test_an_agent_that_turns_work_away(serve):
    serve.service("sleep", "600", agent="strict")
    assert serve.call("POST", "/v1/containers", {"agent": "strict", "command": ["true"]}).problem(429, "agent-limit")
    assert len(serve.call("GET", "/v1/containers?agent=strict").items()) == 1


def test_many_at_once(serve):
    made = [serve.make("echo", str(n))["id"] for n in range(40)]
    for n, container in enumerate(made):
        assert serve.wait_for(container, "exited")["exitCode"] == 0 and serve.logs(container) == f"{n}\n"
    wait_until(lambda: not any(workers_of(c) for c in made), timeout=60 * PATIENCE)


# --- the terminal ---


def test_the_verbs(serve, offline):
    run = ["containers", "run", "--agent", "analyst"]
    done = offline(*run, "--variable", "V=v", "--", "sh", "-c", "echo $V; echo err >&2; printf x; exit 3").expect(3)
    assert (done.out, done.err) == ("v\nx", "err\n")
    assert offline(*run, "-c", "print(6 * 7)").expect(0).out == "42\n"
    assert offline(*run, "--", "printf", "a\\0b\\n").expect(0).out == "a\\x00b\n"
    assert offline(*run, "--lang", "sh", "-c", "exit 4").expect(4).out == ""
    assert "deadline" in offline(*run, "--timeout", "1", "--", "sleep", "60").expect(124).err
    assert "killed" in offline(*run, "--", "sh", "-c", "kill -9 $$").expect(137).err
    assert "no-such" in offline(*run, "--", "no-such").expect(125).err
    assert "there is no agent analst; did you mean analyst?\n" in offline("containers", "run", "--agent", "analst", "--", "true").expect(125).err
    service = offline(*run, "--service", "--name", "db", "--", "sh", "-c", "echo begun; sleep 600").expect(0).out.strip()
    wait_until(lambda: offline("containers", "logs", "db").expect(0).out == "begun\n")
    assert offline("containers", "logs", "--tail", "1", service).expect(0).out == "begun\n"
    assert offline("containers", "exec", "db", "--", "sh", "-c", "echo in; exit 5").expect(5).out == "in\n"
    assert offline("containers", "exec", "db", "-c", "6 * 7").expect(0).out == "42\n"
    assert offline("containers", "exec", "db", "--", "cat", stdin="arrives").expect(0).out == "arrives"
    listed = offline("containers", "list", "--status", "running").expect(0).out
    assert service in listed and "db, agent analyst" in listed
    assert json.loads(offline("containers", "list", "--name", "db", "--json").expect(0).out)[0]["id"] == service
    offline("containers", "restart", "db").expect(0)
    wait_until(lambda: offline("containers", "logs", "db").expect(0).out == "begun\nbegun\n")
    offline("containers", "stop", "db").expect(0)
    assert "code runs in one that runs" in offline("containers", "exec", "db", "--", "true").expect(125).err
    offline("containers", "start", "db").expect(0)
    offline("containers", "rm", "db").expect(0)
    assert "there is no container db" in offline("containers", "logs", "db").expect(1).err
    assert "give a command" in offline(*run).expect(125).err
    assert "takes no --tail" in offline("containers", "list", "--tail", "3").expect(1).err
    assert "did you mean list" in offline("containers", "lisst").expect(1).err
    assert "--agent" in offline("containers", "run", "--", "true").expect(125).err
