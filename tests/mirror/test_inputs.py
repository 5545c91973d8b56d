"""What is taken as inputs, and how: copied, shared, cast or refused, as openvino does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

X: NDArray[np.float32] = np.array([[1, -2, 3]], np.float32)
RELU_X = [[1, 0, 3]]
BOTH = pytest.mark.parametrize("share", [False, True], ids=["copied", "shared"])


class ArrayLike:
    """What numpy takes for an array, as torch's tensors are."""

    def __init__(self, array: NDArray[np.float32] = X) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.float32]:
        return self._array.copy() if copy else self._array


def with_gaps() -> NDArray[np.float32]:
    return np.repeat(X, 2, axis=1)[:, ::2]


def read_only() -> NDArray[np.float32]:
    array = X.copy()
    array.flags.writeable = False
    return array


TAKEN: dict[str, Callable[[Any, Any], object]] = {
    "an array": lambda ov, port: X.copy(),
    "a tensor": lambda ov, port: ov.Tensor(X),
    "by name": lambda ov, port: {"data": X.copy()},
    "by position": lambda ov, port: {0: X.copy()},
    "by a bool": lambda ov, port: {False: X.copy()},
    "by port": lambda ov, port: {port: X.copy()},
    "a tensor by name": lambda ov, port: {"data": ov.Tensor(X)},
    "in a list": lambda ov, port: [X.copy()],
    "in a tuple": lambda ov, port: (X.copy(),),
    "a tensor in a list": lambda ov, port: [ov.Tensor(X)],
    "of f64": lambda ov, port: X.astype(np.float64),
    "of i64": lambda ov, port: X.astype(np.int64),
    "read-only": lambda ov, port: read_only(),
    "read-only of f64": lambda ov, port: np.broadcast_to(X.astype(np.float64), (1, 3)),
    "in Fortran's order": lambda ov, port: np.asfortranarray(X),
    "with gaps": lambda ov, port: with_gaps(),
    "backwards": lambda ov, port: X[:, ::-1].copy()[:, ::-1],
    "like an array": lambda ov, port: ArrayLike(),
    "like an array, by name": lambda ov, port: {"data": ArrayLike()},
    "like an array with gaps": lambda ov, port: ArrayLike(with_gaps()),
    "like an array with gaps, by name": lambda ov, port: {"data": ArrayLike(with_gaps())},
    "a region of a tensor": lambda ov, port: ov.Tensor(ov.Tensor(np.tile(X, (2, 2))), [0, 0], [1, 3]),
}


@BOTH
@pytest.mark.parametrize("make", TAKEN.values(), ids=TAKEN.keys())
def test_what_is_taken(runtime: Any, make: Callable[[Any, Any], object], share: bool) -> None:
    compiled = runtime.compile("relu")
    request = compiled.create_infer_request()
    inputs = make(runtime.ov, compiled.input())
    assert request.infer(inputs, share_inputs=share)[0].tolist() == RELU_X
    request.start_async(inputs, share_inputs=share)
    request.wait()
    assert request.results[0].tolist() == RELU_X


@BOTH
@pytest.mark.parametrize("nothing", [None, {}, ()])
def test_nothing_keeps_what_was_there(runtime: Any, nothing: Any, share: bool) -> None:
    request = runtime.compile("relu").create_infer_request()
    request.infer(X)
    assert request.infer(nothing, share_inputs=share)[0].tolist() == RELU_X


@BOTH
def test_inputs_that_are_left_out_keep_what_they_have(runtime: Any, share: bool) -> None:
    request = runtime.compile("two").create_infer_request()
    request.infer({"a": X, "b": X * 10})
    assert request.infer({"b": X}, share_inputs=share)["sum"].tolist() == (X * 2).tolist()
    assert request.infer([X * 4], share_inputs=share)["sum"].tolist() == (X * 5).tolist()


@BOTH
def test_results_are_taken_as_inputs(runtime: Any, share: bool) -> None:
    request = runtime.compile("two").create_infer_request()
    results = request.infer([X, X * 3])
    assert request.infer(results, share_inputs=share)["difference"].tolist() == (X * 6).tolist()


def test_an_outputs_name_sets_its_tensor(runtime: Any) -> None:
    request = runtime.compile("relu").create_infer_request()
    request.infer(X)
    assert request.infer({"out": X})[0].tolist() == RELU_X


