# SPDX-License-Identifier: Apache-2.0
"""XML documents of S3 as the structures of their shapes; an element that the shape does not know is a problem."""

import base64
import re

XSI_TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"


def scalar(shape, text):
    """Text of a header, a query or an XML element, as its shape's type; the text itself where it is none."""
    kind = shape.type_name
    try:
        if kind in ("integer", "long") and re.fullmatch(r"-?\d+", text):
            return int(text)
        if kind in ("float", "double"):
            return float(text)
        if kind == "boolean":
            return {"true": True, "false": False}.get(text, text)
        if kind == "blob":
            return base64.b64decode(text, validate=True)
    except ValueError:
        return text
    return text


def _local(element):
    return element.tag.rpartition("}")[2]


def from_xml(shape, element, path, out):
    kind = shape.type_name
    if kind == "structure":
        return _xml_structure(shape, element, path, out)
    if kind == "list":  # not flattened: the element holds the items
        wanted = shape.member.serialization.get("name", "member")
        for child in element:
            if _local(child) != wanted:
                out.problems.append(f"unknown element {path}/{_local(child)}")
        return [from_xml(shape.member, child, f"{path}/{wanted}", out) for child in element]
    if len(element):
        out.problems.append(f"{path} holds elements and should hold text")
    text = element.text or ""
    if kind in ("integer", "long", "boolean", "timestamp"):
        text = text.strip()
    return scalar(shape, text)


def _xml_structure(shape, element, path, out):
    members = {}
    for name, member in shape.members.items():
        key = member.serialization.get("name")
        if member.type_name == "list" and member.serialization.get("flattened"):
            key = member.member.serialization.get("name") or key
        members[(key or name)] = (name, member)
    found = {}
    for child in element:
        key = _local(child)
        if key not in members:
            out.problems.append(f"unknown element {path}/{key}")
            continue
        name, member = members[key]
        if member.type_name == "list" and member.serialization.get("flattened"):
            found.setdefault(name, []).append(from_xml(member.member, child, f"{path}/{key}", out))
        elif name in found:
            out.problems.append(f"the element {path}/{key} stands twice")
        else:
            found[name] = from_xml(member, child, f"{path}/{key}", out)
    for name, member in shape.members.items():
        if member.serialization.get("xmlAttribute") and XSI_TYPE in element.attrib:
            found[name] = element.attrib[XSI_TYPE]
    return found
