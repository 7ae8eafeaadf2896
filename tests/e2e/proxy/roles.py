# SPDX-License-Identifier: Apache-2.0
"""Whether Lambda can assume a role: it exists, it trusts Lambda, and IAM has had time to spread it."""

import time
from urllib.parse import unquote

from .errors import AwsError


class Roles:
    def __init__(self):
        self._created = {}
        self._trusted = set()

    def created(self, name):
        self._created[name] = time.time()

    def deleted(self, name):
        self._created.pop(name, None)
        self._trusted.discard(name)

    async def check(self, proxy, call, arn):
        name = arn.rpartition("/")[2]
        wait = proxy.settings.role_propagation_s
        young = wait and time.time() - self._created.get(name, 0) < wait
        if young or not await self._trusts_lambda(proxy, call, name):
            raise AwsError(400, "InvalidParameterValueException", "The role defined for the function cannot be assumed by Lambda.")

    async def _trusts_lambda(self, proxy, call, name):
        if name not in self._trusted:
            answer = await proxy.upstream.own(call, "iam", "GetRole", {"RoleName": name})
            if answer.status == 200 and "lambda.amazonaws.com" in unquote(answer.body.decode()):
                self._trusted.add(name)
        return name in self._trusted


async def created(proxy, call):
    answer = await proxy.upstream.forward(call)
    if answer.status == 200:
        proxy.functions.roles.created(call.params["RoleName"])
    return answer


async def deleted(proxy, call):
    answer = await proxy.upstream.forward(call)
    if answer.status == 200:
        proxy.functions.roles.deleted(call.params["RoleName"])
    return answer
