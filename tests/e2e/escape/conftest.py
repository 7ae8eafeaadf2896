# SPDX-License-Identifier: Apache-2.0
"""`box`: an applied environment and code run in it; every test that takes it runs as root, as an ordinary user, and as an
ordinary user for whom a launcher of root's makes the sandbox."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from in_sessions import InServices, InSessions
from lib.launchers import ORDINARY, Launcher

_SANITIZERS = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "LLVM_PROFILE_FILE")
_SESSION = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
_LAUNCHER = os.environ.get("BERTH_TEST_LAUNCHER", "").split()  # what every berth is started by (tools/vm/ways.sh)
STACK = """apiVersion: berth/v1
kind: Stack
metadata: {name: escape}
spec: {provider: local}
---
apiVersion: berth/v1
kind: Environment
metadata: {name: box}
spec:
  image: {prebuilt: python}
  variables: {COLOUR: red, SECRET: {value: s3cr3t-of-the-test, sensitive: true}}
---
apiVersion: berth/v1
kind: Agent
metadata: {name: queuing}
spec: {type: general, environment: box, limits: {containers: 1}}
---
apiVersion: berth/v1
kind: Agent
metadata: {name: rejecting}
spec: {type: general, environment: box, limits: {containers: 1, onLimit: reject}}
---
apiVersion: berth/v1
kind: Agent
metadata: {name: small}
spec: {type: general, environment: box, limits: {memoryMB: 256, cpus: 1}}
---
apiVersion: berth/v1
kind: Agent
metadata: {name: resting}
spec: {type: general, environment: box, active: false}
---
apiVersion: berth/v1
kind: Agent
metadata: {name: serving}
spec: {type: general, environment: box}
"""


def _heed_hangups():
    """The user that runs the tests may ignore hang-ups (nohup does); a program that is to die of one must not have inherited
    that."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Box:
    def __init__(self, binary, user, network=None):
        self.user = user
        self.folder = Path(tempfile.mkdtemp(prefix="berth-escape-"))
        self.stack = self.folder / "stack"
        self.stack.mkdir()
        (self.stack / "stack.yaml").write_text(STACK.replace("  variables", f"  network: {json.dumps(network)}\n  variables", 1) if network else STACK)
        self.binary = self.folder / "berth"
        shutil.copy(binary, self.binary)
        if (binary.parent / "berth-runtime").is_file():
            shutil.copy(binary.parent / "berth-runtime", self.folder)
        self.folder.chmod(0o755)
        self.binary.chmod(0o755)
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", f"{self.uid}:{self.uid}", self.folder], check=True)
        self.env = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.folder),
            "AWS_SECRET_ACCESS_KEY": "leaked-aws",
            "BERTH_LEAK": "leaked-berth",
            **{name: os.environ[name] for name in _SANITIZERS if name in os.environ},
        }
        if self.uid == os.geteuid():  # a session's user manager, where there is one, gives scopes
            self.env.update({name: os.environ[name] for name in _SESSION if name in os.environ})
        self.launcher = self.server = self.services = None
        if user == "launched":
            self.launcher = Launcher(self.binary, "--images", str(self.stack / ".berth/local/escape/images"), workers=True)
        self.berth("apply", "--yes", "-q", check=True)
        probe = self.exec("print(1)")
        self.degraded = probe["sandbox"]["degraded"]

    @property
    def uid(self):
        return ORDINARY if self.user != "root" and os.geteuid() == 0 else os.geteuid()

    def command(self, *args):
        drop = []
        if self.uid != os.geteuid():
            drop = ["setpriv", "--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups"]
        if self.launcher and args[0] == "exec":
            args = ["exec", "--launcher", self.launcher.socket, *args[1:]]
        return [*drop, *_LAUNCHER, str(self.binary), *map(str, args)]

    def end(self):
        if self.server:
            self.server.end()
        if self.launcher:
            self.launcher.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def in_sessions(self):
        """The same by a server's sessions: one server, as long as the box."""
        if not self.server:
            self.server = InSessions(self)
        return self.server

    def in_services(self):
        """The same by services of that server."""
        if not self.services:
            self.services = InServices(self.in_sessions())
        return self.services

    def popen(self, *args, **kwargs):
        """Its `keeper` is the process whose child the sandbox's worker is."""
        process = subprocess.Popen(
            self.command(*args), cwd=self.stack, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            stdin=kwargs.pop("stdin", subprocess.DEVNULL), **{"preexec_fn": _heed_hangups, **kwargs},
        )  # fmt: skip
        process.keeper = self.launcher.process.pid if self.launcher else process.pid
        return process

    def berth(self, *args, check=False, timeout=120, **kwargs):
        done = subprocess.run(
            self.command(*args), cwd=self.stack, env=self.env, capture_output=True, timeout=timeout,
            stdin=kwargs.pop("stdin", subprocess.DEVNULL) if "input" not in kwargs else None, **kwargs,
        )  # fmt: skip
        text = done.stderr.decode("utf-8", "replace")
        assert "Sanitizer" not in text and "runtime error:" not in text, text
        assert done.returncode >= 0, f"killed by signal {-done.returncode}\n{text}"
        if check:
            assert done.returncode == 0, text
        return done

    def words(self, code, *args):
        degraded = ["--accept-degraded"] if self.user == "ordinary" else []
        return ["exec", "--env", "box", "--json", *degraded, "-c", code, *args]

    def exec(self, code, *args, program=False, **kwargs):
        """The result as JSON; stdout's text besides, as `text`."""
        done = self.berth(*self.words(code, *args), **kwargs)
        assert done.returncode != 125, done.stderr.decode()
        result = json.loads(done.stdout)
        assert result["exitCode"] == done.returncode
        result["text"] = result["stdout"]["content"]
        return result

    def tell(self, code, *args, **kwargs):
        """What the program prints as JSON."""
        result = self.exec(code, *args, **kwargs)
        assert result["exitCode"] == 0, result
        return json.loads(result["text"])

    def needs(self, word):
        """Skips where the host cannot enforce a limit for this user."""
        for line in self.degraded:
            if word in line:
                pytest.skip(f"as {self.user}: {line}")


