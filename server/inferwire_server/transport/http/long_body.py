"""A long body, received where it stays: past the parser and whatever gathers pieces, which would copy it four times."""

from __future__ import annotations

import asyncio
from typing import Protocol, TypeAlias

import numpy as np

from inferwire_proto.frames import scratch

Body: TypeAlias = bytes | bytearray | memoryview
"""What a request has behind its head."""

LONG = 64 * 1024
"""From how many bytes on a body is received so."""

LONGEST = 16 * 1024 * 1024
"""Up to how many: room for as much is kept for whoever says that it comes."""

_BOUNDARY = 64
"""Where a body ends, in bytes: a tensor that is its end then begins where elements of its type may, whatever is before
it, and need not be copied for that."""


class Host(Protocol):
    """Whose connection it is: told of all but the body, and given the connection back behind that."""

    @property
    def wants_body(self) -> bool:
        """Whether anybody is to have the body: nobody where the request is answered already."""
        ...

    def on_piece(self) -> None:
        """Take note that something has come."""

    def on_long_body(self, content: memoryview) -> None:
        """Take the body, all of which has come, and what comes behind it."""

    def eof_received(self) -> None:
        """Take note that nothing more comes."""

    def pause_writing(self) -> None:
        """Let nothing more be written."""

    def resume_writing(self) -> None:
        """Let more be written."""

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""


class LongBody(asyncio.BufferedProtocol):
    """Takes what has come of a body, and receives the rest."""

    def __init__(self, host: Host, byte_size: int) -> None:
        self._content = _room(byte_size)
        self._host = host
        self._filled = 0

    def __repr__(self) -> str:
        return f"<LongBody: {self._filled} of {len(self._content)} bytes>"

    @property
    def is_whole(self) -> bool:
        """Whether all of it has come."""
        return self._filled == len(self._content)

    def take(self, data: Body) -> memoryview:
        """Take what is of the body, and give what is behind it."""
        view = memoryview(data)
        part = view[: len(self._content) - self._filled]
        self._content[self._filled : self._filled + len(part)] = part
        self._filled += len(part)
        return view[len(part) :]

    def hand_over(self) -> memoryview:
        """Give the body, which is whole, and keep nothing of it: uvloop forgets this only with the connection."""
        content, self._content, self._filled = self._content, memoryview(b""), 0
        return content

    def get_buffer(self, sizehint: int) -> memoryview:
        """Give where to receive more of it; all in one place where nobody wants it."""
        del sizehint
        room = self._content[self._filled :]
        return room if self._host.wants_body else scratch()[: len(room)]

    def buffer_updated(self, nbytes: int) -> None:
        """Take so many bytes that have come."""
        self._filled += nbytes
        self._host.on_piece()
        if self.is_whole:
            self._host.on_long_body(self.hand_over())

    def eof_received(self) -> None:
        """Hand it on."""
        self._host.eof_received()

    def pause_writing(self) -> None:
        """Hand it on."""
        self._host.pause_writing()

    def resume_writing(self) -> None:
        """Hand it on."""
        self._host.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hand it on."""
        self._host.connection_lost(exc)


def _room(byte_size: int) -> memoryview:
    """Make room that ends at a boundary. What is in it is nobody's: every byte is written before it is read."""
    room = np.empty(byte_size + _BOUNDARY, np.uint8)
    start = -(room.ctypes.data + byte_size) % _BOUNDARY
    return room[start : start + byte_size].data
