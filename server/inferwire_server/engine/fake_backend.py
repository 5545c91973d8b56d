"""A runtime without a runtime: models whose inferences a test holds, fails and counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from struct import pack, unpack
from threading import Condition

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_proto.preprocessing import Recording
from inferwire_proto.properties import Properties, PropertyValue
from inferwire_server.core.layers import GraphNode, LayerStatus, LayerTime, ModelGraph
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.job import Transforms
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.core.states import ReadStates, ResetStates, StateAccess, WriteStates
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import PluginVersion
from inferwire_server.errors import ServingError

Compute = Callable[[Sequence[Tensor]], tuple[Tensor, ...]]


def echo(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Answer with the inputs."""
    return tuple(inputs)


def echo_spec(name: str, width: int = 4) -> ModelSpec:
    """Describe a model with one input x of f32[?,width] and one output y like it."""
    shape = (Dimension(0, None), Dimension(width, width))

    def port(port_name: str, node_type: str) -> PortSpec:
        return PortSpec(frozenset({port_name}), port_name, BY_NAME["f32"], shape, port_name, node_type)

    return ModelSpec(name, (port("x", "Parameter"),), (port("y", "Result"),))


def count_state(count: int) -> Tensor:
    """Make the state of a slot that has run so many inferences."""
    return Tensor(BY_NAME["f32"], (1,), pack("<f", count))


def count_of(state: Tensor) -> int:
    """Say how many inferences a state has counted."""
    return int(unpack("<f", state.data)[0])


class Gate:
    """Holds inferences until it is opened, and knows how many it holds."""

    def __init__(self, *, is_open: bool = True) -> None:
        self._changed = Condition()
        self._is_open = is_open
        self._held = 0
        self._passes = 0

    def open(self) -> None:
        """Let everything through."""
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def close(self) -> None:
        """Hold what comes from now on."""
        with self._changed:
            self._is_open = False

    def let_through(self, count: int) -> None:
        """Let this many inferences through, and hold the rest."""
        with self._changed:
            self._passes += count
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._passes)

    def pass_through(self, is_cancelled: Callable[[], bool]) -> None:
        """Wait until the gate is open or the inference is cancelled."""
        with self._changed:
            self._held += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_open or self._passes or is_cancelled())
            self._passes = max(0, self._passes - 1)
            self._held -= 1
            self._changed.notify_all()

    def wait_held(self, count: int, timeout_s: float = 60.0) -> None:
        """Wait until this many inferences are held.

        Raises:
            TimeoutError: If they do not come.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._held == count, timeout_s):
                raise TimeoutError(f"{self._held} inferences are held, expected {count}")

    def nudge(self) -> None:
        """Make held inferences look again whether they are cancelled."""
        with self._changed:
            self._changed.notify_all()


@dataclass
class FakeModel:
    """A model that a test controls."""

    spec: ModelSpec
    compute: Compute = echo
    gate: Gate = field(default_factory=Gate)
    devices: tuple[str, ...] = ("CPU",)
    optimal_slots: int = 2
    properties: Properties = field(default_factory=dict[str, PropertyValue])
    can_cancel: bool = True
    is_brief: bool = False

    @property
    def optimal_requests(self) -> int:
        """As many inferences as there are slots: each of them runs."""
        return self.optimal_slots

    def create_slot(self, *, keeps_states: bool = False) -> FakeSlot:
        """Make a slot. Where it keeps states, each counts its inferences, as one f32."""
        return FakeSlot(self, keeps_states=keeps_states)

    def create_brief_slot(self) -> FakeSlot | None:
        """Make a slot like any other, if the test asks for one."""
        return FakeSlot(self, keeps_states=False) if self.is_brief else None

    def layers(self) -> tuple[LayerTime, ...]:
        """List the one layer it has."""
        return (LayerTime(self.spec.name, "Fake", "python"),)

    def runtime_model(self) -> ModelGraph:
        """Describe a graph of the one layer."""
        node = GraphNode(self.spec.name, "Fake", {"primitiveType": "python"}, 1, self.spec.outputs, {})
        return ModelGraph(self.spec, (node,))

    def export(self) -> bytes:
        """Give the model's name as a blob."""
        return self.spec.name.encode()


