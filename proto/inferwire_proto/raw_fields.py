"""Tensors' bytes beside a protobuf header, without the copies protobuf would make of them.

A message with tensors keeps their bytes in one repeated `bytes` field of its own top level. So a
sender can join a small serialised header and the tensors' buffers once, and a receiver can cut
the buffers off as views and let protobuf see the header alone. The result is ordinary protobuf
either way: a peer that knows nothing of this reads and writes the same messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

RAW_FIELD = 15
"""The field of tensors' bytes in every message of inferwire.v1 that has one."""

PADDING_FIELD = 14
"""The ignored field that aligns them."""

ALIGNMENT = 16
"""A tensor's bytes start at a multiple of this in a message joined here. The buffers that receivers
hold messages in start at such addresses too, so that views over them are aligned."""

SMALL_MESSAGE = 16 * 1024
"""Up to this size protobuf's own copies are cheaper than finding the fields from Python."""

SHORT_FIELD = 128
"""They are also cheaper if a message's fields have fewer bytes than this on average."""

MANY_SHORT_FIELDS = 8 * 1024 * 1024
"""The largest message of such short fields, each of which may take fifty times its bytes once it is parsed."""

_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5

M = TypeVar("M", bound=Message)

Content: TypeAlias = memoryview | bytes | tuple[memoryview | bytes, ...]
"""The bytes of one entry of the field, in one piece or several."""


class MalformedMessage(ValueError):
    """The bytes are not the protobuf message they should be."""


def join(
    header: bytes,
    buffers: Iterable[Content],
    raw_field: int = RAW_FIELD,
    padding_field: int | None = PADDING_FIELD,
) -> bytes:
    """Join a serialised header and tensors' bytes into one message, copying each buffer once.

    Args:
        header: The serialised message without its tensors.
        buffers: Each entry's bytes, contiguous; those of a stack in as many pieces as it has tensors.
        raw_field: The number of the repeated `bytes` field that holds them; that of inferwire.v1 unless given.
        padding_field: The number of an ignored `bytes` field that may be filled so that each
            tensor starts aligned; None if the message has no such field.
    """
    return b"".join(pieces(header, buffers, raw_field, padding_field))


def pieces(
    header: bytes,
    buffers: Iterable[Content],
    raw_field: int = RAW_FIELD,
    padding_field: int | None = PADDING_FIELD,
) -> list[bytes | memoryview]:
    """Give the message that `join` makes, but in pieces, without copying the tensors' bytes."""
    parts: list[bytes | memoryview] = [header]
    offset = len(header)
    for buffer in buffers:
        content = buffer if isinstance(buffer, tuple) else (buffer,)
        byte_size = sum([piece.nbytes if isinstance(piece, memoryview) else len(piece) for piece in content])
        lead = _lead(raw_field, byte_size)
        if padding_field is not None and (beyond := (offset + len(lead)) % ALIGNMENT):
            lead = _padding(padding_field, beyond) + lead
        parts += (lead, *content)
        offset += len(lead) + byte_size
    return parts


def field(number: int, content: bytes) -> bytes:
    """Write a field of a message: bytes, a string, or a message that is serialised already."""
    return _lead(number, len(content)) + content


def split(
    message_type: type[M], data: bytes | memoryview, raw_field: int = RAW_FIELD, *, most_beside: int | None = None
) -> tuple[M, Sequence[memoryview | bytes]]:
    """Parse a message, and give its tensors' bytes without copying large ones.

    Args:
        message_type: What it is.
        data: Its bytes.
        raw_field: The number of the repeated `bytes` field that holds the tensors, as in `join`.
        most_beside: How many bytes a large message may have beside its tensors, as these may be a great many fields
            inside its own fields; None for any number.

    Raises:
        MalformedMessage: If `data` is no message of this type, or a large one of very many fields, or of too much
            beside its tensors.
    """
    try:
        if len(data) > SMALL_MESSAGE:
            most = min(len(data), MANY_SHORT_FIELDS) // SHORT_FIELD
            if (found := _cut(data, raw_field, most)) is not None:
                header, buffers = found
                if most_beside is not None and len(header) > most_beside:
                    raise MalformedMessage(
                        f"the {len(data)} bytes received have {len(header)} beside their tensors, "
                        f"expected at most {most_beside}"
                    )
                return message_type.FromString(header), buffers
            if len(data) > MANY_SHORT_FIELDS:
                raise MalformedMessage(f"the {len(data)} bytes received have more than {most} fields")
        message = message_type.FromString(bytes(data))
        return message, getattr(message, _name(message_type, raw_field))[:]
    except (DecodeError, IndexError) as error:
        raise MalformedMessage(
            f"the {len(data)} bytes received are not a message of type {message_type.DESCRIPTOR.full_name}"
        ) from error


def fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Give the number and the content of each length-delimited field of any message.

    Raises:
        IndexError: If it is no message, or is cut short.
    """
    at = 0
    while at < len(message):
        key, at = _decode_varint(message, at)
        start, at = _skip(message, at, key & 7)
        if key & 7 == _LENGTH_DELIMITED:
            yield key >> 3, message[start:at]


@lru_cache
def _name(message_type: type[Message], field: int) -> str:
    return message_type.DESCRIPTOR.fields_by_number[field].name


def _cut(data: bytes | memoryview, raw_field: int, most: int) -> tuple[bytes, list[memoryview]] | None:
    """Take one field's entries off a message's top level; IndexError if the message is cut short.

    None if there are more than `most` fields.
    """
    view = memoryview(data)
    kept: list[memoryview] = []
    buffers: list[memoryview] = []
    at, kept_from = 0, 0
    while at < len(data):
        if (most := most - 1) < 0:
            return None
        start = at
        key, at = _decode_varint(data, at)
        content, at = _skip(data, at, key & 7)
        if key >> 3 == raw_field and key & 7 == _LENGTH_DELIMITED:
            buffers.append(view[content:at])
            kept.append(view[kept_from:start])
            kept_from = at
    kept.append(view[kept_from:])
    return b"".join(kept), buffers


def _skip(data: bytes | memoryview, at: int, wire_type: int) -> tuple[int, int]:
    """Give where a field's content starts and ends."""
    if wire_type == _VARINT:
        return at, _decode_varint(data, at)[1]
    if wire_type == _LENGTH_DELIMITED:
        length, at = _decode_varint(data, at)
    elif wire_type in (_FIXED64, _FIXED32):
        length = 8 if wire_type == _FIXED64 else 4
    else:
        raise IndexError(f"wire type {wire_type} is not known")
    if at + length > len(data):
        raise IndexError("the message is cut short")
    return at, at + length


def _decode_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError("a varint has more than ten bytes")


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


@lru_cache
def _lead(field: int, byte_size: int) -> bytes:
    """Encode a field's key and length. Cached, because tensors of the same few sizes come again and again."""
    return _key(field) + _encode_varint(byte_size)


def _key(field: int) -> bytes:
    return _encode_varint(field << 3 | _LENGTH_DELIMITED)


@lru_cache
def _padding(field: int, beyond: int) -> bytes:
    """Make a field of padding that moves content which is so many bytes beyond an aligned place to the next one."""
    key = _key(field)
    gap = -(beyond + len(key) + 1) % ALIGNMENT
    return key + bytes((gap,)) + bytes(gap)
