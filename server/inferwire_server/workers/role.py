"""The role of a process in its server: when it may begin to work, and what may stop it besides signals."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Role(Protocol):
    """What a process is among the processes of a server."""

    async def lets_work(self) -> None:
        """Wait until this process, which has loaded its models, may say that it is ready."""
        ...

    def stops(self, stop: asyncio.Event) -> AbstractContextManager[None]:
        """Set the event when it is time to stop, as long as the block runs."""
        ...


class Alone:
    """A process that takes no orders: the only one, or the lead of several."""

    async def lets_work(self) -> None:
        """Wait for nothing."""

    def stops(self, stop: asyncio.Event) -> AbstractContextManager[None]:
        """Leave it to signals."""
        del stop
        return nullcontext()
