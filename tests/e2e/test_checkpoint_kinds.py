# SPDX-License-Identifier: Apache-2.0
"""
Values of all kinds through a checkpoint. Each row of a table is a setup and a probe. Two kernels run the probe: the one that the
checkpoint was taken from, and the one that it was restored in. Both must answer the same, or the row's names are lost and named.
"""

import json
import os
import shutil
import sys
from pathlib import Path

from runtime_client import Runtime

# The Python of the tests: it has NumPy and the other libraries of requirements.txt.
SCIENCE = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def names_of(runtime):
    return set(json.loads(eval(runtime.ok("__import__('json').dumps([name for name in globals() if not name.startswith('__')])").text)))


def walk(program, imports, rows):
    """
    {setup: what is wrong with it}. A row of three has the names that must be lost. The second kernel is restored from the first one, and
    the third from the second; each has a copy of the files.
    """
    with Runtime(program, env=SCIENCE) as first, Runtime(program, env=SCIENCE) as second, Runtime(program, env=SCIENCE) as third:
        first.ok(imports)
        known, owned = names_of(first), {}
        for setup, *_ in rows:
            result = first.run(setup)
            assert result.status == "ok", (setup, result)
            owned[setup] = names_of(first) - known
            known |= owned[setup]
        for taken, given in ((first, second), (second, third)):
            said, file = taken.checkpoint()
            assert said["contexts"][0]["reason"] is None, said
            shutil.copytree(taken.folder, given.folder, dirs_exist_ok=True)
            assert given.restore(file)["contexts"][0]["reason"] is None
            if given is second:
                lost = {item["name"]: item["why"] for item in given.ok("1").state["lost"]}
        assert third.ok("1").state["lost"] == []
        wrong = {}
        for setup, probe, *expected in rows:
            gone = {name: lost[name] for name in (owned[setup] | set(expected[0] if expected else ())) & set(lost)}
            if set(gone) != set(expected[0] if expected else ()):
                wrong[setup] = f"lost: {gone}"
            elif not gone:
                results = [runtime.run(probe) for runtime in (first, second, third)]
                answers = [(result.text, result.error and result.error["value"]) for result in results]
                if results[0].status != "ok" or answers[1:] != answers[:1] * 2:
                    wrong[setup] = answers
        wrong.update({name: why for name, why in lost.items() if not any(name in (expected[0] if expected else ()) for _, _, *expected in rows)})
        return wrong


LARGE = [
    ("plain = np.arange(10_000.0)", "plain.sum(), plain.flags.writeable, plain.shape"),
    ("columns = np.asfortranarray(np.arange(40_000).reshape(200, 200))", "columns[3, 5], columns.flags.f_contiguous, columns.flags.c_contiguous"),
    ("sealed = np.arange(20_000); sealed.flags.writeable = False", "sealed.sum(), sealed.flags.writeable"),
    ("huge = np.ones(3 << 20, dtype='u1')", "huge.sum(), huge.nbytes"),
    ("strings = np.array(['some text'] * 10_000)", "strings[9_999], strings.dtype"),
    ("record = np.zeros(9_000, dtype=[('a', 'f8'), ('b', 'i4')])", "record.dtype, record['b'].sum()"),
    ("masked = np.ma.masked_less(np.arange(20_000), 5)", "masked.sum(), masked.mask.sum()"),
    ("matrix = np.matrix(np.eye(200))", "type(matrix), matrix.trace()"),
    ("holder = {'a': [np.ones(10_000)], 'b': plain}", "holder['a'][0].sum(), holder['b'] is plain"),
    ("frame = pd.DataFrame({'x': range(10**5), 'y': 1.5, 'z': 'text'})", "frame.x.sum(), frame.y.sum(), frame.z[99_999], frame.dtypes.to_dict()"),
    ("category = pd.Series(['a', 'b'] * 50_000, dtype='category')", "category.value_counts().to_dict(), category.dtype"),
    ("index = pd.MultiIndex.from_product([range(300), range(300)])", "index[-1], len(index)"),
    ("times = pd.date_range('2024', periods=20_000, freq='h', tz='Europe/Berlin')", "times[-1], times.freq"),
    ("many = [np.full(9_000, i) for i in range(50)]", "[int(one.sum()) for one in many]"),
]


