"""What an application may do with a connection beyond ASGI: answer at once, and leave it in order for the next."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any
from weakref import ref

import pytest
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send
from tests.plain_http import plain_client
from tests.transport.http.connections import BROKEN, GET, MUCH, AnswersLater, answers, connect, is_gone, raw
from tests.waiting import until

from inferwire_server.transport.http.bodies import read_undecoded
from inferwire_server.transport.http.caller_watch import CallerWatch
from inferwire_server.transport.http.exchange import Body, exchange_of
from inferwire_server.transport.http.long_body import LONG
from inferwire_server.transport.http.request_timeouts import RequestTimeouts
from inferwire_server.transport.http.server import HttpServer, http_server


async def test_an_answer_at_once_is_as_any_other() -> None:
    async with http_server(answers(b"hello"), "127.0.0.1", 0) as server, plain_client() as client:
        answer = await client.get(f"http://127.0.0.1:{server.port}/", headers={"x-request-id": "mine"})
        again = await client.get(f"http://127.0.0.1:{server.port}/")
        assert len(server.connections) == 1
    assert (answer.status_code, answer.text, again.text) == (200, "hello", "hello")
    assert answer.headers.pop("date")
    assert dict(answer.headers) == {
        "x-request-id": "mine",
        "cache-control": "no-store",
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


GET_1_0 = GET.replace(b"1.1", b"1.0").replace(b": x", b": x\r\nConnection: Keep-Alive")


@pytest.mark.parametrize("at_once", [True, False])
async def test_who_speaks_http_1_0_and_asks_to_go_on_may(*, at_once: bool) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            await send(message)

        await answers(b"hello")(scope, receive, send if at_once else sending)

    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        for request_ in (GET_1_0, GET_1_0, GET):
            writer.write(request_)
            answer = await reader.readuntil(b"\r\n\r\nhello")
            assert re.findall(rb"\r\nconnection: (.*)\r\n", answer) == ([b"keep-alive"] if request_ is GET_1_0 else [])
        server.part()
        writer.write(GET_1_0)
        answer = await reader.read()
        assert re.findall(rb"\r\nconnection: (.*)\r\n", answer) == [b"close"]
        writer.close()


async def test_an_answer_that_has_become_the_last_does_not_say_that_another_may_follow() -> None:
    app = AnswersLater(b"hello")
    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(GET_1_0)
        await app.begun.wait()
        server.part()
        app.may_end.set()
        assert re.findall(rb"\r\nconnection: (.*)\r\n", await reader.read()) == [b"close"]
        writer.close()


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_who_sends_a_long_body_for_one_answer_can_read_it_though_it_comes_early(version: bytes) -> None:
    head = b"POST / HTTP/%b\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % (version, len(MUCH))

    def post(server: HttpServer) -> bytes:
        with socket.create_connection(("127.0.0.1", server.port)) as peer:
            peer.sendall(head + MUCH)
            return b"".join(iter(partial(peer.recv, 65536), b""))

    async with http_server(answers(b"hello"), "127.0.0.1", 0) as server:
        assert (await asyncio.to_thread(post, server)).endswith(b"\r\n\r\nhello")
        await until(is_gone(server))


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


SHORT, LONGER = (
    GET.replace(b": x", b": x\r\ncontent-length: %d" % size).replace(b"GET", b"POST") + bytes(size)
    for size in (100, 2 * LONG)
)


@pytest.mark.parametrize(
    ("behind", "come"), [(SHORT, 0), (SHORT, 20), (SHORT, -100), (SHORT, -50), (SHORT, 100_000), (LONGER, -LONG)]
)
@pytest.mark.parametrize("between", [b"", GET])
async def test_nothing_behind_a_last_answer_is_worked_for_whatever_of_it_had_come(
    behind: bytes, come: int, between: bytes
) -> None:
    app = AnswersLater(b"hello")
    asked: list[str] = []

    async def recorded(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope["method"])
        await app(scope, receive, send)

    async with asyncio.timeout(20), http_server(recorded, "127.0.0.1", 0) as server:
        server.part()
        reader, writer = await connect(server)
        writer.write(GET)
        await app.begun.wait()
        (connection,) = server.connections
        if begun := between + behind[:come]:
            pieces = connection.pieces
            writer.write(begun)
            await until(lambda: connection.pieces > pieces)
        app.may_end.set()
        assert b"\r\nconnection: close\r\n" in await reader.readuntil(b"hello")
        with suppress(ConnectionError):
            writer.write(behind[come:])
            assert await reader.read() == b""
        await until(is_gone(server))
        writer.transport.abort()
    assert asked == ["GET"]


EXPECTS = GET.replace(b": x", b": x\r\nexpect: 100-continue\r\ncontent-length: 4")


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("sends", [b"body", b""])
async def test_an_answer_before_which_nobody_has_asked_for_the_body_is_the_last(sends: bytes, *, at_once: bool) -> None:
    """Go's client, for one, sends no body behind it, and its next request at once, where the connection stays open."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            await send(message)

        await answers(b"hello")(scope, receive, send if at_once else sending)

    timeouts = RequestTimeouts(body_s=0.0, look_s=0.01)
    async with http_server(app, "127.0.0.1", 0, timeouts=timeouts) as server:
        reader, writer = await connect(server)
        writer.write(EXPECTS)
        assert b"\r\nconnection: close\r\n" in await reader.readuntil(b"hello")
        writer.write(sends)
        assert await reader.read() == b""
        writer.close()


