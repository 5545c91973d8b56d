"""Waits for what nobody tells. Who waits in vain fails, and does not hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from time import monotonic, sleep

LIMIT_S = 60
"""How long anything may take; only something that hangs reaches it."""

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
