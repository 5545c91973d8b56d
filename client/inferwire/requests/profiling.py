"""What one layer took in an inference: `ProfilingInfo`.

Owns the rows that users read. Where they come from is the requests' business.
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from inferwire.arguments import Unpicklable, incompatible
from inferwire.tab_completion import TabCompleted
from inferwire.transport.executions import LayerTime
from inferwire.values.enumerations import OrderedChoice


class ProfilingInfo(TabCompleted, Unpicklable):
    """One layer's time in an inference. Mirrors `openvino.ProfilingInfo`.

    Example:
        >>> for row in request.profiling_info:
        ...     if row.status == row.EXECUTED:
        ...         print(row.node_name, row.exec_type, row.real_time)
    """

    class Status(OrderedChoice):
        """What became of a layer in an inference."""

        NOT_RUN = 0
        OPTIMIZED_OUT = 1
        EXECUTED = 2

    NOT_RUN: ClassVar[Status] = Status.NOT_RUN
    OPTIMIZED_OUT: ClassVar[Status] = Status.OPTIMIZED_OUT
    EXECUTED: ClassVar[Status] = Status.EXECUTED

    _own_use = frozenset({"of"})

    __slots__ = ("__weakref__", "_cpu_time", "_exec_type", "_node_name", "_node_type", "_real_time", "_status")

    def __init__(self) -> None:
        self._node_name = self._node_type = self._exec_type = ""
        self._status = self.NOT_RUN
        self._real_time = self._cpu_time = timedelta()

    def __repr__(self) -> str:
        return "<ProfilingInfo>"

    @classmethod
    def of(cls, layer: LayerTime) -> ProfilingInfo:
        """Make the row of a layer; for the SDK's own use, not in openvino."""
        row = cls()
        row._node_name, row._node_type, row._exec_type = layer.node_name, layer.node_type, layer.exec_type
        row._status = cls.Status[layer.status]
        row._real_time = timedelta(microseconds=layer.real_time_us)
        row._cpu_time = timedelta(microseconds=layer.cpu_time_us)
        return row

    @property
    def node_name(self) -> str:
        """The node's friendly name. Mirrors `openvino.ProfilingInfo.node_name`."""
        return self._node_name

    @node_name.setter
    def node_name(self, name: str) -> None:
        self._node_name = self._text(name)

    @property
    def node_type(self) -> str:
        """The type of the node. Mirrors `openvino.ProfilingInfo.node_type`."""
        return self._node_type

    @node_type.setter
    def node_type(self, name: str) -> None:
        self._node_type = self._text(name)

    @property
    def exec_type(self) -> str:
        """The kernel that ran it. Mirrors `openvino.ProfilingInfo.exec_type`."""
        return self._exec_type

    @exec_type.setter
    def exec_type(self, name: str) -> None:
        self._exec_type = self._text(name)

    @property
    def status(self) -> ProfilingInfo.Status:
        """Whether it ran. Mirrors `openvino.ProfilingInfo.status`."""
        return self._status

    @status.setter
    def status(self, status: ProfilingInfo.Status) -> None:
        self._status = self._choice(status)

    @property
    def real_time(self) -> timedelta:
        """From its start to its end. Mirrors `openvino.ProfilingInfo.real_time`."""
        return self._real_time

    @real_time.setter
    def real_time(self, time: timedelta | float) -> None:
        self._real_time = self._duration(time)

    @property
    def cpu_time(self) -> timedelta:
        """The time of the processor. Mirrors `openvino.ProfilingInfo.cpu_time`."""
        return self._cpu_time

    @cpu_time.setter
    def cpu_time(self, time: timedelta | float) -> None:
        self._cpu_time = self._duration(time)

    def _text(self, value: object) -> str:
        if not isinstance(value, str):
            raise incompatible("", "(self: ProfilingInfo, arg0: str) -> None", invoked=(self, value))
        return value

    def _choice(self, value: object) -> ProfilingInfo.Status:
        if not isinstance(value, self.Status):
            raise incompatible("", "(self: ProfilingInfo, arg0: ProfilingInfo.Status) -> None", invoked=(self, value))
        return value

    def _duration(self, value: object) -> timedelta:
        if isinstance(value, float):
            return timedelta(seconds=value)
        if not isinstance(value, timedelta):
            raise incompatible("", "(self: ProfilingInfo, arg0: timedelta) -> None", invoked=(self, value))
        return value
