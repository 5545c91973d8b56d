"""What a client and a server tell each other of models, their files and their states. Values, and no network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from inferwire.graph.described import PortDescription
from inferwire.transport.executions import WireBytes
from inferwire.values.partial_shape import PartialShape
from inferwire_proto.added_outputs import AddedOutput
from inferwire_proto.element_types import ElementType
from inferwire_proto.port_names import PortNames
from inferwire_proto.preprocessing import Call
from inferwire_proto.properties import PropertyValue


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Blob:
    """A file's content and its SHA-256, which is calculated once: it may have gigabytes.

    A session that has got it keeps it while this object lives, or a compiled model that was made of it.
    """

    content: WireBytes = field(repr=False)
    sha256: bytes

    @classmethod
    def of(cls, content: WireBytes) -> Blob:
        """Hash a content."""
        return cls(content, hashlib.sha256(content).digest())


Blobs: TypeAlias = tuple[Blob, ...]
"""The files of a model."""


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
        optimal_number_of_infer_requests: How many inference requests keep its device busy.
        properties: The compiled model's properties, by name.
        sinks: The nodes that write its states, if it was read and not compiled.
        max_batch_rows: The most rows that one of its inferences runs, if executions may run together; else 0.
    """

    name: str
    version: str
    inputs: tuple[PortDescription, ...]
    outputs: tuple[PortDescription, ...]
    states: tuple[str, ...]
    signature: int
    optimal_number_of_infer_requests: int
    properties: Mapping[str, PropertyValue]
    sinks: tuple[PortDescription, ...] = ()
    max_batch_rows: int = 0


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One node of a graph.

    Attributes:
        description: Its friendly name, its type, and its first output.
        info: What the device that runs it tells about it.
        input_count: How many inputs it has.
        outputs: Its outputs in order.
        attributes: What it was made with; None if the server is too old to tell.
    """

    description: PortDescription
    info: Mapping[str, str]
    input_count: int
    outputs: tuple[PortDescription, ...]
    attributes: Mapping[str, PropertyValue] | None = None


@dataclass(frozen=True, slots=True)
class GraphDescription:
    """The graph that a device runs, or a model's own, with its nodes in an order in which they can run."""

    model: ModelDescription
    nodes: tuple[GraphNode, ...]


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """What is built into a model before it is compiled.

    Attributes:
        calls: The calls on a `PrePostProcessor`, in order.
        reshape: New shapes, by name, of the inputs that the model has after the calls.
        added_outputs: The outputs that the model gives after its own.
        names: The names that its inputs and outputs have then; `reshape` is by these names.
        reshape_positions: New shapes, by position, of inputs that no name tells apart.
    """

    calls: tuple[Call, ...] = ()
    reshape: Mapping[str, PartialShape] = field(default_factory=dict[str, PartialShape])
    added_outputs: tuple[AddedOutput, ...] = ()
    names: tuple[PortNames, ...] = ()
    reshape_positions: Mapping[int, PartialShape] = field(default_factory=dict[int, PartialShape])


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model's files, by the hashes they are uploaded under.

    Attributes:
        model: The model file's SHA-256.
        weights: The SHA-256 of the weights beside it; empty if the format has them inside.
        suffix: The model file's ending, as ".onnx".
        reshape: New shapes of inputs, by name.
        variables: The SHA-256 of each file with variables of a SavedModel, by its path in the folder.
        preprocessing: What is built into it, in order.
    """

    model: bytes
    weights: bytes
    suffix: str
    reshape: Mapping[str, PartialShape]
    variables: Mapping[str, bytes]
    preprocessing: tuple[Preprocessing, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelContents:
    """A model with its files, for sessions that have not got them yet.

    Attributes:
        source: Which of the files is which.
        blobs: The files.
        again: Gives the files once more, for as long as the model may be compiled again. Does not keep `blobs` if it
            can read the files instead.
    """

    source: ModelSource
    blobs: Blobs
    again: Callable[[], Blobs]


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """One version of a model of a server's repository; not in openvino.

    Attributes:
        name: The name it is served under.
        version: Its version, as `Core.served_model` takes it.
        state: "loading", "warming", "ready", "draining", "unloaded" or "failed".
        reason: Why it is not ready; empty if it is, or nothing went wrong.
    """

    name: str
    version: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class CompiledDescription:
    """A model the server compiled for this session."""

    compiled_id: str
    model: ModelDescription


@dataclass(frozen=True, slots=True)
class StateValue:
    """A state's tensor as it travels."""

    name: str
    element_type: ElementType
    shape: tuple[int, ...]
    data: WireBytes
