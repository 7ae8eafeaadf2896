# SPDX-License-Identifier: Apache-2.0
"""table.py FOLDER WAY ...: what became of the tests in each way (FOLDER/WAY.xml, as pytest --junitxml writes it)."""

import collections
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

KINDS = ("passed", "skipped", "failed")


def outcome(case):
    kinds = {child.tag for child in case}
    return "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"


def read(path):
    """{file: {kind: number}}, the names of what failed, and the machine's own seconds; None where it did not come so far."""
    try:
        suite = xml.parse(path).getroot().find("testsuite")
    except (OSError, xml.ParseError):
        return None
    counts, failed = collections.defaultdict(collections.Counter), []
    for case in suite.iter("testcase"):
        file = case.get("classname", "").replace("tests.e2e.", "").replace(".", "/") or case.get("name")
        counts[file][outcome(case)] += 1
        if outcome(case) == "failed":
            failed.append(f"{file}.py::{case.get('name')}")
    return counts, failed, float(suite.get("time"))


def main(folder, *ways):
    read_ways = {way: read(Path(folder) / f"{way}.xml") for way in ways}
    files = sorted({file for found in read_ways.values() if found for file in found[0]})
    width = max(map(len, files), default=0) + 2
    print(f"\n{'passed/skipped/failed':{width}}" + "".join(f"{way:>14}" for way in ways))
    for file in [*files, "all"]:
        cells = []
        for found in read_ways.values():
            if found is None:
                cells.append("no results")
                continue
            count = found[0].get(file) if file != "all" else sum(found[0].values(), collections.Counter())
            cells.append("/".join(str(count[kind]) for kind in KINDS) if count else "-")
        print(f"{file:{width}}" + "".join(f"{cell:>14}" for cell in cells))
    print(f"{'seconds, by its clock':{width}}" + "".join(f"{found[2] if found else 0:14.0f}" for found in read_ways.values()))
    for way, found in read_ways.items():
        for name in found[1] if found else []:
            print(f"failed in {way}: {name}")


main(*sys.argv[1:])
