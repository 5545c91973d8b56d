"""Threads for calls that may wait in vain where what is tested is broken."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Thread
from typing import ParamSpec, TypeVar

from tests.waiting import LIMIT_S

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(Executor):
    """A thread for each call. Neither a test nor the process waits at its end for one that never ends."""

    def __init__(self) -> None:
        self._threads: list[Thread] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def call() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - raised by who asks for the result
                future.set_exception(error)

        thread = Thread(target=call, daemon=True)
        self._threads.append(thread)
        thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for those that end soon; that others do not is told by what the test asks of them."""
        del cancel_futures
        if wait:
            for thread in self._threads:
                thread.join(LIMIT_S)
