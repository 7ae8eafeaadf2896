# SPDX-License-Identifier: Apache-2.0
"""
`berth image build`: the image that it makes of Debian's packages, judged by skopeo, tar, boto3, and by running it; and what
is left of builds that fail, are interrupted or killed. It is built once a session, from a Debian mirror.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import urllib.request
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

import stacks
from binary import Berth
from controllers import wait_until

MIRROR = "http://deb.debian.org/debian/dists/bookworm/InRelease"
LOCAL = stacks.document("Stack", "lab", {"aws": {"account": "123456789012", "region": "eu-west-1", "namePrefix": "lab"}})
PROGRAM = """
import io, json, os, platform, subprocess, warnings
import matplotlib, numpy, pandas, scipy, sympy
import matplotlib.pyplot as plot
def draw(text):
    with warnings.catch_warnings(record=True) as caught:  # of glyphs that no font has
        warnings.simplefilter("always")
        plot.title(text)
        plot.savefig(io.BytesIO(), format="png")
    return [str(one.message) for one in caught]
def sheet():
    pandas.DataFrame({"a": [1, 2]}).to_excel("/tmp/sheet.xlsx")
    return int(pandas.read_excel("/tmp/sheet.xlsx")["a"].sum())
frame = pandas.DataFrame({"a": numpy.arange(4)})
plot.plot(frame["a"])
picture = io.BytesIO()
plot.savefig(picture, format="png")
print(json.dumps({
    "sum": int(frame["a"].sum()),
    "root": str(sympy.sqrt(8)),
    "picture": picture.getvalue()[:8].hex(),
    "python": platform.python_version(),
    "headers": os.listdir("/usr/include"),
    "compiled": numpy.__cached__,
    "drawn": draw("\u4e2d\u6587 \u65e5\u672c\u8a9e \ud55c\uad6d\uc5b4"),
    "sheet": sheet(),
    "programs": [subprocess.run(words, capture_output=True, text=True).returncode for words in (["git", "init", "-q", "/tmp/repository"], ["ps", "aux"], ["pip", "--version"])],
    "installs": "externally-managed" not in subprocess.run(["pip", "install", "--no-index", "none"], capture_output=True, text=True).stderr,
}))
"""


def why_not():
    """Why no image can be built here, or None."""
    if not shutil.which("mmdebstrap"):
        return "mmdebstrap is not installed"
    if os.geteuid() != 0 and not shutil.which("newuidmap"):
        return "not root, and newuidmap (package uidmap) is not installed"
    try:
        with urllib.request.urlopen(MIRROR, timeout=20) as answer:
            answer.read(1)
    except OSError as error:
        return f"no Debian mirror can be reached: {MIRROR}: {error}"
    return None


def make(binary, folder):
    folder.mkdir(exist_ok=True)
    berth = Berth(binary, folder, "http://127.0.0.1:1")
    berth.env.update({name: os.environ[name] for name in ("http_proxy", "https_proxy", "no_proxy") if name in os.environ})
    berth.write("stack.yaml", stacks.text(LOCAL, stacks.environment("science")))
    return berth


@pytest.fixture
def lab(binary, tmp_path):
    """A stack of its own, with nothing built."""
    return make(binary, tmp_path / "lab")


@pytest.fixture(scope="session")
def built(binary, tmp_path_factory):
    """The image, built once: the stack that has it, its archive, what Berth said of it."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("built")
    berth = make(binary, folder)
    result = berth("image", "build", "python", "-o", "the python.tar", "--json", timeout=800).expect(0)
    yield SimpleNamespace(berth=berth, archive=berth.stack / "the python.tar", row=result.json(), result=result)
    shutil.rmtree(folder)  # 900 MB, which pytest would keep for three sessions


