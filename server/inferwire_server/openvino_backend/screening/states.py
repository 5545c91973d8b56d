"""Mends states that the CPU plugin would mix up between the inferences of a model. Takes graphs as they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from openvino import opset13

from inferwire_server.openvino_backend.edges import lead, sources
from inferwire_server.openvino_backend.screening.unforeseen import never

op: Any = opset13

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
            lead([sink.input(0)], op.select(never(read), value, value).output(0))


def _variable(node: Any) -> str:
    return node.get_attributes()["variable_id"]


def _states_behind(model: Any, bits: Mapping[str, int]) -> dict[str, int]:
    """Say of each node from which states it is computed, each of which has a bit."""
    behind: dict[str, int] = {}
    for node in model.get_ordered_ops():
        name = node.get_name()
        behind[name] = bits.get(name, 0)
        for source in sources(node):
            behind[name] |= behind[source.get_name()]
    return behind
