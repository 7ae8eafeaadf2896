# SPDX-License-Identifier: Apache-2.0
"""
Files of a session on Lambda: brought in and out by presigned requests over TLS, with an authority of the tests beside the runtime.
"""

import contextlib
import hashlib
import json
import os
import threading
from pathlib import Path

import pytest

from lambda_bucket import TRANSFER, WORKSPACE, Bucket, fates, with_bucket
from runtime_api import pids_of, read_messages

@pytest.fixture
def session(program, tmp_path):
    with with_bucket(program, tmp_path) as made:
        yield made


def test_what_changed_goes_out_and_what_is_lacking_comes_in(session):
    bucket = session.bucket
    bucket.objects[WORKSPACE + "data/in.csv"] = b"a,b\n"
    answer = session.ok("import os\nopen('out.txt', 'w').write(open('data/in.csv').read() * 2)\nos.makedirs('d/é')\nopen('d/é/x y', 'wb').write(bytes(range(256)))")
    assert fates(answer) == [("changed", "d/é/x y"), ("changed", "out.txt")] and answer.end["files"]["complete"]
    assert bucket.objects[WORKSPACE + "out.txt"] == b"a,b\na,b\n" and bucket.objects[WORKSPACE + "d/é/x y"] == bytes(range(256))
    assert {file["path"]: file["sha256"] for file in answer.files}["out.txt"] == hashlib.sha256(b"a,b\na,b\n").hexdigest()
    bucket.calls.clear()
    # Nothing moves that is alike on both sides, and one object says what came of it.
    answer = session.ok("1")
    assert answer.files == [] and bucket.calls == [("POST", f"{TRANSFER}2/result")]
    # The environment is lost: all is there in the next one.
    session.environment.lose()
    session.environment.wait_ready()
    assert session.ok("open('out.txt').read(), len(open('d/é/x y', 'rb').read())").text == "('a,b\\na,b\\n', 256)"


def test_files_that_are_left_open_go_out_with_what_was_written(session):
    """An environment of Lambda ends without notice: after the execution there is no other moment."""
    answer = session.ok("f = open('open.txt', 'w')\nf.write('hello');")
    assert fates(answer) == [("changed", "open.txt")] and session.bucket.objects[WORKSPACE + "open.txt"] == b"hello"
    session.ok("f.write(' again');")
    assert session.bucket.objects[WORKSPACE + "open.txt"] == b"hello again"


def test_the_result_is_left_and_is_the_answer(session):
    answer = session.ok("print('said'); 42")
    left = read_messages(session.bucket.objects[f"{TRANSFER}1/result"])
    assert left == answer.invocation.messages() and answer.end["leftResult"] is True and left[-1][0]["type"] == "end"
    # Who asks again, and who comes too late, does not write over it.
    event = json.loads(answer.invocation.event)
    for change in ({}, {"startedAtMs": 1}):
        again = session.finish(session.api.invoke({**event, **change}, session.tenant))
        assert again.end["refused"] == "repeated" and again.end["leftResult"] is False
    session.ok("1")
    assert session.finish(session.api.invoke(event, session.tenant)).end["refused"] == "repeated"
    assert read_messages(session.bucket.objects[f"{TRANSFER}1/result"]) == left


def test_deletions_both_ways(session):
    bucket = session.bucket
    session.ok("for name in 'abc': open(name, 'w').write(name)")
    answer = session.ok("import os; os.unlink('a')")
    assert fates(answer) == [("deleted", "a")]
    del bucket.objects[WORKSPACE + "b"]
    assert session.ok("sorted(os.listdir())").text == "['c']"
    bucket.objects[WORKSPACE + "c"] = b"from outside"
    assert session.ok("open('c').read()").text == "'from outside'"
    # Gone after it was listed, as by a lifecycle rule.
    event = session.event("sorted(os.listdir())")
    event["workspace"]["files"].append({"path": "rule", **bucket.get(WORKSPACE + "rule", b"x")})
    answer = session.finish(session.api.invoke(event, session.tenant))
    assert ("gone", "rule") in fates(answer) and answer.text == "['c']"


def test_what_was_not_looked_at_is_not_taken_for_deleted(session):
    keys = [f"{WORKSPACE}all/{number}/file" for number in range(300)]
    session.bucket.objects.update(dict.fromkeys(keys, b"x"))
    answer = session.ok("import os\nopen('all/299/more', 'w').close()\nopen('all/0/more', 'w').close()")
    assert fates(answer) == [("changed", "all/0/more"), ("changed", "all/299/more")]
    answer = session.ok("os.chmod('all/7', 0)")
    assert fates(answer) == [("skipped", "all/7")] and set(keys) <= set(session.bucket.objects)
    answer = session.ok("os.chmod('all/7', 0o700)")
    assert fates(answer) == [] and set(keys) <= set(session.bucket.objects)
    deep = "here = os.getcwd()\nfor i in range(70): os.mkdir('d' * 250); os.chdir('d' * 250)\nopen('f', 'w').close(); os.chdir(here); open('g', 'w').close()"
    answer = session.ok(deep)
    assert answer.end["files"]["complete"] and [fate for fate, _ in fates(answer)] == ["changed", "skipped"]


