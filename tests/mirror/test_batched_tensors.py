"""Several tensors as the batch of one input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from numpy.typing import NDArray
from openvino import opset13 as op
from tests.mirror.conftest import make_model

import inferwire


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models whose first dimension is their batch, and says so, which openvino wants."""
    folder = tmp_path_factory.mktemp("batched")
    for name, shape, element_type in (("two", [2, 3], np.float32), ("any", [-1, 3], np.float32), ("int", [2, 3], int)):
        openvino.save_model(relu(shape, element_type, ["data"]), folder / f"{name}.xml", compress_to_fp16=False)
    openvino.save_model(relu([2, 3], np.float32, ["a", "b"]), folder / "inputs.xml", compress_to_fp16=False)
    return folder


def relu(shape: list[int], element_type: Any, names: list[str]) -> openvino.Model:
    inputs = [op.parameter(shape, element_type, name=name) for name in names]
    results = [op.result(op.relu(each)) for each in inputs]
    for parameter, result, name in zip(inputs, results, names, strict=True):
        parameter.set_layout(openvino.Layout("N..."))
        parameter.output(0).get_tensor().set_names({name})
        result.output(0).get_tensor().set_names({f"{name}_out"})
    return make_model(results, inputs, "batched")


@pytest.fixture
def request_of(runtime: Any, folder: Path) -> Callable[[str], Any]:
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    return lambda name: runtime.core.compile_model(folder / f"{name}.xml", "CPU", config).create_infer_request()


def row(value: float, dtype: Any = np.float32) -> NDArray[Any]:
    return np.full((1, 3), value, dtype)


def rows(ov: Any, *values: float) -> list[Any]:
    return [ov.Tensor(row(value)) for value in values]


WAYS: dict[str, Callable[[Any, Any, Any], None]] = {
    "a list": lambda ov, request, tensors: request.set_input_tensors(tensors),
    "a vector": lambda ov, request, tensors: request.set_input_tensors(ov.TensorVector(tensors)),
    "by position": lambda ov, request, tensors: request.set_input_tensors(0, tensors),
    "by name": lambda ov, request, tensors: request.set_tensors("data", tensors),
    "by port": lambda ov, request, tensors: request.set_tensors(request.model_inputs[0], tensors),
    "a vector by name": lambda ov, request, tensors: request.set_tensors("data", ov.TensorVector(tensors)),
}


@pytest.mark.parametrize("give", WAYS.values(), ids=WAYS.keys())
def test_tensors_make_a_batch(runtime: Any, request_of: Any, give: Callable[..., None]) -> None:
    request = request_of("two")
    give(runtime.ov, request, rows(runtime.ov, 1, -2))
    assert request.infer()[0].tolist() == [[1] * 3, [0] * 3]
    request.start_async()
    request.wait()
    assert request.results[0].tolist() == [[1] * 3, [0] * 3]


def test_a_dynamic_batch_is_as_long_as_it_is_given(runtime: Any, request_of: Any) -> None:
    request = request_of("any")
    for count in (3, 5):
        request.set_input_tensors(rows(runtime.ov, *range(count)))
        assert request.infer()[0][:, 0].tolist() == list(range(count))


def test_the_tensors_are_read_anew(runtime: Any, request_of: Any) -> None:
    request, tensors = request_of("two"), rows(runtime.ov, 1, 2)
    request.set_input_tensors(tensors)
    tensors[1].data[:] = 9
    assert request.infer()[0].tolist() == [[1] * 3, [9] * 3]
    tensors[0].data[:] = 8
    assert request.infer()[0].tolist() == [[8] * 3, [9] * 3]


def test_the_joined_tensor_cannot_be_had(runtime: Any, request_of: Any) -> None:
    request = request_of("two")
    request.set_input_tensors(rows(runtime.ov, 1, 2))
    for get in (
        lambda: request.get_tensor("data"),
        lambda: request.get_input_tensor(),
        lambda: request.input_tensors,
        lambda: request.infer(np.zeros((2, 3), np.float32)),
        lambda: request.infer({0: np.zeros((2, 3), np.float32)}),
    ):
        with pytest.raises(RuntimeError, match="get_tensor shall not be used together with batched set_tensors"):
            get()
    assert request.infer()[0].tolist() == [[1] * 3, [2] * 3]


def test_a_single_tensor_takes_the_place_of_a_batch(runtime: Any, request_of: Any) -> None:
    request = request_of("two")
    whole = runtime.ov.Tensor(np.full((2, 3), 5, np.float32))

    def as_a_list(tensor: Any) -> None:
        request.set_input_tensors([tensor])

    for give in (request.set_input_tensor, request.infer, as_a_list):
        request.set_input_tensors(rows(runtime.ov, 1, 2))
        give(whole)
        assert request.infer()[0].tolist() == [[5] * 3] * 2
        assert tuple(request.get_input_tensor().shape) == (2, 3)


def test_one_of_several_inputs_takes_a_batch(runtime: Any, request_of: Any) -> None:
    request = request_of("inputs")
    request.set_input_tensors(1, rows(runtime.ov, 1, 2))
    request.set_input_tensor(0, runtime.ov.Tensor(np.ones((2, 3), np.float32)))
    assert request.infer()["b_out"].tolist() == [[1] * 3, [2] * 3]
    assert tuple(request.get_input_tensor(0).shape) == (2, 3)
    with pytest.raises(RuntimeError, match=r"set_input_tensors\(tensors\) must be used for single-input models only"):
        request.set_input_tensors(rows(runtime.ov, 1, 2))


