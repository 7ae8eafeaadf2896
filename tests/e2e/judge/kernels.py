# SPDX-License-Identifier: Apache-2.0
"""Where cells run: ipykernel by jupyter_client, berth-runtime by runtime_client, a whole server by HTTP. All give a Seen."""

import ast
import queue
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_client.manager import KernelManager

from runtime_client import PATIENCE, Runtime


@dataclass
class Seen:
    """What a cell showed. A display is its MIME types and, unless it is an image, its text."""

    stdout: str = ""
    stderr: str = ""
    value: str | None = None
    repr: str | None = None  # by ipykernel: the value's, which its pretty printer may show in another way
    displays: list = field(default_factory=list)
    error: tuple | None = None
    lost: list = field(default_factory=list)

    def show(self, mime, plain):
        kinds = tuple(sorted(kind for kind in mime if kind != "text/plain"))
        # Beside the image of a figure ipykernel sends the figure's repr.
        self.displays.append((kinds, None if any(kind.startswith("image/") for kind in kinds) else plain))


def environment(python, folder):
    path = f"{Path(python).parent}:/usr/local/bin:/usr/bin:/bin"
    return {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8", "TZ": "UTC", "MPLCONFIGDIR": str(Path(python).parent.parent / "matplotlib"), "PYTHONHASHSEED": "0"}


class Ipykernel:
    """The judge."""

    def __init__(self, python, folder):
        self.folder = Path(folder)
        self.manager = KernelManager(transport="ipc", ip=f"{folder}-kernel")
        self.manager.kernel_spec.argv[0] = str(python)
        self.manager.start_kernel(cwd=str(folder), env=environment(python, folder))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE / 2)

    def run(self, cell):
        seen, lines = Seen(), cell.stdin.decode().splitlines()
        n = self.client.execute(cell.source, store_history=True, allow_stdin=True, user_expressions={"repr": "repr(_)"})
        until = time.monotonic() + PATIENCE * 5
        while time.monotonic() < until:
            self._answer_input(seen, lines)
            try:
                message = self.client.get_iopub_msg(timeout=0.05)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") != n:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                seen.repr = seen.value and self._repr(n)
                return seen
            self._note(seen, kind, content)
        raise TimeoutError(cell.source)

    def _repr(self, n):
        while True:
            reply = self.client.get_shell_msg(timeout=PATIENCE)
            if reply["parent_header"].get("msg_id") == n:
                found = reply["content"].get("user_expressions", {}).get("repr", {})
                return ast.literal_eval(found["data"]["text/plain"]) if found.get("status") == "ok" else None

    def _answer_input(self, seen, lines):
        try:
            asked = self.client.get_stdin_msg(timeout=0)
        except queue.Empty:
            return
        # A frontend shows the prompt; as a program's input() it stands in stdout.
        seen.stdout += asked["content"]["prompt"]
        self.client.input(lines.pop(0))

    def _note(self, seen, kind, content):
        if kind == "stream":
            setattr(seen, content["name"], getattr(seen, content["name"]) + content["text"])
        elif kind == "execute_result":
            seen.value = content["data"].get("text/plain")
            if set(content["data"]) != {"text/plain"}:
                seen.show(content["data"], seen.value)
        elif kind == "display_data":
            seen.show(content["data"], content["data"].get("text/plain"))
        elif kind == "error":
            seen.error = (content["ename"], content["evalue"])

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


class Session:
    """berth-runtime, started as a session's worker does it. `park` takes a checkpoint and restores it in another process."""

    def __init__(self, binary, python, folder):
        self.binary, self.python, self.folder = binary, python, Path(folder)
        self._start()

    def _start(self):
        self.runtime = Runtime(self.binary, folder=self.folder, env=environment(self.python, self.folder))

    def run(self, cell):
        result = self.runtime.run(cell.source, stdin=cell.stdin or None, timeoutMs=int(PATIENCE * 5000))
        seen = Seen(result.stdout.decode(), result.stderr.decode(), result.text)
        for shown in result.displays:
            plain = shown["mime"].get("text/plain")
            seen.show(shown["mime"], plain and plain.decode())
        if result.error:
            seen.error = (result.error["name"], result.error["value"])
        seen.lost = result.state.get("lost", [])
        return seen

    def park(self):
        said, file = self.runtime.checkpoint(max_bytes=1 << 30)
        self.close()
        self._start()
        self.runtime.restore(file)
        return said

    def close(self):
        self.runtime.close()


class Served:
    """A session of a whole server. `park` waits until the server has parked it."""

    def __init__(self, server):
        self.server, self.session = server, server.create()

    def run(self, cell):
        result = self.server.run(self.session, cell.source, **({"stdin": cell.stdin.decode()} if cell.stdin else {}))
        seen = Seen(result["stdout"]["content"], result["stderr"]["content"], result["value"] and result["value"]["text"])
        for shown in result["displays"]:
            seen.show(shown["mime"], shown["mime"].get("text/plain"))
        if result["error"]:
            seen.error = (result["error"]["name"], result["error"]["value"])
        seen.lost = result["state"].get("lost", [])
        return seen

    def park(self):
        self.server.wait_until_parked(self.session)

    def close(self):
        pass


def copy_beside(program, folder):
    """A program of a gallery reads files beside it."""
    for path in program.path.parent.iterdir():
        if path.is_file() and path.suffix != ".py" and path.stat().st_size < 4 << 20:
            shutil.copy(path, folder)
    (folder / "program.py").write_bytes(program.path.read_bytes())
