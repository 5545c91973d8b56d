"""Which job runs next on one device, and in which slot of its model.

The scheduler knows jobs, models by key and slots by number. It never waits and never runs
anything: its calls return the effects that the engine is to carry out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from math import inf
from typing import Any

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.bindings import Binding, Bindings
from inferwire_server.core.scheduling.deadlines import Deadlines
from inferwire_server.core.scheduling.effects import Drained, Effect, End, Start, Stop, Unbound
from inferwire_server.core.scheduling.fairness import FairShares
from inferwire_server.core.scheduling.job import Job, JobState, Outcome, Work
from inferwire_server.core.scheduling.lane import DEFAULT_TERMS, Lane, ModelKey, Run, Terms
from inferwire_server.core.scheduling.lane_choice import next_lane
from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.core.scheduling.outlet import LOOK_AGAIN_S
from inferwire_server.core.scheduling.room import Room
from inferwire_server.core.scheduling.stacks import split_into_executions
from inferwire_server.core.taken import Taken
from inferwire_server.errors import ServingError, bug


class Scheduler:
    """One device's bounded queue over the slots of its models.

    The next job is the most urgent of those whose model has an idle slot; among equally urgent
    ones that of the model which had least of the device for its weight; then the callers of that
    model take turns, each with its oldest.
    The queue is full when as many jobs wait as `capacity` says, or when their inputs take `most_bytes`.
    It still admits jobs of a model that has less waiting than its weight's part of both, so that a
    flood of one model's jobs does not shut the others out.
    `places` is how many the device has: one for each inference that runs. None takes the largest
    number of slots that any of the models has, since each of them alone would fill the device. Brief
    inferences, which end before a place could matter, take none. They run also while all places are
    taken, as long as their model has had no more of the device for its weight than those that wait
    and are not less urgent. `device` is its name in the errors that callers get.
    """

    def __init__(
        self, capacity: int, places: int | None = None, device: str = "the device", most_bytes: float = inf
    ) -> None:
        self._room = Room(capacity, most_bytes)
        self._device = device
        self._asked_places = places
        self._lanes: dict[ModelKey, Lane] = {}
        self._shares = FairShares()
        self._arrivals: Iterator[int] = count()
        self._deadlines = Deadlines()
        self._any_delays = False
        self._holds_back = False
        self._bound = 0
        self._queued = 0
        self._carried_bytes = 0
        self._places_taken = 0
        self._dispatched_at = -inf
        self._places = 0 if places is None else places

    @property
    def capacity(self) -> int:
        """How many executions may wait."""
        return self._room.executions

    @property
    def taken(self) -> Taken:
        """How much of the room for the inputs of what waits is taken."""
        return Taken(self._carried_bytes, self._room.carried_bytes)

    @property
    def occupancy(self) -> Occupancy:
        """How busy the device is."""
        return Occupancy(sum(len(lane.running) for lane in self._lanes.values()), self._places, self._queued)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs that have not ended: those that wait, then those that run."""
        lanes = self._lanes.values()
        waiting = [job for lane in lanes for queue in lane.queues.values() for job in queue]
        running = [job for lane in lanes for run in lane.running.values() for job in run.jobs]
        return (*waiting, *(job for job in running if not job.state.is_terminal))

    @property
    def next_wake(self) -> float | None:
        """When `wake` has something to do: end a job or a binding, or start jobs that wait for more than their turn."""
        if not (self._deadlines.open or self._bound or self._any_delays or self._holds_back):
            return None
        ends = [self._deadlines.next]
        if self._holds_back:
            ends.append(self._dispatched_at + LOOK_AGAIN_S)
        if self._bound:
            ends += [lane.bindings.next_end for lane in self._lanes.values() if lane.bindings is not None]
        if self._any_delays:
            lanes = [lane for lane in self._lanes.values() if lane.has_delay and lane.idle and self._has_place(lane)]
            held = [until for lane in lanes for group in lane.queues if (until := lane.held_until(group)) is not None]
            # A group whose delay was over at the last dispatch waits for its turn, and not for a time.
            ends += [until for until in held if until > self._dispatched_at]
        return min((end for end in ends if end is not None), default=None)

    def occupancy_of(self, model: ModelKey) -> Occupancy:
        """How busy one model is."""
        lane = self._lane(model)
        return Occupancy(len(lane.running), lane.slots, lane.queued, 0 if lane.bindings is None else len(lane.bindings))

    def add_model(self, model: ModelKey, slots: int, terms: Terms = DEFAULT_TERMS) -> None:
        """Take jobs for a model with this many slots."""
        if model in self._lanes:
            raise bug(f"model {model} was added twice")
        if not terms.weight > 0:
            raise bug(f"model {model} has weight {terms.weight}, expected more than 0")
        if terms.batching is not None and terms.binding is not None:
            raise bug(f"model {model} keeps states and has batches")
        self._lanes[model] = Lane.of(model, slots, terms, self._arrivals)
        self._sum_up()

    def remove_model(self, model: ModelKey, error: ServingError | None, now: float) -> list[Effect]:
        """Take no more jobs for a model, and let its running jobs finish.

        Its waiting jobs end with the error; without an error they still run.
        """
        lane = self._lane(model)
        lane.drain()
        effects = [] if error is None else self._end_waiting(lane, error, now)
        if lane.bindings is not None:
            effects += self._unbound(lane.bindings.release_all())
        return effects + self._drop_if_drained(lane) + self._dispatch(now)

    def end_waiting(self, model: ModelKey, error: ServingError, now: float) -> list[Effect]:
        """End a model's waiting jobs."""
        lane = self._lane(model)
        return self._end_waiting(lane, error, now) + self._drop_if_drained(lane) + self._dispatch(now)

    def bind(
        self, model: ModelKey, on_end: Callable[[Binding], Any], now: float, instead_of: Binding | None = None
    ) -> Binding:
        """Give a caller of a model with states a slot of its own, or have it wait for one.

        With `instead_of` it takes the place of another binding of the same caller: `Bindings.bind` says which.

        Raises:
            ServingError: QUEUE_FULL if no more may be bound; MODEL_NOT_READY if the model is being removed or is gone.
        """
        lane = self._taking(model)
        if lane.bindings is None:
            raise bug(f"model {model} has no slots to bind")
        binding = lane.bindings.bind(on_end, now, instead_of)
        self._bound += 1
        return binding

    def release(self, binding: Binding, now: float) -> list[Effect]:
        """Let a binding end with the last of its jobs; do nothing for one that has ended."""
        lane = self._lanes.get(binding.model)
        if lane is None or lane.bindings is None:
            return []
        return [*self._unbound(lane.bindings.release(binding)), *self._dispatch(now)]

    def set_brief(self, model: ModelKey, is_brief: bool) -> None:
        """Say whether a model's runs are from now on too brief to wait for a place, and so take none."""
        self._lane(model).is_brief = is_brief

    def take_place(self, model: ModelKey, slot: int) -> None:
        """Record that a slot's run is not brief after all: it takes a place, even if none is left."""
        self._places_taken += self._lane(model).take_place(slot)

    def take_slots(self, model: ModelKey) -> bool:
        """Take the slots of a model away, unless it has jobs or keeps a caller's states; say whether they were taken.

        Jobs that are submitted after that wait until `give_slots` gives the model as many as it had.
        """
        lane = self._lane(model)
        if lane.running or lane.queues or lane.bindings or lane.is_draining:
            return False
        lane.resize(0)
        self._sum_up()
        return True

    def give_slots(self, model: ModelKey, slots: int, now: float) -> list[Effect]:
        """Give slots to a model whose own were taken, and start what can start."""
        lane = self._lane(model)
        if lane.slots:
            raise bug(f"model {model} was given slots and has some")
        lane.resize(slots)
        self._sum_up()
        return self.wake(now)

    def divide(self, model: ModelKey, work: Work) -> list[Work]:
        """Divide a stack into work of one job each; of one execution each where the queue has no room for all of it."""
        lane = self._lanes.get(model)
        if lane is None:
            return [work]
        found = lane.divide(work)
        has_room = self._has_room(lane, work, None) if len(found) == 1 else self._fits(work)
        return found if has_room else split_into_executions(work)

    def submit(self, job: Job, now: float, *, waits: bool = False) -> list[Effect]:
        """Admit a job. With `waits` it does not start yet, so that others may run with it, unless the queue is full.

        Raises:
            ServingError: QUEUE_FULL if as much waits as may; MODEL_NOT_READY if the model is being removed or is gone.
        """
        lane = self._taking(job.model)
        if not self._has_room(lane, job.work, job.binding, may_start=not job.is_held_back):
            raise self._room.refusal(self._device, job.work, self._queued, self._carried_bytes)
        if not lane.queues:
            self._shares.wake(lane.share)
        if lane.bindings is not None and job.binding is not None:
            lane.bindings.begin_job(job.binding)
        if job.deadline is not None:
            self._deadlines.add(job, job.deadline)
        if not (waits or self._queued) and self._has_place(lane) and lane.runs_at_once(job):
            return [self._start(lane, (job,), job.work.executions, now)]
        lane.push(job)
        self._queued += job.work.executions
        self._carried_bytes += job.work.carried_bytes
        is_full = self._queued >= self._room.executions or self._carried_bytes >= self._room.carried_bytes
        return [] if waits and not is_full else self._dispatch(now)

    def cancel(self, job: Job, error: ServingError, now: float) -> list[Effect]:
        """End a job that has not ended, for the reason given; do nothing for one that has."""
        return self._cancel(job, error, now) + self._dispatch(now)

    def drop(self, job: Job, index: int, error: ServingError, now: float) -> list[Effect]:
        """Drop one of a job's executions; the job ends when all are dropped. Do nothing for one that has ended."""
        if not job.state.is_terminal:
            job.drop(index)
        return self.cancel(job, error, now) if len(job.dropped) == job.work.executions else []

    def wake(self, now: float) -> list[Effect]:
        """End jobs and bindings that have expired, and start jobs that waited long enough for others to run with.

        Jobs start as well whose callers take their answers again.
        """
        effects = self._expire(now) if self._deadlines.open else []
        if self._bound:
            keeping = [lane.bindings for lane in self._lanes.values() if lane.bindings is not None]
            effects += self._unbound([ended for bindings in keeping for ended in bindings.expire(now)])
        if self._holds_back:
            self._holds_back = False
            for lane in self._lanes.values():
                if lane.holds_back:
                    lane.look_again()
        return effects + self._dispatch(now) if self._queued else effects

    def report(
        self, model: ModelKey, slot: int, outcomes: Sequence[Outcome], now: float, began_at: float | None = None
    ) -> list[Effect]:
        """Take a slot back, give each job of its run its outcome, and start what can start.

        `began_at` is when the run began, where that was later than its start: it may have waited for what runs it. If
        it waited again, it is later by that, so that no wait counts as time that the run took.
        """
        lane = self._lane(model)
        run = lane.end(slot)
        if run is None:
            raise bug(f"slot {slot} of model {model} reported without having run")
        self._places_taken -= run.takes_place
        if began_at is None:
            began_at = run.started_at
        self._shares.end(lane.share, run.charged_s, now - began_at)
        lane.learn(run, outcomes, now - began_at)
        effects: list[Effect] = []
        for job, outcome in zip(run.jobs, outcomes, strict=True):
            if not job.state.is_terminal:
                job.begin(began_at)
                effects.append(self._end(job, outcome, now))
            if lane.bindings is not None:
                effects += self._end_bound(lane.bindings, job, now)
        if lane.is_draining:
            effects += self._drop_if_drained(lane)
        effects += self.wake(now)
        return effects

    def __repr__(self) -> str:
        occupancy = self.occupancy
        return (
            f"<Scheduler {occupancy.running}/{occupancy.slots} slots busy, {occupancy.queued}/{self.capacity} queued>"
        )

    def _cancel(self, job: Job, error: ServingError, now: float) -> list[Effect]:
        lane = self._lanes.get(job.model)
        if job.state.is_terminal or lane is None:
            return []
        if job.state is JobState.QUEUED:
            return [*self._end_queued(lane, job, error, now), *self._drop_if_drained(lane)]
        slot, run = next((slot, run) for slot, run in lane.running.items() if job in run.jobs)
        end = self._end(job, error, now)
        # The other jobs of the run go on: the run is stopped only when all of its jobs have ended.
        is_wanted = any(not other.state.is_terminal for other in run.jobs)
        return [end] if is_wanted else [end, Stop(lane.model, slot)]

    def _expire(self, now: float) -> list[Effect]:
        """End every job whose deadline has passed."""
        effects: list[Effect] = []
        while (due := self._deadlines.pop_due(now)) is not None:
            job, deadline = due
            # A clock that has run for long is no longer exact where limits of microseconds are.
            limit_s, doing = round(deadline - job.submitted_at, 6), f"{job.state.value} on {self._device}"
            reason = f"the time limit of {limit_s:g} s passed while the job was {doing}"
            effects += self._cancel(job, ServingError(Code.DEADLINE_EXCEEDED, reason), now)
        return effects

    def _dispatch(self, now: float) -> list[Effect]:
        self._dispatched_at = now
        effects: list[Effect] = []
        lanes, shares = self._lanes.values(), self._shares
        while self._queued and (found := next_lane(lanes, shares, now, self._places_taken >= self._places)) is not None:
            lane, group = found
            jobs = lane.take(group)
            executions = sum([job.work.executions for job in jobs])
            self._queued -= executions
            self._carried_bytes -= sum([job.work.carried_bytes for job in jobs])
            effects.append(self._start(lane, jobs, executions, now))
        self._holds_back = self._queued > 0 and any(lane.holds_back for lane in lanes)
        return effects

    def _start(self, lane: Lane, jobs: tuple[Job, ...], executions: int, now: float) -> Start:
        takes_place = not lane.is_brief
        self._places_taken += takes_place
        slot = lane.begin(Run(jobs, executions, now, self._shares.begin(lane.share), takes_place))
        for job in jobs:
            job.start(now)
        return Start(jobs, slot, executions)

    def _has_place(self, lane: Lane) -> bool:
        """Whether the device has a place for a model's next run, or the run takes none."""
        return lane.is_brief or self._places_taken < self._places

    def _has_room(self, lane: Lane, work: Work, binding: Binding | None, *, may_start: bool = True) -> bool:
        """Whether work fits in the queue, or need not wait, or is within its model's own part of a full queue."""
        if self._fits(work):
            return True
        if may_start and self._places_taken < self._places and lane.need_not_wait(work, binding):
            return True
        weights = sum(other.share.weight for other in self._lanes.values())
        return self._room.part(lane.share.weight / weights).fits(work, lane.queued, lane.carried_bytes)

    def _fits(self, work: Work) -> bool:
        """Whether work fits in the queue."""
        return self._room.fits(work, self._queued, self._carried_bytes)

    def _end_waiting(self, lane: Lane, error: ServingError, now: float) -> list[Effect]:
        waiting = [job for queue in lane.queues.values() for job in queue]
        return [effect for job in waiting for effect in self._end_queued(lane, job, error, now)]

    def _end_queued(self, lane: Lane, job: Job, error: ServingError, now: float) -> list[Effect]:
        lane.remove(job)
        self._queued -= job.work.executions
        self._carried_bytes -= job.work.carried_bytes
        end = self._end(job, error, now)
        return [end] if lane.bindings is None else [end, *self._end_bound(lane.bindings, job, now)]

    def _end(self, job: Job, outcome: Outcome, now: float) -> End:
        """Record how a job has ended. Every job ends here."""
        if isinstance(outcome, ServingError):
            job.end(outcome, now)
        else:
            job.finish(outcome, now)
        if job.deadline is not None:
            self._deadlines.ended()
        return End(job)

    def _end_bound(self, bindings: Bindings, job: Job, now: float) -> list[Effect]:
        """Tell a job's binding that the job neither waits nor runs any more."""
        if job.binding is None:
            return []
        return self._unbound(bindings.end_job(job.binding, now, has_run=job.started_at is not None))

    def _unbound(self, ended: Sequence[Binding]) -> list[Effect]:
        """Record that bindings have ended. Every binding ends here."""
        self._bound -= len(ended)
        return list(map(Unbound, ended))

    def _drop_if_drained(self, lane: Lane) -> list[Effect]:
        if not lane.is_draining or lane.running or lane.queues:
            return []
        del self._lanes[lane.model]
        self._sum_up()
        return [Drained(lane.model)]

    def _sum_up(self) -> None:
        """Recompute what follows from which models there are and how many slots they have."""
        lanes = self._lanes.values()
        self._any_delays = any(lane.has_delay for lane in lanes)
        if self._asked_places is None:
            self._places = max((lane.slots for lane in lanes), default=0)

    def _taking(self, model: ModelKey) -> Lane:
        """Give the lane of a model, and refuse a model that is being removed or is gone."""
        lane = self._lanes.get(model)
        if lane is None or lane.is_draining:
            raise ServingError(Code.MODEL_NOT_READY, f"model '{model}' is unloading")
        return lane

    def _lane(self, model: ModelKey) -> Lane:
        lane = self._lanes.get(model)
        if lane is None:
            raise bug(f"model {model} is not known to the scheduler")
        return lane
