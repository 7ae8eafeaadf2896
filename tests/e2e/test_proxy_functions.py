# SPDX-License-Identifier: Apache-2.0
"""Lambda as the proxy shows it, alike over both stand-ins: states, revisions, images, limits, lists."""

import time

import pytest

from lib.proxy_functions import REPOSITORY, configuration, make, refused, wait  # noqa: F401


def test_creation_is_pending_and_turns_the_revision_over(cloud, make):
    cloud.settings(held=True)
    made = make(TenancyConfig={"TenantIsolationMode": "PER_TENANT"}, Timeout=900, MemorySize=2048, EphemeralStorage={"Size": 1024}, Tags={"k": "v"}, Architectures=["x86_64"])
    assert (made["State"], made["StateReasonCode"]) == ("Pending", "Creating") and "LastUpdateStatus" not in made
    assert configuration(cloud)["RevisionId"] == made["RevisionId"]
    refused("ResourceConflictException", cloud.client("lambda").update_function_configuration, FunctionName="f", MemorySize=3000)
    cloud.settings(held=False)
    ready = wait(cloud)
    assert (ready["State"], ready["LastUpdateStatus"]) == ("Active", "Successful")
    assert ready["RevisionId"] != made["RevisionId"]
    assert configuration(cloud)["RevisionId"] == ready["RevisionId"]
    assert (ready["MemorySize"], ready["Timeout"], ready["EphemeralStorage"], ready["Architectures"]) == (2048, 900, {"Size": 1024}, ["x86_64"])
    assert ready["TenancyConfig"] == {"TenantIsolationMode": "PER_TENANT"}
    assert cloud.aws("lambda").get_function(FunctionName="f")["Tags"] == {"k": "v"}


def test_pending_of_one_function_only(cloud, make):
    cloud.settings(pending_s=0, pending_by_name={"slow": 30})
    make("slow")
    make("quick")
    assert configuration(cloud, "slow")["State"] == "Pending"
    assert configuration(cloud, "quick")["State"] == "Active"


def test_a_creation_that_fails(cloud, make):
    cloud.settings(fail_functions={"f": "The image is broken"})
    make()
    found = wait(cloud)
    assert (found["State"], found["StateReason"]) == ("Failed", "The image is broken")
    refused("ResourceConflictException", cloud.client("lambda").update_function_configuration, FunctionName="f", MemorySize=3000)


def test_configuration_update(cloud, make):
    make(Environment={"Variables": {"NAME": "x"}})
    before = wait(cloud)
    cloud.settings(held=True)
    client = cloud.client("lambda")
    response = refused(
        "PreconditionFailedException", client.update_function_configuration, FunctionName="f", MemorySize=3000, RevisionId="0" * 8
    )
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 412
    answer = client.update_function_configuration(
        FunctionName="f", MemorySize=3000, EphemeralStorage={"Size": 2048}, Environment={"Variables": {}},
        LoggingConfig={"LogFormat": "JSON"}, TracingConfig={"Mode": "Active"}, RevisionId=before["RevisionId"],
    )  # fmt: skip
    assert answer["RevisionId"] != before["RevisionId"]
    during = configuration(cloud)
    assert (during["State"], during["LastUpdateStatus"]) == ("Active", "InProgress")
    refused("ResourceConflictException", client.update_function_configuration, FunctionName="f", MemorySize=4000)
    cloud.settings(held=False)
    after = wait(cloud)
    assert after["LastUpdateStatus"] == "Successful" and after["RevisionId"] not in (answer["RevisionId"], before["RevisionId"])
    assert (after["MemorySize"], after["EphemeralStorage"], after["LoggingConfig"]["LogFormat"]) == (3000, {"Size": 2048}, "JSON")
    assert after["TracingConfig"] == {"Mode": "Active"}
    assert "Environment" not in after
    assert after["ConfigSha256"] != before["ConfigSha256"] and after["CodeSha256"] == before["CodeSha256"]


