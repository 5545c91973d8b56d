"""The inputs and expected answers of a soak: all rows differ, so that an answer to another caller is noticed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from tests.soak.tally import OK

DIGITS = Path(__file__).resolve().parents[2] / "deploy/models/digits_mlp"
ROWS = 64
SUMS = "sums"
"""A model that adds up its inputs: `x` and its state, both f32[1,4], give `y`."""
PAIRS = "pairs"
"""A model that fails if `x`, f32[?], is no row of pairs: it gives the pairs, f32[?,2]."""
SUMMED_PAIRS = "summed_pairs"
"""The same with a state: it gives the sum of all numbers so far, f32[1], and the pairs."""
_TOLERANCE = 1e-3

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows for the digits network, and its answers.

    Attributes:
        names: The names that the network is served by: unbatched, and batched.
        model_file: The file for clients that upload it.
    """

    rows: Array
    answers: Array
    model_file: Path
    names: tuple[str, ...] = ("digits", "batched")

    def __len__(self) -> int:
        return len(self.rows)

    def check(self, index: int, answer: Any) -> str:
        """Say whether an answer is that of a row."""
        found: Array = np.asarray(answer, np.float32).reshape(self.answers[index].shape)
        return OK if np.allclose(found, self.answers[index], rtol=0, atol=_TOLERANCE) else "another row's answer"


def lay_out(folder: Path) -> Sample:
    """Make a repository of the network, served twice, and compute its answers in process."""
    for name in ("digits", "batched"):
        shutil.copytree(DIGITS, folder / name)
    (folder / "batched" / "inferwire.toml").write_text(
        "weight = 2.0\nmax_batch = 16\n[warm_up]\npixels = [1, 64]\n", encoding="utf-8"
    )
    _lay_out_sums(folder / SUMS / "1")
    for name, is_summed in ((PAIRS, False), (SUMMED_PAIRS, True)):
        _lay_out_pairs(folder / name / "1", name, is_summed=is_summed)
    (model_file,) = DIGITS.rglob("*.xml")
    rows = np.random.default_rng(0).random((ROWS, 1, 64), dtype=np.float32) * 16
    compiled = ov.Core().compile_model(model_file, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    answers = np.stack([compiled(row)[0].copy() for row in rows])
    return Sample(rows, answers, model_file)


def _lay_out_sums(folder: Path) -> None:
    x, name = ops.parameter([1, 4], np.float32, name="x"), "sum"
    total = ops.add(ops.read_value(ops.constant(np.zeros((1, 4), np.float32)), name), x)
    # openvino's stubs are wrong about models with sinks.
    make: Any = ov.Model
    folder.mkdir(parents=True)
    model = make([ops.result(total)], [ops.assign(total, name)], [x], SUMS)
    ov.save_model(model, folder / "model.xml", compress_to_fp16=False)


def _lay_out_pairs(folder: Path, name: str, *, is_summed: bool) -> None:
    x = ops.parameter([ov.Dimension(1, 1000)], np.float32, name="x")
    pairs = ops.reshape(ops.relu(x), ops.constant(np.array([-1, 2], np.int64)), special_zero=False)
    make: Any = ov.Model
    folder.mkdir(parents=True)
    if not is_summed:
        ov.save_model(make([ops.result(pairs)], [x], name), folder / "model.xml", compress_to_fp16=False)
        return
    sum_of_x = ops.reduce_sum(x, ops.constant(np.array([0], np.int64)), keep_dims=True)
    total = ops.add(ops.read_value(ops.constant(np.zeros(1, np.float32)), name), sum_of_x)
    model = make([ops.result(total), ops.result(pairs)], [ops.assign(total, name)], [x], name)
    ov.save_model(model, folder / "model.xml", compress_to_fp16=False)
