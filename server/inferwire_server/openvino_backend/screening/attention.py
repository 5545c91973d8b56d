"""Mends attention that the CPU plugin would mix up between inferences. Takes graphs as they are read."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from openvino import opset13

from inferwire_server.openvino_backend.edges import FLOATS, before_conversions, lead, nodes

op: Any = opset13

_WITHOUT_MASK = 3
"""How many inputs attention has that is given queries, keys and values alone."""

_WITH_HEADS = 4
"""How many dimensions queries have that have heads."""

_MASKING = ("Add", "Select", "Subtract")
"""What attention's scores come from that have a mask, or something else added."""

_REPEATING = ("Broadcast", "Reshape", "Unsqueeze")
"""What repeats keys for several heads."""

_ANY_LENGTH = np.iinfo(np.int32).max
"""More than any dimension has."""


def mask_attention(model: Any) -> None:
    """Put a mask of zeros into attention that has none, if over how much it goes is left open.

    As of OpenVINO 2026.4 the CPU plugin makes one kernel of it for all shapes. If the first inference goes over one
    element, whose softmax is 1 whatever it is, the kernel has no softmax: later ones over 17 and more are wrong.
    A mask of constant zeros is left out before, so that it is none: PyTorch's attention has the number 0 for a mask if
    it has a scale.
    """
    for node in [*nodes(model)]:
        if node.get_type_name() == "Softmax":
            scores = node.input_value(0)
            if _is_for_matmul(node) and not _are_masked(scores) and _is_left_open(scores, -1):
                # The plugin does not add one row of zeros to no rows.
                most = np.array([*[1] * (len(scores.get_partial_shape()) - 1), _ANY_LENGTH])
                mask = _zeros(op.minimum(op.shape_of(scores), most), scores)
                node.input(0).replace_source_output(op.add(scores, mask).output(0))
        elif node.get_type_name() == "ScaledDotProductAttention" and _is_without_mask(node):
            query, key, value, *mask_and_scale = node.input_values()
            if _is_left_open(key, -2):
                before = np.arange(len(key.get_partial_shape()) - 1)
                rows = op.gather(op.shape_of(query), before, np.int64(0))
                rows = op.minimum(rows, np.array([_ANY_LENGTH, *[1] * (len(before) - 1)]))
                mask = _zeros(op.concat([rows, _length(key)], 0), key)
                masked = op.scaled_dot_product_attention(query, key, value, mask, *mask_and_scale[1:])
                lead(node.output(0).get_target_inputs(), masked.output(0))


def give_masks_batches(model: Any) -> None:
    """Have each batch of attention over states get a mask of its own where several may share one.

    As of OpenVINO 2026.4 the CPU plugin takes the mask of each batch from behind that of the batch before if it
    computes in bf16: past the memory's end where there is only one.
    """
    for node in [*nodes(model)] if model.get_variables() else ():
        if node.get_type_name() == "ScaledDotProductAttention" and _is_masked(node):
            query, mask = node.input_value(0), node.input_value(3)
            if _may_share(mask.get_partial_shape(), query.get_partial_shape()):
                batch = op.gather(op.shape_of(query), np.array([0]), np.int64(0))
                spread = op.broadcast(mask, op.concat([batch, np.array([1, 1, 1])], 0), broadcast_spec="BIDIRECTIONAL")
                node.input(3).replace_source_output(spread.output(0))


def _is_for_matmul(node: Any) -> bool:
    """Whether a product of matrices takes what a node gives, as it is or converted."""
    given = [node]
    while given:
        users = [target.get_node() for target in given.pop().output(0).get_target_inputs()]
        if any(user.get_type_name() == "MatMul" for user in users):
            return True
        given += [user for user in users if user.get_type_name() == "Convert"]
    return False


def _are_masked(scores: Any) -> bool:
    node = before_conversions(scores)  # those between floats come to nothing in the plugin
    return node.get_type_name() in _MASKING and not any(map(_is_of_zeros, node.input_values()))


def _is_without_mask(attention: Any) -> bool:
    masks = attention.input_values()[_WITHOUT_MASK:][:1]
    return all(map(_is_of_zeros, masks)) and not attention.get_attributes()["causal"]


def _is_masked(attention: Any) -> bool:
    return attention.get_input_size() > _WITHOUT_MASK and not attention.get_attributes()["causal"]


def _may_share(mask: Any, query: Any) -> bool:
    """Whether a mask may have one batch where queries, which have heads, have several. A number is no mask."""
    if query.rank != _WITH_HEADS or query[0] == 1 or mask.rank.is_dynamic or not len(mask):
        return False
    return len(mask) < _WITH_HEADS or mask[0].get_min_length() <= 1


def _is_of_zeros(value: Any) -> bool:
    """Whether a value is constant, and adds nothing."""
    node = before_conversions(value)
    if node.get_type_name() != "Constant" or node.get_element_type().get_type_name() not in FLOATS:
        return False
    return not node.data.any()


def _length(key: Any) -> Any:
    """Compute over how many keys attention goes.

    Keys that extend a state are not asked for their shape: attention gives it where it extends them itself, so that it
    would wait for its own mask, or it then leaves them to other operations, which is slower.
    """
    joined = key.get_node()
    while joined.get_type_name() in _REPEATING:
        joined = joined.input_value(0).get_node()
    if joined.get_type_name() == "Concat":
        kept, *added = joined.input_values()
        if kept.get_node().get_type_name() == "Gather":
            kept = kept.get_node().input_value(0)
        if kept.get_node().get_type_name() == "ReadValue":
            axis = np.array([joined.get_attributes()["axis"]])
            lengths = [op.gather(op.shape_of(each), axis, np.int64(0)) for each in (kept, *added)]
            return reduce(op.add, lengths)
    return op.gather(op.shape_of(key), np.array([-2]), np.int64(0))


def _is_left_open(data: Any, axis: int) -> bool:
    """Whether data may have one element, or more, along an axis, and are of a type that a mask can have."""
    shape, kind = data.get_partial_shape(), data.get_element_type().get_type_name()
    if kind not in FLOATS or shape.rank.is_dynamic:
        return False
    return shape[axis].is_dynamic and shape[axis].get_min_length() <= 1


def _zeros(shape: Any, data: Any) -> Any:
    """Make zeros of a computed shape and of the type of data."""
    return op.broadcast(op.constant(0, dtype=data.get_element_type()), shape)
