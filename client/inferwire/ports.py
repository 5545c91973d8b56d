"""The inputs and outputs of models, as a client knows them.

Owns `ConstOutput` and the little of `Node` that a port leads to. Both are made from descriptions
that a server sent, never by users.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from inferwire.arguments import Unpicklable, as_size, incompatible, openvinos
from inferwire.layout import Layout, as_layout
from inferwire.not_offered import PartlyMirrored
from inferwire.partial_shape import PartialShape
from inferwire.shapes import Shape
from inferwire.types import Type, as_type


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
    """

    names: frozenset[str]
    element_type: Type
    partial_shape: PartialShape
    node_name: str
    node_type: str
    oip_name: str
    layout: str = ""


_IN_NODES = {"float32": "float", "double64": "double"}
"""Element types whose name in the text of a node is another than in their own."""


class Node(Unpicklable, PartlyMirrored):
    """The node behind a port. Mirrors the part of `openvino.Node` that needs no graph.

    Differs from OpenVINO: only names, type, layout and the output's type and shape are here; friendly name and layout
    can be set and stay on the client, but for the layouts that `PrePostProcessor` builds in.
    """

    __slots__ = ("__weakref__", "_description", "_friendly_name", "_layout")

    def __init__(self, description: PortDescription) -> None:
        self._description = description
        self._friendly_name = description.node_name
        self._layout = Layout(description.layout)

    def __repr__(self) -> str:
        spoken = repr(self._description.element_type).removeprefix("<Type: '").removesuffix("'>")
        # Only of a result openvino does not say the type.
        of_type = "" if self.get_type_name() == "Result" else f", {_IN_NODES.get(spoken, spoken)}"
        return f"<{self.get_type_name()}: '{self._friendly_name}' ({self._description.partial_shape}{of_type})>"

    def follow(self, description: PortDescription) -> None:
        """Become what the server now says of the port; for the SDK's own use, not in openvino."""
        self._description = description

    @property
    def friendly_name(self) -> str:
        """The name for people; setting it changes nothing on the server."""
        return self._friendly_name

    @friendly_name.setter
    def friendly_name(self, name: str) -> None:
        self._rename("", name)

    @property
    def layout(self) -> Layout:
        """Which dimension of the port is what."""
        return self._layout

    @layout.setter
    def layout(self, layout: Layout) -> None:
        self._lay_out("", layout)

    @property
    def name(self) -> str:
        """The name the node came with."""
        return self._description.node_name

    def get_friendly_name(self) -> str:
        """Give `friendly_name`."""
        return self._friendly_name

    def set_friendly_name(self, name: str) -> None:
        """Set `friendly_name`.

        Raises:
            TypeError: For what is no text.
        """
        self._rename("set_friendly_name", name)

    def get_name(self) -> str:
        """Give `name`."""
        return self.name

    def get_type_name(self) -> str:
        """Give the type of the node, as "Parameter"."""
        return self._description.node_type

    def get_element_type(self) -> Type:
        """Give the type of the port's elements."""
        return self._description.element_type

    def get_layout(self) -> Layout:
        """Give `layout`."""
        return self._layout

    def set_layout(self, layout: Layout) -> None:
        """Set `layout`.

        Raises:
            TypeError: For what is no layout.
        """
        self._lay_out("set_layout", layout)

    @property
    def shape(self) -> Shape:
        """The shape of the port, where it is known in full.

        Raises:
            RuntimeError: Where it is not.
        """
        return self._description.partial_shape.to_shape()

    def get_output_size(self) -> int:
        """Give the number of the node's outputs."""
        return 1

    def get_output_element_type(self, i: int) -> Type:
        """Give the type of the port's elements; `i` can only be 0."""
        self._check_only(i)
        return self._description.element_type

    def get_output_partial_shape(self, i: int) -> PartialShape:
        """Give what shapes the port takes or gives; `i` can only be 0."""
        self._check_only(i)
        return PartialShape(self._description.partial_shape)

    def get_output_shape(self, i: int) -> Shape:
        """Give the shape of the port, where it is known in full; `i` can only be 0."""
        self._check_only(i)
        return self.shape

    def get_attributes(self) -> dict[str, Any]:
        """Give what the node was made with: type and shape of an input, with -1 where a length is not known."""
        if self._description.node_type != "Parameter":
            return {}
        shape = self._description.partial_shape
        lengths = [each.min_length if each.is_static else -1 for each in shape] if shape.rank.is_static else None
        return {"shape": lengths, "element_type": self._description.element_type.type_name}

    def output(self, index: int) -> ConstOutput:
        """Give the port; `index` can only be 0."""
        self._check_only(index)
        return ConstOutput(self._description, self)

    def outputs(self) -> list[ConstOutput]:
        """Give the port in a list."""
        return [self.output(0)]

    def _rename(self, function: str, name: object) -> None:
        if not isinstance(name, str):
            raise incompatible(function, "(self: Node, name: str) -> None", invoked=(self, name))
        self._friendly_name = name

    def _lay_out(self, function: str, layout: object) -> None:
        known = as_layout(layout)
        if known is None:
            raise incompatible(function, "(self: Node, layout: Layout) -> None", invoked=(self, layout))
        self._layout = known

    def _check_only(self, index: int) -> None:
        if as_size(index) != 0:
            raise RuntimeError(f"node '{self._friendly_name}' has one output, so that {index!r} is out of range")


