# SPDX-License-Identifier: Apache-2.0
"""
The page of `berth serve` in Debian's Chromium, driven by roles and names, as who hears it would. Whatever a test does, nothing may be
said in the browser's console, nothing asked of anybody else, and nothing that an agent wrote may run.
"""

import io
import json
import os
import re
import shutil
import tempfile
import time
import zipfile
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

import stacks
from binary import Berth
from controllers import PATIENCE
from lib.lab import TOKENS, client, stack
from lib.page import CLIENTS, HOSTILE, MARKUP, NAME, Looking, chromium, go, looking, preview, serve, session  # noqa: F401
from lib.session_files import Files

pytestmark = pytest.mark.timeout(300 * PATIENCE)

SAID = f"{MARKUP}\\x1b[31m\\x9b2J\\u202eexe.txt\\u2066"


def test_the_files_of_the_page(serve):
    """Without a token, kept by an ETag, with a policy that lets nothing of anybody else's in."""
    paths, seen = ["/"], {}
    while paths:
        path = paths.pop()
        answer = serve.ask(path)
        seen[path] = answer.headers["content-type"]
        assert answer.status == 200 and answer.headers["x-content-type-options"] == "nosniff", path
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["object-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert answer.headers["cache-control"] == "no-cache" and "set-cookie" not in answer.headers
        again = serve.ask(path, headers=[("If-None-Match", answer.headers["etag"])])
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", answer.headers["etag"])
        assert serve.ask(path, headers=[("If-None-Match", '"other"')]).status == 200
        assert serve.ask(path, method="HEAD").headers["content-length"] == str(len(answer.body))
        serve.ask(path, method="POST").problem(405, "method-not-allowed")
        text = answer.body.decode()
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text
        found = re.findall(r'(?:src|href)="(/[^"]+)"', text) + ["/panel/" + name for name in re.findall(r'from "\./([^"]+)"', text)]
        paths += [p for p in found if p not in seen and p not in paths]
    assert {path.rpartition(".")[2]: kind for path, kind in seen.items()} == {
        "/": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"
    }  # fmt: skip
    folder = Path(__file__).resolve().parents[2] / "panel"
    assert {p.name for p in folder.iterdir()} - {"README.md", "index.html"} == {path.rpartition("/")[2] for path in seen} - {""}
    serve.ask("/panel/").problem(404, "no-such-route")
    serve.ask("/panel/none.js").problem(404, "no-such-route")
    # Whom a token makes one: never a refusal, which a browser would note.
    assert serve.ask("/panel/self").json() == serve.ask("/panel/self", "0" * 64).json() == {"known": False}
    known = serve.ask("/panel/self", TOKENS["self"]).json()
    assert (known["client"], known["owner"], known["actsFor"]) == ("self", "client:self", "itself")
    assert known["may"] == ["execute", "containers", "approve", "observe"] and known["serves"]["sessions"] is True
    alice = serve.ask("/panel/self", TOKENS["users"], headers=[("Berth-Owner", "alice")]).json()
    assert (alice["owner"], alice["actsFor"], alice["may"]) == ("company/alice", "users", ["execute"])


def test_tickets(serve):
    """An address for one download: once, of what its asker may have, and of nothing else."""
    workspace = serve.create(owner="alice")
    other = serve.call("POST", "/v1/sessions", {"environment": "data"}, "bob", TOKENS["users"]).json()["id"]
    serve.put(workspace, NAME, b"content")
    tickets = f"/v1/workspaces/{workspace}/tickets"

    def ticket(path=tickets, **kwargs):
        answer = serve.call("POST", path, kwargs.pop("body", {"path": NAME}), **kwargs)
        assert answer.status == 201 and set(answer.json()) == {"address", "expiresAt"}, answer.body
        return answer.json()["address"]

    address = ticket()
    assert re.fullmatch(r"/v1/tickets/[0-9a-f]{64}", address)
    got = serve.ask(address)
    assert (got.status, got.body, got.headers["content-type"]) == (200, b"content", "application/octet-stream")
    assert got.headers["content-disposition"].startswith("attachment;") and quote("\u202e") in got.headers["content-disposition"]
    assert got.headers["content-security-policy"].startswith("sandbox") and got.headers["cache-control"] == "no-store"
    serve.ask(address).problem(404, "not-found")
    serve.ask(address, TOKENS["self"]).problem(404, "not-found")
    # Of two at once one gets it. A head counts, and a range is a part of it.
    address = ticket()
    assert serve.ask(address, headers=[("Range", "bytes=0-2")]).body == b"con" and serve.ask(address).status == 404
    address = ticket()
    assert serve.ask(address, method="HEAD").status == 200 and serve.ask(address).status == 404
    archive = serve.ask(ticket(body={}))
    assert archive.headers["content-type"] == "application/zip" and zipfile.ZipFile(io.BytesIO(archive.body)).namelist() == [NAME]
    # What is not there, or another's, has none; nor has who may not read.
    serve.call("POST", tickets, {"path": "none"}).problem(404, "not-found")
    serve.call("POST", f"/v1/workspaces/{other}/tickets", {}).problem(404, "not-found")
    serve.call("POST", tickets, {"path": NAME}, "alice", TOKENS["users"]).problem(404, "not-found")
    serve.ask(tickets, TOKENS["watcher"], "POST", [("Content-Type", "application/json")], b"{}").problem(403, "not-permitted")
    for wrong in ({"path": "../x"}, {"path": ""}, {"path": "a\0b"}, {"path": 1}, {"paths": "x"}, {"path": f"../{other}/x"}):
        serve.call("POST", tickets, wrong).problem(400, "invalid")
    for guess in ("0" * 64, "x", "%00", address.rpartition("/")[2] + "0"):
        assert serve.ask(f"/v1/tickets/{guess}").status in (400, 404)
    # What was good when it was asked for is looked at again.
    address = ticket()
    serve.call("DELETE", f"/v1/workspaces/{workspace}/files/{quote(NAME)}")
    serve.ask(address).problem(404, "not-found")
    # Whoever hoards them loses his own oldest, and nobody else's.
    serve.put(other, "f", b"bob's", owner="bob", token=TOKENS["users"])
    bobs = ticket(f"/v1/workspaces/{other}/tickets", body={"path": "f"}, owner="bob", token=TOKENS["users"])
    many = [ticket(body={}) for _ in range(33)]
    assert serve.ask(many[0]).status == 404 and serve.ask(many[1]).status == 200 and serve.ask(bobs).body == b"bob's"
    assert not any(address.rpartition("/")[2] in serve.lines() for address in many)
    serve.call("DELETE", f"/v1/sessions/{workspace}")


def test_signing_in_and_out(looking, serve):
    page = looking.open()
    page.get_by_label("Token").fill("nobody's-token-at-all")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("does not know this token")
    for odd in ("tökén", "two words"):
        page.get_by_label("Token").fill(odd)
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Token").fill(TOKENS["self"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Environments")).to_be_visible()
    for view in ("Sessions", "Containers", "Approvals", "Environments"):
        go(page, view)
    # The token is this tab's.
    stored = page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, location.href, document.documentElement.outerHTML])")
    assert stored.count(TOKENS["self"]) == 1 and json.loads(stored)[0] == {"berth.token": TOKENS["self"]}
    page.reload()
    expect(page.get_by_role("heading", level=1, name="Environments")).to_be_visible()
    other = looking.open()
    expect(other.get_by_label("Token")).to_be_visible()
    other.close()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0
    page.reload()
    expect(page.get_by_label("Token")).to_be_visible()


