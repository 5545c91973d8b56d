"""Frees memory on threads of its own: the larger it is, the longer that takes, which is too long for the event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Protocol

from inferwire_server.engine.thread_pool import NoThread, ThreadPool

FREED_AT_ONCE = 4
"""How many things a device frees at once. A client that goes may leave thousands of states, and one that takes long to
free is not to keep the rest waiting."""


class Memory(Protocol):
    """Something that takes longer to free the larger it is."""

    def free(self) -> None:
        """Free it, on a thread."""
        ...


class Freeing:
    """What a device is freeing, and the threads that do so. Lives on one event loop."""

    def __init__(self, device: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPool(f"free-{device}", FREED_AT_ONCE)
        self._under_way: set[asyncio.Future[None]] = set()
        self._is_waited_for = True

    def __repr__(self) -> str:
        return f"<Freeing: {len(self._under_way)} under way>"

    @property
    def under_way(self) -> tuple[asyncio.Future[None], ...]:
        """The ends of what is being freed."""
        return tuple(self._under_way)

    def begin(self, memory: Memory) -> asyncio.Future[None]:
        """Free something on a thread, or on the loop if there is no thread, and give a future that is done then.

        After `let_nobody_wait` the future is done from the start.
        """
        freed: asyncio.Future[None] = self._loop.create_future()
        self._under_way.add(freed)
        freed.add_done_callback(self._under_way.discard)
        # In a later turn of the loop: a callback that is running now may hold a slot of the model, and if that were the
        # last reference, the loop would free the model.
        self._loop.call_soon(self._hand_over, memory, freed)
        if not self._is_waited_for:
            resolve(freed)
        return freed

    def let_nobody_wait(self) -> None:
        """Report everything as freed at once, because the process is about to end and its memory goes with it.

        OpenVINO looks through all of the process's memory for each model that it frees. For two hundred models that
        takes seconds.
        """
        self._is_waited_for = False
        for freed in self.under_way:
            resolve(freed)

    def close(self) -> None:
        """End the threads once they have freed what they were given."""
        self._threads.close()

    def _hand_over(self, memory: Memory, freed: asyncio.Future[None]) -> None:
        try:
            self._threads.run(partial(self._free_on_thread, memory, freed))
        except NoThread:
            memory.free()
            resolve(freed)

    def _free_on_thread(self, memory: Memory, freed: asyncio.Future[None]) -> None:
        memory.free()
        # The event loop may have ended meanwhile if nobody waited for this.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._report, freed)

    def _report(self, freed: asyncio.Future[None]) -> None:
        self._threads.done()
        resolve(freed)


def resolve(end: asyncio.Future[None]) -> None:
    """Mark a future as done, unless it is: a waiter that was cancelled has cancelled its future."""
    if not end.done():
        end.set_result(None)
