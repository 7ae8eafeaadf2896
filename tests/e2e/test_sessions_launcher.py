# SPDX-License-Identifier: Apache-2.0
"""`berth serve` as an ordinary user for whom a launcher of root's places the sandboxes: owners are kept apart without any right of its own."""

import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from controllers import wait_until

from lib.lab import TOKENS, stack
from lib.launched_sessions import CLIENTS, alive, box, launcher, serve, user_of_worker, workers_of  # noqa: F401
from lib.launchers import ORDINARY, Launcher
from lib.session_limits import family_of, manifests, quota
from lib.session_quotas import FILL, QUOTA, missing
from lib.sessions import Sessions

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a launcher has root's rights")


def test_owners_are_apart_and_files_go_both_ways(serve):
    """Each session a host user of its own; what its code wrote is the server's user's, by the same rules as ever."""
    first, second = serve.create(), serve.create("bob")
    assert serve.run(first, "kept = 41\nprint('hello')\nkept + 1")["value"]["text"] == "42"
    users = {user_of_worker(serve.launcher, s) for s in (first, second)}
    assert len(users) == 2 and all(user >= 1900000000 for user in users), users
    wrote = serve.run(first, """
import os, pathlib
os.makedirs('deep/er')
pathlib.Path('deep/er/file').write_text('by the code')
pathlib.Path('tool').write_text('#!'); os.chmod('tool', 0o755)
pathlib.Path('private').write_text('x'); os.chmod('private', 0)
pathlib.Path('large').write_bytes(b'0123456789abcdef' * 65536 * 2)
os.symlink('/etc/passwd', 'link'); os.mkfifo('fifo')
""")  # fmt: skip
    files = wrote["files"]
    assert wrote["status"] == "ok", wrote
    assert [f["path"] for f in files["changed"]] == ["deep/er/file", "large", "tool"]
    assert {f["path"] for f in files["skipped"]} == {"fifo", "link", "private"}
    kept = serve.state / f"local/lab/workspaces/sessions/{first}/workspace"
    assert (kept / "deep/er/file").read_text() == "by the code" and (kept / "deep/er/file").stat().st_uid == ORDINARY
    assert (kept / "tool").stat().st_mode & 0o100 and (kept / "large").stat().st_size == 2 << 20
    # What is put into the workspace from outside is there before the next execution, the run's own.
    (kept / "put").write_text("from outside")
    (kept / "deep/er/file").unlink()
    os.chown(kept / "put", ORDINARY, ORDINARY)
    again = serve.run(first, "open('put', 'a').write('!'), os.path.exists('deep/er/file'), os.stat('put').st_uid == os.getuid(), kept")
    assert again["value"]["text"] == "(1, False, True, 41)"
    assert [f["path"] for f in again["files"]["changed"]] == ["put"] and (kept / "put").read_text() == "from outside!"
    assert again["usage"]["peakMemoryBytes"] is None or again["usage"]["peakMemoryBytes"] > 0
    # Neither finds the other: not its files, not its processes, not the server's.
    found = serve.run(second, "import os; os.listdir('/workspace'), [p for p in os.listdir('/proc') if p.isdigit() and int(p) > 50]", "bob")
    assert found["value"]["text"] == "([], [])"


def test_server_and_launcher_die_and_sessions_live(serve):
    """By SIGKILL, one after the other and both at once; the kernel's memory stays, and the end needs no launcher."""
    session = serve.create()
    serve.run(session, "kept = []")
    for victims in (["server"], ["launcher"], ["server", "launcher"]):
        if "server" in victims:
            serve.stop(signal.SIGKILL)
        if "launcher" in victims:
            serve.launcher.kill()
        if "server" in victims:
            serve.start(*serve.options)
        told = serve.run(session, "kept.append(1); open('x', 'w').write('y' * len(kept)); len(kept)")
        assert (told["status"], told["state"]["was"]) == ("ok", "kept"), told
        assert [f["path"] for f in told["files"]["changed"]] == ["x"]
        if "launcher" in victims:
            serve.launcher.start()
    assert serve.run(session, "len(kept)")["value"]["text"] == "3"
    serve.create("bob")  # the new launcher counts the old one's workers, and starts more
    workers = workers_of(serve.launcher)
    assert len(workers) == 2
    serve.launcher.kill()
    assert serve.call("DELETE", f"/v1/sessions/{session}").status == 204
    wait_until(lambda: sum(alive(pid) for pid in workers) == 1)
    answer = serve.call("POST", "/v1/sessions", {"environment": "data"})
    assert answer.problem(503, "place-failed")["detail"]


