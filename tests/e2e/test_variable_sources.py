# SPDX-License-Identifier: Apache-2.0
"""
Variables whose texts are kept in Secrets Manager and in Parameter Store: an apply fetches them, a plan sees a rotation without
asking for a value, and no byte of them is left anywhere but in the function.
"""

import json
import subprocess
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

import stacks
from lib.secrets_search import files_below, search
from proxy.settings import TEST_ACCESS_KEY, TEST_SECRET
from binary import is_watched

FUNCTION = "alphaagent-env-x"
ADDRESS = "Environment/x"
FIRST, SECOND, THIRD = "hunter5/First+Horse=Battery&Staple", "hunter6/Second+Donkey=Charger&Clip", "hunter7/Third+Mule=Plug&Nail"


def in_region(cloud, service, region):
    """boto3 straight to the stand-in in another region."""
    return boto3.session.Session().client(
        service, endpoint_url=cloud.standin.url, region_name=region, aws_access_key_id=TEST_ACCESS_KEY,
        aws_secret_access_key=TEST_SECRET, config=Config(proxies={}),
    )  # fmt: skip


@pytest.fixture
def sm(cloud):
    return cloud.direct("secretsmanager")


@pytest.fixture
def ssm(cloud):
    return cloud.direct("ssm")


@pytest.fixture
def team(berth, prebuilt):
    def declare(variables, **spec):
        berth.write("m.yaml", stacks.text(stacks.stack(), stacks.environment("x", variables=variables, **spec)))

    berth.declare = declare
    return berth


def make_secret(sm, text=FIRST, name="team/db"):
    return sm.create_secret(Name=name, SecretString=text)


def make_parameter(cloud, ssm, text=FIRST, name="/team/db/url"):
    ssm.put_parameter(Name=name, Value=text, Type="SecureString")
    return f"arn:aws:ssm:us-east-1:{cloud.account}:parameter/{name.lstrip('/')}"


def variables(cloud):
    return cloud.direct("lambda").get_function_configuration(FunctionName=FUNCTION).get("Environment", {}).get("Variables", {})


def environment_change(berth, code=0):
    (change,) = [c for c in berth.plan(code=code)["changes"] if c["address"] == ADDRESS]
    return change


def fields(change):
    return {field["path"]: (field["before"], field["after"]) for field in change["fields"]}


def test_from_manifest_to_function(cloud, team, sm, ssm):
    made = make_secret(sm)
    keyed = make_secret(sm, json.dumps({"user": SECOND, "port": 5432, "on": True}), "team/keyed")
    parameter, plain = make_parameter(cloud, ssm, THIRD), make_parameter(cloud, ssm, "plain", "plain")
    team.declare({
        "WHOLE": {"secret": made["ARN"]}, "USER": {"secret": keyed["ARN"] + ":user::"}, "PORT": {"secret": keyed["ARN"] + ":port::"},
        "ON": {"secret": keyed["ARN"] + ":on::"}, "URL": {"parameter": parameter}, "PLAIN": {"parameter": plain}, "MODE": "strict",
    })  # fmt: skip
    since = cloud.mark()
    planned = fields(environment_change(team))
    assert planned["variables.WHOLE.secret"] == (None, made["ARN"])
    assert planned["variables.WHOLE.version"] == (None, made["VersionId"])
    assert planned["variables.URL.version"] == (None, "1")
    asked = [call["operation"] for call in cloud.calls(since)]
    assert asked.count("DescribeSecret") == 2 and asked.count("DescribeParameters") == 1
    assert "GetSecretValue" not in asked and "GetParameters" not in asked

    since = cloud.mark()
    team.apply()
    asked = [call["operation"] for call in cloud.calls(since)]
    assert asked.count("GetSecretValue") == 2 and asked.count("GetParameters") == 1
    assert variables(cloud) == {"WHOLE": FIRST, "USER": SECOND, "PORT": "5432", "ON": "true", "URL": THIRD, "PLAIN": "plain", "MODE": "strict"}
    team.assert_settled()
    assert team.plan("--refresh", "none")["changes"] == []
    assert team.plan("--refresh", "full")["changes"] == []


@pytest.mark.parametrize("kind", ["secret", "parameter"])
def test_a_rotation_is_another_version(cloud, team, sm, ssm, kind):
    if kind == "secret":
        arn = make_secret(sm)["ARN"]
        rotate = lambda: sm.put_secret_value(SecretId=arn, SecretString=SECOND)["VersionId"]  # noqa: E731
    else:
        arn = make_parameter(cloud, ssm)
        rotate = lambda: str(ssm.put_parameter(Name="/team/db/url", Value=SECOND, Type="SecureString", Overwrite=True)["Version"])  # noqa: E731
    team.declare({"DB": {kind: arn}, "OTHER": "o"})
    team.apply()
    before = fields(environment_change(team)) if team.plan()["changes"] else {}
    assert before == {}
    version = rotate()
    changed = fields(environment_change(team))
    assert list(changed) == ["variables.DB.version"] and changed["variables.DB.version"][1] == version
    shown = team("plan", "-v").expect(0)
    assert version in shown.out and SECOND not in shown.out + shown.err
    team.apply()
    assert variables(cloud) == {"DB": SECOND, "OTHER": "o"}
    team.assert_settled()


