# SPDX-License-Identifier: Apache-2.0
"""Commands on the host behind approvals, by a client that shares no code with the server; and what enemies try."""

import asyncio
import concurrent.futures
import getpass
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import httpx2
import jsonschema
import mcp
import pytest
from mcp.client.streamable_http import streamable_http_client

import stacks
from clocks import Clocks
from controllers import PATIENCE, wait_until
from lib.container_events import Events
from lib.lab import TOKENS, client, stack
from lib.openapi import Judge
from lib.page import Looking, chromium, go  # noqa: F401
from lib.sessions import Sessions
from mcp_client import Client, meta
from model_services import refusals
from playwright.sync_api import expect

ROOT = os.geteuid() == 0
USER = "nobody" if ROOT else getpass.getuser()
SHARED = {} if ROOT else {"sharedUser": True}  # an ordinary user has no others for owners
CLIENTS = [
    client("users", actsFor="users", realm="company", may=["shell", "execute"]),
    client("self", may=["approve"]),
    client("watcher", may=["observe"]),
    client("narrow", actsFor="users", realm="other", may=["approve"], agents=["analyst"]),
    client("file", may=["execute"]),
]
AGENTS = [stacks.document("Agent", name, {"environment": "data"}) for name in ("analyst", "hidden")]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Approvals(Sessions):
    """`users` asks, `self` decides."""

    def ask_for(self, *command, status=202, owner="alice", token=None, headers=(), **wish):
        wish = {"agent": "analyst", "command": list(command), "cwd": "/", "reason": "to see", **wish}
        answer = self.call("POST", "/v1/shell", wish, owner, token=token or TOKENS["users"], headers=headers)
        assert answer.status == status, (answer.status, answer.body)
        return answer.json()

    def decide(self, approval, verb="approve", note=None, token=None, owner=None):
        body = {"note": note} if note else {}
        return self.call("POST", f"/v1/approvals/{approval['id']}/{verb}", body, owner or "", token=token or TOKENS["self"])

    def show(self, approval, token=None, owner=None):
        answer = self.call("GET", f"/v1/approvals/{approval['id']}", owner=owner or "", token=token or TOKENS["self"])
        assert answer.status == 200, answer.body
        return answer.json()

    def finish(self, approval):
        wait_until(lambda: self.show(approval)["status"] not in ("pending", "approved"), timeout=60 * PATIENCE)
        return self.show(approval)

    def run(self, *command, **wish):
        asked = self.ask_for(*command, **wish)
        answer = self.decide(asked)
        assert answer.status == 200, answer.body
        return self.finish(asked)

    def entries(self):
        lines = []
        for file in sorted((self.state / "audit").glob("*.log")):
            lines += file.read_text().splitlines()
        return [json.loads(line.split(" ", 1)[1]) for line in lines]

    def call(self, method, path, body=None, owner=None, token=None, headers=()):
        headers = list(headers) + ([("Berth-Owner", owner)] if owner else [])
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers.append(("Content-Type", "application/json"))
        return self.ask(path, token, method, headers, data)


@pytest.fixture
def room():
    """A folder that the user of commands can enter, and no other test."""
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="berth-shell-")))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def serve(offline, room):
    offline.write("stack.yaml", stack(*AGENTS))
    offline("apply", "--yes").expect(0)
    commands = [("echo", "fixed", "a b"), ("tar", "tf", "a.tar"), ("git", "grep", "word"), ("find", "."), ("rsync", "a", "b"), ("awk", "1", "a"), ("sh", "-c", "echo x")]
    trusted = [{"agent": "analyst", "command": list(command), "cwd": str(room)} for command in commands]
    made = Approvals(offline, clients=CLIENTS, sessions=SHARED, shell={"enabled": True, "user": USER, "trusted": trusted})
    yield made.start("--accept-degraded")
    if made.process is not None:
        assert made.stop() == 0


def program(folder, name, text):
    file = folder / name
    file.write_text("#!/bin/sh\n" + text)
    file.chmod(0o755)
    return file


def test_what_was_shown_runs_once_and_is_written_down(serve, room):
    asked = serve.ask_for("sh", "-c", 'pwd; id -un; env; exec readlink /proc/self/fd/0', cwd=str(room))
    assert (asked["status"], asked["result"], asked["trusted"]) == ("pending", None, False)
    assert (asked["client"], asked["owner"], asked["agent"], asked["user"]) == ("users", "company/alice", "analyst", USER)
    assert asked["programSha256"] == hashlib.sha256(Path(asked["program"]).read_bytes()).hexdigest()
    assert asked["program"] == os.path.realpath("/bin/sh") and asked["cwd"] == str(room)
    decided = serve.decide(asked, note="go on").json()
    assert decided["status"] in ("approved", "done") and (decided["decidedBy"], decided["note"]) == ("self", "go on")
    done = serve.finish(asked)
    assert (done["status"], done["result"]["status"], done["result"]["exitCode"]) == ("done", "ok", 0), done
    where, who, *variables, given = done["result"]["stdout"]["content"].splitlines()
    assert (where, who, given) == (str(room), USER, "/dev/null")
    # Nothing of the server's, and what was shown; PWD, OLDPWD, SHLVL and _ are the shell's own.
    found = {line.split("=", 1)[0]: line.split("=", 1)[1] for line in variables}
    assert {n: v for n, v in found.items() if n not in ("PWD", "OLDPWD", "SHLVL", "_")} == asked["variables"]
    assert asked["variables"]["PATH"] == PATH and set(asked["variables"]) == {"PATH", "HOME", "USER", "LOGNAME", "LANG"}
    # A second decision, of either kind, is none.
    serve.decide(asked).problem(409, "conflict")
    serve.decide(asked, "deny").problem(409, "conflict")
    events = [entry["event"] for entry in serve.entries() if entry.get("id") == asked["id"]]
    assert events == ["asked", "approved", "began", "ended"]
    denied = serve.ask_for("touch", str(room / "denied"))
    assert serve.decide(denied, "deny", "no").json()["status"] == "denied"
    serve.decide(denied).problem(409, "conflict")
    assert serve.show(denied)["result"] is None and not (room / "denied").exists()
    listed = serve.call("GET", "/v1/approvals", token=TOKENS["self"]).items()
    assert [one["id"] for one in listed] == [denied["id"], asked["id"]] and "stdout" not in listed[1]["result"]
    assert [one["id"] for one in serve.call("GET", "/v1/approvals?status=denied", token=TOKENS["self"]).items()] == [denied["id"]]
    judge = Judge(serve.ask("/openapi.json", TOKENS["users"]).json())
    judge.of("getApproval", serve.call("GET", f"/v1/approvals/{asked['id']}", token=TOKENS["self"]))
    judge.of("listApprovals", serve.call("GET", "/v1/approvals", token=TOKENS["self"]))
    judge.of("approve", serve.decide(asked))


