# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that are kept warm."""

import contextlib
import os
import re
from pathlib import Path

from controllers import wait_until
from lib.sessions import CLIENTS, Sessions


class Warm(Sessions):
    """Of "data" some are kept ready; what they have imported tells them from others."""

    def __init__(self, berth, count=2, preload=("fractions", "this")):
        super().__init__(berth, clients=CLIENTS, sessions={"warm": {"data": count}, "preload": list(preload)})

    def start(self, *args, **kwargs):
        super().start("--accept-degraded", *args, **kwargs)
        self.wait_until_ready()
        return self

    def wait_until_ready(self, times=1):
        wait_until(lambda: len(re.findall("warm sandbox(?:es are| is) ready", self.lines())) >= times, 60)

    @property
    def folder(self):
        """Of the workers' sockets; named after the state's lineage."""
        name = "s-" + (self.state / "lineage").read_text()[:12]
        own = Path(os.environ.get("XDG_RUNTIME_DIR", "/run")) / "berth" / name
        return next(d for d in (Path("/run/berth") / name, own, Path(f"/tmp/berth-{name}")) if d.exists())

    def workers(self, beginning="warm-"):
        """Process ids, of those whose name begins so."""
        found = set()
        for record in self.folder.glob(f"{beginning}*.worker"):
            with contextlib.suppress(FileNotFoundError):  # it has ended since
                found.add(int(record.read_text().split("-")[0]))
        return found

    def was_warm(self, session, owner=None):
        return self.run(session, "import sys; 'fractions' in sys.modules", owner)["value"]["text"] == "True"


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