class FakeSlot:
    """One inference at a time on a fake model."""

    def __init__(self, model: FakeModel, *, keeps_states: bool) -> None:
        self._model = model
        self._keeps_states = keeps_states
        self._is_cancelled = False
        self._states: dict[str, Tensor] = {}
        self.access(ResetStates())

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms = ()) -> tuple[Tensor, ...]:
        """Wait at the gate, then compute."""
        self._is_cancelled = False
        self._model.gate.pass_through(lambda: self._is_cancelled)
        if self._is_cancelled:
            raise ServingError(Code.CANCELLED, "the inference was cancelled")
        computed = self._model.compute(inputs)
        if self._keeps_states:
            self._states = {name: count_state(count_of(state) + 1) for name, state in self._states.items()}
        transforms = transforms or (None,) * len(outputs)
        return tuple(
            computed[index] if transform is None else transform(computed[index])
            for index, transform in zip(outputs, transforms, strict=True)
        )

    def access(self, states: StateAccess) -> tuple[Tensor, ...]:
        """Read, write or reset states."""
        match states:
            case ReadStates(names):
                return tuple(self._states[name] for name in names or self._model.spec.states)
            case WriteStates(values):
                self._states.update(values)
            case ResetStates(names):
                self._states.update((name, count_state(0)) for name in names or self._model.spec.states)
        return ()

    def cancel(self) -> None:
        """Stop at the gate, if the model can."""
        if self._model.can_cancel:
            self._is_cancelled = True
            self._model.gate.nudge()

    def profile(self) -> tuple[LayerTime, ...]:
        """Say of each layer that it ran, and for how long: always the same."""
        return tuple(
            replace(layer, status=LayerStatus.EXECUTED, real_time_us=7, cpu_time_us=5) for layer in self._model.layers()
        )


class FakeBackend:
    """A runtime whose models are given by the name they are compiled under."""

    version = "fake"

    def __init__(
        self,
        models: dict[str, FakeModel] | None = None,
        devices: Sequence[str] = ("CPU",),
        extensions: Sequence[str] = (),
    ) -> None:
        self._models = models or {}
        self._devices = tuple(devices)
        self.extensions = tuple(extensions)

    def devices(self) -> tuple[str, ...]:
        """List the physical devices."""
        return self._devices

    def read(self, source: Source) -> ModelSpec:
        """Describe the model a file is named after."""
        return self._model(source.path.stem).spec

    def graph(self, source: Source) -> ModelGraph:
        """Describe a graph of one node."""
        spec = self.read(source)
        return ModelGraph(spec, (GraphNode(spec.name, "Fake", {}, 1, spec.outputs, {"kind": "fake"}),))

    def describe_preprocessing(self, source: Source, recording: Recording) -> str:
        """Say of which model it is, and which calls there are."""
        calls = ", ".join(call.method for call in recording.calls)
        return f"{self.read(source).name}: {calls}"

    def compile(self, source: Source, options: ModelOptions) -> FakeModel:
        """Give the model of the name asked for, that a blob holds, or that the file is named after."""
        if source.is_compiled:
            return self._model(source.path.read_text())
        return self._model(options.name or source.path.stem)

    def query(self, source: Source, device: str, properties: Properties) -> dict[str, str]:
        """Say that the device runs all of it."""
        del properties
        return {port.node_name: device for port in self.read(source).inputs}

    def check_properties(self, device: str, properties: Properties) -> Properties:
        """Take everything."""
        del device
        return properties

    def device_property(self, device: str, name: str) -> PropertyValue:
        """Give the device's name as each of its properties."""
        return f"{name} of {device}"

    def versions(self, device: str) -> dict[str, PluginVersion]:
        """Give one version for a device there is."""
        return {device: PluginVersion("fake", "0")} if device in self._devices else {}

    def _model(self, name: str) -> FakeModel:
        if name not in self._models:
            raise ServingError(Code.MODEL_FAILED, f"the fake runtime has no model '{name}'")
        return self._models[name]