def test_who_may(serve, room):
    asked = serve.ask_for("true")
    # Rights: to ask, to decide.
    serve.call("POST", "/v1/shell", {"agent": "analyst", "command": ["true"], "cwd": "/"}, token=TOKENS["file"]).problem(403, "not-permitted")
    serve.decide(asked, token=TOKENS["users"], owner="alice").problem(403, "not-permitted")
    serve.decide(asked, token=TOKENS["watcher"]).problem(403, "not-permitted")
    serve.decide(asked, token="wrong").problem(401, "unauthenticated")
    # Another realm's user of that name, and another of the owner's realm: nothing is there for them.
    missing = {"id": "a-" + "a" * 26}
    for verb in ("approve", "deny"):
        other, none = (serve.decide(one, verb, token=TOKENS["narrow"], owner="alice") for one in (asked, missing))
        assert (other.status, other.body) == (none.status, none.body) and other.status == 404
    mallory, none = (serve.call("GET", f"/v1/approvals/{one['id']}", owner="mallory", token=TOKENS["users"]) for one in (asked, missing))
    assert mallory.status == 404 and mallory.body == none.body
    assert serve.call("GET", "/v1/approvals", owner="mallory", token=TOKENS["users"]).items() == []
    assert serve.show(asked, TOKENS["users"], "alice")["status"] == serve.show(asked, TOKENS["watcher"])["status"] == "pending"
    # A client that may name one agent does not see the other's.
    hidden = serve.ask_for("true", agent="hidden")
    serve.decide(hidden, token=TOKENS["narrow"]).problem(404, "not-found")
    assert serve.decide(asked, token=TOKENS["narrow"]).status == 200
    assert serve.decide(hidden).status == 200
    # The socket's user asks and decides; who has a token decides on his as well.
    wish = json.dumps({"agent": "analyst", "command": ["true"], "cwd": "/"}).encode()
    head = [("Content-Type", "application/json")]
    mine = serve.ask_socket("/v1/shell", method="POST", headers=head, body=wish).json()
    assert mine["client"] == f"uid:{os.getuid()}"
    assert serve.ask_socket(f"/v1/approvals/{mine['id']}/approve", method="POST", headers=head, body=b"{}").status == 200


def test_what_cannot_be_asked_for(serve, room):
    wish = {"agent": "analyst", "command": ["true"], "cwd": "/"}

    def refused(status, code, **changes):
        given = {name: value for name, value in {**wish, **changes}.items() if value is not None}
        return serve.call("POST", "/v1/shell", given, "alice", TOKENS["users"]).problem(status, code)

    refused(404, "unknown-agent", agent="nobody")
    refused(400, "invalid", command=[])
    refused(400, "invalid", command=[""])
    refused(400, "invalid", command="ls -l")
    refused(400, "invalid", command=["ls", 1])
    refused(400, "invalid", command=["ls", "a\0b"])
    refused(400, "invalid", command=["no-such-program-anywhere"])
    refused(400, "invalid", command=["/etc/passwd"])
    refused(400, "invalid", command=["/"])
    refused(400, "invalid", cwd="relative")
    refused(400, "invalid", cwd="/no/such/folder")
    refused(400, "invalid", cwd="/etc/passwd")
    refused(400, "invalid", cwd=None)
    refused(400, "invalid", timeoutSeconds=901)
    # Neither variables nor input nor a user can be given: no LD_PRELOAD, no PATH.
    for name, value in (("variables", {"LD_PRELOAD": "/tmp/x.so"}), ("env", {"PATH": "."}), ("stdin", "x"), ("user", "root")):
        refused(400, "invalid", **{name: value})
    # Huge ones: more than a person can read.
    refused(413, "too-large", command=["echo", "x" * 40000])
    refused(400, "invalid", command=["echo"] + ["x"] * 1000)
    refused(400, "invalid", reason="x" * 4097)
    # A program that somebody else can write to between two looks.
    file = program(room, "open", "true\n")
    file.chmod(0o777)
    refused(400, "invalid", command=[str(file)])
    assert all(entry["event"] != "asked" for entry in serve.entries())


def test_who_asks_sees_what_the_user_of_commands_sees(serve, room):
    """What a refusal tells is told before anybody has approved: of others' files, and of what the server has open, it is nothing."""
    hidden = room / "hidden"
    hidden.mkdir(mode=0o700)
    (hidden / "folder").mkdir()
    (hidden / "text").write_text("x")
    program(hidden, "tool", "true\n")

    def told(command, cwd):
        answer = serve.call("POST", "/v1/shell", {"agent": "analyst", "command": [command], "cwd": str(cwd)}, "alice", TOKENS["users"])
        return answer.problem(400, "invalid")["detail"]

    places = [serve.state] + ([hidden] if ROOT else [])
    for place in places:
        there = [entry for entry in place.iterdir()]
        assert there
        for entry in [*there, place / "none", place / "none" / "none"]:
            assert told("true", entry) == f"there is no folder {entry} that can be entered"
            assert told(str(entry), "/") == f"there is no program {entry}"
    for number in range(32):
        for told_of in (told("true", f"/proc/self/fd/{number}"), told(f"/proc/self/fd/{number}", "/")):
            assert str(serve.state) not in told_of and str(serve.log) not in told_of, told_of
    assert serve.ask_for("true", cwd="/proc/self/cwd")["cwd"] == "/"


