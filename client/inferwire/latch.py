"""A one-shot event that costs next to nothing until a thread waits for it."""

from __future__ import annotations

import threading
from contextlib import suppress


class Latch:
    """An event that is set once and stays so. Next to free: every execution has one, and few are waited for."""

    # What few of them ever have is the class's, so that making one runs no code.
    _is_set = False
    _bells: list[threading.Lock] | None = None

    def __repr__(self) -> str:
        return f"<Latch: {'set' if self._is_set else 'not set'}>"

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._is_set

    def set(self) -> None:
        """Let go of everybody who waits, now and later; nothing the second time."""
        self._is_set = True
        if self._bells is not None:
            try:
                while True:
                    self._bells.pop().release()
            except IndexError:
                return

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set, at most so long; tell whether it is."""
        if self._is_set:
            return True
        bell = threading.Lock()
        bell.acquire()
        # Two that come at once hang theirs up in the same place: this is one step for all threads.
        bells: list[threading.Lock] = self.__dict__.setdefault("_bells", [])
        bells.append(bell)
        # Whoever sets it looks for bells afterwards, and we look for that after hanging up ours.
        if self._is_set or bell.acquire(timeout=-1 if timeout_s is None else timeout_s):
            return True
        # Whoever asks again and again hangs one up each time.
        with suppress(ValueError):
            bells.remove(bell)
        return self._is_set
