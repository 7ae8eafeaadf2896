# SPDX-License-Identifier: Apache-2.0
"""
What code written for notebooks has beside Python: magics, `!`, `?`, get_ipython(), IPython.display, and libraries' show().

It is embedded in berth-runtime beside the kernel, which loads it when something of it is asked for: a source that does not compile,
get_ipython(), an import of IPython or of a library whose show() would open a window. `kernel` has the kernel's names.

Where the image has IPython, its own transformer and magics are used, with a publisher of ours. Where it has not, the few below are what
there is: MAGICS and CELL_MAGICS are all of them, and an unknown one is an error that names them.
"""

import binascii
import re
import sys
import types

from _frozen_importlib import ModuleSpec

kernel = kernel  # noqa: F821
module, own_module, state = kernel.module, kernel.own_module, kernel.state
os = own_module("os")

HINT = "This image has no IPython; without it there are %s. Install ipython in the image for the others."


class UsageError(Exception):
    """As IPython's."""


UsageError.__module__ = "IPython.core.error"


# --- sources ---

# What a line of Python can have that goes on in the next one: texts, comments, brackets.
TOKENS = re.compile(
    r"""(?P<open>[rRbBuUfFtT]{0,2}(?:\"{3}|'{3}))|[rRbBuUfFtT]{0,2}(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(?P<comment>\#.*)|(?P<bracket>[][(){}])|\\.|[^][(){}"'\#\\]""",
    re.DOTALL,
)
# No two parts of these can take the same blanks: a line with very many would be tried in each way to divide them.
NAMES = r"""[\w.\[\]'\",*](?:[\w.\[\]'\", *]*[\w.\[\]'\",*])?"""
MAGIC = re.compile(r"^(?P<indent>[ \t]*)(?:(?P<names>%s)[ \t]*=[ \t]*)?(?P<mark>!!|!|%%)(?P<rest>\S.*)$" % NAMES, re.DOTALL)
HELP = re.compile(r"^(?:(?P<before>\?{1,2})[ \t]*)?(?P<name>%{0,2}[\w.*]+(?:\[[\w'\"]+\])?)(?:[ \t]*(?P<after>\?{1,2}))?[ \t]*;?$")
PROMPT = re.compile(r"^[ \t]*(?:>>> ?|In \[\d+\]: ?)")
PROMPT_MORE = re.compile(r"^[ \t]*(?:\.\.\. ?|\.{3,}: ?)")


def scan(line, depth, quote):
    """Where Python is behind a line: how deep in brackets, in which text, and whether a backslash goes on with it."""
    at = 0
    while at < len(line):
        if quote:
            end = line.find(quote, at)
            if end < 0:
                return depth, quote, False
            at, quote = end + 3, None
            continue
        found = TOKENS.match(line, at)
        if not found:
            at += 1
            continue
        at = found.end()
        if found.group("open"):
            quote = found.group("open")[-3:]
        elif found.group("bracket"):
            depth = max(0, depth + (1 if found.group() in "([{" else -1))
    return depth, quote, line.rstrip("\r\n").endswith("\\") and "#" not in line


def call(name, *arguments):
    return "get_ipython().%s(%s)" % (name, ", ".join(map(repr, arguments)))


def line_magic(text):
    name, _, rest = text.partition(" ")
    return call("run_line_magic", name, rest.strip())


def python_of(line):
    """What a line means in Python, or None where it is no notebook's. A statement begins with it."""
    found = MAGIC.match(line.rstrip("\r\n"))
    if found:
        mark, rest, names = found.group("mark", "rest", "names")
        if mark == "%" and (not rest[0].isalpha() and rest[0] != "_"):
            return None
        if mark == "%":
            meant = line_magic(rest)
        else:
            meant = call("getoutput" if names or mark == "!!" else "system", rest.strip())
        return found.group("indent") + (names + " = " if names else "") + meant
    found = HELP.match(line.rstrip("\r\n").strip(" \t"))
    if found and bool(found.group("before")) != bool(found.group("after")):
        marks = found.group("before") or found.group("after")
        return line[: len(line) - len(line.lstrip())] + call("run_line_magic", "pinfo2" if len(marks) == 2 else "pinfo", found.group("name"))
    return None


def without_prompts(lines):
    """As it is copied from a terminal or from documentation."""
    first = next((line for line in lines if line.strip()), "")
    if not PROMPT.match(first):
        return lines
    return [PROMPT_MORE.sub("", PROMPT.sub("", line, count=1), count=1) for line in lines]


def without_indent(lines):
    """As the first line has it."""
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip(" \t"))]
    return [line[len(indent) :] if indent and line.startswith(indent) else line for line in lines]


def cell_magic(lines):
    """The whole of it is a magic's: `%%NAME ARGUMENTS`, and what follows. Its lines stay where they were."""
    at = next((at for at, line in enumerate(lines) if line.strip()), len(lines))
    if at == len(lines) or not re.match(r"%%[A-Za-z_!]", lines[at]):
        return None
    name, _, rest = lines[at][2:].strip().partition(" ")
    return "\n" * at + call("run_cell_magic", name, rest.strip(), "".join(lines[at + 1 :])) + "\n"


