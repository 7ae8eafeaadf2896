# SPDX-License-Identifier: Apache-2.0
"""What MiniStack takes and does not show again: where a rule to a prefix list leads, and the policies of endpoints."""

import re
from xml.sax.saxutils import escape

from .upstream import Answer


class Network:
    def __init__(self):
        self.reset()

    def reset(self):
        self._lists, self.policies = {}, {}

    def allow(self, call):
        for permission in call.params.get("IpPermissions", []):
            for found in permission.get("PrefixListIds", []):
                self._lists[call.region, call.params["GroupId"]] = found["PrefixListId"]

    def of(self, call, group):
        return self._lists.get((call.region, group))


async def allowed(proxy, call):
    answer = await proxy.upstream.forward(call)
    if answer.status == 200:
        proxy.network.allow(call)
    return answer


async def rules(proxy, call):
    answer = await proxy.upstream.forward(call)
    if answer.status != 200:
        return answer

    def complete(found):
        item = found.group()
        group = re.search(r"<groupId>([^<]+)</groupId>", item)
        known = proxy.network.of(call, group.group(1)) if group else None
        if not known or re.search(r"<(cidrIpv4|cidrIpv6|prefixListId|referencedGroupInfo)>", item) or "<isEgress>true" not in item:
            return item
        return item.replace("</groupId>", f"</groupId><prefixListId>{known}</prefixListId>", 1)

    text = re.sub(r"<item><securityGroupRuleId>.*?</item>|<item>(?:(?!<item>).)*?<securityGroupRuleId>.*?</item>", complete, answer.body.decode(), flags=re.S)
    return Answer(200, {"Content-Type": "text/xml"}, text.encode())


async def keep_policy(proxy, call):
    answer = await proxy.upstream.forward(call)
    policy = call.params.get("PolicyDocument")
    if answer.status == 200 and policy:
        made = re.search(rb"<vpcEndpointId>([^<]+)</vpcEndpointId>", answer.body)
        proxy.network.policies[call.params.get("VpcEndpointId") or made.group(1).decode()] = policy
    return answer


async def endpoints(proxy, call):
    answer = await proxy.upstream.forward(call)
    if answer.status != 200 or b"<policyDocument>" in answer.body:
        return answer

    def complete(found):
        policy = proxy.network.policies.get(found.group(1))
        return found.group() + (f"<policyDocument>{escape(policy)}</policyDocument>" if policy else "")

    text = re.sub(r"<vpcEndpointId>([^<]+)</vpcEndpointId>", complete, answer.body.decode())
    return Answer(200, {"Content-Type": "text/xml"}, text.encode())


HANDLERS = {
    ("ec2", "CreateVpcEndpoint"): keep_policy,
    ("ec2", "ModifyVpcEndpoint"): keep_policy,
    ("ec2", "DescribeVpcEndpoints"): endpoints,
    ("ec2", "AuthorizeSecurityGroupEgress"): allowed,
    ("ec2", "DescribeSecurityGroupRules"): rules,
}
