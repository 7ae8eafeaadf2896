# SPDX-License-Identifier: Apache-2.0
"""Requests to S3 that somebody else has signed: URLs, and forms with a POST policy.

They are judged by AWS's rules ("Authenticating Requests: Using Query Parameters", "POST Policy"): botocore computes the signatures
again, every field of a form must have its condition, every condition must hold. What passes is given to the stand-in as an ordinary
request (storage.post_object for forms), so that both stand-ins show one behaviour.
"""

import base64
import hmac
import json
import re
from datetime import datetime, timezone
from email.parser import BytesHeaderParser
from urllib.parse import parse_qsl

from botocore.auth import S3SigV4PostAuth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from .errors import AwsError

_SCOPE = re.compile(r"([^/]+)/(\d{8})/([^/]+)/s3/aws4_request")
_FREE = {"x-amz-signature", "policy", "file"}  # need no condition


def is_form(method, headers):
    return method == "POST" and headers.get("content-type", "").startswith("multipart/form-data") and "authorization" not in headers


def scope_of_query(query):
    """Key, date, region of a URL that was signed, or None."""
    found = _SCOPE.fullmatch(query.get("X-Amz-Credential", ""))
    return found.groups() if found and "X-Amz-Signature" in query else None


def stripped(raw_target):
    """The target without the parameters of its signature."""
    path, _, query = raw_target.partition("?")
    kept = [part for part in query.split("&") if part and not part.startswith("X-Amz-")]
    return path + ("?" + "&".join(kept) if kept else "")


def _denied(text, code="AccessDenied"):
    return AwsError(403, code, text)


def _credentials(known, scope, token):
    found = known.get(scope[0])
    if found is None:
        raise _denied("The AWS Access Key Id you provided does not exist in our records.", "InvalidAccessKeyId")
    if (token or None) != found[1]:
        raise _denied("The provided token is malformed or otherwise invalid.", "InvalidToken")
    return Credentials(scope[0], found[0], found[1])


def check_url(method, raw_target, headers, known, now):
    """Raise AwsError unless it may be used now."""
    unsigned, _, signature = raw_target.rpartition("&X-Amz-Signature=")
    query = dict(parse_qsl(raw_target.partition("?")[2], keep_blank_values=True))
    scope = scope_of_query(query)
    if query.get("X-Amz-Algorithm") != "AWS4-HMAC-SHA256" or not re.fullmatch("[0-9a-f]{64}", signature):
        raise AwsError(400, "AuthorizationQueryParametersError", "X-Amz-Signature must be the last of AWS4-HMAC-SHA256's parameters")
    if query.get("X-Amz-SignedHeaders") != "host":
        raise AwsError(400, "AuthorizationQueryParametersError", "only host is signed here")
    for name in headers:
        if name.startswith("x-amz-"):
            raise _denied(f"There were headers present in the request which were not signed: {name}")
    try:
        sent = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc).timestamp()
        seconds = int(query["X-Amz-Expires"])
    except (KeyError, ValueError):
        raise AwsError(400, "AuthorizationQueryParametersError", "X-Amz-Date or X-Amz-Expires is wrong") from None
    if not 0 < seconds <= 604800 or query["X-Amz-Date"][:8] != scope[1]:
        raise AwsError(400, "AuthorizationQueryParametersError", "X-Amz-Expires or the scope's date is wrong")
    if now > sent + seconds:
        raise _denied("Request has expired")
    auth = S3SigV4QueryAuth(_credentials(known, scope, query.get("X-Amz-Security-Token")), "s3", scope[2], expires=seconds)
    request = AWSRequest(method, f"http://{headers['host']}{unsigned}")
    request.context["timestamp"] = query["X-Amz-Date"]
    expected = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    if not hmac.compare_digest(expected, signature):
        raise _denied("The request signature we calculated does not match the signature you provided.", "SignatureDoesNotMatch")


class Form:
    """The fields of a form by their names in lower case, and the file, which comes last."""

    def __init__(self, headers, body):
        found = re.search(r'boundary="?([^";,]+)"?', headers["content-type"])
        mark = b"--" + found[1].encode() if found else b""
        self.fields, self.file = {}, None
        if not found or not body.startswith(mark) or not body.rstrip(b"\r\n").endswith(mark + b"--"):
            raise AwsError(400, "MalformedPOSTRequest", "The body of your POST request is not well-formed multipart/form-data.")
        for part in _parts(body, mark):
            head, _, value = part.partition(b"\r\n\r\n")
            name = BytesHeaderParser().parsebytes(head).get_param("name", header="content-disposition")
            if self.file is not None or name is None or name.lower() in self.fields:
                raise AwsError(400, "InvalidArgument", "each field comes once, and the file last")
            if name == "file":
                self.file = value
            else:
                self.fields[name.lower()] = value.decode()
        if self.file is None:
            raise AwsError(400, "InvalidArgument", "POST requires exactly one file upload per request.")


def _parts(body, mark):
    pieces = (b"\r\n" + body).split(b"\r\n" + mark)
    return [piece[2:] for piece in pieces[1:-1]]


def _check_condition(condition, values, size):
    if isinstance(condition, dict):
        ((name, wanted),) = condition.items()
        return values.get(name.lower()) == wanted
    kind, name, wanted = condition[0].lower(), condition[1], condition[2]
    if kind == "content-length-range":
        if size > int(wanted):
            raise AwsError(400, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed size")
        if size < int(name):
            raise AwsError(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size")
        return True
    value = values.get(name[1:].lower())
    if value is None or not name.startswith("$"):
        return False
    return value == wanted if kind == "eq" else kind == "starts-with" and value.startswith(wanted)


def check_form(form, bucket, url, known, now):
    fields = form.fields
    for name in ("policy", "x-amz-signature", "x-amz-credential", "x-amz-date", "x-amz-algorithm", "key"):
        if name not in fields:
            raise _denied(f"Bucket POST must contain a field named '{name}'.")
    found = _SCOPE.fullmatch(fields["x-amz-credential"])
    if not found or fields["x-amz-algorithm"] != "AWS4-HMAC-SHA256" or fields["x-amz-date"][:8] != found[2]:
        raise _denied("the credential, the algorithm or the date is wrong")
    auth = S3SigV4PostAuth(_credentials(known, found.groups(), fields.get("x-amz-security-token")), "s3", found[3])
    request = AWSRequest("POST", url)
    request.context["timestamp"] = fields["x-amz-date"]
    if not hmac.compare_digest(auth.signature(fields["policy"], request), fields["x-amz-signature"]):
        raise _denied("The request signature we calculated does not match the signature you provided.", "SignatureDoesNotMatch")
    policy = json.loads(base64.b64decode(fields["policy"], validate=True))
    ends = datetime.fromisoformat(policy["expiration"].replace("Z", "+00:00")).timestamp()
    if now > ends:
        raise _denied("Invalid according to Policy: Policy expired.")
    values, named = {**fields, "bucket": bucket}, set()
    for condition in policy["conditions"]:
        if isinstance(condition, dict):
            named |= {name.lower() for name in condition}
        elif condition[0].lower() != "content-length-range":
            named.add(condition[1][1:].lower())
        if not _check_condition(condition, values, len(form.file)):
            raise _denied(f"Invalid according to Policy: Policy Condition failed: {json.dumps(condition)}")
    extra = [name for name in fields if name not in named and name not in _FREE and not name.startswith("x-ignore-")]
    if extra:
        raise _denied(f"Invalid according to Policy: Extra input fields: {extra[0]}")
