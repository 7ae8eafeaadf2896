# SPDX-License-Identifier: Apache-2.0
"""Every guard on real input: plan and apply refuse with 3 and no changing call, --allow lets exactly that through, remedies work."""

import json

import pytest

import stacks
from cloud import is_note

ALLOWED_TWICE = {"inactive-specialist": ["has-dependents"]}  # what has to be allowed before this guard is asked


def function_of(name):
    return f"alphaagent-env-{name}"


class World:
    def __init__(self, cloud, berth):
        self.cloud, self.berth = cloud, berth
        self.bucket = f"alphaagent-workspaces-{cloud.account}-us-east-1"

    def declare(self, *documents, **stack):
        self.berth.write("m.yaml", stacks.text(stacks.stack(**stack), *documents))

    def applied(self, *documents, **stack):
        self.declare(*documents, **stack)
        self.berth.apply()

    def foreign(self, name, tags=None):
        self.cloud.aws("lambda").create_function(
            FunctionName=function_of(name), PackageType="Image", Role=self.cloud.lambda_role(f"theirs-{name}"), Tags=tags or {}, MemorySize=4321,
            Code={"ImageUri": self.cloud.image_uri("alphaagent/prebuilt/python")},
        )  # fmt: skip
        self.cloud.aws("lambda").get_waiter("function_active_v2").wait(FunctionName=function_of(name), WaiterConfig={"Delay": 0.1})

    def retag(self, name, owner):
        arn = self.cloud.functions()[function_of(name)]["FunctionArn"]
        self.cloud.aws("lambda").tag_resource(Resource=arn, Tags={"berth:stack": owner})

    def put(self, key, days_old=0):
        self.cloud.aws("s3").put_object(Bucket=self.bucket, Key=key, Body=b"12345")
        self.cloud.settings(object_age_days={"workspaces/": days_old})

    def history(self):
        return self.berth("state", "show", "--json").expect(0).json()["history"][0]

    def operations(self, mark):
        return [c["operation"] for c in self.cloud.changing_calls(mark)]


@pytest.fixture
def world(cloud, berth, prebuilt):
    return World(cloud, berth)


X, Y = stacks.environment("x"), stacks.environment("y")
USERS = (stacks.agent("a", "x"), stacks.agent("off", "x", active=False), stacks.swarm("s", ["a"], "x"))
MANY = [stacks.environment(f"e-{n}") for n in range(6)]


# Each leaves manifests whose plan is refused, with one harmless change beside it (Environment/beside).
BESIDE = stacks.environment("beside")


def has_dependents(world):
    world.applied(X, Y, *USERS)
    world.declare(Y, *USERS, BESIDE)
    return "Environment/x"


def inactive_specialist(world):
    specialist = stacks.agent("only", "x", type="specialist")
    world.applied(X, specialist)
    world.declare(specialist, BESIDE)
    return "Environment/x"


def not_owned(world):
    world.foreign("x")
    world.declare(X, BESIDE)
    return "Environment/x"


def not_owned_update(world):
    world.applied(X)
    world.retag("x", "other")
    world.declare(stacks.environment("x", memoryMB=3000), BESIDE)
    return "Environment/x"


def not_owned_delete(world):
    world.applied(X, Y)
    world.retag("x", "other")
    world.declare(Y, BESIDE)
    return "Environment/x"


def protected(world):
    world.applied(stacks.environment("x", protect=True), Y)
    world.declare(Y, BESIDE)
    return "Environment/x"


def protected_replace(world):
    world.applied(stacks.environment("x", protect=True))
    world.declare(stacks.environment("x", protect=True, tenantIsolation=False), BESIDE)
    return "Environment/x"


def needs_replacement(world):
    world.applied(X)
    world.declare(stacks.environment("x", tenantIsolation=False), BESIDE)
    return "Environment/x"


def image_unusable(world):
    world.declare(stacks.environment("x", image={"repository": "alphaagent/prebuilt/python", "tag": "missing"}), BESIDE)
    return "Environment/x"


def image_in_use(world):
    world.cloud.pushes.amd64("team/tool", "v1")
    used = stacks.environment("x", image={"repository": "team/tool", "tag": "v1"})
    world.applied(used)
    world.cloud.pushes.amd64("team/tool", "v1", "newer")
    world.declare(used, stacks.image("tool", repository="team/tool", tag="v1", retain={"untaggedDays": 1}), BESIDE)
    return "Image/tool"


