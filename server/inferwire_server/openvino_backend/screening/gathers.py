"""Gathers with batches."""

from __future__ import annotations

from typing import Any

import numpy as np
from openvino import opset13

from inferwire_server.openvino_backend.edges import lead, nodes

op: Any = opset13


def gather_from_one_batch(model: Any) -> None:
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
