# SPDX-License-Identifier: Apache-2.0
"""A session's copy of its workspace on the disk: its bounds, what it counts as, and that nothing of it outlives its session."""

import os
import signal
from pathlib import Path

import pytest

from controllers import wait_until
from lib.lab import TOKENS
from lib.session_limits import apply, create
from lib.session_quotas import FILL, MB, QUOTA, missing
from lib.sessions import CLIENTS, Sessions
from lib.warm import lives


def devices(serve):
    """The loop devices of this server's sessions."""
    found = []
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            found += [file] if str(serve.state) in file.read_text() else []
        except OSError:
            pass  # it has gone meanwhile
    return found


@pytest.fixture
def serve(offline):
    if missing(offline.folder):
        pytest.skip(missing(offline.folder))
    apply(offline, 8, memoryMB=256)
    made = Sessions(offline, clients=CLIENTS).start("--accept-degraded")
    probe = made.run(create(made), "open('/proc/self/mounts').read()")["value"]["text"]
    yield made if "/workspace ext4" in probe else None
    if made.process is None:
        made.start("--accept-degraded")
    for session in made.call("GET", "/v1/sessions?limit=1000", token=TOKENS["watcher"]).items():
        assert made.call("DELETE", f"/v1/sessions/{session['id']}", token=TOKENS["file"]).status == 204
    assert made.stop() == 0
    wait_until(lambda: devices(made) == [])


def test_its_bounds_are_the_kernels(serve, offline):
    """What can be filled is the quota, and memory is not used up by what lies in files: more of them than there is memory."""
    if serve is None:
        pytest.skip("workspaces are in memory here")
    assert "/workspace tmpfs" in serve.run(serve.create(), "open('/proc/self/mounts').read()")["value"]["text"]
    session = create(serve)
    found = serve.run(session, FILL)["value"]["text"]
    assert found == repr([QUOTA, [], "0o40700", "half", "No space left on device", False, False]), found
    code = f"with open('large', 'wb') as file:\n  for _ in range(400): file.write(b'x' * {MB})\nos.unlink('large')"
    large = serve.run(session, code)
    assert large["status"] == "ok" and large["usage"]["peakMemoryBytes"] <= 256 * MB, large
    # A file that is opened and not closed is on the same account.
    assert serve.run(session, f"kept = open('gone', 'wb'); os.unlink('gone')\ntry: os.posix_fallocate(kept.fileno(), 0, {QUOTA} - 1)\nexcept OSError as error: print(error.strerror)")["stdout"]["content"] == "No space left on device\n"
    assert "larger than half of the memory is on the disk, within the kernel's bounds" in offline("doctor").out
    # Neither by name nor by another process can the file be had in which it lies.
    assert not [p for p in (serve.state / "local/lab/workspaces").rglob("*") if p.is_file() and p.stat().st_size > MB]


def test_nothing_outlives_its_session(serve):
    if serve is None:
        pytest.skip("workspaces are in memory here")
    before = len(devices(serve))
    ended, killed = create(serve), create(serve)
    for session in (ended, killed):
        serve.run(session, "open('kept', 'w').write('kept')")
    assert len(devices(serve)) == before + 2
    assert serve.call("DELETE", f"/v1/sessions/{ended}").status == 204
    wait_until(lambda: len(devices(serve)) == before + 1)
    record = next(p for d in (Path("/run/berth").glob("s-*")) for p in d.glob(f"{killed}.worker"))
    worker = int(record.read_text().split("-")[0])
    assert serve.stop(signal.SIGKILL) == -signal.SIGKILL
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: not lives(worker) and len(devices(serve)) == before)
    serve.start("--accept-degraded")
    assert serve.run(killed, "open('kept').read()")["value"]["text"] == "'kept'"
