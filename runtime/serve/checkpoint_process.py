# SPDX-License-Identifier: Apache-2.0
# What checkpoint.py keeps of the process beside its variables: entries of their own. It is embedded behind checkpoint.py, as one module
# with it. Each is read, and written in a kernel that is new; names say in Python's own words what is lost where one cannot be kept.
# flake8: noqa: F821

# What libraries leave in the folder for temporary files by themselves.
OWN_FILES = ("matplotlib-", "pymp-", "tmp-joblib", ".")
FOLDERS = ("/workspace", "/tmp/workspace")  # of sandboxes, and of Lambda: what else is in /tmp is theirs


def pack_path(kernel, path):
    """Below the folder that the kernel was started in: as it is seen from there."""
    first = kernel.first["folder"]
    return (True, os.path.relpath(path, first)) if path == first or path.startswith(first.rstrip("/") + "/") else (False, path)


def unpack_path(kernel, packed):
    return os.path.join(kernel.first["folder"], packed[1]) if packed[0] else packed[1]


# --- before variables ---


def read_folder(kernel):
    folder = os.getcwd()
    return None if folder == kernel.first["folder"] else pack_path(kernel, folder)


def write_folder(kernel, packed):
    os.chdir(unpack_path(kernel, packed))


def read_environ(kernel):
    first, now = kernel.first["environ"], dict(os.environ)
    changed = {name: value for name, value in now.items() if first.get(name) != value}
    gone = [name for name in first if name not in now]
    return (changed, gone) if changed or gone else None


def write_environ(kernel, found):
    for name in found[1]:
        os.environ.pop(name, None)
    os.environ.update(found[0])


def read_path(kernel):
    return None if sys.path == kernel.first["path"] else (list(sys.path), kernel.first["path"])


def write_path(kernel, found):
    """What the session has put there, and has taken away; the rest is what this Python has."""
    path, first = found
    own = kernel.first["path"]
    sys.path[:] = [each for each in path if each in own or each not in first] + [each for each in own if each not in path and each not in first]


def read_umask(kernel):
    mask = os.umask(0o77)
    os.umask(mask)
    return None if mask == kernel.first["umask"] else mask


def write_zone(kernel, names):
    if time.tzname != names:
        time.tzset()


def read_recursion(kernel):
    return None if Shared.recursion_limit == 1000 else Shared.recursion_limit


def read_locale(kernel):
    return sys.modules["locale"].setlocale(6) if "locale" in sys.modules else None  # LC_ALL


def write_locale(kernel, found):
    import locale

    if locale.setlocale(6) != found:
        locale.setlocale(6, found)


# --- behind them, since modules that are imported for variables set their own ---


def module_or_none(name, attribute):
    """As user code has it, and whole."""
    module = sys.modules.get(name)
    return module if hasattr(module, attribute) else None


def write_random(kernel, found):
    import random

    random.setstate(found)


def read_numpy_random(kernel):
    module = module_or_none("numpy.random", "get_state")
    return module and module.get_state()


def write_numpy_random(kernel, found):
    import numpy.random

    numpy.random.set_state(found)


def read_print_options(kernel):
    module = module_or_none("numpy", "get_printoptions")
    return module and (module.get_printoptions(), module.geterr())


def write_print_options(kernel, found):
    import numpy

    if numpy.get_printoptions() != found[0]:
        numpy.set_printoptions(**found[0])
    numpy.seterr(**found[1])


def read_pandas(kernel):
    known = getattr(sys.modules.get("pandas._config.config"), "_registered_options", None)
    if not known:
        return None
    found = {}
    for key, option in known.items():
        value = sys.modules["pandas._config.config"]._get_root(key)
        value = value[0][value[1]]
        if value is not option.defval and value != option.defval:
            found[key] = value
    return found or None


def write_pandas(kernel, found):
    import warnings

    import pandas

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for key, value in found.items():
            pandas.set_option(key, value)


def read_parameters(kernel):
    module = module_or_none("matplotlib", "rcParamsOrig")
    if module is None:
        return None
    first, now = dict.copy(module.rcParamsOrig), dict.copy(module.rcParams)
    return {key: value for key, value in now.items() if not key.startswith("backend") and value != first.get(key)} or None


def write_parameters(kernel, found):
    import warnings

    import matplotlib

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matplotlib.rcParams.update(found)


def read_epoch(kernel):
    return getattr(sys.modules.get("matplotlib.dates"), "_epoch", None)


def write_epoch(kernel, found):
    import matplotlib.dates

    if matplotlib.dates._epoch != found:
        matplotlib.dates.set_epoch(found)


def read_torch_random(kernel):
    module = module_or_none("torch", "get_rng_state")
    return module and module.get_rng_state()


def write_torch_random(kernel, found):
    import torch

    torch.set_rng_state(found)


