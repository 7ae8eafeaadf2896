# SPDX-License-Identifier: Apache-2.0
"""The way to the stand-in behind the proxy: forward a call as it came, or make one of the proxy's own."""

import json
from dataclasses import dataclass, field
from urllib.parse import urlencode

import aiohttp
import yarl

from .identify import service_model

HOP_BY_HOP = {
    "host", "connection", "keep-alive", "content-length", "transfer-encoding", "expect", "te", "upgrade",
    "x-berth-observer", "accept-encoding",
}  # fmt: skip
_SIGNING_NAME = {"resourcegroupstaggingapi": "tagging"}
_AUTOMATIC = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")


@dataclass
class Answer:
    status: int
    headers: dict = field(default_factory=dict)
    body: bytes = b""
    pieces: object = None  # an async iterator of the body, where it comes piece by piece

    def json(self):
        return json.loads(self.body or b"{}")

    def with_json(self, value):
        dropped = ("content-length", "content-encoding", "content-type")
        headers = {k: v for k, v in self.headers.items() if k.lower() not in dropped}
        headers["Content-Type"] = "application/json"
        return Answer(self.status, headers, json.dumps(value).encode())


class Upstream:
    def __init__(self, url):
        self.url = url.rstrip("/")
        self._session = None

    async def open(self):
        # Kept for a fraction of the time for which the stand-ins keep them (75 s, and for good): one that the server closes in
        # the same moment would look like a fault that no test asked for.
        connector = aiohttp.TCPConnector(limit=64, keepalive_timeout=5)
        timeout = aiohttp.ClientTimeout(total=120)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False, trust_env=False)

    async def close(self):
        await self._session.close()

    async def send(self, method, raw_target, headers, body=b""):
        url = yarl.URL(self.url + raw_target, encoded=True)
        async with self._session.request(
            method, url, headers=headers, data=body or None, skip_auto_headers=_AUTOMATIC, allow_redirects=False
        ) as reply:
            kept = {k: v for k, v in reply.headers.items() if k.lower() not in ("connection", "transfer-encoding", "keep-alive", "server")}
            return Answer(reply.status, kept, await reply.read())

    async def forward(self, call, body=None, raw_target=None):
        """The client's own request, with another body or target if need be."""
        headers = {k: v for k, v in call.headers.items() if k not in HOP_BY_HOP}
        body = call.body if body is None else body
        if call.method in ("PUT", "POST"):
            headers["Content-Length"] = str(len(body))
        return await self.send(call.method, raw_target or call.raw_target, headers, body)

    async def own(self, call, service, operation, params=None, method="POST", path="/", body=b"", headers=None):
        """A request of the proxy's own, in the caller's account and region. REST services give method and path."""
        name = _SIGNING_NAME.get(service, service)
        headers = {
            **(headers or {}),
            "Authorization": f"AWS4-HMAC-SHA256 Credential={call.access_key}/20200101/{call.region}/{name}/aws4_request, "
            "SignedHeaders=host, Signature=" + "0" * 64,
            "X-Amz-Date": "20200101T000000Z",
        }
        model = service_model(service)
        if model.protocol == "json":
            headers["X-Amz-Target"] = f"{model.metadata['targetPrefix']}.{operation}"
            headers["Content-Type"] = "application/x-amz-json-1.1"
            return await self.send("POST", "/", headers, json.dumps(params or {}).encode())
        if model.protocol in ("query", "ec2"):
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            form = {"Action": operation, "Version": model.api_version, **(params or {})}
            return await self.send("POST", "/", headers, urlencode(form).encode())
        return await self.send(method, path, headers, body)
