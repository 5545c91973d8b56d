"""Which streams a connection has: `test_connection_streams` says what its frames make of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.frames import ConnectionFailed, ErrorCode
from inferwire_server.transport.http2.outflow import Outflow, Piece
from inferwire_server.transport.http2.streams import Streams


class Rig:
    """Streams without a connection, and what they say."""

    def __init__(self) -> None:
        self.said: list[bytes] = []
        self.overs = 0
        self.streams = Streams(Outflow(self._say), self._count)

    def _say(self, pieces: Sequence[Piece]) -> None:
        self.said += map(bytes, pieces)

    def _count(self) -> None:
        self.overs += 1


def test_one_that_this_side_alone_has_ended_is_told_once_that_nobody_hears_more() -> None:
    rig = Rig()
    rig.streams.begin(1)
    rig.streams.open[1].finish(b"")
    assert (repr(rig.streams), rig.overs) == ("<Streams: 0 open, 1 half open>", 1)
    rig.said.clear()
    for _ in range(2):
        rig.streams.hear(1)
    assert rig.said == [frames.rst_stream(1, ErrorCode.NO_ERROR)]


def test_one_that_its_peer_ends_as_well_is_told_nothing() -> None:
    rig = Rig()
    rig.streams.begin(1)
    rig.streams.open[1].finish(b"")
    rig.said.clear()
    rig.streams.hear_end(1)
    rig.streams.hear(1)
    assert (rig.said, repr(rig.streams)) == ([], "<Streams: 0 open, 0 half open>")


def test_one_that_is_refused_has_begun_and_is_told_so_unless_this_side_has_left() -> None:
    rig = Rig()
    rig.streams.refuse(3)
    assert (rig.said, rig.streams.find(3)) == ([frames.rst_stream(3, ErrorCode.PROTOCOL_ERROR)], None)
    rig.streams.take_no_more()
    rig.said.clear()
    rig.streams.refuse(5)
    assert (rig.said, rig.streams.begin(7)) == ([], None)


@pytest.mark.parametrize("number", [0, 3])
def test_what_has_not_begun_is_not_found(number: int) -> None:
    rig = Rig()
    rig.streams.begin(1)
    assert rig.streams.find(1) is rig.streams.open[1]
    with pytest.raises(ConnectionFailed, match=f"stream {number} has not begun"):
        rig.streams.find(number)