def read_torch(kernel):
    """What differs from a new process: type of new tensors, gradients, deterministic algorithms, how tensors are printed."""
    module = module_or_none("torch", "get_default_dtype")
    if module is None:
        return None
    options = {name: getattr(module._tensor_str.PRINT_OPTS, name) for name in TORCH_OPTIONS}
    found = module.get_default_dtype(), module.is_grad_enabled(), module.are_deterministic_algorithms_enabled(), options
    return None if found == (module.float32, True, False, TORCH_OPTIONS) else found


# torch.set_printoptions(profile="default")
TORCH_OPTIONS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


def write_torch(kernel, found):
    import torch

    torch.set_default_dtype(found[0])
    torch.set_grad_enabled(found[1])
    torch.use_deterministic_algorithms(found[2])
    torch.set_printoptions(**found[3])


def read_mpmath(kernel):
    """Its precision. A number has its own, and functions use that of one context."""
    module = module_or_none("mpmath", "mp")
    return None if module is None or module.mp.prec == 53 else module.mp.prec


def write_mpmath(kernel, found):
    import mpmath

    mpmath.mp.prec = found


def read_decimal(kernel):
    module = module_or_none("decimal", "DefaultContext")
    context = module and module.getcontext()
    return None if module is None or repr(context) == repr(module.DefaultContext) else context


def write_decimal(kernel, found):
    import decimal

    decimal.setcontext(found)


def read_filters(kernel):
    """Of a category the module is told, which need not be imported for it: what warns of it will import it."""
    module = module_or_none("warnings", "filters")
    return module and [(action, text, category.__module__, category.__qualname__, where, line) for action, text, category, where, line in module.filters]


def write_filters(kernel, found):
    import warnings

    filters = []
    for action, text, module, name, where, line in found:
        category = sys.modules.get(module)
        for part in name.split("."):
            category = getattr(category, part, None)
        if isinstance(category, type):
            filters.append((action, text, category, where, line))
    if warnings.filters != filters:
        warnings.resetwarnings()
        warnings.filters[:] = filters


STREAMS = ("stdout", "stderr")


def read_handler(logging, handler):
    """(class, what it writes to, its level, formatter, filters), or None: another kind."""
    kind, to = type(handler), None
    if kind is logging.StreamHandler:
        to = next((name for name in STREAMS if handler.stream in (getattr(sys, name), getattr(sys, "__%s__" % name))), None)
        if to is None:
            return None
    elif kind is logging.FileHandler:
        to = (pack_path(Shared.kernel, handler.baseFilename), handler.encoding, handler.errors)
    elif kind is not logging.NullHandler:
        return None
    return kind.__name__, to, handler.level, handler.formatter, handler.filters


def write_handler(logger, found):
    import logging

    name, to, level, formatter, filters = found
    there = [each for each in logger.handlers if type(each).__name__ == name]
    if name == "NullHandler" and logger.handlers:
        return
    if name == "StreamHandler" and any(each.stream in (getattr(sys, to), getattr(sys, "__%s__" % to)) for each in there):
        return  # a library has attached it as it was imported
    if name == "FileHandler":
        path = unpack_path(Shared.kernel, to[0])
        if any(each.baseFilename == path for each in there):
            return
        handler = logging.FileHandler(path, "a", to[1], True, to[2])
    else:
        handler = logging.NullHandler() if name == "NullHandler" else logging.StreamHandler(getattr(sys, to))
    handler.setLevel(level)
    handler.setFormatter(formatter)
    handler.filters = filters
    logger.addHandler(handler)


