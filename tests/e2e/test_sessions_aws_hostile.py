# SPDX-License-Identifier: Apache-2.0
"""
What answers for a function is a stranger: it may be code that took its session's event, or whoever stands between. Whatever it says
concerns that session alone: no key of another one is named to S3, nothing is said to be what it cannot be, and the session goes on.
"""

import base64
import hashlib
import json

import pytest

from lib.aws_sessions import Session, bucket_of, index, post, text_of, world  # noqa: F401
from runtime_api import LENGTHS
from runtime_client import pack

pytestmark = [pytest.mark.timeout(600), pytest.mark.sampled("moto")]

SHA = hashlib.sha256(b"x").hexdigest()


def hello(**changed):
    return pack({"type": "hello", "protocol": 1, "version": "0.2.0", **changed})


def started(n, **changed):
    return pack({"type": "started", "n": n, "context": "main", "state": {"generation": 1, "was": "kept", "reason": None}, **changed})


def output(n, data=b"lie\n"):
    return pack({"type": "output", "n": n, "stream": "stdout"}, data)


def done(n, **changed):
    counts = dict.fromkeys(("wallMs", "stdoutBytes", "stderrBytes", "displaysDropped", "left"), 0)
    return pack({"type": "done", "n": n, "status": "ok", "exitCode": 0, "value": None, "error": None, "ended": None, "detail": None, **counts, **changed})


def file(path, fate="changed", **changed):
    return pack({"type": "file", "fate": fate, "path": path, "bytes": 1, "sha256": SHA if fate == "changed" else None, "reason": None, **changed})


def end(n, **changed):
    counts = dict.fromkeys(("idleMs", "frozenMs", "cutBytes", "cpuMs", "peakMemoryBytes"), 0)
    files = {"complete": True, "reason": None, "inMs": 0, "outMs": 0, "leftOut": 0, "skippedLeftOut": 0}
    checkpoint = {"bytes": 0, "ms": 0, "sha256": None, "contexts": None, "reason": None}
    return pack({"type": "end", "n": n, "boot": "0" * 32, "starts": 1, "served": 1, "was": "kept", "refused": "taken", "reason": None, **counts,
                 "checkpoint": checkpoint, "restore": {"did": "none", "ms": 0, "reason": None}, "files": files, "leftResult": False, **changed})  # fmt: skip


def answers(cloud, *messages):
    """The next invocation is answered so, and no function hears of it."""
    body = json.dumps({"berth": 1, "messages": base64.b64encode(b"".join(messages)).decode()})
    cloud.faults(({"operation": "Invoke", "times": 1}, {"kind": "answer", "status": 200, "headers": {"Content-Type": "application/json"}, "body": body}))


def whole(n, *between, behind=b""):
    return hello(), started(n), *between, done(n), end(n), behind


def forged(n, other):
    """{name: messages} of answers that cannot be."""
    return {
        "another's end": (hello(), started(n), done(n), end(n + 1)),
        "another's beginning": (hello(), started(n + 1), done(n), end(n)),
        "two ends of the code": (hello(), started(n), done(n), done(n), end(n)),
        "output of what is over": (hello(), started(n), done(n), output(n), end(n)),
        "something behind the end": whole(n, behind=output(n)),
        "two ends": whole(n, behind=end(n)),
        "another protocol": (hello(protocol=2), started(n), done(n), end(n)),
        "a length beyond all": (hello(), LENGTHS.pack(0xFFFFFFFF, 0xFFFFFFFF)),
        "a length below none": (hello(), LENGTHS.pack(0, 7) + b"nothing"),
        "up and away": whole(n, file(f"../../{other.id}/workspace/secret")),
        "up and away, deleted": whole(n, file(f"../../{other.id}/workspace/secret", "deleted")),
        "up and away, gone": whole(n, file(f"../../{other.id}/workspace/secret", "gone")),
        "from the root": whole(n, file("/secret", "deleted")),
        "a folder of no name": whole(n, file("a//b", "deleted")),
        "where it is": whole(n, file("./secret", "deleted")),
        "no digest": whole(n, file("f", sha256="x" * 64)),
        "less than nothing": whole(n, file("f", bytes=-1)),
        "more than there is": whole(n, file("f", bytes=1 << 62)),
        "an unknown fate": whole(n, file("f", "replaced")),
        "an exit nobody has seen": (hello(), started(n), done(n, status="fine"), end(n)),
        "a checkpoint of no bytes": (hello(), started(n), done(n), end(n, checkpoint={"bytes": 0, "ms": 0, "sha256": SHA, "contexts": None, "reason": None})),
        "a member that nobody knows": (hello(), started(n), done(n), end(n, more=1)),
    }  # fmt: skip


