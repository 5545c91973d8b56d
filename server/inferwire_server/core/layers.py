"""The layers of a compiled model and what each took in one inference; the graphs of models."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from inferwire_proto.element_types import ElementType
from inferwire_proto.properties import Properties
from inferwire_server.core.specs import ModelSpec, PortSpec

DYNAMIC_TYPE = ElementType("dynamic", wire=0, bits=0, storage=np.dtype(np.void))
"""The type of a port that a runtime graph leaves empty, as the bias of a product that has none. No tensor is of it."""


class LayerStatus(Enum):
    """What became of a layer in an inference."""

    NOT_RUN = "not run"
    OPTIMIZED_OUT = "optimized out"
    EXECUTED = "executed"


@dataclass(frozen=True, slots=True)
class LayerTime:
    """One layer, and its time.

    Attributes:
        node_name: The node's friendly name.
        node_type: The type of the node.
        exec_type: The kernel that ran it.
        status: What became of it.
        real_time_us: From its start to its end.
        cpu_time_us: The time of the processor.
    """

    node_name: str
    node_type: str
    exec_type: str
    status: LayerStatus = LayerStatus.NOT_RUN
    real_time_us: int = 0
    cpu_time_us: int = 0


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One node of a graph.

    Attributes:
        name: Its friendly name.
        type: Its type.
        info: What the device that runs it says of it.
        input_count: How many inputs it has.
        outputs: Its outputs in order.
        attributes: What it was made with, as "axis".
    """

    name: str
    type: str
    info: dict[str, str]
    input_count: int
    outputs: tuple[PortSpec, ...]
    attributes: Properties


@dataclass(frozen=True, slots=True)
class ModelGraph:
    """The graph that a device runs, or a model's own, with its nodes in an order in which they can run."""

    spec: ModelSpec
    nodes: tuple[GraphNode, ...]
