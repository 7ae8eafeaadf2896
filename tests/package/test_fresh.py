# SPDX-License-Identifier: Apache-2.0
"""The sources, as a newcomer meets them: in a fresh Debian that has nothing of what they take, by root and by a user."""

import os
import shutil
from pathlib import Path

import pytest
from conftest import ROOT, Debian, shell

pytestmark = pytest.mark.timeout(7200)
# Some of what a test's own tools are needed for: promtool, sshd, skopeo, node.
SAMPLE = "test_validate.py test_comfort.py test_local.py test_controller_http.py test_install.py test_git_source.py test_local_images.py"


class Fresh(Debian):
    def __init__(self, release):
        self.release = release
        self.root = ROOT / f"build/roots/{release}-fresh"

    def unpack(self):
        done = shell('root_unpack "$(root_archive "$1" users passwd)" "$2"; mkdir -p "$2/home/tester/berth"; package_sources | tar -C "$2/home/tester/berth" -x', self.release, self.root)
        assert done.returncode == 0, done.stderr
        # The authorities that sign for the package indexes that this machine sees, if not only Debian's list.
        own = Path("/usr/local/share/ca-certificates")
        if own.is_dir():
            shutil.copytree(own, self.root / "usr/local/share/ca-certificates", dirs_exist_ok=True)
        self.run("update-ca-certificates; useradd --shell /bin/bash tester; chown -R tester: /home/tester")

    def dev(self, *words, user=None, check=True):
        sudo = "" if user else "SUDO_UID=$(id -u tester) "  # as sudo says who called it
        exports = f"export {sudo}NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt"
        return self.run(f"{exports}; cd /home/tester/berth && nice ./dev {' '.join(words)} 2>&1", user=user, check=check)


@pytest.fixture(scope="module", params=os.environ.get("BERTH_PACKAGE_RELEASES", "").split())
def fresh(request):
    made = Fresh(request.param)
    made.unpack()
    return made


def test_a_user_is_told_what_to_install(fresh):
    done = fresh.dev("setup", user="tester", check=False)
    assert done.returncode == 1 and "sudo apt-get install -y --no-install-recommends build-essential cmake " in done.stdout, done.stdout


def test_setup_and_the_demo_as_root(fresh):
    fresh.dev("setup")
    said = fresh.dev("demo").stdout
    assert "Run an agent's code" in said and "says 42" in said and "Who uses what" in said, said


def test_the_demo_as_a_user_after_root(fresh):
    """What `sudo ./dev demo` made is the tree's owner's."""
    done = fresh.dev("demo", user="tester")
    assert "says 42" in done.stdout and "Who uses what" in done.stdout, done.stdout
    assert fresh.run("find /home/tester/berth ! -user tester | head").stdout == ""


@pytest.mark.parametrize("user", [None, "tester"], ids=["root", "user"])
def test_the_tests(fresh, user):
    """The unit tests, and end-to-end tests of each tool that was unpacked or fetched."""
    fresh.dev("test", "--unit", user=user)
    done = fresh.dev("test", "--e2e", "-q", "--numprocesses", "2", *[f"tests/e2e/{name}" for name in SAMPLE.split()], user=user)
    assert " passed" in done.stdout.splitlines()[-1], done.stdout[-3000:]
