"""What the repository serves: every model by name and version, loaded or not, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from inferwire_proto.errors import Code
from inferwire_server.core.model_states import ModelState
from inferwire_server.engine.backend import ModelOptions, Source
from inferwire_server.engine.models import Engine, Model
from inferwire_server.engine.repository import Entry
from inferwire_server.errors import ServingError, invalid_input

log = structlog.stdlib.get_logger()


@dataclass(frozen=True, slots=True)
class Served:
    """One version of a served model."""

    name: str
    version: str
    state: ModelState = ModelState.LOADING
    reason: str = ""
    model: Model | None = None

    def become(self, state: ModelState, reason: str = "", model: Model | None = None) -> Served:
        """Give what it is next."""
        return replace(self, state=self.state.become(state), reason=reason, model=model)

    def require(self) -> Model:
        """Give the model that takes jobs.

        Raises:
            ServingError: MODEL_FAILED or MODEL_NOT_READY, by its state.
        """
        if self.model is not None:
            return self.model
        if self.state is ModelState.FAILED:
            raise ServingError(Code.MODEL_FAILED, f"failed to load '{self.name}' version {self.version}: {self.reason}")
        raise ServingError(
            Code.MODEL_NOT_READY,
            f"model '{self.name}' version {self.version} is {self.state.value}",
            retry_after_s=1.0 if self.state.is_passing else None,
        )


class Catalogue:
    """The served models. Loading one never blocks the others, nor the loop."""

    def __init__(self, engine: Engine, options: ModelOptions) -> None:
        self._engine = engine
        self._options = options
        self._served: dict[str, dict[str, Served]] = {}

    def __repr__(self) -> str:
        statuses = self.statuses()
        ready = sum(served.state is ModelState.READY for served in statuses)
        return f"<Catalogue: {ready}/{len(statuses)} versions ready>"

    @property
    def is_loaded(self) -> bool:
        """Whether nothing is being loaded."""
        return not any(served.state.is_passing for served in self.statuses())

    @property
    def has_failed(self) -> bool:
        """Whether something did not load."""
        return any(served.state is ModelState.FAILED for served in self.statuses())

    def statuses(self) -> list[Served]:
        """List every version of every model, by name, then by version."""
        return [
            versions[version] for _, versions in sorted(self._served.items()) for version in sorted(versions, key=int)
        ]

    def expect(self, entries: list[Entry]) -> None:
        """Name what is going to be loaded, so that it is known as loading from now on."""
        for entry in entries:
            self._put(Served(entry.name, entry.version))

    async def load(self, entries: list[Entry]) -> None:
        """Load versions, several at once; one that fails is recorded and leaves the others alone."""
        async with asyncio.TaskGroup() as tasks:
            for entry in entries:
                tasks.create_task(self._load(entry))

    def find(self, name: str, version: str = "") -> Served:
        """Give a version of a model: the one named, or the highest that is ready, else the highest.

        Raises:
            ServingError: MODEL_NOT_FOUND, or INVALID_INPUT for a version that is no number.
        """
        versions = self._served.get(name)
        if versions is None:
            raise ServingError(Code.MODEL_NOT_FOUND, f"Request for unknown model: '{name}' is not found")
        if not version:
            return max(versions.values(), key=lambda served: (served.state is ModelState.READY, int(served.version)))
        if not (version.isascii() and version.isdigit()):
            raise invalid_input(f"failed to get model version from specified version string '{version}'")
        found = versions.get(version.lstrip("0") or "0")
        if found is None:
            raise ServingError(
                Code.MODEL_NOT_FOUND, f"Request for unknown model: '{name}' version {version} is not found"
            )
        return found

    def versions(self, name: str) -> tuple[str, ...]:
        """Give the versions of a model that are ready, lowest first."""
        return tuple(
            served.version
            for served in sorted(self._served.get(name, {}).values(), key=lambda served: int(served.version))
            if served.state is ModelState.READY
        )

    async def _load(self, entry: Entry) -> None:
        self._put(Served(entry.name, entry.version))

        def become(state: ModelState, reason: str = "", model: Model | None = None) -> None:
            self._put(self._served[entry.name][entry.version].become(state, reason, model))

        try:
            model = await self._open(entry, lambda: become(ModelState.WARMING))
        except ServingError as error:
            log.error("model failed", model=entry.name, version=entry.version, reason=error.message)
            become(ModelState.FAILED, error.message)
        else:
            log.info(
                "model ready", model=entry.name, version=entry.version, device=model.device.name, slots=model.slots
            )
            become(ModelState.READY, model=model)

    async def _open(self, entry: Entry, on_warming: Callable[[], None]) -> Model:
        """Load a version by its settings; whatever is wrong with one model, the others are to be served."""
        try:
            settings = entry.settings()
            source = Source(entry.model_file(), reshape=settings.shapes)
            options = settings.options(entry.name, self._options)
            return await self._engine.load(source, options, entry.version, on_warming)
        except ServingError:
            raise
        except Exception as error:
            log.exception("model failed", model=entry.name, version=entry.version)
            raise ServingError(Code.MODEL_FAILED, f"{type(error).__name__}: {error}") from error

    def _put(self, served: Served) -> None:
        self._served.setdefault(served.name, {})[served.version] = served
