"""Waits for what nobody tells. Who waits in vain fails, and does not hang."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic, sleep

LIMIT_S = 60
"""How long anything may take; only something that hangs reaches it."""

TEST_LIMIT_S = 300
"""How long a test may take: far longer than any does, and than each of its waits may."""

AGAIN_S = 10
"""How long each wait of its end may take from then on."""

PAUSE_S = 0.001


async def until(holds: Callable[[], object]) -> None:
    """Let the loop and its threads run until a condition holds."""
    for _ in _looks(holds):
        await asyncio.sleep(PAUSE_S)


async def a_turn() -> None:
    """Let the loop make one turn."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_soon(passed.set)
    await passed.wait()


def wait_until(holds: Callable[[], object]) -> None:
    """Let other threads and processes run until a condition holds."""
    for _ in _looks(holds):
        sleep(PAUSE_S)


def _looks(holds: Callable[[], object]) -> Generator[None]:
    give_up = monotonic() + LIMIT_S
    while not holds():
        assert monotonic() < give_up, f"it does not come about within {LIMIT_S} s"
        yield


@contextmanager
def limited() -> Generator[None]:
    """Have each wait fail from some time on, so that a test that waits in vain fails and the run goes on.

    pytest-timeout would interrupt the first wait alone: the end of an executor, say, would then wait without end.
    """

    def fail(*_: object) -> None:
        # Both event loops end by it; uvloop would go on after what `pytest.fail` raises.
        raise SystemExit(f"it hangs: it is not over within {TEST_LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, TEST_LIMIT_S, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
