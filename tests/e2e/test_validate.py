# SPDX-License-Identifier: Apache-2.0
"""`validate` on bad input: every error of every file in one run, each at the value that is wrong.

In the cases, § stands where the error must be reported, and is taken out before Berth reads the file.
"""

import os
import re

import pytest
import yaml

from binary import ROOT
from lib.invalid_manifests import CASES, agent, environment, marked


def diagnostics(berth, *args, code=1):
    found = berth("validate", "--json", *args).expect(code).json()
    return found["diagnostics"]


@pytest.mark.parametrize("name", CASES)
def test_error_at_its_value(offline, name):
    source, words = CASES[name]
    source, places = marked(source)
    offline.write("m.yaml", source)
    found = diagnostics(offline)
    errors = [d for d in found if d["severity"] == "error"]
    where = [(d["line"], d["column"]) for d in errors]
    assert where == places, errors
    for error, word in zip(errors, words):
        assert word in error["message"] + " " + (error["hint"] or ""), error
        assert error["file"].endswith("m.yaml")
    result = offline("validate").expect(1)
    for line, column in places:
        assert re.search(rf"m\.yaml:{line}:{column}: error: ", result.err), result.err
    assert result.err.count("^") >= 1
    assert result.out == ""


def test_caret_stands_under_the_value(offline):
    offline.write("m.yaml", environment(spec="  memoryMB: 1768\n"))
    lines = offline("validate").expect(1).err.splitlines()
    at = next(i for i, line in enumerate(lines) if "memoryMB: 1768" in line and "error" not in line)
    assert lines[at].index("1768") == lines[at + 1].index("^")


def test_all_errors_of_all_files(offline):
    for name in ("a.yaml", "b.yml", "deep/er/c.yaml"):
        offline.write(name, environment(name="e-" + name[0], spec="  memoryMB: 1\n"))
    offline.write(".hidden/d.yaml", "memoryMB: [")
    offline.write("notes.txt", "memoryMB: [")
    assert [os.path.basename(d["file"]) for d in diagnostics(offline)] == ["a.yaml", "b.yml", "c.yaml"]


def test_good_input(offline):
    offline.write("a.yaml", "\ufeff---\n---\n" + environment(spec="  memoryMB: 0x800\n  workspaceStorageMB: 0o4000\n").replace("\n", "\r\n"))
    offline.write("b.yml", agent("  type: general\n  environment: x\n  active: false\n"))
    anchored = "  variables: {FIRST: &v value, SECOND: *v, NO: no, VERSION: 1.10, ACCOUNT: 012345678901}\n"
    offline.write("c.yaml", environment("y", anchored))
    assert diagnostics(offline, code=0) == []


@pytest.mark.parametrize("source", ["", "# only comments\n", "---\n---\n", "\ufeff"])
def test_a_file_without_documents_is_a_warning(offline, source):
    offline.write("empty.yaml", source)
    offline.write("m.yaml", environment())
    found = diagnostics(offline, code=0)
    assert [(d["severity"], os.path.basename(d["file"])) for d in found] == [("warning", "empty.yaml")]


@pytest.mark.parametrize("source", ["", "# only comments\n"])
def test_a_pipe_without_documents_deletes_nothing(offline, source):
    """What should have written it has failed; the pipe's end does not say so."""
    offline.write("m.yaml", environment())
    offline("apply", "--yes", "--provider", "local").expect(0)
    for verb in ["validate"], ["plan"], ["apply", "--yes"]:
        assert "<stdin>: error: this file holds no manifest" in offline(*verb, "-f", "-", stdin=source).expect(1).err
    assert "Environment/x" in offline("state", "list").expect(0).out


def test_duplicates_over_files(offline):
    offline.write("a.yaml", environment() + "---\n" + agent("  type: general\n", "twin"))
    offline.write("b.yaml", environment() + "---\n" + agent("  type: general\n", "twin"))
    errors = diagnostics(offline)
    assert [(os.path.basename(d["file"]), d["line"]) for d in errors] == [("b.yaml", 4), ("b.yaml", 10)]
    for error in errors:
        assert "a.yaml" in error["message"] + (error["hint"] or ""), "the first one's place is named"