def test_a_copy_is_written_into_the_present_tensor(runtime: Any) -> None:
    request = runtime.compile("relu").create_infer_request()
    own = np.zeros((1, 3), np.float32)
    request.set_input_tensor(runtime.ov.Tensor(own, shared_memory=True))
    request.infer(X)
    assert own.tolist() == X.tolist()


def test_a_shared_array_is_read_in_place(runtime: Any) -> None:
    request = runtime.compile("relu").create_infer_request()
    array = X.copy()
    request.infer(array, share_inputs=True)
    array[:] = 5
    assert request.infer()[0].tolist() == [[5, 5, 5]]


@pytest.mark.parametrize("value", [3.0, 3, np.float32(3), np.float64(3), np.array(3.0), np.array(3, np.float32)])
@pytest.mark.parametrize("model", ["scalar", "single"])
@pytest.mark.parametrize("is_sole", [False, True])
@BOTH
def test_scalars(runtime: Any, model: str, value: Any, is_sole: bool, share: bool) -> None:
    request = runtime.compile(model).create_infer_request()
    output = request.infer(value if is_sole else {0: value}, share_inputs=share)[0]
    assert output.shape == tuple(request.get_input_tensor().shape) == (() if model == "scalar" else (1,))
    if runtime.is_remote or model == "scalar" or isinstance(value, np.ndarray):
        # What openvino reads of a plain scalar for a [1] is memory it has freed.
        assert output.reshape(-1).tolist() == [3]


@pytest.mark.parametrize("values", [[1, -2, 3], [[1, -2, 3]]])
def test_a_list_of_numbers_is_one_tensor(runtime: Any, values: Any) -> None:
    request = runtime.compile("integers").create_infer_request()
    if isinstance(values[0], list):
        assert request.infer(values)[0].tolist() == RELU_X
        return
    with pytest.raises(RuntimeError, match=r"the model input \(shape=\[1,3\]\) and the tensor \(shape=\(3\)\)"):
        request.infer(values)


def test_a_list_of_numbers_is_not_cast(runtime: Any) -> None:
    request = runtime.compile("relu").create_infer_request()
    with pytest.raises(RuntimeError, match="with precision: f64, since the model input tensor precision is: f32"):
        request.infer([[1.0, 2.0, 3.0]])


@BOTH
@pytest.mark.parametrize("strings", [np.array(["abc", "äö"]), np.array([b"abc", b"d"]), ["abc", "äö"], [b"abc", b"d"]])
def test_strings(runtime: Any, strings: Any, share: bool) -> None:
    request = runtime.compile("text").create_infer_request()
    results = request.infer(strings, share_inputs=share)
    expected = [each if isinstance(each, str) else each.decode() for each in list(strings)]
    assert results[0].tolist() == expected
    assert results[0].dtype.kind == "U"
    raw = request.infer(strings, share_inputs=share, decode_strings=False)
    assert raw[0].tolist() == [each.encode() for each in expected]
    assert request.results[0].dtype.kind == "U"


def test_strings_are_not_shared(runtime: Any) -> None:
    request = runtime.compile("text").create_infer_request()
    with pytest.warns(RuntimeWarning, match="Result of a string type will be copied to OVDict!"):
        results = request.infer(["abc", "d"], share_outputs=True)
    assert results[0].tolist() == ["abc", "d"]


SHAPES_REFUSED_COPIED: list[tuple[str, tuple[int, ...], str]] = [
    ("relu", (2, 3), r"The input tensor size is not equal to the model input type: got \[2,3\] expecting \[1,3\]\."),
    ("relu", (3,), r"got \[3\] expecting \[1,3\]\."),
    (
        "dynamic",
        (2, 4),
        (
            r"ParameterMismatch: Can not clone with new dims. Descriptor's shape: \{0 - \?, 3\} "
            r"is incompatible with provided dimensions: \{2, 4\}\."
        ),
    ),
    ("dynamic", (2, 4, 1), r"incompatible with provided dimensions: \{2, 4, 1\}\."),
    ("bounded", (9, 3), r"shape: \{1 - 4, 3\} is incompatible with provided dimensions: \{9, 3\}\."),
]


