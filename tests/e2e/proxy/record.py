# SPDX-License-Identifier: Apache-2.0
"""The record of all calls and of all violations, as tests read it. No credentials, no signatures."""

import re
import time

_SECRET_QUERY = re.compile(r"(?i)(x-amz-(?:signature|security-token|credential)=)[^&]*")


class Record:
    def __init__(self):
        self.reset()

    def reset(self):
        self.calls, self.violations = [], []

    def begin(self, call):
        entry = {
            "n": len(self.calls) + 1,
            "time": time.time(),
            "service": call.target.service,
            "region": call.target.region,
            "operation": call.target.operation,
            "mutating": call.mutating,
            "method": call.method,
            "url": _SECRET_QUERY.sub(r"\1-", call.raw_target),
            "connection": call.connection,
            "presigned": call.presigned,
            "params": _plain(call.params),
            "status": None,
            "ms": None,
            "error": None,
            "faults": [],
        }
        self.calls.append(entry)
        return entry

    def end(self, entry, started, status, error=None):
        entry["status"], entry["error"] = status, error
        entry["ms"] = round((time.monotonic() - started) * 1000, 2)

    def violation(self, call, text):
        self.violations.append(
            {"service": call.target.service, "operation": call.target.operation, "url": _SECRET_QUERY.sub(r"\1-", call.raw_target), "text": text}
        )


def _plain(value):
    """The parameters as JSON can hold them; bytes as text where they are text."""
    if isinstance(value, bytes):
        return value[:4096].decode("utf-8", "replace")
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
