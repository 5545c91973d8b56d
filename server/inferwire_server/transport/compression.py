"""Decompresses what peers send, never more than may be taken. Each interface words its own errors."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

WINDOW_BITS = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
"""What zlib calls the ways in which something may be compressed; `deflate` is zlib's own, as in HTTP."""


@dataclass(frozen=True, slots=True)
class Inflated:
    """What has been decompressed.

    Attributes:
        content: The bytes. If there are more than there was room for, it has a byte more than that.
        is_whole: Whether the stream has come to its end.
        taken: How many bytes of the data belong to the stream; others may be behind it.
    """

    content: bytes
    is_whole: bool
    taken: int


def inflate(data: memoryview, window_bits: int, room: int, step: int | None = None) -> Inflated:
    """Decompress a stream, at most a byte more than there is room for.

    Most data is one stream, and is given to zlib in one piece. If other streams may follow, it is given in pieces of
    `step`, because zlib copies what a stream leaves of a piece.

    Raises:
        zlib.error: It is no such stream.
    """
    stream = zlib.decompressobj(window_bits)
    parts: list[bytes] = []
    at, step = 0, step or len(data)
    while at < len(data) and not stream.eof and room >= 0:
        part = stream.decompress(data[at : at + step], room + 1)
        parts.append(part)
        room -= len(part)
        at += step
    content = parts[0] if len(parts) == 1 else b"".join(parts)
    return Inflated(content, stream.eof, min(at, len(data)) - len(stream.unused_data))
