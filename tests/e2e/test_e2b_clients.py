# SPDX-License-Identifier: Apache-2.0
"""E2B's interface by its other SDKs, unchanged: the one in JavaScript, and Python's for asyncio."""

import asyncio
import json
import re
import subprocess
import sys

import pytest
from e2b import AsyncSandbox as PlainSandbox
from e2b import FileType, NotFoundException, SandboxQuery, SandboxState
from e2b_code_interpreter import AsyncSandbox

from binary import ROOT
from controllers import PATIENCE
from lib.e2b_client import PNG, SHOWN, options, shared  # noqa: F401
from lib.lab import TOKENS
from lib.node import HERE, MODULES, NODE


@pytest.fixture(scope="module")
def said(shared, tmp_path_factory):  # noqa: F811
    """What a program in JavaScript was told, all of it in one run."""
    folder = tmp_path_factory.mktemp("sandbox")
    (folder / "node_modules").symlink_to(MODULES)
    (folder / "sandbox.mjs").write_bytes((HERE / "sandbox.mjs").read_bytes())
    url = f"http://127.0.0.1:{shared.port}"
    env = {**shared.berth.env, "E2B_API_KEY": TOKENS["self"], "E2B_API_URL": url, "E2B_SANDBOX_URL": url}
    found = subprocess.run([NODE, "sandbox.mjs"], cwd=folder, env=env, capture_output=True, timeout=240 * PATIENCE)
    assert found.returncode == 0, found.stderr.decode()
    return json.loads(found.stdout)


def test_the_quickstart_in_javascript(said):
    assert said["quickstart"] == ["2", None, 2]


def test_code_in_javascript(said):
    *printed, pieces = said["printed"]
    assert printed == ["out\n", "err\n", "('create', 'this')"] and sorted("".join(pieces)) == sorted("out\nerr\n")
    assert said["shown"] == [[PNG, "a chart", False], [PNG, "a chart", True]]
    assert said["error"] == ["ZeroDivisionError", "division by zero", True] and said["shell"] == "42\n"
    assert "400" in said["language"]["message"]  # this SDK reads no more of such an answer
    assert said["left"] and said["after"] == "5"


def test_contexts_in_javascript(said):
    assert said["context"] == ["python", "/workspace", "NameError"] and said["apart"] == ["7", "2"]
    assert said["contexts"] == ["main", True] and said["restarted"] == "NameError"
    assert "no such context" in said["removed"]["message"]


def test_files_in_javascript(said):
    assert said["written"] == ["größe.txt", "/workspace/data/größe.txt", "file"]
    assert said["both"] == ["/workspace/a/1.bin", "/workspace/a/2 ü.txt"]
    assert (said["bytes"], said["streamed"], said["blob"], said["read"]) == ([0, 255], "two", "two", ["10 m\n", "'10 m\\n'"])
    assert said["made"] == [True, False, False]
    assert said["listed"] == [["/workspace/a/1.bin", "file", 2], ["/workspace/a/2 ü.txt", "file", 3]]
    assert said["info"] == ["/workspace/a/1.bin", 2, True] and said["renamed"] == "/workspace/tree/deep/1.bin"
    assert said["gone"][0] is False and "NotFound" in said["gone"][1]
    assert all("InvalidArgument" in name for name in said["outside"])
    assert all("does not have this part" in message for message in said["uncovered"])


def test_life_in_javascript(said):
    same, template, metadata, state, seconds = said["about"]
    assert (same, template, metadata, state) == (True, "data", {"team": "a b & c=d"}, "running") and 2900 < seconds <= 3001
    assert said["longer"] and said["mine"] == [[True], False]
    assert said["running"] == [True, False, "paused"] and said["again"] == ["7", True]
    assert "Authentication" in said["refused"] and "there is no environment never" in said["template"]["message"]
    assert said["killed"] == [True, False, False] and "NotFound" in said["ended"]


# --- in the README ---


def test_the_line_in_the_readme(shared):  # noqa: F811
    line = re.search(r"python3 -c '(from e2b.*)'$", (ROOT / "README.md").read_text(), re.M).group(1)
    url = f"http://127.0.0.1:{shared.port}"
    env = {**shared.berth.env, "E2B_API_KEY": TOKENS["self"], "E2B_API_URL": url, "E2B_SANDBOX_URL": url}
    found = subprocess.run([sys.executable, "-c", line], env=env, capture_output=True, text=True, timeout=120 * PATIENCE)
    assert (found.returncode, found.stdout) == (0, "42\n"), found.stderr


# --- asyncio ---


