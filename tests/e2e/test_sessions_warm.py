# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that are ready before anybody asks: who gets one, what is in it, and that nobody gets another's."""

import os
import signal
import threading

import pytest

from controllers import wait_until
from lib.lab import TOKENS, stack
from lib.sessions import CLIENTS
from lib.warm import Warm, lives


@pytest.fixture
def warm(offline):
    offline.write("stack.yaml", stack())
    offline("apply", "--yes").expect(0)
    made = Warm(offline).start()
    folder = made.folder
    yield made
    if made.process is None:
        made.start()
    for session in made.call("GET", "/v1/sessions?limit=1000", token=TOKENS["watcher"]).items():
        assert made.call("DELETE", f"/v1/sessions/{session['id']}", token=TOKENS["file"]).status == 204
    workers = made.workers()
    assert made.stop() == 0
    # Not one is left: neither process nor socket.
    assert not folder.exists() and not [pid for pid in workers if lives(pid)]


def test_the_next_session_is_given_one(warm):
    assert len(warm.workers()) == 2
    before = warm.workers()
    session = warm.create(variables={"MINE": "for this one"})
    first = warm.run(session, "import os, sys\nprint('fractions' in sys.modules, os.listdir(), os.environ['MINE'])")
    # What modules print when they are imported is no session's output, and the kernel is as new as any.
    assert (first["status"], first["stdout"]["content"], first["stderr"]["content"]) == ("ok", "True [] for this one\n", ""), first
    assert (first["state"]["generation"], first["state"]["was"]) == (1, "new")
    assert warm.workers(session) < before
    assert [f["path"] for f in warm.run(session, "open('a', 'w').write('a')")["files"]["changed"]] == ["a"]
    # Another is started in its stead, and of an environment that is not kept ready there is none.
    wait_until(lambda: len(warm.workers()) == 2)
    other = warm.call("POST", "/v1/sessions", {"environment": "web"}).json()["id"]
    assert not warm.was_warm(other)
    # A warm one that was given away is found again as any.
    warm.run(session, "x = 'still here'")
    assert warm.stop(signal.SIGKILL) == -signal.SIGKILL
    warm.start()
    assert warm.run(session, "x")["value"]["text"] == "'still here'"


def test_two_owners_never_get_the_same(warm):
    """They race for what is ready, again and again; each leaves marks that no other may ever see."""
    marks, seen = [], []

    def work(owner):
        for turn in range(4):
            session = warm.create(owner=owner)
            mark = f"{owner}-{turn}"
            code = f"import glob, sys, fractions\nfound = [sorted(glob.glob('/tmp/*') + glob.glob('/dev/shm/*') + glob.glob('/workspace/*')), getattr(fractions, 'mark', None), globals().get('mark')]\nfor p in '/tmp', '/dev/shm', '/workspace': open(p + '/mark', 'w').write('{mark}')\nfractions.mark = mark = '{mark}'\nfound"
            seen.append(warm.run(session, code, owner)["value"]["text"])
            marks.append(warm.run(session, "mark", owner)["value"]["text"])
            assert warm.call("DELETE", f"/v1/sessions/{session}", owner=owner).status == 204

    threads = [threading.Thread(target=work, args=(owner,)) for owner in ("alice", "bob", "carol")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(marks) == sorted(f"'{owner}-{turn}'" for owner in ("alice", "bob", "carol") for turn in range(4))
    assert set(seen) == {"[[], None, None]"}
    kept = [p.read_text() for p in (warm.state / "local/lab/workspaces/sessions").glob("*/workspace/mark")]
    assert sorted(f"'{mark}'" for mark in kept) == sorted(marks)


def test_what_is_applied_retires_those_of_before(warm, offline):
    before = warm.workers()
    offline.write("stack.yaml", stack().replace("plain-text", "another-text"))
    offline("apply", "--yes").expect(0)
    # From the first session on it is the new one, whether it was warm or not.
    assert warm.run(warm.create(), "import os; os.environ['PLAIN']")["value"]["text"] == "'another-text'"
    wait_until(lambda: len(warm.workers()) == 2 and not warm.workers() & before, 60)
    wait_until(lambda: not [pid for pid in before if lives(pid)])
    warm.wait_until_ready(2)
    session = warm.create()
    assert warm.was_warm(session) and warm.run(session, "import os; os.environ['PLAIN']")["value"]["text"] == "'another-text'"


def test_one_that_dies_is_replaced_and_said_once(warm):
    victim = min(before := warm.workers())
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not lives(victim))
    assert warm.run(warm.create(), "print(1)")["stdout"]["content"] == "1\n"
    wait_until(lambda: len(warm.workers()) == 2 and victim not in warm.workers(), 60)
    assert victim in before and warm.lines().count("no warm sandbox can be had") <= 1


def test_a_server_that_is_killed_leaves_none(warm):
    """Those that nobody has taken end by themselves, or are cleared away by the next server, whatever they are called by then."""
    first = warm.workers()
    assert warm.stop(signal.SIGKILL) == -signal.SIGKILL
    # As it would be if it had died while it gave one away.
    half = next(warm.folder.glob("warm-*.worker"))
    half.rename(half.with_name("s-" + "a" * 26 + ".worker"))
    warm.start()
    assert not first & warm.workers() and len(warm.workers()) == 2
    wait_until(lambda: not [pid for pid in first if lives(pid)])
    half.with_name("s-" + "a" * 26 + ".worker").unlink()
    second = warm.workers()
    assert warm.stop(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: not [pid for pid in second if lives(pid)], 60)


def test_what_cannot_be_had(offline):
    """A module that is not there is said once, and the rest is ready; an environment that is not there is no reason for anything."""
    offline.write("stack.yaml", stack())
    offline("apply", "--yes").expect(0)
    serve = Warm(offline, 1, ["no_such_module", "fractions"])
    serve.configure(clients=CLIENTS, sessions={"warm": {"data": 1, "gone": 1}, "preload": ["no_such_module", "fractions"]})
    serve.start()
    session = serve.create()
    assert serve.was_warm(session)
    wait_until(lambda: len(serve.workers()) == 1)
    assert serve.call("DELETE", f"/v1/sessions/{session}").status == 204
    assert serve.stop() == 0
    assert serve.lines().count("these modules cannot be preloaded: no_such_module") == 1
    assert serve.lines().count("environment gone: no warm sandbox can be had: Environment/gone does not exist") == 1
