"""Peers that do not go on: given up where they are waited for, and nowhere else."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress

import orjson
import pytest
from starlette.requests import Request
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs
from tests.clock import AskedClock
from tests.plain_http import plain_client
from tests.transport.http.connections import (
    BROKEN,
    GET,
    MUCH,
    answers,
    connect,
    is_gone,
    raw,
)
from tests.waiting import a_turn, until

from inferwire_server.transport.http.bodies import read_undecoded
from inferwire_server.transport.http.cycle import GATHERED_BODY
from inferwire_server.transport.http.long_body import LONG
from inferwire_server.transport.http.request_timeouts import RequestTimeouts
from inferwire_server.transport.http.server import http_server

LONG_BEGUN = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n{" % LONG


async def test_a_peer_that_ends_no_body_is_given_up_behind_its_last_answer() -> None:
    timeouts = RequestTimeouts(body_s=0.0, look_s=0.01)
    async with http_server(answers(b"hello"), "127.0.0.1", 0, timeouts=timeouts) as server:
        answer = await raw(server, BROKEN[:-9].replace(b": x", b": x\r\nconnection: close"))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"\r\n\r\nhello")


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"", b""),
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

    async with http_server(app, "127.0.0.1", 0, timeouts=timeouts) as server:
        assert (await raw(server, said))[:13] == status


@pytest.mark.parametrize(
    ("said", "rest"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\n", b"connection: close\r\n\r\n"),
        (b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{", b"}"),
    ],
    ids=["head", "body"],
)
async def test_time_in_which_the_server_stood_still_is_not_its_peer_s(said: bytes, rest: bytes) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_undecoded(Request(scope, receive), GATHERED_BODY)
        await answers(b"hello")(scope, receive, send)

    clock, timeouts = AskedClock(), RequestTimeouts(look_s=0.01)
    async with http_server(app, "127.0.0.1", 0, timeouts=timeouts, clock=clock) as server:
        reader, writer = await connect(server)
        writer.write(said)
        await until(lambda: server.connections and server.connections[0].pieces)
        await clock.is_asked()
        clock.now += 3600
        await clock.is_asked()
        writer.write(rest)
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_who_goes_on_or_is_worked_for_is_waited_for() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_undecoded(Request(scope, receive), GATHERED_BODY)
        begun.set()
        await may_end.wait()
        await answers(b"hello")(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        await until(lambda: bool(server.connections))
        (connection,) = server.connections
        now = 0.0

        def looks_on(seconds: float) -> None:
            nonlocal now
            now += seconds
            connection.look(now, RequestTimeouts())

        async def said(data: bytes) -> None:
            pieces = connection.pieces
            writer.write(data)
            await until(lambda: connection.pieces > pieces)

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
        await said(b" / HTTP/1.1\r\nhost: x\r\n\r\n")
        await reader.readuntil(b"hello")
        writer.close()


BEGUN = GET.replace(b": x", b": x\r\ncontent-length: 4").replace(b"GET", b"POST") + b"bo"


async def test_who_was_answered_before_its_body_had_ended_may_be_silent_behind_it() -> None:
    async with http_server(answers(b"hello"), "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(BEGUN)
        await reader.readuntil(b"hello")
        (connection,) = server.connections
        pieces = connection.pieces
        writer.write(b"dy")
        await until(lambda: connection.pieces > pieces)
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
        writer.write(BEGUN)
        await reader.readuntil(b"hello")
        (connection,) = server.connections
        connection.timeout_keep_alive = 0
        writer.write(b"dy" + GET.replace(b": x", b": x\r\nconnection: close"))
        await begun.wait()
        for _ in range(3):
            await a_turn()
        may_end.set()
        assert (await reader.read()).endswith(b"\r\n\r\nhello")
        writer.close()


@pytest.mark.parametrize("asked", [GET, GET * 2], ids=["once", "twice"])
@pytest.mark.parametrize("is_closing", [False, True], ids=["open", "closing"])
async def test_who_takes_its_answer_is_waited_for_and_who_takes_no_more_is_given_up(
    asked: bytes, is_closing: bool
) -> None:
    async with http_server(answers(MUCH), "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(asked)
        await until(lambda: bool(server.connections))
        (connection,) = server.connections
        unsent = connection.transport.get_write_buffer_size
        await until(lambda: unsent() > 0)
        if is_closing:
            connection.timeout_keep_alive_handler()
        now = 0.0
        for _ in range(3):
            before = unsent()
            while unsent() == before:
                await reader.read(GATHERED_BODY)
            connection.look(now := now + 59, RequestTimeouts())
            for _ in range(3):
                await a_turn()
            assert not is_gone(server)()

        def is_given_up() -> bool:
            nonlocal now
            connection.look(now := now + 59, RequestTimeouts())
            return is_gone(server)()

        try:
            await until(is_given_up)
        finally:
            writer.transport.abort()


async def test_the_system_asks_whether_a_silent_peers_machine_is_there() -> None:
    async with http_server(answers(b"hello"), "127.0.0.1", 0) as server, plain_client() as client:
        await client.get(f"http://127.0.0.1:{server.port}/")
        (connection,) = server.connections
        peer: socket.socket = connection.transport.get_extra_info("socket")
        assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60


async def reads(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer what has been read to its end."""
    await read_undecoded(Request(scope, receive), GATHERED_BODY)
    await answers(b"hello")(scope, receive, send)


