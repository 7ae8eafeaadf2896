# SPDX-License-Identifier: Apache-2.0
"""E2B's interface by E2B's own SDK, unchanged; and by what no SDK would send."""

import json
import time
import urllib.parse

import pytest
from e2b import FileType, NotFoundException, SandboxException, SandboxQuery, SandboxState
from e2b.exceptions import AuthenticationException, InvalidArgumentException
from e2b_code_interpreter import Sandbox

from binary import Berth
from controllers import PATIENCE
from lib.e2b_client import NEVER, PNG, SHOWN, ask, box, error_of, options, shared, tokens  # noqa: F401
from lib.lab import TOKENS, client, stack
from serving import Serve


# --- by the SDK ---


def test_the_quickstart(box):
    box.run_code("x = 1")
    execution = box.run_code("x += 1; x")
    assert (execution.text, execution.error) == ("2", None) and execution.execution_count == 2
    seen = []
    execution = box.run_code("import sys\nprint('out')\nprint('err', file=sys.stderr)\nNone", on_stdout=seen.append, on_stderr=seen.append)
    assert ("".join(execution.logs.stdout), "".join(execution.logs.stderr), execution.results) == ("out\n", "err\n", [])
    assert "".join(message.line for message in seen if message.error) == "err\n" and len(seen) >= 2
    assert all(abs(message.timestamp / 1e9 - time.time()) < 3600 for message in seen)


def test_errors_and_displays(box):
    error = box.run_code("1 / 0").error
    assert (error.name, error.value) == ("ZeroDivisionError", "division by zero") and "1 / 0" in error.traceback
    execution = box.run_code(SHOWN + "display(Chart())\nChart()")
    shown, main = execution.results
    assert (shown.png, shown.is_main_result, main.png, main.is_main_result, main.text) == (PNG, False, PNG, True, "a chart")
    main = box.run_code("class J:\n    def _repr_mimebundle_(self, **k): return {'application/json': {'a': [1]}, 'x/y': 'z', 'text/html': '<b>'}\nJ()").results[0]
    assert (main.json, main.html, main.extra) == ({"a": [1]}, "<b>", {"x/y": "z"})
    execution = box.run_code("import os\nos.write(1, b'\\xff!') and None")
    assert "".join(execution.logs.stdout) == "\ufffd!"
    error = box.run_code("echo hi; exit 3", language="bash").error
    assert (error.name, error.value) == ("SystemExit", "exit code 3")


def test_variables_of_the_environment(box):
    code = "import os; os.environ.get('FROM'), os.environ.get('RUN')"
    assert box.run_code(code, envs={"RUN": "this"}).text == "('create', 'this')"
    assert box.run_code(code).text == "('create', None)"
    assert box.run_code("echo $FROM $RUN", language="bash", envs={"RUN": "sh"}).logs.stdout[0].startswith("create sh")
    assert "".join(box.run_code("words=(a b); echo ${words[1]} $'\\t' {c,d}; echo -e 'e\\tf'", language="bash").logs.stdout) == "b \t c d\ne\tf\n"
    assert "".join(box.run_code("echo {c,d}", language="sh").logs.stdout) == "{c,d}\n"
    with pytest.raises(Exception, match="language must be"):
        box.run_code("1", language="r")