def test_large_arrays_and_what_holds_them(program):
    """64 KiB and more of contiguous memory goes to a pickler's file by another way than all else."""
    assert walk(program, "import numpy as np, pandas as pd", LARGE) == {}


SHARED = [
    ("whole = np.zeros(1000); part = whole[10:20]", "exec('part[:] = 5') or (whole.sum(), np.shares_memory(whole, part))"),
    ("mirror = whole[::-3]; column = whole.reshape(10, 100)[:, 7]", "exec('mirror[:] += 1; column[:] += 2') or (whole.sum(), mirror.strides, column.strides)"),
    ("grid = np.asfortranarray(np.arange(12.0).reshape(3, 4)); row = grid[1]; turned = grid.T", "exec('row[:] = 9; turned[0] = 7') or grid.tolist()"),
    ("three = np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1); inside = three[1:, :, ::-1]", "exec('inside[:] = -1') or three.tolist()"),
    ("order = np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2).copy(order='K'); within = order[1:, :, ::-1]; none = order[:0]",
     "exec('within[0] = -1') or (order.tolist(), order.strides, order.ravel('K').tolist(), within.strides)"),
    ("overlap = np.arange(10); windows = np.lib.stride_tricks.sliding_window_view(overlap, 3, writeable=True)", "exec('windows[0] = 8') or (overlap.tolist(), windows.tolist())"),
    ("spread = np.broadcast_to(overlap, (3, 10))", "exec('overlap[0] = 99') or (spread.tolist(), spread.flags.writeable)"),
    ("bits = np.zeros(4); as_bytes = bits.view('u1'); first = bits[:1]", "exec('as_bytes[:] = 255; first[:] = 2') or bits.tolist()"),
    ("table = np.zeros(5, dtype=[('a', 'f8'), ('b', 'i4')]); field = table['b']", "exec('field[:] = 3') or table.tolist()"),
    ("boxes = np.array([[1], 'two', None, {}], dtype=object); some = boxes[::-2]", "exec('some[0] = 5') or (boxes.tolist(), some.tolist())"),
    ("memory = bytearray(80); over = np.frombuffer(memory, 'f8'); tail = over[5:]", "exec('tail[:] = 1') or (bytes(memory), over.sum())"),
    ("ints = array.array('i', range(10)); seen = np.asarray(ints)", "exec('seen[0] = 7') or ints.tolist()"),
    ("quiet = whole[:5]; quiet.flags.writeable = False", "exec('whole[:] = 3') or (quiet.tolist(), quiet.flags.writeable)"),
    ("square = np.matrix(np.eye(3)); side = square[0]", "exec('side[:] = 4') or (square.tolist(), type(side).__name__)"),
    ("large = np.zeros((300, 300)); corner = large[100:200, ::2]; nested = {'corner': corner, 'again': [corner[1:]]}", "exec('nested[\"again\"][0][:] = 1') or (large.sum(), corner.sum(), nested['corner'] is corner)"),
    ("alone = np.ones(1 << 24)[:10]", "alone.tolist()"),  # of its base nothing else is left: 128 MB are not kept for it
    ("np.arange(20.0).tofile('numbers'); mapped = np.memmap('numbers', 'f8', 'r+', 16, (9, 2)); middle = mapped[2:4]; plain_map = np.asarray(mapped)",
     "exec('middle[:] = 50; plain_map[0] = 60; mapped.flush()') or (np.fromfile('numbers').tolist(), type(middle).__name__, middle.filename == mapped.filename)"),
    ("read_only = np.memmap('numbers', 'f8', 'r')", "read_only.mode, read_only.flags.writeable, read_only.shape"),
    ("private = np.memmap('numbers', 'f8', 'c'); private[:] = 3", "", {"private"}),
    ("element = table[0]", "", {"element"}),
    ("hidden = np.ma.array(whole, copy=False)", "", {"hidden"}),
    ("c_memory = (ctypes.c_double * 4)(); c_view = np.ctypeslib.as_array(c_memory)", "", {"c_memory", "c_view"}),
    ("view = memoryview(memory)", "", {"view"}),
    # pandas copies when it is written to: nothing is shared, before and after.
    ("frame = pd.DataFrame({'x': [1, 2, 3], 'y': [4, 5, 6]}); series = frame['x']; shallow = frame.copy(deep=False); sliced = frame[1:]; index = pd.Index(series)",
     "exec('frame.iloc[:, 0] = 100; sliced.iloc[0, 1] = 7') or (series.tolist(), shallow.values.tolist(), sliced.values.tolist(), frame.values.tolist(), index.tolist())"),
    ("other = pd.Series([1.0, 2.0]); seen_by_numpy = other.to_numpy()", "exec('other.iloc[0] = 9') or seen_by_numpy.flags.writeable"),
]  # fmt: skip


