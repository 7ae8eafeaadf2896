# SPDX-License-Identifier: Apache-2.0
"""
Takes and restores a kernel's checkpoint: the namespace of the session, pickled as a whole by cloudpickle.

It is embedded in berth-runtime and comes to the kernel with the first request about a checkpoint; README.md tells what is kept and how
the file looks. One pickler goes over all names, so that what two of them share stays shared; each name is an entry of its own, so that
one which cannot be kept, or not be restored, is dropped alone.

Entries of another kind are what the process has beside its variables (checkpoint_process.py): some before, some behind all names.

The pickler's memo numbers what it has seen, and an entry may point into those before it. So where an entry fails in the pickler, the
numbers that it took are given back. Where one fails in the unpickler, its numbers stay empty but for names, and what points there is lost
with it: it would be half of an object. An entry begins with a list that is pickled twice: the second time its number is told.

Functions of the session keep its namespace as their globals: the namespace and its module are in the memo from the start, as 0 and 1.
"""

# Two more files are behind this one in the same module: checkpoint_values.py, checkpoint_process.py.
# flake8: noqa: F821

import binascii
import bisect
import builtins
import collections
import functools
import io
import os
import pickle
import pickletools
import signal
import struct
import sys
import time
import types

NAMES_MAX = 1000
NAMES_BYTES_MAX = 120000
DATA_MAX = 256 << 10
SEEN_MAX = 1 << 20
LENGTHS = struct.Struct(">II")
ENTRY = struct.Struct(">IQ")  # the name's length; what the memo held before it
CHUNK = struct.Struct(">I")
OF_PROCESS = 0x80000000  # a bit of the name's length: it is no variable
OVER = VOID = 0xFFFFFFFF  # instead of a name's length: there are no more; of a chunk's: the entry failed
LIBRARY = "berth cloudpickle"
PROTOCOL = 5
# Pushes the two that the memo begins with.
PRIME = b"\x80\x05K\x00Q\x940K\x01Q\x94."
# What a module has of itself; annotations of the last execution would be all that is left.
HIDDEN = {"__name__", "__doc__", "__package__", "__loader__", "__spec__", "__builtins__", "__annotations__", "__annotate__", "__conditional_annotations__"}
RECURSION_MAX = 3000


class Refused(Exception):
    """Could be pickled, and would come back as something else."""


class TooLarge(Exception):
    pass


class Late(BaseException):
    """Not caught by code that catches every Exception."""


class Broken(Exception):
    """The data are not what a checkpoint wrote."""


