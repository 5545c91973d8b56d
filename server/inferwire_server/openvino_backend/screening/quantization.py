"""Mends quantized models that would end the process as they are compiled, or give what no layer has computed.

Takes graphs as they are read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from openvino import opset13

from inferwire_server.openvino_backend.edges import FLOATS, nodes
from inferwire_server.openvino_backend.screening.quantized_layers import QuantizedLayers

op: Any = opset13

_MATRIX_RANK = 2


def mend_quantized_layers(model: Any) -> None:
    """Keep a layer's scales in front of Gathers, and layers that follow upon one another apart."""
    ordered = [*nodes(model)]
    layers = QuantizedLayers(ordered)
    for node in ordered:
        if node.get_type_name() == "Gather":
            _scale_before(node, layers)
        elif node.get_type_name() == "FakeQuantize":
            _part_from_layer(node, layers)


def _scale_before(gather: Any, layers: QuantizedLayers) -> None:
    """Clamp what comes to a Gather from a quantized layer, to what it is anyhow.

    As of OpenVINO 2026.4 the compiler moves the scales of such a layer behind the Gather, as if that left the number of
    dimensions as it is. Some graphs end the process as they are compiled, others give outputs of a wrong shape. Scales
    do not move behind a Clamp, which the layer does as it writes. A NaN, which Clamps change, is not among integers.
    """
    taken = layers.moved_from(gather)
    given = taken.get_source_output()
    if layers.gives_sums(given.get_node()):
        taken.replace_source_output(op.clamp(given, -np.inf, np.inf).output(0))


def _part_from_layer(quantizing: Any, layers: QuantizedLayers) -> None:
    """Put a PRelu that changes nothing between quantized layers that have no more than a Relu or a Clamp between.

    As of OpenVINO 2026.4 the CPU plugin makes one kernel of such layers, if the shapes are known and rows are few.
    Quantizing does what a Relu does. Without any other activation nor a bias, what the kernel gives comes from memory
    that nothing was written to. The first layer does the PRelu as it writes.
    """
    data, kind = quantizing.input_value(0), quantizing.get_output_element_type(0).get_type_name()
    if kind in FLOATS and _is_matrix(data.get_partial_shape()) and layers.gives_cut_sums(data.get_node()):
        slope = op.constant([1], dtype=data.get_element_type())
        quantizing.input(0).replace_source_output(op.prelu(data, slope).output(0))


def _is_matrix(shape: Any) -> bool:
    return shape.is_static and len(shape) == _MATRIX_RANK
