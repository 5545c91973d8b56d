"""What a model is to give beside its own outputs, and how it is named on the wire."""

from __future__ import annotations

from typing import TypeAlias

from inferwire_proto.inferwire.v1 import models_pb2 as pb

AddedOutput: TypeAlias = str | tuple[str, int]
"""A tensor's name; or a node's friendly name, and which of its outputs."""


def to_wire(output: AddedOutput) -> pb.AddedOutput:
    """Encode which output it is.

    Raises:
        ValueError: For a position that the wire cannot carry.
    """
    if isinstance(output, str):
        return pb.AddedOutput(tensor_name=output)
    node_name, index = output
    return pb.AddedOutput(node_name=node_name, index=index)


def from_wire(message: pb.AddedOutput) -> AddedOutput:
    """Decode which output it is.

    Raises:
        ValueError: If none is named.
    """
    match message.WhichOneof("output"):
        case "tensor_name":
            return message.tensor_name
        case "node_name":
            return message.node_name, message.index
        case _:
            raise ValueError("an added output has no name, expected a tensor's or a node's")
