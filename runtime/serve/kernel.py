# SPDX-License-Identifier: Apache-2.0
"""
The kernel: runs the code of a session, one execution after the other, and keeps its variables.

It is embedded in berth-runtime, which starts python3 with it; README.md tells what the two say to each other. Descriptor 3
is the socket to the runtime. User code runs in this very process and may do anything to it: nothing here is a fence. The
code here takes care that honest code, however broken, gets an honest answer, and that a fault that breaks the kernel itself
ends it, which the runtime sees.

Python 3.8 and newer, standard library only. Names of the kernel are in a namespace of its own, with builtins of its own.

A session's first output waits for all that is imported here: what Python has not loaded by itself is in C, and of a library
in Python only what is under it. Other modules are imported when they are needed, or when the kernel is idle (own_module()).
"""

import sys

# Without the working folder and those of PYTHONPATH: a user's fcntl.py there is not what the kernel means by fcntl.
own_path, own_notebook = globals()["own_path"], globals()["own_notebook"]
_path = sys.path[:]
sys.path[:] = own_path

import _ast  # noqa: E402
import _contextvars  # noqa: E402
import _signal  # noqa: E402
import _socket  # noqa: E402
import _thread  # noqa: E402
import builtins  # noqa: E402
import fcntl  # noqa: E402
import io  # noqa: E402
import os  # noqa: E402
import select  # noqa: E402
import time  # noqa: E402
from _frozen_importlib_external import PathFinder  # noqa: E402

try:
    from _json import encode_basestring, make_encoder, make_scanner
except ImportError:  # not CPython's
    make_encoder = make_scanner = None

sys.path[:] = _path

# The runtime's bounds: runtime/protocol/content.h, runtime/protocol/message.h, runtime/serve/runtime_parts.h.
TEXT_MAX = 65536
NAME_MAX = 256
LINES_MAX = 400
PARTS_MAX = 16
DISPLAY_MAX = 16 << 20
OUTPUTS_MAX = 10
DESCRIPTOR = 3
QUIET_MS = 100
OWN_FILES = ("<berth kernel>", "<berth notebook>")
DESCRIPTORS_SPACE = _socket.CMSG_SPACE(2 * 4)

# matplotlib's backends that open no window.
DRAWING = ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")
CO_COROUTINE = 0x80
FUTURES = 0x1FE0000  # of `from __future__`: all features of Python 3.9 to 3.14
if not (3, 9) <= sys.version_info < (3, 15):
    FUTURES = 0
    for _name in __import__("__future__").all_feature_names:
        FUTURES |= getattr(__import__("__future__"), _name).compiler_flag

own_pid = os.getpid()
_mask = os.umask(0o77)
os.umask(_mask)
# Of the process before user code has run in it: a checkpoint keeps what has become of it.
first = {"folder": os.getcwd(), "environ": dict(os.environ), "path": _path, "umask": _mask}
null_device = os.stat(os.devnull).st_rdev
python_version = "%d.%d.%d" % sys.version_info[:3]
main_thread = _thread.get_ident()
saved_builtins = dict(vars(builtins))
# By their ids: a class of the user's may have a metaclass that cannot be hashed, or that is equal to anything.
plain_types = {id(kind) for kind in (int, float, complex, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, type(None))}
type_name = type.__dict__["__name__"].__get__

# What user code sees as its own module: functions that it defines are found there by pickle.
module = type(sys)("__main__")
module.__dict__["__builtins__"] = builtins
sys.modules["__main__"] = module
sys.argv = [""]


class State:
    """What of an execution matters to others than itself."""

    n = 0  # its number; 0: none runs
    in_user = False  # an interrupt may be raised in the main thread
    begins = False  # `begun` was said, and user code is about to run
    early = False  # an interrupt came in between
    sending = 0  # it may not, because half a message would have left
    interrupted = False  # it should have been, while sending
    flags = 0  # of `from __future__`, kept from one execution to the next
    entered = False  # the main thread is in `context`
    context = None  # in which all code of the main thread runs: context variables hold from one execution to the next
    loop = None  # for `await` outside of functions; what it has to do goes on between executions
    sources = {}  # of the last executions, as linecache has them
    no_input = None  # the stream of an execution that had none
    drawn = {}  # figures that this execution has shown as a value, by id: what they looked like
    importing = 0  # the thread in which the kernel imports something for itself; 0: none


state = State()


# --- modules of the kernel's own ---


def flush_first(function):
    """Lines that have no end yet stand in front of what the function, or a process that it starts, writes by itself."""

    def flushed(*arguments, **named):
        flush_lines()
        return function(*arguments, **named)

    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(flushed, name, getattr(function, name, None))
    flushed.__wrapped__ = function
    return flushed


def flush_before_processes(subprocess):
    subprocess.Popen._execute_child = flush_first(subprocess.Popen._execute_child)


def keep_tasks(asyncio):
    """Tasks that are made where no loop runs are the kernel's loop's, as those are that `await` makes."""
    make_task = asyncio.create_task

    def create_task(coro, **options):
        if _thread.get_ident() != main_thread or asyncio._get_running_loop() is not None or os.getpid() != own_pid:
            return make_task(coro, **options)
        name = options.pop("name", None)
        task = own_loop(asyncio).create_task(coro, **options)
        if name is not None:
            task.set_name(name)
        return task

    create_task.__module__, create_task.__qualname__, create_task.__doc__ = "asyncio.tasks", "create_task", make_task.__doc__
    asyncio.create_task = asyncio.tasks.create_task = create_task
    own_loop(asyncio)


