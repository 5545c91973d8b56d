"""A long body, received where it stays: past the parser and whatever gathers pieces, which would copy it four times."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol, TypeAlias

import numpy as np

from inferwire_proto.frames import scratch

Body: TypeAlias = bytes | bytearray | memoryview
"""What a request has behind its head."""

LONG = 64 * 1024
"""From how many bytes on, of those that are still to come, a body is received so."""

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

    def on_long_body(self, body: memoryview) -> None:
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
    """Receives the rest of a body, of which some may have come already."""

    def __init__(self, host: Host, byte_size: int, begun: Iterable[Body]) -> None:
        self._host = host
        self._body = _room(byte_size)
        self._filled = 0
        for part in begun:
            end = self._filled + len(part)
            self._body[self._filled : end] = part
            self._filled = end

    def __repr__(self) -> str:
        return f"<LongBody: {self._filled} of {len(self._body)} bytes>"

    def get_buffer(self, sizehint: int) -> memoryview:
        """Give where to receive more of it; all in one place where nobody wants it."""
        del sizehint
        missing = len(self._body) - self._filled
        return self._body[self._filled :] if self._host.wants_body else scratch()[:missing]

    def buffer_updated(self, nbytes: int) -> None:
        """Take so many bytes that have come."""
        self._filled += nbytes
        self._host.on_piece()
        if self._filled == len(self._body):
            self._host.on_long_body(self._body)

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
