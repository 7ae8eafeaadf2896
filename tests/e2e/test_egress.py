# SPDX-License-Identifier: Apache-2.0
"""network.allow: what gets out of a sandbox, with the programs that people use; and what does not, whoever tries."""

import json
import os
import shutil
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

import stacks
import world as worlds
from binary import Berth
from controllers import wait_until
from lib.containers import CLIENTS as CONTAINER_CLIENTS, Containers, kill_server
from lib.lab import TOKENS
from lib.launched_sessions import Box, nothing_left, workers_of
from lib.launchers import Launcher

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces, and mounts in them")

ALLOW = ["pypi.example.org", "*.files.example.org", "npm.example.org", "git.example.org", "www.example.org", "git.example.org:8443",
         "private.example.org", "link.example.org", "loop.example.org", "rebind.example.org", "both.example.org", "self.example.org",
         "six.example.org", *(f"in{n}.example.org" for n in range(12)), *(f"mapped{n}.example.org" for n in range(7)), "www.example.org:22", "gone.example.org"]  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    folder.chmod(0o755)
    made = worlds.World(folder)
    try:
        made.zone |= {
            "cdn.files.example.org": [worlds.SERVER],
            "six.example.org": [worlds.SERVER6],
            "loop.example.org": ["127.0.0.1", "::1"],
            "rebind.example.org": [[worlds.SERVER], ["127.0.0.1"], [worlds.SERVER], ["10.9.9.9"]],
            "both.example.org": [worlds.SERVER, "10.9.9.9"],
            "self.example.org": [worlds.OURS],
            "self6.example.org": [worlds.OURS6],
            **{f"in{n}.example.org": [address] for n, address in enumerate(INSIDE)},
            **{f"mapped{n}.example.org": [address] for n, address in enumerate(MAPPED)},
        }
        yield made.serve()
    finally:
        made.end()


INSIDE = [*worlds.INSIDE, *worlds.INSIDE6][:12]
MAPPED = ["::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.9.9.9", "::127.0.0.1", "::", "2002:7f00:1::", "64:ff9b::7f00:1"]


@pytest.fixture(scope="module")
def repository(world):
    """In the folder from which git.example.org serves."""
    work, bare = world.folder / "work", world.folder / "repo.git"
    quiet = {"check": True, "capture_output": True}
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", bare], **quiet)
    subprocess.run(["git", "init", "-q", "-b", "main", work], **quiet)
    (work / "README").write_text("hello\n")
    subprocess.run(["git", "-C", work, "add", "."], **quiet)
    subprocess.run(["git", "-C", work, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "first"], **quiet)
    subprocess.run(["git", "-C", work, "push", "-q", bare, "main"], **quiet)


@pytest.fixture(scope="module")
def berth(binary, world, tmp_path_factory):
    made = Berth(world.berth(binary), tmp_path_factory.mktemp("egress"))
    made.write(
        "stack.yaml",
        stacks.text(
            stacks.document("Stack", "lab", {"provider": "local"}),
            stacks.environment("out", network={"allow": ALLOW}),
            stacks.environment("little", network={"allow": ["www.example.org"], "transferMB": 1}),
            stacks.environment("none", network="none"),
            stacks.environment("said-nothing"),
            stacks.agent("fetcher", "out"),
            stacks.agent("hermit", "none"),
        ),
    )
    made.apply()
    return made


def shell(berth, code, *args, env="out"):
    return berth("exec", "--env", env, "--lang", "sh", "-c", code, *args)


def python(berth, code, *args, env="out"):
    return berth("exec", "--env", env, "-c", code, *args)


def packed(folder, *names):
    """Packages of this Python, as a file that one can be told to look into."""
    where = folder / f"{names[0]}.zip"
    with zipfile.ZipFile(where, "w") as archive:
        for name in names:
            top = Path(__import__(name).__file__).parent
            for path in top.rglob("*.py") if top.name == name else []:
                archive.write(path, path.relative_to(top.parent))
            for path in top.rglob("*.pem"):
                archive.write(path, path.relative_to(top.parent))
    return where


# --- what people use ---


