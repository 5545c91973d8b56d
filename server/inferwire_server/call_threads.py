"""The threads of `asyncio.to_thread`, and the calls on them, any of which may hang.

A call to a device or a file system cannot be cancelled, and the loop would wait for it as it closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


class CallThreads(ThreadPoolExecutor):
    """The loop's own executor, which knows the calls that have not ended."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="call")
        self._given: dict[Future[Any], Callable[..., Any]] = {}

    def __repr__(self) -> str:
        return f"<CallThreads: {len(self._given)} calls>"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call on a thread."""
        given = super().submit(fn, *args, **kwargs)
        self._given[given] = fn
        given.add_done_callback(self._given.pop)
        return given

    async def left(self, timeout_s: float) -> list[str]:
        """Cancel the calls that have not begun, wait so long for the others, and name those that still run."""
        begun = [asyncio.wrap_future(given) for given in tuple(self._given) if not given.cancel() and not given.done()]
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*begun, return_exceptions=True)
        return sorted(map(_name, tuple(self._given.values())))


def _name(call: Callable[..., Any]) -> str:
    """Name the function inside the partials by which asyncio carries the caller's context to a thread."""
    while isinstance(call, partial):
        carrying = cast("partial[Any]", call)
        inner: Any = carrying.func
        call = carrying.args[0] if isinstance(getattr(inner, "__self__", None), Context) else inner
    return getattr(call, "__qualname__", type(call).__name__)
