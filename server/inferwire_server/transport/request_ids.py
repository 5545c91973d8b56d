"""Ids of requests, by which a caller's log and the server's find each other: the caller's own where it gave one.

Over HTTP every request has one, and its answer tells it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from secrets import token_hex

NAME = "x-request-id"
HEADER = NAME.encode()

_LONGEST = 128


def is_loggable(given: str) -> bool:
    """Whether a caller's id may be written to the log: it is short, and printable ASCII."""
    return 0 < len(given) <= _LONGEST and given.isascii() and given.isprintable()


def id_in(metadata: Iterable[tuple[str, str]]) -> str:
    """Give the id that a gRPC caller has given its call; nothing if there is none that may be logged."""
    return next((value for name, value in metadata if name == NAME and is_loggable(value)), "")


class RequestIds:
    """Gives requests their ids."""

    def __init__(self) -> None:
        # Asking the system for randomness each time costs as much as parsing a request.
        self._prefix = token_hex(4).encode()
        self._numbers = count()

    def name(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        """Give the header for the answer to a request that came with these."""
        return HEADER, _given(headers) or b"%b%08x" % (self._prefix, next(self._numbers))


def _given(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Give the caller's id, if there is one that may be logged."""
    for name, value in headers:
        if name == HEADER:
            return value if is_loggable(value.decode("latin-1")) else None
    return None
