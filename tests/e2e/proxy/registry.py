# SPDX-License-Identifier: Apache-2.0
"""ECR where the stand-ins fall short: URLs of layers that lead somewhere, and answers that do not repeat what was asked for."""

import json

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
    return _rpc({"downloadUrl": f"http://{proxy.settings.layer_host or call.host}{LAYER_PATH}{repository}/{digest}{_QUERY}", "layerDigest": digest})


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


HANDLERS = {
    ("ecr", "GetDownloadUrlForLayer"): download_url,
    ("ecr", "BatchGetImage"): batch_get_image,
}
