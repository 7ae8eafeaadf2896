# SPDX-License-Identifier: Apache-2.0
"""The fixtures: `cloud` (a stand-in behind the proxy, empty), `berth` (the binary aimed at it), `offline`."""

import collections
import functools
import os
import random
import re
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import quick  # noqa: E402
import reruns  # noqa: E402
import routes  # noqa: E402
from binary import Berth, find_binary  # noqa: E402
from cloud import Cloud  # noqa: E402
from places import open_place  # noqa: E402
from runtime_client import Runtime  # noqa: E402
from servers import ProxyServer, Standin  # noqa: E402
from serving import Serve  # noqa: E402

FLAVORS = ("ministack", "moto")
PLACES = ("local", "aws")
# Of each file's tests of sessions, so many at least run on AWS each time, and those that ask all routes that any asks (routes.py). Of files that
# have a sample on one stand-in, as many in all. All of them with BERTH_EXHAUSTIVE=1.
ON_AWS = 4
ON_STANDIN = 6
# Of a test without a timeout of its own: about a hundredth of the timeouts that others have, which are for the slowest machines.
TYPICAL_S = 3


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="only the tests of quick.txt")
    parser.addoption("--listed-reruns", action="store_true", help="what fails is run once more, by reruns.txt")
    parser.addoption("--cloud", choices=FLAVORS, help="only this stand-in for AWS")


