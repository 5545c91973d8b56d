"""Who the workers of a server are: processes that share its ports, each a server of its own behind them."""

from __future__ import annotations

from dataclasses import dataclass
from secrets import token_hex


@dataclass(frozen=True, slots=True)
class Crew:
    """A crew, as one of its workers knows it: who there is, and how they find and know each other.

    Attributes:
        index: Which one this is. The first, 0, is the lead: it starts the others, and they end with it.
        count: How many there are.
        name: What tells it from other servers on this machine.
        token: What a worker shows when it asks another for what it answers nobody else.
    """

    index: int = 0
    count: int = 1
    name: str = ""
    token: str = ""

    @staticmethod
    def of(count: int) -> Crew:
        """Make a crew of so many, as its lead knows it."""
        return Crew(0, count, token_hex(8), token_hex(16))

    @property
    def is_lead(self) -> bool:
        """Whether this is the lead."""
        return self.index == 0

    @property
    def others(self) -> tuple[int, ...]:
        """The other workers."""
        return tuple(index for index in range(self.count) if index != self.index)

    @property
    def address(self) -> str | None:
        """Where this one listens for the others, if there are any."""
        return self.address_of(self.index) if self.count > 1 else None

    def address_of(self, index: int) -> str:
        """Give where a worker listens for the others: at a name that is no file, and goes with its process."""
        return f"unix-abstract:inferwire-{self.name}-{index}"

    def new_id(self) -> str:
        """Make a name for a job of this worker, which nobody can guess."""
        return f"{token_hex(8)}-{self.index}" if self.count > 1 else token_hex(8)

    def owner_of(self, name: str) -> int:
        """Give the worker that has made a name; this one where none has."""
        number = name.rpartition("-")[2]
        # It is text of a caller's, of any length, and Python makes no numbers of long ones.
        return next((index for index in range(self.count) if number == str(index)), self.index)


ALONE = Crew()
"""A server of one process."""
