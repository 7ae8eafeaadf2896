# SPDX-License-Identifier: Apache-2.0
"""Hostile images: what `berth image import` is given never writes, nor reads, beyond the store, and what is refused says why.

Each test looks from outside: everything of the user's folder but the store is the same before and after.
"""

import hashlib
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import tarfile
import zlib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import layouts  # noqa: E402
from layouts import Made, entry, file, folder, hard, link, tar_of  # noqa: E402

UP = "../" * 12


class Place:
    """Where one test puts its image, and what must not change."""

    def __init__(self, box, name):
        self.box = box
        self.folder = box.folder / f"place-{name}"
        self.folder.mkdir()
        self.outside = self.folder / "outside"
        self.outside.mkdir()
        (self.outside / "secret").write_text("secret of the host")
        (self.outside / "secret").chmod(0o600)
        self.image = self.folder / "image"
        self.store = box.stack / ".berth" / "local" / "escape" / "images"

    def give(self):
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", "-h", f"{self.box.uid}:{self.box.uid}", self.folder], check=True)

    def seen(self):
        """Every file of the user's but those of the store: type, mode, links, size, time, content."""
        found = {}
        for path in sorted(self.box.folder.rglob("*")):
            if self.store in path.parents or path == self.store:
                continue
            status = path.lstat()
            content = ""
            if stat.S_ISREG(status.st_mode) and status.st_size < 1 << 20:
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            if stat.S_ISDIR(status.st_mode):  # what is new in it is seen by itself
                found[str(path)] = (status.st_mode, status.st_uid)
            else:
                found[str(path)] = (status.st_mode, status.st_uid, status.st_nlink, status.st_size, status.st_mtime_ns, content)
        return found

    def attempt(self, name="evil/image:1", path=None, code=None):
        self.give()
        before, tmp = self.seen(), set(os.listdir("/tmp"))
        done = self.box.berth("image", "import", name, path or self.image, "--json", timeout=300)
        assert self.seen() == before, "something beyond the store changed"
        assert not {n for n in set(os.listdir("/tmp")) - tmp if "evil" in n}
        assert not list((self.store / "work").iterdir()), "left in the work folder"
        if code is not None:
            assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    def refused(self, *words, path=None, code=1):
        """Refused with such words, and nothing of it is trusted: no name, no root, no blob."""
        before = self.inventory()
        done = self.attempt(path=path, code=code)
        text = done.stderr.decode() + done.stdout.decode()
        for word in words:
            assert word in text, text
        assert self.inventory() == before
        return text

    def inventory(self):
        index = self.store / "index.json"
        names = json.loads(index.read_text())["images"] if index.exists() else {}
        return names, *(sorted(p.name for p in (self.store / kind / "sha256").glob("*")) for kind in ("roots", "blobs"))

    def taken(self):
        """Imported; its root folder."""
        done = self.attempt(code=0)
        self.row = json.loads(done.stdout)
        return self.store / "roots" / "sha256" / self.row["digest"].removeprefix("sha256:")


@pytest.fixture(params=["root", "ordinary"])
def box(request, boxes):
    """What imports is the user's own Berth: a launcher has no part in it, but where the image runs."""
    return boxes(request.param)


@pytest.fixture
def place(box, request):
    count = box.__dict__.setdefault("places", 0)
    box.places = count + 1
    made = Place(box, box.places)
    yield made
    shutil.rmtree(made.folder)  # or every later test looks at all of it, twice for each image


def write(place, *layers, **more):
    made = Made(*layers, **more)
    made.write(place.image)
    return made


# --- names ---

NAMES = {
    "upwards": [file("../evil", "x")],
    "upwards, far": [file(UP + "tmp/berth-evil", "x")],
    "upwards after a folder": [folder("a"), file("a/../../evil", "x")],
    "upwards at the end": [folder("a/..")],
    "upwards, of a folder": [folder("..", 0o777)],
    "upwards behind dots": [file("./.././evil", "x")],
    "absolute": [file("/tmp/berth-evil", "x")],
    "absolute, of a folder": [folder("/tmp/berth-evil")],
    "absolute, two slashes": [file("//tmp/berth-evil", "x")],
}


