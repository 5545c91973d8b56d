"""Conversions of element types: those that write too much, and those that do nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from openvino import opset13

from inferwire_server.openvino_backend.edges import lead, nodes

op: Any = opset13


def refuse_unsafe_conversions(model: Any) -> None:
    """Refuse a graph that converts to u1, in bodies of its branches and loops, too.

    As of OpenVINO 2026.4 the CPU plugin writes eight times as much as a u1 tensor has.
    """
    for node in nodes(model):
        if node.get_type_name() == "Convert" and node.get_output_element_type(0).get_type_name() == "u1":
            raise ValueError(
                f"node '{node.get_friendly_name()}' converts to u1, which OpenVINO does not do within its memory; "
                "expected u8 or boolean"
            )


def part_inputs_from_results(model: Any) -> None:
    """Put operations between an input of a dynamic shape and a result if all that is between them does nothing.

    What does nothing is a conversion to the type that a tensor has already. As of OpenVINO 2026.4 the CPU plugin drops
    such a conversion so late that the output keeps the memory of the first shape: it gives what others left there, and
    writes past its end. Other operations that do nothing are safe.
    """
    for result in model.get_results():
        kept = result.input_value(0)
        if not _does_nothing(kept.get_node()) or kept.get_partial_shape().is_static:
            continue
        source = kept
        while _does_nothing(source.get_node()):
            source = source.get_node().input_value(0)
        first = np.zeros(1, np.int64)
        parted = op.squeeze(op.unsqueeze(source, first), first, name=kept.get_node().get_friendly_name())
        lead(kept.get_target_inputs(), parted.output(0))


def _does_nothing(node: Any) -> bool:
    is_conversion = node.get_type_name() in ("Convert", "ConvertLike")
    return is_conversion and node.get_input_element_type(0) == node.get_output_element_type(0)