def test_what_cannot_go_out_is_said(session):
    session.limits = {"maxBytes": 1000, "maxFiles": 3}
    answer = session.ok("import os\nos.symlink('/etc/passwd', 'link'); os.mkfifo('pipe'); open(b'\\xff', 'w').close(); open('large', 'wb').write(bytes(2000)); open('small', 'w').write('x')")
    said = {file["path"]: file["reason"] for file in answer.files if file["fate"] == "skipped"}
    assert said == {"link": "it is no regular file", "pipe": "it is no regular file", "\\xFF": "its name is not UTF-8", "large": "there is no room for it in the workspace"}
    assert [key for key in session.bucket.objects if key.startswith(WORKSPACE)] == [WORKSPACE + "small"]


def test_links_lead_nowhere(session):
    """What the bucket has under a name that code has made a link: nothing outside of the workspace is written, or read."""
    session.environment.temporary.joinpath("outside").mkdir(mode=0o777)
    session.ok("import os; os.symlink('/tmp/outside', 'd')")
    session.bucket.objects[WORKSPACE + "d/file"] = b"in"
    answer = session.run("1")
    assert list(session.environment.temporary.joinpath("outside").iterdir()) == []
    assert ("skipped", "d/file") in fates(answer)


def test_a_bucket_that_fails(session):
    bucket = session.bucket
    bucket.objects[WORKSPACE + "in"] = b"x"
    bucket.faults.append(["GET", WORKSPACE, 503, 2])
    assert session.ok("open('in').read()").text == "'x'"
    bucket.faults[:] = [["POST", WORKSPACE, 500, 100]]
    answer = session.ok("open('out', 'w').write('y')")
    assert not answer.end["files"]["complete"] and "answered 500" in answer.end["files"]["reason"] and fates(answer) == [("skipped", "out")]
    bucket.faults.clear()
    assert fates(session.ok("1")) == [("changed", "out")]
    # What cannot be brought in is not run over.
    bucket.objects[WORKSPACE + "more"] = b"z"
    bucket.faults[:] = [["GET", WORKSPACE, 403, 1]]
    answer = session.run("open('ran', 'w')")
    assert answer.end["refused"] == "failed" and "403 Fault" in answer.refused and answer.done is None
    bucket.faults.clear()
    listing = session.event("1")
    listing["workspace"]["files"][0]["sha256"] = "0" * 64
    answer = session.finish(session.api.invoke(listing, session.tenant))
    assert answer.end["refused"] == "failed" and "not what it should be" in answer.refused
    assert session.ok("import os; sorted(os.listdir())").text == "['in', 'more', 'out']"


def test_only_who_is_vouched_for_gets_the_requests(session, tmp_path):
    (tmp_path / "other").mkdir()
    other = Bucket(tmp_path / "other")
    try:
        other.objects[WORKSPACE + "x"] = b"x"
        session.bucket = other
        answer = session.run("1")
        assert answer.end["refused"] == "failed" and "CERTIFICATE_VERIFY_FAILED" in answer.refused
        assert other.calls == []
    finally:
        other.close()


def test_more_files_than_fit_are_a_list_that_is_fetched(session):
    bucket = session.bucket
    for number in range(300):
        bucket.objects[f"{WORKSPACE}many/{number}"] = b"%d" % number
    data = json.dumps(bucket.listing()).encode()
    bucket.objects[TRANSFER + "1/list"] = data
    workspace = {"files": [], "more": bucket.get(TRANSFER + "1/list"), "put": bucket.policy(WORKSPACE), **session.limits}
    answer = session.ok("import os\nfor i in range(300): open(f'made-{i}', 'w').write(str(i))\nlen(os.listdir('many')), open('many/299').read()", workspace=workspace)
    assert answer.text == "(300, '299')" and len(answer.files) == 300
    bucket.objects[TRANSFER + "1/list"] = data + b" "
    assert session.run("1", workspace=workspace).end["refused"] == "failed"


