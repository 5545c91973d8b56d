"""Messages out of the data that they come in, however it is cut."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from itertools import pairwise

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.transport.rpc.messages import PREFIX, PREFIX_BYTES, MessageReader, Packed, unpacked
from inferwire_server.transport.rpc.status import ENCODINGS, RpcStatus

LIMIT = 1 << 20
PACKED: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


def framed(message: bytes, flag: int = 0) -> bytes:
    return PREFIX.pack(flag, len(message)) + message


def taken(reader: MessageReader, *pieces: bytes) -> list[bytes]:
    came = [message for piece in pieces for message in reader.take(memoryview(piece))]
    return [
        unpacked(message, reader._encoding, reader._most_bytes) if isinstance(message, Packed) else message
        for message in came
    ]


def failure(encoding: str, *pieces: bytes, limit: int = LIMIT) -> RpcStatus:
    with pytest.raises(RpcStatus) as raised:
        taken(MessageReader(encoding, limit), *pieces)
    assert raised.value.code is grpc.StatusCode.INTERNAL
    return raised.value


@st.composite
def cut_data(draw: st.DrawFn) -> tuple[str, list[bytes], list[bytes]]:
    """Draw messages, how they are compressed, and the pieces of data that they come in."""
    encoding = draw(st.sampled_from(ENCODINGS))
    messages = draw(st.lists(st.binary(max_size=200), max_size=6))
    data = b""
    for message in messages:
        is_packed = encoding in PACKED and draw(st.booleans())
        data += framed(PACKED[encoding](message), 1) if is_packed else framed(message)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=20)))
    return encoding, messages, [data[start:end] for start, end in pairwise([0, *cuts, len(data)])]


@given(cut_data())
def test_messages_come_out_the_same_however_they_are_cut(drawn: tuple[str, list[bytes], list[bytes]]) -> None:
    encoding, messages, pieces = drawn
    reader = MessageReader(encoding, LIMIT)
    assert taken(reader, *pieces) == messages
    assert reader.is_between
    assert reader.missing == 0


@given(cut_data())
def test_a_message_is_there_once_its_last_byte_is(drawn: tuple[str, list[bytes], list[bytes]]) -> None:
    encoding, messages, pieces = drawn
    data = b"".join(pieces)
    reader = MessageReader(encoding, LIMIT)
    found: list[bytes] = []
    for at in range(len(data)):
        come = taken(reader, data[at : at + 1])
        assert bool(come) is (reader.is_between)
        found += come
    assert found == messages


def test_what_a_message_lacks_is_known_once_its_prefix_is_whole() -> None:
    reader = MessageReader("identity", LIMIT)
    data = framed(bytes(100))
    lacking: list[tuple[int, bool]] = []
    for piece in (data[:2], data[2:4], data[4:5], data[5:60], data[60:]):
        taken(reader, piece)
        lacking.append((reader.missing, reader.is_between))
    assert lacking == [(0, False), (0, False), (100, False), (45, False), (0, True)]


def test_parts_of_any_size_make_a_message_in_their_order() -> None:
    message = bytes(range(256)) * 40
    cuts = [5, 6, 7, 2000, 2001, 3025, 4050, 4051, 5 + len(message)]
    pieces = [framed(message)[start:end] for start, end in pairwise([0, *cuts])]
    assert taken(MessageReader("identity", LIMIT), *pieces) == [message]


def test_small_parts_do_not_keep_what_was_received_with_them() -> None:
    reader = MessageReader("identity", LIMIT)
    taken(reader, PREFIX.pack(0, LIMIT))
    tracemalloc.start()
    try:
        for _ in range(20_000):
            assert list(reader.take(memoryview(bytes(1024))[:1])) == []
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()
    assert reader.missing == LIMIT - 20_000


def test_a_message_without_bytes_is_one() -> None:
    assert taken(MessageReader("identity", 0), framed(b"") * 3) == [b"", b"", b""]


def test_messages_are_kept_when_their_data_is_written_over() -> None:
    data = bytearray(framed(b"first") + framed(b"second"))
    (first, second) = MessageReader("identity", LIMIT).take(memoryview(data))
    data[:] = bytes(len(data))
    assert (first, second) == (b"first", b"second")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_message_that_is_too_large_is_refused_for_its_prefix(encoding: str) -> None:
    reader = MessageReader(encoding, 100)
    with pytest.raises(ServingError, match="the message has 101 bytes, at most 100 fit") as raised:
        taken(reader, PREFIX.pack(0, 101)[:3], PREFIX.pack(0, 101)[3:])
    assert raised.value.code is Code.TOO_LARGE
    with pytest.raises(ServingError, match="the message has 4294967295 bytes"):
        taken(MessageReader(encoding, 100), PREFIX.pack(encoding != "identity", 2**32 - 1))


def test_a_message_may_be_as_large_as_is_said() -> None:
    assert taken(MessageReader("identity", 100), framed(bytes(100))) == [bytes(100)]
    for encoding, packed in PACKED.items():
        assert taken(MessageReader(encoding, 100), framed(packed(bytes(100)), 1)) == [bytes(100)]


@pytest.mark.parametrize("encoding", PACKED)
def test_no_more_is_unpacked_of_a_message_than_may_be_taken(encoding: str) -> None:
    bomb = framed(PACKED[encoding](bytes(200 << 20)), 1)
    assert len(bomb) < LIMIT
    tracemalloc.start()
    try:
        with pytest.raises(ServingError, match=f"the message has {LIMIT + 1} bytes, at most {LIMIT} fit") as raised:
            taken(MessageReader(encoding, LIMIT), bomb)
        assert tracemalloc.get_traced_memory()[1] < 8 * LIMIT
    finally:
        tracemalloc.stop()
    assert raised.value.code is Code.TOO_LARGE


@pytest.mark.parametrize("encoding", PACKED)
def test_a_byte_too_many_is_too_large_when_it_is_unpacked(encoding: str) -> None:
    with pytest.raises(ServingError, match="the message has 101 bytes, at most 100 fit"):
        taken(MessageReader(encoding, 100), framed(PACKED[encoding](bytes(101)), 1))


@pytest.mark.parametrize("flag", [2, 3, 128, 255])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_message_begins_with_nought_or_one(encoding: str, flag: int) -> None:
    error = failure(encoding, framed(b"x", flag)[:PREFIX_BYTES])
    assert error.details == f"a message's first byte is {flag}, expected 0 or 1"


def test_a_message_is_not_compressed_where_the_call_says_so() -> None:
    error = failure("identity", framed(gzip.compress(b"x"), 1)[:PREFIX_BYTES])
    assert error.details == "a message is compressed, and the call's grpc-encoding is identity"


@pytest.mark.parametrize("encoding", PACKED)
def test_a_compressed_message_that_is_cut_short_is_refused(encoding: str) -> None:
    packed = PACKED[encoding](bytes(range(256)))
    for size in (0, 1, len(packed) // 2, len(packed) - 1):
        error = failure(encoding, framed(packed[:size], 1))
        assert error.details == f"a message that is compressed as {encoding} is cut short"


@pytest.mark.parametrize("encoding", PACKED)
def test_a_compressed_message_with_bytes_behind_its_end_is_refused(encoding: str) -> None:
    packed = PACKED[encoding](bytes(100))
    for behind in (b"\0", packed):
        error = failure(encoding, framed(packed + behind, 1))
        assert error.details == f"a message that is compressed as {encoding} has bytes behind its end"


@pytest.mark.parametrize(("encoding", "other"), [("gzip", "deflate"), ("deflate", "gzip")])
def test_a_message_that_is_compressed_in_another_way_is_refused(encoding: str, other: str) -> None:
    for packed in (PACKED[other](b"x"), b"not compressed"):
        error = failure(encoding, framed(packed, 1))
        assert error.details.startswith(f"a message cannot be decompressed as {encoding}: ")
