# SPDX-License-Identifier: Apache-2.0
"""Which AWS operation a raw HTTP request is, found as AWS finds it.

All services share one address here, so the service is read from the credential scope of the
signature. The operation then comes from botocore's service models: the X-Amz-Target header (JSON),
the Action parameter (query), or the http trait (REST).
"""

import functools
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

import botocore.session

from . import presigned

SERVICE_OF_SIGNING_NAME = {
    "lambda": "lambda",
    "ecr": "ecr",
    "s3": "s3",
    "sts": "sts",
    "iam": "iam",
    "logs": "logs",
    "kms": "kms",
    "ec2": "ec2",
    "tagging": "resourcegroupstaggingapi",
    "secretsmanager": "secretsmanager",
    "ssm": "ssm",
    "dynamodb": "dynamodb",
}
READ_PREFIXES = ("Get", "List", "Describe", "Head", "BatchGet", "BatchCheck", "AssumeRole", "Simulate", "Decode")
READ_OPERATIONS = {"FilterLogEvents"}

_session = botocore.session.get_session()


@functools.lru_cache(maxsize=None)
def service_model(service):
    return _session.get_service_model(service)


def is_mutating(operation):
    """Whether the operation changes anything (an unknown one does, to be on the safe side)."""
    if operation is None:
        return True
    return not (operation.startswith(READ_PREFIXES) or operation in READ_OPERATIONS)


@dataclass
class Target:
    """What a request asks for; `model` is botocore's OperationModel, None where nothing fits."""

    service: str | None = None
    region: str | None = None
    operation: str | None = None
    model: object = None
    labels: dict = field(default_factory=dict)
    problem: str | None = None

    @property
    def protocol(self):
        return service_model(self.service).protocol if self.service else "json"


class _Route:
    """One REST operation: its method, the pattern of its path, the query keys that select it."""

    def __init__(self, model):
        uri = model.http["requestUri"]
        path, _, query = uri.partition("?")
        self.model = model
        self.method = model.http["method"]
        self.literal_query = dict(parse_qsl(query, keep_blank_values=True))
        self.labels = []
        self.pattern = re.compile(self._pattern(path))
        members = model.input_shape.members if model.input_shape else {}
        required = model.input_shape.required_members if model.input_shape else []
        self.required_query = set()
        self.required_headers = set()
        for name in required:
            where = members[name].serialization
            if where.get("location") == "querystring":
                self.required_query.add(where["name"])
            elif where.get("location") == "header":
                self.required_headers.add(where["name"].lower())

    def _pattern(self, path):
        out = []
        for piece in re.split(r"(\{[^}]+\})", path):
            if piece.startswith("{"):
                self.labels.append(piece[1:-1].rstrip("+"))
                out.append("(.+)" if piece.endswith("+}") else "([^/]+)")
            else:
                out.append(re.escape(piece))
        return "^" + "".join(out) + "/?$"

    def score(self, query, headers):
        """How specifically the route fits, or None."""
        for key, value in self.literal_query.items():
            if key not in query or (value and query[key] != value):
                return None
        if not self.required_query <= query.keys() or not self.required_headers <= headers.keys():
            return None
        return (len(self.literal_query), len(self.required_query) + len(self.required_headers), -len(self.labels))


@functools.lru_cache(maxsize=None)
def _routes(service):
    model = service_model(service)
    routes = {}
    for name in model.operation_names:
        operation = model.operation_model(name)
        if not operation.deprecated:
            routes.setdefault(operation.http["method"], []).append(_Route(operation))
    return routes


def _match_rest(target, method, path, query, headers):
    best = None
    for route in _routes(target.service).get(method, ()):
        found = route.pattern.match(path)
        if not found:
            continue
        score = route.score(query, headers)
        if score is not None and (best is None or score > best[0]):
            best = (score, route, found)
    if best is None:
        target.problem = f"no operation of {target.service} answers {method} {path}"
        return
    _, route, found = best
    target.model = route.model
    target.labels = {name: unquote(text) for name, text in zip(route.labels, found.groups())}


def credential_scope(headers):
    """The parts of `Credential=` in the Authorization header: key, date, region, service, or None."""
    found = re.search(r"Credential=([^/,\s]+)/(\d{8})/([^/,\s]+)/([^/,\s]+)/aws4_request", headers.get("authorization", ""))
    return found.groups() if found else None


def identify(method, raw_target, headers, body):
    """Find the operation. `headers` has lower-case keys; `body` is bytes."""
    target = Target()
    path, _, raw_query = raw_target.partition("?")
    query = dict(parse_qsl(raw_query, keep_blank_values=True))
    if presigned.is_form(method, headers):
        return Target(service="s3", operation="PostObject")
    signed = presigned.scope_of_query(query)
    if signed:
        target.service, target.region = "s3", signed[2]
        _match_rest(target, method, path, {name: text for name, text in query.items() if not name.startswith("X-Amz-")}, headers)
        target.operation = target.model.name if target.model else None
        return target
    scope = credential_scope(headers)
    form = {}
    if headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        form = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    if scope:
        target.region = scope[2]
        target.service = SERVICE_OF_SIGNING_NAME.get(scope[3])
        if target.service == "s3" and path.startswith("/v20180820/"):
            target.service = "s3control"
        if target.service is None:
            target.problem = f"the signature is for a service '{scope[3]}' that is not known here"
            return target
    elif form.get("Action", "").startswith("AssumeRoleWith"):
        target.service = "sts"
    else:
        target.problem = "the request is not signed"
        return target
    model = service_model(target.service)
    if model.protocol == "json":
        prefix, _, name = headers.get("x-amz-target", "").partition(".")
        if prefix != model.metadata["targetPrefix"] or name not in model.operation_names:
            target.problem = f"X-Amz-Target '{headers.get('x-amz-target', '')}' is no operation of {target.service}"
        elif method != "POST" or path != "/":
            target.problem = f"{target.service} takes POST / only, not {method} {path}"
        else:
            target.model = model.operation_model(name)
    elif model.protocol in ("query", "ec2"):
        name = form.get("Action") or query.get("Action", "")
        if name not in model.operation_names:
            target.problem = f"Action '{name}' is no operation of {target.service}"
        else:
            target.model = model.operation_model(name)
    else:
        _match_rest(target, method, path, query, headers)
    target.operation = target.model.name if target.model else None
    return target