def translate(source):
    """The same as Python, line by line, or None where there is nothing of a notebook in it."""
    plain = without_indent(without_prompts(source.splitlines(True)))
    meant, magic = cell_magic(plain), True
    if meant is None:
        meant, magic = translate_lines(plain)
    if magic and has_ipython() and real_shell():
        empty = len(source) - len(source.lstrip("\r\n"))
        return "\n" * source[:empty].count("\n") + Shells.real.transform_cell(source[empty:])
    return meant if meant != source else None


def translate_lines(lines):
    """And whether a magic was among them."""
    made, magic, depth, quote, goes_on, at = [], False, 0, None, False, 0
    while at < len(lines):
        line, end = lines[at], at + 1
        meant = None
        if not depth and not quote and not goes_on:
            magical = MAGIC.match(line)
            while magical and lines[end - 1].rstrip("\r\n").endswith("\\") and end < len(lines):
                end += 1
            meant = python_of("".join(each.rstrip("\r\n")[:-1] for each in lines[at : end - 1]) + lines[end - 1])
        if meant is None:
            depth, quote, goes_on = scan(lines[at], depth, quote)
            made.append(lines[at])
            at += 1
            continue
        magic = True
        made.append(meant + "\n" * (end - at))
        at = end
    return "".join(made), magic


# --- displays ---


def parts_of(data):
    """A bundle of MIME types as what is sent. What its type does not fit is left out."""
    parts = {}
    for kind, value in data.items():
        found = None if value is None else kernel.as_bytes(value, str(kind))
        if found is not None:
            parts[str(kind)] = found
    return parts


pending = {}  # by display_id: what it is to look like at the end of this execution
seen = {}  # what was shown under it last


def publish(data, display_id=None, update=False):
    """
    A display. There is no way to change one that was shown: an update waits, and the last one is shown when the execution ends.
    """
    parts = parts_of(data)
    if update and display_id is not None:
        pending[display_id] = parts
        return
    if display_id is not None:
        pending.pop(display_id, None)
        seen[display_id] = parts
    kernel.send_display(parts, False)


def finish():
    """At the end of an execution that did well."""
    last = list(pending.items())
    pending.clear()
    for display_id, parts in last:
        if seen.get(display_id) != parts:
            seen[display_id] = parts
            kernel.send_display(parts, False)
    while len(seen) > 100:
        del seen[next(iter(seen))]
    events = getattr(Shells.real or Shells.plain, "events", None)
    if events is not None:
        events.trigger("post_execute")


class DisplayHandle:
    def __init__(self, display_id=None):
        self.display_id = binascii.b2a_hex(os.urandom(16)).decode() if display_id is None else display_id

    def __repr__(self):
        return "<DisplayHandle display_id=%s>" % self.display_id

    def display(self, value, **options):
        display(value, display_id=self.display_id, **options)

    def update(self, value, **options):
        update_display(value, display_id=self.display_id, **options)


def chosen(parts, include, exclude):
    return {kind: data for kind, data in parts.items() if (not include or kind in include) and kind not in (exclude or ())}


def display(*values, include=None, exclude=None, metadata=None, transient=None, display_id=None, raw=False, clear=False, update=False, **ignored):
    """Shows each: as IPython's. Metadata and what is transient have no place in a display here."""
    if transient and display_id is None:
        display_id = transient.get("display_id")
    handle = None
    if display_id is not None:
        handle = DisplayHandle(None if display_id is True else display_id)
        display_id = handle.display_id
    for value in values:
        if raw:
            if not isinstance(value, dict):
                raise TypeError("with raw=True a display is a dict of MIME types, not %s" % type(value).__name__)
            publish(value, display_id, update)
        elif not kernel.shows_itself(value):
            parts = kernel.representations(value)
            parts = {"text/plain": kernel.text_of(value, parts)[0].encode("utf-8"), **parts}
            publish(chosen(parts, include, exclude), display_id, update)
    return handle


def update_display(value, *, display_id, **options):
    display(value, display_id=display_id, update=True, **options)


def clear_output(wait=False):
    """Shown content stays."""


def publish_display_data(data, metadata=None, source=None, *, transient=None, update=False, **ignored):
    publish(data, (transient or {}).get("display_id"), update)


# --- IPython.display, of images without IPython ---