HALF_HEAD = GET[:10]


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (HALF_HEAD, b"HTTP/1.1 503 "),
        (BROKEN[:-9], b"HTTP/1.1 503 "),
        (LONG_BEGUN, b"HTTP/1.1 503 "),
        (GET + BROKEN[:-9], b"HTTP/1.1 200 "),
    ],
)
async def test_who_is_silent_within_a_request_keeps_no_server_from_its_end(said: bytes, status: bytes) -> None:
    timeouts = RequestTimeouts(end_s=0.0, look_s=0.01)
    async with http_server(reads, "127.0.0.1", 0, timeouts=timeouts) as server:
        reader, writer = await connect(server)
        writer.write(said)
        await until(lambda: any(connection.pieces for connection in server.connections))
        async with asyncio.timeout(20):
            await server.drain(3600)
        answer = await reader.read()
        writer.close()
    assert answer.startswith(status)
    head, _, body = answer[answer.rindex(b"HTTP/1.1 ") :].partition(b"\r\n\r\n")
    assert b"HTTP/1.1 503 " in head
    assert b"\r\nretry-after: 1\r\n" in head
    assert b"\r\nconnection: close\r\n" in head
    assert orjson.loads(body) == {"error": "the server is shutting down", "code": "SHUTTING_DOWN"}


@pytest.mark.parametrize(
    ("before", "after"), [(HALF_HEAD, GET[len(HALF_HEAD) :]), (BROKEN[:-9], b"0\r\n\r\n")], ids=["head", "body"]
)
async def test_who_goes_on_with_a_request_is_waited_for_and_answered_while_the_server_ends(
    before: bytes, after: bytes
) -> None:
    timeouts = RequestTimeouts(end_s=3600.0, look_s=0.01)
    async with http_server(reads, "127.0.0.1", 0, timeouts=timeouts) as server:
        reader, writer = await connect(server)
        writer.write(before)
        await until(lambda: any(connection.pieces for connection in server.connections))
        draining = asyncio.ensure_future(server.drain(3600))
        await asyncio.wait([draining], timeout=0.3)
        assert not draining.done()
        writer.write(after)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"\r\nconnection: close\r\n" in answer
        await draining
        writer.close()


@pytest.mark.parametrize("is_ending", [False, True])
async def test_who_is_silent_within_a_head_that_began_in_a_row_is_answered(*, is_ending: bool) -> None:
    timeouts = RequestTimeouts(head_s=3600.0 if is_ending else 0.0, end_s=0.0, look_s=0.01)
    async with http_server(answers(b"hello"), "127.0.0.1", 0, timeouts=timeouts) as server:
        reader, writer = await connect(server)
        writer.write(GET + HALF_HEAD)
        await reader.readuntil(b"hello")
        if is_ending:
            async with asyncio.timeout(20):
                await server.drain(3600)
        assert (await reader.read()).startswith(b"HTTP/1.1 503 " if is_ending else b"HTTP/1.1 408 ")
        writer.close()


async def test_who_was_answered_before_its_body_had_ended_and_is_silent_keeps_no_server_from_its_end() -> None:
    timeouts = RequestTimeouts(end_s=0.0, look_s=0.01)
    async with http_server(answers(b"hello"), "127.0.0.1", 0, timeouts=timeouts) as server:
        reader, writer = await connect(server)
        writer.write(BROKEN[:-9])
        await reader.readuntil(b"hello")
        async with asyncio.timeout(20):
            await server.drain(3600)
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("is_told", [False, True], ids=["waits to answer", "is told that it is cancelled"])
async def test_who_asks_in_a_row_and_takes_no_answer_keeps_no_server_from_its_end(
    caplog: pytest.LogCaptureFixture, *, is_told: bool
) -> None:
    asked = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal asked
        asked += 1
        if asked > 1 and is_told:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        await answers(MUCH)(scope, receive, send)

    async with asyncio.timeout(20), http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(GET * 3)
        await reader.readexactly(1)
        await until(lambda: asked == 2)
        with capture_logs() as logged:
            await server.drain(0)
        assert [(entry["log_level"], entry["requests"]) for entry in logged] == [("warning", 1)]
        await until(is_gone(server))
        writer.close()
    assert asked == 2
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