class Missing(Exception):
    """The entry points into one that failed."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


class Shared:
    """What those need that pickles call by name."""

    library = kernel = set_class_state = before = None
    singletons = {}
    recursion_limit = 1000


def make_cached(function, maxsize, typed):
    return functools.lru_cache(maxsize, typed)(function)


def make_cached_property(function, name):
    made = functools.cached_property(function)
    made.attrname = name
    return made


def load_library(source):
    library = types.ModuleType(LIBRARY)
    exec(compile(source, "<cloudpickle>", "exec"), library.__dict__)
    Shared.library, Shared.set_class_state = library, library._class_setstate
    library._class_getnewargs = with_slots(library._class_getnewargs)
    # Pickles name them as the library's.
    for name in HELPERS:
        helper = globals()[name]
        helper.__module__ = LIBRARY
        setattr(library, name, helper)
    return library


def listed(items, kernel):
    """As many as fit into a message."""
    kept, room = [], NAMES_BYTES_MAX
    for item in items[:NAMES_MAX]:
        room -= len(kernel.encode_json(item).encode("utf-8")) + 1
        if room < 0:
            break
        kept.append(item)
    return kept


def describe_loss(kernel, name, value, error):
    if isinstance(error, TooLarge):
        why = "it does not fit into the checkpoint"
    elif isinstance(error, Late):
        why = "it was not pickled in time"
    elif isinstance(error, Missing):
        why = "a part of it came with '%s', which could not be restored" % error.owner
    elif isinstance(error, Refused):
        why = str(error)
    else:
        try:
            why = "%s: %s" % (kernel.name_of(type(error)), error)
        except BaseException:
            why = kernel.name_of(type(error))
    kind = "" if value is None else kernel.name_of(type(value))
    return {"name": kernel.clean(name, kernel.NAME_MAX)[0], "type": kind, "why": kernel.clean(why, 500)[0]}


# --- taking ---


def refuse(why):
    def reduce(value):
        raise Refused(why)

    return reduce


def reduce_stream(stream):
    """By cloudpickle, open files come back as copies of what they held."""
    for name in ("stdout", "stderr"):
        if stream is getattr(sys, name):
            return getattr, (sys, name)
    raise Refused("it is an open file")


def reduce_cached(library):
    def reduce(function):
        """By its name, as functools has it, it would be looked for among what is not restored yet. Its cached results are
        gone."""
        if function.__module__ != "__main__":
            return function.__qualname__
        known = function.cache_parameters() if hasattr(function, "cache_parameters") else {"maxsize": function.cache_info().maxsize, "typed": False}
        return library.make_cached, (function.__wrapped__, known["maxsize"], known["typed"])

    return reduce


def make_pickler(library, kernel, sink):
    namespace = kernel.module.__dict__
    view = refuse("it is a view of a dictionary")
    reducers = {
        functools._lru_cache_wrapper: reduce_cached(library),
        # Until Python 3.12 it has a lock.
        functools.cached_property: lambda cached: (library.make_cached_property, (cached.func, cached.attrname)),
        io.TextIOWrapper: reduce_stream,
        memoryview: refuse("it is a view of memory"),
        type({}.keys()): view,
        type({}.values()): view,
        type({}.items()): view,
        type(collections.OrderedDict().keys()): view,
        type(collections.OrderedDict().values()): view,
        type(collections.OrderedDict().items()): view,
    }

    by_class, known, singletons = find_reducers(library, kernel), {}, Shared.singletons

    def reducer_of(kind):
        """By its id: a class of the user's may have a metaclass that cannot be hashed."""
        if id(kind) not in known:
            found = next((reduce for base, reduce in by_class if base in type.__dict__["__mro__"].__get__(kind)), None)
            if found is None and is_made_bare(kind):
                found = functools.partial(reduce_bare, library)
            known[id(kind)] = kind, found
        return known[id(kind)][1]

    class Pickler(library.Pickler):
        files = set()  # those that functions are from
        dispatch_table = collections.ChainMap(reducers, library.Pickler.dispatch_table)

        def reducer_override(self, value):
            if id(value) in singletons:
                return library.singleton, singletons[id(value)]
            reduce = reducer_of(type(value))
            reduced = NotImplemented if reduce is None else reduce(value)
            return super().reducer_override(value) if reduced is NotImplemented else reduced

        def _dynamic_function_reduce(self, function):
            self.files.add(function.__code__.co_filename)
            for name, own in kernel.saved_builtins.items():
                if own is function:
                    return getattr, (builtins, name)
            if function is kernel.show_figures:
                return getattr, (sys.modules["matplotlib.pyplot"], "show")
            if function.__globals__ is kernel.own_globals:
                raise Refused("it belongs to the kernel")
            place = place_of(function)
            if place is not None:
                return getattr, place
            reduced = super()._dynamic_function_reduce(function)
            if function.__globals__ is namespace:
                reduced[2][1]["__globals__"] = {}
            return reduced

    pickler = Pickler(sink, PROTOCOL)
    pickler.memo = {id(namespace): (0, namespace), id(kernel.module): (1, kernel.module)}
    pickler.globals_ref = {id(namespace): namespace}
    return pickler


def number_of(pickled):
    """What a pickle that is one reference refers to: PROTO 5, perhaps a frame, BINGET or LONG_BINGET, STOP."""
    if len(pickled) == 5 and pickled[2:3] == b"h":
        return pickled[3]
    if pickled[-6:-5] != b"j" or pickled[-1:] != b".":
        raise AssertionError("a pickle that is no reference")
    return struct.unpack("<I", pickled[-5:-1])[0]