class DisplayObject:
    kind = None
    metadata = None

    def __init__(self, data=None, url=None, filename=None, metadata=None):
        if isinstance(data, (str, os.PathLike)) and url is None and filename is None and not isinstance(self, TextDisplayObject):
            if str(data).startswith(("http://", "https://")):
                url, data = str(data), None
            elif len(str(data)) < 4096 and os.path.isfile(data):
                filename, data = str(data), None
        self.data, self.url, self.filename = data, url, None if filename is None else str(filename)
        self.metadata = metadata or {}
        self.reload()

    def __repr__(self):
        return "<%s.%s object>" % (type(self).__module__, type(self).__name__)

    def reload(self):
        if self.filename is not None:
            with open(self.filename, "rb" if self.reads_bytes else "r", **({} if self.reads_bytes else {"encoding": "utf-8"})) as file:
                self.data = file.read()
        elif self.url is not None and self.data is None and self.fetches:
            with __import__("urllib.request").request.urlopen(self.url) as answer:
                found = answer.read()
            self.data = found if self.reads_bytes else found.decode("utf-8", "replace")

    reads_bytes = False
    fetches = True

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {self.kind: self.data}, self.metadata


class TextDisplayObject(DisplayObject):
    def __init__(self, data=None, url=None, filename=None, metadata=None):
        if data is not None and not isinstance(data, str):
            raise TypeError("%s expects text, not %r" % (type(self).__name__, data))
        super().__init__(data, url, filename, metadata)


class Pretty(TextDisplayObject):
    kind = "text/plain"


class HTML(TextDisplayObject):
    kind = "text/html"

    def _repr_html_(self):
        return self.data

    def __html__(self):
        return self.data


class Markdown(TextDisplayObject):
    kind = "text/markdown"

    def _repr_markdown_(self):
        return self.data


class Latex(TextDisplayObject):
    kind = "text/latex"

    def _repr_latex_(self):
        return self.data


class Math(Latex):
    def _repr_latex_(self):
        return "$\\displaystyle %s$" % self.data.strip("$")

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/latex": self._repr_latex_()}, self.metadata


class SVG(DisplayObject):
    kind = "image/svg+xml"

    def reload(self):
        super().reload()
        if isinstance(self.data, bytes):
            self.data = self.data.decode("utf-8", "replace")
        at = (self.data or "").find("<svg")
        self.data = self.data[at:] if at > 0 else self.data

    def _repr_svg_(self):
        return self.data


class JSON(DisplayObject):
    kind = "application/json"

    def __init__(self, data=None, url=None, filename=None, expanded=False, metadata=None, root="root", **options):
        super().__init__(data, url, filename, {"expanded": expanded, "root": root, **(metadata or {}), **options})
        if isinstance(self.data, str):
            self.data = own_module("json").loads(self.data)
        if not isinstance(self.data, (dict, list, type(None))):
            raise TypeError("JSON expects a dict or a list, or text of one, not %r" % (self.data,))

    def _repr_json_(self):
        return self.data


class Javascript(TextDisplayObject):
    kind = "application/javascript"

    def __init__(self, data=None, url=None, filename=None, lib=None, css=None):
        self.lib, self.css = [lib] if isinstance(lib, str) else lib or [], [css] if isinstance(css, str) else css or []
        super().__init__(data, url, filename)

    def _repr_javascript_(self):
        return self.data


class Image(DisplayObject):
    reads_bytes = True
    kinds = {"png": "image/png", "jpeg": "image/jpeg", "jpg": "image/jpeg", "gif": "image/gif", "webp": "image/webp", "svg": "image/svg+xml"}

    def __init__(self, data=None, url=None, filename=None, format=None, embed=None, width=None, height=None, retina=False, unconfined=False, metadata=None, alt=None):
        name = next((str(name) for name in (filename, url, data) if isinstance(name, (str, os.PathLike))), "")
        self.width, self.height, self.alt = width, height, alt
        self.fetches = bool(embed)
        super().__init__(data, url, filename, metadata)
        if isinstance(self.data, str) and self.url is None:
            raise FileNotFoundError("there is no file %r" % self.data[:200])
        begin = self.data[:12] if isinstance(self.data, bytes) else b""
        seen = "png" if begin[:4] == b"\x89PNG" else "jpeg" if begin[:3] == b"\xff\xd8\xff" else "gif" if begin[:4] == b"GIF8" else "webp" if begin[8:] == b"WEBP" else None
        extension = name.rsplit(".", 1)[-1].lower()
        self.format = (format or seen or (extension if extension in self.kinds else "png")).lower()
        if self.format not in self.kinds:
            raise ValueError("an image is one of %s, not %r" % (", ".join(self.kinds), self.format))

    def _repr_mimebundle_(self, include=None, exclude=None):
        if isinstance(self.data, bytes):
            return {self.kinds[self.format]: self.data}, self.metadata
        sizes = "".join(' %s="%s"' % (name, value) for name, value in (("width", self.width), ("height", self.height), ("alt", self.alt)) if value is not None)
        return {"text/html": '<img src="%s"%s/>' % (own_module("html").escape(str(self.url)), sizes)}, self.metadata


class IFrame:
    def __init__(self, src, width, height, extras=(), **parameters):
        self.src, self.width, self.height, self.extras, self.params = src, width, height, extras, parameters

    def _repr_html_(self):
        query = "?" + __import__("urllib.parse").parse.urlencode(self.params) if self.params else ""
        return '<iframe width="%s" height="%s" src="%s%s" frameborder="0" allowfullscreen %s></iframe>' % (self.width, self.height, self.src, query, " ".join(self.extras))


