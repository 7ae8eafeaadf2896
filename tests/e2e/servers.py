# SPDX-License-Identifier: Apache-2.0
"""Start and end the stand-ins for AWS and the proxy, each as a child process on a free loopback port."""

import ctypes
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ACCOUNTS = {"ministack": "000000000000", "moto": "123456789012"}
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_PR_SET_PDEATHSIG = 1


def open_url(request, timeout=30):
    return _NO_PROXY.open(request, timeout=timeout)


def http(method, url, body=None, timeout=30):
    """(status, body) of a plain request, never through a web proxy."""
    request = urllib.request.Request(url, data=body, method=method)
    try:
        with open_url(request, timeout) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def _free_port():
    """Below the ports that the kernel gives out by itself: another process must not get it before the server has it."""
    while True:
        port = random.SystemRandom().randrange(12000, 32000)
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def die_with_parent():
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Child:
    """A process of ours: its output goes to a file, its end is by its own pid."""

    def __init__(self, name, command, env):
        self.log = tempfile.NamedTemporaryFile(prefix=f"berth-{name}-", suffix=".log", delete=False)
        clean = {k: v for k, v in os.environ.items() if not k.upper().endswith("_PROXY") and not k.startswith("AWS_")}
        self.process = subprocess.Popen(
            command, env={**clean, "PYTHONUNBUFFERED": "1", **env}, cwd=HERE, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=subprocess.STDOUT, preexec_fn=die_with_parent,
        )  # fmt: skip

    def output(self):
        return Path(self.log.name).read_text("utf-8", "replace")

    def wait_until(self, ready, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"ended with {self.process.returncode}:\n{self.output()[-4000:]}")
            try:
                found = ready()
            except (OSError, urllib.error.URLError):
                found = None
            if found:
                return found
            time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"not ready after {seconds} s:\n{self.output()[-4000:]}")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        os.unlink(self.log.name)


class Standin(Child):
    """MiniStack or moto."""

    def __init__(self, flavor):
        port = _free_port()
        self.flavor, self.account = flavor, ACCOUNTS[flavor]
        self.url = f"http://127.0.0.1:{port}"
        if flavor == "ministack":
            command = [sys.executable, "ministack_kept.py", "--port", str(port)]
            env = {"LOG_LEVEL": "WARNING", "IOT_MTLS_ENABLED": "0", "SFTP_ENABLED": "0"}
            health = self.url + "/_ministack/health"
        else:
            command = [sys.executable, "moto_kept.py", "--port", str(port)]
            env, health = {}, self.url + "/moto-api/"
        super().__init__(flavor, command, env)
        self.wait_until(lambda: http("GET", health)[0] == 200)

    def reset(self):
        path = "/_ministack/reset" if self.flavor == "ministack" else "/moto-api/reset"
        status, body = http("POST", self.url + path, b"")
        if status != 200:
            raise RuntimeError(f"reset of {self.flavor}: {status} {body[:500]}")


class ProxyServer(Child):
    """`python -m proxy` in front of a stand-in."""

    def __init__(self, standin):
        command = [sys.executable, "-m", "proxy", "--upstream", standin.url, "--flavor", standin.flavor, "--port", "0"]
        super().__init__("proxy", command, {})
        self.url = self.wait_until(lambda: (re.search(r"^(http://\S+)$", self.output(), re.M) or [None, None])[1])
