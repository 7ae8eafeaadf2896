# SPDX-License-Identifier: Apache-2.0
"""Agent frameworks at Berth's doors: a program of frameworks/ against a server, with a stub in place of its model.

    python doors.py PROGRAM INTERPRETER WAY    for ./dev doors: its last line is `worked`, or what failed
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import stacks
from binary import ROOT, Berth, find_binary
from controllers import PATIENCE
from lib.lab import TOKENS, client
from model_stub import PROMPT, ModelStub
from serving import Serve

PROGRAMS = Path(__file__).parent / "frameworks"


@dataclass
class Attempt:
    product: int
    code: int
    out: str
    err: str
    answered: list  # by the stub: (service, whether as a stream, whether with strict tools)
    refused: list  # by the stub, in words

    def failure(self):
        """What failed, in one line; None if the product arrived in the program's last words."""
        if self.refused:
            return "refused by the model's service: " + self.refused[0]
        if self.code == 0 and str(self.product) in self.out:
            return None
        lines = [line.strip() for line in (self.err if self.code else self.out).splitlines() if line.strip()]
        return f"exit code {self.code}: " + (lines[-1][:300] if lines else "no word")


def serve(binary, folder):
    """A server of one environment, which no client has to name."""
    berth = Berth(binary, folder, "http://127.0.0.1:1")
    berth.write("stack.yaml", stacks.text(stacks.document("Stack", "lab", {"provider": "local"}), stacks.environment("notebooks")))
    berth("apply", "--yes").expect(0)
    return Serve(berth, clients=[client("self")], compat={"e2b": True, "e2bTemplate": "notebooks"}).start("--accept-degraded")


def command_of(program, interpreter, folder):
    """In JavaScript a program finds its packages beside itself: those of `interpreter`'s folder, which has node_modules."""
    if not program.endswith(".mjs"):
        return [str(interpreter), str(PROGRAMS / program)]
    (folder / program).write_bytes((PROGRAMS / program).read_bytes())
    (folder / "node_modules").symlink_to(Path(interpreter).resolve() / "node_modules")
    return [str(ROOT / "build/venv/bin/node"), str(folder / program)]


def attempt(served, stub, program, interpreter, way, folder):
    """Two calls of one session, by numbers that cannot be guessed."""
    number, factor = random.randrange(10**8, 10**9), random.randrange(10**4, 10**5)
    url = f"http://127.0.0.1:{served.port}"
    stub.answered.clear()
    stub.refused.clear()
    env = {
        **served.berth.env, "BERTH": str(served.berth.binary), "BERTH_STACK": str(served.berth.stack), "BERTH_URL": url, "BERTH_TOKEN": TOKENS["self"],
        "E2B_API_KEY": TOKENS["self"], "E2B_API_URL": url, "E2B_SANDBOX_URL": url, "MODEL_URL": stub.url,
        "PYTHONPYCACHEPREFIX": str(ROOT / "build/pycache"), "OTEL_SDK_DISABLED": "true", "DO_NOT_TRACK": "1",
    }  # fmt: skip
    found = subprocess.run(
        [*command_of(program, interpreter, folder), way, PROMPT.format(number, factor)], cwd=folder, env=env, capture_output=True, text=True,
        timeout=150 * PATIENCE,
    )  # fmt: skip
    return Attempt(number * factor, found.returncode, found.stdout, found.stderr, list(stub.answered), list(stub.refused))


def main(program, interpreter, way):
    with tempfile.TemporaryDirectory(prefix="berth-doors-") as folder, ModelStub() as stub:
        served = serve(find_binary(), Path(folder))
        try:
            work = Path(folder) / "work"
            work.mkdir()
            found = attempt(served, stub, program, interpreter, way, work)
            print(found.out, found.err, json.dumps(found.answered), sep="\n")
            return found.failure()
        except subprocess.TimeoutExpired as late:
            return f"no answer after {late.timeout:.0f} s"
        finally:
            served.stop()


if __name__ == "__main__":
    os.environ.setdefault("BERTH_BIN", str(ROOT / "build/dev/berth"))
    failed = main(*sys.argv[1:])
    print(failed or "worked")
    sys.exit(bool(failed))
