# SPDX-License-Identifier: Apache-2.0
"""The Git source by itself (git_check_cli: git_check() and its worker), against real servers and what strangers may put into a repository."""

import hashlib
import json
import os
import re
import resource
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import zlib
from pathlib import Path

import pytest

from binary import checked_binary, tool
from controllers import process_began, wait_until
from git_servers import PASSWORD, USER, Authority, Daemon, Https, Keys, Proxy, Repository, Silent, Ssh, Stalling, free_port, run

STACK = "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: s}\n"


def frame(request):
    text = json.dumps(request).encode()
    return b"%d\n" % len(text) + text


class Source:
    """One source's folder, polled as the controller does: what was accepted is remembered."""

    def __init__(self, folder, url, **request):
        self.folder = Path(folder)
        self.request = {"url": str(url), "folder": str(folder), **request}
        if "branch" not in request and "tag" not in request:
            self.request["branch"] = "main"

    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    inherited = ()

    def start(self, **more):
        passed = {name: os.environ[name] for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS") if name in os.environ}
        process = subprocess.Popen([tool("git_check_cli")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**self.env, **passed}, pass_fds=self.inherited)  # fmt: skip
        process.stdin.write(frame({**self.request, **more}))
        process.stdin.close()
        process.stdin = None
        return process

    def finish(self, process):
        out, err = process.communicate(timeout=200)
        assert b"Sanitizer" not in err and b"runtime error" not in err, err.decode()[-3000:]
        assert process.returncode == 0, err.decode()[-2000:]
        answer = json.loads(out)
        assert not (self.folder / "tmp").exists() or answer.get("kind") == 5 or "no answer" in answer.get("message", "")
        return answer

    def ask(self, **more):
        return self.finish(self.start(**more))

    def accept(self, **more):
        """A poll that must succeed; what it finds is what the next one has."""
        answer = self.ask(**more)
        assert answer["ok"], answer
        self.request["have"], self.request["haveRef"] = answer["commit"], answer["ref"]
        return answer

    def refuse(self, reason, *words, **more):
        answer = self.ask(**more)
        assert not answer["ok"] and answer["reason"] == reason, answer
        for word in words:
            assert word in answer["message"], answer
        assert answer["files"] == {}
        return answer

    def texts(self, answer):
        """{path: text}"""
        return {name.split(":")[-1]: text for name, text in answer["files"].items()}

    def size(self):
        return sum(p.lstat().st_size for p in self.folder.rglob("*"))

    def packs(self):
        return list((self.folder / "repository.git/objects/pack").glob("*.pack"))


@pytest.fixture(scope="module")
def place():
    """Others than the tests' own user must be able to read what servers serve."""
    folder = Path(tempfile.mkdtemp(prefix="berth-git-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def served(place):
    folder = place / "repositories"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def started(place):
    servers = []
    yield servers.append
    for server in servers:
        server.stop()


def inside(place, name):
    (place / name).mkdir()
    return place / name


@pytest.fixture(scope="module")
def daemon(served, started):
    server = Daemon(served).begin()
    started(server)
    return server


@pytest.fixture(scope="module")
def https(place, served, started):
    folder = inside(place, "apache")
    server = Https(served, folder, Authority(folder), {"/moved/": "/git/", "/away/": "https://elsewhere.invalid/git/", "/plain/": "http://localhost:1/git/"}).begin()
    started(server)
    return server


@pytest.fixture(scope="module")
def ssh(place, served, started):
    server = Ssh(served, inside(place, "ssh")).begin()
    started(server)
    return server


@pytest.fixture(scope="module")
def keys(place):
    made = Keys(inside(place, "keys"))
    yield made
    made.stop()


_number = iter(range(1, 1000))


@pytest.fixture
def repository(served):
    """A fresh one with one commit."""
    made = Repository(served, f"agents{next(_number)}")
    made.commit({"agents/stack.yaml": STACK, "README.md": "hello\n"}, "the first")
    return made


@pytest.fixture
def written(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o600)
        return str(path)

    return write


@pytest.fixture
def sources(tmp_path):
    """Sources of any server, with what they need to be let in."""

    def make(where, repository, **request):
        name = f"{repository.name}.git"
        folder = tmp_path / f"source{len(list(tmp_path.glob('source*')))}"
        credentials = {}
        if isinstance(where, Ssh):
            credentials = {"sshKeyFile": str(where.key), "knownHostsFile": str(where.known_hosts())}
        elif isinstance(where, Https):
            credentials = {"caFile": str(where.authority.file)}
        url = request.pop("url", where.url(name) if where else str(repository.bare))
        return Source(folder, url, **{"credentials": credentials, **request})

    return make


@pytest.fixture
def local(sources, repository):
    """A source that reads the repository where it lies."""
    return sources(None, repository)


@pytest.fixture(params=["file", "daemon", "https", "ssh"])
def server(request):
    return None if request.param == "file" else request.getfixturevalue(request.param)


# --- every transport ---


def test_a_commit_is_found_read_and_then_only_asked_about(server, sources, repository):
    source = sources(server, repository)
    first = source.accept()
    assert (first["moved"], first["fetched"]) == (True, True)
    assert (first["commit"], first["ref"]) == (repository.head(), "refs/heads/main")
    assert (first["subject"], first["author"]) == ("the first", "Ada Author <ada@example.com>")
    assert abs(first["committedMs"] / 1000 - time.time()) < 300
    shown = source.request["url"].split("://")[-1].split("@")[-1]
    assert list(first["files"]) == [f"{shown}@{first['commit'][:12]}:agents/stack.yaml"]
    assert source.texts(first) == {"agents/stack.yaml": STACK}
    assert "signer" not in first

    again = source.accept()
    assert (again["moved"], again["fetched"], again["received"], again["files"]) == (False, False, 0, {})
    read = source.accept(readAnyway=True)
    assert (read["moved"], read["fetched"]) == (False, False) and source.texts(read) == source.texts(first)

    repository.commit({"agents/more.yml": "# more\n", "agents/stack.yaml": None}, "the second\n\nwith a body")
    second = source.accept()
    assert (second["moved"], second["fetched"], second["subject"]) == (True, True, "the second")
    assert source.texts(second) == {"agents/more.yml": "# more\n"}


def test_what_is_not_there(server, sources, repository):
    source = sources(server, repository)
    source.refuse("NotFound", "no branch mian", "did you mean main?", branch="mian")
    source.refuse("NotFound", "none of 0 tags", tag="1.x", branch=None)
    source.refuse("NotFound", "no folder nowhere", path="nowhere")
    source.refuse("NotFound", url=source.request["url"].replace(repository.name, "nothing"))
    source.accept()


def test_an_empty_repository(server, sources, served):
    sources(server, Repository(served, f"empty{next(_number)}")).refuse("NotFound", "the repository is empty")


def test_unusual_refs(server, sources, repository):
    repository.git("branch", "feature/x-1.0")
    repository.push("feature/x-1.0")
    assert sources(server, repository, branch="feature/x-1.0").accept()["ref"] == "refs/heads/feature/x-1.0"
    # A tag of a tag, and a tag of what is no commit, among those that match.
    repository.tag("v1.0.0", "-a", "-m", "inner")
    repository.git("tag", "-a", "-m", "outer", "v1.1.0", "v1.0.0")
    repository.push("refs/tags/v1.1.0")
    assert sources(server, repository, tag="1.x", branch=None).accept()["ref"] == "refs/tags/v1.1.0"
    repository.git("update-ref", "refs/tags/v1.2.0", repository.git("rev-parse", "HEAD^{tree}"))
    repository.push("refs/tags/v1.2.0")
    answer = sources(server, repository, tag="1.x", branch=None).ask()
    assert answer["ref"] == "refs/tags/v1.1.0" if answer["ok"] else answer["reason"] == "UnsafeTree", answer
    for branch in ("-x", "a..b", "a b", "a~1", "refs/heads/*", "a:b", "", "x@{1}"):
        sources(server, repository, branch=branch).refuse("SourceFailed", "no name of a branch")


def test_paths_may_be_relative(ssh, sources, repository, keys, ada, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    repository.commit({"agents/a.yaml": "# a\n"}, env=keys.signing(ada))
    source = sources(ssh, repository, gpgKeys=[os.path.relpath(keys.export(ada), tmp_path)])
    source.folder = tmp_path / "state" / "git"
    source.request["folder"] = "state/git"
    assert ada in source.accept()["signer"]


def test_one_poll_is_one_question(https, sources, repository):
    source = sources(https, repository)
    source.accept()
    before = len(https.requests())
    source.accept()
    asked = https.requests()[before:]
    assert len(asked) == 1 and asked[0].startswith("GET") and "/info/refs 200" in asked[0], asked


def test_a_warning_for_git(daemon, sources, repository, keys):
    assert "not authenticated" in sources(daemon, repository).accept()["warnings"][0]
    assert sources(None, repository).accept()["warnings"] == []


def test_the_server_gone_and_back(place, served, sources, repository):
    server = Daemon(served).begin()
    source = sources(server, repository)
    source.accept()
    server.stop()
    source.refuse("Unreachable", "refused")
    commit = repository.commit({"agents/a.yaml": "# a\n"})
    server.begin()
    try:
        assert source.accept()["commit"] == commit
    finally:
        server.stop()


@pytest.mark.parametrize("scheme", ["git://127.0.0.1", "https://localhost", "ssh://git@127.0.0.1"])
def test_a_server_that_says_nothing(sources, repository, ssh, scheme):
    silent = Silent()
    known = ssh.known_hosts(f"[127.0.0.1]:{silent.port} {ssh.host_key()}\n")
    source = sources(None, repository, url=f"{scheme}:{silent.port}/a.git", limits={"timeoutMs": 1500},
                     credentials={"knownHostsFile": str(known)})  # fmt: skip
    began = time.monotonic()
    source.refuse("Unreachable", "no answer within 2 s")
    assert time.monotonic() - began < 6
    silent.stop()


def test_a_server_that_speaks_no_git(sources, repository):
    silent = Silent(b"HTTP/1.0 200 OK\r\n\r\n\x1b[31mhello\r\n" * 50)
    source = sources(None, repository, url=f"git://127.0.0.1:{silent.port}/a.git", limits={"timeoutMs": 5000})
    answer = source.refuse("Unreachable")
    assert "\x1b" not in answer["message"]
    silent.stop()


def test_a_server_that_stalls_while_it_sends(daemon, sources, large):
    source = sources(daemon, large)
    stalling = Stalling(daemon.port, 1_000_000)
    stalled = source.request["url"].replace(str(daemon.port), str(stalling.port))
    source.refuse("Unreachable", "no answer within 5 s, while fetching", url=stalled, limits={"timeoutMs": 5000})
    stalling.close()
    assert len(source.accept()["files"]) == 5000
    assert source.size() < 10_000_000


def test_interrupts_end_a_poll(sources, repository):
    silent = Silent()
    source = sources(None, repository, url=f"git://127.0.0.1:{silent.port}/a.git", limits={"timeoutMs": 60000})
    process = source.start()
    silent.wait()
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    answer = source.finish(process)
    assert answer["kind"] == 5 and "interrupted" in answer["message"], answer
    silent.stop()


@pytest.mark.skipif(checked_binary() is not None, reason="arguments and variables are those of Valgrind there")
def test_nothing_outlives_who_asked(sources, repository, tmp_path):
    silent = Silent()
    (tmp_path / "secret").write_text("")
    source = sources(None, repository, url=f"git://127.0.0.1:{silent.port}/a.git", limits={"timeoutMs": 120000})
    source.env = {**Source.env, "AWS_SECRET_ACCESS_KEY": "x", "https_proxy": "http://127.0.0.1:1"}
    with open(tmp_path / "secret") as held:
        source.inherited = (held.fileno(),)
        process = source.start()
    silent.wait()
    workers = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True).stdout.split()
    assert len(workers) == 1
    # It sees nothing of the controller's: no variable, no descriptor, no argument. Into it sees root alone.
    worker = Path("/proc") / workers[0]
    if os.geteuid() == 0:
        names = {row.split("=")[0] for row in (worker / "environ").read_text().split("\0") if row}
        assert names <= {"PATH", "LC_ALL", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}, names
        opened = [os.readlink(fd) for fd in (worker / "fd").iterdir()]
        assert not [name for name in opened if "secret" in name], opened
    assert (worker / "cmdline").read_bytes().split(b"\0")[1:] == [b"git-worker", b""]
    process.kill()
    process.wait()
    # At once, and not at the end of its own time: a worker that lives has the pipes, whose end is therefore not waited for.
    wait_until(lambda: not process_began(worker.name), timeout=10)
    process.communicate()
    silent.stop()


# --- credentials ---


def test_basic_authentication(https, sources, repository, written):
    user, password = written("user", USER + "\n"), written("password", PASSWORD + "\r\n")
    credentials = {"caFile": str(https.authority.file), "usernameFile": user, "passwordFile": password}
    url = https.url(f"{repository.name}.git", private=True)
    assert sources(https, repository, url=url, credentials=credentials).accept()["moved"]
    in_url = url.replace("https://", f"https://{USER}@")
    assert sources(https, repository, url=in_url, credentials={**credentials, "usernameFile": None}).accept()["moved"]
    source = sources(https, repository, url=url)
    source.refuse("AuthenticationFailed", "asks for credentials", "passwordFile")
    wrong = source.refuse("AuthenticationFailed", "does not accept", credentials={**credentials, "passwordFile": written("wrong", "hunter2")})
    assert "hunter2" not in json.dumps(wrong)
    source.refuse("SourceFailed", "credentials.passwordFile", credentials={**credentials, "passwordFile": "/no/such/file"})
    os.chmod(password, 0o604)
    source.refuse("SourceFailed", "credentials.passwordFile", f"chmod o= {password}", credentials=credentials)
    os.chmod(password, 0o640)
    with_password = source.refuse("SourceFailed", "password", url=url.replace("https://", f"https://{USER}:hunter2@"))
    assert "hunter2" not in json.dumps(with_password)


def test_certificates(https, sources, repository, tmp_path):
    source = sources(https, repository)
    source.refuse("HostUntrusted", "localhost has a TLS certificate that is not trusted", credentials={})
    other = Authority(tmp_path, "other CA")
    source.refuse("HostUntrusted", "not trusted", credentials={"caFile": str(other.file)})
    source.refuse("HostUntrusted", "not trusted", url=source.request["url"].replace("localhost", "127.0.0.1"))
    source.refuse("SourceFailed", "caFile", credentials={"caFile": "/no/such/file"})
    source.refuse("SourceFailed", "certificates", credentials={"caFile": str(repository.work / "README.md")})
    source.accept()


@pytest.fixture
def proxies():
    made = []

    def make(**settings):
        made.append(Proxy(**settings))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


def test_by_a_proxy(https, ssh, sources, repository, proxies):
    """All of a poll goes through it: the worker has no other port open."""
    target = f"CONNECT localhost:{https.port}"
    for variable, form in (("https_proxy", "http://127.0.0.1:{}"), ("HTTPS_PROXY", "localhost:{}/"), ("ALL_PROXY", "http://127.0.0.1:{}")):
        proxy, source = proxies(), sources(https, repository)
        source.env = {**Source.env, variable: form.format(proxy.port)}
        assert source.accept()["fetched"] and set(proxy.asked) == {target}, proxy.asked
    known, source = proxies(login="a user:p@ss"), sources(https, repository)
    source.env = {**Source.env, "https_proxy": f"http://a%20user:p%40ss@127.0.0.1:{known.port}"}
    assert source.accept()["fetched"] and set(known.asked) == {target}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*https.authority.issue("localhost"))
    safe, source = proxies(tls=context), sources(https, repository)
    source.env = {**Source.env, "https_proxy": f"https://localhost:{safe.port}"}
    assert source.accept()["fetched"] and set(safe.asked) == {target}
    for variables in ({"no_proxy": "example.com, localhost"}, {"NO_PROXY": "*"}):
        unused, source = proxies(), sources(https, repository)
        source.env = {**Source.env, "https_proxy": f"http://127.0.0.1:{unused.port}", **variables}
        assert source.accept()["fetched"] and unused.asked == []
    unused = proxies()
    for where, variables in ((https, ("http_proxy", "HTTP_PROXY")), (ssh, ("https_proxy", "ALL_PROXY"))):
        source = sources(where, repository)
        source.env = {**Source.env, **{name: f"http://127.0.0.1:{unused.port}" for name in variables}}
        assert source.accept()["fetched"] and unused.asked == []


def test_a_proxy_that_does_not_help(place, https, sources, repository, proxies):
    """Each says whose fault it is; none quotes the password."""
    stranger = Authority(inside(place, "stranger"), "a stranger")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*stranger.issue("localhost"))
    nobody = free_port()
    cases = [
        ("http://u:hunter2@127.0.0.1:{}", proxies(login="u:other").port, "AuthenticationFailed", "asks for a user and a password"),
        ("http://127.0.0.1:{}", proxies(login="u:other").port, "AuthenticationFailed", "asks for a user and a password"),
        ("http://u:hunter2@127.0.0.1:{}", proxies(status=403).port, "Unreachable", "does not connect to localhost"),
        ("http://u:hunter2@127.0.0.1:{}", proxies(status=502).port, "Unreachable", "status: 502"),
        ("http://u:hunter2@127.0.0.1:{}", nobody, "Unreachable", "Connection refused"),
        ("https://u:hunter2@localhost:{}", proxies(tls=context).port, "HostUntrusted", "not trusted"),
    ]  # fmt: skip
    for form, port, reason, words in cases:
        source = sources(https, repository)
        source.env = {**Source.env, "HTTPS_PROXY": form.format(port)}
        answer = source.refuse(reason, "proxy", f":{port}", words)
        assert "hunter2" not in answer["message"]
    source.env = {**Source.env, "HTTPS_PROXY": "socks5://u:hunter2@127.0.0.1:1080"}
    assert "hunter2" not in source.refuse("SourceFailed", "not an http proxy")["message"]


@pytest.mark.parametrize("name, days", [("localhost", -1), ("elsewhere.example", 1)])
def test_certificates_that_expired_or_are_for_others(place, served, sources, repository, name, days):
    folder = inside(place, f"apache-{name}")
    server = Https(served, folder, Authority(folder), name=name, days=days).begin()
    try:
        sources(server, repository).refuse("HostUntrusted", "expired, or for another name")
        assert not [line for line in server.requests() if "200" in line]
    finally:
        server.stop()


def test_redirects_stay_with_the_host(https, sources, repository):
    name = f"{repository.name}.git"
    moved = https.url(name).replace("/git/", "/moved/")
    assert sources(https, repository, url=moved).accept()["commit"] == repository.head()
    away = sources(https, repository, url=https.url(name).replace("/git/", "/away/"))
    away.refuse("HostUntrusted", "cannot redirect", "elsewhere.invalid")
    plain = sources(https, repository, url=https.url(name).replace("/git/", "/plain/"))
    plain.refuse("HostUntrusted", "cannot redirect")


def test_a_shallow_repository(server, sources, repository):
    """Its history is cut: read where none is asked for, and said where it is; once it is whole, all goes on."""
    source = sources(server, repository)
    first = source.accept()["commit"]
    for number in range(3):
        repository.commit({"agents/a.yaml": f"# {number}\n"})
    whole = repository.bare.rename(repository.bare.with_suffix(".whole"))
    run("git", "clone", "-q", "--bare", "--depth", "1", f"file://{whole}", repository.bare, env=repository.env)
    message = source.ask()["message"]
    assert source.refuse("SourceFailed", "shallow", "git fetch --unshallow")["message"] == message
    run("git", "-C", repository.bare, "fetch", "-q", "--unshallow", env=repository.env)
    assert source.accept()["commit"] == repository.head() != first


def test_known_hosts(ssh, sources, repository, tmp_path):
    source = sources(ssh, repository)
    target = f"[127.0.0.1]:{ssh.port}"
    other = " ".join((ssh.folder / "other_key.pub").read_text().split()[:2])

    def credentials(text):
        return {"sshKeyFile": str(ssh.key), "knownHostsFile": str(ssh.known_hosts(text))}

    hashed = ssh.known_hosts()
    run("ssh-keygen", "-q", "-H", "-f", hashed, check=False)
    assert "|1|" in hashed.read_text()
    for text in (
        f"# a comment\n\n{target} {ssh.host_key()} with a comment\n",
        f"example.com,{target} {ssh.host_key()}\r\n",
        f"[127.0.0.*]:{ssh.port} {ssh.host_key()}\n",
        f"{target} {other}\n{target} {ssh.host_key()}\n",
        f"@cert-authority *.example.com {other}\n{target} {ssh.host_key()}\n",
        hashed.read_text(),
    ):
        assert source.ask(credentials=credentials(text))["ok"], text
    for text in (
        "",
        f"example.com {ssh.host_key()}\n",
        f"127.0.0.1 {ssh.host_key()}\n",
        f"{target} {other}\n",
        f"{target},!{target} {ssh.host_key()}\n",
        f"@cert-authority {target} {ssh.host_key()}\n",
        f"@revoked * {ssh.host_key()}\n{target} {ssh.host_key()}\n",
        f"{target} {ssh.host_key()[:-6]}\n",
        "this is no known_hosts file\n",
    ):
        answer = source.ask(credentials=credentials(text))
        assert not answer["ok"] and answer["reason"] == "HostUntrusted", (text, answer)
    source.refuse("HostUntrusted", "knownHostsFile", credentials={"sshKeyFile": str(ssh.key)})


@pytest.mark.parametrize("key_type", ["ed25519", "ecdsa"])
def test_known_hosts_with_keys_of_several_types(place, served, sources, repository, tmp_path, key_type):
    """As ssh-keyscan writes them; the server has one of the types alone."""
    server = Ssh(served, inside(place, f"ssh-{key_type}"), key_type).begin()
    try:
        lines = [f"[127.0.0.1]:{server.port} {server.host_key()}\n"]
        for kind, bits in (("ed25519", 256), ("ecdsa", 256), ("ecdsa", 384), ("rsa", 2048)):
            key = tmp_path / f"{kind}{bits}"
            run("ssh-keygen", "-q", "-t", kind, "-b", str(bits), "-N", "", "-f", key)
            words = key.with_suffix(".pub").read_text().split()[:2]
            if words[0] != server.host_key().split()[0]:
                lines.append(f"[127.0.0.1]:{server.port} {' '.join(words)}\n")
        source = sources(server, repository)
        for text in ("".join(lines), "".join(reversed(lines))):
            known = str(server.known_hosts(text))
            assert source.accept(credentials={"sshKeyFile": str(server.key), "knownHostsFile": known}, readAnyway=True)["commit"] == repository.head()
        # A server whose only key is of a type that no line has is not trusted, whatever it is offered.
        known = str(server.known_hosts("".join(lines[1:])))
        assert not source.ask(credentials={"sshKeyFile": str(server.key), "knownHostsFile": known})["ok"]
    finally:
        server.stop()


@pytest.mark.parametrize(
    "settings, key_type, words",
    [
        ("Ciphers aes256-gcm@openssh.com,chacha20-poly1305@openssh.com\n", "ed25519",
         ["no cipher in common", "aes256-gcm@openssh.com,chacha20-poly1305@openssh.com", "aes256-ctr", "Ciphers"]),
        ("MACs hmac-sha2-512-etm@openssh.com,umac-128-etm@openssh.com\n", "ed25519",
         ["no MAC in common", "hmac-sha2-512-etm@openssh.com,umac-128-etm@openssh.com", "hmac-sha2-256", "MACs"]),
        ("KexAlgorithms sntrup761x25519-sha512@openssh.com\n", "ed25519",
         ["no key exchange in common", "sntrup761x25519-sha512@openssh.com", "curve25519-sha256", "KexAlgorithms"]),
        ("", "rsa", ["no host key in common", "rsa-sha2-512,rsa-sha2-256", "ed25519", "HostKey"]),
    ],
)  # fmt: skip
def test_a_server_with_other_algorithms_than_libssh2(place, served, sources, repository, tmp_path, settings, key_type, words):
    """Later releases of libssh2 know more of them: what they do not read, they say."""
    folder = inside(place, f"ssh-{tmp_path.name}")
    server = Ssh(served, folder, key_type, settings).begin()
    try:
        answer = sources(server, repository).ask()
        if not answer["ok"] or libssh2_version() < (1, 11):
            assert answer["reason"] == "Unreachable" and not [word for word in words if word not in answer["message"]], answer
    finally:
        server.stop()


def test_ssh_keys(ssh, sources, repository):
    source = sources(ssh, repository)
    credentials = source.request["credentials"]
    source.refuse("AuthenticationFailed", "ssh key", credentials={**credentials, "sshKeyFile": str(ssh.folder / "other_key")})
    source.refuse("AuthenticationFailed", "sshKeyFile", credentials={**credentials, "sshKeyFile": None})
    source.refuse("SourceFailed", "sshKeyFile", credentials={**credentials, "sshKeyFile": "/no/such/key"})
    source.accept()


def libssh2_version():
    versions = run("dpkg-query", "-W", "-f", "${Version}\\n", "libssh2-1*", check=False)
    return tuple(int(part) for part in re.search(r"\d+\.\d+", versions).group().split("."))


def odd_repository(place, repository, form):
    """What `url` names, and what of it has to be said; made by git."""
    made, git = place / form, ["git", "-C", repository.work]
    if form == "sha256":
        run("git", "init", "-q", "-b", "main", "--object-format=sha256", made)
        return made, ["SHA-256", "--object-format=sha1"]
    if form == "worktree":
        run(*git, "worktree", "add", "-q", made, "-b", "side")
        return made, ["worktree", f"name that one, {repository.work}/.git"]
    if form == "separate":
        run("git", "init", "-q", "--separate-git-dir", place / "elsewhere.git", made)
        return made, [f"name that folder, {place}/elsewhere.git"]
    if form == "alternates":
        run("git", "clone", "-q", "--shared", "--bare", repository.bare, made)
        return made, [f"borrows objects from {repository.bare}/objects", "git repack -a -d"]
    if form == "reference":
        run("git", "clone", "-q", "--reference", repository.bare, f"file://{repository.bare}", made)
        return made, [f"borrows objects from {repository.bare}/objects", "git repack -a -d"]
    if form == "lost":
        run("git", "clone", "-q", "--shared", "--bare", repository.bare, made)
        (made / "objects/info/alternates").write_text("/no/such/objects\n")
        return made, ["borrows objects from /no/such/objects"]
    run("git", "clone", "-q", f"file://{repository.bare}", made)
    run("git", "-C", made, "config", "core.repositoryformatversion", "1")
    run("git", "-C", made, "config", *{"partial": ("extensions.partialClone", "origin"), "reftable": ("extensions.refStorage", "reftable")}[form])
    return made, ["partial clone" if form == "partial" else "git refs migrate"]


@pytest.mark.parametrize("form", ["sha256", "worktree", "separate", "alternates", "reference", "lost", "partial", "reftable"])
def test_repositories_on_this_machine_that_cannot_be_read(place, sources, repository, tmp_path, form):
    """Each says what it is, and what to do; what is done helps."""
    url, words = odd_repository(inside(place, f"odd-{tmp_path.name}"), repository, form)
    source = sources(None, repository, url=str(url))
    source.refuse("NotFound" if form == "lost" else "SourceFailed", *words)
    if form in ("alternates", "reference"):
        run("git", "-C", url, "repack", "-q", "-a", "-d")
        next(path for path in url.rglob("alternates")).unlink()
        assert source.accept()["commit"] == repository.head()
    if form == "worktree":
        assert source.accept(url=words[1].partition(", ")[2])["commit"] == repository.head()


@pytest.mark.parametrize("how", ["daemon", "https", "ssh"])
def test_a_repository_of_sha256_behind_a_server(request, served, sources, repository, how):
    made = served / f"sha256-{how}"
    run("git", "init", "-q", "-b", "main", "--object-format=sha256", made)
    run("git", "-C", made, "commit", "-q", "--allow-empty", "-m", "one")
    run("git", "clone", "-q", "--bare", made, made.with_suffix(".git"))
    server = request.getfixturevalue(how)
    sources(server, repository, url=server.url(f"{made.name}.git")).refuse("SourceFailed", "SHA-256", "--object-format=sha1")


@pytest.mark.parametrize(
    "url",
    ["ext::sh -c touch%20/tmp/owned", "http://localhost/a", "-oProxyCommand=x", "ssh://-oProxyCommand=x/a", "fd::3", "../relative", "git@host:-x"],
)
def test_urls_that_are_not_for_us(sources, repository, url):
    sources(None, repository, url=url).refuse("SourceFailed")


# --- history ---


def test_a_rewritten_branch_is_refused(server, sources, repository):
    source = sources(server, repository)
    repository.commit({"agents/a.yaml": "# a\n"})
    before = source.accept()["commit"]
    repository.git("reset", "-q", "--hard", "HEAD~1")
    after = repository.commit({"agents/b.yaml": "# b\n"})
    for _ in range(2):
        answer = source.refuse("HistoryRewritten", before, after)
        assert answer["commit"] == after
    assert source.ask(fastForwardOnly=False)["commit"] == after
    assert source.ask(acceptedRewrite=after)["commit"] == after
    source.refuse("HistoryRewritten", before, after, acceptedRewrite=before)
    # Back to what was accepted, and on from there.
    repository.git("reset", "-q", "--hard", before)
    onward = repository.commit({"agents/c.yaml": "# c\n"})
    assert source.accept()["commit"] == onward
    # Behind what was accepted is a rewriting too.
    repository.publish(before)
    source.refuse("HistoryRewritten", onward, before)


def test_merges_descend(server, sources, repository):
    source = sources(server, repository)
    source.accept()
    repository.git("checkout", "-q", "-b", "topic", "HEAD")
    repository.commit({"agents/topic.yaml": "# t\n"}, push=False)
    repository.git("checkout", "-q", "main")
    repository.commit({"agents/main.yaml": "# m\n"})
    source.accept()
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "topic")
    repository.push()
    assert sorted(source.texts(source.accept())) == ["agents/main.yaml", "agents/stack.yaml", "agents/topic.yaml"]


