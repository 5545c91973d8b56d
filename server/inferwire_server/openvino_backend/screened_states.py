"""Mends states that the CPU plugin would mix up between the inferences of a model. Takes graphs as they are read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from openvino import opset13

from inferwire_server.openvino_backend.edges import lead, nodes

op: Any = opset13

_MOST_COMPARED_BYTES = 4096
"""Constants of more bytes are compared with no other: no state begins with so much that is nothing."""

_OF_KEYS_AND_VALUES = ("KV_CACHE_PRECISION", "KEY_CACHE_PRECISION", "VALUE_CACHE_PRECISION")
"""Properties that say in what precision attention keeps its states."""

_NARROW = re.compile(rf"({'|'.join(_OF_KEYS_AND_VALUES)})\W+(u[34])\b", re.IGNORECASE)
"""How properties say that, also those for one device: tables within tables, or texts that OpenVINO reads as such."""


def refuse_narrow_states(model: Any, config: Mapping[str, Any]) -> None:
    """Refuse keys and values of less than a byte each, whether a property asks for them or the model itself.

    As of OpenVINO 2026.4 the CPU plugin writes past the end of such a state that it is given: by a caller, or as the
    states of all callers move to another graph.

    Raises:
        ValueError: Names the property.
    """
    if not model.get_variables():
        return
    places = {name: ["runtime_options", name] for name in _OF_KEYS_AND_VALUES}
    own = {name: model.get_rt_info(place).value for name, place in places.items() if model.has_rt_info(place)}
    narrow = _NARROW.search(str({**own, **config}))
    if narrow is not None:
        raise ValueError(
            f"{narrow[1]} is {narrow[2]}, in which OpenVINO does not write states within its memory; "
            "expected u8, f16, bf16 or f32"
        )


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
    origins = _Origins()
    empty = Counter(origins.of(value) for value in values if _is_always_empty(value))
    for read, value in zip(reads, values, strict=True):
        if value.get_node().get_type_name() in ("Constant", "Parameter") or value.get_partial_shape().is_static:
            continue
        if _is_always_empty(value) and empty[origins.of(value)] > 1:
            continue
        state = read.output(0)
        targets = state.get_target_inputs()
        # A use of its shape does not count, which is known ahead. No element is less than itself, which the compiler
        # does not know.
        element = op.slice(op.reshape(value, np.array([-1]), False), np.array([0]), np.array([1]), np.array([1]))
        most = op.reduce_max(op.convert(element, "f32"), np.int64(0))
        first = op.convert(op.less(most, most), "i64")
        picked = op.gather(op.unsqueeze(state, np.int64(0)), first, np.int64(0))
        lead(targets, picked.output(0))


def copy_what_replaces_states(model: Any) -> None:
    """Have a state get a copy of what is not computed from it.

    As of OpenVINO 2026.4 the CPU plugin gives an input, or a first value, the memory of the state that it is assigned
    to: what reads either gets what others left there, or the new state in place of the old. A choice whose condition is
    computed is a copy that is not left out, also in known shapes.
    """
    reads = {_variable(node): node for node in model.get_ops() if node.get_type_name() == "ReadValue"}
    bits = {read.get_name(): 1 << at for at, read in enumerate(reads.values())}
    states = _states_behind(model, bits) if bits else {}
    # Loops and branches that have states of their own are sinks, too.
    for sink in [each for each in model.get_sinks() if each.get_type_name() == "Assign"]:
        read, value = reads[_variable(sink)], sink.input_value(0)
        if not states[value.get_node().get_name()] & bits[read.get_name()]:
            most = op.reduce_max(op.convert(op.reshape(read, np.array([-1]), False), "f32"), np.int64(0))
            lead([sink.input(0)], op.select(op.equal(most, most), value, value).output(0))


def _is_always_empty(value: Any) -> bool:
    shape = value.get_partial_shape()
    return shape.rank.is_static and any(length == 0 for length in shape)


class _Origins:
    """Numbers what computes values. What OpenVINO makes one of, because it is computed alike, has the same number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._of_nodes: dict[str, int] = {}

    def of(self, value: Any) -> tuple[int, int]:
        """Give the number of what computes a value, and which of its outputs the value is."""
        ahead = [value.get_node()]
        while ahead:
            node = ahead[-1]
            before = [each for each in _sources(node) if each.get_name() not in self._of_nodes]
            if before:
                ahead += before
            else:
                self._of_nodes[node.get_name()] = self._numbers.setdefault(self._key(node), len(self._numbers))
                ahead.pop()
        return self._of_nodes[value.get_node().get_name()], value.get_index()

    def _key(self, node: Any) -> tuple[Any, ...]:
        kind = node.get_type_name()
        if kind == "Parameter" or (kind == "Constant" and node.data.nbytes > _MOST_COMPARED_BYTES):
            return (node.get_name(),)
        if kind == "Constant":
            return node.get_element_type().get_type_name(), tuple(node.get_output_shape(0)), node.data.tobytes()
        given = [(self._of_nodes[each.get_node().get_name()], each.get_index()) for each in node.input_values()]
        return kind, repr(node.get_attributes()), *given


def _variable(node: Any) -> str:
    return node.get_attributes()["variable_id"]


def _sources(node: Any) -> list[Any]:
    return [value.get_node() for value in node.input_values()]


def _states_behind(model: Any, bits: Mapping[str, int]) -> dict[str, int]:
    """Say of each node from which states it is computed, each of which has a bit."""
    behind: dict[str, int] = {}
    for node in model.get_ordered_ops():
        name = node.get_name()
        behind[name] = bits.get(name, 0)
        for source in _sources(node):
            behind[name] |= behind[source.get_name()]
    return behind
