# SPDX-License-Identifier: Apache-2.0
"""What is equal: normalised outputs, and what a park may take, if `lost` names it and differences.txt says why."""

import ast
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from judge.kernels import Ipykernel, copy_beside

# Each with the reason why two runs of one program differ there.
NORMAL = [
    (re.compile(r"0x[0-9a-f]{6,}"), "0x", "addresses in memory"),
    (re.compile(r"(?:/tmp/ipykernel_\d+/\d+\.py|<ipython-input-[^>]*>|<cell \d+>|<execution \d+[^>]*>|Cell In\[\d+\])"), "<cell>", "a cell's file has another name in each kernel"),
    (re.compile(r"(?<=\()(?:\d+\.py|<cell>)(?=, line)"), "<cell>", "a SyntaxError has the file's name in its text"),
    (re.compile(r"\r\n"), "\n", "ipykernel runs ! in a pseudo terminal"),
    (re.compile(r"\x1b\[[0-9;]*m"), "", "ipykernel colours what a notebook shows, a session does not"),
    (re.compile(r"^(CPU times: |Wall time: ).*$", re.MULTILINE), r"\1<time>", "%time"),
    (re.compile(r"^\S+ \S+ ± \S+ \S+ per loop \(mean ± std\. dev\. of (\d+ runs?), [\d,]+ loops? each\)$", re.MULTILINE), r"<time> of \1", "%timeit"),
    (re.compile(r"^(_+\w+ - )[\d.]+s, [\d.]+min$", re.MULTILINE), r"\1<time>", "joblib's Memory"),
    (re.compile(r"\d\d:\d\d:\d\d(?:\.\d+)?"), "<clock>", "the time of day"),
    (re.compile(r"/tmp/tmp\w+|/tmp/berth-\w+"), "<temporary>", "names of temporary files"),
]


def normal(text, folder):
    if text is None:
        return None
    text = text.replace(str(folder), "<folder>")
    for pattern, instead, _ in NORMAL:
        text = pattern.sub(instead, text)
    return text.rstrip("\n")


def normalised(seen, folder):
    """What is compared, by name."""
    return {
        "stdout": normal(seen.stdout, folder),
        "stderr": normal(seen.stderr, folder),
        "value": normal(seen.value, folder),
        "repr": normal(seen.repr, folder),
        "displays": [(kinds, normal(plain, folder)) for kinds, plain in seen.displays],
        "error": seen.error and (seen.error[0], normal(seen.error[1], folder)),
    }


@dataclass
class Difference:
    program: str
    cell: int
    parked: bool
    what: str
    expected: object
    found: object
    lost: str = ""

    @property
    def keys(self):
        """In differences.txt; the second one is for programs with parks alone. A loss is listed by its name."""
        if self.lost:
            return {f"{self.program}:lost:{self.lost}"}
        key = f"{self.program}:{self.cell}:{self.what}"
        return {key, f"{key}:parked"} if self.parked else {key}

    def __str__(self):
        return f"{max(self.keys, key=len)}\n    ipykernel: {short(self.expected)}\n    session:   {short(self.found)}"


def short(value):
    text = repr(value)
    return text if len(text) <= 600 else f"{text[:300]} … {text[-300:]}"


def assigned_in(source):
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return set()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)} | {
        node.name for node in ast.walk(tree) if isinstance(node, kinds)
    }


class Losses:
    """Variables that parks have taken and that `lost` named, and those that were to be made from them since."""

    def __init__(self):
        self.names = set()

    def explain(self, cell, seen):
        """Whether a cell ended because there is no such variable: nothing else is excused. What it would have made is then missing as well."""
        missing = seen.error and seen.error[0] == "NameError" and re.search(r"name '(\w+)' is not defined", seen.error[1])
        if not missing or missing.group(1) not in self.names:
            return False
        self.names |= assigned_in(cell.source)
        return True


@dataclass
class Walked:
    """What came of a program: cells that differ, or end, by what `lost` named; values that are repr() and not what the pretty printer makes."""

    differences: list = field(default_factory=list)
    named: int = 0
    plain: int = 0


def differing(want, have):
    """A value is equal to what a notebook shows, or to its repr()."""
    kinds = [what for what in ("stdout", "stderr", "displays", "error") if want[what] != have[what]]
    return kinds + ["value"] * (have["value"] != want["value"] and not is_plain(want, have))


def is_plain(want, have):
    """The value's repr(), and not what the pretty printer makes."""
    return want["repr"] is not None and have["value"] == want["repr"] != want["value"]


def walk(program, expected, kernel, folder, parked):
    found, losses = Walked(), Losses()
    for at, cell in enumerate(program.cells):
        if parked and at:
            kernel.park()
        seen = kernel.run(cell)
        for row in seen.lost:
            losses.names.add(row["name"])
            found.differences.append(Difference(program.name, at, parked, "lost", "kept", f"{row['name']} ({row['type']}): {row['why']}", row["name"]))
        have, want = normalised(seen, folder), expected[at]
        wrong = differing(want, have)
        found.plain += is_plain(want, have)
        if wrong and losses.explain(cell, seen):
            found.named += 1
        else:
            found.differences += [Difference(program.name, at, parked, what, want[what], have[what]) for what in wrong]
    return found


def expected_of(program, python):
    """What ipykernel shows, cell by cell."""
    with tempfile.TemporaryDirectory(prefix="judge-") as folder:
        copy_beside(program, Path(folder))
        kernel = Ipykernel(python, folder)
        try:
            return [normalised(kernel.run(cell), folder) for cell in program.cells]
        finally:
            kernel.close()


def accepted():
    """{key: reason} of differences.txt."""
    rows = {}
    for line in (Path(__file__).parent / "differences.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            key, _, reason = line.partition("  ")
            assert reason.strip(), f"differences.txt: {key} has no reason"
            rows[key] = reason.strip()
    return rows
