# SPDX-License-Identifier: Apache-2.0
"""The life of one request: read, identify, spoil, judge, throttle, supply or forward, record, answer."""

import asyncio
import socket
import struct
import time
import traceback

from aiohttp import web

from . import admin, decode, demands, environments, functions, keys, listing, network, presigned, registry, shapes, signature, storage, transactions
from .errors import AwsError, render
from .faults import AFTER, LONG_S, Faults, Throttle, send_signal
from .identify import Target, credential_scope, identify, is_mutating
from .record import Record
from .settings import TEST_ACCESS_KEY, TEST_SECRET, Settings
from .signature import KnownCredentials, SignatureProblem
from .upstream import Answer, Upstream

OBSERVER_HEADER = "x-berth-observer"
MAX_BODY = 256 * 1024 * 1024
UNSIGNED = {"AssumeRoleWithWebIdentity", "AssumeRoleWithSAML"}


class Call:
    """One request. `observer`: a test looks on; it is neither judged nor recorded nor spoilt."""

    def __init__(self, request, body, connection):
        self.method = request.method
        self.raw_target = request.raw_path
        self.headers = {}
        for key, value in request.headers.items():
            key = key.lower()
            self.headers[key] = f"{self.headers[key]},{value}" if key in self.headers else value
        self.body = body
        self.connection = connection
        self.observer = self.headers.pop(OBSERVER_HEADER, None) is not None
        self.target = identify(self.method, self.raw_target, self.headers, body)
        self.params, self.problems = {}, []
        self._take_presigned()
        if self.target.model:
            decoded = decode.decode(self.target, self.raw_target, self.headers, body)
            self.params, self.problems = decoded.params, decoded.problems
        scope = credential_scope(self.headers)
        self.access_key = scope[0] if scope else "test"
        self.region = self.target.region or "us-east-1"
        self.mutating = is_mutating(self.target.operation)
        self.host = self.headers.get("host", "")

    def _take_presigned(self):
        """A request that somebody else has signed is an ordinary one from here on; `signed_target` and `form` are what is judged."""
        self.form, self.signed_target = None, None
        if self.target.operation == "PostObject":
            path = self.raw_target.partition("?")[0]
            try:
                self.form = presigned.Form(self.headers, self.body)
            except AwsError as error:
                self.target.problem = error.message
            else:
                self.params = {"Bucket": path.strip("/"), "Key": self.form.fields.get("key", "")}
        elif self.target.service == "s3" and "X-Amz-Signature=" in self.raw_target:
            self.signed_target, self.raw_target = self.raw_target, presigned.stripped(self.raw_target)
        self.presigned = self.form is not None or self.signed_target is not None


