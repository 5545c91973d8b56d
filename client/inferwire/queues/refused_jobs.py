"""The jobs of a queue that the server had no room for, or whose model is loading: `RefusedJobs`.

Owns when they are submitted again: when another job of the queue ends, or else after a while.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from inferwire.errors import InferwireError
from inferwire.process import THIS
from inferwire.requests.callbacks import CALLBACK_THREADS
from inferwire.requests.run import Run

_ROOM_AFTER_S = 0.1
"""After how long jobs are submitted again if the server does not say when there is room."""


class RefusedJobs:
    """Jobs that wait for room on the server or for their model, in the order in which they were refused.

    Attributes:
        waiting: The jobs, each with the function that submits it again.
    """

    def __init__(self) -> None:
        self.waiting: deque[tuple[Run, Callable[[], object]]] = deque()
        self._lock = threading.Lock()
        self._is_timed = False

    def __repr__(self) -> str:
        return f"<RefusedJobs: {len(self.waiting)} wait>"

    def put(self, run: Run, refusal: InferwireError, again: Callable[[], object]) -> None:
        """Have a job submitted again when `begin_again` comes to it, or when the time is up that the server named."""
        with self._lock:
            self.waiting.append((run, again))
            if self._is_timed:
                return
            self._is_timed = True
        timer = threading.Timer(refusal.retry_after_s or _ROOM_AFTER_S, self._time_is_up)
        timer.daemon = True
        try:
            timer.start()
        except (RuntimeError, MemoryError):
            # The system has no more threads to give at the moment.
            self._time_is_up()

    def begin_again(self, count: int) -> None:
        """Submit the first `count` jobs again, skipping those that were cancelled or belong to another process."""
        with suppress(IndexError):
            while count > 0:
                run, again = self.waiting.popleft()
                if not run.is_set() and run.pid == THIS.pid:
                    CALLBACK_THREADS.run(again)
                    count -= 1

    def _time_is_up(self) -> None:
        with self._lock:
            self._is_timed = False
        self.begin_again(len(self.waiting))