@pytest.mark.here("its code names /workspace, and on AWS only its working folder is the workspace")
def test_contexts(box):
    box.run_code("import os; os.makedirs('/workspace/it', exist_ok=True); z = 1")
    context = box.create_code_context(cwd="/home/user/it", language="python")
    assert (context.language, context.cwd) == ("python", "/workspace/it")
    assert box.run_code("import os; os.getcwd()", context=context).text == "'/workspace/it'"
    assert box.run_code("z", context=context).error.name == "NameError"
    box.run_code("z = 5", context=context)
    shell = box.create_code_context(cwd="/workspace/it", language="bash")
    assert "".join(box.run_code("pwd", context=shell).logs.stdout) == "/workspace/it\n"
    assert [found.id for found in box.list_code_contexts()] == ["main", context.id, shell.id]
    box.restart_code_context(context)
    assert box.run_code("z", context=context).error.name == "NameError"
    assert box.run_code("import os; os.getcwd()", context=context).text == "'/workspace/it'"
    box.run_code("z = 6", context=context)
    box.remove_code_context(context)
    with pytest.raises(Exception, match="no such context"):
        box.run_code("z", context=context)
    again = box.create_code_context()
    assert again.id != context.id and box.run_code("z", context=again).error.name == "NameError"
    assert box.run_code("z").text == "1"
    more = [box.create_code_context() for _ in range(5)]
    with pytest.raises(Exception, match="8 contexts"):
        box.create_code_context()
    for found in [again, shell, *more]:
        box.remove_code_context(found)
    with pytest.raises(Exception, match="no folder"):
        box.create_code_context(cwd="/workspace/never")
    with pytest.raises(Exception, match="language must be"):
        box.create_code_context(language="r")
    assert [found.id for found in box.list_code_contexts()] == ["main"]
    assert box.get_info().metadata == {"team": "a b", "n": "1"}


@pytest.mark.here("its code names /workspace, and on AWS only its working folder is the workspace")
def test_files(box):
    written = box.files.write("/home/user/data/größe.txt", "10 m\n")
    assert (written.name, written.path, written.type) == ("größe.txt", "/workspace/data/größe.txt", FileType.FILE)
    assert box.run_code("open('data/größe.txt').read()").text == "'10 m\\n'"
    assert box.files.read("data/größe.txt") == "10 m\n"
    both = box.files.write_files([{"path": "a/1.bin", "data": b"\0\xff"}, {"path": "./a/2 \u00fc.txt", "data": "two"}])
    assert [found.path for found in both] == ["/workspace/a/1.bin", "/workspace/a/2 \u00fc.txt"]
    assert box.files.read("/workspace/a/1.bin", format="bytes") == b"\0\xff"
    assert b"".join(box.files.read("a/1.bin", format="stream")) == b"\0\xff"
    box.run_code("open('/workspace/made.txt', 'w').write('by code')")
    assert box.files.read("made.txt") == "by code"
    with pytest.raises(NotFoundException):
        box.files.read("never.txt")


@pytest.mark.here("its code names /workspace, and on AWS only its working folder is the workspace")
def test_file_system(box):
    files = box.files
    assert files.make_dir("tree/deep/er") and not files.make_dir("/home/user/tree") and not files.make_dir("/workspace")
    assert box.run_code("import os; os.path.isdir('/workspace/tree/deep/er')").text == "True"
    files.write("tree/one.txt", "1")
    files.write("tree/deep/two.txt", "22")
    found = files.list("tree")
    assert [(entry.path, entry.type, entry.size) for entry in found] == [
        ("/workspace/tree/deep", FileType.DIR, 0), ("/workspace/tree/one.txt", FileType.FILE, 1),
    ]  # fmt: skip
    assert len(files.list("/workspace/tree", depth=5)) == 4 and files.exists("tree/one.txt")
    info = files.get_info("tree/deep/two.txt")
    assert (info.name, info.path, info.size, info.permissions) == ("two.txt", "/workspace/tree/deep/two.txt", 2, "-rw-r--r--")
    assert abs(info.modified_time.timestamp() - time.time()) < 3600
    assert files.get_info("/workspace").type == FileType.DIR
    assert files.rename("tree/deep", "moved/to/here").path == "/workspace/moved/to/here"
    assert files.rename("tree/one.txt", "moved/to/here/two.txt").size == 1
    assert not files.exists("tree/deep") and files.read("moved/to/here/two.txt") == "1"
    assert box.run_code("sorted(os.listdir('/workspace/moved/to/here'))").text == "['er', 'two.txt']"
    for source, target in (("moved", "moved/to/itself"), ("moved", "tree"), ("moved/to/here/two.txt", "tree"), ("moved", "moved/to/here/two.txt/x")):
        with pytest.raises(SandboxException):
            files.rename(source, target)
    assert not files.exists("moved/to/itself") and files.exists("moved/to/here/two.txt")
    files.remove("moved")
    assert not files.exists("moved") and box.run_code("os.path.exists('/workspace/moved')").text == "False"
    for missing in (lambda: files.remove("moved"), lambda: files.list("moved"), lambda: files.get_info("moved"), lambda: files.rename("moved", "x")):
        with pytest.raises(NotFoundException):
            missing()
    # Nothing of it is outside, or behind a link.
    box.run_code("os.symlink('/etc', 'etc'); os.symlink('tree', 'other')")
    for path in ("/etc/passwd", "/etc", "etc", "etc/passwd", "other/one.txt"):
        assert not files.exists(path), path
        for attempt in (lambda: files.remove(path), lambda: files.list(path), lambda: files.rename(path, "tree/stolen"), lambda: files.rename("tree", "/etc/x")):
            with pytest.raises((NotFoundException, InvalidArgumentException)):
                attempt()
    for path in ("../x", "/workspace/../etc", "/", "", "/workspace"):
        with pytest.raises((NotFoundException, InvalidArgumentException)):
            files.remove(path)
    with pytest.raises(InvalidArgumentException):
        files.list("tree/deep/../..")
    with pytest.raises(InvalidArgumentException):
        files.write("tree/x", "y") and files.list("tree/x")


