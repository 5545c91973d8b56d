"""What the engine asks of whatever runs inferences. OpenVINO is behind it, or a fake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from inferwire_proto.preprocessing import Call
from inferwire_proto.properties import Properties, PropertyValue
from inferwire_server.core.batching import Batching
from inferwire_server.core.bindings import BindingTerms
from inferwire_server.core.job import Finishes
from inferwire_server.core.layers import LayerTime, RuntimeModel
from inferwire_server.core.specs import Dimension, ModelSpec, Shape
from inferwire_server.core.states import StateAccess
from inferwire_server.core.tensors import Tensor


@dataclass(frozen=True)
class Preprocessing:
    """What is built into a model before it is compiled.

    Attributes:
        calls: Those on OpenVINO's PrePostProcessor, in order.
        reshape: New shapes of the inputs that come of it.
        setting: The setting that asks for it, where one does.
    """

    calls: tuple[Call, ...]
    reshape: Mapping[str, Shape] = field(default_factory=dict[str, Shape])
    setting: str = ""


@dataclass(frozen=True)
class Source:
    """Where a model is read from, and what is done to it then: new shapes first.

    One that `is_compiled` is what `CompiledModel.export` once gave. A shape or the preprocessing of "" is that of the
    only input. `free` names inputs that take every length, with "" for all. `batch` is the length of every input's
    batch dimension.
    """

    path: Path
    weights: Path | None = None
    reshape: dict[str, Shape] = field(default_factory=dict[str, Shape])
    is_compiled: bool = False
    preprocessing: tuple[Preprocessing, ...] = ()
    batch: Dimension | None = None
    free: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Pictures:
    """How encoded pictures become the pixels that an input takes.

    Attributes:
        resize: The algorithm that makes them as large as the input; None for pictures that are.
        max_pixels: The most pixels that one of them may have.
    """

    resize: str | None = None
    max_pixels: int = 50_000_000


@dataclass(frozen=True)
class ModelOptions:
    """How a model is compiled, warmed up and scheduled.

    Attributes:
        name: What its callers call it.
        device: What it is compiled for.
        properties: What it is compiled with.
        slots: How many inferences run at once; None for as many as keep its devices busy.
        priority: The priority of jobs that name none.
        warm_up: Shapes of the zeros it runs before it takes jobs; None for no such run.
        weight: Its share of the device against other models that wait: twice the weight, twice the time.
        batching: How its jobs may run together; None for never.
        labels: The names of its classes.
        idle_unload_s: After how long without a job it is unloaded, until the next; None for never.
        binding: How callers share it if it keeps states.
        pictures: The inputs that take encoded pictures, by name.
    """

    name: str
    device: str = "AUTO"
    properties: Properties = field(default_factory=dict[str, PropertyValue])
    slots: int | None = None
    priority: int = 0
    warm_up: Mapping[str, tuple[int, ...]] | None = None
    weight: float = 1.0
    batching: Batching | None = None
    labels: tuple[str, ...] = ()
    idle_unload_s: float | None = None
    binding: BindingTerms = field(default_factory=BindingTerms)
    pictures: Mapping[str, Pictures] = field(default_factory=dict[str, Pictures])


class Slot(Protocol):
    """One inference at a time on a compiled model."""

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[int], finishes: Finishes = ()) -> tuple[Tensor, ...]:
        """Run an inference and give the outputs asked for, in that order, each as its finish makes it. Blocks.

        Raises:
            ServingError: INFERENCE_FAILED or CANCELLED, or what a finish raises. The slot is usable again either way.
        """
        ...

    def access(self, states: StateAccess) -> tuple[Tensor, ...]:
        """Read, write or reset states, and give what was read. Blocks.

        Raises:
            ServingError: INVALID_INPUT for a state the model has not, or a tensor that does not fit one.
        """
        ...

    def cancel(self) -> None:
        """Stop the inference that runs, if the device can. Called from another thread."""
        ...

    def profile(self) -> tuple[LayerTime, ...]:
        """Give what each layer took in the last run, whose end it was or how far it came."""
        ...


class CompiledModel(Protocol):
    """A model that is ready to run."""

    @property
    def spec(self) -> ModelSpec:
        """What it takes and gives."""
        ...

    @property
    def devices(self) -> tuple[str, ...]:
        """The physical devices it runs on."""
        ...

    @property
    def optimal_requests(self) -> int:
        """How many inferences its devices compute at once."""
        ...

    @property
    def optimal_slots(self) -> int:
        """How many slots keep its devices busy: the next inference is to be there when one of those ends."""
        ...

    @property
    def properties(self) -> Properties:
        """Its readable properties."""
        ...

    def create_slot(self, *, keeps_states: bool = False) -> Slot:
        """Make a slot. Unless it keeps the model's states, every inference in it starts from fresh ones."""
        ...

    def create_quick_slot(self) -> Slot | None:
        """Make a slot that computes on the thread that calls it and no other; None where no inference can be brief."""
        ...

    def layers(self) -> tuple[LayerTime, ...]:
        """List its layers, none of which has run."""
        ...

    def runtime_model(self) -> RuntimeModel:
        """Describe the graph that its device runs.

        Raises:
            ServingError: MODEL_FAILED with the runtime's reason.
        """
        ...

    def export(self) -> bytes:
        """Give it as a blob that can be loaded again.

        Raises:
            ServingError: MODEL_FAILED with the runtime's reason.
        """
        ...


@dataclass(frozen=True, slots=True)
class PluginVersion:
    """The version of one device's plugin."""

    description: str
    build_number: str


class Backend(Protocol):
    """The runtime. Its methods may take long: the engine calls them on threads of its own."""

    def devices(self) -> tuple[str, ...]:
        """List the physical devices."""
        ...

    def read(self, source: Source) -> ModelSpec:
        """Read a model without compiling it.

        Raises:
            ServingError: MODEL_FAILED with the runtime's reason.
        """
        ...

    def compile(self, source: Source, options: ModelOptions) -> CompiledModel:
        """Compile a model, or load one that is compiled.

        Raises:
            ServingError: MODEL_FAILED with the runtime's reason.
        """
        ...

    def query(self, source: Source, device: str, properties: Properties) -> dict[str, str]:
        """Give the device that would run it for each node that can run.

        Raises:
            ServingError: MODEL_FAILED with the runtime's reason.
        """
        ...

    def check_properties(self, device: str, properties: Properties) -> Properties:
        """Give properties as a device would take them, or the runtime where `device` is empty; set none.

        Raises:
            ServingError: INVALID_INPUT with the runtime's reason.
        """
        ...

    @property
    def extensions(self) -> tuple[str, ...]:
        """The file names of the libraries of operations it has loaded."""
        ...

    def device_property(self, device: str, name: str) -> PropertyValue:
        """Read a property of a device, or of the runtime where `device` is empty.

        Raises:
            ServingError: INVALID_INPUT with the runtime's reason.
        """
        ...

    def versions(self, device: str) -> dict[str, PluginVersion]:
        """Read the plugin versions behind a device name; none for an unknown one."""
        ...
