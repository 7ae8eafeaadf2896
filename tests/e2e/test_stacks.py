# SPDX-License-Identifier: Apache-2.0
"""Many stacks in one repository: folders that several of them include."""

import json
import signal

import pytest

import accounts
import stacks
from controllers import Controller, source, wait_until
from git_servers import Repository, Silent

COMMON = (stacks.environment("etl"), stacks.resource_range("big", {"size": "big"}, memoryMB={"default": 4096}))


def stack(name, *include, **spec):
    return stacks.document("Stack", name, {"provider": "local", **({"include": list(include)} if include else {}), **spec})


class Tree:
    """A work tree of stacks, each with its own state; `berth` runs in its root."""

    def __init__(self, berth, git=True):
        self.berth, self.root = berth, berth.stack / "tree"
        if git:
            self.write(".git/HEAD", "ref: refs/heads/main\n")

    def write(self, name, *documents):
        place = self.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(documents[0] if isinstance(documents[0], str) else stacks.text(*documents))
        return place

    def __call__(self, verb, folder, *args, code=0, **kwargs):
        return self.berth(verb, "-f", self.root / folder, *args, **kwargs).expect(code)


@pytest.fixture
def tree(offline):
    return Tree(offline)


def test_two_stacks_of_one_folder(tree):
    tree.write("common/deeper/environments.yaml", *COMMON)
    for name in ("eu", "us"):
        tree.write(f"stacks/{name}/stack.yaml", stack(name, "../../common"), stacks.agent("loader", "etl"))
        assert "in 2 files" in tree("validate", f"stacks/{name}").out
        assert tree("plan", f"stacks/{name}", "--json").json()["summary"]["create"] == 3
        tree("apply", f"stacks/{name}", "--yes")
        assert "Nothing to do" in tree("plan", f"stacks/{name}").out
        assert "loader" in tree("map", f"stacks/{name}", "etl").out
        assert "etl" in tree("get", f"stacks/{name}").out
        tree("drift", f"stacks/{name}")
    # Changed once, changed for both; and each when it is applied.
    tree.write("common/deeper/environments.yaml", stacks.environment("etl", memoryMB=3000))
    for name in ("eu", "us"):
        plan = tree.root / f"{name}.plan"
        tree("plan", f"stacks/{name}", "-o", plan)
        assert "memoryMB" in tree("apply", f"stacks/{name}", plan, "--yes").out
        assert "Nothing to do" in tree("plan", f"stacks/{name}").out


def test_moved_into_a_common_folder_nothing_changes(tree):
    tree.write("eu/stack.yaml", stack("eu"), *COMMON, stacks.agent("loader", "etl"))
    tree("apply", "eu", "--yes")
    tree.write("eu/stack.yaml", stack("eu", "../common"), stacks.agent("loader", "etl"))
    tree.write("common/environments.yaml", *COMMON)
    assert "Nothing to do" in tree("plan", "eu").out
    # A folder that is not there any more is an error: it is not what is to be deleted.
    (tree.root / "common/environments.yaml").unlink()
    (tree.root / "common").rmdir()
    result = tree("plan", "eu", code=1)
    assert "stack.yaml:8:5: error: there is no folder" in result.err, result
    tree("apply", "eu", "--yes", code=1)
    assert "etl" in tree("get", "eu").out


def test_a_mistake_in_an_included_file_has_its_place(tree):
    tree.write("eu/stack.yaml", stack("eu", "../common"))
    tree.write("common/x.yaml", stacks.environment("etl", memoryMB=5))
    result = tree("validate", "eu", "--json", code=1)
    found = result.json()["diagnostics"]
    assert [(one["file"], one["line"]) for one in found] == [(str(tree.root / "common/x.yaml"), 8)], found


def test_from_standard_input_nothing_is_included(tree):
    result = tree.berth("validate", "-f", "-", stdin=stacks.text(stack("eu", "../common")))
    assert "<stdin>:8:3: error: a Stack that does not come from a file" in result.expect(1).err


# --- all of them at once ---


