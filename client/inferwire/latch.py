"""A one-shot event that costs next to nothing until a thread waits for it."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from math import inf
from operator import methodcaller
from time import perf_counter

SLICE_S: float | None = 0.1 if sys.platform == "win32" else None
"""How long a thread waits for a lock at a time; None for as long as it takes. On Windows a signal's handler, as that of
Ctrl-C, runs only between waits, and an answer may take long."""

_RING = methodcaller("release")


class Latch:
    """An event that is set once and stays so. Next to free: every execution has one, and few are waited for."""

    # On the class, because few instances ever set these: making one then runs no code.
    _is_set = False
    _bells: list[threading.Lock] | None = None

    def __repr__(self) -> str:
        return f"<Latch: {'set' if self._is_set else 'not set'}>"

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._is_set

    def set(self) -> None:
        """Wake all waiting threads, and let later waits return at once; do nothing the second time."""
        self._is_set = True
        if self._bells is not None:
            try:
                # A single step of the interpreter, which runs signal handlers only after it: no bell is lost.
                any(map(_RING, iter(self._bells.pop, None)))
            except IndexError:
                return

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set, at most for `timeout_s`; tell whether it is."""
        if self._is_set:
            return True
        bell = threading.Lock()
        bell.acquire()
        # One step for all threads, so that two that come at once use the same list.
        bells: list[threading.Lock] = self.__dict__.setdefault("_bells", [])
        bells.append(bell)
        # `set` sets the flag and then looks for bells. We add ours and then look at the flag: one of us sees the other.
        if self._is_set or _rings_within(bell, timeout_s):
            return True
        # A thread that waits again and again adds a bell each time.
        with suppress(ValueError):
            bells.remove(bell)
        return self._is_set


def _rings_within(bell: threading.Lock, timeout_s: float | None) -> bool:
    """Wait until a bell rings, at most for `timeout_s`; tell whether it has."""
    if SLICE_S is None:
        return bell.acquire(timeout=-1 if timeout_s is None else timeout_s)
    until = inf if timeout_s is None else perf_counter() + timeout_s
    while not bell.acquire(timeout=max(0.0, min(SLICE_S, until - perf_counter()))):
        if perf_counter() >= until:
            return False
    return True
