"""Settings for every test, such as how long it may take, and fixtures of several folders."""

import asyncio
import ctypes
import gc
import os
import signal
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from resource import RLIMIT_AS, getpagesize, getrlimit, setrlimit
from tempfile import TemporaryDirectory

import pytest
import trustme
from hypothesis import HealthCheck, settings
from tests.busy_threads import BusyThreads
from tests.waiting import limited

# A process that a shell starts in the background ignores the first two, and one that nohup starts the third; so would
# the processes that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Files that tests write are for users without rights, too, where it is not said otherwise.
os.umask(0o022)

# No test checks how long something takes, and on a busy machine any may take long.
settings.register_profile("untimed", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """Exempt the tests themselves, which are ten thousand, from garbage collection: each run would visit them all."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup() -> Generator[None]:
    with limited():
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call() -> Generator[None]:
    with limited():
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown() -> Generator[None]:
    with limited():
        return (yield)


class SignalStack(ctypes.Structure):
    """What C calls `stack_t`."""

    _fields_ = (("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@pytest.fixture(autouse=True)
def usual_stack() -> None:
    """Have signals handled on the thread's own stack.

    Each `openvino.Core` sets an alternate stack of its own when it loads the CPU plugin, and restores the previous one
    when it is freed. Earlier tests free several in any order, and a signal on a stack that is gone would end the
    process. The thread on which a server takes signals has one `Core` at most, for as long as it lives.
    """
    disabled = 2
    assert ctypes.CDLL(None).sigaltstack(ctypes.byref(SignalStack(None, disabled, 0)), None) == 0


@pytest.fixture
async def threads() -> AsyncGenerator[BusyThreads, None]:
    """A single thread for work that would block the loop."""
    with ThreadPoolExecutor(1) as executor:
        asyncio.get_running_loop().set_default_executor(executor)
        busy = BusyThreads(executor)
        yield busy
        busy.leave()


@pytest.fixture(scope="session")
def private_ca() -> trustme.CA:
    """A certificate authority that no public one knows."""
    return trustme.CA()


@pytest.fixture
def roots(tmp_path: Path, private_ca: trustme.CA) -> Path:
    """The authority's certificate, by which clients trust the certificates that it has signed."""
    private_ca.cert_pem.write_to_path(tmp_path / "roots.pem")
    return tmp_path / "roots.pem"


@pytest.fixture
def readable_by_all() -> Generator[Path]:
    """A folder that users without rights may read, which pytest's own folders are not."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def short_folder() -> Generator[Path]:
    """A folder whose path is short enough for Unix sockets; pytest's own folders may be too deep, and are numbered."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def little_memory() -> Generator[None]:
    """Have room for what is bounded: who reads on in what has no end fails, and neither fills nor ends the machine."""
    soft, hard = getrlimit(RLIMIT_AS)
    used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * getpagesize()
    setrlimit(RLIMIT_AS, (used_bytes + (256 << 20), hard))
    yield
    setrlimit(RLIMIT_AS, (soft, hard))


@contextmanager
def without_rights() -> Generator[None]:
    """Run the block as a user who is bound by permissions, as root is not."""
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        yield
    finally:
        os.seteuid(user)
