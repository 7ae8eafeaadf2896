# SPDX-License-Identifier: Apache-2.0
"""Where openat2(2) is denied, as in a systemd unit with DynamicUser=, all that it would open is opened all the same.

That the answers are the kernel's own is tests/unit/base/beneath_test.c's to show.
"""

import json
import os
import sys

import pytest

import layouts
import stacks
from layouts import Made, file, folder, hard, link

# A filter that gives ENOSYS for openat2 (437 on every architecture) and allows the rest, and then the program.
DENIED = """#!{python}
import ctypes, errno, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
steps = b"".join(struct.pack("HBBI", *step) for step in ((0x20, 0, 0, 0), (0x15, 0, 1, 437), (6, 0, 0, 0x50000 | errno.ENOSYS), (6, 0, 0, 0x7FFF0000)))
kept = ctypes.create_string_buffer(steps)
program = struct.pack("HxxxxxxQ", 4, ctypes.addressof(kept))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0
assert libc.syscall(437, -100, b".", 0, 0) == -1 and ctypes.get_errno() == errno.ENOSYS
os.execv({binary!r}, [{binary!r}, *sys.argv[1:]])
"""


@pytest.fixture
def denied(offline, tmp_path):
    place = tmp_path / "berth"
    place.write_text(DENIED.format(python=sys.executable, binary=str(offline.binary)))
    place.chmod(0o755)
    offline.binary = place
    offline.write("stack.yaml", stacks.text(stacks.document("Stack", "lab", {"provider": "local"})))
    return offline


def test_included_folders(denied):
    tree = denied.stack / "tree"
    (tree / "common/deeper").mkdir(parents=True)
    (tree / ".git").mkdir()
    (tree / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (tree / "eu").mkdir()
    (tree / "eu/stack.yaml").write_text(stacks.text(stacks.document("Stack", "eu", {"provider": "local", "include": ["../common"]})))
    (tree / "common/deeper/one.yaml").write_text(stacks.text(stacks.environment("one")))
    assert "one" in {row["name"] for row in denied("plan", "-f", tree / "eu", "--json").expect(0).json()["changes"]}
    (tree / "common/two.yaml").symlink_to("/etc/hostname")
    refused = denied("plan", "-f", tree / "eu").expect(1)
    assert "two.yaml" in refused.err and "put the file itself there" in refused.err, refused


def test_an_image_is_imported_and_run(denied, tmp_path):
    more = [folder("opt"), file("opt/note", "hello"), link("opt/led", "/opt/note"), hard("opt/same", "opt/note")]
    Made(layouts.system(), more).write(tmp_path / "image")
    denied("image", "import", "data/etl:stable", tmp_path / "image").expect(0)
    denied.write("e.yaml", stacks.text(stacks.environment("own", image={"repository": "data/etl", "tag": "stable"})))
    denied.apply()
    out = tmp_path / "out"
    code = """
import os
os.makedirs("deep/er")
with open("deep/er/text", "w") as file: file.write(open("/opt/led").read() + open("/opt/same").read())
os.symlink("/etc/passwd", "out")
print(open("deep/er/text").read())
"""
    done = denied("exec", "--env", "own", "--accept-degraded", "--out", out, "-c", code).expect(0)
    assert done.out == "hellohello\n" and (out / "deep/er/text").read_text() == "hellohello"
    assert not os.path.lexists(out / "out")


def test_what_leads_out_of_an_image_is_refused_as_ever(denied, tmp_path):
    (tmp_path / "secret").write_text(json.dumps({"schemaVersion": 2, "manifests": []}))
    Made([file("a", "x")]).write(tmp_path / "image")
    (tmp_path / "image/index.json").unlink()
    (tmp_path / "image/index.json").symlink_to("../secret")
    refused = denied("image", "import", "bad:one", tmp_path / "image")
    assert refused.code != 0 and "leads out" in refused.err, refused
