# SPDX-License-Identifier: Apache-2.0
"""./dev picture: the README's pictures, drawn from what the program really prints and shows.

usage: picture.py BERTH FOLDER

Runs two short stories in folders of their own, on a pseudo-terminal of 80 columns, and gives the bytes to rich: terminal.svg,
session.svg. Then Debian's Chromium looks at the page of the second one's server: page.png.
"""

import io
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.request
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

# A server and its death are shown, too; it is started in the same folder.
SESSION = """\
cat walk.py
berth session run -f agents --conversation thesis walk.py
kill -9 $(cat serve.pid)
SERVE
berth session run -f agents --conversation thesis -c 'round(walk[-1], 3)'
berth session run -f agents --conversation thesis plot.py
berth session list -f agents
"""
WALK = """\
import random

random.seed(7)
walk = [0.0]
for step in range(2000):
    walk.append(walk[-1] + random.gauss(0, 1))
len(walk)
"""
ALONE = """\
apiVersion: berth/v1
kind: Stack
metadata: {name: research}
spec: {provider: local}
---
apiVersion: berth/v1
kind: Environment
metadata: {name: notebooks}
spec: {image: {prebuilt: python}}
---
apiVersion: berth/v1
kind: Agent
metadata: {name: analyst}
spec: {type: specialist, environment: notebooks, active: true}
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


def draw(berth, folder, story, target, serve=None):
    """Runs the story's lines in the folder; the line SERVE is `serve`, shown as one would type it."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="standard", highlight=False
    )
    environment = {
        "PATH": f"{Path(berth).resolve().parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }
    for line in story.splitlines():
        if line == "SERVE":
            serve()
            line, printed = "berth serve -f agents &", ""
        else:
            printed = run(line, folder, environment).rstrip("\n")
        console.print(Text.assemble(("$ ", "bold green"), (line, "bold")))
        if printed:
            console.print(Text.from_ansi(printed))
        console.print()
    svg = console.export_svg(title="berth", theme=MONOKAI)
    # A picture in a README loads nothing: the reader's own monospaced font will do.
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.S)
    # Not every viewer keeps the spaces that rich writes as no-break ones.
    svg = svg.replace("<text ", '<text xml:space="preserve" ')
    svg = svg.replace("Fira Code", "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas")
    target.write_text(re.sub(r"[ \t]+\n", "\n", svg))


class Server:
    """`berth serve` of the folder's stack, with its process id in serve.pid; begun again by each call."""

    def __init__(self, berth, folder):
        self.berth, self.folder, self.process = berth, folder, None

    def __call__(self):
        if self.process:
            self.process.wait()
        log = self.folder / "serve.log"
        log.write_text("")
        # In a group of its own, and without a terminal: what it says is in its log.
        with log.open("w") as out:
            self.process = subprocess.Popen(
                [self.berth, "serve", "-f", "agents"], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        (self.folder / "serve.pid").write_text(str(self.process.pid))
        for _ in range(600):
            if "it serves what was applied" in log.read_text():
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise SystemExit(f"berth serve did not start: {log.read_text()}")

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


def look_at_page(folder, target):
    """The page of a session, as its owner sees it: the same code, run by HTTP with the token that is signed in with."""
    from playwright.sync_api import sync_playwright

    token = (folder / "agents/.berth/serve.token").read_text().strip()

    def post(path, **body):
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request("http://127.0.0.1:9471" + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    session = post("/v1/sessions", environment="notebooks", conversation="thesis")["id"]
    for code in (WALK, (folder / "plot.py").read_text(), "round(walk[-1], 3)"):
        assert post(f"/v1/sessions/{session}/executions", code=code)["status"] == "ok"
    with sync_playwright() as playwright:
        words = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=words)
        page = browser.new_page(viewport={"width": 1200, "height": 760})
        page.goto("http://127.0.0.1:9471/")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Sessions").first.click()
        page.get_by_role("link", name=session).click()
        page.get_by_role("link", name="walk.png", exact=True).first.click()
        page.get_by_role("region", name="Preview").get_by_role("img").wait_for()
        page.screenshot(path=str(target))
        browser.close()


def main(berth, target):
    berth, target = str(Path(berth).resolve()), Path(target)
    for number in (1, 2):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "agents").mkdir()
            for file, text in (MANIFESTS if number == 1 else {"stack.yaml": ALONE}).items():
                (folder / "agents" / file).write_text(text)
            if number == 1:
                draw(berth, folder, STORY, target / "terminal.svg")
                continue
            subprocess.run([berth, "apply", "-f", "agents", "--yes", "-q"], cwd=folder, check=True)
            shutil.copy(Path(__file__).resolve().parents[1] / "examples/plot.py", folder / "plot.py")
            (folder / "walk.py").write_text(WALK)
            serve = Server(berth, folder)
            try:
                serve()
                draw(berth, folder, SESSION, target / "session.svg", serve)
                look_at_page(folder, target / "page.png")
            finally:
                serve.end()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