class Code(TextDisplayObject):
    kind = "text/plain"

    def __init__(self, data=None, url=None, filename=None, language=None):
        self.language = language
        super().__init__(data, url, filename)

    def __repr__(self):
        return self.data

    def _repr_html_(self):
        return "<pre>%s</pre>" % own_module("html").escape(self.data)


class SList(list):
    """What `!` gives: lines."""

    @property
    def n(self):
        return "\n".join(self)

    @property
    def s(self):
        return " ".join(self)

    @property
    def l(self):  # noqa: E743
        return list(self)

    nlstr, spstr, list = n, s, l


def get_ipython():
    return shell()


def displays_as(name, kind):
    """display_html() and its like: that form alone, or text of that form with raw=True."""

    def display_one(*values, raw=False, metadata=None):
        for value in values:
            if raw:
                publish({kind: value})
            else:
                display(value, include=(kind,))

    display_one.__name__ = display_one.__qualname__ = name
    return display_one


FORMS = {
    "html": "text/html",
    "javascript": "application/javascript",
    "jpeg": "image/jpeg",
    "json": "application/json",
    "latex": "text/latex",
    "markdown": "text/markdown",
    "pdf": "application/pdf",
    "png": "image/png",
    "pretty": "text/plain",
    "svg": "image/svg+xml",
}
DISPLAY = (
    Code, DisplayHandle, DisplayObject, HTML, IFrame, Image, JSON, Javascript, Latex, Markdown, Math, Pretty, SVG, TextDisplayObject,
    clear_output, display, publish_display_data, update_display, *(displays_as("display_" + name, kind) for name, kind in FORMS.items()),
)  # fmt: skip
MODULES = {
    "IPython": (get_ipython, display),
    "IPython.display": DISPLAY,
    "IPython.core": (),
    "IPython.core.display": DISPLAY,
    "IPython.core.display_functions": (DisplayHandle, clear_output, display, publish_display_data, update_display),
    "IPython.core.getipython": (get_ipython,),
    "IPython.core.error": (UsageError,),
    "IPython.utils": (),
    "IPython.utils.text": (SList,),
}
PACKAGES = ("IPython", "IPython.core", "IPython.utils")
for _kind in DISPLAY:
    if isinstance(_kind, type):
        _kind.__module__ = "IPython.core.display_functions" if _kind is DisplayHandle else "IPython.core.display"
SList.__module__ = "IPython.utils.text"


class Loader:
    """Of modules that stand for IPython's."""

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(found):
        name = found.__name__
        found.__doc__ = "Berth's own, as far as it goes: this image has no IPython."
        for part in MODULES[name]:
            setattr(found, part.__name__, part)
        if name == "IPython":
            # As of the IPython whose ways these are; matplotlib and sympy look.
            found.version_info, found.__version__ = (9, 0, 0, ""), "9.0.0"

        def missing(asked):
            if asked.startswith("__"):
                raise AttributeError(asked)
            raise ImportError("Berth's own %s has no %s: this image has no IPython. Install ipython in the image." % (name, asked))

        found.__getattr__ = missing


def find_spec(name):
    """For modules that the image does not have."""
    if name not in MODULES or (name != "IPython" and getattr(sys.modules.get("IPython"), "__spec__", None) and sys.modules["IPython"].__spec__.loader is not Loader):
        return None
    return ModuleSpec(name, Loader, is_package=name in PACKAGES)


# --- the shell ---


class Events:
    def __init__(self):
        self.callbacks = {"pre_execute": [], "pre_run_cell": [], "post_execute": [], "post_run_cell": []}

    def register(self, event, function):
        if event not in self.callbacks:
            raise KeyError("there is no event %r: only %s" % (event, ", ".join(self.callbacks)))
        if function not in self.callbacks[event]:
            self.callbacks[event].append(function)

    def unregister(self, event, function):
        self.callbacks[event].remove(function)

    def trigger(self, event):
        for function in list(self.callbacks[event]):
            try:
                function()
            except Exception as error:
                kernel.note("what is registered for %s failed: %s: %s" % (event, type(error).__name__, error))


class Formatter:
    """Forms that a library registers for classes that do not offer them themselves."""

    def __init__(self):
        self.type_printers, self.deferred_printers, self.enabled = {}, {}, True

    def for_type(self, kind, function=None):
        before = self.type_printers.get(kind)
        if function is not None:
            self.type_printers[kind] = function
        return before

    def for_type_by_name(self, module_name, name, function=None):
        before = self.deferred_printers.get((module_name, name))
        if function is not None:
            self.deferred_printers[module_name, name] = function
        return before

    def pop(self, kind, default=None):
        return self.type_printers.pop(kind, default)

    def __call__(self, value):
        if not self.enabled:
            return None
        for kind in type(value).__mro__:
            function = self.type_printers.get(kind) or self.deferred_printers.get((kind.__module__, kind.__name__))
            if function is not None:
                return function(value)
        return None


