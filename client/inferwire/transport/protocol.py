"""The seam between the client's objects and the network: the `Transport` protocol.

Its values are in `executions` and `descriptions`; none knows protobuf or gRPC. `GrpcTransport` implements it in
production, `FakeTransport` in tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from inferwire.transport.descriptions import (
    Blob,
    CompiledDescription,
    GraphDescription,
    ModelContents,
    ModelDescription,
    ModelStatus,
    StateValue,
)
from inferwire.transport.executions import (
    Deliver,
    Execution,
    ExecutionHeader,
    LayerTime,
    SequenceMark,
    StoredBox,
    Target,
    WireBytes,
)
from inferwire.transport.lent_memory import Lend
from inferwire.values.plugin_version import Version
from inferwire_proto.element_types import ElementType
from inferwire_proto.preprocessing import Recording
from inferwire_proto.properties import PropertyValue


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
        """Write a tensor, which then has this shape, or a box in it, which must have this shape already."""
        ...

    def get(self, box: StoredBox) -> WireBytes:
        """Read a tensor, or a box in it."""
        ...

    def release(self, tensor_id: int) -> None:
        """Free a tensor some time soon. Safe to call from a destructor; never raises."""
        ...


class StateStore(Protocol):
    """States that the server keeps for this client's sequences until these are released or its session has ended.

    Every method but `new_id` and `release` raises `InferwireError` for what the server or the network says. It is
    `AnswerLost` where the server may have done what it was asked for.
    """

    def new_id(self) -> int:
        """Give an id that no other sequence of this client has. The server hears of it with its first call."""
        ...

    def get(self, target: Target, sequence: SequenceMark, names: Sequence[str]) -> Sequence[StateValue]:
        """Read states of a sequence, in the order of the names."""
        ...

    def set(self, target: Target, sequence: SequenceMark, states: Sequence[StateValue]) -> None:
        """Replace states of a sequence."""
        ...

    def reset(self, target: Target, sequence: SequenceMark, names: Sequence[str]) -> None:
        """Make states of a sequence fresh: those named, or all."""
        ...

    def release(self, sequence_id: int) -> None:
        """Free what the server keeps for a sequence some time soon. Safe to call from a destructor; never raises."""
        ...


class Transport(Protocol):
    """The calls of a server that the client uses. All but `submit`, `is_ready` and `release` wait for its answer.

    Every method raises `InferwireError` for what the server or the network says.
    """

    @property
    def address(self) -> str:
        """Where the server is, for messages to people."""
        ...

    @property
    def closed_at(self) -> float:
        """When it was closed last, as `time.perf_counter` has it; minus infinity if never."""
        ...

    @property
    def tensors(self) -> TensorStore:
        """The tensors that the server keeps. Does not keep the transport alive: an object with tensors holds both."""
        ...

    @property
    def states(self) -> StateStore:
        """The states that the server keeps. Does not keep the transport alive: an object with states holds both."""
        ...

    @property
    def lend(self) -> Lend:
        """Gives memory in which the server can read inputs in place; None if it cannot, and they are sent.

        It does not keep the transport alive.
        """
        ...

    def submit(
        self,
        header: ExecutionHeader,
        inputs: Sequence[WireBytes],
        deliver: Deliver,
        *,
        is_awaited: bool = False,
    ) -> Execution:
        """Send an execution. `deliver` is called once, and must be quick.

        It is called on a thread of the transport or, with `is_awaited`, perhaps on one that waits in
        `Execution.await_answer`. Nothing else then wants to know the outcome soon: if no thread waits, it may be
        delivered some hundredths of a second late.
        The buffers must not change before the outcome is delivered. Unless `is_ready`, this waits for a connection,
        and for the model to be compiled again. If the connection is lost, a retryable execution is sent once more on a
        new one.
        """
        ...

    def is_ready(self, header: ExecutionHeader) -> bool:
        """Whether `submit` would send at once: connected, with the model on the server."""
        ...

    def served_model(self, name: str, version: str) -> ModelDescription:
        """Describe a model of the server's repository."""
        ...

    def served_models(self) -> Sequence[ModelStatus]:
        """List every version of every model of the server's repository, by name, then by version."""
        ...

    def labels(self, name: str, version: str) -> tuple[str, ...]:
        """Give the names of the classes of a model of the server's repository."""
        ...

    def read(self, contents: ModelContents) -> ModelDescription:
        """Read a model, without compiling it; here and below, files that the session has not got are uploaded first."""
        ...

    def graph(self, contents: ModelContents) -> GraphDescription:
        """Describe the graph of a model, without compiling it."""
        ...

    def describe_preprocessing(self, contents: ModelContents, recording: Recording) -> str:
        """Say in OpenVINO's words what is recorded on a processor of a model."""
        ...

    def compile(
        self, contents: ModelContents, device: str, properties: Mapping[str, PropertyValue]
    ) -> CompiledDescription:
        """Compile a model for a device, and again after a session was lost."""
        ...

    def query(self, contents: ModelContents, device: str, properties: Mapping[str, PropertyValue]) -> Mapping[str, str]:
        """Give the device that would run each node of a model, for the nodes that can run."""
        ...

    def import_compiled(self, blob: Blob, device: str, properties: Mapping[str, PropertyValue]) -> CompiledDescription:
        """Make a model of what `export` gave, and again after a session was lost."""
        ...

    def export(self, target: Target) -> bytes:
        """Serialise a model that can run, as a blob."""
        ...

    def runtime_model(self, target: Target) -> GraphDescription:
        """Describe the graph that the device of a model runs."""
        ...

    def layers(self, target: Target) -> Sequence[LayerTime]:
        """List the layers of a model that can run, none of which has."""
        ...

    def release(self, compiled_id: str) -> None:
        """Free a compiled model some time soon. Safe to call from a destructor; never raises."""
        ...

    def devices(self) -> tuple[str, ...]:
        """List the server's devices."""
        ...

    def device_property(self, device: str, name: str) -> PropertyValue:
        """Read a property of a device, or of the runtime if `device` is empty."""
        ...

    def check_properties(self, device: str, properties: Mapping[str, PropertyValue]) -> Mapping[str, PropertyValue]:
        """Give properties as a device would take them, or the runtime if `device` is empty; set none."""
        ...

    def extensions(self) -> tuple[str, ...]:
        """List the libraries of operations that the server has loaded, by file name."""
        ...

    def plugin_versions(self, device: str) -> Mapping[str, Version]:
        """Read the versions of a device's plugins."""
        ...

    def close(self) -> None:
        """End what is in flight and close the connection. The next call opens it again."""
        ...
