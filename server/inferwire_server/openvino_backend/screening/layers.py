"""Layers of a network, products with weights: held to their widths, and kept apart where one gates another."""

from __future__ import annotations

from typing import Any

import numpy as np
from openvino import opset13

from inferwire_server.openvino_backend.edges import lead, nodes

op: Any = opset13

_ROWS, _BATCHES_OF_ROWS = 2, 3
"""Numbers of dimensions."""

_SCALING: dict[str, Any] = {"Multiply": op.multiply, "Subtract": op.subtract}
"""What makes weights of compressed ones, beside conversions."""


def hold_to_widths(model: Any) -> None:
    """Give data whose width is left open the width of the weights that they are multiplied by.

    As of OpenVINO 2026.4 the CPU plugin does not compare the two. It reads past the end of narrower data, which ends
    the process or gives the caller what lies there. Data of another width cannot be given this one: that fails.
    """
    for layer in [node for node in nodes(model) if node.get_type_name() == "MatMul"]:
        data, weights = (value.get_partial_shape() for value in layer.input_values())
        if data.rank.is_dynamic or weights.rank.is_dynamic or len(weights) < _ROWS:
            continue
        turns = layer.get_attributes()
        across = -2 if turns["transpose_a"] and len(data) >= _ROWS else -1
        width = weights[-1 if turns["transpose_b"] else -2]
        if width.is_static and data[across].is_dynamic:
            shape = np.zeros(len(data), np.int64)
            shape[across] = width.get_length()
            lead([layer.input(0)], op.reshape(layer.input_value(0), shape, True).output(0))


def part_gated_layers(model: Any) -> None:
    """Give the weights of a layer behind two layers, of which one gates the other, a dimension of one in front.

    As of OpenVINO 2026.4 the CPU plugin makes one operation of the three if it computes in bf16; of those with weights
    in i8, if a property has it quantize whole rows of data. To compile that for a single thread, as each stream may
    have, divides by 0, which ends the process. Apart, they take no longer.
    """
    for node in [*nodes(model)]:
        if node.get_type_name() == "MatMul" and _is_gated(node.input_value(0)):
            weights = _in_batches(node.input_value(1))
            if weights is not None:
                lead([node.input(1)], weights)


def _is_gated(data: Any) -> bool:
    """Whether data in batches of rows are a product of two of the same width, and neither is constant."""
    if data.get_node().get_type_name() != "Multiply" or data.get_partial_shape().rank != _BATCHES_OF_ROWS:
        return False
    width = data.get_partial_shape()[-1]
    for factor in data.get_node().input_values():
        shape = factor.get_partial_shape()
        if factor.get_node().get_type_name() == "Constant" or not len(shape) or shape[-1] != width:
            return False
    return True


def _in_batches(weights: Any) -> Any | None:
    """Give weights, also compressed ones, another dimension where they are kept; None if these have not two."""
    steps, kept = list[Any](), weights
    while kept.get_node().get_type_name() in ("Convert", *_SCALING):
        steps.append(kept.get_node())
        kept = steps[-1].input_value(0)
    if kept.get_node().get_type_name() != "Constant" or kept.get_partial_shape().rank != _ROWS:
        return None
    given = op.unsqueeze(kept, np.array([0]))
    for step in reversed(steps):
        scale = _SCALING.get(step.get_type_name())
        given = scale(given, step.input_value(1)) if scale else op.convert(given, step.get_element_type())
    return given.output(0)
