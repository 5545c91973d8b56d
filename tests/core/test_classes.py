"""Outputs as classes, against a plain sort."""

from __future__ import annotations

import math
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.classes import top_classes
from inferwire_server.core.tensors import Array, Tensor

# All of them are numbers of float32, so that the array has what was drawn.
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -2.0, 2.0**-24, math.inf, -math.inf])


def tensor(type_name: str, *shape: int, values: list[float]) -> Tensor:
    element_type = BY_NAME[type_name]
    return Tensor(element_type, shape, np.array(values, element_type.storage_dtype).tobytes())


def texts(classes: Tensor) -> list[str]:
    assert classes.element_type.is_string
    return [text.decode() for text in strings.unpack(classes.data, prod(classes.shape))]


@given(arrays(np.float32, array_shapes(max_dims=3, min_side=0, max_side=5), elements=FLOATS), st.integers(1, 7))
def test_each_row_gives_its_largest_first(values: Array, count: int) -> None:
    shape: tuple[int, ...] = values.shape
    classes = top_classes(Tensor(BY_NAME["f32"], shape, values.tobytes()), count)
    rows, width = (shape[0], prod(shape[1:])) if len(shape) > 1 else (1, prod(shape))
    expected = [
        f"{row[position]!s}:{position}"
        for row in values.reshape(rows, width)
        for position in sorted(range(width), key=lambda i, row=row: (-row[i], i))[:count]
    ]
    assert texts(classes) == expected
    assert classes.shape == ((rows, min(count, width)) if len(shape) > 1 else (min(count, width),))


@pytest.mark.parametrize(
    ("type_name", "values", "expected"),
    [
        ("u8", [3, 255, 3], ["255:1", "3:0", "3:2"]),
        ("i64", [-(2**63), 2**63 - 1], ["9223372036854775807:1", "-9223372036854775808:0"]),
        ("f16", [0.1, 0.5], ["0.5:1", "0.1:0"]),
        ("f64", [math.nan, -math.inf, 1e-300], ["1e-300:2", "-inf:1", "nan:0"]),
    ],
)
def test_numbers_are_written_as_short_as_their_type_allows(
    type_name: str, values: list[float], expected: list[str]
) -> None:
    assert texts(top_classes(tensor(type_name, 1, len(values), values=values), 9)) == expected


def test_halves_that_numpy_does_not_know_are_numbers_too() -> None:
    one_and_two = np.array([0x3F80, 0x4000], np.uint16).tobytes()
    assert texts(top_classes(Tensor(BY_NAME["bf16"], (1, 2), one_and_two), 2)) == ["2.0:1", "1.0:0"]


def test_a_tensor_without_dimensions_is_one_row_of_one() -> None:
    classes = top_classes(tensor("f32", values=[4]), 3)
    assert (classes.shape, texts(classes)) == ((1,), ["4.0:0"])


def test_labels_are_written_if_there_is_one_for_each() -> None:
    row = tensor("f32", 2, 2, values=[1, 2, 4, 3])
    assert texts(top_classes(row, 1, ("cat", "dog: big"))) == ["2.0:1:dog: big", "4.0:0:cat"]
    assert texts(top_classes(row, 1, ("cat", "dog", "cow"))) == ["2.0:1", "4.0:0"]
