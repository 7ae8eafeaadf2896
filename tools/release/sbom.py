# SPDX-License-Identifier: Apache-2.0
"""
sbom.py ROOT DEB EPOCH OUTPUT: what the package DEB, installed in ROOT, consists of and needs, as SPDX 2.3 in JSON: the package and its files, what is
built into it (cloudpickle, Jansson, the C library), and the packages of Debian that it depends on, as they were in ROOT.
"""

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import elf

RUNTIME = "usr/libexec/berth/berth-runtime"


def identifier(*words):
    return "SPDXRef-" + "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", word).strip("-") for word in words)


def package(name, version, licence, supplier, purl, **more):
    return {
        "SPDXID": identifier("Package", name), "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION", "supplier": supplier,
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}], **more,
    }  # fmt: skip


def files_of(deb):
    """[(path, SHA-1, SHA-256)]: SPDX wants the first of each file, and checkers the second."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "data.tar"
        with archive.open("wb") as out:
            subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], check=True, stdout=out)
        with tarfile.open(archive) as tar:
            for member in sorted(tar.getmembers(), key=lambda m: m.name):
                if member.isfile():
                    data = tar.extractfile(member).read()
                    yield member.name.removeprefix("./"), hashlib.sha1(data).hexdigest(), hashlib.sha256(data).hexdigest()


def carried():
    """The release of cloudpickle in the source, with the hash of its wheel."""
    text = (Path(__file__).parents[2] / "runtime/cloudpickle.cmake").read_text()
    return re.search(r"set\(release cloudpickle-(\S+)\)", text).group(1), re.search(r"set\(wheel_hash (\S+)\)", text).group(1)


def main(root, deb, epoch, target):
    root, deb = Path(root), Path(deb)
    version, architecture = (elf.field(root, "berth", name) for name in ("Version", "Architecture"))
    found = re.search(r'^ID="?(\w+).*?^VERSION_CODENAME="?(\w+)|^VERSION_CODENAME="?(\w+).*?^ID="?(\w+)', (root / "etc/os-release").read_text(), re.M | re.S)
    codename = found.group(2) or found.group(3)
    debian = "Organization: Debian"
    main_package = package("berth", version, "Apache-2.0", "Organization: The authors of Berth", f"pkg:deb/debian/berth@{version}?arch={architecture}&distro={codename}",
        filesAnalyzed=True, packageFileName=deb.name, primaryPackagePurpose="APPLICATION",
        checksums=[{"algorithm": "SHA256", "checksumValue": hashlib.sha256(deb.read_bytes()).hexdigest()}])  # fmt: skip
    files = [{
        "SPDXID": identifier("File", name), "fileName": "./" + name, "licenseConcluded": "NOASSERTION", "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION",
        "checksums": [{"algorithm": "SHA1", "checksumValue": sha1}, {"algorithm": "SHA256", "checksumValue": sha256}],
    } for name, sha1, sha256 in files_of(deb)]  # fmt: skip
    sums = "".join(sorted(file["checksums"][0]["checksumValue"] for file in files))
    main_package["packageVerificationCode"] = {"packageVerificationCodeValue": hashlib.sha1(sums.encode()).hexdigest()}
    main_package["licenseInfoFromFiles"] = ["NOASSERTION"]

    related = [("SPDXRef-DOCUMENT", "DESCRIBES", main_package["SPDXID"])]
    related += [(main_package["SPDXID"], "CONTAINS", file["SPDXID"]) for file in files]
    packages = [main_package]
    release, wheel = carried()
    packages.append(package("cloudpickle", release, "BSD-3-Clause", "NOASSERTION", f"pkg:pypi/cloudpickle@{release}", checksums=[{"algorithm": "SHA256", "checksumValue": wheel}]))
    related.append((identifier("File", RUNTIME), "GENERATED_FROM", packages[-1]["SPDXID"]))
    # Those of the machine where it was built are of the same release, with the same security updates.
    for name, licence in (("libjansson4", "MIT"), ("libc6", "LGPL-2.1-or-later")):
        related.append((identifier("File", RUNTIME), "STATIC_LINK", identifier("Package", name)))
    known = {"libjansson4": "MIT", "libc6": "LGPL-2.1-or-later"}
    for name in sorted(set(elf.depends(root, "berth"))):
        has = elf.field(root, name, "Version")
        packages.append(package(name, has, known.get(name, "NOASSERTION"), debian, f"pkg:deb/debian/{name}@{has}?arch={architecture}&distro={codename}"))
        related.append((main_package["SPDXID"], "DEPENDS_ON", packages[-1]["SPDXID"]))

    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": deb.name.removesuffix(".deb"),
        "documentNamespace": "urn:berth:sbom:" + main_package["checksums"][0]["checksumValue"],
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(epoch))), "creators": ["Tool: berth-release"]},
        "packages": packages, "files": files,
        "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in related],
    }  # fmt: skip
    Path(target).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