def many(tree):
    tree.write("common/environments.yaml", *COMMON)
    for name in ("a/eu", "a/us", "b/eu"):
        tree.write(f"{name}/stack.yaml", stack(name.replace("/", "-"), "../../common"))
    # Of another tool, and nobody's business.
    tree.write("other/values.yaml", "apiVersion: v1\nkind: List\nitems: [\n")
    tree.write("other/pod.yaml", "apiVersion: v1\nkind: Pod\n")


def test_every_stack_of_a_tree(tree):
    many(tree)
    assert "3 stacks." in tree("validate", ".", "--stacks").out
    plan = tree("plan", ".", "--stacks", "--json").json()
    assert [one["folder"] for one in plan["stacks"]] == [str(tree.root / name) for name in ("a/eu", "a/us", "b/eu")]
    assert [one["result"]["summary"]["create"] for one in plan["stacks"]] == [2, 2, 2]
    tree("plan", ".", "--stacks", "--detailed-exitcode", code=2)
    assert "--yes" in tree("apply", ".", "--stacks", code=1).err
    out = tree("apply", ".", "--stacks", "--yes").out.splitlines()
    assert [line.split(":")[0].split()[1:3] for line in out[-4:-1]] == [["a-eu", "local"], ["a-us", "local"], ["b-eu", "local"]], out
    assert all("2 done" in line for line in out[-4:-1]) and out[-1] == "3 stacks.", out
    for name in ("a/eu", "a/us", "b/eu"):
        assert (tree.root / name / ".berth").is_dir()
        assert "Nothing to do" in tree("plan", name).out
    tree("drift", ".", "--stacks")
    place = tree.root / "a/us/.berth/local/a-us/environments/etl.json"
    document = json.loads(place.read_text())
    document["spec"]["memoryMB"] = 4000
    place.write_text(json.dumps(document))
    drift = tree("drift", ".", "--stacks", "--json", code=2).json()
    assert [one["exitCode"] for one in drift["stacks"]] == [0, 2, 0] and drift["exitCode"] == 2


def test_one_that_fails_is_no_others_trouble(tree):
    many(tree)
    tree.write("a/us/stack.yaml", stack("a-us", "../../common"), stacks.environment("wrong", memoryMB=1))
    # Not known what it is, so not passed over.
    tree.write("b/us/stack.yaml", "apiVersion: berth/v1\nkind: Stack\nmetadata: [\n")
    result = tree("apply", ".", "--stacks", "--yes", code=1)
    assert "a/us/stack.yaml:17:13: error: memoryMB" in result.out and "b/us/stack.yaml:" in result.out, result
    assert [": " + words in line for line, words in zip(result.out.splitlines()[-5:-1], ("2 done", "failed", "2 done", "failed"))] == [True] * 4, result
    assert "4 stacks, not all of them well." in result.out
    # The worst: an error before a refusal, a refusal before what is done.
    tree.write("a/us/stack.yaml", stack("a-us", "../../common"))
    (tree.root / "b/us/stack.yaml").unlink()
    (tree.root / "b/us").rmdir()
    tree("apply", ".", "--stacks", "--yes")
    tree.write("b/eu/stack.yaml", stack("b-eu", "../../common"), stacks.agent("loader", "etl"))
    tree("apply", ".", "--stacks", "--yes")
    tree.write("b/eu/stack.yaml", stack("b-eu"), stacks.agent("loader", "etl"))
    refused = tree("plan", ".", "--stacks", "--json", code=3).json()
    assert [one["exitCode"] for one in refused["stacks"]] == [0, 0, 3]
    assert "refused Environment/etl: has-dependents" in tree("plan", ".", "--stacks", code=3).out


def test_what_stacks_does_not_take(tree):
    many(tree)
    assert "BERTH_STATE" in tree("plan", ".", "--stacks", "--state", tree.root / "s", code=1).err
    assert "BERTH_STATE" in tree("plan", ".", "--stacks", env={"BERTH_STATE": str(tree.root / "s")}, code=1).err
    assert "takes a folder" in tree("plan", "a/eu/stack.yaml", "--stacks", code=1).err
    assert "holds a Stack" in tree("plan", "common", "--stacks", code=1).err
    assert "takes no --stacks" in tree("destroy", ".", "--stacks", "--yes", code=1).err
    tree("plan", ".", "--stacks", "-o", tree.root / "p", code=1)


