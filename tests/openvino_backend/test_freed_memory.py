"""What a model has computed in is free again once it is let go of, or once an inference in it has failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset6, opset13
from tests.openvino_backend.small_models import variable
from tests.waiting import LIMIT_S

op: Any = opset13
make: Any = openvino.Model

LARGE = 1 << 23
"""Elements of what is computed beside the attention: 32 MiB."""

RUN = """
import sys
from pathlib import Path
from resource import getpagesize

import numpy as np
from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend

backend, options = OpenVinoBackend(), ModelOptions("m", "CPU", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"})


def compiled():
    return backend.compile(Source(Path(sys.argv[1])), options)


def run(slot, length):
    data = np.ones((1, 2, length, 16), np.float32)
    slot.run([Tensor(BY_NAME["f32"], data.shape, data.tobytes()), Tensor(BY_NAME["i32"], (1,), bytes(4))], [0])


def let_go_of(_):
    run(compiled().create_slot(keeps_states=True), 4)


def fail(turn):
    run(kept, 4)
    try:
        run(kept, 2 * turn + 3)
    except ServingError as error:
        told.append(error)


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


kept = compiled().create_slot(keeps_states=True)
step = {"let go of": let_go_of, "fails": fail}[sys.argv[2]]
told, taken = [], []
for turn in range(6):
    step(turn)
    taken.append(resident())
print(taken[-1] - taken[1])
"""


@pytest.mark.parametrize("what", ["let go of", "fails"])
def test_what_attention_s_graph_has_computed_in_is_freed(what: str, tmp_path: Path) -> None:
    data = op.parameter([-1, 2, -1, 16], np.float32)
    batch = op.gather(op.shape_of(data), np.array([0]), np.int64(0))
    rows = op.parameter([-1], np.int32)
    empty = op.broadcast(np.float32(0), op.concat([batch, np.array([2, 0, 16])], 0))
    sinks, taken = list[Any](), list[Any]()
    for name in ("keys", "values"):
        kept = variable(name, -1, 2, -1, 16)
        taken.append(op.concat([op.gather(opset6.read_value(empty, kept), rows, np.int64(0)), data], 2))
        sinks.append(opset6.assign(taken[-1], kept))
    attended = op.scaled_dot_product_attention(data, *taken, op.constant(np.zeros((1, 1, 1, 1), np.float32)))
    large = op.broadcast(op.reduce_sum(attended, np.array([0, 1, 2, 3])), np.array([LARGE]))
    total = op.reduce_sum(op.add(op.exp(large), op.cum_sum(large, np.int64(0))), np.array([0]))
    by_four = op.reshape(op.add(data, total), np.array([-1, 4, 16]), False)
    model = make([op.result(by_four)], sinks, [data, rows], "m")
    openvino.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    command = [sys.executable, "-c", RUN, str(tmp_path / "model.xml"), what]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) < 4 * LARGE
