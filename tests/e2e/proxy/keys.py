# SPDX-License-Identifier: Apache-2.0
"""Keys of KMS on log groups, which neither stand-in can change: what AssociateKmsKey set is laid over DescribeLogGroups."""

import json

from .errors import AwsError
from .upstream import Answer


class Keys:
    def __init__(self):
        self.reset()

    def reset(self):
        self._of_groups = {}

    def lay_over(self, call, groups):
        for group in groups:
            key = self._of_groups.get((call.region, group["logGroupName"]))
            if key:
                group["kmsKeyId"] = key

    def set(self, call, group, key):
        self._of_groups[call.region, group] = key

    def forget(self, call, group):
        self._of_groups.pop((call.region, group), None)


async def associate(proxy, call):
    name, key = call.params["logGroupName"], call.params["kmsKeyId"]
    found = await proxy.upstream.own(call, "logs", "DescribeLogGroups", {"logGroupNamePrefix": name})
    if name not in {group["logGroupName"] for group in found.json().get("logGroups", [])}:
        raise AwsError(400, "ResourceNotFoundException", "The specified log group does not exist.")
    answer = await proxy.upstream.own(call, "kms", "DescribeKey", {"KeyId": key})
    if answer.status != 200 or answer.json()["KeyMetadata"]["KeyState"] != "Enabled":
        raise AwsError(400, "InvalidParameterException", f"The specified KMS Key Id could not be found or is disabled: {key}")
    proxy.keys.set(call, name, key)
    return Answer(200, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps({}).encode())


async def deleted(proxy, call):
    proxy.keys.forget(call, call.params["logGroupName"])
    return await proxy.upstream.forward(call)


HANDLERS = {
    ("logs", "AssociateKmsKey"): associate,
    ("logs", "DeleteLogGroup"): deleted,
}
