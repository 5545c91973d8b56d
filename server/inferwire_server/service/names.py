"""Names that callers make up, and that are kept when their requests have been answered: they are short."""

from __future__ import annotations

from inferwire_server.errors import invalid_input

LONGEST_NAME = 1024
"""How many characters one may have: of what is kept for callers, names are not counted."""


def check_name(what: str, name: str) -> None:
    """Refuse a name that is too long to be kept.

    Raises:
        ServingError: INVALID_INPUT.
    """
    if len(name) > LONGEST_NAME:
        raise invalid_input(f"{what} has {len(name)} characters, expected at most {LONGEST_NAME}")
