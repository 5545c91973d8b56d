"""Whether the peers of a server that closes take the answers that are due to them."""

from __future__ import annotations

from typing import Protocol

_STALL_S = 5.0
"""How long a peer may take nothing of what is due to it."""


class Due(Protocol):
    """A connection on which something may be due."""

    @property
    def due_bytes(self) -> int:
        """How much has been said that the peer has not taken."""
        ...


class Taking:
    """Knows how much was due to each peer, and since when."""

    def __init__(self, last_s: float, stall_s: float = _STALL_S) -> None:
        """Begin to look; who has taken all has so long to go."""
        self._last_s = last_s
        self._stall_s = stall_s
        self._due: dict[Due, tuple[int, float]] = {}

    def __repr__(self) -> str:
        return f"<Taking: {len(self._due)} connections>"

    def goes_on(self, connection: Due, now: float) -> bool:
        """Say whether a peer still takes what is due to it, or has just taken the last; not if nothing ever was."""
        due_bytes = connection.due_bytes
        if connection not in self._due and not due_bytes:
            return False
        before, since = self._due.get(connection, (due_bytes + 1, now))
        if due_bytes < before:
            self._due[connection] = due_bytes, now
            return True
        return now - since < (self._stall_s if due_bytes else self._last_s)
