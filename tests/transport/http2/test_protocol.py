"""A connection on a socket: what is written, who is at the other end, and how long a peer may be silent."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, closing
from itertools import pairwise
from pathlib import Path

import pytest
from tests.ipv6 import NEEDS_IPV6
from tests.low_water import be_from_elsewhere, mark_beyond
from tests.transport.http2.socket_peer import MUCH, NOT_HTTP2, PREFACE, Calls, Peer, connected
from tests.transport.http2.wire import (
    STATUS,
    TRAILERS,
    Frame,
    Headers,
    answered,
    data_in,
    ended,
    frames_in,
    goes,
    headers,
)
from tests.waiting import until

from inferwire_proto.host.low_water import MOST_BYTES
from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.frames import END_STREAM, ErrorCode, frame
from inferwire_server.transport.http2.protocol import Http2Protocol


@pytest.fixture
def calls() -> Calls:
    return Calls()


async def turns(count: int) -> None:
    """Let the loop have so many turns."""
    for _ in range(count):
        await asyncio.sleep(0)


def calling(first: int, last: int) -> bytes:
    """Make calls on streams of these numbers, the last not included."""
    return b"".join([headers(number, flags=END_STREAM) for number in range(first, last, 2)])


@asynccontextmanager
async def listening(calls: Calls, listener: socket.socket) -> AsyncGenerator[Peer, None]:
    """Take connections at a socket, and make one."""
    loop = asyncio.get_running_loop()
    if listener.family == socket.AF_UNIX:
        server = await loop.create_unix_server(calls.protocol, sock=listener)
    else:
        server = await loop.create_server(calls.protocol, sock=listener)
    try:
        async with connected(listener) as peer:
            await until(lambda: bool(calls.made))
            yield peer
    finally:
        server.close()
        await until(lambda: calls.lost == calls.made)


@pytest.fixture
async def peer(calls: Calls) -> AsyncGenerator[Peer, None]:
    """A connection's other end."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        async with listening(calls, listener) as made:
            yield made


@pytest.fixture
def protocol(calls: Calls, peer: Peer) -> Http2Protocol[Headers]:
    """The connection's own end."""
    return calls.made[0]


async def test_a_peer_at_a_port_has_an_address_and_a_port(protocol: Http2Protocol[Headers]) -> None:
    assert re.fullmatch(r"ipv4:127\.0\.0\.1:\d+", protocol.peer)
    assert repr(protocol).startswith(f"<Http2Protocol {protocol.peer}: <Connection: 0 streams,")


@NEEDS_IPV6
async def test_an_address_of_the_newer_kind_has_brackets(calls: Calls) -> None:
    with closing(socket.create_server(("::1", 0), family=socket.AF_INET6)) as listener:
        async with listening(calls, listener):
            assert re.fullmatch(r"ipv6:\[::1\]:\d+", calls.made[0].peer)


async def test_a_peer_at_a_file_has_no_name(calls: Calls, tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(tmp_path / "at"))
        async with listening(calls, listener) as peer:
            await peer.greet()
            assert calls.made[0].peer == "unix:"


async def test_a_peer_that_is_gone_already_is_not_taken_for_one_at_a_file(calls: Calls) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        with socket.create_connection(listener.getsockname()) as gone:
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        async with listening(calls, listener):
            await until(lambda: bool(calls.lost))
            assert calls.lost[0].peer == "unknown:"


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", b"\x16\x03\x01\x02\x00"])
async def test_who_speaks_something_else_gets_the_given_answer(peer: Peer, said: bytes) -> None:
    peer.say(said)
    assert await peer.rest_of_bytes() == NOT_HTTP2


