# SPDX-License-Identifier: Apache-2.0
"""kind: Server before `validate`, and its JSON Schema before a stock validator."""

import pytest
from jsonschema.validators import validator_for

import stacks

HASH = "0123456789abcdef" * 4
EVERYTHING = {
    "stack": "stack", "listen": ":9471", "hosts": ["berth.example.com"], "behindProxy": True,
    "tls": {"certFile": "cert", "keyFile": "key"},
    "clients": [
        {"name": "app", "realm": "company", "tokenFile": "token", "actsFor": "users", "may": ["execute", "observe"],
         "agents": ["coder"], "environments": ["data"],
         "limits": {"requestsPerSecond": 50, "ownerRequestsPerSecond": 5, "underWay": 20, "ownerUnderWay": 4}},
        {"name": "people", "tokenSha256": HASH, "may": ["approve", "administer"]},
        {"name": "sso", "may": ["execute"],
         "jwt": {"issuer": "https://i", "audience": "berth", "jwksUrl": "https://i/keys", "ownerClaim": "sub"}},
    ],
    "sessions": {"idleSeconds": 1209600, "ttlSeconds": 1209600, "parkSeconds": 60, "perOwner": 3, "total": 200, "warm": {"data": 2},
                 "preload": ["numpy"], "checkpointMB": 64, "checkpointSeconds": 2, "sharedUser": True, "allowShared": True},
    "workspaces": {"perOwnerMB": 1000, "minFreeMB": 500},
    "containers": {"total": 50},
    "shell": {"enabled": True, "user": "nobody", "approvalSeconds": 60,
              "trusted": [{"agent": "coder", "command": ["df", "-h"], "cwd": "/srv"}]},
    "compat": {"e2b": True, "e2bTemplate": "data"},
}  # fmt: skip
CLIENT = {"name": "a", "tokenSha256": HASH, "may": ["execute"]}
BROKEN = {
    "beyond loopback": {"listen": "0.0.0.0:9471"},
    "every address": {"listen": ":9471", "behindProxy": False},
    "fifteen days": {"sessions": {"ttlSeconds": 15 * 86400}},
    "idle for ever": {"sessions": {"idleSeconds": 0}},
    "no right": {"clients": [{**CLIENT, "may": []}]},
    "unknown right": {"clients": [{**CLIENT, "may": ["everything"]}]},
    "asks and approves": {"clients": [{**CLIENT, "may": ["approve", "shell"]}]},
    "two ways to prove it": {"clients": [{**CLIENT, "tokenFile": "token"}]},
    "no way to prove it": {"clients": [{"name": "a", "may": ["execute"]}]},
    "a token for a hash": {"clients": [{**CLIENT, "tokenSha256": "a-secret-token-of-somebody"}]},
    "a realm that looks like a user": {"clients": [{**CLIENT, "realm": "uid:0"}]},
    "keys over http": {"clients": [{"name": "a", "may": ["execute"], "jwt": {"issuer": "i", "audience": "b", "jwksUrl": "http://i"}}]},
    "a key without its certificate": {"tls": {"keyFile": "key"}},
    "trusted anywhere": {"shell": {"trusted": [{"agent": "a", "command": ["df"]}]}},
    "trusted with any word": {"shell": {"trusted": [{"agent": "a", "command": ["tar", "tf", "**"], "cwd": "/srv"}]}},
    "nothing at a time": {"clients": [{**CLIENT, "limits": {"underWay": 0}}]},
    "more than the server works on": {"clients": [{**CLIENT, "limits": {"ownerUnderWay": 385}}]},
    "a limit in words": {"clients": [{**CLIENT, "limits": {"requestsPerSecond": "many"}}]},
    "misspelt": {"client": []},
}


def document(spec):
    return stacks.document("Server", "main", spec)


@pytest.fixture
def judge(offline):
    """What `validate` and a stock validator with Berth's own schema say, which must be the same."""
    schema = offline("schema").expect(0).json()
    one = offline("schema", "Server").expect(0).json()
    validators = [validator_for(s)(s) for s in (schema, one)]

    def judged(spec):
        offline.write("server.yaml", stacks.text(document(spec)))
        run = offline("validate", "-f", "server.yaml")
        says = {validator.is_valid(document(spec)) for validator in validators} | {run.code == 0}
        assert len(says) == 1, (says, run.out, run.err)
        return run

    return judged


def test_every_field(judge, offline):
    for name in ("cert", "key"):
        offline.write(name, "-")
    offline.write("token", HASH).chmod(0o600)
    assert judge(EVERYTHING).expect(0).out == "Valid: a Server with 3 clients.\n"
    assert judge({}).expect(0).out == "Valid: a Server with 0 clients.\n"
    assert offline("validate", "--json", "-f", "server.yaml").expect(0).json()["resources"] == {"Server": 1}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_ones_are_refused(judge, name):
    run = judge(BROKEN[name]).expect(1)
    assert "a-secret-token" not in run.out + run.err


def test_a_token_that_everybody_may_read_is_refused(offline):
    offline.write("token", HASH).chmod(0o644)
    offline.write("server.yaml", stacks.text(document({"clients": [{"name": "a", "tokenFile": "token", "may": ["execute"]}]})))
    run = offline("validate", "-f", "server.yaml").expect(1)
    assert "tokenFile" in run.err and "server.yaml:8:16" in run.err and HASH not in run.out + run.err


def test_it_is_no_part_of_a_stack(offline):
    offline.write("stack.yaml", stacks.text(stacks.document("Stack", "s", {"provider": "local"}), document({})))
    assert "a Server is no part of a stack" in offline("validate").expect(1).err


def test_explain(offline):
    assert "1209600" in offline("explain", "Server.sessions.idleSeconds").expect(0).out
