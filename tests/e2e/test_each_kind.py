# SPDX-License-Identifier: Apache-2.0
"""Of each kind: one added, one changed field by field, one removed; what exists is read with boto3."""

import json

import pytest

import stacks
from lib.aws_stack import World


@pytest.fixture
def world(cloud, berth, prebuilt):
    return World(cloud, berth)


# --- Environment ------------------------------------------------------------------------------------

# field: (first value, second value, operations of the change, what boto3 then sees)
FIELDS = {
    "memoryMB": (2048, 3538, ["UpdateFunctionConfiguration"], lambda f: f["Configuration"]["MemorySize"]),
    "workspaceStorageMB": (512, 4096, ["UpdateFunctionConfiguration"], lambda f: f["Configuration"]["EphemeralStorage"]["Size"]),
    "description": ("one", "two: ü", ["UpdateFunctionConfiguration"], lambda f: f["Configuration"]["Description"]),
    "reservedConcurrency": (5, 7, ["PutFunctionConcurrency"], lambda f: f["Concurrency"]["ReservedConcurrentExecutions"]),
    "variables": ({"NAME": "a", "OLD": "x"}, {"NAME": "b"}, ["UpdateFunctionConfiguration"], lambda f: f["Configuration"]["Environment"]["Variables"]),
}


@pytest.mark.parametrize("field", FIELDS)
def test_environment_field(world, field):
    first, second, operations, seen = FIELDS[field]
    world(stacks.environment("x", **{field: first}))
    assert seen(world.function("x")) == first
    change = world.plan(stacks.environment("x", **{field: second}))["Environment/x"]
    assert change["action"] == "update" and {f["path"].split(".")[0] for f in change["fields"]} == {field}
    assert world(stacks.environment("x", **{field: second})) == operations
    assert seen(world.function("x")) == second


def test_two_settings_in_one_call(world):
    world(stacks.environment("x"))
    assert world(stacks.environment("x", memoryMB=3000, description="new", variables={"NAME": "v"})) == ["UpdateFunctionConfiguration"]


def test_environment_field_withdrawn(world):
    """A field that the manifest once set stays Berth's: taken away, it goes back to its default."""
    world(stacks.environment("x", memoryMB=4000, description="text", variables={"NAME": "v"}, reservedConcurrency=5))
    world(stacks.environment("x"))
    found = world.function("x")
    assert found["Configuration"]["MemorySize"] == 2048
    assert not found["Configuration"].get("Description")
    assert not found["Configuration"].get("Environment")
    assert "Concurrency" not in found


def test_environment_log_retention(world, cloud):
    group = "/aws/lambda/alphaagent-env-x"
    world(stacks.environment("x", logRetentionDays=30))
    (found,) = cloud.aws("logs").describe_log_groups(logGroupNamePrefix=group)["logGroups"]
    assert (found["logGroupName"], found["retentionInDays"]) == (group, 30)
    assert world(stacks.environment("x", logRetentionDays=90)) == ["PutRetentionPolicy"]
    assert cloud.aws("logs").describe_log_groups(logGroupNamePrefix=group)["logGroups"][0]["retentionInDays"] == 90


def test_environment_image(world, cloud):
    one = cloud.pushes.amd64("team/tool", "v1", "one")
    two = cloud.pushes.docker("team/tool", "v2", "two")
    world(stacks.environment("x", image={"repository": "team/tool", "tag": "v1"}))
    assert world.function("x")["Code"]["ResolvedImageUri"].endswith(one)
    change = world.plan(stacks.environment("x", image={"repository": "team/tool", "tag": "v2"}))["Environment/x"]
    assert change["action"] == "update" and all(f["path"].startswith("image") for f in change["fields"])
    assert world(stacks.environment("x", image={"repository": "team/tool", "tag": "v2"})) == ["UpdateFunctionCode"]
    assert world.function("x")["Code"]["ResolvedImageUri"].endswith(two)
    assert world(stacks.environment("x", image={"repository": "team/tool", "digest": one})) == ["UpdateFunctionCode"]
    assert world.function("x")["Code"]["ResolvedImageUri"].endswith(one)


def test_environment_image_and_memory_are_one_step_with_waits(world, cloud):
    cloud.pushes.amd64("team/tool", "v1", "one")
    cloud.pushes.amd64("team/tool", "v2", "two")
    cloud.settings(updating_s=0.7)
    world(stacks.environment("x", image={"repository": "team/tool", "tag": "v1"}))
    changed = world(stacks.environment("x", image={"repository": "team/tool", "tag": "v2"}, memoryMB=4000))
    assert sorted(changed) == ["UpdateFunctionCode", "UpdateFunctionConfiguration"]
    assert not [c for c in cloud.calls() if c["status"] == 409]


