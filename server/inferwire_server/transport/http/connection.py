"""What the requests of a connection share: whether it is read, and who is told that its peer has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized

from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.flow_control import FlowControl

from inferwire_server.core.callers import Caller
from inferwire_server.transport.http.joined_writes import JoinedWrites


class BoundedFlow(FlowControl):
    """Flow control that stops reading while several requests wait behind the one that is being answered.

    It also does so while there is anything `behind` those requests, which is not parsed yet.

    That bounds what a connection holds in memory: uvicorn alone would read on whenever the application asks for a body.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Sized, behind: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting
        self._behind = behind

    def resume_reading(self) -> None:
        """Read on, unless several wait. A single one is next in turn, and its body may be what is to be read."""
        if self.read_paused and len(self._waiting) <= 1 and not self._behind:
            super().resume_reading()

    async def drain(self) -> None:
        """Wait until the peer takes more, or is gone. If the request is cancelled meanwhile, the peer is cut off.

        It could not be told. uvicorn would log the cancellation as a bug, and wait for the peer again to answer 500.
        """
        try:
            await super().drain()
        except asyncio.CancelledError:
            self._transport.abort()
            await super().drain()


class Connection:
    """What a connection's requests share: one is answered at a time.

    Attributes:
        caller: Who its peer is for turns among callers.
        has_ended: Whether nothing more comes. The peer is gone, or has closed its own side alone; the two look alike
            until something is sent. Answers are still sent, but no more work is done for the peer.
        is_lost: Whether the peer is gone.
    """

    __slots__ = ("_on_lost", "caller", "flow", "has_ended", "is_lost", "transport")

    def __init__(self, transport: JoinedWrites, flow: FlowControl, caller: Caller) -> None:
        self.caller = caller
        self.transport = transport
        self.flow = flow
        self.has_ended = self.is_lost = False
        self._on_lost: Callable[[], None] | None = None

    def watch(self, on_lost: Callable[[], None]) -> None:
        """Have this called when the peer closes its side of the connection, until it is unwatched.

        Raises:
            ClientDisconnect: It has. The connection is then closed.
        """
        if self.has_ended:
            self.is_lost = True
            self.transport.close()
        if self.is_lost:
            raise ClientDisconnect
        self._on_lost = on_lost
        # A long body leaves reading paused, and a connection that is not read does not notice that its peer is gone. If
        # several requests wait, reading stays paused: that their peer is gone is noticed when they have their turn.
        self.flow.resume_reading()

    def unwatch(self) -> None:
        """Stop watching."""
        self._on_lost = None

    def end(self) -> bool:
        """Record that nothing more comes; say whether no request watches, so that what is due may still be sent."""
        self.has_ended = True
        return self._on_lost is None

    def lost(self) -> None:
        """Record that the peer is gone."""
        self.is_lost = True
        if self._on_lost is not None:
            self._on_lost()
