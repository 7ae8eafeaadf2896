# SPDX-License-Identifier: Apache-2.0
"""What AWS demands beyond its service models, and the stand-ins do not: limits, checksums, documents.

Each function takes the call and yields sentences; a table says which operation asks for which. They
are violations: a client that knows AWS never sends such a request.
"""

import base64
import hashlib
import json
import re
import zlib

from . import lifecycle

RESERVED_VARIABLES = {
    "_HANDLER", "_X_AMZN_TRACE_ID", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_EXECUTION_ENV",
    "AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "AWS_LAMBDA_FUNCTION_VERSION",
    "AWS_LAMBDA_INITIALIZATION_TYPE", "AWS_LAMBDA_LOG_GROUP_NAME", "AWS_LAMBDA_LOG_STREAM_NAME",
    "AWS_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    "AWS_LAMBDA_RUNTIME_API", "LAMBDA_TASK_ROOT", "LAMBDA_RUNTIME_DIR",
}  # fmt: skip
RETENTION_DAYS = {1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}
MAX_TAGS = 50


def check(call):
    """Problems of one call (server.Call): those of its operation, and those that any call can have."""
    problems = list(_checksums(call))
    for demand in _DEMANDS.get((call.target.service, call.target.operation), ()):
        problems += demand(call.params, call)
    return problems


def _checksums(call):
    wanted = (call.target.model.http_checksum or {}).get("requestChecksumRequired")
    headers = call.headers
    sums = [name for name in headers if name.startswith("x-amz-checksum-") and name != "x-amz-checksum-algorithm"]
    if wanted and "content-md5" not in headers and not sums and "x-amz-trailer" not in headers:
        yield f"{call.target.operation} needs Content-MD5 or an x-amz-checksum-* header"
    if "content-md5" in headers:
        actual = base64.b64encode(hashlib.md5(call.body).digest()).decode()
        if headers["content-md5"] != actual:
            yield f"Content-MD5 is {headers['content-md5']}, the body has {actual}"
    computed = {
        "x-amz-checksum-sha256": lambda: hashlib.sha256(call.body).digest(),
        "x-amz-checksum-sha1": lambda: hashlib.sha1(call.body).digest(),
        "x-amz-checksum-crc32": lambda: zlib.crc32(call.body).to_bytes(4, "big"),
    }
    for name in sums:
        if name in computed and headers[name] != base64.b64encode(computed[name]()).decode():
            yield f"{name} does not fit the body"


# --- tags -------------------------------------------------------------------------------------------


def _pairs(tags):
    if isinstance(tags, dict):
        return list(tags.items())
    return [(tag.get("Key", tag.get("key", "")), tag.get("Value", tag.get("value", ""))) for tag in tags or []]


def _tag_rules(pairs, limit=MAX_TAGS):
    if len(pairs) > limit:
        yield f"{len(pairs)} tags, at most {limit} are allowed"
    keys = [key for key, _ in pairs]
    for key in {k for k in keys if keys.count(k) > 1}:
        yield f"the tag key '{key}' stands twice"
    for key, value in pairs:
        if key.lower().startswith("aws:"):
            yield f"the tag key '{key}' begins with the reserved 'aws:'"
        if not 1 <= len(key) <= 128 or len(value) > 256:
            yield f"the tag '{key}' is longer than 128 characters, or its value than 256"
        if re.search(r"[^\w\s_.:/=+\-@]", key + value):
            yield f"the tag '{key}' = '{value}' has characters that AWS does not take"


def _tags_at(*path, limit=MAX_TAGS):
    def demand(params, _call):
        value = params
        for name in path:
            value = (value or {}).get(name)
        return list(_tag_rules(_pairs(value), limit))

    return demand


# --- lambda -----------------------------------------------------------------------------------------


