# SPDX-License-Identifier: Apache-2.0
"""
The tokens of DynamoDB's transactions, which moto forgets: for ten minutes a transaction that was done is answered as it was, and not done again;
with other parameters it is refused, and one that is still under way is, too.
"""

import json
import time

from .errors import AwsError

KEPT_S = 600


class Transactions:
    def __init__(self):
        self.reset()

    def reset(self):
        self._known = {}  # (account, region, token) -> [when, what was asked, answer or None]

    def forget_old(self):
        for place in [place for place, (when, _, _) in self._known.items() if time.monotonic() - when > KEPT_S]:
            del self._known[place]

    async def write(self, proxy, call):
        place = (call.access_key, call.region, call.params["ClientRequestToken"])
        asked = {name: value for name, value in json.loads(call.body).items() if name != "ClientRequestToken"}
        self.forget_old()
        _, before, answer = self._known.get(place, (None, None, None))
        if before is not None and before != asked:
            raise AwsError(400, "IdempotentParameterMismatchException", "the token belongs to a transaction with other parameters")
        if answer is not None:
            return answer
        if before is not None:
            raise AwsError(400, "TransactionInProgressException", "the transaction with this token is still under way")
        self._known[place] = [time.monotonic(), asked, None]
        try:
            answer = await proxy.upstream.forward(call)
            if answer.status == 200:
                self._known[place][2] = answer
            return answer
        finally:
            if self._known.get(place, (0, 0, 0))[2] is None:
                self._known.pop(place, None)


async def transact_write(proxy, call):
    if proxy.flavor != "moto" or "ClientRequestToken" not in call.params:
        return await proxy.upstream.forward(call)
    return await proxy.transactions.write(proxy, call)


HANDLERS = {("dynamodb", "TransactWriteItems"): transact_write}