def test_what_shares_memory_shares_it_again(program):
    assert walk(program, "import array, ctypes, numpy as np, pandas as pd", SHARED) == {}


def test_what_shares_memory_shares_it_again_where_numpy_is_alone(program):
    """pandas imports modules that NumPy imports when it needs them, as mmap."""
    rows = [
        ("import sys; alone = 'mmap' not in sys.modules, 'pandas' not in sys.modules", "alone"),
        *(row for row in SHARED[:8] + SHARED[12:15]),
    ]
    wrong = walk(program, "import numpy as np", rows)
    assert wrong == {}


SINGLETONS = [
    ("from sympy import *", "RR is sympy.RR, cacheit is sympy.cacheit, test is sympy.test, S is sympy.S, str(integrate(sin(Symbol('x')), Symbol('x')))"),
    ("from sympy.abc import x as first, y; expression = first**2 + y; field = sympy.CC", "expression.subs(first, 3), first is sympy.abc.x, field is sympy.CC, [field] == [CC]"),
    ("from mpmath import mp; mp.dps = 40; third = mpmath.mpf(1) / 3", "third, +mp.pi, mp is mpmath.mp, mpmath.sqrt(2)"),
    ("from mpmath.rational import mpq; ratio = mpq(1, 3)", "ratio, ratio + 1, [ratio][0] == mpq(2, 6)"),
    ("class Made:\n    def __new__(cls, a, *, b):\n        made = object.__new__(cls); made.a = a + b; return made\nclass Slots(Made):\n    __slots__ = ('c',)\nmade, slots = Made(1, b=2), Slots(3, b=4); slots.c = 5",
     "made.a, slots.a, slots.c, type(slots) is Slots"),
    ("from package.held import held, other; held.n = 5; loose = held", "held.n, loose is held, other"),
    ("import lazy_library; from lazy_library import late; late = lazy_library.late = lazy_library.Late()", "", {"late"}),
]  # fmt: skip


def test_objects_of_libraries_come_back_as_the_librarys(program, tmp_path, monkeypatch):
    """By name, as modules do. Those of the workspace's own modules are the session's: they come back with what was set in them."""
    monkeypatch.setitem(SCIENCE, "PYTHONPATH", str(tmp_path))
    (tmp_path / "lazy_library.py").write_text("class Late: pass\nlate = None\n")
    files = "import os; os.mkdir('package'); open('package/held.py', 'w').write('class Held: n = 1\\nheld, other = Held(), [3]\\n')\n"
    assert walk(program, files + "import mpmath, sympy, sympy.abc", SINGLETONS) == {}


