"""A model on a server, as all requests of it share it.

Owns how executions of the model are addressed, and that a compiled model is freed on the server
once nothing here uses it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from inferwire.model_ports import ModelPorts
from inferwire.transport.protocol import (
    ExecutionHeader,
    LayerTime,
    ModelDescription,
    SequenceMark,
    Target,
    TensorSpec,
    Transport,
)
from inferwire_proto.properties import Properties, PropertyValue

_MOST_HEADERS = 64


class RemoteModel:
    """What requests need to know of their model; `properties` are what it was asked to be compiled with."""

    def __init__(
        self,
        transport: Transport,
        target: Target,
        description: ModelDescription,
        properties: Properties | None = None,
    ) -> None:
        self.transport = transport
        self.target = target
        self.description = description
        self.ports = ModelPorts(description.inputs, description.outputs)
        self._properties: dict[str, PropertyValue] = {**(properties or {}), **description.properties}
        self._layers: Sequence[LayerTime] | None = None
        self._headers: dict[tuple[tuple[tuple[int, ...], ...], SequenceMark | None], ExecutionHeader] = {}
        if not target.is_served:
            weakref.finalize(self, transport.release, target.name).atexit = False

    def __repr__(self) -> str:
        kind = "served" if self.target.is_served else "compiled"
        return f"<RemoteModel {self.description.name!r}: {kind} by {self.transport.address}>"

    @property
    def is_profiled(self) -> bool:
        """Whether executions are timed layer by layer."""
        # Only some devices give the property back: AUTO as a truth value, CPU as text, HETERO not at all.
        return self._properties.get("PERF_COUNT") in (True, "YES")

    def layers(self) -> Sequence[LayerTime]:
        """Give the layers of the model as they are where none has run."""
        if self._layers is None:
            self._layers = self.transport.layers(self.target)
        return self._layers

    def header(self, shapes: tuple[tuple[int, ...], ...], sequence: SequenceMark | None = None) -> ExecutionHeader:
        """Give the header of executions with inputs of these shapes, for a sequence if it belongs to one."""
        header = self._headers.get((shapes, sequence))
        if header is None:
            if len(self._headers) >= _MOST_HEADERS:
                self._headers.clear()
            header = self._headers[shapes, sequence] = self._make_header(shapes, sequence)
        return header

    def _make_header(self, shapes: tuple[tuple[int, ...], ...], sequence: SequenceMark | None) -> ExecutionHeader:
        ports = zip(self.ports.inputs, shapes, strict=True)
        inputs = tuple(TensorSpec(port.index, port.row, shape) for port, shape in ports)
        is_alone = sequence is not None or self.is_profiled
        most_stacked = 1 if is_alone else self._most_stacked(shapes)
        return ExecutionHeader(self.target, inputs, sequence, self.is_profiled, most_stacked)

    def _most_stacked(self, shapes: tuple[tuple[int, ...], ...]) -> int:
        """How many executions with these shapes the server runs as one, each with as many rows in every input."""
        rows = {shape[0] if shape else 0 for shape in shapes}
        if len(rows) != 1 or 0 in rows:
            return 1
        return max(1, self.description.max_batch_rows // rows.pop())
