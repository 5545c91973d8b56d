"""Something that happens once, and threads that wait for it."""

from __future__ import annotations

import threading


class Latch:
    """An event that is set once and stays so. As cheap as a lock: every execution has one, and few are waited for."""

    __slots__ = ("_lock", "_unset")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._unset = [True]

    def __repr__(self) -> str:
        return f"<Latch: {'set' if self.is_set() else 'not set'}>"

    def is_set(self) -> bool:
        """Whether it has happened."""
        return not self._unset

    def set(self) -> None:
        """Let go of everybody who waits, now and later; nothing the second time."""
        try:
            self._unset.pop()
        except IndexError:
            return
        self._lock.release()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set, at most so long; tell whether it is."""
        if not self._lock.acquire(timeout=-1 if timeout_s is None else timeout_s):
            return False
        self._lock.release()
        return True