def raw(data):
    """Arrays of 64 KiB and more come to a pickler's file as a PickleBuffer, which has no length; a memoryview of bytes has one."""
    return data.raw() if isinstance(data, pickle.PickleBuffer) else data


class Counter:
    """Takes what is pickled, and keeps nothing but the last piece."""

    def __init__(self):
        self.count, self.most, self.last = 0, None, b""

    def write(self, data):
        self.last = raw(data)
        self.count += len(self.last)
        if self.most is not None and self.count > self.most:
            raise TooLarge
        return len(self.last)


class Alarm:
    """Late, some time from now, and again and again: user code may catch it."""

    armed = False

    def __init__(self):
        signal.signal(signal.SIGALRM, self.ring)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})

    def ring(self, number, frame):
        if self.armed:
            raise Late

    def __enter__(self):
        signal.setitimer(signal.ITIMER_REAL, self.seconds, 0.05)
        self.armed = True

    def __exit__(self, *unused):
        self.armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)


def mark(pickler, sink):
    """How much the memo holds, and the bytes that said so."""
    marker = []
    pickler.dump(marker)
    first = bytes(sink.last)
    pickler.dump(marker)
    return number_of(sink.last), first + bytes(sink.last)


def order_of(value):
    if isinstance(value, types.ModuleType):
        return 0
    return 1 if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, functools._lru_cache_wrapper, type)) else 2


def probe(library, kernel, room, until):
    """
    What can be kept, without writing it: [(whether it is of the process, name, value)] and the losses. Time for one is a quarter of what
    is left, so that one which hangs does not cost all the others; those that took longer get what is left in the end.
    """
    sink, alarm = Counter(), Alarm()
    pickler = make_pickler(library, kernel, sink)
    namespace = kernel.module.__dict__
    names = [name for name in namespace if type(name) is str and name not in HIDDEN]
    # Values are made again by functions that use what is global: that comes first.
    names.sort(key=lambda name: order_of(namespace[name]))
    items = [(True, name, read) for name, read in surroundings(kernel, FIRST)]
    items += [(False, name, lambda kernel, name=name: namespace[name]) for name in names]
    items += [(True, name, read) for name, read in surroundings(kernel, LAST)]
    items.append((True, SOURCES, lambda kernel: read_sources(kernel, pickler.files)))
    values, failures, late = {}, {}, []

    def attempt(at, seconds):
        nonlocal room
        of_process, name, read = items[at]
        sink.most = None
        before, _ = mark(pickler, sink)
        # What the entry takes beside its pickle.
        cost = sink.count = len(name.encode("utf-8", "surrogatepass")) + 64
        sink.most = room
        alarm.seconds = seconds
        try:
            with alarm:
                value = in_context(kernel, read) if of_process else read(kernel)
                if of_process and value is None:
                    return
                if cost > room:
                    raise TooLarge
                pickler.dump(value)
            values[at] = value
            # A chunk has a length of its own.
            room -= sink.count + sink.count // 65536 * CHUNK.size
        except BaseException as error:
            pickler.memo = {key: entry for key, entry in pickler.memo.copy().items() if entry[0] < before}
            if isinstance(error, Late):
                late.append(at)
            error.__traceback__ = error.__context__ = error.__cause__ = None
            failures[at] = error

    for at in range(len(items)):
        left = until - time.monotonic()
        if left > 0.001:
            attempt(at, left / 4)
        else:
            failures[at] = Late()
            late.append(at)
    again, late = late, []
    for at in again:
        left = until - time.monotonic()
        if left > 0.001:
            del failures[at]
            attempt(at, left)
    kept = [(items[at][0], items[at][1], values[at]) for at in sorted(values)]
    return kept, [describe_loss(kernel, items[at][1], None if items[at][0] else namespace[items[at][1]], failures[at]) for at in sorted(failures)]


