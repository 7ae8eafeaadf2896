# SPDX-License-Identifier: Apache-2.0
"""The workspace that an agent has for an owner: what its containers for him share, by the kernel's measure, and he reads and writes by HTTP."""

import concurrent.futures
import contextlib
import fcntl
import http.client
import json
import os
import shutil
import signal
import tempfile
import urllib.parse
from pathlib import Path

import pytest

import stacks
from binary import ROOT
from controllers import PATIENCE, wait_until
from lib.containers import AGENTS, CLIENTS, Containers, kill_server, kill_workers, loops, served
from lib.lab import TOKENS, client, stack
from lib.launched_sessions import box  # noqa: F401
from lib.launchers import Launcher, as_the_unit

BOTH = client("users", actsFor="users", realm="company", may=["execute", "containers"])
HERE = "/v1/workspaces/agent:analyst"


@pytest.fixture
def serve(offline):
    yield from served(offline, [BOTH, *(c for c in CLIENTS if c["name"] != "users")])


def files(serve, owner=None, agent="analyst"):
    answer = serve.call("GET", f"/v1/workspaces/agent:{agent}/files", owner=owner)
    assert answer.status == 200, answer.body
    return {item["path"]: item["bytes"] for item in answer.items()}


def images(serve):
    return [Path(folder) / name for folder, _, names in os.walk(serve.state) for name in names if name == "disk"]


def test_containers_of_a_pair_have_one_workspace(serve):
    """It outlives them, and the server."""
    assert serve.finish("sh", "-c", "mkdir d; echo one >d/f; chmod +x d/f")["exitCode"] == 0
    kept = serve.service("sh", "-c", "while :; do sleep 1; done")
    assert serve.exec(kept, "cat", "d/f")["stdout"]["content"] == "one\n"
    assert serve.finish("sh", "-c", "echo two >>d/f; cat d/f")["stdout"] == "one\ntwo\n"
    assert serve.exec(kept, "cat", "d/f")["stdout"]["content"] == "one\ntwo\n"
    serve.stop()
    serve.start("--accept-degraded")
    assert serve.exec(kept, "sh", "-c", "cat d/f; echo three >>d/f")["stdout"]["content"] == "one\ntwo\n"
    serve.order(kept, "stop", 200)
    assert serve.finish("cat", "d/f")["stdout"] == "one\ntwo\nthree\n"


def test_who_else_has_another(serve):
    """Another owner, or another agent of the same one: neither sees it, inside or by HTTP."""
    serve.finish("sh", "-c", "echo mine >f")
    for owner, agent in (("bob", "analyst"), ("alice", "small")):
        found = serve.finish("sh", "-c", "ls -A; echo theirs >g; ls -A", owner=owner, agent=agent)
        assert found["stdout"] == "g\n"
        assert files(serve, owner, agent) == {"g": 7}
    assert files(serve) == {"f": 5}
    never = serve.call("GET", "/v1/workspaces/s-" + "a" * 26)
    for absent in ("agent:analyst", "agent:no-such", "agent:", "agent:..", "agent:%2e%2e", "agent:" + "a" * 70):
        for path in ("", "/files", "/files/f", "/archive"):
            answer = serve.call("GET", f"/v1/workspaces/{absent}{path}", owner="carol")
            assert answer.status == 404 and (path or answer.body == never.body), (absent, path, answer.body)
    assert serve.call("PUT", "/v1/workspaces/agent:no-such/files/f", b"x").problem(404, "not-found")
    assert serve.call("GET", HERE, token=TOKENS["narrow"], owner=None).problem(404, "not-found")


