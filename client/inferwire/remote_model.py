"""A model on a server, as all requests of it share it.

Owns how executions of the model are addressed, and that a compiled model is freed on the server
once nothing here uses it.
"""

from __future__ import annotations

import weakref

from inferwire.model_ports import ModelPorts
from inferwire.transport.protocol import ExecutionHeader, ModelDescription, Target, TensorSpec, Transport

_MOST_HEADERS = 64


class RemoteModel:
    """What requests need to know of their model."""

    def __init__(self, transport: Transport, target: Target, description: ModelDescription) -> None:
        self.transport = transport
        self.target = target
        self.description = description
        self.ports = ModelPorts(description.inputs, description.outputs)
        self._headers: dict[tuple[tuple[int, ...], ...], ExecutionHeader] = {}
        if not target.is_served:
            weakref.finalize(self, transport.release, target.name).atexit = False

    def __repr__(self) -> str:
        kind = "served" if self.target.is_served else "compiled"
        return f"<RemoteModel {self.description.name!r}: {kind} by {self.transport.address}>"

    def header(self, shapes: tuple[tuple[int, ...], ...]) -> ExecutionHeader:
        """Give the header of executions with inputs of these shapes."""
        header = self._headers.get(shapes)
        if header is None:
            if len(self._headers) >= _MOST_HEADERS:
                self._headers.clear()
            header = self._headers[shapes] = self._make_header(shapes)
        return header

    def _make_header(self, shapes: tuple[tuple[int, ...], ...]) -> ExecutionHeader:
        inputs = zip(self.ports.inputs, shapes, strict=True)
        return ExecutionHeader(self.target, tuple(TensorSpec(port.index, port.row, shape) for port, shape in inputs))
