# SPDX-License-Identifier: Apache-2.0
"""What Lambda does with an image reference: find it in the registry, look at its manifest, keep the digest.

Both stand-ins take any ImageUri. AWS resolves it at once, refuses what is missing and what is an index,
and does not look at the architecture.
"""

import json
import re

from . import registry
from .errors import AwsError

_URI = re.compile(
    r"^(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/"
    r"(?P<name>[a-z0-9][a-z0-9._/-]*)(?::(?P<tag>[A-Za-z0-9_][\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?$"
)
MEDIA_TYPES = {
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
}
INDEX_TYPES = [
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.index.v1+json",
]


def split(uri):
    found = _URI.match(uri or "")
    return found.groupdict() if found else None


def _find_elsewhere(proxy, call, parts, image_id):
    """In another account's registry: its policy must let both in, the caller, and Lambda for this very function."""
    own = registry.own_account(proxy, call)
    repository = proxy.registry.others.get((parts["account"], parts["region"], parts["name"]))
    name = call.params.get("FunctionName", "").split(":function:")[-1]
    function = f"arn:aws:lambda:{call.region}:{own}:function:{name}"
    for action in ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"):
        for principal in ({"AWS": f"arn:aws:iam::{own}:root"}, {"Service": "lambda.amazonaws.com"}):
            if not registry.allows((repository or {}).get("policy"), principal, action, function):
                raise AwsError(403, "AccessDeniedException", "Lambda does not have permission to access the ECR image. Check the ECR permissions.")
    images = registry.find_images(repository, [image_id])["images"]
    if not images:
        return None
    return images[0]["imageId"]["imageDigest"], images[0]["imageManifestMediaType"], json.loads(images[0]["imageManifest"])


async def find(proxy, call, uri):
    """(digest, media type, manifest) of what the registry holds, or None."""
    parts = split(uri)
    if parts is None:
        return None
    image_id = {"imageDigest": parts["digest"]} if parts["digest"] else {"imageTag": parts["tag"] or "latest"}
    if parts["account"] != registry.own_account(proxy, call):
        return _find_elsewhere(proxy, call, parts, image_id)
    answer = await proxy.upstream.own(
        call,
        "ecr",
        "BatchGetImage",
        {"repositoryName": parts["name"], "registryId": parts["account"], "imageIds": [image_id], "acceptedMediaTypes": sorted(MEDIA_TYPES) + INDEX_TYPES},
    )
    if answer.status != 200 or not answer.json().get("images"):
        return None
    image = answer.json()["images"][0]
    try:
        manifest = json.loads(image.get("imageManifest") or "{}")
    except ValueError:
        manifest = {}
    media_type = manifest.get("mediaType") or image.get("imageManifestMediaType")
    if "manifests" in manifest:
        media_type = media_type if media_type in INDEX_TYPES else INDEX_TYPES[1]
    return image["imageId"]["imageDigest"], media_type, manifest


async def resolve(proxy, call, uri):
    """The digest that Lambda would run, or the refusal in AWS's words."""
    parts = split(uri)
    if parts is None or parts["region"] != call.region:
        raise AwsError(400, "InvalidParameterValueException", f"Source image {uri} is not valid. Provide a valid source image.")
    found = await find(proxy, call, uri)
    if found is None:
        raise AwsError(400, "InvalidParameterValueException", f"Source image {uri} does not exist. Provide a valid source image.")
    digest, media_type, _ = found
    if media_type not in MEDIA_TYPES:
        raise AwsError(
            400,
            "InvalidParameterValueException",
            f"The image manifest, config or layer media type for the source image {uri} is not supported.",
        )
    return digest


def resolved_uri(uri, digest):
    return re.sub(r"(:[^/@]+)?(@.*)?$", "", uri, count=1) + "@" + digest
