"""Models: those that the repository serves, and which model a call is for.

Transports take `Model` and `Served` from here, because they know neither engine nor repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from inferwire_proto.errors import Code
from inferwire_server.call_threads import CallThreads
from inferwire_server.core.layers import LayerTime, ModelGraph
from inferwire_server.core.scheduling.job import Job
from inferwire_server.engine.backend import CompiledModel
from inferwire_server.engine.models import Model, model_of
from inferwire_server.errors import ServingError
from inferwire_server.repository.catalogue import Catalogue, Served
from inferwire_server.repository.loader import Loader
from inferwire_server.service.forbidden_properties import refuse_forbidden
from inferwire_server.service.uploads import UploadService
from inferwire_server.service.values import ServedModel, Target

__all__ = ["Model", "ModelControl", "ModelService", "Served"]


@dataclass(frozen=True, slots=True)
class ModelControl:
    """What loads and unloads models, and whether callers may ask it to.

    Attributes:
        is_watching: Whether it follows the repository by itself.
    """

    loader: Loader
    is_allowed: bool
    is_watching: bool


class ModelService:
    """Finds models, and loads and unloads those of the repository."""

    def __init__(
        self,
        catalogue: Catalogue,
        uploads: UploadService,
        control: ModelControl,
        reading: CallThreads,
        *,
        allows_exports: bool,
    ) -> None:
        self._catalogue = catalogue
        self._uploads = uploads
        self._control = control
        self._reading = reading
        self._allows_exports = allows_exports
        self._stateful: frozenset[str] | None = None
        catalogue.subscribe(self._has_changed)

    def __repr__(self) -> str:
        return f"<ModelService: {self._catalogue!r}, {self._uploads!r}>"

    def find(self, name: str, version: str = "") -> Served:
        """Give a served model, ready or not.

        Raises:
            ServingError: MODEL_NOT_FOUND, or INVALID_INPUT for a version that is no number.
        """
        return self._catalogue.find(name, version)

    def ready(self, name: str) -> Model | None:
        """Give the current version of a served model, if there is one that takes jobs."""
        current = self._catalogue.current(name)
        return current and current.model

    @property
    def stateful(self) -> frozenset[str]:
        """The names of the served models that take jobs and keep states."""
        if self._stateful is None:
            models = [served.model for served in self._catalogue.statuses() if served.model is not None]
            self._stateful = frozenset(model.name for model in models if model.spec.states)
        return self._stateful

    def versions(self, name: str) -> tuple[str, ...]:
        """Give the versions of a model that take jobs, lowest first."""
        return self._catalogue.versions(name)

    def statuses(self) -> list[Served]:
        """List every version of every served model."""
        return self._catalogue.statuses()

    def resolve(self, target: Target) -> Model:
        """Give the model an inference runs on.

        Raises:
            ServingError: If there is none that takes jobs and is the caller's to use.
        """
        if isinstance(target, ServedModel):
            return self._catalogue.find(target.name, target.version).require()
        return self._uploads.resolve(target)

    async def layers(self, target: Target) -> tuple[LayerTime, ...]:
        """List the layers of a model.

        Raises:
            ServingError: As `resolve`.
        """
        return await self._reading.run(self.resolve(target).compiled.layers)

    async def export(self, target: Target) -> bytes:
        """Give a model as a blob: one that the caller compiled, or where that is allowed a served one.

        Raises:
            ServingError: PERMISSION_DENIED, MODEL_FAILED with the runtime's reason, or as `resolve`.
        """
        return await self._reading.run(self._exportable(target).export)

    async def runtime_model(self, target: Target) -> ModelGraph:
        """Describe the graph that a model's device runs: only of what the caller may export.

        Raises:
            ServingError: As `export`.
        """
        return await self._reading.run(self._exportable(target).runtime_model)

    def of(self, job: Job) -> Model:
        """Give the model a job was submitted to."""
        return model_of(job)

    async def load(self, name: str, settings: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Load a model of the repository, or load it anew without losing a request.

        The settings are as its `inferwire.toml` would say them, and override it until the model is loaded anew.

        Raises:
            ServingError: PERMISSION_DENIED, also for a property that is the operator's; MODEL_NOT_FOUND; or
                MODEL_FAILED with the reason. The versions that served before serve on.
        """
        loader = self._loader()
        refuse_forbidden(settings.get("properties", {}))
        await loader.load(name, settings)

    def brought(self, name: str) -> Mapping[str, Any]:
        """Give the settings that the last load of a model has brought."""
        return self._control.loader.brought(name)

    async def unload(self, name: str) -> None:
        """Unload a model when it has run the jobs it has; do nothing for one that is not known.

        Raises:
            ServingError: PERMISSION_DENIED.
        """
        await self._loader().unload(name)

    async def sync(self) -> bool:
        """Make the served models those of the repository as it is now, and give whether anything changed.

        Raises:
            ServingError: PERMISSION_DENIED, or INVALID_INPUT if the repository or the configuration cannot be read.
        """
        return await self._loader().sync()

    def _has_changed(self) -> None:
        self._stateful = None

    def _exportable(self, target: Target) -> CompiledModel:
        model = self.resolve(target)
        if isinstance(target, ServedModel) and not self._allows_exports:
            raise ServingError(
                Code.PERMISSION_DENIED,
                f"served models, as '{target.name}', do not give away what is in them: their graph and weights; "
                "start the server with --allow-exports to allow it",
            )
        return model.compiled

    def _loader(self) -> Loader:
        control = self._control
        if not control.is_allowed:
            # The sentence that clients know. Their word for a server that watches its repository is polling.
            polling = " if polling is enabled" if control.is_watching else ""
            raise ServingError(
                Code.PERMISSION_DENIED,
                f"explicit model load / unload is not allowed{polling}; "
                "start the server with --allow-model-control to allow it",
            )
        return control.loader
