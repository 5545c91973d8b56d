"""What becomes of work and answers for a peer that has gone, and who hears of it."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
from contextlib import suppress
from pathlib import Path
from weakref import ref

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send
from tests.certificates import Authority
from tests.transport.http.connections import (
    BROKEN,
    GET,
    MUCH,
    AnswersLater,
    answers,
    connect,
    is_gone,
)
from tests.waiting import LIMIT_S, a_turn, until

from inferwire_server.transport.http.bodies import read_undecoded
from inferwire_server.transport.http.caller_watch import CallerWatch
from inferwire_server.transport.http.cycle import GATHERED_BODY
from inferwire_server.transport.http.server import HttpServer, http_server
from inferwire_server.transport.tls import Tls


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
        await until(lambda: app.begun == 2)
        for _ in range(10):
            await a_turn()
        assert app.answered == 1
        reading = asyncio.ensure_future(reader.read(-1))
        await until(lambda: app.answered == 3)
        writer.close()
        await reading


async def test_a_peer_that_goes_while_its_answer_waits_is_forgotten() -> None:
    app = Counting()
    async with http_server(app, "127.0.0.1", 0) as server:
        _, writer = await connect(server)
        writer.write(GET * 2)
        await until(lambda: app.begun == 2)
        writer.transport.abort()
        await until(lambda: app.answered == 2)
        await until(is_gone(server))


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("request_", [b"GET / HT", GET, b"\0garbage", BROKEN, GET * 100])
async def test_nothing_of_a_connection_that_has_gone_is_left_for_garbage_collection(
    request_: bytes, *, resets: bool
) -> None:
    app = answers(MUCH if request_ == GET * 100 else b"hello")
    async with http_server(app, "127.0.0.1", 0) as server:
        _, writer = await connect(server)
        await until(lambda: bool(server.connections))
        gone = ref(server.connections[0])
        writer.write(request_)
        for _ in range(20):
            await a_turn()
        waiting = [ref(cycle) for connection in server.connections for cycle, _ in connection.pipeline]
        assert bool(waiting) == (request_ == GET * 100)
        gc.disable()
        try:
            if resets:
                reset_when_closed(writer)
            writer.transport.abort()
            await until(is_gone(server))
            await until(lambda: gone() is None and not any(each() for each in waiting))
        finally:
            gc.enable()


def reset_when_closed(writer: asyncio.StreamWriter) -> None:
    """Have the system reset the connection instead of saying that no more comes."""
    peer: socket.socket = writer.get_extra_info("socket")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def ask_and_leave(
    server: HttpServer, begun: asyncio.Event, ended: asyncio.Event, request: bytes = GET, *, resets: bool = False
) -> None:
    """Close the connection once the request has begun, or have the system reset it, and wait for the request's end."""
    _, writer = await connect(server)
    writer.write(request)
    await begun.wait()
    if resets:
        reset_when_closed(writer)
    writer.close()
    async with asyncio.timeout(LIMIT_S):
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
        await until(is_gone(server))
        with pytest.raises(ClientDisconnect), CallerWatch(Request(scope, receive)):
            raise AssertionError("nobody waits for it")
        ended.set()

    async with http_server(app, "127.0.0.1", 0) as server:
        await ask_and_leave(server, begun, ended, resets=True)


async def test_who_watches_no_longer_is_left_alone() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del send
        with CallerWatch(Request(scope, receive)):
            pass
        begun.set()
        await until(is_gone(server))
        ended.set()

    async with http_server(app, "127.0.0.1", 0) as server:
        await ask_and_leave(server, begun, ended, resets=True)


async def heard_after_end(server: HttpServer, requests: bytes) -> bytes:
    """Send requests and nothing more, keep the other direction open, and give what comes on it."""
    reader, writer = await connect(server)
    writer.write(requests)
    writer.write_eof()
    async with asyncio.timeout(LIMIT_S):
        heard = await reader.read()
    writer.close()
    return heard


@pytest.mark.parametrize(
    "requests", [GET, GET * 3, b"POST" + GET[3:-2] + b"content-length: 100000\r\n\r\n" + bytes(100000)]
)
async def test_a_peer_that_says_nothing_more_is_answered(requests: bytes) -> None:
    async with http_server(answers(b"hello"), "127.0.0.1", 0) as server:
        heard = await heard_after_end(server, requests)
        await until(is_gone(server))
    assert heard.count(b"\r\n\r\nhello") == requests.count(b" HTTP/1.1")


async def test_a_peer_that_says_nothing_more_is_answered_later_too(caplog: pytest.LogCaptureFixture) -> None:
    app = AnswersLater(b"hello")
    async with http_server(app, "127.0.0.1", 0) as server:
        hearing = asyncio.ensure_future(heard_after_end(server, GET))
        await app.begun.wait()
        for _ in range(10):
            await a_turn()
        app.may_end.set()
        assert (await hearing).endswith(b"hello")
        await until(is_gone(server))
    assert not caplog.records


async def test_a_peer_that_ends_tls_ends_it_for_both(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = AnswersLater(b"hello")
    authority = Authority(tmp_path / "tls")
    issued = authority.issue()
    async with http_server(app, "127.0.0.1", 0, tls=Tls(issued.certificate, issued.key)) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=authority.trusting)
        writer.write(GET)
        await app.begun.wait()
        writer.close()
        await until(is_gone(server))
        app.may_end.set()
    assert not caplog.records


@pytest.mark.parametrize(
    ("requests", "is_late"), [(GET, False), (GET * 2, False), (GET, True)], ids=["cancelled", "both", "not-begun"]
)
async def test_no_work_is_done_for_a_peer_that_says_nothing_more(
    requests: bytes, is_late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if is_late:
            (connection,) = server.connections
            await until(lambda: connection._connection.has_ended)
        with suppress(ClientDisconnect), CallerWatch(Request(scope, receive)):
            await asyncio.Event().wait()

    async with http_server(app, "127.0.0.1", 0) as server:
        assert await heard_after_end(server, requests) == b""
        await until(is_gone(server))
    assert not caplog.records


@pytest.mark.parametrize("requests", [b"", b"GET / HT", GET[:-2] + b"content-length: 2\r\n\r\n{"])
async def test_a_peer_that_ends_within_a_request_is_not_answered(requests: bytes) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async with http_server(app, "127.0.0.1", 0) as server:
        assert await heard_after_end(server, requests) == b""
        await until(is_gone(server))
