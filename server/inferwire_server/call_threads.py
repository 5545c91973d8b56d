"""The threads of `asyncio.to_thread`, and what runs on them: a call may hang there that nobody can end.

What asks a device or a file system waits for as long as that takes. The loop would wait for it as it closes.
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
        """Wait so long for the calls that have begun, and name those that have not ended then; others do not begin."""
        begun = [asyncio.wrap_future(given) for given in tuple(self._given) if not given.cancel() and not given.done()]
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*begun, return_exceptions=True)
        return sorted(map(_name, tuple(self._given.values())))


def _name(call: Callable[..., Any]) -> str:
    """Name what is called behind what carries the caller's context to the thread."""
    while isinstance(call, partial):
        carrying = cast("partial[Any]", call)
        inner: Any = carrying.func
        call = carrying.args[0] if isinstance(getattr(inner, "__self__", None), Context) else inner
    return getattr(call, "__qualname__", type(call).__name__)
