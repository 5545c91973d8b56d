"""Turns whatever a call raised into the error that its caller is told."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from inferwire_proto.frames import FrameTooLarge, MalformedFrame
from inferwire_proto.raw_fields import MalformedMessage
from inferwire_server.bugs import logged_failure
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.transport.message_limits import message_too_large


def as_serving_error(error: Exception, **where: str) -> ServingError:
    """Turn whatever a call raised into what its caller is told.

    An unexpected error is logged with `where` it arose, and its caller is told the id under which it is logged.
    """
    if isinstance(error, ServingError):
        return error
    if isinstance(error, FrameTooLarge):
        return message_too_large(error.byte_size, error.most_bytes)
    if isinstance(error, MalformedMessage | MalformedFrame | DecodeError):
        return invalid_input(str(error))
    return logged_failure("a call", error, **where)
