# SPDX-License-Identifier: Apache-2.0
"""
image.py ROOT EPOCH OUTPUT: makes an image (an OCI archive) of the package berth that is installed in ROOT: the program, the
libraries that it needs, and what the controller runs to verify commits and to speak SSH. No shell, no package manager, no
password; one user of its own. Sandboxes are not made in it: they need what a container should not have. The same ROOT and
EPOCH give the same bytes.
"""

import gzip
import hashlib
import io
import json
import sys
import tarfile
import time
from pathlib import Path

import elf

USER = 10001
PROGRAMS = ["usr/bin/berth", "usr/libexec/berth/berth-runtime", "usr/bin/gpgv", "usr/bin/ssh", "usr/bin/tini"]
FILES = {
    "etc/passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\nberth:x:{USER}:{USER}:Berth:/var/lib/berth:/usr/sbin/nologin\n",
    "etc/group": f"root:x:0:\nberth:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
COPIED = ["etc/ssl/certs/ca-certificates.crt", "etc/os-release", "etc/ssl/openssl.cnf"]
FOLDERS = {"tmp": (0o1777, 0), "run": (0o755, 0), "run/berth": (0o755, USER), "root": (0o700, 0), "etc/berth": (0o755, 0), "var/lib/berth": (0o700, USER)}


def contents(root):
    """{path: (mode, owner, bytes or link's target or None for a folder)}, and the packages that files are of."""
    needed = PROGRAMS + [lib for package in elf.depends(root, "berth") if package.startswith("lib") for lib in elf.libraries_of(root, package)]
    files, packages = elf.closure(root, needed), {"berth", "ca-certificates"}
    tree = {}
    for file in files:
        if (root / file).is_symlink():
            tree[file] = (0o777, 0, (root / file).readlink())
            continue
        tree[file] = (0o755 if file in PROGRAMS else 0o644, 0, (root / file).read_bytes())
        if ".so" in file and not file.startswith("usr/bin"):
            tree[file] = (0o755, 0, tree[file][2])
        packages.add(elf.owner(root, file))
    packages.discard(None)
    for file in COPIED:
        tree[file] = (0o644, 0, (root / elf.inside(root, file)).read_bytes())
    for file, text in FILES.items():
        tree[file] = (0o644, 0, text.encode())
    for link, target in {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "var/run": "/run"}.items():
        tree[link] = (0o777, 0, Path(target))
    for package in packages:
        # Where programs that look for known holes expect it; and each one's licence.
        tree[f"var/lib/dpkg/status.d/{package}"] = (0o644, 0, status(root, package))
        licence = root / f"usr/share/doc/{package}/copyright"
        if licence.is_file():
            tree[f"usr/share/doc/{package}/copyright"] = (0o644, 0, licence.read_bytes())
    for file in ("LICENSE", "LICENSE.cloudpickle", "LICENSE.jansson"):
        if (root / "usr/share/doc/berth" / file).is_file():
            tree[f"usr/share/doc/berth/{file}"] = (0o644, 0, (root / "usr/share/doc/berth" / file).read_bytes())
    for folder, (mode, owner) in FOLDERS.items():
        tree[folder] = (mode, owner, None)
    for path in list(tree):
        for folder in list(Path(path).parents)[:-1]:
            tree.setdefault(str(folder), (0o755, 0, None))
    return tree


def status(root, package):
    text = elf.output("dpkg-query", "--admindir", root / "var/lib/dpkg", "-s", package)
    return "".join(line + "\n" for line in text.splitlines() if line).encode()


def layer(tree, epoch):
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(tree):
            mode, owner, what = tree[path]
            info = tarfile.TarInfo(path)
            info.mode, info.uid, info.gid, info.mtime = mode, owner, owner, epoch
            if what is None:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            elif isinstance(what, Path):
                info.type, info.linkname = tarfile.SYMTYPE, str(what)
                tar.addfile(info)
            else:
                info.size = len(what)
                tar.addfile(info, io.BytesIO(what))
    return whole.getvalue()


def digest(data):
    return hashlib.sha256(data).hexdigest()


def main(root, epoch, target):
    root, epoch = Path(root), int(epoch)
    version = elf.field(root, "berth", "Version").split("-")[0]
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
    plain = layer(contents(root), epoch)
    packed = gzip.compress(plain, 9, mtime=0)
    labels = {"org.opencontainers.image.title": "berth", "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"}
    config = json.dumps({
        "architecture": elf.field(root, "berth", "Architecture"), "os": "linux", "created": created,
        "config": {
            "User": f"{USER}:{USER}", "Entrypoint": ["/usr/bin/tini", "--", "/usr/bin/berth"], "Cmd": ["version"], "WorkingDir": "/var/lib/berth",
            "Env": ["PATH=/usr/bin", "BERTH_STATE=/var/lib/berth", "XDG_RUNTIME_DIR=/run"], "Volumes": {"/var/lib/berth": {}},
            "Labels": labels, "StopSignal": "SIGTERM",
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest(plain)]},
        "history": [{"created": created, "created_by": "berth's release"}],
    }, sort_keys=True).encode()  # fmt: skip
    kind = "application/vnd.oci.image."
    described = [{"mediaType": kind + name, "digest": "sha256:" + digest(data), "size": len(data)} for name, data in (("config.v1+json", config), ("layer.v1.tar+gzip", packed))]
    manifest = json.dumps({"schemaVersion": 2, "mediaType": kind + "manifest.v1+json", "config": described[0], "layers": described[1:], "annotations": labels}, sort_keys=True).encode()
    index = {"mediaType": kind + "manifest.v1+json", "digest": "sha256:" + digest(manifest), "size": len(manifest), "annotations": {"org.opencontainers.image.ref.name": version}}
    tree = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps({"schemaVersion": 2, "manifests": [index]}, sort_keys=True).encode()}
    tree |= {f"blobs/sha256/{digest(data)}": data for data in (config, packed, manifest)}
    archive = {path: (0o644, 0, data) for path, data in tree.items()} | {"blobs": (0o755, 0, None), "blobs/sha256": (0o755, 0, None)}
    Path(target).write_bytes(layer(archive, epoch))


if __name__ == "__main__":
    main(*sys.argv[1:])
