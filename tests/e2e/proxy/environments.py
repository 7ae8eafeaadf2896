# SPDX-License-Identifier: Apache-2.0
"""Lambda's Invoke: the image's runtime in environments like Lambda's, one tenant's each, behind the Runtime API of runtime_api.py.

The image is this machine's /usr with the berth-runtime that was built beside the program under test. An environment serves one
invocation at a time; where all of a tenant's are busy, another is made, as Lambda does. Between invocations it is frozen. It has its
function's timeout, and is started anew when that is over. Nothing is tried twice.
"""

import asyncio
import concurrent.futures
import json
import threading
import time
import uuid
from pathlib import Path
from urllib.parse import quote

from binary import find_binary
from runtime_api import RESPONSE_MAX, Environment, RuntimeApi, is_alive, pids_below
from servers import ACCOUNTS

from . import event_stream
from .errors import AwsError
from .functions import plain_name
from .upstream import Answer

ENTRY = "/opt/berth/berth-runtime"
PAYLOAD_MAX = 6 * 1024 * 1024
THREADS = 256
NEXT_S = 30  # until a runtime that has answered asks for the next event
INIT_S = 30


def _runtime():
    folder = Path(find_binary()).parent
    checked = folder / "berth-runtime-checked"
    return checked if checked.is_file() else folder / "berth-runtime"


class Held:
    """One environment."""

    def __init__(self, key, variables, authorities=None):
        self.key, self.variables, self.busy, self.served, self.lost = key, variables, True, 0, False
        self.invocation = None  # the last
        self.api = RuntimeApi()
        self.environment = Environment(_runtime(), self.api, variables=variables, authorities=authorities)
        self.frozen = False

    def freeze(self):
        if not self.frozen and self.environment.process:
            self.environment.freeze()
        self.frozen = True

    def thaw(self):
        if self.frozen and self.environment.process:
            self.environment.thaw()
        self.frozen = False

    def ended(self):
        process = self.environment.process
        return process is not None and process.poll() is not None

    def close(self):
        self.lost = True
        try:
            self.thaw()
            self.environment.close()
        finally:
            self.api.close()

    def report(self):
        process = self.environment.process
        return {
            "region": self.key[0], "function": self.key[1], "tenant": self.key[2], "busy": self.busy, "frozen": self.frozen, "served": self.served,
            "folder": str(self.environment.temporary), "pids": [pid for pid in pids_below(process.pid) if is_alive(pid)] if process else [],
        }  # fmt: skip