def loggers(logging):
    yield "root", logging.root
    for name, logger in sorted(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            yield name, logger


def read_levels(kernel):
    """{logger: (level, propagate, disabled)}, and the least level of all."""
    logging = module_or_none("logging", "root")
    if logging is None:
        return None
    found = {name: (logger.level, logger.propagate, logger.disabled) for name, logger in loggers(logging)}
    return logging.root.manager.disable, found, getattr(logging, "_warnings_showwarning", None) is not None


def logger_of(logging, name):
    return logging.root if name == "root" else logging.getLogger(name)


def write_levels(kernel, found):
    import logging

    logging.disable(found[0])
    for name, (level, propagate, disabled) in found[1].items():
        logger = logger_of(logging, name)
        logger.propagate, logger.disabled = propagate, disabled
        logger.setLevel(level)
    if found[2]:
        logging.captureWarnings(True)


def write_handlers(kernel, found):
    import logging

    for name, handler in found:
        write_handler(logger_of(logging, name), handler)


FIRST = {
    "os.getcwd()": (read_folder, write_folder),
    "os.environ": (read_environ, write_environ),
    "sys.path": (read_path, write_path),
    "os.umask()": (read_umask, lambda kernel, mask: os.umask(mask)),
    "time.tzset()": (lambda kernel: time.tzname, write_zone),
    "sys.getrecursionlimit()": (read_recursion, lambda kernel, limit: sys.setrecursionlimit(limit)),
    "locale.setlocale()": (read_locale, write_locale),
}
LAST = {
    "random.getstate()": (lambda kernel: Shared.before["random"], write_random),
    "numpy.random.get_state()": (read_numpy_random, write_numpy_random),
    "numpy.get_printoptions()": (read_print_options, write_print_options),
    "pandas.options": (read_pandas, write_pandas),
    "matplotlib.rcParams": (read_parameters, write_parameters),
    "matplotlib.dates.get_epoch()": (read_epoch, write_epoch),
    "torch.get_rng_state()": (read_torch_random, write_torch_random),
    "torch.get_default_dtype()": (read_torch, write_torch),
    "mpmath.mp.prec": (read_mpmath, write_mpmath),
    "decimal.getcontext()": (read_decimal, write_decimal),
    "logging": (read_levels, write_levels),
}


def read_handlers(kernel):
    """[(name, how it is read)] of each handler of a logger."""
    logging = module_or_none("logging", "root")
    for name, logger in loggers(logging) if logging else ():
        for handler in logger.handlers:
            yield "logging.getLogger(%r).handlers: %s" % (name, type(handler).__name__), functools.partial(read_one_handler, logging, name, handler)


def read_one_handler(logging, name, handler, kernel):
    found = read_handler(logging, handler)
    if found is None:
        raise Refused("a handler of this kind cannot be made again")
    return name, found


def read_signals(kernel):
    signals = sys.modules.get("signal")
    for number in signals.valid_signals() if signals else ():
        handler = signals.getsignal(number)
        if callable(handler) and handler is not kernel.on_interrupt and handler is not signals.default_int_handler and number != signals.SIGALRM:
            yield "signal.signal(%s)" % signals.Signals(number).name, functools.partial(lambda number, handler, kernel: (number, handler), int(number), handler)


def read_builtins(kernel):
    """But for what libraries in C keep there (pybind11)."""
    for name, value in list(vars(builtins).items()):
        if type(name) is str and name != "_" and kernel.saved_builtins.get(name, kernel) is not value and type(value).__name__ != "PyCapsule":
            yield "builtins.%s" % name, functools.partial(lambda name, value, kernel: (name, value), name, value)


# By the beginning of their names.
MANY = {
    "logging.getLogger(": (read_handlers, lambda kernel, found: write_handlers(kernel, [found])),
    "signal.signal(": (read_signals, lambda kernel, found: signal.signal(*found)),
    "builtins.": (read_builtins, lambda kernel, found: setattr(builtins, *found)),
}
# Last of all: what is imported for the others may set filters, or warn.
END = {"warnings.filters": (read_filters, write_filters)}


def surroundings(kernel, table):
    """[(name, how it is read)]"""
    found = [(name, read) for name, (read, write) in table.items()]
    if table is LAST:
        for read, write in MANY.values():
            found += read(kernel)
        found += [(name, read) for name, (read, write) in END.items()]
    return found


def write_surrounding(kernel, name, value):
    for table in (FIRST, LAST, END):
        if name in table:
            return table[name][1](kernel, value)
    for begin, (read, write) in MANY.items():
        if name.startswith(begin):
            return write(kernel, value)
    if name == SOURCES:
        return write_sources(kernel, value)
    raise Broken("a state of the process that is not known: %s" % name)


SOURCES = "inspect.getsource()"


def read_sources(kernel, files):
    """Texts of the executions that the kept functions are from."""
    found = {name: "".join(kernel.state.sources[name][2]) for name in sorted(files) if name in kernel.state.sources}
    return found or None


def write_sources(kernel, found):
    for name, text in found.items():
        if name not in kernel.state.sources:
            kernel.remember_source(name, text)


def before_fork():
    """Resets the state that a fork changes in the child: Python seeds there again, and threads do not exist there."""
    random, threading = module_or_none("random", "getstate"), module_or_none("threading", "_active")
    pools = sys.modules.get("concurrent.futures.thread")
    others = [each for number, each in list(threading._active.items()) if number != threading.main_thread().ident] if threading else []
    # Workers of pools wait for work, and have none.
    names = [str(each.name) for each in others if getattr(each, "_target", None) is not getattr(pools, "_worker", pools)]
    return {"random": random and random.getstate(), "threads": names[:NAMES_MAX]}


def left_behind(kernel, head):
    """What ends with the sandbox and is not in any variable. [loss]"""
    lost = [describe_loss(kernel, "thread %r" % name, None, Refused("it ends with its sandbox")) for name in head["before"]["threads"]]
    if kernel.first["folder"] in FOLDERS:
        kept = kernel.first["folder"].split("/")[-1]
        for name in sorted(os.listdir("/tmp")):
            if not name.startswith(OWN_FILES) and name != kept:
                lost.append(describe_loss(kernel, "/tmp/%s" % name, None, Refused("it is outside of the workspace")))
    return lost
