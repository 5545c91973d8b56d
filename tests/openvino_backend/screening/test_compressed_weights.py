"""Compressed weights are what they are in however many streams a model runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.openvino_backend.backend import OpenVinoBackend
from inferwire_server.openvino_backend.sources import read_to_run

op: Any = opset13
make: Any = openvino.Model

WIDTH = 16
"""A width that no layer takes compressed in bf16."""

TAKEN_WIDTH = 64
"""A width that a product with a single matrix takes compressed."""

SUMMED = 2.0 ** (1 + np.arange(TAKEN_WIDTH) % 3)
"""Weights of a row, of which no two neighbours are alike."""

COMPILED = 8
"""How often: without the mend, many are wrong."""

ONES = np.eye(WIDTH, dtype=np.float32)


def compressed(kind: str, zero_point: int, scaled_in: str = "f32") -> Any:
    """Give weights of ones, compressed to a type, of which the zero point is taken."""
    element_type: Any = getattr(openvino.Type, kind)
    weights = op.convert(op.constant(ONES + zero_point, dtype=element_type), scaled_in)
    if not zero_point:
        return weights
    zero_points = op.constant(np.full((WIDTH, 1), zero_point), dtype=element_type)
    return op.subtract(weights, op.convert(zero_points, scaled_in))


@pytest.mark.parametrize(
    ("kind", "zero_point", "precision"),
    [
        ("f8e4m3", 0, "f32"),
        ("f8e5m2", 0, "bf16"),
        ("f8e4m3", 2, "f32"),
        ("i8", 0, "bf16"),
        ("u8", 3, "bf16"),
        ("i4", 0, "bf16"),
        ("u4", 3, "bf16"),
        ("u2", 0, "bf16"),
        ("nf4", 0, "bf16"),
        ("f4e2m1", 0, "bf16"),
    ],
)
def test_weights_are_decompressed_once_for_all_streams(
    kind: str, zero_point: int, precision: str, tmp_path: Path
) -> None:
    data = op.parameter([-1, WIDTH], np.float32)
    given = data
    for _ in range(3):
        weights = op.multiply(compressed(kind, zero_point), np.full((WIDTH, 1), 2, np.float32))
        given = op.relu(op.matmul(given, weights, False, True))
    openvino.save_model(make([op.result(given)], [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    assert_gives_eights(tmp_path / "model.xml", precision)


@pytest.mark.parametrize(("kind", "zero_point"), [("i8", 0), ("u8", 3), ("u4", 3), ("nf4", 0)])
@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("scales", [(WIDTH, 1), ()])
def test_weights_of_convolutions_are_decompressed_once_for_all_streams(
    scales: tuple[int, ...], kind: str, zero_point: int, precision: str, tmp_path: Path
) -> None:
    data = op.parameter([-1, WIDTH], np.float32)
    given = op.reshape(data, np.array([0, 0, 1, 1]), True)
    for _ in range(3):
        weights = op.multiply(compressed(kind, zero_point), np.full(scales, 2, np.float32))
        kernel, none, each = op.reshape(weights, np.array([WIDTH, WIDTH, 1, 1]), False), [0, 0], [1, 1]
        given = op.relu(op.convolution(given, kernel, each, none, none, each))
    flat = op.reshape(given, np.array([0, 0]), True)
    openvino.save_model(make([op.result(flat)], [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    assert_gives_eights(tmp_path / "model.xml", precision)


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("scaled_in", ["f32", "f16"])
def test_weights_that_come_first_are_decompressed_once_for_all_streams(
    scaled_in: str, precision: str, tmp_path: Path
) -> None:
    data = op.parameter([WIDTH, -1], np.float32)
    given = data
    for _ in range(3):
        scale = op.constant(np.full((WIDTH, 1), 2), dtype=getattr(openvino.Type, scaled_in))
        weights = op.multiply(compressed("u8", 3, scaled_in), scale)
        given = op.relu(op.matmul(op.convert(weights, "f32"), given, False, False))
    openvino.save_model(make([op.result(given)], [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    assert_gives_eights(tmp_path / "model.xml", precision)


@pytest.mark.parametrize("width", [WIDTH, TAKEN_WIDTH])
@pytest.mark.parametrize("kind", ["f8e4m3", "f32"])
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_weights_from_a_codebook_are_decompressed_once_for_all_streams(
    precision: str, kind: str, width: int, tmp_path: Path
) -> None:
    data = op.parameter([-1, WIDTH], np.float32)
    given = op.matmul(data, np.eye(WIDTH, width, dtype=np.float32), False, False)
    for _ in range(3):
        codebook = op.convert(op.constant(np.arange(8), dtype=getattr(openvino.Type, kind)), "f16")
        places = op.convert(op.constant(np.eye(width), dtype=openvino.Type.u4), "u8")
        weights = op.multiply(op.gather(codebook, places, np.int64(0)), np.full((width, 1), 2, np.float16))
        given = op.relu(op.matmul(given, op.convert(weights, "f32"), False, True))
    cut = op.matmul(given, np.eye(width, WIDTH, dtype=np.float32), False, False)
    openvino.save_model(make([op.result(cut)], [data], "m"), tmp_path / "model.xml", compress_to_fp16=True)
    assert_gives_eights(tmp_path / "model.xml", precision)


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_weights_of_several_matrices_are_decompressed_once_for_all_streams(precision: str, tmp_path: Path) -> None:
    data = op.parameter([-1, WIDTH], np.float32)
    wide = op.unsqueeze(op.matmul(data, np.eye(WIDTH, TAKEN_WIDTH, dtype=np.float32), False, False), np.array([0]))
    given = op.concat([wide, wide], 0)
    for _ in range(3):
        whole = np.broadcast_to(np.eye(TAKEN_WIDTH, dtype=np.int8), (2, TAKEN_WIDTH, TAKEN_WIDTH))
        weights = op.multiply(op.convert(op.constant(whole), "f32"), np.full((2, TAKEN_WIDTH, 1), 2, np.float32))
        given = op.relu(op.matmul(given, weights, False, True))
    mean = op.reduce_mean(given, np.array([0]), False)
    cut = op.matmul(mean, np.eye(TAKEN_WIDTH, WIDTH, dtype=np.float32), False, False)
    openvino.save_model(make([op.result(cut)], [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    assert_gives_eights(tmp_path / "model.xml", precision)


@pytest.mark.parametrize("each", [(1, TAKEN_WIDTH), (TAKEN_WIDTH, TAKEN_WIDTH)])
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_weights_have_the_scales_of_what_is_summed_up(
    precision: str, is_turned: bool, each: tuple[int, int], tmp_path: Path
) -> None:
    scale = op.constant(np.broadcast_to(SUMMED, each), dtype=openvino.Type.f32)
    weights = op.multiply(scale, op.convert(op.constant(np.ones((TAKEN_WIDTH, TAKEN_WIDTH), np.int8)), "f32"))
    assert_gives_summed(weights, precision, tmp_path / "model.xml", is_turned=is_turned)


@pytest.mark.parametrize("each", [(1, TAKEN_WIDTH), (TAKEN_WIDTH, TAKEN_WIDTH)])
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_weights_have_the_zero_points_of_what_is_summed_up(
    precision: str, each: tuple[int, int], tmp_path: Path
) -> None:
    whole = op.convert(op.constant(np.full((TAKEN_WIDTH, TAKEN_WIDTH), 8, np.uint8)), "f32")
    zero_points = op.convert(op.constant(np.broadcast_to(8 - SUMMED / 2, each), dtype=openvino.Type.u8), "f32")
    weights = op.multiply(op.subtract(whole, zero_points), np.full((TAKEN_WIDTH, 1), 2, np.float32))
    assert_gives_summed(weights, precision, tmp_path / "model.xml", is_turned=False)


@pytest.mark.parametrize(
    ("size", "precision", "rows"), [(48, "f32", 16), (96, "bf16", 16), (32, "f32", 1), (32, "bf16", 1)]
)
@pytest.mark.parametrize("kind", ["u4", "i4"])
def test_weights_have_the_scales_of_their_groups_of_any_size(
    kind: str, rows: int, size: int, precision: str, tmp_path: Path
) -> None:
    scales = np.repeat(SUMMED[np.newaxis, :4, np.newaxis], rows, axis=0)
    whole = op.constant(np.ones((16, 4, size)), dtype=getattr(openvino.Type, kind))
    grouped = op.multiply(op.convert(whole, "f32"), op.constant(scales, dtype=openvino.Type.f32))
    data = op.parameter([-1, 4 * size], np.float32)
    product = op.matmul(data, op.reshape(grouped, np.array([16, 4 * size]), False), False, True)
    openvino.save_model(make([op.result(product)], [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    options = ModelOptions("m", "CPU", {"INFERENCE_PRECISION_HINT": precision})
    slot = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), options).create_slot()
    given = np.repeat(np.eye(4, dtype=np.float32), size, axis=1)
    (found,) = slot.run([Tensor(BY_NAME["f32"], given.shape, given.tobytes())], [0])
    summed = np.frombuffer(found.data, np.float32).reshape(found.shape)
    np.testing.assert_array_equal(summed[:, 0], size * SUMMED[:4])


def assert_gives_summed(weights: Any, precision: str, path: Path, *, is_turned: bool) -> None:
    data = op.parameter([-1, TAKEN_WIDTH], np.float32)
    if is_turned:
        weights = op.transpose(weights, np.array([1, 0]))
    product = op.matmul(data, weights, False, not is_turned)
    openvino.save_model(make([op.result(product)], [data], "m"), path, compress_to_fp16=False)
    options = ModelOptions("m", "CPU", {"INFERENCE_PRECISION_HINT": precision})
    slot = OpenVinoBackend().compile(Source(path), options).create_slot()
    given = np.eye(4, TAKEN_WIDTH, dtype=np.float32)
    (found,) = slot.run([Tensor(BY_NAME["f32"], given.shape, given.tobytes())], [0])
    summed = np.frombuffer(found.data, np.float32).reshape(found.shape)
    np.testing.assert_array_equal(summed[:, 0], SUMMED[:4])


def assert_gives_eights(path: Path, precision: str) -> None:
    """Compile a model of three layers, each of which doubles, as often as it takes to see that each does so once."""
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": "2", "INFERENCE_PRECISION_HINT": precision})
    for _ in range(COMPILED):
        slot = OpenVinoBackend().compile(Source(path), options).create_slot()
        (found,) = slot.run([Tensor(BY_NAME["f32"], ONES.shape, ONES.tobytes())], [0])
        np.testing.assert_array_equal(np.frombuffer(found.data, np.float32).reshape(found.shape), ONES * 8)


@pytest.mark.parametrize("width", [64, 128])
def test_weights_that_a_layer_takes_compressed_stay_so(width: int, tmp_path: Path) -> None:
    data = op.parameter([-1, width], np.float32)
    weights = op.convert(op.constant(np.ones((8, width), np.int8)), "f32")
    product = op.matmul(data, op.multiply(weights, np.full((8, 1), 2, np.float32)), False, True)
    openvino.save_model(make([op.result(product)], [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    nodes: list[Any] = read_to_run(openvino.Core(), Source(tmp_path / "model.xml")).get_ordered_ops()
    (scaled,) = [node for node in nodes if node.get_type_name() == "Multiply"]
    assert scaled.input_value(0).get_node().get_type_name() == "Convert"
