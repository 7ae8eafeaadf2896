# SPDX-License-Identifier: Apache-2.0
"""Messages of application/vnd.amazon.eventstream, as AWS's documentation has them; botocore reads them and cannot write them."""

import json
import struct
import zlib


def message(headers, payload=b""):
    packed = b"".join(bytes([len(k)]) + k.encode() + b"\x07" + struct.pack(">H", len(v)) + v.encode() for k, v in headers.items())
    start = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    whole = start + struct.pack(">I", zlib.crc32(start)) + packed + payload
    return whole + struct.pack(">I", zlib.crc32(whole))


def event(kind, payload):
    return message({":message-type": "event", ":event-type": kind, ":content-type": "application/json"}, payload)


def chunk(payload):
    """A PayloadChunk of InvokeWithResponseStream."""
    return event("PayloadChunk", payload)


def complete(**error):
    """InvokeComplete, the last one: ErrorCode and ErrorDetails where the function failed."""
    return event("InvokeComplete", json.dumps(error).encode())
