# SPDX-License-Identifier: Apache-2.0
"""A box whose code runs in sessions of a server: what a test asks of `berth exec` there, it asks of HTTP here."""

import glob
import hashlib
import http.client
import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import time

import pytest

TOKEN = secrets.token_hex(32)
PATIENCE = 120
DECLARED = """apiVersion: berth/v1
kind: Server
metadata: {name: escape}
spec:
  stack: stack
  listen: 127.0.0.1:0
  sessions: {sharedUser: %s}
  clients: [{name: users, tokenSha256: %s, actsFor: users, realm: company, may: [execute, containers]}]
"""
# In a namespace of its own: the tests of a module share a kernel.
IN_THE_KERNEL = """import sys as _sys
_sys.argv[:] = {argv!r}
exec(compile({code!r}, "probe", "exec"), {{"__name__": "__main__"}})
"""


class InSessions:
    """`session` is the one in which exec() and tell() run; a module has its own."""

    def __init__(self, box):
        self.box, self.module, self.session, self.alone = box, None, None, False
        self.user, self.folder, self.stack, self.uid = box.user, box.folder, box.stack, box.uid
        self.degraded, self.needs = box.degraded, box.needs
        self.log = self.folder / "serve.log"
        self.process, self.port = None, None
        (self.folder / "server.yaml").write_text(DECLARED % ("false" if self.uid == 0 or self.box.launcher else "true", hashlib.sha256(TOKEN.encode()).hexdigest()))
        self.start()

    # --- the server ---

    def start(self, env=None):
        launcher = ["--launcher", self.box.launcher.socket] if self.box.launcher else []
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.box.command("serve", "-f", "server.yaml", "--accept-degraded", *launcher), cwd=self.folder,
                env={**self.box.env, **(env or {})}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.wait_for(lambda: "it serves what was applied" in self.log.read_text(), self.is_there)
        self.port = int(re.search(r"listening on port (\d+)", self.log.read_text()).group(1))

    def is_there(self):
        assert self.process.poll() is None, f"the server ended with {self.process.returncode}:\n{self.log.read_text()}"

    def stop(self, number=signal.SIGTERM):
        """Its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        text = self.log.read_text()
        assert "Sanitizer" not in text and "runtime error:" not in text, text
        return code

    def end(self):
        if self.process.poll() is None:
            for owner in ("alice", "bob"):
                for kind in ("sessions", "containers"):
                    for made in self.call("GET", f"/v1/{kind}?limit=1000", owner=owner)[1]["items"]:
                        self.call("DELETE", f"/v1/{kind}/{made['id']}", owner=owner)
            assert self.stop() == 0, self.log.read_text()

    # --- its API ---

    def call(self, method, path, body=None, owner="alice", headers=()):
        """The status and what was answered: of JSON the value, else the bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2 * PATIENCE)
        sent = {"Authorization": f"Bearer {TOKEN}", "Berth-Owner": owner, "Content-Type": "application/json", **dict(headers)}
        try:
            connection.request(method, path, body if body is None or isinstance(body, bytes) else json.dumps(body), sent)
            answer = connection.getresponse()
            data = answer.read()
            return answer.status, json.loads(data) if "json" in (answer.getheader("Content-Type") or "") else data
        finally:
            connection.close()

    def create(self, owner="alice", **wish):
        status, made = self.call("POST", "/v1/sessions", wish or {"environment": "box"}, owner)
        assert status == 201, made
        return made["id"]

    def run(self, code, session=None, owner="alice", **more):
        """One execution, to its end."""
        status, result = self.call("POST", f"/v1/sessions/{session or self.session}/executions", {"code": code, **more}, owner)
        assert status == 200, result
        return result

    def begin(self, code, session=None, owner="alice", **more):
        """One execution, until its code runs; its path."""
        session = session or self.session
        status, begun = self.call("POST", f"/v1/sessions/{session}/executions", {"code": code, **more}, owner, {"Prefer": "respond-async"})
        assert status == 202, begun
        path = f"/v1/sessions/{session}/executions/{begun['n']}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", f"{path}/events", headers={"Authorization": f"Bearer {TOKEN}", "Berth-Owner": owner})
        answer = connection.getresponse()
        while (line := answer.readline()) not in (b"event: started\n", b"event: done\n"):
            assert line, "the stream ended"
        connection.close()
        return path

    def result(self, path, owner="alice"):
        """Of one that was begun, once it has ended."""
        return self.wait_for(lambda: (found := self.call("GET", path, owner=owner)[1])["status"] not in ("queued", "running") and found)

    def finish(self, session, owner="alice"):
        assert self.call("DELETE", f"/v1/sessions/{session}", owner=owner)[0] == 204

    def wait_for(self, look, meanwhile=lambda: None, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while not (found := look()):
            meanwhile()
            assert time.monotonic() < end, f"not in {seconds} s: {found!r}\n{self.log.read_text()[-4000:]}"
            time.sleep(0.02)
        return found

    # --- as a box ---

    def exec(self, code, *args, program=False, timeout=None, pass_fds=()):
        """
        As a box's, of a result: in the kernel's own process, or as a program that the session starts. Options of `berth exec` that
        mean something here: --agent, --timeout, and what comes after "--".
        """
        words = list(args)
        argv = [str(word) for word in words[words.index("--") + 1 :]] if "--" in words else []
        wish = {"timeoutSeconds": int(words[words.index("--timeout") + 1])} if "--timeout" in words else {}
        agent = words[words.index("--agent") + 1] if "--agent" in words else None
        session = self.create(agent=agent) if agent else self.create() if self.alone else self.session
        if program:
            result = self.run(shlex.join(["exec", "python3", "-c", code, *argv]), session, language="sh", **wish)
        else:
            result = self.run(IN_THE_KERNEL.format(argv=["-c", *argv], code=code), session, **wish)
        if session != self.session:
            self.finish(session)
        code = 137 if result["status"] == "memory" else result["exitCode"]
        return {**result, "text": result["stdout"]["content"], "reason": result["status"], "exitCode": code}

    def tell(self, code, *args, **kwargs):
        result = self.exec(code, *args, **kwargs)
        assert result["exitCode"] == 0, result
        return json.loads(result["text"])

    def for_module(self, module):
        """With a session of its own for the tests of a module."""
        if self.module is not module:
            if self.session:
                self.finish(self.session)
            self.module, self.session = module, self.create()
        return self

    # --- what it looks like from outside ---

    def sockets(self):
        """The folder of the workers' sockets."""
        if self.box.launcher:
            return str(self.box.launcher.workers)
        (folder,) = {
            os.path.dirname(path)
            for session in self.call("GET", "/v1/sessions?limit=1000")[1]["items"]
            for top in ("/run/berth", "/tmp", f"{self.box.env.get('XDG_RUNTIME_DIR', '/run')}/berth")
            for path in glob.glob(f"{top}/*s-*/{session['id']}")
        }
        return folder

    def worker(self, session):
        """The process id of its worker."""
        (record,) = glob.glob(f"{self.sockets()}/*{session}.worker")
        with open(record) as file:
            return int(file.read().split("-")[0])


class InServices(InSessions):
    """The same by `exec` in services of the same server; `session` is a service."""

    def __init__(self, sessions):
        vars(self).update(vars(sessions))
        self.sessions, self.module, self.session, self.needs = sessions, None, None, self.needs_too

    def needs_too(self, word):
        """The quota of the workspace that services share is the kernel's on a disk alone."""
        if word == "quota" and self.uid != 0 and not self.box.launcher:
            pytest.skip(f"as {self.user}: the workspace that services share is a plain folder")
        self.box.needs(word)

    @property
    def port(self):
        return self.sessions.port

    @port.setter
    def port(self, port):
        raise AssertionError("its server is the sessions'")

    def create(self, owner="alice", **wish):
        wish = {"agent": "serving", **wish, "type": "service", "command": ["sh", "-c", "while :; do sleep 1000; done"]}
        status, made = self.call("POST", "/v1/containers", wish, owner)
        assert status == 201, made
        path = f"/v1/containers/{made['id']}"
        self.wait_for(lambda: (found := self.call("GET", path, owner=owner)[1])["status"] == "running" and found["startedAt"])
        return made["id"]

    def run(self, code, session=None, owner="alice", **more):
        status, result = self.call("POST", f"/v1/containers/{session or self.session}/exec", {"code": code, **more}, owner)
        assert status == 200, result
        return result

    def finish(self, session, owner="alice"):
        assert self.call("DELETE", f"/v1/containers/{session}", owner=owner)[0] == 204
