"""InferenceService.Session: a gRPC stream that carries a session's messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from time import monotonic

from inferwire_server.errors import invalid_input, shutting_down
from inferwire_server.service import Services
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.duplex import Duplex
from inferwire_server.transport.session.greeting import SessionTerms, no_hello
from inferwire_server.transport.session.socket_sessions import SocketSessions
from inferwire_server.transport.session.stream import AT_ONCE, SessionStream


class SessionCall:
    """One call. It drains and takes turns with the sessions on sockets, and waits as long for its hello as they do."""

    def __init__(self, services: Services, sockets: SocketSessions, context: Context, terms: SessionTerms) -> None:
        self._drain = sockets.drain
        self._turns = sockets.turns
        self._hello_s = sockets.hello_s
        self._context = context
        self._stream = SessionStream(services, terms)
        self._duplex = Duplex(context, sockets.drain, self._stream.outbox, self._receive)
        self._turn: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<SessionCall: {self._stream!r}>"

    async def run(self) -> None:
        """Carry messages until either side ends the stream.

        Raises:
            ServingError: Why this side ended it.
        """
        data = await self._first_message()
        try:
            await self._context.write(self._stream.begin(data, monotonic()))
            await self._duplex.run(self._take_rest)
        finally:
            self._turns.forget(self)
            self._stream.end()

    def go_on(self) -> None:
        """Take more of the last message."""
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    async def _first_message(self) -> bytes:
        """Read the hello. A peer may never send one, and is not to hold up the end of the server by that."""
        if self._drain.is_draining:
            raise shutting_down()
        now = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(self._hello_s) as limit:
                with self._drain.notifying(lambda: limit.reschedule(now())):
                    data = await self._context.read()
        except TimeoutError:
            if self._drain.is_draining:
                raise shutting_down() from None
            raise no_hello(self._hello_s) from None
        if data is None:
            raise invalid_input("the stream ended before its first message, expected one with a hello")
        return data

    def _receive(self, data: bytes) -> Awaitable[None] | None:
        self._stream.receive(data, monotonic())
        return self._take_rest() if self._stream.outbox.expects_more else None

    async def _take_rest(self) -> None:
        """Take the rest of the last message, in turns, and while there is room for its results."""
        while self._stream.outbox.expects_more:
            await self._duplex.wait_for_room()
            self._turn = asyncio.get_running_loop().create_future()
            self._turns.wait(self)
            await self._turn
            self._stream.left = AT_ONCE
            self._stream.go_on()
