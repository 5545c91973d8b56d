"""Turns whatever a call raised into the error that its caller is told, and refuses what is too much to read or send."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from inferwire_proto.errors import Code
from inferwire_proto.frames import FrameTooLarge, MalformedFrame
from inferwire_proto.raw_fields import MalformedMessage
from inferwire_server.bugs import logged_failure
from inferwire_server.errors import ServingError, invalid_input

FEW = 4096
"""How many inputs, outputs, parameters or settings a request may have: models have hundreds."""


def check_few(what: str, count: int) -> None:
    """Check of how many things a request is made: nobody else has a turn until all of them are read.

    Raises:
        ServingError: INVALID_INPUT for more of them than anybody has.
    """
    if count > FEW:
        raise invalid_input(f"there are {count} {what}, expected at most {FEW}")


def as_serving_error(error: Exception, **where: str) -> ServingError:
    """Turn whatever a call raised into what its caller is told.

    What nobody expected is logged with `where` it was met, and its caller told the id that it is logged under.
    """
    if isinstance(error, ServingError):
        return error
    if isinstance(error, FrameTooLarge):
        return message_too_large(error.byte_size, error.most_bytes)
    if isinstance(error, MalformedMessage | MalformedFrame | DecodeError):
        return invalid_input(str(error))
    return logged_failure("a call", error, **where)


def too_large(byte_size: int, limit: int) -> ServingError:
    """Refuse an answer that is no message any more."""
    return ServingError(
        Code.TOO_LARGE,
        f"the answer has {byte_size} bytes, at most {limit} fit in a message; ask for fewer outputs, "
        "or start the server with a larger --max-grpc-message-mb",
    )


def checked(message: bytes, limit: int) -> bytes:
    """Give an answer that is to be sent.

    Raises:
        ServingError: TOO_LARGE if it is no message any more.
    """
    if len(message) > limit:
        raise too_large(len(message), limit)
    return message


def message_too_large(byte_size: int, limit: int) -> ServingError:
    """Refuse a message of a caller's that may not be that large."""
    return ServingError(
        Code.TOO_LARGE,
        f"the message has {byte_size} bytes, at most {limit} fit; send less in one, "
        "or start the server with a larger --max-grpc-message-mb",
    )
