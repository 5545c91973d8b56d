"""Parts of tensors, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.boxes import Box, cut, paste, view
from inferwire_server.core.tensors import Tensor, zero_tensor
from inferwire_server.errors import ServingError

ARRAY = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
WHOLE = Tensor(BY_NAME["f32"], (3, 4, 5), ARRAY.tobytes())

SIDES = st.tuples(*(st.tuples(st.integers(0, size), st.integers(0, size)).map(sorted) for size in ARRAY.shape))


def box_of(sides: tuple[list[int], ...]) -> Box:
    return Box(tuple(begin for begin, _ in sides), tuple(end for _, end in sides))


@given(SIDES)
def test_a_part_is_what_numpy_cuts(sides: tuple[list[int], ...]) -> None:
    part = cut(WHOLE, box_of(sides))
    expected = ARRAY[tuple(slice(*side) for side in sides)]
    assert (part.shape, bytes(part.data)) == (expected.shape, expected.tobytes())


@given(SIDES)
def test_a_part_is_seen_where_it_lies(sides: tuple[list[int], ...]) -> None:
    part = view(WHOLE, box_of(sides))
    expected = ARRAY[tuple(slice(*side) for side in sides)]
    assert (part.shape, part.byte_size, bytes(part.data)) == (expected.shape, expected.nbytes, expected.tobytes())
    assert not part.byte_size or np.shares_memory(np.asarray(part.data), np.frombuffer(WHOLE.data, np.float32))
    assert part.is_in_one_piece is expected.flags.c_contiguous


@pytest.mark.parametrize("type_name", ["boolean", "u8", "f8e4m3", "f16", "bf16", "i64"])
def test_a_part_of_any_type_of_whole_bytes_is_seen_and_put_together(type_name: str) -> None:
    element_type = BY_NAME[type_name]
    size, data = element_type.byte_size((1,)), bytes([0, 1]) * element_type.byte_size((8,))
    part = view(Tensor(element_type, (4, 4), data), Box((0, 1), (4, 3)))
    rows = [data[(4 * row + 1) * size : (4 * row + 3) * size] for row in range(4)]
    assert (part.is_in_one_piece, part.byte_size, part.in_one_piece().data) == (False, 8 * size, b"".join(rows))


@pytest.mark.parametrize(
    ("box", "is_copied"),
    [
        (Box((1, 0, 0), (3, 4, 5)), False),
        (Box((2, 1, 0), (3, 3, 5)), False),
        (Box((0, 0, 0), (3, 4, 5)), False),
        (Box((0, 0, 0), (2, 2, 5)), True),
        (Box((0, 0, 1), (3, 4, 2)), True),
    ],
    ids=str,
)
def test_a_part_that_lies_in_one_piece_is_not_copied(box: Box, is_copied: bool) -> None:
    part = np.frombuffer(cut(WHOLE, box).data, np.float32)
    assert np.shares_memory(part, np.frombuffer(WHOLE.data, np.float32)) is not is_copied


@given(SIDES)
def test_a_part_is_pasted_where_numpy_would_and_the_tensor_before_stays(sides: tuple[list[int], ...]) -> None:
    box = box_of(sides)
    part = Tensor(BY_NAME["f32"], box.shape, np.full(box.shape, -1, np.float32).tobytes())
    expected = ARRAY.copy()
    expected[tuple(slice(*side) for side in sides)] = -1
    assert bytes(paste(WHOLE, box, part).data) == expected.tobytes()
    assert WHOLE.data == ARRAY.tobytes()


@pytest.mark.parametrize(
    ("tensor", "box", "sentence"),
    [
        (WHOLE, Box((0, 0, 0), (3, 4, 6)), "the box [0..3,0..4,0..6] does not lie in f32[3,4,5]"),
        (WHOLE, Box((2, 0, 0), (1, 4, 5)), "the box [2..1,0..4,0..5] does not lie in f32[3,4,5]"),
        (WHOLE, Box((-1, 0, 0), (1, 4, 5)), "the box [-1..1,0..4,0..5] does not lie in f32[3,4,5]"),
        (WHOLE, Box((0,), (1,)), "the box [0..1] does not lie in f32[3,4,5]"),
        (WHOLE, Box((0, 0, 0), (1, 1)), "the box [0..1,0..1] does not lie in f32[3,4,5]"),
        (WHOLE, Box((0,) * 65, (1,) * 65), f"the box [{'0..1,' * 64}...] does not lie in f32[3,4,5]"),
        (zero_tensor(BY_NAME["u4"], (4,)), Box((0,), (2,)), "a tensor of type u4 has no boxes"),
        (zero_tensor(BY_NAME["string"], (4,)), Box((0,), (2,)), "a tensor of type string has no boxes"),
    ],
)
def test_what_is_no_box_of_a_tensor_is_refused(tensor: Tensor, box: Box, sentence: str) -> None:
    with pytest.raises(ServingError) as caught:
        cut(tensor, box)
    assert caught.value.code is Code.INVALID_INPUT
    assert caught.value.message.startswith(sentence)


def test_a_part_that_does_not_fit_its_box_is_refused() -> None:
    part = zero_tensor(BY_NAME["f32"], (1, 1, 2))
    with pytest.raises(ServingError, match=r"the part is f32\[1,1,2\], expected f32\[1,1,1\] for the box"):
        paste(WHOLE, Box((0, 0, 0), (1, 1, 1)), part)