def test_by_http_as_a_sessions(serve):
    """Put before any container is there, read while one writes, listed, deleted, removed as a whole."""
    assert serve.call("GET", HERE).problem(404, "not-found")
    put = serve.call("PUT", f"{HERE}/files/in/data.csv", b"1,2\n")
    assert put.status == 201 and serve.call("PUT", f"{HERE}/files/in/data.csv", b"1,2,3\n").status == 200
    done = serve.finish("sh", "-c", "cat in/data.csv; echo more >>in/data.csv; mkdir out; head -c 100000 /dev/zero >out/z; ln -s /etc/passwd out/link")
    assert done["stdout"] == "1,2,3\n"
    assert files(serve) == {"in/data.csv": 11, "out/z": 100000}
    got = serve.call("GET", f"{HERE}/files/in/data.csv")
    assert (got.status, got.body) == (200, b"1,2,3\nmore\n") and got.headers["content-disposition"].startswith("attachment")
    assert serve.call("GET", f"{HERE}/files/out/link").problem(404, "not-found")
    shown = serve.call("GET", HERE).json()
    assert (shown["id"], shown["agent"], shown["owner"], shown["environment"]) == ("agent:analyst", "analyst", "company/alice", "data")
    assert shown["bytes"] == 100011
    kept = serve.service("sh", "-c", "while :; do sleep 1; done")
    assert serve.call("PUT", f"{HERE}/files/in/live", b"at once").status == 201
    assert serve.exec(kept, "cat", "in/live")["stdout"]["content"] == "at once"
    assert serve.exec(kept, "sh", "-c", "echo x >>in/live; rm -r out")["exitCode"] == 0
    assert serve.call("GET", f"{HERE}/files/in/live").body == b"at oncex\n" and serve.call("GET", HERE).json()["bytes"] == 20
    assert serve.call("DELETE", f"{HERE}/files/in/data.csv").status == 204
    assert serve.call("DELETE", HERE).problem(409, "has-sessions")
    serve.call("DELETE", f"/v1/containers/{kept}")
    if images(serve):  # somebody reads in it, and takes his time; a plain folder goes all the same
        assert serve.call("PUT", f"{HERE}/files/large", b"x" * (20 << 20)).status == 201
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", serve.port, timeout=60 * PATIENCE)) as slow:
            slow.request("GET", f"{HERE}/files/large", headers={"Authorization": f"Bearer {TOKENS['users']}", "Berth-Owner": "alice"})
            assert slow.getresponse().status == 200
            wait_until(lambda: serve.call("DELETE", HERE).json()["code"] == "busy")
    wait_until(lambda: serve.call("DELETE", HERE).status == 204)
    assert serve.call("GET", HERE).problem(404, "not-found") and images(serve) == []
    assert serve.finish("ls", "-A")["stdout"] == ""


def test_they_are_in_the_list(serve):
    """Their owner's, before those of sessions, page by page; none that was not made, and nobody else's."""
    def listed(query="?limit=1000", owner=None):
        return [space["id"] for space in serve.call("GET", f"/v1/workspaces{query}", owner=owner).items()]

    assert listed() == []
    assert serve.call("PUT", f"{HERE}/files/a", b"x").status == 201
    assert serve.call("PUT", "/v1/workspaces/agent:small/files/a", b"x").status == 201
    session = serve.create()
    assert listed() == ["agent:analyst", "agent:small", session] and listed(owner="bob") == []
    pages, cursor = [], ""
    for _ in range(3):
        page = serve.call("GET", f"/v1/workspaces?limit=1{cursor}").json()
        pages += [space["id"] for space in page["items"]]
        cursor = f"&cursor={page['cursor']}"
    assert pages == ["agent:analyst", "agent:small", session] and page["cursor"] is None
    assert serve.call("DELETE", f"/v1/sessions/{session}").status == 204
    for space in ("analyst", "small"):
        wait_until(lambda: serve.call("DELETE", f"/v1/workspaces/agent:{space}").status == 204)
    assert listed() == [session]


def listed_by(serve, query="", token="watcher"):
    answer = serve.call("GET", f"/v1/workspaces?limit=1000{query}", token=TOKENS[token])
    assert answer.status == 200, answer.body
    return [(space["id"], space["owner"]) for space in answer.items()]


