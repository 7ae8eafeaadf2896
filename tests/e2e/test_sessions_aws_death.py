# SPDX-License-Identifier: Apache-2.0
"""
Death and faults at every call of a session's life on AWS: the server's own to DynamoDB, S3 and Lambda, and those of the function by presigned
requests. The server dies before the call, when AWS has done it, or when the answer is on its way; the call is refused, fails, is reset,
its answer is lost or cut. Whatever happens: what was answered stays true, no code runs twice or is said not to have run where it has, no
success is one that nobody saw, and no file is lost that was said to be kept. What ran is told by the code itself, to a listener of the test's.

By default a sample, the same in each run; another one with BERTH_SEED=TEXT, all of them with BERTH_EXHAUSTIVE=1.
"""

import collections
import hashlib
import http.client
import re
import socket
import threading

import pytest

from clocks import Clocks
from controllers import PATIENCE, wait_until
from lib.aws_sessions import of_servers
from lib.sessions import CLIENTS, Sessions
from lib.steps import EXHAUSTIVE, SEED, note, sample
from places import Aws
from servers import ACCOUNTS

pytestmark = pytest.mark.timeout(14400 if EXHAUSTIVE else 600)

# It says that it runs, leaves a mark in a file, and one in a variable.
CODE = """
import socket
with socket.create_connection(("127.0.0.1", {port})) as s: s.sendall(b"{mark}")
open("log", "a").write("{mark} ")
marks = globals().get("marks", []) + ["{mark}"]
marks
"""
LOOK = "globals().get('marks', [])"


class Witness:
    """Hears of each run."""

    def __init__(self):
        self.server, self.heard = socket.create_server(("127.0.0.1", 0)), []
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            try:
                with self.server.accept()[0] as client:
                    self.heard.append(client.makefile().read())
            except OSError:
                return

    def close(self):
        self.server.close()


class Served(Sessions):
    """A server on a machine whose clocks can be moved."""

    def __init__(self, place, binary, folder):
        self.place, self.cloud = place, place.cloud
        berth = place.berth(binary, folder)
        place.apply(berth)
        super().__init__(berth, clients=CLIENTS)
        self.patience = 60 * PATIENCE
        self.clocks, self.witness = Clocks(folder), Witness()
        self.pidfile = folder / "pid"

    def begin(self):
        self.clocks.give(self.berth)
        self.start()
        self.pidfile.write_text(str(self.process.pid))

    def lives(self):
        return self.process is not None and self.process.poll() is None

    def undisturbed(self):
        """The same server, or another one where it died. What waits for a result has waited long enough, by its clock."""
        self.cloud.faults()
        if not self.lives():
            self.process = None
            self.begin()
        self.clocks.give(self.berth, wall_s=90)

    def settle(self, session):
        self.clocks.give(self.berth, wall_s=90)
        wait_until(lambda: all(row["status"] not in ("queued", "running") for row in self.history(session)), timeout=60)
        self.clocks.give(self.berth)

    def history(self, session):
        return self.call("GET", f"/v1/sessions/{session}/executions").items()


