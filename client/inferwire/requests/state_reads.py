"""Which states of a request its program reads between two changes of them, and so is likely to read after the next.

Owns what is fetched along with a state, since each call that fetches takes a round trip, and holds that until it is
read. Knows nothing of calls, nor of when states change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from inferwire.transport.descriptions import StateValue

MOST_BYTES = 4 << 20
"""How much is fetched together. Where states are larger, the round trips are not what takes long."""


class StateReads:
    """The reads between two changes."""

    def __init__(self, expected: Mapping[str, int] | None = None) -> None:
        self._expected = expected or {}
        self._read: dict[str, int] = {}
        self._ahead: dict[str, StateValue] = {}

    def __repr__(self) -> str:
        return f"<StateReads: {len(self._read)} states read, {len(self._ahead)} fetched ahead>"

    def after_change(self) -> StateReads:
        """Give the reads after a change of the states: those of before are expected again, and nothing is here."""
        return StateReads(dict(self._read) or self._expected)

    def names_with(self, name: str) -> tuple[str, ...]:
        """Name the states to fetch as one is read: itself, and those that are expected after it and fit."""
        if name not in self._expected:
            return (name,)
        names, byte_size = [name], self._expected[name]
        for other, size in self._expected.items():
            is_here = other == name or other in self._read or other in self._ahead
            if not is_here and byte_size + size <= MOST_BYTES:
                names.append(other)
                byte_size += size
        return tuple(names)

    def expect_none(self) -> None:
        """Name no others until the next change."""
        self._expected = {}

    def keep(self, values: Iterable[StateValue]) -> None:
        """Hold what was fetched along."""
        self._ahead.update((value.name, value) for value in values)

    def take(self, name: str) -> StateValue | None:
        """Give a state that is held, once."""
        return self._ahead.pop(name, None)

    def note(self, value: StateValue) -> None:
        """Note that the program reads a state."""
        self._read[value.name] = memoryview(value.data).nbytes
