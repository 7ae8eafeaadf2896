# SPDX-License-Identifier: Apache-2.0
"""
Images in another account's registry: read there and nothing more, admitted by the same rules, run only where that account's
policy, as `berth image instructions` prints it, lets this stack and its functions in.
"""

import json
import shlex

import pytest
from images import Image

import stacks
from servers import http

OTHER = "999999999999"
HOST = f"{OTHER}.dkr.ecr.us-east-1.amazonaws.com"
THERE = f"{HOST}/team/tool"
FUNCTION = "alphaagent-env-x"


class OtherAccount:
    """The registry of another account: what it holds, and whom its policies let in."""

    def __init__(self, cloud):
        self.cloud, self.tags, self.policy = cloud, {}, None

    def push(self, tag, image):
        self.tags[tag] = image
        for digest, data in image.blobs.items():
            http("PUT", f"{self.cloud.url}/_proxy/blobs/{digest}", data)
        self.publish()
        return image.digest

    def remove(self, tag):
        del self.tags[tag]
        self.publish()

    def allow(self, policy):
        self.policy = policy
        self.publish()

    def publish(self):
        images = [
            {"tag": tag, "digest": image.digest, "manifest": image.manifest.decode(), "type": image.media_type}
            for tag, image in self.tags.items()
        ]  # fmt: skip
        value = {"account": OTHER, "region": "us-east-1", "repository": "team/tool", "policy": self.policy, "images": images}
        http("POST", f"{self.cloud.url}/_proxy/registry", json.dumps(value).encode())


def printed_policy(berth):
    """The one that the other account is told to set."""
    found = berth("image", "instructions", "--json").expect(0).json()
    (command,) = [c for r in found["recipes"] for c in r["commands"] if "set-repository-policy" in c]
    words = shlex.split(command)
    assert words[words.index("--registry-id") + 1] == OTHER and words[words.index("--repository-name") + 1] == "team/tool"
    return json.loads(words[words.index("--policy-text") + 1])


@pytest.fixture
def team(cloud, berth, prebuilt):
    def declare(*documents, aws=None, **image):
        image = {"registry": HOST, "repository": "team/tool", "tag": "v1", **image}
        documents = documents or (stacks.environment("x", image=image),)
        berth.write("m.yaml", stacks.text(stacks.stack(**({"aws": aws} if aws else {})), *documents))

    berth.declare = declare
    declare()
    return berth


@pytest.fixture
def other(cloud, team):
    """What it holds may be read and run."""
    other = OtherAccount(cloud)
    other.digest = other.push("v1", Image())
    other.allow(printed_policy(team))
    return other


def refusal(plan, address="Environment/x"):
    (found,) = [r for c in plan["changes"] if c["address"] == address for r in c["refusals"]]
    return found


def change(plan, address="Environment/x"):
    (found,) = [c for c in plan["changes"] if c["address"] == address]
    return found


def image_uri(cloud):
    return cloud.aws("lambda").get_function(FunctionName=FUNCTION)["Code"]["ImageUri"]


def ecr_calls(cloud, since):
    return [call for call in cloud.calls(since) if call["service"] == "ecr"]


def assert_only_read(cloud, since=0):
    """Of the other registry; in the stack's own the lists are read, as ever, and nothing is changed."""
    for call in ecr_calls(cloud, since):
        assert HOST not in json.dumps(call["params"]) and not call["mutating"], call
        if call["operation"] != "DescribeRepositories" or "registryId" in call["params"]:
            assert call["operation"] in ("BatchGetImage", "GetDownloadUrlForLayer"), call
            assert (call["params"]["registryId"], call["params"]["repositoryName"]) == (OTHER, "team/tool"), call


