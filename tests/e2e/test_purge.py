# SPDX-License-Identifier: Apache-2.0
"""What the Debian package's postrm makes of what users may have made of its folders and units; tests/package purges a whole package."""

import os
import subprocess

import pytest
from binary import ROOT

POSTRM = ROOT / "packaging/debian/postrm"
WANTS = "/etc/systemd/system/multi-user.target.wants"
DISK = "/var/lib/berth-launcher"
CASES = {
    "nothing": ("true", set()),
    "a user that had workspaces": (f"mkdir -p {DISK}/kept/998", set()),
    "workspaces": (f"mkdir -p {DISK}/kept/998/one && touch {DISK}/kept/998/one/disk", {f"{DISK}/kept/998/one/disk"}),
    "a state": ("mkdir /var/lib/berth && touch /var/lib/berth/state", {"/var/lib/berth/state"}),
    "a link to another disk": (f"mkdir /var/lib/large && ln -s large {DISK} && ln -s large /var/lib/berth", {DISK, "/var/lib/berth"}),
    "a disk of its own": (f"mkdir {DISK} && mount -t tmpfs tmpfs {DISK}", {DISK}),
    "units": (f"ln -s /usr/lib/systemd/system/berth-none.service {WANTS}/berth-serve.service", set()),
    "units of one's own": (
        f"touch /etc/systemd/system/berth-serve.service && ln -s /etc/systemd/system/berth-serve.service {WANTS}",
        {"/etc/systemd/system/berth-serve.service", f"{WANTS}/berth-serve.service"},
    ),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone mounts folders of its own over the machine's")
@pytest.mark.parametrize("case", CASES)
def test_a_purge_takes_nothing_of_a_users(case):
    made, left = CASES[case]
    script = f"""set -eu
for folder in /etc /run /var/lib; do mount -t tmpfs tmpfs $folder; done
mkdir -p {WANTS}
{made}
sh "$1" purge
find /etc /run /var/lib -name '*berth*' -o -path '*berth*' ! -type d
"""
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", "/dev/stdin"], input=POSTRM.read_text(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = set(done.stdout.split())
    assert {path for path in found if not any(other.startswith(path + "/") for other in found)} == left, done.stderr