def pytest_configure(config):
    if os.environ.get("BERTH_VERBS"):
        quick.record_verbs(os.environ["BERTH_VERBS"])
    if config.getoption("--listed-reruns"):
        config.pluginmanager.register(reruns.Reruns())
    # What nohup, or a shell's "&", has this process ignore, berth would inherit as ignored; what is caught, it does not.
    for number in (signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    config.addinivalue_line("markers", "only(flavor, reason): the test can only run on this stand-in, for the reason given")
    config.addinivalue_line("markers", "sampled(flavor): on this stand-in only some of the file's tests, all with --cloud or BERTH_EXHAUSTIVE=1")
    config.addinivalue_line("markers", "here(reason): the test is about sessions on this machine, and runs on no other place")


def _processors():
    """How long those of the machine have worked, and how long they have been there, in all."""
    times = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(times) - sum(times[3:5]), sum(times)  # idle, and waiting for a disk


_began = _processors()


def pytest_terminal_summary(terminalreporter):
    """More processes (workers() in tools/test.sh) make the suite faster where this is well below 100."""
    if not terminalreporter.config.getoption("numprocesses", None):
        return
    busy, there = (now - then for now, then in zip(_processors(), _began))
    terminalreporter.write_line(f"the machine's processors were busy for {100 * busy // max(1, there)} % of this time")


def pytest_generate_tests(metafunc):
    if "cloud" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("only")
        flavors = [only.args[0]] if only else FLAVORS
        chosen = metafunc.config.getoption("--cloud")
        metafunc.parametrize("cloud", [f for f in flavors if chosen in (None, f)], indirect=True)


# Attacks on the sandbox that fill memory and process tables take turns.
TAKE_TURNS = ("escape/test_limits.py", "escape/test_kernel_memory.py")


# A fixture of a whole file, with its name.
SHARED = re.compile(r'@pytest\.fixture\(scope="module".*\ndef (\w+)')


@functools.cache
def shared_of(lib):
    """The names of those in a module of lib/."""
    return SHARED.findall((Path(__file__).parent / lib.replace(".", "/")).with_suffix(".py").read_text())


@functools.cache
def unit_of_file(file):
    """In runs in several processes (`-n`, tools/test.sh): the name of those tests that go to one of them together, or None."""
    if file.endswith(TAKE_TURNS):
        return "take turns"
    text = (Path(__file__).parent / file).read_text()
    imported = re.findall(r"^from (lib\.\w+) import (.*)", text, re.MULTILINE)
    shares = 'scope="module"' in text or 'scope="session"' in text
    return file if shares or any(re.search(rf"\b{name}\b", names) for lib, names in imported for name in shared_of(lib)) else None


def unit_of(nodeid):
    """Tests of a file that shares what is slow to make are made for one process: it would be made in each."""
    return unit_of_file(nodeid.partition("::")[0]) or nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    # By names alone: xdist's own groups, which it adds to a test's name, are lost on pytest 9.
    from xdist.scheduler import LoadScopeScheduling

    class Units(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return unit_of(nodeid)

    config.option.loadscopereorder = False  # as pytest_collection_modifyitems() has them
    return Units(config, log)


def _is_sampled(item, chosen):
    """Whether it runs on AWS, or on a stand-in, only where it is in its file's sample."""
    params, marker = item.callspec.params if hasattr(item, "callspec") else {}, item.get_closest_marker("sampled")
    return params.get("place") == "aws" or (marker and not chosen and params.get("cloud") == marker.args[0])


def _beyond_the_routes(items):
    """Of tests of sessions on AWS those that ask nothing which others do not."""
    chosen = routes.choose(sorted(routes.name_of(item) for item in items), routes.read(), ON_AWS)
    return [item for item in items if routes.name_of(item) not in chosen]


def _beyond_the_sample(items, chosen):
    """Tests that run on both places and are left out on AWS: tests of this machine, and tests beyond the sample (BERTH_SEED)."""
    by_file, of_places, out = collections.defaultdict(list), [], []
    for item in items:
        if not _is_sampled(item, chosen):
            continue
        if item.get_closest_marker("here"):
            out.append(item)
        elif item.callspec.params.get("place") == "aws":
            of_places.append(item)
        else:
            by_file[item.nodeid.partition("::")[0]].append(item)
    if os.environ.get("BERTH_EXHAUSTIVE"):
        return out
    seed = os.environ.get("BERTH_SEED", "2026-11-21")
    for file, found in by_file.items():
        out += random.Random(seed + file).sample(found, max(0, len(found) - ON_STANDIN))
    return out + _beyond_the_routes(of_places)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """With BERTH_ROUTES: what the test asks of servers is added to that file."""
    path = os.environ.get("BERTH_ROUTES")
    before = routes.asked(Serve.running) if path else None
    yield
    if path:
        routes.record(path, item, before, routes.asked(Serve.running))


def pytest_collection_modifyitems(config, items):
    """The longest units begin first, so that no worker waits for them at the end: units by what their tests may take in all."""
    if config.getoption("--quick"):
        try:
            kept = {id(item) for item in quick.select(items)}
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None
        left_out = {id(item) for item in items} - kept
    else:
        left_out = {id(item) for item in _beyond_the_sample(items, config.getoption("--cloud"))}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
        items[:] = [item for item in items if id(item) not in left_out]
    weights = collections.Counter()
    for item in items:
        marker = item.get_closest_marker("timeout")
        weights[unit_of(item.nodeid)] += marker.args[0] if marker else TYPICAL_S
    items.sort(key=lambda item: -weights[unit_of(item.nodeid)])


@pytest.fixture(scope="session")
def program(binary):
    """berth-runtime of the same build; with sanitizers where that has them."""
    found = binary.parent / "berth-runtime-checked"
    found = found if found.is_file() else binary.parent / "berth-runtime"
    if not found.is_file():
        pytest.fail("berth-runtime is not built beside berth")
    return found


@pytest.fixture
def runtime(program):
    """A runtime that runs, in a folder of its own, outside of any sandbox."""
    with Runtime(program) as made:
        yield made
        assert made.close() == 0, made.said
        assert made.said == ""


@pytest.fixture(scope="session")
def standins():
    """flavor -> (stand-in, proxy), each started at its first use and ended with the session."""
    running = {}

    def get(flavor):
        if flavor not in running:
            standin = Standin(flavor)
            running[flavor] = (standin, ProxyServer(standin))
        return running[flavor]

    yield get
    for standin, proxy in running.values():
        proxy.stop()
        standin.stop()


@pytest.fixture
def cloud(request, standins):
    standin, proxy = standins(request.param)
    made = Cloud(standin, proxy)
    made.reset()
    yield made
    made.assert_no_violations()


@pytest.fixture(scope="module", params=PLACES)
def place(request, standins):
    """Where sessions run, one after the other (places.py): most tests of sessions hold on this machine and on AWS."""
    made = open_place(request.param, standins, request.config.getoption("--cloud") or FLAVORS[0])
    yield made
    made.close()


@pytest.fixture(scope="session")
def binary():
    found = find_binary()
    if found is None:
        pytest.fail("no berth binary: build one, or set BERTH_BIN")
    return found


@pytest.fixture
def berth(binary, tmp_path, cloud):
    """The binary, aimed at the cloud's proxy."""
    return Berth(binary, tmp_path, cloud.url)


def drop_disks(folder):
    """Agents' workspaces are files of their whole size: what every test leaves of them would fill a disk."""
    for disk in folder.glob("stack/.berth/local/*/workspaces/agents/*/*/*/disk"):
        disk.unlink()


@pytest.fixture
def offline(binary, tmp_path):
    """The binary with no way to any cloud: a request it makes goes to a port where no server listens."""
    yield Berth(binary, tmp_path, "http://127.0.0.1:1")
    drop_disks(tmp_path)


@pytest.fixture
def prebuilt(cloud):
    """The image that most stacks of the tests run: {prebuilt: python}. Its digest."""
    return cloud.pushes.amd64("alphaagent/prebuilt/python")