def test_unrelated_history_is_rewritten(daemon, sources, repository):
    source = sources(daemon, repository)
    source.accept()
    repository.git("checkout", "-q", "--orphan", "fresh")
    commit = repository.commit({"agents/x.yaml": "# x\n"}, push=False)
    repository.publish(commit)
    source.refuse("HistoryRewritten", commit)
    # The same where the repository is not here any more.
    shutil.rmtree(source.folder / "repository.git")
    source.refuse("HistoryRewritten", commit)


def test_a_commit_accepted_before_is_read_without_the_server(place, served, sources, repository):
    server = Daemon(served).begin()
    source = sources(server, repository)
    first = source.accept()
    repository.commit({"agents/stack.yaml": "broken: ["})
    source.accept()
    repository.git("reset", "-q", "--hard", first["commit"])
    repository.commit({"agents/other.yaml": "# o\n"})
    source.refuse("HistoryRewritten")
    server.stop()
    source.refuse("Unreachable")
    again = source.ask(commit=first["commit"], readAnyway=True)
    assert again["ok"] and again["files"] == first["files"] and "ref" not in again and again["moved"] and not again["fetched"]
    assert (again["subject"], again["author"]) == (first["subject"], first["author"])
    source.refuse("NotFound", "is not in", "cannot be fetched", commit="0" * 40)
    source.refuse("SourceFailed", "no commit", commit="main")
    # Lost, and found once the server is back.
    shutil.rmtree(source.folder / "repository.git")
    source.refuse("NotFound", "cannot be fetched", commit=first["commit"])
    server.begin()
    try:
        assert source.ask(commit=first["commit"])["files"] == first["files"]
    finally:
        server.stop()


