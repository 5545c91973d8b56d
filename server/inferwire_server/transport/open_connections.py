"""The connections of a port that are open, and how the end of all of them is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Generic, TypeVar

C = TypeVar("C")


class OpenConnections(Generic[C]):
    """Connections from their beginning to their end. They may come and go while they are iterated over."""

    def __init__(self) -> None:
        self._open: set[C] = set()
        self._are_gone = asyncio.Event()

    def __repr__(self) -> str:
        return f"<OpenConnections: {len(self)}>"

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[C]:
        return iter(tuple(self._open))

    def add(self, connection: C) -> None:
        """Record a connection that begins."""
        self._open.add(connection)

    def discard(self, connection: C) -> None:
        """Record a connection that ends."""
        self._open.discard(connection)
        if not self._open:
            self._are_gone.set()

    async def wait_until_gone(self) -> None:
        """Wait until there is none."""
        self._are_gone.clear()
        if self._open:
            await self._are_gone.wait()