def expires_existing(world):
    world.applied(X)
    world.put("workspaces/sessions/s/workspace/f", days_old=40)
    world.declare(X, stacks.policy("p", {"all": True}, expireAfterDays=30), BESIDE)
    return "WorkspacePolicy/p"


def expires_logs(world):
    world.applied(X)
    world.cloud.aws("logs").create_log_group(logGroupName=f"/aws/lambda/{function_of('x')}")
    world.declare(stacks.environment("x", logRetentionDays=30), BESIDE)
    return "Environment/x"


def role_unusable(world):
    world.applied(X)
    world.declare(stacks.environment("x", executionRole=f"arn:aws:iam::{world.cloud.account}:role/nobodys"), BESIDE)
    return "Environment/x"


def over_quota(world):
    """New accounts have so little: Lambda would refuse the reservation of every function, one after another."""
    world.applied(X)
    world.cloud.settings(account_concurrency=105)
    world.declare(stacks.environment("x", reservedConcurrency=6), BESIDE)
    return "Environment/x"


def mass_delete(world):
    world.applied(*MANY)
    world.declare(BESIDE)
    return None


SCENARIOS = {
    "has-dependents": has_dependents,
    "inactive-specialist": inactive_specialist,
    "not-owned": not_owned,
    "not-owned update": not_owned_update,
    "not-owned delete": not_owned_delete,
    "protected": protected,
    "protected replace": protected_replace,
    "needs-replacement": needs_replacement,
    "image-unusable": image_unusable,
    "image-in-use": image_in_use,
    "expires-existing": expires_existing,
    "expires-logs": expires_logs,
    "mass-delete": mass_delete,
    "over-quota": over_quota,
    "role-unusable": role_unusable,
}
# What --allow cannot make possible: an image or a role that is not there. Its verdict is let through, AWS's is not.
IMPOSSIBLE = {"image-unusable", "over-quota", "role-unusable"}


def allow(*ids):
    return [text for each in ids for text in ("--allow", each)]


def refusals(plan, address):
    if address is None:
        return plan["refusals"]
    return [r for c in plan["changes"] if c["address"] == address for r in c["refusals"]]


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.only("ministack", "RevisionIds, and a registry that takes pushes")
def test_refuses_until_allowed(world, scenario, tmp_path):
    cloud, berth, guard = world.cloud, world.berth, scenario.split()[0]
    address = SCENARIOS[scenario](world)
    before = allow(*ALLOWED_TWICE.get(guard, []))
    mark, saved = cloud.mark(), tmp_path / "saved.plan"

    plan = berth.plan(*before, code=3)
    found = {r["id"]: r for r in refusals(plan, address)}
    assert guard in found, plan
    assert found[guard]["message"] and found[guard]["remedy"]
    text = berth("plan", *before).expect(3).out
    assert guard in text and found[guard]["message"].split(":")[0] in text
    result = berth("apply", "--yes", *before).expect(3)
    assert guard in result.out and "nothing was changed" in result.out
    berth("apply", "--yes", *before, *allow(f"{guard}:Environment/other")).expect(3)
    others = allow(*[other.split()[0] for other in SCENARIOS if other.split()[0] not in (guard, *found)])
    berth("apply", "--yes", *others).expect(3)
    berth("plan", "-o", saved, *before).expect(3)
    berth("apply", "--yes", saved).expect(3)
    assert world.operations(mark) == [], "not one changing call"
    if guard in IMPOSSIBLE:
        return

    exact = f"{guard}:{address}" if address else guard
    through = before + allow(exact, *[f"{i}:{address}" for i in found if i != guard])
    berth.apply(*through)
    assert exact in world.history()["detail"]["allowed"]
    assert "beside" in json.dumps(cloud.functions())


@pytest.mark.parametrize("scenario", sorted(set(SCENARIOS) - {"mass-delete"}))
@pytest.mark.only("ministack", "RevisionIds, and a registry that takes pushes")
def test_skip_refused_applies_the_rest(world, scenario):
    cloud, berth, guard = world.cloud, world.berth, scenario.split()[0]
    address = SCENARIOS[scenario](world)
    untouched = {n: f["RevisionId"] for n, f in cloud.functions().items()}
    mark = cloud.mark()
    result = berth("apply", "--yes", "--skip-refused", *allow(*ALLOWED_TWICE.get(guard, []))).expect(3)
    assert guard in result.out
    assert function_of("beside") in cloud.functions()
    assert {n: f["RevisionId"] for n, f in cloud.functions().items() if n in untouched} == untouched
    assert "DeleteFunction" not in world.operations(mark) and "PutBucketLifecycleConfiguration" not in world.operations(mark)
    mark = cloud.mark()
    plan = berth.plan(*allow(*ALLOWED_TWICE.get(guard, [])), code=3)
    assert [c["address"] for c in plan["changes"]] == [address], "only what was refused is left"
    assert world.operations(mark) == []


