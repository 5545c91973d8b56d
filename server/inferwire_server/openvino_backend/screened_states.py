"""Mends states that the CPU plugin would mix up between the inferences of a model. Takes graphs as they are read."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import numpy as np
from openvino import opset13

from inferwire_server.openvino_backend.edges import lead, nodes

op: Any = opset13


def use_first_values_twice(model: Any) -> None:
    """Have the value that a state begins with used beside the state, too, if it is computed and has a dynamic shape.

    As of OpenVINO 2026.4 the CPU plugin moves into a state's node what computes the first value for it alone. Where the
    shapes that this is computed from are those that it was last computed from, the node leaves its memory as it is, and
    that has the shape of the state of whichever request ran last: the next gets rows of another caller's state beside
    its own, or its own are written past the memory's end. What something else uses, too, is not moved: that is so for a
    language model's first keys and values, which are all the same empty one.
    """
    reads = [node for node in nodes(model) if node.get_type_name() == "ReadValue" and node.get_input_size()]
    values = [read.input_value(0) for read in reads]
    empty = Counter(_origin(value) for value in values if _is_always_empty(value))
    for read, value in zip(reads, values, strict=True):
        if value.get_node().get_type_name() in ("Constant", "Parameter") or value.get_partial_shape().is_static:
            continue
        if _is_always_empty(value) and empty[_origin(value)] > 1:
            continue
        state = read.output(0)
        targets = state.get_target_inputs()
        # No length is less than 0, which the compiler does not know.
        longest = op.reduce_max(op.shape_of(value), np.zeros(1, np.int64))
        first = op.minimum(longest, np.int64(0))
        picked = op.gather(op.unsqueeze(state, np.int64(0)), first, np.int64(0))
        lead(targets, picked.output(0))


def copy_what_replaces_states(model: Any) -> None:
    """Have a state get a copy of what is not computed from it.

    As of OpenVINO 2026.4 the CPU plugin gives an input, or a first value, the memory of the state that it is assigned
    to: what reads either gets what others left there, or the new state in place of the old. A choice whose condition is
    computed is a copy that is not left out, also in known shapes.
    """
    reads = {_variable(node): node for node in model.get_ops() if node.get_type_name() == "ReadValue"}
    for sink in model.get_sinks():
        read, value = reads[_variable(sink)], sink.input_value(0)
        if not _is_computed_from(value.get_node(), read):
            most = op.reduce_max(op.convert(op.reshape(read, np.array([-1]), False), "f32"), np.int64(0))
            lead([sink.input(0)], op.select(op.equal(most, most), value, value).output(0))


def _is_always_empty(value: Any) -> bool:
    shape = value.get_partial_shape()
    return shape.rank.is_static and any(length == 0 for length in shape)


def _origin(value: Any) -> tuple[Any, ...]:
    """Write out how a value is computed: OpenVINO makes one of those for which that is the same."""
    node = value.get_node()
    match node.get_type_name():
        case "Parameter":
            return (node.get_name(),)
        case "Constant":
            return node.get_element_type().get_type_name(), tuple(node.get_output_shape(0)), node.data.tobytes()
        case kind:
            attributes = repr(node.get_attributes())
            return kind, value.get_index(), attributes, *map(_origin, node.input_values())


def _variable(node: Any) -> str:
    return node.get_attributes()["variable_id"]


def _is_computed_from(node: Any, source: Any) -> bool:
    ahead, seen = deque([node]), set[str]()
    while ahead:
        node = ahead.popleft()
        name = node.get_name()
        if name == source.get_name():
            return True
        if name not in seen:
            seen.add(name)
            ahead += [value.get_node() for value in node.input_values()]
    return False