class Input:
    """An input of a node, of which a client sees none: a name for annotations. Mirrors that of `openvino.Input`.

    Raises:
        TypeError: Always, as openvino's does.
    """

    def __init__(self, *given: object) -> None:
        del given
        raise TypeError("inferwire.Input: No constructor defined!")


class ConstOutput(PartlyMirrored):
    """One input or output of a compiled model. Mirrors `openvino.ConstOutput`.

    Two ports are equal where they are ports of the same node: those of another compilation of the
    same model are not.

    Differs from OpenVINO: `rt_info`, `tensor`, `target_inputs` and what else leads into the graph
    are not here; there is a constructor, for the SDK's own use.

    Example:
        >>> compiled.input("data")
        <ConstOutput: names[data] shape[1,3] type: f32>
        >>> compiled.input("data").shape
        <Shape: [1,3]>
    """

    def __init__(self, description: PortDescription, node: Node | None = None) -> None:
        self._description = description
        self._node = node or Node(description)

    def __repr__(self) -> str:
        names = ", ".join(sorted(self._description.names))
        return f"<ConstOutput: names[{names}] shape{self.partial_shape} type: {self.element_type.type_name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstOutput) and self._node is other._node

    def __hash__(self) -> int:
        return id(self._node)

    def __lt__(self, other: object) -> bool:
        return hash(self) < hash(other) if isinstance(other, ConstOutput) else NotImplemented

    def __le__(self, other: object) -> bool:
        return hash(self) <= hash(other) if isinstance(other, ConstOutput) else NotImplemented

    def __copy__(self) -> ConstOutput:
        return ConstOutput(self._description, self._node)

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        raise TypeError("Cannot deepcopy 'openvino.ConstOutput' object.")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("cannot pickle 'inferwire.ConstOutput' object")

    @property
    def description(self) -> PortDescription:
        """What the server said of the port; not in openvino."""
        return self._description

    @property
    def any_name(self) -> str:
        """The smallest of the port's names.

        Raises:
            RuntimeError: For a port without names.
        """
        if not self._description.names:
            raise RuntimeError("Attempt to get a name for a Tensor without names")
        return min(self._description.names)

    @property
    def names(self) -> set[str]:
        """All names of the port."""
        return set(self._description.names)

    @property
    def element_type(self) -> Type:
        """The type of the port's elements."""
        return self._description.element_type

    @property
    def partial_shape(self) -> PartialShape:
        """What shapes the port takes or gives."""
        return PartialShape(self._description.partial_shape)

    @property
    def shape(self) -> Shape:
        """The shape, where it is known in full.

        Raises:
            RuntimeError: Where it is not.
        """
        return self._description.partial_shape.to_shape()

    @property
    def index(self) -> int:
        """The port's place among the outputs of its node: always 0."""
        return 0

    @property
    def node(self) -> Node:
        """The node behind the port."""
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
        return 0

    def get_node(self) -> Node:
        """Give `node`."""
        return self._node


def copy_layouts(ports: Iterable[ConstOutput], others: Iterable[ConstOutput]) -> None:
    """Give the nodes of other ports, one for one, the layouts of these."""
    for port, other in zip(ports, others, strict=True):
        other.node.layout = port.node.layout


def as_port(value: object) -> ConstOutput | None:
    """Take a port, ours or one of a model of openvino's, which is then described alike; None for anything else."""
    if isinstance(value, ConstOutput):
        return value
    if openvinos(value) not in ("ConstOutput", "Output"):
        return None
    theirs = cast("Any", value)
    element_type = as_type(theirs.get_element_type()) or Type.dynamic
    shape = PartialShape(str(theirs.get_partial_shape()))
    node = theirs.get_node()
    names = frozenset[str](theirs.get_names())
    return ConstOutput(PortDescription(names, element_type, shape, node.get_friendly_name(), node.get_type_name(), ""))
