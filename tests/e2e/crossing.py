# SPDX-License-Identifier: Apache-2.0
"""
One stack in two shapes. Going from either to the other creates, updates, deletes and re-points in one plan: environments,
their images, policies, agents, a swarm, repositories, the stack's own tags. What then exists is compared with what an
undisturbed crossing left.
"""

import json
import time

import stacks

LEFT, RIGHT = "left", "right"
OTHER = {LEFT: RIGHT, RIGHT: LEFT}
READING = ("Get", "List", "Describe", "BatchGet")  # what operations that change nothing begin with
SECRET = "crossing-secret-7041"


def manifest(shape, in_use_is_gone=False):
    """`in_use_is_gone`: without an environment that agents use, so that a guard refuses."""
    left = shape == LEFT
    keep = dict(memoryMB=2048, logRetentionDays=7, reservedConcurrency=5, variables={"MODE": {"value": "slow"}, "EMPTY": {"value": ""}})
    if not left:
        keep = dict(memoryMB=3008, logRetentionDays=30, variables={"MODE": {"value": "fast"}, "TOKEN": {"value": SECRET, "sensitive": True}})
    own = {"image": "tool", "logRetentionDays": 14, "reservedConcurrency": 2, "variables": {"SIDE": {"value": shape}}}
    return stacks.text(
        stacks.stack("team", tags={"cost": shape}),
        stacks.image("tool", repository="team/tool", tag="v1", scanOnPush=left),
        stacks.image(f"only-{shape}", repository=f"team/{shape}", createRepository=True, tag="v1", retain={"untaggedDays": 7}),
        *([] if in_use_is_gone else [stacks.environment("keep", {"team": "a"}, **keep)]),
        stacks.environment("swap", {"team": "b"}, image="tool" if left else {"repository": "team/tool", "tag": "v2"}),
        stacks.environment(f"only-{shape}", {"team": "c"}, **own),
        stacks.agent("moves", f"only-{shape}"),
        stacks.agent("grows", "keep", limits={"containers": 1 if left else 2}),
        stacks.agent(f"only-{shape}", f"only-{shape}"),
        stacks.swarm("crew", ["moves", "grows"], f"only-{shape}"),
        stacks.policy("kept", {"matchLabels": {"team": "a"}}, expireAfterDays=30 if left else 60),
        stacks.policy(f"only-{shape}", {"environments": ["swap"]}, expireAfterDays=90),
    )


class Crossing:
    """
    The stack, settled in one of its shapes (`here`), and what exists in each when nothing goes wrong. Buckets that are `aside` are no
    part of it.
    """

    def __init__(self, cloud, berth, aside=()):
        self.cloud, self.berth, self.here, self.aside = cloud, berth, None, aside
        self.golden = {}

    def settle(self):
        """From nothing: both shapes made once, undisturbed; ends on the left."""
        for tag in ("v1", "v2"):
            self.cloud.pushes.amd64("team/tool", tag, tag)
        self.cloud.pushes.amd64("alphaagent/prebuilt/python")
        self.cloud.settings(pending_s=0, updating_s=0)
        for shape in (LEFT, RIGHT, LEFT):
            self.turn(shape)
            self.berth.apply()
            self.berth.assert_settled()
            found = inventory(self.cloud, self.aside)
            assert self.golden.setdefault(shape, found) == found, "an undisturbed crossing leaves nothing behind"
            self.here = shape

    def turn(self, shape=None):
        """The manifest of the other side: what the next apply is to make."""
        self.berth.write("m.yaml", manifest(shape or OTHER[self.here]))

    def wait_idle(self):
        """What a dead program had sent has arrived."""
        end = time.monotonic() + 40
        while self.cloud._get("health")["busy"]:
            assert time.monotonic() < end, "the proxy does not come to rest"
            time.sleep(0.005)

    def runs(self):
        """run -> outcome of the last ten."""
        state = self.berth("state", "show", "--json").expect(0).json()
        return {entry["run"]: entry["outcome"] for entry in state["history"]}, state["journal"]

    def recover(self, note="", locks_may_stay=True):
        """
        After whatever happened: one clean apply converges, an empty plan follows, nothing twice, nothing left, nothing missing.
        But for a dead run's lock: it stays until somebody needs it, takes it over and lets it go, or until `destroy`.
        """
        self.wait_idle()
        self.cloud.faults()
        result = self.berth("apply", "--yes")
        assert result.code == 0, f"{note}: the next run does not converge\n{result}"
        plan = self.berth("plan", "--json", "--detailed-exitcode")
        assert plan.code == 0 and plan.json()["changes"] == [] and plan.json()["drift"] == [], f"{note}: the plan is not empty\n{plan}"
        offline = self.berth("plan", "--json", "--detailed-exitcode", "--refresh", "none")
        assert offline.code == 0, f"{note}: the state does not know it\n{offline}"
        found = inventory(self.cloud, self.aside)
        if locks_may_stay:
            drop_locks(found)
        difference = compare(self.golden[OTHER[self.here]], found)
        assert not difference, f"{note}: what exists differs\n" + "\n".join(difference)
        self.here = OTHER[self.here]
        return result


