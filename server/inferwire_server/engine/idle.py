"""Unloads a model that has had no job for long, and loads it again for the next one.

Jobs that come meanwhile wait in the device's queue, so deadlines, cancels and the queue's bounds hold for them as
for all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import structlog

from inferwire_proto.errors import Code
from inferwire_server.call_threads import CallThreads
from inferwire_server.core.scheduling.job import Job
from inferwire_server.core.specs import ModelSpec
from inferwire_server.engine.models import Model
from inferwire_server.engine.opening import Opened
from inferwire_server.errors import ServingError

log = structlog.stdlib.get_logger()

OnEnd = Callable[[Job], Any]


class Keeper(Protocol):
    """The component that loaded a model. It says whether the model may be unloaded, and is told when it was."""

    async def may_unload(self, model: Model) -> bool:
        """Tell whether the same model can be loaded again."""
        ...

    def unloaded(self, model: Model, reason: str) -> None:
        """Record that the model is unloaded until its next job, or still is as loading it again failed, and why."""
        ...

    def loaded_again(self, model: Model) -> None:
        """Record that the model is loaded again."""
        ...


class Idleness:
    """Watches one model: unloads it when it has had no job for `limit_s`, and loads it again for the next job.

    `reopen` compiles the model again, on one of the `threads`. It is unloaded only if its keeper says that it may be.
    """

    def __init__(
        self,
        model: Model,
        limit_s: float,
        reopen: Callable[[], Opened],
        threads: CallThreads,
        keeper: Keeper,
    ) -> None:
        self._model = model
        self._limit_s = limit_s
        self._reopen = reopen
        self._threads = threads
        self._keeper = keeper
        self._loop = asyncio.get_running_loop()
        self._used_at = self._loop.time()
        self._timer: asyncio.Handle | None = self._loop.call_later(limit_s, self._look)
        self._unloading: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None
        self._has_ended = False

    def __repr__(self) -> str:
        state = "loaded" if self._model.is_loaded else "unloaded"
        return f"<Idleness of {self._model.name}: {state}, at most {self._limit_s:g} s>"

    def until_end(self, on_end: OnEnd) -> OnEnd:
        """Make a job's end count as a use of the model, too."""

        def use_and_tell(job: Job) -> None:
            self._used_at = self._loop.time()
            on_end(job)

        return use_and_tell

    def use(self) -> None:
        """Record that a job waits for the model, which is loaded if it has to be."""
        self._used_at = self._loop.time()
        if not self._model.is_loaded and self._loading is None:
            self._loading = self._loop.create_task(self._load_again())

    def end(self) -> None:
        """Stop watching. A load that is under way goes on: jobs wait for it."""
        self._has_ended = True
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        """Stop watching, and give up a load that is under way."""
        self.end()
        for task in (self._unloading, self._loading):
            if task is not None:
                task.cancel()

    def _look(self) -> None:
        if self._left_s > 0:
            self._look_again()
        else:
            self._unloading = self._loop.create_task(self._unload())

    @property
    def _left_s(self) -> float:
        return self._used_at + self._limit_s - self._loop.time()

    def _look_again(self) -> None:
        left_s = self._left_s
        self._timer = self._loop.call_later(left_s if left_s > 0 else self._limit_s, self._look)

    async def _unload(self) -> None:
        try:
            may_unload = await self._keeper.may_unload(self._model)
        except Exception:
            # Look again later: otherwise the model would stay loaded for ever.
            log.exception("idle model not looked at", model=self._model.name, version=self._model.version)
            may_unload = False
        finally:
            self._unloading = None
        if self._has_ended:
            return
        if self._left_s > 0 or not may_unload or not self._model.device.unload_if_idle(self._model):
            self._look_again()
            return
        self._timer = None
        log.info("model unloaded", model=self._model.name, version=self._model.version, idle_s=self._limit_s)
        self._keeper.unloaded(self._model, f"no job for {self._limit_s:g} s; the next one loads it again")

    async def _load_again(self) -> None:
        opened = await self._opened_or_why_not()
        # First: whoever is told of an end may submit a job, for which the model is loaded once more.
        self._loading = None
        if isinstance(opened, Opened):
            self._take(opened)
        else:
            self._stay_unloaded(opened)

    async def _opened_or_why_not(self) -> Opened | str:
        try:
            return await self._threads.run(self._reopen_alike)
        except ServingError as error:
            return error.message
        except Exception as error:
            log.exception("model failed", model=self._model.name, version=self._model.version)
            return f"{type(error).__name__}: {error}"

    def _reopen_alike(self) -> Opened:
        opened = self._reopen()
        if not _is_alike(opened.compiled.spec, self._model.spec):
            opened.free()
            raise ServingError(
                Code.MODEL_FAILED, "its files have other inputs, outputs or states now, expected a reload that says so"
            )
        return opened

    def _take(self, opened: Opened) -> None:
        if self._model not in self._model.device.models:
            # The model was unloaded for good meanwhile: no job waits for it any more.
            self._model.device.freeing.begin(opened)
            return
        self._used_at = self._loop.time()
        if not self._has_ended:
            self._timer = self._loop.call_later(self._limit_s, self._look)
        log.info("model ready", model=self._model.name, version=self._model.version, slots=len(opened.slots))
        self._keeper.loaded_again(self._model)
        self._model.open(opened)

    def _stay_unloaded(self, reason: str) -> None:
        log.error("model failed", model=self._model.name, version=self._model.version, reason=reason)
        self._keeper.unloaded(self._model, f"it could not be loaded again: {reason}; the next job tries it")
        if self._model in self._model.device.models:
            error = ServingError(Code.MODEL_FAILED, f"failed to load '{self._model.name}' again: {reason}")
            self._model.device.end_waiting(self._model, error)


def _is_alike(one: ModelSpec, other: ModelSpec) -> bool:
    """Tell whether one model can answer the callers of the other. States have names and no order."""
    return (one.signature, set(one.states)) == (other.signature, set(other.states))
