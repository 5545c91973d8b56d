"""What becomes of work and answers for a peer that has gone, and who hears of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send
from tests.transport.http.connections import GET, MUCH, a_go_of_the_loop, answers, connect, is_gone, reaches

from inferwire_server.transport.http.bodies import read_undecoded
from inferwire_server.transport.http.caller_watch import CallerWatch
from inferwire_server.transport.http.cycle import GATHERED_BODY
from inferwire_server.transport.http.server import HttpServer, http_server


class Counting:
    """Gives long answers, and counts those that it has begun and those that were taken."""

    begun = answered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        await answers(MUCH)(scope, receive, send)
        self.answered += 1


async def test_a_peer_that_does_not_read_is_waited_for() -> None:
    app = Counting()
    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(GET * 3)
        await reaches(lambda: app.begun == 2)
        for _ in range(10):
            await a_go_of_the_loop()
        assert app.answered == 1
        reading = asyncio.ensure_future(reader.read(-1))
        await reaches(lambda: app.answered == 3)
        writer.close()
        await reading


async def test_a_peer_that_goes_while_its_answer_waits_is_forgotten() -> None:
    app = Counting()
    async with http_server(app, "127.0.0.1", 0) as server:
        _, writer = await connect(server)
        writer.write(GET * 2)
        await reaches(lambda: app.begun == 2)
        writer.transport.abort()
        await reaches(lambda: app.answered == 2)
        await reaches(is_gone(server))


async def ask_and_leave(server: HttpServer, begun: asyncio.Event, ended: asyncio.Event, request: bytes = GET) -> None:
    """Close the connection once the request has begun, and wait for its end."""
    _, writer = await connect(server)
    writer.write(request)
    await begun.wait()
    writer.close()
    async with asyncio.timeout(10):
        await ended.wait()


async def test_work_for_a_peer_that_goes_is_cancelled() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del send
        begun.set()
        with pytest.raises(ClientDisconnect), CallerWatch(Request(scope, receive)):
            await asyncio.Event().wait()
        ended.set()

    async with http_server(app, "127.0.0.1", 0) as server:
        await ask_and_leave(server, begun, ended)


async def test_work_for_a_peer_that_goes_is_cancelled_though_its_body_was_too_long_to_be_read_in_one_go() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del send
        request = Request(scope, receive)
        await read_undecoded(request, GATHERED_BODY)
        begun.set()
        with pytest.raises(ClientDisconnect), CallerWatch(request):
            await asyncio.Event().wait()
        ended.set()

    async with http_server(app, "127.0.0.1", 0) as server:
        # Its last byte is the one at which the peer is told to wait.
        head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % GATHERED_BODY
        await ask_and_leave(server, begun, ended, head + bytes(GATHERED_BODY))


async def test_a_peer_that_goes_with_several_requests_open_is_none_whose_answer_is_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del send
        begun.set()
        with suppress(ClientDisconnect), CallerWatch(Request(scope, receive)):
            await asyncio.Event().wait()
        ended.set()

    async with http_server(app, "127.0.0.1", 0) as server:
        await ask_and_leave(server, begun, ended, GET * 2)
    assert not caplog.records


async def test_work_for_a_peer_that_has_gone_is_not_begun() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del send
        begun.set()
        await reaches(is_gone(server))
        with pytest.raises(ClientDisconnect), CallerWatch(Request(scope, receive)):
            raise AssertionError("nobody waits for it")
        ended.set()

    async with http_server(app, "127.0.0.1", 0) as server:
        await ask_and_leave(server, begun, ended)


async def test_who_watches_no_longer_is_left_alone() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del send
        with CallerWatch(Request(scope, receive)):
            pass
        begun.set()
        await reaches(is_gone(server))
        ended.set()

    async with http_server(app, "127.0.0.1", 0) as server:
        await ask_and_leave(server, begun, ended)