def test_environment_tenant_isolation(world):
    world(stacks.environment("x", tenantIsolation=True))
    assert world.function("x")["Configuration"]["TenancyConfig"] == {"TenantIsolationMode": "PER_TENANT"}


def test_tenants_are_apart_in_new_functions_alone(world, cloud):
    """What was made without stays so until the manifest says otherwise: nothing is replaced by an upgrade, or by a line that goes."""
    world(stacks.environment("x", tenantIsolation=False), stacks.environment("y"))
    assert "TenancyConfig" not in world.function("x")["Configuration"]
    assert world.function("y")["Configuration"]["TenancyConfig"] == {"TenantIsolationMode": "PER_TENANT"}
    assert world(stacks.environment("x"), stacks.environment("y")) == []
    assert world.plan(stacks.environment("x", memoryMB=4000), stacks.environment("y"))["Environment/x"]["action"] == "update"
    assert world(stacks.environment("x", memoryMB=4000), stacks.environment("y")) == ["UpdateFunctionConfiguration"]
    assert "TenancyConfig" not in world.function("x")["Configuration"]
    world.write(stacks.environment("x", tenantIsolation=True), stacks.environment("y", tenantIsolation=False))
    plan = world.berth.plan(code=3)
    assert {c["address"]: [r["id"] for r in c["refusals"]] for c in plan["changes"]} == {
        "Environment/x": ["needs-replacement"], "Environment/y": ["needs-replacement"],
    }  # fmt: skip
    cloud.aws("lambda").delete_function(FunctionName="alphaagent-env-x")
    world(stacks.environment("x"), stacks.environment("y"))
    assert world.function("x")["Configuration"]["TenancyConfig"] == {"TenantIsolationMode": "PER_TENANT"}


def test_how_many_tenants_the_account_allows(world, cloud):
    """A new account's limit is ten. Once a function keeps tenants apart, plans do not ask any more."""
    settings = {"AccountLimit": {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 10}}
    answer = {"kind": "answer", "status": 200, "headers": {"Content-Type": "application/json"}, "body": json.dumps(settings)}
    cloud.faults(({"operation": "GetAccountSettings"}, answer))
    world.write(stacks.environment("x"))
    assert any("10 executions at once" in warning and "at most 25 environments of tenants" in warning for warning in world.berth.plan()["warnings"])
    found = {f["name"]: f for f in world.berth("doctor", "--json").json()["findings"]}
    assert found["tenants"]["works"] and "10 concurrent executions" in found["tenants"]["detail"] and "25 environments" in found["tenants"]["detail"]
    world(stacks.environment("x"))
    mark = cloud.mark()
    world.plan(stacks.environment("x"), stacks.environment("y"))
    assert not cloud.calls(mark, operation="GetAccountSettings")


def test_environment_added_and_removed(world, cloud):
    world(stacks.environment("x"), stacks.environment("y", logRetentionDays=7, reservedConcurrency=3))
    change = world.plan(stacks.environment("x"))
    assert {a: c["action"] for a, c in change.items()} == {"Environment/y": "delete"}
    world(stacks.environment("x"))
    assert set(cloud.functions()) == {"alphaagent-env-x"}
    assert cloud.aws("logs").describe_log_groups(logGroupNamePrefix="/aws/lambda/alphaagent-env-y")["logGroups"] == []


# --- Agent, Swarm -----------------------------------------------------------------------------------


def test_agent(world):
    environments = [stacks.environment("x"), stacks.environment("y")]
    world(*environments, stacks.agent("a", "x"), stacks.agent("b"))
    assert "x" in json.dumps(world.record("agents/a")) and world.record("agents/b") is not None
    assert world(*environments, stacks.agent("a", "y"), stacks.agent("b")) == ["PutObject"]
    assert '"y"' in json.dumps(world.record("agents/a"))
    # A label of no text is a label.
    empty = [*environments, stacks.agent("a", "y", labels={"empty": ""}), stacks.agent("b")]
    assert [f["path"] for f in world.plan(*empty)["Agent/a"]["fields"]] == ["labels.empty"]
    assert world(*empty) == ["PutObject"] and '"empty"' in json.dumps(world.record("agents/a"))
    assert world(*environments, stacks.agent("a", "y", active=False), stacks.agent("b")) == ["PutObject"]
    assert '"empty"' not in json.dumps(world.record("agents/a"))
    assert world(*environments, stacks.agent("b")) == ["DeleteObject"]
    assert world.record("agents/a") is None and world.record("agents/b") is not None