@pytest.fixture
def two(world, cloud):  # noqa: F811
    """A session that lies, and one of somebody else with a file; in a place without streams, whose answers are one text."""
    world.declare()
    cloud.settings(has_streams=False)
    server = world.serve()
    liar, other = Session(server), Session(server)
    other.run("secret = 'mine'\nopen('secret', 'w').write('mine')")
    liar.run("x = 1\nopen('own', 'w').write('own')")
    return liar, other


def number(session):
    return len(session.server.ask_socket(f"{session.path}/executions").json()["items"]) + 1


def lies(cloud, session, *messages):
    answers(cloud, *messages)
    answer = post(session.server, f"{session.path}/executions", {"code": "x", "timeoutSeconds": 1})
    cloud.faults()
    assert answer.status == 200, answer.body
    return answer.json()


def is_untouched(cloud, mark, liar, other):
    """No call of what was answered names anything of the other's, and all of it is there."""
    named = [call for call in cloud.calls(mark, service="s3") if other.id in json.dumps(call["params"])]
    assert named == []
    assert text_of(other.run("secret, open('secret').read()")) == "('mine', 'mine')"
    body = cloud.aws("s3").get_object(Bucket=bucket_of(cloud), Key=f"workspaces/sessions/{other.id}/workspace/secret")["Body"].read()
    assert body == b"mine"


def test_answers_that_cannot_be(two, cloud):
    liar, other = two
    mark, said = cloud.mark(), {}
    for name in forged(0, other):
        n = number(liar)
        found = lies(cloud, liar, *forged(n, other)[name])
        said[name] = found["status"], found["detail"]
        assert found["n"] == n and found["status"] in ("killed", "failed"), (name, found)
        assert found["exitCode"] is None and found["files"]["changed"] == found["files"]["deleted"] == [], (name, found)
        assert "cannot be" in found["detail"] or "not known" in found["detail"], (name, found)
    is_untouched(cloud, mark, liar, other)
    assert text_of(liar.run("open('own').read()")) == "'own'", said


def test_files_that_are_not_there_are_found_out(two, cloud, tmp_path):
    """An answer may say that it pushed what it did not: then nothing runs over it, and the index says what there is."""
    liar, other = two
    mark = cloud.mark()
    n = number(liar)
    found = lies(cloud, liar, *whole(n, file("not-there"), file("not-there", bytes=2), file("secret", "deleted"), file("own", "gone")))
    assert found["status"] == "ok", "its own say"
    is_untouched(cloud, mark, liar, other)
    again = liar.run("import os\nsorted(os.listdir())")
    assert again["status"] == "ok" and "not-there" in again["files"]["deleted"], again
    assert "not-there" not in [path for path, *_ in index(cloud, tmp_path, read=liar.id)["files"]]
    # More than may be, by its own say, stops it until somebody has looked: a list of its files does.
    n = number(liar)
    lies(cloud, liar, *whole(n, *(file(f"huge-{i}", bytes=1 << 40) for i in range(20))))
    refused = liar.run("1")
    assert refused["status"] == "failed" and "delete files first" in refused["detail"], refused
    assert liar.server.ask_socket(f"/v1/workspaces/{liar.id}/files").status == 200
    assert text_of(liar.run("7")) == "7"


def test_a_result_in_the_bucket_that_another_wrote(two, cloud):
    """Where the answer is lost, the result counts; also one that the session's own code put there, and only of that execution."""
    liar, other = two
    mark = cloud.mark()
    s3, lost = cloud.aws("s3"), ({"operation": "Invoke", "times": 1}, {"kind": "reset"})
    for name in ("another's end", "two ends", "up and away", "a length beyond all"):
        n = number(liar)
        key = f"workspaces/sessions/{liar.id}/transfer/{n}/result"
        s3.put_object(Bucket=bucket_of(cloud), Key=key, Body=b"".join(forged(n, other)[name]))
        cloud.faults(lost)
        found = liar.run("x", timeoutSeconds=1)
        cloud.faults()
        assert found["status"] in ("killed", "failed") and found["exitCode"] is None and found["files"]["changed"] == [], (name, found)
    n = number(liar)
    s3.put_object(Bucket=bucket_of(cloud), Key=f"workspaces/sessions/{liar.id}/transfer/{n}/result", Body=bytes(30 << 20))
    cloud.faults(lost)
    found = liar.run("x", timeoutSeconds=1)
    cloud.faults()
    assert found["status"] == "killed" and found["exitCode"] is None and "exceeds" in found["detail"], found
    is_untouched(cloud, mark, liar, other)
