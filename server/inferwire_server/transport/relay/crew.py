"""Who the workers of a server are: processes that share its ports, each a server of its own behind them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex


@dataclass(frozen=True, slots=True)
class Crew:
    """The workers of a server, as one of them knows them.

    Attributes:
        index: Which one this is. The first, 0, is the lead: it starts the others, and they end with it.
        count: How many there are.
        folder: Where each has a socket for the others. Nobody else may enter.
        token: What a worker shows when it asks another to answer by itself.
    """

    index: int = 0
    count: int = 1
    folder: Path = Path()
    token: str = ""

    @property
    def is_lead(self) -> bool:
        """Whether this is the lead."""
        return self.index == 0

    @property
    def others(self) -> tuple[int, ...]:
        """The other workers."""
        return tuple(index for index in range(self.count) if index != self.index)

    @property
    def socket(self) -> Path | None:
        """Where this one listens for the others, if there are any."""
        return self.socket_of(self.index) if self.count > 1 else None

    def socket_of(self, index: int) -> Path:
        """Give the path at which a worker listens for the others."""
        return self.folder / f"worker-{index}"

    def new_id(self) -> str:
        """Make a name nobody can guess, of something that lives in this worker."""
        return f"{token_hex(8)}-{self.index}" if self.count > 1 else token_hex(8)

    def owner_of(self, name: str) -> int:
        """Give the worker that has made a name; this one where none has."""
        number = name.rpartition("-")[2]
        # It is text of a caller's, of any length, and Python makes no numbers of long ones.
        return next((index for index in range(self.count) if number == str(index)), self.index)


ALONE = Crew()
"""A server of one process."""
