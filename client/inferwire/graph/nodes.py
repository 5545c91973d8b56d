"""The nodes behind the ports of models, as a client knows them.

Owns the part of `Node` that needs no graph. Nodes are made from descriptions that a server sent, never by users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, SupportsIndex

from inferwire.arguments import Unpicklable, as_size, incompatible
from inferwire.graph.described import PortDescription
from inferwire.graph.ports import DescriptorTensor, Output
from inferwire.not_offered import PartlyMirrored, refuse
from inferwire.tab_completion import TabCompleted
from inferwire.values.layout import Layout, as_layout, fits
from inferwire.values.partial_shape import PartialShape
from inferwire.values.shapes import Shape
from inferwire.values.types import Type

_IN_NODES = {"float32": "float", "double64": "double"}
"""How the text of a node names those element types that have another name in their own text."""


class Node(TabCompleted, Unpicklable, PartlyMirrored):
    """The node behind a port. Mirrors the part of `openvino.Node` that needs no graph.

    Differs from OpenVINO: only names, type, layout, attributes and the outputs' types and shapes are here; friendly
    name and layout can be set and stay on the client, except for layouts, which `PrePostProcessor` builds in.
    """

    __slots__ = ("__weakref__", "_description", "_friendly_name", "_is_renamed", "_layout")

    _own_use = frozenset({"described", "follow", "is_renamed", "rename", "take_labels"})

    def __init__(self, description: PortDescription) -> None:
        self._description = description
        self._is_renamed = False
        self._friendly_name = description.node_name
        self._layout = Layout(description.layout)

    def __repr__(self) -> str:
        return f"<{self.get_type_name()}: '{self._friendly_name}' ({self._facts()})>"

    def follow(self, description: PortDescription) -> None:
        """Take the port's new description from the server; for the SDK's own use, not in openvino."""
        self._description, self._is_renamed = description, False

    def described(self, index: int) -> PortDescription:
        """Give the description of an output; for the SDK's own use, not in openvino."""
        del index
        return self._description

    @property
    def is_renamed(self) -> bool:
        """Whether it has names that the server was not told yet; for the SDK's own use, not in openvino."""
        return self._is_renamed

    def rename(self, names: frozenset[str]) -> None:
        """Name the only output; for the SDK's own use, not in openvino.

        Raises:
            RuntimeError: For a node that is neither a parameter nor a result.
        """
        del names
        refuse("naming an output of a node that is neither a parameter nor a result")

    def take_labels(self, other: Node) -> None:
        """Copy friendly name and layout, which programs set, from another; for the SDK's own use, not in openvino."""
        self._friendly_name, self._layout = other._friendly_name, other._layout

    @property
    def friendly_name(self) -> str:
        """The name for people; setting it changes nothing on the server. Mirrors `openvino.Node.friendly_name`."""
        return self._friendly_name

    @friendly_name.setter
    def friendly_name(self, name: str) -> None:
        self.set_friendly_name(name)

    @property
    def layout(self) -> Layout:
        """The meaning of each dimension of the port. Mirrors `openvino.op.Parameter.layout`."""
        return self._layout

    @layout.setter
    def layout(self, layout: Layout) -> None:
        self.set_layout(layout)

    @property
    def name(self) -> str:
        """The name that the server sent; setting `friendly_name` does not change it. Mirrors `openvino.Node.name`."""
        return self._description.node_name

    def get_friendly_name(self) -> str:
        """Give `friendly_name`."""
        return self._friendly_name

    def set_friendly_name(self, name: str) -> None:
        """Set `friendly_name`.

        Raises:
            TypeError: For what is no text.
        """
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise incompatible("set_friendly_name", "(self: Node, name: str) -> None", invoked=(self, name))
        self._friendly_name = name

    def get_name(self) -> str:
        """Give `name`."""
        return self.name

    def get_type_name(self) -> str:
        """Give the type of the node, as "Parameter". Mirrors `openvino.Node.get_type_name`."""
        return self._description.node_type

    def get_element_type(self) -> Type:
        """Give the type of the only output's elements. Mirrors `openvino.Node.get_element_type`.

        Raises:
            RuntimeError: If there is more than one output.
        """
        return self._only_output("get_element_type").element_type

    def get_layout(self) -> Layout:
        """Give `layout`."""
        return self._layout

    def set_layout(self, layout: Layout) -> None:
        """Set `layout`.

        Raises:
            TypeError: For what is no layout.
            RuntimeError: For one that does not fit the port's shape.
        """
        known = as_layout(layout)
        if known is None:
            raise incompatible("set_layout", "(self: Node, layout: Layout) -> None", invoked=(self, layout))
        shape = self._description.partial_shape
        if not fits(known, shape):
            port = f"{self._friendly_name}[0]:{self._description.element_type.type_name}{shape}"
            raise RuntimeError(
                f"Can't set layout for Parameter/Result opset1::{self.get_type_name()} {port}: "
                f"layout {known} is not compatible with shape {shape}"
            )
        self._layout = known

    @property
    def shape(self) -> Shape:
        """The shape of the only output. Mirrors `openvino.Node.shape`.

        Raises:
            RuntimeError: If it is not known in full, or there is more than one output.
        """
        return self._only_output("get_shape").partial_shape.to_shape()

    def get_input_size(self) -> int:
        """Give the number of the node's inputs: none, unless a derived class says otherwise.

        Mirrors `openvino.Node.get_input_size`.
        """
        return 0

    def get_output_size(self) -> int:
        """Give the number of the node's outputs. Mirrors `openvino.Node.get_output_size`."""
        return len(self._outputs())

    def get_output_element_type(self, index: SupportsIndex) -> Type:
        """Give the type of an output's elements. Mirrors `openvino.Node.get_output_element_type`.

        Raises:
            TypeError: For what is no position.
            RuntimeError: If there is no such output.
        """
        return self._output_at("get_output_element_type", index).element_type

    def get_output_partial_shape(self, index: SupportsIndex) -> PartialShape:
        """Give the shapes that an output can have. Mirrors `openvino.Node.get_output_partial_shape`.

        Raises:
            TypeError: For what is no position.
            RuntimeError: If there is no such output.
        """
        return PartialShape(self._output_at("get_output_partial_shape", index).partial_shape)

    def get_output_shape(self, index: SupportsIndex) -> Shape:
        """Give the shape of an output. Mirrors `openvino.Node.get_output_shape`.

        Raises:
            TypeError: For what is no position.
            RuntimeError: If there is no such output, or the shape is not known in full.
        """
        return self._output_at("get_output_shape", index).partial_shape.to_shape()

    def get_output_tensor(self, index: SupportsIndex) -> DescriptorTensor:
        """Give the descriptor of an output's tensors. Mirrors `openvino.Node.get_output_tensor`.

        Raises:
            TypeError: For what is no position.
            RuntimeError: If there is no such output.
        """
        self._output_at("get_output_tensor", index)
        return self.output(index).tensor

    def get_attributes(self) -> dict[str, Any]:
        """Refuse: attributes are known only of parameters, of results and of nodes that `Model.get_ops` gives.

        Mirrors `openvino.Node.get_attributes`.

        Raises:
            RuntimeError: Always.
        """
        refuse("get_attributes() of a node that is neither a parameter nor a result")

    def output(self, output_index: SupportsIndex) -> Output:
        """Give an output. Mirrors `openvino.Node.output`.

        Raises:
            TypeError: For what is no position.
            RuntimeError: If there is no such output.
        """
        position, outputs = as_size(output_index), self._outputs()
        if position is None:
            raise incompatible("output", "(self: Node, output_index: int)", invoked=(self, output_index))
        if position >= len(outputs):
            raise RuntimeError("node index is out of range")
        return Output(self, position)

    def outputs(self) -> list[Output]:
        """Give the outputs in order. Mirrors `openvino.Node.outputs`."""
        return [Output(self, index) for index in range(len(self._outputs()))]

    def input(self, input_index: SupportsIndex) -> Input:
        """Give an input. Mirrors `openvino.Node.input`.

        Raises:
            TypeError: For what is no position.
            RuntimeError: If there is no such input.
        """
        position, inputs = as_size(input_index), self.inputs()
        if position is None:
            raise incompatible("input", "(self: Node, input_index: int)", invoked=(self, input_index))
        if position >= len(inputs):
            raise RuntimeError("node index is out of range")
        return inputs[position]

    def inputs(self) -> list[Input]:
        """Refuse: inputs are known only of parameters and results. Mirrors `openvino.Node.inputs`.

        Raises:
            RuntimeError: Always.
        """
        refuse("inputs of a node that is neither a parameter nor a result")

    def _facts(self) -> str:
        """Describe the outputs for the node's text, as openvino does."""
        return ", ".join(str(each.partial_shape) for each in self._outputs())

    def _outputs(self) -> Sequence[PortDescription]:
        return (self._description,)

    def _only_output(self, function: str) -> PortDescription:
        outputs = self._outputs()
        if len(outputs) != 1:
            raise RuntimeError(f"{function}() must be called on a node with exactly one output.")
        return outputs[0]

    def _output_at(self, function: str, index: object) -> PortDescription:
        position, outputs = as_size(index), self._outputs()
        if position is None:
            raise incompatible(function, "(self: Node, index: int)", invoked=(self, index))
        if position >= len(outputs):
            raise RuntimeError(f"Check 'i < m_outputs.size()' failed: index '{position}' out of range")
        return outputs[position]