def own_loop(asyncio):
    """The main thread's: get_event_loop() has it, too."""
    if state.loop is None or state.loop.is_closed():
        state.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(state.loop)
    return state.loop


def fill_linecache(linecache):
    if isinstance(getattr(linecache, "cache", None), dict):
        linecache.cache.update(state.sources)


def without_screen(change):
    """There is no screen: a backend that would open windows, or that is a notebook's, is the one that draws."""

    def changed(backend, **options):
        return change(backend if str(backend).lower() in DRAWING else "agg", **options)

    return changed


def replace_use(matplotlib):
    if hasattr(matplotlib, "use"):
        matplotlib.use = without_screen(matplotlib.use)


def replace_show(pyplot):
    pyplot.show = show_figures
    if hasattr(pyplot, "switch_backend"):
        pyplot.switch_backend = without_screen(pyplot.switch_backend)


def change_by_notebook(found):
    load_notebook().changes[found.__name__](found)


class Finder:
    """
    What the kernel imports for itself is not looked for in the working folder, nor where user code has put things. And some
    modules are changed when they are imported: Agg's show() shows nothing, and closes nothing.
    """

    changes = {
        "asyncio": keep_tasks,
        "linecache": fill_linecache,
        "matplotlib": replace_use,
        "matplotlib.pyplot": replace_show,
        "IPython": change_by_notebook,
        "PIL.Image": change_by_notebook,
        "plotly.io._renderers": change_by_notebook,
        "webbrowser": change_by_notebook,
        "subprocess": flush_before_processes,
    }

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        own = path is None and state.importing == _thread.get_ident()
        notebooks = name.partition(".")[0] == "IPython"
        if name not in cls.changes and not notebooks and (not own or name in sys.builtin_module_names):
            return None
        spec = PathFinder.find_spec(name, own_path if own else path, target)
        if spec is None and notebooks:  # of an image that has no IPython
            return load_notebook().find_spec(name)
        change = cls.changes.get(name)
        if spec is None or spec.loader is None or change is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(found):
            execute(found)
            change(found)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder)


def own_module(name):
    """A module of the standard library, whatever lies in the working folder; that which user code has loaded, where it has."""
    before, state.importing = state.importing, _thread.get_ident()
    try:
        return __import__(name)
    finally:
        state.importing = before


# --- what notebooks have beside Python ---


class Notebook:
    """notebook.py: magics, IPython.display. It is loaded when something of it is asked for: most sessions never do."""

    loaded = None


def load_notebook():
    if Notebook.loaded is None:
        before, state.importing = state.importing, _thread.get_ident()
        try:
            import zlib

            found = {"__name__": "<berth notebook>", "__builtins__": dict(saved_builtins), "kernel": own_names()}
            exec(compile(zlib.decompress(own_notebook, 31), "<berth notebook>", "exec"), found)
            Notebook.loaded = type(sys.implementation)(**found)
        finally:
            state.importing = before
    return Notebook.loaded


def own_names():
    """The kernel as an object, for modules of its own."""
    return type(sys.implementation)(own_globals=globals(), **{name: value for name, value in globals().items() if not name.startswith("__")})


def get_ipython():
    """Libraries ask by it whether they are in a notebook."""
    return load_notebook().shell()


saved_builtins["get_ipython"] = builtins.get_ipython = get_ipython


# --- JSON ---


class Json:
    """The parts in C that the json module is made of, as it makes them. Without them it is that module."""

    strict, object_hook, object_pairs_hook, parse_float, parse_int, parse_constant, memo = True, None, None, float, int, float, {}


def encode_all(value):
    """Also what is not the kernel's."""
    return own_module("json").dumps(value, ensure_ascii=False, separators=(",", ":"))


def refuse(value):
    raise TypeError("this is not for JSON")


try:
    _encode = make_encoder(None, refuse, encode_basestring, None, ":", ",", False, False, True)
    _scan = make_scanner(Json)

    def encode_json(value):
        return "".join(_encode(value, 0))

    def decode_json(text):
        return _scan(text, 0)[0]

    if encode_json(decode_json('{"a":["\u00e9",1,null,true,{}]}')) != '{"a":["\u00e9",1,null,true,{}]}':
        raise ValueError
except (TypeError, ValueError, AttributeError):  # of a Python that is not known yet
    encode_json, decode_json = encode_all, own_module("json").loads


# --- the socket ---


