# SPDX-License-Identifier: Apache-2.0
"""
Sessions over HTTP: how soon one runs code, what a request costs beside the kernel itself and beside Jupyter's kernel gateway,
streams, hundreds of sessions at once, and what a parked one costs.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import time

import jupyter
import sandboxes
from common import OFFLINE, ROOT, WORK, run

sys.path.insert(1, str(ROOT / "tests" / "e2e"))  # before what PyPI has of the same name

SERVED = []  # servers that were started
FOLDER = WORK / "sessions"
PATIENCE_S = 120
STILL_S = 30
SETTLED_S = 3  # the server gives memory back within two seconds
OWNERS = ("bench", "large", "small")
RUNAWAY_LIMITS = {"cpus": 1, "memoryMB": 512, "containers": 6}
TOKEN = hashlib.sha256(b"bench").hexdigest()
COLD, FIRST_BYTE_MS, WARM_MS, OVER_KERNEL_MS, PEER, FAIR, PARKED_KIB, MEMORY_MB = 1.5, 20, 5, 1, 10, 2, 2, 64


def verdict(within, budget):
    return f"{'within' if within else 'OVER'} the budget of {budget}"


def say(name, ours, beside, judged):
    print(f"{name:<35} {ours:>14}   {beside:<37} {judged}", flush=True)


class Client:
    """One connection that is kept, and as little of a client as can be: bytes out, and bytes in up to an answer's end."""

    def __init__(self, port, owner="bench"):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.owner, self.pending = owner, b""

    def close(self):
        self.socket.close()

    def request(self, method, path, body=None, accept=None):
        data = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nBerth-Owner: {self.owner}\r\n"
            + (f"Accept: {accept}\r\n" if accept else "")
            + (f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n" if body is not None else "")
        )
        return head.encode() + b"\r\n" + data

    def fill(self):
        piece = self.socket.recv(1 << 16)
        if not piece:
            raise RuntimeError("the server has closed the connection")
        self.pending += piece

    def answer(self):
        """The status and the body, whose length the head says."""
        while (end := self.pending.find(b"\r\n\r\n")) < 0:
            self.fill()
        head = self.pending[:end].decode().lower()
        found = re.search(r"content-length: (\d+)", head)
        size = end + 4 + (int(found.group(1)) if found else 0)
        while len(self.pending) < size:
            self.fill()
        body, self.pending = self.pending[end + 4 : size], self.pending[size:]
        return int(head[9:12]), body

    def ask(self, method, path, body=None):
        self.socket.sendall(self.request(method, path, body))
        return self.answer()

    def must(self, method, path, body=None):
        status, answer = self.ask(method, path, body)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {answer.decode()[-500:]}")
        return json.loads(answer) if answer else None

    def create(self, environment="cold"):
        return self.must("POST", "/v1/sessions", {"environment": environment})["id"]

    def run(self, session, code):
        return self.must("POST", f"/v1/sessions/{session}/executions", {"code": code})

    def end(self, session):
        self.must("DELETE", f"/v1/sessions/{session}")

    def lines(self):
        """Of a stream: each piece of bytes as it comes, to the end."""
        while b"event: done" not in self.pending or not self.pending.endswith(b"0\r\n\r\n"):
            self.fill()
            yield self.pending
        self.pending = b""


def manifests(sessions):
    (FOLDER / "stack.yaml").write_text(
        "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: bench}\nspec: {provider: local}\n"
        + "".join(
            f"---\napiVersion: berth/v1\nkind: Environment\nmetadata: {{name: {name}}}\nspec: {{image: {{prebuilt: python}}}}\n"
            for name in ("cold", "warm")
        )
        + "---\napiVersion: berth/v1\nkind: Agent\nmetadata: {name: bench}\nspec: {type: general, environment: cold}\n"
        + "---\napiVersion: berth/v1\nkind: Agent\nmetadata: {name: runaway}\n"
        + f"spec: {{type: general, environment: cold, limits: {json.dumps(RUNAWAY_LIMITS)}}}\n"
    )
    (FOLDER.parent / "sessions-server.yaml").write_text(
        "apiVersion: berth/v1\nkind: Server\nmetadata: {name: bench}\nspec:\n"
        f"  stack: {FOLDER}\n  listen: '127.0.0.1:0'\n"
        f"  clients:\n  - {{name: bench, actsFor: users, may: [execute, containers], tokenSha256: {hashlib.sha256(TOKEN.encode()).hexdigest()}}}\n"
        f"  sessions: {{{sessions}}}\n"
    )


def port_of(process, log):
    """Once it listens."""
    until = time.monotonic() + PATIENCE_S
    while not (found := re.search(r"listening on port (\d+)", log.read_text())) or "it serves what" not in log.read_text():
        if process.poll() is not None or time.monotonic() > until:
            sys.exit(f"berth serve does not listen:\n{log.read_text()[-2000:]}")
        time.sleep(0.01)
    return int(found.group(1))


