# SPDX-License-Identifier: Apache-2.0
"""Requests of several parts, made by hand."""

import email.policy
import json


def mixed(answer):
    """The result and the files of a multipart/mixed, by Python's own parser of mail."""
    head = f"Content-Type: {answer.headers['content-type']}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + answer.body)
    first, *others = message.iter_parts()
    return json.loads(first.get_payload(decode=True)), {p.get_filename(): p.get_payload(decode=True) for p in others}
