"""The turns of calls that fetch what is kept: they cost their caller nothing, and their answers may be very large."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from inferwire_server.transport.http2.outflow import Outflow

MOST_UNTAKEN_BYTES = 16 * 1024 * 1024
"""How many bytes of answers may wait for a caller to take them while a further one is made: enough for what a wide
network carries before the next one is there."""


class FetchTurns:
    """The turns of one connection's calls: one at a time, and none while its peer does not take what was fetched."""

    __slots__ = ("_turn",)

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<FetchTurns: {'taken' if self._turn.locked() else 'free'}>"

    @asynccontextmanager
    async def turn(self, outflow: Outflow) -> AsyncGenerator[None, None]:
        """Have the turn inside the block, which begins once the peer has taken most of what goes out to it."""
        async with self._turn:
            if outflow.unsent > MOST_UNTAKEN_BYTES:
                await _until_taken(outflow)
            yield


async def _until_taken(outflow: Outflow) -> None:
    taken = asyncio.Event()

    def look() -> None:
        if outflow.unsent <= MOST_UNTAKEN_BYTES:
            taken.set()

    outflow.on_fewer = look
    try:
        await taken.wait()
    finally:
        outflow.on_fewer = None