def test_a_text_changed_by_hand_is_drift_and_put_back(cloud, team, sm):
    team.declare({"DB": {"secret": make_secret(sm)["ARN"]}})
    team.apply()
    cloud.aws("lambda").update_function_configuration(FunctionName=FUNCTION, Environment={"Variables": {"DB": SECOND, "THEIRS": "t"}})
    found = team("drift", "--json").expect(2)
    assert [f["path"] for d in found.json()["drift"] for f in d["fields"]] == ["variables.DB.value"]
    assert SECOND not in found.out and FIRST not in found.out
    team.apply()
    assert variables(cloud) == {"DB": FIRST, "THEIRS": "t"}
    team.assert_settled()


def test_from_and_to_plain_texts(cloud, team, sm, ssm):
    secret, parameter = make_secret(sm)["ARN"], make_parameter(cloud, ssm, SECOND)
    steps = [
        ({"value": THIRD, "sensitive": True}, THIRD), ({"secret": secret}, FIRST), ({"parameter": parameter}, SECOND), ("open", "open"),
        ({"value": THIRD, "sensitive": True}, THIRD), ("shown", "shown"), ({"secret": secret}, FIRST), (None, None),
    ]  # fmt: skip
    for variable, expected in steps:
        team.declare({"DB": variable, "KEPT": "k"} if variable else {"KEPT": "k"})
        for refresh in ("sweep", "full"):
            out = team("plan", "--json", "--refresh", refresh).expect(0).out
            assert not any(text in out for text in (FIRST, SECOND, THIRD)), out
        team.apply()
        assert variables(cloud) == {"KEPT": "k", **({"DB": expected} if expected else {})}
        team.assert_settled()


def test_a_version_that_a_manifest_names_stays(cloud, team, sm):
    made = make_secret(sm)
    sm.put_secret_value(SecretId=made["ARN"], SecretString=SECOND)
    team.declare({"OLD": {"secret": f"{made['ARN']}:::{made['VersionId']}"}, "BEFORE": {"secret": made["ARN"] + "::AWSPREVIOUS:"}, "NOW": {"secret": made["ARN"]}})
    team.apply()
    assert variables(cloud) == {"OLD": FIRST, "BEFORE": FIRST, "NOW": SECOND}
    sm.put_secret_value(SecretId=made["ARN"], SecretString=THIRD)
    assert {path.split(".")[1] for path in fields(environment_change(team))} == {"BEFORE", "NOW"}
    team.apply()
    assert variables(cloud) == {"OLD": FIRST, "BEFORE": SECOND, "NOW": THIRD}
    team.declare({"OLD": {"secret": f"{made['ARN']}:::{made['VersionId']}"}})
    team.apply()
    since = cloud.mark()
    team.assert_settled()
    assert cloud.calls(since, "secretsmanager") == []


def test_another_region(cloud, team):
    arn = in_region(cloud, "secretsmanager", "eu-west-1").create_secret(Name="far", SecretString=FIRST)["ARN"]
    in_region(cloud, "ssm", "eu-central-1").put_parameter(Name="/far", Value=SECOND, Type="SecureString")
    team.declare({"FAR": {"secret": arn}, "PARAMETER": {"parameter": f"arn:aws:ssm:eu-central-1:{cloud.account}:parameter/far"}})
    team.apply()
    assert variables(cloud) == {"FAR": FIRST, "PARAMETER": SECOND}
    team.assert_settled()


