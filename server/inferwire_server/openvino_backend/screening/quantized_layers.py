"""Which nodes of a graph give what quantized layers have computed: `QuantizedLayers`. Takes graphs as they are read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

LAYERS = ("Convolution", "ConvolutionBackpropData", "GroupConvolution", "GroupConvolutionBackpropData", "MatMul")
"""What is computed in integers if its data and weights are quantized."""

_MOVING = ("Convert", "Gather", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""What may come to nothing between a layer and a Gather."""

_SCALING = ("Add", "Divide", "Multiply", "Subtract", *_MOVING)
"""What a layer's scales may move behind, or be computed together with."""

_CUTTING = ("Clamp", "Relu", *_SCALING)
"""What quantizing does as well, or may be done before it at no cost."""

INTEGERS = ("i4", "i8", "u4", "u8")
"""What weights are quantized to."""


class QuantizedLayers:
    """Which nodes give what quantized layers have computed. Learnt in one look at each node, behind those it takes."""

    def __init__(self, ordered: Iterable[Any]) -> None:
        self._quantized: set[str] = set()
        self._sums: set[str] = set()
        self._cut: set[str] = set()
        self._moved_from: dict[str, Any] = {}
        for node in ordered:
            if node.get_type_name() in LAYERS:
                self._learn_layer(node)
            elif node.get_input_size():
                self._learn(node)
            elif node.get_type_name() == "Constant" and node.get_element_type().get_type_name() in INTEGERS:
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
