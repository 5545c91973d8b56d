"""A compiled model that takes jobs, loaded or not."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field

from inferwire_proto.errors import Code
from inferwire_proto.properties import Properties
from inferwire_server.core.model_options import ModelOptions
from inferwire_server.core.scheduling.job import Job
from inferwire_server.core.scheduling.lane import Terms
from inferwire_server.core.specs import ModelSpec
from inferwire_server.engine.backend import CompiledModel
from inferwire_server.engine.device import Device
from inferwire_server.engine.opening import Opened
from inferwire_server.errors import ServingError, bug


@dataclass(eq=False)
class Model:
    """A compiled model that takes jobs. It is its own key: two loads of one file are two models.

    A model that is unloaded while idle still takes jobs: they wait until it is loaded again. `spec` stays known even
    after the model was unloaded for good, because its jobs may be kept for long.

    Attributes:
        slots: How many of its inferences run at once.
        options: What was asked of it: by settings, flags, and the client that compiled it.
        terms: What its jobs are scheduled by.
        spec: What it takes and gives.
        properties: Its readable properties.
        optimal_requests: How many inferences its devices compute at once.
        execution_devices: The physical devices it runs on.
    """

    compiled_first: InitVar[CompiledModel]
    device: Device
    slots: int
    options: ModelOptions
    version: str = ""
    terms: Terms = field(init=False)
    spec: ModelSpec = field(init=False)
    properties: Properties = field(init=False)
    optimal_requests: int = field(init=False)
    execution_devices: tuple[str, ...] = field(init=False)

    def __post_init__(self, compiled_first: CompiledModel) -> None:
        self._describe(compiled_first)
        options = self.options
        self.terms = Terms(options.weight, options.batching, options.binding if self.spec.states else None)

    @property
    def name(self) -> str:
        """What its callers call it."""
        return self.spec.name

    @property
    def is_loaded(self) -> bool:
        """Whether it is loaded."""
        return self.device.opened(self) is not None

    @property
    def compiled(self) -> CompiledModel:
        """What runs it.

        Raises:
            ServingError: MODEL_NOT_READY while it is unloaded.
        """
        opened = self.device.opened(self)
        if opened is None:
            raise ServingError(
                Code.MODEL_NOT_READY, f"model '{self.name}' is unloaded until its next job: run an inference first"
            )
        return opened.compiled

    def open(self, opened: Opened) -> None:
        """Run in `opened` from now on, after the model was unloaded while idle."""
        self._describe(opened.compiled)
        self.device.open(self, opened)

    def _describe(self, compiled: CompiledModel) -> None:
        self.spec, self.properties = compiled.spec, compiled.properties
        self.optimal_requests, self.execution_devices = compiled.optimal_requests, compiled.devices

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        version = f" version {self.version}" if self.version else ""
        return f"<Model {self.name}{version} on {self.device.name}: {self.slots} slots>"


def model_of(job: Job) -> Model:
    """Give the model of a job, which to the core is a key of any type."""
    if not isinstance(job.model, Model):
        raise bug(f"{job!r} is of no model of an engine")
    return job.model
