"""Names that callers make up, and that the server keeps after it has answered their requests: they have to be short."""

from __future__ import annotations

from inferwire_server.errors import invalid_input

LONGEST_NAME = 1024
"""How many characters a name may have: names do not count towards what may be kept for callers."""


def check_name(what: str, name: str) -> None:
    """Refuse a name that is too long to be kept.

    Raises:
        ServingError: INVALID_INPUT.
    """
    if len(name) > LONGEST_NAME:
        raise invalid_input(f"{what} has {len(name)} characters, expected at most {LONGEST_NAME}")