def test_an_interrupt_reaches_all(tree):
    silent = Silent()
    try:
        for name in ("eu", "us"):
            tree.write(f"{name}/stack.yaml", stack(name, provider="aws", aws={"endpointUrl": f"http://127.0.0.1:{silent.port}"}))
        env = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.port}"}
        process = tree.berth.popen("apply", "-f", tree.root, "--stacks", "--yes", "--json", env=env)
        wait_until(lambda: len(silent.held) >= 2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=tree.berth.timeout)
        assert process.returncode == 1, err
        assert [one["exitCode"] for one in json.loads(out)["stacks"]] == [1, 1], out
    finally:
        silent.stop()


@pytest.mark.only("ministack", "moto has one account for all access keys")
def test_two_accounts_and_two_regions(berth, cloud):
    tree = Tree(berth)
    accounts, regions = ("111111111111", "222222222222"), ("eu-central-1", "us-east-1")
    berth.env.update(AWS_ENDPOINT_URL=cloud.standin.url)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        del berth.env[name]
    keys = "".join(f"[a{number}]\naws_access_key_id = {number}\naws_secret_access_key = test\n" for number in accounts)
    (berth.home / "credentials").write_text(keys)
    tree.write("common/policies.yaml", stacks.policy("keep", {"all": True}, expireAfterDays=30))
    for account in accounts:
        for region in regions:
            settings = {"account": account, "region": region, "profile": f"a{account}"}
            tree.write(f"{account}/{region}/stack.yaml", stack(f"s-{region}", "../../common", provider="aws", aws=settings))
    done = tree("apply", ".", "--stacks", "--yes", "--json").json()
    assert [(one["result"]["account"], one["result"]["region"]) for one in done["stacks"]] == [
        (account, region) for account in accounts for region in regions
    ]
    again = tree("plan", ".", "--stacks", "--detailed-exitcode", "--json").json()
    assert [one["result"]["changes"] for one in again["stacks"]] == [[]] * 4, again


# --- what a controller follows ---


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repositories")


def test_a_controller_reads_what_is_included_from_the_commit(offline, repository):
    files = {"stacks/eu/stack.yaml": stacks.text(stack("lab", "../../common"), stacks.agent("loader", "etl")),
             "common/environments.yaml": stacks.text(*COMMON)}  # fmt: skip
    good = repository.commit(files)
    # The work tree is nothing to it.
    (repository.work / "common/environments.yaml").write_text("wrong")
    controller = Controller(offline, source("lab", f"file://{repository.bare}", path="./stacks/eu/"))
    controller.once()
    place = controller.source_state("lab") / "local/lab/environments/etl.json"
    assert json.loads(place.read_text())["spec"]["memoryMB"] == 2048
    # A commit that changes nothing but the common folder.
    repository.commit({"common/environments.yaml": stacks.text(stacks.environment("etl", memoryMB=3000))})
    controller.once()
    assert json.loads(place.read_text())["spec"]["memoryMB"] == 3000
    for include, words in (("../../none", "cannot be included"), ("../../../common", "lies outside of the repository"),
                           ("..", "a cycle")):  # fmt: skip
        bad = repository.commit({"stacks/eu/stack.yaml": stacks.text(stack("lab", include))})
        controller.once(code=1)
        status = controller.status()
        ready = next(one for one in status["conditions"] if one["type"] == "Ready")
        assert ready["reason"] == "InvalidManifests" and words in ready["message"], ready
        assert f"@{bad[:12]}:stacks/eu/stack.yaml:8:5" in ready["message"], ready
    assert good and json.loads(place.read_text())["spec"]["memoryMB"] == 3000


