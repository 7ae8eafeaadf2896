# SPDX-License-Identifier: Apache-2.0
"""What an execution shows beside its output: rich values, display(), figures, and images as files. And what Python it takes."""

import ast
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from binary import ROOT
from runtime_client import Runtime

SOURCES = [ROOT / "runtime/serve" / name for name in ("kernel.py", "notebook.py")]
# matplotlib as far as the kernel knows it: figures by number, a current one, show() that shows nothing.
PYPLOT = """
figures, calls = {}, []
class Figure:
    def __init__(self, number): self.number, self.lines = number, []
    def get_children(self): return ["background", *self.lines]
    def savefig(self, file, format, **ignored):
        if "break" in self.lines: raise ValueError("cannot draw")
        file.write(b"\\x89PNG figure %d %s" % (self.number, ",".join(self.lines).encode()))
def get_fignums(): return sorted(figures)
def figure(number=None):
    number = number or max(figures, default=0) + 1
    return figures.setdefault(number, Figure(number))
def plot(line): (figures[max(figures)] if figures else figure()).lines.append(line)
def close(which): figures.clear()
def show(): calls.append("agg")
"""


@pytest.fixture
def plotting(runtime):
    (runtime.folder / "matplotlib").mkdir()
    (runtime.folder / "matplotlib/__init__.py").write_text("")
    (runtime.folder / "matplotlib/pyplot.py").write_text(PYPLOT)
    return runtime


def only(result):
    assert len(result.displays) == 1, result
    return result.displays[0]


# --- rich values ---


def test_the_forms_of_a_value(runtime):
    shown = only(runtime.ok(
        "class Rich:\n    def __repr__(self): return 'rich'\n    def _repr_html_(self): return '<b>é</b>'\n    def _repr_markdown_(self): return None\n"
        "    def _repr_png_(self): return b'\\x89PNG'\n    def _repr_svg_(self): return '<svg/>', {'width': 1}\n    def _repr_json_(self): return {'a': 1}\nRich()"
    ))  # fmt: skip
    assert shown["main"] and shown["mime"] == {
        "text/plain": b"rich", "text/html": "<b>é</b>".encode(), "image/png": b"\x89PNG", "image/svg+xml": b"<svg/>", "application/json": b'{"a":1}',
    }  # fmt: skip


def test_a_bundle(runtime):
    shown = only(runtime.ok("class B:\n    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/html': 'h', 'image/png': 'iVBORw0=', 'application/x+json': [1]}, {}\nB()"))
    assert shown["mime"]["image/png"] == b"\x89PNG\r" and shown["mime"]["application/x+json"] == b"[1]" and shown["mime"]["text/html"] == b"h"
    odd = runtime.ok("class O:\n    def __repr__(self): return 'o'\n    def _repr_mimebundle_(self, **k): return {1: 'x', 'no type': 'x', 'a/b': object(), '../x': 'x', 'text/html': 'h'}\nO()")
    assert set(only(odd)["mime"]) == {"text/plain", "text/html"}


def test_plain_values_have_no_display(runtime):
    for code in ("1", "[1]", "'x'", "object", "class R:\n    def _repr_html_(self): return 'x'\nR"):
        assert runtime.ok(code).displays == []


def test_a_form_that_raises_is_left_out_and_said(runtime):
    done = runtime.ok("class R:\n    def __repr__(self): return 'r'\n    def _repr_html_(self): raise ValueError\n    def _repr_svg_(self): return '<svg/>'\nR()")
    assert set(only(done)["mime"]) == {"text/plain", "image/svg+xml"}
    assert b"_repr_html_ of R failed: ValueError" in done.stderr


def test_display_stands_where_it_was_called(runtime):
    done = runtime.ok("print('before')\ndisplay(1, 'two')\nprint('after')")
    assert done.order[:2] == ["started", "output"] and done.order.count("display") == 2 and done.stdout == b"before\nafter\n"
    assert [shown["mime"]["text/plain"] for shown in done.displays] == [b"1", b"'two'"] and not done.displays[0]["main"]


def test_a_thread_that_shows_too_late_shows_nothing(runtime):
    runtime.ok("import threading\ngate = threading.Event()\nthread = threading.Thread(target=lambda: (gate.wait(), display('late')))\nthread.start()")
    assert runtime.ok("1").displays == []
    runtime.send({"type": "status"})
    runtime.read()
    done = runtime.ok("gate.set()\nthread.join()")
    assert [shown["mime"]["text/plain"] for shown in done.displays] == [b"'late'"]


# --- figures ---