async def test_what_is_due_to_a_peer_is_what_it_has_not_taken_wherever_that_waits(
    peer: Peer, protocol: Http2Protocol[Headers], calls: Calls
) -> None:
    await peer.greet()
    await until(lambda: protocol.due_bytes == 0)
    peer.say(headers(1, flags=END_STREAM))
    (await calls.begun()).answer(bytes(3 * MUCH))  # two thirds of it have room by the peer's windows
    assert MUCH < protocol.due_bytes < 4 * MUCH
    assert protocol.answers_due == 1
    peer.say(frames.window_update(0, MUCH), frames.window_update(1, MUCH))
    assert data_in(await peer.told(1 + 3 * MUCH // 16384 + 1), 1) == bytes(3 * MUCH)
    await until(lambda: protocol.due_bytes == 0)
    assert protocol.answers_due == 0


class Closed(asyncio.Transport):
    """A transport whose socket is closed, of which the protocol has not heard: its number is a file's by now."""

    family = socket.AF_UNIX

    def __init__(self, number: int) -> None:
        super().__init__({"socket": self})
        self._number = number

    def fileno(self) -> int:
        """Give what was the socket's."""
        return self._number

    def get_write_buffer_size(self) -> int:
        """Say that nothing waits."""
        return 0


async def test_nothing_is_due_where_the_socket_is_closed(calls: Calls, tmp_path: Path) -> None:
    protocol = calls.protocol()
    with (tmp_path / "file").open("wb") as file:
        protocol.connection_made(Closed(file.fileno()))
        assert protocol.due_bytes == 0
    protocol.connection_made(Closed(-1))
    assert protocol.due_bytes == 0


async def test_nothing_is_said_to_who_says_nothing(peer: Peer, protocol: Http2Protocol[Headers]) -> None:
    protocol.part()
    protocol.close()
    assert await peer.rest_of_bytes() == b""


async def test_a_call_is_answered(peer: Peer, calls: Calls) -> None:
    await peer.greet()
    peer.say(headers(1, flags=END_STREAM))
    (await calls.begun()).answer()
    assert await peer.told(3) == answered(1, b"answer")


async def test_an_answer_in_parts_goes_out_as_it_is_written(peer: Peer, calls: Calls) -> None:
    await peer.greet()
    peer.say(headers(1, flags=END_STREAM))
    stream = (await calls.begun()).stream
    stream.start(STATUS)
    for size in (1, 20_000, 100):
        stream.write((bytes(size),), size)
    stream.finish(TRAILERS)
    told = await peer.told(6)
    assert data_in(told, 1) == bytes(20_101)
    assert told[-1] == ended(1)


async def test_a_long_answer_goes_out_in_one_frame_where_the_peer_takes_that(peer: Peer, calls: Calls) -> None:
    await peer.greet()
    peer.say(frames.settings({frames.MAX_FRAME_SIZE: 1 << 20}), headers(1, flags=END_STREAM))
    (await calls.begun()).answer(bytes(100_000))
    assert (await peer.told(4))[1:] == answered(1, bytes(100_000))


async def test_a_peer_that_breaks_the_protocol_is_told_why_and_not_heard_any_more(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    peer.say(headers(1), headers(2))
    assert await peer.rest() == [goes(1, ErrorCode.PROTOCOL_ERROR, b"a client cannot begin stream 2")]
    protocol.data_received(headers(3))
    assert len(calls.heard) == 1
    await until(lambda: calls.lost == [protocol])
    assert calls.heard[0].ends == 1


async def test_a_peer_that_does_not_read_is_sent_no_more_until_it_does(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    peer.say(headers(1, flags=END_STREAM))
    (await calls.begun()).answer(bytes(MUCH))
    await until(lambda: "paused" in repr(protocol))
    assert calls.heard[0].stream.unsent > 0
    told = await peer.told(2 + MUCH // frames.SMALLEST_MAX_FRAME)
    assert data_in(told, 1) == bytes(MUCH)
    assert told[-1] == ended(1)
    assert "paused" not in repr(protocol)


async def test_nothing_is_heard_from_a_peer_that_does_not_read_until_it_does(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    calls.answer_at_once(1000)
    await peer.greet()
    count = 50_000
    peer.say(*[headers(number, flags=END_STREAM) for number in range(1, 2 * count, 2)])
    transport = protocol._transport
    await until(lambda: transport.get_write_buffer_size() > MUCH // 16)
    await turns(10)
    assert not transport.is_reading()
    assert transport.get_write_buffer_size() < MUCH
    assert {frame.kind for frame in await peer.told(count)} == {frames.HEADERS}
    assert transport.is_reading()


async def test_the_end_of_a_peer_that_did_not_read_is_heard_while_its_connection_closes(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    calls.answer_at_once(1000)
    await peer.greet()
    peer.say(*[headers(number, flags=END_STREAM) for number in range(1, 100_000, 2)])
    await until(lambda: protocol._transport.get_write_buffer_size() > MUCH // 16)
    await turns(10)
    protocol.close()
    assert protocol._transport.is_reading()
    peer.close()
    await until(lambda: calls.lost == [protocol])


async def test_others_have_their_turn_between_the_calls_of_a_peer_that_makes_many(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    begun: list[int] = []

    def look() -> None:
        begun.append(len(calls.heard))
        if begun[-1] < 1000:
            asyncio.get_running_loop().call_soon(look)

    look()
    peer.say(calling(1, 2001))
    await calls.begun(1000)
    # What is taken at once, and four times more.
    assert max(now - before for before, now in pairwise(begun)) <= 16 * 5
    await until(protocol._transport.is_reading)


async def test_a_peer_is_not_listened_to_while_calls_wait_for_a_turn(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    protocol.data_received(calling(1, 1001))
    assert not protocol._transport.is_reading()
    await calls.begun(500)
    await until(protocol._transport.is_reading)


async def test_calls_that_have_come_begin_though_the_peer_says_no_more(peer: Peer, calls: Calls) -> None:
    await peer.greet()
    peer.say(calling(1, 2001))
    peer.close()
    await until(lambda: bool(calls.lost))
    assert len(calls.heard) == 1000


async def test_no_call_begins_once_a_connection_is_cut_off(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    protocol.data_received(calling(1, 2001))
    begun = len(calls.heard)
    protocol.cut_off()
    await until(lambda: calls.lost == [protocol])
    await turns(3)
    assert len(calls.heard) == begun < 1000
    assert {heard.ends for heard in calls.heard} == {1}


async def test_no_call_begins_once_a_connection_is_lost(calls: Calls) -> None:
    protocol = calls.protocol()
    # It is not known to be closing once it is closed, as is so with TLS.
    protocol.connection_made(SlowTransport())
    protocol.data_received(PREFACE + calling(1, 2001))
    begun = len(calls.heard)
    protocol.connection_lost(None)
    await turns(3)
    assert len(calls.heard) == begun < 1000


async def test_a_connection_that_closes_takes_no_call_that_waits_and_hears_its_peer_go(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    protocol.data_received(calling(1, 2001))
    begun = len(calls.heard)
    protocol.close()
    assert protocol._transport.is_reading()
    await turns(3)
    assert len(calls.heard) == begun < 1000
    peer.close()
    await until(lambda: calls.lost == [protocol])


async def test_a_connection_that_is_done_while_more_waits_hears_its_peer_go(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    protocol.part()
    _, asked = await peer.told(2)
    # Its answer says that it begins nothing more here; what it says still is for nobody.
    protocol.data_received(frame(frames.PING, frames.ACK, content=asked.content) + calling(1, 2001))
    assert calls.heard == []
    assert protocol._transport.is_reading()
    assert await peer.rest() == [goes(0)]
    await until(lambda: calls.lost == [protocol])


async def test_calls_that_have_come_are_answered_where_a_peer_is_left(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    protocol.data_received(calling(1, 2001))
    protocol.leave()
    assert await peer.told(1) == [goes(1999)]
    assert len(calls.heard) == 1000
    for heard in calls.heard:
        heard.answer()
    assert (await peer.rest())[-1] == ended(1999)


async def test_a_peer_is_left_that_has_broken_the_protocol_in_what_waits(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    protocol.data_received(calling(1, 2001) + headers(2))
    protocol.leave()
    assert await peer.rest() == [goes(1999, ErrorCode.PROTOCOL_ERROR, b"a client cannot begin stream 2")]
    assert len(calls.heard) == 1000


@pytest.mark.parametrize("count", [32, 64])
async def test_no_call_of_a_peer_that_does_not_read_begins_before_it_does(
    count: int, peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    size = MUCH // 16
    calls.answer_at_once(size)
    protocol.data_received(calling(1, 2 * count + 1))
    await turns(10)
    # Those that were taken first, and those whose answers showed that the peer does not read.
    transport = protocol._transport
    assert transport.get_write_buffer_size() < 33 * size
    assert not transport.is_reading()
    await peer.told(count)
    await until(transport.is_reading)


async def test_what_is_written_goes_out_before_a_connection_closes(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    peer.say(headers(1, flags=END_STREAM), headers(3, flags=END_STREAM))
    await calls.begun(2)
    calls.heard[0].answer()
    protocol.close()
    calls.heard[1].answer()  # which is too late
    assert await peer.rest() == answered(1, b"answer")


async def test_a_peer_that_does_not_close_as_well_is_cut_off(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    protocol.close()
    protocol.look(9.9)
    assert not protocol._transport.is_closing()
    protocol.look(10)
    await until(lambda: calls.lost == [protocol])


async def test_a_connection_that_is_cut_off_ends_its_calls(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    peer.say(headers(1))
    heard = await calls.begun()
    protocol.cut_off()
    assert await peer.is_cut_off()
    assert heard.ends == 1


async def test_a_peer_that_goes_ends_its_calls(peer: Peer, calls: Calls) -> None:
    await peer.greet()
    peer.say(headers(1))
    heard = await calls.begun()
    peer.close()
    await until(lambda: heard.ends == 1)


async def test_a_peer_that_is_left_ends_what_it_has_begun(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    peer.say(headers(1, flags=END_STREAM))
    heard = await calls.begun()
    protocol.part()
    going, asked = await peer.told(2)
    assert going == goes(2**31 - 1)
    peer.say(frame(frames.PING, frames.ACK, content=asked.content))
    assert await peer.told(1) == [goes(1)]
    protocol.leave()
    heard.answer()
    assert await peer.rest() == answered(1, b"answer")


async def test_the_last_answer_reaches_a_peer_that_is_left(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    peer.say(frames.settings({frames.INITIAL_WINDOW_SIZE: 5}), headers(1, flags=END_STREAM))
    (await calls.begun()).answer()
    assert data_in(await peer.told(3), 1) == b"answe"
    protocol.leave()
    assert await peer.told(1) == [goes(1)]
    peer.say(frames.window_update(1, 100))
    assert await peer.rest() == [Frame(frames.DATA, 0, 1, b"r"), ended(1)]


async def test_a_peer_that_has_heard_that_it_is_left_is_told_which_stream_is_the_last(
    peer: Peer, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    protocol.part()
    _, asked = await peer.told(2)
    peer.say(frame(frames.PING, frames.ACK, content=asked.content))
    assert await peer.rest() == [goes(0)]


async def test_a_peer_that_never_greets_is_cut_off(peer: Peer, protocol: Http2Protocol[Headers]) -> None:
    protocol.look(19.9)
    assert not protocol._transport.is_closing()
    protocol.look(20)
    assert await peer.is_cut_off()


async def test_a_preface_is_waited_for_no_longer_where_it_comes_slowly(calls: Calls) -> None:
    transport, protocol = SlowTransport(), calls.protocol()
    protocol.connection_made(transport)
    for byte in PREFACE[:19]:
        calls.now += 1
        protocol.data_received(bytes([byte]))
        protocol.look(calls.now)
    assert not transport.is_aborted
    calls.now += 1
    protocol.look(calls.now)
    assert transport.is_aborted


async def test_a_peer_is_waited_for_as_others_are_once_its_preface_has_come(calls: Calls) -> None:
    transport, protocol = SlowTransport(), calls.protocol()
    protocol.connection_made(transport)
    calls.now = 19.0
    protocol.data_received(PREFACE)
    protocol.look(48.9)
    assert (transport.asked, transport.is_aborted) == (0, False)
    protocol.look(49.0)
    assert (transport.asked, transport.is_aborted) == (1, False)


async def test_a_silent_peer_is_asked_and_stays_if_it_says_that_it_is_there(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    for number in (1, 3):
        began = calls.now
        protocol.look(began + 29.9)
        protocol.look(began + 30)
        (asked,) = await peer.told(1)
        protocol.look(began + 39.9)
        assert (asked.kind, asked.flags) == (frames.PING, 0)
        calls.now = began + 39.9
        peer.say(frame(frames.PING, frames.ACK, content=asked.content), headers(number, flags=END_STREAM))
        await until(lambda number=number: len(calls.heard) == number // 2 + 1)
    protocol.look(calls.now + 29.9)
    assert calls.lost == []


async def test_a_peer_that_does_not_say_so_is_cut_off(
    peer: Peer, calls: Calls, protocol: Http2Protocol[Headers]
) -> None:
    await peer.greet()
    peer.say(headers(1))
    heard = await calls.begun()
    protocol.look(30)
    await peer.told(1)
    protocol.look(40)
    assert await peer.is_cut_off()
    assert heard.ends == 1


async def test_a_peer_that_pings_now_and_then_is_never_sent_away(peer: Peer, protocol: Http2Protocol[Headers]) -> None:
    await peer.greet()
    for _ in range(3):
        peer.say(frame(frames.PING, content=bytes(8)) * 600)
        assert {frame.kind for frame in await peer.told(600)} == {frames.PING}
        protocol.look(0)


async def test_a_peer_whose_calls_wait_for_a_turn_is_not_silent(calls: Calls) -> None:
    transport, protocol = SlowTransport(), calls.protocol()
    protocol.connection_made(transport)
    protocol.data_received(PREFACE + calling(1, 2001))
    calls.now = 29.0
    await calls.begun(1000)
    protocol.look(58.9)
    assert (transport.asked, transport.is_aborted) == (0, False)
    protocol.look(59.0)
    assert (transport.asked, transport.is_aborted) == (1, False)


class SlowTransport(asyncio.Transport):
    """Writes to a peer that reads as a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.unread_bytes = 1_000_000
        self.is_aborted = False
        self.written = b""
        self.ends = 0

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ends += 1

    def is_closing(self) -> bool:
        return self.is_aborted

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True

    @property
    def asked(self) -> int:
        """How often the peer has been asked whether it is there."""
        return [frame.kind for frame in frames_in(self.written)].count(frames.PING)


@pytest.fixture
def slow(calls: Calls) -> tuple[SlowTransport, Http2Protocol[Headers]]:
    """A connection whose peer has greeted, and says nothing more."""
    transport, protocol = SlowTransport(), calls.protocol()
    protocol.connection_made(transport)
    protocol.data_received(PREFACE)
    return transport, protocol


def test_a_peer_that_reads_is_there_however_slowly_it_does(slow: tuple[SlowTransport, Http2Protocol[Headers]]) -> None:
    transport, protocol = slow
    for at in range(5, 205, 5):
        transport.unread_bytes -= 10
        protocol.look(at)
    protocol.look(229.9)
    assert (transport.asked, transport.is_aborted) == (0, False)
    protocol.look(230)
    assert (transport.asked, transport.is_aborted) == (1, False)
    protocol.look(239.9)
    assert not transport.is_aborted
    protocol.look(240)
    assert transport.is_aborted


def test_a_peer_that_has_read_all_that_waited_is_asked_anew(
    calls: Calls, slow: tuple[SlowTransport, Http2Protocol[Headers]]
) -> None:
    transport, protocol = slow
    protocol.pause_writing()
    protocol.look(30)
    calls.now = 30.5
    protocol.resume_writing()
    protocol.look(60.5)
    assert (transport.asked, transport.is_aborted) == (2, False)


def test_a_connection_closes_once(slow: tuple[SlowTransport, Http2Protocol[Headers]]) -> None:
    transport, protocol = slow
    protocol.close()
    protocol.close()
    assert transport.ends == 1


def test_a_connection_that_is_cut_off_is_not_closed_as_well(slow: tuple[SlowTransport, Http2Protocol[Headers]]) -> None:
    transport, protocol = slow
    protocol.cut_off()
    protocol.close()
    assert transport.ends == 0


async def test_a_connection_sleeps_until_a_good_part_of_a_frame_of_data_has_come(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_from_elsewhere(monkeypatch)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        async with listening(calls, listener) as peer:
            await _receive_in_parts(calls, peer)


async def _receive_in_parts(calls: Calls, peer: Peer) -> None:
    await peer.greet()
    content = bytes(range(256)) * 400
    sent = headers(1) + frame(frames.DATA, END_STREAM, 1, content)
    peer.say(sent[:20_000])
    await until(lambda: mark_beyond(peer.own_name) == MOST_BYTES)
    peer.say(sent[20_000:-10_000])
    await until(lambda: mark_beyond(peer.own_name) == 10_000)
    peer.say(sent[-10_000:])
    heard = await calls.begun()
    await until(lambda: heard.has_all)
    assert heard.data == content
    assert mark_beyond(peer.own_name) == 1