def test_from_manifest_to_function(cloud, team, other):
    since = cloud.mark()
    fields = {f["path"]: f["after"] for f in change(team.plan())["fields"]}
    assert (fields["image.repository"], fields["image.digest"]) == (THERE, other.digest)
    team.apply()
    assert image_uri(cloud) == f"{THERE}@{other.digest}"
    assert ecr_calls(cloud, since)
    team.assert_settled()
    team("drift", "--refresh", "full").expect(0)
    # A tag that moves is followed there, too; one that is gone under what runs is drift.
    team.declare(follow="tag")
    team.apply()
    moved = other.push("v1", Image("more"))
    team.apply()
    assert image_uri(cloud) == f"{THERE}@{moved}"
    team.assert_settled()
    team.declare()
    team.apply()
    other.remove("v1")
    assert "was deleted from " + THERE in team("drift").expect(2).out
    assert_only_read(cloud, since)
    team.destroy("--allow", "mass-delete")
    assert_only_read(cloud, since)


def test_refused_where_the_policy_does_not_let_us_in(cloud, team):
    other = OtherAccount(cloud)
    other.push("v1", Image())
    found = refusal(team.plan(code=3))
    assert found["id"] == "image-unusable" and "BatchGetImage: 400 AccessDeniedException" in found["message"]
    assert f"account {OTHER}" in found["remedy"] and f"berth image instructions {THERE}" in found["remedy"]
    # We may read it, and Lambda for us may not: that is known when it tries.
    policy = printed_policy(team)
    other.allow({**policy, "Statement": policy["Statement"][:1]})
    team.plan()
    said = " ".join(team.apply(code=1).out.split())
    assert "lambda CreateFunction: 403 AccessDeniedException" in said
    assert f"the policy that this prints: berth image instructions {THERE}" in said
    other.allow(policy)
    team.apply()
    team.assert_settled()


def test_what_it_holds(cloud, team, other):
    """A list needs one right more than a plan does."""
    team("images", THERE).expect(1)
    policy = printed_policy(team)
    policy["Statement"][0]["Action"].append("ecr:DescribeImages")
    other.allow(policy)
    other.push("v2", Image(arch="arm64"))
    rows = {row["tags"][0]: row for row in team("images", THERE, "--json").expect(0).json()}
    assert (rows["v1"]["digest"], rows["v1"]["problem"], rows["v2"]["problem"]) == (other.digest, None, "platform")
    assert rows["v1"]["repository"] == THERE
    # By the name that refusals print, too.
    assert "--repository-name team/tool --policy-text '" in team("image", "instructions", THERE).expect(0).out


def test_the_printed_policy_is_for_this_stack_alone(cloud, team):
    """Neither another account's functions nor this account's others get in by it."""
    reading, running = printed_policy(team)["Statement"]
    assert reading["Principal"] == {"AWS": f"arn:aws:iam::{cloud.account}:root"}
    assert running["Principal"] == {"Service": "lambda.amazonaws.com"}
    assert running["Condition"] == {"StringLike": {"aws:sourceArn": f"arn:aws:lambda:us-east-1:{cloud.account}:function:alphaagent-env-*"}}
    for statement in (reading, running):
        assert statement["Action"] == ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]


@pytest.mark.parametrize(("make", "says"), [(lambda: Image(arch="arm64"), "linux/arm64"), (None, "does not exist")])
def test_admitted_by_the_same_rules(cloud, team, other, make, says):
    if make:
        other.push("v2", make())
    team.declare(tag="v2")
    found = refusal(team.plan(code=3))
    assert found["id"] == "image-unusable" and says in found["message"] and f"with credentials of account {OTHER}" in found["remedy"]
    result = team("image", "check", f"{THERE}:v2", "--json").expect(3).json()
    assert says in result["message"]
    team("image", "check", f"{THERE}:v1").expect(0)
    assert_only_read(cloud)