def test_figures_are_shown_at_the_end_and_by_show(plotting):
    done = plotting.ok("from matplotlib import pyplot as plt\nplt.plot('a')\nplt.show()\nplt.plot('b')\nplt.figure()\nplt.plot('c')")
    assert [shown["mime"]["image/png"] for shown in done.displays] == [b"\x89PNG figure 1 a", b"\x89PNG figure 1 b", b"\x89PNG figure 2 c"]
    assert [shown["file"] for shown in done.displays] == [f".berth/displays/1-{i}.png" for i in (1, 2, 3)]
    assert (plotting.folder / ".berth/displays/1-2.png").read_bytes() == b"\x89PNG figure 1 b"
    assert plotting.ok("plt.get_fignums(), plt.calls").text == "([], [])"


def test_matplotlib_is_not_imported_for_it(plotting):
    assert plotting.ok("import sys; 'matplotlib' in sys.modules").text == "False"
    assert plotting.ok("import os; os.environ['MPLBACKEND']").text == "'agg'"
    assert plotting.ok("os.environ['MPLBACKEND']", variables={"MPLBACKEND": "svg"}).text == "'svg'"


def test_a_figure_that_cannot_be_drawn_is_an_error(plotting):
    done = plotting.run("import matplotlib.pyplot as plt\nplt.plot('break')")
    assert done.status == "error" and done.error["value"] == "cannot draw"
    done = plotting.run("plt.plot('break')\n1/0")
    assert done.error["name"] == "ZeroDivisionError" and b"could not be drawn" in done.stderr
    done = plotting.run("plt.plot('x')\n1/0")
    assert done.error["name"] == "ZeroDivisionError" and only(done)["mime"]["image/png"] == b"\x89PNG figure 1 x"
    assert plotting.ok("plt.get_fignums()").text == "[]"


def test_real_matplotlib(program):
    """Where some Python of this machine has it: BERTH_TEST_MATPLOTLIB, or the machine's own."""
    python = os.environ.get("BERTH_TEST_MATPLOTLIB", "/usr/bin/python3")
    if subprocess.run([python, "-c", "import matplotlib"], capture_output=True).returncode != 0:
        pytest.skip("no matplotlib")
    with Runtime(program, env={"PATH": f"{Path(python).parent}:{os.environ['PATH']}"}) as runtime:
        done = runtime.ok("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nplt.plot([3, 4])\nplt.title('t')\nfig = plt.gcf()")
        assert len(done.displays) == 2 and all(shown["mime"]["image/png"].startswith(b"\x89PNG") for shown in done.displays)
        assert b"Warning" not in done.stderr
        assert runtime.ok("fig").displays[0]["mime"]["image/png"].startswith(b"\x89PNG")


# --- files ---


@pytest.mark.parametrize(
    "before",
    [
        "os.symlink('/tmp', '.berth')",
        "os.mkdir('.berth'); os.symlink('../outside', '.berth/displays'); os.mkdir('outside')",
        "open('.berth', 'w').close()",
        "os.makedirs('.berth/displays/1-1.png')",
        "os.makedirs('.berth'); os.mkfifo('.berth/displays')",
    ],
)
def test_what_is_in_the_way_of_a_file_is_not_followed(runtime, before):
    done = runtime.ok(f"import os\n{before}\nclass P:\n    def _repr_png_(self): return b'png'\ndisplay(P())")
    assert only(done)["file"] is None and only(done)["mime"]["image/png"] == b"png"
    assert not (runtime.folder / "outside").exists() or not list((runtime.folder / "outside").iterdir())


def test_links_and_pipes_by_the_files_name_are_replaced(runtime):
    (runtime.folder / "target").write_text("untouched")
    done = runtime.ok(
        "import os\nos.makedirs('.berth/displays')\nos.symlink('../../target', '.berth/displays/1-1.png')\nos.mkfifo('.berth/displays/1-2.png')\n"
        "class P:\n    def _repr_png_(self): return b'png'\ndisplay(P(), P())"
    )
    assert [shown["file"] for shown in done.displays] == [".berth/displays/1-1.png", ".berth/displays/1-2.png"]
    assert (runtime.folder / "target").read_text() == "untouched"
    for name in ("1-1.png", "1-2.png"):
        found = runtime.folder / ".berth/displays" / name
        assert stat.S_ISREG(found.lstat().st_mode) and found.read_bytes() == b"png"


# --- Pythons ---


