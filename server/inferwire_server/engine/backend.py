"""What the engine asks of the runtime behind it, which is OpenVINO or, in tests, a fake.

This is all that another backend has to do, and `fake_backend` shows how little that can be. `process` makes the backend
of a server, and the contract's `model_formats` has the endings of the files that it is given. A call that fails for a
reason that callers are to read raises a `ServingError`; whatever else a slot raises is logged as a bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from inferwire_proto.preprocessing import Recording
from inferwire_proto.properties import Properties, PropertyValue
from inferwire_server.core.layers import LayerTime, ModelGraph
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.job import Transforms
from inferwire_server.core.specs import ModelSpec
from inferwire_server.core.states import StateAccess
from inferwire_server.core.tensors import Tensor


class Slot(Protocol):
    """Runs one inference at a time on a compiled model. Each call may come from another thread."""

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms = ()) -> tuple[Tensor, ...]:
        """Run an inference and give the outputs asked for, in that order, each as its transform makes it. Blocks.

        Inputs fit the spec, and may be read, not written, until this returns. Outputs without a transform have memory
        of their own: the next run of the slot must not change them, and callers keep them for as long as they like. A
        transform is called before this returns, with what may be the slot's own memory. `outputs` names no output
        twice; `transforms` has one entry for each of them, or is empty.

        Raises:
            ServingError: INFERENCE_FAILED or CANCELLED, or what a transform raises. The slot is usable again.
        """
        ...

    def access(self, states: StateAccess) -> tuple[Tensor, ...]:
        """Read, write or reset states, and give what was read. Blocks. Asked only of slots that keep states.

        Raises:
            ServingError: INVALID_INPUT for a state that the model does not have, or a tensor that does not fit one.
        """
        ...

    def cancel(self) -> None:
        """Stop the inference that runs, if there is one and the device can. Called on the loop: it must not block."""
        ...

    def profile(self) -> tuple[LayerTime, ...]:
        """Give what each layer took in the last run, whether that run finished or failed on the way."""
        ...


class CompiledModel(Protocol):
    """A model that is ready to run."""

    @property
    def spec(self) -> ModelSpec:
        """What it takes and gives."""
        ...

    @property
    def devices(self) -> tuple[str, ...]:
        """The physical devices it runs on, one at least. Its jobs wait in the queue of the first."""
        ...

    @property
    def optimal_requests(self) -> int:
        """How many inferences its devices compute at once."""
        ...

    @property
    def optimal_slots(self) -> int:
        """How many slots keep its devices busy: when an inference ends, the next one is to be ready in a slot."""
        ...

    @property
    def properties(self) -> Properties:
        """Its readable properties."""
        ...

    def create_slot(self, *, keeps_states: bool = False) -> Slot:
        """Make a slot. Unless it keeps the model's states, every inference in it starts from fresh ones.

        A slot that keeps states is made by its first job, on a thread, and freed on a thread: both may take long.
        """
        ...

    def create_brief_slot(self) -> Slot | None:
        """Make a slot that computes on the thread that calls it and no other; None where no inference can be brief."""
        ...

    def layers(self) -> tuple[LayerTime, ...]:
        """List its layers, none of which has run."""
        ...

    def runtime_model(self) -> ModelGraph:
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

    @property
    def version(self) -> str:
        """What the runtime calls its version."""
        ...

    def devices(self) -> tuple[str, ...]:
        """List the physical devices."""
        ...

    def read(self, source: Source) -> ModelSpec:
        """Read a model without compiling it.

        Raises:
            ServingError: MODEL_FAILED with the runtime's reason.
        """
        ...

    def graph(self, source: Source) -> ModelGraph:
        """Describe the graph of a model without compiling it.

        Raises:
            ServingError: MODEL_FAILED with the runtime's reason.
        """
        ...

    def describe_preprocessing(self, source: Source, recording: Recording) -> str:
        """Say in the runtime's words what is recorded on a processor of a model, what it refuses included.

        Raises:
            ServingError: MODEL_FAILED with the runtime's reason.
        """
        ...

    def compile(self, source: Source, options: ModelOptions) -> CompiledModel:
        """Compile a model, or load one that is compiled.

        Raises:
            ServingError: MODEL_FAILED with the runtime's reason; UnfitSetting where one of the operator's settings does
                not fit the model.
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
            ServingError: INVALID_INPUT or UNSUPPORTED_TYPE with the runtime's reason.
        """
        ...

    def versions(self, device: str) -> dict[str, PluginVersion]:
        """Read the plugin versions behind a device name; none for an unknown one."""
        ...
