"""Models of a few operations, as files, and their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as ops
from openvino.op.util import Variable, VariableInfo

from inferwire_proto.element_types import BY_NAME, ElementType
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.openvino_backend.backend import OpenVinoBackend, OpenVinoModel

NOT_ON_CPU = {"u1", "u3", "u6"}
MAKE_MODEL: Any = ov.Model
"""Its type does not fit its own constructor's overloads."""
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


def parameter(element_type: ElementType, shape: Sequence[int], name: str = "x") -> Any:
    node: Any = ops.parameter(ov.PartialShape(list(shape)), getattr(ov.Type, element_type.name), name=name)
    node.output(0).set_names({name})
    return node


def saved(folder: Path, outputs: Sequence[tuple[str, Any]], inputs: Sequence[Any]) -> Source:
    """Write a model as IR."""
    results: list[Any] = []
    for name, node in outputs:
        result: Any = ops.result(node)
        if name:
            result.output(0).set_names({name})
        results.append(result)
    path = folder / "model.xml"
    ov.save_model(MAKE_MODEL(results, list(inputs), "model"), path, compress_to_fp16=False)
    return Source(path)


def identity(folder: Path, element_type: ElementType, shape: Sequence[int] = (-1,)) -> Source:
    x = parameter(element_type, shape)
    return saved(folder, [("y", x)], [x])


def variable(name: str, *shape: int) -> Any:
    """Declare a state in f32, of which -1 leaves a length open."""
    info = VariableInfo()
    info.data_shape, info.data_type, info.variable_id = ov.PartialShape(list(shape)), ov.Type.f32, name
    return Variable(info)


STATES = ("left", "right", "up", "down", "near", "far")


def with_states(folder: Path) -> Source:
    """A model of six states that keep what they are given."""
    x, zero = parameter(BY_NAME["f32"], (1,)), ops.constant(np.zeros(1, np.float32))
    sinks = [ops.assign(ops.add(ops.read_value(zero, name), x), name) for name in STATES]
    path = folder / "model.xml"
    ov.save_model(MAKE_MODEL([ops.result(x)], sinks, [x], "model"), path)
    return Source(path)


def f32(values: Any) -> Tensor:
    array = np.asarray(values, np.float32)
    return Tensor(BY_NAME["f32"], array.shape, array.tobytes())


def compiled(backend: OpenVinoBackend, source: Source, device: str = "CPU") -> OpenVinoModel:
    return backend.compile(source, ModelOptions("m", device, EXACT))
