# SPDX-License-Identifier: Apache-2.0
"""Images made by hand, entry by entry, so that each can be wrong where a test wants it: layers, configuration, layout."""

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
INDEX = "application/vnd.oci.image.index.v1+json"


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


# --- entries of a layer: (TarInfo, bytes) ---


def entry(name, kind=tarfile.REGTYPE, data=b"", mode=0o644, link="", mtime=1_600_000_000, **more):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname, info.mtime, info.size = kind, mode, link, mtime, len(data)
    for field, value in more.items():
        setattr(info, field, value)
    return info, data


def file(name, data=b"", mode=0o644, **more):
    return entry(name, tarfile.REGTYPE, data if isinstance(data, bytes) else data.encode(), mode, **more)


def folder(name, mode=0o755, **more):
    return entry(name, tarfile.DIRTYPE, b"", mode, **more)


def link(name, target, **more):
    return entry(name, tarfile.SYMTYPE, b"", 0o777, target, **more)


def hard(name, target, **more):
    return entry(name, tarfile.LNKTYPE, b"", 0o644, target, **more)


def tar_of(entries, format=tarfile.PAX_FORMAT):
    """The tar's bytes; `entries` may be bytes already."""
    if isinstance(entries, bytes):
        return entries
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data) if data else None)
    return out.getvalue()


# --- an image ---


class Made:
    """`layers`: lists of entries, lowest first. Everything can be changed before it is written."""

    def __init__(self, *layers, env=None, arch="amd64", os="linux", compress=True, config=None):
        self.tars = [tar_of(layer) for layer in layers]
        self.stored = [gzip.compress(tar, 1, mtime=0) if compress else tar for tar in self.tars]
        self.layer_type = LAYER + ("+gzip" if compress else "")
        self.config = {
            "architecture": arch,
            "os": os,
            "config": {"Env": [f"{name}={text}" for name, text in (env or {}).items()], **(config or {})},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(tar) for tar in self.tars]},
        }
        self.blobs = {}
        self.manifest_extra = {}

    def manifest(self):
        config = json.dumps(self.config).encode()
        self.blobs[digest_of(config)] = config
        layers = []
        for stored in self.stored:
            self.blobs[digest_of(stored)] = stored
            layers.append({"mediaType": self.layer_type, "digest": digest_of(stored), "size": len(stored)})
        return {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": digest_of(config), "size": len(config)},
            "layers": layers,
            **self.manifest_extra,
        }

    def descriptor(self, name=None):
        manifest = json.dumps(self.manifest()).encode()
        self.blobs[digest_of(manifest)] = manifest
        found = {"mediaType": MANIFEST, "digest": digest_of(manifest), "size": len(manifest)}
        return {**found, "annotations": {"org.opencontainers.image.ref.name": name}} if name else found

    def write(self, place, name=None):
        """An OCI layout; the image's digest."""
        descriptor = self.descriptor(name)
        write_layout(place, [descriptor], self.blobs)
        return descriptor["digest"]


def write_layout(place, descriptors, blobs):
    place = Path(place)
    (place / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
    for digest, data in blobs.items():
        (place / "blobs" / "sha256" / digest.removeprefix("sha256:")).write_bytes(data)
    (place / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (place / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": descriptors}))


def archive(place, path):
    """The layout as one file, as skopeo's oci-archive: has it."""
    with tarfile.open(path, "w") as tar:
        for found in sorted(Path(place).rglob("*")):
            tar.add(found, str(found.relative_to(place)), recursive=False)


# --- a system that runs: of this machine's own files ---

_MODULES = """
import json, os, sys, re, io, time, socket, errno, subprocess, encodings.utf_8, encodings.ascii, encodings.latin_1
for module in list(sys.modules.values()):
    if getattr(module, "__file__", None):
        print(module.__file__)
"""


def _libraries(program):
    out = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    words = [word for line in out.splitlines() for word in line.split() if word.startswith("/")]
    return sorted(set(words))


def _copied(path, name=None):
    data = Path(path).read_bytes()
    return file((name or path).lstrip("/"), data, 0o755 if Path(path).stat().st_mode & 0o100 else 0o644)


def system(python=True, shell=True):
    """Entries of a root in the style of merged /usr, with this machine's Python and shell as far as they are wanted."""
    entries = [folder(name) for name in ("usr", "usr/bin", "usr/lib", "usr/lib64", "etc", "root", "opt")]
    entries += [link("bin", "usr/bin"), link("lib", "usr/lib"), link("lib64", "usr/lib64"), folder("tmp", 0o1777)]
    entries += [file("etc/os-release", "ID=imagined\n"), file("etc/passwd", "root:x:0:0::/root:/bin/sh\n")]
    programs, files = [], set()
    if python:
        real = str(Path("/usr/bin/python3").resolve())
        programs.append(real)
        modules = subprocess.run([real, "-I", "-c", _MODULES], capture_output=True, text=True, check=True)
        files.update(line for line in modules.stdout.splitlines() if line.startswith("/usr/lib/"))
        # As Debian's alternatives do: a chain of links, one of them absolute.
        entries += [folder("etc/alternatives"), link("usr/bin/python3", "/etc/alternatives/python3")]
        entries += [link("etc/alternatives/python3", real)]
        entries += [_copied(real)]
    if shell:
        programs.append("/bin/sh")
        entries += [_copied(str(Path("/bin/sh").resolve()), "/usr/bin/dash"), link("usr/bin/sh", "dash")]
        for name in ("cat", "ls", "id", "touch"):
            programs.append(f"/usr/bin/{name}")
            entries += [_copied(f"/usr/bin/{name}")]
    for program in [*programs, *(name for name in files if name.endswith(".so"))]:
        files.update(_libraries(program))
    for path in sorted(files):
        real = Path(path).parent.resolve() / Path(path).name  # /lib is a link, in the image too
        entries.append(_copied(path, str(real) if str(real).startswith("/usr/") else "/usr" + path))
    return entries
