# SPDX-License-Identifier: Apache-2.0
"""A fresh Debian with the package: `debian`, for each release that was asked for."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = "set -euo pipefail; source tools/setup.sh; source tools/package.sh; "


def shell(script, *words, **kwargs):
    """A script that has the functions of ./dev."""
    return subprocess.run(["bash", "-c", FUNCTIONS + script, "bash", *map(str, words)], cwd=ROOT, capture_output=True, text=True, **kwargs)


class Debian:
    def __init__(self, release):
        self.release = release
        (self.deb,) = (Path(os.environ["BERTH_PACKAGES"]) / release).glob("*.deb")
        self.root = ROOT / f"build/roots/{release}-installed"

    def install(self):
        done = shell('package_install "$@"', self.release, self.deb)
        assert done.returncode == 0, done.stderr

    def run(self, script, user=None, check=True):
        """Below a shell; processes that it leaves end with it."""
        words = ["runuser", "-l", user, "-c", script] if user else ["sh", "-euc", script]
        done = shell('root_enter "$@"', self.root, *words, timeout=5400)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)


@pytest.fixture(scope="module", params=os.environ.get("BERTH_PACKAGE_RELEASES", "").split())
def debian(request):
    made = Debian(request.param)
    made.install()
    return made
