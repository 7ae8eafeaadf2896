# SPDX-License-Identifier: Apache-2.0
"""What model services refuse in the tools of a request: a service that refuses one tool refuses the whole request.

Each function takes a tool in the form of MCP (`name`, `description`, `inputSchema`) and gives its objections, as words; none for a tool that the
service takes. The rules were read from the services' references and from error messages that their users reported; each rule names its message.
"""

import re

import jsonschema

COMBINING = {"oneOf", "anyOf", "allOf"}
# All members that the Schema of Gemini's `parameters` has: it is a protocol buffer, and another member is `Unknown name ... Cannot find field`.
GEMINI_MEMBERS = {
    "type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties", "required", "propertyOrdering",
    "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "minimum", "maximum", "example", "default", "anyOf",
}  # fmt: skip
GEMINI_FORMATS = {"string": {"enum", "date-time"}, "integer": {"int32", "int64"}, "number": {"float", "double"}}
# Strict mode of OpenAI: any other member is `... is not permitted`.
STRICT_MEMBERS = {
    "type", "title", "description", "enum", "const", "items", "minItems", "maxItems", "properties", "required", "additionalProperties",
    "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "anyOf", "$ref", "$defs", "definitions",
}  # fmt: skip
STRICT_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
# What every reader of JSON Schema among clients' libraries knows.
PLAIN_MEMBERS = STRICT_MEMBERS - {"$ref", "$defs", "definitions", "const"} | {"minProperties", "maxProperties", "default"}


