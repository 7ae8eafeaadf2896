# SPDX-License-Identifier: Apache-2.0
# What checkpoint.py keeps of values that pickle would copy, or would make by running the session's code once more. It is embedded behind
# checkpoint.py, as one module with it. Names of these functions stand in checkpoints.
# flake8: noqa: F821

import abc

# Stand-ins for the library's own, and further names in pickles.
HELPERS = (
    "make_cached", "make_cached_property", "make_bare", "make_view", "make_permuted", "make_storage", "make_tensor", "open_map", "singleton", "_make_skeleton_class", "_class_setstate",
)  # fmt: skip


# --- what libraries have under a name: it is imported, not copied ---


def place_of(function):
    """(module, name) of what a library's module has under another name than the function's own, as decorators leave it."""
    module = sys.modules.get(function.__module__)
    if type(module) is not types.ModuleType or module.__dict__ is Shared.kernel.module.__dict__:
        return None
    return next(((module, name) for name, value in list(module.__dict__.items()) if value is function and type(name) is str), None)


def find_singletons(kernel):
    """
    {id: (module, name, name of the class)} of variables that are a library's own objects, as `from LIBRARY import NAME` brings them, and whose class is that
    library's: a copy would be another one than the library's. Modules of the working folder are the session's, with what they hold.
    """
    wanted, found = {}, {}
    for value in list(kernel.module.__dict__.values()):
        home = type.__dict__["__dict__"].__get__(type(value)).get("__module__")
        if type(value) is not types.ModuleType and type(home) is str and home not in ("builtins", "__main__"):
            wanted.setdefault(home.partition(".")[0], {})[id(value)] = value
    own = kernel.first["folder"].rstrip("/") + "/"
    for path, module in list(sys.modules.items()) if wanted else ():
        values = wanted.get(path.partition(".")[0]) if type(path) is str and type(module) is types.ModuleType else None
        if values and not str(module.__dict__.get("__file__")).startswith(own):
            for name, value in list(module.__dict__.items()):
                if id(value) in values:
                    found.setdefault(id(value), (module, name, kernel.name_of(type(value))))
    return found


def singleton(module, name, kind):
    found = getattr(module, name, None)
    if Shared.kernel.name_of(type(found)) != kind:
        raise Refused("%s.%s is another object in a new process" % (module.__name__, name))
    return found


# --- objects whose __new__ needs what pickle does not keep: their state is all that they have ---


def is_made_bare(kind):
    """Pickle would call the class's __new__ without arguments, which it needs. Where a class in C makes the object, that knows its own form."""
    names, is_python = {}, True
    for base in reversed(type.__dict__["__mro__"].__get__(kind)):
        own = type.__dict__["__dict__"].__get__(base)
        is_python = is_python and (base is object or type(own.get("__new__", staticmethod)) in (type, staticmethod, types.FunctionType))
        names.update(own)
    new = getattr(names["__new__"], "__func__", names["__new__"])
    if not is_python or type(new) is not types.FunctionType or {"__getnewargs__", "__getnewargs_ex__"} & set(names):
        return False
    if any(names[name] is not object.__dict__[name] for name in ("__reduce__", "__reduce_ex__")):
        return False
    return new.__code__.co_argcount - len(new.__defaults__ or ()) > 1 or new.__code__.co_kwonlyargcount > len(new.__kwdefaults__ or ())


def reduce_bare(library, value):
    make, (kind, *arguments), *rest = value.__reduce_ex__(PROTOCOL)
    return (library.make_bare, (kind, *arguments), *rest)


def make_bare(kind):
    return object.__new__(kind)


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


def dense_axes(array):
    """The order of axes in which the memory of an array is without gaps, as in copies of transposed ones; None: it has gaps."""
    axes = sorted(range(array.ndim), key=lambda axis: (-array.strides[axis], axis))
    return axes if array.transpose(axes).flags.c_contiguous else None


def make_permuted(dense, axes):
    return dense.transpose([axes.index(axis) for axis in range(len(axes))])


def reduce_array(library, numpy, kernel, array):
    if isinstance(array, numpy.memmap) and "mmap" in sys.modules and isinstance(base_of(array), sys.modules["mmap"].mmap):
        return reduce_map(library, kernel, array)
    if type(array) is numpy.ndarray and array.base is None and not array.flags.forc and not array.dtype.hasobject and dense_axes(array):
        # NumPy would pickle it in the order of its axes, and views count in that of its memory.
        axes = dense_axes(array)
        return library.make_permuted, (array.transpose(axes).copy(), axes)
    if array.size == 0 or not shares(array):
        return NotImplemented
    root = root_of(numpy, array)
    if root is array:
        return NotImplemented
    if type(array) not in (numpy.ndarray, numpy.matrix, numpy.recarray, numpy.memmap):
        raise Refused("it shares its memory with another array")
    memory = root if isinstance(root, numpy.ndarray) else numpy.frombuffer(root, "u1")
    if not memory.flags.forc and (array.dtype.hasobject or not dense_axes(memory)):
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
        source = root.transpose(dense_axes(root)) if isinstance(root, numpy.ndarray) and not root.flags.c_contiguous else root
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


