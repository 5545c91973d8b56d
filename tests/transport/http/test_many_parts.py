"""Bodies that come in very many parts: taken a few at once, so that nobody else waits for all of them."""

from __future__ import annotations

import asyncio
import re

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send
from tests.transport.http.connections import GET, answers, connect, is_gone, raw
from tests.waiting import a_turn, until

from inferwire_server.transport.http.bodies import read_undecoded
from inferwire_server.transport.http.cycle import GATHERED_BODY
from inferwire_server.transport.http.server import HttpServer, http_server

HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
FEW = 16 * 1024
"""More parts than are taken in a turn of the loop."""

LIMIT = 64 << 20


class App:
    """Says how much it has been sent, once it may look."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_read = asyncio.Event()
        self.has_missed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun.set()
        await self.may_read.wait()
        try:
            body = await read_undecoded(Request(scope, receive), LIMIT)
        except ClientDisconnect:
            self.has_missed = True
            return
        await answers(b"<%d>" % len(body))(scope, receive, send)


def chunks(count: int, each: bytes = b"x") -> bytes:
    return b"%x\r\n%b\r\n" % (len(each), each) * count


def gathered(server: HttpServer) -> int:
    (connection,) = server.connections
    return len(connection.cycle.body)


async def test_chunks_of_a_byte_are_taken_a_few_thousand_in_a_turn() -> None:
    app, count = App(), 300_000
    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(HEAD + chunks(count) + LAST_CHUNK)
        await app.begun.wait()
        before, most = gathered(server), 0
        while before < count:
            await a_turn()
            now = gathered(server)
            most, before = max(most, now - before), now
        app.may_read.set()
        await reader.readuntil(b"<%d>" % count)
        writer.write(GET)
        await reader.readuntil(b"<0>")
        writer.close()
    assert most < FEW


async def test_the_peer_waits_for_who_does_not_read() -> None:
    app = App()
    each, count = b"x" * 100, 5 * GATHERED_BODY // 100
    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(HEAD + chunks(count, each) + LAST_CHUNK)
        await app.begun.wait()
        await until(lambda: gathered(server) >= GATHERED_BODY)
        for _ in range(1000):
            await a_turn()
        assert gathered(server) < 2 * GATHERED_BODY
        app.may_read.set()
        await reader.readuntil(b"<%d>" % (100 * count))
        writer.close()


async def test_what_stands_behind_them_is_the_next_request_and_what_is_none_is_refused() -> None:
    app = App()
    app.may_read.set()
    async with http_server(app, "127.0.0.1", 0) as server:
        one = HEAD + chunks(20_000) + LAST_CHUNK
        answer = await raw(server, one + GET + one + HEAD + chunks(20_000) + b"no length")
    assert re.findall(rb"HTTP/1.1 (\d+)|(<\d+>)", answer) == [
        (b"200", b""),
        (b"", b"<20000>"),
        (b"200", b""),
        (b"", b"<0>"),
        (b"200", b""),
        (b"", b"<20000>"),
        (b"400", b""),
    ]


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_peer_that_goes_in_the_middle_is_noticed(*, is_reset: bool) -> None:
    app = App()
    app.may_read.set()
    async with http_server(app, "127.0.0.1", 0) as server:
        _, writer = await connect(server)
        writer.write(HEAD + chunks(100_000))
        await app.begun.wait()
        if is_reset:
            writer.transport.abort()
        else:
            writer.close()
        await until(lambda: app.has_missed)
        await until(is_gone(server))