def test_warm_sandboxes(serve):
    """They are the launcher's too: one is given to a session under that one's name, and nothing of them stays behind."""
    serve.stop()
    serve.configure(clients=CLIENTS, sessions={"warm": {"data": 1}})
    serve.start(*serve.options)
    wait_until(lambda: "a warm sandbox is ready" in serve.lines())
    session = serve.create()
    assert serve.run(session, "6 * 7")["value"]["text"] == "42"
    assert user_of_worker(serve.launcher, session) >= 1900000000
    serve.stop(signal.SIGKILL)
    serve.configure(clients=CLIENTS)
    serve.start(*serve.options)
    assert serve.run(session, "6 * 7")["state"]["was"] == "kept"


def test_parked_and_back(serve):
    """The checkpoint goes through the worker into the server's own folder, and comes back to another worker as another user's."""
    serve.stop()
    serve.configure(clients=CLIENTS, sessions={"parkSeconds": 1, "checkpointSeconds": 300})
    serve.start(*serve.options)
    session = serve.create()
    serve.run(session, "kept = {'a': 1}\nopen('x', 'w').write('y')")
    wait_until(lambda: serve.call("GET", f"/v1/sessions/{session}").json()["status"] == "parked")
    wait_until(lambda: not list(serve.launcher.workers.iterdir()))
    told = serve.run(session, "kept, open('x').read()")
    assert (told["value"]["text"], told["state"]["was"]) == ("({'a': 1}, 'y')", "restored"), told
    serve.stop()
    serve.configure(clients=CLIENTS)
    serve.start(*serve.options)


def test_the_server_dies_while_sessions_begin(serve):
    """At any step of it: what the next server knows it ends, and what it does not know ends by itself."""
    for names in (1, 2, 3, 4):  # sockets and records
        threads = [threading.Thread(target=begin_session, args=[serve, owner]) for owner in ("alice", "bob")]
        for thread in threads:
            thread.start()
        wait_until(lambda names=names: serve.launcher.workers.is_dir() and len(list(serve.launcher.workers.iterdir())) >= names, step=0.001)
        serve.process.kill()
        for thread in threads:
            thread.join()
        serve.stop()
        serve.start(*serve.options)
        for found in serve.call("GET", "/v1/sessions", token=TOKENS["watcher"]).items():
            assert serve.call("DELETE", f"/v1/sessions/{found['id']}", token=TOKENS["file"]).status == 204
        wait_until(lambda: not list(serve.launcher.workers.iterdir()))


def begin_session(serve, owner):
    """As far as it comes."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        serve.call("POST", "/v1/sessions", {"environment": "data"}, owner)


def test_a_worker_is_killed(serve):
    """By nobody who said so: the session is over, and nothing of it is left."""
    session = serve.create()
    serve.run(session, "1")
    os.kill(workers_of(serve.launcher)[0], signal.SIGKILL)
    wait_until(lambda: not list(serve.launcher.workers.iterdir()))
    assert serve.call("POST", f"/v1/sessions/{session}/executions", {"code": "1"}).status in (200, 404)


def test_a_worker_is_stopped(serve):
    """It does not hear that it should end: the launcher ends it."""
    session = serve.create()
    serve.run(session, "1")
    worker = workers_of(serve.launcher)[0]
    os.kill(worker, signal.SIGSTOP)
    assert serve.call("DELETE", f"/v1/sessions/{session}").status == 204
    wait_until(lambda: not alive(worker), timeout=60)


def test_a_stopped_launcher_holds_up_who_asks_it_and_nobody_else(serve):
    """One owner's session waits for it to begin, and another of his to be gone; what others run meanwhile is answered."""
    living, ended = serve.create("bob"), serve.create()
    serve.run(living, "kept = 41", "bob")
    made = []
    asker = threading.Thread(target=lambda: made.append(serve.call("POST", "/v1/sessions", {"environment": "data"})))
    os.kill(serve.launcher.process.pid, signal.SIGSTOP)
    try:
        assert serve.call("DELETE", f"/v1/sessions/{ended}").status == 204
        asker.start()
        wait_until(lambda: [s["status"] for s in serve.call("GET", "/v1/sessions").items()] == ["starting"])
        assert serve.run(living, "print('here'); kept + 1", "bob")["value"]["text"] == "42"
        assert serve.follow(f"/v1/sessions/{living}/executions", {"code": "kept + 2"}, "bob")[-1][2]["value"]["text"] == "43"
        assert serve.call("GET", f"/v1/sessions/{living}", owner="bob").json()["status"] == "idle"
        assert asker.is_alive(), made
    finally:
        os.kill(serve.launcher.process.pid, signal.SIGCONT)
        asker.join()
    assert made[0].status == 201, made[0].body
    assert serve.run(made[0].json()["id"], "1 + 1")["value"]["text"] == "2"


