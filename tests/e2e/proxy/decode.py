# SPDX-License-Identifier: Apache-2.0
"""Turn a raw request back into the parameters that its operation takes, and note what has no place.

botocore only knows how to write requests; this is the way back, for the five protocols in use here:
json, rest-json, rest-xml, query, and ec2, which is query with names and lists of its own. Nothing is forgiven: what the service model does not know is a problem.
"""

import json
import re
from urllib.parse import parse_qsl
from xml.etree import ElementTree

from .decode_xml import from_xml, scalar

COMMON_HEADERS = re.compile(
    r"x-amz-(date|content-sha256|security-token|user-agent|api-version|decoded-content-length|trailer"
    r"|sdk-checksum-algorithm|target|checksum-.*|te)$"
)


class Decoded:
    """`params` as botocore would have been given them, `problems` as a list of sentences."""

    def __init__(self):
        self.params = {}
        self.problems = []


def decode(target, raw_target, headers, body):
    out = Decoded()
    protocol = target.protocol
    if protocol == "json":
        _decode_json_rpc(target.model, headers, body, out)
    elif protocol in ("query", "ec2"):
        _decode_query(target.model, headers, body, out, _from_ec2 if protocol == "ec2" else _from_query)
    else:
        _decode_rest(target, raw_target, headers, body, out)
    return out


# --- json -------------------------------------------------------------------------------------------


def _no_duplicates(pairs):
    out = {}
    for key, value in pairs:
        if key in out:
            raise ValueError(f"key '{key}' stands twice")
        out[key] = value
    return out


def _load_json(body, out):
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_no_duplicates)
    except ValueError as error:
        out.problems.append(f"the body is no JSON: {error}")
        return {}
    if not isinstance(value, dict):
        out.problems.append("the body is no JSON object")
        return {}
    return value


def _from_json(shape, value):
    """JSON keys are locationNames; put member names in their place, so that shapes.py can check them."""
    if shape.type_name == "structure" and isinstance(value, dict):
        names = {m.serialization.get("name", n): (n, m) for n, m in shape.members.items()}
        out = {}
        for key, item in value.items():
            if item is None:
                continue
            name, member = names.get(key, (key, None))
            out[name] = _from_json(member, item) if member else item
        return out
    if shape.type_name == "list" and isinstance(value, list):
        return [_from_json(shape.member, item) for item in value]
    if shape.type_name == "map" and isinstance(value, dict):
        return {key: _from_json(shape.value, item) for key, item in value.items()}
    return value


def _decode_json_rpc(model, headers, body, out):
    wanted = "application/x-amz-json-" + model.service_model.metadata.get("jsonVersion", "1.1")
    if headers.get("content-type") != wanted:
        out.problems.append(f"Content-Type must be {wanted}, not '{headers.get('content-type')}'")
    value = _load_json(body, out)
    out.params = _from_json(model.input_shape, value) if model.input_shape else value


# --- query ------------------------------------------------------------------------------------------


def _decode_query(model, headers, body, out, read):
    if not headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        out.problems.append(f"Content-Type must be application/x-www-form-urlencoded, not '{headers.get('content-type')}'")
    pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True)
    form = {}
    for key, value in pairs:
        if key in form:
            out.problems.append(f"the parameter '{key}' stands twice")
        form[key] = value
    form.pop("Action", None)
    version = form.pop("Version", None)
    if version != model.service_model.api_version:
        out.problems.append(f"Version must be {model.service_model.api_version}, not '{version}'")
    used = set()
    if model.input_shape:
        out.params = read(model.input_shape, "", form, used) or {}
    for key in form.keys() - used:
        out.problems.append(f"unknown parameter '{key}'")


def _join(prefix, name):
    return f"{prefix}.{name}" if prefix else name


def _from_query(shape, prefix, form, used):
    """The value at `prefix`, or None; keys that were looked at go into `used`."""
    kind = shape.type_name
    if kind == "structure":
        found = {}
        for name, member in shape.members.items():
            value = _from_query(member, _join(prefix, member.serialization.get("name", name)), form, used)
            if value is not None:
                found[name] = value
        return found or None
    if kind == "list":
        item = prefix if shape.serialization.get("flattened") else _join(prefix, shape.member.serialization.get("name", "member"))
        return _numbered(lambda n: _from_query(shape.member, f"{item}.{n}", form, used)) or _empty(prefix, form, used, [])
    if kind == "map":
        entry = prefix if shape.serialization.get("flattened") else _join(prefix, "entry")
        found = _numbered(lambda n: _entry(shape, f"{entry}.{n}", form, used))
        return dict(found) if found else None
    if prefix not in form:
        return None
    used.add(prefix)
    return scalar(shape, form[prefix])


def _ec2_name(name, member):
    serialization = member.serialization
    text = serialization.get("name", name)
    return serialization.get("queryName") or text[0].upper() + text[1:]


