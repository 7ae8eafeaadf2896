# SPDX-License-Identifier: Apache-2.0
"""Images: which are of use, what a plan says of moved tags, rules that would delete what runs, and the verbs."""

import collections
import contextlib
import json
import os
import shlex
import socket
import subprocess
from urllib.parse import urlsplit

import pytest
from images import DOCKER, OCI, Image

import stacks
from lib.aws_stack import World

FLAGS = "docker buildx build --platform linux/amd64 --provenance=false --sbom=false --push -t {uri} ."
real_registry = pytest.mark.only("ministack", "images are pushed to a real registry, and tags move there")


@pytest.fixture
def world(cloud, berth):
    cloud.pushes.amd64("alphaagent/prebuilt/python")
    return World(cloud, berth)


def tool(name, tag="v1", **spec):
    return stacks.environment(name, image={"repository": "team/tool", "tag": tag, **spec})


def refusals(plan):
    return {c["address"]: c["refusals"] for c in plan["changes"] if c["refusals"]}


# --- admission --------------------------------------------------------------------------------------

HELM = "application/vnd.cncf.helm.config.v1+json"
UNUSABLE = {
    "index": (lambda cloud: cloud.pushes.index("team/tool", "v1"), ["is an index of several images", "linux/arm64"]),
    "arm64": (lambda cloud: cloud.pushes.arm64("team/tool", "v1"), ["is built for linux/arm64", "linux/amd64 only"]),
    "windows": (lambda cloud: cloud.pushes.push("team/tool", "v1", Image(os="windows")), ["is built for windows/amd64"]),
    "docker-arm64": (lambda cloud: cloud.pushes.push("team/tool", "v1", Image(arch="arm64", types=DOCKER)), ["is built for linux/arm64"]),
    "missing tag": (lambda cloud: cloud.pushes.amd64("team/tool", "v2"), ["team/tool:v1 does not exist"]),
    "missing repository": (lambda cloud: None, ["the repository team/tool does not exist"]),
    "wrong type": (lambda cloud: cloud.pushes.push("team/tool", "v1", Image(config_type=HELM)), ["is no image that can run", HELM]),
}


@pytest.mark.parametrize("case", UNUSABLE)
@real_registry
def test_unusable_at_plan_time(world, cloud, case):
    push, says = UNUSABLE[case]
    push(cloud)
    world.write(tool("x"))
    plan = world.berth.plan(code=3)
    (refusal,) = refusals(plan)["Environment/x"]
    assert refusal["id"] == "image-unusable"
    assert all(text in refusal["message"] for text in says), refusal["message"]
    assert FLAGS.format(uri=cloud.image_uri("team/tool", "v1")) in refusal["remedy"]
    assert "pinned" not in refusal["remedy"], "nothing was applied yet"
    assert ("create-repository" in refusal["remedy"]) == (case == "missing repository")
    world.berth("apply", "--yes").expect(3)
    assert cloud.changing_calls() == [], "one refusal stops the whole apply"
    text = world.berth("plan").expect(3).out
    assert "\n          " + FLAGS.format(uri=cloud.image_uri("team/tool", "v1")) + "\n" in text, text


@real_registry
def test_the_remedy_works(world, cloud):
    cloud.pushes.arm64("team/tool", "v1")
    world.write(tool("x"))
    world.berth.plan(code=3)
    digest = cloud.pushes.amd64("team/tool", "v1")
    world(tool("x"))
    assert world.function("x")["Code"]["ImageUri"] == cloud.image_uri("team/tool", digest=digest)


def test_a_digest_is_judged_once(world, cloud):
    """A second plan asks only whether the names still lead there; the third, after the apply, not even that."""
    cloud.pushes.amd64("team/tool", "v1")
    cloud.pushes.amd64("team/tool", "v2", "two")
    world.write(tool("a"), tool("b"), tool("c", "v2"))
    mark = cloud.mark()
    world.berth.plan()
    assert len(cloud.calls(mark, "ecr", "BatchGetImage")) == 1
    assert len(cloud.calls(mark, "ecr", "GetDownloadUrlForLayer")) == 2
    mark = cloud.mark()
    world.berth.apply()
    assert len(cloud.calls(mark, "ecr", "BatchGetImage")) == 1
    assert cloud.calls(mark, "ecr", "GetDownloadUrlForLayer") == []
    world.write(tool("a"), tool("b"), tool("c", "v2"), tool("d", "v2"))
    mark = cloud.mark()
    world.berth.apply()
    assert cloud.calls(mark, "ecr", "GetDownloadUrlForLayer") == []
    mark = cloud.mark()
    world.berth.assert_settled()
    assert len(cloud.calls(mark, "ecr")) == 1, "whether pinned tags have moved, and nothing else"


