"""Which inputs without elements a model cannot take, although their shapes fit.

As of OpenVINO 2026.4 the CPU plugin passes over a node that is given nothing. If the node has something to give all the
same, as Gather or a convolution with padding, that is what the inference before has left in its memory, which may be
another caller's; a TensorIterator ends the process. The shapes decide, so they are tried on a copy of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from math import prod
from threading import Lock
from typing import Any

import openvino as ov
from openvino import opset13

from inferwire_server.core.specs import ModelSpec
from inferwire_server.core.tensors import Shapes, Tensor, write_shape
from inferwire_server.errors import invalid_input
from inferwire_server.openvino_backend.edges import is_of_shapes
from inferwire_server.openvino_backend.errors import OPENVINO_ERRORS

op: Any = opset13

_REDUCING = ("L1", "L2", "LogicalAnd", "LogicalOr", "Max", "Mean", "Min", "Prod", "Sum")
_UPDATING = ("ScatterElementsUpdate", "ScatterNDUpdate", "ScatterUpdate")
_JOINING = ("Broadcast", "Concat", "Einsum", "MatMul", "Pad")
_OF_SHAPES = ("ConvertLike", "NonZero", "Range", "ShapeOf")
_OF_THE_GRAPH = ("Assign", "If", "ReadValue", "Result")

_GIVING = frozenset((*(f"Reduce{name}" for name in _REDUCING), *_UPDATING, *_JOINING, *_OF_SHAPES, *_OF_THE_GRAPH))
"""The operations that give what they should, also where one of their inputs has no elements and their output has."""

_ALWAYS_TAKING = frozenset(("Loop", "TensorIterator", "GenerateProposals", "StringTensorUnpack", "Unique"))
"""The operations that take elements although none are to come of them: the first two may end the process without."""

_MOST_ELEMENTS = 64
"""Constants of more elements are left out of the copy: none of them is a shape."""

_MOST_SHAPES = 256


class EmptyInputs:
    """Refuses inputs without elements where the model would take some."""

    def __init__(self, graph: Any) -> None:
        """Answer for a graph that is not used for anything else."""
        inputs = list(graph.inputs)
        _leave_out_weights(graph)
        self._lock = Lock()
        # Of no method: a cycle with this object would keep the graph until garbage is collected, many reloads later.
        self._taking = lru_cache(_MOST_SHAPES)(partial(_find_taking, graph, inputs))

    @classmethod
    def of(cls, model: ov.Model) -> EmptyInputs | None:
        """Copy a model; None if none of its inputs can be without elements."""
        return cls(model.clone()) if any(_may_be_empty(port.get_partial_shape()) for port in model.inputs) else None

    def check(self, spec: ModelSpec, inputs: Sequence[Tensor]) -> None:
        """Refuse inputs that leave a node without the elements that it takes.

        Raises:
            ServingError: INVALID_INPUT that names the first input without elements, and the node.
        """
        for index, tensor in enumerate(inputs):
            if 0 in tensor.shape:
                self._check(tuple([each.shape for each in inputs]), spec.prefix_of(index), tensor)
                return

    def _check(self, shapes: Shapes, prefix: str, empty: Tensor) -> None:
        with self._lock:
            node = self._taking(shapes)
        if node is not None:
            raise invalid_input(
                f"{prefix} has shape {write_shape(empty.shape)}, expected at least one element: "
                f"the model's node {node} takes some"
            )


def _find_taking(graph: Any, inputs: Sequence[Any], shapes: Shapes) -> str | None:
    """Name the first node that would take elements and be given none; None if there is none, or nothing fits."""
    try:
        graph.reshape({port: ov.PartialShape(shape) for port, shape in zip(inputs, shapes, strict=True)})
    except OPENVINO_ERRORS:
        # OpenVINO refuses them as well when it is to run them.
        return None
    return next(_taking(graph.get_ordered_ops()), None)


def _taking(nodes: Sequence[Any]) -> Iterator[str]:
    for node in nodes:
        kind = node.get_type_name()
        if kind in _GIVING or not any(map(_is_empty, node.input_values())):
            continue
        if kind in _ALWAYS_TAKING or _picks_as_many_as_it_is_told(node) or not all(map(_is_empty, node.outputs())):
            yield f"'{node.get_friendly_name()}' ({kind})"


def _picks_as_many_as_it_is_told(node: Any) -> bool:
    """Whether it is a TopK of a number that comes with the inputs. Its shape is then that of the least number: none."""
    return node.get_type_name() == "TopK" and not is_of_shapes(node.input_value(1).get_node())


def _is_empty(port: Any) -> bool:
    shape = port.get_partial_shape()
    return shape.is_static and prod(shape.to_shape()) == 0


def _may_be_empty(shape: ov.PartialShape) -> bool:
    return shape.rank.is_dynamic or any(length.get_min_length() == 0 for length in shape)


def _leave_out_weights(graph: Any) -> None:
    """Put inputs of the same types and shapes in the places of large constants."""
    places: list[Any] = []
    for node in graph.get_ops():
        if node.get_type_name() == "Constant" and prod(node.get_output_shape(0)) > _MOST_ELEMENTS:
            place = op.parameter(node.get_output_shape(0), node.get_output_element_type(0))
            for target in node.output(0).get_target_inputs():
                target.replace_source_output(place.output(0))
            places.append(place)
    graph.add_parameters(places)
