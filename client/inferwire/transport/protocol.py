"""The seam between the client's objects and the network: frozen values and the `Transport` protocol.

Knows neither protobuf nor gRPC. What implements it: `GrpcTransport` in production, `FakeTransport`
in tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from inferwire.errors import InferwireError
from inferwire.partial_shape import PartialShape
from inferwire.ports import PortDescription
from inferwire.transport.lent_memory import Lend
from inferwire_proto.element_types import ElementType
from inferwire_proto.preprocessing import Call
from inferwire_proto.properties import PropertyValue

WireBytes: TypeAlias = memoryview | bytes
"""Contiguous bytes: a tensor in wire form, or a file."""

Blobs: TypeAlias = Callable[[], Mapping[bytes, WireBytes]]
"""Gives a model's files by their SHA-256, for a server that has lost them."""


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
        id: Its name, which no other of this client's tensors has.
        begin: Where the box begins along each axis; empty for the whole tensor.
        end: Where it ends, itself not in it.
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
        shape: How many there are.
        stored: Where the server keeps them; they are not sent then.
        lent: The memory in which the server reads them; they are not sent then either. 0 for none.
    """

    index: int
    element_type: ElementType
    shape: tuple[int, ...]
    stored: StoredBox | None = None
    lent: int = 0


@dataclass(frozen=True, slots=True)
class SequenceMark:
    """Which of this client's sequences a call belongs to, and whether it begins there from fresh states."""

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
        most_stacked: How many executions of this header may travel as one; 1 for each by itself.
    """

    target: Target
    inputs: tuple[TensorSpec, ...]
    sequence: SequenceMark | None = None
    is_profiled: bool = False
    keeps: tuple[tuple[int, int], ...] = ()
    most_stacked: int = 1

    @property
    def is_retryable(self) -> bool:
        """Whether it may run again where a connection was lost: running it twice is as running it once."""
        return self.sequence is None


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
        """Add what a client that waited so long knows besides."""
        return self._replace(wire_ms=max(0.0, elapsed_ms - self.server_ms))


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
    """How an execution ended: with outputs, or with an error.

    Attributes:
        forms: What the outputs are, in the model's order; the same object for executions that ran together.
        data: Their bytes in wire form, which stay valid as long as somebody holds them; None for what the server keeps.
        timings: The times that the server tells.
        elapsed_ms: How long this client waited for it.
        error: What went wrong, if anything did.
        profile: The times of its layers where they were wanted.
    """

    forms: Sequence[OutputForm] = ()
    data: Sequence[WireBytes | None] = ()
    timings: Timings = Timings()
    elapsed_ms: float = 0.0
    error: InferwireError | None = None
    profile: Sequence[LayerTime] = ()


class Execution(Protocol):
    """An execution on its way."""

    def cancel(self) -> None:
        """Give it up: nothing is delivered any more. Safe to call from a destructor."""
        ...


@dataclass(frozen=True, slots=True)
class StateValue:
    """A state's tensor as it travels."""

    name: str
    element_type: ElementType
    shape: tuple[int, ...]
    data: WireBytes


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model that can run, as the server describes it.

    Attributes:
        name: The name it is served under, or its friendly name.
        version: The served version; empty for an uploaded model.
        inputs: Its inputs in order.
        outputs: Its outputs in order.
        states: The names of the states it keeps between inferences.
        signature: Equal for models whose ports are equal.
        optimal_number_of_infer_requests: How many of its inferences the server runs at once.
        properties: The compiled model's properties, by name.
        max_batch_rows: How many rows one of its inferences runs at the most where executions may run together; else 0.
    """

    name: str
    version: str
    inputs: tuple[PortDescription, ...]
    outputs: tuple[PortDescription, ...]
    states: tuple[str, ...]
    signature: int
    optimal_number_of_infer_requests: int
    properties: Mapping[str, PropertyValue]
    max_batch_rows: int = 0


@dataclass(frozen=True, slots=True)
class RuntimeNode:
    """One node of the graph that a device runs.

    Attributes:
        description: Its friendly name, its type, and its first output.
        info: What the device says of it.
        input_count: How many inputs it has.
        outputs: Its outputs in order.
    """

    description: PortDescription
    info: Mapping[str, str]
    input_count: int
    outputs: tuple[PortDescription, ...]


@dataclass(frozen=True, slots=True)
class RuntimeModelDescription:
    """The graph that a device runs, with its nodes in an order in which they can."""

    model: ModelDescription
    nodes: tuple[RuntimeNode, ...]


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """What is built into a model before it is compiled.

    Attributes:
        calls: Those on a `PrePostProcessor`, in order.
        reshape: New shapes of the inputs that come of it, by name.
    """

    calls: tuple[Call, ...]
    reshape: Mapping[str, PartialShape] = field(default_factory=dict[str, PartialShape])


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model's files, by the hashes they are uploaded under.

    Attributes:
        model: The model file's SHA-256.
        weights: The SHA-256 of the weights beside it; empty where the format has them inside.
        suffix: The model file's ending, as ".onnx".
        reshape: New shapes of inputs, by name.
        variables: The SHA-256 of each file with variables of a SavedModel, by its path in the folder.
        preprocessing: What is built into it, one after the other.
    """

    model: bytes
    weights: bytes
    suffix: str
    reshape: Mapping[str, PartialShape]
    variables: Mapping[str, bytes]
    preprocessing: tuple[Preprocessing, ...] = ()


