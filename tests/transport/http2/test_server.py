"""The sockets of a server: who is taken, who is looked after, and how it closes without losing what has begun."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import closing
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.clock import AskedClock
from tests.transport.http2.socket_peer import MUCH, NOT_HTTP2, PREFACE, Calls, Peer, connected
from tests.transport.http2.wire import STATUS, Headers, answered, data_in, goes, headers
from tests.waiting import LIMIT_S, until

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2 import protocol as protocol_module
from inferwire_server.transport.http2.frames import END_STREAM, ErrorCode, frame
from inferwire_server.transport.http2.protocol import Http2Timeouts
from inferwire_server.transport.http2.server import Http2Server
from inferwire_server.transport.keepalive import PeerTimeouts

Server = Http2Server[Headers]


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def listener() -> Generator[socket.socket]:
    """Where the server listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as opened:
        yield opened


@pytest.fixture
async def server(calls: Calls, listener: socket.socket) -> AsyncGenerator[Server, None]:
    async with Http2Server(calls.connect, NOT_HTTP2) as opened:
        opened.listen(listener)
        yield opened


@pytest.fixture
async def peer(server: Server, listener: socket.socket) -> AsyncGenerator[Peer, None]:
    """A client that has greeted."""
    async with connected(listener) as made:
        await made.greet()
        yield made


def most_waiting(listener: socket.socket) -> int:
    """Say how many connections may wait at a socket, which the system keeps in a field of its own of TCP_INFO."""
    info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
    return int.from_bytes(info[28:32], sys.byteorder)


MOST_OF_SYSTEM = int(Path("/proc/sys/net/core/somaxconn").read_text())


async def test_many_connections_may_wait_to_be_taken(server: Server, listener: socket.socket) -> None:
    assert most_waiting(listener) == min(2048, MOST_OF_SYSTEM)


async def hears_that_it_parts(peer: Peer) -> None:
    """See that a client is told that the server goes, and say that it has heard."""
    parting, asked = await peer.told(2)
    assert parting == goes(2**31 - 1)
    peer.say(frame(frames.PING, frames.ACK, content=asked.content))


def is_empty(server: Server) -> bool:
    return repr(server) == "<Http2Server: 0 connections>"


async def test_it_takes_connections_at_several_sockets(
    server: Server, listener: socket.socket, calls: Calls, tmp_path: Path
) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as file:
        file.bind(str(tmp_path / "at"))
        server.listen(file)
        for index, at in enumerate((listener, file), 1):
            async with connected(at) as peer:
                await peer.greet()
                peer.say(headers(1, flags=END_STREAM))
                (await calls.begun(index)).answer()
                assert await peer.told(3) == answered(1, b"answer")
                assert repr(server) == "<Http2Server: 1 connections>"
            await until(lambda: is_empty(server))


async def test_who_speaks_something_else_gets_the_given_answer(server: Server, listener: socket.socket) -> None:
    async with connected(listener) as peer:
        peer.say(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert await peer.rest_of_bytes() == NOT_HTTP2
    await until(lambda: is_empty(server))


async def test_it_looks_after_silent_peers(calls: Calls, listener: socket.socket) -> None:
    timeouts = Http2Timeouts(PeerTimeouts(hello_s=0.02, silence_s=0.02, answer_s=0.02), look_s=0.01)
    async with Http2Server(calls.connect, NOT_HTTP2, timeouts) as server:
        server.listen(listener)
        async with connected(listener) as silent, connected(listener) as greeted:
            greeted.say(PREFACE)
            assert await silent.is_cut_off()
            *_, asked = await greeted.rest()
            assert (asked.kind, asked.flags) == (frames.PING, 0)
        await until(lambda: is_empty(server))


async def test_time_in_which_it_stood_still_is_not_its_peers(calls: Calls, listener: socket.socket) -> None:
    clock, timeouts = AskedClock(), Http2Timeouts(look_s=0.01)
    async with Http2Server(calls.connect, NOT_HTTP2, timeouts, clock=clock) as server:
        server.listen(listener)
        async with connected(listener) as silent, connected(listener) as peer:
            await peer.greet()
            peer.say(headers(1))
            call = await calls.begun()
            call.awaits_data = True
            await until(lambda: server.connections == 2)
            await clock.is_asked()
            clock.now += 3600
            await clock.is_asked()
            assert not call.stalls
            await silent.greet()


async def test_it_closes_at_once_where_nobody_is(server: Server, listener: socket.socket) -> None:
    address = listener.getsockname()
    await server.close(0)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)


