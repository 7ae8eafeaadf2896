# SPDX-License-Identifier: Apache-2.0
"""
`./dev judge`: all programs, without and with a park between all cells; a table, and the differences. Arguments: BINARY PYTHON FOLDER [WORD ...].
"""

import concurrent.futures
import sys
import tempfile
import time
from pathlib import Path

from judge import compare, kernels, programs

ROW = "{:<80} {:>5} {:>6} {:>6} {:>6} {:>6}  {}"

# (source package, pattern below its top folder, how many programs at most). Of more, the first ones by name, spread evenly.
GALLERIES = [
    ("matplotlib", "galleries/examples/lines_bars_and_markers/*.py", 4),
    ("matplotlib", "galleries/examples/statistics/*.py", 3),
    ("matplotlib", "galleries/users_explain/**/*.py", 3),
    ("matplotlib", "galleries/plot_types/**/*.py", 2),
    ("networkx", "examples/algorithms/*.py", 5),
    ("networkx", "examples/drawing/*.py", 3),
    ("networkx", "examples/graph/*.py", 3),
    ("scikit-image", "doc/examples/filters/*.py", 3),
    ("scikit-image", "doc/examples/segmentation/*.py", 2),
    ("scikit-learn", "examples/cluster/*.py", 2),
    ("scikit-learn", "examples/compose/*.py", 2),
    ("scikit-learn", "examples/miscellaneous/*.py", 3),
    ("scikit-learn", "examples/preprocessing/*.py", 2),
    ("seaborn", "examples/*.py", 2),
    ("statsmodels", "examples/python/*.py", 5),
    ("sympy", "doc/src/tutorials/intro-tutorial/*.rst", 4),
    ("xarray", "doc/user-guide/*.md", 4),
]


def chosen(folder):
    """(programs that run, [(program, reason)] that do not)."""
    run, skipped = programs.own(), []
    programs.fetch(folder, sorted({name for name, *_ in GALLERIES}))
    for name, pattern, most in GALLERIES:
        fit = []
        for program in programs.gallery(folder, name, pattern):
            reason = program.reason_to_skip or (None if program.cells else "has no code")
            if reason:
                skipped.append((program.name, reason))
            else:
                fit.append(program)
        run += fit[:: max(1, len(fit) // most)][:most]
    return run, skipped


def judged(program, binary, python):
    """A row of the table, and the differences."""
    begun = time.monotonic()
    try:
        expected = compare.expected_of(program, python)
    except TimeoutError:
        return (program.name, "-", "-", "-", "-", "-", "ipykernel: too slow"), []
    if any(seen["error"] and seen["error"][0] in ("ModuleNotFoundError", "ConnectionError", "URLError", "gaierror") for seen in expected):
        return (program.name, len(expected), "-", "-", "-", "-", "ipykernel: needs what is not here"), []
    found, columns = [], []
    for parked in (False, True):
        with tempfile.TemporaryDirectory(prefix="judge-") as folder:
            kernels.copy_beside(program, Path(folder))
            kernel = kernels.Session(binary, python, folder)
            try:
                walked = compare.walk(program, expected, kernel, folder, parked)
            except TimeoutError:
                return (program.name, len(expected), "-", "-", "-", "-", "session: too slow"), found
            finally:
                kernel.close()
        found += walked.differences
        cells = {difference.cell for difference in walked.differences if not difference.lost}
        columns += [len(expected) - len(cells) - walked.named]
    return (program.name, len(expected), *columns, walked.named, walked.plain, f"{time.monotonic() - begun:.0f} s"), found


def safely(program, binary, python):
    try:
        return judged(program, binary, python)
    except Exception as error:  # one program must not end the others
        failure = compare.Difference(program.name, 0, False, "harness", "no error", f"{type(error).__name__}: {error}"[:500])
        return (program.name, "-", "-", "-", "-", "-", "failed"), [failure]


def print_totals(rows):
    """For each library, and of all. A program of Berth's own has no folder in its name."""
    libraries = {}
    for columns in rows:
        libraries.setdefault(columns[0].partition("/")[0] if "/" in columns[0] else "own", []).append(columns)
    print()
    for name, group in [*sorted(libraries.items()), ("all", rows)]:
        totals = [sum(columns[at] for columns in group) for at in range(1, 6)]
        print(ROW.format(f"{name}: {len(group)} programs", *totals, ""))


def main(binary, python, folder, *words):
    run, skipped = chosen(Path(folder))
    run = [program for program in run if not words or any(word in program.name for word in words)]
    print(ROW.format("program", "cells", "equal", "parked", "named", "repr", ""), flush=True)
    accepted, found, unlisted, rows = compare.accepted(), [], [], []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for columns, differences in pool.map(lambda program: safely(program, binary, python), run):
            print(ROW.format(*columns), flush=True)
            rows.append(columns)
            found += differences
            for difference in differences:
                if not difference.keys & accepted.keys():
                    unlisted.append(difference)
                    print(difference, flush=True)
    stale = {key for key in accepted if any(key.startswith(f"{columns[0]}:") for columns in rows)} - {key for difference in found for key in difference.keys}
    print_totals([columns for columns in rows if isinstance(columns[2], int)])
    print(f"{len(found) - len(unlisted)} accepted differences, {len(unlisted)} others")
    print(f"\n{len(skipped)} programs of the galleries were skipped:")
    reasons = {}
    for _, reason in skipped:
        reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1])[:12]:
        print(f"  {count} {reason}")
    for key in sorted(stale):
        print(f"\n{key} is listed in differences.txt and no longer differs: remove it")
    return 1 if unlisted or stale else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