def test_code_sees_no_request(session):
    """What stays behind looks at all that it can of what moves files, all the time."""
    session.ok("""
import os, subprocess, sys
spy = '''
import os, time
found = set()
while not os.path.exists('/tmp/stop'):
    for pid in filter(str.isdigit, os.listdir('/proc')):
        for name in ('cmdline', 'environ', 'mem', 'fd'):
            try:
                path = f'/proc/{pid}/{name}'
                data = b''.join(open(f'{path}/{fd}', 'rb').read(1 << 20) for fd in os.listdir(path) if not os.readlink(f'{path}/{fd}').startswith(('pipe', '/dev', 'socket', 'anon'))) if name == 'fd' and int(pid) != os.getpid() else open(path, 'rb').read(1 << 20)
            except OSError:
                continue
            if (b'not-to-be' + b'-seen') in data: found.add((pid, name))
open('/tmp/found', 'w').write(repr(sorted(found)))
'''
_ = subprocess.Popen([sys.executable, '-c', spy.replace("b'not-to-be' + b'-seen'", "bytes([110, 111, 116]) + b'-to-be-seen'")], start_new_session=True)
""")
    for number in range(4):
        session.bucket.objects[f"{WORKSPACE}in-{number}"] = os.urandom(1000)
        session.ok(f"open('out-{number}', 'w').write('x')")
    session.ok("open('/tmp/stop', 'w').close()\nimport time\nwhile not os.path.exists('/tmp/found') or not open('/tmp/found').read(): time.sleep(0.05)")
    assert session.environment.temporary.joinpath("found").read_text() == "[]"


def test_code_cannot_become_what_moves_files(session):
    """What stays behind writes another program into that of what moves files, before it has begun."""
    session.ok("""
import subprocess, sys
spy = '''
import gzip, os, time
lie = gzip.compress(b"import os, socket; s = socket.socket(fileno=3); s.sendall(b'{" + bytes([34]) + b"ready" + bytes([34]) + b": true}" + bytes([92]) + b"n'); d = s.recv(1 << 20); open('/tmp/stolen', 'wb').write(d); s.sendall(b'{" + bytes([34]) + b"ok" + bytes([34]) + b": true}" + bytes([92]) + b"n')")
while not os.path.exists('/tmp/stop'):
    for pid in [pid for pid in os.listdir('/proc') if pid.isdigit() and int(pid) != os.getpid()]:
        try:
            if os.readlink(f'/proc/{pid}/fd/6').startswith('/memfd:transfer.py'):
                with open(f'/proc/{pid}/fd/6', 'r+b', buffering=0) as file:
                    file.truncate(0)
                    file.write(lie)
        except OSError:
            pass
'''
_ = subprocess.Popen([sys.executable, '-c', spy], start_new_session=True)
""")
    for number in range(6):
        session.run(f"open('out-{number}', 'w').write('x')")
    session.environment.temporary.joinpath("stop").touch()
    assert not session.environment.temporary.joinpath("stolen").exists()


def test_files_that_nobody_wants_do_not_push_others_out_of_an_answer(session):
    """Skipped ones by the ten thousands: some are told, the rest is counted, and what changed is all there."""
    answer = session.ok("import os\nfor i in range(60000): os.symlink('x', f'link-{i}')\nopen('kept', 'w').write('k'); 1", answer="buffered")
    told = fates(answer)
    assert ("changed", "kept") in told and answer.end["files"]["complete"]
    skipped = len([fate for fate, _ in told if fate == "skipped"])
    assert 0 < skipped <= 1000 and answer.end["files"]["skippedLeftOut"] == 60000 - skipped


def test_a_buffered_answer_that_is_full_says_what_it_leaves_out(session):
    """Output and paths as long as may be: the answer fits, and the result in the bucket tells all."""
    session.limits = {"maxBytes": 50 << 20, "maxFiles": 20000}
    make = """
import os
top = '\\x01' * 200 + '/' + 'd' * 200
os.makedirs(top)
for i in range(3000): open(f'{top}/{i}', 'w').close()
print('x' * 9_000_000)
"""
    answer = session.ok(make, answer="buffered")
    assert len(answer.invocation.body) <= 6291556 and answer.end["files"]["complete"]
    assert answer.end["files"]["leftOut"] == 3000 - len(answer.files) > 0
    assert answer.end["leftResult"] is True
    left = read_messages(session.bucket.objects[f"{TRANSFER}1/result"])
    assert len([head for head, _ in left if head["type"] == "file"]) == 3000 and left[-1][0]["files"]["leftOut"] == 0
    output = b"".join(body for head, body in left if head["type"] == "output")
    assert len(answer.stdout) <= len(output) == 9_000_001 - left[-1][0]["cutBytes"]


