# SPDX-License-Identifier: Apache-2.0
"""S3 configuration documents that the stand-ins lose or obey wrongly.

moto ignores the Condition of a bucket policy, so that a TLS-only policy would lock everyone out: its
policies are kept here and never reach it. moto drops parts of lifecycle filters and MiniStack adds some:
the document is kept here as it was sent. moto deletes objects whatever version was meant. Neither knows access control by tags (ABAC): where it is on, tags are
written by S3 Control alone. Rules come back in another order, because S3 promises none.
"""

import json
import re
from email.utils import formatdate, parsedate_to_datetime
from urllib.parse import quote
from xml.etree import ElementTree

from .errors import AwsError
from .upstream import Answer

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
ElementTree.register_namespace("", NAMESPACE)


class Storage:
    def __init__(self):
        self.reset()

    def reset(self):
        self.policies = {}
        self.lifecycles = {}
        self.abac = set()

    def forget(self, bucket):
        self.policies.pop(bucket, None)
        self.lifecycles.pop(bucket, None)
        self.abac.discard(bucket)


async def _demand_bucket(proxy, call):
    answer = await proxy.upstream.own(call, "s3", "HeadBucket", method="HEAD", path="/" + call.params["Bucket"])
    if answer.status != 200:
        proxy.storage.forget(call.params["Bucket"])
        raise AwsError(404, "NoSuchBucket", "The specified bucket does not exist")


async def put_policy(proxy, call):
    if proxy.flavor != "moto":
        return await proxy.upstream.forward(call)
    await _demand_bucket(proxy, call)
    proxy.storage.policies[call.params["Bucket"]] = json.dumps(json.loads(call.body))
    return Answer(204)


async def get_policy(proxy, call):
    if proxy.flavor != "moto":
        return await proxy.upstream.forward(call)
    await _demand_bucket(proxy, call)
    if call.params["Bucket"] not in proxy.storage.policies:
        raise AwsError(404, "NoSuchBucketPolicy", "The bucket policy does not exist")
    return Answer(200, {"Content-Type": "application/json"}, proxy.storage.policies[call.params["Bucket"]].encode())


async def delete_policy(proxy, call):
    if proxy.flavor != "moto":
        return await proxy.upstream.forward(call)
    await _demand_bucket(proxy, call)
    proxy.storage.policies.pop(call.params["Bucket"], None)
    return Answer(204)


def _reordered(document, adds_size):
    """The same rules, last first, each with an ID, in S3's namespace; with what some servers add where a test asks for it."""
    root = ElementTree.fromstring(document)
    for element in root.iter():
        element.tag = f"{{{NAMESPACE}}}{element.tag.rpartition('}')[2]}"
    rules = list(root)
    for index, rule in enumerate(rules):
        root.remove(rule)
        if rule.find(f"{{{NAMESPACE}}}ID") is None:
            ElementTree.SubElement(rule, f"{{{NAMESPACE}}}ID").text = f"generated-{index}"
        for both in rule.iter(f"{{{NAMESPACE}}}And") if adds_size else ():
            if both.find(f"{{{NAMESPACE}}}ObjectSizeGreaterThan") is None:
                ElementTree.SubElement(both, f"{{{NAMESPACE}}}ObjectSizeGreaterThan").text = "0"
    for rule in reversed(rules):
        root.append(rule)
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root)


async def put_lifecycle(proxy, call):
    answer = await proxy.upstream.forward(call)
    if answer.status in (200, 204):
        proxy.storage.lifecycles[call.params["Bucket"]] = call.body
    return answer


async def get_lifecycle(proxy, call):
    answer = await proxy.upstream.forward(call)
    if answer.status != 200:
        return answer
    document = proxy.storage.lifecycles.get(call.params["Bucket"], answer.body)
    headers = {"Content-Type": "application/xml", "x-amz-transition-default-minimum-object-size": "all_storage_classes_128K"}
    return Answer(200, headers, _reordered(document, proxy.settings.lifecycle_adds_size))


