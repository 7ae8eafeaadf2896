# SPDX-License-Identifier: Apache-2.0
"""A lost state made again from what carries the stack's marks; orphans that are not managed."""

import json

import pytest

import stacks
from lib.two_states import Team, bucket, first, note, second, sharing, strip, world  # noqa: F401

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
    (said,) = [w for w in plan["warnings"] if "not managed" in w]
    assert said.splitlines()[1:] == ORPHANS and "berth state adopt" in said
    assert "not managed" in orphaned.berth("plan").expect(0).out
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


# --- what another state has made ------------------------------------------------------------------------


@pytest.fixture
def guest(first, sharing):  # noqa: F811
    """A stack of the same name in the first one's bucket, with nothing of its own yet."""
    return sharing.write(stacks.environment("z"), stacks.agent("b", "z"), stacks.policy("q", {"all": True}, expireAfterDays=40), stack=sharing.stack)


THEIRS = ["Agent/a", "Environment/x", "Swarm/s", "WorkspacePolicy/p"]


def said_of(plan):
    return [w for w in plan["warnings"] if w.splitlines()[1:] == THEIRS]


def test_what_a_living_state_made_is_not_called_nobodys(cloud, first, guest):  # noqa: F811
    plan = guest.berth.plan("--refresh", "full")
    assert (plan["orphans"], plan["orphansOfOthers"]) == ([], THEIRS)
    (said,) = said_of(plan)
    assert "which lives (last applied by" in said and f"from {first.berth.stack / '.berth'}" in said and "refuses (lineage-lives)" in said
    assert not any("not managed" in w for w in plan["warnings"])
    drift = guest.berth("drift", "--refresh", "full").expect(0).out
    assert "berth state adopt refuses them" in drift and "Agent/a" in drift
    for address in THEIRS:
        refused = guest.berth("state", "adopt", "--dry-run", "--json", address).expect(3).json()
        assert [r["id"] for r in refused["refusals"]] == ["lineage-lives"] and refused["orphans"] == [], address


@pytest.mark.parametrize("where", ["elsewhere", "gone"])
def test_what_is_said_is_what_adopt_says(cloud, bucket, first, guest, where):  # noqa: F811
    lineage = first.lineage()
    if where == "gone":
        first.lose_state()
    else:
        body = {**note(cloud, bucket, lineage), "machine": "elsewhere/0123456789abcdef"}
        cloud.aws("s3").put_object(Bucket=bucket, Key=f"berth/lineages/{lineage}", Body=json.dumps(body).encode())
    plan = guest.berth.plan("--refresh", "full")
    (said,) = said_of(plan)
    if where == "gone":
        assert (plan["orphans"], plan["orphansOfOthers"]) == (THEIRS, []) and "berth state adopt takes them" in said
    else:
        assert (plan["orphans"], plan["orphansOfOthers"]) == ([], THEIRS) and "may live" in said and "unless --allow lineage-lives" in said
        guest.berth("state", "adopt", "--dry-run", "Agent/a").expect(3)
    shown = guest.berth("state", "adopt", "--dry-run", "--json", "--allow", "lineage-lives", *THEIRS).expect(0).json()
    assert {r["address"] for r in shown["resources"]} == set(THEIRS)


def test_records_that_are_too_large_to_be_berths_are_not_read(cloud, bucket, first):  # noqa: F811
    cloud.aws("s3").put_object(Bucket=bucket, Key="registry/research/agents/huge.json", Body=b" " * 70_000)
    mark = cloud.mark()
    plan = first.berth.plan()
    assert plan["orphans"] == ["Agent/huge"] and any("was not read" in w for w in plan["warnings"])
    assert not [c for c in cloud.calls(mark, operation="GetObject") if "huge" in c["url"]]


