"""Strings on the wire: each element is a uint32 length, little-endian, then that many bytes.

Owns the packing of string tensors for both sides. Shapes and text encodings are the callers'.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Types that can be read as bytes."""

_LENGTH = struct.Struct("<I")
LENGTH_BYTES = _LENGTH.size
"""How many bytes each string takes beside its own."""

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
        ValueError: If the data ends inside a string, or goes on after the last one.
    """
    return list(each(data, count))


def each(data: Buffer, count: int) -> Iterator[bytes]:
    """Unpack exactly this many strings, one at a time.

    Raises:
        ValueError: As `unpack`, after the strings before it were given.
    """
    for start, end in _spans(data, count):
        yield bytes(data[start:end])


def check(data: Buffer, count: int) -> None:
    """Refuse data that cannot be unpacked, without copying anything.

    Raises:
        ValueError: As `unpack`.
    """
    for _ in _spans(data, count):
        pass


def cut(data: memoryview, length: int, count: int) -> list[memoryview]:
    """Cut tensors of `length` strings each out of a stack of `count`, as views.

    Malformed data is cut anywhere: unpacking the parts then says what is wrong with it.
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


def _spans(data: Buffer, count: int) -> Iterator[tuple[int, int]]:
    """Say where each string begins and ends."""
    read, width = _LENGTH.unpack_from, _LENGTH.size
    end, size = 0, len(data)
    for index in range(count):
        start = end + width
        if start > size:
            raise ValueError(f"string {index} of {count} has {size - end} bytes of its length, expected {width}")
        (length,) = read(data, end)
        end = start + length
        if end > size:
            raise ValueError(f"string {index} of {count} has {size - start} bytes, expected {length}")
        yield start, end
    if end != size:
        raise ValueError(f"{size - end} bytes follow the last of {count} strings, expected none")