def test_another_program_or_folder_than_the_one_shown(serve, room):
    for swap in ("content", "link", "folder", "folder link", "gone"):
        here = room / swap.replace(" ", "-")
        work = here / "work"
        work.mkdir(parents=True)
        mark = room / "ran"
        file = program(here, "tool", f"touch {room}/fine\n")
        bad = program(here, "bad", f"touch {mark}\n")
        named = here / "named"
        named.symlink_to(file if swap != "folder link" else work)
        asked = serve.ask_for(str(named) if swap == "link" else str(file), cwd=str(named if swap == "folder link" else work))
        assert asked["program"] == str(file) and asked["cwd"] == str(work)  # what the links led to is shown
        if swap == "content":
            file.write_text(bad.read_text())
        elif swap == "link":
            file.unlink()
            file.symlink_to(bad)
        elif swap == "folder":
            work.rename(here / "old")
            work.mkdir()
        elif swap == "folder link":
            work.rename(here / "old")
            work.symlink_to("/")
        else:
            file.unlink()
        assert serve.decide(asked).status == 200
        done = serve.finish(asked)
        assert (done["result"]["status"], done["result"]["exitCode"]) == ("failed", None), (swap, done)
        assert done["result"]["detail"].startswith("it did not run: "), done
        assert not mark.exists() and not (room / "fine").exists()
        assert "began" not in [entry["event"] for entry in serve.entries() if entry.get("id") == asked["id"]]
    # A link that is turned after it was followed changes nothing: what it led to was shown, and runs.
    file, link = program(room, "good", "echo good\n"), room / "turned"
    link.symlink_to(file)
    asked = serve.ask_for(str(link), cwd=str(room))
    link.unlink()
    link.symlink_to(room / "elsewhere")
    assert serve.decide(asked).status == 200
    assert serve.finish(asked)["result"]["stdout"]["content"] == "good\n"


def test_words_are_words(serve):
    hostile = ["$(id)", "; id", "a\nb", "\x1b[31m", "\u202egpj.exe", "\u200b", "*", "~", "-n", "'\"\\", "ünï", ""]
    done = serve.run("printf", "<%s>", *hostile)
    assert done["command"] == ["printf", "<%s>", *hostile]
    assert done["result"]["stdout"]["content"] == "".join(f"<{word}>" for word in hostile)
    # Neither the log nor a terminal gets such characters as they are.
    shown = serve.berth("audit", "list", "--state", str(serve.state)).expect(0).out
    for line in [shown, *(file.read_text() for file in (serve.state / "audit").glob("*.log"))]:
        assert "\x1b" not in line
    assert "\u202e" not in shown and "\u200b" not in shown and "\\u202E" in shown and "\\x1B" in shown


def test_trusted_word_by_word(serve, room):
    done = serve.ask_for("echo", "fixed", "a b", status=200, cwd=str(room))
    assert (done["status"], done["trusted"], done["result"]["stdout"]["content"]) == ("done", True, "fixed a b\n")
    assert [e["event"] for e in serve.entries()] == ["asked", "began", "ended"] and serve.entries()[0]["trusted"] is True
    pending = [
        ("echo", "fixed"), ("echo", "fixed", "a b", "c"), ("echo", "fixed", "a", "b"), ("/bin/echo", "fixed", "a b"), ("echo", "fixed a b"),
        ("tar", "tf", "a.tar", "-Iid"), ("tar", "tf", "a.tar", "--checkpoint-action=exec=id", "--checkpoint=1"), ("tar", "-Iid", "tf", "a.tar"),
        ("find", ".", "-exec", "id", ";"), ("sh", "-c", "echo x; id"), ("env", "sh", "-c", "echo x"), ("timeout", "5", "echo", "fixed", "a b"),
    ]  # fmt: skip
    pending += [command for command in [
        ("git", "grep", "-Oid", "word"), ("git", "-c", "core.fsmonitor=id", "grep", "word"), ("rsync", "-eid", "a", "b"), ("awk", "BEGIN{system(\"id\")}", "a"),
    ] if shutil.which(command[0])]  # fmt: skip
    for command in pending:
        asked = serve.ask_for(*command, cwd=str(room))
        assert (asked["status"], asked["trusted"]) == ("pending", False)
        serve.decide(asked, "deny")
    assert serve.ask_for("echo", "fixed", "a b", cwd="/")["trusted"] is False
    assert serve.ask_for("echo", "fixed", "a b", cwd=str(room), agent="hidden")["trusted"] is False
    # The same key asks for the same once.
    once = [serve.ask_for("echo", "fixed", "a b", status=status, cwd=str(room), headers=[("Idempotency-Key", "k")]) for status in (200, 200)]
    assert once[0] == once[1]


def test_one_owners_trusted_commands_leave_room(serve, room):
    (room / "ran").touch()
    (room / "ran").chmod(0o666)
    slow = program(room, "slow", f"echo x >> {room}/ran\nexec sleep 600\n")
    assert serve.stop() == 0
    trusted = [{"agent": "analyst", "command": [str(slow)], "cwd": str(room)}]
    serve.configure(clients=CLIENTS, sessions=SHARED, shell={"enabled": True, "user": USER, "trusted": trusted})
    serve.start("--accept-degraded")

    def ask():
        wish = {"agent": "analyst", "command": [str(slow)], "cwd": str(room)}
        return serve.call("POST", "/v1/shell", wish, "alice", TOKENS["users"])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(ask)
        wait_until(lambda: (room / "ran").read_text() == "x\n" * 4, timeout=60 * PATIENCE)
        ask().problem(429, "owner-limit")
        assert serve.run("true", owner="bob")["result"]["status"] == "ok"
        assert serve.stop() == 0


