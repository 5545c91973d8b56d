"""Reads requests without tensors, which are never large."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message

from inferwire_proto.errors import Code
from inferwire_proto.raw_fields import MANY_SHORT_FIELDS
from inferwire_server.errors import ServingError

M = TypeVar("M", bound=Message)


def parse(message_type: type[M], data: bytes) -> M:
    """Parse a request, unless it is so large that this might take all memory.

    Raises:
        ServingError: TOO_LARGE.
        DecodeError: If the bytes are no such request.
    """
    if len(data) > MANY_SHORT_FIELDS:
        sentence = f"the message has {len(data)} bytes, expected at most {MANY_SHORT_FIELDS} in a call without tensors"
        raise ServingError(Code.TOO_LARGE, sentence)
    return message_type.FromString(data)