@pytest.mark.parametrize("name", NAMES)
def test_names_that_lead_out(place, name):
    write(place, NAMES[name])
    place.refused("layer 1 of 1 (sha256:", 'entry "', "its path")


def test_a_symbolic_link_by_an_upward_or_absolute_name(place):
    write(place, [link("../evil", "/etc")])
    place.refused("its path leads upwards")


LONG = {
    "a long part": ([file("a" * 256, "x")], "longer than 255"),
    "a long path": ([file("/".join(["b" * 200] * 25), "x")], "longer than 4000"),
    "a deep path": ([file("/".join(["c"] * 150), "x")], "more than 100 parts"),
}


@pytest.mark.parametrize("name", LONG)
def test_names_beyond_limits(place, name):
    entries, words = LONG[name]
    write(place, entries)
    place.refused(words)


def test_names_of_any_bytes_are_taken_as_they_are_and_shown_safely(place):
    strange = "e\x1b[31m\udcff\n"
    write(place, tar_of([file(strange, "x"), file("ok", "y")], tarfile.GNU_FORMAT))
    root = place.taken()
    assert sorted(os.listdir(os.fsencode(root))) == [b"e\x1b[31m\xff\n", b"etc", b"ok", b"var"]
    write(place, tar_of([file("../" + strange, "x")], tarfile.GNU_FORMAT))
    text = place.refused("its path leads upwards")
    assert "\x1b" not in text and "\\x1B" in text


# --- links ---


def link_attacks(outside):
    """Entries, and where in the image the last one is, as the image's own programs would see it; None: it is refused."""
    return {
        "one hop": ([link("d", outside), file("d/evil", "x")], None),
        "one hop, relative": ([link("d", UP + outside.lstrip("/")), file("d/evil", "x")], None),
        "two hops": ([folder("a"), link("a/here", "."), link("a/here/up", ".."), file("a/here/up/up/evil", "x")], "up/evil"),
        "two hops, each harmless by itself": ([link("x", "."), link("x/y", ".."), file("x/y/evil", "x")], "evil"),
        "links to links": ([link("l1", "l2"), link("l2", outside), file("l1/evil", "x")], None),
        "to the root": ([link("r", "/"), file(f"r{outside}/evil", "x")], f".{outside}/evil"),
        "upwards from the root": ([link("u", UP + "tmp"), folder("tmp"), file("u/evil", "x")], "tmp/evil"),
        "upwards through a link": ([folder("a/b"), link("c", "a/b"), link("e", "c/../../../.."), file("e/evil", "x")], "evil"),
        "through /proc": ([link("p", "/proc/self/cwd"), file("p/evil", "x")], None),
        "through /proc of the image": ([folder("proc/self"), link("proc/self/cwd", outside), file("proc/self/cwd/evil", "x")], None),
        "a folder through it": ([link("d", outside), folder("d/evil")], None),
        "a link through it": ([link("d", outside), link("d/evil", "x")], None),
        "a hard link through it": ([file("f", "x"), link("d", outside), hard("d/evil", "f")], None),
        "in a circle": ([link("a", "b"), link("b", "a"), file("a/evil", "x")], None),
        "to itself": ([link("a", "a/a"), file("a/evil", "x")], None),
        "to a file": ([file("f", "x"), link("a", "f"), file("a/evil", "x")], None),
        "into what is missing": ([link("a", "b"), file("a/evil", "x")], None),
    }


@pytest.mark.parametrize("attack", link_attacks(""))
@pytest.mark.parametrize("layers", ["one layer", "two layers"])
def test_links_on_the_way_lead_nowhere_but_into_the_image(place, attack, layers):
    entries, where = link_attacks(str(place.outside))[attack]
    write(place, *([entries] if layers == "one layer" else [entries[:-1], entries[-1:]]))
    if where is None:
        place.refused("it stands in what is no folder" if attack == "to a file" else "it stands behind")
        return
    root = place.taken()
    found = [p.relative_to(root) for p in root.rglob("evil")]
    assert found == [Path(where)] and (root / where).read_text() == "x"


