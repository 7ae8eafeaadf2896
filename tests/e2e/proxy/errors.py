# SPDX-License-Identifier: Apache-2.0
"""Answers in the form each protocol gives its errors, and the exception that carries one."""

import json
import uuid
from xml.sax.saxutils import escape


class AwsError(Exception):
    """A refusal that AWS itself would give. `violation`: the client should never have asked."""

    def __init__(self, status, code, message, violation=False, headers=None):
        super().__init__(f"{code}: {message}")
        self.status, self.code, self.message = status, code, message
        self.violation = violation
        self.headers = headers or {}
        self.reason = "CallerRateLimitExceeded"  # of a TooManyRequestsException


def render(target, error, method="GET"):
    """(status, headers, body) of an AwsError for the protocol of the request."""
    request_id = str(uuid.uuid4())
    headers = {"x-amzn-requestid": request_id, "x-amz-request-id": request_id, **error.headers}
    protocol = target.protocol if target else "json"
    if protocol in ("json", "rest-json"):
        headers["Content-Type"] = "application/x-amz-json-1.1" if protocol == "json" else "application/json"
        headers["x-amzn-errortype"] = error.code
        body = {"__type": error.code, "message": error.message}
        if protocol == "rest-json":
            body = {"Type": "User", "message": error.message, "Message": error.message}
            if error.code == "TooManyRequestsException":
                body["Reason"] = error.reason
        return error.status, headers, json.dumps(body).encode()
    if protocol == "ec2":
        headers["Content-Type"] = "text/xml"
        inner = f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
        text = f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>{request_id}</RequestID></Response>"
        return error.status, headers, text.encode()
    headers["Content-Type"] = "application/xml" if protocol == "rest-xml" else "text/xml"
    inner = f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
    if protocol == "query":
        text = f"<ErrorResponse><Error><Type>Sender</Type>{inner}</Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    else:
        text = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{inner}<RequestId>{request_id}</RequestId></Error>'
    return error.status, headers, b"" if method == "HEAD" else text.encode()
