# SPDX-License-Identifier: Apache-2.0
"""The stack `lab` that most tests of servers serve, and clients of such a server."""

import hashlib

import stacks

TOKENS = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("self", "users", "watcher", "narrow", "file")}


def client(name, may=("execute",), **spec):
    return {"name": name, "tokenSha256": hashlib.sha256(TOKENS[name].encode()).hexdigest(), "may": list(may), **spec}


CLIENTS = [
    client("self"),
    client("users", actsFor="users", realm="company"),
    client("watcher", may=["observe"], actsFor="users"),
    client("narrow", agents=["coder"], environments=["data", "gone"]),
]


def stack(*more, **spec):
    """`spec`: the Stack's, where it is not one of this machine."""
    return stacks.text(
        stacks.document("Stack", "lab", spec or {"provider": "local"}),
        stacks.document("Environment", "data", {
            "description": "for data", "image": {"prebuilt": "python"},
            "variables": {"PLAIN": "plain-text", "HIDDEN": {"value": "hidden-text", "sensitive": True}},
        }),
        stacks.document("Environment", "web", {"image": {"prebuilt": "python"}}),
        stacks.document("Agent", "coder", {"type": "specialist", "environment": "data", "limits": {"containers": 2}}),
        stacks.document("Agent", "reader", {"environment": "web"}),
        stacks.document("Swarm", "team", {"agents": ["coder", "reader"], "environment": "data"}),
        *more,
    )  # fmt: skip
