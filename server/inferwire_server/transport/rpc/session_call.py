"""InferenceService.Session: a gRPC stream that carries a session's messages."""

from __future__ import annotations

import asyncio
from time import monotonic

from inferwire_server.errors import invalid_input, shutting_down
from inferwire_server.service import Services
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.duplex import Duplex
from inferwire_server.transport.session.greeting import SessionTerms, no_hello
from inferwire_server.transport.session.stream import SessionStream


class SessionCall:
    """One call, whose hello is waited for so long."""

    def __init__(self, services: Services, drain: Drain, context: Context, terms: SessionTerms, hello_s: float) -> None:
        self._drain = drain
        self._context = context
        self._hello_s = hello_s
        self._stream = SessionStream(services, terms)

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
            await Duplex(self._context, self._drain, self._stream.outbox, self._receive).run()
        finally:
            self._stream.end()

    async def _first_message(self) -> bytes:
        """Read the hello, from a peer that may never send one, which is not to hold up the end of the server."""
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

    def _receive(self, data: bytes) -> None:
        self._stream.receive(data, monotonic())
