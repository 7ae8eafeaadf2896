# SPDX-License-Identifier: Apache-2.0
"""A kernel's variables, taken from one runtime and given to the next: what comes back, what is lost, and that it is said."""

import json
import os
import re
import shutil
import subprocess

import pytest

from runtime_client import LENGTHS, Runtime, end, wait_until


@pytest.fixture
def another(program):
    """Makes runtimes; all of them end well."""
    made = []

    def make(**options):
        made.append(Runtime(program, **options))
        return made[-1]

    yield make
    for runtime in made:
        assert runtime.close() == 0, runtime.said


def lost_of(state):
    return {item["name"]: (item["type"], item["why"]) for item in state["lost"]}


def parts_of(file):
    """[(head, body)] of a file, read as README.md has it."""
    line, at, parts = b"berth checkpoint 1\n", 0, []
    assert file.startswith(line)
    at = len(line)
    while at < len(file):
        head, body = LENGTHS.unpack_from(file, at)
        at += 8
        parts.append((json.loads(file[at : at + head]), file[at + head : at + head + body]))
        at += head + body
    assert at == len(file)
    return parts


def file_of(parts):
    packed = [b"berth checkpoint 1\n"]
    for head, body in parts:
        head = json.dumps(head).encode()
        packed += [LENGTHS.pack(len(head), len(body)), head, body]
    return b"".join(packed)


# --- what comes back ---

SESSION = '''
from __future__ import annotations
import abc, array, collections, dataclasses, datetime, decimal, enum, fractions, functools, json as js, os.path, pathlib, re, types, typing, uuid
K = 1
def reads_k(): return K
def calls(n): return 1 if n < 2 else n * calls(n - 1)
def counter():
    n = 0
    def next_one():
        nonlocal n
        n += 1
        return n
    return next_one
count = counter(); count()
def logged(function):
    @functools.wraps(function)
    def wrapper(*a, **k): return ("logged", function(*a, **k))
    return wrapper
@logged
def decorated(a, *, b=2): return a + b
class Cached:
    @functools.cached_property
    def once(self): return [K]
cached = Cached(); cached.once
@functools.lru_cache(maxsize=7)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def generates(): yield K
async def waits(): return K
square = lambda x: x * x
partial = functools.partial(calls, 5)
@dataclasses.dataclass
class Point:
    x: int
    y: list = dataclasses.field(default_factory=list)
    def moved(self): return Point(self.x + K, self.y)
class Base(abc.ABC):
    made = 0
    @abc.abstractmethod
    def name(self): ...
    def __init__(self): type(self).made += 1
class Child(Base):
    def __init__(self):
        super().__init__()
        self.own = "child"
    def name(self): return self.own
    @property
    def loud(self): return self.own.upper()
    @classmethod
    def make(cls): return cls()
    @staticmethod
    def three(): return 3
    class Inner: pass
class Slots:
    __slots__ = ("a", "b")
class Meta(type):
    def __call__(cls, *a): return super().__call__(*a)
class WithMeta(metaclass=Meta): pass
class Color(enum.Enum):
    RED = 1
    GREEN = 2
class Bits(enum.IntFlag):
    A = 1
    B = 2
T = typing.TypeVar("T")
class Box(typing.Generic[T]):
    def __init__(self, held): self.held = held
Named = collections.namedtuple("Named", "x y")
class Typed(typing.NamedTuple):
    a: int
    b: str = "b"
class OwnError(ValueError): pass
point, child, slots, meta, color, bits, box, named, typed, error = Point(1), Child(), Slots(), WithMeta(), Color.GREEN, Bits.A | Bits.B, Box([1]), Named(1, 2), Typed(3), OwnError("own")
slots.a = 5
inner = Child.Inner()
shared = [1, 2]
also = shared
inside = {"shared": shared, "set": {1, 2}, "frozen": frozenset("ab")}
inside["self"] = inside
method = child.name
plain = [None, True, 1, 2**100, 1.5, 1j, "text", "\\ud800", b"bytes", bytearray(b"array"), range(3), slice(1, 2), ..., NotImplemented, int, len, print]
library = [decimal.Decimal("1.5"), fractions.Fraction(1, 3), datetime.datetime(2024, 1, 2), pathlib.Path("a/b"), re.compile("a+"), uuid.UUID(int=5),
           array.array("d", [1.5]), collections.deque([1], 5), collections.Counter("aab"), collections.OrderedDict(a=1), types.SimpleNamespace(a=1)]
grouped = collections.defaultdict(lambda: K)
namespace = globals()
main = __import__("__main__")
output, answer, show = __import__("sys").stdout, input, display
globals()["no identifier \\n"] = 1
_ = 5
before = [repr(x) for x in plain + library]
'''

