"""Compiles small models a second time, to compute on the calling thread: a hand-over may cost more than they do.

With streams of its own, OpenVINO hands every inference to one of their threads, which takes several times as long as
a small model computes. Knows nothing of slots; they find out how long an inference takes.
"""

from __future__ import annotations

from typing import Any

import openvino as ov
import structlog

from inferwire_server.core.model_options import Source
from inferwire_server.openvino_backend.edges import WITH_BODIES
from inferwire_server.openvino_backend.empty_inputs import EmptyInputs
from inferwire_server.openvino_backend.graphs import Graphs
from inferwire_server.openvino_backend.properties import execution_devices
from inferwire_server.openvino_backend.sources import renewal

log = structlog.stdlib.get_logger()

MOST_WEIGHT_BYTES = 4 << 20
"""The most weights of such a model: reading so many takes as long as an inference on the loop may."""

_PARALLELISM = (
    "PERFORMANCE_HINT",
    "PERFORMANCE_HINT_NUM_REQUESTS",
    "NUM_STREAMS",
    "INFERENCE_NUM_THREADS",
    "AUTO_BATCH_TIMEOUT",
)

_ON_THE_CALLING_THREAD: dict[str, Any] = {"NUM_STREAMS": 0, "INFERENCE_NUM_THREADS": 1}


def compile_brief(
    core: ov.Core,
    source: Source,
    model: ov.Model,
    compiled: ov.CompiledModel,
    config: dict[str, Any],
    empty_inputs: EmptyInputs | None,
) -> Graphs | None:
    """Compile a model to compute on the calling thread; None if it may not run on the loop, however brief it is.

    It may not if it keeps states, does not run on the CPU alone, is large, or if how much it computes depends on the
    values of its inputs.
    """
    if (
        execution_devices(compiled) != ("CPU",)
        or model.get_variables()
        or not _is_light(model)
        or not _shapes_say_all(model)
    ):
        return None
    kept = {name: value for name, value in config.items() if name not in _PARALLELISM} | _ON_THE_CALLING_THREAD
    try:
        return Graphs(core.compile_model(model, "CPU", kept), renewal(core, source, "CPU", kept), empty_inputs)
    except RuntimeError as error:
        # For example for a property that only a virtual device knows. The model itself is compiled, and serves.
        log.debug("no inference runs on the loop", model=model.friendly_name, reason=str(error).strip())
        return None


def _is_light(model: ov.Model) -> bool:
    constants: list[Any] = [node for node in model.get_ops() if node.get_type_name() == "Constant"]
    return sum(node.get_byte_size() for node in constants) <= MOST_WEIGHT_BYTES


def _shapes_say_all(model: ov.Model) -> bool:
    """Tell whether the inputs' shapes say how much there is to compute: one value may ask for any amount of it.

    A value says how often a body runs, or whether it does.
    """
    if any(port.get_element_type() == ov.Type.string for port in (*model.inputs, *model.outputs)):
        return False
    example = _with_lengths(model)
    if example is None:
        return False
    nodes: list[Any] = example.get_ops()
    return not any(
        node.get_type_name() in WITH_BODIES or any(output.get_partial_shape().is_dynamic for output in node.outputs())
        for node in nodes
    )


def _with_lengths(model: ov.Model) -> ov.Model | None:
    """Give the model with some length for each dynamic dimension of its inputs; None if it does not take these."""
    if not model.is_dynamic():
        return model
    example = model.clone()
    try:
        example.reshape({port: _some_shape(port.get_partial_shape()) for port in example.inputs})
    except RuntimeError:
        return None
    return example


def _some_shape(shape: ov.PartialShape) -> ov.PartialShape:
    return ov.PartialShape([max(dimension.get_min_length(), 1) for dimension in shape])