def test_a_repository_on_this_machine_keeps_what_was_rewritten(local, repository):
    first = local.accept()
    repository.git("commit", "-q", "--amend", "-m", "amended")
    repository.push()
    local.refuse("HistoryRewritten")
    assert local.ask(commit=first["commit"])["files"] == first["files"]


# --- tags ---


def test_the_highest_tag_that_matches(server, sources, repository):
    commits = {}
    for version in ("v1.2.0", "v1.10.0", "v1.9.0", "v2.0.0-rc.1", "0.9", "release"):
        commits[version] = repository.commit({"agents/version.yaml": f"# {version}\n"})
        repository.tag(version, *(["-a", "-m", "annotated"] if version != "v1.9.0" else []))
    source = sources(server, repository, tag="1.x", branch=None)
    found = source.accept()
    assert (found["ref"], found["commit"]) == ("refs/tags/v1.10.0", commits["v1.10.0"])
    assert source.texts(found)["agents/version.yaml"] == "# v1.10.0\n"
    assert source.accept()["fetched"] is False
    for pattern, ref in (("~1.9", "v1.9.0"), ("<1", "0.9"), (">=2-0", "v2.0.0-rc.1"), ("v1.2.x", "v1.2.0"), ("*", "v1.10.0")):
        answer = sources(server, repository, tag=pattern, branch=None).accept()
        assert answer["ref"] == f"refs/tags/{ref}" and answer["commit"] == commits[ref], answer
    source.refuse("NotFound", "none of 6 tags", tag="3.x")
    source.refuse("SourceFailed", "no pattern", tag="release")
    source.refuse("SourceFailed", "one of the two", branch="main")