def test_life(shared):
    given = options(shared)
    sandbox = Sandbox.create(timeout=500, metadata={"life": "1=2&3 %"}, **given)
    info = sandbox.get_info()
    assert (info.sandbox_id, info.state, info.metadata, info.template_id) == (sandbox.sandbox_id, SandboxState.RUNNING, {"life": "1=2&3 %"}, "data")
    assert 400 < (info.end_at - info.started_at).total_seconds() <= 501 and info.memory_mb == 2048
    assert shared.ask(f"/v1/sessions/{sandbox.sandbox_id}", TOKENS["self"]).json()["idleSeconds"] == 1209600
    sandbox.set_timeout(1000)
    assert 900 < (sandbox.get_info().end_at - info.started_at).total_seconds() <= 1003
    Sandbox.connect(sandbox.sandbox_id, timeout=10, **given)
    assert 900 < (sandbox.get_info().end_at - info.started_at).total_seconds() <= 1003
    assert sandbox.is_running()

    sandbox.run_code("kept = 41")
    assert sandbox.pause() is not False
    assert not sandbox.is_running() and sandbox.get_info().state == SandboxState.PAUSED
    assert not sandbox.pause()
    with pytest.raises(SandboxException):
        sandbox.run_code("kept")
    listed = Sandbox.list(query=SandboxQuery(metadata={"life": "1=2&3 %"}, state=[SandboxState.PAUSED]), **given)
    assert [found.sandbox_id for found in listed.next_items()] == [sandbox.sandbox_id] and not listed.has_next
    assert Sandbox.list(query=SandboxQuery(metadata={"life": "other"}), **given).next_items() == []
    again = Sandbox.connect(sandbox.sandbox_id, timeout=600, **given)
    assert again.is_running() and again.run_code("kept + 1").text == "42"
    assert 500 < (again.get_info().end_at - info.started_at).total_seconds() < 900

    other = Sandbox.create(template="web", **given)
    pages = Sandbox.list(limit=1, **given)
    ids = []
    while pages.has_next:
        ids += [found.sandbox_id for found in pages.next_items()]
    assert {sandbox.sandbox_id, other.sandbox_id} <= set(ids) and len(set(ids)) == len(ids)
    assert other.kill() and not Sandbox.kill(other.sandbox_id, **given)
    assert not other.is_running()
    sandbox.set_timeout(0)
    deadline = time.monotonic() + 30 * PATIENCE
    while sandbox.is_running() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not sandbox.is_running()
    with pytest.raises(Exception, match="not found|no such"):
        Sandbox.connect(sandbox.sandbox_id, **given)


