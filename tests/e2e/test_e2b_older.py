# SPDX-License-Identifier: Apache-2.0
"""E2B's interface by older SDKs, unchanged, with a key that they take; and what they ask for, by hand."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import e2b
import pytest

from binary import is_watched
from controllers import PATIENCE
from lib.e2b_client import NEVER, error_of
from serving import Serve

HERE = Path(__file__).parent / "e2b_older"
OLDER = Path(e2b.__file__).parents[1] / "e2b_older"
# As `echo e2b_$(openssl rand -hex 20)` makes one: these SDKs send no other.
KEY = "e2b_" + hashlib.sha1(b"older").hexdigest()


@pytest.fixture(scope="module")
def shared(place, binary, tmp_path_factory):
    if is_watched(binary):
        pytest.skip("the runtime of such a build needs more memory than a sandbox has")
    berth = place.berth(binary, tmp_path_factory.mktemp("older"))
    place.apply(berth)
    token = berth.folder / "agent.token"
    token.write_text(KEY + "\n")
    token.chmod(0o600)
    served = Serve(berth, clients=[{"name": "agent", "tokenFile": "agent.token", "may": ["execute"]}], compat={"e2b": True, "e2bTemplate": "data"})
    served.start("--accept-degraded")
    yield served
    assert served.stop() == 0


def call(shared, method, path, body=None):
    headers = [("X-API-Key", KEY), *([("Content-Type", "application/json")] if body is not None else [])]
    return shared.ask(path, method=method, headers=headers, body=None if body is None else json.dumps(body).encode())


@pytest.mark.parametrize("version", sorted(path.stem for path in HERE.glob("*.txt")))
def test_an_older_sdk(shared, version):
    url = f"http://127.0.0.1:{shared.port}"
    env = {**shared.berth.env, "E2B_API_KEY": KEY, "E2B_API_URL": url, "E2B_SANDBOX_URL": url, "PYTHONPATH": str(OLDER / version)}
    found = subprocess.run([sys.executable, HERE / "program.py"], env=env, capture_output=True, text=True, timeout=240 * PATIENCE)
    assert found.returncode == 0, found.stderr
    said = json.loads(found.stdout)
    assert said["version"].startswith(version + ".")
    assert said["template"] == "data" and said["code"][0] == "data"
    # No address that it makes is E2B's own: code and tokens would go there.
    assert said["hosts"][1::2] == ["sandbox.invalid"] * 2
    assert all(host.endswith(".sandbox.invalid") for host in said["hosts"][::2])
    assert said["files"] == ["text", ["a.txt"], False]
    assert said["running"] == [True, False, True] and said["listed"] == [True] and said["killed"] == [True, False]
    assert all("does not have this part" in message for message in said["uncovered"]), said["uncovered"]
    assert all("NotFound" in message for message in said["missing"]), said["missing"]
    address = said["code"][2]
    if address.startswith(url):
        assert said["code"][1][0] == "42"
    else:  # before code interpreter 2.9 the address of code is made of the domain alone
        assert address.endswith(".sandbox.invalid") and "42" not in said["code"][1]
    assert "AuthenticationException" in said["refused"]


@pytest.mark.parametrize("prefix", ["", "/v2"])
def test_both_versions_of_the_api(shared, prefix):
    made = call(shared, "POST", prefix + "/sandboxes", {"templateID": "base", "timeout": 300, "autoPause": False, "secure": True})
    assert made.status == 201, made.body
    sandbox = made.json()
    id = sandbox["sandboxID"]
    try:
        connected = call(shared, "POST", f"{prefix}/sandboxes/{id}/connect", {"timeout": 600})
        shown = call(shared, "GET", f"/sandboxes/{id}")
        assert connected.status == shown.status == 200
        assert [found["domain"] for found in (sandbox, connected.json(), shown.json())] == ["sandbox.invalid"] * 3
        assert {found["templateID"] for found in (sandbox, connected.json(), shown.json())} == {"data"}
        listed = call(shared, "GET", prefix + "/sandboxes").json()
        assert [found["domain"] for found in listed if found["sandboxID"] == id] == ["sandbox.invalid"]
        error_of(call(shared, "POST", f"/sandboxes/{id}/resume", {"timeout": 300}), 409)
        assert call(shared, "POST", f"/sandboxes/{id}/pause").status == 204
        assert (id in [found["sandboxID"] for found in call(shared, "GET", prefix + "/sandboxes").json()]) == (prefix == "/v2")
        resumed = call(shared, "POST", f"/sandboxes/{id}/resume", {"timeout": 300, "autoPause": False})
        assert resumed.status == 201 and set(resumed.json()) == set(sandbox) and resumed.json()["domain"] == "sandbox.invalid"
    finally:
        assert call(shared, "DELETE", f"/sandboxes/{id}").status == 204
    for path in (f"{prefix}/sandboxes/{NEVER}/connect", f"/sandboxes/{NEVER}/resume"):
        error_of(call(shared, "POST", path, {"timeout": 1}), 404)
