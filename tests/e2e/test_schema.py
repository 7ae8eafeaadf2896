# SPDX-License-Identifier: Apache-2.0
"""`berth schema` before a stock validator: takes every example, refuses what is broken in structure."""

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

import stacks
from binary import ROOT
from lib.invalid_manifests import CASES, NOT_IN_SCHEMA, marked


@pytest.fixture
def validator(offline):
    schema = offline("schema").expect(0).json()
    found = validator_for(schema, default=Draft202012Validator)
    found.check_schema(schema)
    return found(schema)


EXAMPLES = sorted((ROOT / "examples" / "manifests").rglob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_examples_are_accepted(validator, path):
    for document in stacks.read(path.read_text()):
        errors = list(validator.iter_errors(document))
        assert errors == [], (document["kind"], document["metadata"]["name"])


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_IN_SCHEMA])
def test_broken_ones_are_refused(validator, name):
    documents = stacks.read(marked(CASES[name][0])[0])
    assert any(not validator.is_valid(document) for document in documents), documents


@pytest.mark.parametrize("kind", ["Stack", "Environment", "Image", "ResourceRange", "Agent", "Swarm", "WorkspacePolicy"])
def test_schema_of_one_kind(offline, kind):
    schema = offline("schema", kind).expect(0).json()
    found = validator_for(schema, default=Draft202012Validator)
    found.check_schema(schema)
    documents = [d for path in EXAMPLES for d in stacks.read(path.read_text())]
    assert all(found(schema).is_valid(d) == (d["kind"] == kind) for d in documents)
