"""How much a message may have, and how many things a request; what is more is refused with the limit.

How much may wait for a caller on its stream is here, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from inferwire_proto import raw_fields
from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError, invalid_input

MOST_WAITING_BYTES = 64 << 20
"""How many bytes of outputs may wait for a caller on its stream. With more of them no more of its requests start, and
those of a session are not even read."""

FEW = 4096
"""How many inputs, outputs, parameters or settings a request may have: models have hundreds."""


def check_few(what: str, count: int) -> None:
    """Check how many things a request has: until all of them are read, no other call has a turn.

    Raises:
        ServingError: INVALID_INPUT for more than any request needs.
    """
    if count > FEW:
        raise invalid_input(f"there are {count} {what}, expected at most {FEW}")


def checked(message: bytes, limit: int) -> bytes:
    """Give an answer that is to be sent, once its size is checked.

    Raises:
        ServingError: TOO_LARGE if it does not fit in a message.
    """
    if len(message) > limit:
        raise answer_too_large(len(message), limit)
    return message


def joined(header: bytes, buffers: Iterable[raw_fields.Content], limit: int) -> bytes:
    """Join an answer of inferwire.v1 with its tensors' bytes, which are copied, once its size is checked.

    Raises:
        ServingError: TOO_LARGE if it does not fit in a message.
    """
    pieces = raw_fields.pieces(header, buffers)
    byte_size = sum([memoryview(piece).nbytes for piece in pieces])
    if byte_size > limit:
        raise answer_too_large(byte_size, limit)
    return b"".join(pieces)


def message_too_large(byte_size: int, limit: int) -> ServingError:
    """Refuse a message of a caller's that may not be that large."""
    return ServingError(
        Code.TOO_LARGE,
        f"the message has {byte_size} bytes, at most {limit} fit; send less in one, "
        "or start the server with a larger --max-grpc-message-mb",
    )


def answer_too_large(byte_size: int, limit: int) -> ServingError:
    """Refuse an answer that does not fit in a message."""
    return ServingError(
        Code.TOO_LARGE,
        f"the answer has {byte_size} bytes, at most {limit} fit in a message; ask for fewer outputs, "
        "or start the server with a larger --max-grpc-message-mb",
    )
