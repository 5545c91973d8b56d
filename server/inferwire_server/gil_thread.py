"""The thread for work that holds the GIL, Python's interpreter lock, from its beginning to its end.

Such work is to read or write JSON, typed contents of gRPC, and whatever else Python itself computes. What waits, or
frees the GIL, goes to `asyncio.to_thread`: files, compression, copies by numpy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from inferwire_server.call_threads import CallThreads

P = ParamSpec("P")
T = TypeVar("T")


class GilThread:
    """Runs one call after the other, in the order in which they came.

    More threads would compute no more of them at once. Each would be one more that takes the GIL before the event loop,
    whenever that has waited for a socket: behind six, answers to small requests took a hundred times as long.
    """

    def __init__(self) -> None:
        self._threads = CallThreads(1, "gil")

    def __repr__(self) -> str:
        return f"<GilThread: {self.calls} calls>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Cancel the calls that have not begun, and wait for the one that has: it computes, and so it ends."""
        await self._threads.left(None)
        self._threads.shutdown(wait=False)

    @property
    def calls(self) -> int:
        """How many calls there are that have not ended."""
        return self._threads.calls

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call, and give what it gives or raises. Once begun it runs to its end, whether anybody waits or not."""
        work = partial(copy_context().run, call, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