def test_curl_by_https_and_by_http(berth, world):
    done = shell(berth, "curl -sS https://www.example.org/a; echo; curl -sS http://www.example.org/b?c=d")
    assert done.expect(0).out == "GET /a of www.example.org\nGET /b?c=d of www.example.org"


def test_a_server_that_asks_for_another_hello(berth, world):
    """secp521r1 is no curve that clients guess: TLS 1.3 begins anew."""
    assert shell(berth, "curl -sS https://git.example.org:8443/again").expect(0).out == "GET /again of git.example.org:8443"
    hellos = [r for r in world.requests(hellos=True) if r.get("hello") and r["port"] == 8443]
    assert hellos and {r["sni"] for r in hellos} == {"git.example.org"}


def test_bodies_go_both_ways_whole(berth):
    code = (
        "head -c 3000000 /dev/urandom > sent; sha256sum sent | cut -c1-64; curl -sS --data-binary @sent https://www.example.org/digest; echo;"
        "curl -sS --data-binary @sent http://www.example.org/digest; echo; curl -sS https://www.example.org/bytes?20000000 | wc -c;"
        "curl -sS http://www.example.org/bytes?20000000 | wc -c"
    )
    lines = shell(berth, code).expect(0).out.split()
    assert lines[0] == lines[1] == lines[2]
    assert lines[3:] == ["20000000", "20000000"]


def test_ipv6(berth):
    assert shell(berth, "curl -sS https://six.example.org/").expect(0).out == "GET / of six.example.org"


def test_pip_installs(berth, tmp_path):
    pip = packed(tmp_path, "pip")
    code = "PYTHONPATH=/workspace/pip.zip python3 -m pip install -q --target /workspace/got --index-url https://pypi.example.org/simple tiny && cd got && python3 -c 'import tiny; print(tiny.answer)'"
    done = berth("exec", "--env", "out", "--lang", "sh", "-c", code, "--file", f"pip.zip={pip}")
    assert done.expect(0).out.split()[-1] == "42"


def test_requests(berth, tmp_path):
    archive = packed(tmp_path, "requests", "urllib3", "idna", "charset_normalizer", "certifi")
    code = (
        "import sys; sys.path.insert(0, 'requests.zip')\nimport requests\nwith requests.Session() as s:\n"
        "  print([s.get(f'{scheme}://www.example.org/{n}').text for scheme in ('http', 'https') for n in range(3)])"
    )
    done = berth("exec", "--env", "out", "-c", code, "--file", f"requests.zip={archive}")
    assert done.expect(0).out.strip() == str([f"GET /{n} of www.example.org" for _ in range(2) for n in range(3)])


def test_git_over_https(berth, repository):
    done = shell(berth, "git clone -q https://git.example.org/repo.git && cat repo/README && git -C repo fetch -q && echo fetched")
    assert done.expect(0).out == "hello\nfetched\n"


def test_npm_installs(berth):
    done = shell(berth, "cd /tmp && npm install --silent --registry https://npm.example.org/ tiny && node -p 'require(\"tiny\")'")
    assert done.expect(0).out.split()[-1] == "42"


def test_what_goes_on_is_written_anew(berth, world):
    shell(berth, "curl -sS -H 'Proxy-Authorization: Basic x' -H 'X-Kept: 1' -H 'Upgrade: h2c' http://www.example.org/anew").expect(0)
    request = next(r for r in world.requests() if r["path"] == "/anew")
    names = {header.split(":")[0].lower() for header in request["headers"]}
    assert "x-kept" in names and not names & {"proxy-authorization", "proxy-connection", "upgrade"}
    assert "Connection: close" in request["headers"]


# --- what does not get out ---