class Channel:
    def __init__(self, descriptor):
        os.set_inheritable(descriptor, False)
        self.socket = _socket.socket(fileno=descriptor)
        self.lock = _thread.allocate_lock()
        self.closed = False
        self.pending = b""  # what came with a message, and belongs to the next ones
        self.descriptors = []  # those that came, and were not handed out

    def send(self, head, body=b"", last=False):
        """
        All of it or, where the runtime is gone, the end. An interrupt waits until it is done. With `last` the execution is over:
        what a thread of it still wants to show comes too late, and is not sent.
        """
        data = encode_json(head).encode("utf-8")
        own = _thread.get_ident() == main_thread
        state.sending += own
        try:
            with self.lock:
                if head.get("n", state.n) != state.n:
                    return
                if last:
                    state.n = 0
                if not self.closed:
                    self.socket.sendall(b"".join((len(data).to_bytes(4, "big"), len(body).to_bytes(4, "big"), data, body)))
        except OSError:
            self.closed = True
            if own:
                leave()
        finally:
            state.sending -= own
        if own and state.interrupted and not state.sending:
            state.interrupted = False
            raise KeyboardInterrupt

    def _receive_until(self, size):
        """So much is pending, and perhaps more. The runtime's end is ours."""
        pieces, come = [self.pending], len(self.pending)
        while come < size:
            piece, ancillary, _, _ = self.socket.recvmsg(min(max(size - come, 16384), 1 << 20), DESCRIPTORS_SPACE)
            if not piece:
                leave()
            for level, kind, data in ancillary:
                if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                    self.descriptors += [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data), 4)]
            pieces.append(piece)
            come += len(piece)
        self.pending = b"".join(pieces)
        return self.pending

    def receive(self):
        """A head, a body and descriptors. Only one message at a time has those, and they come with its first byte."""
        data = self._receive_until(8)
        head_end = 8 + int.from_bytes(data[:4], "big")
        end = head_end + int.from_bytes(data[4:8], "big")
        data = self._receive_until(end)
        self.pending = data[end:]
        head = decode_json(data[8:head_end].decode("utf-8"))
        descriptors = []
        if head["type"] in ("execute", "checkpoint"):
            descriptors, self.descriptors = self.descriptors, descriptors
        return head, data[head_end:end], descriptors

    def is_quiet(self):
        """Nothing comes for a while."""
        if self.pending:
            return False
        poll = select.poll()
        poll.register(self.socket.fileno(), select.POLLIN)
        return not poll.poll(QUIET_MS)

    def is_shut(self):
        """The runtime wants no more: a hang-up is told without being asked for."""
        poll = select.poll()
        poll.register(self.socket.fileno(), 0)
        return bool(poll.poll(0))

    def forget(self):
        """In a child that was forked: what it says would be taken for ours."""
        self.closed = True
        self.socket.close()


channel = Channel(DESCRIPTOR)
os.register_at_fork(after_in_child=channel.forget)


# --- interrupts ---


def on_interrupt(number, frame):
    """
    The runtime sends SIGINT once `begun` was said. It may still come when the code has ended: then it is ignored.
    """
    if not state.in_user:
        state.early = state.begins
        return
    if state.sending:
        state.interrupted = True
        return
    raise KeyboardInterrupt


def heed_interrupts():
    """An earlier execution may have changed what becomes of them."""
    _signal.signal(_signal.SIGINT, on_interrupt)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {_signal.SIGINT})


# --- text that fits ---


def clean(text, most):
    """As UTF-8 without NUL, of at most `most` bytes, and whether that is less than there was."""
    data = str.encode(text, "utf-8", "backslashreplace").replace(b"\0", b"\\x00")
    return data[:most].decode("utf-8", "ignore"), len(data) > most


def name_of(kind):
    return clean(type_name(kind), NAME_MAX)[0]


def note(text):
    """For the user, on standard error, whatever has become of sys.stderr."""
    try:
        flush_streams()
        os.write(2, ("berth: %s\n" % text).encode("utf-8", "backslashreplace"))
    except Exception:
        pass


def without_kernel(shown, depth=0):
    """A traceback without the kernel's own frames, in what caused it and in groups as well."""
    shown.stack[:] = [frame for frame in shown.stack if frame.filename not in OWN_FILES]
    for other in [shown.__cause__, shown.__context__] + list(getattr(shown, "exceptions", None) or ()):
        if other is not None and depth < 100:
            without_kernel(other, depth + 1)
    return shown


def format_error(error):
    """
    Lines, as Python writes them. For very many frames only both ends are read: each costs some microseconds, and this
    cannot be interrupted.
    """
    traceback, at, count = load_traceback(), error.__traceback__, 0
    while at is not None:
        at, count = at.tb_next, count + 1
    few = count > LINES_MAX
    shown = traceback.TracebackException(type(error), error, error.__traceback__, limit=-LINES_MAX)
    lines = list(without_kernel(shown).format())
    if few:
        first = traceback.TracebackException(type(error), error, error.__traceback__, limit=20)
        first.__cause__ = first.__context__ = None
        start = len(lines) - 1 - lines[::-1].index("Traceback (most recent call last):\n")
        head = without_kernel(first).stack.format()
        lines[start + 1 : start + 1] = head + ["  ... %d frames left out ...\n" % (count - LINES_MAX - 20)]
    return "".join(lines).split("\n")


def plain_traceback(error, name, value):
    """Where Python's own cannot be had, since user code has a module of that name, or no memory is left."""
    lines, at = ["Traceback (most recent call last):"], error.__traceback__
    while at is not None and len(lines) < LINES_MAX:
        code = at.tb_frame.f_code
        if code.co_filename not in OWN_FILES:
            lines.append('  File "%s", line %d, in %s' % (code.co_filename, at.tb_lineno, code.co_name))
        at = at.tb_next
    return lines + ["%s: %s" % (name, value)]


def load_traceback():
    """With the modules that it imports only when it formats something: in 3.11 and newer a tree of the line, in 3.13 what
    reads the file."""
    for name in ("ast", "tokenize", "unicodedata"):
        own_module(name)
    return own_module("traceback")


def describe_error(error):
    """{name, value, traceback}, as far as they fit."""
    name = name_of(type(error))
    try:
        value = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        value = "<its text cannot be had: __str__ raised>"
    try:
        lines = format_error(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        lines = plain_traceback(error, name, value)
    if lines and not lines[-1]:
        lines.pop()
    if len(lines) > LINES_MAX:
        left_out = len(lines) - LINES_MAX + 1
        lines = lines[:150] + ["... %d lines left out ..." % left_out] + lines[-(LINES_MAX - 151) :]
    kept, room = [], TEXT_MAX
    for line in lines:
        line = clean(line, min(room, 4096))[0]
        room -= len(line.encode("utf-8"))
        kept.append(line)
    return {"name": name, "value": clean(value, TEXT_MAX)[0], "traceback": kept}


# --- what is shown ---

REPRESENTATIONS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
)


