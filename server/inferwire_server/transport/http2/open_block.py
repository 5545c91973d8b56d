"""Puts a block of headers together from its frames, without their padding and priority."""

from __future__ import annotations

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.frames import ConnectionFailed, ErrorCode

_PRIORITY_BYTES = 5


class OpenBlock:
    """The block of headers that has begun, if further frames are to complete it.

    Attributes:
        is_open: Whether a block has begun and is incomplete.
        flags: The flags of the frame with which the latest block began.
    """

    __slots__ = ("_block", "_most_bytes", "_number", "flags", "is_open")

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._block = bytearray()
        self._number = 0
        self.is_open = False
        self.flags = 0

    def begin(self, flags: int, number: int, content: bytes) -> bytes | None:
        """Take the frame with which a block begins; give the block if it is complete.

        Raises:
            ConnectionFailed: The frame is cut short.
        """
        if flags & frames.PADDED:
            content = without_padding(content)
        if flags & frames.HAS_PRIORITY:
            if len(content) < _PRIORITY_BYTES:
                raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, "headers are cut short")
            content = content[_PRIORITY_BYTES:]
        self.flags = flags
        if flags & frames.END_HEADERS:
            return content
        self._block, self._number, self.is_open = bytearray(content), number, True
        return None

    def go_on(self, flags: int, number: int, content: bytes) -> bytes | None:
        """Take a further frame; give the block if it is complete now.

        Raises:
            ConnectionFailed: No block of this stream has begun, or it is too long.
        """
        if not self.is_open or number != self._number:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "headers go on that have not begun")
        self._block += content
        if len(self._block) > self._most_bytes:
            sentence = f"the headers are longer than {self._most_bytes} bytes"
            raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, sentence)
        if not flags & frames.END_HEADERS:
            return None
        block, self._block, self.is_open = bytes(self._block), bytearray(), False
        return block


def without_padding(content: bytes) -> bytes:
    """Give what is in a frame that is padded.

    Raises:
        ConnectionFailed: There is more padding than frame.
    """
    if not content or content[0] >= len(content):
        raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a frame has more padding than bytes")
    return content[1 : len(content) - content[0]]
