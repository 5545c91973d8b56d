"""What is logged now and again and not each time: callers may bring the same fault about as often as they like."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

INTERVAL_S = 60.0
"""How long something is not logged again after it was logged."""


class Seldom:
    """Whether it is time to log one kind of fault, by a clock that shows seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due_at = -inf

    def __repr__(self) -> str:
        return f"<Seldom: due at {self._due_at}>"

    def is_due(self) -> bool:
        """Whether to log it, which the caller then does: the next time is a minute later."""
        now = self._clock()
        if now < self._due_at:
            return False
        self._due_at = now + INTERVAL_S
        return True
