# SPDX-License-Identifier: Apache-2.0
"""
`berth image runtime`: the runtime as one layer more, on an image of a file, of the local store, and of the registry on AWS; skopeo
judges what comes out. Images are others' work: what is wrong with one is said, and nothing comes of it.
"""

import collections
import json
import subprocess
import tarfile
import urllib.request
from pathlib import Path

import pytest
from images import DOCKER, Image, write_folder
from layouts import Made, archive, digest_of, file, folder, link, write_layout

import stacks
from lib.aws_stack import World

PROGRAM = "opt/berth/berth-runtime"
CONTENT = [folder("opt", 0o700), file("opt/note", "hello")]


def skopeo(*words):
    done = subprocess.run(["skopeo", "--insecure-policy", *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def version(binary):
    done = subprocess.run([Path(binary).parent / "berth-runtime", "version"], capture_output=True, text=True, check=True)
    return done.stdout.split()[1].rstrip(",")


def check_layer(data, binary):
    with tarfile.open(fileobj=data, mode="r:gz") as layer:
        members = layer.getmembers()
        assert [(m.name, m.mode, m.isdir()) for m in members] == [("opt", 0o755, True), ("opt/berth", 0o755, True), (PROGRAM, 0o755, False)]
        assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {(0, 0, "", "", 0)}
        assert layer.extractfile(PROGRAM).read() == (Path(binary).parent / "berth-runtime").read_bytes()


# --- on this machine ---


@pytest.fixture
def lab(offline):
    offline.write("stack.yaml", stacks.text(stacks.document("Stack", "lab", {"provider": "aws"})))
    return offline


def store(berth):
    return berth.stack / ".berth" / "local" / "lab" / "images"


def left_behind(berth):
    return [p.name for p in (store(berth) / "build").iterdir()]


def test_an_archive(lab, binary, tmp_path):
    """Others find it right: every digest, the layer, the label. The same goes in, the same bytes come out."""
    Made(CONTENT, [file("more", "2")], config={"Labels": {"mine": "kept"}, "Cmd": ["python3"]}).write(tmp_path / "layout", "stable")
    archive(tmp_path / "layout", tmp_path / "in.tar")
    row = lab("image", "runtime", tmp_path / "in.tar", "-o", tmp_path / "out.tar", "--json").expect(0).json()
    lab("image", "runtime", f"{tmp_path}/layout", "-o", tmp_path / "again.tar").expect(0)
    assert (tmp_path / "out.tar").read_bytes() == (tmp_path / "again.tar").read_bytes()
    seen = json.loads(skopeo("inspect", f"oci-archive:{tmp_path}/out.tar"))
    assert seen["Digest"] == row["digest"] and len(seen["Layers"]) == 3
    assert seen["Labels"] == {"mine": "kept", "berth.runtime": version(binary)}
    assert json.loads(skopeo("inspect", "--config", f"oci-archive:{tmp_path}/out.tar"))["config"]["Cmd"] == ["python3"]
    skopeo("copy", f"oci-archive:{tmp_path}/out.tar", f"dir:{tmp_path}/dir")
    with open(tmp_path / "dir" / seen["Layers"][2].removeprefix("sha256:"), "rb") as data:
        check_layer(data, binary)
    more = lab("image", "runtime", tmp_path / "out.tar", "-o", tmp_path / "third.tar", "--json").expect(0).json()
    assert more["digest"] == row["digest"] and "already" in more["note"]
    assert left_behind(lab) == [] and not (store(lab) / "index.json").exists()


def test_the_store(lab, binary, tmp_path):
    Made(CONTENT).write(tmp_path / "l", "v1")
    local = ("--provider", "local")
    before = lab("image", "import", "data/etl:v1", tmp_path / "l", "--json", *local).expect(0).json()["digest"]
    other = lab("image", "runtime", "data/etl:v1", "v1-run", "--json").expect(0).json()
    assert other["tags"] == ["v1-run"] and other["digest"] != before and other["usable"]
    assert lab("image", "check", "data/etl:v1", "--json", *local).json()["digest"] == before
    assert lab("image", "runtime", "data/etl:v1", "--json").expect(0).json()["digest"] == other["digest"]
    assert lab("image", "check", "data/etl:v1", "--json", *local).json()["digest"] == other["digest"]
    root = store(lab) / "roots" / "sha256" / other["digest"].removeprefix("sha256:")
    assert (root / PROGRAM).read_bytes() == (Path(binary).parent / "berth-runtime").read_bytes()
    assert (root / PROGRAM).stat().st_mode & 0o777 == 0o755 and (root / "opt/note").read_text() == "hello"
    assert "already" in lab("image", "runtime", "data/etl:v1").expect(0).out and left_behind(lab) == []
    by_digest = lab("image", "runtime", f"data/etl@{before}").expect(1)
    assert "under which tag" in by_digest.err


def test_a_link_in_the_way_leads_nowhere(lab, tmp_path):
    """/opt is a link out of the image: the runtime comes to lie in the image, or nowhere."""
    (tmp_path / "away").mkdir()
    Made([link("opt", str(tmp_path / "away"))]).write(tmp_path / "l", "v1")
    lab("image", "import", "data/etl:v1", tmp_path / "l", "--provider", "local").expect(0)
    row = lab("image", "runtime", "data/etl:v1", "--json").expect(0).json()
    root = store(lab) / "roots" / "sha256" / row["digest"].removeprefix("sha256:")
    assert not list((tmp_path / "away").iterdir()) and (root / "opt").is_dir() and (root / PROGRAM).exists()


def swapped(place):
    """A layer whose bytes are not those of its digest."""
    made = Made(CONTENT)
    descriptor = made.descriptor("v1")
    write_layout(place, [descriptor], {**made.blobs, digest_of(made.stored[0]): b"x" * len(made.stored[0])})


def uneven(place):
    made = Made(CONTENT)
    made.config["rootfs"]["diff_ids"] *= 2
    made.write(place, "v1")


HOSTILE = {
    "arm64": (lambda place: Made(CONTENT, arch="arm64").write(place, "v1"), 3, "linux/arm64"),
    "another layer": (swapped, 1, "do not match its digest"),
    "one layer and two tars": (uneven, 1, "speaks of 2 layers"),
    "no image": (lambda place: place.mkdir(), 1, "is no image"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_wrong_is_said(lab, tmp_path, case):
    make, code, says = HOSTILE[case]
    make(tmp_path / "l")
    done = lab("image", "runtime", tmp_path / "l", "-o", tmp_path / "out.tar").expect(code)
    assert says in done.out + done.err and not (tmp_path / "out.tar").exists() and left_behind(lab) == []


def test_words_that_are_wrong(lab):
    for words, says in {
        (): "needs an image",
        ("./x",): "-o FILE",
        ("x.tar", "--push"): "--push is for an image of the Stack's registry",
        ("a/b", "--push", "-o", "x"): "not both",
        ("a/b", "..", "-o", "x.tar"): "is no tag",
        ("A/b",): "is no image",
        ("a/b",): "is not in the image store",
        ("a/b", "--push", "--provider", "local"): "for stacks on AWS",
    }.items():
        assert says in lab("image", "runtime", *words).expect(1).err, words
    assert "berth image check takes no --push: it goes with image runtime" in lab("image", "check", "a/b", "--push").expect(1).err


# --- in the registry ---


@pytest.fixture
def world(cloud, berth):
    made = World(cloud, berth)
    made.write(stacks.environment("x", image={"repository": "team/tool", "tag": "v1"}))
    return made


def pulled(cloud, repository, digest, place):
    """The image by ECR's own calls, as a folder that skopeo reads: it checks every digest when it copies that."""
    ecr = cloud.aws("ecr")
    (image,) = ecr.batch_get_image(repositoryName=repository, imageIds=[{"imageDigest": digest}])["images"]
    manifest, blobs = json.loads(image["imageManifest"]), {}
    for part in [manifest["config"], *manifest["layers"]]:
        url = ecr.get_download_url_for_layer(repositoryName=repository, layerDigest=part["digest"])["downloadUrl"]
        with urllib.request.urlopen(url) as answer:
            blobs[part["digest"]] = answer.read()
    made = Image()
    made.manifest, made.blobs = image["imageManifest"].encode(), blobs
    write_folder(made, place)
    skopeo("copy", f"dir:{place}", f"oci:{place}-oci:x")
    return manifest, json.loads(skopeo("inspect", "--config", f"dir:{place}"))


@pytest.mark.parametrize("form", ["amd64", "docker", "index"])
def test_push(world, cloud, binary, tmp_path, form):
    """Two documents are read, the layer and two documents go: the image's own layers are not moved."""
    getattr(cloud.pushes, form)("team/tool", "v1")
    mark = cloud.mark()
    row = world.berth("image", "runtime", "team/tool:v1", "--push", "--json").expect(0).json()
    calls = collections.Counter(call["operation"] for call in cloud.calls(mark, "ecr"))
    uploads = {"InitiateLayerUpload": 2, "UploadLayerPart": 2, "CompleteLayerUpload": 2, "PutImage": 1, "GetDownloadUrlForLayer": 1}
    assert calls == {**uploads, "BatchGetImage": 2 if form == "index" else 1}
    manifest, config = pulled(cloud, "team/tool", row["digest"], tmp_path / "pulled")
    assert config["config"]["Labels"]["berth.runtime"] == version(binary)
    assert manifest["mediaType"] == (DOCKER["manifest"] if form == "docker" else "application/vnd.oci.image.manifest.v1+json")
    with open(tmp_path / "pulled" / manifest["layers"][-1]["digest"].removeprefix("sha256:"), "rb") as data:
        check_layer(data, binary)
    checked = world.berth("image", "check", "team/tool:v1", "--json").expect(0).json()
    assert checked["digest"] == row["digest"] and checked["usable"]
    mark = cloud.mark()
    assert "already" in world.berth("image", "runtime", "team/tool:v1", "--push").expect(0).out
    assert not cloud.calls(mark, operation="UploadLayerPart")


def test_push_under_another_tag(world, cloud):
    before = cloud.pushes.amd64("team/tool", "v1")
    world.berth("image", "runtime", f"team/tool@{before}", "v1-run", "--push").expect(0)
    assert "under which tag" in world.berth("image", "runtime", f"team/tool@{before}", "--push").expect(1).err
    assert world.berth("image", "check", "team/tool:v1", "--json").json()["digest"] == before
    assert "does not exist" in world.berth("image", "runtime", "team/tool:v9", "--push").expect(1).err
    other = cloud.image_uri("team/tool", "v1").replace(cloud.image_uri("x").split(".")[0], "111122223333")
    assert "another account's" in world.berth("image", "runtime", other, "--push").expect(1).err


@pytest.mark.only("ministack", "moto lets an immutable tag move")
def test_an_immutable_tag(world, cloud):
    cloud.pushes.amd64("team/tool", "v1")
    cloud.direct("ecr").put_image_tag_mutability(repositoryName="team/tool", imageTagMutability="IMMUTABLE")
    refused = world.berth("image", "runtime", "team/tool:v1", "--push").expect(1).err
    assert "are immutable" in refused and "TAG --push" in refused
    world.berth("image", "runtime", "team/tool:v1", "v2", "--push").expect(0)


def test_a_registry_that_lies(world, cloud):
    """Another configuration than the manifest names: nothing is pushed on the word of it."""
    image = Image("hello")
    cloud.pushes.push("team/tool", "v1", image)
    for digest, data in image.blobs.items():
        body = data.replace(b'"amd64"', b'"amd64" ') if b"amd64" in data else data
        request = urllib.request.Request(f"{cloud.url}/_proxy/blobs/{digest}", body, method="PUT")
        urllib.request.urlopen(request).close()
    mark = cloud.mark()
    assert "not what its manifest says" in world.berth("image", "runtime", "team/tool:v1", "--push").expect(1).err
    assert not cloud.changing_calls(mark)


@pytest.mark.parametrize("operation", ["UploadLayerPart", "CompleteLayerUpload", "PutImage"])
def test_a_push_whose_answers_are_lost(world, cloud, operation):
    """The call is made again, and ECR says that it knows of no such upload, or has the layer, or the image."""
    cloud.pushes.amd64("team/tool", "v1")
    cloud.faults(({"operation": operation, "times": 1}, {"kind": "lost"}))
    row = world.berth("image", "runtime", "team/tool:v1", "--push", "--json").expect(0).json()
    assert cloud.fault_hits() == [1]
    assert world.berth("image", "check", "team/tool:v1", "--json").expect(0).json()["digest"] == row["digest"]


# --- what a function runs by ---

ENTRY = {"EntryPoint": ["/opt/berth/berth-runtime"], "Command": ["lambda"]}


def entry_of(world, name="x"):
    return world.function(name)["Configuration"].get("ImageConfigResponse", {}).get("ImageConfig", {})


def test_the_entry_point_is_the_runtime_where_the_image_has_it(world, cloud):
    """Without one an image runs by its own, which is told once. Either way it is Berth's, and put back."""
    cloud.pushes.amd64("team/tool", "v1")

    def tool(tag, name="x"):
        return stacks.environment(name, image={"repository": "team/tool", "tag": tag})

    world.write(tool("v1"))
    (warning,) = world.berth.plan()["warnings"]
    assert "Environment/x" in warning and "berth image runtime team/tool:v1 --push" in warning
    world(tool("v1"))
    assert entry_of(world) == {} and world.berth.plan()["warnings"] == []
    world.berth("image", "runtime", "team/tool:v1", "v2", "--push").expect(0)
    row = world.berth("image", "check", "team/tool:v2", "--json").json()
    assert row["runtime"] and "runtime " + row["runtime"] in world.berth("image", "check", "team/tool:v2").out
    world.write(tool("v2"), tool("v2", "y"))
    assert world.berth.plan()["warnings"] == []
    world(tool("v2"), tool("v2", "y"))
    assert entry_of(world) == entry_of(world, "y") == ENTRY
    client = cloud.aws("lambda")
    client.update_function_configuration(FunctionName="alphaagent-env-x", ImageConfig={"EntryPoint": ["/bin/sh"], "Command": ["-c", "evil"]})
    (change,) = world.berth.plan()["changes"]
    assert {f["path"] for f in change["fields"]} == {"imageConfig.command", "imageConfig.entryPoint"}
    world(tool("v2"), tool("v2", "y"))
    assert entry_of(world) == ENTRY
    world(tool("v1"), tool("v2", "y"))
    assert entry_of(world) == {} and entry_of(world, "y") == ENTRY