@contextlib.contextmanager
def serving(build, sessions="total: 2000", program=None, environment=OFFLINE):
    """
    A server of a stack with the environments `cold` and `warm`, and an agent `bench` in the first; gives its process and its port.
    `program` runs in the place of build's berth.
    """
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    manifests(sessions)
    run([build / "berth", "apply", "--yes", "-q", "-f", FOLDER])
    log = FOLDER.parent / "sessions.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [program or build / "berth", "serve", "--accept-degraded", "-f", FOLDER.parent / "sessions-server.yaml"],
            env=environment, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
        )  # fmt: skip
    SERVED.append(process.pid)
    try:
        port = port_of(process, log)
        try:
            yield process, port
        finally:
            # A server leaves its sessions alone: what a failed measurement has made would live for a day.
            with contextlib.suppress(OSError, RuntimeError):
                end_sessions(port)
    finally:
        process.terminate()
        if process.wait(PATIENCE_S) != 0:
            print(log.read_text()[-2000:], file=sys.stderr)
        shutil.rmtree(FOLDER, ignore_errors=True)


def workers():
    """Those that the server has started, and that live: their standard error is a pipe of its own."""
    pipes, found = set(), []
    for descriptor in pathlib.Path(f"/proc/{SERVED[-1]}/fd").iterdir():
        with contextlib.suppress(OSError):
            pipes.add(os.readlink(descriptor))
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(process / "fd" / "2") in pipes and b"sandbox-worker" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


def await_workers():
    """Until none lives."""
    until = time.monotonic() + STILL_S
    while left := workers():
        if time.monotonic() > until:
            print(f"workers that do not end: {left}", file=sys.stderr)
            return
        time.sleep(0.1)


def end_sessions(port):
    for owner in OWNERS:
        with contextlib.closing(Client(port, owner)) as client:
            while left := client.must("GET", "/v1/sessions?limit=1000")["items"]:
                for session in left:
                    client.end(session["id"])


