# SPDX-License-Identifier: Apache-2.0
"""The local store of images: importing, listing, following, and running code in what was imported."""

import fcntl
import gzip
import json
import os
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

import images
import layouts
import stacks
from layouts import Made, file, folder, hard, link


def root(berth, name="lab"):
    return berth.stack / ".berth" / "local" / name


def store(berth):
    return root(berth) / "images"


def root_of(berth, digest):
    return store(berth) / "roots" / "sha256" / digest.removeprefix("sha256:")


def blobs(berth):
    return sorted(p.name for p in (store(berth) / "blobs" / "sha256").iterdir())


@pytest.fixture
def berth(offline):
    offline.write("stack.yaml", stacks.text(stacks.document("Stack", "lab", {"provider": "local"})))
    return offline


def take(berth, name, path, code=0):
    return berth("image", "import", name, path, "--json").expect(code).json()


def skopeo(*words):
    done = subprocess.run(["skopeo", "--insecure-policy", *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


CONTENT = [folder("opt"), file("opt/note", "hello"), file("opt/run", "#!/bin/sh\n", 0o755), link("note", "opt/note"), hard("opt/same", "opt/note")]


def check_content(place):
    assert (place / "opt/note").read_text() == "hello" and (place / "opt/run").stat().st_mode & 0o777 == 0o755
    assert os.readlink(place / "note") == "opt/note" and (place / "opt/same").samefile(place / "opt/note")
    assert (place / "opt/note").stat().st_mtime == 1_600_000_000, "Python's caches name the times of their sources"


# --- what is taken ---


def test_an_oci_layout(berth, tmp_path):
    made = Made(CONTENT, [file("opt/more", "2")])
    digest = made.write(tmp_path / "layout", "stable")
    row = take(berth, "data/etl:stable", tmp_path / "layout")
    assert row["repository"] == "data/etl" and row["tags"] == ["stable"] and row["digest"] == digest
    assert row["platform"] == "linux/amd64" and row["usable"] and row["note"] is None
    assert row["sizeBytes"] == sum(map(len, made.stored))
    check_content(root_of(berth, digest))
    assert json.loads((store(berth) / "index.json").read_text())["images"] == {"data/etl:stable": digest}
    assert blobs(berth) == sorted(d.removeprefix("sha256:") for d in made.blobs)
    for path in store(berth).rglob("*"):
        if not any(parent.name == "roots" for parent in path.parents) and not path.is_symlink():
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    text = berth("image", "import", "data/etl:stable", tmp_path / "layout").expect(0)
    assert "imported: data/etl:stable is sha256:" in text.out and "linux/amd64" in text.out


@pytest.mark.parametrize("form", ["oci-archive", "docker-archive", "dir", "oci"])
def test_what_skopeo_writes(berth, tmp_path, form):
    digest = Made(CONTENT, [file("opt/more", "2")]).write(tmp_path / "layout", "stable")
    place = tmp_path / "given"
    skopeo("copy", "-q", f"oci:{tmp_path / 'layout'}:stable", f"{form}:{place}{':data/etl:stable' if 'docker' in form else ''}")
    row = take(berth, "data/etl:stable", place)
    if form != "docker-archive":  # which keeps neither manifest nor compression
        assert row["digest"] == digest
    assert take(berth, "data/etl:again", place)["digest"] == row["digest"], "the same archive, the same digest"
    check_content(root_of(berth, row["digest"]))
    skopeo("copy", "-q", f"oci:{store(berth)}:data/etl:stable", f"dir:{tmp_path / 'back'}")
    assert (tmp_path / "back" / "manifest.json").exists(), "the store is an OCI layout itself"


def test_layers_over_a_merged_usr(berth, tmp_path):
    """What tools make that write a layer's tar by themselves, over a Debian: lib/x where /lib is a link to usr/lib."""
    base = [folder("usr/lib"), link("lib", "usr/lib"), folder("usr/bin"), link("bin", "/usr/bin"), file("usr/bin/old", "1"), file("usr/bin/kept", "1")]
    added = [file("lib/new/x", "2"), file("bin/tool", "2", 0o755), hard("bin/same", "bin/kept"), file("bin/.wh.old")]
    write(Made(base, added, [folder("bin"), file("bin/own", "3")]), tmp_path / "image")
    place = root_of(berth, take(berth, "data/etl:1", tmp_path / "image")["digest"])
    assert os.readlink(place / "lib") == "usr/lib" and (place / "usr/lib/new/x").read_text() == "2"
    assert sorted(os.listdir(place / "usr/bin")) == ["kept", "same", "tool"]
    assert os.listdir(place / "bin") == ["own"], "a folder's own entry replaces the link, as with Docker"


def test_dockers_media_types(berth, tmp_path):
    image = images.Image("hi", types=images.DOCKER)
    images.write_folder(image, tmp_path / "given")
    row = take(berth, "a/b:1", tmp_path / "given")
    assert row["digest"] == image.digest and row["mediaType"] == images.DOCKER["manifest"]
    commands = [c for r in berth("image", "instructions", "a/b:1", "--json").expect(0).json()["recipes"] for c in r["commands"]]
    assert not any("docker://TARGET" in c for c in commands), "skopeo does not find Docker's manifests in an OCI layout"


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd", "gzip of two members"])
def test_compressions(berth, tmp_path, compression):
    made = Made(CONTENT, compress=False)
    tar = made.tars[0]
    if compression == "gzip":
        made.stored = [gzip.compress(tar)]
    elif compression == "gzip of two members":
        made.stored = [gzip.compress(tar[:700]) + gzip.compress(tar[700:])]
    elif compression == "zstd":
        if not shutil.which("zstd"):
            pytest.skip("no zstd here")
        made.stored = [subprocess.run(["zstd", "-q", "-c"], input=tar, capture_output=True, check=True).stdout]
        made.layer_type += "+zstd"
    check_content(root_of(berth, take(berth, "a/b:1", write(made, tmp_path / "l"))["digest"]))


def write(made, place, name=None):
    made.write(place, name)
    return place


def test_an_archive_that_is_compressed_as_a_whole(berth, tmp_path):
    digest = Made(CONTENT).write(tmp_path / "layout")
    layouts.archive(tmp_path / "layout", tmp_path / "image.tar")
    (tmp_path / "image.tar.gz").write_bytes(gzip.compress((tmp_path / "image.tar").read_bytes()))
    assert take(berth, "a/b", tmp_path / "image.tar.gz")["digest"] == digest
    assert list(json.loads((store(berth) / "index.json").read_text())["images"]) == ["a/b:latest"]


def test_a_docker_archive_as_older_dockers_wrote_them(berth, tmp_path):
    """The same layer twice, the second time as a link to the first."""
    layer = layouts.tar_of(CONTENT)
    config = {"os": "linux", "architecture": "amd64", "rootfs": {"diff_ids": [layouts.digest_of(layer)] * 2}}
    names = {"Config": "c.json", "RepoTags": ["data/etl:stable"], "Layers": ["one/layer.tar", "two/layer.tar"]}
    other = {**names, "RepoTags": None, "Layers": ["one/layer.tar"]}
    entries = [folder("one"), file("one/layer.tar", layer), folder("two"), link("two/layer.tar", "../one/layer.tar")]
    entries += [file("c.json", json.dumps(config)), file("manifest.json", json.dumps([names, other])), file("repositories", "{}")]
    (tmp_path / "image.tar").write_bytes(layouts.tar_of(entries))
    check_content(root_of(berth, take(berth, "data/etl:stable", tmp_path / "image.tar")["digest"]))
    assert '2 images ("data/etl:stable")' in berth("image", "import", "x/y:1", tmp_path / "image.tar").expect(1).err


def test_several_images_in_one_layout(berth, tmp_path):
    made = {name: Made([file("which", name)]) for name in ("one", "two")}
    descriptors = [made["one"].descriptor("one"), made["two"].descriptor("registry.example/a/b:two")]
    layouts.write_layout(tmp_path / "l", descriptors, {**made["one"].blobs, **made["two"].blobs})
    assert (root_of(berth, take(berth, "a/b:one", tmp_path / "l")["digest"]) / "which").read_text() == "one"
    assert (root_of(berth, take(berth, "a/b:two", tmp_path / "l")["digest"]) / "which").read_text() == "two"
    for name in ("a/b:three", "x/b:two"):
        result = berth("image", "import", name, tmp_path / "l").expect(1)
        assert '2 images ("one", "registry.example/a/b:two")' in result.err
    same = [made["one"].descriptor("1"), made["one"].descriptor("a/b:1")]
    layouts.write_layout(tmp_path / "same", same, made["one"].blobs)
    take(berth, "a/b:1", tmp_path / "same")


# --- what is not ---


def index_of(place, *mades):
    """As buildx writes without --provenance=false: one index in index.json."""
    blobs, entries = {}, []
    for made in mades:
        entry = made.descriptor()
        entry["platform"] = {"os": made.config["os"], "architecture": made.config["architecture"]}
        entries.append(entry)
        blobs.update(made.blobs)
    index = json.dumps({"schemaVersion": 2, "mediaType": layouts.INDEX, "manifests": entries}).encode()
    blobs[layouts.digest_of(index)] = index
    layouts.write_layout(place, [{"mediaType": layouts.INDEX, "digest": layouts.digest_of(index), "size": len(index)}], blobs)
    return place


def chart(place):
    made = Made([file("a", "x")])
    config = layouts.digest_of(json.dumps(made.config).encode())
    made.manifest_extra = {"config": {"mediaType": "application/vnd.cncf.helm.config.v1+json", "digest": config, "size": 1}}
    return write(made, place)


def huge(place):
    made = Made([file("a", "x")])
    made.manifest_extra = {"layers": [{"mediaType": made.layer_type, "digest": "sha256:" + "00" * 32, "size": 11 << 30}]}
    return write(made, place)


REFUSED = {
    "index": (lambda place: index_of(place, Made([file("a", "x")]), Made([file("a", "x")], arch="arm64")), "index", "linux/amd64, linux/arm64"),
    "arm64": (lambda place: write(Made([file("a", "x")], arch="arm64"), place), "platform", "linux/arm64"),
    "no platform": (lambda place: write(Made([file("a", "x")], arch=""), place), "platform", "no platform"),
    "a chart": (chart, "media-type", "helm"),
    "too large": (huge, "size", "10 GB"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_lambda_would_refuse_is_refused_here(berth, tmp_path, what):
    make, problem, words = REFUSED[what]
    place = make(tmp_path / "l")
    row = take(berth, "a/b:1", place, code=3)
    assert row["problem"] == problem and words in row["message"] and not row["usable"]
    assert "berth image import a/b:1 image.tar" in row["remedy"] and "--platform linux/amd64" in row["remedy"]
    text = berth("image", "import", "a/b:1", place).expect(3)
    assert f"unusable ({problem})" in text.out
    assert not (store(berth) / "index.json").exists() and blobs(berth) == [] and not list((store(berth) / "roots" / "sha256").iterdir())
    assert not list((store(berth) / "work").iterdir())


def test_the_one_for_this_platform_out_of_an_index(berth, tmp_path):
    """The remedy, tried."""
    index_of(tmp_path / "l", Made([file("a", "amd")]), Made([file("a", "arm")], arch="arm64"))
    layouts.archive(tmp_path / "l", tmp_path / "all.tar")
    remedy = take(berth, "a/b:1", tmp_path / "all.tar", code=3)["remedy"]
    command = next(line.split() for line in remedy.splitlines() if "skopeo copy" in line)
    skopeo(*[word.replace("PATH", str(tmp_path / "all.tar")).replace("image.tar", str(tmp_path / "image.tar")) for word in command[1:]])
    assert (root_of(berth, take(berth, "a/b:1", tmp_path / "image.tar")["digest"]) / "a").read_text() == "amd"


def test_words_that_are_wrong(berth, tmp_path):
    place = write(Made(CONTENT), tmp_path / "l")
    assert "no such file" in berth("image", "import", "a/b:1", tmp_path / "nowhere").expect(1).err.lower()
    assert "neither an OCI layout" in berth("image", "import", "a/b:1", tmp_path).expect(1).err
    assert "the path alone" in berth("image", "import", "a/b:1", f"oci:{place}:1").expect(1).err
    assert "skopeo copy" in berth("image", "import", "a/b:1", "docker://docker.io/library/python:3").expect(1).err
    for name in ("A/b:1", "a/b:", "../x:1", "a/b@sha256:" + "0" * 64, "a b:1", "/a:1", "a/b:../../x"):
        berth("image", "import", name, place).expect(1)
    assert "needs a name and an image" in berth("image", "import", "a/b:1").expect(1).err
    berth("image", "import").expect(1)
    berth("image", "improt").expect(1)
    assert not (store(berth) / "roots" / "sha256").exists() or not list((store(berth) / "roots" / "sha256").iterdir())
    assert "pushed" in berth("image", "import", "a/b:1", place, "--provider", "aws").err


# --- the list ---


def test_the_list_and_the_verdicts(berth, tmp_path):
    assert "no image" in berth("images").expect(0).err
    old = take(berth, "a/b:1", write(Made([file("a", "old")]), tmp_path / "old"))
    new = take(berth, "a/b:1", write(Made([file("a", "new")]), tmp_path / "new"))
    take(berth, "a/b:2", tmp_path / "new")
    rows = berth("images", "--json").expect(0).json()
    assert [(r["repository"], sorted(r["tags"]), r["digest"]) for r in rows] == [("-", [], old["digest"]), ("a/b", ["1", "2"], new["digest"])]
    assert all(r["usable"] and r["pushedAt"] and r["sizeBytes"] and r["platform"] == "linux/amd64" for r in rows)
    assert [r["digest"] for r in berth("images", "a/b", "--json").expect(0).json()] == [new["digest"]]
    assert "usable" in berth("images").expect(0).out
    berth("images", "c/d").expect(1)
    assert berth("image", "check", "a/b:1", "--json").expect(0).json()["digest"] == new["digest"]
    assert berth("image", "check", f"a/b@{old['digest']}", "--json").expect(0).json()["digest"] == old["digest"]
    missing = berth("image", "check", "a/b:3", "--json").expect(3).json()
    assert missing["problem"] == "missing" and "berth image import a/b:3 PATH" in missing["remedy"]
    (store(berth) / "blobs" / "sha256" / new["digest"].removeprefix("sha256:")).unlink()
    assert berth("image", "check", "a/b:1", "--json").expect(3).json()["problem"] == "unread"


def test_what_is_reclaimed_by_hand(berth, tmp_path):
    """docs/local.md: remove an image's root folder; the next import lets go of its name and of blobs that no other image has."""
    shared = [file("shared", "x" * 1000)]
    old = take(berth, "a/old:1", write(Made(shared, [file("a", "old")]), tmp_path / "old"))
    take(berth, "a/new:1", write(Made(shared, [file("a", "new")]), tmp_path / "new"))
    before = blobs(berth)
    shutil.rmtree(root_of(berth, old["digest"]))
    row = next(r for r in berth("images", "--json").expect(0).json() if r["repository"] == "a/old")
    assert row["problem"] == "missing"
    take(berth, "a/new:1", tmp_path / "new")
    assert len(before) == 7 and len(blobs(berth)) == 4, "the shared layer stays"
    assert list(json.loads((store(berth) / "index.json").read_text())["images"]) == ["a/new:1"]
    take(berth, "a/old:1", tmp_path / "old")
    assert (root_of(berth, old["digest"]) / "a").read_text() == "old" and blobs(berth) == before


# --- removing ---


def roots(berth):
    return sorted("sha256:" + p.name for p in (store(berth) / "roots" / "sha256").iterdir())


def names(berth):
    return json.loads((store(berth) / "index.json").read_text())["images"]


def test_a_name_goes_and_the_last_one_takes_the_image_with_it(berth, tmp_path):
    shared = [file("shared", "x" * 1000)]
    old = take(berth, "a/old:1", write(Made(shared, [file("a", "old")]), tmp_path / "old"))["digest"]
    new = take(berth, "a/new:1", write(Made(shared, [file("a", "new")]), tmp_path / "new"))["digest"]
    take(berth, "a/b", tmp_path / "old")
    row = berth("image", "remove", "a/old:1", "--json").expect(0).json()
    assert (row["repository"], row["tags"], row["digest"]) == ("a/old", ["1"], old) and "a/b:latest" in row["note"]
    assert roots(berth) == sorted([old, new]) and names(berth) == {"a/new:1": new, "a/b:latest": old}
    assert "removed: a/b:latest" in berth("image", "remove", "a/b").expect(0).out
    assert roots(berth) == [new] and names(berth) == {"a/new:1": new}
    assert len(blobs(berth)) == 4, "the shared layer stays"
    assert not list((store(berth) / "work").iterdir())
    take(berth, "a/old:1", tmp_path / "old")
    assert (root_of(berth, old) / "a").read_text() == "old"


def test_what_there_is_not_to_remove(berth, tmp_path):
    assert "berth images" in berth("image", "remove", "a/b:1").expect(1).err
    assert not store(berth).exists(), "asking makes no store"
    digest = take(berth, "a/b:1", write(Made(CONTENT), tmp_path / "l"))["digest"]
    assert "no image a/b:2" in berth("image", "remove", "a/b:2").expect(1).err
    for one in (digest, digest[:19], f"a/b@{digest}"):
        assert "is called a/b:1" in berth("image", "remove", one).expect(1).err
    assert "no image with a digest" in berth("image", "remove", "sha256:" + "0" * 64).expect(1).err
    assert "needs one image" in berth("image", "remove").expect(1).err
    assert "takes no image" in berth("image", "prune", "a/b:1").expect(1).err
    assert "REPOSITORY" in berth("image", "remove", "../x").expect(1).err
    assert "this machine" in berth("image", "remove", "a/b:1", "--provider", "aws").err
    assert names(berth) == {"a/b:1": digest}


def test_an_image_that_an_environment_runs_stays(berth, tmp_path):
    old = take(berth, "a/b:1", write(Made([file("a", "old")]), tmp_path / "old"))["digest"]
    berth.write("e.yaml", stacks.text(stacks.environment("own", image={"repository": "a/b", "tag": "1"})))
    berth.apply()
    refused = berth("image", "remove", "a/b:1").expect(3).err
    assert "image-in-use" in refused and "Environment/own" in refused
    assert names(berth) == {"a/b:1": old}
    new = take(berth, "a/b:1", write(Made([file("a", "new")]), tmp_path / "new"))["digest"]
    refused = berth("image", "remove", old[:19]).expect(3).err
    assert "Environment/own" in refused
    assert berth("image", "prune", "--yes", "--json").expect(0).json() == {"removed": True, "images": []}
    assert roots(berth) == sorted([old, new])
    (root(berth) / "environments" / "own.json").write_text("{")
    assert "in use" in berth("image", "remove", "a/b:1").expect(1).err, "what cannot be read might need it"
    (root(berth) / "environments" / "own.json").unlink()
    assert berth("image", "remove", old[:19]).expect(0).out.startswith("removed: - ")
    assert roots(berth) == [new]


def test_prune_removes_what_has_no_name_and_no_use(berth, tmp_path):
    digests = [take(berth, "a/b:1", write(Made([file("a", str(n))]), tmp_path / str(n)))["digest"] for n in range(3)]
    berth.write("e.yaml", stacks.text(stacks.environment("own", image={"repository": "a/b", "digest": digests[1]})))
    berth.apply()
    assert "Would remove 1 image," in berth("image", "prune").expect(0).out
    told = berth("image", "prune", "--json").expect(0).json()
    assert not told["removed"] and [r["digest"] for r in told["images"]] == [digests[0]]
    assert roots(berth) == sorted(digests)
    assert "Removed 1 image," in berth("image", "prune", "--yes").expect(0).out
    assert roots(berth) == sorted(digests[1:]) and names(berth) == {"a/b:1": digests[2]}
    assert "Nothing to remove" in berth("image", "prune", "--yes").expect(0).out


@pytest.mark.parametrize("moment", [0.002, 0.01, 0.03])
def test_death_while_an_image_is_removed(berth, tmp_path, moment):
    """Either it is there whole, or the next who comes removes the rest of it."""
    many = [entry for n in range(1000) for entry in (folder(f"d{n // 100}/{n}"), file(f"d{n // 100}/{n}/f", "x"))]
    made = Made(many)
    digest = take(berth, "a/b:1", write(made, tmp_path / "l"))["digest"]
    process = berth.popen("image", "remove", "a/b:1")
    time.sleep(moment)
    process.kill()
    process.communicate()
    if digest in roots(berth):
        assert len(list(root_of(berth, digest).glob("d*/*/f"))) == 1000
    else:
        assert names(berth) == {}
    assert take(berth, "a/c:1", tmp_path / "l")["digest"] == digest
    assert len(list(root_of(berth, digest).glob("d*/*/f"))) == 1000
    assert not list((store(berth) / "work").iterdir())


def test_a_blob_that_rotted_in_the_store_is_brought_anew(berth, tmp_path):
    made = Made(CONTENT)
    digest = take(berth, "a/b:1", write(made, tmp_path / "l"))["digest"]
    blob = store(berth) / "blobs" / "sha256" / layouts.digest_of(made.stored[0]).removeprefix("sha256:")
    blob.write_bytes(b"x" + blob.read_bytes()[1:])
    shutil.rmtree(root_of(berth, digest))
    take(berth, "a/b:1", tmp_path / "l")
    check_content(root_of(berth, digest))
    assert blob.read_bytes() == made.stored[0]


def test_instructions(berth):
    berth.write("e.yaml", stacks.text(stacks.environment("py"), stacks.environment("own", image={"repository": "data/etl", "tag": "stable"})))
    told = berth("image", "instructions", "--json").expect(0).json()
    assert {(i["repository"], i["tag"], i["exists"]) for i in told["images"]} == {("prebuilt/python", "latest", False), ("data/etl", "stable", False)}
    commands = [c for r in told["recipes"] for c in r["commands"]]
    assert not any("docker://TARGET" in c for c in commands), "there is nothing to push yet"
    for command in ("berth image build python", "berth image import data/etl:stable image.tar", "berth image import prebuilt/python:latest image.tar"):
        assert command in commands
    assert "data/x:3" in berth("image", "instructions", "data/x:3").expect(0).out


# --- environments ---


def own(**image):
    return stacks.text(stacks.environment("own", image={"repository": "data/etl", "tag": "stable", **image}))


def fields(plan):
    return [(c["address"], f["path"], f["after"]) for c in plan["changes"] for f in c["fields"]]


def test_pin_and_follow(berth, tmp_path):
    berth.write("e.yaml", own())
    warnings = berth.plan()["warnings"]
    assert len(warnings) == 1 and "berth image import data/etl:stable PATH" in warnings[0]
    berth.apply()
    one = take(berth, "data/etl:stable", write(Made([file("a", "one")]), tmp_path / "one"))["digest"]
    assert fields(berth.plan()) == [("Environment/own", "image.digest", one)]
    berth.apply()
    two = take(berth, "data/etl:stable", write(Made([file("a", "two")]), tmp_path / "two"))["digest"]
    assert berth.plan()["changes"] == [], "pinned to the digest of the first apply"
    berth.write("e.yaml", own(follow="tag"))
    assert ("Environment/own", "image.digest", two) in fields(berth.plan())
    berth.apply()
    assert json.loads((root(berth) / "environments" / "own.json").read_text())["spec"]["image"]["digest"] == two
    three = take(berth, "data/etl:stable", write(Made([file("a", "three")]), tmp_path / "three"))["digest"]
    assert fields(berth.plan()) == [("Environment/own", "image.digest", three)]
    berth.write("e.yaml", stacks.text(stacks.environment("own", image={"repository": "data/etl", "digest": one})))
    berth.apply()
    assert berth.plan()["changes"] == []


# --- two at once, death, a full disk ---


def big(place, name="big", size=30_000_000):
    made = Made([file(f"{name}-{i}", os.urandom(1 << 20)) for i in range(size >> 20)])
    made.write(place)
    return place


def test_two_imports_at_once(berth, tmp_path):
    shared = [file("shared", os.urandom(3_000_000))]
    places = [write(Made(shared, [file("which", str(i))]), tmp_path / str(i)) for i in range(6)]
    started = [
        subprocess.Popen([berth.binary, "image", "import", f"a/b:{i % 4}", place], cwd=berth.stack, env=berth.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for i, place in enumerate(places * 2)
    ]
    for process in started:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    rows = berth("images", "--json").expect(0).json()
    assert len({r["digest"] for r in rows}) == 6 and sorted(t for r in rows for t in r["tags"]) == ["0", "1", "2", "3"]
    assert all(r["usable"] for r in rows) and not list((store(berth) / "work").iterdir())


def heed_hangups():
    """Who runs the tests may ignore them."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def waits_for(pid, lock):
    """Or is about to, where only root may see what it has open: it heeds SIGINT from then on."""
    if os.geteuid() == 0:
        return any(os.path.samefile(name, lock) for name in Path(f"/proc/{pid}/fd").iterdir() if name.exists())
    caught = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)["SigCgt"]
    return int(caught, 16) >> (signal.SIGINT - 1) & 1 == 1


def test_waiting_for_the_store_ends_by_an_interrupt(berth, tmp_path):
    """Somebody may hold its lock for long: who was stopped, or writes to a slow disk."""
    take(berth, "a/small:1", write(Made(CONTENT), tmp_path / "small"))
    lock = store(berth) / "lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = subprocess.Popen([berth.binary, "image", "import", "a/small:2", tmp_path / "small"], cwd=berth.stack, env=berth.env, stderr=subprocess.PIPE)
        try:
            while process.poll() is None and not waits_for(process.pid, lock):
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            assert b"interrupted" in process.communicate(timeout=60)[1] and process.returncode == 1
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT, signal.SIGHUP])
def test_death_at_any_moment_leaves_nothing_that_is_trusted(berth, tmp_path, sent):
    digest = take(berth, "a/small:1", write(Made(CONTENT), tmp_path / "small"))["digest"]
    kept = blobs(berth)
    place = big(tmp_path / "big")
    interrupted = heeded = 0
    for delay in (0.02, 0.1, 0.2, 0.3, 0.5):
        process = subprocess.Popen([berth.binary, "image", "import", "a/big:1", place], cwd=berth.stack, env=berth.env, stderr=subprocess.PIPE, preexec_fn=heed_hangups)
        time.sleep(delay)
        process.send_signal(sent)
        process.communicate(timeout=60)
        if process.returncode == 0:
            break
        names = json.loads((store(berth) / "index.json").read_text())["images"]
        if "a/big:1" in names:  # it died after its work was done
            assert berth("image", "check", "a/big:1").code == 0
            break
        interrupted += 1
        assert list(names) == ["a/small:1"]
        if len(roots(berth)) > 1:  # it died after the image was in its place, whole, and before it had its name
            assert sent == signal.SIGKILL and berth("image", "check", f"a/big@{(set(roots(berth)) - {digest}).pop()}").code == 0
            break
        assert set(blobs(berth)) >= set(kept) if sent == signal.SIGKILL else blobs(berth) == kept
        heeded += process.returncode == 1
        if process.returncode == 1:
            assert not list((store(berth) / "work").iterdir()), "cleaned up behind itself"
    assert interrupted and (heeded or sent == signal.SIGKILL)
    take(berth, "a/big:1", place)
    assert not list((store(berth) / "work").iterdir()), "what the dead left is gone"
    assert berth("image", "check", "a/big:1").code == 0


def test_the_work_of_the_living_is_left_alone(berth, tmp_path):
    place = big(tmp_path / "big", size=60_000_000)
    process = subprocess.Popen([berth.binary, "image", "import", "a/big:1", place], cwd=berth.stack, env=berth.env, stderr=subprocess.PIPE)
    take(berth, "a/small:1", write(Made(CONTENT), tmp_path / "small"))
    assert process.wait(120) == 0, process.stderr.read()
    assert sorted(json.loads((store(berth) / "index.json").read_text())["images"]) == ["a/big:1", "a/small:1"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
@pytest.mark.parametrize("size", ["4m", "36m", "66m"])
def test_a_full_disk(berth, tmp_path, size):
    """Full while blobs are copied, while layers are unpacked, and just before the end."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", disk], check=True)
    try:
        berth.write("stack.yaml", stacks.text(stacks.document("Stack", "lab", {"provider": "local", "local": {"images": str(disk / "store")}})))
        take(berth, "a/small:1", write(Made(CONTENT), tmp_path / "small"))
        result = berth("image", "import", "a/big:1", big(tmp_path / "big"))
        if size != "66m":
            assert result.code == 1 and "No space left" in result.err
            names = json.loads((disk / "store" / "index.json").read_text())["images"]
            assert list(names) == ["a/small:1"] and not list((disk / "store" / "work").iterdir())
        take(berth, "a/small:2", tmp_path / "small")
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("damage", ["", "[]", '{"formatVersion": "9", "images": {}}'])
def test_a_damaged_index_is_not_written_over(berth, tmp_path, damage):
    place = write(Made(CONTENT), tmp_path / "l")
    take(berth, "a/b:1", place)
    (store(berth) / "index.json").write_text(damage)
    assert "index.json" in berth("image", "import", "a/b:2", place).expect(1).err
    assert (store(berth) / "index.json").read_text() == damage
    assert "index.json" in berth("images").expect(1).err


# --- code in an imported image ---


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    """Layouts of a small system: with Python and shell, with the shell alone, with nothing that runs."""
    base = tmp_path_factory.mktemp("system")
    env = {"PATH": "/opt/bin:/usr/bin", "LANG": "C", "COLOUR": "of the image", "SHAPE": "of the image", "AWS_REGION": "nowhere", "BERTH_X": "y", "HOME": "/root", "PYTHONPATH": "/opt/lib"}
    extra = [folder("opt/lib"), file("opt/lib/brought.py", "said = 'by the image'\n"), folder("opt/bin"), file("opt/bin/tool", "#!/bin/sh\necho a tool\n", 0o755)]
    extra += [file("etc/app.conf", "mine\n"), folder("var"), folder("var/lib"), file("var/lib/data", "kept\n"), file("file-in-root", "x")]
    return {
        "python": write(Made(layouts.system(), extra, env=env), base / "python"),
        "sh": write(Made(layouts.system(python=False)), base / "sh"),
        "nothing": write(Made([file("hello", "x")]), base / "nothing"),
        "homes": write(Made(layouts.system(python=False), [folder("home"), folder("home/app"), file("home/app/note", "of the image"), link("home/linked", "app"), folder("home/user")]), base / "homes"),
        "own home": write(Made(layouts.system(python=False), [folder("home"), folder("home/user"), file("home/user/note", "of the image")]), base / "own"),
        "linked home": write(Made(layouts.system(python=False), [folder("var"), folder("var/home"), file("var/home/note", "of the image"), link("home", "var/home")]), base / "linked"),
        "many homes": write(Made(layouts.system(python=False), [folder("home"), *(folder(f"home/{n}") for n in range(100))]), base / "many"),
        "half": write(Made([file("usr/bin/python3", "#!/nowhere\n", 0o755)]), base / "half"),
    }


@pytest.fixture
def run(berth, system):
    def do(kind, code, *args, variables=None, language="python"):
        take(berth, "data/etl:stable", system[kind])
        berth.write("e.yaml", stacks.text(stacks.environment("own", image={"repository": "data/etl", "tag": "stable"}, variables=variables or {})))
        berth.apply()
        return berth("exec", "--env", "own", "--accept-degraded", "--lang", language, "-c", code, *args)

    return do


def test_code_runs_in_the_image(run):
    code = """
import json, os, sys, brought
def write(path):
    try:
        open(path, "w").close()
        return "written"
    except OSError as error:
        return error.errno
print(json.dumps({
    "env": dict(os.environ), "top": sorted(os.listdir("/")), "release": open("/etc/os-release").read(), "said": brought.said,
    "conf": open("/etc/app.conf").read(), "data": open("/var/lib/data").read(), "executable": sys.executable,
    "user": __import__("pwd").getpwuid(os.getuid()).pw_name if "pwd" in sys.builtin_module_names else "agent",
    "host": os.path.exists("/usr/share/doc"), "tool": os.popen("tool").read(),
    "writes": {p: write(p) for p in ("/x", "/etc/x", "/usr/x", "/opt/x", "/var/x", "/var/lib/x", "/root/x", "/tmp/x", "/var/tmp/x", "/workspace/x", "/dev/shm/x")},
}))
"""
    told = json.loads(run("python", code, variables={"SHAPE": "of the environment"}).expect(0).out)
    assert told["env"]["COLOUR"] == "of the image" and told["env"]["SHAPE"] == "of the environment" and told["env"]["LANG"] == "C"
    assert told["env"]["PATH"] == "/opt/bin:/usr/bin" and told["env"]["HOME"] == "/workspace" and told["env"]["PYTHONPATH"] == "/workspace:/opt/lib"
    assert not [n for n in told["env"] if n.startswith(("AWS_", "BERTH_"))]
    assert told["release"] == "ID=imagined\n" and told["conf"] == "mine\n" and told["data"] == "kept\n" and told["said"] == "by the image"
    assert told["user"] == "agent" and told["tool"] == "a tool\n" and not told["host"], "nothing of the machine's own /usr"
    assert told["top"] == sorted(["bin", "dev", "etc", "file-in-root", "home", "lib", "lib64", "opt", "proc", "root", "run", "tmp", "usr", "var", "workspace"])
    writable = {p for p, answer in told["writes"].items() if answer == "written"}
    assert writable == {"/tmp/x", "/var/tmp/x", "/workspace/x", "/dev/shm/x"}
    assert all(answer in ("written", 13, 30) for answer in told["writes"].values())


@pytest.mark.parametrize("kind", ["sh", "homes", "of the machine"])
def test_home_user_is_the_workspace(run, berth, kind):
    """Models write that path. What else the image has in /home is there, too, and none of it can be changed."""
    code = "echo x > /home/user/made; cat /workspace/made; cd /home/user/. && touch here; ls /workspace; for path in /home/made /home/app/made; do touch $path; done; ls /home"
    if kind == "of the machine":
        berth.write("e.yaml", stacks.text(stacks.environment("own")))
        berth.apply()
        done = berth("exec", "--env", "own", "--accept-degraded", "--lang", "sh", "-c", code)
    else:
        done = run(kind, code + "; cat /home/linked/note" * (kind == "homes"), language="sh")
    assert done.expect(0).out == "x\nhere\nmade\n" + ("app\nlinked\nuser\nof the image" if kind == "homes" else "user\n")


@pytest.mark.parametrize("kind", ["own home", "linked home", "many homes"])
def test_a_home_that_is_the_images_own_stays_so(run, kind):
    code = {"own home": "cat /home/user/note", "linked home": "cat /home/note", "many homes": "[ ! -e /home/user ] && [ -d /home/99 ] && echo of the image"}[kind]
    assert run(kind, code, language="sh").expect(0).out.strip() == "of the image"


def test_mounts_name_no_folder_of_the_machine(berth, run):
    """The image store may lie in somebody's home."""
    told = run("python", "print(open('/proc/self/mountinfo').read())").expect(0).out
    assert " /opt " in told and str(berth.stack) not in told and "sha256" not in told
    assert {line.split(" - ")[1].split()[0] for line in told.splitlines() if " - " in line} <= {"tmpfs", "overlay", "proc", "devpts", "devtmpfs"}


def test_a_shell_without_python(run):
    assert "uid=1000(agent)" in run("sh", "id", language="sh").expect(0).out
    result = run("sh", "print(1)").expect(125)
    assert "the image data/etl:stable has no python3 in its PATH (/usr/local/bin:/usr/bin:/bin)" in result.err and "--lang sh" in result.err
    result = run("python", "print(1)", variables={"PATH": "/nowhere"}).expect(125)
    assert "no python3 in its PATH (/nowhere)" in result.err


def test_an_image_in_which_nothing_runs(run):
    assert "no sh in its PATH" in run("nothing", "id", language="sh").expect(125).err
    assert "no python3 in its PATH" in run("nothing", "1").expect(125).err


def test_a_program_without_what_starts_it(run):
    assert "has python3, but not what starts it" in run("half", "1").expect(125).err


def test_all_sandboxes_share_what_none_can_change(berth, run):
    run("python", "import os; os.system('touch /opt/note; rm -rf /opt /etc; chmod 777 /opt')")
    index = json.loads((store(berth) / "index.json").read_text())["images"]
    assert (root_of(berth, index["data/etl:stable"]) / "opt" / "bin" / "tool").exists()


def test_an_image_is_not_removed_under_a_run(berth, run):
    """By no environment of this stack's, even: another one may share the store."""
    run("python", "pass").expect(0)
    name, digest = next(iter(names(berth).items()))
    process = berth.popen("exec", "--env", "own", "--accept-degraded", "-c", "import time; print('on'); time.sleep(60)")
    try:
        assert process.stdout.readline() == b"on\n"
        for record in (root(berth) / "environments").iterdir():
            record.unlink()
        refused = berth("image", "remove", name).expect(3).err
        assert "image-in-use" in refused and "run" in refused
        assert root_of(berth, digest).exists() and name in names(berth)
    finally:
        process.terminate()
        process.communicate()
    berth("image", "remove", name).expect(0)
    assert not root_of(berth, digest).exists()


def test_a_prebuilt_image_takes_the_place_of_the_machines_own(berth, system):
    berth.write("e.yaml", stacks.text(stacks.environment("py")))
    berth.apply()
    shown = ("exec", "--env", "py", "--accept-degraded", "-c", "print(open('/etc/os-release').read())")
    assert "imagined" not in berth(*shown).expect(0).out
    digest = take(berth, "prebuilt/python:latest", system["python"])["digest"]
    assert fields(berth.plan()) == [("Environment/py", "image.digest", digest)]
    assert "imagined" not in berth(*shown).expect(0).out, "not before it is applied"
    berth.apply()
    assert "imagined" in berth(*shown).expect(0).out


def test_variables_that_code_never_gets_are_named(run, berth):
    result = run("python", "import os; print(sorted(os.environ))", variables={"AWS_THING": "x", "BERTH_THING": "y", "PLAIN": "z"}).expect(0)
    assert "AWS_" not in result.out and "BERTH_" not in result.out and "PLAIN" in result.out
    assert result.err.count("AWS_THING") == 1 and result.err.count("BERTH_THING") == 1
    told = berth("exec", "--env", "own", "--accept-degraded", "--json", "-c", "1").expect(0).json()
    assert sorted(told["sandbox"]["withheld"]) == ["AWS_THING", "BERTH_THING"]


@pytest.mark.skipif(os.uname().machine != "x86_64" or os.path.exists("/proc/sys/fs/binfmt_misc/qemu-x86_64"), reason="this machine is told to be another one")
def test_a_machine_that_images_are_not_for(run, berth):
    """It says so, and runs its own Python where that is all that was asked for."""
    run("python", "print(1)").expect(0)
    elsewhere = lambda *words: subprocess.run(["setarch", "i686", berth.binary, *words], cwd=berth.stack, env=berth.env, capture_output=True, text=True)  # noqa: E731
    done = elsewhere("exec", "--env", "own", "--accept-degraded", "-c", "print(1)")
    assert done.returncode == 125 and "the image data/etl:stable is for linux/amd64, and this machine is i686: " in done.stderr, done.stderr
    berth.write("e.yaml", stacks.text(stacks.environment("own")))
    berth.apply()
    done = elsewhere("exec", "--env", "own", "--accept-degraded", "-c", "print(1)")
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


# --- who reads them ---


def test_an_image_is_read_in_a_cage(berth, tmp_path):
    """While it is read: by a process that may call little, can gain nothing, and holds what it was given and no more."""
    Made([file("data", os.urandom(150 * 2**20))], compress=False).write(tmp_path / "image", "stable")
    process = berth.popen("image", "import", "data/etl:stable", tmp_path / "image")
    seen = {}
    while process.poll() is None:
        try:
            worker = int((Path("/proc") / str(process.pid) / f"task/{process.pid}/children").read_text().split()[0])
            status = dict(line.split(":\t", 1) for line in Path(f"/proc/{worker}/status").read_text().splitlines() if ":\t" in line)
            if b"image-worker" in Path(f"/proc/{worker}/cmdline").read_bytes() and status["Seccomp"] == "2":
                # What it has open only root may see: nobody else, its own user neither, looks into it.
                opened = [os.readlink(f) for f in Path(f"/proc/{worker}/fd").iterdir()] if os.geteuid() == 0 else []
                seen = {**status, "open": opened}
        except (OSError, IndexError, KeyError):
            continue
    assert process.returncode == 0, process.stderr.read()
    assert seen, "the worker was never seen in its cage"
    assert seen["NoNewPrivs"] == "1"
    # Nothing, or for root the one right to read, which Landlock bounds.
    assert int(seen["CapEff"], 16) in (0, 1 << 2, 1 << 1), seen["CapEff"]
    ours = (str(store(berth)), str(tmp_path / "image"), "pipe:", str(berth.folder))
    assert [where for where in seen["open"] if not where.startswith((*ours, "/usr/", "/dev/null", "anon_inode:[eventfd]"))] == []


def test_an_image_whose_reading_is_ended(berth, tmp_path):
    """The worker is killed: the import says so, and nothing of the image stays."""
    Made([file("data", os.urandom(150 * 2**20))], compress=False).write(tmp_path / "image", "stable")
    process = berth.popen("image", "import", "data/etl:stable", tmp_path / "image")
    killed = False
    while process.poll() is None and not killed:
        try:
            worker = int((Path("/proc") / str(process.pid) / f"task/{process.pid}/children").read_text().split()[0])
            if b"image-worker" in Path(f"/proc/{worker}/cmdline").read_bytes():
                os.kill(worker, signal.SIGKILL)
                killed = True
        except (OSError, IndexError):
            continue
    out, err = process.communicate(timeout=60)
    assert killed and process.returncode == 1 and b"image-worker, which reads it, was ended by signal 9" in err, (out, err)
    assert list((store(berth) / "work").iterdir()) == [] and blobs(berth) == []
