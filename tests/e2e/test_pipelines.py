# SPDX-License-Identifier: Apache-2.0
"""
The pipelines of docs/pipelines.md, run line by line against the stand-in for AWS. Only what is the platform's own is stood in
for: its contexts, `uses:` steps, artifacts, comments. There are no runners for GitHub's and GitLab's files outside of them, so
their keys are checked against those that the platforms document.
"""

import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse

import pytest

import binary
import stacks
from servers import ACCOUNTS

PLACE = "s3://team-berth/research"
PAGE = (binary.ROOT / "docs/pipelines.md").read_text()
pytestmark = pytest.mark.only("ministack", "the lines are the same everywhere")


def block(language, first):
    found = [text for name, text in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.S | re.M) if name == language and text.startswith(first)]
    assert len(found) == 1, first
    return found[0]


BEFORE = stacks.text(stacks.stack(), stacks.environment("notebooks"), stacks.agent("reader", "notebooks"))
AFTER = stacks.text(stacks.stack(), stacks.environment("notebooks", memoryMB=4096), stacks.environment("crawler"), stacks.agent("reader", "notebooks"))


class Platform:
    """A repository, runners that keep nothing, the programs on them, and a machine with a disk."""

    def __init__(self, berth, cloud, folder):
        self.berth, self.cloud, self.folder = berth, cloud, folder
        self.state, self.programs, self.artifacts = folder / "var", folder / "bin", folder / "artifacts"
        self.origin = folder / "origin"
        for made in self.state, self.programs, self.artifacts, self.origin / "agents":
            made.mkdir(parents=True)
        (self.programs / "berth").symlink_to(berth.binary)
        cloud.direct("s3").create_bucket(Bucket="team-berth")
        self.git("init", "--quiet", "--initial-branch=main")
        self.runs = 0

    def git(self, *words):
        command = ["git", "-C", str(self.origin), "-c", "user.name=A", "-c", "user.email=a@example.com", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, manifests):
        (self.origin / "agents/stack.yaml").write_text(manifests)
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", "a change")
        return self.git("rev-parse", "HEAD")

    def checkout(self):
        self.runs += 1
        made = self.folder / f"work{self.runs}"
        subprocess.run(["git", "clone", "--quiet", str(self.origin), str(made)], check=True)
        return made

    def adapt(self, text):
        """The machine's place for the state, and the stand-in's region and account."""
        return text.replace("/var/lib/berth", str(self.state)).replace("eu-west-1", "us-east-1").replace("123456789012", ACCOUNTS["ministack"])

    def environment(self, **more):
        keep = {name: value for name, value in self.berth.env.items() if name not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")}
        home = self.folder / f"home{self.runs}"
        home.mkdir(exist_ok=True)
        return {**keep, "HOME": str(home), "PATH": f"{self.programs}:{keep['PATH']}", "no_proxy": "127.0.0.1", **more}

    def shell(self, script, work, env, options=("-e",)):
        done = subprocess.run(["bash", *options, "-c", script], cwd=work, env=env, capture_output=True, text=True, timeout=240)
        assert "Sanitizer" not in done.stderr, done.stderr
        return done

    def history(self, place=PLACE):
        shown = self.berth("state", "show", "--json", "--state", str(place)).expect(0).json()
        return shown["history"]


@pytest.fixture
def platform(berth, cloud, tmp_path, prebuilt):
    return Platform(berth, cloud, tmp_path / "platform")


def changed(cloud, mark):
    """Calls that change something, but for the state's own objects: the first plan that is saved makes an empty state."""
    return [call for call in cloud.changing_calls(mark) if not call["params"].get("Key", "").startswith("research/")]


def functions(cloud):
    return sorted(cloud.functions())


# --- GitHub Actions ---

GITHUB = block("yaml", "# .github/workflows/berth.yaml")
# "Workflow syntax for GitHub Actions".
GITHUB_KEYS = {
    "workflow": {"name", "run-name", "on", "permissions", "env", "defaults", "concurrency", "jobs"},
    "job": {"name", "permissions", "needs", "if", "runs-on", "environment", "concurrency", "outputs", "env", "defaults", "steps",
            "timeout-minutes", "strategy", "continue-on-error", "container", "services", "uses", "with", "secrets"},
    "step": {"id", "if", "name", "uses", "run", "working-directory", "shell", "with", "env", "continue-on-error", "timeout-minutes"},
}  # fmt: skip
# Of each action's action.yml.
GITHUB_INPUTS = {
    "actions/checkout": {"persist-credentials", "fetch-depth", "ref", "path"},
    "actions/upload-artifact": {"name", "path", "retention-days", "if-no-files-found"},
    "actions/download-artifact": {"name", "path"},
    "aws-actions/configure-aws-credentials": {"role-to-assume", "aws-region", "role-session-name"},
}
# As GitHub's gh: comments in a file, filtered by the jq that it has built in.
GH = """#!{python}
import json, os, subprocess, sys
words = sys.argv[1:]
assert words.pop(0) == "api" and os.environ["GH_TOKEN"] == "the-token", words
method, fields, jq, paths = "GET", {{}}, None, []
while words:
    word = words.pop(0)
    if word == "--method": method = words.pop(0)
    elif word == "--jq": jq = words.pop(0)
    elif word == "-F":
        name, value = words.pop(0).split("=", 1)
        fields[name] = open(value[1:]).read() if value.startswith("@") else value
    elif word not in ("--paginate", "--silent"): paths.append(word)
[path] = paths
comments = json.load(open({file!r}))
if method == "GET":
    assert path == "repos/team/agents/issues/7/comments", path
    print(subprocess.run(["jq", "-r", jq], input=json.dumps(comments), capture_output=True, text=True, check=True).stdout, end="")
else:
    assert len(fields["body"]) <= 65536
    if method == "POST":
        assert path == "repos/team/agents/issues/7/comments", path
        comments.append({{"id": 100 + len(comments), "body": fields["body"]}})
    else:
        [found] = [c for c in comments if path == f"repos/team/agents/issues/comments/{{c['id']}}"]
        found["body"] = fields["body"]
    json.dump(comments, open({file!r}, "w"))
"""


class GitHub:
    def __init__(self, platform):
        self.platform = platform
        self.workflow = stacks.read(platform.adapt(GITHUB))[0]
        self.file = platform.folder / "comments.json"
        self.file.write_text(json.dumps([{"id": 99, "body": "please have a look"}]))
        program = platform.programs / "gh"
        program.write_text(GH.format(python=sys.executable, file=str(self.file)))
        program.chmod(0o755)

    def comments(self):
        return [comment["body"] for comment in json.loads(self.file.read_text())]

    def contexts(self, event, sha, fork):
        pull = {"number": 7, "head": {"repo": {"full_name": "somebody/agents" if fork else "team/agents"}}}
        github = {
            "event_name": event, "repository": "team/agents", "token": "the-token", "sha": sha,
            "ref": "refs/heads/main" if event == "push" else "refs/pull/7/merge",
            "event": {"pull_request": pull} if event == "pull_request" else {},
        }  # fmt: skip
        return {"github": github, "steps": {}}

    def value(self, expression, contexts):
        """The little of the expression language that the workflow uses."""

        def look(match):
            found = contexts
            for part in match.group(0).split("."):
                found = (found or {}).get(part)
            return repr(found)

        python = re.sub(r"'[^']*'|[a-z_]+(?:\.[a-z_]+)+", lambda m: m.group(0) if m.group(0)[0] == "'" else look(m), expression)
        return eval(python.replace("&&", " and ").replace("||", " or "))

    def fill(self, text, contexts):
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda m: str(self.value(m.group(1), contexts) or ""), str(text))

    def run(self, event, sha, between=lambda: None, fork=False):
        """The result of each job that ran: its last exit code."""
        results = {}
        for name, job in self.workflow["jobs"].items():
            contexts = self.contexts(event, sha, fork)
            if results.get(job.get("needs", name), 0) != 0 or (job.get("needs") and job["needs"] not in results):
                continue
            if "if" not in job or self.value(job["if"], contexts):
                results[name] = self.job(job, contexts)
                between()
        return results

    def job(self, job, contexts):
        env = self.platform.environment(GITHUB_SHA=contexts["github"]["sha"], GITHUB_ACTIONS="true")
        env.update({name: self.fill(value, contexts) for name, value in self.workflow["env"].items()})
        work = None
        for number, step in enumerate(job["steps"]):
            if "if" in step and not self.value(step["if"], contexts):
                continue
            if "uses" in step:
                work = self.use(step, job, work, env)
                continue
            outputs = self.platform.folder / "output"
            outputs.write_text("")
            more = {name: self.fill(value, contexts) for name, value in step.get("env", {}).items()}
            more.update(GITHUB_OUTPUT=str(outputs), GITHUB_STEP_SUMMARY=str(self.platform.folder / "summary.md"))
            done = self.platform.shell(self.fill(step["run"], contexts), work, {**env, **more})
            self.last = done
            if done.returncode:
                return done.returncode
            if "id" in step:
                contexts["steps"][step["id"]] = {"outputs": dict(line.split("=", 1) for line in outputs.read_text().splitlines())}
        return 0

    def use(self, step, job, work, env):
        action, given = step["uses"].split("@")[0], step.get("with", {})
        if action == "actions/checkout":
            assert job["permissions"]["contents"] == "read"
            return self.platform.checkout()
        if action == "aws-actions/configure-aws-credentials":
            assert job["permissions"]["id-token"] == "write" and given["role-to-assume"].startswith("arn:aws:iam::")
            env.update(AWS_REGION=given["aws-region"], **{k: v for k, v in self.platform.berth.env.items() if k.startswith("AWS_") and "KEY" in k})
        elif action == "actions/upload-artifact":
            shutil.copy(work / given["path"], self.platform.artifacts / given["name"])
        elif action == "actions/download-artifact":
            shutil.copy(self.platform.artifacts / given["name"], work / "berth.plan")
        else:
            raise AssertionError(action)
        return work


