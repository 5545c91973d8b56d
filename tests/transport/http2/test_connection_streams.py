"""What comes on the streams of a connection, and how they end: from either side, early, or because of a mistake."""

from __future__ import annotations

import pytest
from tests.transport.http2.wire import (
    MALFORMED,
    REQUEST,
    STATUS,
    TRAILERS,
    Frame,
    Heard,
    Wire,
    allowed,
    answered,
    data,
    ended,
    headers,
    reset,
)

from inferwire_server.transport.http2 import connection, frames, streams
from inferwire_server.transport.http2.frames import END_STREAM, PADDED, ErrorCode, rst_stream
from inferwire_server.transport.http2.stream import STREAM_WINDOW

LONGEST = 1024 * 1024
"""The longest frame of data that is taken."""


def test_streams_are_answered_in_whatever_order() -> None:
    wire = Wire().greet()
    first, second = wire.begin(1), wire.begin(3, END_STREAM)
    wire.say(data(1, b"a", END_STREAM))
    second.answer(b"second")
    first.answer(b"first")
    assert wire.told() == answered(3, b"second") + answered(1, b"first")
    assert wire.connection.streams.open == {}


def test_all_that_is_answered_to_what_came_together_is_sent_together() -> None:
    wire = Wire(lambda heard: heard.answer()).greet()
    told = wire.say(headers(1, flags=END_STREAM), headers(3, flags=END_STREAM))
    assert told == answered(1, b"answer") + answered(3, b"answer")


def test_data_comes_in_the_longest_frames_that_are_offered() -> None:
    wire = Wire().greet()
    heard = wire.begin(1)
    assert wire.say(data(1, bytes(LONGEST), END_STREAM)) == []
    assert (heard.data, heard.has_all) == (bytes(LONGEST), True)


def test_padded_data_may_be_as_long_as_other_data() -> None:
    wire = Wire().greet()
    heard = wire.begin(1)
    assert wire.say(data(1, b"\x01" + bytes(LONGEST - 1), PADDED)) == []
    assert heard.data == bytes(LONGEST - 2)


@pytest.mark.parametrize("last", [data(1, b"", END_STREAM), data(1, b"\0", END_STREAM | PADDED)])
def test_the_end_may_come_without_data(last: bytes) -> None:
    wire = Wire().greet()
    heard = wire.begin(1)
    assert wire.say(data(1, b"all"), data(1), data(1, b"\x02\0\0", PADDED)) == []
    assert not heard.has_all
    assert wire.say(last) == []
    assert (heard.data, heard.has_all) == (b"all", True)


def test_trailers_end_what_a_client_says() -> None:
    wire = Wire().greet()
    heard = wire.begin(1)
    assert wire.say(data(1, b"all"), headers(1, TRAILERS, END_STREAM)) == []
    assert (heard.data, heard.has_all) == (b"all", True)
    heard.answer(b"a")
    assert wire.told() == answered(1, b"a")


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (headers(1, TRAILERS), ErrorCode.PROTOCOL_ERROR),  # which do not end it
        (headers(1, MALFORMED, END_STREAM), ErrorCode.PROTOCOL_ERROR),
        (headers(1, REQUEST, END_STREAM), ErrorCode.PROTOCOL_ERROR),
        (data(1, b"", END_STREAM) + headers(1, TRAILERS, END_STREAM), ErrorCode.STREAM_CLOSED),
        (data(1, b"", END_STREAM) + data(1, b"more"), ErrorCode.STREAM_CLOSED),
        (data(1, b"", END_STREAM) + data(1, b"\0more", PADDED), ErrorCode.STREAM_CLOSED),
        (frames.window_update(1, 0), ErrorCode.PROTOCOL_ERROR),
        (frames.window_update(1, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
    ],
)
def test_a_mistake_on_a_stream_ends_that_alone(said: bytes, code: ErrorCode) -> None:
    wire = Wire().greet()
    heard, other = wire.begin(1), wire.begin(3)
    assert wire.say(said) == [reset(1, code)]
    assert (heard.stream.is_over, heard.ends, other.ends) == (True, 1, 0)
    assert wire.say(data(1, b"late"), data(3, b"a")) == []
    assert other.data == b"a"


def announcing(size: int) -> tuple[Wire, Heard]:
    """Begin a stream whose client has said how much it sends."""
    wire = Wire().greet()
    heard = wire.begin(1)
    heard.stream.announced = size
    return wire, heard