def _variables(params, _call):
    variables = (params.get("Environment") or {}).get("Variables") or {}
    size = sum(len(k.encode()) + len(v.encode()) for k, v in variables.items())
    if len(json.dumps(variables)) > 4096 or size > 4096:
        yield "the environment variables are larger than 4 KB"
    for name in variables:
        if name in RESERVED_VARIABLES:
            yield f"the variable name '{name}' is reserved by Lambda"


def _function(params, call):
    memory = params.get("MemorySize")
    if memory is not None and not 128 <= memory <= 10240:
        yield f"MemorySize {memory} is not within 128 and 10240"
    timeout = params.get("Timeout")
    if timeout is not None and not 1 <= timeout <= 900:
        yield f"Timeout {timeout} is not within 1 and 900"
    if call.target.operation != "CreateFunction":
        return
    name = params.get("FunctionName", "")
    if ":" not in name and len(name) > 64:
        yield f"FunctionName '{name}' has {len(name)} characters, at most 64 are allowed"
    code = params.get("Code") or {}
    if params.get("PackageType") == "Image":
        if not code.get("ImageUri"):
            yield "PackageType Image needs Code.ImageUri"
        for field in ("Handler", "Runtime", "Layers"):
            if params.get(field):
                yield f"{field} cannot stand beside PackageType Image"
    elif code.get("ImageUri"):
        yield "Code.ImageUri needs PackageType Image"
    if len(params.get("Architectures") or ["x"]) != 1:
        yield "Architectures takes exactly one"


# --- documents --------------------------------------------------------------------------------------


def _policy_at(*names, principal):
    def demand(params, _call):
        for name in names:
            if name in params:
                yield from _policy(name, params[name], principal)

    return demand


def _names_resources(name, principal):
    """Trust policies and repository policies stand on their resource, and name none."""
    return name == "Policy" or not principal


def _policy(name, text, principal):
    try:
        document = json.loads(text)
    except ValueError as error:
        yield f"{name} is no JSON: {error}"
        return
    if document.get("Version") not in ("2012-10-17", "2008-10-17"):
        yield f"{name} has Version {document.get('Version')!r}"
    statements = document.get("Statement")
    statements = statements if isinstance(statements, list) else [statements]
    for index, statement in enumerate(statements):
        at = f"{name} Statement {index}"
        if not isinstance(statement, dict) or statement.get("Effect") not in ("Allow", "Deny"):
            yield f"{at} has no Effect"
            continue
        if not (statement.get("Action") or statement.get("NotAction")):
            yield f"{at} has no Action"
        has_principal = "Principal" in statement or "NotPrincipal" in statement
        if principal != has_principal:
            yield f"{at} {'lacks a Principal' if principal else 'must not have a Principal'}"
        if _names_resources(name, principal) and not (statement.get("Resource") or statement.get("NotResource")):
            yield f"{at} has no Resource"


def _ecr_lifecycle(params, _call):
    try:
        rules = json.loads(params["lifecyclePolicyText"])["rules"]
    except (ValueError, KeyError, TypeError) as error:
        yield f"lifecyclePolicyText has no rules: {error}"
        return
    priorities = [rule.get("rulePriority") for rule in rules]
    if len(set(priorities)) != len(priorities):
        yield "two rules have the same rulePriority"
    for rule in rules:
        yield from _ecr_rule(rule, max(priorities))


def _ecr_rule(rule, lowest):
    selection, at = rule.get("selection") or {}, f"rule {rule.get('rulePriority')}"
    status, kind = selection.get("tagStatus"), selection.get("countType")
    unknown = set(rule) - {"rulePriority", "description", "selection", "action"}
    unknown |= set(selection) - {"tagStatus", "tagPrefixList", "tagPatternList", "countType", "countUnit", "countNumber"}
    if unknown:
        yield f"{at} has unknown fields {sorted(unknown)}"
    if status not in ("tagged", "untagged", "any"):
        yield f"{at} has tagStatus {status!r}"
    if (status == "tagged") != bool(selection.get("tagPrefixList") or selection.get("tagPatternList")):
        yield f"{at}: tagPrefixList or tagPatternList stands with tagStatus tagged, and only there"
    if status == "any" and rule.get("rulePriority") != lowest:
        yield f"{at}: a rule with tagStatus any must have the lowest priority"
    if kind not in ("imageCountMoreThan", "sinceImagePushed"):
        yield f"{at} has countType {kind!r}"
    if (kind == "sinceImagePushed") != (selection.get("countUnit") == "days"):
        yield f"{at}: countUnit days stands with sinceImagePushed, and only there"
    if not isinstance(selection.get("countNumber"), int) or selection["countNumber"] < 1:
        yield f"{at} has no countNumber above 0"
    if rule.get("action") != {"type": "expire"}:
        yield f"{at} has an action other than expire"


