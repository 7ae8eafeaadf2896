# SPDX-License-Identifier: Apache-2.0
"""Maps with free keys: a member of no text is a member, of every such map of every kind that a provider manages."""

import json

import pytest

import stacks

ADDRESSES = {"Stack": "Stack/team", "Environment": "Environment/x", "WorkspacePolicy": "WorkspacePolicy/p", "Agent": "Agent/a", "Swarm": "Swarm/s", "Image": "Image/i"}
# Where a member may stand, and whose field it becomes. Labels of what has tags are none of the local provider's.
PLACES = [
    ("Stack", "spec.tags", "Stack", ("local", "aws")),
    ("Environment", "spec.variables", "Environment", ("local", "aws")),
    ("WorkspacePolicy", "spec.selector.matchLabels", "WorkspacePolicy", ("local", "aws")),
    ("Agent", "metadata.labels", "Agent", ("local", "aws")),
    ("Swarm", "metadata.labels", "Swarm", ("local", "aws")),
    ("Stack", "metadata.labels", "Stack", ("aws",)),
    ("Environment", "metadata.labels", "Environment", ("aws",)),
    ("Image", "metadata.labels", "Image", ("aws",)),
]  # fmt: skip
# Nothing is made of these; a ResourceRange's labels choose environments when manifests are read.
WITHOUT = {(kind, "metadata.annotations") for kind in ADDRESSES} | {("WorkspacePolicy", "metadata.labels")}


def manifests(provider, kind, path, members):
    """One of each kind, with these members in one map, which is left out where it has none."""
    documents = [
        stacks.stack(provider=provider, tagLabels=["empty"]),
        stacks.environment("x", {"empty": "", "other": "text"}),
        stacks.policy("p", {"matchLabels": {"other": "text"}}, expireAfterDays=30),
        stacks.agent("a", "x"),
        stacks.swarm("s", ["a"], "x"),
    ]
    if provider == "aws":
        documents.append(stacks.image("i", repository="team/made", tag="v1", createRepository=True))
    found = next(document for document in documents if document["kind"] == kind)
    *parents, last = path.split(".")
    for name in parents:
        found = found[name]
    found.pop(last, None)
    if members:
        found[last] = members
    elif last == "matchLabels":
        found["environments"] = ["x"]  # a selector needs something
    return stacks.text(*documents)


def free_maps(schema):
    """Every (kind, path) at which the JSON Schema has a map of free keys with texts for values."""

    def resolve(node):
        while "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            node = schema["$defs"][name]
        return node

    def walk(node, path):
        node = resolve(node)
        if isinstance(node.get("additionalProperties"), dict):
            yield path
        for name, child in node.get("properties", {}).items():
            yield from walk(child, f"{path}.{name}" if path else name)
        for child in [*node.get("anyOf", []), *node.get("oneOf", [])]:
            yield from walk(child, path)

    return {(kind, path) for kind in ADDRESSES for path in walk(schema["$defs"][kind], "")}


def test_the_table_has_every_map(offline):
    schema = json.loads(offline("schema").expect(0).out)
    assert free_maps(schema) == {(kind, path) for kind, path, _, _ in PLACES} | WITHOUT


def check_both_ways(berth, provider, kind, path, address):
    """It comes and it goes, as the only member and beside another; each seen without asking the provider, and by asking."""
    for others in ({}, {"other": "text"}):
        base, empty = (manifests(provider, kind, path, {**others, **more}) for more in ({}, {"empty": ""}))
        berth.write("m.yaml", base)
        berth.apply()
        for step in (empty, base):
            berth.write("m.yaml", step)
            for refresh in ("none", "full"):
                changes = {c["address"]: [f["path"] for f in c["fields"]] for c in berth.plan("--refresh", refresh)["changes"]}
                assert address in changes, (path, others, refresh, changes)
                last = path.rpartition(".")[2]
                assert [f for f in changes[address] if f.endswith((".empty", last))], (changes, refresh)
            berth.apply()
            berth.assert_settled()


def cases(provider):
    return [pytest.param(kind, path, ADDRESSES[owner], id=f"{kind}-{path}") for kind, path, owner, where in PLACES if provider in where]


@pytest.mark.parametrize("kind, path, address", cases("local"))
def test_an_empty_text_comes_and_goes_here(offline, kind, path, address):
    check_both_ways(offline, "local", kind, path, address)


@pytest.mark.parametrize("kind, path, address", cases("aws"))
def test_an_empty_text_comes_and_goes(berth, cloud, prebuilt, kind, path, address):
    check_both_ways(berth, "aws", kind, path, address)


def test_an_empty_tag_that_is_taken_away_is_drift(berth, cloud, prebuilt):
    """By somebody else, where a sweep compares only what it lists."""
    documents = [
        stacks.stack(tags={"empty": ""}),
        stacks.environment("x", executionRole="own", variables={"EMPTY": ""}),
        stacks.image("i", repository="team/made", tag="v1", createRepository=True),
    ]
    berth.write("m.yaml", stacks.text(*documents))
    berth.apply()
    berth.assert_settled()
    functions, ecr = cloud.aws("lambda"), cloud.aws("ecr")
    functions.untag_resource(Resource=f"arn:aws:lambda:us-east-1:{cloud.account}:function:alphaagent-env-x", TagKeys=["empty"])
    functions.update_function_configuration(FunctionName="alphaagent-env-x", Environment={"Variables": {}})
    ecr.untag_resource(resourceArn=f"arn:aws:ecr:us-east-1:{cloud.account}:repository/team/made", tagKeys=["empty"])
    found = {d["address"]: {f["path"] for f in d["fields"]} for d in berth.plan()["drift"]}
    assert found == {"Environment/x": {"tags.empty", "variables.EMPTY"}, "Image/i": {"tags.empty"}}
    berth.apply()
    berth.assert_settled()
    assert functions.get_function_configuration(FunctionName="alphaagent-env-x")["Environment"]["Variables"]["EMPTY"] == ""
