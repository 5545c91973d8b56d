"""Which job runs next on one device, and in which slot of its model.

The scheduler knows jobs, models by key and slots by number. It never waits and never runs
anything: every call gives back what the engine is to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias

from inferwire_proto.errors import Code
from inferwire_server.core.fairness import FairShares, Share
from inferwire_server.core.job import Job, JobState
from inferwire_server.core.queue import JobQueue
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError, bug

ModelKey: TypeAlias = Hashable


@dataclass(frozen=True, slots=True)
class Start:
    """Run the job in this slot of its model."""

    job: Job
    slot: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Cancel what this slot is running. It stays busy until it reports."""

    model: ModelKey
    slot: int


@dataclass(frozen=True, slots=True)
class End:
    """The job has ended: tell whoever waits for it."""

    job: Job


@dataclass(frozen=True, slots=True)
class Drained:
    """Nothing of a removed model runs any more: its slots may go."""

    model: ModelKey


Effect: TypeAlias = Start | Stop | End | Drained


@dataclass(frozen=True, slots=True)
class _Run:
    """What a slot is running, and the device time its model was charged for it."""

    job: Job
    began_at: float
    charged_s: float


@dataclass(slots=True)
class _Lane:
    """One model's queue and slots."""

    model: ModelKey
    slots: int
    share: Share
    queue: JobQueue
    idle: deque[int]
    running: dict[int, _Run] = field(default_factory=dict[int, _Run])
    is_draining: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a device or one of its models is."""

    running: int
    slots: int
    queued: int


class Scheduler:
    """One device's bounded queue over the slots of its models.

    The next job is the most urgent of those whose model has an idle slot; among equally urgent
    ones that of the model which had least of the device for its weight; then the oldest.
    A model whose waiting jobs are fewer than its weight's part of the capacity is admitted even
    where others have filled the queue, so that one flood does not shut the others out.
    `limit` bounds how many inferences run at once; None takes the largest number of slots any of
    the models has, since each of them alone would fill the device.
    """

    def __init__(self, capacity: int, limit: int | None = None) -> None:
        self._capacity = capacity
        self._limit = limit
        self._lanes: dict[ModelKey, _Lane] = {}
        self._shares = FairShares()
        self._arrivals: Iterator[int] = count()
        self._deadlines: list[tuple[float, int, Job]] = []
        self._queued = 0
        self._running = 0

    @property
    def capacity(self) -> int:
        """How many jobs may wait."""
        return self._capacity

    @property
    def limit(self) -> int:
        """How many inferences may run at once."""
        if self._limit is not None:
            return self._limit
        return max((lane.slots for lane in self._lanes.values()), default=0)

    @property
    def load(self) -> Load:
        """How busy the device is."""
        return Load(self._running, self.limit, self._queued)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs that have not ended: those that wait, then those that run."""
        lanes = self._lanes.values()
        waiting = [job for lane in lanes for job in lane.queue]
        running = [run.job for lane in lanes for run in lane.running.values() if not run.job.state.is_terminal]
        return (*waiting, *running)

    @property
    def next_deadline(self) -> float | None:
        """When the next job expires; None where none has a deadline."""
        while self._deadlines and self._deadlines[0][2].state.is_terminal:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def load_of(self, model: ModelKey) -> Load:
        """How busy one model is."""
        lane = self._lane(model)
        return Load(len(lane.running), lane.slots, len(lane.queue))

    def add_model(self, model: ModelKey, slots: int, weight: float = 1.0) -> None:
        """Take jobs for a model with this many slots. Twice the weight is twice the share of the device."""
        if model in self._lanes:
            raise bug(f"model {model} was added twice")
        if not weight > 0:
            raise bug(f"model {model} has weight {weight}, expected more than 0")
        self._lanes[model] = _Lane(model, slots, Share(weight), JobQueue(self._arrivals), deque(range(slots)))

    def remove_model(self, model: ModelKey, error: ServingError, now: float) -> list[Effect]:
        """Take no more jobs for a model, end those that wait, and let the running ones finish."""
        lane = self._lane(model)
        lane.is_draining = True
        effects: list[Effect] = []
        for job in lane.queue:
            effects += self._end_queued(lane, job, error, now)
        return effects + self._drop_if_drained(lane)

    def submit(self, job: Job, now: float) -> list[Effect]:
        """Admit a job.

        Raises:
            ServingError: QUEUE_FULL if as many jobs wait as may; MODEL_NOT_READY if the model is leaving.
        """
        lane = self._lane(job.model)
        if lane.is_draining:
            raise ServingError(Code.MODEL_NOT_READY, f"model '{job.model}' is unloading")
        if self._queued >= self._capacity and not self._is_admitted_to_full_queue(lane):
            raise ServingError(
                Code.QUEUE_FULL,
                f"the device's queue is full: {self._queued} jobs are waiting, at most {self._capacity} may",
                retry_after_s=1.0,
            )
        if not len(lane.queue):
            self._shares.wake(lane.share)
        lane.queue.push(job)
        self._queued += 1
        if job.deadline is not None:
            heappush(self._deadlines, (job.deadline, next(self._arrivals), job))
        return self._dispatch(now)

    def cancel(self, job: Job, error: ServingError, now: float) -> list[Effect]:
        """End a job that has not ended, for the reason given; do nothing for one that has."""
        lane = self._lanes.get(job.model)
        if job.state.is_terminal or lane is None:
            return []
        if job.state is JobState.QUEUED:
            return [*self._end_queued(lane, job, error, now), *self._drop_if_drained(lane)]
        slot = next(slot for slot, run in lane.running.items() if run.job is job)
        job.end(error, now)
        return [End(job), Stop(lane.model, slot)]

    def expire(self, now: float) -> list[Effect]:
        """End every job whose deadline has passed."""
        effects: list[Effect] = []
        while (deadline := self.next_deadline) is not None and deadline <= now:
            job = heappop(self._deadlines)[2]
            error = ServingError(Code.DEADLINE_EXCEEDED, f"the deadline passed while the job was {job.state.value}")
            effects += self.cancel(job, error, now)
        return effects

    def report(
        self, model: ModelKey, slot: int, outcome: tuple[Tensor, ...] | ServingError, now: float
    ) -> list[Effect]:
        """Take a slot back, whatever its inference did, and start what can start."""
        lane = self._lane(model)
        run = lane.running.pop(slot, None)
        if run is None:
            raise bug(f"slot {slot} of model {model} reported without having run")
        lane.idle.append(slot)
        self._running -= 1
        self._shares.end(lane.share, run.charged_s, now - run.began_at)
        job = run.job
        effects: list[Effect] = []
        if not job.state.is_terminal:
            if isinstance(outcome, ServingError):
                job.end(outcome, now)
            else:
                job.finish(outcome, now)
            effects.append(End(job))
        return effects + self._drop_if_drained(lane) + self._dispatch(now)

    def __repr__(self) -> str:
        load = self.load
        return f"<Scheduler {load.running}/{load.slots} slots busy, {load.queued}/{self._capacity} queued>"

    def _dispatch(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        while self._running < self.limit and (lane := self._next_lane()) is not None:
            job, slot = lane.queue.pop(), lane.idle.popleft()
            self._queued -= 1
            self._running += 1
            lane.running[slot] = _Run(job, now, self._shares.begin(lane.share))
            job.start(now)
            effects.append(Start(job, slot))
        return effects

    def _next_lane(self) -> _Lane | None:
        best, best_place = None, None
        for lane in self._lanes.values():
            if not lane.idle or (rank := lane.queue.first_rank) is None:
                continue
            urgency, arrival = rank
            place = (urgency, self._shares.turn(lane.share), arrival)
            if best_place is None or place < best_place:
                best, best_place = lane, place
        return best

    def _is_admitted_to_full_queue(self, lane: _Lane) -> bool:
        if lane.idle and self._running < self.limit:
            return True
        weights = sum(other.share.weight for other in self._lanes.values())
        return len(lane.queue) < max(1, int(self._capacity * lane.share.weight / weights))

    def _end_queued(self, lane: _Lane, job: Job, error: ServingError, now: float) -> list[Effect]:
        lane.queue.remove(job)
        self._queued -= 1
        job.end(error, now)
        return [End(job)]

    def _drop_if_drained(self, lane: _Lane) -> list[Effect]:
        if not lane.is_draining or lane.running or len(lane.queue):
            return []
        del self._lanes[lane.model]
        return [Drained(lane.model)]

    def _lane(self, model: ModelKey) -> _Lane:
        lane = self._lanes.get(model)
        if lane is None:
            raise bug(f"model {model} is not known to the scheduler")
        return lane
