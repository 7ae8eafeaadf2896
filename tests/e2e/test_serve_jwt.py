# SPDX-License-Identifier: Apache-2.0
"""
JSON Web Tokens as `berth serve` takes them, made by joserfc and by hand; issuers' keys from a file and by https, as they change, fail
and are made up.
"""

import base64
import contextlib
import hashlib
import hmac
import http.client
import http.server
import json
import os
import ssl
import threading
import time

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from joserfc.jwk import OctKey, RSAKey

from binary import Berth
from certificates import Authority, pem_of_key, write_private
from controllers import wait_until
from lib.jwt_issuer import ISSUER, KEYS, NAMES, claims, make_key, of_issuer, public, token
from lib.lab import TOKENS, client, stack
from serving import Serve

pytestmark = pytest.mark.filterwarnings("ignore:EdDSA is deprecated", "ignore:Key size should be")


def part(value):
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(header, payload, key=None):
    """By RS256, whatever the parts are; they are bytes or JSON."""
    text = f"{part(header)}.{part(payload)}"
    private = (key or KEYS["RS256"]).private_key
    return f"{text}.{part(private.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class Issuer:
    """Publishes `keys` at /keys by https; counts who asks."""

    def __init__(self, authority, folder):
        outer = self
        self.asked, self.status, self.keys, self.delay = 0, 200, b"{}", None
        _, pem, key = authority.issue("localhost")
        (folder / "issuer.pem").write_bytes(pem)
        write_private(folder / "issuer.key", pem_of_key(key))

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked += 1
                if outer.delay:
                    outer.delay.wait(60)
                self.send_response(outer.status)
                if outer.status in (301, 302, 307):
                    self.send_header("Location", "/other")
                self.send_header("Content-Length", str(len(outer.keys)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(outer.keys)

            def log_message(self, *_):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "issuer.pem", folder / "issuer.key")
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://localhost:{self.server.server_address[1]}/keys"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def issuer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("issuer")
    made = Issuer(Authority(folder), folder)
    made.authority = folder / "authority.pem"
    yield made
    made.close()


@pytest.fixture(scope="module")
def serve(binary, tmp_path_factory, issuer):
    berth = Berth(binary, tmp_path_factory.mktemp("jwt"), "http://127.0.0.1:1")
    berth.write("stack.yaml", stack())
    berth("apply", "--yes").expect(0)
    (berth.folder / "keys.json").write_bytes(public(*KEYS.values()))
    issuer.keys = public(KEYS["RS256"])
    made = Serve(
        berth,
        clients=[
            client("self"),
            of_issuer("owners", "berth", realm="company", jwksFile="keys.json", ownerClaim="sub"),
            of_issuer("robots", "robots", jwksFile="keys.json", environments=["data"]),
            of_issuer("backend", "backend", jwksFile="keys.json", actsFor="users", may=["observe"]),
            of_issuer("fetched", "fetched", jwksUrl=issuer.url, caFile=str(issuer.authority)),
            of_issuer("untrusted", "untrusted", jwksUrl=issuer.url),
        ],
    )
    yield made.start("--accept-degraded", env={"WATCHDOG_USEC": "200000"})
    log = made.lines()
    for words in ("eyJ", TOKENS["self"], "mallory", "made-up"):
        assert words not in log
    assert made.stop() == 0


def ask(serve, bearer, owner=None, path="/v1/environments", **kwargs):
    return serve.ask(path, bearer, headers=[("Berth-Owner", owner)] if owner is not None else [], **kwargs)


def test_who_a_token_makes_of_its_bearer(serve):
    for algorithm in NAMES:
        assert ask(serve, token(algorithm=algorithm)).status == 200, algorithm
    assert ask(serve, token(KEYS["EdDSA"], "Ed25519")).status == 200  # its name since RFC 9864
    # The claim is the owner, and nobody is anybody else.
    made = ask(serve, token(), path="/v1/sessions", method="POST", body=b"{}")
    made.problem(415, "unsupported-media-type")
    for name in ("alice", "bob", "", "client:owners"):
        ask(serve, token(), name).problem(403, "owner-not-allowed")
    for name in ("uid:0", "client:self", "x" * 256, "a/b", "Ünïcode"):
        assert ask(serve, token(sub=name)).status == 200, name
    for name in ("", "x" * 257, "a\tb", "a\u202eb", 7, None, ["alice"], {"a": "b"}, True):
        answer = ask(serve, token(sub=name))
        answer.problem(401, "token-invalid")
        assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'
    # One that acts for itself; one whose header names the user.
    robot = token(aud="robots")
    assert ask(serve, robot).names() == ["data"]
    ask(serve, robot, "alice").problem(403, "owner-not-allowed")
    assert ask(serve, token(aud="backend"), "alice").status == ask(serve, token(aud=["other", "backend"])).status == 200
    # What a client may not, its tokens may not either.
    serve.ask("/v1/sessions", token(aud="backend"), method="POST", headers=[("Berth-Owner", "alice")], body=b"{}").problem(403, "not-permitted")
    # A plain token is what it was.
    assert ask(serve, TOKENS["self"]).status == 200
    # On the socket the kernel says who asks.
    assert serve.ask_socket("/v1/environments", token="eyJ.eyJ.x").status == 200


def test_sessions_belong_to_the_claim(serve):
    def call(method, path, name, body=None):
        headers = [("Content-Type", "application/json")] if body else []
        return serve.ask(path, token(sub=name), method=method, headers=headers, body=body)

    made = call("POST", "/v1/sessions", "alice", b'{"environment": "data"}')
    assert made.status == 201 and made.json()["owner"] == "company/alice"
    path = f"/v1/sessions/{made.json()['id']}"
    assert call("GET", path, "alice").status == 200
    assert [item["owner"] for item in call("GET", "/v1/sessions", "alice").items()] == ["company/alice"]
    call("GET", path, "mallory").problem(404, "not-found")
    assert call("GET", "/v1/sessions", "mallory").items() == []
    serve.ask(path, token(aud="robots")).problem(404, "not-found")
    assert call("DELETE", path, "alice").status == 204


def test_times(serve):
    now = int(time.time())
    for more in ({"exp": now + 1}, {"exp": now + 1.5}, {"exp": now - 30}, {"nbf": now + 30}, {"nbf": None}, {"iat": None}, {"exp": 10**15}, {"nbf": -1}):
        assert ask(serve, token(**more)).status == 200, more
    for more in ({"exp": now - 300}, {"exp": 0}, {"exp": -1}, {"nbf": now + 3600}, {"exp": now - 61.5}):
        assert "valid" in ask(serve, token(**more)).problem(401, "token-invalid")["title"], more
    for more in ({"exp": None}, {"exp": str(now + 600)}, {"exp": True}, {"exp": [now + 600]}, {"nbf": "0"}, {"nbf": {}}):
        ask(serve, signed({"alg": "RS256", "kid": "key-RS256"}, claims(**more))).problem(401, "token-invalid")


def forgeries():
    """What is no token of this issuer for this audience, by what is wrong with it."""
    rsa, good = KEYS["RS256"], token()
    head, payload, signature = good.split(".")
    pem = rsa.as_pem(private=False)
    head_rs = {"alg": "RS256", "kid": "key-RS256"}

    def hs256(secret, kid="key-RS256", alg="HS256"):
        text = f"{part({'alg': alg, 'kid': kid})}.{part(claims())}"
        return f"{text}.{part(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"

    # The algorithm is the key's word.
    for name in ("none", "None", "NONE", "nOnE", "", " ", "HS256", "RS512", "PS256", "rs256", "RS256 ", "ES256K", "EdDSA", "Ed25519", "Ed448", "A" * 5000):
        yield f"alg {name[:9]}", f"{part({**head_rs, 'alg': name})}.{payload}.{signature}"
        yield f"alg {name[:9]}, unsigned", f"{part({'alg': name})}.{payload}."
    for value in (None, 1, ["RS256"], {"a": "RS256"}, True):
        yield f"alg {value}", f"{part({**head_rs, 'alg': value})}.{payload}.{signature}"
    for kind, secret in (("pem", pem), ("pem without its end", pem.strip()), ("json", public(rsa)), ("n", rsa.as_dict()["n"].encode()), ("empty", b"")):
        yield f"HS256 by the public key: {kind}", hs256(secret)
        yield f"HS256 called RS256: {kind}", hs256(secret, alg="RS256")
    yield "another key's kind", token(KEYS["ES256"], "ES256", {"kid": "key-RS256"})
    yield "another kind, its kid", f"{part({'alg': 'ES256', 'kid': 'key-RS256'})}.{payload}.{signature}"
    # Keys that it brings along, or says where to find.
    mine = make_key("RS256", "key-RS256")
    yield "own key", token(mine)
    yield "jwk", token(mine, header={"jwk": mine.as_dict(private=False)})
    for name in ("jku", "x5u"):
        yield name, signed({**head_rs, name: "https://127.0.0.1:1/keys"}, claims(), mine)
    yield "x5c", signed({**head_rs, "x5c": ["MIIB"]}, claims(), mine)
    known = KEYS["RS256"].as_dict(private=False)
    for name, value in (("jwk", known), ("jku", "https://127.0.0.1:1/keys"), ("x5u", "https://127.0.0.1:1/keys"), ("x5c", ["MIIB"])):
        yield f"{name} in a token that the issuer signed", signed({**head_rs, name: value}, claims())
    for kid in ("../../../../dev/null", "/etc/passwd", "key-RS256\u0001", "' OR 1=1 --", "", "made-up", "key-rs256", "x" * 8000):
        yield f"kid {kid[:12]}", signed({"alg": "RS256", "kid": kid}, claims(), mine)
    for kid in (None, 1, ["key-RS256"], {}, True):
        yield f"kid {kid}", signed({"alg": "RS256", "kid": kid}, claims())
    # Demands that are not known.
    for more in ({"crit": ["exp"]}, {"crit": []}, {"crit": None, "b64": True}, {"b64": False, "crit": ["b64"]}, {"b64": False}, {"zip": "DEF"}, {"enc": "A128GCM"}):
        yield f"head {more}", signed({**head_rs, **more}, claims())
    for kind in ("dpop+jwt", "logout+jwt", "JWE", "", 1, None):
        yield f"typ {kind}", signed({**head_rs, "typ": kind}, claims())
    # Whose it is, and for whom.
    for more in ({"iss": None}, {"iss": "https://issuer.example/"}, {"iss": "HTTPS://issuer.example"}, {"iss": [ISSUER]}, {"iss": 1}, {"iss": ISSUER + "\u200b"}, {"iss": ""},
                 {"aud": None}, {"aud": "Berth"}, {"aud": "berth "}, {"aud": []}, {"aud": ["x"]}, {"aud": [["berth"]]}, {"aud": {"berth": 1}}, {"aud": ["berth", 1]}, {"aud": True}, {"aud": ""}):  # fmt: skip
        yield f"claims {more}", signed(head_rs, claims(**more))
    # Members that stand twice, in any place: two readers would read two things.
    text = json.dumps(claims())
    yield "iss twice", signed(head_rs, f'{{"iss": "https://evil.example", {text[1:]}'.encode())
    yield "aud twice", signed(head_rs, f'{text[:-1]}, "aud": "berth"}}'.encode())
    yield "sub twice", signed(head_rs, f'{text[:-1]}, "sub": "root"}}'.encode())
    yield "twice below", signed(head_rs, f'{text[:-1]}, "x": {{"a": 1, "a": 2}}}}'.encode())
    yield "alg twice", signed(b'{"alg":"none","alg":"RS256","kid":"key-RS256"}', claims())
    # What is no JSON, or another one.
    for name, raw in (("empty", b""), ("list", b"[]"), ("text", b'"x"'), ("null", b"null"), ("cut", b'{"iss": '), ("more behind", text.encode() + b"{}"),
                      ("NUL", text.encode().replace(b"alice", b"a\\u0000")), ("not UTF-8", text.encode().replace(b"alice", b"\xff\xfe")), ("BOM", b"\xef\xbb\xbf" + text.encode()),
                      ("deep", b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}"), ("deep objects", b'{"a":' * 900 + b"1" + b"}" * 900), ("wide", b'{"a":[' + b"1," * 3000 + b"1]}"),
                      ("number", text.encode()[:-1] + b', "x": 1e999}'), ("unfinished deep", b"[" * 8000)):  # fmt: skip
        yield f"claims: {name}", signed(head_rs, raw)
        if len(raw) < 4000:
            yield f"head: {name}", signed(raw, claims())
    # The letters themselves.
    flipped = "A" if signature[20] != "A" else "B"
    yield "one letter else", f"{head}.{payload}.{signature[:20]}{flipped}{signature[21:]}"
    yield "other claims", f"{head}.{part(claims(sub='root'))}.{signature}"
    yield "no signature", f"{head}.{payload}."
    yield "short", f"{head}.{payload}.{signature[:-4]}"
    yield "long", f"{head}.{payload}.{signature}AAAA"
    yield "padding", f"{head}.{payload}.{signature}=="
    yield "loose bits", f"{head}.{payload}.{signature[:-1]}{chr(ord(signature[-1]) + 1)}"
    yield "a blank", f"{head}.{payload} .{signature}"
    yield "a comma", f"{head}.{payload},.{signature}"
    yield "plain base64", f"{head}.{payload}+/.{signature}"
    for count in (0, 1, 3, 4, 5, 30):
        yield f"{count} points", ".".join([head] + [payload] * count)
    yield "four parts", f"{good}.{signature}"
    yield "JWE", f"{head}.{payload}.{signature}.{payload}.{signature}"
    yield "nothing", ".."
    yield "long one", "A" * 9000 + ".A.A"
    # ECDSA and EdDSA of nothing.
    for algorithm, size in (("ES256", 64), ("EdDSA", 64)):
        text = f"{part({'alg': algorithm, 'kid': f'key-{algorithm}'})}.{part(claims())}"
        for name, raw in (("zeros", b"\0" * size), ("ones", b"\xff" * size), ("short", b"\1" * (size - 1)), ("long", b"\1" * (size + 1)), ("half", b"\0" * 32 + b"\1" * 32)):
            yield f"{algorithm} {name}", f"{text}.{part(raw)}"
    text = f"{part({'alg': 'ES256', 'kid': 'key-ES256'})}.{part(claims())}"
    yield "ES256 in DER", f"{text}.{part(KEYS['ES256'].private_key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))}"