def test_what_is_not_there_says_so(shared, box):
    with pytest.raises(Exception, match="does not have this part"):
        box.commands.run("true")
    with pytest.raises(Exception, match="does not have this part"):
        box.files.watch_dir("/workspace")
    with pytest.raises(Exception, match="does not have this part"):
        box.get_metrics()
    with pytest.raises(Exception, match="autoPause"):
        Sandbox.create(lifecycle={"on_timeout": "pause"}, **options(shared))
    with pytest.raises(Exception, match="there is no environment never"):
        Sandbox.create(template="never", **options(shared))
    error_of(ask(shared, "/sandboxes/x/snapshots", method="POST"), 501)
    error_of(ask(shared, "/v3/templates", {"X-API-Key": "x"}, method="POST"), 501)


@pytest.mark.here("AWS keeps the environment of a paused sandbox for a while, and with it all variables")
def test_losses_are_named(shared):
    """Of variables that a pause could not keep, the next run names each; a pause that kept all is not spoken of."""
    given = options(shared)
    with Sandbox.create(timeout=500, **given) as sandbox:
        sandbox.run_code("import threading\nkept = 41\nlock = threading.Lock()\nlines = (line for line in 'ab')")
        sandbox.pause()
        again = Sandbox.connect(sandbox.sandbox_id, **given)
        execution = again.run_code("kept + 1")
        told = "".join(execution.logs.stderr)
        assert execution.text == "42" and told.startswith("berth: ") and told.endswith("\n") and told.count("\n") == 1
        assert "lock (" in told and "lines (" in told and "kept" not in told
        assert again.run_code("kept").logs.stderr == []
        again.run_code("del threading\n" + "\n".join(f"l{n} = (i for i in '')" for n in range(25)))
        again.pause()
        again = Sandbox.connect(sandbox.sandbox_id, **given)
        told = "".join(again.run_code("1").logs.stderr)
        assert "; and 5 more" in told and "l0 (" in told
        again.pause()
        assert Sandbox.connect(sandbox.sandbox_id, **given).run_code("kept").logs.stderr == []


# --- by others ---


def end_of_stream(answer, type):
    """The error in the last message of a stream, which is the only one."""
    assert (answer.status, answer.headers["content-type"]) == (200, type), (answer.status, answer.headers, answer.body)
    assert answer.body[0] == 2 and int.from_bytes(answer.body[1:5], "big") == len(answer.body) - 5
    found = json.loads(answer.body[5:])
    assert set(found) == {"error"} and set(found["error"]) == {"code", "message"} and found["error"]["message"]
    return found["error"]["code"]


@pytest.mark.parametrize("type", ["application/connect+json", "application/connect+proto"])
def test_streams_end_with_their_error(shared, box, type):
    headers = {**tokens(box), "E2b-Sandbox-Id": box.sandbox_id, "Content-Type": type}
    wrong = {"X-Access-Token": "x", "E2b-Sandbox-Id": box.sandbox_id, "Content-Type": type + "; charset=utf-8"}
    for path in ("/process.Process/Start", "/process.Process/Connect", "/filesystem.Filesystem/WatchDir"):
        assert end_of_stream(ask(shared, path, headers, method="POST", body=b"\0\0\0\0\2{}"), type) == "unimplemented"
    # A procedure that is no stream: what is wrong is told in the form that was asked for.
    assert end_of_stream(ask(shared, "/filesystem.Filesystem/Stat", wrong, method="POST", body=b"\0\0\0\0\2{}"), type) == "unavailable"
    huge = {**headers, "Content-Length": str(64 << 20)}
    assert end_of_stream(ask(shared, "/filesystem.Filesystem/Stat", huge, method="POST"), type) == "resource_exhausted"


