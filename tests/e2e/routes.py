# SPDX-License-Identifier: Apache-2.0
"""
Which routes of the server's each test of sessions asks, so that those that run on AWS each time ask all that any of them does. routes.jsonl has a
line for each test: its file, its name, and the verbs and routes. It is written from what servers count in `/metrics`:

    BERTH_ROUTES=FILE pytest -k local ...   adds to FILE what each test asked, by whatever client
    python routes.py FILE...                makes routes.jsonl of that; what FILE does not tell of stays as it was

A test that has no line is run each time, so that nobody has to think of it.
"""

import collections
import json
import re
import sys
from pathlib import Path

TABLE = Path(__file__).with_name("routes.jsonl")
COUNTED = re.compile(r'^berth_serve_requests_total\{method="([A-Z]+)",route="([^"]+)".*\} (\d+)$', re.MULTILINE)


def name_of(item):
    """A test's of pytest's: its file and its name with all that it has in brackets, but for the place."""
    place = item.callspec.params.get("place") if hasattr(item, "callspec") else None
    form = item.name.removeprefix(item.originalname).strip("[]").split("-")
    if place in form:
        form.remove(place)
    return item.path.name, item.originalname + ("[" + "-".join(form) + "]" if "".join(form) else "")


def read(path=TABLE):
    """{(file, test): {"VERB ROUTE"}}"""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {(file, test): set(found) for file, test, found in rows}


def choose(names, known, least):
    """
    Of tests, (file, name) each, those that ask everything that all of them ask; of each file so many at least, and what is not known. The same for the
    same tests: whoever adds most comes first, and by name where two add as much.
    """
    chosen = {name for name in names if name not in known}
    left = set().union(*(known[name] for name in names if name in known)) - set().union(*(known.get(name, set()) for name in chosen))
    while left:
        best = min((name for name in names if name in known), key=lambda name: (-len(known[name] & left), name))
        chosen.add(best)
        left -= known[best]
    by_file = collections.defaultdict(list)
    for name in sorted(names):
        by_file[name[0]].append(name)
    for found in by_file.values():
        others = sorted((name for name in found if name not in chosen), key=lambda name: (-len(known[name]), name))
        chosen.update(others[: max(0, least - sum(name in chosen for name in found))])
    return chosen


# --- recording ---


def asked(servers):
    """What each of them was asked until now, as it counts."""
    counts = collections.Counter()
    for server in list(servers):
        if not server.process or server.process.poll() is not None:
            continue
        try:
            text = server.ask_socket("/metrics").body.decode()
        except OSError:
            continue
        for verb, route, count in COUNTED.findall(text):
            if route != "/metrics":
                counts[id(server), f"{verb} {route}"] += int(count)
    return counts


def record(path, item, before, after):
    routes = sorted({route for (_, route), count in (after - before).items() if count})
    with open(path, "a") as out:
        out.write(json.dumps([*name_of(item), routes]) + "\n")


def main(paths):
    known = read()
    fresh = collections.defaultdict(set)
    for path in paths:
        for line in Path(path).read_text().splitlines():
            file, test, routes = json.loads(line)
            fresh[file, test].update(routes)
    known.update(fresh)
    TABLE.write_text("".join(json.dumps([file, test, sorted(found)]) + "\n" for (file, test), found in sorted(known.items())))


if __name__ == "__main__":
    main(sys.argv[1:])
