# SPDX-License-Identifier: Apache-2.0
"""What comes out of a workspace, and what goes in: made by somebody who means harm."""

import os
import shutil
import subprocess

import pytest


@pytest.fixture
def out(box):
    folder = box.folder / "out"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def by_name(result):
    return {row["name"]: row for row in result["files"]}


def test_files_and_folders_come_back(box, out):
    result = box.exec("import os; os.makedirs('a/b'); open('a/b/c', 'w').write('x'); open('ü\\n', 'w').write('yy')", "--out", out)
    assert (out / "a/b/c").read_text() == "x"
    assert (out / "ü\n").read_text() == "yy"
    assert [(row["name"], row["bytes"], row["returned"]) for row in result["files"]] == [("a/b/c", 1, True), ("ü\\x0a", 2, True)]


LINKS = {
    "absolute": "/etc/passwd",
    "up": "../../../../etc/passwd",
    "magic": "/proc/self/root/etc/passwd",
    "folder": "/etc",
    "chain": "up",
    "dangling": "nothing",
}


def test_links_are_left_out(box, out):
    result = box.exec(f"import os\nfor name, to in {LINKS!r}.items(): os.symlink(to, name)\nopen('file', 'w').write('x')", "--out", out)
    assert sorted(os.listdir(out)) == ["file"]
    rows = by_name(result)
    for name in LINKS:
        assert (rows[name]["returned"], rows[name]["reason"]) == (False, "a symbolic link")


def test_special_files_are_left_out(box, out):
    code = (
        "import os, socket, stat\n"
        "os.mkfifo('fifo')\n"
        "socket.socket(socket.AF_UNIX).bind('socket')\n"
        "try: os.mknod('device', stat.S_IFCHR | 0o666, os.makedev(1, 3)); print('made')\n"
        "except OSError: print('denied')"
    )
    result = box.exec(code, "--out", out)
    assert result["text"] == "denied\n"
    assert os.listdir(out) == []
    assert {row["name"]: row["reason"] for row in result["files"]} == {"fifo": "a FIFO", "socket": "a socket"}


def test_holes_cannot_fill_the_disk(box, out):
    result = box.exec("import os\nfor n in range(8): os.truncate(os.open(f'h{n}', os.O_CREAT | os.O_RDWR), 300 << 20)", "--out", out)
    assert sum(row["returned"] for row in result["files"]) == 1
    assert sum(file.stat().st_size for file in out.iterdir()) <= 512 << 20


def test_hard_links_cannot_fill_the_disk(box, out):
    result = box.exec("import os\nopen('a', 'wb').write(bytes(200 << 20))\nfor n in range(8): os.link('a', f'l{n}')", "--out", out)
    assert sum(row["returned"] for row in result["files"]) == 2
    assert all(file.stat().st_nlink == 1 for file in out.iterdir())


def test_set_user_id_does_not_come_back(box, out):
    code = "import os; open('s', 'w').write('x'); os.chmod('s', 0o6755)"
    box.exec(code, "--out", out)
    assert (out / "s").stat().st_mode & 0o7777 == 0o644
    box.exec(code, "--out", out, "--out-over", "--out-exec")
    assert (out / "s").stat().st_mode & 0o7777 == 0o755
    assert (out / "s").stat().st_uid == box.uid


def test_names_that_are_not_utf8(box, out):
    result = box.exec("open(b'\\xff\\xfe', 'w').write('x'); open(b'back\\\\slash', 'w').write('x')", "--out", out)
    assert sorted(os.listdir(os.fsencode(out))) == [b"\xff\xfe", b"back\\slash"] or sorted(os.listdir(os.fsencode(out))) == [
        b"back\\slash",
        b"\xff\xfe",
    ]
    assert [row["name"] for row in result["files"]] == ["\\xff\\xfe", "back\\x5cslash"]


def test_folders_without_end(box, out):
    result = box.exec("import os\nfor _ in range(500): os.mkdir('d'); os.chdir('d')", "--out", out)
    assert [row["reason"] for row in result["files"]] == ["too many folders within each other"]


FLOOD = """
import os
at = os.open(".", os.O_RDONLY)
for _ in range(63):
    os.mkdir(b"\\x01" * 255, dir_fd=at)
    at = os.open(b"\\x01" * 255, os.O_RDONLY, dir_fd=at)
for n in range(5000):
    os.close(os.open(f"{n}", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=at))
"""


def test_names_cannot_fill_the_memory_of_berth(box, out):
    """Each name is 64 KB of text where it is listed, outside of every limit of the run: 200,000 of them were 13 GB."""
    result = box.exec(FLOOD, "--out", out)
    assert sum(len(row["name"]) for row in result["files"]) < 40 << 20
    assert "what is not listed stays out" in by_name(result)["."]["reason"] and len(result["files"]) < 1000


