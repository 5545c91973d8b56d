"""Ports of an openvino that is installed beside the client, converted to the client's own."""

from __future__ import annotations

from typing import Any, cast

from inferwire.arguments import openvino_class
from inferwire.graph.described import PortDescription
from inferwire.graph.nodes import node_of
from inferwire.graph.ports import ConstOutput, Port
from inferwire.values.partial_shape import PartialShape
from inferwire.values.types import Type, as_type


def as_port(value: object) -> Port | None:
    """Give a port of ours as it is, and for one of openvino's a new one of the same description; else None."""
    if isinstance(value, Port):
        return value
    if openvino_class(value) not in ("ConstOutput", "Output"):
        return None
    theirs = cast("Any", value)
    node = theirs.get_node()
    description = PortDescription(
        names=frozenset[str](theirs.get_names()),
        element_type=as_type(theirs.get_element_type()) or Type.dynamic,
        partial_shape=PartialShape(str(theirs.get_partial_shape())),
        node_name=node.get_friendly_name(),
        node_type=node.get_type_name(),
        oip_name="",
        layout=str(node.get_layout()) if hasattr(node, "get_layout") else "",
    )
    return ConstOutput(node_of(description))
