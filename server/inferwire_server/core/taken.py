"""How much has been taken of something that there is a limit to."""

from __future__ import annotations

from typing import NamedTuple


class Taken(NamedTuple):
    """How many bytes are taken, of at most so many."""

    byte_size: int
    most_bytes: float