@real_registry
def test_a_verdict_of_no_use_is_kept_too(world, cloud):
    cloud.pushes.arm64("team/tool", "v1")
    world.write(tool("x"))
    world.berth.plan(code=3)
    mark = cloud.mark()
    (refusal,) = refusals(world.berth.plan(code=3))["Environment/x"]
    assert "team/tool:v1 is built for linux/arm64" in refusal["message"]
    assert cloud.calls(mark, "ecr", "GetDownloadUrlForLayer") == []
    assert world.berth("state", "verify", "--json").expect(0).json()["valid"]


def test_what_cannot_be_read_is_refused_and_not_kept(world, cloud):
    cloud.pushes.amd64("team/tool", "v1")
    world.write(tool("x"))
    denied = {"kind": "error", "status": 400, "code": "AccessDeniedException", "message": "no"}
    cloud.faults(({"operation": "GetDownloadUrlForLayer"}, denied))
    (refusal,) = refusals(world.berth.plan(code=3))["Environment/x"]
    assert refusal["id"] == "image-unusable" and "ecr:GetDownloadUrlForLayer" in refusal["remedy"]
    world.berth.plan("--allow", "image-unusable:Environment/x")
    cloud.faults()
    world(tool("x"))


# --- tags that move ---------------------------------------------------------------------------------


@real_registry
def test_follow_tag_shows_both_digests(world, cloud):
    old = cloud.pushes.amd64("team/tool", "v1", "old")
    world(tool("x", follow="tag"))
    new = cloud.pushes.amd64("team/tool", "v1", "new")
    (change,) = world.berth.plan()["changes"]
    assert [(f["path"], f["before"], f["after"]) for f in change["fields"]] == [("image.digest", old, new)]
    assert world(tool("x", follow="tag")) == ["UpdateFunctionCode"]
    cloud.pushes.arm64("team/tool", "v1", "worse")
    (refusal,) = refusals(world.berth.plan(code=3))["Environment/x"]
    assert refusal["id"] == "image-unusable" and "linux/arm64" in refusal["message"]


@real_registry
def test_pin_warns_that_the_tag_has_moved(world, cloud):
    old = cloud.pushes.amd64("team/tool", "v1", "old")
    world(*[tool(f"x-{n}") for n in range(5)])
    assert world.berth.plan()["warnings"] == []
    new = cloud.pushes.amd64("team/tool", "v1", "new")
    plan = world.berth.plan()
    assert plan["changes"] == []
    (warning,) = plan["warnings"]
    assert f"tag v1 of team/tool now means {new}" in warning and f"pinned to {old}" in warning
    assert "Environment/x-0" in warning and "and 2 more" in warning and "set follow: tag" in warning
    assert new in world.berth("plan").expect(0).out
    assert world(*[tool(f"x-{n}", follow="tag") for n in range(5)]) == ["UpdateFunctionCode"] * 5
    assert world.berth.plan()["warnings"] == []


@real_registry
def test_a_tag_that_is_gone(world, cloud):
    old = cloud.pushes.amd64("team/tool", "v1", "old")
    cloud.pushes.amd64("team/tool", "v2", "other")
    world(tool("pinned"), tool("following", follow="tag"))
    cloud.aws("ecr").batch_delete_image(repositoryName="team/tool", imageIds=[{"imageTag": "v1"}])
    plan = world.berth.plan()
    assert plan["changes"] == []
    # An image that loses its last tag by this call is deleted with it.
    warning, *deleted = plan["warnings"]
    assert [w.split(":")[0] for w in deleted if "was deleted from team/tool" in w] == ["Environment/following", "Environment/pinned"]
    assert "tag v1 of team/tool does not exist any more" in warning and old in warning
    assert "Environment/following, Environment/pinned" in warning


