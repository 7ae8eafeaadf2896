# SPDX-License-Identifier: Apache-2.0
"""
What is written for notebooks: magics, `!`, displays, show() of libraries. In an image with IPython, whose own transformer and magics are
used then, and in one without. What is right is what ipykernel answers, but where a row says otherwise.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from runtime_client import Runtime

SITE = Path(sysconfig.get_paths()["purelib"])
PNG = b"\x89PNG"
DOT = b"\x89PNG\r\n\x1a\n" + b"1" * 40


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory):
    """The Python of the tests with all of its libraries but IPython: a PATH and a PYTHONPATH."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "bin").mkdir()
    (folder / "bin/python3").symlink_to(os.path.realpath(sys.executable))
    (folder / "site").mkdir()
    for entry in SITE.iterdir():
        if not entry.name.lower().startswith(("ipython", "matplotlib_inline")) and entry.suffix != ".pth":
            (folder / "site" / entry.name).symlink_to(entry)
    return {"PATH": f"{folder}/bin:/usr/bin:/bin", "PYTHONPATH": str(folder / "site")}


@pytest.fixture(params=["bare", "ipython"])
def either(request, program, bare_python):
    env = bare_python if request.param == "bare" else {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    with Runtime(program, env=env) as made:
        made.bare = request.param == "bare"
        yield made


@pytest.fixture
def bare(program, bare_python):
    with Runtime(program, env=bare_python) as made:
        yield made


def shown(result):
    return [display["mime"] for display in result.displays]


# --- magics ---

# What is run, and what it prints (a pattern of all of it) and gives.
SOURCES = [
    ("!echo hi", "hi\n", None),
    ("!echo one; exit 3", "one\n", None),
    ("_exit_code", "", "3"),
    ("x = !printf 'a\\nb\\n'\nx", "", "['a', 'b']"),
    ("x.n, x.s, len(x)", "", r"('a\nb', 'a b', 2)"),
    ("n = 3\n!echo {n + 1} $n '$n' $$n", r"4 3 \$n\n", None),
    ("!awk 'BEGIN {print 1}'", "1\n", None),
    ("!echo a \\\n  b\n", "a b\n", None),
    ("if n:\n    !echo inside\n", "inside\n", None),
    ("def f():\n    y = !echo deep\n    return y[0]\nf()", "", "'deep'"),
    ('text = """\n!echo no\n%time\nx?\n"""\n!echo yes\ntext', "yes\n", r"'\n!echo no\n%time\nx?\n'"),
    ("values = [\n    1,\n    2]\n!echo {len(values)}", "2\n", None),
    ("%env NOTE=book", "env: NOTE=book\n", None),
    ("%env NOTE", "", "'book'"),
    ("!echo $NOTE", "book\n", None),
    ("%cd -q .", "", None),
    ("%cd /tmp", "/tmp\n", None),
    ("%pwd", "", "'/tmp'"),
    ("!pwd", "/tmp\n", None),
    ("%cd -", None, None),
    ("%time 6 * 7", r"CPU times: user .*, sys: .*, total: .*\nWall time: .*\n", "42"),
    ("%%time\nz = 6\nz * 8", r"CPU times: .*\nWall time: .*\n", "48"),
    ("z", "", "6"),
    ("%timeit -n 2 -r 3 z + 1", r".* ± .* per loop \(mean ± std\. dev\. of 3 runs, 2 loops each\)\n", None),
    ("%%timeit -n1 -r1\nz + 1", r".* ± .* per loop \(mean ± std\. dev\. of 1 run, 1 loop each\)\n", None),
    ("%%bash\nprintf '%s\\n' {a,b}", "a\nb\n", None),
    ("%%sh\necho $((1 + 2))", "3\n", None),
    ("%%writefile note.txt\nline", r"Writing note.txt\n", None),
    ("!cat note.txt", "line\n?", None),
    ("%%capture got\nprint('quiet')", "", None),
    ("got.stdout", "", r"'quiet\n'"),
    ("%who_is_this = 1", None, SyntaxError),
    ("    a = 1\n    if a:\n        a = 5\n    a", "", "5"),
    (">>> for i in range(2):\n...     print(i)", "0\n1\n", None),
    ("%matplotlib inline", "", None),
    ("%config InlineBackend.figure_format = 'retina'", "", None),
    ("z?", r"Type: +int\n[\s\S]*Docstring:[\s\S]*", None),
    ("?f", r"Signature: +f\(\)\n[\s\S]*", None),
    ("f??", r"[\s\S]*y = !echo deep[\s\S]*", None),
    ("nothing_of_this_name?", r"Object `nothing_of_this_name` not found\.\n", None),
    ("x = = 1", "", SyntaxError),
    ("!echo 'open\n1 +", None, SyntaxError),
    ("%no_such_magic", None, LookupError),
]  # fmt: skip


def test_sources_of_notebooks(either):
    wrong = {}
    for source, printed, text in SOURCES:
        done = either.run(source)
        if text is SyntaxError:
            right = done.status == "error" and done.error["name"] in ("SyntaxError", "UsageError")
        elif text is LookupError:  # by IPython it is a line on stderr
            right = "no_such_magic" in (done.error["value"] if done.error else done.stderr.decode())
        else:
            right = done.status == "ok" and done.text == text
        if not right or (printed is not None and not re.fullmatch(printed, done.stdout.decode())):
            wrong[source] = done
    assert not wrong


def test_long_lines_that_are_not_python_are_read_once(bare):
    """By each way to divide its blanks, a line of a million of them took hours."""
    blanks = " " * 1_000_000
    for source in ("a" + blanks + "(", blanks + "(", "?" + blanks + "(", "a" + blanks + "!x", "a" + blanks + "? (", "!(\\\n" * 100_000 + ")("):
        done = bare.run(source)
        assert done.status == "error" and done.error["name"] in ("SyntaxError", "IndentationError", "OSError"), source[:3]


def test_magics_are_where_they_stand_in_the_source(either):
    """Lines of an error are the source's own. IPython makes one of lines that go on."""
    failed = either.run("\n!true \\\n  && true\n\n1 / 0" if either.bare else "\n!true\n\n\n1 / 0")
    assert [line for line in failed.error["traceback"] if "File" in line] == ['  File "<execution 1>", line 5, in <module>']
    assert "    1 / 0" in failed.error["traceback"]
    failed = either.run("\n\n%%time\n1\n2 / 0")
    assert failed.error["name"] == "ZeroDivisionError" and not any("berth" in line for line in failed.error["traceback"])


def test_what_is_not_there_says_what_is(bare):
    failed = bare.run("%load_ext autoreload")
    assert failed.error["name"] == "UsageError" and "%timeit" in failed.error["value"] and "ipython" in failed.error["value"]
    failed = bare.run("%%cython\n1")
    assert "%%bash" in failed.error["value"]
    failed = bare.run("from IPython.display import Audio")
    assert failed.error["name"] == "ImportError" and "Install ipython" in failed.error["value"]
    assert bare.run("from IPython.core.interactiveshell import InteractiveShell").error["name"] == "ModuleNotFoundError"


def test_pip(either):
    done = either.ok("%pip --version")
    assert done.stdout.startswith(b"pip ")
    done = either.run("import os, sys\nos.environ['PATH'] = '/nowhere'\n%pip install --no-index nothing-of-this-name")
    assert done.status == "ok" and b"nothing-of-this-name" in done.stderr and either.ok("_exit_code").text == "1"


@pytest.mark.parametrize("install", ["%pip install", "!pip install"])
def test_what_pip_installs_is_there_at_once(program, tmp_path, install):
    """For the user, since the image's own folder cannot be written in a sandbox."""
    wheel = tmp_path / "brought-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("brought.py", "answer = 42\n")
        archive.writestr("brought-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: brought\nVersion: 1\n")
        archive.writestr("brought-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("brought-1.dist-info/RECORD", "brought.py,,\nbrought-1.dist-info/METADATA,,\nbrought-1.dist-info/WHEEL,,\nbrought-1.dist-info/RECORD,,\n")
    env = {"PATH": "/usr/bin:/bin", "PIP_USER": "1", "PIP_NO_INDEX": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1"}
    if subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True).returncode != 0:
        pytest.skip("this machine's own Python has no pip")
    with Runtime(program, env=env) as runtime:
        done = runtime.ok(f"{install} {wheel}")
        assert runtime.ok("_exit_code").text == "0", done
        assert runtime.ok("import brought\nbrought.answer").text == "42"


def test_pip_where_the_image_has_none(program, tmp_path):
    with Runtime(program, env={"PATH": "/usr/bin:/bin"}) as runtime:
        runtime.ok("import importlib.util\nreal = importlib.util.find_spec\nimportlib.util.find_spec = lambda name, *rest: None if name == 'pip' else real(name, *rest)")
        assert "this image has no pip" in runtime.run("%pip install x").error["value"]


def test_a_shell_of_a_magic_is_interrupted(runtime):
    result = runtime.finish(runtime.start("!echo begun; sleep 1000"), until=lambda result: result.stdout)
    runtime.send({"type": "interrupt", "n": result.n})
    done = runtime.finish(result)
    assert done.status == "interrupted" and done.stdout == b"begun\n" and runtime.ok("1").state["was"] == "kept"


# --- the last values ---


def test_last_values(either):
    either.ok("6 * 7")
    assert either.ok("_ + 1").text == "43"
    assert either.ok("_, __").text == "(43, 42)"
    either.ok("None"), either.ok("5;"), either.ok("x = 5")
    assert either.ok("_").text == "(43, 42)"
    assert either.ok("Out[1], In[1], In[-1]").text == "(42, '6 * 7', 'Out[1], In[1], In[-1]')"
    assert either.ok("[name for name in globals() if not name.startswith('__')]").text == "['x']"


def test_last_values_are_few_and_given_back(runtime):
    runtime.ok("import weakref\nclass Large: pass\nmade = [weakref.ref(Large())]")
    for _ in range(30):
        runtime.ok("value = Large(); made.append(weakref.ref(value)); value")
    assert int(runtime.ok("del value; sum(one() is not None for one in made)").text) <= 13
    assert runtime.run("raise MemoryError").status == "memory"
    assert runtime.ok("sum(one() is not None for one in made), len(Out)").text == "(0, 0)"


def test_a_name_of_somebody_elses_stays(runtime):
    runtime.ok("import gettext; gettext.install('x')")
    runtime.ok("5")
    assert runtime.ok("_('text')").text == "'text'"
    runtime.ok("_ = 7")
    runtime.ok("6")
    assert runtime.ok("_").text == "7"


# --- displays ---

# An expression with all of IPython.display's names, and the parts of its display beside text/plain.
DISPLAYS = [
    ("HTML('<b>x</b>')", {"text/html": b"<b>x</b>"}),
    ("HTML(data='<i>')", {"text/html": b"<i>"}),
    ("Markdown('*x*')", {"text/markdown": b"*x*"}),
    ("Latex('$x$')", {"text/latex": b"$x$"}),
    ("Math('x')", {"text/latex": b"$\\displaystyle x$"}),
    ("SVG('<svg/>')", {"image/svg+xml": b"<svg/>"}),
    ("SVG('<?xml version=\"1.0\"?><svg/>')", {"image/svg+xml": b"<svg/>"}),
    ("JSON({'a': [1]})", {"application/json": b'{"a":[1]}'}),
    ("JSON('[1]')", {"application/json": b"[1]"}),
    ("Javascript('alert(1)')", {"application/javascript": b"alert(1)"}),
    ("Image(b'\\x89PNG\\r\\n\\x1a\\n' + b'0' * 40, format='png')", {"image/png": b"\x89PNG\r\n\x1a\n" + b"0" * 40}),
    ("Image(filename='dot.png')", {"image/png": DOT}),
    ("Image('dot.png')", {"image/png": DOT}),
    ("Image(url='http://x/y.png')", {"text/html": b'<img src="http://x/y.png"/>'}),
    ("Image(url='http://x/y.png', width=5)", {"text/html": b'<img src="http://x/y.png" width="5"/>'}),
    ("HTML(filename='page.html')", {"text/html": b"<p>page"}),
    ("IFrame('http://x', 10, 20)", {"text/html": re.compile(rb'\s*<iframe\s+width="10"\s+height="20"\s+src="http://x"[\s\S]*')}),
]  # fmt: skip
NAMES = "display, HTML, Image, Markdown, JSON, SVG, Javascript, Latex, Math, IFrame, Pretty, clear_output, update_display, DisplayHandle, display_html, publish_display_data"


def is_shown(found, expected):
    rest = {kind: data for kind, data in found.items() if kind != "text/plain"}
    return rest.keys() == expected.keys() and all(data.fullmatch(rest[kind]) if isinstance(data, re.Pattern) else rest[kind] == data for kind, data in expected.items())


def test_the_classes_of_ipython_display(either):
    (either.folder / "dot.png").write_bytes(DOT)
    (either.folder / "page.html").write_text("<p>page")
    either.ok(f"from IPython.display import {NAMES}")
    wrong = {}
    for expression, expected in DISPLAYS:
        for source in (expression, f"display({expression})"):
            done = either.run(source)
            if len(done.displays) != 1 or not is_shown(done.displays[0]["mime"], expected) or done.displays[0]["main"] != (source == expression):
                wrong[source] = done
            elif "IFrame" not in source and not re.fullmatch(rb"<IPython\.core\.display\.\w+ object>", done.displays[0]["mime"]["text/plain"]):
                wrong[source] = done
    assert not wrong


def test_an_image_that_is_not_there(bare):
    failed = bare.run("from IPython.display import Image\nImage('missing.png')")
    assert failed.error["name"] == "FileNotFoundError" and "missing.png" in failed.error["value"]


def test_bundles_and_chosen_forms(either):
    either.ok(f"from IPython.display import {NAMES}")
    both = "class B:\n    def __repr__(self): return 'b'\n    def _repr_html_(self): return '<b>'\n    def _repr_svg_(self): return '<svg/>'\n"
    for source, expected in (
        ("display({'text/html': 'h', 'text/plain': 'p', 'application/x+json': {'a': 1}}, raw=True)", {"text/html": b"h", "text/plain": b"p", "application/x+json": b'{"a":1}'}),
        ("publish_display_data({'text/html': 'h'}, {'text/html': {}})", {"text/html": b"h"}),
        (both + "display(B(), include=['text/html'])", {"text/html": b"<b>"}),
        (both + "display(B(), exclude=['text/html'])", {"text/plain": b"b", "image/svg+xml": b"<svg/>"}),
        (both + "display_html(B())", {"text/html": b"<b>"}),
        ("display_html('<u>', raw=True)", {"text/html": b"<u>"}),
        ("display(1, metadata={'a': 1}, transient={})", {"text/plain": b"1"}),
        ("%%html\n<p>cell</p>", {"text/plain": b"<IPython.core.display.HTML object>", "text/html": b"<p>cell</p>"}),
    ):  # fmt: skip
        found = shown(either.ok(source))
        assert [{kind: data.strip() for kind, data in one.items()} for one in found] == [expected], source


def test_updates_are_one_display_at_the_end(either):
    """A display that was shown stays as it is; the last of its updates is shown when the execution ends."""
    either.ok(f"from IPython.display import {NAMES}")
    done = either.ok("handle = display('first', display_id=True)\nfor i in range(200):\n    handle.update(i)\nclear_output(wait=True)\nprint('end')")
    assert shown(done) == [{"text/plain": b"'first'"}, {"text/plain": b"199"}] and done.displaysDropped == 0
    assert shown(either.ok("update_display('later', display_id=handle.display_id)")) == [{"text/plain": b"'later'"}]
    assert shown(either.ok("handle.update('later')")) == []
    assert re.fullmatch("<DisplayHandle display_id=[0-9a-f]{32}>", either.ok("handle").text)
    assert either.ok("display(1, display_id='mine').display_id").text == "'mine'"


@pytest.mark.parametrize("form, displays", [("pass", 0), ("raise NotImplementedError", 1), ("raise ValueError", 1)])
def test_what_shows_itself(either, form, displays):
    either.ok(f"class S:\n    def __repr__(self): return 's'\n    def _repr_html_(self): return '<s>'\n    def _ipython_display_(self):\n        print('own')\n        {form}")
    for source in ("S()", "display(S())", "from IPython.display import display\ndisplay(S())"):
        done = either.ok(source)
        assert done.stdout.startswith(b"own\n") and len(done.displays) == displays and (done.value is None or displays), source


def test_a_repr_that_raises_beside_other_forms(runtime):
    done = runtime.ok("class B:\n    def __repr__(self): raise ValueError\n    def _repr_html_(self): return '<b>'\nB()")
    assert shown(done)[0]["text/html"] == b"<b>" and done.displays[0]["main"] and b"__repr__ of B failed: ValueError" in done.stderr
    assert shown(runtime.ok("display(B())"))[0]["text/html"] == b"<b>"
    assert runtime.run("class C:\n    def __repr__(self): raise ValueError\nC()").error["name"] == "ValueError"


def test_displays_come_back_from_a_checkpoint(program, bare_python):
    with Runtime(program, env=bare_python) as first, Runtime(program, env=bare_python) as second:
        first.ok("from IPython.display import HTML\npage = HTML('<b>')\nlines = !echo a")
        said, file = first.checkpoint()
        second.restore(file)
        assert shown(second.ok("page"))[0]["text/html"] == b"<b>" and second.ok("lines.s").text == "'a'"


# --- libraries ---


def test_libraries_know_that_they_are_in_a_notebook(either):
    assert either.ok("type(get_ipython()).__name__, hasattr(get_ipython(), 'kernel')").text == "('ZMQInteractiveShell', True)"
    assert either.ok("import IPython\nIPython.get_ipython() is get_ipython()").text == "True"
    done = either.ok("import numpy as np, pandas as pd\npd.DataFrame(np.arange(30).reshape(2, 15) * 1234567)")
    assert "..." not in done.text and "14" in done.text and b"..." not in shown(done)[0]["text/html"]
    assert either.ok("pd.get_option('display.max_columns')").text == "20"
    either.ok("class T: pass\nget_ipython().display_formatter.formatters['text/html'].for_type(T, lambda value: '<t>')")
    assert shown(either.ok("T()"))[0]["text/html"] == b"<t>"


FIGURES = [
    ("fig, ax = plt.subplots()\nfig", 1),
    ("fig, ax = plt.subplots()\nplt.show()", 1),
    ("fig, ax = plt.subplots()\nax.plot([1])\ndisplay(fig)\nax.plot([5])\nNone", 2),
    ("plt.plot([1])\nplt.show(block=False)\nplt.plot([2])\nNone", 2),
    ("matplotlib.use('TkAgg')\nplt.plot([1])\nplt.show()", 1),
    ("matplotlib.use('inline', force=True)\nplt.plot([1])\nplt.show()", 1),
    ("plt.switch_backend('module://matplotlib_inline.backend_inline')\nplt.plot([1])\nNone", 1),
    ("plt.rcParams['backend'] = 'QtAgg'\nplt.plot([1])\nplt.show()", 1),
    ("matplotlib.use('svg')\nplt.plot([1])\nplt.show()", 1),
    ("%matplotlib notebook\nplt.plot([1])\nNone", 1),
    ("%matplotlib widget\nplt.plot([1])\nplt.show()", 1),
    ("%matplotlib inline\nplt.plot([1])\nplt.show()", 1),
]  # fmt: skip


def test_figures_of_every_backend(either):
    either.ok("import matplotlib")
    either.ok("matplotlib.use('Qt5Agg')\nimport matplotlib.pyplot as plt\nfrom IPython.display import display")
    wrong = {}
    for source, count in FIGURES:
        done = either.run(source)
        if done.status != "ok" or len(done.displays) != count or not all(one["image/png"].startswith(PNG) for one in shown(done)):
            wrong[source] = done
    assert not wrong
    assert either.ok("plt.get_fignums()").text == "[]"


def test_an_empty_figure_has_no_image(either):
    """As in ipykernel, which tells that there is one."""
    either.ok("import matplotlib.pyplot as plt")
    [told] = shown(either.ok("plt.figure()\nNone"))
    assert list(told) == ["text/plain"] and told["text/plain"].startswith(b"<Figure size ")
    [drawn] = shown(either.ok("plt.figure().text(0.5, 0.5, 'x')\nNone"))
    assert list(drawn) == ["image/png"]
    done = either.ok("fig = plt.figure()\nfig")
    assert done.text.startswith("<Figure size ") and shown(done) == []


def test_a_backend_of_the_environment(program):
    with Runtime(program, env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "MPLBACKEND": "TkAgg"}) as runtime:
        assert shown(runtime.ok("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()"))[0]["image/png"].startswith(PNG)


# What shows a thing, and the form that its display has.
LIBRARIES = [
    ("from PIL import Image\nImage.new('RGB', (4, 4)).show()", "image/png"),
    ("Image.new('RGB', (4, 4))", "image/png"),
    ("import plotly.graph_objects as go\nchart = go.Figure(go.Scatter(y=[1, 2]))\nchart.show()", "application/vnd.plotly.v1+json"),
    ("chart", "text/html"),
    ("chart.show(renderer='browser')", "text/html"),
    ("chart.show(renderer='plotly_mimetype')", "application/vnd.plotly.v1+json"),
    ("import altair as alt, pandas as pd\nspec = alt.Chart(pd.DataFrame({'a': [1]})).mark_point().encode(x='a')\nspec.show()", "text/html"),
    ("spec", "text/html"),
    ("import webbrowser\nopen('page.html', 'w').write('<p>x')\nassert webbrowser.open('file://' + __import__('os').path.abspath('page.html'))", "text/html"),
]  # fmt: skip


def test_show_of_libraries(either):
    wrong = {}
    for source, kind in LIBRARIES:
        done = either.run(source)
        if done.status != "ok" or len(done.displays) != 1 or kind not in shown(done)[0] or done.stderr:
            wrong[source] = done
    assert not wrong
    assert json.loads(shown(either.ok("chart.show()"))[0]["application/vnd.plotly.v1+json"])["data"] == [{"type": "scatter", "y": [1, 2]}]
    done = either.ok("webbrowser.open('https://example.com')")
    assert done.text == "False" and b"https://example.com" in done.stdout and not done.displays


# --- what it costs ---


def test_nothing_of_it_is_loaded_before_it_is_needed(runtime):
    """Neither by a session that does without, nor by one that prints, fails and shows."""
    for source in ("1", "print('x')\nx = 2\nx", "display(5)", "1 / 0", "[_, Out]"):
        runtime.run(source)
    loaded = "import gc\nany(one.get('__name__') == '<berth notebook>' for one in gc.get_objects() if type(one) is dict)"
    assert runtime.ok(loaded).text == "False"
    runtime.ok("!true")
    assert runtime.ok(loaded).text == "True"


def test_the_users_modules_are_not_the_notebooks(runtime):
    for name in ("re", "types", "binascii", "subprocess", "shlex", "inspect", "timeit", "resource", "zlib"):
        (runtime.folder / f"{name}.py").write_text("raise RuntimeError('the user has a module of this name')\n")
    assert runtime.ok("!echo x").stdout == b"x\n"
    assert b"per loop" in runtime.ok("%timeit -n1 -r1 1").stdout
    assert b"int" in runtime.ok("x = 1\nx?").stdout
