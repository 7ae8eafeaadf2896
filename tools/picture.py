# SPDX-License-Identifier: Apache-2.0
"""./dev picture: the README's picture of a terminal, drawn from what the program really prints.

usage: picture.py BERTH SVG

Runs a short story in a folder of its own, on a pseudo-terminal of 80 columns, and gives the bytes to rich.
"""

import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from fcntl import ioctl
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS, ROWS = 80, 60

STORY = """\
cat agents/notebooks.yaml
berth apply -f agents --yes
berth exec -f agents --env notebooks -c 'print(6 * 7)'
berth exec -f agents --env notebooks -c 'x = bytearray(9 << 30)'
rm agents/notebooks.yaml
berth apply -f agents --yes
"""

MANIFESTS = {
    "notebooks.yaml": """\
apiVersion: berth/v1
kind: Environment
metadata: {name: notebooks}
spec:
  image: {prebuilt: python}
  memoryMB: 3538               # two vCPU
""",
    "team.yaml": """\
apiVersion: berth/v1
kind: Stack
metadata: {name: research}
spec: {provider: local}
---
apiVersion: berth/v1
kind: Environment
metadata: {name: reports}
spec: {image: {prebuilt: python}}
---
apiVersion: berth/v1
kind: Agent
metadata: {name: analyst}
spec: {type: specialist, environment: notebooks, active: true}
---
apiVersion: berth/v1
kind: Agent
metadata: {name: reporter}
spec: {type: general, environment: reports, active: true}
---
apiVersion: berth/v1
kind: Swarm
metadata: {name: study}
spec: {agents: [analyst, reporter], environment: notebooks}
""",
}


def run(line, folder, environment):
    """What the line prints on a terminal."""
    parent, child = pty.openpty()
    ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    program = subprocess.Popen(
        ["sh", "-c", line], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=child, stderr=child
    )
    os.close(child)
    printed = bytearray()
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:  # how a terminal ends
            break
        if not piece:
            break
        printed += piece
    program.wait()
    os.close(parent)
    # What a progress bar draws and wipes is gone in the end.
    text = re.sub(r"\r\x1b\[[0-2]?K", "\r", printed.decode().replace("\r\n", "\n"))
    return "\n".join(row.rsplit("\r", 1)[-1] for row in text.split("\n"))


def main(berth, target):
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="standard", highlight=False
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "agents").mkdir()
        for name, text in MANIFESTS.items():
            (Path(folder) / "agents" / name).write_text(text)
        environment = {
            "PATH": f"{Path(berth).resolve().parent}:{os.environ['PATH']}",
            "HOME": folder,
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }
        for line in STORY.splitlines():
            console.print(Text.assemble(("$ ", "bold green"), (line, "bold")))
            printed = run(line, folder, environment).rstrip("\n")
            if printed:
                console.print(Text.from_ansi(printed))
            console.print()
    svg = console.export_svg(title="berth", theme=MONOKAI)
    # A picture in a README loads nothing: the reader's own monospaced font will do.
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.S)
    # Not every viewer keeps the spaces that rich writes as no-break ones.
    svg = svg.replace("<text ", '<text xml:space="preserve" ')
    svg = svg.replace("Fira Code", "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas")
    Path(target).write_text(re.sub(r"[ \t]+\n", "\n", svg))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