class _End(Node):
    """What `Parameter` and `Result` have in common."""

    __slots__ = ()

    def rename(self, names: frozenset[str]) -> None:
        """Name the only output; for the SDK's own use, not in openvino."""
        self._description, self._is_renamed = replace(self._description, names=names), True


class Parameter(_End):
    """The node behind an input. Mirrors the part of `openvino.op.Parameter` that reads it.

    Differs from OpenVINO: type and shape cannot be set here; `Model.reshape` sets shapes.
    """

    __slots__ = ()

    @property
    def element_type(self) -> Type:
        """The type of the input's elements. Mirrors `openvino.op.Parameter.element_type`."""
        return self._description.element_type

    @property
    def partial_shape(self) -> PartialShape:
        """The shapes that the input takes. Mirrors `openvino.op.Parameter.partial_shape`."""
        return PartialShape(self._description.partial_shape)

    def get_partial_shape(self) -> PartialShape:
        """Give `partial_shape`."""
        return self.partial_shape

    def get_shape(self) -> list[int]:
        """Give the lengths, -1 for one that is not known; an empty list if the rank is not known. Not in openvino."""
        shape = self._description.partial_shape
        return [each.min_length if each.is_static else -1 for each in shape] if shape.rank.is_static else []

    def get_attributes(self) -> dict[str, Any]:
        """Give the node's attributes: type and shape, with -1 for a length that is not known.

        Mirrors `openvino.op.Parameter.get_attributes`.
        """
        return {"shape": self.get_shape(), "element_type": self._description.element_type.type_name}

    def _facts(self) -> str:
        spoken = repr(self._description.element_type).removeprefix("<Type: '").removesuffix("'>")
        return f"{self._description.partial_shape}, {_IN_NODES.get(spoken, spoken)}"

    def inputs(self) -> list[Input]:
        """Give an empty list, since a parameter has no inputs. Mirrors `openvino.Node.inputs`."""
        return []