def call_representation(value, name):
    """What a method of the value's class says, or None. Asked of the class: some objects have every attribute one asks for."""
    if isinstance(value, type) or not callable(getattr(type(value), name, None)):
        return None
    try:
        found = getattr(value, name)()
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        note("%s of %s failed: %s" % (name, name_of(type(value)), name_of(type(error))))
        return None
    if type(found) is tuple and found:  # with metadata
        found = found[0]
    return found


def as_bytes(found, kind):
    """Of a representation, as bytes; None where it is not what its type says."""
    if isinstance(found, (bytes, bytearray, memoryview)):
        return bytes(found)
    if isinstance(found, (dict, list)) and ("json" in kind):
        return encode_all(found).encode("utf-8", "backslashreplace")
    if isinstance(found, str):
        if kind.startswith("image/") and "xml" not in kind:
            import binascii

            try:
                return binascii.a2b_base64(found)
            except ValueError:
                return None
        return str.encode(found, "utf-8", "backslashreplace")
    return None


def representations(value):
    """{MIME type: bytes} of all that the value offers beside its repr."""
    if id(type(value)) in plain_types:
        return {}
    found = {}
    bundle = None
    if not isinstance(value, type) and callable(getattr(type(value), "_repr_mimebundle_", None)):
        try:
            bundle = value._repr_mimebundle_(include=None, exclude=None)
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:
            note("_repr_mimebundle_ of %s failed: %s" % (name_of(type(value)), name_of(type(error))))
    if type(bundle) is tuple and bundle:
        bundle = bundle[0]
    if isinstance(bundle, dict):
        for kind, data in list(bundle.items()):
            if isinstance(kind, str):
                found[str(kind)] = data
    for name, kind in REPRESENTATIONS:
        if kind not in found:
            found[kind] = call_representation(value, name)
    if Notebook.loaded:
        found.update(Notebook.loaded.registered_forms(value))
    if "image/png" not in found or found["image/png"] is None:
        if type(value).__module__ == "matplotlib.figure" and hasattr(value, "savefig"):
            found["image/png"] = draw_shown(value)
    parts = {}
    for kind, data in found.items():
        data = None if data is None else as_bytes(data, kind)
        if data is not None:
            parts[kind] = data
    return parts


def is_mime_type(kind):
    first, slash, second = kind.partition("/")
    allowed = "!#$&-^_.+"
    return bool(
        first[:1].isalnum() and second[:1].isalnum() and slash and kind.isascii() and len(kind) <= NAME_MAX and all(c.isalnum() or c in allowed for c in first + second)
    )


def send_display(parts, main):
    """As much of it as fits; what does not is said."""
    kept, room = [], DISPLAY_MAX
    for kind, data in parts.items():
        if not is_mime_type(kind) or len(data) > room or len(kept) == PARTS_MAX:
            note("a display of %d bytes as %s is left out" % (len(data), clean(kind, 64)[0]))
            continue
        room -= len(data)
        kept.append((kind, data))
    if not kept or not state.n:
        return
    flush_streams()
    head = {"type": "display", "n": state.n, "main": main, "parts": [{"type": kind, "bytes": len(data)} for kind, data in kept]}
    channel.send(head, b"".join(data for _, data in kept))


def shows_itself(value):
    """As by _ipython_display_: then it has no other form."""
    kind = type(value)
    if id(kind) in plain_types or isinstance(value, type) or not callable(getattr(kind, "_ipython_display_", None)):
        return False
    try:
        value._ipython_display_()
        return True
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except NotImplementedError:
        pass
    except BaseException as error:
        note("_ipython_display_ of %s failed: %s" % (name_of(kind), name_of(type(error))))
    return False


def text_of(value, parts):
    """Its repr, and whether that was cut. One that raises is not an error if there are other forms."""
    try:
        return clean(repr(value), TEXT_MAX)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        if not parts:
            raise
        note("__repr__ of %s failed: %s" % (name_of(type(value)), name_of(type(error))))
        return "<%s: its __repr__ failed>" % name_of(type(value)), False


def display(*values, **options):
    """Shows each, in every form that it has, as notebooks do."""
    if options:
        return load_notebook().display(*values, **options)
    for value in values:
        if not shows_itself(value):
            parts = representations(value)
            send_display({"text/plain": text_of(value, parts)[0].encode("utf-8"), **parts}, False)


def draw(figure):
    """None: it is empty but for its background."""
    if len(figure.get_children()) <= 1:
        return None
    data = io.BytesIO()
    figure.savefig(data, format="png", bbox_inches="tight")
    return data.getvalue()


def draw_shown(figure):
    """As a value or by display(): the end of the execution does not show the same again."""
    state.drawn[id(figure)] = draw(figure)
    return state.drawn[id(figure)]


