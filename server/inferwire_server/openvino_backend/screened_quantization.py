"""Mends quantized models that would end the process as they are compiled, or give what no layer has computed.

Takes graphs as they are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from openvino import opset13

from inferwire_server.openvino_backend.edges import nodes

op: Any = opset13

_LAYERS = ("Convolution", "ConvolutionBackpropData", "GroupConvolution", "GroupConvolutionBackpropData", "MatMul")
"""What is computed in integers if its data and weights are quantized."""

_MOVING = ("Convert", "Gather", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""What may come to nothing between a layer and a Gather."""

_SCALING = ("Add", "Divide", "Multiply", "Subtract", *_MOVING)
"""What a layer's scales may move behind, or be computed together with."""

_CUTTING = ("Clamp", "Relu", *_SCALING)
"""What quantizing does as well, or may be done before it at no cost."""

_FLOATS = {"f32": np.float32, "f16": np.float16}

_INTEGERS = ("i4", "i8", "u4", "u8")

_MATRIX_RANK = 2


def mend_quantized_layers(model: Any) -> None:
    """Keep a quantized layer's scales in front of Gathers, and layers that follow upon one another apart."""
    ordered = [*nodes(model)]
    layers = _Layers(ordered)
    for node in ordered:
        if node.get_type_name() == "Gather":
            _scale_before(node, layers)
        elif node.get_type_name() == "FakeQuantize":
            _part_from_layer(node, layers)


def _scale_before(gather: Any, layers: _Layers) -> None:
    """Clamp what comes to a Gather from a quantized layer, to what it is anyhow.

    As of OpenVINO 2026.4 the compiler moves the scales of such a layer behind the Gather, as if that left the number of
    dimensions as it is. Some graphs end the process as they are compiled, others give outputs of a wrong shape. Scales
    do not move behind a Clamp, which the layer does as it writes. A NaN, which Clamps change, is not among integers.
    """
    taken = layers.moved_from(gather)
    given = taken.get_source_output()
    if layers.gives_sums(given.get_node()):
        taken.replace_source_output(op.clamp(given, -np.inf, np.inf).output(0))


def _part_from_layer(quantizing: Any, layers: _Layers) -> None:
    """Put a PRelu that changes nothing between quantized layers that have no more than a Relu or a Clamp between.

    As of OpenVINO 2026.4 the CPU plugin makes one kernel of such layers, if the shapes are known and rows are few.
    Quantizing does what a Relu does. Without any other activation nor a bias, what the kernel gives comes from memory
    that nothing was written to. The first layer does the PRelu as it writes.
    """
    data, kind = quantizing.input_value(0), quantizing.get_output_element_type(0).get_type_name()
    if kind in _FLOATS and _is_matrix(data.get_partial_shape()) and layers.gives_cut_sums(data.get_node()):
        slope = op.constant(np.array([1], _FLOATS[kind]))
        quantizing.input(0).replace_source_output(op.prelu(data, slope).output(0))


class _Layers:
    """Which nodes give what quantized layers have computed. Learnt in one look at each node, behind those it takes."""

    def __init__(self, ordered: Iterable[Any]) -> None:
        self._quantized: set[str] = set()
        self._sums: set[str] = set()
        self._cut: set[str] = set()
        self._moved_from: dict[str, Any] = {}
        for node in ordered:
            if node.get_type_name() in _LAYERS:
                self._learn_layer(node)
            elif node.get_input_size():
                self._learn(node)
            elif node.get_type_name() == "Constant" and node.get_element_type().get_type_name() in _INTEGERS:
                self._quantized.add(node.get_name())

    def gives_sums(self, node: Any) -> bool:
        """Whether it gives what a quantized layer has summed up, but for what the layer's scales may move behind."""
        return node.get_name() in self._sums

    def gives_cut_sums(self, node: Any) -> bool:
        """The same, but for what quantizing does as well, too."""
        return node.get_name() in self._cut

    def moved_from(self, moving: Any) -> Any:
        """Give the input by which what a node moves came to the first of those that only move it."""
        return self._moved_from[moving.get_name()]

    def _learn_layer(self, node: Any) -> None:
        if all(value.get_node().get_name() in self._quantized for value in node.input_values()[:2]):
            self._sums.add(node.get_name())
            self._cut.add(node.get_name())

    def _learn(self, node: Any) -> None:
        kind, name, source = node.get_type_name(), node.get_name(), _computed_input(node).get_name()
        if kind == "FakeQuantize" or source in self._quantized:
            self._quantized.add(name)
        if kind in _SCALING and source in self._sums:
            self._sums.add(name)
        if kind in _CUTTING and source in self._cut:
            self._cut.add(name)
        if kind in _MOVING:
            taken = node.input(0)
            self._moved_from[name] = self._moved_from.get(taken.get_source_output().get_node().get_name(), taken)


def _computed_input(node: Any) -> Any:
    """Give what a node works on: its first input that is no constant, or else its first."""
    inputs = [value.get_node() for value in node.input_values()]
    return next((each for each in inputs if each.get_type_name() != "Constant"), inputs[0])


def _is_matrix(shape: Any) -> bool:
    return shape.is_static and len(shape) == _MATRIX_RANK