def test_whiteouts_and_hard_links_behind_links_mean_the_image_s_own(place):
    outside = str(place.outside)
    here = outside.lstrip("/")
    write(
        place,
        [folder("a"), link("d", outside), file("a/file", "x"), link("away", "/a"), folder("empty"), link("e", UP + "empty"), file("empty/old", "x")],
        [file("d/.wh.secret"), file("d/.wh..wh..opq"), file("e/.wh..wh..opq"), file("e/new", "x"), hard("linked", "away/file")],
        [file(f"{here}/secret", "the image's own"), file("away/.wh.file")],
        [hard("taken", "d/secret"), file("d/.wh.secret")],
    )  # fmt: skip
    place.refused('layer 4 of 4', 'entry "taken"', "is not there")
    write(
        place,
        [folder("a"), link("d", outside), file("a/file", "x"), link("away", "/a"), folder("empty"), link("e", UP + "empty"), file("empty/old", "x")],
        [file("d/.wh.secret"), file("d/.wh..wh..opq"), file("e/.wh..wh..opq"), file("e/new", "x"), hard("linked", "away/file")],
        [file(f"{here}/secret", "the image's own"), file("away/.wh.file")],
        [hard("taken", "d/secret")],
    )  # fmt: skip
    root = place.taken()
    assert (root / "linked").read_text() == "x" and not (root / "a/file").exists()
    assert os.listdir(root / "empty") == ["new"] and (root / "e").is_symlink()
    assert (root / "taken").read_text() == "the image's own"


def test_links_do_not_lead_deeper_than_names_may(place):
    deep = "/".join(["d"] * 98)
    write(place, [folder(deep), link("l", deep), file("l/ok", "x"), file("l/e/ok", "x")])
    root = place.taken()
    assert (root / deep / "e" / "ok").exists()
    for last in (file("l/e/f/evil", "x"), folder("l/e/f/g/h"), file("l/e/" + "d/" * 50 + "evil", "x")):
        write(place, [folder(deep), link("l", deep), folder("l/e")], [last])
        place.refused("too deep")
    write(place, [folder(deep), link("l", deep), folder("l/e"), link("m", "l/e"), folder("m/f")], [file("m/f/evil", "x")])
    place.refused("too deep")


def test_a_file_over_a_link_replaces_the_link(place):
    secret = str(place.outside / "secret")
    write(place, [link("f", secret), file("f", "mine"), link("d", str(place.outside)), folder("d"), file("d/inside", "x")], [link("g", secret)], [file("g", "mine")])
    root = place.taken()
    assert (root / "f").read_text() == (root / "g").read_text() == "mine" and not (root / "f").is_symlink()
    assert (root / "d").is_dir() and not (root / "d").is_symlink() and (root / "d" / "inside").exists()


def hard_attacks(outside):
    return {
        "upwards": [hard("h", UP + outside.lstrip("/") + "/secret")],
        "absolute": [hard("h", outside + "/secret")],
        "through a link": [link("d", outside), hard("h", "d/secret")],
        "to a folder": [folder("a"), hard("h", "a")],
        "to nothing": [hard("h", "nothing")],
        "to the root": [hard("h", ".")],
        "to a whiteout": [hard("h", ".wh.x")],
    }


@pytest.mark.parametrize("attack", hard_attacks(""))
def test_hard_links_lead_to_files_of_the_image_only(place, attack):
    write(place, hard_attacks(str(place.outside))[attack])
    place.refused('entry "h"', "hard link")
    assert (place.outside / "secret").stat().st_nlink == 1


def test_a_hard_link_to_a_link_is_a_link_and_is_not_written_through(place):
    secret = str(place.outside / "secret")
    write(place, [link("l", secret), hard("h", "l"), file("h", "mine")])
    root = place.taken()
    assert os.readlink(root / "l") == secret and (root / "h").read_text() == "mine"


def test_a_hard_link_is_not_written_through(place):
    write(place, [file("a", "one"), hard("b", "a"), hard("b", "b"), hard("a", "b")], [file("b", "two")])
    root = place.taken()
    assert (root / "a").read_text() == "one" and (root / "b").read_text() == "two"


# --- what is left out ---