async def delete_lifecycle(proxy, call):
    answer = await proxy.upstream.forward(call)
    if answer.status in (200, 204):
        proxy.storage.lifecycles.pop(call.params["Bucket"], None)
    return answer


async def put_abac(proxy, call):
    await _demand_bucket(proxy, call)
    on = call.params["AbacStatus"]["Status"] == "Enabled"
    (proxy.storage.abac.add if on else proxy.storage.abac.discard)(call.params["Bucket"])
    return Answer(200)


async def write_tagging(proxy, call):
    if call.params["Bucket"] in proxy.storage.abac:
        raise AwsError(*proxy.settings.abac_refusal, "The bucket has ABAC enabled")
    return await proxy.upstream.forward(call)


async def _tags_of_bucket(proxy, call):
    """The bucket of the ARN, where its tags are, and what they are."""
    bucket = call.params["ResourceArn"].rpartition(":")[2]
    if not re.fullmatch(r"arn:aws[a-z-]*:s3:::[^/]+", call.params["ResourceArn"]):
        raise AwsError(400, "InvalidRequest", "Invalid ARN", violation=True)
    path = f"/{bucket}?tagging"
    answer = await proxy.upstream.own(call, "s3", "GetBucketTagging", method="GET", path=path)
    if answer.status == 404 and b"NoSuchBucket" in answer.body:
        raise AwsError(404, "NoSuchBucket", "The specified bucket does not exist")
    found = ElementTree.fromstring(answer.body).iter(f"{{{NAMESPACE}}}Tag") if answer.status == 200 else ()
    return path, {tag.findtext(f"{{{NAMESPACE}}}Key"): tag.findtext(f"{{{NAMESPACE}}}Value") or "" for tag in found}


async def _put_tags(proxy, call, path, tags):
    root = ElementTree.Element(f"{{{NAMESPACE}}}Tagging")
    tag_set = ElementTree.SubElement(root, f"{{{NAMESPACE}}}TagSet")
    for key, value in tags.items():
        tag = ElementTree.SubElement(tag_set, f"{{{NAMESPACE}}}Tag")
        ElementTree.SubElement(tag, f"{{{NAMESPACE}}}Key").text = key
        ElementTree.SubElement(tag, f"{{{NAMESPACE}}}Value").text = value
    answer = await proxy.upstream.own(call, "s3", "PutBucketTagging", method="PUT", path=path, body=ElementTree.tostring(root))
    return Answer(204) if answer.status in (200, 204) else answer


async def tag_resource(proxy, call):
    path, tags = await _tags_of_bucket(proxy, call)
    return await _put_tags(proxy, call, path, {**tags, **{tag["Key"]: tag["Value"] for tag in call.params["Tags"]}})


async def untag_resource(proxy, call):
    path, tags = await _tags_of_bucket(proxy, call)
    return await _put_tags(proxy, call, path, {key: value for key, value in tags.items() if key not in call.params["TagKeys"]})


async def get_object(proxy, call):
    """Last-Modified is by the server's clock, as Date is, and the object as old as the test says."""
    answer = await proxy.upstream.forward(call)
    for name in [name for name in answer.headers if name.lower() == "last-modified"]:
        days = next((days for prefix, days in proxy.settings.object_age_days.items() if call.params["Key"].startswith(prefix)), 0)
        written = parsedate_to_datetime(answer.headers[name]).timestamp() + proxy.settings.clock_skew_s - days * 86400
        answer.headers[name] = formatdate(written, usegmt=True)
    return answer


def _tags_of(document):
    pairs = re.findall(r"<Key>(.*?)</Key>\s*<Value>(.*?)</Value>", document, re.S)
    entities = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))
    out = []
    for pair in pairs:
        for entity, text in entities:
            pair = tuple(part.replace(entity, text) for part in pair)
        out.append("=".join(quote(part, safe="") for part in pair))
    return "&".join(out)


