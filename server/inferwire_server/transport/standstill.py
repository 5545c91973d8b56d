"""Whether this process has stood still between two looks at its peers: `Standstill`. Time is an argument.

A container that is paused goes on with the time that has passed meanwhile. What its peers have sent is yet to be read,
and the limits of all that it waits for seem to have passed.
"""

from __future__ import annotations

from math import inf

LATE_S = 5.0
"""How late a look has to come. Under load the event loop is late by less, and most limits are longer."""


class Standstill:
    """When the next look at the peers is due."""

    __slots__ = ("_due_at",)

    def __init__(self) -> None:
        self._due_at = inf

    def __repr__(self) -> str:
        return f"<Standstill: a look is due at {self._due_at:.1f}>"

    def is_over(self, now: float, next_s: float) -> bool:
        """Say at each look whether it ends a standstill. The next look is to come in `next_s`."""
        was_due_at, self._due_at = self._due_at, now + next_s
        return now - was_due_at > LATE_S