def drop_locks(found):
    for bucket in found["buckets"].values():
        bucket["objects"] = {key: body for key, body in bucket["objects"].items() if not key.startswith("berth/locks/")}


def compare(expected, found, path=""):
    """The differences, one text each."""
    if isinstance(expected, dict) and isinstance(found, dict):
        names = sorted(set(expected) | set(found))
        return [text for name in names for text in compare(expected.get(name), found.get(name), f"{path}/{name}")]
    return [] if expected == found else [f"  {path}: {json.dumps(expected)} expected, {json.dumps(found)} found"]


def inventory(cloud, aside=()):
    """Everything there is, without what differs from one making to the next."""
    found = {name: read(cloud) for name, read in READERS.items()}
    return json.loads(json.dumps({**found, "buckets": _buckets(cloud, aside)}, default=str, sort_keys=True))


def _tags(pairs):
    return {pair["Key"]: pair["Value"] for pair in pairs}


def _or_none(call, *path, **params):
    """A setting that may be absent, which every service says by an error of its own name."""
    from botocore.exceptions import ClientError

    try:
        found = call(**params)
    except ClientError as error:
        assert "No" in error.response["Error"]["Code"] or "NotFound" in error.response["Error"]["Code"], error
        return None
    for name in path:
        found = found.get(name)
    return found


CHANGING = ("RevisionId", "LastModified", "CodeSha256", "ImageConfigResponse", "FunctionArn", "LoggingConfig", "SnapStart", "TracingConfig")


def _functions(cloud):
    client, made = cloud.aws("lambda"), {}
    for name in cloud.functions():
        found = client.get_function(FunctionName=name)
        made[name] = {key: value for key, value in found["Configuration"].items() if key not in CHANGING}
        made[name]["image"] = found["Code"]["ImageUri"]
        made[name]["tags"] = found.get("Tags")
        made[name]["concurrency"] = found.get("Concurrency", {}).get("ReservedConcurrentExecutions")
    return made


def _log_groups(cloud):
    client = cloud.aws("logs")
    groups = [g for page in client.get_paginator("describe_log_groups").paginate() for g in page["logGroups"]]
    return {
        g["logGroupName"]: {"days": g.get("retentionInDays"), "tags": client.list_tags_log_group(logGroupName=g["logGroupName"])["tags"]}
        for g in groups
    }  # fmt: skip


def _buckets(cloud, aside):
    s3, made = cloud.aws("s3"), {}
    for bucket in (b["Name"] for b in s3.list_buckets()["Buckets"] if b["Name"] not in aside):
        rules = _or_none(s3.get_bucket_lifecycle_configuration, "Rules", Bucket=bucket) or []
        keys = [o["Key"] for o in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
        made[bucket] = {
            "tags": _tags(_or_none(s3.get_bucket_tagging, "TagSet", Bucket=bucket) or []),
            "rules": {rule["ID"].split("@")[0]: rule for rule in rules},
            "policy": json.loads(_or_none(s3.get_bucket_policy, "Policy", Bucket=bucket) or "null"),
            "public": _or_none(s3.get_public_access_block, "PublicAccessBlockConfiguration", Bucket=bucket),
            "encryption": _or_none(s3.get_bucket_encryption, "ServerSideEncryptionConfiguration", Bucket=bucket),
            "objects": {key: _object(s3, bucket, key) for key in keys},
        }
    return made


def _object(s3, bucket, key):
    text = s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode()
    if not key.startswith("berth/lineages/"):
        return text
    note = json.loads(text)
    del note["at"]  # each apply says again that its lineage lives
    return note


def _roles(cloud):
    iam, made = cloud.aws("iam"), {}
    for role in iam.list_roles()["Roles"]:
        name = role["RoleName"]
        policies = iam.list_role_policies(RoleName=name)["PolicyNames"]
        made[name] = {
            "trust": role["AssumeRolePolicyDocument"],
            "tags": _tags(iam.list_role_tags(RoleName=name)["Tags"]),
            "policies": {p: iam.get_role_policy(RoleName=name, PolicyName=p)["PolicyDocument"] for p in policies},
        }
    return made


def _repositories(cloud):
    ecr, made = cloud.aws("ecr"), {}
    for repository in ecr.describe_repositories()["repositories"]:
        name = repository["repositoryName"]
        images = ecr.list_images(repositoryName=name)["imageIds"]
        made[name] = {
            "scan": repository.get("imageScanningConfiguration"),
            "mutability": repository["imageTagMutability"],
            "tags": _tags(ecr.list_tags_for_resource(resourceArn=repository["repositoryArn"])["tags"]),
            "lifecycle": json.loads(_or_none(ecr.get_lifecycle_policy, "lifecyclePolicyText", repositoryName=name) or "null"),
            "images": sorted(f"{i.get('imageTag')} {i.get('imageDigest')}" for i in images),
        }
    return made


READERS = {"functions": _functions, "log groups": _log_groups, "roles": _roles, "repositories": _repositories}
