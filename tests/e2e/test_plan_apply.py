# SPDX-License-Identifier: Apache-2.0
"""The main road: plan, apply, an empty plan, one changed field, drift; the JSON that pipelines read."""

import json

import pytest

import stacks

FUNCTION = "alphaagent-env-alpha"
BUCKET = "alphaagent-workspaces-{}-us-east-1"


@pytest.fixture
def team(berth, prebuilt):
    """A stack of two environments, two agents and a swarm, not applied yet."""

    def write(**alpha):
        berth.write(
            "m.yaml",
            stacks.text(
                stacks.stack("team", tags={"cost": "r&d".replace("&", "-")}),
                stacks.environment("alpha", {"team": "a"}, memoryMB=2048, **alpha),
                stacks.environment("beta", {"team": "b"}),
                stacks.agent("one", "alpha"),
                stacks.agent("two", "beta"),
                stacks.swarm("both", ["one", "two"], "beta"),
            ),
        )

    write()
    berth.rewrite = write
    return berth


def test_plan_of_an_empty_account(cloud, team):
    result = team("plan", "--detailed-exitcode", "--json").expect(2)
    plan = result.json()
    assert cloud.changing_calls() == []
    assert set(plan) >= {
        "formatVersion", "stack", "provider", "account", "region", "stateSerial", "createdAt", "summary", "refusals", "changes", "drift", "calls", "warnings",
    }  # fmt: skip
    assert (plan["formatVersion"], plan["stack"], plan["provider"], plan["refusals"], plan["drift"]) == ("1", "team", "aws", [], [])
    assert plan["summary"] == {"create": 6, "update": 0, "replace": 0, "delete": 0, "adopt": 0, "unchanged": 0, "refused": 0}
    changes = {c["address"]: c for c in plan["changes"]}
    assert set(changes) == {"Stack/team", "Environment/alpha", "Environment/beta", "Agent/one", "Agent/two", "Swarm/both"}
    alpha = changes["Environment/alpha"]
    assert set(alpha) >= {"address", "kind", "name", "action", "reason", "fields", "dependsOn", "refusals"}
    assert (alpha["kind"], alpha["name"], alpha["action"], alpha["refusals"]) == ("Environment", "alpha", "create", [])
    assert "Stack/team" in alpha["dependsOn"] and "Environment/alpha" in changes["Agent/one"]["dependsOn"]
    memory = next(f for f in alpha["fields"] if f["path"] == "memoryMB")
    assert (memory["before"], memory["after"], memory["sensitive"]) == (None, 2048, False)
    assert not any("vcpu" in f["path"].lower() for f in alpha["fields"])
    assert sum(plan["calls"].values()) > 0
    order = [c["address"] for c in plan["changes"]]
    assert all(order.index(needed) < order.index(c["address"]) for c in plan["changes"] for needed in c["dependsOn"] if needed in order)


def test_plan_makes_no_change_and_exits_0_without_the_flag(cloud, team):
    text = team("plan").expect(0).out
    assert "Environment/alpha" in text or ("alpha" in text and "2048" in text)
    assert cloud.changing_calls() == []
    assert "\x1b" not in text


def test_a_plan_is_the_same_twice(team):
    one, two = (team.plan() for _ in range(2))
    for plan in (one, two):
        del plan["createdAt"]
    assert one == two


def test_apply_makes_what_is_declared(cloud, team, prebuilt):
    result = team.apply()
    assert result.out.strip().splitlines()[-1], "a last line says what happened"
    account = cloud.account
    functions = cloud.functions("alphaagent-env-")
    assert set(functions) == {FUNCTION, "alphaagent-env-beta"}
    found = cloud.aws("lambda").get_function(FunctionName=FUNCTION)
    made = found["Configuration"]
    assert (made["MemorySize"], made["Timeout"], made["EphemeralStorage"]["Size"]) == (2048, 900, 512)
    assert (made["PackageType"], made["Architectures"], made["State"]) == ("Image", ["x86_64"], "Active")
    assert found["Code"]["ResolvedImageUri"] == cloud.image_uri("alphaagent/prebuilt/python", digest=prebuilt)
    assert found["Code"]["ImageUri"].endswith("@" + prebuilt), "compared and set by digest"
    lineage = found["Tags"].pop("berth:lineage")
    assert found["Tags"] == {"berth:stack": "team", "berth:kind": "Environment", "berth:name": "alpha", "cost": "r-d"} and len(lineage) == 36
    assert made["Role"] == f"arn:aws:iam::{account}:role/alphaagent-execution-us-east-1"
    check_role(cloud)
    check_bucket(cloud)
    keys = {o["Key"] for o in cloud.aws("s3").list_objects_v2(Bucket=BUCKET.format(account), Prefix="registry/")["Contents"]}
    assert keys == {"registry/team/agents/one.json", "registry/team/agents/two.json", "registry/team/swarms/both.json"}
    team.assert_settled()


