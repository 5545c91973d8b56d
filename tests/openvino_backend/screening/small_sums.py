"""A small model whose state adds up its inputs, and what it may begin with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import openvino
from openvino import opset6, opset13
from tests.openvino_backend.small_models import variable

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.openvino_backend.backend import OpenVinoBackend, OpenVinoModel

op: Any = opset13
make: Any = openvino.Model


def none_yet(data: Any) -> Any:
    return op.broadcast(op.constant(np.float32(0)), op.shape_of(data))


def doubled(data: Any) -> Any:
    return op.multiply(data, op.constant(np.float32(2)))


def multiplied(data: Any) -> Any:
    """Do the same by a product of matrices, which takes long where there are many."""
    return op.matmul(data, op.constant(2 * np.eye(2, dtype=np.float32)), False, False)


Start: TypeAlias = Callable[[Any], Any]


def adding_up(start: Start, path: Path) -> OpenVinoModel:
    """Compile a model whose state is the sum of its inputs, beginning with what `start` makes of the first one."""
    total, data = variable("sum", -1, 2), op.parameter([-1, 2], np.float32)
    before = opset6.read_value(start(data), total)
    before.output(0).get_tensor().set_names({"before"})
    after = op.add(before, data)
    results = [op.result(before), op.result(after)]
    openvino.save_model(make(results, [opset6.assign(after, total)], [data], "m"), path, compress_to_fp16=False)
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"})
    return OpenVinoBackend().compile(Source(path), options)


def rows(count: int, value: float) -> Tensor:
    return Tensor(BY_NAME["f32"], (count, 2), np.full((count, 2), value, np.float32).tobytes())


def kinds(model: openvino.Model) -> list[str]:
    nodes: list[Any] = model.get_ordered_ops()
    return [node.get_type_name() for node in nodes]