def test_addresses_made_by_others(looking, session):
    """What stands behind the # leads to no other address of the server's, and is text."""
    page = looking.open(TOKENS["self"])
    before = len(looking.asked)
    for at in ("#/sessions/..%2F..", "#/sessions/.", "#/sessions//files/x", "#/sessions/..%2F..%2F..%2Fmetrics%3Fx"):
        page.goto(f"{looking.address}/{at}")
        expect(page.get_by_text("There is no such session")).to_be_visible()
    for at in ("..%2F..%2Farchive", "a/../../../x", "a//b", "."):
        page.goto(f"{looking.address}/#/sessions/{session}/files/{at}")
        expect(page.get_by_role("region", name="Preview")).to_contain_text("There is no file")
    for at in ("#/%E0%A4%A", f"#/{quote(MARKUP)}", "#//", "#/panel/self"):
        page.goto(f"{looking.address}/{at}")
        expect(page.get_by_role("heading", level=1, name="Environments")).to_be_visible()
    paths = {url.removeprefix(looking.address).partition("?")[0] for url in looking.asked[before:]}
    own = {f"/v1/sessions/{session}", f"/v1/workspaces/{session}/files", f"/v1/sessions/{session}/executions"}
    assert {p for p in paths if not re.fullmatch(rf"/|/panel/(self|icon\.svg)|/v1/(environments|map|events)|/v1/sessions/{session}/executions/\d|blob:.*", p)} == own


