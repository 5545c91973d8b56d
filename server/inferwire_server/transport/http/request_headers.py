"""Headers of a request, looked up without the framework's mapping, which takes ten times as long."""

from __future__ import annotations

from starlette.types import Scope

_MOST_DIGITS = 20
"""More than any length has."""


def header(scope: Scope, name: bytes) -> str | None:
    """Give a header's first value, by its name in small letters; None where it was not sent.

    Blanks behind it are no part of it, as HTTP has it; the parser takes off those before it alone.
    """
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1").rstrip(" \t")
    return None


def stated_length(scope: Scope) -> int:
    """Give how many bytes the body has by its headers, which the parser has taken; 0 where they do not say."""
    return length_of(header(scope, b"content-length") or "")


def length_of(digits: str) -> int:
    """Read a header's length, whatever zeros are in front; 0 where there are no digits.

    Of too many digits the first are read: Python refuses to read thousands, and the length is beyond any limit anyway.
    """
    return int(digits.lstrip("0")[:_MOST_DIGITS] or "0")
