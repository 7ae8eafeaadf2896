# SPDX-License-Identifier: Apache-2.0
"""Functions made through the proxy."""

import pytest
from botocore.exceptions import ClientError

from controllers import wait_until

REPOSITORY = "alphaagent/prebuilt/python"


@pytest.fixture
def make(cloud):
    """Create function after function; the first call pushes the image and makes the role."""
    digest = cloud.pushes.amd64(REPOSITORY)
    role = cloud.lambda_role()

    def create(name="f", client=None, **fields):
        fields.setdefault("Code", {"ImageUri": cloud.image_uri(REPOSITORY, digest=digest)})
        client = client or cloud.client("lambda")
        return client.create_function(FunctionName=name, PackageType="Image", Role=role, **fields)

    create.digest, create.role = digest, role
    return create


def refused(code, function, *args, **kwargs):
    with pytest.raises(ClientError) as caught:
        function(*args, **kwargs)
    assert caught.value.response["Error"]["Code"] == code
    return caught.value.response


def configuration(cloud, name="f"):
    return cloud.aws("lambda").get_function(FunctionName=name)["Configuration"]


def wait(cloud, name="f"):
    def settled():
        found = configuration(cloud, name)
        return found if found["State"] != "Pending" and found.get("LastUpdateStatus") != "InProgress" else None

    return wait_until(settled, step=0.02)
