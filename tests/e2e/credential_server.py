# SPDX-License-Identifier: Apache-2.0
"""
Everything that AWS's SDKs ask for credentials, on one loopback port: STS, IAM Identity Center (SSO) with its OIDC
service, the sign-in service of `aws login`, a container's server, an instance's metadata.

Credentials say how they were obtained, so that two clients who asked differently get different keys: `ROLE-one-by-KEYS` is
the role `one` assumed with the keys KEYS. Each secret is `SECRET.` and each token `TOKEN.` and the access key. `requests`
holds what was asked: (method, path, headers, body).
"""

import base64
import datetime
import http.server
import json
import re
import threading
import time
import urllib.parse

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

CONTAINER_TOKEN = "Basic container-secret"
IMDS_TOKEN = "imds-secret-token"
LOGIN_KEY = ec.generate_private_key(ec.SECP256R1())


def login_pem(form=serialization.PrivateFormat.TraditionalOpenSSL):
    return LOGIN_KEY.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def _from_base64url(text):
    assert "=" not in text
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def time_text(seconds):
    when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def keys(name, token="Token", seconds=3600):
    return {
        "Code": "Success", "AccessKeyId": name, "SecretAccessKey": f"SECRET.{name}", token: f"TOKEN.{name}", "Expiration": time_text(seconds),
    }  # fmt: skip


