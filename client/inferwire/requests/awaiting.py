"""Hands values from the threads that end executions to the asyncio tasks that await them.

Owns how any thread tells an event loop, and that a loop which has been closed is not told. Waking a loop is a system
call, and answers come many at once, so the first one wakes it for all. Knows no requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class Handover(Generic[T]):
    """One value that any thread hands to the task that made this. A task that is cancelled first misses the value."""

    _has_left = False

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._future: asyncio.Future[T] = loop.create_future()
        self._arrivals = _ARRIVALS.get(id(loop)) or _Arrivals(loop)

    def __repr__(self) -> str:
        return f"<Handover: {'done' if self._future.done() else 'awaited'}>"

    def give(self, value: T) -> bool:
        """Give the value; return False if the task has left or its loop is closed."""
        return not self._has_left and self._arrivals.put(self._future, value)

    async def wait(self) -> T:
        """Await the value, without blocking a thread."""
        return await self._future

    def leave(self) -> None:
        """Stop waiting. The task may miss a value that is given at this very moment."""
        self._has_left = True


class _Arrivals:
    """Values that threads have given to the tasks of one loop, until it has a turn. Lives as long as its handovers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[asyncio.Future[Any], Any]] = deque()
        self._is_loop_woken = False
        _ARRIVALS[id(loop)] = self

    def put(self, future: asyncio.Future[T], value: T) -> bool:
        """Have the loop give a future its value; return False if the loop is closed."""
        if self._loop.is_closed():
            return False
        self._waiting.append((future, value))
        # The loop clears the flag and then looks at what waits: it sees this value, or this thread sees the flag clear.
        if not self._is_loop_woken:
            self._is_loop_woken = True
            try:
                self._loop.call_soon_threadsafe(self._arrive)
            except RuntimeError:
                # It has been closed since.
                return False
        return True

    def _arrive(self) -> None:
        try:
            self._is_loop_woken = False
            while self._waiting:
                future, value = self._waiting[0]
                if not future.done():
                    future.set_result(value)
                self._waiting.popleft()
        except BaseException:
            # A signal handler has raised between two of these steps. No other call gives what still waits.
            self._loop.call_soon(self._arrive)
            raise


_ARRIVALS: WeakValueDictionary[int, _Arrivals] = WeakValueDictionary()
"""The arrivals of each loop, by the loop's `id`. No other loop can get that id, because the arrivals keep the loop."""