def show_figures(*arguments, **ignored):
    """Every open figure is shown and closed. matplotlib is not imported for it: without it there are no figures."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not state.n or os.getpid() != own_pid or _thread.get_ident() != main_thread:
        return
    try:
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            data = draw(figure)
            if state.drawn.get(id(figure), b"") != data:  # as it stands there already
                send_display({"text/plain": repr(figure).encode("utf-8")} if data is None else {"image/png": data}, False)
    finally:
        pyplot.close("all")


saved_builtins["display"] = builtins.display = display


# --- standard streams ---


def open_stream(descriptor, errors):
    """A line is written at once, as on a terminal: lines of threads and processes do not mix, and no reader waits for a whole
    one."""
    file = io.FileIO(descriptor, "w", closefd=False)
    file.name = "<stdout>" if descriptor == 1 else "<stderr>"
    stream = io.TextIOWrapper(io.BufferedWriter(file), encoding="utf-8", errors=errors, line_buffering=True)
    stream.mode = "w"
    return stream


def flush_lines():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def is_usable(stream):
    try:
        return stream is not None and callable(stream.write) and not getattr(stream, "closed", False)
    except BaseException:
        return False


def mend_streams():
    """Code that closed or deleted them, by accident, gets new ones. Code that put something else in their place, keeps it."""
    for name, descriptor, errors in (("stdout", 1, "backslashreplace"), ("stderr", 2, "backslashreplace")):
        if not is_usable(getattr(sys, name, None)):
            setattr(sys, name, open_stream(descriptor, errors))
        first = getattr(sys, "__%s__" % name, None)
        if first is not getattr(sys, name) and not is_usable(first):
            setattr(sys, "__%s__" % name, open_stream(descriptor, errors))


def flush_streams():
    last = None
    for name in ("stdout", "__stdout__", "stderr", "__stderr__"):
        try:
            stream = getattr(sys, name)
            if stream is not last:
                stream.flush()
            last = stream
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            pass
    if "ctypes" in sys.modules or "_cffi_backend" in sys.modules:  # code in C prints by a buffer of its own
        try:
            import ctypes

            ctypes.CDLL(None).fflush(None)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            pass


def move_descriptors(descriptors):
    """The pipes become 1 and 2. First out of the way: user code may have closed any number, and they may have got those."""
    if any(descriptor < DESCRIPTOR for descriptor in descriptors):
        moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 16) for descriptor in descriptors]
        for descriptor in descriptors:
            os.close(descriptor)
        descriptors = moved
    for descriptor, number in zip(descriptors, (1, 2)):
        os.dup2(descriptor, number)
        os.close(descriptor)


def has_no_input():
    """The one before had none, either, and its replacement is untouched."""
    stream = state.no_input
    try:
        if stream is None or getattr(sys, "stdin", None) is not stream or getattr(sys, "__stdin__", None) is not stream or stream.closed:
            return False
        return os.fstat(0).st_rdev == null_device and fcntl.fcntl(0, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    except (OSError, ValueError):
        return False


def give_input(data):
    """None: an end at once."""
    if data is None and has_no_input():
        return
    state.no_input = None
    if data is None:
        descriptor = os.open(os.devnull, os.O_RDONLY)
    else:
        descriptor = os.memfd_create("stdin")
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
    if descriptor != 0:
        os.dup2(descriptor, 0)
        os.close(descriptor)
    else:
        os.set_inheritable(0, True)
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8", errors="surrogateescape")
    if data is None:
        state.no_input = sys.stdin


python_input = builtins.input


def ask_input(prompt=""):
    """input(), but it says why nothing comes."""
    try:
        return python_input(prompt)
    except EOFError:
        raise EOFError("input() has no reader: give the execution its standard input when you start it") from None


saved_builtins["input"] = builtins.input = ask_input


# --- running code ---


def remember_source(filename, source):
    """For tracebacks, and inspect.getsource(). The oldest go."""
    linecache = sys.modules.get("linecache")
    cache = getattr(linecache, "cache", None)
    if linecache and not isinstance(cache, dict):
        cache = linecache.cache = {}
    for known in (state.sources, cache):
        if known is not None:
            known[filename] = (len(source), None, source.splitlines(True), filename)
    if len(state.sources) > 1000:
        oldest = next(iter(state.sources))
        del state.sources[oldest]
        if cache:
            cache.pop(oldest, None)


def ends_with_semicolon(source, node):
    """As in notebooks: `plot();` wants no value shown. Columns count bytes."""
    if ";" not in source:
        return False
    lines = source.encode("utf-8", "surrogatepass").split(b"\n")
    rest = lines[node.end_lineno - 1][node.end_col_offset :]
    return rest.strip().startswith(b";")


def in_context(function, *arguments):
    """In the one of all code; that of threads, and code that code runs, is where it is."""
    if state.entered or _thread.get_ident() != main_thread:
        return function(*arguments)
    state.entered = True
    try:
        return state.context.run(function, *arguments)
    finally:
        state.entered = False


def new_task(asyncio, loop, coroutine):
    """In the context of all other code, not in a copy."""
    if sys.version_info >= (3, 11):
        return loop.create_task(coroutine, context=state.context)

    class Task(asyncio.tasks._PyTask):
        _context = property(lambda task: state.context, lambda task, copy: None)

    return Task(coroutine, loop=loop)


def run_coroutine(coroutine):
    import asyncio

    loop = own_loop(asyncio)
    task = new_task(asyncio, loop, coroutine)
    before, state.entered = state.entered, True
    try:
        return loop.run_until_complete(task)
    except BaseException:
        if not task.done():
            task.cancel()
            try:
                loop.run_until_complete(task)
            except BaseException:
                pass
        raise
    finally:
        state.entered = before


def run_code(code):
    found = in_context(eval, code, module.__dict__)
    return run_coroutine(found) if code.co_flags & CO_COROUTINE else found


def has_work(loop):
    """Tasks, timers, descriptors that are watched beside its own one, or what cannot be told."""
    try:
        return bool(
            loop._ready or loop._scheduled or len(loop._selector.get_map()) > 1 or sys.modules["asyncio"].all_tasks(loop)
        )
    except Exception:
        return True


def go_on():
    """What the loop has to do goes on until the runtime says something. Output of that comes with the next execution."""
    loop, descriptor = state.loop, channel.socket.fileno()
    while not channel.pending and not loop.is_closed() and has_work(loop):
        try:
            try:
                loop.add_reader(descriptor, loop.stop)
                state.in_user = True
                # The loop looks at descriptors last: ready tasks would run once more, and may block after the runtime's one interrupt.
                if not channel.is_shut():
                    loop.run_forever()
            finally:
                state.in_user = False
            break
        except BaseException as error:  # SystemExit of a task, for one, or an interrupt of one that lets nothing else run
            state.in_user = False
            note("a task has ended by %s" % name_of(type(error)))
        finally:
            if os.getpid() != own_pid:
                os._exit(0)
            try:
                loop.remove_reader(descriptor)
            except Exception:
                pass
    flush_streams()


def one_expression(source, filename, flags):
    """
    Its code, or None if it is not an expression: then there is more to it, or it is wrong, which the long way finds. That
    goes by a tree of Python's own, and back. Compiled only once: an escape that Python warns of would be warned of twice.
    """
    if len(source) > 200 or "\n" in source or "\\" in source or ";" in source or "=" in source:
        return None
    try:
        return compile(source, filename, "eval", flags, True)
    except (SyntaxError, ValueError):
        return None


def parse(source, filename, flags):
    """Its tree, and the source that this is of: what is not Python may be a notebook's."""
    try:
        return compile(source, filename, "exec", flags | _ast.PyCF_ONLY_AST, True), source
    except SyntaxError:
        meant = load_notebook().translate(source)
        if meant is None:
            raise
    return compile(meant, filename, "exec", flags | _ast.PyCF_ONLY_AST, True), meant