PROCESS = [
    ("import os, random, sys, time, logging, warnings, decimal, locale, socket, signal, json, builtins\nos.makedirs('folder/lib'); open('folder/lib/own_module.py', 'w').write('x = 5')\n"
     "os.chdir('folder'); sys.path.append('lib')", "import own_module\nos.path.basename(os.getcwd()), own_module.x, sys.path[-1]"),
    ("os.environ['ADDED'] = 'a'; os.environ['LANG'] = 'C'; os.environ.pop('HOME'); os.environ['TZ'] = 'Asia/Tokyo'; time.tzset()",
     "os.environ.get('ADDED'), os.environ['LANG'], os.environ.get('HOME'), time.tzname, time.timezone, time.localtime(0).tm_hour"),
    ("mask = os.umask(0o27)", "os.umask(0o27)"),
    ("sys.setrecursionlimit(2345)", "sys.getrecursionlimit()"),
    ("random.seed(5); before = random.random()", "before, random.random(), random.gauss(0, 1)"),
    ("np.random.seed(5); np_before = np.random.rand()", "np_before, np.random.rand(), np.random.randn()"),
    ("generator = np.random.default_rng(5); other = random.Random(3); used = generator.random()", "used, generator.random(), other.random()"),
    ("np.set_printoptions(precision=3, suppress=True); errors = np.seterr(all='raise')", "str(np.array([1.23456789])), np.geterr()"),
    ("pd.set_option('display.max_rows', 7); pd.options.display.precision = 2", "pd.get_option('display.max_rows'), pd.options.display.precision, pd.options.display.width"),
    ("plt.style.use('ggplot'); mpl.rcParams['figure.dpi'] = 77", "mpl.rcParams['figure.dpi'], mpl.rcParams['axes.prop_cycle'], mpl.rcParams['axes.facecolor'], mpl.rcParams['backend']"),
    ("mdates.set_epoch('2000-01-01')", "mdates.get_epoch(), mdates.num2date(1).year"),
    ("class Careful(UserWarning): pass\nwarnings.filterwarnings('error', 'bad.*', Careful); warnings.simplefilter('ignore', np.exceptions.ComplexWarning)",
     "[(f[0], f[1] and f[1].pattern, f[2].__name__) for f in warnings.filters]"),
    ("decimal.getcontext().prec = 5; decimal.getcontext().rounding = decimal.ROUND_UP", "decimal.Decimal(1) / 3, decimal.getcontext().rounding"),
    ("log = logging.getLogger('mine.own'); log.setLevel('DEBUG'); log.propagate = False\nclass Only(logging.Filter):\n    def filter(self, record): return 'seen' in record.getMessage()\n"
     "to_error, to_file = logging.StreamHandler(), logging.FileHandler('out.log'); to_error.setFormatter(logging.Formatter('%(name)s: %(message)s')); to_error.addFilter(Only())\n"
     "log.addHandler(to_error); log.addHandler(to_file); del to_error, to_file; logging.basicConfig(level=logging.ERROR); logging.disable(5)",
     "log.debug('not seen by filter: unheard'); log.level, log.propagate, logging.root.level, logging.root.manager.disable, [(type(h).__name__, h.formatter and h.formatter._fmt, len(h.filters)) for h in log.handlers + logging.root.handlers]"),
    ("import logging.handlers; logging.getLogger('other').addHandler(logging.handlers.MemoryHandler(5))", "", {"logging.getLogger('other').handlers: MemoryHandler"}),
    ("logging.captureWarnings(True)", "logging._warnings_showwarning is not None"),
    ("def on_signal(number, frame): hits.append(number)\nhits = []; signal.signal(signal.SIGUSR1, on_signal)", "os.kill(os.getpid(), signal.SIGUSR1); time.sleep(0); hits"),
    ("builtins.helper = lambda: 41; builtins.credits = lambda *a: 'mine'", "helper(), credits()"),
    # As libraries in C keep what they share there: nothing of the session's is lost.
    ("import datetime; builtins.shared_by_libraries = datetime.datetime_CAPI", "1"),
    ("import threading; threading.Thread(target=threading.Event().wait, daemon=True, name='waits').start()", "", {"thread 'waits'"}),
    ("def documented():\n    # its source\n    return 1 / 0\nclass Holder:\n    def method(self):\n        return 2",
     "import inspect, traceback\ntry: documented()\nexcept ZeroDivisionError: text = traceback.format_exc()\ninspect.getsource(documented), inspect.getsource(Holder.method), 'return 1 / 0' in text"),
]  # fmt: skip


def test_what_the_process_has_beside_its_variables(program):
    assert walk(program, "import numpy as np, pandas as pd, matplotlib as mpl, matplotlib.pyplot as plt, matplotlib.dates as mdates", PROCESS) == {}