USERS = ("root", "ordinary", "launched")


@pytest.fixture(scope="session")
def boxes(binary):
    made = {}

    def get(user, served=False):
        """One with a server, which is at work in it while other tests run, is another than what those look at."""
        if user != "ordinary" and os.geteuid() != 0:
            pytest.skip("the tests do not run as root")
        if sys.platform != "linux" or os.uname().machine != "x86_64":
            pytest.skip("the numbers of the system calls are those of x86-64")
        if (user, served) not in made:
            made[user, served] = Box(binary, "root", {"allow": ["pypi.org"]}) if user == "out" else Box(binary, user)
        return made[user, served]

    yield get
    for box in made.values():
        box.end()


@pytest.fixture(params=USERS)
def box(request, boxes):
    return boxes(request.param)


WAYS = (*USERS, *(f"{user}-{kind}" for kind in ("session", "service") for user in USERS), "out")  # the last: root's, with a way out


@pytest.fixture(params=WAYS)
def sandbox(request, boxes):
    """As `box`, for what exec() and tell() say of a sandbox; and of one in which a session or a service runs: the tests of a module share it."""
    user, _, kind = request.param.partition("-")
    if not kind:
        return boxes(user)
    served = boxes(user, served=True)
    return (served.in_sessions() if kind == "session" else served.in_services()).for_module(request.module)


@pytest.fixture
def fresh(sandbox):
    """The same, where each code has a sandbox of its own, in sessions too."""
    if isinstance(sandbox, InSessions):
        sandbox.alone = True
    yield sandbox
    if isinstance(sandbox, InSessions):
        sandbox.alone = False
