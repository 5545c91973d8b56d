"""Between the threads that end executions and the event loops that wait for them.

Owns that a loop is told from any thread, and that one which has gone is not. Knows no requests.
"""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Handover(Generic[T]):
    """One value that any thread hands to the task that made this. A task that was cancelled meanwhile misses it."""

    _is_left = False

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[T] = self._loop.create_future()

    def __repr__(self) -> str:
        return f"<Handover: {'done' if self._future.done() else 'awaited'}>"

    def give(self, value: T) -> bool:
        """Give the value; false where the task has left, or its loop has gone."""
        if self._is_left:
            return False
        try:
            self._loop.call_soon_threadsafe(self._arrive, value)
        except RuntimeError:
            return False
        return True

    async def wait(self) -> T:
        """Wait for the value; no thread does."""
        return await self._future

    def leave(self) -> None:
        """Wait no more. What is given at this moment the task may miss."""
        self._is_left = True

    def _arrive(self, value: T) -> None:
        if not self._future.cancelled():
            self._future.set_result(value)