def test_who_observes_sees_every_owners(serve):
    """Of one agent there are several, and a page may end between them."""
    every = [("agent:analyst", "company/alice"), ("agent:analyst", "company/bob"), ("agent:small", "company/alice")]
    for space, owner in every:
        assert serve.call("PUT", f"/v1/workspaces/{space}/files/a", b"x", owner=owner.partition("/")[2]).status == 201
    assert sorted(listed_by(serve)) == every and [space for space, _ in listed_by(serve)] == [space for space, _ in every]
    pages, cursor = [], ""
    while cursor is not None:
        page = serve.call("GET", f"/v1/workspaces?limit=1{cursor and '&cursor=' + urllib.parse.quote(cursor)}", token=TOKENS["watcher"]).json()
        pages += [(space["id"], space["owner"]) for space in page["items"]]
        cursor = page["cursor"]
    assert pages == listed_by(serve)
    # Who may use a part of it sees that part.
    assert listed_by(serve, token="narrow") == []


def test_the_index_is_made_anew(serve):
    """Where it is missing, or not true: damaged, of a workspace that is gone, or of another owner's."""
    for owner in ("alice", "bob", "carol", "dave"):
        assert serve.call("PUT", f"{HERE}/files/a", b"x", owner=owner).status == 201
    every, known = listed_by(serve), {}
    if not images(serve):
        pytest.skip("no file system on a disk can be had here")
    for index in serve.state.rglob("agents/*/analyst/*/session.json"):
        known[json.loads(index.read_text())["owner"]] = index
    assert sorted(known) == sorted(owner for _, owner in every)
    kill_server(serve)
    known["company/alice"].unlink()
    known["company/bob"].write_text("{")
    carols = known["company/carol"].read_text()
    known["company/carol"].write_text(carols.replace("company/carol", "company/eve"))
    (known["company/dave"].parent / "disk").unlink()
    serve.start("--accept-degraded")
    assert listed_by(serve) == [(space, owner) for space, owner in every if owner != "company/dave"]
    assert known["company/carol"].read_text() == carols and not known["company/dave"].parent.exists()
    # One that goes while the server runs is not told of either.
    (known["company/carol"].parent / "disk").unlink()
    assert ("agent:analyst", "company/carol") not in listed_by(serve)


def test_what_owners_have_together(offline):
    """An image counts with all its room, for sessions' files and for the next one, whoever asks for that, and for its owner alone."""
    second = stacks.document("Agent", "single", {"environment": "tight", "limits": {"containers": 1}})
    offline.write("stack.yaml", stack(*AGENTS, *TIGHT, second))
    offline("apply", "--yes").expect(0)
    serve = Containers(offline, clients=[BOTH, *(c for c in CLIENTS if c["name"] != "users")], workspaces={"perOwnerMB": 600})
    serve.start("--accept-degraded")
    assert serve.call("PUT", "/v1/workspaces/agent:tight/files/a", b"x").status == 201
    if not images(serve):
        assert serve.stop() == 0
        pytest.skip("no file system on a disk can be had here")
    session = serve.create()
    assert serve.call("PUT", f"/v1/workspaces/{session}/files/f", b"y" * 80 * MB).status == 201
    assert serve.call("PUT", f"/v1/workspaces/{session}/files/g", b"y" * 10 * MB).problem(507, "workspace-full")
    assert serve.call("PUT", f"{HERE}/files/a", b"x").problem(507, "workspace-full")
    refused = serve.call("POST", "/v1/containers", {"agent": "analyst", "command": ["true"], "waitSeconds": 60})
    assert refused.problem(507, "workspace-full")
    assert serve.finish("cat", "a", agent="tight")["stdout"] == "x"
    assert serve.finish("true", agent="tight", owner="bob")["exitCode"] == 0
    # There was room when it came into line, and there is none when its turn comes.
    holds = serve.service("sleep", "600", agent="single", owner="carol")
    waits = serve.make("true", agent="single", owner="dave")["id"]
    assert serve.show(waits, "dave")["status"] == "queued"
    assert serve.finish("true", agent="tight", owner="dave")["exitCode"] == 0
    assert serve.call("DELETE", f"/v1/containers/{holds}", owner="carol").status == 204
    late = serve.wait_for(waits, "exited", "dave")
    assert late["exitCode"] is None and f"{600 * MB} bytes together" in late["detail"], late
    for owner, agent in (("carol", "single"), ("dave", "tight")):
        wait_until(lambda o=owner, a=agent: serve.call("DELETE", f"/v1/workspaces/agent:{a}", owner=o).status == 204)
    swept = offline("sweep", "--json").expect(0).json()
    assert [(a["agent"], a["owner"], a["environment"], a["bytes"]) for a in sorted(swept["agents"], key=lambda a: a["owner"])] == [
        ("tight", "company/alice", "tight", 512 * MB),
        ("tight", "company/bob", "tight", 512 * MB),
    ]
    said = offline("sweep").expect(0).out
    assert "agent:tight  of company/alice" in said and f"2 workspaces of agents, which take up {1024 * MB} bytes" in said
    wait_until(lambda: serve.call("DELETE", "/v1/workspaces/agent:tight").status == 204)
    assert serve.call("PUT", f"/v1/workspaces/{session}/files/g", b"y" * 10 * MB).status == 201
    assert serve.stop() == 0


