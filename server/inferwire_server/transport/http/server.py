"""The HTTP socket: uvicorn on the server's own loop, without signals, access log or settings of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from math import ceil
from time import monotonic
from typing import Any

import structlog
from starlette.types import ASGIApp
from uvicorn import Config, Server

from inferwire_server.transport.http.awaited import RequestTimeouts
from inferwire_server.transport.http.protocol import HttpProtocol, Parting
from inferwire_server.transport.listening import BACKLOG, authority, listen
from inferwire_server.transport.request_ids import RequestIds
from inferwire_server.transport.taking_over import TakeOver
from inferwire_server.transport.tls import Tls

log = structlog.stdlib.get_logger()

_KEEP_ALIVE_S = 75

_LOOK_S = 0.1


class HttpServer:
    """A listening server."""

    def __init__(self, host: str, port: int, server: LoopServer, serving: asyncio.Task[None]) -> None:
        self.host = host
        self.port = port
        self._server = server
        self._serving = serving

    def __repr__(self) -> str:
        state = "closed" if self._serving.done() else f"{len(self.connections)} connections"
        return f"<HttpServer {authority(self.host, self.port)}: {state}>"

    @property
    def connections(self) -> tuple[HttpProtocol, ...]:
        """The connections that are open."""
        return self._server.connections

    def part(self) -> None:
        """Have every answer close its connection, so that callers come back by new ones, which lead to other servers.

        Connections on which nothing is due stay open: a request may be on its way.
        """
        self._server.part()

    async def drain(self, grace_s: float, others: Awaitable[object] | None = None) -> None:
        """Accept nothing more, let calls in flight finish, and cancel what is left after the grace.

        Idle connections are closed at once, the others after their answer. All that happens once the others are done,
        which are waited for first, and answered until then.
        """
        ends_at = monotonic() + grace_s
        if others is not None:
            await others
        self._server.leave(ends_at - monotonic())
        await asyncio.wait([self._serving])
        left = tuple(self._server.server_state.tasks)
        if left:
            await asyncio.wait(left)


@asynccontextmanager
async def http_server(
    app: ASGIApp,
    host: str,
    port: int,
    *,
    shares_port: bool = False,
    take_over: TakeOver | None = None,
    tls: Tls | None = None,
    timeouts: RequestTimeouts | None = None,
) -> AsyncGenerator[HttpServer, None]:
    """Serve an application until the block is left; port 0 takes a free one.

    Other processes may listen on a port that is shared: the system then spreads connections over them. Connections
    that carry sessions are left to whoever takes them over, if anybody does. With `tls` the port speaks HTTPS alone.

    Raises:
        CannotListen: If the address cannot be bound.
    """
    listener = listen("HTTP", host, port, shares_port=shares_port)
    parting = Parting()
    server = LoopServer(_config(app, parting, take_over, tls), parting, timeouts or RequestTimeouts())
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(server.serve([listener]))
        await server.has_started.wait()
        running = HttpServer(host, listener.getsockname()[1], server, serving)
        try:
            yield running
        finally:
            await running.drain(0)


class LoopServer(Server):
    """A uvicorn server that somebody else starts and ends."""

    def __init__(self, config: Config, parting: Parting, timeouts: RequestTimeouts) -> None:
        super().__init__(config)
        self._parting = parting
        self._timeouts = timeouts
        self.has_started = asyncio.Event()
        self._is_leaving = asyncio.Event()
        self._grace_s = 1

    @property
    def connections(self) -> tuple[HttpProtocol, ...]:
        """The connections that are open."""
        return tuple(c for c in self.server_state.connections if isinstance(c, HttpProtocol))

    def part(self) -> None:
        """Send callers elsewhere, those whose answer is due among them."""
        self._parting.has_begun = True
        for connection in self.connections:
            connection.part()

    def leave(self, grace_s: float) -> None:
        """Begin to shut down."""
        # With no time at all nobody would even look whether somebody is left.
        self._grace_s = max(1, ceil(grace_s))
        self._is_leaving.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave the signals to the process."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self.has_started.set()

    async def main_loop(self) -> None:
        """Keep the Date header true, and look after silent peers, until it is time to go."""
        while not self._is_leaving.is_set():
            await self.on_tick(0)
            now = monotonic()
            for connection in self.connections:
                connection.look(now, self._timeouts)
            try:
                async with asyncio.timeout(self._timeouts.look_s):
                    await self._is_leaving.wait()
            except TimeoutError:
                continue

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close idle connections, and the others after their answer."""
        async with asyncio.TaskGroup() as tasks:
            parting = tasks.create_task(self._part())
            await super().shutdown(sockets)
            parting.cancel()

    async def _wait_tasks_to_complete(self) -> None:
        """Wait for the peers, and cancel what works for those that take too long.

        uvicorn has a limit of its own for that, but says that it is an error, and in its own words.
        """
        try:
            async with asyncio.timeout(self._grace_s):
                await super()._wait_tasks_to_complete()
        except TimeoutError:
            left = tuple(self.server_state.tasks)
            if left:
                log.warning("HTTP requests were cancelled: they had not ended in time", requests=len(left))
            for task in left:
                task.cancel()

    async def _part(self) -> None:
        """Look, as often as uvicorn does while it waits for connections to go, whether one stays that need not.

        It may have come since, after its handshake. Or its peer has begun a request and is silent. Or it is closed, all
        is written, and what is missing is that its peer closes TLS as well: a peer that is idle does not read that it
        should.
        """
        while True:
            for connection in self.connections:
                joined: Any = connection.transport
                transport: asyncio.Transport = joined.release()
                if not transport.is_closing():
                    connection.shutdown()
                    connection.look(monotonic(), self._timeouts)
                elif transport.get_write_buffer_size() == 0:
                    _read_no_more(transport)
            await asyncio.sleep(_LOOK_S)


def _config(app: ASGIApp, parting: Parting, take_over: TakeOver | None, tls: Tls | None) -> Config:
    application: Any = app
    protocol: Any = partial(HttpProtocol, RequestIds(), parting, take_over)
    return Config(
        application,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        backlog=BACKLOG,
        ssl_context_factory=None if tls is None else lambda _config, _default: tls.http,
    )


def _read_no_more(transport: asyncio.Transport) -> None:
    """Have a connection be at its peer's end. What is on its way to the peer still goes, which `abort` would drop."""
    open_still: socket.socket | None = transport.get_extra_info("socket")
    if open_still is not None:
        with suppress(OSError), open_still.dup() as itself:
            itself.shutdown(socket.SHUT_RD)
