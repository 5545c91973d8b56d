"""One model on a device: its slots, the jobs that wait for them, and the terms on which they are scheduled.

The scheduler chooses among lanes. A lane knows which of its slots are busy, which of its jobs go together and how
long they may wait for others. It changes no job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from inferwire_server.core.scheduling.batching import Batching, Group
from inferwire_server.core.scheduling.bindings import Binding, Bindings, BindingTerms
from inferwire_server.core.scheduling.caller_turns import CallerTurns, InOrder
from inferwire_server.core.scheduling.fairness import Share
from inferwire_server.core.scheduling.job import Job, Outcome, Work
from inferwire_server.core.scheduling.queue import JobQueue, Rank
from inferwire_server.core.scheduling.ready_bindings import ReadyBindings
from inferwire_server.core.scheduling.rows import count_rows
from inferwire_server.core.scheduling.stacks import split_into_executions, split_stack

ModelKey: TypeAlias = Hashable


@dataclass(frozen=True, slots=True)
class Terms:
    """What a model's jobs are scheduled by.

    Attributes:
        weight: Its weight against other models.
        batching: How its jobs run together; None for each alone.
        binding: How callers are bound to slots of their own; None for a model without states. One with states has no
            batching.
    """

    weight: float = 1.0
    batching: Batching | None = None
    binding: BindingTerms | None = None


DEFAULT_TERMS = Terms()

LONGEST_TURN_S = 0.005
"""How long one job may hold a slot that runs the job's executions one by one."""

_SMOOTHING = 1 / 8
"""How much the latest run counts in the pace."""


class Run(NamedTuple):
    """What a slot is running, since when, and the device time that its model was charged for it. Its lane keeps it.

    Attributes:
        takes_place: Whether it takes one of the device's places.
    """

    jobs: tuple[Job, ...]
    executions: int
    started_at: float
    charged_s: float
    takes_place: bool


