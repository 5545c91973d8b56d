"""Long bodies: received where they stay, and every byte as it was sent, whatever comes before and behind them."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import gzip
import socket
import sys
import termios
import weakref
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256

import numpy as np
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.testing import capture_logs
from tests.low_water import be_from_elsewhere, mark_beyond
from tests.transport.http.connections import GET, AnswersLater, answers, connect, is_gone, raw
from tests.waiting import a_turn, until

from inferwire_proto.frames import SCRATCH_BYTES
from inferwire_proto.host.low_water import MOST_BYTES, LowWater
from inferwire_server.transport.http import long_body
from inferwire_server.transport.http.bodies import read_body, read_undecoded
from inferwire_server.transport.http.caller_watch import CallerWatch
from inferwire_server.transport.http.cycle import Cycle
from inferwire_server.transport.http.exchange import Body, exchange_of
from inferwire_server.transport.http.long_body import LONG, LONGEST, LongBody
from inferwire_server.transport.http.protocol import HttpProtocol
from inferwire_server.transport.http.request_timeouts import RequestTimeouts
from inferwire_server.transport.http.server import http_server

BODY = np.random.default_rng(0).bytes(300_001)
LIMIT = 64 << 20


def head(body: bytes, *fields: bytes) -> bytes:
    lines = (b"POST / HTTP/1.1", b"host: x", b"content-length: %d" % len(body), *fields)
    return b"".join(b"%b\r\n" % line for line in lines) + b"\r\n"


LAST = b"connection: close"


class App:
    """Answers with a body's digest, and keeps what it has read."""

    def __init__(self) -> None:
        self.bodies: list[Body] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_undecoded(Request(scope, receive), LIMIT)
        self.bodies.append(body)
        await answers(digest(body))(scope, receive, send)


def digest(body: Body) -> bytes:
    return sha256(body).hexdigest().encode()


def digests(answer: bytes) -> list[bytes]:
    return [part.split(b"\r\n\r\n", 1)[1] for part in answer.split(b"HTTP/1.1 200 OK\r\n")[1:]]


def is_in_its_place(body: Body) -> bool:
    """Whether a body is where it was received, and ends at a boundary."""
    if not isinstance(body, memoryview):
        return False
    return (np.frombuffer(body, np.uint8).ctypes.data + len(body)) % 64 == 0


async def sent_in(pieces: Sequence[bytes]) -> tuple[App, bytes]:
    """Send pieces one after the other, each when the one before has been read; give the answers."""
    app = App()
    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        for piece in pieces:
            if server.connections:
                (connection,) = server.connections
                before = connection.pieces
                writer.write(piece)
                await until(lambda connection=connection, before=before: connection.pieces > before)
            else:
                writer.write(piece)
                await until(lambda: bool(server.connections) and server.connections[0].pieces > 0)
        answer = await reader.read()
        writer.close()
    return app, answer


@pytest.mark.parametrize("size", [LONG, LONG + 1, 100_000, len(BODY)])
@pytest.mark.parametrize("cut", [0, 1, 1000, 20_000, LONG - 1, LONG, LONG + 1, 99_999, len(BODY)])
async def test_a_long_body_is_received_where_it_stays(size: int, cut: int) -> None:
    body = BODY[:size]
    app, answer = await sent_in([head(body, LAST) + body[:cut], *([body[cut:]] if cut < size else [])])
    assert digests(answer) == [digest(body)]
    assert bytes(app.bodies[0]) == body
    assert is_in_its_place(app.bodies[0])


