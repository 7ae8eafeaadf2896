# SPDX-License-Identifier: Apache-2.0
"""Answers judged by /openapi.json."""

import copy
import json
import re

import jsonschema


def strict(part):
    """A copy in which answers may have no member that is not told of."""
    if isinstance(part, list):
        return [strict(p) for p in part]
    if not isinstance(part, dict):
        return part
    found = {name: strict(value) for name, value in part.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


class Judge:
    """Whether an answer is one of those that the document has for an operation."""

    def __init__(self, document):
        self.document, self.strict, self.seen = document, strict(document), set()

    def of(self, name, answer):
        operation = next(o for p in self.strict["paths"].values() for o in p.values() if o["operationId"] == name)
        assert str(answer.status) in operation["responses"], (name, answer.status, answer.body)
        told = operation["responses"][str(answer.status)]
        if "$ref" in told:
            told = self.strict["components"]["responses"][told["$ref"].rsplit("/", 1)[1]]
        self.seen.add((name, answer.status))
        for header in told.get("headers", {}):
            assert header.lower() in answer.headers or header == "Retry-After", (name, header, answer.headers)
        kind = answer.headers.get("content-type", "").split(";")[0]
        if "content" not in told:
            assert not answer.body and not kind, (name, answer.status, kind, answer.body)
            return answer
        assert kind in told["content"], (name, answer.status, kind)
        schema = told["content"][kind].get("schema")
        assert schema, (name, answer.status, kind)
        if kind == "text/event-stream":
            found = [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith("data: ")]
            schema = self.strict["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]["properties"]["data"]["contentSchema"]
            assert found and [item["event"] for item in found] == re.findall("^event: (.+)$", answer.body.decode(), re.MULTILINE)
        else:
            found = [json.loads(answer.body)] if kind.endswith("json") else []
        whole = {**schema, "components": self.strict["components"]}
        for item in found:
            jsonschema.Draft202012Validator(whole, format_checker=jsonschema.FormatChecker()).validate(item)
        return answer


def example(document, name):
    operation = next(o for p in document["paths"].values() for o in p.values() if o["operationId"] == name)
    return copy.deepcopy(operation["requestBody"]["content"]["application/json"]["example"])