CHECK = '''
K = 10
assert reads_k() == 10 and calls(5) == 120 and count() == 2 and decorated(1) == ("logged", 3)
assert fib(30) == 832040 and fib.cache_info().maxsize == 7 and list(generates()) == [10] and await waits() == 10
assert cached.once == [1] and Cached().once == [10] and type(cached).once.func.__globals__ is globals()
assert square(3) == 9 and partial() == 120
assert all(f.__globals__ is globals() for f in (reads_k, calls, counter, logged, square, Point.moved, Child.__init__, waits))
assert isinstance(point, Point) and point == Point(1) and point.moved() == Point(11) and type(point).__module__ == "__main__"
made = Child.made
assert isinstance(child, Base) and issubclass(Child, Base) and child.loud == "CHILD" and Child.make().name() == "child" and Child.made == made + 1 and Child.three() == 3
assert isinstance(inner, Child.Inner) and slots.a == 5 and not hasattr(slots, "b") and type(meta) is WithMeta and type(WithMeta) is Meta
try: Base()
except TypeError: pass
else: assert False
assert color is Color.GREEN and Color(1) is Color.RED and bits == Bits.A | Bits.B and type(bits) is Bits
assert box.held == [1] and type(box) is Box and named == Named(1, 2) and named.y == 2 and typed == Typed(3, "b") and type(error) is OwnError
assert shared is also and inside["shared"] is shared and inside["self"] is inside and inside["set"] == {1, 2}
assert method() == "child" and method.__self__ is child
assert [repr(x) for x in plain + library] == before
assert grouped["x"] == 10 and namespace is globals() and main is __import__("__main__")
assert output is __import__("sys").stdout and answer is input and show is display
assert globals()["no identifier \\n"] == 1 and _ == 5 and js.dumps(1) == "1" and os.path.join("a", "b") == "a/b"
def annotated(x: Undefined): pass
'''


def test_everything_of_a_session_comes_back_and_works(runtime, another):
    runtime.ok(SESSION)
    said, file = runtime.checkpoint()
    (outcome,) = said["contexts"]
    assert said["reason"] is None and outcome["reason"] is None and (outcome["context"], outcome["generation"], outcome["lost"]) == ("main", 1, 0), said
    assert runtime.ok("count()").state["was"] == "kept"  # and the kernel goes on as if nothing had been
    second = another()
    said = second.restore(file)
    assert said["contexts"] == [{**outcome, "generation": 2}] and said["reason"] is None
    first = second.ok(CHECK)
    assert (first.state["generation"], first.state["was"], first.state["reason"], first.state["lost"]) == (2, "restored", None, [])
    assert {"K", "Point", "_", "js", "plain"} <= set(first.state["restored"]) and "__builtins__" not in first.state["restored"]
    assert len(first.state["restored"]) == outcome["kept"]
    assert second.ok("1").state == {"generation": 2, "was": "kept", "reason": None}
    # And once more, from what was restored.
    _, file = second.checkpoint()
    third = another()
    third.restore(file)
    again = third.ok(CHECK.replace("count() == 2", "count() == 3"))
    assert (again.state["generation"], again.state["was"]) == (3, "restored")


def test_what_cannot_be_kept_is_told_with_its_reason(runtime, another):
    runtime.ok(
        "import asyncio, mmap, os, queue, socket, sqlite3, subprocess, sys, threading, weakref\n"
        "kept = {'a': 1}\n"
        "lock, rlock, event, line = threading.Lock(), threading.RLock(), threading.Event(), queue.Queue()\n"
        "thread = threading.Thread(target=print)\n"
        "ends = socket.socketpair()\n"
        "generator = (i for i in [1])\n"
        "open('file', 'w').write('x')\n"
        "reading, writing, binary = open('file'), open('other', 'w'), open('file', 'rb')\n"
        "database = sqlite3.connect(':memory:')\n"
        "child = subprocess.Popen(['true']); child.wait()\n"
        "frame = sys._getframe()\n"
        "view, keys, values, items = memoryview(b'x'), kept.keys(), kept.values(), kept.items()\n"
        "class C: pass\n"
        "held = C(); weak = weakref.ref(held)\n"
        "loop = asyncio.new_event_loop()\n"
        "memory = mmap.mmap(-1, 10)\n"
        "class Refuses:\n    def __reduce__(self): raise ValueError('my \\x00 reason' * 1000)\n"
        "refuses = Refuses()\n"
        "class Worse(Exception):\n    def __str__(self): raise ValueError\n"
        "class Fails:\n    def __reduce__(self): raise Worse\n"
        "fails = Fails()\n"
        "class Leaves:\n    def __reduce__(self): raise SystemExit(3)\n"
        "leaves = Leaves()\n"
        "deep = []\nfor i in range(100000): deep = [deep]\n"
        "nested = {'lock': lock}\n"
        "def closed():\n    return lock\n"
        "def made():\n    inner = threading.Lock()\n    return lambda: inner\n"
        "over = made()\n"
        "thirty = [kept, lock, kept]\n"
        "same = kept\n"
    )
    said, file = runtime.checkpoint()
    second = another()
    second.restore(file)
    state = second.ok("assert kept is same and kept == {'a': 1}\n1").state
    lost = lost_of(state)
    assert set(lost) == {
        "lock", "rlock", "event", "line", "thread", "ends", "generator", "reading", "writing", "binary", "database", "child", "frame", "view", "keys",
        "values", "items", "weak", "loop", "memory", "refuses", "fails", "leaves", "deep", "nested", "over", "thirty",
    }  # fmt: skip
    assert lost["lock"] == ("lock", "TypeError: cannot pickle '_thread.lock' object")
    assert lost["reading"] == ("TextIOWrapper", "it is an open file") and lost["view"][0] == "memoryview" and lost["generator"][0] == "generator"
    assert lost["refuses"][1].startswith("ValueError: my \\x00 reason") and len(lost["refuses"][1]) <= 500 and lost["fails"][1] == "Worse"
    assert lost["deep"][0] == "list" and "recursion" in lost["deep"][1]
    assert {"kept", "same", "closed", "made", "held", "C"} <= set(state["restored"]) and not set(lost) & set(state["restored"])
    assert said["contexts"][0]["lost"] == len(lost)