def check_role(cloud):
    iam = cloud.aws("iam")
    role = iam.get_role(RoleName="alphaagent-execution-us-east-1")["Role"]
    trusted = role["AssumeRolePolicyDocument"]["Statement"]
    assert [s["Principal"] for s in trusted] == [{"Service": "lambda.amazonaws.com"}]
    tags = {t["Key"]: t["Value"] for t in iam.list_role_tags(RoleName=role["RoleName"])["Tags"]}
    assert tags["berth:stack"] == "team"
    inline = iam.list_role_policies(RoleName=role["RoleName"])["PolicyNames"]
    assert inline
    for name in inline:
        for statement in iam.get_role_policy(RoleName=role["RoleName"], PolicyName=name)["PolicyDocument"]["Statement"]:
            assert statement["Effect"] == "Allow"
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            assert "*" not in actions and not any(a.endswith(":*") for a in actions), "the least rights"


def check_bucket(cloud):
    s3, name = cloud.aws("s3"), BUCKET.format(cloud.account)
    rules = s3.get_bucket_encryption(Bucket=name)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rules[0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] in ("AES256", "aws:kms")
    assert set(s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"].values()) == {True}
    policy = json.loads(s3.get_bucket_policy(Bucket=name)["Policy"])
    assert any(
        s["Effect"] == "Deny" and s["Condition"] == {"Bool": {"aws:SecureTransport": "false"}} and s["Principal"] in ("*", {"AWS": "*"})
        for s in policy["Statement"]
    ), policy
    tags = {t["Key"]: t["Value"] for t in s3.get_bucket_tagging(Bucket=name)["TagSet"]}
    assert tags["berth:stack"] == "team"


def test_one_changed_field_is_one_update_and_one_call(cloud, team):
    team.apply()
    team.rewrite()
    (team.stack / "m.yaml").write_text((team.stack / "m.yaml").read_text().replace("memoryMB: 2048", "memoryMB: 3008"))
    plan = json.loads(team("plan", "--json", "--detailed-exitcode").expect(2).out)
    (change,) = plan["changes"]
    assert (change["address"], change["action"]) == ("Environment/alpha", "update")
    assert change["fields"] == [{"path": "memoryMB", "before": 2048, "after": 3008, "sensitive": False}]
    assert plan["summary"]["update"] == 1 and plan["summary"]["unchanged"] == 5
    mark = cloud.mark()
    team.apply()
    assert [c["operation"] for c in cloud.changing_calls(mark)] == ["UpdateFunctionConfiguration"]
    assert "RevisionId" in cloud.changing_calls(mark)[0]["params"]
    assert cloud.functions()[FUNCTION]["MemorySize"] == 3008
    team.assert_settled()


def test_apply_twice_changes_nothing(cloud, team):
    team.apply()
    mark = cloud.mark()
    team.apply()
    assert cloud.changing_calls(mark) == []


def test_apply_needs_a_yes(cloud, team):
    result = team("apply", stdin="yes\n").expect(1)
    assert "--yes" in result.err
    assert cloud.changing_calls() == []


def test_target_and_exclude(cloud, team):
    plan = team.plan("--target", "Agent/one")
    assert {c["address"] for c in plan["changes"]} == {"Agent/one", "Environment/alpha", "Stack/team"}
    team.apply("--exclude", "Environment/beta", "--exclude", "Agent/two", "--exclude", "Swarm/both")
    assert set(cloud.functions()) == {FUNCTION}
    assert "Environment/gamma" in team("plan", "--target", "Environment/gamma").expect(1).err


def test_refresh(cloud, team):
    team.apply()
    mark = cloud.mark()
    team.plan("--refresh", "none")
    assert [c for c in cloud.calls(mark) if c["service"] == "lambda"] == []
    mark = cloud.mark()
    team.plan("--refresh", "full")
    assert len(cloud.calls(mark, "lambda", "GetFunction")) >= 2
    mark = cloud.mark()
    team.plan()
    assert cloud.calls(mark, "lambda", "GetFunction") == [], "nothing moved: the list is enough"


def test_drift_is_shown_and_mended(cloud, team):
    team.apply()
    cloud.aws("lambda").update_function_configuration(FunctionName=FUNCTION, MemorySize=5000)
    plan = team.plan("--detailed-exitcode", code=2)
    (change,) = plan["changes"]
    assert change["address"] == "Environment/alpha"
    assert [(f["path"], f["before"], f["after"]) for f in change["fields"]] == [("memoryMB", 5000, 2048)]
    assert [d["address"] for d in plan["drift"]] == ["Environment/alpha"]
    team.apply()
    assert cloud.functions()[FUNCTION]["MemorySize"] == 2048
    team.assert_settled()


def test_a_deleted_function_comes_back(cloud, team):
    team.apply()
    cloud.aws("lambda").delete_function(FunctionName=FUNCTION)
    (change,) = team.plan("--detailed-exitcode", code=2)["changes"]
    assert (change["address"], change["action"]) == ("Environment/alpha", "create")
    team.apply()
    assert FUNCTION in cloud.functions()
    team.assert_settled()


def test_saved_plan(cloud, team, tmp_path):
    plan = tmp_path / "saved.plan"
    team("plan", "-o", str(plan)).expect(0)
    team("apply", "--yes", str(plan)).expect(0)
    assert set(cloud.functions()) == {FUNCTION, "alphaagent-env-beta"}
    mark = cloud.mark()
    result = team("apply", "--yes", str(plan))
    assert result.code == 3 and "plan-stale" in result.out + result.err
    assert cloud.changing_calls(mark) == []


def test_secrets_stay_in_the_cloud(cloud, team):
    secret = "s3cr3t-Value-4711"
    team.rewrite(variables={"PLAIN": "shown", "TOKEN": {"value": secret, "sensitive": True}})
    plan = team("plan", "--json").expect(0)
    fields = {f["path"]: f for c in plan.json()["changes"] if c["address"] == "Environment/alpha" for f in c["fields"]}
    assert any("TOKEN" in path and f["sensitive"] and f["after"] is None for path, f in fields.items()), fields
    results = [plan, team("plan", "-v"), team.apply("-v"), team("get", "--json"), team("state", "show", "Environment/alpha", "--json")]
    assert cloud.functions()[FUNCTION]["Environment"]["Variables"] == {"PLAIN": "shown", "TOKEN": secret}
    for result in results:
        assert secret not in result.out + result.err
    for path in (team.stack / ".berth").rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path
    team.assert_settled()
    team.rewrite(variables={"PLAIN": "shown", "TOKEN": {"value": secret + "2", "sensitive": True}})
    (change,) = team.plan()["changes"]
    assert [f["before"] for f in change["fields"]] == [None]
    team.apply()
    assert cloud.functions()[FUNCTION]["Environment"]["Variables"]["TOKEN"] == secret + "2"


def test_a_missing_image_is_refused_before_anything_is_made(cloud, berth):
    berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("alpha")))
    result = berth("apply", "--yes")
    assert result.code in (1, 3) and "alphaagent/prebuilt/python" in result.out + result.err
    assert cloud.functions() == {}


