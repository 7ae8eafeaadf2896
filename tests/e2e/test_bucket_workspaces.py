# SPDX-License-Identifier: Apache-2.0
"""Workspaces in a bucket by themselves (bucket_workspaces_cli): what every body must do, what calls it takes, and what a network does."""

import hashlib
import json
import os
import subprocess

import pytest

from binary import tool

BUCKET = "bucket-ws"
ID = "s-" + "b" * 26
CONTRACT_TESTS = 9
MB = 1 << 20


def sha(data):
    return hashlib.sha256(data.encode()).hexdigest()


class Workspaces:
    def __init__(self, cloud, folder):
        self.cloud = cloud
        self.env = cloud.environment(folder)

    def run(self, *arguments, lines=()):
        command = [tool("bucket_workspaces_cli"), "{}", BUCKET, self.cloud.account, *arguments]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        return subprocess.run(command, input=text, env=self.env, capture_output=True, text=True, timeout=280)

    def many(self, *lines):
        ran = self.run(lines=lines)
        assert ran.returncode == 0, ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def __call__(self, **line):
        return self.many(line)[0]

    def keys(self, prefix=""):
        return sorted(item["Key"] for item in self.cloud.aws("s3").list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", []))


@pytest.fixture
def spaces(cloud, tmp_path):
    cloud.aws("s3").create_bucket(Bucket=BUCKET)
    made = Workspaces(cloud, tmp_path)
    assert "code" not in made(create=ID)
    return made


def test_they_are_workspaces_like_any_other(cloud, spaces):
    for number in range(CONTRACT_TESTS):
        cloud.aws("s3").create_bucket(Bucket=f"{BUCKET}-{number + 1}")
    mark = cloud.mark()
    ran = spaces.run("contract")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    calls = cloud.calls(mark)
    assert {call["params"].get("ExpectedBucketOwner") for call in calls} == {cloud.account}


def test_the_calls_it_takes(cloud, spaces):
    def calls(*lines):
        mark = cloud.mark()
        assert all("code" not in told for told in spaces.many(*lines))
        return [call["operation"] for call in cloud.calls(mark)]

    assert calls({"put": ID, "path": "a", "text": "one"}) == ["GetObject", "PutObject", "PutObject", "PutObject", "DeleteObject"], "with the first row of its size"
    assert calls({"put": ID, "path": "b", "text": "two"}) == ["GetObject", "PutObject", "PutObject"]
    assert calls({"list": ID}) == ["GetObject", "GetObject", "ListObjectsV2", "PutObject", "ListObjectsV2"], "made long ago: held against the bucket once a day"
    assert calls({"list": ID}) == ["GetObject"]
    assert calls({"look": ID, "path": "a"}) == ["GetObject", "HeadObject"]
    assert calls({"get": ID, "path": "a"}) == ["GetObject", "HeadObject", "GetObject"]
    assert calls({"delete": ID, "path": "a"}) == ["GetObject", "HeadObject", "DeleteObject", "PutObject"]


def test_lifecycle_rules_see_the_environment(cloud, spaces):
    name = spaces(stage=ID, files={"b": "staged"})["name"]
    spaces(put=ID, path="a", text="one")
    tags = {key: cloud.aws("s3").get_object_tagging(Bucket=BUCKET, Key=key)["TagSet"] for key in spaces.keys()}
    told = {key for key, tag in tags.items() if tag == [{"Key": "berth:environment", "Value": "py"}]}
    assert told == {key for key in tags if key.startswith("workspaces/sessions/")} and len(told) == 3
    assert all(not tag for key, tag in tags.items() if key not in told)
    assert spaces(place=ID, name=name)["skipped"] == 0
    assert spaces.keys("workspaces/sessions/") == [f"workspaces/sessions/{ID}/workspace/{path}" for path in "ab"]


def test_what_a_rule_deletes_is_deleted(cloud, spaces):
    for path in ("a", "b"):
        spaces(put=ID, path=path, text=path)
    spaces(list=ID)
    cloud.aws("s3").delete_object(Bucket=BUCKET, Key=f"workspaces/sessions/{ID}/workspace/a")
    assert spaces(get=ID, path="a")["code"] == "not-found"
    assert spaces(list=ID)["files"] == [["b", 1]], "who finds it says so in the index"


def test_large_files_need_no_memory(spaces):
    told = spaces.many({"put": ID, "path": "large", "bytes": 100 * MB}, {"get": ID, "path": "large"})
    assert told[0]["sha256"] == told[1]["sha256"] == hashlib.sha256(b"x" * (100 * MB)).hexdigest()
    assert told[1]["bytes"] == 100 * MB
    if not any(name.endswith("SAN_OPTIONS") for name in os.environ):
        assert told[1]["peakBytes"] < 64 * MB


def test_many_puts_need_no_more_memory(spaces):
    """As a copy of many files makes them, into a workspace whose index is long."""
    name = spaces(stage=ID, files={("d" * 250 + "/") * 3 + str(i): "x" for i in range(400)})["name"]
    before, after = spaces.many({"place": ID, "name": name}, {"put": ID, "path": "a", "text": "x", "times": 250})
    assert before["skipped"] == 0 and "code" not in after
    if not any(name.endswith("SAN_OPTIONS") for name in os.environ):
        assert after["peakBytes"] - before["peakBytes"] < 32 * MB


@pytest.mark.parametrize("kind", ["lost", "reset_mid_body", "reset"])
def test_a_lost_answer_is_no_lost_file(cloud, spaces, kind):
    """Under a condition too: an earlier try of the same request is not somebody else."""
    cloud.faults(({"operation": "PutObject", "nth": 1}, {"kind": kind}))
    told = spaces(put=ID, path="a", text="one", ifNoneMatch="*")
    assert told.get("made") is True and "code" not in told
    cloud.faults(({"operation": "GetObject", "nth": 2}, {"kind": kind}))
    assert spaces(get=ID, path="a")["sha256"] == sha("one")
    cloud.faults()
    assert spaces(put=ID, path="a", text="two", ifNoneMatch="*")["code"] == "precondition-failed"
    assert spaces(get=ID, path="a")["sha256"] == sha("one")


def test_what_fails_is_said_and_leaves_what_was(cloud, spaces):
    spaces(put=ID, path="a", text="one")
    slow = {"kind": "error", "status": 503, "code": "SlowDown", "message": "slow"}
    cloud.faults(({"operation": "PutObject"}, slow))
    told = spaces(put=ID, path="a", text="two")
    assert told["code"] == "workspace-failed" and "SlowDown" in told["detail"]
    cloud.faults(({"operation": "PutObject", "times": 2}, slow))
    assert "code" not in spaces(put=ID, path="b", text="three"), "tried again"
    cloud.faults()
    assert [spaces(get=ID, path=path)["sha256"] for path in "ab"] == [sha("one"), sha("three")]


def test_a_conflict_is_tried_again(cloud, spaces):
    conflict = {"kind": "error", "status": 409, "code": "ConditionalRequestConflict", "message": "raced"}
    cloud.faults(({"operation": "PutObject", "times": 3}, conflict))
    assert spaces(put=ID, path="a", text="one", ifNoneMatch="*").get("made") is True
    assert spaces(get=ID, path="a")["sha256"] == sha("one")


def test_names_that_xml_cannot_have_are_in_nobodys_way(spaces):
    """One call of DeleteObjects fails for all that it names, where it is malformed."""
    for path in ("a", "odd\x01", "\uffff"):
        assert "code" not in spaces(put=ID, path=path, text="x")
    assert "code" not in spaces(remove=ID)
    assert spaces.keys() == []


@pytest.mark.parametrize("dies_at", [("DeleteObject", 1), ("DeleteObjects", 1), ("DeleteObjects", 2), ("DeleteObject", 2)])
def test_a_removal_that_was_cut_off_is_finished(cloud, spaces, dies_at):
    spaces(put=ID, path="a", text="one")
    operation, nth = dies_at
    cloud.faults(({"operation": operation, "nth": nth}, {"kind": "error", "status": 403, "code": "AccessDenied", "message": "no"}))
    assert spaces(remove=ID)["code"] == "workspace-failed"
    cloud.faults()
    spaces(recover=True)
    assert spaces.keys() == []
    assert spaces(get=ID, path="a")["code"] == "not-found"


def test_a_removal_that_cannot_be_finished_is_in_nobodys_way(cloud, spaces):
    """And one of another stack is left to that: its rows are not to be found from here."""
    other, foreign = "s-" + "c" * 26, "s-" + "d" * 26
    denied = {"kind": "error", "status": 403, "code": "AccessDenied", "message": "no"}
    assert "code" not in spaces(create=other)
    cloud.faults(({"operation": "DeleteObject"}, denied))
    assert [spaces(remove=one)["code"] for one in (ID, other)] == ["workspace-failed"] * 2
    cloud.aws("s3").put_object(Bucket=BUCKET, Key=f"workspaces/removed/{foreign}", Body=b"other\nrealm/ann")
    cloud.aws("s3").put_object(Bucket=BUCKET, Key=f"workspaces/sessions/{foreign}/workspace/a", Body=b"a")
    cloud.faults(({"operation": "DeleteObject", "resource": f"index/{ID}"}, denied))
    assert spaces(recover=True)["code"] == "workspace-failed"
    assert spaces.keys("workspaces/removed/") == [f"workspaces/removed/{one}" for one in (ID, foreign)]
    assert spaces.keys(f"workspaces/sessions/{foreign}/") == [f"workspaces/sessions/{foreign}/workspace/a"]
    cloud.faults()
    assert "code" not in spaces(recover=True)
    assert spaces.keys("workspaces/removed/") == [f"workspaces/removed/{foreign}"]
