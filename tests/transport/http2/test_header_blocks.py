"""Headers as a connection packs them: what a block says, when that is known already, and what is no block."""

from __future__ import annotations

from collections.abc import Sequence

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire_server.transport.http2.frames import ConnectionFailed, ErrorCode
from inferwire_server.transport.http2.header_blocks import MOST_HEADER_BYTES, Field, HeaderBlocks, write_block

FIELDS: list[Field] = [(b":path", b"/a"), (b"a", b"1")]


class Counting:
    """Blocks of one connection, and how often their headers had to be read."""

    def __init__(self) -> None:
        self.reads = 0
        self._blocks = HeaderBlocks(self._read, MOST_HEADER_BYTES)

    def read(self, block: bytes) -> list[Field]:
        """Read a block."""
        return self._blocks.read(block)

    def fails(self, block: bytes) -> ErrorCode:
        """Give how it is called what is wrong with a block."""
        with pytest.raises(ConnectionFailed) as raised:
            self.read(block)
        return raised.value.code

    def _read(self, fields: Sequence[Field]) -> list[Field]:
        self.reads += 1
        return list(fields)


def remembered(name: bytes, value: bytes) -> bytes:
    """Write a header that the connection is to remember."""
    return b"\x40" + write_block([(name, value)])[1:]


NEWEST = b"\xbe"
"""The header that was remembered last, by its number."""

NOTHING_MORE = b"\x20"
"""That nothing is to be remembered from now on."""


def test_what_is_written_is_read() -> None:
    assert Counting().read(write_block(FIELDS)) == FIELDS


def test_no_headers_are_no_bytes() -> None:
    assert write_block([]) == b""
    assert Counting().read(b"") == []


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=300), st.binary(max_size=300)), max_size=8))
def test_what_is_written_says_the_same_in_a_row_and_leaves_nothing_to_remember(fields: list[Field]) -> None:
    decoder = hpack.Decoder()
    for _ in range(2):
        assert [(bytes(name), bytes(value)) for name, value in decoder.decode(write_block(fields), raw=True)] == fields
    assert not decoder.header_table.dynamic_entries


def test_a_block_that_comes_again_is_not_read_again() -> None:
    blocks = Counting()
    assert [blocks.read(write_block(FIELDS)) for _ in range(3)] == [FIELDS] * 3
    assert blocks.reads == 1


def test_connections_do_not_share_what_they_know() -> None:
    first, second = Counting(), Counting()
    first.read(remembered(b"a", b"1"))
    assert first.read(NEWEST) == [(b"a", b"1")]
    assert second.fails(NEWEST) is ErrorCode.COMPRESSION_ERROR


def test_a_block_that_is_to_be_remembered_is_read_each_time() -> None:
    blocks = Counting()
    for _ in range(2):
        assert blocks.read(remembered(b"a", b"1")) == [(b"a", b"1")]
    assert blocks.reads == 2
    assert blocks.read(b"\xbe\xbf") == [(b"a", b"1")] * 2


def test_the_same_block_means_something_else_once_more_is_remembered() -> None:
    blocks = Counting()
    blocks.read(remembered(b"a", b"1"))
    assert [blocks.read(NEWEST) for _ in range(2)] == [[(b"a", b"1")]] * 2
    blocks.read(remembered(b"b", b"2"))
    assert [blocks.read(NEWEST) for _ in range(2)] == [[(b"b", b"2")]] * 2


def test_what_is_too_long_to_be_remembered_makes_the_rest_forgotten() -> None:
    blocks = Counting()
    blocks.read(remembered(b"a", b"1"))
    blocks.read(NEWEST)
    blocks.read(remembered(b"long", bytes(5000)))
    assert blocks.fails(NEWEST) is ErrorCode.COMPRESSION_ERROR


