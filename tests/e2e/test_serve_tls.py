# SPDX-License-Identifier: Apache-2.0
"""`berth serve` with a certificate of its own, by Python's ssl and openssl: also one that is renewed, and clients that are no friends."""

import contextlib
import hashlib
import http.client
import json
import socket
import ssl
import subprocess

import pytest

import stacks
from binary import Berth
from certificates import Authority, pem_of_key, write_private
from controllers import PATIENCE, wait_until
from lib.lab import CLIENTS, TOKENS, stack
from serving import Serve


class Secure(Serve):
    """Its certificate is of `authority`, for localhost."""

    def __init__(self, berth, authority, **spec):
        self.authority = authority
        self.certificate, self.key = berth.folder / "server.pem", berth.folder / "server.key"
        self.serial = self.renew()
        super().__init__(berth, clients=CLIENTS, tls={"certFile": "server.pem", "keyFile": "server.key"}, **spec)

    def renew(self, days=30):
        made, pem, key = self.authority.issue("localhost", days=days)
        write_private(self.key, pem_of_key(key))
        write_private(self.certificate, pem)
        return made.serial_number

    def context(self, **more):
        made = ssl.create_default_context(cafile=str(self.authority.file))
        for name, value in more.items():
            setattr(made, name, value)
        return made

    def connect(self, context=None):
        """A connection that has shaken hands; an end that was cut off is an error."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=20 * PATIENCE)
        try:
            return (context or self.context()).wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False)
        except BaseException:
            plain.close()
            raise

    def ask(self, path, token=None, over=None, **kwargs):
        if over:
            return super().ask(path, token, over=over, **kwargs)
        made = http.client.HTTPSConnection("localhost", self.port, timeout=20 * PATIENCE, context=self.context())
        try:
            return super().ask(path, token, over=made, **kwargs)
        finally:
            made.close()

    def serves(self):
        """The number of the certificate that a new connection gets."""
        with self.connect() as connection:
            return int(connection.getpeercert()["serialNumber"], 16)

    def talk(self, data, context=None):
        """All that comes back, up to an end that was said."""
        with self.connect(context) as connection:
            connection.sendall(data)
            found = b""
            while piece := connection.recv(65536):
                found += piece
            return found


@pytest.fixture(scope="module")
def serve(binary, tmp_path_factory):
    berth = Berth(binary, tmp_path_factory.mktemp("tls"), "http://127.0.0.1:1")
    many = [stacks.document("Environment", f"e{i:03}", {"description": "x" * 250, "image": {"prebuilt": "python"}}) for i in range(300)]
    berth.write("stack.yaml", stack(*many))
    berth("apply", "--yes").expect(0)
    made = Secure(berth, Authority(berth.folder))
    yield made.start("--accept-degraded", env={"WATCHDOG_USEC": "200000"})  # it looks at its files more often then
    private = [line for line in made.key.read_text().splitlines() if "-----" not in line]
    assert not any(line in made.lines() for line in private)
    assert made.stop() == 0


def head(path, *more, method="GET"):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {TOKENS['self']}", *more, "", ""]
    return "\r\n".join(lines).encode()


def test_requests(serve):
    """Whole ones, kept connections, several at once, an answer of many records, and ends that are said."""
    assert serve.ask("/healthz").body == b"ok\n"
    connection = http.client.HTTPSConnection("localhost", serve.port, timeout=20 * PATIENCE, context=serve.context())
    for _ in range(3):
        answer = serve.ask("/v1/environments?limit=1000", TOKENS["self"], over=connection)
        assert len(answer.items()) == 302 and len(answer.body) > 100000
    connection.close()
    found = serve.talk(head("/healthz") * 3 + head("/v1/environments?limit=1000", "Connection: close"))
    assert found.count(b"HTTP/1.1 200 OK") == 4
    assert len(json.loads(found.rpartition(b"\r\n\r\n")[2])["items"]) == 302
    # Byte for byte as on the socket, which speaks no TLS.
    assert serve.ask_socket("/v1/environments/data").body == serve.ask("/v1/environments/data", TOKENS["self"]).body
    serve.ask("/v1/environments").problem(401, "unauthenticated")
    # One byte a record: a head is a head.
    with serve.connect() as slow:
        for byte in head("/healthz", "Connection: close"):
            slow.sendall(bytes([byte]))
        assert slow.recv(12) == b"HTTP/1.1 200"


def test_bodies_and_files(serve):
    """Both ways, of many records, by routes that stream them."""
    data = bytes(range(256)) * 40000
    made = serve.ask("/v1/sessions", TOKENS["self"], method="POST", headers=[("Content-Type", "application/json")], body=b'{"environment": "data"}')
    assert made.status == 201, made.body
    path = f"/v1/workspaces/{made.json()['id']}/files/big.bin"
    put = serve.ask(path, TOKENS["self"], method="PUT", body=data)
    assert put.status == 201 and put.json()["sha256"] == hashlib.sha256(data).hexdigest()
    assert serve.ask(path, TOKENS["self"]).body == data
    assert serve.ask(path, TOKENS["self"], headers=[("Range", "bytes=1000000-3000000")]).body == data[1000000:3000001]
    # In chunks, with the last one missing: half a file is no file.
    with serve.connect() as connection:
        connection.sendall(head(path + "2", "Transfer-Encoding: chunked", method="PUT") + b"5\r\nhello\r\n")
    assert serve.ask(path + "2", TOKENS["self"]).status == 404
    # Who leaves in the midst of an answer takes nobody with him.
    for _ in range(5):
        with serve.connect() as connection:
            connection.sendall(head(path))
            assert connection.recv(12) == b"HTTP/1.1 200"
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    assert serve.ask("/healthz").body == b"ok\n"
    assert serve.ask(f"/v1/sessions/{made.json()['id']}", TOKENS["self"], method="DELETE").status == 204


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_versions_ciphers_and_protocols(serve):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with serve.connect(serve.context(minimum_version=version, maximum_version=version)) as connection:
            assert connection.selected_alpn_protocol() is None and not connection.session_reused
            assert "GCM" in connection.cipher()[0] or "CHACHA20" in connection.cipher()[0]
    old = serve.context()
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    weak = serve.context(maximum_version=ssl.TLSVersion.TLSv1_2)
    weak.set_ciphers("AES128-SHA:AES256-SHA:ECDHE-ECDSA-AES128-SHA:AES128-GCM-SHA256:@SECLEVEL=0")
    other = serve.context()
    other.set_alpn_protocols(["h2"])
    for context in (old, weak, other):
        with pytest.raises(ssl.SSLError):
            serve.connect(context)
    both = serve.context()
    both.set_alpn_protocols(["h2", "http/1.1"])
    with serve.connect(both) as connection:
        assert connection.selected_alpn_protocol() == "http/1.1"


def test_pages(serve):
    """Whoever comes by TLS is a page of https, and of nothing else."""
    own = f"localhost:{serve.port}"
    for origin, status in ((f"https://{own}", 200), (f"http://{own}", 403), ("https://localhost", 403), ("https://evil.example", 403), ("null", 403)):
        assert serve.ask("/v1/map", TOKENS["self"], headers=[("Origin", origin)]).status == status, origin
    serve.ask("/healthz", headers=[("Host", "evil.example")]).problem(421, "foreign-host")
    assert serve.ask_socket("/v1/map", headers=[("Origin", "https://localhost")]).status == 403


def test_who_does_not_speak_it(serve):
    """HTTP in plain text is told so, and not answered; other noise ends; nobody who dallies takes the place of others."""
    secret = TOKENS["self"]
    found = serve.raw(head("/v1/environments"))
    assert found.startswith(b"HTTP/1.1 400 ") and b"speaks TLS" in found and found.count(b"HTTP/1.1") == 1 and secret.encode() not in found
    for noise in (b"\x16", b"\x16\x03\x01", b"\x16\x03\x01\xff\xff" + b"\0" * 300, b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", b"\x80\x2e\x01", b"\0" * 100):
        with socket.create_connection(("127.0.0.1", serve.port), timeout=20 * PATIENCE) as connection, contextlib.suppress(OSError):
            connection.sendall(noise)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(4096):
                assert b"200 OK" not in piece
    # A real beginning, of which the rest never comes; and hands that were shaken, with nothing said after.
    hello = ssl.MemoryBIO()
    half = serve.context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        half.do_handshake()
    first = hello.read()
    idle = []
    try:
        for i in range(150):
            idle.append(socket.create_connection(("127.0.0.1", serve.port), timeout=20 * PATIENCE))
            idle[-1].sendall(first if i % 3 else first[: 1 + i % len(first)])
        for _ in range(20):
            idle.append(serve.connect())
        assert serve.ask("/healthz").body == b"ok\n"
        assert serve.ask("/v1/environments/data", secret).status == 200
    finally:
        for connection in idle:
            connection.close()
    with open(f"/proc/{serve.process.pid}/status") as status:
        threads = next(int(line.split()[1]) for line in status if line.startswith("Threads:"))
    assert threads < 400


def test_nothing_is_negotiated_twice(serve):
    """A handshake costs the server more than the client: there is one for each connection."""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{serve.port}", "-tls1_2", "-servername", "localhost"],
        input=b"R\n", capture_output=True, timeout=60 * PATIENCE,
    )  # fmt: skip
    assert b"RENEGOTIATING" in done.stdout + done.stderr and b"no renegotiation" in done.stderr, done.stderr
    assert b"Secure Renegotiation IS supported" in done.stdout and b"Compression: NONE" in done.stdout


def test_a_certificate_that_is_renewed(serve):
    """New connections get the new pair, old ones go on; what is no pair changes nothing, and the log says so."""
    first = serve.serves()
    kept = http.client.HTTPSConnection("localhost", serve.port, timeout=20 * PATIENCE, context=serve.context())
    assert serve.ask("/healthz", over=kept).status == 200
    second = serve.renew()
    wait_until(lambda: serve.serves() == second)
    assert serve.ask("/healthz", over=kept).status == 200
    assert int(kept.sock.getpeercert()["serialNumber"], 16) == first != second
    kept.close()
    pair = serve.certificate.read_bytes(), serve.key.read_bytes()

    def is_refused(why):
        """Said once, however often it is looked at; then the good pair is there again."""
        wait_until(lambda: why in serve.lines())
        assert serve.serves() == second
        write_private(serve.key, pair[1])
        write_private(serve.certificate, pair[0])
        count = serve.lines().count("the certificate was replaced")
        wait_until(lambda: serve.lines().count("the certificate was replaced") > count)
        assert serve.lines().count(why) == 1 and serve.serves() == second

    _, alone, _ = serve.authority.issue("localhost")
    write_private(serve.certificate, alone)
    is_refused("is not the key of that certificate")
    write_private(serve.certificate, b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    is_refused("holds no certificate that can be used")
    write_private(serve.key, pair[1][: len(pair[1]) // 2])
    is_refused("holds no private key")
    serve.key.chmod(0o644)
    is_refused("every user of this machine may read")
    serve.certificate.unlink()
    is_refused("cannot open")
    third = serve.renew(days=-1)
    wait_until(lambda: "the TLS certificate expired" in serve.lines())
    with serve.connect(serve.context(check_hostname=False, verify_mode=ssl.CERT_NONE)) as connection:
        assert third.to_bytes(20, "big").lstrip(b"\0") in connection.getpeercert(binary_form=True)
    last = serve.renew()
    wait_until(lambda: "the TLS certificate expired" in serve.lines() and serve_ok(serve) == last)


def serve_ok(serve):
    try:
        return serve.serves()
    except ssl.SSLError:
        return None


def test_what_cannot_be_served(offline):
    """It is said at the start, and nothing is asked of anybody."""
    authority = Authority(offline.folder)
    made = Secure(offline, authority)
    _, pem, key = authority.issue("localhost")
    cases = [
        (pem, pem_of_key(key, b"a passphrase"), "or one with a passphrase"),
        (pem, pem_of_key(authority.key), "is not the key of that certificate"),
        (b"", pem_of_key(key), "holds no certificate"),
        (pem * 30, pem_of_key(key), "more than 16 certificates"),
    ]
    for certificate, private, why in cases:
        write_private(made.certificate, certificate)
        write_private(made.key, private)
        assert why in offline("serve", "-f", made.file).expect(1).err
    write_private(made.certificate, pem)
    made.key.chmod(0o666)
    assert "every user of this machine" in offline("serve", "-f", made.file).expect(1).err
    made.key.unlink()
    assert "keyFile: " in offline("serve", "-f", made.file).expect(1).err
    made.configure(clients=CLIENTS, listen="0.0.0.0:0", tls={"certFile": "server.pem"})
    assert "keyFile" in offline("validate", "-f", made.file).expect(1).err
