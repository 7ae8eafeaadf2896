# SPDX-License-Identifier: Apache-2.0
"""What the documentation shows is run: every manifest in it, every `berth` line, and each verb and option it names."""

import json
import re
import shlex
from pathlib import Path

import pytest

from lib.documented import write_alone

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").rglob("README.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)


def blocks(language):
    for page in PAGES:
        for number, (found, text) in enumerate(BLOCK.findall(page.read_text())):
            if found == language:
                yield pytest.param(text, id=f"{page.name}-{number}")


def command_lines():
    """Lines of indented or fenced shell that begin with berth, as a reader would type them."""
    for page in PAGES:
        for line in page.read_text().splitlines():
            match = re.match(r"^(?:    |\$ |    \$ )(berth .*)$", line)
            if match:
                yield pytest.param(match.group(1).split("  #")[0].strip(), id=f"{page.name}: {match.group(1)[:40]}")


@pytest.mark.parametrize("text", list(blocks("yaml")))
def test_manifests_in_the_docs_are_valid(offline, text):
    if "apiVersion: berth/v1" not in text:
        # A fragment of a spec: it must at least be under a kind that the reader is told of, so that it can be completed.
        text = f"apiVersion: berth/v1\nkind: Stack\nmetadata: {{name: docs}}\n{text}" if text.startswith("spec:") else None
    if text is None:
        pytest.skip("a fragment without a kind")
    if "kind: Controller" in text or "kind: Server" in text:
        write_alone(offline, text)
        offline("validate", "-f", "alone.yaml").expect(0)
        return
    offline.write("stack.yaml", text)
    offline("validate").expect(0)


@pytest.mark.parametrize("text", list(blocks("json")))
def test_json_in_the_docs_is_json(text):
    """One document, or one a line."""
    try:
        json.loads(text)
    except ValueError:
        for line in text.splitlines():
            json.loads(line)


@pytest.mark.parametrize("line", list(command_lines()))
def test_command_lines_in_the_docs_are_understood(offline, line):
    words = shlex.split(line)[1:]
    verb = next(word for word in words if not word.startswith("-"))
    helped = offline(verb, "--help").expect(0)
    for word in words:
        if word.startswith("--"):
            assert word.split("=")[0] in helped.out, f"{line}: berth {verb} has no {word}"


README = (ROOT / "README.md").read_text()
START, IN_AWS = (text for language, text in BLOCK.findall(README) if language == "yaml")


def test_the_start_of_the_readme(offline):
    """The README's first stack and its commands, one after the other, with no cloud."""
    offline.write("agents/stack.yaml", START)
    commands = re.findall(r"^    (berth [^#\n]*[^#\n\s])", README, re.M)
    assert [shlex.split(c)[1] for c in commands] == ["validate", "plan", "apply", "plan", "exec"]
    printed = []
    for command in commands:
        words = shlex.split(command)[1:]
        done = offline(*words, *(["--yes"] if words[0] == "apply" else []))
        if words[0] == "exec" and "no cgroup was delegated to this user" in done.err:
            done = offline(*words, "--accept-degraded")  # an ordinary user without systemd, who is told so
        printed.append(done.expect(0).out)
    assert printed[3].startswith("Nothing to do")
    assert printed[4] == "42\n"


def test_the_stack_of_the_readme_in_aws(cloud, berth):
    """The same with the environment that the README shows for AWS."""
    first, _, last = START.split("---\n")
    berth.write("agents/stack.yaml", "---\n".join([first, IN_AWS, last]))
    (image,) = re.findall(r"repository: ([^,}\s]+), tag: ([^,}\s]+)", IN_AWS)
    cloud.pushes.amd64(*image)
    berth("apply", "--provider", "aws", "-f", "agents", "--yes").expect(0)
    assert berth("plan", "--provider", "aws", "-f", "agents").expect(0).out.startswith("Nothing to do")
    assert list(cloud.functions()) == ["alphaagent-env-notebooks"]


def test_every_exit_code_and_guard_of_the_docs_is_known():
    guards = (ROOT / "docs" / "guards.md").read_text()
    source = "".join(p.read_text() for folder in ("controller", "providers") for p in (ROOT / folder).rglob("*.c"))
    for guard in re.findall(r"^\| `([a-z-]+)` \|", guards, re.M):
        assert f'"{guard}"' in source, f"docs/guards.md names {guard}, which no code gives"