def test_environments_and_who_uses_them(looking, serve):
    page = looking.open(TOKENS["self"])
    table = page.get_by_role("main").get_by_role("table")
    row = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name="data for data"))
    expect(row).to_contain_text("2048 MB")
    expect(row.get_by_role("listitem")).to_have_text(["coder", "team (swarm)"])
    expect(table.get_by_role("rowheader").filter(has_text="web-odd")).to_contain_text(f"odd {MARKUP}")
    # An apply is seen without a reload.
    serve.berth.write("stack.yaml", stack(stacks.environment("web-odd", description=f"odd {MARKUP}"), stacks.agent("newcomer", "data")))
    serve.berth("apply", "--yes").expect(0)
    expect(row.get_by_role("listitem")).to_have_text(["coder", "newcomer", "team (swarm)"])


def test_a_session(looking, serve, session):
    """Found, read, looked at and downloaded; all that an agent wrote is text."""
    page = looking.open(TOKENS["self"])
    go(page, "Sessions")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=session))
    expect(row).to_contain_text(MARKUP)
    page.get_by_role("link", name=session).click()
    expect(page.get_by_role("heading", level=1, name=session)).to_be_visible()
    history = page.get_by_role("region", name="History")
    run = lambda n: history.get_by_role("article", name=f"Execution {n}", exact=True)
    expect(run(2)).to_contain_text("print('aside', file=sys.stderr)")
    expect(run(2).get_by_role("group", name="Output")).to_have_text(SAID)
    expect(run(2).get_by_role("group", name="Errors")).to_have_text("aside")
    expect(run(2).get_by_role("group", name="Value")).to_have_text("42")
    expect(run(2).locator(".status")).to_have_text("ok")
    expect(run(3).get_by_role("img", name="Figure of execution 3")).to_have_js_property("naturalWidth", 20)
    expect(run(4).get_by_role("cell")).to_have_text(re.compile("^Oslo & Bergen"))
    expect(run(5).get_by_role("group", name="HTML source")).to_contain_text("<iframe src=http://elsewhere.invalid>")
    expect(run(6)).to_contain_text(SAID)
    expect(run(6).locator(".status")).to_have_text("error")
    assert page.locator("iframe, script:not([src]), main b, main script").count() == 0

    expect(preview(page, "chart.png").get_by_role("img", name="chart.png")).to_have_js_property("naturalWidth", 64)
    table = preview(page, "table.csv").get_by_role("table")
    expect(table.get_by_role("columnheader")).to_have_text(["city", "people"])
    expect(table.get_by_role("cell")).to_have_text(["Oslo", "717,710", SAID, "=1+1"])
    expect(preview(page, "page.html")).to_contain_text("<script>window.pwned=1</script><h1>Title</h1>")
    expect(preview(page, "drawing.svg")).to_contain_text("onload='window.pwned=1'")
    expect(preview(page, "liar.png")).to_contain_text("<script>window.pwned=1</script>")
    expect(page.get_by_role("region", name="Preview")).to_contain_text("<script>window.pwned=1</script>")
    page.get_by_role("link", name="torn.png").click()
    expect(page.get_by_role("region", name="Preview")).to_contain_text("damaged")
    expect(preview(page, "blob.bin")).to_contain_text("000000  00 01 02")
    expect(preview(page, "empty.txt")).to_contain_text("The file is empty.")
    region = preview(page, NAME.replace("\u202e", "\\u202e"))
    expect(region.locator("pre")).to_have_text(SAID)

    # It is at its own address, and a reload finds it again.
    page.reload()
    expect(region.locator("pre")).to_have_text(SAID)
    with page.expect_download() as waiting:
        region.get_by_role("link", name="Download", exact=True).click()
    assert Path(waiting.value.path()).read_text() == HOSTILE
    address = waiting.value.url
    assert serve.ask(address.removeprefix(looking.address)).status == 404 and "/v1/tickets/" in address
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download all").click()
    assert "chart.png" in zipfile.ZipFile(waiting.value.path()).namelist() and waiting.value.suggested_filename == f"{session}.zip"


