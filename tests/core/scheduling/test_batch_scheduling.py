"""The scheduler where jobs may run together: its rules one by one, and against a naive model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.scheduling.effects import Drained, Effect, End, Start, Stop
from inferwire_server.core.scheduling.job import Apart, Job, JobState, Outcome, Work
from inferwire_server.core.scheduling.lane import LONGEST_TURN_S, Terms
from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.core.scheduling.scheduler import Scheduler
from inferwire_server.core.states import ResetStates
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError

U8 = BY_NAME["u8"]
CANCELLED = ServingError(Code.CANCELLED, "cancelled by the test")
FAILURE = ServingError(Code.INFERENCE_FAILED, "no")


def a_job(rows: int = 1, width: int = 1, now: float = 0.0, priority: int = 0, deadline: float | None = None) -> Job:
    shape = (rows, width)
    return Job("m", Work((Tensor(U8, shape, bytes(rows * width)),), (0,)), now, priority, deadline)


def a_stack(count: int, width: int = 1) -> Job:
    return Job("m", Work((Tensor(U8, (count, width), bytes(count * width)),), (0,), executions=count), 0.0)


def a_scheduler(batching: Batching, slots: int = 1, capacity: int = 100) -> Scheduler:
    scheduler = Scheduler(capacity)
    scheduler.add_model("m", slots, Terms(batching=batching))
    return scheduler


def batches(effects: Iterable[Effect]) -> list[tuple[Job, ...]]:
    return [effect.jobs for effect in effects if isinstance(effect, Start)]


def submitted(scheduler: Scheduler, *jobs: Job, now: float = 0.0) -> list[Effect]:
    return [effect for job in jobs for effect in scheduler.submit(job, now)]


def outcomes(count: int) -> list[Outcome]:
    return [()] * count


@pytest.mark.parametrize("batching", [Batching(8), Batching(8, 1.0), Batching(8, 1.0, (4,))])
def test_one_client_never_waits_for_company(batching: Batching) -> None:
    scheduler = a_scheduler(batching, slots=2)
    for now in range(3):
        job = a_job(now=now)
        assert scheduler.submit(job, now) == [Start((job,), now % 2)]
        assert scheduler.next_wake is None
        scheduler.report("m", now % 2, outcomes(1), now + 0.5)


def test_what_piled_up_while_the_slots_were_busy_runs_together() -> None:
    scheduler = a_scheduler(Batching(8))
    first, *rest = [a_job() for _ in range(4)]
    assert batches(submitted(scheduler, first, *rest)) == [(first,)]
    assert batches(scheduler.report("m", 0, outcomes(1), 1.0)) == [tuple(rest)]
    assert scheduler.occupancy == Occupancy(1, 1, 0)
    assert [job.started_at for job in rest] == [1.0] * 3


def test_what_waits_for_its_turn_runs_together_though_slots_are_idle() -> None:
    scheduler = a_scheduler(Batching(3), slots=2)
    jobs = [a_job() for _ in range(5)]
    assert [scheduler.submit(job, 0.0, waits=True) for job in jobs] == [[]] * 5
    assert scheduler.occupancy == Occupancy(0, 2, 5)
    assert batches(scheduler.wake(0.5)) == [tuple(jobs[:3]), tuple(jobs[3:])]


def test_what_waits_for_its_turn_runs_at_once_where_the_queue_is_full() -> None:
    scheduler = a_scheduler(Batching(3), slots=2, capacity=2)
    jobs = [a_job() for _ in range(4)]
    effects = [scheduler.submit(job, 0.0, waits=True) for job in jobs]
    assert [batches(each) for each in effects] == [[], [tuple(jobs[:2])], [], [tuple(jobs[2:])]]


def test_no_more_rows_run_together_than_may_and_nobody_overtakes_the_one_who_did_not_fit() -> None:
    scheduler = a_scheduler(Batching(4))
    running, two, three, one = a_job(), a_job(2), a_job(3), a_job(1)
    submitted(scheduler, running, two, three, one)
    assert batches(scheduler.report("m", 0, outcomes(1), 1.0)) == [(two,)]
    assert batches(scheduler.report("m", 0, outcomes(1), 2.0)) == [(three, one)]


def test_jobs_that_do_not_go_together_run_one_after_the_other_the_oldest_first() -> None:
    scheduler = a_scheduler(Batching(4))
    running, wide, narrow, wide_too, large = a_job(), a_job(width=2), a_job(), a_job(width=2), a_job(rows=5)
    submitted(scheduler, running, wide, narrow, wide_too, large)
    ran = [batches(scheduler.report("m", 0, outcomes(count), 1.0)) for count in (1, 2, 1)]
    assert ran == [[(wide, wide_too)], [(narrow,)], [(large,)]]


def test_the_most_urgent_leads_and_takes_others_along() -> None:
    scheduler = a_scheduler(Batching(2))
    running, old, middle, urgent = a_job(), a_job(), a_job(), a_job(priority=1)
    submitted(scheduler, running, old, middle, urgent)
    assert batches(scheduler.report("m", 0, outcomes(1), 1.0)) == [(urgent, old)]


def test_a_preferred_size_is_cut_where_it_is_filled() -> None:
    scheduler = a_scheduler(Batching(8, preferred=(2, 4)))
    running, *rest = [a_job() for _ in range(7)]
    submitted(scheduler, running, *rest)
    assert batches(scheduler.report("m", 0, outcomes(1), 1.0)) == [tuple(rest[:4])]
    assert batches(scheduler.report("m", 0, outcomes(4), 2.0)) == [tuple(rest[4:])]


def test_a_cancelled_and_an_expired_job_leave_before_their_run_starts() -> None:
    scheduler = a_scheduler(Batching(8))
    running, kept, cancelled, late = a_job(), a_job(), a_job(), a_job(deadline=0.5)
    submitted(scheduler, running, kept, cancelled, late)
    assert scheduler.cancel(cancelled, CANCELLED, 0.25) == [End(cancelled)]
    assert scheduler.wake(0.5) == [End(late)]
    assert batches(scheduler.report("m", 0, outcomes(1), 1.0)) == [(kept,)]


def test_a_run_is_stopped_when_nobody_waits_for_it_any_more() -> None:
    scheduler = a_scheduler(Batching(8))
    running, one, other = a_job(), a_job(), a_job()
    submitted(scheduler, running, one, other)
    scheduler.report("m", 0, outcomes(1), 1.0)
    assert scheduler.cancel(one, CANCELLED, 2.0) == [End(one)]
    assert one.state is JobState.CANCELLED
    assert scheduler.jobs == (other,)
    assert scheduler.cancel(other, CANCELLED, 2.0) == [End(other), Stop("m", 0)]
    assert scheduler.report("m", 0, (CANCELLED, CANCELLED), 3.0) == []


def test_each_job_of_a_run_has_an_outcome_of_its_own() -> None:
    scheduler = a_scheduler(Batching(8))
    running, good, bad, gone = a_job(), a_job(), a_job(), a_job()
    submitted(scheduler, running, good, bad, gone)
    scheduler.report("m", 0, outcomes(1), 1.0)
    scheduler.cancel(gone, CANCELLED, 1.5)
    assert scheduler.report("m", 0, ((), FAILURE, ()), 2.0) == [End(good), End(bad)]
    assert [job.state for job in (good, bad, gone)] == [JobState.FINISHED, JobState.FAILED, JobState.CANCELLED]


def test_a_run_of_several_that_reports_too_few_outcomes_is_a_bug() -> None:
    scheduler = a_scheduler(Batching(8))
    submitted(scheduler, a_job(), a_job(), a_job())
    scheduler.report("m", 0, outcomes(1), 1.0)
    with pytest.raises(ValueError, match="shorter"):
        scheduler.report("m", 0, outcomes(1), 2.0)


def test_few_rows_wait_for_more_while_another_run_is_under_way_and_no_longer_than_the_delay() -> None:
    scheduler = a_scheduler(Batching(4, 1.0), slots=2)
    running, waiting, joining = a_job(), a_job(now=0.25), a_job(now=0.5)
    assert batches(submitted(scheduler, running, waiting, joining)) == [(running,)]
    assert scheduler.next_wake == 1.25
    assert scheduler.wake(1.0) == []
    assert batches(scheduler.wake(1.25)) == [(waiting, joining)]
    assert scheduler.next_wake is None


def test_waiting_is_counted_from_the_oldest_however_urgent_those_are_that_come_later() -> None:
    scheduler = a_scheduler(Batching(8, 1.0), slots=2)
    running, old, urgent = a_job(), a_job(), a_job(now=0.75, priority=1)
    submitted(scheduler, running, old)
    assert scheduler.submit(urgent, 0.75) == []
    assert scheduler.next_wake == 1.0
    assert batches(scheduler.wake(1.0)) == [(urgent, old)]


@pytest.mark.parametrize("deadline", [0.5, 1.0])
def test_nobody_waits_for_company_past_a_deadline(deadline: float) -> None:
    scheduler = a_scheduler(Batching(8, 1.0), slots=2)
    running, waiting, hurried = a_job(), a_job(deadline=1.5), a_job(now=0.25, deadline=deadline)
    assert batches(submitted(scheduler, running, waiting)) == [(running,)]
    assert batches(scheduler.submit(hurried, 0.25)) == [(waiting, hurried)]


def test_those_that_wait_for_company_beside_an_idle_slot_fill_the_queue_as_all_others_do() -> None:
    scheduler = a_scheduler(Batching(4, 1000.0), slots=3, capacity=2)
    running, one, other = a_job(), a_job(), a_job()
    submitted(scheduler, running, one, other)
    assert scheduler.occupancy == Occupancy(1, 3, 2)
    with pytest.raises(ServingError, match="2 jobs are waiting, at most 2 may"):
        scheduler.submit(a_job(width=2), 0.0)
    large, filling = a_job(rows=5), a_job(rows=2)
    assert batches(scheduler.submit(large, 0.0)) == [(large,)]
    assert batches(scheduler.submit(filling, 0.0)) == [(one, other, filling)]


def test_waiting_ends_with_the_run_it_relied_on() -> None:
    scheduler = a_scheduler(Batching(4, 1000.0), slots=2)
    running, waiting = a_job(), a_job()
    submitted(scheduler, running, waiting)
    assert batches(scheduler.report("m", 0, outcomes(1), 0.5)) == [(waiting,)]


def test_waiting_ends_when_enough_rows_are_there() -> None:
    scheduler = a_scheduler(Batching(8, 1000.0, (3,)), slots=2)
    running, one, two = a_job(), a_job(), a_job(2)
    assert batches(submitted(scheduler, running, one)) == [(running,)]
    assert batches(submitted(scheduler, two)) == [(one, two)]


def test_rows_that_wait_do_not_hold_up_another_model() -> None:
    scheduler = a_scheduler(Batching(4, 1000.0), slots=2)
    scheduler.add_model("other", 1)
    submitted(scheduler, a_job(), a_job())
    other = Job("other", Work((), ()), 0.0)
    assert batches(scheduler.submit(other, 0.0)) == [(other,)]


def test_no_wake_is_asked_for_what_cannot_start_before_a_report() -> None:
    scheduler = Scheduler(100, places=1)
    scheduler.add_model("m", 2, Terms(batching=Batching(4, 1.0)))
    submitted(scheduler, a_job(), a_job())
    assert scheduler.next_wake is None


def test_a_removed_model_ends_every_group_and_drains_after_its_last_run() -> None:
    scheduler = a_scheduler(Batching(4))
    running, narrow, wide = a_job(), a_job(), a_job(width=2)
    submitted(scheduler, running, narrow, wide)
    gone = ServingError(Code.MODEL_NOT_READY, "unloaded by the test")
    assert scheduler.remove_model("m", gone, 1.0) == [End(narrow), End(wide)]
    assert scheduler.report("m", 0, outcomes(1), 2.0) == [End(running), Drained("m")]


def test_a_stack_waits_as_so_many_executions_and_runs_with_what_waits_beside_it() -> None:
    scheduler = a_scheduler(Batching(8))
    running, one, stack, large = a_job(), a_job(), a_stack(4), a_stack(4)
    submitted(scheduler, running, one, stack, large)
    assert scheduler.occupancy == scheduler.occupancy_of("m") == Occupancy(1, 1, 9)
    assert batches(scheduler.report("m", 0, outcomes(1), 1.0)) == [(one, stack)]
    assert scheduler.occupancy == Occupancy(1, 1, 4)


def counts(works: Sequence[Work]) -> list[int]:
    return [work.executions for work in works]


def test_a_stack_takes_as_much_room_as_its_executions() -> None:
    scheduler = a_scheduler(Batching(8), capacity=6)
    submitted(scheduler, a_job(), a_stack(2))
    with pytest.raises(ServingError, match="2 jobs are waiting, at most 6 may"):
        scheduler.submit(a_stack(5), 0.0)
    assert counts(scheduler.divide("m", a_stack(5).work)) == [1] * 5
    assert counts(scheduler.divide("m", a_stack(4).work)) == [4]
    submitted(scheduler, a_stack(4))
    assert scheduler.occupancy.queued == 6


def test_a_stack_carries_what_its_executions_do() -> None:
    scheduler = Scheduler(100, most_bytes=10)
    scheduler.add_model("m", 1, Terms(batching=Batching(8)))
    submitted(scheduler, a_job(), a_job())
    carrying = a_stack(4).work._replace(carried_bytes=12)
    found = scheduler.divide("m", carrying)
    assert [work.carried_bytes for work in found] == [3] * 4
    submitted(scheduler, *(Job("m", work, 0.0) for work in found[:3]))
    with pytest.raises(ServingError, match="queue is full"):
        scheduler.submit(Job("m", found[3], 0.0), 0.0)
    assert counts(scheduler.divide("m", a_stack(4).work)) == [4]


def test_a_stack_finds_room_in_a_full_queue_where_it_need_not_wait_or_is_its_model_s_part() -> None:
    scheduler = Scheduler(4, places=2)
    for model in ("full", "m", "third"):
        scheduler.add_model(model, 1, Terms(batching=Batching(8)))
    submitted(scheduler, *(Job("full", Work((), ()), 0.0) for _ in range(5)))
    assert scheduler.occupancy == Occupancy(1, 2, 4)
    assert counts(scheduler.divide("m", a_stack(8).work)) == [8]
    assert counts(scheduler.divide("m", a_stack(9).work)) == [1] * 9
    submitted(scheduler, a_stack(8), a_job())
    assert counts(scheduler.divide("m", a_stack(2).work)) == [1, 1]
    assert counts(scheduler.divide("gone", a_stack(2).work)) == [2]


def test_a_stack_is_cut_into_what_the_model_runs_together() -> None:
    scheduler = a_scheduler(Batching(8))
    assert counts(scheduler.divide("m", a_stack(20).work)) == [8, 8, 4]
    threes = Work((Tensor(U8, (15, 1), bytes(15)),), (0,), executions=5)
    assert counts(scheduler.divide("m", threes)) == [2, 2, 1]
    nines = Work((Tensor(U8, (18, 1), bytes(18)),), (0,), executions=2)
    assert counts(scheduler.divide("m", nines)) == [1, 1]
    none = Work((Tensor(U8, (0, 1), b""),), (0,), executions=2)
    assert counts(scheduler.divide("m", none)) == [1, 1]
    of_two_kinds = Work((Tensor(U8, (4, 1), bytes(4)), Tensor(U8, (2, 1), bytes(2))), (0,), executions=2)
    assert counts(scheduler.divide("m", of_two_kinds)) == [1, 1]
    profiled = a_stack(2).work._replace(is_profiled=True)
    assert counts(scheduler.divide("m", profiled)) == [1, 1]


def test_of_a_model_without_batching_a_slot_runs_as_many_one_by_one_as_are_soon_done() -> None:
    scheduler = Scheduler(100)
    scheduler.add_model("m", 1)
    assert counts(scheduler.divide("m", a_stack(20).work)) == [1] * 20
    now = 0.0
    for _ in range(100):
        submitted(scheduler, a_job(now=now), now=now)
        now += LONGEST_TURN_S / 7
        scheduler.report("m", 0, outcomes(1), now)
    found = scheduler.divide("m", a_stack(20).work)
    assert (counts(found), {work.one_by_one for work in found}) == ([7, 7, 6], {True})
    (stack,) = [Job("m", work, now) for work in found[:1]]
    assert batches(submitted(scheduler, stack, now=now)) == [(stack,)]
    scheduler.report("m", 0, outcomes(1), now + LONGEST_TURN_S)
    assert counts(scheduler.divide("m", a_stack(20).work)) == [7, 7, 6]
    for _ in range(100):
        submitted(scheduler, a_job(now=now), now=now)
        now += LONGEST_TURN_S * 2
        scheduler.report("m", 0, outcomes(1), now)
    assert counts(scheduler.divide("m", a_stack(3).work)) == [1] * 3
    for _ in range(100):
        submitted(scheduler, a_job(now=now), now=now)
        now += LONGEST_TURN_S / 7.5
        scheduler.report("m", 0, outcomes(1), now)
    assert counts(scheduler.divide("m", a_stack(20).work)) == [7, 7, 6]


def test_a_run_that_took_no_time_by_its_clock_says_nothing_of_how_many_are_soon_done() -> None:
    scheduler = Scheduler(100)
    scheduler.add_model("m", 1)
    submitted(scheduler, a_job())
    scheduler.report("m", 0, outcomes(1), 0.0)
    assert counts(scheduler.divide("m", a_stack(3).work)) == [1] * 3


def end_at_once(scheduler: Scheduler, job: Job) -> None:
    scheduler.cancel(job, CANCELLED, job.submitted_at)


@pytest.mark.parametrize(
    ("work", "outcome", "meanwhile"),
    [
        (a_job().work, FAILURE, None),
        (a_stack(2).work._replace(one_by_one=True), Apart(((), FAILURE)), None),
        (a_job().work, (), end_at_once),
        (Work((), (), states=ResetStates()), (), None),
    ],
    ids=["failed", "one failed", "cancelled", "no inference"],
)
def test_how_long_executions_take_is_learned_only_from_those_that_gave_outputs(
    work: Work, outcome: Outcome, meanwhile: Callable[[Scheduler, Job], None] | None
) -> None:
    scheduler = Scheduler(100)
    scheduler.add_model("m", 1)
    submitted(scheduler, a_job())
    now = LONGEST_TURN_S / 2
    scheduler.report("m", 0, outcomes(1), now)
    for _ in range(100):
        job = Job("m", work, now)
        submitted(scheduler, job, now=now)
        if meanwhile is not None:
            meanwhile(scheduler, job)
        scheduler.report("m", 0, [outcome], now)
    assert counts(scheduler.divide("m", a_stack(6).work)) == [2, 2, 2]


def test_a_stack_whose_executions_are_dropped_one_by_one_ends_with_the_last() -> None:
    scheduler = a_scheduler(Batching(8))
    running, waiting = a_stack(2), a_stack(3)
    submitted(scheduler, running, waiting)
    assert [scheduler.drop(waiting, position, CANCELLED, 0.5) for position in (1, 0, 1)] == [[], [], []]
    assert (waiting.state, waiting.dropped, scheduler.occupancy.queued) == (JobState.QUEUED, {0, 1}, 3)
    assert scheduler.drop(waiting, 2, CANCELLED, 0.5) == [End(waiting)]
    assert scheduler.occupancy.queued == 0
    assert scheduler.drop(running, 0, CANCELLED, 0.5) == []
    assert scheduler.drop(running, 1, CANCELLED, 0.5) == [End(running), Stop("m", 0)]
    assert scheduler.drop(running, 1, CANCELLED, 0.5) == []
    assert running.state is JobState.CANCELLED


def test_a_run_with_a_dropped_stack_goes_on_for_the_others() -> None:
    scheduler = a_scheduler(Batching(8))
    first, stack, other = a_job(), a_stack(1), a_job()
    submitted(scheduler, first, stack, other)
    scheduler.report("m", 0, outcomes(1), 1.0)
    assert scheduler.drop(stack, 0, CANCELLED, 2.0) == [End(stack)]
    assert scheduler.drop(other, 0, CANCELLED, 2.0) == [End(other), Stop("m", 0)]


def test_a_stack_that_ran_one_by_one_ends_with_what_each_gave() -> None:
    scheduler = a_scheduler(Batching(8))
    stack = a_stack(2)
    submitted(scheduler, stack)
    apart = Apart(((), FAILURE))
    assert scheduler.report("m", 0, [apart], 1.0) == [End(stack)]
    assert (stack.state, stack.apart) == (JobState.FINISHED, apart.results)


class BatchMachine(RuleBasedStateMachine):
    """Any sequence of calls, compared with a list of what waits and plain rules over it."""

    CAPACITY = 100
    SLOTS = 2
    MAX_ROWS = 4
    DELAY = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.scheduler = a_scheduler(Batching(self.MAX_ROWS, self.DELAY), self.SLOTS, self.CAPACITY)
        self.waiting: list[Job] = []
        self.running: dict[int, tuple[Job, ...]] = {}
        self.ended: list[Job] = []
        self.submitted = 0

    def shape(self, job: Job) -> tuple[int, ...]:
        return job.work.inputs[0].shape

    def next_batch(self) -> tuple[Job, ...] | None:
        """Find by plain search what is to start next."""
        in_order = sorted(self.waiting, key=lambda job: -job.priority)
        for first in in_order:
            rows, width = self.shape(first)
            alike = [job for job in in_order if self.shape(job)[1] == width and self.shape(job)[0] <= self.MAX_ROWS]
            if rows > self.MAX_ROWS:
                return (first,)
            if alike[0] is not first:
                continue
            is_filled = sum(self.shape(job)[0] for job in alike) >= self.MAX_ROWS
            until = min(job.submitted_at for job in alike) + self.DELAY
            is_late = any(job.deadline is not None and job.deadline <= until for job in alike)
            if self.running and not is_filled and not is_late and self.now < until:
                continue
            batch: list[Job] = []
            for job in alike:
                if sum(self.shape(other)[0] for other in (*batch, job)) > self.MAX_ROWS:
                    break
                batch.append(job)
            return tuple(batch)
        return None

    def is_welcome(self, job: Job) -> bool:
        """Say by plain search whether a job finds room, or need not wait."""
        if len(self.waiting) < self.CAPACITY:
            return True
        rows, width = self.shape(job)
        alike = sum(self.shape(other)[0] for other in self.waiting if self.shape(other)[1] == width)
        is_due = not self.running or rows > self.MAX_ROWS or alike + rows >= self.MAX_ROWS
        return len(self.running) < self.SLOTS and is_due

    def follow(self, effects: list[Effect]) -> None:
        """Check every start against the search, and every end against what was there."""
        for effect in effects:
            if isinstance(effect, Start):
                assert len(self.running) < self.SLOTS
                assert effect.slot not in self.running
                assert effect.jobs == self.next_batch()
                self.running[effect.slot] = effect.jobs
                self.waiting = [job for job in self.waiting if job not in effect.jobs]
            if isinstance(effect, End):
                assert effect.job not in self.ended
                self.ended.append(effect.job)
                self.waiting = [job for job in self.waiting if job is not effect.job]

    @rule(
        rows=st.integers(1, 5),
        width=st.integers(1, 2),
        priority=st.integers(0, 1),
        patience=st.none() | st.integers(0, 4),
    )
    def submit(self, rows: int, width: int, priority: int, patience: int | None) -> None:
        self.submit_job(a_job(rows, width, self.now, priority, None if patience is None else self.now + patience))

    @rule(sizes=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 2)), min_size=1, max_size=6))
    def submit_in_one_turn(self, sizes: list[tuple[int, int]]) -> None:
        for rows, width in sizes:
            has_room = len(self.waiting) + 1 < self.CAPACITY
            effects = self.submit_job(a_job(rows, width, self.now), waits=True)
            assert effects == [] or not has_room
        self.follow(self.scheduler.wake(self.now))

    def submit_job(self, job: Job, *, waits: bool = False) -> list[Effect]:
        is_welcome = self.is_welcome(job)
        try:
            effects = self.scheduler.submit(job, self.now, waits=waits)
        except ServingError:
            assert not is_welcome
            return []
        assert is_welcome
        self.submitted += 1
        self.waiting.append(job)
        self.follow(effects)
        return effects

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def report(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(sorted(self.running)))
        jobs = self.running.pop(slot)
        fails = data.draw(st.lists(st.booleans(), min_size=len(jobs), max_size=len(jobs)))
        states = [
            job.state if job.state.is_terminal else JobState.FAILED if failed else JobState.FINISHED
            for job, failed in zip(jobs, fails, strict=True)
        ]
        given: list[Outcome] = [FAILURE if failed else () for failed in fails]
        self.follow(self.scheduler.report("m", slot, given, self.now))
        assert [job.state for job in jobs] == states

    @precondition(lambda self: self.waiting or self.running)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        running = [job for jobs in self.running.values() for job in jobs]
        job = data.draw(st.sampled_from([*self.waiting, *running]))
        was_over = job.state.is_terminal
        effects = self.scheduler.cancel(job, CANCELLED, self.now)
        stops = [effect.slot for effect in effects if isinstance(effect, Stop)]
        over = [slot for slot, jobs in self.running.items() if all(other.state.is_terminal for other in jobs)]
        assert stops == ([slot for slot in over if job in self.running[slot]] if not was_over else [])
        self.follow(effects)

    @rule(step=st.integers(0, 3))
    def pass_time(self, step: int) -> None:
        wake_at = self.scheduler.next_wake
        before = (len(self.waiting), len(self.ended))
        self.now += step
        self.follow(self.scheduler.wake(self.now))
        if wake_at is None or self.now < wake_at:
            assert (len(self.waiting), len(self.ended)) == before

    @invariant()
    def nothing_is_lost(self) -> None:
        running = [job for jobs in self.running.values() for job in jobs if not job.state.is_terminal]
        assert self.submitted == len(self.waiting) + len(running) + len(self.ended)
        assert self.scheduler.occupancy == Occupancy(len(self.running), self.SLOTS, len(self.waiting))

    @invariant()
    def what_may_start_has_started(self) -> None:
        if len(self.running) < self.SLOTS:
            assert self.next_batch() is None or self.scheduler.next_wake is not None
        if not self.running:
            assert not self.waiting


class FullBatchMachine(BatchMachine):
    """The same where few may wait."""

    CAPACITY = 2


TestBatchMachine = BatchMachine.TestCase
TestFullBatchMachine = FullBatchMachine.TestCase
