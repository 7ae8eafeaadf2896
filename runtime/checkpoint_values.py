# SPDX-License-Identifier: Apache-2.0
# What checkpoint.py keeps of values that pickle would copy, or would make by running the session's code once more. It is embedded behind
# checkpoint.py, as one module with it. Names of these functions stand in checkpoints.
# flake8: noqa: F821

import abc

# What stands in for the library's own, and what pickles name besides.
HELPERS = ("make_cached", "make_cached_property", "make_view", "open_map", "_make_skeleton_class", "_class_setstate")


# --- classes: hooks of the session have run when the class was made, and what they did is kept ---


def is_own(kind):
    """A class of the session's code."""
    return "__main__" == type.__dict__["__dict__"].__get__(kind).get("__module__")


def pass_on(base):
    """In place of the base's own __init_subclass__: libraries' ones behind it still hear of the class."""

    def __init_subclass__(cls, **named):
        super(base, cls).__init_subclass__(**named)

    return classmethod(__init_subclass__)


def _make_skeleton_class(kind, name, bases, attributes, tracker, extra):
    resolved = types.resolve_bases(bases)
    for base in resolved:
        kind = type(base) if issubclass(type(base), kind) else kind
    first = next(each for each in kind.__mro__ if not is_own(each))
    hooks = {each: each.__dict__["__init_subclass__"] for base in resolved for each in base.__mro__ if is_own(each) and "__init_subclass__" in each.__dict__}
    namespace = first.__prepare__(name, resolved)
    namespace.update(attributes)
    if resolved is not bases:
        namespace["__orig_bases__"] = bases
    try:
        for each in hooks:
            type.__setattr__(each, "__init_subclass__", pass_on(each))
        made = first.__new__(kind, name, resolved, namespace)
        first.__init__(made, name, resolved, namespace)
    finally:
        for each, hook in hooks.items():
            type.__setattr__(each, "__init_subclass__", hook)
    return Shared.library._lookup_class_or_track(tracker, made)


def _class_setstate(made, state):
    """The library's way, but where a metaclass of the session would do something when attributes are set, or classes registered."""
    if not any(is_own(each) and {"__setattr__", "register"} & set(each.__dict__) for each in type(made).__mro__):
        return Shared.set_class_state(made, state)
    for name, value in state[0].items():
        if name != "_abc_impl":
            type.__setattr__(made, name, value)
    for each in state[0].get("_abc_impl") or ():
        abc.ABCMeta.register(made, each)
    return made


def with_slots(arguments_of):
    """Without its __slots__ a class would come back with attributes of any name."""

    def arguments(kind):
        found = arguments_of(kind)
        if "__slots__" in kind.__dict__ and not issubclass(kind, tuple):
            found[3]["__slots__"] = kind.__slots__
        return found

    return arguments


# --- arrays: what shares memory shares it again ---


def base_of(holder):
    """Where the holder's memory is from; None: it is its own."""
    return holder.obj if type(holder) is memoryview else getattr(holder, "base", None)


def shares(array):
    """Whether anything else can see the array's memory: another reference to what it is a view of."""
    holder = array
    while base_of(holder) is not None and type(base_of(holder)) is not bytes:
        # One is the holder's, the other this call's.
        if sys.getrefcount(base_of(holder)) > 2:
            return True
        holder = base_of(holder)
    return False


def root_of(numpy, array):
    """The object that a view's memory belongs to: an array, or what has a buffer."""
    root = holder = array
    while base_of(holder) is not None:
        is_alone = sys.getrefcount(base_of(holder)) == 2
        below = base_of(holder)
        if isinstance(below, numpy.ndarray):
            root = below
        elif type(below) in (bytearray, array_type()):
            return root if is_alone else below
        elif type(below) is bytes or isinstance(root, numpy.memmap):
            return root
        elif type(below) is not memoryview and not hasattr(below, "base"):
            # Other objects hand out their memory as they are pickled, and take it back in a copy.
            if not is_alone and {type(below).__module__.split(".")[0], type(type(below)).__module__} & {"_ctypes", "mmap", "torch"}:
                raise Refused("it shares its memory with an object of type %s" % type(below).__name__)
            return root
        holder = below
    return root


def array_type():
    return sys.modules["array"].array if "array" in sys.modules else bytearray


