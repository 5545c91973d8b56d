"""Who the workers of a server are: processes that share its ports, each a server of its own behind them.

A *crew* is the workers of a server; the *lead* is the one that was started, the others are its *followers*. Workers are
counted from 0 here, and from 1 where people read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Crew:
    """A crew, as one of its workers knows it: who there is, and how they find and know each other.

    Attributes:
        index: Which one this is. The first, 0, is the lead: it starts the others, and they end with it.
        count: How many there are.
        folder: Where they listen for each other: only the user whose processes they are can enter it.
        token: What a worker shows another when it asks for something that is for workers alone.
    """

    index: int = 0
    count: int = 1
    folder: Path = Path()
    token: str = ""

    @staticmethod
    def of(count: int) -> Crew:
        """Make a crew of `count` workers, as its lead knows it."""
        return Crew(0, count, token=token_hex(16))

    @property
    def is_lead(self) -> bool:
        """Whether this is the lead."""
        return self.index == 0

    @property
    def others(self) -> tuple[int, ...]:
        """The other workers."""
        return tuple(index for index in range(self.count) if index != self.index)

    @property
    def calls(self) -> Path | None:
        """Where this one listens for the others' calls, if there are any."""
        return self._calls_of(self.index) if self.count > 1 else None

    def address_of(self, index: int) -> str:
        """Give where a worker listens for the others' calls, as gRPC reads it."""
        return f"unix:{quote(os.fsencode(self._calls_of(index)))}"

    def connections_of(self, index: int) -> str:
        """Give where a worker takes connections that others hand over: the longest of its paths."""
        return os.fspath(self.folder / f"connections-{index}")

    def _calls_of(self, index: int) -> Path:
        return self.folder / f"calls-{index}"

    def new_id(self) -> str:
        """Make a name for what callers may ask any worker for and this one has. It cannot be guessed."""
        return f"{token_hex(8)}-{self.index}" if self.count > 1 else token_hex(8)

    def owner_of(self, name: str) -> int:
        """Give the worker that has made a name; this one if none has."""
        number = name.rpartition("-")[2]
        # Compared as text: a caller may send any number of digits, and Python refuses to read very many as a number.
        return next((index for index in range(self.count) if number == str(index)), self.index)


ALONE = Crew()
"""A server of one process."""