async def test_an_answer_before_the_end_of_a_body_whose_length_nobody_knows_is_the_last() -> None:
    async with http_server(answers(b"hello"), "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(BROKEN[:-9])
        assert b"\r\nconnection: close\r\n" in await reader.readuntil(b"hello")
        writer.write(b"0\r\n\r\n" + GET)
        assert await reader.read() == b""
        writer.close()


async def test_who_has_sent_its_body_unasked_goes_on() -> None:
    async with http_server(answers(b"hello"), "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(EXPECTS + b"body" + GET)
        for _ in range(2):
            assert b"connection" not in await reader.readuntil(b"hello")
        writer.close()


async def test_who_speaks_http_1_0_is_told_nothing_before_its_answer() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answers(bytes(await read_undecoded(Request(scope, receive), 4)))(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server:
        answer = await raw(server, EXPECTS.replace(b"1.1", b"1.0") + b"body")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"body")


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
        await until(lambda: len(waiting) > 1)
        may_end.set()
        most = 0
        for _ in range(100):
            await reader.readuntil(b"hello")
            most = max(most, len(waiting))
        writer.transport.abort()
        await until(is_gone(server))
    assert most < 1000


async def test_thousands_of_requests_in_a_row_are_answered_in_their_order_with_their_bodies() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = await Request(scope, receive).body()
        await answers(b"<%s %s>" % (scope["path"].encode(), body))(scope, receive, send)

    requests, expected = [], []
    for number in range(3000):
        body = b"%d" % number * (1 + number % 7) ** (1 + number % 4)
        requests.append(b"POST /%d HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (number, len(body), body))
        expected.append(b"/%d %s" % (number, body))
    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(b"".join(requests)[:-1])
        found = [(await reader.readuntil(b">")).rpartition(b"<")[2][:-1] for _ in range(2999)]
        writer.write(requests[-1][-1:])
        found.append((await reader.readuntil(b">")).rpartition(b"<")[2][:-1])
        writer.close()
    assert found == expected


async def test_a_caller_is_heard_while_the_last_of_its_requests_in_a_row_runs() -> None:
    """Else nobody would notice that it has gone."""
    many, half = 1 + 8192 // len(GET), b"GET /" + b"x" * 10_000
    begun, may_end = count(1), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if next(begun) == many:
            await may_end.wait()
        await answers(b"hello")(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(GET * many + half)
        for _ in range(many - 1):
            await reader.readuntil(b"hello")
        (connection,) = server.connections
        await until(lambda: not connection.flow.read_paused)
        may_end.set()
        writer.write(GET.removeprefix(b"GET /"))
        for _ in range(2):
            await reader.readuntil(b"hello")
        writer.close()


async def test_who_has_put_itself_between_sees_the_answer() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def watched(message: object) -> None:
            assert isinstance(message, dict)
            seen.append(message["type"])
            await send(message)

        await answers(b"hello")(scope, receive, watched)

    async with http_server(app, "127.0.0.1", 0) as server, plain_client() as client:
        answer = await client.get(f"http://127.0.0.1:{server.port}/")
    assert (answer.text, answer.headers["one"]) == ("hello", "1")
    assert seen == ["http.response.start", "http.response.body"]


async def test_an_exchange_goes_with_its_request() -> None:
    requests: list[ref[object]] = []
    scopes: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        method: Any = receive
        scopes.append(dict(scope))
        requests.append(ref(method.__self__))
        assert exchange_of(scope).takes(send)
        await answers(b"hello")(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server, plain_client() as client:
        gc.disable()
        try:
            for _ in range(2):
                await client.get(f"http://127.0.0.1:{server.port}/")
            assert requests[0]() is None
            with pytest.raises(AssertionError, match="whose connection is done with it"):
                exchange_of(scopes[0])
        finally:
            gc.enable()


async def test_a_body_that_has_come_is_taken_once_and_one_that_has_not_is_received() -> None:
    taken: list[bytes | None] = []
    received: list[Body] = []

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
            await until(lambda before=before: len(taken) > before)
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