def test_events(serve):
    """Each change, to those whom a list shows it, and to nobody else."""
    streams = {
        name: Events(serve, TOKENS[token], owner)
        for name, token, owner in [
            ("alice", "users", "alice"), ("bob", "users", "bob"), ("decides", "self", None), ("observes", "watcher", None),
            ("executes", "file", None),
        ]
    }  # fmt: skip
    first, other = serve.ask_for("printf", "x"), serve.ask_for("printf", "y", agent="hidden")
    serve.decide(other, "deny")
    serve.decide(first)
    assert serve.finish(first)["status"] == "done"
    last = serve.ask_for("printf", "z", owner="bob")
    answer = serve.ask("/v1/sessions", TOKENS["file"], "POST", [("Content-Type", "application/json")], json.dumps({"environment": "data"}).encode())
    assert answer.status == 201

    def heard(name, wanted):
        return [data for event, data in streams[name].until(wanted) if event == "approval"]

    def told(approval, *statuses):
        return [{"id": approval["id"], "owner": approval["owner"], "agent": approval["agent"], "status": status} for status in statuses]

    firsts, others, lasts = told(first, "pending", "approved", "done"), told(other, "pending", "denied"), told(last, "pending")
    assert heard("alice", lambda _, data: data == firsts[-1]) == [firsts[0], *others, *firsts[1:]]
    for name in ("decides", "observes"):
        assert heard(name, lambda _, data: data == lasts[-1]) == [firsts[0], *others, *firsts[1:], *lasts]
    assert heard("bob", lambda _, data: data == lasts[-1]) == lasts
    assert heard("executes", lambda event, _: event == "session") == []


def test_two_who_approve_at_once(serve, room):
    for n in range(5):
        asked = serve.ask_for("sh", "-c", f"echo x >> {room}/count-{n}")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda i: serve.decide(asked, "approve" if i % 4 else "deny").status, range(8)))
        assert sorted(found) == [200] + [409] * 7
        done = serve.finish(asked)
        file = room / f"count-{n}"
        assert (file.read_text() if file.exists() else "") == ("x\n" if done["status"] == "done" else "")


def alive(mark):
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def test_output_time_and_what_is_left_behind(serve):
    flood = serve.run("sh", "-c", "head -c 19999996 /dev/zero; echo END; echo end >&2; exit 3")["result"]
    assert (flood["status"], flood["exitCode"]) == ("error", 3)
    assert (flood["stdout"]["bytesTotal"], flood["stdout"]["bytesReturned"], flood["stdout"]["truncated"]) == (20000000, 65536, True)
    assert flood["stdout"]["sha256"] == hashlib.sha256(bytes(19999996) + b"END\n").hexdigest() and flood["stderr"]["content"] == "end\n"
    assert flood["stdout"]["gap"] == {"at": 32768, "bytes": 20000000 - 65536} and flood["stdout"]["content"].endswith("\0END\n")
    mark = f"7{os.getpid()}"
    late = serve.run("sh", "-c", f"setsid sleep {mark} & trap '' TERM INT HUP; sleep {mark}; sleep {mark}", timeoutSeconds=1)["result"]
    assert (late["status"], late["exitCode"]) == ("timeout", None) and "killed after 1 s" in late["detail"]
    assert alive(mark) == []
    left = serve.run("sh", "-c", f"(setsid sleep {mark} >/dev/null 2>&1 &) ; (sleep {mark} &) ; echo done")["result"]
    assert (left["status"], left["exitCode"], left["stdout"]["content"]) == ("ok", 0, "done\n")
    assert re.search("left [12] process", left["detail"]) and alive(mark) == []
    assert serve.run("sh", "-c", "kill -9 $$")["result"]["detail"] == "ended by signal 9"


@pytest.mark.skipif(not ROOT, reason="another user is root's to give")
def test_another_user_for_good(serve, room):
    done = serve.run("sh", "-c", "id -u; id -G; grep -E '^(NoNewPrivs|CapEff)' /proc/self/status; ls /proc/self/fd | wc -l; cat /etc/shadow")
    uid, groups, caps, privileges, descriptors = done["result"]["stdout"]["content"].splitlines()
    assert int(uid) != 0 and "0" not in groups.split() and int(descriptors) <= 4
    assert int(caps.split()[1], 16) == 0 and privileges.split()[1] == "1"
    assert "denied" in done["result"]["stderr"]["content"] and done["result"]["status"] == "error"


def test_the_log_leaves_room_on_the_disk(serve):
    waiting = [serve.ask_for("true"), serve.ask_for("true")]
    assert serve.stop() == 0
    serve.configure(clients=CLIENTS, sessions=SHARED, workspaces={"minFreeMB": 999999999}, shell={"enabled": True, "user": USER})
    serve.start("--accept-degraded")
    wish = {"agent": "analyst", "command": ["true"], "cwd": "/"}
    assert "minFreeMB" in serve.call("POST", "/v1/shell", wish, "alice", TOKENS["users"]).problem(507, "workspace-full")["detail"]
    assert serve.decide(waiting[0], "deny").json()["status"] == "denied"
    assert serve.decide(waiting[1]).status == 200 and serve.finish(waiting[1])["result"]["status"] == "ok"


def test_a_list_that_cannot_go_on_says_so(serve):
    asked = [serve.ask_for("true")["id"] for _ in range(3)]

    def page(cursor):
        return serve.call("GET", f"/v1/approvals?limit=2{cursor and '&cursor='}{cursor}", token=TOKENS["self"])

    first = page("").json()
    assert [one["id"] for one in first["items"]] == asked[:0:-1]
    rest = page(first["cursor"]).json()
    assert ([one["id"] for one in rest["items"]], rest["cursor"]) == (asked[:1], None)
    for cursor in ("a-" + "a" * 26, "x"):
        page(cursor).problem(400, "invalid")


def test_what_nobody_decides_on_expires(serve):
    assert serve.stop() == 0
    serve.configure(clients=CLIENTS, sessions=SHARED, shell={"enabled": True, "user": USER, "approvalSeconds": 1})
    serve.start("--accept-degraded")
    asked = serve.ask_for("true")
    wait_until(lambda: serve.show(asked)["status"] == "expired", timeout=30 * PATIENCE)
    serve.decide(asked).problem(409, "conflict")
    assert [e["event"] for e in serve.entries()] == ["asked", "expired"]


