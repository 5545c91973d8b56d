"""Strings on the wire: each element is a uint32 length, little-endian, then that many bytes.

Owns the packing of string tensors for both sides. Shapes and text encodings are the callers'.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""What can be read as bytes."""

_LENGTH = struct.Struct("<I")
_LONGEST = 2**32 - 1


def pack(strings: Iterable[bytes]) -> bytes:
    """Pack strings one after the other.

    Raises:
        ValueError: For a string of 4 GiB or more, whose length the wire cannot carry.
    """
    parts: list[bytes] = []
    for index, string in enumerate(strings):
        if len(string) > _LONGEST:
            raise ValueError(f"string {index} has {len(string)} bytes, expected at most {_LONGEST}")
        parts.append(_LENGTH.pack(len(string)))
        parts.append(string)
    return b"".join(parts)


def unpack(data: Buffer, count: int) -> list[bytes]:
    """Unpack exactly this many strings.

    Raises:
        ValueError: Where the data ends inside a string, or goes on after the last one.
    """
    strings: list[bytes] = []
    start, end = 0, len(data)
    for index in range(count):
        if end - start < _LENGTH.size:
            raise ValueError(f"string {index} of {count} has {end - start} bytes of its length, expected 4")
        length = int(_LENGTH.unpack_from(data, start)[0])
        start += _LENGTH.size
        if end - start < length:
            raise ValueError(f"string {index} of {count} has {end - start} bytes, expected {length}")
        strings.append(bytes(data[start : start + length]))
        start += length
    if start != end:
        raise ValueError(f"{end - start} bytes follow the last of {count} strings, expected none")
    return strings


def cut(data: memoryview, length: int, count: int) -> list[memoryview]:
    """Cut tensors of `length` strings each out of a stack of `count`, as views.

    Malformed data is cut somewhere: unpacking the parts says what is wrong with it.
    """
    parts: list[memoryview] = []
    start = 0
    for _ in range(count - 1):
        end = start
        for _ in range(length):
            if end + _LENGTH.size > data.nbytes:
                break
            end += _LENGTH.size + int(_LENGTH.unpack_from(data, end)[0])
        parts.append(data[start:end])
        start = end
    return [*parts, data[start:]]
