# SPDX-License-Identifier: Apache-2.0
"""What a server without rights may do with the sessions that a launcher places for it, and what it may not, when it is hostile itself."""

import os
import signal

import pytest
from lib.launched import RUN, holding, needs_root, ordinary_client
from lib.launchers import ORDINARY, Launcher
from lib.processes import gone, uid_of, wait_for

# A session's worker with any program instead of the runtime: its client, the socket for files, and the files that tell what it uses.
SESSION = """
import fcntl
def session(launcher, code, marker, name="one", deadline=600000):
    worker, number = start(launcher, name=name, deadlineMs=deadline)
    worker.send(ARGUMENTS, words("python3", "/run/berth/main.py", marker))
    worker.send(VARIABLES, words("PATH", "/usr/bin:/bin"))
    worker.send(RUN, {"deadlineMs": deadline, "waits": False, "session": True, "files": ["main.py"]}, [memory_file(code.encode())])
    return worker, meet(worker)
def meet(worker):
    kind, payload, given = worker.receive()
    assert kind == READY and len(payload) == 24, (kind, payload)
    return given
def files_of(given):
    return Peer(socket.socket(fileno=given[0]))
def answer(files):
    kind, payload, descriptors = files.receive()
    assert not descriptors
    return kind, payload
def ask(files, kind, path):
    files.send(kind, path.encode())
    got = b""
    while True:
        kind, payload = answer(files)
        if kind not in (ENTRIES, CONTENT): return kind
        if not payload: return got.decode()
        got += payload
def put(files, name, text, flag="-"):
    files.send(REPLACE, words(flag, name))
    for piece in (text, b"")[not text:]: files.send(CONTENT, piece)
    return answer(files)[0]
"""
WAITS = "import time\nprint('x', flush=True)\nwhile True: time.sleep(0.1)\n"


@pytest.fixture
def launcher(binary):
    needs_root()
    ours = Launcher(binary, "--accept-degraded", workers=True)
    yield ours
    ours.client("""
import glob
launcher = connect(path)
for name in ("one", "two"):
    launcher.send(CLEAR, {"name": name}); launcher.receive()
print(0)
""")
    assert list(ours.workers.iterdir()) == []
    ours.end()


def test_files_while_the_program_runs(launcher):
    """By the run's user and beneath the workspace alone, whatever the code makes of it meanwhile; descriptors of none of it."""
    marker, outside = f"{RUN}-files", f"{RUN}-outside"
    code = """
import os, socket
os.symlink('/', 'root'); os.symlink('..', 'up'); os.mkfifo('fifo'); os.makedirs('deep/er'); open('deep/er/file', 'w').write('x' * 1000000)
socket.socket(socket.AF_UNIX).bind('sock'); open('closed', 'w').close(); os.chmod('closed', 0); os.mkdir('shut'); os.chmod('shut', 0)
""" + WAITS  # fmt: skip
    told = launcher.client(SESSION + f"""
worker, given = session(connect(path), {code!r}, {marker!r})
kind, payload, _ = worker.receive()
assert kind == TOLD
files = files_of(given)
names = ["root/etc/passwd", "root", "up/x", "../x", "/etc/passwd", "fifo", "sock", "closed", "deep", "nothing", "", "."]
print(json.dumps({{
    "given": [os.readlink(f"/proc/self/fd/{{fd}}").split("/")[-1].split(":")[0] for fd in given],
    "flags": [fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE for fd in given[1:]],
    "listed": sorted(word.split(" ", 5)[5] for word in ask(files, LIST, "").split("\\0") if word),
    "read": len(ask(files, READ, "deep/er/file")),
    "unread": [ask(files, READ, name) for name in names],
    "unlisted": [ask(files, LIST, name) for name in ("root", "up", "..", "/", "fifo", "shut", "deep/er/file")],
    "refused": [put(files, name, b"x") for name in ("root/tmp/{outside}", "up/x", "../x", "/tmp/{outside}", "", ".", "a//b", "deep/er", "fifo/x")],
    "removed": [ask(files, REMOVE, name) for name in ("root/tmp", "..", "/", "up/x", "deep", "")],
    "folders": [ask(files, FOLDER, name) for name in ("root/tmp/{outside}", "../x", "/{outside}", "fifo/x", "")],
    "put": [put(files, "deep/in", b"y"), put(files, "link/x", b"y"), put(files, "fifo", b"z"), put(files, "empty", b"")],
    "content": [ask(files, READ, "deep/in"), ask(files, READ, "fifo"), ask(files, READ, "empty")],
}}))
""")
    assert told["given"][0] == "socket" and told["flags"] in ([], [os.O_RDONLY] * 4)
    assert len(told["given"]) in (1, 5) and not [name for name in told["given"][1:] if name in ("workspace", "")]
    assert told["listed"] == ["closed", "deep", "fifo", "root", "shut", "sock", "up"] and told["read"] == 1000000
    assert told["unread"] == [16] * 12 and told["unlisted"] == [16] * 7  # ABSENT
    assert told["refused"] == [9] * 9 and set(told["removed"]) <= {9, 11} and told["removed"][4] == 9  # FAILED; a link's own name is not there
    assert told["folders"] == [9] * 5
    assert told["put"] == [11] * 4 and told["content"] == ["y", "z", ""]
    assert not os.path.exists(f"/tmp/{outside}") and not os.path.exists(f"/{outside}")