def test_odd_names(looking, serve):
    """Files of any name are found, shown and downloaded as themselves."""
    made = serve.create()
    names = ["a b+c&d=e?f#g.txt", "50%2F50%.txt", "back\\slash", "new\nline\t.txt", " lead and trail ", "-rf", "...", "日本/ü\u0301.md", "<b>", "__proto__", "constructor", "x" * 250]
    for name in names:
        assert serve.put(made, name, f"I am {name}".encode()).status == 201
    vast = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (60_000).to_bytes(4, "big") * 2 + b"\x08\2\0\0\0"
    serve.put(made, "vast.png", vast)
    page = looking.open(TOKENS["self"], at=f"#/sessions/{made}")
    for name in names:
        told = name.replace("\n", "\\x0a").replace("\t", "\\x09")
        page.locator(".paths a").filter(has_text=re.compile(f"^{re.escape(told)}$")).click()
        expect(page.get_by_role("region", name="Preview").locator("pre")).to_have_text(f"I am {name}")
    expect(preview(page, "vast.png")).to_contain_text("too large to be drawn")
    for name in names[:4]:
        told = name.replace("\n", "\\x0a").replace("\t", "\\x09")
        region = preview(page, told)
        with page.expect_download() as waiting:
            region.get_by_role("link", name="Download", exact=True).click()
        assert Path(waiting.value.path()).read_text() == f"I am {name}"
    serve.call("DELETE", f"/v1/sessions/{made}")


def test_what_happens_is_seen_as_it_happens(looking, serve):
    """Lists, history, output and files follow by themselves, and whoever is at a link stays there."""
    page = looking.open(TOKENS["self"])
    go(page, "Sessions")
    first = serve.create()
    page.get_by_role("link", name=first).focus()
    second = serve.create()
    expect(page.get_by_role("link", name=second)).to_be_visible()
    expect(page.get_by_role("link", name=first)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name=first)).to_be_focused()
    code = "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('/tmp/go') and n: time.sleep(.01)\nopen('made.txt', 'w').write('made')"
    serve.call("POST", f"/v1/sessions/{first}/executions", {"code": f"n = 1\n{code}", "timeoutSeconds": 120}, headers=[("Prefer", "respond-async")])
    run = page.get_by_role("article", name="Execution 1", exact=True)
    expect(run.get_by_role("group", name="Output")).to_have_text("begun")
    expect(run.locator(".status")).to_have_text("running")
    page.get_by_role("button", name="Sign out").focus()
    serve.call("POST", f"/v1/sessions/{first}/executions/1/interrupt")
    expect(run.locator(".status")).to_have_text("interrupted")
    serve.run(first, "open('made.txt', 'w').write('made')")
    expect(page.get_by_role("article", name="Execution 2", exact=True).locator(".status")).to_have_text("ok")
    expect(page.get_by_role("link", name="made.txt")).to_be_visible()
    expect(page.get_by_role("button", name="Sign out")).to_be_focused()
    # A file that is shown is shown anew as it changes.
    expect(preview(page, "made.txt").locator("pre")).to_have_text("made")
    serve.run(first, "open('made.txt', 'w').write('anew')")
    expect(page.get_by_role("region", name="Preview").locator("pre")).to_have_text("anew")
    # A session that has ended is no more among those that live; its files stay.
    serve.call("DELETE", f"/v1/sessions/{first}")
    expect(page.locator(".facts .status")).to_have_text("ended")
    go(page, "Sessions")
    expect(page.get_by_role("link", name=second)).to_be_visible()
    expect(page.get_by_role("link", name=first)).to_have_count(0)
    page.get_by_text("Ended sessions").click()
    page.get_by_role("link", name=first).click()
    expect(preview(page, "made.txt").locator("pre")).to_have_text("anew")
    expect(page.get_by_role("article")).to_have_count(3)
    serve.call("DELETE", f"/v1/sessions/{second}")


