# SPDX-License-Identifier: Apache-2.0
"""The page for those who hear it, enlarge it, or do not want it to move; with long lists, and when the server is not there."""

import json
import re

import pytest
from playwright.sync_api import expect

from binary import ROOT
from controllers import PATIENCE
from lib.lab import TOKENS
from lib.page import Looking, chromium, go, looking, preview, serve, session  # noqa: F401

pytestmark = pytest.mark.timeout(300 * PATIENCE)

AXE = ROOT / "build/tools/node/node_modules/axe-core/axe.min.js"
SESSIONS = 300


def faults(page):
    """What axe-core finds, by all of its rules; the page's own policy keeps nobody's scripts but its own, so it is let in by the context."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document)")
    assert len(found["passes"]) > 10, "axe has looked at nothing"
    return [(fault["id"], [node["target"] for node in fault["nodes"]][:3]) for fault in found["violations"]]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1600), ("dark", 360)])
def test_nothing_is_found_by_axe(chromium, serve, session, scheme, width):  # noqa: F811
    """Names, roles, contrast, order of headings."""
    looking = Looking(chromium, serve, color_scheme=scheme, viewport={"width": width, "height": 800}, bypass_csp=True)  # noqa: F811
    page = looking.open()
    expect(page.get_by_label("Token")).to_be_visible()
    assert faults(page) == []
    page.get_by_label("Token").fill(TOKENS["self"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("rowheader").first).to_be_visible()
    assert faults(page) == []
    for view, seen in (("Sessions", session), ("Containers", None), ("Approvals", None)):
        go(page, view)
        if seen:
            expect(page.get_by_role("link", name=seen)).to_be_visible()
        assert faults(page) == [], view
    go(page, "Sessions")
    page.get_by_role("link", name=session).click()
    expect(page.get_by_role("article", name="Execution 6", exact=True)).to_be_visible()
    for path, shown in (("table.csv", "table"), ("chart.png", "img")):
        expect(preview(page, path).get_by_role(shown)).to_be_visible()
        assert faults(page) == [], path
    looking.close()


def test_at_twice_the_size(chromium, serve, session):  # noqa: F811
    """A browser's zoom halves the room: nothing is cut, nothing needs scrolling to the side, what has the focus can be seen."""
    looking = Looking(chromium, serve, viewport={"width": 640, "height": 400}, device_scale_factor=2)  # noqa: F811
    page = looking.open(TOKENS["self"], f"#/sessions/{session}")
    expect(page.get_by_role("link", name="table.csv", exact=True)).to_be_visible()
    seen = set()
    page.get_by_role("button", name="Sign out").focus()
    for _ in range(12):
        page.keyboard.press("Tab")
        box = page.evaluate(
            "(() => { const e = document.activeElement, r = e.getBoundingClientRect(), s = getComputedStyle(e);"
            " return {name: e.textContent, top: r.top, bottom: r.bottom, left: r.left, right: r.right, outline: s.outlineStyle + s.outlineWidth}; })()"
        )
        seen.add(box["name"])
        assert box["left"] >= 0 and box["right"] <= 640 and box["bottom"] > 0 and box["top"] < 400 and box["outline"] == "solid2px", box
        assert page.evaluate("document.documentElement.scrollWidth") <= 640
    assert len(seen) >= 6 and "Download all" in seen
    looking.close()


def test_nothing_moves(chromium, serve, session):  # noqa: F811
    """Neither for those who have asked for that nor for others: there is no motion to be reduced."""
    looking = Looking(chromium, serve, reduced_motion="reduce")  # noqa: F811
    page = looking.open(TOKENS["self"])
    for view in ("Sessions", "Environments"):
        go(page, view)
        assert page.evaluate("document.getAnimations().length") == 0
        moving = "[...document.querySelectorAll('*')].filter(e => { const s = getComputedStyle(e); return s.animationName !== 'none' || s.transitionDuration !== '0s' || s.scrollBehavior !== 'auto'; }).length"
        assert page.evaluate(moving) == 0
    looking.close()


def test_a_long_list(looking, serve):  # noqa: F811
    """Three hundred sessions, answered in the server's place, in its pages."""
    page = looking.open(TOKENS["self"])
    row = {"owner": "client:self", "environment": "data", "agent": None, "status": "idle", "labels": {}, "createdAt": "2026-01-01T00:00:00Z",
           "lastActiveAt": "2026-01-01T00:00:00Z", "idleSeconds": 3600, "ttlSeconds": 86400, "expiresAt": "2026-01-02T00:00:00Z", "generation": 1}  # fmt: skip
    names = ["s-" + format(n, "026d").translate(str.maketrans("0189", "abcd")) for n in range(SESSIONS)]
    rows = [{**row, "id": name, "conversation": f"conversation {n}", "createdAt": f"2026-01-01T{n // 60:02}:{n % 60:02}:00Z"} for n, name in enumerate(names)]

    def answer(route):
        found = re.search(r"cursor=(\d+)", route.request.url)
        begin = int(found.group(1)) if found else 0
        end = begin + 100
        route.fulfill(json={"items": rows[begin:end], "cursor": str(end) if end < SESSIONS else None})

    page.route(re.compile(r"/v1/sessions(\?|$)"), answer)
    go(page, "Sessions")
    links = page.get_by_role("rowheader").get_by_role("link")
    expect(links).to_have_count(200)
    expect(links.first).to_have_text(names[-1])  # the newest
    more = page.get_by_role("button", name="Show more")
    more.focus()
    page.keyboard.press("Enter")
    expect(links).to_have_count(SESSIONS)
    expect(links.last).to_have_text(names[0])
    expect(more).to_be_hidden()
    page.set_viewport_size({"width": 360, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    expect(page.get_by_role("row").filter(has_text=names[0])).to_contain_text("conversation 0")


def test_a_token_that_is_good_no_more(looking, serve, session):  # noqa: F811
    page = looking.open(TOKENS["self"])
    refused = {"code": "unauthenticated", "status": 401, "title": "no", "detail": "the token is not known"}
    page.route("**/v1/**", lambda route: route.fulfill(status=401, body=json.dumps(refused), content_type="application/problem+json"))
    page.get_by_role("link", name="Sessions", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("does not know this token any more")
    expect(page.get_by_label("Token")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0
    page.unroute("**/v1/**")
    page.get_by_label("Token").fill(TOKENS["self"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    looking.said.clear()  # the browser notes each refusal by itself


def test_a_server_that_is_gone(looking, serve, session):  # noqa: F811
    """What is shown stays, and says that it is not live; once the server is back it goes on without a reload."""
    page = looking.open(TOKENS["self"])
    go(page, "Sessions")
    expect(page.get_by_role("link", name=session)).to_be_visible()
    state = page.get_by_role("status")
    expect(state).to_have_text("Live")
    looking.context.set_offline(True)
    go(page, "Environments")
    expect(page.get_by_role("alert")).to_contain_text(re.compile("reach|answer|connect"))
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    looking.context.set_offline(False)
    go(page, "Sessions")
    expect(page.get_by_role("link", name=session)).to_be_visible()
    go(page, "Environments")
    expect(page.get_by_role("rowheader").first).to_be_visible()
    looking.said.clear()  # the browser notes by itself what it could not reach
