"""The gRPC port: how it opens, and how it closes without losing calls."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import structlog

from inferwire_server.service import Services
from inferwire_server.transport.connection_age import Ages
from inferwire_server.transport.http2.server import Http2Server
from inferwire_server.transport.listening import listen
from inferwire_server.transport.rpc.call_head import CallHead
from inferwire_server.transport.rpc.dispatcher import Dispatcher
from inferwire_server.transport.rpc.guard import Guard
from inferwire_server.transport.rpc.health_calls import HealthCalls
from inferwire_server.transport.rpc.methods import Around, Method, RawCall, path_of
from inferwire_server.transport.rpc.offered_services import health_service, methods_by_path, offered
from inferwire_server.transport.session.socket_sessions import SocketSessions
from inferwire_server.transport.tls import Tls
from inferwire_server.transport.trace_context import JoinTrace
from inferwire_server.transport.unix_socket import socket_file

log = structlog.stdlib.get_logger()

_FLUSH_S = 1.0
"""How long the last answers may take to leave once every call has ended. Callers that take them have longer."""

_HOLD_S = 0.1
"""How long the port stays open while all calls are refused: callers whose calls have just ended call again, and are
told why they are refused."""

_CUT_S = 0.1
"""How long what was sent may take to leave if calls are cut off."""

_NOT_HTTP2 = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"this is the gRPC port, which takes no HTTP/1.1: REST calls go to the HTTP port, "
    b"8000 unless set with --http-port\n"
)
"""What a peer that speaks something else than HTTP/2 is told."""


@dataclass(frozen=True, slots=True)
class GrpcOptions:
    """Where the server listens, on a port (0 picks a free one) and at a path if one is given, and how much it takes.

    Attributes:
        shares_port: Whether other processes may listen there as well: the system then spreads connections over them.
        beside: A further Unix socket on which it listens, for this server's other processes.
        tls: The certificate that the port shows; None for a plain port.
        join_trace: Makes what a call of one message does part of its caller's trace; None if there are no traces.
        ages: How old connections may become; those of sessions, and of other processes, any age.
    """

    host: str = "127.0.0.1"
    port: int = 8001
    max_message_bytes: int = 256 << 20
    socket: Path | None = None
    shares_port: bool = False
    beside: Path | None = None
    tls: Tls | None = None
    join_trace: JoinTrace | None = None
    ages: Ages = field(default_factory=Ages)


_NOTHING: Mapping[str, RawCall] = {}


class GrpcServer:
    """The gRPC interface of the services, open inside `async with`. `around` wraps their calls, `further` adds calls.

    Calls that are added check by themselves who calls. Sessions on plain sockets come to the same port, if they are
    taken; it is drained together with them.
    """

    def __init__(
        self,
        services: Services,
        options: GrpcOptions,
        sockets: SocketSessions,
        around: Around | None = None,
        further: Mapping[str, RawCall] = _NOTHING,
    ) -> None:
        self._options = options
        self._drain = sockets.drain
        offers = offered(services, sockets, options.max_message_bytes)
        self._health = HealthCalls(services.health, self._drain, [service.name for service in offers])
        methods = methods_by_path([*offers, health_service(self._health)], options.join_trace, around)
        methods |= {path_of(name): Method(call, takes_stream=True, is_keyless=True) for name, call in further.items()}
        guard = Guard(self._drain, services.refusals, services.access)
        self._dispatcher = Dispatcher(methods, guard, options.max_message_bytes, options.ages)
        self._server: Http2Server[CallHead] = Http2Server(self._dispatcher.connect, _NOT_HTTP2, other=sockets.other)
        self._open = AsyncExitStack()
        self.port = options.port

    def __repr__(self) -> str:
        return f"<GrpcServer {self._options.host}:{self.port}: {self._drain!r}>"

    @property
    def connections(self) -> int:
        """How many connections are open, including those of other workers."""
        return self._server.connections

    async def __aenter__(self) -> GrpcServer:
        options = self._options
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self._server)
            opening.push_async_callback(self._dispatcher.end)
            listener = listen("gRPC", options.host, options.port, shares_port=options.shares_port)
            self.port = listener.getsockname()[1]
            self._server.listen(listener, None if options.tls is None else options.tls.grpc)
            if options.beside is not None:
                beside = opening.enter_context(socket.socket(socket.AF_UNIX))
                beside.bind(os.fspath(options.beside))
                self._server.listen(beside, connect=self._dispatcher.connect_worker)
            if (path := options.socket) is not None:
                cannot = f"cannot listen for gRPC at '{path}'"
                file = opening.enter_context(socket.socket(socket.AF_UNIX))
                opening.enter_context(socket_file(path, lambda at: file.bind(os.fspath(at)), cannot))
                self._server.listen(file)
            self._open = opening.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._open.aclose()

    def publish_readiness(self) -> None:
        """Tell callers that watch the health that it may have changed."""
        self._health.publish()

    def part(self) -> None:
        """Have callers begin nothing more on their connections: new connections may lead to other servers.

        What has begun goes on, including sessions.
        """
        self._server.part()

    async def drain(self, grace_s: float, others: Awaitable[object] | None = None) -> int:
        """Send callers away, wait for running calls and then for `others`, which may still call, and close the port.

        Calls that have not begun by then are refused, including those that are still being sent. Callers that take
        their answers have what is left of `grace_s` for it. Give how many calls were cut off.
        """
        ends_at = monotonic() + grace_s
        left = await self._drain.drain(grace_s)
        if others is not None:
            await others
        self._drain.close()
        self._dispatcher.refuse_unbegun()
        await asyncio.sleep(_HOLD_S)
        cut = await self._server.close(_CUT_S if left else _FLUSH_S, ends_at - monotonic())
        if left:
            log.warning("calls and sessions were cut off: they had not ended in time", calls=left)
        if cut:
            log.warning("answers were cut off: their callers did not take them in time", answers=cut)
        return left + cut
