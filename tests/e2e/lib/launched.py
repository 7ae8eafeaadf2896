# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that a launcher makes, asked for by an ordinary user."""

import contextlib
import os
import subprocess
import sys
import time

import pytest

from lib.launchers import ORDINARY

RUN = f"launcher-{os.getpid()}-{time.time_ns()}"


def needs_root():
    if os.geteuid() != 0:
        pytest.skip("the launcher has root's rights")


@contextlib.contextmanager
def holding(command, code):
    """A client that runs the code until the block ends, killed then; what it prints."""
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        holder.stdin.write(code.encode())
        holder.stdin.close()
        yield holder.stdout
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def ordinary_client(ours):
    return ["setpriv", "--reuid", str(ORDINARY), "--regid", str(ORDINARY), "--clear-groups", sys.executable, ours.folder / "client.py"]