def test_mass_deletion_is_not_skipped(world):
    """It refuses the plan as a whole: there is no rest."""
    mass_delete(world)
    mark = world.cloud.mark()
    world.berth("apply", "--yes", "--skip-refused").expect(3)
    assert world.operations(mark) == []


# --- remedies -----------------------------------------------------------------------------------------


def test_has_dependents_lists_every_one_and_a_re_pointing_plan_goes_through_in_order(world):
    agents = [stacks.agent(f"a-{n}", "x") for n in range(12)]
    world.applied(X, *agents, stacks.agent("off", "x", active=False), stacks.swarm("s", ["a-1"], "x"))
    world.declare(Y, *agents, stacks.agent("off", "x", active=False), stacks.swarm("s", ["a-1"], "x"))
    plan = world.berth.plan(code=3)
    (refusal,) = refusals(plan, "Environment/x")
    assert refusal["dependents"] == sorted([f"Agent/a-{n}" for n in range(12)] + ["Agent/off", "Swarm/s"])
    text = world.berth("plan").expect(3).out
    assert all(dependent in text for dependent in refusal["dependents"])

    agents = [stacks.agent(f"a-{n}", "y") for n in range(12)]
    world.declare(Y, *agents, stacks.agent("off", "y", active=False), stacks.swarm("s", ["a-1"], "y"))
    world.berth.plan()
    world.cloud.settings(pending_by_name={function_of("y"): 1.5})
    mark = world.cloud.mark()
    world.berth.apply()
    calls = [c for c in world.cloud.calls(mark) if (c["mutating"] and not is_note(c)) or (c["operation"] == "GetFunction" and function_of("y") in str(c["params"]))]
    names = [c["operation"] for c in calls]
    records = [i for i, name in enumerate(names) if name == "PutObject"]
    assert len(records) == 14
    assert names[0] == "CreateFunction" and names[-1] == "DeleteFunction" and names.count("DeleteFunction") == 1
    assert max(i for i, name in enumerate(names) if name == "GetFunction") < records[0], "the new one is ready before anybody is pointed at it"
    body = world.cloud.aws("s3").get_object(Bucket=world.bucket, Key="registry/team/agents/a-3.json")["Body"].read()
    assert json.loads(body)["functionName"] == function_of("y")
    world.berth.assert_settled()


def test_has_dependents_ends_when_they_go_too(world):
    world.applied(X, Y, *USERS)
    world.declare(Y)
    world.berth.apply()
    assert set(world.cloud.functions()) == {function_of("y")}
    world.berth.assert_settled()


def test_recorded_bindings_guard_after_the_manifests_are_gone(world):
    """An agent left out of the plan stays as it was applied: its environment may not go from under it."""
    world.applied(X, Y, *USERS)
    world.declare(Y)
    mark = world.cloud.mark()
    for left_out in (["--exclude", "Agent/a"], ["--target", "Environment/x"]):
        plan = world.berth.plan(*left_out, code=3)
        assert "Agent/a" in refusals(plan, "Environment/x")[0]["dependents"]
        world.berth("apply", "--yes", *left_out).expect(3)
    assert world.operations(mark) == []


def test_a_dependent_that_is_left_out_keeps_guarding(world):
    world.applied(X, Y, *USERS)
    world.declare(Y, stacks.agent("a", "y"), stacks.agent("off", "y", active=False), stacks.swarm("s", ["a"], "y"))
    plan = world.berth.plan("--exclude", "Swarm/s", code=3)
    assert refusals(plan, "Environment/x")[0]["dependents"] == ["Swarm/s"]


def test_inactive_specialist_remedy(world):
    inactive_specialist(world)
    world.declare(Y, stacks.agent("only", "y", type="specialist"))
    world.berth.apply()
    world.berth.assert_settled()


def test_protect_outlives_the_manifest_and_ends_with_protect_false(world):
    world.applied(stacks.environment("x", protect=True), Y)
    (world.berth.stack / "m.yaml").unlink()
    world.declare(Y)
    mark = world.cloud.mark()
    for _ in range(2):
        world.berth("apply", "--yes").expect(3)
    assert world.operations(mark) == []
    world.applied(X, Y)
    world.declare(Y)
    world.berth.apply()
    assert set(world.cloud.functions()) == {function_of("y")}


