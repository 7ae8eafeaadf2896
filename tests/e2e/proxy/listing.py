# SPDX-License-Identifier: Apache-2.0
"""Lists page by page as AWS gives them: functions by 50, tagged resources by at most 100, both with tokens.

The whole list is fetched from the stand-in once, at the first page, and the later pages are cut from it.
"""

import base64
import datetime
import json
import re
import time
import uuid
from urllib.parse import quote, unquote
from xml.etree import ElementTree

from .errors import AwsError
from .functions import listed
from .storage import NAMESPACE
from .upstream import Answer

FUNCTIONS_A_PAGE = 50
RESOURCES_A_PAGE = 100
_JSON = {"Content-Type": "application/json"}
_RPC = {"Content-Type": "application/x-amz-json-1.1"}


class Pages:
    """Lists under way, by token."""

    def __init__(self):
        self.reset()

    def reset(self):
        self._lists = {}

    def open(self, items):
        name = uuid.uuid4().hex
        self._lists[name] = items
        return name

    def items(self, token):
        """(name, items, offset) of a token that a page gave."""
        try:
            name, _, offset = base64.b64decode(token, validate=True).decode().partition(":")
            return name, self._lists[name], int(offset)
        except (ValueError, KeyError, UnicodeDecodeError):
            return None

    @staticmethod
    def token(name, offset):
        return base64.b64encode(f"{name}:{offset}".encode()).decode()


async def _all_functions(proxy, call):
    out, marker = [], None
    while True:
        path = "/2015-03-31/functions/" + (f"?Marker={quote(marker, safe='')}" if marker else "")
        answer = await proxy.upstream.own(call, "lambda", "ListFunctions", method="GET", path=path)
        if answer.status != 200:
            raise AwsError(500, "ServiceException", answer.body.decode("utf-8", "replace"))
        value = answer.json()
        out += value["Functions"]
        marker = value.get("NextMarker")
        if not marker:
            return sorted(out, key=lambda config: config["FunctionName"])


async def list_functions(proxy, call):
    token = call.params.get("Marker")
    if token:
        found = proxy.pages.items(token)
        if found is None:
            raise AwsError(400, "InvalidParameterValueException", "Invalid Marker")
        name, items, offset = found
    else:
        items, offset = await _all_functions(proxy, call), 0
        name = proxy.pages.open(items)
    size = min(call.params.get("MaxItems", FUNCTIONS_A_PAGE), FUNCTIONS_A_PAGE)
    page = [listed(proxy.functions.of(call, config["FunctionName"]), config) for config in items[offset : offset + size]]
    value = {"Functions": page, "NextMarker": None}
    if offset + size < len(items):
        value["NextMarker"] = proxy.pages.token(name, offset + size)
    return Answer(200, dict(_JSON), json.dumps(value).encode())


async def _all_resources(proxy, call):
    params = {k: v for k, v in call.params.items() if k not in ("PaginationToken", "ResourcesPerPage", "TagsPerPage")}
    out, token = [], ""
    while True:
        # moto cuts pages by the number of tags too, 100 where nothing is asked for.
        answer = await proxy.upstream.own(
            call,
            "resourcegroupstaggingapi",
            "GetResources",
            {**params, "ResourcesPerPage": 100, "TagsPerPage": 500, **({"PaginationToken": token} if token else {})},
        )
        if answer.status != 200:
            raise AwsError(400, "InternalServiceException", answer.body.decode("utf-8", "replace"))
        value = answer.json()
        out += value["ResourceTagMappingList"]
        token = value.get("PaginationToken")
        if not token:
            return sorted((r for r in out if r.get("Tags")), key=lambda r: r["ResourceARN"])


def _lagging(proxy, call, resource):
    lag = proxy.settings.tag_lag_s
    arn = resource["ResourceARN"]
    return lag and ":function:" in arn and time.time() - proxy.functions.of(call, arn).created < lag


async def get_resources(proxy, call):
    token = call.params.get("PaginationToken")
    if token:
        found = proxy.pages.items(token)
        if found is None:
            raise AwsError(400, "PaginationTokenExpiredException", "the PaginationToken is not known")
        name, items, offset = found
    else:
        items, offset = [r for r in await _all_resources(proxy, call) if not _lagging(proxy, call, r)], 0
        name = proxy.pages.open(items)
    size = min(call.params.get("ResourcesPerPage", 50), RESOURCES_A_PAGE)
    if proxy.settings.short_pages:
        # A page may hold fewer than asked for, even none, and still not be the last one.
        size = 0 if token is None and items else max(1, size // 3)
    page = items[offset : offset + size]
    more = offset + size < len(items)
    value = {"ResourceTagMappingList": page, "PaginationToken": proxy.pages.token(name, offset + size) if more else ""}
    return Answer(200, dict(_RPC), json.dumps(value).encode())


def _age(element, ages):
    """Shift LastModified of one listed object by the days of the longest prefix that fits its key."""
    key, modified = (element.find(f"{{{NAMESPACE}}}{name}") for name in ("Key", "LastModified"))
    fitting = [prefix for prefix in ages if unquote(key.text).startswith(prefix)] if key is not None else []
    if not fitting or modified is None:
        return
    written = datetime.datetime.fromisoformat(modified.text.replace("Z", "+00:00"))
    written -= datetime.timedelta(days=ages[max(fitting, key=len)])
    modified.text = written.strftime("%Y-%m-%dT%H:%M:%S.000Z")


async def list_objects(proxy, call):
    """S3 gives 1,000 keys a page, whatever max-keys asks for; the stand-ins obey it. Nobody can set LastModified: `object_age_days` does."""
    target = re.sub(r"(?<=[?&]max-keys=)\d+", lambda m: str(min(int(m.group()), 1000)), call.raw_target)
    answer = await proxy.upstream.forward(call, raw_target=target)
    ages = proxy.settings.object_age_days
    if answer.status != 200 or not ages:
        return answer
    root = ElementTree.fromstring(answer.body)
    for element in root:
        _age(element, ages)
    return Answer(200, {"Content-Type": "application/xml"}, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


async def describe_log_groups(proxy, call):
    """Nobody can set when a log group was made: `log_group_age_days` does."""
    answer = await proxy.upstream.forward(call)
    ages = proxy.settings.log_group_age_days
    if answer.status != 200:
        return answer
    value = json.loads(answer.body)
    proxy.keys.lay_over(call, value["logGroups"])
    for group in value["logGroups"]:
        days = next((days for prefix, days in ages.items() if group["logGroupName"].startswith(prefix)), 0)
        group["creationTime"] -= days * 86_400_000
    return Answer(200, dict(_RPC), json.dumps(value).encode())


HANDLERS = {
    ("logs", "DescribeLogGroups"): describe_log_groups,
    ("s3", "ListObjects"): list_objects,
    ("s3", "ListObjectsV2"): list_objects,
    ("s3", "ListObjectVersions"): list_objects,
    ("lambda", "ListFunctions"): list_functions,
    ("resourcegroupstaggingapi", "GetResources"): get_resources,
}