def schemas(schema, where="input"):
    """The schema and all schemas within it, each with its place."""
    if not isinstance(schema, dict):
        return
    yield where, schema
    for name, member in schema.get("properties", {}).items():
        yield from schemas(member, f"{where}.{name}")
    for key in ("items", "additionalProperties", "propertyNames", "not", "contains"):
        yield from schemas(schema.get(key), f"{where}.{key}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for member in schema.get(key, []):
            yield from schemas(member, f"{where}.{key}")
    for key in ("$defs", "definitions", "patternProperties"):
        for name, member in schema.get(key, {}).items():
            yield from schemas(member, f"{where}.{key}.{name}")


def types(schema):
    """The types that a schema names, in small letters: Gemini's own are in capitals."""
    found = schema.get("type", [])
    return [t.lower() for t in ([found] if isinstance(found, str) else found)]


def named(tool, pattern):
    return [] if re.fullmatch(pattern, tool["name"]) else [f"the name {tool['name']!r} does not match {pattern}"]


def top(schema, refused):
    found = [f"{key} at the top level" for key in sorted(refused & set(schema))]
    return found if schema.get("type") == "object" else [*found, "the type is not object"]


def anthropic(tool):
    schema = tool["inputSchema"]
    # "input_schema does not support oneOf, allOf, or anyOf at the top level"
    found = [*named(tool, "[a-zA-Z0-9_-]{1,64}"), *top(schema, COMBINING)]
    try:  # "JSON schema is invalid. It must match JSON Schema draft 2020-12"
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as wrong:
        found.append(f"it is not JSON Schema: {wrong.message}")
    for where, inner in schemas(schema):  # "Property keys should match pattern"
        found += [f"{where}: the key {key!r}" for key in inner.get("properties", {}) if not re.fullmatch("[a-zA-Z0-9_.-]{1,64}", key)]
    return found


def openai(tool):
    schema = tool["inputSchema"]
    # "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
    found = [*named(tool, "[a-zA-Z0-9_-]{1,64}"), *top(schema, COMBINING | {"enum", "not"})]
    if len(tool.get("description") or "") > 1024:  # "string too long. Expected a string with maximum length 1024"
        found.append("the description has more than 1024 characters")
    if "properties" not in schema:  # "object schema missing properties"
        found.append("no properties")
    for where, inner in schemas(schema):
        if "array" in types(inner) and "items" not in inner:  # "array schema missing items"
            found.append(f"{where}: an array without items")
    return found


def openai_convertible(tool):
    """Of a tool from which a library makes a strict one: what strict mode refuses, and no library takes out or can express."""
    found = []
    for where, inner in schemas(tool["inputSchema"]):
        refused = {"propertyNames", "contentEncoding", "dependentRequired", "patternProperties", "default", "oneOf", "allOf", "not"} & set(inner)
        found += [f"{where}: {key} is not permitted" for key in sorted(refused)]
        if isinstance(inner.get("additionalProperties"), dict) or inner.get("additionalProperties") is True:
            found.append(f"{where}: a map is not permitted")
        if "object" in types(inner) and not inner.get("properties"):
            found.append(f"{where}: an object of any members is not permitted")
    return found


def openai_strict(tool):
    """Of a tool that is sent with `strict: true`: its schema was made by a library, from what MCP lists."""
    found = openai(tool)
    for where, inner in schemas(tool["inputSchema"]):
        found += [f"{where}: {key} is not permitted" for key in sorted(set(inner) - STRICT_MEMBERS)]
        if "format" in inner and inner["format"] not in STRICT_FORMATS:  # "'uri' is not a valid format"
            found.append(f"{where}: {inner['format']!r} is not a valid format")
        if "object" not in types(inner):
            continue
        if inner.get("additionalProperties") is not False:  # "'additionalProperties' is required to be supplied and to be false"
            found.append(f"{where}: additionalProperties is not false")
        optional = set(inner.get("properties", {})) - set(inner.get("required", []))
        found += [f"{where}: {key} is not required" for key in sorted(optional)]  # "'required' is required to ... include every key in properties"
    return found


def gemini(tool):
    """Of a tool whose schema is sent as `parameters`, to Gemini or Vertex."""
    schema = tool["inputSchema"]
    found = named(tool, "[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
    if types(schema) != ["object"]:
        found.append("the type is not object")
    for where, inner in schemas(schema):
        found += [f"{where}: unknown name {key}" for key in sorted(set(inner) - GEMINI_MEMBERS)]
        if not isinstance(inner.get("type"), str):
            # "Proto field is not repeating, cannot start list"; without one: "missing field", or with an enum "only allowed for STRING type"
            if "anyOf" not in inner or "type" in inner:
                found.append(f"{where}: the type is not one text")
            continue
        (kind,) = types(inner)
        if "enum" in inner and kind != "string":
            found.append(f"{where}: enum: only allowed for STRING type")
        if "enum" in inner and not all(isinstance(choice, str) and choice for choice in inner["enum"]):
            found.append(f"{where}: enum: cannot be empty, nor other than texts")
        if kind == "object" and not inner.get("properties"):
            found.append(f"{where}: properties: should be non-empty for OBJECT type")
        if kind != "object" and {"properties", "required"} & set(inner):
            found.append(f"{where}: properties: only allowed for OBJECT type")
        if kind == "array" and "items" not in inner:
            found.append(f"{where}: items: missing field")
        if "format" in inner and inner["format"] not in GEMINI_FORMATS.get(kind, ()):
            found.append(f"{where}: format: {inner['format']} is not supported for {kind}")
        missing = set(inner.get("required", [])) - set(inner.get("properties", {}))
        found += [f"{where}: required: {key} is not defined" for key in sorted(missing)]  # "property is not defined"
    return found


def agent_framework(tool):
    """Microsoft Agent Framework takes these arguments out of each call, without a word."""
    return [f"the argument {name}" for name in sorted({"session", "thread", "tools", "options", "conversation_id"} & set(tool["inputSchema"].get("properties", {})))]


def plain_output(tool):
    """No service sees an answer's schema, but clients make types of it: an object, of members that their libraries know."""
    schema = tool["outputSchema"]
    found = top(schema, COMBINING | {"enum", "not"})
    for where, inner in schemas(schema, "output"):
        found += [f"{where}: {key}" for key in sorted(set(inner) - PLAIN_MEMBERS)]
        if not types(inner) and "anyOf" not in inner:
            found.append(f"{where}: no type")
    return found


# A tool as MCP lists it has to pass all of these.
SERVICES = {
    "anthropic": anthropic, "openai": openai, "openai_convertible": openai_convertible, "gemini": gemini, "agent_framework": agent_framework,
}  # fmt: skip


def refusals(tools):
    """All objections to a list of tools."""
    found = [(name, tool["name"], word) for name, judge in SERVICES.items() for tool in tools for word in judge(tool)]
    return found + [("output", tool["name"], word) for tool in tools for word in plain_output(tool)]
