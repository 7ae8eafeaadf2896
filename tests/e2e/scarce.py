# SPDX-License-Identifier: Apache-2.0
"""A process that has no descriptor or thread left at its n-th call for one: scarce.c, compiled and preloaded into berth."""

import subprocess
from pathlib import Path

KINDS = ("descriptor", "table", "thread", "memory")


class Scarce:
    """`env()` is the environment of one run, which is disturbed from `begin()` on; `calls()` are those that were counted so far."""

    def __init__(self, folder):
        self.library, self.log, self.arm = (folder / name for name in ("scarce.so", "scarce.log", "scarce.arm"))
        source = Path(__file__).with_name("scarce.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.library, source, "-ldl", "-lpthread"], check=True)

    def env(self, kind, at=0):
        assert kind in KINDS
        self.log.write_text("")
        self.arm.unlink(missing_ok=True)
        return {
            "LD_PRELOAD": str(self.library), "SCARCE_KIND": kind, "SCARCE_AT": str(at),
            "SCARCE_LOG": str(self.log), "SCARCE_ARM": str(self.arm),
        }  # fmt: skip

    def begin(self):
        self.arm.touch()

    def end(self):
        self.arm.unlink(missing_ok=True)

    def calls(self):
        return [line.split(" ")[1] for line in self.log.read_text().splitlines()]

    def places(self):
        """Of the calls counted, the number of the first one at each place in the program, in order."""
        first = {}
        for line in self.log.read_text().splitlines():
            number, call, place = line.split(" ")[:3]
            first.setdefault((call, place), int(number))
        return sorted(first.values())

    def failed(self):
        """The call that failed, or None."""
        return next((line for line in self.log.read_text().splitlines() if line.endswith(" failed")), None)
