# SPDX-License-Identifier: Apache-2.0
"""The provider local: the same manifests, guards and state, on this machine's disk. No cloud anywhere."""

import json
import os
import random
import shutil
import signal
import stat
import subprocess
import time

import pytest

import stacks
from binary import ROOT

EXAMPLES = ROOT / "examples" / "manifests"
DIGEST = "sha256:" + "ab" * 32


def stack(name="lab", **spec):
    return stacks.document("Stack", name, spec)


def root(berth, name="lab"):
    return berth.stack / ".berth" / "local" / name


def records(berth, name="lab"):
    """Path below the root -> document, of every record."""
    base = root(berth, name)
    return {str(p.relative_to(base)): json.loads(p.read_text()) for p in sorted(base.rglob("*.json")) if "workspaces" not in p.parts}


def edit(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.fixture
def berth(offline):
    offline.write("stack.yaml", stacks.text(stack()))
    return offline


@pytest.fixture
def small(berth):
    berth.write(
        "m.yaml",
        stacks.text(
            stacks.environment("etl", labels={"team": "data"}, variables={"PLAIN": "p", "TOKEN": {"value": "s3cret-token", "sensitive": True}}),
            stacks.environment("geo"),
            stacks.agent("loader", "etl", type="specialist", limits={"containers": 3}),
            stacks.agent("helper", "geo"),
            stacks.swarm("night", ["loader", "helper"], "etl"),
            stacks.policy("keep", {"environments": ["etl"]}, expireAfterDays=7),
        ),
    )
    berth.apply()
    return berth


# --- the examples ---


def test_the_examples_from_an_empty_machine(offline):
    shutil.copytree(EXAMPLES, offline.stack, dirs_exist_ok=True)
    local = ("--provider", "local")
    plan = offline.plan(*local, "--detailed-exitcode", code=2)
    assert plan["provider"] == "local" and plan["summary"]["refused"] == 0
    assert not root(offline, "northlight").exists(), "a plan makes nothing"
    offline.apply(*local)
    assert offline.plan(*local, "--detailed-exitcode")["changes"] == []
    assert offline("drift", *local).code == 0
    found = records(offline, "northlight")
    declared = [d for p in EXAMPLES.rglob("*.yaml") for d in stacks.read(p.read_text()) if d["kind"] != "ResourceRange"]
    assert {(r["kind"], r["name"]) for r in found.values()} == {(d["kind"], d["metadata"]["name"]) for d in declared}
    assert all(r["stack"] == "northlight" and r["formatVersion"] == "1" for r in found.values())
    for line in ("data/etl:stable for etl", "berth image import NAME:TAG PATH"):
        assert any(line in warning for warning in plan["warnings"])
    mapped = offline("map", "--json").expect(0).json()
    assert mapped
    assert "loader" in offline("map", "etl").expect(0).out
    offline.destroy(*local)
    assert not root(offline, "northlight").exists()


def test_an_aws_account_in_the_stack_is_nothing_to_this_machine(offline):
    offline.write("m.yaml", stacks.text(stacks.stack(aws={"account": "123456789012", "region": "eu-central-1"}), stacks.environment("e")))
    offline.apply("--provider", "local")
    assert "Environment" in offline("get").out


# --- records ---


def test_what_is_on_disk(small):
    found = records(small)
    assert sorted(found) == [
        "environments/etl.json", "environments/geo.json", "policies/keep.json", "registry/agents/helper.json",
        "registry/agents/loader.json", "registry/swarms/night.json", "stack.json",
    ]  # fmt: skip
    spec = found["environments/etl.json"]["spec"]
    assert spec["memoryMB"] == 2048 and spec["workspaceStorageMB"] == 512 and spec["timeoutSeconds"] == 900
    assert spec["image"] == {"prebuilt": "python"} and spec["tenantIsolation"] is True
    assert spec["variables"] == {"PLAIN": "p", "TOKEN": {"value": "s3cret-token", "sensitive": True}}
    assert found["registry/agents/loader.json"]["spec"]["limits"] == {"containers": 3, "onLimit": "queue"}
    assert found["registry/swarms/night.json"]["spec"]["agents"] == ["helper", "loader"]
    assert found["policies/keep.json"]["spec"]["environments"] == ["etl"]
    for path in root(small).rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    small.assert_settled()


def test_a_secret_is_on_disk_for_the_sandbox_and_nowhere_else(small):
    small.write("s.yaml", stacks.text(stacks.environment("vault", variables={"KEY": {"value": "other-s3cret", "sensitive": True}})))
    shown = [small("plan"), small("plan", "--json"), small("apply", "--yes", "-v"), small("get", "--json"), small("state", "show", "Environment/etl", "--json")]
    edit(root(small) / "environments" / "etl.json", lambda d: d["spec"]["variables"]["TOKEN"].update(value="t4mpered"))
    shown += [small("drift"), small("drift", "--json"), small("plan", "--json")]
    assert shown[-1].json()["changes"][0]["fields"] == [{"path": "variables.TOKEN", "before": None, "after": None, "sensitive": True}]
    for result in shown:
        assert not any(secret in result.out + result.err for secret in ("s3cret", "t4mpered")), result
    for path in (small.stack / ".berth").glob("*"):
        assert path.is_dir() or not any(secret in path.read_bytes() for secret in (b"s3cret", b"t4mpered")), path
    small.apply()
    assert records(small)["environments/etl.json"]["spec"]["variables"]["TOKEN"]["value"] == "s3cret-token"
    small.assert_settled()


def test_one_field_is_one_file(small):
    before = {p: p.stat().st_mtime_ns for p in root(small).rglob("*.json")}
    small.write("m.yaml", (small.stack / "m.yaml").read_text().replace("name: geo", "name: geo", 1).replace("PLAIN: p", "PLAIN: q"))
    plan = small.plan("--detailed-exitcode", code=2)
    assert [(c["address"], c["action"], [f["path"] for f in c["fields"]]) for c in plan["changes"]] == [("Environment/etl", "update", ["variables.PLAIN"])]
    assert plan["calls"] == {"files": 1}
    small.apply()
    changed = {p.name for p in root(small).rglob("*.json") if before.get(p) != p.stat().st_mtime_ns}
    assert changed == {"etl.json"}
    small.assert_settled()


@pytest.mark.parametrize(
    "file, field, change",
    [
        ("environments/geo.json", "memoryMB", lambda s: s.update(memoryMB=4096)),
        ("environments/geo.json", "reservedConcurrency", lambda s: s.update(reservedConcurrency=7)),
        ("environments/geo.json", "workspaceStorageMB", lambda s: s.pop("workspaceStorageMB")),
        ("environments/geo.json", "image.digest", lambda s: s["image"].update(digest=DIGEST)),
        ("registry/agents/loader.json", "environment", lambda s: s.update(environment="geo")),
        ("registry/swarms/night.json", "agents", lambda s: s.update(agents=["loader"])),
        ("policies/keep.json", "expireAfterDays", lambda s: s.update(expireAfterDays=1)),
        ("stack.json", "workspaces", lambda s: s.update(workspaces="/elsewhere")),
    ],
)
def test_an_edit_by_hand_is_drift_and_is_mended(small, file, field, change):
    before = records(small)
    edit(root(small) / file, lambda d: change(d["spec"]))
    if field != "image.digest":  # of which nothing was applied: drift cannot know, the plan does
        drift = small("drift", "--json").expect(2).json()
        assert [f["path"] for d in drift["drift"] for f in d["fields"]] == [field]
    plan = small.plan()
    assert [f["path"] for c in plan["changes"] for f in c["fields"]] == [field] and plan["summary"]["update"] == 1
    small.apply()
    assert records(small) == before
    small.assert_settled()


def test_an_empty_variable_comes_and_goes(small):
    """A variable of no text is one, whether the machine is asked or not."""
    without = (small.stack / "m.yaml").read_text()
    for text in (without.replace("PLAIN: p", "PLAIN: p\n    EMPTY: ''"), without):
        small.write("m.yaml", text)
        for refresh in ("none", "sweep"):
            found = small.plan("--refresh", refresh)
            assert [(c["address"], [f["path"] for f in c["fields"]]) for c in found["changes"]] == [("Environment/etl", ["variables.EMPTY"])], refresh
        small.apply()
        assert ("EMPTY" in records(small)["environments/etl.json"]["spec"]["variables"]) == (text != without)
        small.assert_settled()


def test_a_variable_of_somebody_elses_stays(small):
    edit(root(small) / "environments" / "etl.json", lambda d: d["spec"]["variables"].update(THEIRS="x"))
    small.assert_settled()
    small.write("m.yaml", (small.stack / "m.yaml").read_text().replace("PLAIN: p", "PLAIN: q"))
    small.apply()
    assert records(small)["environments/etl.json"]["spec"]["variables"]["THEIRS"] == "x"
    small.assert_settled()


def test_a_record_that_is_gone_comes_back(small):
    before = records(small)
    (root(small) / "environments" / "etl.json").unlink()
    (root(small) / "stack.json").unlink()
    plan = small.plan()
    assert {c["address"]: c["action"] for c in plan["changes"]} == {"Environment/etl": "create", "Stack/lab": "create"}
    assert "deleted outside of Berth" in plan["changes"][0]["reason"]
    small.apply()
    assert records(small) == before


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[]", b'"text"', b'{"formatVersion": "1", "stack": "lab", "kind": "Environment", "name": "etl"}'])
def test_a_damaged_record_is_named(small, text):
    path = root(small) / "environments" / "etl.json"
    good = path.read_bytes()
    path.write_bytes(text)
    for verb in ("plan", "drift", "apply"):
        result = small(verb, *(["--yes"] if verb == "apply" else [])).expect(1)
        assert "environments/etl.json is damaged" in result.err and "remove it" in result.err
    assert path.read_bytes() == text, "nothing was written over it"
    path.unlink()
    small.apply()
    assert path.read_bytes() == good


def test_a_newer_record_is_refused(small):
    edit(root(small) / "environments" / "etl.json", lambda d: d.update(formatVersion="2"))
    assert "has format 2" in small("plan").expect(1).err


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_followed(small, kind):
    path, outside = root(small) / "environments" / "etl.json", small.folder / "outside.json"
    outside.write_bytes(path.read_bytes())
    path.unlink()
    {"link": lambda: path.symlink_to(outside), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[kind]()
    result = small("apply", "--yes").expect(1)
    assert "environments/etl.json" in result.err
    assert json.loads(outside.read_text())["name"] == "etl"


# --- guards ---


@pytest.mark.parametrize(
    "text, owner",
    [
        ('{"formatVersion": "1", "stack": "other", "kind": "Environment", "name": "new", "spec": {"memoryMB": 9999, "theirs": 1}}', "stack other"),
        ('{"anything": "else"}', "no stack that Berth knows"),
        ("{}", "no stack that Berth knows"),
    ],
)
def test_a_foreign_record_is_not_owned(small, text, owner):
    path = root(small) / "environments" / "new.json"
    path.write_text(text)
    small.write("new.yaml", stacks.text(stacks.environment("new")))
    for result in (small("plan", "--json"), small("apply", "--yes", "--json")):
        (refusal,) = result.expect(3).json()["changes"][0]["refusals"]
        assert refusal["id"] == "not-owned" and owner in refusal["message"]
    assert path.read_text() == text
    small.apply("--allow", "not-owned:Environment/new")
    # What was there before keeps the tenancy that it has: new ones are apart.
    assert records(small)["environments/new.json"]["spec"] == {**records(small)["environments/geo.json"]["spec"], "tenantIsolation": False}
    small.assert_settled()


def test_a_copy_of_a_record_is_not_owned(small):
    shutil.copy(root(small) / "environments" / "etl.json", root(small) / "environments" / "copy.json")
    small.write("c.yaml", stacks.text(stacks.environment("copy")))
    (refusal,) = small.plan(code=3)["changes"][0]["refusals"]
    assert refusal["id"] == "not-owned" and "Environment/etl" in refusal["message"]


def test_import(small):
    document = json.loads((root(small) / "environments" / "geo.json").read_text())
    document.update(name="taken", spec={**document["spec"], "memoryMB": 3000})
    (root(small) / "environments" / "taken.json").write_text(json.dumps(document))
    small.write("t.yaml", stacks.text(stacks.environment("taken")))
    small("import", "Environment/taken", "taken.json").expect(0)
    assert [f["path"] for c in small.plan()["changes"] for f in c["fields"]] == ["memoryMB"]
    small.apply()
    small.assert_settled()


def test_dependents_protection_replacement_and_mass_deletion(small):
    text = (small.stack / "m.yaml").read_text()
    small.write("m.yaml", stacks.text(*[d for d in stacks.read(text) if d["metadata"]["name"] != "etl"]))
    (change,) = [c for c in small.plan(code=3)["changes"] if c["address"] == "Environment/etl"]
    assert change["refusals"][0]["id"] == "has-dependents"
    assert change["refusals"][0]["dependents"] == ["Agent/loader", "Swarm/night", "WorkspacePolicy/keep"]
    small.write("m.yaml", text)
    small.write("p.yaml", stacks.text(stacks.environment("kept", protect=True)))
    small.apply()
    small.remove("p.yaml")
    (change,) = small.plan(code=3)["changes"]
    assert change["refusals"][0]["id"] == "protected"
    small.write("p.yaml", stacks.text(stacks.environment("kept", tenantIsolation=False)))
    ids = {r["id"] for r in small.plan(code=3)["changes"][0]["refusals"]}
    assert "needs-replacement" in ids
    small.write("p.yaml", stacks.text(stacks.environment("kept")))
    small.apply()
    small.remove("p.yaml")
    small.write("m.yaml", "# empty")
    assert [r["id"] for r in small.plan(code=3)["refusals"]] == ["mass-delete"]
    assert "environments/etl.json" in records(small)


def test_what_moved_since_the_plan_is_not_overwritten(small):
    small.write("m.yaml", (small.stack / "m.yaml").read_text().replace("PLAIN: p", "PLAIN: q"))
    small("plan", "-o", "saved.plan").expect(0)
    path = root(small) / "environments" / "etl.json"
    edit(path, lambda d: d["spec"].update(memoryMB=4000))
    result = small("apply", "saved.plan", "--yes")
    assert result.code in (1, 3), result
    assert json.loads(path.read_text())["spec"]["memoryMB"] == 4000


# --- deleting, dying, growing ---


def test_destroy_leaves_what_is_not_ours(small):
    images = root(small) / "images"
    (images / "roots").mkdir(parents=True)
    (root(small) / "environments" / "note.txt").write_text("mine")
    small.destroy()
    assert sorted(p.name for p in root(small).rglob("*") if p.is_file()) == ["note.txt"]
    assert images.exists()
    small.apply()
    small.assert_settled()


def test_a_policy_and_an_agent_go_and_come(small):
    text = (small.stack / "m.yaml").read_text()
    small.write("m.yaml", stacks.text(*[d for d in stacks.read(text) if d["metadata"]["name"] not in ("keep", "night")]))
    small.apply()
    assert not {"policies/keep.json", "registry/swarms/night.json"} & set(records(small))
    small.write("m.yaml", text)
    small.apply()
    assert {"policies/keep.json", "registry/swarms/night.json"} <= set(records(small))
    small.assert_settled()


def test_disassociate_is_on_disk_at_once(small):
    small("disassociate", "etl", "--all", "--yes").expect(0)
    spec = records(small)["registry/agents/loader.json"]["spec"]
    assert "environment" not in spec and spec["active"] is False
    small("reassociate", "etl", "--all", "--yes").expect(0)
    assert records(small)["registry/agents/loader.json"]["spec"]["environment"] == "etl"
    small.assert_settled()


def test_killed_again_and_again_it_converges(berth):
    names = [f"e-{n:03}" for n in range(400)]
    berth.write("m.yaml", stacks.text(*[stacks.environment(n) for n in names], *[stacks.agent(f"a-{n}", n) for n in names[:100]]))
    rng = random.Random(7)
    killed = 0
    for attempt in range(8):
        process = berth.popen("apply", "--yes", "--parallel", "4", env={"X": str(attempt)})
        time.sleep(rng.uniform(0.05, 0.5))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        for path in root(berth).rglob("*.json"):
            json.loads(path.read_text())
    assert killed >= 1
    leftover = root(berth) / "environments" / "e-000.json.4194999.new"
    leftover.parent.mkdir(parents=True, exist_ok=True)
    leftover.write_text("half of a secr")
    berth.write("n.yaml", stacks.text(stacks.environment("one-more")))
    berth.apply()
    berth.assert_settled()
    assert len(records(berth)) == 502
    assert list(root(berth).rglob("*.new")) == []
    berth.destroy()
    assert not root(berth).exists()


def test_a_thousand_environments(berth):
    names = [f"e-{n:04}" for n in range(1000)]
    berth.write("m.yaml", stacks.text(*[stacks.environment(n, image={"repository": "a/b", "tag": "1"}) for n in names]))
    plan = berth.plan("--detailed-exitcode", code=2)
    assert plan["summary"]["create"] == 1001 and len(plan["warnings"]) == 1, "one image, one warning"
    assert "and 996 more" in plan["warnings"][0]
    berth.apply()
    berth.assert_settled()
    assert len(list((root(berth) / "environments").iterdir())) == 1000
    berth.destroy()
    assert not root(berth).exists()


def test_two_applies_at_once(berth):
    berth.write("m.yaml", stacks.text(*[stacks.environment(f"e-{n}") for n in range(300)]))
    processes = [berth.popen("apply", "--yes") for _ in range(2)]
    codes = sorted(berth.result(["apply"], p.wait(), *p.communicate()).code for p in processes)
    assert codes in ([0, 4], [0, 0])
    berth.assert_settled()


def test_a_folder_that_cannot_be_made(berth):
    berth.write("stack.yaml", stacks.text(stack(local={"images": "/proc/nowhere/images"})))
    berth.apply()
    (root(berth)).rename(berth.folder / "away")
    (berth.stack / ".berth" / "local" / "lab").write_text("in the way")
    result = berth("apply", "--yes").expect(1)
    assert ".berth/local/lab" in result.err


# --- images ---


def import_image(folder, name, digest=DIGEST):
    """What the image store leaves behind for an image."""
    (folder / "roots" / "sha256" / digest.removeprefix("sha256:")).mkdir(parents=True, exist_ok=True)
    index = folder / "index.json"
    known = json.loads(index.read_text())["images"] if index.exists() else {}
    index.write_text(json.dumps({"formatVersion": "1", "images": {**known, name: digest}}))


def test_an_imported_image_is_pinned(berth):
    berth.write("m.yaml", stacks.text(stacks.environment("py"), stacks.environment("own", image={"repository": "a/b", "tag": "1"})))
    berth.apply()
    images = root(berth) / "images"
    import_image(images, "a/b:1")
    plan = berth.plan()
    assert [(c["address"], f["path"], f["after"]) for c in plan["changes"] for f in c["fields"]] == [("Environment/own", "image.digest", DIGEST)]
    assert plan["warnings"] == []
    berth.apply()
    berth.assert_settled()
    second = "sha256:" + "cd" * 32
    import_image(images, "a/b:1", second)
    berth.assert_settled()
    berth.write("m.yaml", stacks.text(stacks.environment("py"), stacks.environment("own", image={"repository": "a/b", "tag": "1", "follow": "tag"})))
    berth.apply()
    assert records(berth)["environments/own.json"]["spec"]["image"]["digest"] == second
    import_image(images, "prebuilt/python:latest")
    berth.apply()
    assert records(berth)["environments/py.json"]["spec"]["image"] == {"prebuilt": "python", "digest": DIGEST}
    berth.assert_settled()
    shutil.rmtree(images)
    (warning, *_) = berth.plan()["warnings"]
    assert "not in the local image store" in warning


def test_missing_images_are_counted(berth):
    """Several are one line with a count; the list is there for those who ask."""
    images = {"own": {"repository": "a/b", "tag": "1"}, "two": {"repository": "a/b", "tag": "1"}, "geo": {"repository": "c/d", "tag": "2"}}
    berth.write("m.yaml", stacks.text(*(stacks.environment(name, image=image) for name, image in images.items())))
    count = "2 images are not in the local image store"
    lines = berth("plan").out.splitlines()
    assert [line for line in lines if "image store" in line] == [f"  warning: {count}; -v lists them"]
    assert not any("a/b:1 for" in line for line in lines)
    shown = berth("plan", "-v").out
    assert f"  warning: {count}\n" in shown and "a/b:1 for own, two\n" in shown and "c/d:2 for geo\n" in shown
    (warning,) = berth.plan()["warnings"]
    assert warning.splitlines()[1:] == ["  c/d:2 for geo", "  a/b:1 for own, two", "  (berth image import NAME:TAG PATH, then berth apply)"]


def test_a_store_elsewhere(berth):
    berth.write("stack.yaml", stacks.text(stack(local={"images": "../../store"})))
    berth.write("m.yaml", stacks.text(stacks.environment("own", image={"repository": "a/b", "tag": "1"})))
    import_image(berth.stack / ".berth" / ".." / ".." / "store", "a/b:1")
    assert berth.plan()["warnings"] == []
    berth.apply()
    assert records(berth)["environments/own.json"]["spec"]["image"]["digest"] == DIGEST
    (berth.folder / "store" / "index.json").write_text("{")
    assert "store/index.json is damaged" in berth("plan").expect(1).err


# --- workspaces ---


@pytest.fixture(scope="session")
def clock_shift(tmp_path_factory):
    """A library that moves the wall clock: a file's ctime cannot be set, so the present moves instead."""
    folder = tmp_path_factory.mktemp("clock")
    (folder / "shift.c").write_text(
        "#define _GNU_SOURCE\n#include <stdlib.h>\n#include <sys/syscall.h>\n#include <time.h>\n#include <unistd.h>\n"
        "int clock_gettime(clockid_t id, struct timespec *now) {\n"
        "        int result = (int)syscall(SYS_clock_gettime, id, now);\n"
        '        if (result == 0 && id == CLOCK_REALTIME && getenv("SHIFT_DAYS"))\n'
        '                now->tv_sec += 86400L * atol(getenv("SHIFT_DAYS"));\n'
        "        return result;\n}\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", folder / "shift.so", folder / "shift.c"], check=True)

    def env(days):
        asan = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        return {"LD_PRELOAD": str(folder / "shift.so"), "SHIFT_DAYS": str(days), "ASAN_OPTIONS": asan}

    return env


def session(workspaces, name, environment, stack="lab", life=None, **files):
    folder = workspaces / "sessions" / name
    (folder / "workspace").mkdir(parents=True)
    (folder / "session.json").write_text(json.dumps({"formatVersion": "1", "stack": stack, "environment": environment} | (life or {})))
    for file, text in files.items():
        (folder / "workspace" / file).write_text(text)
    return folder / "workspace"


def test_sweep(small, clock_shift):
    workspaces = root(small) / "workspaces"
    etl = session(workspaces, "s-etl", "etl", report="12345", table="12")
    geo = session(workspaces, "s-geo", "geo", report="12345")
    theirs = session(workspaces, "s-theirs", "etl", stack="other", report="12345")
    (etl / "out").symlink_to(geo)
    (workspaces / "sessions" / "s-broken").mkdir()
    assert "Nothing to sweep" in small("sweep").expect(0).out
    assert "Nothing to sweep" in small("sweep", "--yes", env=clock_shift(6)).expect(1).out, "a session that cannot be judged is told of"
    dry = small("sweep", "--json", env=clock_shift(8)).expect(0).json()
    assert (dry["deleted"], dry["files"], dry["bytes"]) == (False, 3, 7)
    assert [(r["session"], r["policy"], r["files"]) for r in dry["expired"] if r["files"]] == [("s-etl", "keep", 3)]
    assert [r["problem"] for r in dry["expired"] if r["session"] == "s-broken"] == ["it has no session.json"]
    assert dry["oldest"].startswith(time.strftime("%Y-", time.gmtime()))
    text = small("sweep", env=clock_shift(8)).expect(0)
    assert "s-etl  3 files, 7 bytes" in text.out and "berth sweep --yes does it" in text.out and "s-broken" in text.err
    assert sorted(os.listdir(etl)) == ["out", "report", "table"], "nothing went so far"
    (workspaces / "sessions" / "s-broken").rmdir()
    done = small("sweep", "--yes", env=clock_shift(8)).expect(0)
    assert "Deleted 3 files, 7 bytes" in done.out
    assert os.listdir(etl) == [] and os.listdir(geo) == ["report"] and os.listdir(theirs) == ["report"]
    assert "Nothing to sweep" in small("sweep", "--yes", env=clock_shift(8)).expect(0).out
    small.assert_settled()


def test_workspaces_that_two_stacks_share(berth, clock_shift):
    shared = berth.folder / "shared"
    for name in ("one", "two"):
        policy = stacks.policy("all", {"all": True}, expireAfterDays=3 if name == "one" else 30)
        berth.write(f"{name}/m.yaml", stacks.text(stack(name, local={"workspaces": str(shared)}), stacks.environment("e"), policy))
        berth.apply("-f", name)
        session(shared, f"s-{name}", "e", stack=name, file="x")
    assert (berth.stack / "one" / ".berth/local/one/environments/e.json").exists()
    assert (berth.stack / "two" / ".berth/local/two/environments/e.json").exists()
    for days, gone in ((5, {"s-one"}), (31, {"s-one"})):
        berth("sweep", "--yes", "-f", "one", env=clock_shift(days)).expect(0)
        assert {p.parent.parent.name for p in shared.rglob("file")} == {"s-one", "s-two"} - gone
    berth("sweep", "--yes", "-f", "two", env=clock_shift(31)).expect(0)
    assert list(shared.rglob("file")) == []


def test_two_stacks_in_one_state_folder(berth):
    berth.apply()
    berth.write("stack.yaml", stacks.text(stack("other"), stacks.environment("e")))
    assert 'belongs to the stack "lab"' in berth("plan").expect(1).err
    assert not root(berth, "other").exists()


def test_expiry_of_what_is_there_already(small, clock_shift):
    session(root(small) / "workspaces", "s-etl", "etl", report="12345")
    session(root(small) / "workspaces", "s-geo", "geo", report="123")
    later = clock_shift(5)

    def policy(selector, days):
        text = [d for d in stacks.read((small.stack / "m.yaml").read_text()) if d["kind"] != "WorkspacePolicy"]
        small.write("m.yaml", stacks.text(*text, stacks.policy("keep", selector, expireAfterDays=days)))

    policy({"environments": ["etl"]}, 6)
    assert small.plan(env=later)["summary"]["refused"] == 0
    policy({"environments": ["etl"]}, 2)
    (change,) = small.plan(env=later, code=3)["changes"]
    (refusal,) = change["refusals"]
    assert refusal["id"] == "expires-existing" and "1 file, 5 bytes, oldest 20" in refusal["message"]
    policy({"environments": ["etl"]}, 30)
    small.apply(env=later)
    policy({"all": True}, 2)
    assert "2 files, 8 bytes" in small.plan(env=later, code=3)["changes"][0]["refusals"][0]["message"]
    small.apply("--allow", "expires-existing:WorkspacePolicy/keep", env=later)
    assert small("sweep", "--json", env=later).expect(0).json()["files"] == 2


def test_destroy_spares_sessions(small):
    workspace = session(root(small) / "workspaces", "s-etl", "etl", report="12345")
    theirs = session(root(small) / "workspaces", "s-theirs", "etl", stack="other", report="12345")
    result = small("destroy", "--yes", "--json").expect(3)
    (change,) = [c for c in result.json()["changes"] if c["refusals"]]
    assert change["refusals"][0]["id"] == "bucket-not-empty" and "1 session of this stack, with 1 file, 5 bytes" in change["refusals"][0]["message"]
    assert "environments/etl.json" in records(small) and workspace.exists()
    small.destroy("--allow", "bucket-not-empty")
    assert not workspace.exists() and theirs.exists()
    assert not (root(small) / "stack.json").exists()


def test_living_sessions_hold_their_environment(berth):
    """Deleting and replacing are refused, with how many live and whose; of those that have ended nobody asks."""
    etl, geo = stacks.environment("etl"), stacks.environment("geo")
    berth.write("m.yaml", stacks.text(etl, geo))
    berth.apply()
    workspaces, later = root(berth) / "workspaces", int(time.time() * 1000) + 3600_000
    session(workspaces, "s-1", "etl", life={"owner": "app/alice", "livesUntilMs": later})
    session(workspaces, "s-2", "etl", life={"owner": "app/alice", "livesUntilMs": later})
    session(workspaces, "s-3", "etl", life={"owner": "app/\u202ebob", "livesUntilMs": later})
    session(workspaces, "s-4", "etl", life={"owner": "app/carol", "livesUntilMs": 0})
    session(workspaces, "s-5", "geo", life={"owner": "app/dave", "livesUntilMs": 1})
    session(workspaces, "s-6", "etl", stack="other", life={"owner": "app/eve", "livesUntilMs": later})

    berth.write("m.yaml", stacks.text(geo))
    plan = berth.plan(code=3)
    refused = {r["id"]: r for c in plan["changes"] for r in c["refusals"]}
    assert list(refused) == ["has-sessions"]
    assert refused["has-sessions"]["message"] == "3 sessions live in it, of app/alice (2), app/\u202ebob"
    text = berth("plan").expect(3).out
    assert "3 sessions live in it" in text and "\u202e" not in text
    berth("apply", "--yes").expect(3)
    berth.write("m.yaml", stacks.text(stacks.environment("etl", tenantIsolation=False), geo))
    assert {r["id"] for c in berth.plan(code=3)["changes"] for r in c["refusals"]} >= {"has-sessions", "needs-replacement"}
    berth.write("m.yaml", stacks.text(stacks.environment("etl", memoryMB=3538), geo))
    berth.apply()

    berth.write("m.yaml", stacks.text(stacks.environment("etl", memoryMB=3538)))
    berth.apply()
    berth.write("m.yaml", stacks.text(geo))
    berth.apply("--allow", "has-sessions:Environment/etl")
    assert "environments/etl.json" not in records(berth)


def test_sweep_is_for_this_machine(offline):
    offline.write("m.yaml", stacks.text(stacks.stack(aws={"region": "eu-central-1"}), stacks.environment("e")))
    assert "for workspaces on this machine" in offline("sweep").expect(1).err
