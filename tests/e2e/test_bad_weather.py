# SPDX-License-Identifier: Apache-2.0
"""What a user meets on a bad day: no credentials, no rights, no endpoint, no disk, a broken state. A message that says what to do; nothing else."""

import datetime
import json
import os
import random
import shutil
import subprocess

import pytest

import stacks

pytestmark = pytest.mark.sampled("moto")

IDENTITY = {"operation": "GetCallerIdentity"}


@pytest.fixture
def stack(cloud, berth, prebuilt):
    berth.write(
        "m.yaml",
        stacks.text(
            stacks.stack(), stacks.environment("x", logRetentionDays=7), stacks.agent("a", "x"), stacks.policy("p", {"all": True}, expireAfterDays=30),
        ),
    )  # fmt: skip
    return berth


def said(result, *words):
    """Exit 1, one "error:" that holds the words, no stack of anything."""
    result.expect(1)
    text = result.out + result.err
    assert "error:" in result.err or "failed" in text, result
    for word in words:
        assert word in text, (word, result)
    assert "Traceback" not in text and "(null)" not in text and "assert" not in text.lower(), result
    return text


# --- credentials --------------------------------------------------------------------------------------

NONE = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}


def test_no_credentials(cloud, stack):
    text = said(stack("plan", env=NONE), "no AWS credentials found", "AWS_ACCESS_KEY_ID")
    assert "profile" in text.lower()
    assert cloud.calls() == []


def test_a_profile_that_is_not_there(cloud, stack):
    said(stack("plan", env={**NONE, "AWS_PROFILE": "nobody"}), "nobody")
    without_region = {**NONE, "AWS_REGION": "", "AWS_DEFAULT_REGION": ""}
    text = said(stack("plan", env={**without_region, "AWS_PROFILE": "nobody"}), "the profile nobody, named by AWS_PROFILE, is in neither")
    assert "region" not in text
    said(stack("plan", env=without_region), "no AWS region")
    assert cloud.calls() == []


@pytest.mark.parametrize(
    "code, status",
    [("ExpiredToken", 403), ("ExpiredTokenException", 400), ("InvalidClientTokenId", 403), ("SignatureDoesNotMatch", 403)],
)
def test_credentials_that_are_no_good(cloud, stack, code, status):
    cloud.faults((IDENTITY, {"kind": "error", "status": status, "code": code, "message": "The security token included in the request is expired"}))
    text = said(stack("plan"), code)
    if "Expired" in code:
        assert "expired" in text and "sign in again" in text.lower()
    assert cloud.changing_calls() == []


def test_credentials_that_expire_in_the_middle(cloud, stack):
    """What was done is recorded; with new keys the next run does the rest."""
    cloud.faults(({"operation": "PutObject", "resource": "registry"}, {"kind": "error", "status": 400, "code": "ExpiredToken", "message": "The provided token has expired."}))
    said(stack("apply", "--yes"), "ExpiredToken", "Agent/a")
    assert "alphaagent-env-x" in cloud.functions()
    cloud.faults()
    mark = cloud.mark()
    stack.apply()
    assert [c["operation"] for c in cloud.changing_calls(mark)] == ["PutObject"]
    stack.assert_settled()


# --- rights -------------------------------------------------------------------------------------------

# Each service in its own protocol's form; what has to be allowed is named as IAM names it.
DENIED_READING = {
    "ListFunctions": ("AccessDeniedException", "lambda:ListFunctions"),
    "GetResources": ("AccessDeniedException", "tag:GetResources"),
    "DescribeLogGroups": ("AccessDeniedException", "logs:DescribeLogGroups"),
    "GetBucketTagging": ("AccessDenied", "s3:GetBucketTagging"),
    "GetBucketLifecycleConfiguration": ("AccessDenied", "s3:GetLifecycleConfiguration"),
    "ListObjectsV2": ("AccessDenied", "s3:ListBucket"),
    "GetRole": ("AccessDenied", "iam:GetRole"),
    "GetCallerIdentity": ("AccessDenied", "sts:GetCallerIdentity"),
}
DENIED_MAKING = {
    "CreateFunction": ("AccessDeniedException", "lambda:CreateFunction", "Environment/x"),
    "CreateLogGroup": ("AccessDeniedException", "logs:CreateLogGroup", "Environment/x"),
    "CreateBucket": ("AccessDenied", "s3:CreateBucket", "Stack/team"),
    "CreateRole": ("AccessDenied", "iam:CreateRole", "Stack/team"),
    "PutBucketLifecycleConfiguration": ("AccessDenied", "s3:PutLifecycleConfiguration", "WorkspacePolicy/p"),
    "PutObject": ("AccessDenied", "s3:PutObject", "Agent/a"),
}