def test_github_knows_all_keys():
    workflow = stacks.read(GITHUB)[0]
    assert set(workflow) <= GITHUB_KEYS["workflow"]
    assert set(workflow["on"]) <= {"push", "pull_request", "workflow_dispatch", "schedule"}
    for job in workflow["jobs"].values():
        assert set(job) <= GITHUB_KEYS["job"]
        assert set(job["permissions"]) <= {"contents", "id-token", "pull-requests"}
        assert job.get("needs") is None or job["needs"] in workflow["jobs"]
        for step in job["steps"]:
            assert set(step) <= GITHUB_KEYS["step"] and ("run" in step) != ("uses" in step)
            if "uses" in step:
                action, version = step["uses"].split("@")
                assert set(step.get("with", {})) <= GITHUB_INPUTS[action] and re.fullmatch(r"v\d+", version)


def test_github_from_pull_request_to_apply(platform, cloud):
    github = GitHub(platform)
    first = platform.commit(BEFORE)
    mark = cloud.mark()
    assert github.run("pull_request", first) == {"plan": 0}
    assert changed(cloud, mark) == []
    assert len(github.comments()) == 2 and "3 to create" in github.comments()[1]
    assert "### Berth plan: <code>team</code> on aws" in (platform.folder / "summary.md").read_text()
    assert github.run("push", first) == {"plan": 0, "apply": 0}
    assert functions(cloud) == ["alphaagent-env-notebooks"]
    assert platform.history()[0]["commit"] == first
    # The comment is mended, not joined by another.
    second = platform.commit(AFTER)
    assert github.run("pull_request", second) == {"plan": 0}
    assert len(github.comments()) == 2 and "1 to create, 1 to update" in github.comments()[1]
    assert github.comments()[0] == "please have a look"
    assert github.run("push", second) == {"plan": 0, "apply": 0}
    assert functions(cloud) == ["alphaagent-env-crawler", "alphaagent-env-notebooks"]
    assert platform.history()[0]["commit"] == second