def skopeo(*arguments):
    done = subprocess.run(["skopeo", "--insecure-policy", *map(str, arguments)], capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def store(berth):
    return berth.stack / ".berth" / "local" / "lab" / "images"


def builds(berth):
    """What builds left behind."""
    folder = store(berth) / "build"
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def processes(text):
    """Of those whose command or surroundings name `text`: their ids."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and any(text.encode() in open(f"/proc/{entry}/{n}", "rb").read() for n in ("cmdline", "environ")):
                found.append(int(entry))
        except OSError:
            continue
    return found


# --- what is built ---


@pytest.mark.timeout(900)
def test_the_image_as_others_see_it(built):
    row = built.row
    assert row["usable"] and row["platform"] == "linux/amd64" and row["repository"] == "prebuilt/python" and row["tags"] == ["latest"]
    seen = json.loads(skopeo("inspect", f"oci-archive:{built.archive}"))
    assert seen["Digest"] == row["digest"] and seen["Architecture"] == "amd64" and seen["Os"] == "linux"
    assert {"LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin"} <= set(seen["Env"]) and len(seen["Layers"]) == 2
    assert seen["Labels"]["berth.runtime"], "the runtime is in it"
    manifest = json.loads(skopeo("inspect", "--raw", f"oci-archive:{built.archive}"))
    assert manifest["mediaType"] == "application/vnd.oci.image.manifest.v1+json", "Lambda takes no index"
    assert [layer["mediaType"] for layer in manifest["layers"]] == ["application/vnd.oci.image.layer.v1.tar+gzip"] * 2
    assert json.loads(skopeo("inspect", "--config", f"oci-archive:{built.archive}"))["config"]["Cmd"] == ["python3"]
    in_store = json.loads(skopeo("inspect", f"oci:{store(built.berth)}:prebuilt/python:latest"))
    assert in_store["Digest"] == row["digest"], "the store is a layout that skopeo reads"
    assert "downloading packages" in built.result.err and builds(built.berth) == []
    assert built.berth("image", "check", "prebuilt/python").expect(0)


@pytest.mark.timeout(900)
def test_what_its_layer_holds(built):
    with tarfile.open(built.archive) as archive:
        (name,) = [m.name for m in archive.getmembers() if m.size > 10_000_000]
        with tarfile.open(fileobj=archive.extractfile(name), mode="r|gz") as layer:
            members = {m.name: m for m in layer}
    assert all(m.isfile() or m.isdir() or m.issym() or m.islnk() for m in members.values())
    assert not [n for n, m in members.items() if m.mode & 0o6000], "no set-uid bit"
    assert {(m.uid, m.gid, m.uname, m.gname) for m in members.values()} == {(0, 0, "", "")}
    assert max(m.mtime for m in members.values()) <= 1686355200
    emptied = ("dev/", "proc/", "sys/", "run/", "tmp/", "var/log/", "var/cache/", "etc/apt/")
    assert not [n for n in members if n.startswith(emptied) and n.rstrip("/") + "/" not in emptied]
    assert not {"etc/hostname", "etc/resolv.conf", "etc/machine-id"} & set(members)
    assert "usr/bin/python" in members and members["home/user"].linkname == "/workspace" and "usr/bin/gcc" not in members and not [n for n in members if n.startswith("usr/include/")]
    assert sum(m.size for m in members.values()) < 700_000_000


@pytest.mark.timeout(900)
def test_code_runs_in_it(built):
    berth = built.berth
    berth.apply()
    berth.assert_settled()
    result = berth("exec", "--env", "science", "--accept-degraded", "-c", PROGRAM).expect(0)
    said = json.loads(result.out)
    assert said["sum"] == 6 and said["root"] == "2*sqrt(2)" and said["picture"] == "89504e470d0a1a0a"
    assert said["python"].startswith("3.11.") and said["headers"] == []
    assert said["compiled"].endswith(".pyc")
    assert said["drawn"] == [] and said["sheet"] == 3 and said["programs"] == [0, 0, 0] and said["installs"]
    shell = berth("exec", "--env", "science", "--accept-degraded", "--lang", "sh", "-c", "python --version; command -v gcc perldoc").expect(127)
    assert shell.out.startswith("Python 3.11.")


@pytest.mark.timeout(900)
@pytest.mark.only("ministack", "images are pushed to a real registry")
def test_aws_takes_it(built, cloud, berth):
    """Pushed by the command that was printed, but for the registry's name, which here is the stand-in's."""
    push = built.row["push"]
    assert push[:2] == [
        "aws ecr create-repository --region eu-west-1 --repository-name lab/prebuilt/python",
        "aws ecr get-login-password --region eu-west-1 | skopeo login --username AWS --password-stdin 123456789012.dkr.ecr.eu-west-1.amazonaws.com",
    ]
    assert push[2] == "skopeo copy 'oci-archive:the python.tar' docker://123456789012.dkr.ecr.eu-west-1.amazonaws.com/lab/prebuilt/python:latest"
    host = urlsplit(cloud.standin.url).netloc
    repository = "alphaagent/prebuilt/python"
    cloud.pushes.repository(repository)
    skopeo("copy", "--quiet", "--dest-tls-verify=false", "--dest-creds", "AWS:x", f"oci-archive:{built.archive}", f"docker://{host}/{repository}:latest")
    (detail,) = cloud.aws("ecr").describe_images(repositoryName=repository)["imageDetails"]
    assert detail["imageDigest"] == built.row["digest"], "the same image there as here"
    berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("science")))
    assert built.row["digest"] in berth("image", "check", repository).expect(0).out
    berth.apply()
    berth.assert_settled()
    uri = cloud.aws("lambda").get_function(FunctionName="alphaagent-env-science")["Code"]["ImageUri"]
    assert uri.endswith("@" + built.row["digest"])


# --- what goes wrong ---


def test_what_is_asked_for_must_be_there(lab):
    for arguments, says in {
        ("build",): "berth image build python",
        ("build", "python", "more"): "needs only the name",
        ("build", "pyton"): "did you mean python?",
        ("build", "node"): "there are: python (Debian 12",
        ("build", "python", "-o", "nowhere/x.tar"): "cannot write nowhere/x.tar: No such file",
        ("build", "python", "-o", "."): "it is a folder",
        ("check", "x", "-o", "y"): "berth image check takes no --output: it goes with image build, image runtime",
        ("instructions", "--mirror", "http://x"): "berth image instructions takes no --mirror: it goes with image build",
    }.items():
        assert says in lab("image", *arguments).expect(1).err, arguments
    dated = lab("image", "build", "python", env={"SOURCE_DATE_EPOCH": "yesterday"}).expect(1)
    assert "SOURCE_DATE_EPOCH" in dated.err
    assert not store(lab).exists()


needs_mmdebstrap = pytest.mark.skipif(
    not shutil.which("mmdebstrap") or os.geteuid() != 0, reason="mmdebstrap is not installed, or this is not root"
)  # fmt: skip


@needs_mmdebstrap
def test_a_mirror_that_cannot_be_reached(lab):
    result = lab("image", "build", "python", "-o", "x.tar", "--mirror", "http://127.0.0.1:1").expect(1)
    assert "error: mmdebstrap failed: " in result.err and "127.0.0.1" in result.err.splitlines()[-1]
    assert "Connection refused" in result.err
    assert builds(lab) == [] and not (lab.stack / "x.tar").exists()
    assert lab("images", "--json").expect(0).json() == []
    quiet = lab("image", "build", "python", "-q", "--mirror", "http://127.0.0.1:1").expect(1)
    assert len(quiet.err.splitlines()) == 1 and "127.0.0.1" in quiet.err


@needs_mmdebstrap
def test_without_mmdebstrap(lab):
    """Where its program cannot be run, the error names the package, and doctor does, without calling anything broken."""

    def run(*arguments):
        hide = f'mount --bind /dev/null {shutil.which("mmdebstrap")} && exec "$@"'
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", hide, "sh", str(lab.binary), *arguments],
            cwd=lab.stack, env=lab.env, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    done = run("image", "build", "python")
    if "mount" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    assert done.returncode == 1 and "apt-get install mmdebstrap" in done.stderr
    assert builds(lab) == []
    usual, without = lab("doctor", "--json"), run("doctor", "--json")
    assert without.returncode == usual.code
    (told,) = [f for f in json.loads(without.stdout)["findings"] if f["name"] == "mmdebstrap"]
    assert not told["works"] and told["optional"] and told["detail"] == "optional, for berth image build: apt-get install mmdebstrap"
    (told,) = [f for f in usual.json()["findings"] if f["name"] == "mmdebstrap"]
    assert told["works"] and told["detail"] == "for berth image build"


class Hanging:
    """A mirror that takes requests and never answers."""

    def __enter__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._taken = []
        return self

    @property
    def url(self):
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def wait(self):
        self._socket.settimeout(60)
        self._taken.append(self._socket.accept()[0])

    def __exit__(self, *_):
        for taken in (*self._taken, self._socket):
            taken.close()


def until(condition):
    return wait_until(condition, timeout=20)


@needs_mmdebstrap
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted(lab, number):
    with Hanging() as mirror:
        process = lab.popen("image", "build", "python", "--mirror", mirror.url)
        mirror.wait()
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    result = lab.result(["image", "build"], process.returncode, out, err).expect(1)
    assert "interrupted" in result.err.splitlines()[-1] and result.out == ""
    assert builds(lab) == []
    assert until(lambda: processes(str(store(lab))) == [])


@needs_mmdebstrap
def test_killed(lab):
    """Its processes die with it; the folder that is left is believed by nobody, and removed by the next build."""
    with Hanging() as mirror:
        process = lab.popen("image", "build", "python", "--mirror", mirror.url)
        mirror.wait()
        (left,) = builds(lab)
        process.kill()
        process.communicate(timeout=30)
        assert until(lambda: processes(str(store(lab))) == [])
    assert not [line for line in open("/proc/mounts") if str(store(lab)) in line]
    assert builds(lab) == [left]
    assert lab("images", "--json").expect(0).json() == []
    lab("image", "build", "python", "--mirror", "http://127.0.0.1:1").expect(1)
    assert builds(lab) == []


@needs_mmdebstrap
def test_two_at_a_time(lab):
    """Neither takes the other's folder for a dead one's."""
    with Hanging() as mirror:
        process = lab.popen("image", "build", "python", "--mirror", mirror.url)
        mirror.wait()
        (living,) = builds(lab)
        lab("image", "build", "python", "--mirror", "http://127.0.0.1:1").expect(1)
        assert builds(lab) == [living] and process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert builds(lab) == []