def test_several_paths_are_one_stack(offline):
    offline.write("team/m.yaml", environment("one"))
    offline.write("team/deep/n.yaml", environment("two"))
    offline.write("more.yaml", agent("  type: general\n  environment: two\n"))
    offline.write("empty.yaml", "# nothing yet\n")
    os.mkdir(os.path.join(offline.stack, "bare"))
    found = offline("validate", "-f", "team", "--file", "more.yaml", "-f", "-", "--json", stdin=environment("three")).expect(0).json()
    assert (found["files"], found["resources"]) == (4, {"Environment": 3, "Agent": 1})
    offline("apply", "--yes", "--provider", "local", "-f", "team", "-f", "more.yaml").expect(0)
    assert os.path.isdir(os.path.join(offline.stack, "team/.berth")), "the state lies beside the first"
    assert "Nothing to do" in offline("plan", "--provider", "local", "-f", "team", "-f", "more.yaml").expect(0).out
    twice = offline("validate", "-f", "team", "-f", "team/m.yaml").expect(1).err
    assert "Environment/one is declared twice" in twice
    bare = offline("validate", "-f", "team", "-f", "bare").expect(1).err
    assert "bare: error: no manifests in this folder" in bare and "team" not in bare
    assert "empty.yaml:" in offline("validate", "-f", "team", "-f", "empty.yaml").expect(1).err, "as when it stands alone"
    assert "absent" in offline("validate", "-f", "team", "-f", "absent").expect(1).err
    for wrong in (["serve"], ["session", "list"], ["plan", "--stacks"]):
        assert "takes one -f" in offline(*wrong, "-f", "team", "-f", "more.yaml").expect(1).err
    assert "read once" in offline("validate", "-f", "-", "-f", "-", stdin="").expect(1).err


UNTIDY = "# whose\nkind:   Environment\r\napiVersion: berth/v1\nmetadata:\n    name: x   # the name\n    # labels come\n\n\n\n    labels: {a:  b}\nspec:\n        image: {prebuilt: python}\n"
TIDY = "# whose\nkind: Environment\napiVersion: berth/v1\nmetadata:\n  name: x   # the name\n  # labels come\n\n  labels: {a:  b}\nspec:\n  image: {prebuilt: python}\n"


def test_fmt_changes_whitespace_alone(offline):
    for name in ("a/one.yaml", "a/deep/two.yml", "a/.hidden/no.yaml", "a/notes.txt"):
        offline.write(name, UNTIDY)
    offline.write("a/broken.yaml", "kind: [\n")
    offline.write("a/tidy.yaml", TIDY.replace("name: x", "name: y"))
    path = offline.stack / "a/one.yaml"
    path.write_bytes(UNTIDY.encode())
    path.chmod(0o640)
    before = path.stat()
    check = offline("fmt", "-f", "a", "--check").expect(1)
    assert check.out.splitlines() == ["a/deep/two.yml", "a/one.yaml"] and "2 of 4 files would change" in check.err
    assert "a/broken.yaml: line 2" in check.err and path.read_bytes() == UNTIDY.encode()
    offline("fmt", "a/deep", "a/one.yaml", "--check").expect(2)
    told = offline("fmt", "a", "--json").expect(1).json()
    assert told == {"files": 4, "failed": 1, "changed": ["a/deep/two.yml", "a/one.yaml"]}
    assert path.read_text() == TIDY and path.stat().st_mode == before.st_mode
    assert (offline.stack / "a/notes.txt").read_text() == (offline.stack / "a/.hidden/no.yaml").read_text() != TIDY
    (offline.stack / "a/broken.yaml").unlink()
    assert "Nothing to do: 3 files" in offline("fmt", "-f", "a").expect(0).err
    offline("fmt", "--check", "-f", "a").expect(0)
    for words in (["-f", "-"], ["-"]):
        assert offline("fmt", *words, stdin=UNTIDY).expect(0).out == TIDY
    os.symlink("one.yaml", offline.stack / "a/link.yaml")
    assert "link.yaml: this is no regular file" in offline("fmt", "a").expect(1).err
    assert "a/absent" in offline("fmt", "a/absent").expect(1).err
    assert "both" in offline("fmt", "a", "-f", "a").expect(1).err


