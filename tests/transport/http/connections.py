"""Connections to an HTTP server, and waiting for what comes on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import Receive, Scope, Send

from inferwire_server.transport.http.responses import BytesResponse
from inferwire_server.transport.http.server import HttpServer

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
BROKEN = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\nno length"
MUCH = bytes(16 * 1024 * 1024)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(server: HttpServer) -> Streams:
    return await asyncio.open_connection("127.0.0.1", server.port)


async def raw(server: HttpServer, request: bytes) -> bytes:
    reader, writer = await connect(server)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


def answers(body: bytes) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await BytesResponse(body, b"text/plain", [(b"one", b"1")])(scope, receive, send)

    return app


class AnswersLater:
    """An application that answers when a test lets it."""

    def __init__(self, body: bytes) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self._answers = answers(body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun.set()
        await self.may_end.wait()
        await self._answers(scope, receive, send)


def is_gone(server: HttpServer) -> Callable[[], bool]:
    return lambda: not server.connections
