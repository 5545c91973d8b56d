"""A server has as many files open at once as the system lets it, and says when these are too few."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from inferwire_server.host.open_files import take_all_that_are_allowed

setrlimit(RLIMIT_NOFILE, (64, 256))
take_all_that_are_allowed()
print(getrlimit(RLIMIT_NOFILE))
"""


def test_the_limit_is_the_one_that_the_system_sets() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "(256, 256)\n"


FULL = """
import asyncio
from contextlib import ExitStack, suppress
from resource import RLIMIT_NOFILE, setrlimit
from structlog.testing import capture_logs
from inferwire_server.host.open_files import tell_when_there_are_too_many

async def tell(logged):
    telling = asyncio.ensure_future(tell_when_there_are_too_many(every_s=0.001))
    with ExitStack() as files:
        with suppress(OSError):
            while True:
                files.enter_context(open("/dev/null"))
        while not logged:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
    while len(logged) < 2:
        await asyncio.sleep(0.001)
    telling.cancel()

setrlimit(RLIMIT_NOFILE, (64, 64))
with capture_logs() as logged:
    asyncio.run(tell(logged))
for line in logged:
    print(line["event"], line.get("reason"))
"""


def test_the_log_says_once_that_there_are_too_many_and_when_there_are_not() -> None:
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        "too many files are open, new connections are closed Too many open files",
        "new connections are taken again None",
    ]
