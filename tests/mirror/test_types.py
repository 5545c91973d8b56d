"""Types, shapes, dimensions and layouts, against openvino's own."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from inferwire_proto.element_types import ELEMENT_TYPES

NAMES = ["dynamic", *(row.name for row in ELEMENT_TYPES)]

# What openvino 2026.4.1 says of each type: repr, size, bitwidth, real, integral_number, signed, quantized.
FACTS: dict[str, tuple[str, int, int, bool, bool, bool, bool]] = {
    "dynamic": ("dynamic", 0, 0, False, True, False, False),
    "boolean": ("char", 1, 8, False, False, True, False),
    "bf16": ("bfloat16", 2, 16, True, False, True, False),
    "f16": ("float16", 2, 16, True, False, True, False),
    "f32": ("float32", 4, 32, True, False, True, False),
    "f64": ("double64", 8, 64, True, False, True, False),
    "f8e4m3": ("f8e4m3", 1, 8, True, False, True, True),
    "f8e5m2": ("f8e5m2", 1, 8, True, False, True, True),
    "f8e8m0": ("f8e8m0", 1, 8, True, False, True, True),
    "f4e2m1": ("f4e2m1", 1, 4, True, False, True, True),
    "nf4": ("nfloat4", 1, 4, False, True, False, True),
    "i4": ("int4_t", 1, 4, False, True, True, True),
    "i8": ("int8_t", 1, 8, False, True, True, True),
    "i16": ("int16_t", 2, 16, False, True, True, False),
    "i32": ("int32_t", 4, 32, False, True, True, True),
    "i64": ("int64_t", 8, 64, False, True, True, False),
    "u1": ("uint1_t", 1, 1, False, True, False, False),
    "u2": ("uint2_t", 1, 2, False, True, False, False),
    "u3": ("uint3_t", 1, 3, False, True, False, False),
    "u4": ("uint4_t", 1, 4, False, True, False, False),
    "u6": ("uint6_t", 1, 6, False, True, False, False),
    "u8": ("uint8_t", 1, 8, False, True, False, True),
    "u16": ("uint16_t", 2, 16, False, True, False, False),
    "u32": ("uint32_t", 4, 32, False, True, False, False),
    "u64": ("uint64_t", 8, 64, False, True, False, False),
    "string": ("string", 32, 256, False, True, False, False),
}


@pytest.mark.parametrize("name", NAMES)
def test_type_facts(ov: Any, name: str) -> None:
    spoken, size, bitwidth, real, integral_number, signed, quantized = FACTS[name]
    each = getattr(ov.Type, name)
    assert repr(each) == str(each) == f"<Type: '{spoken}'>"
    assert each.type_name == each.get_type_name() == each.to_string() == name
    assert (each.size, each.get_size()) == (size, size)
    assert (each.bitwidth, each.get_bitwidth()) == (bitwidth, bitwidth)
    assert each.real is each.is_real() is real
    assert each.integral is each.is_integral() is not real
    assert each.integral_number is each.is_integral_number() is integral_number
    assert each.signed is each.is_signed() is signed
    assert each.quantized is each.is_quantized() is quantized
    assert each.is_dynamic() is not each.is_static() is (name != "dynamic")


@pytest.mark.parametrize("row", ELEMENT_TYPES, ids=lambda row: row.name)
def test_type_gives_its_dtype(ov: Any, row: Any) -> None:
    assert getattr(ov.Type, row.name).to_dtype() == (row.storage or np.dtype("S"))


def test_dynamic_type_has_no_dtype(ov: Any) -> None:
    with pytest.raises(IndexError, match="map::at"):
        ov.Type.dynamic.to_dtype()


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        *[(np.dtype(row.storage), row.name) for row in ELEMENT_TYPES if row.oip and row.storage and row.name != "bf16"],
        (np.float32, "f32"),
        (float, "f64"),
        (int, "i64"),
        (bool, "boolean"),
        (str, "string"),
        (bytes, "string"),
        (np.dtype("U3"), "string"),
        ("float32", "f32"),
        (None, "f64"),
        (np.dtype(">f4"), "f32"),
    ],
    ids=str,
)
def test_type_of_dtype(ov: Any, dtype: Any, name: str) -> None:
    assert ov.Type(dtype) == getattr(ov.Type, name)


@pytest.mark.parametrize("dtype", ["complex64", "O", "datetime64"])
def test_type_of_unsupported_dtype(ov: Any, dtype: str) -> None:
    with pytest.raises(RuntimeError, match=f"Unsupported data type: {np.dtype(dtype)}"):
        ov.Type(np.dtype(dtype))


@pytest.mark.parametrize("given", ["f32", 3])
def test_type_of_no_dtype(ov: Any, given: Any) -> None:
    with pytest.raises(TypeError):
        ov.Type(given)


def test_type_equality(ov: Any) -> None:
    assert ov.Type.f32 == ov.Type.f32
    assert ov.Type.f32 is ov.Type.f32
    assert ov.Type.f32 != ov.Type.f16
    assert ov.Type.f32 != "f32"
    assert ov.Type.f32 != np.dtype("float32")
    assert {ov.Type.f32: 1}[ov.Type.f32] == 1
    with pytest.raises(AttributeError):
        ov.Type.f32.spare = 1


def test_type_merge(ov: Any) -> None:
    f32, f16, dynamic = ov.Type.f32, ov.Type.f16, ov.Type.dynamic
    assert f32.merge(f32) == f32.merge(dynamic) == dynamic.merge(f32) == f32
    assert f32.merge(f16) is None
    assert f32.compatible(dynamic)
    assert not f32.compatible(f16)
    with pytest.raises(TypeError, match=r"compatible\(\): incompatible function arguments"):
        f32.compatible("f32")


VALUES: list[Callable[[Any], Any]] = [
    lambda ov: ov.Type.f32,
    lambda ov: ov.Shape([1]),
    lambda ov: ov.Dimension(1),
    lambda ov: ov.Layout("NC"),
]


@pytest.mark.parametrize("make", VALUES)
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_values_are_not_copied(ov: Any, make: Callable[[Any], Any], how: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        how(make(ov))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([1, 2], "[1,2]"),
        ((1, 2), "[1,2]"),
        ("1,2", "[1,2]"),
        ("[1,2]", "[1,2]"),
        ("18446744073709551615", "[18446744073709551615]"),
        ("", "[]"),
        ([], "[]"),
        (np.array([1, 2]), "[1,2]"),
        ([np.int64(1)], "[1]"),
        ([True], "[1]"),
    ],
    ids=repr,
)
def test_shape_text(ov: Any, given: Any, text: str) -> None:
    shape = ov.Shape(given)
    assert str(shape) == shape.to_string() == text
    assert repr(shape) == f"<Shape: {text}>"
    assert repr(ov.Shape(shape)) == f"<Shape: {text}>"


@pytest.mark.parametrize("given", [[1, -2], [1.5], 3, np.int64(3), [2**70], [1, "a"], [None], None], ids=repr)
def test_shape_of_no_sizes(ov: Any, given: Any) -> None:
    with pytest.raises(TypeError, match=r"__init__\(\): incompatible constructor arguments"):
        ov.Shape(given)


def test_sizes_of_what_has_no_length(ov: Any) -> None:
    for make in (ov.Shape, ov.Strides, ov.Coordinate, partial(ov.Tensor, ov.Type.f32)):
        with pytest.raises(TypeError, match=r"len\(\) of unsized object"):
            make(np.array(3))
        with pytest.raises(RuntimeError, match=r"rank\(\)\.is_static\(\)"):
            make(ov.PartialShape("..."))


@pytest.mark.parametrize("text", ["1,,2", "1,"])
def test_shape_of_empty_field(ov: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match="Cannot get vector of dimensions!"):
        ov.Shape(text)


def test_shape_is_a_sequence(ov: Any) -> None:
    shape = ov.Shape([1, 2, 3])
    assert (len(shape), shape[0], shape[-1], list(shape), tuple(reversed(shape))) == (3, 1, 3, [1, 2, 3], (3, 2, 1))
    assert shape[0:2] == ov.Shape([1, 2])
    assert 2 in shape
    assert not ov.Shape([])
    assert np.zeros(shape).shape == (1, 2, 3)
    shape[0] = 5
    shape[1] = ov.Dimension(6)
    assert shape == [5, 6, 3]
    for index in ("a", 1.0):
        with pytest.raises(TypeError, match=r"__getitem__\(\): incompatible function arguments"):
            shape[index]
    with pytest.raises(TypeError, match=r"__setitem__\(\): incompatible function arguments"):
        shape[-1] = 5
    with pytest.raises(TypeError, match=r"__setitem__\(\): incompatible function arguments"):
        shape[0] = "a"
    with pytest.raises(RuntimeError, match="Cannot get length of dynamic dimension"):
        shape[0] = ov.Dimension()


def test_shape_equality(ov: Any) -> None:
    shape = ov.Shape([1, 2])
    assert shape == [1, 2] == shape == (1, 2)
    assert shape == ov.PartialShape([1, 2])
    assert shape != (1, 3)
    assert shape != [1, 2, 3]
    assert shape != "x"
    assert shape != 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(shape)


def test_strides(ov: Any) -> None:
    strides = ov.Strides([12, 4])
    assert (repr(strides), str(strides), list(strides)) == ("<Strides: (12, 4)>", "12, 4", [12, 4])
    assert strides == [12, 4] == strides == (12, 4)
    assert strides == ov.Strides(ov.Strides([12, 4]))
    assert strides != [1]
    strides[0] = 5
    assert strides[0] == 5
    for index in (-1, slice(0, 1)):
        with pytest.raises(TypeError, match=r"__getitem__\(\): incompatible function arguments"):
            strides[index]
    with pytest.raises(TypeError, match="unhashable"):
        hash(strides)
    for given in ([-1], "1", [1.5]):
        with pytest.raises(TypeError, match=r"__init__\(\): incompatible constructor arguments"):
            ov.Strides(given)


def test_coordinate(ov: Any) -> None:
    coordinate = ov.Coordinate([1, 2])
    assert (repr(coordinate), len(coordinate), list(ov.Coordinate(coordinate))) == ("<Coordinate>", 2, [1, 2])
    assert coordinate != ov.Coordinate([1, 2])
    assert coordinate != [1, 2]
    assert list(ov.Coordinate(ov.Shape([3]))) == [3]
    assert ov.Shape(coordinate) == [1, 2]
    assert isinstance(hash(coordinate), int)
    coordinate[0] = 5
    assert coordinate[0] == 5
    with pytest.raises(TypeError, match="incompatible"):
        coordinate[-1]
    with pytest.raises(TypeError, match=r"__init__\(\): incompatible constructor arguments"):
        ov.Coordinate([-1])
