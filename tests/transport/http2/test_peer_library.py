"""Calls from a client of a library that knows nothing of this server, `h2`: of any length, together, in any pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import h2.events as told
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes, Settings
from hypothesis import given
from hypothesis import strategies as st
from tests.transport.http2.wire import STATUS, TRAILERS

from inferwire_server.transport.http2.connection import Connection
from inferwire_server.transport.http2.header_blocks import Field
from inferwire_server.transport.http2.outflow import Piece
from inferwire_server.transport.http2.stream import STREAM_WINDOW, Receiver, Stream

MEGABYTE = 1024 * 1024
SIZES = [0, 1, 16_384, 16_385, 65_535, 65_536, MEGABYTE, 3 * MEGABYTE]


class Answering:
    """Answers a call once it has all of it, with what its headers ask for; or at once, where they say so."""

    awaits_data = False

    def __init__(self, stream: Stream, fields: Sequence[Field]) -> None:
        self._stream = stream
        self._headers = dict(fields)
        self._taken = bytearray()

    def take_data(self, data: memoryview, *, is_last: bool) -> None:
        """Take data, and let more come."""
        self._taken += data
        if is_last:
            self.answer()
        elif self._stream.credit < STREAM_WINDOW // 2:
            self._stream.expect(STREAM_WINDOW)

    def answer(self) -> None:
        """Send how much came, and so many bytes as are asked for, all at once or in parts."""
        content = len(self._taken).to_bytes(4) + content_of(int(self._headers[b"size"]))
        if b"parts" in self._headers:
            self._stream.start(STATUS)
            for at in range(0, len(content), 5000):
                part = content[at : at + 5000]
                self._stream.write((part,), len(part))
            self._stream.finish(TRAILERS)
        else:
            self._stream.answer(STATUS, (content[:4], memoryview(content)[4:]), len(content), TRAILERS)

    def take_end(self) -> None:
        """Do nothing."""

    def take_room(self) -> None:
        """Do nothing."""

    def take_stall(self) -> None:
        """Do nothing."""


def content_of(size: int) -> bytes:
    """Make bytes of which none are where others should be."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]


@dataclass(slots=True)
class Call:
    """A call as its caller sees it."""

    unsent: bytes
    received: bytearray = field(default_factory=bytearray)
    headers: list[Field] = field(default_factory=list[Field])
    trailers: list[Field] = field(default_factory=list[Field])
    has_said_all: bool = False
    has_ended: bool = False
    reset: int | None = None