def test_an_update_that_fails(cloud, make):
    make()
    wait(cloud)
    cloud.settings(fail_updates={"f": "no access to the image"})
    cloud.client("lambda").update_function_configuration(FunctionName="f", MemorySize=3000)
    found = wait(cloud)
    assert (found["State"], found["LastUpdateStatus"], found["LastUpdateStatusReason"]) == ("Active", "Failed", "no access to the image")


def test_code_update_resolves_the_digest(cloud, make):
    make(Code={"ImageUri": cloud.image_uri(REPOSITORY, "latest")})
    wait(cloud)
    code = cloud.aws("lambda").get_function(FunctionName="f")["Code"]
    assert code["ResolvedImageUri"] == cloud.image_uri(REPOSITORY, digest=make.digest)
    newer = cloud.pushes.amd64(REPOSITORY, "latest", "another")
    code = cloud.aws("lambda").get_function(FunctionName="f")["Code"]
    assert code["ResolvedImageUri"].endswith(make.digest), "a moved tag does not deploy"
    cloud.client("lambda").update_function_code(FunctionName="f", ImageUri=cloud.image_uri(REPOSITORY, "latest"), Architectures=["arm64"])
    found = wait(cloud)
    assert found["CodeSha256"] == newer.removeprefix("sha256:") and found["Architectures"] == ["arm64"]
    assert cloud.aws("lambda").get_function(FunctionName="f")["Code"]["ResolvedImageUri"].endswith(newer)


@pytest.mark.parametrize(
    ("what", "words"),
    [("tag", "does not exist"), ("digest", "does not exist"), ("repository", "does not exist"), ("index", "media type"), ("region", "not valid")],
)
def test_images_that_lambda_refuses(cloud, make, what, words):
    uri = {
        "tag": cloud.image_uri(REPOSITORY, "absent"),
        "digest": cloud.image_uri(REPOSITORY, digest="sha256:" + "a" * 64),
        "repository": cloud.image_uri("absent/repository"),
        "index": cloud.image_uri("team/multi"),
        "region": cloud.image_uri(REPOSITORY).replace("us-east-1", "eu-west-1"),
    }[what]
    if what == "index":
        cloud.pushes.index("team/multi")
    response = refused("InvalidParameterValueException", make, "f", Code={"ImageUri": uri})
    assert words in response["Error"]["Message"] and uri in response["Error"]["Message"]
    assert cloud.functions() == {}


def test_roles_that_lambda_cannot_assume(cloud, make):
    client = cloud.client("lambda")
    image = {"ImageUri": cloud.image_uri(REPOSITORY)}
    absent = make.role.replace("test-role", "absent")
    response = refused("InvalidParameterValueException", client.create_function, FunctionName="f", PackageType="Image", Role=absent, Code=image)
    assert response["Error"]["Message"] == "The role defined for the function cannot be assumed by Lambda."
    cloud.settings(role_propagation_s=1.0)
    young = cloud.lambda_role("young")
    refused("InvalidParameterValueException", client.create_function, FunctionName="f", PackageType="Image", Role=young, Code=image)
    time.sleep(1.0)
    client.create_function(FunctionName="f", PackageType="Image", Role=young, Code=image)


def test_reserved_concurrency_leaves_100(cloud, make):
    make("one")
    make("two")
    client = cloud.client("lambda")
    client.put_function_concurrency(FunctionName="one", ReservedConcurrentExecutions=500)
    response = refused("InvalidParameterValueException", client.put_function_concurrency, FunctionName="two", ReservedConcurrentExecutions=401)
    assert "below its minimum value of [100]" in response["Error"]["Message"]
    client.put_function_concurrency(FunctionName="two", ReservedConcurrentExecutions=400)
    assert cloud.aws("lambda").get_function(FunctionName="two")["Concurrency"] == {"ReservedConcurrentExecutions": 400}
    client.delete_function_concurrency(FunctionName="one")
    assert "Concurrency" not in cloud.aws("lambda").get_function(FunctionName="one")
    client.put_function_concurrency(FunctionName="two", ReservedConcurrentExecutions=900)


