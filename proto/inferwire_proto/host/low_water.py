"""How much has to come on a socket before who waits for it is woken: `LowWater`.

A tensor comes over a network in hundreds of packets, and whoever waits for it would be woken for every few of them.
Waking costs more than receiving: a thread begins to run, finds a few KB, and sleeps again. Between two programs of one
host there are no packets: what is sent comes in large pieces.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from functools import partial

MOST_BYTES = 1 << 15
"""No more than this is waited for, so that the sender's window never closes. Measured with pictures of 602 KB over a
network of 1 Gbit/s: instead of 65 times the server is woken 8 times for each, which takes an eighth to a sixth less of
its CPU time. With twice as much, the sender has to wait now and then."""

LEAST_BYTES = 1 << 13
"""Less than this comes in few packets, and is not worth a call of the system."""

_MOST_SEALED_BYTES = 1 << 15
"""With TLS, so much may have been received that cannot be decrypted yet: a record has up to 16 KB, and a little more
for its seal."""


class LowWater:
    """A socket's low-water mark, which follows what is known to come next.

    The end of the connection wakes who waits whatever the mark is, and so does a limit of time.

    Args:
        set_mark: Sets the mark; None where the system knows none.
        has_tls: Whether what comes is decrypted before it is counted.
    """

    __slots__ = ("_mark", "_set_mark", "_unseen")

    def __init__(self, set_mark: Callable[[int], object] | None, *, has_tls: bool = False) -> None:
        self._mark = 1
        self._set_mark = set_mark
        self._unseen = _MOST_SEALED_BYTES if has_tls else 0

    def __repr__(self) -> str:
        return f"<LowWater: {self._mark} bytes>"

    def expect(self, byte_count: int) -> None:
        """Sleep until a good part of so many bytes has come, or until any has if they are few.

        They must be certain to come next, with nothing between them that has to be heard of at once: the rest of a
        frame, or of a body whose length was told.
        """
        mark = min(byte_count - self._unseen, MOST_BYTES)
        if mark < LEAST_BYTES:
            mark = 1
        if mark != self._mark and self._set_mark is not None:
            self._set_mark(mark)
            self._mark = mark


def low_water_on(connected: socket.socket | None, *, has_tls: bool = False) -> LowWater:
    """Make the low-water mark of a connection, which has one if its peer is on another host.

    Only Linux's TCP is known to heed it in all ways of waiting.
    """
    if connected is None or sys.platform != "linux" or connected.family == socket.AF_UNIX or is_from_here(connected):
        return LowWater(None)
    return LowWater(partial(_set_mark, connected), has_tls=has_tls)


def is_from_here(connected: socket.socket) -> bool:
    """Whether both ends of a connection have the same address; also where it has ended already."""
    try:
        return connected.getsockname()[0] == connected.getpeername()[0]
    except OSError:
        return True


def _set_mark(connected: socket.socket, mark: int) -> None:
    """Set the mark, unless an event loop has closed the socket by now."""
    if connected.fileno() >= 0:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
