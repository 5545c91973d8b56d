"""How much the client takes, on each stream and on all together, and how its word changes that."""

from __future__ import annotations

import pytest
from tests.transport.http2.wire import STATUS, Frame, Heard, Wire, answered, data_in, ended, headers, reset, sizes

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.frames import END_STREAM, ErrorCode, window_update
from inferwire_server.transport.http2.peer_settings import MOST_SENT_FRAME_BYTES

FRAME = frames.SMALLEST_MAX_FRAME
DEFAULT = frames.DEFAULT_WINDOW


def waiting(wire: Wire, number: int, size: int) -> Heard:
    """Begin a stream and answer it with so many bytes, of which none can go out."""
    heard = wire.begin(number, END_STREAM)
    heard.answer(bytes(size))
    assert wire.told() == [Frame(frames.HEADERS, frames.END_HEADERS, number, STATUS)]
    return heard


def test_a_stream_begins_with_the_room_that_the_client_said() -> None:
    wire = Wire().greet(initial_window_size=6)
    wire.begin(1, END_STREAM).answer(b"answer")
    assert wire.told() == answered(1, b"answer")
    wire.begin(3, END_STREAM).answer(b"answers")
    assert data_in(wire.told(), 3) == b"answer"
    assert wire.say(window_update(3, 1)) == [Frame(frames.DATA, 0, 3, b"s"), ended(3)]


def test_room_on_a_stream_is_no_room_on_another() -> None:
    wire = Wire().greet(initial_window_size=0)
    for number in (1, 3):
        waiting(wire, number, 2)
    assert sizes(wire.say(window_update(3, 1))) == [(3, 1)]
    assert sizes(wire.say(window_update(1, 5))) == [(1, 2)]
    assert sizes(wire.say(window_update(3, 5))) == [(3, 1)]


def test_room_that_comes_before_it_is_needed_is_kept() -> None:
    wire = Wire().greet(initial_window_size=0)
    heard = wire.begin(1, END_STREAM)
    assert wire.say(window_update(1, 6)) == []
    heard.answer()
    assert wire.told() == answered(1, b"answer")


def test_all_streams_together_have_only_so_much_room() -> None:
    wire = Wire().greet(initial_window_size=10 * DEFAULT)
    first = wire.begin(1, END_STREAM)
    first.answer(bytes(DEFAULT + 1))
    assert sum(size for _, size in sizes(wire.told())) == DEFAULT
    waiting(wire, 3, 5)
    assert sizes(wire.say(window_update(3, 100))) == []
    assert sizes(wire.say(window_update(0, 4))) == [(1, 1), (3, 3)]
    assert sizes(wire.say(window_update(0, 4))) == [(3, 2)]


def test_those_that_wait_for_all_share_what_comes() -> None:
    wire = Wire().greet(initial_window_size=10 * DEFAULT)
    wire.begin(99, END_STREAM).answer(bytes(DEFAULT))
    wire.told()
    for number in (101, 103, 105):
        waiting(wire, number, 2 * FRAME)
    told = sizes(wire.say(window_update(0, 6 * FRAME)))
    assert told == [(number, FRAME) for number in (101, 103, 105)] * 2


def test_those_that_wait_for_all_take_turns_when_little_comes_at_a_time() -> None:
    wire = Wire().greet(initial_window_size=10 * DEFAULT)
    wire.begin(99, END_STREAM).answer(bytes(DEFAULT))
    wire.told()
    for number in (101, 103):
        waiting(wire, number, 3 * FRAME)
    told = [size for _ in range(4) for size in sizes(wire.say(window_update(0, FRAME)))]
    assert told == [(number, FRAME) for number in (101, 103)] * 2


def test_a_client_that_takes_less_is_owed_what_it_has_got() -> None:
    wire = Wire().greet(initial_window_size=100)
    heard = wire.begin(1, END_STREAM)
    heard.stream.start(STATUS)
    heard.stream.write((bytes(100),), 100)
    assert heard.rooms == 1
    wire.told()
    wire.set(initial_window_size=40)
    assert heard.stream.window == -60
    heard.stream.write((bytes(10),), 10)
    assert wire.say(window_update(1, 60)) == []
    assert sizes(wire.say(window_update(1, 4))) == [(1, 4)]
    assert sizes(wire.set(initial_window_size=50)) == [(1, 6)]


def test_a_negative_window_holds_a_whole_answer_back() -> None:
    wire = Wire().greet(initial_window_size=10)
    heard = wire.begin(1, END_STREAM)
    wire.set(initial_window_size=0)
    heard.stream.window = -5
    heard.answer(b"")
    assert wire.told() == [Frame(frames.HEADERS, frames.END_HEADERS, 1, STATUS), ended(1)]