def test_lists_come_by_50_without_states(cloud, make):
    cloud.settings(pending_s=0)
    for n in range(51):
        make(f"f-{n:02}", client=cloud.aws("lambda"))
    client = cloud.client("lambda")
    page = client.list_functions(MaxItems=1000)
    assert len(page["Functions"]) == 50 and page["NextMarker"]
    rest = client.list_functions(Marker=page["NextMarker"])
    assert [f["FunctionName"] for f in rest["Functions"]] == ["f-50"] and "NextMarker" not in rest
    shown = configuration(cloud, "f-50")
    assert set(shown) - set(rest["Functions"][0]) == {"State", "LastUpdateStatus"} | ({"RuntimeVersionConfig"} & set(shown))
    assert rest["Functions"][0]["RevisionId"] == shown["RevisionId"]


def test_tagged_resources_page_and_lag(cloud, make):
    for n in range(3):
        make(f"f-{n}", client=cloud.aws("lambda"), Tags={f"k{i}": "v" for i in range(40)})
    make("untagged", client=cloud.aws("lambda"))
    client = cloud.client("resourcegroupstaggingapi")
    page = client.get_resources(ResourceTypeFilters=["lambda:function"], ResourcesPerPage=2)
    assert len(page["ResourceTagMappingList"]) == 2
    rest = client.get_resources(ResourceTypeFilters=["lambda:function"], ResourcesPerPage=2, PaginationToken=page["PaginationToken"])
    assert [r["ResourceARN"].rpartition(":")[2] for r in rest["ResourceTagMappingList"]] == ["f-2"] and rest["PaginationToken"] == ""
    assert len(rest["ResourceTagMappingList"][0]["Tags"]) == 40
    cloud.settings(short_pages=True)
    pages = list(client.get_paginator("get_resources").paginate(ResourceTypeFilters=["lambda:function"]))
    assert pages[0]["ResourceTagMappingList"] == [] and sum(len(p["ResourceTagMappingList"]) for p in pages) == 3
    cloud.settings(short_pages=False, tag_lag_s=60)
    assert client.get_resources(ResourceTypeFilters=["lambda:function"])["ResourceTagMappingList"] == []


def test_deletion(cloud, make):
    make()
    first = wait(cloud)["RevisionId"]
    cloud.client("lambda").delete_function(FunctionName="f")
    refused("ResourceNotFoundException", cloud.client("lambda").get_function, FunctionName="f")
    refused("ResourceNotFoundException", cloud.client("lambda").update_function_configuration, FunctionName="f", MemorySize=3000)
    make()
    assert wait(cloud)["RevisionId"] != first


def test_tags_of_functions(cloud, make):
    arn = make(Tags={"a": "1", "b": "2"})["FunctionArn"]
    client = cloud.client("lambda")
    client.tag_resource(Resource=arn, Tags={"c": "3 / ü"})
    client.untag_resource(Resource=arn, TagKeys=["a", "b"])
    assert client.list_tags(Resource=arn)["Tags"] == {"c": "3 / ü"}


def test_log_groups_come_by_50(cloud):
    for n in range(52):
        cloud.direct("logs").create_log_group(logGroupName=f"/aws/lambda/g-{n:02}")
    client = cloud.client("logs")
    page = client.describe_log_groups(logGroupNamePrefix="/aws/lambda/")
    assert len(page["logGroups"]) == 50
    rest = client.describe_log_groups(logGroupNamePrefix="/aws/lambda/", nextToken=page["nextToken"])
    assert [g["logGroupName"] for g in rest["logGroups"]] == ["/aws/lambda/g-50", "/aws/lambda/g-51"]
