"""A `Transport` without a network, for tests: what is submitted waits until the test ends it.

Owns no threads. `deliver` runs on the thread that ends an execution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import inf
from queue import SimpleQueue
from time import perf_counter

from inferwire.errors import InferwireError
from inferwire.latch import Latch
from inferwire.transport.descriptions import (
    Blob,
    Blobs,
    CompiledDescription,
    GraphDescription,
    ModelContents,
    ModelDescription,
    ModelSource,
    ModelStatus,
    StateValue,
)
from inferwire.transport.executions import (
    Deliver,
    ExecutionHeader,
    LayerTime,
    Outcome,
    OutputForm,
    SequenceMark,
    StoredBox,
    Target,
    Timings,
    WireBytes,
)
from inferwire.transport.lent_memory import Lend
from inferwire.values.plugin_version import Version
from inferwire_proto.element_types import ElementType
from inferwire_proto.preprocessing import Recording
from inferwire_proto.properties import PropertyValue


@dataclass(frozen=True, slots=True)
class FakeOutput:
    """An output of an execution; without bytes, the server keeps it."""

    element_type: ElementType
    shape: tuple[int, ...]
    data: WireBytes | None


@dataclass(slots=True, eq=False)
class FakeExecution:
    """An execution that was submitted.

    Attributes:
        header: What was to run.
        inputs: The inputs' bytes as they were when it was submitted.
        is_cancelled: Whether the client gave it up.
        started: When it was submitted, as `time.perf_counter` has it.
        is_awaited: Whether nobody wants its outcome but threads that wait for it.
        waits: The time-outs of those that began to wait, in seconds.
    """

    header: ExecutionHeader
    inputs: tuple[bytes, ...]
    deliver: Deliver
    is_cancelled: bool = False
    started: float = field(default_factory=perf_counter)
    is_awaited: bool = False
    waits: SimpleQueue[float | None] = field(default_factory=lambda: SimpleQueue[float | None]())

    def await_answer(self, answered: Latch, began: float, timeout_s: float | None = None) -> bool:
        """Wait until the test, or `answer`, has ended it."""
        del began
        self.waits.put(timeout_s)
        return answered.wait(timeout_s)

    def cancel(self) -> None:
        """Note that the client gave it up."""
        self.is_cancelled = True

    def finish(self, *outputs: FakeOutput, timings: Timings = Timings(), profile: Sequence[LayerTime] = ()) -> None:  # noqa: B008 - immutable
        """End it with outputs, even if it was cancelled: a late answer."""
        forms = [OutputForm(each.element_type, each.shape) for each in outputs]
        came_at = self.started + (timings.server_ms + timings.wire_ms) / 1000
        self.deliver(Outcome(forms, timings, came_at, profile=profile), [each.data for each in outputs])

    def fail(self, error: InferwireError, profile: Sequence[LayerTime] = ()) -> None:
        """End it with an error."""
        self.deliver(Outcome(error=error, profile=profile), ())


@dataclass(slots=True)
class FakeTensors:
    """A `TensorStore` in a dict.

    Attributes:
        contents: The bytes of each tensor, by its id.
        gets: What was read, in order.
        released: The ids of released tensors.
    """

    contents: dict[int, bytes] = field(default_factory=dict[int, bytes])
    gets: list[StoredBox] = field(default_factory=list[StoredBox])
    released: list[int] = field(default_factory=list[int])
    _ids: Iterator[int] = field(default_factory=lambda: count(1))

    def new_id(self) -> int:
        """Give the next id."""
        return next(self._ids)

    def create(self, tensor_id: int, element_type: ElementType, shape: tuple[int, ...]) -> None:
        """Keep zeros."""
        self.contents[tensor_id] = bytes(element_type.byte_size(shape))

    def put(self, box: StoredBox, element_type: ElementType, shape: tuple[int, ...], data: WireBytes) -> None:
        """Keep the bytes of a whole tensor."""
        del element_type, shape
        self.contents[box.id] = bytes(data)

    def get(self, box: StoredBox) -> bytes:
        """Give the bytes of a whole tensor."""
        self.gets.append(box)
        return self.contents[box.id]

    def release(self, tensor_id: int) -> None:
        """Note the release."""
        self.released.append(tensor_id)


@dataclass(slots=True)
class FakeStates:
    """A `StateStore` in a dict, the same for every sequence.

    Attributes:
        values: What it knows, by name.
        calls: The name and the sequence of each call about states.
        read: The names of the states that each `get` asked for.
        error: What such a call raises, if anything.
        released: The ids of released sequences.
    """

    values: dict[str, StateValue] = field(default_factory=dict[str, StateValue])
    calls: list[tuple[str, SequenceMark]] = field(default_factory=list[tuple[str, SequenceMark]])
    read: list[Sequence[str]] = field(default_factory=list[Sequence[str]])
    error: InferwireError | None = None
    released: list[int] = field(default_factory=list[int])
    _ids: Iterator[int] = field(default_factory=lambda: count(1))

    def new_id(self) -> int:
        """Give the next id."""
        return next(self._ids)

    def get(self, target: Target, sequence: SequenceMark, names: Sequence[str]) -> Sequence[StateValue]:
        """Give states the test has set."""
        self.read.append(names)
        self._note("get", target, sequence)
        return [self.values[name] for name in names]

    def set(self, target: Target, sequence: SequenceMark, states: Sequence[StateValue]) -> None:
        """Keep the states."""
        self._note("set", target, sequence)
        self.values.update({state.name: state for state in states})

    def reset(self, target: Target, sequence: SequenceMark, names: Sequence[str]) -> None:
        """Forget the states."""
        self._note("reset", target, sequence)
        for name in names or tuple(self.values):
            self.values.pop(name, None)

    def release(self, sequence_id: int) -> None:
        """Note the release."""
        self.released.append(sequence_id)

    def _note(self, call: str, target: Target, sequence: SequenceMark) -> None:
        del target
        self.calls.append((call, sequence))
        if self.error is not None:
            raise self.error


@dataclass(slots=True)
class FakeTransport:
    """Keeps what it is given and answers what it was told.

    Attributes:
        model: The description of every model, served, read or compiled.
        answer: Ends each execution as soon as it is submitted; None to let the test do it.
        executions: What was submitted, in order.
        uploads: The blobs it has.
        compiles: The arguments of each compile.
        imports: The arguments of each import.
        recordings: What it was asked to describe.
        describe: Gives the text of each recording.
        released: The ids of released models.
        properties: What `device_property` knows, by device and name.
        is_connected: Whether `submit` sends at once.
        closed_at: When it was closed last.
        tensors: The tensors it keeps.
        states: The states it keeps.
    """

    model: ModelDescription
    answer: Callable[[FakeExecution], None] | None = None
    executions: list[FakeExecution] = field(default_factory=list[FakeExecution])
    uploads: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    compiles: list[tuple[ModelSource, str, dict[str, PropertyValue]]] = field(
        default_factory=list[tuple[ModelSource, str, dict[str, PropertyValue]]]
    )
    imports: list[tuple[bytes, str, dict[str, PropertyValue]]] = field(
        default_factory=list[tuple[bytes, str, dict[str, PropertyValue]]]
    )
    recordings: list[Recording] = field(default_factory=list[Recording])
    describe: Callable[[], str] = str
    released: list[str] = field(default_factory=list[str])
    properties: dict[tuple[str, str], PropertyValue] = field(default_factory=dict[tuple[str, str], PropertyValue])
    is_connected: bool = True
    closed_at: float = -inf
    tensors: FakeTensors = field(default_factory=FakeTensors)
    states: FakeStates = field(default_factory=FakeStates)

    @property
    def address(self) -> str:
        """Nowhere."""
        return "fake"

    @property
    def lend(self) -> Lend:
        """Gives no memory: what is submitted is copied."""
        return lambda _: None

    def submit(
        self,
        header: ExecutionHeader,
        inputs: Sequence[WireBytes],
        deliver: Deliver,
        *,
        is_awaited: bool = False,
    ) -> FakeExecution:
        """Keep an execution for the test, or have `answer` end it."""
        execution = FakeExecution(header, tuple(map(bytes, inputs)), deliver, is_awaited=is_awaited)
        self.executions.append(execution)
        if self.answer is not None:
            self.answer(execution)
        return execution

    def served_model(self, name: str, version: str) -> ModelDescription:
        """Describe the model."""
        del name, version
        return self.model

    def served_models(self) -> Sequence[ModelStatus]:
        """List the model."""
        return (ModelStatus(self.model.name, self.model.version, "ready", ""),)

    def labels(self, name: str, version: str) -> tuple[str, ...]:
        """Give one label, which names the model and its version."""
        return (f"{name} {version}".rstrip(),)

    def read(self, contents: ModelContents) -> ModelDescription:
        """Describe the model."""
        self._upload(contents.blobs)
        return self.model

    def graph(self, contents: ModelContents) -> GraphDescription:
        """Describe a graph of no nodes."""
        self._upload(contents.blobs)
        return GraphDescription(self.model, ())

    def describe_preprocessing(self, contents: ModelContents, recording: Recording) -> str:
        """Keep the recording, and say what the test wants."""
        self._upload(contents.blobs)
        self.recordings.append(recording)
        return self.describe()

    def is_ready(self, header: ExecutionHeader) -> bool:
        """Say what the test wants."""
        del header
        return self.is_connected

    def compile(
        self, contents: ModelContents, device: str, properties: Mapping[str, PropertyValue]
    ) -> CompiledDescription:
        """Describe the model under a new id."""
        self._upload(contents.blobs)
        self.compiles.append((contents.source, device, dict(properties)))
        return CompiledDescription(f"compiled-{len(self.compiles)}", self.model)

    def query(self, contents: ModelContents, device: str, properties: Mapping[str, PropertyValue]) -> Mapping[str, str]:
        """Say that the device runs all of it."""
        del properties
        self._upload(contents.blobs)
        return {port.node_name: device for port in self.model.inputs}

    def import_compiled(self, blob: Blob, device: str, properties: Mapping[str, PropertyValue]) -> CompiledDescription:
        """Describe the model under a new id."""
        self._upload((blob,))
        self.imports.append((blob.sha256, device, dict(properties)))
        return CompiledDescription(f"imported-{len(self.imports)}", self.model)

    def export(self, target: Target) -> bytes:
        """Give the model's name as a blob."""
        return target.name.encode()

    def runtime_model(self, target: Target) -> GraphDescription:
        """Describe a graph of no nodes."""
        del target
        return GraphDescription(self.model, ())

    def layers(self, target: Target) -> Sequence[LayerTime]:
        """Give one layer, named after the model."""
        return (LayerTime(target.name, "Fake", "python", "NOT_RUN", 0, 0),)

    def release(self, compiled_id: str) -> None:
        """Note the release."""
        self.released.append(compiled_id)

    def devices(self) -> tuple[str, ...]:
        """Give one device."""
        return ("CPU",)

    def device_property(self, device: str, name: str) -> PropertyValue:
        """Give a property the test has set."""
        return self.properties[device, name]

    def check_properties(self, device: str, properties: Mapping[str, PropertyValue]) -> Mapping[str, PropertyValue]:
        """Take everything."""
        del device
        return properties

    def extensions(self) -> tuple[str, ...]:
        """Give one library."""
        return ("libfake.so",)

    def plugin_versions(self, device: str) -> Mapping[str, Version]:
        """Give a plugin for each name, last first: a server has them in no order."""
        names = device.replace(":", ",").split(",")
        return {name: Version("1.0", "fake_plugin") for name in reversed(names)}

    def close(self) -> None:
        """Note when it was closed."""
        self.closed_at = perf_counter()

    def _upload(self, blobs: Blobs) -> None:
        self.uploads.update({blob.sha256: bytes(blob.content) for blob in blobs})
