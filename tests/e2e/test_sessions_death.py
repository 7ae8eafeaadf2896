# SPDX-License-Identifier: Apache-2.0
"""
Death at every step of an execution: of the server, at each of its writes and of what it tells workers; of worker, runtime and kernel,
at each of their system calls; and a disk that is full at each write. What was answered stays true, no code runs twice, nothing is
called a success that was none, and nothing is left.

By default a sample of the steps, the same in each run; another one with BERTH_SEED=TEXT, all of them with BERTH_EXHAUSTIVE=1.
"""

import contextlib
import os
import re
from pathlib import Path

import pytest

from controllers import wait_until
from lib.session_deaths import VICTIMS, Disturbed, Life, dies_at_each_call, each, left_of  # noqa: F401
from lib.session_deaths import needs_root, serve, serve_folder, start_anew, steps_program, worker_of, workers  # noqa: F401
from lib.steps import EXHAUSTIVE, note

pytestmark = pytest.mark.timeout(14400 if EXHAUSTIVE else 600)


# --- the server ---


def test_death_of_the_server(serve, tmp_path):
    disturbed = Disturbed(serve, tmp_path)
    disturbed.dies_at_each(len(disturbed.steps(Life(serve))), 10, Life)


def test_a_disk_that_is_full(serve, tmp_path):
    """Each write finds no room, once: what was answered stays true, and it goes on without being started anew."""
    disturbed = Disturbed(serve, tmp_path)
    writes = disturbed.steps(Life(serve))

    def trial(at):
        life, note = Life(serve), f"full {at}"
        if not disturbed.start("full-once", at):
            assert "o space left" in serve.lines(), (note, serve.lines())
            start_anew(serve)
        life.live()
        wait_until(lambda: life.session or life.create() or life.session)  # where they cannot be opened, that is tried again
        wait_until(lambda: serve.call("POST", f"/v1/sessions/{life.session}/executions", {"code": "1"}).status == 200)
        life.check(note)
        start_anew(serve)
        life.check(note)
        life.finish(note)
        assert serve.stop() == 0

    # LMDB gives up where the write that makes a commit count is refused: that is less than a page.
    counts = [(at,) for at, (call, name, size) in enumerate(writes, 1) if (call, name) == ("pwrite", "data.mdb") and size < 4096]
    assert counts
    each(serve, counts, 3, trial)
    each(serve, [(at,) for at in range(1, len(writes) + 1) if (at,) not in counts], 6, trial)


# --- what it keeps going ---


@needs_root
@pytest.mark.parametrize("victim", VICTIMS)
def test_death_in_the_sandbox(serve, steps_program, victim):
    def executing(life, follow):
        life.create()
        life.run(1)
        with follow(VICTIMS[victim](worker_of(serve, life.session))):
            life.run(2)

    dies_at_each_call(serve, steps_program, Life, 6, executing)


# --- many of them ---


def sizes_of(serve):
    """What a server that leaks has more of, and what it leaves on the machine."""
    pid, kept, folder = serve.process.pid, [], serve_folder(serve)
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has ended
            kept += (task / "children").read_text().split()
    loops = [link.read_text() for link in Path("/sys/block").glob("loop*/loop/backing_file")]
    return {
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")), "threads": len(os.listdir(f"/proc/{pid}/task")), "children": len(kept),
        "mounts": Path("/proc/self/mounts").read_text().count(str(serve.state)), "sockets": len([path for path in workers() if folder in path]),
        "files": sum(1 for _ in serve.state.rglob("*")), "disks": len([path for path in loops if str(serve.state) in path]),
    }  # fmt: skip


def memory_of(serve):
    status = Path(f"/proc/{serve.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1))


def test_sessions_in_a_row_leave_nothing(serve):
    """Made, used and ended with all their files, one after another: 10,000 of them with BERTH_EXHAUSTIVE=1."""
    serve.start("--accept-degraded")
    def one(number):
        life = Life(serve)
        life.create()
        assert life.session, f"session {number} was not made"
        life.run(1)
        assert [told["status"] for told in life.told.values()] == ["ok"], (number, life.told)
        worker_of(serve, life.session)
        assert serve.call("DELETE", f"/v1/sessions/{life.session}").status == 204
        assert serve.call("DELETE", f"/v1/workspaces/{life.session}").status == 204

    for number in range(5):
        one(number)
    settled = wait_until(lambda: (found := sizes_of(serve))["children"] == found["sockets"] == 0 and found, timeout=60)
    before, database = memory_of(serve), (serve.state / "data.mdb").stat().st_size
    count = 10_000 if EXHAUSTIVE else 20
    for number in range(count):
        one(number)
        if number % 1000 == 999:
            note(f"{number + 1} sessions: {sizes_of(serve)}, {memory_of(serve)} kB, database {(serve.state / 'data.mdb').stat().st_size}")
    # One connection more may not be closed yet; an owner's slow things take four threads at most, which stay for another minute.
    about, most = {"descriptors": 0, "threads": 0}, 0 if EXHAUSTIVE else 4

    def is_settled():
        now = sizes_of(serve)
        return {**now, **about} == {**settled, **about} and now["descriptors"] <= settled["descriptors"] + 1 and now["threads"] <= settled["threads"] + most

    wait_until(is_settled, timeout=150)
    wait_until(lambda: not left_of(serve), timeout=60)
    assert memory_of(serve) - before < 16 * 1024, "kilobytes"
    assert (serve.state / "data.mdb").stat().st_size - database < 4 << 20, "records of what is gone"
