"""A model on a server, as all requests of it share it.

Owns how executions of the model are addressed, and that a compiled model is freed on the server
once nothing here uses it.
"""

from __future__ import annotations

import weakref

from inferwire.model_ports import ModelPorts
from inferwire.transport.protocol import (
    ExecutionHeader,
    ModelDescription,
    SequenceMark,
    Target,
    TensorSpec,
    Transport,
)

_MOST_HEADERS = 64


class RemoteModel:
    """What requests need to know of their model."""

    def __init__(self, transport: Transport, target: Target, description: ModelDescription) -> None:
        self.transport = transport
        self.target = target
        self.description = description
        self.ports = ModelPorts(description.inputs, description.outputs)
        self._headers: dict[tuple[tuple[tuple[int, ...], ...], SequenceMark | None], ExecutionHeader] = {}
        if not target.is_served:
            weakref.finalize(self, transport.release, target.name).atexit = False

    def __repr__(self) -> str:
        kind = "served" if self.target.is_served else "compiled"
        return f"<RemoteModel {self.description.name!r}: {kind} by {self.transport.address}>"

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
        return ExecutionHeader(self.target, inputs, sequence)
