"""A pool of daemon threads that grows with the number of calls in flight."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread


class NoThread(Exception):
    """There is no thread for a call: the pool has none, and the system gives none."""


class ThreadPool:
    """As many threads as calls were ever in flight at once, up to a limit; idle ones wait for the next call.

    The standard library's executor will not do: it keeps a call in its queue even if the system gave no thread for it,
    and the interpreter waits for its threads at exit.
    """

    def __init__(self, name: str, limit: int | None = None) -> None:
        self._name = name
        self._limit = limit
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._busy = 0

    def __repr__(self) -> str:
        return f"<ThreadPool {self._name}: {self._busy}/{len(self._threads)} busy>"

    def run(self, call: Callable[[], None]) -> None:
        """Run a call, which must not raise. The caller has to call `done` when it has ended.

        If the pool is at its limit, or the system gives no further thread, the call waits for one of the pool's
        threads.

        Raises:
            NoThread: If the pool has no thread at all; the call does not run.
        """
        if self._busy >= len(self._threads) != self._limit:
            self._grow()
        self._busy += 1
        self._calls.put(call)

    def done(self) -> None:
        """Record that a call has ended and its thread is free."""
        self._busy -= 1

    def close(self) -> None:
        """End the threads once their calls have ended."""
        for _ in self._threads:
            self._calls.put(None)
        self._threads.clear()

    def _grow(self) -> None:
        thread = Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            if not self._threads:
                raise NoThread(str(error) or "out of memory") from error
        else:
            self._threads.append(thread)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # an idle thread must not keep a tensor or a freed model alive
