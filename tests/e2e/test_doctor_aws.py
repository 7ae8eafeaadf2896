# SPDX-License-Identifier: Apache-2.0
"""
`berth doctor --aws`: the checklist of what only an account can show, tried on the stand-ins. All is ok there; each thing that AWS would do
otherwise is found out; and whatever happens, nothing that it made stays, and nothing of others goes.
"""

import json
import os
import signal
import time

import pytest

from controllers import wait_until
from lib.aws_sessions import TABLE, bucket_of, world  # noqa: F401

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.only("ministack", "moto has no InvokeWithResponseStream, and enforces no POST policy"),
]  # fmt: skip

NAMES = ["identity", "concurrency", "function", "streams", "transfer", "tenants", "freeze", "presigned", "tls", "records", "expiry", "registry", "cleanup"]


def findings(ran):
    told = json.loads(ran.out)["findings"]
    return {one["name"]: ("ok" if one["works"] else "skipped" if one["optional"] else "failed", one["detail"]) for one in told[[one["name"] for one in told].index("identity") :]}


def names(cloud):
    return f"{function_of(cloud).rpartition('-env-')[0]}-doctor"


def function_of(cloud):
    return next(f["FunctionName"] for f in cloud.aws("lambda").list_functions()["Functions"] if "-env-" in f["FunctionName"])


def all_there(cloud):
    """Everything that is in the account, by name."""
    table = cloud.aws("dynamodb").scan(TableName=TABLE)["Items"]
    return {
        "functions": sorted(f["FunctionName"] for f in cloud.aws("lambda").list_functions()["Functions"]),
        "repositories": sorted(r["repositoryName"] for r in cloud.aws("ecr").describe_repositories()["repositories"]),
        "objects": sorted(o["Key"] for o in cloud.aws("s3").list_objects_v2(Bucket=bucket_of(cloud)).get("Contents", [])),
        "records": sorted(json.dumps(item, sort_keys=True) for item in table),
    }


def doctor(world, code=0):
    ran = world.berth("doctor", "--aws", "--yes", "--json")
    ran.expect(code)
    return findings(ran)


def test_all_is_ok_and_nothing_stays(world, cloud):
    world.declare()
    before = all_there(cloud)
    told = doctor(world)
    assert list(told) == NAMES, told
    assert {name: state for name, (state, _) in told.items() if state != "ok"} == {"tls": "skipped"}, told
    assert "endpoint of S3 is one of your own" in told["tls"][1]
    assert all_there(cloud) == before


DENIED = {"kind": "error", "status": 403, "code": "AccessDeniedException", "message": "not by you"}


def answer(body, status=200):
    return {"kind": "answer", "status": status, "headers": {"Content-Type": "application/x-amz-json-1.0"}, "body": json.dumps(body)}