@dataclass(frozen=True, slots=True)
class CompiledDescription:
    """A model the server compiled for this session."""

    compiled_id: str
    model: ModelDescription


@dataclass(frozen=True, slots=True)
class PluginVersion:
    """What a device's plugin calls itself, and its build."""

    description: str
    build_number: str


class TensorStore(Protocol):
    """Tensors that the server keeps for this client until they are released or its session has ended.

    Every method but `release` raises `InferwireError`: `TensorLost` for a tensor that is not there any more.
    """

    def new_id(self) -> int:
        """Give an id that no other tensor of this client has. The server hears of it with its first use."""
        ...

    def create(self, tensor_id: int, element_type: ElementType, shape: tuple[int, ...]) -> None:
        """Make a tensor of zeros, or of empty strings."""
        ...

    def put(self, box: StoredBox, element_type: ElementType, shape: tuple[int, ...], data: WireBytes) -> None:
        """Write a tensor, which then has this shape, or a box in it, which has it already."""
        ...

    def get(self, box: StoredBox) -> WireBytes:
        """Read a tensor, or a box in it."""
        ...

    def release(self, tensor_id: int) -> None:
        """Free a tensor some time soon. Safe to call from a destructor; never raises."""
        ...


class Transport(Protocol):
    """The calls of a server that the client uses. All but `submit` and `release` block.

    Every method raises `InferwireError` for what the server or the network says.
    """

    @property
    def address(self) -> str:
        """Where the server is, for messages to people."""
        ...

    @property
    def tensors(self) -> TensorStore:
        """The tensors that the server keeps. It does not keep the transport alive: whoever has tensors holds both."""
        ...

    @property
    def lend(self) -> Lend:
        """Gives memory in which the server can read inputs in place; None where it cannot, and they are sent.

        It does not keep the transport alive.
        """
        ...

    def submit(
        self,
        header: ExecutionHeader,
        inputs: Sequence[WireBytes],
        deliver: Callable[[Outcome], None],
    ) -> Execution:
        """Send an execution. `deliver` is called once, on a thread of the transport, and must be quick.

        The buffers must not change before the outcome is delivered. Blocks unless `is_ready`. Where the
        connection is lost, an execution that is retryable is sent once more on a new one.
        """
        ...

    def is_ready(self, header: ExecutionHeader) -> bool:
        """Whether `submit` would send at once: connected, with the model on the server."""
        ...

    def served_model(self, name: str, version: str) -> ModelDescription:
        """Describe a model of the server's repository."""
        ...

    def upload(self, blobs: Mapping[bytes, WireBytes]) -> None:
        """Upload blobs, by their SHA-256, that the session has not uploaded yet."""
        ...

    def read(self, source: ModelSource) -> ModelDescription:
        """Read uploaded blobs as a model, without compiling it."""
        ...

    def compile(
        self, source: ModelSource, device: str, properties: Mapping[str, PropertyValue], blobs: Blobs
    ) -> CompiledDescription:
        """Compile an uploaded model for a device, and again from the `blobs` where a session was lost."""
        ...

    def query(self, source: ModelSource, device: str, properties: Mapping[str, PropertyValue]) -> Mapping[str, str]:
        """Give the device that would run it for each node of an uploaded model that can run."""
        ...

    def import_compiled(
        self, sha256: bytes, device: str, properties: Mapping[str, PropertyValue], blobs: Blobs
    ) -> CompiledDescription:
        """Make a model of an uploaded blob that `export` gave, and again where a session was lost."""
        ...

    def export(self, target: Target) -> bytes:
        """Give a model that can run as a blob."""
        ...

    def runtime_model(self, target: Target) -> RuntimeModelDescription:
        """Describe the graph that the device of a model runs."""
        ...

    def layers(self, target: Target) -> Sequence[LayerTime]:
        """List the layers of a model that can run, none of which has."""
        ...

    def release(self, compiled_id: str) -> None:
        """Free a compiled model some time soon. Safe to call from a destructor; never raises."""
        ...

    def open_sequence(self) -> int:
        """Give an id for a sequence that no other of this client's has. The server hears of it with its first call."""
        ...

    def get_states(self, target: Target, sequence: SequenceMark, names: Sequence[str]) -> Sequence[StateValue]:
        """Read states of a sequence, in the order of the names."""
        ...

    def set_states(self, target: Target, sequence: SequenceMark, states: Sequence[StateValue]) -> None:
        """Replace states of a sequence."""
        ...

    def reset_states(self, target: Target, sequence: SequenceMark, names: Sequence[str]) -> None:
        """Make states of a sequence fresh: those named, or all."""
        ...

    def release_sequence(self, sequence_id: int) -> None:
        """Free what the server keeps for a sequence some time soon. Safe to call from a destructor; never raises."""
        ...

    def devices(self) -> tuple[str, ...]:
        """List the server's devices."""
        ...

    def device_property(self, device: str, name: str) -> PropertyValue:
        """Read a property of a device, or of the runtime where `device` is empty."""
        ...

    def check_properties(self, device: str, properties: Mapping[str, PropertyValue]) -> Mapping[str, PropertyValue]:
        """Give properties as a device would take them, or the runtime where `device` is empty; set none."""
        ...

    def extensions(self) -> tuple[str, ...]:
        """List the libraries of operations that the server has loaded, by file name."""
        ...

    def plugin_versions(self, device: str) -> Mapping[str, PluginVersion]:
        """Read the versions of a device's plugins."""
        ...

    def close(self) -> None:
        """End what is in flight and close the connection. The next call opens it again."""
        ...