class Result(_End):
    """The node behind an output. Mirrors the part of `openvino.op.Result` that reads it."""

    __slots__ = ()

    def get_input_size(self) -> int:
        """Give the number of the node's inputs: one. Mirrors `openvino.Node.get_input_size`."""
        return 1

    def get_attributes(self) -> dict[str, Any]:
        """Give an empty dictionary, since a result has no attributes. Mirrors `openvino.Node.get_attributes`."""
        return {}

    def inputs(self) -> list[Input]:
        """Give its only input. Mirrors `openvino.Node.inputs`."""
        return [Input.of(self, self._description)]


class Input(TabCompleted, Unpicklable, PartlyMirrored):
    """The input of a `Result`, which leads to the node that computes it. Mirrors `openvino.Input`.

    Differs from OpenVINO: members that lead further into the graph or change it are not here.

    Raises:
        TypeError: If a program makes one, as in openvino.
    """

    __slots__ = ("__weakref__", "_description", "_node")

    _own_use = frozenset({"of"})

    _description: PortDescription
    _node: Node

    def __init__(self, *given: object) -> None:
        del given
        raise TypeError("inferwire.Input: No constructor defined!")

    @classmethod
    def of(cls, node: Node, description: PortDescription) -> Input:
        """Make the only input of a node; for the SDK's own use, not in openvino."""
        made = object.__new__(cls)
        made._node, made._description = node, description
        return made

    def __repr__(self) -> str:
        return f"<Input: shape{self._description.partial_shape} type: {self._description.element_type.type_name}>"

    def get_node(self) -> Node:
        """Give the node that it belongs to. Mirrors `openvino.Input.get_node`."""
        return self._node

    def get_index(self) -> int:
        """Give its place among the inputs of its node. Mirrors `openvino.Input.get_index`."""
        return 0

    def get_element_type(self) -> Type:
        """Give the type of its elements. Mirrors `openvino.Input.get_element_type`."""
        return self._description.element_type

    def get_partial_shape(self) -> PartialShape:
        """Give the shapes that it takes. Mirrors `openvino.Input.get_partial_shape`."""
        return PartialShape(self._description.partial_shape)

    def get_shape(self) -> Shape:
        """Give its shape. Mirrors `openvino.Input.get_shape`.

        Raises:
            RuntimeError: If it is not known in full.
        """
        return self._description.partial_shape.to_shape()

    def get_source_output(self) -> Output:
        """Give the output of another node that it is connected to. Mirrors `openvino.Input.get_source_output`.

        Raises:
            RuntimeError: If the server is too old to say which that is.
        """
        source = self._description.source
        if source is None:
            refuse("Input.get_source_output() by a server older than this client")
        described = replace(
            self._description, node_name=source.node_name, node_type=source.node_type, layout="", source=None
        )
        return Output(node_of(described), source.index)


class Assign(Node):
    """The node that writes a state. Mirrors the part of `openvino.Node` that tells what it is.

    Differs from OpenVINO: it does not tell which state.
    """

    __slots__ = ()

    _mirrors = "Node"

    def get_input_size(self) -> int:
        """Give the number of the node's inputs: one. Mirrors `openvino.Node.get_input_size`."""
        return 1


_KINDS: Mapping[str, type[Node]] = {"Assign": Assign, "Parameter": Parameter, "Result": Result}


def node_of(description: PortDescription) -> Node:
    """Make the node behind a port."""
    return _KINDS.get(description.node_type, Node)(description)