class Life:
    """What one client did, and was told."""

    count = 0

    def __init__(self, served):
        Life.count += 1
        self.served, self.number, self.session, self.told, self.refused = served, Life.count, None, {}, {}

    def ask(self, *args):
        """None where nobody answered."""
        try:
            return self.served.call(*args)
        except (OSError, http.client.HTTPException):
            return None

    def run(self, which):
        mark = f"{self.number}-{which}"
        code = CODE.format(port=self.served.witness.port, mark=mark)
        answer = self.ask("POST", f"/v1/sessions/{self.session}/executions", {"code": code, "timeoutSeconds": 20})
        if answer and answer.status == 200:
            self.told[mark] = answer.json()
        elif answer:
            self.refused[mark] = answer.json()

    def live(self):
        answer = self.ask("POST", "/v1/sessions", {"environment": "data"})
        if answer and answer.status == 201:
            self.session = answer.json()["id"]
            self.run("a")
            self.run("b")

    # --- what must be so ---

    def check_run(self, mark, row, text):
        heard = self.served.witness.heard.count(mark)
        assert heard <= 1, f"ran twice: {text}"
        if row is None:
            assert heard == 0, f"ran, and nobody knows of it: {text}"
            return
        assert row["status"] in ("ok", "failed", "killed", "error", "interrupted", "timeout"), text
        assert row["status"] != "ok" or heard == 1, f"a false ok: {text}"
        assert "nothing of it ran" not in (row["detail"] or "") or heard == 0, f"it did run: {text}"
        if mark in self.told:
            told = self.told[mark]
            assert (row["status"], row["detail"], row["files"]) == (told["status"], told["detail"], told["files"]), f"{told}: {text}"

    def check_files(self, rows, text):
        """The last version that was said to be kept is there, or a later one that its execution does not vouch for."""
        said = [(row["n"], f["sha256"], mark) for mark, row in rows.items() if row for f in row["files"]["changed"] if f["path"] == "log"]
        if not said:
            return
        n, sha256, mark = max(said)
        found = self.served.call("GET", f"/v1/workspaces/{self.session}/files/log")
        assert found.status == 200, f"a file is lost: {text}"
        later = [row for row in rows.values() if row and row["n"] > n]
        assert hashlib.sha256(found.body).hexdigest() == sha256 or (later and mark in found.body.decode().split()), f"{found.body}: {text}"

    def check_memory(self, now, text):
        state, marks = now["state"], re.findall(r"\d+-\w", now["value"]["text"])
        heard = set(self.served.witness.heard)
        assert len(marks) == len(set(marks)) and set(marks) <= heard, f"{marks}: {text}"
        assert (state["was"] in ("lost", "restored")) == bool(state["reason"]), f"{state}: {text}"
        if state["was"] == "kept":
            assert {mark for mark, told in self.told.items() if told["status"] == "ok"} <= set(marks), f"{marks} {state}: {text}"

    def look(self):
        """A server that could not write for long begins nothing, until it has said again that it lives."""
        seen = []
        wait_until(lambda: seen.append(self.served.run(self.session, LOOK)) or "out of touch" not in (seen[-1]["detail"] or ""), timeout=60)
        return seen[-1]

    def check(self, what):
        served = self.served
        served.undisturbed()
        if not self.session:
            return
        assert served.call("GET", f"/v1/sessions/{self.session}").status == 200, f"{what}: the session is gone"
        served.settle(self.session)
        rows = {f"{self.number}-{which}": None for which in "ab"}
        for short in served.history(self.session):
            row = {**short, **served.call("GET", f"/v1/sessions/{self.session}/executions/{short['n']}").json()}
            found = re.search(r'sendall\(b"(\d+-\w)"\)', short["code"])
            assert found and rows[found[1]] is None, f"{what}: one request is two executions: {row}"
            rows[found[1]] = row
        text = f"{what}: {rows}, told {self.told}, refused {self.refused}, heard {[m for m in served.witness.heard if m.startswith(f'{self.number}-')]}"
        for mark, row in rows.items():
            self.check_run(mark, row, text)
        self.check_files(rows, text)
        now = self.look()
        if now["status"] == "failed" and "nothing of it ran" in now["detail"]:  # once more: the index is right by now
            now = self.look()
        assert now["status"] == "ok", f"{now}: {text}"
        self.check_memory(now, text)
        self.check_files(rows, f"after a look, {text}")

    def finish(self):
        if not self.session:
            return
        assert self.served.call("DELETE", f"/v1/sessions/{self.session}").status == 204
        self.served.cloud._post("environments", {"do": "lose", "tenant": self.session})


def pytest_generate_tests(metafunc):
    chosen = metafunc.config.getoption("--cloud")
    metafunc.parametrize("served", [flavor for flavor in ACCOUNTS if chosen in (None, flavor)], indirect=True)


@pytest.fixture
def served(request, standins, binary, tmp_path):
    place = Aws(standins, request.param)
    made = Served(place, binary, tmp_path)
    made.flavor = request.param
    made.begin()
    yield made
    made.undisturbed()
    made.witness.close()
    assert made.stop() == 0
    place.close()


