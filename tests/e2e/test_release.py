# SPDX-License-Identifier: Apache-2.0
"""`./dev release` is made of a commit, or not at all. What it makes is tried by `./dev package test`."""

import importlib.util
import re
import subprocess

import pytest

from binary import ROOT


@pytest.fixture
def clone(tmp_path):
    """Of the commit, with the tools as they are in the tree."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone of the repository")
    git = ["git", "-c", "safe.directory=*", "-c", "user.name=tests", "-c", "user.email=tests@localhost"]
    folder = tmp_path / "clone"
    subprocess.run([*git, "clone", "-q", "--no-hardlinks", ROOT, folder], check=True)
    for name in ("dev", "tools", "CMakeLists.txt", "CHANGELOG.md"):
        subprocess.run(["cp", "-rT", ROOT / name, folder / name], check=True)
    subprocess.run([*git, "-C", folder, "add", "-A"], check=True)
    subprocess.run([*git, "-C", folder, "commit", "-qm", "as it is", "--allow-empty"], check=True)
    return folder


def refused(clone):
    done = subprocess.run([clone / "dev", "release"], capture_output=True, text=True)
    assert done.returncode == 1 and not (clone / "build").exists(), done.stderr
    return done.stderr


@pytest.mark.parametrize("name", ["README.md", "new.c"])
def test_a_dirty_tree_is_refused(clone, name):
    with (clone / name).open("a") as file:
        file.write("more\n")
    assert re.search(rf"what is committed; these files differ from it:\n.* {name}\n", refused(clone))


def test_a_version_without_its_changes_is_refused(clone):
    text = (clone / "CMakeLists.txt").read_text()
    (clone / "CMakeLists.txt").write_text(re.sub(r"project\(berth VERSION \S+", "project(berth VERSION 9.8.7", text))
    subprocess.run(["git", "-C", clone, "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qam", "another version"], check=True)
    assert "has no '## [9.8.7] - YYYY-MM-DD'" in refused(clone)


def test_links_of_a_root_stay_in_it(tmp_path):
    """As the tools for lists of parts and images follow them, never to a file of this machine's."""
    spec = importlib.util.spec_from_file_location("elf", ROOT / "tools/release/elf.py")
    elf = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(elf)
    for name, target in {"lib": "usr/lib", "usr/lib/one.so": "one.so.1", "usr/lib/far.so": "/lib/one.so.1", "out": "../../../etc", "around": "around"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(target)
    (tmp_path / "usr/lib/one.so.1").touch()
    for path in ("lib/one.so", "/lib/one.so", "//lib/one.so", "/usr/lib/far.so", "lib/../lib/far.so", "/usr/lib/one.so.1"):
        assert elf.inside(tmp_path, path) == "usr/lib/one.so.1", path
    assert elf.inside(tmp_path, "/out/passwd") == "etc/passwd"
    with pytest.raises(OSError, match="too many links"):
        elf.inside(tmp_path, "around")