REFUSED: dict[str, tuple[Callable[[Any, Any], None], type[Exception], str]] = {
    "none": (lambda ov, request: request.set_input_tensors([]), RuntimeError, "can't be called with empty tensors"),
    "too many": (
        lambda ov, request: request.set_input_tensors(rows(ov, 1, 2, 3)),
        RuntimeError,
        r"Input shape \[2,3\] ?batch 2 ?doesn't match with total blobs count: 3",
    ),
    "too few": (
        lambda ov, request: request.set_input_tensors(rows(ov, 1)),
        RuntimeError,
        r"the model input \(shape=\[2,3\]\) and the tensor \(shape=\(1.3\)\) are incompatible",
    ),
    "two items each": (
        lambda ov, request: request.set_input_tensors([ov.Tensor(np.ones((2, 3), np.float32))] * 2),
        RuntimeError,
        "Tensors shall represent one item in a batch, 2 provided",
    ),
    "different shapes": (
        lambda ov, request: request.set_input_tensors([*rows(ov, 1), ov.Tensor(np.ones((1, 4), np.float32))]),
        RuntimeError,
        "is not compatible with batched tensor",
    ),
    "an unknown name": (
        lambda ov, request: request.set_tensors("zz", rows(ov, 1, 2)),
        RuntimeError,
        "zz was not found",
    ),
    "an output": (
        lambda ov, request: request.set_tensors("data_out", rows(ov, 1, 2)),
        RuntimeError,
        "Input port for tensor name data_out was not found",
    ),
    "a position past the end": (
        lambda ov, request: request.set_input_tensors(5, rows(ov, 1, 2)),
        RuntimeError,
        "Input port for index 5 is out of bounds. Model has only 1 inputs",
    ),
    "arrays": (lambda ov, request: request.set_input_tensors([row(1), row(2)]), RuntimeError, "Unable to cast"),
    "arrays by name": (
        lambda ov, request: request.set_input_tensors("data", [row(1), row(2)]),
        TypeError,
        "incompatible function arguments",
    ),
    "arrays by position, which set_tensors takes for no input": (
        lambda ov, request: request.set_tensors(0, [row(1), row(2)]),
        TypeError,
        "incompatible function arguments",
    ),
    "a tuple": (
        lambda ov, request: request.set_input_tensors(tuple(rows(ov, 1, 2))),
        TypeError,
        "incompatible function arguments",
    ),
    "a list without a port": (
        lambda ov, request: request.set_tensors(rows(ov, 1, 2)),
        TypeError,
        "incompatible function arguments",
    ),
}


@pytest.mark.parametrize(("give", "error", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_makes_no_batch_is_refused(
    runtime: Any, request_of: Any, give: Callable[..., None], error: type[Exception], text: str
) -> None:
    request = request_of("two")
    request.set_input_tensors(rows(runtime.ov, 1, 2))
    with pytest.raises(error, match=text):
        give(runtime.ov, request)
    assert request.infer()[0].tolist() == [[1] * 3, [2] * 3]


def test_another_type_is_refused_where_openvino_misreads_it(server_address: str, folder: Path) -> None:
    request = inferwire.Core(server_address).compile_model(folder / "int.xml", "CPU").create_infer_request()
    with pytest.raises(RuntimeError, match="ParameterMismatch: Failed to set tensor for input with precision: f32"):
        request.set_input_tensors(rows(inferwire, 1, 2))


def test_what_are_no_tensors_are_told_by_their_type(runtime: Any, request_of: Any) -> None:
    """Lists of a picture's numbers would make a text of megabytes."""
    pictures = [rows(runtime.ov, 1)[0], [[0.5] * 100_000]]
    with pytest.raises(RuntimeError, match=r"Unable to cast .*<class 'list'>") as refusal:
        request_of("two").set_input_tensors(pictures)
    assert len(str(refusal.value)) < 500


def test_a_vector_is_a_list_of_tensors(runtime: Any) -> None:
    ov = runtime.ov
    vector = ov.TensorVector(rows(ov, 1, 2))
    vector.append(ov.Tensor(row(3)))
    vector.insert(0, ov.Tensor(row(0)))
    vector.extend(ov.TensorVector(rows(ov, 4)))
    assert [tensor.data[0, 0] for tensor in vector] == [0, 1, 2, 3, 4]
    assert vector.pop().data[0, 0] == 4
    assert (len(vector), bool(vector), bool(ov.TensorVector())) == (4, True, False)
    assert isinstance(vector[1:3], ov.TensorVector)
    vector[1:3] = ov.TensorVector(rows(ov, 7, 8))
    vector[0] = ov.Tensor(row(6))
    assert [tensor.data[0, 0] for tensor in vector] == [6, 7, 8, 3]
    del vector[0]
    vector.clear()
    assert len(vector) == 0
    with pytest.raises(IndexError):
        vector[5]
    with pytest.raises(TypeError, match="incompatible function arguments"):
        vector.append(3)
