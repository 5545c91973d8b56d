"""Where the answers to a caller's jobs go out, and whether the caller takes them."""

from __future__ import annotations

from typing import Protocol

LOOK_AGAIN_S = 0.01
"""How long jobs are held back, because their caller does not take its answers, before it is looked again."""


class Outlet(Protocol):
    """The way out of answers, one caller's or one that several share."""

    @property
    def is_clogged(self) -> bool:
        """Whether so many answers wait to be taken that no job starts whose answer would join them.

        That must not depend on a job that is held back: the answers that wait can be taken before it has run.
        """
        ...
