# SPDX-License-Identifier: Apache-2.0
"""Many stacks in one repository: folders that several of them include."""

import json

import pytest

import stacks
from controllers import Controller, source
from git_servers import Repository

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
