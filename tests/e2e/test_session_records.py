# SPDX-License-Identifier: Apache-2.0
"""The records of sessions in DynamoDB by themselves (session_records_cli): what every store must do, and what a network does to writes."""

import json
import subprocess
import time

import pytest
from botocore.exceptions import ClientError

from binary import tool

SESSIONS, CONVERSATIONS, EXECUTIONS, KEYS = range(4)
NOTHING, ABSENT, VERSION = range(3)
TABLE = "sessions-test"
OWNER = "5f" * 20


def make_table(cloud, name=TABLE, partition="shard", sort="id"):
    cloud.aws("dynamodb").create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": at, "AttributeType": "S"} for at in (partition, sort)],
        KeySchema=[{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}],
    )


class Records:
    def __init__(self, cloud, folder):
        self.cloud = cloud
        self.env = cloud.environment(folder)

    def run(self, *arguments, lines=(), table=TABLE, stack="lab"):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        command = [tool("session_records_cli"), "{}", table, stack, *arguments]
        return subprocess.run(command, input=text, env=self.env, capture_output=True, text=True, timeout=240)

    def many(self, *lines, **more):
        ran = self.run(lines=lines, **more)
        assert ran.returncode == 0, ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def __call__(self, **line):
        return self.many(line)[0]


@pytest.fixture
def records(cloud, tmp_path):
    make_table(cloud)
    return Records(cloud, tmp_path)


def test_it_is_a_store_like_any_other(cloud, records):
    ran = records.run("contract")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert {call["operation"] for call in cloud.calls(service="dynamodb")} == {"DescribeTable", "GetItem", "Query", "TransactWriteItems"}


def test_requests_are_bounded(cloud, records):
    """One request for each operation on what an owner has, conditional or in a transaction; nothing reads what it does not need."""
    owners = [f"{i:02x}" * 20 for i in range(0, 256, 15)]
    records.many(*({"write": [[EXECUTIONS, f"{owner}/s-1/{n:010}", "{}", ABSENT, 0] for n in range(8)]} for owner in owners))
    mark = cloud.mark()
    one = f"{owners[3]}/s-1/"
    answers = records.many(
        {"list": [EXECUTIONS, one, None, True, 3]},
        {"list": [EXECUTIONS, one, f"{one}{3:010}", False, 3]},
        {"get": [EXECUTIONS, f"{one}{3:010}"]},
        {"write": [[EXECUTIONS, f"{one}{3:010}", "{}", VERSION, 1], [SESSIONS, f"{owners[3]}/s-1", "{}", ABSENT, 0]]},
    )
    assert [answer.get("keys") for answer in answers[:2]] == [[f"{one}{n:010}" for n in (7, 6, 5)], [f"{one}{n:010}" for n in (4, 5, 6)]]
    assert answers[2]["found"] and answers[3] == {"written": 1}
    calls = cloud.calls(mark)
    assert [call["operation"] for call in calls] == ["DescribeTable", "Query", "Query", "GetItem", "TransactWriteItems"]
    assert [call["params"]["Limit"] for call in calls[1:3]] == [3, 4]
    assert all(call["params"]["ConsistentRead"] for call in calls[1:4])
    everybody = records.many({"list": [EXECUTIONS, "", None, False, 1000]})[0]["keys"]
    assert everybody == [f"{owner}/s-1/{n:010}" for owner in owners for n in range(8)]


def test_stacks_that_share_a_table_are_apart(records):
    assert records.many({"write": [[SESSIONS, "a/1", "mine", ABSENT, 0]]}, stack="one") == [{"written": 1}]
    assert records.many({"get": [SESSIONS, "a/1"]}, {"list": [SESSIONS, "", None, False, 9]}, stack="two") == [
        {"found": False, "version": 0}, {"keys": []},
    ]  # fmt: skip


