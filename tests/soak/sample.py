"""What is asked in a soak, and what is to be answered: rows that differ, so that one caller's is not another's."""

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
"""A model that adds up what it is given: `x` and its state, both f32[1,4], give `y`."""
_TOLERANCE = 1e-3

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows for the digits network, and its answers.

    Attributes:
        names: What the network is served as: alone, and batched.
        model_file: Where a client that brings it has it from.
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
        "weight = 2.0\n[properties]\nINFERWIRE_MAX_BATCH = 16\n[warm_up]\npixels = [1, 64]\n", encoding="utf-8"
    )
    _lay_out_sums(folder / SUMS / "1")
    (model_file,) = DIGITS.rglob("*.xml")
    rows = np.random.default_rng(0).random((ROWS, 1, 64), dtype=np.float32) * 16
    compiled = ov.Core().compile_model(model_file, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    answers = np.stack([compiled(row)[0].copy() for row in rows])
    return Sample(rows, answers, model_file)


def _lay_out_sums(folder: Path) -> None:
    x, name = ops.parameter([1, 4], np.float32, name="x"), "sum"
    total = ops.add(ops.read_value(ops.constant(np.zeros((1, 4), np.float32)), name), x)
    # What openvino's stubs know of models with sinks is not what there is.
    make: Any = ov.Model
    folder.mkdir(parents=True)
    model = make([ops.result(total)], [ops.assign(total, name)], [x], SUMS)
    ov.save_model(model, folder / "model.xml", compress_to_fp16=False)
