# SPDX-License-Identifier: Apache-2.0
"""
`./dev test --quick`: the unit tests, and of the others those of quick.txt, which between them run each verb and ask each route of the API.
That they do is looked at where they have run:

    python quick.py BERTH VERBS ROUTES    VERBS and ROUTES: what the tests added to the files BERTH_VERBS and BERTH_ROUTES
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

LIST = Path(__file__).with_name("quick.txt")


def chosen():
    """As pytest names them: FILE::TEST, with or without what it has in brackets."""
    return [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]


def select(items):
    """Those of quick.txt; a line that names no test is an error."""
    wanted, found = set(chosen()), set()
    kept = []
    for item in items:
        name = item.nodeid.removeprefix("tests/e2e/")
        named = {name, name.partition("[")[0]} & wanted
        found |= named
        if named:
            kept.append(item)
    if wanted - found:
        raise ValueError(f"quick.txt names tests that are not there: {', '.join(sorted(wanted - found))}")
    return kept


def record_verbs(path):
    """From now on each start of a program called berth adds its verb to that file, with the test that runs."""
    start = subprocess.Popen.__init__

    def started(self, args, *rest, **named):
        if isinstance(args, (list, tuple)) and len(args) > 1 and os.path.basename(str(args[0])) == "berth":
            with open(path, "a") as out:
                out.write(json.dumps([os.environ.get("PYTEST_CURRENT_TEST", ""), str(args[1])]) + "\n")
        start(self, args, *rest, **named)

    subprocess.Popen.__init__ = started


def verbs_of(berth):
    shown = subprocess.run([berth, "help"], capture_output=True, text=True, check=True, timeout=60).stdout
    return set(re.findall(r"^  ([a-z]+)[ \n]", shown.partition("options of every verb")[0], re.MULTILINE))


def routes_of(berth):
    shown = subprocess.run([berth, "serve", "--print-openapi"], capture_output=True, text=True, check=True, timeout=60).stdout
    document = json.loads(shown)
    found = {(verb.upper(), route) for route, verbs in document["paths"].items() for verb in verbs if verb in ("get", "put", "post", "delete", "patch")}
    return {f"{verb} {route}" for verb, route in found if route != "/metrics"}  # which is where the others are counted


def main(berth, verbs, routes):
    ran = {json.loads(line)[1] for line in Path(verbs).read_text().splitlines()}
    asked = {route.replace("...}", "}") for line in Path(routes).read_text().splitlines() for route in json.loads(line)[2]}
    missing = sorted(verbs_of(berth) - ran) + sorted(routes_of(berth) - asked)
    if missing:
        sys.exit("quick.txt runs no test of: " + ", ".join(missing))


if __name__ == "__main__":
    main(*sys.argv[1:])