CASES = {
    "concurrency": ({"operation": "GetAccountSettings"}, DENIED, "concurrency", "AccessDeniedException"),
    "refused-post": ({"operation": "PostObject", "resource": "posted"}, DENIED, "presigned", "answered 403 to a presigned POST with what it is for"),
    "transaction": ({"operation": "TransactWriteItems"}, DENIED, "records", "AccessDeniedException"),
    "condition": ({"operation": "TransactWriteItems", "nth": 2}, answer({}), "records", "has changed something"),
    "expiry": ({"operation": "DescribeTimeToLive"}, answer({"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}), "expiry", "TTL is DISABLED"),
    "push": ({"operation": "PutImage"}, DENIED, "registry", "AccessDeniedException"),
    "repository": ({"operation": "CreateRepository"}, DENIED, "registry", "AccessDeniedException"),
}


def failed(told):
    return {name: detail for name, (state, detail) in told.items() if state == "failed"}


def declare_plain(world, cloud, **spec):
    """Without an image that has the runtime: what needs a function is left out, and soon over."""
    cloud.pushes.amd64("alphaagent/prebuilt/plain")
    world.declare(image={"repository": "alphaagent/prebuilt/plain", "tag": "latest"}, **spec)


def test_each_thing_that_fails_is_told_and_nothing_stays(world, cloud):
    """One stack for all of them: each leaves the account as it was, which the next one needs."""
    declare_plain(world, cloud)
    before = all_there(cloud)
    cloud.expect_violations()
    for case, (match, action, name, words) in CASES.items():
        cloud.faults((match, action))
        told = doctor(world, 1)
        cloud.faults()
        assert set(failed(told)) == {name} and words in told[name][1], (case, told)
        assert all_there(cloud) == before, case


def test_lambda_that_behaves_otherwise(world, cloud):
    world.declare()
    before = all_there(cloud)
    cloud.faults(({"operation": "CreateFunction"}, DENIED))
    assert set(failed(doctor(world, 1))) == {"function"} and all_there(cloud) == before
    # Lambda is busy with it when it is to go, as with one that was made a moment ago.
    busy = {"kind": "error", "status": 409, "code": "ResourceConflictException", "message": "an operation is in progress"}
    cloud.faults(({"operation": "DeleteFunction", "times": 2}, busy))
    cloud.settings(has_streams=False)
    told = doctor(world, 1)
    assert set(failed(told)) == {"streams"} and "no InvokeWithResponseStream" in told["streams"][1]
    cloud.settings(has_streams=True, freezes=False)
    cloud.faults(({"operation": "PostObject", "resource": "result"}, DENIED), ({"operation": "InvokeWithResponseStream", "nth": 2}, {"kind": "reset"}))
    told = doctor(world, 1)
    assert set(failed(told)) == {"transfer", "tenants", "freeze"}, told
    assert "could not leave its result" in told["transfer"][1] and "names no tenant" in told["tenants"][1] and "ran on between" in told["freeze"][1]
    assert all_there(cloud) == before


@pytest.mark.skipif(not os.environ.get("BERTH_EXHAUSTIVE"), reason="three environments in a row: half a minute")
def test_environments_that_lambda_does_not_keep(world, cloud):
    world.declare()
    cloud.settings(fresh_environments=True)
    told = doctor(world)
    assert told["freeze"] == ("skipped", "not tried: Lambda made a new environment each time"), told


def test_what_is_missing_is_said(world, cloud):
    """Without a table, and without an image that has the runtime."""
    declare_plain(world, cloud, sessions=False)
    told = doctor(world)
    skipped = {name: detail for name, (state, detail) in told.items() if state == "skipped"}
    assert set(skipped) == {"function", "streams", "transfer", "tenants", "freeze", "tls", "records", "expiry"}, told
    assert "berth image runtime" in skipped["function"] and "sessions: {table: NAME}" in skipped["records"]


def test_it_asks_first(world, cloud):
    world.declare()
    mark = cloud.mark()
    ran = world.berth("doctor", "--aws")
    ran.expect(1)
    assert "makes a function of Lambda" in ran.err and "--yes is needed" in ran.err and cloud.calls(mark) == []


def test_what_others_have_of_its_names_stays(world, cloud):
    world.declare()
    name = names(cloud)
    model = cloud.aws("lambda").get_function(FunctionName=function_of(cloud))
    cloud.aws("lambda").create_function(FunctionName=name, PackageType="Image", Code={"ImageUri": model["Code"]["ImageUri"]}, Role=model["Configuration"]["Role"], Tags={"team": "others"})
    cloud.aws("ecr").create_repository(repositoryName=name, tags=[{"Key": "team", "Value": "others"}])
    before = all_there(cloud)
    told = doctor(world, 1)
    assert told["function"][0] == "failed" and "is not this check's" in told["function"][1], told
    assert "presigned" not in told and all_there(cloud) == before
    cloud.aws("lambda").delete_function(FunctionName=name)
    before["functions"].remove(name)
    told = doctor(world, 1)
    assert told["registry"][0] == "failed" and "is not this check's" in told["registry"][1] and told["cleanup"][0] == "failed", told
    assert all_there(cloud) == before


def start(world, cloud, operation):
    """A checklist that has made this call, or is over."""
    mark = cloud.mark()
    process = world.berth.popen("doctor", "--aws", "--yes", "--json")
    wait_until(lambda: cloud.calls(mark, operation=operation) or process.poll() is not None)
    return process


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("operations", [("CreateFunction", "InvokeWithResponseStream"), ("TransactWriteItems", "UploadLayerPart")])
def test_interrupts_leave_nothing(world, cloud, times, operations):
    if "CreateFunction" in operations:
        world.declare()
    else:
        declare_plain(world, cloud)
    before = all_there(cloud)
    for operation in operations:
        process = start(world, cloud, operation)
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        out, err = process.communicate(timeout=60)
        assert all_there(cloud) == before, operation
        assert process.returncode in (0, 1) and json.loads(out)["findings"][-1]["name"] == "cleanup", (operation, out, err)


def test_what_a_death_left_goes_with_the_next(world, cloud):
    world.declare()
    before = all_there(cloud)
    process = start(world, cloud, "InvokeWithResponseStream")
    process.kill()
    process.communicate(timeout=60)
    left = all_there(cloud)
    assert left["functions"] != before["functions"] and left["objects"] != before["objects"]
    told = doctor(world, 1)
    assert "runs, or died less than 15 minutes ago" in told["function"][1]
    arn = cloud.aws("lambda").get_function(FunctionName=names(cloud))["Configuration"]["FunctionArn"]
    cloud.aws("lambda").tag_resource(Resource=arn, Tags={"berth:doctor-at": "2020-01-01T00:00:00Z"})
    doctor(world)
    assert all_there(cloud) == before