class Inputs:
    """`In`: the sources of the last executions, by their numbers."""

    def __getitem__(self, n):
        try:
            return "".join(state.sources["<execution %d>" % n if n > 0 else list(state.sources)[n]][2])
        except (IndexError, KeyError):
            raise IndexError("no source of this execution is kept") from None

    def __len__(self):
        return state.n + 1

    def __iter__(self):
        return ("".join(lines) for _, _, lines, _ in list(state.sources.values()))

    def __repr__(self):
        return repr(list(self))


# By builtins, so that they are among the names of no session.
outputs = {}
saved_builtins["In"], saved_builtins["Out"] = builtins.In, builtins.Out = Inputs(), outputs
LAST = ("_", "__", "___")
last_values = []


def keep_value(value):
    """As `_` and `Out[n]`. Only the last ones: each may be large. A `_` that other code has set stays (gettext.install())."""
    if value is outputs:
        return
    names, kept = vars(builtins), value
    for at, name in enumerate(LAST):
        before = last_values[at] if at < len(last_values) else None
        if name not in names or (before is not None and names[name] is before):
            names[name] = kept
        if before is None:
            last_values.append(kept)
            break
        last_values[at], kept = kept, before
    outputs[state.n] = value
    while len(outputs) > OUTPUTS_MAX:
        del outputs[next(iter(outputs))]


def forget_values():
    """They may be what memory is short of."""
    for name, kept in zip(LAST, last_values):
        if vars(builtins).get(name) is kept:
            del vars(builtins)[name]
    del last_values[:]
    outputs.clear()


def run_source(source, filename):
    """The last expression's value, or None. Its exceptions are the user's."""
    flags = state.flags | _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    short = one_expression(source, filename, flags)
    if short is not None:
        return run_code(short)
    tree, source = parse(source, filename, flags)
    last = None
    if tree.body and isinstance(tree.body[-1], _ast.Expr) and not ends_with_semicolon(source, tree.body[-1]):
        last = _ast.Expression(tree.body.pop().value)
    code = None
    if tree.body:
        code = compile(tree, filename, "exec", flags, True)
        state.flags |= code.co_flags & FUTURES
    if last is not None:
        last = compile(last, filename, "eval", flags | state.flags, True)
    if code is not None:
        run_code(code)
    return None if last is None else run_code(last)


def value_of(found):
    if found is None:
        return None
    keep_value(found)
    if shows_itself(found):
        return None
    parts = representations(found)
    text, cut = text_of(found, parts)
    if parts:
        send_display({"text/plain": text.encode("utf-8"), **parts}, True)
    return {"type": name_of(type(found)), "text": text, "truncated": cut}


def exit_code(error):
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    try:
        os.write(2, ("%s\n" % (error.code,)).encode("utf-8", "backslashreplace"))
    except BaseException:
        pass
    return 1


def show_figures_after_error():
    """Figures that were drawn until then may show where it went wrong. The error is the first one, whatever happens here."""
    try:
        show_figures()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        note("a figure could not be drawn: %s" % name_of(type(error)))