class Formatters(dict):
    def __missing__(self, kind):
        return self.setdefault(kind, Formatter())


class PlainFormatter(Formatter):
    """A repr is the kernel's: what libraries register for terminals (sympy) is called with a printer, and is not used."""


class ZMQInteractiveShell:
    """get_ipython() of an image without IPython. Its name is ipykernel's: by it libraries know that they are in a notebook (pandas)."""

    def __init__(self):
        self.user_module, self.user_ns, self.user_global_ns = module, module.__dict__, module.__dict__
        self.kernel = types.SimpleNamespace(shell=self)
        self.config = {}
        self.events = Events()
        self.display_formatter = types.SimpleNamespace(formatters=Formatters({"text/plain": PlainFormatter()}), ipython_display_formatter=Formatter())
        self.display_pub = types.SimpleNamespace(publish=publish_display_data, clear_output=clear_output)

    @property
    def execution_count(self):
        return state.n

    def run_line_magic(self, name, line, _stack_depth=1):
        if name not in MAGICS:
            raise UsageError("there is no line magic %%%s. %s" % (name, HINT % ", ".join("%" + known for known in sorted(MAGICS))))
        return MAGICS[name](expand(line) if name not in VERBATIM else line)

    def run_cell_magic(self, name, line, cell):
        if name not in CELL_MAGICS:
            raise UsageError("there is no cell magic %%%%%s. %s" % (name, HINT % ", ".join("%%" + known for known in sorted(CELL_MAGICS))))
        return CELL_MAGICS[name](line, cell)

    def magic(self, text):
        name, _, rest = text.lstrip("%").partition(" ")
        return self.run_line_magic(name, rest.strip())

    def system(self, command):
        run_shell(expand(command))

    def getoutput(self, command, split=True):
        found = read_shell(expand(command))
        return SList(found.splitlines()) if split else found

    def run_cell(self, source, **ignored):
        return kernel.run_source(source, "<cell of execution %d>" % state.n)

    def run_code(self, code):
        kernel.run_code(code)

    def ex(self, source):
        exec(source, module.__dict__)

    def ev(self, source):
        return eval(source, module.__dict__)

    def push(self, variables, interactive=True):
        module.__dict__.update(variables)

    def enable_gui(self, gui=None):
        """There is no screen."""

    def enable_matplotlib(self, gui=None):
        return use_matplotlib(gui or "")

    def transform_cell(self, source):
        return translate(source) or source

    def __getattr__(self, name):
        raise AttributeError("get_ipython().%s: this image has no IPython, and Berth's own get_ipython() has no %s. Install ipython in the image." % (name, name))


class Shells:
    plain = real = None
    tried = False  # to make the real one


def has_ipython():
    if "IPython" in sys.modules:
        return getattr(sys.modules["IPython"].__spec__, "loader", None) is not Loader
    found = own_module("importlib.util").util.find_spec("IPython")
    return found is not None and found.loader is not Loader


def shell():
    """IPython's where that is loaded, else ours, which costs nothing."""
    if "IPython" in sys.modules and has_ipython() and real_shell():
        return Shells.real
    if Shells.plain is None:
        Shells.plain = ZMQInteractiveShell()
    return Shells.plain


def real_shell():
    """IPython's; it is loaded for it. None where that fails, which is said once."""
    if not Shells.tried:
        Shells.tried = True
        try:
            Shells.real = make_real()
        except Exception as error:
            kernel.note("IPython of this image cannot be used: %s: %s" % (type(error).__name__, error))
    return Shells.real


def registered_forms(value):
    """{MIME type: what} that libraries have registered for its class."""
    formatter = getattr(Shells.real or Shells.plain, "display_formatter", None)
    found = {}
    for kind, function in list(formatter.formatters.items()) if formatter is not None else ():
        if kind != "text/plain":
            made = registered_form(function, value)
            if made is not None:
                found[kind] = made[0] if type(made) is tuple else made
    return found


def registered_form(function, value):
    try:
        if isinstance(function, Formatter):
            return function(value)
        printer = function.lookup(value)  # of IPython's: only what is registered, since the rest is the kernel's
    except KeyError:
        return None
    return printer(value)


