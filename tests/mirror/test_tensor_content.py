"""Regions, strings, ports and copying of tensors, against openvino's own."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest


def floats() -> np.ndarray[Any, Any]:
    return np.arange(12, dtype=np.float32).reshape(3, 4)


def test_region_shares_memory(ov: Any) -> None:
    base = ov.Tensor(floats())
    region = ov.Tensor(base, [1, 1], [3, 3])
    assert repr(region) == "<Tensor: shape[2,2] type: f32>"
    assert (region.strides, region.byte_size, region.size) == ([16, 4], 16, 4)
    assert not region.is_continuous()
    region.data[0, 0] = 99
    assert base.data[1, 1] == 99
    inner = ov.Tensor(region, [1, 1], [2, 2])
    assert inner.data.tolist() == [[10]]
    assert copy.copy(region).strides == [16, 4]
    assert copy.deepcopy(region).strides == [8, 4]


def test_region_spellings(ov: Any) -> None:
    base = ov.Tensor(floats())
    corners = [ov.Coordinate([0, 1]), ov.Shape([0, 1]), (0, 1), [0, 1]]
    assert [ov.Tensor(base, begin, [2, 2]).shape == [2, 1] for begin in corners] == [True] * 4
    assert ov.Tensor(other=base, begin=[0, 0], end=[1, 1]).shape == [1, 1]
    assert ov.Tensor(base, begin=[0, 0], end=[1, 1]).shape == [1, 1]
    assert ov.Tensor(ov.Tensor(ov.Type.f32, []), [], []).shape == []


@pytest.mark.parametrize(
    ("begin", "end", "continuous", "shape"),
    [
        ([0, 0], [3, 4], True, [3, 4]),
        ([1, 0], [3, 4], True, [2, 4]),
        ([0, 1], [1, 3], True, [1, 2]),
        ([0, 1], [3, 2], False, [3, 1]),
        ([1, 1], [1, 3], True, [0, 2]),
        ([3, 0], [3, 4], True, [0, 4]),
    ],
)
def test_region_continuity(ov: Any, begin: list[int], end: list[int], continuous: bool, shape: list[int]) -> None:
    region = ov.Tensor(ov.Tensor(floats()), begin, end)
    assert (region.is_continuous(), region.shape) == (continuous, shape)


@pytest.mark.parametrize(
    ("begin", "end", "message"),
    [
        ([0, 0], [4, 4], r"\*roi_end <= \*max_dim"),
        ([4, 0], [4, 4], r"\*roi_begin <= \*max_dim"),
        ([2, 0], [1, 4], r"\*roi_dim <= \*max_dim"),
        ([0], [3], r"tensor_shape.size\(\) == begin.size\(\)"),
        ([0, 0], [3], r"begin.size\(\) == end.size\(\)"),
    ],
)
def test_region_outside(ov: Any, begin: list[int], end: list[int], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        ov.Tensor(ov.Tensor(floats()), begin, end)


def test_region_needs_corners(ov: Any) -> None:
    base = ov.Tensor(floats())
    with pytest.raises(TypeError, match=r"__init__\(\): incompatible constructor arguments"):
        ov.Tensor(base, [-1, 0], [3, 4])
    with pytest.raises(TypeError, match=r"Cannot interpret '<Tensor: shape.3,4. type: f32>' as a data type"):
        ov.Tensor(base, [0, 0])
    with pytest.raises(TypeError, match=r"Input argument must be a PIL.Image.Image"):
        ov.Tensor(base)


def test_region_set_shape(ov: Any) -> None:
    region = ov.Tensor(ov.Tensor(floats()), [1, 1], [3, 3])
    region.set_shape([1, 2])
    assert (region.data.tolist(), region.strides) == ([[5, 6]], [16, 4])
    region.set_shape([2, 2])
    with pytest.raises(RuntimeError, match=r"Cannot set new shape: \[9,9\] for ROI tensor! New dimension at index: 1"):
        region.set_shape([9, 9])
    with pytest.raises(RuntimeError, match=r"Cannot set new shape: \[2,3\] for ROI tensor! New dimension at index: 1"):
        region.set_shape([2, 3])
    with pytest.raises(RuntimeError, match=r"new_shape.size\(\) >= m_shape.size\(\)"):
        region.set_shape([4])
    assert region.shape == [2, 2]


def test_copy_from(ov: Any) -> None:
    target = ov.Tensor(ov.Type.f32, [2])
    target.copy_from(ov.Tensor(floats()))
    np.testing.assert_array_equal(target.data, floats())
    target.copy_from(floats().T)
    np.testing.assert_array_equal(target.data, floats().T)
    target.copy_from(ov.Tensor(ov.Tensor(floats()), [0, 1], [2, 3]))
    assert target.data.tolist() == [[1, 2], [5, 6]]
    target.copy_from(np.array(5, np.float32))
    assert (target.shape, target.data) == ([], 5)
    doubles = ov.Tensor(ov.Type.f64, [2])
    doubles.copy_from([[1.0], [2.0]])
    assert doubles.data.tolist() == [[1], [2]]


def test_copy_to(ov: Any) -> None:
    target = ov.Tensor(ov.Type.f32, [1])
    ov.Tensor(floats()).copy_to(target)
    np.testing.assert_array_equal(target.data, floats())
    with pytest.raises(TypeError, match=r"copy_to\(\): incompatible function arguments"):
        target.copy_to(floats())


@pytest.mark.parametrize(
    ("source", "name"), [([1, 2], "i64"), ([1.0], "f64"), (np.zeros(1, np.int32), "i32"), (["a"], "string")], ids=repr
)
def test_copy_from_another_type(ov: Any, source: Any, name: str) -> None:
    with pytest.raises(RuntimeError, match=rf"Tensor element types are not equal. \(src: {name} != dst: f32\)"):
        ov.Tensor(ov.Type.f32, [2]).copy_from(source)


@pytest.mark.parametrize("source", [3, None, (1, 2)], ids=repr)
def test_copy_from_nothing_it_takes(ov: Any, source: Any) -> None:
    with pytest.raises(TypeError, match=r"copy_from\(\): incompatible function arguments"):
        ov.Tensor(ov.Type.f32, [2]).copy_from(source)


def test_copy_into_shared_memory(ov: Any) -> None:
    array = floats()
    shared = ov.Tensor(array, shared_memory=True)
    shared.copy_from(np.full((2, 2), 9, np.float32))
    assert (shared.shape, array[0].tolist()) == ([2, 2], [9, 9, 9, 9])
    with pytest.raises(RuntimeError, match=r"Could set new shape: \[13\]"):
        shared.copy_from(np.ones(13, np.float32))


def test_copy_into_region(ov: Any) -> None:
    base = ov.Tensor(np.zeros((3, 4), np.float32))
    region = ov.Tensor(base, [1, 1], [3, 3])
    region.copy_from(np.full((2, 2), 7, np.float32))
    assert base.data.tolist() == [[0, 0, 0, 0], [0, 7, 7, 0], [0, 7, 7, 0]]
    with pytest.raises(RuntimeError, match="for ROI tensor!"):
        region.copy_from(np.ones((3, 2), np.float32))


def test_copy_of_packed_elements(ov: Any) -> None:
    target = ov.Tensor(ov.Type.u4, [1])
    target.copy_from(ov.Tensor(np.array([0x21, 0x03], np.uint8), [3], ov.Type.u4))
    assert (target.shape, target.data.tolist()) == ([3], [0x21, 0x03])


@pytest.mark.parametrize(
    ("items", "as_bytes", "as_text"),
    [
        (["a", "bc"], [b"a", b"bc"], ["a", "bc"]),
        ([b"a", b"bc"], [b"a", b"bc"], ["a", "bc"]),
        (["é"], [b"\xc3\xa9"], ["é"]),
        ([b"\xff"], [b"\xff"], ["\ufffd"]),
        (["a\0b", "c\0"], [b"a\0b", b"c"], ["a\0b", "c"]),
        ([["a"], ["b"]], [[b"a"], [b"b"]], [["a"], ["b"]]),
    ],
    ids=repr,
)
def test_strings(ov: Any, items: list[Any], as_bytes: list[Any], as_text: list[Any]) -> None:
    tensor = ov.Tensor(items)
    assert (tensor.bytes_data.tolist(), tensor.str_data.tolist()) == (as_bytes, as_text)
    assert (tensor.bytes_data.dtype.kind, tensor.str_data.dtype.kind) == ("S", "U")


def test_data_of_strings_warns(ov: Any) -> None:
    tensor = ov.Tensor(["a", "b"])
    with pytest.warns(RuntimeWarning, match="Data of string type will be copied! Please use dedicated properties"):
        data = tensor.data
    data[0] = b"x"
    assert tensor.str_data.tolist() == ["a", "b"]


def test_new_strings_are_empty(ov: Any) -> None:
    assert ov.Tensor(ov.Type.string, [2, 2]).str_data.tolist() == [["", ""], ["", ""]]
    tensor = ov.Tensor(ov.Type.string, [2])
    assert (tensor.byte_size, tensor.size, tensor.strides) == (64, 2, [32])


@pytest.mark.parametrize(
    ("attribute", "given", "expected"),
    [
        ("str_data", ["a", "b"], ["a", "b"]),
        ("bytes_data", [b"x", "y"], ["x", "y"]),
        ("str_data", np.array([b"q", b"r"]), ["q", "r"]),
        ("bytes_data", np.array([["s"], ["t"]]), ["s", "t"]),
    ],
    ids=repr,
)
def test_setting_strings(ov: Any, attribute: str, given: Any, expected: list[str]) -> None:
    tensor = ov.Tensor(ov.Type.string, [2])
    setattr(tensor, attribute, given)
    assert (tensor.shape, tensor.str_data.tolist()) == ([2], expected)


@pytest.mark.parametrize("attribute", ["str_data", "bytes_data"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a"], r"Passed array must have the same size \(number of elements\) as the Tensor!"),
        ([1, 2], "Unknown string kind passed to fill the Tensor's data!"),
        (np.array(["q", "r"], dtype=object), "Unknown string kind passed"),
        ("abc", "Invalid data to fill String Tensor!"),
        (("a", "b"), "Invalid data to fill String Tensor!"),
        (None, "Invalid data to fill String Tensor!"),
    ],
    ids=repr,
)
def test_setting_strings_that_do_not_fit(ov: Any, attribute: str, given: Any, message: str) -> None:
    tensor = ov.Tensor(["a", "b"])
    with pytest.raises(RuntimeError, match=message):
        setattr(tensor, attribute, given)
    assert tensor.str_data.tolist() == ["a", "b"]


def test_strings_of_another_type(ov: Any) -> None:
    tensor = ov.Tensor(ov.Type.f32, [2])
    for attribute in ("str_data", "bytes_data"):
        with pytest.raises(RuntimeError, match="Tensor's type must be a string!"):
            getattr(tensor, attribute)
        with pytest.raises(RuntimeError, match="element type f32, is not representable as pointer to string"):
            setattr(tensor, attribute, ["a", "b"])


def test_regions_and_copies_of_strings(ov: Any) -> None:
    tensor = ov.Tensor([["a", "b"], ["c", "d"]])
    region = ov.Tensor(tensor, [1, 0], [2, 2])
    assert (region.str_data.tolist(), region.strides) == ([["c", "d"]], [64, 32])
    region.str_data = [["x", "y"]]
    assert tensor.str_data.tolist() == [["a", "b"], ["x", "y"]]
    same = copy.copy(tensor)
    tensor.copy_from(["z"])
    assert same.str_data.tolist() == ["z"]
    target = ov.Tensor(ov.Type.string, [0])
    tensor.copy_to(target)
    assert target.str_data.tolist() == ["z"]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int16, np.int32, np.int64, np.uint16])
def test_arrays_have_numpys_own_dtypes(ov: Any, dtype: Any) -> None:
    """What reads an array's memory by the format of its elements, as memoryview does, knows no other."""
    found = ov.Tensor(ov.Type(dtype), ov.Shape([1, 2])).data
    found[:] = 3
    assert (found.dtype.byteorder, found.dtype.isbuiltin) == ("=", 1)
    assert np.asarray(found, dtype) is found
    assert memoryview(found).format == np.dtype(dtype).char
    assert ov.Type(dtype).to_dtype() == np.dtype(dtype)
    assert ov.Type(dtype).to_dtype().byteorder == "="