def run_user(source, filename):
    """(outcome, value, error, exit code): everything of it may be interrupted, and nothing after it."""
    try:
        try:
            state.in_user = True
            state.begins = False
            if state.early:
                raise KeyboardInterrupt
            try:
                value = in_context(value_of, run_source(source, filename))
            except (KeyboardInterrupt, MemoryError):
                raise
            except BaseException:
                show_figures_after_error()
                raise
            in_context(show_figures)
            if Notebook.loaded:
                in_context(Notebook.loaded.finish)
            flush_streams()
            return "ok", value, None, 0
        finally:
            state.in_user = False
    except SystemExit as error:
        state.in_user = False
        return "exits", None, None, exit_code(error)
    except MemoryError as error:
        state.in_user = False
        forget_values()
        return "memory", None, describe_error(error), 1
    except BaseException as error:
        state.in_user = False
        return "error", None, describe_error(error), 1


def set_variables(variables):
    """For this execution only: what they were before."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    return before


def restore(before):
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def mend_kernel():
    """What user code may have broken without knowing that the kernel needs it."""
    sys.settrace(None)
    sys.setprofile(None)
    if sys.getrecursionlimit() < 200:
        sys.setrecursionlimit(1000)
    module.__dict__.pop("__warningregistry__", None)  # each execution warns for itself


def mend_surroundings():
    """What the next execution needs. This one has been answered already."""
    if tuple(vars(builtins))[: len(saved_builtins)] != tuple(saved_builtins):
        for name, value in saved_builtins.items():
            vars(builtins).setdefault(name, value)
    sys.modules["__main__"] = module
    module.__dict__["__builtins__"] = builtins


def leave_child(code, error):
    """User code forked, and its child came out of the code as well: it is no kernel."""
    if error is not None:
        note("in a child that was forked: %s" % "\n".join(error["traceback"]))
    try:
        flush_streams()
    finally:
        os._exit(code)


def execute(head, body, descriptors):
    n = head["n"]
    source = body[: head["codeBytes"]].decode("utf-8", "surrogateescape")
    if source[:1] == "\ufeff":
        source = source[1:]
    move_descriptors(descriptors)
    give_input(body[head["codeBytes"] :] if head["stdin"] else None)
    mend_streams()
    filename = "<execution %d>" % n
    remember_source(filename, source)
    before = set_variables(head["variables"]) if head["variables"] else {}
    heed_interrupts()
    state.n = n
    state.interrupted = state.early = False
    state.drawn = {}
    state.begins = True
    channel.send({"type": "begun", "n": n})
    outcome, value, error, code = run_user(source, filename)
    if os.getpid() != own_pid:
        leave_child(code, error)
    mend_kernel()
    restore(before)
    if outcome != "ok":
        flush_streams()
    flush_written_files()
    try:
        channel.send({"type": "done", "n": n, "outcome": outcome, "code": code, "value": value, "error": error}, last=True)
    finally:
        mend_surroundings()


# --- the end ---


class Late(BaseException):
    """A step of the end takes too long."""


def for_seconds(seconds, function):
    """At most this long: then it is left where it waits, again and again."""
    within = [True]

    def late(number, frame):
        if within[0]:
            raise Late

    _signal.signal(_signal.SIGALRM, late)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {_signal.SIGALRM})
    _signal.setitimer(_signal.ITIMER_REAL, seconds, 0.05)
    try:
        function()
    except BaseException:
        pass
    within[0] = False
    _signal.setitimer(_signal.ITIMER_REAL, 0)


def end_tasks():
    """As asyncio.run() does."""
    loop = state.loop
    if loop is None or loop.is_closed() or not has_work(loop):
        return
    asyncio = sys.modules["asyncio"]
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True) if tasks else asyncio.sleep(0))


def flush_files(found):
    """Archives first, which write their ends into other files; then text, then bytes."""
    archives = [
        getattr(sys.modules[name], kind)
        for name, kind in (("gzip", "GzipFile"), ("bz2", "BZ2File"), ("lzma", "LZMAFile"), ("zipfile", "ZipFile"))
        if hasattr(sys.modules.get(name), kind)
    ]
    for kinds, end in ((tuple(archives), "close"), (io.TextIOWrapper, "flush"), ((io.BufferedWriter, io.BufferedRandom), "flush")):
        for value in found:
            if kinds and issubclass(type(value), kinds):
                try:
                    getattr(value, end)()
                except Late:
                    raise
                except BaseException:
                    pass


def written_files():
    """Descriptors of files that have a name and are open for writing."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            seen, flags = os.fstat(int(name)), fcntl.fcntl(int(name), fcntl.F_GETFL)
        except OSError:
            continue
        if seen.st_mode & 0o170000 == 0o100000 and seen.st_nlink and flags & os.O_ACCMODE != os.O_RDONLY:
            found.add(int(name))
    return found


def flush_written_files():
    """
    Files of the workspace are brought out when an execution has ended, and a kernel may end without notice. Only Python's own kinds of
    files are flushed: those of the session's classes would run its code. Archives are not: only their close() makes them whole.
    """
    written = written_files()
    if not written:
        return
    import gc

    # By ids, as plain_types.
    binary = {id(io.BufferedWriter), id(io.BufferedRandom)}
    found = [each for each in gc.get_objects() if id(type(each)) == id(io.TextIOWrapper) or id(type(each)) in binary]
    for is_text in (True, False):
        for value in found:
            try:
                buffer = value if id(type(value)) in binary else value.buffer
                own = id(type(buffer)) in binary and type(buffer.raw) is io.FileIO and buffer.raw.fileno() in written
                if own and is_text == (value is not buffer):
                    value.flush()
            except Exception:  # closed, detached, or a full disk: close() tells that
                pass