def test_fmt_means_the_same_to_others(offline):
    """Judged by PyYAML: what the examples say, and their comments, in other layouts."""
    comments = re.compile(r"#.*")
    for source in sorted((ROOT / "examples").rglob("*.yaml")):
        text = source.read_text()
        wide = re.sub(r"^(?!---)(?=.)", "   ", text, flags=re.M)
        for given in (text, text.replace("\n", "\r\n"), wide):
            out = offline("fmt", "-f", "-", stdin=given).expect(0).out
            assert list(yaml.safe_load_all(out)) == list(yaml.safe_load_all(given)), source
            assert comments.findall(out.replace("\r\n", "\n")) == [line.rstrip() for line in comments.findall(text)], source
            assert offline("fmt", "-f", "-", stdin=out).expect(0).out == out, source
    offline("fmt", "--check", ROOT / "examples/manifests").expect(0)


def test_nothing_to_read(offline):
    assert offline("validate").expect(1).err
    result = offline("validate", "-f", "absent").expect(1)
    assert "absent" in result.err


def test_standard_input(offline):
    offline("validate", "-f", "-", stdin=environment()).expect(0)
    result = offline("validate", "-f", "-", stdin=environment(spec="  memoryMB: 1\n")).expect(1)
    assert re.search(r":7:13: error: ", result.err)


@pytest.mark.parametrize(
    "source",
    [
        environment().encode() + b"  description: \xff\xfe\n",
        environment(spec='  description: "a\\0b"\n').encode(),
        environment().encode() + b"  description: a\x00b\n",
        environment(spec="  description: {" * 70).encode(),
        b"[" * 100000,
        environment(spec='  description: "open\n').encode(),
        environment().encode() + b"  description: *absent\n",
        b"- a\n- b\n",
        b"text\n",
        b"%YAML 3.0\n---\na: b\n",
    ],
    ids=["invalid UTF-8", "escaped NUL", "NUL", "70 deep", "100,000 deep", "open quote", "unknown alias", "a list", "a text", "YAML 3"],
)
def test_broken_texts(offline, source):
    offline.write("m.yaml", source)
    errors = [d for d in diagnostics(offline) if d["severity"] == "error"]
    assert errors and all(d["file"].endswith("m.yaml") for d in errors)
    assert errors[0]["line"], errors


def test_64_deep_is_read_and_65_is_not(offline):
    def nested(depth):
        return "x: " + "[" * (depth - 1) + "]" * (depth - 1) + "\n"

    for depth, says_deep in ((64, False), (66, True)):
        offline.write("m.yaml", nested(depth))
        messages = " ".join(d["message"] for d in diagnostics(offline))
        assert bool(re.search(r"nest|deep", messages)) == says_deep, messages


def test_alias_bomb(offline):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 12)]
    offline.write("m.yaml", "\n".join(lines) + "\n")
    assert re.search("alias", " ".join(d["message"] for d in diagnostics(offline)))


def test_16_mebibytes(offline):
    head = environment()
    limit = 16 * 1024 * 1024
    offline.write("m.yaml", head + "#" * (limit - len(head) - 1) + "\n")
    assert diagnostics(offline, code=0) == []
    offline.write("m.yaml", head + "#" * (limit - len(head)) + "\n")
    assert "16" in diagnostics(offline)[0]["message"]


def test_folders_that_go_in_circles_and_files_that_cannot_be_read(offline):
    offline.write("sub/m.yaml", environment())
    (offline.stack / "sub" / "loop").symlink_to(offline.stack)
    assert diagnostics(offline, code=0) == []
    (offline.stack / "self.yaml").symlink_to(offline.stack / "self.yaml")
    errors = diagnostics(offline)
    assert [os.path.basename(d["file"]) for d in errors] == ["self.yaml"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(offline):
    offline.write("m.yaml", environment()).chmod(0)
    assert diagnostics(offline)[0]["file"].endswith("m.yaml")


def test_a_folder_named_like_a_manifest(offline):
    offline.write("folder.yaml/m.yaml", environment())
    assert diagnostics(offline, code=0) == []


def test_explain(offline):
    text = offline("explain", "Environment.memoryMB").expect(0).out
    for part in ("integer", "MB", "1769", "10240", "2048"):
        assert part in text, text
    assert "memoryMB" in offline("explain", "Environment").expect(0).out
    assert "memoryMB" in offline("explain", "Environment.memoryMb").expect(1).err
