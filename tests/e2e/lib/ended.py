# SPDX-License-Identifier: Apache-2.0
"""A verb that is killed on its way, and how it ended."""

import subprocess


def end_of(berth, verb, pidfile):
    """The exit code; negative for a signal, for which `pidfile` tells whom to kill."""
    shell = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(pidfile), str(berth.binary), verb, "--yes"]
    return subprocess.run(shell, cwd=berth.stack, env=berth.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=berth.timeout).returncode
