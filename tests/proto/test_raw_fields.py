"""Joining and splitting messages gives what protobuf alone would have given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire_proto import raw_fields
from inferwire_proto.inferwire.v1.inference_pb2 import Execution, InferRequest, Target
from inferwire_proto.inferwire.v1.types_pb2 import TensorHeader
from inferwire_proto.raw_fields import (
    ALIGNMENT,
    MANY_SHORT_FIELDS,
    PADDING_FIELD,
    SHORT_FIELD,
    SMALL_MESSAGE,
    MalformedMessage,
    fields,
)

LARGE = b"\x01" * (SMALL_MESSAGE + 1)
HEADER = InferRequest(execution=Execution(ids=[7], target=Target(served="m")))

buffers = st.lists(st.binary(max_size=40) | st.just(LARGE), max_size=4)


def join(parts: list[bytes], padding: int | None = PADDING_FIELD) -> bytes:
    return raw_fields.join(HEADER.SerializeToString(), parts, padding_field=padding)


@given(buffers, st.sampled_from([None, PADDING_FIELD]))
def test_what_is_joined_is_a_message_like_any_other(parts: list[bytes], padding: int | None) -> None:
    message = InferRequest.FromString(join(parts, padding))
    assert list(message.raw) == parts
    assert message.execution == HEADER.execution


@given(st.lists(st.lists(st.binary(max_size=40) | st.just(LARGE), min_size=1, max_size=3).map(tuple), max_size=3))
def test_the_pieces_of_an_entry_are_joined_in_their_order(parts: list[tuple[bytes, ...]]) -> None:
    whole = raw_fields.join(HEADER.SerializeToString(), parts)
    assert list(InferRequest.FromString(whole).raw) == [b"".join(pieces) for pieces in parts]


@given(st.integers(1, 40), st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_fields_written_apart_are_one_message(number: int, ids: list[int]) -> None:
    """What stands behind each other is merged: a header and ids, in whatever order."""
    header = Execution(target=Target(served="m" * number)).SerializeToString()
    written = raw_fields.field(InferRequest.EXECUTION_FIELD_NUMBER, header + Execution(ids=ids).SerializeToString())
    assert InferRequest.FromString(written).execution == Execution(ids=ids, target=Target(served="m" * number))


def test_of_any_message_those_fields_are_read_that_have_a_length() -> None:
    long = b"b" * 200
    numbers = (b"\x08\x96\x01", b"\x1d" + bytes(4), b"\x21" + bytes(8))
    written = raw_fields.field(2, b"a").join(numbers) + raw_fields.field(300, long)
    assert list(fields(memoryview(written))) == [(2, b"a"), (2, b"a"), (300, long)]
    for broken in (written[:-1], b"\x0b", b"\xff" * 11):  # cut short; of a group; of a number too large
        with pytest.raises(IndexError):
            list(fields(memoryview(broken)))


@given(buffers)
def test_what_protobuf_wrote_is_split(parts: list[bytes]) -> None:
    whole = InferRequest(execution=HEADER.execution, raw=parts).SerializeToString()
    header, raw = raw_fields.split(InferRequest, whole)
    assert [bytes(part) for part in raw] == parts
    assert header.execution == HEADER.execution


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6))
def test_every_buffer_starts_aligned(parts: list[bytes]) -> None:
    marked = [bytes([index]) * 3 + b"tensor" + part for index, part in enumerate(parts)]
    message = join(marked)
    at = 0
    for part in marked:
        at = message.index(part, at)
        assert at % ALIGNMENT == 0


def test_a_large_buffer_is_a_view_of_the_message() -> None:
    message = join([LARGE])
    _, (raw,) = raw_fields.split(InferRequest, message)
    assert isinstance(raw, memoryview)
    assert raw.obj is message


@given(buffers)
def test_a_message_that_is_a_view_is_split_as_its_bytes_are(parts: list[bytes]) -> None:
    whole = join(parts)
    header, raw = raw_fields.split(InferRequest, memoryview(bytearray(whole)))
    assert [bytes(part) for part in raw] == parts
    assert header.execution == HEADER.execution


def test_short_buffers_are_no_views_however_many_they_are() -> None:
    parts = [b"tensor"] * SMALL_MESSAGE
    header, raw = raw_fields.split(InferRequest, join(parts))
    assert raw == parts
    assert isinstance(raw[0], bytes)
    assert header.execution == HEADER.execution


@pytest.mark.parametrize("field", [b"\x7a\0", b"\x72\0", b"\x0a\0"], ids=["raw", "padding", "execution"])
def test_a_large_message_of_very_many_fields_is_malformed(field: bytes) -> None:
    most = MANY_SHORT_FIELDS // SHORT_FIELD
    large = join([b"\1" * MANY_SHORT_FIELDS])
    _, raw = raw_fields.split(InferRequest, large + field * (most - 3))
    assert isinstance(raw[0], memoryview)
    with pytest.raises(MalformedMessage, match=f"bytes received have more than {most} fields"):
        raw_fields.split(InferRequest, large + field * most)


def test_a_large_message_has_only_so_much_beside_its_tensors_where_that_is_said() -> None:
    most = 10 * len(HEADER.SerializeToString())
    tensor = b"\1" * MANY_SHORT_FIELDS
    inputs = InferRequest(execution=Execution(inputs=[TensorHeader()] * most)).SerializeToString()
    header, raw = raw_fields.split(InferRequest, join([tensor], None), most_beside=most)
    assert (header, raw) == (HEADER, [tensor])
    header, _ = raw_fields.split(InferRequest, inputs + join([tensor], None))
    assert len(header.execution.inputs) == most
    with pytest.raises(MalformedMessage, match=f"beside their tensors, expected at most {most}"):
        raw_fields.split(InferRequest, inputs + join([tensor], None), most_beside=most)


@pytest.mark.parametrize("size", [10, SMALL_MESSAGE])
def test_a_message_cut_short_is_malformed(size: int) -> None:
    with pytest.raises(MalformedMessage, match=r"are not a message of type inferwire\.v1\.InferRequest"):
        raw_fields.split(InferRequest, join([b"\0" * size])[:-1])


@given(st.binary(max_size=60), st.booleans())
def test_bytes_are_a_message_or_malformed(data: bytes, is_large: bool) -> None:
    try:
        raw_fields.split(InferRequest, data + (LARGE if is_large else b""))
    except MalformedMessage as error:
        assert "bytes received" in str(error)  # noqa: PT017 - either outcome is right