@pytest.mark.parametrize("objects", [10, 300, 70_000])
def test_what_failed_leaves_nothing_behind_for_others_to_point_to(runtime, another, objects):
    """Numbers in a pickle have another form from 256 on."""
    runtime.ok(
        f"import threading\nclass Plain:\n    def __init__(self, text): self.text = text\nmany = [[i] for i in range({objects})]\nshared, name = ['shared'], 'a name'\n"
        "class Broken:\n    def __init__(self): self.a = 1\n    def __setstate__(self, state): raise ValueError\n"
        "a = [shared, [shared], threading.Lock()]\nb = [shared, a[1]]\nc = [threading.Lock(), name]\nd = {name: a[1]}\n"
        "e = [[1], Broken(), Plain(1)]\nf = e[0]\ng = [shared, Plain(2)]\nh = [b, g, 'end', ['x']]\ni = h[3]"
    )
    _, file = runtime.checkpoint()
    second = another()
    second.restore(file)
    state = second.ok(
        f"assert shared == ['shared'] and b == [shared, [shared]] and b[0] is shared and b[1][0] is shared and d == {{'a name': [shared]}} and d[name] is b[1]\n"
        f"assert g[0] is shared and g[1].text == 2 and h[0] is b and h[1] is g and h[2] == 'end' and h[3] is i and len(many) == {objects} and many[-1] == [{objects} - 1]"
    ).state
    assert set(lost_of(state)) == {"a", "c", "e", "f"}


def test_modules_of_the_workspace_come_back_by_their_name(program, tmp_path, another):
    (tmp_path / "mine.py").write_text("class Thing:\n    pass\ndef f():\n    return 'f of mine'\n")
    with Runtime(program, folder=tmp_path) as runtime:
        runtime.ok("import mine\nfrom mine import f\nfirst = mine.Thing()\nfirst.part = part = [1]\nfirst.name = 5\nimport types\nattribute = types.SimpleNamespace(name='a text that all share')\nsecond = mine.Thing()\nafter = [2]\nalso = after\nlast = {1: after}")
        _, file = runtime.checkpoint()
    second = another(folder=tmp_path)
    second.restore(file)
    assert second.ok("assert isinstance(first, mine.Thing) and first.part is part\nf()").text == "'f of mine'"
    # Without the file that one is lost, with what it is a part of, and nothing else; what is shared stays shared.
    (tmp_path / "mine.py").unlink()
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    third = another(folder=tmp_path)
    third.restore(file)
    state = third.ok("assert after is also and last[1] is after").state
    lost = lost_of(state)
    assert set(lost) == {"mine", "f", "first", "part", "second"}, state
    assert lost["mine"][1] == lost["f"][1] == lost["first"][1] == "ModuleNotFoundError: No module named 'mine'"
    assert lost["part"][1] == "a part of it came with 'first', which could not be restored"
    assert third.ok("attribute.name").text == "'a text that all share'"


def test_what_is_global_is_there_for_code_that_runs_as_it_is_restored(runtime, another):
    runtime.ok(
        "class Key:\n    def __init__(self, k): self.k = k\n    def __setstate__(self, state): self.__dict__.update(state); log.append(zlib.crc32(b''))\n"
        "    def __hash__(self): return helper(self.k)\n    def __eq__(self, other): return self.k == other.k\n"
        "log = []\nfirst = Key(1)\nimport zlib\ndef helper(k): return hash(k) + zlib.crc32(b'x')\nkeys = {first, Key(2)}\nmapped = {first: 1}"
    )
    _, file = runtime.checkpoint()
    second = another()
    second.restore(file)
    state = second.ok("assert first in keys and Key(2) in keys and mapped[Key(1)] == 1 and len(log) == 2").state
    assert state["lost"] == [] and state["was"] == "restored"


def test_contexts_each_have_their_own(runtime, another):
    runtime.ok("x = 'main'")
    runtime.ok("x = 'second'", context="second")
    runtime.ok("1", context="died")
    runtime.run("import os; os.kill(os.getpid(), 9)", context="died")
    runtime.send({"type": "prepare", "context": "fresh"})
    assert runtime.read()[0]["type"] == "prepared"
    said, file = runtime.checkpoint()
    outcomes = {item["context"]: item for item in said["contexts"]}
    assert set(outcomes) == {"main", "second", "died"}
    assert outcomes["died"] == {"context": "died", "generation": 1, "kept": 0, "lost": 0, "reason": "it was ended by signal 9"}
    second = another()
    said = second.restore(file, piece=7)
    assert {(item["context"], item["kept"], item["reason"]) for item in said["contexts"]} == {("main", 1, None), ("second", 1, None), ("died", 0, "it was ended by signal 9")}
    assert second.ok("x").text == "'main'" and second.ok("x", context="second").text == "'second'"
    assert second.ok("1", context="died").state == {"generation": 2, "was": "lost", "reason": "it was ended by signal 9"}
    assert second.ok("1", context="fresh").state["was"] == "new"


