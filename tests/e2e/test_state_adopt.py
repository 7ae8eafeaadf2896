# SPDX-License-Identifier: Apache-2.0
"""A lost state made again from what carries the stack's marks; orphans that nobody manages."""

import json

import pytest
from test_lineage import Team, bucket, first, note, second, strip, world  # noqa: F401

import stacks

FUNCTION = "alphaagent-env-x"


def kept(found):
    """What adopting may not change: all but the lineage that marks say, and the records' bytes with it."""
    return {key: {k: v for k, v in dict(value).items() if k != "berth:lineage"} for key, value in found.items() if key in ("bucket", "role") or key.startswith("alphaagent-")}


def rules(found):
    return {rule["ID"].split("@")[0]: {k: v for k, v in rule.items() if k != "ID"} for rule in found["rules"]}


def everything(team, digest):
    """A stack of every kind, with a tag that has moved on from what runs."""
    return team.write(
        stacks.environment("x", image={"repository": "team/tool", "tag": "v1"}, variables={"MODE": "1", "KEY": {"value": "s3cret", "sensitive": True}}, logRetentionDays=7, reservedConcurrency=2, protect=True),
        stacks.environment("y"), stacks.agent("a", "x", {"team": "r"}), stacks.agent("idle"), stacks.swarm("s", ["a"], "y"),
        stacks.policy("p", {"all": True}, expireAfterDays=30, abortIncompleteUploadDays=3), stacks.policy("q", {"environments": ["x"]}, expireAfterDays=60),
        stacks.image("i", repository="research/i", tag="v1", createRepository=True, retain={"untaggedDays": 3}),
        stack=stacks.stack("research", tags={"cost": "r"}),
    )  # fmt: skip


@pytest.fixture
def stack(cloud, binary, tmp_path, prebuilt):
    pinned = cloud.pushes.amd64("team/tool", "v1", "old")
    team = everything(Team(cloud, binary, tmp_path / "first"), pinned)
    team.berth.apply()
    cloud.pushes.amd64("team/tool", "old", "old")  # moto deletes an image that loses its last tag to another
    cloud.pushes.amd64("team/tool", "v1", "new")
    team.pinned = pinned
    return team


def test_a_lost_state_is_made_again(cloud, bucket, stack):  # noqa: F811
    lost, before = stack.lineage(), world(cloud, bucket)
    addresses = set(stack.berth("state", "list").expect(0).out.split())
    stack.lose_state()
    refused = stack.berth.plan(code=3)
    assert {r["id"] for c in refused["changes"] for r in c["refusals"]} == {"not-owned"}
    mark = cloud.mark()
    shown = stack.berth("state", "adopt", "--dry-run", "--json").expect(0).json()
    assert {r["address"] for r in shown["resources"]} == addresses
    assert (shown["taken"], shown["lineages"], shown["orphans"], shown["refusals"]) == (False, [lost], [], [])
    assert stack.berth("state", "list").expect(0).out == "" and cloud.changing_calls(mark, notes=True) == []
    taken = stack.berth("state", "adopt", "--yes", "--json").expect(0).json()
    assert taken == {**shown, "taken": True}
    assert cloud.changing_calls(mark) == [], "nothing but notes is written"
    assert set(stack.berth("state", "list").expect(0).out.split()) == addresses
    plan = stack.berth.plan()
    assert {c["action"] for c in plan["changes"]} == {"update"} and plan["drift"] == [] and plan["refusals"] == []
    assert {f["path"] for c in plan["changes"] for f in c["fields"]} == {"tags.berth:lineage", "bucket.tags.berth:lineage", "role.tags.berth:lineage", "lineage"}
    stack.berth.apply()
    after = world(cloud, bucket)
    assert kept(after) == kept(before) and rules(after) == rules(before)
    assert {rule["ID"].split("@")[1] for rule in after["rules"]} == {stack.lineage()}
    assert after[FUNCTION]["berth:lineage"] == stack.lineage() != lost
    assert cloud.aws("lambda").get_function(FunctionName=FUNCTION)["Code"]["ImageUri"].endswith("@" + stack.pinned), "what runs stays pinned"
    assert note(cloud, bucket, lost)["takenBy"] == stack.lineage()
    stack.berth.assert_settled()
    result = stack.berth("destroy", "--yes", "--allow", "protected").expect(0)
    assert cloud.functions("alphaagent-") == {}, result


