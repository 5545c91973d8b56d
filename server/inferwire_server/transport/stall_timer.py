"""How long a peer that is waited for has made no progress: `StallTimer`. Time is an argument."""

from __future__ import annotations


class StallTimer:
    """How far a peer had come when it was last seen to go on, and when that was."""

    __slots__ = ("_progress", "_since")

    def __init__(self) -> None:
        self._progress: object = None
        self._since = 0.0

    def __repr__(self) -> str:
        return f"<StallTimer: {'stopped' if self._progress is None else f'since {self._since:.1f}'}>"

    def stop(self) -> None:
        """Record that the peer is not waited for."""
        self._progress = None

    def is_overdue(self, progress: object, now: float, limit_s: float) -> bool:
        """Whether the peer's progress has been the same at every look for at least the limit."""
        if self._progress is None or self._progress != progress:
            self._progress, self._since = progress, now
            return False
        return now - self._since >= limit_s
