"""The graph that a device runs, as the compiler left it: what `CompiledModel.get_runtime_model` gives.

Owns its nodes. They are made from a description that a server sent, never by users.
"""

from __future__ import annotations

from collections.abc import Sequence

from inferwire.graph.described import PortDescription
from inferwire.graph.nodes import Node, Parameter, node_of
from inferwire.graph.ports import Output
from inferwire.models.graph_nodes import DescribedNode
from inferwire.models.readable_model import ReadableModel
from inferwire.models.rt_info import ModelMap, RuntimeInfo
from inferwire.transport.descriptions import GraphDescription, GraphNode
from inferwire.values.ov_any import OVAny


class ExecutionNode(DescribedNode):
    """One node of a runtime model. Mirrors the part of `openvino.Node` that tells how it runs.

    Differs from OpenVINO: `rt_info` is a dict; nodes do not lead to each other.
    """

    __slots__ = ()

    @property
    def rt_info(self) -> dict[str, OVAny]:
        """What the device tells about it, as "primitiveType", "runtimePrecision" and "originalLayersNames".

        Mirrors `openvino.Node.rt_info`.
        """
        return {name: OVAny(value) for name, value in sorted(self._node.info.items())}

    def get_rt_info(self) -> dict[str, OVAny]:
        """Give `rt_info`."""
        return self.rt_info


class ExecutionParameter(ExecutionNode, Parameter):
    """The node behind an input of a runtime model. Mirrors what of `openvino.op.Parameter` tells how it runs."""

    __slots__ = ()

    rename = Node.rename  # its names are the device's


class RuntimeModel(RuntimeInfo, ReadableModel):
    """The graph a device runs. Mirrors the part of `openvino.Model` that reads it.

    As in openvino, it has none of the runtime information of the model's file.

    Example:
        >>> for node in compiled.get_runtime_model().get_ordered_ops():
        ...     print(node.friendly_name, node.rt_info["primitiveType"].value)
    """

    def __init__(self, description: GraphDescription) -> None:
        self._rt_info = ModelMap()
        self._nodes = [_execution_node(node) for node in description.nodes]
        model = description.model
        super().__init__(model.name, self._ports(model.inputs), self._ports(model.outputs))

    def get_ordered_ops(self) -> list[ExecutionNode]:
        """Give the nodes in an order in which they can run. Mirrors `openvino.Model.get_ordered_ops`."""
        return list(self._nodes)

    def get_ops(self) -> list[ExecutionNode]:
        """Give the nodes. Mirrors `openvino.Model.get_ops`."""
        return list(self._nodes)

    def _ports(self, descriptions: Sequence[PortDescription]) -> list[Output]:
        by_name = {node.friendly_name: node for node in self._nodes}
        return [Output(by_name.get(description.node_name) or node_of(description)) for description in descriptions]


def _execution_node(node: GraphNode) -> ExecutionNode:
    return (ExecutionParameter if node.description.node_type == "Parameter" else ExecutionNode)(node)