HOOKS = [
    ("class Base:\n    subs = []\n    def __init_subclass__(cls, key, **more):\n        super().__init_subclass__(**more); cls.key = key; Base.subs.append(cls); events.append(cls.__name__)\n"
     "events = []\nclass Sub(Base, key='k'): pass\nclass Deeper(Sub, key='d'): pass", "[cls.__name__ for cls in Base.subs], events, Sub.key, Deeper.key, Base.subs[0] is Sub, Deeper.__mro__[1] is Sub"),
    ("made = []\nclass Meta(type):\n    def __new__(mcs, name, bases, space, *, tag):\n        made.append(('new', name)); return super().__new__(mcs, name, bases, space)\n"
     "    def __init__(cls, name, bases, space, tag):\n        super().__init__(name, bases, space); cls.tag = tag; made.append(('init', name))\n"
     "    def __setattr__(cls, name, value):\n        made.append(('set', name)); super().__setattr__(name, value)\nclass Tagged(metaclass=Meta, tag=3):\n    x = 1",
     "made, Tagged.tag, Tagged.x, type(Tagged) is Meta, exec('class Next(Tagged, tag=4): pass'), made"),
    ("registry = {}\ndef register(cls):\n    registry[cls.__name__] = cls; cls.decorated = getattr(cls, 'decorated', 0) + 1; return cls\n@register\nclass Plugin: pass",
     "list(registry), registry['Plugin'] is Plugin, Plugin.decorated"),
    ("named = []\nclass Field:\n    def __set_name__(self, owner, name): self.name = name; named.append(name)\n    def __get__(self, instance, owner): return self.name\nclass Model:\n    a, b = Field(), Field()",
     "named, Model.a, Model().b, exec('class Again:\\n c = Field()'), named"),
    ("class Both(abc.ABC):\n    seen = []\n    def __init_subclass__(cls): Both.seen.append(cls)\n    @abc.abstractmethod\n    def f(self): ...\nclass Real(Both):\n    def f(self): return 1\nBoth.register(int); real = Real()",
     "[cls.__name__ for cls in Both.seen], real.f(), isinstance(3, Both), isinstance(real, Both), Both.__abstractmethods__"),
    ("T = typing.TypeVar('T')\nclass Box(typing.Generic[T]):\n    kinds = []\n    def __init_subclass__(cls, **more): super().__init_subclass__(**more); Box.kinds.append(cls)\nclass Ints(Box[int]): pass",
     "len(Box.kinds), Ints.__orig_bases__, Box.__parameters__, Box[str]"),
    ("class Slots:\n    __slots__ = ('a', '__private')\n    def __init__(self): self.a = 1; self.__private = 2\n@dataclasses.dataclass(slots=True, frozen=True)\nclass Frozen:\n    x: int\n    y: str = 'y'\nslots, frozen = Slots(), Frozen(3)",
     "slots.a, slots._Slots__private, hasattr(slots, '__dict__'), frozen, hasattr(frozen, '__dict__'), Frozen(3) == frozen, {frozen: 1}[Frozen(3)]"),
    ("class Color(enum.Enum):\n    RED = 1\n    GREEN = 2\n    @property\n    def low(self): return self.name.lower()\nclass Nt(typing.NamedTuple):\n    x: int\n    y: str = 'b'\n    def f(self): return self.x\ncolor, nt = Color.RED, Nt(3)",
     "color is Color.RED, color.low, list(Color), nt, nt.f(), nt._replace(x=1)"),
    ("class Doc(dict):\n    'text'\n    count: int = 0\n    def __class_getitem__(cls, item): return item\ndoc = Doc(a=1); doc.more = 2", "doc, doc.more, Doc.__doc__, Doc.__annotations__, Doc[5]"),
    ("outer = []\ndef factory(n):\n    class Local(Base, key=n):\n        def get(self): return n\n    return Local\nLocal = factory(7); local = Local()", "local.get(), Local.key, events.count('Local'), Base.subs[-1] is Local"),
]  # fmt: skip


def test_classes_come_back_without_their_hooks_having_run_again(program):
    assert walk(program, "import abc, dataclasses, enum, typing", HOOKS) == {}


def rows_of(kept, lost=()):
    """Rows of expressions: such a value answers its repr, or is lost. A pair has another probe, of `it`."""
    rows = []
    for number, row in enumerate([*kept, *lost]):
        expression, probe = (row, "it") if isinstance(row, str) else row
        name = f"value{number}"
        rows.append((f"{name} = {expression}", f"it = {name}\n{probe}", *([{name}] if number >= len(kept) else [])))
    return rows


