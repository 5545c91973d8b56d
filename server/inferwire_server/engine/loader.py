"""Makes the served models those of the repository: loads, reloads and unloads them while others serve.

A reload opens the new model beside the old one, changes them in one step of the loop, and lets the old one run
the jobs it has. A change runs to its end also when whoever asked for it has gone.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

import structlog

from inferwire_proto.errors import Code
from inferwire_server.core.model_states import ModelState
from inferwire_server.engine.backend import ModelOptions
from inferwire_server.engine.catalogue import Catalogue, Served
from inferwire_server.engine.models import Engine, Model
from inferwire_server.engine.repository import Entry, Fingerprint, Overrides
from inferwire_server.errors import ServingError

log = structlog.stdlib.get_logger()

T = TypeVar("T")

Found = dict[Entry, Fingerprint]


class Loader:
    """Loads and unloads versions; one change of a model at a time, and models do not wait for each other.

    Use as an async context manager: leaving it gives up changes that have not ended.
    """

    def __init__(
        self, engine: Engine, catalogue: Catalogue, scan: Callable[[Overrides], list[Entry]], options: ModelOptions
    ) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._scan = scan
        self._options = options
        self._overrides: dict[str, Mapping[str, Any]] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._changes: set[asyncio.Task[Any]] = set()

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
        found = await asyncio.to_thread(self._find)
        before = self._catalogue.statuses()
        self._catalogue.expect(found)
        names = self._catalogue.names | {entry.name for entry in found}
        await asyncio.gather(*(self._own(self._follow(name, found)) for name in names))
        return self._catalogue.statuses() != before

    async def load(self, name: str, settings: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Load a model, or load it anew beside what serves meanwhile; give back when it is ready.

        It keeps to these settings, over those it has, until it is loaded anew; if it fails, to those of before.

        Raises:
            ServingError: MODEL_NOT_FOUND if the repository has none of this name; MODEL_FAILED with the reason.
        """
        await self._own(self._load_with(name, settings))

    async def unload(self, name: str) -> None:
        """Take no more jobs for a model and free it when it has run those it has; nothing for an unknown one."""
        if name not in self._catalogue.names:
            return
        async with self._locks[name]:
            drains = [drain for served in self._catalogue.of(name) if (drain := self._retire(served))]
        await asyncio.gather(*(asyncio.shield(drain) for drain in drains))

    async def _load_with(self, name: str, settings: Mapping[str, Any]) -> None:
        before = self._overrides.get(name, {})
        self._override(name, settings)
        try:
            await self._load_anew(name)
        except ServingError:
            self._override(name, before)
            raise

    async def _load_anew(self, name: str) -> None:
        found = {entry: prints for entry, prints in (await asyncio.to_thread(self._find)).items() if entry.name == name}
        if not found:
            raise ServingError(Code.MODEL_NOT_FOUND, f"failed to load '{name}', failed to poll from model repository")
        failures = await self._follow(name, found, is_asked_for=True)
        if failures:
            raise ServingError(Code.MODEL_FAILED, "; ".join(failures))

    def _find(self) -> Found:
        return {entry: entry.fingerprint() for entry in self._scan(self._overrides)}

    def _override(self, name: str, settings: Mapping[str, Any]) -> None:
        """Lay settings over a model's own from the next scan on; one that is under way sees none of it."""
        others = {other: theirs for other, theirs in self._overrides.items() if other != name}
        self._overrides = {**others, name: settings} if settings else others

    async def _follow(self, name: str, found: Found, *, is_asked_for: bool = False) -> list[str]:
        """Make one model what was found of it, and give the sentences of what failed."""
        entries = [entry for entry in found if entry.name == name]
        async with self._locks[name]:
            due = [entry for entry in entries if is_asked_for or self._is_due(entry, found[entry])]
            results = await asyncio.gather(*(self._load(entry, found[entry]) for entry in due))
            failures = [failure for failure in results if failure]
            if failures and is_asked_for:
                return failures  # what was served is what is served
            kept = {entry.version for entry in entries}
            # What has gone serves on until something that was found does.
            if not kept or not kept.isdisjoint(self._catalogue.versions(name)):
                for served in self._catalogue.of(name):
                    if served.version not in kept:
                        self._retire(served, is_gone=True)
        return failures

    def _is_due(self, entry: Entry, fingerprint: Fingerprint) -> bool:
        served = self._catalogue.get(entry.name, entry.version)
        return served is None or served.fingerprint != fingerprint

    async def _load(self, entry: Entry, fingerprint: Fingerprint) -> str:
        """Load a version and give the sentence of its failure, if it fails."""
        served = self._catalogue.get(entry.name, entry.version)
        old = None if served is None else served.model
        current = served if served is not None and old is not None else Served(entry.name, entry.version)
        current = replace(current, fingerprint=fingerprint)
        self._catalogue.put(current)

        def warming() -> None:
            nonlocal current
            if old is None:
                current = current.become(ModelState.WARMING)
                self._catalogue.put(current)

        try:
            model = await self._open(entry, warming)
        except ServingError as error:
            log.error("model failed", model=entry.name, version=entry.version, reason=error.message)
            if old is None:
                self._catalogue.put(current.become(ModelState.FAILED, error.message))
            else:
                # It may have been unloaded as idle meanwhile, or loaded again.
                now = self._catalogue.get(entry.name, entry.version) or current
                self._catalogue.put(replace(now, reason=f"the reload failed: {error.message}"))
            return f"failed to load '{entry.name}' version {entry.version}: {error.message}"
        log.info("model ready", model=entry.name, version=entry.version, device=model.device.name, slots=model.slots)
        self._catalogue.put(current.become(ModelState.READY, model=model))
        if old is not None:
            self._start(self._engine.unload(old))
        return ""

    async def _open(self, entry: Entry, on_warming: Callable[[], None]) -> Model:
        """Open a version by its settings; whatever is wrong with one model, the others are to be served."""
        try:
            settings = await asyncio.to_thread(entry.settings)
            source = settings.source(entry.model_file())
            options = settings.options(entry.name, self._options)
            return await self._engine.load(source, options, entry.version, on_warming, self._note_change)
        except ServingError:
            raise
        except Exception as error:
            log.exception("model failed", model=entry.name, version=entry.version)
            raise ServingError(Code.MODEL_FAILED, f"{type(error).__name__}: {error}") from error

    def _note_change(self, model: Model, state: ModelState, reason: str) -> None:
        """Record that a model was unloaded as idle, or loaded again."""
        served = self._catalogue.get(model.name, model.version)
        if served is not None and served.model is model:
            self._catalogue.put(served.become(state, reason, model))

    def _retire(self, served: Served, *, is_gone: bool = False) -> asyncio.Task[None] | None:
        """Take no more jobs for a version, and give the task that waits for those it has."""
        if served.model is not None:
            draining = served.become(ModelState.DRAINING)
            self._catalogue.put(draining)
            return self._start(self._drain(draining, served.model, is_gone=is_gone))
        if is_gone:
            self._catalogue.forget(served)
        elif served.state is ModelState.FAILED:
            self._catalogue.put(served.become(ModelState.UNLOADED))
        return None

    async def _drain(self, served: Served, model: Model, *, is_gone: bool) -> None:
        await self._engine.unload(model)
        log.info("model unloaded", model=served.name, version=served.version)
        if self._catalogue.get(served.name, served.version) is not served:
            return  # it has been loaded again, or has gone from the repository
        unloaded = served.become(ModelState.UNLOADED)
        if is_gone:
            self._catalogue.forget(unloaded)
        else:
            self._catalogue.put(unloaded)

    async def _own(self, change: Coroutine[Any, Any, T]) -> T:
        return await asyncio.shield(self._start(change))

    def _start(self, change: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(change)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return task
