"""The nodes of a model's graph, to look at.

They are made from a description that a server sent, never by users, and do not lead to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferwire.graph.described import PortDescription
from inferwire.graph.nodes import Node
from inferwire.not_offered import refuse
from inferwire.property_values import from_contract
from inferwire.transport.descriptions import GraphNode


class DescribedNode(Node):
    """A node of a graph, with all its outputs. Mirrors the part of `openvino.Node` that tells what it is.

    Differs from OpenVINO: nodes do not lead to each other.
    """

    __slots__ = ("_node",)

    _mirrors = "Node"

    def __init__(self, node: GraphNode) -> None:
        super().__init__(node.description)
        self._node = node

    def described(self, index: int) -> PortDescription:
        """Give what is known of an output; for the SDK's own use, not in openvino."""
        return self._node.outputs[index]

    def get_input_size(self) -> int:
        """Give the number of the node's inputs. Mirrors `openvino.Node.get_input_size`."""
        return self._node.input_count

    def get_attributes(self) -> dict[str, Any]:
        """Give what the node was made with, as "axis", by name. Mirrors `openvino.Node.get_attributes`.

        Raises:
            RuntimeError: If the server is too old to tell.
        """
        told = self._node.attributes
        if told is None:
            refuse("get_attributes() by a server older than this client")
        return from_contract(dict(sorted(told.items())))

    def _outputs(self) -> Sequence[PortDescription]:
        return self._node.outputs


class Constant(DescribedNode):
    """A node with a value that the model has. Mirrors the part of `openvino.op.Constant` that tells what it is.

    Differs from OpenVINO: the value is on the server.
    """

    __slots__ = ()

    _mirrors = "Constant"


def graph_node(node: GraphNode) -> DescribedNode:
    """Make a node from its description."""
    return Constant(node) if node.description.node_type == "Constant" else DescribedNode(node)
