# SPDX-License-Identifier: Apache-2.0
"""What a commit may not choose: where requests go, whose credentials sign them, whose folders are written."""

import json
import socket
import threading

import pytest

import stacks
from controllers import Controller, source, wait_until
from git_servers import Repository

ROLE = "arn:aws:iam::123456789012:role/"
SECRET = "what-an-internal-service-answers"


class Trap:
    """A server that nobody may call. It counts connections, and answers all of them alike: 403 and a secret."""

    def __init__(self, body=None):
        body = body or json.dumps({"__type": "AccessDenied", "message": SECRET})
        self.answer = (
            f"HTTP/1.1 403 Forbidden\r\nx-amzn-requestid: {SECRET}\r\nContent-Type: text/plain\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
        ).encode()
        self.count = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.count += 1
            with connection:
                connection.recv(65536)
                connection.sendall(self.answer)

    def stop(self):
        # What waits in accept() is not woken by close() alone.
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@pytest.fixture
def trap():
    server = Trap()
    yield server
    server.stop()


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repositories")


@pytest.fixture
def make(offline, repository):
    made = []

    def controller(**spec):
        made.append(Controller(offline, source("lab", f"file://{repository.bare}", **spec)))
        return made[-1]

    yield controller
    for one in made:
        one.stop()


def manifests(provider="aws", **spec):
    return {
        "stack.yaml": stacks.text(stacks.document("Stack", "lab", {"provider": provider, **spec})),
        "m.yaml": stacks.text(stacks.environment("etl"), stacks.agent("loader", "etl")),
    }


ELSEWHERE = "111122223333.dkr.ecr.us-east-1.amazonaws.com"


@pytest.mark.parametrize("may", ["222222222222.dkr.ecr.*.amazonaws.com", "111122223333.dkr.ecr.eu-*.amazonaws.com", None])
def test_a_registry_that_a_commit_names_is_not_asked(make, repository, trap, may):
    """Neither by an environment nor by an Image that one names, though pins send all requests to where somebody counts them."""
    image = {"registry": ELSEWHERE, "repository": "team/tool", "tag": "v1"}
    controller = make(pins={"aws": {"endpointUrl": trap.url}}, **({"may": {"registries": [may]}} if may else {}))
    files = manifests(aws={"region": "us-east-1"})
    files["m.yaml"] = stacks.text(stacks.environment("etl", image=image))
    controller.start().wait_for("NotPermitted", repository.commit(files))
    files["m.yaml"] = stacks.text(stacks.document("Image", "tool", image), stacks.environment("etl", image="tool"))
    condition = controller.wait_for("NotPermitted", repository.commit(files))
    assert "registry" in condition["message"]
    assert trap.count == 0


@pytest.mark.parametrize("mode", ["apply", "approve", "plan"])
def test_an_endpoint_that_a_commit_names_is_not_called(make, repository, trap, mode):
    commit = repository.commit(manifests(aws={"endpointUrl": trap.url}))
    controller = make(mode=mode).start()
    condition = controller.wait_for("NotPermitted", commit)
    assert f"{commit[:12]}:stack.yaml:" in condition["message"] and "pins.aws.endpointUrl" in condition["message"]
    assert controller.condition("Stalled")["status"] is True
    controller.sync(code=1)
    assert trap.count == 0
    assert SECRET not in controller.lines()
    # A commit that takes it back is as good as any.
    controller.wait_for("Applied" if mode != "plan" else "Planned", approve(controller, repository, mode))


def approve(controller, repository, mode):
    """A commit for this machine alone, approved where that is asked for."""
    good = repository.commit(manifests("local"))
    if mode == "approve":
        controller.wait_for("WaitingForApproval", good)
        controller("approve", "lab", "--wait").expect(0)
    return good


def test_a_profile_that_a_commit_names_is_not_asked(make, repository, offline, tmp_path):
    """Its credential_process would leave a file behind."""
    touched = tmp_path / "touched"
    (offline.home / "config").write_text(f"[profile admin]\nregion = us-east-1\ncredential_process = /usr/bin/touch {touched}\n")
    commit = repository.commit(manifests(aws={"profile": "admin"}))
    controller = make(mode="approve").start()
    controller.wait_for("NotPermitted", commit)
    controller.sync(code=1)
    assert not touched.exists()
    controller.stop()
    # Pinned, and left out or said alike, it is that one.
    controller.configure(source("lab", f"file://{repository.bare}", mode="approve", pins={"aws": {"profile": "admin"}}))
    controller.start()
    wait_until(touched.exists)