@pytest.mark.parametrize("size", [0, 5])
def test_who_has_no_room_after_a_client_s_word_does_not_wait_for_a_turn(size: int) -> None:
    wire = Wire().greet(initial_window_size=10)
    heard = wire.begin(1, END_STREAM)
    heard.stream.start(STATUS)
    heard.stream.write((bytes(20),), 20)
    wire.told()
    wire.connection.pause()
    wire.set(initial_window_size=size)
    assert wire.outflow.startswith("<Outflow: paused, 0 streams wait,")
    wire.set(initial_window_size=15)
    assert wire.outflow.startswith("<Outflow: paused, 1 streams wait,")


def test_a_client_that_takes_more_is_sent_more() -> None:
    wire = Wire().greet(initial_window_size=0)
    for number in (1, 3):
        waiting(wire, number, 8)
    assert sizes(wire.set(initial_window_size=8)) == [(1, 8), (3, 8)]
    wire.begin(5, END_STREAM).answer(bytes(8))
    assert wire.told() == answered(5, bytes(8))


def test_the_room_of_all_streams_does_not_come_with_settings() -> None:
    wire = Wire().greet(initial_window_size=DEFAULT)
    wire.begin(1, END_STREAM).answer(bytes(DEFAULT + 1))
    wire.told()
    assert wire.set(initial_window_size=2 * DEFAULT) == []


def test_settings_that_make_a_window_too_large_end_the_connection() -> None:
    wire = Wire().greet(initial_window_size=0)
    wire.begin(1)
    assert wire.say(window_update(1, 2**31 - 1)) == []
    assert wire.fails(frames.settings({frames.INITIAL_WINDOW_SIZE: 1})) is ErrorCode.FLOW_CONTROL_ERROR


def test_a_window_that_grows_too_large_while_its_stream_waits_gives_that_up() -> None:
    wire = Wire().greet(initial_window_size=10 * DEFAULT)
    heard = wire.begin(1, END_STREAM)
    heard.answer(bytes(2 * DEFAULT))
    wire.told()
    assert wire.say(window_update(1, 2**31 - 1)) == [reset(1, ErrorCode.FLOW_CONTROL_ERROR)]
    assert (heard.ends, heard.stream.unsent) == (1, 0)
    assert wire.say(window_update(0, 100)) == []


def test_a_bit_of_a_window_means_nothing() -> None:
    wire = Wire().greet(initial_window_size=0)
    waiting(wire, 1, 2)
    assert sizes(wire.say(window_update(1, 1 | 1 << 31))) == [(1, 1)]


def test_frames_are_as_long_as_the_client_said() -> None:
    wire = Wire().greet(initial_window_size=DEFAULT, max_frame_size=20_000)
    wire.begin(1, END_STREAM).answer(bytes(20_001))
    assert sizes(wire.told()) == [(1, 20_000), (1, 1)]


def test_a_paused_connection_sends_no_data_whatever_room_comes() -> None:
    wire = Wire().greet(initial_window_size=0)
    waiting(wire, 1, 6)
    wire.connection.pause()
    assert wire.say(window_update(1, 100)) == []
    wire.connection.resume()
    assert sizes(wire.told()) == [(1, 6)]


@pytest.mark.parametrize(("size", "begins"), [(0, b"\x20"), (4095, b"\x20"), (4096, b""), (1 << 20, b"")])
def test_a_client_that_remembers_less_is_told_so_by_the_next_headers(size: int, begins: bytes) -> None:
    wire = Wire(lambda heard: heard.answer()).greet()
    wire.set(header_table_size=size)
    first, *rest = wire.say(headers(1, flags=END_STREAM))
    assert first.content == begins + STATUS
    assert rest == answered(1, b"answer")[1:]
    assert wire.say(headers(3, flags=END_STREAM)) == answered(3, b"answer")


def test_trailers_can_be_the_next_headers() -> None:
    wire = Wire().greet(initial_window_size=0)
    waiting(wire, 1, 1)
    wire.set(header_table_size=0)
    assert wire.say(window_update(1, 1))[-1].content == b"\x20" + ended(1).content


def test_no_frame_is_so_long_that_others_wait_for_its_end() -> None:
    """However much the client takes: the answer to its ping would come too late over a slow network."""
    wire_size = 3 * MOST_SENT_FRAME_BYTES
    wire = Wire().greet(initial_window_size=wire_size, max_frame_size=frames.LARGEST_MAX_FRAME)
    wire.say(window_update(0, wire_size))
    wire.begin(1, END_STREAM).answer(bytes(wire_size))
    assert sizes(wire.told()) == [(1, MOST_SENT_FRAME_BYTES)] * 3
