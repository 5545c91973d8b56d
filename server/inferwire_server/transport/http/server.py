"""The HTTP port and its connections: how it is opened, checked for silent peers, and closed. uvicorn speaks on them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from email.utils import formatdate
from functools import partial
from time import monotonic
from typing import Any

import structlog
from starlette.types import ASGIApp
from uvicorn import Config

from inferwire_server.transport.accepting import Accepting, speaking
from inferwire_server.transport.connection_age import Ages
from inferwire_server.transport.http.protocol import HttpProtocol, HttpSurroundings, PlainHttpProtocol
from inferwire_server.transport.http.request_timeouts import RequestTimeouts
from inferwire_server.transport.listening import authority, listen
from inferwire_server.transport.open_connections import OpenConnections
from inferwire_server.transport.standstill import Standstill
from inferwire_server.transport.tls import Tls

log = structlog.stdlib.get_logger()

_KEEP_ALIVE_S = 75

_HOLD_S = 0.1
"""How long connections stay open once no more are taken: what has been sent on them by then is answered, which a
connection that is closed cannot be. Who sends one request after the other is told that the last answer is one."""

_LEAVING_LOOK_S = 0.1

_TELLING_S = 0.1
"""How long callers whose requests are cancelled may take to be told so."""


class HttpServer:
    """A listening server."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        timeouts: RequestTimeouts,
        ages: Ages,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.host = host
        self.port = port
        self._timeouts = timeouts
        self._clock = clock
        self._standstill = Standstill()
        self._connections: OpenConnections[HttpProtocol] = OpenConnections()
        self._around = HttpSurroundings(_settings(app), self._add, self._connections.discard, ages)
        self._listening: Accepting | None = None
        self._is_leaving = False
        self._looking: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        is_closed = self._is_leaving and not self._connections
        state = "closed" if is_closed else f"{len(self._connections)} connections"
        return f"<HttpServer {authority(self.host, self.port)}: {state}>"

    @property
    def connections(self) -> tuple[HttpProtocol, ...]:
        """The connections that are open."""
        return tuple(self._connections)

    def listen(self, listener: socket.socket, tls: Tls | None) -> None:
        """Take connections at a socket, which is this server's from now on."""
        self._look()
        context = None if tls is None else tls.http
        new, plain = partial(HttpProtocol, self._around), partial(PlainHttpProtocol, self._around)
        self._listening = Accepting(listener, speaking(new, context, plain))

    def part(self) -> None:
        """Have every answer close its connection, so that callers come back by new ones, which lead to other servers.

        Connections on which nothing is due stay open: a request may be on its way.
        """
        self._around.is_parting = True
        for connection in self._connections:
            connection.part()

    async def drain(self, grace_s: float, others: Awaitable[object] | None = None) -> None:
        """Accept nothing more, let calls in flight finish, and cancel what is left after the grace.

        Idle connections are closed soon, the others after their answer. Before all that this waits for `others`, and
        callers are answered until they are done.
        """
        ends_at = monotonic() + grace_s
        if others is not None:
            await others
        self.part()
        if self._listening is not None:
            self._listening.close()
        await asyncio.sleep(min(_HOLD_S, ends_at - monotonic()))
        self._leave()
        at_work = self._around.state.tasks
        try:
            async with asyncio.timeout(ends_at - monotonic()):
                await self._connections.wait_until_gone()
                while at_work:
                    await asyncio.wait(at_work)
        except TimeoutError:
            if at_work:
                log.warning("HTTP requests were cancelled: they had not ended in time", requests=len(at_work))
                await self._cancel(at_work)

    async def close(self) -> None:
        """End all that is left, at once."""
        await self.drain(0)
        if self._listening is not None:
            await self._listening.end()
        for connection in self._connections:
            connection.cut_off()
        await self._connections.wait_until_gone()
        if self._looking is not None:
            self._looking.cancel()

    async def _cancel(self, at_work: Collection[asyncio.Task[None]]) -> None:
        """Cancel requests, and cut off the peers that do not take what they are told, which would hold up the end."""
        for task in at_work:
            task.cancel()
        await asyncio.wait(at_work, timeout=_TELLING_S)
        if at_work:
            for connection in self._connections:
                connection.cut_off()
            await asyncio.wait(at_work)

    def _add(self, connection: HttpProtocol) -> None:
        self._connections.add(connection)
        if self._is_leaving:
            # Its TLS handshake has taken until now.
            connection.leave()

    def _leave(self) -> None:
        self._is_leaving = True
        for connection in self._connections:
            connection.leave()
        self._look()

    def _look(self) -> None:
        """Update the Date header, and check for silent peers, now and again."""
        if self._looking is not None:
            self._looking.cancel()
        self._around.state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        look_s = min(self._timeouts.look_s, _LEAVING_LOOK_S) if self._is_leaving else self._timeouts.look_s
        now = self._clock()
        if self._standstill.is_over(now, look_s):
            for connection in self._connections:
                connection.wait_anew()
        for connection in self._connections:
            connection.look(now, self._timeouts)
        self._looking = asyncio.get_running_loop().call_later(look_s, self._look)


@asynccontextmanager
async def http_server(
    app: ASGIApp,
    host: str,
    port: int,
    *,
    shares_port: bool = False,
    tls: Tls | None = None,
    timeouts: RequestTimeouts | None = None,
    ages: Ages | None = None,
    clock: Callable[[], float] = monotonic,
) -> AsyncGenerator[HttpServer, None]:
    """Serve an application until the block is left; port 0 takes a free one.

    Other processes may listen on a port that is shared: the system then spreads connections over them. With `tls` the
    port speaks HTTPS alone.

    Raises:
        CannotListen: If the address cannot be bound.
    """
    listener = listen("HTTP", host, port, shares_port=shares_port)
    server = HttpServer(app, host, listener.getsockname()[1], timeouts or RequestTimeouts(), ages or Ages(), clock)
    try:
        server.listen(listener, tls)
        yield server
    finally:
        await server.close()


def _settings(app: ASGIApp) -> Config:
    """Say what uvicorn's protocol is to do: nothing of its own besides HTTP."""
    application: Any = app
    settings = Config(
        application,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
    )
    settings.load()
    return settings