@contextlib.contextmanager
def peaks(environment):
    """The most memory that each of the runtime's processes has had, in bytes."""
    found, over = {}, threading.Event()

    def look():
        while not over.wait(0.02):
            for who, pid in pids_of(environment).items():
                with contextlib.suppress(OSError, IndexError):
                    size = int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) << 10
                    found[who] = max(found.get(who, 0), size)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def is_bounded(bucket, found):
    return bucket.most_at_once <= 16 and found["transfer"] < 80 << 20 and found["lambda"] < 40 << 20


def test_a_hundred_megabytes_out_and_in(session):
    bucket, session.limits = session.bucket, {"maxBytes": 200 << 20, "maxFiles": 1000}
    with peaks(session.environment) as found:
        answer = session.ok("import os\nopen('big', 'wb').write(os.urandom(100 << 20))")
        assert fates(answer) == [("changed", "big")] and answer.end["files"]["complete"] and is_bounded(bucket, found)
    data = bucket.objects[WORKSPACE + "big"]
    assert len(data) == 100 << 20 and hashlib.sha256(data).hexdigest() == answer.files[0]["sha256"]
    session.environment.lose()
    session.environment.wait_ready()
    with peaks(session.environment) as found:
        answer = session.ok("import hashlib; hashlib.sha256(open('big', 'rb').read()).hexdigest()")
        assert answer.text == repr(hashlib.sha256(data).hexdigest()) and is_bounded(bucket, found)


def test_ten_thousand_files_out_and_in(session):
    """What is alike on both sides takes one list and no other request."""
    bucket, session.limits = session.bucket, {"maxBytes": 200 << 20, "maxFiles": 20000}
    make = "import os\nfor i in range(10000):\n  os.makedirs(f'd{i % 100}', exist_ok=True)\n  open(f'd{i % 100}/{i}', 'w').write(str(i))"
    timing = {"timeoutMs": 600000, "seconds": 600}
    with peaks(session.environment) as found:
        answer = session.ok(make, **timing)
        assert len(answer.files) == 10000 and answer.end["files"]["complete"] and is_bounded(bucket, found)
    assert all(bucket.objects[f"{WORKSPACE}d{i % 100}/{i}"] == b"%d" % i for i in range(10000))
    bucket.objects[TRANSFER + "list"] = json.dumps(bucket.listing()).encode()
    workspace = {"files": [], "more": bucket.get(TRANSFER + "list"), "put": bucket.policy(WORKSPACE), **session.limits}
    bucket.calls.clear()
    assert session.ok("1", workspace=workspace, **timing).files == []
    assert bucket.calls == [("GET", TRANSFER + "list"), ("POST", f"{TRANSFER}2/result")]
    session.environment.lose()
    session.environment.wait_ready()
    with peaks(session.environment) as found:
        answer = session.ok("sum(int(open(f'd{i % 100}/{i}').read()) for i in range(10000))", workspace=workspace, **timing)
        assert answer.text == str(sum(range(10000))) and answer.files == [] and is_bounded(bucket, found)


def with_body(session, code, stdin=None, change=None):
    """An event whose code and input lie in the bucket; `change` makes of the object's bytes others, or removes it."""
    n, data = session.n + 1, code.encode() + (stdin or b"")
    key = f"{TRANSFER}{n}/body"
    session.bucket.objects[key] = data
    request = {"type": "execute", "n": n, **({} if stdin is None else {"stdinBytes": len(stdin)})}
    event = session.event(request=request, body=session.bucket.get(key))
    event.pop("code", None)
    if change:
        session.bucket.objects[key] = change(data)
        if session.bucket.objects[key] is None:
            del session.bucket.objects[key]
    return session.finish(session.api.invoke(event, session.tenant))


def test_code_and_input_that_an_event_has_no_room_for(session):
    stdin = bytes(range(256)) * 32768
    code = f"import sys, hashlib\nx = {'y' * 7_000_000!r}\nlen(x), hashlib.sha256(sys.stdin.buffer.read()).hexdigest()"
    answer = with_body(session, code, stdin)
    assert answer.text == repr((7_000_000, hashlib.sha256(stdin).hexdigest()))
    # Nothing of it is left for what runs next, and without input it is at its end.
    assert with_body(session, "import sys; len(x), sys.stdin.read()").text == "(7000000, '')"
    assert session.ok("len(x)").text == "7000000"


@pytest.mark.parametrize("change", [lambda data: None, lambda data: data + b"#", lambda data: b"#" + data[1:], lambda data: data[:-1]], ids=["gone", "longer", "another", "cut"])
def test_code_that_is_not_what_was_put_there_does_not_run(session, change):
    session.ok("open('ran', 'w').write('0')")
    answer = with_body(session, "open('ran', 'w').write('1')", change=change)
    assert answer.end["refused"] == "failed" and "code and input could not be brought in" in answer.end["reason"], answer.end
    assert session.ok("open('ran').read()").text == "'0'"
