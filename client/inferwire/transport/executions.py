"""Values that describe one execution on its way to a server and back. None of them knows the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from inferwire.errors import InferwireError
from inferwire.latch import Latch
from inferwire.values.scheduling import NORMAL, Scheduling
from inferwire_proto.element_types import ElementType

WireBytes: TypeAlias = memoryview | bytes
"""Contiguous bytes: a tensor in wire form, or a file."""


@dataclass(frozen=True, slots=True)
class Target:
    """Which model runs.

    Attributes:
        name: A served model's name, or the id the server gave a compiled one.
        is_served: Which of the two it is.
        version: The version of a served model; empty for the current one.
        signature: The signature of its ports as this client knows them.
    """

    name: str
    is_served: bool
    version: str = ""
    signature: int = 0


@dataclass(frozen=True, slots=True)
class StoredBox:
    """A tensor that the server keeps for this client, or a box in it.

    Attributes:
        id: The tensor's id, unique among this client's tensors.
        begin: Where the box begins along each axis; empty for the whole tensor.
        end: Where it ends, exclusive.
    """

    id: int
    begin: tuple[int, ...] = ()
    end: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor without its bytes, by its port's position.

    Attributes:
        index: The position.
        element_type: What its elements are.
        shape: How many there are along each axis.
        stored: The tensor that the server keeps, which is not sent.
        lent: The id of the lent memory in which the server reads the tensor, which is not sent then either; 0 for none.
    """

    index: int
    element_type: ElementType
    shape: tuple[int, ...]
    stored: StoredBox | None = None
    lent: int = 0


@dataclass(frozen=True, slots=True)
class SequenceMark:
    """Which of this client's sequences a call belongs to, and whether it begins that sequence, with fresh states."""

    id: int
    is_start: bool


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ExecutionHeader:
    """All of an execution that stays the same while shapes do. Made once, sent many times.

    Compared by identity, so that a transport may keep what it encodes for it.

    Attributes:
        target: Which model runs.
        inputs: The inputs in the model's order.
        sequence: The sequence whose states it changes, if it does.
        is_profiled: Whether the time of each layer is wanted.
        keeps: The outputs that the server is to keep instead of sending them: positions, and the tensors' ids.
        most_stacked: How many executions of this header may travel stacked as one; 1 if each travels by itself.
        scheduling: How urgent it is, and how long it may take.
    """

    target: Target
    inputs: tuple[TensorSpec, ...]
    sequence: SequenceMark | None = None
    is_profiled: bool = False
    keeps: tuple[tuple[int, int], ...] = ()
    most_stacked: int = 1
    scheduling: Scheduling = NORMAL

    @property
    def is_retryable(self) -> bool:
        """Whether it may run again after a connection was lost, because it changes nothing that it reads."""
        kept = {tensor_id for _, tensor_id in self.keeps}
        return self.sequence is None and not any(each.stored and each.stored.id in kept for each in self.inputs)

    @property
    def begins_sequence(self) -> bool:
        """Whether it is the first of its sequence, for which the server may have no room."""
        return self.sequence is not None and self.sequence.is_start


class Timings(NamedTuple):
    """Where the time of an execution went, in milliseconds. An extension: openvino has `latency` only.

    Attributes:
        queue_ms: From the server's admission to the start of the inference.
        inference_ms: The inference on the device.
        server_ms: From decoded to answered on the server: queue, inference and all between.
        wire_ms: What the client measured beyond `server_ms`: encoding, network, decoding.
    """

    queue_ms: float = 0.0
    inference_ms: float = 0.0
    server_ms: float = 0.0
    wire_ms: float = 0.0

    def seen_by_client(self, elapsed_ms: float) -> Timings:
        """Add the `wire_ms` of a client that waited `elapsed_ms`, to the microsecond like the server's own times."""
        return self._replace(wire_ms=max(0.0, round(elapsed_ms - self.server_ms, 3)))


class OutputForm(NamedTuple):
    """An output without its bytes."""

    element_type: ElementType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayerTime:
    """A layer of a compiled model, and what it took in one execution.

    Attributes:
        node_name: The node's friendly name.
        node_type: The type of the node.
        exec_type: The kernel that ran it.
        status: "NOT_RUN", "OPTIMIZED_OUT" or "EXECUTED".
        real_time_us: From its start to its end.
        cpu_time_us: The time of the processor.
    """

    node_name: str
    node_type: str
    exec_type: str
    status: str
    real_time_us: int
    cpu_time_us: int


class Outcome(NamedTuple):
    """How one execution, or several that ran together, ended: with outputs, or with an error.

    Attributes:
        forms: The forms of each execution's outputs, in the model's order.
        timings: The times that the server measured.
        came_at: When the answer came, as `time.perf_counter` has it.
        error: What went wrong, if anything did.
        profile: The times of the layers, if they were wanted.
    """

    forms: Sequence[OutputForm] = ()
    timings: Timings = Timings()
    came_at: float = 0.0
    error: InferwireError | None = None
    profile: Sequence[LayerTime] = ()


OutputBytes: TypeAlias = Sequence[WireBytes | None]
"""One execution's outputs in wire form, valid as long as they are referenced; None for an output that the server
keeps."""

Deliver: TypeAlias = Callable[[Outcome, OutputBytes], None]
"""Takes an execution's outcome and the bytes of its outputs, of which there are none with an error."""


class Cancellable(Protocol):
    """What can be given up."""

    def cancel(self) -> None:
        """Give it up: nothing is delivered any more. Safe to call from a destructor."""
        ...


class Execution(Cancellable, Protocol):
    """An execution on its way."""

    def await_answer(self, answered: Latch, began: float, timeout_s: float | None = None) -> bool:
        """Wait for a latch that its `deliver` sets, at most for `timeout_s`; tell whether it is set.

        For executions that were submitted as `is_awaited`, when `time.perf_counter` had `began`.
        """
        ...