@pytest.mark.parametrize("word", ["", "x {}", "../{}"])
def test_a_lineage_that_is_none_is_nobodys_to_take(cloud, first, second, word):  # noqa: F811
    """Who may tag a function could otherwise hand over a lineage that lives: lists of them have blanks between."""
    tags = {"berth:lineage": word.format(first.lineage())}
    cloud.aws("lambda").tag_resource(Resource=cloud.functions()[FUNCTION]["FunctionArn"], Tags=tags)
    shown = second.berth("state", "adopt", "--dry-run", "--json").expect(3).json()
    assert shown["lineages"] == [first.lineage()] and "Environment/x" not in {r["address"] for r in shown["resources"]}
    first.write(stacks.agent("idle"), stack=stacks.stack("research"))
    first.berth("state", "rm", "Swarm/s", "--yes").expect(0)
    first.berth("state", "rm", "Agent/a", "--yes").expect(0)
    first.berth("state", "rm", "Environment/x", "--yes").expect(0)
    plan = first.berth.plan("--refresh", "full")
    assert plan["orphansOfOthers"] == ["Environment/x"]
    first.berth("state", "adopt", "--yes", "Environment/x").expect(1)


def test_log_groups_that_nobody_manages(cloud, first):  # noqa: F811
    """Of two whose function is gone, the one that carries the stack's marks; Lambda's own is nobody's to tell of."""
    first.write(stacks.environment("x", logRetentionDays=7), stacks.environment("old", logRetentionDays=7))
    first.berth.apply()
    cloud.aws("lambda").delete_function(FunctionName="alphaagent-env-old")
    cloud.aws("logs").create_log_group(logGroupName="/aws/lambda/alphaagent-env-theirs")
    first.berth("state", "rm", "Environment/old", "--yes").expect(0)
    first.write(stacks.environment("x", logRetentionDays=7))
    plan = first.berth.plan("--refresh", "full")
    assert plan["remnants"] == ["log group /aws/lambda/alphaagent-env-old of Environment/old"] and plan["orphans"] == []
    assert any("delete it by hand" in w and "alphaagent-env-old" in w for w in plan["warnings"])
    assert first.berth("drift", "--refresh", "full", "--json").expect(0).json()["remnants"] == plan["remnants"]
    assert first.berth.plan()["remnants"] == [], "a plan that reads little does not look"
    first.berth("state", "adopt", "--yes", "Environment/old").expect(1)
    cloud.faults(({"operation": "ListTagsForResource"}, {"kind": "error", "status": 400, "code": "AccessDeniedException", "message": "no"}))
    assert first.berth.plan("--refresh", "full")["remnants"] == []
    cloud.faults()
    # As said: declared again and taken back, it goes.
    first.write(stacks.environment("x", logRetentionDays=7), stacks.environment("old", logRetentionDays=7))
    first.berth.apply()
    first.write(stacks.environment("x", logRetentionDays=7))
    first.berth.apply()
    names = [g["logGroupName"] for g in cloud.aws("logs").describe_log_groups()["logGroups"]]
    assert "/aws/lambda/alphaagent-env-old" not in names and "/aws/lambda/alphaagent-env-theirs" in names


def test_what_a_full_refresh_reads_of_each_function_is_on_its_way_together(cloud, first):  # noqa: F811
    """Three quotas: one kind of call after the other would take the sum of their times."""
    first.write(stacks.environment("x", logRetentionDays=7), stacks.environment("y", logRetentionDays=7))
    first.berth.apply()
    mark = cloud.mark()
    cloud.faults(({"operation": "ListTagsForResource", "service": "logs", "nth": 1}, {"kind": "delay", "seconds": 3}))
    first.berth.plan("--refresh", "full")
    (slow,) = [c for c in cloud.calls(mark, service="logs", operation="ListTagsForResource") if c["faults"]]
    asked = cloud.calls(mark, operation="GetPolicy") + cloud.calls(mark, operation="GetFunctionUrlConfig")
    assert len(asked) == 4 and all(call["time"] < slow["time"] + slow["ms"] / 1000 for call in asked)
