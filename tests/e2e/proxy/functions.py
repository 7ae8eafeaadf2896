# SPDX-License-Identifier: Apache-2.0
"""Lambda functions as AWS shows them: states, revisions, resolved images, and refusals of its own.

The stand-in stores the function; what it gets wrong or lacks is kept here per function and laid over
every answer, in the same way for both of them, so that both show one behaviour:

  create   Pending for a while, then Active (or Failed)
  update   State stays Active, LastUpdateStatus InProgress for a while, then Successful (or Failed);
           refused with 409 while Pending or InProgress, with 412 where RevisionId is not the latest
  RevisionId turns over with the change, and once more when it has settled
"""

import hashlib
import json
import time
from datetime import datetime, timezone
from urllib.parse import quote

from . import images, roles
from .errors import AwsError
from .settings import new_revision
from .upstream import Answer

# Fields that moto drops, from CreateFunction or from UpdateFunctionConfiguration; kept here for both.
KEPT_FIELDS = ("KMSKeyArn", "VpcConfig", "EphemeralStorage", "LoggingConfig", "ImageConfig", "TenancyConfig", "TracingConfig")
CHANGED_BY_CLOCK = ("LastModified", "RevisionId", "State", "StateReason", "StateReasonCode", "LastUpdateStatus",
                    "LastUpdateStatusReason", "LastUpdateStatusReasonCode", "CodeSha256", "ConfigSha256")  # fmt: skip
STALE = (
    "The RevisionId provided does not match the latest RevisionId for the Lambda function or alias. "
    "Call the GetFunction or the GetAlias API to retrieve the latest RevisionId for your resource."
)


def plain_name(name):
    """The name alone, of a name, a partial or a full ARN, with or without a qualifier."""
    return name.split(":function:")[-1].split(":")[0] if ":" in name else name


class Function:
    """What is known of one function besides what the stand-in stores."""

    def __init__(self):
        self.revision = new_revision()
        self.modified = time.time()
        self.created = 0.0
        self.settling = None  # "create" or "update" until ready_at
        self.ready_at = 0.0
        self.failed = None  # StateReason of a function that will not become Active
        self.update_failed = None
        self.will_fail = None
        self.kept = {}
        self.architectures = None
        self.digest = None
        self.reserved = None

    def start(self, what, seconds, will_fail):
        self.settling, self.ready_at, self.will_fail = what, time.time() + seconds, will_fail
        self.revision, self.modified = new_revision(), time.time()
        self.update_failed = None

    def settle(self):
        if self.settling and time.time() >= self.ready_at:
            if self.settling == "create":
                self.failed = self.will_fail
            else:
                self.update_failed = self.will_fail
            self.settling, self.revision = None, new_revision()

    def states(self):
        if self.settling == "create":
            return {"State": "Pending", "StateReason": "The function is being created.", "StateReasonCode": "Creating"}
        if self.failed:
            return {"State": "Failed", "StateReason": self.failed, "StateReasonCode": "InvalidImage", "LastUpdateStatus": "Failed"}
        out = {"State": "Active", "LastUpdateStatus": "Successful"}
        if self.settling == "update":
            out["LastUpdateStatus"] = "InProgress"
            out["LastUpdateStatusReason"] = "The function is being created."
            out["LastUpdateStatusReasonCode"] = "Creating"
        elif self.update_failed:
            out.update(LastUpdateStatus="Failed", LastUpdateStatusReason=self.update_failed, LastUpdateStatusReasonCode="ImageDeleted")
        return out


class Functions:
    def __init__(self, settings):
        self.settings = settings
        self.reset()

    def reset(self):
        self._known = {}
        self.roles = roles.Roles()

    def of(self, call, name):
        """The function's entry; one that was made past the proxy gets its entry at the first look."""
        function = self._known.setdefault((call.region, plain_name(name)), Function())
        if not self.settings.held:
            function.settle()
        return function

    def forget(self, call, name):
        self._known.pop((call.region, plain_name(name)), None)

    def reserved_elsewhere(self, call, name):
        return sum(f.reserved or 0 for key, f in self._known.items() if key != (call.region, plain_name(name)))