def test_agent_record_changed_by_someone(world, cloud):
    world(stacks.environment("x"), stacks.agent("a", "x"))
    before = world.record("agents/a")
    cloud.aws("s3").put_object(Bucket=world.bucket, Key="registry/team/agents/a.json", Body=b"{}")
    assert world.plan(stacks.environment("x"), stacks.agent("a", "x"))["Agent/a"]["action"] == "update"
    world(stacks.environment("x"), stacks.agent("a", "x"))
    assert world.record("agents/a") == before
    cloud.aws("s3").delete_object(Bucket=world.bucket, Key="registry/team/agents/a.json")
    world(stacks.environment("x"), stacks.agent("a", "x"))
    assert world.record("agents/a") == before


def test_swarm(world):
    people = [stacks.environment("x"), stacks.agent("a", "x"), stacks.agent("b", "x")]
    world(*people, stacks.swarm("s", ["a"], "x"))
    assert world.record("swarms/s")
    assert world(*people, stacks.swarm("s", ["a", "b"], "x")) == ["PutObject"]
    assert '"b"' in json.dumps(world.record("swarms/s"))
    assert world(*people) == ["DeleteObject"]
    assert world.record("swarms/s") is None


# --- ResourceRange ----------------------------------------------------------------------------------


def test_range_gives_defaults(world):
    labelled = stacks.environment("x", {"team": "r"})
    world(labelled, stacks.resource_range("r", {"team": "r"}, memoryMB={"min": 3000, "max": 5000, "default": 4000}))
    assert world.function("x")["Configuration"]["MemorySize"] == 4000
    moved = stacks.resource_range("r", {"team": "r"}, memoryMB={"min": 3000, "max": 5000})
    assert world(labelled, moved) == ["UpdateFunctionConfiguration"]
    assert world.function("x")["Configuration"]["MemorySize"] == 3000, "2048 lies outside: the least that is allowed"
    assert world(labelled) == ["UpdateFunctionConfiguration"]
    assert world.function("x")["Configuration"]["MemorySize"] == 2048


def test_range_refuses(world):
    world.write(stacks.environment("x", {"team": "r"}, memoryMB=6000), stacks.resource_range("r", {"team": "r"}, memoryMB={"max": 5000}))
    result = world.berth("plan").expect(1)
    assert "6000" in result.err and "5000" in result.err


# --- Image ------------------------------------------------------------------------------------------


def test_image_makes_and_keeps_a_repository(world, cloud):
    ecr = cloud.aws("ecr")
    settings = dict(repository="team/made", tag="candidate", createRepository=True, scanOnPush=True, immutableTags=True)
    world(stacks.image("i", **settings, retain={"untaggedDays": 7, "lastTagged": 20}))
    (found,) = ecr.describe_repositories(repositoryNames=["team/made"])["repositories"]
    assert found["imageScanningConfiguration"]["scanOnPush"] is True and found["imageTagMutability"] == "IMMUTABLE"
    tags = {t["Key"]: t["Value"] for t in ecr.list_tags_for_resource(resourceArn=found["repositoryArn"])["tags"]}
    assert tags["berth:stack"] == "team" and tags["berth:name"] == "i"
    policy = json.loads(ecr.get_lifecycle_policy(repositoryName="team/made")["lifecyclePolicyText"])
    assert {(r["selection"]["tagStatus"], r["selection"]["countNumber"]) for r in policy["rules"]} >= {("untagged", 7)}
    assert any(r["selection"]["countType"] == "imageCountMoreThan" and r["selection"]["countNumber"] == 20 for r in policy["rules"])
    assert world(stacks.image("i", **settings, retain={"untaggedDays": 8, "lastTagged": 20})) == ["PutLifecyclePolicy"]
    changed = world(stacks.image("i", **{**settings, "scanOnPush": False}, retain={"untaggedDays": 8, "lastTagged": 20}))
    assert changed == ["PutImageScanningConfiguration"]
    world()


