# SPDX-License-Identifier: Apache-2.0
"""Indexes of workspaces in a bucket by themselves (workspace_index_cli): many writers, lost answers, and what the bucket says."""

import hashlib
import json
import subprocess

import pytest

from binary import tool

BUCKET = "workspaces-test"
ID = "s-" + "a" * 26
FILES = f"workspaces/sessions/{ID}/workspace/"


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


class Indexes:
    def __init__(self, cloud, folder):
        self.cloud = cloud
        self.env = cloud.environment(folder)

    def start(self, account=None, stack="lab"):
        command = [tool("workspace_index_cli"), "{}", BUCKET, account or self.cloud.account, stack]
        return subprocess.Popen(command, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def many(self, *lines, **more):
        with self.start(**more) as process:
            output, _ = process.communicate("".join(json.dumps(line) + "\n" for line in lines), timeout=240)
        assert process.returncode == 0
        return [json.loads(line) for line in output.splitlines()]

    def __call__(self, more=None, /, **line):
        return self.many(line, **(more or {}))[0]

    def put(self, path, text):
        return self.cloud.aws("s3").put_object(Bucket=BUCKET, Key=FILES + path, Body=text.encode())["ETag"]

    def rows(self):
        listed = self.cloud.aws("s3").list_objects_v2(Bucket=BUCKET, Prefix="workspaces/owners/")
        return sorted(item["Key"].split("/", 3)[3] for item in listed.get("Contents", []))


@pytest.fixture
def indexes(cloud, tmp_path):
    cloud.aws("s3").create_bucket(Bucket=BUCKET)
    made = Indexes(cloud, tmp_path)
    assert made(make=ID, owner="team/ann", environment="py")["result"] == 1
    return made


def test_what_changes_is_merged(cloud, indexes):
    mark = cloud.mark()
    told = indexes.many(
        {"make": ID, "owner": "team/bob", "environment": "py"},
        {"change": ID, "put": [["b", 2, sha("b"), '"1"'], ["a/c", 3, None, None]]},
        {"change": ID, "known": True, "put": [["b", 5, sha("c"), '"2"']], "removed": [["a/c", None], ["gone", None]]},
        {"change": ID, "removed": [["b", '"1"']]},
        {"head": ID},
        {"read": ID},
        {"read": "s-other"},
        {"head": "s-other"},
        {"change": "s-other", "put": [["b", 2, sha("b"), '"1"']]},
    )
    assert told[0]["result"] == 0
    assert [row[0] for row in told[1]["files"]] == ["a/c", "b"] and told[1]["bytes"] == 5
    assert told[2]["files"] == [["b", 5, sha("c"), '"2"']]
    assert told[3]["files"] == told[2]["files"], "another version than was meant stays"
    assert told[4]["owner"] == told[5]["owner"] == "team/ann" and told[4]["bytes"] == 5
    assert [row["result"] for row in told[6:]] == [0, 0, 0]
    assert {call["params"].get("ExpectedBucketOwner") for call in cloud.calls(mark)} == {cloud.account}


def test_stacks_do_not_see_one_anothers(indexes):
    assert indexes({"stack": "other"}, read=ID)["result"] == 0
    assert indexes({"stack": "other"}, head=ID)["result"] == 0


def test_many_writers_lose_nothing(cloud, indexes):
    writers = [indexes.start() for _ in range(4)]
    for number, writer in enumerate(writers):
        for n in range(10):
            writer.stdin.write(json.dumps({"change": ID, "put": [[f"{number}/{n}", 1, sha("x"), '"1"']]}) + "\n")
        writer.stdin.close()
    for writer in writers:
        told = [json.loads(line) for line in writer.stdout]
        assert writer.wait(timeout=60) == 0 and [row["result"] for row in told] == [1] * 10
    assert len(indexes(read=ID)["files"]) == 40


@pytest.mark.parametrize("kind", ["lost", "reset_mid_body", "reset"])
def test_a_lost_answer_is_no_lost_change(cloud, indexes, kind):
    cloud.faults(({"operation": "PutObject", "times": 2}, {"kind": kind}))
    assert indexes(change=ID, put=[["a", 1, sha("a"), '"1"']])["result"] == 1
    assert cloud.fault_hits() == [2]
    assert [row[0] for row in indexes(read=ID)["files"]] == ["a"]
    cloud.faults(({"operation": "PutObject", "times": 1}, {"kind": kind}))
    assert indexes(make="s-second", owner="team/ann", environment="py")["result"] == 1


def test_what_fails_is_said(cloud, indexes):
    cloud.faults(({"operation": "PutObject"}, {"kind": "error", "status": 503, "code": "SlowDown", "message": "slow"}))
    told = indexes(change=ID, put=[["a", 1, sha("a"), '"1"']])
    assert told["result"] == -1 and "SlowDown" in told["error"]
    cloud.faults()
    assert indexes(read=ID)["files"] == []
    cloud.aws("s3").put_object(Bucket=BUCKET, Key=f"workspaces/index/{ID}", Body=b"{}\n")
    told = indexes(read=ID)
    assert told["result"] == -1 and f"workspaces/index/{ID}" in told["error"]


def test_the_bucket_wins(cloud, indexes):
    etag = {path: indexes.put(path, text) for path, text in (("kept", "one"), ("other", "two"), ("new", "three"))}
    put = [["kept", 3, sha("one"), etag["kept"]], ["gone", 9, sha("nine"), '"9"'], ["other", 9, sha("nine"), '"9"']]
    indexes(change=ID, put=put)
    told = indexes(check=ID)
    assert told["result"] == 1
    assert told["files"] == [["kept", 3, sha("one"), etag["kept"]], ["new", 5, sha("three"), etag["new"]], ["other", 3, sha("two"), etag["other"]]]
    assert indexes(read=ID)["files"] == told["files"]
    mark = cloud.mark()
    assert indexes(check=ID)["files"] == told["files"]
    calls = [call["operation"] for call in cloud.calls(mark)]
    assert calls == ["GetObject", "ListObjectsV2", "PutObject", "ListObjectsV2"], "what is known is not read again"


def test_more_than_is_to_be_read_is_counted_only(cloud, indexes):
    """Who pushed files that nobody was told of may have pushed any number of bytes: they are not read to work out digests."""
    etag = {path: indexes.put(path, text) for path, text in (("kept", "one"), ("more", "three"))}
    indexes(change=ID, put=[["kept", 3, sha("one"), etag["kept"]]])
    mark = cloud.mark()
    told = indexes(check=ID, readMax=7)
    assert told["files"] == [["kept", 3, sha("one"), etag["kept"]], ["more", 5, None, etag["more"]]] and told["bytes"] == 8
    assert [call["operation"] for call in cloud.calls(mark)] == ["GetObject", "ListObjectsV2", "PutObject", "ListObjectsV2"]
    assert indexes(check=ID, readMax=8)["files"][1] == ["more", 5, sha("three"), etag["more"]]


def test_the_owners_rows(cloud, indexes):
    """One that stays, and one with what has changed; what a death has left goes with the next check."""
    row = f"{ID}/py/-/1"
    assert indexes.rows() == [f"{row}/made/0"]
    indexes(change=ID, put=[["a", 5 << 20, sha("a"), '"1"'], ["b", 1, sha("b"), '"1"']])
    assert indexes.rows() == [f"{row}/6/0", f"{row}/made/0"]
    indexes(change=ID, put=[["a", 7 << 20, sha("a"), '"1"']])
    assert indexes.rows() == [f"{row}/8/0", f"{row}/made/0"]
    cloud.faults(({"operation": "DeleteObject"}, {"kind": "error", "status": 403, "code": "AccessDenied", "message": "no"}))
    assert indexes(change=ID, removed=[["a", None]])["result"] == 1
    cloud.faults()
    assert indexes.rows() == [f"{row}/1/0", f"{row}/8/0", f"{row}/made/0"]
    assert indexes(check=ID)["files"] == []
    assert indexes.rows() == [f"{row}/0/0", f"{row}/made/0"]