def test_a_client_that_holds_up_its_files_holds_up_nothing_else(launcher):
    """It asks and does not read, sends halves, floods: the program's stream goes on, the end comes at once, and nothing is left."""
    marker = f"{RUN}-holds"
    told = launcher.client(SESSION + f"""
launcher = connect(path)
code = "open('large', 'wb').write(b'x' * (8 << 20))\\n" + {WAITS!r}.replace("time.sleep(0.1)", "(time.sleep(0.1), print('y', flush=True))")
worker, given = session(launcher, code, {marker!r})
assert worker.receive()[0] == TOLD
files = files_of(given)
files.send(READ, b"large")           # and does not read it
streams = [worker.receive()[0] for _ in range(5)]
flood = 0
files.socket.setblocking(False)
try:
    while flood < (64 << 20): flood += files.socket.send(b"\\xff" * 65536)
except BlockingIOError: pass
streams += [worker.receive()[0] for _ in range(5)]
second = connect({str(launcher.workers)!r} + "/{ORDINARY}.one")
other = files_of(meet(second))       # who comes next has a socket of his own
size = len(ask(other, READ, "large"))
other.send(REPLACE, words("-", "half")); other.send(CONTENT, b"x" * 1000)
other.socket.close()                 # in the middle
third = connect({str(launcher.workers)!r} + "/{ORDINARY}.one")
again = files_of(meet(third))
left = "half" in ask(again, LIST, "")
third.send(CANCEL)
while True:
    kind, payload, _ = third.receive()
    if kind == ENDED: break
after = ask(again, LIST, "") != ABSENT
third.send(TAKEN)
while third.receive(): pass
print(json.dumps([streams, flood < (8 << 20), size, left, after]))
""")
    assert told == [[19] * 10, True, 8 << 20, False, True]
    assert gone(marker)
    wait_for(lambda: True if not list(launcher.workers.iterdir()) else None)


def test_a_disk_that_is_full(launcher):
    """What does not fit is said, and nothing of it stays; the run's own quota holds for what is put in."""
    told = launcher.client(SESSION + f"""
worker, given = session(connect(path), {WAITS!r}, {RUN!r} + "-full")
files = files_of(given)
large = b"x" * (1 << 20)
files.send(REPLACE, words("-", "large"))
for _ in range(40): files.send(CONTENT, large)   # of 16 MB
files.send(CONTENT)
kind, why = answer(files)
small = [put(files, f"small/{{n}}", b"x") for n in range(2000)]   # of 1,000 files
print(json.dumps([kind, why.decode(), "large" in ask(files, LIST, ""), small.count(DONE) < 1000, small[-1], ask(files, REMOVE, "small/0"), put(files, "last", b"x")]))
""")
    assert told[0] == 9 and "workspaceStorageMB" in told[1]
    assert told[2:] == [False, True, 9, 11, 11]


def test_an_end_at_any_point_leaves_nothing(launcher):
    """Of the client, before it has said all: a worker that nobody can use is no worker. A stopped one is cleared away by its name."""
    for said in ("", "worker.send(ARGUMENTS, words('true'))", "worker.send(ARGUMENTS, words('true')); worker.send(VARIABLES, b'')", "worker.socket.sendall(b'\\x07')"):
        launcher.client(f"worker, _ = start(connect(path), name='one')\n{said}\nprint(0)")
        wait_for(lambda: True if not list(launcher.workers.iterdir()) else None)
    marker = f"{RUN}-stopped"
    lines = f"path = {launcher.socket!r}\n{SESSION}\nsession(connect(path), {WAITS!r}, {marker!r}); print(1, flush=True); import time; time.sleep(600)\n"
    with holding(ordinary_client(launcher), lines) as output:
        assert output.readline() == b"1\n"
        wait_for(lambda: uid_of(marker))
    worker = int((launcher.workers / f"{ORDINARY}.one.worker").read_text().split("-")[0])
    os.kill(worker, signal.SIGSTOP)
    launcher.kill()
    launcher.start()
    assert launcher.client("launcher = connect(path); launcher.send(CLEAR, {'name': 'one'}); print(launcher.receive()[0])") == 36
    assert gone(marker) and list(launcher.workers.iterdir()) == []
