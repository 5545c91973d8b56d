"""What goes out on a connection: at once where there is room, in turns where not, and not while it is paused."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.transport.http2.wire import (
    STATUS,
    TRAILERS,
    Frame,
    Heard,
    Wire,
    allowed,
    answered,
    data,
    data_in,
    ended,
    frames_in,
    reset,
    sizes,
)

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.frames import END_STREAM, ErrorCode
from inferwire_server.transport.http2.outflow import Outflow, Piece
from inferwire_server.transport.http2.stream import STREAM_WINDOW, Stream

FRAME = frames.SMALLEST_MAX_FRAME
HEADERS = Frame(frames.HEADERS, frames.END_HEADERS, 1, STATUS)


class Way:
    """A way out, and what has gone out on it, write by write."""

    def __init__(self, pauses_after: int = 1 << 62) -> None:
        self.writes: list[list[Frame]] = []
        self.over: list[int] = []
        self._pauses_after = pauses_after
        self.out = Outflow(self._write)

    def stream(self, number: int = 1) -> tuple[Stream, Heard]:
        """Make a stream on which the peer has said all."""
        stream = Stream(number, self.out, lambda over: self.over.append(over.id))
        stream.has_peer_ended = True
        stream.receiver = heard = Heard(stream, ())
        return stream, heard

    def let_in(self, size: int) -> None:
        """Have the peer take so many bytes more."""
        self.out.allow(size)
        self.out.flush()

    def told(self) -> list[Frame]:
        """Give what has gone out since it was asked last."""
        told, self.writes = [frame for write in self.writes for frame in write], []
        return told

    def _write(self, pieces: Sequence[Piece]) -> None:
        self.writes.append(frames_in(b"".join(pieces)))
        self.out.is_paused |= len(self.writes) >= self._pauses_after


def test_an_answer_for_which_there_is_room_is_one_write() -> None:
    way = Way()
    stream, heard = way.stream()
    stream.answer(STATUS, (b"ans", memoryview(b"wer")), 6, TRAILERS)
    assert way.writes == [answered(1, b"answer")]
    assert (way.over, stream.is_over, heard.rooms) == ([1], True, 0)


def test_what_is_gathered_goes_out_together_and_nothing_if_that_is_nothing() -> None:
    way = Way()
    way.out.gather()
    for number in (1, 3):
        way.stream(number)[0].answer(STATUS, (b"a",), 1, TRAILERS)
    assert way.writes == []
    way.out.write_gathered()
    assert way.writes == [answered(1, b"a") + answered(3, b"a")]
    way.out.gather()
    way.out.write_gathered()
    assert len(way.writes) == 1


def test_an_answer_that_is_longer_than_a_frame_is_cut() -> None:
    way = Way()
    content = bytes(range(256)) * 150
    way.stream()[0].answer(STATUS, (content[:100], content[100:]), len(content), TRAILERS)
    told = way.told()
    assert sizes(told) == [(1, FRAME), (1, FRAME), (1, len(content) - 2 * FRAME)]
    assert data_in(told, 1) == content
    assert (told[0], told[-1]) == (HEADERS, ended(1))


def test_frames_are_as_long_as_the_peer_takes_them() -> None:
    way = Way()
    way.out.most_frame_bytes = 3 * FRAME
    way.stream()[0].answer(STATUS, (bytes(3 * FRAME),), 3 * FRAME, TRAILERS)
    assert sizes(way.told()) == [(1, 3 * FRAME)]


def test_the_rest_of_an_answer_waits_for_room() -> None:
    way = Way()
    way.out.window = 10
    stream, heard = way.stream()
    stream.answer(STATUS, (bytes(25),), 25, TRAILERS)
    assert way.told() == [HEADERS, Frame(frames.DATA, 0, 1, bytes(10))]
    assert repr(stream) == "<Stream 1: open, 15 bytes wait>"
    assert repr(way.out) == "<Outflow: open, 1 streams wait, 0 bytes of window>"
    way.let_in(14)
    assert sizes(way.told()) == [(1, 14)]
    way.let_in(100)
    assert way.told() == [Frame(frames.DATA, 0, 1, bytes(1)), ended(1)]
    assert repr(stream) == "<Stream 1: over, 0 bytes wait>"
    assert repr(way.out) == "<Outflow: open, 0 streams wait, 99 bytes of window>"
    assert heard.rooms == 0


def test_an_answer_without_data_needs_no_room() -> None:
    way = Way()
    way.out.window = -5
    way.stream()[0].answer(STATUS, (), 0, TRAILERS)
    assert way.told() == [HEADERS, ended(1)]
    assert way.over == [1]


def test_who_writes_hears_when_all_is_out() -> None:
    way = Way()
    stream, heard = way.stream()
    stream.start(STATUS)
    stream.write((b"one", b""), 3)
    assert heard.rooms == 1
    way.out.window = 2
    stream.write((b"two",), 3)
    assert (heard.rooms, stream.unsent) == (1, 1)
    way.let_in(10)
    assert (heard.rooms, stream.unsent) == (2, 0)
    stream.finish(TRAILERS)
    assert data_in(told := way.told(), 1) == b"onetwo"
    assert told[-1] == ended(1)


def test_a_stream_that_wrote_nothing_is_asked_for_nothing() -> None:
    way = Way()
    stream, _ = way.stream()
    assert not stream.send_some()
    stream.finish(TRAILERS)
    assert way.told() == [ended(1)]


def test_while_it_is_paused_only_headers_go_out() -> None:
    way = Way()
    way.out.is_paused = True
    for number in (1, 3):
        way.stream(number)[0].answer(STATUS, (b"a",), 1, TRAILERS)
    assert [frame.kind for frame in way.told()] == [frames.HEADERS] * 2
    assert repr(way.out) == "<Outflow: paused, 2 streams wait, 65535 bytes of window>"
    way.out.is_paused = False
    way.out.flush()
    assert way.told() == [
        Frame(frames.DATA, 0, 1, b"a"),
        ended(1),
        Frame(frames.DATA, 0, 3, b"a"),
        ended(3),
    ]


def test_it_stops_as_soon_as_it_is_paused() -> None:
    way = Way(pauses_after=3)
    stream, _ = way.stream()
    stream.answer(STATUS, (bytes(3 * FRAME),), 3 * FRAME, TRAILERS)
    assert sizes(way.told()) == [(1, FRAME)] * 2
    assert stream.unsent == FRAME


def test_those_that_wait_send_a_frame_each_in_turn() -> None:
    way = Way()
    way.out.window = 0
    streams = [way.stream(number)[0] for number in (1, 3, 5)]
    for stream, size in zip(streams, (3, 1, 2), strict=True):
        stream.answer(STATUS, (bytes(size * FRAME),), size * FRAME, TRAILERS)
    way.told()
    way.let_in(10 * FRAME)
    assert [number for number, _ in sizes(way.told())] == [1, 3, 5, 1, 5, 1]
    assert way.over == [3, 5, 1]


def test_a_stream_that_is_given_up_sends_nothing_more_and_its_receiver_hears_of_it() -> None:
    way = Way()
    way.out.window = 1
    stream, heard = way.stream()
    stream.answer(STATUS, (b"ab",), 2, TRAILERS)
    stream.reset(ErrorCode.CANCEL)
    assert way.told()[-1] == reset(1, ErrorCode.CANCEL)
    way.let_in(100)
    assert way.told() == []
    assert (way.over, stream.is_over, stream.unsent, heard.ends) == ([1], True, 0, 1)


def test_a_stream_that_is_abandoned_ends_without_what_waits() -> None:
    way = Way()
    way.out.window = 1
    stream, heard = way.stream()
    stream.answer(STATUS, (b"ab",), 2, TRAILERS)
    way.told()
    stream.abandon(b"\x88")
    assert way.told() == [Frame(frames.HEADERS, frames.END_HEADERS | END_STREAM, 1, b"\x88")]
    way.let_in(100)
    assert way.told() == []
    assert (way.over, stream.is_over, stream.unsent, heard.ends) == ([1], True, 0, 0)


def test_a_stream_that_is_refused_had_no_receiver() -> None:
    way = Way()
    stream = Stream(1, way.out, lambda stream: way.over.append(stream.id))
    stream.refuse()
    assert way.told() == [reset(1, ErrorCode.REFUSED_STREAM)]
    assert (way.over, stream.is_over) == ([1], True)


def test_a_stream_that_the_peer_gives_up_sends_nothing_more() -> None:
    way = Way()
    way.out.window = 1
    stream, heard = way.stream()
    stream.answer(STATUS, (b"ab",), 2, TRAILERS)
    way.told()
    stream.end()
    # A peer that never takes more may give up any number of them.
    assert repr(way.out) == "<Outflow: open, 0 streams wait, 0 bytes of window>"
    way.let_in(100)
    assert way.told() == []
    assert (way.over, stream.is_over, heard.ends) == ([], True, 1)


def test_a_peer_is_told_that_it_may_send_only_what_it_may_not_yet() -> None:
    way = Way()
    stream, _ = way.stream()
    stream.has_peer_ended = False
    stream.expect(STREAM_WINDOW)
    assert way.told() == []
    stream.expect(STREAM_WINDOW + 5)
    assert way.told() == [allowed(1, 5)]
    stream.expect(1 << 40)
    assert way.told() == [allowed(1, frames.LARGEST_WINDOW - STREAM_WINDOW - 5)]
    assert stream.credit == frames.LARGEST_WINDOW


def test_a_peer_that_has_said_all_is_not_told_to_go_on() -> None:
    way = Way()
    way.stream()[0].expect(2 * STREAM_WINDOW)
    assert way.told() == []


def test_a_peer_that_has_given_a_stream_up_is_not_told_to_go_on() -> None:
    way = Way()
    stream, _ = way.stream()
    stream.has_peer_ended = False
    stream.end()
    stream.expect(2 * STREAM_WINDOW)
    assert way.told() == []


def test_a_peer_that_remembers_less_is_told_once_that_nothing_is_to_be_remembered() -> None:
    way = Way()
    way.out.owes_size_update = True
    for number in (1, 3):
        way.stream(number)[0].answer(STATUS, (b"a",), 1, TRAILERS)
    first, *rest = way.told()
    assert first == Frame(frames.HEADERS, frames.END_HEADERS, 1, b"\x20" + STATUS)
    assert rest == answered(1, b"a")[1:] + answered(3, b"a")


@given(
    st.lists(st.tuples(st.sampled_from([1, 3, 5]), st.binary(max_size=40)), max_size=20),
    st.lists(st.tuples(st.sampled_from([0, 0, 1, 3, 5]), st.integers(1, 60)), max_size=40),
    st.integers(0, 50),
)
def test_nobody_sends_more_than_the_peer_takes_and_all_of_it_in_order(
    writes: list[tuple[int, bytes]], updates: list[tuple[int, int]], window: int
) -> None:
    wire = Wire().greet(initial_window_size=window)
    room: dict[int, int] = {0: frames.DEFAULT_WINDOW, 1: window, 3: window, 5: window}
    expected: dict[int, bytes] = dict.fromkeys((1, 3, 5), b"")
    sent: dict[int, bytes] = dict.fromkeys((1, 3, 5), b"")
    for number in expected:
        wire.begin(number, END_STREAM)

    def check(told: Sequence[Frame]) -> None:
        for number in sent:
            more = data_in(told, number)
            sent[number] += more
            room[number] -= len(more)
            room[0] -= len(more)
            assert room[number] >= 0
            assert sent[number] == expected[number][: len(sent[number])]

    for number, content in writes:
        expected[number] += content
        wire.heard[number].stream.write((content[:3], memoryview(content)[3:]), len(content))
        check(wire.told())
    for number, size in updates:
        room[number] += size
        check(wire.say(frames.window_update(number, size)))
        assert all(room[each] == 0 or sent[each] == expected[each] for each in sent)


def test_data_that_comes_is_no_concern_of_what_waits() -> None:
    wire = Wire().greet(initial_window_size=0)
    heard = wire.begin(1)
    heard.answer()
    assert len(wire.told()) == 1
    assert wire.say(data(1, b"more")) == []
    assert (heard.data, heard.stream.unsent) == (b"more", 6)
