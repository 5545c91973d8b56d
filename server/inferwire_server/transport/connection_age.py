"""How old connections may become: their peers are then told to go on with others, which may lead to other servers.

Time is an argument.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf

_DRAWN = 0.1
"""Which part of the age is drawn for each connection: those that were opened together do not come back together."""


class Age:
    """When one connection is old, on the clock by which it is asked; never unless that is said."""

    __slots__ = ("_old_at",)

    def __init__(self, old_at: float = inf) -> None:
        self._old_at = old_at

    def __repr__(self) -> str:
        return f"<Age: {'never old' if self._old_at == inf else f'old at {self._old_at:.1f}'}>"

    def is_old(self, now: float) -> bool:
        """Whether it is old."""
        return now >= self._old_at

    def stop(self) -> None:
        """Have it never be old."""
        self._old_at = inf


class Ages:
    """Gives connections their age: at most so many seconds until they are old, or none for never."""

    def __init__(self, most_s: float = 0.0, draw: Callable[[], float] = random.random) -> None:
        self._most_s = most_s
        self._draw = draw

    def __repr__(self) -> str:
        return f"<Ages: {f'up to {self._most_s:g} s' if self._most_s else 'without end'}>"

    def begin(self, now: float) -> Age:
        """Give the age of a connection that is opened."""
        return Age(now + self._most_s * (1 - _DRAWN * self._draw())) if self._most_s else Age()
