# SPDX-License-Identifier: Apache-2.0
"""A source whose path is a pattern: each folder that matches is a stack of its own, followed side by side."""

import json
import shutil

import pytest

import stacks
from controllers import Controller, source, wait_until
from git_servers import Repository


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repositories")


@pytest.fixture
def make(offline, repository):
    made = []

    def controller(path="stacks/*", **spec):
        made.append(Controller(offline, source("all", f"file://{repository.bare}", path=path, **spec)))
        return made[-1]

    yield controller
    for one in made:
        one.stop()


def folder(path, *documents, name=None, **spec):
    """The files of one stack."""
    name = name or path.replace("/", "-")
    stack = stacks.document("Stack", name, {"provider": "local", **spec})
    return {f"{path}/stack.yaml": stacks.text(stack), f"{path}/m.yaml": stacks.text(*(documents or (stacks.environment("etl"),)))}


def remove(repository, *paths):
    for path in paths:
        shutil.rmtree(repository.work / path)


def names(controller):
    return [one["name"] for one in controller("status", "--json").json()["sources"]]


def place(controller, path, what="environments/etl.json"):
    return controller.state / "sources/all/folders" / path / "local" / path.replace("/", "-") / what


def test_each_folder_is_a_stack(make, repository, offline):
    """Named after its folder, with its own state, history and status; what is no stack is passed over."""
    commit = repository.commit({
        **folder("stacks/eu/prod", stacks.agent("loader", "etl"), include=["../../../common"]),
        **folder("stacks/us/prod", include=["../../../common"], name="us"),
        **folder("stacks/us/test"),
        "common/e.yaml": stacks.text(stacks.environment("etl")),
        "stacks/us/prod/m.yaml": "",
        "stacks/docs/prod/readme.yaml": "apiVersion: v1\nkind: Pod\n",
        "stacks/prod": "a file\n", "stacks/.hidden/prod/stack.yaml": "x",
    })  # fmt: skip
    controller = make("stacks/*/prod").start()
    for name in ("all/stacks/eu/prod", "all/stacks/us/prod"):
        controller.wait_for("Applied", commit, name)
        state = controller.state / "sources/all/folders" / name.removeprefix("all/")
        history = offline("state", "show", "--json", "--state", state).expect(0).json()["history"]
        assert [(one["command"], one["commit"]) for one in history] == [("controller", commit)]
    assert names(controller) == ["all", "all/stacks/eu/prod", "all/stacks/us/prod"]
    ready = controller.wait_for("Followed", commit, "all")
    assert ready["message"] == "2 folders", ready
    assert controller.status("all")["folders"] == [{"path": "stacks/eu/prod", "gone": False}, {"path": "stacks/us/prod", "gone": False}]
    assert [controller.status(name)["parent"] for name in names(controller)] == [None, "all", "all"]
    shown = controller("status").out
    assert "all/stacks/eu/prod  yes" in shown, shown
    # One look at all of them, and its exit code.
    assert "all/stacks/us/prod" in controller.sync("all").out
    controller.stop()
    # What it left is seen without it, and found again.
    assert names(controller) == ["all", "all/stacks/eu/prod", "all/stacks/us/prod"]
    assert [one["name"] for one in controller("status", "all", "--json").json()["sources"]] == names(controller)
    controller.start().wait_for("Applied", commit, "all/stacks/us/prod")
    assert names(controller) == ["all", "all/stacks/eu/prod", "all/stacks/us/prod"]


def test_once(make, repository):
    controller = make()
    repository.commit({**folder("stacks/a"), **folder("stacks/b")})
    controller.once()
    assert place(controller, "stacks/a").exists() and place(controller, "stacks/b").exists()
    place(controller, "stacks/b").unlink()
    controller.once()
    assert place(controller, "stacks/b").exists()
    repository.commit({"stacks/b/m.yaml": "no yaml: ["})
    controller.once(code=1)
    assert controller.status("all/stacks/a")["result"] == "unchanged"


def test_one_that_is_broken_holds_up_no_other(make, repository):
    first = repository.commit({**folder("stacks/a"), **folder("stacks/b")})
    controller = make(driftSeconds=2).start()
    for name in "ab":
        controller.wait_for("Applied", first, f"all/stacks/{name}")
    second = repository.commit({"stacks/a/m.yaml": "no yaml: [", **folder("stacks/b", stacks.environment("etl", memoryMB=3000))})
    controller.wait_for("Applied", second, "all/stacks/b")
    controller.wait_for("InvalidManifests", second, "all/stacks/a")
    assert json.loads(place(controller, "stacks/b").read_text())["spec"]["memoryMB"] == 3000
    # The last good commit of the broken one is kept true, and the other is watched as well.
    for name in "ab":
        path = place(controller, f"stacks/{name}")
        path.unlink()
        wait_until(path.exists)
    assert controller.sync("all", code=1)
    third = repository.commit(folder("stacks/a"))
    for name in "ab":
        controller.wait_for("Applied", third, f"all/stacks/{name}")
    assert controller.sync("all")


