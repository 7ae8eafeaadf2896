# SPDX-License-Identifier: Apache-2.0
"""Where services are and which partition a region is in: as botocore's own rules say, for each partition and region that it knows."""

import json
import os
import subprocess

import boto3
import botocore.session
import pytest
from botocore.endpoint_provider import EndpointProvider
from botocore.exceptions import EndpointProviderError

from binary import tool

# What Berth calls a service, and botocore's name of it.
SERVICES = {
    "lambda": "lambda", "ecr": "ecr", "s3": "s3", "s3-control": "s3control", "iam": "iam", "sts": "sts", "logs": "logs", "tagging": "resourcegroupstaggingapi",
    "kms": "kms", "secretsmanager": "secretsmanager", "ssm": "ssm", "dynamodb": "dynamodb", "sso": "sso", "sso-oidc": "sso-oidc", "signin": "signin",
}  # fmt: skip
# Regions that are newer than any table.
TOMORROW = ["eu-west-9", "cn-south-1", "us-gov-north-1", "us-iso-north-1", "us-isob-west-1", "eu-isoe-north-1", "us-isof-west-1", "eusc-de-west-1"]

_loader = botocore.session.get_session().get_component("data_loader")
PARTITIONS = _loader.load_data("partitions")


def regions():
    """Of botocore's partitions, without the pseudo regions of global services, and those of tomorrow."""
    known = [region for partition in PARTITIONS["partitions"] for region in partition["regions"] if not region.endswith("-global")]
    return known + TOMORROW


def ours(fips, dual):
    """{(region, service): answer} for all of them."""
    asked = [(region, service) for region in regions() for service in SERVICES]
    env = {
        "PATH": os.environ["PATH"], "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        "AWS_USE_FIPS_ENDPOINT": str(fips).lower(), "AWS_USE_DUALSTACK_ENDPOINT": str(dual).lower(),
    }  # fmt: skip
    run = subprocess.run([tool("endpoint_cli")], input="".join(f"{r} {s}\n" for r, s in asked), env=env, text=True, capture_output=True, check=True)
    return dict(zip(asked, map(json.loads, run.stdout.splitlines()), strict=True))


def test_partitions_are_botocores():
    session = boto3.session.Session()
    domains = {p["id"]: p["outputs"]["dnsSuffix"] for p in PARTITIONS["partitions"]}
    found = {region: answer for (region, service), answer in ours(False, False).items() if service == "lambda"}
    for region in regions():
        partition = "aws" if region == "eu-west-9" else session.get_partition_for_region(region)
        assert (found[region]["partition"], found[region]["domain"]) == (partition, domains[partition]), region
    assert {answer["partition"] for answer in found.values()} == set(domains)


@pytest.mark.parametrize("fips,dual", [(False, False), (True, False), (False, True), (True, True)])
def test_hosts_are_botocores(fips, dual):
    providers = {name: EndpointProvider(_loader.load_service_model(service, "endpoint-rule-set-1"), PARTITIONS) for name, service in SERVICES.items()}
    wrong = []
    for (region, service), answer in ours(fips, dual).items():
        try:
            endpoint = providers[service].resolve_endpoint(Region=region, UseFIPS=fips, UseDualStack=dual)
        except EndpointProviderError:
            continue  # botocore has none; what Berth says leads nowhere
        if "error" in answer:
            # China has hosts of that name in the rules, and no FIPS.
            assert fips and answer["error"].endswith("aws-cn has no FIPS endpoints"), answer
            continue
        scheme = (endpoint.properties.get("authSchemes") or [{}])[0]
        expected = (endpoint.url.removeprefix("https://"), scheme.get("signingRegion", region))
        if (answer["host"], answer["signing_region"]) != expected:
            wrong.append((region, service, (answer["host"], answer["signing_region"]), expected))
    assert wrong == []
