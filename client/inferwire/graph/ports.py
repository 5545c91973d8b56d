"""The inputs and outputs of models, as a client knows them.

Owns `ConstOutput` and `Output`, and the descriptors of their tensors. All are made from descriptions that a server
sent, never by users.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any, NoReturn, Self, TypeVar

import inferwire  # for type hints: the module of nodes imports this one
from inferwire.graph.described import Described, PortDescription, as_names
from inferwire.not_offered import refuse

P = TypeVar("P", bound="Port")


class Port(Described):
    """What `ConstOutput` and `Output` have in common.

    Two ports are equal if they have the same class, node and index. A port of one compilation of a model therefore
    equals none of another compilation, and none of the model that was compiled.
    """

    def __init__(self, node: inferwire.Node, index: int = 0) -> None:
        self._node = node
        self._index = index

    def __copy__(self) -> Self:
        return type(self)(self._node, self._index)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._node is other._node and self._index == other._index

    def __hash__(self) -> int:
        return id(self._node)

    def __lt__(self, other: object) -> bool:
        return hash(self) < hash(other) if isinstance(other, type(self)) else NotImplemented

    def __le__(self, other: object) -> bool:
        return hash(self) <= hash(other) if isinstance(other, type(self)) else NotImplemented

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        raise TypeError(f"Cannot deepcopy 'openvino.{type(self).__name__}' object.")

    @property
    def index(self) -> int:
        """The port's place among the outputs of its node: 0 for inputs and outputs of models.

        Mirrors `openvino.Output.index`.
        """
        return self._index

    @property
    def node(self) -> inferwire.Node:
        """The node behind the port. Mirrors `openvino.Output.node`."""
        return self._node

    @property
    def tensor(self) -> DescriptorTensor:
        """The descriptor of the port's tensors. Mirrors `openvino.Output.tensor`."""
        return DescriptorTensor.of(self)

    def get_index(self) -> int:
        """Give `index`."""
        return self._index

    def get_node(self) -> inferwire.Node:
        """Give `node`."""
        return self._node

    def get_tensor(self) -> DescriptorTensor:
        """Give `tensor`."""
        return self.tensor


class ConstOutput(Port):
    """One input or output of a compiled model. Mirrors `openvino.ConstOutput`.

    Differs from OpenVINO: `rt_info`, `target_inputs` and other members that lead into the graph are not here; there
    is a constructor, for the SDK's own use.

    Example:
        >>> compiled.input("data")
        <ConstOutput: names[data] shape[1,3] type: f32>
        >>> compiled.input("data").shape
        <Shape: [1,3]>
    """

    def __init__(self, node: inferwire.Node, index: int = 0) -> None:
        super().__init__(node, index)
        self._description = node.described(index)

    @property
    def description(self) -> PortDescription:
        """The server's description of the port; for the SDK's own use, not in openvino."""
        return self._description


class Output(Port):
    """One input or output of a model that is not compiled, or an output of a node. Mirrors `openvino.Output`.

    Differs from OpenVINO: members that lead into the graph or change it are not here, except for the names of a model's
    inputs and outputs; an output that passes an input on, or is the same as another output, shares new names with it
    only after the next call that asks the server; there is a constructor, for the SDK's own use.

    Example:
        >>> model.output(0).set_names({"scores"})
        >>> compiled = core.compile_model(model, "CPU")
        >>> scores = compiled(image)["scores"]
    """

    _own_use = frozenset({"follow"})

    @property
    def description(self) -> PortDescription:
        """The server's latest description of the port; for the SDK's own use, not in openvino."""
        return self._node.described(self._index)

    def follow(self, description: PortDescription) -> None:
        """Take the port's new description from the server; for the SDK's own use, not in openvino."""
        self._node.follow(description)

    def set_names(self, names: Set[str]) -> None:
        """Replace the port's names. Mirrors `openvino.Output.set_names`.

        The server is told with the next call that needs the model there, such as `Core.compile_model`.

        Raises:
            TypeError: For what is no set of names.
            RuntimeError: For an output of an inner node.
        """
        self._node.rename(as_names("set_names", self, names))

    def add_names(self, names: Set[str]) -> None:
        """Add names to those that the port has. Mirrors `openvino.Output.add_names`.

        Raises:
            TypeError: For what is no set of names.
            RuntimeError: For an output of an inner node.
        """
        self._node.rename(self.description.names | as_names("add_names", self, names))


class DescriptorTensor(Described):
    """Names, type and shape of a port's tensors. Mirrors the part of openvino's `DescriptorTensor` that needs no graph.

    Differs from OpenVINO: each call gives a new object, which equals all others of the same port; the names of
    compiled models cannot be set.

    Example:
        >>> model.output(0).get_tensor().set_names({"scores"})

    Raises:
        TypeError: If a program makes one, as in openvino.
    """

    __slots__ = ("_port",)

    _own_use = frozenset({"of"})

    _port: Port

    def __init__(self, *given: object) -> None:
        del given
        raise TypeError("inferwire.DescriptorTensor: No constructor defined!")

    @classmethod
    def of(cls, port: Port) -> DescriptorTensor:
        """Make the descriptor of a port; for the SDK's own use, not in openvino."""
        made = object.__new__(cls)
        made._port = port
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DescriptorTensor) and self._port == other._port

    def __hash__(self) -> int:
        return hash(self._port)

    @property
    def description(self) -> PortDescription:
        """The server's description of the port; for the SDK's own use, not in openvino."""
        return self._port.description

    @property
    def size(self) -> int:
        """How many bytes a tensor has. Mirrors `size` of openvino's class.

        Raises:
            RuntimeError: If the shape is not known in full.
        """
        elements = 1
        for length in self.shape:
            elements *= length
        return (elements * self.element_type.bitwidth + 7) // 8

    def set_names(self, names: Set[str]) -> None:
        """Replace the port's names, as `Output.set_names`.

        Raises:
            TypeError: For what is no set of names.
            RuntimeError: For an output of an inner node, or of a compiled model.
        """
        self._named().set_names(as_names("set_names", self, names))

    def add_names(self, names: Set[str]) -> None:
        """Add names to those that the port has, as `Output.add_names`.

        Raises:
            TypeError: For what is no set of names.
            RuntimeError: For an output of an inner node, or of a compiled model.
        """
        self._named().add_names(as_names("add_names", self, names))

    def _named(self) -> Output:
        if not isinstance(self._port, Output):
            refuse("naming inputs and outputs of a compiled model")
        return self._port


def are_alike(port: Port, other: Port) -> bool:
    """Tell whether two ports, which may be of different models, have the same names and nodes of the same name.

    Type and shape may differ, as they do when a model is compiled for two shapes.
    """
    ours, theirs = port.description, other.description
    return (ours.names, ours.node_type, ours.node_name) == (theirs.names, theirs.node_type, theirs.node_name)


def port_named(kind: str, ports: Iterable[P], name: str) -> P:
    """Find the port of a kind, "input" or "output", that has a name.

    Raises:
        RuntimeError: If none has it.
    """
    for port in ports:
        if name in port.description.names:
            return port
    raise RuntimeError(f"{kind.capitalize()} for tensor name '{name}' is not found.")


def copy_labels(ports: Iterable[Port], others: Iterable[Port]) -> None:
    """Copy friendly names and layouts from the nodes of ports to those of the other ports, one for one."""
    for port, other in zip(ports, others, strict=True):
        other.node.take_labels(port.node)