def test_a_newer_tag_need_not_descend_but_none_may_move(server, sources, repository):
    first = repository.head()
    repository.tag("v1.0.0")
    source = sources(server, repository, tag="1.x", branch=None)
    source.accept()
    repository.git("checkout", "-q", "--orphan", "fix")
    fixed = repository.commit({"agents/fix.yaml": "# fix\n"}, push=False)
    repository.tag("v1.0.1", "-a", "-m", "fix")
    assert source.accept()["commit"] == fixed
    repository.git("tag", "-f", "v1.0.1", first)
    repository.push("refs/tags/v1.0.1")
    source.refuse("HistoryRewritten", "refs/tags/v1.0.1", fixed, first)
    assert source.ask(fastForwardOnly=False)["commit"] == first
    assert source.ask(acceptedRewrite=first)["commit"] == first
    # Gone: the next lower one is a step back, unless its commit is one ahead.
    repository.git("push", "-q", "origin", ":refs/tags/v1.0.1")
    source.refuse("HistoryRewritten", "refs/tags/v1.0.0", "refs/tags/v1.0.1", fixed, first)
    source.refuse("HistoryRewritten", fixed, first, acceptedRewrite=fixed)
    assert source.ask(acceptedRewrite=first)["ref"] == "refs/tags/v1.0.0"
    assert source.ask(fastForwardOnly=False)["ref"] == "refs/tags/v1.0.0"
    ahead = repository.commit({"agents/fix.yaml": "# fix 2\n"}, push=False)
    repository.tag("v1.0.0+2")
    assert source.accept()["commit"] == ahead
    source.refuse("SourceFailed", "no commit", acceptedRewrite="main")


