"""The turns of connections that have received more than is taken in at once: a few in each turn of the event loop.

Otherwise one of them could keep all others waiting: each call that begins takes some of the loop's next turn, and
hundreds may come in one piece, or thousands of executions in one message of a session.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

_MOST_GOING_ON = 4
"""How many times connections go on in one turn of the loop. It may be the same connection each time.

With fewer, calls that come together would run in smaller batches.
"""


class Waiting(Protocol):
    """A connection that has received more than was taken in."""

    def go_on(self) -> None:
        """Take in some of what was received, and wait again if that was not all."""
        ...


def _call_soon(call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(call)


class Turns:
    """The connections that wait to go on, the longest waiting first. `call_soon` calls in the loop's next turn."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object] = _call_soon) -> None:
        self._call_soon = call_soon
        self._waiting: OrderedDict[Waiting, None] = OrderedDict()
        self._left = _MOST_GOING_ON
        self._is_called = False

    def __repr__(self) -> str:
        return f"<Turns: {len(self._waiting)} connections wait>"

    def wait(self, connection: Waiting) -> None:
        """Have a connection go on when it is its turn, which may be at once."""
        self._waiting[connection] = None
        self._give()

    def forget(self, connection: Waiting) -> None:
        """Have a connection go on no more."""
        self._waiting.pop(connection, None)

    def _give(self) -> None:
        if not self._is_called:
            self._is_called = True
            self._call_soon(self._begin)
        while self._left and self._waiting:
            self._left -= 1
            connection, _ = self._waiting.popitem(last=False)
            connection.go_on()

    def _begin(self) -> None:
        """Begin another turn."""
        self._is_called = False
        self._left = _MOST_GOING_ON
        if self._waiting:
            self._give()