@pytest.mark.parametrize("spec", [{"assumeRole": ROLE + "admin"}, {"executionRole": ROLE + "admin"}, {"profile": "x", "endpointUrl": "http://x"}])
def test_what_a_commit_may_not_name_calls_nothing(make, repository, trap, offline, spec):
    """Not even the endpoint that this controller's own environment names."""
    offline.env["AWS_ENDPOINT_URL"] = trap.url
    commit = repository.commit(manifests(aws=spec))
    controller = make(may={"executionRoles": [ROLE + "team-*"]}).start()
    controller.wait_for("NotPermitted", commit)
    controller.sync(code=1)
    assert trap.count == 0


@pytest.mark.parametrize("field", ["images", "workspaces"])
def test_a_folder_that_a_commit_names_is_not_touched(make, repository, tmp_path, field):
    folder = tmp_path / "elsewhere"
    commit = repository.commit(manifests("local", local={field: str(folder)}))
    controller = make().start()
    controller.wait_for("NotPermitted", commit)
    assert not folder.exists()
    controller.stop()
    # The Controller permits it: the commit is looked at again, though it is the same.
    controller.configure(source("lab", f"file://{repository.bare}", may={field: [str(folder)]}))
    controller.start().wait_for("Applied", commit)


def test_the_last_good_commit_is_held_to_the_pins_too(make, repository, trap):
    """What was in force under another Controller's file is not put back under this one."""
    first = repository.commit(manifests("local"))
    controller = make().start()
    controller.wait_for("Applied", first)
    bad = repository.commit(manifests("local", aws={"endpointUrl": trap.url}))
    controller.wait_for("NotPermitted", bad)
    controller.stop()
    controller.configure(source("lab", f"file://{repository.bare}", pins={"provider": "aws"}))
    controller.start()
    wait_until(lambda: "the last good commit" in controller.lines() and "pins aws for source lab" in controller.lines())
    assert trap.count == 0


def test_a_pinned_endpoint_is_used_and_not_quoted(make, repository, trap):
    """A commit says nothing of it. What answers there may be anything that this machine can reach: it is not read out."""
    repository.commit(manifests(aws={"region": "us-east-1"}))
    controller = make(pins={"aws": {"endpointUrl": trap.url}}).start()
    condition = controller.wait_for("PlanFailed")
    assert trap.count > 0
    assert "403" in condition["message"] and "not AWS's own" in condition["message"]
    assert SECRET not in json.dumps(controller.status()) + controller.lines()


@pytest.mark.parametrize(
    "body",
    [f"<Error><Code>{SECRET}</Code><Message>{SECRET}</Message><RequestId>{SECRET}</RequestId></Error>", SECRET, json.dumps({"code": SECRET})],
)
def test_no_endpoint_but_aws_is_quoted(offline, body):
    trap = Trap(body)
    try:
        offline.env["AWS_ENDPOINT_URL"] = trap.url
        offline.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x")))
        result = offline("plan").expect(1)
        assert trap.count > 0 and SECRET not in result.out + result.err
        assert SECRET not in offline("plan", "--json").err
    finally:
        trap.stop()


def test_pinned_to_the_stand_in(cloud, berth, prebuilt, repository):
    """Region, account and endpoint pinned, a role permitted by its pattern: a commit that leaves them out lives there."""
    role = cloud.lambda_role("team-x")
    url, pattern = berth.env.pop("AWS_ENDPOINT_URL"), role[: role.rindex("/")] + "/team-*"
    pins = {"provider": "aws", "aws": {"region": cloud.region, "account": cloud.account, "endpointUrl": url}}
    commit = repository.commit(manifests(aws={"executionRole": role}))
    controller = Controller(berth, source("lab", f"file://{repository.bare}", pins=pins, may={"executionRoles": [pattern, pattern.replace(cloud.account, "999999999999")]}))
    try:
        controller.start().wait_for("Applied", commit, timeout=60)
        assert list(cloud.functions()) == ["alphaagent-env-etl"]
        # Any other account is refused before it is asked, and so is any other role.
        mark = cloud.mark()
        other = repository.commit(manifests(aws={"executionRole": role.replace(cloud.account, "999999999999"), "account": "999999999999"}))
        controller.wait_for("NotPermitted", other)
        another = repository.commit(manifests(aws={"executionRole": role.replace("team-x", "admin")}))
        controller.wait_for("NotPermitted", another)
        assert cloud.calls(mark) == []
    finally:
        controller.stop()


