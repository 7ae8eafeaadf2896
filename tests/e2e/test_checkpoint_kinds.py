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
