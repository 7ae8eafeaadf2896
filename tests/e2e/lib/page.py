# SPDX-License-Identifier: Apache-2.0
"""The page of a server in Chromium."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

import stacks
from binary import Berth
from controllers import PATIENCE
from lib.lab import TOKENS, client, stack
from lib.session_files import Files

MARKUP = "<img src=x onerror='window.pwned=1'><script>window.pwned=1</script><b>bold</b>"
HOSTILE = f"{MARKUP}\x1b[31m\x9b2J\u202eexe.txt\u2066"
NAME = f"in/{MARKUP.replace('/', '|')} \u202egnp.exe"
CLIENTS = [
    client("self", may=["execute", "observe", "containers", "approve"]),
    client("users", actsFor="users", realm="company"),
    client("watcher", may=["observe"], actsFor="users"),
]
CODE = """
import struct, sys, zlib
def png(width, height):
    rows = b"".join(b"\\0" + bytes(part for x in range(width) for part in (x % 256, y % 256, 120)) for y in range(height))
    piece = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\\x89PNG\\r\\n\\x1a\\n" + piece(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + piece(b"IDAT", zlib.compress(rows)) + piece(b"IEND", b"")
class Shown:
    def __init__(self, **forms): self.__dict__.update(forms)
    def _repr_mimebundle_(self, include=None, exclude=None): return {k.replace("_", "/"): v for k, v in self.__dict__.items()}
open("chart.png", "wb").write(png(64, 48))
open("liar.png", "w").write("<script>window.pwned=1</script>")
open("torn.png", "wb").write(png(64, 48)[:12] + b"no picture")
open("page.html", "w").write("<!doctype html><script>window.pwned=1</script><h1>Title</h1>")
open("drawing.svg", "w").write("<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned=1'><script>window.pwned=1</script></svg>")
open("table.csv", "w").write("city,people\\nOslo,\\"717,710\\"\\n" + HOSTILE + ",=1+1\\n")
open("blob.bin", "wb").write(bytes(range(256)))
open("empty.txt", "w")
import os
os.makedirs(os.path.dirname(NAME), exist_ok=True)
open(NAME, "w").write(HOSTILE)
"""


@pytest.fixture(scope="module")
def serve(binary):
    folder = Path(tempfile.mkdtemp(prefix="page-"))
    berth = Berth(binary, folder, "http://127.0.0.1:1")
    berth.write("stack.yaml", stack(stacks.environment("web-odd", description=f"odd {MARKUP}")))
    berth("apply", "--yes").expect(0)
    made = Files(berth, clients=CLIENTS)
    made.token = TOKENS["self"]
    made.start("--accept-degraded")
    yield made
    for one in made.call("GET", "/v1/sessions").items():
        made.call("DELETE", f"/v1/sessions/{one['id']}", owner="alice", token=TOKENS["self" if one["owner"] == "client:self" else "users"])
    assert made.stop() == 0
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def session(serve):
    """One with all that a page has to show, and that an agent could try on it."""
    made = serve.create(conversation=MARKUP, labels={"note": MARKUP})
    ran = serve.run(made, f"HOSTILE, NAME = {HOSTILE!r}, {NAME!r}\n{CODE}")
    assert ran["status"] == "ok", ran
    serve.run(made, f"import sys\nprint({HOSTILE!r}); print('aside', file=sys.stderr)\n6 * 7")
    serve.run(made, "Shown(image_png=png(20, 10), text_plain='a figure')")
    serve.run(made, f"Shown(text_html='<table><tr><th>city</th></tr><tr><td>Oslo &amp; Bergen{MARKUP.replace(chr(39), chr(34))}</td></tr></table>')")
    serve.run(made, f"Shown(text_html={MARKUP!r} + '<iframe src=http://elsewhere.invalid></iframe>')")
    serve.run(made, f"raise ValueError({HOSTILE!r})")
    return made


@pytest.fixture(scope="module")
def chromium():
    program = shutil.which("chromium")
    assert program, "Debian's chromium is missing: ./dev setup installs it"
    expect.set_options(timeout=30_000 * PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield browser
        browser.close()


class Looking:
    """One browser's profile, and what happened in all of its tabs."""

    def __init__(self, browser, serve, **options):
        self.address = f"http://127.0.0.1:{serve.port}"
        self.context = browser.new_context(accept_downloads=True, **{"viewport": {"width": 1600, "height": 900}, **options})
        self.context.set_default_timeout(30_000 * PATIENCE)
        self.said, self.asked = [], []
        self.context.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.context.on("weberror", lambda error: self.said.append(str(error.error)))
        self.context.on("request", lambda request: self.asked.append(request.url))

    def open(self, token=None, at=""):
        page = self.context.new_page()
        page.goto(f"{self.address}/{at}")
        if token:
            page.get_by_label("Token").fill(token)
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        return page

    def close(self):
        for page in self.context.pages:
            assert page.evaluate("window.pwned") is None
        assert self.context.cookies() == []
        self.context.close()
        assert self.said == []
        assert [url for url in self.asked if not url.startswith((self.address + "/", "blob:" + self.address))] == []
        assert [url for url in self.asked for token in TOKENS.values() if token in url] == []


@pytest.fixture
def looking(chromium, serve):
    made = Looking(chromium, serve)
    yield made
    made.close()


def go(page, view):
    page.get_by_role("navigation").get_by_role("link", name=view, exact=True).click()
    expect(page.get_by_role("heading", level=1, name=view, exact=True)).to_be_visible()
    expect(page.get_by_role("link", name=view, exact=True)).to_have_attribute("aria-current", "page")


def preview(page, path):
    page.get_by_role("link", name=path, exact=True).click()
    region = page.get_by_role("region", name="Preview")
    expect(region.locator(".path")).to_have_text(path)
    return region
