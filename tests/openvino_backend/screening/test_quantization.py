"""Quantized models compile and give what they should, where OpenVINO itself ends the process or gives something else.

Where the process may end, each is compiled in one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import openvino
import pytest
from openvino import opset13
from tests.openvino_backend.own_process import run_apart

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.openvino_backend.backend import OpenVinoBackend
from inferwire_server.openvino_backend.sources import read_model, read_to_run

op: Any = opset13
make: Any = openvino.Model

Layer: TypeAlias = Callable[[Any], Any]

DATA = np.random.default_rng(1).integers(0, 8, (2, 4, 3, 4)).astype(np.float32)
WEIGHTS = np.random.default_rng(2).integers(-7, 8, (5, 4)).astype(np.int8)
SCALE = np.array([[0.5]], np.float32)
SCALES = np.array([[0.5], [0.25], [1], [2], [4]], np.float32)


def quantized(data: Any) -> Any:
    """Quantize data to whole numbers from -1 on: zero is not the least of them."""
    low, high = op.constant(np.float32(-1)), op.constant(np.float32(254))
    return op.fake_quantize(data, low, high, low, high, 256)


def positive(data: Any) -> Any:
    """Quantize data to whole numbers from 0 on."""
    low, high = op.constant(np.float32(0)), op.constant(np.float32(255))
    return op.fake_quantize(data, low, high, low, high, 256)


def weights(scales: np.ndarray) -> Any:
    """Give the weights as NNCF writes them: small integers, times their scales."""
    return op.multiply(op.convert(op.constant(WEIGHTS), "f32"), op.constant(scales))


def with_one_scale(data: Any) -> Any:
    return op.matmul(quantized(data), weights(SCALE), False, True)


def with_scales(data: Any) -> Any:
    return op.matmul(quantized(data), weights(SCALES), False, True)


def with_quantized_weights(data: Any) -> Any:
    made = op.constant(WEIGHTS * SCALE)
    low, high = op.constant(np.float32(-63.5)), op.constant(np.float32(63.5))
    return op.matmul(quantized(data), op.fake_quantize(made, low, high, low, high, 255), False, True)


def in_rows(data: Any) -> Any:
    rows = op.reshape(quantized(data), op.constant(np.array([-1, 4])), False)
    return op.reshape(op.matmul(rows, weights(SCALE), False, True), op.constant(np.array([2, 4, 3, 5])), False)


def with_a_bias_of_zero(data: Any) -> Any:
    return op.add(with_one_scale(data), op.constant(np.zeros(5, np.float32)))


def twice(data: Any) -> Any:
    return op.multiply(op.constant(np.float32(2)), with_one_scale(data))


def convolution(data: Any) -> Any:
    kernel = op.reshape(weights(SCALES), op.constant(np.array([5, 4, 1, 1])), False)
    return op.convolution(quantized(data), kernel, [1, 1], [0, 0], [0, 0], [1, 1])


MATMUL, CONVOLUTION = "nchw,ow->ncho", "nchw,oc->nohw"

LAYERS = [
    (with_one_scale, MATMUL, SCALE),
    (with_scales, MATMUL, SCALES),
    (with_quantized_weights, MATMUL, SCALE),
    (in_rows, MATMUL, SCALE),
    (with_a_bias_of_zero, MATMUL, SCALE),
    (twice, MATMUL, 2 * SCALE),
    (convolution, CONVOLUTION, SCALES),
]


def gathering(layer: Layer, indices: Any, shape: Sequence[int], path: Path) -> Any:
    """Write a model that takes something of the third dimension of what a layer gives."""
    data = op.parameter(shape, np.float32)
    taken = op.gather(layer(data), op.constant(np.array(indices)), op.constant(2))
    openvino.save_model(make([op.result(taken)], [data], "m"), path, compress_to_fp16=False)


@pytest.mark.parametrize(("layer", "sums", "scales"), LAYERS)
def test_a_gather_takes_what_a_quantized_layer_gives(
    layer: Layer, sums: str, scales: np.ndarray, tmp_path: Path
) -> None:
    gathering(layer, 1, DATA.shape, tmp_path / "model.xml")
    given = np.einsum(sums, DATA, WEIGHTS * scales)
    np.testing.assert_array_equal(run_apart(tmp_path / "model.xml", DATA), given[:, :, 1])


@pytest.mark.parametrize("indices", [-1, [1], [[2, 0]]])
@pytest.mark.parametrize("shape", [DATA.shape, (-1, 4, -1, 4)])
def test_a_gather_takes_any_elements_of_a_quantized_layer(indices: Any, shape: Sequence[int], tmp_path: Path) -> None:
    gathering(with_one_scale, indices, shape, tmp_path / "model.xml")
    given = np.einsum(MATMUL, DATA, WEIGHTS * SCALE)
    np.testing.assert_array_equal(run_apart(tmp_path / "model.xml", DATA), np.take(given, indices, axis=2))


def test_a_layer_of_which_several_gathers_take_something_is_clamped_once_as_it_writes(tmp_path: Path) -> None:
    data = op.parameter([2, 3, 4], np.float32)
    parts = op.reshape(with_scales(data), op.constant(np.array([2, 3, 5, 1])), False)
    parts = op.transpose(parts, op.constant(np.array([2, 0, 1, 3])))
    taken = [op.gather(parts, op.constant(index), op.constant(0)) for index in range(3)]
    openvino.save_model(make([op.result(each) for each in taken], [data], "m"), tmp_path / "model.xml")
    nodes: list[Any] = read_to_run(openvino.Core(), Source(tmp_path / "model.xml")).get_ordered_ops()
    (clamp,) = [node for node in nodes if node.get_type_name() == "Clamp"]
    assert clamp.input_value(0).get_node().get_type_name() == "MatMul"


def relu(data: Any) -> Any:
    return op.relu(data)


def clamp(data: Any) -> Any:
    return op.clamp(data, 0, 300)


def nothing(data: Any) -> Any:
    return data


def two_layers(between: Layer, rows: int, path: Path) -> None:
    data = op.parameter([rows, 4], np.float32)
    first = op.matmul(positive(data), weights(4 * SCALES), False, True)
    last = op.matmul(positive(between(first)), weights(SCALE), False, False)
    openvino.save_model(make([op.result(last)], [data], "m"), path, compress_to_fp16=False)


@pytest.mark.parametrize("rows", [4, 8])
@pytest.mark.parametrize("between", [nothing, relu, clamp])
def test_quantized_layers_that_follow_upon_one_another_give_what_they_should(
    rows: int, between: Layer, tmp_path: Path
) -> None:
    two_layers(between, rows, tmp_path / "model.xml")
    options = ModelOptions("m", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    model = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), options)
    given = DATA.reshape(-1, 4)[:rows]
    (found,) = model.create_slot().run([Tensor(BY_NAME["f32"], given.shape, given.tobytes())], [0])
    hidden = np.clip(given @ (4 * SCALES * WEIGHTS).T, 0, 255)
    np.testing.assert_array_equal(np.frombuffer(found.data, np.float32).reshape(rows, 4), hidden @ (SCALE * WEIGHTS))


def test_quantized_layers_with_another_activation_between_are_left_as_they_are(tmp_path: Path) -> None:
    two_layers(op.sigmoid, 4, tmp_path / "model.xml")
    core, source = openvino.Core(), Source(tmp_path / "model.xml")
    assert kinds(read_to_run(core, source)) == kinds(read_model(core, source))


def plain(data: Any) -> Any:
    return op.matmul(data, op.constant(WEIGHTS * SCALE), False, True)


def of_plain_data(data: Any) -> Any:
    return op.matmul(data, weights(SCALES), False, True)


def behind_another_operation(data: Any) -> Any:
    return op.softmax(with_scales(data), -1)


@pytest.mark.parametrize("layer", [plain, of_plain_data, behind_another_operation, quantized])
def test_what_a_gather_takes_from_elsewhere_is_left_as_it_is(layer: Layer, tmp_path: Path) -> None:
    gathering(layer, 1, DATA.shape, tmp_path / "model.xml")
    assert "Clamp" not in kinds(read_to_run(openvino.Core(), Source(tmp_path / "model.xml")))


def kinds(model: openvino.Model) -> list[str]:
    nodes: list[Any] = model.get_ordered_ops()
    return [node.get_type_name() for node in nodes]