def reduce_array(library, numpy, kernel, array):
    if isinstance(array, numpy.memmap) and "mmap" in sys.modules and isinstance(base_of(array), sys.modules["mmap"].mmap):
        return reduce_map(library, kernel, array)
    if array.size == 0 or not shares(array):
        return NotImplemented
    root = root_of(numpy, array)
    if root is array:
        return NotImplemented
    if type(array) not in (numpy.ndarray, numpy.matrix, numpy.recarray, numpy.memmap):
        raise Refused("it shares its memory with another array")
    memory = root if isinstance(root, numpy.ndarray) else numpy.frombuffer(root, "u1")
    if not (memory.flags.c_contiguous or memory.flags.f_contiguous):
        raise Refused("it is a view of an array that is not contiguous")
    if array.dtype.hasobject and (not isinstance(root, numpy.ndarray) or array.dtype != root.dtype):
        raise Refused("it is a view of a part of objects")
    start = memory.__array_interface__["data"][0]
    offset = array.__array_interface__["data"][0] - start
    spans = [(size - 1) * stride for size, stride in zip(array.shape, array.strides)]
    if offset + sum(min(0, span) for span in spans) < 0 or offset + sum(max(0, span) for span in spans) + array.itemsize > memory.nbytes:
        raise Refused("it is a view of more memory than there is")
    return library.make_view, (root, type(array), array.shape, array.dtype, offset, array.strides, array.flags.writeable)


def make_view(root, kind, shape, dtype, offset, strides, writeable):
    import numpy

    if dtype.hasobject:
        flat = root.reshape(-1, order="A")
        if any(stride < 0 for stride in strides):
            # It begins at its lowest element, and is turned round.
            low = offset + sum((size - 1) * stride for size, stride in zip(shape, strides) if stride < 0)
            view = numpy.lib.stride_tricks.as_strided(flat[low // dtype.itemsize :], shape, [abs(stride) for stride in strides])
            view = view[tuple(slice(None, None, -1 if stride < 0 else 1) for stride in strides)]
        else:
            view = numpy.lib.stride_tricks.as_strided(flat[offset // dtype.itemsize :], shape, strides)
        view = view if kind is numpy.ndarray else view.view(kind)
    else:
        source = root.T if isinstance(root, numpy.ndarray) and not root.flags.c_contiguous else root
        view = numpy.ndarray.__new__(kind, shape, dtype, source, offset, strides)
    if kind is numpy.memmap:
        for name in ("_mmap", "filename", "offset", "mode"):
            setattr(view, name, getattr(root, name, None))
    if view.flags.writeable != writeable:
        view.flags.writeable = writeable
    return view


def reduce_map(library, kernel, array):
    if array.mode == "c":
        raise Refused("its changes are in memory alone")
    if array.filename is None:
        raise Refused("it is an open file")
    order = "C" if array.flags.c_contiguous else "F"
    return library.open_map, (pack_path(kernel, str(array.filename)), array.dtype, "r" if array.mode == "r" else "r+", array.offset, array.shape, order)


def open_map(path, dtype, mode, offset, shape, order):
    import numpy

    path, size = unpack_path(Shared.kernel, path), dtype.itemsize
    for each in shape:
        size *= each
    if os.path.getsize(path) < offset + size:
        raise Refused("its file is shorter than it was")
    return numpy.memmap(path, dtype, mode, offset, shape, order)


# --- pandas: where it copies on write, it knows who shares, and what is restored would not know it ---


def copies_on_write(pandas):
    return int(pandas.__version__.split(".")[0]) >= 3 or pandas.get_option("mode.copy_on_write") is True


def reduce_block(block):
    make, arguments = block.__reduce__()
    return make, (block.values.copy(),) + arguments[1:]


def reduce_index(index):
    make, (kind, parts), state = index.__reduce__()
    if "data" not in parts:
        return NotImplemented
    return make, (kind, dict(parts, data=parts["data"].copy())), state


def is_referenced(holder, name):
    references = getattr(holder, name, None)
    return references is not None and references.has_reference()


def find_reducers(library, kernel):
    """[(class, reducer)] of the libraries that are loaded. A reducer may give the value back to pickle."""
    found = []
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if hasattr(numpy, "memmap"):
        found.append((numpy.ndarray, functools.partial(reduce_array, library, numpy, kernel)))
        found.append((numpy.void, lambda value: refuse("it is a view of an array's element")(value) if shares(value) else NotImplemented))
    internals = sys.modules.get("pandas._libs.internals")
    if hasattr(pandas, "Index") and hasattr(internals, "Block") and copies_on_write(pandas):
        found.append((internals.Block, lambda block: reduce_block(block) if is_referenced(block, "refs") else NotImplemented))
        found.append((pandas.Index, lambda index: reduce_index(index) if is_referenced(index, "_references") else NotImplemented))
    return found