def forget_names():
    """Objects end while what they use is still there: until Python 3.9 a function finds builtins by its module."""
    for name in list(module.__dict__):
        if name != "__builtins__":
            module.__dict__[name] = None


def leave():
    """
    The runtime wants no more of this kernel: it ends as Python does, but in two seconds, after which it is killed. Threads that
    do not end are left; files are flushed wherever they are held.
    """
    channel.closed = True
    state.n, state.in_user, state.begins = 0, False, False
    if os.getpid() == own_pid:
        import gc

        steps = [(0.2, end_tasks)]
        if "threading" in sys.modules:
            steps.append((0.5, sys.modules["threading"]._shutdown))
        if "atexit" in sys.modules:
            steps.append((0.5, sys.modules["atexit"]._run_exitfuncs))
        steps += [
            (0.1, flush_streams),
            (0.1, lambda: flush_files(list(module.__dict__.values()))),
            (0.3, lambda: flush_files(gc.get_objects())),
            (0.2, lambda: (forget_names(), gc.collect())),
        ]
        for seconds, step in steps:
            for_seconds(seconds, step)
    os._exit(0)


def prepare(head):
    """Imports modules ahead of their use."""
    missing = []
    for name in head["modules"]:
        try:
            own_module("importlib").import_module(name)
        except BaseException as error:
            reason = "%s: %s" % (name_of(type(error)), error)
            missing.append({"module": clean(name, NAME_MAX)[0], "reason": clean(reason, 1000)[0]})
    channel.send({"type": "prepared", "missing": missing})


# --- checkpoints ---


class Tools:
    """What checkpoint.py needs of the kernel. Loaded with the first request that needs it."""

    loaded = library = None


def load_tools(head, body):
    """Its imports are the kernel's own."""
    if Tools.loaded is None:
        before, state.importing = state.importing, _thread.get_ident()
        try:
            tools = {"__name__": "<berth checkpoint>", "__builtins__": dict(saved_builtins)}
            import zlib

            exec(compile(zlib.decompress(body[head["libraryBytes"] :], 31), "<berth checkpoint>", "exec"), tools)
            Tools.library = tools["load_library"](zlib.decompress(body[: head["libraryBytes"]], 31))
            Tools.loaded = tools
        finally:
            state.importing = before
    return own_names()


def wait_for_child(pid, gate, started, milliseconds):
    """Why it took no checkpoint, or None; and whether it only had too little time. The gate closes with its end."""
    poll = select.poll()
    poll.register(gate, select.POLLIN)
    in_time = poll.poll(max(1, milliseconds - (time.monotonic() - started) * 1000))
    if not in_time:
        os.kill(pid, _signal.SIGKILL)
    try:
        status = os.waitpid(pid, 0)[1]
    except ChildProcessError:
        status = 0
    if not in_time:
        return "it was not taken in %d ms" % milliseconds, True
    if os.WIFSIGNALED(status):
        return "the process that took it was ended by signal %d" % os.WTERMSIG(status), False
    return None if status == 0 else "the process that took it has failed", False


def take_checkpoint(head, body, descriptors):
    started = time.monotonic()
    reason, late, pid, ends = None, False, -1, (-1, -1)
    try:
        try:
            kernel = load_tools(head, body)
        except BaseException as error:
            raise RuntimeError("what takes checkpoints does not load: %s: %s" % (name_of(type(error)), error)) from None
        head["before"] = Tools.loaded["before_fork"]()
        ends = os.pipe()
        pid = os.fork()
        if pid == 0:
            Tools.loaded["take_in_child"](Tools.library, kernel, head, descriptors[0], started)
            os._exit(0)
        os.close(descriptors.pop())
        os.close(ends[1])
        reason, late = wait_for_child(pid, ends[0], started, head["maxMs"])
        os.close(ends[0])
    except BaseException as error:
        if os.getpid() != own_pid:
            os._exit(1)
        reason = clean("%s: %s" % (name_of(type(error)), error), 500)[0]
    for descriptor in descriptors:
        os.close(descriptor)
    channel.send({"type": "taken", "reason": reason, "late": late})


def restore_checkpoint(head, body):
    try:
        kernel = load_tools(head, body)
    except BaseException as error:
        reason = clean("what restores checkpoints does not load: %s: %s" % (name_of(type(error)), error), 500)[0]
        while channel.receive()[0]["type"] != "end":
            pass
        channel.send({"type": "restored", "restored": [], "restoredCount": 0, "lost": [], "lostCount": 0, "reason": reason})
        return
    channel.send(Tools.loaded["restore"](Tools.library, kernel, head, channel.receive))


def serve():
    heed_interrupts()
    channel.send({"type": "ready", "python": python_version})
    complete = False
    while True:
        if not complete and channel.is_quiet():
            # What the next error needs, so that it is Python's own whatever user code does until then.
            try:
                load_traceback()
            except Exception:
                pass
            complete = True
        if state.loop is not None:
            go_on()
        head, body, descriptors = channel.receive()
        if head["type"] == "execute":
            execute(head, body, descriptors)
        elif head["type"] == "prepare":
            prepare(head)
        elif head["type"] == "checkpoint":
            take_checkpoint(head, body, descriptors)
        elif head["type"] == "restore":
            restore_checkpoint(head, body)


os.system, os.write = flush_first(os.system), flush_first(os.write)
os.register_at_fork(before=flush_lines)
state.context = _contextvars.copy_context()
sys.stdout = sys.__stdout__ = open_stream(1, "backslashreplace")
sys.stderr = sys.__stderr__ = open_stream(2, "backslashreplace")
serve()