async def test_it_closes_once_its_peers_have_heard_and_their_calls_have_ended(
    server: Server, peer: Peer, calls: Calls
) -> None:
    peer.say(headers(1, flags=END_STREAM))
    await calls.begun()
    closing_it = asyncio.ensure_future(server.close(10))
    parting, asked = await peer.told(2)
    assert parting == goes(2**31 - 1)
    peer.say(headers(3, flags=END_STREAM))  # which was on its way
    await calls.begun(2)
    peer.say(frame(frames.PING, frames.ACK, content=asked.content))
    assert await peer.told(1) == [goes(3)]
    assert not closing_it.done()
    for heard in calls.heard:
        heard.answer()
    assert await peer.rest() == answered(1, b"answer") + answered(3, b"answer")
    await closing_it
    assert is_empty(server)


async def test_it_takes_no_connections_while_it_closes(
    server: Server, peer: Peer, calls: Calls, listener: socket.socket
) -> None:
    address = listener.getsockname()
    peer.say(headers(1, flags=END_STREAM))
    heard = await calls.begun()
    closing_it = asyncio.ensure_future(server.close(10))
    await hears_that_it_parts(peer)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)
    heard.answer()
    await peer.rest()
    await closing_it


async def test_a_peer_that_does_not_say_that_it_has_heard_is_left_after_a_while(
    calls: Calls, listener: socket.socket
) -> None:
    async with Http2Server(calls.connect, NOT_HTTP2, Http2Timeouts(heard_s=0.01)) as server:
        server.listen(listener)
        async with connected(listener) as peer:
            await peer.greet()
            peer.say(headers(1, flags=END_STREAM))
            heard = await calls.begun()
            closing_it = asyncio.ensure_future(server.close(10))
            await peer.told(2)
            assert await peer.told(1) == [goes(1)]
            heard.answer()
            assert await peer.rest() == answered(1, b"answer")
            await closing_it


async def test_calls_that_do_not_end_in_time_are_cut_off(server: Server, peer: Peer, calls: Calls) -> None:
    peer.say(headers(1, flags=END_STREAM))
    heard = await calls.begun()
    await server.close(0.01)
    await until(lambda: heard.ends == 1)
    await until(lambda: is_empty(server))


async def test_a_peer_that_takes_an_answer_has_longer_for_it(server: Server, peer: Peer, calls: Calls) -> None:
    peer.say(headers(1, flags=END_STREAM))
    (await calls.begun()).answer(bytes(MUCH))
    closing_it = asyncio.ensure_future(server.close(0, LIMIT_S))
    assert len(data_in(await peer.rest(), 1)) == MUCH
    assert await closing_it == 0
    assert is_empty(server)


async def test_answers_that_are_not_taken_in_time_are_counted(server: Server, peer: Peer, calls: Calls) -> None:
    peer.have_little_room()
    peer.say(headers(1, flags=END_STREAM), headers(3, flags=END_STREAM), headers(5, flags=END_STREAM))
    await calls.begun(3)
    for heard in calls.heard[:2]:
        heard.answer(bytes(MUCH))
    assert await server.close(0, 0.05) == 2
    assert is_empty(server)


