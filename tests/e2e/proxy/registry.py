# SPDX-License-Identifier: Apache-2.0
"""
ECR where the stand-ins fall short: URLs of layers that lead somewhere, uploads that are kept and checked, answers
that do not repeat what was asked for, and registries of other accounts, of which the stand-ins know nothing: repositories that only their policies open.
"""

import base64
import fnmatch
import hashlib
import json
import re
import uuid

from .errors import AwsError
from .upstream import Answer

LAYER_PATH = "/_layers/"
PART_MAX = 10 << 20
_ACCOUNTS = {"ministack": "000000000000", "moto": "123456789012"}
_RPC = {"Content-Type": "application/x-amz-json-1.1"}
_QUERY = "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=3600&X-Amz-Signature=presigned"


class Registry:
    def __init__(self):
        self.reset()

    def reset(self):
        self.blobs = {}  # digest -> bytes: what tests put there, and what was uploaded by ECR's own API
        self.uploads = {}  # id -> [repository, bytes]
        self.others = {}  # (account, region, repository) -> {"policy": {...}, "images": [{tag, digest, manifest, type}]}

    def add_other(self, value):
        self.others[value["account"], value["region"], value["repository"]] = {"policy": value["policy"], "images": value["images"]}


def allows(policy, principal, action, source=None):
    """Whether a statement lets {"AWS": ARN} or {"Service": NAME} do it, for the function whose ARN is `source`."""
    for statement in (policy or {}).get("Statement", []):
        pattern = statement.get("Condition", {}).get("StringLike", {}).get("aws:sourceArn")
        if (
            statement["Effect"] == "Allow" and statement["Principal"] == principal and action in statement["Action"]
            and (pattern is None or (source and fnmatch.fnmatchcase(source, pattern)))
        ):  # fmt: skip
            return True
    return False


def own_account(proxy, call):
    """The caller's: MiniStack takes an access key of twelve digits for one."""
    return call.access_key if re.fullmatch(r"\d{12}", call.access_key) else _ACCOUNTS[proxy.flavor]


def other(proxy, call, operation):
    """The repository in another account's registry that the call names, if that lets the caller; None for one's own."""
    account, name, own = call.params.get("registryId"), call.params["repositoryName"], own_account(proxy, call)
    if account in (None, own):
        return None
    found = proxy.registry.others.get((account, call.region, name))
    if not allows((found or {}).get("policy"), {"AWS": f"arn:aws:iam::{own}:root"}, f"ecr:{operation}"):
        raise AwsError(
            400, "AccessDeniedException", f"User: arn:aws:iam::{own}:user/test is not authorized to perform: ecr:{operation} on resource: "
            f"arn:aws:ecr:{call.region}:{account}:repository/{name} because no resource-based policy allows the ecr:{operation} action",
        )  # fmt: skip
    return found


def find_images(repository, ids):
    """BatchGetImage's answer."""
    images, failures = [], []
    for wanted in ids:
        fits = [i for i in repository["images"] if wanted in ({"imageTag": i["tag"]}, {"imageDigest": i["digest"]})]
        if fits:
            image_id = {"imageDigest": fits[0]["digest"], **wanted}
            images.append({"imageId": image_id, "imageManifest": fits[0]["manifest"], "imageManifestMediaType": fits[0]["type"]})
        else:
            failures.append({"imageId": wanted, "failureCode": "ImageNotFound", "failureReason": "Requested image not found"})
    return {"images": images, "failures": failures}


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
    other(proxy, call, "GetDownloadUrlForLayer")
    if await _blob(proxy, repository, digest) is None:
        raise AwsError(400, "LayersNotFoundException", f"The layer {digest} in the repository '{repository}' does not exist")
    return _rpc({"downloadUrl": f"http://{proxy.settings.layer_host or call.host}{LAYER_PATH}{repository}/{digest}{_QUERY}", "layerDigest": digest})


async def batch_get_image(proxy, call):
    """ECR repeats each name as it was asked for. Some servers do not: `image_answers` says how."""
    elsewhere = other(proxy, call, "BatchGetImage")
    if elsewhere:
        return _rpc(find_images(elsewhere, call.params["imageIds"]))
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