def test_unreadable_is_named(box, out):
    if box.uid == 0:
        pytest.skip("root reads everything")
    result = box.exec("import os; open('f', 'w').write('x'); os.chmod('f', 0); os.mkdir('d', 0)", "--out", out)
    assert {row["name"]: row["returned"] for row in result["files"]} == {"d": False, "f": False}


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_disk_that_is_full_gets_no_part_of_a_file(box, out):
    """A folder of what comes back may be a disk of its own; the beginning of a file could be taken for the file."""
    (out / "sub").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=64k,uid={box.uid}", "none", out / "sub"], check=True)
    shutil.chown(out, box.uid, box.uid)
    code = "import os; os.mkdir('sub'); open('sub/f', 'w').write('x' * {})"
    try:
        assert by_name(box.exec(code.format(1000), "--out", out, "--out-over"))["sub/f"]["returned"]
        done = box.berth(*box.words(code.format(200000), "--out", out, "--out-over"))
        assert done.returncode == 125 and b"cannot write sub/f: No space left on device" in done.stderr
        assert not list((out / "sub").iterdir())
    finally:
        subprocess.run(["umount", out / "sub"], check=True)


def test_links_that_wait_outside_are_not_written_through(box, out):
    """The folder for what comes back has links with the same names: they are replaced, or refused."""
    victim = box.folder / "victim"
    victim.mkdir(exist_ok=True)
    (victim / "kept").write_text("kept")
    out.mkdir()
    (out / "kept").symlink_to(victim / "kept")
    (out / "folder").symlink_to(victim)
    if os.geteuid() == 0:
        shutil.chown(out, box.uid, box.uid)
        shutil.chown(victim, box.uid, box.uid)
    box.exec("open('kept', 'w').write('changed')", "--out", out, "--out-over")
    assert (victim / "kept").read_text() == "kept"
    assert (out / "kept").read_text() == "changed" and not (out / "kept").is_symlink()
    done = box.berth(*box.words("import os; os.mkdir('folder'); open('folder/kept', 'w').write('changed')", "--out", out, "--out-over"))
    assert done.returncode == 125
    assert (victim / "kept").read_text() == "kept"


HOOKS = """
import os
def write(path):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    open(path, "w").write("#!/bin/sh\\ntouch ran\\n")
    os.chmod(path, 0o755)
for name in (".git/hooks/post-checkout", ".githooks/pre-commit", ".envrc", "sub/.git/hooks/pre-commit", "bare/HEAD", "report"): write(name)
"""


def test_no_hooks_in_a_git_tree(box, out):
    """A folder of somebody's is not written into; nothing comes back that Git, a shell or an editor would obey."""
    (out / ".git/hooks").mkdir(parents=True)
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{box.uid}:{box.uid}", out], check=True)
    done = box.berth(*box.words(HOOKS, "--out", out))
    assert done.returncode == 125 and b"is not empty" in done.stderr
    assert not done.stdout, "it is said before the code runs"
    rows = by_name(box.exec(HOOKS, "--out", out, "--out-over"))
    assert {name for name, row in rows.items() if row["returned"]} == {"report"}
    assert all("--out-dot" in row["reason"] for name, row in rows.items() if name != "report")
    assert list((out / ".git/hooks").iterdir()) == []
    assert sorted(p.name for p in out.rglob("*")) == [".git", "bare", "hooks", "report", "sub"]
    assert not os.access(out / "report", os.X_OK)


def test_files_go_in(box, tmp_path):
    source = box.folder / "input.csv"
    source.write_text("a,b\n")
    result = box.exec("print(open('data/in.csv').read(), end='')", "--file", f"data/in.csv={source}")
    assert result["text"] == "a,b\n"


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", ".", "a//b", "a/.", "x" * 300])
def test_names_that_lead_outside_are_refused(box, name):
    source = box.folder / "input"
    source.write_text("x")
    done = box.berth(*box.words("print(1)", "--file", f"{name}={source}"))
    assert done.returncode == 125 and b"within the workspace" in done.stderr


@pytest.mark.parametrize("path", ["/dev/zero", "/proc", "/nothing"])
def test_only_regular_files_go_in(box, path):
    done = box.berth(*box.words("print(1)", "--file", f"x={path}"))
    assert done.returncode == 125


def test_too_much_goes_in(box):
    source = box.folder / "large"
    with open(source, "wb") as file:
        file.truncate(600 << 20)
    try:
        done = box.berth(*box.words("print(1)", "--file", f"x={source}"))
    finally:
        source.unlink()
    assert done.returncode == 125 and b"workspaceStorageMB" in done.stderr
