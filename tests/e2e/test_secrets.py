# SPDX-License-Identifier: Apache-2.0
"""
Secrets are used and nowhere else: every byte that Berth leaves (state, plans, output, logs, URLs, core files) is searched for
credentials and sensitive variables, as they are and in the forms in which they would slip through.
"""

import base64
import http.client
import http.server
import json
import os
import resource
import shutil
import signal
import subprocess
import threading
import time
import urllib.parse

import pytest

import stacks
from controllers import PATIENCE
from lib.secrets_search import files_below, forms, search

# Slashes, plus signs and equal signs as real ones have them: each form below looks different then.
BASE = {"access_key": "AKIASEEDOFALLTESTS01", "secret": "Bq/9+Zr4vW1LmX7e/Ks+0TyHuJ2dPcNa6FgRiO5l", "token": "FwoGZXIvYXdzEB+base/SessionToken+4711=="}
ROLE = {"access_key": "ASIAROLEOFALLTESTS02", "secret": "Xk+2/Gt8nQ5ScV0b+Yw/7RzEjM3hLdUf9AoIpC1m", "token": "IQoJb3JpZ2luX2VjE/role+SessionToken/4712=="}
VARIABLES = ["hunter2/Correct+Horse=Battery&Staple", "hunter3/Wrong+Donkey=Charger&Clip", "hunter4/Somebody+Else=Wrote&This"]
ROLE_ARN = "arn:aws:iam::{account}:role/deployer"
FUNCTION = "alphaagent-env-x"


SECRETS = {
    "the secret key": BASE["secret"], "the session's token": BASE["token"], "the role's secret key": ROLE["secret"], "the role's token": ROLE["token"],
    **{f"sensitive variable {i}": text for i, text in enumerate(VARIABLES)},
}  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_the_search_finds(name):
    """The search itself, with a secret planted in the middle of something, in each form."""
    secret = SECRETS[name]
    for form, needle in forms(secret).items():
        assert search({"file": b"x" * 100 + needle + b"y"}, {name: secret}), form
    for shift in range(4):
        planted = base64.b64encode(b"q" * shift + secret.encode() + b"rst")
        assert search({"file": planted}, {name: secret}), shift
    assert search({"file": secret[:-1].encode()}, {name: secret}) == []


class Relay(http.server.ThreadingHTTPServer):
    """Between Berth and the proxy: keeps every request as it came, request line, headers and body."""

    daemon_threads = True

    def __init__(self, upstream):
        super().__init__(("127.0.0.1", 0), _Passing)
        self.upstream = urllib.parse.urlsplit(upstream).netloc
        self.lines, self.headers, self.bodies = [], [], []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """Whoever is killed hangs up: nothing to tell."""


