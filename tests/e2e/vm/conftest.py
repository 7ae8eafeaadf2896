# SPDX-License-Identifier: Apache-2.0
"""Tests that only mean something in the machine of `./dev vm`: they change its units, and count on being alone there."""

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    if "BERTH_TEST_WAY" not in os.environ:
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="only in the machine of ./dev vm"))


@pytest.fixture
def way():
    return os.environ["BERTH_TEST_WAY"]