def test_procedures_answer_their_errors(shared, box):
    headers = {**tokens(box), "E2b-Sandbox-Id": box.sandbox_id, "Content-Type": "application/json"}
    for path, change, body, status, code in (
        ("/process.Process/List", {}, b"{}", 501, "unimplemented"),
        ("/filesystem.Filesystem/Stat", {"X-Access-Token": None}, b"{}", 401, "unauthenticated"),
        ("/filesystem.Filesystem/Stat", {"X-Access-Token": "x"}, b"{}", 502, "unavailable"),
        ("/filesystem.Filesystem/Stat", {}, b'{"path": "never"}', 404, "not_found"),
        ("/filesystem.Filesystem/Stat", {}, b"{", 400, "invalid_argument"),
        ("/filesystem.Filesystem/Stat", {"Content-Type": "application/proto"}, b"\n\1x", 415, "invalid_argument"),
    ):
        sent = {name: value for name, value in {**headers, **change}.items() if value}
        answer = ask(shared, path, sent, method="POST", body=body)
        assert (answer.status, answer.headers["content-type"]) == (status, "application/json"), (path, change, answer.body)
        assert json.loads(answer.body)["code"] == code


def test_the_key_opens_the_api_alone(shared, box):
    error_of(ask(shared, "/v2/sandboxes"), 401)
    error_of(ask(shared, "/v2/sandboxes", {"X-API-Key": "wrong"}), 401)
    error_of(ask(shared, "/v2/sandboxes", {"Authorization": f"Bearer {TOKENS['self']}"}), 401)
    error_of(ask(shared, "/v2/sandboxes", {"X-API-Key": box._envd_access_token}), 401)
    error_of(ask(shared, "/v2/sandboxes", {"X-API-Key": TOKENS["watcher"]}), 403)
    error_of(ask(shared, "/v2/sandboxes", {"X-API-Key": TOKENS["users"]}), 400)
    with pytest.raises(AuthenticationException):
        Sandbox.create(**{**options(shared), "api_key": "wrong"})
    key = {"X-API-Key": TOKENS["self"], "E2b-Sandbox-Id": box.sandbox_id}
    for headers in (key, {**key, "X-Access-Token": TOKENS["self"]}, {**key, "Authorization": f"Bearer {TOKENS['self']}"}):
        for method, path in (("POST", "/execute"), ("GET", "/contexts"), ("GET", "/health"), ("GET", "/files?path=x")):
            body = b"{}" if method == "POST" else None
            error_of(ask(shared, path, headers, method=method, body=body), 502 if "X-Access-Token" in headers and path != "/contexts" else 401)
    # The token of one kind is none of the other; Berth's own API takes neither.
    swapped = {"E2b-Sandbox-Id": box.sandbox_id, "X-Access-Token": box.traffic_access_token, "E2B-Traffic-Access-Token": box._envd_access_token}
    assert "was not found" in error_of(ask(shared, "/health", swapped), 502)
    assert "was not found" in error_of(ask(shared, "/contexts", swapped), 502)
    assert shared.ask("/v1/sessions", box._envd_access_token).status == 401
    assert ask(shared, "/v1/sessions", {"X-API-Key": TOKENS["self"]}).status == 401


