# SPDX-License-Identifier: Apache-2.0
"""Manifests for the tests as Python values, and a reader of YAML 1.2's core types to check them with."""

import re

import yaml

API = "berth/v1"


def document(kind, name, spec, labels=None):
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}


def stack(name="team", **spec):
    return document("Stack", name, {"provider": "aws", **spec})


def environment(name, labels=None, **spec):
    return document("Environment", name, {"image": {"prebuilt": "python"}, **spec}, labels)


def agent(name, environment=None, labels=None, **spec):
    spec = {"type": "general", "active": True, **({"environment": environment} if environment else {}), **spec}
    return document("Agent", name, spec, labels)


def swarm(name, agents, environment=None):
    return document("Swarm", name, {"agents": agents, **({"environment": environment} if environment else {})})


def image(name, **spec):
    return document("Image", name, spec)


def resource_range(name, labels, **spec):
    return document("ResourceRange", name, {"selector": {"matchLabels": labels}, **spec})


def policy(name, selector, **spec):
    return document("WorkspacePolicy", name, {"selector": selector, **spec})


def text(*documents):
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)


class _CoreLoader(yaml.SafeLoader):
    """YAML 1.2 core: no yes/no, no dates, no sexagesimal; 0o and 0x are integers."""

    yaml_implicit_resolvers = {}


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))
_CoreLoader.add_constructor(
    "tag:yaml.org,2002:int", lambda loader, node: int(loader.construct_scalar(node), 0 if node.value[:2] in ("0o", "0x") else 10)
)


def read(source):
    """The documents of a YAML text, empty ones left out."""
    return [found for found in yaml.load_all(source, Loader=_CoreLoader) if found is not None]
