"""Busy polling: instead of sleeping until the next request comes, the event loop looks for it again and again.

A core whose thread sleeps goes idle, and waking it takes longer than a small inference, above all on virtual machines.
A caller that sends one request after the other has the server sleep, and be woken, for each of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf


class BusyPolling:
    """Keeps the event loop awake while the next request is expected: soon, if the last one came soon.

    Of callers that pause for longer than the window, it polls no more than once: after the pause it sleeps.

    Attributes:
        polled_s: For how many seconds it has polled in all.
    """

    def __init__(self, window_s: float, clock: Callable[[], float]) -> None:
        """Poll for `window_s` seconds at most, by the clock; never if that is 0."""
        self._window_s = window_s
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._rested_at = -inf
        self._is_worthwhile = False
        self._until = -inf
        self._is_due = False
        self.polled_s = 0.0

    def __repr__(self) -> str:
        return f"<BusyPolling for {self._window_s * 1e6:g} us: {'worthwhile' if self._is_worthwhile else 'not now'}>"

    def begin(self) -> None:
        """Stop polling, as there is work again, and learn from how long there was none."""
        now = self._clock()
        self._is_worthwhile = now - self._rested_at < self._window_s
        self._end(now)

    def rest(self) -> None:
        """Poll, as all work is done, if it is worthwhile."""
        self._rested_at = now = self._clock()
        if self._is_worthwhile:
            self._until = now + self._window_s
            if not self._is_due:
                self._is_due = True
                self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        """Be due again at once: the loop looks for what has come, and does not sleep while anything is due."""
        now = self._clock()
        if now < self._until:
            self._loop.call_soon(self._poll)
        else:
            self._is_due = False
            self._end(now)

    def _end(self, now: float) -> None:
        """Poll no more, and count for how long it was done, if it was."""
        if self._until > -inf:
            self.polled_s += min(now, self._until) - self._rested_at
            self._until = -inf