def test_what_has_expired_is_gone_before_it_is_deleted(cloud, records):
    day_ms, now_ms = 86400_000, int(time.time() * 1000)
    old, young = json.dumps({"at": now_ms - day_ms - 5000}), json.dumps({"at": now_ms - day_ms + 600_000})
    assert records(write=[[KEYS, "aa", old, ABSENT, 0], [KEYS, "ab", young, ABSENT, 0], [SESSIONS, "aa", old, ABSENT, 0]]) == {"written": 1}
    items = {(item["shard"]["S"], item["id"]["S"]): item for item in cloud.aws("dynamodb").scan(TableName=TABLE)["Items"]}
    assert int(items["lab/keys/a", "ab"]["expires"]["N"]) == -(-(now_ms + 600_000) // 1000)
    assert "expires" not in items["lab/sessions/a", "aa"] and ("lab/keys/a", "aa") in items
    answers = records.many(
        {"get": [KEYS, "aa"]},
        {"list": [KEYS, "", None, False, 9]},
        {"write": [[KEYS, "aa", young, VERSION, 1]]},
        {"write": [[KEYS, "aa", None, VERSION, 1]]},
        {"write": [[KEYS, "ab", young, ABSENT, 0]]},
        {"write": [[KEYS, "aa", young, ABSENT, 0]]},
        {"get": [KEYS, "aa"]},
        {"get": [SESSIONS, "aa"]},
    )
    assert not answers[0]["found"] and answers[1]["keys"] == ["ab"]
    assert [answer["written"] for answer in answers[2:6]] == [0, 0, 0, 1]
    assert answers[6] == {"found": True, "value": young, "version": 1} and answers[7]["found"]


@pytest.mark.parametrize("kind", ["lost", "reset_mid_body", "reset"])
def test_a_lost_answer_is_no_lost_race(cloud, records, kind):
    cloud.faults(({"operation": "TransactWriteItems", "times": 2}, {"kind": kind}))
    assert records(write=[[SESSIONS, "a/1", "one", ABSENT, 0]]) == {"written": 1}
    assert cloud.fault_hits() == [2]
    cloud.faults(({"operation": "TransactWriteItems", "times": 1}, {"kind": kind}))
    assert records(write=[[SESSIONS, "a/1", "two", VERSION, 1]]) == {"written": 1}
    assert records(get=[SESSIONS, "a/1"]) == {"found": True, "value": "two", "version": 2}
    cloud.faults(({"operation": "TransactWriteItems", "times": 1}, {"kind": kind}))
    assert records(write=[[SESSIONS, "a/1", None, VERSION, 2]]) == {"written": 1}
    tokens = [call["params"]["ClientRequestToken"] for call in cloud.calls(operation="TransactWriteItems")]
    assert len(set(tokens)) == 3 and len(tokens) == 7


def test_a_token_is_known_for_a_while(cloud):
    """The stand-ins and what is in front of them: a transaction that was done is not done again, and no other one has its token."""
    db = cloud.client("dynamodb")
    db.create_table(TableName="tokens", BillingMode="PAY_PER_REQUEST", AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}], KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}])

    def write(token, condition="attribute_not_exists(id)"):
        item = {"Put": {"TableName": "tokens", "Item": {"id": {"S": "a"}}, "ConditionExpression": condition}}
        try:
            db.transact_write_items(TransactItems=[item], ClientRequestToken=token)
        except ClientError as error:
            return error.response["Error"]["Code"]
        return "done"

    assert [write("one"), write("one"), write("two"), write("two")] == ["done", "done", *["TransactionCanceledException"] * 2]
    assert write("one", "attribute_exists(id)") == "IdempotentParameterMismatchException"
    assert write("two", "attribute_exists(id)") in ("done", "IdempotentParameterMismatchException")


def test_what_nobody_knows_is_said(cloud, records):
    cloud.faults(({"operation": "TransactWriteItems"}, {"kind": "lost"}))
    error = records(write=[[SESSIONS, "a/1", "one", ABSENT, 0]])["error"]
    assert "whether it was written is not known" in error
    cloud.faults()
    assert records(get=[SESSIONS, "a/1"])["value"] == "one"
    denied = {"kind": "error", "status": 400, "code": "AccessDeniedException", "message": "no"}
    cloud.faults(({"operation": "TransactWriteItems"}, denied))
    error = records(write=[[SESSIONS, "a/1", "two", VERSION, 1]])["error"]
    assert "not known" not in error and "allow dynamodb:UpdateItem" in error


def canceled(*codes):
    body = {"__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException", "message": "Transaction cancelled",
            "CancellationReasons": [{"Code": code} for code in codes]}  # fmt: skip
    return {"kind": "answer", "status": 400, "headers": {"Content-Type": "application/x-amz-json-1.0"}, "body": json.dumps(body)}


def test_conflicts_are_no_answer(cloud, records):
    """Another transaction of the same item was under way: nobody has won yet."""
    cloud.faults(({"operation": "TransactWriteItems", "times": 3}, canceled("None", "TransactionConflict")))
    assert records(write=[[SESSIONS, "a/1", "one", ABSENT, 0], [SESSIONS, "a/2", "one", ABSENT, 0]]) == {"written": 1}
    tokens = [call["params"]["ClientRequestToken"] for call in cloud.calls(operation="TransactWriteItems")]
    assert len(set(tokens)) == len(tokens) == 4
    cloud.faults(({"operation": "TransactWriteItems"}, canceled("TransactionConflict")))
    assert "TransactionCanceledException" in records(write=[[SESSIONS, "a/1", "two", VERSION, 1]])["error"]
    cloud.faults(({"operation": "TransactWriteItems"}, canceled("ConditionalCheckFailed", "TransactionConflict")))
    assert records(write=[[SESSIONS, "a/1", "two", VERSION, 1]]) == {"written": 0}
    cloud.faults(({"operation": "TransactWriteItems"}, canceled("ValidationError")))
    assert "TransactionCanceledException" in records(write=[[SESSIONS, "a/1", "two", VERSION, 1]])["error"]


def answer(body):
    return {"kind": "answer", "status": 200, "headers": {"Content-Type": "application/x-amz-json-1.0"}, "body": json.dumps(body)}


def item(key, **more):
    return {"shard": {"S": "lab/sessions/a"}, "id": {"S": key}, "value": {"S": "v"}, "version": {"N": "1"}, **more}


def test_answers_that_make_no_sense(cloud, records):
    def listed(*bodies):
        cloud.faults(*(({"operation": "Query", "nth": n + 1}, answer(body)) for n, body in enumerate(bodies)))
        return records(list=[SESSIONS, "a/", None, False, 9]).get("error", "")

    assert "no Items" in listed({})
    assert "other records" in listed({"Items": [item("b/1")]})
    assert "is corrupt" in listed({"Items": [item("a/1", version={"N": "-1"})]})
    assert "is corrupt" in listed({"Items": [item("a/1", value={"N": "1"})]})
    more = {"Items": [item("a/1")], "LastEvaluatedKey": item("a/1")}
    assert "same records again" in listed(more, more)
    cloud.faults(({"operation": "GetItem"}, answer({"Item": item("a/2")})))
    assert "another record" in records(get=[SESSIONS, "a/1"])["error"]


def test_tables_that_cannot_hold_sessions(cloud, records):
    assert "there is no table gone" in records.run(table="gone").stderr
    make_table(cloud, "other", "owner", "id")
    assert "the table other cannot hold sessions" in records.run(table="other").stderr
