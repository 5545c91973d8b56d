"""The inputs and outputs of models, as a client knows them.

Owns `ConstOutput` and `Output`, which are made from descriptions that a server sent, never by users.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, Self, TypeVar

import inferwire  # for hints of nodes, which know ports
from inferwire.arguments import Unpicklable
from inferwire.completion import Completed
from inferwire.not_offered import PartlyMirrored
from inferwire.values.partial_shape import PartialShape
from inferwire.values.shapes import Shape
from inferwire.values.types import Type

P = TypeVar("P", bound="Port")


@dataclass(frozen=True, slots=True)
class PortSource:
    """The node whose output a model gives as its own, and which output of it that is."""

    node_name: str
    node_type: str
    index: int


@dataclass(frozen=True, slots=True)
class PortDescription:
    """What a server says of one port.

    Attributes:
        names: The tensor names; empty where the model gives none.
        element_type: The type of its elements.
        partial_shape: What shapes it takes or gives.
        node_name: The friendly name of the node behind it.
        node_type: The type of the node, "Parameter" or "Result" for compiled models.
        oip_name: Its unique name in the Open Inference Protocol.
        layout: Which dimension is what, as the text of a `Layout`; empty where the model does not say.
        source: Where an output's values come from.
    """

    names: frozenset[str]
    element_type: Type
    partial_shape: PartialShape
    node_name: str
    node_type: str
    oip_name: str
    layout: str = ""
    source: PortSource | None = None


class Port(Completed, Unpicklable, PartlyMirrored):
    """What `ConstOutput` and `Output` have in common, which are two classes without a common one in openvino.

    Two ports are equal where they are of the same class and node: those of another compilation of the same model are
    not, and neither are those of the model that was compiled.
    """

    _own_use = frozenset({"description", "facts", "follow"})

    def __init__(self, description: PortDescription, node: inferwire.Node, index: int = 0) -> None:
        self._description = description
        self._node = node
        self._index = index

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.facts()}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._node is other._node and self._index == other._index

    def __hash__(self) -> int:
        return id(self._node)

    def __lt__(self, other: object) -> bool:
        return hash(self) < hash(other) if isinstance(other, type(self)) else NotImplemented

    def __le__(self, other: object) -> bool:
        return hash(self) <= hash(other) if isinstance(other, type(self)) else NotImplemented

    def __copy__(self) -> Self:
        return type(self)(self._description, self._node, self._index)

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        raise TypeError(f"Cannot deepcopy 'openvino.{type(self).__name__}' object.")

    def facts(self) -> str:
        """Give names, shape and type as text; for the SDK's own use, not in openvino."""
        names = ", ".join(sorted(self._description.names))
        return f"names[{names}] shape{self.partial_shape} type: {self.element_type.type_name}"

    @property
    def description(self) -> PortDescription:
        """What the server said of the port; not in openvino."""
        return self._description

    @property
    def any_name(self) -> str:
        """The smallest of the port's names. Mirrors `openvino.Output.any_name`.

        Raises:
            RuntimeError: For a port without names.
        """
        if not self._description.names:
            raise RuntimeError("Attempt to get a name for a Tensor without names")
        return min(self._description.names)

    @property
    def names(self) -> set[str]:
        """All names of the port. Mirrors `openvino.Output.names`."""
        return set(self._description.names)

    @property
    def element_type(self) -> Type:
        """The type of the port's elements. Mirrors `openvino.Output.element_type`."""
        return self._description.element_type

    @property
    def partial_shape(self) -> PartialShape:
        """What shapes the port takes or gives, in elements. Mirrors `openvino.Output.partial_shape`."""
        return PartialShape(self._description.partial_shape)

    @property
    def shape(self) -> Shape:
        """The shape, where it is known in full. Mirrors `openvino.Output.shape`.

        Raises:
            RuntimeError: Where it is not.
        """
        return self._description.partial_shape.to_shape()

    @property
    def index(self) -> int:
        """The port's place among the outputs of its node: 0 but for nodes of runtime models.

        Mirrors `openvino.Output.index`.
        """
        return self._index

    @property
    def node(self) -> inferwire.Node:
        """The node behind the port. Mirrors `openvino.Output.node`."""
        return self._node

    def get_any_name(self) -> str:
        """Give `any_name`."""
        return self.any_name

    def get_names(self) -> set[str]:
        """Give `names`."""
        return self.names

    def get_element_type(self) -> Type:
        """Give `element_type`."""
        return self.element_type

    def get_partial_shape(self) -> PartialShape:
        """Give `partial_shape`."""
        return self.partial_shape

    def get_shape(self) -> Shape:
        """Give `shape`."""
        return self.shape

    def get_index(self) -> int:
        """Give `index`."""
        return self._index

    def get_node(self) -> inferwire.Node:
        """Give `node`."""
        return self._node


class ConstOutput(Port):
    """One input or output of a compiled model. Mirrors `openvino.ConstOutput`.

    Differs from OpenVINO: `rt_info`, `tensor`, `target_inputs` and what else leads into the graph
    are not here; there is a constructor, for the SDK's own use.

    Example:
        >>> compiled.input("data")
        <ConstOutput: names[data] shape[1,3] type: f32>
        >>> compiled.input("data").shape
        <Shape: [1,3]>
    """


class Output(Port):
    """One input or output of a model that is not compiled, or an output of a node. Mirrors `openvino.Output`.

    Differs from OpenVINO: what leads into the graph or changes it is not here; there is a constructor, for the SDK's
    own use.
    """

    def follow(self, description: PortDescription) -> None:
        """Become what the server now says of the port; for the SDK's own use, not in openvino."""
        self._description = description
        self._node.follow(description)


def are_alike(port: Port, other: Port) -> bool:
    """Tell whether two ports, which may be of different models, have the same names and nodes of the same name.

    Type and shape may differ, as they do where a model is compiled for two shapes.
    """
    ours, theirs = port.description, other.description
    return (ours.names, ours.node_type, ours.node_name) == (theirs.names, theirs.node_type, theirs.node_name)


def port_named(kind: str, ports: Iterable[P], name: str) -> P:
    """Find the port of a kind, "input" or "output", that has a name.

    Raises:
        RuntimeError: If none has it.
    """
    for port in ports:
        if name in port.names:
            return port
    raise RuntimeError(f"{kind.capitalize()} for tensor name '{name}' is not found.")


def copy_labels(ports: Iterable[Port], others: Iterable[Port]) -> None:
    """Give the nodes of other ports, one for one, what can be set for those of these: friendly names and layouts."""
    for port, other in zip(ports, others, strict=True):
        other.node.take_labels(port.node)
