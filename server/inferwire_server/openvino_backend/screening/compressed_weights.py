"""Mends models of compressed weights, which streams would decompress twice, or a layer with the scales of others.

Compressed weights are whole numbers, short floats or places in a list of floats, which a zero point and a scale make
weights of. Takes graphs as they are read.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from openvino import opset13

from inferwire_server.openvino_backend.edges import before_conversions, lead, nodes
from inferwire_server.openvino_backend.screening.quantized_layers import INTEGERS, LAYERS, QuantizedLayers

op: Any = opset13

_F8 = ("f8e4m3", "f8e5m2")
"""What no layer decompresses itself."""

_CODEBOOK = "codebook"
"""Stands for the type of weights that are taken from a list. No layer decompresses these itself either."""

_COMPRESSED = (*INTEGERS, *_F8, "f4e2m1", "nf4", "u2")

_DECOMPRESSED_WIDTH = 64
"""A product of matrices decompresses all others itself, also in bf16, if it sums up so many products, or a multiple.
No other layer does."""

_MATRIX_RANK = 2


def keep_weights_whole(model: Any) -> None:
    """Have weights decompressed once, and by the scales and zero points that are theirs."""
    ordered = [*nodes(model)]
    layers = QuantizedLayers(ordered)
    for node in ordered:
        if node.get_type_name() in LAYERS and not layers.gives_sums(node):
            _decompress_beside(layers.before_moving(node.input_value(0).get_node()))
            weights = layers.before_moving(node.input_value(1).get_node())
            if _is_scaled_otherwise(weights, node):
                _hide_scales(weights)
                _decompress_beside(weights)
            elif _takes_decompressed(node):
                _decompress_beside(weights)
        elif node.get_type_name() == "Multiply" and _compressed_type(node) in (*_F8, _CODEBOOK):
            _decompress_beside(node)


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
    shifted = whole.get_node()
    beside = [scale, shifted.input_value(1)] if shifted.get_type_name() == "Subtract" else [scale]
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
        taken = [before_conversions(value).get_type_name() for value in weights.input_values()]
        return _CODEBOOK if set(taken) == {"Constant"} else ""
    if weights.get_type_name() == "Subtract":
        weights = weights.input_value(0).get_node()
    if weights.get_type_name() != "Convert" or weights.input_value(0).get_node().get_type_name() != "Constant":
        return ""
    kind = weights.get_input_element_type(0).get_type_name()
    return kind if kind in _COMPRESSED else ""