def test_what_was_protected_is_protected_again(cloud, stack):
    stack.lose_state()
    stack.berth("state", "adopt", "--yes").expect(0)
    stack.write(stacks.environment("y"))
    plan = stack.berth.plan(code=3)
    (change,) = [c for c in plan["changes"] if c["address"] == "Environment/x"]
    assert {r["id"] for r in change["refusals"]} >= {"protected"}


def test_no_secret_is_written_down(stack):
    stack.lose_state()
    stack.berth("state", "adopt", "--yes").expect(0)
    for path in (stack.berth.stack / ".berth").iterdir():
        assert b"s3cret" not in path.read_bytes(), path


def test_a_lineage_that_lives_is_not_taken_from(cloud, bucket, first, second):  # noqa: F811
    before, mark = world(cloud, bucket), cloud.mark()
    for extra in ((), ("--allow", "lineage-lives")):
        result = second.berth("state", "adopt", "--yes", "--json", *extra).expect(3).json()
        assert [r["id"] for r in result["refusals"]] == ["lineage-lives"] and result["taken"] is False
        assert first.lineage() in result["refusals"][0]["message"] and str(first.berth.stack) in result["refusals"][0]["message"]
    assert "Refused" in second.berth("state", "adopt", "--yes").expect(3).out
    assert cloud.changing_calls(mark, notes=True) == [] and world(cloud, bucket) == before
    assert second.berth("state", "list").expect(0).out == ""
    first.berth.assert_settled()


def test_a_state_on_another_machine_needs_a_persons_word(cloud, bucket, first, second):  # noqa: F811
    lineage = first.lineage()
    body = {**note(cloud, bucket, lineage), "machine": "elsewhere/0123456789abcdef"}
    cloud.aws("s3").put_object(Bucket=bucket, Key=f"berth/lineages/{lineage}", Body=json.dumps(body).encode())
    result = second.berth("state", "adopt", "--yes").expect(3)
    assert "lineage-lives" in result.out and "--allow lineage-lives" in result.out
    second.berth("state", "adopt", "--yes", "--allow", "lineage-lives").expect(0)
    assert "berth state adopt" in second.berth("plan", "--allow", "lineage-lives").expect(1).err
    second.berth.apply()
    second.berth.assert_settled()


def test_a_state_that_comes_back_applies_nothing(cloud, bucket, first, second):  # noqa: F811
    away = first.berth.stack / "away"
    (first.berth.stack / ".berth").rename(away)
    second.berth("state", "adopt", "--yes").expect(0)
    away.rename(first.berth.stack / ".berth")
    before, mark = world(cloud, bucket), cloud.mark()
    first.write(stacks.environment("x", memoryMB=3000, variables={"MODE": "1"}))
    result = first.berth("apply", "--yes").expect(3)
    assert "not-owned" in result.err and second.lineage() in result.err and "berth state adopt" in result.err
    first.berth("destroy", "--yes").expect(3)
    assert cloud.changing_calls(mark, notes=True) == [] and world(cloud, bucket) == before
    second.berth.apply()
    second.berth.assert_settled()


def test_what_others_own_is_not_taken(cloud, bucket, first):  # noqa: F811
    """Another stack's function, and one without marks, of names that the manifests declare."""
    functions = cloud.aws("lambda")
    arn = cloud.functions()[FUNCTION]["FunctionArn"]
    first.lose_state()
    functions.tag_resource(Resource=arn, Tags={"berth:stack": "other"})
    taken = first.berth("state", "adopt", "--yes", "--json").expect(0).json()
    assert "Environment/x" not in {r["address"] for r in taken["resources"]} and "Stack/research" in {r["address"] for r in taken["resources"]}
    assert functions.list_tags(Resource=arn)["Tags"]["berth:stack"] == "other"


def test_marks_of_before_are_taken_too(cloud, bucket, first):  # noqa: F811
    strip(cloud, bucket)
    first.lose_state()
    taken = first.berth("state", "adopt", "--yes", "--json").expect(0).json()
    assert len(taken["resources"]) == 5 and taken["lineages"] == []
    assert {c["action"] for c in first.berth.plan()["changes"]} == {"update"}


