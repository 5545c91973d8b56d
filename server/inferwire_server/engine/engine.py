"""The engine: its devices, the models on them, and their jobs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from time import monotonic
from typing import Any, NamedTuple, Protocol

from inferwire_server.call_threads import CallThreads
from inferwire_server.core.callers import Caller
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.bindings import Binding
from inferwire_server.core.scheduling.job import FINISHED, Job, Work
from inferwire_server.core.scheduling.outlet import Outlet
from inferwire_server.core.scheduling.scheduler import Scheduler
from inferwire_server.core.scheduling.tally import TallyOf
from inferwire_server.engine.backend import Backend
from inferwire_server.engine.device import Device
from inferwire_server.engine.idle import Idleness, Keeper
from inferwire_server.engine.models import Model, model_of
from inferwire_server.engine.opening import Opened, open_model
from inferwire_server.errors import ServingError, shutting_down

AT_ONCE = min(32, (os.cpu_count() or 1) + 4)
"""How many served models are opened at once: each opening computes on several cores, and takes memory for a while."""

CLIENTS_AT_ONCE = AT_ONCE // 2
"""How many models of clients are compiled at once, and how many are read."""

CLOSE_S = 5.0
"""How long a closing engine waits for cancelled inferences and for models that are being opened.

Most inferences stop at their next layer, and most models are open soon. Some calls never end.
"""


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """How every device queues.

    Attributes:
        capacity: How many executions may wait.
        places: How many inferences run at once; None for as many as the model with the most slots has.
        most_bytes: How many bytes the inputs of waiting executions may take.
    """

    capacity: int = 256
    places: int | None = None
    most_bytes: float = inf


class Submission(NamedTuple):
    """What becomes a job: what to run, how to schedule it, when its request was read (if known), and for whom.

    Attributes:
        outlet: Where the answer goes out.
    """

    work: Work
    priority: int = 0
    timeout_s: float | None = None
    binding: Binding | None = None
    received_at: float | None = None
    caller: Caller | None = None
    outlet: Outlet | None = None


class Trace(Protocol):
    """The trace that an inference is part of."""

    def end(self, job: Job) -> None:
        """Record a job that has ended."""
        ...

    def refuse(self, model: Model, submission: Submission, error: ServingError) -> None:
        """Record that a job was not admitted."""
        ...


class Engine:
    """The devices and the models on them. Lives on one event loop.

    Use as an async context manager: leaving it cancels what still runs, and lets go of every model without waiting
    until it is freed. `current_trace` is called when an inference is submitted, and gives the trace that records it.
    Calls that may take minutes have threads of their own, some for each kind of call, so that no call waits for calls
    of another kind.

    Attributes:
        opening: The threads that open served models.
        compiling: The threads that compile or import models of clients.
        reading: The threads that read models of clients, or ask the runtime about them.
        stuck: How many models had an inference that did not stop when the engine closed, or were still being opened.
    """

    def __init__(
        self,
        backend: Backend,
        queue: QueueOptions,
        tally_of: TallyOf,
        clock: Callable[[], float] = monotonic,
        current_trace: Callable[[], Trace] | None = None,
    ) -> None:
        self.backend = backend
        self.opening = CallThreads(AT_ONCE, "open")
        self.compiling = CallThreads(CLIENTS_AT_ONCE, "compile")
        self.reading = CallThreads(CLIENTS_AT_ONCE, "read")
        self._queue = queue
        self._tally_of = tally_of
        self._clock = clock
        self._current_trace = current_trace
        self._devices: dict[str, Device] = {}
        self._models: set[Model] = set()
        self._idleness: dict[Model, Idleness] = {}
        self.stuck = 0

    async def __aenter__(self) -> Engine:
        for name in await asyncio.to_thread(self.backend.devices):
            self._device(name)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        error = shutting_down()
        self._models.clear()
        for idleness in self._idleness.values():
            idleness.close()
        for device in self.devices:
            device.freeing.let_nobody_wait()
        leaving = [device.remove_model(model, error) for device in self.devices for model in device.models]
        for device in self.devices:
            device.cancel_all(error)
        still_opening, _ = await asyncio.gather(_closed(self.opening, self.compiling, self.reading), _ended(leaving))
        self.stuck = still_opening + sum(not leave.done() for leave in leaving)
        for device in self.devices:
            device.close()

    def __repr__(self) -> str:
        return f"<Engine: {len(self._models)} models on {', '.join(self._devices) or 'no device'}>"

    @property
    def devices(self) -> tuple[Device, ...]:
        """The physical devices, in the runtime's order."""
        return tuple(self._devices.values())

    async def load(
        self,
        source: Source,
        options: ModelOptions,
        version: str = "",
        on_warming: Callable[[], None] = lambda: None,
        keeper: Keeper | None = None,
        *,
        threads: CallThreads | None = None,
    ) -> Model:
        """Open a model on a thread, and let it take jobs. `on_warming` is called on the loop, before it is warmed up.

        Runs on `threads`, by default those for served models. Without a keeper the model is never idle-unloaded.

        Raises:
            ServingError: As `open_model` does.
        """
        warms = partial(asyncio.get_running_loop().call_soon_threadsafe, on_warming)
        opened = await self._taken((threads or self.opening).begin(open_model, self.backend, source, options, warms))
        compiled, slots = opened.compiled, len(opened.slots)
        # The jobs of a model for several devices wait in the queue of the first: that is where its inferences start.
        device = self._device(compiled.devices[0])
        model = Model(compiled, device, slots, options, version)
        device.add_model(model, opened, model.terms)
        self._models.add(model)
        if options.idle_unload_s is not None and keeper is not None:
            # Always with the same number of shared slots: those of bound callers are numbered after them.
            again = partial(open_model, self.backend, source, replace(options, slots=slots))
            self._idleness[model] = Idleness(model, options.idle_unload_s, again, self.opening, keeper)
        return model

    async def unload(self, model: Model, error: ServingError | None = None) -> None:
        """Take no more jobs for a model, and free it when its running jobs have finished.

        Its waiting jobs end with the error at once; without an error they still run.
        """
        if model in self._models:
            await asyncio.shield(self.begin_unload(model, error))

    def begin_unload(self, model: Model, error: ServingError | None) -> asyncio.Future[None]:
        """Begin to unload a model, and give a future that is done when it is freed, whether it is awaited or not."""
        self._models.discard(model)
        if (idleness := self._idleness.pop(model, None)) is not None:
            idleness.end()
        return model.device.remove_model(model, error)

    def submit(
        self, model: Model, submission: Submission, on_end: Callable[[Job], Any], *, at_once: bool = False
    ) -> Job:
        """Queue a job on the model's device. `on_end` is called on the loop, once, at its end.

        With `at_once` it may be called before this returns, unless the model's jobs are batched.

        At a job's end, its device does this, in this order:

        1. It counts the job in the model's tally.
        2. If the model is unloaded when idle, its idle time begins anew.
        3. `on_end`: the service takes the job out of those in flight, keeps in the session the outputs that are to stay
           there, and tells the caller.
        4. The job is recorded in its trace, also where `on_end` fails.

        First comes what has to hold even if a later step fails: if the caller cannot be told, the tally is still right
        and a drain does not wait for the job. Outputs are kept before the caller may read them. The caller does not
        wait for the trace.

        Raises:
            ServingError: QUEUE_FULL, or MODEL_NOT_READY if the model is gone.
        """
        now = self._clock()
        deadline = None if submission.timeout_s is None else now + submission.timeout_s
        # Work that only accesses states is no inference, and is not traced.
        trace = None if self._current_trace is None or submission.work.states is not None else self._current_trace()
        if trace is not None:
            on_end = _recording(trace, on_end)
        idleness = self._idleness.get(model)
        if idleness is not None:
            on_end = idleness.until_end(on_end)
        job = Job(
            model,
            submission.work,
            now,
            submission.priority,
            deadline,
            on_end,
            submission.binding,
            received_at=submission.received_at,
            caller=submission.caller,
            outlet=submission.outlet,
        )
        try:
            model.device.submit(job, at_once=at_once and model.terms.batching is None)
        except ServingError as refusal:
            if trace is not None:
                trace.refuse(model, submission, refusal)
            raise
        if idleness is not None:
            idleness.use()
        return job

    def answered(self, job: Job, executions: int = 1) -> None:
        """Record that executions of a finished job are answered. What their call took beyond the job is wire time."""
        received_at = job.received_at
        if received_at is not None and job.state is FINISHED:
            model, wire_s = model_of(job), self._clock() - received_at - job.timings.total_s
            model.device.tally(model).answer(wire_s, executions)

    async def _taken(self, opening: Future[Opened]) -> Opened:
        """Wait for a model that is being opened. If the caller is cancelled, the model is freed when it is open."""
        loop = asyncio.get_running_loop()

        def hand_back(opening: Future[Opened]) -> None:
            # The loop may have ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._free, opening)

        try:
            return await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(hand_back)
            raise

    def _free(self, opening: Future[Opened]) -> None:
        """Begin to free what has been opened for nobody, if it has been."""
        if not opening.cancelled() and opening.exception() is None:
            opened = opening.result()
            self._device(opened.compiled.devices[0]).freeing.begin(opened)

    def _device(self, name: str) -> Device:
        if name not in self._devices:
            scheduler = Scheduler(self._queue.capacity, self._queue.places, name, self._queue.most_bytes)
            self._devices[name] = Device(name, scheduler, self._tally_of, self._clock)
        return self._devices[name]


def _recording(trace: Trace, on_end: Callable[[Job], Any]) -> Callable[[Job], None]:
    """Make a callback that calls `on_end` and then, even if that raises, records the job in its trace."""

    def tell_and_record(job: Job) -> None:
        try:
            on_end(job)
        finally:
            trace.end(job)

    return tell_and_record


async def _closed(*opening: CallThreads) -> int:
    """Close threads, and give how many of their calls have not ended after `CLOSE_S`."""
    return sum(map(len, await asyncio.gather(*(threads.close(CLOSE_S) for threads in opening))))


async def _ended(leaving: Collection[asyncio.Future[None]]) -> None:
    """Wait until models have gone, but at most `CLOSE_S`."""
    if leaving:
        await asyncio.wait(leaving, timeout=CLOSE_S)