def test_forgeries(serve):
    """Each is a stranger, byte for byte the same one; and he stays one when all were tried."""
    tried = dict(forgeries())
    stranger = ask(serve, "nobody's token").body
    for name, forged in tried.items():
        answer = ask(serve, forged)
        assert answer.status == 401 and answer.body == stranger, (name, answer.status, answer.body)
        assert answer.headers["www-authenticate"] == "Bearer"
    assert len(tried) > 130
    # Larger than any head.
    assert ask(serve, token(x="y" * 20000)).status == 431
    assert ask(serve, token()).status == 200


def test_keys_in_a_file_change(serve):
    file, before = serve.berth.folder / "keys.json", public(*KEYS.values())
    new = make_key("ES256", "new")

    def write(data, mode=0o644):
        temporary = file.with_suffix(".tmp")
        temporary.write_bytes(data)
        temporary.chmod(mode)
        os.replace(temporary, file)

    assert ask(serve, token(new, "ES256")).status == 401
    write(public(new))
    assert ask(serve, token(new, "ES256")).status == 200
    # A key that was withdrawn is nobody's, within moments.
    wait_until(lambda: ask(serve, token()).status == 401)
    # What is no key set, or anybody's to write, leaves the keys as they are.
    evil = make_key("RS256", "evil")
    for data, mode, why in ((b"{", 0o644, "no JSON Web Key Set"), (b'{"keys": []}', 0o644, "it has no key for"), (public(evil), 0o666, "every user of this machine may write")):
        write(data, mode)
        wait_until(lambda words=why: words in serve.lines())
        assert ask(serve, token(new, "ES256")).status == 200
        assert ask(serve, token(evil)).status == 401
    # Of a set only what can verify is taken: no secrets, no keys of encryption, none that are too weak.
    weak, secret = RSAKey.generate_key(1024, {"kid": "weak"}), OctKey.generate_key(256, {"kid": "oct"})
    usable = make_key("EdDSA", None)
    keys = [weak.as_dict(private=False), {**secret.as_dict(private=True), "alg": "HS256"}, {**evil.as_dict(private=False), "use": "enc"},
            {**KEYS["RS256"].as_dict(private=False), "alg": "RS512"}, {**KEYS["ES256"].as_dict(private=False), "key_ops": ["sign"]},
            {**new.as_dict(private=False), "y": new.as_dict()["x"]}, {"kty": "RSA", "n": "AQAB", "e": "AQAB"}, {"kty": "EC", "crv": "P-384"}, 7, None,
            {key: value for key, value in usable.as_dict(private=False).items() if key != "kid"}]  # fmt: skip
    write(json.dumps({"keys": keys}).encode())
    text = f"{part({'alg': 'HS256', 'kid': 'oct'})}.{part(claims())}"
    wait_until(lambda: ask(serve, token(usable, "EdDSA", {"kid": None})).status == 200)
    assert ask(serve, token(usable, "EdDSA", {"kid": "whatever"})).status == 200  # a key without an id may be any
    for forged in (token(weak), token(evil), token(), token(algorithm="ES256"), token(new, "ES256"),
                   f"{text}.{part(hmac.new(secret.raw_value, text.encode(), hashlib.sha256).digest())}"):  # fmt: skip
        assert ask(serve, forged).status == 401
    write(before)
    wait_until(lambda: ask(serve, token()).status == 200)