def test_rights_devices_and_special_files_are_left_out_and_counted(place):
    capability = "\x01\x00\x00\x02" + "\x00" * 16
    write(
        place,
        [
            file("setuid", "x", 0o4755), file("setgid", "x", 0o2755), file("sticky", "x", 0o1644), file("plain", "x", 0o755),
            file("able", "x", 0o755, pax_headers={"SCHILY.xattr.security.capability": capability, "SCHILY.xattr.user.note": "n"}),
            entry("null", tarfile.CHRTYPE, devmajor=1, devminor=3), entry("disk", tarfile.BLKTYPE, devmajor=8, devminor=0),
            entry("fifo", tarfile.FIFOTYPE), folder("shared", 0o3777), file("owned", "x", uid=12345, gid=12345, uname="root"),
        ],
    )  # fmt: skip
    root = place.taken()
    assert place.row["note"] == "left out: 3 files' set-uid, set-gid or sticky bits, 1 file's capabilities, 2 devices, 1 FIFO or socket"
    assert sorted(os.listdir(root)) == ["able", "etc", "owned", "plain", "setgid", "setuid", "shared", "sticky", "var"]
    for path in root.rglob("*"):
        status = path.lstat()
        assert stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
        assert status.st_mode & 0o7000 == 0 and status.st_uid == place.box.uid and not os.listxattr(path), path
    assert stat.S_IMODE((root / "setuid").lstat().st_mode) == 0o755


# --- whiteouts ---


@pytest.mark.parametrize("name", [".wh.", ".wh..", ".wh...", "a/.wh...", ".wh.x/y"])
def test_whiteouts_of_no_file(place, name):
    write(place, [folder("a"), file("a/b", "x")], [file(name)])
    place.refused("layer 2 of 2", "whiteout")


def test_whiteouts_take_away_what_is_below_and_nothing_else(place):
    write(
        place,
        [folder("a"), file("a/old", "1"), file("a/kept", "1"), folder("b"), file("b/x", "1"), folder("b/deep/er"), link("l", str(place.outside)), file("t", "1")],
        [file("a/new", "2"), file("a/.wh.old"), file("a/.wh.new"), file("b/y", "2"), file("b/.wh..wh..opq"), file(".wh.l"), file(".wh.nothing"), file("no/such/.wh.x"), file(".wh..wh.plnk/1.2")],
        [file(".wh.t"), folder("t"), file("t/in", "3")],
    )
    root = place.taken()
    assert sorted(os.listdir(root / "a")) == ["kept", "new"], "a whiteout hides what is below it, not its own layer"
    assert sorted(os.listdir(root / "b")) == ["y"] and (root / "t" / "in").exists()
    assert not os.path.lexists(root / "l") and not any(p.name.startswith(".wh.") for p in root.rglob("*"))


# --- entries that contradict each other ---


def test_the_same_name_twice_the_last_one_wins(place):
    write(
        place,
        [
            file("a", "one"), file("a", "two"), file("b", "x"), folder("b"), file("b/in", "x"), folder("c"), file("c/in", "x"), file("c", "file"),
            file("d/e", "x"), link("d", "nowhere"), folder("./"), folder("."), file("./f", "x"), file("g//h", "x"), file("D", "upper"),
        ],
    )  # fmt: skip
    root = place.taken()
    assert (root / "a").read_text() == "two" and (root / "b" / "in").exists() and (root / "c").read_text() == "file"
    assert os.readlink(root / "d") == "nowhere" and (root / "f").exists() and (root / "g" / "h").exists() and (root / "D").exists()


def test_a_file_below_a_file(place):
    write(place, [file("a", "x"), file("a/b", "x")])
    place.refused('entry "a/b"', "no folder")


@pytest.mark.parametrize("name", [".", "./"])
def test_a_root_that_is_no_folder(place, name):
    write(place, [link(name, str(place.outside)), file("evil", "x")])
    place.refused("root folder")


# --- what is not what it says ---


def tampered(change):
    def make(place):
        made = Made([file("a", "x" * 5000)])
        descriptor = made.descriptor()
        change(made, descriptor)
        layouts.write_layout(place.image, [descriptor], made.blobs)

    return make