class Environments:
    def __init__(self, settings):
        self.settings, self.lock, self.held, self.running = settings, threading.Lock(), [], 0
        self.threads = concurrent.futures.ThreadPoolExecutor(THREADS)
        self.invocations = []  # [tenant, begun, ended] of each, by time.time(), whoever still listens; ended: None as long as it runs

    def reset(self):
        with self.lock:
            over, self.held = self.held, []
            self.invocations = []
        for held in over:
            self.threads.submit(held.close)

    def close(self):
        self.reset()
        self.threads.shutdown()

    def report(self):
        with self.lock:
            return [held.report() for held in self.held]

    async def control(self, do, tenant=None):
        """What happens to environments at Lambda's own will; those that run an invocation as well."""
        with self.lock:
            chosen = [held for held in self.held if tenant in (None, held.key[2])]
            if do == "lose":
                self.held = [held for held in self.held if held not in chosen]
        acts = {"lose": _lose, "freeze": Held.freeze, "thaw": Held.thaw, "restart": _restart}
        for held in chosen:
            await asyncio.get_running_loop().run_in_executor(self.threads, acts[do], held)
        return {"count": len(chosen)}

    # --- one invocation ---

    def _returns(self, key, variables):
        """Whether none is idle, and one has given its answer."""
        with self.lock:
            ours = [held for held in self.held if held.key == key and held.variables == variables and not held.lost]
        return all(held.busy for held in ours) and any(held.invocation and held.invocation.over.is_set() for held in ours)

    def _idle(self, key, variables):
        """With the lock: the one that is to serve, or None for a new one."""
        mixes = self.settings.mixes_tenants
        idle = [one for one in self.held if one.variables == variables and not one.busy and (one.key == key or (mixes and one.key[:2] == key[:2]))]
        if not idle or len(idle) < self.settings.environments_of_tenant:
            return None
        self.held.remove(idle[0])
        self.held.append(idle[0])  # the next time it is the last of them
        return idle[0]

    def _take(self, key, variables):
        """An idle one of the tenant's, or a new one. One that is about to ask for its next event is waited for."""
        end = time.monotonic() + NEXT_S
        while self._returns(key, variables) and time.monotonic() < end:
            time.sleep(0.005)
        limit = self.settings.invocations_at_once
        with self.lock:
            if self.running >= limit:
                raise _throttled("ConcurrentInvocationLimitExceeded")
            self.running += 1
            if held := self._idle(key, variables):
                held.busy, held.invocation = True, None
                return held
            tenants = sum(1 for held in self.held if held.key[2] is not None)
            if key[2] is not None and tenants >= limit * 5 // 2:
                self.running -= 1
                raise _throttled("CallerRateLimitExceeded")
        try:
            held = Held(key, variables, self.settings.authorities or None)
        except BaseException:
            with self.lock:
                self.running -= 1
            raise
        with self.lock:
            self.held.append(held)
        return held

    def _give_back(self, held):
        """Runs behind the answer: the runtime asks for the next event, and stands still then. One that has ended is started again."""
        if not held.lost and held.ended():
            held.environment.reset()
        end = time.monotonic() + NEXT_S
        while held.api.state not in ("WAITS", "FAILED") and time.monotonic() < end and not held.lost and not held.ended():
            time.sleep(0.005)
        alive = not held.lost and not held.ended() and held.api.state == "WAITS"
        if self.settings.fresh_environments or not alive:
            with self.lock:
                self.held = [one for one in self.held if one is not held]
            if not held.lost:
                held.close()
            return
        if self.settings.freezes:
            held.freeze()
        with self.lock:
            held.busy = False

    def _started(self, held, event, tenant, seconds):
        """The invocation under way; on a thread of its own, which sees to its time and to a runtime that dies."""
        held.thaw()
        end = time.monotonic() + INIT_S
        while held.api.state == "INIT" and time.monotonic() < end and not held.ended():
            time.sleep(0.005)
        span = [tenant, time.time(), None]
        with self.lock:
            self.invocations.append(span)
        invocation = held.invocation = held.api.invoke(event, tenant, seconds)
        self.threads.submit(self._watch, held, invocation, seconds, span)
        return invocation

    def _watch(self, held, invocation, seconds, span):
        end = time.monotonic() + seconds
        while not invocation.over.wait(0.02):
            if held.api.state == "FAILED":
                kind, body = held.api.init_error
                held.api.end(invocation, (kind or body.get("errorType"), body))
            elif held.lost or not held.environment.process:
                held.api.end(invocation, ("Sandbox.Lost", {"errorMessage": "the environment is gone"}))
            elif held.ended():
                status = held.environment.process.returncode
                error = ("Runtime.ExitError", {"errorType": "Runtime.ExitError", "errorMessage": f"RequestId: {invocation.id} Error: Runtime exited with error: exit status {status}"})
                held.api.end(invocation, error)
            elif time.monotonic() > end:
                error = ("Sandbox.Timedout", {"errorType": "Sandbox.Timedout", "errorMessage": f"RequestId: {invocation.id} Error: Task timed out after {seconds:.2f} seconds"})
                held.api.end(invocation, error)
                held.environment.reset(error[0])
                held.frozen = False
        span[2] = invocation.ended
        with self.lock:
            self.running -= 1
            held.served += 1
        self._give_back(held)

    async def invoke(self, key, variables, event, seconds):
        """The invocation, begun. Its pieces come by `pieces`."""
        loop = asyncio.get_running_loop()
        held = await loop.run_in_executor(self.threads, self._take, key, variables)
        return await loop.run_in_executor(self.threads, self._started, held, event, key[2], seconds)

    async def pieces(self, invocation):
        loop = asyncio.get_running_loop()
        while (piece := await loop.run_in_executor(self.threads, invocation.pieces.get)) is not None:
            yield piece
        await loop.run_in_executor(self.threads, invocation.over.wait)
        if self.settings.answers_late_s:
            await asyncio.sleep(self.settings.answers_late_s)


def _lose(held):
    held.close()


