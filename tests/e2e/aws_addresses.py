# SPDX-License-Identifier: Apache-2.0
"""
To be run in a network namespace of its own, as its root: gives the loopback device the addresses where AWS has its
servers, stands in for them on port 80, and runs both chains. Standard input: {"addresses", "cli", "cases": [[Berth's
environment, botocore's]]}. Standard output: for each case Berth's answer and botocore's.
"""

import json
import socket
import subprocess
import sys
from pathlib import Path

from credential_server import CredentialServer


class Six(CredentialServer):
    address_family = socket.AF_INET6


def run(command, environment):
    return json.loads(subprocess.run(command, env=environment, input="get\n", capture_output=True, text=True, timeout=60).stdout)


work = json.load(sys.stdin)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
for address in work["addresses"]:
    six = ":" in address
    subprocess.run(["ip", "addr", "add", f"{address}/{128 if six else 32}", "dev", "lo", *(["nodad"] if six else [])], check=True)
    (Six if six else CredentialServer)((address, 80))
botocores = [sys.executable, str(Path(__file__).with_name("resolve_botocore.py"))]
print(json.dumps([[run([work["cli"], "{}"], ours), run(botocores, theirs)] for ours, theirs in work["cases"]]))
