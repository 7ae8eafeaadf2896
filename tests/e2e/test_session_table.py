# SPDX-License-Identifier: Apache-2.0
"""The Stack's `sessions`: the table for sessions' records as it is made, kept, shared, renamed and taken down, and what it holds."""

import json
import shutil
import threading
import time

import pytest

import stacks
from lib.steps import end_of

TABLE = "lab-sessions"
CALLS = {"DescribeTable", "DescribeTimeToLive", "ListTagsOfResource"}


@pytest.fixture
def db(cloud):
    return cloud.aws("dynamodb")


def declare(berth, table=TABLE, create=None, **spec):
    sessions = {"table": table, **({} if create is None else {"createTable": create})}
    berth.write("m.yaml", stacks.text(stacks.stack(**({"sessions": sessions} if table else {}), **spec)))


def make(db, name, partition="shard", sort="id", **more):
    db.create_table(
        TableName=name, BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": at, "AttributeType": "S"} for at in (partition, sort)],
        KeySchema=[{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}], **more,
    )  # fmt: skip


def look(db, name=TABLE):
    """The table with its tags and its expiry; None where there is none."""
    try:
        table = db.describe_table(TableName=name)["Table"]
    except db.exceptions.ResourceNotFoundException:
        return None
    tags = {tag["Key"]: tag["Value"] for tag in db.list_tags_of_resource(ResourceArn=table["TableArn"])["Tags"]}
    expiry = db.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    return {**table, "tags": tags, "expiry": (expiry["TimeToLiveStatus"], expiry.get("AttributeName"))}


def put(db, name=TABLE, key="s-1", **more):
    db.put_item(TableName=name, Item={"shard": {"S": "team/sessions/a"}, "id": {"S": key}, "version": {"N": "1"}, "value": {"S": "{}"}, **more})


def fields(plan):
    return {f["path"]: (f.get("before"), f.get("after")) for c in plan["changes"] for f in c["fields"] if f["path"].startswith(("sessions", "formerTable"))}


def refusals(plan):
    return {r["id"]: r for c in plan["changes"] for r in c["refusals"]}


def own_calls(cloud, mark):
    return [call["operation"] for call in cloud.calls(mark, service="dynamodb")]


@pytest.fixture
def made(berth, db):
    declare(berth)
    berth.apply()
    return berth