def test_another_is_gone(shared, box):
    given = options(shared, "narrow")
    with pytest.raises(Exception, match="no environment data"):
        Sandbox.create(**given)
    other = Sandbox.create(template="web", **given)
    try:
        # By its own API it is not there, byte for byte as what never was.
        for method, path in (("GET", "/sandboxes/{}"), ("DELETE", "/sandboxes/{}"), ("POST", "/sandboxes/{}/pause"),
                             ("POST", "/sandboxes/{}/timeout"), ("POST", "/v2/sandboxes/{}/connect")):  # fmt: skip
            body = b'{"timeout": 5}' if method == "POST" else None
            headers = {"X-API-Key": TOKENS["narrow"], "Content-Type": "application/json"}
            first, second = (ask(shared, path.format(one), headers, method=method, body=body) for one in (box.sandbox_id, NEVER))
            assert error_of(first, 404) == error_of(second, 404)
        assert [found.sandbox_id for found in Sandbox.list(**given).next_items()] == [other.sandbox_id]
        for headers in (tokens(other), {name: value[:-1] + ("0" if value[-1] != "0" else "1") for name, value in tokens(box).items()},
                        {name: "x" for name in tokens(box)}, {name: "." * 3000 for name in tokens(box)}):  # fmt: skip
            for method, path in (("GET", "/health"), ("GET", "/contexts"), ("GET", "/files?path=a"), ("POST", "/files?path=a"), ("POST", "/execute")):
                answer = ask(shared, path, {**headers, "E2b-Sandbox-Id": box.sandbox_id}, method=method, body=b"{}" if method == "POST" else None)
                assert "was not found" in error_of(answer, 502)
        assert other.is_running() and box.is_running()
    finally:
        other.kill()
    assert "was not found" in error_of(ask(shared, "/health", {**tokens(other), "E2b-Sandbox-Id": other.sandbox_id}), 502)


def test_users_are_apart(shared):
    """A client that acts for users names one by a header, which the SDK passes on."""
    alice, bob = ({**options(shared, "users"), "headers": {"Berth-Owner": name}} for name in ("alice", "bob"))
    made = Sandbox.create(template="web", **alice)
    try:
        assert shared.ask(f"/v1/sessions/{made.sandbox_id}", TOKENS["users"], headers=[("Berth-Owner", "alice")]).json()["owner"] == "company/alice"
        assert Sandbox.list(**bob).next_items() == [] and not Sandbox.kill(made.sandbox_id, **bob)
        assert made.is_running()
    finally:
        assert made.kill()


def test_hostile_paths(shared, box):
    headers = {**tokens(box), "E2b-Sandbox-Id": box.sandbox_id}
    box.run_code("import os\nos.symlink('/etc/passwd', 'link'); os.symlink('/etc', 'folder'); os.mkfifo('pipe')")
    for path in ("/etc/passwd", "../x", "/workspace/../etc/passwd", "/home/user/../../etc/passwd", "/workspaces/x", "", "/", "/workspace", "a\0b",
                 "x" * 1000, "/".join("d" * 70), "link", "folder/passwd", "pipe", "\x1b[31m/../"):  # fmt: skip
        quoted = urllib.parse.quote(path, safe="")
        assert ask(shared, f"/files?path={quoted}", headers).status in (400, 404), path
        if path in ("link", "pipe", "folder/passwd"):
            continue  # links and pipes are in no workspace: what is put there lies in it
        boundary = {**headers, "Content-Type": "multipart/form-data; boundary=b"}
        body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nmine\r\n--b--\r\n'
        assert ask(shared, f"/files?path={quoted}", boundary, method="POST", body=body).status in (400, 409), path
    with pytest.raises(InvalidArgumentException):
        box.files.read("/etc/passwd")
    with pytest.raises(InvalidArgumentException):
        box.files.write("/etc/motd", "mine")