@pytest.mark.parametrize("host", [f"{OTHER}.dkr.ecr.eu-west-1.amazonaws.com", f"{HOST}.cn"])
def test_another_region_or_partition(cloud, team, other, host):
    """Known when the Stack says its region; else when it is known."""
    since = cloud.mark()
    team.declare(registry=host)
    found = refusal(team.plan(code=3))
    assert found["id"] == "image-unusable" and "Lambda takes images of its own region alone" in found["message"]
    assert ecr_calls(cloud, since) == []
    team("image", "check", f"{host}/team/tool:v1").expect(1)
    team.declare(registry=f"{OTHER}.dkr.ecr.eu-west-1.amazonaws.com", aws={"region": "us-east-1"})
    assert "the registry is in eu-west-1, the stack in us-east-1" in team("validate").expect(1).err


def test_the_own_registry_by_name_is_the_own(cloud, team):
    digest = cloud.pushes.amd64("team/tool", "v1")
    team.declare(registry=f"{cloud.account}.dkr.ecr.us-east-1.amazonaws.com")
    team.apply()
    assert image_uri(cloud) == cloud.image_uri("team/tool", digest=digest)
    team.assert_settled()
    team.declare(stacks.environment("x", image={"repository": "team/tool", "tag": "v1"}))
    team.assert_settled()


def test_two_repositories_of_one_name(cloud, team, other):
    """A rule of the own one deletes nothing of the other's; a function that was pointed at the own one has drifted."""
    digest = cloud.pushes.amd64("team/tool", "v1", "another")
    own = stacks.document("Image", "own", {"repository": "team/tool", "tag": "v1", "retain": {"untaggedDays": 1, "lastTagged": 1}})
    there = stacks.environment("x", image={"registry": HOST, "repository": "team/tool", "tag": "v1"})
    team.declare(own, there)
    team.apply()
    assert image_uri(cloud) == f"{THERE}@{other.digest}"
    team.assert_settled()
    cloud.aws("lambda").update_function_code(FunctionName=FUNCTION, ImageUri=cloud.image_uri("team/tool", digest=digest))
    cloud.aws("lambda").get_waiter("function_updated_v2").wait(FunctionName=FUNCTION)
    (drift,) = team("drift", "--json").expect(2).json()["drift"]
    assert {f["path"]: (f["before"], f["after"]) for f in drift["fields"]}["image.repository"] == (THERE, "team/tool")
    team.apply()
    assert image_uri(cloud) == f"{THERE}@{other.digest}"
    team.assert_settled()


def test_an_image_there_is_named_and_never_managed(cloud, team, other):
    there = {"registry": HOST, "repository": "team/tool", "tag": "v1"}
    team.declare(stacks.document("Image", "tool", there), stacks.environment("x", image="tool"))
    since = cloud.mark()
    team.apply()
    assert image_uri(cloud) == f"{THERE}@{other.digest}"
    team.assert_settled()
    # From there to a repository that Berth makes here, and back: the one here goes, the one there is not touched.
    here = {"repository": "team/tool", "tag": "v1", "createRepository": True, "scanOnPush": True}
    team.declare(stacks.document("Image", "tool", here))
    team.apply("--allow", "mass-delete")
    assert cloud.direct("ecr").describe_repositories()["repositories"]
    team.declare(stacks.document("Image", "tool", there))
    team.apply()
    assert "team/tool" not in [r["repositoryName"] for r in cloud.direct("ecr").describe_repositories()["repositories"]]
    team.assert_settled()
    team.declare(stacks.agent("a", None, active=False))
    team.apply("--allow", "mass-delete")
    team.assert_settled()
    for call in ecr_calls(cloud, since):
        assert "registryId" not in call["params"] or call["operation"] in ("BatchGetImage", "GetDownloadUrlForLayer"), call
        assert HOST not in json.dumps(call["params"]), call


def test_on_this_machine_the_registry_is_no_matter(berth):
    image = {"registry": HOST, "repository": "team/tool", "tag": "v1"}
    stack = stacks.document("Stack", "team", {"provider": "local"})
    berth.write("m.yaml", stacks.text(stack, stacks.document("Image", "tool", image), stacks.environment("x", image=image)))
    berth.apply()
    berth.assert_settled()