def test_what_a_smaller_memory_has_no_room_for_is_not_known_any_more() -> None:
    blocks = Counting()
    blocks.read(remembered(b"a", b"1"))
    blocks.read(NEWEST)
    assert blocks.read(NOTHING_MORE) == []
    assert blocks.fails(NEWEST) is ErrorCode.COMPRESSION_ERROR


def test_a_block_that_changes_the_memory_is_read_each_time() -> None:
    blocks = Counting()
    block = NOTHING_MORE + write_block(FIELDS)
    assert [blocks.read(block) for _ in range(2)] == [FIELDS] * 2
    assert blocks.reads == 2


def test_a_memory_that_grows_again_remembers_again() -> None:
    blocks = Counting()
    blocks.read(NOTHING_MORE)
    blocks.read(remembered(b"a", b"1"))
    assert blocks.read(b"\x3f\xe1\x1f" + remembered(b"a", b"2")) == [(b"a", b"2")]
    assert blocks.read(NEWEST) == [(b"a", b"2")]


def test_only_so_many_blocks_are_kept() -> None:
    blocks = Counting()
    many = [write_block([(b"a", str(number).encode())]) for number in range(65)]
    for block in many:
        blocks.read(block)
    blocks.read(many[-1])
    assert blocks.reads == 65
    blocks.read(many[0])
    assert blocks.reads == 66


def test_a_long_block_is_not_kept() -> None:
    blocks = Counting()
    block = write_block([(b"a", bytes(4096))])
    for _ in range(2):
        blocks.read(block)
    assert blocks.reads == 2


def test_a_short_block_that_stands_for_long_headers_is_not_kept() -> None:
    blocks = Counting()
    blocks.read(remembered(b"a", bytes(1000)))
    assert [len(blocks.read(NEWEST * 4)) for _ in range(2)] == [4, 4]
    assert blocks.reads == 3


@pytest.mark.parametrize(
    "block",
    [
        NEWEST,  # of which nothing has been said
        b"\x80",  # which is no number of a header
        b"\x00\x05ab",  # which is cut short
        b"\x00\x81\x00\x01a",  # whose Huffman code is none
        b"\xff\xff\xff\xff\xff\xff\xff\x01",  # a number without end
        b"\xff" * 16384 + b"\x01",  # one for which hpack 4.1 takes a time that grows with the square of its length
        b"\x3f\xff\xff\x03",  # more memory than there is
        write_block(FIELDS) + NOTHING_MORE,  # which is too late for it
    ],
)
def test_what_is_no_block_ends_the_connection(block: bytes) -> None:
    assert Counting().fails(block) is ErrorCode.COMPRESSION_ERROR


def test_few_bytes_that_stand_for_too_many_end_the_connection() -> None:
    blocks = Counting()
    blocks.read(remembered(b"a", bytes(4000)))
    assert len(blocks.read(NEWEST * 16)) == 16
    assert blocks.fails(NEWEST * 17) is ErrorCode.ENHANCE_YOUR_CALM


def test_headers_that_are_too_long_end_the_connection() -> None:
    assert Counting().fails(write_block([(b"a", bytes(MOST_HEADER_BYTES))])) is ErrorCode.ENHANCE_YOUR_CALM


NAMES = st.sampled_from([b":path", b"a", b"b", b"content-type"])
VALUES = st.sampled_from([b"", b"1", b"2", bytes(1000)])
BLOCKS = st.lists(st.tuples(NAMES, VALUES, st.booleans()), max_size=4)


@given(st.lists(st.tuples(BLOCKS, st.sampled_from([None, None, None, 0, 100, 4096])), max_size=20))
def test_blocks_say_what_their_sender_meant(sent: list[tuple[list[tuple[bytes, bytes, bool]], int | None]]) -> None:
    encoder, blocks = hpack.Encoder(), Counting()
    for fields, memory in sent:
        if memory is not None:
            encoder.header_table_size = memory
        block = encoder.encode(fields)
        assert blocks.read(block) == [(name, value) for name, value, _ in fields]
