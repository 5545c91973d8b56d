"""The names that a client gives an input or output of a model, and how they travel."""

from __future__ import annotations

from dataclasses import dataclass

from inferwire_proto.inferwire.v1 import models_pb2 as pb


@dataclass(frozen=True, slots=True)
class PortNames:
    """All names of one input or output, which it has by its position."""

    is_output: bool
    index: int
    names: frozenset[str]


def to_wire(port: PortNames) -> pb.PortNames:
    """Encode them."""
    return pb.PortNames(is_output=port.is_output, index=port.index, names=sorted(port.names))


def from_wire(message: pb.PortNames) -> PortNames:
    """Decode them."""
    return PortNames(message.is_output, message.index, frozenset(message.names))