@dataclass(slots=True)
class Lane:
    """One model's slots and queues.

    Each group of jobs that may run together has a queue, and so has each binding; all other jobs wait under None.

    Attributes:
        slots: How many slots callers share. Those of bindings are numbered after them.
        idle: The shared slots that run nothing.
        ready: The bindings that have a job waiting and an idle slot.
        turns: Which caller's turn it is in the queues that callers share.
        in_order: The turns in the queues of bindings: there are none, jobs go in order of arrival.
        running: What each busy slot runs, by its number.
        is_draining: Whether it takes no more jobs.
        pace_s: How long an execution takes by itself; None before the first.
        is_brief: Whether its runs are so brief that they take none of the device's places.
    """

    model: ModelKey
    slots: int
    terms: Terms
    share: Share
    idle: deque[int]
    turns: CallerTurns
    in_order: InOrder
    bindings: Bindings | None = None
    ready: ReadyBindings = field(default_factory=ReadyBindings)
    queues: dict[Group | None, JobQueue] = field(default_factory=dict[Group | None, JobQueue])
    running: dict[int, Run] = field(default_factory=dict[int, Run])
    is_draining: bool = False
    pace_s: float | None = None
    is_brief: bool = False

    @classmethod
    def of(cls, model: ModelKey, slots: int, terms: Terms, arrivals: Iterator[int]) -> Lane:
        """Make the lane of a model with this many shared slots. `arrivals` counts the jobs of the whole device."""
        bindings = None if terms.binding is None else Bindings(model, terms.binding, slots)
        turns, in_order = CallerTurns(arrivals), InOrder(arrivals)
        return cls(model, slots, terms, Share(terms.weight), deque(range(slots)), turns, in_order, bindings)

    @property
    def has_delay(self) -> bool:
        """Whether its jobs may have to wait for others to run with although a slot is idle."""
        batching = self.terms.batching
        return batching is not None and batching.max_delay_s > 0

    @property
    def queued(self) -> int:
        """How many executions wait."""
        return sum(queue.executions for queue in self.queues.values())

    @property
    def carried_bytes(self) -> int:
        """How many bytes the waiting jobs keep in memory."""
        return sum(queue.carried_bytes for queue in self.queues.values())

    def divide(self, work: Work) -> list[Work]:
        """Divide a stack into work of one job each.

        A job is what may run as one inference or, where executions run one by one, as many as take `LONGEST_TURN_S`.
        """
        batching = self.terms.batching
        if work.is_profiled:
            return split_into_executions(work)
        if batching is not None:
            found = split_stack(work, batching.most_stacked(work))
            return found if batching.group(found[0]) is not None else split_into_executions(work)
        most = max(1, int(LONGEST_TURN_S / self.pace_s)) if self.pace_s else 1
        return split_stack(work._replace(one_by_one=True), most)

    def learn(self, run: Run, outcomes: Sequence[Outcome], took_s: float) -> None:
        """Learn the model's pace from how long a run took, if each of its executions was an inference to its end.

        What failed, was cancelled or was dropped may have taken next to no time, and so does access to states.
        """
        if self.terms.batching is not None:
            return
        (job,), (outcome,) = run.jobs, outcomes
        if isinstance(outcome, tuple) and not job.state.is_terminal and job.work.states is None:
            pace_s = took_s / run.executions
            self.pace_s = pace_s if self.pace_s is None else self.pace_s + (pace_s - self.pace_s) * _SMOOTHING

    def push(self, job: Job) -> None:
        """Let a job wait in the queue of the jobs that it may run with."""
        group = self.group_of(job.work, job.binding)
        queue = self.queues.get(group)
        if queue is None:
            queue = self.queues[group] = JobQueue(self.turns if job.binding is None else self.in_order)
        queue.push(job, 1 if group is None or job.binding is not None else count_rows(job.work))
        self._line_up(job.binding)

    def remove(self, job: Job) -> None:
        """Take a waiting job out."""
        group = self.group_of(job.work, job.binding)
        self.queues[group].remove(job)
        self._drop_if_empty(group)
        self._line_up(job.binding)

    def next_group(self, now: float) -> tuple[Rank, Group | None] | None:
        """Give the group whose job is next as soon as the lane has a slot left, and that job's rank.

        None if every waiting job has to wait for its binding's slot, or may still wait for more rows.
        """
        groups: Iterable[Group | None] = self.queues
        if self.bindings is not None:
            for heir in self.bindings.take_heirs():
                self._line_up(heir)
            groups = self.queues.keys() & {None, self.ready.first}
        found: tuple[Rank, Group | None] | None = None
        for group in groups:
            rank, until = self.queues[group].first_rank, self.held_until(group)
            if rank is None or (until is not None and now < until):
                continue
            if found is None or rank < found[0]:
                found = rank, group
        return found

    @property
    def has_slots_left(self) -> bool:
        """Whether one more of its jobs may run. Bound or not, no more run at once than there are shared slots."""
        return len(self.running) < self.slots

    def has_idle_slot(self, binding: Binding | None) -> bool:
        """Whether a job finds an idle slot: that of its binding, or without one any that callers share."""
        return self.has_slots_left and (bool(self.idle) if binding is None else self._is_idle(binding))

    def runs_at_once(self, job: Job) -> bool:
        """Whether a job that arrives while no other job waits finds a slot and need not wait for others to run with."""
        return self.has_idle_slot(job.binding) and not self._may_hold(0) and not job.is_held_back

    def need_not_wait(self, work: Work, binding: Binding | None) -> bool:
        """Whether work would start at once: it finds a slot, and with it the waiting jobs of its group are enough."""
        if not self.has_idle_slot(binding):
            return False
        group = self.group_of(work, binding)
        if group is None or binding is not None:
            return True
        waiting = self.queues[group].rows if group in self.queues else 0
        return not self._may_hold(waiting + count_rows(work))

    def begin(self, run: Run) -> int:
        """Give a run an idle slot, and tell which: that of its binding, or one that callers share."""
        binding = run.jobs[0].binding
        slot = self.idle.popleft() if binding is None or binding.slot is None else binding.slot
        self.running[slot] = run
        self._line_up(binding)
        return slot

    def take_place(self, slot: int) -> bool:
        """Have a slot's run take one of the device's places, even if it was to be brief; say whether it took none."""
        run = self.running[slot]
        if run.takes_place:
            return False
        self.running[slot] = run._replace(takes_place=True)
        return True

    def end(self, slot: int) -> Run | None:
        """Take a slot back, and give what it ran; None if it ran nothing. A bound slot stays its binding's."""
        run = self.running.pop(slot, None)
        if run is not None:
            if slot < self.slots:
                self.idle.append(slot)
            self._line_up(run.jobs[0].binding)
        return run

    def resize(self, slots: int) -> None:
        """Have this many shared slots from now on, all of them idle. Nothing may be running."""
        self.slots, self.idle = slots, deque(range(slots))

    def drain(self) -> None:
        """Take no more jobs."""
        self.is_draining = True

    def take(self, group: Group | None) -> tuple[Job, ...]:
        """Take the jobs of a group that run next: the first one, and as many behind it as may run with it."""
        queue, batching = self.queues[group], self.terms.batching
        space = 0 if group is None or batching is None else batching.rows_to_take(queue.rows)
        jobs = [queue.pop()]
        if space:
            space -= count_rows(jobs[0].work)
            while (job := queue.first) is not None and (rows := count_rows(job.work)) <= space:
                jobs.append(queue.pop())
                space -= rows
        self._drop_if_empty(group)
        if self.turns.are_many:
            self.turns.forget_but(self.queues.values())
        return tuple(jobs)

    def held_until(self, group: Group | None) -> float | None:
        """Say until when a group may wait for more rows; None where it is to run as soon as it can.

        The delay counts from its oldest job, however urgent the others are. It is not held back if one of its jobs
        would expire meanwhile.
        """
        batching, queue = self.terms.batching, self.queues[group]
        if group is None or batching is None or not self._may_hold(queue.rows):
            return None
        until, deadline = queue.oldest.submitted_at + batching.max_delay_s, queue.first_deadline
        return None if deadline is not None and deadline <= until else until

    def group_of(self, work: Work, binding: Binding | None) -> Group | None:
        """Name the queue that work waits in: its binding, the group it may run with, or None."""
        if binding is not None:
            return binding
        return None if self.terms.batching is None else self.terms.batching.group(work)

    @property
    def holds_back(self) -> bool:
        """Whether it has passed jobs over because the answers before them are not taken."""
        return self.turns.hold_back or self.in_order.hold_back

    def look_again(self) -> None:
        """Let the jobs that were held back have their turns if the answers before them are taken now."""
        self.turns.hold_back = self.in_order.hold_back = False
        for group, queue in self.queues.items():
            queue.look_again()
            if isinstance(group, Binding):
                self._line_up(group)

    def _may_hold(self, rows: int) -> bool:
        """Whether so many rows of a group may have to wait for more although a slot is idle."""
        batching = self.terms.batching
        if batching is None or not batching.max_delay_s or not self.running:
            return False
        return not batching.is_worth_a_run(rows)

    def _is_idle(self, binding: Binding) -> bool:
        """Whether a binding has a slot that runs nothing."""
        return binding.slot is not None and binding.slot not in self.running

    def _line_up(self, binding: Binding | None) -> None:
        """Update `ready` after a binding's slot, or the queue for it, has changed."""
        if binding is not None:
            queue = self.queues.get(binding)
            self.ready.put(binding, queue.first_rank if queue is not None and self._is_idle(binding) else None)

    def _drop_if_empty(self, group: Group | None) -> None:
        if not len(self.queues[group]):
            del self.queues[group]
