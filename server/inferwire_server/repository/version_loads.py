"""Opens versions of models beside what serves, and records in the catalogue what becomes of them.

The loader decides when a model may be changed, and what happens to the model that served before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

import structlog

from inferwire_proto.errors import Code
from inferwire_server.core.batch_options import BatchOptions
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.engine.engine import Engine
from inferwire_server.engine.models import Model
from inferwire_server.errors import ServingError, UnfitSetting
from inferwire_server.repository.catalogue import Catalogue, Served
from inferwire_server.repository.entries import Entry, Fingerprint

log = structlog.stdlib.get_logger()


class VersionLoads:
    """The loads of versions, each of which ends with `serve` or `note_failure`."""

    def __init__(self, engine: Engine, catalogue: Catalogue, options: ModelOptions, batches: BatchOptions) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._options = options
        self._batches = batches

    async def open(self, entry: Entry) -> Model | ServingError:
        """Open a version beside what serves, or give the error with which it fails."""
        self._note_loading(entry)
        try:
            return await self._compile(entry)
        except ServingError as error:
            log.error(self._failure(entry), model=entry.name, version=entry.version, reason=error.message)
            return error

    async def open_all(self, entries: Collection[Entry]) -> tuple[dict[Entry, Model], dict[Entry, str]]:
        """Open versions at once, and give the models, and the reasons of those that failed."""
        outcomes = dict(zip(entries, await asyncio.gather(*map(self.open, entries)), strict=True))
        models = {entry: outcome for entry, outcome in outcomes.items() if isinstance(outcome, Model)}
        failures = {entry: outcome.message for entry, outcome in outcomes.items() if isinstance(outcome, ServingError)}
        return models, failures

    def serve(self, entry: Entry, model: Model, fingerprint: Fingerprint) -> Model | None:
        """Let a model take the jobs of its version, and give the one that took them before."""
        served = self._known(entry)
        self._catalogue.put(served.serves(model, fingerprint))
        log.info("model ready", model=entry.name, version=entry.version, device=model.device.name, slots=model.slots)
        return served.model

    def note_failure(self, entry: Entry, reason: str, fingerprint: Fingerprint | None = None) -> None:
        """Record why a version was not loaded: it has failed, or what serves goes on serving.

        With the fingerprint of its files it is not due again until they change.
        """
        self._catalogue.put(self._known(entry).fails(reason, fingerprint))

    async def _compile(self, entry: Entry) -> Model:
        """Compile a version by its settings. Any error is turned into this version's, so that others are served."""
        try:
            source, options = await asyncio.to_thread(self._read, entry)
            on_warming = partial(self._note_warming, entry)
            keeper = _Keeper(entry, self._catalogue)
            return await self._engine.load(source, options, entry.version, on_warming, keeper)
        except UnfitSetting as unfit:
            raise await asyncio.to_thread(entry.why_unfit, unfit, self._options) from unfit
        except ServingError:
            raise
        except Exception as error:
            log.exception(self._failure(entry), model=entry.name, version=entry.version)
            raise ServingError(Code.MODEL_FAILED, f"{type(error).__name__}: {error}") from error

    def _failure(self, entry: Entry) -> str:
        """Say in the log what it means that a version was not loaded: whether its callers are served."""
        served = self._catalogue.get(entry.name, entry.version)
        is_served = served is not None and served.takes_jobs
        return "reload failed, the model from before serves on" if is_served else "model failed"

    def _read(self, entry: Entry) -> tuple[Source, ModelOptions]:
        """Read what is to be compiled, and how: its folder may lie on a slow file system."""
        settings, name = entry.settings(), entry.name
        if settings.unused:
            log.info("fields without effect", model=name, version=entry.version, fields=settings.unused)
        source = settings.source(entry.model_file(settings.file))
        return source, settings.options(name, self._options, self._batches)

    def _known(self, entry: Entry) -> Served:
        """Give what is known of a version that is being loaded: it may have been unloaded as idle meanwhile."""
        return self._catalogue.find(entry.name, entry.version)

    def _note_loading(self, entry: Entry) -> None:
        """Record that a version is being loaded."""
        served = self._catalogue.get(entry.name, entry.version) or Served(entry.name, entry.version)
        self._catalogue.put(served.begins())

    def _note_warming(self, entry: Entry) -> None:
        self._catalogue.put(self._known(entry).warms())


@dataclass(frozen=True, slots=True)
class _Keeper:
    """Answers for a version that may be unloaded as idle."""

    entry: Entry
    catalogue: Catalogue

    async def may_unload(self, model: Model) -> bool:
        """Tell whether its files are still those that it was loaded from: changed files may fail to load."""
        try:
            files = await asyncio.to_thread(self.entry.fingerprint)
        except OSError:
            return False
        served = self._served(model)
        return served is not None and not served.reload_failed and served.loaded_from == files

    def unloaded(self, model: Model, reason: str) -> None:
        """Record that it was unloaded as idle, or is still."""
        if (served := self._served(model)) is not None:
            self.catalogue.put(served.unloads_as_idle(reason))

    def loaded_again(self, model: Model) -> None:
        """Record that it was loaded again."""
        if (served := self._served(model)) is not None:
            self.catalogue.put(served.loads_again())

    def _served(self, model: Model) -> Served | None:
        """Give what is known of the version, unless another model takes its jobs."""
        served = self.catalogue.get(self.entry.name, self.entry.version)
        return served if served is not None and served.model is model else None
