"""Decompression of what peers send, never more than may be taken. What is wrong with it is for each face to say."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

WINDOW_BITS = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
"""What zlib calls the ways in which something may be compressed; `deflate` is zlib's own, as in HTTP."""


@dataclass(frozen=True, slots=True)
class Inflated:
    """What has been decompressed.

    Attributes:
        content: The bytes; more than there was room for where there are any more.
        is_whole: Whether the stream has come to its end.
        taken: How many bytes of the data the stream had, of which others may be behind it.
    """

    content: bytes
    is_whole: bool
    taken: int


def inflate(data: memoryview, window_bits: int, room: int, step: int | None = None) -> Inflated:
    """Decompress a stream, at most a byte more than there is room for.

    Most data is one stream, and goes in one piece. Where more may follow it goes in small ones: what a stream leaves of
    them is copied.

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
