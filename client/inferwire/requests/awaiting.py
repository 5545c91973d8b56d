"""Hands values from the threads that end executions to the asyncio tasks that await them.

Owns that a loop is told from any thread, and that one which has gone is not. Waking a loop is a call to the system, and
answers come many at once: the first one wakes it for all. Knows no requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class Handover(Generic[T]):
    """One value that any thread hands to the task that made this. A task that was cancelled meanwhile misses it."""

    _is_left = False

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._future: asyncio.Future[T] = loop.create_future()
        self._arrivals = _ARRIVALS.get(id(loop)) or _Arrivals(loop)

    def __repr__(self) -> str:
        return f"<Handover: {'done' if self._future.done() else 'awaited'}>"

    def give(self, value: T) -> bool:
        """Give the value; false where the task has left, or its loop has gone."""
        return not self._is_left and self._arrivals.put(self._future, value)

    async def wait(self) -> T:
        """Wait for the value; no thread does."""
        return await self._future

    def leave(self) -> None:
        """Wait no more. What is given at this moment the task may miss."""
        self._is_left = True


class _Arrivals:
    """What threads have given to the tasks of a loop, until it has a turn. There as long as anything may be given."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[asyncio.Future[Any], Any]] = deque()
        self._is_loop_woken = False
        _ARRIVALS[id(loop)] = self

    def put(self, future: asyncio.Future[T], value: T) -> bool:
        """Have the loop give a future its value; false if it has gone."""
        if self._loop.is_closed():
            return False
        self._waiting.append((future, value))
        # The loop takes back that it is woken, and then looks at what waits: it sees this, or this thread sees that.
        if not self._is_loop_woken:
            self._is_loop_woken = True
            try:
                self._loop.call_soon_threadsafe(self._arrive)
            except RuntimeError:
                # It has been closed since.
                return False
        return True

    def _arrive(self) -> None:
        self._is_loop_woken = False
        while self._waiting:
            future, value = self._waiting.popleft()
            if not future.cancelled():
                future.set_result(value)


_ARRIVALS: WeakValueDictionary[int, _Arrivals] = WeakValueDictionary()
"""Those of each loop, by its identity: no other loop has it, since they have the loop."""