def test_what_waits_expires_where_the_clock_is_set_back(serve, tmp_path):
    """Who could set it back would keep an approval open for as long as he likes."""
    assert serve.stop() == 0
    serve.configure(clients=CLIENTS, sessions=SHARED, shell={"enabled": True, "user": USER, "approvalSeconds": 5})
    clocks = Clocks(tmp_path)
    clocks.give(serve.berth)
    serve.start("--accept-degraded")
    asked = serve.ask_for("true")
    clocks.give(serve.berth, wall_s=-86400)
    wait_until(lambda: serve.show(asked)["status"] == "expired", timeout=60 * PATIENCE)
    serve.decide(asked).problem(409, "conflict")


def test_a_server_that_is_killed(serve, room):
    mark = f"8{os.getpid()}"
    swapped = serve.ask_for(str(program(room, "swapped", f"touch {room}/swapped-ran\n")))
    waiting, running = serve.ask_for("touch", str(room / "waited")), serve.ask_for("sh", "-c", f"echo x >> {room}/ran; sleep {mark}")
    assert serve.decide(running).status == 200
    wait_until(lambda: (room / "ran").exists(), timeout=60 * PATIENCE)
    os.kill(serve.process.pid, signal.SIGKILL)
    serve.process.wait()
    wait_until(lambda: alive(mark) == [], timeout=60 * PATIENCE)
    program(room, "swapped", f"touch {room}/swapped-ran; id\n")
    # Half an entry, of which nobody was told.
    log = sorted((serve.state / "audit").glob("*.log"))[-1]
    with log.open("a") as file:
        file.write('0123456789 {"event":"appr')
    torn = serve.berth("audit", "verify", "--state", str(serve.state)).expect(0)
    assert "half an entry" in torn.out + torn.err
    serve.start("--accept-degraded")
    # What was shown is what the log says, whoever reads it.
    assert serve.decide(swapped).status == 200 and serve.finish(swapped)["result"]["detail"].startswith("it did not run: ")
    assert not (room / "swapped-ran").exists()
    cut = serve.show(running)
    assert (cut["status"], cut["result"]["status"], cut["result"]["exitCode"]) == ("done", "failed", None)
    assert cut["result"]["detail"].startswith("cut off: ") and (room / "ran").read_text() == "x\n"
    serve.decide(running).problem(409, "conflict")
    assert serve.decide(waiting).status == 200 and serve.finish(waiting)["result"]["status"] == "ok"
    assert (room / "waited").exists()
    assert [e["event"] for e in serve.entries()].count("torn") == 1
    # Approved, and killed before it began: as the log says it then.
    assert serve.stop() == 0
    lines = log.read_text().splitlines(keepends=True)
    began = max(i for i, line in enumerate(lines) if '"event":"began"' in line)
    log.write_text("".join(lines[:began]))
    head = lines[began - 1].split(" ", 1)
    (serve.state / "audit" / "head").write_text(f"{json.loads(head[1])['n']} {head[0]}\n")
    (room / "waited").unlink()
    serve.start("--accept-degraded")
    never = serve.show(waiting)
    assert never["status"] == "done" and never["result"]["detail"].startswith("it did not run: the server ended before it began")
    assert not (room / "waited").exists()


def test_the_same_key_over_the_death_of_a_server(serve, room):
    """Killed before it could write that the key was used: who asks again hears of the one that began, and nothing runs twice."""
    mark = f"9{os.getpid()}"
    slow = program(room, "slow", f"echo x >> {room}/ran\nexec sleep {mark}\n")
    assert serve.stop() == 0
    trusted = [{"agent": "analyst", "command": [str(slow)], "cwd": str(room)}]
    serve.configure(clients=CLIENTS, sessions=SHARED, shell={"enabled": True, "user": USER, "trusted": trusted})
    serve.start("--accept-degraded")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: serve.ask_for(str(slow), cwd=str(room), headers=[("Idempotency-Key", "k")]))
        wait_until(lambda: (room / "ran").exists(), timeout=60 * PATIENCE)
        os.kill(serve.process.pid, signal.SIGKILL)
        serve.process.wait()
    wait_until(lambda: alive(mark) == [], timeout=60 * PATIENCE)
    serve.start("--accept-degraded")
    again = serve.ask_for(str(slow), status=200, cwd=str(room), headers=[("Idempotency-Key", "k")])
    assert again["result"]["detail"].startswith("cut off: ") and (room / "ran").read_text() == "x\n"
    assert [entry["event"] for entry in serve.entries()] == ["asked", "began", "ended"]
    # Nobody else's, and no other key.
    others = [("alice", "other"), ("bob", "k")]
    ids = {serve.ask_for("true", owner=owner, headers=[("Idempotency-Key", key)])["id"] for owner, key in others}
    assert len(ids | {again["id"]}) == 3


