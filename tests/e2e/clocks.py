# SPDX-License-Identifier: Apache-2.0
"""Clocks that are ahead, a machine's own: clocks.c, compiled and preloaded into berth. They may be moved while it runs, or sleeps."""

import os
import struct
import subprocess
from pathlib import Path


class Clocks:
    def __init__(self, folder):
        self.folder, self.library = folder, folder / "clocks.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.library, Path(__file__).with_name("clocks.c"), "-ldl"], check=True)

    def give(self, machine, monotonic_s=0, wall_s=0):
        """From now on that machine's clocks are ahead by this much."""
        path = self.folder / f"clocks-of-{machine.folder.name}"
        mode = "r+b" if path.exists() else "w+b"
        with path.open(mode) as file:
            file.write(struct.pack("=qq", int(monotonic_s * 1000), int(wall_s * 1000)))
        sanitizer = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        machine.env.update(LD_PRELOAD=str(self.library), CLOCKS=str(path), ASAN_OPTIONS=sanitizer)
