# SPDX-License-Identifier: Apache-2.0
"""Units of this machine's systemd: for tests that install the examples' own."""

import os
import shutil
import subprocess
from pathlib import Path

UNITS = Path("/etc/systemd/system")


def systemctl(*words, check=True):
    return subprocess.run(["systemctl", *words], capture_output=True, text=True, check=check).stdout.strip()


def setting(unit, name):
    return systemctl("show", "--value", f"--property={name}", unit)


def log(unit):
    return subprocess.run(["journalctl", "-u", unit, "-o", "cat", "--no-pager"], capture_output=True, text=True).stdout[-6000:]


def install_program(binary):
    """As /usr/bin/berth, also where that runs, and what it runs in sandboxes beside it."""
    for name in ("berth", "berth-runtime"):
        shutil.copy(Path(binary).with_name(name), f"/usr/bin/{name}.new")
        os.rename(f"/usr/bin/{name}.new", f"/usr/bin/{name}")


def set_beside(unit, *lines):
    """Beside what the service says; a later call takes the place of an earlier one."""
    folder = UNITS / f"{unit}.d"
    folder.mkdir(exist_ok=True)
    (folder / "test.conf").write_text("\n".join(["[Service]", *lines, ""]))
    systemctl("daemon-reload")


def remove(*units):
    for unit in units:
        systemctl("stop", unit, check=False)
        shutil.rmtree(UNITS / f"{unit}.d", ignore_errors=True)
        (UNITS / unit).unlink()
    systemctl("daemon-reload")
