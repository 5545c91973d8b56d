"""Rows are counted, put together and cut apart, of whatever type they are."""

from __future__ import annotations

import pytest

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.scheduling.job import Work
from inferwire_server.core.scheduling.rows import concat_rows, count_rows, has_whole_rows, slice_rows
from inferwire_server.core.tensors import Tensor

U8 = BY_NAME["u8"]
STRING = BY_NAME["string"]


def test_the_rows_of_work_are_those_of_its_first_input() -> None:
    assert count_rows(Work((Tensor(U8, (3, 2), bytes(6)), Tensor(U8, (3,), bytes(3))), (0,))) == 3


def test_rows_are_put_together_in_a_copy() -> None:
    one, two = Tensor(U8, (1, 2), b"ab"), Tensor(U8, (2, 2), memoryview(b"cdef"))
    assert concat_rows([one, two]) == Tensor(U8, (3, 2), b"abcdef")


def test_rows_are_cut_apart_without_a_copy() -> None:
    content = b"abcdef"
    pieces = slice_rows(Tensor(U8, (3, 2), content), [1, 0, 2])
    assert [(piece.shape, bytes(piece.data)) for piece in pieces] == [((1, 2), b"ab"), ((0, 2), b""), ((2, 2), b"cdef")]
    assert all(isinstance(piece.data, memoryview) and piece.data.obj is content for piece in pieces)


def test_rows_of_nothing_are_cut_apart() -> None:
    assert [piece.shape for piece in slice_rows(Tensor(U8, (3, 0), b""), [2, 1])] == [(2, 0), (1, 0)]


def test_strings_are_cut_apart_where_their_rows_end() -> None:
    words = [b"", b"a", b"bc", b"", b"def", b"g"]
    first, second = slice_rows(Tensor(STRING, (3, 2), strings.pack(words)), [1, 2])
    assert (first.shape, second.shape) == ((1, 2), (2, 2))
    assert strings.unpack(first.data, 2) == words[:2]
    assert strings.unpack(second.data, 4) == words[2:]


@pytest.mark.parametrize(
    ("type_name", "shape", "is_whole"),
    [("u8", (2, 3), True), ("string", (2, 3), True), ("u4", (2, 2), True), ("u4", (2, 3), False), ("u1", (3,), False)],
)
def test_rows_are_whole_where_no_byte_belongs_to_two(type_name: str, shape: tuple[int, ...], is_whole: bool) -> None:
    assert has_whole_rows(BY_NAME[type_name], shape) == is_whole
