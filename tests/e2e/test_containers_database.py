# SPDX-License-Identifier: Apache-2.0
"""A real PostgreSQL and a real Redis, of this machine's packages in imported images, as services of an agent: they outlive their server and come back, with their data."""

import shutil
from pathlib import Path

import pytest

import layouts
import stacks
from controllers import PATIENCE, wait_until
from layouts import Made, file, folder, link
from lib.containers import CLIENTS, Containers, kill_server, kill_workers, workers_of
from lib.lab import TOKENS, stack

START = """set -e
export LANG=C LC_ALL=C
[ -s /workspace/data/PG_VERSION ] || initdb -D /workspace/data -U agent --no-sync --no-instructions -A trust >/dev/null
exec postgres -D /workspace/data -k /workspace -c listen_addresses=127.0.0.1 -c shared_buffers=16MB"""


def postgres():
    """Where Debian has its programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        pytest.skip("no PostgreSQL of Debian's is here")
    return found[-1].parent


def entries_postgres():
    """The server, its client, and what they load."""
    programs = postgres()
    top, share = programs.parent, Path("/usr/share/postgresql") / programs.parent.name
    wanted = [programs / name for name in ("postgres", "initdb", "psql")]
    wanted += [top / "lib" / f"{name}.so" for name in ("plpgsql", "dict_snowball")]
    others = {str(path) for path in share.rglob("*") if path.is_file() and "extension" not in path.parts} | {str(p) for p in (share / "extension").glob("plpgsql*")}
    made = system(wanted, others)
    made += [folder("usr/share/zoneinfo"), file("usr/share/zoneinfo/UTC", Path("/usr/share/zoneinfo/UTC").read_bytes())]
    return [*made, *(link(f"usr/bin/{name}", f"{programs}/{name}") for name in ("postgres", "initdb", "psql"))]


def entries_redis():
    programs = [Path("/usr/bin/redis-server"), Path("/usr/bin/redis-cli")]
    if not all(program.exists() for program in programs):
        pytest.skip("no Redis of Debian's is here")
    return system(programs, set())


def system(wanted, others):
    """A small system with these programs, and what they load, where Debian has them."""
    made = layouts.system(python=False)
    taken = {info.name for info, _ in made}
    files = {str(path) for path in wanted} | {one for path in wanted for one in layouts._libraries(str(path))} | others
    for path in sorted(files):
        real = Path(path).parent.resolve() / Path(path).name
        name = (str(real) if str(real).startswith("/usr/") else "/usr" + path).lstrip("/")
        for parent in reversed(Path(name).parents[:-1]):
            if str(parent) not in taken:
                taken.add(str(parent))
                made.append(folder(str(parent)))
        if name not in taken:
            taken.add(name)
            made.append(file(name, Path(path).read_bytes(), 0o755 if Path(path).stat().st_mode & 0o100 else 0o644))
    return made


@pytest.fixture
def serve(request, offline, tmp_path):
    """Of a test of that parameter: what is in the image."""
    Made(request.param(), env={"PATH": "/usr/bin", "LANG": "C"}).write(tmp_path / "layout")
    offline.write("stack.yaml", stack())
    offline("image", "import", "data/store:1", tmp_path / "layout").expect(0)
    shutil.rmtree(tmp_path / "layout")
    image = stacks.document("Environment", "database", {"image": {"repository": "data/store", "tag": "1"}, "workspaceStorageMB": 512})
    offline.write("stack.yaml", stack(image, stacks.document("Agent", "analyst", {"environment": "database"})))
    offline("apply", "--yes").expect(0)
    made = Containers(offline, clients=CLIENTS)
    yield made.start("--accept-degraded")
    left = [c["id"] for c in made.call("GET", "/v1/containers?limit=1000", token=TOKENS["watcher"]).items()]
    for one in left:
        assert made.call("DELETE", f"/v1/containers/{one}", token=TOKENS["file"]).status == 204
    wait_until(lambda: not any(workers_of(one) for one in left), timeout=60 * PATIENCE)
    assert made.stop() == 0


def of_image(entries):
    return pytest.mark.parametrize("serve", [pytest.param(entries, id="service")], indirect=True)


@of_image(entries_postgres)
def test_postgresql_as_a_service(serve):
    database = serve.service(code=START, language="sh", name="db")

    def query(text):
        return serve.exec(database, "psql", "-h", "/workspace", "-U", "agent", "-d", "postgres", "-AtXc", text)

    def asked(text, owner=None):
        """By a temporary container of the same agent, over the network that they share."""
        return serve.finish("psql", "-h", "db.berth", "-U", "agent", "-d", "postgres", "-AtXc", text, owner=owner)

    def answers():
        # Of one that was found again, once it was.
        wait_until(lambda: serve.show(database)["usage"], timeout=60 * PATIENCE)
        wait_until(lambda: "ready to accept connections" in serve.logs(database, "?tail=3"), timeout=120 * PATIENCE)
        wait_until(lambda: query("select 1")["stdout"]["content"] == "1\n", timeout=120 * PATIENCE)

    answers()
    assert query("create table t as select n, n * n as square from generate_series(1, 1000) n")["exitCode"] == 0
    assert query("select sum(square) from t")["stdout"]["content"] == "333833500\n"
    assert asked("select sum(square) from t")["stdout"] == "333833500\n"
    assert asked("select 1", owner="bob")["exitCode"] == 2
    assert serve.show(database)["usage"]["memoryBytes"] > 1 << 20
    # The server is another one: neither the database nor what is in it has noticed.
    assert serve.stop() == 0
    serve.start("--accept-degraded")
    answers()
    assert asked("insert into t values (0, 1) returning n")["stdout"].startswith("0\n")
    assert query("select sum(square) from t")["stdout"]["content"] == "333833501\n" and serve.show(database)["starts"] == 1
    # Everything but the kernel is killed, and the next server brings it back.
    kill_server(serve)
    kill_workers(database)
    serve.start("--accept-degraded")
    wait_until(lambda: serve.show(database)["starts"] == 2, timeout=60 * PATIENCE)
    serve.wait_for(database, "running")
    answers()
    assert asked("select sum(square) from t")["stdout"] == "333833501\n"
    assert serve.order(database, "stop", 200)["reason"] == "stopped"


@of_image(entries_redis)
def test_redis_as_a_service(serve):
    """What it has said is written, is there after the death of everything but the kernel."""
    options = "--bind 127.0.0.1 --dir /workspace --save '' --appendonly yes --appendfsync always".split()
    store = serve.service("redis-server", *("" if word == "''" else word for word in options), name="store")

    def asked(*words, owner=None):
        """By a temporary container of the same agent, over the network that they share."""
        return serve.finish("redis-cli", "-h", "store.berth", *words, owner=owner)

    def answers():
        wait_until(lambda: serve.show(store)["usage"], timeout=60 * PATIENCE)
        wait_until(lambda: serve.exec(store, "redis-cli", "ping")["stdout"]["content"] == "PONG\n", timeout=120 * PATIENCE)

    answers()
    assert asked("set", "name", "value")["stdout"] == "OK\n" and asked("get", "name")["stdout"] == "value\n"
    code = "n=0; while [ $n -lt 100 ]; do n=$((n + 1)); echo rpush list $n; done | redis-cli -h store.berth"
    assert serve.finish(code=code, language="sh")["stdout"].split()[-1] == "100"
    bobs = asked("get", "name", owner="bob")
    assert bobs["exitCode"] == 1 and "value" not in bobs["stdout"], bobs
    assert serve.stop() == 0
    serve.start("--accept-degraded")
    answers()
    assert asked("incr", "count")["stdout"] == "1\n" and serve.show(store)["starts"] == 1
    kill_server(serve)
    kill_workers(store)
    serve.start("--accept-degraded")
    wait_until(lambda: serve.show(store)["starts"] == 2, timeout=60 * PATIENCE)
    answers()
    assert [asked(*words)["stdout"] for words in (("get", "name"), ("get", "count"), ("llen", "list"))] == ["value\n", "1\n", "100\n"]
    assert serve.order(store, "stop", 200)["reason"] == "stopped"
