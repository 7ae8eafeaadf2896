# SPDX-License-Identifier: Apache-2.0
"""Search for a secret in all files below a folder."""

import base64
import json
import urllib.parse


def forms(secret):
    """The bytes by which a secret would give itself away, with the name of the form."""
    raw = secret.encode()
    found = {"as it is": raw, "reversed": raw[::-1], "JSON": json.dumps(secret)[1:-1].encode(), "JSON with \\/": secret.replace("/", "\\/").encode()}
    for safe in ("", "/"):
        found[f"URL, {safe!r} kept"] = urllib.parse.quote(secret, safe=safe).encode()
    found["URL in lower case"] = urllib.parse.quote(secret, safe="").replace("%2F", "%2f").replace("%2B", "%2b").replace("%3D", "%3d").encode()
    found["form"] = urllib.parse.quote_plus(secret).encode()
    found["hex"], found["HEX"] = raw.hex().encode(), raw.hex().upper().encode()
    found["UTF-16"], found["UTF-16, big end first"] = secret.encode("utf-16-le"), secret.encode("utf-16-be")
    for shift in range(3):
        # What stands around it decides on the first and the last characters of base64: they are left out.
        for name, encode in (("base64", base64.b64encode), ("base64url", base64.urlsafe_b64encode)):
            found[f"{name}, {shift} bytes on"] = encode(b"\0" * shift + raw + b"\0" * 3)[4 if shift else 0 : -8]
    return found


def search(what, secrets):
    """Every secret that stands somewhere in `what`, {name: bytes}, in some form."""
    return [
        f"{place}: {name} ({form})"
        for name, secret in secrets.items() for form, needle in forms(secret).items()
        for place, data in what.items() if needle in data
    ]  # fmt: skip


def files_below(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
