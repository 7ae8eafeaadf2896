# SPDX-License-Identifier: Apache-2.0
"""
Faults at every call of one apply that creates, updates, deletes and re-points. What passes is retried and ends well; what
stays is an error that names the resource and what to do; nobody waits longer than docs/aws.md says. The next run converges.

Berth's clock hurries, so that deadlines of minutes pass in seconds. By default a sample of the cases, the same in
each run; another one with BERTH_SEED=TEXT, all of them with BERTH_EXHAUSTIVE=1.
"""

import time

import pytest

from crossing import OTHER, READING
from hurry import Hurry
from lib.steps import EXHAUSTIVE
from lib.trial import Trial

PACE = 30
pytestmark = pytest.mark.timeout(14400 if EXHAUSTIVE else 600)

# Each strikes one call once. These pass: Berth tries again, and all is well.
PASSING = {
    "429": {"kind": "error", "status": 429, "code": "TooManyRequestsException"},
    "429 with Retry-After": {"kind": "error", "status": 429, "code": "TooManyRequestsException", "retry_after": 3},
    "500": {"kind": "error", "status": 500, "code": "InternalError"},
    "503": {"kind": "error", "status": 503, "code": "ServiceUnavailable"},
    "reset": {"kind": "reset"},
    "reset in mid-body": {"kind": "reset_mid_body"},
    "answer lost": {"kind": "lost"},
    "silence": {"kind": "delay", "seconds": 65 / PACE},
    "truncated": {"kind": "truncate"},
    "wrong Content-Length": {"kind": "wrong_length"},
    "clock skew": {"kind": "settings", "values": {"clock_skew_s": 600}},
}
# These may pass or be an error, which says so.
EITHER = {
    "malformed": {"kind": "malformed"},
    "empty": {"kind": "answer", "status": 200, "body": ""},
    "another's page": {"kind": "answer", "status": 200, "headers": {"Content-Type": "text/html"}, "body": "<html><body>Sign in</body></html>"},
    "redirect": {"kind": "redirect", "location": "http://127.0.0.1:1/elsewhere"},
    "conflict": {"kind": "error", "status": 409, "code": "ResourceConflictException", "message": "An update is in progress"},
}


def may_strike(what, call):
    """Who says "done" and has not done it cannot be found out; conflicts are Lambda's."""
    service, operation, _ = call
    if what in ("empty", "another's page"):
        return operation.startswith(READING)
    return what != "conflict" or (service == "lambda" and not operation.startswith(READING))


# These stay until the run ends, and are an error, which holds one of the words.
STAYING = {
    "503 for good": ({"kind": "error", "status": 503, "code": "ServiceUnavailable"}, "again"),
    "429 for good": ({"kind": "error", "status": 429, "code": "TooManyRequestsException"}, "again"),
    "silence for good": ({"kind": "delay", "seconds": 65 / PACE}, "again"),
    "credentials that expire": ({"kind": "error", "status": 400, "code": "ExpiredTokenException", "message": "expired"}, "sign in again"),
}
LONGEST_S = 15 * 60  # by Berth's clock; see "Deadlines" in docs/aws.md. A machine under load makes it look longer


class Weather(Trial):
    def __init__(self, cloud, berth, tmp_path):
        berth.env.update(Hurry(tmp_path, PACE).env())
        super().__init__(cloud, berth, tmp_path)

    def wait_out(self, rules=(), settings=None, code=1):
        """One crossing with the clock in a greater hurry still, for what takes minutes. What it said."""
        before = dict(self.berth.env)
        self.berth.env["HURRY"] = "100"
        self.cloud.settings(**(settings or {}))
        self.cloud.faults(*rules)
        self.crossing.turn()
        result = self.berth("apply", "--yes").expect(code)
        self.berth.env.update(before)
        return result.out + result.err

    def strike(self, what, call):
        service, operation, nth = call
        action, word = STAYING[what] if what in STAYING else ({**PASSING, **EITHER}[what], None)
        match = {"service": service, "operation": operation, "nth": list(range(nth, nth + 60)) if what in STAYING else nth}
        rules = [(match, action)]
        if what == "credentials that expire":
            rules = [(match, {"kind": "latch"}), ({"latched": True}, action)]
        began = time.monotonic()
        try:
            # An image that cannot be read is refused: 3, as by any guard.
            code, text = self.disturb((what, call), 3 if call[0] == "ecr" and call[1].startswith(READING) else 1, rules)
        finally:
            self.cloud.settings(clock_skew_s=0)
        took = (time.monotonic() - began) * PACE
        assert took < LONGEST_S, f"{what}: {took:.0f} s by its clock, with the run that mends it"
        assert code == 0 or what not in PASSING, f"{what}: tried again, it would have gone well\n{text}"
        if code:
            self.judge(what, call, word, text)

    def judge(self, what, call, word, text):
        """One failure is told of, by the resource and by what it was about."""
        said = [line for line in text.splitlines() if "failed:" in line or "error:" in line or call[1] in line or "XML" in line]
        assert said and "(null)" not in text and "Traceback" not in text, f"{what} {call}: no error is named\n{text}"
        assert any(name in line for line in said for name in (call[1], word or "XML", "another owner")), f"{what} {call}: the call is not named\n{said}"
        assert all("error:" in line or "/" in line for line in said if "failed:" in line), f"{what} {call}: the resource is not named\n{said}"
        assert not word or any(word in line for line in said), f"{what} {call}: what to do is not said ({word})\n{said}"
        self.messages.setdefault(what, max(said, key=lambda line: call[1] in line))

    messages = {}