def _from_ec2(shape, prefix, form, used):
    """As _from_query: names begin with a capital, and all lists are flat."""
    if shape.type_name == "structure":
        found = {}
        for name, member in shape.members.items():
            value = _from_ec2(member, _join(prefix, _ec2_name(name, member)), form, used)
            if value is not None:
                found[name] = value
        return found or None
    if shape.type_name == "list":
        return _numbered(lambda n: _from_ec2(shape.member, f"{prefix}.{n}", form, used)) or None
    if prefix not in form:
        return None
    used.add(prefix)
    return scalar(shape, form[prefix])


def _numbered(read):
    out = []
    while (value := read(len(out) + 1)) is not None:
        out.append(value)
    return out


def _empty(prefix, form, used, value):
    if form.get(prefix) == "":
        used.add(prefix)
        return value
    return None


def _entry(shape, prefix, form, used):
    key = _from_query(shape.key, f"{prefix}.{shape.key.serialization.get('name', 'key')}", form, used)
    value = _from_query(shape.value, f"{prefix}.{shape.value.serialization.get('name', 'value')}", form, used)
    return None if key is None else (key, value)


# --- rest -------------------------------------------------------------------------------------------


def _decode_rest(target, raw_target, headers, body, out):
    shape = target.model.input_shape
    _, _, raw_query = raw_target.partition("?")
    query = {}
    for key, value in parse_qsl(raw_query, keep_blank_values=True):
        query.setdefault(key, []).append(value)
    literal = dict(parse_qsl(target.model.http["requestUri"].partition("?")[2], keep_blank_values=True))
    known_query, known_headers = set(literal) | {"x-id"}, set()
    body_members = {}
    for name, member in (shape.members if shape else {}).items():
        where = member.serialization
        location, key = where.get("location"), where.get("name", name)
        if location == "uri":
            if key in target.labels:
                out.params[name] = scalar(member, target.labels[key])
        elif location == "querystring":
            known_query.add(key)
            if key in query:
                out.params[name] = _query_value(member, key, query[key], out)
        elif location in ("header", "headers"):
            _take_header(name, member, key, location, headers, known_headers, out)
        else:
            body_members[name] = member
    for key in query.keys() - known_query:
        out.problems.append(f"unknown query parameter '{key}'")
    for key in headers:
        if key.startswith("x-amz-") and key not in known_headers and not COMMON_HEADERS.match(key):
            out.problems.append(f"unknown header '{key}'")
    _take_body(target, shape, body_members, body, headers, out)


def _query_value(member, key, values, out):
    if member.type_name == "list":
        return [scalar(member.member, value) for value in values]
    if len(values) > 1:
        out.problems.append(f"the query parameter '{key}' stands twice")
    return scalar(member, values[-1])


def _take_header(name, member, key, location, headers, known, out):
    key = key.lower()
    if location == "headers":
        found = {k[len(key) :]: v for k, v in headers.items() if k.startswith(key)}
        known.update(k for k in headers if k.startswith(key))
        if found:
            out.params[name] = found
        return
    known.add(key)
    if key not in headers:
        return
    if member.type_name == "list":
        out.params[name] = [scalar(member.member, part.strip()) for part in headers[key].split(",")]
    elif member.serialization.get("jsonvalue"):
        out.params[name] = headers[key]
    else:
        out.params[name] = scalar(member, headers[key])


def _take_body(target, shape, body_members, body, headers, out):
    payload = shape.serialization.get("payload") if shape else None
    if payload:
        member = shape.members[payload]
        if member.type_name == "structure":
            if body:
                out.params[payload] = _structure_body(target.protocol, member, body, out)
        elif body:
            out.params[payload] = body if member.type_name == "blob" else body.decode("utf-8", "replace")
        return
    if not body_members:
        if body:
            out.problems.append(f"{target.operation} takes no body, and {len(body)} bytes were sent")
        return
    if target.protocol == "rest-json":
        value = _load_json(body, out) if body else {}
        members = {m.serialization.get("name", n): (n, m) for n, m in body_members.items()}
        for key, item in value.items():
            name, member = members.get(key, (key, None))
            if item is not None:
                out.params[name] = _from_json(member, item) if member else item
        for key in value.keys() - members.keys():
            out.problems.append(f"unknown member '{key}' in the body")
            out.params.pop(key, None)
    elif body:
        found = _structure_body(target.protocol, shape, body, out)
        out.params.update(found)


def _structure_body(protocol, shape, body, out):
    if protocol == "rest-json":
        return _from_json(shape, _load_json(body, out))
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        out.problems.append(f"the body is no XML: {error}")
        return {}
    namespace, _, local = root.tag.rpartition("}")
    wanted = shape.serialization.get("name", shape.name)
    if local != wanted:
        out.problems.append(f"the document is a <{local}>, not a <{wanted}>")
    if namespace and namespace[1:] not in ("http://s3.amazonaws.com/doc/2006-03-01/", shape.serialization.get("xmlNamespace", {}).get("uri")):
        out.problems.append(f"the namespace of the document is {namespace[1:]}")
    return from_xml(shape, root, local, out)