@real_registry
def test_many_repositories_are_watched_by_a_full_refresh(world, cloud):
    environments = [stacks.environment(f"x-{n}", image={"repository": f"team/r{n}", "tag": "v1"}) for n in range(6)]
    for n in range(6):
        cloud.pushes.amd64(f"team/r{n}", "v1", "old")
    world(*environments)
    cloud.pushes.amd64("team/r3", "v1", "new")
    mark = cloud.mark()
    assert world.berth.plan()["warnings"] == []
    assert cloud.calls(mark, "ecr") == []
    (warning,) = world.berth.plan("--refresh", "full")["warnings"]
    assert "tag v1 of team/r3" in warning


def test_a_registry_that_does_not_answer_is_no_obstacle_to_an_empty_plan(world, cloud):
    cloud.pushes.amd64("team/tool", "v1")
    world(tool("x"))
    cloud.faults(({"operation": "BatchGetImage"}, {"kind": "error", "status": 400, "code": "InvalidParameterException", "message": "no"}))
    plan = world.berth.plan()
    assert plan["changes"] == [] and plan["warnings"] == []


# --- a network without a way to the registry's layers ---------------------------------------------


def test_layers_that_cannot_be_reached_make_nothing_unusable(world, cloud):
    """Nobody listens there: one line names the host, the plan goes on, and the next one looks again."""
    cloud.pushes.amd64("team/tool", "v1", "one")
    cloud.pushes.amd64("team/other", "v1", "two")
    cloud.settings(layer_host="127.0.0.1:9")
    world.write(tool("x"), stacks.environment("y", image={"repository": "team/other", "tag": "v1"}))
    plan = world.berth.plan("--detailed-exitcode", code=2)
    assert plan["summary"]["create"] >= 2 and plan["refusals"] == []
    (warning,) = plan["warnings"]
    assert "Environment/x" in warning and "Environment/y" in warning and "not verified" in warning and "127.0.0.1:9" in warning
    assert "\n" not in warning
    checked = world.berth("image", "check", "team/tool:v1").expect(1)
    assert "not verified" in checked.out and "127.0.0.1:9" in checked.out and "unusable" not in checked.out
    rows = world.berth("images", "--json").json()
    assert [(row["usable"], row["problem"]) for row in rows] == [(None, None)] * 3 and "127.0.0.1:9" in rows[0]["unverified"]
    assert "not verified" in world.berth("images").expect(0).out
    cloud.settings(layer_host="")
    (warning,) = world.berth.plan("--detailed-exitcode", code=2)["warnings"]
    assert "Environment/x, Environment/y have no runtime" in warning
    assert [row["usable"] for row in world.berth("images", "--json").json()] == [True] * 3


