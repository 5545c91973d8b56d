"""Messages in the data of a gRPC call: each behind a byte that says whether it is compressed, and its length."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final, TypeAlias

import grpc

from inferwire_server.transport.compression import WINDOW_BITS, inflate
from inferwire_server.transport.message_limits import message_too_large
from inferwire_server.transport.rpc.status import RpcStatus

PREFIX: Final = Struct(">BL")
PREFIX_BYTES: Final = 5

MOST_BYTES: Final = 2**32 - 1
"""How long a message can be at all: its prefix has four bytes for the length."""

Part: TypeAlias = memoryview | bytearray
"""A part of a message: where it was received, or a copy."""

_SMALL_PART = 1024
"""Up to how many bytes a part is copied: a view keeps all that was received with it in memory."""


class Packed(bytes):
    """A message that is compressed."""


class MessageReader:
    """Puts the messages of one call together from the data in which they come.

    Attributes:
        missing: How many bytes are missing of the message that has begun.
    """

    __slots__ = ("_encoding", "_is_packed", "_most_bytes", "_parts", "_prefix", "missing")

    def __init__(self, encoding: str, most_bytes: int) -> None:
        self._encoding = encoding
        self._most_bytes = most_bytes
        self._prefix = b""
        self._is_packed = False
        self._parts: list[Part] | None = None
        self.missing = 0

    @property
    def is_between(self) -> bool:
        """Whether no message is incomplete."""
        return self._parts is None and not self._prefix

    def take(self, data: memoryview) -> Iterator[bytes]:
        """Give the messages that are complete with this data, as they came: compressed ones are `Packed`.

        Raises:
            ServingError: TOO_LARGE. Nothing can be taken after it.
            RpcStatus: A message is compressed in an unknown way, or in one that its call has not named. Likewise.
        """
        while data:
            parts = self._parts
            if parts is None:
                if len(self._prefix) + len(data) < PREFIX_BYTES:
                    self._prefix += data
                    break
                self._parts = parts = []
                data = self._begin(data)
            part, data = data[: self.missing], data[self.missing :]
            self.missing -= len(part)
            _append(parts, part)
            if self.missing:
                break
            self._parts = None
            yield self._whole(parts)

    def _begin(self, data: memoryview) -> memoryview:
        """Begin a message with its prefix; give what is behind it."""
        if self._prefix:
            lacking = PREFIX_BYTES - len(self._prefix)
            flag, size = PREFIX.unpack(self._prefix + data[:lacking])
        else:
            lacking = PREFIX_BYTES
            flag, size = PREFIX.unpack_from(data)
        if size > self._most_bytes:
            raise message_too_large(size, self._most_bytes)
        if flag:
            self._check_packed(flag)
        self._prefix, self._is_packed, self.missing = b"", flag == 1, size
        return data[lacking:]

    def _whole(self, parts: list[Part]) -> bytes:
        message = bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
        return Packed(message) if self._is_packed else message

    def _check_packed(self, flag: int) -> None:
        if flag != 1:
            raise RpcStatus(grpc.StatusCode.INTERNAL, f"a message's first byte is {flag}, expected 0 or 1")
        if self._encoding not in WINDOW_BITS:
            raise RpcStatus(
                grpc.StatusCode.INTERNAL, f"a message is compressed, and the call's grpc-encoding is {self._encoding}"
            )


def _append(parts: list[Part], part: memoryview) -> None:
    if len(part) > _SMALL_PART:
        parts.append(part)
    elif parts and isinstance(last := parts[-1], bytearray):
        last += part
    else:
        parts.append(bytearray(part))


def unpacked(message: Packed, encoding: str, most_bytes: int) -> bytes:
    """Decompress a message, and stop once it is larger than may be taken.

    Raises:
        ServingError: TOO_LARGE.
        RpcStatus: It is not compressed as its call says.
    """
    try:
        inflated = inflate(memoryview(message), WINDOW_BITS[encoding], most_bytes)
    except zlib.error as error:
        sentence = f"a message cannot be decompressed as {encoding}: {error}"
        raise RpcStatus(grpc.StatusCode.INTERNAL, sentence) from error
    if len(inflated.content) > most_bytes:
        raise message_too_large(len(inflated.content), most_bytes)
    if not inflated.is_whole or inflated.taken < len(message):
        what = "has bytes behind its end" if inflated.is_whole else "is cut short"
        raise RpcStatus(grpc.StatusCode.INTERNAL, f"a message that is compressed as {encoding} {what}")
    return inflated.content