def test_needs_replacement_remedy_is_a_new_environment(world):
    world.applied(X, stacks.agent("a", "x"))
    world.declare(stacks.environment("x2", tenantIsolation=False), stacks.agent("a", "x2"))
    world.berth.apply()
    assert set(world.cloud.functions()) == {function_of("x2")}
    world.berth.assert_settled()


def test_mass_delete_remedies(world):
    mass_delete(world)
    message = refusals(world.berth.plan(code=3), None)[0]["message"]
    assert "6 of this stack's 7" in message
    world.declare(BESIDE, guards={"maxDeletes": 6})
    world.berth.apply()
    assert set(world.cloud.functions()) == {function_of("beside")}


def test_limits_of_the_stack_are_kept(world):
    world.applied(X, Y, guards={"maxDeletes": 0})
    world.declare(Y, guards={"maxDeletes": 0})
    assert refusals(world.berth.plan(code=3), None)[0]["id"] == "mass-delete"
    world.declare(Y, guards={"maxDeletePercent": 20})
    assert refusals(world.berth.plan(code=3), None)[0]["id"] == "mass-delete"
    world.declare(Y, guards={"maxDeletePercent": 50})
    world.berth.apply()


def test_not_owned_remedy_is_another_name(world):
    world.foreign("x", {"berth:stack": "other"})
    world.declare(X)
    (found,) = refusals(world.berth.plan(code=3), "Environment/x")
    assert found["id"] == "not-owned" and "other" in found["message"]
    world.declare(Y)
    world.berth.apply()
    assert world.cloud.functions()[function_of("x")]["MemorySize"] == 4321


# --- wrong-account ------------------------------------------------------------------------------------


def test_wrong_account_reads_nothing_more(world):
    world.declare(X, aws={"account": "999999999999"})
    for command in (["plan"], ["apply", "--yes"], ["destroy", "--yes"], ["drift"], ["refresh"], ["apply", "--yes", "--skip-refused"]):
        mark = world.cloud.mark()
        result = world.berth(*command).expect(3)
        assert "wrong-account" in result.out + result.err and world.cloud.account in result.out and "999999999999" in result.out, command
        assert [c["operation"] for c in world.cloud.calls(mark)] == ["GetCallerIdentity"], command
    mark = world.cloud.mark()
    world.berth("import", "Environment/x", function_of("x")).expect(3)
    assert [c["operation"] for c in world.cloud.calls(mark)] == ["GetCallerIdentity"]
    world.declare(X, aws={"account": world.cloud.account})
    world.berth.apply()


def test_wrong_account_cannot_be_allowed_into_harm(world):
    """A state of one account and credentials of another: not even --allow makes everything anew there."""
    world.declare(X, aws={"account": "999999999999"})
    mark = world.cloud.mark()
    result = world.berth("apply", "--yes", "--allow", "wrong-account")
    assert result.code in (1, 3), result
    assert world.operations(mark) == []


# --- destroy ------------------------------------------------------------------------------------------


def test_destroy_is_guarded(world):
    world.applied(stacks.environment("x", protect=True), Y, stacks.agent("a", "x"))
    world.retag("y", "other")
    world.put("workspaces/sessions/s/workspace/f")
    mark = world.cloud.mark()
    result = world.berth("destroy", "--yes").expect(3)
    for guard in ("protected", "not-owned", "bucket-not-empty"):
        assert guard in result.out
    assert "mass-delete" not in result.out and world.operations(mark) == []
    world.berth("destroy", "--yes", "--allow", "protected").expect(3)
    assert world.operations(mark) == []
    result = world.berth("destroy", "--yes", "--skip-refused").expect(3)
    assert set(world.cloud.functions()) == {function_of("x"), function_of("y")}
    world.cloud.aws("s3").head_object(Bucket=world.bucket, Key="workspaces/sessions/s/workspace/f")
    world.berth.destroy("--allow", "protected:Environment/x", "--allow", "not-owned:Environment/y", "--allow", "bucket-not-empty:Stack/team")
    assert world.cloud.functions() == {} and world.cloud.aws("s3").list_buckets()["Buckets"] == []


def test_destroy_of_many_is_no_mass_deletion(world):
    world.applied(*MANY, guards={"maxDeletes": 0})
    world.berth.destroy()
    assert world.cloud.functions() == {}