async def describe_images(proxy, call):
    elsewhere = other(proxy, call, "DescribeImages")
    if not elsewhere:
        return await proxy.upstream.forward(call)
    return _rpc({"imageDetails": [
        {"registryId": call.params["registryId"], "repositoryName": call.params["repositoryName"], "imageDigest": image["digest"],
         "imageTags": [image["tag"]], "imageManifestMediaType": image["type"]} for image in elsewhere["images"]
    ]})  # fmt: skip


async def _needs_repository(proxy, call):
    named = {"repositoryNames": [call.params["repositoryName"]]}
    answer = await proxy.upstream.own(call, "ecr", "DescribeRepositories", named)
    if answer.status != 200:
        raise AwsError(400, "RepositoryNotFoundException", f"The repository with name '{named['repositoryNames'][0]}' does not exist")


async def initiate_upload(proxy, call):
    """The stand-ins either forget what is uploaded, or believe any digest."""
    await _needs_repository(proxy, call)
    name = str(uuid.uuid4())
    proxy.registry.uploads[name] = [call.params["repositoryName"], b""]
    return _rpc({"uploadId": name, "partSize": PART_MAX})


def _upload_of(proxy, call):
    found = proxy.registry.uploads.get(call.params["uploadId"])
    if not found or found[0] != call.params["repositoryName"]:
        raise AwsError(400, "UploadNotFoundException", f"The upload {call.params['uploadId']} does not exist")
    return found


async def upload_part(proxy, call):
    upload, blob = _upload_of(proxy, call), base64.b64decode(call.params["layerPartBlob"], validate=True)
    first, last = call.params["partFirstByte"], call.params["partLastByte"]
    if first != len(upload[1]) or last != first + len(blob) - 1 or len(blob) > PART_MAX:
        raise AwsError(400, "InvalidLayerPartException", f"part {first}-{last} of {len(blob)} bytes after {len(upload[1])}")
    upload[1] += blob
    return _rpc({"uploadId": call.params["uploadId"], "lastByteReceived": last})


async def complete_upload(proxy, call):
    (repository, blob), wanted = _upload_of(proxy, call), call.params["layerDigests"]
    digest = "sha256:" + hashlib.sha256(blob).hexdigest()
    del proxy.registry.uploads[call.params["uploadId"]]
    if wanted != [digest]:
        raise AwsError(400, "InvalidLayerException", f"the layer has the digest {digest}, not {wanted}")
    if await _blob(proxy, repository, digest) is not None:
        raise AwsError(400, "LayerAlreadyExistsException", f"Layer with digest '{digest}' already exists")
    proxy.registry.blobs[digest] = blob
    return _rpc({"layerDigest": digest, "uploadId": call.params["uploadId"]})


async def put_image(proxy, call):
    """What the stand-ins do not look at: that the manifest is what its digest says, and that what it names is there."""
    text, digest = call.params["imageManifest"], call.params.get("imageDigest")
    manifest = json.loads(text)
    if digest and digest != "sha256:" + hashlib.sha256(text.encode()).hexdigest():
        raise AwsError(400, "ImageDigestDoesNotMatchException", f"the manifest has not the digest {digest}")
    if call.params.get("imageManifestMediaType") not in (None, manifest.get("mediaType")):
        raise AwsError(400, "InvalidParameterException", "the manifest's mediaType is another one")
    for part in [manifest.get("config"), *manifest.get("layers", [])]:
        if part and await _blob(proxy, call.params["repositoryName"], part["digest"]) is None:
            raise AwsError(400, "LayersNotFoundException", f"Layers with digests '[{part['digest']}]' required for pushing image do not exist")
    return await proxy.upstream.forward(call)


HANDLERS = {
    ("ecr", "InitiateLayerUpload"): initiate_upload,
    ("ecr", "UploadLayerPart"): upload_part,
    ("ecr", "CompleteLayerUpload"): complete_upload,
    ("ecr", "PutImage"): put_image,
    ("ecr", "DescribeImages"): describe_images,
    ("ecr", "GetDownloadUrlForLayer"): download_url,
    ("ecr", "BatchGetImage"): batch_get_image,
}