CLIENT = """
import socket, ssl, sys
def ask(data, port=3128, then=b'', sni=None, read=True):
    s = socket.create_connection(('127.0.0.1', port), timeout=60)
    s.sendall(data)
    head = b''
    while b'\\r\\n\\r\\n' not in head:
        piece = s.recv(65536)
        if not piece: break
        head += piece
    return s, head
def status(data):
    s, head = ask(data)
    s.close()
    return int(head.split()[1]) if head else 0
def get(url, host=None, more=''):
    host = host or url.split('/')[2]
    return status(f'GET {url} HTTP/1.1\\r\\nHost: {host}\\r\\n{more}\\r\\n'.encode())
def connect(where):
    return status(f'CONNECT {where} HTTP/1.1\\r\\nHost: {where}\\r\\n\\r\\n'.encode())
def hello(host, sni, port=443, ech=False):
    '''What a tunnel for `host` makes of a ClientHello for `sni`: the answer's first byte.'''
    s, head = ask(f'CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n'.encode())
    assert b' 200 ' in head, head
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(into, out, server_hostname=sni)
    try: tls.do_handshake()
    except ssl.SSLWantReadError: pass
    return s, out.read()
def first(s):
    s.settimeout(60)
    try: return s.recv(7)
    except ConnectionError: return b''
"""


def attack(berth, code):
    return json.loads(python(berth, CLIENT + "import json\n" + code + "\nprint(json.dumps(found))").expect(0).out)


@pytest.mark.parametrize("environment", ["none", "said-nothing"])
def test_without_a_list_there_is_no_way_out(berth, environment):
    code = (
        "import os, socket\nprint([n for n in os.environ if 'proxy' in n.lower() or 'CERT' in n])\n"
        "for where in (('127.0.0.1', 3128), ('5.45.100.10', 80)):\n  try: socket.create_connection(where, 5)\n  except OSError as e: print(e.strerror)"
    )
    assert python(berth, code, env=environment).expect(0).out == "[]\nConnection refused\nNetwork is unreachable\n"


def test_with_a_list_there_is_still_no_route_and_no_name(berth):
    code = (
        "import socket\nfor how in (lambda: socket.create_connection(('5.45.100.10', 80), 5), lambda: socket.getaddrinfo('www.example.org', 80)):\n"
        "  try: how()\n  except OSError as e: print(type(e).__name__)\nprint([line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]])"
    )
    assert python(berth, code).expect(0).out == "OSError\ngaierror\n['lo']\n"


def test_hosts_that_are_not_listed(berth):
    hosts = ["other.example.org", "example.org", "files.example.org", "www.example.org.evil.com", "xwww.example.org", "notfiles.example.org"]
    found = attack(berth, f"found = [[get(f'http://{{h}}/'), connect(f'{{h}}:443')] for h in {hosts}]")
    assert found == [[403, 403]] * len(hosts)


def test_ports_that_are_not_listed(berth):
    """443 is for TLS and 80 for HTTP; git.example.org has 8443 besides."""
    code = "found = [connect(f'www.example.org:{p}') for p in (80, 25, 8443, 3128, 65535)] + [get('http://www.example.org:443/'), get('http://www.example.org:8080/')]"
    assert attack(berth, code) == [403] * 7


def test_addresses_in_every_form(berth, world):
    forms = ["127.0.0.1", "127.1", "0x7f.0.0.1", "0177.0.0.1", "2130706433", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "5.45.100.10", "localhost",
             "169.254.169.254", "user@www.example.org", "www.example.org@127.0.0.1", "www.example.org:80:80", "www.example.org:", "www.example.org:080",
             "www.example.org.", "www%2eexample.org", "www.example.org\\t", "-x.example.org", "*.files.example.org", "\u0437.org"]  # fmt: skip
    code = f"found = [[h, get(f'http://{{h}}/', host='www.example.org') , connect(h if ':' in h else h + ':443')] for h in {forms!r} if h.isascii()]"
    for form, plain, tunnel in attack(berth, code):
        assert plain in (400, 403) and tunnel in (400, 403), (form, plain, tunnel)
    assert world.trapped() == []


def test_names_that_lead_inside(berth, world):
    names = ["loop", "both", "self", *(f"in{n}" for n in range(len(INSIDE))), *(f"mapped{n}" for n in range(len(MAPPED)))]
    found = attack(berth, f"found = [[get(f'http://{{h}}.example.org/'), connect(f'{{h}}.example.org:443')] for h in {names}]")
    assert found == [[403, 403]] * len(names)
    assert world.trapped() == []