class _Passing(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _pass(self):
        relay = self.server
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        relay.lines.append(self.requestline.encode())
        relay.headers.append(str(self.headers).encode())
        relay.bodies.append(body)
        onward = http.client.HTTPConnection(relay.upstream, timeout=60)
        onward.request(self.command, self.path, body, dict(self.headers))
        answer = onward.getresponse()
        data = answer.read()
        onward.close()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        length = answer.getheader("content-length") if self.command == "HEAD" else None
        self.send_header("content-length", length or str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass


@pytest.fixture
def relay(cloud):
    made = Relay(cloud.url)
    yield made
    made.shutdown()
    made.server_close()


def role_answer():
    return {
        "kind": "answer", "headers": {"Content-Type": "text/xml"}, "body":
        '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
        f"<AccessKeyId>{ROLE['access_key']}</AccessKeyId><SecretAccessKey>{ROLE['secret']}</SecretAccessKey><SessionToken>{ROLE['token']}</SessionToken>"
        "<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>",
    }  # fmt: skip


@pytest.fixture
def secretive(cloud, berth, prebuilt, relay):
    """Berth with credentials and variables worth hiding: keys of a session in a file, on top of them a role."""
    for keys in (BASE, ROLE):
        cloud.issue_credentials(keys["access_key"], keys["secret"], keys["token"])
    cloud.faults(({"operation": "AssumeRole"}, role_answer()))
    (berth.home / "credentials").write_text(
        f"[base]\naws_access_key_id = {BASE['access_key']}\naws_secret_access_key = {BASE['secret']}\naws_session_token = {BASE['token']}\n"
    )
    (berth.home / "config").write_text(f"[profile base]\nregion = {cloud.region}\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del berth.env[name]
    berth.env.update(AWS_PROFILE="base", AWS_ENDPOINT_URL=relay.url)

    def declare(secret, **spec):
        variables = {"OPEN": "plain", "TOKEN": {"value": secret, "sensitive": True}}
        role = {"aws": {"assumeRole": ROLE_ARN.format(account=cloud.account)}}
        berth.write("m.yaml", stacks.text(stacks.stack(**role), stacks.environment("x", variables=variables, **spec), stacks.agent("a", "x")))

    berth.declare = declare
    return berth


class Said:
    """Runs Berth and keeps what it said, by command."""

    def __init__(self, berth):
        self.berth, self.texts = berth, {}

    def __call__(self, *args, codes=(0, 2)):
        result = self.berth(*args)
        assert result.code in codes, result
        name = f"{len(self.texts)}: berth {' '.join(map(str, args))}"
        self.texts[name] = (result.out + result.err).encode()
        return result


def test_no_secret_is_left_anywhere(cloud, secretive, relay, tmp_path):
    berth, say = secretive, Said(secretive)
    plan, backup = tmp_path / "saved.plan", tmp_path / "backup"
    berth.declare(VARIABLES[0])
    say("plan", "-v")
    say("plan", "--json")
    say("apply", "--yes", "-v")
    berth.declare(VARIABLES[1], memoryMB=3000)
    for how in (["-v"], ["--json"], ["--format", "markdown"], ["--refresh", "none"], ["-o", plan]):
        say("plan", *how)
    say("apply", "--yes", "-v", plan)
    # Somebody else writes another value: neither his nor ours is shown.
    cloud.aws("lambda").update_function_configuration(
        FunctionName=FUNCTION, Environment={"Variables": {"OPEN": "changed", "TOKEN": VARIABLES[2]}}
    )  # fmt: skip
    cloud.faults(({"operation": "AssumeRole"}, role_answer()))
    for command in (["drift"], ["drift", "--json"], ["drift", "-v"], ["plan", "-v"], ["plan", "--json", "--refresh", "full"], ["plan", "--format", "markdown"]):
        say(*command)
    say("apply", "--yes", "--json", "-v")
    for command in (
        ["get"], ["get", "--json"], ["get", "Environment/x"], ["get", "Environment/x", "--json"], ["map"], ["map", "--json"], ["state", "list"],
        ["state", "show"], ["state", "show", "--json"], ["state", "show", "Environment/x"], ["state", "show", "Environment/x", "--json"], ["state", "verify"],
        ["state", "backup", backup], ["lock", "show"], ["refresh"], ["validate", "-v"], ["images", "-v"], ["doctor"],
    ):  # fmt: skip
        say(*command, codes=(0, 1, 2))
    # A failure says much: a denied call, a refused token, an answer that cannot be read.
    for fault in (
        {"kind": "error", "code": "AccessDeniedException", "status": 403, "message": "not yours"},
        {"kind": "error", "code": "ExpiredTokenException", "status": 403, "message": "The security token included in the request is expired"},
        {"kind": "answer", "status": 200, "headers": {"Content-Type": "application/json"}, "body": '{"cut'},
    ):
        cloud.faults(({"operation": "AssumeRole"}, role_answer()), ({"operation": "ListFunctions"}, fault))
        say("plan", "-v", codes=(1,))
    cloud.faults(({"operation": "AssumeRole"}, role_answer()))
    left = {**files_below(berth.stack), **{f"backup/{name}": data for name, data in files_below(backup).items()}, "saved.plan": plan.read_bytes()}
    assert any(name.endswith("data.mdb") for name in left) and "backup/data.mdb" in left
    manifest = left.pop("m.yaml")  # where the user wrote it
    assert VARIABLES[1].encode() in manifest
    assert search(left, SECRETS) == []
    assert search(say.texts, SECRETS) == []
    assert search(dict(enumerate(relay.lines)), SECRETS) == [], "in a URL"
    say("destroy", "--yes", "-v")
    left = files_below(berth.stack)
    left.pop("m.yaml")
    assert search({**left, **say.texts, "the lines": b"\n".join(relay.lines)}, SECRETS) == []


def test_on_one_machine_only_its_owners_record_holds_it(offline, tmp_path):
    """The sandbox needs the variable in clear: it stands in the environment's record, which nobody else may read."""
    say, plan = Said(offline), tmp_path / "saved.plan"

    def declare(secret):
        variables = {"TOKEN": {"value": secret, "sensitive": True}}
        offline.write("m.yaml", stacks.text(stacks.stack(provider="local"), stacks.environment("x", variables=variables)))

    declare(VARIABLES[0])
    say("apply", "--yes", "-v")
    declare(VARIABLES[1])
    for command in (["plan", "-v"], ["plan", "--json"], ["plan", "--format", "markdown"], ["plan", "-o", plan], ["apply", "--yes", "-v", plan]):
        say(*command)
    record = next((offline.stack / ".berth").rglob("environments/x.json"))
    document = json.loads(record.read_text())
    document["spec"]["variables"]["TOKEN"]["value"] = VARIABLES[2]
    record.write_text(json.dumps(document))
    for command in (["drift"], ["drift", "--json"], ["plan", "-v"], ["get", "Environment/x", "--json"], ["state", "show", "Environment/x", "--json"], ["state", "show", "--json"]):
        say(*command)
    assert record.stat().st_mode & 0o777 == 0o600 and record.parent.stat().st_mode & 0o777 == 0o700
    left = {**files_below(offline.stack), "saved.plan": plan.read_bytes()}
    assert search({"record": left.pop(str(record.relative_to(offline.stack)))}, {"variable": VARIABLES[2]}) != []
    left.pop("m.yaml")
    assert any(name.endswith("data.mdb") for name in left)
    assert search({**left, **say.texts}, SECRETS) == []


def test_what_is_sent_is_what_must_be(cloud, secretive, relay):
    """Secret keys are never sent at all; tokens in their header; variables in the body of the calls that are about them."""
    secretive.declare(VARIABLES[0])
    secretive.apply()
    sent = {"lines": b"\n".join(relay.lines), "headers": b"\n".join(relay.headers), "bodies": b"\n".join(relay.bodies)}
    assert search(sent, {name: SECRETS[name] for name in ("the secret key", "the role's secret key")}) == []
    assert {place.split(":")[0] for place in search(sent, {"token": ROLE["token"]})} == {"headers"}
    about = [line.decode().split()[1] for line, body in zip(relay.lines, relay.bodies, strict=True) if search({"": body}, {"variable": VARIABLES[0]})]
    assert about and all(path.startswith("/2015-03-31/functions") for path in about), about
    for header in b"\n".join(relay.headers).decode().splitlines():
        if ROLE["token"] in header or BASE["token"] in header:
            assert header.lower().startswith("x-amz-security-token:"), header


# --- core files ---


def dies_of(binary_args, env, folder, number, ready):
    """Runs it with core files allowed, kills it once `ready()`; the status that wait() gives."""
    folder.mkdir()

    def allow():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for one in (signal.SIGQUIT, signal.SIGABRT, signal.SIGSEGV):
            signal.signal(one, signal.SIG_DFL)

    process = subprocess.Popen(binary_args, cwd=folder, env=env, preexec_fn=allow, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 30 * PATIENCE
    while not ready(process.pid) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    os.kill(process.pid, number)
    _, status = os.waitpid(process.pid, 0)
    process.returncode = 0
    return status


@pytest.fixture
def dies(cloud, secretive, relay, tmp_path):
    """Kills an apply that waits for a function, with keys, tokens and variables in its memory; its status, and its folder."""
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        pytest.skip("core files cannot be allowed here: ulimit -Hc")
    cloud.settings(pending_s=60)
    secretive.declare(VARIABLES[0])
    shutil.copy(secretive.stack / "m.yaml", tmp_path / "m.yaml")
    command = [str(secretive.binary), "apply", "--yes", "-f", str(tmp_path / "m.yaml"), "--state", str(tmp_path / "state")]

    def created(_pid=None):
        return any(b"POST /2015-03-31/functions " in line for line in relay.lines)

    def kill(number, **env):
        folder = tmp_path / "dying"
        status = dies_of(command, {**secretive.env, **env}, folder, number, created)
        assert created(), "it had secrets in its memory"
        return status, folder

    return kill


@pytest.fixture(scope="session")
def sanitized(binary):
    """Sanitizers have handlers of their own for deadly signals, and may look into the process."""
    return any(word in binary.read_bytes() for word in (b"__asan_init", b"__tsan_init"))


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGABRT, signal.SIGSEGV])
def test_no_core_file(dies, sanitized, tmp_path, number):
    status, folder = dies(number)
    if not sanitized:
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == number
        assert not os.WCOREDUMP(status), "the kernel wrote a core file, or piped one to a program"
    assert files_below(folder) == {}
    assert search(files_below(tmp_path / "state"), SECRETS) == []


def test_core_files_for_who_asks_for_them(dies, sanitized, tmp_path):
    """So that the test above can fail: there is a core file then, and the search finds in it what it must not find elsewhere."""
    if sanitized:
        pytest.skip("sanitizers forbid core files themselves")
    other = dies_of(["/bin/sleep", "60"], {}, tmp_path / "other", signal.SIGQUIT, lambda pid: True)
    if not os.WCOREDUMP(other):
        pytest.skip("this kernel dumps no core of anything")
    status, folder = dies(signal.SIGQUIT, BERTH_ALLOW_CORE="1")
    assert os.WCOREDUMP(status)
    for name, data in files_below(folder).items():
        assert search({name: data}, {"variable": VARIABLES[0]}) != []


# --- saved plans ---


def edits(value, path=()):
    """Every way to change one thing of a JSON document: (path, edit), the edit working on a copy."""
    if isinstance(value, dict):
        yield path, lambda found: {**found, "added": 1}
        for name, member in value.items():
            yield (*path, name), None  # taken out
            yield from edits(member, (*path, name))
    elif isinstance(value, list):
        yield path, lambda found: [*found, "added"]
        for i, item in enumerate(value):
            yield (*path, i), None
            yield from edits(item, (*path, i))
    elif isinstance(value, bool):
        yield path, lambda found: not found
    elif isinstance(value, int):
        yield path, lambda found: found + 1
    elif isinstance(value, str):
        yield path, lambda found: found[:-1] + ("0" if found[-1:] != "0" else "1")
    else:
        yield path, lambda found: False


def edited(document, path, edit):
    copy = json.loads(json.dumps(document))
    if not path:
        return edit(copy)
    place = copy
    for step in path[:-1]:
        place = place[step]
    if edit:
        place[path[-1]] = edit(place[path[-1]])
    else:
        del place[path[-1]]
    return copy


@pytest.mark.only("moto", "no call is made: which stand-in is all the same")
def test_a_plan_that_was_tampered_with_anywhere_is_refused(cloud, berth, prebuilt, tmp_path):
    variables = {"TOKEN": {"value": VARIABLES[0], "sensitive": True}}
    environment = stacks.environment("x", variables=variables)
    berth.write("m.yaml", stacks.text(stacks.stack(), environment))
    berth.apply()
    environment["spec"]["memoryMB"] = 3000
    berth.write("m.yaml", stacks.text(stacks.stack(), environment, stacks.agent("a", "x")))
    plan = tmp_path / "saved.plan"
    berth("plan", "-o", plan, "--allow", "protected:Environment/x", "--target", "Environment/*", "--exclude", "Agent/a").expect(0)
    document = json.loads(plan.read_text())
    mark, count = cloud.mark(), 0
    for path, edit in edits(document):
        plan.write_text(json.dumps(edited(document, path, edit)))
        result = berth("apply", "--yes", plan)
        assert result.code in (1, 3) and str(plan) in result.err, f"{path}: {result}"
        assert result.code == 3 or path in ((), ("berthPlan",), ("lineage",), ("mac",)), f"{path}: {result}"
        count += 1
    assert cloud.calls(mark) == [], "it was refused before anybody was asked"
    assert count > 100
    plan.write_text(json.dumps(document))
    berth("apply", "--yes", plan).expect(0)
