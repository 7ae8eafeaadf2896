# SPDX-License-Identifier: Apache-2.0
"""Sessions that are parked."""

import signal

from controllers import wait_until
from lib.lab import TOKENS, client, stack
from lib.sessions import Sessions
from lib.warm import Warm

SOON = {"parkSeconds": 1}
CLIENTS = [client("users", actsFor="users", realm="company"), client("watcher", may=["observe"]), client("file", may=["administer"])]


class Parking(Sessions):
    sockets = Warm.folder  # of the workers

    def show(self, session):
        return self.call("GET", f"/v1/sessions/{session}").json()

    def wait_until_parked(self, *sessions):
        for session in sessions:
            wait_until(lambda s=session: self.show(s)["status"] == "parked", 60)

    def session_with(self, code, **wish):
        session = self.create(**wish)
        assert (result := self.run(session, code))["status"] == "ok", result
        return session

    def value_and_state(self, session, code, **more):
        result = self.run(session, code, **more)
        assert result["status"] == "ok", result
        return result["value"]["text"], result["state"]

    def beside(self, session):
        """The folder beside the workspace."""
        return self.state / f"local/lab/workspaces/sessions/{session}"

    def checkpoint(self, session):
        [found] = self.beside(session).glob("checkpoint-*")
        return found

    def worker(self, session):
        return int((self.sockets / f"{session}.worker").read_text().split("-")[0])

    def again(self, signum=signal.SIGKILL):
        self.stop(signum)
        return self.start("--accept-degraded")


def served(berth, workspaces=None, **sessions):
    berth.write("stack.yaml", stack())
    berth("apply", "--yes").expect(0)
    made = Parking(berth, clients=CLIENTS, sessions={**SOON, **sessions}, **({"workspaces": workspaces} if workspaces else {}))
    yield made.start("--accept-degraded")
    if made.process is None:
        made.start("--accept-degraded")
    sessions = [s["id"] for s in made.call("GET", "/v1/sessions?limit=1000", token=TOKENS["watcher"]).items()]
    for session in sessions:
        assert made.call("DELETE", f"/v1/sessions/{session}", token=TOKENS["file"]).status == 204
        # Who is parked in this moment is heard first.
        wait_until(lambda s=session: [f.name for f in made.beside(s).iterdir() if f.name.startswith(("checkpoint-", "park"))] == [])
    assert made.stop() == 0
