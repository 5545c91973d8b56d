"""Mends quantized models that would end the process as they are compiled, or give what no layer has computed.

So are models of compressed weights: whole numbers, short floats or places in a list of floats, which a zero point and a
scale make weights of.

Takes graphs as they are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from openvino import opset13

from inferwire_server.openvino_backend.edges import lead, nodes

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

_F8 = ("f8e4m3", "f8e5m2")
"""What no layer decompresses itself."""

_CODEBOOK = "codebook"
"""Stands for the type of weights that are taken from a list. No layer decompresses these itself either."""

_COMPRESSED = (*_INTEGERS, *_F8, "f4e2m1", "nf4", "u2")

_DECOMPRESSED_WIDTH = 64
"""A product of matrices decompresses all others itself, also in bf16, if it sums up so many products, or a multiple.
No other layer does."""

_MATRIX_RANK = 2


def mend_quantized_layers(model: Any) -> None:
    """Keep a layer's scales in front of Gathers, layers that follow upon one another apart, and weights whole."""
    ordered = [*nodes(model)]
    layers = _Layers(ordered)
    for node in ordered:
        if node.get_type_name() == "Gather":
            _scale_before(node, layers)
        elif node.get_type_name() == "FakeQuantize":
            _part_from_layer(node, layers)
        elif node.get_type_name() in _LAYERS and not layers.gives_sums(node):
            _decompress_beside(layers.before_moving(node.input_value(0).get_node()))
            weights = layers.before_moving(node.input_value(1).get_node())
            if _is_scaled_otherwise(weights, node):
                _hide_scales(weights)
                _decompress_beside(weights)
            elif _takes_decompressed(node):
                _decompress_beside(weights)
        elif node.get_type_name() == "Multiply" and _compressed_type(node) in (*_F8, _CODEBOOK):
            _decompress_beside(node)


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


def _decompress_beside(scaled: Any) -> None:
    """Have weights decompressed without writing over what they are made of, if those are scaled here.

    As of OpenVINO 2026.4 each of the CPU plugin's streams decompresses at once, and where it lies, what they share, if
    the layer does not do it itself: the weights are then shifted and scaled twice, or not at all. What is shifted and
    scaled by, comes first here: a result is written over the first input alone.
    """
    found = _of_compressed(scaled)
    if found is None:
        return
    weights, scale = found
    if _is_single(scale):
        _hide_scales(scaled)
        scale = _along_longest(scale, weights)
    if weights.get_node().get_type_name() == "Subtract":
        whole, zero_point = weights.get_node().input_values()
        less = op.multiply(op.constant(-1, dtype=zero_point.get_element_type()), zero_point)
        weights = op.add(less, whole).output(0)
    beside = op.multiply(scale, weights, name=scaled.get_friendly_name())
    lead(scaled.output(0).get_target_inputs(), beside.output(0))


def _is_single(scale: Any) -> bool:
    shape = scale.get_partial_shape()
    return shape.is_static and math.prod(shape.to_shape()) == 1


def _along_longest(scale: Any, weights: Any) -> Any:
    """Repeat a single scale: the compiler makes it a part of the operation otherwise, which writes over weights."""
    shape = [*weights.get_shape()]
    longest = int(np.argmax(shape))
    return op.broadcast(scale, np.array([length if axis == longest else 1 for axis, length in enumerate(shape)]))


def _hide_scales(scaled: Any) -> None:
    """Clamp weights to what they are anyhow, behind their scales.

    As of OpenVINO 2026.4 a product of matrices takes weights compressed also if it misreads their scales. It then gives
    wrong numbers or, in bf16, divides whole numbers by 0, which ends the process as it infers. It takes no weights that
    come from a Clamp.
    """
    inputs = scaled.output(0).get_target_inputs()
    lead(inputs, op.clamp(scaled, -np.inf, np.inf).output(0))


def _is_scaled_otherwise(scaled: Any, layer: Any) -> bool:
    """Whether a product sums up compressed weights whose scales or zero points it misreads.

    It reads one for all weights, one for each output, or some for each output: one for each group of weights, as many
    as a power of 2, but not one.
    """
    found = _of_compressed(scaled)
    if found is None or layer.get_type_name() != "MatMul":
        return False
    whole, scale = found
    beside = [scale, *whole.get_node().input_values()[1:]]
    lengths = whole.get_partial_shape()
    if len(lengths) < _MATRIX_RANK:
        return False
    is_turned, node = layer.get_attributes()["transpose_b"], layer.input_value(1).get_node()
    while node.get_name() != scaled.get_name():
        is_turned ^= node.get_type_name() == "Transpose"
        node = node.input_value(0).get_node()
    output, summed = (0, -1) if is_turned else (-1, -2)
    return any(_is_misread(each.get_partial_shape(), [*lengths], output, summed) for each in beside)


def _is_misread(shape: Any, lengths: list[Any], output: int, summed: int) -> bool:
    """Whether numbers of a shape differ by what is summed up, by groups of it but not by output, or by odd groups."""
    if shape.is_dynamic or math.prod(shape.to_shape()) == 1:
        return False
    padded = [1] * (len(lengths) - len(shape)) + [*shape.to_shape()]
    is_grouped, size = math.prod(padded) > padded[output], lengths[summed].get_length()
    is_odd = is_grouped and size.bit_count() > 1
    return is_odd or padded[output] != lengths[output] or padded[summed] > 1


def _takes_decompressed(layer: Any) -> bool:
    """Whether a layer takes its second input decompressed: all do but products with one matrix of a fitting width."""
    if layer.get_type_name() != "MatMul":
        return True
    shape = layer.input_value(1).get_partial_shape()
    if shape.is_dynamic or len(shape) < _MATRIX_RANK:
        return False
    *stacked, rows, columns = shape.to_shape()
    width = columns if layer.get_attributes()["transpose_b"] else rows
    return width % _DECOMPRESSED_WIDTH != 0 or any(length != 1 for length in stacked)


def _of_compressed(node: Any) -> tuple[Any, Any] | None:
    """Give the compressed weights that a node scales, and the scale; None if it scales none."""
    if node.get_type_name() != "Multiply":
        return None
    first, second = node.input_values()
    if _type_behind(first.get_node()):
        return first, second
    return (second, first) if _type_behind(second.get_node()) else None


def _compressed_type(node: Any) -> str:
    """Give the type of the compressed weights that a node scales; nothing if it scales none."""
    found = _of_compressed(node)
    return "" if found is None else _type_behind(found[0].get_node())


def _type_behind(weights: Any) -> str:
    """Give the type of the constant that weights are converted from, and shifted; nothing if it is no such."""
    if weights.get_type_name() == "Gather":
        return _CODEBOOK if all(_is_known(value.get_node()) for value in weights.input_values()) else ""
    if weights.get_type_name() == "Subtract":
        weights = weights.input_value(0).get_node()
    if weights.get_type_name() != "Convert" or weights.input_value(0).get_node().get_type_name() != "Constant":
        return ""
    kind = weights.get_input_element_type(0).get_type_name()
    return kind if kind in _COMPRESSED else ""


def _is_known(node: Any) -> bool:
    """Whether it is a constant, or converted from one."""
    while node.get_type_name() == "Convert":
        node = node.input_value(0).get_node()
    return node.get_type_name() == "Constant"


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

    def before_moving(self, node: Any) -> Any:
        """Give the node itself or, if it only moves data, the one that computed them."""
        moved_from = self._moved_from.get(node.get_name())
        return node if moved_from is None else moved_from.get_source_output().get_node()

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