async def test_an_answer_that_its_peer_had_room_for_and_did_not_read_is_counted(
    server: Server, peer: Peer, calls: Calls
) -> None:
    peer.have_little_room()
    peer.say(headers(1, flags=END_STREAM))
    heard = await calls.begun()
    heard.stream.start(STATUS)
    heard.stream.write((bytes(MUCH),), MUCH)
    heard.stream.reset(ErrorCode.CANCEL)
    assert await server.close(0, 0.05) == 1


async def test_peers_are_told_to_go_elsewhere_while_the_port_stays_open(
    server: Server, peer: Peer, listener: socket.socket, calls: Calls
) -> None:
    server.part()
    await hears_that_it_parts(peer)
    await peer.rest()
    await until(lambda: is_empty(server))
    async with connected(listener) as other:
        await other.greet()
        other.say(headers(1, flags=END_STREAM))
        (await calls.begun()).answer()
        assert await other.told(3) == answered(1, b"answer")


async def test_nothing_is_left_of_it_afterwards(calls: Calls, listener: socket.socket) -> None:
    async with Http2Server(calls.connect, NOT_HTTP2) as server:
        server.listen(listener)
        async with connected(listener) as peer, connected(listener) as silent:
            await peer.greet()
            peer.say(headers(1))
            heard = await calls.begun()
            await server.__aexit__()
            assert heard.ends == 1
            assert is_empty(server)
            assert await peer.is_cut_off()
            assert await silent.is_cut_off()


async def test_what_was_never_opened_has_nothing_to_close(calls: Calls) -> None:
    server: Server = Http2Server(calls.connect, NOT_HTTP2)
    await server.__aexit__()
    assert is_empty(server)


@pytest.fixture
def shown(tmp_path: Path) -> ssl.SSLContext:
    """What the server shows."""
    issued = Authority(tmp_path / "tls").issue()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    return context


def trusting(path: Path) -> ssl.SSLContext:
    """Give what takes what the server shows."""
    return ssl.create_default_context(cafile=path / "tls" / "root.pem")


async def test_a_peer_that_does_not_get_as_far_as_to_be_encrypted_is_in_nobodys_way(
    calls: Calls, listener: socket.socket, shown: ssl.SSLContext
) -> None:
    async with Http2Server(calls.connect, NOT_HTTP2) as server:
        server.listen(listener, shown)
        async with connected(listener) as silent, connected(listener) as other:
            other.say(b"no hello")
            assert await other.is_cut_off()
            server.part()
            await server.close(1)
            silent.close()
        assert is_empty(server)


async def test_encrypted_connections_are_as_others(
    calls: Calls, listener: socket.socket, shown: ssl.SSLContext, tmp_path: Path
) -> None:
    async with Http2Server(calls.connect, NOT_HTTP2) as server:
        server.listen(listener, shown)
        reader, writer = await asyncio.open_connection(*listener.getsockname(), ssl=trusting(tmp_path))
        peer = Peer(reader, writer)
        await peer.greet()
        peer.say(headers(1, flags=END_STREAM))
        (await calls.begun()).answer()
        assert await peer.told(3) == answered(1, b"answer")
        assert calls.heard[0].ends == 0
        peer.close()
        await until(lambda: is_empty(server))


async def test_a_peer_that_is_encrypted_only_once_the_server_closes_is_left(
    calls: Calls, listener: socket.socket, shown: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol_module, "_LINGER_S", 0.01)
    address, context = listener.getsockname(), trusting(tmp_path)
    async with Http2Server(calls.connect, NOT_HTTP2) as server:
        server.listen(listener, shown)
        reader, writer = await asyncio.open_connection(*address)
        other = Peer(*await asyncio.open_connection(*address, ssl=context))
        await other.greet()  # so that the first has been accepted, too
        other.close()
        await until(lambda: is_empty(server))
        await server.close(0)
        await writer.start_tls(context, server_hostname=address[0])
        assert await Peer(reader, writer).rest() == []
        await until(lambda: is_empty(server))
