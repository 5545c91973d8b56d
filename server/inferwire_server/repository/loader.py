"""Makes the served models those of the repository: loads, reloads and unloads them while others serve.

A reload opens the new model beside the old one, changes them in one step of the loop, and lets the old one run
the jobs it has. A reload that a caller asks for changes all versions of a model, or none. A change runs to its end
even if the caller that asked for it is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import structlog

from inferwire_proto.errors import Code
from inferwire_server.core.batch_options import BatchOptions
from inferwire_server.core.model_options import ModelOptions
from inferwire_server.core.version_states import VersionState
from inferwire_server.engine.engine import Engine
from inferwire_server.engine.models import Model
from inferwire_server.errors import ServingError, is_lack_of_files
from inferwire_server.repository.catalogue import Catalogue, Served
from inferwire_server.repository.entries import Entry, Fingerprint
from inferwire_server.repository.listing import Overrides
from inferwire_server.repository.version_loads import VersionLoads
from inferwire_server.to_the_end import to_the_end

log = structlog.stdlib.get_logger()

T = TypeVar("T")

Found = dict[Entry, Fingerprint]

_NO_BATCHES = BatchOptions()

_FOR_THE_REST_S = 5.0
"""How long a version that serves waits for the rest of its files after only some have changed."""


async def _for_the_rest() -> None:
    await asyncio.sleep(_FOR_THE_REST_S)


class Loader:
    """Loads and unloads versions; one change of a model at a time, and models do not wait for each other.

    Use as an async context manager: leaving it gives up changes that have not ended. What models do not set themselves
    is set by `options`, and for batching by `batches`.

    Attributes:
        is_readable: Whether all of the repository could be read when it was last looked at.
    """

    def __init__(
        self,
        engine: Engine,
        catalogue: Catalogue,
        scan: Callable[[Overrides, str | None], list[Entry]],
        options: ModelOptions,
        batches: BatchOptions = _NO_BATCHES,
    ) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._scan = scan
        self._loads = VersionLoads(engine, catalogue, options, batches)
        self._overrides: Overrides = {}
        self.is_readable = True
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._changes: set[asyncio.Task[Any]] = set()
        self._unloads: dict[asyncio.Task[None], str] = {}

    async def __aenter__(self) -> Loader:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for change in self._changes:
            change.cancel()
        await asyncio.gather(*self._changes, return_exceptions=True)

    def __repr__(self) -> str:
        return f"<Loader: {len(self._changes)} changes>"

    async def sync(self) -> bool:
        """Load what is new or has changed in the repository, then unload what has gone; failures are recorded.

        Give whether anything did change.

        Raises:
            ServingError: INVALID_INPUT if the repository is not there.
        """
        before = self._catalogue.statuses()
        await self._follow_all()
        return self._catalogue.statuses() != before

    async def follow(self, wait: Callable[[], Awaitable[object]] = _for_the_rest) -> None:
        """Do as `sync` while files are being replaced: a graph and its weights may not be replaced at the same time.

        A version that serves, and of which only some files have changed, serves on until they stay as they are for a
        while, or all have changed.

        Raises:
            ServingError: INVALID_INPUT if the repository is not there.
        """
        waiting: Found = {}
        while waiting := await self._follow_all(waiting):
            await wait()

    async def load(self, name: str, settings: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Load a model, or load it anew while the old one serves; return when it is ready.

        These settings lie over its own until its next load. If this load fails, those of the load before stay.

        Raises:
            ServingError: MODEL_NOT_FOUND if the repository has none of this name; MODEL_FAILED with the reason: what
                served before then serves on.
        """
        await self._own(self._load_anew(name, settings))

    def brought(self, name: str) -> Mapping[str, Any]:
        """Give the settings that the last load of a model has brought, which lie over its own."""
        return self._overrides.get(name, {})

    async def unload(self, name: str) -> None:
        """Take no more jobs for a model and free it when it has run those it has; do nothing for an unknown one.

        This also waits for jobs that it took before a reload or another unload.
        """
        await self._own(self._unload(name))

    async def _unload(self, name: str) -> None:
        async with self._lock(name):
            for served in self._catalogue.of(name):
                self._unload_version(served)
            unloads = [unload for unload, unloading in self._unloads.items() if unloading == name]
        await asyncio.gather(*unloads)

    async def _load_anew(self, name: str, settings: Mapping[str, Any]) -> None:
        async with self._lock(name):
            found = await asyncio.to_thread(self._find, self._overridden(name, settings), name)
            if not found:
                raise ServingError(
                    Code.MODEL_NOT_FOUND, f"failed to load '{name}', failed to poll from model repository"
                )
            models, failures = await self._loads.open_all(found)
            if failures:
                await self._give_up(models, failures)
                raise ServingError(Code.MODEL_FAILED, "; ".join(_failed(entry, failures[entry]) for entry in failures))
            self._overrides = self._overridden(name, settings)
            for entry, model in models.items():
                self._serve(entry, model, found[entry])
            self._unload_others(name, found)

    async def _follow_all(self, waited: Found | None = None) -> Found:
        """Look at the repository, load and unload versions, and give those that wait for the rest of their files.

        Versions that have `waited` with the files that they have now wait no more. Without `waited`, none waits.
        """
        while True:
            tried = {name: self._catalogue.tried(name) for name in self._catalogue.names}
            found = await self._find_all()
            self._catalogue.expect(found)
            waiting = {} if waited is None else self._partly_other(found, waited)
            of_names: dict[str, Found] = {name: {} for name in self._catalogue.names}
            for entry, fingerprint in found.items():
                of_names[entry.name][entry] = fingerprint
            follows = [
                self._own(self._follow(name, theirs, tried.get(name, {}), waiting)) for name, theirs in of_names.items()
            ]
            if all(await asyncio.gather(*follows)):
                return waiting
            # A load has changed something since that look: look again, at all models at once.

    async def _follow(
        self, name: str, found: Found, tried: Mapping[str, Fingerprint], waiting: Collection[Entry]
    ) -> bool:
        """Load and unload versions of a model as they were found; `tried` are the fingerprints from before that.

        If a load has come in between, which this would undo, do nothing and give False.
        """
        async with self._lock(name):
            if self._catalogue.tried(name) != tried:
                return False
            due = [entry for entry in found if self._is_due(entry, found[entry]) and entry not in waiting]
            await asyncio.gather(*(self._load(entry, found[entry]) for entry in due))
            self._unload_others(name, found)
            return True

    def _lock(self, name: str) -> asyncio.Lock:
        """Give the lock that is held while a model changes. It exists as long as a task holds it or waits for it."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def _find_all(self) -> Found:
        """Look at all versions of the repository, and record whether that could be done."""
        try:
            found = await asyncio.to_thread(self._find, self._overrides)
        except Exception:
            self.is_readable = False
            raise
        self.is_readable = True
        return found

    def _find(self, overrides: Overrides, name: str | None = None) -> Found:
        """Look at all versions of the repository, or at those of one model.

        Raises:
            ServingError: INVALID_INPUT if the repository is not there, or cannot be read for the moment.
            OSError: If no more files can be opened.
        """
        try:
            return {entry: entry.fingerprint() for entry in self._scan(overrides, name)}
        except OSError as error:
            if is_lack_of_files(error):
                raise
            raise ServingError(Code.INVALID_INPUT, f"the model repository cannot be read: {error}") from error

    def _overridden(self, name: str, settings: Mapping[str, Any]) -> Overrides:
        """Give the overrides with these settings for a model, in place of those that it had."""
        others = {other: theirs for other, theirs in self._overrides.items() if other != name}
        return {**others, name: settings} if settings else others

    def _is_due(self, entry: Entry, fingerprint: Fingerprint) -> bool:
        served = self._catalogue.get(entry.name, entry.version)
        return served is None or served.tried != fingerprint

    def _partly_other(self, found: Found, known: Found) -> Found:
        """Give the versions that serve and of which only some files have changed, without those that are as `known`."""
        return {
            entry: fingerprint
            for entry, fingerprint in found.items()
            if (served := self._catalogue.get(entry.name, entry.version)) is not None
            and served.loaded_from is not None
            and served.tried != fingerprint
            and entry.is_partly_other(served.loaded_from, fingerprint)
            and known.get(entry) != fingerprint
        }

    async def _load(self, entry: Entry, fingerprint: Fingerprint) -> None:
        """Load a version; if it fails, it is tried again once its files have changed."""
        outcome = await self._loads.open(entry)
        if isinstance(outcome, Model):
            self._serve(entry, outcome, fingerprint)
        else:
            self._loads.note_failure(entry, outcome.message, fingerprint)

    async def _give_up(self, models: Mapping[Entry, Model], failures: Mapping[Entry, str]) -> None:
        """Free the versions that were opened beside failed ones, and record for each version why it is not served."""
        reason = "; ".join(f"version {entry.version} failed: {failures[entry]}" for entry in failures)
        for entry in models:
            self._loads.note_failure(entry, reason)
        for entry in failures:
            self._loads.note_failure(entry, failures[entry])
        await asyncio.gather(*map(self._engine.unload, models.values()))

    def _serve(self, entry: Entry, model: Model, fingerprint: Fingerprint) -> None:
        """Let a model take the jobs of its version; the model before it runs those that it has."""
        before = self._loads.serve(entry, model, fingerprint)
        if before is not None:
            self._begin_unload(entry.name, self._engine.unload(before))

    def _unload_others(self, name: str, found: Collection[Entry]) -> None:
        """Unload the versions of a model that were not found; those that serve only once a version that was found does.

        If the model's folder cannot be read, its versions are not known, and those that serve go on.
        """
        kept = {entry.version for entry in found}
        is_known = not any(entry.obstacle for entry in found)
        is_replaced = not kept or (is_known and not kept.isdisjoint(self._catalogue.versions(name)))
        for served in self._catalogue.of(name):
            if served.version not in kept and (is_replaced or not served.takes_jobs):
                self._unload_version(served, is_gone=True)

    def _unload_version(self, served: Served, *, is_gone: bool = False) -> None:
        """Take no more jobs for a version, and let it run those it has."""
        if served.model is not None:
            draining = served.drains(is_gone=is_gone)
            self._catalogue.put(draining)
            self._begin_unload(served.name, self._unload_drained(draining, served.model))
        elif is_gone and not served.is_gone:
            self._catalogue.forget(served)
        elif served.state is VersionState.FAILED:
            self._catalogue.put(served.unloads())

    async def _unload_drained(self, served: Served, model: Model) -> None:
        """Wait until a version that takes no more jobs is unloaded, and record that."""
        await self._engine.unload(model)
        log.info("model unloaded", model=served.name, version=served.version)
        if self._catalogue.get(served.name, served.version) is not served:
            return  # it has been loaded again, or has gone from the repository
        if served.is_gone:
            self._catalogue.forget(served)
        else:
            self._catalogue.put(served.unloads())

    def _begin_unload(self, name: str, unload: Coroutine[Any, Any, None]) -> None:
        """Start unloading in the background what a model of this name ran in; an unload of the name waits for it."""
        task = self._start(unload)
        self._unloads[task] = name
        task.add_done_callback(self._unloads.pop)

    async def _own(self, change: Coroutine[Any, Any, T]) -> T:
        return await to_the_end(self._start(change))

    def _start(self, change: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(change)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return task


def _failed(entry: Entry, reason: str) -> str:
    return f"failed to load '{entry.name}' version {entry.version}: {reason}"
