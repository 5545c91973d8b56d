"""How tensors are made and what they tell, against openvino's own."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from PIL import Image

from inferwire_proto.element_types import ELEMENT_TYPES

INCOMPATIBLE = r"__init__\(\): incompatible constructor arguments"


def floats() -> np.ndarray[Any, Any]:
    return np.arange(12, dtype=np.float32).reshape(3, 4)


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


def one_by_one(sizes: list[int]) -> Iterator[int]:
    yield from sizes


def test_tensor_copies_arrays(ov: Any) -> None:
    array = floats()
    tensor = ov.Tensor(array)
    assert repr(tensor) == str(tensor) == "<Tensor: shape[3,4] type: f32>"
    np.testing.assert_array_equal(tensor.data, array)
    assert not np.shares_memory(tensor.data, array)
    assert tensor.data is not tensor.data
    tensor.data[0, 0] = 9
    assert (tensor.data[0, 0], array[0, 0]) == (9, 0)
    assert ov.Tensor(read_only(floats())).data.flags.writeable
    np.testing.assert_array_equal(ov.Tensor(array.T).data, array.T)
    assert ov.Tensor(array.T).strides == [12, 4]
    assert ov.Tensor(np.array(1.0)).shape == []


def test_tensor_facts(ov: Any) -> None:
    tensor = ov.Tensor(floats())
    assert (tensor.shape, tensor.get_shape()) == ([3, 4], [3, 4])
    assert (tensor.size, tensor.get_size()) == (12, 12)
    assert (tensor.byte_size, tensor.get_byte_size()) == (48, 48)
    assert (tensor.strides, tensor.get_strides()) == ([16, 4], [16, 4])
    assert (tensor.element_type, tensor.get_element_type()) == (ov.Type.f32, ov.Type.f32)
    assert tensor.is_continuous() is True


@pytest.mark.parametrize("shape", [[0, 3], [2, 0], [2, 0, 3], [], [1, 3]], ids=repr)
def test_strides_of_small_tensors(ov: Any, shape: list[int]) -> None:
    expected: dict[tuple[int, ...], list[int]] = {
        (0, 3): [12, 4],
        (2, 0): [0, 0],
        (2, 0, 3): [0, 12, 4],
        (): [],
        (1, 3): [12, 4],
    }
    assert ov.Tensor(ov.Type.f32, shape).strides == expected[tuple(shape)]


def test_tensor_shares_arrays(ov: Any) -> None:
    array = floats()
    tensor = ov.Tensor(array, shared_memory=True)
    assert np.shares_memory(tensor.data, array)
    array[0, 0] = 7
    tensor.data[2, 3] = 8
    assert (tensor.data[0, 0], array[2, 3]) == (7, 8)
    assert np.shares_memory(ov.Tensor(array, True).data, array)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: floats().T, RuntimeError, "Passed numpy array must be C contiguous."),
        (lambda: read_only(floats()), ValueError, "array is not writeable"),
        (lambda: np.array(["a"]), RuntimeError, "String types can be only copied."),
        (lambda: np.array([1j]), RuntimeError, "Unsupported data type: complex128"),
    ],
)
def test_tensor_refuses_to_share(ov: Any, make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ov.Tensor(make(), shared_memory=True)


@pytest.mark.parametrize(
    ("shape", "name"), [([3, 4], "f32"), ([12], "i32"), ([2, 2], "f32"), ([48], "u8"), ([6], "f64"), ([2], "f16")]
)
def test_tensor_views_arrays(ov: Any, shape: list[int], name: str) -> None:
    array = floats()
    tensor = ov.Tensor(array, shape, getattr(ov.Type, name))
    assert repr(tensor) == f"<Tensor: shape[{','.join(map(str, shape))}] type: {name}>"
    assert np.shares_memory(tensor.data, array)
    assert tensor.data.tobytes() == array.tobytes()[: tensor.byte_size]


def test_tensor_view_spellings(ov: Any) -> None:
    array = floats()
    assert ov.Tensor(array, (4, 3)).shape == [4, 3]
    assert ov.Tensor(array, ov.Shape([6])).element_type == ov.Type.f32
    assert ov.Tensor(array=array, shape=[12], type=ov.Type.i32).element_type == ov.Type.i32
    assert ov.Tensor(read_only(floats()), [12], ov.Type.f32).size == 12
    with pytest.raises(RuntimeError, match=r"Passed numpy array must be C contiguous."):
        ov.Tensor(array.T, [4, 3], ov.Type.f32)
    with pytest.raises(RuntimeError, match=r"String types can be only copied."):
        ov.Tensor(np.array(["a"]), [1], ov.Type.string)
    with pytest.raises(RuntimeError, match="Unsupported data type: complex64"):
        ov.Tensor(np.zeros(1, np.complex64), [1])
    for arguments in (([2, -3],), ([2, 3], np.float32)):
        with pytest.raises(TypeError, match=INCOMPATIBLE):
            ov.Tensor(array, *arguments)


@pytest.mark.parametrize(
    ("items", "shape", "name"),
    [
        ([1, 2, 3], [3], "i64"),
        ([1.5, 2], [2], "f64"),
        ([[1, 2], [3, 4]], [2, 2], "i64"),
        ([True, False], [2], "boolean"),
        (["a", "b"], [2], "string"),
        ([b"a"], [1], "string"),
        ([], [0], "f64"),
        ([1, "a"], [2], "string"),
    ],
    ids=repr,
)
def test_tensor_of_list(ov: Any, items: list[Any], shape: list[int], name: str) -> None:
    tensor = ov.Tensor(items)
    assert (tensor.shape, tensor.element_type) == (shape, getattr(ov.Type, name))
    assert ov.Tensor(list=items).shape == shape


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([None], RuntimeError, "Unsupported data type: object"),
        ([[1, 2], [3]], ValueError, "inhomogeneous shape"),
        (np.array([1 + 2j]), RuntimeError, "Unsupported data type: complex128"),
        (np.array(["a"], dtype=object), RuntimeError, "Unsupported data type: object"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), RuntimeError, r"Unsupported data type: datetime64\[D\]"),
        *[
            (given, TypeError, r"Input argument must be a PIL.Image.Image/numpy.array/list\[int, float, str\] object")
            for given in ((1, 2), 3, "s", None, b"abc", 1.5, np.float32(1), {"a": 1}, object)
        ],
    ],
    ids=repr,
)
def test_tensor_of_nothing_it_takes(ov: Any, given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ov.Tensor(given)


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "RGBA"])
def test_tensor_of_image(ov: Any, mode: str) -> None:
    image = Image.new(mode, (2, 3), color=1)
    tensor = ov.Tensor(image)
    np.testing.assert_array_equal(tensor.data, np.array(image))
    assert ov.Tensor(image=image).element_type == ov.Type(np.array(image).dtype)


@pytest.mark.parametrize(
    ("given", "name"),
    [(np.float32, "f32"), (np.dtype("int8"), "i8"), (float, "f64"), ("float32", "f32"), (str, "string"), (None, "f64")],
)
def test_tensor_of_type(ov: Any, given: Any, name: str) -> None:
    element_type = getattr(ov.Type, name)
    for each in (given, element_type):
        tensor = ov.Tensor(each, [2, 3])
        assert (tensor.element_type, tensor.shape) == (element_type, [2, 3])
    assert ov.Tensor(element_type, ov.Shape([2])).shape == [2]
    assert ov.Tensor(type=element_type, shape=(2,)).shape == [2]


@pytest.mark.parametrize("shape", [[-1], 3, [1.5], "1"], ids=repr)
def test_tensor_of_type_needs_a_shape(ov: Any, shape: Any) -> None:
    with pytest.raises(TypeError, match=INCOMPATIBLE):
        ov.Tensor(ov.Type.f32, shape)


@pytest.mark.parametrize("make", [one_by_one, partial(map, int), np.array], ids=["generator", "map", "array"])
def test_tensor_of_sizes_that_come_one_by_one(ov: Any, make: Callable[[list[int]], Any]) -> None:
    assert ov.Tensor(ov.Type.f32, make([2, 3])).shape == [2, 3]
    assert ov.Tensor("f4", make([2, 3])).shape == [2, 3]
    assert ov.Tensor(np.zeros(6, np.float32), make([2, 3])).shape == [2, 3]
    assert ov.Tensor(ov.Tensor(floats()), make([0, 1]), make([2, 4])).shape == [2, 3]
    tensor = ov.Tensor(floats())
    tensor.shape = make([2, 3])
    assert tensor.shape == ov.Shape(make([2, 3])) == [2, 3]


@pytest.mark.parametrize(
    "make", [iter, reversed, enumerate, partial(filter, None)], ids=["iter", "reversed", "enumerate", "filter"]
)
def test_sizes_of_other_iterators(ov: Any, make: Callable[[list[int]], Any]) -> None:
    with pytest.raises(TypeError, match=INCOMPATIBLE):
        ov.Tensor(ov.Type.f32, make([2, 3]))
    with pytest.raises(TypeError, match=INCOMPATIBLE):
        ov.Shape(make([2, 3]))
    with pytest.raises(TypeError, match="incompatible function arguments"):
        ov.Tensor(floats()).shape = make([2, 3])


def test_sizes_of_tuples(ov: Any) -> None:
    with pytest.raises(TypeError):
        ov.Tensor(ov.Type.f32, zip([1], strict=True))


def test_tensors_of_a_class_of_ones_own(ov: Any) -> None:
    class Picture(ov.Tensor):
        pass

    assert repr(Picture(floats())) == "<Picture: shape[3,4] type: f32>"


def test_tensor_of_bad_types(ov: Any) -> None:
    with pytest.raises(TypeError, match="data type 'f32' not understood"):
        ov.Tensor("f32", [2])
    with pytest.raises(TypeError, match="Cannot interpret '3' as a data type"):
        ov.Tensor(3, [2])
    with pytest.raises(RuntimeError, match=r"m_element_type.is_static\(\)"):
        ov.Tensor(ov.Type.dynamic, [2])
    with pytest.raises(RuntimeError, match=r"Cannot allocate memory for type: f32 and shape: \[4611686018427387904\]"):
        ov.Tensor(ov.Type.f32, [2**62])
    with pytest.raises(TypeError, match=INCOMPATIBLE):
        ov.Tensor()
    with pytest.raises(TypeError, match=INCOMPATIBLE):
        ov.Tensor(floats(), spare=1)
    with pytest.raises(TypeError, match=INCOMPATIBLE):
        ov.Tensor(ov.Type.f32, [1], [2], [3])


@pytest.mark.parametrize("row", [row for row in ELEMENT_TYPES if not row.is_string], ids=lambda row: row.name)
def test_data_of_every_type(ov: Any, row: Any) -> None:
    tensor = ov.Tensor(getattr(ov.Type, row.name), [3, 3])
    assert tensor.data.dtype == row.storage
    assert tensor.data.nbytes == tensor.byte_size == row.byte_size([3, 3])
    assert tensor.data.ndim == (1 if row.is_packed else 2)
    assert tensor.size == 9
    tensor.data[...] = 1
    assert (tensor.data == 1).all()


@pytest.mark.parametrize(("name", "size"), [("u1", 16), ("u2", 8), ("u3", 8), ("u4", 5), ("i4", 6), ("nf4", 6)])
def test_packed_types(ov: Any, name: str, size: int) -> None:
    element_type = getattr(ov.Type, name)
    array = np.arange(1, 1 + ov.Tensor(element_type, [size]).byte_size, dtype=np.uint8)
    tensor = ov.Tensor(array, [size], element_type)
    assert tensor.data.tobytes() == array.tobytes()
    assert tensor.is_continuous()
    with pytest.raises(RuntimeError, match=f"bitwidths less then 8 bit. Tensor type: {name}"):
        _ = tensor.strides
    with pytest.raises(RuntimeError, match="bitwidths less then 8 bit"):
        ov.Tensor(tensor, [0], [size])


def test_tensor_is_opaque(ov: Any) -> None:
    tensor = ov.Tensor(floats())
    assert tensor == tensor
    assert tensor != copy.copy(tensor)
    assert tensor
    assert np.array(tensor).dtype == object
    for use in (len, iter, memoryview, pickle.dumps):
        with pytest.raises(TypeError):
            use(tensor)
    with pytest.raises(TypeError, match="not subscriptable"):
        tensor[0]
    for name in ("data", "element_type", "size", "spare"):
        with pytest.raises(AttributeError):
            setattr(tensor, name, 1)
    assert not hasattr(tensor, "__array__")
    assert not hasattr(tensor, "__dlpack__")


def test_copies_of_tensors(ov: Any) -> None:
    tensor = ov.Tensor(floats())
    same, other = copy.copy(tensor), copy.deepcopy(tensor)
    tensor.data[0, 0] = 9
    assert (same.data[0, 0], other.data[0, 0]) == (9, 0)
    same.set_shape([10, 10])
    assert (tensor.shape, other.shape) == ([10, 10], [3, 4])


def test_set_shape_of_own_memory(ov: Any) -> None:
    tensor = ov.Tensor(floats())
    start = tensor.data.ctypes.data
    tensor.set_shape([2, 2])
    assert tensor.data.tolist() == [[0, 1], [2, 3]]
    tensor.shape = (3, 4)
    assert tensor.data.ctypes.data == start
    np.testing.assert_array_equal(tensor.data, floats())
    tensor.set_shape(ov.Shape([4, 4]))
    assert (tensor.shape, tensor.data.shape) == ([4, 4], (4, 4))
    tensor.set_shape([])
    assert tensor.size == 1
    tensor.set_shape([0])
    assert tensor.data.tolist() == []


@pytest.mark.parametrize("shape", [[-1], 3, [1.5], "1"], ids=repr)
def test_set_shape_needs_a_shape(ov: Any, shape: Any) -> None:
    with pytest.raises(TypeError, match=r"set_shape\(\): incompatible function arguments"):
        ov.Tensor(floats()).set_shape(shape)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        ov.Tensor(floats()).shape = shape


def test_set_shape_of_partial_shape(ov: Any) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments"):
        ov.Tensor(floats()).set_shape(ov.PartialShape([1]))


def test_set_shape_of_shared_memory(ov: Any) -> None:
    array = floats()
    shared, view = ov.Tensor(array, shared_memory=True), ov.Tensor(array, [2, 2], ov.Type.f32)
    shared.set_shape([2, 2])
    assert shared.data.tolist() == [[0, 1], [2, 3]]
    shared.set_shape([12])
    with pytest.raises(RuntimeError, match=r"Could set new shape: \[13\]"):
        shared.set_shape([13])
    assert shared.shape == [12]
    view.set_shape([1])
    view.set_shape([4])
    with pytest.raises(RuntimeError, match=r"Could set new shape: \[5\]"):
        view.set_shape([5])