def in_context(kernel, function, *arguments):
    """Where the session's code runs, with its context variables."""
    context = getattr(kernel.state, "context", None)
    return function(kernel, *arguments) if context is None else context.run(function, kernel, *arguments)


class Writer:
    """Parts of a checkpoint's file, into a pipe."""

    def __init__(self, kernel, descriptor):
        self.kernel, self.descriptor = kernel, descriptor
        self.waiting, self.waiting_bytes = [], 0
        self.total = self.checksum = 0

    def _send(self, data):
        data = memoryview(data)
        while len(data):
            data = data[os.write(self.descriptor, data) :]

    def part(self, head, body=b""):
        data = self.kernel.encode_json(head).encode("utf-8")
        self._send(LENGTHS.pack(len(data), len(body)) + data)
        self._send(body)

    def flush(self):
        if self.waiting:
            self.part({"type": "data"}, b"".join(self.waiting))
        self.waiting, self.waiting_bytes = [], 0

    def write(self, data):
        """Bytes, or a memoryview of bytes."""
        self.checksum = binascii.crc32(data, self.checksum)
        self.total += len(data)
        if len(data) >= DATA_MAX:
            # As it lies: what is large is not copied.
            self.flush()
            data = memoryview(data)
            for at in range(0, len(data), DATA_MAX):
                self.part({"type": "data"}, data[at : at + DATA_MAX])
            return
        self.waiting.append(bytes(data))
        self.waiting_bytes += len(data)
        if self.waiting_bytes >= DATA_MAX:
            self.flush()


class Entries:
    """What the pickler writes to: chunks of an entry, or what is kept for a moment."""

    def __init__(self, writer):
        self.writer, self.last, self.held = writer, b"", True

    def write(self, data):
        data = raw(data)
        if self.held:
            self.last = bytes(data)
        else:
            self.writer.write(CHUNK.pack(len(data)))
            self.writer.write(data)
        return len(data)


def write_entries(library, kernel, items, writer):
    sink = Entries(writer)
    pickler = make_pickler(library, kernel, sink)
    for of_process, name, value in items:
        sink.held = True
        before, marks = mark(pickler, sink)
        encoded = name.encode("utf-8", "surrogatepass")
        length = len(encoded) | (OF_PROCESS if of_process else 0)
        writer.write(ENTRY.pack(length, before) + encoded + CHUNK.pack(len(marks)) + marks)
        sink.held = False
        try:
            pickler.dump(value)
        except OSError:
            raise
        except BaseException:
            # It could be pickled a moment ago.
            pickler.memo = {key: entry for key, entry in pickler.memo.copy().items() if entry[0] < before}
            writer.write(CHUNK.pack(VOID))
            continue
        writer.write(CHUNK.pack(0))
    writer.write(ENTRY.pack(OVER, 0))
    writer.flush()


def take_in_child(library, kernel, head, descriptor, started):
    """In a process of its own: threads stand still, and whatever happens to it, the kernel lives."""
    try:
        # Where memory ends, this one goes first.
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass
    Shared.kernel, Shared.before, Shared.recursion_limit = kernel, head["before"], sys.getrecursionlimit()
    sys.setrecursionlimit(RECURSION_MAX)
    sys.modules[LIBRARY] = library
    Shared.singletons = find_singletons(kernel)
    writer = Writer(kernel, descriptor)
    kept, lost = probe(library, kernel, head["maxBytes"], started + head["maxMs"] / 2000)
    lost += left_behind(kernel, head)
    count = sum(not of_process for of_process, _, _ in kept)
    context = {"type": "context", "context": head["context"], "generation": head["generation"]}
    context.update(python=kernel.python_version, flags=kernel.state.flags, kept=count, lost=listed(lost, kernel), lostCount=len(lost), reason=None)
    writer.part(context)
    write_entries(library, kernel, kept, writer)
    writer.part({"type": "end", "bytes": writer.total, "crc32": writer.checksum, "reason": None})


# --- restoring ---


