"""Layers of which one gates the other, as language models have them, run on a single thread, too."""

from __future__ import annotations

from collections.abc import Sequence
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


@pytest.mark.parametrize("shape", [(-1, -1, 64), (2, 5, 64)])
@pytest.mark.parametrize("are_weights_compressed", [False, True])
@pytest.mark.parametrize("activation", ["gelu", "swish"])
def test_a_gated_layer_runs_on_one_thread_in_bf16(
    shape: Sequence[int], are_weights_compressed: bool, activation: str, tmp_path: Path
) -> None:
    random = np.random.default_rng(1)

    def layer(data: Any, before: int, after: int) -> Any:
        weights = op.constant(random.uniform(-0.2, 0.2, (after, before)).astype(np.float32))
        return op.matmul(data, weights, False, True)

    data = op.parameter(list(shape), np.float32)
    gate = layer(data, 64, 96)
    opened = op.gelu(gate, "erf") if activation == "gelu" else op.multiply(gate, op.sigmoid(gate))
    given = layer(op.multiply(opened, layer(data, 64, 96)), 96, 64)
    path = tmp_path / "model.xml"
    openvino.save_model(make([op.result(given)], [data], "m"), path, compress_to_fp16=are_weights_compressed)
    sent = random.uniform(-1, 1, (2, 5, 64)).astype(np.float32)
    found = run_apart(path, sent, INFERENCE_PRECISION_HINT="bf16", INFERENCE_NUM_THREADS="1")
    np.testing.assert_allclose(found, run_apart(path, sent), atol=0.1)


def test_a_layer_behind_a_product_with_a_number_is_left_as_it_is(tmp_path: Path) -> None:
    data, number = op.parameter([-1, -1, 64], np.float32), op.parameter([], np.float32)
    given = op.matmul(op.multiply(data, number), op.constant(np.ones((8, 64), np.float32)), False, True)
    openvino.save_model(make([op.result(given)], [data, number], "m"), tmp_path / "model.xml")
    core, source = openvino.Core(), Source(tmp_path / "model.xml")
    assert len(read_to_run(core, source).get_ops()) == len(read_model(core, source).get_ops())