# --- signatures ---


@pytest.fixture(scope="module")
def ada(keys):
    return keys.openpgp("ada")


def test_openpgp(server, sources, repository, keys, ada):
    bob = keys.openpgp(f"bob{next(_number)}")
    source = sources(server, repository, gpgKeys=[str(keys.export(ada))])
    source.refuse("VerificationFailed", repository.head(), "not signed")
    good = repository.commit({"agents/a.yaml": "# a\n"}, env=keys.signing(ada))
    answer = source.accept()
    assert answer["commit"] == good and ada in answer["signer"] and "ada@example.com" in answer["signer"], answer
    repository.commit({"agents/a.yaml": "# b\n"}, env=keys.signing(bob))
    source.refuse("VerificationFailed", "not among those given")
    both = [str(keys.export(ada)), str(keys.export(bob, armor=False))]
    assert bob in source.ask(gpgKeys=both)["signer"]


def test_a_signature_by_a_hash_that_can_be_forged(sources, repository, keys):
    """Two commits can be made that one SHA-1 signature fits: gpgv of GnuPG 2.2 vouches for it, and Berth does not."""
    old = keys.openpgp("old", algorithm="rsa2048")
    source = sources(None, repository, gpgKeys=[str(keys.export(old))])
    repository.commit(env=keys.signing(old, options="--digest-algo SHA1 --allow-weak-digest-algos"))
    source.refuse("VerificationFailed", "can be forged", "SHA256")
    good = repository.commit(env=keys.signing(old))
    assert source.accept()["commit"] == good


def test_a_signature_is_judged_before_anything_is_read(sources, repository, keys, ada):
    repository.git("update-index", "--add", "--cacheinfo", f"120000,{repository.git('hash-object', '-w', '--stdin', stdin='/etc')},agents/link")
    repository.git("commit", "-q", "-m", "a link")
    repository.push()
    sources(None, repository).refuse("UnsafeTree", "agents/link")
    sources(None, repository, gpgKeys=[str(keys.export(ada))]).refuse("VerificationFailed", "not signed")


def test_keys_that_expired_or_were_revoked(sources, repository, keys, ada):
    short = keys.openpgp("short", "1d", faked="20240101T000000")
    source = sources(None, repository, gpgKeys=[str(keys.export(short))])
    repository.commit(env=keys.signing(short, faked="20240101T010000"))
    source.refuse("VerificationFailed", "expired")
    gone = keys.openpgp("gone")
    repository.commit(env=keys.signing(gone))
    assert source.ask(gpgKeys=[str(keys.export(gone))])["ok"]
    revocation = (keys.gnupg / f"openpgp-revocs.d/{gone}.rev").read_text().replace(":-----BEGIN", "-----BEGIN")
    keys.gpg("--import", stdin=revocation)
    source.refuse("VerificationFailed", "revoked", gpgKeys=[str(keys.export(gone))])


def raw_of(repository, commit):
    return subprocess.run(["git", "-C", repository.work, "cat-file", "commit", commit], capture_output=True, check=True).stdout