STANDARD = rows_of([
    "None, True, -1, 2**200, 1.5, float('nan'), float('inf'), -0.0, 1j, ..., NotImplemented", "'text', '\\ud800', 'é' * 100, ''", "b'bytes', bytearray(b'array')",
    "[1, [2, [3]]], (), (1,), {1, 2}, frozenset([3]), {'a': {'b': 1}}", "range(1, 9, 2), slice(1, None, 2)", "datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.timezone.utc)",
    "datetime.date.max, datetime.time(1, 2, fold=1), datetime.timedelta(days=-1), datetime.timezone(datetime.timedelta(hours=2), 'two')", "zoneinfo.ZoneInfo('Europe/Berlin')",
    "decimal.Decimal('1.10'), decimal.Context(prec=7)", "fractions.Fraction(1, 3)", "collections.OrderedDict(b=1, a=2)", "collections.defaultdict(list, a=[1])",
    "collections.Counter('aab')", "collections.deque([1, 2], maxlen=3)", "collections.ChainMap({'a': 1}, {'b': 2})", "collections.UserDict(a=1), collections.UserList([1]), collections.UserString('a')",
    "types.SimpleNamespace(a=1)", ("types.MappingProxyType({'a': 1})", "dict(it)"), "array.array('d', [1.5])", "uuid.UUID(int=5)", "pathlib.PurePosixPath('/a/b')", "pathlib.Path('a')",
    "re.compile('(?P<a>x)', re.I)", "ipaddress.ip_network('10.0.0.0/8')", "email.message_from_string('Subject: s\\n\\nbody').as_string()", ("email.message_from_string('Subject: s\\n\\nbody')", "it['Subject'], it.get_payload()"),
    "urllib.parse.urlparse('http://a/b?c#d')", "http.HTTPStatus.OK", "time.struct_time(range(9))", ("random.Random(3)", "it.random()"), "statistics.NormalDist(1, 2)", ("string.Template('$a')", "it.template"),
    ("functools.partial(int, base=2)", "it('11')"), ("functools.partialmethod(int)", "it.func"), ("functools.lru_cache(lambda n: n + 1)", "it(1)"), 
    ("operator.itemgetter(1)", "it([5, 6])"), ("operator.attrgetter('real')", "it(3)"), ("operator.methodcaller('upper')", "it('a')"),
    ("lambda a, *b, c=1, **d: (a, b, c, d)", "it(1, 2, e=3)"), ("(lambda n: lambda: n)(7)", "it()"), "len, print, int, type, type(None), type(...)", ("'a,b'.split", "it(',')"), ("[1, 2].append", "it.__self__"),
    ("ValueError('a', 1)", "it.args"), ("OSError(2, 'no', 'file')", "(it.errno, it.filename)"), ("UnicodeDecodeError('utf-8', b'x', 0, 1, 'why')", "it.reason"), ("KeyError('k')", "it.args"),
    ("io.StringIO('text')", "it.getvalue()"), ("io.BytesIO(b'bytes')", "it.getvalue()"), ("itertools.chain([1], [2])", "list(it)"), ("itertools.count(5)", "next(it)"), "sys.version_info[:2], sys.maxsize", ("ctypes.c_int(5)", "it.value"),
    ("logging.getLogger('a.b')", "it.name, it is logging.getLogger('a.b')"), ("logging.Formatter('%(message)s')", "it._fmt"), "json, os.path, collections.abc", ("json.JSONEncoder(indent=1)", "it.encode([1])"),
    "typing.Optional[int], typing.List[str], dict[str, int], int | None", "typing.TypeVar('T').__name__", ("inspect.signature(lambda a, b=1: 0)", "str(it)"), ("ast.parse('1 + 1')", "ast.dump(it)"), "compile('1 + 1', 'f', 'eval').co_name",
    ("compile('1 + 1', 'f', 'eval')", "eval(it)"), ("csv.Dialect", "it.__name__"), ("argparse.ArgumentParser(prog='p')", "it.prog"), ("argparse.Namespace(a=1)", "it"), ("configparser.ConfigParser()", "it.sections()"),
    ("xml.etree.ElementTree.fromstring('<a b=\"1\">x</a>')", "it.tag, it.attrib, it.text"), ("queue.Queue", "it.__name__"), ("hashlib.sha256", "it(b'').hexdigest()"), ("graphlib.TopologicalSorter({1: [2]})", "list(it.static_order())"),
    ("enum.Enum('Named', 'A B')", "list(it)"), ("dataclasses.make_dataclass('Made', ['x'])", "it(1)"), ("collections.namedtuple('Tuple', 'x')", "it(1)"), ("type('Dynamic', (), {'x': 1})", "it.x"), ("types.ModuleType('dynamic')", "it.__name__"),
    ("object()", "type(it)"), ("property(lambda self: 1)", "it.fget(0)"), ("staticmethod(len)", "it.__func__"), ("iter([1, 2])", "list(it)"), ("iter({})", "list(it)"), ("reversed([1, 2])", "list(it)"), ("enumerate([1])", "list(it)"), ("zip([1], [2])", "list(it)"), ("map(int, ['1'])", "list(it)"),
], [
    "threading.Lock()", "threading.Event()", "threading.local()", "queue.Queue()", "(i for i in [1])", "open('/dev/null')", "open('/dev/null', 'rb')", "socket.socket()", "sqlite3.connect(':memory:')", "subprocess.Popen(['true'])",
    "memoryview(b'x')", "{}.keys(), {}.items()", "weakref.ref(set())", "sys._getframe()", "asyncio.new_event_loop()", "mmap.mmap(-1, 10)", "hashlib.sha256()", "zlib.compressobj()", "selectors.DefaultSelector()", "contextvars.ContextVar('c')",
    "contextvars.copy_context()", "tempfile.TemporaryFile()", "concurrent.futures.ThreadPoolExecutor()", "logging.StreamHandler()", "csv.reader([])", "re.finditer('a', 'a')", "os.scandir('.')", "ssl.create_default_context()", "select.epoll()",
    "functools.cmp_to_key(lambda a, b: b - a)", "functools.singledispatch(lambda value: 'any')", "sys.flags, sys.float_info",
])  # fmt: skip
IMPORTS = (
    "import argparse, array, ast, asyncio, collections, concurrent.futures, configparser, contextvars, csv, ctypes, dataclasses, datetime, decimal, email, enum, fractions, functools, graphlib, hashlib, http, inspect, io, "
    "ipaddress, itertools, json, logging, mmap, operator, os, pathlib, queue, random, re, select, selectors, socket, sqlite3, ssl, statistics, string, subprocess, sys, tempfile, threading, time, types, typing, urllib.parse, "
    "uuid, weakref, xml.etree.ElementTree, zlib, zoneinfo"
)