@pytest.mark.parametrize("variable", [
    {"secret": "arn:aws:secretsmanager:us-east-1:123456789012:secret:other/db-AbCdEf"},
    {"secret": "arn:aws:secretsmanager:us-east-1:999999999999:secret:team/db-AbCdEf:123456789012:secret:"},
    {"parameter": "arn:aws:ssm:us-east-1:123456789012:parameter/team/db"},
])  # fmt: skip
def test_a_secret_that_a_commit_names_is_not_read(make, repository, trap, offline, variable):
    """Whose text this machine's credentials could read, for code that the commit brings along."""
    offline.env["AWS_ENDPOINT_URL"] = trap.url
    files = manifests()
    files["m.yaml"] = stacks.text(stacks.environment("etl", variables={"DB": variable}), stacks.agent("loader", "etl"))
    commit = repository.commit(files)
    controller = make(may={"secrets": ["arn:aws:secretsmanager:*:123456789012:secret:team/*"]}).start()
    condition = controller.wait_for("NotPermitted", commit)
    assert f"{commit[:12]}:m.yaml:" in condition["message"] and "may." in condition["message"]
    controller.sync(code=1)
    assert trap.count == 0


KEY = "arn:aws:kms:us-east-1:999999999999:key/11111111-2222-3333-4444-555555555555"
THEIRS = {"subnets": ["subnet-0123456789abcdef0"], "securityGroups": ["sg-0123456789abcdef0"]}


@pytest.mark.parametrize("aws, environment, names", [
    ({"network": THEIRS}, {}, "may.subnets"),
    ({"network": "isolated"}, {"network": THEIRS}, "may.subnets"),
    ({"network": "open"}, {}, "pins for source lab"),
    ({"network": "isolated"}, {"network": "open"}, "pins for source lab"),
    ({"kmsKey": KEY}, {}, "pins.aws.kmsKey"),
])  # fmt: skip
def test_a_network_or_key_that_a_commit_names_is_not_used(make, repository, trap, offline, aws, environment, names):
    """Code of the same commit would run beside an account's databases; and whoever owns the key could lock the data up."""
    offline.env["AWS_ENDPOINT_URL"] = trap.url
    files = manifests(aws=aws)
    files["m.yaml"] = stacks.text(stacks.environment("etl", **environment), stacks.agent("loader", "etl"))
    commit = repository.commit(files)
    pins = {"aws": {"network": "isolated"}}
    controller = make(pins=pins, may={"securityGroups": THEIRS["securityGroups"]}).start()
    condition = controller.wait_for("NotPermitted", commit)
    assert names in condition["message"], condition["message"]
    controller.sync(code=1)
    assert trap.count == 0


def test_a_commit_without_a_network_gets_the_pinned_one(cloud, berth, prebuilt, repository):
    """And one that names what the source lists runs there."""
    ec2 = cloud.aws("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    theirs = {
        "subnets": [ec2.create_subnet(VpcId=vpc, CidrBlock="10.1.0.0/24")["Subnet"]["SubnetId"]],
        "securityGroups": [ec2.create_security_group(GroupName="theirs", Description="theirs", VpcId=vpc)["GroupId"]],
    }

    def subnets():
        found = cloud.aws("lambda").get_function(FunctionName="alphaagent-env-etl")["Configuration"].get("VpcConfig")
        return (found or {}).get("SubnetIds") or []

    pins = {"provider": "aws", "aws": {"region": cloud.region, "endpointUrl": berth.env.pop("AWS_ENDPOINT_URL"), "network": "isolated"}}
    commit = repository.commit(manifests())
    controller = Controller(berth, source("lab", f"file://{repository.bare}", pins=pins, may=theirs))
    try:
        controller.start().wait_for("Applied", commit, timeout=60)
        assert subnets() and subnets() != theirs["subnets"]
        controller.wait_for("Applied", repository.commit(manifests(aws={"network": theirs})), timeout=60)
        assert subnets() == theirs["subnets"]
    finally:
        controller.stop()