def memory_kib(pid):
    """The process's own memory. The mapped file of its records is not: the kernel takes those pages back whenever it likes."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Anonymous:\s+(\d+)", text, re.MULTILINE).group(1))


# --- a session from nothing ---


def first_output(client, environment):
    """Seconds from asking for a session to the first output of its first execution."""
    start = time.perf_counter()
    session = client.create(environment)
    client.socket.sendall(client.request("POST", f"/v1/sessions/{session}/executions", {"code": "print(1)"}, "text/event-stream"))
    seconds = None
    for seen in client.lines():
        if seconds is None and b"event: stdout" in seen:
            seconds = time.perf_counter() - start
    client.end(session)
    return seconds


def bench_start(build, port, quick):
    client = Client(port)
    sandboxes.apply_stack(build)
    command = sandboxes.exec_command(build, "-c", "print(42)")
    first_output(client, "cold")
    pairs = [(first_output(client, "cold"), sandboxes.first_output(command, OFFLINE)[0]) for _ in range(10 if quick else 60)]
    ours, theirs = (statistics.median(column) for column in zip(*pairs))
    say("created, first output, cold", f"{ours * 1000:.1f} ms", f"berth exec {theirs * 1000:.1f} ms", f"{ours / theirs:.2f}x, {verdict(ours <= COLD * theirs, f'{COLD}x')}")
    warm = []
    for _ in range(10 if quick else 60):
        time.sleep(1)  # until there is one again
        warm.append(first_output(client, "warm"))
    ours = statistics.median(warm) * 1000
    say("created, first output, warm", f"{ours:.1f} ms", f"slowest {max(warm) * 1000:.1f} ms", verdict(ours <= WARM_MS, f"{WARM_MS} ms"))
    client.close()


# --- one execution ---


def median_ms(times, call):
    call()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1000


NAMESPACES = "bwrap --unshare-all --die-with-parent --bind / / --dev /dev --proc /proc --".split()


def kernel_alone(build, times):
    """
    The runtime and its kernel, asked by their own protocol: what an execution cannot do without. In namespaces, where they
    see their own processes alone, as in a sandbox; in nothing else of one.
    """
    from runtime_client import Runtime

    runtime = Runtime(build / "berth-runtime", command=NAMESPACES)
    try:
        return median_ms(times, lambda: runtime.run("1+1"))
    finally:
        runtime.close()


def bench_execution(build, port, quick):
    times = 100 if quick else 1_000
    client = Client(port)
    session = client.create()
    path, body = f"/v1/sessions/{session}/executions", {"code": "1+1"}
    request = client.request("POST", path, body)

    def execute():
        client.socket.sendall(request)
        status, answer = client.answer()
        if status != 200 or b'"status":"ok"' not in answer:
            raise RuntimeError(f"{status} {answer.decode()[-500:]}")

    probe = client.request("GET", "/healthz")

    def healthz():
        client.socket.sendall(probe)
        client.answer()

    kernel = kernel_alone(build, times)
    ours, floor = median_ms(times, execute), median_ms(times, healthz)
    over = ours - kernel
    say("1+1 in a living kernel", f"{ours:.2f} ms", f"kernel alone {kernel:.2f} ms", f"{over:.2f} ms over it, {verdict(over <= OVER_KERNEL_MS, f'{OVER_KERNEL_MS} ms')}")
    say("", "", f"GET /healthz {floor:.2f} ms", "the client and HTTP alone")
    client.end(session)
    client.close()
    theirs, problem = jupyter.median_ms(20 if quick else 200)
    if theirs is None:
        say("1+1, Jupyter's kernel gateway", "", "", f"skipped: {problem}")
        return
    say("1+1, Jupyter's kernel gateway", f"{theirs:.2f} ms", "", f"{theirs / ours:.1f}x as long, {verdict(theirs >= PEER * ours, f'{PEER}x')}")


# --- streams ---

TICKS = "import time\nfor _ in range({}):\n    print(time.monotonic_ns(), flush=True)\n    time.sleep(0.02)"


def bench_stream(port, quick):
    """Each line says when it was printed: both sides read the same clock."""
    client = Client(port)
    session = client.create()
    client.run(session, "1+1")
    firsts, lags = [], []
    for _ in range(3 if quick else 15):
        request = client.request("POST", f"/v1/sessions/{session}/executions", {"code": TICKS.format(20)}, "text/event-stream")
        client.socket.sendall(request)
        known = 0
        for seen in client.lines():
            now = time.monotonic_ns()
            ticks = re.findall(rb'"text":"(\d+)\\n"', seen)
            lags += [(now - int(tick)) / 1e6 for tick in ticks[known:]]
            firsts += [(now - int(ticks[0])) / 1e6] if ticks and not known else []
            known = max(known, len(ticks))
    client.end(session)
    client.close()
    first, worst = statistics.median(firsts), max(lags)
    say("printed to the client's first byte", f"{first:.2f} ms", f"of {len(lags)} lines the slowest {worst:.2f} ms", verdict(max(firsts) <= FIRST_BYTE_MS, f"{FIRST_BYTE_MS} ms"))


# --- many ---


def start_all(port, owners):
    """Sessions of these owners, one each time a name stands there; all of them have run something."""
    made = []
    for owner in owners:
        client = Client(port, owner)
        made.append((owner, client.create()))
        client.close()
    for owner, session in made:
        client = Client(port, owner)
        client.run(session, "n = 0")
        client.close()
    return made


WORK_CODE = "n += 1\nfor _ in range(100_000): pass"


def bench_many(port, quick):
    """Of 200 that live 50 execute all the time, 40 of one owner's and 10 of another's: each connection should get on alike."""
    living, executing, seconds = (20, 5, 5) if quick else (200, 50, 30)
    large, small = executing * 4 // 5, executing - executing * 4 // 5
    start = time.perf_counter()
    made = start_all(port, ["large"] * (living * 4 // 5) + ["small"] * (living - living * 4 // 5))
    took = time.perf_counter() - start
    chosen = [m for m in made if m[0] == "large"][:large] + [m for m in made if m[0] == "small"][:small]
    selector = selectors.DefaultSelector()
    clients = []
    for owner, session in chosen:
        client = Client(port, owner)
        client.session, client.done = session, 0
        client.bytes = client.request("POST", f"/v1/sessions/{session}/executions", {"code": WORK_CODE})
        clients.append(client)
        selector.register(client.socket, selectors.EVENT_READ, client)
    for client in clients:
        client.socket.sendall(client.bytes)
    until, waiting, failed = time.monotonic() + seconds, len(clients), 0
    while waiting:
        for key, _ in selector.select(PATIENCE_S):
            client = key.data
            status, answer = client.answer()
            client.done += status == 200 and b'"status":"ok"' in answer
            failed += not (status == 200 and b'"status":"ok"' in answer)
            if time.monotonic() < until:
                client.socket.sendall(client.bytes)
            else:
                waiting -= 1
    lost = sum(abs(int(client.run(client.session, "n")["value"]["text"]) - client.done) for client in clients)
    alive = 0
    for owner, session in made:
        client = Client(port, owner)
        alive += client.run(session, "n >= 0")["value"]["text"] == "True"
        client.end(session)
        client.close()
    rates = {owner: statistics.mean(c.done for c in clients if c.owner == owner) / seconds for owner in ("large", "small")}
    ratio = max(rates.values()) / max(min(rates.values()), 1e-9)
    total = sum(client.done for client in clients)
    for client in clients:
        client.close()
    say(f"{living} living, {executing} executing", f"{total / seconds:.0f} a second", f"started in {took:.0f} s; {alive} alive after it", f"lost {lost}, failed {failed}")
    say("", "", f"a session of {large}: {rates['large']:.2f}/s, of {small}: {rates['small']:.2f}/s", f"{ratio:.2f}x, {verdict(ratio <= FAIR, f'{FAIR}x between owners')}")


# --- parked ---


def parked(client):
    found, cursor = 0, ""
    while cursor is not None:
        page = client.must("GET", f"/v1/sessions?status=parked&limit=1000{cursor and '&cursor=' + cursor}")
        found, cursor = found + len(page["items"]), page["cursor"]
    return found


def make_parked(client, count):
    """So many more; the server parks each once it was idle for a second."""
    wanted = parked(client) + count
    for _ in range(count):
        client.run(client.create(), "x = 1")
    until = time.monotonic() + PATIENCE_S
    while (there := parked(client)) < wanted and time.monotonic() < until:
        time.sleep(0.2)
    return there == wanted


def bench_parked(process, port, quick):
    """What the first ones need alone, such as buffers, is there before it is counted."""
    count, client = 50 if quick else 1_000, Client(port)
    if not make_parked(client, 20):
        say("parked", "", "", "skipped: this version parks nothing")
        return
    time.sleep(SETTLED_S)
    before = memory_kib(process.pid)
    if not make_parked(client, count):
        raise RuntimeError(f"of {count} sessions not all were parked")
    time.sleep(SETTLED_S)
    each = (memory_kib(process.pid) - before) / count
    say(f"{count:,} parked, memory each", f"{each:.2f} KiB", f"{before / 1024:.1f} MB before them", verdict(each <= PARKED_KIB, f"{PARKED_KIB} KiB"))
    client.close()


# --- files ---


def bench_file(process, port, quick):
    """100 MB into a workspace and out of it, beside cp and sha256sum of the same file."""
    size = (10 if quick else 100) * 1_000_000
    source, copy = WORK / "file", WORK / "file-copy"
    source.write_bytes(os.urandom(size))
    client = Client(port)
    session = client.create()
    client.run(session, "1+1")
    path = f"/v1/workspaces/{session}/files/large.bin"
    ours, theirs = [], []
    try:
        for _ in range(3 if quick else 7):
            start = time.perf_counter()
            if not put_and_get(client, path, source, size):
                say("a file in and out", "", "", "skipped: this version has no route for it")
                client.close()
                client = Client(port)  # a refused body ends the connection
                return
            ours.append(time.perf_counter() - start)
            start = time.perf_counter()
            subprocess.run(["cp", source, copy], check=True)
            subprocess.run(["sha256sum", copy], check=True, stdout=subprocess.DEVNULL)
            theirs.append(time.perf_counter() - start)
    finally:
        for file in (source, copy):
            file.unlink(missing_ok=True)
        client.end(session)
        client.close()
    took, floor = statistics.median(ours), statistics.median(theirs)
    peak = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text()).group(1)) / 1024
    say(f"{size // 1_000_000} MB in and out", f"{took * 1000:.0f} ms", f"cp and sha256sum {floor * 1000:.0f} ms", f"{floor / took:.2f} of their speed, {verdict(took <= 2 * floor, 'a half')}; server {peak:.0f} MB, {verdict(peak <= MEMORY_MB, f'{MEMORY_MB} MB')}")


def put_and_get(client, path, source, size):
    head = client.request("PUT", path).replace(b"\r\n\r\n", f"\r\nContent-Length: {size}\r\nContent-Type: application/octet-stream\r\n\r\n".encode())
    client.socket.sendall(head)
    with source.open("rb") as file:
        client.socket.sendfile(file)
    status, _ = client.answer()
    if status == 404:
        return False
    if status >= 300:
        raise RuntimeError(f"PUT {path}: {status}")
    client.socket.sendall(client.request("GET", path))
    while (end := client.pending.find(b"\r\n\r\n")) < 0:
        client.fill()
    left, client.pending = size - (len(client.pending) - end - 4), b""
    room = bytearray(1 << 20)
    while left > 0:
        got = client.socket.recv_into(room, min(left, len(room)))
        if not got:
            raise RuntimeError("the server has closed the connection")
        left -= got
    return True


def bench_sessions(build, quick):
    with serving(build, "warm: {warm: 2}") as (_, port):
        bench_start(build, port, quick)
        bench_execution(build, port, quick)
        bench_stream(port, quick)
    with serving(build) as (process, port):
        bench_file(process, port, quick)
    with serving(build) as (_, port):
        bench_many(port, quick)
    with serving(build, "parkSeconds: 1") as (process, port):
        bench_parked(process, port, quick)
