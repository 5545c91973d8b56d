"""The threads that open models: that may take minutes, and short calls of others must not wait for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

import structlog

from inferwire_proto.errors import Code
from inferwire_server.call_threads import wait_for_begun
from inferwire_server.engine.thread_pool import NoThread, ThreadPool
from inferwire_server.errors import ServingError

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.stdlib.get_logger()

AT_ONCE = min(32, (os.cpu_count() or 1) + 4)
"""How many served models are opened at once: each opening computes on several cores, and takes memory for a while."""

CLIENTS_AT_ONCE = AT_ONCE // 2
"""How many models of clients are compiled at once, and how many are read."""


class OpeningThreads:
    """A few threads for calls of one kind, and the calls that wait for one: none waits for calls of another kind.

    They are named for what their calls do with a model.
    """

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._threads = ThreadPool(name, limit)
        self._given: set[Future[Any]] = set()

    def __repr__(self) -> str:
        return f"<OpeningThreads: {self._threads!r}>"

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call, and give what it gives or raises. Once begun it runs to its end, whether anybody waits or not.

        Raises:
            ServingError: INTERNAL if there is no thread for it.
        """
        # An error knows this frame: what has the error is not to be in it, or both would be kept.
        return await asyncio.wrap_future(self._begun(partial(copy_context().run, call, *args, **kwargs)))

    async def close(self, timeout_s: float) -> int:
        """Let the threads go, wait so long for the calls that have begun, and give how many of those have not ended."""
        self._threads.close()
        return await wait_for_begun(self._given, timeout_s)

    def _begun(self, work: Callable[[], T]) -> Future[T]:
        given = Future[T]()
        try:
            self._threads.run(partial(self._run_on_thread, asyncio.get_running_loop(), given, work))
        except NoThread as error:
            log.error("a model has no thread", threads=self._name, reason=str(error))
            reason = f"no thread could be started to {self._name} a model: {error}"
            raise ServingError(Code.INTERNAL, reason) from error
        self._given.add(given)
        return given

    def _run_on_thread(self, loop: asyncio.AbstractEventLoop, given: Future[T], work: Callable[[], T]) -> None:
        if given.set_running_or_notify_cancel():
            try:
                given.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is whoever called who is to have it
                given.set_exception(error)
        del work
        # The loop may have ended meanwhile, and nobody counts any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._end, given)
        del given

    def _end(self, given: Future[Any]) -> None:
        self._given.discard(given)
        self._threads.done()