def test_a_stopped_launcher_that_is_to_be_told_of_cpus(serve, box):
    """Nobody waits for that: neither whose agent's `cpus` has changed nor others. It holds once the launcher goes on."""

    def apply(**limits):
        (box.stack / "stack.yaml").write_text(manifests(4, "reject", **limits))
        subprocess.run([box.binary, "apply", "--yes", "-q", "-f", box.stack], env=box.env, cwd=box.folder, check=True)

    apply(cpus=2)
    asking = serve.call("POST", "/v1/sessions", {"agent": "coder"}).json()["id"]
    living = serve.create("bob")
    assert serve.run(asking, "kept = 1")["status"] == serve.run(living, "kept = 41", "bob")["status"] == "ok"
    folder = family_of(int((serve.launcher.workers / f"{ORDINARY}.{asking}.worker").read_text().split("-")[0]))
    if quota(folder) is None:
        pytest.skip("this machine has no controller of CPUs")
    apply(cpus=1)
    os.kill(serve.launcher.process.pid, signal.SIGSTOP)
    try:
        assert serve.run(asking, "kept + 1")["value"]["text"] == "2"
        assert serve.run(living, "kept + 1", "bob")["value"]["text"] == "42"
        assert quota(folder) == 2000
    finally:
        os.kill(serve.launcher.process.pid, signal.SIGCONT)
    wait_until(lambda: quota(folder) == 1000)


def test_without_a_launcher(box):
    """Refused, and the remedies are named; a launcher whose workers are elsewhere is none for sessions."""
    server = Sessions(box, clients=CLIENTS, shell={"enabled": True})
    server.start("--accept-degraded")
    try:
        assert "no sessions are served" in server.lines() and "--launcher SOCKET" in server.lines()
        # Nothing else is said to be there: neither commands on the host, nor sessions at the end.
        assert "commands run on this host" not in server.lines() and "it serves what was applied, by HTTP" in server.lines()
        assert server.call("GET", "/v1/sessions").status == 404
    finally:
        assert server.stop() == 0


def test_workers_in_another_folder(box, binary):
    folder = Path(tempfile.mkdtemp(prefix="berth-workers-"))  # a socket's path is short
    folder.chmod(0o755)
    elsewhere = Launcher(binary, "--accept-degraded", "--workers", str(folder / "workers"))
    server = Sessions(box, clients=CLIENTS)
    try:
        server.start("--accept-degraded", "--launcher", elsewhere.socket)
        answer = server.call("POST", "/v1/sessions", {"environment": "data"})
        assert f"--workers {elsewhere.workers}" in answer.problem(503, "place-failed")["detail"]
        wait_until(lambda: not list((folder / "workers").iterdir()))
    finally:
        server.stop()
        elsewhere.end()
        shutil.rmtree(folder)