def test_a_name_that_leads_inside_the_second_time(berth, world):
    """Each connection asks anew, and connects to what was looked at: the name is asked for once."""
    code = "found = [get('http://rebind.example.org/') for _ in range(4)]"
    assert attack(berth, code) == [200, 403, 200, 403]
    assert world.trapped() == []


def test_a_name_that_is_nobodys(berth):
    assert attack(berth, "found = [get('http://gone.example.org/'), connect('gone.example.org:443')]") == [502, 502]


def test_a_redirect_leads_nowhere_else(berth, world):
    code = "curl -sSL -o /dev/null -w '%{http_code} ' 'http://www.example.org/to?http://169.254.169.254/latest/meta-data'; curl -sSL -o /dev/null -w '%{http_code} ' 'http://www.example.org/to?http://loop.example.org/';curl -sSL 'http://www.example.org/to?http://www.example.org/there'"
    assert shell(berth, code).expect(0).out == "400 403 GET /there of www.example.org"
    assert world.trapped() == []


def test_programs_that_are_told_to_lead_elsewhere(berth, world, tmp_path):
    """curl, git and requests themselves, with what they have for it."""
    code = """
tell() { echo "$?"; }
curl -s --connect-to other.example.org:443:www.example.org:443 https://other.example.org/elsewhere; tell
curl -sk --resolve www.example.org:443:127.0.0.1 --noproxy '*' https://www.example.org/elsewhere; tell
curl -s --proxytunnel -H 'Host: other.example.org' http://www.example.org/elsewhere; tell
curl -s -o /dev/null -w '%{http_code} ' -H 'Host: other.example.org' http://www.example.org/elsewhere; tell
curl -s --http2-prior-knowledge http://www.example.org/elsewhere; tell
git -c http.followRedirects=true clone -q 'https://www.example.org/to?http://169.254.169.254/repo.git' a 2>&1 | grep -c -e ' 40[03]' -e unable; tell
git clone -q git://git.example.org/repo.git b 2>/dev/null; tell
pip_index=https://www.example.org/to?https://other.example.org/simple; curl -sL -o /dev/null -w '%{http_code} ' "$pip_index"; tell
"""
    lines = shell(berth, code).expect(0).out.split("\n")
    assert lines[0] == "35" and lines[1] == "7" and lines[2] == "56" and lines[3].startswith("400"), lines
    assert lines[4] != "0" and lines[5] == "1" and lines[7] == "128" and lines[8].startswith("000 56"), lines
    archive = packed(tmp_path, "requests", "urllib3", "idna", "charset_normalizer", "certifi")
    code = (
        "import sys; sys.path.insert(0, 'requests.zip')\nimport requests\n"
        "for url in ('http://169.254.169.254/latest', 'http://loop.example.org/', 'http://127.0.0.1:22/'):\n"
        "  for scheme in ('http', 'https'):\n"
        "    try: print(requests.get(f'{scheme}://www.example.org/to?{url}', timeout=30).status_code)\n"
        "    except requests.RequestException as e: print(type(e).__name__)"
    )
    done = berth("exec", "--env", "out", "-c", code, "--file", f"requests.zip={archive}")
    assert done.expect(0).out.split() == ["400", "400", "403", "403", "400", "400"]
    assert world.trapped() == [] and not [r for r in world.requests() if "other.example.org" in (r["host"] or [])]


def test_another_host_in_a_request(berth, world):
    code = """found = [get('http://www.example.org/hosts', host='other.example.org'), get('http://www.example.org/hosts', more='Host: other.example.org\\r\\n'),
get('http://www.example.org/hosts', host='www.example.org:81'), get('http://www.example.org/hosts', more=' Host: other.example.org\\r\\n'),
get('http://www.example.org/hosts', more='Host : other.example.org\\r\\n'), get('/hosts', host='www.example.org'), get('https://www.example.org/hosts'),
status(b'GET http://www.example.org/hosts HTTP/1.1\\r\\n\\r\\n')]"""
    assert set(attack(berth, code)) == {400}
    assert not [r for r in world.requests() if r["path"] == "/hosts"]


