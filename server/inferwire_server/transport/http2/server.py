"""A server's listening sockets and their connections: how they are opened, checked for silent peers, and closed."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Generic, TypeAlias, TypeVar

from inferwire_server.transport.accepting import Accepting, speaking
from inferwire_server.transport.http2.connection import Connection
from inferwire_server.transport.http2.outflow import Write
from inferwire_server.transport.http2.protocol import Http2Protocol, Http2Surroundings, Http2Timeouts
from inferwire_server.transport.keepalive import Keepalive, PeerTimeouts, Verdict
from inferwire_server.transport.open_connections import OpenConnections
from inferwire_server.transport.protocol_switch import ProtocolSwitch
from inferwire_server.transport.standstill import Standstill
from inferwire_server.transport.turns import Turns

H = TypeVar("H")

Connect: TypeAlias = Callable[[Write, Http2Protocol[H]], Connection[H]]
"""Begins a connection, on its socket."""

_STALL_S = 5.0
"""How long a peer may take no byte of its answers while the server closes."""

_TAKING_LOOK_S = 0.1


class Http2Server(Generic[H]):
    """Listening sockets and their connections, open inside `async with`."""

    def __init__(
        self,
        connect: Connect[H],
        not_http2: bytes,
        timeouts: Http2Timeouts | None = None,
        other: ProtocolSwitch | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._connect = connect
        self._timeouts = timeouts or Http2Timeouts()
        self._connections: OpenConnections[Http2Protocol[H]] = OpenConnections()
        self._around = Http2Surroundings(
            self._add, self._connections.discard, not_http2, other, self._timeouts, Turns(), clock
        )
        self._listening: list[Accepting] = []
        self._is_closing = False
        self._standstill = Standstill()
        self._looking: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Http2Server: {len(self._connections)} connections>"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    async def __aenter__(self) -> Http2Server[H]:
        self._look()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for accepting in self._listening:
            await accepting.end()
        for connection in self._connections:
            connection.cut_off()
        await self._connections.wait_until_gone()

    def listen(
        self, listener: socket.socket, tls: ssl.SSLContext | None = None, connect: Connect[H] | None = None
    ) -> None:
        """Take connections at a socket, which is this server's from now on.

        If `connect` is given, it begins them in place of the server's own.
        """
        new = partial(Http2Protocol, connect or self._connect, self._around)
        self._listening.append(Accepting(listener, speaking(new, tls)))

    def part(self) -> None:
        """Have connected peers begin nothing more. A connection closes when all calls on it have ended."""
        for connection in self._connections:
            connection.part()

    async def close(self, flush_s: float, limit_s: float = 0.0) -> int:
        """Take no more connections, let peers end what they have begun, and wait for that for up to `flush_s`.

        Peers that take their answers have until `limit_s` is over, if that is later. Give how many answers were cut
        off.
        """
        ends_at = self._around.clock() + limit_s
        self._is_closing = True
        for accepting in self._listening:
            accepting.close()
        self.part()
        loop = asyncio.get_running_loop()
        leaving = loop.call_later(min(self._timeouts.heard_s, flush_s), self._leave)
        try:
            async with asyncio.timeout(flush_s):
                await self._connections.wait_until_gone()
        except TimeoutError:
            return await self._see_off(ends_at, flush_s)
        finally:
            leaving.cancel()
        return 0

    async def _see_off(self, ends_at: float, flush_s: float) -> int:
        """Wait for the peers that take their answers, and cut off all others; give how many answers that were."""
        began_at, timeouts = self._around.clock(), PeerTimeouts(answer_s=_STALL_S, linger_s=flush_s)
        taking = {connection: Keepalive(timeouts, began_at) for connection in self._connections if connection.due_bytes}
        for keepalive in taking.values():
            keepalive.ending(began_at)
        cut = 0
        while self._connections:
            now = self._around.clock()
            for connection in self._connections:
                keepalive = taking.get(connection)
                if now >= ends_at or keepalive is None or keepalive.judge(now, connection.due_bytes) is Verdict.CUT_OFF:
                    cut += connection.answers_due
                    connection.cut_off()
            with suppress(TimeoutError):
                async with asyncio.timeout(_TAKING_LOOK_S):
                    await self._connections.wait_until_gone()
        return cut

    def _add(self, connection: Http2Protocol[H]) -> None:
        self._connections.add(connection)
        if self._is_closing:
            # Its TLS handshake has taken until now.
            connection.leave()

    def _leave(self) -> None:
        """Leave all connections, also those whose peers have not acknowledged the announcement."""
        for connection in self._connections:
            connection.leave()

    def _look(self) -> None:
        """Check for silent peers, every `look_s`."""
        now = self._around.clock()
        if self._standstill.is_over(now, self._timeouts.look_s):
            for connection in self._connections:
                connection.wait_anew(now)
        for connection in self._connections:
            connection.look(now)
        self._looking = asyncio.get_running_loop().call_later(self._timeouts.look_s, self._look)
