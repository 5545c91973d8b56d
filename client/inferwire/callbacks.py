"""The threads that users' callbacks run on: never gRPC's, so that a callback may call anything.

Owns how many there are. A callback that waits inside this SDK gives its place to another thread,
so that callbacks waiting for each other's requests do not starve.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from queue import SimpleQueue

from inferwire.process import THIS

FEWEST_THREADS = 4
"""Threads that may run callbacks at once. Started as needed, never all for a single callback."""


class CallbackThreads:
    """Daemon threads that run what they are given, in the order given."""

    def __init__(self, limit: int = FEWEST_THREADS) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._reset()

    def __repr__(self) -> str:
        return f"<CallbackThreads: {self._unfinished} queued or running, {self._started} threads>"

    def run(self, callback: Callable[[], object]) -> None:
        """Run a callback some time soon. It must not raise."""
        if self._pid != THIS.pid:
            self._lock = threading.Lock()
            self._reset()
        with self._lock:
            self._unfinished += 1
            self._grow()
        self._queue.put(callback)

    @contextmanager
    def blocking(self) -> Generator[None]:
        """Let another thread take over while the calling one, if it is one of these, waits."""
        if not getattr(self._local, "is_worker", False):
            yield
            return
        with self._lock:
            self._blocked += 1
            self._grow()
        try:
            yield
        finally:
            with self._lock:
                self._blocked -= 1

    def _reset(self) -> None:
        """Start from nothing: a forked child has none of its parent's threads."""
        self._pid = THIS.pid
        self._queue: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._local = threading.local()
        self._started = self._blocked = self._unfinished = 0

    def _grow(self) -> None:
        wanted = min(self._unfinished, self._limit + self._blocked)
        if self._started < wanted:
            self._started += 1
            name = f"inferwire-callback-{self._started}"
            threading.Thread(target=self._work, args=(self._queue,), name=name, daemon=True).start()

    def _work(self, queue: SimpleQueue[Callable[[], object]]) -> None:
        self._local.is_worker = True
        while True:
            queue.get()()
            with self._lock:
                self._unfinished -= 1


CALLBACK_THREADS = CallbackThreads()
"""Those of this process."""
