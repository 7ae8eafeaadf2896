# SPDX-License-Identifier: Apache-2.0
"""A controller under test: its file, its process, what it says of its sources."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import stacks
from binary import Berth

# Waits here are this much longer than on a machine that has nothing else to do. BERTH_TEST_TIMEOUT lengthens it.
PATIENCE = 3 * max(1, Berth.timeout / 120)


def source(name, url, branch="main", **spec):
    spec = {"intervalSeconds": 1, "driftSeconds": 3600, **spec}
    return {"name": name, "url": str(url), **({"branch": branch} if "tag" not in spec else {}), **spec}


def process_began(pid):
    """When it did, as /proc has it; None where it has ended, even if it is never reaped, as in a container without an init."""
    try:
        row = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if row[0] in "ZX" else row[19]


def wait_until(question, timeout=30, step=0.05):
    """The first answer that is true; fails with the last one."""
    end = time.monotonic() + timeout * PATIENCE
    while True:
        found = question()
        if found:
            return found
        assert time.monotonic() < end, f"not within {timeout} s: {found!r}"
        time.sleep(step)


class Daemon:
    """What runs in the background and logs to a file: `process`, None where it does not run, and `log`."""

    def lines(self):
        return self.log.read_text()

    def stop(self, signum=signal.SIGTERM, timeout=30):
        """Its exit code, once it is gone."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signum)
        try:
            code = self.process.wait(timeout * PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"it did not end within {timeout} s:\n{self.lines()[-4000:]}") from None
        self.process = None
        for words in ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "runtime error:", "WARNING: ThreadSanitizer"):
            assert words not in self.lines(), self.lines()[-8000:]
        return code


class Controller(Daemon):
    """`berth` is the binary's wrapper (binary.Berth); the file and its state lie beside the stack's folder."""

    def __init__(self, berth, *sources, **spec):
        self.berth = berth
        self.file = berth.folder / "controller.yaml"
        self.state = berth.folder / ".berth"
        self.log = berth.folder / "controller.log"
        self.process = None
        self.configure(*sources, **spec)

    def configure(self, *sources, **spec):
        spec = {"listen": "off", **spec, "sources": list(sources)}
        self.file.write_text(stacks.text(stacks.document("Controller", "test", spec)))

    def __call__(self, *args, **kwargs):
        """`berth controller ...`, of this controller."""
        return self.berth("controller", *args, "-f", self.file, **kwargs)

    def once(self, code=0, **kwargs):
        return self("--once", **kwargs).expect(code)

    def start(self, *args, env=None):
        """In the background; returns once it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(self.berth.binary), "controller", "-f", str(self.file), *args],
                cwd=self.berth.stack, env={**self.berth.env, **(env or {})}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        wait_until(self.answers)
        return self

    def answers(self):
        assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.lines()}"
        return self("status", "--json").code == 0

    def kill(self):
        self.stop(signal.SIGKILL)

    # --- what it says ---

    def status(self, name=None):
        """The status of a source, None where there is none of that name; of the only one where none is named."""
        found = self("status", "--json")
        assert found.code in (0, 1), found
        sources = {s["name"]: s for s in found.json()["sources"]}
        return sources.get(name) if name else next(iter(sources.values()))

    def condition(self, kind="Ready", name=None):
        return next((c for c in (self.status(name) or {"conditions": []})["conditions"] if c["type"] == kind), None)

    def wait_for(self, reason, commit=None, name=None, timeout=30):
        """Until Ready has that reason (and speaks of that commit); the condition."""

        def is_so():
            ready = self.condition("Ready", name)
            return ready if ready and ready["reason"] == reason and commit in (None, ready["commit"]) else None

        try:
            return wait_until(is_so, timeout)
        except AssertionError:
            shown = json.dumps(self.status(name), indent=1)
            raise AssertionError(f"no {reason} ({commit}) within {timeout} s:\n{shown[:6000]}\n{self.lines()[-3000:]}") from None

    def wait_for_rounds(self, count, name=None):
        """Until this number of rounds have begun and ended from now on; one that is under way may have looked before."""
        before = self.status(name)["rounds"]
        wait_until(lambda: self.status(name)["rounds"] > before + count)

    def sync(self, name=None, code=0):
        return self("sync", *([name] if name else []), "--wait").expect(code)

    def source_state(self, name):
        return self.state / "sources" / name

    def history(self, name):
        return self.berth("state", "show", "--json", "--state", self.source_state(name)).expect(0).json()["history"]

    def memory_mb(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:")) / 1024

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))
