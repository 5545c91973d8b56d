"""A model on a server, as its requests share it.

Owns how executions of the model are addressed, and that a compiled model is freed on the server once nothing here uses
it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TypeAlias

from inferwire.graph.model_ports import ModelPorts
from inferwire.requests.freight import Freight
from inferwire.transport.descriptions import ModelDescription
from inferwire.transport.executions import ExecutionHeader, LayerTime, SequenceMark, StoredBox, Target, TensorSpec
from inferwire.transport.protocol import Transport
from inferwire.values.scheduling import NORMAL, Scheduling
from inferwire_proto.properties import MAX_BATCH, OWN_PREFIX, Properties, PropertyValue

Shapes: TypeAlias = tuple[tuple[int, ...], ...]
Boxes: TypeAlias = tuple[tuple[int, StoredBox], ...]
Keeps: TypeAlias = tuple[tuple[int, int], ...]

_HeaderKey: TypeAlias = tuple[Shapes, SequenceMark | None, Boxes, Keeps, Scheduling]

MOST_STACKED = 64
"""How many executions of equal shapes travel as one even if the server runs each by itself."""

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
        self._labels: tuple[str, ...] | None = None if target.is_served else ()
        self._headers: dict[_HeaderKey, ExecutionHeader] = {}
        if not target.is_served:
            weakref.finalize(self, transport.release, target.name).atexit = False

    def __repr__(self) -> str:
        kind = "served" if self.target.is_served else "compiled"
        return f"<RemoteModel {self.description.name!r}: {kind} by {self.transport.address}>"

    @property
    def properties(self) -> Properties:
        """The compiled model's properties, and those that it was given for batching, which OpenVINO does not see."""
        own = {name: value for name, value in self._properties.items() if name.startswith(OWN_PREFIX)}
        return {**self.description.properties, **own, MAX_BATCH: self.description.max_batch_rows}

    @property
    def is_profiled(self) -> bool:
        """Whether executions are timed layer by layer."""
        # Only some devices give the property back: AUTO as a truth value, CPU as text, HETERO not at all.
        return self._properties.get("PERF_COUNT") in (True, "YES")

    def layers(self) -> Sequence[LayerTime]:
        """Give the layers of the model as they are before any has run."""
        if self._layers is None:
            self._layers = self.transport.layers(self.target)
        return self._layers

    def labels(self) -> tuple[str, ...]:
        """Give the names of the classes that a served model knows."""
        if self._labels is None:
            self._labels = self.transport.labels(self.target.name, self.target.version)
        return self._labels

    def header(
        self, freight: Freight, sequence: SequenceMark | None = None, scheduling: Scheduling = NORMAL
    ) -> ExecutionHeader:
        """Give the header of executions with this freight and scheduling and, if they belong to one, this sequence."""
        boxes = tuple([(at, part.box) for at, part in freight.reads.items()])
        keeps = tuple([(at, tensor.id) for at, tensor in freight.keeps.items()])
        key = (freight.shapes, sequence, boxes, keeps, scheduling)
        header = self._headers.get(key)
        if header is None:
            if len(self._headers) >= _MOST_HEADERS:
                self._headers.clear()
            header = self._headers[key] = self._make_header(*key)
        return header

    def _make_header(
        self, shapes: Shapes, sequence: SequenceMark | None, boxes: Boxes, keeps: Keeps, scheduling: Scheduling
    ) -> ExecutionHeader:
        stored = dict(boxes)
        inputs = tuple(
            TensorSpec(port.index, port.element_type, shape, stored.get(port.index))
            for port, shape in zip(self.ports.inputs, shapes, strict=True)
        )
        is_alone = sequence is not None or self.is_profiled or boxes or keeps
        most_stacked = 1 if is_alone else self._most_stacked(shapes)
        return ExecutionHeader(self.target, inputs, sequence, self.is_profiled, keeps, most_stacked, scheduling)

    def _most_stacked(self, shapes: Shapes) -> int:
        """How many executions with these shapes may travel as one: if the server runs batches, as many as one holds."""
        rows = max((shape[0] for shape in shapes if shape), default=0)
        most_rows = self.description.max_batch_rows
        return max(1, most_rows // rows) if rows and most_rows else MOST_STACKED