async def test_the_server_sleeps_until_a_good_part_of_a_long_body_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    be_from_elsewhere(monkeypatch)
    async with http_server(App(), "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        own_name = writer.get_extra_info("sockname")
        request = head(BODY, LAST) + BODY
        writer.write(request[:20_000])
        await until(lambda: bool(server.connections) and server.connections[0].pieces > 0)
        writer.write(request[20_000:40_000])
        await until(lambda: mark_beyond(own_name) == MOST_BYTES)
        writer.write(request[40_000:-10_000])
        await until(lambda: mark_beyond(own_name) == 10_000)
        writer.write(request[-10_000:])
        assert digests(await reader.read()) == [digest(BODY)]
        writer.close()


async def test_behind_a_long_body_the_server_hears_of_every_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    be_from_elsewhere(monkeypatch)
    async with http_server(App(), "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        for piece in (head(BODY), BODY[:100_000], BODY[100_000:]):
            writer.write(piece)
            await a_turn()
        assert (await reader.readuntil(digest(BODY))).startswith(b"HTTP/1.1 200 OK")
        assert mark_beyond(writer.get_extra_info("sockname")) == 1
        writer.write(GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        assert digests(await reader.read()) == [digest(b"")]
        writer.close()


async def test_a_short_body_is_gathered() -> None:
    app, answer = await sent_in([head(BODY[: LONG - 1], LAST) + BODY[:20_000], BODY[20_000 : LONG - 1]])
    assert digests(answer) == [digest(BODY[: LONG - 1])]
    assert isinstance(app.bodies[0], bytearray)


@pytest.mark.parametrize("cut", [1, 30, len(head(BODY, LAST)) - 2, len(head(BODY, LAST))])
async def test_a_head_may_come_in_pieces(cut: int) -> None:
    whole = head(BODY, LAST) + BODY
    app, answer = await sent_in([whole[:cut], whole[cut : cut + 50_000], whole[cut + 50_000 :]])
    assert digests(answer) == [digest(BODY)]
    assert bytes(app.bodies[0]) == BODY


async def test_requests_behind_one_another_each_get_their_answer_in_turn() -> None:
    bodies = [BODY, b"short", BODY[::-1], BODY[: LONG + 1], b"", BODY[:20_000]]
    asked = b"".join(head(body) + body for body in bodies) + head(b"x", LAST) + b"x"
    async with http_server(App(), "127.0.0.1", 0) as server:
        assert digests(await raw(server, asked)) == [digest(body) for body in (*bodies, b"x")]


async def test_what_stands_behind_a_long_body_is_the_next_request() -> None:
    app, answer = await sent_in([head(BODY), BODY + head(b"next", LAST) + b"next"])
    assert digests(answer) == [digest(BODY), digest(b"next")]
    assert is_in_its_place(app.bodies[0])


def unread_bytes(connection: HttpProtocol) -> int:
    """Say how much the system has received on a connection that nobody has read."""
    count = bytearray(4)
    fcntl.ioctl(connection.transport.get_extra_info("socket").fileno(), termios.FIONREAD, count)
    return int.from_bytes(count, sys.byteorder)


@pytest.mark.parametrize("pair", [(BODY[:90_000], b"second"), (b"first", BODY[:90_000])])
async def test_requests_that_are_read_at_once_with_a_long_body_are_answered(pair: tuple[bytes, bytes]) -> None:
    bodies = [*pair, b"x"]
    async with http_server(App(), "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        await until(lambda: bool(server.connections))
        (connection,) = server.connections
        connection.transport.pause_reading()
        asked = b"".join(head(body) + body for body in bodies) + head(b"last", LAST) + b"last"
        writer.write(asked)
        await until(lambda: unread_bytes(connection) == len(asked))
        connection.transport.resume_reading()
        assert digests(await reader.read()) == [digest(each) for each in (*bodies, b"last")]
        writer.close()


async def test_a_request_before_it_in_the_same_piece_changes_nothing() -> None:
    app, answer = await sent_in([head(b"first") + b"first" + head(BODY, LAST) + BODY[:30_000], BODY[30_000:]])
    assert digests(answer) == [digest(b"first"), digest(BODY)]
    assert bytes(app.bodies[1]) == BODY


@pytest.mark.parametrize("size", [LONGEST, LONGEST + 1])
async def test_a_body_longer_than_any_room_is_gathered(size: int) -> None:
    body = bytes(size)
    app, answer = await sent_in([head(body, LAST), body])
    assert digests(answer) == [digest(body)]
    assert is_in_its_place(app.bodies[0]) == (size == LONGEST)


async def test_a_chunked_body_is_gathered() -> None:
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(BODY), BODY) for _ in range(2)) + b"0\r\n\r\n"
    request = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n" + chunks
    async with http_server(App(), "127.0.0.1", 0) as server:
        assert digests(await raw(server, request)) == [digest(BODY + BODY)]


async def test_a_long_body_may_be_compressed() -> None:
    packed = gzip.compress(BODY)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answers(digest(await read_body(Request(scope, receive), LIMIT)))(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server:
        answer = await raw(server, head(packed, LAST, b"content-encoding: gzip") + packed)
    assert digests(answer) == [digest(BODY)]


async def test_whoever_receives_it_by_asgis_events_gets_it_too() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answers(digest(await Request(scope, receive).body()))(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server:
        assert digests(await raw(server, head(BODY, LAST) + BODY)) == [digest(BODY)]


@pytest.mark.parametrize("body", [BODY, b"short"])
async def test_a_peer_that_asks_whether_to_send_a_body_is_told_to(body: bytes) -> None:
    async with http_server(App(), "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(head(body, LAST, b"expect: 100-continue"))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert digests(await reader.read()) == [digest(body)]
        writer.close()


async def test_the_connection_goes_on_behind_a_short_body_that_nobody_wants_and_ends_with_a_long_one() -> None:
    """Some do not send the rest of a long one, and HAProxy another caller's request in its place."""
    calls = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal calls
        calls += 1
        await answers(b"%d" % calls)(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(head(BODY[: LONG - 1]))
        assert b"connection" not in await reader.readuntil(b"\r\n\r\n1")
        writer.write(BODY[: LONG - 1] + head(BODY))
        assert b"\r\nconnection: close\r\n" in await reader.readuntil(b"\r\n\r\n2")
        writer.write(BODY + GET)
        assert await reader.read() == b""
        writer.close()
    assert calls == 2


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_peer_that_goes_in_the_middle_is_noticed(is_reset: bool) -> None:
    gone: list[type[BaseException]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del send
        try:
            await read_undecoded(Request(scope, receive), LIMIT)
        except ClientDisconnect as error:
            gone.append(type(error))

    async with http_server(app, "127.0.0.1", 0) as server:
        _, writer = await connect(server)
        writer.write(head(BODY) + BODY[:100_000])
        await until(lambda: bool(server.connections) and server.connections[0].pieces > 0)
        if is_reset:
            writer.transport.abort()
        else:
            writer.close()
        await until(is_gone(server))
        await until(lambda: bool(gone))
    assert gone == [ClientDisconnect]


async def test_what_watches_the_caller_is_cancelled_where_that_one_goes_in_the_middle() -> None:
    ended: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del send
        request = Request(scope, receive)
        try:
            with CallerWatch(request):
                await read_undecoded(request, LIMIT)
        except ClientDisconnect:
            ended.append("gone")

    async with http_server(app, "127.0.0.1", 0) as server:
        _, writer = await connect(server)
        writer.write(head(BODY))
        await until(lambda: bool(server.connections) and server.connections[0].pieces > 0)
        writer.close()
        await until(lambda: bool(ended))
    assert ended == ["gone"]


async def test_a_peer_that_stops_in_the_middle_is_given_up() -> None:
    timeouts = RequestTimeouts(body_s=0.0, look_s=0.01)
    async with http_server(App(), "127.0.0.1", 0, timeouts=timeouts) as server:
        assert (await raw(server, head(BODY) + BODY[:-1])).startswith(b"HTTP/1.1 408 ")


async def test_a_peer_that_goes_on_is_waited_for() -> None:
    async with http_server(App(), "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(head(BODY, LAST))
        await until(lambda: bool(server.connections))
        (connection,) = server.connections
        timeouts = RequestTimeouts(body_s=10.0)
        for now, at in enumerate(range(0, len(BODY), 60_000)):
            before = connection.pieces
            writer.write(BODY[at : at + 60_000])
            await until(lambda before=before: connection.pieces > before)
            connection.look(now * 9.0, timeouts)
        assert digests(await reader.read()) == [digest(BODY)]
        writer.close()


@pytest.mark.parametrize("parts", [False, True])
async def test_a_body_that_is_on_its_way_when_the_server_leaves_is_received_and_answered(parts: bool) -> None:
    async with http_server(App(), "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(head(BODY) + BODY[:100_000])
        await until(lambda: bool(server.connections) and server.connections[0].pieces > 0)
        if parts:
            server.part()
        leaving = asyncio.create_task(server.drain(10))
        await a_turn()
        writer.write(BODY[100_000:])
        answer = await reader.read()
        assert digests(answer) == [digest(BODY)]
        assert b"connection: close" in answer
        writer.close()
        await leaving


async def reads(scope: Scope, receive: Receive, send: Send) -> None:
    await read_undecoded(Request(scope, receive), LIMIT)
    await answers(b"ok")(scope, receive, send)


async def asks_for_none(scope: Scope, receive: Receive, send: Send) -> None:
    await answers(b"ok")(scope, receive, send)


async def takes_none(scope: Scope, receive: Receive, send: Send) -> None:
    await exchange_of(scope).wait_for_body()
    await answers(b"ok")(scope, receive, send)


async def is_for_nobody(scope: Scope, receive: Receive, send: Send) -> None:
    await answers(b"ok")(scope, receive, send)
    with suppress(ClientDisconnect):
        await read_undecoded(Request(scope, receive), LIMIT)


APPS = (reads, asks_for_none, takes_none, is_for_nobody)


@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize("is_at_once", [False, True])
async def test_an_idle_connection_keeps_nothing_of_a_body(app: ASGIApp, is_at_once: bool) -> None:
    rooms: list[weakref.ref[object]] = []
    make = long_body._room

    def made(byte_size: int) -> memoryview:
        room = make(byte_size)
        rooms.append(weakref.ref(room.obj))
        return room

    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(long_body, "_room", made)
            async with http_server(app, "127.0.0.1", 0) as server:
                reader, writer = await connect(server)
                writer.write(head(BODY) + BODY if is_at_once else head(BODY) + BODY[:1])
                if not is_at_once:
                    await until(lambda: bool(rooms))
                    writer.write(BODY[1:])
                await reader.readuntil(b"\r\n\r\nok")
                await until(lambda: rooms[0]() is None)
                if app in (reads, takes_none):
                    writer.write(GET)
                    await reader.readuntil(b"\r\n\r\nok")
                writer.close()
    finally:
        gc.enable()
    assert len(rooms) == 1


async def test_a_body_that_there_is_no_memory_for_at_once_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(_: int) -> memoryview:
        raise MemoryError

    monkeypatch.setattr(long_body, "_room", no_room)
    app, answer = await sent_in([head(BODY) + BODY[:100_000], BODY[100_000:], head(BODY, LAST) + BODY])
    assert digests(answer) == [digest(BODY)] * 2
    assert not any(isinstance(body, memoryview) for body in app.bodies)


async def test_who_sends_what_there_is_no_memory_for_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(_: Cycle, _body: bytes) -> None:
        raise MemoryError

    monkeypatch.setattr(Cycle, "append", no_room)
    async with http_server(AnswersLater(b"ok"), "127.0.0.1", 0) as server:
        with capture_logs() as logged:
            answer = await raw(server, head(b"12345") + b"12345")
    (entry,) = logged
    assert entry["event"] == "out of memory in a call"
    assert answer.startswith(b"HTTP/1.1 413 Request Entity Too Large\r\n")
    assert b"under id %b" % entry["id"].encode() in answer


async def test_who_reads_a_body_behind_the_answer_is_told_that_there_is_none() -> None:
    told: list[bool] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answers(b"ok")(scope, receive, send)
        with pytest.raises(ClientDisconnect):
            await read_undecoded(Request(scope, receive), LIMIT)
        told.append(True)

    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        writer.write(head(BODY))
        await reader.readuntil(b"\r\n\r\nok")
        await until(lambda: bool(told))
        writer.close()


async def test_a_connection_is_idle_only_behind_the_end_of_a_body() -> None:
    """An answer may come before the body has: what is waited for then is not the next request."""
    short = BODY[:100]
    async with http_server(asks_for_none, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        await until(lambda: bool(server.connections))
        (connection,) = server.connections
        writer.write(head(short))
        await reader.readuntil(b"\r\n\r\nok")
        idle = connection.timeout_keep_alive_task
        assert idle is not None
        writer.write(short[:-1])
        await until(lambda: connection.timeout_keep_alive_task is None)
        assert idle.cancelled()
        writer.write(short[-1:])
        await until(lambda: connection.timeout_keep_alive_task is not None)
        writer.close()


@pytest.mark.parametrize("is_at_once", [False, True])
async def test_what_stands_behind_a_connections_last_request_is_nothing(is_at_once: bool) -> None:
    asked: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope["path"].encode())
        await takes_none(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await connect(server)
        behind = head(b"0123456789").replace(b"POST /", b"POST /second") + b"01234"
        first = head(BODY, LAST)
        if not is_at_once:
            writer.write(first)
            await until(lambda: bool(asked))
            first = b""
        writer.write(first + BODY + behind)
        assert (await reader.read()).count(b"HTTP/1.1 ") == 1
        writer.close()
    assert asked == [b"/"]


async def test_an_answer_is_not_lost_where_a_line_too_many_is_behind_the_body() -> None:
    loop, body = asyncio.get_running_loop(), bytes(4 << 20)
    async with http_server(asks_for_none, "127.0.0.1", 0) as server:
        with socket.socket() as peer:
            peer.setblocking(False)
            await loop.sock_connect(peer, ("127.0.0.1", server.port))
            await loop.sock_sendall(peer, head(body, LAST))
            await until(lambda: bool(server.connections) and server.connections[0].pieces > 0)
            (connection,) = server.connections
            await until(lambda: connection.cycle.is_answered)
            await loop.sock_sendall(peer, body + b"\r\n")
            await until(is_gone(server))
            answer = await loop.sock_recv(peer, 65536)
    assert answer.endswith(b"\r\n\r\nok")


@pytest.mark.parametrize("size", [len(BODY), 5])
async def test_a_length_may_have_any_number_of_zeros_in_front(size: int) -> None:
    body = BODY[:size]
    request = head(body, LAST).replace(b"length: ", b"length: " + b"0" * 5000) + body
    async with http_server(App(), "127.0.0.1", 0) as server:
        assert digests(await raw(server, request)) == [digest(body)]


class _Host:
    """Stands for a connection whose request has been answered."""

    wants_body = False
    given: tuple[bytes, bytes] | None = None

    def on_long_body(self, content: memoryview, behind: bytes) -> None:
        self.given = bytes(content), behind

    def on_piece(self) -> None: ...
    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...


def test_what_nobody_wants_is_received_in_little_room() -> None:
    host = _Host()
    body = LongBody(host, LONGEST, LowWater(None))
    assert body.take(b"begun") == b""
    left = LONGEST - 5
    while left >= 0:
        room = body.get_buffer(-1)
        assert len(room) <= SCRATCH_BYTES
        count = min(len(room), left + 1)
        room[:count] = b"x" * (count - 1) + b"y"
        body.buffer_updated(count)
        left -= count
    assert host.given == (b"", b"y")