def test_copies_to_and_from_a_session(serve):
    serve.finish("sh", "-c", "echo result >r")
    session = serve.create()
    body = {"from": {"workspace": "agent:analyst", "paths": ["r"]}}
    copied = serve.call("POST", f"/v1/workspaces/{session}/copy", body)
    assert copied.status == 200, copied.body
    assert serve.call("GET", f"/v1/workspaces/{session}/files/r").body == b"result\n"
    serve.call("PUT", f"/v1/workspaces/{session}/files/s", b"back")
    assert serve.call("POST", f"{HERE}/copy", {"from": {"workspace": session, "paths": ["s"]}}).status == 200
    assert serve.finish("cat", "s")["stdout"] == "back"
    assert serve.call("DELETE", f"/v1/sessions/{session}").status == 204


MB = 1 << 20
TIGHT = [
    stacks.environment("tight", workspaceStorageMB=512),
    stacks.document("Agent", "tight", {"environment": "tight", "limits": {"memoryMB": 128}}),
    stacks.document("Agent", "roomy", {"environment": "tight"}),
]
WRITE = """import os
for n in range(500):
    for name in ("all", os.environ["N"]):
        with open(name, "a") as file:
            file.write(f"{os.environ['N']} {n}\\n")"""
HOSTILE = """import os
os.symlink("/etc", "etc")
os.symlink("../session.json", "who")
os.mkfifo("pipe")
os.mkdir("..evil")
os.mkdir("shut")
for name in ("..evil/f", "shut/f", "\x1b[31mred", "ok"):
    open(name, "w").write("ok")
os.chmod("shut", 0)
print(os.path.exists("../session.json"), sorted(os.listdir("..")) == sorted(os.listdir("/")))"""
FILL = """import os
written = 0
try:
    with open(os.environ["NAME"], "wb", buffering=0) as file:
        while True:
            written += file.write(b"x" * (1 << 20))
except OSError as error:
    print(written, error.strerror)"""