def test_a_session_without_variables(runtime, another):
    runtime.sh("true")
    said, file = runtime.checkpoint()
    assert said["contexts"] == [] and [head["type"] for head, _ in parts_of(file)] == ["over"]
    second = another()
    assert second.restore(file) == {"type": "restored", "contexts": [], "reason": None}
    assert second.ok("1").state["was"] == "new"


def test_into_a_kernel_that_was_prepared(runtime, another):
    runtime.ok("x = 5")
    _, file = runtime.checkpoint()
    second = another()
    second.send({"type": "prepare", "modules": ["json"]})
    assert second.read()[0]["type"] == "prepared"
    second.restore(file)
    result = second.ok("x")
    assert result.text == "5" and (result.state["generation"], result.state["was"]) == (2, "restored")


def test_threads_go_on_and_change_things_meanwhile(runtime, another):
    runtime.ok("import threading\nbox = {}\nstop = False\ndef work():\n    i = 0\n    while not stop:\n        box[i % 10000] = [i]; box.pop((i * 7) % 10000, None); i += 1\nthreads = [threading.Thread(target=work) for _ in range(3)]\n[t.start() for t in threads]; None")
    for _ in range(3):
        said, file = runtime.checkpoint()
        assert said["contexts"][0]["reason"] is None
    assert runtime.ok("stop = True\n[t.join() for t in threads]; None").state["was"] == "kept"
    second = another()
    second.restore(file)
    state = second.ok("len(box)").state
    assert [item["name"].split(" (")[0] for item in state["lost"]] == ["threads", "thread 'Thread-1", "thread 'Thread-2", "thread 'Thread-3"]
    assert "box" in state["restored"]


# --- bounds ---


def test_names_that_do_not_fit_are_left_out(runtime, another):
    runtime.ok("small, large, huge, after = [1], b'x' * 500_000, b'y' * 10_000_000, b'z' * 400_000")
    said, file = runtime.checkpoint(max_bytes=1_000_000)
    assert len(file) < 1_010_000 and said["contexts"][0]["kept"] == 3
    assert sum(len(body) for head, body in parts_of(file) if head["type"] == "data") <= 1_000_000
    second = another()
    second.restore(file)
    state = second.ok("assert len(large) == 500_000 and len(after) == 400_000").state
    assert lost_of(state) == {"huge": ("bytes", "it does not fit into the checkpoint")}
    for most in (0, 1, 15, 16, 17, 100, 200):
        said, file = runtime.checkpoint(max_bytes=most)
        assert said["contexts"][0]["reason"] is None, (most, said)


def test_what_is_large_streams(runtime, another):
    """Neither runtime holds it, and what it is given waits until its kernel has taken it."""
    runtime.ok("data = bytes(range(256)) * (1 << 19)\nsame = data\nmany = list(range(500_000))")
    said, file = runtime.checkpoint(max_bytes=200 << 20)
    assert said["contexts"][0]["lost"] == 0 and len(file) > 128 << 20
    second = another()
    assert second.restore(file)["contexts"][0]["reason"] is None
    assert second.ok("data is same and len(data) == 1 << 27 and data[-1] == 255 and many[-1] == 499_999").text == "True"
    for each in (runtime, second):
        peak = int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{each.process.pid}/status").read())[1])
        if b"Sanitizer" not in subprocess.run(["cat", f"/proc/{each.process.pid}/maps"], capture_output=True).stdout and "asan" not in str(each.process.args[0]):
            assert peak < 64 << 10, peak


def test_many_names_are_counted_and_some_are_listed(runtime, another):
    runtime.ok("import threading\nfor i in range(3000):\n    globals()[f'n{i}'] = i\n    globals()[f'lock{i}'] = threading.Lock()")
    said, file = runtime.checkpoint()
    assert (said["contexts"][0]["kept"], said["contexts"][0]["lost"]) == (3002, 3000)
    second = another()
    second.restore(file)
    state = second.ok("assert n2999 == 2999").state
    assert len(state["restored"]) == 1000 and 0 < len(state["lost"]) <= 1000
    assert re.fullmatch(r"of 3002 names that are restored 1000 are listed, of 3000 that are lost \d+", state["reason"])


def test_names_of_any_length_and_kind(runtime, another):
    runtime.ok("g = globals()\ng['x' * 100_000] = 1\ng[''] = 2\ng['\\ud800'] = 3\ng[5] = 4\nclass S(str): pass\ng[S('sub')] = 5\nfor i in range(900): g['\\x01' * 250 + str(i)] = 6")
    said, file = runtime.checkpoint()
    second = another()
    said = second.restore(file)
    assert said["contexts"][0]["reason"] is None
    state = second.ok("(globals()['x' * 100_000], globals()[''], globals()['\\ud800'])").state
    assert all(len(name.encode()) <= 256 for name in state["restored"]) and len(json.dumps(state)) < 400_000


# --- time, and code that runs meanwhile ---


def test_a_name_that_hangs_costs_itself(runtime, another):
    runtime.ok("class Slow:\n    def __reduce__(self):\n        while True: pass\nbefore = 1\nslow = Slow()\nafter = 2")
    said, file = runtime.checkpoint(max_ms=8000)
    assert said["contexts"] == [{"context": "main", "generation": 1, "kept": 3, "lost": 1, "reason": None}]
    second = another()
    second.restore(file)
    assert lost_of(second.ok("before + after").state) == {"slow": ("Slow", "it was not pickled in time")}
    assert runtime.ok("1").state["was"] == "kept"


