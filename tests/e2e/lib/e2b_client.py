# SPDX-License-Identifier: Apache-2.0
"""A server with E2B's interface, and its clients."""

import json

import pytest
from e2b_code_interpreter import Sandbox

from binary import is_watched
from controllers import PATIENCE
from lib.lab import TOKENS, client
from serving import Serve

PNG = "iVBORw0KGgo="
NEVER = "s-" + "a" * 26
SHOWN = "class Chart:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n'\n    def __repr__(self): return 'a chart'\n"


@pytest.fixture(scope="module")
def shared(place, binary, tmp_path_factory):
    if is_watched(binary):
        pytest.skip("the runtime of such a build needs more memory than a sandbox has")
    berth = place.berth(binary, tmp_path_factory.mktemp("e2b"))
    place.apply(berth)
    clients = [client("self"), client("narrow", environments=["web"]), client("watcher", may=["observe", "administer"])]
    clients.append(client("users", actsFor="users", realm="company"))
    served = Serve(berth, clients=clients, compat={"e2b": True, "e2bTemplate": "data"})
    served.start("--accept-degraded")
    yield served
    assert served.stop() == 0


def options(shared, name="self"):
    url = f"http://127.0.0.1:{shared.port}"
    return {"api_key": TOKENS[name], "api_url": url, "sandbox_url": url, "request_timeout": 60 * PATIENCE}


@pytest.fixture(scope="module")
def box(shared):
    """As a program written for E2B has it: by three variables."""
    with pytest.MonkeyPatch.context() as patch:
        url = f"http://127.0.0.1:{shared.port}"
        for name, value in {"E2B_API_KEY": TOKENS["self"], "E2B_API_URL": url, "E2B_SANDBOX_URL": url}.items():
            patch.setenv(name, value)
        patch.delenv("E2B_DEBUG", raising=False)
        with Sandbox.create(timeout=3000, metadata={"team": "a b", "n": "1"}, envs={"FROM": "create"}) as made:
            yield made


def tokens(box):
    return {"X-Access-Token": box._envd_access_token, "E2B-Traffic-Access-Token": box.traffic_access_token}


def ask(shared, path, headers=None, **kwargs):
    return shared.ask(path, headers=list((headers or {}).items()), **kwargs)


def error_of(answer, status):
    assert answer.status == status, (answer.status, answer.body)
    assert answer.headers["content-type"] == "application/json"
    found = json.loads(answer.body)
    assert set(found) == {"code", "message"} and found["code"] == status and found["message"]
    return found["message"]
