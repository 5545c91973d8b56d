"""Descriptions of the inputs and outputs of models, which a server sends, and the properties that are read from them.

Owns what ports and their tensors have in common, but not the setting of names, which only some of them offer.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import cast

from inferwire.arguments import Unpicklable, incompatible
from inferwire.not_offered import PartlyMirrored
from inferwire.tab_completion import TabCompleted
from inferwire.values.partial_shape import PartialShape
from inferwire.values.shapes import Shape
from inferwire.values.types import Type


@dataclass(frozen=True, slots=True)
class PortSource:
    """The output inside the graph that a model's output takes its values from: its node, and its index there."""

    node_name: str
    node_type: str
    index: int


@dataclass(frozen=True, slots=True)
class PortDescription:
    """A server's description of one port.

    Attributes:
        names: The tensor names; empty if the model gives none.
        element_type: The type of its elements.
        partial_shape: The shapes that it takes or gives.
        node_name: The friendly name of the node behind it.
        node_type: The type of the node, "Parameter" or "Result" for compiled models.
        oip_name: Its unique name in the Open Inference Protocol.
        layout: The meaning of each dimension, as the text of a `Layout`; empty if the model does not say.
        source: Where an output's values come from; None if the server does not say.
    """

    names: frozenset[str]
    element_type: Type
    partial_shape: PartialShape
    node_name: str
    node_type: str
    oip_name: str
    layout: str = ""
    source: PortSource | None = None


class Described(TabCompleted, Unpicklable, PartlyMirrored):
    """What `Output`, `ConstOutput` and their tensors have in common; openvino has no common class of the three."""

    __slots__ = ()

    _own_use = frozenset({"description", "facts"})

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.facts()}>"

    def facts(self) -> str:
        """Give names, shape and type as text; for the SDK's own use, not in openvino."""
        names = ", ".join(sorted(self.description.names))
        return f"names[{names}] shape{self.partial_shape} type: {self.element_type.type_name}"

    @property
    def description(self) -> PortDescription:
        """The server's description of it; for the SDK's own use, not in openvino."""
        raise NotImplementedError

    @property
    def any_name(self) -> str:
        """The smallest of its names. Mirrors `openvino.Output.any_name`.

        Raises:
            RuntimeError: If there is none.
        """
        if not self.description.names:
            raise RuntimeError("Attempt to get a name for a Tensor without names")
        return min(self.description.names)

    @property
    def names(self) -> set[str]:
        """All its names. Mirrors `openvino.Output.names`."""
        return set(self.description.names)

    @property
    def element_type(self) -> Type:
        """The type of its elements. Mirrors `openvino.Output.element_type`."""
        return self.description.element_type

    @property
    def partial_shape(self) -> PartialShape:
        """The shapes that it can have, in elements. Mirrors `openvino.Output.partial_shape`."""
        return PartialShape(self.description.partial_shape)

    @property
    def shape(self) -> Shape:
        """The shape, if it is known in full. Mirrors `openvino.Output.shape`.

        Raises:
            RuntimeError: If it is not.
        """
        return self.description.partial_shape.to_shape()

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


def as_names(function: str, owner: object, names: object) -> frozenset[str]:
    """Take a set of names.

    Raises:
        TypeError: For anything else.
    """
    given = cast("Set[object]", names) if isinstance(names, Set) else ()
    fitting = frozenset(str(each) for each in given if isinstance(each, str))
    if not isinstance(names, Set) or len(fitting) < len(given):
        raise incompatible(
            function, f"(self: {type(owner).__name__}, names: Set[str]) -> None", invoked=(owner, cast("object", names))
        )
    return fitting
