# SPDX-License-Identifier: Apache-2.0
"""What a sandbox could learn from the machine's own files, or tell another sandbox by them."""

import fcntl
import json
import subprocess

import pytest
from in_sessions import InServices

# A file that the machine's programs use, and that no other test runs.
SHARED = "/usr/bin/env"


def shared_folders(sandbox):
    """The mounts whose files are the machine's own, as this user sees them: none where the kernel gives overlays."""
    lines = sandbox.exec("print(open('/proc/self/mountinfo').read(), end='')")["text"].splitlines()
    return [(line.split()[3], line.split()[4], line.split(" - ")[1].split()[0]) for line in lines]


def test_mounts_name_no_folder_of_the_machine(sandbox):
    """Each file system is the run's own or the kernel's, and none was mounted by a path that tells anything."""
    if isinstance(sandbox, InServices):
        sandbox.needs("quota")  # the plain folder is named by its path
    for root, place, kind in shared_folders(sandbox):
        own_disk = (root, place, kind) == ("/workspace", "/workspace", "ext4")  # of a file system that has nothing else
        assert own_disk or kind in ("tmpfs", "overlay", "proc", "devpts", "devtmpfs"), f"{root} {place} {kind}"
    text = sandbox.exec("print(open('/proc/self/mountinfo').read(), end='')")["text"]
    assert str(sandbox.folder) not in text and "/dev/vd" not in text and "/dev/sd" not in text
    for line in text.splitlines():
        if " - overlay " in line:
            assert line.split(" - ")[1].split()[2].split(",")[1].startswith("lowerdir=.:"), line


WATCH = f"""
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
watched = libc.inotify_init1(os.O_NONBLOCK)
for path in ({SHARED!r}, "/usr/bin", "/usr/lib", "/etc/alternatives"):
    if os.path.exists(path): assert libc.inotify_add_watch(watched, path.encode(), 0x3B) >= 0
seen = []
def look():
    try: seen.append(len(os.read(watched, 65536)))
    except BlockingIOError: pass
look(); seen.clear()   # what this program itself opens from here on is nothing
print("on", flush=True)
sys.stdin.readline()
look()
os.close(os.open({SHARED!r}, os.O_RDONLY))
own = len(seen)
look()
print(json.dumps([own, len(seen) - own]), flush=True)
"""


def test_use_of_the_machines_programs_is_not_seen(box):
    """inotify on /usr told which programs the machine's people run, and when."""
    process = box.popen(*[word for word in box.words(WATCH) if word != "--json"], stdin=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"on\n"
        with open(SHARED, "rb") as file:
            file.read(1)
        subprocess.run([SHARED, "true"], check=True)
        out, err = process.communicate(b"\n", timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert json.loads(out) == [0, 1], err  # of its own use a watcher learns: the watch works


LOCK = f"""
import fcntl, os, sys
file = os.open({SHARED!r}, os.O_RDONLY)
try: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB); print("locked", flush=True)
except OSError: print("taken", flush=True)
sys.stdin.readline()
"""


def test_locks_are_not_seen_by_others(box):
    """Two sandboxes of different owners could tell each other things by locking a file of /usr."""
    words = [word for word in box.words(LOCK) if word != "--json"]
    first, second = (box.popen(*words, stdin=subprocess.PIPE) for _ in range(2))
    try:
        assert [first.stdout.readline(), second.stdout.readline()] == [b"locked\n"] * 2
        with open(SHARED, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()


@pytest.mark.parametrize("path", ["/usr/bin", "/usr/lib", "/etc"])
def test_what_is_shown_is_what_the_machine_has(sandbox, path):
    answers = sandbox.tell(f"import json, os; print(json.dumps(sorted(os.listdir({path!r}))))")
    if path == "/etc":
        assert {"passwd", "group", "hosts", "ld.so.cache"} <= set(answers)
        return
    listed = subprocess.run(["ls", "-A1", path], capture_output=True, check=True).stdout.decode("utf-8", "surrogateescape")
    assert answers == sorted(listed.splitlines())
