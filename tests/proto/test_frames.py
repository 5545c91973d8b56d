"""Frames on a plain socket: cut from whatever pieces they come in."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from inferwire_proto import frames
from inferwire_proto.frames import Frame, FrameReader, FrameTooLarge, Kind, MalformedFrame

LARGE = bytes(range(256)) * 1024
MOST = 1 << 20

SENT = (
    Frame(Kind.MESSAGE, b"hello"),
    Frame(Kind.PING, b""),
    Frame(Kind.MESSAGE, LARGE),
    Frame(Kind.MESSAGE, LARGE[:60_000]),
    Frame(Kind.PONG, b""),
    Frame(Kind.MESSAGE, b"x" * (frames.SCRATCH_BYTES - 8)),
    Frame(Kind.END, b"why"),
)
SENT_FIRST = frames.frame(SENT[0].kind, bytes(SENT[0].content))
STREAM = b"".join(frames.header(each.kind, len(each.content)) + bytes(each.content) for each in SENT)


def receive(reader: FrameReader, stream: bytes, most: int) -> Iterable[Frame]:
    """Receive a stream as a socket would: as much as there is room for, and no more than comes at once."""
    at = 0
    while at < len(stream):
        room = reader.room()
        count = min(len(room), most, len(stream) - at)
        room[:count] = stream[at : at + count]
        yield from reader.received(count)
        at += count


@pytest.mark.parametrize("most", [3, 7, 8, 9, 13, 1000, 65_536, 10_000_000])
def test_frames_are_cut_from_pieces_of_any_size(most: int) -> None:
    got = receive(FrameReader(frames.scratch(), MOST), STREAM, most)

    assert [Frame(each.kind, bytes(each.content)) for each in got] == list(SENT)


def test_byte_by_byte() -> None:
    small = STREAM[: 8 + 5 + 8 + 8 + 100]
    reader = FrameReader(frames.scratch(), MOST)

    assert list(receive(reader, small, 1)) == [*SENT[:2]]


@pytest.mark.parametrize("begun", [0, 1, 8, 100, len(LARGE)])
def test_what_has_come_of_a_frame_can_be_given_away(begun: int) -> None:
    reader, other = FrameReader(frames.scratch(), MOST), FrameReader(frames.scratch(), MOST)
    stream = frames.header(Kind.MESSAGE, len(LARGE)) + LARGE

    assert list(receive(reader, SENT_FIRST + stream[:begun], MOST)) == [SENT[0]]
    (got,) = receive(other, reader.unfinished() + stream[begun:], MOST)

    assert bytes(got.content) == LARGE


def test_a_large_frame_is_received_where_it_stays() -> None:
    reader = FrameReader(frames.scratch(), MOST)

    list(receive(reader, frames.header(Kind.MESSAGE, len(LARGE)) + LARGE[:100], MOST))
    room = reader.room()
    room[:] = LARGE[100:]
    (got,) = reader.received(len(room))

    assert isinstance(got.content, memoryview)
    assert got.content == LARGE
    room[0] ^= 0xFF
    assert got.content[100] == LARGE[100] ^ 0xFF


def test_readers_that_take_turns_share_their_room() -> None:
    room = frames.scratch()
    ones, others = FrameReader(room, MOST), FrameReader(room, MOST)
    mine, theirs = frames.frame(Kind.MESSAGE, b"mine" * 10), frames.frame(Kind.MESSAGE, b"theirs" * 10)
    got: tuple[list[Frame], list[Frame]] = ([], [])

    for at in range(0, len(theirs), 3):
        got[0].extend(receive(ones, mine[at : at + 3], 3))
        got[1].extend(receive(others, theirs[at : at + 3], 3))

    assert got == ([Frame(Kind.MESSAGE, b"mine" * 10)], [Frame(Kind.MESSAGE, b"theirs" * 10)])


@pytest.mark.parametrize("what", [b"HTTP/1.1 400 Bad Request", b"PRI * HTTP/2.0\r\n", bytes(8), bytes([255] * 8)])
def test_what_is_no_frame_is_refused(what: bytes) -> None:
    with pytest.raises(MalformedFrame, match="expected a known kind"):
        list(receive(FrameReader(frames.scratch(), MOST), what, MOST))


def test_a_frame_that_is_too_large_is_refused_before_there_is_room_for_it() -> None:
    with pytest.raises(FrameTooLarge, match=r"a frame has 4294967295 bytes, expected at most 1048576"):
        list(receive(FrameReader(frames.scratch(), MOST), frames.header(Kind.MESSAGE, 2**32 - 1), MOST))
