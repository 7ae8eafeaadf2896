# SPDX-License-Identifier: Apache-2.0
"""./dev lint: how large parts of the program's C may be, and which names they may have.

usage (by build/venv/bin/python, which has lizard):

       ceilings.py           what is over its ceiling
       ceilings.py --lower   makes ceilings.txt as small as today's tree allows; never raises a line
       ceilings.py --table   how many there are of each kind

ceilings.txt has one line for each exception: kind, place and the value that it may have. An exception that is no longer needed,
or that could be lower, is found too. Functions are measured by lizard, members and names by Universal Ctags.
"""

import collections
import subprocess
import sys
from pathlib import Path

import lizard

EXCEPTIONS = Path(__file__).with_name("ceilings.txt")
# kind: the ceiling, and what is counted
KINDS = {
    "lines": (60, "lines of a function, without comments and blank ones"),
    "complexity": (20, "paths through a function, by McCabe"),
    "parameters": (6, "parameters of a function"),
    "members": (30, "members of a struct"),
    "file": (600, "lines of a file, without comments and blank ones"),
    "static": (2, "files with a static function of one name"),
    "prefix": (0, "functions of a file's header that begin with no first word of its name"),
}


def product_files():
    names = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "*.c", "*.h"], capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return [name for name in names if name and not name.startswith(("tests/", "bench/")) and Path(name).is_file()]


def tags(files, kinds, form):
    found = subprocess.run(
        ["ctags", "-L", "-", "-x", "--language-force=C", f"--kinds-C={kinds}", "--fields=+fs", f"--_xformat={form}"],
        input="\n".join(files), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line.split() for line in found.stdout.splitlines()]


def measure(files):
    """(kind, place): value, of all that there is."""
    values = {}
    for found in lizard.analyze_files(files, threads=1):
        values["file", found.filename] = found.nloc
        for function in found.function_list:
            place = f"{found.filename}:{function.name}"
            values["lines", place] = function.nloc
            values["complexity", place] = function.cyclomatic_complexity
            values["parameters", place] = len(function.parameters)
    members = collections.Counter(f"{path}:{owner}" for path, owner, _ in tags(files, "m", "%F %s %N"))
    values.update({("members", place): count for place, count in members.items()})
    statics = collections.defaultdict(set)
    unlike = collections.Counter()
    for name, path, scope in tags([name for name in files if name.endswith(".c")], "f", "%N %F %f"):
        word = Path(path).stem.split("_")[0]
        if scope == "file":
            statics[name].add(path)
        elif name != word and not name.startswith(word + "_"):
            unlike[path] += 1
    values.update({("static", name): len(paths) for name, paths in statics.items()})
    values.update({("prefix", path): count for path, count in unlike.items()})
    return {key: value for key, value in values.items() if value > KINDS[key[0]][0]}


def read_exceptions():
    rows = [line.split() for line in EXCEPTIONS.read_text().splitlines() if line and not line.startswith("#")]
    return {(kind, place): int(value) for kind, place, value in rows}


def lower(values, exceptions):
    top = [line for line in EXCEPTIONS.read_text().splitlines() if line.startswith("#")]
    rows = [f"{kind} {place} {min(limit, values[kind, place])}" for (kind, place), limit in exceptions.items() if (kind, place) in values]
    EXCEPTIONS.write_text("\n".join(top + sorted(rows)) + "\n")


def main(arguments):
    values, exceptions = measure(product_files()), read_exceptions()
    if arguments == ["--lower"]:
        return lower(values, exceptions)
    if arguments == ["--table"]:
        for kind, (ceiling, words) in KINDS.items():
            found = [value for key, value in values.items() if key[0] == kind]
            print(f"{len(found):4} over {ceiling:3}, the largest {max(found, default=0):4}, together {sum(found):5}: {words}")
        return None
    for (kind, place), value in sorted(values.items()):
        if value > exceptions.get((kind, place), 0):
            allowed = exceptions.get((kind, place), KINDS[kind][0])
            print(f"{place}: {value}, at most {allowed}: {KINDS[kind][1]}")
    for (kind, place), limit in sorted(exceptions.items()):
        if values.get((kind, place), 0) < limit:
            print(f"{place}: its line '{kind}' can fall: build/venv/bin/python tools/ceilings.py --lower")
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