def test_the_cpus_of_an_agent_are_one_quota(serve, box):
    """Held by the launcher, for its client's user alone; a change is told to it, and a launcher that is started again leaves it as it is."""

    def apply(**limits):
        (box.stack / "stack.yaml").write_text(manifests(4, "reject", **limits))
        subprocess.run([box.binary, "apply", "--yes", "-q", "-f", box.stack], env=box.env, cwd=box.folder, check=True)

    apply(cpus=2)
    sessions = [serve.call("POST", "/v1/sessions", {"agent": "coder"}, owner).json()["id"] for owner in ("alice", "bob")]
    assert serve.run(sessions[0], "1")["status"] == serve.run(sessions[1], "1", "bob")["status"] == "ok"
    pids = [int((serve.launcher.workers / f"{ORDINARY}.{s}.worker").read_text().split("-")[0]) for s in sessions]
    folder = family_of(pids[0])
    if quota(folder) is None:
        pytest.skip("this machine has no controller of CPUs")
    assert folder == family_of(pids[1]) and f"/all-{ORDINARY}-" in folder and quota(folder) == 2000
    run = subprocess.run([box.binary, "exec", "--agent", "coder", "-f", box.stack, "--accept-degraded", "--launcher", serve.launcher.socket, "-c", "print(1)"], env=box.env, cwd=box.folder, capture_output=True, check=False)
    assert (run.returncode, run.stdout) == (0, b"1\n"), run
    apply(cpus=1)
    assert serve.run(sessions[0], "1")["status"] == "ok"
    wait_until(lambda: quota(folder) == 1000)
    serve.launcher.kill()
    serve.launcher.start()
    assert serve.run(sessions[0], "1")["status"] == "ok" and quota(folder) == 1000
    (box.stack / "stack.yaml").write_text(stack())
    subprocess.run([box.binary, "apply", "--yes", "-q", "-f", box.stack, "--allow", "has-sessions"], env=box.env, cwd=box.folder, check=False)


def test_workspaces_on_the_launchers_disk(box, binary):
    """Within the kernel's bounds, as without a launcher; files go both ways, and nothing outlives its session."""
    if missing(box.folder):
        pytest.skip(missing(box.folder))
    disk = Path(tempfile.mkdtemp(prefix="berth-disk-", dir=box.folder))
    (box.stack / "stack.yaml").write_text(manifests(4, "reject", memoryMB=256))
    subprocess.run([box.binary, "apply", "--yes", "-q", "-f", box.stack], env=box.env, cwd=box.folder, check=True)
    roots = Launcher(binary, "--accept-degraded", "--disk", str(disk), workers=True)
    server = Sessions(box, clients=CLIENTS)

    def devices():
        found = []
        for file in Path("/sys/block").glob("loop*/loop/backing_file"):
            with contextlib.suppress(OSError):
                found += [file] if str(disk) in file.read_text() else []
        return found

    try:
        server.start("--accept-degraded", "--launcher", roots.socket)
        session = server.call("POST", "/v1/sessions", {"agent": "coder"}).json()["id"]
        if "/workspace ext4" not in server.run(session, "open('/proc/self/mounts').read()")["value"]["text"]:
            pytest.skip("workspaces are in memory here")
        found = server.run(session, FILL)["value"]["text"]
        assert found == repr([QUOTA, [], "0o40700", "half", "No space left on device", False, False]), found
        assert len(devices()) == 1 and list(disk.iterdir()) == []
        assert [f["path"] for f in server.run(session, "open('out', 'w').write('x')")["files"]["changed"]] == ["out"]
        kept = server.state / f"local/lab/workspaces/sessions/{session}/workspace"
        (kept / "in").write_text("from outside")
        os.chown(kept / "in", ORDINARY, ORDINARY)
        assert server.run(session, "open('in').read()")["value"]["text"] == "'from outside'"
        # What is not larger than half of the memory is in memory, and so is every run that ends with its client.
        assert "/workspace tmpfs" in server.run(server.create(), "open('/proc/self/mounts').read()")["value"]["text"]
        roots.kill()
        roots.start()
        assert server.run(session, "open('in').read()")["value"]["text"] == "'from outside'"
        for ended in server.call("GET", "/v1/sessions").items():
            assert server.call("DELETE", f"/v1/sessions/{ended['id']}").status == 204
        wait_until(lambda: devices() == [])
    finally:
        if server.process:
            server.stop()
        roots.end()