def flip(made, which):
    data = bytearray(made.blobs[which])
    data[len(data) // 2] ^= 1
    made.blobs[which] = bytes(data)


def _layer(made):
    return layouts.digest_of(made.stored[0])


def _config(made):
    return next(d for d, data in made.blobs.items() if b"diff_ids" in data)


def resized(amount):
    def make(place):
        made = Made([file("a", "x" * 5000)])
        layer = _layer(made)
        layers = [{"mediaType": made.layer_type, "digest": layer, "size": len(made.stored[0]) + amount}]
        made.manifest_extra = {"layers": layers}
        made.write(place.image)

    return make


def other_diff_id(place):
    made = Made([file("a", "x")])
    made.config["rootfs"]["diff_ids"] = ["sha256:" + "ab" * 32]
    made.write(place.image)


def fewer_diff_ids(place):
    made = Made([file("a", "x")], [file("b", "x")])
    made.config["rootfs"]["diff_ids"].pop()
    made.write(place.image)


def cut_gzip(place):
    """Digest and size are right: it is the gzip that ends too early."""
    made = Made([file("a", os.urandom(100000))])
    made.stored = [made.stored[0][:-5000]]
    made.write(place.image)


def cut_tar(place):
    tar = tar_of([file("a", os.urandom(100000))])
    Made(tar[: 512 + 5000], compress=False).write(place.image)


def no_tar(place):
    Made(b"this is no tar at all" * 100).write(place.image)


def named(digest):
    def make(place):
        made = Made([file("a", "x")])
        made.manifest_extra = {"layers": [{"mediaType": made.layer_type, "digest": digest, "size": 10}]}
        made.write(place.image)

    return make


TAMPERED = {
    "a layer": (tampered(lambda made, _: flip(made, _layer(made))), "its bytes do not match its digest"),
    "the configuration": (tampered(lambda made, _: flip(made, _config(made))), "configuration: its bytes do not"),
    "the manifest": (tampered(lambda made, descriptor: flip(made, descriptor["digest"])), "its manifest has the digest "),
    "the manifest's size": (tampered(lambda made, descriptor: descriptor.update(size=7)), "index.json says 7"),
    "a layer longer than said": (resized(-1), "longer than its declared size"),
    "a layer shorter than said": (resized(1), "cut short"),
    "a negative size": (resized(-(1 << 40)), "a size of"),
    "a size beyond all": (resized(1 << 62), "Lambda takes at most 10 GB"),
    "a diff_id": (other_diff_id, "diff_id"),
    "too few diff_ids": (fewer_diff_ids, "its configuration speaks of 1 layers"),
    "a gzip cut short": (cut_gzip, "truncated gzip"),
    "a tar cut short": (cut_tar, "runcated"),
    "no tar": (no_tar, "nrecognized archive format"),
    "a digest that is a path": (named("sha256:../../../../outside/secret"), "no digest"),
    "a digest of another kind": (named("sha512:" + "ab" * 64), "no digest of SHA-256"),
    "a digest that is not there": (named("sha256:" + "00" * 32), "it is not there"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_what_is_not_what_it_says(place, what):
    make, words = TAMPERED[what]
    make(place)
    place.refused(words, code=3 if "beyond all" in what else 1)


JSONS = {
    "index.json, huge": ("index.json", b" " * (5 << 20), "more than"),
    "index.json, nested": ("index.json", b"[" * 100000, "no JSON"),
    "index.json, twice": ("index.json", b'{"manifests": [], "manifests": []}', "no JSON"),
    "index.json, empty": ("index.json", b'{"manifests": []}', "no image"),
    "index.json, a list": ("index.json", b"[]", "no image"),
    "index.json, numbers": ("index.json", b'{"manifests": [1]}', "no digest"),
    "oci-layout, of tomorrow": ("oci-layout", b'{"imageLayoutVersion": "2.0.0"}', "another version"),
    "oci-layout, huge": ("oci-layout", b" " * (5 << 20), "more than"),
}


@pytest.mark.parametrize("what", JSONS)
def test_documents_that_no_tool_writes(place, what):
    name, data, words = JSONS[what]
    write(place, [file("a", "x")])
    (place.image / name).write_bytes(data)
    place.refused(words)


def test_a_manifest_and_a_configuration_beyond_all_size(place):
    made = Made([file("a", "x")])
    made.manifest_extra = {"annotations": {"x": "y" * (5 << 20)}}
    made.write(place.image)
    place.refused("more than 4194304 bytes")
    made = Made([file("a", "x")])
    made.config["history"] = ["y" * (5 << 20)]
    made.write(place.image)
    place.refused("configuration", "at most 4194304")


# --- floods ---


def header(name, kind, size=0):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def test_a_file_that_says_to_be_larger_than_all(place):
    for size, words in ((5 << 30, "more than 4294967296 bytes"), (1 << 60, "more than 4294967296 bytes")):
        write(place, header("bomb", tarfile.REGTYPE, size) + b"\0" * 10240)
        place.refused('entry "bomb"', words)


def test_files_with_holes_count_with_their_holes(place):
    holes = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "hole", "GNU.sparse.realsize": str(1 << 40)}
    write(place, [file("hole", b"0\n".ljust(512, b"\0"), pax_headers=holes)])
    place.refused('entry "hole"', "more than")


def test_a_million_entries(place):
    block = header("d", tarfile.CHRTYPE) * 1000
    deflate = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = deflate.compress(block) + deflate.flush(zlib.Z_FULL_FLUSH)  # of itself alone: it can be said again and again
    checksum = 0
    for _ in range(1000):
        checksum = zlib.crc32(block, checksum)
    made = Made([])
    made.stored = [b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + packed * 1000 + deflate.flush() + struct.pack("<II", checksum, 1000 * len(block))]
    made.write(place.image)
    place.refused("more than 500000 entries")


def test_a_root_folder_of_thousands(place):
    write(place, [file(f"f{i}", "x") for i in range(3000)])
    place.refused("its root folder has 3002 entries")


def test_more_layers_than_anybody_has(place):
    write(place, *[[file("a", "x")]] * 128)
    place.refused("it has 128 layers")


# --- the archive around it, and the folder ---


def outer(place, entries):
    path = place.folder / "image.tar"
    path.write_bytes(tar_of(entries))
    return path


def test_archives_that_lead_out(place):
    evil = {
        "upwards": [file("../evil", "x")],
        "absolute": [file("/tmp/berth-evil", "x")],
        "through a link": [link("blobs", str(place.outside)), file("blobs/evil", "x")],
        "a hard link": [hard("index.json", str(place.outside / "secret"))],
    }
    for entries in evil.values():
        place.refused("entry", path=outer(place, entries))


def test_blobs_that_are_links_out_are_not_read(place):
    secret = place.outside / "secret"
    data = secret.read_bytes()
    made = Made([file("a", "x")])
    made.manifest_extra = {"layers": [{"mediaType": made.layer_type, "digest": layouts.digest_of(data), "size": len(data)}]}
    made.write(place.image)
    blob = place.image / "blobs" / "sha256" / layouts.digest_of(data).removeprefix("sha256:")
    for target in (str(secret), "../../../outside/secret", "/proc/self/environ"):
        blob.unlink(missing_ok=True)
        blob.symlink_to(target)
        place.refused("leads out")
        archive = place.folder / "linked.tar"
        layouts.archive(place.image, archive)
        place.refused("leads out", path=archive)


@pytest.mark.parametrize("kind", ["fifo", "folder", "socket"])
def test_blobs_that_are_no_files(place, kind):
    made = write(place, [file("a", "x")])
    blob = place.image / "blobs" / "sha256" / _layer(made).removeprefix("sha256:")
    blob.unlink()
    if kind == "fifo":
        os.mkfifo(blob)
    elif kind == "folder":
        blob.mkdir()
    else:
        import socket

        with socket.socket(socket.AF_UNIX) as made_socket:
            here = os.open(blob.parent, os.O_RDONLY)
            try:
                made_socket.bind(f"/proc/self/fd/{here}/{blob.name}")
            finally:
                os.close(here)
    place.refused("layer 1 of 1", "cannot be read")


def test_a_docker_archive_that_names_files_outside(place):
    config = json.dumps({"os": "linux", "architecture": "amd64", "rootfs": {"diff_ids": []}}).encode()
    for layer in (str(place.outside / "secret"), "../outside/secret", UP + "etc/passwd"):
        path = outer(place, [file("manifest.json", json.dumps([{"Config": "c", "Layers": [layer]}])), file("c", config)])
        place.refused("leads out", path=path)


@pytest.mark.parametrize("data", [b"", b"x", os.urandom(5000), b"\x1f\x8b" + b"\0" * 100, b"\x28\xb5\x2f\xfd" + b"\xff" * 100])
def test_files_that_are_no_archive(place, data):
    path = place.folder / "image.tar"
    path.write_bytes(data)
    place.refused(str(path), path=path)


# --- links where the sandbox mounts ---

COVERED = ["proc", "dev", "tmp", "run", "sys", "workspace", "etc", "var", "etc/passwd", "etc/group", "etc/hosts", "var/tmp"]

LOOK = """
import json, os
def content(path):
    try:
        return open(path).read()
    except OSError as error:
        return error.errno
mounts = [line.split()[4] for line in open("/proc/self/mountinfo")]
open("/workspace/mine", "w").write("x")
open("/tmp/mine", "w").write("x")
print(json.dumps({"mounts": mounts, "secret": content(%r), "listed": os.listdir("/workspace"), "cwd": os.getcwd()}))
"""

USABLE = ("/proc", "/dev", "/tmp", "/workspace", "/usr", "/etc", "/var", "/opt", "/root")


@pytest.mark.parametrize("box", ["root", "ordinary", "launched"], indirect=True)
@pytest.mark.parametrize("kind", ["absolute", "relative", "file"])
def test_links_where_the_sandbox_mounts(place, kind, system_entries):
    """The image has links, out of it, at every place that something is mounted over: nothing is mounted over their ends."""
    traps = []
    for name in COVERED:
        if kind == "file" and name in ("etc", "var"):
            continue
        target = str(place.outside) if "/" not in name else str(place.outside / "secret")
        parent = name.split("/")[0]
        if name != parent and kind != "file":
            continue  # these two are links already: what is below them is a case of its own
        traps.append(file(name, "trap") if kind == "file" and "/" not in name else link(name, target if kind == "absolute" else UP + target.lstrip("/")))
    base = [(info, data) for info, data in system_entries if info.name.split("/")[0] not in ("etc", "tmp", "var")]
    base = [(info, data) for info, data in base if info.name != "usr/bin/python3"] + [link("usr/bin/python3", "python3.real")]
    real = next((info, data) for info, data in system_entries if info.name.startswith("usr/bin/python3."))
    write(place, [*base, file("usr/bin/python3.real", real[1], 0o755)], traps)
    place.attempt("evil/traps:1", code=0)
    name = f"traps-{kind}"
    environment = {"apiVersion": "berth/v1", "kind": "Environment", "metadata": {"name": name}}
    environment["spec"] = {"image": {"repository": "evil/traps", "tag": "1"}}
    (place.box.stack / f"{name}.yaml").write_text(json.dumps(environment))
    place.give()
    place.box.berth("apply", "--yes", "-q", check=True)
    before = place.seen()
    degraded = ["--accept-degraded"] if place.box.user == "ordinary" else []
    done = place.box.berth("exec", "--env", name, "--json", *degraded, "-c", LOOK % str(place.outside / "secret"))
    (place.box.stack / f"{name}.yaml").unlink()
    result = json.loads(done.stdout)
    assert result["exitCode"] == 0, result["stderr"]["content"]
    told = json.loads(result["stdout"]["content"])
    assert told["listed"] == ["mine"] and told["cwd"] == "/workspace"
    assert isinstance(told["secret"], int), "the host's file was read"
    assert all(m == "/" or m.startswith(USABLE) for m in told["mounts"]), told["mounts"]
    after = place.seen()
    ours = str(place.box.stack)
    assert {p: v for p, v in after.items() if not p.startswith(ours)} == {p: v for p, v in before.items() if not p.startswith(ours)}


@pytest.fixture(scope="module")
def system_entries():
    return layouts.system()
