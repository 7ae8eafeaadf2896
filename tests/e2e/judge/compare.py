# SPDX-License-Identifier: Apache-2.0
"""What is equal: normalised outputs, and what a park may take, if `lost` names it."""

import ast
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from judge.kernels import Ipykernel, copy_beside

# Each with the reason why two runs of one program differ there.
NORMAL = [
    (re.compile(r"0x[0-9a-f]{6,}"), "0x", "addresses in memory"),
    (re.compile(r"(?:/tmp/ipykernel_\d+/\d+\.py|<ipython-input-[^>]*>|<cell \d+>|<execution \d+[^>]*>|Cell In\[\d+\])"), "<cell>", "a cell's file has another name in each kernel"),
    (re.compile(r"(?<=\()(?:\d+\.py|<cell>)(?=, line)"), "<cell>", "a SyntaxError has the file's name in its text"),
    (re.compile(r"\r\n"), "\n", "ipykernel runs ! in a pseudo terminal"),
    (re.compile(r"\x1b\[[0-9;]*m"), "", "ipykernel colours what a notebook shows, a session does not"),
    (re.compile(r"\d+(?:\.\d+)?(?:e[+-]\d+)? ?(?:ns|[uµμ]s|ms|s|sec|secs|seconds|min)\b"), "<time>", "durations"),
    (re.compile(r"<time>(?: <time>| ± <time>)+"), "<time>", "durations of more than one unit"),
    (re.compile(r"\d+ loops?,? (?:each|of)|of \d+ runs, [\d,]+ loops? each"), "loops", "%timeit chooses its loops by the time they take"),
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

    @property
    def keys(self):
        """In differences.txt; the second one is for programs with parks alone."""
        key = f"{self.program}:{self.cell}:{self.what}"
        return {key, f"{key}:parked"} if self.parked else {key}

    def __str__(self):
        return f"{self.program}:{self.cell}:{self.what}{':parked' if self.parked else ''}\n    ipykernel: {short(self.expected)}\n    session:   {short(self.found)}"


def short(value):
    text = repr(value)
    return text if len(text) <= 600 else f"{text[:300]} … {text[-300:]}"


def names_in(source):
    """All names of a cell: those that it reads, sets, or has in a string."""
    return set(re.findall(r"[A-Za-z_]\w*", source))


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
    """Names that parks have taken and that `lost` named, and names made from them since."""

    def __init__(self):
        self.names, self.said = set(), {}

    def note(self, lost):
        for row in lost:
            self.said[row["name"]] = row["why"]
            self.names |= names_in(row["name"])

    def explain(self, source):
        """Whether a cell that differs uses what was named as lost. What it would have made is then missing as well."""
        if not self.names & names_in(source):
            return False
        self.names |= assigned_in(source)
        return True


def walk(program, expected, kernel, folder, parked):
    """(differences, number of cells that differ by what `lost` named)."""
    found, losses, named = [], Losses(), 0
    for at, cell in enumerate(program.cells):
        if parked and at:
            kernel.park()
        seen = kernel.run(cell)
        losses.note(seen.lost)
        have, want = normalised(seen, folder), expected[at]
        wrong = [what for what in want if want[what] != have[what]]
        if wrong and losses.explain(cell.source):
            named += 1
        else:
            found += [Difference(program.name, at, parked, what, want[what], have[what]) for what in wrong]
    return found, named


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
