"""A clock that a test sets."""

from __future__ import annotations

from tests.waiting import until


class Clock:
    """Time that goes on when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class AskedClock(Clock):
    """A clock that counts how often it is asked."""

    asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return super().__call__()

    async def is_asked(self) -> None:
        """Wait until it has been asked for two more looks."""
        enough = self.asked + 2
        await until(lambda: self.asked >= enough)
