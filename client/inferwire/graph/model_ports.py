"""The inputs and outputs of one model: how they are found, and which shapes fit them.

Owns the lookups by position, name and port, with openvino's texts, and the check of a shape.
Knows nothing of tensors or requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inferwire.graph.described import PortDescription
from inferwire.graph.nodes import node_of
from inferwire.graph.ports import ConstOutput, Port, are_alike
from inferwire.values.partial_shape import PartialShape
from inferwire.values.types import element_type_of
from inferwire_proto.element_types import ElementType


@dataclass(frozen=True, slots=True, eq=False)
class ModelPort:
    """One port, with the type and the shapes that a tensor for it is checked against.

    Attributes:
        port: The port that users see.
        index: Its position among the inputs or the outputs.
        is_input: Whether it is an input; if not, it is an output.
        element_type: The type of its elements.
        shape: The shapes that fit.
        bounds: The smallest and the largest length of each dimension, the latter -1 if there
            is none; None if not even the rank is known.
    """

    port: ConstOutput
    index: int
    is_input: bool
    element_type: ElementType
    shape: PartialShape
    bounds: tuple[tuple[int, int], ...] | None

    @property
    def is_static(self) -> bool:
        """Whether only one shape fits."""
        return self.bounds is not None and all(low == high for low, high in self.bounds)

    @property
    def first_shape(self) -> tuple[int, ...]:
        """The shape of the tensor a request starts with: 0 for each length that is not known."""
        return tuple(low if low == high else 0 for low, high in self.bounds or ())

    def fits(self, shape: Sequence[int]) -> bool:
        """Tell whether a tensor of this shape fits."""
        if self.bounds is None:
            return True
        return len(shape) == len(self.bounds) and all(
            low <= size and (high < 0 or size <= high) for size, (low, high) in zip(shape, self.bounds, strict=True)
        )


class ModelPorts:
    """All ports of one model."""

    def __init__(self, inputs: Iterable[PortDescription], outputs: Iterable[PortDescription]) -> None:
        self.inputs = tuple(_model_port(each, index, is_input=True) for index, each in enumerate(inputs))
        self.outputs = tuple(_model_port(each, index, is_input=False) for index, each in enumerate(outputs))
        self.input_ports = [each.port for each in self.inputs]
        self.output_ports = [each.port for each in self.outputs]
        everything = (*self.inputs, *self.outputs)
        self._by_port: dict[Port, ModelPort] = {each.port: each for each in everything}
        self._by_name = {name: each for each in reversed(everything) for name in each.port.names}

    def __repr__(self) -> str:
        inputs = ",\n".join(map(repr, self.input_ports))
        outputs = ",\n".join(map(repr, self.output_ports))
        return f"inputs[\n{inputs}\n]\noutputs[\n{outputs}\n]"

    def named(self, name: str) -> ModelPort:
        """Find an input or output by one of its names.

        Raises:
            RuntimeError: If none has it.
        """
        if name not in self._by_name:
            raise RuntimeError(f"Port for tensor name {name} was not found.")
        return self._by_name[name]

    def of(self, port: Port) -> ModelPort:
        """Find a port of this model, given the port itself or a port of another compilation that is described alike.

        Raises:
            RuntimeError: If no port is like it.
        """
        own = self._by_port.get(port)
        return own if own is not None else self._like(port)

    def _like(self, port: Port) -> ModelPort:
        for own in self._by_port.values():
            if are_alike(own.port, port):
                return own
        raise RuntimeError(f"Can not find port: {min(port.names, default=port.node.friendly_name)}")


def _model_port(description: PortDescription, index: int, *, is_input: bool) -> ModelPort:
    shape = description.partial_shape
    bounds = tuple((each.min_length, each.max_length) for each in shape) if shape.rank.is_static else None
    element_type = element_type_of(description.element_type)
    return ModelPort(ConstOutput(node_of(description)), index, is_input, element_type, shape, bounds)
