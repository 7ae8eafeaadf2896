# SPDX-License-Identifier: Apache-2.0
"""Processes of sandboxes, seen from outside."""

import time
from pathlib import Path


def gone(marker):
    end = time.monotonic() + 60
    while uid_of(marker) is not None:
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def python_of(marker):
    """The process id of the one whose command line has the marker as a word, python's and no other; None where there is none."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[0] == b"python3" and marker.encode() in words:
                return int(folder.name)
        except OSError:
            continue
    return None


def uid_of(marker):
    """The host user of that process."""
    try:
        return Path(f"/proc/{python_of(marker)}").stat().st_uid
    except OSError:
        return None


def wait_for(look, seconds=60):
    for _ in range(seconds * 20):
        found = look()
        if found is not None:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come")
