# SPDX-License-Identifier: Apache-2.0
"""An issuer of JWTs: its keys, and tokens that it signs."""

import json
import time

from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

ISSUER = "https://issuer.example"
NAMES = {"RS256": "RSA", "ES256": "EC", "EdDSA": "OKP"}


def make_key(algorithm, kid):
    return {"RS256": lambda p: RSAKey.generate_key(2048, p), "ES256": lambda p: ECKey.generate_key("P-256", p),
            "EdDSA": lambda p: OKPKey.generate_key("Ed25519", p)}[algorithm]({"kid": kid} if kid else None)  # fmt: skip


KEYS = {name: make_key(name, f"key-{name}") for name in NAMES}


def public(*keys, **more):
    return json.dumps({"keys": [{**key.as_dict(private=False), **more} for key in keys]}).encode()


def claims(**more):
    now = int(time.time())
    made = {"iss": ISSUER, "aud": "berth", "exp": now + 600, "nbf": now - 5, "iat": now, "sub": "alice", **more}
    return {name: value for name, value in made.items() if value is not None}


def token(key=None, algorithm="RS256", header=None, **more):
    key = key or KEYS[algorithm]
    head = {"alg": algorithm, "kid": key.kid, **(header or {})}
    head = {name: value for name, value in head.items() if value is not None}
    return jwt.encode(head, claims(**more), key, algorithms=[algorithm])


def of_issuer(name, audience, **spec):
    source = {key: spec.pop(key) for key in ("jwksFile", "jwksUrl", "caFile", "ownerClaim") if key in spec}
    return {"name": name, "may": ["execute"], "jwt": {"issuer": ISSUER, "audience": audience, **source}, **spec}