# --- torch: tensors that share memory share it again, and have their gradients ---


class Memory:
    """Memory of tensors and of arrays that one pickler has seen: both may have the same."""

    def __init__(self):
        self.starts, self.parts, self.storages = [], {}, {}

    def find(self, start, size, array=None):
        """What of the other kind has some of it: (where that begins, the array, or None for a tensor). Where nothing has, it is noted."""
        at = bisect.bisect_right(self.starts, start)
        for known in self.starts[max(at - 1, 0) : at + 1]:
            end, owner = self.parts[known]
            if known < start + size and start < end:
                return None if (owner is None) == (array is None) else (known, owner)
        if size:
            self.starts.insert(at, start)
            self.parts[start] = start + size, array
        return None


def untyped(storage):
    """Storages with a type are deprecated, and say so when they are asked."""
    return getattr(storage, "_untyped_storage", getattr(storage, "_storage", storage))


def reduce_tensor(library, torch, memory, tensor):
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
        return NotImplemented
    gradient = tensor.grad if tensor.is_leaf else None
    # The graph of what was computed is of this process: backward() is an error where it is restored.
    make, arguments = (tensor if tensor.is_leaf else tensor.detach()).__reduce_ex__(PROTOCOL)[:2]
    return library.make_tensor, (make, tuple(shared_storage(memory, each) for each in arguments), gradient)


def shared_storage(memory, value):
    """As the pickler knows it: each call of a tensor's storage() gives another object."""
    if type(value) is tuple:
        return tuple(shared_storage(memory, each) for each in value)
    if not type(value).__name__.endswith("Storage"):
        return value
    start, size = untyped(value).data_ptr(), untyped(value).nbytes()
    known = memory.storages.setdefault(start, value) if start else value
    if getattr(known, "dtype", None) != getattr(value, "dtype", None):
        raise Refused("it shares its memory with a tensor of another type")
    memory.find(start, size)
    return known


def reduce_storage(library, memory, storage):
    """Of torch.from_numpy() it is the array's memory."""
    start, size = untyped(storage).data_ptr(), untyped(storage).nbytes()
    found = memory.find(start, size)
    if found is None:
        return NotImplemented
    at, array = found
    whole = type(array).__name__ == "ndarray" and array.flags.forc and array.flags.writeable and at <= start and start + size <= at + array.nbytes
    if not whole or not hasattr(storage, "dtype"):
        raise Refused("it shares its memory with an array")
    return library.make_storage, (array, start - at, size, storage.dtype)


def make_storage(array, offset, size, dtype):
    import numpy
    import torch

    memory = numpy.ndarray((size,), "u1", array if array.flags.c_contiguous else array.T, offset)
    tensor = torch.from_numpy(memory).view(dtype)
    return getattr(tensor, "_typed_storage", tensor.storage)()


def make_tensor(make, arguments, gradient):
    tensor = make(*arguments)
    if gradient is not None:
        tensor.grad = gradient
    return tensor


def reduce_shared_array(reduce, memory, array):
    if not array.dtype.hasobject and memory.find(array.__array_interface__["data"][0], array.nbytes, array) is not None:
        raise Refused("it shares its memory with a tensor")
    return reduce(array)


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
    torch, of_arrays = module_or_none("torch", "Tensor"), functools.partial(reduce_array, library, numpy, kernel)
    if hasattr(torch, "strided"):
        memory = Memory()
        of_arrays = functools.partial(reduce_shared_array, of_arrays, memory)
        found.append((torch.Tensor, functools.partial(reduce_tensor, library, torch, memory)))
        storages = getattr(torch.storage, "TypedStorage", None), getattr(torch.storage, "UntypedStorage", None)
        found += [(kind, functools.partial(reduce_storage, library, memory)) for kind in storages if kind]
    if hasattr(numpy, "memmap"):
        found.append((numpy.ndarray, of_arrays))
        found.append((numpy.void, lambda value: refuse("it is a view of an array's element")(value) if shares(value) else NotImplemented))
    internals = sys.modules.get("pandas._libs.internals")
    if hasattr(pandas, "Index") and hasattr(internals, "Block") and copies_on_write(pandas):
        found.append((internals.Block, lambda block: reduce_block(block) if is_referenced(block, "refs") else NotImplemented))
        found.append((pandas.Index, lambda index: reduce_index(index) if is_referenced(index, "_references") else NotImplemented))
    return found
