# SPDX-License-Identifier: Apache-2.0
"""One state for several machines, in S3."""

import json
import os
import signal
import subprocess

import pytest

import stacks
from binary import Berth

BUCKET = "team-state"
PLACE = f"s3://{BUCKET}/research"


class Team:
    """Machines, and the bucket that they share."""

    def __init__(self, cloud, binary, folder):
        self.cloud, self.binary, self.folder = cloud, binary, folder
        self.s3 = cloud.direct("s3")
        self.s3.create_bucket(Bucket=BUCKET)
        self.version(True)

    def version(self, on):
        self.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled" if on else "Suspended"})

    def machine(self, name, declared=False):
        folder = self.folder / name
        folder.mkdir()
        made = Berth(self.binary, folder, self.cloud.url)
        if declared:
            made.declared = {"state": {"s3": PLACE}}
        else:
            made.declared = {}
            made.env["BERTH_STATE"] = PLACE
        return made

    def keys(self, prefix=""):
        found = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=f"research/{prefix}").get("Contents", [])
        return [item["Key"].removeprefix("research/") for item in found]

    def numbers(self, after=0):
        """Of all commits, or of those after a number."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="research/log/", StartAfter=f"research/log/{after:012}")
        return [int(item["Key"].rpartition("/")[2]) for page in pages for item in page.get("Contents", [])]

    def log(self):
        """The heads of all commits."""
        bodies = [self.s3.get_object(Bucket=BUCKET, Key=f"research/log/{number:012}")["Body"].read() for number in self.numbers()]
        return [json.loads(body.split(b"\n", 2)[1]) for body in bodies]

    def elsewhere(self):
        """What holds the lock becomes a process of another machine: whether it lives is not to be seen from here."""
        lease = self.lease()
        pid, start, _, namespace = lease["process"].split("-")
        lease["process"] = "-".join([pid, start, "1234567890abcdef", namespace])
        self.s3.put_object(Bucket=BUCKET, Key="research/lease", Body=json.dumps(lease).encode())

    def check(self, *names):
        """From a machine that has seen nothing of it: all is as it shall be, nothing is there twice, and no commit is missing."""
        fresh = self.machine(f"fresh-{len(list(self.folder.iterdir()))}")
        write(fresh, *names)
        fresh("plan", "--detailed-exitcode").expect(0)
        fresh("state", "verify").expect(0)
        shown = fresh("state", "show", "--json").expect(0).json()
        assert shown["journal"] == []
        assert len(self.cloud.functions()) == len(names)
        heads = self.log()
        assert [head["number"] for head in heads] == list(range(1, len(heads) + 1))
        assert len({head["id"] for head in heads}) == len(heads)

    def lease(self):
        return json.loads(self.s3.get_object(Bucket=BUCKET, Key="research/lease")["Body"].read())


@pytest.fixture
def team(cloud, binary, tmp_path, prebuilt):
    return Team(cloud, binary, tmp_path)


def write(machine, *names):
    documents = [stacks.stack(**machine.declared), *(stacks.environment(name) for name in names)]
    documents += [stacks.agent(f"of-{name}", environment=name) for name in names]
    machine.write("stack.yaml", stacks.text(*documents))


class Running:
    """An apply whose pid is known before it begins, so that the proxy can signal it."""

    def __init__(self, machine, *args):
        self.pidfile = machine.folder / "pid"
        self.pidfile.unlink(missing_ok=True)
        shell = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.pidfile), str(machine.binary), *args]
        self.machine, self.args = machine, args
        self.process = subprocess.Popen(shell, cwd=machine.stack, env=machine.env, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip

    def wait_stopped(self):
        os.waitpid(self.process.pid, os.WUNTRACED)

    def go_on(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self):
        """Its exit code, negative where a signal ended it, and all it said."""
        try:
            out, err = self.process.communicate(timeout=self.machine.timeout)
        finally:
            self.process.kill()
        return self.process.returncode, (out + err).decode("utf-8", "replace")


def signals(machine, when, number="KILL"):
    return {"kind": "signal", "when": when, "signal": number, "pidfile": str(machine.folder / "pid")}