def test_github_shows_what_is_refused_and_applies_nothing(platform, cloud):
    github = GitHub(platform)
    github.run("push", platform.commit(AFTER))
    refused = platform.commit(stacks.text(stacks.stack(), stacks.environment("crawler"), stacks.agent("reader", "notebooks")))
    assert github.run("pull_request", refused) == {"plan": 1}
    assert "no Environment is named" in github.last.stderr
    protected = platform.commit(AFTER.replace("memoryMB: 4096", "memoryMB: 4096\n  protect: true"))
    assert github.run("push", protected) == {"plan": 0, "apply": 0}
    refused = platform.commit(stacks.text(stacks.stack(), stacks.environment("crawler"), stacks.agent("reader", "crawler")))
    mark = cloud.mark()
    assert github.run("pull_request", refused) == {"plan": 3}
    assert "#### Refused: a person has to decide" in github.comments()[-1] and "**protected**" in github.comments()[-1]
    assert github.run("push", refused) == {"plan": 3}
    assert changed(cloud, mark) == []


def test_github_applies_no_stale_plan(platform, cloud):
    github = GitHub(platform)
    github.run("push", platform.commit(BEFORE))
    second = platform.commit(AFTER)

    def meanwhile():
        work = platform.checkout()
        (work / "agents/stack.yaml").write_text(BEFORE.replace("name: reader", "name: other"))
        env = platform.environment(**{k: v for k, v in platform.berth.env.items() if k.startswith("AWS_")}, BERTH_STATE=PLACE)
        done = platform.shell("berth apply -f agents --yes --allow has-dependents", work, env)
        assert done.returncode == 0, done.stderr

    assert github.run("push", second, between=meanwhile) == {"plan": 0, "apply": 3}
    assert "plan-stale" in github.last.stdout + github.last.stderr
    assert functions(cloud) == ["alphaagent-env-notebooks"]