STUBBORN = "import signal\nclass Stubborn:\n    def __reduce__(self):\n        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n        while True: pass\nstubborn = Stubborn()"


@pytest.mark.parametrize(
    "code, reason",
    [
        (STUBBORN, "it was not taken in 1000 ms"),
        ("import os\nclass A:\n    def __reduce__(self): os.abort()\na = A()", "the process that took it was ended by signal 6"),
        ("import os\nclass A:\n    def __reduce__(self): os._exit(0)\na = A()", "its checkpoint was cut off"),
        ("import os\nclass A:\n    def __reduce__(self): os._exit(7)\na = A()", "the process that took it has failed"),
        ("import os\nos.fork = None", "TypeError: 'NoneType' object is not callable"),
        ("import pickle\npickle.Pickler = None", "RuntimeError: what takes checkpoints does not load: TypeError"),
    ],
)
def test_what_goes_wrong_costs_the_checkpoint_and_not_the_kernel(runtime, another, code, reason):
    runtime.ok("kept = 1\n" + code)
    said, file = runtime.checkpoint(max_ms=1000 if code == STUBBORN else 60000)
    assert said["reason"] is None and said["contexts"][0]["reason"].startswith(reason) and said["contexts"][0]["kept"] == 0, said
    assert said.get("late", False) == (code == STUBBORN), said
    assert runtime.ok("kept").state["was"] == "kept"
    second = another()
    second.restore(file)
    state = second.ok("1").state
    assert state["was"] == "lost" and state["generation"] == 2 and reason in state["reason"], state


def test_a_kernel_that_hangs_itself_is_killed(runtime):
    runtime.ok("import os\ndef hang():\n    while True: pass\nos.register_at_fork(before=hang)")
    said, _ = runtime.checkpoint(max_ms=300)
    assert said["contexts"][0]["reason"] == "it was killed: it did not take its checkpoint in 300 ms"
    assert "late" not in said  # of a kernel that is gone another attempt keeps nothing
    assert runtime.ok("1").state == {"generation": 2, "was": "lost", "reason": "it was killed: it did not take its checkpoint in 300 ms"}


def test_no_time_is_left_for_the_next_context(runtime):
    runtime.ok(STUBBORN)
    runtime.ok("x = 1", context="second")
    said, _ = runtime.checkpoint(max_ms=1000)
    assert [item["reason"] for item in said["contexts"]] == ["it was not taken in 1000 ms", "there was no time left for its checkpoint"]
    assert said["late"] is True
    assert runtime.ok("x", context="second").state["was"] == "kept"


def test_what_changes_between_looking_and_writing_is_lost_alone(runtime, another):
    runtime.ok("class Fickle:\n    n = 0\n    def __reduce__(self):\n        Fickle.n += 1\n        if Fickle.n > 1: raise ValueError\n        return (list, ())\nbefore = [1]\nfickle = [before, Fickle()]\nafter = [before]")
    _, file = runtime.checkpoint()
    second = another()
    said = second.restore(file)
    assert (said["contexts"][0]["kept"], said["contexts"][0]["lost"]) == (3, 1)
    assert lost_of(second.ok("assert after[0] is before").state)["fickle"][1] == "it changed while the checkpoint was taken"


# --- restoring what is harmful ---


