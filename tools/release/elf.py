# SPDX-License-Identifier: Apache-2.0
"""Which files a program needs to run, and whose they are, in the folder ROOT of a Debian."""

import functools
import os
import re
import subprocess
from pathlib import Path

FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib")


def output(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def inside(root, path):
    """Where the path leads within ROOT, whose /lib is a link; relative to it."""
    path = os.path.normpath("/" + str(path).lstrip("/"))  # of two slashes in front, normpath() keeps both
    for _ in range(40):
        at = Path("/")
        for part in Path(path).parts[1:]:
            at /= part
            if (root / str(at)[1:]).is_symlink():
                target = os.readlink(root / str(at)[1:])
                rest = os.path.relpath(path, at)
                path = os.path.normpath(os.path.join(os.path.dirname(at), target, rest))
                break
        else:
            return path[1:]
    raise OSError(f"{path}: too many links")


@functools.cache
def library(root, soname):
    for folder in FOLDERS:
        if (root / folder / soname).exists() or (root / folder / soname).is_symlink():
            return f"{folder}/{soname}"
    raise FileNotFoundError(f"{soname} is in none of {root}'s folders")


def closure(root, files):
    """The files with all libraries that they are linked with: paths below ROOT. A library's link is listed beside its file."""
    found, waiting = {}, list(files)
    while waiting:
        file = waiting.pop()
        file = inside(root, os.path.dirname(file)) + "/" + os.path.basename(file)
        if file in found:
            continue
        real = inside(root, file)
        found[file] = None
        if real != file:
            waiting.append(real)
            continue
        dynamic = output("readelf", "--wide", "--dynamic", "--program-headers", root / real)
        waiting += [library(root, name) for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)]
        waiting += [path[1:] for path in re.findall(r"program interpreter: (.*)\]", dynamic)]
    return sorted(found)


def depends(root, package):
    """Names of the packages that it depends on."""
    text = output("dpkg-query", "--admindir", root / "var/lib/dpkg", "-W", "-f=${Depends}", package)
    return [re.match(r"[a-z0-9.+-]+", one.strip()).group(0) for one in text.split(",") if one.strip()]


def libraries_of(root, package):
    """The shared libraries that a package has under the names that programs ask for."""
    listed = output("dpkg-query", "--admindir", root / "var/lib/dpkg", "-L", package).split("\n")
    return [inside(root, os.path.dirname(path)) + "/" + os.path.basename(path) for path in listed if re.search(r"/lib[^/]+\.so\.[0-9.]+$", path)]


@functools.cache
def owner(root, file):
    """The package of a file, or None. Files of /usr may be listed as of before /usr was one folder."""
    for name in (f"/{file}", "/" + file.removeprefix("usr/")):
        done = subprocess.run(["dpkg-query", "--admindir", root / "var/lib/dpkg", "-S", name], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    return None


def field(root, package, name):
    return output("dpkg-query", "--admindir", root / "var/lib/dpkg", "-W", f"-f=${{{name}}}", package)