REFUSED = {
    "gone": lambda cloud, sm: f"arn:aws:secretsmanager:us-east-1:{cloud.account}:secret:nope-AbCdEf",
    "another partition": lambda cloud, sm: f"arn:aws-cn:secretsmanager:cn-north-1:{cloud.account}:secret:team/db-AbCdEf",
    "a region of another partition": lambda cloud, sm: f"arn:aws:secretsmanager:cn-north-1:{cloud.account}:secret:team/db-AbCdEf",
    "no such stage": lambda cloud, sm: make_secret(sm)["ARN"] + "::AWSPENDING:",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_refuses_the_change(cloud, team, sm, name):
    arn = REFUSED[name](cloud, sm)
    team.declare({"DB": {"secret": arn}})
    (refusal,) = environment_change(team, code=3)["refusals"]
    assert refusal["id"] == "secret-unusable" and arn.split("::")[0] in refusal["message"]
    since = cloud.mark()
    team.apply(code=3)
    assert cloud.changing_calls(since) == []


def test_a_secret_on_its_way_out_leaves_running_functions_alone(cloud, team, sm):
    arn = make_secret(sm)["ARN"]
    team.declare({"DB": {"secret": arn}})
    team.apply()
    sm.delete_secret(SecretId=arn, RecoveryWindowInDays=7)
    plan = team.plan()
    assert plan["changes"] == [] and any("is being deleted" in w and arn in w for w in plan["warnings"])
    # What is set beside it goes on, and it itself is not asked for; what sets it cannot.
    team.declare({"DB": {"secret": arn}, "NEW": "n"}, memoryMB=3008)
    since = cloud.mark()
    team.apply()
    assert variables(cloud) == {"DB": FIRST, "NEW": "n"} and cloud.calls(since, operation="GetSecretValue") == []
    assert team.plan()["changes"] == []
    team.declare({"DB": {"secret": arn + ":k::"}, "NEW": "n"}, memoryMB=3008)
    assert [r["id"] for r in environment_change(team, code=3)["refusals"]] == ["secret-unusable"]


def test_a_right_to_the_value_alone_will_do_with_leave(cloud, team, sm):
    arn = make_secret(sm)["ARN"]
    team.declare({"DB": {"secret": arn}})
    cloud.faults(({"operation": "DescribeSecret"}, {"kind": "error", "status": 400, "code": "AccessDeniedException", "message": "no"}))
    refusal = environment_change(team, code=3)["refusals"][0]
    assert arn in refusal["message"] and "secretsmanager:DescribeSecret" in refusal["message"]
    team.apply("--allow", "secret-unusable")
    assert variables(cloud) == {"DB": FIRST}
    cloud.faults()
    team.assert_settled()


def test_parameters_denied_or_gone(cloud, team, ssm):
    arn = make_parameter(cloud, ssm)
    cloud.faults(({"operation": "DescribeParameters"}, {"kind": "error", "status": 400, "code": "AccessDeniedException", "message": "no"}))
    team.declare({"DB": {"parameter": arn}})
    refusal = environment_change(team, code=3)["refusals"][0]
    assert arn in refusal["message"] and "ssm:DescribeParameters" in refusal["message"]
    cloud.faults()
    team.declare({"DB": {"parameter": arn + "/no"}})
    assert "does not exist" in environment_change(team, code=3)["refusals"][0]["message"]


FAILING = {
    "binary": ("", "", "it is binary"),
    "no such key": (json.dumps({"a": FIRST}), ":b::", 'no key "b"'),
    "no object": (FIRST, ":b::", "no JSON object"),
    "no text": (json.dumps({"b": {"c": FIRST}}), ":b::", "is no text"),
    "too large": (FIRST * 130, "", "bytes together"),
}


@pytest.mark.parametrize("name", FAILING)
def test_what_is_fetched_and_cannot_be_set(cloud, team, sm, name):
    """It fails before anything is made or deleted, and says nothing of the text."""
    text, suffix, words = FAILING[name]
    made = sm.create_secret(Name="b", SecretBinary=FIRST.encode()) if name == "binary" else make_secret(sm, text)
    team.declare({"DB": {"secret": made["ARN"] + suffix}})
    result = team("apply", "--yes", "-v").expect(1)
    assert words in result.err + result.out and FIRST not in result.out + result.err
    if name != "too large":
        assert made["ARN"] in result.err + result.out
    assert cloud.functions() == {}
    sm.put_secret_value(SecretId=made["ARN"], SecretString=json.dumps({"b": SECOND}))
    team.declare({"DB": {"secret": made["ARN"] + ":b::"}})
    team.apply()
    assert variables(cloud) == {"DB": SECOND}
    team.assert_settled()


@pytest.fixture
def residue(team, tmp_path):
    """Runs berth, and returns where a text stands in its memory once its main() has returned."""
    if is_watched(team.binary):
        pytest.skip("what is preloaded, and memory that stays, is not what a sanitizer expects")
    library, log = tmp_path / "residue.so", tmp_path / "residue.log"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, Path(__file__).with_name("residue.c")], check=True)

    def run(text, *args, code):
        log.write_text("")
        hidden = "".join(chr(ord(character) ^ 1) for character in text)
        team(*args, env={"LD_PRELOAD": str(library), "RESIDUE_TEXT": hidden, "RESIDUE_LOG": str(log)}).expect(code)
        *found, last = log.read_text().splitlines()
        assert last == "searched"
        return found

    return run


