"""How the threads that use a socket wait for bytes to come and for room to send, and for how long.

A thread that has a lone message must not wait for room, while the writing thread does, and another waits for bytes, all
on one socket. Knows nothing of what is sent.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from collections.abc import Callable
from errno import ETIMEDOUT
from typing import Protocol

if sys.platform == "win32":
    raise ImportError("Windows' sockets lack much of what is used here: sessions stay on gRPC there")


class SocketWaits(Protocol):
    """The waits on one connected socket. A thread calls one of these first, and then the socket."""

    at_once: int
    """The flags of a send that does not wait for room."""

    def allow_silence(self, limit_s: float) -> None:
        """Set how long to wait for bytes."""
        ...

    def for_bytes(self) -> None:
        """Wait for bytes. For the one thread that receives.

        Raises:
            BlockingIOError: If none come in time; the socket raises it if this does not.
        """
        ...

    def for_room(self) -> None:
        """Wait for room to send. For the writing thread alone.

        Raises:
            OSError: If there is none in time; the socket raises it if this does not.
        """
        ...


class WaitsInCalls:
    """The system waits in each call, which costs least. Linux sends without waiting if it is told so."""

    at_once: int = socket.MSG_DONTWAIT

    def __init__(self, connected: socket.socket, room_s: float) -> None:
        self._socket = connected
        self._limit(socket.SO_SNDTIMEO, room_s)

    def allow_silence(self, limit_s: float) -> None:
        """Set how long to wait for bytes."""
        self._limit(socket.SO_RCVTIMEO, limit_s)

    def for_bytes(self) -> None:
        """Leave it to the call that follows."""

    def for_room(self) -> None:
        """Leave it to the call that follows."""

    def _limit(self, option: int, limit_s: float) -> None:
        # Python's own limits would cost another call of the system each time.
        seconds = int(limit_s)
        self._socket.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", seconds, int((limit_s - seconds) * 1e6)))


class WaitsBeforeCalls:
    """No call waits, and who may wait does so before it.

    For systems that have Linux's flag and do not promise that a send heeds it, such as macOS.
    """

    at_once: int = 0

    def __init__(self, connected: socket.socket, room_s: float) -> None:
        os.set_blocking(connected.fileno(), False)
        self._bytes, self._room = select.poll(), select.poll()
        self._bytes.register(connected, select.POLLIN)
        self._room.register(connected, select.POLLOUT)
        self._silence_s, self._room_s = 0.0, room_s

    def allow_silence(self, limit_s: float) -> None:
        """Set how long to wait for bytes."""
        self._silence_s = limit_s

    def for_bytes(self) -> None:
        """Wait for bytes, or the end."""
        if not self._bytes.poll(self._silence_s * 1000):
            raise BlockingIOError

    def for_room(self) -> None:
        """Wait for room, or the end."""
        if not self._room.poll(self._room_s * 1000):
            raise OSError(ETIMEDOUT, os.strerror(ETIMEDOUT))


WAITS: Callable[[socket.socket, float], SocketWaits] = WaitsInCalls if sys.platform == "linux" else WaitsBeforeCalls
"""Makes the waits of this system, on a connected socket and for room no longer than so many seconds."""
