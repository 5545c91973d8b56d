"""Gathers a socket's writes until the end of the loop's turn: an answer's head and body are one system call, not two.

The socket is closed only once its peer has sent the rest of its request. Bytes that reach a closed socket make the
system send a reset, and the peer then loses the part of the answer that it has not read yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol

MOST_HELD = 64 * 1024
"""So many bytes go out at once, so that code which writes more learns in time that the peer does not read."""


class Heard(Protocol):
    """What knows how far the peer has come."""

    @property
    def is_in_body(self) -> bool:
        """Whether more is to come of a request that the peer has begun."""
        ...


class JoinedWrites(asyncio.Transport):
    """A transport that hands all that is written in one turn of the loop to another transport, together.

    Attributes:
        is_to_be_closed: Whether it is to be closed as soon as the peer has sent the rest of its request.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, heard: Heard) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._heard = heard
        self.is_to_be_closed = False
        self._parts: list[bytes | bytearray | memoryview] = []
        self._held = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write soon."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)
        self._held += len(data)
        if self._held >= MOST_HELD:
            self._flush()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Write at once, together."""
        self._parts += list_of_data
        self._held = sum(map(len, self._parts))
        self._flush()

    def close(self) -> None:
        """Write what there is and close: when the peer has sent the rest of its request, or on a second call."""
        self._flush()
        if self._heard.is_in_body and not self.is_to_be_closed:
            self.is_to_be_closed = True
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._parts.clear()
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Say how much waits to be sent."""
        return self._held + self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Tell what is known of the socket."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Let the peer wait."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._transport.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Let another protocol have the connection."""
        self._transport.set_protocol(protocol)

    def _flush(self) -> None:
        parts, held = self._parts, self._held
        self._parts, self._held = [], 0
        if not parts or self._transport.is_closing():
            return
        if held < MOST_HELD:
            # Copying little costs less than handing the system several pieces.
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)
