# SPDX-License-Identifier: Apache-2.0
"""`cmake --install`: all that belongs to the program, where whoever reads it looks. `./dev package test` tries the Debian packages."""

import os
import re
import shutil
import subprocess

import pytest

import binary as built
import stacks
from binary import ROOT

UNITS = ("berth-controller.service", "berth-serve.service", "berth-launcher.service", "berth-launcher.socket")


def run(*words, **kwargs):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cache(name):
    folder = (built.checked_binary() or built.find_binary()).parent
    return re.search(rf"^{name}:\w+=(.*)$", (folder / "CMakeCache.txt").read_text(), re.M).group(1)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A prefix of its own."""
    prefix = tmp_path_factory.mktemp("installed") / "prefix"
    run("cmake", "--install", (built.checked_binary() or built.find_binary()).parent, "--prefix", prefix)
    return prefix


def test_all_that_belongs(installed):
    wanted = ["bin/berth", "libexec/berth/berth-runtime", "share/man/man1/berth.1", "share/man/man5/berth-manifests.5", "lib/sysusers.d/berth.conf",
              "share/bash-completion/completions/berth", "share/zsh/site-functions/_berth", "share/fish/vendor_completions.d/berth.fish"]  # fmt: skip
    wanted += [f"lib/systemd/system/{unit}" for unit in UNITS]
    wanted += [f"share/doc/berth/{name}" for name in ("copyright", "LICENSE", "LICENSE.cloudpickle", "README.md", "docs/install.md", "examples/manifests/stack.yaml")]
    assert [name for name in wanted if not (installed / name).is_file() or not (installed / name).stat().st_size] == []
    assert not [path for path in installed.rglob("*") if path.name in (".berth", "__pycache__")]
    assert set(os.listdir(installed)) == {"bin", "lib", "libexec", "share"}


def test_the_program_runs_from_there(installed, tmp_path):
    assert run(installed / "bin/berth", "version").startswith("berth " + cache("CMAKE_PROJECT_VERSION"))
    (tmp_path / "stack.yaml").write_text(stacks.text(stacks.document("Stack", "lab", {"provider": "local"})))
    done = subprocess.run([installed / "bin/berth", "doctor"], cwd=tmp_path, capture_output=True, text=True)
    assert re.search(r"ok +runtime +\S*libexec/berth/berth-runtime", done.stdout), done.stdout


@pytest.mark.parametrize("shell, name", [("bash", "share/bash-completion/completions/berth"), ("zsh", "share/zsh/site-functions/_berth"), ("fish", "share/fish/vendor_completions.d/berth.fish")])
def test_completions_can_be_read(installed, shell, name):
    assert "completion answer" in (installed / name).read_text()
    run(shell, "-n", installed / name)


def test_units_start_what_was_installed(installed):
    for name in UNITS:
        text = (installed / "lib/systemd/system" / name).read_text()
        assert text.startswith("# SPDX-License-Identifier: Apache-2.0\n[Unit]\n"), text
        for program in re.findall(r"^ExecStart=(\S+)", text, re.M):
            assert program == str(installed / "bin/berth")
    # Both daemons may run on one machine: the state of one is not the other's.
    states = [re.search(r"^StateDirectory=(\S+)", (installed / "lib/systemd/system" / unit).read_text(), re.M).group(1) for unit in UNITS[:2]]
    assert states == ["berth-controller", "berth"]
    user = re.search(r"^User=(\S+)", (installed / "lib/systemd/system/berth-serve.service").read_text(), re.M).group(1)
    assert f"\nu {user} " in (installed / "lib/sysusers.d/berth.conf").read_text()


def test_a_c_library_that_has_less(tmp_path):
    """As musl: what it does not declare is asked of the kernel."""
    (tmp_path / "include/sys").mkdir(parents=True)
    (tmp_path / "include/sys/pidfd.h").touch()
    run("cmake", "-S", ROOT, "-B", tmp_path / "build", "-G", "Ninja", f"-DCMAKE_C_FLAGS=-I{tmp_path}/include -Werror=implicit-function-declaration")
    run("cmake", "--build", tmp_path / "build", "--target", "berth_base", "berth_process")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.skipif(os.geteuid() != 0, reason="without a systemd that runs, only root's systemd-analyze reads units")
def test_units_are_read_by_systemd(installed):
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *[installed / "lib/systemd/system" / unit for unit in UNITS]], capture_output=True, text=True)
    assert done.returncode == 0 and "berth-" not in done.stderr, done.stderr


def test_what_is_loaded_later_is_depended_on(installed):
    """The package's list is made of the libraries that the build has found, and says what the documentation says."""
    folder = (built.checked_binary() or built.find_binary()).parent
    depends = re.search(r'^set\(CPACK_DEBIAN_PACKAGE_DEPENDS "(.*)"\)$', (folder / "CPackConfig.cmake").read_text(), re.M).group(1).split(", ")
    release = dict(line.split("=", 1) for line in open("/etc/os-release").read().splitlines() if "=" in line)
    documented = re.search(r"apt-get install --no-install-recommends (.*?)\n\n", (ROOT / "docs/install.md").read_text(), re.S).group(1)
    libraries = [name for name in depends if name.startswith("lib")]
    assert len(libraries) == 8 and {"python3", "bubblewrap", "ca-certificates"} <= set(depends), depends
    if release.get("VERSION_ID") == '"12"':
        assert set(libraries) <= set(documented.replace("\\", " ").split())
