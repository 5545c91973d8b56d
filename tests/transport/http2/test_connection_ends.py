"""How a connection ends: told to go elsewhere, left once all that has begun is over, or because of a mistake."""

from __future__ import annotations

from tests.transport.http2.test_connection_windows import waiting
from tests.transport.http2.wire import Wire, answered, data, ended, goes, headers

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.frames import END_STREAM, ConnectionFailed, ErrorCode, frame, rst_stream


def parted(wire: Wire) -> bytes:
    """Have the client told to go elsewhere, and give how it says that it has heard."""
    wire.connection.part()
    going, asked = wire.told()
    assert going == goes(2**31 - 1)
    assert (asked.kind, asked.flags) == (frames.PING, 0)
    return frame(frames.PING, frames.ACK, content=asked.content)


def test_until_the_client_has_heard_it_may_begin() -> None:
    wire = Wire().greet()
    heard_it = parted(wire)
    heard = wire.begin(1, END_STREAM)
    assert not wire.connection.is_done
    assert wire.say(heard_it) == [goes(1)]
    assert (wire.connection.is_done, wire.times_done) == (False, 0)
    heard.answer()
    assert wire.told() == answered(1, b"answer")
    assert (wire.connection.is_done, wire.times_done) == (True, 1)


def test_a_client_that_has_begun_nothing_is_left_as_soon_as_it_has_heard() -> None:
    wire = Wire().greet()
    assert wire.say(parted(wire)) == [goes(0)]
    assert wire.times_done == 1


def test_a_client_that_does_not_say_that_it_has_heard_is_left_all_the_same() -> None:
    wire = Wire().greet()
    heard_it = parted(wire)
    wire.connection.leave()
    assert wire.told() == [goes(0)]
    assert wire.times_done == 1
    wire.connection.leave()
    assert wire.say(heard_it) == []
    assert wire.times_done >= 1


def test_what_begins_after_that_is_not_looked_at() -> None:
    wire = Wire().greet()
    heard = wire.begin(1)
    wire.connection.leave()
    assert wire.told() == [goes(1)]
    assert wire.say(headers(3), data(3, b"a"), data(3, b"", END_STREAM), data(1, b"a")) == []
    assert wire.heard.keys() == {1}
    assert heard.data == b"a"


def test_what_later_headers_add_to_what_is_remembered_counts() -> None:
    wire = Wire().greet()
    wire.begin(1)
    wire.connection.leave()
    wire.told()
    assert wire.say(headers(3, b"\x40\x0bgrpc-status\x010"), headers(1, b"\xbe", END_STREAM)) == []
    assert wire.heard[1].has_all


def test_it_is_done_when_the_client_gives_the_last_stream_up() -> None:
    wire = Wire().greet()
    heard = [wire.begin(1), wire.begin(3)]
    wire.connection.leave()
    wire.say(rst_stream(1, ErrorCode.CANCEL))
    assert wire.times_done == 0
    wire.say(rst_stream(3, ErrorCode.CANCEL))
    assert wire.times_done >= 1
    assert [each.ends for each in heard] == [1, 1]


def test_it_is_done_only_once_the_last_answer_is_written() -> None:
    wire = Wire().greet(initial_window_size=0)
    waiting(wire, 1, 6)
    wire.connection.leave()
    assert wire.told() == [goes(1)]
    assert wire.say(frames.window_update(1, 6))[-1] == ended(1)
    assert wire.times_done >= 1


def test_it_is_not_done_before_it_leaves() -> None:
    wire = Wire().greet()
    wire.begin(1, END_STREAM).answer()
    assert wire.told() == answered(1, b"answer")
    wire.begin(3)
    wire.say(rst_stream(3, ErrorCode.CANCEL))
    assert (wire.connection.is_done, wire.times_done) == (False, 0)


def test_another_ping_is_not_taken_for_word_that_it_was_heard() -> None:
    wire = Wire().greet()
    parted(wire)
    assert wire.say(frame(frames.PING, frames.ACK, content=bytes(8))) == []
    assert wire.times_done == 0


def test_a_client_that_breaks_the_protocol_is_told_why() -> None:
    wire = Wire().greet()
    wire.begin(5)
    wire.connection.fail(ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "it did"))
    assert wire.told() == [goes(5, ErrorCode.PROTOCOL_ERROR, b"it did")]


def test_the_calls_of_a_client_that_breaks_the_protocol_end_and_nothing_waits_for_it() -> None:
    wire = Wire().greet()
    heard = wire.begin(1)
    heard.answer(bytes(100_000))
    wire.connection.fail(ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "it did"))
    assert (heard.ends, wire.connection.outflow.unsent) == (1, 0)


def test_the_last_stream_that_is_looked_at_does_not_grow_again() -> None:
    wire = Wire().greet()
    wire.begin(1)
    wire.connection.leave()
    assert wire.say(headers(3)) == [goes(1)]
    wire.connection.fail(ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "it did"))
    assert wire.told() == [goes(1, ErrorCode.PROTOCOL_ERROR, b"it did")]


def test_who_has_not_greeted_is_left_without_a_word() -> None:
    wire = Wire()
    wire.connection.leave()
    assert wire.told() == []
    assert wire.times_done == 1


def test_who_has_not_greeted_is_not_told_to_go_elsewhere_and_who_has_is_told_once() -> None:
    wire = Wire()
    wire.connection.part()
    assert wire.told() == []
    wire.greet()
    parted(wire)
    wire.connection.part()
    assert wire.told() == []
