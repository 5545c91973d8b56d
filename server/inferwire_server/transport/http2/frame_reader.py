"""Cuts frames out of the bytes that a peer sends."""

from __future__ import annotations

from typing import Protocol

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.frames import ConnectionFailed, ErrorCode

MOST_FRAME_BYTES = 1024 * 1024
"""The longest frame of data that is taken: so long that a tensor comes in few of them."""

_BESIDE_HEADERS_BYTES = 1024
"""How much longer than all headers of a call a frame without data may be."""

_MOST_AT_ONCE = 512
"""How many small frames are taken in one go, because each takes time: the rest waits, so that other connections have
their turn."""

_REQUEST_COUNTS = 32
"""How many small frames the beginning of a request counts as, and its end: a request that comes as headers and a body
has both."""

_COUNTED_BYTES = 32
"""In a frame without data, so many bytes count as one more small frame, because headers take time to unpack. Data is
not counted: a long body is read as fast as it comes."""


class OtherProtocol(ConnectionFailed):
    """The peer does not begin with HTTP/2's preface."""

    def __init__(self, said: bytes) -> None:
        super().__init__(ErrorCode.PROTOCOL_ERROR, "the connection does not begin with HTTP/2's preface")
        self.said = said


class FrameTaker(Protocol):
    """What takes the frames. Each of its methods may raise `ConnectionFailed`."""

    def take_greeting(self) -> None:
        """Be told that the peer speaks HTTP/2."""
        ...

    def check_turn(self, kind: int) -> None:
        """Check that a frame of this kind may come now."""
        ...

    def take_frame(self, kind: int, flags: int, number: int, content: bytes) -> None:
        """Take a frame of a stream, or of none (0)."""
        ...

    def begin_data(self, flags: int, number: int, size: int) -> None:
        """Begin a frame of data. `take_data` gets its bytes as they come, and is not called if it has none."""
        ...

    def take_data(self, data: memoryview, *, is_last: bool) -> None:
        """Take a part of the frame of data that has begun."""
        ...


class FrameReader:
    """Cuts what a peer sends into frames, and keeps what is incomplete or not to be read yet.

    Attributes:
        data_left: How many bytes are still to come of a frame of data that has begun.
        has_more: Whether more was received than is read in one go: another call of `receive` reads on.
    """

    __slots__ = ("_is_greeted", "_most_other_bytes", "_rest", "_taker", "data_left", "has_more")

    def __init__(self, taker: FrameTaker, most_header_bytes: int) -> None:
        self._taker = taker
        self._most_other_bytes = most_header_bytes + _BESIDE_HEADERS_BYTES
        self._rest: bytes = b""
        self._is_greeted = False
        self.data_left = 0
        self.has_more = False

    def receive(self, data: bytes) -> None:
        """Hand the frames on that are complete now, up to a bound: `has_more` says whether it was reached.

        Raises:
            OtherProtocol: The peer sends no preface. It is raised again, with all that was received, if more comes.
            ConnectionFailed: The peer sends a frame that is too long; or what the taker raises.
        """
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        if not self._is_greeted:
            if not frames.PREFACE.startswith(data[: len(frames.PREFACE)]):
                self._rest = data
                raise OtherProtocol(data)
            if end < (at := len(frames.PREFACE)):
                self._rest = data
                return
            self._is_greeted = True
            self._taker.take_greeting()
        self._rest = data[self._read(data, at, end) :]

    def _read(self, data: bytes, at: int, end: int) -> int:
        """Read frames from `at` on; give where the first begins that is incomplete or is to be read later."""
        taker, view = self._taker, memoryview(data)
        left = _MOST_AT_ONCE
        self.has_more = False
        while True:
            if self.data_left and at < end:
                taken = min(self.data_left, end - at)
                self.data_left -= taken
                taker.take_data(view[at : at + taken], is_last=not self.data_left)
                at += taken
            if end - at < frames.HEAD_BYTES:
                return at
            if left <= 0:
                self.has_more = True
                return at
            high, low, kind, flags, number = frames.HEAD.unpack_from(data, at)
            size, number, content = high << 16 | low, number & frames.LARGEST_STREAM, at + frames.HEAD_BYTES
            most = MOST_FRAME_BYTES if kind == frames.DATA else self._most_other_bytes
            if size > most:
                raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, f"a frame has {size} bytes, expected at most {most}")
            taker.check_turn(kind)
            is_of_request = kind == frames.HEADERS or (kind == frames.DATA and flags & frames.END_STREAM)
            left -= _REQUEST_COUNTS if is_of_request else 1
            if kind != frames.DATA:
                left -= size // _COUNTED_BYTES
            if kind == frames.DATA and not flags & frames.PADDED:
                at, self.data_left = content, size
                taker.begin_data(flags, number, size)
            elif end < content + size:
                return at
            else:
                at = content + size
                taker.take_frame(kind, flags, number, data[content:at])