def test_tampering(sources, repository, keys, ada):
    source = sources(None, repository, gpgKeys=[str(keys.export(ada))])
    good = repository.commit({"agents/a.yaml": "# good\n"}, "signed", env=keys.signing(ada))
    evil = repository.commit({"agents/a.yaml": "# evil\n"}, "unsigned")
    good_tree, evil_tree = (repository.git("rev-parse", f"{commit}^{{tree}}") for commit in (good, evil))
    raw = raw_of(repository, good)
    for changed in (
        raw.replace(good_tree.encode(), evil_tree.encode()),  # other content under the same signature
        raw.replace(b"signed", b"sigNed"),
        raw.replace(b"\n\nsigned", b"\nx-note: added\n\nsigned"),
        raw.replace(b"tree " + good_tree.encode(), b"tree " + evil_tree.encode() + b"\ntree " + good_tree.encode()),
        raw.replace(b"\ngpgsig ", b"\nencoding x\ngpgsig ", 1),
        raw.replace(b"gpgsig -----BEGIN PGP SIGNATURE", b"gpgsig -----BEGIN PGP MESSAGE"),
    ):
        assert changed != raw
        commit = repository.raw("commit", changed)
        repository.set_ref("refs/heads/main", commit)
        answer = source.ask()
        assert not answer["ok"] and answer["reason"] in ("VerificationFailed", "SourceFailed", "NotFound") and answer["files"] == {}, answer
    # A signature in the message is no signature of the commit.
    armor = raw[raw.index(b"-----BEGIN") : raw.index(b"-----END PGP SIGNATURE-----") + 27].replace(b"\n ", b"\n").decode()
    repository.set_ref("refs/heads/main", repository.raw_commit(evil_tree, message=f"x\n\n{armor}\n"))
    source.refuse("VerificationFailed", "not signed")
    # What somebody else signed, copied to another commit.
    signature = armor.replace("\n", "\n ")
    repository.set_ref("refs/heads/main", repository.raw_commit(evil_tree, extra=f"gpgsig {signature}\n"))
    source.refuse("VerificationFailed")
    repository.set_ref("refs/heads/main", good)
    assert source.accept()["commit"] == good


def test_ssh_signatures(server, sources, repository, keys):
    number = next(_number)
    alice, mallory = keys.ssh(f"alice{number}"), keys.ssh(f"mallory{number}")
    public = alice.with_suffix(".pub").read_text().strip()
    allowed = keys.allowed(f'alice@example.com,other@example.com namespaces="git" {public}')
    source = sources(server, repository, sshAllowedSigners=str(allowed))
    source.refuse("VerificationFailed", "not signed")
    repository.commit(env=keys.ssh_signing(mallory))
    source.refuse("VerificationFailed", "not among the allowed signers")
    good = repository.commit({"agents/a.yaml": "# a\n"}, env=keys.ssh_signing(alice))
    answer = source.accept()
    assert answer["commit"] == good and answer["signer"].startswith("alice@example.com (ssh SHA256:"), answer


def test_allowed_signers_options(sources, repository, keys, ada):
    number = next(_number)
    alice = keys.ssh(f"alice{number}")
    public = alice.with_suffix(".pub").read_text().strip()
    good = repository.commit({"agents/a.yaml": "# a\n"}, env=keys.ssh_signing(alice))
    for options, ok in (
        ("a@example.com", True), ("*@example.com", True), ('a@example.com valid-after="20200101"', True),
        ('a@example.com valid-before="20200101"', False), ('a@example.com namespaces="file"', False),
        ("a@example.com cert-authority", False),
    ):  # fmt: skip
        answer = sources(None, repository, sshAllowedSigners=str(keys.allowed(f"{options} {public}"))).ask()
        assert answer["ok"] is ok, (options, answer)
        assert ok or answer["reason"] == "VerificationFailed"
    allowed = str(keys.allowed(f"a@example.com {public}"))
    both = sources(None, repository, sshAllowedSigners=allowed, gpgKeys=[str(keys.export(ada))])
    assert "ssh" in both.accept()["signer"]
    repository.commit(env=keys.signing(ada))
    assert "OpenPGP" in both.accept()["signer"]
    sources(None, repository, sshAllowedSigners=allowed).refuse("VerificationFailed", "gpgKeys")
    # Another commit under the same ssh signature.
    raw = raw_of(repository, good)
    repository.set_ref("refs/heads/main", repository.raw("commit", raw.replace(b"a change", b"b change")))
    sources(None, repository, sshAllowedSigners=allowed).refuse("VerificationFailed", "does not fit")


def test_a_tags_own_signature(server, sources, repository, keys, ada):
    number = next(_number)
    alice = keys.ssh(f"alice{number}")
    allowed = str(keys.allowed(f"a@example.com {alice.with_suffix('.pub').read_text().strip()}"))
    source = sources(server, repository, tag="*", branch=None, gpgKeys=[str(keys.export(ada))], sshAllowedSigners=allowed)
    repository.commit({"agents/a.yaml": "# a\n"})
    repository.tag("v1.0.0", "-a", "-m", "unsigned")
    source.refuse("VerificationFailed", "not signed")
    repository.tag("v1.0.1", "-s", "-m", "signed", env=keys.signing(ada))
    assert ada in source.accept()["signer"]
    repository.commit({"agents/a.yaml": "# b\n"})
    repository.tag("v1.0.2", "-s", "-m", "signed", env=keys.ssh_signing(alice))
    assert "ssh" in source.accept()["signer"]
    signed = source.request["have"]
    again = source.ask(commit=signed)
    assert again["ok"] and again["commit"] == signed and "ssh" in again["signer"], again
    # The tag's signature says nothing where the tag was changed to name another commit.
    other = repository.commit({"agents/a.yaml": "# evil\n"})
    raw = subprocess.run(["git", "-C", repository.work, "cat-file", "tag", "v1.0.2"], capture_output=True, check=True).stdout
    forged = repository.raw("tag", raw.replace(raw[7:47], other.encode()).replace(b"tag v1.0.2", b"tag v1.0.3"))
    repository.set_ref("refs/tags/v1.0.3", forged)
    source.refuse("VerificationFailed", "of its tag")
    # A tag that was signed is signed under its name: it brings nobody back under a higher one.
    repository.set_ref("refs/tags/v1.0.4", repository.git("rev-parse", "v1.0.1"))
    source.refuse("VerificationFailed", "of its tag, it is signed under another name")
    # Nor for a branch that has the same commit.
    branch = sources(server, repository, gpgKeys=[str(keys.export(ada))])
    branch.refuse("VerificationFailed", "not signed")


def test_judges_and_keys_that_are_missing(sources, repository, keys, ada, written, tmp_path):
    repository.commit({"agents/a.yaml": "# a\n"}, env=keys.signing(ada))
    source = sources(None, repository, gpgKeys=[str(keys.export(ada))])
    source.env = {"PATH": str(tmp_path)}
    source.refuse("VerificationFailed", "gpgv", "not installed")
    source.env = Source.env
    source.refuse("SourceFailed", "/no/such.asc", gpgKeys=["/no/such.asc"])
    source.refuse("SourceFailed", "no OpenPGP public key", gpgKeys=[written("empty.asc", "nothing\n")])
    source.refuse("SourceFailed", "damaged", gpgKeys=[written("bad.asc", keys.export(ada).read_text().replace("\n\n", "\n\n!!!!\n"))])
    source.refuse("SourceFailed", "allowed signers", sshAllowedSigners="/no/such")


# --- trees ---


def bare_tree(repository, entries):
    """A commit whose root has these entries, on the branch."""
    repository.set_ref("refs/heads/main", repository.raw_commit(repository.raw_tree(entries)))


@pytest.mark.parametrize(
    "name",
    ["..", ".", ".git", ".GIT", ".Git", "git~1", ".git ", ".git.", ".g\u200cit", "a/b", "/a", "a\nb.yaml", "a\x1b[31m.yaml", ".git::$INDEX_ALLOCATION",
     "..\\.git", b"\xff.yaml"],
)  # fmt: skip
def test_names_that_are_not_let_in(local, repository, name):
    blob = repository.raw("blob", "# x\n")
    for mode in ("100644", "40000"):
        inner = blob if mode == "100644" else repository.raw_tree([("100644", "a.yaml", blob)])
        bare_tree(repository, [("100644", "a.yaml", blob), (mode, name, inner)])
        answer = local.refuse("UnsafeTree")
        assert "\x1b" not in answer["message"] and "\n" not in answer["message"]
        deep = repository.raw_tree([(mode, name, inner)])
        bare_tree(repository, [("40000", "agents", repository.raw_tree([("40000", "deep", deep)]))])
        assert "agents/deep/" in local.refuse("UnsafeTree")["message"]