def test_hostile_bodies(shared, box):
    headers = {**tokens(box), "E2b-Sandbox-Id": box.sandbox_id, "Content-Type": "application/json"}
    key = {"X-API-Key": TOKENS["self"], "Content-Type": "application/json"}
    for body in (b"", b"[]", b"{", b'{"code": 1}', b'{"code": "1", "code": "2"}', b'{"code": "\xff"}', b'{"code": "a\\u0000"}', b'{"code": "1", "env_vars": []}',
                 b'{"code": "1", "env_vars": {"A": 1}}', b'{"code": "1", "env_vars": {"A=B": "1"}}', b'{"code": "1", "context_id": "main", "language": "python"}',
                 b"[" * 100000, b'{"code": "1", "language": ""}'):  # fmt: skip
        error_of(ask(shared, "/execute", headers, method="POST", body=body), 400)
    for id in ("c1", "c1-", "main\\n", "../main", "c9-0000", ""):
        error_of(ask(shared, "/execute", headers, method="POST", body=json.dumps({"code": "1", "context_id": id}).encode()), 404)
    for body in (b"", b"[]", b"{}", b'{"templateID": 1}', b'{"templateID": ""}', b'{"templateID": "a\\u0000b"}', b'{"templateID": "data", "timeout": -1}',
                 b'{"templateID": "data", "timeout": 1209600}', b'{"templateID": "data", "timeout": 1e9}', b'{"templateID": "data", "timeout": 99999999999999999999}',
                 b'{"templateID": "data", "metadata": []}', b'{"templateID": "data", "metadata": {"a": 1}}', b'{"templateID": "data", "metadata": {"e2b:c1": "x"}}',
                 b'{"templateID": "data", "metadata": {"": "x"}}', b'{"templateID": "data", "metadata": {"a=b": "x"}}',
                 json.dumps({"templateID": "data", "metadata": {"a": "x" * 257}}).encode(), json.dumps({"templateID": "data", "metadata": {str(n): "" for n in range(57)}}).encode(),
                 b'{"templateID": "data", "envVars": {"1": "x"}}', b'{"templateID": "data", "timeout": true}'):  # fmt: skip
        error_of(ask(shared, "/v2/sandboxes", key, method="POST", body=body), 400)
    error_of(ask(shared, "/v2/sandboxes", {"X-API-Key": TOKENS["self"], "Content-Type": "text/plain"}, method="POST", body=b'{"templateID": "data"}'), 415)
    for query in ("limit=0", "limit=1001", "limit=x", "state=gone", "metadata=a", "metadata=a%3D%25f", "startedAfter=now", "order=up", f"nextToken={NEVER}"):
        error_of(ask(shared, f"/v2/sandboxes?{query}", key), 400)
    form = {**headers, "Content-Type": "multipart/form-data; boundary=b"}
    for body in (b"", b"x", b'--b\r\nContent-Disposition: form-data; name="other"; filename="x"\r\n\r\nmine\r\n--b--\r\n',
                 b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nmine\r\n--b--\r\n', b'--b\r\nContent-Disposition: form-data; name="file"; filename="cut"\r\n\r\nmine'):  # fmt: skip
        error_of(ask(shared, "/files", form, method="POST", body=body), 400)
    error_of(ask(shared, "/files?path=cut", {**form, "Content-Encoding": "gzip"}, method="POST", body=b"x"), 415)
    error_of(ask(shared, "/files?path=x", headers, method="POST", body=b"{}"), 415)
    with pytest.raises(NotFoundException):
        box.files.read("cut")
    # Told before it is sent: nobody reads it.
    huge = {**form, "Content-Length": str(200 << 20)}
    assert ask(shared, "/files?path=huge", huge, method="POST").status == 413
    assert ask(shared, "/execute", {**headers, "Content-Length": str(64 << 20)}, method="POST").status == 413


def test_who_stops_waiting_interrupts(shared, box):
    box.run_code("y = 1")
    with pytest.raises(Exception):
        box.run_code("import time\nwhile True: time.sleep(0.05)", timeout=1)
    assert box.run_code("y").text == "1"
    assert shared.ask(f"/v1/sessions/{box.sandbox_id}/executions?limit=1000", TOKENS["self"]).json()["items"][-2]["status"] == "interrupted"


def test_off_is_nothing(binary, tmp_path):
    berth = Berth(binary, tmp_path, "http://127.0.0.1:1")
    berth.write("stack.yaml", stack())
    berth("apply", "--yes").expect(0)
    served = Serve(berth, clients=[client("self")])
    served.start("--accept-degraded")
    try:
        assert ask(served, "/v2/sandboxes", {"X-API-Key": TOKENS["self"]}).problem(404, "no-such-route")
        assert not (served.state / "e2b.key").exists()
    finally:
        assert served.stop() == 0