class Stream:
    """The data of a checkpoint as they come, and a file that the unpickler reads the current entry from."""

    def __init__(self, receive):
        self.receive = receive
        self.block, self.at = b"", 0
        self.checksum, self.ended = 0, None
        self.chunk = 0  # bytes left in it
        self.seen = bytearray()  # of the entry, as far as it is short
        self.primed = io.BytesIO(PRIME)

    def _more(self):
        if self.ended is not None:
            raise Broken("it is cut off")
        head, body, _ = self.receive()
        if head["type"] == "end":
            self.ended = head
            raise Broken("it is cut off")
        self.block, self.at = memoryview(body), 0
        self.checksum = binascii.crc32(body, self.checksum)

    def _into(self, target):
        done = 0
        while done < len(target):
            if self.at == len(self.block):
                self._more()
            size = min(len(target) - done, len(self.block) - self.at)
            target[done : done + size] = self.block[self.at : self.at + size]
            self.at += size
            done += size

    def raw(self, size):
        data = bytearray(size)
        self._into(memoryview(data))
        return bytes(data)

    def next_entry(self):
        """Whether it is of the process, its name, and what the memo held before it; None: there are no more."""
        length, before = ENTRY.unpack(self.raw(ENTRY.size))
        if length == OVER:
            return None
        of_process, length = bool(length & OF_PROCESS), length & ~OF_PROCESS
        if length > 1 << 20:
            raise Broken("a name of %d bytes" % length)
        name = self.raw(length).decode("utf-8", "surrogatepass")
        self.chunk = CHUNK.unpack(self.raw(CHUNK.size))[0]
        self.seen.clear()
        return of_process, name, before

    def skip_entry(self):
        """All of it, if it is short; else None."""
        while self.chunk and self.chunk != VOID:
            self.read(min(self.chunk, 1 << 16))
        return self.seen if self.chunk != VOID and len(self.seen) < SEEN_MAX else None

    def end(self):
        """Everything that was sent was read, and is as it was."""
        if self.ended is None:
            head, body, _ = self.receive()
            if head["type"] != "end":
                raise Broken("it goes on behind its end")
            self.ended = head
        if self.at != len(self.block) or self.ended["crc32"] != self.checksum:
            raise Broken("its checksum is another")

    def drain(self):
        while self.ended is None:
            head, _, _ = self.receive()
            if head["type"] == "end":
                self.ended = head

    # The unpickler's file.

    def readinto(self, target):
        target = memoryview(target)
        if self.primed:
            return self.primed.readinto(target)
        done = 0
        while done < len(target):
            if self.chunk == VOID:
                raise Refused("it changed while the checkpoint was taken")
            if not self.chunk:
                raise Broken("an entry is cut off")
            size = min(self.chunk, len(target) - done)
            self._into(target[done : done + size])
            if len(self.seen) < SEEN_MAX:
                self.seen += target[done : done + size]
            self.chunk -= size
            done += size
            if not self.chunk:
                self.chunk = CHUNK.unpack(self.raw(CHUNK.size))[0]
        return done

    def read(self, size):
        data = bytearray(size)
        return bytes(data[: self.readinto(data)])

    def readline(self):
        line = b""
        while not line.endswith(b"\n"):
            line += self.read(1)
        return line


def make_unpicklers(library, kernel):
    class Both:
        def persistent_load(self, number):
            return (kernel.module.__dict__, kernel.module)[number]

        def find_class(self, module, name):
            if module == LIBRARY:
                return getattr(library, name)
            return super().find_class(module, name)

    class Unpickler(Both, pickle.Unpickler):
        pass

    class Memo(dict):
        def __missing__(self, number):
            raise Missing(number)

    class AfterFailure(Both, pickle._Unpickler):
        """Slower, and with a memo that may have holes."""

        dispatch = dict(pickle._Unpickler.dispatch)

        def __init__(self, file, memo):
            super().__init__(file)
            self.memo = Memo(memo)
            self.next_number = 0

        def memoize(self):
            self.memo[self.next_number] = self.stack[-1]
            self.next_number += 1

        dispatch[pickle.MEMOIZE[0]] = memoize

    return Unpickler, AfterFailure


