# SPDX-License-Identifier: Apache-2.0
"""Tests that fail in CI are run once more. That is never a silence: reruns.txt lists the tests whose fault is known, and the end of a
run says which others passed only then, each with the line that is to be added. More than UNLISTED of those fail the run."""

import datetime
from pathlib import Path

import pytest

UNLISTED = 3
FOLDER = Path(__file__).parent


def read_list():
    """FILE::TEST of each line. A line without a test is an error."""
    listed = set()
    for line in (FOLDER / "reruns.txt").read_text().splitlines():
        if not line.startswith("#"):
            test, date, cause = line.split("  ", 2)
            file, _, name = test.partition("::")
            if not (date and cause and (FOLDER / file).is_file() and f"def {name}(" in (FOLDER / file).read_text()):
                raise pytest.UsageError(f"reruns.txt: no test, or no date or cause: {line}")
            listed.add(test)
    return listed


def name_in_list(nodeid):
    """tests/e2e/escape/test_a.py::test_b[local] is escape/test_a.py::test_b there."""
    file, _, test = nodeid.partition("::")
    return f"{file.removeprefix('tests/e2e/')}::{test.split('::')[-1].partition('[')[0]}"


class Reruns:
    """The plugin of --listed-reruns."""

    def __init__(self):
        self.listed, self.unlisted = read_list(), {}

    def pytest_collection_modifyitems(self, items):
        for item in items:
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=1))

    def pytest_runtest_logreport(self, report):
        if report.outcome == "rerun" and name_in_list(report.nodeid) not in self.listed:
            self.unlisted[name_in_list(report.nodeid)] = str(report.longrepr).splitlines()[-1:]

    def pytest_sessionfinish(self, session):
        # Workers of xdist report to the process that started them, which alone decides.
        if not hasattr(session.config, "workerinput") and len(self.unlisted) > UNLISTED and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.unlisted:
            terminalreporter.section(f"run again and not in reruns.txt: {len(self.unlisted)}, {UNLISTED} at most")
            for test, said in sorted(self.unlisted.items()):
                terminalreporter.line(f"{test}  {datetime.date.today()}  unknown: {''.join(said)}")
