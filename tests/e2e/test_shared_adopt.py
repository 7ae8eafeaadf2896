# SPDX-License-Identifier: Apache-2.0
"""A state in S3 that is lost is made again from another machine, and one that is there is not taken from."""

import pytest

from lib.shared_state import BUCKET, PLACE, team, write  # noqa: F401


pytestmark = pytest.mark.timeout(300)


def remove_objects(team, prefix="research/"):  # noqa: F811
    """Versions and all."""
    found = team.s3.list_object_versions(Bucket=BUCKET, Prefix=prefix)
    for item in found.get("Versions", []) + found.get("DeleteMarkers", []):
        team.s3.delete_object(Bucket=BUCKET, Key=item["Key"], VersionId=item["VersionId"])
    assert "Versions" not in team.s3.list_object_versions(Bucket=BUCKET, Prefix=prefix)


@pytest.fixture
def machines(team):  # noqa: F811
    """The first has applied; the second has the same manifests."""
    first, second = team.machine("first"), team.machine("second")
    for machine in (first, second):
        write(machine, "a")
    first("apply", "--yes").expect(0)
    return first, second


def test_a_state_that_is_gone_from_its_bucket_is_made_again(team, machines):  # noqa: F811
    first, second = machines
    remove_objects(team)
    assert "not-owned" in second("plan").expect(3).out
    taken = second("state", "adopt", "--yes", "--json").expect(0).json()
    assert taken["taken"] and "Environment/a" in [item["address"] for item in taken["resources"]]
    second("apply", "--yes").expect(0)
    for machine in (second, first):
        machine("plan", "--detailed-exitcode").expect(0)
        assert "Environment/a" in machine("state", "list").expect(0).out


def test_a_state_that_lives_in_s3_is_not_taken_from(team, machines):  # noqa: F811
    first, second = machines
    second.env["BERTH_STATE"] = f"s3://{BUCKET}/other"
    for allowed in ((), ("--allow", "lineage-lives")):
        result = second("state", "adopt", "--yes", "--json", *allowed).expect(3).json()
        assert not result["taken"] and [refusal["id"] for refusal in result["refusals"]] == ["lineage-lives"]
        assert PLACE in result["refusals"][0]["message"] and " lives" in result["refusals"][0]["message"]
    first("plan", "--detailed-exitcode").expect(0)
    remove_objects(team)
    second("state", "adopt", "--yes").expect(0)


def test_a_state_in_a_bucket_that_cannot_be_read_may_live(team, machines):  # noqa: F811
    _, second = machines
    second.env["BERTH_STATE"] = str(team.folder / "folder")
    remove_objects(team, "")
    team.s3.delete_bucket(Bucket=BUCKET)
    result = second("state", "adopt", "--yes", "--json").expect(3).json()
    message = result["refusals"][0]["message"]
    assert PLACE in message and "may live" in message and "cannot be" in message
    second("state", "adopt", "--yes", "--allow", "lineage-lives").expect(0)
