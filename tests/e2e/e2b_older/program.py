# SPDX-License-Identifier: Apache-2.0
"""What an older SDK of E2B is told, in one run: test_e2b_older.py starts it with that SDK before the newest one in its path."""

import importlib.metadata
import json
import os
import threading

import e2b
from e2b_code_interpreter import Sandbox

said = {"version": importlib.metadata.version("e2b")}


def failure(ask):
    try:
        ask()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def run(sandbox, code):
    """By a thread of its own with a limit: the addresses that older SDKs make are never reached."""
    found = []
    thread = threading.Thread(target=lambda: found.append(failure(lambda: found.append(sandbox.run_code(code).text))), daemon=True)
    thread.start()
    thread.join(60)
    return found


plain = e2b.Sandbox.create(timeout=600, metadata={"by": "older"})
said["template"] = plain.get_info().template_id
said["hosts"] = [plain.get_host(49999), plain.sandbox_domain]
plain.files.write("/home/user/a.txt", "text")
said["files"] = [plain.files.read("a.txt"), [entry.name for entry in plain.files.list("/home/user")], plain.files.exists("b.txt")]
said["running"] = [plain.is_running()]
plain.set_timeout(900)
pause = getattr(plain, "pause", None) or plain.beta_pause
pause()
said["running"].append(plain.is_running())
again = e2b.Sandbox.connect(plain.sandbox_id, timeout=600)
said["running"].append(again.is_running())
said["hosts"] += [again.get_host(80), again.sandbox_domain]
said["listed"] = [found.sandbox_id == plain.sandbox_id for found in e2b.Sandbox.list(query=e2b.SandboxQuery(metadata={"by": "older"})).next_items()]
said["uncovered"] = [failure(lambda: again.commands.run("true")), failure(lambda: again.files.watch_dir("/home/user"))]
said["missing"] = [failure(lambda: again.files.read("never.txt")), failure(lambda: again.files.list("never"))]
said["killed"] = [again.kill(), again.kill()]

box = Sandbox.create(timeout=600)
said["code"] = [box.get_info().template_id, run(box, "6 * 7"), box._jupyter_url]
box.kill()
os.environ["E2B_API_KEY"] = "e2b_" + "0" * 40
said["refused"] = failure(lambda: Sandbox.create())
print(json.dumps(said))
