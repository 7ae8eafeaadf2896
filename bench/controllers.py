# SPDX-License-Identifier: Apache-2.0
"""The controller at rest: how much memory it takes, and whether polls that find nothing leave anything behind."""

import hashlib
import hmac
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import plans
from common import OFFLINE, WORK

ENVIRONMENTS, AGENTS, POLLS = 1_000, 2_000, 10_000
BUDGET_MB = 32
SECRET = b"bench"
CONTROLLER = """apiVersion: berth/v1
kind: Controller
metadata: {{name: bench}}
spec:
  listen: 127.0.0.1:{port}
  webhookSecretFile: secret
  sources: [{{name: bench, url: "file://{repository}", branch: main, intervalSeconds: 3600}}]
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ask(port, path, body=None):
    headers = {}
    if body is not None:
        headers["X-Hub-Signature-256"] = "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


def metric(port, name):
    lines = ask(port, "/metrics").splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{"))


def resident_mb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError("no VmRSS")


def counts(pid, state):
    return {
        "MB": round(resident_mb(pid), 1),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": len(os.listdir(f"/proc/{pid}/task")),
        "files of the state": sum(len(files) for _, _, files in os.walk(state)),
    }


def make_repository(folder):
    shutil.rmtree(folder, ignore_errors=True)
    plans.write_manifests(folder, ENVIRONMENTS, AGENTS)
    (folder / "stack.yaml").write_text("apiVersion: berth/v1\nkind: Stack\nmetadata: {name: bench}\n")
    git = ["git", "-C", folder, "-c", "user.name=bench", "-c", "user.email=bench@example.com"]
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "All of it"]):
        subprocess.run([*git, *command], check=True)


def until(question, seconds, what):
    end = time.monotonic() + seconds
    while not question():
        if time.monotonic() > end:
            sys.exit(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def poll(port, times):
    """Webhooks wake it; those that come while it polls become one poll."""
    begin = metric(port, "berth_git_polls_total")
    done = 0
    while done < times:
        for _ in range(4):
            ask(port, "/hooks/bench", b"{}")
            time.sleep(0.005)
        done = metric(port, "berth_git_polls_total") - begin
    return done


def bench_controller(build, quick):
    port, folder = free_port(), WORK / "controller"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make_repository(folder / "repository")
    (folder / "secret").write_bytes(SECRET)
    (folder / "controller.yaml").write_text(CONTROLLER.format(port=port, repository=folder / "repository"))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [build / "berth", "controller", "-f", folder / "controller.yaml"],
            env=OFFLINE, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        time.sleep(1)
        until(lambda: metric(port, "berth_reconciles_total") >= 1, 120, "the first apply")
        poll(port, 20)
        before = counts(process.pid, folder / ".berth")
        start = time.monotonic()
        done = poll(port, POLLS // 20 if quick else POLLS)
        took = time.monotonic() - start
        after = counts(process.pid, folder / ".berth")
    finally:
        process.terminate()
        process.wait(60)
    verdict = "within" if max(before["MB"], after["MB"]) <= BUDGET_MB else "OVER"
    print(f"controller: {ENVIRONMENTS} environments and {AGENTS} agents on this machine, {verdict} the budget of {BUDGET_MB} MB")
    print(f"{'before':<22} {before}")
    print(f"{f'after {done:.0f} polls':<22} {after}   {took / done * 1000:.1f} ms a poll")