# --- S3 and logs ------------------------------------------------------------------------------------


def _create_bucket(params, call):
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", params.get("Bucket", "")):
        yield f"the bucket name '{params.get('Bucket')}' is not valid"
    constraint = (params.get("CreateBucketConfiguration") or {}).get("LocationConstraint")
    if call.target.region == "us-east-1" and constraint is not None:
        yield f"InvalidLocationConstraint: in us-east-1 no LocationConstraint may be sent, not '{constraint}'"
    if call.target.region != "us-east-1" and constraint != call.target.region:
        yield f"IllegalLocationConstraintException: LocationConstraint is {constraint!r} for region {call.target.region}"


def _lifecycle(params, _call):
    return lifecycle.problems((params.get("LifecycleConfiguration") or {}).get("Rules") or [])


def _object_tags(params, _call):
    from urllib.parse import parse_qsl

    if "Tagging" in params:
        return list(_tag_rules(parse_qsl(params["Tagging"], keep_blank_values=True), 10))
    return []


def _retention(params, _call):
    if params.get("retentionInDays") not in RETENTION_DAYS:
        yield f"retentionInDays {params.get('retentionInDays')} is none that CloudWatch Logs takes"


def _log_arn(params, _call):
    if params.get("resourceArn", "").endswith(":*"):
        yield "resourceArn of a log group must not end with ':*'"


_DEMANDS = {
    ("lambda", "CreateFunction"): (_function, _variables, _tags_at("Tags")),
    ("lambda", "UpdateFunctionConfiguration"): (_function, _variables),
    ("lambda", "TagResource"): (_tags_at("Tags"),),
    ("ecr", "CreateRepository"): (_tags_at("tags"),),
    ("ecr", "TagResource"): (_tags_at("tags"),),
    ("ecr", "PutLifecyclePolicy"): (_ecr_lifecycle,),
    ("ecr", "SetRepositoryPolicy"): (_policy_at("policyText", principal=True),),
    ("iam", "CreateRole"): (_policy_at("AssumeRolePolicyDocument", principal=True), _tags_at("Tags")),
    ("iam", "TagRole"): (_tags_at("Tags"),),
    ("iam", "PutRolePolicy"): (_policy_at("PolicyDocument", principal=False),),
    ("iam", "UpdateAssumeRolePolicy"): (_policy_at("PolicyDocument", principal=True),),
    ("logs", "PutRetentionPolicy"): (_retention,),
    ("logs", "TagResource"): (_log_arn, _tags_at("tags")),
    ("logs", "UntagResource"): (_log_arn,),
    ("logs", "ListTagsForResource"): (_log_arn,),
    ("logs", "CreateLogGroup"): (_tags_at("tags"),),
    ("s3", "CreateBucket"): (_create_bucket,),
    ("s3", "PutBucketTagging"): (_tags_at("Tagging", "TagSet"),),
    ("s3control", "TagResource"): (_tags_at("Tags"),),
    ("s3", "PutBucketPolicy"): (_policy_at("Policy", principal=True),),
    ("s3", "PutBucketLifecycleConfiguration"): (_lifecycle,),
    ("s3", "PutObject"): (_object_tags,),
    ("s3", "PutObjectTagging"): (_tags_at("Tagging", "TagSet", limit=10),),
}
