# SPDX-License-Identifier: Apache-2.0
"""What a release has besides the packages: lists of parts, an image; and that all of it is the same bytes when it is made again."""

import hashlib
import json
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, shell

from controllers import wait_until

EPOCH = "1700000000"
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def installed(debian):
    """With the programs that the image has besides."""
    done = shell('package_install "$@"', debian.release, debian.deb, "tini", "gpgv", "openssh-client")
    assert done.returncode == 0, done.stderr
    return debian


def tool(name, *words):
    done = subprocess.run([sys.executable, ROOT / "tools/release" / name, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_list_of_parts(installed, tmp_path):
    """Judged by SPDX's own tools; and it names the files that are there."""
    from spdx_tools.spdx.parser.parse_anything import parse_file
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

    for name in ("one.spdx.json", "two.spdx.json"):
        tool("sbom.py", installed.root, installed.deb, EPOCH, tmp_path / name)
    assert (tmp_path / "one.spdx.json").read_bytes() == (tmp_path / "two.spdx.json").read_bytes()
    assert validate_full_spdx_document(parse_file(str(tmp_path / "one.spdx.json"))) == []
    document = json.loads((tmp_path / "one.spdx.json").read_text())
    names = {package["name"] for package in document["packages"]}
    assert {"berth", "cloudpickle", "libjansson4", "libc6", "bubblewrap", "python3", "liblmdb0"} <= names
    for file in document["files"]:
        sums = {one["algorithm"]: one["checksumValue"] for one in file["checksums"]}
        assert hashlib.sha256((installed.root / file["fileName"]).read_bytes()).hexdigest() == sums["SHA256"], file


def test_the_package_made_elsewhere_is_the_same(debian, tmp_path):
    done = shell('package_make "$1" "$2" /srv/another/folder', debian.release, tmp_path)
    assert done.returncode == 0, done.stderr
    (again,) = tmp_path.glob("*.deb")
    assert again.name == debian.deb.name and again.read_bytes() == debian.deb.read_bytes()


@pytest.fixture(scope="module")
def image(installed, tmp_path_factory):
    """Its archive; made twice, it is the same."""
    one, two = (tmp_path_factory.mktemp("image") / name for name in ("one.tar", "two.tar"))
    for archive in (one, two):
        tool("image.py", installed.root, EPOCH, archive)
    assert one.read_bytes() == two.read_bytes()
    return one


def test_the_image_is_small_and_nobody_s(image):
    assert image.stat().st_size < 48 << 20
    said = json.loads(subprocess.run(["skopeo", "inspect", "--config", f"oci-archive:{image}"], check=True, capture_output=True).stdout)
    assert (said["config"]["User"], said["os"]) == ("10001:10001", "linux")


STACK = """apiVersion: berth/v1
kind: Stack
metadata: {name: lab}
spec: {provider: local}
"""
SERVER = """apiVersion: berth/v1
kind: Server
metadata: {name: main}
spec: {stack: /etc/berth/lab}
"""
CONTROLLER = """apiVersion: berth/v1
kind: Controller
metadata: {name: platform}
spec:
  sources: [{name: lab, url: "https://127.0.0.1/agents.git", branch: main}]
"""


@pytest.mark.skipif(shutil.which("podman") is None, reason="no podman here")
def test_the_image_runs(image, tmp_path):
    """As its user, on a root that cannot be written to, without a network: a server and a controller, asked by the program in the image."""
    (tmp_path / "lab").mkdir()
    for name, text in {"lab/stack.yaml": STACK, "server.yaml": SERVER, "controller.yaml": CONTROLLER}.items():
        (tmp_path / name).write_text(text)
    tmp_path.chmod(0o755)

    def podman(*words, **kwargs):
        return subprocess.run(["podman", *map(str, words)], capture_output=True, text=True, timeout=120, **kwargs)

    pulled = podman("pull", "-q", f"oci-archive:{image}")
    assert pulled.returncode == 0, pulled.stderr
    number, volume = pulled.stdout.strip(), f"berth-test-{tmp_path.name}"
    # runc, where it is: crun knows no machine whose cgroups are of both versions. Limits are what any root may set.
    options = ["--runtime=runc"] if shutil.which("runc") else []
    options += ["--rm", "--network=none", "--read-only", "--tmpfs=/run/berth:mode=1777", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024",
                f"--volume={tmp_path}:/etc/berth:ro", f"--volume={volume}:/var/lib/berth"]  # fmt: skip
    begun = []

    def begin(*words):
        done = podman("run", "-d", *options, number, *words)
        assert done.returncode == 0, done.stderr
        begun.append(done.stdout.strip())
        return begun[-1]

    try:
        assert podman("run", *options, number, "version").stdout.startswith("berth ")
        done = podman("run", *options, number, "apply", "--yes", "-q", "-f", "/etc/berth/lab")
        assert done.returncode == 0, done.stderr
        server = begin("serve", "-f", "/etc/berth/server.yaml")
        controller = begin("controller", "-f", "/etc/berth/controller.yaml", "--state", "/var/lib/berth/controller")
        wait_until(lambda: "it serves what was applied" in podman("logs", server).stderr, 60)
        wait_until(lambda: "Unreachable" in podman("exec", controller, "/usr/bin/berth", "controller", "status", "--state", "/var/lib/berth/controller").stdout, 60)
        assert podman("top", server, "huser").stdout.split()[-1] == "10001"
    finally:
        for one in begun:
            podman("rm", "-f", one)
        podman("volume", "rm", "-f", volume)
        podman("rmi", "-f", number)