def test_github_runs_nothing_for_forks(platform):
    assert GitHub(platform).run("pull_request", platform.commit(BEFORE), fork=True) == {}


# --- GitLab ---

GITLAB = block("yaml", "# .gitlab-ci.yml")
# "CI/CD YAML syntax reference".
GITLAB_KEYS = {
    "job": {"stage", "extends", "variables", "rules", "script", "before_script", "after_script", "artifacts", "resource_group",
            "environment", "tags", "id_tokens", "needs", "image", "cache", "when", "allow_failure", "timeout"},
    "rule": {"if", "changes", "exists", "when", "allow_failure", "variables"},
    "artifacts": {"paths", "expire_in", "access", "when", "name", "reports"},
}  # fmt: skip


class Notes(http.server.ThreadingHTTPServer):
    """GitLab's API of notes."""

    def __init__(self):
        self.notes = []
        super().__init__(("127.0.0.1", 0), _NotesHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _NotesHandler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        good = self.path == "/api/v4/projects/5/merge_requests/7/notes" and self.headers["PRIVATE-TOKEN"] == "note-token"
        if good:
            self.server.notes.append(urllib.parse.parse_qs(body)["body"][0])
        self.send_response(201 if good else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class GitLab:
    def __init__(self, platform):
        self.platform = platform
        self.file = stacks.read(platform.adapt(GITLAB))[0]
        self.api = Notes()

    def jobs(self):
        return {name: job for name, job in self.file.items() if name not in ("stages", "default", "variables") and name[0] != "."}

    def starts(self, job, variables):
        def holds(rule):
            python = re.sub(r"\$(\w+)", lambda m: repr(variables.get(m.group(1))), rule["if"]).replace("||", " or ").replace("&&", " and ")
            return eval(python)

        return any(holds(rule) for rule in job["rules"])

    def run(self, sha, merge_request):
        results, kept = {}, {}
        variables = {"CI_COMMIT_SHA": sha, "CI_DEFAULT_BRANCH": "main", "CI_PROJECT_ID": "5", "BERTH_TOKEN": "note-token",
                     "CI_API_V4_URL": f"http://127.0.0.1:{self.api.server_port}/api/v4"}  # fmt: skip
        if merge_request:
            variables.update(CI_PIPELINE_SOURCE="merge_request_event", CI_MERGE_REQUEST_IID="7")
        else:
            variables.update(CI_PIPELINE_SOURCE="push", CI_COMMIT_BRANCH="main")
        for name in sorted(self.jobs(), key=lambda name: self.file["stages"].index(self.jobs()[name]["stage"])):
            job = {**self.file.get(self.jobs()[name].get("extends"), {}), **self.jobs()[name]}
            if any(results.values()) or not self.starts(job, variables):
                continue
            results[name] = self.job(job, variables, kept)
        return results

    def job(self, job, variables, kept):
        work = self.platform.checkout()
        env = self.platform.environment(**variables, **self.file["variables"], **job.get("variables", {}), CI_PROJECT_DIR=str(work))
        env.update({name: "e30.jwt" for name in job.get("id_tokens", {})})
        for path, content in kept.items():
            (work / path).write_bytes(content)
        done = self.platform.shell("\n".join([*job.get("before_script", []), *job["script"]]), work, env, ("-eo", "pipefail"))
        self.last = done
        if job.get("before_script"):
            assert (work / ".aws-token").stat().st_mode & 0o077 == 0
        self.platform.shell("\n".join(job.get("after_script", [])), work, env)
        assert not (work / ".aws-token").exists()
        for path in job.get("artifacts", {}).get("paths", []) if done.returncode == 0 else []:
            kept[path] = (work / path).read_bytes()
        return done.returncode


def test_gitlab_knows_all_keys():
    file = stacks.read(GITLAB)[0]
    for name, job in file.items():
        if name == "stages":
            continue
        if name == "default":
            assert set(job) <= {"tags", "image", "before_script", "id_tokens"}
        elif name != "variables":
            assert set(job) <= GITLAB_KEYS["job"] and (name[0] == "." or job["stage"] in file["stages"])
            assert all(set(rule) <= GITLAB_KEYS["rule"] for rule in job.get("rules", []))
            assert set(job.get("artifacts", {})) <= GITLAB_KEYS["artifacts"]
            assert job.get("extends") is None or job["extends"] in file


def test_gitlab_from_merge_request_to_apply(platform, cloud):
    gitlab = GitLab(platform)
    first = platform.commit(BEFORE)
    mark = cloud.mark()
    assert gitlab.run(first, merge_request=True) == {"validate": 0, "plan": 0}, gitlab.last.stderr + str(gitlab.api.notes)
    assert changed(cloud, mark) == []
    assert len(gitlab.api.notes) == 1 and "3 to create" in gitlab.api.notes[0]
    assert gitlab.run(first, merge_request=False) == {"validate": 0, "plan": 0, "apply": 0}, gitlab.last.stderr
    assert functions(cloud) == ["alphaagent-env-notebooks"] and len(gitlab.api.notes) == 1
    assert platform.history()[0]["commit"] == first
    refused = platform.commit(stacks.text(stacks.stack(), stacks.agent("reader")))
    gone = gitlab.run(refused, merge_request=True)
    assert gone == {"validate": 0, "plan": 0}, gitlab.last.stderr
    assert gitlab.run(platform.commit("nonsense: true\n"), merge_request=True) == {"validate": 1}


# --- plain shell ---


def test_the_script(platform, cloud):
    script = platform.folder / "deploy"
    script.write_text(platform.adapt(block("sh", "#!/bin/sh\n# deploy")))
    script.chmod(0o755)
    env = platform.environment(**{k: v for k, v in platform.berth.env.items() if k.startswith("AWS_")})

    def deploy(manifests):
        commit = platform.commit(manifests)
        done = subprocess.run([str(script)], cwd=platform.checkout(), env=env, capture_output=True, text=True, timeout=240)
        return commit, done

    first, done = deploy(BEFORE)
    assert done.returncode == 0, done.stderr
    assert functions(cloud) == ["alphaagent-env-notebooks"] and platform.history(platform.state / "research")[0]["commit"] == first
    _, done = deploy(BEFORE + "# the same\n")
    assert done.returncode == 0 and done.stdout.endswith("nothing to do\n")
    _, done = deploy(BEFORE.replace("kind: Agent", "kind: Agnet"))
    assert done.returncode == 1 and "did you mean" in done.stderr
    _, done = deploy(stacks.text(stacks.stack(), stacks.environment("notebooks", protect=True), stacks.agent("reader", "notebooks")))
    assert done.returncode == 0, done.stderr
    mark = cloud.mark()
    _, done = deploy(stacks.text(stacks.stack(), stacks.agent("reader")))
    assert done.returncode == 3 and "protected" in done.stdout
    assert changed(cloud, mark) == []


def test_the_line_of_the_crontab(platform, cloud):
    """`--once`, twice: the second finds nothing to do."""
    line = block("sh", "# crontab").splitlines()[1]
    command = platform.adapt(re.sub(r"^(\S+ ){5}", "", line)).replace("/etc/berth/", f"{platform.folder}/")
    (platform.folder / "controller.yaml").write_text(
        stacks.text({"apiVersion": "berth/v1", "kind": "Controller", "metadata": {"name": "cron"}, "spec": {"sources": [
            {"name": "research", "url": f"file://{platform.origin}", "branch": "main", "path": "agents"}]}})
    )  # fmt: skip
    env = platform.environment(**{k: v for k, v in platform.berth.env.items() if k.startswith("AWS_")})
    commit = platform.commit(BEFORE)
    done = platform.shell(command, platform.folder, env)
    assert done.returncode == 0, done.stderr
    assert functions(cloud) == ["alphaagent-env-notebooks"]
    shown = platform.berth("state", "show", "--json", "--state", str(platform.state / "sources/research")).expect(0).json()
    assert shown["history"][0]["commit"] == commit
    mark = cloud.mark()
    assert platform.shell(command, platform.folder, env).returncode == 0
    assert cloud.changing_calls(mark) == []
    platform.commit("nonsense: true\n")
    assert platform.shell(command, platform.folder, env).returncode == 1
    assert cloud.changing_calls(mark) == []