class Proxy:
    """All state of one proxy; admin.py is how tests reach it."""

    def __init__(self, upstream_url, flavor):
        self.flavor = flavor
        self.upstream = Upstream(upstream_url)
        self.settings, self.faults, self.throttle = Settings(), Faults(), Throttle()
        self.record, self.credentials = Record(), KnownCredentials()
        self.functions, self.storage = functions.Functions(self.settings), storage.Storage()
        self.registry, self.pages, self.keys = registry.Registry(), listing.Pages(), keys.Keys()
        self.network, self.transactions = network.Network(), transactions.Transactions()
        self.environments = environments.Environments(self.settings)
        self.handlers = {**functions.HANDLERS, **environments.HANDLERS, **storage.HANDLERS, **registry.HANDLERS, **listing.HANDLERS, **keys.HANDLERS, **network.HANDLERS,
                         **transactions.HANDLERS}  # fmt: skip
        self._connections = {}
        self._next_connection = 0
        self.busy = 0  # requests that were read and are not answered yet
        self.reset()

    def reset(self):
        for part in (self.settings, self.throttle, self.record, self.functions, self.storage, self.registry, self.pages, self.keys, self.network, self.transactions, self.environments):
            part.reset()
        self.faults.replace([])
        self.credentials.clear()
        self.credentials.add(TEST_ACCESS_KEY, TEST_SECRET)

    def now(self):
        return time.time() + self.settings.clock_skew_s

    def _connection_id(self, transport):
        key = id(transport)
        known = self._connections.get(key)
        if known is None or known[0] is not transport:
            self._next_connection += 1
            self._connections[key] = known = (transport, self._next_connection)
        return known[1]

    async def handle(self, request):
        """Answer anything; a fault of the proxy's own is shown to the test as a violation, not hidden in a 500."""
        try:
            return await self._handle(request)
        except (ConnectionResetError, asyncio.CancelledError):
            raise
        except Exception:
            text = "the proxy itself failed:\n" + traceback.format_exc()
            self.record.violations.append({"service": "proxy", "operation": None, "url": request.raw_path, "text": text})
            return web.Response(status=500, text=text)

    async def _handle(self, request):
        if request.headers.get("Expect", "").lower() == "100-continue":
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await request.read()
        path = request.raw_path
        if path.startswith("/_proxy/"):
            return await admin.handle(self, request, body)
        if path.startswith(registry.LAYER_PATH):
            return _response(await registry.layer(self, request), request.method)
        if path.startswith("/v2/") and "authorization" in request.headers and "AWS4" not in request.headers["authorization"]:
            headers = {k: v for k, v in request.headers.items() if k.lower() not in ("host", "content-length")}
            return _response(await self.upstream.send(request.method, path, headers, body), request.method)
        call = Call(request, body, self._connection_id(request.transport))
        self.busy += 1
        try:
            if call.observer:
                answer = await self._answer(call, None)
                if answer.pieces:
                    answer.body = b"".join([piece async for piece in answer.pieces])
                return _response(answer, call.method)
            return await self._recorded(request, call)
        finally:
            self.busy -= 1

    async def _recorded(self, request, call):
        started = time.monotonic()
        entry = self.record.begin(call)
        actions = self.faults.strike(call)
        entry["faults"] = [action["kind"] for action in actions]
        held_until = self.faults.replaced
        for action in actions:
            if action["kind"] == "delay":
                await asyncio.sleep(action["seconds"])
            elif action["kind"] == "settings":
                self.settings.update(action["values"])
            elif action["kind"] == "reset":
                self.record.end(entry, started, None, "reset")
                return _reset(request)
            elif _signals(action, "before") and send_signal(action):
                self.record.end(entry, started, None, "killed")
                return _reset(request)
        answer = _instead(actions, call) or await self._answer(call, entry)
        if answer.pieces and not actions:
            return await self._streamed(request, entry, started, answer)
        if answer.pieces:
            answer.body = b"".join([piece async for piece in answer.pieces])
        answer.headers["Date"] = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(self.now()))
        self.record.end(entry, started, answer.status, entry["error"])
        for action in actions:
            if action["kind"] == "hold":
                await held_until.wait()
            if action["kind"] == "malformed":
                answer.body = answer.body[: len(answer.body) // 2] + b"\0<{" * (len(answer.body) // 6 + 1)
            if action["kind"] in AFTER:
                return await _spoil(request, action["kind"], answer)
            if _signals(action, "after") and send_signal(action):
                return _reset(request)
            if _signals(action, "answered"):
                return await _answer_and_signal(request, action, _response(answer, call.method))
        return _response(answer, call.method)

    async def _streamed(self, request, entry, started, answer):
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        await response.prepare(request)
        try:
            async for piece in answer.pieces:
                await response.write(piece)
            await response.write_eof()
        finally:
            self.record.end(entry, started, answer.status)
        return response

    async def _answer(self, call, entry):
        try:
            if entry is not None:
                if self.settings.judge:
                    self._judge(call)
                self._check_quota(call)
            elif call.target.model is None:
                raise AwsError(400, "UnknownOperationException", call.target.problem or "unknown operation")
            handler = self.handlers.get((call.target.service, call.target.operation))
            answer = await (handler(self, call) if handler else self.upstream.forward(call))
            self._learn(call, answer)
        except AwsError as error:
            if error.violation:
                self.record.violation(call, f"{error.code}: {error.message}")
            if entry is not None:
                entry["error"] = error.code
            target = call.target if call.target.service else Target(service="lambda")
            answer = Answer(*render(target, error, call.method))
        return answer

    def _judge(self, call):
        """Refuse what AWS would refuse, and remember that it was asked."""
        if call.presigned:
            return self._judge_presigned(call)
        if call.target.model is None:
            raise AwsError(400, "UnknownOperationException", call.target.problem, violation=True)
        if call.target.operation not in UNSIGNED:
            try:
                signature.check(
                    call.method, call.raw_target, call.headers, call.body, call.target.service, self.credentials, self.now()
                )
            except SignatureProblem as problem:
                skewed = problem.code == "RequestTimeTooSkewed" and (self.settings.clock_skew_s or self.settings.clients_skewed)
                code = problem.code
                if code == "RequestTimeTooSkewed" and call.target.service != "s3":
                    code = "InvalidSignatureException" if call.target.protocol != "query" else "SignatureDoesNotMatch"
                raise AwsError(403, code, str(problem), violation=not skewed) from None
        problems = call.problems + shapes.check(call.target.model.input_shape, call.params)
        if not problems:
            problems = demands.check(call)
        if problems:
            raise AwsError(400, "ValidationException", "; ".join(problems[:10]), violation=True)
        return None

    def _judge_presigned(self, call):
        """What is refused here is no violation: code that nobody trusts may try whatever it finds."""
        if call.form:
            presigned.check_form(call.form, call.params["Bucket"], f"http://{call.host}{call.raw_target}", self.credentials, self.now())
            return
        if call.target.model is None:
            raise AwsError(400, "InvalidRequest", call.target.problem)
        presigned.check_url(call.method, call.signed_target, call.headers, self.credentials, self.now())
        # From here on it is signed as the stand-ins expect it.
        call.headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={call.access_key}/20200101/{call.region}/s3/aws4_request, SignedHeaders=host, Signature=" + "0" * 64
        call.headers["x-amz-date"] = "20200101T000000Z"

    def _check_quota(self, call):
        limits = self.settings.throttle
        if limits["enabled"] and not self.throttle.allows(call, limits):
            headers = {"Retry-After": str(limits["retry_after"])} if limits["retry_after"] is not None else {}
            code = "TooManyRequestsException" if call.target.service == "lambda" else "ThrottledException"
            raise AwsError(429 if call.target.service == "lambda" else 400, code, "Rate exceeded", headers=headers)

    def _learn(self, call, answer):
        """Credentials that STS hands out are known from then on."""
        if call.target.service == "sts" and call.target.operation.startswith("AssumeRole") and answer.status == 200:
            import re

            text = answer.body.decode()
            found = [re.search(rf"<{name}>([^<]+)</{name}>", text) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")]
            if all(found):
                self.credentials.add(*(item.group(1) for item in found))


def _signals(action, when):
    return action["kind"] == "signal" and action["when"] == when


async def _answer_and_signal(request, action, response):
    await response.prepare(request)
    await response.write_eof()
    send_signal(action)
    return response


def _instead(actions, call):
    """The answer that a fault gives in AWS's place, or None."""
    for action in actions:
        if action["kind"] == "error":
            headers = {"Retry-After": str(action["retry_after"])} if "retry_after" in action else {}
            error = AwsError(action["status"], action.get("code", "InternalError"), action.get("message", "injected"), headers=headers)
            return Answer(*render(call.target, error, call.method))
        if action["kind"] == "redirect":
            return Answer(action.get("status", 307), {"Location": action["location"]})
        if action["kind"] == "answer":
            return Answer(action.get("status", 200), dict(action.get("headers", {})), action.get("body", "").encode())
    return None


def _response(answer, method):
    headers = {k: v for k, v in answer.headers.items() if method == "HEAD" or k.lower() != "content-length"}
    headers.setdefault("Content-Type", "application/octet-stream")
    return web.Response(status=answer.status, headers=headers, body=None if method == "HEAD" else answer.body)


def _reset(request):
    """End the connection with a TCP reset; aiohttp notices and writes nothing more."""
    if request.transport is None:
        return web.Response(status=500)  # the client was faster
    sock = request.transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.transport.abort()
    return web.Response(status=500)


async def _spoil(request, kind, answer):
    """Write a damaged answer by hand, below aiohttp."""
    if kind == "lost":
        return _reset(request)
    body = answer.body or b" " * 64
    stated = len(body) + (100 if kind == "wrong_length" else 0)
    head = f"HTTP/1.1 {answer.status} OK\r\nContent-Length: {stated}\r\n"
    for key, value in answer.headers.items():
        if key.lower() not in ("content-length", "connection"):
            head += f"{key}: {value}\r\n"
    part = body if kind == "wrong_length" else body[: len(body) // 2]
    if request.transport is None:
        return web.Response(status=500)  # nobody is there any more
    request.transport.write(head.encode() + b"\r\n" + part)
    await asyncio.sleep(0.05)  # let the bytes go out before the end comes
    if kind == "reset_mid_body":
        return _reset(request)
    if kind == "wrong_length":
        await asyncio.sleep(0.5)
    if request.transport is not None:
        request.transport.close()
    return web.Response(status=500)


def _watch_for_pauses(throttle, due=None):
    """A timer and no task: it has its turn before those whose requests came meanwhile."""
    now, loop = time.monotonic(), asyncio.get_running_loop()
    if due is not None and now - due > LONG_S:
        throttle.stood_still(now - due)
    loop.call_later(0.02, _watch_for_pauses, throttle, now + 0.02)


async def serve(upstream_url, flavor, host, port, ready):
    """Run until cancelled; `ready(url)` is told the address."""
    proxy = Proxy(upstream_url, flavor)
    await proxy.upstream.open()
    loop = asyncio.get_running_loop()

    def make_request(message, payload, protocol, writer, task):
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY)

    server = web.Server(proxy.handle, request_factory=make_request, access_log=None, keepalive_timeout=75)
    runner = web.ServerRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, host, port, backlog=512)
    await site.start()
    bound = site._server.sockets[0].getsockname()
    ready(f"http://{bound[0]}:{bound[1]}")
    try:
        _watch_for_pauses(proxy.throttle)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
        await proxy.upstream.close()
        proxy.environments.close()