def _show(function, config):
    """A FunctionConfiguration as AWS gives it."""
    name = config["FunctionName"]
    out = {k: v for k, v in config.items() if k not in CHANGED_BY_CLOCK and v is not None}
    if out.get("PackageType") == "Image":
        for field in ("Handler", "Runtime"):
            out.pop(field, None)
    out.update(function.kept)
    if "ImageConfig" in out:
        out["ImageConfigResponse"] = {"ImageConfig": {k: v for k, v in out.pop("ImageConfig").items() if v}}
    out.setdefault("EphemeralStorage", {"Size": 512})
    out.setdefault("LoggingConfig", {})
    out["LoggingConfig"] = {"LogFormat": "Text", "LogGroup": f"/aws/lambda/{name}", **out["LoggingConfig"]}
    out["Architectures"] = function.architectures or out.get("Architectures") or ["x86_64"]
    for field in ("ImageConfig", "Layers", "KMSKeyArn", "VpcConfig", "DeadLetterConfig", "FileSystemConfigs"):
        if not out.get(field):
            out.pop(field, None)
    if not any((out.get("ImageConfigResponse") or {}).get("ImageConfig", {}).values()):
        out.pop("ImageConfigResponse", None)
    if not (out.get("Environment") or {}).get("Variables"):
        out.pop("Environment", None)
    if function.digest:
        out["CodeSha256"] = function.digest.removeprefix("sha256:")
    stable = {k: v for k, v in out.items() if k != "CodeSha256"}
    out["ConfigSha256"] = hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()
    out["RevisionId"] = function.revision
    out["LastModified"] = datetime.fromtimestamp(function.modified, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000+0000")
    return {**out, **function.states()}


def listed(function, config):
    """The same in ListFunctions, where AWS leaves fields out."""
    shown = _show(function, config)
    hidden = ("State", "StateReason", "StateReasonCode", "LastUpdateStatus", "LastUpdateStatusReason",
              "LastUpdateStatusReasonCode", "RuntimeVersionConfig")  # fmt: skip
    return {k: v for k, v in shown.items() if k not in hidden}


def _keep(function, params):
    for field in KEPT_FIELDS:
        if field in params:
            function.kept[field] = params[field]


async def _check_network(proxy, call, params):
    """Lambda looks at the subnets and groups with the role's rights, and puts the VPC beside them."""
    config = params.get("VpcConfig") or {}
    subnets, groups = config.get("SubnetIds") or [], config.get("SecurityGroupIds") or []
    if bool(subnets) != bool(groups):
        raise AwsError(400, "InvalidParameterValueException", "SubnetIds and SecurityIds must coexist or be both empty list.")
    for operation, name, ids in (("DescribeSubnets", "SubnetId", subnets), ("DescribeSecurityGroups", "GroupId", groups)):
        if not ids:
            continue
        answer = await proxy.upstream.own(call, "ec2", operation, {f"{name}.{n}": text for n, text in enumerate(ids, 1)})
        if answer.status != 200 or answer.body.count(ids[0].encode()) == 0:
            raise AwsError(400, "InvalidParameterValueException", f"Error occurred while {operation}. EC2 Error Code: Invalid{name[:-2]}ID.NotFound.")


def _waits(proxy, name):
    return proxy.settings.pending_by_name.get(name, proxy.settings.pending_s)


async def create(proxy, call):
    params = call.params
    name = plain_name(params["FunctionName"])
    await proxy.functions.roles.check(proxy, call, params["Role"])
    await _check_network(proxy, call, params)
    digest = None
    if (params.get("Code") or {}).get("ImageUri"):
        digest = await images.resolve(proxy, call, params["Code"]["ImageUri"])
    answer = await proxy.upstream.forward(call)
    if answer.status != 201:
        return answer
    proxy.functions.forget(call, name)
    function = proxy.functions.of(call, name)
    function.digest, function.created = digest, time.time()
    function.architectures = params.get("Architectures")
    _keep(function, params)
    function.start("create", _waits(proxy, name), proxy.settings.fail_functions.get(name))
    return answer.with_json(_show(function, answer.json()))


def _check_free(call, function, name, revision):
    """Refuse an update in AWS's order: first the function's state, then the revision."""
    if function.settling == "create" or function.failed:
        state = "Failed" if function.failed else "Pending"
        raise AwsError(
            409,
            "ResourceConflictException",
            f"The operation cannot be performed at this time. The function is currently in the following state: {state}",
        )
    if function.settling == "update":
        raise AwsError(
            409,
            "ResourceConflictException",
            f"The operation cannot be performed at this time. An update is in progress for resource: arn:aws:lambda:{call.region}:function:{name}",
        )
    if revision is not None and revision != function.revision:
        raise AwsError(412, "PreconditionFailedException", STALE)


async def update(proxy, call):
    """UpdateFunctionConfiguration and UpdateFunctionCode."""
    params = dict(call.params)
    name = plain_name(params["FunctionName"])
    present = await proxy.upstream.own(call, "lambda", "GetFunction", method="GET", path=f"/2015-03-31/functions/{quote(name, safe='')}")
    if present.status != 200:
        return present
    function = proxy.functions.of(call, name)
    _check_free(call, function, name, params.get("RevisionId"))
    digest = None
    await _check_network(proxy, call, params)
    if "Role" in params:
        await proxy.functions.roles.check(proxy, call, params["Role"])
    if params.get("ImageUri"):
        digest = await images.resolve(proxy, call, params["ImageUri"])
    body = json.loads(call.body)
    body.pop("RevisionId", None)
    answer = await proxy.upstream.forward(call, body=json.dumps(body).encode())
    if answer.status != 200:
        return answer
    function.digest = digest or function.digest
    if call.target.operation == "UpdateFunctionCode":
        function.architectures = params.get("Architectures") or function.architectures
    else:
        _keep(function, params)
    # What a test changes by itself is done at once: what Berth does next must not run into it on a fast machine.
    function.start("update", 0 if call.observer else proxy.settings.updating_s, proxy.settings.fail_updates.get(name))
    return answer.with_json(_show(function, answer.json()))


async def get(proxy, call):
    answer = await proxy.upstream.forward(call)
    if answer.status != 200:
        return answer
    function = proxy.functions.of(call, call.params["FunctionName"])
    value = answer.json()
    code = value.get("Code") or {}
    uri = code.get("ImageUri")
    if uri:
        if function.digest is None:
            found = await images.find(proxy, call, uri)
            function.digest = found[0] if found else None
        if function.digest:
            code["ResolvedImageUri"] = images.resolved_uri(uri, function.digest)
        code["RepositoryType"] = "ECR"
    value["Configuration"] = _show(function, value["Configuration"])
    if not (value.get("Concurrency") or {}).get("ReservedConcurrentExecutions") and function.reserved is None:
        value.pop("Concurrency", None)
    if not value.get("Tags"):
        value.pop("Tags", None)
    return answer.with_json(value)


async def get_configuration(proxy, call):
    answer = await proxy.upstream.forward(call)
    if answer.status != 200:
        return answer
    return answer.with_json(_show(proxy.functions.of(call, call.params["FunctionName"]), answer.json()))


async def delete(proxy, call):
    answer = await proxy.upstream.forward(call)
    if answer.status in (200, 204):
        proxy.functions.forget(call, call.params["FunctionName"])
    return answer


async def put_concurrency(proxy, call):
    name = call.params["FunctionName"]
    wanted = call.params["ReservedConcurrentExecutions"]
    left = proxy.settings.account_concurrency - proxy.functions.reserved_elsewhere(call, name) - wanted
    minimum = proxy.settings.unreserved_minimum
    if left < minimum:
        raise AwsError(
            400,
            "InvalidParameterValueException",
            "Specified ReservedConcurrentExecutions for function decreases account's "
            f"UnreservedConcurrentExecution below its minimum value of [{minimum}].",
        )
    answer = await proxy.upstream.forward(call)
    if answer.status == 200:
        proxy.functions.of(call, name).reserved = wanted
    return answer


async def delete_concurrency(proxy, call):
    answer = await proxy.upstream.forward(call)
    if answer.status in (200, 204):
        proxy.functions.of(call, call.params["FunctionName"]).reserved = None
    return answer


async def account_settings(proxy, call):
    limit, reserved = proxy.settings.account_concurrency, proxy.functions.reserved_elsewhere(call, "")
    value = {
        "AccountLimit": {
            "TotalCodeSize": 80530636800, "CodeSizeUnzipped": 262144000, "CodeSizeZipped": 52428800, "ConcurrentExecutions": limit,
            "UnreservedConcurrentExecutions": limit - reserved,
        },
        "AccountUsage": {"TotalCodeSize": 0, "FunctionCount": 0},
    }  # fmt: skip
    return Answer(200, {"Content-Type": "application/json"}, json.dumps(value).encode())


HANDLERS = {
    ("lambda", "GetAccountSettings"): account_settings,
    ("lambda", "CreateFunction"): create,
    ("lambda", "UpdateFunctionConfiguration"): update,
    ("lambda", "UpdateFunctionCode"): update,
    ("lambda", "GetFunction"): get,
    ("lambda", "GetFunctionConfiguration"): get_configuration,
    ("lambda", "DeleteFunction"): delete,
    ("lambda", "PutFunctionConcurrency"): put_concurrency,
    ("lambda", "DeleteFunctionConcurrency"): delete_concurrency,
    ("iam", "CreateRole"): roles.created,
    ("iam", "DeleteRole"): roles.deleted,
}
