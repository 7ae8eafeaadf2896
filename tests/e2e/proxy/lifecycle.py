# SPDX-License-Identifier: Apache-2.0
"""What S3 refuses in a bucket's lifecycle configuration (both stand-ins take all of it)."""

_INFREQUENT = {"STANDARD_IA", "ONEZONE_IA"}
# Amazon S3 User Guide, "Transitioning objects using Amazon S3 Lifecycle": from each class to these.
_MOVES = {
    "STANDARD_IA": {"INTELLIGENT_TIERING", "ONEZONE_IA", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE"},
    "INTELLIGENT_TIERING": {"ONEZONE_IA", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE"},
    "ONEZONE_IA": {"GLACIER", "DEEP_ARCHIVE"},
    "GLACIER_IR": {"GLACIER", "DEEP_ARCHIVE"},
    "GLACIER": {"DEEP_ARCHIVE"},
}
MAX_RULES = 1000


def problems(rules):
    """Sentences for a list of rules in boto3's form."""
    out = []
    if len(rules) > MAX_RULES:
        out.append(f"{len(rules)} lifecycle rules, at most {MAX_RULES} are allowed")
    if any("Prefix" in rule for rule in rules) and any("Filter" in rule for rule in rules):
        out.append("Filter element can only be used in Lifecycle V2.")
    ids = [rule["ID"] for rule in rules if rule.get("ID")]
    for name in {i for i in ids if ids.count(i) > 1}:
        out.append(f"Rule ID must be unique. Found same ID for more than one rule: {name}")
    for index, rule in enumerate(rules):
        at = f"lifecycle rule {rule.get('ID', index)}"
        out += [f"{at}: {text}" for text in _rule(rule)]
    return out


def _rule(rule):
    if len(rule.get("ID") or "") > 255:
        yield "the ID is longer than 255 characters"
    if "Filter" in rule and "Prefix" in rule:
        yield "Filter and Prefix cannot stand together"
    if "Filter" not in rule and "Prefix" not in rule:
        yield "a Filter is required"
    yield from _filter(rule.get("Filter") or {})
    actions = ("Expiration", "Transitions", "NoncurrentVersionExpiration", "NoncurrentVersionTransitions", "AbortIncompleteMultipartUpload")
    if not any(name in rule for name in actions):
        yield "at least one action needs to be specified"
    if "AbortIncompleteMultipartUpload" in rule:
        if _tags(rule):
            yield "AbortIncompleteMultipartUpload cannot be specified with Tags"
        if rule["AbortIncompleteMultipartUpload"].get("DaysAfterInitiation", 0) < 1:
            yield "DaysAfterInitiation must be a positive integer"
    yield from _days(rule)


def _tags(rule):
    found = rule.get("Filter") or {}
    return ([found["Tag"]] if "Tag" in found else []) + ((found.get("And") or {}).get("Tags") or [])


def _filter(found):
    if len(found) > 1:
        yield f"Filter must have exactly one of Prefix, Tag, size or And, not {sorted(found)}"
    both = found.get("And")
    if both is not None and len(both.get("Tags") or []) + len(set(both) - {"Tags"}) < 2:
        yield "And needs at least two conditions"
    keys = [tag.get("Key") for tag in (both or {}).get("Tags") or []]
    if len(keys) != len(set(keys)):
        yield "Duplicate Tag Keys are not allowed"


def _days(rule):
    last = before = None
    for transition in rule.get("Transitions") or []:
        days, storage = transition.get("Days"), transition.get("StorageClass")
        if before and storage not in _MOVES.get(before, ()):
            yield f"nothing moves from {before} to {storage}"
        before = storage
        if ("Days" in transition) == ("Date" in transition):
            yield "a transition takes either Days or Date"
        if days is None:
            continue
        if storage in _INFREQUENT and days < 30:
            yield f"'Days' in Transition action must be greater than or equal to 30 for storageClass '{storage}'"
        if last is not None and days <= last:
            yield "transitions must come at growing ages"
        last = max(days, last or 0)
    expiration = rule.get("Expiration") or {}
    if "Expiration" in rule and len(expiration) != 1:
        yield f"Expiration takes exactly one of Days, Date, ExpiredObjectDeleteMarker, not {sorted(expiration)}"
    days = expiration.get("Days")
    if days is not None and days < 1:
        yield "'Days' for Expiration action must be a positive integer"
    if days is not None and last is not None and days <= last:
        yield "'Days' in the Expiration action must be greater than 'Days' in the Transition action"
    if "ExpiredObjectDeleteMarker" in expiration and _tags(rule):
        yield "ExpiredObjectDeleteMarker cannot be specified with Tags"
    noncurrent = rule.get("NoncurrentVersionExpiration")
    if noncurrent is not None and noncurrent.get("NoncurrentDays", 0) < 1:
        yield "NoncurrentDays must be a positive integer"