def test_keys_that_are_fetched(serve, issuer):
    """Once, and again where they change; not as often as a stranger likes; and not from whom nobody vouches for."""
    of = {"aud": "fetched"}
    assert ask(serve, token(**of)).status == 200
    asked = issuer.asked
    for _ in range(20):
        assert ask(serve, token(**of)).status == 200
    assert issuer.asked == asked
    # A new key, and the first token that it signs.
    rotated = make_key("EdDSA", "rotated")
    issuer.keys = public(rotated)
    assert ask(serve, token(rotated, "EdDSA", **of)).status == 200
    assert issuer.asked == asked + 1
    assert ask(serve, token(**of)).status == 401  # the one before was withdrawn with it
    # Made-up keys: few fetches, however many are asked for, at once or one after the other.
    answers = []

    def make_up(number):
        for i in range(20):
            answers.append(ask(serve, token(make_key("EdDSA", f"made-up-{number}-{i}"), "EdDSA", **of)).status)

    threads = [threading.Thread(target=make_up, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [401] * 80
    assert issuer.asked <= asked + 5
    assert ask(serve, token(rotated, "EdDSA", **of)).status == 200
    # Nobody vouches for the issuer's server: no key comes from there.
    answer = ask(serve, token(rotated, "EdDSA", aud="untrusted"))
    answer.problem(503, "no-keys")
    assert answer.headers["retry-after"] == "5" and "client untrusted: the keys of its issuer" in serve.lines()
    metrics = serve.ask("/metrics", TOKENS["self"]).body.decode()
    assert f'berth_serve_key_fetches_total{{client="fetched",result="fetched"}} {issuer.asked}' in metrics
    assert 'berth_serve_key_fetches_total{client="untrusted",result="failed"}' in metrics


def test_an_issuer_that_fails(offline, issuer):
    """Answers that are no keys leave those that there are; without any nobody is let in, and nobody waits for ever."""
    offline.write("stack.yaml", stack())
    offline("apply", "--yes").expect(0)
    issuer.keys, of = public(KEYS["RS256"]), {"aud": "fetched"}
    serve = Serve(offline, clients=[client("self"), of_issuer("fetched", "fetched", jwksUrl=issuer.url, caFile=str(issuer.authority))])
    serve.start()
    try:
        assert ask(serve, token(**of)).status == 200
        rotated = make_key("RS256", "rotated")
        for status, keys in ((500, public(rotated)), (302, public(rotated)), (200, b"\0" * (2 << 20))):
            issuer.status, issuer.keys = status, keys
            assert ask(serve, token(rotated, **of)).status == 401
            assert ask(serve, token(**of)).status == 200
        for words in ("status 500", "status 302"):
            assert words in serve.lines()
        # One that does not answer: whoever needs it waits, all others do not, nor does the server's end.
        issuer.status, issuer.keys, issuer.delay = 200, public(rotated), threading.Event()
        hanging = threading.Thread(target=quietly, args=(serve, token(rotated, **of)))
        asked = issuer.asked
        hanging.start()
        wait_until(lambda: issuer.asked > asked)
        assert ask(serve, token(**of)).status == 200
        assert serve.ask("/healthz").status == 200
        assert serve.stop() == 0
        hanging.join(60)
    finally:
        if issuer.delay:
            issuer.delay.set()
        issuer.status, issuer.delay = 200, None
        serve.stop()


def quietly(serve, bearer):
    with contextlib.suppress(OSError, http.client.HTTPException):
        ask(serve, bearer)


def test_what_the_file_may_not_say(offline):
    keys = offline.folder / "keys.json"
    keys.write_bytes(public(KEYS["RS256"]))
    serve = Serve(offline)
    one = of_issuer("one", "a", jwksFile="keys.json")
    cases = [
        ([one, of_issuer("two", "a", jwksUrl="https://issuer.example/keys")], "two has the same issuer and audience as one"),
        ([of_issuer("one", "a", jwksUrl="http://issuer.example/keys")], "a URL that begins with https://"),
        ([of_issuer("one", "a", jwksFile="keys.json", caFile="keys.json")], "caFile"),
        ([of_issuer("one", "a", jwksFile="absent.json")], "jwksFile: "),
        ([of_issuer("one", "a", jwksFile="server.yaml")], "no JSON Web Key Set"),
        ([of_issuer("one", "a")], "jwksFile"),
    ]
    for clients, why in cases:
        serve.configure(clients=clients)
        assert why in offline("serve", "-f", serve.file).expect(1).err, why
    keys.chmod(0o666)
    serve.configure(clients=[one])
    assert "every user of this machine may write" in offline("serve", "-f", serve.file).expect(1).err