def put_back(unpickler, entry, number):
    """
    What the memo would hold of an entry that has failed, as far as it cannot be half made: texts, as the names of attributes that all
    share, and what modules have by name.
    """
    memo, texts, last = unpickler.memo, [], None
    try:
        file = io.BytesIO(entry)
        while file.tell() < len(entry):
            for code, argument, _ in pickletools.genops(file):
                if code.name == "MEMOIZE":
                    if last is not None:
                        memo[number] = last
                    number += 1
                elif code.name == "STACK_GLOBAL":
                    last = unpickler.find_class(*texts[-2:]) if texts[-2] in sys.modules or texts[-2] == LIBRARY else None
                elif code.name != "FRAME":
                    last = argument if "UNICODE" in code.name else memo.get(argument) if code.name.endswith("BINGET") else None
                    texts += [last] if isinstance(last, str) else []
    except Exception:
        pass


def read_entries(library, kernel, stream):
    """Into the namespace, as they come. ([name], [loss])"""
    fast, slow = make_unpicklers(library, kernel)
    unpickler = fast(stream)
    unpickler.load()
    stream.primed = None
    namespace = kernel.module.__dict__
    found, lost, starts, owners = [], [], [], []
    while True:
        entry = stream.next_entry()
        if entry is None:
            return found, lost
        of_process, name, before = entry
        starts.append(before)
        owners.append(name)
        try:
            if isinstance(unpickler, slow):
                unpickler.next_number = before
            unpickler.load()
            unpickler.load()
            value = unpickler.load()
            if stream.chunk:
                raise Broken("an entry goes on behind its end")
            if of_process:
                in_context(kernel, write_surrounding, name, value)
                continue
            namespace[name] = value
            found.append(name)
        except Broken:
            forget(namespace, found)
            raise
        except BaseException as error:
            if isinstance(error, Missing):
                error.owner = kernel.clean(owners[max(bisect.bisect_right(starts, error.number) - 1, 0)], 64)[0]
            lost.append(describe_loss(kernel, name, None, error))
            memo = unpickler.memo if isinstance(unpickler, slow) else unpickler.memo.copy()
            memo = {number: value for number, value in memo.items() if number < before}
            error.__traceback__ = error.__context__ = error.__cause__ = None
            entry = stream.skip_entry()
            unpickler = slow(stream, memo)
            if entry is not None:
                put_back(unpickler, bytes(entry), before)


def forget(namespace, names):
    for name in names:
        namespace.pop(name, None)


def restore(library, kernel, head, receive):
    """What the runtime is told. Nothing is in the namespace where not everything was read as it was written."""
    stream = Stream(receive)
    found, lost, reason = [], [], None
    Shared.kernel = kernel
    try:
        # Its files may be younger than what an import has read of their folders.
        for finder in list(sys.path_importer_cache.values()):
            getattr(finder, "invalidate_caches", bool)()
        if head["python"].split(".")[:2] != kernel.python_version.split(".")[:2]:
            raise Broken("it was taken by Python %s, and this is %s" % (head["python"], kernel.python_version))
        found, lost = read_entries(library, kernel, stream)
        stream.end()
    except BaseException as error:
        forget(kernel.module.__dict__, found)
        found, lost = [], []
        what = str(error) if isinstance(error, Broken) else "%s: %s" % (kernel.name_of(type(error)), error)
        reason = kernel.clean("its checkpoint cannot be used: " + what, 500)[0]
        stream.drain()
    if reason is None:
        kernel.state.flags |= head["flags"] & kernel.FUTURES
    names = [kernel.clean(name, kernel.NAME_MAX)[0] for name in found]
    return {
        "type": "restored", "restored": listed(names, kernel), "restoredCount": len(names),
        "lost": listed(head["lost"] + lost, kernel), "lostCount": head["lostCount"] + len(lost), "reason": reason,
    }  # fmt: skip