def test_a_log_that_somebody_edits(serve):
    serve.run("echo", "one")
    serve.run("echo", "two")
    state = ("--state", str(serve.state))
    whole = serve.berth("audit", "verify", *state).expect(0).out
    entries = serve.entries()
    assert re.search(r"\b8 entries", whole) and len(entries) == 8
    assert serve.berth("audit", "list", *state, "--json").expect(0).json() == entries
    assert serve.stop() == 0
    log = sorted((serve.state / "audit").glob("*.log"))[-1]
    lines = log.read_text().splitlines(keepends=True)
    edits = {
        "edited": [lines[0].replace("alice", "malory"), *lines[1:]],
        "cut": lines[:-1],
        "cut in an answered one": [*lines[:-1], lines[-1][:40]],
        "removed": lines[:3] + lines[4:],
        "reordered": [*lines[:2], lines[3], lines[2], *lines[4:]],
        "replayed": [*lines, lines[-1]],
    }
    for name, edit in edits.items():
        log.write_text("".join(edit))
        verdict = serve.berth("audit", "verify", *state)
        assert verdict.code == 1 and "entry" in verdict.err, (name, verdict.out, verdict.err)
        refused = serve.berth("serve", "-f", str(serve.file), "--accept-degraded")
        assert refused.code == 1 and "damaged" in refused.err, (name, refused.err)
    log.write_text("".join(lines))
    serve.berth("audit", "verify", *state).expect(0)
    # The head is part of it: gone, an older one, another's; and so are files that are gone whole.
    head, text = log.parent / "head", (log.parent / "head").read_text()
    older = [json.loads(lines[5].split(" ", 1)[1])["n"], lines[5].split(" ", 1)[0]]
    for name, edit in {"gone": None, "older": f"{older[0]} {older[1]}\n", "another": text.replace(text.split()[1], "0" * 64), "no head": "8\n", "empty": ""}.items():
        head.unlink() if edit is None else head.write_text(edit)
        assert serve.berth("audit", "verify", *state).code == 1, name
        assert serve.berth("serve", "-f", str(serve.file), "--accept-degraded").code == 1, name
    head.write_text(text)
    log.rename(log.parent / "kept")
    verdict = serve.berth("audit", "verify", *state)
    assert verdict.code == 1 and "ends before it" in verdict.err, verdict.err
    (log.parent / "000000000009.log").write_text("".join(lines))
    assert serve.berth("audit", "verify", *state).code == 0  # the name is no part of it: the order of names is
    (log.parent / "000000000009.log").unlink()
    log.write_text("".join(lines[2:]))
    assert serve.berth("audit", "verify", *state).code == 1  # the beginning is cut
    (log.parent / "kept").rename(log)
    serve.berth("audit", "verify", *state).expect(0)


def test_in_the_terminal(serve, room):
    berth = serve.berth
    first = serve.ask_for("printf", "a b\u202e\u200d\x1b[2J'\\n", reason="for \x1b]0;you\u2066")
    listed = berth("approvals", "list").expect(0).out
    assert first["id"] in listed and "printf 'a b\\u202E\\u200D\\x1B[2J\\'\\\\n'" in listed and "for \\x1B]0;you\\u2066" in listed, listed
    assert not re.search("[\x1b\u202e\u200d\u2066]", listed)
    cyrillic, joined = serve.ask_for("true", owner="\u0430lice".encode().decode("latin-1")), serve.ask_for("true", owner="u\u0308".encode().decode("latin-1"))
    named = [line.split(None, 1)[1] for line in berth("approvals", "list").expect(0).out.splitlines() if line.split(None, 1)[0] == "for"]
    assert named == ["'company/u\\u0308'", "'company/\u0430lice'", "company/alice"]
    for other in (cyrillic, joined):
        serve.decide(other, "deny")
    assert berth("approvals", "list", "--json").expect(0).json()[0]["command"] == first["command"]
    watch = subprocess.Popen(
        [str(berth.binary), "approvals", "list", "--watch", "--json"], cwd=berth.stack, env=berth.env, stdout=subprocess.PIPE, text=True
    )
    try:
        assert json.loads(watch.stdout.readline())["id"] == first["id"]
        second = serve.ask_for("echo", "second")
        assert json.loads(watch.stdout.readline())["id"] == second["id"]
    finally:
        watch.send_signal(signal.SIGINT)
        assert watch.wait(60 * PATIENCE) == 0 and watch.stdout.read() == ""
    assert "denied" in berth("approvals", "deny", first["id"], "--note", "too odd").expect(0).out
    assert "nothing is left to decide" in berth("approvals", "approve", first["id"]).expect(1).err
    assert berth("approvals", "approve", second["id"], "--json").expect(0).json()["decidedBy"] == f"uid:{os.getuid()}"
    serve.finish(second)
    shown = berth("approvals", "show", second["id"]).expect(0).out
    assert "done" in shown and "exit code 0" in shown and "    second\n" in shown
    assert berth("approvals", "list").expect(0).out == "" and first["id"] in berth("approvals", "list", "--all").expect(0).out
    assert "did you mean approve" in berth("approvals", "aprove", second["id"]).expect(1).err
    assert "no approval's id" in berth("approvals", "show", "x").expect(1).err
    assert "takes list or verify" in berth("audit", "show").expect(1).err


def test_doctor_says_when_it_is_on(serve):
    found = [one for one in serve.berth("doctor", "--json").json()["findings"] if one["name"] == "shell"]
    assert len(found) == 1 and found[0]["optional"] and found[0]["detail"].startswith("on: "), found
    assert serve.stop() == 0
    serve.configure(clients=CLIENTS, sessions=SHARED)
    serve.start("--accept-degraded")
    assert "shell" not in [one["name"] for one in serve.berth("doctor", "--json").json()["findings"]]


def test_off_unless_enabled(offline):
    offline.write("stack.yaml", stack(*AGENTS))
    offline("apply", "--yes").expect(0)
    made = Approvals(offline, clients=CLIENTS, sessions=SHARED, shell={"user": USER})
    made.start("--accept-degraded")
    made.call("POST", "/v1/shell", {"agent": "analyst", "command": ["true"], "cwd": "/"}, "alice", TOKENS["users"]).problem(409, "no-shell")
    made.call("GET", "/v1/approvals", token=TOKENS["self"]).problem(409, "no-shell")
    assert not (made.state / "audit").exists()
    assert made.stop() == 0
    # Trusted folders beneath the state are where agents write; root must say as whom.
    inside = made.state / "workspaces"
    inside.mkdir(exist_ok=True)
    made.configure(clients=CLIENTS, sessions=SHARED, shell={"enabled": True, "user": USER, "trusted": [{"agent": "analyst", "command": ["ls"], "cwd": str(inside)}]})
    assert "where agents write" in offline("serve", "-f", str(made.file)).expect(1).err
    if ROOT:
        made.configure(clients=CLIENTS, sessions=SHARED, shell={"enabled": True})
        assert "shell.user is missing" in offline("serve", "-f", str(made.file)).expect(1).err
    made.configure(clients=CLIENTS, sessions=SHARED, shell={"enabled": True, "user": "no-such-user"})
    assert "no user no-such-user" in offline("serve", "-f", str(made.file)).expect(1).err


