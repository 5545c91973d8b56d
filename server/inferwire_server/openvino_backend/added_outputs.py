"""Has OpenVINO models give the outputs of their inner nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import openvino as ov

from inferwire_proto.added_outputs import AddedOutput


def add_outputs(model: ov.Model, added: Sequence[AddedOutput]) -> None:
    """Make inner tensors outputs of a model. Those that it gives already stay as they are.

    Raises:
        RuntimeError: If it has no such tensor or node.
    """
    for each in added:
        count = len(model.outputs)
        (port,) = model.add_outputs([each])
        if len(model.outputs) > count:
            _name(model, port)


def _name(model: ov.Model, port: Any) -> None:
    """Give an output the same names each time that the model is read. OpenVINO's have numbers that count on and on."""
    result = port.get_node()
    source = result.input(0).get_source_output()
    node_name, index = source.get_node().get_friendly_name(), source.get_index()
    if port.get_names() == {result.get_friendly_name()}:
        taken = {name for node in model.get_ops() for each in node.outputs() for name in each.get_names()}
        name = f"{node_name}:{index}"
        while name in taken:
            name += "_"
        port.get_tensor().set_names({name})
    result.set_friendly_name(f"{node_name}/sink_port_{index}")
