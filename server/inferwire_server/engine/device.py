"""One physical device: its scheduler, and the slots that carry out what it decides."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

import structlog

from inferwire_server.core.scheduling.bindings import Binding
from inferwire_server.core.scheduling.effects import Drained, Effect, End, Start, Stop, Unbound
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.scheduling.lane import DEFAULT_TERMS, ModelKey, Terms
from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.core.scheduling.scheduler import Scheduler
from inferwire_server.core.scheduling.tally import Tally, TallyOf
from inferwire_server.core.taken import Taken
from inferwire_server.engine.brief_slot import LOOP
from inferwire_server.engine.freeing import Freeing, resolve
from inferwire_server.engine.opening import Opened
from inferwire_server.engine.placed_model import PlacedModel
from inferwire_server.engine.runner import Runner, Running
from inferwire_server.engine.slot_runs import SlotRun
from inferwire_server.errors import ServingError

T = TypeVar("T")

log = structlog.stdlib.get_logger()


class Device:
    """A device's queue and its models' slots. Lives on the event loop; only inferences that are not brief leave it.

    `clock` times the jobs. It has the epoch of the loop's own time, as timers are set by it, but is finer on some
    loops.

    Attributes:
        freeing: Frees the compiled models and the slots that this device no longer uses.
    """

    def __init__(
        self, name: str, scheduler: Scheduler, tally_of: TallyOf, clock: Callable[[], float] = monotonic
    ) -> None:
        self.name = name
        self.freeing = Freeing(name)
        self._scheduler = scheduler
        self._tally_of = tally_of
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._runner = Runner(name, clock, scheduler.take_place, self._report)
        self._placed: dict[ModelKey, PlacedModel] = {}
        self._running: dict[tuple[ModelKey, int], Running] = {}
        self._drained: dict[ModelKey, asyncio.Future[None]] = {}
        # A timer that uvloop was given for a time in the past has no `when`: so `_due_at` is kept beside it.
        self._timer: asyncio.Handle | None = None
        self._due_at = 0.0
        self._effects: deque[Effect] = deque()
        self._is_applying = False
        self._is_gathering = False

    def __repr__(self) -> str:
        occupancy = self.occupancy
        return (
            f"<Device {self.name}: {occupancy.running}/{occupancy.slots} slots busy, "
            f"{occupancy.queued}/{self._scheduler.capacity} queued>"
        )

    @property
    def occupancy(self) -> Occupancy:
        """How busy the device is."""
        return self._scheduler.occupancy

    @property
    def queue_capacity(self) -> int:
        """How many jobs may wait."""
        return self._scheduler.capacity

    @property
    def queue_taken(self) -> Taken:
        """How much of the room for the inputs of waiting jobs is taken."""
        return self._scheduler.taken

    @property
    def models(self) -> tuple[ModelKey, ...]:
        """The models that have slots here."""
        return tuple(self._placed)

    def opened(self, model: ModelKey) -> Opened | None:
        """Give what a model runs in; None while it is unloaded, and once it has gone."""
        placed = self._placed.get(model)
        return None if placed is None else placed.opened

    def tally(self, model: ModelKey) -> Tally:
        """Give the tally of a model's jobs, also if the model has gone."""
        placed = self._placed.get(model)
        return self._tally_of(self.name, model) if placed is None else placed.tally

    def occupancy_of(self, model: ModelKey) -> Occupancy:
        """How busy one of its models is."""
        return self._scheduler.occupancy_of(model)

    def add_model(self, model: ModelKey, opened: Opened, terms: Terms = DEFAULT_TERMS) -> None:
        """Take jobs for a model. Its slots may raise how many inferences run at once, so waiting jobs may start."""
        self._placed[model] = PlacedModel(opened, terms.batching, self._tally_of(self.name, model))
        self._scheduler.add_model(model, len(opened.slots), terms)
        self._apply(self._scheduler.wake(self._clock()))

    def remove_model(self, model: ModelKey, error: ServingError | None = None) -> asyncio.Future[None]:
        """Take no more jobs for a model, and give a future that is done when it is freed, after its last job.

        Its waiting jobs end with the error at once; without an error they still run.
        """
        if model in self._drained:
            return self._drained[model]
        drained: asyncio.Future[None] = self._loop.create_future()
        self._drained[model] = drained
        self._apply(self._scheduler.remove_model(model, error, self._clock()))
        return drained

    def unload_if_idle(self, model: ModelKey) -> bool:
        """Begin to free what a model runs in, unless it has jobs or keeps a caller's states; say whether it began.

        Jobs that are submitted after that wait until `open` is called.
        """
        placed = self._placed[model]
        if placed.opened is None or not self._scheduler.take_slots(model):
            return False
        self.freeing.begin(placed.opened)
        placed.opened = None
        return True

    def open(self, model: ModelKey, opened: Opened) -> None:
        """Have a model that was unloaded while idle run in `opened` from now on; its waiting jobs may start."""
        self._placed[model].opened = opened
        self._apply(self._scheduler.give_slots(model, len(opened.slots), self._clock()))

    def end_waiting(self, model: ModelKey, error: ServingError) -> None:
        """End a model's waiting jobs."""
        self._apply(self._scheduler.end_waiting(model, error, self._clock()))

    def divide(self, model: ModelKey, work: Work) -> list[Work]:
        """Divide a stack into work of one job each."""
        return self._scheduler.divide(model, work)

    def submit(self, job: Job, *, at_once: bool = False) -> None:
        """Admit a job. With `at_once`, a job that runs on the loop may have ended when this returns.

        Raises:
            ServingError: QUEUE_FULL or MODEL_NOT_READY; the job was not admitted.
        """
        self.tally(job.model).submit(job.work.executions)
        placed = self._placed.get(job.model)
        gathers = placed is not None and placed.gathers(job.work)
        try:
            effects = self._scheduler.submit(job, self._clock(), waits=gathers)
        except ServingError as error:
            self.tally(job.model).refuse(job.work.executions)
            raise error.copy(is_of_job=True) from None
        if gathers and not self._is_gathering:
            self._is_gathering = True
            self._loop.call_soon(self._run_gathered)
        self._apply(effects, at_once=at_once)

    def bind(self, model: ModelKey, on_end: Callable[[Binding], Any], instead_of: Binding | None = None) -> Binding:
        """Give a caller of a model with states a slot of its own. `on_end` is called on the loop, once, at its end.

        With `instead_of` it takes the place of another binding of the same caller: `Bindings.bind` says which.

        Raises:
            ServingError: QUEUE_FULL if no more may be bound; MODEL_NOT_READY if the model is being removed or is gone.
        """
        binding = self._scheduler.bind(model, on_end, self._clock(), instead_of)
        self._arm_timer()
        return binding

    def release(self, binding: Binding) -> None:
        """Let a binding end with the last of its jobs; do nothing for one that has ended."""
        self._apply(self._scheduler.release(binding, self._clock()))

    def cancel(self, job: Job, error: ServingError) -> None:
        """End a job, queued or running, for the reason given; do nothing for one that has ended."""
        self._apply(self._scheduler.cancel(job, error, self._clock()))

    def drop(self, job: Job, index: int, error: ServingError) -> None:
        """Drop one of a job's executions; the job ends when all are dropped. Do nothing if it has ended."""
        self._apply(self._scheduler.drop(job, index, error, self._clock()))

    def cancel_all(self, error: ServingError) -> None:
        """End every job, queued or running."""
        for job in self._scheduler.jobs:
            self.cancel(job, error)
        # Where a job was cancelled a moment before its inference began, the inference runs on: stop that too.
        for running in self._running.values():
            running.run.cancel()

    def close(self) -> None:
        """End the threads. All jobs must have ended before."""
        if self._timer is not None:
            self._timer.cancel()
        self._runner.close()
        self.freeing.close()

    def _run_gathered(self) -> None:
        """Start the jobs that were submitted in one turn of the loop, as one inference where they may run together."""
        self._is_gathering = False
        self._apply(self._scheduler.wake(self._clock()), at_once=True)

    def _apply(self, effects: list[Effect], *, at_once: bool = False) -> None:
        """Carry out effects in the order in which they were decided, then those that these lead to, and set the timer.

        With `at_once`, if there is one effect and it starts a run on the loop, the run may have ended on return.
        """
        if at_once and not self._is_applying and len(effects) == 1 and isinstance(effects[0], Start):
            self._start(effects[0], at_once=True)
            if self._running:  # else the run has ended, and its report has set the timer
                self._arm_timer()
            return
        self._effects.extend(effects)
        if self._is_applying:
            return
        self._is_applying = True
        try:
            while self._effects:
                self._carry_out(self._effects.popleft())
        finally:
            self._is_applying = False
        self._arm_timer()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case End(job):
                self._end(job)
            case Start():
                self._start(effect)
            case Stop(model, slot):
                self._running[model, slot].run.cancel()
            case Unbound(binding):
                self._unbind(binding)
            case Drained(model):
                self._free_model(model)

    def _end(self, job: Job) -> None:
        """Count an ended job and call its `on_end`. `Engine.submit` says who hears of the end, and in which order."""
        self.tally(job.model).end(job)
        _tell(job.on_end, job)

    def _unbind(self, binding: Binding) -> None:
        opened = self.opened(binding.model)
        # A caller may be bound, and release its binding, while the model is unloaded.
        bound = None if binding.slot is None or opened is None else opened.slots.take(binding.slot)
        if bound is not None:
            self.freeing.begin(bound)
        _tell(binding.on_end, binding)

    def _free_model(self, model: ModelKey) -> None:
        opened = self._placed.pop(model).opened
        if opened is None:
            resolve(self._drained.pop(model))
        else:
            self.freeing.begin(opened).add_done_callback(lambda _: resolve(self._drained.pop(model)))

    def _start(self, start: Start, *, at_once: bool = False) -> None:
        jobs, number, executions = start
        model, one_by_one = jobs[0].model, jobs[0].work.one_by_one
        placed = self._placed[model]
        for _ in range(executions if one_by_one else 1):
            placed.tally.begin_run(1 if one_by_one else executions)
        slots = placed.slots
        # Whoever was told of an end may have cancelled some of them since: these have no inputs any more.
        slot, where = slots.choose(number, [job.work for job in jobs if job.error is None])
        if placed.is_on_loop is not (where is LOOP):
            placed.is_on_loop = where is LOOP
            self._scheduler.set_brief(model, placed.is_on_loop)
        run = SlotRun(slot, jobs)
        running = Running(model, slots, number, where, run, run.steps(), self._clock())
        self._running[model, number] = running
        if where is not LOOP:
            self._runner.hand_over(running)
        elif at_once:
            self._runner.go_on(running, running.began_at)
        else:
            # In a later turn of the loop: `submit` is to return before `on_end` is called.
            self._loop.call_soon(self._runner.go_on, running, running.began_at)

    def _report(self, running: Running) -> None:
        model, number, run, now = running.model, running.number, running.run, self._clock()
        del self._running[model, number]
        placed = self._placed[model]
        running.slots.end(running.where)
        placed.count_run(run, now - running.began_at)
        self._apply(self._scheduler.report(model, number, run.outcomes, now, running.began_at))

    def _arm_timer(self) -> None:
        wake_at = self._scheduler.next_wake
        if wake_at is None or (self._timer is not None and self._due_at <= wake_at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due_at = self._loop.call_at(wake_at, self._wake), wake_at

    def _wake(self) -> None:
        self._timer = None
        self._apply(self._scheduler.wake(self._clock()))


def _tell(on_end: Callable[[T], Any] | None, ended: T) -> None:
    """Call `on_end`, if there is one, with what has ended. If it raises, the error is logged and goes no further."""
    if on_end is None:
        return
    try:
        on_end(ended)
    except Exception:
        # Only this callback is broken: the effects that remain are about other jobs and slots.
        log.exception("an end was not taken", ended=repr(ended))