class _Refused(Exception):
    def __init__(self, status, body=b""):
        self.status, self.body = status, body


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _serve(self):
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length).decode()
        self.server.requests.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        if self.command == "POST" and self.server.meanwhile:
            meanwhile, self.server.meanwhile = self.server.meanwhile, None
            meanwhile()
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query))
        try:
            status, answer = 200, self._answer(url.path, body)
        except _Refused as refused:
            status, answer = refused.status, refused.body
        if isinstance(answer, (dict, list)):
            answer = json.dumps(answer)
        answer = answer.encode() if isinstance(answer, str) else answer
        if self.server.spoiled:
            line_break = b"&#13;&#10;" if answer.startswith(b"<") else b"\\r\\n"
            answer = answer.replace(self.server.spoiled.encode(), self.server.spoiled.encode() + line_break)
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        if status == 302:
            self.send_header("Location", "/container/plain")
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PUT = do_POST = _serve

    def _answer(self, path, body):
        if self.command == "POST" and path == "/":
            return self._sts(dict(urllib.parse.parse_qsl(body, keep_blank_values=True)))
        if self.command == "POST" and path == "/token":
            return self._oidc(json.loads(body))
        if self.command == "POST" and path == "/v1/token":
            return self._signin(json.loads(body))
        if self.command == "GET" and path == "/federation/credentials":
            return self._sso()
        if self.command == "GET" and path.startswith("/container/"):
            return self._container(path.removeprefix("/container/"))
        found = re.fullmatch(r"/(?:(imds-[a-z0-9-]+)/)?(latest/.*)", path)
        if found:
            return self._imds(found[1] or "imds", found[2])
        raise _Refused(404)

    # --- STS ---

    def _sts_error(self, status, code):
        raise _Refused(status, f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>no</Message></Error><RequestId>r</RequestId></ErrorResponse>".encode())

    def _signer(self):
        scope = re.search(r"Credential=([^/]+)/", self.headers.get("authorization") or "")
        if not scope:
            self._sts_error(403, "MissingAuthenticationToken")
        token = self.headers.get("x-amz-security-token")
        if token == f"TOKEN.{scope[1]}":
            return scope[1]
        return scope[1] + (f"+{token}" if token else "")

    def _sts(self, form):
        action, role = form["Action"], form.get("RoleArn", "").rpartition("/")[2]
        if role == "denied":
            self._sts_error(403, "AccessDenied")
        if action == "GetCallerIdentity":
            return f"<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/{self._signer()}</Arn><UserId>x</UserId><Account>{self.server.account}</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"
        if action == "AssumeRole":
            by = self._signer()
        else:
            assert "authorization" not in self.headers, "web identity is unsigned"
            if form["WebIdentityToken"] == "expired":
                self._sts_error(400, "ExpiredTokenException")
            if form["WebIdentityToken"] == "provider-down" and not self.server.provider_seen:
                self.server.provider_seen = True
                self._sts_error(400, "IDPCommunicationError")
            by = "web." + form["WebIdentityToken"]
        session = form["RoleSessionName"]
        extra = "" if session.startswith(("botocore-session-", "berth-")) else f"-as-{session}"
        extra += "".join(f"-{form[name]}" for name in ("ExternalId", "DurationSeconds") if name in form)
        made = keys(f"ROLE-{role}-by-{by}{extra}", "SessionToken", self.server.role_seconds)
        inner = "".join(f"<{name}>{made[name]}</{name}>" for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"))
        return (
            f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result><Credentials>{inner}</Credentials>'
            f"<AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/{role}/{session}</Arn><AssumedRoleId>x</AssumedRoleId></AssumedRoleUser>"
            f"</{action}Result></{action}Response>"
        )

    # --- IAM Identity Center ---

    def _sso(self):
        bearer = self.headers["x-amz-sso_bearer_token"]
        assert "authorization" not in self.headers
        if bearer == "revoked":
            raise _Refused(401, b'{"message":"Session token not found or invalid"}')
        if self.query["role_name"] == "none":
            raise _Refused(403, b'{"message":"No access"}')
        made = keys(f"SSO-{self.query['account_id']}-{self.query['role_name']}-by-{bearer}")
        return {
            "roleCredentials": {
                "accessKeyId": made["AccessKeyId"], "secretAccessKey": made["SecretAccessKey"], "sessionToken": made["Token"],
                "expiration": int(datetime.datetime.now().timestamp() * 1000) + 3600_000,
            }
        }  # fmt: skip

    def _oidc(self, asked):
        if asked["refreshToken"] == "spent":
            raise _Refused(400, b'{"error":"invalid_grant"}')
        assert asked["grantType"] == "refresh_token" and asked["clientId"] == "client" and asked["clientSecret"] == "client-secret"
        return {"accessToken": "renewed-" + asked["refreshToken"], "expiresIn": 3600, "refreshToken": "next", "tokenType": "Bearer"}

    # --- sign-in ---

    def _check_proof(self):
        """RFC 9449, 4.3, by the library `cryptography`. The public key in the proof."""
        head, claims, signature = self.headers["dpop"].split(".")
        header, said = json.loads(_from_base64url(head)), json.loads(_from_base64url(claims))
        assert header["typ"] == "dpop+jwt" and header["alg"] == "ES256" and set(header["jwk"]) == {"kty", "crv", "x", "y"}, header
        assert set(said) == {"htm", "htu", "iat", "jti"}, said
        assert said["htm"] == "POST" and said["htu"] == self.server.url + self.path and abs(said["iat"] - time.time()) < 60, said
        assert said["jti"] not in self.server.proofs, "a proof is used once"
        self.server.proofs.add(said["jti"])
        x, y = (int.from_bytes(_from_base64url(header["jwk"][name]), "big") for name in "xy")
        key = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
        raw = _from_base64url(signature)
        assert len(raw) == 64
        der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
        key.verify(der, f"{head}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))
        return key.public_numbers()

    def _signin(self, asked):
        assert "authorization" not in self.headers and self.headers["content-type"] == "application/json"
        assert set(asked) == {"clientId", "grantType", "refreshToken"} and asked["grantType"] == "refresh_token", asked
        assert asked["clientId"] == "arn:aws:signin:::devtools/same-device", asked
        assert self._check_proof() == LOGIN_KEY.public_key().public_numbers(), "the refresh token is bound to this key"
        if asked["refreshToken"] == "busy":
            raise _Refused(500, b'{"error":"server_error","message":"no"}')
        if asked["refreshToken"].isupper():
            raise _Refused(403, json.dumps({"error": asked["refreshToken"], "message": "no"}).encode())
        made = keys("LOGIN-renewed-" + asked["refreshToken"])
        return {
            "accessToken": {"accessKeyId": made["AccessKeyId"], "secretAccessKey": made["SecretAccessKey"], "sessionToken": made["Token"]},
            "tokenType": "aws_sigv4", "expiresIn": 900, "refreshToken": "next",
        }  # fmt: skip

    # --- containers ---

    def _container(self, name):
        authorization = self.headers.get("authorization")
        if name == "garbage":
            return "<html>no</html>"
        if name == "partial":
            return {k: v for k, v in keys("CONTAINER").items() if k != "Expiration"}
        if name == "expired":
            return keys("CONTAINER-OLD", seconds=-60)
        if name == "moved":
            raise _Refused(302)
        if name == "broken":
            raise _Refused(500, b"SECRET.inner")
        return keys(f"CONTAINER-{name}" + (f"-{authorization.rpartition(' ')[2]}" if authorization else ""))

    # --- instances ---

    def _imds(self, kind, path):
        if kind == "imds-none":
            raise _Refused(404)
        if self.command == "PUT" and path == "latest/api/token":
            assert self.headers["x-aws-ec2-metadata-token-ttl-seconds"] == "21600"
            if kind == "imds-forbidden":
                raise _Refused(403)
            return IMDS_TOKEN
        if self.headers.get("x-aws-ec2-metadata-token") != IMDS_TOKEN:
            raise _Refused(401)
        roles = "latest/meta-data/iam/security-credentials/"
        if path == roles:
            if kind == "imds-no-role":
                raise _Refused(404)
            return "web-server"
        if path != roles + "web-server":
            raise _Refused(404)
        if kind == "imds-failed":
            return {"Code": "AssumeRoleUnauthorizedAccess", "Message": "EC2 cannot assume the role"}
        return keys("IMDS-web-server", seconds=-60 if kind == "imds-stale" else 3600)


class CredentialServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address=("127.0.0.1", 0)):
        super().__init__(address, _Handler)
        self.requests = []
        self.provider_seen = False
        self.proofs = set()
        self.role_seconds = 3600
        self.spoiled = ""  # a text of answers that a line break follows
        self.meanwhile = None  # called once, while the next POST is being answered
        self.account = "123456789012"
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        self.requests.append(("ERROR", "", {}, ""))

    def stop(self):
        self.shutdown()
        self.server_close()
