# SPDX-License-Identifier: Apache-2.0
"""A clock that hurries: hurry.c, compiled and preloaded into berth, so that no test waits for a deadline of minutes."""

import os
import subprocess
from pathlib import Path


class Hurry:
    def __init__(self, folder, pace):
        self.library, self.pace = folder / "hurry.so", pace
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.library, Path(__file__).with_name("hurry.c"), "-ldl"], check=True)

    def env(self):
        sanitizer = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        return {"LD_PRELOAD": str(self.library), "HURRY": str(self.pace), "ASAN_OPTIONS": sanitizer}