ERROR = {"kind": "error", "status": 400, "code": "InternalServiceError", "message": FIRST}
CUT = json.dumps({"SecretString": FIRST, "VersionId": "v"})[:-3]
LEFT = {
    "nothing fails": (None, 0), "the update is refused": (("UpdateFunctionConfiguration", ERROR), 1),
    "an error that quotes it": (("GetSecretValue", ERROR), 1),
    "an answer that is cut": (("GetSecretValue", {"kind": "answer", "status": 200, "body": CUT}), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", [*FAILING, *LEFT])
def test_no_byte_of_them_stays_in_memory(cloud, team, sm, ssm, residue, name):
    fault, code = LEFT.get(name, (None, 1))
    text, suffix, _ = FAILING.get(name, (FIRST, "", ""))
    made = sm.create_secret(Name="b", SecretBinary=FIRST.encode()) if name == "binary" else make_secret(sm, text)
    team.declare({"MODE": "strict"})
    team.apply()
    variables = {"DB": {"secret": made["ARN"] + suffix}}
    if code == 0:
        variables["URL"] = {"parameter": make_parameter(cloud, ssm, FIRST)}
    team.declare(variables)
    if fault:
        cloud.faults(({"operation": fault[0]}, fault[1]))
    assert residue(FIRST, "apply", "--yes", code=code) == []


def test_a_saved_plan_is_stale_after_a_rotation(cloud, team, sm, tmp_path):
    arn = make_secret(sm)["ARN"]
    team.declare({"DB": {"secret": arn}})
    team("plan", "-o", tmp_path / "p").expect(0)
    sm.put_secret_value(SecretId=arn, SecretString=SECOND)
    assert "plan-stale" in (lambda r: r.out + r.err)(team("apply", tmp_path / "p", "--yes").expect(3))
    team("plan", "-o", tmp_path / "p").expect(0)
    team("apply", tmp_path / "p", "--yes").expect(0)
    assert variables(cloud) == {"DB": SECOND}


def test_a_lost_answer_to_the_update(cloud, team, sm):
    arn = make_secret(sm)["ARN"]
    team.declare({"DB": {"secret": arn}})
    team.apply()
    version = sm.put_secret_value(SecretId=arn, SecretString=SECOND)["VersionId"]
    cloud.faults(({"operation": "UpdateFunctionConfiguration", "times": 1}, {"kind": "lost"}))
    team.apply()
    assert variables(cloud) == {"DB": SECOND}
    team.assert_settled()
    assert version in team("state", "show", ADDRESS).expect(0).out


def test_nothing_of_them_is_left_anywhere(cloud, team, sm, ssm, tmp_path):
    secret, parameter = make_secret(sm)["ARN"], make_parameter(cloud, ssm, SECOND)
    keyed = make_secret(sm, json.dumps({"k": THIRD}), "team/keyed")["ARN"]
    team.declare({"A1": {"secret": secret}, "B1": {"parameter": parameter}, "C1": {"secret": keyed + ":k::"}})
    runs = [team("plan", "-v", "-o", tmp_path / "saved"), team("apply", "-v", "--yes", "--json")]
    sm.put_secret_value(SecretId=secret, SecretString=FIRST + "2")
    cloud.faults(({"operation": "UpdateFunctionConfiguration"}, {
        "kind": "error", "status": 400, "code": "InvalidParameterValueException",
        "message": "the 4KB limit. String measured: " + json.dumps({"A1": FIRST + "2", "B1": SECOND, "C1": THIRD}),
    }))  # fmt: skip
    runs.append(team("apply", "-v", "--yes").expect(1))
    cloud.faults()
    for args in (["plan", "--format", "markdown"], ["apply", "--yes", "-v"], ["drift"], ["get", ADDRESS], ["state", "show", ADDRESS], ["state", "list", "--json"]):
        runs.append(team(*args))
    assert variables(cloud) == {"A1": FIRST + "2", "B1": SECOND, "C1": THIRD}
    written = {f"{i}: {' '.join(run.args)}": (run.out + run.err).encode() for i, run in enumerate(runs)}
    assert search({**written, **files_below(tmp_path)}, {"first": FIRST, "second": SECOND, "third": THIRD}) == []


def test_here_the_variable_is_not_set_and_that_is_said(offline):
    arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:team/db-AbCdEf"
    offline.write("m.yaml", stacks.text(stacks.document("Stack", "here", {"provider": "local"}), stacks.environment("x", variables={"DB": {"secret": arn}, "MODE": "m"})))
    offline.apply()
    offline.assert_settled()
    result = offline("exec", "--env", "x", "--lang", "sh", "-c", "echo ${DB-unset} $MODE").expect(0)
    assert result.out == "unset m\n" and "DB is not set" in result.err