@pytest.mark.parametrize(
    "said",
    [
        [data(1, b"all", END_STREAM)],
        [data(1, b"al"), data(1), data(1, b"\x05l" + bytes(5), PADDED), data(1, b"", END_STREAM)],
        [data(1, b"all"), headers(1, TRAILERS, END_STREAM)],
        [data(1, b"\x01all\0", PADDED | END_STREAM)],
    ],
)
def test_as_much_as_was_announced_may_come(said: list[bytes]) -> None:
    wire, heard = announcing(3)
    assert wire.say(*said) == []
    assert (heard.data, heard.has_all) == (b"all", True)


@pytest.mark.parametrize(
    ("said", "heard_of_it"),
    [
        ([data(1, b"al"), data(1, b"", END_STREAM)], b"al"),
        ([data(1, b"al", END_STREAM)], b""),
        ([data(1, b"al"), headers(1, TRAILERS, END_STREAM)], b"al"),
        ([data(1, b"al"), data(1, b"l more")], b"al"),
        ([data(1, b"all", 0), data(1, b"!", END_STREAM)], b"all"),
        ([data(1, b"\0long", PADDED)], b""),
    ],
)
def test_more_or_less_than_was_announced_ends_the_stream_alone(said: list[bytes], heard_of_it: bytes) -> None:
    wire, heard = announcing(3)
    other = wire.begin(3)
    assert wire.say(*said, data(3, b"a", END_STREAM)) == [reset(1, ErrorCode.PROTOCOL_ERROR)]
    assert (heard.data, heard.has_all, heard.ends) == (heard_of_it, False, 1)
    assert (other.data, other.has_all) == (b"a", True)


def test_a_stream_that_ends_as_it_begins_may_have_announced_nothing() -> None:
    for size, told in ((0, []), (1, [reset(1, ErrorCode.PROTOCOL_ERROR)])):

        def announce(heard: Heard, size: int = size) -> None:
            heard.stream.announced = size

        wire = Wire(announce).greet()
        assert wire.say(headers(1, flags=END_STREAM)) == told
        assert wire.heard[1].has_all is not told


def test_a_client_may_send_so_much_on_a_stream() -> None:
    wire = Wire().greet()
    heard = wire.begin(1)
    assert wire.say(data(1, bytes(STREAM_WINDOW))) == []
    assert heard.stream.credit == 0
    assert wire.say(data(1, b"a")) == [reset(1, ErrorCode.FLOW_CONTROL_ERROR)]
    assert (len(heard.data), heard.ends) == (STREAM_WINDOW, 1)


def test_padding_counts_as_data_does() -> None:
    wire = Wire().greet()
    heard = wire.begin(1)
    assert wire.say(data(1, b"\x04abc" + bytes(4), PADDED)) == []
    assert (heard.data, heard.stream.credit) == (b"abc", STREAM_WINDOW - 8)


def test_a_client_that_is_told_so_may_send_more() -> None:
    wire = Wire().greet()
    heard = wire.begin(1)
    wire.say(data(1, bytes(1000)))
    heard.stream.expect(STREAM_WINDOW + 1000)
    assert wire.told() == [allowed(1, 2000)]
    assert wire.say(data(1, bytes(STREAM_WINDOW)), data(1, bytes(1000))) == []
    assert wire.say(data(1, b"a")) == [reset(1, ErrorCode.FLOW_CONTROL_ERROR)]


def test_what_comes_on_all_streams_is_made_up_for_before_it_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_REPLENISH_BYTES", 1000)
    wire = Wire().greet()
    wire.begin(1)
    wire.begin(3)
    assert wire.say(data(1, bytes(500)), data(3, b"\x63" + bytes(498), PADDED)) == []
    assert wire.say(data(3, bytes(7))) == [allowed(0, 1006)]
    assert wire.say(rst_stream(3, ErrorCode.CANCEL), data(3, bytes(999))) == []
    assert wire.say(data(3, bytes(1))) == [allowed(0, 1000)]


def test_what_a_client_gives_up_ends() -> None:
    wire = Wire().greet()
    heard, other = wire.begin(1), wire.begin(3, END_STREAM)
    assert wire.say(rst_stream(1, ErrorCode.CANCEL), data(1, b"late"), frames.window_update(1, 5)) == []
    assert (heard.ends, heard.data, other.ends) == (1, b"", 0)
    assert wire.connection.streams.open == {3: other.stream}
    assert wire.say(rst_stream(1, ErrorCode.CANCEL)) == []


