"""Models that may be cheaper to run than to hand over, compiled once more: to compute on the thread that asks.

With streams of its own, OpenVINO hands every inference to one of their threads, which costs several times what a
small model computes. Knows nothing of slots; how long an inference takes is found out there.
"""

from __future__ import annotations

from typing import Any

import openvino as ov
import structlog

log = structlog.stdlib.get_logger()

MOST_WEIGHT_BYTES = 4 << 20
"""Reading so many weights takes as long as an inference on the loop may."""

_PARALLELISM = (
    "PERFORMANCE_HINT",
    "PERFORMANCE_HINT_NUM_REQUESTS",
    "NUM_STREAMS",
    "INFERENCE_NUM_THREADS",
    "AUTO_BATCH_TIMEOUT",
)

_ON_THE_CALLING_THREAD: dict[str, Any] = {"NUM_STREAMS": 0, "INFERENCE_NUM_THREADS": 1}


def compile_quick(
    core: ov.Core, model: ov.Model, compiled: ov.CompiledModel, config: dict[str, Any]
) -> ov.CompiledModel | None:
    """Compile a model for the thread that runs it; None for one that keeps states, is not the CPU's alone, or large."""
    devices = [device.strip("()") for device in compiled.get_property("EXECUTION_DEVICES")]
    if devices != ["CPU"] or model.get_variables() or _takes_or_gives_strings(model) or not _is_light(model):
        return None
    kept = {name: value for name, value in config.items() if name not in _PARALLELISM}
    try:
        return core.compile_model(model, "CPU", kept | _ON_THE_CALLING_THREAD)
    except RuntimeError as error:
        # As with a property that only a virtual device knows: the model itself is compiled and serves.
        log.debug("no inference runs on the loop", model=model.friendly_name, reason=str(error).strip())
        return None


def _takes_or_gives_strings(model: ov.Model) -> bool:
    """Tell whether a shape does not say how much there is to compute."""
    return any(port.get_element_type() == ov.Type.string for port in (*model.inputs, *model.outputs))


def _is_light(model: ov.Model) -> bool:
    constants: list[Any] = [node for node in model.get_ops() if node.get_type_name() == "Constant"]
    return sum(node.get_byte_size() for node in constants) <= MOST_WEIGHT_BYTES