def test_the_kernel_holds_its_quota(offline, serve):
    """All containers of the pair have one, on a disk, and the next pair another."""
    offline.write("stack.yaml", stack(*AGENTS, *TIGHT))
    offline("apply", "--yes").expect(0)
    kept = serve.service("sh", "-c", "while :; do sleep 1; done", agent="tight")
    if "/workspace ext4" not in serve.exec(kept, "cat", "/proc/mounts")["stdout"]["content"]:
        pytest.skip("no file system on a disk can be had here")

    def fill(name, owner=None):
        written, why = serve.finish(code=FILL, variables={"NAME": name}, agent="tight", owner=owner)["stdout"].split(None, 1)
        assert why == "No space left on device\n"
        return int(written)

    first = fill("a")
    assert 500 * MB < first <= 512 * MB and fill("b") < MB
    assert 500 * MB < fill("a", owner="bob") <= 512 * MB
    assert serve.call("PUT", "/v1/workspaces/agent:tight/files/c", b"y" * 16 * MB).problem(507, "workspace-full")
    assert serve.exec(kept, "rm", "a")["exitCode"] == 0 and 500 * MB < fill("c") <= 512 * MB
    # Nor may there be files without number, which cost no block. What the kernel knows of 200,000 counts as memory until the disk has it.
    code = "import os\nfor i in range(10**6):\n  os.close(os.open(f'e{i}', os.O_CREAT))"
    made = serve.finish("python3", "-c", code, agent="roomy", owner="carol", timeoutSeconds=280)
    assert made["exitCode"] == 1 and "No space left on device" in made["stderr"], made


def test_ten_that_write_at_once(serve):
    """Each line is there once, in one file and in each one's own."""
    code = WRITE
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        ended = list(pool.map(lambda n: serve.finish(code=code, variables={"N": str(n)}), range(10)))
    assert [(one["exitCode"], one["stderr"]) for one in ended] == [(0, "")] * 10
    lines = serve.call("GET", f"{HERE}/files/all").body.decode().splitlines()
    assert sorted(lines) == sorted(f"{n} {i}" for n in range(10) for i in range(500))
    for n in range(10):
        assert serve.call("GET", f"{HERE}/files/{n}").body.decode().splitlines() == [f"{n} {i}" for i in range(500)]


def test_a_death_of_everything_but_the_kernel(serve):
    """What was written stays, and one file system is never mounted as two."""
    kept = serve.service("sh", "-c", "i=0; while :; do i=$((i + 1)); echo $i >>n; sync n; sleep 0.05; done")
    for _ in range(3):
        wait_until(lambda: files(serve).get("n", 0) > 40, timeout=30 * PATIENCE)
        before = serve.call("GET", f"{HERE}/files/n").body
        kill_server(serve)
        kill_workers(kept)
        serve.start("--accept-degraded")
        serve.wait_for(kept, "running")
        assert serve.finish("cat", "n")["stdout"].encode().startswith(before)
        serve.call("DELETE", f"{HERE}/files/n")
    assert len({device for device, image in loops() if str(serve.state) in image}) <= 1


def test_hostile_files_are_data(serve):
    """Links, devices' names, folders of great depth: by HTTP nothing outside is reached, and nothing breaks."""
    assert serve.finish(code=HOSTILE)["stdout"] == "False True\n"
    found = files(serve)
    assert found["ok"] == 2 and not {"etc", "who", "pipe"} & set(found)
    for name in ("etc/passwd", "who", "pipe", "../session.json", "..%2fsession.json", "%2e%2e/session.json"):
        assert serve.call("GET", f"{HERE}/files/{name}").status in (400, 404), name
    assert serve.call("GET", f"{HERE}/archive").status == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="only root looks at whose the folders are")
def test_one_that_another_could_have_put_there(serve):
    """It is neither opened nor removed, no container has another in its place, and what to do is said; then it is as it was."""
    assert serve.call("PUT", f"{HERE}/files/a", b"x").status == 201
    (above,) = (path.parent for path in serve.state.rglob("workspaces/agents"))
    serve.stop()
    os.chown(above, 61234, -1)
    serve.start("--accept-degraded")
    refused = serve.call("POST", "/v1/containers", {"agent": "analyst", "command": ["true"], "waitSeconds": 60})
    assert refused.status == 503 and f"{above} belongs to user 61234" in refused.json()["detail"], refused.body
    for answer in (serve.call("DELETE", HERE), serve.call("GET", f"{HERE}/files/a")):
        assert answer.status >= 500 and "only root may write" in answer.json()["detail"], answer.body
    os.chown(above, 0, -1)
    assert serve.finish("cat", "a")["stdout"] == "x"


