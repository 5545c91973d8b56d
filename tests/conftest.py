"""What holds for every test: an interrupt interrupts, as in a terminal. And what tests of several folders use."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.busy_threads import BusyThreads

# A shell that starts something in the background may have it ignore interrupts, and all that it starts would too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
async def threads() -> AsyncGenerator[BusyThreads, None]:
    """A single thread for what would hold the loop."""
    with ThreadPoolExecutor(1) as executor:
        asyncio.get_running_loop().set_default_executor(executor)
        busy = BusyThreads(executor)
        yield busy
        busy.leave()