async def program(given):
    async with await AsyncSandbox.create(timeout=3000, metadata={"async": "1=2&3 %"}, envs={"FROM": "create"}, **given) as box:
        await box.run_code("x = 1")
        execution = await box.run_code("x += 1; x")
        assert (execution.text, execution.error, execution.execution_count) == ("2", None, 2)

        seen = []

        async def keep(message):
            seen.append(message.line)

        execution = await box.run_code("import os, sys\nprint('out')\nprint('err', file=sys.stderr)\nos.environ['FROM'], os.environ['RUN']",
                                       on_stdout=keep, on_stderr=keep, envs={"RUN": "this"})  # fmt: skip
        assert execution.text == "('create', 'this')" and sorted("".join(seen)) == sorted("out\nerr\n")
        shown, main = (await box.run_code(SHOWN + "display(Chart())\nChart()")).results
        assert (shown.png, shown.is_main_result, main.png, main.is_main_result, main.text) == (PNG, False, PNG, True, "a chart")
        assert (await box.run_code("1 / 0")).error.name == "ZeroDivisionError"
        assert (await box.run_code("echo hi; exit 3", language="bash")).error.value == "exit code 3"

        context = await box.create_code_context(cwd="/home/user", language="python")
        assert (await box.run_code("x", context=context)).error.name == "NameError"
        assert [found.id for found in await box.list_code_contexts()] == ["main", context.id]
        await box.restart_code_context(context)
        await box.remove_code_context(context)
        with pytest.raises(Exception, match="no such context"):
            await box.run_code("x", context=context)

        # Many at once: an event loop keeps none of them waiting for another's answer.
        names = [f"many/{n}.txt" for n in range(12)]
        await asyncio.gather(*(box.files.write(name, name) for name in names))
        assert await asyncio.gather(*(box.files.read(name) for name in names)) == names
        assert [result.text for result in await asyncio.gather(*(box.run_code(f"{n} * 2") for n in range(4)))] == ["0", "2", "4", "6"]

        both = await box.files.write_files([{"path": "a/1.bin", "data": b"\0\xff"}, {"path": "a/2 ü.txt", "data": "two"}])
        assert [found.path for found in both] == ["/workspace/a/1.bin", "/workspace/a/2 ü.txt"]
        assert await box.files.read("a/1.bin", format="bytes") == b"\0\xff"
        assert b"".join([piece async for piece in await box.files.read("a/1.bin", format="stream")]) == b"\0\xff"
        assert await box.files.make_dir("tree/deep") and not await box.files.make_dir("tree")
        assert [(entry.path, entry.type) for entry in await box.files.list("tree")] == [("/workspace/tree/deep", FileType.DIR)]
        assert (await box.files.rename("a/1.bin", "tree/1.bin")).size == 2 and (await box.files.get_info("tree/1.bin")).size == 2
        await box.files.remove("tree")
        assert not await box.files.exists("tree")
        with pytest.raises(NotFoundException):
            await box.files.read("tree/1.bin")
        for uncovered in (box.commands.run("true"), box.files.watch_dir("/workspace", keep)):
            with pytest.raises(Exception, match="does not have this part"):
                await uncovered

        info = await box.get_info()
        assert (info.sandbox_id, info.state, info.metadata) == (box.sandbox_id, SandboxState.RUNNING, {"async": "1=2&3 %"})
        await box.set_timeout(5000)
        assert 4000 < ((await box.get_info()).end_at - info.started_at).total_seconds()
        pages = AsyncSandbox.list(query=SandboxQuery(metadata={"async": "1=2&3 %"}), limit=1, **given)
        assert [found.sandbox_id for found in await pages.next_items()] == [box.sandbox_id] and not pages.has_next
        await box.pause()
        assert not await box.is_running() and (await box.get_info()).state == SandboxState.PAUSED
        again = await AsyncSandbox.connect(box.sandbox_id, **given)
        assert (await again.run_code("x")).text == "2" and await again.is_running()

        # Who stops waiting interrupts the code; the variables stay.
        await again.run_code("y = 5")
        with pytest.raises(Exception):
            await again.run_code("import time\nwhile True: time.sleep(0.05)", timeout=1)
        assert (await again.run_code("y")).text == "5"
    assert not await box.is_running()


def test_a_program_of_asyncio(shared):  # noqa: F811
    asyncio.run(program(options(shared)))


def test_the_plain_sdk(shared):  # noqa: F811
    """`e2b` without the interpreter has templates of its own name; files are the same."""

    async def plain():
        box = await PlainSandbox.create(template="web", **options(shared))
        try:
            await box.files.write("a.txt", "plain")
            return await box.files.read("/home/user/a.txt"), (await box.get_info()).template_id
        finally:
            assert await box.kill()

    assert asyncio.run(plain()) == ("plain", "web")