def make_real():
    """IPython's shell, with the session's namespace, no history and no folder in the session's home."""
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets import Type
    from traitlets.config import Config

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **ignored):
            publish_display_data(data, transient=transient, update=update)

        def clear_output(self, wait=False):
            clear_output(wait)

    class RealShell(InteractiveShell):
        display_pub_class = Type(Publisher)
        kernel = types.SimpleNamespace()

        def init_virtualenv(self):
            """The kernel's Python is the one to use."""

        def system(self, command):
            run_shell(self.var_expand(command, depth=1))

        def enable_gui(self, gui=None):
            """There is no screen."""

        def enable_matplotlib(self, gui=None):
            return use_matplotlib(gui or "")

    RealShell.__name__ = "ZMQInteractiveShell"
    names, builtin_names = set(module.__dict__), dict(kernel.saved_builtins)
    settings = Config()
    settings.HistoryManager.enabled = settings.HistoryAccessor.enabled = False
    settings.InteractiveShell.colors = "NoColor"
    folder = own_module("tempfile").mkdtemp(prefix="ipython-")
    before = os.environ.get("IPYTHONDIR"), sys.excepthook, sys.displayhook
    os.environ["IPYTHONDIR"] = folder
    try:
        real = RealShell.instance(config=settings, user_module=module)
    finally:
        sys.excepthook, sys.displayhook = before[1:]
        if before[0] is None:
            del os.environ["IPYTHONDIR"]
        else:
            os.environ["IPYTHONDIR"] = before[0]
    # In, Out, exit and the others are the kernel's: a session's names are what it has made itself.
    for name in set(module.__dict__) - names:
        del module.__dict__[name]
    vars(sys.modules["builtins"]).update(builtin_names)
    real.set_hook("show_in_pager", lambda self, data, start=0, screen_lines=0: print(data["text/plain"] if isinstance(data, dict) else data), 0)
    for name in ("matplotlib", "pip", "cd"):
        real.register_magic_function(MAGICS[name], "line", name)
    real.display_formatter.formatters["image/png"].for_type_by_name("matplotlib.figure", "Figure", kernel.draw_shown)
    return real


# --- the shell of the sandbox ---


def expand(text):
    """`{expression}` and `$name`, as IPython does it: if one of them is undefined, the text stays as it is."""
    if "{" not in text and "$" not in text:
        return text
    names = dict(module.__dict__)

    def field(found):
        if found.group(1) is not None:
            return found.group(1)[0]
        return str(eval(found.group(2).strip(), names))

    def variable(found):
        if found.group(1).startswith("$"):
            return found.group(0)[1:] if found.group(1) == "$" else found.group(1)
        try:
            return str(eval(found.group(1).rstrip("."), names)) + "." * (len(found.group(1)) - len(found.group(1).rstrip(".")))
        except Exception:
            return found.group(0)

    try:
        text = re.sub(r"(\{\{|\}\})|\{([^{}]*)\}", field, text)
    except Exception:
        return text
    return re.sub(r"\$(\$?[A-Za-z_][\w.]*)(?=(?:[^']*'[^']*')*[^']*$)", variable, text)


def keep_code(code):
    """By builtins, so that it is no name of the session."""
    vars(sys.modules["builtins"])["_exit_code"] = code


def find_new_packages():
    """What pip has installed for the user: Python looks there only if the folder is there when it starts."""
    site = own_module("site")
    folder = site.getusersitepackages()
    if os.path.isdir(folder) and folder not in sys.path:
        site.addsitedir(folder)
    own_module("importlib").invalidate_caches()


def run_shell(command):
    """Its output is the execution's."""
    kernel.flush_streams()
    keep_code(own_module("subprocess").call(["/bin/sh", "-c", command]))
    find_new_packages()


