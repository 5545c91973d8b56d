"""A Gather with batches takes what it should where there is a single batch, and the process goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset13
from tests.openvino_backend.own_process import run_apart

op: Any = opset13
make: Any = openvino.Model

DATA = np.arange(32, dtype=np.float32).reshape(1, 4, 8)


@pytest.mark.parametrize(
    ("indices", "axis", "batch_dims"),
    [([[3, 1]], 1, 1), ([[3, 1]], -2, -1), ([[[3, 1], [0, 2]]], 2, 1)],
)
def test_known_elements_of_a_single_batch_are_taken(indices: Any, axis: int, batch_dims: int, tmp_path: Path) -> None:
    data = op.parameter(DATA.shape, np.float32)
    taken = op.gather(data, op.constant(np.array(indices)), op.constant(axis), batch_dims)
    openvino.save_model(make([op.result(taken)], [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    np.testing.assert_array_equal(run_apart(tmp_path / "model.xml", DATA), np.take(DATA, indices[0], axis=axis))


def test_computed_elements_of_a_single_batch_are_taken(tmp_path: Path) -> None:
    data = op.parameter(DATA.shape, np.float32)
    indices = op.convert(op.gather(data, np.array([3, 1]), np.int64(2)), "i32")
    taken = op.gather(data, op.reshape(indices, np.array([1, 8]), False), np.int64(1), 1)
    openvino.save_model(make([op.result(taken)], [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    given = np.tile(np.arange(4, dtype=np.float32), 8).reshape(DATA.shape)
    np.testing.assert_array_equal(run_apart(tmp_path / "model.xml", given), given[:, [3, 1] * 4])


def test_a_gather_from_before_there_were_batches_is_left_as_it_is(tmp_path: Path) -> None:
    data = op.parameter(DATA.shape, np.float32)
    taken = opset1.gather(data, op.constant(np.array([3, 1])), op.constant(1))
    openvino.save_model(make([op.result(taken)], [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    np.testing.assert_array_equal(run_apart(tmp_path / "model.xml", DATA), DATA[:, [3, 1]])


def test_a_gather_whose_batches_are_counted_down_to_none_keeps_its_shape(tmp_path: Path) -> None:
    data = op.parameter(DATA.shape, np.float32)
    taken = op.gather(data, op.constant(np.array([3])), op.constant(1), -1)
    openvino.save_model(make([op.result(taken)], [data], "m"), tmp_path / "model.xml", compress_to_fp16=False)
    np.testing.assert_array_equal(run_apart(tmp_path / "model.xml", DATA), DATA[:, [3]])
