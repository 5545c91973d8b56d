"""What a server says of the inputs and outputs of models, and what is read of it.

Owns what ports and their tensors have in common; which of them can be named is theirs to say.
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


class Described(TabCompleted, Unpicklable, PartlyMirrored):
    """What `Output`, `ConstOutput` and their tensors tell, which are three classes without a common one in openvino."""

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
        """What the server said of it; for the SDK's own use, not in openvino."""
        raise NotImplementedError

    @property
    def any_name(self) -> str:
        """The smallest of its names. Mirrors `openvino.Output.any_name`.

        Raises:
            RuntimeError: Where there is none.
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
        """What shapes it has, in elements. Mirrors `openvino.Output.partial_shape`."""
        return PartialShape(self.description.partial_shape)

    @property
    def shape(self) -> Shape:
        """The shape, where it is known in full. Mirrors `openvino.Output.shape`.

        Raises:
            RuntimeError: Where it is not.
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
