"""A gRPC port with methods that a test defines."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from inferwire_server.service import AccessService
from inferwire_server.service.refusals import Refusals
from inferwire_server.transport.connection_age import Ages
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.http2.protocol import Http2Timeouts
from inferwire_server.transport.http2.server import Http2Server
from inferwire_server.transport.listening import listen
from inferwire_server.transport.rpc.call_head import CallHead
from inferwire_server.transport.rpc.dispatcher import Dispatcher
from inferwire_server.transport.rpc.guard import Guard
from inferwire_server.transport.rpc.methods import Method

NOT_HTTP2 = b"this is HTTP/2"


def guard_of(drain: Drain | None = None) -> Guard:
    """Make a guard that lets every caller in."""
    return Guard(drain or Drain(), Refusals(), AccessService())


@asynccontextmanager
async def served_methods(
    methods: Mapping[str, Method],
    guard: Guard | None = None,
    *,
    at: Path | None = None,
    most_message_bytes: int = 1 << 20,
    timeouts: Http2Timeouts | None = None,
    ages: Ages | None = None,
) -> AsyncGenerator[int, None]:
    """Serve methods by their paths, to other workers at a Unix socket if one is given; give the port."""
    dispatcher = Dispatcher(methods, guard or guard_of(), most_message_bytes, ages)
    server: Http2Server[CallHead] = Http2Server(dispatcher.connect, NOT_HTTP2, timeouts)
    async with server:
        if at is None:
            listener = listen("gRPC", "127.0.0.1", 0, shares_port=False)
        else:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(at))
        server.listen(listener, connect=None if at is None else dispatcher.connect_worker)
        yield listener.getsockname()[1] if at is None else 0
        await dispatcher.end()