def test_smuggled_requests(berth, world):
    second = "GET /smuggled HTTP/1.1\\r\\nHost: other.example.org\\r\\n\\r\\n"
    code = f"""second = b'{second}'
def post(more, body):
    return status(b'POST http://www.example.org/first HTTP/1.1\\r\\nHost: www.example.org\\r\\n' + more + b'\\r\\n' + body)
found = [post(b'Content-Length: 0\\r\\n', second), post(b'', second), post(b'Content-Length: 3\\r\\n', b'abc' + second),
post(b'Content-Length: 3\\r\\nContent-Length: 60\\r\\n', b'abc' + second), post(b'Transfer-Encoding: chunked\\r\\n', b'0\\r\\n\\r\\n' + second),
post(b'Transfer-Encoding: chunked\\r\\nContent-Length: 5\\r\\n', b'0\\r\\n\\r\\n' + second), post(b'Transfer-Encoding: xchunked\\r\\n', second),
post(b'Content-Length: +0\\r\\n', second), post(b'Content-Length: 0x3\\r\\n', second), post(b'X: a\\r\\n\\tb\\r\\n', second), post(b'X: a\\nHost: b\\r\\n', second),
post(b'X: a\\rb\\r\\n', second), post(b'X: \\0\\r\\n', second), get('http://www.example.org/a\\x0bb'), get('http://www.example.org/#a'),
status(b'GET http://www.example.org/first  HTTP/1.1\\r\\nHost: www.example.org\\r\\n\\r\\n')]
s, head = ask(b'GET http://www.example.org/late HTTP/1.1\\r\\nHost: www.example.org\\r\\n\\r\\n')
try:
    s.sendall(second)
    while s.recv(65536): pass
except OSError: pass
"""
    assert set(attack(berth, code)) <= {400, 411}
    assert not [r for r in world.requests() if r["path"] == "/smuggled" or "other.example.org" in (r["host"] or [])]


def test_another_server_name_in_a_tunnel(berth, world):
    code = """found = []
for sni in ('other.example.org', None, 'WWW.example.org.', 'www.example.orgx'):
    s, sent = hello('www.example.org', sni)
    s.sendall(sent)
    found.append(list(first(s)))
s, sent = hello('www.example.org', 'www.example.org')
s.sendall(sent)
found.append(first(s)[0])
for data in (b'GET / HTTP/1.1\\r\\nHost: other.example.org\\r\\n\\r\\n', b'SSH-2.0-x\\r\\n', b'\\x80\\x2e\\x01\\x03\\x01' + b'\\0' * 60, b'\\x17\\x03\\x03\\x00\\x02ab'):
    s, sent = hello('www.example.org', 'www.example.org', port=443)
    s.sendall(data)
    found.append(list(first(s)))
"""
    alert = [21, 3, 3, 0, 2, 2, 112]
    assert attack(berth, code) == [alert] * 4 + [22] + [alert] * 4
    assert not [r for r in world.requests(hellos=True) if r.get("sni") not in (None, *worlds.HOSTS, "six.example.org")]
    assert not [r for r in world.requests(hellos=True) if r.get("sni") == "other.example.org"]


def test_a_hello_in_pieces(berth):
    code = """found = []
for cut in (1, 5, 6, 60):
    s, sent = hello('www.example.org', 'www.example.org')
    whole = sent[5:]
    if cut < 5:
        for i in range(0, len(sent), cut): s.sendall(sent[i:i + cut])
    else:
        for i in range(0, len(whole), cut): s.sendall(b'\\x16\\x03\\x01' + len(whole[i:i + cut]).to_bytes(2, 'big') + whole[i:i + cut])
    found.append(first(s)[0])
s, sent = hello('www.example.org', 'other.example.org')
for i in range(5, len(sent), 7): s.sendall(b'\\x16\\x03\\x01' + len(sent[i:i + 7]).to_bytes(2, 'big') + sent[i:i + 7])
found.append(list(first(s)))
"""
    assert attack(berth, code) == [22, 22, 22, 22, [21, 3, 3, 0, 2, 2, 112]]


