"""A long body, received straight into its own buffer: the parser and what gathers pieces would copy it four times."""

from __future__ import annotations

import asyncio
from typing import Protocol

import numpy as np

from inferwire_proto.frames import scratch
from inferwire_proto.host.low_water import LowWater
from inferwire_server.transport.http.exchange import Body

LONG = 64 * 1024
"""From this many bytes on, a body is received like this."""

LONGEST = 16 * 1024 * 1024
"""Up to this many bytes. Memory for the whole body is taken as soon as the head has come, before the application asks
for it."""

_BEHIND = 4096
"""Room for bytes pipelined after the body: closing a socket with unread bytes would send a reset."""

_BOUNDARY = 64
"""The end of a body is aligned to this many bytes: a tensor that ends the body is then aligned, too, whatever precedes
it, and need not be copied."""

_NOWHERE = memoryview(b"")


class Host(Protocol):
    """The protocol that the connection belongs to: it is told of all but the body, and has the connection back then."""

    @property
    def wants_body(self) -> bool:
        """Whether the body is wanted: not if the request is answered already."""
        ...

    def on_piece(self) -> None:
        """Record that more was received."""

    def on_long_body(self, content: memoryview, behind: bytes) -> None:
        """Take the complete body, and the bytes that came behind it. The host receives what comes after that."""

    def eof_received(self) -> bool:
        """Record that nothing more comes; say whether something may still be sent."""
        ...

    def pause_writing(self) -> None:
        """Let nothing more be written."""

    def resume_writing(self) -> None:
        """Let more be written."""

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""


class LongBody(asyncio.BufferedProtocol):
    """Takes what was received of a body, and receives the rest."""

    def __init__(self, host: Host, byte_size: int, low_water: LowWater) -> None:
        self._host = host
        self._low_water = low_water
        self._byte_size = byte_size
        self._room = _room(byte_size)
        self._given = _NOWHERE
        self._filled = 0

    def __repr__(self) -> str:
        return f"<LongBody: {self._filled} of {self._byte_size} bytes>"

    @property
    def is_whole(self) -> bool:
        """Whether it is complete."""
        return self._filled >= self._byte_size

    def take(self, data: Body) -> memoryview:
        """Take what belongs to the body, and give what is behind it."""
        view = memoryview(data)
        part = view[: self._byte_size - self._filled]
        self._room[self._filled : self._filled + len(part)] = part
        self._filled += len(part)
        return view[len(part) :]

    def hand_over(self) -> memoryview:
        """Give the body, which is whole, and keep nothing of it: uvloop forgets this only with the connection."""
        content, self._room, self._given = self._room[: self._byte_size], _NOWHERE, _NOWHERE
        return content

    def get_buffer(self, sizehint: int) -> memoryview:
        """Give the buffer for more of it; if it is not wanted, a scratch buffer that is written over each time."""
        del sizehint
        if self._host.wants_body:
            self._given = self._room[self._filled :]
        else:
            self._room = _NOWHERE
            self._given = scratch()[: self._byte_size - self._filled + _BEHIND]
        return self._given

    def buffer_updated(self, nbytes: int) -> None:
        """Take so many bytes that were received."""
        self._filled += nbytes
        self._low_water.expect(self._byte_size - self._filled)
        self._host.on_piece()
        if self.is_whole:
            behind = bytes(self._given[nbytes - (self._filled - self._byte_size) : nbytes])
            self._host.on_long_body(self.hand_over(), behind)

    def eof_received(self) -> bool:
        """Hand it on."""
        return self._host.eof_received()

    def pause_writing(self) -> None:
        """Hand it on."""
        self._host.pause_writing()

    def resume_writing(self) -> None:
        """Hand it on."""
        self._host.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hand it on."""
        self._room = self._given = _NOWHERE
        self._host.connection_lost(exc)


def _room(byte_size: int) -> memoryview:
    """Make room for a body that ends at a boundary, and for some of what is behind it.

    The memory is not cleared: every byte is written before it is read.
    """
    room = np.empty(_BOUNDARY + byte_size + _BEHIND, np.uint8)
    start = -(room.ctypes.data + byte_size) % _BOUNDARY
    return room[start : start + byte_size + _BEHIND].data