class Client:
    """A client, a connection, and the bytes between them, which come in pieces of these sizes."""

    def __init__(self, pieces: Iterator[int], offered: dict[SettingCodes, int] | None = None) -> None:
        self.calls: dict[int, Call] = {}
        self.is_sent_away = False
        self._pieces = pieces
        self._to_client: list[bytes] = []
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.server: Connection[list[Field]] = Connection(self._write, list, self._open, lambda: None)
        if offered:
            self._h2.local_settings = Settings(client=True, initial_values=offered)
        self._h2.initiate_connection()

    def call(self, content: bytes, size: int, *further: Field) -> int:
        """Begin a call that asks for so many bytes."""
        number = self._h2.get_next_available_stream_id()
        fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/a")]
        self._h2.send_headers(number, [*fields, (b"size", str(size).encode()), *further])
        self.calls[number] = Call(content)
        return number

    def reset(self, number: int) -> None:
        """Give a call up."""
        self._h2.reset_stream(number, ErrorCodes.CANCEL)
        self.calls[number].reset = int(ErrorCodes.CANCEL)

    def run(self) -> None:
        """Say what there is to say on both sides, until there is nothing on either."""
        is_active = True
        while is_active:
            for number, call in self.calls.items():
                self._send_some(number, call)
            sent = self._h2.data_to_send()
            for piece in self._cut(sent):
                self.server.receive(piece)
            came = b"".join(self._to_client)
            self._to_client.clear()
            for piece in self._cut(came):
                self._hear(piece)
            is_active = bool(sent or came)

    def _send_some(self, number: int, call: Call) -> None:
        """Send a frame of a call, if it has one, so that those of several calls alternate."""
        if call.has_said_all or call.has_ended or call.reset is not None:
            return
        room = min(self._h2.local_flow_control_window(number), self._h2.max_outbound_frame_size)
        part, call.unsent = call.unsent[:room], call.unsent[room:]
        call.has_said_all = not call.unsent
        if part or call.has_said_all:
            self._h2.send_data(number, part, end_stream=call.has_said_all)

    def _cut(self, data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            size = next(self._pieces)
            yield data[at : at + size]
            at += size

    def _hear(self, data: bytes) -> None:
        for event in self._h2.receive_data(data):
            match event:
                case told.ResponseReceived():
                    self.calls[event.stream_id].headers += _fields(event.headers)
                case told.TrailersReceived():
                    self.calls[event.stream_id].trailers += _fields(event.headers)
                case told.DataReceived():
                    self.calls[event.stream_id].received += event.data
                    self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case told.StreamEnded():
                    self.calls[event.stream_id].has_ended = True
                case told.StreamReset():
                    self.calls[event.stream_id].reset = int(event.error_code)
                case told.ConnectionTerminated():
                    self.is_sent_away = True
                case _:
                    pass

    def _write(self, pieces: Sequence[Piece]) -> None:
        self._to_client += [bytes(piece) for piece in pieces]

    def _open(self, stream: Stream, fields: list[Field]) -> Receiver:
        receiver = Answering(stream, fields)
        if (b"early", b"yes") in fields:
            stream.answer(STATUS, (b"early",), 5, TRAILERS)
        return receiver


def _fields(headers: Any) -> list[Field]:
    return [(bytes(name), bytes(value)) for name, value in headers]


def check(call: Call, sent: int, asked: int) -> None:
    """See that a call has been answered with what it asked for."""
    assert call.has_ended
    assert call.reset is None
    assert call.received[:4] == sent.to_bytes(4)
    assert bytes(call.received[4:]) == content_of(asked)
    assert call.headers == [(b":status", b"200")]
    assert call.trailers == [(b"grpc-status", b"0")]


@pytest.mark.parametrize("asked", SIZES)
@pytest.mark.parametrize("sent", SIZES)
def test_calls_of_any_length_are_answered(sent: int, asked: int) -> None:
    client = Client(cycle([65_536]))
    number = client.call(content_of(sent), asked)
    client.run()
    check(client.calls[number], sent, asked)
    assert client.server.streams.open == {}


@pytest.mark.parametrize("asked", SIZES)
def test_answers_that_are_written_in_parts_arrive_whole(asked: int) -> None:
    client = Client(cycle([65_536]))
    number = client.call(b"", asked, (b"parts", b"yes"))
    client.run()
    check(client.calls[number], 0, asked)


@pytest.mark.parametrize(
    "offered",
    [
        {SettingCodes.INITIAL_WINDOW_SIZE: 1},
        {SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1, SettingCodes.MAX_FRAME_SIZE: 2**24 - 1},
        {SettingCodes.HEADER_TABLE_SIZE: 0},
        {SettingCodes.HEADER_TABLE_SIZE: 65_536, SettingCodes.ENABLE_PUSH: 0},
    ],
)
def test_a_client_may_ask_for_other_settings(offered: dict[SettingCodes, int]) -> None:
    client = Client(cycle([65_536]), offered)
    numbers = [client.call(bytes(10), 2000) for _ in range(2)]
    client.run()
    for number in numbers:
        check(client.calls[number], 10, 2000)


def test_calls_that_run_together_are_answered_each_with_its_own() -> None:
    client = Client(cycle([10_000, 1, 30_000]))
    sizes = [(200_000, 10), (0, 300_000), (100_000, 100_000), (70_000, 0), (5, 150_000)] * 3
    numbers = [client.call(content_of(sent), asked) for sent, asked in sizes]
    client.run()
    for number, (sent, asked) in zip(numbers, sizes, strict=True):
        check(client.calls[number], sent, asked)


def test_the_same_calls_again_and_again_are_the_same_headers() -> None:
    client = Client(cycle([65_536]))
    for _ in range(50):
        number = client.call(b"abc", 5, (b"te", b"trailers"))
        client.run()
        check(client.calls[number], 3, 5)


def test_every_byte_may_come_by_itself() -> None:
    client = Client(cycle([1]))
    numbers = [client.call(content_of(300), 300) for _ in range(3)]
    client.run()
    for number in numbers:
        check(client.calls[number], 300, 300)


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 1500), st.booleans()), min_size=1, max_size=4),
    st.integers(1, 2000),
)
def test_calls_are_answered_however_their_bytes_are_cut(
    pieces: list[int], calls: list[tuple[int, int, bool]], window: int
) -> None:
    client = Client(cycle(pieces), {SettingCodes.INITIAL_WINDOW_SIZE: window})
    parts: tuple[Field, ...] = ((b"parts", b"yes"),)
    numbers = [client.call(content_of(sent), asked, *(parts * in_parts)) for sent, asked, in_parts in calls]
    client.run()
    for number, (sent, asked, _) in zip(numbers, calls, strict=True):
        check(client.calls[number], sent, asked)


def test_a_call_that_is_given_up_leaves_the_others_alone() -> None:
    client = Client(cycle([1000]))
    given_up, other = client.call(bytes(3 * MEGABYTE), 10), client.call(bytes(3 * MEGABYTE), MEGABYTE)
    client.reset(given_up)
    client.run()
    check(client.calls[other], 3 * MEGABYTE, MEGABYTE)
    assert client.server.streams.open == {}


def test_an_early_answer_is_heard_and_ends_what_the_client_sends() -> None:
    client = Client(cycle([1000]))
    early, other = client.call(bytes(3 * MEGABYTE), 0, (b"early", b"yes")), client.call(bytes(MEGABYTE), 5)
    client.run()
    assert (bytes(client.calls[early].received), client.calls[early].has_ended) == (b"early", True)
    assert client.calls[early].trailers == [(b"grpc-status", b"0")]
    check(client.calls[other], MEGABYTE, 5)
    assert client.server.streams.open == {}


def test_a_client_is_sent_away_with_its_answers() -> None:
    client = Client(cycle([1000]))
    number = client.call(bytes(10), MEGABYTE)
    client.run()
    client.server.leave()
    client.run()
    check(client.calls[number], 10, MEGABYTE)
    assert client.is_sent_away
    assert client.server.is_done
