# SPDX-License-Identifier: Apache-2.0
"""Make tiny container images and put them where the stand-in looks for images.

MiniStack has a real registry, and they are pushed to it. moto has none: PutImage takes the manifest (with its
digest, which moto would otherwise invent), and the proxy keeps the blobs.
"""

import base64
import gzip
import hashlib
import io
import json
import tarfile
import urllib.request
from urllib.parse import urljoin

from servers import http, open_url

OCI = {
    "manifest": "application/vnd.oci.image.manifest.v1+json",
    "config": "application/vnd.oci.image.config.v1+json",
    "layer": "application/vnd.oci.image.layer.v1.tar+gzip",
    "index": "application/vnd.oci.image.index.v1+json",
}
DOCKER = {
    "manifest": "application/vnd.docker.distribution.manifest.v2+json",
    "config": "application/vnd.docker.container.image.v1+json",
    "layer": "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "index": "application/vnd.docker.distribution.manifest.list.v2+json",
}


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Image:
    """One image, or an index of several: its manifest, and the blobs that it needs."""

    def __init__(self, content="hello", arch="amd64", os="linux", types=OCI, config_type=None):
        layer_tar = io.BytesIO()
        with tarfile.open(fileobj=layer_tar, mode="w") as tar:
            info = tarfile.TarInfo("hello.txt")
            info.size = len(content.encode())
            tar.addfile(info, io.BytesIO(content.encode()))
        layer = gzip.compress(layer_tar.getvalue(), mtime=0)
        config = json.dumps(
            {
                "architecture": arch,
                "os": os,
                "config": {"Cmd": ["/bin/true"]},
                "rootfs": {"type": "layers", "diff_ids": [digest_of(layer_tar.getvalue())]},
            }
        ).encode()
        self.platform = {"architecture": arch, "os": os}
        self.media_type = types["manifest"]
        self.blobs = {digest_of(layer): layer, digest_of(config): config}
        self.children = []
        self.manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": types["manifest"],
                "config": {"mediaType": config_type or types["config"], "digest": digest_of(config), "size": len(config)},
                "layers": [{"mediaType": types["layer"], "digest": digest_of(layer), "size": len(layer)}],
            }
        ).encode()
        self.digest = digest_of(self.manifest)


class Index(Image):
    """What buildx makes without --provenance=false: a list of images, which Lambda refuses."""

    def __init__(self, *images, types=OCI):
        self.children = list(images)
        self.media_type = types["index"]
        self.blobs = {}
        entries = [
            {"mediaType": i.media_type, "digest": i.digest, "size": len(i.manifest), "platform": i.platform} for i in images
        ]
        self.manifest = json.dumps({"schemaVersion": 2, "mediaType": types["index"], "manifests": entries}).encode()
        self.digest = digest_of(self.manifest)


def write_folder(image, folder):
    """An image that skopeo reads as dir:FOLDER."""
    folder.mkdir(parents=True)
    (folder / "version").write_text("Directory Transport Version: 1.1\n")
    (folder / "manifest.json").write_bytes(image.manifest)
    for digest, data in image.blobs.items():
        (folder / digest.removeprefix("sha256:")).write_bytes(data)


class Pushes:
    """`cloud.pushes`: put images into the stand-in's registry; each answers with the image's digest."""

    def __init__(self, cloud):
        self._cloud = cloud

    def repository(self, name):
        ecr = self._cloud.direct("ecr")
        try:
            ecr.create_repository(repositoryName=name)
        except ecr.exceptions.RepositoryAlreadyExistsException:
            pass

    def amd64(self, repository, tag="latest", content="hello"):
        return self.push(repository, tag, Image(content))

    def arm64(self, repository, tag="latest", content="hello"):
        return self.push(repository, tag, Image(content, arch="arm64"))

    def docker(self, repository, tag="latest", content="hello"):
        return self.push(repository, tag, Image(content, types=DOCKER))

    def index(self, repository, tag="latest", content="hello"):
        return self.push(repository, tag, Index(Image(content), Image(content, arch="arm64")))

    def push(self, repository, tag, image):
        self.repository(repository)
        if self._cloud.flavor == "ministack":
            self._upload(repository, tag, image)
        else:
            self._put(repository, tag, image)
        return image.digest

    def _upload(self, repository, tag, image):
        """By the registry's own API, as `docker push` does."""
        registry = f"{self._cloud.standin.url}/v2/{repository}"
        for part in [*image.children, image]:
            for digest, data in part.blobs.items():
                place = self._ask("POST", f"{registry}/blobs/uploads/", b"")["Location"]
                place = urljoin(registry, place)
                self._ask("PUT", f"{place}{'&' if '?' in place else '?'}digest={digest}", data, "application/octet-stream")
            self._ask("PUT", f"{registry}/manifests/{tag if part is image else part.digest}", part.manifest, part.media_type)

    @staticmethod
    def _ask(method, url, data, kind=None):
        headers = {"Authorization": "Basic " + base64.b64encode(b"AWS:x").decode(), **({"Content-Type": kind} if kind else {})}
        with open_url(urllib.request.Request(url, data, headers, method=method)) as answer:
            return answer.headers

    def _put(self, repository, tag, image):
        ecr = self._cloud.direct("ecr")
        for part in [*image.children, image]:
            for digest, data in part.blobs.items():
                http("PUT", f"{self._cloud.url}/_proxy/blobs/{digest}", data)
            ecr.put_image(
                repositoryName=repository,
                imageManifest=part.manifest.decode(),
                imageManifestMediaType=part.media_type,
                imageDigest=part.digest,
                **({"imageTag": tag} if part is image else {}),
            )
