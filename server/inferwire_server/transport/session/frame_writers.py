"""How a connection's frames are written: in their order, and as its peer takes them.

Owns what waits to be sent. It knows transports, and neither sessions nor what their messages mean.
"""

from __future__ import annotations

import asyncio
from collections import deque

from inferwire_proto import frames
from inferwire_proto.frames import Kind

_JOINED_BYTES = 16 * 1024
"""Up to this size, copying a message behind its header costs less than handing the system two pieces."""

_AT_ONCE_BYTES = 64 * 1024
"""How much a transport with TLS is given in one piece; the next one waits until it has passed this on."""


class FrameWriter:
    """Writes on a plain socket.

    Attributes:
        has_room: Whether the peer takes what was written. While it does not, what is still written waits in memory.
    """

    __slots__ = ("_transport", "has_room")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.has_room = True

    @property
    def unsent_bytes(self) -> int:
        """How much waits to be sent."""
        return self._transport.get_write_buffer_size()

    def begin(self) -> None:
        """Have what is written go to the system at once, and not at the end of the loop's turn."""
        self._transport.set_write_buffer_limits(0)

    def write(self, frame: bytes) -> None:
        """Write a small frame."""
        self._transport.write(frame)

    def write_message(self, message: bytes) -> None:
        """Write a message as a frame of its own."""
        header = frames.header(Kind.MESSAGE, len(message))
        if len(message) <= _JOINED_BYTES:
            self._transport.write(header + message)
        else:
            self._transport.writelines((header, message))

    def pause(self) -> None:
        """Record that there is no room: the peer does not take what was written."""
        self.has_room = False

    def resume(self) -> None:
        """Record that there is room again."""
        self.has_room = True


class TlsFrameWriter(FrameWriter):
    """Writes on a socket with TLS.

    The transport does not tell how much waits below TLS. So large pieces are kept here until there is room for them:
    that they get fewer shows that the peer is alive.
    """

    __slots__ = ("_is_paused", "_kept", "_kept_bytes")

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._kept: deque[memoryview] = deque()
        self._kept_bytes = 0
        self._is_paused = False

    @property
    def unsent_bytes(self) -> int:
        """How much waits to be sent, and one byte: there may always be a little below TLS, of which nothing tells."""
        return self._transport.get_write_buffer_size() + self._kept_bytes + 1

    def begin(self) -> None:
        """Have the transport say when the layer below it takes no more. With a limit of 0 it would always say so."""
        self._transport.set_write_buffer_limits(1)

    def write(self, frame: bytes) -> None:
        """Write a frame behind what is kept."""
        if len(frame) <= _AT_ONCE_BYTES and not self._kept:
            self._transport.write(frame)
        else:
            self._keep(frame)

    def write_message(self, message: bytes) -> None:
        """Write a message as a frame of its own."""
        header = frames.header(Kind.MESSAGE, len(message))
        if len(message) <= _JOINED_BYTES:
            self.write(header + message)
        else:
            self.write(header)
            self.write(message)

    def pause(self) -> None:
        """Pass on nothing of what is kept."""
        self._is_paused = True
        self.has_room = False

    def resume(self) -> None:
        """Pass on what is kept, as far as there is room."""
        self._is_paused = False
        self._pass_on()

    def _keep(self, data: bytes) -> None:
        view = memoryview(data)
        self._kept += [view[at : at + _AT_ONCE_BYTES] for at in range(0, len(view), _AT_ONCE_BYTES)]
        self._kept_bytes += len(view)
        self._pass_on()

    def _pass_on(self) -> None:
        while self._kept and not self._is_paused:
            piece = self._kept.popleft()
            self._kept_bytes -= len(piece)
            self._transport.write(piece)
        self.has_room = not self._is_paused and not self._kept


def writer_on(transport: asyncio.Transport) -> FrameWriter:
    """Make the writer that fits a connection, plain or with TLS."""
    return FrameWriter(transport) if transport.get_extra_info("sslcontext") is None else TlsFrameWriter(transport)
