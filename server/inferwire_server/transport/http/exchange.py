"""A request and its answer, on the connection they came by: what an application may do that ASGI has no words for.

`HttpProtocol` puts it into each request's scope. Whatever it does to uvicorn's own record of the request is done here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from typing import Protocol, TypeAlias
from weakref import ref

from starlette.requests import ClientDisconnect
from starlette.types import Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from inferwire_server.transport.http.joined_writes import JoinedWrites

Headers: TypeAlias = list[tuple[bytes, bytes]]
"""Headers as they are sent."""

Body: TypeAlias = bytes | bytearray | memoryview
"""What a request has behind its head."""

EXTENSION = "inferwire.exchange"
"""The name among the scope's extensions."""


class Caller(Protocol):
    """Who is answered, as an application sees them."""

    def watch(self, on_lost: Callable[[], None]) -> None:
        """Have this called when they are gone, until they are unwatched; ClientDisconnect where they are already."""
        ...

    def unwatch(self) -> None:
        """Call nobody any more."""
        ...


class Exchanged(Protocol):
    """A request and its answer, as an application sees them. The caller may be with another worker."""

    @property
    def connection(self) -> Caller:
        """Whose request it is."""
        ...

    async def wait_for_body(self) -> None:
        """Wait until all of a body has come whose length was stated, or its caller has gone."""
        ...

    def take_body(self) -> Body | None:
        """Take the body of the request where all of it has come; None where it is still to be received."""
        ...

    def takes(self, send: Send) -> bool:
        """Whether events sent so come straight to the connection: else somebody between wants to see them."""
        ...

    async def answer(self, headers: Headers, body: bytes) -> None:
        """Answer 200 with a whole body, where it `takes` events."""
        ...


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
    """What the exchanges of a connection share: it has one at a time."""

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


class Exchange:
    """One request and its answer."""

    __slots__ = ("_cycle", "connection")

    def __init__(self, cycle: RequestResponseCycle, connection: Connection) -> None:
        # Its scope holds this exchange: they would keep one another until garbage is looked for.
        self._cycle = ref(cycle)
        self.connection = connection

    async def wait_for_body(self) -> None:
        """Wait until all of a body has come whose length was stated, or its caller has gone."""
        cycle, connection = self._cycle(), self.connection
        if cycle is not None and cycle.waiting_for_100_continue and not connection.transport.is_closing():
            connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            cycle.waiting_for_100_continue = False
        while cycle is not None and cycle.more_body and not (cycle.disconnected or cycle.response_complete):
            connection.flow.resume_reading()
            await cycle.message_event.wait()
            cycle.message_event.clear()

    def take_body(self) -> Body | None:
        """Take the body of the request where all of it has come; None where it is still to be received."""
        cycle = self._cycle()
        if cycle is None or cycle.more_body or cycle.disconnected:
            return None
        body, cycle.body = cycle.body, bytearray()
        cycle.message_event.clear()
        return body

    def takes(self, send: Send) -> bool:
        """Whether events sent so come straight to the connection: else somebody between wants to see them."""
        cycle = self._cycle()
        return cycle is not None and send == cycle.send

    async def answer(self, headers: Headers, body: bytes) -> None:
        """Answer 200 with a whole body, written at once. The headers say its length, and nothing that a peer has sent.

        It ends the exchange as the last of ASGI's events does.
        """
        cycle, connection = self._cycle(), self.connection
        if connection.flow.write_paused:
            await connection.flow.drain()
        if cycle is None or cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        lines = [b"%b: %b\r\n" % header for header in (*cycle.default_headers, *headers)]
        if not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        connection.transport.writelines((b"HTTP/1.1 200 OK\r\n%b\r\n" % b"".join(lines), body))
        cycle.message_event.set()
        if not cycle.keep_alive:
            connection.transport.close()
        cycle.on_response()


def exchange_of(scope: Scope) -> Exchanged:
    """Give the exchange that a request is part of."""
    return scope["extensions"][EXTENSION]