@pytest.mark.skipif(os.geteuid() != 0, reason="it makes servers of other users")
def test_an_ordinary_users(box):  # noqa: F811
    """A plain folder, whose size nobody holds: only where that is accepted, and the refusal says what to do."""
    serve = Containers(box, clients=[BOTH, *(c for c in CLIENTS if c["name"] != "users")], sessions={"sharedUser": True})
    serve.agent = "reader"
    serve.start("--accept-degraded")
    assert serve.finish("sh", "-c", "echo one >f; mkdir -p shut/in; ls -A; chmod 0 shut")["stdout"] == "f\nshut\n"
    assert files(serve, agent="reader") == {"f": 4}
    serve.call("PUT", "/v1/workspaces/agent:reader/files/g", b"put")
    assert serve.finish("cat", "f", "g")["stdout"] == "one\nput" and serve.finish("ls", "-A", owner="bob")["stdout"] == ""
    assert serve.finish("cat", "/proc/mounts")["stdout"].count(" /workspace ") == 1
    # What a killed server was writing goes, and what a living one writes stays.
    (incoming,) = (path for path in serve.state.rglob("agents/*/reader/*/incoming") if (path.parent / "workspace/g").exists())
    left, written = incoming / "left", incoming / "written"
    left.write_bytes(b"x" * 4096)
    with open(written, "wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert serve.finish("true")["exitCode"] == 0
        assert not left.exists() and written.exists()
    assert serve.stop() == 0
    serve.start()
    refused = serve.call("POST", "/v1/containers", {"agent": "reader", "command": ["true"], "waitSeconds": 60})
    assert refused.status == 503 and ("--accept-degraded" in refused.json()["detail"] or "limits cannot be enforced" in refused.json()["detail"]), refused.body
    assert serve.stop() == 0
    serve.start("--accept-degraded")
    assert serve.call("DELETE", "/v1/workspaces/agent:reader").status == 204
    assert serve.finish("ls", "-A")["stdout"] == "" and serve.stop() == 0


# Makes file systems that stay once it is told to, and others at once.
SLOW = """#!/bin/sh
case "$*" in *has_journal*) touch {folder}/began; while [ ! -e {folder}/go ]; do sleep 0.05; done;; esac
exec {folder}/mke2fs "$@"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a launcher has root's rights")
def test_a_slow_disk_holds_up_who_wants_it_alone(box, binary):  # noqa: F811
    """While a workspace is made for one owner, another begins a session and runs in it."""
    tool = next(Path(folder) / "mke2fs" for folder in ("/usr/sbin", "/sbin", "/usr/bin", "/bin") if (Path(folder) / "mke2fs").exists()).resolve()
    disk = Path(tempfile.mkdtemp(prefix="berth-disk-"))
    slow = disk / "slow"
    slow.write_text(SLOW.format(folder=disk))
    slow.chmod(0o755)
    shutil.copy(tool, disk / "mke2fs")
    before = ["unshare", "--mount", "sh", "-c", f'mount --bind {slow} {tool} && exec "$@"', "sh"]
    launcher = Launcher(binary, "--accept-degraded", "--disk", str(disk), before=before, workers=True)
    serve = Containers(box, clients=[BOTH, *(c for c in CLIENTS if c["name"] != "users")])
    serve.agent = "reader"
    try:
        serve.start("--accept-degraded", "--launcher", launcher.socket)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            puts = [pool.submit(serve.call, "PUT", "/v1/workspaces/agent:reader/files/a", b"x", owner) for owner in ("alice", "carol")]
            wait_until(lambda: (disk / "began").exists())
            session = serve.create(environment="web", owner="bob")
            ran = serve.call("POST", f"/v1/sessions/{session}/executions", {"code": "print(6 * 7)", "language": "python"}, owner="bob").json()
            assert (ran["status"], ran["stdout"]["content"]) == ("ok", "42\n"), ran
            assert not any(put.done() for put in puts)
            (disk / "go").touch()
            assert [put.result().status for put in puts] == [201, 201]
        assert serve.call("DELETE", f"/v1/sessions/{session}", owner="bob").status == 204
        assert serve.call("DELETE", f"/v1/workspaces/{session}", owner="bob").status == 204
        assert serve.finish("cat", "a")["stdout"] == "x"
        for owner in ("alice", "carol"):
            wait_until(lambda: serve.call("DELETE", "/v1/workspaces/agent:reader", owner=owner).status == 204)
        serve.stop()
    finally:
        if serve.process:
            serve.stop()
        launcher.end()
        wait_until(lambda: not any(str(disk) in image for _, image in loops()))
        shutil.rmtree(disk)


@pytest.mark.skipif(os.geteuid() != 0, reason="a launcher has root's rights")
def test_with_a_launcher(box, binary):  # noqa: F811
    """
    On its disk, and the server, which has no rights, reads and writes all the same; without a disk each container has its own. The launcher
    has the rights of its unit.
    """
    unit = as_the_unit((ROOT / "examples/launcher/berth-launcher.service").read_text())
    disk = Path(tempfile.mkdtemp(prefix="berth-disk-"))
    launcher = Launcher(binary, "--accept-degraded", "--disk", str(disk), "--kept-each", "2", before=unit, workers=True)
    serve = Containers(box, clients=[BOTH, *(c for c in CLIENTS if c["name"] != "users")])
    serve.agent = "reader"
    try:
        serve.start("--accept-degraded", "--launcher", launcher.socket)
        path = "/v1/workspaces/agent:reader"
        assert serve.call("PUT", f"{path}/files/in", b"put").status == 201
        assert serve.finish("sh", "-c", "cat in; echo one >f; mkdir -m 0 shut; id -u >who")["stdout"] == "put"
        assert "/workspace ext4" in serve.finish("cat", "/proc/mounts")["stdout"]
        assert set(files(serve, agent="reader")) == {"in", "f", "who"} and serve.finish("ls", "-A", owner="bob")["stdout"] == ""
        kept = serve.service("sh", "-c", "while :; do sleep 1; done")
        assert serve.exec(kept, "sh", "-c", "cat f; echo two >>f")["stdout"]["content"] == "one\n"
        assert serve.call("GET", f"{path}/files/f").body == b"one\ntwo\n"
        assert [p.stat().st_uid for p in (disk / "kept").iterdir()] == [0] and (disk / "kept").stat().st_mode & 0o077 == 0
        over = serve.call("PUT", f"{path}/files/in", b"put", owner="carol")
        assert over.status >= 500 and "--kept-each" in over.json()["detail"], over.body
        assert serve.call("DELETE", path).problem(409, "has-sessions")
        # To list them nobody is asked; what the index lacks the next server learns.
        both = [("agent:reader", "company/alice"), ("agent:reader", "company/bob")]
        launcher.process.send_signal(signal.SIGSTOP)
        found = listed_by(serve)
        launcher.process.send_signal(signal.SIGCONT)
        assert sorted(found) == both
        assert serve.stop() == 0
        for number, index in enumerate(serve.state.rglob("agents/*/reader/*/session.json")):
            index.write_text("{}") if number else shutil.rmtree(index.parent)
        serve.start("--accept-degraded", "--launcher", launcher.socket)
        assert sorted(listed_by(serve)) == both
        assert serve.call("DELETE", f"/v1/containers/{kept}").status == 204
        wait_until(lambda: serve.call("DELETE", path).status == 204)
        assert [p for p in disk.rglob("disk")] != [] and len(list(disk.rglob("disk"))) == 1  # bob's
        assert listed_by(serve) == both[1:]
        serve.stop()
    finally:
        if serve.process:
            serve.stop()
        launcher.end()
        wait_until(lambda: not any(str(disk) in image for _, image in loops()))
        shutil.rmtree(disk)
