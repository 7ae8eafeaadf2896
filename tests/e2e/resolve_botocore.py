# SPDX-License-Identifier: Apache-2.0
"""What botocore's chain comes to in this very environment, as JSON. Argument: a profile named in code, or none."""

import json
import sys

import botocore.session


def resolve(profile):
    session = botocore.session.Session(profile=profile)
    found = session.get_credentials()
    if found is None:
        return {"error": "none"}
    frozen = found.get_frozen_credentials()
    return {"access_key": frozen.access_key, "secret_key": frozen.secret_key, "token": frozen.token}


try:
    answer = resolve(sys.argv[1] if len(sys.argv) > 1 else None)
except Exception as error:  # noqa: BLE001 whatever it is, it found none
    answer = {"error": f"{type(error).__name__}: {error}"}
print(json.dumps(answer))
