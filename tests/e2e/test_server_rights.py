# SPDX-License-Identifier: Apache-2.0
"""
The policy of a server in docs/aws.md, held against what a server asks of AWS: each call that the proxy saw is allowed by it, the presigned
ones of functions too since they are signed with the server's keys; and each of its rights was needed by one.
"""

import fnmatch
import json
import re
from pathlib import Path

import pytest

from controllers import wait_until
from lib.aws_sessions import TABLE, Session, begin, bucket_of, lose, post, result, text_of, transfers, world  # noqa: F401

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.only("ministack", "moto has no InvokeWithResponseStream, and enforces no POST policy"),
]  # fmt: skip

DOCS = Path(__file__).parents[2] / "docs/aws.md"
RARE = {"s3:GetObjectTagging"}  # of CopyObject, by which E2B's clients move files and folders
ITEMS = {"Update": "UpdateItem", "Delete": "DeleteItem", "Put": "PutItem", "ConditionCheck": "ConditionCheckItem"}


def documented(cloud, function):
    """The statements, of this account, its function's prefix and its table."""
    text = re.search(r"needs, and no more.*?```json\n(.*?)```", DOCS.read_text(), re.DOTALL)[1]
    prefix = function.partition("-env-")[0]
    for old, new in (("team-sessions", TABLE), ("team-", prefix + "-"), ("111122223333", cloud.account), ("eu-west-1", cloud.region)):
        text = text.replace(old, new)
    policy = json.loads(text)
    assert policy["Version"] == "2012-10-17" and all(s["Effect"] == "Allow" and "Condition" not in s for s in policy["Statement"])
    return [([s["Action"]] if isinstance(s["Action"], str) else s["Action"], s["Resource"]) for s in policy["Statement"]]


def of_bucket(call):
    """[(action, key or None)] of a call of S3, as the service authorization reference has them."""
    params, operation = call["params"], call["operation"]
    key = params.get("Key")
    if operation in ("ListObjectsV2", "HeadBucket"):
        return [("s3:ListBucket", None)]
    if operation in ("GetObject", "HeadObject"):
        return [("s3:GetObject", key)]
    if operation == "DeleteObjects":
        return [("s3:DeleteObject", one["Key"]) for one in params["Delete"]["Objects"]]
    if operation == "CopyObject":
        source = params["CopySource"]
        source = (source["Key"] if isinstance(source, dict) else source).lstrip("/").partition("/")[2]
        return [("s3:GetObject", source), ("s3:GetObjectTagging", source), ("s3:PutObject", key), ("s3:PutObjectTagging", key)]
    if operation == "PutObject":
        return [("s3:PutObject", key)] + ([("s3:PutObjectTagging", key)] if params.get("Tagging") else [])
    if operation == "PostObject":
        return [("s3:PutObject", key), ("s3:PutObjectTagging", key)]
    return [("s3:" + operation, key)]


def wanted(cloud, call):
    """What a call needs: [(action, ARN)]."""
    service, operation, params = call["service"], call["operation"], call["params"]
    if service == "sts":
        return []
    if service == "lambda":
        action = "InvokeFunction" if operation in ("Invoke", "InvokeWithResponseStream") else operation
        return [("lambda:" + action, f"arn:aws:lambda:{cloud.region}:{cloud.account}:function:{params.get('FunctionName', '*')}")]
    if service == "dynamodb":
        actions = [ITEMS[kind] for one in params["TransactItems"] for kind in one] if operation == "TransactWriteItems" else [operation]
        return [("dynamodb:" + action, f"arn:aws:dynamodb:{cloud.region}:{cloud.account}:table/{TABLE}") for action in actions]
    if service == "s3":
        bucket = f"arn:aws:s3:::{params['Bucket']}"
        return [(action, bucket if key is None else f"{bucket}/{key}") for action, key in of_bucket(call)]
    return [(f"{service}:{operation}", "*")]


def use_all(world, cloud):
    """What a server can be asked: executions of each kind, files in and out, copies, an interrupt, a lost environment, and the end of all."""
    server = world.serve()
    session, other = Session(server), Session(server)
    files = f"/v1/workspaces/{session.id}/files"
    assert server.ask_socket(f"{files}/put", method="PUT", body=b"x" * 100).status == 201
    assert server.ask_socket(f"{files}/put", headers=[("Range", "bytes=1-2")]).status == 206
    found = session.run("import os\nfor i in range(700): open(f'f{i}', 'w').close()\nx = 1", files=[{"path": "in", "content": "y"}], returnFiles=["in"], timeoutSeconds=120)
    assert found["status"] == "ok", found
    lose(cloud, session)
    assert text_of(session.run("os.remove('put'); x #" + "z" * 1_000_000, timeoutSeconds=120)) == "1"
    copied = post(server, f"/v1/workspaces/{other.id}/copy", {"from": {"workspace": session.id, "paths": ["in"]}, "to": "there"})
    assert copied.status in (200, 201, 204), copied.body
    n = begin(session, "import time; time.sleep(600)", timeoutSeconds=60)
    mark = cloud.mark()
    wait_until(lambda: server.ask_socket(f"{session.path}/executions/{n}").json()["status"] == "running")
    wait_until(lambda: cloud.calls(operation="InvokeWithResponseStream"), timeout=20)
    assert post(server, f"{session.path}/executions/{n}/interrupt").status in (200, 202, 204)
    assert result(session, n)["status"] in ("interrupted", "failed") and mark
    assert post(server, f"{session.path}/restart").status in (200, 202, 204)
    assert text_of(session.run("1", timeoutSeconds=120)) == "1"
    assert server.ask_socket(f"/v1/workspaces/{session.id}/archive").status == 200
    assert server.ask_socket(f"{files}/in", method="DELETE").status == 204
    for one in (session, other):
        assert server.ask_socket(one.path, method="DELETE").status == 204
        assert server.ask_socket(f"/v1/workspaces/{one.id}", method="DELETE").status == 204
    wait_until(lambda: transfers(cloud, session) == [])
    server.stop()
    world.serve()  # one that starts reads what there is


def test_a_server_needs_what_the_policy_says_and_no_more(world, cloud):
    world.declare()
    function = next(f["FunctionName"] for f in cloud.aws("lambda").list_functions()["Functions"] if "-env-" in f["FunctionName"])
    policy = documented(cloud, function)
    mark = cloud.mark()
    use_all(world, cloud)
    needed = {want for call in cloud.calls(mark) for want in wanted(cloud, call)}
    assert needed and bucket_of(cloud) in policy[-1][1]
    denied = [(action, resource) for action, resource in sorted(needed) if not any(action in actions and fnmatch.fnmatchcase(resource, on) for actions, on in policy)]
    assert denied == []
    used = {action for action, _ in needed} | RARE
    assert [action for actions, _ in policy for action in actions if action not in used] == []