def test_a_folder_that_is_gone_keeps_everything(make, repository, offline):
    first = repository.commit({**folder("stacks/a"), **folder("stacks/b")})
    controller = make(driftSeconds=1).start()
    for name in "ab":
        controller.wait_for("Applied", first, f"all/stacks/{name}")
    remove(repository, "stacks/a")
    second = repository.commit()
    ready = controller.wait_for("FolderGone", second, "all/stacks/a")
    assert "berth destroy -f stacks/a --state" in ready["message"] and "folders/stacks/a" in ready["message"]
    assert controller.wait_for("Followed", second, "all")["message"] == "1 folder; gone: stacks/a"
    controller.wait_for("Applied", second, "all/stacks/b")
    assert place(controller, "stacks/a").exists()
    assert controller.sync("all", code=3)
    # Also over a restart.
    controller.stop()
    controller.once(code=3)
    controller.start()
    controller.wait_for("FolderGone", second, "all/stacks/a")
    assert place(controller, "stacks/a").exists()
    # Nobody looks after it meanwhile; it is the same one when it comes back.
    back = repository.commit(folder("stacks/a", stacks.environment("etl", memoryMB=3000)))
    controller.wait_for("Applied", back, "all/stacks/a")
    history = offline("state", "show", "--json", "--state", controller.state / "sources/all/folders/stacks/a").json()["history"]
    assert [one["commit"] for one in history] == [back, first]
    # Destroyed by hand, it is not spoken of any more.
    remove(repository, "stacks/a")
    controller.wait_for("FolderGone", repository.commit(), "all/stacks/a")
    repository.git("checkout", "-q", first, "--", "stacks/a")
    offline("destroy", "--yes", "-f", repository.work / "stacks/a", "--state", controller.state / "sources/all/folders/stacks/a").expect(0)
    wait_until(lambda: controller.sync("all") and names(controller) == ["all", "all/stacks/b"])
    final = repository.commit(folder("stacks/a"))
    controller.wait_for("Applied", final, "all/stacks/a")


def test_none_matches(make, repository):
    first = repository.commit(folder("stacks/a"))
    controller = make().start()
    controller.wait_for("Applied", first, "all/stacks/a")
    remove(repository, "stacks")
    second = repository.commit()
    assert "no folder that stacks/* matches" in controller.wait_for("NotFound", second, "all")["message"]
    controller.wait_for("FolderGone", second, "all/stacks/a")
    assert place(controller, "stacks/a").exists()


def test_decisions_are_about_one_folder(make, repository):
    commit = repository.commit({**folder("stacks/a"), **folder("stacks/b")})
    controller = make(mode="approve").start()
    for name in "ab":
        controller.wait_for("WaitingForApproval", commit, f"all/stacks/{name}")
    assert "berth controller approve all/stacks/b " in controller("status").out
    assert "name one, all/FOLDER" in controller("approve", "all").expect(1).err
    controller("approve", "all/stacks/b", "--wait").expect(0)
    assert place(controller, "stacks/b").exists() and not place(controller, "stacks/a").exists()
    # Suspended alone, or all of them by their source's name.
    controller("suspend", "all/stacks/a").expect(0)
    assert [controller.status(name)["suspended"] for name in names(controller)] == [False, True, False]
    controller("resume", "all").expect(0)
    controller("suspend", "all").expect(0)
    assert [controller.status(name)["suspended"] for name in names(controller)] == [True] * 3
    controller("resume", "all").expect(0)
    controller("approve", "all/stacks/a", "--wait").expect(0)


def test_pins_hold_for_each(make, repository):
    commit = repository.commit({**folder("stacks/a"), **folder("stacks/b", aws={"endpointUrl": "http://127.0.0.1:9"})})
    controller = make().start()
    controller.wait_for("Applied", commit, "all/stacks/a")
    controller.wait_for("NotPermitted", commit, "all/stacks/b")
    assert not (controller.state / "sources/all/folders/stacks/b/local").exists()


def test_rewritten_history_holds_all(make, repository):
    first = repository.commit(folder("stacks/a"))
    controller = make().start()
    controller.wait_for("Applied", first, "all/stacks/a")
    repository.git("commit", "--amend", "-q", "-m", "Another")
    repository.push()
    held = controller.wait_for("HistoryRewritten", name="all")
    assert controller.condition("Ready", "all/stacks/a")["commit"] == first
    controller("approve", "all", "--allow", f"history-rewritten:{held['commit'][:12]}", "--wait").expect(0)
    controller.wait_for("Applied", held["commit"], "all/stacks/a")


# --- trees that mean harm ---


def is_refused(controller, repository, commit, reason, words):
    ready = controller.wait_for(reason, commit, "all")
    assert words in ready["message"], ready
    controller.wait_for("Applied", name="all/stacks/a")
    assert place(controller, "stacks/a").exists()


