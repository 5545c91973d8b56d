"""What the requests of a connection share: whether it is read, and who is told that its peer has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized

from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.flow_control import FlowControl

from inferwire_server.transport.http.joined_writes import JoinedWrites


class Turns(FlowControl):
    """Whether a connection is read: not while several requests wait behind the one that is being answered.

    What has been read by then is all that it may hold in memory, whoever asks for more of a body or for its end.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        """Read on, unless several wait. One that does begins next, and is then the one that may be read for."""
        if self.read_paused and len(self._waiting) <= 1:
            super().resume_reading()


class Connection:
    """What its requests share: one is answered at a time."""

    __slots__ = ("_is_lost", "_on_lost", "flow", "transport")

    def __init__(self, transport: JoinedWrites, flow: FlowControl) -> None:
        self.transport = transport
        self.flow = flow
        self._is_lost = False
        self._on_lost: Callable[[], None] | None = None

    def watch(self, on_lost: Callable[[], None]) -> None:
        """Have this called when the peer closes the connection, until it is unwatched.

        Raises:
            ClientDisconnect: It has.
        """
        if self._is_lost:
            raise ClientDisconnect
        self._on_lost = on_lost
        # A long body leaves the reading paused, and a connection that is not read has no end. That of a peer which has
        # sent several requests in a row is noticed when these have their turn.
        self.flow.resume_reading()

    def unwatch(self) -> None:
        """Call nobody any more."""
        self._on_lost = None

    def lost(self) -> None:
        """Record that the peer is gone."""
        self._is_lost = True
        if self._on_lost is not None:
            self._on_lost()
