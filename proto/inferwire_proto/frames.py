"""A session's messages on a plain socket, where there is no HTTP/2 to say where each begins.

A connection begins with the preface, at the port that otherwise speaks gRPC. Frames follow, both ways: a header, and
as many bytes as it says. The client's first frame is a message with a hello, the server's first one the welcome or the
end. The frame with the hello is small, and other small messages may follow it before the welcome has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

import numpy as np

PREFACE = b"inferwire session 1\r\n\r\n"
"""What a client sends first. As HTTP it is malformed, so that a server or proxy that does not know it refuses it at
once."""

_HEADER = Struct("<II")
"""The kind of a frame, and how many bytes follow."""

HELLO_BYTES = 1 << 15
"""How many bytes a frame may have until the hello has come, because the sender is not known before."""

SCRATCH_BYTES = 1 << 16
"""How much is received at once, unless a larger frame has begun."""


OPENING_BYTES = SCRATCH_BYTES - 1
"""How many bytes a client may send behind the preface until the welcome has come. A server has received them all at
once when it finds that the hello is meant for another of its processes, and passes them on with the connection."""


class Kind(IntEnum):
    """What a frame is. None of the numbers are what other protocols begin with."""

    MESSAGE = 0x01495746
    """A `SessionRequest` or `SessionResponse`."""
    END = 0x02495746
    """That nothing follows: empty if all was said, or an `Error` that says why not."""
    PING = 0x03495746
    """A question whether the peer is there; empty."""
    PONG = 0x04495746
    """That it is; empty."""


_KINDS = {int(kind): kind for kind in Kind}


class MalformedFrame(ValueError):
    """What was received is no frame."""


class FrameTooLarge(MalformedFrame):
    """A frame has more bytes than it may have."""

    def __init__(self, byte_size: int, most_bytes: int) -> None:
        super().__init__(f"a frame has {byte_size} bytes, expected at most {most_bytes}")
        self.byte_size = byte_size
        self.most_bytes = most_bytes


class Frame(NamedTuple):
    """A frame that was received. If its content is a view, that stays valid as long as it is referenced."""

    kind: Kind
    content: bytes | memoryview


def header(kind: Kind, byte_size: int) -> bytes:
    """Write the header of a frame."""
    return _HEADER.pack(kind, byte_size)


def frame(kind: Kind, content: bytes = b"") -> bytes:
    """Write a small frame."""
    return _HEADER.pack(kind, len(content)) + content


def scratch() -> memoryview:
    """Make room to receive in. Readers that take turns may share it: they leave nothing in it."""
    return np.empty(SCRATCH_BYTES, np.uint8).data


class FrameReader:
    """Cuts the bytes that a socket receives into frames. Large ones are received in place and never copied.

    Args:
        room: Where to receive bytes that are not the rest of a large frame; see `scratch`.
        most_bytes: How many bytes a frame may have; may be changed between two frames.
    """

    __slots__ = ("_body", "_filled", "_head", "_kind", "_scratch", "most_bytes")

    def __init__(self, room: memoryview, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._scratch = room
        self._head = b""
        self._kind = Kind.MESSAGE
        self._body: memoryview | None = None
        self._filled = 0

    def __repr__(self) -> str:
        return f"<FrameReader: {self._filled} bytes of a frame>"

    @property
    def missing(self) -> int:
        """How many bytes are still to come of a large frame that has begun."""
        return 0 if self._body is None else len(self._body) - self._filled

    def room(self) -> memoryview:
        """Give the buffer to receive the next bytes in, which overwrite what was there."""
        if self._body is not None:
            return self._body[self._filled :]
        begun = len(self._head)
        self._scratch[:begun] = self._head
        return self._scratch[begun:]

    def received(self, count: int) -> Iterable[Frame]:
        """Take so many bytes that were received in the room, and give the frames that are complete.

        Each frame is cut when it is asked for. Ask for all of them before receiving more.

        Raises:
            MalformedFrame: If they are no frame.
            FrameTooLarge: If they belong to a frame that is too large.
        """
        if self._body is not None:
            self._filled += count
            if self._filled < len(self._body):
                return ()
            content, self._body, self._filled = self._body, None, 0
            return (Frame(self._kind, content),)
        return self._cut(len(self._head) + count)

    def unfinished(self) -> bytes:
        """Give the bytes that were received of a frame which is not complete."""
        if self._body is None:
            return self._head
        return header(self._kind, len(self._body)) + self._body[: self._filled]

    def _cut(self, end: int) -> Iterator[Frame]:
        """Cut the first `end` bytes of the scratch into frames, and keep the beginning of one that is not complete."""
        received, at = self._scratch, 0
        while end - at >= _HEADER.size:
            kind, byte_size = self._read_header(at)
            at += _HEADER.size
            if byte_size > end - at:
                self._begin(kind, byte_size, received[at:end])
                at = end
            else:
                yield Frame(kind, bytes(received[at : at + byte_size]))
                at += byte_size
        self._head = bytes(received[at:end])

    def _read_header(self, at: int) -> tuple[Kind, int]:
        number, byte_size = _HEADER.unpack_from(self._scratch, at)
        kind = _KINDS.get(number)
        if kind is None:
            raise MalformedFrame(f"a frame begins with {bytes(self._scratch[at : at + 8])!r}, expected a known kind")
        if byte_size > self.most_bytes:
            raise FrameTooLarge(byte_size, self.most_bytes)
        return kind, byte_size

    def _begin(self, kind: Kind, byte_size: int, begun: memoryview) -> None:
        body = np.empty(byte_size, np.uint8).data
        self._kind, self._body, self._filled = kind, body, len(begun)
        body[: len(begun)] = begun
