"""Threads of a loop that a test keeps busy, so that further work for them waits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event


class BusyThreads:
    """The threads of the loop, which can be kept busy."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._may_go = Event()

    def occupy(self) -> None:
        """Keep them busy until `leave`."""
        self._threads.submit(self._may_go.wait)

    def leave(self) -> None:
        """Let them go on."""
        self._may_go.set()
