"""What one execution is sent with, and what the server is to keep of it: `Freight`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
            wherever possible. A buffer that `fetch` has yet to bring is empty.
        reads: The inputs that the server has already, by position.
        keeps: What the server is to keep of the outputs, by position.
        header: The header of executions with this freight and without a sequence, once one was made.
        fetches: Functions that give the buffers that other servers have, by their positions in `buffers`.
    """

    shapes: tuple[tuple[int, ...], ...]
    buffers: Sequence[WireBytes]
    reads: KeptInputs
    keeps: KeptOutputs
    header: ExecutionHeader | None = None
    fetches: Mapping[int, Callable[[], WireBytes]] = field(default_factory=dict[int, Callable[[], WireBytes]])

    def fetch(self) -> None:
        """Fetch the buffers that other servers have. Any thread may: it changes no tensor's elements or shape."""
        fetched = {at: fetch() for at, fetch in self.fetches.items()}
        self.buffers = [fetched.get(at, buffer) for at, buffer in enumerate(self.buffers)]
        self.fetches = {}