@pytest.mark.parametrize("name", ["a b", "\u202etxt", "x\u00e9", "-:x", "\x85", "q" * 230])
def test_names_that_no_source_may_have(make, repository, name):
    """A commit with such a folder is refused whole; what was there before goes on."""
    first = repository.commit(folder("stacks/a"))
    controller = make().start()
    controller.wait_for("Applied", first, "all/stacks/a")
    second = repository.commit({f"stacks/{name}/stack.yaml": stacks.text(stacks.document("Stack", "x", {"provider": "local"}))})
    is_refused(controller, repository, second, "UnsafeTree", "cannot be part of a source's name")
    assert names(controller) == ["all", "all/stacks/a"]
    # Where it is no stack, its name is nobody's business.
    third = repository.commit({f"stacks/{name}/stack.yaml": "apiVersion: v1\nkind: Pod\n"})
    controller.wait_for("Applied", third, "all/stacks/a")


@pytest.mark.parametrize("entry, words", [
    ("120000 blob {blob}\tx", "is a link"), ("160000 commit {commit}\tx", "is a submodule"),
    ("040000 tree {tree}\t..", None), ("040000 tree {tree}\tA", "one name to some file systems"),
    ("040000 tree {tree}\t.GIT ", None), ("040000 tree {tree}\tx\x07y", "control character"),
])  # fmt: skip
def test_entries_that_no_folder_is(make, repository, entry, words):
    first = repository.commit(folder("stacks/a"))
    controller = make().start()
    controller.wait_for("Applied", first, "all/stacks/a")
    tree = repository.git("rev-parse", "HEAD:stacks/a")
    blob = repository.git("hash-object", "-w", "--stdin", stdin="/etc\n")
    mode, rest = entry.format(blob=blob, commit=first, tree=tree).split(" ", 1)
    kind_id, name = rest.split("\t")
    stacks_tree = repository.raw_tree(sorted([("40000", "a", tree), (mode.lstrip("0"), name, kind_id.split()[1])], key=lambda e: e[1] + "/"))
    top = repository.raw_tree([("40000", "stacks", stacks_tree)])
    commit = repository.raw_commit(top, first)
    repository.set_ref("refs/heads/main", commit)
    if words:
        is_refused(controller, repository, commit, "UnsafeTree", words)
    else:
        # A star does not match what begins with a dot.
        controller.wait_for("Applied", commit, "all/stacks/a")
        assert names(controller) == ["all", "all/stacks/a"]


def test_more_folders_than_there_may_be(make, repository):
    first = repository.commit(folder("stacks/a"))
    controller = make().start()
    controller.wait_for("Applied", first, "all/stacks/a")
    tree = repository.git("rev-parse", "HEAD:stacks/a")
    for count, words in ((501, "more than 500 folders"), (100_000, "more than 50000 entries")):
        many = repository.raw_tree([("40000", f"a{i:06}", tree) for i in range(count)])
        commit = repository.raw_commit(repository.raw_tree([("40000", "stacks", many)]), first)
        repository.set_ref("refs/heads/main", commit)
        # Not a descendant of the one before, for the second.
        if count > 501:
            controller("approve", "all", "--allow", f"history-rewritten:{controller.wait_for('HistoryRewritten', commit, 'all')['commit'][:12]}").expect(0)
        is_refused(controller, repository, commit, "OverLimit", words)
    assert names(controller) == ["all", "all/stacks/a"]


def test_a_commit_that_moves_between_two_rounds(make, repository):
    """Many commits in a row: each child ends at the newest, whatever it was doing."""
    repository.commit({**folder("stacks/a"), **folder("stacks/b")})
    controller = make().start()
    for memory in range(2000, 2020):
        last = repository.commit({**folder("stacks/a", stacks.environment("etl", memoryMB=memory)), **folder(f"stacks/b{memory}")})
    for name in ("a", "b", "b2000", "b2019"):
        controller.wait_for("Applied", last, f"all/stacks/{name}")
    assert json.loads(place(controller, "stacks/a").read_text())["spec"]["memoryMB"] == 2019


def test_a_kill_between_parent_and_child(make, repository):
    """The parent has written down what its children have not seen."""
    repository.commit({**folder("stacks/a"), **folder("stacks/b")})
    controller = make()
    controller.once()
    shutil.rmtree(controller.state / "sources/all/folders/stacks/b")
    controller.once()
    assert controller.status("all/stacks/b")["result"] == "applied"


def test_from_one_folder_to_many(make, repository):
    """Another path is another stack: what was there stays, and the log says where."""
    repository.commit({**folder("stacks/a"), **folder("stacks/b")})
    controller = make("stacks/a")
    controller.once()
    controller = make("stacks/*")
    assert 'sources/all has the state of stack "stacks-a"' in controller.once().err
    controller = make("stacks/b")
    result = controller("--once")
    assert "sources/all/folders has the states of folders" in result.err
