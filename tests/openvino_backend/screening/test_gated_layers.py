"""Layers of which one gates the other, as language models have them, run on a single thread, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13
from tests.openvino_backend.own_process import run_apart

from inferwire_server.core.model_options import Source
from inferwire_server.openvino_backend.sources import read_model, read_to_run

op: Any = opset13
make: Any = openvino.Model

WHOLE_ROWS = str(np.iinfo(np.uint64).max)
"""How many elements are quantized together, at most."""


def as_they_are(weights: Any) -> Any:
    return op.constant(weights)


def halved(weights: Any) -> Any:
    return op.convert(op.constant(weights.astype(np.float16)), "f32")


def in_i8(weights: Any) -> Any:
    scale = np.abs(weights).max(axis=1, keepdims=True) / 127
    return op.multiply(op.convert(op.constant(np.round(weights / scale).astype(np.int8)), "f32"), op.constant(scale))


def in_i8_beside_zero(weights: Any) -> Any:
    scaled = in_i8(weights)
    whole, scale = scaled.input_values()
    return op.multiply(op.subtract(whole, op.constant(np.zeros(scale.get_shape(), np.float32))), scale)


@pytest.mark.parametrize("shape", [(-1, -1, 64), (2, 5, 64)])
@pytest.mark.parametrize("keep", [as_they_are, halved, in_i8, in_i8_beside_zero])
@pytest.mark.parametrize("activation", ["gelu", "swish"])
def test_a_gated_layer_runs_on_one_thread_in_bf16(
    shape: Sequence[int], keep: Callable[[Any], Any], activation: str, tmp_path: Path
) -> None:
    random = np.random.default_rng(1)

    def layer(data: Any, before: int, after: int) -> Any:
        weights = random.uniform(-0.2, 0.2, (after, before)).astype(np.float32)
        return op.matmul(data, keep(weights), False, True)

    data = op.parameter(list(shape), np.float32)
    gate = layer(data, 64, 128)
    opened = op.gelu(gate, "erf") if activation == "gelu" else op.multiply(gate, op.sigmoid(gate))
    given = layer(op.multiply(opened, layer(data, 64, 128)), 128, 64)
    path = tmp_path / "model.xml"
    openvino.save_model(make([op.result(given)], [data], "m"), path, compress_to_fp16=False)
    sent = random.uniform(-1, 1, (2, 5, 64)).astype(np.float32)
    single = {"INFERENCE_NUM_THREADS": "1", "DYNAMIC_QUANTIZATION_GROUP_SIZE": WHOLE_ROWS}
    found = run_apart(path, sent, INFERENCE_PRECISION_HINT="bf16", **single)
    np.testing.assert_allclose(found, run_apart(path, sent), atol=0.1)


def test_a_layer_behind_a_product_with_a_number_is_left_as_it_is(tmp_path: Path) -> None:
    data, number = op.parameter([-1, -1, 64], np.float32), op.parameter([], np.float32)
    given = op.matmul(op.multiply(data, number), op.constant(np.ones((8, 64), np.float32)), False, True)
    openvino.save_model(make([op.result(given)], [data, number], "m"), tmp_path / "model.xml")
    core, source = openvino.Core(), Source(tmp_path / "model.xml")
    assert len(read_to_run(core, source).get_ops()) == len(read_model(core, source).get_ops())
