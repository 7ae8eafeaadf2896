# SPDX-License-Identifier: Apache-2.0
"""Run the berth binary as a user would, in an environment that holds nothing of this machine's."""

import atexit
import functools
import json
import os
import re
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from proxy.settings import TEST_ACCESS_KEY, TEST_SECRET

ROOT = Path(__file__).resolve().parents[2]
_SANITIZER = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:|LeakSanitizer")
_PASSED_ON = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "LLVM_PROFILE_FILE", "GCOV_PREFIX", "GCOV_PREFIX_STRIP", "BERTH_MEMCHECKED", "BERTH_VALGRIND_LOGS")


def find_binary():
    """BERTH_BIN, or the newest build/*/berth (or build/*/cli/berth)."""
    if os.environ.get("BERTH_BIN"):
        return Path(os.environ["BERTH_BIN"]).resolve()
    found = [p for pattern in ("build/*/berth", "build/*/cli/berth") for p in ROOT.glob(pattern) if p.is_file() and os.access(p, os.X_OK)]
    return max(found, key=lambda p: p.stat().st_mtime) if found else None


def checked_binary():
    """The program that runs under Valgrind, where BERTH_BIN is ./valgrind."""
    if Path(os.environ.get("BERTH_BIN", "")).name != "valgrind":
        return None
    return Path(os.environ.get("BERTH_MEMCHECKED", ROOT / "build/dev/berth"))


def is_watched(binary):
    """By Valgrind or a sanitizer, whose memory cannot be told from Berth's."""
    return checked_binary() is not None or any(name in Path(binary).read_bytes() for name in (b"libasan.so", b"libtsan.so"))


@functools.cache
def tool(name):
    """A program of tests/unit: of the same build as berth, else the newest. It runs under Valgrind where berth does."""
    berth, checked = find_binary(), checked_binary()
    found = [(checked or berth).parent / "tests/unit" / name] if berth else []
    if not found or not found[0].is_file():
        found = [p for p in ROOT.glob(f"build/*/tests/unit/{name}") if p.is_file()]
    if not found:
        pytest.fail(f"{name} is not built: cmake --build builds it with the unit tests")
    program = max(found, key=lambda p: p.stat().st_mtime)
    return _under_valgrind(berth, program) if checked else program


def _under_valgrind(valgrind, program):
    """A script, so that it is started as the program itself is, with whatever environment."""
    logs = os.environ.get("BERTH_VALGRIND_LOGS", "")
    script = Path(tempfile.gettempdir()) / f"berth-{program.name}-{os.getpid()}"
    script.write_text(f"#!/bin/sh\nBERTH_MEMCHECKED='{program}' BERTH_VALGRIND_LOGS='{logs}' exec '{valgrind}' \"$@\"\n")
    script.chmod(0o755)
    atexit.register(script.unlink, missing_ok=True)
    return script


@dataclass
class Result:
    args: list
    code: int
    out: str
    err: str

    def json(self):
        try:
            return json.loads(self.out)
        except ValueError as error:
            raise AssertionError(f"{self} gives no JSON: {error}") from None

    def expect(self, code):
        assert self.code == code, f"exit {self.code}, expected {code}\n{self}"
        return self

    def __str__(self):
        return f"berth {' '.join(self.args)} -> {self.code}\n--- stdout\n{self.out[:6000]}\n--- stderr\n{self.err[:6000]}"


class Berth:
    """One stack's folder, and the binary run in it. `berth("plan", "--json")` gives a Result."""

    timeout = int(os.environ.get("BERTH_TEST_TIMEOUT", "120"))  # more for what makes it slow: valgrind, sanitizers

    def __init__(self, binary, folder, endpoint=None):
        self.binary, self.folder = binary, folder
        self.home = folder / "home"
        self.stack = folder / "stack"
        self.home.mkdir()
        self.stack.mkdir()
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "AWS_CONFIG_FILE": str(self.home / "config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(self.home / "credentials"),
            "AWS_EC2_METADATA_DISABLED": "true",
            **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
        }
        if endpoint:
            self.env.update(
                AWS_ENDPOINT_URL=endpoint,
                AWS_ACCESS_KEY_ID=TEST_ACCESS_KEY,
                AWS_SECRET_ACCESS_KEY=TEST_SECRET,
                AWS_REGION="us-east-1",
            )

    def write(self, name, text):
        """A manifest of the stack; bytes as they are."""
        path = self.stack / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def remove(self, name):
        (self.stack / name).unlink()

    def popen(self, *args, env=None, stdin=subprocess.DEVNULL):
        """The running process; the caller must wait for it or kill it."""
        return subprocess.Popen(
            [str(self.binary), *map(str, args)], cwd=self.stack, env={**self.env, **(env or {})}, stdin=stdin,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def __call__(self, *args, env=None, stdin=None, timeout=None):
        process = self.popen(*args, env=env, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        try:
            out, err = process.communicate(stdin.encode() if isinstance(stdin, str) else stdin, timeout or self.timeout)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            out, err = process.communicate()
            text = err.decode("utf-8", "replace")[-4000:]
            raise AssertionError(f"berth {' '.join(map(str, args))} did not end in {timeout or self.timeout} s\n{text}") from None
        return self.result(args, process.returncode, out, err)

    def result(self, args, code, out, err):
        found = Result([str(a) for a in args], code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
        assert not _SANITIZER.search(found.err), f"a sanitizer spoke:\n{found}"
        assert code >= 0, f"killed by signal {-code}\n{found}"
        return found

    # --- shorthands ---

    def plan(self, *args, code=0, **kwargs):
        """The plan as JSON."""
        return self("plan", "--json", *args, **kwargs).expect(code).json()

    def apply(self, *args, code=0, **kwargs):
        return self("apply", "--yes", *args, **kwargs).expect(code)

    def destroy(self, *args, code=0, **kwargs):
        return self("destroy", "--yes", *args, **kwargs).expect(code)

    def assert_settled(self):
        """After an apply the plan is empty."""
        plan = self.plan("--detailed-exitcode")
        assert plan["changes"] == [], json.dumps(plan["changes"], indent=1)
        assert plan["drift"] == [], json.dumps(plan["drift"], indent=1)
        return plan