def test_links_and_submodules(local, repository):
    blob = repository.raw("blob", "/etc")
    inner = repository.raw_tree([("100644", "a.yaml", repository.raw("blob", "# a\n"))])
    for mode, word in (("120000", "link"), ("160000", "submodule")):
        identity = blob if mode == "120000" else repository.head()
        for name in ("a.yaml", "agents", "README"):
            bare_tree(repository, [(mode, name, identity)])
            local.refuse("UnsafeTree", name, word)
        bare_tree(repository, [("40000", "agents", repository.raw_tree([(mode, "x", identity)]))])
        local.refuse("UnsafeTree", "agents/x", word)
        # On the way to `path`; elsewhere it is none of this source's business.
        bare_tree(repository, [(mode, "a", identity), ("40000", "agents", inner)])
        local.refuse("UnsafeTree", "a ", word, path="a/b")
        assert local.ask(path="agents")["ok"]
    bare_tree(repository, [("140000", "a.yaml", blob)])
    local.refuse("UnsafeTree", "neither a file nor a folder")


@pytest.mark.parametrize(
    "one, other", [("a.yaml", "A.yaml"), ("ä.yaml", "Ä.yaml"), ("ä.yaml", "a\u0308.yaml"), ("a.yaml", "a.yaml"), ("a", "a"), ("stra\u00dfe", "STRASSE")]
)
def test_twins(local, repository, one, other):
    blob = repository.raw("blob", "# x\n")
    bare_tree(repository, [("100644", one, blob), ("100644", other, repository.raw("blob", "# y\n"))])
    local.refuse("UnsafeTree", "one name")


def test_what_counts_as_a_manifest(local, repository):
    repository.commit({
        "agents/b.yaml": "# b\n", "agents/a/z.yml": "# z\n", "agents/a.yaml": "# a\n", "agents/a-b/c.yaml": "# c\n", "agents/.hidden.yaml": "# no\n",
        "agents/.dot/x.yaml": "# no\n", "agents/readme.md": "no", "agents/x.YAML": "no", ".github/workflows/ci.yaml": "# no\n", "agents/empty.yaml": "",
    })  # fmt: skip
    answer = local.accept()
    assert list(local.texts(answer)) == sorted(local.texts(answer), key=str.encode)
    assert list(local.texts(answer)) == [
        "agents/a-b/c.yaml", "agents/a.yaml", "agents/a/z.yml", "agents/b.yaml", "agents/empty.yaml", "agents/stack.yaml"
    ]  # fmt: skip
    for path in ("agents/a", "./agents/a/", "agents//a"):
        assert list(local.texts(local.ask(path=path, have=None))) == ["agents/a/z.yml"]
    assert local.texts(local.ask(path="agents/.dot", have=None)) == {"agents/.dot/x.yaml": "# no\n"}
    local.refuse("NotFound", "is a file", path="agents/a.yaml", have=None)
    for path in ("/agents", "agents/..", "../x", ".git"):
        local.refuse("SourceFailed", "path", path=path, have=None)


