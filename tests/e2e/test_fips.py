# SPDX-License-Identifier: Apache-2.0
"""Where OpenSSL is configured for FIPS there is no MD5, and perhaps no SHA-1: everything works that needs neither."""

import json

import pytest
from fips import Fips

import stacks


@pytest.fixture(scope="session")
def fips(tmp_path_factory):
    found = Fips(tmp_path_factory.mktemp("fips"))
    assert found.openssl("dgst", "-sha256") and not found.openssl("dgst", "-md5"), "as a FIPS module has it"
    return found


@pytest.fixture
def restricted(berth, fips):
    berth.env.update(fips.env())
    return berth


def manifests(days=30):
    return stacks.text(
        stacks.stack(), stacks.environment("x", variables={"ABC": "d"}), stacks.agent("a", "x"), stacks.swarm("s", ["a"], "x"),
        stacks.policy("p", {"environments": ["x"]}, expireAfterDays=days),
    )  # fmt: skip


def test_a_stacks_whole_life(cloud, restricted, prebuilt):
    restricted.write("m.yaml", manifests())
    restricted.apply()
    restricted.assert_settled()
    restricted.write("m.yaml", manifests(31))
    restricted.apply()
    assert restricted("drift", "--json").expect(0).json()["drift"] == []
    restricted("plan", "--refresh", "full", "--detailed-exitcode").expect(0)
    restricted.destroy()
    assert all("content-md5" not in json.dumps(call).lower() for call in cloud.calls())


def test_records_are_read_where_their_sums_cannot_be_compared(cloud, restricted, prebuilt):
    """A state that is lost: by MD5 the ETag would say that a record is as it shall be."""
    restricted.write("m.yaml", manifests())
    restricted.apply()
    restricted("state", "rm", "Agent/a", "--yes").expect(0)
    mark = cloud.mark()
    assert [(c["address"], c["action"]) for c in restricted.plan()["changes"]] == [("Agent/a", "adopt")]
    assert [c["operation"] for c in cloud.calls(mark, service="s3") if c["operation"] == "GetObject"] == ["GetObject"]


def test_a_sign_in_whose_file_cannot_be_named(cloud, restricted):
    restricted.write("m.yaml", manifests())
    (restricted.home / "config").write_text(
        "[profile me]\nsso_session = corp\nsso_account_id = 123456789012\nsso_role_name = r\n"
        "[sso-session corp]\nsso_region = us-east-1\nsso_start_url = https://start.example\n"
    )
    del restricted.env["AWS_ACCESS_KEY_ID"], restricted.env["AWS_SECRET_ACCESS_KEY"]
    result = restricted("plan", env={"AWS_PROFILE": "me"}).expect(1)
    assert "SHA-1" in result.err and "another source of credentials" in result.err


def test_no_hashes_at_all(offline, fips):
    offline.write("m.yaml", manifests())
    result = offline("plan", env={"OPENSSL_CONF": str(fips.nothing), "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}).expect(1)
    assert "OpenSSL has no SHA-256" in result.err and "OPENSSL_CONF" in result.err