@pytest.mark.only("moto", "MiniStack drops the filters")
def test_image_with_tags_that_can_be_moved(world, cloud):
    """Exceptions to immutable tags: with the repository, later, changed, taken away, and by somebody else."""
    ecr = cloud.aws("ecr")
    settings = dict(repository="team/made", tag="candidate", createRepository=True)

    def exceptions():
        (found,) = ecr.describe_repositories(repositoryNames=["team/made"])["repositories"]
        return found["imageTagMutability"], sorted(f["filter"] for f in found.get("imageTagMutabilityExclusionFilters") or [])

    def by_hand(mutability, *tags):
        filters = {"imageTagMutabilityExclusionFilters": [{"filterType": "WILDCARD", "filter": tag} for tag in tags]} if tags else {}
        ecr.put_image_tag_mutability(repositoryName="team/made", imageTagMutability=mutability, **filters)

    world(stacks.image("i", **settings, immutableTags=True, mutableTags=["latest", "dev-*"]))
    assert exceptions() == ("IMMUTABLE_WITH_EXCLUSION", ["dev-*", "latest"])
    # In another order it is the same.
    assert world(stacks.image("i", **settings, immutableTags=True, mutableTags=["dev-*", "latest"])) == []
    change = world.plan(stacks.image("i", **settings, immutableTags=True, mutableTags=["dev-*"]))["Image/i"]
    assert [f["path"] for f in change["fields"]] == ["mutableTags"] and change["action"] == "update"
    assert world(stacks.image("i", **settings, immutableTags=True, mutableTags=["dev-*"])) == ["PutImageTagMutability"]
    assert exceptions() == ("IMMUTABLE_WITH_EXCLUSION", ["dev-*"])
    for left in (("IMMUTABLE",), ("IMMUTABLE_WITH_EXCLUSION", "other"), ("MUTABLE",)):
        by_hand(*left)
        drift = world.berth.plan()["drift"]
        assert [d["address"] for d in drift] == ["Image/i"] and "mutableTags" in [f["path"] for f in drift[0]["fields"]]
        assert world(stacks.image("i", **settings, immutableTags=True, mutableTags=["dev-*"])) == ["PutImageTagMutability"]
        assert exceptions() == ("IMMUTABLE_WITH_EXCLUSION", ["dev-*"])
    assert world(stacks.image("i", **settings, immutableTags=True)) == ["PutImageTagMutability"]
    assert exceptions() == ("IMMUTABLE", [])
    # Those of somebody else are left as they are, and so is all where the manifest says nothing any more.
    by_hand("IMMUTABLE_WITH_EXCLUSION", "theirs")
    assert world(stacks.image("i", **settings, immutableTags=True)) == []
    assert world(stacks.image("i", **settings, immutableTags=True, mutableTags=["ours"])) == ["PutImageTagMutability"]
    assert exceptions() == ("IMMUTABLE_WITH_EXCLUSION", ["ours"])
    world(stacks.image("i", **settings))
    assert exceptions() == ("IMMUTABLE_WITH_EXCLUSION", ["ours"])
    world(stacks.image("i", **settings, immutableTags=False))
    assert exceptions()[0] == "MUTABLE"


def test_image_leaves_alone_what_it_does_not_set(world, cloud):
    cloud.pushes.amd64("team/tool", "v1")
    ecr = cloud.aws("ecr")
    ecr.put_image_tag_mutability(repositoryName="team/tool", imageTagMutability="IMMUTABLE")
    world(stacks.image("i", repository="team/tool", tag="v1"), stacks.environment("x", image="i"))
    (found,) = ecr.describe_repositories(repositoryNames=["team/tool"])["repositories"]
    assert found["imageTagMutability"] == "IMMUTABLE"
    world(stacks.image("i", repository="team/tool", tag="v1", scanOnPush=True), stacks.environment("x", image="i"))
    (found,) = ecr.describe_repositories(repositoryNames=["team/tool"])["repositories"]
    assert (found["imageTagMutability"], found["imageScanningConfiguration"]["scanOnPush"]) == ("IMMUTABLE", True)
    world(stacks.environment("x"))
    assert ecr.describe_images(repositoryName="team/tool")["imageDetails"], "images are never removed with the manifest"


# --- WorkspacePolicy --------------------------------------------------------------------------------


def tag_of(rule):
    found = rule["Filter"].get("Tag") or (rule["Filter"].get("And") or {}).get("Tags", [None])[0]
    return found and (found["Key"], found["Value"])


def prefix_of(rule):
    return rule["Filter"].get("Prefix") or rule["Filter"]["And"]["Prefix"]


