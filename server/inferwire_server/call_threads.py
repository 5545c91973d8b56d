"""Thread pools for calls that may hang: a pool knows which calls have not ended, and waits for them only so long.

A call to a device or a file system may hang and cannot be cancelled, and the event loop would wait for it as it closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError

P = ParamSpec("P")
T = TypeVar("T")


class CallThreads(ThreadPoolExecutor):
    """An executor which knows the calls that have not ended. The loop's default executor is one.

    It has a thread from the start: if the system gives no more threads, calls wait for the ones that there are.
    """

    def __init__(self, limit: int | None = None, name: str = "call") -> None:
        """Start a thread.

        Raises:
            ServingError: INTERNAL if the system gives none.
        """
        super().__init__(limit, name)
        self._given: dict[Future[Any], Callable[..., Any]] = {}
        try:
            super().submit(int)
        except (RuntimeError, MemoryError) as error:
            reason = f"no thread could be started: {error or 'out of memory'}"
            raise ServingError(Code.INTERNAL, reason) from error

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.calls} calls>"

    @property
    def calls(self) -> int:
        """How many calls there are that have not ended."""
        return len(self._given)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call on a thread, and give what it gives or raises. Once begun it runs to its end, awaited or not."""
        return await asyncio.wrap_future(self.begin(call, *args, **kwargs))

    def begin(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call on a thread, in the caller's context."""
        return self.submit(partial(copy_context().run, call, *args, **kwargs))

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call on a thread."""
        given = super().submit(fn, *args, **kwargs)
        self._given[given] = fn
        given.add_done_callback(self._given.pop)
        return given

    async def close(self, timeout_s: float | None) -> list[str]:
        """Cancel the calls that have not begun, wait so long for the others, and name those that still run.

        Without a limit, wait until no call runs any more. No call is taken from now on.
        """
        self.shutdown(wait=False, cancel_futures=True)
        if begun := [asyncio.wrap_future(given) for given in tuple(self._given)]:
            ended, left = await asyncio.wait(begun, timeout=timeout_s)
            for each in ended:
                each.exception()  # its caller has it, or is gone: if it were not read, the loop would log it
            for each in left:
                each.cancel()
        return sorted(map(_name, tuple(self._given.values())))

    def _adjust_thread_count(self) -> None:
        """Start a thread for a call that has been given, unless one is idle, or the system gives no more."""
        try:
            super()._adjust_thread_count()
        except (RuntimeError, MemoryError):
            if not self._threads:
                raise


def _name(call: Callable[..., Any]) -> str:
    """Name the function inside the partials by which asyncio carries the caller's context to a thread."""
    while isinstance(call, partial):
        carrying = cast("partial[Any]", call)
        inner: Any = carrying.func
        call = carrying.args[0] if isinstance(getattr(inner, "__self__", None), Context) else inner
    return getattr(call, "__qualname__", type(call).__name__)