@pytest.mark.parametrize(("model", "shape", "text"), SHAPES_REFUSED_COPIED)
def test_a_copied_array_of_another_shape(runtime: Any, model: str, shape: tuple[int, ...], text: str) -> None:
    request = runtime.compile(model).create_infer_request()
    with pytest.raises(RuntimeError, match=text):
        request.infer(np.ones(shape, np.float32))
    assert tuple(request.get_input_tensor().shape) == shape
    assert request.infer(X)[0].tolist() == RELU_X


@pytest.mark.parametrize(
    ("model", "port", "shape"),
    [("relu", "[1,3]", (2, 3)), ("dynamic", "[?,3]", (2, 4)), ("bounded", "[1..4,3]", (9, 3))],
)
def test_a_shared_array_of_another_shape(runtime: Any, model: str, port: str, shape: tuple[int, ...]) -> None:
    request = runtime.compile(model).create_infer_request()
    with pytest.raises(RuntimeError) as caught:
        request.infer(np.ones(shape, np.float32), share_inputs=True)
    assert (
        f"Can't set the input tensor with index: 0, because the model input (shape={port}) and the tensor "
        f"(shape=({'.'.join(map(str, shape))})) are incompatible"
    ) in str(caught.value)
    assert request.infer(X)[0].tolist() == RELU_X


def test_none_is_no_key(runtime: Any) -> None:
    request = runtime.compile("relu").create_infer_request()
    for share_inputs in (False, True):
        with pytest.raises((TypeError, RuntimeError)):
            request.infer({None: X}, share_inputs=share_inputs)


REFUSED: dict[str, tuple[object, bool, type[Exception], str]] = {
    "a key of another kind": ({0.5: X}, False, TypeError, "Incompatible key type for input: 0.5"),
    "a numpy integer": ({np.int64(0): X}, False, TypeError, "Incompatible key type for input: 0"),
    "a key of another kind, shared": (
        {0.5: X},
        True,
        TypeError,
        "Unsupported key type: <class 'float'> for Tensor under key: 0.5",
    ),
    "a list under a key of another kind, shared": (
        {0.5: [1.0]},
        True,
        RuntimeError,
        "Unable to cast .*<class 'float'>",
    ),
    "a list under no key, shared": ({None: [1.0]}, True, RuntimeError, "Unable to cast .*<class 'NoneType'>"),
    "an array under no key, shared": ({None: X}, True, RuntimeError, "Unable to cast .*<class 'NoneType'>"),
    "an unknown name": ({"zz": X}, False, RuntimeError, "Port for tensor name zz was not found."),
    "an unknown name, shared": ({"zz": X}, True, RuntimeError, "Port for tensor name zz was not found."),
    "a position past the end": (
        {5: X},
        False,
        RuntimeError,
        r"vector::_M_range_check: __n \(which is 5\) >= this->size\(\) \(which is 1\)",
    ),
    "too many": (
        [X, X],
        False,
        RuntimeError,
        r"vector::_M_range_check: __n \(which is 1\) >= this->size\(\) \(which is 1\)",
    ),
    "an object": (object(), False, TypeError, "Incompatible inputs of type: <class 'object'>"),
    "an object, shared": (object(), True, TypeError, "Incompatible inputs of type: <class 'object'>"),
    "an object by position": (
        {0: object()},
        False,
        TypeError,
        "Incompatible inputs of type: <class 'object'> under 0 key!",
    ),
    "None by position": ({0: None}, False, TypeError, "Incompatible inputs of type: <class 'NoneType'> under 0 key!"),
    "bytes by position": ({0: b"abc"}, False, TypeError, "Incompatible inputs of type: <class 'bytes'> under 0 key!"),
    "an object by position, shared": (
        {0: object()},
        True,
        TypeError,
        "Incompatible inputs of type: <class 'object'>",
    ),
    "text for numbers": ({0: "abc"}, False, ValueError, "could not convert string to float"),
    "a scalar of numpy's for a row, shared": (np.float32(3), True, RuntimeError, r"shape=\[1,3\].*shape=\(\)"),
    "a scalar for a row": (
        3.0,
        False,
        RuntimeError,
        r"the model input \(shape=\[1,3\]\) and the tensor \(shape=\(\)\) are incompatible",
    ),
    "an empty list": (
        [],
        False,
        RuntimeError,
        "ParameterMismatch: Failed to set tensor for input with precision: f64",
    ),
    "a list of f64": (
        [1.0, 2.0, 3.0],
        False,
        RuntimeError,
        (
            "ParameterMismatch: Failed to set tensor for input with precision: f64, "
            "since the model input tensor precision is: f32"
        ),
    ),
}