def test_moved_tags(cloud, berth):
    first = cloud.pushes.amd64("team/tool", "stable", "one")
    cloud.pushes.amd64("team/tool", "one", "one")  # moto deletes an image that loses its last tag to another
    berth.write(
        "m.yaml",
        stacks.text(
            stacks.stack(),
            stacks.environment("pinned", image={"repository": "team/tool", "tag": "stable"}),
            stacks.environment("follows", image={"repository": "team/tool", "tag": "stable", "follow": "tag"}),
        ),
    )
    berth.apply()
    second = cloud.pushes.amd64("team/tool", "stable", "two")
    plan = berth.plan()
    assert [c["address"] for c in plan["changes"]] == ["Environment/follows"]
    mark = cloud.mark()
    berth.apply()
    assert [c["operation"] for c in cloud.changing_calls(mark)] == ["UpdateFunctionCode"]
    running = {n: cloud.aws("lambda").get_function(FunctionName=f"alphaagent-env-{n}")["Code"]["ResolvedImageUri"] for n in ("pinned", "follows")}
    assert running["pinned"].endswith(first) and running["follows"].endswith(second)
    berth.assert_settled()


def test_get_lists_what_stands(team):
    team.apply()
    found = team("get", "--json").expect(0)
    for address in ("alpha", "beta", "one", "both"):
        assert address in found.out
    assert "2048" in team("get", "Environment/alpha").expect(0).out