async def post_object(proxy, call):
    """PostObject, which is no operation of botocore's models: kept as PutObject."""
    form, bucket = call.form, call.params["Bucket"]
    kept = {name: text for name, text in form.fields.items() if name.startswith(("x-amz-server-side", "x-amz-meta-", "x-amz-storage"))}
    if "content-type" in form.fields:
        kept["content-type"] = form.fields["content-type"]
    if "tagging" in form.fields:
        kept["x-amz-tagging"] = _tags_of(form.fields["tagging"])
    path = "/" + bucket + "/" + quote(form.fields["key"].replace("${filename}", "file"), safe="/~")
    answer = await proxy.upstream.own(call, "s3", "PutObject", method="PUT", path=path, body=form.file, headers=kept)
    if answer.status != 200:
        return answer
    return Answer(int(form.fields.get("success_action_status", 204)), {k: v for k, v in answer.headers.items() if k.lower() == "etag"})


async def _is_another(proxy, call, key, etag):
    """Whether the object is there as another version than this one."""
    answer = await proxy.upstream.own(call, "s3", "HeadObject", method="HEAD", path=f"/{call.params['Bucket']}/{quote(key, safe='/~')}")
    found = {name.lower(): value for name, value in answer.headers.items()}.get("etag")
    return answer.status == 200 and found.strip('"') != etag.strip('"')


async def delete_object(proxy, call):
    """moto deletes whatever If-Match says."""
    etag = call.headers.get("if-match")
    if proxy.flavor == "moto" and etag and etag != "*" and await _is_another(proxy, call, call.params["Key"], etag):
        raise AwsError(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
    return await proxy.upstream.forward(call)


async def delete_objects(proxy, call):
    """moto deletes each, whatever its ETag."""
    if proxy.flavor != "moto":
        return await proxy.upstream.forward(call)
    root, refused = ElementTree.fromstring(call.body), []
    for item in root.findall(f"{{{NAMESPACE}}}Object") + root.findall("Object"):
        key, etag = (item.findtext(f"{{{NAMESPACE}}}{name}") or item.findtext(name) for name in ("Key", "ETag"))
        if etag and await _is_another(proxy, call, key, etag):
            refused.append(key)
            root.remove(item)
    if not refused:
        return await proxy.upstream.forward(call)
    result = ElementTree.Element(f"{{{NAMESPACE}}}DeleteResult")
    if any(item.tag.endswith("Object") for item in root):
        path = call.raw_target
        answer = await proxy.upstream.own(call, "s3", "DeleteObjects", method="POST", path=path, body=ElementTree.tostring(root))
        if answer.status != 200:
            return answer
        result = ElementTree.fromstring(answer.body)
    for key in refused:
        error = ElementTree.SubElement(result, f"{{{NAMESPACE}}}Error")
        for name, text in (("Key", key), ("Code", "PreconditionFailed"), ("Message", "At least one of the pre-conditions you specified did not hold")):
            ElementTree.SubElement(error, f"{{{NAMESPACE}}}{name}").text = text
    return Answer(200, {"Content-Type": "application/xml"}, ElementTree.tostring(result))


async def delete_bucket(proxy, call):
    answer = await proxy.upstream.forward(call)
    if answer.status in (200, 204):
        proxy.storage.forget(call.params["Bucket"])
    return answer


HANDLERS = {
    ("s3", "PutBucketPolicy"): put_policy,
    ("s3", "GetBucketPolicy"): get_policy,
    ("s3", "DeleteBucketPolicy"): delete_policy,
    ("s3", "PutBucketLifecycleConfiguration"): put_lifecycle,
    ("s3", "GetBucketLifecycleConfiguration"): get_lifecycle,
    ("s3", "DeleteBucketLifecycle"): delete_lifecycle,
    ("s3", "PutBucketAbac"): put_abac,
    ("s3", "PutBucketTagging"): write_tagging,
    ("s3", "DeleteBucketTagging"): write_tagging,
    ("s3control", "TagResource"): tag_resource,
    ("s3control", "UntagResource"): untag_resource,
    ("s3", "GetObject"): get_object,
    ("s3", "PostObject"): post_object,
    ("s3", "DeleteObject"): delete_object,
    ("s3", "DeleteObjects"): delete_objects,
    ("s3", "DeleteBucket"): delete_bucket,
}