def test_lfs_pointers_are_said(local, repository):
    repository.commit({"agents/big.yaml": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n"})
    local.refuse("NotFound", "agents/big.yaml", "Git LFS")


def test_objects_that_are_malformed_are_not_fetched_again_and_again(daemon, sources, repository):
    """They are what somebody made: throwing the repository away would bring the same ones again."""
    blob = repository.raw("blob", "# x\n")
    source = sources(daemon, repository, fastForwardOnly=False)
    source.accept()
    good = source.packs()
    for commit in (
        repository.raw_commit(blob),  # a tree that is none
        repository.raw_commit(repository.raw_tree([("40000", "agents", blob)])),
        repository.raw_commit(repository.raw_tree([("100644", "a.yaml", repository.raw_tree([]))])),
        repository.raw_commit(repository.raw("tree", b"no tree at all")),
    ):
        repository.set_ref("refs/heads/main", commit)
        answer = source.ask()
        assert not answer["ok"] and answer["reason"] in ("UnsafeTree", "Unreachable", "SourceFailed", "NotFound"), answer
        if answer["reason"] == "UnsafeTree":
            assert set(good) <= set(source.packs())
            assert source.refuse("UnsafeTree")["fetched"] is False


def test_limits(local, repository):
    repository.commit({f"agents/{i}.yaml": "# " + "x" * 98 for i in range(20)})
    assert local.ask(limits={"entries": 40, "blobBytes": 100, "totalBytes": 20 * 100 + len(STACK)})["ok"]
    local.refuse("OverLimit", "20 entries", limits={"entries": 20})
    local.refuse("OverLimit", "100 bytes", "99", limits={"blobBytes": 99})
    local.refuse("OverLimit", "2000 bytes together", limits={"totalBytes": 2000})
    repository.commit({"agents/" + "d/" * 10 + "x.yaml": "# deep\n"})
    assert local.ask(limits={"depth": 11})["ok"]
    answer = local.refuse("OverLimit", "deeper than 10", limits={"depth": 10})
    assert answer["commit"] == repository.head()


def test_a_bomb_of_trees(local, repository):
    """Ten folders of the same ten folders of ... : small to fetch, endless to walk."""
    tree = repository.raw_tree([("100644", "a.yaml", repository.raw("blob", "# x\n"))])
    for _ in range(12):
        tree = repository.raw_tree([("40000", f"d{i}", tree) for i in range(10)])
    repository.set_ref("refs/heads/main", repository.raw_commit(tree))
    began = time.monotonic()
    local.refuse("OverLimit", "50000 entries")
    assert time.monotonic() - began < 60


def bomb(repository, size):
    """A branch whose pack says in a few kilobytes: a file of so many zeros, and another one that differs from it by a byte."""

    def header(kind, length):
        first, length = kind << 4 | length & 15, length >> 4
        out = bytearray()
        while length:
            out.append(first | 128)
            first, length = length & 127, length >> 7
        return bytes(out + bytes([first]))

    def number(value):
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes(out + bytes([value]))

    def name(kind, parts):
        digest = hashlib.sha1(b"%s %d\0" % (kind, sum(map(len, parts))))
        for part in parts:
            digest.update(part)
        return digest.digest()

    zeros, chunk = bytes(size), 0xFFFFFF
    base, changed = name(b"blob", [zeros]), name(b"blob", [zeros, b"x"])
    copies = b"".join(
        b"\xff" + at.to_bytes(4, "little") + min(chunk, size - at).to_bytes(3, "little") for at in range(0, size, chunk)
    )
    delta = number(size) + number(size + 1) + copies + b"\x01x"
    tree = b"100644 a\0" + base + b"100644 b\0" + changed
    person = b"A <a@example.com> 1700000000 +0000"
    commit = b"tree %s\nauthor %s\ncommitter %s\n\nbomb\n" % (name(b"tree", [tree]).hex().encode(), person, person)
    body = b"PACK" + (2).to_bytes(4, "big") + (4).to_bytes(4, "big")
    body += header(1, len(commit)) + zlib.compress(commit) + header(2, len(tree)) + zlib.compress(tree)
    body += header(3, size) + zlib.compress(zeros, 9) + header(7, len(delta)) + base + zlib.compress(delta)
    body += hashlib.sha1(body).digest()
    run("git", "-C", repository.bare, "index-pack", "--stdin", stdin=body)
    repository.set_ref("refs/heads/main", name(b"commit", [commit]).hex())
    return len(body)


def test_a_bomb_of_a_pack(daemon, sources, repository):
    """Little to fetch, and any amount of memory to unpack: it ends with a word about that, and took little."""
    assert bomb(repository, 200 * 2**20) < 250_000
    source = sources(daemon, repository)
    process = source.start()
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    answer = json.loads(out)
    assert process.returncode == 0 and not answer["ok"] and answer["reason"] == "OverLimit", answer
    assert "more memory than the 256 MiB" in answer["message"]
    # A process begins with the peak of who started it: where that is large by itself, the figure says nothing.
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if "san" not in str(tool("git_check_cli")) and own < 300 * 1024:
        assert usage.ru_maxrss < 400 * 1024, usage.ru_maxrss  # KiB; it was the file's size twice


def test_a_repository_larger_than_allowed(daemon, sources, repository):
    repository.commit({"big.bin": os.urandom(3_000_000)})
    source = sources(daemon, repository, limits={"packBytes": 1_000_000})
    source.refuse("OverLimit", "larger than the 1000000 bytes")
    assert source.size() < 200_000
    assert source.ask(limits={"packBytes": 4_000_000})["ok"]


# --- the folder ---


def test_a_damaged_repository_is_fetched_anew(daemon, sources, repository):
    source = sources(daemon, repository)
    source.accept()
    bare = source.folder / "repository.git"

    def pack(suffix):
        return next((bare / "objects/pack").glob(f"*{suffix}"))

    def overwrite(path, change):
        path.chmod(0o600)
        path.write_bytes(change(path.read_bytes()))

    damages = [
        lambda: overwrite(pack(".pack"), lambda data: data[:40]),
        lambda: overwrite(pack(".idx"), lambda data: data[: len(data) // 2]),
        lambda: overwrite(pack(".pack"), lambda data: data[:60] + bytes(len(data) - 80) + data[-20:]),
        lambda: pack(".idx").unlink(),
        lambda: pack(".pack").unlink(),
        lambda: (bare / "HEAD").unlink(),
        lambda: (bare / "config").write_text("[core\n"),
        lambda: (shutil.rmtree(bare), bare.write_text("a file\n")),
        lambda: shutil.rmtree(bare / "objects"),
        lambda: (bare / "refs/berth/fetched").write_text("0" * 40 + "\n"),
    ]
    for number, damage in enumerate(damages):
        damage()
        again = source.ask(readAnyway=True)
        assert again["ok"] and source.texts(again) == {"agents/stack.yaml": STACK} | {f"agents/{i}.yaml": "# x\n" for i in range(number)}, (number, again)
        damage()
        repository.commit({f"agents/{number}.yaml": "# x\n"})
        assert f"agents/{number}.yaml" in source.texts(source.accept())


def test_what_an_interrupted_fetch_left_is_swept(daemon, sources, repository):
    source = sources(daemon, repository)
    source.accept()
    left = source.folder / "repository.git/objects/pack/pack_git2_abcdef"
    left.write_bytes(bytes(1000))
    (source.folder / "next.git").mkdir()
    (source.folder / "tmp/x").mkdir(parents=True)
    source.accept()
    assert not left.exists() and not (source.folder / "next.git").exists() and not (source.folder / "tmp").exists()


def test_one_process_a_folder(sources, repository):
    silent = Silent()
    source = sources(None, repository, url=f"git://127.0.0.1:{silent.port}/a.git", limits={"timeoutMs": 20000})
    process = source.start()
    silent.wait()
    Source(source.folder, repository.bare).refuse("SourceFailed", "in use")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    silent.stop()


def test_a_folder_that_cannot_be_made(sources, repository, tmp_path):
    (tmp_path / "file").write_text("")
    Source(tmp_path / "file" / "x", repository.bare).refuse("SourceFailed", "folder")


def test_a_repository_of_somebody_else(local, repository):
    if os.getuid() != 0:
        pytest.skip("only root can give a repository away")
    run("chown", "-R", "65534:65534", repository.bare)
    local.accept()


def test_many_commits_leave_no_heap_of_packs(daemon, sources, repository):
    """Each poll that finds something brings a pack: now and then all is fetched anew."""
    source = sources(daemon, repository)
    most = 0
    commit = repository.head()
    for number in range(70):  # at fifty packs all is fetched anew
        tree = repository.raw_tree([("40000", "agents", repository.raw_tree([("100644", "n.yaml", repository.raw("blob", f"# {number}\n"))]))])
        commit = repository.raw_commit(tree, commit)
        repository.set_ref("refs/heads/main", commit)
        answer = source.accept()
        assert answer["fetched"] and answer["commit"] == commit
        most = max(most, len(source.packs()))
        if number == 10:
            early = answer
        elif number > 10 and (number % 10 == 0 or 45 < number < 56):
            # In force since, whatever came after: also where all was fetched anew in between.
            found = source.ask(commit=early["commit"])
            assert found["ok"] and found["files"] == early["files"], (number, found)
    assert 20 < most <= 51 and len(source.packs()) < most and source.size() < 800_000, (most, source.size())


def test_polls_that_find_nothing_leave_nothing(daemon, sources, repository):
    source = sources(daemon, repository)
    source.accept()
    source.accept()
    before, files = source.size(), sorted(source.folder.rglob("*"))
    for _ in range(int(os.environ.get("BERTH_POLLS", "20"))):
        source.accept()
    assert source.size() == before and sorted(source.folder.rglob("*")) == files


@pytest.fixture(scope="module")
def large(served):
    """10,000 commits, 5,000 files."""
    made = Repository(served, "large")
    lines = ["blob\nmark :1\ndata <<END\n# nothing\nEND\n"]
    for number in range(10_000):
        lines.append(f"commit refs/heads/main\nmark :{number + 2}\ncommitter C <c@example.com> {1_600_000_000 + number} +0000\ndata 2\nx\n")
        if number:
            lines.append(f"from :{number + 1}\n")
        lines.append(f"M 100644 inline agents/{number % 5000 // 100}/{number % 5000}.yaml\ndata <<END\n# {number}\nEND\n")
    run("git", "fast-import", "--quiet", cwd=made.bare, stdin="".join(lines))
    return made


def test_a_large_repository(server, sources, large):
    source = sources(server, large)
    began = time.monotonic()
    answer = source.accept()
    took = time.monotonic() - began
    assert len(answer["files"]) == 5000
    began = time.monotonic()
    assert source.accept()["fetched"] is False
    print(f"{'file' if server is None else type(server).__name__}: 10,000 commits, 5,000 files: {took:.1f} s, {answer['received']} bytes; again {time.monotonic() - began:.2f} s")
    first = run("git", "-C", large.bare, "rev-list", "--max-parents=0", "main").strip()
    descends = source.ask(have=first, readAnyway=True)
    assert descends["ok"] and descends["moved"]


def test_killed_at_any_time(daemon, sources, large):
    """What a kill leaves is no hindrance to the next poll, and does not pile up."""
    source = sources(daemon, large)
    for number in range(8):
        process = source.start()
        time.sleep(0.1 + number * 0.3)
        process.kill()
        process.communicate()
    answer = wait_until(lambda: (said := source.ask()) and (said["ok"] or "in use" not in said["message"]) and said, timeout=10)
    assert answer["ok"] and len(answer["files"]) == 5000, answer
    assert source.size() < 10_000_000
    assert not [p for p in (source.folder / "repository.git/objects/pack").iterdir() if not p.name.startswith("pack-")]


# --- the worker's own door ---


def test_berth_is_its_own_worker(binary, repository, tmp_path):
    request = {"url": str(repository.bare), "branch": "main", "folder": str(tmp_path / "source")}
    done = subprocess.run([binary, "git-worker"], input=frame(request), capture_output=True, timeout=60)
    assert done.returncode == 0 and b'"ok":true' in done.stdout and done.stdout.endswith(STACK.encode()), done
    shown = subprocess.run([binary, "--help"], capture_output=True, timeout=60).stdout
    assert b"controller" in shown and b"git-worker" not in shown


@pytest.mark.parametrize("given", [b"", b"\n", b"5\n{", b"x", b"99999999999999999999\n{}", b"2\n[]", b"2\n{}", b'9\n{"url":1}', b"-1\n{}"])
def test_what_is_no_request(given):
    done = subprocess.run([tool("git_check_cli"), "git-worker"], input=given, capture_output=True, timeout=60)
    assert done.returncode == 0 and b'"ok":false' in done.stdout and b"Sanitizer" not in done.stderr