def damaged(file):
    """Files that are none, or no more."""
    yield "nothing of it", b"x" * 100
    yield "foreign", b"\x80\x05]\x94." * 10
    yield "older", file.replace(b"berth checkpoint 1\n", b"berth checkpoint 0\n")
    for cut in (1, 19, 27, 60, len(file) // 2, len(file) - 40):
        yield f"cut at {cut}", file[:cut]
    yield "cut in its last part", file[:-1]
    yield "goes on", file + b"x"
    yield "twice", file + file[19:]
    parts = parts_of(file)
    yield "no data", file_of([part for part in parts if part[0]["type"] != "data"])
    yield "out of order", file_of(parts[::-1])
    yield "lies about its bytes", file_of([({**head, "bytes": 5} if head["type"] == "end" else head, body) for head, body in parts])
    yield "another Python", file_of([({**head, "python": "3.99.1"} if head["type"] == "context" else head, body) for head, body in parts])
    yield "no generation", file_of([({**head, "generation": 0} if head["type"] == "context" else head, body) for head, body in parts])
    yield "not whole", file_of([({**head, "reason": "it is not whole"} if head["type"] == "end" else head, body) for head, body in parts])


def test_files_that_are_none_or_damaged_restore_nothing(runtime, program):
    """A kernel is started for each reason once, to hear it from there."""
    runtime.ok("x = [1, 2, 3]\ny = {'x': x}\ndef f(): return x")
    _, file = runtime.checkpoint()
    heard = set()
    for name, bad in damaged(file):
        with Runtime(program) as second:
            said = second.restore(bad, contexts=[{"context": "main", "generation": 4}])
            (outcome,) = said["contexts"]
            whole = name in ("cut in its last part", "goes on", "twice")
            assert (outcome["reason"] is None) == whole, (name, said)
            if whole:
                assert said["reason"] and second.run("x").text == "[1, 2, 3]"
            elif outcome["reason"] not in heard:
                heard.add(outcome["reason"])
                result = second.run("x")
                assert result.error["name"] == "NameError" and result.state["was"] == "lost" and result.state["generation"] >= 5, (name, result)
                assert result.state["reason"] == outcome["reason"] and second.close() == 0, name
    assert len(heard) > 3


def test_flipped_bits_restore_nothing(runtime, another):
    """Wherever they are in the data. Elsewhere they may change a name that is told, or a count: the caller's digest finds those."""
    runtime.ok("x = [1, 2, 3]\ndef f(): return x\nclass C: pass\nc = C()")
    _, file = runtime.checkpoint()
    (context, _), (data, body), (last, _), (over, _) = parts_of(file)
    for round in range(6):
        parts = []
        for i in range(8):
            flipped = bytearray(body)
            flipped[(8 * round + i) * 7919 % len(body)] ^= 1 << i
            parts += [({**context, "context": f"c{i}"}, b""), (data, bytes(flipped)), (last, b"")]
        second = another()
        said = second.restore(file_of(parts + [(over, b"")]))
        assert len(said["contexts"]) == 8 and all(item["reason"] and item["kept"] == 0 for item in said["contexts"]), said
        result = second.run("x", context=f"c{round}")
        assert result.error["name"] == "NameError" and result.state["was"] == "lost" and result.state["reason"]


@pytest.mark.parametrize(
    "code, reason",
    [
        ("os._exit(3)", "its checkpoint could not be restored: it ended with code 3"),
        ("os.kill(os.getpid(), 11)", "its checkpoint could not be restored: it was ended by signal 11"),
        ("time.sleep(1000)", "its checkpoint could not be restored: it was not restored in 2000 ms"),
        ("[os.write(3, b'x' * 8) for _ in range(2)]", "its checkpoint could not be restored: it did not keep to its protocol"),
    ],
)
def test_code_that_runs_as_it_is_restored(runtime, another, code, reason):
    runtime.ok(f"import os, time\nx = 1\nclass A:\n    def __init__(self): self.a = 1\n    def __setstate__(self, state):\n        {code}\na = A()")
    runtime.ok("y = 2", context="other")
    _, file = runtime.checkpoint()
    second = another()
    said = second.restore(file, max_ms=2000 if "sleep" in code else 60000)
    outcomes = {item["context"]: item for item in said["contexts"]}
    assert outcomes["main"]["reason"].startswith(reason) and said["reason"] is None, said
    if "sleep" not in code:
        assert outcomes["other"]["reason"] is None and second.ok("y", context="other").state["was"] == "restored"
    state = second.ok("1").state
    assert state["was"] == "lost" and state["reason"].startswith(reason) and state["generation"] == 3


def test_errors_as_it_is_restored_cost_their_name(runtime, another):
    runtime.ok(
        "class A:\n    def __init__(self): self.a = 1\n    def __setstate__(self, state): raise ValueError('no')\n"
        "class B:\n    def __init__(self): self.a = 1\n    def __setstate__(self, state): raise SystemExit\n"
        "first = [1]\nhalf = [first, A()]\nhalves = {'half': half}\nnames = ['x'] * 3\nb = B()\nlast = (first, names)\nlong = list(range(1000))\ntext = 'ü' * 300"
    )
    _, file = runtime.checkpoint()
    second = another()
    second.restore(file)
    state = second.ok("assert last[0] is first and last[1] is names and long[999] == 999 and text == 'ü' * 300\nassert 'half' not in globals() and isinstance(A(), A)").state
    assert {name: why for name, (_, why) in lost_of(state).items()} == {
        "half": "ValueError: no", "halves": "a part of it came with 'half', which could not be restored", "b": "SystemExit: ",
    }  # fmt: skip


# --- when it may be asked ---


def test_not_while_something_runs_and_nothing_meanwhile(runtime):
    running = runtime.start("import time\nprint('runs')\ntime.sleep(1000)")
    runtime.finish(running, until=lambda result: result.stdout)
    runtime.send({"type": "checkpoint", "maxBytes": 1000, "maxMs": 1000})
    assert runtime.read()[0] == {"type": "checkpointed", "bytes": 0, "contexts": [], "reason": "an execution runs"}
    runtime.send({"type": "restore", "bytes": 3, "maxMs": 1000})
    runtime.send({"type": "piece"}, b"abc")
    assert runtime.read()[0] == {"type": "restored", "contexts": [], "reason": "an execution runs"}
    runtime.send({"type": "interrupt", "n": running.n})
    assert runtime.finish(running).status == "interrupted"
    runtime.ok("import os\ngate = os.pipe()\nclass Waits:\n    def __reduce__(self):\n        os.read(gate[0], 1)\n        return (int, ())\nwaits = Waits()")
    runtime.send({"type": "checkpoint", "maxBytes": 1000, "maxMs": 60000})
    assert runtime.read()[0]["type"] == "piece"
    assert runtime.run("1").done["reason"] == "a checkpoint is being taken"
    for request in ({"type": "prepare"}, {"type": "restart", "context": "main"}):
        runtime.send(request)
        assert runtime.read()[0] == {"type": "refused", "n": 0, "reason": "a checkpoint is being taken"}
    runtime.send({"type": "checkpoint", "maxBytes": 1000, "maxMs": 1000})
    assert runtime.read()[0]["reason"] == "a checkpoint is being taken already"
    runtime.send({"type": "restore", "bytes": 0, "maxMs": 1000})
    assert runtime.read()[0] == {"type": "restored", "contexts": [], "reason": "a checkpoint is being taken"}


def test_once_and_before_anything_has_run(runtime, another):
    runtime.ok("x = 1")
    _, file = runtime.checkpoint()
    assert runtime.restore(file) == {"type": "restored", "contexts": [], "reason": "something has run here already"}
    assert runtime.ok("x").state["was"] == "kept"
    second = another()
    second.restore(file)
    assert second.restore(file)["reason"] == "something has run here already"
    assert second.ok("x").state["was"] == "restored"


def test_pieces_that_nobody_asked_for_and_requests_that_are_none(runtime):
    for head, body in (
        ({"type": "piece"}, b"x"), ({"type": "piece"}, b""), ({"type": "piece", "x": 1}, b"x"), ({"type": "checkpoint"}, b""),
        ({"type": "checkpoint", "maxBytes": -1, "maxMs": 1}, b""), ({"type": "checkpoint", "maxBytes": 1, "maxMs": 0}, b""),
        ({"type": "checkpoint", "maxBytes": 1 << 40, "maxMs": 1}, b""), ({"type": "checkpoint", "maxBytes": 1, "maxMs": 1}, b"x"),
        ({"type": "restore", "bytes": 1, "maxMs": 1, "reason": "x"}, b""), ({"type": "restore", "bytes": 0, "maxMs": 1, "contexts": [{"context": "a"}]}, b""),
        ({"type": "restore", "bytes": 0, "maxMs": 1, "contexts": [{"context": "a", "generation": 0}]}, b""),
        ({"type": "restore", "bytes": 0, "maxMs": 1, "contexts": [{"context": "a/b", "generation": 1}]}, b""),
        ({"type": "restore", "bytes": 0, "maxMs": 1, "contexts": [{"context": "a", "generation": 1}] * 2}, b""),
    ):  # fmt: skip
        runtime.send(head, body)
        assert runtime.read()[0]["type"] == "refused", head
    runtime.send({"type": "restore", "bytes": 3, "maxMs": 60000})
    runtime.send({"type": "piece"}, b"four")
    assert runtime.read()[0]["reason"] == "a piece of more bytes than were announced"
    assert runtime.run("1").done["reason"] == "a checkpoint is being restored"
    runtime.send({"type": "piece"}, b"abc")
    assert runtime.read()[0]["reason"] == "this is no checkpoint, or one of another version of Berth"
    assert runtime.ok("1").state["was"] == "new"


def test_a_file_that_is_gone_is_said(runtime):
    said = runtime.restore(b"", contexts=[{"context": "main", "generation": 7}, {"context": "b", "generation": 1}], reason="its file is damaged")
    assert said["reason"] == "its file is damaged" and [item["reason"] for item in said["contexts"]] == ["its file is damaged"] * 2
    assert runtime.ok("1").state == {"generation": 8, "was": "lost", "reason": "its file is damaged"}
    assert runtime.ok("1", context="b").state == {"generation": 2, "was": "lost", "reason": "its file is damaged"}
    assert runtime.ok("1", context="c").state["was"] == "new"


def test_a_context_that_should_be_there_and_is_not(runtime, another):
    runtime.ok("x = 1")
    _, file = runtime.checkpoint()
    second = another()
    second.restore(file, contexts=[{"context": "main", "generation": 1}, {"context": "gone", "generation": 2}])
    assert second.ok("x").state["was"] == "restored"
    assert second.ok("1", context="gone").state == {"generation": 3, "was": "lost", "reason": "it was not in the checkpoint"}


def test_restored_and_dead_before_it_ran(runtime, another, tmp_path):
    runtime.ok(f"import os\nclass A:\n    def __init__(self): self.a = 1\n    def __setstate__(self, state): open('{tmp_path}/pid', 'w').write(str(os.getpid()))\na = A()")
    _, file = runtime.checkpoint()
    second = another()
    assert second.restore(file)["contexts"][0]["reason"] is None
    pid = int((tmp_path / "pid").read_text())
    end(pid)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the kernel's end")
    assert second.ok("1").state == {"generation": 3, "was": "lost", "reason": "it was ended by signal 9"}


# --- hostile kernels ---


@pytest.mark.parametrize("words", ['{"type":"taken","reason":null}', '{"type":"restored","restored":[],"restoredCount":0,"lost":[],"lostCount":0,"reason":null}'])
def test_words_out_of_turn(runtime, words):
    done = runtime.run(f"import os, struct\ndata = {words.encode()!r}\nos.write(3, struct.pack('>II', len(data), 0) + data)\nimport time; time.sleep(1000)")
    assert done.status == "killed" and done.ended == "it did not keep to its protocol: it spoke out of turn"


def test_a_kernel_that_begins_what_it_has_not_read(runtime):
    """What it is sent would be kept for it, more with each execution."""
    lies = "import os, select, struct, threading\ndef say(text): os.write(3, struct.pack('>II', len(text), 0) + text)\nsay(b'{\"type\":\"done\",\"n\":1,\"outcome\":\"ok\",\"code\":0,\"value\":null,\"error\":null}')\nselect.select([3], [], [])\nsay(b'{\"type\":\"begun\",\"n\":2}')\nthreading.Event().wait()"
    assert runtime.run(lies).status == "ok"
    done = runtime.run("1", stdin=b"x" * (10 << 20))
    assert done.status in ("failed", "killed") and done.ended.startswith("it did not keep to its protocol"), done


# Code of the child, which has the pipe: what it writes there, before or instead of what is true.
WRITES = """
import os, stat, struct, json
def write(head, body=b''):
    data = json.dumps(head).encode()
    os.write(pipe, struct.pack('>II', len(data), len(body)) + data + body)
class A:
    def __reduce__(self):
        global pipe
        pipes = [int(fd) for fd in os.listdir('/proc/self/fd') if int(fd) > 3 and os.path.exists('/proc/self/fd/' + fd) and os.readlink('/proc/self/fd/' + fd).startswith('pipe:')]
        for pipe in sorted(pipes)[:1]:
            %s
        os._exit(0)
CONTEXT = {'type': 'context', 'context': 'main', 'generation': 1, 'python': '3.11.2', 'flags': 0, 'kept': 1, 'lost': [], 'lostCount': 0, 'reason': None}
a = A()
"""


@pytest.mark.parametrize(
    "code, reason",
    [
        ("os.write(pipe, b'x' * 100)", "a message of"),
        ("write({'type': 'over'})", "parts of its checkpoint came in no order"),
        ("write({'type': 'data'}, b'x')", "parts of its checkpoint came in no order"),
        ("write({**CONTEXT, 'context': 'other'})", "it took a checkpoint of another"),
        ("write({**CONTEXT, 'generation': 9})", "it took a checkpoint of another"),
        ("write({**CONTEXT, 'lost': [{'name': 'x', 'type': 'y', 'why': 'z'}] * 1001, 'lostCount': 1001})", "a checkpoint's context that is out of its bounds"),
        ("write(CONTEXT); write(CONTEXT)", "parts of its checkpoint came in no order"),
        ("write(CONTEXT); write({'type': 'data'}, b'x' * 70000)", "its checkpoint has more bytes than it may"),
        ("write(CONTEXT); write({'type': 'data'}, b'x' * 10); write({'type': 'end', 'bytes': 11, 'crc32': 0, 'reason': None})", "its checkpoint has other bytes than it says"),
        ("write(CONTEXT); write({'type': 'end', 'bytes': 0, 'crc32': 0, 'reason': 'x'})", "parts of its checkpoint came in no order"),
    ],
)
def test_a_child_that_lies(runtime, another, code, reason):
    runtime.ok("x = 1", context="other")
    runtime.ok(WRITES % code)
    said, file = runtime.checkpoint(max_bytes=65536)
    outcomes = {item["context"]: item for item in said["contexts"]}
    assert outcomes["main"]["reason"].startswith(reason) and outcomes["other"]["reason"] is None, said
    assert runtime.ok("1").state["was"] == "lost" and runtime.ok("x", context="other").state["was"] == "kept"
    second = another()
    second.restore(file)
    assert second.ok("1").state["was"] == "lost" and second.ok("x", context="other").state["was"] == "restored"


def test_a_child_that_says_more_names_than_there_are(runtime, another):
    """Its own trouble: the next one tells what it found."""
    runtime.ok(WRITES % "write({**CONTEXT, 'kept': 10**6}); write({'type': 'data'}, b'x' * 10); write({'type': 'end', 'bytes': 10, 'crc32': 0, 'reason': None})")
    said, file = runtime.checkpoint()
    assert said["contexts"][0]["kept"] == 10**6
    second = another()
    assert second.restore(file)["contexts"][0]["kept"] == 0
    assert second.ok("1").state["was"] == "lost"


def test_the_users_own_pickle_is_not_asked(program, tmp_path, another):
    for name in ("pickle", "cloudpickle", "dataclasses", "uuid", "zlib", "select", "functools", "copyreg"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('mine')\n")
    with Runtime(program, folder=tmp_path) as runtime:
        runtime.ok("x = [1]\ndef f(): return x")
        said, file = runtime.checkpoint()
        assert said["contexts"][0]["reason"] is None, said
    second = another(folder=tmp_path)
    second.restore(file)
    assert second.ok("f() is x").text == "True"


@pytest.mark.parametrize("code", ["import sys; sys.modules.clear()", "import builtins; builtins.__dict__.clear()", "globals().clear()", "import sys; sys.path.clear(); sys.meta_path.clear()",
                                  "import signal; signal.signal(signal.SIGCHLD, lambda *a: 1 / 0)", "import os; os.environ.clear()", "import gc; gc.callbacks.append(lambda *a: 1 / 0)",
                                  "import os, signal; signal.signal(signal.SIGCHLD, lambda *a: os.waitpid(-1, 0))", "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))"])  # fmt: skip
def test_broken_by_the_user_and_answered_all_the_same(runtime, code):
    runtime.ok("x = 1")
    runtime.run(code)
    said, _ = runtime.checkpoint()
    assert said["reason"] is None and len(said["contexts"]) == 1
    runtime.checkpoint()
    assert runtime.ok("2").text == "2"


def test_nothing_is_left_of_the_child(runtime):
    runtime.ok("import os\nx = 1\npid = os.getpid()")
    runtime.checkpoint()
    runtime.send({"type": "status"})
    assert runtime.read()[0]["left"] == 0
    assert runtime.ok("os.listdir('/proc/self/fd')").text == runtime.ok("os.listdir('/proc/self/fd')").text
    before = runtime.ok("len(os.listdir('/proc/self/fd'))").text
    for _ in range(3):
        runtime.checkpoint()
    assert runtime.ok("len(os.listdir('/proc/self/fd'))").text == before
