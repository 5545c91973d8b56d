"""What a connection makes of the frames that come: how it begins, how they have to look, and what breaks it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.transport.http2.wire import (
    NO_REQUEST,
    REQUEST,
    Frame,
    Wire,
    answered,
    data,
    frames_in,
    headers,
    reset,
)

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.frames import END_HEADERS, END_STREAM, HAS_PRIORITY, PADDED, ErrorCode, frame
from inferwire_server.transport.http2.header_blocks import MOST_HEADER_BYTES, UNPACKED_TIMES, write_block
from inferwire_server.transport.http2.stream import STREAM_WINDOW
from inferwire_server.transport.http2.streams import MOST_STREAMS

NO_SETTINGS = frames.settings({})
PRIORITY = bytes(5)
PING = bytes(range(8))


def test_who_greets_is_told_what_is_taken() -> None:
    wire = Wire()
    assert wire.say(frames.PREFACE[:-1]) == []
    assert not wire.connection.is_greeted
    offered, window = wire.say(frames.PREFACE[-1:])
    assert wire.connection.is_greeted
    assert (offered.kind, offered.flags, offered.stream) == (frames.SETTINGS, 0, 0)
    assert dict(frames.SETTING.iter_unpack(offered.content)) == {
        frames.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
        frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
        frames.MAX_FRAME_SIZE: 1024 * 1024,
        frames.MAX_HEADER_LIST_SIZE: MOST_HEADER_BYTES,
    }
    assert window == Frame(frames.WINDOW_UPDATE, 0, 0, (2**31 - 1 - 65_535).to_bytes(4))
    assert repr(wire.connection) == ("<Connection: 0 streams, <Outflow: open, 0 streams wait, 65535 bytes of window>>")


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n", b"PRX", frames.PREFACE[:-1] + b"\r", b"\x16\x03\x01"])
def test_who_says_something_else_is_not_answered(said: bytes) -> None:
    wire = Wire()
    assert wire.fails(said) is ErrorCode.PROTOCOL_ERROR
    assert wire.told() == []
    assert not wire.connection.is_greeted


def test_settings_are_acknowledged() -> None:
    wire = Wire()
    assert wire.say(frames.PREFACE, NO_SETTINGS)[2:] == [Frame(frames.SETTINGS, frames.ACK, 0)]
    assert wire.say(frame(frames.SETTINGS, frames.ACK)) == []


@pytest.mark.parametrize("first", [headers(1), frame(frames.PING, content=PING), data(1, b"a"), frame(99)])
def test_settings_come_first(first: bytes) -> None:
    assert Wire().fails(frames.PREFACE, first) is ErrorCode.PROTOCOL_ERROR


@pytest.mark.parametrize("flags", [0, PADDED, HAS_PRIORITY, PADDED | HAS_PRIORITY])
def test_headers_begin_a_stream_whatever_is_around_them(flags: int) -> None:
    wire = Wire().greet()
    content = REQUEST
    if flags & HAS_PRIORITY:
        content = PRIORITY + content
    if flags & PADDED:
        content = b"\x03" + content + bytes(3)
    assert wire.say(headers(1, content, flags | END_STREAM)) == []
    assert wire.heard[1].headers == ((b":method", b"POST"), (b":path", b"/a"))
    assert wire.heard[1].has_all
    assert wire.heard[1].data == b""
    assert repr(wire.connection).startswith("<Connection: 1 streams,")


@pytest.mark.parametrize(
    ("flags", "content", "code"),
    [
        (PADDED, b"", ErrorCode.PROTOCOL_ERROR),
        (PADDED, b"\x02ab", None),
        (PADDED, b"\x03ab", ErrorCode.PROTOCOL_ERROR),
        (HAS_PRIORITY, bytes(4), ErrorCode.FRAME_SIZE_ERROR),
        (HAS_PRIORITY | PADDED, b"\x01" + bytes(5), ErrorCode.FRAME_SIZE_ERROR),
    ],
)
def test_padding_and_priority_have_to_fit(flags: int, content: bytes, code: ErrorCode | None) -> None:
    wire = Wire().greet()
    if code is None:
        assert wire.say(headers(1, content, flags)) == []
    else:
        assert wire.fails(headers(1, content, flags)) is code


@pytest.mark.parametrize(
    "said", [headers(0), headers(2), headers(1) + headers(2), headers(5) + headers(4), headers(5) + headers(0)]
)
def test_a_client_begins_streams_of_odd_numbers_alone(said: bytes) -> None:
    assert Wire().greet().fails(said) is ErrorCode.PROTOCOL_ERROR


def test_a_stream_cannot_begin_below_another() -> None:
    wire = Wire().greet()
    wire.begin(5)
    assert wire.say(headers(3)) == []
    assert wire.heard.keys() == {5}


def test_a_number_has_a_bit_that_means_nothing() -> None:
    wire = Wire().greet()
    assert wire.say(headers(1 | 1 << 31), data(1 | 1 << 31, b"a"), data(1 | 1 << 31, b"\0b", PADDED)) == []
    assert wire.heard.keys() == {1}
    assert wire.heard[1].data == b"ab"


def test_headers_that_make_no_request_give_their_stream_up_alone() -> None:
    wire = Wire(lambda heard: heard.answer()).greet()
    assert wire.say(headers(1, NO_REQUEST), headers(3, flags=END_STREAM)) == [
        reset(1, ErrorCode.PROTOCOL_ERROR),
        *answered(3, b"answer"),
    ]


def test_what_refused_headers_add_to_what_is_remembered_counts() -> None:
    wire = Wire().greet()
    wire.say(headers(1, b"\x40\x07refused\x01a" + b"\x40\x01b\x01c"))
    wire.say(headers(3, b"\xbe"))
    assert wire.heard[3].headers == ((b"b", b"c"),)


def test_headers_go_on_in_further_frames() -> None:
    wire = Wire().greet()
    assert wire.say(frame(frames.HEADERS, END_STREAM | PADDED, 1, b"\x01" + REQUEST[:3] + b"\0")) == []
    assert wire.say(frame(frames.CONTINUATION, 0, 1, REQUEST[3:10])) == []
    assert wire.heard == {}
    wire.say(frame(frames.CONTINUATION, END_HEADERS, 1, REQUEST[10:]))
    assert wire.heard[1].headers == ((b":method", b"POST"), (b":path", b"/a"))
    assert wire.heard[1].has_all


@pytest.mark.parametrize(
    "between",
    [
        headers(3),
        data(1, b"a"),
        frame(frames.PING, content=PING),
        frame(99),
        frame(frames.CONTINUATION, END_HEADERS, 3, REQUEST),
    ],
)
def test_nothing_comes_between_the_frames_of_the_same_headers(between: bytes) -> None:
    begun = frame(frames.HEADERS, 0, 1, REQUEST[:3])
    assert Wire().greet().fails(begun, between) is ErrorCode.PROTOCOL_ERROR


def test_headers_that_have_not_begun_do_not_go_on() -> None:
    wire = Wire().greet()
    wire.begin(1)
    assert wire.fails(frame(frames.CONTINUATION, END_HEADERS, 1, REQUEST)) is ErrorCode.PROTOCOL_ERROR


def test_headers_that_go_on_for_too_long_end_the_connection() -> None:
    wire = Wire().greet()
    most = MOST_HEADER_BYTES * UNPACKED_TIMES
    assert wire.say(frame(frames.HEADERS, 0, 1, bytes(most))) == []
    assert wire.fails(frame(frames.CONTINUATION, 0, 1, b"a")) is ErrorCode.ENHANCE_YOUR_CALM


def test_headers_that_are_too_long_to_be_unpacked_end_the_connection() -> None:
    long = write_block([(b"a", bytes(MOST_HEADER_BYTES * UNPACKED_TIMES))])
    assert Wire().greet().fails(headers(1, long)) is ErrorCode.ENHANCE_YOUR_CALM


def test_headers_that_are_longer_than_a_call_may_have_are_whoever_takes_the_stream_s_business() -> None:
    wire = Wire().greet()
    wire.say(headers(1, REQUEST + write_block([(b"a", bytes(MOST_HEADER_BYTES))])))
    assert wire.begin(3)
    assert list(wire.connection.streams.open) == [1, 3]


def test_headers_that_cannot_be_unpacked_end_the_connection() -> None:
    assert Wire().greet().fails(headers(1, b"\xbe")) is ErrorCode.COMPRESSION_ERROR


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (frame(frames.PING, 0, 1, PING), ErrorCode.PROTOCOL_ERROR),
        (frame(frames.PING, content=PING[1:]), ErrorCode.FRAME_SIZE_ERROR),
        (frame(frames.SETTINGS, 0, 1), ErrorCode.PROTOCOL_ERROR),
        (frame(frames.SETTINGS, content=bytes(5)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(frames.SETTINGS, frames.ACK, content=bytes(6)), ErrorCode.FRAME_SIZE_ERROR),
        (frames.settings({frames.ENABLE_PUSH: 2}), ErrorCode.PROTOCOL_ERROR),
        (frames.settings({frames.MAX_FRAME_SIZE: 16_383}), ErrorCode.PROTOCOL_ERROR),
        (frames.settings({frames.MAX_FRAME_SIZE: 1 << 24}), ErrorCode.PROTOCOL_ERROR),
        (frames.settings({frames.INITIAL_WINDOW_SIZE: 1 << 31}), ErrorCode.FLOW_CONTROL_ERROR),
        (frame(frames.PUSH_PROMISE, END_HEADERS, 1, bytes(4) + REQUEST), ErrorCode.PROTOCOL_ERROR),
        (frame(frames.GOAWAY, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (frame(frames.PRIORITY, 0, 0, PRIORITY), ErrorCode.PROTOCOL_ERROR),
        (frame(frames.PRIORITY, 0, 1, PRIORITY[1:]), ErrorCode.FRAME_SIZE_ERROR),
        (frame(frames.RST_STREAM, 0, 1, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
        (frames.rst_stream(0, ErrorCode.CANCEL), ErrorCode.PROTOCOL_ERROR),
        (frames.rst_stream(3, ErrorCode.CANCEL), ErrorCode.PROTOCOL_ERROR),
        (frame(frames.WINDOW_UPDATE, 0, 1, bytes(5)), ErrorCode.FRAME_SIZE_ERROR),
        (frames.window_update(3, 1), ErrorCode.PROTOCOL_ERROR),
        (frames.window_update(0, 0), ErrorCode.PROTOCOL_ERROR),
        (frames.window_update(0, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
        (data(0, b"a"), ErrorCode.PROTOCOL_ERROR),
        (data(3, b"a"), ErrorCode.PROTOCOL_ERROR),
        (data(3, b"\0a", PADDED), ErrorCode.PROTOCOL_ERROR),
        (data(1, b"", PADDED), ErrorCode.PROTOCOL_ERROR),
        (data(1, b"\x01", PADDED), ErrorCode.PROTOCOL_ERROR),
        (frames.head(frames.DATA, 0, 1, 1024 * 1024 + 1), ErrorCode.FRAME_SIZE_ERROR),
        (frames.head(frames.HEADERS, 0, 3, (1 << 24) - 1), ErrorCode.FRAME_SIZE_ERROR),
    ],
)
def test_a_frame_that_breaks_the_protocol_ends_the_connection(said: bytes, code: ErrorCode) -> None:
    wire = Wire().greet()
    wire.begin(1)
    assert wire.fails(said) is code


@pytest.mark.parametrize(
    "said",
    [
        frame(frames.PRIORITY, 0, 7, PRIORITY),
        frame(frames.GOAWAY, content=bytes(8)),
        frame(99, 0xFF, 5, b"whatever"),
    ],
)
def test_what_asks_for_nothing_is_not_answered(said: bytes) -> None:
    wire = Wire(lambda heard: heard.answer()).greet()
    assert wire.say(said, headers(1, flags=END_STREAM)) == answered(1, b"answer")


def test_settings_of_which_nothing_is_wanted_are_acknowledged() -> None:
    wire = Wire().greet()
    assert wire.say(frames.settings({frames.ENABLE_PUSH: 1, frames.MAX_CONCURRENT_STREAMS: 0, 0x99: 5})) == [
        Frame(frames.SETTINGS, frames.ACK, 0)
    ]


def test_a_ping_is_answered_with_what_it_says() -> None:
    wire = Wire().greet()
    assert wire.say(frame(frames.PING, content=PING)) == [Frame(frames.PING, frames.ACK, 0, PING)]
    assert wire.say(frame(frames.PING, frames.ACK, content=PING)) == []


def test_a_peer_is_asked_whether_it_is_there() -> None:
    wire = Wire().greet()
    wire.connection.ask()
    (asked,) = wire.told()
    assert (asked.kind, asked.flags, len(asked.content)) == (frames.PING, 0, 8)
    assert wire.say(frame(frames.PING, frames.ACK, content=asked.content)) == []
    assert wire.times_done == 0


def test_what_is_answered_before_the_connection_fails_is_sent() -> None:
    wire = Wire(lambda heard: heard.answer()).greet()
    wire.fails(headers(1, flags=END_STREAM), data(0))
    assert wire.told() == answered(1, b"answer")


SAID = b"".join(
    [
        frames.PREFACE,
        frames.settings({frames.INITIAL_WINDOW_SIZE: 100_000}),
        frame(frames.HEADERS, 0, 1, REQUEST[:4]),
        frame(frames.CONTINUATION, END_HEADERS, 1, REQUEST[4:]),
        frame(frames.PING, content=PING),
        headers(3),
        data(1, b"first"),
        data(3, b"\x02second\0\0", PADDED),
        data(1),
        frames.window_update(0, 5),
        data(3, b"", END_STREAM),
        data(1, b"more", END_STREAM),
    ]
)


@given(st.lists(st.integers(0, len(SAID)), max_size=8).map(sorted))
def test_frames_are_taken_however_their_bytes_are_cut(cuts: list[int]) -> None:
    wire = Wire()
    told: list[Frame] = []
    for start, end in zip([0, *cuts], [*cuts, len(SAID)], strict=True):
        wire.connection.receive(SAID[start:end])
        told += frames_in(b"".join(wire.written))
        wire.written.clear()
    assert (wire.heard[1].data, wire.heard[1].has_all) == (b"firstmore", True)
    assert (wire.heard[3].data, wire.heard[3].has_all) == (b"second", True)
    assert [frame.kind for frame in told] == [frames.SETTINGS, frames.WINDOW_UPDATE, frames.SETTINGS, frames.PING]


def test_nothing_is_handed_on_before_a_byte_of_data_has_come() -> None:
    wire = Wire().greet()
    heard = wire.begin(1)
    frame_of_data = data(1, b"abc")
    wire.connection.receive(frame_of_data[:9])  # of nothing, it would fail
    assert heard.parts == []
    wire.connection.receive(frame_of_data[9:])
    assert heard.parts == [b"abc"]


def test_data_is_handed_on_before_its_frame_is_whole() -> None:
    wire = Wire().greet()
    heard = wire.begin(1)
    frame_of_data = data(1, b"abcdef", END_STREAM)
    wire.connection.receive(frame_of_data[:12])
    assert (heard.data, heard.has_all) == (b"abc", False)
    wire.connection.receive(frame_of_data[12:])
    assert (heard.data, heard.has_all) == (b"abcdef", True)