def read_shell(command):
    kernel.flush_streams()
    subprocess = own_module("subprocess")
    done = subprocess.run(["/bin/sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    keep_code(done.returncode)
    return done.stdout.decode("utf-8", "replace")


# --- magics ---


def run(source):
    """As a part of the execution: await, magics and a last value are as outside of it."""
    return kernel.run_source(source, "<execution %d>" % state.n)


def of_time(seconds, digits=3):
    if seconds >= 60:
        parts, left = [], int(seconds)
        for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
            if left >= size:
                parts.append("%d%s" % (left // size, unit))
                left %= size
        return " ".join(parts)
    for size, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "\xb5s")):
        if seconds >= size:
            return "%.*g %s" % (digits, seconds / size, unit)
    return "%.*g ns" % (digits, seconds * 1e9)


def magic_time(line, cell=None):
    source = cell if cell is not None and not line else line if cell is None else line + "\n" + cell
    usage = own_module("resource").getrusage
    before, started = usage(0), kernel.time.perf_counter()
    try:
        return run(source)
    finally:
        wall, now = kernel.time.perf_counter() - started, usage(0)
        user, system = now.ru_utime - before.ru_utime, now.ru_stime - before.ru_stime
        print("CPU times: user %s, sys: %s, total: %s\nWall time: %s" % (of_time(user), of_time(system), of_time(user + system), of_time(wall)))


def magic_timeit(line, cell=None):
    options, words = own_module("getopt").getopt(line.split(), "n:r:qot:p:cv")
    options = dict(options)
    source = line
    for _ in range(len(line.split()) - len(words)):
        source = source.lstrip().partition(" ")[2]
    setup, source = ("pass", source) if cell is None else (source or "pass", cell)
    timer = own_module("timeit").Timer(source.strip("\n") or "pass", setup, globals=module.__dict__)
    repeat, number = int(options.get("-r", 7)), int(options.get("-n", 0))
    if not number:
        number = next((10**power for power in range(10) if timer.timeit(10**power) >= 0.2), 10**9)
    runs = [each / number for each in timer.repeat(repeat, number)]
    mean = sum(runs) / len(runs)
    deviation = (sum((each - mean) ** 2 for each in runs) / len(runs)) ** 0.5
    if "-q" not in options:
        print(
            "%s \xb1 %s per loop (mean \xb1 std. dev. of %d run%s, %s loop%s each)"
            % (of_time(mean), of_time(deviation), repeat, "s" * (repeat != 1), format(number, ","), "s" * (number != 1))
        )
    return types.SimpleNamespace(average=mean, stdev=deviation, best=min(runs), worst=max(runs), all_runs=runs, loops=number, repeat=repeat) if "-o" in options else None


def magic_env(line):
    if not line:
        return dict(os.environ)
    name, equals, value = line.partition("=") if "=" in line else line.partition(" ")
    if not equals:
        if line not in os.environ:
            raise UsageError("no environment variable has the name %s" % line)
        return os.environ[line]
    name, value = name.strip(), value.strip()
    os.environ[name] = value
    print("env: %s=%s" % (name, value))
    return None


def magic_cd(line):
    quiet = re.match(r"\s*-q(?:\s+|$)", line)
    if quiet:
        line = line[quiet.end() :]
    folder = os.path.expanduser(line.strip().strip("'\"") or "~")
    if folder == "-":
        folder = Folders.before or os.getcwd()
    before = os.getcwd()
    os.chdir(folder)
    Folders.before = before
    if not quiet:
        print(os.getcwd())


class Folders:
    before = None


def magic_pip(line):
    """Into the session's own folder of packages, where the image's is read-only, as it is in a sandbox."""
    if own_module("importlib.util").util.find_spec("pip") is None:
        raise UsageError("this image has no pip: name the package in the Environment's image (or use an image with python3-pip)")
    kernel.flush_streams()
    variables = dict(os.environ, PIP_BREAK_SYSTEM_PACKAGES="1", PIP_DISABLE_PIP_VERSION_CHECK="1")
    code = own_module("subprocess").call(["/bin/sh", "-c", '"$0" -m pip ' + line, sys.executable], env=variables)
    keep_code(code)
    find_new_packages()
    if code == 0 and line.split()[:1] in (["install"], ["uninstall"]):
        print("Note: you may need to restart the kernel to use updated packages.")


def use_matplotlib(gui):
    """Figures are displays, whatever is asked for."""
    matplotlib = __import__("matplotlib")
    if str(matplotlib.rcParams["backend"]).lower() not in kernel.DRAWING:
        matplotlib.use("agg")
    return gui, "agg"


def magic_matplotlib(line):
    if line.strip() in ("-l", "--list"):
        print("Available matplotlib backends: ['inline']")
        return
    use_matplotlib(line.strip())


def magic_config(line):
    """InlineBackend's settings are a page's; a figure here is one PNG."""
    if not line.startswith("InlineBackend"):
        raise UsageError("%%config %s: %s" % (line, HINT % "settings of InlineBackend, which change nothing"))


def magic_shell(line, cell=None):
    return run_script("/bin/sh", line, cell)


def magic_bash(line, cell=None):
    found = own_module("shutil").which("bash")
    if found is None:
        raise UsageError("this image has no bash: use %%sh")
    return run_script(found, line, cell)


def run_script(program, line, cell):
    kernel.flush_streams()
    subprocess = own_module("subprocess")
    words = [program, *own_module("shlex").split(line)]
    done = subprocess.run(words, input=cell.encode("utf-8", "surrogateescape"))
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, words)


def magic_writefile(line, cell):
    append = line.startswith("-a ")
    path = os.path.expanduser(line[3:].strip() if append else line.strip()).strip("'\"")
    print("%s %s" % ("Appending to" if append else "Overwriting" if os.path.exists(path) else "Writing", path))
    with open(path, "a" if append else "w", encoding="utf-8") as file:
        file.write(cell)


def magic_capture(line, cell):
    """Output is kept instead of shown; displays are shown."""
    contextlib, io = own_module("contextlib"), own_module("io")
    kept = types.SimpleNamespace(out=io.StringIO(), err=io.StringIO())
    try:
        with contextlib.redirect_stdout(kept.out), contextlib.redirect_stderr(kept.err):
            run(cell)
    finally:
        words = [word for word in line.split() if not word.startswith("-")]
        if words:
            module.__dict__[words[0]] = types.SimpleNamespace(stdout=kept.out.getvalue(), stderr=kept.err.getvalue(), outputs=[])


def magic_run(line):
    words = own_module("shlex").split(line)
    if not words:
        raise UsageError("%run needs a file")
    before = sys.argv
    sys.argv = words
    try:
        found = own_module("runpy").run_path(words[0], run_name="__main__")
    finally:
        sys.argv = before
        sys.modules["__main__"] = module
    module.__dict__.update({name: value for name, value in found.items() if not name.startswith("__")})


def magic_who(line):
    print("\t".join(sorted(name for name in module.__dict__ if not name.startswith("_"))) or "Interactive namespace is empty.")


def magic_pinfo(line):
    """What there is to say about a name, as `name?` asks."""
    name = line.strip()
    if name.startswith("%"):
        known = MAGICS.get(name.strip("%")) or CELL_MAGICS.get(name.strip("%"))
        print("Docstring:\n%s" % (own_module("inspect").getdoc(known) or name) if known else "Object `%s` not found." % name)
        return
    if "*" in name:
        print("\n".join(known for known in sorted(module.__dict__) if own_module("fnmatch").fnmatchcase(known, name)))
        return
    try:
        value = eval(name, module.__dict__)
    except Exception:
        print("Object `%s` not found." % name)
        return
    inspect = own_module("inspect")
    try:
        print("Signature:   %s%s" % (name, inspect.signature(value)))
    except (TypeError, ValueError):
        pass
    print("Type:        %s" % type(value).__name__)
    print("String form: %s" % kernel.clean(str(value), 1000)[0])
    if hasattr(value, "__len__") and not isinstance(value, type):
        print("Length:      %d" % len(value))
    print("Docstring:\n%s" % (inspect.getdoc(value) or "<no docstring>"))


def magic_pinfo2(line):
    """And its source, as `name??` asks."""
    magic_pinfo(line)
    try:
        print("Source:\n%s" % own_module("inspect").getsource(eval(line.strip(), module.__dict__)))
    except Exception:
        pass


def alias(name):
    def magic(line):
        run_shell("%s %s" % (name, line))

    return magic


def shown_as(kind):
    def magic(line, cell):
        display(kind(cell))

    return magic


def magic_lsmagic(line):
    print("%s\n%s" % ("  ".join("%" + name for name in sorted(MAGICS)), "  ".join("%%" + name for name in sorted(CELL_MAGICS))))


# All there are: each is tested.
MAGICS = {
    "bash": lambda line: run_shell(line),
    "cd": magic_cd,
    "config": magic_config,
    "env": magic_env,
    "lsmagic": magic_lsmagic,
    "matplotlib": magic_matplotlib,
    "pinfo": magic_pinfo,
    "pinfo2": magic_pinfo2,
    "pip": magic_pip,
    "pwd": lambda line: os.getcwd(),
    "run": magic_run,
    "set_env": magic_env,
    "sx": lambda line: SList(read_shell(line).splitlines()),
    "system": lambda line: SList(read_shell(line).splitlines()),
    "time": magic_time,
    "timeit": magic_timeit,
    "who": magic_who,
    **{name: alias(name) for name in ("cat", "cp", "ls", "mkdir", "mv", "rm", "rmdir")},
}
CELL_MAGICS = {
    "!": magic_shell,
    "bash": magic_bash,
    "capture": magic_capture,
    "html": shown_as(HTML),
    "HTML": shown_as(HTML),
    "javascript": shown_as(Javascript),
    "js": shown_as(Javascript),
    "latex": shown_as(Latex),
    "markdown": shown_as(Markdown),
    "sh": magic_shell,
    "svg": shown_as(SVG),
    "time": magic_time,
    "timeit": magic_timeit,
    "writefile": magic_writefile,
}
VERBATIM = ("time", "timeit", "pinfo", "pinfo2")  # Python, in which braces are no expressions


# --- libraries that show things ---


def adopt_ipython(found):
    if getattr(found.__spec__, "loader", None) is not Loader:
        real_shell()


def change_pillow(found):
    def show(self, title=None, **ignored):
        display(self)

    found.Image.show = show


def change_plotly(found):
    """Its renderers open a browser, or need nbformat for its version only."""
    if not found.nbformat:
        found.nbformat = types.SimpleNamespace(__version__="5.0.0")

    class Renderer(found.ExternalRenderer):
        def render(self, figure):
            io = __import__("plotly.io").io
            publish({
                "application/vnd.plotly.v1+json": own_module("json").loads(io.to_json(figure, validate=False)),
                "text/html": io.to_html(figure, include_plotlyjs="cdn", full_html=False, validate=False),
            })  # fmt: skip

    renderers = found.renderers
    for name in ("berth", "browser", "chrome", "chromium", "firefox"):
        renderers[name] = Renderer()
    if not os.environ.get("PLOTLY_RENDERER"):
        renderers.default = "berth"


def change_webbrowser(found):
    """A page in a file is a display; of another only its address can be told."""

    class Browser(found.BaseBrowser):
        def open(self, url, new=0, autoraise=True):
            parts = __import__("urllib.parse").parse.urlsplit(url)
            path = __import__("urllib.parse").parse.unquote(parts.path) if parts.scheme == "file" else url
            if not os.path.isfile(path):
                print("There is no browser here to open %s" % url)
                return False
            with open(path, encoding="utf-8", errors="replace") as file:
                publish({"text/html": file.read()})
            return True

    found.register("berth", None, Browser("berth"), preferred=True)


changes = {"IPython": adopt_ipython, "PIL.Image": change_pillow, "plotly.io._renderers": change_plotly, "webbrowser": change_webbrowser}