def test_the_standard_library(program):
    assert walk(program, IMPORTS, STANDARD) == {}


LIBRARIES = rows_of([
    "np.float32(1.5), np.int64(2), np.bool_(True), np.datetime64('2024-01-01'), np.complex64(1j), np.str_('a')", "np.arange(6).reshape(2, 3)", "np.zeros(3, dtype=[('a', 'i4'), ('b', 'U3')])", "np.array(['a', None], dtype=object)",
    "np.zeros((0, 3))", "np.array(5)", "np.ma.array([1, 2], mask=[0, 1])", "np.rec.array([(1, 'a')], names='x,y')", "np.dtype('>f8'), np.dtype([('a', 'i4')])", ("np.sin, np.add.reduce, np.float64", "it[0] is np.sin, it[1]([1, 2]), it[2] is np.float64"), "np.poly1d([1, 2])", "np.array(['a', 'bc']), np.array([b'a'])",
    ("np.random.default_rng(1)", "it.random()"), ("np.random.RandomState(1)", "it.rand()"), "np.array(['2024-01-01'], dtype='M8[D]')", ("np.vectorize(lambda x: x + 1)", "it([1, 2])"), "np.array([1, 2], dtype='>i2')", ("np.array(['a', 'b'], dtype=np.dtypes.StringDType())", "it.tolist()"),
    "pd.Series([1, 2], name='s')", "pd.DataFrame({'a': [1, None], 'b': ['x', 'y']})", "pd.Index([1, 2]), pd.RangeIndex(3), pd.MultiIndex.from_tuples([(1, 'a')], names=['n', 'm'])", "pd.Categorical(['a', 'b'], ordered=True)", "pd.Timestamp('2024-01-01', tz='UTC'), pd.Timedelta('1D'), pd.NaT, pd.NA",
    "pd.Period('2024-01', 'M'), pd.Interval(0, 1), pd.DateOffset(months=1)", "pd.date_range('2024', periods=3, freq='D')", "pd.array([1, None], dtype='Int64'), pd.array(['a', None], dtype='string')", "pd.Series([1, 2], dtype='Sparse[int]')", "pd.interval_range(0, 3), pd.period_range('2024', periods=2, freq='M')",
    ("pd.DataFrame({'a': [1, 1, 2], 'b': [1, 2, 3]}).groupby('a')", "it.b.sum().to_dict()"), ("pd.Series([1, 2, 3]).rolling(2)", "it.sum().tolist()"), ("pd.DataFrame({'a': [1]}).style", "'<table' in it.to_html()"), ("pd.DataFrame({'a': [1]}).attrs", "it"), ("pd.DataFrame({'a': [1, 2]}, index=['x', 'y']).loc", "it['x'].a"), ("pd.Series(['a']).str", "it.upper().tolist()"),
    "pl.DataFrame({'a': [1, None], 'b': ['x', 'y'], 'c': [1.5, 2.5]})", "pl.Series('s', [[1], [2, 3]])", ("pl.DataFrame({'a': [1, 2]}).lazy().filter(pl.col('a') > 1)", "it.collect()"), ("pl.col('a') + 1", "str(it)"), "pl.Int64, pl.List(pl.Utf8), pl.Datetime('us', 'UTC')", ("pl.DataFrame({'a': range(100_000)})", "it['a'].sum()"), "pl.Series(['a', 'b'], dtype=pl.Categorical)", "pl.Schema({'a': pl.Int8})",
    ("sklearn.linear_model.LinearRegression().fit([[0], [1], [2]], [0, 1, 2])", "it.predict([[3]]).round(6), it.coef_.round(6)"), ("sklearn.ensemble.RandomForestClassifier(5, random_state=0).fit(X, y)", "it.predict(X).tolist()"), ("sklearn.svm.SVC().fit(X, y)", "it.predict(X).tolist()"),
    ("sklearn.pipeline.make_pipeline(sklearn.preprocessing.StandardScaler(), sklearn.linear_model.LogisticRegression()).fit(X, y)", "it.predict_proba(X).round(6).tolist()"), ("sklearn.neighbors.KNeighborsClassifier(2).fit(X, y)", "it.predict(X).tolist()"), ("sklearn.cluster.KMeans(2, random_state=0, n_init=1).fit(X)", "it.labels_.tolist()"),
    ("sklearn.tree.DecisionTreeClassifier(random_state=0).fit(X, y)", "it.tree_.node_count, it.predict(X).tolist()"), ("sklearn.utils.Bunch(a=1)", "it.a"), ("scipy.sparse.csr_matrix(np.eye(3))", "it.toarray()"), ("scipy.stats.norm(1, 2)", "it.mean()"), ("scipy.interpolate.interp1d([0, 1], [0, 2])", "it(0.5)"),
    ("plt.Figure()", "it.get_size_inches()"), ("draw()", "[line.get_ydata().tolist() for line in it.axes[0].lines], it.axes[0].get_title(), it.savefig('figure.png')"), ("draw().axes[0]", "it.get_title()"), ("mpl.colormaps['viridis']", "it(0.5)"), ("mpl.colors.Normalize(0, 2)", "it(1)"), ("mpl.dates.DateFormatter('%Y')", "it.fmt"), ("mpl.path.Path([[0, 0], [1, 1]])", "it.vertices"),
    ("PIL.Image.new('RGB', (3, 2), 'red')", "it.size, it.tobytes()"),
], [
    "np.nditer(np.arange(3))", "np.load('archive.npz')",
])  # fmt: skip
SCIENCES = (
    "import numpy as np, pandas as pd, polars as pl, matplotlib as mpl, matplotlib.pyplot as plt, matplotlib.dates, PIL.Image, scipy.sparse, scipy.stats, scipy.interpolate, warnings\n"
    "import sklearn.linear_model, sklearn.ensemble, sklearn.svm, sklearn.pipeline, sklearn.preprocessing, sklearn.neighbors, sklearn.cluster, sklearn.tree, sklearn.utils\n"
    "X, y = np.random.default_rng(0).random((12, 3)), np.array([0, 1] * 6)\nnp.savez('archive.npz', a=[1])\nwarnings.simplefilter('ignore')\n"
    "def draw():\n    figure = plt.Figure()\n    axes = figure.add_subplot()\n    axes.plot([1, 3, 2]); axes.set_title('title')\n    return figure\n"
)


def test_libraries(program):
    assert walk(program, SCIENCES, LIBRARIES) == {}