def test_a_second_hello_for_another_server(berth, world):
    """The server on 8443 asks again; a client that names another server then is cut off, and the server hears nothing of it."""
    code = """s, sent = hello('git.example.org', 'git.example.org', port=8443)
s.sendall(sent)
kind = first(s)[0]
s.recv(65536)
_, other = hello('git.example.org', 'hidden.example.org', port=8443)
s.sendall(b'\\x14\\x03\\x03\\x00\\x01\\x01' + other)
rest = b''
try:
    while piece := s.recv(65536): rest += piece
except ConnectionError: pass
found = [kind, list(rest[-7:])]
"""
    kind, rest = attack(berth, code)
    assert kind == 22 and rest == [21, 3, 3, 0, 2, 2, 112]
    assert not [r for r in world.requests(hellos=True) if r.get("sni") == "hidden.example.org"]


def test_a_slow_client_does_not_hold_up_others(berth):
    """It is sent away after a while, and asked why; meanwhile all others are served."""
    code = """slow = [socket.create_connection(('127.0.0.1', 3128), timeout=120) for _ in range(200)]
for s in slow: s.sendall(b'GET http://www.example.org/ HT')
found = [get('http://www.example.org/') for _ in range(5)]
found += sorted({int(s.recv(100).split()[1]) for s in slow})
"""
    assert attack(berth, code) == [200] * 5 + [408]


def test_a_thousand_at_once(berth, world):
    code = """import concurrent.futures
def one(n):
    for _ in range(20):
        try: return get(f'http://www.example.org/many{n}')
        except OSError as e: last = e
    raise last
with concurrent.futures.ThreadPoolExecutor(250) as pool:
    found = sorted(set(pool.map(one, range(1000))))
"""
    assert attack(berth, code) == [200]
    assert len({r["path"] for r in world.requests() if r["path"].startswith("/many")}) == 1000


def test_a_flood_of_questions_is_none_of_the_name_servers(berth):
    code = """
import socket, time
begun = time.monotonic()
for n in range(1000):
    with socket.create_connection(('127.0.0.1', 3128)) as s:
        s.sendall(b'CONNECT www.example.org:443 HTTP/1.1\\r\\nHost: www.example.org:443\\r\\n\\r\\n')
        assert s.recv(12) == b'HTTP/1.1 200'
print(time.monotonic() - begun)
"""
    # 200 at once, and 200 in each second that follows.
    told = python(berth, code)
    assert float(told.expect(0).out) >= 3


def test_what_one_sandbox_may_transfer(berth):
    code = "curl -sS http://www.example.org/bytes?600000 | wc -c; curl -s http://www.example.org/bytes?900000 | wc -c; curl -s -o /dev/null -w '%{http_code}' http://www.example.org/"
    first, second, status = shell(berth, code, env="little").expect(0).out.split()
    assert first == "600000" and int(second) < 900000 and status == "403"
    assert shell(berth, "curl -sS http://www.example.org/bytes?600000 | wc -c", env="little").expect(0).out.strip() == "600000"


# --- the proxy itself ---


def test_the_proxy_is_out_of_reach(berth):
    """Neither it nor anything of it is seen from inside; no other process listens, and none of this machine's is there."""
    code = """import os
names = set()
for pid in filter(str.isdigit, os.listdir('/proc')):
    names.add(open(f'/proc/{pid}/comm').read().strip())
seen = [n for n in names if 'egress' in n or 'berth' in n]
ports = sorted({int(line.split()[1].split(':')[1], 16) for line in open('/proc/net/tcp').read().splitlines()[1:] if line.split()[3] == '0A'})
taken = []
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(('127.0.0.1', 3128))
except OSError as e: taken.append(e.errno)
found = [seen, ports, taken, [fd for fd in os.listdir('/proc/self/fd') if int(fd) > 4]]
"""
    assert attack(berth, code) == [[], [3128], [98], []]