def interpreters():
    """Those that the kernel is made for: on the PATH, and in BERTH_TEST_PYTHONS."""
    found = [path for minor in range(8, 20) if (path := shutil.which(f"python3.{minor}"))]
    found = [path for path in found if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0]
    return found + os.environ.get("BERTH_TEST_PYTHONS", "").split()


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_the_kernel_is_written_for_python_3_8(source):
    ast.parse(source.read_text(), feature_version=(3, 8))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_the_kernel_takes_nothing_but_the_standard_library(source):
    if not hasattr(sys, "stdlib_module_names"):
        pytest.skip("this Python does not know what its library is")
    tree = ast.parse(source.read_text())
    names = {alias.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    # notebook.py uses IPython where the image has it.
    assert names <= set(sys.stdlib_module_names) | ({"IPython", "traitlets"} if source.name == "notebook.py" else set())


@pytest.fixture(params=interpreters())
def python(request, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(request.param)
    return request.param


def test_no_python_begins_with_the_users_modules(program, python, tmp_path):
    """3.13 imports linecache from where it is started, before any program of ours."""
    with Runtime(program, env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}) as runtime:
        for name in ("codecs", "encodings", "io", "linecache", "os", "posix", "site", "tokenize", "zlib"):
            (runtime.folder / f"{name}.py").write_text("raise RuntimeError('the user has a module of this name')\n")
        assert runtime.ok("import os\nos.getcwd()").text == repr(os.path.realpath(runtime.folder))


def test_no_python_begins_with_modules_of_its_pythonpath(program, python, tmp_path):
    """Sandboxes have one, the workspace. It counts from the working folder, and the code finds it as it was."""
    work = tmp_path / "work"
    (work / "lib").mkdir(parents=True)
    (work / "lib/mine.py").write_text("answer = 42\n")
    (work / "lib/sitecustomize.py").write_text("import sys\nsys.customized = True\n")
    for name in ("codecs", "fcntl", "io", "linecache", "os", "posix", "select", "site", "tokenize", "traceback", "zlib"):
        (work / f"{name}.py").write_text("raise RuntimeError('the user has a module of this name')\n")
    with Runtime(program, folder=work, env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "PYTHONPATH": f"{work}:lib"}) as runtime:
        assert runtime.ok("import mine, sys\nmine.answer, sys.customized").text == "(42, True)"
        assert runtime.ok("sys.path[:3]").text == repr(["", str(work), str(work / "lib")])
        assert runtime.ok("import os\nos.environ['PYTHONPATH'], [name for name in os.environ if name.startswith('BERTH_')]").text == repr((f"{work}:lib", []))
        assert runtime.run("1 / 0").error["name"] == "ZeroDivisionError"


def test_a_python_of_the_working_folder(program, tmp_path):
    work = tmp_path / "work"
    (work / "venv/bin").mkdir(parents=True)
    (work / "venv/bin/python3").symlink_to(sys.executable)
    with Runtime(program, folder=work, env={"PATH": "venv/bin:/usr/bin:/bin"}) as runtime:
        assert runtime.ok("import sys\nsys.executable").text == repr(str(work / "venv/bin/python3"))


def test_each_python(program, python, tmp_path):
    version = subprocess.run([python, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"], capture_output=True, text=True, check=True).stdout.strip()
    with Runtime(program, env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}) as runtime:
        runtime.send({"type": "prepare"})
        assert runtime.read()[0]["python"] == version
        assert runtime.ok("import sys, asyncio; x = 5; '%d.%d.%d' % sys.version_info[:3]").text == repr(version)
        assert runtime.ok("await asyncio.sleep(0, x)").text == "5"
        failed = runtime.run("def f():\n    1/0\nf()")
        assert failed.error["name"] == "ZeroDivisionError" and "    1/0" in failed.error["traceback"] and "kernel" not in "".join(failed.error["traceback"])
        assert "^" in "".join(runtime.run("x = = 1").error["traceback"])
        done = runtime.ok("import os\nprint('é'); os.system('echo child'); display(2)\nif os.fork() == 0: print('forked')\nelse: os.wait()\nNone")
        assert done.stdout == "é\nchild\nforked\n".encode() and len(done.displays) == 1
        assert runtime.run("input()").error["name"] == "EOFError"
        assert runtime.run("while True: pass", timeoutMs=300).status == "timeout"
        assert runtime.run("await asyncio.sleep(1000)", timeoutMs=300).status == "timeout"
        assert runtime.ok("x").state["was"] == "kept"
        runtime.run("import builtins; builtins.__dict__.clear()")
        assert runtime.run("exit(3)").exitCode == 3
        assert runtime.ok("x").state["was"] == "kept"
