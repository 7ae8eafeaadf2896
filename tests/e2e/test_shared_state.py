# SPDX-License-Identifier: Apache-2.0
"""One state for several machines, in S3: each machine has folders and a home of its own, and nothing else in common."""

import json
import shutil

import pytest

import stacks
from binary import Berth

pytestmark = pytest.mark.timeout(300)

BUCKET = "team-state"
PLACE = f"s3://{BUCKET}/research"


class Team:
    """Machines, and the bucket that they share."""

    def __init__(self, cloud, binary, folder):
        self.cloud, self.binary, self.folder = cloud, binary, folder
        self.s3 = cloud.direct("s3")
        self.s3.create_bucket(Bucket=BUCKET)
        self.version(True)

    def version(self, on):
        self.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled" if on else "Suspended"})

    def machine(self, name, declared=False):
        folder = self.folder / name
        folder.mkdir()
        made = Berth(self.binary, folder, self.cloud.url)
        if declared:
            made.declared = {"state": {"s3": PLACE}}
        else:
            made.declared = {}
            made.env["BERTH_STATE"] = PLACE
        return made

    def keys(self, prefix=""):
        found = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=f"research/{prefix}").get("Contents", [])
        return [item["Key"].removeprefix("research/") for item in found]

    def log(self):
        """The heads of all commits."""
        bodies = [self.s3.get_object(Bucket=BUCKET, Key=f"research/{key}")["Body"].read() for key in self.keys("log/")]
        return [json.loads(body.split(b"\n", 2)[1]) for body in bodies]

    def lease(self):
        return json.loads(self.s3.get_object(Bucket=BUCKET, Key="research/lease")["Body"].read())


@pytest.fixture
def team(cloud, binary, tmp_path, prebuilt):
    return Team(cloud, binary, tmp_path)


def write(machine, *names):
    documents = [stacks.stack(**machine.declared), *(stacks.environment(name) for name in names)]
    documents += [stacks.agent(f"of-{name}", environment=name) for name in names]
    machine.write("stack.yaml", stacks.text(*documents))


def test_two_machines_have_one_state(team):
    first, second = team.machine("first"), team.machine("second", declared=True)
    write(first, "a")
    write(second, "a")
    assert first("plan", "--json").expect(0).json()["summary"]["create"] > 0
    assert team.keys() == []  # a plan makes nothing
    first("apply", "--yes").expect(0)
    assert not (first.stack / ".berth").exists() and not (first.stack / "s3:").exists()
    for machine in (first, second):
        machine("plan", "--detailed-exitcode").expect(0)
        listed = machine("state", "list", "--json").expect(0).out
        place = machine("state", "show", "--json").expect(0).out
        assert "Environment/a" in listed and PLACE in place
        machine("drift").expect(0)
        assert "Environment/a" in machine("get").expect(0).out
        assert "of-a" in machine("map").expect(0).out
    write(second, "a", "b")
    second("apply", "--yes").expect(0)
    write(first, "a", "b")
    first("plan", "--detailed-exitcode").expect(0)
    first("state", "verify").expect(0)
    # Whatever is on the machine may go at any time.
    shutil.rmtree(first.home / ".cache")
    first("plan", "--detailed-exitcode").expect(0)
    first("destroy", "--yes").expect(0)
    second("state", "list").expect(0)
    numbers = [head["number"] for head in team.log()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert team.lease()["id"] == ""


def test_a_scheme_that_is_not_known_is_an_error(offline):
    offline.write("stack.yaml", stacks.text(stacks.stack()))
    for place, said in (("gs://bucket/x", "no state of the kind gs"), ("s3://bucket", "names no place"), ("s3://B/x", "names no bucket"),
                        ("s3://bucket/berth/x", "below berth/"), ("s3://bucket/a/../b", "the prefix of a state")):  # fmt: skip
        for verb in (["plan"], ["apply", "--yes"], ["state", "list"], ["get"]):
            result = offline(*verb, "--state", place).expect(1)
            assert said in result.err
    assert not (offline.stack / "s3:").exists() and not (offline.stack / "gs:").exists()
