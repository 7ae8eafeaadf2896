# SPDX-License-Identifier: Apache-2.0
"""The events of containers, as a client hears them."""

import http.client
import json

from controllers import PATIENCE


class Events:
    """A stream of /v1/events that stays open."""

    def __init__(self, serve, token, owner=None):  # noqa: F811
        self.connection = http.client.HTTPConnection("127.0.0.1", serve.port, timeout=60 * PATIENCE)
        headers = {"Authorization": f"Bearer {token}", **({"Berth-Owner": owner} if owner else {})}
        self.connection.request("GET", "/v1/events", headers=headers)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200
        assert self.answer.readline() == b":\n"

    def until(self, wanted):
        """What comes, up to the first that is wanted."""
        found, fields = [], {}
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            if line and not line.startswith(":"):
                name, _, fields[name] = line.partition(": ")
            elif not line and fields:
                data = json.loads(fields["data"])
                assert data.pop("event") == fields["event"]
                found.append((fields["event"], data))
                fields = {}
                if wanted(*found[-1]):
                    self.connection.close()
                    return found