def test_a_link_in_an_included_folder_of_a_commit_is_refused(offline, repository):
    (repository.work / "common").mkdir()
    (repository.work / "common/x.yaml").symlink_to("../stacks/eu/stack.yaml")
    repository.commit({"stacks/eu/stack.yaml": stacks.text(stack("lab", "../../common"))})
    controller = Controller(offline, source("lab", f"file://{repository.bare}", path="stacks/eu"))
    controller.once(code=1)
    ready = next(one for one in controller.status()["conditions"] if one["type"] == "Ready")
    assert ready["reason"] == "InvalidManifests" and "is a link" in ready["message"], ready


# --- in one account and region, or in many ---


def cloud_stack(tree, name, count, **aws):
    """Names of its own for everything, since all of them live in one account."""
    tree.write(f"stacks/{name}/stack.yaml", stacks.stack(name, aws={"namePrefix": name, **aws}), *(stacks.environment(f"e-{n:03}") for n in range(count)))


@pytest.mark.timeout(600)
def test_stacks_of_one_account_share_its_quotas(cloud, berth, prebuilt):
    """Sixteen calls a second each would be four times what AWS takes: together they keep to it, and none is throttled."""
    tree = Tree(berth)
    for name in ("ta", "tb", "tc", "td"):
        cloud.pushes.amd64(f"{name}/prebuilt/python")
        cloud_stack(tree, name, 12)
    cloud.throttle(control=15, get_function=100)
    tree("apply", "stacks", "--stacks", "--yes", timeout=500)
    assert len([name for name in cloud.functions() if "-env-e-" in name]) == 48
    tree("plan", "stacks", "--stacks", "--detailed-exitcode", timeout=500)
    assert [call for call in cloud.calls() if call["error"] in ("TooManyRequestsException", "ThrottledException", "ThrottlingException")] == []


@pytest.mark.timeout(900)
@pytest.mark.only("ministack", "its accounts come with the access key")
def test_four_accounts_and_three_regions(cloud, berth):
    """One tree, twelve stacks: each where it belongs, and none throttled."""
    accounts.prepare(cloud, berth)
    sizes = [3, 1, 2] * 4
    root = berth.stack / "tree"
    accounts.write_tree(root, sizes)
    cloud.throttle(control=15, get_function=100)
    plan = berth("plan", "-f", root, "--stacks", "--json").expect(0).json()
    assert [(one["result"]["account"], one["result"]["region"]) for one in plan["stacks"]] == sorted(
        (account, region) for account, region, _ in accounts.places()
    )
    assert all(one["result"]["summary"]["create"] >= 3 for one in plan["stacks"])
    berth("apply", "-f", root, "--stacks", "--yes", timeout=600).expect(0)
    for (account, region, name), size in zip(accounts.places(), sizes, strict=True):
        found = accounts.direct(cloud, "lambda", account, region).list_functions()["Functions"]
        assert [one["FunctionName"] for one in found] == [f"alphaagent-env-{name}-{n:03}" for n in range(size)]
        assert all(f":{region}:{account}:" in one["FunctionArn"] for one in found)
        groups = accounts.direct(cloud, "logs", account, region).describe_log_groups()["logGroups"]
        assert [one["retentionInDays"] for one in groups] == [accounts.RETENTION_DAYS] * size
        accounts.direct(cloud, "s3", account, region).head_bucket(Bucket=f"alphaagent-workspaces-{account}-{region}")
    assert [call for call in cloud.calls() if call["error"] and "Throttl" in call["error"] or call["error"] == "TooManyRequestsException"] == []
    assert "12 stacks." in berth("plan", "-f", root, "--stacks", "--detailed-exitcode").expect(0).out
    # Another account's credentials: that stack alone is refused.
    place = root / "stacks/a2/us-east-1/stack.yaml"
    place.write_text(place.read_text().replace("profile: a2", "profile: a3"))
    result = berth("plan", "-f", root, "--stacks", "--json").expect(3).json()
    assert [one["folder"] for one in result["stacks"] if one["exitCode"]] == [str(place.parent)]