# --- two stacks in one account ------------------------------------------------------------------------


def test_two_stacks_share_bucket_role_and_lifecycle(world, tmp_path):
    cloud, berth = world.cloud, world.berth
    second = ["--state", str(tmp_path / "second"), "-f", "second"]
    role = f"arn:aws:iam::{cloud.account}:role/alphaagent-execution-us-east-1"

    def write_second(*documents, **aws):
        berth.write("second/m.yaml", stacks.text(stacks.stack("second", **({"aws": aws} if aws else {})), *documents))

    first_files = ["-f", "m.yaml"]
    world.declare(X, stacks.agent("a", "x"), stacks.policy("p", {"environments": ["x"]}, expireAfterDays=40))
    berth("apply", "--yes", *first_files).expect(0)

    write_second(Y)
    mark = cloud.mark()
    result = berth("apply", "--yes", *second).expect(3)
    assert "not-owned" in result.out and "team" in result.out and world.operations(mark) == []

    shared = {"createBucket": False, "executionRole": role}
    documents = (Y, stacks.agent("a", "y"), stacks.policy("p", {"environments": ["y"]}, expireAfterDays=50))
    write_second(*documents, **shared)
    berth("apply", "--yes", *second).expect(0)
    rules = {r["ID"].split("@")[0] for r in cloud.aws("s3").get_bucket_lifecycle_configuration(Bucket=world.bucket)["Rules"]}
    assert rules == {"berth:team:p:x", "berth:second:p:y"}
    for files in (first_files, second):
        assert berth("plan", "--json", *files).expect(0).json()["changes"] == []

    # An environment of the same name is the other stack's.
    write_second(*documents, X, **shared)
    mark = cloud.mark()
    plan = berth("plan", "--json", *second).expect(3).json()
    assert [r["id"] for r in refusals(plan, "Environment/x")] == ["not-owned"]
    berth("apply", "--yes", *second).expect(3)
    assert world.operations(mark) == []
    write_second(*documents, **shared)

    # The owner cannot take the bucket away while the other's records are in it.
    result = berth("destroy", "--yes", *first_files).expect(3)
    assert "bucket-not-empty" in result.out and world.operations(mark) == []
    berth("destroy", "--yes", *second).expect(0)
    assert set(cloud.functions()) == {function_of("x")}
    rules = {r["ID"].split("@")[0] for r in cloud.aws("s3").get_bucket_lifecycle_configuration(Bucket=world.bucket)["Rules"]}
    assert rules == {"berth:team:p:x"}
    assert berth("plan", "--json", *first_files).expect(0).json()["changes"] == []
    berth("destroy", "--yes", *first_files).expect(0)
    assert cloud.aws("s3").list_buckets()["Buckets"] == [] and cloud.functions() == {}


# --- fifty tags -----------------------------------------------------------------------------------------


def test_tags_that_do_not_fit_beside_those_of_others(cloud, berth, prebuilt):
    """AWS takes fifty on one resource, whoever put them there: the plan says so, and not a failing apply."""
    write = lambda **tags: berth.write("m.yaml", stacks.text(stacks.stack(tags=tags), stacks.environment("x")))  # noqa: E731
    write(a="1")
    berth.apply()
    client = cloud.aws("lambda")
    arn = client.get_function(FunctionName="alphaagent-env-x")["Configuration"]["FunctionArn"]
    client.tag_resource(Resource=arn, Tags={f"theirs-{n}": "x" for n in range(45)})
    assert berth.plan()["changes"] == [], "fifty fit"
    write(a="1", b="2")
    (change,) = [c for c in berth.plan(code=3)["changes"] if c["address"] == "Environment/x"]
    (refusal,) = change["refusals"]
    assert refusal["id"] == "over-quota" and "it would carry 51" in refusal["message"] and "45 there are not" in refusal["message"]
    client.untag_resource(Resource=arn, TagKeys=["theirs-0"])
    berth.apply()
    berth.assert_settled()
    bucket = f"alphaagent-workspaces-{cloud.account}-us-east-1"
    tags = cloud.aws("s3").get_bucket_tagging(Bucket=bucket)["TagSet"]
    cloud.aws("s3").put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags + [{"Key": f"theirs-{n}", "Value": "x"} for n in range(44)]})
    write(a="1", b="2", c="3")
    (change,) = [c for c in berth.plan(code=3)["changes"] if c["address"] == "Stack/team"]
    assert [r["id"] for r in change["refusals"]] == ["over-quota"]