def test_by_mcp(serve, room):
    """The model's tool asks and asks again; it cannot decide, and sees nobody else's."""
    alice, bob = Client(serve, TOKENS["users"], "alice"), Client(serve, TOKENS["users"], "bob")
    (tool,) = [tool for tool in alice.ask("tools/list")["tools"] if tool["name"] == "run_shell"]
    assert refusals([tool]) == []

    def call(who=alice, **arguments):
        answer = who.ask("tools/call", name="run_shell", arguments=arguments)
        if not answer["isError"]:
            jsonschema.validate(answer["structuredContent"], tool["outputSchema"])
            assert json.loads(answer["content"][0]["text"]) == answer["structuredContent"]
        return answer

    answer = call(agent="analyst", command=["echo", "a\u202eb\u200b"], cwd=str(room), reason="to \u202e see")
    asked = answer["structuredContent"]
    assert asked["status"] == "pending" and asked["id"] in asked["next"]
    assert not re.search("[\u202e\u200b]", answer["content"][0]["text"]) and asked["command"][1] == "a\u202eb\u200b"
    assert call(approval=asked["id"])["structuredContent"]["status"] == "pending"
    for other in (bob, Client(serve, TOKENS["users"], "mallory")):
        refused = call(other, approval=asked["id"])
        assert refused["isError"] and refused["content"][0]["text"].startswith("not-found: ")
    assert serve.decide(asked).status == 200
    serve.finish(asked)
    done = call(approval=asked["id"])["structuredContent"]
    assert (done["status"], done["result"]["stdout"]["content"], done["next"]) == ("done", "a\u202eb\u200b\n", None)
    trusted = call(agent="analyst", command=["echo", "fixed", "a b"], cwd=str(room))["structuredContent"]
    assert (trusted["status"], trusted["result"]["exitCode"]) == ("done", 0)
    for wrong in ({}, {"command": ["true"]}, {"command": ["true"], "approval": asked["id"]}, {"agent": "analyst", "command": ["true"], "cwd": "/", "variables": {}}):
        assert call(**wrong)["isError"]
    # Who may not ask has no such tool, and where it is off nobody has.
    file = Client(serve, TOKENS["file"])
    assert "run_shell" not in [tool["name"] for tool in file.ask("tools/list")["tools"]]
    assert file.ask("tools/call", name="run_shell", arguments={"approval": asked["id"]})["error"]["code"] == -32602
    assert serve.stop() == 0
    serve.configure(clients=CLIENTS, sessions=SHARED)
    serve.start("--accept-degraded")
    assert "run_shell" not in [tool["name"] for tool in alice.ask("tools/list")["tools"]]
    assert alice.ask("tools/call", name="run_shell", arguments={"approval": asked["id"]})["error"]["code"] == -32602


ASKS = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}


def test_by_mcp_of_a_client_that_can_ask_its_user(serve, room):
    """The call goes on until a person has decided; what its user answers, and what comes as state, decides and begins nothing."""
    alice, bob = Client(serve, TOKENS["users"], "alice"), Client(serve, TOKENS["users"], "bob")
    wish = {"agent": "analyst", "command": ["echo", "a\u202eb\x1b"], "cwd": str(room)}

    def call(who=alice, arguments=wish, modes=ASKS, **more):
        return who.ask("tools/call", name="run_shell", arguments=arguments, _meta=meta(**modes), **more)

    def again(state, action="accept", **more):
        return call(requestState=state, inputResponses={"approval": {"action": action, "content": {}}}, **more)

    def asked():
        return [entry["id"] for entry in serve.entries() if entry["event"] == "asked"]

    first = call()
    assert first["resultType"] == "input_required" and "structuredContent" not in first and "content" not in first
    (question,) = first["inputRequests"].values()
    (approval,) = asked()
    assert question["method"] == "elicitation/create" and approval in question["params"]["message"]
    assert question["params"]["mode"] == "form" and question["params"]["requestedSchema"] == {"type": "object", "properties": {}}
    assert "'a\\u202Eb\\x1B'" in question["params"]["message"] and not re.search("[\x1b\u202e]", question["params"]["message"])
    state = first["requestState"]
    # Another's, another call's, none: nothing is asked for, and nothing told.
    for refused in (again(state, who=bob), again(state, arguments={**wish, "command": ["true"]}), again("x"), again(7), again(approval),
                    again(state.replace(approval, "a-" + "a" * 26)), again(state, arguments={**wish, "reason": "other"})):  # fmt: skip
        assert refused["resultType"] == "complete" and refused["isError"] and "structuredContent" not in refused
    # Without, as it stands.
    for action in ("decline", "cancel"):
        left = again(state, action)
        assert left["resultType"] == "complete" and left["structuredContent"]["status"] == "pending" and approval in left["structuredContent"]["next"]
    # A user who says yes where the client asks has approved nothing.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waits = pool.submit(again, state)
        with pytest.raises(concurrent.futures.TimeoutError):
            waits.result(1)
        assert serve.show({"id": approval})["status"] == "pending"
        assert serve.decide({"id": approval}).status == 200
        done = waits.result(60 * PATIENCE)
    assert (done["resultType"], done["structuredContent"]["status"]) == ("complete", "done")
    assert done["structuredContent"]["result"]["stdout"]["content"] == "a\u202eb\x1b\n" and asked() == [approval]
    # The same state tells it again, and runs nothing.
    assert again(state)["structuredContent"]["result"] == done["structuredContent"]["result"]
    assert [entry["event"] for entry in serve.entries()].count("began") == 1
    # Who cannot be asked with a form has the id; so has whoever asks by it.
    for modes in ({}, {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}}):
        assert call(modes=modes)["structuredContent"]["status"] == "pending"
    before = Client(serve, TOKENS["users"], "alice", newest=False)
    old = before.ask("tools/call", name="run_shell", arguments=wish)
    assert "resultType" not in old and old["structuredContent"]["status"] == "pending"
    assert call(arguments={"approval": old["structuredContent"]["id"]})["structuredContent"]["status"] == "pending"


