# SPDX-License-Identifier: Apache-2.0
"""Files of a workspace that changed, found: a thousand files and a hundred thousand, beside nftw through the same ones."""

import json
import shutil
import subprocess

from common import WORK

BUDGETS_MS = {1_000: 10, 100_000: 1_000}


def bench_files(build, quick):
    for files, budget in BUDGETS_MS.items():
        folder = WORK / f"workspaces-{files}"
        shutil.rmtree(folder, ignore_errors=True)
        times = 5 if quick else 21
        try:
            done = subprocess.run([build / "agree", folder, str(files), str(times)], check=True, capture_output=True, text=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        took = json.loads(done.stdout)
        for what, name in (("nothing", "none changed"), ("one", "one changed, synced")):
            ratio = f"{took[what] / took['floor']:5.2f}x"
            if what == "nothing":
                ratio += f", {'within' if took[what] <= budget else 'OVER'} the budget of {budget:,} ms"
            print(f"{f'{files:,} files, {name}':<35} {took[what]:9.1f} ms   nftw {took['floor']:8.1f} ms   {ratio}", flush=True)
