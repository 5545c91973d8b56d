"""The thread for calls that hold the GIL, which a test keeps busy, so that further calls on it wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from threading import Event

from tests.waiting import until

from inferwire_server.gil_thread import GilThread


@asynccontextmanager
async def occupied(thread: GilThread) -> AsyncGenerator[Callable[[int], Awaitable[None]], None]:
    """Keep the thread busy in the block, and give a function that waits until so many calls wait for the thread."""
    may_go = Event()
    occupying = asyncio.ensure_future(thread.run(may_go.wait))

    async def wait_for(calls: int) -> None:
        await until(lambda: thread.calls == calls + 1)

    try:
        await wait_for(0)
        yield wait_for
    finally:
        may_go.set()
        await occupying
