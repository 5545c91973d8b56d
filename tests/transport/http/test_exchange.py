"""What an application may do with a connection beyond ASGI: answer at once, and hear that the peer has gone."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from weakref import ref

import httpx
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from inferwire_proto.frames import PREFACE
from inferwire_server.transport.http.awaited import RequestTimeouts
from inferwire_server.transport.http.bodies import read_undecoded
from inferwire_server.transport.http.caller_watch import CallerWatch
from inferwire_server.transport.http.exchange import exchange_of
from inferwire_server.transport.http.protocol import GATHERED_BODY
from inferwire_server.transport.http.responses import BytesResponse
from inferwire_server.transport.http.server import HttpServer, http_server

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
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


def is_gone(server: HttpServer) -> Callable[[], bool]:
    return lambda: not server.connections


async def a_go_of_the_loop() -> None:
    passed = asyncio.Event()
    asyncio.get_running_loop().call_soon(passed.set)
    await passed.wait()


async def reaches(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await a_go_of_the_loop()


async def test_an_answer_at_once_is_as_any_other() -> None:
    async with http_server(answers(b"hello"), "127.0.0.1", 0) as server, httpx.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{server.port}/", headers={"x-request-id": "mine"})
        again = await client.get(f"http://127.0.0.1:{server.port}/")
        assert len(server.connections) == 1
    assert (answer.status_code, answer.text, again.text) == (200, "hello", "hello")
    assert answer.headers.pop("date")
    assert dict(answer.headers) == {
        "x-request-id": "mine",
        "content-type": "text/plain",
        "content-length": "5",
        "one": "1",
    }


@pytest.mark.parametrize("request_", [GET.replace(b"1.1", b"1.0"), GET.replace(b": x", b": x\r\nconnection: close")])
async def test_a_connection_for_one_request_is_closed_behind_the_answer(request_: bytes) -> None:
    async with http_server(answers(b"hello"), "127.0.0.1", 0) as server:
        answer = await raw(server, request_)
        assert b"\r\nconnection: close\r\n" in answer
        assert answer.endswith(b"\r\n\r\nhello")


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_who_sends_a_long_body_for_one_answer_can_read_it_though_it_comes_early(version: bytes) -> None:
    head = b"POST / HTTP/%b\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % (version, len(MUCH))

    def post(server: HttpServer) -> bytes:
        with socket.create_connection(("127.0.0.1", server.port)) as peer:
            peer.sendall(head + MUCH)
            return b"".join(iter(partial(peer.recv, 65536), b""))

    async with http_server(answers(b"hello"), "127.0.0.1", 0) as server:
        assert (await asyncio.to_thread(post, server)).endswith(b"\r\n\r\nhello")
        await reaches(is_gone(server))


async def test_nothing_behind_a_last_answer_that_came_early_is_worked_for() -> None:
    asked: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope["method"])
        await answers(b"hello")(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server:
        server.part()
        reader, writer = await connect(server)
        writer.write(BROKEN[:-9])
        await reader.readuntil(b"hello")
        writer.write(b"0\r\n\r\n" + GET)
        assert await reader.read() == b""
        writer.close()
    assert asked == ["POST"]


async def test_an_answer_that_breaks_off_ends_its_connection_with_the_body() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello", "more_body": True})
        raise ValueError("a bug")

    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(BROKEN[:-9])
        await reader.readuntil(b"hello")
        writer.write(b"0\r\n\r\n")
        assert await reader.read() == b"\r\n"
        writer.close()


async def test_a_peer_that_ends_no_body_is_given_up_behind_its_last_answer() -> None:
    timeouts = RequestTimeouts(body_s=0.0, look_s=0.01)
    async with http_server(answers(b"hello"), "127.0.0.1", 0, timeouts=timeouts) as server:
        answer = await raw(server, BROKEN[:-9].replace(b": x", b": x\r\nconnection: close"))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"\r\n\r\nhello")


async def test_a_server_that_ends_hears_nobody_out() -> None:
    async with http_server(answers(b"hello"), "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(BROKEN[:-9].replace(b": x", b": x\r\nconnection: close"))
        await reader.readuntil(b"hello")
        await server.drain(30)
        assert await reader.read() == b""
        writer.close()


async def test_requests_sent_in_a_row_are_answered_in_a_row() -> None:
    async with http_server(answers(b"hello"), "127.0.0.1", 0) as server:
        last = GET.replace(b": x", b": x\r\nconnection: close")
        assert (await raw(server, GET + GET + last)).count(b"\r\n\r\nhello") == 3


BROKEN = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\nno length"


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("said", [b"\0garbage", BROKEN])
async def test_what_is_no_request_is_refused_when_those_before_it_are_answered(before: int, said: bytes) -> None:
    async with http_server(answers(b"hello"), "127.0.0.1", 0) as server:
        answer = await raw(server, GET * before + said)
    assert re.findall(rb"HTTP/1.1 (\d)", answer) == [b"2"] * before + [b"4"]
    assert answer.count(b"hello") == before
    assert answer.count(b"connection: close") == 1


async def test_nothing_is_written_into_an_answer_whose_requests_body_breaks_off() -> None:
    begun = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"some", "more_body": True})
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass

    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        body_at = BROKEN.index(b"no length")
        writer.write(BROKEN[:body_at])
        await begun.wait()
        writer.write(BROKEN[body_at:])
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"\r\n\r\n4\r\nsome\r\n")


async def test_requests_in_a_row_are_not_read_without_bound() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        with CallerWatch(Request(scope, receive)):
            begun.set()
            await may_end.wait()
        await answers(b"hello")(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(GET * 200_000)
        await begun.wait()
        (connection,) = server.connections
        waiting = connection.pipeline
        await reaches(lambda: len(waiting) > 1)
        may_end.set()
        most = 0
        for _ in range(100):
            await reader.readuntil(b"hello")
            most = max(most, len(waiting))
        writer.transport.abort()
        await reaches(is_gone(server))
    assert most < 20_000


async def test_who_has_put_itself_between_sees_the_answer() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def watched(message: object) -> None:
            assert isinstance(message, dict)
            seen.append(message["type"])
            await send(message)

        await answers(b"hello")(scope, receive, watched)

    async with http_server(app, "127.0.0.1", 0) as server, httpx.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{server.port}/")
    assert (answer.text, answer.headers["one"]) == ("hello", "1")
    assert seen == ["http.response.start", "http.response.body"]


async def test_a_peer_that_does_not_read_is_waited_for() -> None:
    begun, answered = [0], [0]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun[0] += 1
        await answers(MUCH)(scope, receive, send)
        answered[0] += 1

    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(GET * 3)
        await reaches(lambda: begun[0] == 2)
        for _ in range(10):
            await a_go_of_the_loop()
        assert answered == [1]
        reading = asyncio.ensure_future(reader.read(-1))
        await reaches(lambda: answered[0] == 3)
        writer.close()
        await reading


async def test_a_peer_that_goes_while_its_answer_waits_is_forgotten() -> None:
    begun, answered = [0], [0]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun[0] += 1
        await answers(MUCH)(scope, receive, send)
        answered[0] += 1

    async with http_server(app, "127.0.0.1", 0) as server:
        _, writer = await connect(server)
        writer.write(GET * 2)
        await reaches(lambda: begun[0] == 2)
        writer.transport.abort()
        await reaches(lambda: answered[0] == 2)
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


async def test_an_exchange_goes_with_its_request() -> None:
    requests: list[ref[object]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        method: Any = receive
        requests.append(ref(method.__self__))
        assert exchange_of(scope).takes(send)
        await answers(b"hello")(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server, httpx.AsyncClient() as client:
        gc.disable()
        try:
            for _ in range(2):
                await client.get(f"http://127.0.0.1:{server.port}/")
            assert requests[0]() is None
        finally:
            gc.enable()


async def test_a_body_that_has_come_is_taken_once_and_one_that_has_not_is_received() -> None:
    taken: list[bytes | None] = []
    received: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = exchange_of(scope).take_body()
        taken.append(None if body is None else bytes(body))
        if body is None:
            received.append(await read_undecoded(Request(scope, receive), 10))
        assert exchange_of(scope).take_body() == b""
        await answers(b"hello")(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server:
        head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n"
        reader, writer = await connect(server)
        for first, rest in ((b"\r\nabc", b""), (b"expect: 100-continue\r\n\r\nabc", b""), (b"\r\na", b"bc")):
            before = len(taken)
            writer.write(head + first)
            await reaches(lambda before=before: len(taken) > before)
            writer.write(rest)
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()
    assert (taken, received) == ([b"abc", b"abc", None], [b"abc"])


async def test_what_is_sent_after_a_body_was_taken_is_the_next_request() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = exchange_of(scope).take_body() or b""
        await answers(bytes(reversed(body)))(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server:
        request = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n"
        found = await raw(server, request + b"\r\nabc" + request + b"connection: close\r\n\r\ndef")
    assert [part[-3:] for part in found.split(b"HTTP/1.1 200 OK\r\n")[1:]] == [b"cba", b"fed"]


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"", b""),
        (PREFACE[:-1], b""),
        (b"GET / HT", b"HTTP/1.1 408 "),
        (BROKEN[:-9], b"HTTP/1.1 408 "),
        (GET + BROKEN[:-9], b"HTTP/1.1 200 "),
    ],
)
async def test_a_peer_that_does_not_go_on_is_given_up(said: bytes, status: bytes) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            while (await receive())["type"] != "http.disconnect":
                pass
        else:
            await answers(b"hello")(scope, receive, send)

    timeouts = RequestTimeouts(head_s=0.0, body_s=0.0, look_s=0.01)

    def take_over(transport: asyncio.Transport, _data: bytes) -> None:
        raise AssertionError(transport)

    async with http_server(app, "127.0.0.1", 0, take_over=take_over, timeouts=timeouts) as server:
        assert (await raw(server, said))[:13] == status


async def test_who_goes_on_or_is_worked_for_is_waited_for() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_undecoded(Request(scope, receive), GATHERED_BODY)
        begun.set()
        await may_end.wait()
        await answers(b"hello")(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        await reaches(lambda: bool(server.connections))
        (connection,) = server.connections
        now = 0.0

        def looks_on(seconds: float) -> None:
            nonlocal now
            now += seconds
            connection.look(now, RequestTimeouts())

        async def said(data: bytes) -> None:
            pieces = connection.pieces
            writer.write(data)
            await reaches(lambda: connection.pieces > pieces)

        looks_on(0)
        looks_on(29)
        await said(BROKEN[:-9])
        for _ in range(4):
            looks_on(59)
            await said(b"1\r\n{\r\n")
        looks_on(59)
        await said(b"0\r\n\r\n")
        await begun.wait()
        for _ in range(3):
            looks_on(1000)
        may_end.set()
        await reader.readuntil(b"hello")
        for _ in range(3):
            looks_on(1000)
        await said(b"GET")
        looks_on(1000)
        looks_on(29)
        await said(b" / HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"hello")
        writer.close()


async def test_who_was_answered_before_its_body_had_ended_may_be_silent_behind_it() -> None:
    async with http_server(answers(b"hello"), "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(BROKEN[:-9])
        await reader.readuntil(b"hello")
        (connection,) = server.connections
        pieces = connection.pieces
        writer.write(b"0\r\n\r\n")
        await reaches(lambda: connection.pieces > pieces)
        for now in (0, 1000, 2000):
            connection.look(now, RequestTimeouts())
        writer.write(GET.replace(b": x", b": x\r\nconnection: close"))
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_who_is_worked_for_is_not_idle_behind_a_body_that_was_answered_early() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET":
            begun.set()
            await may_end.wait()
        await answers(b"hello")(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(BROKEN[:-9])
        await reader.readuntil(b"hello")
        (connection,) = server.connections
        connection.timeout_keep_alive = 0
        writer.write(b"0\r\n\r\n" + GET.replace(b": x", b": x\r\nconnection: close"))
        await begun.wait()
        for _ in range(3):
            await a_go_of_the_loop()
        may_end.set()
        assert (await reader.read()).endswith(b"\r\n\r\nhello")
        writer.close()


async def test_the_system_asks_whether_a_silent_peers_machine_is_there() -> None:
    async with http_server(answers(b"hello"), "127.0.0.1", 0) as server, httpx.AsyncClient() as client:
        await client.get(f"http://127.0.0.1:{server.port}/")
        (connection,) = server.connections
        peer: socket.socket = connection.transport.get_extra_info("socket")
        assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
