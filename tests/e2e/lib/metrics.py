# SPDX-License-Identifier: Apache-2.0
"""Metrics of servers and controllers: read, and checked by Prometheus's own tool."""

import shutil
import subprocess
import urllib.request

import pytest

import binary
from lib.lab import TOKENS


def promtool():
    unpacked = [binary.ROOT / f"build/tools/{package}/usr/bin/promtool" for package in ("promtool", "prometheus")]
    found = next((str(path) for path in unpacked if path.exists()), None) or shutil.which("promtool")
    return found or pytest.fail("no promtool: ./dev test unpacks it")


def metrics(serve):
    found = serve.ask("/metrics", TOKENS["self"])
    assert found.status == 200
    checked = subprocess.run([promtool(), "check", "metrics"], input=found.body, capture_output=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    lines = [line for line in found.body.decode().splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)


def ask(controller, path, data=None, headers=None):
    """Status and text."""
    request = urllib.request.Request(f"http://127.0.0.1:{controller.port}{path}", data, headers or {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metric(controller, name, **labels):
    wanted = {f'{key}="{value}"' for key, value in labels.items()}
    total = 0.0
    for line in ask(controller, "/metrics")[1].splitlines():
        if line.startswith(name + "{") and all(label in line for label in wanted):
            total += float(line.rsplit(" ", 1)[1])
    return total
