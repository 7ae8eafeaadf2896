# SPDX-License-Identifier: Apache-2.0
"""A disk that fails, and a program that dies at its n-th write: disk.c, compiled and preloaded into berth."""

import os
import subprocess
from pathlib import Path

MISHAPS = ("before", "after", "amid", "lost", "fail", "full", "fail-once", "full-once", "interrupt", "interrupt-twice", "held")


class Disk:
    """`env()` is the environment of one run; `writes()` what that run wrote and synced so far."""

    def __init__(self, folder, state):
        self.library, self.log, self.state = folder / "disk.so", folder / "disk.log", Path(state).resolve()
        self.hold = folder / "disk.hold"
        source = Path(__file__).with_name("disk.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.library, source, "-lpthread"], check=True)

    def env(self, mishap="", at=0, seed=0, match=""):
        assert not mishap or mishap in MISHAPS
        self.log.write_text("")
        sanitizer = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        return {
            "LD_PRELOAD": str(self.library), "ASAN_OPTIONS": sanitizer, "DISK_FOLDER": f"{self.state}/", "DISK_LOG": str(self.log),
            "DISK_MISHAP": mishap, "DISK_AT": str(at), "DISK_SEED": str(seed), "DISK_MATCH": match, "DISK_HOLD": str(self.hold),
        }  # fmt: skip

    def writes(self):
        """(call, file's name, bytes) in their order."""
        lines = [line.split(" ") for line in self.log.read_text().splitlines()]
        return [(call, os.path.basename(path), int(size)) for _, call, path, size in lines]