def test_who_may_only_look_and_who_acts_for_users(looking, serve, session):
    page = looking.open(TOKENS["watcher"])
    go(page, "Sessions")
    page.get_by_role("link", name=session).click()
    expect(page.get_by_text("Only its owner sees its content.")).to_be_visible()
    expect(page.get_by_role("link", name="chart.png")).to_have_count(0)
    page.get_by_role("button", name="Sign out").click()
    # Whose things are looked at has to be said; names are in any script.
    page.get_by_label("Token").fill(TOKENS["users"])
    page.keyboard.press("Enter")
    go(page, "Sessions")
    expect(page.get_by_text("name the owner")).to_be_visible()
    owner = "Zoë 日本"
    made = serve.ask("/v1/sessions", TOKENS["users"], "POST", [("Berth-Owner", owner.encode()), ("Content-Type", "application/json")], b'{"environment": "data"}').json()["id"]
    page.get_by_label("Owner").fill(owner)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name=made)).to_be_visible()
    expect(page.get_by_role("link", name=session)).to_have_count(0)
    page.get_by_role("link", name=made).click()
    expect(page.get_by_text("Nothing ran here yet.")).to_be_visible()
    page.reload()
    expect(page.get_by_text("No files yet.")).to_be_visible()
    assert serve.ask(f"/v1/sessions/{made}", TOKENS["users"], "DELETE", [("Berth-Owner", owner.encode())]).status == 204


def offer(looking, decided):
    """The routes of containers and approvals as they will be, answered in the server's place."""
    odd = {"id": "c-2", "name": HOSTILE, "agent": "coder", "owner": "client:self", "environment": "data", "type": "temporary", "status": "exited", "usage": None}
    web = {**odd, "id": "c-1", "name": "web", "type": "service", "status": "running", "usage": {"cpuPercent": 12.34, "memoryBytes": 3 << 20}}
    asked = {
        "id": "a-1", "status": "pending", "command": ["df", "-h", HOSTILE], "cwd": "/srv", "user": "ops", "variables": {"LANG": "C"}, "agent": "coder",
        "client": "assistant", "owner": "company/alice", "reason": MARKUP, "expiresAt": "2100-01-01T00:00:00Z", "result": None,
    }  # fmt: skip
    context, calls = looking.context, []

    def me(route):
        answer = route.fetch().json()
        route.fulfill(json={**answer, "serves": {"sessions": True, "containers": True, "approvals": True}})

    def container(route):
        calls.append(f"{route.request.method} {route.request.url.removeprefix(looking.address)}")
        if "/logs?" not in route.request.url:
            route.fulfill(json=web)
            return
        later = "since=" in route.request.url
        lines = [(2, "two" + HOSTILE), (3, "three")] if later else [(1, "one"), (2, "two" + HOSTILE)]
        route.fulfill(headers={"Content-Type": "application/jsonl"}, body="".join(json.dumps({"at": f"2100-01-01T00:00:0{n}Z", "stream": "stdout", "text": text + "\n"}) + "\n" for n, text in lines))

    def decide(route):
        decided.append(route.request.url.rpartition("/")[2])
        asked["status"] = "approved"
        route.fulfill(json=asked)

    context.route("**/panel/self", me)
    context.route("**/v1/containers?**", lambda route: route.fulfill(json={"items": [web, odd], "cursor": None}))
    context.route("**/v1/containers/**", container)
    context.route("**/v1/approvals?**", lambda route: route.fulfill(json={"items": [asked], "cursor": None}))
    context.route("**/v1/approvals/a-1/*", decide)
    return calls


def test_containers_and_approvals(looking, serve):
    """What a server has none of is said, and asked of nobody; where it has them, they are all there."""
    page, decided = looking.open(TOKENS["self"]), []
    go(page, "Approvals")
    expect(page.get_by_role("main").get_by_role("paragraph")).to_have_text(re.compile("^This server has no approvals"))
    assert not any("/v1/approvals" in url for url in looking.asked)
    calls = offer(looking, decided)
    page.reload()
    go(page, "Containers")
    expect(page.get_by_role("columnheader")).to_have_text(["Name", "Agent", "Status", "CPU", "Memory", "Actions"])
    expect(page.get_by_role("row").filter(has_text="12.3 %")).to_contain_text("3.0 MB")
    expect(page.get_by_role("button", name=f"Remove {SAID}", exact=True)).to_be_visible()
    page.get_by_role("button", name="Logs web", exact=True).click()
    log = page.get_by_role("log", name="Logs web")
    expect(log.get_by_role("paragraph")).to_have_text(["one", "two" + SAID, "three"])
    for verb, call in (("Stop", "POST /v1/containers/c-1/stop"), ("Restart", "POST /v1/containers/c-1/restart"), ("Remove", "DELETE /v1/containers/c-1")):
        with page.expect_response(lambda answer: answer.request.method != "GET"):
            page.get_by_role("button", name=f"{verb} web", exact=True).click()
        assert call in calls
    go(page, "Approvals")
    article = page.get_by_role("article")
    expect(article).to_contain_text(f"df -h '{SAID}'".replace("='window.pwned=1'", "=\\'window.pwned=1\\'"))
    for text in ("/srv", "ops", "coder", "assistant", "company/alice", MARKUP, "LANG=C", "pending"):
        expect(article).to_contain_text(text)
    expect(article.get_by_role("button", name="Deny")).to_be_visible()
    article.get_by_role("button", name="Approve").click()
    expect(article).to_contain_text("approved")
    expect(article.get_by_role("button")).to_have_count(0)
    assert decided == ["approve"] and article.count() == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="owners are kept apart by users of the machine")
