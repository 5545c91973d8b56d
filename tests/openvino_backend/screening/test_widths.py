"""Data are as wide as the weights that they are multiplied by, or are refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13
from tests.openvino_backend.small_models import compiled, f32

from inferwire_server.core.model_options import Source
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend

op: Any = opset13
make: Any = openvino.Model


@pytest.mark.parametrize("rows", [(), (3,), (1, 3)])
@pytest.mark.parametrize("turns_data", [False, True])
@pytest.mark.parametrize("turns_weights", [False, True])
def test_data_of_another_width_than_the_weights_are_refused(
    backend: OpenVinoBackend, rows: Sequence[int], turns_data: bool, turns_weights: bool, tmp_path: Path
) -> None:
    data = op.parameter([-1] * (len(rows) + 1), np.float32)
    weights = op.constant(np.ones((5, 64) if turns_weights else (64, 5), np.float32))
    result = op.result(op.matmul(data, weights, turns_data, turns_weights))
    openvino.save_model(make([result], [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    slot = compiled(backend, Source(tmp_path / "model.xml")).create_slot()
    for width in (64, 9, 128, 64):
        content = f32(np.ones((*rows[:-1], width, *rows[-1:]) if turns_data else (*rows, width)))
        if width == 64:
            assert slot.run([content], [0]) == (f32(np.full((*rows, 5), 64)),)
        else:
            with pytest.raises(ServingError):
                slot.run([content], [0])