def test_policy_for_all(world):
    world(
        stacks.policy(
            "p", {"all": True}, expireAfterDays=90, noncurrentExpireAfterDays=5, abortIncompleteUploadDays=3,
            transitions=[{"afterDays": 30, "storageClass": "STANDARD_IA"}],
        )
    )  # fmt: skip
    rules = world.rules()
    assert set(rules) == {"berth:team:p", "berth:team:p:abort"}
    rule = rules["berth:team:p"]
    assert prefix_of(rule) == "workspaces/sessions/" and rule["Status"] == "Enabled" and tag_of(rule) is None
    assert rule["Expiration"] == {"Days": 90} and rule["NoncurrentVersionExpiration"]["NoncurrentDays"] == 5
    assert [(t["Days"], t["StorageClass"]) for t in rule["Transitions"]] == [(30, "STANDARD_IA")]
    assert rules["berth:team:p:abort"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 3}
    changed = world(stacks.policy("p", {"all": True}, expireAfterDays=120))
    assert changed.count("PutBucketLifecycleConfiguration") == 1
    assert set(world.rules()) == {"berth:team:p"} and world.rules()["berth:team:p"]["Expiration"] == {"Days": 120}
    world()
    assert world.rules() == {}


def test_policy_by_environment_and_by_label(world):
    people = [stacks.environment("x", {"team": "a"}), stacks.environment("y", {"team": "a"}), stacks.environment("z")]
    by_name = stacks.policy("named", {"environments": ["z"]}, expireAfterDays=10)
    by_label = stacks.policy("labelled", {"matchLabels": {"team": "a"}}, expireAfterDays=20)
    world(*people, by_name, by_label)
    rules = world.rules()
    assert {name: tag_of(rule) for name, rule in rules.items()} == {
        "berth:team:named:z": ("berth:environment", "z"),
        "berth:team:labelled:x": ("berth:environment", "x"),
        "berth:team:labelled:y": ("berth:environment", "y"),
    }
    assert {prefix_of(rule) for rule in rules.values()} == {"workspaces/sessions/"}
    world(stacks.environment("x", {"team": "a"}), stacks.environment("y"), stacks.environment("z"), by_name, by_label)
    assert set(world.rules()) == {"berth:team:named:z", "berth:team:labelled:x"}


def test_many_policies_in_one_apply(world):
    world(*[stacks.environment(f"e-{n}") for n in range(3)], *[stacks.policy(f"p-{n}", {"environments": [f"e-{n % 3}"]}, expireAfterDays=n + 5) for n in range(9)])
    assert len(world.rules()) == 9, "each write of the one document kept the others' rules"


# --- Stack ------------------------------------------------------------------------------------------


def test_stack_tags_go_everywhere(world, cloud):
    world.stack = stacks.stack(tags={"owner": "one"})
    world(stacks.environment("x"))
    world.stack = stacks.stack(tags={"owner": "two", "extra": "yes"})
    world(stacks.environment("x"))
    assert {k: v for k, v in world.function("x")["Tags"].items() if not k.startswith("berth:")} == {"owner": "two", "extra": "yes"}
    bucket = {t["Key"]: t["Value"] for t in cloud.aws("s3").get_bucket_tagging(Bucket=world.bucket)["TagSet"]}
    role = {t["Key"]: t["Value"] for t in cloud.aws("iam").list_role_tags(RoleName="alphaagent-execution-us-east-1")["Tags"]}
    assert bucket["owner"] == role["owner"] == "two"
    world.stack = stacks.stack()
    world(stacks.environment("x"))
    assert set(world.function("x")["Tags"]) == {"berth:stack", "berth:kind", "berth:name", "berth:lineage"}


def test_stack_with_a_role_and_a_prefix_of_its_own(world, cloud):
    cloud.pushes.amd64("beta/prebuilt/python")
    role = cloud.lambda_role("ours")
    world.stack = stacks.stack(aws={"namePrefix": "beta", "executionRole": role})
    world.bucket = f"beta-workspaces-{cloud.account}-us-east-1"
    world(stacks.environment("x"), stacks.agent("a", "x"))
    assert cloud.functions()["beta-env-x"]["Role"] == role
    assert [r["RoleName"] for r in cloud.aws("iam").list_roles()["Roles"]] == ["ours"]
    assert world.record("agents/a")


def test_stack_settings_of_the_bucket_are_mended(world, cloud):
    world(stacks.environment("x"))
    s3 = cloud.aws("s3")
    s3.delete_public_access_block(Bucket=world.bucket)
    assert world.plan(stacks.environment("x"))["Stack/team"]["action"] == "update"
    world(stacks.environment("x"))
    assert set(s3.get_public_access_block(Bucket=world.bucket)["PublicAccessBlockConfiguration"].values()) == {True}