def deny(cloud, operation, code, **match):
    message = "User: arn:aws:iam::000000000000:user/t is not authorized to perform this"
    cloud.faults(({"operation": operation, **match}, {"kind": "error", "status": 403, "code": code, "message": message}))


@pytest.mark.parametrize("operation", DENIED_READING)
def test_denied_reading(cloud, stack, operation):
    code, action = DENIED_READING[operation]
    stack.apply()
    cloud.aws("lambda").update_function_configuration(FunctionName="alphaagent-env-x", MemorySize=5000)
    mark = cloud.mark()
    deny(cloud, operation, code)
    text = said(stack("plan", "--refresh", "full"), action, code)
    said(stack("apply", "--yes", "--refresh", "full"), action)
    assert "allow" in text and cloud.changing_calls(mark) == []
    cloud.faults()
    stack.apply()
    stack.assert_settled()


# What a plan tells and does not depend on: operation, part of the warning
FACTS = {
    "GetAccountSettings": "how many executions the account may run at once is not known",
    "GetFunctionUrlConfig": "whether functions have URLs and permissions of others is not known",
    "GetPolicy": "whether functions have URLs and permissions of others is not known",
    "ListRolePolicies": "whether others gave the execution role more rights is not known",
    "ListAttachedRolePolicies": "whether others gave the execution role more rights is not known",
    "ListTagsForResource": "the tags of log groups are not known",
    "GetRole": "role/theirs is not known",
}
OUTAGES = {
    "404": {"kind": "error", "status": 404, "code": "NotFound", "message": ""},
    "501": {"kind": "error", "status": 501, "code": "NotImplemented", "message": ""},
    "503": {"kind": "error", "status": 503, "code": "ServiceUnavailable", "message": ""},
    "reset": {"kind": "reset"},
}


