"""How much of what has come on a connection is taken at once, and what waits."""

from __future__ import annotations

import pytest
from tests.transport.http2.wire import Wire, data, headers

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.frames import END_STREAM, PADDED, ErrorCode, frame
from inferwire_server.transport.http2.header_blocks import write_block

AT_ONCE = 16
"""How many requests may begin or end in what is taken at once."""

MOST_FRAMES = 512
"""How many frames may be in it that are small."""

PING = frame(frames.PING, content=bytes(8))


def numbers(count: int) -> range:
    """Number so many streams."""
    return range(1, 2 * count, 2)


def has_all(wire: Wire) -> list[int]:
    """Say which streams have all that the peer said on them."""
    return [number for number, heard in wire.heard.items() if heard.has_all]


@pytest.mark.parametrize("padding", [0, PADDED])
def test_of_many_requests_a_few_are_taken_at_once_and_the_others_in_turn(padding: int) -> None:
    wire = Wire().greet()
    body = b"\0body" if padding else b"body"
    wire.say(*[headers(number) + data(number, body, END_STREAM | padding) for number in numbers(20)])
    for taken in (8, 16, 20):
        assert list(wire.heard) == has_all(wire) == list(numbers(taken))
        assert wire.connection.has_more is (taken < 20)
        wire.say()
    assert {heard.data for heard in wire.heard.values()} == {b"body"}


def test_requests_without_bodies_take_a_step_each() -> None:
    wire = Wire().greet()
    wire.say(*[headers(number, flags=END_STREAM) for number in numbers(AT_ONCE + 1)])
    assert list(wire.heard) == list(numbers(AT_ONCE))
    wire.say()
    assert list(wire.heard) == list(numbers(AT_ONCE + 1))


def test_requests_that_end_together_are_taken_a_few_at_once() -> None:
    wire = Wire().greet()
    for number in numbers(AT_ONCE + 1):
        wire.begin(number)
    wire.say(*[data(number, b"", END_STREAM) for number in numbers(AT_ONCE + 1)])
    assert has_all(wire) == list(numbers(AT_ONCE))
    wire.say()
    assert has_all(wire) == list(numbers(AT_ONCE + 1))


def test_nothing_waits_behind_as_much_as_is_taken_at_once() -> None:
    wire = Wire().greet()
    wire.say(*[headers(number, flags=END_STREAM) for number in numbers(AT_ONCE)])
    assert not wire.connection.has_more


def test_a_long_body_is_taken_as_it_comes() -> None:
    wire = Wire().greet()
    wire.say(headers(1), *[data(1, bytes(4096))] * 250, data(1, b"", END_STREAM))
    assert len(wire.heard[1].data) == 1_024_000
    assert wire.heard[1].has_all
    assert not wire.connection.has_more


@pytest.mark.parametrize(
    "small",
    [
        data(1, b"a"),
        data(1, b"\0a", PADDED),
        data(3, b"a"),
        frames.window_update(0, 1),
        frames.window_update(1, 1),
        frames.window_update(3, 1),
    ],
)
def test_of_many_small_frames_a_few_are_taken_at_once_and_the_others_in_turn(small: bytes) -> None:
    wire = Wire().greet()
    wire.begin(1)
    wire.begin(3, END_STREAM).answer()
    wire.say(small * MOST_FRAMES, headers(5))
    assert wire.connection.has_more
    assert 5 not in wire.heard
    wire.say()
    assert not wire.connection.has_more
    assert 5 in wire.heard


def test_long_headers_are_taken_one_at_a_time() -> None:
    wire = Wire().greet()
    long = write_block([(b"a", bytes(16_000))])
    wire.say(*[headers(number, long, END_STREAM) for number in numbers(3)])
    for taken in (1, 2, 3):
        assert list(wire.heard) == list(numbers(taken))
        wire.say()


def test_long_headers_count_wherever_they_go_on() -> None:
    wire = Wire().greet()
    long = write_block([(b"a", bytes(16_000))])
    wire.say(frame(frames.HEADERS, 0, 1), frame(frames.CONTINUATION, frames.END_HEADERS, 1, long), headers(3))
    assert list(wire.heard) == [1]
    wire.say()
    assert list(wire.heard) == [1, 3]


def test_what_comes_while_more_waits_is_taken_behind_it() -> None:
    wire = Wire().greet()
    begun = [headers(number) for number in numbers(AT_ONCE)]
    wire.say(*begun, data(1, b"first"), headers(99)[:12])
    assert wire.connection.has_more
    wire.say(headers(99)[12:], PING, data(1, b", second"))
    assert list(wire.heard) == [*numbers(AT_ONCE), 99]
    assert wire.heard[1].data == b"first, second"
    assert not wire.connection.has_more


def test_a_frame_of_which_a_part_has_come_is_not_waited_for_as_more() -> None:
    wire = Wire().greet()
    wire.say(*[headers(number) for number in numbers(AT_ONCE)], headers(99)[:12])
    wire.say()
    assert not wire.connection.has_more
    wire.say(headers(99)[12:])
    assert 99 in wire.heard


def test_what_breaks_the_protocol_is_found_when_it_is_taken() -> None:
    wire = Wire().greet()
    wire.say(*[headers(number) for number in numbers(AT_ONCE)], headers(2))
    assert wire.fails() is ErrorCode.PROTOCOL_ERROR
    assert not wire.connection.has_more