def test_a_table_is_made_and_taken_down(cloud, berth, db):
    declare(berth, tags={"cost": "r"})
    assert fields(berth.plan())["sessions.table"] == (None, TABLE)
    mark = cloud.mark()
    berth.apply()
    found = look(db)
    assert [(key["AttributeName"], key["KeyType"]) for key in found["KeySchema"]] == [("shard", "HASH"), ("id", "RANGE")]
    assert found["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST" and found["DeletionProtectionEnabled"]
    assert found["SSEDescription"]["SSEType"] == "KMS" and found["expiry"] == ("ENABLED", "expires")
    lineage = berth("state", "show", "--json").json()["lineage"]
    assert found["tags"] == {"cost": "r", "berth:stack": "team", "berth:kind": "Stack", "berth:name": "team", "berth:lineage": lineage}
    made = [call["operation"] for call in cloud.changing_calls(mark) if call["service"] == "dynamodb"]
    assert made == ["CreateTable", "UpdateTimeToLive"]
    mark = cloud.mark()
    berth.assert_settled()
    assert set(own_calls(cloud, mark)) == CALLS
    berth("drift", "--refresh", "full").expect(0)
    berth.destroy()
    assert look(db) is None


def test_who_declares_no_sessions_makes_no_call(cloud, berth):
    declare(berth, None)
    mark = cloud.mark()
    berth.apply()
    berth.destroy()
    assert own_calls(cloud, mark) == []


def test_what_others_changed_is_put_back(cloud, made, db):
    before = look(db)
    db.update_table(TableName=TABLE, DeletionProtectionEnabled=False)
    db.update_table(TableName=TABLE, BillingMode="PROVISIONED", ProvisionedThroughput={"ReadCapacityUnits": 1, "WriteCapacityUnits": 1})
    db.update_time_to_live(TableName=TABLE, TimeToLiveSpecification={"Enabled": False, "AttributeName": "expires"})
    db.tag_resource(ResourceArn=before["TableArn"], Tags=[{"Key": "berth:name", "Value": "other"}, {"Key": "theirs", "Value": "1"}])
    made("drift").expect(2)
    changed = fields(made.plan())
    assert changed["sessions.deletionProtection"] == (False, True) and changed["sessions.onDemand"] == (False, True)
    assert changed["sessions.expires"] == (False, True) and changed["sessions.tags.berth:name"] == ("other", "team")
    mark = cloud.mark()
    made.apply()
    after = look(db)
    assert after["tags"] == {**before["tags"], "theirs": "1"} and after["expiry"] == before["expiry"] and after["DeletionProtectionEnabled"]
    assert after["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert after["CreationDateTime"] == before["CreationDateTime"] and "CreateTable" not in own_calls(cloud, mark)
    made.assert_settled()


@pytest.mark.only("ministack", "moto's UpdateTable takes no encryption")
def test_the_stacks_key(cloud, berth, db):
    key = cloud.aws("kms").create_key()["KeyMetadata"]["Arn"]
    other = cloud.aws("kms").create_key()["KeyMetadata"]["Arn"]
    declare(berth, aws={"kmsKey": key})
    berth.apply()
    assert look(db)["SSEDescription"]["KMSMasterKeyArn"] == key
    declare(berth)
    berth.assert_settled()  # no key is taken away by saying nothing
    declare(berth, aws={"kmsKey": other})
    assert fields(berth.plan()) == {"sessions.kmsKey": (key, other)}
    berth.apply()
    assert look(db)["SSEDescription"]["KMSMasterKeyArn"] == other
    db.update_table(TableName=TABLE, SSESpecification={"Enabled": False})
    assert "sessions.encryption" in fields(berth.plan())
    berth.apply()
    assert look(db)["SSEDescription"]["KMSMasterKeyArn"] == other
    berth.assert_settled()


def test_a_table_with_records_is_kept(cloud, made, db):
    put(db, key="k", expires={"N": str(int(time.time()) + 900)})
    for number in range(3):
        put(db, key=f"s-{number}")
    refused = made("destroy", "--yes").expect(3)
    assert "table-not-empty" in refused.out + refused.err and f"the table {TABLE} holds 3 records" in refused.out + refused.err
    assert look(db)["DeletionProtectionEnabled"]
    made("destroy", "--yes", "--allow", "table-not-empty").expect(0)
    assert look(db) is None


def test_keys_that_expire_by_themselves_keep_no_table(made, db):
    put(db, key="k", expires={"N": str(int(time.time()) + 900)})
    made.destroy()
    assert look(db) is None


def test_a_session_that_began_meanwhile_is_not_deleted(cloud, made, db):
    """Between the question and the deletion."""
    direct = cloud.direct("dynamodb")
    cloud.faults(({"operation": "Scan", "nth": 2}, {"kind": "delay", "seconds": 3}))
    began = threading.Thread(target=lambda: (_wait_for_scan(cloud), put(direct)))
    began.start()
    ran = made("destroy", "--yes").expect(1)
    began.join()
    assert "a session began since it was looked at" in ran.out + ran.err
    cloud.faults()
    assert look(db)["DeletionProtectionEnabled"]
    made("destroy", "--yes").expect(3)


def _wait_for_scan(cloud):
    for _ in range(400):
        if cloud.fault_hits() == [1]:
            return
        time.sleep(0.05)


@pytest.mark.parametrize("to", ["other-sessions", None])
def test_another_name_lets_go_of_the_old_table(made, db, to):
    put(db)
    declare(made, to)
    refused = made.plan(code=3)
    assert f"the table {TABLE} holds 1 record" in refusals(refused)["table-not-empty"]["message"]
    made("apply", "--yes").expect(3)
    assert look(db)["expiry"] and look(db, "other-sessions") is None
    made.apply("--allow", "table-not-empty:Stack/team")
    assert look(db) is None and (look(db, "other-sessions") is not None) == bool(to)
    made.assert_settled()
    made.destroy()
    assert look(db, "other-sessions") is None


def test_an_empty_table_is_renamed(made, db):
    declare(made, "other-sessions")
    made.apply()
    assert look(db) is None and look(db, "other-sessions")["expiry"] == ("ENABLED", "expires")
    made.assert_settled()


def test_anothers_table_is_used_as_it_is(cloud, berth, db):
    declare(berth, "theirs", create=False)
    ran = berth("plan").expect(1)
    assert "the table theirs does not exist, and this stack does not make it" in ran.err
    make(db, "theirs", "owner", "id")
    assert "the table theirs cannot hold sessions" in berth("plan").expect(1).err
    db.delete_table(TableName="theirs")
    make(db, "theirs", Tags=[{"Key": "berth:stack", "Value": "other"}])
    before, mark = look(db, "theirs"), cloud.mark()
    berth.apply()
    berth.assert_settled()
    put(db, "theirs")
    berth.destroy()
    assert look(db, "theirs")["tags"] == before["tags"] and look(db, "theirs")["expiry"] == before["expiry"]
    assert [call["operation"] for call in cloud.changing_calls(mark) if call["service"] == "dynamodb"] == []


def test_a_table_of_ones_own_that_is_let_alone_goes_with_the_stack(cloud, made, db):
    put(db)
    declare(made, create=False)
    made.apply()
    mark = cloud.mark()
    db.update_table(TableName=TABLE, DeletionProtectionEnabled=False)
    made.assert_settled()
    assert [call["operation"] for call in cloud.changing_calls(mark) if call["service"] == "dynamodb"] == []
    assert "table-not-empty" in made("destroy", "--yes").expect(3).out
    declare(made)
    made.apply()
    assert look(db)["DeletionProtectionEnabled"]
    made.assert_settled()
    made("destroy", "--yes", "--allow", "table-not-empty").expect(0)
    assert look(db) is None


def test_a_table_that_was_there_is_taken_only_when_allowed(cloud, berth, db):
    make(db, TABLE, Tags=[{"Key": "theirs", "Value": "1"}], SSESpecification={"Enabled": True, "SSEType": "KMS"})
    put(db)
    declare(berth)
    refusal = refusals(berth.plan(code=3))["not-owned"]
    assert f"the table {TABLE} exists and belongs to no stack" in refusal["message"] and "createTable: false" in refusal["remedy"]
    berth.apply("--allow", "not-owned:Stack/team")
    found = look(db)
    assert found["tags"]["theirs"] == "1" and found["tags"]["berth:stack"] == "team" and found["expiry"] == ("ENABLED", "expires")
    berth.assert_settled()


def test_a_lost_state_finds_its_table_again(made, db):
    before = look(db)
    shutil.rmtree(made.stack / ".berth")
    assert "not-owned" in refusals(made.plan(code=3))
    made("state", "adopt", "--yes").expect(0)
    made.apply()
    after = look(db)
    assert {**after, "tags": {**after["tags"], "berth:lineage": ""}} == {**before, "tags": {**before["tags"], "berth:lineage": ""}}
    made.assert_settled()
    made.destroy()
    assert look(db) is None


def test_a_table_with_another_key_is_never_replaced(cloud, berth, db):
    make(db, TABLE, "owner", "id")
    declare(berth)
    assert f"the table {TABLE} cannot hold sessions" in berth("plan").expect(1).err
    assert look(db)["KeySchema"][0]["AttributeName"] == "owner"


def test_a_table_that_is_gone_is_made_again(made, db):
    db.update_table(TableName=TABLE, DeletionProtectionEnabled=False)
    db.delete_table(TableName=TABLE)
    made("drift").expect(2)
    made.apply()
    assert look(db)["expiry"] == ("ENABLED", "expires")
    made.assert_settled()


def test_another_attributes_expiry_is_told(made, db):
    db.update_time_to_live(TableName=TABLE, TimeToLiveSpecification={"Enabled": False, "AttributeName": "expires"})
    db.update_time_to_live(TableName=TABLE, TimeToLiveSpecification={"Enabled": True, "AttributeName": "theirs"})
    made_calls = made("apply", "--yes")
    found = look(db)["expiry"]
    # AWS and MiniStack refuse a second attribute; moto takes it.
    assert (made_calls.code, found) == (1, ("ENABLED", "theirs")) and '"theirs"' in made_calls.err + made_calls.out or found == ("ENABLED", "expires")


@pytest.mark.parametrize("operation,when", [("CreateTable", "before"), ("CreateTable", "after"), ("UpdateTimeToLive", "after")])
def test_a_death_while_it_is_made(cloud, berth, db, tmp_path, operation, when):
    declare(berth)
    pidfile = tmp_path / "pid"
    cloud.faults(({"operation": operation, "nth": 1}, {"kind": "signal", "when": when, "pidfile": str(pidfile)}))
    assert end_of(berth, "apply", pidfile) < 0
    cloud.faults()
    berth.apply()
    assert look(db)["expiry"] == ("ENABLED", "expires")
    berth.assert_settled()


def test_a_death_makes_nobodys_table_ours(cloud, berth, db, tmp_path):
    declare(berth)
    pidfile = tmp_path / "pid"
    cloud.faults(({"operation": "CreateTable", "nth": 1}, {"kind": "signal", "when": "before", "pidfile": str(pidfile)}))
    assert end_of(berth, "apply", pidfile) < 0
    cloud.faults()
    make(db, TABLE)
    assert "not-owned" in refusals(berth.plan(code=3))
    assert not [name for name in look(db)["tags"] if name.startswith("berth:")]


@pytest.mark.only("ministack", "moto's index of tags has no tables")
def test_a_table_that_nobody_recorded_is_shown(cloud, made, db, tmp_path):
    """Under another name a run dies with a table made; then the old name is declared again."""
    declare(made, "other-sessions")
    pidfile = tmp_path / "pid"
    cloud.faults(({"operation": "CreateTable", "nth": 1}, {"kind": "signal", "when": "after", "pidfile": str(pidfile)}))
    assert end_of(made, "apply", pidfile) < 0
    cloud.faults()
    declare(made)
    made.apply()
    plan = made.plan("--refresh", "full")
    assert plan["changes"] == [] and "table other-sessions" in json.dumps(plan["remnants"] + plan["orphans"])
    put(db)
    declare(made, "other-sessions", create=False)
    assert "table-not-empty" in refusals(made.plan("--refresh", "full", code=3))


@pytest.mark.parametrize("operation", ["UpdateTable", "DeleteTable"])
def test_a_death_while_it_goes(cloud, made, db, tmp_path, operation):
    pidfile = tmp_path / "pid"
    cloud.faults(({"operation": operation, "nth": 1}, {"kind": "signal", "when": "after", "pidfile": str(pidfile)}))
    assert end_of(made, "destroy", pidfile) < 0
    cloud.faults()
    made.destroy()
    assert look(db) is None


@pytest.mark.parametrize("operation", ["CreateTable", "UpdateTimeToLive", "DeleteTable"])
def test_lost_answers(cloud, berth, db, operation):
    declare(berth)
    cloud.faults(({"operation": operation, "nth": 1}, {"kind": "lost"}))
    berth.apply()
    assert look(db)["expiry"] == ("ENABLED", "expires")
    berth.assert_settled()
    berth.destroy()
    assert look(db) is None