@pytest.mark.parametrize(("inputs", "share", "kind", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(runtime: Any, inputs: Any, share: bool, kind: type[Exception], text: str) -> None:
    request = runtime.compile("relu").create_infer_request()
    with pytest.raises(kind, match=text):
        request.infer(inputs, share_inputs=share)
    assert request.infer(X)[0].tolist() == RELU_X


NO_POSITION = r"get_input_tensor\(\): incompatible function arguments"
NO_CAST = r"Unable to cast Python instance of type <class 'int'> to C\+\+ type"
OUT_OF_RANGE = r"vector::_M_range_check: __n \(which is 1\) >= this->size\(\) \(which is 1\)"


@BOTH
@pytest.mark.parametrize(
    ("position", "kind", "of_an_array", "of_a_tensor"),
    [
        (-1, TypeError, NO_POSITION, NO_CAST),
        (-3, TypeError, NO_POSITION, NO_CAST),
        (2**64, TypeError, NO_POSITION, NO_CAST),
        (True, RuntimeError, OUT_OF_RANGE, "Input port for index 1 was not found! The model has only 1 inputs."),
    ],
)
def test_what_is_no_position(
    runtime: Any, position: int, kind: type[Exception], of_an_array: str, of_a_tensor: str, share: bool
) -> None:
    request = runtime.compile("relu").create_infer_request()
    for value in (X.copy(), np.float32(3), np.array(3.0)):
        with pytest.raises(kind, match=of_an_array):
            request.infer({position: value}, share_inputs=share)
    with pytest.raises(RuntimeError, match=of_a_tensor):
        request.infer({position: runtime.ov.Tensor(X)}, share_inputs=share)
    assert request.infer(X)[0].tolist() == RELU_X


@BOTH
def test_one_array_is_not_enough_for_two_inputs(runtime: Any, share: bool) -> None:
    request = runtime.compile("two").create_infer_request()
    with pytest.raises(
        RuntimeError, match=r"get_input_tensor\(\) must be called on a function with exactly one parameter"
    ):
        request.infer(X, share_inputs=share)
    with pytest.raises(RuntimeError, match=r"set_input_tensor\(\) must be called on a function with exactly one"):
        request.infer(runtime.ov.Tensor(X), share_inputs=share)


def test_a_port_of_another_model_is_found_where_it_is_alike(runtime: Any) -> None:
    request = runtime.compile("relu").create_infer_request()
    alike, foreign = runtime.compile("relu").input(), runtime.compile("two").input("a")
    assert request.infer({alike: X})[0].tolist() == RELU_X
    for inputs in ({foreign: X}, {foreign: runtime.ov.Tensor(X)}):
        with pytest.raises(RuntimeError, match="Can not find port: a"):
            request.infer(inputs)


@pytest.mark.parametrize("model", ["integers", "dynamic", "scalar"])
def test_a_port_is_alike_by_its_name_and_not_by_type_or_shape(runtime: Any, model: str) -> None:
    request = runtime.compile("relu").create_infer_request()
    other = runtime.compile(model)
    assert request.infer({other.input(): X})[0].tolist() == RELU_X
    assert request.get_tensor(other.input()).data.tolist() == X.tolist()
    with pytest.raises(RuntimeError, match="Can not find port: out"):  # whose node has another name
        request.get_tensor(other.output())


def test_a_scalar_tensor_of_the_caller_is_the_inputs_own(runtime: Any) -> None:
    request = runtime.compile("scalar").create_infer_request()
    tensor = runtime.ov.Tensor(np.array(2, np.float32))
    request.set_input_tensor(tensor)
    with pytest.raises(RuntimeError, match="The input tensor size is not equal to the model input type"):
        request.infer(X)
    assert (list(tensor.shape), tensor.data.tolist()) == ([1, 3], X.tolist())
    tensor.shape = []
    tensor.data[...] = -5
    assert request.infer()[0].tolist() == 0
