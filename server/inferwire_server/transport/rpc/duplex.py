"""Both directions of one stream at once: a reader that takes messages in, a writer that sends what is ready.

Reader and writer both send: the reader sends what it finds ready before and after a message, without a turn of the loop
in between. All messages that have come are taken in before a batch that waits for more of them runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from inferwire_server.errors import shutting_down
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.rpc.context import Context


class Outgoing(Protocol):
    """What a stream has to send.

    Attributes:
        on_ready: Called whenever something becomes ready to be sent.
    """

    on_ready: Callable[[], None]

    @property
    def is_ready(self) -> bool:
        """Whether there is something to send now."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether nothing is to be sent now, and nothing is on its way."""
        ...

    @property
    def has_room(self) -> bool:
        """Whether more may be taken in: not while too much waits to be sent."""
        ...

    def take(self) -> bytes:
        """Give the next message; there has to be something ready."""
        ...


class Duplex:
    """A stream's messages both ways.

    It ends well when the peer has sent all and has got all answers; at once when a message cannot
    be taken; and when the server is draining, as soon as all answers are sent. If taking a message
    in gives an awaitable, that is awaited before the next message is read.
    """

    def __init__(
        self, context: Context, drain: Drain, outgoing: Outgoing, take_in: Callable[[bytes], Awaitable[None] | None]
    ) -> None:
        self._context = context
        self._drain = drain
        self._outgoing = outgoing
        self._take_in = take_in
        self._failure: Exception | None = None
        self._has_read_all = False
        self._something = asyncio.Event()
        self._room = asyncio.Event()
        outgoing.on_ready = self._something.set

    async def run(self, begin: Callable[[], Awaitable[None]] | None = None) -> None:
        """Carry messages until the stream is to end. Nothing is read before `begin` has ended.

        Raises:
            Exception: Why this side ends it.
        """
        with self._drain.notifying(self._something.set):
            async with asyncio.TaskGroup() as tasks:
                reader = tasks.create_task(self._read(begin))
                await self._write()
                reader.cancel()
        if self._failure is not None:
            raise self._failure
        if not self._has_read_all:
            raise shutting_down()

    async def _write(self) -> None:
        while not self._is_over:
            if self._outgoing.is_ready:
                await self._context.wait_for_room()
                self._send_ready()
                self._room.set()
            else:
                await self._something.wait()
                self._something.clear()

    @property
    def _is_over(self) -> bool:
        if self._failure is not None:
            return True
        return (self._has_read_all or self._drain.is_draining) and self._outgoing.has_ended

    def _send_ready(self) -> None:
        """Send what is ready, as far as the caller takes it; the writer sends the rest."""
        while self._outgoing.is_ready and self._context.has_room:
            self._context.send(self._outgoing.take())

    async def wait_for_room(self) -> None:
        """Wait while nothing more may be taken in."""
        while not self._outgoing.has_room:
            self._room.clear()
            await self._room.wait()

    async def _read(self, begin: Callable[[], Awaitable[None]] | None) -> None:
        try:
            if begin is not None:
                await begin()
            while (data := await self._context.read()) is not None:
                self._send_ready()
                if (rest := self._take_in(data)) is not None:
                    await rest
                if self._outgoing.is_ready:
                    # The message's inference has run at once, and the next one may, too: other calls go first.
                    self._send_ready()
                    await asyncio.sleep(0)
                await self.wait_for_room()
            self._has_read_all = True
        except Exception as error:  # noqa: BLE001 - the stream ends with it, whatever it is
            self._failure = error
        self._something.set()