def resource_of(call):
    """What the call is about, whichever session's it is; and so many of one kind are told apart by their number alone."""
    key = call["params"].get("Key", "")
    if isinstance(key, dict):  # a record's
        key = ""
    for known in ("workspaces/index/", "workspaces/owners/", "/staged/"):
        if known in key:
            return known
    found = re.search(r"/(transfer/\d+/\w+|workspace/.+)$", key)
    return found[0] if found else None


def steps_of(served):
    """The calls of an undisturbed life: {service, operation, resource, nth}."""
    mark, seen, steps = served.cloud.mark(), collections.Counter(), []
    life = Life(served)
    life.live()
    served.settle(life.session)
    wait_until(lambda: served.cloud.calls(mark, operation="DeleteObjects"))
    assert [told["status"] for told in life.told.values()] == ["ok", "ok"]
    for call in served.cloud.calls(mark):
        if of_servers(call):
            continue
        key = (call["service"], call["operation"], resource_of(call))
        seen[key] += 1
        steps.append({"service": key[0], "operation": key[1], **({"resource": key[2]} if key[2] else {}), "nth": seen[key]})
    life.check("undisturbed")
    life.finish()
    return steps


def each(served, steps, most, name, disturb):
    """All of them or a sample; what went wrong is told at the end."""
    most, name = most if served.flavor == "ministack" else 1, f"{name}, {served.flavor}"
    failures, chosen, ends = [], sample(steps, most, name), collections.Counter()
    for number, step in enumerate(chosen, 1):
        life = Life(served)
        try:
            disturb(life, *step)
            ends.update(told["status"] for told in life.told.values())
            ends["refused"] += len(life.refused)
            life.check(step)
            life.finish()
        except Exception as error:  # an answer that does not come, or has no value, is a failure as any
            failures.append(f"--- {step}\n{type(error).__name__}: {error}")
            note(failures[-1][:3000])
            served.undisturbed()
        if number % 20 == 0 or number == len(chosen):
            note(f"{name}: {number} of {len(chosen)} ({len(steps)} in all), {len(failures)} failed, {dict(ends)}")
    assert not failures, f"{len(failures)} of {len(chosen)}; again with BERTH_SEED={SEED}\n" + "\n".join(failures[:10])


def test_death_of_the_server_at_a_call(served):
    steps = [(when, call) for call in steps_of(served) for when in ("before", "after", "answered")]

    def kill(life, when, call):
        served.cloud.faults((call, {"kind": "signal", "when": when, "signal": "KILL", "pidfile": str(served.pidfile)}))
        life.live()
        wait_until(lambda: served.cloud._get("health")["busy"] == 0)
        if served.cloud.fault_hits() == [1]:
            served.process.wait(30 * PATIENCE)

    each(served, steps, 5, "killed at", kill)


FAULTS = {
    "reset": {"kind": "reset"},
    "lost": {"kind": "lost"},
    "cut": {"kind": "truncate"},
    "failed": {"kind": "error", "status": 500, "code": "InternalError", "message": "We encountered an internal error."},
    "busy": {"kind": "error", "status": 503, "code": "ServiceUnavailable", "message": "Please reduce your request rate."},
    "refused": {"kind": "error", "status": 403, "code": "AccessDeniedException", "message": "not allowed"},
    "failed for ever": {"kind": "error", "status": 500, "code": "InternalError", "message": "We encountered an internal error."},
    "lost for ever": {"kind": "lost"},
}


def test_a_fault_at_a_call(served):
    steps = [(name, call) for call in steps_of(served) for name in FAULTS]

    def spoil(life, name, call):
        # For ever is until the client has waited for a while.
        lasts = name == "refused" or name.endswith("for ever")
        rule = {**call, "nth": list(range(call["nth"], 1000))} if lasts else call
        served.cloud.faults((rule, FAULTS[name]))
        living = threading.Thread(target=life.live)
        living.start()
        living.join(8 * PATIENCE if not lasts else 4)
        served.clocks.give(served.berth, wall_s=90)
        living.join(8)
        served.cloud.faults()
        living.join(60 * PATIENCE)
        assert not living.is_alive(), "nobody was answered"

    each(served, steps, 6, "faults at", spoil)
