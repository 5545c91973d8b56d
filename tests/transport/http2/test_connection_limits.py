"""What a client may make a connection do without calling anything: so much, and then it is sent away."""

from __future__ import annotations

from typing import Any

import pytest
from tests.transport.http2.wire import REQUEST, STATUS, Frame, Heard, Wire, answered, data, headers

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.frames import END_STREAM, PADDED, ErrorCode, frame
from inferwire_server.transport.http2.stream import Stream

MOST = 1000
"""How many frames may come in a row that bring no call further."""

PING = frame(frames.PING, content=bytes(8))
KINDS = {
    "pings": PING,
    "answers to pings": frame(frames.PING, frames.ACK, content=bytes(8)),
    "acknowledged settings": frame(frames.SETTINGS, frames.ACK),
    "priorities": frame(frames.PRIORITY, 0, 1, bytes(5)),
    "resets of what is over": frames.rst_stream(3, ErrorCode.CANCEL),
    "data without data": data(1),
    "data that is all padding": data(1, b"\x02\0\0", PADDED),
    "data without data on a stream that is over": data(3),
    "unknown frames": frame(99, content=b"a"),
    "word that the client goes": frame(frames.GOAWAY, content=bytes(8)),
}


def running() -> tuple[Wire, Heard]:
    """Make a connection on which stream 1 runs, and stream 3 is over."""
    wire = Wire().greet()
    wire.begin(1)
    wire.begin(3, END_STREAM).answer()
    wire.told()
    return wire, wire.heard[1]


@pytest.mark.parametrize("kind", KINDS)
def test_only_so_many_frames_come_in_a_row_that_bring_no_call_further(kind: str) -> None:
    wire, _ = running()
    wire.say_all(KINDS[kind] * MOST)
    assert wire.fails(KINDS[kind]) is ErrorCode.ENHANCE_YOUR_CALM


def test_frames_of_all_kinds_count_together() -> None:
    wire, _ = running()
    wire.say_all(*list(KINDS.values()) * (MOST // len(KINDS)))
    assert wire.fails(PING * len(KINDS)) is ErrorCode.ENHANCE_YOUR_CALM


@pytest.mark.parametrize("said", [data(1, b"a"), data(1, b"\0a", PADDED), headers(5)])
def test_what_brings_a_call_further_lets_them_begin_again(said: bytes) -> None:
    wire, _ = running()
    wire.say_all(PING * MOST, said)
    wire.say_all(PING * MOST)
    assert wire.fails(PING) is ErrorCode.ENHANCE_YOUR_CALM


def test_data_on_a_stream_that_is_over_is_not_counted_since_much_may_be_on_its_way() -> None:
    wire, _ = running()
    assert wire.say_all(data(3, b"a") * (2 * MOST)) == []


def test_data_that_goes_out_lets_them_begin_again() -> None:
    wire, heard = running()
    heard.stream.start(STATUS)
    for _ in range(3):
        wire.say_all(PING * MOST)
        heard.stream.write((b"a",), 1)
    heard.answer()
    wire.say_all(PING * MOST)
    assert wire.fails(PING) is ErrorCode.ENHANCE_YOUR_CALM


def test_time_lets_them_begin_again() -> None:
    wire, _ = running()
    for _ in range(3):
        wire.say_all(PING * MOST)
        wire.connection.look(0, 0, 60)
    wire.say_all(PING * MOST)
    assert wire.fails(PING) is ErrorCode.ENHANCE_YOUR_CALM


@pytest.mark.parametrize("number", [0, 1, 3])
def test_room_may_come_as_often_as_a_client_likes(number: int) -> None:
    wire, heard = running()
    assert wire.say_all(frames.window_update(number, 1) * (3 * MOST)) == []
    heard.answer()
    assert wire.told() == answered(1, b"answer")


def test_a_long_answer_may_be_taken_in_small_parts() -> None:
    wire = Wire().greet(initial_window_size=0)
    wire.begin(1, END_STREAM).answer(bytes(3 * MOST))
    told = wire.say_all(frames.window_update(1, 1) * (2 * MOST))
    assert told[1:] == [Frame(frames.DATA, 0, 1, b"\0")] * (2 * MOST)
    assert told[0] == Frame(frames.HEADERS, frames.END_HEADERS, 1, STATUS)


def test_headers_do_not_go_on_in_frames_without_end() -> None:
    wire = Wire().greet(initial_window_size=0)
    wire.begin(1)
    wire.say(frame(frames.HEADERS, 0, 3, REQUEST))
    wire.say_all(frame(frames.CONTINUATION, 0, 3) * (MOST - 1))
    assert wire.fails(frame(frames.CONTINUATION, 0, 3)) is ErrorCode.ENHANCE_YOUR_CALM


SETTINGS = frames.settings({frames.INITIAL_WINDOW_SIZE: 1})
MOST_SETTINGS = 100
"""How many frames of settings may come before some seconds have passed; the greeting's is one of them."""


def test_settings_change_only_so_often_whatever_else_comes() -> None:
    wire, _ = running()
    wire.say(*[SETTINGS, data(1, b"a")] * (MOST_SETTINGS - 1))
    assert wire.fails(SETTINGS) is ErrorCode.ENHANCE_YOUR_CALM


def test_time_lets_settings_change_again() -> None:
    wire, _ = running()
    for _ in range(3):
        wire.connection.look(0, 0, 60)
        wire.say(SETTINGS * MOST_SETTINGS)
    assert wire.fails(SETTINGS) is ErrorCode.ENHANCE_YOUR_CALM


def test_what_cannot_go_out_is_not_looked_at_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    send_some = Stream.send_some

    def counted(stream: Stream) -> bool:
        looks.append(stream.id)
        return send_some(stream)

    monkeypatch.setattr(Stream, "send_some", counted)
    wire = Wire(lambda heard: heard.answer()).greet(initial_window_size=0)
    wire.say(*[headers(number, flags=END_STREAM) for number in range(1, 401, 2)])
    assert len(looks) <= 200
    wire.say(frames.window_update(1, 1) * 5, frames.window_update(0, 1) * 100)
    assert len(looks) <= 205


class WatchedStreams(dict[int, Stream]):
    """A connection's streams, and how often all have been looked at."""

    looks = 0

    def values(self) -> Any:
        self.looks += 1
        return super().values()


def test_many_values_of_one_setting_take_one_look_at_the_streams_and_the_last_counts() -> None:
    wire = Wire().greet()
    wire.connection.streams.open = watched = WatchedStreams()
    heard = wire.begin(1)
    values = [frames.SETTING.pack(frames.INITIAL_WINDOW_SIZE, value) for value in range(1000)]
    wire.say(frame(frames.SETTINGS, content=b"".join(values)))
    assert (watched.looks, heard.stream.window) == (1, 999)


def test_what_is_answered_before_it_is_too_much_is_sent() -> None:
    wire, _ = running()
    wire.fails(PING * (MOST + 1))
    assert wire.told() == [Frame(frames.PING, frames.ACK, 0, bytes(8))] * MOST