def test_nothing_to_take(cloud, first):  # noqa: F811
    mark = cloud.mark()
    assert "Nothing to take" in first.berth("state", "adopt", "--yes").expect(0).out
    assert cloud.changing_calls(mark, notes=True) == []
    assert "nothing of that name" in first.berth("state", "adopt", "Environment/none").expect(1).err


# --- orphans --------------------------------------------------------------------------------------------


@pytest.fixture
def orphaned(first):  # noqa: F811
    """The state forgets y and all that is bound to it, and so do the manifests."""
    kept_documents = (stacks.environment("x"), stacks.agent("a", "x"), stacks.policy("p", {"all": True}, expireAfterDays=30))
    first.write(*kept_documents, stacks.environment("y"), stacks.agent("b", "y"), stacks.policy("q", {"environments": ["y"]}, expireAfterDays=60))
    first.berth.apply()
    for address in ("Agent/b", "Environment/y", "WorkspacePolicy/q"):
        first.berth("state", "rm", address, "--yes").expect(0)
    first.write(*kept_documents)
    return first


ORPHANS = ["Agent/b", "Environment/y", "WorkspacePolicy/q"]


@pytest.mark.parametrize("refresh", ["sweep", "full"])
def test_orphans_are_shown(orphaned, refresh):
    plan = orphaned.berth.plan("--refresh", refresh)
    assert plan["orphans"] == ORPHANS and plan["changes"] == []
    (said,) = [w for w in plan["warnings"] if "nobody manages" in w]
    assert said.splitlines()[1:] == ORPHANS and "berth state adopt" in said
    assert "nobody manages" in orphaned.berth("plan").expect(0).out
    assert orphaned.berth("drift", "--json").expect(0).json()["orphans"] == ORPHANS
    assert all(address in orphaned.berth("drift").expect(0).out for address in ORPHANS)


def test_orphans_are_taken_where_they_are_named(cloud, orphaned):
    shown = orphaned.berth("state", "adopt", "--dry-run", "--json").expect(0).json()
    assert (shown["resources"], shown["orphans"]) == ([], ORPHANS)
    assert "Environment/y" in orphaned.berth("state", "adopt", "--yes").expect(0).out
    assert cloud.functions("alphaagent-env-y"), "left, since nobody named it"
    orphaned.berth("state", "adopt", "--yes", *ORPHANS).expect(0)
    assert orphaned.berth.plan()["orphans"] == []
    orphaned.berth.apply()
    assert set(cloud.functions("alphaagent-")) == {FUNCTION}
    orphaned.berth.assert_settled()


def test_names_of_orphans_do_not_drive_the_terminal(cloud, bucket, first):  # noqa: F811
    """Whoever may write to the bucket names records as he likes."""
    cloud.aws("s3").put_object(Bucket=bucket, Key="registry/research/agents/a\x1b[31mred\u202e.json", Body=b"{}")
    for words in (["plan", "-v"], ["drift"], ["state", "adopt", "--dry-run"]):
        said = first.berth(*words).expect(0)
        assert "Agent/a\\x1B[31mred\\u202E" in said.out and not set("\x1b\u202e") & set(said.out + said.err), said
    assert first.berth("state", "adopt", "--dry-run", "--json").expect(0).json()["orphans"] == ["Agent/a\x1b[31mred\u202e"]


@pytest.mark.only("ministack", "moto lists no repositories by their tags")
def test_a_repository_that_nobody_manages(cloud, first):  # noqa: F811
    first.write(stacks.environment("x"), stacks.image("i", repository="research/i", tag="v1", createRepository=True))
    first.berth.apply()
    first.berth("state", "rm", "Image/i", "--yes").expect(0)
    first.write(stacks.environment("x"))
    assert first.berth.plan("--refresh", "full")["orphans"] == ["Image/i"]
    first.berth("state", "adopt", "--yes", "Image/i").expect(0)
    first.berth.apply()
    assert [r["repositoryName"] for r in cloud.aws("ecr").describe_repositories()["repositories"]] == ["alphaagent/prebuilt/python"]
