"""What a model is read from, and how it is compiled, warmed up and scheduled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inferwire_proto.added_outputs import AddedOutput
from inferwire_proto.port_names import PortNames
from inferwire_proto.preprocessing import Call
from inferwire_proto.properties import Properties, PropertyValue
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.scheduling.bindings import BindingTerms
from inferwire_server.core.specs import Dimension, Shape
from inferwire_server.core.stated_ports import StatedPorts


@dataclass(frozen=True)
class Preprocessing:
    """What is built into a model before it is compiled.

    Attributes:
        calls: The calls on OpenVINO's PrePostProcessor, in order.
        reshape: New shapes of the inputs that the model has after these calls.
        setting: The path of the setting that asks for it; empty if none does.
        added_outputs: The outputs that the model gives after its own.
        names: What the model's inputs and outputs are called after that; `reshape` is by these names.
        reshape_positions: New shapes of inputs that no name tells apart, by position.
    """

    calls: tuple[Call, ...] = ()
    reshape: Mapping[str, Shape] = field(default_factory=dict[str, Shape])
    setting: tuple[str, ...] = ()
    added_outputs: tuple[AddedOutput, ...] = ()
    names: tuple[PortNames, ...] = ()
    reshape_positions: Mapping[int, Shape] = field(default_factory=dict[int, Shape])


@dataclass(frozen=True)
class Source:
    """Where a model is read from, and what is done to it then: new shapes first.

    A file that `is_compiled` is what `CompiledModel.export` once gave. A shape or the preprocessing of "" is that of
    the only input. `free` names inputs that take every length, with "" for all. `batch` is the length of every input's
    batch dimension. `stated` is what a configuration says of its ports and states. With `by_settings`, all this comes
    from the operator's settings, and not from a caller.
    """

    path: Path
    reshape: dict[str, Shape] = field(default_factory=dict[str, Shape])
    is_compiled: bool = False
    preprocessing: tuple[Preprocessing, ...] = ()
    batch: Dimension | None = None
    free: frozenset[str] = frozenset()
    stated: StatedPorts | None = None
    by_settings: bool = False


@dataclass(frozen=True, slots=True)
class Pictures:
    """How encoded pictures become the pixels that an input takes.

    Attributes:
        resize: The algorithm that makes them as large as the input; None if pictures have to be as large already.
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
        time_limit_s: How long jobs that name no limit may take, from arrival to end; None for any time.
        warm_up: Shapes of the zeros it runs before it takes jobs; None for no such run.
        weight: Its share of the device against other models that wait: twice the weight, twice the time.
        batching: How its jobs may run together; None for never.
        labels: The names of its classes.
        label_file: The file that they are from.
        idle_unload_s: After how long without a job it is unloaded, until the next; None for never.
        binding: How callers share it if it keeps states.
        pictures: The inputs that take encoded pictures, by name.
    """

    name: str
    device: str = "AUTO"
    properties: Properties = field(default_factory=dict[str, PropertyValue])
    slots: int | None = None
    priority: int = 0
    time_limit_s: float | None = None
    warm_up: Mapping[str, tuple[int, ...]] | None = None
    weight: float = 1.0
    batching: Batching | None = None
    labels: tuple[str, ...] = ()
    label_file: str = ""
    idle_unload_s: float | None = None
    binding: BindingTerms = field(default_factory=BindingTerms)
    pictures: Mapping[str, Pictures] = field(default_factory=dict[str, Pictures])
