# SPDX-License-Identifier: Apache-2.0
"""
Where sessions run: on this machine (`local`), and in functions behind the judging proxy (`aws`). Tests of sessions that are not about this
machine's sandbox take a place, and so are run on both.
"""

import stacks
from binary import Berth
from cloud import Cloud
from lib.lab import stack

TABLE = "lab-sessions"


class Local:
    name = "local"

    def berth(self, binary, folder, make=Berth):
        """The binary, and nothing that others did."""
        return make(binary, folder, "http://127.0.0.1:1")

    def apply(self, berth, *more):
        """The stack of test_serve.py, and more documents."""
        berth.write("stack.yaml", stack(*more))
        Berth.__call__(berth, "apply", "--yes").expect(0)

    def declare(self, berth, *documents):
        """A stack of these documents alone."""
        berth.write("stack.yaml", stacks.text(stacks.document("Stack", "lab", {"provider": "local"}), *documents))
        Berth.__call__(berth, "apply", "--yes").expect(0)

    def close(self):
        pass


class Aws:
    name = "aws"

    def __init__(self, standins, flavor):
        self.cloud = Cloud(*standins(flavor))
        self.cloud.reset()  # what other files' tests provoked was judged, or expected, there

    def berth(self, binary, folder, make=Berth):
        """With an empty cloud: what those before asked of theirs is judged first."""
        self.judge()
        self.cloud.reset()
        self.pushed = False
        self.cloud.settings(pending_s=0)
        return make(binary, folder, self.cloud.url)

    def _push(self, berth):
        self.cloud.pushes.amd64("alphaagent/prebuilt/python")
        berth.write("stack.yaml", stack(provider="aws", aws={"region": self.cloud.region}))
        Berth.__call__(berth, "image", "runtime", "alphaagent/prebuilt/python:latest", "--push").expect(0)
        self.pushed = True

    def declare(self, berth, *documents):
        if not self.pushed:
            self._push(berth)
        spec = {"provider": "aws", "aws": {"region": self.cloud.region}, "sessions": {"table": TABLE}}
        berth.write("stack.yaml", stacks.text(stacks.document("Stack", "lab", spec), *documents))
        Berth.__call__(berth, "apply", "--yes").expect(0)

    def apply(self, berth, *more):
        self._push(berth)
        berth.write("stack.yaml", stack(*more, provider="aws", aws={"region": self.cloud.region}, sessions={"table": TABLE}))
        Berth.__call__(berth, "apply", "--yes").expect(0)

    def judge(self):
        """Every request was one that AWS takes."""
        self.cloud.await_quiet()
        self.cloud.assert_no_violations()

    def close(self):
        self.judge()


def open_place(name, standins, flavor):
    return Aws(standins, flavor) if name == "aws" else Local()
