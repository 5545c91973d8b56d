"""An id for every request: the caller's own where it gave one, else a new one, on every answer."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from secrets import token_hex

HEADER = b"x-request-id"
_LONGEST = 128


class RequestIds:
    """Names requests."""

    def __init__(self) -> None:
        # Asking the system for randomness each time costs as much as parsing a request.
        self._prefix = token_hex(4).encode()
        self._numbers = count()

    def name(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        """Give the header for the answer to a request that came with these."""
        return HEADER, _given(headers) or b"%b%08x" % (self._prefix, next(self._numbers))


def _given(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Give the caller's id, unless it is something one would not want in a log."""
    for name, value in headers:
        if name == HEADER:
            text = value.decode("latin-1")
            return value if 0 < len(value) <= _LONGEST and text.isascii() and text.isprintable() else None
    return None