def test_a_silent_host_of_layers_is_waited_for_once(world, cloud):
    """Twelve images, one wait: connections that were made to a server that never answers are counted."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        cloud.settings(layer_host=f"127.0.0.1:{silent.getsockname()[1]}")
        for n in range(12):
            cloud.pushes.amd64("team/tool", f"v{n}", f"layer {n}")
        world.write(*[tool(f"x-{n}", f"v{n}") for n in range(12)])
        mark = cloud.mark()
        (warning,) = world.berth.plan("--detailed-exitcode", code=2)["warnings"]
        assert "no answer in time from 127.0.0.1" in warning and "and 9 more" in warning
        assert len(cloud.calls(mark, operation="GetDownloadUrlForLayer")) == 1
        silent.setblocking(False)
        made = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                silent.accept()[0].close()
                made += 1
        assert made == 1


def test_the_list_of_images_takes_pages_and_batches(world, cloud):
    """Of many images the platforms of the newest are looked at; the manifests of all come by the hundred."""
    for n in range(59):
        cloud.pushes.amd64("team/tool", f"v{n}", f"layer {n}")
    world.write(tool("x", "v0"))
    mark = cloud.mark()
    rows = world.berth("images", "--json").json()
    calls = collections.Counter(call["operation"] for call in cloud.calls(mark, "ecr"))
    assert calls == {"DescribeRepositories": 1, "DescribeImages": 2, "BatchGetImage": 2, "GetDownloadUrlForLayer": 50}
    assert collections.Counter(row["usable"] for row in rows) == {True: 50, None: 10}
    assert "berth image check" in next(row["unverified"] for row in rows if row["usable"] is None)


# --- rules that would delete what runs --------------------------------------------------------------

def retaining(**retain):
    return stacks.image("tool", repository="team/tool", tag="v1", retain=retain)


def in_use(world, code=3):
    (refusal,) = refusals(world.berth.plan(code=code))["Image/tool"]
    assert refusal["id"] == "image-in-use"
    return refusal


@real_registry
def test_an_untagged_digest_that_runs_will_age(world, cloud):
    """It is young: today nothing would go, and two weeks later it would be gone."""
    old = cloud.pushes.amd64("team/tool", "v1", "old")
    world(tool("x"), tool("y"))
    new = cloud.pushes.amd64("team/tool", "v1", "new")
    world.write(tool("x"), tool("y"), retaining(untaggedDays=14))
    mark = cloud.mark()
    refusal = in_use(world)
    assert old in refusal["message"] and new not in refusal["message"] and "untagged" in refusal["message"]
    assert " on 20" in refusal["message"]
    assert refusal["dependents"] == ["Environment/x", "Environment/y"]
    world.berth("apply", "--yes").expect(3)
    assert cloud.changing_calls(mark) == []
    # The remedy: a tag of its own, copied as the message says.
    host = urlsplit(cloud.standin.url).netloc
    subprocess.run(
        ["skopeo", "--insecure-policy", "copy", "--quiet", "--preserve-digests", "--src-tls-verify=false", "--dest-tls-verify=false",
         "--src-creds", "AWS:x", "--dest-creds", "AWS:x", f"docker://{host}/team/tool@{old}", f"docker://{host}/team/tool:kept"],
        check=True, timeout=60, capture_output=True,
    )  # fmt: skip
    world.berth.apply()
    assert json.loads(cloud.aws("ecr").get_lifecycle_policy(repositoryName="team/tool")["lifecyclePolicyText"])["rules"]


@real_registry
def test_too_few_are_kept(world, cloud):
    old = cloud.pushes.amd64("team/tool", "v1", "old")
    world(tool("x"))
    cloud.pushes.amd64("team/tool", "v2", "newer")
    world.write(tool("x"), retaining(lastTagged=1))
    refusal = in_use(world)
    assert f"{old} now (tagged v1" in refusal["message"]
    mark = cloud.mark()
    world.berth.apply("--allow", "image-in-use:Image/tool")
    assert [c["operation"] for c in cloud.changing_calls(mark)] == ["PutLifecyclePolicy"]
    world.write(tool("x"), retaining(lastTagged=2))
    world.berth.apply()
    world.berth.assert_settled()


@real_registry
def test_a_looser_rule_is_no_harm(world, cloud):
    cloud.pushes.amd64("team/tool", "v1", "old")
    world(tool("x"))
    cloud.pushes.amd64("team/tool", "v1", "new")
    world.write(tool("x"), retaining(untaggedDays=2))
    world.berth.apply("--allow", "image-in-use")
    world.write(tool("x"), retaining(untaggedDays=1))
    in_use(world)
    world(tool("x"), retaining(untaggedDays=300))


@real_registry
def test_rules_of_repositories_where_nothing_runs_ask_nothing(world, cloud):
    cloud.pushes.amd64("team/tool", "v1", "old")
    cloud.pushes.amd64("team/tool", "v1", "new")
    mark = cloud.mark()
    world(stacks.environment("x"), retaining(untaggedDays=1))
    assert cloud.calls(mark, "ecr", "DescribeImages") == []


@real_registry
def test_an_environment_that_would_run_what_a_rule_deletes(world, cloud):
    old = cloud.pushes.amd64("team/tool", "v1", "old")
    cloud.pushes.amd64("team/tool", "v1", "new")
    world(tool("x"), retaining(untaggedDays=7))
    world.write(stacks.environment("x", image={"repository": "team/tool", "digest": old}), retaining(untaggedDays=7))
    (refusal,) = refusals(world.berth.plan(code=3))["Environment/x"]
    assert refusal["id"] == "image-in-use" and old in refusal["message"]
    world.berth.apply("--allow", "image-in-use:Environment/x")
    assert world.function("x")["Code"]["ImageUri"].endswith(old)


@real_registry
def test_a_moved_tag_under_a_rule_is_told(world, cloud):
    old = cloud.pushes.amd64("team/tool", "v1", "old")
    world(tool("x"), retaining(untaggedDays=7))
    cloud.pushes.amd64("team/tool", "v1", "new")
    (warning,) = world.berth.plan()["warnings"]
    assert old in warning and "retain rule deletes it 7 days after it was pushed" in warning


@real_registry
def test_a_repository_in_use_is_not_let_go(world, cloud):
    image = stacks.image("tool", repository="team/made", tag="v1", createRepository=True)
    running = stacks.environment("x", image={"repository": "team/made", "tag": "v1"})
    world(image)
    digest = cloud.pushes.amd64("team/made", "v1")
    world(image, running)
    world.write(running)
    refusal = in_use(world)
    assert refusal["dependents"] == ["Environment/x"] and "team/made" in refusal["message"]
    world.berth.apply("--allow", "image-in-use:Image/tool")
    assert [i["imageDigest"] for i in cloud.aws("ecr").describe_images(repositoryName="team/made")["imageDetails"]] == [digest]


@real_registry
def test_both_may_go_together(world, cloud):
    image = stacks.image("tool", repository="team/made", tag="v1", createRepository=True)
    world(image)
    cloud.pushes.amd64("team/made", "v1")
    world(image, stacks.environment("x", image={"repository": "team/made", "tag": "v1"}))
    world()
    assert cloud.functions("alphaagent-env-x") == {}


# --- the verbs --------------------------------------------------------------------------------------


@pytest.fixture
def shelf(world, cloud):
    """A registry with something of everything."""
    world.write()
    return {
        "good": cloud.pushes.amd64("team/tool", "good"),
        "docker": cloud.pushes.docker("team/tool", "docker", "d"),
        "arm": cloud.pushes.arm64("team/tool", "arm"),
        "many": cloud.pushes.index("team/multi", "many"),
    }


@real_registry
def test_images(world, cloud, shelf):
    rows = world.berth("images", "--json").expect(0).json()
    found = {(r["repository"], tag): r for r in rows for tag in r["tags"]}
    assert {key: (r["usable"], r["problem"]) for key, r in found.items()} == {
        ("alphaagent/prebuilt/python", "latest"): (True, None),
        ("team/tool", "good"): (True, None),
        ("team/tool", "docker"): (True, None),
        ("team/tool", "arm"): (False, "platform"),
        ("team/multi", "many"): (False, "index"),
    }
    good = found["team/tool", "good"]
    assert good["digest"] == shelf["good"] and good["platform"] == "linux/amd64" and good["mediaType"] == OCI["manifest"]
    assert good["pushedAt"].endswith("Z") and good["message"] is None and good["remedy"] is None
    assert found["team/tool", "arm"]["platform"] == "linux/arm64"
    only = world.berth("images", "team/tool", "--json").expect(0).json()
    assert {r["repository"] for r in only} == {"team/tool"} and len(only) == 3
    table = world.berth("images").expect(0).out
    assert table.splitlines()[0].split() == ["REPOSITORY", "TAGS", "DIGEST", "PUSHED", "SIZE", "VERDICT"]
    assert any(line.startswith("team/tool") and "arm" in line and "unusable: platform" in line for line in table.splitlines())
    assert cloud.changing_calls() == []
    missing = world.berth("images", "team/nowhere").expect(1)
    assert "the repository team/nowhere does not exist" in missing.err
    world.berth("images", "team/tool:good").expect(1)


@real_registry
def test_image_check(world, cloud, shelf):
    for reference in (
        "team/tool:good", f"team/tool@{shelf['good']}", cloud.image_uri("team/tool", "good"), "alphaagent/prebuilt/python",
        cloud.image_uri("team/tool", digest=shelf["docker"]),
    ):  # fmt: skip
        assert "usable" in world.berth("image", "check", reference).expect(0).out, reference
    for reference, problem in (
        ("team/tool:arm", "platform"),
        (f"team/tool@{shelf['arm']}", "platform"),
        ("team/multi:many", "index"),
        ("team/tool:gone", "missing"),
        ("team/tool", "missing"),
        ("team/nowhere:v1", "repository"),
        ("team/tool@sha256:" + "0" * 64, "missing"),
    ):
        row = world.berth("image", "check", reference, "--json").expect(3).json()
        assert row["problem"] == problem and row["usable"] is False, reference
        assert "--platform linux/amd64 --provenance=false --sbom=false --push" in row["remedy"]
        text = world.berth("image", "check", reference).expect(3).out
        assert row["message"] in text and row["remedy"].replace("\n", "\n  ") in text
    for wrong in ("team/tool:", "team/tool@sha256:12", "TEAM/tool:v1", "localhost:5000/team/tool:v1", "docker.io/library/python:3", "x y"):
        result = world.berth("image", "check", wrong).expect(1)
        assert wrong in result.err, result
    world.berth("image", "check").expect(1)
    world.berth("image", "polish", "team/tool").expect(1)
    assert cloud.changing_calls() == []


@real_registry
def test_image_instructions(world, cloud):
    world.write(stacks.environment("x"), tool("y"))
    registry = f"{cloud.account}.dkr.ecr.us-east-1.amazonaws.com"
    found = world.berth("image", "instructions", "--json").expect(0).json()
    assert found["registry"] == registry
    assert [(i["repository"], i["tag"], i["uri"], i["exists"]) for i in found["images"]] == [
        ("alphaagent/prebuilt/python", "latest", f"{registry}/alphaagent/prebuilt/python:latest", True),
        ("team/tool", "v1", f"{registry}/team/tool:v1", False),
    ]
    commands = [c for r in found["recipes"] for c in r["commands"]]
    for program in ("docker", "podman", "skopeo"):
        assert f"aws ecr get-login-password --region us-east-1 | {program} login --username AWS --password-stdin {registry}" in commands
    assert FLAGS.format(uri=f"{registry}/team/tool:v1") in commands
    assert f"podman build --platform linux/amd64 -t {registry}/team/tool:v1 ." in commands
    assert commands.count("aws ecr create-repository --region us-east-1 --repository-name team/tool") == 1
    (prebuilt,) = [r for r in found["recipes"] if r["commands"][0].startswith("berth image build")]
    assert prebuilt["repository"] == "alphaagent/prebuilt/python" and prebuilt["commands"] == [
        "berth image build python -o python.tar",
        f"skopeo copy oci-archive:python.tar docker://{registry}/alphaagent/prebuilt/python:latest",
    ]
    text = world.berth("image", "instructions").expect(0).out
    assert [line for line in text.splitlines() if line and not line.startswith("#")] == commands
    assert "alphaagent/prebuilt/node" not in text
    only = world.berth("image", "instructions", "alphaagent/prebuilt/node", "--json").expect(0).json()
    assert [i["repository"] for i in only["images"]] == ["alphaagent/prebuilt/node"]
    assert not [c for r in only["recipes"] for c in r["commands"] if "image build" in c], "there is no such recipe"
    assert "COPY --chmod=0755 berth-runtime /opt/berth/berth-runtime" in text and "LABEL berth.runtime=" in text
    (copied,) = {c for c in commands if c.startswith("cp ")}
    assert os.path.getsize(shlex.split(copied)[1]) > 100_000 and "berth image runtime team/tool:v1 --push" in commands


@real_registry
def test_the_skopeo_command_turns_an_index_into_an_image_of_use(world, cloud):
    """As it is printed, but for the names of the registries, which here are the stand-in's."""
    world.write()
    cloud.pushes.index("team/multi", "many")
    cloud.pushes.repository("team/tool")
    world.berth("image", "check", "team/multi:many").expect(3)
    found = world.berth("image", "instructions", "team/tool:v1", "--json").expect(0).json()
    (command,) = [c for r in found["recipes"] if r["tool"] == "skopeo" and r["repository"] for c in r["commands"]]
    host = urlsplit(cloud.standin.url).netloc
    words = shlex.split(command.replace("docker://SOURCE", f"docker://{host}/team/multi:many").replace(found["registry"], host))
    words += ["--src-tls-verify=false", "--dest-tls-verify=false", "--src-creds", "AWS:x", "--dest-creds", "AWS:x"]
    words.insert(1, "--insecure-policy")
    subprocess.run(words, check=True, timeout=60, capture_output=True)
    world.berth("image", "check", "team/tool:v1").expect(0)


def test_wrong_account_is_told_before_the_registry_is_read(world, cloud):
    world.stack["spec"]["aws"] = {"account": "210987654321"}
    world.write()
    mark = cloud.mark()
    result = world.berth("images").expect(3)
    assert "210987654321" in result.err
    assert cloud.calls(mark, "ecr") == []
