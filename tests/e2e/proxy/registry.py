# SPDX-License-Identifier: Apache-2.0
"""ECR where the stand-ins fall short: URLs of layers that lead somewhere, and lifecycle previews."""

import json
import time
from fnmatch import fnmatchcase

from .errors import AwsError
from .upstream import Answer

LAYER_PATH = "/_layers/"
_RPC = {"Content-Type": "application/x-amz-json-1.1"}
_QUERY = "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=3600&X-Amz-Signature=presigned"


class Registry:
    def __init__(self):
        self.reset()

    def reset(self):
        self.blobs = {}  # digest -> bytes, for moto, whose registry takes no layers
        self.previews = {}


def _rpc(value):
    return Answer(200, dict(_RPC), json.dumps(value).encode())


async def _blob(proxy, repository, digest):
    if digest in proxy.registry.blobs:
        return proxy.registry.blobs[digest]
    if proxy.flavor == "ministack":
        answer = await proxy.upstream.send("GET", f"/v2/{repository}/blobs/{digest}", {"Authorization": "Basic QVdTOng="})
        if answer.status == 200:
            return answer.body
    return None


async def layer(proxy, request):
    """What a presigned URL gives. It carries its own signature: a second one is refused, as S3 does."""
    repository, _, digest = request.path.removeprefix(LAYER_PATH).rpartition("/")
    if "Authorization" in request.headers:
        proxy.record.violations.append(
            {"service": "ecr", "operation": "layer", "url": request.path, "text": "Authorization sent to a presigned URL"}
        )
        return Answer(400, {"Content-Type": "text/plain"}, b"Only one auth mechanism allowed")
    if "X-Amz-Signature" not in request.query:
        return Answer(403, {"Content-Type": "text/plain"}, b"AccessDenied: the query of the presigned URL is missing")
    body = await _blob(proxy, repository, digest)
    return Answer(404) if body is None else Answer(200, {"Content-Type": "application/octet-stream"}, body)


async def download_url(proxy, call):
    repository, digest = call.params["repositoryName"], call.params["layerDigest"]
    if await _blob(proxy, repository, digest) is None:
        raise AwsError(400, "LayersNotFoundException", f"The layer {digest} in the repository '{repository}' does not exist")
    return _rpc({"downloadUrl": f"http://{call.host}{LAYER_PATH}{repository}/{digest}{_QUERY}", "layerDigest": digest})


async def batch_get_image(proxy, call):
    """ECR repeats each name as it was asked for. Some servers do not: `image_answers` says how."""
    answer = await proxy.upstream.forward(call)
    how = proxy.settings.image_answers
    if answer.status != 200 or not how:
        return answer
    value = answer.json()
    if how == "silent":
        value["images"], value["failures"] = value["images"][:1], [] if value["images"] else value["failures"][:1]
    for image in value["images"] if how == "other-tag" else ():
        asked = image["imageId"].get("imageTag")
        named = {"repositoryName": call.params["repositoryName"], "imageIds": [{"imageDigest": image["imageId"]["imageDigest"]}]}
        details = (await proxy.upstream.own(call, "ecr", "DescribeImages", named)).json()["imageDetails"]
        others = [tag for detail in details for tag in detail.get("imageTags") or [] if tag != asked]
        if asked and others:
            image["imageId"]["imageTag"] = others[0]
    return Answer(200, dict(_RPC), json.dumps(value).encode())


# --- previews ---------------------------------------------------------------------------------------


def _selected(selection, image):
    tags = image.get("imageTags") or []
    status = selection["tagStatus"]
    if status == "untagged":
        return not tags
    if status == "tagged":
        prefixes, patterns = selection.get("tagPrefixList") or [], selection.get("tagPatternList") or []
        return any(any(t.startswith(p) for t in tags) for p in prefixes) or any(any(fnmatchcase(t, p) for t in tags) for p in patterns)
    return True


def _expired(policy, images, now):
    """Images that the rules would expire: by priority, each image judged by the first rule that selects it."""
    left, out = sorted(images, key=lambda i: i["imagePushedAt"], reverse=True), []
    for rule in sorted(policy["rules"], key=lambda r: r["rulePriority"]):
        selection = rule["selection"]
        mine = [image for image in left if _selected(selection, image)]
        if selection["countType"] == "imageCountMoreThan":
            doomed = mine[selection["countNumber"] :]
        else:
            doomed = [image for image in mine if now - image["imagePushedAt"] > selection["countNumber"] * 86400]
        out += [{**image, "appliedRulePriority": rule["rulePriority"]} for image in doomed]
        left = [image for image in left if image not in mine]
    return out


async def start_preview(proxy, call):
    name = call.params["repositoryName"]
    text = call.params.get("lifecyclePolicyText")
    if text is None:
        answer = await proxy.upstream.own(call, "ecr", "GetLifecyclePolicy", {"repositoryName": name})
        if answer.status != 200:
            return answer
        text = answer.json()["lifecyclePolicyText"]
    answer = await proxy.upstream.own(call, "ecr", "DescribeImages", {"repositoryName": name})
    if answer.status != 200:
        return answer
    images = _expired(json.loads(text), answer.json()["imageDetails"], time.time())
    proxy.registry.previews[name] = {"text": text, "images": images, "at": time.time()}
    return _rpc({"registryId": call.params.get("registryId", ""), "repositoryName": name, "lifecyclePolicyText": text, "status": "IN_PROGRESS"})


async def get_preview(proxy, call):
    name = call.params["repositoryName"]
    preview = proxy.registry.previews.get(name)
    if preview is None:
        raise AwsError(400, "LifecyclePolicyPreviewNotFoundException", f"There is no lifecycle policy preview for '{name}'")
    value = {"repositoryName": name, "lifecyclePolicyText": preview["text"], "status": "IN_PROGRESS"}
    if time.time() - preview["at"] > 0.1:
        results = [
            {
                "imageTags": image.get("imageTags") or [],
                "imageDigest": image["imageDigest"],
                "imagePushedAt": image["imagePushedAt"],
                "action": {"type": "EXPIRE"},
                "appliedRulePriority": image["appliedRulePriority"],
            }
            for image in preview["images"]
        ]
        value.update(status="COMPLETE", previewResults=results, summary={"expiringImageTotalCount": len(results)})
    return _rpc(value)


HANDLERS = {
    ("ecr", "GetDownloadUrlForLayer"): download_url,
    ("ecr", "BatchGetImage"): batch_get_image,
    ("ecr", "StartLifecyclePolicyPreview"): start_preview,
    ("ecr", "GetLifecyclePolicyPreview"): get_preview,
}
