# SPDX-License-Identifier: Apache-2.0
"""What goes wrong on purpose: rules that match calls, and AWS's quotas as token buckets.

A rule is {"match": {...}, "action": {...}}. `match` takes service, operation, resource (a text that the
request target or the parameters hold), bucket, bucket_not, method, nth (a number or list, counted among the
calls that fit the rest), times (the first so many) and latched (see below). `action` is one of

    {"kind": "error", "status": 503, "code": "...", "message": "...", "retry_after": 1}
    {"kind": "delay", "seconds": 2}            then the call goes on
    {"kind": "reset"}                          the connection is reset, AWS has seen nothing
    {"kind": "lost"}                           AWS has done it, the answer is lost (reset)
    {"kind": "hold"}                           AWS has done it, the answer comes when the rules are replaced
    {"kind": "reset_mid_body"}                 reset in the middle of the answer's body
    {"kind": "truncate"}                       the connection ends in order, half of the body missing
    {"kind": "wrong_length"}                   Content-Length is more than the bytes that come, then silence
    {"kind": "redirect", "location": URL, "status": 307}
    {"kind": "answer", "status": 200, "headers": {}, "body": "text"}   instead of AWS's answer
    {"kind": "malformed"}                      as long as it says, its second half overwritten
    {"kind": "settings", "values": {}}         from this call on the proxy has these settings; then the call goes on
    {"kind": "latch"}                          from this call on the rules with "latched": true strike
    {"kind": "signal", "when": "before", "signal": "KILL", "times": 1, "pidfile": PATH}

`signal` ends or interrupts the client itself: before AWS sees the call, `after` AWS has done it and before the client can
know, or `answered`: when the answer is on its way. `pidfile` says who the client is.
"""

import asyncio
import collections
import json
import os
import signal
import time
from pathlib import Path

KINDS = {"error", "delay", "reset", "lost", "reset_mid_body", "truncate", "wrong_length", "redirect", "answer", "signal", "malformed", "settings",
         "latch", "hold"}  # fmt: skip
MATCHES = {"service", "operation", "resource", "bucket", "bucket_not", "method", "nth", "times", "latched"}
AFTER = {"lost", "reset_mid_body", "truncate", "wrong_length"}


class Rule:
    def __init__(self, spec):
        self.match, self.action = spec["match"], spec["action"]
        if self.action["kind"] not in KINDS or set(self.match) - MATCHES:
            raise ValueError(f"no such rule: {json.dumps(spec)}")
        nth = self.match.get("nth")
        self.nth = nth if nth is None or isinstance(nth, list) else [nth]
        self.seen = 0
        self.hits = 0

    def fits(self, call):
        """Count the call, and say whether the rule strikes it."""
        want = self.match
        if want.get("service", call.target.service) != call.target.service:
            return False
        if want.get("operation", call.target.operation) != call.target.operation:
            return False
        if want.get("method", call.method) != call.method:
            return False
        bucket = call.params.get("Bucket")
        if want.get("bucket", bucket) != bucket or ("bucket_not" in want and want["bucket_not"] == bucket):
            return False
        resource = want.get("resource")
        if resource and resource not in call.raw_target and resource not in json.dumps(call.params, default=str):
            return False
        self.seen += 1
        if self.nth is not None and self.seen not in self.nth:
            return False
        if "times" in want and self.hits >= want["times"]:
            return False
        self.hits += 1
        return True


class Faults:
    def __init__(self):
        self.rules, self.latched, self.replaced = [], False, asyncio.Event()

    def replace(self, specs):
        self.rules = [Rule(spec) for spec in specs]
        self.latched = False
        self.replaced.set()
        self.replaced = asyncio.Event()

    def strike(self, call):
        """The actions for this call, in the order of the rules."""
        actions = []
        for rule in self.rules:
            if (self.latched or not rule.match.get("latched")) and rule.fits(call):
                self.latched |= rule.action["kind"] == "latch"
                actions.append(rule.action)
        return actions

    def report(self):
        return [{"match": r.match, "action": r.action, "seen": r.seen, "hits": r.hits} for r in self.rules]


def send_signal(action):
    """To the client that the pidfile names; True where it does not live on. One that has ended already needs none."""
    pid, number = int(Path(action["pidfile"]).read_text()), signal.Signals[f"SIG{action.get('signal', 'KILL')}"]
    try:
        for _ in range(action.get("times", 1)):
            os.kill(pid, number)
    except ProcessLookupError:
        pass
    return number == signal.SIGKILL


LONG_S = 0.1  # that the proxy may have no turn, without a word
CAUGHT_UP_S = 0.5  # after which all that came meanwhile has been read


class _Bucket:
    def __init__(self):
        self.level = None
        self.at = 0.0
        self.missed, self.missed_until = 0.0, 0.0

    def take(self, rate, burst_s, now):
        """True if a token was there; else the bucket is left as it is."""
        capacity = max(1.0, rate * (burst_s + (self.missed if now < self.missed_until else 0)))
        self.level = capacity if self.level is None else min(capacity, self.level + (now - self.at) * rate)
        self.at = now
        if self.level < 1.0:
            return False
        self.level -= 1.0
        return True


class _Window:
    """So many calls in any one second."""

    def __init__(self):
        self.taken = collections.deque()

    def take(self, rate, now):
        while self.taken and now - self.taken[0] >= 1.0:
            self.taken.popleft()
        if len(self.taken) >= rate:
            return False
        self.taken.append(now)
        return True


class Throttle:
    """
    Lambda's control-plane quotas: GetFunction and GetPolicy each by itself, everything else together; tagging apart; CloudWatch Logs by operation,
    those of its operations that are not named together.
    """

    LOGS = {"DescribeLogGroups", "CreateLogGroup", "DeleteLogGroup", "PutRetentionPolicy", "DeleteRetentionPolicy"}
    DATA_PLANE = {"Invoke", "InvokeWithResponseStream", "InvokeAsync"}

    def __init__(self):
        self.reset()

    def reset(self):
        self._buckets, self._windows = {}, {}

    def stood_still(self, seconds):
        """This process had no turn for so long, on a busy machine: calls that came meanwhile are read all at once now."""
        for bucket in self._buckets.values():
            bucket.missed, bucket.missed_until = seconds, time.monotonic() + CAUGHT_UP_S

    def allows(self, call, limits):
        name = self._bucket_of(call)
        if name is None:
            return True
        place = (call.access_key, call.region, name)  # an account's, in one region
        if limits["sliding"]:
            return self._windows.setdefault(place, _Window()).take(limits[name], time.monotonic())
        bucket = self._buckets.setdefault(place, _Bucket())
        return bucket.take(limits[name], limits["burst_s"], time.monotonic())

    def _bucket_of(self, call):
        if call.target.service == "resourcegroupstaggingapi":
            return "tagging"
        if call.target.service == "logs":
            return call.target.operation if call.target.operation in self.LOGS else "logs"
        if call.target.service != "lambda" or call.target.operation in self.DATA_PLANE:
            return None
        return {"GetFunction": "get_function", "GetPolicy": "get_policy"}.get(call.target.operation, "control")