def _restart(held):
    """As after a timeout: processes end, files stay."""
    held.thaw()
    held.environment.reset()


def _throttled(reason):
    error = AwsError(429, "TooManyRequestsException", "Rate Exceeded.")
    error.reason = reason
    return error


async def _function(proxy, call):
    """The function as it is configured, if it can be invoked so."""
    name = plain_name(call.params["FunctionName"])
    found = await proxy.upstream.own(call, "lambda", "GetFunction", method="GET", path=f"/2015-03-31/functions/{quote(name, safe='')}")
    if found.status != 200:
        arn = f"arn:aws:lambda:{call.region}:{ACCOUNTS[proxy.flavor]}:function:{name}"
        raise AwsError(404, "ResourceNotFoundException", f"Function not found: {arn}")
    function = proxy.functions.of(call, name)
    if function.settling == "create" or function.failed:
        state = "Failed" if function.failed else "Pending"
        raise AwsError(409, "ResourceConflictException", f"The operation cannot be performed at this time. The function is currently in the following state: {state}")
    config = {**found.json()["Configuration"], **function.kept}
    tenant = call.params.get("TenantId")
    isolated = (config.get("TenancyConfig") or {}).get("TenantIsolationMode") == "PER_TENANT"
    if isolated and not tenant:
        raise AwsError(400, "InvalidParameterValueException", "The invoked function is enabled with tenancy configuration. Add a valid tenant ID in your request and try again.")
    if tenant and not isolated:
        raise AwsError(400, "InvalidParameterValueException", "The invoked function is not enabled with tenancy configuration. Remove the tenant ID from your request and try again.")
    if len(call.body) > PAYLOAD_MAX:
        raise AwsError(413, "RequestTooLargeException", f"{len(call.body)} byte payload is too large for the RequestResponse invocation type (limit {PAYLOAD_MAX} bytes)")
    return name, config, tenant


async def _begin(proxy, call):
    name, config, tenant = await _function(proxy, call)
    entry = (config.get("ImageConfig") or {}).get("EntryPoint") or []
    if entry[:1] != [ENTRY]:
        raise AwsError(502, "InvalidRuntimeException", f"what stands in for Lambda here runs {ENTRY} only, and the function's entry point is {entry}", violation=True)
    variables = (config.get("Environment") or {}).get("Variables") or {}
    seconds = config.get("Timeout", 3)
    return await proxy.environments.invoke((call.region, name, tenant), variables, call.body or b"{}", seconds)


def _headers(invocation):
    return {"X-Amzn-RequestId": invocation.id if invocation else str(uuid.uuid4()), "X-Amz-Executed-Version": "$LATEST"}


async def invoke(proxy, call):
    invocation = await _begin(proxy, call)
    body = b"".join([piece async for piece in proxy.environments.pieces(invocation)])
    headers = {**_headers(invocation), "Content-Type": "application/json"}
    error = invocation.error
    if error is None and len(body) > RESPONSE_MAX:
        error = ("Function.ResponseSizeTooLarge", {"errorMessage": "Response payload size exceeded maximum allowed payload size (6291556 bytes)."})
    if error:
        headers["X-Amz-Function-Error"] = "Unhandled"
        body = json.dumps({"errorType": error[0], **(error[1] or {})}).encode()
    return Answer(200, headers, body)


async def _events(proxy, invocation):
    async for piece in proxy.environments.pieces(invocation):
        if invocation.mode == "streaming":
            yield event_stream.chunk(piece)
    if invocation.mode == "buffered" and not invocation.error:
        yield event_stream.chunk(invocation.body)
    error = invocation.error
    yield event_stream.complete(**({"ErrorCode": error[0], "ErrorDetails": (error[1] or {}).get("errorMessage", "")} if error else {}))


async def invoke_with_stream(proxy, call):
    if not proxy.settings.has_streams:
        raise AwsError(404, "UnknownOperationException", "this place has no InvokeWithResponseStream")
    invocation = await _begin(proxy, call)
    headers = {**_headers(invocation), "Content-Type": "application/vnd.amazon.eventstream"}
    return Answer(200, headers, pieces=_events(proxy, invocation))


HANDLERS = {("lambda", "Invoke"): invoke, ("lambda", "InvokeWithResponseStream"): invoke_with_stream}