def test_approvals_come_by_themselves(chromium, binary):
    """Whatever the page's clock says: it looks at the list when it hears that one was asked for, or is decided on."""
    folder = Path(tempfile.mkdtemp(prefix="page-"))
    berth = Berth(binary, folder, "http://127.0.0.1:1")
    berth.write("stack.yaml", stack(stacks.document("Agent", "analyst", {"environment": "data"})))
    berth("apply", "--yes").expect(0)
    asker = client("users", actsFor="users", realm="company", may=["shell"])
    made = Files(berth, clients=[client("self", may=["approve"]), asker], shell={"enabled": True, "user": "nobody"}).start("--accept-degraded")
    try:
        window = Looking(chromium, made)
        window.context.clock.install()
        page = window.open(TOKENS["self"])
        go(page, "Approvals")
        expect(page.get_by_text("Nothing waits for an approval.")).to_be_visible()
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        page.clock.pause_at(time.time() + 3600)
        wish = {"agent": "analyst", "command": ["printf", "x"], "cwd": "/", "reason": "to see"}
        asked = made.call("POST", "/v1/shell", wish, owner="alice", token=TOKENS["users"]).json()
        expect(page.get_by_role("article")).to_contain_text("printf x")
        assert made.call("POST", f"/v1/approvals/{asked['id']}/deny", {}, token=TOKENS["self"]).status == 200
        expect(page.get_by_role("article")).to_contain_text("denied")
        window.close()
    finally:
        assert made.stop() == 0
        shutil.rmtree(folder, ignore_errors=True)


def test_a_server_without_sessions_yet(chromium, binary):
    """Before anything was applied the page says so; once it is, it is there, without a reload."""
    folder = Path(tempfile.mkdtemp(prefix="page-"))
    berth = Berth(binary, folder, "http://127.0.0.1:1")
    berth.write("stack.yaml", stack())
    bare = Files(berth, clients=CLIENTS).start("--accept-degraded")
    try:
        window = Looking(chromium, bare)
        page = window.open(TOKENS["self"])
        expect(page.get_by_text("No environment was applied yet.")).to_be_visible()
        go(page, "Sessions")
        expect(page.get_by_text("This server has no sessions at the moment")).to_be_visible()
        berth("apply", "--yes").expect(0)
        expect(page.get_by_text("No session lives.")).to_be_visible()
        go(page, "Environments")
        expect(page.get_by_role("rowheader").first).to_be_visible()
        window.close()
    finally:
        assert bare.stop() == 0
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 360), ("light", 1600), ("dark", 1600)])
def test_every_width_and_colour(chromium, serve, session, scheme, width):
    window = Looking(chromium, serve, color_scheme=scheme, viewport={"width": width, "height": 780})
    offer(window, [])
    page = window.open(TOKENS["self"])

    def fits():
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", colour)[:3])) < 200) == (scheme == "dark")

    fits()
    for view in ("Environments", "Containers", "Approvals", "Sessions"):
        go(page, view)
        expect(page.get_by_text("Loading…")).to_have_count(0)
        fits()
    page.get_by_role("link", name=session).click()
    expect(page.get_by_role("article", name="Execution 2", exact=True).get_by_role("group", name="Output")).to_have_text(SAID)
    for path in ("chart.png", "table.csv", "drawing.svg"):
        preview(page, path)
        fits()
    window.close()


