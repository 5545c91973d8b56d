"""How long one same thing has been waited for: `Awaited`. Time is an argument."""

from __future__ import annotations


class Awaited:
    """What is waited for, and since when."""

    __slots__ = ("_since", "_what")

    def __init__(self) -> None:
        self._what: object = None
        self._since = 0.0

    def __repr__(self) -> str:
        return f"<Awaited: {'nothing' if self._what is None else f'since {self._since:.1f}'}>"

    def nothing(self) -> None:
        """Record that it is not the peer who is waited for."""
        self._what = None

    def is_overdue(self, what: object, now: float, limit_s: float) -> bool:
        """Whether this same thing has been waited for, at every look, for at least the limit."""
        if self._what is None or self._what != what:
            self._what, self._since = what, now
            return False
        return now - self._since >= limit_s
