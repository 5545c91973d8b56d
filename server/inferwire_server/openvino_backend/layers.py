"""What a model of OpenVINO consists of, as the server describes it: the nodes of its graph, and the time of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import openvino as ov

from inferwire_server.core.layers import GraphNode, LayerStatus, LayerTime, ModelGraph
from inferwire_server.openvino_backend.specs import NODE_TYPES, ports_of, read_spec

_MICROSECOND = timedelta(microseconds=1)


def graph_of(model: ov.Model, info_of: Callable[[Any], Mapping[str, Any]] = lambda _: {}) -> ModelGraph:
    """Describe a model's graph, with what `info_of` says of each node."""
    return ModelGraph(read_spec(model), tuple(_node(node, info_of(node)) for node in model.get_ordered_ops()))


def runtime_graph_of(compiled: ov.CompiledModel) -> ModelGraph:
    """Describe the graph that a device runs."""
    return graph_of(compiled.get_runtime_model(), lambda node: node.get_rt_info())


def layer_times(request: ov.InferRequest) -> tuple[LayerTime, ...]:
    """Give what each layer took in a request's last run."""
    return tuple(
        LayerTime(
            row.node_name,
            row.node_type,
            row.exec_type,
            LayerStatus[row.status.name],
            row.real_time // _MICROSECOND,
            row.cpu_time // _MICROSECOND,
        )
        for row in request.get_profiling_info()
    )


def _node(node: Any, info: Mapping[str, Any]) -> GraphNode:
    outputs = node.outputs()
    return GraphNode(
        node.get_friendly_name(),
        node.get_type_name(),
        {name: str(value.value) for name, value in info.items()},
        node.get_input_size(),
        ports_of(outputs, [set[str]()] * len(outputs), "output", NODE_TYPES),
        node.get_attributes(),
    )