@pytest.mark.parametrize("outage", OUTAGES)
def test_what_only_warns_stops_no_plan(cloud, stack, outage):
    """One warning, and a plan; a second one of the same kind of fact is not told."""
    document = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}]})
    theirs = cloud.aws("iam").create_role(RoleName="theirs", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    more = [stacks.environment(name, logRetentionDays=7) for name in ("p", "q")]
    stack.write("more.yaml", stacks.text(*more))
    stack.apply()
    more[0]["spec"]["reservedConcurrency"] = 5
    stack.write("more.yaml", stacks.text(*more, stacks.environment("r", executionRole=theirs)))
    stack.env["AWS_MAX_ATTEMPTS"] = "1"
    for operation, words in FACTS.items():
        where = {"resource": "theirs"} if operation == "GetRole" else {"service": "logs"} if operation == "ListTagsForResource" else {}
        cloud.faults(({"operation": operation, **where}, OUTAGES[outage]))
        plan = stack.plan("--refresh", "full")
        assert cloud.fault_hits()[0] > 0, operation
        assert len([w for w in plan["warnings"] if words in w]) == 1, (operation, plan["warnings"])
        assert {c["address"]: c["action"] for c in plan["changes"]} == {"Environment/p": "update", "Environment/r": "create"}


def test_denied_reading_of_the_registry(cloud, stack):
    """An image that cannot be read cannot be judged: refused, with the right that is missing."""
    deny(cloud, "BatchGetImage", "AccessDeniedException")
    result = stack("plan")
    assert result.code in (1, 3) and "ecr:BatchGetImage" in result.out + result.err, result
    cloud.faults()
    stack.apply()


@pytest.mark.parametrize("operation", DENIED_MAKING)
def test_denied_making(cloud, stack, operation):
    code, action, address = DENIED_MAKING[operation]
    deny(cloud, operation, code, **({"resource": "registry"} if operation == "PutObject" else {}))
    said(stack("apply", "--yes"), action, code, address)
    cloud.faults()
    stack.apply()
    stack.assert_settled()


# --- endpoints ----------------------------------------------------------------------------------------


def test_the_endpoint_is_down(cloud, stack):
    stack.apply()
    text = said(stack("plan", env={"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, timeout=90), "127.0.0.1:1", "AWS_ENDPOINT_URL")
    assert "cannot reach" in text
    stack.assert_settled()


def test_one_services_endpoint_is_down(cloud, stack):
    stack.apply()
    said(stack("plan", env={"AWS_ENDPOINT_URL_LAMBDA": "http://127.0.0.1:1"}, timeout=90), "127.0.0.1:1", "AWS_ENDPOINT_URL_LAMBDA")


def test_an_endpoint_that_is_no_aws(cloud, stack):
    cloud.faults((IDENTITY, {"kind": "answer", "status": 200, "headers": {"Content-Type": "text/html"}, "body": "<html>Sign in to the hotel's network</html>"}))
    said(stack("plan"), "GetCallerIdentity")


# --- the disk -----------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 3 MB, or a skip where none can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill(folder, leave=0):
    """Until nothing more fits, then `leave` bytes less."""
    space = os.statvfs(folder)
    (folder / "ballast").write_bytes(b"x" * max(0, space.f_bavail * space.f_frsize - leave))


def test_no_disk_space_for_a_new_state(cloud, stack, small_disk):
    fill(small_disk)
    for command in (["plan"], ["apply", "--yes"]):
        said(stack(*command, "--state", small_disk / "state"), str(small_disk), "space")
    assert cloud.changing_calls() == []
    (small_disk / "ballast").unlink()
    stack.apply("--state", small_disk / "state")


@pytest.mark.parametrize("leave", [0, 4096, 12288, 40960])
def test_no_disk_space_in_the_middle(cloud, stack, small_disk, leave):
    """What cannot be written down first is not done."""
    state = ["--state", small_disk / "state"]
    stack.apply(*state)
    stack.write("m.yaml", stacks.text(stacks.stack(), *[stacks.environment(f"e-{n}") for n in range(20)]))
    serial = stack("state", "show", "--json", *state).json()["serial"]
    fill(small_disk, leave)
    result = stack("apply", "--yes", "--allow", "has-dependents", *state)
    if result.code == 0:
        pytest.skip("this much was room enough")
    text = said(result)
    assert "space" in text and str(small_disk) in text
    stack("state", "verify", *state).expect(0)
    assert stack("state", "show", "--json", *state).json()["serial"] >= serial
    (small_disk / "ballast").unlink()
    stack.apply(*state)
    assert stack("plan", "--json", *state).expect(0).json()["changes"] == []
    created = [c["params"]["FunctionName"] for c in cloud.calls(operation="CreateFunction") if c["status"] == 201]
    assert len(created) == len(set(created)), "nothing twice"


OUTPUTS = [
    "--help", "help", "help session", "plan --help", "version", "version --json", "manual", "manual manifests", "schema", "schema Agent", "explain",
    "explain Environment", "completion bash", "completion zsh", "completion fish", "validate", "validate --json", "plan", "plan --json", "get", "get --json",
    "get -o yaml", "map", "map --json", "drift", "drift --json", "refresh", "refresh --json", "images", "images --json", "lock show", "lock show --json",
    "state list", "state show", "state show --json", "state verify", "doctor", "doctor --json", "apply --yes", "apply --yes --json",
]  # fmt: skip


@pytest.fixture
def much(cloud, berth, prebuilt):
    """So much that what is printed of it is longer than the buffer of standard output."""
    berth.write("m.yaml", stacks.text(stacks.stack(), *[stacks.environment(f"x{number}") for number in range(30)]))
    berth.apply()
    return berth


def test_output_that_cannot_be_written(much):
    """Of every verb, long output and short: to a full disk, to a closed descriptor; a reader that ended is no error."""

    def run(output, end):
        command = ["sh", "-c", f'exec "$@" {end}', "sh", much.binary, *output.split()]
        return subprocess.run(command, cwd=much.stack, env=much.env, stdout=writer, stderr=subprocess.PIPE, timeout=60)

    reader, writer = os.pipe()
    os.close(reader)
    tried = [(output, ">/dev/full") for output in OUTPUTS] + [(output, ">&-") for output in ("version", "schema", "plan --json")]
    wrong = [(output, end, done) for output, end in tried if (done := run(output, end)).returncode != 1 or b"cannot write the result" not in done.stderr]
    wrong += [(output, done) for output in ("version", "schema", "plan --json") if (done := run(output, "")).returncode != 0 or done.stderr]
    os.close(writer)
    assert wrong == []


def test_a_folder_that_may_not_be_written(cloud, stack, tmp_path):
    (tmp_path / "file").write_text("")
    said(stack("apply", "--yes", "--state", tmp_path / "file" / "state"), "file")
    assert cloud.changing_calls() == []


# --- the state ----------------------------------------------------------------------------------------


def flip(data, at, bit=0):
    return data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


DAMAGE = {
    # A cut in the last pages may hit free ones alone, which is no damage: so it is made far in front.
    "truncated": lambda good: good[: 4 * 4096],
    "truncated within a page": lambda good: good[: 4 * 4096 + 1000],
    "truncated to one page": lambda good: good[:4096],
    "empty": lambda good: b"",
    "zeroed": lambda good: bytes(len(good)),
    "zeroed at its head": lambda good: bytes(8192) + good[8192:],
    "zeroed in its middle": lambda good: good[:8192] + bytes(len(good) - 8192),
    "overwritten with text": lambda good: b"apiVersion: berth/v1\nkind: Stack\n" * 3000,
    "text at its head": lambda good: b"# notes\n" + good[8:],
    "bit flipped in the first meta page": lambda good: flip(good, 16),
    "another program's": lambda good: b"SQLite format 3\x00" + bytes(40000),
}
COMMANDS = (["plan"], ["apply", "--yes"], ["destroy", "--yes"], ["drift"], ["get"], ["map"], ["state", "list"], ["state", "show"], ["state", "verify"], ["state", "rm", "Agent/a", "--yes"], ["lock", "show"])  # fmt: skip


@pytest.fixture
def broken(cloud, stack):
    """broken(bytes): every command says so and changes nothing; with the file put back, an empty plan."""
    stack.apply()
    path = stack.stack / ".berth" / "data.mdb"
    good = path.read_bytes()

    def check(data, commands=COMMANDS):
        path.write_bytes(data)
        mark = cloud.mark()
        for command in commands:
            text = said(stack(*command), ".berth")
            assert "backup" in text, (command, text)
        assert cloud.changing_calls(mark) == []
        assert path.read_bytes() == data, "it is left as it was found"
        path.write_bytes(good)
        stack.assert_settled()

    check.good, check.path = good, path
    return check


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_state(broken, damage):
    broken(DAMAGE[damage](broken.good))


def test_a_lost_state(cloud, stack):
    """The folder knows that there was one: its loss is no fresh start."""
    stack.apply()
    path = stack.stack / ".berth" / "data.mdb"
    kept = path.read_bytes()
    path.unlink()
    mark = cloud.mark()
    for command in COMMANDS:
        said(stack(*command), ".berth")
    assert cloud.changing_calls(mark) == [] and not path.exists()
    path.write_bytes(kept)
    stack.assert_settled()


def test_flipped_bits(cloud, stack):
    """Anywhere: an error that names the state, or (where nothing is stored, or nothing that this command reads) the very same answer. Never a crash."""
    stack.apply()
    path = stack.stack / ".berth" / "data.mdb"
    good = path.read_bytes()
    expected = stack("get", "--json").expect(0).json()
    chance = random.Random(4711)
    found = 0
    mark = cloud.mark()
    used = [at for at in range(0, len(good), 16) if any(good[at : at + 16])]
    for _ in range(120):
        path.write_bytes(flip(good, min(chance.choice(used) + chance.randrange(16), len(good) - 1), chance.randrange(8)))
        result = stack("get", "--json")
        if result.code == 0:
            assert result.json() == expected
        else:
            said(result, ".berth", "backup")
        if stack("state", "verify").code:
            found += 1
        else:
            assert result.code == 0
    assert found > 10, "the others hit pages that are free: old versions, which mean nothing"
    assert cloud.calls(mark) == []
    path.write_bytes(good)
    stack.assert_settled()


def test_a_state_of_another_time(cloud, stack, tmp_path):
    """An old copy put back is a sound state: what it does not know of is adopted, not made twice."""
    stack.apply()
    shutil.copytree(stack.stack / ".berth", tmp_path / "old")
    stack.write("more.yaml", stacks.text(stacks.environment("y")))
    stack.apply()
    shutil.rmtree(stack.stack / ".berth")
    shutil.copytree(tmp_path / "old", stack.stack / ".berth")
    assert [(c["address"], c["action"]) for c in stack.plan()["changes"]] == [("Environment/y", "adopt")]
    mark = cloud.mark()
    stack.apply()
    assert "CreateFunction" not in [c["operation"] for c in cloud.changing_calls(mark)]
    stack.assert_settled()


def test_a_clock_that_is_wrong(cloud, stack):
    """Off by an hour: corrected from the answers' Date, as the SDKs do."""
    cloud.settings(clock_skew_s=-3600)
    stack.apply()
    cloud.settings(clock_skew_s=0)
    assert datetime.datetime.now().year > 2000
    stack.assert_settled()
