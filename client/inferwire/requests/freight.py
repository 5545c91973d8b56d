"""What one execution takes along: `Freight`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from inferwire.tensors.kept_tensors import KeptPart, KeptTensor
from inferwire.transport.executions import ExecutionHeader, WireBytes

KeptInputs: TypeAlias = Mapping[int, KeptPart]
KeptOutputs: TypeAlias = Mapping[int, KeptTensor]


@dataclass(slots=True, eq=False)
class Freight:
    """What an execution takes to the server and leaves there.

    Attributes:
        shapes: The inputs' shapes, all of which fit.
        buffers: The bytes of the inputs that the server does not have, in wire form: views of the tensors' memory
            wherever possible.
        reads: The inputs that the server has already, by position.
        keeps: What the server is to keep of the outputs, by position.
        header: That of executions without a sequence that take this along, once one has.
    """

    shapes: tuple[tuple[int, ...], ...]
    buffers: Sequence[WireBytes]
    reads: KeptInputs
    keeps: KeptOutputs
    header: ExecutionHeader | None = None