def test_by_keyboard_alone(looking, serve, session):
    """All that can be pressed has a name, and Tab comes to it, in the order in which it is read."""
    page = looking.open()

    def tab_to(name, most=40):
        for _ in range(most):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent") == name:
                return
        raise AssertionError(f"Tab never comes to {name}")

    page.keyboard.type(TOKENS["self"])
    tab_to("Sign in")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Environments")).to_be_visible()
    tab_to("Sessions")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name=session)).to_be_visible()
    tab_to(session)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="chart.png")).to_be_visible()
    expect(page.get_by_text("6 * 7")).to_be_visible()
    reached = []
    for _ in range(50):
        page.keyboard.press("Tab")
        found = page.evaluate("[document.activeElement.tagName, document.activeElement.textContent, document.activeElement.getAttribute('aria-label')]")
        if found[0] == "BODY":  # behind the last comes the first
            continue
        assert found[1] or found[2], found
        reached.append(found[1])
    visible = page.locator("a:visible, button:visible, input:visible, summary:visible").all_text_contents()
    assert [name for name in visible if name not in reached] == []
    tab_to("chart.png", 80)
    page.keyboard.press("Enter")
    expect(page.get_by_role("img", name="chart.png")).to_be_visible()
    expect(page.get_by_role("link", name="chart.png")).to_be_focused()


def test_containers_of_a_server(looking, serve):
    """Not in the server's place: what runs, what it uses, what it prints, over a restart, and what can be done to it."""
    page = looking.open(TOKENS["self"])
    go(page, "Containers")
    expect(page.get_by_text("No container is there.")).to_be_visible()
    code = f"import os, time\nprint('begun', {HOSTILE!r}, flush=True)\nn = 0\nwhile True:\n  n += 1\n  print(os.getpid(), 'line', n, flush=True)\n  time.sleep(0.2)"
    made = serve.call("POST", "/v1/containers", {"agent": "coder", "name": "db", "type": "service", "code": code})
    assert made.status == 201, made.body
    # By itself: nothing is pressed, nothing reloaded.
    row = page.get_by_role("row").filter(has=page.get_by_role("button", name="Logs db", exact=True))
    expect(row).to_contain_text("running")
    if serve.call("GET", f"/v1/containers/{made.json()['id']}").json()["usage"]:  # by cgroups, which not every user has
        expect(row).to_contain_text(re.compile(r"\d+\.\d %"))
        expect(row).to_contain_text(re.compile(r"\d+\.\d MB"))
    page.get_by_role("button", name="Logs db", exact=True).click()
    lines = page.get_by_role("log", name="Logs db").get_by_role("paragraph")
    expect(lines.filter(has_text="begun")).to_have_count(1)
    expect(lines.filter(has_text=SAID)).to_have_count(1)
    expect(lines.filter(has_text=re.compile(r"line 7$"))).to_have_count(1)
    page.get_by_role("button", name="Restart db", exact=True).click()
    expect(lines.filter(has_text="begun")).to_have_count(2)
    expect(lines.filter(has_text=re.compile(r"line 7$"))).to_have_count(2)
    page.get_by_role("button", name="Stop db", exact=True).click()
    expect(row).to_contain_text("stopped")
    # The log's stream has ended, and is asked for again: nothing is told twice, nothing is left out.
    page.get_by_role("button", name="Restart db", exact=True).click()
    expect(lines.filter(has_text="begun")).to_have_count(3)
    expect(lines.filter(has_text=re.compile(r"line 7$"))).to_have_count(3)
    page.get_by_role("button", name="Stop db", exact=True).click()
    expect(row).to_contain_text("stopped")
    # Who may look, and no more, has nothing to press that would be refused.
    observer = looking.open(TOKENS["watcher"])
    go(observer, "Containers")
    expect(observer.get_by_role("row").filter(has_text="db")).to_contain_text("stopped")
    expect(observer.get_by_role("row").get_by_role("button")).to_have_count(0)
    kept = serve.call("GET", f"/v1/containers/{made.json()['id']}/logs").body.decode().splitlines()
    expect(lines).to_have_count(len(kept))
    page.get_by_role("button", name="Remove db", exact=True).click()
    expect(row).to_have_count(0)
    expect(page.get_by_text("No container is there.")).to_be_visible()
