# SPDX-License-Identifier: Apache-2.0
"""Which tests of sessions run on AWS each time: those that ask every route that any of them asks (routes.py)."""

import json
import subprocess
from pathlib import Path

import routes
from binary import find_binary

HERE = Path(__file__).parent


def offered():
    """The server's own word for what can be asked of sessions, their files, and what was applied."""
    said = json.loads(subprocess.run([find_binary(), "serve", "--print-openapi"], capture_output=True, check=True).stdout)
    # HEAD is counted as GET.
    pairs = {(verb.upper(), path) for path, verbs in said["paths"].items() for verb in verbs if verb in ("get", "put", "post", "delete", "patch")}
    return {f"{verb} {path}" for verb, path in pairs if path.startswith(("/v1/sessions", "/v1/workspaces"))}


def test_the_table_is_of_tests_that_are_there():
    for file, test in routes.read():
        name = test.partition("[")[0]
        assert f"def {name}(" in (HERE / file).read_text(), f"{file}: {name} is no more: write routes.jsonl anew"


def test_all_routes_of_sessions_are_asked_on_both_places():
    asked = {route.replace("...}", "}") for found in routes.read().values() for route in found}
    missing = {route for route in offered() if route.replace("...}", "}") not in asked}
    assert missing == set(), f"no test of both places asks them, or routes.jsonl does not know it: {missing}"


def test_what_is_chosen_asks_all_and_is_always_the_same():
    known = routes.read()
    names = sorted(known)
    chosen = routes.choose(names, known, 2)
    assert set().union(*(known[name] for name in chosen)) == set().union(*known.values())
    assert len(chosen) < len(names) / 2
    assert routes.choose(list(reversed(names)), known, 2) == chosen
    # A test that nobody has looked at is run, and what it asks is not known.
    fresh = ("test_new.py", "test_new")
    assert fresh in routes.choose([*names, fresh], known, 2)
