"""Weights in f8 are what they are in however many streams a model runs."""

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

op: Any = opset13
make: Any = openvino.Model

WIDTH = 16
COMPILED = 8
"""How often: without the mend, nearly each is wrong."""


@pytest.mark.parametrize(("kind", "precision"), [("f8e4m3", "f32"), ("f8e5m2", "bf16")])
def test_weights_are_scaled_once_for_all_streams(kind: str, precision: str, tmp_path: Path) -> None:
    data = op.parameter([-1, WIDTH], np.float32)
    given, ones = data, np.eye(WIDTH, dtype=np.float32)
    for _ in range(3):
        weights = op.convert(op.constant(ones, dtype=getattr(openvino.Type, kind)), "f32")
        given = op.relu(op.matmul(given, op.multiply(weights, np.full((WIDTH, 1), 2, np.float32)), False, True))
    openvino.save_model(make([op.result(given)], [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": "2", "INFERENCE_PRECISION_HINT": precision})
    for _ in range(COMPILED):
        slot = OpenVinoBackend().compile(Source(tmp_path / "model.xml"), options).create_slot()
        (found,) = slot.run([Tensor(BY_NAME["f32"], ones.shape, ones.tobytes())], [0])
        np.testing.assert_array_equal(np.frombuffer(found.data, np.float32).reshape(found.shape), ones * 8)
