"""Refuses or mends models that would bring the whole server down as they are compiled or run.

Knows in which operations OpenVINO goes past the end of its memory, or gives what lies there, or in which one caller's
inference changes what others get. Takes graphs as they are read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from openvino import opset13

from inferwire_server.openvino_backend.edges import lead, nodes
from inferwire_server.openvino_backend.screened_attention import give_masks_batches, mask_attention
from inferwire_server.openvino_backend.screened_first_values import begin_states
from inferwire_server.openvino_backend.screened_lists import fill_what_is_left
from inferwire_server.openvino_backend.screened_loops import (
    copy_what_bodies_give,
    empty_what_no_turn_gives,
    leave_first_shapes_open,
)
from inferwire_server.openvino_backend.screened_quantization import mend_quantized_layers
from inferwire_server.openvino_backend.screened_states import copy_what_replaces_states

op: Any = opset13

_ROWS, _BATCHES_OF_ROWS = 2, 3
"""Numbers of dimensions."""


def screen(model: Any) -> None:
    """Change a graph so that it stays within its memory as it is compiled and runs, and its callers apart.

    Raises:
        ValueError: For a graph that would not; names the node.
    """
    _refuse_unsafe(model)
    _part_inputs_from_results(model)
    begin_states(model)
    copy_what_replaces_states(model)
    give_masks_batches(model)
    mask_attention(model)
    leave_first_shapes_open(model)
    empty_what_no_turn_gives(model)
    copy_what_bodies_give(model)
    mend_quantized_layers(model)
    _gather_from_one_batch(model)
    fill_what_is_left(model)
    _part_gated_layers(model)
    _hold_to_widths(model)


def _refuse_unsafe(model: Any) -> None:
    """Refuse a graph with an operation that is known to corrupt memory, in bodies of its branches and loops, too."""
    for node in nodes(model):
        # As of OpenVINO 2026.4 the CPU plugin writes eight times as much as a u1 tensor has.
        if node.get_type_name() == "Convert" and node.get_output_element_type(0).get_type_name() == "u1":
            raise ValueError(
                f"node '{node.get_friendly_name()}' converts to u1, which OpenVINO does not do within its memory; "
                "expected u8 or boolean"
            )


def _part_inputs_from_results(model: Any) -> None:
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


def _hold_to_widths(model: Any) -> None:
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


def _gather_from_one_batch(model: Any) -> None:
    """Have a Gather take its elements without batches if it is known to have a single one.

    As of OpenVINO 2026.4 the compiler goes past the end of its memory for such a Gather of known elements, and the CPU
    plugin for one of computed elements in a known shape: either ends the process.
    """
    for node in [*nodes(model)]:
        if node.get_type_name() != "Gather" or not node.get_attributes().get("batch_dims"):
            continue
        data, indices, axis = node.input_values()
        if indices.get_partial_shape().rank.is_static:
            batches = [*indices.get_partial_shape()][: node.get_attributes()["batch_dims"]]
            if batches and all(length == 1 for length in batches):
                name, without = node.get_friendly_name(), op.squeeze(indices, np.arange(len(batches)))
                taken = op.gather(data, without, axis, name=name)
                lead(node.output(0).get_target_inputs(), taken.output(0))


def _part_gated_layers(model: Any) -> None:
    """Give the weights of a layer behind two layers, of which one gates the other, a dimension of one in front.

    As of OpenVINO 2026.4 the CPU plugin makes one operation of the three if it computes in bf16. To compile that for a
    single thread, as each stream may have, divides by 0, which ends the process. Apart, they take no longer.
    """
    for node in [*nodes(model)]:
        if node.get_type_name() == "MatMul" and _is_gated(node.input_value(0)) and _are_weights(node.input_value(1)):
            lead([node.input(1)], op.unsqueeze(node.input_value(1), np.array([0])).output(0))


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


def _are_weights(value: Any) -> bool:
    """Whether values of two dimensions are constants in floating point, also of less precision than computed in."""
    node = value.get_node()
    kept = node.input_value(0) if node.get_type_name() == "Convert" else value
    is_constant = kept.get_node().get_type_name() == "Constant" and kept.get_element_type().is_real()
    return is_constant and value.get_partial_shape().rank == _ROWS


def _does_nothing(node: Any) -> bool:
    is_conversion = node.get_type_name() in ("Convert", "ConvertLike")
    return is_conversion and node.get_input_element_type(0) == node.get_output_element_type(0)