def test_by_mcp_with_the_sdk(serve, room):
    """Its client asks and calls again by itself; the person presses before there is a decision, and is asked once more."""
    shown = []

    async def user(context, params):
        shown.append(params.message)
        if len(shown) == 2:
            serve.decide({"id": re.search("a-[a-z2-7]{26}", params.message)[0]}, "deny", "not now")
        return mcp.types.ElicitResult(action="accept", content={})

    async def go():
        headers = {"Authorization": f"Bearer {TOKENS['users']}", "Berth-Owner": "alice"}
        async with httpx2.AsyncClient(headers=headers, timeout=120 * PATIENCE) as http:
            async with mcp.Client(streamable_http_client(f"http://127.0.0.1:{serve.port}/mcp", http_client=http), elicitation_callback=user) as found:
                return await found.call_tool("run_shell", {"agent": "analyst", "command": ["true"], "cwd": str(room)})

    answer = asyncio.run(go())
    assert len(shown) == 2 and (answer.structured_content["status"], answer.structured_content["note"]) == ("denied", "not now")


def test_on_the_page(serve, room, chromium):  # noqa: F811
    """Asked for while somebody looks, approved by a press, and told how it went."""
    looking = Looking(chromium, serve)
    page = looking.open(TOKENS["self"])
    go(page, "Approvals")
    expect(page.get_by_text("Nothing waits for an approval.")).to_be_visible()
    command = ["sh", "-c", "printf 'a\u202eb <b>x</b>\\033[1m'; exit 3"]
    asked = serve.ask_for(*command, cwd=str(room), reason="<b>why</b>\u2066")
    article = page.get_by_role("article")
    expect(article).to_have_count(1)
    for text in ("\\u202e", str(room), USER, "analyst", "users", "company/alice", "<b>why</b>\\u2066", asked["program"], "pending"):
        expect(article).to_contain_text(text)
    article.get_by_role("button", name="Approve").click()
    expect(article).to_contain_text("done")
    expect(article.get_by_role("group", name="Output")).to_have_text("a\\u202eb <b>x</b>\\x1b[1m")
    expect(article).to_contain_text("error, exit code 3")
    expect(article.get_by_role("button")).to_have_count(0)
    gone = serve.ask_for(str(program(room, "gone", "true\n")))
    expect(article).to_have_count(2)
    (room / "gone").unlink()
    article.first.get_by_role("button", name="Approve").click()
    expect(article.first).to_contain_text("failed, it did not run: ")
    denied = serve.ask_for("true")
    expect(article).to_have_count(3)
    article.first.get_by_role("button", name="Deny").click()
    expect(article.first).to_contain_text("denied")
    assert [serve.show(one)["status"] for one in (asked, gone, denied)] == ["done", "done", "denied"]
    # Who may only look has nothing to press.
    serve.ask_for("true")
    other = looking.open(TOKENS["watcher"])
    go(other, "Approvals")
    expect(other.get_by_role("article")).to_have_count(4)
    expect(other.get_by_role("article").get_by_role("button")).to_have_count(0)
    looking.close()


def test_words_that_differ_do_not_look_alike(serve, room, chromium):  # noqa: F811
    """On the page as in the terminal: blanks that are none, fillers, joiners, what runs from right to left, a backslash that is one."""
    words = {
        "\\u200d": "'\\\\u200d'", "it's": "'it\\'s'", "\u0434\u200d\u0430": "'\u0434\\u200d\u0430'", "a\u00a0b": "'a\\xa0b'", "a\u3164": "'a\\u3164'",
        "a\ufe0f": "'a\\ufe0f'", "\u00fc": "'\u00fc'", "u\u0308": "'u\\u0308'", "a\u05d0/\u05d1": "'a\\u05d0/\\u05d1'", "a\U000e0100": "'a\\U000e0100'",
    }  # fmt: skip
    folder = room / "a\u00a0b"
    folder.mkdir()
    asked = serve.ask_for("printf", *words, cwd=str(folder))
    looking = Looking(chromium, serve)
    page = looking.open(TOKENS["self"])
    go(page, "Approvals")
    expect(page.get_by_role("group", name="Command")).to_have_text("printf " + " ".join(words.values()))
    expect(page.get_by_role("article")).to_contain_text(f"'{room}/a\\xa0b'")
    looking.close()
    shown = serve.berth("approvals", "show", asked["id"]).expect(0).out
    for text in words.values():
        assert text.lower().replace("\\xa0", "\\u00a0") in shown.lower(), (text, shown)
    assert f"'{room}/a\\u00A0b'" in shown


def test_what_is_pointed_at_on_the_page_stays_there(serve, room, chromium):  # noqa: F811
    """An agent that asks for more, just before somebody presses, has nothing else approved."""
    looking = Looking(chromium, serve)
    page = looking.open(TOKENS["self"])
    meant = serve.ask_for("echo", "meant")
    go(page, "Approvals")
    button = page.get_by_role("article").filter(has_text="echo meant").get_by_role("button", name="Approve")
    button.hover()
    box = button.bounding_box()
    others = [serve.ask_for("echo", f"not-meant-{n}", reason="long\n" * n) for n in range(4)]
    expect(page.get_by_role("article")).to_have_count(5)
    serve.decide(others[3])  # it grows: what it printed comes
    expect(page.get_by_role("article").filter(has_text="not-meant-3").get_by_role("group", name="Output")).to_be_visible()
    assert abs(button.bounding_box()["y"] - box["y"]) < box["height"] / 2  # the pointer, at its middle, is on it
    page.mouse.down()
    page.mouse.up()
    expect(page.get_by_role("article").filter(has_text="echo meant")).to_contain_text("done")
    assert [serve.show(one)["status"] for one in (meant, *others)] == ["done", "pending", "pending", "pending", "done"]
    looking.close()