def test_a_stream_that_ends_in_the_middle_of_a_frame_takes_nothing_more() -> None:
    wire = Wire().greet()
    heard = wire.begin(1)
    frame = data(1, b"abcdef")
    wire.connection.receive(frame[:12])
    heard.answer()
    assert wire.told() == answered(1, b"answer")
    wire.connection.receive(frame[12:])
    assert heard.data == b"abc"


def test_an_early_answer_is_followed_by_word_that_no_more_is_heard_once_more_comes() -> None:
    wire = Wire(lambda heard: heard.answer()).greet()
    assert wire.say(headers(1)) == answered(1, b"answer")
    assert wire.say(data(1, b"more"), data(1, b"and more")) == [reset(1, ErrorCode.NO_ERROR)]
    assert wire.say(data(1, b"", END_STREAM)) == []


ENDS = [data(1, b"", END_STREAM), headers(1, TRAILERS, END_STREAM), rst_stream(1, ErrorCode.NO_ERROR)]
"""How a client says that it says nothing more."""


@pytest.mark.parametrize("end", ENDS)
def test_a_client_that_says_nothing_more_hears_its_early_answer_alone(end: bytes) -> None:
    wire = Wire(lambda heard: heard.answer()).greet()
    assert wire.say(headers(1)) == answered(1, b"answer")
    assert wire.say(end) == []


def test_a_client_that_waits_to_say_more_is_told_at_once_that_it_is_not_heard() -> None:
    wire = Wire().greet()
    heard = wire.begin(1)
    assert wire.say(data(1, bytes(STREAM_WINDOW))) == []
    heard.answer()
    assert wire.told() == [*answered(1, b"answer"), reset(1, ErrorCode.NO_ERROR)]


def test_only_so_many_early_answers_wait_for_what_the_client_says_still() -> None:
    wire = Wire(lambda heard: heard.answer(b"")).greet()
    told = [frame for number in range(1, 2002, 2) for frame in wire.say(headers(number))]
    assert [frame for frame in told if frame.kind == frames.RST_STREAM] == [reset(1, ErrorCode.NO_ERROR)]


@pytest.mark.parametrize("end", ENDS)
def test_an_early_answer_whose_client_has_ended_does_not_wait_with_them(
    monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    monkeypatch.setattr(streams, "_MOST_UNHEARD", 2)
    wire = Wire(lambda heard: heard.answer()).greet()
    told = wire.say(headers(1), end, headers(3), headers(5), headers(7))
    assert [frame for frame in told if frame.kind == frames.RST_STREAM] == [reset(3, ErrorCode.NO_ERROR)]


def test_what_is_answered_in_parts_ends_as_early() -> None:
    wire = Wire().greet()
    heard = wire.begin(1)
    heard.stream.start(STATUS)
    heard.stream.write((b"a",), 1)
    heard.stream.finish(TRAILERS)
    assert wire.told() == [
        Frame(frames.HEADERS, frames.END_HEADERS, 1, STATUS),
        Frame(frames.DATA, 0, 1, b"a"),
        ended(1),
    ]
    assert wire.say(data(1, b"b")) == [reset(1, ErrorCode.NO_ERROR)]


def test_a_stream_may_end_as_it_begins() -> None:
    wire = Wire(lambda heard: heard.stream.finish(TRAILERS)).greet()
    assert wire.say(headers(1, flags=END_STREAM)) == [ended(1)]
    assert wire.connection.streams.open == {}


def test_a_client_has_only_so_many_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_STREAMS", 2)
    wire = Wire().greet()
    first, _ = wire.begin(1), wire.begin(3)
    assert wire.say(headers(5)) == [reset(5, ErrorCode.REFUSED_STREAM)]
    assert wire.say(data(5, b"a"), frames.window_update(5, 1), rst_stream(5, ErrorCode.CANCEL)) == []
    first.answer()
    wire.told()
    wire.begin(7)
    assert wire.connection.streams.open.keys() == {3, 7}


def test_a_connection_that_is_lost_ends_what_runs() -> None:
    wire = Wire().greet()
    heard: list[Heard] = [wire.begin(1), wire.begin(3, END_STREAM)]
    wire.connection.lose()
    assert [each.ends for each in heard] == [1, 1]
    assert wire.connection.streams.open == {}
    wire.connection.lose()
    assert [each.ends for each in heard] == [1, 1]
    assert wire.told() == []
