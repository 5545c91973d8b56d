"""What tensors do that openvino's do not: the wire, and safety where openvino has none."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire import Coordinate, Dimension, OVAny, PartialShape, Shape, Strides, Tensor, Type
from inferwire.values.types import element_type_of, type_of
from inferwire_proto.element_types import ELEMENT_TYPES, ElementType


def floats() -> np.ndarray[Any, Any]:
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def test_rows_and_types_are_one_to_one() -> None:
    assert [element_type_of(type_of(row)) for row in ELEMENT_TYPES] == list(ELEMENT_TYPES)
    with pytest.raises(RuntimeError, match="no tensor has the dynamic type"):
        element_type_of(Type.dynamic)


def test_wire_data_is_a_view() -> None:
    tensor = Tensor(floats())
    data = tensor.memory.wire_data()
    assert bytes(data) == floats().tobytes()
    tensor.data[0, 0] = 9
    assert bytes(data[:4]) == np.float32(9).tobytes()
    assert isinstance(data, memoryview)
    assert data.readonly


def test_wire_data_is_that_of_the_present_shape() -> None:
    tensor = Tensor(Type.f32, [1])
    for size in (1, 4, 2):
        tensor.shape = [size]
        tensor.data[:] = size
        assert bytes(tensor.memory.wire_data()) == np.full(size, size, np.float32).tobytes()


def test_wire_data_of_a_region_is_dense() -> None:
    region = Tensor(Tensor(floats()), [0, 1], [2, 2])
    assert bytes(region.memory.wire_data()) == np.array([1, 4], np.float32).tobytes()


@pytest.mark.parametrize("shape", [[], [0], [2, 0], [1, 3], [3, 3, 3]], ids=repr)
@pytest.mark.parametrize("row", [row for row in ELEMENT_TYPES if not row.is_string], ids=lambda row: row.name)
def test_wire_round_trip(row: ElementType, shape: list[int]) -> None:
    source, target = Tensor(type_of(row), shape), Tensor(type_of(row), [1])
    source.data[...] = 1
    assert len(source.memory.wire_data()) == row.byte_size(shape)
    for _ in range(2):
        target.data[...] = 0
        target.memory.load_wire(tuple(shape), source.memory.wire_data())
        assert target.shape == shape
        assert bytes(target.memory.wire_data()) == bytes(source.memory.wire_data())


@given(st.lists(st.binary(max_size=5), max_size=5))
def test_wire_round_trip_of_strings(items: list[bytes]) -> None:
    source, target = Tensor(Type.string, [len(items)]), Tensor(["x"])
    source.memory.array[...] = [*items]
    target.memory.load_wire((len(items),), source.memory.wire_data())
    assert target.memory.array.tolist() == items


def test_load_wire_keeps_memory_that_fits() -> None:
    tensor = Tensor(floats())
    before = tensor.data
    tensor.memory.load_wire((1, 2), np.array([8, 9], np.float32).tobytes())
    assert (tensor.shape, tensor.data.tolist()) == ([1, 2], [[8, 9]])
    assert np.shares_memory(before, tensor.data)
    tensor.memory.load_wire((7,), bytes(28))
    assert not np.shares_memory(before, tensor.data)


@pytest.mark.parametrize(("shape", "size"), [([2], 4), ([2], 12), ([0], 4)])
def test_load_wire_counts_bytes(shape: list[int], size: int) -> None:
    tensor = Tensor(floats())
    expected = f"has {size} bytes, expected {4 * shape[0]}"
    with pytest.raises(ValueError, match=expected):
        tensor.memory.load_wire(tuple(shape), bytes(size))
    assert tensor.shape == [2, 3]


def test_load_wire_does_not_grow_shared_memory() -> None:
    array = floats()
    tensor = Tensor(array, shared_memory=True)
    tensor.memory.load_wire((1,), np.float32(9).tobytes())
    assert array[0, 0] == 9
    with pytest.raises(RuntimeError, match=r"Could set new shape: \[7\]"):
        tensor.memory.load_wire((7,), bytes(28))


def test_views_past_the_end_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"type f32 and shape \[7\] needs 28 bytes, the array has 24"):
        Tensor(floats(), [7], Type.f32)


def test_views_of_read_only_memory_are_read_only() -> None:
    view = Tensor(np.frombuffer(bytes(8), np.float32), [2], Type.f32)
    assert not view.data.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        view.memory.load_wire((2,), bytes(8))


def test_big_endian_arrays() -> None:
    array = np.array([1, 2], ">i4")
    assert Tensor(array).data.tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="dtype >i4, not little-endian"):
        Tensor(array, shared_memory=True)


def test_regions_of_strings() -> None:
    tensor = Tensor([["a", "b"], ["c", "d"]])
    region = Tensor(tensor, [0, 1], [2, 2])
    assert (region.str_data.tolist(), region.strides) == ([["b"], ["d"]], [64, 32])
    region.str_data = [["x"], ["y"]]
    assert tensor.str_data.tolist() == [["a", "x"], ["c", "y"]]


def test_strings_are_deep_copied() -> None:
    tensor = Tensor(["a", "b"])
    copied = copy.deepcopy(tensor)
    tensor.str_data = ["x", "y"]
    assert copied.str_data.tolist() == ["a", "b"]


def test_packed_elements_are_deep_copied() -> None:
    tensor = Tensor(np.array([1, 2], np.uint8), [4], Type.u4)
    assert copy.deepcopy(tensor).data.tolist() == [1, 2]


def test_regions_keep_their_rank() -> None:
    region = Tensor(Tensor(floats()), [0, 0], [1, 1])
    with pytest.raises(RuntimeError, match="for ROI tensor of rank 2"):
        region.set_shape([1, 1, 1])


def test_shape_is_a_copy() -> None:
    tensor = Tensor(floats())
    shape = tensor.shape
    shape[0] = 1
    assert tensor.shape == [2, 3]


def test_tensors_over_one_memory() -> None:
    tensor = Tensor(floats())
    other = Tensor.over(tensor.memory)
    other.set_shape([6])
    assert tensor.shape == [6]


@pytest.mark.parametrize("sizes", [Shape([1]), Strides([1]), Coordinate([1])], ids=repr)
def test_indices_past_the_end(sizes: Any) -> None:
    with pytest.raises(IndexError, match="index 1 is out of range"):
        sizes[1]
    with pytest.raises(IndexError, match="index 5 is out of range"):
        sizes[5] = 1


def test_indices_before_the_start() -> None:
    with pytest.raises(IndexError, match="index -2 is out of range"):
        Shape([1])[-2]
    with pytest.raises(RuntimeError, match="Accessing out-of-range dimension"):
        PartialShape([1])[-2]


@pytest.mark.parametrize(
    "text", ["a", "?,2", "-1", "1 2", "2,18446744073709551616", "9" * 5000], ids=lambda text: text[:30]
)
def test_shapes_of_no_numbers(text: str) -> None:
    with pytest.raises(RuntimeError, match="Cannot get vector of dimensions!"):
        Shape(text)


@pytest.mark.parametrize("digits", ["9223372036854775808", "99999999999999999999", "9" * 5000], ids=len)
def test_dimensions_of_numbers_that_are_too_large(digits: str) -> None:
    for text, part in ((digits, "dimension"), (f"{digits}..", "min bound"), (f"1..{digits}", "max bound")):
        for made in (lambda text=text: Dimension(text), lambda text=text: PartialShape(f"[{text},3]")):
            with pytest.raises(RuntimeError, match=f'Cannot parse {part}: "{digits}"'):
                made()


def test_items_of_ov_any_stay_set() -> None:
    value = OVAny([1, 2])
    value[0] = 5
    assert value.value == [5, 2]
