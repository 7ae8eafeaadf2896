# SPDX-License-Identifier: Apache-2.0
"""What a test may turn: waits, quotas, limits and faults. One object, reset before each test."""

import copy
import uuid

DEFAULTS = {
    "pending_s": 0.1,  # a created function stays Pending this long
    "pending_by_name": {},  # the same for one function
    "updating_s": 0.1,  # an updated function stays InProgress this long
    "held": False,  # meanwhile no function becomes ready, however long it was Pending or InProgress
    "fail_functions": {},  # name -> StateReason: the function ends Failed instead of Active
    "fail_updates": {},  # name -> LastUpdateStatusReason: the next update ends Failed
    "role_propagation_s": 0,  # Lambda refuses a role younger than this
    "account_concurrency": 1000,
    "unreserved_minimum": 100,
    "tag_lag_s": 0,  # GetResources does not show functions younger than this
    "short_pages": False,  # GetResources gives short pages, and an empty one
    "log_group_age_days": {},  # name prefix -> days: DescribeLogGroups shows those as made so long ago
    "object_age_days": {},  # key prefix -> days: lists of objects, and their Last-Modified, show those as written so long ago
    "abac_refusal": (405, "MethodNotAllowed"),  # of PutBucketTagging where the bucket has access control by tags
    "lifecycle_adds_size": False,  # lifecycle rules come back with ObjectSizeGreaterThan 0 in each And, as MiniStack writes them
    "image_answers": "",  # BatchGetImage: "other-tag" names an image by another of its tags, "silent" leaves out all but one name
    "layer_host": "",  # where URLs of layers lead instead of to the proxy: "127.0.0.1:9"
    "clock_skew_s": 0,  # the server's clock is ahead by this much
    "clients_skewed": False,  # the clients' own clocks may be wrong: what they sign with them is no violation
    "invocations_at_once": 1000,  # more of them are TooManyRequestsException, as are more environments of tenants than 2.5 times that
    "freezes": True,  # an environment stands still between invocations
    "fresh_environments": False,  # no environment serves a second invocation
    "environments_of_tenant": 1,  # idle ones that a tenant has before one serves again: then whichever has not for the longest time
    "mixes_tenants": False,  # an idle environment serves whatever tenant comes, as Lambda promises never to do
    "answers_late_s": 0,  # so long after its end an invocation is answered
    "authorities": "",  # a file of authorities that lies beside the runtime in environments that are made from now on
    "has_streams": True,  # else InvokeWithResponseStream is an operation that this place does not know
    "judge": True,
    "throttle": {
        "enabled": False, "get_function": 100, "get_policy": 15, "control": 15, "tagging": 15, "DescribeLogGroups": 10, "CreateLogGroup": 10,
        "DeleteLogGroup": 10, "PutRetentionPolicy": 5, "DeleteRetentionPolicy": 5, "logs": 5,
        "burst_s": 1.0,
        "sliding": False,  # so many in any one second, whatever was saved up before
        "retry_after": None,
    },
}
TEST_ACCESS_KEY = "AKIABERTHTESTKEY0001"
TEST_SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


class Settings:
    """Values by name, with unknown names refused: a misspelt setting would make a test prove nothing."""

    def __init__(self):
        self.reset()

    def reset(self):
        self._values = copy.deepcopy(DEFAULTS)

    def update(self, changes):
        for name, value in changes.items():
            if name not in self._values:
                raise KeyError(f"no setting '{name}'; there are {', '.join(sorted(self._values))}")
            if name == "throttle":
                unknown = set(value) - set(DEFAULTS["throttle"])
                if unknown:
                    raise KeyError(f"no throttle setting {sorted(unknown)}")
                self._values[name].update(value)
            else:
                self._values[name] = value

    def __getattr__(self, name):
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(name) from None


def new_revision():
    return str(uuid.uuid4())
