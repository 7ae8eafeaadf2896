# SPDX-License-Identifier: Apache-2.0
"""
Programs, cell by cell, in ipykernel and in a session: the same outputs, values, displays and errors, and the same with a park between
all cells. `./dev judge` runs whole galleries of others so; a sample of one runs here.
"""

import sys
from pathlib import Path

import pytest

from binary import ROOT, Berth
from judge import compare, kernels, programs
from lib.parked import served

pytestmark = pytest.mark.timeout(300)

OTHERS = ["examples/drawing/plot_degree.py", "examples/graph/plot_napoleon_russian_campaign.py"]
# These run in a sandbox with the machine's Python, which has the standard library alone.
SERVED = ("classes.py", "library.py")


def unlisted(program, expected, session, folder, parked):
    try:
        walked = compare.walk(program, expected, session, folder, parked)
    finally:
        session.close()
    accepted = compare.accepted()
    assert walked.named < len(expected), "all cells use what is lost"
    return [str(difference) for difference in walked.differences if not difference.keys & accepted.keys()]


def compare_both(program, binary, folder):
    expected = compare.expected_of(program, sys.executable)
    for parked in (False, True):
        work = folder / f"parked-{parked}"
        work.mkdir()
        kernels.copy_beside(program, work)
        assert unlisted(program, expected, kernels.Session(binary, sys.executable, work), work, parked) == []


@pytest.mark.parametrize("found", programs.own(), ids=lambda found: found.name)
def test_our_programs(program, tmp_path, found):
    compare_both(found, program, tmp_path)


@pytest.mark.parametrize("path", OTHERS)
def test_programs_of_others(program, tmp_path, path):
    [found] = programs.gallery(ROOT / "build/judge/galleries", "networkx", path)
    compare_both(found, program, tmp_path)


@pytest.fixture(scope="module")
def server(binary, tmp_path_factory):
    yield from served(Berth(binary, tmp_path_factory.mktemp("judge"), "http://127.0.0.1:1"))


@pytest.mark.parametrize("name", SERVED)
def test_a_whole_server(server, name):
    [found] = [each for each in programs.own() if each.name == name]
    assert unlisted(found, compare.expected_of(found, sys.executable), kernels.Served(server), Path("/workspace"), True) == []


def test_what_differs_is_found(program, tmp_path):
    """The comparison itself: a session that shows something else fails, whatever it is of a cell."""
    path = tmp_path / "other.py"
    lines = ["print('a')", "import sys; print('a', file=sys.stderr)", "1", "display({'text/html': 'a'}, raw=True)", "1 / 0"]
    path.write_text("# %%\n" + "\n# %%\n".join(lines))
    found = programs.Program("other", path)
    expected = compare.expected_of(found, sys.executable)
    path.write_text("# %%\n" + "\n# %%\n".join(["print('b')", "import sys; print('b', file=sys.stderr)", "2", "display({'text/markdown': 'a'}, raw=True)", "int('x')"]))
    session = kernels.Session(program, sys.executable, tmp_path)
    try:
        differences = compare.walk(found, expected, session, tmp_path, False).differences
    finally:
        session.close()
    assert [(each.cell, each.what) for each in differences] == [(0, "stdout"), (1, "stderr"), (2, "value"), (3, "displays"), (4, "error")]


class Told:
    """A kernel that shows what it is told to."""

    def __init__(self, shown):
        self.shown = iter(shown)

    def run(self, cell):
        return next(self.shown)

    def park(self):
        pass


def test_a_loss_excuses_no_more_than_itself(tmp_path):
    """Only a cell that ends since the variable is missing; and the loss itself has to be listed."""
    cells = ["lock = 1", "lock", "print('lock')", "made = lock", "made", "other"]
    path = tmp_path / "told.py"
    path.write_text("# %%\n" + "\n# %%\n".join(cells))
    seen = kernels.Seen
    expected = [compare.normalised(each, tmp_path) for each in (seen(), seen(value="1"), seen(stdout="lock"), seen(), seen(value="1"), seen(value="2"))]
    missing = {name: ("NameError", f"name '{name}' is not defined") for name in ("lock", "made", "other")}
    shown = [seen(), seen(error=missing["lock"], lost=[{"name": "lock", "type": "lock", "why": "why"}]), seen(stdout="else")]
    shown += [seen(error=missing["lock"]), seen(error=missing["made"]), seen(error=missing["other"])]
    walked = compare.walk(programs.Program("told.py", path), expected, Told(shown), tmp_path, True)
    assert walked.named == 3
    assert [(each.cell, each.what) for each in walked.differences] == [(1, "lost"), (2, "stdout"), (5, "error"), (5, "value")]
    assert walked.differences[0].keys == {"told.py:lost:lock"}


def test_a_value_is_as_a_notebook_shows_it_or_its_repr(tmp_path):
    path = tmp_path / "told.py"
    path.write_text("1\n")
    expected = [compare.normalised(kernels.Seen(value="[1,\n 2]", repr="[1, 2]"), tmp_path)]
    for value, plain, differs in (("[1,\n 2]", 0, False), ("[1, 2]", 1, False), ("[1,2]", 0, True)):
        walked = compare.walk(programs.Program("told.py", path), expected, Told([kernels.Seen(value=value)]), tmp_path, False)
        assert (walked.plain, bool(walked.differences)) == (plain, differs)


def test_cells_of_programs_without_marks_of_notebooks_and_of_doctests(tmp_path):
    for name, text, cells in (
        ("plain.py", "# text\nimport os\nx = 1\n\n\n@print\ndef f():\n\n    pass\ny = 2\n\nz = 3\n", ["# text\nimport os\nx = 1\n", "@print\ndef f():\n\n    pass\ny = 2\n", "z = 3\n"]),
        ("notebook.md", "# Title\n\n```{code-cell}\n:tags: [a]\n\nx = 1\n```\ntext `x`\n```{code-cell}\ny = '`'\n```\n```python\nno\n```\n", ["x = 1\n", "y = '`'\n"]),
        ("tests.rst", "Title\n\n    >>> x = 1\n    >>> x\n    1\n\nText\n\n    >>> y = 2  # doctest: +SKIP\n    >>> for i in x:\n    ...     i\n\nMore\n", ["x = 1\nx\n", "for i in x:\n    i\n"]),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
        assert [cell.source.strip("\n") for cell in programs.Program(name, tmp_path / name).cells] == [cell.strip("\n") for cell in cells]