def test_what_was_reached_is_in_the_result(berth):
    code = "curl -sS http://www.example.org/bytes?1000 > /dev/null; curl -s http://other.example.org/; curl -s http://other.example.org/"
    result = berth("exec", "--env", "out", "--lang", "sh", "-c", code, "--json").expect(0).json()
    found = {(line["host"], line["port"]): line for line in result["network"]}
    reached, refused = found["www.example.org", 80], found["other.example.org", 80]
    assert reached["connections"] == 1 and reached["receivedBytes"] > 1000 and reached["sentBytes"] > 20 and reached["outcome"] is None
    assert refused["connections"] == 2 and refused["receivedBytes"] == 0 and "network.allow" in refused["outcome"]


def serving(berth, log, times=1):
    """A server, which says in the log that it serves for so many times."""
    log = berth.folder / log
    with log.open("ab") as out:
        process = subprocess.Popen([str(berth.binary), "serve"], cwd=berth.stack, env=berth.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    wait_until(lambda: process.poll() is None and log.read_text().count("it serves what was applied") == times)
    return process


def test_containers_have_each_its_own_way_out(berth, world):
    """Neighbours share a network, and none of them a proxy: whose is gone takes nobody's away. Services keep theirs over a server's death."""
    log, server = berth.folder / "containers.log", serving(berth, "containers.log")
    fetch = "curl -s -o /dev/null -w '%{http_code} ' http://www.example.org/from; curl -s https://www.example.org/from; curl -s -o /dev/null -w ' %{http_code} ' http://other.example.org/; curl -s -o /dev/null -w %{http_code} http://loop.example.org/"
    reached = "200 GET /from of www.example.org 403 403"

    def container(verb, *words):
        return berth("containers", verb, *words)

    def run(*command, agent="fetcher"):
        return container("run", "--agent", agent, "--", *command)

    def inside(name):
        return container("exec", name, "--", "sh", "-c", fetch).expect(0).out

    def told(text):
        return text in log.read_text()

    try:
        first, second = (container("run", "--agent", "fetcher", "--service", "--name", name, "--", "sleep", "600").expect(0).out.strip() for name in ("first", "second"))
        wait_until(lambda: all(json.loads(container("list", "--name", name, "--json").out)[0]["status"] == "running" for name in ("first", "second")))
        assert inside("first") == inside("second") == run("sh", "-c", fetch).expect(0).out == reached
        wait_until(lambda: all(told(f"container {one}: Environment/out: network: www.example.org:80: 1 connection") for one in (first, second)))
        wait_until(lambda: told(f"container {first}: Environment/out: network: other.example.org:80: refused"))
        container("rm", "first").expect(0)
        assert inside("second") == run("sh", "-c", fetch).expect(0).out == reached
        server.kill()
        server.wait()
        server = serving(berth, "containers.log", 2)
        # Until it is found again, code is told that it is not in reach.
        wait_until(lambda: container("exec", "second", "--", "true").code == 0)
        assert inside("second") == reached
        none = "env | grep -ci -e proxy -e _cert; curl -sS http://www.example.org/ 2>&1 | cut -c-24"
        assert run("sh", "-c", none, agent="hermit").expect(0).out == "0\ncurl: (6) Could not reso\n"
        assert world.trapped() == []
        container("rm", "second").expect(0)
    finally:
        server.kill()
        server.wait()


def test_by_a_launcher(binary, world):
    """An ordinary user's server: what it serves goes out by the launcher's machine, to the same hosts, and still does when both were killed."""
    box = Box(
        binary,
        stacks.text(
            stacks.document("Stack", "lab", {"provider": "local"}),
            stacks.environment("out", network={"allow": ALLOW}),
            stacks.environment("none", network="none"),
            stacks.agent("fetcher", "out"),
            stacks.agent("hermit", "none"),
        ),
    )
    launcher = Launcher(world.berth(binary), "--accept-degraded", workers=True)
    serve = Containers(box, clients=CONTAINER_CLIENTS)
    options = ["--accept-degraded", "--launcher", launcher.socket]
    fetch = ("curl -s -o /dev/null -w '%{http_code} ' http://www.example.org/from; curl -s https://www.example.org/from;"
             "for host in other loop self in0; do curl -s -o /dev/null -w ' %{http_code}' http://$host.example.org/; done;"
             f"curl -s --noproxy '*' --max-time 5 -o /dev/null http://{worlds.SERVER}/ || echo ' no route'")  # fmt: skip
    reached = "200 GET /from of www.example.org 403 403 403 403 no route\n"
    try:
        serve.agent = "fetcher"
        serve.start(*options)
        service = serve.service("sleep", "600")
        assert serve.finish("sh", "-c", fetch)["stdout"] == serve.exec(service, "sh", "-c", fetch)["stdout"]["content"] == reached
        kill_server(serve)
        launcher.kill()
        launcher.start()
        serve.start(*options)
        serve.wait_for(service, "running")
        assert serve.exec(service, "sh", "-c", fetch)["stdout"]["content"] == reached
        assert serve.show(service)["starts"] == 1
        none = "env | grep -ci -e proxy -e _cert; curl -s http://www.example.org/ || echo none"
        assert serve.finish("sh", "-c", none, agent="hermit")["stdout"] == "0\nnone\n"
        assert world.trapped() == []
        wait_until(lambda: f"container {service}: Environment/out: network: www.example.org:80: " in serve.log.read_text())
    finally:
        if serve.process is None:
            serve.start(*options)
        workers = workers_of(launcher)
        for one in serve.call("GET", "/v1/containers?limit=1000", token=TOKENS["watcher"]).items():
            serve.call("DELETE", f"/v1/containers/{one['id']}", token=TOKENS["file"])
        wait_until(lambda: nothing_left(launcher, workers))
        serve.stop()
        launcher.end()
        shutil.rmtree(box.folder)


def test_a_session_over_a_server_that_dies(berth):
    """Its proxy is its worker's: the same sandbox reaches the same hosts when another server has taken over, and both tell what was reached."""

    def serve():
        started.append(serving(berth, "serve.log", len(started) + 1))
        return started[-1]

    def run(code):
        return berth("session", "run", "--conversation", "way-out", "--env", "out", "-c", code).expect(0).out

    def told(times):
        return (berth.folder / "serve.log").read_text().count("network: www.example.org:80: 1 connection") == times

    started, fetch = [], "import urllib.request; print(urllib.request.urlopen('http://www.example.org/session').read().decode())"
    try:
        first = serve()
        run("kept = 1; " + fetch)
        wait_until(lambda: told(1))
        # The wrapper entered namespaces by exec: it is the server itself.
        first.kill()
        first.wait()
        serve()
        assert run("print(kept); " + fetch) == "1\nGET /session of www.example.org\n"
        wait_until(lambda: told(2))
        # A new name each time, which is refused: some are told, and the rest are added up.
        begun = time.monotonic()
        run("import socket\n"
            "for n in range(3000):\n"
            "    with socket.create_connection(('127.0.0.1', 3128)) as s:\n"
            "        s.sendall(b'CONNECT n%d.refused.example:443 HTTP/1.1\\r\\nHost: n%d.refused.example:443\\r\\n\\r\\n' % (n, n))\n"
            "        while s.recv(4096): pass")  # fmt: skip
        lines = (berth.folder / "serve.log").read_text().count(".refused.example:443: refused")
        assert 0 < lines <= 65 + time.monotonic() - begun, lines
    finally:
        for session in json.loads(berth("session", "list", "--json").out or "[]") if started[-1].poll() is None else []:
            berth("session", "end", session["id"])
        for process in started:
            process.kill()
            process.wait()


def test_a_changed_list_holds_for_the_next_sandbox(berth):
    assert shell(berth, "curl -s -o /dev/null -w '%{http_code}' http://npm.example.org/", env="little").out == "403"
    text = (berth.stack / "stack.yaml").read_text()
    berth.write("stack.yaml", text.replace("- www.example.org\n    transferMB", "- npm.example.org\n    transferMB"))
    try:
        plan = berth.plan()
        assert [c["address"] for c in plan["changes"]] == ["Environment/little"]
        berth.apply()
        berth.assert_settled()
        done = shell(berth, "curl -s -o /dev/null -w '%{http_code}' http://npm.example.org/; curl -s -o /dev/null -w '%{http_code}' http://www.example.org/", env="little")
        assert done.out == "200403"
    finally:
        berth.write("stack.yaml", text)
        berth.apply()
