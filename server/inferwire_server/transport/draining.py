"""The end of serving: who is told that it has begun, and which calls it still waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic
from typing import NoReturn

from inferwire_server.errors import shutting_down

_BUSY_S = 1.0
"""How long after its last call a server still expects the next."""


class Drain:
    """Knows whether the server is draining and how many calls run. Lives on the event loop."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._is_draining = False
        self._running = 0
        self._last_left = float("-inf")
        self._let_go: asyncio.Event | None = None
        self._idle = asyncio.Event()
        self._listeners: set[Callable[[], None]] = set()

    def __repr__(self) -> str:
        return f"<Drain: {'draining' if self._is_draining else 'serving'}, {self._running} calls>"

    @property
    def is_draining(self) -> bool:
        """Whether the server sends its callers away."""
        return self._is_draining

    @property
    def is_busy(self) -> bool:
        """Whether calls run, or one may come any moment since another has just ended."""
        return self._running > 0 or self._clock() - self._last_left < _BUSY_S

    @property
    def holds(self) -> bool:
        """Whether a call that begins is to wait for its refusal."""
        return self._let_go is not None

    def enter(self) -> None:
        """Count a call that begins."""
        self._running += 1

    def leave(self) -> None:
        """Count a call that has ended."""
        self._running -= 1
        self._last_left = self._clock()
        if self._running == 0:
            self._idle.set()

    @contextmanager
    def notifying(self, listener: Callable[[], None]) -> Generator[None, None, None]:
        """Call back when draining begins: a stream that waits for its peer would not notice."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)

    async def drain(self, grace_s: float) -> int:
        """Send callers away, wait until no call runs, and give how many still did when the time was up."""
        self._is_draining = True
        for listener in tuple(self._listeners):
            listener()
        if not self._running:
            return 0
        self._idle.clear()
        try:
            async with asyncio.timeout(grace_s):
                await self._idle.wait()
        except TimeoutError:
            return self._running
        # Others may have begun since: they are sent away at once.
        return 0

    @contextmanager
    def holding(self) -> Generator[None, None, None]:
        """Have calls that begin wait until the block is left, and refuse them then."""
        self._let_go = asyncio.Event()
        try:
            yield
        finally:
            self._let_go.set()

    async def refuse(self) -> NoReturn:
        """End a call that has begun while calls are held.

        Raises:
            ServingError: SHUTTING_DOWN, once calls are let go.
        """
        if self._let_go is not None:
            await self._let_go.wait()
        raise shutting_down()
