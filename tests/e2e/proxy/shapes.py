# SPDX-License-Identifier: Apache-2.0
"""Check parameters against botocore's shapes: required and unknown members, types, ranges, patterns, enums.

botocore's own validator leaves out patterns, enums, maxima and (for most types) unknown members,
because AWS checks them; the stand-ins do not, so it is done here.
"""

import functools
import re

import regex

_SCALARS = {
    "string": str,
    "integer": int,
    "long": int,
    "boolean": bool,
    "float": (int, float),
    "double": (int, float),
    "character": str,
}


# Older than what AWS takes: S3 Control's tags of buckets, whose ARNs have neither region nor account.
_OUTDATED = {"S3ResourceArn": r"arn:[^:]+:s3(express)?:.+"}


@functools.lru_cache(maxsize=None)
def _pattern(text):
    """AWS matches the whole value; a pattern that does not compile here is not checked."""
    try:
        return regex.compile(text)
    except regex.error:
        return None


def check(shape, params):
    """The list of problems, each naming the member by its path."""
    problems = []
    if shape is not None:
        _check(shape, params, "", problems)
    elif params:
        problems.append(f"takes no parameters, and has {sorted(params)}")
    return problems


def _check(shape, value, path, problems):
    kind = shape.type_name
    if kind == "structure":
        _structure(shape, value, path, problems)
    elif kind == "list":
        if not isinstance(value, list):
            problems.append(f"{path} must be a list")
            return
        _range(shape, len(value), path, "length", problems)
        for index, item in enumerate(value):
            _check(shape.member, item, f"{path}[{index}]", problems)
    elif kind == "map":
        if not isinstance(value, dict):
            problems.append(f"{path} must be a map")
            return
        _range(shape, len(value), path, "size", problems)
        for key, item in value.items():
            _check(shape.key, key, f"{path}.{key}(key)", problems)
            _check(shape.value, item, f"{path}.{key}", problems)
    elif kind in ("blob", "timestamp"):
        return
    else:
        _scalar(shape, kind, value, path, problems)


def _structure(shape, value, path, problems):
    if not isinstance(value, dict):
        problems.append(f"{path or 'the input'} must be a structure")
        return
    for name in shape.required_members:
        if value.get(name) is None:
            problems.append(f"{_at(path, name)} is required")
    for name, item in value.items():
        member = shape.members.get(name)
        if member is None:
            problems.append(f"unknown member {_at(path, name)}")
        else:
            _check(member, item, _at(path, name), problems)
    if getattr(shape, "is_tagged_union", False) and len(value) != 1:
        problems.append(f"{path} must set exactly one of {sorted(shape.members)}")


def _at(path, name):
    return f"{path}.{name}" if path else name


def _scalar(shape, kind, value, path, problems):
    wanted = _SCALARS.get(kind)
    if wanted is None:
        return
    if not isinstance(value, wanted) or (kind != "boolean" and isinstance(value, bool)):
        problems.append(f"{path} must be of type {kind}, not {value!r:.80}")
        return
    if kind == "string":
        _range(shape, len(value), path, "length", problems)
        _string(shape, value, path, problems)
    elif kind != "boolean":
        _range(shape, value, path, "value", problems)


def _string(shape, value, path, problems):
    pattern = _OUTDATED.get(shape.name, shape.metadata.get("pattern"))
    if pattern:
        compiled = _pattern(pattern)
        if compiled is not None and not compiled.fullmatch(value):
            problems.append(f"{path} '{value:.120}' does not match {pattern}")
    if shape.enum and value not in shape.enum:
        problems.append(f"{path} '{value:.120}' is none of {', '.join(shape.enum[:12])}")
    if re.search("[\x00]", value):
        problems.append(f"{path} holds a NUL")


def _range(shape, number, path, what, problems):
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and number < low:
        problems.append(f"the {what} of {path} is {number}, less than {low}")
    if high is not None and number > high:
        problems.append(f"the {what} of {path} is {number}, more than {high}")
