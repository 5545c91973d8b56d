"""The end of serving: what is told that it has begun, and how many calls it still waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager


class Drain:
    """Knows whether the server is draining and how many calls run. Lives on the event loop.

    Attributes:
        is_draining: Whether the server sends its callers away.
        is_closed: Whether calls that begin are refused.
    """

    def __init__(self) -> None:
        self.is_draining = False
        self.is_closed = False
        self._running = 0
        self._idle = asyncio.Event()
        self._listeners: set[Callable[[], None]] = set()

    def __repr__(self) -> str:
        return f"<Drain: {'draining' if self.is_draining else 'serving'}, {self._running} calls>"

    @property
    def is_busy(self) -> bool:
        """Whether calls run."""
        return self._running > 0

    def enter(self) -> None:
        """Count a call that begins."""
        self._running += 1

    def leave(self) -> None:
        """Count a call that has ended."""
        self._running -= 1
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
        self.is_draining = True
        for listener in tuple(self._listeners):
            listener()
        if not self.is_busy:
            return 0
        self._idle.clear()
        try:
            async with asyncio.timeout(grace_s):
                await self._idle.wait()
        except TimeoutError:
            return self._running
        # Other calls may have begun since: they are sent away at once.
        return 0

    def close(self) -> None:
        """Have calls refused that begin from now on."""
        self.is_closed = True
