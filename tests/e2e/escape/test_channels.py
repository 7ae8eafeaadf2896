# SPDX-License-Identifier: Apache-2.0
"""What a sandbox could learn from the machine's own files, or tell another sandbox by them."""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import subprocess
from pathlib import Path

import pytest
from in_sessions import InServices, InSessions

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
            options = line.split(" - ")[1].split()[2].split(",")
            assert options[1].startswith("lowerdir=.:"), line
            assert not {"xino=auto", "xino=on", "index=on"} & set(options), "each such mount is a line in the kernel's log"


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


INODES = """
import json, os
def listed(folder):
    try: return [f"{folder}/{name}" for name in os.listdir(folder)]
    except OSError: return []
paths = {line.split()[4] for line in open("/proc/self/mountinfo")} | {f"{folder}/{name}" for folder, _, names in os.walk("/dev") for name in names}
for name in os.listdir("/proc"):
    if name.isdigit():
        paths |= {f"/proc/{name}/{link}" for link in ("exe", "cwd", "root")} | set(listed(f"/proc/{name}/fd") + listed(f"/proc/{name}/ns"))
found = {}
for path in paths:
    try: found[path] = [os.stat(path).st_dev, os.stat(path).st_ino]
    except OSError: pass
print(json.dumps(found))
"""


def test_no_inode_is_the_machines(sandbox):
    """By a shared inode a sandbox watches others use it (inotify), slows that down, and locks it. Only namespaces lie on no mount."""
    if isinstance(sandbox, InServices):
        sandbox.needs("quota")  # the plain folder is the machine's
    with open("/proc/self/mountinfo") as file:
        of_machine = {os.makedev(*map(int, line.split()[2].split(":"))) for line in file}
    namespaces = {(os.stat(entry).st_dev, os.stat(entry).st_ino) for entry in Path("/proc/self/ns").iterdir()}
    found = sandbox.tell(INODES)
    assert {"/dev/null", "/usr", "/proc/keys"} <= set(found) and any(path.endswith("/ns/time") for path in found)
    assert isinstance(sandbox, InSessions) or "/proc/1/exe" in found  # of a session process 1 is its runtime, closed to its code
    shared = {path for path, (device, inode) in found.items() if device in of_machine or (device, inode) in namespaces}
    if sandbox.user == "ordinary":  # the kernel lets no ordinary user make device nodes
        devices = [os.stat(f"/dev/{name}") for name in ("null", "zero", "full", "random", "urandom", "tty")]
        shared = {path for path in shared if found[path] not in [[device.st_dev, device.st_ino] for device in devices]}
    assert not shared


DATES = """
import json, os
answers = {}
for name in ("null", "zero", "full", "random", "urandom", "tty"):
    for times in (None, (1, 1)):
        try: os.utime(f"/dev/{name}", times); answers[f"{name}, {times}"] = 0
        except OSError as error: answers[f"{name}, {times}"] = error.errno
with open("/dev/null", "w") as file: file.write("still a device")
print(json.dumps(answers))
"""


def test_devices_dates_cannot_be_set(sandbox):
    """In an ordinary user's sandbox the nodes are the machine's. Each user that may write to one may set its date to the present, which other sandboxes see."""
    answers = sandbox.tell(DATES)
    assert len(answers) == 12 and set(answers.values()) <= {errno.EROFS, errno.EPERM}, answers


def test_file_systems_of_others_are_not_told(sandbox):
    """A workspace on a disk is one of the file systems below /proc/fs, with what is free in it and how often it was read."""
    assert sandbox.tell("import json, os; print(json.dumps(os.listdir('/proc/fs')))") == []


# Numbers of x86-64. A file that nothing has mapped, or the kernel would keep its pages whatever is asked.
LET_GO = """
import ctypes, json, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
path, size = json.loads(sys.argv[1])
file = os.open(path, os.O_RDONLY)
here = mmap.mmap(file, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
at = ctypes.addressof(ctypes.c_char.from_buffer(here))
for page in range(0, size, 4096): here[page]
def call(*arguments): return libc.syscall(*map(ctypes.c_long, arguments)) and -ctypes.get_errno()
answers = {"PAGEOUT": call(28, at, size, 21), "COLD": call(28, at, size, 20), "MERGEABLE": call(28, at, size, 12), "DONTNEED, mapped": call(28, at, size, 4)}
answers["WILLNEED"] = call(221, file, 0, 0, 3)
class Piece(ctypes.Structure): _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(4096)
piece = Piece(ctypes.addressof(buffer), 4096)
for name, flags in (("plain", 0), ("NOWAIT", 8), ("DONTCACHE", 0x80), ("both", 0x88)):
    answers["read, " + name] = libc.syscall(ctypes.c_long(327), file, ctypes.byref(piece), 1, 0, 0, flags)
    if answers["read, " + name] < 0: answers["read, " + name] = -ctypes.get_errno()
answers["cachestat"] = call(451, file, 0, 0, 0)
answers["DONTNEED"] = call(221, file, 0, 0, 4)   # last: the others bring pages in
print(json.dumps(answers))
"""


def pages_in_memory(path, size):
    """Of a file, as root sees it: to others the kernel says that all of them are."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    pages = (ctypes.c_ubyte * (-(-size // 4096)))()
    with open(path, "rb") as file:
        at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        assert libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(size), pages) == 0
        libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(size))
    return sum(page & 1 for page in pages)


def test_the_machines_cache_cannot_be_emptied(sandbox):
    """A sandbox made the machine read /usr from its disk again, and told others bits by what was in the cache."""
    if os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    sizes = [(path.stat().st_size, str(path)) for path in Path("/usr/share").rglob("*") if path.is_file() and not path.is_symlink()]
    size, path = max(row for row in sizes if row[0] < 8 << 20)
    Path(path).read_bytes()
    before = pages_in_memory(path, size)
    assert before == -(-size // 4096)
    answers = sandbox.tell(LET_GO, "--", json.dumps([path, size]))
    assert pages_in_memory(path, size) == before
    lacking = -errno.EOPNOTSUPP
    assert answers == {
        "PAGEOUT": 0, "COLD": 0, "MERGEABLE": -errno.EINVAL, "DONTNEED, mapped": 0, "DONTNEED": 0, "WILLNEED": 0, "read, plain": 4096,
        "read, NOWAIT": lacking, "read, DONTCACHE": lacking, "read, both": lacking, "cachestat": -errno.ENOSYS,
    }  # fmt: skip


OTHERS = """
import json, os
found = []
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) != os.getpid():
        try: found += [f"/proc/{name}/fd/{number}" for number in os.listdir(f"/proc/{name}/fd")]
        except OSError: pass
print(json.dumps(found))
"""


def test_code_has_no_descriptor_of_its_runtime(sandbox):
    """By one of them, /proc/1/fd/1, code told the worker results that the runtime alone should tell."""
    if not isinstance(sandbox, InSessions):
        pytest.skip("there is no runtime")
    assert [path for path in sandbox.tell(OTHERS) if path.startswith("/proc/1/")] == []
