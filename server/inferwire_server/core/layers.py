"""The layers of a compiled model, and what each took in one inference."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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
