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
from test_sessions_park import served

pytestmark = pytest.mark.timeout(300)

OTHERS = ["examples/algorithms/plot_shortest_path.py", "examples/drawing/plot_degree.py", "examples/graph/plot_napoleon_russian_campaign.py"]
# These run in a sandbox with the machine's Python, which has the standard library alone.
SERVED = ("classes.py", "library.py")


def unlisted(program, expected, session, folder, parked):
    try:
        found, named = compare.walk(program, expected, session, folder, parked)
    finally:
        session.close()
    accepted = compare.accepted()
    assert named < len(expected), "all cells use what is lost"
    return [str(difference) for difference in found if not difference.keys & accepted.keys()]


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
        differences, _ = compare.walk(found, expected, session, tmp_path, False)
    finally:
        session.close()
    assert [(each.cell, each.what) for each in differences] == [(0, "stdout"), (1, "stderr"), (2, "value"), (3, "displays"), (4, "error")]