@pytest.fixture
def weather(cloud, berth, tmp_path):
    return Weather(cloud, berth, tmp_path)


ALL = {**PASSING, **EITHER, **STAYING}


# All at once, where a sample is drawn; one after the other, where processes can share them.
@pytest.mark.parametrize("group", [PASSING, EITHER, STAYING] if EXHAUSTIVE else [ALL], ids=lambda group: next(iter(group)))
def test_a_fault_at_a_call(weather, group):
    calls, _ = weather.record()
    weather.each("fault", [(what, call) for call in calls for what in group if may_strike(what, call)], 10, weather.strike)
    for what, message in weather.messages.items():
        print(f"{what}: {message.strip()}")


# --- what takes minutes ---


def line_of(text, address):
    (found,) = [line for line in text.splitlines() if f"{address} failed:" in line]
    return found


def stays_pending(weather, there, left):
    """Given up after five minutes; it comes to life later, and the next run finds it."""
    mine = f"alphaagent-env-only-{there}"
    text = weather.wait_out(settings={"pending_by_name": {mine: 8}})
    assert "not ready after 5 minutes" in line_of(text, f"Environment/only-{there}")
    assert "Agent/moves skipped" in text and f"Environment/only-{left} skipped" in text
    assert f"alphaagent-env-only-{left}" in weather.cloud.functions(), "whose place it was to take stays"
    weather.cloud.aws("lambda").get_waiter("function_active_v2").wait(FunctionName=mine, WaiterConfig={"Delay": 1})


def stays_in_progress(weather, there, left):
    text = weather.wait_out(settings={"updating_s": 8})
    for name in ("swap", "keep"):
        assert "not ready after 5 minutes" in line_of(text, f"Environment/{name}")
    for name in ("swap", "keep"):
        weather.cloud.aws("lambda").get_waiter("function_updated_v2").wait(FunctionName=f"alphaagent-env-{name}", WaiterConfig={"Delay": 1})


def update_fails(weather, there, left):
    text = weather.wait_out(settings={"fail_updates": {"alphaagent-env-swap": "The image was deleted"}})
    assert "The image was deleted" in line_of(text, "Environment/swap")


def creation_fails(weather, there, left):
    text = weather.wait_out(settings={"fail_functions": {f"alphaagent-env-only-{there}": "The image cannot be read"}})
    assert "The image cannot be read" in line_of(text, f"Environment/only-{there}")


def conflicts_for_good(weather, there, left):
    """Somebody else is changing the same functions, without an end."""
    conflict = {"kind": "error", "status": 409, "code": "ResourceConflictException", "message": "An update is in progress"}
    operations = {
        "CreateFunction": f"Environment/only-{there}", "UpdateFunctionCode": "Environment/swap",
        "UpdateFunctionConfiguration": "Environment/keep",
    }  # fmt: skip
    text = weather.wait_out([({"operation": operation}, conflict) for operation in operations])
    for operation, address in operations.items():
        assert operation in line_of(text, address)


def conflicts_at_the_end(weather, there, left):
    conflict = {"kind": "error", "status": 409, "code": "ResourceConflictException", "message": "An update is in progress"}
    text = weather.wait_out([({"operation": "DeleteFunction"}, conflict)])
    assert "DeleteFunction" in line_of(text, f"Environment/only-{left}")


@pytest.mark.only("ministack", "how functions fare belongs to the proxy")
def test_what_takes_minutes(weather):
    for happens in (stays_pending, stays_in_progress, update_fails, creation_fails, conflicts_for_good, conflicts_at_the_end):
        left = weather.crossing.here
        happens(weather, OTHER[left], left)
        weather.cloud.settings(pending_by_name={}, updating_s=0, fail_updates={}, fail_functions={})
        weather.crossing.recover(happens.__name__)
