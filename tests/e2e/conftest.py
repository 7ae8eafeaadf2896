# SPDX-License-Identifier: Apache-2.0
"""The fixtures: `cloud` (a stand-in behind the proxy, empty), `berth` (the binary aimed at it), `offline`."""

import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from binary import Berth, find_binary  # noqa: E402
from cloud import Cloud  # noqa: E402
from runtime_client import Runtime  # noqa: E402
from servers import ProxyServer, Standin  # noqa: E402

FLAVORS = ("ministack", "moto")


def pytest_addoption(parser):
    parser.addoption("--cloud", choices=FLAVORS, help="only this stand-in for AWS")


def pytest_configure(config):
    # What nohup, or a shell's "&", has this process ignore, berth would inherit as ignored; what is caught, it does not.
    for number in (signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    config.addinivalue_line("markers", "only(flavor, reason): the test can only run on this stand-in, for the reason given")


def pytest_generate_tests(metafunc):
    if "cloud" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("only")
        flavors = [only.args[0]] if only else FLAVORS
        chosen = metafunc.config.getoption("--cloud")
        metafunc.parametrize("cloud", [f for f in flavors if chosen in (None, f)], indirect=True)


def pytest_collection_modifyitems(items):
    """
    For runs in several processes (`-n`, tools/test.sh): what takes longest begins first, so that nobody waits for it at the
    end; attacks on the sandbox take turns, since they fill memory and process tables.
    """
    for item in items:
        if "/escape/" in str(item.path):
            item.add_marker(pytest.mark.xdist_group("escape"))
    items.sort(key=lambda item: -(marker.args[0] if (marker := item.get_closest_marker("timeout")) else 0))


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
    """One that runs, in a folder of its own, outside of any sandbox."""
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
def cloud(request, standins, tmp_path):
    standin, proxy = standins(request.param)
    made = Cloud(standin, proxy, tmp_path / "pushes")
    made.reset()
    yield made
    made.assert_no_violations()


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


@pytest.fixture
def offline(binary, tmp_path):
    """The binary with no way to any cloud: a request it makes goes to a port where nobody listens."""
    return Berth(binary, tmp_path, "http://127.0.0.1:1")


@pytest.fixture
def prebuilt(cloud):
    """The image that most stacks of the tests run: {prebuilt: python}. Its digest."""
    return cloud.pushes.amd64("alphaagent/prebuilt/python")
