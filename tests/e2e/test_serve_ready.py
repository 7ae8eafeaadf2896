# SPDX-License-Identifier: Apache-2.0
"""What `berth serve` says of itself: readiness, metrics, its log as JSON; and the alerts and the page that speak of them."""

import json
import os
import pathlib
import re
import subprocess

import pytest

import binary
from binary import Berth
from controllers import wait_until
from lib.lab import CLIENTS, TOKENS, stack
from lib.metrics import metrics, promtool
from serving import Serve

EXAMPLES = binary.ROOT / "examples/serve"


@pytest.fixture(scope="module")
def serve(binary, tmp_path_factory):
    berth = Berth(binary, tmp_path_factory.mktemp("ready"), "http://127.0.0.1:1")
    berth.write("stack.yaml", stack())
    berth("apply", "--yes").expect(0)
    made = Serve(berth, clients=CLIENTS)
    yield made.start("--accept-degraded", "--json")
    assert made.stop() == 0


def test_sessions_and_requests_are_measured(serve):
    body = [("Content-Type", "application/json")]
    answer = serve.ask("/v1/sessions", TOKENS["self"], method="POST", headers=body, body=b'{"environment": "data"}')
    assert answer.status == 201, answer.body
    path = f"/v1/sessions/{answer.json()['id']}"
    for code, status in (("1 + 1", "ok"), ("1 / 0", "error")):
        done = serve.ask(f"{path}/executions", TOKENS["self"], method="POST", headers=body, body=json.dumps({"code": code}).encode())
        assert done.json()["status"] == status, done.body
    found = metrics(serve)
    assert found['berth_serve_sessions{status="idle"}'] == "1" and found['berth_serve_sessions{status="parked"}'] == "0"
    assert found['berth_serve_executions_total{status="ok"}'] == found['berth_serve_executions_total{status="error"}'] == "1"
    assert found["berth_serve_execution_seconds_count{}"] == found["berth_serve_queue_seconds_count{}"] == "2"
    assert found["berth_serve_executions_running{}"] == found["berth_serve_executions_waiting{}"] == "0"
    route = 'method="POST",route="/v1/sessions/{id}/executions"'
    assert found[f'berth_serve_requests_total{{{route},code="200"}}'] == found[f"berth_serve_request_seconds_count{{{route}}}"] == "2"
    assert float(found["berth_serve_workspaces_free_bytes{}"]) > 0
    assert found['berth_serve_connections{state="working"}'] == "1"  # this one
    assert {name for name in found if name.startswith("berth_serve_ready")} == {
        f'berth_serve_ready{{check="{check}"}}' for check in ("state", "sessions", "records", "place", "disk")
    }
    # Whatever is asked for, no label is a stranger's, and no series is one more.
    for i in range(50):
        serve.ask(f"/word-{i}", TOKENS["self"], method=f"WORD{i}")
        serve.ask(f"/v1/sessions/word-{i}", TOKENS["self"], headers=[("Berth-Owner", f"word-{i}")])
    later = metrics(serve)
    assert not any("word" in name.lower() for name in later) and len(later) < len(found) + 60
    assert serve.ask(path, TOKENS["self"], method="DELETE").status == 204


def test_the_log_is_json(serve):
    lines = [json.loads(line) for line in serve.lines().splitlines()]
    assert lines and all({"time", "level", "message"} <= set(line) for line in lines)


def test_readiness_means_it(offline):
    """Each check by itself: what fails is said, to probes without a path, to the log with its reason; and all is well again."""
    offline.write("stack.yaml", stack())
    serve = Serve(offline, clients=CLIENTS)
    serve.start("--accept-degraded")
    try:
        # Nothing was applied yet: nothing is missing.
        assert serve.ask("/readyz").body == b"ok\n"
        offline("apply", "--yes").expect(0)
        wait_until(lambda: b"ok\n" == serve.ask("/readyz").body and 'berth_serve_ready{check="place"} 1' in serve.ask("/metrics", TOKENS["self"]).body.decode())
    finally:
        assert serve.stop() == 0
    # More must stay free than there can be.
    serve.configure(clients=CLIENTS, workspaces={"minFreeMB": 1000000000})
    serve.start("--accept-degraded")
    try:
        wait_until(lambda: serve.ask("/readyz").status == 503)
        assert serve.ask("/readyz").body == b"not ok: the disk of the workspaces has less free than minFreeMB\n"
        assert 'berth_serve_ready{check="disk"} 0' in serve.ask("/metrics", TOKENS["self"]).body.decode()
        assert "not ready: the disk of the workspaces" in serve.lines() and serve.ask("/healthz").body == b"ok\n"
    finally:
        assert serve.stop() == 0
    serve.configure(clients=CLIENTS)
    # The sockets of sandboxes are gone: none could be reached. They are root's; an ordinary user's lie elsewhere.
    serve.start("--accept-degraded", env={"XDG_RUNTIME_DIR": ""})
    try:
        wait_until(lambda: serve.ask("/readyz").body == b"ok\n")
        lineage = offline("state", "show", "--json").expect(0).json()["lineage"]
        folder = pathlib.Path(f"/run/berth/s-{lineage[:12]}" if os.geteuid() == 0 else f"/tmp/berth-s-{lineage[:12]}")
        away = folder.with_name(folder.name + "-away")
        folder.rename(away)
        try:
            wait_until(lambda: serve.ask("/readyz").body == b"not ok: no sandbox can be started\n")
            assert str(folder) in serve.lines() and str(folder).encode() not in serve.ask("/readyz").body
        finally:
            away.rename(folder)
        wait_until(lambda: serve.ask("/readyz").body == b"ok\n")
        assert "ready again: place" in serve.lines()
    finally:
        assert serve.stop() == 0


# --- to copy from ---


def known():
    source = "".join((binary.ROOT / name).read_text() for name in ("broker/service/measures.c",))
    return set(re.findall(r'"(berth_serve_[a-z_]+)"', source))


def test_alerts_are_rules_about_metrics_that_exist():
    checked = subprocess.run([promtool(), "check", "rules", str(EXAMPLES / "alerts.yaml")], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    used = {re.sub(r"_(bucket|count|sum)$", "", name) for name in re.findall(r"\bberth_[a-z_]+", (EXAMPLES / "alerts.yaml").read_text())}
    assert used and used <= known(), used - known()


def test_each_metric_is_documented():
    page = (binary.ROOT / "docs/serve.md").read_text()
    assert set(re.findall(r"^\| `(berth_serve_[a-z_]+)` \|", page, re.M)) == known()
